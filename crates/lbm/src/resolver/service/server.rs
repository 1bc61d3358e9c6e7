//! The service: every source of every context, and who wants to know of it.

mod context;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use context::{Context, Identity, Over, Pattern, Walk};

use super::BATCH;
use crate::fault::{Faults, named};
use crate::wire::WireError;
use crate::wire::rsocket::{Frame, Frames, UNBOUNDED, error};
use crate::wire::srs::{
    ENDED, Interest, InterestKind, Message, OTID, PROTOCOL, ROUTER, Record, RegistrationRequest, RegistrationResponse,
    SourceInfo, interest_mode,
};

/// Between two looks at who is silent and what has expired, ns.
const CHECK_NS: u64 = 1_000_000_000;
/// The most that the matching of patterns may cost in one call of [`Service::take`].
const MATCHING: usize = 200_000;

/// Bounds and times of a service.
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    /// Sources that are known at a time; more are refused and counted.
    pub sources_max: usize,
    /// Of one context.
    pub sources_per_context: usize,
    /// Topics that one context may want.
    pub topics_per_context: usize,
    /// Patterns that one context may want: each new source is held against all.
    pub patterns_per_context: usize,
    /// Bytes that may wait for one context; one that does not read so much is cut off.
    pub queue_max: usize,
    /// How long sources of a context are told whose connection is broken, ns; 0 = for ever.
    pub state_lifetime_ns: u64,
    /// A connection that has not said how long it may be silent is closed after this time, ns; one that has, after at most ten times this.
    pub lifetime_ns: u64,
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self {
            sources_max: 1_000_000,
            sources_per_context: 250_000,
            topics_per_context: 250_000,
            patterns_per_context: 1_000,
            queue_max: 16 << 20,
            state_lifetime_ns: 60_000_000_000,
            lifetime_ns: 30_000_000_000,
        }
    }
}

/// Why a connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The context has connected anew.
    Replaced,
    /// Too many bytes wait for it.
    TooSlow,
    /// The context gives no sign of life.
    Silent,
    /// The context is not served: a router that wants to know of others' receivers.
    Refused,
}

/// Counters of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceStats {
    /// Contexts that are registered.
    pub contexts: usize,
    /// Contexts whose connection is broken, and whose sources are still told.
    pub away: usize,
    /// Sources that are known.
    pub sources: usize,
    /// Topics and patterns that are wanted, each by each context.
    pub wanted: usize,
    /// Registrations.
    pub registrations: u64,
    /// Sources told, each to each context.
    pub told: u64,
    /// Ends of sources told, likewise.
    pub ended: u64,
    /// Sources and wishes beyond the bounds, sources of other contexts, and what is said before a registration: not taken.
    pub refused: u64,
    /// Connections whose bytes could not be read.
    pub malformed: u64,
    /// Connections that were cut off since they did not read.
    pub too_slow: u64,
    /// Connections that were closed since they were silent.
    pub silent: u64,
    /// Cases that the tables hold to be impossible and that were found all the same: a fault of the service.
    pub internal_faults: u64,
}

impl Faults for ServiceStats {
    fn internal_faults(&mut self) -> &mut u64 {
        &mut self.internal_faults
    }
}

struct Source {
    otid: [u8; OTID],
    topic: Box<[u8]>,
    /// The encoded record.
    record: Box<[u8]>,
    owner: u32,
    /// The registration of the owner in which the source was last told.
    registration: u32,
}

#[derive(Default)]
struct Topic {
    /// Places.
    sources: BTreeSet<u32>,
    /// Contexts that want it.
    wanted: Vec<u32>,
}

struct Conn {
    frames: Frames,
    context: Option<u32>,
    heard_at: u64,
    lifetime_ns: u64,
    out: Vec<u8>,
    batch: Vec<u8>,
    /// Number of the stream of records, and how many frames of it may be sent.
    stream: Option<(u32, u64)>,
    walks: VecDeque<Walk>,
    /// Whether the connection is among those that have something to send.
    listed: bool,
}

