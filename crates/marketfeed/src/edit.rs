//! Partial edits: a value can hold movements and repetitions instead of plain text.
//!
//! `ESC [ n` and a grave accent goes to byte `n` of the field, `ESC [ n b` repeats the character before it `n` times. The
//! one-byte introducer 0x9B is read as well, as other readers of Marketfeed do (the RWF library takes it for text).

use thiserror::Error;

const ESC: u8 = 0x1B;
const CSI: u8 = 0x9B;

/// An edit that is not applied; the value is as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EditError {
    /// The sequence ends early or is not known.
    #[error("byte {0} of the value begins an edit that is cut off or unknown")]
    BadSequence(usize),
    /// The value would grow beyond its room.
    #[error("the edit needs byte {needed} of a field of {capacity}")]
    NoRoom {
        /// Bytes the value would have.
        needed: usize,
        /// Bytes it may have.
        capacity: usize,
    },
}

/// Whether the value holds edits.
pub fn has_edit(value: &[u8]) -> bool {
    Steps { value, at: 0 }.any(|step| !matches!(step, Ok(Step::Byte(_))))
}

enum Step {
    Byte(u8),
    Move(usize),
    Repeat(usize),
}

struct Steps<'a> {
    value: &'a [u8],
    at: usize,
}

impl Iterator for Steps<'_> {
    type Item = Result<Step, EditError>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        let rest = &self.value[start..];
        let digits = match rest {
            [] => return None,
            [ESC, b'[', ..] => 2,
            [CSI, ..] => 1,
            [byte, ..] => {
                self.at += 1;
                return Some(Ok(Step::Byte(*byte)));
            }
        };
        let len = rest[digits..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = rest[digits..digits + len]
            .iter()
            .fold(0usize, |n, digit| n.saturating_mul(10).saturating_add(usize::from(digit - b'0')));
        let step = match rest.get(digits + len) {
            Some(b'`') => Step::Move(number),
            Some(b'b') => Step::Repeat(number),
            _ => {
                self.at = self.value.len();
                return Some(Err(EditError::BadSequence(start)));
            }
        };
        self.at += digits + len + 1;
        Some(Ok(step))
    }
}

/// The value of a field, to which edits are applied. Edits count in bytes, before any character set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldCache {
    bytes: Vec<u8>,
    capacity: usize,
    /// What fills a gap before an edit.
    filler: u8,
}

impl FieldCache {
    /// An empty value of at most `capacity` bytes, whose gaps are blanks.
    pub const fn new(capacity: usize) -> Self {
        Self { bytes: Vec::new(), capacity, filler: b' ' }
    }

    /// As [`FieldCache::new`], with zero bytes in gaps: what the RWF library leaves there.
    pub const fn with_zeros(capacity: usize) -> Self {
        Self { bytes: Vec::new(), capacity, filler: 0 }
    }

    /// The value, without edits.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes in a value: plain text replaces the whole, edits change their part. An empty value ("blank") changes nothing,
    /// as with the RWF library; gives whether anything could have changed.
    ///
    /// # Errors
    /// [`EditError`]; the value is as before then.
    pub fn apply(&mut self, value: &[u8]) -> Result<bool, EditError> {
        if value.is_empty() {
            return Ok(false);
        }
        let end = Self::measure(value)?;
        if end > self.capacity {
            return Err(EditError::NoRoom { needed: end, capacity: self.capacity });
        }
        if !has_edit(value) {
            self.bytes.clear();
            self.bytes.extend_from_slice(value);
            return Ok(true);
        }
        let (mut at, mut last) = (0, b' ');
        for step in (Steps { value, at: 0 }) {
            match step? {
                Step::Move(to) => at = to,
                Step::Byte(byte) => {
                    self.put(&mut at, byte);
                    last = byte;
                }
                Step::Repeat(times) => (0..times).for_each(|_| self.put(&mut at, last)),
            }
        }
        Ok(true)
    }

    /// One more than the last byte that the value writes.
    fn measure(value: &[u8]) -> Result<usize, EditError> {
        let (mut at, mut end) = (0usize, 0);
        for step in (Steps { value, at: 0 }) {
            match step? {
                // A movement alone writes nothing.
                Step::Move(to) => {
                    at = to;
                    continue;
                }
                Step::Repeat(0) => continue,
                Step::Byte(_) => at = at.saturating_add(1),
                Step::Repeat(times) => at = at.saturating_add(times),
            }
            end = end.max(at);
        }
        Ok(end)
    }

    fn put(&mut self, at: &mut usize, byte: u8) {
        if *at >= self.bytes.len() {
            self.bytes.resize(*at + 1, self.filler);
        }
        self.bytes[*at] = byte;
        *at += 1;
    }
}
