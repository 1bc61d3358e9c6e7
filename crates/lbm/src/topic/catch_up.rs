//! Fetching messages over TCP: late join, and off-transport recovery of what the transport has lost.

use std::collections::BTreeMap;

use crate::wire::header::{Header, LateJoinInfo, LateJoinRequest, RetransmitRequest};
use core::net::Ipv4Addr;

/// How a receiver fetches retained messages.
#[derive(Clone, Debug)]
pub struct CatchUpConfig {
    /// Whether to ask for what was sent before: `use_late_join`.
    pub late_join: bool,
    /// Whether to ask for what the transport has lost: `use_otr`.
    pub recovery: bool,
    /// Between questions which messages are retained, ns: `late_join_info_request_interval`.
    pub info_interval_ns: u64,
    /// How many such questions: `late_join_info_request_maximum`.
    pub info_maximum: u32,
    /// Between questions for one message, ns: `retransmit_request_interval`.
    pub request_interval_ns: u64,
    /// Questions at a time: `retransmit_request_outstanding_maximum`.
    pub outstanding_maximum: usize,
    /// How many messages to fetch at a late join, 0 = all: `retransmit_request_maximum`.
    pub maximum: u32,
    /// A message is given up after this time, ns: `retransmit_request_message_timeout`.
    pub message_timeout_ns: u64,
    /// Messages missing or waiting at a time: `delivery_control_maximum_total_map_entries`.
    pub entries_maximum: usize,
    /// Transport index of the source's late-join option, for requests.
    pub transport: u32,
    /// Our request port and address: where answers go.
    pub reply: (Ipv4Addr, u16),
}

impl Default for CatchUpConfig {
    fn default() -> Self {
        Self {
            late_join: false,
            recovery: false,
            info_interval_ns: 1_000_000_000,
            info_maximum: 60,
            request_interval_ns: 500_000_000,
            outstanding_maximum: 10,
            maximum: 0,
            message_timeout_ns: 10_000_000_000,
            entries_maximum: 200_000,
            transport: 0,
            reply: (Ipv4Addr::UNSPECIFIED, 0),
        }
    }
}

/// What became of a number.
#[derive(Debug)]
pub(super) enum Entry {
    /// To be asked for; since when, and when next. `asked` numbers count as outstanding.
    Wanted { since: u64, next: u64, asked: bool },
    /// An encoded message.
    Here(Vec<u8>),
    /// Given up.
    Lost,
}

/// Numbers from the receiver's expected one on, while some of them have to be fetched. Keys are distances from `base`, so that order
/// survives the wrap of sequence numbers.
#[derive(Debug)]
pub(super) struct CatchUp {
    base: u32,
    entries: BTreeMap<u32, Entry>,
    /// The question for retained messages: (next time, how often asked).
    info: Option<(u64, u32)>,
    outstanding: usize,
    request: u32,
    /// Key after the newest number that is known.
    end: u32,
}

impl CatchUp {
    pub(super) fn new(base: u32) -> Self {
        Self { base, entries: BTreeMap::new(), info: None, outstanding: 0, request: 0, end: 0 }
    }

    pub(super) fn ask_info(&mut self, now: u64) {
        self.info = Some((now, 0));
    }

    /// The source's answer is not waited for any more.
    pub(super) fn skip_info(&mut self) {
        self.info = None;
    }

    pub(super) fn awaits_info(&self) -> bool {
        self.info.is_some()
    }

    fn key(&self, sqn: u32) -> u32 {
        sqn.wrapping_sub(self.base)
    }

