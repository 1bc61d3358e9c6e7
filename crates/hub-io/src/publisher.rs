//! A Source Distributor's side of the hub: the P2PSs' unicast connections, and the data stream to all of them.
//!
//! A P2PS that takes less than it is sent has `max_backlog` bytes of queue; then it is cut off, counted and said, and
//! joins again. No other notices.
//!
//! Who connects is let in by its network (`hub.allow`), proves that it has the hub's key if there is one, and is one of
//! `hub.p2ps_per_host` at most. Of those that have not joined, the oldest gives way to a new one when all places are taken.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use config::{Config, HubTransport};
use hub::stream::{BlockWriter, parts};
use net::tcp::{Close, ConnId, Event, RecvOutcome, Scratch, SendOutcome, Tcp, TcpConfig};

use super::LinkError;
use super::announcement::Announcement;
use super::auth::{self, Nonce};
use super::frames::{
    self, Challenge, Frame, FrameError, FrameReader, Hello, LONGEST_BLOCK, Proof, STRANGER_MAX, Welcome,
};
use super::outgoing::{Outgoing, public_address};
use super::trust::{Trust, unix_ms};
use super::wire::{Encryption, Wire};
use rssl_io::RsslIo;

/// P2PSs at a time: half of those that the Source Distributor keeps apart, since one that is gone keeps its place for its lease.
pub const MOST: u16 = 2_048;
/// Connections at a time, those included that have not greeted.
pub const CONNECTIONS: usize = 4_096;
/// Connections of one address that have not greeted.
const UNGREETED_OF_HOST: usize = 64;
/// Longest block that is sent; longer ones are cut between messages.
const CUT: usize = LONGEST_BLOCK / 4;
/// Bytes of blocks that all P2PSs together have not finished, at a hub without a key.
const UNFINISHED_OF_ALL: usize = 32 << 20;
/// Time in which a refusal has to be taken.
pub(crate) const DRAIN: Duration = Duration::from_secs(2);

/// Events of the connections for the Source Distributor.
pub trait Requests {
    /// A block of requests.
    ///
    /// # Errors
    /// Why the connection is to be ended.
    fn requests(&mut self, now: u64, number: u16, block: &[u8]) -> Result<(), LinkError>;
    /// A P2PS is gone.
    fn gone(&mut self, now: u64, number: u16);
}

hub::counters! {
/// The counters so far.
pub struct Counters {
    /// P2PSs that have joined.
    pub p2ps_joined: u64,
    /// P2PSs that are gone, for whatever reason.
    pub p2ps_lost: u64,
    /// P2PSs that were cut off because they took too little; they count as lost too.
    pub p2ps_cut_off: u64,
    /// Connections refused, or ended before they had joined.
    pub p2ps_refused: u64,
    /// Copies of all images that were given to Source Distributors that start.
    pub copies_given: u64,
    /// Images in them.
    pub images_copied: u64,
    /// Blocks published.
    pub blocks: u64,
    /// Bytes of the blocks published.
    pub bytes: u64 in Bytes,
    /// Times that LBM or Aeron would have blocked.
    pub blocked: u64,
    /// Times that providers had to wait since too much waited for LBM or Aeron.
    pub congestions: u64,
    /// Bytes that wait for LBM or Aeron.
    pub waiting_bytes: u64 as Gauge in Bytes,
}
}

/// The sockets and the data stream. See the module's description.
pub struct Publisher {
    pub(crate) tcp: Tcp,
    events: Vec<Event>,
    scratch: Scratch,
    pub(crate) out: Vec<u8>,
    addr: SocketAddr,
    /// By connection slot.
    pub(crate) links: Vec<Option<Link>>,
    /// Connections that have greeted and wait for [`Publisher::join`].
    greeted: Vec<ConnId>,
    /// The connections of those that have joined, by their numbers.
    numbers: Vec<Option<ConnId>>,
    /// New connections are looked through for such that never greet.
    sweep_at: Option<u64>,
    trust: Trust,
    encryption: Encryption,
    /// Bytes that leave a connection with TLS.
    pub(crate) cipher: Vec<u8>,
    /// Images a second that a Source Distributor is given that starts; 0 for as many as it takes.
    pub(crate) copy_pace: u32,
    per_host: usize,
    /// In which a connection has to greet, nanoseconds.
    greeting_time: u64,
    pub(crate) incarnation: u32,
    /// Where the data stream goes over LBM or Aeron.
    outgoing: Option<Outgoing>,
    /// The announcement in the heartbeats of the data stream: name, address.
    announced: [String; 2],
    /// When they say it anew; `None` once it stays as it is.
    announce_at: Option<u64>,
    announce_every: u64,
    /// The time that the last signed announcement gives.
    signed_at: u64,
    max_backlog: usize,
    /// Numbers of P2PSs whose connections were ended because they took too little.
    cut_off: Vec<u16>,
    pub(crate) counters: Counters,
}

