//! Numbers as they stand in a recording: little-endian where the length is fixed, else seven bits a byte, the lowest first.

/// Bytes of the longest varint.
const VARINT_MAX: usize = 10;

/// Appends a number, seven bits a byte.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A signed number as an unsigned one, small where it is near 0.
#[inline]
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Undoes [`zigzag`].
#[inline]
pub(crate) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The CRC-32 of IEEE 802.3 over several pieces.
pub(crate) fn checksum(pieces: &[&[u8]]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    for piece in pieces {
        crc.update(piece);
    }
    crc.finalize()
}

/// Bytes that are read from the front. What is not there is `None`, never a panic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What was not read.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) const fn len(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(bytes)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*bytes)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Option<u64> {
        // Most are of one byte.
        if let Some((&byte, rest)) = self.rest.split_first()
            && byte < 0x80
        {
            self.rest = rest;
            return Some(u64::from(byte));
        }
        let mut value = 0;
        for at in 0..VARINT_MAX {
            let byte = self.u8()?;
            // The tenth byte has room for the highest bit alone.
            if at == VARINT_MAX - 1 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7F) << (7 * at);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Passes over so many varints: each ends with the first byte below 128.
    pub(crate) fn skip_varints(&mut self, mut count: usize) -> Option<()> {
        const HIGH: u64 = 0x8080_8080_8080_8080;
        while count >= 8
            && let Some((bytes, rest)) = self.rest.split_first_chunk::<8>()
        {
            count -= (!u64::from_le_bytes(*bytes) & HIGH).count_ones() as usize;
            self.rest = rest;
        }
        for _ in 0..count {
            let end = self.rest.iter().position(|byte| *byte < 0x80)?;
            self.rest = &self.rest[end + 1..];
        }
        Some(())
    }

    /// A number that counts something in memory.
    #[inline]
    pub(crate) fn count(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }

    /// Bytes behind their length.
    #[inline]
    pub(crate) fn counted(&mut self) -> Option<&'a [u8]> {
        let count = self.count()?;
        self.bytes(count)
    }
}

/// Appends bytes behind their length.
#[inline]
pub(crate) fn put_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1]).chain([u64::MAX]) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(Input::new(&out).varint(), Some(value));
            assert_eq!(Input::new(&out[..out.len() - 1]).varint(), None, "{value} is cut");
            assert_eq!(zigzag(unzigzag(value)), value);
        }
        assert_eq!([0, -1, 1, -2].map(zigzag), [0, 1, 2, 3]);
    }

    #[test]
    fn numbers_are_passed_over_as_they_are_read() {
        let mut out = Vec::new();
        let values: Vec<u64> = (0..100).map(|n| 1u64 << (n * 7 % 64)).collect();
        for value in &values {
            put_varint(&mut out, *value);
        }
        for (at, value) in values.iter().enumerate() {
            let mut input = Input::new(&out);
            assert_eq!(input.skip_varints(at), Some(()));
            assert_eq!(input.varint(), Some(*value), "behind {at}");
        }
        assert_eq!(Input::new(&out).skip_varints(101), None);
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_none() {
        assert_eq!(Input::new(&[0xFF; 11]).varint(), None);
        assert_eq!(Input::new(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2]).varint(), None);
    }
}
