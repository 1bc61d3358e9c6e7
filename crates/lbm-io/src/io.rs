//! The one epoll set of a context: TCP connections by their role, and every other descriptor by what it belongs to.

use std::io;
use std::net::Ipv4Addr;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use lbm::options::{Opt, Port};
use lbm::transport::tcp::Deframer;
use net::tcp::{ConnId, Event, ListenerId, SocketOptions, Tcp, TcpConfig};
use net::udp::{UdpOptions, UdpSocket};

use crate::error::ContextError;

/// To whom a readable descriptor belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Topic resolution by multicast.
    Resolver,
    /// A resolver daemon, by its place in the list.
    Daemon(usize),
    /// NAKs or clients of a sending session.
    Outbound(usize),
    /// Acknowledgements and NAKs of an LBT-RU client that has a socket of its own: the session, the socket's place.
    Client(usize, u32),
    /// LBT-RM data of a group.
    Group(usize),
    /// LBT-RU data, or a sign that there is something in shared memory: by the receiving session.
    Inbound(usize),
    /// Somebody wants to read the counters.
    Statistics,
}

/// The use of a TCP connection.
#[derive(Debug, Default)]
pub(crate) enum Role {
    #[default]
    None,
    /// Came in by the request port: questions for our sources, replies to our requests.
    Peer(Deframer),
    /// A receiver of an LBT-TCP session of ours.
    Client {
        /// The sending session.
        session: usize,
        /// What it says at first.
        deframer: Deframer,
    },
    /// An LBT-TCP session that we receive.
    Session {
        /// The receiving session.
        session: usize,
        deframer: Deframer,
    },
    /// Our questions to a source's request port.
    Questions {
        /// The receiving session.
        session: usize,
        deframer: Deframer,
    },
    /// Our connection to a resolution service, by its place in the list.
    Service(usize),
    /// Our replies to a requester.
    Replies(SocketAddrV4),
}

/// See the module.
pub(crate) struct Io {
    pub(crate) tcp: Tcp,
    watches: Vec<Option<Watch>>,
    /// By slot of the connection.
    roles: Vec<(Option<ConnId>, Role)>,
    /// Events of a poll that a blocking send made in between.
    pub(crate) backlog: Vec<Event>,
    scratch: Vec<Event>,
}

impl Io {
    pub(crate) fn new() -> Result<Self, ContextError> {
        let tcp = Tcp::new(TcpConfig::default()).map_err(ContextError::io("epoll"))?;
        Ok(Self { tcp, watches: Vec::new(), roles: Vec::new(), backlog: Vec::new(), scratch: Vec::new() })
    }

    /// Reports the descriptor as `watch` when it is readable. The number is for [`Io::unwatch`].
    pub(crate) fn watch(&mut self, fd: BorrowedFd<'_>, watch: Watch) -> Result<u32, ContextError> {
        let free = self.watches.iter().position(Option::is_none).unwrap_or(self.watches.len());
        self.tcp.watch(fd, free as u32).map_err(ContextError::io("watching a socket"))?;
        if free == self.watches.len() {
            self.watches.push(None);
        }
        self.watches[free] = Some(watch);
        Ok(free as u32)
    }

    /// Before the descriptor is closed.
    pub(crate) fn unwatch(&mut self, fd: BorrowedFd<'_>, number: u32) {
        // The call fails only for a descriptor that is not in the set; then there is nothing to take back.
        let _ = self.tcp.unwatch(fd);
        self.watches[number as usize] = None;
    }

    pub(crate) fn watched(&self, number: u32) -> Option<Watch> {
        self.watches.get(number as usize).copied().flatten()
    }

    pub(crate) fn set_role(&mut self, conn: ConnId, role: Role) {
        if self.roles.len() <= conn.slot() {
            self.roles.resize_with(conn.slot() + 1, Default::default);
        }
        self.roles[conn.slot()] = (Some(conn), role);
    }

    pub(crate) fn role(&mut self, conn: ConnId) -> Option<&mut Role> {
        match self.roles.get_mut(conn.slot()) {
            Some((Some(owner), role)) if *owner == conn => Some(role),
            _ => None,
        }
    }

    /// The role, which is put back with [`Io::set_role`] after its bytes were handled.
    pub(crate) fn take_role(&mut self, conn: ConnId) -> Role {
        self.role(conn).map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn forget(&mut self, conn: ConnId) -> Role {
        match self.roles.get_mut(conn.slot()) {
            Some((owner, role)) if *owner == Some(conn) => {
                *owner = None;
                std::mem::take(role)
            }
            _ => Role::None,
        }
    }

    /// Lets TCP move while a send waits. What is reported is kept for the next turn.
    pub(crate) fn poll_aside(&mut self, wait: Duration) -> io::Result<()> {
        let mut events = std::mem::take(&mut self.scratch);
        let polled = self.tcp.poll(Some(wait), &mut events);
        // The set reports a socket again that is still readable.
        let kept =
            events.drain(..).filter(|e| !matches!(e, Event::Readable { .. } | Event::Ready { .. } | Event::Woken));
        self.backlog.extend(kept);
        self.scratch = events;
        polled
    }

    /// A listener on the first free port of a pool.
    pub(crate) fn listen(
        &mut self,
        what: &'static str,
        option: Opt<Port>,
        pool: (u16, u16),
        interface: Ipv4Addr,
        options: &SocketOptions,
    ) -> Result<(ListenerId, SocketAddrV4), ContextError> {
        let (listener, address) = in_pool(what, option, pool, |port| {
            self.tcp.listen(SocketAddr::V4(SocketAddrV4::new(interface, port)), options)
        })?;
        Ok((listener, SocketAddrV4::new(interface, address.port())))
    }
}

/// A UDP socket on the first free port of a pool.
pub(crate) fn bind(
    what: &'static str,
    option: Opt<Port>,
    pool: (u16, u16),
    interface: Ipv4Addr,
    options: &UdpOptions,
) -> Result<UdpSocket, ContextError> {
    in_pool(what, option, pool, |port| UdpSocket::bind(SocketAddrV4::new(interface, port), options))
}

/// A pool from 0 to 0 is any port.
fn in_pool<T>(
    what: &'static str,
    option: Opt<Port>,
    (low, high): (u16, u16),
    mut open: impl FnMut(u16) -> io::Result<T>,
) -> Result<T, ContextError> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for port in low..=high.max(low) {
        match open(port) {
            Ok(opened) => return Ok(opened),
            Err(error) => {
                let taken = matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied);
                last = error;
                if !taken {
                    return Err(ContextError::Io { what: format!("{what} on port {port}"), error: last });
                }
            }
        }
    }
    Err(ContextError::Ports { what, option: option.name(), pool: (low, high.max(low)), error: last })
}
