//! Topic resolution: sources advertise, receivers ask, and each hears what concerns it. By multicast, or through a resolver daemon
//! ([`unicast`]). Over TCP, a [`service`] is told of both and tells what concerns whom.

mod known;
mod schedule;
pub mod service;
pub mod unicast;

use std::collections::HashMap;

use known::{Known, Seeker};
use regex_lite::{Regex, RegexBuilder};
use schedule::{Phases, Progress, Schedule};

use crate::transport::limiter::Limiter;
use crate::wire::lbmr::{Advert, Body, Builder, Packet, PatternKind, Query, TOPIC_NAME_MAX, Transport};
use crate::wire::lbmr_management::Management;
use crate::wire::lbmr_option::{self, SenderKind, TopicOptions};
use crate::wire::{Full, Writer};

/// How topics are resolved; durations in ns, names as in the options without `resolver_`. Limits of 0 are none.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the fields are the options of the same names")]
pub struct ResolverConfig {
    pub datagram_max: usize,
    pub advertisement_minimum_initial_interval_ns: u64,
    pub advertisement_maximum_initial_interval_ns: u64,
    pub advertisement_initial_duration_ns: u64,
    pub advertisement_sustain_interval_ns: u64,
    pub advertisement_sustain_duration_ns: u64,
    pub send_immediate_response: bool,
    pub query_minimum_initial_interval_ns: u64,
    pub query_maximum_initial_interval_ns: u64,
    pub query_initial_duration_ns: u64,
    pub query_sustain_interval_ns: u64,
    pub query_sustain_duration_ns: u64,
    /// A receiver asks no more once it has so many sources.
    pub sources_threshold: u64,
    /// A wildcard receiver takes no more sources: whoever can send to the group can advertise anything, and a pattern may match it.
    pub wildcard_sources_max: u64,
    pub wildcard_minimum_interval_ns: u64,
    pub wildcard_maximum_interval_ns: u64,
    pub wildcard_duration_ns: u64,
    pub advertisement_bps: u64,
    pub advertisements_per_second: u64,
    pub query_bps: u64,
    pub queries_per_second: u64,
    /// Random, one per context; we do not listen to ourselves twice.
    pub source_id: [u8; 8],
    /// The kind of the context.
    pub sender: SenderKind,
    /// The domain that the context knows itself in, 0 for none.
    pub domain: u32,
    /// Spreads first queries.
    pub seed: u64,
}

/// What a resolver has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResolverStats {
    /// Packets sent.
    pub packets: u64,
    /// Bytes of the packets sent.
    pub bytes: u64,
    /// Advertisements sent.
    pub adverts: u64,
    /// Queries sent.
    pub queries: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Advertisements received.
    pub adverts_received: u64,
    /// Queries received.
    pub queries_received: u64,
    /// Sources found.
    pub found: u64,
    /// Advertisements not taken, since too many sources were known.
    pub shed: u64,
    /// Wildcard queries, and requests to say everything again, that were not answered: together they would cost too much.
    pub queries_shed: u64,
}

/// A receiver or source was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResolveError {
    /// A topic name has 1 to 246 bytes, none of them 0.
    Name,
    /// The pattern is none, for the reason given.
    Pattern(String),
}

impl core::fmt::Display for ResolveError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Name => write!(f, "a topic name has 1 to {TOPIC_NAME_MAX} bytes and no NUL"),
            Self::Pattern(reason) => write!(f, "not a pattern: {reason}"),
        }
    }
}

impl core::error::Error for ResolveError {}

struct SourceEntry {
    name: Box<[u8]>,
    /// The encoded advertisement.
    record: Box<[u8]>,
    progress: Progress,
}

struct ReceiverEntry {
    name: Box<[u8]>,
    token: u32,
    found: Vec<(Transport, u32)>,
    progress: Progress,
}

struct WildcardEntry {
    kind: PatternKind,
    text: Box<str>,
    pattern: Regex,
    token: u32,
    found: Vec<(Transport, u32)>,
    progress: Progress,
}

/// A source that a receiver was looking for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// The receiver's token.
    pub token: u32,
    /// Topic, transport and options.
    pub advert: Advert<'a>,
}

