//! The persistent receiver of one source: registers at the source's stores, gets from them what it has missed, and tells them what was
//! consumed.
//!
//! Messages come as the transport brings them, out of order and fragment by fragment; [`Topic`] has all sources of a topic. Connections to
//! stores are named by their place in the source's list.

mod config;
mod order;
mod registration;
mod topic;

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use lbm::topic::Message;
use lbm::wire::WireError;
use lbm::wire::header::RetransmitRequest;
use lbm::wire::lbmc::{self, Kind, Messages};

pub use self::config::{Consensus, ReceiverConfig};
use self::order::InOrder;
pub use self::order::{Delivered, encode};
pub use self::topic::{Topic, TopicEvent};
use crate::Outbox;
use crate::epochs::{Cut, Epochs};
use crate::wire::{Refusal, Ume, control};

/// Where a receiver begins, before the application says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The first number that was not consumed.
    pub low: u32,
    /// The newest that the stores have; `low - 1`: there is nothing to recover.
    pub high: u32,
}

/// Takes what receivers deliver. `source` is a number of the source among those of the topic.
pub trait Sink {
    /// Recovery begins; returns the first number that is wanted: `ume_recovery_sequence_number_info_function`.
    fn recovery(&mut self, source: u32, recovery: Recovery) -> u32 {
        let _ = source;
        recovery.low
    }

    /// A message, in order, each once.
    fn message(&mut self, source: u32, message: Delivered<'_>);

    /// Numbers that no store has, first and count.
    fn lost(&mut self, source: u32, first: u32, count: u32);
}

/// What has happened at a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// The store is to be connected.
    Dial {
        /// The store's place.
        store: usize,
        /// Where it is.
        to: SocketAddrV4,
    },
    /// The connection is to be closed.
    HangUp {
        /// The store's place.
        store: usize,
    },
    /// The receiver is registered there, under this id.
    Registered {
        /// The store's place.
        store: usize,
        /// The registration id: worth saving.
        reg_id: u32,
    },
    /// The store does not take the receiver.
    Refused {
        /// The store's place.
        store: usize,
        /// Why not.
        refusal: Refusal,
    },
    /// The store has gone, or is silent.
    Unresponsive {
        /// The store's place.
        store: usize,
    },
}

#[derive(Debug)]
struct StoreEntry {
    at: SocketAddrV4,
    source_reg_id: u32,
    connected: bool,
    dialling: bool,
    registered: bool,
    reg_id: u32,
    /// Its answer: what it knows as consumed, its newest, whether the receiver was new there.
    low: u32,
    high: u32,
    is_new: bool,
    epochs: Epochs,
    /// From this number on its messages may be those of an earlier incarnation.
    valid_before: u64,
    heard_at: u64,
    next_at: u64,
    attempts: u32,
    /// All before this number was acknowledged there.
    acked: u64,
}

/// A message that stores are asked for.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    since: u64,
    again_at: u64,
    store: usize,
    /// Stores that do not have it.
    without: u64,
}

/// Counters of a persistent receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Messages delivered.
    pub delivered: u64,
    /// Of them, those that came again.
    pub repeated: u64,
    /// Numbers that no store has.
    pub lost: u64,
    /// Questions for messages.
    pub requests: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    number: u32,
    topic: Box<[u8]>,
    topic_index: u32,
    stores: Vec<StoreEntry>,
    epochs: Epochs,
    order: InOrder,
    /// Where to begin is known.
    running: bool,
    /// Once a store has answered: when the others are waited for no more.
    begin_at: Option<u64>,
    /// Behind the newest number that is known to have been sent.
    known_end: u64,
    /// Numbers before this one are asked for; those behind it are left to the transport.
    fetch_before: u64,
    /// Numbers before this one were looked at.
    scanned: u64,
    gap_since: Option<u64>,
    wanted: BTreeMap<u64, Wanted>,
    requests: BTreeMap<u32, u64>,
    next_request: u32,
    /// All before this number was consumed.
    consumed: u64,
    ack_due: u64,
    keepalive_due: u64,
    due: u64,
    out: Outbox,
    events: Vec<ReceiverEvent>,
    stats: ReceiverStats,
}

/// What a source says of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceInfo {
    pub(crate) topic_index: u32,
    pub(crate) high: u32,
    pub(crate) epochs: Epochs,
    /// Each store, and the source's registration id there.
    pub(crate) stores: Vec<(SocketAddrV4, u32)>,
}

