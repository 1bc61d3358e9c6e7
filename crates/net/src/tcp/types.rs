//! What the caller of [`Tcp`](super::Tcp) sees: ids, events, outcomes, reasons.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::time::Duration;
use std::{fmt, io};

/// A connection of one [`Tcp`](super::Tcp): a dense slot, and a generation that tells the connections apart which had the slot one
/// after the other. A stale id is harmless: nothing is received, sent or closed by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl ConnId {
    /// Index for side tables: below the highest number of connections there ever were at one time.
    #[inline]
    pub const fn slot(self) -> usize {
        self.slot as usize
    }

    /// How many connections had the slot before this one.
    #[inline]
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

impl fmt::Display for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.generation)
    }
}

/// A listener of one [`Tcp`](super::Tcp). Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub(super) u32);

impl ListenerId {
    /// Index for side tables: the first listener has 0, the next 1, ...
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What [`Tcp::poll`](super::Tcp::poll) reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection came in.
    Accepted {
        /// Where it came in.
        listener: ListenerId,
        /// The new connection.
        conn: ConnId,
        /// The other end.
        peer: SocketAddr,
    },
    /// Connections could not be accepted, for want of descriptors or memory. Those that waited were turned away; the listener pauses
    /// and resumes by itself.
    AcceptFailed {
        /// The listener that pauses.
        listener: ListenerId,
        /// The `errno`, as a rule `EMFILE` (raise the limit of open files) or `ENFILE`.
        errno: i32,
    },
    /// An outgoing connection is established.
    Connected {
        /// The connection.
        conn: ConnId,
    },
    /// There is input: call [`Tcp::recv`](super::Tcp::recv). Reported by every poll until all has been received.
    Readable {
        /// The connection.
        conn: ConnId,
    },
    /// All that was queued for the connection has been handed to the kernel.
    Drained {
        /// The connection.
        conn: ConnId,
    },
    /// The connection is at its end. Reported exactly once for every connection, also for those closed by the caller; the last event
    /// of the connection. Its slot is given to another one after the next poll at the earliest.
    Closed {
        /// The connection.
        conn: ConnId,
        /// Why it ended.
        why: CloseReason,
    },
    /// A [`Waker`](crate::Waker) woke the poll.
    Woken,
    /// A descriptor given to [`Tcp::watch`](super::Tcp::watch) is readable.
    Ready {
        /// The number given with it.
        token: u32,
    },
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CloseReason {
    /// The peer closed in order (end of stream).
    PeerClosed,
    /// The peer, or something between, reset the connection.
    Reset,
    /// The connection could not be established; the `errno`.
    ConnectFailed(i32),
    /// Any other failure of the connection; the `errno` (`ETIMEDOUT`: the peer no longer acknowledges).
    Failed(i32),
    /// This side closed the connection.
    Local {
        /// All that had been sent was handed to the kernel and the peer has seen the end of stream.
        drained: bool,
    },
    /// An injected fault cut it.
    Fault,
}

impl CloseReason {
    pub(super) fn from_error(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ECONNRESET | libc::EPIPE) => Self::Reset,
            Some(errno) => Self::Failed(errno),
            None => Self::Failed(libc::EIO),
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::PeerClosed => f.write_str("closed by the peer"),
            Self::Reset => f.write_str("reset by the peer"),
            Self::ConnectFailed(errno) => write!(f, "connect failed: {}", io::Error::from_raw_os_error(errno)),
            Self::Failed(errno) => write!(f, "connection failed: {}", io::Error::from_raw_os_error(errno)),
            Self::Local { drained: true } => f.write_str("closed by this side, all sent"),
            Self::Local { drained: false } => f.write_str("closed by this side"),
            Self::Fault => f.write_str("cut by an injected fault"),
        }
    }
}

/// How to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// In order: send what is queued, then end of stream, wait for the peer's, all within this time. Input that still comes in is
    /// thrown away. When the time is over with bytes still queued, the connection is reset, so that the peer can tell the cut.
    Drain(Duration),
    /// At once. What is queued here is dropped; what the kernel has taken, it still tries to deliver.
    Now,
    /// At once with a reset: the kernel's queue is dropped too. For a peer that does not read.
    Reset,
}

/// The result of [`Tcp::recv`](super::Tcp::recv).
#[derive(Debug, PartialEq, Eq)]
pub enum RecvOutcome<'s> {
    /// Input, at the start of the scratch buffer; never empty.
    Data(&'s mut [u8]),
    /// Nothing now.
    Empty,
    /// There will be nothing more; [`Event::Closed`] says why (at the next poll, unless it did already).
    Ended,
}

/// The result of [`Tcp::send`](super::Tcp::send).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The kernel took everything.
    Sent,
    /// The kernel took a part or nothing; so many bytes are queued now.
    Queued(usize),
    /// The connection is closing or at its end; the bytes were dropped.
    Gone,
}

/// The result of [`Tcp::send_all`](super::Tcp::send_all).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendSummary {
    /// Entries of which everything was taken by the kernel.
    pub sent: usize,
    /// Entries of which at least a part is queued.
    pub queued: usize,
    /// Entries whose connection is closing or gone.
    pub gone: usize,
}

/// Memory into which input is received: one for all connections of a thread.
pub struct Scratch(Box<[u8]>);

impl Scratch {
    /// Size that takes what a socket holds under load in one call.
    pub const DEFAULT_SIZE: usize = 256 * 1024;

    /// A buffer of so many bytes (at least one). The size also bounds what one connection gets to deliver a turn.
    pub fn new(size: usize) -> Self {
        Self(vec![0; size.max(1)].into_boxed_slice())
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new(Self::DEFAULT_SIZE)
    }
}

impl Deref for Scratch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scratch({} bytes)", self.0.len())
    }
}

/// What a [`Tcp`](super::Tcp) has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections turned away for want of descriptors or memory.
    pub turned_away: u64,
    /// Outgoing connections established.
    pub connected: u64,
    /// Connections that ended, failed connects included.
    pub closed: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes handed to the kernel.
    pub bytes_sent: u64,
    /// Calls that received (also those that found nothing).
    pub recv_calls: u64,
    /// Calls that sent; for `io_uring`, submissions.
    pub send_calls: u64,
    /// Sends of which the kernel refused at least a part.
    pub short_sends: u64,
    /// Waits for events.
    pub waits: u64,
    /// Changes of what a connection waits for.
    pub arms: u64,
}
