//! UDP sockets (IPv4) that send and receive many datagrams a system call. Plain sockets: a kernel-bypass library that is preloaded
//! sees nothing it does not know.
//!
//! A datagram costs a few hundred nanoseconds of kernel time by itself and nearly nothing as part of a *train*: consecutive datagrams
//! of one length that lie back to back in memory and go out by one call (UDP GSO, Linux 4.18), and come in as one slab (UDP GRO, Linux
//! 5.0). Both are options, and both switch themselves off where the kernel or the device refuses; [`UdpSocket::gso`] and
//! [`UdpSocket::gro`] tell.
//!
//! ```
//! use net::udp::{Slabs, UdpOptions, UdpSocket};
//!
//! # fn main() -> std::io::Result<()> {
//! let any = "127.0.0.1:0".parse().expect("an address");
//! let mut receiver = UdpSocket::bind(any, &UdpOptions::default())?;
//! let mut sender = UdpSocket::bind(any, &UdpOptions::default())?;
//! let to = receiver.local_addr();
//!
//! // Ten datagrams of 100 bytes and one of 7: one call.
//! let sent = sender.send_train(Some(to), &[1; 1007], 100)?;
//! assert_eq!(sent, 11);
//!
//! let mut slabs = Slabs::default();
//! let mut lengths = Vec::new();
//! while lengths.len() < 11 {
//!     receiver.wait_readable(None)?;
//!     for arrival in &receiver.recv(&mut slabs)? {
//!         assert_eq!(arrival.source, sender.local_addr());
//!         lengths.extend(arrival.datagrams().map(<[u8]>::len));
//!     }
//! }
//! assert_eq!(lengths, [100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 7]);
//! # Ok(())
//! # }
//! ```

mod options;
mod recv;
mod send;

use std::ffi::c_int;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

pub use options::{Granted, Offload, UdpOptions};
pub use recv::{Arrival, Arrivals, Received, Slabs};

use crate::sys;

/// The longest payload of a UDP datagram over IPv4.
pub const PAYLOAD_MAX: usize = 65_507;

/// What a socket has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Calls that sent.
    pub send_calls: u64,
    /// Datagrams handed to the kernel.
    pub datagrams_sent: u64,
    /// Bytes of the datagrams that were sent.
    pub bytes_sent: u64,
    /// Datagrams that the network side of the kernel threw away at once: no route, a full device queue, a packet filter. They count as
    /// sent: to the peer it is loss like any other. [`UdpSocket::send_error`] has the last reason.
    pub send_losses: u64,
    /// Calls that received, also those that found nothing.
    pub recv_calls: u64,
    /// Datagrams received, parts of trains counted each.
    pub datagrams_received: u64,
    /// Bytes of the datagrams that were received.
    pub bytes_received: u64,
    /// Datagrams longer than [`UdpOptions::datagram_max`]: dropped.
    pub truncated: u64,
    /// Reports that a peer's port is closed (connected sockets only).
    pub refused: u64,
}

/// A UDP socket, non-blocking.
#[derive(Debug)]
pub struct UdpSocket {
    fd: OwnedFd,
    local: SocketAddrV4,
    gso: Offload,
    /// Datagrams of this length or longer cannot be sent by GSO (above the path's MTU, as a rule); 0 = none was refused.
    gso_refused_from: usize,
    gro: Offload,
    datagram_max: usize,
    send_error: Option<i32>,
    drops: Drops,
    counters: UdpCounters,
    /// What each receive fails with.
    fault: Option<i32>,
}

/// The kernel's 32-bit counter of datagrams that found the receive buffer full, made 64 bits.
#[derive(Clone, Copy, Debug, Default)]
struct Drops {
    last: u32,
    total: u64,
}

impl Drops {
    fn note(&mut self, now: u32) {
        self.total += u64::from(now.wrapping_sub(self.last));
        self.last = now;
    }
}

impl UdpSocket {
    /// Opens a socket at an address: the local one of an interface, `0.0.0.0` for all, or a multicast group (then nothing else is
    /// received). Port 0: the kernel chooses.
    ///
    /// # Errors
    /// The address is taken or not of this host, or an option was refused; the text says which.
    pub fn bind(addr: SocketAddrV4, options: &UdpOptions) -> io::Result<Self> {
        let fd = sys::udp_socket()?;
        options.apply(fd.as_fd(), addr)?;
        sys::bind(fd.as_fd(), SocketAddr::V4(addr))
            .map_err(|e| io::Error::new(e.kind(), format!("cannot bind UDP {addr}: {e}")))?;
        let local = local_of(fd.as_fd())?;
        let gro = if options.gro { Offload::enable_gro(fd.as_fd()) } else { Offload::Off };
        let gso = if options.gso { Offload::On } else { Offload::Off };
        Ok(Self {
            fd,
            local,
            gso,
            gso_refused_from: 0,
            gro,
            datagram_max: options.datagram_max.clamp(1, PAYLOAD_MAX),
            send_error: None,
            drops: Drops::default(),
            counters: UdpCounters::default(),
            fault: None,
        })
    }

