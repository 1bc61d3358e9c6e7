//! The context: everything of one use of LBM in a process, driven by its owner's turn.

use std::io as std_io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use lbm::options::{
    ContextOption as C, Count, Opt, Options, Port, SourceOption as S, SourceSideFiltering, TransportName,
    WildcardOption,
};
use lbm::resolver::ResolverStats;
use lbm::resolver::service::InterestTold;
use lbm::subscriber::SubscribeConfig;
use lbm::topic::{DeliveryConfig, Ordering, SourceConfig, decode_reply};
use lbm::transport::tcp::Deframer;
use lbm::wire::filtering::{FilterInit, FilterRequest};
use lbm::wire::header::Header;
use lbm::wire::lbmc::{self, Messages};
use lbm::wire::lbmr::{Advert, PatternKind, Transport};
use lbm::wire::lbmr_option::{Functionality, IGNORE, LateJoin, Queue, SenderKind, TopicOption};
use net::clock;
use net::tcp::{Close, ConnId, Event, RecvOutcome, Scratch};

use crate::error::{ContextError, SendError};
use crate::events::Events;
use crate::fault::Fault;
use crate::handles::{FilteredReceiver, ReceiverId, RequestId, SendFlags, SourceId};
use crate::inbound::{Inbound, ReceiverEntry};
use crate::io::{Io, Role, Watch};
use crate::outbound::{Key, ReadySocket};
use crate::report::{self, Reporter};
use crate::requests::Requests;
use crate::resolution::{Received, Resolution};
use crate::stats::Stats;
use crate::{Sources, Warning, failover, interface, random};

/// Advertisements live so long, in seconds; what the product sends.
const ADVERT_TTL: u16 = 60;
/// Bytes of answers that may wait for a late joiner's socket; it asks again for the rest.
const ANSWERS_MAX: usize = 4 << 20;

/// The part of a source's advertisement that the context itself does not know.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Advertised<'a> {
    /// Bits of [`Functionality`].
    pub(crate) functions: u32,
    pub(crate) more: &'a [TopicOption<'a>],
}

/// Sources, receivers and their sockets.
///
/// A context belongs to one thread, which calls [`Context::poll`]. Everything happens in there and in the calls that send; see the
/// crate's documentation for a whole program.
pub struct Context {
    options: Options,
    sources: Sources,
    inbound: Inbound,
    pub(crate) resolution: Resolution,
    scratch: Scratch,
    events: Vec<Event>,
    warnings: Vec<Warning>,
    /// Options that were last used for a source, and what came of them: thousands of topics have the same.
    recent_source: Option<(Options, Options, SourceConfig)>,
    recent_receiver: Option<(Options, Options, SubscribeConfig)>,
    /// Round of LBT-RM groups.
    groups: u32,
    busy: Busy,
    reporter: Option<Reporter>,
    /// Receivers take fragments as they are, for a router.
    forwards: bool,
}

/// A turn that does not wait leaves out the poll of the set, since a system call costs more than the turn: the set is asked every few turns, and
/// meanwhile the socket that had something last is tried itself.
#[derive(Debug, Default)]
struct Busy {
    /// Where data came last, and when.
    hot: Option<Watch>,
    hot_at: u64,
    /// Turns since the set was asked.
    skipped: u32,
    /// When timers are looked at next.
    timers_at: u64,
    /// The owner waits in another set, which has told it of our descriptor: the next turn asks ours.
    nested: bool,
}

/// Turns between two questions to the set while the owner does not wait and nothing comes: about 20 us together if it yields in
/// between.
const BUSY_TURNS: u32 = 24;
/// The same while data comes from shared memory only and a turn is a few loads: about 10 us.
const BUSY_TURNS_IN_MEMORY: u32 = 1_000;
/// How long a socket is tried by itself after its last message, ns.
const HOT_NS: u64 = 1_000_000_000;
/// How late a timer may be then, ns.
const BUSY_TIMER_NS: u64 = 50_000;

