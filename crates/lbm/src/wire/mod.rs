//! Packets: borrowed views of received bytes, and encoders into the caller's buffer.
//!
//! A datagram of LBT-RM ([`lbtrm`]) or LBT-RU ([`lbtru`]) carries one or more messages ([`lbmc`]), each with a chain of extension
//! headers ([`header`]). Topic resolution ([`lbmr`]) has datagrams of its own, and over TCP records ([`srs`]) in frames ([`rsocket`]). Everything is big-endian, unaligned and without
//! checksums. `docs/wire/lbm.md` has the layouts.

pub mod filtering;
pub mod header;
pub mod lbmc;
pub mod lbmr;
pub mod lbmr_management;
pub mod lbmr_option;
pub mod lbtrm;
pub mod lbtru;
pub mod properties;
pub mod rsocket;
pub mod srs;

use core::fmt;

/// Bytes that are not what they should be. The offset counts from the start of the bytes given to the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes end before `what` does.
    Truncated {
        /// The part that is incomplete.
        what: &'static str,
        /// Where that part begins.
        offset: usize,
    },
    /// `what` has a value that the format does not allow.
    Invalid {
        /// The part that is wrong.
        what: &'static str,
        /// Where it is.
        offset: usize,
    },
}

impl WireError {
    pub(crate) fn shifted(self, by: usize) -> Self {
        match self {
            Self::Truncated { what, offset } => Self::Truncated { what, offset: offset + by },
            Self::Invalid { what, offset } => Self::Invalid { what, offset: offset + by },
        }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { what, offset } => write!(f, "{what} at byte {offset} is cut short"),
            Self::Invalid { what, offset } => write!(f, "{what} at byte {offset} is invalid"),
        }
    }
}

impl core::error::Error for WireError {}

/// The buffer given to an encoder is too small, or a value does not fit its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the packet does not fit the buffer")
    }
}

impl core::error::Error for Full {}

pub(crate) const fn truncated(what: &'static str, offset: usize) -> WireError {
    WireError::Truncated { what, offset }
}

pub(crate) const fn invalid(what: &'static str, offset: usize) -> WireError {
    WireError::Invalid { what, offset }
}

/// Reads fields one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Fields of `what` from `at` on.
    pub(crate) fn new(what: &'static str, bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at, what }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let end = self.at.checked_add(length).ok_or(truncated(self.what, self.at))?;
        let slice = self.bytes.get(self.at..end).ok_or(truncated(self.what, self.at))?;
        self.at = end;
        Ok(slice)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let at = self.at;
        self.take(N)?.try_into().map_err(|_| truncated(self.what, at))
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.array::<1>()?[0])
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(crate) fn address(&mut self) -> Result<core::net::Ipv4Addr, WireError> {
        Ok(self.array::<4>()?.into())
    }

    /// The bytes before the next NUL, which is consumed.
    pub(crate) fn text(&mut self) -> Result<&'a [u8], WireError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|b| *b == 0).ok_or(truncated(self.what, self.at))?;
        self.at += length + 1;
        Ok(&rest[..length])
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at = self.bytes.len().max(self.at);
        rest
    }
}

/// Appends fields to a buffer of fixed size.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    /// Writes from the beginning of `buffer`.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, at: 0 }
    }

    /// Bytes written so far.
    pub fn position(&self) -> usize {
        self.at
    }

    /// What was written so far.
    pub fn written(&self) -> &[u8] {
        &self.buffer[..self.at]
    }

    /// Appends bytes as they are.
    ///
    /// # Errors
    /// The buffer is full; nothing is written.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let end = self.at.checked_add(bytes.len()).ok_or(Full)?;
        self.buffer.get_mut(self.at..end).ok_or(Full)?.copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }

    /// Appends one byte.
    ///
    /// # Errors
    /// The buffer is full.
    #[inline]
    pub fn u8(&mut self, value: u8) -> Result<(), Full> {
        self.bytes(&[value])
    }

    /// Appends 16 bits.
    ///
    /// # Errors
    /// The buffer is full.
    #[inline]
    pub fn u16(&mut self, value: u16) -> Result<(), Full> {
        self.bytes(&value.to_be_bytes())
    }

    /// Appends 32 bits.
    ///
    /// # Errors
    /// The buffer is full.
    #[inline]
    pub fn u32(&mut self, value: u32) -> Result<(), Full> {
        self.bytes(&value.to_be_bytes())
    }

    /// Appends 64 bits.
    ///
    /// # Errors
    /// The buffer is full.
    #[inline]
    pub fn u64(&mut self, value: u64) -> Result<(), Full> {
        self.bytes(&value.to_be_bytes())
    }

    /// Overwrites two bytes that were written before.
    pub(crate) fn patch_u16(&mut self, at: usize, value: u16) {
        self.buffer[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn patch_u8(&mut self, at: usize, value: u8) {
        self.buffer[at] = value;
    }

    pub(crate) fn truncate(&mut self, at: usize) {
        self.at = at;
    }
}

/// The sequence numbers that a NAK or NCF lists, where they lie in the packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SqnList<'a>(&'a [u8]);

impl<'a> SqnList<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>, count: u16) -> Result<Self, WireError> {
        Ok(Self(reader.take(usize::from(count) * 4)?))
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.0.len() / 4
    }

    /// Whether the list is empty.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The numbers in wire order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = u32> + 'a {
        self.0.chunks_exact(4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }
}

impl fmt::Debug for SqnList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Why a source does not answer a NAK with the datagram: the reason of a NAK confirmation (NCF).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NcfReason {
    /// The datagram will not be sent again.
    DoNotRetry,
    /// The datagram was sent again within the ignore interval.
    Ignored,
    /// The retransmission waits for the retransmission rate limit.
    RetransmitDelay,
    /// The retransmission was dropped by the retransmission rate limit.
    Shed,
    /// A value that this version does not know (low four bits); receivers treat it like [`NcfReason::Ignored`].
    Other(u8),
}

impl NcfReason {
    /// From the four bits of the packet.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 15 {
            0 => Self::DoNotRetry,
            1 => Self::Ignored,
            2 => Self::RetransmitDelay,
            3 => Self::Shed,
            other => Self::Other(other),
        }
    }

    /// The four bits of the packet.
    pub const fn bits(self) -> u8 {
        match self {
            Self::DoNotRetry => 0,
            Self::Ignored => 1,
            Self::RetransmitDelay => 2,
            Self::Shed => 3,
            Self::Other(bits) => bits & 15,
        }
    }
}

/// Signed distance from `from` to `to` on the circle of 32-bit sequence numbers.
#[inline]
pub const fn distance(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from) as i32
}
