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
    ENDED, Interest, InterestKind, Message, OTID, PROTOCOL, ROUTER, Record, RegistrationRequest, SourceInfo,
    interest_mode,
};

pub use super::cache::Ended;

/// Sources that are offered to receivers in one call: a turn of the owner's.
const OFFERS: usize = 4_096;
/// Topics and patterns of others that a router is told of, at most.
const HEARD_MAX: usize = 250_000;
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
    /// The context is a router's, and is told which topics and patterns others look for.
    pub router: bool,
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
            router: false,
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
    /// Keepalives that were sent and ask for an answer, and how many were answered. Answers come behind what the service had said before.
    asked: u32,
    answered: u32,
    /// Something was given up, and no keepalive has gone behind that.
    gave_up: bool,
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

    fn keepalive(&mut self) {
        Frame::Keepalive { respond: true }.encode(&mut self.out);
        self.asked = self.asked.wrapping_add(1);
    }

    /// Says what is looked for, or given up. A topic that is looked for again is kept apart from what the service says before it knows of the giving up:
    /// a keepalive goes between the two.
    fn interest(&mut self, interest: Interest<'_>) {
        if interest.kind != InterestKind::Wanted {
            self.gave_up = true;
        } else if std::mem::take(&mut self.gave_up) {
            self.seal();
            self.keepalive();
        }
        self.record(&Record::Interest(interest));
    }

    /// Whether the service has answered the keepalive of this number.
    fn has_answered(&self, asked: u32) -> bool {
        self.answered.wrapping_sub(asked).cast_signed() >= 0
    }
}

struct Source {
    topic: Box<[u8]>,
    otid: [u8; OTID],
    /// The encoded record.
    record: Box<[u8]>,
}

/// Receivers of a topic or pattern.
#[derive(Default)]
struct Wanted {
    receivers: u32,
    /// Of each link the keepalive behind whose answer the service tells of sources that are told as ended as well: what comes before may be of an earlier wish,
    /// since when ends were not told. A service tells all once more that is there when it hears of the new one.
    since: [u32; LINKS_MAX],
}

struct Pattern {
    wanted: Wanted,
    /// `None`: one that services understand and this build does not.
    regex: Option<Regex>,
}

/// A topic or pattern that somebody looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterestTold {
    /// Whether the name is a pattern.
    pub pattern: bool,
    /// Topic or pattern.
    pub name: Box<[u8]>,
}