/// A P2PS that has joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinedP2ps {
    /// The number of the P2PS that has joined.
    pub number: u16,
    /// Nobody is to wait for it.
    pub unpaced: bool,
}

pub(crate) struct Link {
    pub(crate) conn: ConnId,
    ip: IpAddr,
    pub(crate) peer: String,
    pub(crate) wire: Wire,
    reader: FrameReader,
    pub(crate) state: State,
    since: u64,
    /// Since when much of a block is there whose end has not come.
    unfinished_since: Option<u64>,
}

/// How far a copy has come.
pub(crate) struct Progress {
    pub(crate) writer: BlockWriter,
    /// Where the next part begins.
    pub(crate) from: u32,
    /// When it goes out.
    pub(crate) next: u64,
    pub(crate) images: u64,
}

pub(crate) enum State {
    New,
    /// The P2PS is to prove that it has the key.
    Challenged(Hello, Nonce),
    Greeted(Hello),
    Joined {
        number: u16,
        data: bool,
    },
    /// A Source Distributor that starts, and how far the copy has come that it is given.
    Copying(Progress),
}

impl State {
    fn is_new(&self) -> bool {
        matches!(self, Self::New | Self::Challenged(..))
    }

    /// Takes the next greeting; gives what is to be said in answer.
    fn greeting(&mut self, bytes: &[u8], trust: &Trust) -> Result<Option<Challenge>, Fault> {
        match (std::mem::replace(self, Self::New), &trust.key) {
            (Self::New, key) => {
                let hello = Hello::read(bytes)?;
                match (key, hello.nonce) {
                    (None, None) => *self = Self::Greeted(hello),
                    (Some(_), None) => return Err(Fault::Refused("the hub has a key, and it has none".into())),
                    (None, Some(_)) => return Err(Fault::Refused("it has a key, and this hub has none".into())),
                    (Some(key), Some(_)) => {
                        let nonce = auth::nonce().map_err(|e| Fault::Broken(e.to_string()))?;
                        let challenge = Challenge::new(key, &hello, nonce);
                        *self = Self::Challenged(hello, nonce);
                        return Ok(Some(challenge));
                    }
                }
                Ok(None)
            }
            (Self::Challenged(hello, nonce), Some(key)) => {
                let proof = Proof::read(bytes).filter(|proof| proof.is_genuine(key, &hello, &nonce));
                *self = Self::Greeted(hello);
                proof.map(|_| None).ok_or_else(|| Fault::Refused("it does not have the hub's key".into()))
            }
            (other, _) => {
                *self = other;
                Err(FrameError::OutOfTurn.into())
            }
        }
    }
}

/// A failure of a peer, in words.
enum Fault {
    /// The peer's connection is of no use.
    Broken(String),
    /// The peer is told.
    Refused(String),
}

impl From<FrameError> for Fault {
    fn from(e: FrameError) -> Self {
        Self::Broken(e.to_string())
    }
}

