//! The entries of plain field lists, for loops that read all values of all updates.

use rwf::container::ListFlags;
use rwf::{DataType, FieldEntry, Real, RealHint, Time};

/// The entries of a list that has standard data alone, each with what follows it in the list. Ends before an entry whose length is in the long form, or that is
/// cut off: [`rwf::FieldList::entries`] has those, and says what is wrong.
#[derive(Clone, Debug)]
pub(crate) struct PlainEntries<'a> {
    /// The list. One place in it goes on from entry to entry: were it the rest of the list, two numbers would, for which loops over values have no registers.
    list: &'a [u8],
    at: usize,
    left: u16,
}

impl<'a> PlainEntries<'a> {
    /// The entries of a list's bytes; `None` if it is empty, or has set data or information.
    #[inline]
    pub(crate) const fn of(list: &'a [u8]) -> Option<Self> {
        match *list {
            [flags, hi, lo, ..] if flags == ListFlags::HAS_STANDARD_DATA.0 => {
                Some(Self { list, at: 3, left: u16::from_be_bytes([hi, lo]) })
            }
            _ => None,
        }
    }

    /// Whether all entries have been given.
    #[inline]
    pub(crate) const fn is_over(&self) -> bool {
        self.left == 0
    }
}

impl<'a> Iterator for PlainEntries<'a> {
    type Item = PlainEntry<'a>;

    #[allow(clippy::inline_always, reason = "measured: as a call, an entry goes through memory")]
    #[inline(always)]
    fn next(&mut self) -> Option<PlainEntry<'a>> {
        if self.left == 0 {
            return None;
        }
        let [hi, lo, len @ 0..0xFE, ref behind @ ..] = *self.list.get(self.at..)? else { return None };
        let (at, len) = (self.at + 3, usize::from(len));
        if len > behind.len() {
            return None;
        }
        self.at = at + len;
        self.left -= 1;
        Some(PlainEntry { fid: i16::from_be_bytes([hi, lo]), list: self.list, at, len })
    }
}

/// An entry of [`PlainEntries`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainEntry<'a> {
    /// Field id.
    pub(crate) fid: i16,
    list: &'a [u8],
    /// Where the value begins in the list.
    at: usize,
    /// INVARIANT: not more than the list has from there on.
    len: usize,
}

impl<'a> PlainEntry<'a> {
    /// The value's bytes; none for a blank.
    #[inline]
    pub(crate) fn data(&self) -> &'a [u8] {
        &self.list[self.at..self.at + self.len]
    }

    /// Whether the value is blank.
    #[inline]
    pub(crate) const fn is_blank(&self) -> bool {
        self.len == 0
    }

    /// As [`rwf::FieldList::entries`] has it.
    #[inline]
    pub(crate) fn entry(&self) -> FieldEntry<'a> {
        FieldEntry { fid: self.fid, enc: DataType::UNKNOWN, data: self.data() }
    }

    /// The value as an unsigned integer, read by one load whatever its length: for that, eight bytes of the list have to be left. `None`: it is blank, none, or
    /// too near to the end, and [`rwf::primitive::uint`] is to read it.
    #[inline]
    pub(crate) fn common_uint(&self) -> Option<u64> {
        let word = self.list[self.at..].first_chunk().filter(|_| matches!(self.len, 1..=8))?;
        Some(u64::from_be_bytes(*word) >> (64 - 8 * self.len))
    }

    /// The value as a real, in the same way: [`rwf::primitive::real`] is to read others.
    #[inline]
    pub(crate) fn common_real(&self) -> Option<Real> {
        let [hint, mantissa @ ..] = &self.list[self.at..] else { return None };
        let word = mantissa.first_chunk().filter(|_| matches!(self.len, 2..=9))?;
        let is_number = hint & 0x20 == 0 && hint & 0x1F != 0x1F;
        is_number.then(|| Real::new(i64::from_be_bytes(*word) >> (72 - 8 * self.len), RealHint(hint & 0x1F)))
    }

    /// The value as the number of an enumeration; `None`: it is blank, or none.
    #[inline]
    pub(crate) fn common_enumeration(&self) -> Option<u16> {
        match *self.data() {
            [a] => Some(u16::from(a)),
            [a, b] => Some(u16::from_be_bytes([a, b])),
            _ => None,
        }
    }

    /// The value as a time to the second or to the millisecond; [`rwf::primitive::time`] is to read others.
    #[inline]
    pub(crate) fn common_time(&self) -> Option<Time> {
        let (hour, minute, second, millisecond) = match *self.data() {
            [hour @ 0..=0xFE, minute, second] => (hour, minute, second, 0),
            [hour @ 0..=0xFE, minute, second, ms1, ms0] => (hour, minute, second, u16::from_be_bytes([ms1, ms0])),
            _ => return None,
        };
        Some(Time { hour, minute, second, millisecond, microsecond: 0, nanosecond: 0 })
    }
}