/// What others' wildcard queries may cost in a second: names that are matched, times the weight of the pattern. A query that
/// finds nothing left is not answered; its receiver asks again.
const MATCHING_PER_SECOND: u64 = 1_000_000;
/// Over which that is measured, ns.
const MATCHING_INTERVAL_NS: u64 = 20_000_000;
/// What it costs to read a pattern.
const PATTERN_COST: usize = 1_000;
/// Weights of patterns, by the bytes that they take at most when compiled: more take longer to match. Others' patterns that take
/// more than the last are not answered.
const PATTERN_WEIGHTS: [(usize, usize); 2] = [(4_096, 4), (32_768, 32)];

/// A pattern of another context, and its weight.
fn weighed(pattern: &[u8]) -> Option<(Regex, usize)> {
    let text = core::str::from_utf8(pattern).ok()?;
    PATTERN_WEIGHTS.iter().find_map(|(bytes, weight)| {
        let regex = RegexBuilder::new(text).size_limit(*bytes).build().ok()?;
        Some((regex, *weight))
    })
}

/// The topic resolution of a context.
pub struct Resolver {
    config: ResolverConfig,
    trailer: [u8; lbmr_option::SENDER_LENGTH],
    sources: Vec<Option<SourceEntry>>,
    sources_by_name: HashMap<Box<[u8]>, Vec<u32>>,
    receivers: Vec<Option<ReceiverEntry>>,
    receivers_by_name: HashMap<Box<[u8]>, Vec<u32>>,
    wildcards: Vec<Option<WildcardEntry>>,
    advertise: Schedule,
    ask: Schedule,
    ask_wildcard: Schedule,
    known: Known,
    /// For what others may ask of us.
    matching: Limiter,
    scratch: Vec<u8>,
    packet: Vec<u8>,
    stats: ResolverStats,
}

fn insert<T>(slots: &mut Vec<Option<T>>, value: T) -> u32 {
    if let Some(free) = slots.iter().rev().take(64).position(Option::is_none) {
        let index = slots.len() - 1 - free;
        slots[index] = Some(value);
        return index as u32;
    }
    slots.push(Some(value));
    slots.len() as u32 - 1
}

fn check_name(name: &[u8]) -> Result<(), ResolveError> {
    if name.is_empty() || name.len() > TOPIC_NAME_MAX || name.contains(&0) { Err(ResolveError::Name) } else { Ok(()) }
}

fn unlink(by_name: &mut HashMap<Box<[u8]>, Vec<u32>>, name: &[u8], index: u32) {
    if let Some(list) = by_name.get_mut(name) {
        list.retain(|other| *other != index);
        if list.is_empty() {
            by_name.remove(name);
        }
    }
}

impl Resolver {
    /// A context without sources and receivers.
    pub fn new(config: ResolverConfig) -> Self {
        let advertise = Phases {
            first: config.advertisement_minimum_initial_interval_ns,
            longest: config.advertisement_maximum_initial_interval_ns,
            initial: config.advertisement_initial_duration_ns,
            sustain: config.advertisement_sustain_interval_ns,
            sustain_duration: config.advertisement_sustain_duration_ns,
        };
        let ask = Phases {
            first: config.query_minimum_initial_interval_ns,
            longest: config.query_maximum_initial_interval_ns,
            initial: config.query_initial_duration_ns,
            sustain: config.query_sustain_interval_ns,
            sustain_duration: config.query_sustain_duration_ns,
        };
        let wildcard = Phases {
            first: config.wildcard_minimum_interval_ns,
            longest: config.wildcard_maximum_interval_ns,
            initial: if config.wildcard_duration_ns == 0 { u64::MAX } else { config.wildcard_duration_ns },
            sustain: 0,
            sustain_duration: 0,
        };
        Self {
            trailer: lbmr_option::sender(config.source_id, config.sender, config.domain),
            sources: Vec::new(),
            sources_by_name: HashMap::new(),
            receivers: Vec::new(),
            receivers_by_name: HashMap::new(),
            wildcards: Vec::new(),
            advertise: Schedule::new(advertise, config.advertisement_bps, config.advertisements_per_second),
            ask: Schedule::new(ask, config.query_bps, config.queries_per_second),
            ask_wildcard: Schedule::new(wildcard, config.query_bps, config.queries_per_second),
            known: Known::default(),
            // One unit counts like a byte.
            matching: Limiter::fixed(MATCHING_PER_SECOND * 8, MATCHING_INTERVAL_NS),
            scratch: vec![0; config.datagram_max.clamp(500, 65_507)],
            packet: Vec::new(),
            stats: ResolverStats::default(),
            config,
        }
    }