/// See the module. Connections have numbers of the owner's, none twice.
pub struct Service {
    config: ServiceConfig,
    conns: HashMap<u64, Conn>,
    contexts: Vec<Option<Context>>,
    by_identity: HashMap<Identity, u32>,
    sources: Vec<Option<Source>>,
    free: Vec<u32>,
    by_otid: HashMap<[u8; OTID], u32>,
    topics: HashMap<Box<[u8]>, Topic>,
    /// Contexts that want all, or patterns.
    others: HashSet<u32>,
    /// Topics and patterns that contexts look for which are no router's, and how many of them.
    interest: HashMap<(bool, Box<[u8]>), u32>,
    /// Contexts that are told of those.
    forwarders: BTreeSet<u32>,
    targets: Vec<u32>,
    ready: Vec<u64>,
    closing: Vec<(u64, Closing)>,
    check_at: u64,
    clients: u64,
    stats: ServiceStats,
}

impl Service {
    /// A service that knows nothing.
    pub fn new(config: ServiceConfig, now: u64) -> Self {
        Self {
            config,
            conns: HashMap::new(),
            contexts: Vec::new(),
            by_identity: HashMap::new(),
            sources: Vec::new(),
            free: Vec::new(),
            by_otid: HashMap::new(),
            topics: HashMap::new(),
            others: HashSet::new(),
            interest: HashMap::new(),
            forwarders: BTreeSet::new(),
            targets: Vec::new(),
            ready: Vec::new(),
            closing: Vec::new(),
            check_at: now,
            clients: 0,
            stats: ServiceStats::default(),
        }
    }

    /// Counters.
    pub fn stats(&self) -> ServiceStats {
        let contexts = || self.contexts.iter().flatten();
        ServiceStats {
            contexts: contexts().filter(|context| context.conn.is_some()).count(),
            away: contexts().filter(|context| context.conn.is_none()).count(),
            sources: self.by_otid.len(),
            wanted: contexts().map(|context| context.topics.len() + context.patterns.len()).sum(),
            ..self.stats
        }
    }

    /// Somebody has connected.
    pub fn accepted(&mut self, now: u64, conn: u64) {
        let new = Conn {
            frames: Frames::default(),
            context: None,
            heard_at: now,
            lifetime_ns: self.config.lifetime_ns,
            out: Vec::new(),
            batch: Vec::new(),
            stream: None,
            walks: VecDeque::new(),
            listed: false,
        };
        self.conns.insert(conn, new);
    }

    /// A connection is over: what the context wanted is forgotten, its sources are told for a while.
    pub fn closed(&mut self, now: u64, conn: u64) {
        // A client that had not registered, or was told as closed before, leaves nothing behind.
        let Some(of) = self.conns.remove(&conn).and_then(|conn| conn.context) else { return };
        if self.contexts[of as usize].as_ref().is_some_and(|context| context.conn == Some(conn)) {
            self.disconnect(now, of);
        }
    }

    fn disconnect(&mut self, now: u64, of: u32) {
        // Counted by its name.
        let Some(context) = named(&mut self.contexts, of as usize, &mut self.stats) else { return };
        (context.conn, context.lost_at) = (None, now);
        let patterns = std::mem::take(&mut context.patterns);
        (context.everything, context.forwards) = (false, false);
        let topics = std::mem::take(&mut context.topics);
        self.others.remove(&of);
        self.forwarders.remove(&of);
        for topic in topics {
            self.unwant(of, &topic);
            self.note_interest(of, (false, &topic), false);
        }
        for pattern in patterns.keys() {
            self.note_interest(of, (true, pattern), false);
        }
        if self.contexts[of as usize].as_ref().is_some_and(|context| context.sources.is_empty()) {
            self.remove_context(of);
        }
    }

    fn remove_context(&mut self, of: u32) {
        if let Some(context) = self.contexts[of as usize].take() {
            self.by_identity.remove(&context.identity);
        }
    }

    /// A topic's entry without this context.
    fn unwant(&mut self, of: u32, name: &[u8]) {
        if let Some(topic) = self.topics.get_mut(name) {
            topic.wanted.retain(|other| *other != of);
            if topic.wanted.is_empty() && topic.sources.is_empty() {
                self.topics.remove(name);
            }
        }
    }

