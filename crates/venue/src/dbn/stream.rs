//! Files that are too long for memory: pieces of any length in, metadata and records out.

use super::records::{LONGEST_METADATA, NotDbn, Record, record_at};

/// Bytes of metadata whose places are the same in all versions, ahead of the lists of symbols.
const FIXED: usize = 100;
/// Entries of a list of symbols that are believed: more than any venue has instruments.
const MOST_SYMBOLS: usize = 1 << 20;

/// What a file says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Version of the format.
    pub version: u8,
    /// Venue and data set (`GLBX.MDP3`).
    pub dataset: String,
    /// Schema of the records: 0 by order, 1 best prices, 2 ten of them, 4 trades, ...; 0xFFFF mixed.
    pub schema: u16,
    /// Numbers of instruments and what they are called.
    pub mappings: Vec<Mapping>,
}

/// What an instrument is called on the days of an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Symbol of the request, which for instruments is the venue's own.
    pub symbol: String,
    /// Number of the instrument.
    pub instrument: u32,
    /// First day, as the number that its eight digits make.
    pub from: u32,
    /// First day that the interval does not have any more.
    pub to: u32,
}

impl Metadata {
    /// The symbol of an instrument on a day (as the number of its eight digits): that of the interval with the day, else the last that is told.
    pub fn symbol(&self, instrument: u32, day: u32) -> Option<&str> {
        let all = || self.mappings.iter().filter(|mapping| mapping.instrument == instrument);
        let on_day = all().find(|mapping| (mapping.from..mapping.to.max(mapping.from + 1)).contains(&day));
        on_day.or_else(|| all().next_back()).map(|mapping| mapping.symbol.as_str())
    }
}

/// Reads an unpacked file in pieces.
#[derive(Clone, Debug, Default)]
pub struct DbnReader {
    bytes: Vec<u8>,
    at: usize,
    /// Bytes that were read and let go of.
    passed: usize,
    metadata: Option<Metadata>,
}

impl DbnReader {
    /// A file of which nothing has come.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.bytes.drain(..self.at);
        self.passed += self.at;
        self.at = 0;
        self.bytes.extend_from_slice(piece);
    }

    /// What the file says of itself; `None`: more of it must come first.
    ///
    /// # Errors
    /// It does not begin as DBN, or its metadata cannot be.
    pub fn metadata(&mut self) -> Result<Option<&Metadata>, NotDbn> {
        if self.metadata.is_none() {
            let known = self.bytes.len().min(3);
            if self.bytes[..known] != b"DBN"[..known] {
                return Err(NotDbn::Begin);
            }
            let Some(begin) = self.bytes.first_chunk::<8>() else { return Ok(None) };
            let length = u32::from_le_bytes([begin[4], begin[5], begin[6], begin[7]]) as usize;
            if length > LONGEST_METADATA {
                return Err(NotDbn::Metadata(length));
            }
            let Some(body) = self.bytes.get(8..8 + length) else { return Ok(None) };
            self.metadata = Some(read_metadata(begin[3], body).ok_or(NotDbn::Metadata(length))?);
            self.at = 8 + length;
        }
        Ok(self.metadata.as_ref())
    }

    /// The next record; `None`: more of the file must come first.
    ///
    /// # Errors
    /// The file is none, or a record's length cannot be; nothing behind it can be read.
    pub fn next_record(&mut self) -> Result<Option<Record>, NotDbn> {
        if self.metadata()?.is_none() {
            return Ok(None);
        }
        let found = record_at(&self.bytes[self.at..], self.passed + self.at)?;
        Ok(found.map(|(record, length)| {
            self.at += length;
            record
        }))
    }

    /// Bytes that have come and are no whole record: not 0 at the end of a file that is torn.
    pub fn rest(&self) -> usize {
        self.bytes.len() - self.at
    }
}

/// `None`: the lists do not fit into the bytes.
fn read_metadata(version: u8, body: &[u8]) -> Option<Metadata> {
    let fixed = body.get(..FIXED)?;
    let width = if version >= 2 { usize::from(u16::from_le_bytes([fixed[45], fixed[46]])) } else { 22 };
    let mut at = Lists { bytes: &body[FIXED..], width };
    let schema_definition = at.count()?;
    at.take(schema_definition)?;
    for _ in ["symbols", "partial", "not found"] {
        let count = at.count()?;
        at.take(count.checked_mul(width)?)?;
    }
    let mut mappings = Vec::new();
    for _ in 0..at.count()? {
        let symbol = at.text()?;
        for _ in 0..at.count()? {
            let (from, to, number) = (at.number()?, at.number()?, at.text()?);
            // A text that is no number is another symbol: the file was asked for in the other direction.
            if let Ok(instrument) = number.parse() {
                mappings.push(Mapping { symbol: symbol.clone(), instrument, from, to });
            } else if let Ok(instrument) = symbol.parse() {
                mappings.push(Mapping { symbol: number, instrument, from, to });
            }
        }
    }
    let schema = u16::from_le_bytes([fixed[16], fixed[17]]);
    Some(Metadata { version, dataset: text_of(&fixed[..16]), schema, mappings })
}

/// The lists of symbols behind the fixed part.
struct Lists<'a> {
    bytes: &'a [u8],
    /// Bytes of a symbol.
    width: usize,
}

impl<'a> Lists<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(head)
    }

    fn number(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn count(&mut self) -> Option<usize> {
        self.number().map(|count| count as usize).filter(|count| *count <= MOST_SYMBOLS)
    }

    fn text(&mut self) -> Option<String> {
        self.take(self.width).map(text_of)
    }
}

fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
