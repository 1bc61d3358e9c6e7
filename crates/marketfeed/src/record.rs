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
    /// Its kind.
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

/// The places of the separators (0x1C to 0x1F) in some bytes, one after the other, each as the number of bytes from there to the end. Words
/// are taken in at fixed distances, whatever is found in them: to find the next separator a processor need not wait for where the last
/// one was.
#[derive(Debug, Clone, Copy)]
struct Separators<'a> {
    /// What is not taken in yet.
    ahead: &'a [u8],
    /// Bytes from the beginning of the word that was taken in last.
    left: usize,
    /// The separators of that word that were not given out yet.
    marks: u64,
}

impl<'a> Separators<'a> {
    /// The separators behind the first byte.
    #[inline]
    const fn behind_first(bytes: &'a [u8]) -> Self {
        let ahead = if let [_, ahead @ ..] = bytes { ahead } else { bytes };
        Self { ahead, left: 0, marks: 0 }
    }

    /// Bytes from the next one on; 0 after the last one.
    #[inline]
    fn next(&mut self) -> usize {
        while self.marks == 0 {
            self.left = self.ahead.len();
            if let Some((word, ahead)) = self.ahead.split_first_chunk() {
                self.marks = words::separators(u64::from_le_bytes(*word));
                self.ahead = ahead;
            } else if let Some(word) = words::word(self.ahead).filter(|_| !self.ahead.is_empty()) {
                self.marks = words::separators(word);
                self.ahead = &[];
            } else {
                return 0;
            }
        }
        let offset = words::offset(self.marks);
        self.marks &= self.marks - 1;
        self.left - offset
    }
}

/// A text of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a> {
    /// The text, and what follows upon it in the record.
    from: &'a [u8],
    /// At most that of `from`.
    len: usize,
}

impl<'a> Text<'a> {
    #[inline]
    pub(crate) fn bytes(self) -> &'a [u8] {
        &self.from[..self.len]
    }

    #[inline]
    pub(crate) const fn len(self) -> usize {
        self.len
    }

    /// A text of up to eight bytes as a word, behind it anything; `None` for a longer one.
    #[inline]
    pub(crate) fn word(self) -> Option<u64> {
        match self.from.first_chunk() {
            Some(word) if self.len <= WORD => Some(u64::from_le_bytes(*word)),
            _ => last_word(self.bytes()),
        }
    }

    /// A text of up to four bytes as half a word, behind it anything; `None` for a longer one.
    #[inline]
    pub(crate) fn half(self) -> Option<u32> {
        match self.from.first_chunk() {
            Some(half) if self.len <= WORD / 2 => Some(u32::from_le_bytes(*half)),
            _ if self.len <= WORD / 2 => last_word(self.bytes()).map(|word| word as u32),
            _ => None,
        }
    }
}

/// A text near the end of the record, or one that is longer than a word.
#[inline(never)]
fn last_word(text: &[u8]) -> Option<u64> {
    words::word(text)
}

/// The parts of a header, one after the other.
#[derive(Clone, Copy)]
struct Parts<'a> {
    bytes: &'a [u8],
    /// At a separator.
    at: usize,
    separators: Separators<'a>,
}

// Where one of these is a call, the reader lives in memory.
#[allow(clippy::inline_always, reason = "measured: a fortieth of the time of a conversion")]
impl<'a> Parts<'a> {
    /// The separator where the reader stands.
    #[inline]
    fn mark(&self) -> u8 {
        self.bytes[self.at]
    }

    /// The part after the separator where the reader stands; the reader moves on to the next separator.
    #[inline(always)]
    fn take(&mut self) -> Text<'a> {
        let start = self.at + 1;
        self.at = self.bytes.len() - self.separators.next();
        Text { from: &self.bytes[start..], len: self.at - start }
    }

    /// The part after a certain separator, if the reader stands at one.
    #[inline(always)]
    fn take_after(&mut self, mark: u8) -> Option<&'a [u8]> {
        if self.mark() == mark { Some(self.take().bytes()) } else { None }
    }

    #[inline(always)]
    fn number_after(&mut self, mark: u8) -> Result<Option<u16>, ParseError> {
        let at = self.at + 1;
        if self.mark() != mark {
            return Ok(None);
        }
        match self.take() {
            // An empty part says nothing.
            text if text.len() == 0 => Ok(None),
            text => number(text).map(Some).ok_or(ParseError::BadNumber(at)),
        }
    }
}

/// Five digits are enough for any number of a header and for any field id.
const LONGEST_NUMBER: usize = 5;