    /// Counters.
    pub fn stats(&self) -> &ResolverStats {
        &self.stats
    }

    /// Advertises a topic; returns a handle for [`Resolver::remove_source`].
    ///
    /// # Errors
    /// A bad name.
    pub fn add_source(&mut self, now: u64, advert: &Advert<'_>) -> Result<u32, ResolveError> {
        check_name(advert.name)?;
        let mut buffer = [0; 1024];
        let mut w = Writer::new(&mut buffer);
        advert.encode(&mut w).map_err(|_| ResolveError::Name)?;
        let progress = Progress::new(now, self.advertise.phases(), 0);
        let name: Box<[u8]> = advert.name.into();
        let index = insert(&mut self.sources, SourceEntry { name: name.clone(), record: w.written().into(), progress });
        self.sources_by_name.entry(name).or_default().push(index);
        self.advertise.push(progress.due, index);
        Ok(index)
    }

    /// Advertises the topic no more. Receivers notice by the silence of its session.
    pub fn remove_source(&mut self, source: u32) {
        if let Some(entry) = self.sources.get_mut(source as usize).and_then(Option::take) {
            unlink(&mut self.sources_by_name, &entry.name, source);
        }
    }

    /// Looks for sources of a topic; each is reported with `token`. Returns a handle for [`Resolver::remove_receiver`].
    ///
    /// # Errors
    /// A bad name.
    pub fn add_receiver(&mut self, now: u64, name: &[u8], token: u32) -> Result<u32, ResolveError> {
        check_name(name)?;
        let progress = Progress::new(now, self.ask.phases(), 0);
        let entry = ReceiverEntry { name: name.into(), token, found: Vec::new(), progress };
        let index = insert(&mut self.receivers, entry);
        self.receivers_by_name.entry(name.into()).or_default().push(index);
        self.ask.push(progress.due, index);
        Ok(index)
    }

    /// Looks for the topic no more.
    pub fn remove_receiver(&mut self, receiver: u32) {
        if let Some(entry) = self.receivers.get_mut(receiver as usize).and_then(Option::take) {
            for (transport, topic) in &entry.found {
                self.known.remove(transport, Seeker::Receiver(receiver), *topic);
            }
            unlink(&mut self.receivers_by_name, &entry.name, receiver);
        }
    }

    /// Looks for sources of all topics whose name matches. Returns a handle for [`Resolver::remove_wildcard`].
    ///
    /// # Errors
    /// Not a pattern. Look-around and back references of PCRE are not supported.
    pub fn add_wildcard(
        &mut self,
        now: u64,
        kind: PatternKind,
        pattern: &str,
        token: u32,
    ) -> Result<u32, ResolveError> {
        check_name(pattern.as_bytes())?;
        let regex = Regex::new(pattern).map_err(|e| ResolveError::Pattern(e.to_string()))?;
        let progress = Progress::new(now, self.ask_wildcard.phases(), 0);
        let entry = WildcardEntry { kind, text: pattern.into(), pattern: regex, token, found: Vec::new(), progress };
        let index = insert(&mut self.wildcards, entry);
        self.ask_wildcard.push(progress.due, index);
        Ok(index)
    }

    /// Looks for the pattern no more.
    pub fn remove_wildcard(&mut self, wildcard: u32) {
        if let Some(entry) = self.wildcards.get_mut(wildcard as usize).and_then(Option::take) {
            for (transport, topic) in &entry.found {
                self.known.remove(transport, Seeker::Wildcard(wildcard), *topic);
            }
        }
    }

    /// A transport session has ended: its sources are not known any more, and receivers that had one ask anew.
    pub fn forget(&mut self, now: u64, transport: &Transport) {
        for seeker in self.known.take(transport) {
            match seeker {
                Seeker::Receiver(index) => {
                    let Some(Some(entry)) = self.receivers.get_mut(index as usize) else { continue };
                    entry.found.retain(|(other, _)| other != transport);
                    entry.progress = Progress::new(now, self.ask.phases(), 0);
                    self.ask.push(entry.progress.due, index);
                }
                Seeker::Wildcard(index) => {
                    let Some(Some(entry)) = self.wildcards.get_mut(index as usize) else { continue };
                    entry.found.retain(|(other, _)| other != transport);
                    entry.progress = Progress::new(now, self.ask_wildcard.phases(), 0);
                    self.ask_wildcard.push(entry.progress.due, index);
                }
            }
        }
    }

