//! Topic resolution without multicast: contexts talk to a resolver daemon, which passes on to all others what it hears.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use core::net::{Ipv4Addr, SocketAddrV4};

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

/// What a [`Daemon`] grants. The packets of contexts carry nothing that could prove where they come from, so that whoever forges an
/// address has the daemon talk to it: what that can cost is bounded by these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaemonLimits {
    /// Contexts at a time.
    pub clients_max: usize,
    /// Of them, those of one address.
    pub clients_per_host: usize,
    /// Packets a second that are taken from one address; twice as many at once.
    pub packets_per_second: u32,
    /// Bytes a second that one context is sent; twice as many at once.
    pub client_bytes_per_second: u64,
    /// Bytes a second that all are sent; twice as many at once.
    pub bytes_per_second: u64,
}

impl Default for DaemonLimits {
    fn default() -> Self {
        Self {
            clients_max: 4_096,
            clients_per_host: 256,
            packets_per_second: 5_000,
            client_bytes_per_second: 4 << 20,
            bytes_per_second: 64 << 20,
        }
    }
}

/// A rate with a second's worth in advance.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: u64,
    left: u64,
    at: u64,
}

impl Bucket {
    fn new(rate: u64, now: u64) -> Self {
        Self { rate, left: rate.saturating_mul(2), at: now }
    }

    fn take(&mut self, now: u64, amount: u64) -> bool {
        let passed = now.saturating_sub(self.at);
        let fresh = (u128::from(passed) * u128::from(self.rate) / 1_000_000_000) as u64;
        if fresh > 0 {
            (self.left, self.at) = (self.left.saturating_add(fresh).min(self.rate.saturating_mul(2)), now);
        }
        let granted = self.left >= amount;
        self.left -= if granted { amount } else { 0 };
        granted
    }
}

#[derive(Debug)]
struct Client {
    heard_at: u64,
    joined_at: u64,
    /// The client was heard again after it was answered for the first time: until then it gets signs of life only, one for each packet.
    confirmed: bool,
    out: Bucket,
}

#[derive(Debug)]
struct HostEntry {
    heard_at: u64,
    clients: usize,
    packets: Bucket,
}

/// Time after which a context that is heard a second time counts as one, ns: less than any keep-alive interval.
const CONFIRM_NS: u64 = 50_000_000;

/// The daemon. It knows no topics: it passes on.
#[derive(Debug)]
pub struct Daemon {
    clients: HashMap<SocketAddrV4, Client>,
    /// What comes from an address, whichever port.
    hosts: HashMap<Ipv4Addr, HostEntry>,
    limits: DaemonLimits,
    out: Bucket,
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
    /// Packets of clients beyond the limits on their number.
    pub refused: u64,
    /// Packets not taken, or not passed on, since an address has sent or a client was sent too many.
    pub limited: u64,
}

impl Daemon {
    /// A daemon without clients.
    pub fn new(limits: DaemonLimits, keepalive_interval_ns: u64, activity_timeout_ns: u64, now: u64) -> Self {
        Self {
            clients: HashMap::new(),
            hosts: HashMap::new(),
            limits,
            out: Bucket::new(limits.bytes_per_second, now),
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
        if !self.admit(now, *from.ip()) {
            self.stats.limited += 1;
            return;
        }
        let Ok(packet) = Packet::decode(bytes) else {
            self.stats.malformed += 1;
            return;
        };
        if !self.hear(now, from, &mut send) {
            return;
        }
        let silent = match packet.body {
            Body::Topics { queries, adverts } => queries.is_empty() && adverts.is_empty(),
            Body::ReceiverAlive | Body::SourceAlive => true,
            _ => false,
        };
        if silent {
            return;
        }
        let length = bytes.len() as u64;
        for (address, client) in &mut self.clients {
            if *address == from || !client.confirmed {
                continue;
            }
            if client.out.take(now, length) && self.out.take(now, length) {
                self.stats.passed_on += 1;
                send(*address, bytes);
            } else {
                self.stats.limited += 1;
            }
        }
    }

    /// Whether one more packet of an address is looked at. Addresses are known as long as clients are.
    fn admit(&mut self, now: u64, ip: Ipv4Addr) -> bool {
        let (rate, full) = (u64::from(self.limits.packets_per_second), self.hosts.len() >= self.limits.clients_max);
        match self.hosts.entry(ip) {
            Entry::Occupied(mut host) => {
                host.get_mut().heard_at = now;
                host.get_mut().packets.take(now, 1)
            }
            Entry::Vacant(_) if full => false,
            Entry::Vacant(place) => place
                .insert(HostEntry { heard_at: now, clients: 0, packets: Bucket::new(rate, now) })
                .packets
                .take(now, 1),
        }
    }

    /// Notes that a client lives, and tells a new one that the daemon does. False: its packet is not passed on.
    fn hear(&mut self, now: u64, from: SocketAddrV4, send: &mut impl FnMut(SocketAddrV4, &[u8])) -> bool {
        if let Some(client) = self.clients.get_mut(&from) {
            client.heard_at = now;
            client.confirmed |= now.saturating_sub(client.joined_at) >= CONFIRM_NS;
            return client.confirmed;
        }
        let Some(host) = self.hosts.get_mut(from.ip()) else { return false };
        if self.clients.len() >= self.limits.clients_max || host.clients >= self.limits.clients_per_host {
            self.stats.refused += 1;
            return false;
        }
        host.clients += 1;
        let out = Bucket::new(self.limits.client_bytes_per_second, now);
        self.clients.insert(from, Client { heard_at: now, joined_at: now, confirmed: false, out });
        send(from, &DAEMON_ALIVE);
        false
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
        let hosts = &mut self.hosts;
        self.clients.retain(|client, state| {
            let alive = now < state.heard_at.saturating_add(timeout);
            if !alive && let Some(host) = hosts.get_mut(client.ip()) {
                host.clients -= 1;
            }
            // One that was heard once has been answered.
            if alive && state.confirmed {
                send(*client, &DAEMON_ALIVE);
            }
            alive
        });
        self.hosts.retain(|_, host| host.clients > 0 || now < host.heard_at.saturating_add(timeout));
    }
}
