//! The stateful resolution service (SRS) with its sockets.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

use lbm::resolver::service::{Closing, Service};
pub use lbm::resolver::service::{ServiceConfig, ServiceStats};
use net::tcp::{Close, ConnId, Event, RecvOutcome, Scratch, SocketOptions, Tcp, TcpConfig};
use net::{Network, clock};

use crate::ContextError;

/// Bytes that are handed to the kernel, or wait for it, before more are made for a connection.
const ROOM: usize = 1 << 20;
/// How long a connection that is closed has time for the reason.
const DRAIN: Duration = Duration::from_secs(1);

/// How an [`Srs`] works.
#[derive(Clone, Debug)]
pub struct SrsConfig {
    /// Where contexts connect; the product's port is 27000.
    pub address: SocketAddrV4,
    /// Networks that may connect, beside this host.
    pub allow: Vec<Network>,
    /// Connections at a time.
    pub connections_max: usize,
    /// Bounds and times.
    pub service: ServiceConfig,
}

impl SrsConfig {
    /// The usual values at an address: 10,000 connections of this host.
    pub fn new(address: SocketAddrV4) -> Self {
        Self { address, allow: Vec::new(), connections_max: 10_000, service: ServiceConfig::default() }
    }
}

/// Topic resolution over TCP: contexts that name it in `resolver_service` find each other.
///
/// The service keeps what contexts have told, in memory alone: when it is started again they tell it again. Its owner calls [`Srs::poll`]
/// for ever.
pub struct Srs {
    service: Service,
    tcp: Tcp,
    address: SocketAddrV4,
    allow: Vec<Network>,
    connections_max: usize,
    by_conn: HashMap<ConnId, u64>,
    by_number: HashMap<u64, ConnId>,
    next: u64,
    events: Vec<Event>,
    scratch: Scratch,
    strangers: u64,
    notes: Vec<String>,
}

/// Notes that wait for the owner.
const NOTES_MAX: usize = 100;

impl Srs {
    /// Opens its port.
    ///
    /// # Errors
    /// The address is taken or not of this host.
    pub fn new(config: &SrsConfig) -> Result<Self, ContextError> {
        let mut tcp = Tcp::new(TcpConfig::default()).map_err(ContextError::io("the resolution service"))?;
        let listening = tcp.listen(SocketAddr::V4(config.address), &SocketOptions::default());
        let (_, bound) = listening.map_err(ContextError::io("the port of the resolution service"))?;
        Ok(Self {
            service: Service::new(config.service.clone(), clock::now()),
            tcp,
            address: SocketAddrV4::new(*config.address.ip(), bound.port()),
            allow: config.allow.clone(),
            connections_max: config.connections_max,
            by_conn: HashMap::new(),
            by_number: HashMap::new(),
            next: 0,
            events: Vec::new(),
            scratch: Scratch::default(),
            strangers: 0,
            notes: Vec::new(),
        })
    }

    /// Where it is: with port 0 the kernel has chosen.
    pub fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// Counters.
    pub fn stats(&self) -> ServiceStats {
        self.service.stats()
    }

    /// Connections that were not taken: of networks that are not allowed, or for want of room.
    pub fn strangers(&self) -> u64 {
        self.strangers
    }

    /// What the operator should know, once each: whose connection was refused or closed, and why. More than a hundred between two calls
    /// are counted in [`Srs::stats`] alone.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// A turn: waits at most `timeout` for connections, bytes and timers, and handles them.
    ///
    /// # Errors
    /// The kernel's; none is expected.
    pub fn poll(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let left = Duration::from_nanos(self.service.timeout().saturating_sub(clock::now()));
        let mut events = std::mem::take(&mut self.events);
        let polled = self.tcp.poll(Some(timeout.map_or(left, |asked| asked.min(left))), &mut events);
        let now = clock::now();
        for event in events.drain(..) {
            self.on_event(now, event);
        }
        self.events = events;
        polled?;
        self.service.on_timer(now);
        for number in self.service.ready() {
            self.send(number);
        }
        for (number, why) in self.service.closing() {
            self.send(number);
            let how = if why == Closing::Refused { Close::Drain(DRAIN) } else { Close::Reset };
            if let Some(conn) = self.by_number.get(&number).copied() {
                self.note(
                    conn,
                    match why {
                        Closing::Replaced => "the context has connected anew",
                        Closing::TooSlow => "it does not read what it is told",
                        Closing::Silent => "it gives no sign of life",
                        Closing::Refused => "it wants to know of others' receivers, as routers do",
                    },
                );
                self.tcp.close(conn, how);
            }
        }
        Ok(())
    }

    fn send(&mut self, number: u64) {
        let Some(conn) = self.by_number.get(&number).copied() else { return };
        let bytes = self.service.take(number, ROOM.saturating_sub(self.tcp.queued(conn)));
        if !bytes.is_empty() {
            self.tcp.send(conn, &bytes);
        }
    }

    fn note(&mut self, conn: ConnId, why: &str) {
        if self.notes.len() < NOTES_MAX {
            let peer = self.tcp.peer_addr(conn).map_or_else(|_| "a context".to_owned(), |peer| peer.to_string());
            self.notes.push(format!("the connection of {peer} is closed: {why}"));
        }
    }

    fn on_event(&mut self, now: u64, event: Event) {
        match event {
            Event::Accepted { conn, peer, .. } => {
                let is_allowed =
                    peer.ip().is_loopback() || self.allow.iter().any(|network| network.contains(peer.ip()));
                if !is_allowed || self.by_conn.len() >= self.connections_max {
                    self.strangers += 1;
                    let why = if is_allowed { "there are too many" } else { "its network is not allowed (--allow)" };
                    self.note(conn, why);
                    return self.tcp.close(conn, Close::Now);
                }
                self.next += 1;
                self.by_conn.insert(conn, self.next);
                self.by_number.insert(self.next, conn);
                self.service.accepted(now, self.next);
            }
            Event::Readable { conn } => {
                let Some(number) = self.by_conn.get(&conn).copied() else { return };
                let bytes = match self.tcp.recv(conn, &mut self.scratch) {
                    RecvOutcome::Data(bytes) => &*bytes,
                    RecvOutcome::Empty | RecvOutcome::Ended => return,
                };
                if let Err(error) = self.service.receive(now, number, bytes) {
                    self.note(conn, &format!("what it says cannot be read: {error}"));
                    self.tcp.close(conn, Close::Reset);
                }
            }
            Event::Drained { conn } => {
                if let Some(number) = self.by_conn.get(&conn) {
                    self.service.drained(*number);
                }
            }
            Event::Closed { conn, .. } => {
                if let Some(number) = self.by_conn.remove(&conn) {
                    self.by_number.remove(&number);
                    self.service.closed(now, number);
                }
            }
            Event::AcceptFailed { .. } | Event::Connected { .. } | Event::Woken | Event::Ready { .. } => {}
        }
    }
}

impl std::fmt::Debug for Srs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Srs").field("address", &self.address).field("service", &self.service).finish_non_exhaustive()
    }
}