impl Context {
    /// Opens what a context needs: sockets for topic resolution. Only options of the context's own scope count here.
    ///
    /// # Errors
    /// An interface that this host does not have, or what the operating system refuses.
    pub fn new(options: &Options) -> Result<Self, ContextError> {
        Self::open(options, (SenderKind::Application, 0))
    }

    /// As [`Context::new`], for a context that is `sender` in a domain.
    pub(crate) fn open(options: &Options, sender: (SenderKind, u32)) -> Result<Self, ContextError> {
        let mut warnings = Vec::new();
        let group = options.get(C::RESOLVER_MULTICAST_ADDRESS);
        let interface = interface::multicast(options, group)?;
        let mut io = Io::new()?;
        let resolution = Resolution::new(options, &mut io, interface, clock::now(), sender, &mut warnings)?;
        let is_seen = options.get(C::STATISTICS);
        let reporter = if is_seen { Reporter::open(&mut io) } else { None };
        Ok(Self {
            options: options.clone(),
            sources: Sources::new(io, Requests::new(options)?),
            inbound: Inbound::new(options, interface)?,
            resolution,
            scratch: Scratch::default(),
            events: Vec::new(),
            warnings,
            recent_source: None,
            recent_receiver: None,
            groups: random::id(),
            busy: Busy::default(),
            reporter,
            forwards: sender.0 == SenderKind::Router,
        })
    }

    /// The sending half.
    pub fn sources(&mut self) -> &mut Sources {
        &mut self.sources
    }

    /// The options of the context's own scope that it was opened with, among others.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What the operator should know, once each; see [`Warning`].
    pub fn warnings(&mut self) -> impl Iterator<Item = Warning> {
        self.warnings.drain(..)
    }

    /// Adds a source of a topic. Its options say by which transport; sources with the same group and port, or from the same pool,
    /// share a session, which has the options of its first source.
    ///
    /// # Errors
    /// A bad name, or no socket for the session.
    pub fn source(&mut self, topic: &str, options: &Options) -> Result<SourceId, ContextError> {
        self.add_source(topic, options, Advertised::default())
    }

    /// As [`Context::source`], for a source that has stores: its advertisement says so.
    ///
    /// # Errors
    /// As [`Context::source`], or no request port.
    pub fn persistent_source(&mut self, topic: &str, options: &Options) -> Result<SourceId, ContextError> {
        self.add_source(topic, options, Advertised { functions: Functionality::PERSISTENCE, ..Advertised::default() })
    }

    /// As [`Context::source`], for a source that assigns its messages to receivers: its advertisement says so, and has the index of its topic
    /// ([`Sources::placement`]) as id of the queue.
    ///
    /// # Errors
    /// As [`Context::source`], or no request port.
    pub fn queue_source(&mut self, topic: &str, options: &Options) -> Result<SourceId, ContextError> {
        self.add_source(topic, options, Advertised { functions: Functionality::QUEUING, ..Advertised::default() })
    }

