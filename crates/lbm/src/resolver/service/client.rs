//! The side of a context.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use regex_lite::Regex;

use super::cache::Cache;
use super::{BATCH, LINKS_MAX};
use crate::random::Random;
use crate::wire::WireError;
use crate::wire::lbmr::{Advert, Transport};
use crate::wire::rsocket::{Frame, Frames, UNBOUNDED};
use crate::wire::srs::{
    ENDED, Interest, InterestKind, Message, OTID, PROTOCOL, Record, RegistrationRequest, SourceInfo, interest_mode,
};

pub use super::cache::Ended;

/// Sources that are offered to receivers in one call: a turn of the owner's.
const OFFERS: usize = 4_096;
/// After a registration, and after the last source that was told, so long until a service has told everything, ns.
const SETTLE_NS: u64 = 10_000_000_000;

/// How a context deals with its services.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// How many services there are, at most [`LINKS_MAX`]; more are not asked.
    pub links: usize,
    /// The context's id, as in its packets of topic resolution.
    pub instance: [u8; 8],
    /// By which services know the context again, with its host and address.
    pub session: u32,
    /// The host.
    pub host: u32,
    /// The context's address.
    pub address: Ipv4Addr,
    /// Whether all sources are told, not only those of topics for which there are receivers.
    pub flood: bool,
    /// Between two signs of life, ns.
    pub keepalive_ns: u64,
    /// A service that is silent for so long is taken for dead, ns; a connection that does not come about likewise.
    pub lifetime_ns: u64,
    /// Between two attempts to connect, ns, give or take a half.
    pub retry_ns: u64,
    /// Bytes of sources that are remembered; more are not taken.
    pub cache_bytes_max: usize,
    /// Spreads attempts.
    pub seed: u64,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            links: 1,
            instance: [0; 8],
            session: 0,
            host: 0,
            address: Ipv4Addr::UNSPECIFIED,
            flood: false,
            keepalive_ns: 3_000_000_000,
            lifetime_ns: 15_000_000_000,
            retry_ns: 1_000_000_000,
            cache_bytes_max: 512 << 20,
            seed: 0,
        }
    }
}

/// A task for the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect the link; [`Client::connected`] or [`Client::closed`] follows.
    Dial(usize),
    /// Close the link's connection; [`Client::closed`] is not called.
    Close(usize),
}

/// How a link stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There is no connection.
    Away,
    /// The connection is there, or is being made; the service has not answered.
    Connecting,
    /// The service tells what it knows.
    Registered,
}

/// Counts of what a context has had of its services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientStats {
    /// Connections that were made.
    pub connected: u64,
    /// Connections that have broken off.
    pub broken: u64,
    /// Sources told, each by each service.
    pub told: u64,
    /// Ends of sources told, likewise.
    pub ended: u64,
    /// Sources that were not remembered for want of room.
    pub shed: u64,
    /// Sources whose transport is none that is known here.
    pub unusable: u64,
    /// Frames that could not be read: each has cost its connection.
    pub malformed: u64,
    /// Sources that are remembered.
    pub known: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Until then.
    Waiting(u64),
    /// Since then.
    Dialling(u64),
    Registering,
    Streaming,
}

struct Link {
    state: State,
    frames: Frames,
    batch: Vec<u8>,
    out: Vec<u8>,
    /// Number of the next stream.
    stream: u32,
    /// The stream of records, once it was asked for.
    records: u32,
    /// Counts registrations.
    generation: u32,
    heard_at: u64,
    keepalive_at: u64,
    /// When all is told; `u64::MAX`: it is, or nothing is to be waited for.
    settled_at: u64,
}

impl Link {
    fn next_stream(&mut self) -> u32 {
        self.stream = self.stream.wrapping_add(2) & UNBOUNDED;
        self.stream
    }

    fn record(&mut self, record: &Record<'_>) {
        record.encode(&mut self.batch);
        if self.batch.len() >= BATCH {
            self.seal();
        }
    }

