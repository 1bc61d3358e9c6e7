//! Topic resolution without multicast: contexts talk to a resolver daemon, which passes on to all others what it hears.

use std::collections::HashMap;

use core::net::SocketAddrV4;

use crate::wire::lbmr::{Body, Packet};

/// A keep-alive of a context with receivers, one with sources, and the daemon's: version 0, no options.
const RECEIVER_ALIVE: [u8; 4] = [2, 0, 0, 0];
const SOURCE_ALIVE: [u8; 4] = [3, 0, 0, 0];
const DAEMON_ALIVE: [u8; 4] = [0, 0, 0, 0];

/// A context's view of one daemon: packets of the [`super::Resolver`] go there while it is alive.
#[derive(Debug)]
pub struct DaemonLink {
    keepalive_interval_ns: u64,
    activity_timeout_ns: u64,
    heard_at: Option<u64>,
    due: u64,
    sources: bool,
}

impl DaemonLink {
    /// `resolver_unicast_keepalive_interval`, `resolver_unicast_activity_timeout`.
    pub fn new(keepalive_interval_ns: u64, activity_timeout_ns: u64, now: u64) -> Self {
        Self { keepalive_interval_ns, activity_timeout_ns, heard_at: None, due: now, sources: false }
    }

    /// Whether the context has sources.
    pub fn set_sources(&mut self, sources: bool) {
        self.sources = sources;
    }

    /// A packet came from the daemon.
    pub fn heard(&mut self, now: u64) {
        self.heard_at = Some(now);
    }

    /// Whether the daemon was heard within its activity timeout.
    pub fn is_alive(&self, now: u64) -> bool {
        self.heard_at.is_some_and(|at| now < at.saturating_add(self.activity_timeout_ns))
    }

    /// When [`DaemonLink::on_timer`] is to be called.
    pub fn timeout(&self) -> u64 {
        self.due
    }

    /// The keep-alive to send, if it is time.
    pub fn on_timer(&mut self, now: u64) -> Option<[u8; 4]> {
        if now < self.due {
            return None;
        }
        self.due = now.saturating_add(self.keepalive_interval_ns.max(1));
        Some(if self.sources { SOURCE_ALIVE } else { RECEIVER_ALIVE })
    }
}

/// The daemon. It knows no topics: it passes on.
#[derive(Debug)]
pub struct Daemon {
    clients: HashMap<SocketAddrV4, u64>,
    clients_max: usize,
    keepalive_interval_ns: u64,
    activity_timeout_ns: u64,
    due: u64,
    stats: DaemonStats,
}

/// What a daemon has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DaemonStats {
    /// Packets received.
    pub received: u64,
    /// Packets passed on, one for each client.
    pub passed_on: u64,
    /// Packets that are none.
    pub malformed: u64,
    /// Packets of clients beyond the limit.
    pub refused: u64,
}

impl Daemon {
    /// A daemon without clients.
    pub fn new(clients_max: usize, keepalive_interval_ns: u64, activity_timeout_ns: u64, now: u64) -> Self {
        Self {
            clients: HashMap::new(),
            clients_max,
            keepalive_interval_ns: keepalive_interval_ns.max(1),
            activity_timeout_ns,
            due: now,
            stats: DaemonStats::default(),
        }
    }

    /// Counters.
    pub fn stats(&self) -> &DaemonStats {
        &self.stats
    }

    /// How many contexts are known.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Takes a packet and passes it on.
    pub fn receive(&mut self, now: u64, from: SocketAddrV4, bytes: &[u8], mut send: impl FnMut(SocketAddrV4, &[u8])) {
        self.stats.received += 1;
        let Ok(packet) = Packet::decode(bytes) else {
            self.stats.malformed += 1;
            return;
        };
        if !self.clients.contains_key(&from) && self.clients.len() >= self.clients_max {
            self.stats.refused += 1;
            return;
        }
        if self.clients.insert(from, now).is_none() {
            send(from, &DAEMON_ALIVE);
        }
        let silent = match packet.body {
            Body::Topics { queries, adverts } => queries.is_empty() && adverts.is_empty(),
            Body::ReceiverAlive | Body::SourceAlive => true,
            _ => false,
        };
        if silent {
            return;
        }
        for client in self.clients.keys().filter(|client| **client != from) {
            self.stats.passed_on += 1;
            send(*client, bytes);
        }
    }

    /// When [`Daemon::on_timer`] is to be called.
    pub fn timeout(&self) -> u64 {
        self.due
    }

    /// Tells clients that the daemon lives, and forgets silent ones.
    pub fn on_timer(&mut self, now: u64, mut send: impl FnMut(SocketAddrV4, &[u8])) {
        if now < self.due {
            return;
        }
        self.due = now.saturating_add(self.keepalive_interval_ns);
        let timeout = self.activity_timeout_ns;
        self.clients.retain(|client, heard_at| {
            let alive = now < heard_at.saturating_add(timeout);
            if alive {
                send(*client, &DAEMON_ALIVE);
            }
            alive
        });
    }
}
