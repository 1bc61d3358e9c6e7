//! A P2PS's unicast connections, one to each Source Distributor that it knows by configuration, by the name of a service or by
//! announcement.
//!
//! A connection that is lost, refused or ended is tried again for ever, after a pause that grows from a tenth of a second
//! to [`PAUSE_MAX_NS`]. What is wrong is told once, until it changes.
//!
//! What a stranger can announce: `MOST` names, of which the one that was heard longest ago gives way to a new one unless it is joined;
//! never a new place for a Source Distributor that is joined, as long as its connection lives; nothing at all where the hub has a key.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use config::{Config, HubTransport};
use hub::p2ps::{Joined, SourceId};
use net::dns::ServiceName;
use net::tcp::{Close, ConnId, Event, RecvOutcome, Scratch, SendOutcome, SocketOptions, Tcp, TcpConfig};

use super::announcement::Announcement;
use super::auth::{self, Nonce};
use super::frames::{self, Challenge, Frame, FrameReader, Hello, Proof, STRANGER_MAX, Welcome};
use super::services::Services;
use super::trust::{Session, Trust};
use super::wire::{Encryption, Wire};
use super::{HubPeer, LinkError};

const PAUSE_FIRST_NS: u64 = 100_000_000;
/// Source Distributors that a P2PS knows at most: their names may come from the network.
const MOST: usize = 1_000;
/// Longest pause before a Source Distributor is tried again, nanoseconds.
pub const PAUSE_MAX_NS: u64 = 2_000_000_000;
/// Time in which a connection has to be made and greeted.
const CONNECT_TIME: u64 = 10_000_000_000;
/// Bytes of requests that may wait for a Source Distributor; one that takes no more is not there.
const MAX_REQUESTS: usize = 64 << 20;

/// Events of the hub for the P2PS.
pub trait Blocks {
    /// A Source Distributor has let this P2PS join.
    fn joined(&mut self, now: u64, source: SourceId, joined: Joined, name: &str);
    /// A block of the data stream of a source.
    ///
    /// # Errors
    /// Why the connection with the source is to be ended.
    fn block(&mut self, now: u64, source: SourceId, block: &[u8]) -> Result<(), LinkError>;
    /// A block for this P2PS alone.
    ///
    /// # Errors
    /// As for [`Blocks::block`].
    fn point_to_point_block(&mut self, now: u64, source: SourceId, block: &[u8]) -> Result<(), LinkError>;
    /// A source that was joined is lost.
    fn lost(&mut self, now: u64, source: SourceId);
}

/// One that has not been heard for so long is not connected to any more, until it is heard again. Nanoseconds.
const FORGET: u64 = 60_000_000_000;
/// Bytes of the data stream kept while a connection is being greeted; beyond, what is dropped is a gap as any other.
const HELD: usize = 4 << 20;

hub::counters! {
/// The counters so far.
pub struct Counters {
    /// Times that a Source Distributor let this P2PS join.
    pub sources_joined: u64,
    /// Times that a Source Distributor was lost.
    pub sources_lost: u64,
    /// Blocks received, on the connections and in the data stream.
    pub blocks: u64,
    /// Bytes of the blocks received.
    pub bytes: u64 in Bytes,
    /// Blocks of the data stream of Source Distributors that are not joined.
    pub blocks_unjoined: u64,
    /// Announcements that were not believed.
    pub announcements_refused: u64,
}
}

/// The connections. See the module's description.
pub struct Links {
    tcp: Tcp,
    events: Vec<Event>,
    scratch: Scratch,
    options: SocketOptions,
    /// By source number.
    sources: Vec<Source>,
    /// Names of services that lead to further ones.
    services: Services,
    hello: Hello,
    trust: Trust,
    encryption: Encryption,
    /// Bytes on their way into a connection, and out of one with TLS.
    out: Vec<u8>,
    cipher: Vec<u8>,
    /// The data stream comes on the connections.
    data: bool,
    /// The last refusal of an announcement that was told.
    refusal: String,
    resolved: Receiver<(usize, io::Result<Vec<SocketAddr>>)>,
    resolver: Sender<(usize, io::Result<Vec<SocketAddr>>)>,
    counters: Counters,
}