    fn seal(&mut self) {
        if !self.batch.is_empty() {
            let stream = self.next_stream();
            Frame::FireAndForget { stream, data: &self.batch }.encode(&mut self.out);
            self.batch.clear();
        }
    }

    fn stands(&self) -> bool {
        self.state == State::Streaming
    }
}

struct Source {
    topic: Box<[u8]>,
    otid: [u8; OTID],
    /// The encoded record.
    record: Box<[u8]>,
}

struct Pattern {
    receivers: u32,
    /// `None`: one that services understand and this build does not.
    regex: Option<Regex>,
}

/// See the module.
pub struct Client {
    config: ClientConfig,
    sources: Vec<Option<Source>>,
    serial: u32,
    /// Topics that receivers want, and how many.
    topics: HashMap<Box<[u8]>, u32>,
    patterns: HashMap<Box<[u8]>, Pattern>,
    links: Vec<Link>,
    cache: Cache,
    ended: Vec<Ended>,
    actions: Vec<Action>,
    /// The service whose frames are being read lets go of the connection.
    let_go: bool,
    random: Random,
    stats: ClientStats,
}

impl Client {
    /// A context without sources and receivers, whose links are to be dialled at once.
    pub fn new(config: ClientConfig, now: u64) -> Self {
        let link = || Link {
            state: State::Waiting(now),
            frames: Frames::default(),
            batch: Vec::new(),
            out: Vec::new(),
            stream: 0,
            records: 0,
            generation: 0,
            heard_at: now,
            keepalive_at: u64::MAX,
            settled_at: u64::MAX,
        };
        Self {
            links: (0..config.links.min(LINKS_MAX)).map(|_| link()).collect(),
            random: Random::new(config.seed),
            sources: Vec::new(),
            serial: 0,
            topics: HashMap::new(),
            patterns: HashMap::new(),
            cache: Cache::default(),
            ended: Vec::new(),
            actions: Vec::new(),
            let_go: false,
            stats: ClientStats::default(),
            config,
        }
    }

    /// Counters.
    pub fn stats(&self) -> ClientStats {
        ClientStats { known: self.cache.len(), ..self.stats }
    }

    /// How each link stands, in the order of the services.
    pub fn standings(&self) -> impl Iterator<Item = Standing> {
        self.links.iter().map(|link| match link.state {
            State::Waiting(_) => Standing::Away,
            State::Dialling(_) | State::Registering => Standing::Connecting,
            State::Streaming => Standing::Registered,
        })
    }

    fn say(&mut self, record: &Record<'_>) {
        self.links.iter_mut().filter(|link| link.stands()).for_each(|link| link.record(record));
    }

    /// There is a source; returns a handle for [`Client::remove_source`].
    pub fn add_source(&mut self, advert: &Advert<'_>) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        let text = advert.transport.to_string();
        let info = SourceInfo::of(advert, &text, self.config.instance, self.serial);
        let mut record = Vec::new();
        Record::Source(info).encode(&mut record);
        self.say(&Record::Source(info));
        let source = Source { topic: advert.name.into(), otid: info.otid, record: record.into() };
        // The ones that were added last are removed first, as a rule: a free place is looked for among them.
        let free = self.sources.iter().rev().take(64).position(Option::is_none);
        let place = free.map_or(self.sources.len(), |back| self.sources.len() - 1 - back);
        if place == self.sources.len() {
            self.sources.push(None);
        }
        self.sources[place] = Some(source);
        place as u32
    }

    /// The source is no more.
    pub fn remove_source(&mut self, handle: u32) {
        if let Some(source) = self.sources.get_mut(handle as usize).and_then(Option::take) {
            self.say(&Record::SourceDeleted { otid: source.otid, topic: &source.topic });
        }
    }

    /// All sources are no more: the context ends.
    pub fn remove_sources(&mut self) {
        (0..self.sources.len() as u32).for_each(|handle| self.remove_source(handle));
    }

