//! The vocabulary of the wire: a bounds-checked cursor over received bytes and one over the caller's output buffer.
//!
//! Everything is big-endian. Lengths come in four codings:
//!
//! | coding | one byte | more |
//! |---|---|---|
//! | `rb15` (reserved bit) | below 0x80 | two bytes, `0x8000 or n` |
//! | `ob16` (one byte) | below 0xFE | `FE` and two bytes |
//! | `u30` (two prefix bits) | prefix 00 | prefix 10: two, 01: three, 11: four bytes |
//! | `buf8` | any | - |
//!
//! A length need not be minimal; readers accept every form. Writers write the shortest form unless told otherwise
//! ([`LenForm`]).

mod growing;
mod short_number;

use crate::{DecodeError, EncodeError};

pub use growing::encode_growing;
pub(crate) use short_number::{ShortNumber, int_len, uint_len};

/// Largest value of the `rb15` coding.
pub const RB15_MAX: usize = 0x7FFF;
/// Largest value of the `ob16` coding.
pub const OB16_MAX: usize = 0xFFFF;
/// Largest value of the `u30` coding.
pub const U30_MAX: u32 = 0x3FFF_FFFF;

/// First byte of an `ob16` that is followed by two more.
pub(crate) const OB16_LONG: u8 = 0xFE;