    pub(crate) fn add_source(
        &mut self,
        topic: &str,
        options: &Options,
        Advertised { functions, more }: Advertised<'_>,
    ) -> Result<SourceId, ContextError> {
        let (effective, config) = self.source_config(options);
        let filters = effective.get(S::TRANSPORT_SOURCE_SIDE_FILTERING_BEHAVIOR) != SourceSideFiltering::None;
        if config.late_join.is_some() || filters || functions != 0 {
            self.sources.requests.open_port(&mut self.sources.io)?;
        }
        let key = self.key(&effective)?;
        let session = self.sources.session_for(key, &effective, &mut self.warnings)?;
        let Some(outbound) = &mut self.sources.sessions[session] else {
            return Err(ContextError::Unsupported("the session is gone".to_owned()));
        };
        let late_join = config.late_join.is_some();
        let index = outbound.topics.add(config);
        let mut buffer = [0; 160];
        let mut w = lbm::wire::Writer::new(&mut buffer);
        if let Some(requests) = self.sources.requests.address() {
            let (transport, port, address) = (session as u32, requests.port(), *requests.ip());
            outbound.filter_by(FilterInit { transport, client: 0, port, address, by_receiver: false });
            let (port, address) = (requests.port(), *requests.ip());
            let functions = functions | if late_join { Functionality::LATE_JOIN } else { 0 };
            let transport = session as u32;
            let late = LateJoin { flags: 0, port, address, transport, high_sqn: 0, low_sqn: 0 };
            let functionality = Functionality { flags: IGNORE, port, address, functions };
            let mut encoded = Ok(());
            if late_join {
                encoded = TopicOption::LateJoin(late).encode(&mut w);
            }
            if functions & Functionality::QUEUING != 0 {
                let queue = Queue { flags: IGNORE, queue: 0, reg_id: 0, source: index, address, port };
                encoded = encoded.and_then(|()| TopicOption::Queue(queue).encode(&mut w));
            }
            // The buffer holds all of them.
            let _ = encoded.and_then(|()| TopicOption::Functionality(functionality).encode(&mut w));
        }
        if more.iter().try_for_each(|option| option.encode(&mut w)).is_err() {
            outbound.topics.remove(index);
            return Err(ContextError::Unsupported("the options of the advertisement are too long".to_owned()));
        }
        let options = lbm::wire::lbmr_option::TopicOptions::from_encoded(w.written());
        let advert =
            Advert { name: topic.as_bytes(), ttl: ADVERT_TTL, topic: index, options, transport: outbound.transport };
        match self.resolution.add_source(clock::now(), &advert) {
            Ok(handle) => Ok(self.sources.insert(session, index, topic, handle)),
            Err(error) => {
                outbound.topics.remove(index);
                Err(error.into())
            }
        }
    }

    fn source_config(&mut self, options: &Options) -> (Options, SourceConfig) {
        if let Some((given, effective, config)) = &self.recent_source
            && given == options
        {
            return (effective.clone(), config.clone());
        }
        let effective = options.within(&self.options);
        let config = effective.source();
        self.recent_source = Some((options.clone(), effective.clone(), config.clone()));
        (effective, config)
    }

    /// The session of a new source.
    fn key(&mut self, options: &Options) -> Result<Key, ContextError> {
        let mut own_or_place = |own: Opt<Port>, places: Opt<Count>| {
            let own = options.get(own);
            (own, if own == 0 { self.sources.place(options.get(places) as u32) } else { 0 })
        };
        Ok(match options.get(S::TRANSPORT) {
            TransportName::Lbtrm => {
                let port = options.get(S::TRANSPORT_LBTRM_DESTINATION_PORT);
                let own = options.get(S::TRANSPORT_LBTRM_MULTICAST_ADDRESS);
                if !own.is_unspecified() {
                    return Ok(Key::Lbtrm(own, port));
                }
                let low = u32::from(options.get(C::TRANSPORT_LBTRM_MULTICAST_ADDRESS_LOW));
                let high = u32::from(options.get(C::TRANSPORT_LBTRM_MULTICAST_ADDRESS_HIGH));
                let groups = high.saturating_sub(low).saturating_add(1);
                self.groups = self.groups.wrapping_add(1);
                Key::Lbtrm((low + self.groups % groups).into(), port)
            }
            TransportName::Lbtru => {
                let (own, place) = own_or_place(S::TRANSPORT_LBTRU_PORT, C::TRANSPORT_LBTRU_MAXIMUM_PORTS);
                Key::Lbtru(own, place)
            }
            TransportName::Tcp => {
                let (own, place) = own_or_place(S::TRANSPORT_TCP_PORT, C::TRANSPORT_TCP_MAXIMUM_PORTS);
                Key::Tcp(own, place)
            }
            TransportName::Lbtipc => {
                let own = options.get(S::TRANSPORT_LBTIPC_ID);
                let (low, high) = (options.get(C::TRANSPORT_LBTIPC_ID_LOW), options.get(C::TRANSPORT_LBTIPC_ID_HIGH));
                let places = u32::from(high.saturating_sub(low)) + 1;
                Key::Lbtipc(own, if own == 0 { self.sources.place(places) } else { 0 })
            }
            TransportName::Lbtsmx => {
                return Err(ContextError::Unsupported("transport lbtsmx is not known here".to_owned()));
            }
        })
    }

