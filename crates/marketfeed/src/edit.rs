//! Partial edits: a value can hold movements and repetitions instead of plain text.
//!
//! `ESC [ n` and a grave accent goes to byte `n` of the field, `ESC [ n b` repeats the character before it `n` times. Any other escape is two
//! bytes of text (`ESC % 0`, which begins UTF-8, three). All this is as ETA's `RMTESApplyToCache` has it, faults included, so that a field
//! looks here as it does at every receiver. The one-byte introducer 0x9B is read as well where an edit follows, as other readers of Marketfeed
//! do; the library takes it for text, and so do we behind `ESC % 0`, where it is a part of characters.

use thiserror::Error;

const ESC: u8 = 0x1B;
const CSI: u8 = 0x9B;
/// Begins UTF-8.
const UTF8: &[u8] = b"\x1B%0";

/// A value that is not applied whole: what stands in front of the fault is written where the field had bytes, and the field is not longer than it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EditError {
    /// The sequence ends early or is not known.
    #[error("byte {0} of the value begins an escape sequence that is cut off or unknown")]
    BadSequence(usize),
    /// The value would grow beyond its room.
    #[error("the value needs byte {needed} of a field of {capacity}")]
    NoRoom {
        /// Bytes the value would have.
        needed: usize,
        /// Bytes it may have.
        capacity: usize,
    },
}

/// Whether the value holds edits, in front of any sequence that is wrong.
pub fn has_edit(value: &[u8]) -> bool {
    let mut steps = Steps::of(value, false).map_while(Result::ok);
    steps.any(|step| matches!(step, Step::Move(_) | Step::Repeat(_)))
}

enum Step<'a> {
    Byte(u8),
    /// An escape sequence that is text: it stands or falls as a whole, and is nothing to repeat.
    Escape(&'a [u8]),
    Move(usize),
    Repeat(usize),
}

struct Steps<'a> {
    value: &'a [u8],
    at: usize,
    /// Whether 0x9B is a part of characters.
    is_utf8: bool,
}

impl<'a> Steps<'a> {
    const fn of(value: &'a [u8], is_utf8: bool) -> Self {
        Self { value, at: 0, is_utf8 }
    }

    /// The edit whose number begins at `digits` of the rest, and where it ends; `None` if it is cut off or unknown.
    fn edit(rest: &[u8], digits: usize) -> Option<(Step<'a>, usize)> {
        let len = rest[digits..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = rest[digits..digits + len]
            .iter()
            .fold(0usize, |n, digit| n.saturating_mul(10).saturating_add(usize::from(digit - b'0')));
        let step = match rest.get(digits + len)? {
            b'`' => Step::Move(number),
            b'b' => Step::Repeat(number),
            _ => return None,
        };
        Some((step, digits + len + 1))
    }
}

impl<'a> Iterator for Steps<'a> {
    type Item = Result<Step<'a>, EditError>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        let rest = &self.value[start..];
        let step = match rest {
            [] => return None,
            [ESC, b'[', ..] => Self::edit(rest, 2),
            [ESC, b'%', ..] => rest.starts_with(UTF8).then(|| {
                self.is_utf8 = true;
                (Step::Escape(&rest[..UTF8.len()]), UTF8.len())
            }),
            [ESC] => None,
            [ESC, _, ..] => Some((Step::Escape(&rest[..2]), 2)),
            [CSI, ..] if !self.is_utf8 => Self::edit(rest, 1).or(Some((Step::Byte(CSI), 1))),
            [byte, ..] => Some((Step::Byte(*byte), 1)),
        };
        let Some((step, len)) = step else {
            self.at = self.value.len();
            return Some(Err(EditError::BadSequence(start)));
        };
        self.at += len;
        Some(Ok(step))
    }
}

/// The value of a field, to which edits are applied. Edits count in bytes, before any character set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldCache {
    /// Bytes that were written; behind the value, too, where gaps are not filled.
    bytes: Vec<u8>,
    len: usize,
    capacity: usize,
    gaps: Gaps,
}

/// Filling of a gap before an edit, and where a value repeats a character that it does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gaps {
    Blanks,
    /// Bytes that a longer value had there before, else zero bytes.
    AsLeft,
}

impl Gaps {
    const fn filler(self) -> u8 {
        match self {
            Self::Blanks => b' ',
            Self::AsLeft => 0,
        }
    }
}

impl FieldCache {
    /// An empty value of at most `capacity` bytes, whose gaps are blanks.
    pub const fn new(capacity: usize) -> Self {
        Self { bytes: Vec::new(), len: 0, capacity, gaps: Gaps::Blanks }
    }

    /// As [`FieldCache::new`], with what the RWF library leaves in gaps: zero bytes, or what a longer value had there.
    pub const fn with_zeros(capacity: usize) -> Self {
        Self { bytes: Vec::new(), len: 0, capacity, gaps: Gaps::AsLeft }
    }

    /// The value, without edits.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Takes in a value: plain text replaces the whole, edits change their part. An empty value ("blank") changes nothing,
    /// as with the RWF library; gives whether anything could have changed.
    ///
    /// # Errors
    /// [`EditError`], which says what the value is then.
    pub fn apply(&mut self, value: &[u8]) -> Result<bool, EditError> {
        if value.is_empty() {
            return Ok(false);
        }
        let written = self.write(value);
        match written {
            Ok((end, true)) => self.len = self.len.max(end),
            Ok((end, false)) => self.len = end,
            Err(_) => {}
        }
        if self.gaps == Gaps::Blanks || self.bytes.len() < self.len {
            self.bytes.resize(self.len, self.gaps.filler());
        }
        written.map(|_| true)
    }

    /// Writes a value from byte 0 on. Gives the furthest place to which it came, and whether there are edits in it.
    fn write(&mut self, value: &[u8]) -> Result<(usize, bool), EditError> {
        let is_utf8 = self.bytes().starts_with(UTF8);
        let (mut at, mut end, mut last, mut is_edit) = (0usize, 0, self.gaps.filler(), false);
        for step in Steps::of(value, is_utf8) {
            match step? {
                Step::Byte(byte) => {
                    self.put(&mut at, &[byte])?;
                    last = byte;
                }
                Step::Escape(bytes) => self.put(&mut at, bytes)?,
                Step::Move(to) => {
                    self.make_room(to)?;
                    (at, is_edit) = (to, true);
                }
                Step::Repeat(times) => {
                    self.make_room(at.saturating_add(times))?;
                    self.bytes[at..at + times].fill(last);
                    (at, is_edit) = (at + times, true);
                }
            }
            end = end.max(at);
        }
        Ok((end, is_edit))
    }

    fn put(&mut self, at: &mut usize, bytes: &[u8]) -> Result<(), EditError> {
        let end = *at + bytes.len();
        self.make_room(end)?;
        self.bytes[*at..end].copy_from_slice(bytes);
        *at = end;
        Ok(())
    }

    /// Bytes up to a place, if the field may have them.
    fn make_room(&mut self, end: usize) -> Result<(), EditError> {
        if end > self.capacity {
            return Err(EditError::NoRoom { needed: end, capacity: self.capacity });
        }
        if end > self.bytes.len() {
            self.bytes.resize(end, self.gaps.filler());
        }
        Ok(())
    }
}
