//! One message of a block, before anyone has looked into its body.

use super::{HubError, MESSAGE_HEADER};

/// The type of a message. Up to 63 they travel from Source Distributor to P2PS, from 64 the other way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// [`super::Event::Service`]
    Service = 1,
    /// [`super::Event::ServiceGone`]
    ServiceGone = 2,
    /// [`super::Event::ServiceStatus`]
    ServiceStatus = 3,
    /// [`super::Event::GroupStatus`]
    GroupStatus = 4,
    /// [`super::Event::ItemOpened`]
    ItemOpened = 5,
    /// [`super::Event::Refused`]
    Refused = 6,
    /// [`super::Event::Image`]
    Image = 7,
    /// [`super::Event::Update`]
    Update = 8,
    /// [`super::Event::ItemStatus`]
    ItemStatus = 9,
    /// [`super::Event::Ack`]
    Ack = 10,
    /// [`super::Event::Generic`]
    Generic = 11,
    /// [`super::Event::Dictionary`]
    Dictionary = 12,
    /// [`super::Event::Heartbeat`]
    Heartbeat = 13,
    /// [`super::Event::Missed`]
    Missed = 14,
    /// [`super::Event::CaughtUp`]
    CaughtUp = 15,
    /// [`super::Event::Resync`]
    Resync = 16,
    /// [`super::Event::Leaving`]
    Leaving = 17,
    /// [`super::Event::Answered`]
    Answered = 18,
    /// [`super::Event::Record`]
    Record = 19,
    /// [`super::Event::Servers`]
    Servers = 20,
    /// [`super::Request::Hello`]
    Hello = 64,
    /// [`super::Request::Open`]
    Open = 65,
    /// [`super::Request::Refresh`]
    Refresh = 66,
    /// [`super::Request::Reissue`]
    Reissue = 67,
    /// [`super::Request::Close`]
    Close = 68,
    /// [`super::Request::Post`]
    Post = 69,
    /// [`super::Request::Generic`]
    GenericUp = 70,
    /// [`super::Request::Heartbeat`]
    HeartbeatUp = 71,
    /// [`super::Request::Gap`]
    Gap = 72,
    /// [`super::Request::Bye`]
    Bye = 73,
    /// [`super::Request::Serve`]
    Serve = 74,
}

impl Kind {
    /// Whether a message that is lost to a P2PS is said again to it as it was: answers, which come but once. Others are about what can be said as it
    /// is by then.
    pub const fn is_repeated(self) -> bool {
        matches!(self, Self::Refused | Self::Ack | Self::Resync)
    }

    /// The kind with this number on the wire.
    ///
    /// # Errors
    /// [`HubError::UnknownType`] for a number that this version does not define.
    #[inline]
    pub const fn from_wire(number: u8) -> Result<Self, HubError> {
        Ok(match number {
            1 => Self::Service,
            2 => Self::ServiceGone,
            3 => Self::ServiceStatus,
            4 => Self::GroupStatus,
            5 => Self::ItemOpened,
            6 => Self::Refused,
            7 => Self::Image,
            8 => Self::Update,
            9 => Self::ItemStatus,
            10 => Self::Ack,
            11 => Self::Generic,
            12 => Self::Dictionary,
            13 => Self::Heartbeat,
            14 => Self::Missed,
            15 => Self::CaughtUp,
            16 => Self::Resync,
            17 => Self::Leaving,
            18 => Self::Answered,
            19 => Self::Record,
            20 => Self::Servers,
            64 => Self::Hello,
            65 => Self::Open,
            66 => Self::Refresh,
            67 => Self::Reissue,
            68 => Self::Close,
            69 => Self::Post,
            70 => Self::GenericUp,
            71 => Self::HeartbeatUp,
            72 => Self::Gap,
            73 => Self::Bye,
            74 => Self::Serve,
            other => return Err(HubError::UnknownType(other)),
        })
    }

    /// True for what a Source Distributor sends, false for what a P2PS sends.
    pub const fn is_event(self) -> bool {
        (self as u8) < 64
    }
}

/// A message of a block: its fixed header and its body, borrowed. Which of the header's members mean something, and
/// what the body is, depends on the kind; [`super::Event::decode`] and [`super::Request::decode`] know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Bits of [`super::flags`].
    pub flags: u8,
    /// Event: the P2PS it is for, or [`super::ALL`]. Request: the service.
    pub target: u16,
    /// The item, or [`super::NO_HANDLE`].
    pub handle: u32,
    /// Kind-specific number: service, token, group.
    pub arg: u32,
    /// Position in the stream: the block's `first_seq` plus the index of the message in it.
    pub position: u64,
    /// What follows the header.
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// True if `flag` (one of [`super::flags`]) is set.
    #[inline]
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Reads the message at `offset` of a block; the second value is the offset behind it.
    ///
    /// # Errors
    /// The message is shorter than its header, longer than the block, or of no known kind.
    #[inline]
    pub fn at(block: &'a [u8], offset: usize, position: u64) -> Result<(Self, usize), HubError> {
        let Some(header) = block.get(offset..).and_then(|rest| rest.first_chunk::<MESSAGE_HEADER>()) else {
            return Err(HubError::MessageLength { offset, length: MESSAGE_HEADER });
        };
        let length = u32_at(header, 0) as usize;
        let end = offset.saturating_add(length);
        if length < MESSAGE_HEADER || end > block.len() {
            return Err(HubError::MessageLength { offset, length });
        }
        let message = Self {
            kind: Kind::from_wire(header[4])?,
            flags: header[5],
            target: u16::from_le_bytes([header[6], header[7]]),
            handle: u32_at(header, 8),
            arg: u32_at(header, 12),
            position,
            body: &block[offset + MESSAGE_HEADER..end],
        };
        Ok((message, end))
    }

    /// The header of a message with `body_len` bytes of body.
    #[inline]
    pub(super) fn header(
        kind: Kind,
        flags: u8,
        target: u16,
        handle: u32,
        arg: u32,
        body_len: usize,
    ) -> [u8; MESSAGE_HEADER] {
        let mut header = [0; MESSAGE_HEADER];
        header[0..4].copy_from_slice(&((MESSAGE_HEADER + body_len) as u32).to_le_bytes());
        header[4] = kind as u8;
        header[5] = flags;
        header[6..8].copy_from_slice(&target.to_le_bytes());
        header[8..12].copy_from_slice(&handle.to_le_bytes());
        header[12..16].copy_from_slice(&arg.to_le_bytes());
        header
    }
}

#[inline]
pub(super) const fn u32_at(bytes: &[u8; MESSAGE_HEADER], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