    /// A resolution service has told that a source is no more: it is not known any more. What is received of it goes on until its session
    /// ends: messages may still be on their way.
    pub fn forget_source(&mut self, name: &[u8], transport: &Transport, topic: u32) {
        for index in self.receivers_by_name.get(name).into_iter().flatten() {
            let Some(Some(entry)) = self.receivers.get_mut(*index as usize) else { continue };
            self.known.remove(transport, Seeker::Receiver(*index), topic);
            entry.found.retain(|found| *found != (*transport, topic));
        }
        for (index, entry) in self.wildcards.iter_mut().enumerate() {
            let Some(entry) = entry else { continue };
            let seeker = Seeker::Wildcard(index as u32);
            if self.known.has(transport, seeker, topic) {
                self.known.remove(transport, seeker, topic);
                entry.found.retain(|found| *found != (*transport, topic));
            }
        }
    }

    /// The topic of a receiver.
    pub fn receiver_name(&self, receiver: u32) -> Option<&[u8]> {
        self.receivers.get(receiver as usize)?.as_ref().map(|entry| &*entry.name)
    }

    /// The pattern of a wildcard receiver.
    pub fn wildcard_text(&self, wildcard: u32) -> Option<&str> {
        self.wildcards.get(wildcard as usize)?.as_ref().map(|entry| &*entry.text)
    }

    /// Advertises and asks for everything anew: whoever passes our packets on (a resolver daemon) was not there before.
    pub fn renew(&mut self, now: u64) {
        for (index, entry) in self.sources.iter_mut().enumerate() {
            if let Some(entry) = entry {
                entry.progress = Progress::new(now, self.advertise.phases(), 0);
                self.advertise.push(entry.progress.due, index as u32);
            }
        }
        for (index, entry) in self.receivers.iter_mut().enumerate() {
            if let Some(entry) = entry {
                entry.progress = Progress::new(now, self.ask.phases(), 0);
                self.ask.push(entry.progress.due, index as u32);
            }
        }
        for (index, entry) in self.wildcards.iter_mut().enumerate() {
            if let Some(entry) = entry {
                entry.progress = Progress::new(now, self.ask_wildcard.phases(), 0);
                self.ask_wildcard.push(entry.progress.due, index as u32);
            }
        }
    }

    /// Whether there are sources.
    pub fn has_sources(&self) -> bool {
        !self.sources_by_name.is_empty()
    }