    /// Keeps a message unless its number is known already.
    pub(super) fn keep(&mut self, sqn: u32, encoded: &[u8], limit: usize) {
        let key = self.key(sqn);
        if key > u32::MAX / 2 {
            return;
        }
        if let Some(Entry::Wanted { asked: true, .. }) = self.entries.get(&key) {
            self.outstanding -= 1;
        }
        self.end = self.end.max(key + 1);
        match self.entries.get(&key) {
            Some(Entry::Here(_) | Entry::Lost) => {}
            None if self.entries.len() >= limit => {
                // The oldest gap is given up for the sake of the newest message.
                self.give_up_first();
                self.entries.insert(key, Entry::Here(encoded.to_vec()));
            }
            _ => drop(self.entries.insert(key, Entry::Here(encoded.to_vec()))),
        }
    }

    fn give_up_first(&mut self) {
        for entry in self.entries.values_mut() {
            match entry {
                Entry::Wanted { asked, .. } => {
                    self.outstanding -= usize::from(*asked);
                    *entry = Entry::Lost;
                }
                _ => return,
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Everything that is still wanted is lost.
    pub(super) fn give_up(&mut self) {
        self.info = None;
        self.outstanding = 0;
        for entry in self.entries.values_mut().filter(|entry| matches!(entry, Entry::Wanted { .. })) {
            *entry = Entry::Lost;
        }
    }

    /// What lies between the newest known number, or `first`, and `end` is to be fetched.
    pub(super) fn want_new(&mut self, now: u64, first: u32, end: u32, limit: usize) {
        let known = self.base.wrapping_add(self.end);
        self.want(now, if self.end == 0 { first } else { known }, end, limit);
    }

    /// The numbers from `first` to before `end` are to be fetched, at most `limit` entries in all; the others are lost.
    fn want(&mut self, now: u64, first: u32, end: u32, limit: usize) {
        let (mut key, end) = (self.key(first), self.key(end));
        if end > u32::MAX / 2 {
            return;
        }
        self.end = self.end.max(end);
        while key < end && self.entries.len() < limit {
            self.entries.entry(key).or_insert(Entry::Wanted { since: now, next: now, asked: false });
            key += 1;
        }
    }

    /// The source's answer; returns where delivery begins. `live` is the first message that came by itself.
    pub(super) fn info(&mut self, now: u64, info: &LateJoinInfo, live: u32, config: &CatchUpConfig) -> Option<u32> {
        self.info.take()?;
        let retained = info.high_sqn.wrapping_sub(info.low_sqn).wrapping_add(1);
        // Only what lies before the first live message, and not more than is asked for.
        let before = live.wrapping_sub(info.low_sqn);
        if retained == 0 || before == 0 || before > u32::MAX / 2 {
            return None;
        }
        let limit = (config.entries_maximum / 2) as u32;
        let most = if config.maximum == 0 { limit } else { config.maximum.min(limit) };
        let low = live.wrapping_sub(before.min(most));
        self.rebase(low);
        self.want(now, low, live, config.entries_maximum);
        Some(low)
    }

    fn rebase(&mut self, base: u32) {
        let shift = self.base.wrapping_sub(base);
        self.base = base;
        self.end = self.end.wrapping_add(shift);
        self.entries =
            core::mem::take(&mut self.entries).into_iter().map(|(k, e)| (k.wrapping_add(shift), e)).collect();
    }

    /// Takes the entry of `expected`, if it is settled.
    pub(super) fn settled(&mut self, expected: u32) -> Option<Entry> {
        let key = self.key(expected);
        match self.entries.get(&key)? {
            Entry::Wanted { .. } => None,
            Entry::Here(_) | Entry::Lost => self.entries.remove(&key),
        }
    }

    /// Asserts what the entries promise, while `expected` is the next number to be delivered: for simulations.
    pub(super) fn check_invariants(&self, expected: u32, config: &CatchUpConfig) {
        let asked = self.entries.values().filter(|entry| matches!(entry, Entry::Wanted { asked: true, .. })).count();
        assert_eq!(self.outstanding, asked, "questions that wait for an answer");
        assert!(asked <= config.outstanding_maximum.max(1), "more is asked at a time than may be: {asked}");
        if let Some((last, _)) = self.entries.last_key_value() {
            assert!(*last < self.end, "{last} is known, and the newest is before {}", self.end);
            assert!(*last <= u32::MAX / 2, "{last} numbers from the first to the last are too many to be in order");
        }
        for (key, entry) in &self.entries {
            let Entry::Wanted { since, next, asked: true } = *entry else { continue };
            // Due a moment later if no time is allowed at all.
            let until = since.saturating_add(config.message_timeout_ns).saturating_add(1);
            assert!(next <= until, "{key} is to be given up at {until}, and looked at only at {next}");
        }
        let limit = config.entries_maximum.max(2);
        assert!(self.entries.len() <= limit + 1, "{} entries of {limit}", self.entries.len());
        // While the source's answer is awaited nothing was delivered, and afterwards what was is not here any more.
        if self.info.is_none() {
            let first = self.entries.first_key_value().map(|(key, entry)| (key.wrapping_add(self.base), entry));
            let waits = matches!(first, Some((first, Entry::Wanted { .. })) if first == expected);
            assert!(waits, "{expected} is next, and not waited for; the first that is known is {first:?}");
        }
        assert!(self.timeout(config.outstanding_maximum).is_some(), "something is wanted, and nobody will ask for it");
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// First number known, wanted or here.
    pub(super) fn first(&self) -> Option<u32> {
        self.entries.keys().next().map(|key| key.wrapping_add(self.base))
    }

    pub(super) fn timeout(&self, outstanding_maximum: usize) -> Option<u64> {
        let full = self.outstanding >= outstanding_maximum.max(1);
        // Nothing else is asked before that.
        if let Some((at, _)) = self.info {
            return Some(at);
        }
        // Messages that were not asked for yet wait for an answer to another one.
        let ready = |entry: &Entry| match entry {
            Entry::Wanted { next, asked, .. } if *asked || !full => Some(*next),
            _ => None,
        };
        let wanted = self.entries.values().filter_map(ready).take(outstanding_maximum.max(1) + 1);
        wanted.min()
    }

    /// Asks. True if nobody answered the question for retained messages.
    pub(super) fn on_timer(
        &mut self,
        now: u64,
        topic: u32,
        config: &CatchUpConfig,
        mut ask: impl FnMut(Header<'_>),
    ) -> bool {
        if let Some((at, asked)) = self.info {
            if now < at {
                return false;
            }
            if asked >= config.info_maximum {
                self.info = None;
                return true;
            }
            self.info = Some((now.saturating_add(config.info_interval_ns.max(1)), asked + 1));
            self.request = self.request.wrapping_add(1);
            ask(Header::LateJoinRequest(LateJoinRequest {
                flags: 0x0006,
                request: self.request,
                transport: config.transport,
                topic,
                address: config.reply.0,
                port: config.reply.1,
                low_sqn: 0,
                requests_max: config.maximum,
                outstanding_max: config.outstanding_maximum as u32,
            }));
            return false;
        }
        let (base, entries) = (self.base, &mut self.entries);
        for (key, entry) in entries.iter_mut() {
            let Entry::Wanted { since, next, asked } = entry else { continue };
            if !*asked && self.outstanding >= config.outstanding_maximum.max(1) {
                break;
            }
            if now < *next {
                continue;
            }
            if *asked && now.saturating_sub(*since) >= config.message_timeout_ns {
                self.outstanding -= 1;
                *entry = Entry::Lost;
                continue;
            }
            if !core::mem::replace(asked, true) {
                self.outstanding += 1;
                *since = now;
            }
            *next = now
                .saturating_add(config.request_interval_ns.max(1))
                .min(since.saturating_add(config.message_timeout_ns));
            *next = (*next).max(now + 1);
            self.request = self.request.wrapping_add(1);
            ask(Header::RetransmitRequest(RetransmitRequest {
                flags: 0,
                request: self.request,
                transport: config.transport,
                topic,
                sqn: key.wrapping_add(base),
                port: config.reply.1,
                address: config.reply.0,
            }));
        }
        false
    }
}