    /// Sends what waits and advertises the topic no more. Receivers notice by the silence of its session, or at once if it was the
    /// last of an LBT-TCP session.
    pub fn remove_source(&mut self, source: SourceId) {
        if let Some(handle) = self.sources.remove(source) {
            self.resolution.remove_source(handle);
        }
    }

    /// Looks for sources of a topic, and receives from all that are found.
    ///
    /// # Errors
    /// A bad name.
    pub fn receiver(&mut self, topic: &str, options: &Options) -> Result<ReceiverId, ContextError> {
        self.add_receiver(topic, options, None, false)
    }

    /// Receives a topic that several sources send with the same numbers ([`Sources::send_failover`]): each number once, the first copy of
    /// it, in the order of the numbers, or as they arrive with `ordered_delivery` 0 or -1. Messages without a number pass through.
    ///
    /// # Errors
    /// A bad name.
    pub fn failover_receiver(&mut self, topic: &str, options: &Options) -> Result<ReceiverId, ContextError> {
        self.add_receiver(topic, options, None, true)
    }

    /// Receives from the sources of all topics whose name matches the pattern (`pattern_type`; look-around and back references are
    /// not supported). With `hf_receiver` 1 each topic is received as by [`Context::failover_receiver`], and forgotten when its last
    /// source is gone.
    ///
    /// # Errors
    /// Not a pattern.
    pub fn wildcard(&mut self, pattern: &str, options: &Options) -> Result<ReceiverId, ContextError> {
        let failover = options.get(WildcardOption::HF_RECEIVER);
        self.add_receiver(pattern, options, Some(options.get(WildcardOption::PATTERN_TYPE)), failover)
    }

    fn add_receiver(
        &mut self,
        topic: &str,
        options: &Options,
        pattern: Option<PatternKind>,
        failover: bool,
    ) -> Result<ReceiverId, ContextError> {
        let (effective, mut config) = self.subscribe_config(options);
        let failover = failover.then(|| failover::config(&effective));
        if failover.is_some() && config.delivery.ordering == Ordering::ArrivalFragments {
            // Numbers are those of whole messages.
            config.delivery.ordering = Ordering::Arrival;
        }
        let now = clock::now();
        let id = ReceiverId(self.inbound.receivers.next_name());
        let query = self.resolution.add_receiver(now, topic, pattern, id.index() as u32)?;
        let entry = ReceiverEntry { wildcard: pattern.is_some(), query, config, options: effective, failover };
        self.inbound.receivers.insert(entry);
        Ok(id)
    }

    fn subscribe_config(&mut self, options: &Options) -> (Options, SubscribeConfig) {
        if let Some((given, effective, config)) = &self.recent_receiver
            && given == options
        {
            return (effective.clone(), config.clone());
        }
        let effective = options.within(&self.options);
        let config = SubscribeConfig {
            delivery: DeliveryConfig { fragments: self.forwards, ..effective.delivery() },
            // Seeds are drawn for each session.
            lbtrm: effective.lbtrm_receiver(0),
            lbtru: effective.lbtru_client(0),
        };
        self.recent_receiver = Some((options.clone(), effective.clone(), config.clone()));
        (effective, config)
    }

    /// Receives no more. There is no event for what it was receiving.
    pub fn remove_receiver(&mut self, receiver: ReceiverId) {
        if let Some(entry) = self.inbound.remove_receiver(receiver, &mut self.sources.io) {
            self.resolution.remove_receiver(entry.query, entry.wildcard);
        }
    }

    /// See [`Sources::send`].
    ///
    /// # Errors
    /// See [`Sources::send`].
    #[inline]
    pub fn send(&mut self, source: SourceId, payload: &[u8], flags: SendFlags) -> Result<u32, SendError> {
        self.sources.send(source, payload, flags)
    }

