//! Recorded ticks of US shares: one zip for the quotes and one for the trades of each symbol and day, with one CSV file or several, which
//! are read one after the other; stored or deflated, and held against their checksums.
//!
//! Rows have no heading. Times are milliseconds since midnight in New York, prices ten-thousandths of a dollar:
//! a quote row is `time, bid price, bid size, ask price, ask size, exchange, condition, suspicious`, a trade row
//! `time, price, size, exchange, sale condition, suspicious`. A quote row tells one side, the other is `0,0`. The rows are
//! those of the national best quote, whoever makes it: a row replaces its side. (Taken as the quotes of single venues they
//! would give a book that is crossed for 99 rows of 100.) Rows are read as the time comes, never a whole file. A sale condition is a
//! hexadecimal number, a bit a condition: what the consolidated tape says of whether a trade is one of the day's prices.

use crate::instrument::{Venue, venue};
use flate2::Crc;
use flate2::read::DeflateDecoder;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use zip::CompressionMethod;

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Milliseconds since midnight, New York.
    pub millis: u32,
    /// Quote or trade.
    pub what: What,
    /// Who made it.
    pub venue: Venue,
}

/// What a row tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The best bid is now this.
    Bid {
        /// In ten-thousandths of a dollar.
        price: i64,
        /// Shares.
        size: u32,
    },
    /// The best ask is now this.
    Ask {
        /// In ten-thousandths of a dollar.
        price: i64,
        /// Shares.
        size: u32,
    },
    /// A trade.
    Trade {
        /// In ten-thousandths of a dollar.
        price: i64,
        /// Shares.
        size: u32,
        /// For what it counts.
        counts: Counts,
    },
}

/// For what a trade counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// Last price, highest, lowest, first, and volume.
    All,
    /// The volume alone: one out of hours or sequence, at an average or derived price, an odd lot.
    Volume,
    /// It is the official opening price, and was a trade of its own before.
    Opening,
    /// Nothing of the day: the official closing price.
    Nothing,
}

impl Counts {
    /// What the bits of a sale condition say.
    fn of(condition: u32) -> Self {
        // Derivatively priced, form T, sold, extended hours, out of sequence, average price, prior reference price, odd lot.
        const VOLUME_ALONE: u32 = 0x200 | 0x400 | 0x800 | 0x2000 | 0x4000 | 0x10_0000 | 0x200_0000 | 0x8000_0000;
        const OFFICIAL_CLOSE: u32 = 0x100_0000;
        const OFFICIAL_OPEN: u32 = 0x400_0000;
        match condition {
            c if c & OFFICIAL_OPEN != 0 => Self::Opening,
            c if c & OFFICIAL_CLOSE != 0 => Self::Nothing,
            c if c & VOLUME_ALONE != 0 => Self::Volume,
            _ => Self::All,
        }
    }
}

/// Quotes or trades.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Rows of the best quote.
    Quotes,
    /// Rows of trades.
    Trades,
}

/// A recorded file: `ibm_20131007_quote.zip` holds the quotes of IBM on that day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TickFile {
    /// Where it is.
    pub path: PathBuf,
    /// In capitals.
    pub symbol: String,
    /// `YYYYMMDD`.
    pub date: String,
    /// What it holds.
    pub table: Table,
}

impl TickFile {
    /// What the name of a file says, when it is the name of a tick file.
    pub fn of(path: &Path) -> Option<Self> {
        let stem = path.file_name()?.to_str()?.strip_suffix(".zip")?;
        let mut parts = stem.split('_');
        let (symbol, date, table) = (parts.next()?, parts.next()?, parts.next()?);
        let table = match table {
            "quote" => Table::Quotes,
            "trade" => Table::Trades,
            _ => return None,
        };
        let dated = date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit());
        (dated && !symbol.is_empty() && parts.next().is_none()).then(|| Self {
            path: path.to_owned(),
            symbol: symbol.to_ascii_uppercase(),
            date: date.to_owned(),
            table,
        })
    }

    /// Starts reading it.
    ///
    /// # Errors
    /// When it cannot be opened or is no zip with one stored or deflated file.
    pub fn rows(&self) -> io::Result<Rows> {
        Rows::open(&self.path, self.table)
    }
}

