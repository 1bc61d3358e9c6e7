//! A P2PS's unicast connections, one to each Source Distributor that it knows by configuration or by announcement.
//!
//! A connection that is lost, refused or ended is tried again for ever, after a pause that grows from a tenth of a second
//! to [`PAUSE_MAX`]. What is wrong is told once, until it changes.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use hub::p2ps::{Joined, SourceId};
use net::tcp::{Close, ConnId, Event, RecvOutcome, Scratch, SendOutcome, SocketOptions, Tcp, TcpConfig};

use super::announcement::Announcement;
use super::frames::{self, Frame, FrameError, FrameReader, Hello, Welcome};
use crate::config::{Config, HubTransport};

const PAUSE_FIRST: u64 = 100_000_000;
/// Source Distributors that a P2PS knows at most: their names may come from the network.
const MOST: usize = 1_000;
/// Longest pause before a Source Distributor is tried again, nanoseconds.
pub const PAUSE_MAX: u64 = 2_000_000_000;
/// Time in which a connection has to be made and greeted.
const CONNECT_TIME: u64 = 10_000_000_000;
/// Bytes of requests that may wait for a Source Distributor; one that takes no more is not there.
const MAX_REQUESTS: usize = 64 << 20;

/// What the hub brings for the P2PS.
pub trait Blocks {
    /// A Source Distributor has let this P2PS join.
    fn joined(&mut self, now: u64, source: SourceId, joined: Joined);
    /// A block of the data stream of a source.
    ///
    /// # Errors
    /// Why the connection with the source is to be ended.
    fn block(&mut self, now: u64, source: SourceId, block: &[u8]) -> Result<(), String>;
    /// A block for this P2PS alone.
    ///
    /// # Errors
    /// As for [`Blocks::block`].
    fn direct_block(&mut self, now: u64, source: SourceId, block: &[u8]) -> Result<(), String>;
    /// A source that was joined is lost.
    fn lost(&mut self, now: u64, source: SourceId);
}

/// One that has not been heard for so long is not connected to any more, until it is heard again. Nanoseconds.
const FORGET: u64 = 60_000_000_000;
/// Bytes of the data stream kept while a connection is being greeted; beyond, what is dropped is a gap as any other.
const HELD: usize = 4 << 20;

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Times that a Source Distributor let this P2PS join.
    pub joined: u64,
    /// Times that one was lost.
    pub lost: u64,
    /// Blocks received, on the connections and in the data stream.
    pub blocks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Blocks of the data stream of Source Distributors that are not joined.
    pub blocks_unjoined: u64,
}

/// The connections. See the module's description.
pub struct Links {
    tcp: Tcp,
    events: Vec<Event>,
    scratch: Scratch,
    options: SocketOptions,
    /// By source number.
    sources: Vec<Source>,
    hello: Vec<u8>,
    /// The data stream comes on the connections.
    data: bool,
    resolved: Receiver<(usize, Result<SocketAddr, String>)>,
    resolver: Sender<(usize, Result<SocketAddr, String>)>,
    counters: Counters,
}

struct Source {
    /// `host:port`.
    host: String,
    /// What it is called in announcements; `None` for one that is configured.
    name: Option<String>,
    /// Its life as it was announced last.
    incarnation: u32,
    /// When its data stream was heard last.
    heard_at: u64,
    /// What came of its data stream while it is being greeted.
    held: Vec<Box<[u8]>>,
    held_bytes: usize,
    state: State,
    pause: u64,
    told: Option<String>,
}

enum State {
    /// Not to be connected to before it is heard.
    Idle,
    /// Connect at this time.
    Waiting(u64),
    /// Its name is being looked up by a thread.
    Resolving,
    /// A connection is being made or greeted; it has until then.
    Greeting {
        conn: ConnId,
        until: u64,
        reader: FrameReader,
    },
    Joined {
        conn: ConnId,
        reader: FrameReader,
    },
}

impl State {
    fn conn(&self) -> Option<ConnId> {
        match self {
            Self::Greeting { conn, .. } | Self::Joined { conn, .. } => Some(*conn),
            Self::Idle | Self::Waiting(_) | Self::Resolving => None,
        }
    }
}

/// A failure of a peer, in words.
struct Fault(String);

impl From<FrameError> for Fault {
    fn from(e: FrameError) -> Self {
        Self(e.to_string())
    }
}