    /// See [`Sources::flush`].
    ///
    /// # Errors
    /// See [`Sources::flush`].
    pub fn flush(&mut self, source: SourceId) -> Result<(), SendError> {
        self.sources.flush(source)
    }

    /// See [`Sources::request`].
    ///
    /// # Errors
    /// See [`Sources::request`].
    pub fn request(
        &mut self,
        source: SourceId,
        payload: &[u8],
        flags: SendFlags,
        patience: Duration,
    ) -> Result<RequestId, SendError> {
        self.sources.request(source, payload, flags, patience)
    }

    /// Transport session of a stream, and its topic index there.
    pub fn stream_origin(&mut self, stream: u32) -> Option<(Transport, u32)> {
        self.inbound.streams.get_mut(stream).map(|entry| (entry.transport, entry.index))
    }

    /// Sends a control message to the request port of a stream's source. The answer comes to [`Events::control`]. False: the source has
    /// no request port, or it cannot be reached.
    pub fn ask(&mut self, stream: u32, message: &[u8]) -> bool {
        self.inbound.ask_source(stream, message, &mut self.sources.io)
    }

    /// Drops so many of a million datagrams that come in, before anybody looks at them: for tests and demonstrations. A run is a
    /// function of the seed and of what comes.
    pub fn lose(&mut self, per_million: u32, seed: u64) {
        self.sources.fault = Fault::new(per_million, seed);
    }

    pub(crate) fn tcp(&self) -> &net::tcp::Tcp {
        &self.sources.io.tcp
    }

    /// When [`Context::poll`] has something to do though no descriptor is readable, monotonic ns ([`net::clock`]); 0 = now. Ask right
    /// before waiting for the context's descriptor in another set: from now on shared memory makes it readable, too, and the next turn
    /// leaves nothing out.
    pub fn timeout(&mut self) -> Option<u64> {
        self.busy.nested = true;
        if self.inbound.arm() && self.sources.io.backlog.is_empty() { self.deadline() } else { Some(0) }
    }

    fn deadline(&self) -> Option<u64> {
        let tcp = self.sources.io.tcp.timeout();
        [tcp, self.sources.timeout(), self.inbound.timeout(), self.resolution.timeout()].into_iter().flatten().min()
    }

    /// One turn: sends what is ready, waits at most `timeout` (`None`: until something happens; zero: not at all) for input and
    /// timers, and handles all of it within bounds. Returns how many messages were delivered.
    ///
    /// # Errors
    /// Only what makes the context unusable.
    pub fn poll(&mut self, timeout: Option<Duration>, events: &mut impl Events) -> std_io::Result<usize> {
        let busy = timeout == Some(Duration::ZERO) && !std::mem::take(&mut self.busy.nested);
        if busy && self.is_idle_in_memory() {
            self.busy.skipped += 1;
            return Ok(0);
        }
        let before = self.inbound.streams.delivered;
        let mut now = self.sources.tick();
        self.sources.pump();
        if busy && self.busy_turn(now, events) {
            return Ok((self.inbound.streams.delivered - before) as usize);
        }
        self.busy.skipped = 0;
        let wait = match self.deadline() {
            _ if !self.sources.io.backlog.is_empty() => Some(Duration::ZERO),
            Some(at) => {
                let left = Duration::from_nanos(at.saturating_sub(now));
                Some(timeout.map_or(left, |asked| asked.min(left)))
            }
            None => timeout,
        };
        let wait = if wait != Some(Duration::ZERO) && self.inbound.arm() { wait } else { Some(Duration::ZERO) };
        let mut ready = std::mem::take(&mut self.events);
        let polled = self.sources.io.tcp.poll(wait, &mut ready);
        if !ready.is_empty() || wait != Some(Duration::ZERO) {
            now = self.sources.tick();
        }
        self.receive_shared(now, events);
        let early = std::mem::take(&mut self.sources.io.backlog);
        for event in early.into_iter().chain(ready.iter().copied()) {
            self.on_event(now, event, events);
        }
        self.events = ready;
        polled?;
        self.on_timer(events);
        self.end_turn(events);
        Ok((self.inbound.streams.delivered - before) as usize)
    }