    /// Takes a packet; `found` gets sources that receivers here look for and did not know. It says whether they are known now; those
    /// that are not, since there was no room for them, are told again with their next advertisement.
    pub fn receive(&mut self, now: u64, packet: &Packet<'_>, mut found: impl FnMut(Found<'_>) -> bool) {
        self.stats.packets_received += 1;
        match packet.body {
            Body::Topics { queries, adverts } => {
                for query in queries.iter() {
                    self.stats.queries_received += 1;
                    self.answer(now, &query);
                }
                for advert in adverts.iter() {
                    self.stats.adverts_received += 1;
                    // A source that was not taken is advertised again.
                    self.advert(&advert, &mut found);
                }
            }
            Body::ResolutionRequest { flags } => self.resolution_request(now, flags),
            Body::Management { records, .. } => self.use_queries(now, records),
            _ => {}
        }
    }

    fn answer(&mut self, now: u64, query: &Query<'_>) {
        if !self.config.send_immediate_response {
            return;
        }
        match query {
            Query::Topic(name) => {
                let Some(list) = self.sources_by_name.get(*name) else { return };
                for index in list {
                    hurry(&mut self.sources, &mut self.advertise, now, *index);
                }
            }
            Query::Pattern(_, pattern) => {
                if self.sources_by_name.is_empty() || !self.affords(now, PATTERN_COST) {
                    return;
                }
                let Some((regex, weight)) = weighed(pattern) else {
                    self.stats.queries_shed += 1;
                    return;
                };
                self.matching.spend(weight * self.sources.len());
                for index in 0..self.sources.len() {
                    let matches = self.sources[index]
                        .as_ref()
                        .is_some_and(|s| core::str::from_utf8(&s.name).is_ok_and(|name| regex.is_match(name)));
                    if matches {
                        hurry(&mut self.sources, &mut self.advertise, now, index as u32);
                    }
                }
            }
        }
    }

    /// Whether others may still ask for what costs so much; if so it is spent.
    fn affords(&mut self, now: u64, cost: usize) -> bool {
        self.matching.tick(now);
        let affords = self.matching.is_open();
        if affords {
            self.matching.spend(cost);
        } else {
            self.stats.queries_shed += 1;
        }
        affords
    }

    fn resolution_request(&mut self, now: u64, flags: u16) {
        let all = self.sources.len() + self.receivers.len() + self.wildcards.len();
        if !self.affords(now, PATTERN_COST + all) {
            return;
        }
        if flags & 4 != 0 {
            for index in 0..self.sources.len() {
                hurry(&mut self.sources, &mut self.advertise, now, index as u32);
            }
        }
        if flags & 2 != 0 {
            for index in 0..self.receivers.len() {
                self.ask_at_once(now, index as u32);
            }
        }
        if flags & 1 != 0 {
            for index in 0..self.wildcards.len() {
                self.ask_wildcard_at_once(now, index as u32);
            }
        }
    }

    /// Who keeps interest in topics asks whether somebody still uses one: whoever does asks for it again.
    fn use_queries(&mut self, now: u64, records: &[u8]) {
        for record in Management::iter(records) {
            if record.kind != Management::USE || record.is_response() {
                continue;
            }
            if record.pattern.is_none() {
                let list = self.receivers_by_name.get(record.name).cloned().unwrap_or_default();
                for index in list {
                    self.ask_at_once(now, index);
                }
                continue;
            }
            for index in 0..self.wildcards.len() {
                let same = |e: &WildcardEntry| e.text.as_bytes() == record.name && Some(e.kind) == record.pattern;
                if self.wildcards[index].as_ref().is_some_and(same) {
                    self.ask_wildcard_at_once(now, index as u32);
                }
            }
        }
    }

    fn ask_at_once(&mut self, now: u64, index: u32) {
        // One that is due waits in the queue already.
        if let Some(Some(entry)) = self.receivers.get_mut(index as usize)
            && entry.progress.due > now
        {
            entry.progress.due = now;
            self.ask.push(now, index);
        }
    }

    fn ask_wildcard_at_once(&mut self, now: u64, index: u32) {
        if let Some(Some(entry)) = self.wildcards.get_mut(index as usize)
            && entry.progress.due > now
        {
            entry.progress.due = now;
            self.ask_wildcard.push(now, index);
        }
    }

    /// A source of which a resolution service has told; `found` as in [`Resolver::receive`]. Returns whether all receivers here that look for
    /// it have it now: if not, it is to be offered again.
    pub fn offer(&mut self, advert: &Advert<'_>, mut found: impl FnMut(Found<'_>) -> bool) -> bool {
        self.advert(advert, &mut found)
    }

    fn advert(&mut self, advert: &Advert<'_>, found: &mut impl FnMut(Found<'_>) -> bool) -> bool {
        let Self { known, receivers, receivers_by_name, wildcards, stats, config, .. } = self;
        let (transport, topic) = (advert.transport, advert.topic);
        let mut tell = |known: &mut Known, has_room: bool, seeker, token, into: &mut Vec<(Transport, u32)>| {
            let is_taken = has_room && !known.is_full() && found(Found { token, advert: *advert });
            if is_taken {
                known.add(transport, seeker, topic);
                into.push((transport, topic));
                stats.found += 1;
            } else if !has_room || known.is_full() {
                stats.shed += 1;
            }
            is_taken
        };
        let mut all = true;
        for index in receivers_by_name.get(advert.name).into_iter().flatten() {
            let Some(Some(entry)) = receivers.get_mut(*index as usize) else { continue };
            let seeker = Seeker::Receiver(*index);
            if known.has(&transport, seeker, topic) {
                continue;
            }
            all &= tell(known, true, seeker, entry.token, &mut entry.found);
            if entry.found.len() as u64 >= config.sources_threshold {
                entry.progress.due = u64::MAX;
            }
        }
        let Ok(name) = core::str::from_utf8(advert.name) else { return all };
        for (index, entry) in wildcards.iter_mut().enumerate() {
            let Some(entry) = entry else { continue };
            let seeker = Seeker::Wildcard(index as u32);
            if known.has(&transport, seeker, topic) || !entry.pattern.is_match(name) {
                continue;
            }
            // Checked last, so that what is shed was wanted.
            let max = config.wildcard_sources_max;
            let has_room = max == 0 || (entry.found.len() as u64) < max;
            all &= tell(known, has_room, seeker, entry.token, &mut entry.found);
        }
        all
    }

    /// When [`Resolver::on_timer`] is to be called.
    pub fn timeout(&self) -> Option<u64> {
        [self.advertise.timeout(), self.ask.timeout(), self.ask_wildcard.timeout()].into_iter().flatten().min()
    }

    /// Advertises and asks; `send` gets packets.
    pub fn on_timer(&mut self, now: u64, mut send: impl FnMut(&[u8])) {
        let mut out = Outgoing {
            scratch: core::mem::take(&mut self.scratch),
            packet: core::mem::take(&mut self.packet),
            trailer: self.trailer,
            stats: self.stats,
        };
        out.packets(&mut self.ask, now, false, &mut send, |out, schedule, builder, due, id| {
            let Some(Some(entry)) = self.receivers.get_mut(id as usize) else { return Ok(()) };
            if entry.progress.due != due {
                return Ok(());
            }
            builder.query(Query::Topic(&entry.name))?;
            out.queries += 1;
            schedule.sent(now, id, &mut entry.progress, entry.name.len() + 1);
            Ok(())
        });
        out.packets(&mut self.ask_wildcard, now, true, &mut send, |out, schedule, builder, due, id| {
            let Some(Some(entry)) = self.wildcards.get_mut(id as usize) else { return Ok(()) };
            if entry.progress.due != due {
                return Ok(());
            }
            builder.query(Query::Pattern(entry.kind, entry.text.as_bytes()))?;
            out.queries += 1;
            schedule.sent(now, id, &mut entry.progress, entry.text.len() + 2);
            Ok(())
        });
        out.packets(&mut self.advertise, now, false, &mut send, |out, schedule, builder, due, id| {
            let Some(Some(entry)) = self.sources.get_mut(id as usize) else { return Ok(()) };
            if entry.progress.due != due {
                return Ok(());
            }
            builder.encoded_advert(&entry.record)?;
            out.adverts += 1;
            schedule.sent(now, id, &mut entry.progress, entry.record.len());
            Ok(())
        });
        self.stats = out.stats;
        self.scratch = out.scratch;
        self.packet = out.packet;
    }
}