    /// Takes bytes of a connection.
    ///
    /// # Errors
    /// Nothing that a context says: the connection has to be closed, and [`Service::closed`] called.
    pub fn receive(&mut self, now: u64, conn: u64, bytes: &[u8]) -> Result<(), WireError> {
        // Bytes of a connection that is over are nobody's.
        let Some(at) = self.conns.get_mut(&conn) else { return Ok(()) };
        at.heard_at = now;
        let mut frames = std::mem::take(&mut at.frames);
        let read = frames.receive(bytes, |frame| self.frame(now, conn, Frame::decode(frame)?));
        if let Some(at) = self.conns.get_mut(&conn) {
            at.frames = frames;
        }
        self.stats.malformed += u64::from(read.is_err());
        read
    }

    fn frame(&mut self, now: u64, number: u64, frame: Frame<'_>) -> Result<(), WireError> {
        // The frames behind one by which the connection ended are nobody's.
        let Some(conn) = self.conns.get_mut(&number) else { return Ok(()) };
        match frame {
            Frame::Setup { lifetime_ms, .. } => {
                let asked = u64::from(lifetime_ms).saturating_mul(1_000_000);
                conn.lifetime_ns = asked.clamp(CHECK_NS, self.config.lifetime_ns.saturating_mul(10).max(CHECK_NS));
            }
            Frame::Keepalive { respond: true } => {
                // The answer says that what was told before the question has gone.
                conn.seal_if(1);
                Frame::Keepalive { respond: false }.encode(&mut conn.out);
                self.list(number);
            }
            Frame::RequestResponse { stream, data } => {
                if let Message::Register(request) = Message::decode(data)? {
                    self.register(now, number, stream, &request);
                }
            }
            Frame::RequestStream { stream, credit, data } => {
                if Message::decode(data)? == Message::Stream {
                    let credit = if credit >= UNBOUNDED { u64::MAX } else { credit.into() };
                    conn.stream = Some((stream, credit));
                    self.through(number);
                }
            }
            Frame::RequestN { stream, credit } => {
                if let Some((own, left)) = &mut conn.stream
                    && *own == stream
                {
                    *left = left.saturating_add(credit.into());
                    self.list(number);
                }
            }
            Frame::Cancel { stream } => {
                if conn.stream.is_some_and(|(own, _)| own == stream) {
                    conn.stream = None;
                    conn.walks.clear();
                }
            }
            Frame::FireAndForget { data, .. } | Frame::Payload { data, .. } => {
                // A client that has not registered, or has connected anew meanwhile, has no sources and wants nothing.
                let Some(of) = conn.context else {
                    self.stats.refused += 1;
                    return Ok(());
                };
                for record in Message::decode(data)?.records() {
                    self.record(of, &record?);
                }
            }
            Frame::Keepalive { respond: false } | Frame::Error { .. } | Frame::Ignored => {}
        }
        Ok(())
    }

    fn register(&mut self, now: u64, number: u64, stream: u32, request: &RegistrationRequest) {
        // Likewise.
        let Some(conn) = self.conns.get_mut(&number) else { return };
        let forwards = request.interest_mode & interest_mode::FORWARD != 0;
        if forwards && request.kind != ROUTER {
            let text = b"receivers of others are told to routers alone";
            Frame::Error { stream: 0, code: error::REJECTED_SETUP, text }.encode(&mut conn.out);
            self.list(number);
            self.closing.push((number, Closing::Refused));
            return;
        }
        self.clients += 1;
        let mut data = Vec::new();
        let response = RegistrationResponse { client: self.clients, domain: request.domain, protocol: PROTOCOL };
        Message::Registered(response).encode(&mut data);
        Frame::Payload { stream, complete: true, data: &data }.encode(&mut conn.out);
        self.stats.registrations += 1;
        // A connection is of one context: whoever registers again under another name is that one no more.
        if let Some(own) = conn.context.take() {
            self.disconnect(now, own);
        }
        let identity = Identity { address: request.address, host: request.host, session: request.session };
        let former = self.by_identity.get(&identity).copied();
        if let Some(former) = former
            && let Some(other) = self.contexts[former as usize].as_ref().and_then(|context| context.conn)
        {
            // The context knows that its connection is broken before we do.
            if other != number {
                self.closing.push((other, Closing::Replaced));
            }
            if let Some(conn) = self.conns.get_mut(&other) {
                conn.context = None;
            }
            self.disconnect(now, former);
        }
        let of = self.context_of(identity);
        if let Some(context) = &mut self.contexts[of as usize] {
            context.conn = Some(number);
            context.registration = context.registration.wrapping_add(1);
            context.everything = request.interest_mode & interest_mode::FILTER == 0;
            (context.is_router, context.forwards) = (request.kind == ROUTER, forwards);
            if forwards {
                self.forwarders.insert(of);
            }
            if context.everything {
                self.others.insert(of);
            }
        }
        if let Some(conn) = self.conns.get_mut(&number) {
            conn.context = Some(of);
        }
        self.list(number);
    }