impl SourceInfo {
    /// Reads it from a control message. `None`: it is something else.
    pub(crate) fn of(message: &lbmc::Message<'_>) -> Result<Option<Self>, WireError> {
        let (mut info, mut found) = (Self::default(), false);
        for header in message.headers() {
            match Ume::of(&header?)? {
                Some(Ume::Info { high, .. }) => (found, info.high) = (true, high),
                Some(Ume::TopicIndex(index)) => info.topic_index = index,
                Some(Ume::Epochs { pairs, .. }) => info.epochs = Epochs::read(pairs),
                Some(Ume::Store { port, address, reg_id, .. }) if info.stores.len() < 64 => {
                    info.stores.push((SocketAddrV4::new(address, port), reg_id));
                }
                _ => {}
            }
        }
        Ok(found.then_some(info))
    }
}

impl Receiver {
    fn new(now: u64, number: u32, config: ReceiverConfig, topic: Box<[u8]>) -> Self {
        Self {
            keepalive_due: now.saturating_add(config.keepalive_interval_ns),
            config,
            number,
            topic,
            topic_index: 0,
            stores: Vec::new(),
            epochs: Epochs::default(),
            order: InOrder::default(),
            running: false,
            begin_at: None,
            known_end: 0,
            fetch_before: 0,
            scanned: 0,
            gap_since: None,
            wanted: BTreeMap::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            consumed: 0,
            ack_due: u64::MAX,
            due: now,
            out: Outbox::default(),
            events: Vec::new(),
            stats: ReceiverStats::default(),
        }
    }

    /// Whether the source of these stores is this receiver's.
    fn is_of(&self, info: &SourceInfo) -> bool {
        self.stores.iter().any(|s| info.stores.contains(&(s.at, s.source_reg_id)))
    }

    /// The source has said which stores it has, and how far it is.
    fn info(&mut self, now: u64, info: &SourceInfo, sink: &mut impl Sink) {
        self.topic_index = info.topic_index;
        for (at, source_reg_id) in &info.stores {
            if let Some(store) = self.stores.iter_mut().find(|s| s.at == *at) {
                if store.source_reg_id != *source_reg_id {
                    (store.source_reg_id, store.registered, store.next_at) = (*source_reg_id, false, now);
                }
                continue;
            }
            self.stores.push(StoreEntry {
                at: *at,
                source_reg_id: *source_reg_id,
                connected: false,
                dialling: false,
                registered: false,
                reg_id: self.config.reg_id,
                low: 0,
                high: 0,
                is_new: false,
                epochs: Epochs::default(),
                valid_before: u64::MAX,
                heard_at: now,
                next_at: now,
                attempts: 0,
                acked: 0,
            });
        }
        self.learn(&info.epochs);
        self.judge_stores(now);
        if self.running {
            self.sent(now, info.high.wrapping_add(1));
        }
        self.advance(now, sink);
        self.due = self.due.min(now);
    }

    /// Another incarnation of the source has given numbers again.
    fn learn(&mut self, epochs: &Epochs) {
        if epochs.latest() == 0 || *epochs == self.epochs || !epochs.follow(&self.epochs) {
            // A source whose stores have lost everything counts from the beginning.
            if epochs.latest() != self.epochs.latest() && epochs.count() == 1 && !self.epochs.is_past(epochs.latest()) {
                self.restart(epochs);
            }
            return;
        }
        match epochs.cut(&self.epochs) {
            Cut::Nothing => {}
            Cut::From(from) if self.running => {
                let from = self.order.wide(from);
                self.order.cut(from);
                self.known_end = self.known_end.min(from).max(self.order.expected);
                self.fetch_before = self.fetch_before.min(from);
                self.scanned = self.scanned.min(from).min(self.order.expected);
                self.consumed = self.consumed.min(from);
                self.wanted.retain(|number, _| *number < from);
                self.stores.iter_mut().for_each(|store| store.acked = store.acked.min(from));
            }
            // What waits may be of the earlier incarnation; it is fetched where it is not.
            Cut::From(_) => self.order = InOrder::default(),
            Cut::All => self.restart(epochs),
        }
        self.epochs = epochs.clone();
    }