/// See the module.
pub struct Client {
    config: ClientConfig,
    /// Of a router: what others look for, and a bit for each link that says so.
    heard: HashMap<(bool, Box<[u8]>), u32>,
    news: Vec<InterestTold>,
    sources: Vec<Option<Source>>,
    serial: u32,
    /// Topics that receivers want.
    topics: HashMap<Box<[u8]>, Wanted>,
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
            asked: 0,
            answered: 0,
            gave_up: false,
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
            heard: HashMap::new(),
            news: Vec::new(),
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
        if let Some(wanted) = self.topics.get_mut(topic) {
            wanted.receivers += 1;
        } else {
            let since = self.say_interest(InterestKind::Wanted, false, topic);
            self.topics.insert(topic.into(), Wanted { receivers: 1, since });
        }
        self.cache.offer_topic(now, topic);
    }

    /// A receiver of a topic is no more.
    pub fn remove_receiver(&mut self, topic: &[u8]) {
        let Some(wanted) = self.topics.get_mut(topic) else { return };
        wanted.receivers -= 1;
        if wanted.receivers > 0 {
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
        if !self.patterns.contains_key(pattern.as_bytes()) {
            let since = self.say_interest(InterestKind::Wanted, true, pattern.as_bytes());
            let new = Pattern { wanted: Wanted { receivers: 0, since }, regex: Regex::new(pattern).ok() };
            self.patterns.insert(pattern.as_bytes().into(), new);
        }
        let Some(entry) = self.patterns.get_mut(pattern.as_bytes()) else { return };
        entry.wanted.receivers += 1;
        self.cache.offer_matching(now, |topic| entry.matches(topic));
    }

    /// A receiver of a pattern is no more.
    pub fn remove_pattern(&mut self, pattern: &str) {
        let Some(entry) = self.patterns.get_mut(pattern.as_bytes()) else { return };
        entry.wanted.receivers -= 1;
        if entry.wanted.receivers > 0 {
            return;
        }
        self.patterns.remove(pattern.as_bytes());
        self.say_interest(InterestKind::Unwanted, true, pattern.as_bytes());
        if !self.config.flood {
            let Self { cache, topics, patterns, .. } = self;
            cache.retain(|topic| topics.contains_key(topic) || matches(patterns, topic));
        }
    }

    /// Returns the last keepalive of each link.
    fn say_interest(&mut self, kind: InterestKind, pattern: bool, name: &[u8]) -> [u32; LINKS_MAX] {
        let (instance, mut asked) = (self.config.instance, [0; LINKS_MAX]);
        for (link, asked) in self.links.iter_mut().zip(&mut asked) {
            if link.stands() {
                link.interest(Interest { kind, pattern, name, domain: 0, instance });
            }
            *asked = link.asked;
        }
        asked
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
            kind: if config.router { ROUTER } else { 0 },
            address: config.address,
            port: 0,
            session: config.session,
            host: config.host,
            protocol: PROTOCOL,
            interest_mode: if config.flood { 0 } else { interest_mode::FILTER }
                | if config.router { interest_mode::FORWARD } else { 0 },
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
        // A topic that is still looked for is told again by the next connection.
        self.heard.retain(|_, links| {
            *links &= !(1 << link);
            *links != 0
        });
        let Some(link) = self.links.get_mut(link) else { return };
        self.stats.broken += u64::from(matches!(link.state, State::Registering | State::Streaming));
        link.state = State::Waiting(now.saturating_add(pause));
        (link.frames, link.batch, link.out) = (Frames::default(), Vec::new(), Vec::new());
        (link.keepalive_at, link.settled_at) = (u64::MAX, u64::MAX);
        // Answers on the connection that is over come no more.
        (link.answered, link.gave_up) = (link.asked, false);
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
            // An answer to nothing that was asked counts for nothing.
            Frame::Keepalive { respond: false } if link.answered != link.asked => {
                link.answered = link.answered.wrapping_add(1);
            }
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
                Record::Interest(interest) if self.config.router => self.interest_told(at, &interest),
                Record::Interest(_) | Record::Other { .. } => {}
            }
        }
        Ok(())
    }

    fn interest_told(&mut self, at: usize, interest: &Interest<'_>) {
        let (pattern, name): (bool, Box<[u8]>) = (interest.pattern, interest.name.into());
        if interest.kind != InterestKind::Wanted {
            if let Some(links) = self.heard.get_mut(&(pattern, name.clone())) {
                *links &= !(1 << at);
                if *links == 0 {
                    self.heard.remove(&(pattern, name));
                }
            }
        } else if self.heard.len() >= HEARD_MAX && !self.heard.contains_key(&(pattern, name.clone())) {
            self.stats.shed += 1;
        } else {
            *self.heard.entry((pattern, name.clone())).or_default() |= 1 << at;
            self.news.push(InterestTold { pattern, name });
        }
    }

    /// Topics and patterns that others look for, as services have said since the last call, or were asked about.
    pub fn take_heard(&mut self) -> Vec<InterestTold> {
        std::mem::take(&mut self.news)
    }

    /// A topic or pattern is said again if somebody still looks for it.
    pub fn ask_about(&mut self, pattern: bool, name: &[u8]) {
        let key = (pattern, Box::from(name));
        if self.heard.contains_key(&key) {
            self.news.push(InterestTold { pattern, name: key.1 });
        }
    }

    fn source_told(&mut self, now: u64, at: usize, info: &SourceInfo<'_>) {
        self.stats.told += 1;
        let link = &mut self.links[at];
        if link.settled_at != u64::MAX {
            link.settled_at = now.saturating_add(SETTLE_NS);
        }
        if !self.is_told_to_the_end(at, info.topic) {
            return;
        }
        if self.cache.bytes() >= self.config.cache_bytes_max {
            self.stats.shed += 1;
        } else if !self.cache.insert(now, (at, self.links[at].generation), info) {
            self.stats.unusable += 1;
        }
    }

    /// Whether a service that tells of a source of a topic tells of its end as well. A topic that was wanted when the service sent it may be unwanted by now,
    /// or was meanwhile.
    fn is_told_to_the_end(&self, at: usize, topic: &[u8]) -> bool {
        let has_heard = |wanted: &Wanted| self.links[at].has_answered(wanted.since[at]);
        self.config.flood
            || self.topics.get(topic).is_some_and(has_heard)
            || self.patterns.values().any(|pattern| has_heard(&pattern.wanted) && pattern.matches(topic))
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
        if !self.actions.is_empty() || !self.ended.is_empty() || !self.news.is_empty() {
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
                link.keepalive();
                link.keepalive_at = now.saturating_add(keepalive);
            }
            if now >= link.settled_at {
                link.settled_at = u64::MAX;
                self.cache.settle((at, link.generation), &mut self.ended);
            }
        }
    }
}

impl Pattern {
    fn matches(&self, topic: &[u8]) -> bool {
        let Ok(topic) = core::str::from_utf8(topic) else { return false };
        self.regex.as_ref().is_some_and(|regex| regex.is_match(topic))
    }
}

fn matches(patterns: &HashMap<Box<[u8]>, Pattern>, topic: &[u8]) -> bool {
    patterns.values().any(|pattern| pattern.matches(topic))
}

impl core::fmt::Debug for Client {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let standings: Vec<_> = self.standings().collect();
        f.debug_struct("Client").field("links", &standings).field("stats", &self.stats()).finish_non_exhaustive()
    }
}