struct Source {
    /// `host:port`.
    host: String,
    /// Further addresses of that name, to be tried before it is looked up again.
    addresses: VecDeque<SocketAddr>,
    origin: Origin,
    /// The Source Distributor's life as it was announced last, or as it has said itself.
    incarnation: u32,
    /// The time that its last signed announcement gave.
    signed_at: u64,
    /// When its data stream was heard last.
    heard_at: u64,
    /// Blocks of its data stream that came while it is being greeted.
    held: Vec<Box<[u8]>>,
    held_bytes: usize,
    state: State,
    pause: u64,
    told: Option<String>,
}

/// How a Source Distributor is known.
enum Origin {
    Configured,
    /// The Source Distributor is, or was, among the servers of a service of this number.
    Service {
        number: usize,
        is_listed: bool,
    },
    /// Its name in announcements.
    Announced(String),
}

impl Origin {
    /// Its name in announcements.
    fn name(&self) -> Option<&str> {
        match self {
            Self::Announced(name) => Some(name),
            Self::Configured | Self::Service { .. } => None,
        }
    }

    /// Whether the place of one that is not joined may be given to another.
    fn may_give_way(&self) -> bool {
        match self {
            Self::Configured => false,
            Self::Service { is_listed, .. } => !is_listed,
            Self::Announced(_) => true,
        }
    }
}

impl Source {
    /// The Source Distributor has answered the greeting: the blocks of its data stream that came before follow.
    fn welcomed(
        &mut self,
        welcome: Welcome,
        counters: &mut Counters,
        (now, id): (u64, SourceId),
        to: &mut impl Blocks,
    ) -> Result<(), LinkError> {
        let (incarnation, number, position) = match welcome {
            Welcome::Joined { incarnation, number, position } => (incarnation, number, position),
            Welcome::Refused(why) => return Err(LinkError::Refused(why)),
        };
        counters.sources_joined += 1;
        self.incarnation = incarnation;
        self.addresses.clear();
        let name = self.origin.name().unwrap_or(&self.host);
        to.joined(now, id, Joined { incarnation, number, position }, name);
        self.held_bytes = 0;
        self.held.drain(..).try_for_each(|block| to.block(now, id, &block))
    }
}

enum State {
    /// Not to be connected to before it is heard.
    Idle,
    /// Connect at this time.
    Waiting(u64),
    /// The host's name is being looked up by a thread.
    Resolving,
    /// A connection is being made or greeted; it has until then.
    Greeting {
        line: Line,
        until: u64,
        proof: Proving,
    },
    Joined {
        line: Line,
    },
}

/// A connection with what is between its socket and its blocks.
struct Line {
    conn: ConnId,
    wire: Wire,
    reader: FrameReader,
}

/// How far the two sides have come in proving that they have the hub's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proving {
    /// The hub has none, or it is done.
    Done,
    /// The Source Distributor is to sign this.
    Asked(Nonce),
}

/// The answer to a challenge of a Source Distributor that has the hub's key; `hello` is what it was greeted with.
pub(crate) fn prove(trust: &Trust, hello: &Hello, bytes: &[u8]) -> Result<Proof, LinkError> {
    let genuine = |key| Challenge::read(bytes).filter(|c| c.is_genuine(key, hello)).map(|c| (c, key));
    let (challenge, key) = trust.key.as_ref().and_then(genuine).ok_or(LinkError::NotGenuine)?;
    Ok(Proof::new(key, hello, &challenge.nonce))
}

