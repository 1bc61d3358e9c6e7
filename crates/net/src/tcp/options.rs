//! Socket options of listeners and connections.

use std::ffi::c_int;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::sys;

/// Options of a listener (its connections inherit them) or of one outgoing connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// `SO_SNDBUF` in bytes as asked from the kernel, which doubles it for its own accounting and caps it at
    /// `net.core.wmem_max` unless this process may exceed it; `None` leaves the size to the kernel's tuning.
    /// [`Tcp::buffer_sizes`](super::Tcp::buffer_sizes) says what was granted.
    pub send_buffer: Option<usize>,
    /// `SO_RCVBUF`, likewise (cap: `net.core.rmem_max`).
    pub receive_buffer: Option<usize>,
    /// `TCP_NODELAY`: send small segments at once.
    pub no_delay: bool,
    /// `SO_REUSEADDR`: let a listener bind while old connections of its port are in `TIME_WAIT`.
    pub reuse_address: bool,
    /// `SO_REUSEPORT`: let several listeners share a port; the kernel spreads new connections over them.
    pub reuse_port: bool,
    /// `SO_KEEPALIVE` and its times.
    pub keepalive: Option<Keepalive>,
    /// `TCP_USER_TIMEOUT`: how long sent bytes may stay unacknowledged before the connection is given up.
    pub user_timeout: Option<Duration>,
    /// `IPV6_V6ONLY` of an IPv6 listener.
    pub only_v6: bool,
    /// Connections that may wait to be accepted (capped at `net.core.somaxconn`).
    pub backlog: u32,
    /// Local address (port 0: any) that an outgoing connection is bound to.
    pub local: Option<SocketAddr>,
}

/// When the kernel probes a silent connection. Times are in whole seconds, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe.
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Unanswered probes that end the connection.
    pub probes: u32,
}

/// A send queue of fixed size, not an automatically tuned one: a tuned one holds milliseconds of standing queue under load, and a
/// client's backlog could not be bounded.
pub const DEFAULT_SEND_BUFFER: usize = 256 * 1024;

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            send_buffer: Some(DEFAULT_SEND_BUFFER),
            receive_buffer: None,
            no_delay: true,
            reuse_address: true,
            reuse_port: false,
            keepalive: None,
            user_timeout: None,
            only_v6: false,
            backlog: 4096,
            local: None,
        }
    }
}

/// Socket buffer sizes as the kernel accounts them (`getsockopt`), in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSizes {
    /// `SO_SNDBUF`.
    pub send: usize,
    /// `SO_RCVBUF`.
    pub receive: usize,
}

impl BufferSizes {
    pub(super) fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self {
            send: sys::option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF)?.max(0) as usize,
            receive: sys::option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF)?.max(0) as usize,
        })
    }
}

/// What the kernel has counted of a connection (`TCP_INFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Smoothed round trip, microseconds: from a segment that was sent to the peer's acknowledgement of it.
    pub round_trip_us: u32,
    /// Bytes that the peer has acknowledged.
    pub bytes_acknowledged: u64,
    /// Bytes received.
    pub bytes_received: u64,
}

impl Traffic {
    pub(super) fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let info = sys::tcp_info(fd)?;
        Ok(Self {
            round_trip_us: info.tcpi_rtt,
            bytes_acknowledged: info.tcpi_bytes_acked,
            bytes_received: info.tcpi_bytes_received,
        })
    }
}

impl SocketOptions {
    /// Applies what a connection has. On a listener, the connections it accepts inherit all of it.
    pub(super) fn apply(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        if let Some(bytes) = self.send_buffer {
            sys::set_buffer(fd, libc::SO_SNDBUF, libc::SO_SNDBUFFORCE, bytes)?;
        }
        if let Some(bytes) = self.receive_buffer {
            sys::set_buffer(fd, libc::SO_RCVBUF, libc::SO_RCVBUFFORCE, bytes)?;
        }
        if self.no_delay {
            sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
        }
        if let Some(keepalive) = self.keepalive {
            sys::set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
            sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds(keepalive.idle))?;
            sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, seconds(keepalive.interval))?;
            let probes = keepalive.probes.clamp(1, 127) as c_int;
            sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, probes)?;
        }
        if let Some(limit) = self.user_timeout {
            let milliseconds = c_int::try_from(limit.as_millis().max(1)).unwrap_or(c_int::MAX);
            sys::set_option(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, milliseconds)?;
        }
        Ok(())
    }

    /// Applies what must be set on a socket before it is bound to listen.
    pub(super) fn apply_listening(&self, fd: BorrowedFd<'_>, addr: &SocketAddr) -> io::Result<()> {
        if self.reuse_address {
            sys::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        }
        if self.reuse_port {
            sys::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
        }
        if addr.is_ipv6() {
            sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, c_int::from(self.only_v6))?;
        }
        Ok(())
    }
}

fn seconds(duration: Duration) -> c_int {
    c_int::try_from(duration.as_secs().clamp(1, 32_767)).unwrap_or(32_767)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    /// The options are set on the listener only: that its connections have them saves the calls at each accept.
    #[test]
    fn connections_inherit_everything_from_their_listener() {
        let options = SocketOptions {
            send_buffer: Some(100_000),
            receive_buffer: Some(50_000),
            keepalive: Some(Keepalive { idle: Duration::from_secs(7), interval: Duration::from_secs(2), probes: 3 }),
            user_timeout: Some(Duration::from_secs(9)),
            ..SocketOptions::default()
        };
        let any = "127.0.0.1:0".parse().expect("addr");
        let listener = sys::tcp_socket(&any).expect("socket");
        options.apply_listening(listener.as_fd(), &any).expect("options");
        options.apply(listener.as_fd()).expect("options");
        sys::bind(listener.as_fd(), any).expect("bind");
        sys::listen(listener.as_fd(), options.backlog).expect("listen");
        let addr = sys::socket_name(listener.as_fd(), false).expect("name");
        let _peer = std::net::TcpStream::connect(addr).expect("connect");
        assert!(sys::wait_readable(listener.as_fd(), None).expect("wait"));
        let (accepted, peer) = sys::accept(listener.as_fd()).expect("accept");
        assert!(peer.is_some());
        for (level, name, value) in [
            (libc::SOL_SOCKET, libc::SO_SNDBUF, 200_000),
            (libc::SOL_SOCKET, libc::SO_RCVBUF, 100_000),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 7),
            (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 2),
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 9000),
        ] {
            assert_eq!(sys::option(accepted.as_fd(), level, name).expect("option"), value, "{level}/{name}");
        }
    }
}