/// A cursor over received bytes. Each read either succeeds and advances, or fails and leaves the cursor where it was.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// The offset that the end of `rest` has.
    end: usize,
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// A cursor at the start of `bytes`. `what` names what is being read, for errors.
    #[inline]
    pub const fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, end: bytes.len(), what }
    }

    /// A cursor at the start of `bytes`, whose offsets count from `base` bytes before it.
    #[inline]
    pub const fn with_base(bytes: &'a [u8], base: usize, what: &'static str) -> Self {
        Self { rest: bytes, end: base + bytes.len(), what }
    }

    /// Names what is read next, for errors; costs nothing on the way of success.
    #[inline]
    pub const fn reading(&mut self, what: &'static str) -> &mut Self {
        self.what = what;
        self
    }

    /// Bytes read so far, and the base if there is one.
    #[inline]
    pub const fn offset(&self) -> usize {
        self.end - self.rest.len()
    }

    /// Bytes left.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// True if nothing is left.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The bytes not read yet.
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The error for bytes that end here.
    // Inlined down to plain arguments of a cold function: a call that takes `self` would keep the cursor in memory on
    // the way of success, too.
    #[inline]
    pub const fn truncated(&self) -> DecodeError {
        DecodeError::truncated(self.what, self.offset())
    }

    /// The error for bytes that make no sense here.
    #[inline]
    pub const fn invalid(&self) -> DecodeError {
        DecodeError::invalid(self.what, self.offset())
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// Truncated if fewer are left.
    #[inline]
    pub const fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], DecodeError> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(self.truncated()),
        }
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// Truncated if fewer are left.
    #[inline]
    pub const fn bytes(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(len) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(self.truncated()),
        }
    }

    /// One byte.
    ///
    /// # Errors
    /// Truncated.
    #[inline]
    pub const fn u8(&mut self) -> Result<u8, DecodeError> {
        match self.rest.split_first() {
            Some((&head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(self.truncated()),
        }
    }

    /// Two bytes, unsigned.
    ///
    /// # Errors
    /// Truncated.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(|b| u16::from_be_bytes(*b))
    }

    /// Two bytes, signed.
    ///
    /// # Errors
    /// Truncated.
    #[inline]
    pub fn i16(&mut self) -> Result<i16, DecodeError> {
        self.array().map(|b| i16::from_be_bytes(*b))
    }

    /// Four bytes, unsigned.
    ///
    /// # Errors
    /// Truncated.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(|b| u32::from_be_bytes(*b))
    }

    /// Four bytes, signed.
    ///
    /// # Errors
    /// Truncated.
    #[inline]
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.array().map(|b| i32::from_be_bytes(*b))
    }

    /// Eight bytes, unsigned.
    ///
    /// # Errors
    /// Truncated.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(|b| u64::from_be_bytes(*b))
    }

    /// A number in the `rb15` coding.
    ///
    /// # Errors
    /// Truncated.
    #[inline]
    pub const fn rb15(&mut self) -> Result<u16, DecodeError> {
        match *self.rest {
            [b, ref tail @ ..] if b < 0x80 => {
                self.rest = tail;
                Ok(b as u16)
            }
            [hi, lo, ref tail @ ..] => {
                self.rest = tail;
                Ok(u16::from_be_bytes([hi & 0x7F, lo]))
            }
            _ => Err(self.truncated()),
        }
    }

    /// A number in the `ob16` coding. As ETA does, 0xFF alone is read as 255.
    ///
    /// # Errors
    /// Truncated.
    #[inline]
    pub const fn ob16(&mut self) -> Result<u16, DecodeError> {
        match *self.rest {
            [b, ref tail @ ..] if b != OB16_LONG => {
                self.rest = tail;
                Ok(b as u16)
            }
            [_, hi, lo, ref tail @ ..] => {
                self.rest = tail;
                Ok(u16::from_be_bytes([hi, lo]))
            }
            _ => Err(self.truncated()),
        }
    }

    /// A number in the `u30` coding.
    ///
    /// # Errors
    /// Truncated.
    #[inline]
    pub const fn u30(&mut self) -> Result<u32, DecodeError> {
        let (value, tail) = match *self.rest {
            [a, ref tail @ ..] if a < 0x40 => (a as u32, tail),
            [a, b, ref tail @ ..] if a & 0xC0 == 0x80 => (u32::from_be_bytes([0, 0, a & 0x3F, b]), tail),
            [a, b, c, ref tail @ ..] if a & 0xC0 == 0x40 => (u32::from_be_bytes([0, a & 0x3F, b, c]), tail),
            [a, b, c, d, ref tail @ ..] if a & 0xC0 == 0xC0 => (u32::from_be_bytes([a & 0x3F, b, c, d]), tail),
            _ => return Err(self.truncated()),
        };
        self.rest = tail;
        Ok(value)
    }

    /// Bytes with a one-byte length before them.
    ///
    /// # Errors
    /// Truncated.
    #[inline]
    pub const fn buf8(&mut self) -> Result<&'a [u8], DecodeError> {
        let start = self.rest;
        match self.u8() {
            Ok(len) => self.body(start, len as usize),
            Err(e) => Err(e),
        }
    }

    /// Bytes with an `rb15` length before them.
    ///
    /// # Errors
    /// Truncated.
    #[inline]
    pub const fn buf15(&mut self) -> Result<&'a [u8], DecodeError> {
        let start = self.rest;
        match self.rb15() {
            Ok(len) => self.body(start, len as usize),
            Err(e) => Err(e),
        }
    }

    /// Bytes with an `ob16` length before them.
    ///
    /// # Errors
    /// Truncated.
    #[inline]
    pub const fn buf16(&mut self) -> Result<&'a [u8], DecodeError> {
        let start = self.rest;
        match self.ob16() {
            Ok(len) => self.body(start, len as usize),
            Err(e) => Err(e),
        }
    }

    /// The `len` bytes after a length that has just been read; on failure the length is unread.
    #[inline]
    const fn body(&mut self, start: &'a [u8], len: usize) -> Result<&'a [u8], DecodeError> {
        if let Some((head, tail)) = self.rest.split_at_checked(len) {
            self.rest = tail;
            Ok(head)
        } else {
            self.rest = start;
            Err(self.truncated())
        }
    }
}

/// Which form a length takes that is written before its content is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LenForm {
    /// The shortest form. One byte is reserved; content that turns out longer is moved up when it is finished.
    #[default]
    Shortest,
    /// The longest form, whatever the content: nothing is ever moved. What ETA writes when it is given no size hint.
    Long,
}

/// A place where a length will be patched in. Made by `Writer::begin_*`, consumed by the matching `Writer::end_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a length that was begun has to be ended"]
pub struct Mark {
    position: usize,
    form: LenForm,
}

impl Mark {
    /// Where the length was reserved.
    pub const fn position(&self) -> usize {
        self.position
    }
}

/// A cursor over the caller's output buffer. Each write either succeeds or reports
/// [`BufferFull`](EncodeError::BufferFull) without writing anything.
#[derive(Debug)]
pub struct Writer<'b> {
    buf: &'b mut [u8],
    position: usize,
}