/// A number of up to five digits.
#[inline]
fn number(text: Text<'_>) -> Option<u16> {
    let word = text.word().filter(|_| text.len() <= LONGEST_NUMBER)?;
    words::number(word, text.len()).and_then(|number| u16::try_from(number).ok())
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
        let mut parts = Parts { bytes, at: 0, separators: Separators::behind_first(bytes) };
        let record_type = number(parts.take()).map(RecordType).ok_or(ParseError::NoType(1))?;
        let tag = parts.take_after(US);
        // Of some images, a number that nothing here needs.
        parts.take_after(RS);
        let Some(item) = parts.take_after(GS) else { return Err(ParseError::NoItem(parts.at)) };
        let (mut status, mut field_list, mut delta_rtl, mut code, mut text) = (None, None, None, None, None);
        let rtl;
        match record_type {
            image if image.is_image() => {
                status = take_status(&mut parts);
                field_list = parts.number_after(US)?;
                rtl = parts.number_after(US)?;
            }
            RecordType::STATUS => {
                rtl = parts.number_after(US)?;
                code = parts.take_after(GS);
                text = parts.take_after(RS);
            }
            RecordType::AGGREGATE => {
                let first = parts.number_after(US)?;
                let has_both = parts.mark() == US;
                let second = parts.number_after(US)?;
                (delta_rtl, rtl) = if has_both { (first, second) } else { (None, first) };
            }
            _ => rtl = parts.number_after(US)?,
        }
        while !matches!(parts.mark(), RS | FS) {
            parts.take();
        }
        let body_at = parts.at;
        match separator_fs(bytes, body_at) {
            end if end + 1 == bytes.len() => {}
            early => return Err(ParseError::EarlyEnd(early)),
        }
        let body = &bytes[body_at..bytes.len() - 1];
        Ok(Self { record_type, tag, item, status, field_list, rtl, delta_rtl, code, text, body, body_at })
    }

    /// The fields, in order. The iterator ends after the first error.
    #[inline]
    pub const fn fields(&self) -> Fields<'a> {
        // In anything else there is nothing to be found: that is the error of its first field.
        let searched = if let [RS, ..] = self.body { self.body } else { &[] };
        Fields { rest: self.body, separators: Separators::behind_first(searched), end: self.body_at + self.body.len() }
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
    let before = *parts;
    let status = parts.take().bytes();
    let is_status = parts.mark() == US && {
        let mut ahead = *parts;
        ahead.take();
        ahead.mark() == US
    };
    if !is_status {
        *parts = before;
    }
    is_status.then_some(status)
}

/// Iterator over the fields of a record.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    /// Empty, or from an RS on: where the fields do not begin with one, no separators are found.
    rest: &'a [u8],
    /// The separators behind the first byte of `rest`.
    separators: Separators<'a>,
    /// Offset of the end of the fields in the message.
    end: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, ParseError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (fid, value) = match self.next_text()? {
            Ok(field) => field,
            Err(error) => return Some(Err(error)),
        };
        Some(Ok(Field { fid, value: value.bytes() }))
    }
}

impl<'a> Fields<'a> {
    /// The next field: its id and value.
    #[inline]
    pub(crate) fn next_text(&mut self) -> Option<Result<(i16, Text<'a>), ParseError>> {
        let rest = self.rest;
        if rest.is_empty() {
            return None;
        }
        let (from_middle, from_end) = (self.separators.next(), self.separators.next());
        if let Some((head, [US, from @ ..])) = rest.split_at_checked(rest.len() - from_middle)
            && let len = from.len() - from_end
            && let Some(behind @ ([] | [RS, ..])) = from.get(len..)
            && let Some(fid) = field_id(rest, head)
        {
            self.rest = behind;
            return Some(Ok((fid, Text { from, len })));
        }
        self.rest = &[];
        Some(Err(ParseError::BadField(self.end - rest.len())))
    }
}

/// The field id in a head: RS and digits, with which `rest` begins.
#[inline]
fn field_id(rest: &[u8], head: &[u8]) -> Option<i16> {
    // Bytes behind the digits do no harm.
    if let [_, a, b, c, d, ..] = *rest
        && let Some(number) = words::short_number(u32::from_le_bytes([a, b, c, d]), head.len().wrapping_sub(1))
    {
        return Some(number as i16);
    }
    any_field_id(head)
}

/// With a sign, or of five digits.
#[inline(never)]
fn any_field_id(head: &[u8]) -> Option<i16> {
    let [RS, text @ ..] = head else { return None };
    let (sign, digits) = if let [b'-', digits @ ..] = text { (-1, digits) } else { (1, text) };
    let word = words::word(digits).filter(|_| digits.len() <= LONGEST_NUMBER)?;
    i16::try_from(sign * words::number(word, digits.len())? as i32).ok()
}

/// What [`scan`] finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// A message lies at `start..end`; go on at `end`.
    Message {
        /// The message's first byte.
        start: usize,
        /// The byte after its last.
        end: usize,
    },
    /// A message begins at `start` and has not come to its end: keep the bytes from there, and read more.
    Partial {
        /// The message's first byte.
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