    /// The place of a context; a new one if it is not known.
    fn context_of(&mut self, identity: Identity) -> u32 {
        if let Some(of) = self.by_identity.get(&identity) {
            return *of;
        }
        let place = self.contexts.iter().position(Option::is_none).unwrap_or(self.contexts.len());
        if place == self.contexts.len() {
            self.contexts.push(None);
        }
        self.contexts[place] = Some(Context::new(identity));
        self.by_identity.insert(identity, place as u32);
        place as u32
    }

    /// A context is through with what it had to say: of an earlier connection, what it has not said again is no more.
    fn through(&mut self, number: u64) {
        // A client that has not registered has said nothing.
        let Some(of) = self.conns.get(&number).and_then(|conn| conn.context) else { return };
        // Counted by its name.
        let Some(context) = named(&mut self.contexts, of as usize, &mut self.stats) else { return };
        let (registration, forwards) = (context.registration, context.forwards);
        let is_former =
            |source: &&u32| self.sources[**source as usize].as_ref().is_some_and(|s| s.registration != registration);
        let former: Vec<u32> = context.sources.iter().filter(is_former).copied().collect();
        let over: Vec<Over> = if context.everything {
            vec![Over::All]
        } else {
            let patterns = context.patterns.keys().map(|name| Over::Pattern(name.clone()));
            context.topics.iter().map(|name| Over::Topic(name.clone())).chain(patterns).collect()
        };
        if let Some(conn) = self.conns.get_mut(&number) {
            conn.walks = over.into_iter().map(|over| Walk { over, at: 0 }).collect();
        }
        for source in former {
            self.remove_source(source);
        }
        if forwards {
            let all: Vec<(bool, Box<[u8]>)> = self.interest.keys().cloned().collect();
            for (pattern, name) in all {
                self.give(of, &interest_record(InterestKind::Wanted, pattern, &name));
            }
        }
        self.list(number);
    }

    /// A context looks for a topic or pattern, or no more: routers are told of the first and of the last.
    fn note_interest(&mut self, of: u32, (pattern, name): (bool, &[u8]), on: bool) {
        // A topic that a router looks for is wanted in other domains, not in this one.
        if self.contexts.get(of as usize).and_then(Option::as_ref).is_none_or(|context| context.is_router) {
            return;
        }
        let key = (pattern, Box::from(name));
        let before = self.interest.get(&key).copied().unwrap_or(0);
        let after = if on { before + 1 } else { before.saturating_sub(1) };
        if after == 0 {
            self.interest.remove(&key);
        } else {
            self.interest.insert(key, after);
        }
        let kind = match (before, after) {
            (0, 1..) => InterestKind::Wanted,
            (1.., 0) => InterestKind::Ended,
            // Others look for it as well.
            _ => return,
        };
        let record = interest_record(kind, pattern, name);
        for of in self.forwarders.clone() {
            self.give(of, &record);
        }
    }

