//! Databento's DBN: files of normalised records, and the book that records by order make.
//!
//! A file, once unpacked (it may be several zstd frames, of which the first holds no record), is "DBN", a version, a length and that many bytes of
//! metadata, then records. Everything is little endian. A record says its length in words of four bytes: what is not known is passed over by it.
//! Prices are integers of nine decimals; `i64::MAX` is none. Versions 1 to 3 have the records that are read here in one layout.

use std::collections::HashMap;

use market::{BookId, BookState, DbnMbo, Level, Order, OrderBooks, Refused, Side};
use thiserror::Error;

use crate::market_events::{Market, Trade, TradeKind};

mod stream;

pub use stream::{DbnReader, Mapping, Metadata};

/// No price.
pub const UNDEFINED_PRICE: i64 = i64::MAX;

/// The record is the last of its event for its instrument: the book is consistent behind it.
pub const LAST: u8 = 0x80;
/// The record is of a snapshot.
pub const SNAPSHOT: u8 = 0x20;

const HEAD: usize = 16;
const MBO: u8 = 0xA0;
const MBP_1: u8 = 0x01;

/// Longest metadata that is believed.
const LONGEST_METADATA: usize = 64 << 20;

/// Head of all records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Type of the record.
    pub rtype: u8,
    /// Number of publisher and data set.
    pub publisher: u16,
    /// Number of the instrument.
    pub instrument: u32,
    /// The venue's time of matching, nanoseconds since 1970 UTC.
    pub event_time_ns: u64,
}

/// A record by order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mbo {
    /// Head of the record.
    pub head: Head,
    /// The venue's number of the order.
    pub order: u64,
    /// Price with nine decimals.
    pub price: i64,
    /// Size.
    pub size: u32,
    /// [`LAST`], [`SNAPSHOT`] and others.
    pub flags: u8,
    /// The venue's channel.
    pub channel: u8,
    /// A add, C cancel, M modify, R clear, T trade, F fill, N none.
    pub action: u8,
    /// B bid, A ask, N none.
    pub side: u8,
    /// Time of capture, nanoseconds since 1970 UTC.
    pub receive_time_ns: u64,
    /// Number of the venue's packet.
    pub sequence: u32,
}

/// A record of the best prices, with what changed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mbp1 {
    /// Head of the record.
    pub head: Head,
    /// Price of the change or trade.
    pub price: i64,
    /// Size of the change or trade.
    pub size: u32,
    /// As [`Mbo::action`].
    pub action: u8,
    /// As [`Mbo::side`].
    pub side: u8,
    /// As [`Mbo::flags`].
    pub flags: u8,
    /// Number of the venue's packet.
    pub sequence: u32,
    /// Best bid; price [`UNDEFINED_PRICE`]: none.
    pub bid: Level,
    /// Best ask; price [`UNDEFINED_PRICE`]: none.
    pub ask: Level,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// By order.
    Mbo(Mbo),
    /// Best prices.
    Mbp1(Mbp1),
    /// A record of a type that is not read, passed over.
    Other(Head),
}

/// Why bytes are no DBN, or stop being it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotDbn {
    /// The file does not begin as one.
    #[error("no DBN: the file does not begin with \"DBN\"")]
    Begin,
    /// The metadata are longer than can be.
    #[error("metadata of {0} bytes")]
    Metadata(usize),
    /// A record is shorter than its head, or than its type.
    #[error("a record of type {rtype:#04x} and {length} bytes at byte {at}")]
    Record {
        /// Type of the record.
        rtype: u8,
        /// Length of the record.
        length: usize,
        /// Where it begins, in the unpacked file.
        at: usize,
    },
}

/// Reads an unpacked file that is in memory or mapped.
#[derive(Clone, Debug)]
pub struct DbnFile<'a> {
    version: u8,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> DbnFile<'a> {
    /// Reads up to the records.
    ///
    /// # Errors
    /// The file does not begin as DBN, or ends within its metadata.
    pub fn new(bytes: &'a [u8]) -> Result<Self, NotDbn> {
        let begin = bytes.first_chunk::<8>().filter(|begin| begin.starts_with(b"DBN")).ok_or(NotDbn::Begin)?;
        let length = u32::from_le_bytes([begin[4], begin[5], begin[6], begin[7]]) as usize;
        let at = 8 + length;
        if length > LONGEST_METADATA || at > bytes.len() {
            return Err(NotDbn::Metadata(length));
        }
        Ok(Self { version: begin[3], bytes, at })
    }

    /// The version.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Bytes behind the last whole record: not 0 when all records have been read from a file that is torn.
    pub fn rest(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next record; `None`: no whole one follows.
    ///
    /// # Errors
    /// A record's length cannot be; nothing behind it can be read.
    pub fn next_record(&mut self) -> Result<Option<Record>, NotDbn> {
        let found = record_at(&self.bytes[self.at..], self.at)?;
        Ok(found.map(|(record, length)| {
            self.at += length;
            record
        }))
    }
}