    /// There is a receiver of a topic.
    pub fn add_receiver(&mut self, now: u64, topic: &[u8]) {
        let receivers = self.topics.entry(topic.into()).or_default();
        *receivers += 1;
        if *receivers == 1 {
            self.say_interest(InterestKind::Wanted, false, topic);
        }
        self.cache.offer_topic(now, topic);
    }

    /// A receiver of a topic is no more.
    pub fn remove_receiver(&mut self, topic: &[u8]) {
        let Some(receivers) = self.topics.get_mut(topic) else { return };
        *receivers -= 1;
        if *receivers > 0 {
            return;
        }
        self.topics.remove(topic);
        self.say_interest(InterestKind::Unwanted, false, topic);
        if !self.config.flood && !matches(&self.patterns, topic) {
            self.cache.forget_topic(topic);
        }
    }

    /// There is a receiver of what matches a pattern.
    pub fn add_pattern(&mut self, now: u64, pattern: &str) {
        let entry = self.patterns.entry(pattern.as_bytes().into());
        let entry = entry.or_insert_with(|| Pattern { receivers: 0, regex: Regex::new(pattern).ok() });
        entry.receivers += 1;
        if let Some(regex) = &entry.regex {
            let is_match = |topic: &[u8]| core::str::from_utf8(topic).is_ok_and(|topic| regex.is_match(topic));
            self.cache.offer_matching(now, is_match);
        }
        if entry.receivers == 1 {
            self.say_interest(InterestKind::Wanted, true, pattern.as_bytes());
        }
    }

    /// A receiver of a pattern is no more.
    pub fn remove_pattern(&mut self, pattern: &str) {
        let Some(entry) = self.patterns.get_mut(pattern.as_bytes()) else { return };
        entry.receivers -= 1;
        if entry.receivers > 0 {
            return;
        }
        self.patterns.remove(pattern.as_bytes());
        self.say_interest(InterestKind::Unwanted, true, pattern.as_bytes());
        if !self.config.flood {
            let Self { cache, topics, patterns, .. } = self;
            cache.retain(|topic| topics.contains_key(topic) || matches(patterns, topic));
        }
    }

    fn say_interest(&mut self, kind: InterestKind, pattern: bool, name: &[u8]) {
        let instance = self.config.instance;
        self.say(&Record::Interest(Interest { kind, pattern, name, domain: 0, instance }));
    }

    /// A session has broken off: what is known of it is offered again in a while.
    pub fn forget(&mut self, now: u64, transport: &Transport) {
        self.cache.offer_transport(now, transport);
    }

    /// Tasks for the owner; each once.
    pub fn actions(&mut self, now: u64) -> impl Iterator<Item = Action> {
        for (at, link) in self.links.iter_mut().enumerate() {
            if let State::Waiting(until) = link.state
                && until <= now
            {
                link.state = State::Dialling(now);
                self.actions.push(Action::Dial(at));
            }
        }
        self.actions.drain(..)
    }

    /// A link that was dialled stands.
    pub fn connected(&mut self, now: u64, link: usize) {
        let config = &self.config;
        let Some(link) = self.links.get_mut(link) else { return };
        let ms = |ns: u64| u32::try_from(ns / 1_000_000).unwrap_or(u32::MAX).max(1);
        let setup = Frame::Setup { keepalive_ms: ms(config.keepalive_ns), lifetime_ms: ms(config.lifetime_ns) };
        setup.encode(&mut link.out);
        let mut data = Vec::new();
        let register = RegistrationRequest {
            kind: 0,
            address: config.address,
            port: 0,
            session: config.session,
            host: config.host,
            protocol: PROTOCOL,
            interest_mode: if config.flood { 0 } else { interest_mode::FILTER },
            domain: 0,
        };
        Message::Register(register).encode(&mut data);
        link.stream = 1;
        Frame::RequestResponse { stream: 1, data: &data }.encode(&mut link.out);
        (link.state, link.heard_at) = (State::Registering, now);
        link.keepalive_at = now.saturating_add(config.keepalive_ns);
        self.stats.connected += 1;
    }