    /// Sends to one peer only from now on (which spares the kernel the route lookup), and receives from it only.
    ///
    /// # Errors
    /// No route to the peer.
    pub fn connect(&mut self, peer: SocketAddrV4) -> io::Result<()> {
        sys::connect(self.fd.as_fd(), SocketAddr::V4(peer))?;
        self.local = local_of(self.fd.as_fd())?;
        Ok(())
    }

    /// A second socket at the same address and port, connected to `peer`: what is sent by it spares the kernel the route lookup (some
    /// 600 ns a datagram), and it receives what that peer sends from now on; all others stay with this one. Whoever opens it has to
    /// read both, and what comes says by its source to whom it belongs: until it is connected it may get datagrams of others.
    ///
    /// # Errors
    /// No descriptor is left, or there is no route to the peer.
    pub fn beside(&self, peer: SocketAddrV4, options: &UdpOptions) -> io::Result<Self> {
        // Both must allow it, and only meanwhile: nobody else is to get the port.
        let shared = |on: bool| sys::set_option(self.fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, c_int::from(on));
        shared(true)?;
        let opened = Self::bind(self.local, &UdpOptions { reuse_address: true, ..options.clone() });
        let socket = opened.and_then(|mut socket| {
            sys::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 0)?;
            socket.connect(peer)?;
            Ok(socket)
        });
        shared(false)?;
        socket
    }

    /// Has every receive fail with this `errno`, or no longer so: an injected fault, for tests of what follows.
    pub fn fail_receiving(&mut self, errno: Option<i32>) {
        self.fault = errno;
    }

    /// Where it is bound; after [`connect`](Self::connect), the address that peers see.
    pub fn local_addr(&self) -> SocketAddrV4 {
        self.local
    }

    /// Joins a multicast group on the interface that has this address (unspecified: the one that routes choose).
    ///
    /// # Errors
    /// There is no such interface, it has no multicast, or the socket is in too many groups.
    pub fn join(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        let result = sys::membership(self.fd.as_fd(), libc::IP_ADD_MEMBERSHIP, group, interface);
        result.map_err(|e| {
            let hint = match e.raw_os_error() {
                Some(libc::ENOBUFS) => "; one socket's limit is net.ipv4.igmp_max_memberships: sysctl -w net.ipv4.igmp_max_memberships=1000",
                Some(libc::ENODEV) => "; no interface has that address, or there is no route for multicast",
                _ => "",
            };
            io::Error::new(e.kind(), format!("cannot join {group} on interface {interface}: {e}{hint}"))
        })
    }

    /// Leaves a group that was joined on that interface.
    ///
    /// # Errors
    /// It was not joined.
    pub fn leave(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        sys::membership(self.fd.as_fd(), libc::IP_DROP_MEMBERSHIP, group, interface)
    }

    /// The buffers that the kernel granted, beside what was asked.
    ///
    /// # Errors
    /// The kernel has no reason to refuse.
    pub fn granted(&self, options: &UdpOptions) -> io::Result<Granted> {
        Granted::of(self.fd.as_fd(), options)
    }

    /// Whether trains go out by one call.
    pub fn gso(&self) -> Offload {
        self.gso
    }

    /// Whether trains come in by one call.
    pub fn gro(&self) -> Offload {
        self.gro
    }

    /// Turns trains off and on again, for comparisons.
    pub fn set_gso(&mut self, on: bool) {
        self.gso = if on { Offload::On } else { Offload::Off };
        self.gso_refused_from = 0;
    }

    /// The `errno` of the last datagram that was lost on its way out; see [`UdpCounters::send_losses`].
    pub fn send_error(&self) -> Option<io::Error> {
        self.send_error.map(io::Error::from_raw_os_error)
    }

    /// What was done so far.
    pub fn counters(&self) -> &UdpCounters {
        &self.counters
    }

    /// Datagrams that the kernel dropped because the receive buffer was full, as told with what was received later
    /// (`SO_RXQ_OVFL`): costs nothing.
    pub fn drops(&self) -> u64 {
        self.drops.total
    }

    /// As [`drops`](Self::drops), but up to now: one system call.
    pub fn refresh_drops(&mut self) -> u64 {
        if let Some(now) = sys::receive_drops(self.fd.as_fd()) {
            self.drops.note(now);
        }
        self.drops.total
    }

    /// Waits until a datagram is there, at most `timeout` (`None`: for ever). `false` on timeout or a signal.
    ///
    /// # Errors
    /// The kernel has no reason to refuse.
    pub fn wait_readable(&self, timeout: Option<Duration>) -> io::Result<bool> {
        sys::wait_readable(self.fd.as_fd(), timeout)
    }

    /// Waits until a datagram can be sent, likewise.
    ///
    /// # Errors
    /// The kernel has no reason to refuse.
    pub fn wait_writable(&self, timeout: Option<Duration>) -> io::Result<bool> {
        sys::wait_writable(self.fd.as_fd(), timeout)
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn local_of(fd: BorrowedFd<'_>) -> io::Result<SocketAddrV4> {
    match sys::socket_name(fd, false)? {
        SocketAddr::V4(local) => Ok(local),
        SocketAddr::V6(_) => Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_of_drops_goes_on_when_the_kernels_wraps() {
        let mut drops = Drops::default();
        drops.note(5);
        drops.note(u32::MAX);
        drops.note(2);
        assert_eq!(drops.total, u64::from(u32::MAX) + 3);
    }
}
