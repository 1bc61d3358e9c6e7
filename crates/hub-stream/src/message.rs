//! One message of a block, before anyone has looked into its body.

use super::{HubError, Kind, MESSAGE_HEADER};

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
            kind: Kind::from_wire(header[4]).ok_or(HubError::UnknownType(header[4]))?,
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