    /// Stores that have not heard of the source's incarnation may have other messages under its numbers: they are asked for earlier ones
    /// alone, and what they know is asked for again.
    fn judge_stores(&mut self, now: u64) {
        for store in &mut self.stores {
            store.valid_before = match self.epochs.cut(&store.epochs) {
                Cut::Nothing => u64::MAX,
                Cut::From(from) => self.order.wide(from),
                Cut::All => 0,
            };
            if store.registered && store.valid_before != u64::MAX {
                store.next_at = store.next_at.min(now.saturating_add(self.config.request_interval_ns));
            }
        }
    }

    /// Stores that can be asked for a number.
    fn able(&self, number: u64) -> impl Iterator<Item = usize> {
        let is_able = move |(_, s): &(usize, &StoreEntry)| s.registered && number < s.valid_before;
        self.stores.iter().enumerate().filter(is_able).map(|(i, _)| i)
    }

    /// Numbers mean nothing any more: where to begin is asked for again.
    fn restart(&mut self, epochs: &Epochs) {
        self.order = InOrder::default();
        (self.running, self.begin_at, self.epochs) = (false, None, epochs.clone());
        (self.known_end, self.fetch_before, self.scanned, self.consumed) = (0, 0, 0, 0);
        self.wanted.clear();
        for store in &mut self.stores {
            (store.registered, store.acked, store.next_at) = (false, 0, 0);
        }
        self.due = 0;
    }

    /// Everything before `end` was sent.
    fn sent(&mut self, now: u64, end: u32) {
        let end = self.order.wide(end);
        if end > self.known_end {
            self.known_end = end;
        }
        if self.known_end > self.order.expected && self.gap_since.is_none() {
            self.gap_since = Some(now);
            self.due = self.due.min(now.saturating_add(self.config.gap_delay_ns));
        }
    }

    /// A message came.
    #[inline]
    fn message(&mut self, now: u64, message: &Message<'_>, sink: &mut impl Sink) {
        let repeated = message.kind != Kind::Message;
        if self.running && message.sqn == self.order.expected as u32 && self.order.first_held().is_none() {
            let number = self.order.expected;
            if !self.wanted.is_empty() {
                self.wanted.remove(&number);
            }
            let (stats, source) = (&mut self.stats, self.number);
            let deliver = |delivered: Delivered<'_>| hand_over(stats, source, delivered, sink);
            self.order.next(message, repeated, deliver, self.config.message_max);
            self.known_end = self.known_end.max(self.order.expected);
            self.progress(now);
            if !self.wanted.is_empty() || self.fetch_before > self.order.expected {
                self.advance(now, sink);
            }
            return;
        }
        self.out_of_order(now, message, repeated, sink);
    }

    #[cold]
    fn out_of_order(&mut self, now: u64, message: &Message<'_>, repeated: bool, sink: &mut impl Sink) {
        if !self.running && self.stores.is_empty() {
            self.begin_with(now, message.sqn);
        }
        let number = self.order.wide(message.sqn);
        if number < self.order.expected && self.running {
            return;
        }
        self.wanted.remove(&number);
        let mut head = Vec::new();
        let encoded = encode(self.topic_index, message, &mut head).concat();
        if encoded.is_empty() {
            return;
        }
        if !self.order.hold(number, encoded, repeated, self.config.hold_bytes_max) {
            // It is fetched when its turn comes.
            self.fetch_before = self.fetch_before.max(number + 1);
        }
        if self.running {
            self.sent(now, message.sqn.wrapping_add(1));
        }
        self.advance(now, sink);
    }

    /// A source without stores begins with what comes first.
    fn begin_with(&mut self, now: u64, sqn: u32) {
        self.order.start(sqn);
        self.running = true;
        self.consumed = self.order.expected;
        (self.known_end, self.scanned) = (self.consumed, self.consumed);
        self.due = self.due.min(now);
    }

    /// The transport will not bring these numbers.
    fn transport_lost(&mut self, now: u64, first: u32, count: u32, sink: &mut impl Sink) {
        if self.running {
            let end = self.order.wide(first.wrapping_add(count));
            self.known_end = self.known_end.max(end);
            self.fetch_before = self.fetch_before.max(end);
            self.advance(now, sink);
        }
    }