    /// A turn without a question to the set. False if it is time for one.
    #[inline]
    fn busy_turn(&mut self, now: u64, events: &mut impl Events) -> bool {
        let turns = if self.busy.hot.is_some() { BUSY_TURNS } else { BUSY_TURNS_IN_MEMORY };
        if self.busy.skipped >= turns || !self.sources.io.backlog.is_empty() || !self.has_hot() {
            return false;
        }
        self.busy.skipped += 1;
        let before = self.inbound.streams.delivered;
        self.receive_shared(now, events);
        if self.inbound.streams.delivered == before {
            match self.busy.hot {
                Some(Watch::Group(index)) => self.inbound.receive_group(now, index, &mut self.sources, events),
                Some(Watch::Inbound(session)) => self.inbound.receive_session(now, session, &mut self.sources, events),
                _ => {}
            }
        }
        if self.inbound.streams.delivered != before {
            self.busy.hot_at = now;
        } else if now.saturating_sub(self.busy.hot_at) > HOT_NS {
            self.busy.hot = None;
        }
        if now >= self.busy.timers_at {
            self.on_timer(events);
            self.busy.timers_at = now + BUSY_TIMER_NS;
        }
        self.end_turn(events);
        true
    }

    /// Reads shared memory. A session that ends there frees its number at once, before another one is given it.
    #[inline]
    fn receive_shared(&mut self, now: u64, events: &mut impl Events) {
        if self.inbound.receive_shared(now, &mut self.sources, events) {
            self.reap(now);
        }
    }

    /// Whether data comes from shared memory only, and nothing is there: not even the clock is read then.
    #[inline]
    fn is_idle_in_memory(&self) -> bool {
        self.busy.hot.is_none()
            && self.busy.skipped < BUSY_TURNS_IN_MEMORY
            && self.inbound.has_shared()
            && self.sources.is_quiet()
            && self.inbound.is_shared_idle()
    }

    #[inline]
    fn has_hot(&self) -> bool {
        self.busy.hot.is_some() || self.inbound.has_shared()
    }

    /// The end of a turn: tells refused sources, and sends what callbacks have left.
    #[inline]
    fn end_turn(&mut self, events: &mut impl Events) {
        while let Some(source) = self.sources.next_writable() {
            events.writable(&mut self.sources, source);
        }
        self.sources.end_delivering();
        self.sources.pump();
    }

    fn on_event(&mut self, now: u64, event: Event, events: &mut impl Events) {
        match event {
            Event::Ready { token } => match self.sources.io.watched(token) {
                Some(Watch::Group(index)) => {
                    (self.busy.hot, self.busy.hot_at) = (Some(Watch::Group(index)), now);
                    self.inbound.receive_group(now, index, &mut self.sources, events);
                }
                Some(Watch::Outbound(session)) => self.sources.receive(session, ReadySocket::Session),
                Some(Watch::Client(session, place)) => self.sources.receive(session, ReadySocket::Client(place)),
                Some(Watch::Inbound(session)) => {
                    (self.busy.hot, self.busy.hot_at) = (Some(Watch::Inbound(session)), now);
                    self.inbound.receive_session(now, session, &mut self.sources, events);
                }
                Some(Watch::Statistics) => self.report(now),
                Some(Watch::Resolver) => self.resolve(now, None, events),
                Some(Watch::Daemon(daemon)) => self.resolve(now, Some(daemon), events),
                None => {}
            },
            Event::Accepted { listener, conn, .. } => {
                let role = if self.sources.requests.listener == Some(listener) {
                    Role::Peer(Deframer::default())
                } else {
                    let listens =
                        |s: &Option<crate::outbound::Outbound>| s.as_ref().is_some_and(|s| s.listens(listener));
                    match self.sources.sessions.iter().position(listens) {
                        Some(session) => Role::Client { session, deframer: Deframer::default() },
                        None => return self.sources.io.tcp.close(conn, Close::Now),
                    }
                };
                self.sources.io.set_role(conn, role);
            }
            Event::Connected { conn } => match self.sources.io.role(conn) {
                Some(Role::Session { session, .. }) => {
                    let session = *session;
                    self.inbound.connected(now, session, conn, &mut self.sources, events);
                }
                Some(Role::Service(link)) => {
                    let link = *link;
                    self.resolution.services.iter_mut().for_each(|services| services.connected(now, link));
                }
                _ => {}
            },
            Event::Readable { conn } => self.on_readable(now, conn, events),
            Event::Closed { conn, why } => match self.sources.io.forget(conn) {
                Role::Client { session, .. } => {
                    if let Some(Some(session)) = self.sources.sessions.get_mut(session) {
                        session.gone(conn);
                    }
                }
                Role::Session { session, .. } => {
                    self.inbound.disconnected(session, conn, &mut self.sources, events);
                    self.reap(now);
                }
                Role::Questions { session, .. } => self.inbound.questions_gone(session, conn),
                Role::Replies(to) => self.sources.requests.gone(to, conn),
                Role::Service(link) => {
                    let Self { resolution, warnings, .. } = self;
                    resolution.services.iter_mut().for_each(|services| services.closed(now, link, why, warnings));
                }
                Role::Peer(_) => drop(self.sources.requests.filtered.remove(&conn)),
                Role::None => {}
            },
            Event::AcceptFailed { .. } | Event::Drained { .. } | Event::Woken => {}
        }
    }