impl State {
    fn conn(&self) -> Option<ConnId> {
        match self {
            Self::Greeting { line, .. } | Self::Joined { line } => Some(line.conn),
            Self::Idle | Self::Waiting(_) | Self::Resolving => None,
        }
    }
}

impl Links {
    /// A P2PS of this hub; the Source Distributors are connected by [`Links::turn`]. `name` is for people there.
    ///
    /// # Errors
    /// The process has no descriptors left, or the hub's key, certificates or networks cannot be used.
    pub fn new(config: &Config, incarnation: u32, name: &str) -> io::Result<Self> {
        let c = &config.hub;
        let tcp = Tcp::new(TcpConfig::default())?;
        let data = c.transport == HubTransport::Tcp;
        let (hub, name) = (c.name.clone(), name.to_owned());
        let hello = Hello { incarnation, data, unpaced: !c.paces_providers, copy: false, hub, name, nonce: None };
        let (resolver, resolved) = channel();
        // With the other transports they say by themselves who they are and where.
        let known = if data { &c.source_distributors[..] } else { &[] };
        let hosts = known.iter().filter(|entry| !ServiceName::is_meant_by(entry));
        let sources = hosts.map(|host| Source::new(host, Origin::Configured)).collect();
        Ok(Self {
            services: Services::among(known, tcp.waker()),
            tcp,
            events: Vec::new(),
            scratch: Scratch::default(),
            options: super::socket_options(c),
            sources,
            hello,
            trust: Trust::new(c)?,
            encryption: Encryption::client(c)?,
            out: Vec::new(),
            cipher: Vec::new(),
            data,
            refusal: String::new(),
            resolved,
            resolver,
            counters: Counters::default(),
        })
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The Source Distributors that are known.
    pub(crate) fn peers(&self) -> impl Iterator<Item = HubPeer> {
        let not_found = self.services.not_found().map(|name| HubPeer {
            kind: "source-distributor",
            name,
            state: "not found",
            behind_bytes: 0,
        });
        let sources = self.sources.iter().map(|source| HubPeer {
            kind: "source-distributor",
            name: source.origin.name().map_or_else(|| source.host.clone(), |name| format!("{name} at {}", source.host)),
            state: match source.state {
                State::Idle => "not heard",
                State::Waiting(_) | State::Resolving => "not connected",
                State::Greeting { .. } => "joining",
                State::Joined { .. } => "joined",
            },
            behind_bytes: 0,
        });
        sources.chain(not_found)
    }

    /// The set, to be watched by the owner's.
    pub(crate) fn tcp(&self) -> &Tcp {
        &self.tcp
    }

    /// When [`Links::turn`] wants to be called though its descriptor is quiet.
    pub fn timeout(&self) -> Option<u64> {
        let due = |source: &Source| match source.state {
            State::Waiting(at) | State::Greeting { until: at, .. } => Some(at),
            State::Idle | State::Resolving | State::Joined { .. } => None,
        };
        self.sources.iter().filter_map(due).chain(self.tcp.timeout()).chain(self.services.timeout()).min()
    }

    /// Takes in what there is, and connects what is due.
    ///
    /// # Errors
    /// The sockets have become unusable.
    pub fn turn(&mut self, now: u64, to: &mut impl Blocks) -> io::Result<()> {
        let mut events = std::mem::take(&mut self.events);
        let polled = self.tcp.poll(Some(Duration::ZERO), &mut events);
        for event in &events {
            match *event {
                Event::Connected { conn } => self.greet(now, conn, to),
                Event::Readable { conn } => self.read(now, conn, to),
                Event::Closed { conn, why } => {
                    if let Some(number) = self.of(conn) {
                        self.lost(now, number, &why.to_string(), to);
                    }
                }
                _ => {}
            }
        }
        self.events = events;
        while let Ok((number, result)) = self.resolved.try_recv() {
            match result {
                Ok(addresses) => {
                    self.sources[number].addresses = addresses.into();
                    self.dial(now, number, to);
                }
                Err(why) => self.lost(now, number, &why.to_string(), to),
            }
        }
        while let Some((service, hosts)) = self.services.turn(now) {
            self.listed(now, service, &hosts);
        }
        for number in 0..self.sources.len() {
            match self.sources[number].state {
                State::Waiting(at) if at <= now => self.dial(now, number, to),
                State::Greeting { until, .. } if until <= now => self.end(now, number, "no answer", to),
                _ => {}
            }
        }
        polled
    }

    /// A service has these servers now: new ones are connected to, and those that it has no more are not tried again.
    fn listed(&mut self, now: u64, service: usize, hosts: &[String]) {
        for source in &mut self.sources {
            if matches!(source.origin, Origin::Service { number, .. } if number == service) {
                let is_listed = hosts.contains(&source.host);
                source.origin = Origin::Service { number: service, is_listed };
                if !is_listed && matches!(source.state, State::Waiting(_)) {
                    source.state = State::Idle;
                }
            }
        }
        for host in hosts {
            let known = self.sources.iter_mut().find(|s| s.host == *host && s.origin.name().is_none());
            let origin = Origin::Service { number: service, is_listed: true };
            let Some(known) = known else {
                if self.place(Source::new(host, origin)).is_none() {
                    tracing::warn!("Source Distributor {host} of {}: too many are known", self.services.name(service));
                }
                continue;
            };
            if known.origin.may_give_way() {
                known.origin = origin;
            }
            if matches!(known.state, State::Idle) {
                (known.pause, known.state) = (0, State::Waiting(now));
            }
        }
    }

    /// A Source Distributor has said who it is in its data stream, which comes by `session`. It is connected to. Gives its number;
    /// `None` if it is not believed.
    pub(crate) fn announced(
        &mut self,
        now: u64,
        incarnation: u32,
        announcement: &Announcement<'_>,
        session: &Session,
    ) -> Option<usize> {
        let known = self.sources.iter().position(|s| s.origin.name() == Some(announcement.name));
        let since = known.map_or(0, |number| self.sources[number].signed_at);
        if let Some(why) = self.trust.refusal(announcement, incarnation, session, since) {
            return self.refuse(announcement, session, &why);
        }
        let heard = || Source::new(announcement.address, Origin::Announced(announcement.name.to_owned()));
        let number = known.or_else(|| self.place(heard()));
        let Some(number) = number else { return self.refuse(announcement, session, "too many have joined") };
        let source = &mut self.sources[number];
        let moved = source.host != announcement.address;
        let reborn = source.incarnation != incarnation;
        if (moved || reborn) && matches!(source.state, State::Joined { .. }) {
            // The death of the one that is joined ends its connection, or its silence does.
            return self.refuse(announcement, session, "the one of this name that is joined is alive");
        }
        source.heard_at = now;
        source.signed_at = announcement.proof.map_or(0, |proof| proof.time);
        if known.is_none() {
            tracing::info!("Source Distributor {} is heard, at {}", announcement.name, announcement.address);
        }
        if moved || reborn {
            announcement.address.clone_into(&mut source.host);
            source.addresses.clear();
            source.incarnation = incarnation;
            if let Some(conn) = source.state.conn() {
                self.tcp.close(conn, Close::Reset);
            }
            (source.pause, source.state) = (0, State::Waiting(now));
            source.forget_held();
        } else if matches!(source.state, State::Idle) {
            source.state = State::Waiting(now);
        }
        Some(number)
    }

    /// A place for a Source Distributor that is new: a free one, or that of the one that was heard longest ago, of those that are not
    /// joined and not configured.
    fn place(&mut self, source: Source) -> Option<usize> {
        if self.sources.len() < MOST {
            self.sources.push(source);
            return Some(self.sources.len() - 1);
        }
        let leaves = |s: &Source| {
            s.origin.may_give_way() && matches!(s.state, State::Idle | State::Waiting(_) | State::Greeting { .. })
        };
        let candidates = self.sources.iter().enumerate().filter(|(_, s)| leaves(s));
        let number = candidates.min_by_key(|(_, s)| s.heard_at).map(|(number, _)| number)?;
        if let Some(conn) = self.sources[number].state.conn() {
            self.tcp.close(conn, Close::Reset);
        }
        self.sources[number] = source;
        Some(number)
    }

    #[cold]
    fn refuse(&mut self, announcement: &Announcement<'_>, session: &Session, why: &str) -> Option<usize> {
        self.counters.announcements_refused += 1;
        let refusal = format!("{why} ({session})");
        if self.refusal != refusal {
            tracing::warn!(
                "an announcement of Source Distributor {} at {} on {session} is not believed: {why}",
                announcement.name,
                announcement.address
            );
            self.refusal = refusal;
        }
        None
    }

    /// The data stream of a source has ended, as its sender or a daemon on its way says: what comes by it is stale from now on. The
    /// source is connected to again when it is heard.
    pub(crate) fn stream_ended(&mut self, now: u64, number: usize, incarnation: u32, to: &mut impl Blocks) {
        if self.sources[number].incarnation != incarnation {
            return;
        }
        if matches!(self.sources[number].state, State::Greeting { .. } | State::Joined { .. }) {
            self.end(now, number, "its data stream has ended", to);
        }
        self.sources[number].state = State::Idle;
    }

    /// A block of a source's data stream that has come over LBM or Aeron.
    pub(crate) fn data_block(
        &mut self,
        now: u64,
        (number, incarnation): (usize, u32),
        block: &[u8],
        to: &mut impl Blocks,
    ) {
        if self.sources[number].incarnation != incarnation {
            // Of an earlier life, or of one that had this number before.
            return self.unknown_block();
        }
        self.counters.blocks += 1;
        self.counters.bytes += block.len() as u64;
        let source = &mut self.sources[number];
        source.heard_at = now;
        match source.state {
            State::Joined { .. } => {
                if let Err(why) = to.block(now, SourceId(number as u16), block) {
                    self.end(now, number, &why.to_string(), to);
                }
            }
            // The welcome may come after the stream that it opens.
            State::Greeting { .. } if source.held_bytes + block.len() <= HELD => {
                source.held_bytes += block.len();
                source.held.push(block.into());
            }
            _ => self.counters.blocks_unjoined += 1,
        }
    }

    /// True for a source that is not connected to because it was silent for long: it has to say anew who it is.
    pub(crate) fn is_idle(&self, number: usize) -> bool {
        matches!(self.sources[number].state, State::Idle)
    }

    /// A block of the data stream of nobody that is known.
    pub(crate) fn unknown_block(&mut self) {
        self.counters.blocks_unjoined += 1;
    }

    fn of(&self, conn: ConnId) -> Option<usize> {
        self.sources.iter().position(|source| source.state.conn() == Some(conn))
    }

    fn dial(&mut self, now: u64, number: usize, to: &mut impl Blocks) {
        let source = &mut self.sources[number];
        if source.origin.name().is_some() && source.heard_at.saturating_add(FORGET) <= now {
            tracing::warn!(
                "Source Distributor {} has not been heard for a minute: it is not tried again before",
                source.host
            );
            source.state = State::Idle;
            return;
        }
        let written = source.host.replace("localhost:", "127.0.0.1:").parse().ok();
        if let Some(addr) = source.addresses.pop_front().or(written) {
            return self.connect(now, number, addr, to);
        }
        // A look-up may take seconds: it has a thread of its own, so that nobody else waits. Hosts that are announced have no names.
        source.state = State::Resolving;
        let (host, answer, waker) = (source.host.clone(), self.resolver.clone(), self.tcp.waker());
        let look_up = move || {
            let result = match host.to_socket_addrs() {
                Ok(addrs) if addrs.len() == 0 => Err(io::Error::other("no address has this name")),
                Ok(addrs) => Ok(addrs.collect()),
                Err(e) => Err(e),
            };
            let _ = answer.send((number, result));
            waker.wake();
        };
        if let Err(e) = std::thread::Builder::new().name("look-up".into()).spawn(look_up) {
            self.lost(now, number, &format!("its name cannot be looked up: {e}"), to);
        }
    }

    fn connect(&mut self, now: u64, number: usize, addr: SocketAddr, to: &mut impl Blocks) {
        let wire = match self.encryption.connect(&self.sources[number].host) {
            Ok(wire) => wire,
            Err(e) => return self.lost(now, number, &e.to_string(), to),
        };
        match self.tcp.connect(addr, &self.options) {
            Ok(conn) => {
                let line = Line { conn, wire, reader: FrameReader::new(self.trust.key.is_some()) };
                let (until, proof) = (now + CONNECT_TIME, Proving::Done);
                self.sources[number].state = State::Greeting { line, until, proof };
            }
            Err(e) => self.lost(now, number, &e.to_string(), to),
        }
    }

    /// The first word on a connection.
    fn greet(&mut self, now: u64, conn: ConnId, to: &mut impl Blocks) {
        let Some(number) = self.of(conn) else { return };
        let nonce = match self.trust.key.as_ref().map(|_| auth::nonce()).transpose() {
            Ok(nonce) => nonce,
            Err(e) => return self.end(now, number, &e.to_string(), to),
        };
        let Self { sources, hello, out, tcp, cipher, .. } = self;
        let State::Greeting { line, proof, .. } = &mut sources[number].state else { return };
        *proof = nonce.map_or(Proving::Done, Proving::Asked);
        out.clear();
        Hello { nonce, ..hello.clone() }.write(out);
        line.wire.send(out, (tcp, conn, cipher));
    }

    fn read(&mut self, now: u64, conn: ConnId, to: &mut impl Blocks) {
        let Some(number) = self.of(conn) else { return };
        let RecvOutcome::Data(bytes) = self.tcp.recv(conn, &mut self.scratch) else { return };
        let Self { tcp, sources, counters, data, trust, hello, out, cipher, .. } = self;
        let (source, data) = (&mut sources[number], *data);
        let id = SourceId(number as u16);
        let (line, mut joined, until, mut proof) = match std::mem::replace(&mut source.state, State::Idle) {
            State::Greeting { line, until, proof } => (line, false, until, proof),
            State::Joined { line } => (line, true, 0, Proving::Done),
            other => {
                source.state = other;
                return;
            }
        };
        let Line { conn, mut wire, mut reader } = line;
        let was_joined = joined;
        let mut result = Ok(());
        let mut answer = None;
        let opened = wire.receive(bytes, (tcp, conn, cipher), |bytes| {
            if result.is_err() {
                return;
            }
            result = reader.read(bytes, |frame| match (frame, proof) {
                (Frame::Greeting(bytes), Proving::Asked(nonce)) if !is_refusal(bytes) => {
                    answer = Some(prove(trust, &Hello { nonce: Some(nonce), ..hello.clone() }, bytes)?);
                    proof = Proving::Done;
                    Ok(())
                }
                (Frame::Greeting(bytes), _) => {
                    let welcome = Welcome::read(bytes)?;
                    joined |= matches!(welcome, Welcome::Joined { .. });
                    source.welcomed(welcome, counters, (now, id), to)
                }
                (Frame::Block(block), _) => {
                    counters.blocks += 1;
                    counters.bytes += block.len() as u64;
                    let is_shared = data && !frames::is_point_to_point(block);
                    if is_shared { to.block(now, id, block) } else { to.point_to_point_block(now, id, block) }
                }
            });
        });
        if let Some(proof) = answer {
            out.clear();
            proof.write(out);
            wire.send(out, (tcp, conn, cipher));
        }
        if joined && !was_joined {
            tracing::info!("Source Distributor {} is joined", source.host);
            (source.pause, source.told) = (0, None);
        }
        let line = Line { conn, wire, reader };
        source.state = if joined { State::Joined { line } } else { State::Greeting { line, until, proof } };
        let ended = opened.map_err(|e| e.to_string()).and(result.map_err(|why| why.to_string()));
        if let Err(why) = ended {
            self.end(now, number, &why, to);
        }
    }

    /// Sends a block of requests; nothing happens if the source is not joined.
    ///
    /// # Errors
    /// It takes no more: [`Links::leave`] it, with this reason.
    pub fn send(&mut self, source: SourceId, block: &[u8]) -> Result<(), LinkError> {
        let Self { sources, tcp, cipher, .. } = self;
        let Some(State::Joined { line }) = sources.get_mut(usize::from(source.0)).map(|s| &mut s.state) else {
            return Ok(());
        };
        let parts = hub::stream::parts(block, STRANGER_MAX);
        match parts.map(|part| line.wire.send(&part, (tcp, line.conn, cipher))).last() {
            Some(SendOutcome::Queued(waiting)) if waiting > MAX_REQUESTS => Err(LinkError::TakesNoRequests { waiting }),
            _ => Ok(()),
        }
    }

    /// Leaves a source that the P2PS has given up, and joins it again.
    pub fn leave(&mut self, now: u64, source: SourceId, why: &str, to: &mut impl Blocks) {
        let number = usize::from(source.0);
        if matches!(self.sources.get(number), Some(Source { state: State::Joined { .. }, .. })) {
            self.end(now, number, why, to);
        }
    }

    fn end(&mut self, now: u64, number: usize, why: &str, to: &mut impl Blocks) {
        if let Some(conn) = self.sources[number].state.conn() {
            self.tcp.close(conn, Close::Reset);
        }
        self.lost(now, number, why, to);
    }

    fn lost(&mut self, now: u64, number: usize, why: &str, to: &mut impl Blocks) {
        let source = &mut self.sources[number];
        let joined = matches!(source.state, State::Joined { .. });
        let is_over = matches!(source.origin, Origin::Service { is_listed: false, .. });
        // The next address of its name is tried at once.
        if is_over {
            source.state = State::Idle;
        } else if source.addresses.is_empty() {
            source.pause = (source.pause * 2).clamp(PAUSE_FIRST_NS, PAUSE_MAX_NS);
            source.state = State::Waiting(now + source.pause);
        } else {
            source.state = State::Waiting(now);
        }
        source.forget_held();
        if joined || source.told.as_deref() != Some(why) {
            let then = if is_over { "its name has other servers now" } else { "trying again" };
            tracing::warn!("Source Distributor {}: {why}; {then}", source.host);
            source.told = Some(why.to_owned());
        }
        if let Origin::Service { number, .. } = source.origin {
            self.services.hasten(now, number);
        }
        if joined {
            self.counters.sources_lost += 1;
            to.lost(now, SourceId(number as u16));
        }
    }
}

/// Whether a greeting says that the P2PS is refused: that needs no proof.
fn is_refusal(frame: &[u8]) -> bool {
    matches!(Welcome::read(frame), Ok(Welcome::Refused(_)))
}

impl Source {
    fn forget_held(&mut self) {
        self.held.clear();
        self.held_bytes = 0;
    }