impl<'b> Writer<'b> {
    /// A cursor at the start of `buf`.
    #[inline]
    pub const fn new(buf: &'b mut [u8]) -> Self {
        Self { buf, position: 0 }
    }

    /// Bytes written so far.
    #[inline]
    pub const fn position(&self) -> usize {
        self.position
    }

    /// Bytes that still fit.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.buf.len() - self.position
    }

    /// What has been written.
    #[inline]
    pub fn written(&self) -> &[u8] {
        &self.buf[..self.position]
    }

    /// Ends the cursor and gives what has been written, for as long as the buffer lives.
    #[inline]
    pub fn into_written(self) -> &'b mut [u8] {
        &mut self.buf[..self.position]
    }

    /// Forgets everything written after `position`, for example an entry that did not fit. A later position is ignored.
    #[inline]
    pub fn rollback(&mut self, position: usize) {
        self.position = self.position.min(position);
    }

    /// Writes `N` bytes.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    #[inline]
    pub fn array<const N: usize>(&mut self, bytes: [u8; N]) -> Result<(), EncodeError> {
        let Some(room) = self.buf.get_mut(self.position..).and_then(<[u8]>::first_chunk_mut) else {
            return Err(EncodeError::BufferFull);
        };
        *room = bytes;
        self.position += N;
        Ok(())
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        let Some(room) = self.buf.get_mut(self.position..).and_then(|b| b.get_mut(..bytes.len())) else {
            return Err(EncodeError::BufferFull);
        };
        room.copy_from_slice(bytes);
        self.position += bytes.len();
        Ok(())
    }

    /// Writes the first `len` bytes of `bytes`. What lies in the buffer after them is unspecified: where there is room, all
    /// of them are stored at once, which is much less work than a copy of unknown length.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    ///
    /// # Panics
    /// `len` is more than there are.
    #[inline]
    pub fn short<const N: usize>(&mut self, bytes: [u8; N], len: usize) -> Result<(), EncodeError> {
        assert!(len <= N);
        let Some(room) = self.buf.get_mut(self.position..).and_then(<[u8]>::first_chunk_mut) else {
            return self.bytes(&bytes[..len]);
        };
        *room = bytes;
        self.position += len;
        Ok(())
    }

    /// Writes the first `len` bytes of each of two arrays, one after the other: [`Writer::short`] for both with one check.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    ///
    /// # Panics
    /// A length is more than there are.
    #[inline]
    pub fn short_pair(&mut self, first: ([u8; 8], usize), second: ([u8; 8], usize)) -> Result<(), EncodeError> {
        assert!(first.1 <= 8 && second.1 <= 8);
        let Some(room) = self.buf.get_mut(self.position..).and_then(<[u8]>::first_chunk_mut::<16>) else {
            return self.last_pair(first, second);
        };
        room[..8].copy_from_slice(&first.0);
        room[first.1..first.1 + 8].copy_from_slice(&second.0);
        self.position += first.1 + second.1;
        Ok(())
    }

    /// The same where there may be room for both and not for what lies behind them.
    #[inline(never)]
    fn last_pair(&mut self, first: ([u8; 8], usize), second: ([u8; 8], usize)) -> Result<(), EncodeError> {
        if self.remaining() < first.1 + second.1 {
            return Err(EncodeError::BufferFull);
        }
        self.bytes(&first.0[..first.1])?;
        self.bytes(&second.0[..second.1])
    }

    /// Writes a number with its length byte, and hint byte if it has one.
    #[inline]
    pub(crate) fn short_number(&mut self, number: &ShortNumber) -> Result<(), EncodeError> {
        match number.hint {
            Some(hint) => self.array([number.len as u8 + 1, hint])?,
            None => self.u8(number.len as u8)?,
        }
        self.short(number.bytes, number.len)
    }

    /// Writes a field id and a number, if there is room for the longest form: one check and two stores. False, and nothing written, if
    /// there is not.
    #[inline]
    pub(crate) fn numbered(&mut self, fid: i16, number: &ShortNumber) -> bool {
        let Some(room) = self.buf.get_mut(self.position..self.position + 12) else { return false };
        let [a, b] = fid.to_be_bytes();
        let len = number.len as u8;
        let head = if let Some(hint) = number.hint {
            room[..4].copy_from_slice(&[a, b, len + 1, hint]);
            4
        } else {
            room[..3].copy_from_slice(&[a, b, len]);
            3
        };
        room[head..head + 8].copy_from_slice(&number.bytes);
        self.position += head + number.len;
        true
    }

    /// Writes `count` zero bytes.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    #[inline]
    pub fn zeros(&mut self, count: usize) -> Result<(), EncodeError> {
        let Some(room) = self.buf.get_mut(self.position..).and_then(|b| b.get_mut(..count)) else {
            return Err(EncodeError::BufferFull);
        };
        room.fill(0);
        self.position += count;
        Ok(())
    }

    /// Writes one byte.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    #[inline]
    pub fn u8(&mut self, value: u8) -> Result<(), EncodeError> {
        self.array([value])
    }

    /// Writes two bytes.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    #[inline]
    pub fn u16(&mut self, value: u16) -> Result<(), EncodeError> {
        self.array(value.to_be_bytes())
    }

    /// Writes two bytes, signed.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    #[inline]
    pub fn i16(&mut self, value: i16) -> Result<(), EncodeError> {
        self.array(value.to_be_bytes())
    }

    /// Writes four bytes.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    #[inline]
    pub fn u32(&mut self, value: u32) -> Result<(), EncodeError> {
        self.array(value.to_be_bytes())
    }

    /// Writes four bytes, signed.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    #[inline]
    pub fn i32(&mut self, value: i32) -> Result<(), EncodeError> {
        self.array(value.to_be_bytes())
    }

    /// Writes a number in the `rb15` coding.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::TooLong`] over [`RB15_MAX`].
    #[inline]
    pub fn rb15(&mut self, value: usize) -> Result<(), EncodeError> {
        if value < 0x80 { self.u8(value as u8) } else { self.rb15_long(value) }
    }

    /// Writes a number in the two-byte form of the `rb15` coding.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::TooLong`] over [`RB15_MAX`].
    #[inline]
    pub fn rb15_long(&mut self, value: usize) -> Result<(), EncodeError> {
        self.u16(0x8000 | fits("15-bit length", value, RB15_MAX)?)
    }

    /// Writes a number in the `ob16` coding.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::TooLong`] over [`OB16_MAX`].
    #[inline]
    pub fn ob16(&mut self, value: usize) -> Result<(), EncodeError> {
        if value < OB16_LONG as usize { self.u8(value as u8) } else { self.ob16_long(value) }
    }

    /// Writes a number in the three-byte form of the `ob16` coding.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::TooLong`] over [`OB16_MAX`].
    #[inline]
    pub fn ob16_long(&mut self, value: usize) -> Result<(), EncodeError> {
        let [hi, lo] = fits("16-bit length", value, OB16_MAX)?.to_be_bytes();
        self.array([OB16_LONG, hi, lo])
    }

    /// Writes a number in the `u30` coding.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::TooLong`] over [`U30_MAX`].
    #[inline]
    pub fn u30(&mut self, value: u32) -> Result<(), EncodeError> {
        let [a, b, c, d] = value.to_be_bytes();
        match value {
            0..=0x3F => self.array([d]),
            0x40..=0x3FFF => self.array([c | 0x80, d]),
            0x4000..=0x3F_FFFF => self.array([b | 0x40, c, d]),
            0x40_0000..=U30_MAX => self.array([a | 0xC0, b, c, d]),
            _ => Err(EncodeError::TooLong { what: "30-bit number", len: value as usize, max: U30_MAX as usize }),
        }
    }

    /// Writes bytes with a one-byte length before them.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::TooLong`] over 255.
    #[inline]
    pub fn buf8(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        let len = fits("8-bit length", bytes.len(), 0xFF)?;
        self.room_for(1 + bytes.len())?;
        self.u8(len as u8)?;
        self.bytes(bytes)
    }

    /// Writes bytes with an `rb15` length before them.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::TooLong`] over [`RB15_MAX`].
    #[inline]
    pub fn buf15(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.room_for(bytes.len() + if bytes.len() < 0x80 { 1 } else { 2 })?;
        self.rb15(bytes.len())?;
        self.bytes(bytes)
    }

    /// Writes bytes with an `ob16` length before them.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::TooLong`] over [`OB16_MAX`].
    #[inline]
    pub fn buf16(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.room_for(bytes.len() + if bytes.len() < OB16_LONG as usize { 1 } else { 3 })?;
        self.ob16(bytes.len())?;
        self.bytes(bytes)
    }

    /// Reserves an `ob16` length; what is written from here to [`Writer::end_ob16`] is its content.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    #[inline]
    pub fn begin_ob16(&mut self, form: LenForm) -> Result<Mark, EncodeError> {
        self.reserve(form, 3)
    }

    /// Patches the length reserved by [`Writer::begin_ob16`].
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] if the content is over [`OB16_MAX`]; [`EncodeError::BufferFull`] if it has to be moved
    /// up and there is no room.
    #[inline]
    pub fn end_ob16(&mut self, mark: Mark) -> Result<(), EncodeError> {
        let Mark { position, form } = mark;
        if form == LenForm::Shortest {
            let len = self.position - position - 1;
            if len < OB16_LONG as usize {
                self.buf[position] = len as u8;
                return Ok(());
            }
            fits("16-bit length", len, OB16_MAX)?;
            self.move_up(position + 1, 2)?;
        }
        let [hi, lo] = fits("16-bit length", self.position - position - 3, OB16_MAX)?.to_be_bytes();
        self.buf[position..position + 3].copy_from_slice(&[OB16_LONG, hi, lo]);
        Ok(())
    }

    /// Reserves an `rb15` length; what is written from here to [`Writer::end_rb15`] is its content.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    #[inline]
    pub fn begin_rb15(&mut self, form: LenForm) -> Result<Mark, EncodeError> {
        self.reserve(form, 2)
    }

    /// Patches the length reserved by [`Writer::begin_rb15`].
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] if the content is over [`RB15_MAX`]; [`EncodeError::BufferFull`] if it has to be moved
    /// up and there is no room.
    #[inline]
    pub fn end_rb15(&mut self, mark: Mark) -> Result<(), EncodeError> {
        let Mark { position, form } = mark;
        if form == LenForm::Shortest {
            let len = self.position - position - 1;
            if len < 0x80 {
                self.buf[position] = len as u8;
                return Ok(());
            }
            fits("15-bit length", len, RB15_MAX)?;
            self.move_up(position + 1, 1)?;
        }
        let len = 0x8000 | fits("15-bit length", self.position - position - 2, RB15_MAX)?;
        self.patch_u16(position, len);
        Ok(())
    }

    /// Reserves two bytes for [`Writer::patch_u16`] and gives their position.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    #[inline]
    pub fn reserve_u16(&mut self) -> Result<usize, EncodeError> {
        let position = self.position;
        self.u16(0)?;
        Ok(position)
    }

    /// Overwrites two bytes that were written before.
    ///
    /// # Panics
    /// If they were not.
    #[inline]
    pub fn patch_u16(&mut self, position: usize, value: u16) {
        self.buf[..self.position][position..position + 2].copy_from_slice(&value.to_be_bytes());
    }

    /// Overwrites one byte that was written before.
    ///
    /// # Panics
    /// If it was not.
    #[inline]
    pub fn patch_u8(&mut self, position: usize, value: u8) {
        self.buf[..self.position][position] = value;
    }

    #[inline]
    fn reserve(&mut self, form: LenForm, long: usize) -> Result<Mark, EncodeError> {
        let position = self.position;
        self.zeros(if form == LenForm::Long { long } else { 1 })?;
        Ok(Mark { position, form })
    }

    #[inline]
    fn room_for(&self, len: usize) -> Result<(), EncodeError> {
        if len <= self.remaining() { Ok(()) } else { Err(EncodeError::BufferFull) }
    }

    /// Moves what lies from `from` to the end up by `by` bytes.
    #[inline(never)]
    fn move_up(&mut self, from: usize, by: usize) -> Result<(), EncodeError> {
        self.room_for(by)?;
        self.buf.copy_within(from..self.position, from + by);
        self.position += by;
        Ok(())
    }
}