    fn record(&mut self, of: u32, record: &Record<'_>) {
        match record {
            Record::Source(info) if info.cost != ENDED => self.source(of, info),
            Record::Source(SourceInfo { otid, .. }) | Record::SourceDeleted { otid, .. } => {
                // The end of a source that is not known, or was refused, ends nothing.
                let Some(source) = self.by_otid.get(otid).copied() else { return };
                if self.sources[source as usize].as_ref().is_some_and(|source| source.owner == of) {
                    self.remove_source(source);
                } else {
                    self.stats.refused += 1;
                }
            }
            Record::Interest(interest) if interest.kind == InterestKind::Wanted => self.wanted(of, interest),
            Record::Interest(interest) => self.unwanted(of, interest),
            Record::Other { .. } => {}
        }
    }

    fn source(&mut self, of: u32, info: &SourceInfo<'_>) {
        let mut record = Vec::new();
        Record::Source(*info).encode(&mut record);
        // Counted by its name, as are the other two.
        let Some(context) = named(&mut self.contexts, of as usize, &mut self.stats) else { return };
        let registration = context.registration;
        if let Some(place) = self.by_otid.get(&info.otid).copied() {
            let Some(source) = named(&mut self.sources, place as usize, &mut self.stats) else { return };
            // The context says again what is known.
            if source.owner == of && *source.record == record[..] {
                source.registration = registration;
                return;
            }
            let owner_is_there =
                self.contexts[source.owner as usize].as_ref().is_some_and(|owner| owner.conn.is_some());
            if source.owner != of && owner_is_there {
                self.stats.refused += 1;
                return;
            }
            self.remove_source(place);
        }
        let Some(context) = named(&mut self.contexts, of as usize, &mut self.stats) else { return };
        if self.by_otid.len() >= self.config.sources_max || context.sources.len() >= self.config.sources_per_context {
            self.stats.refused += 1;
            return;
        }
        let place = self.free.pop().unwrap_or(self.sources.len() as u32);
        context.sources.insert(place);
        let source =
            Source { otid: info.otid, topic: info.topic.into(), record: record.into(), owner: of, registration };
        self.by_otid.insert(info.otid, place);
        self.topics.entry(source.topic.clone()).or_default().sources.insert(place);
        if place as usize == self.sources.len() {
            self.sources.push(None);
        }
        let (topic, record) = (source.topic.clone(), source.record.clone());
        self.sources[place as usize] = Some(source);
        self.stats.told += self.tell(&topic, &record);
    }

    fn remove_source(&mut self, place: u32) {
        let found = self.sources.get_mut(place as usize).and_then(Option::take);
        let Some(source) = self.stats.found("a source that is to be removed is not there", found) else { return };
        self.free.push(place);
        self.by_otid.remove(&source.otid);
        if let Some(owner) = &mut self.contexts[source.owner as usize] {
            owner.sources.remove(&place);
        }
        if let Some(topic) = self.topics.get_mut(&source.topic) {
            topic.sources.remove(&place);
        }
        let record = ended(source.record);
        self.stats.ended += self.tell(&source.topic, &record);
        if self.topics.get(&source.topic).is_some_and(|topic| topic.sources.is_empty() && topic.wanted.is_empty()) {
            self.topics.remove(&source.topic);
        }
    }

    /// Tells all that want it; returns how many.
    fn tell(&mut self, topic: &[u8], record: &[u8]) -> u64 {
        let Self { topics, others, contexts, .. } = self;
        let by_name = topics.get(topic).map(|topic| &topic.wanted[..]).unwrap_or_default();
        let matching = others.iter().copied().filter(|of| {
            let context = contexts[*of as usize].as_ref();
            // Once each: those that want it by its name have it by that.
            context.is_some_and(|context| context.wants_by_pattern(topic)) && !by_name.contains(of)
        });
        let mut targets = std::mem::take(&mut self.targets);
        targets.clear();
        targets.extend(by_name.iter().copied().chain(matching));
        let told = targets.iter().filter(|of| self.give(**of, record)).count() as u64;
        self.targets = targets;
        told
    }