impl Links {
    /// A P2PS of this hub; the Source Distributors are connected by [`Links::turn`]. `name` is for people there.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn new(config: &Config, incarnation: u32, name: &str) -> io::Result<Self> {
        let c = &config.hub;
        let tcp = Tcp::new(TcpConfig::default())?;
        let mut hello = Vec::new();
        let data = c.transport == HubTransport::Tcp;
        Hello { incarnation, data, hub: c.name.clone(), name: name.to_owned() }.write(&mut hello);
        let (resolver, resolved) = channel();
        // With the other transports they say by themselves who they are and where.
        let sources =
            if data { c.source_distributors.iter().map(|host| Source::new(host)).collect() } else { Vec::new() };
        Ok(Self {
            tcp,
            events: Vec::new(),
            scratch: Scratch::default(),
            options: super::socket_options(c),
            sources,
            hello,
            data,
            resolved,
            resolver,
            counters: Counters::default(),
        })
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The set, to be watched by the owner's.
    pub(super) fn tcp(&self) -> &Tcp {
        &self.tcp
    }

    /// When [`Links::turn`] wants to be called though its descriptor is quiet.
    pub fn timeout(&self) -> Option<u64> {
        let due = |source: &Source| match source.state {
            State::Waiting(at) | State::Greeting { until: at, .. } => Some(at),
            State::Idle | State::Resolving | State::Joined { .. } => None,
        };
        self.sources.iter().filter_map(due).chain(self.tcp.timeout()).min()
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
                Event::Connected { conn } => {
                    self.tcp.send(conn, &self.hello);
                }
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
                Ok(addr) => self.connect(now, number, addr, to),
                Err(why) => self.lost(now, number, &why, to),
            }
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

    /// A Source Distributor has said in its data stream who it is. It is connected to, and left first if it has another life than
    /// the one that is joined. Gives its number; `None` if there are too many.
    pub(super) fn announced(
        &mut self,
        now: u64,
        incarnation: u32,
        announcement: &Announcement<'_>,
        to: &mut impl Blocks,
    ) -> Option<usize> {
        let known = self.sources.iter().position(|s| s.name.as_deref() == Some(announcement.name));
        let number = match known {
            Some(number) => number,
            None if self.sources.len() < MOST => {
                self.sources.push(Source::new(announcement.address));
                self.sources.len() - 1
            }
            None => return None,
        };
        let source = &mut self.sources[number];
        if known.is_none() {
            tracing::info!("Source Distributor {} is heard, at {}", announcement.name, announcement.address);
            source.name = Some(announcement.name.to_owned());
            source.incarnation = incarnation;
        }
        source.heard_at = now;
        let moved = source.host != announcement.address;
        let reborn = source.incarnation != incarnation;
        if moved || reborn {
            announcement.address.clone_into(&mut source.host);
            source.incarnation = incarnation;
            if source.state.conn().is_some() {
                self.end(now, number, "it has started again", to);
            }
            self.sources[number].pause = 0;
        }
        if moved || reborn || matches!(self.sources[number].state, State::Idle) {
            self.sources[number].state = State::Waiting(now);
        }
        Some(number)
    }

