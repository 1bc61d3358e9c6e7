//! Source Distributor and P2PS in one thread, run to completion: receive, route, fan out, send.
//!
//! On a machine with few cores this is the fastest layout: an update crosses no ring and wakes no thread between the
//! provider's socket and the consumers'. The hub stream's bytes are the same as between hosts.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use config::Config;
use hub::deadlines::earliest;
use hub::distributor::SourceDistributor;
use hub::p2ps::{P2ps, SourceId};
use net::tcp::{ConnId, ListenerId};

use super::backpressure::Backpressure;
use super::consumer_ports::{Bound, Port};
use super::consumers::Consumers;
use super::monitor::{Monitor, MonitorHandle, Thread, monitor};
use super::permissions::{Administration, Permissioning};
use super::providers::Providers;
use super::status::{STATUS, Status};
use crate::counters::Samples;
use rssl_io::{Ended, Handler, Opened, RsslIo};

/// The only P2PS of this process.
const P2PS: u16 = 0;
/// The only Source Distributor.
const SOURCE: SourceId = SourceId(0);

/// Where a server can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// Consumers.
    pub rssl: SocketAddr,
    /// Consumers with the encrypted connection type, if there is a certificate.
    pub encrypted: Option<SocketAddr>,
    /// WebSocket clients, if they may: the port for consumers, or one of their own.
    pub websocket: Option<SocketAddr>,
    /// Clients that want Marketfeed, if there is a port for them.
    pub marketfeed: Option<SocketAddr>,
    /// Non-interactive providers, if they are accepted.
    pub nip: Option<SocketAddr>,
}

impl Addresses {
    pub(super) fn new(consumers: Bound, nip: Option<SocketAddr>) -> Self {
        let Bound { rssl, encrypted, websocket, marketfeed } = consumers;
        Self { rssl, encrypted, websocket, marketfeed, nip }
    }
}

/// The server.
pub struct Server {
    io: RsslIo,
    sessions: Sessions,
    addresses: Addresses,
    status: Option<Status>,
    name: String,
    /// Behind the consumers, whose last lines its audit takes. `None` while permissions are off.
    permissioning: Option<Permissioning>,
    backpressure: Backpressure,
    /// The providers are not read, since most of the clients are behind.
    holding: bool,
    monitor: Monitor,
    handle: MonitorHandle,
}

/// The sessions of both sides; what they bring is routed to the side that it is for.
struct Sessions {
    providers: Providers,
    consumers: Consumers,
    /// By connection slot.
    sides: Vec<Side>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Consumers,
    Providers,
}

impl Server {
    /// Opens the ports. `incarnation` tells this life of the Source Distributor from earlier ones.
    ///
    /// # Errors
    /// A port cannot be listened on, or a dictionary cannot be read; the message names it.
    pub fn new(config: &Config, incarnation: u32) -> io::Result<Self> {
        let mut io = RsslIo::with(u64::from(incarnation), super::batching(config))?;
        let port = Port::of(&config.p2ps, false);
        let p2ps = P2ps::new(config::p2ps_config(config, incarnation)?, P2PS);
        let mut consumers = Consumers::new(config, p2ps, Arc::default(), port, &mut io)?;
        let permissioning = Permissioning::start(config)?;
        consumers.set_permissions(permissioning.as_ref().map(|process| process.of_thread(P2PS, io.tcp().waker())));
        consumers.p2ps.source_up(net::clock::now(), SOURCE);
        if config.p2ps.io_uring {
            // As a rule a turn brings one block, so that nothing is to be gathered but for the one system call.
            consumers.gather();
        }
        let distributor = SourceDistributor::new(config::distributor_config(config), incarnation);
        let mut providers = Providers::new(config, distributor, &mut io)?;
        providers.distributor.p2ps_up(net::clock::now(), P2PS);
        let addresses = Addresses::new(consumers.bound(), providers.nip_addr());
        let (monitor, handle) = monitor("server", io.tcp().waker(), config.p2ps.latency_calc_enabled);
        let status = Status::open_in(&mut io)?;
        let sessions = Sessions { providers, consumers, sides: Vec::new() };
        let (name, backpressure) = (config.hub.name.clone(), Backpressure::default());
        let holding = false;
        Ok(Self { io, sessions, addresses, status, name, permissioning, backpressure, holding, monitor, handle })
    }

    /// The administration of permissions; `None` while they are off.
    pub fn administration(&self) -> Option<Administration> {
        self.permissioning.as_ref().map(Permissioning::administration)
    }

    /// The ports that were opened.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// The sockets, for a waker that ends a turn.
    pub fn io(&mut self) -> &mut RsslIo {
        &mut self.io
    }

    /// The way to ask the serving thread.
    pub fn monitors(&self) -> Vec<MonitorHandle> {
        vec![self.handle.clone()]
    }

    /// Serves until `stop` says so; it is asked after each turn.
    ///
    /// # Errors
    /// The sockets have become unusable.
    pub fn run(&mut self, stop: impl Fn() -> bool) -> io::Result<()> {
        self.sessions.providers.on_timer(net::clock::now(), &mut self.io);
        while !stop() {
            self.turn()?;
        }
        Ok(())
    }