    /// Delivers what can be, asks for what is missing.
    fn advance(&mut self, now: u64, sink: &mut impl Sink) {
        if !self.running {
            return;
        }
        let (stats, source) = (&mut self.stats, self.number);
        self.order.drain(|delivered| hand_over(stats, source, delivered, sink), self.config.message_max);
        self.known_end = self.known_end.max(self.order.expected);
        if self.stores.is_empty() && self.fetch_before > self.order.expected {
            self.lose(self.fetch_before, sink);
        }
        let expected = self.order.expected;
        self.wanted = self.wanted.split_off(&expected);
        if self.known_end <= expected {
            self.gap_since = None;
        }
        self.progress(now);
        self.fetch(now);
    }

    /// Numbers up to before `end` are lost; what waits behind them is delivered.
    fn lose(&mut self, end: u64, sink: &mut impl Sink) {
        while self.order.expected < end {
            let first = self.order.expected;
            let stop = self.order.first_held().map_or(end, |held| held.min(end));
            if stop > first {
                self.stats.lost += stop - first;
                sink.lost(self.number, first as u32, (stop - first) as u32);
                self.order.skip(stop);
            }
            let (stats, source) = (&mut self.stats, self.number);
            self.order.drain(|delivered| hand_over(stats, source, delivered, sink), self.config.message_max);
        }
    }

    /// What was delivered is consumed, if the application has not the word.
    #[inline]
    fn progress(&mut self, now: u64) {
        let delivered = self.order.delivered_before();
        if !self.config.explicit_ack_only && delivered > self.consumed {
            self.consumed = delivered;
            self.want_ack(now);
        }
    }

    #[inline]
    fn want_ack(&mut self, now: u64) {
        if self.ack_due == u64::MAX && !self.stores.is_empty() {
            self.ack_due = now.saturating_add(self.config.ack_interval_ns);
            self.due = self.due.min(self.ack_due);
        }
    }

    /// The application has consumed everything up to a number.
    fn acknowledge(&mut self, now: u64, sqn: u32) {
        let end = self.order.wide(sqn).wrapping_add(1).min(self.order.delivered_before());
        if self.running && end > self.consumed {
            self.consumed = end;
            self.want_ack(now);
        }
    }

    fn fetch(&mut self, now: u64) {
        if !self.running {
            return;
        }
        self.scanned = self.scanned.max(self.order.expected);
        while self.wanted.len() < self.config.outstanding_maximum.max(1) && self.scanned < self.fetch_before {
            let number = self.scanned;
            if !self.order.has(number) && !self.wanted.contains_key(&number) {
                // Load is spread over stores by number.
                let able = self.able(number).count();
                if able == 0 {
                    return;
                }
                let store = self.able(number).nth(number as usize % able).unwrap_or(0);
                self.wanted.insert(number, Wanted { since: now, again_at: 0, store, without: 0 });
                self.ask(now, number);
            }
            self.scanned += 1;
        }
    }

    fn ask(&mut self, now: u64, number: u64) {
        let Some(wanted) = self.wanted.get_mut(&number) else { return };
        wanted.again_at = now.saturating_add(self.config.request_interval_ns.max(1));
        self.due = self.due.min(wanted.again_at);
        let Some(store) = self.stores.get(wanted.store).filter(|store| store.registered) else { return };
        self.next_request = self.next_request.wrapping_add(1);
        self.requests.insert(self.next_request, number);
        if self.requests.len() > 4 * self.config.outstanding_maximum.max(64) {
            self.requests.pop_first();
        }
        let request = RetransmitRequest {
            flags: 0,
            request: self.next_request,
            transport: 0,
            topic: store.source_reg_id,
            sqn: number as u32,
            port: 0,
            address: core::net::Ipv4Addr::UNSPECIFIED,
        };
        control(self.out.to(wanted.store as u64), &[Ume::Retransmit(request)]);
        self.stats.requests += 1;
    }

    /// A store does not have a message: the next one is asked. True: none has had it for too long.
    fn refused(&mut self, now: u64, store: usize, request: u32) -> Option<u64> {
        let number = self.requests.remove(&request)?;
        let able: Vec<usize> = self.able(number).collect();
        let wanted = self.wanted.get_mut(&number)?;
        wanted.without |= 1 << store;
        if let Some(next) = able.iter().find(|other| wanted.without & 1 << **other == 0) {
            wanted.store = *next;
            self.ask(now, number);
            return None;
        }
        // All of them; so many that one of any quorum is among them.
        let majority = able.len() > self.stores.len() / 2;
        if majority && now >= wanted.since.saturating_add(self.config.message_timeout_ns) {
            return Some(number);
        }
        wanted.without = 0;
        None
    }