    fn new(host: &str, origin: Origin) -> Self {
        let held = Vec::new();
        let state = State::Waiting(0);
        Self {
            host: host.to_owned(),
            addresses: VecDeque::new(),
            origin,
            incarnation: 0,
            signed_at: 0,
            heard_at: 0,
            held,
            held_bytes: 0,
            state,
            pause: 0,
            told: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Nobody joins here.
    struct Nobody;

    impl Blocks for Nobody {
        fn joined(&mut self, _: u64, _: SourceId, _: Joined, _: &str) {}
        fn block(&mut self, _: u64, _: SourceId, _: &[u8]) -> Result<(), LinkError> {
            Ok(())
        }
        fn point_to_point_block(&mut self, _: u64, _: SourceId, _: &[u8]) -> Result<(), LinkError> {
            Ok(())
        }
        fn lost(&mut self, _: u64, _: SourceId) {}
    }

    /// Turns at a time that stands still until there is a connection to `listener`.
    fn reaches(links: &mut Links, now: u64, listener: &TcpListener) -> bool {
        listener.set_nonblocking(true).expect("an option");
        for _ in 0..2_000 {
            links.turn(now, &mut Nobody).expect("sockets");
            if listener.accept().is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    #[test]
    fn the_addresses_of_a_name_are_tried_one_after_the_other_without_a_pause() {
        let listener = || TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = |listener: &TcpListener| listener.local_addr().expect("an address");
        let (closed, open) = (at(&listener()), listener());
        let mut config = Config::default();
        config.hub.source_distributors = vec!["sd.example:14004".to_owned()];
        let mut links = Links::new(&config, 1, "test").expect("sockets");
        // The name is looked up.
        links.sources[0].state = State::Resolving;
        links.resolver.send((0, Ok(vec![closed, at(&open)]))).expect("it is heard");
        assert!(reaches(&mut links, 5, &open), "the second one, though no time has passed");
        assert!(links.sources[0].addresses.is_empty());
        // When that one does not greet, the name is looked up again, after a pause.
        links.end(6, 0, "a test", &mut Nobody);
        assert!(matches!(links.sources[0].state, State::Waiting(at) if at == 6 + PAUSE_FIRST_NS));
    }

    #[test]
    fn a_service_leads_to_its_servers_and_to_others_when_it_has_others() {
        let listener = || TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = |listener: &TcpListener| listener.local_addr().expect("an address").port();
        let (one, two) = (listener(), listener());
        let mut config = Config::default();
        config.hub.source_distributors = vec!["srv:_quoteway._tcp.example.com".to_owned()];
        let mut links = Links::new(&config, 1, "test").expect("sockets");
        let states = |links: &Links| links.peers().map(|peer| (peer.name, peer.state)).collect::<Vec<_>>();
        assert_eq!(states(&links), [("srv:_quoteway._tcp.example.com".to_owned(), "not found")]);
        // The second by priority is the second in the order of the sources, in which a P2PS asks them.
        links.services.answer(0, Ok(&[(20, "127.0.0.1", port(&two)), (10, "localhost", port(&one))]), 60);
        assert!(reaches(&mut links, 5, &one) && reaches(&mut links, 5, &two));
        let names = [format!("localhost:{}", port(&one)), format!("127.0.0.1:{}", port(&two))];
        assert_eq!(links.sources.iter().map(|source| source.host.clone()).collect::<Vec<_>>(), names);
        // The first is no more among them: it is not tried again when it is lost, the second is.
        links.services.answer(0, Ok(&[(20, "127.0.0.1", port(&two))]), 60);
        links.turn(6, &mut Nobody).expect("sockets");
        links.end(6, 0, "a test", &mut Nobody);
        links.end(6, 1, "a test", &mut Nobody);
        assert_eq!(states(&links), [(names[0].clone(), "not heard"), (names[1].clone(), "not connected")]);
        // A failed look-up changes nothing; when it is listed again it is connected to again.
        links.services.answer(0, Err(net::dns::Fault::NoRecords), 0);
        links.turn(6, &mut Nobody).expect("sockets");
        assert_eq!(states(&links)[0].1, "not heard");
        links.services.answer(0, Ok(&[(10, "localhost", port(&one))]), 60);
        assert!(reaches(&mut links, 7, &one));
        assert_eq!((links.sources.len(), states(&links)[1].1), (2, "not heard"));
    }
}
