//! What can be wrong with bytes that claim to be a hub stream.

use super::Kind;
use std::fmt;

/// Why a block, or a message in it, is refused. All of them are the sender's fault; none consumes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HubError {
    /// The block is shorter than its header, or than its header says.
    Truncated {
        /// Bytes that the block should have had.
        expected: usize,
        /// Bytes that it has.
        found: usize,
    },
    /// The block does not begin with [`super::MAGIC`].
    NotAHubStream,
    /// The block's version is not [`super::VERSION`].
    Version(u8),
    /// A message's length is shorter than its header or leaves the block.
    MessageLength {
        /// Offset of the message in the block.
        offset: usize,
        /// The length it claims.
        length: usize,
    },
    /// The messages of the block do not add up to the count in its header.
    Count {
        /// Messages announced.
        announced: u32,
        /// Messages found.
        found: u32,
    },
    /// A message type that this version does not define.
    UnknownType(u8),
    /// The message is defined, but travels in the other direction.
    WrongDirection(Kind),
    /// The body is too short for what its type needs, or holds an impossible value.
    Malformed {
        /// The message's type.
        kind: Kind,
        /// The member that is wrong.
        what: &'static str,
    },
    /// Messages are missing in front of the block.
    Gap {
        /// How many.
        missing: u64,
    },
    /// The sender has joined another life of this Source Distributor.
    Incarnation {
        /// The life that it knows.
        known: u32,
        /// The present one.
        present: u32,
    },
    /// The sender is not joined, and there is no place for it.
    NotJoined,
}

impl fmt::Display for HubError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { expected, found } => {
                write!(f, "hub block cut off: {found} bytes where its header needs {expected}")
            }
            Self::NotAHubStream => write!(f, "not a hub stream: the block does not begin with \"Qw\""),
            Self::Version(v) => {
                write!(
                    f,
                    "hub stream version {v}, but this side speaks {}: run the same release on both",
                    super::VERSION
                )
            }
            Self::MessageLength { offset, length } => {
                write!(f, "hub message at byte {offset} claims {length} bytes and leaves its block")
            }
            Self::Count { announced, found } => write!(f, "hub block announces {announced} messages and holds {found}"),
            Self::UnknownType(t) => write!(f, "hub message of unknown type {t}"),
            Self::WrongDirection(kind) => write!(f, "hub message {kind:?} does not travel in this direction"),
            Self::Gap { missing } => write!(f, "{missing} hub messages are missing: join again"),
            Self::Incarnation { known, present } => {
                write!(f, "joined to incarnation {known} of the source distributor, which is {present} now: join again")
            }
            Self::NotJoined => write!(f, "the hub has no place for another member: 4,096 are joined"),
            Self::Malformed { kind, what } => write!(f, "hub message {kind:?} with a bad {what}"),
        }
    }
}

impl std::error::Error for HubError {}
