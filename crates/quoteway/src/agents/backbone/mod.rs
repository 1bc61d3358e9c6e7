//! What joins Source Distributors and P2PSs that are processes of their own.
//!
//! ```text
//! Source Distributor [Publisher] ==data stream: every block, to all==> [Subscriber] P2PS
//!                                <--unicast connection: greeting, requests, posts--
//! ```
//!
//! A P2PS has one unicast connection (TCP) to each Source Distributor. It opens with a greeting each way, by which the
//! P2PS gets its number and the position at which its part of the data stream begins; then it carries request blocks. The
//! data stream comes on the same connection (transport `tcp`) or over LBM. Both sides keep their sockets in a set of their
//! own, whose descriptor the owner's set watches: input is handed on from where it was received, without a copy.
//!
//! | module | what it is |
//! |---|---|
//! | [`frames`], [`announcement`] | the bytes of the unicast connection, and of a Source Distributor's word of itself |
//! | [`publisher`], `outgoing` | the Source Distributor's side: connections, data stream |
//! | [`subscriber`], [`links`], `incoming` | the P2PS's side |
//! | [`relay`] | `rrcpd`: between the network and the shared memory of a host |
//! | `options` | LBM options of the data streams |

pub mod announcement;
pub mod frames;
mod incoming;
pub mod links;
mod options;
mod outgoing;
pub mod publisher;
pub mod relay;
pub mod subscriber;

use std::io;
use std::os::fd::AsFd;

use net::tcp::SocketOptions;

use super::rssl_io::RsslIo;
use crate::config;

/// The number under which an owner's set reports the sockets of the unicast connections.
const UNICAST: u32 = 0;
/// And those of the data stream.
const DATA: u32 = 1;

/// What the owner's set has reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    unicast: bool,
    data: bool,
}

impl Ready {
    /// Takes it from the owner's set.
    pub fn take(io: &mut RsslIo) -> Self {
        Self { unicast: io.take_ready(UNICAST), data: io.take_ready(DATA) }
    }

    /// True if there is anything.
    pub fn any(self) -> bool {
        self.unicast || self.data
    }
}

/// Socket options of the unicast connections.
fn socket_options(c: &config::Hub) -> SocketOptions {
    super::socket_options(true, c.tcp_send_buf_size, c.tcp_recv_buf_size)
}

/// Has the owner's turns end when there is something to do here.
pub(super) fn watch(io: &mut RsslIo, fd: &impl AsFd, number: u32) -> io::Result<()> {
    io.tcp().watch(fd.as_fd(), number)
}