    /// Messages of a store.
    fn receive(&mut self, now: u64, store: usize, messages: &[u8], sink: &mut impl Sink) -> Result<(), WireError> {
        if let Some(entry) = self.stores.get_mut(store) {
            entry.heard_at = now;
        }
        for message in Messages::new(messages) {
            let message = message?;
            if message.kind != Kind::Control {
                let Ok(content) = message.content() else { continue };
                let message = Message {
                    sqn: message.sqn,
                    payload: content.payload,
                    properties: content.properties,
                    kind: Kind::Retransmission,
                    headers: message.headers(),
                };
                // It may answer what was asked before another incarnation was heard of, here or there.
                let number = self.order.wide(message.sqn);
                let is_valid = self.stores.get(store).is_some_and(|s| s.registered && number < s.valid_before);
                if self.running && is_valid {
                    self.message(now, &message, sink);
                    self.fetch(now);
                }
                continue;
            }
            let (mut response, mut epochs, mut is_new, mut without) = (None, Epochs::default(), false, None);
            for header in message.headers() {
                match Ume::of(&header?)? {
                    Some(Ume::Response(r)) => response = Some(r),
                    Some(Ume::Epochs { is_new: new, pairs }) => (is_new, epochs) = (new, Epochs::read(pairs)),
                    Some(Ume::Retained(info)) => without = Some(info.request),
                    _ => {}
                }
            }
            if let Some(response) = response {
                self.response(now, store, &response, epochs, is_new, sink);
            }
            if let Some(number) = without.and_then(|request| self.refused(now, store, request))
                && number == self.order.expected
            {
                self.lose(number + 1, sink);
                self.advance(now, sink);
            }
        }
        Ok(())
    }

    fn timeout(&self) -> Option<u64> {
        (self.due != u64::MAX).then_some(self.due)
    }

    fn on_timer(&mut self, now: u64, sink: &mut impl Sink) {
        if now < self.due {
            return;
        }
        self.due = u64::MAX;
        if let Some(at) = self.begin_at.filter(|_| !self.running) {
            if now >= at {
                self.begin(now, sink);
            } else {
                self.due = self.due.min(at);
            }
        }
        for store in 0..self.stores.len() {
            self.look_at(now, store);
        }
        if let Some(since) = self.gap_since.filter(|_| self.running) {
            let due = since.saturating_add(self.config.gap_delay_ns);
            if now >= due {
                self.fetch_before = self.known_end;
                self.scanned = self.order.expected;
                self.gap_since = Some(now);
                self.due = self.due.min(now.saturating_add(self.config.gap_delay_ns.max(1_000_000)));
            } else {
                self.due = self.due.min(due);
            }
        }
        self.ask_again(now);
        if now >= self.ack_due {
            self.acknowledge_all();
        }
        self.due = self.due.min(self.ack_due);
        if now >= self.keepalive_due {
            self.keepalive_due = now.saturating_add(self.config.keepalive_interval_ns.max(1));
            for (i, store) in self.stores.iter().enumerate().filter(|(_, s)| s.registered) {
                let (topic, reg_id) = (self.topic_index, store.reg_id);
                let alive = Ume::Keepalive { flags: 0x40, kind: 1, transport: 0, topic, reg_id };
                control(self.out.to(i as u64), &[alive]);
            }
        }
        self.due = self.due.min(self.keepalive_due);
        self.advance(now, sink);
    }

    fn ask_again(&mut self, now: u64) {
        let count = self.stores.len();
        let due: Vec<u64> = self.wanted.iter().filter(|(_, w)| w.again_at <= now).map(|(number, _)| *number).collect();
        for number in due {
            if let Some(wanted) = self.wanted.get_mut(&number) {
                let is_able = |i: &usize| self.stores[*i].registered && number < self.stores[*i].valid_before;
                let next = (1..=count).map(|i| (wanted.store + i) % count).find(is_able);
                wanted.store = next.unwrap_or(wanted.store);
                self.ask(now, number);
            }
        }
        if let Some(next) = self.wanted.values().map(|w| w.again_at).min() {
            self.due = self.due.min(next);
        }
    }
}

#[inline]
fn hand_over(stats: &mut ReceiverStats, source: u32, delivered: Delivered<'_>, sink: &mut impl Sink) {
    stats.delivered += 1;
    stats.repeated += u64::from(delivered.repeated);
    sink.message(source, delivered);
}