    fn on_readable(&mut self, now: u64, conn: ConnId, events: &mut impl Events) {
        let bytes = match self.sources.io.tcp.recv(conn, &mut self.scratch) {
            RecvOutcome::Data(bytes) => &*bytes,
            RecvOutcome::Empty | RecvOutcome::Ended => return,
        };
        // The role's deframer is worked on while callbacks may use everything else.
        let mut role = self.sources.io.take_role(conn);
        let sources = &mut self.sources;
        let good = match &mut role {
            Role::Peer(deframer) => {
                let mut good = true;
                let read = deframer.receive(bytes, |messages| good &= peer(now, conn, messages, sources, events));
                good && read.is_ok()
            }
            Role::Client { session, deframer } => {
                let mut good = true;
                if let Some(Some(session)) = sources.sessions.get_mut(*session) {
                    let read = deframer.receive(bytes, |messages| good &= session.greet(conn, messages));
                    good &= read.is_ok();
                    session.pump(now, &mut sources.io);
                }
                good
            }
            Role::Session { session, deframer } => {
                self.inbound.receive_stream(now, *session, deframer, bytes, sources, events)
            }
            Role::Questions { session, deframer } => {
                self.inbound.receive_answers(now, (*session, conn), deframer, bytes, sources, events)
            }
            Role::Service(link) => {
                self.resolution.services.as_mut().is_some_and(|services| services.receive(now, *link, bytes))
            }
            // Nothing is expected here.
            Role::Replies(_) | Role::None => true,
        };
        self.sources.io.set_role(conn, role);
        if !good {
            // The peer's fault; its end is handled like any other.
            self.sources.io.tcp.close(conn, Close::Now);
        }
    }

    /// The counters of topic resolution alone: costs nothing.
    pub fn resolver_stats(&self) -> &ResolverStats {
        self.resolution.resolver.stats()
    }

    /// All counters.
    pub fn stats(&mut self) -> Stats {
        Stats::of(&mut self.sources, &self.inbound, &self.resolution)
    }

    /// The counters as text, one line a thing: what `quoteway lbmstat` reads.
    pub fn report_text(&mut self) -> String {
        let stats = self.stats();
        report::text(&stats, self.options.get(C::CONTEXT_NAME))
    }

    #[cold]
    fn report(&mut self, now: u64) {
        if let Some(mut reporter) = self.reporter.take() {
            reporter.answer(now, || self.report_text());
            self.reporter = Some(reporter);
        }
    }