/// A source that was asked for advertises as soon as the limits allow.
fn hurry(sources: &mut [Option<SourceEntry>], advertise: &mut Schedule, now: u64, index: u32) {
    if let Some(Some(entry)) = sources.get_mut(index as usize)
        && entry.progress.due > now
    {
        entry.progress.due = now;
        advertise.push(now, index);
    }
}

struct Outgoing {
    scratch: Vec<u8>,
    packet: Vec<u8>,
    trailer: [u8; lbmr_option::SENDER_LENGTH],
    stats: ResolverStats,
}

impl Outgoing {
    /// Fills packets with what is due. `add` puts one into the packet, or fails if there is no room.
    fn packets(
        &mut self,
        schedule: &mut Schedule,
        now: u64,
        wildcard: bool,
        send: &mut impl FnMut(&[u8]),
        mut add: impl FnMut(&mut ResolverStats, &mut Schedule, &mut Builder<'_, '_>, u64, u32) -> Result<(), Full>,
    ) {
        schedule.tick(now);
        let mut pending = schedule.next(now);
        while pending.is_some() {
            let Ok(mut builder) = Builder::new(&mut self.scratch, &self.trailer, wildcard) else { return };
            while let Some((due, id)) = pending {
                if add(&mut self.stats, schedule, &mut builder, due, id).is_err() {
                    if builder.is_empty() {
                        // Too long for any packet; such a name was not accepted.
                        pending = schedule.next(now);
                    }
                    break;
                }
                pending = schedule.next(now);
            }
            if builder.is_empty() {
                continue;
            }
            self.packet.clear();
            builder.finish(&mut self.packet);
            self.stats.packets += 1;
            self.stats.bytes += self.packet.len() as u64;
            send(&self.packet);
        }
    }
}

impl core::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Resolver")
            .field("sources", &self.sources.len())
            .field("receivers", &self.receivers.len())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

/// The options of an advertisement, encoded: what the source can do and where it takes requests.
///
/// # Errors
/// The buffer is too small.
pub fn topic_options<'a>(
    options: &[lbmr_option::TopicOption<'_>],
    buffer: &'a mut [u8],
) -> Result<TopicOptions<'a>, Full> {
    let mut w = Writer::new(buffer);
    options.iter().try_for_each(|option| option.encode(&mut w))?;
    let length = w.position();
    Ok(TopicOptions::from_encoded(&buffer[..length]))
}
