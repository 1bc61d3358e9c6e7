//! Reading Marketfeed messages.

use std::fmt;

use thiserror::Error;

use crate::words::{self, WORD};
use crate::{FS, GS, RS, US};

/// The number after the first byte of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordType(pub u16);

impl RecordType {
    /// An item is dropped.
    pub const DROP: Self = Self(308);
    /// The values of the end of a day.
    pub const CLOSING_RUN: Self = Self(312);
    /// An update.
    pub const UPDATE: Self = Self(316);
    /// A correction of an update.
    pub const CORRECTION: Self = Self(317);
    /// The image again.
    pub const VERIFY: Self = Self(318);
    /// The image.
    pub const IMAGE: Self = Self(340);
    /// The image of an item that is not watched.
    pub const SNAPSHOT: Self = Self(342);
    /// Several updates in one.
    pub const AGGREGATE: Self = Self(350);
    /// A status.
    pub const STATUS: Self = Self(407);

    /// Whether the header has a field list number and, before it, perhaps a status.
    pub(crate) const fn is_image(self) -> bool {
        matches!(self, Self::IMAGE | Self::SNAPSHOT | Self::VERIFY)
    }
}

impl fmt::Display for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Bytes that are no Marketfeed message; each with the offset where reading stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ParseError {
    /// The first or last byte is not FS.
    #[error("byte {0}: a message begins and ends with FS (0x1C)")]
    NotEnclosed(usize),
    /// FS within a message.
    #[error("byte {0}: FS (0x1C) within a message")]
    EarlyEnd(usize),
    /// No number of the type.
    #[error("byte {0}: no message type of up to five digits after FS")]
    NoType(usize),
    /// No item name.
    #[error("byte {0}: no item name (GS, 0x1D) in the header")]
    NoItem(usize),
    /// A header part that is no number where one has to be.
    #[error("byte {0}: a part of the header that is no number from 0 to 65535")]
    BadNumber(usize),
    /// A field without a number, or without a value.
    #[error("byte {0}: a field is RS, a number from -32768 to 32767, US, a value")]
    BadField(usize),
}

/// A Marketfeed message, borrowed from its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it is.
    pub record_type: RecordType,
    /// Once the tag of the request, today mostly `XX` or empty; `None`: without even its separator.
    pub tag: Option<&'a [u8]>,
    /// The item's name.
    pub item: &'a [u8],
    /// Of an image, its status (0: fine); of a verify message, 3 for a full one and 4 for a partial one.
    pub status: Option<&'a [u8]>,
    /// The number of the field list, as in RWF.
    pub field_list: Option<u16>,
    /// Record transaction level: counts the updates of the item.
    pub rtl: Option<u16>,
    /// Of an aggregate: how many updates it stands for.
    pub delta_rtl: Option<u16>,
    /// Of a status message: its code.
    pub code: Option<&'a [u8]>,
    /// Of a status message: its text.
    pub text: Option<&'a [u8]>,
    /// The fields as bytes: empty, or from the first RS to before the last FS.
    pub body: &'a [u8],
    /// Offset of the fields in the message, for errors.
    pub body_at: usize,
}

/// A field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// The field id; negative ones are a site's own.
    pub fid: i16,
    /// The value as text; empty: blank.
    pub value: &'a [u8],
}

/// Offset of the first separator (0x1C to 0x1F) at or after `from`; the length if there is none.
#[inline]
pub fn separator(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let offset = words::offset(u64::from_le_bytes(*word), 0xFC, 0x1C);
        if offset < WORD {
            return at + offset;
        }
        at += WORD;
    }
    while at < bytes.len() && bytes[at] & 0xFC != 0x1C {
        at += 1;
    }
    at
}

/// The parts of a header, one after the other.
struct Parts<'a> {
    bytes: &'a [u8],
    /// At a separator.
    at: usize,
}

impl<'a> Parts<'a> {
    /// The separator where the reader stands.
    fn mark(&self) -> u8 {
        self.bytes[self.at]
    }

    /// The part after the separator where the reader stands; the reader moves on to the next separator.
    fn take(&mut self) -> &'a [u8] {
        let start = self.at + 1;
        self.at = separator(self.bytes, start);
        &self.bytes[start..self.at]
    }

    /// The part after a certain separator, if the reader stands at one.
    fn take_after(&mut self, mark: u8) -> Option<&'a [u8]> {
        (self.mark() == mark).then(|| self.take())
    }

    fn number_after(&mut self, mark: u8) -> Result<Option<u16>, ParseError> {
        let at = self.at + 1;
        match self.take_after(mark) {
            // An empty part says nothing.
            None | Some([]) => Ok(None),
            Some(text) => number(text).map(Some).ok_or(ParseError::BadNumber(at)),
        }
    }
}

/// A number of up to five digits.
fn number(text: &[u8]) -> Option<u16> {
    let is_number = !text.is_empty() && text.len() <= 5 && text.iter().all(u8::is_ascii_digit);
    let number = || text.iter().fold(0u32, |number, digit| number * 10 + u32::from(digit - b'0'));
    is_number.then(number).and_then(|number| u16::try_from(number).ok())
}