    /// A link's connection is over, or could not be made.
    pub fn closed(&mut self, now: u64, link: usize) {
        let pause = self.random.around(self.config.retry_ns);
        let Some(link) = self.links.get_mut(link) else { return };
        self.stats.broken += u64::from(matches!(link.state, State::Registering | State::Streaming));
        link.state = State::Waiting(now.saturating_add(pause));
        (link.frames, link.batch, link.out) = (Frames::default(), Vec::new(), Vec::new());
        (link.keepalive_at, link.settled_at) = (u64::MAX, u64::MAX);
    }

    /// Bytes for a link's connection.
    pub fn output(&mut self, link: usize) -> Vec<u8> {
        let Some(link) = self.links.get_mut(link) else { return Vec::new() };
        link.seal();
        std::mem::take(&mut link.out)
    }

    /// Takes bytes of a link's connection.
    ///
    /// # Errors
    /// Nothing that a service says: the connection has to be closed, and [`Client::closed`] called.
    pub fn receive(&mut self, now: u64, link: usize, bytes: &[u8]) -> Result<(), WireError> {
        let Some(at) = self.links.get_mut(link) else { return Ok(()) };
        at.heard_at = now;
        let mut frames = std::mem::take(&mut at.frames);
        let read = frames.receive(bytes, |frame| self.frame(now, link, Frame::decode(frame)?));
        self.links[link].frames = frames;
        if std::mem::take(&mut self.let_go) && read.is_ok() {
            self.actions.push(Action::Close(link));
            self.closed(now, link);
        }
        self.stats.malformed += u64::from(read.is_err());
        read
    }

    fn frame(&mut self, now: u64, at: usize, frame: Frame<'_>) -> Result<(), WireError> {
        let link = &mut self.links[at];
        match frame {
            Frame::Keepalive { respond: true } => Frame::Keepalive { respond: false }.encode(&mut link.out),
            Frame::Payload { stream: 1, data, .. } if link.state == State::Registering => {
                if let Message::Registered(_) = Message::decode(data)? {
                    self.registered(now, at);
                }
            }
            Frame::Payload { stream, data, complete } if stream == link.records && link.stands() => {
                if !data.is_empty() {
                    self.records(now, at, Message::decode(data)?)?;
                }
                self.let_go |= complete;
            }
            // One stream of two, or the connection: without either nothing more would be told.
            Frame::Error { .. } => self.let_go = true,
            _ => {}
        }
        Ok(())
    }

    /// Says everything to a service that knows the context now.
    fn registered(&mut self, now: u64, at: usize) {
        let link = &mut self.links[at];
        link.state = State::Streaming;
        link.generation += 1;
        link.settled_at = now.saturating_add(SETTLE_NS);
        for source in self.sources.iter().flatten() {
            link.batch.extend_from_slice(&source.record);
            if link.batch.len() >= BATCH {
                link.seal();
            }
        }
        let topics = self.topics.keys().map(|name| (false, name)).chain(self.patterns.keys().map(|name| (true, name)));
        for (pattern, name) in topics {
            let (kind, instance) = (InterestKind::Wanted, self.config.instance);
            link.record(&Record::Interest(Interest { kind, pattern, name, domain: 0, instance }));
        }
        link.seal();
        link.records = link.next_stream();
        let mut data = Vec::new();
        Message::Stream.encode(&mut data);
        Frame::RequestStream { stream: link.records, credit: UNBOUNDED, data: &data }.encode(&mut link.out);
    }