/// The rows of one file, in file order.
pub struct Rows {
    file: File,
    members: VecDeque<Member>,
    current: Option<BufReader<Content>>,
    table: Table,
    line: Vec<u8>,
    /// Rows that are none, or that the recording itself marks as suspicious.
    pub skipped: u64,
    /// Bytes of the file that are in none of its members.
    pub foreign: u64,
}

/// A file inside a zip.
struct Member {
    name: String,
    start: u64,
    packed: u64,
    method: CompressionMethod,
    size: u64,
    checksum: u32,
}

/// What is in a member, held against its length and checksum at its end.
struct Content {
    from: From,
    member: Member,
    checksum: Crc,
}

enum From {
    Stored(io::Take<File>),
    Deflated(DeflateDecoder<io::Take<File>>),
}

impl Read for Content {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let damaged =
            |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{} in it is {what}", self.member.name));
        let count = match &mut self.from {
            From::Stored(from) => from.read(out),
            From::Deflated(from) => from.read(out),
        }
        .map_err(|e| damaged(&format!("damaged: {e}")))?;
        self.checksum.update(&out[..count]);
        if count == 0 && !out.is_empty() {
            if self.checksum.sum() != self.member.checksum {
                return Err(damaged("damaged: it does not match its checksum"));
            }
            if u64::from(self.checksum.amount()) != self.member.size & 0xFFFF_FFFF {
                return Err(damaged("damaged: it has not the length that it should have"));
            }
        }
        Ok(count)
    }
}

impl Rows {
    fn open(path: &Path, table: Table) -> io::Result<Self> {
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
        let mut archive = zip::ZipArchive::new(File::open(path)?).map_err(|e| invalid(e.to_string()))?;
        let mut members = VecDeque::new();
        for index in 0..archive.len() {
            let entry = archive.by_index_raw(index).map_err(|e| invalid(e.to_string()))?;
            if entry.is_dir() {
                continue;
            }
            let (name, method) = (entry.name().to_owned(), entry.compression());
            if entry.encrypted() || ![CompressionMethod::Stored, CompressionMethod::Deflated].contains(&method) {
                let how = if entry.encrypted() { "encrypted".to_owned() } else { format!("packed by {method}") };
                return Err(invalid(format!("{name} in it is {how}; stored and deflated files can be read")));
            }
            let (start, packed) = (entry.data_start(), entry.compressed_size());
            members.push_back(Member { name, start, packed, method, size: entry.size(), checksum: entry.crc32() });
        }
        if members.is_empty() {
            return Err(invalid("holds no file".to_owned()));
        }
        let foreign = archive.offset();
        // A reader of its own instead of the archive's, which would have to be kept beside it.
        let file = archive.into_inner();
        Ok(Self { file, members, current: None, table, line: Vec::with_capacity(80), skipped: 0, foreign })
    }

    /// The content that is being read; `None` behind the last member.
    fn content(&mut self) -> io::Result<Option<&mut BufReader<Content>>> {
        if self.current.is_none() {
            let Some(member) = self.members.pop_front() else { return Ok(None) };
            let mut file = self.file.try_clone()?;
            file.seek(SeekFrom::Start(member.start))?;
            let packed = file.take(member.packed);
            let from = match member.method {
                CompressionMethod::Stored => From::Stored(packed),
                _ => From::Deflated(DeflateDecoder::new(packed)),
            };
            let content = Content { from, member, checksum: Crc::new() };
            self.current = Some(BufReader::with_capacity(64 * 1024, content));
        }
        Ok(self.current.as_mut())
    }

    /// The next row, `None` at the end.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn next_row(&mut self) -> io::Result<Option<Tick>> {
        loop {
            let mut line = std::mem::take(&mut self.line);
            line.clear();
            let Some(content) = self.content()? else { return Ok(None) };
            let read = content.read_until(b'\n', &mut line)?;
            self.line = line;
            if read == 0 {
                self.current = None;
                continue;
            }
            match parse(self.table, &self.line) {
                Some(tick) => return Ok(Some(tick)),
                None => self.skipped += 1,
            }
        }
    }
}