    /// Gives a record to a context. False: it has no connection, or takes none.
    fn give(&mut self, of: u32, record: &[u8]) -> bool {
        let Self { contexts, conns, ready, closing, config, .. } = self;
        let number = contexts.get(of as usize).and_then(Option::as_ref).and_then(|context| context.conn);
        let conn = number.and_then(|number| Some((number, conns.get_mut(&number)?)));
        let Some((number, conn)) = conn.filter(|(_, conn)| conn.stream.is_some()) else { return false };
        conn.batch.extend_from_slice(record);
        conn.seal_if(BATCH);
        if !std::mem::replace(&mut conn.listed, true) {
            ready.push(number);
        }
        if conn.out.len() + conn.batch.len() > config.queue_max {
            // Nothing more is gathered for it until it has gone.
            conn.stream = None;
            closing.push((number, Closing::TooSlow));
            self.stats.too_slow += 1;
        }
        true
    }

    fn wanted(&mut self, of: u32, interest: &Interest<'_>) {
        // Counted by its name.
        let Some(context) = named(&mut self.contexts, of as usize, &mut self.stats) else { return };
        let over = if interest.pattern {
            // Whoever wants it already is told of every source of it.
            if context.patterns.contains_key(interest.name) {
                return;
            }
            let pattern = Pattern::new(interest.name);
            let Some(pattern) = pattern.filter(|_| context.patterns.len() < self.config.patterns_per_context) else {
                self.stats.refused += 1;
                return;
            };
            context.patterns.insert(interest.name.into(), pattern);
            self.others.insert(of);
            self.note_interest(of, (true, interest.name), true);
            Over::Pattern(interest.name.into())
        } else {
            // Likewise.
            if context.topics.contains(interest.name) {
                return;
            }
            if context.topics.len() >= self.config.topics_per_context {
                self.stats.refused += 1;
                return;
            }
            context.topics.insert(interest.name.into());
            self.topics.entry(interest.name.into()).or_default().wanted.push(of);
            self.note_interest(of, (false, interest.name), true);
            Over::Topic(interest.name.into())
        };
        // Until the context asks for records all that it wants waits for that.
        if let Some((Some(number), false)) = self.contexts[of as usize].as_ref().map(|of| (of.conn, of.everything))
            && let Some(conn) = self.conns.get_mut(&number).filter(|conn| conn.stream.is_some())
        {
            conn.walks.push_back(Walk { over, at: 0 });
            self.list(number);
        }
    }

    fn unwanted(&mut self, of: u32, interest: &Interest<'_>) {
        // Counted by its name.
        let Some(context) = named(&mut self.contexts, of as usize, &mut self.stats) else { return };
        if interest.pattern {
            let was = context.patterns.remove(interest.name).is_some();
            if context.patterns.is_empty() && !context.everything {
                self.others.remove(&of);
            }
            if was {
                self.note_interest(of, (true, interest.name), false);
            }
        } else if context.topics.remove(interest.name) {
            self.unwant(of, interest.name);
            self.note_interest(of, (false, interest.name), false);
        }
    }

    fn list(&mut self, number: u64) {
        if let Some(conn) = self.conns.get_mut(&number)
            && !std::mem::replace(&mut conn.listed, true)
        {
            self.ready.push(number);
        }
    }