/// `len` as 16 bits, if it is within `max`.
#[inline]
fn fits(what: &'static str, len: usize, max: usize) -> Result<u16, EncodeError> {
    if len <= max { Ok(len as u16) } else { Err(EncodeError::TooLong { what, len, max }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn prefix_codings_at_their_limits() {
        let cases: &[(u32, &[u8])] = &[
            (0, &[0]),
            (0x3F, &[0x3F]),
            (0x40, &[0x80, 0x40]),
            (0x3FFF, &[0xBF, 0xFF]),
            (0x4000, &[0x40, 0x40, 0]),
            (0x3F_FFFF, &[0x7F, 0xFF, 0xFF]),
            (0x40_0000, &[0xC0, 0x40, 0, 0]),
            (U30_MAX, &[0xFF; 4]),
        ];
        for &(value, bytes) in cases {
            let mut buf = [0; 4];
            let mut w = Writer::new(&mut buf);
            w.u30(value).unwrap();
            assert_eq!(w.written(), bytes, "{value:#x}");
            assert_eq!(Reader::new(bytes, "").u30(), Ok(value));
        }
        assert!(Writer::new(&mut [0; 8]).u30(U30_MAX + 1).is_err());
    }

    #[test]
    fn a_failed_read_does_not_advance() {
        let mut r = Reader::new(&[0xFE, 0x01], "length");
        assert!(r.ob16().unwrap_err().is_truncated());
        assert!(r.u30().unwrap_err().is_truncated());
        assert_eq!(r.offset(), 0);
        let mut r = Reader::new(&[5, 1, 2], "name");
        assert_eq!(r.buf8(), Err(DecodeError::truncated("name", 0)));
        assert_eq!(r.offset(), 0);
    }

    #[test]
    fn a_failed_write_writes_nothing() {
        let mut buf = [0; 3];
        let mut w = Writer::new(&mut buf);
        w.u8(1).unwrap();
        assert_eq!(w.buf8(&[1, 2]), Err(EncodeError::BufferFull));
        assert_eq!(w.u32(1), Err(EncodeError::BufferFull));
        assert_eq!(w.written(), [1]);
        assert_eq!(w.rb15_long(0x8000), Err(EncodeError::TooLong { what: "15-bit length", len: 0x8000, max: 0x7FFF }));
    }

    #[test]
    fn a_pair_is_written_whole_or_not_at_all() {
        for room in 0..20 {
            let mut buf = [0; 20];
            let mut w = Writer::new(&mut buf[..room]);
            let written = w.short_pair((*b"abcdefgh", 3), (*b"ijklmnop", 8));
            let expected: (_, &[u8]) =
                if room >= 11 { (Ok(()), b"abcijklmnop") } else { (Err(EncodeError::BufferFull), b"") };
            assert_eq!((written, w.written()), expected, "{room}");
        }
    }

    proptest! {
        #[test]
        fn lengths_come_back(value in 0u16.., form in any::<bool>()) {
            let mut buf = [0; 3];
            let mut w = Writer::new(&mut buf);
            if form { w.ob16(value.into()) } else { w.ob16_long(value.into()) }.unwrap();
            prop_assert_eq!(Reader::new(w.written(), "").ob16(), Ok(value));
            let mut w = Writer::new(&mut buf);
            let value = value & 0x7FFF;
            if form { w.rb15(value.into()) } else { w.rb15_long(value.into()) }.unwrap();
            prop_assert_eq!(Reader::new(w.written(), "").rb15(), Ok(value));
        }

        #[test]
        fn patched_lengths_equal_written_ones(len in 0usize..70_000, long in any::<bool>()) {
            let body = vec![7; len];
            let (mut a, mut b) = (vec![0; len + 3], vec![0; len + 3]);
            let form = if long { LenForm::Long } else { LenForm::Shortest };
            let (mut patched, mut written) = (Writer::new(&mut a), Writer::new(&mut b));
            let mark = patched.begin_ob16(form).unwrap();
            patched.bytes(&body).unwrap();
            let ended = patched.end_ob16(mark);
            let direct = match form {
                LenForm::Shortest => written.buf16(&body),
                LenForm::Long => written.ob16_long(len).and_then(|()| written.bytes(&body)),
            };
            prop_assert_eq!(ended, direct);
            if ended.is_ok() {
                prop_assert_eq!(patched.written(), written.written());
            }
        }
    }
}