/// The content of a zip with one file, held against its length and checksum at its end.
///
/// # Errors
/// It cannot be opened, or is no zip with one stored or deflated file.
pub(super) fn zipped(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut rows = Rows::open(path, Table::Quotes)?;
    if rows.members.len() > 1 {
        let text = format!("it has {} files: unpack it", rows.members.len());
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    rows.content()?;
    let content = rows.current.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it has no file"))?;
    Ok(Box::new(content))
}

/// One row; `None` when it is malformed or marked suspicious.
pub fn parse(table: Table, line: &[u8]) -> Option<Tick> {
    let line = line.trim_ascii_end();
    let mut columns = line.split(|&b| b == b',');
    let number = |columns: &mut dyn Iterator<Item = &[u8]>| columns.next().and_then(decimal);
    let millis = u32::try_from(number(&mut columns)?).ok()?;
    let mut amounts = [(0i64, 0u32); 2];
    for amount in &mut amounts[..if table == Table::Quotes { 2 } else { 1 }] {
        let price = i64::try_from(number(&mut columns)?).ok()?;
        *amount = (price, u32::try_from(number(&mut columns)?).ok()?);
    }
    let letter = columns.next()?;
    let condition = str::from_utf8(columns.next()?).ok().and_then(|text| u32::from_str_radix(text, 16).ok());
    let counts = Counts::of(condition.unwrap_or(0));
    if columns.next()? != b"0" || columns.next().is_some() {
        return None;
    }
    let what = match (table, amounts) {
        (Table::Trades, [(price @ 1.., size), _]) => What::Trade { price, size, counts },
        (Table::Quotes, [(price @ 1.., size), (0, _)]) => What::Bid { price, size },
        (Table::Quotes, [(0, _), (price @ 1.., size)]) => What::Ask { price, size },
        _ => return None,
    };
    Some(Tick { millis, what, venue: venue_of(letter) })
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    digits.iter().try_fold(0u64, |n, &b| b.is_ascii_digit().then(|| n * 10 + u64::from(b - b'0')))
}

/// The venue behind an exchange letter of the consolidated tape.
pub fn venue_of(letter: &[u8]) -> Venue {
    match letter {
        b"A" => venue(1, *b"ASE"),
        b"B" => venue(3, *b"BOS"),
        b"C" => venue(4, *b"CIN"),
        b"D" => venue(53, *b"ADF"),
        b"J" => venue(40, *b"DEA"),
        b"K" => venue(13, *b"DEX"),
        b"M" => venue(8, *b"MID"),
        b"N" => venue(2, *b"NYS"),
        b"P" => venue(5, *b"PSE"),
        b"Q" | b"T" => venue(43, *b"NAS"),
        b"W" => venue(48, *b"WCB"),
        b"X" => venue(6, *b"XPH"),
        b"Y" => venue(42, *b"BTY"),
        b"Z" => venue(0, *b"BAT"),
        _ => Venue::NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_by_their_table() {
        let row = |what, millis, letter: &str| Some(Tick { millis, what, venue: venue_of(letter.as_bytes()) });
        assert_eq!(
            parse(Table::Quotes, b"14400152,0,0,494100,300,Q,1,0\r\n"),
            row(What::Ask { price: 494_100, size: 300 }, 14_400_152, "Q")
        );
        assert_eq!(
            parse(Table::Quotes, b"14400547,491800,300,0,0,P,1,0"),
            row(What::Bid { price: 491_800, size: 300 }, 14_400_547, "P")
        );
        assert_eq!(
            parse(Table::Trades, b"14400688,491800,300,P,2000,0"),
            row(What::Trade { price: 491_800, size: 300, counts: Counts::Volume }, 14_400_688, "P")
        );
    }

    #[test]
    fn what_is_no_row_is_skipped() {
        for line in ["", "x", "1,2,3", "1,0,0,0,0,P,1,0", "1,5,5,6,6,P,1,0", "1,5,5,0,0,P,1,1", "1,5,5,0,0,P,1,0,9"] {
            assert_eq!(parse(Table::Quotes, line.as_bytes()), None, "{line}");
        }
        assert_eq!(parse(Table::Trades, b"99999999999,1,1,P,0,0"), None, "the time does not fit");
    }

    #[test]
    fn file_names_say_what_is_inside() {
        let file = TickFile::of(Path::new("/x/ibm_20131007_quote.zip")).unwrap();
        assert_eq!((file.symbol.as_str(), file.date.as_str(), file.table), ("IBM", "20131007", Table::Quotes));
        for other in ["LICENSE", "ibm_20131007.zip", "ibm_2013100x_quote.zip", "ibm_20131007_depth.zip"] {
            assert_eq!(TickFile::of(Path::new(other)), None, "{other}");
        }
    }
}
