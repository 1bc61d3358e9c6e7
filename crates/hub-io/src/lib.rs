//! The network between Source Distributors and P2PSs that are processes of their own.
//!
//! ```text
//! Source Distributor [Publisher] ==data stream: every block, to all==> [Subscriber] P2PS
//!                                <--unicast connection: greeting, requests, posts--
//! ```
//!
//! A P2PS has one unicast connection (TCP) to each Source Distributor. It opens with a greeting each way, by which the
//! P2PS gets its number and the position at which its part of the data stream begins; then it carries request blocks. The
//! data stream comes on the same connection (transport `tcp`), over LBM or over Aeron. Both sides keep their sockets in a set of their
//! own, whose descriptor the owner's set watches: input is handed on from where it was received, without a copy.
//!
//! | module | what it is |
//! |---|---|
//! | [`frames`], [`announcement`] | the bytes of the unicast connection, and of a Source Distributor's word of itself |
//! | [`auth`], [`trust`], `wire` | the hub's key; whom a hub lets in; TLS between socket and frames |
//! | [`publisher`], `outgoing` | the Source Distributor's side: connections, data stream |
//! | [`copy`], `copying` | images that one Source Distributor gives to another that starts |
//! | [`subscriber`], [`links`], `services`, `incoming` | the P2PS's side: connections, names that lead to Source Distributors, data stream |
//! | [`options`], [`aeron`] | LBM options of the data streams; what is asked of Aeron |
#![forbid(unsafe_code)]

pub mod aeron;
pub mod announcement;
pub mod auth;
pub mod copy;
mod copying;
pub mod frames;
mod incoming;
pub mod links;
pub mod options;
mod outgoing;
pub mod publisher;
mod services;
pub mod subscriber;
pub mod trust;
mod wire;

use std::io;
use std::os::fd::AsFd;

use hub::stream::HubError;
use net::tcp::SocketOptions;

use rssl_io::RsslIo;

/// The number under which an owner's set reports the sockets of the unicast connections.
const UNICAST: u32 = 0;
/// And those of the data stream.
const DATA: u32 = 1;

/// One at the other end of the hub, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubPeer {
    /// The kind of peer: `p2ps`, `source-distributor`; of a daemon `stream-to-host` or `stream-to-network`.
    pub kind: &'static str,
    /// The peer's name, as it has said or as it is configured, with its address.
    pub name: String,
    /// How far the connection has come: `joined`, or what is done about it; `carried` of a stream.
    pub state: &'static str,
    /// Bytes of the data stream that it has yet to read, at most; of a stream, those that wait for LBM.
    pub behind_bytes: u64,
}

/// Why the connection between a Source Distributor and a P2PS is ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The peer's bytes are no frames.
    #[error(transparent)]
    Frame(#[from] frames::FrameError),
    /// The contents of the peer's blocks make no sense.
    #[error("{what} cannot be read: {why}")]
    Block {
        /// The kind of blocks: `its stream`.
        what: &'static str,
        /// Where, and what.
        why: HubError,
    },
    /// The peer cannot prove who it is.
    #[error("it does not have the hub's key")]
    NotGenuine,
    /// The peer lets this P2PS not join; its reason.
    #[error("refused: {0}")]
    Refused(String),
    /// The peer reads too little.
    #[error("it takes no requests: {waiting} bytes are waiting")]
    TakesNoRequests {
        /// Bytes that wait for it.
        waiting: usize,
    },
}

/// Descriptors that the owner's set has reported.
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
    config::socket_options(true, c.tcp_send_buf_size, c.tcp_recv_buf_size)
}

/// Has the owner's turns end when there is something to do here; `number` is what the owner is told it by.
///
/// # Errors
/// The set takes no more descriptors.
pub fn watch(io: &mut RsslIo, fd: &impl AsFd, number: u32) -> io::Result<()> {
    io.tcp().watch(fd.as_fd(), number)
}
