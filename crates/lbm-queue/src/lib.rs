//! Queuing by load for LBM topics (Ultra Load Balancing), as state machines without I/O: messages and `now` (monotonic nanoseconds) go in,
//! messages and events come out. Without a broker, a source decides which receiver of each of its application sets consumes a message, and
//! keeps the message until all sets have consumed it.
//!
//! | module | what it is |
//! |---|---|
//! | [`wire`] | the headers of queuing |
//! | [`options`] | what `umq_` options say of sources and receivers |
//! | [`source`] | the source: application sets, assignment, reassignment, flight size |
//! | [`receiver`] | the receiver: registration at each source of its topic, what is its own, consumption reports |
//!
//! The crate `lbm-queue-io` puts a context of `lbm-io` around them.
#![forbid(unsafe_code)]

pub mod options;
pub mod receiver;
pub mod source;
pub mod wire;

/// Application sets that a source has at most: each takes a header of 20 bytes in each message.
pub const SETS_MAX: usize = 16;
/// Receivers that are registered at a source at most.
pub const RECEIVERS_MAX: usize = 4_096;

/// The index that messages have in common which belong together: all of one index go to one receiver of each application set, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Index {
    /// A number.
    Number(u64),
    /// A text of at most [`Index::TEXT_MAX`] bytes.
    Text(Box<[u8]>),
}

impl Index {
    /// The longest text, in bytes.
    pub const TEXT_MAX: usize = 200;
}

/// A message of a queue, from its source on: the same however often it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId {
    /// The source's id.
    pub source: u32,
    /// Counts the source's messages, from 0.
    pub stamp: u64,
}
