//! The head of test messages: 16 bytes, then zeros up to the payload's size. Little-endian.
//!
//! | offset | | |
//! |---|---|---|
//! | 0 | number of the message in its topic u32 | all ones: the end of the test |
//! | 4 | number of the topic u32 | |
//! | 8 | intended time u64, monotonic nanoseconds | at the end: how many messages the topic had |

/// Bytes that a payload has at least.
pub(super) const MIN: usize = 16;

const END: u32 = u32::MAX;

/// A test message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// An ordinary one.
    Message {
        /// Counts the messages of the topic.
        number: u32,
        /// Counts the publisher's topics.
        topic: u32,
        /// When it was to go, on the publisher's clock.
        intended: u64,
    },
    /// The topic has had so many messages.
    End {
        /// Counts the publisher's topics.
        topic: u32,
        /// Messages before this one.
        count: u64,
    },
}

impl Payload {
    /// Reads the first bytes of a payload; `None`: it is not a test message.
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (head, _) = bytes.split_first_chunk::<MIN>()?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let long = u64::from(word(8)) | u64::from(word(12)) << 32;
        Some(match (word(0), word(4)) {
            (END, topic) => Self::End { topic, count: long },
            (number, topic) => Self::Message { number, topic, intended: long },
        })
    }

    /// Writes the first bytes of a payload.
    #[inline]
    pub(super) fn write(self, bytes: &mut [u8; MIN]) {
        let (number, topic, long) = match self {
            Self::Message { number, topic, intended } => (number, topic, intended),
            Self::End { topic, count } => (END, topic, count),
        };
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        bytes[4..8].copy_from_slice(&topic.to_le_bytes());
        bytes[8..].copy_from_slice(&long.to_le_bytes());
    }
}