    /// A block of a source's data stream that has come over LBM.
    pub(super) fn data_block(&mut self, now: u64, number: usize, block: &[u8], to: &mut impl Blocks) {
        self.counters.blocks += 1;
        self.counters.bytes += block.len() as u64;
        let source = &mut self.sources[number];
        source.heard_at = now;
        match source.state {
            State::Joined { .. } => {
                if let Err(why) = to.block(now, SourceId(number as u16), block) {
                    self.end(now, number, &why, to);
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
    pub(super) fn is_idle(&self, number: usize) -> bool {
        matches!(self.sources[number].state, State::Idle)
    }

    /// A block of the data stream of nobody that is known.
    pub(super) fn unknown_block(&mut self) {
        self.counters.blocks_unjoined += 1;
    }

    fn of(&self, conn: ConnId) -> Option<usize> {
        self.sources.iter().position(|source| source.state.conn() == Some(conn))
    }

    fn dial(&mut self, now: u64, number: usize, to: &mut impl Blocks) {
        let source = &mut self.sources[number];
        if source.name.is_some() && source.heard_at.saturating_add(FORGET) <= now {
            tracing::warn!(
                "Source Distributor {} has not been heard for a minute: it is not tried again before",
                source.host
            );
            source.state = State::Idle;
            return;
        }
        if let Ok(addr) = source.host.replace("localhost:", "127.0.0.1:").parse() {
            return self.connect(now, number, addr, to);
        }
        // A look-up may take seconds: it has a thread of its own, so that nobody else waits.
        source.state = State::Resolving;
        let (host, answer, waker) = (source.host.clone(), self.resolver.clone(), self.tcp.waker());
        std::thread::spawn(move || {
            let result = match host.to_socket_addrs() {
                Ok(mut addrs) => addrs.next().ok_or_else(|| "no address has this name".to_owned()),
                Err(e) => Err(e.to_string()),
            };
            let _ = answer.send((number, result));
            waker.wake();
        });
    }

    fn connect(&mut self, now: u64, number: usize, addr: SocketAddr, to: &mut impl Blocks) {
        match self.tcp.connect(addr, &self.options) {
            Ok(conn) => {
                let reader = FrameReader::default();
                self.sources[number].state = State::Greeting { conn, until: now + CONNECT_TIME, reader };
            }
            Err(e) => self.lost(now, number, &e.to_string(), to),
        }
    }

    fn read(&mut self, now: u64, conn: ConnId, to: &mut impl Blocks) {
        let Some(number) = self.of(conn) else { return };
        let RecvOutcome::Data(bytes) = self.tcp.recv(conn, &mut self.scratch) else { return };
        let Self { sources, counters, data, .. } = self;
        let (source, data) = (&mut sources[number], *data);
        let id = SourceId(number as u16);
        let (mut reader, mut joined) = match &mut source.state {
            State::Greeting { reader, .. } => (std::mem::take(reader), false),
            State::Joined { reader, .. } => (std::mem::take(reader), true),
            State::Idle | State::Waiting(_) | State::Resolving => return,
        };
        let (held, held_bytes) = (&mut source.held, &mut source.held_bytes);
        let result = reader.read(bytes, |frame| match frame {
            Frame::Greeting(bytes) => match Welcome::read(bytes)? {
                Welcome::Joined { incarnation, number, position } => {
                    joined = true;
                    counters.joined += 1;
                    to.joined(now, id, Joined { incarnation, number, position });
                    *held_bytes = 0;
                    held.drain(..).try_for_each(|block| to.block(now, id, &block)).map_err(Fault)
                }
                Welcome::Refused(why) => Err(Fault(format!("refused: {why}"))),
            },
            Frame::Block(block) => {
                counters.blocks += 1;
                counters.bytes += block.len() as u64;
                let taken = if data && !frames::is_direct(block) {
                    to.block(now, id, block)
                } else {
                    to.direct_block(now, id, block)
                };
                taken.map_err(Fault)
            }
        });
        if joined {
            if matches!(source.state, State::Greeting { .. }) {
                tracing::info!("Source Distributor {} is joined", source.host);
                (source.pause, source.told) = (0, None);
            }
            source.state = State::Joined { conn, reader };
        } else if let State::Greeting { reader: kept, .. } = &mut source.state {
            *kept = reader;
        }
        if let Err(Fault(why)) = result {
            self.end(now, number, &why, to);
        }
    }

    /// Sends a block of requests; nothing happens if the source is not joined.
    ///
    /// # Errors
    /// It takes no more: [`Links::leave`] it, with this reason.
    pub fn send(&mut self, source: SourceId, block: &[u8]) -> Result<(), String> {
        let Some(State::Joined { conn, .. }) = self.sources.get(usize::from(source.0)).map(|s| &s.state) else {
            return Ok(());
        };
        match self.tcp.send(*conn, block) {
            SendOutcome::Queued(waiting) if waiting > MAX_REQUESTS => {
                Err(format!("it takes no requests: {waiting} bytes are waiting"))
            }
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
        source.pause = (source.pause * 2).clamp(PAUSE_FIRST, PAUSE_MAX);
        source.state = State::Waiting(now + source.pause);
        source.held.clear();
        source.held_bytes = 0;
        if joined || source.told.as_deref() != Some(why) {
            tracing::warn!("Source Distributor {}: {why}; trying again", source.host);
            source.told = Some(why.to_owned());
        }
        if joined {
            self.counters.lost += 1;
            to.lost(now, SourceId(number as u16));
        }
    }
}

impl Source {
    fn new(host: &str) -> Self {
        let (name, held) = (None, Vec::new());
        let state = State::Waiting(0);
        Self {
            host: host.to_owned(),
            name,
            incarnation: 0,
            heard_at: 0,
            held,
            held_bytes: 0,
            state,
            pause: 0,
            told: None,
        }
    }
}