impl Publisher {
    /// Opens the port for P2PSs and has the owner's turns end when something comes in. `incarnation` is the Source
    /// Distributor's.
    ///
    /// # Errors
    /// The port cannot be listened on, or the LBM options are wrong; the message says which.
    pub fn new(config: &Config, incarnation: u32, io: &mut RsslIo) -> io::Result<Self> {
        let c = &config.hub;
        let at = config::listening_address(&c.interface, c.port)?;
        let mut tcp = Tcp::new(TcpConfig::default())?;
        let (_, addr) = tcp
            .listen(at, &super::socket_options(c))
            .map_err(|e| config::listening_fault("the hub", at, "--hub-port (hub.port)", &e))?;
        super::watch(io, &tcp, super::UNICAST)?;
        let (mut outgoing, mut sending) = (None, None);
        if c.transport != HubTransport::Tcp {
            let mut stream = Outgoing::new(config)?;
            if let Some(fd) = stream.fd() {
                super::watch(io, &fd, super::DATA)?;
            }
            sending = stream.address();
            outgoing = Some(stream);
        }
        let address = public_address(addr, sending).to_string();
        let name = if c.instance.is_empty() { address.clone() } else { c.instance.clone() };
        if (Announcement { name: &name, address: &address, proof: None }).encode().is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "hub.instance is over 255 bytes long"));
        }
        Ok(Self {
            tcp,
            events: Vec::new(),
            scratch: Scratch::default(),
            out: Vec::new(),
            addr,
            links: Vec::new(),
            greeted: Vec::new(),
            numbers: Vec::new(),
            sweep_at: None,
            trust: Trust::new(c)?,
            encryption: Encryption::server(c)?,
            cipher: Vec::new(),
            copy_pace: config.source_distributor.cache_res_download_pace,
            per_host: c.p2ps_per_host as usize,
            greeting_time: u64::from(c.greeting_timeout_s) * 1_000_000_000,
            incarnation,
            outgoing,
            announced: [name, address],
            announce_at: Some(0),
            // Each heartbeat has one of its own.
            announce_every: u64::from(c.heartbeat_interval_ms) * 500_000,
            signed_at: 0,
            max_backlog: c.max_backlog as usize,
            cut_off: Vec::new(),
            counters: Counters::default(),
        })
    }

    /// Where P2PSs connect.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        let Some(outgoing) = &self.outgoing else { return self.counters };
        Counters {
            blocked: outgoing.blocked,
            congestions: outgoing.congestions,
            waiting_bytes: outgoing.waiting_bytes() as u64,
            ..self.counters
        }
    }

    /// Aeron's counters, where the data stream goes over it.
    pub fn aeron(&self) -> Option<super::aeron::Counters> {
        self.outgoing.as_ref().and_then(Outgoing::aeron)
    }

    /// The P2PS's identity for people: the name that it gave and its address.
    pub fn peer(&self, number: u16) -> Option<&str> {
        let conn = self.conn_of(number)?;
        self.links.get(conn.slot())?.as_ref().map(|link| link.peer.as_str())
    }

    /// When [`Publisher::turn`] wants to be called though its descriptor is quiet.
    pub fn timeout(&mut self) -> Option<u64> {
        let data = self.outgoing.as_mut().and_then(Outgoing::timeout);
        [self.tcp.timeout(), self.sweep_at, data, self.copies_due()].into_iter().flatten().min()
    }

    /// The announcement for the Source Distributor's heartbeats from now on, if it is new.
    pub fn announcement(&mut self, now: u64) -> Option<Vec<u8>> {
        self.announce_at.filter(|at| *at <= now)?;
        let [name, address] = &self.announced;
        let plain = Announcement { name, address, proof: None };
        let Some(key) = &self.trust.key else {
            self.announce_at = None;
            return plain.encode();
        };
        // Over Aeron there is none before its driver has said it.
        let session = self.outgoing.as_mut().map_or(Some(String::new()), Outgoing::session)?;
        self.announce_at = Some(now.saturating_add(self.announce_every));
        self.signed_at = unix_ms().max(self.signed_at + 1);
        plain.signed(key, &self.trust.hub, self.incarnation, &session, self.signed_at).encode()
    }

    /// True while the data stream does not flow: providers are to wait.
    pub fn is_congested(&self) -> bool {
        self.outgoing.as_ref().is_some_and(Outgoing::is_congested)
    }

    /// Takes in what there is, and keeps the data stream moving. `ready` says what the owner's set has reported.
    ///
    /// # Errors
    /// The sockets have become unusable.
    pub fn turn(&mut self, now: u64, ready: super::Ready, to: &mut impl Requests) -> io::Result<()> {
        if let Some(outgoing) = &mut self.outgoing
            && (ready.data || outgoing.timeout().is_some_and(|at| at <= now))
        {
            outgoing.turn(now)?;
        }
        let due = [self.tcp.timeout(), self.sweep_at].into_iter().flatten().any(|at| at <= now);
        if ready.unicast || due { self.requests(now, to) } else { Ok(()) }
    }

    fn requests(&mut self, now: u64, to: &mut impl Requests) -> io::Result<()> {
        let mut events = std::mem::take(&mut self.events);
        let polled = self.tcp.poll(Some(Duration::ZERO), &mut events);
        for event in &events {
            match *event {
                Event::Accepted { conn, peer, .. } => self.accepted(now, conn, peer),
                Event::Readable { conn } => self.read(now, conn, to),
                Event::Closed { conn, why } => self.lost(now, conn, &why.to_string(), to),
                Event::AcceptFailed { errno, .. } => {
                    tracing::warn!("a P2PS cannot be accepted: {}", io::Error::from_raw_os_error(errno));
                }
                _ => {}
            }
        }
        self.events = events;
        if self.sweep_at.is_some_and(|at| at <= now) {
            self.sweep(now, to);
        }
        polled
    }

    fn accepted(&mut self, now: u64, conn: ConnId, peer: SocketAddr) {
        let ip = peer.ip().to_canonical();
        let wire = match self.encryption.accept() {
            _ if !self.trust.allows(ip) => Err("it is of no network of this hub (hub.allow)".to_owned()),
            Err(error) => Err(format!("it cannot be encrypted: {error}")),
            Ok(_) if !self.has_place(ip) => Err(format!("all {CONNECTIONS} places for connections are taken")),
            Ok(wire) => Ok(wire),
        };
        let wire = match wire {
            Ok(wire) => wire,
            Err(why) => {
                tracing::info!("connection from {peer} to the hub port refused: {why}");
                self.counters.p2ps_refused += 1;
                return self.tcp.close(conn, Close::Now);
            }
        };
        if self.links.len() <= conn.slot() {
            self.links.resize_with(conn.slot() + 1, || None);
        }
        let reader = FrameReader::of_requests(self.trust.key.is_some());
        let peer = peer.to_string();
        let link = Link { conn, ip, peer, wire, reader, state: State::New, since: now, unfinished_since: None };
        self.links[conn.slot()] = Some(link);
        self.sweep_at.get_or_insert(now + self.greeting_time);
    }

    /// Whether one more connection can be taken. When none can, the oldest that has not greeted gives way: of the same host if that
    /// has as many as a host may have, else of any.
    fn has_place(&mut self, ip: IpAddr) -> bool {
        let new_of_host = self.links.iter().flatten().filter(|link| link.ip == ip && link.state.is_new()).count();
        let full = self.links.iter().flatten().count() >= CONNECTIONS;
        if !full && new_of_host < UNGREETED_OF_HOST {
            return true;
        }
        let same = new_of_host >= UNGREETED_OF_HOST;
        let waiting = self.links.iter().flatten().filter(|l| l.state.is_new() && (!same || l.ip == ip));
        let Some(oldest) = waiting.min_by_key(|link| link.since).map(|link| link.conn) else { return false };
        self.tcp.close(oldest, Close::Now);
        if let Some(link) = self.links[oldest.slot()].take() {
            tracing::info!("a connection of {} to the hub port has not greeted, and gives way to another", link.peer);
        }
        self.counters.p2ps_refused += 1;
        true
    }

    fn read(&mut self, now: u64, conn: ConnId, to: &mut impl Requests) {
        let RecvOutcome::Data(bytes) = self.tcp.recv(conn, &mut self.scratch) else { return };
        let Self { tcp, links, greeted, cipher, trust, encryption, out, .. } = self;
        let Some(link) = links.get_mut(conn.slot()).and_then(Option::as_mut).filter(|l| l.conn == conn) else {
            return;
        };
        let Link { reader, state, wire, .. } = link;
        let was_new = state.is_new();
        let (mut result, mut answer) = (Ok(()), None);
        let opened = wire.receive(bytes, (tcp, conn, cipher), |bytes| {
            if result.is_err() {
                return;
            }
            result = reader.read(bytes, |frame| match (frame, &*state) {
                (Frame::Greeting(bytes), _) => {
                    answer = state.greeting(bytes, trust)?;
                    if matches!(state, State::Greeted(_)) {
                        greeted.push(conn);
                    }
                    Ok(())
                }
                (Frame::Block(block), State::Joined { number, .. }) => {
                    to.requests(now, *number, block).map_err(|e| Fault::Broken(e.to_string()))
                }
                (Frame::Block(_), _) => Err(FrameError::OutOfTurn.into()),
            });
        });
        if was_new {
            encryption.log_news();
        }
        if let Some(challenge) = answer {
            out.clear();
            challenge.write(out);
            wire.send(out, (tcp, conn, cipher));
        }
        match (opened, result) {
            (Err(e), _) => self.end(now, conn, &e.to_string(), Close::Drain(DRAIN), to),
            (_, Err(Fault::Broken(why))) => self.end(now, conn, &why, Close::Now, to),
            (_, Err(Fault::Refused(why))) => self.refuse(conn, &why),
            _ => self.look_at_unfinished(now, conn, to),
        }
    }

    /// Where the hub has no key anybody may have joined: what they all have not finished is bounded, and whoever has been at it for the longest
    /// gives way.
    fn look_at_unfinished(&mut self, now: u64, conn: ConnId, to: &mut impl Requests) {
        if self.trust.key.is_some() {
            return;
        }
        let Some(link) = self.links.get_mut(conn.slot()).and_then(Option::as_mut) else { return };
        if link.reader.unfinished() <= STRANGER_MAX {
            link.unfinished_since = None;
            return;
        }
        link.unfinished_since.get_or_insert(now);
        let all: usize = self.links.iter().flatten().map(|link| link.reader.unfinished()).sum();
        if all <= UNFINISHED_OF_ALL {
            return;
        }
        let since = |link: &&Link| link.unfinished_since.unwrap_or(u64::MAX);
        if let Some(oldest) = self.links.iter().flatten().min_by_key(since) {
            let (conn, bytes) = (oldest.conn, oldest.reader.unfinished());
            let why = format!(
                "{bytes} bytes of a block that is not finished, and {all} of all P2PSs: with a key (hub.key_file) nobody else can join"
            );
            self.end(now, conn, &why, Close::Reset, to);
        }
    }

    /// Tells a P2PS why it cannot join, and ends its connection.
    fn refuse(&mut self, conn: ConnId, why: &str) {
        let Self { tcp, links, cipher, out, .. } = self;
        let Some(mut link) = links.get_mut(conn.slot()).and_then(|l| l.take_if(|l| l.conn == conn)) else { return };
        out.clear();
        Welcome::Refused(why.to_owned()).write(out);
        link.wire.send(out, (tcp, conn, cipher));
        tracing::warn!("{} is refused at the hub port: {why}", link.peer);
        self.counters.p2ps_refused += 1;
        self.greeted.retain(|&c| c != conn);
        self.tcp.close(conn, Close::Drain(DRAIN));
    }

    /// Ends a connection; what is known of it is forgotten at once.
    fn end(&mut self, now: u64, conn: ConnId, why: &str, how: Close, to: &mut impl Requests) {
        self.tcp.close(conn, how);
        self.lost(now, conn, why, to);
    }

    fn lost(&mut self, now: u64, conn: ConnId, why: &str, to: &mut impl Requests) {
        if let Some(number) = self.forget(conn, why) {
            to.gone(now, number);
        }
    }

    /// Forgets a connection; gives the number of the P2PS if it had joined.
    fn forget(&mut self, conn: ConnId, why: &str) -> Option<u16> {
        let link = self.links.get_mut(conn.slot())?.take_if(|link| link.conn == conn)?;
        self.greeted.retain(|&c| c != conn);
        let State::Joined { number, .. } = link.state else {
            self.counters.p2ps_refused += 1;
            tracing::warn!("a connection of {} to the hub port has ended: {why}", link.peer);
            return None;
        };
        self.numbers[usize::from(number)] = None;
        self.counters.p2ps_lost += 1;
        tracing::warn!("P2PS {number} ({}) is gone: {why}", link.peer);
        Some(number)
    }

    /// Ends connections that never greet.
    fn sweep(&mut self, now: u64, to: &mut impl Requests) {
        let new = |l: &&Link| l.state.is_new();
        let late = |l: &&Link| l.since + self.greeting_time <= now;
        let silent: Vec<ConnId> = self.links.iter().flatten().filter(new).filter(late).map(|l| l.conn).collect();
        for conn in silent {
            self.end(now, conn, "it has not greeted in time", Close::Now, to);
        }
        self.sweep_at = self.links.iter().flatten().filter(new).map(|l| l.since + self.greeting_time).min();
    }

    /// Lets the next P2PS join that has greeted, and gives its number: it is to be told all there is. To be called between
    /// two blocks, until there is none; `position` is that of the next.
    pub fn join(&mut self, position: u64) -> Option<JoinedP2ps> {
        while let Some(conn) = self.greeted.pop() {
            let Some(link) = self.links.get(conn.slot()).and_then(Option::as_ref).filter(|l| l.conn == conn) else {
                continue;
            };
            let State::Greeted(hello) = &link.state else { continue };
            let (hello, ip) = (hello.clone(), link.ip);
            if hello.copy && hello.hub == self.trust.hub {
                self.begin_copy(conn);
                continue;
            }
            let free = self.numbers.iter().position(Option::is_none).unwrap_or(self.numbers.len());
            let free = u16::try_from(free).unwrap_or(MOST);
            let joined = |l: &&Link| l.ip == ip && matches!(l.state, State::Joined { .. });
            let of_host = self.links.iter().flatten().filter(joined).count();
            let refusal = if hello.hub != self.trust.hub {
                Some(format!("this is hub {}, not {}", self.trust.hub, hello.hub))
            } else if free >= MOST {
                Some(format!("all {MOST} places for P2PSs are taken"))
            } else if of_host >= self.per_host {
                Some(format!("{of_host} P2PSs of {ip} have joined (hub.p2ps_per_host)"))
            } else {
                None
            };
            if let Some(why) = refusal {
                self.refuse(conn, &why);
                continue;
            }
            let Self { tcp, links, cipher, out, .. } = self;
            let Some(link) = &mut links[conn.slot()] else { continue };
            out.clear();
            Welcome::Joined { incarnation: self.incarnation, number: free, position }.write(out);
            link.wire.send(out, (tcp, conn, cipher));
            link.peer = format!("{}, {}", hello.name, link.peer);
            tracing::info!("P2PS {free} ({}) has joined", link.peer);
            let data = hello.data;
            link.state = State::Joined { number: free, data };
            link.reader.joined(self.trust.key.is_some());
            if self.numbers.len() <= usize::from(free) {
                self.numbers.push(None);
            }
            self.numbers[usize::from(free)] = Some(conn);
            self.counters.p2ps_joined += 1;
            return Some(JoinedP2ps { number: free, unpaced: hello.unpaced });
        }
        None
    }

    /// Sends a block of the data stream to all P2PSs. Those that take too little are given by
    /// [`Publisher::next_cut_off`] afterwards.
    pub fn publish(&mut self, block: &[u8]) {
        self.counters.blocks += 1;
        self.counters.bytes += block.len() as u64;
        if let Some(outgoing) = &mut self.outgoing {
            return outgoing.publish(block);
        }
        for part in parts(block, CUT) {
            for slot in 0..self.links.len() {
                let Some(link) = &self.links[slot] else { continue };
                if let State::Joined { data: true, .. } = link.state {
                    self.send(link.conn, &part);
                }
            }
        }
    }

    /// Sends a block to one P2PS alone.
    pub fn send_to(&mut self, number: u16, block: &[u8]) {
        let Some(conn) = self.conn_of(number) else { return };
        for part in parts(block, CUT) {
            if self.outgoing.is_some() {
                self.send(conn, &part);
            } else {
                let mut marked = std::mem::take(&mut self.out);
                marked.clear();
                marked.extend_from_slice(&part);
                frames::mark_point_to_point(&mut marked);
                self.send(conn, &marked);
                self.out = marked;
            }
        }
    }

    fn conn_of(&self, number: u16) -> Option<ConnId> {
        *self.numbers.get(usize::from(number))?
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        let Self { tcp, links, cipher, .. } = self;
        let Some(Some(link)) = links.get_mut(conn.slot()) else { return };
        if let SendOutcome::Queued(waiting) = link.wire.send(bytes, (tcp, conn, cipher))
            && (waiting > self.max_backlog || self.is_over_its_share(waiting))
        {
            self.counters.p2ps_cut_off += 1;
            self.tcp.close(conn, Close::Reset);
            let why = format!("cut off: {waiting} bytes are waiting for it (max_backlog: {})", self.max_backlog);
            let number = self.forget(conn, &why);
            self.cut_off.extend(number);
        }
    }

    /// Where the hub has no key, those that take too little have together what one may have where it has one: whoever has more than its
    /// share is cut off then.
    fn is_over_its_share(&self, waiting: usize) -> bool {
        let joined = self.counters.p2ps_joined.saturating_sub(self.counters.p2ps_lost).max(1) as usize;
        self.trust.key.is_none()
            && waiting > (self.max_backlog / joined).max(STRANGER_MAX)
            && self.links.iter().flatten().map(|link| self.tcp.queued(link.conn)).sum::<usize>() > self.max_backlog
    }

    /// A P2PS whose connection was ended because it took too little; each is given once.
    pub fn next_cut_off(&mut self) -> Option<u16> {
        self.cut_off.pop()
    }

    /// Ends the connection of a P2PS that the Source Distributor has given up.
    pub fn end_number(&mut self, number: u16, why: &str) {
        if let Some(conn) = self.conn_of(number) {
            self.tcp.close(conn, Close::Drain(DRAIN));
            self.forget(conn, why);
        }
    }
}