    /// Connections that have something to send, each once until it was asked again with [`Service::take`].
    pub fn ready(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.ready)
    }

    /// Bytes for a connection, about as many as there is room for. What is left is told of by [`Service::ready`] again, or waits for
    /// [`Service::drained`] if there was no room.
    pub fn take(&mut self, number: u64, room: usize) -> Vec<u8> {
        let Some(conn) = self.conns.get_mut(&number) else { return Vec::new() };
        conn.listed = false;
        if room == 0 {
            return Vec::new();
        }
        let context = conn.context.and_then(|of| self.contexts[of as usize].as_ref());
        let mut left = MATCHING;
        while let (Some(walk), Some((_, 1..)), Some(context)) = (conn.walks.front_mut(), conn.stream, context) {
            if left == 0 || conn.out.len() + conn.batch.len() >= room {
                break;
            }
            let next = match &walk.over {
                Over::All | Over::Pattern(_) => (walk.at < self.sources.len() as u32).then_some(walk.at),
                Over::Topic(name) => {
                    let topic = self.topics.get(name).filter(|_| context.topics.contains(name));
                    topic.and_then(|topic| topic.sources.range(walk.at..).next().copied())
                }
            };
            let Some(place) = next else {
                conn.walks.pop_front();
                continue;
            };
            walk.at = place + 1;
            left -= 1;
            let Some(source) = &self.sources[place as usize] else { continue };
            let wants = match &walk.over {
                Over::All | Over::Topic(_) => true,
                Over::Pattern(name) => context.patterns.get(name).is_some_and(|pattern| {
                    left = left.saturating_sub(pattern.weight);
                    pattern.matches(&source.topic)
                }),
            };
            if wants {
                conn.batch.extend_from_slice(&source.record);
                self.stats.told += 1;
                conn.seal_if(BATCH);
            }
        }
        conn.seal_if(1);
        let bytes = std::mem::take(&mut conn.out);
        if !conn.walks.is_empty() && conn.stream.is_some_and(|(_, credit)| credit > 0) {
            self.list(number);
        }
        bytes
    }

    /// A connection has room again.
    pub fn drained(&mut self, number: u64) {
        if self
            .conns
            .get(&number)
            .is_some_and(|conn| !conn.out.is_empty() || !conn.batch.is_empty() || !conn.walks.is_empty())
        {
            self.list(number);
        }
    }

    /// Connections that are to be closed, after what they have to be sent; [`Service::closed`] follows for each.
    pub fn closing(&mut self) -> Vec<(u64, Closing)> {
        std::mem::take(&mut self.closing)
    }

    /// When [`Service::on_timer`], or for 0 [`Service::ready`], is to be called.
    pub fn timeout(&self) -> u64 {
        if self.ready.is_empty() && self.closing.is_empty() { self.check_at } else { 0 }
    }

    /// Lets go of silent connections, and of sources whose context does not come back.
    pub fn on_timer(&mut self, now: u64) {
        if now < self.check_at {
            return;
        }
        self.check_at = now.saturating_add(CHECK_NS);
        for (number, conn) in &mut self.conns {
            if now >= conn.heard_at.saturating_add(conn.lifetime_ns) {
                // Told once: the connection is closed by then.
                conn.heard_at = now;
                self.closing.push((*number, Closing::Silent));
                self.stats.silent += 1;
            }
        }
        if self.config.state_lifetime_ns == 0 {
            return;
        }
        for of in 0..self.contexts.len() {
            let Some(context) = &self.contexts[of] else { continue };
            let expires_at = context.lost_at.saturating_add(self.config.state_lifetime_ns);
            if context.conn.is_none() && now >= expires_at {
                let sources: Vec<u32> = context.sources.iter().copied().collect();
                for source in sources {
                    self.remove_source(source);
                }
                self.remove_context(of as u32);
            }
        }
    }
}

impl Conn {
    /// Makes a frame of what was gathered, if it is so many bytes and the frame may be sent.
    fn seal_if(&mut self, least: usize) {
        // A client that has not asked for records, or no more, gets none.
        let Some((stream, credit)) = &mut self.stream else { return };
        if self.batch.len() >= least && *credit > 0 {
            Frame::Payload { stream: *stream, complete: false, data: &self.batch }.encode(&mut self.out);
            self.batch.clear();
            *credit = if *credit == u64::MAX { u64::MAX } else { *credit - 1 };
        }
    }
}

/// The record that somebody looks for a topic or pattern, or nobody does any more.
fn interest_record(kind: InterestKind, pattern: bool, name: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    Record::Interest(Interest { kind, pattern, name, domain: 0, instance: [0; 8] }).encode(&mut record);
    record
}

/// The record of a source that is no more: its cost stands at the end.
fn ended(mut record: Box<[u8]>) -> Box<[u8]> {
    if let Some(cost) = record.last_chunk_mut::<4>() {
        *cost = ENDED.to_be_bytes();
    }
    record
}

impl core::fmt::Debug for Service {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Service").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
