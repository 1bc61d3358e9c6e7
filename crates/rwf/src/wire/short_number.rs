//! Numbers and times as lists have them: behind a length byte, in as few bytes as they need.

/// Bytes that a signed integer needs: at least one, with room for its sign.
#[inline]
pub(crate) const fn int_len(value: i64) -> usize {
    let significant = 65 - (value ^ (value >> 63)).leading_zeros() as usize;
    significant.div_ceil(8)
}

/// Bytes that an unsigned integer needs: at least one.
#[inline]
pub(crate) const fn uint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(8)
}

/// A number or time in its shortest form, as lists have it behind a length byte.
pub(crate) struct ShortNumber {
    /// The hint of a real.
    pub(crate) hint: Option<u8>,
    /// The number in its first `len` bytes, big-endian.
    pub(crate) bytes: [u8; 8],
    /// 1 to 8.
    pub(crate) len: usize,
}

impl ShortNumber {
    #[inline]
    pub(crate) fn new(hint: Option<u8>, value: u64, len: usize) -> Self {
        Self { hint, bytes: (value << (64 - 8 * len)).to_be_bytes(), len }
    }

    #[inline]
    pub(crate) fn uint(value: u64) -> Self {
        Self::new(None, value, uint_len(value))
    }

    #[inline]
    pub(crate) fn int(value: i64) -> Self {
        Self::new(None, value as u64, int_len(value))
    }

    /// Up to eight bytes that are encoded already.
    #[inline]
    pub(crate) const fn encoded(bytes: [u8; 8], len: usize) -> Self {
        Self { hint: None, bytes, len }
    }
}