    fn resolve(&mut self, now: u64, daemon: Option<usize>, events: &mut impl Events) {
        let Self { resolution, inbound, sources, warnings, .. } = self;
        resolution.receive(now, daemon, |heard| match heard {
            Received::Packet(packet) => {
                events.resolution(packet);
                true
            }
            Received::Found(found) => inbound.found(now, found, sources, warnings, events),
        });
    }

    fn on_timer(&mut self, events: &mut impl Events) {
        let now = self.sources.now();
        self.sources.on_timer();
        self.inbound.on_timer(now, &mut self.sources, events);
        self.reap(now);
        if self.resolution.timeout().is_some_and(|at| at <= now) {
            self.resolution.on_timer(now);
            self.serve(now, events);
        }
    }

    /// Records from resolution services, and those for them.
    fn serve(&mut self, now: u64, events: &mut impl Events) {
        let Self { resolution, inbound, sources, warnings, .. } = self;
        if resolution.services.is_none() {
            return;
        }
        resolution.take_told(now, |found| inbound.found(now, found, sources, warnings, events));
        for InterestTold { pattern, name } in resolution.take_heard() {
            events.wanted(pattern.then_some(PatternKind::Pcre), &name);
        }
        resolution.services.iter_mut().for_each(|services| services.turn(now, &mut sources.io, warnings));
    }

    fn reap(&mut self, now: u64) {
        let resolution = &mut self.resolution;
        self.inbound.reap(&mut self.sources.io, |transport| resolution.forget(now, transport));
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let Self { resolution, sources, .. } = self;
        resolution.services.iter_mut().for_each(|services| services.leave(&mut sources.io));
    }
}

/// Messages that came to the request port. False if the peer is to be cut off.
fn peer(now: u64, conn: ConnId, messages: &[u8], sources: &mut Sources, events: &mut impl Events) -> bool {
    let mut answers = Vec::new();
    for message in Messages::new(messages) {
        let Ok(message) = message else { return false };
        if message.kind != lbmc::Kind::Control {
            match decode_reply(&message) {
                Ok(Some(reply)) if sources.requests.replies.is_open(reply.request) => {
                    events.response(sources, RequestId(reply.request), reply.payload);
                }
                Ok(_) => {}
                Err(_) => return false,
            }
            continue;
        }
        let mut known = false;
        for header in message.headers() {
            if let Ok(header) = &header
                && let Some(request) = FilterRequest::of(header)
            {
                let session = sources.sessions.get_mut(request.transport as usize).and_then(Option::as_mut);
                if let Some(session) = session {
                    session.filter_request(&request);
                    sources.requests.filtered.insert(conn, FilteredReceiver(request.client));
                }
                known = true;
                continue;
            }
            known |= matches!(header, Ok(Header::LateJoinRequest(_) | Header::RetransmitRequest(_)));
            let (transport, topic) = match header {
                Ok(Header::LateJoinRequest(r)) => (r.transport, r.topic),
                Ok(Header::RetransmitRequest(r)) => (r.transport, r.topic),
                Ok(_) => continue,
                Err(_) => return false,
            };
            let session = sources.sessions.get_mut(transport as usize).and_then(Option::as_mut);
            let Some(source) = session.and_then(|s| s.source(topic)) else { continue };
            match header {
                Ok(Header::LateJoinRequest(r)) => source.late_join_request(now, &r, &mut answers),
                Ok(Header::RetransmitRequest(r)) => {
                    source.retransmit_request(&r, &mut answers);
                }
                _ => {}
            }
        }
        if !known {
            sources.asking = sources.requests.filtered.get(&conn).copied();
            events.question(sources, &message, &mut answers);
            sources.asking = None;
        }
    }
    if !answers.is_empty() && sources.io.tcp.queued(conn) < ANSWERS_MAX {
        sources.io.tcp.send(conn, &answers);
    }
    true
}

impl AsFd for Context {
    /// Readable when a [`Context::poll`] would find input: to be watched by another set, beside [`Context::timeout`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sources.io.tcp.as_fd()
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("sources", &self.sources).finish_non_exhaustive()
    }
}