/// The record at the beginning of `bytes`, which lie at `at` in the file, and its length; `None`: it is not whole.
fn record_at(bytes: &[u8], at: usize) -> Result<Option<(Record, usize)>, NotDbn> {
    let Some([words, rtype]) = bytes.first_chunk::<2>() else { return Ok(None) };
    let length = usize::from(*words) * 4;
    let least = match *rtype {
        MBO => 56,
        MBP_1 => 80,
        _ => HEAD,
    };
    if length < least {
        return Err(NotDbn::Record { rtype: *rtype, length, at });
    }
    Ok(bytes.get(..length).map(|record| (read(record, *rtype), length)))
}

/// Reads a record that is as long as its type.
fn read(r: &[u8], rtype: u8) -> Record {
    let head = Head { rtype, publisher: u16_at(r, 2), instrument: u32_at(r, 4), event_time_ns: u64_at(r, 8) };
    match rtype {
        MBO => Record::Mbo(Mbo {
            head,
            order: u64_at(r, 16),
            price: u64_at(r, 24) as i64,
            size: u32_at(r, 32),
            flags: r[36],
            channel: r[37],
            action: r[38],
            side: r[39],
            receive_time_ns: u64_at(r, 40),
            sequence: u32_at(r, 52),
        }),
        MBP_1 => {
            let level = |price, size, orders| Level {
                price: u64_at(r, price) as i64,
                size: u64::from(u32_at(r, size)),
                orders: u32_at(r, orders),
            };
            Record::Mbp1(Mbp1 {
                head,
                price: u64_at(r, 16) as i64,
                size: u32_at(r, 24),
                action: r[28],
                side: r[29],
                flags: r[30],
                sequence: u32_at(r, 44),
                bid: level(48, 64, 72),
                ask: level(56, 68, 76),
            })
        }
        _ => Record::Other(head),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Kinds of records that cannot be what was meant; all are counted, none stops anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BadRecords {
    /// A cancel or change of an order that is not there.
    pub unknown_order: u64,
    /// A fill of an order that is not there: the aggressor's, mostly.
    pub unknown_fill: u64,
    /// An add of an order that stands, or of no size, or of a sum that cannot be counted.
    pub bad_add: u64,
    /// More was cancelled than the order had.
    pub exceeds: u64,
    /// An unknown action, or an order without a side.
    pub unknown: u64,
    /// Instruments that this channel cannot hold.
    pub too_many: u64,
}

/// Instruments of one file at most.
const MOST_INSTRUMENTS: usize = 1 << 16;

/// The books that records by order make. T and F take nothing, the C or M behind them does.
#[derive(Debug, Default)]
pub struct MboBooks {
    books: OrderBooks<DbnMbo>,
    numbers: HashMap<u32, BookId>,
    instruments: Vec<Instrument>,
    bad: BadRecords,
}

#[derive(Clone, Copy, Debug)]
struct Instrument {
    is_in_snapshot: bool,
    /// Records of an event have come, and its last has not.
    is_in_event: bool,
}

impl MboBooks {
    /// No instrument.
    pub fn new() -> Self {
        Self::default()
    }

    /// The books; [`MboBooks::book`] has their numbers.
    pub fn books(&self) -> &OrderBooks<DbnMbo> {
        &self.books
    }

    /// The book of an instrument that has come.
    pub fn book(&self, instrument: u32) -> Option<BookId> {
        self.numbers.get(&instrument).copied()
    }

    /// Fault of the record.
    pub fn bad(&self) -> &BadRecords {
        &self.bad
    }

    /// Applies a record. True: it is the last of its event, and the book may be published, crossed or not: see [`BookState`].
    pub fn apply<M: Market<Mbo>>(&mut self, record: &Mbo, market: &mut M) -> bool {
        let Some(book) = self.book_for(record.head.instrument) else {
            self.bad.too_many += 1;
            return false;
        };
        let (is_last, is_snapshot) = (record.flags & LAST != 0, record.flags & SNAPSHOT != 0);
        let instrument = &mut self.instruments[book.0 as usize];
        let was_in_snapshot = std::mem::replace(&mut instrument.is_in_snapshot, is_snapshot);
        if was_in_snapshot && !is_snapshot && instrument.is_in_event {
            // Some snapshots have no last record: they end where the first record that is none begins.
            instrument.is_in_event = false;
            market.end(Some(book));
        }
        if !std::mem::replace(&mut instrument.is_in_event, !is_last) {
            market.begin(Some(book), record.head.event_time_ns);
        }
        if is_snapshot && !was_in_snapshot {
            // Some files begin a snapshot with R, others with the first order: either way nothing of before stays.
            self.books.clear(book, None, market);
        }
        match record.action {
            b'A' => self.add(book, record, market),
            b'C' => self.cancel(record, market),
            b'M' => self.modify(book, record, market),
            b'R' => self.books.clear(book, side_of(record.side), market),
            b'T' => trade(book, record, market),
            b'F' => {
                let told = self.books.fill(record.order, u64::from(record.size), market);
                self.bad.unknown_fill += u64::from(told.is_err());
            }
            b'N' => market.notice(Some(book), record),
            _ => self.bad.unknown += 1,
        }
        if is_last {
            market.end(Some(book));
        }
        is_last
    }

    /// The book whose snapshot ends ahead of this record, which is none of it: the book may be published before the record is applied.
    pub fn ends_before(&self, record: &Mbo) -> Option<BookId> {
        let book = self.book(record.head.instrument).filter(|_| record.flags & SNAPSHOT == 0)?;
        let instrument = &self.instruments[book.0 as usize];
        (instrument.is_in_snapshot && instrument.is_in_event).then_some(book)
    }

    /// How the best prices of a book stand to each other. Before the opening a crossed book is lawful.
    pub fn state(&self, book: BookId) -> BookState {
        self.books.state(book)
    }

    fn book_for(&mut self, instrument: u32) -> Option<BookId> {
        if let Some(book) = self.book(instrument) {
            return Some(book);
        }
        let book = BookId(self.instruments.len() as u32);
        if self.instruments.len() == MOST_INSTRUMENTS {
            return None;
        }
        self.numbers.insert(instrument, book);
        self.instruments.push(Instrument { is_in_snapshot: false, is_in_event: false });
        self.books.open(book);
        Some(book)
    }

    fn add<M: Market<Mbo>>(&mut self, book: BookId, record: &Mbo, market: &mut M) {
        let Some(order) = order_of(record) else {
            self.bad.unknown += 1;
            return;
        };
        if let Err(why) = self.books.add(book, &order, market) {
            self.bad.bad_add += 1;
            market.doubt(book, &why);
        }
    }

    fn cancel<M: Market<Mbo>>(&mut self, record: &Mbo, market: &mut M) {
        match self.books.cancel(record.order, u64::from(record.size), market) {
            Err(Refused::Exceeds { .. }) => self.bad.exceeds += 1,
            Err(_) => self.bad.unknown_order += 1,
            Ok(_) => {}
        }
    }

    fn modify<M: Market<Mbo>>(&mut self, book: BookId, record: &Mbo, market: &mut M) {
        let Some(order) = order_of(record) else {
            self.bad.unknown += 1;
            return;
        };
        if let Err(why) = self.books.change(&order, market) {
            self.bad.unknown_order += 1;
            market.doubt(book, &why);
        }
    }
}

/// The side of a trade is who traded at once; its order is theirs, not one of the book.
fn trade<M: Market<Mbo>>(book: BookId, record: &Mbo, market: &mut M) {
    let trade = Trade {
        number: u64::from(record.sequence),
        price: record.price,
        size: u64::from(record.size),
        aggressor: side_of(record.side),
        order: None,
        kind: TradeKind::Book,
        is_eligible: true,
    };
    market.trade(book, &trade);
}

fn side_of(side: u8) -> Option<Side> {
    match side {
        b'B' => Some(Side::Bid),
        b'A' => Some(Side::Ask),
        _ => None,
    }
}

fn order_of(record: &Mbo) -> Option<Order> {
    Some(Order {
        reference: record.order,
        side: side_of(record.side)?,
        price: record.price,
        size: u64::from(record.size),
        priority: record.head.event_time_ns,
        owner: 0,
    })
}