impl<'a> Record<'a> {
    /// Reads the header of a message that `bytes` hold from FS to FS; fields are read by [`Record::fields`].
    /// Header parts that are not known are skipped.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let [FS, .., FS] = bytes else {
            return Err(ParseError::NotEnclosed(if bytes.first() == Some(&FS) { bytes.len().max(1) - 1 } else { 0 }));
        };
        let mut parts = Parts { bytes, at: 0 };
        let record_type = number(parts.take()).map(RecordType).ok_or(ParseError::NoType(1))?;
        let tag = parts.take_after(US);
        // Of some images, a number that nothing here needs.
        parts.take_after(RS);
        let Some(item) = parts.take_after(GS) else { return Err(ParseError::NoItem(parts.at)) };
        let mut record = Self { tag, ..Self::new(record_type, item) };
        record.header(&mut parts)?;
        record.body_at = parts.at;
        record.body = &bytes[parts.at..bytes.len() - 1];
        match separator_fs(bytes, parts.at) {
            end if end + 1 == bytes.len() => Ok(record),
            early => Err(ParseError::EarlyEnd(early)),
        }
    }

    /// The header after the item's name.
    fn header(&mut self, parts: &mut Parts<'a>) -> Result<(), ParseError> {
        match self.record_type {
            image if image.is_image() => {
                self.status = take_status(parts);
                self.field_list = parts.number_after(US)?;
                self.rtl = parts.number_after(US)?;
            }
            RecordType::STATUS => {
                self.rtl = parts.number_after(US)?;
                self.code = parts.take_after(GS);
                self.text = parts.take_after(RS);
            }
            RecordType::AGGREGATE => {
                let first = parts.number_after(US)?;
                let has_both = parts.mark() == US;
                let second = parts.number_after(US)?;
                (self.delta_rtl, self.rtl) = if has_both { (first, second) } else { (None, first) };
            }
            _ => self.rtl = parts.number_after(US)?,
        }
        while !matches!(parts.mark(), RS | FS) {
            parts.take();
        }
        Ok(())
    }

    /// The fields, in order. The iterator ends after the first error.
    #[inline]
    pub const fn fields(&self) -> Fields<'a> {
        Fields { rest: self.body, base: self.body_at }
    }
}

/// The first FS at or after an offset; the length if there is none.
fn separator_fs(bytes: &[u8], from: usize) -> usize {
    bytes.get(from..).and_then(|rest| memchr::memchr(FS, rest)).map_or(bytes.len(), |offset| from + offset)
}

/// The status of an image, which stands as a field would: `RS status US number US`. After a field comes RS or FS.
fn take_status<'a>(parts: &mut Parts<'a>) -> Option<&'a [u8]> {
    if parts.mark() != RS {
        return None;
    }
    let before = parts.at;
    let status = parts.take();
    let is_status = parts.mark() == US && {
        let mut ahead = Parts { bytes: parts.bytes, at: parts.at };
        ahead.take();
        ahead.mark() == US
    };
    if !is_status {
        parts.at = before;
    }
    is_status.then_some(status)
}

/// Iterator over the fields of a record.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    /// Empty, or at an RS.
    rest: &'a [u8],
    /// Offset of `rest` in the message.
    base: usize,
}

impl<'a> Fields<'a> {
    #[cold]
    fn fail(&mut self) -> Result<Field<'a>, ParseError> {
        self.rest = &[];
        Err(ParseError::BadField(self.base))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, ParseError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest;
        if rest.is_empty() {
            return None;
        }
        let Some((fid, at)) = field_id(rest) else { return Some(self.fail()) };
        let end = separator(rest, at + 1);
        if rest.get(end).is_some_and(|mark| *mark != RS) {
            return Some(self.fail());
        }
        self.rest = &rest[end..];
        self.base += end;
        Some(Ok(Field { fid, value: &rest[at + 1..end] }))
    }
}

/// Five digits are enough for any field id, and cannot overflow.
const LONGEST_ID: usize = 5;

/// The id of the field at whose RS `rest` begins, and the offset of the US behind the id. Digit by digit: how many there are is guessed well by
/// a processor, which goes on with what follows meanwhile.
#[inline]
fn field_id(rest: &[u8]) -> Option<(i16, usize)> {
    let is_negative = rest.get(1) == Some(&b'-');
    let first = 1 + usize::from(is_negative);
    let mut at = first;
    let mut number = 0i32;
    while at < rest.len() && at < first + LONGEST_ID && rest[at].is_ascii_digit() {
        number = number * 10 + i32::from(rest[at] - b'0');
        at += 1;
    }
    let fid = i16::try_from(if is_negative { -number } else { number }).ok()?;
    (at > first && rest[0] == RS && rest.get(at) == Some(&US)).then_some((fid, at))
}

/// What [`scan`] finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// A message lies at `start..end`; go on at `end`.
    Message {
        /// Its first byte.
        start: usize,
        /// The byte after its last.
        end: usize,
    },
    /// A message begins at `start` and has not come to its end: keep the bytes from there, and read more.
    Partial {
        /// Its first byte.
        start: usize,
    },
    /// No message begins here.
    Nothing,
}

/// Finds the next message in a stream or file of messages, each from FS to FS. What lies between messages (blanks, line
/// ends, the rest of one that was cut) is passed over; `start` says how much.
pub fn scan(bytes: &[u8]) -> Scan {
    let mut at = separator_fs(bytes, 0);
    while at < bytes.len() {
        match bytes.get(at + 1) {
            None => return Scan::Partial { start: at },
            Some(b'0'..=b'9') => {
                let end = separator_fs(bytes, at + 1);
                let is_whole = end < bytes.len();
                return if is_whole { Scan::Message { start: at, end: end + 1 } } else { Scan::Partial { start: at } };
            }
            // The end of a message whose beginning is not here.
            Some(_) => at = separator_fs(bytes, at + 1),
        }
    }
    Scan::Nothing
}

impl<'a> Record<'a> {
    /// A message of a type for an item, without anything else.
    pub const fn new(record_type: RecordType, item: &'a [u8]) -> Self {
        Self {
            record_type,
            tag: None,
            item,
            status: None,
            field_list: None,
            rtl: None,
            delta_rtl: None,
            code: None,
            text: None,
            body: &[],
            body_at: 0,
        }
    }
}