    fn turn(&mut self) -> io::Result<()> {
        let Self { io, sessions, backpressure, holding, .. } = self;
        let again = if *holding { backpressure.timeout() } else { None };
        let deadline = earliest([sessions.consumers.timeout(), sessions.providers.timeout(), again]);
        io.read_at_most(sessions.consumers.input_of_turn());
        if self.monitor.times_next_turn() {
            sessions.providers.time_turn();
        }
        let now = io.turn(deadline, sessions)?;
        if self.monitor.times_next_turn() {
            sessions.consumers.time_turn(now);
        }
        sessions.providers.on_timer(now, io);
        sessions.consumers.on_timer(now, io);
        sessions.exchange(now, io);
        let before = std::mem::replace(holding, backpressure.must_wait(now, sessions.consumers.load()));
        if before || *holding {
            // Providers that came since are held, too.
            sessions.providers.hold(*holding, io);
        }
        self.sessions.providers.end_timed_turn(now);
        self.monitor.end_turn(now, || self.sessions.consumers.p2ps.delivered());
        if self.monitor.is_asked() {
            self.oversee(now);
        }
        if self.io.take_ready(STATUS) {
            self.answer(now);
        }
        Ok(())
    }

    /// Tells what is counted, for `quoteway lbmstat`.
    #[cold]
    fn answer(&mut self, now: u64) {
        if let Some(question) = self.status.as_mut().and_then(|status| status.question(now)) {
            question.answer(|samples| self.sample(samples));
        }
    }

    /// Answers what the thread of HTTP asks.
    #[cold]
    fn oversee(&mut self, now: u64) {
        let (mut samples, latency) = (Samples::default(), self.monitor.latency());
        self.sample(&mut samples);
        let (consumers, providers) = (Some(&mut self.sessions.consumers), Some(&mut self.sessions.providers));
        let peers = Vec::new();
        self.monitor.answer(Thread { now, io: &mut self.io, consumers, providers, peers, samples, latency });
    }

    /// The counters so far.
    pub fn sample(&self, samples: &mut Samples) {
        let hub = [("hub", self.name.clone())];
        let rssl = [("rssl", self.addresses.rssl.to_string())];
        self.sessions.providers.sample(&hub, self.holding, samples);
        self.sessions.consumers.sample(&rssl, samples);
        samples.add_sockets(&rssl, self.io.counters());
        samples.add_process();
    }
}

impl Sessions {
    /// Lets the two sides of the hub answer each other until both are quiet, then sends to the providers. Each round's
    /// block is handed over by reference and written to the clients before it is cleared.
    fn exchange(&mut self, now: u64, io: &mut RsslIo) {
        let Self { providers, consumers, .. } = self;
        loop {
            let mut busy = false;
            consumers.p2ps.requests(|_, block| {
                busy = true;
                if let Err(e) = providers.requests(now, P2PS, block) {
                    tracing::error!("requests could not be read: {e}");
                }
            });
            if let Some(block) = providers.distributor.block() {
                busy = true;
                if let Err(e) = consumers.hub_block(now, SOURCE, block, io) {
                    tracing::error!("the hub stream could not be read: {e}");
                }
                providers.distributor.clear_block();
            } else {
                consumers.flush(now, &[], io);
            }
            if !busy {
                break;
            }
        }
        consumers.end_turn(now, io);
        providers.flush(now, io);
    }

    fn side(&self, conn: ConnId) -> Side {
        self.sides.get(conn.slot()).copied().unwrap_or(Side::Providers)
    }
}

impl Handler for Sessions {
    fn admit(&mut self, listener: ListenerId, conn: ConnId, peer: SocketAddr) -> Result<(), String> {
        if self.sides.len() <= conn.slot() {
            self.sides.resize(conn.slot() + 1, Side::Providers);
        }
        if self.consumers.owns(listener) {
            self.sides[conn.slot()] = Side::Consumers;
            self.consumers.admit(listener, conn, peer)
        } else {
            self.sides[conn.slot()] = Side::Providers;
            self.providers.admit(listener, conn, peer)
        }
    }

    fn opened(&mut self, now: u64, conn: ConnId, opened: &Opened<'_>) {
        if self.sides.len() <= conn.slot() {
            self.sides.resize(conn.slot() + 1, Side::Providers);
        }
        if opened.listener.is_some_and(|l| self.consumers.owns(l)) {
            self.sides[conn.slot()] = Side::Consumers;
            self.consumers.opened(now, conn, opened);
        } else {
            self.sides[conn.slot()] = Side::Providers;
            self.providers.opened(now, conn, opened);
        }
    }

    #[inline]
    fn message(&mut self, now: u64, conn: ConnId, msg: &[u8]) {
        match self.sides[conn.slot()] {
            Side::Providers => self.providers.message(now, conn, msg),
            Side::Consumers => self.consumers.message(now, conn, msg),
        }
    }

    fn text(&mut self, now: u64, conn: ConnId, text: &str) {
        match self.side(conn) {
            Side::Providers => self.providers.text(now, conn, text),
            Side::Consumers => self.consumers.text(now, conn, text),
        }
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        // A dialled connection has the side of its slot's former owner until it has a session: whether it was admitted is known.
        if self.consumers.has_admitted(conn) {
            self.consumers.closed(now, conn, ended);
        } else {
            self.providers.closed(now, conn, ended);
        }
    }

    fn is_known(&self, conn: ConnId) -> bool {
        match self.side(conn) {
            Side::Providers => self.providers.is_known(conn),
            Side::Consumers => self.consumers.is_known(conn),
        }
    }

    fn waits(&mut self, now: u64, conn: ConnId, bytes: usize) {
        if self.side(conn) == Side::Consumers {
            self.consumers.waits(now, conn, bytes);
        }
    }

    fn drained(&mut self, now: u64, conn: ConnId) {
        if self.side(conn) == Side::Consumers {
            self.consumers.drained(now, conn);
        }
    }
}