    fn records(&mut self, now: u64, at: usize, message: Message<'_>) -> Result<(), WireError> {
        for record in message.records() {
            match record? {
                Record::Source(info) if info.cost != ENDED => self.source_told(now, at, &info),
                Record::Source(SourceInfo { otid, .. }) | Record::SourceDeleted { otid, .. } => {
                    self.stats.ended += 1;
                    let mut standing = [false; LINKS_MAX];
                    self.links.iter().zip(&mut standing).for_each(|(link, stands)| *stands = link.stands());
                    self.ended.extend(self.cache.ended(at, &otid, standing));
                }
                Record::Interest(_) | Record::Other { .. } => {}
            }
        }
        Ok(())
    }

    fn source_told(&mut self, now: u64, at: usize, info: &SourceInfo<'_>) {
        self.stats.told += 1;
        let link = &mut self.links[at];
        if link.settled_at != u64::MAX {
            link.settled_at = now.saturating_add(SETTLE_NS);
        }
        // What was wanted when the service sent it may be unwanted by now, and then its end would not be told.
        let wanted = self.config.flood || self.topics.contains_key(info.topic) || matches(&self.patterns, info.topic);
        if !wanted {
            return;
        }
        if self.cache.bytes() >= self.config.cache_bytes_max {
            self.stats.shed += 1;
        } else if !self.cache.insert(now, (at, self.links[at].generation), info) {
            self.stats.unusable += 1;
        }
    }

    /// Offers sources that receivers may want: `offer` says whether all that look for the source have it now.
    pub fn offer_due(&mut self, now: u64, offer: impl FnMut(&Advert<'_>) -> bool) {
        self.cache.offer_due(now, OFFERS, offer);
    }

    /// Sources that are no more, each once.
    pub fn take_ended(&mut self) -> impl Iterator<Item = Ended> {
        self.ended.drain(..)
    }

    /// When [`Client::on_timer`], [`Client::actions`], [`Client::offer_due`] and [`Client::output`] are to be called; 0 = now.
    pub fn timeout(&self) -> Option<u64> {
        if !self.actions.is_empty() || !self.ended.is_empty() {
            return Some(0);
        }
        let of_link = |link: &Link| {
            if !link.out.is_empty() || !link.batch.is_empty() {
                return 0;
            }
            match link.state {
                State::Waiting(until) => until,
                State::Dialling(since) => since.saturating_add(self.config.lifetime_ns),
                State::Registering | State::Streaming => {
                    let dead_at = link.heard_at.saturating_add(self.config.lifetime_ns);
                    dead_at.min(link.keepalive_at).min(link.settled_at)
                }
            }
        };
        self.links.iter().map(of_link).chain(self.cache.timeout()).min()
    }

    /// Gives signs of life, and lets go of services that give none.
    pub fn on_timer(&mut self, now: u64) {
        let (keepalive, lifetime) = (self.config.keepalive_ns, self.config.lifetime_ns);
        for at in 0..self.links.len() {
            let link = &mut self.links[at];
            let since = match link.state {
                State::Waiting(_) => continue,
                State::Dialling(since) => since,
                State::Registering | State::Streaming => link.heard_at,
            };
            if now >= since.saturating_add(lifetime) {
                self.actions.push(Action::Close(at));
                self.closed(now, at);
                continue;
            }
            if now >= link.keepalive_at {
                Frame::Keepalive { respond: true }.encode(&mut link.out);
                link.keepalive_at = now.saturating_add(keepalive);
            }
            if now >= link.settled_at {
                link.settled_at = u64::MAX;
                self.cache.settle((at, link.generation), &mut self.ended);
            }
        }
    }
}

fn matches(patterns: &HashMap<Box<[u8]>, Pattern>, topic: &[u8]) -> bool {
    let Ok(topic) = core::str::from_utf8(topic) else { return false };
    patterns.values().any(|pattern| pattern.regex.as_ref().is_some_and(|regex| regex.is_match(topic)))
}

impl core::fmt::Debug for Client {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let standings: Vec<_> = self.standings().collect();
        f.debug_struct("Client").field("links", &standings).field("stats", &self.stats()).finish_non_exhaustive()
    }
}
