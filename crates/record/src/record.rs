//! What is recorded: messages of items and of the service, with three clocks, and gaps.

use crate::bytes::Input;
use std::sync::Arc;

/// Kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// An image of an item, or a part of one: an RWF refresh.
    Refresh = 1,
    /// An RWF update.
    Update = 2,
    /// An RWF status.
    Status = 3,
    /// A directory message: the service itself comes, changes or goes.
    Directory = 4,
    /// A part of a dictionary.
    Dictionary = 5,
    /// Demands of an item of who sees it, told apart from its messages: the lock's bytes.
    PermissionData = 6,
    /// An RWF ack.
    Ack = 7,
    /// An RWF generic message.
    Generic = 8,
    /// A [`Gap`]: here something is missing, or time has jumped.
    Gap = 9,
}

impl Kind {
    /// All kinds, by number.
    pub const ALL: [Self; 9] = [
        Self::Refresh,
        Self::Update,
        Self::Status,
        Self::Directory,
        Self::Dictionary,
        Self::PermissionData,
        Self::Ack,
        Self::Generic,
        Self::Gap,
    ];

    /// The kind with this number.
    pub const fn of(number: u8) -> Option<Self> {
        match number {
            1..=9 => Some(Self::ALL[number as usize - 1]),
            _ => None,
        }
    }

    /// Name of the kind, as `info` shows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refresh => "refresh",
            Self::Update => "update",
            Self::Status => "status",
            Self::Directory => "directory",
            Self::Dictionary => "dictionary",
            Self::PermissionData => "permission data",
            Self::Ack => "ack",
            Self::Generic => "generic",
            Self::Gap => "gap",
        }
    }
}

/// When something was received and, where it is known, when its source made it. Nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clocks {
    /// Wall clock of receipt, since 1970 in UTC.
    pub wall: u64,
    /// Monotonic clock of receipt: its zero means nothing, differences do. It begins anew with the machine.
    pub mono: u64,
    /// The source's own time, since 1970 in UTC.
    pub source: Option<u64>,
}

/// An item, or with an empty name the service itself. Its names are shared, so that who has seen one knows it again by where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Item {
    /// Name of its service.
    pub service: Arc<str>,
    /// Number of its domain, as in RWF.
    pub domain: u8,
    /// Name of the item.
    pub name: Arc<str>,
}

/// Number of an item within a segment; 0 is none.
pub type ItemNumber = u32;

/// A record as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Sequence number in the recording: from 0 on, without a hole.
    pub sequence: u64,
    /// When it counts: the latest wall clock up to here, since a wall clock may be set back. Nanoseconds since 1970.
    pub time: u64,
    /// Kind of the record.
    pub kind: Kind,
    /// Item in this segment, 0 for none.
    pub item: ItemNumber,
    /// When it came.
    pub clocks: Clocks,
    /// The message, as it was received.
    pub body: &'a [u8],
}

/// Why something is missing, or time is not what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum GapReason {
    /// The recorder's process was not there. How much is missing is not known.
    Restart = 1,
    /// The recorder could not follow: its queue was full.
    Overflow = 2,
    /// The disk was full, or could not be written. Images behind the gap are right: the recorder went on listening.
    Disk = 3,
    /// The wall clock was set back. Nothing is missing.
    ClockSetBack = 4,
    /// Records that were here cannot be read: a block was damaged.
    Damaged = 5,
    /// Messages that are longer than a record can be.
    TooLong = 6,
}

impl GapReason {
    const ALL: [Self; 6] =
        [Self::Restart, Self::Overflow, Self::Disk, Self::ClockSetBack, Self::Damaged, Self::TooLong];

    /// The reason with this number.
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| *reason as u8 == number)
    }

    /// Whether items are not what their images say behind it, until their next refresh.
    pub const fn makes_suspect(self) -> bool {
        !matches!(self, Self::ClockSetBack | Self::Disk)
    }

    /// Whether messages are missing behind which a reader's images may be wrong, until the next refresh or checkpoint. While the disk takes nothing the
    /// writer's images are right, and a checkpoint has them behind the gap; what is not in that has ended meanwhile, or was suspect already.
    pub const fn hides_messages(self) -> bool {
        !matches!(self, Self::ClockSetBack)
    }

    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Restart => "the recorder was not running",
            Self::Overflow => "the recorder could not follow",
            Self::Disk => "the disk was full or could not be written",
            Self::ClockSetBack => "the wall clock was set back",
            Self::Damaged => "a block is damaged",
            Self::TooLong => "messages were longer than a record can be",
        }
    }
}

/// A hole in the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Why.
    pub reason: GapReason,
    /// Wall clock at which it begins, nanoseconds. Of a clock that was set back: what it showed before.
    pub from: u64,
    /// Wall clock at which it ends, nanoseconds.
    pub to: u64,
    /// Messages that are missing, if that is known.
    pub messages: Option<u64>,
    /// Their bytes, 0 if not known.
    pub bytes: u64,
}

/// Bytes of a gap's body.
const GAP_LEN: usize = 33;

impl Gap {
    /// The body of its record.
    pub fn encode(&self) -> [u8; GAP_LEN] {
        let mut body = [0; GAP_LEN];
        body[0] = self.reason as u8;
        // All ones: not known.
        let numbers = [self.from, self.to, self.messages.unwrap_or(u64::MAX), self.bytes];
        for (place, number) in body[1..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        body
    }

    /// Reads the body of a record of kind [`Kind::Gap`]; `None` if it is none. What a later version adds behind it is not looked at.
    pub fn decode(body: &[u8]) -> Option<Self> {
        let mut input = Input::new(body);
        let reason = GapReason::of(input.u8()?)?;
        let (from, to) = (input.u64()?, input.u64()?);
        let messages = Some(input.u64()?).filter(|count| *count != u64::MAX);
        Some(Self { reason, from, to, messages, bytes: input.u64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_gaps_come_back() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of(kind as u8), Some(kind));
        }
        assert_eq!((Kind::of(0), Kind::of(10)), (None, None));
        for (reason, messages) in GapReason::ALL.into_iter().zip([None, Some(0), Some(7), None, Some(1), Some(2)]) {
            let gap = Gap { reason, from: 1, to: u64::MAX, messages, bytes: 9 };
            let body = gap.encode();
            assert_eq!(Gap::decode(&body), Some(gap));
            assert_eq!(Gap::decode(&body[..body.len() - 1]), None);
        }
    }
}
