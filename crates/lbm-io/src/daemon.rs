//! The resolver daemon with its socket.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use lbm::resolver::unicast;
pub use lbm::resolver::unicast::{DaemonLimits, DaemonStats};
use net::udp::{Granted, Slabs, UdpOptions, UdpSocket};
use net::{Network, clock};

use crate::ContextError;

/// How a [`Daemon`] works.
#[derive(Clone, Debug)]
pub struct DaemonConfig {
    /// Where contexts reach it; LBM's port is 15380.
    pub address: SocketAddrV4,
    /// Bounds on contexts, and on those that pretend to be some.
    pub limits: DaemonLimits,
    /// From other networks nothing is taken; empty: from all.
    pub allow: Vec<Network>,
    /// Between signs of life to the contexts.
    pub keepalive_interval: Duration,
    /// A context that was silent for so long is forgotten.
    pub activity_timeout: Duration,
    /// Receive buffer asked for.
    pub receive_buffer: usize,
}

impl DaemonConfig {
    /// The usual values at an address: the default limits for all networks, a sign of life each 500 ms, 5 s of silence.
    pub fn new(address: SocketAddrV4) -> Self {
        Self {
            address,
            limits: DaemonLimits::default(),
            allow: Vec::new(),
            keepalive_interval: Duration::from_millis(500),
            activity_timeout: Duration::from_secs(5),
            receive_buffer: 8 << 20,
        }
    }
}

/// Topic resolution for networks without multicast: contexts that name it in `resolver_unicast_daemon` find each other.
///
/// The daemon knows no topics and keeps nothing: packets are passed on. Its owner calls [`Daemon::poll`] for ever.
#[derive(Debug)]
pub struct Daemon {
    state: unicast::Daemon,
    socket: UdpSocket,
    slabs: Slabs,
    granted: Granted,
    allow: Vec<Network>,
    strangers: u64,
    /// Whose packet was the last that was not taken.
    refused: Option<SocketAddrV4>,
}

/// Calls that receive, a turn.
const RECEIVE_TURN: usize = 16;

impl Daemon {
    /// Opens its socket.
    ///
    /// # Errors
    /// The address is taken or not of this host.
    pub fn new(config: &DaemonConfig) -> Result<Self, ContextError> {
        let options =
            UdpOptions { receive_buffer: Some(config.receive_buffer), gro: false, gso: false, ..UdpOptions::default() };
        let socket = UdpSocket::bind(config.address, &options).map_err(ContextError::io("the resolver daemon"))?;
        let granted = socket.granted(&options).map_err(ContextError::io("the resolver daemon"))?;
        let ns = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        let state = unicast::Daemon::new(
            config.limits,
            ns(config.keepalive_interval),
            ns(config.activity_timeout),
            clock::now(),
        );
        let allow = if config.allow.is_empty() { vec![Network::ANY] } else { config.allow.clone() };
        Ok(Self { state, socket, slabs: Slabs::new(16), granted, allow, strangers: 0, refused: None })
    }

    /// Where it is: with port 0 the kernel has chosen.
    pub fn address(&self) -> SocketAddrV4 {
        self.socket.local_addr()
    }

    /// The receive buffer; `Display` is a warning if it is smaller than asked for, and empty otherwise.
    pub fn granted(&self) -> Granted {
        self.granted
    }

    /// Counters.
    pub fn stats(&self) -> DaemonStats {
        *self.state.stats()
    }

    /// Packets of networks that are not allowed.
    pub fn strangers(&self) -> u64 {
        self.strangers
    }

    /// The sender of the last packet that was not taken since the last call: of a network that is not allowed, of a context beyond the limits,
    /// or none at all.
    pub fn take_refused(&mut self) -> Option<SocketAddrV4> {
        self.refused.take()
    }

    /// How many contexts are known.
    pub fn clients(&self) -> usize {
        self.state.clients()
    }

    /// One turn: waits at most `timeout` for packets and timers, and handles them.
    ///
    /// # Errors
    /// The kernel's; none is expected.
    pub fn poll(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let left = Duration::from_nanos(self.state.timeout().saturating_sub(clock::now()));
        self.socket.wait_readable(Some(timeout.map_or(left, |asked| asked.min(left))))?;
        let now = clock::now();
        let mut out = Outgoing::default();
        for _ in 0..RECEIVE_TURN {
            let received = self.socket.recv(&mut self.slabs)?;
            if received.is_empty() {
                break;
            }
            for arrival in &received {
                if !self.allow.iter().any(|network| network.contains((*arrival.source.ip()).into())) {
                    self.strangers += 1;
                    self.refused = Some(arrival.source);
                    continue;
                }
                let refused = |stats: &DaemonStats| stats.malformed + stats.refused;
                let before = refused(self.state.stats());
                for packet in arrival.datagrams() {
                    self.state.receive(now, arrival.source, packet, |to, packet| out.push(to, packet));
                }
                if refused(self.state.stats()) > before {
                    self.refused = Some(arrival.source);
                }
            }
            out.send(&mut self.socket)?;
        }
        self.state.on_timer(now, |to, packet| out.push(to, packet));
        out.send(&mut self.socket)
    }
}

impl AsFd for Daemon {
    /// Readable when a [`Daemon::poll`] would find packets.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Packets on their way to the socket, one copy a packet and not a client.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
    /// (to, where in `bytes`).
    packets: Vec<(SocketAddrV4, usize, usize)>,
}

impl Outgoing {
    fn push(&mut self, to: SocketAddrV4, packet: &[u8]) {
        let same = self.packets.last().filter(|(_, from, until)| &self.bytes[*from..*until] == packet);
        let (from, until) = if let Some((_, from, until)) = same {
            (*from, *until)
        } else {
            self.bytes.extend_from_slice(packet);
            (self.bytes.len() - packet.len(), self.bytes.len())
        };
        self.packets.push((to, from, until));
    }

    /// A packet that the socket does not take is lost: contexts ask and advertise again.
    fn send(&mut self, socket: &mut UdpSocket) -> io::Result<()> {
        let batch = self.packets.iter().map(|(to, from, until)| (Some(*to), &self.bytes[*from..*until]));
        socket.send_batch(batch)?;
        self.packets.clear();
        self.bytes.clear();
        Ok(())
    }
}
