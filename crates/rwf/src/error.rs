//! The two errors of the codec: one for bytes that came from elsewhere, one for what a caller asks to be written.

use std::fmt;

/// Why bytes could not be decoded.
///
/// The fault is in the bytes, never in the caller. `offset` counts from the start of the slice that was given to the
/// decoder which failed; [`DecodeError::within`] moves it to the frame of reference of an enclosing slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodeError {
    kind: DecodeErrorKind,
    what: &'static str,
    offset: u32,
}

/// How bytes failed to decode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The bytes end before the thing that they announce.
    Truncated,
    /// The bytes contradict the format.
    Invalid,
}

impl DecodeError {
    /// Bytes end at or after `offset`, before `what` is complete.
    #[cold]
    #[inline(never)]
    pub const fn truncated(what: &'static str, offset: usize) -> Self {
        Self { kind: DecodeErrorKind::Truncated, what, offset: offset as u32 }
    }

    /// The bytes at `offset` are no legal `what`.
    #[cold]
    #[inline(never)]
    pub const fn invalid(what: &'static str, offset: usize) -> Self {
        Self { kind: DecodeErrorKind::Invalid, what, offset: offset as u32 }
    }

    /// Truncated or invalid.
    pub const fn kind(&self) -> DecodeErrorKind {
        self.kind
    }

    /// True if the bytes end too early.
    pub const fn is_truncated(&self) -> bool {
        matches!(self.kind, DecodeErrorKind::Truncated)
    }

    /// What was being decoded.
    pub const fn what(&self) -> &'static str {
        self.what
    }

    /// Where, in bytes from the start of the decoded slice.
    pub const fn offset(&self) -> usize {
        self.offset as usize
    }

    /// The same error, seen from a slice in which the decoded one starts at `base`.
    #[must_use]
    pub const fn within(mut self, base: usize) -> Self {
        self.offset = self.offset.saturating_add(base as u32);
        self
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            DecodeErrorKind::Truncated => "truncated",
            DecodeErrorKind::Invalid => "invalid",
        };
        write!(f, "{kind} {} at byte {}", self.what, self.offset)
    }
}

impl std::error::Error for DecodeError {}

/// Why something could not be encoded. The fault is in the call: the buffer is too small or a value has no wire form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EncodeError {
    /// The buffer has no room for what comes next. What was written before is intact.
    BufferFull,
    /// A part is longer than its length coding can say.
    TooLong {
        /// The part.
        what: &'static str,
        /// The part's length, in the unit that `what` implies.
        len: usize,
        /// The largest length that can be written.
        max: usize,
    },
    /// A value that the format cannot express at this place.
    Unrepresentable(&'static str),
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BufferFull => f.write_str("the output buffer is full"),
            Self::TooLong { what, len, max } => write!(f, "{what}: {len} is over the limit of {max}"),
            Self::Unrepresentable(what) => write!(f, "{what} cannot be written in this place"),
        }
    }
}

impl std::error::Error for EncodeError {}
