//! Databento's DBN: files of normalised records, and the book that records by order make.
//!
//! A file, once unpacked (it may be several zstd frames, of which the first holds no record), is "DBN", a version, a length and that many bytes of
//! metadata, then records. Everything is little endian. A record says its length in words of four bytes: what is not known is passed over by it.
//! Prices are integers of nine decimals; `i64::MAX` is none. Versions 1 to 3 have the records that are read here in one layout, but for statistics,
//! whose length tells which it is.

use std::collections::HashMap;

use market::{BookId, BookState, DbnMbo, Order, OrderBooks, Refused, Side};

use crate::market_events::{Market, Trade, TradeKind};

mod levels;
mod records;
mod stream;

pub use levels::{DbnLevels, MbpBooks};
pub use records::{
    DbnFile, Head, LAST, Mbo, Mbp1, Mbp10, NotDbn, Print, Record, SNAPSHOT, Statistic, TradingStatus, UNDEFINED_PRICE,
};
pub use stream::{DbnReader, Mapping, Metadata};

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
    /// An order or a trade without a price.
    pub no_price: u64,
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
            b'T' if record.price == UNDEFINED_PRICE => self.bad.no_price += 1,
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
        let Some(order) = self.order_of(book, record, market) else { return };
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
        let Some(order) = self.order_of(book, record, market) else { return };
        if let Err(why) = self.books.change(&order, market) {
            self.bad.unknown_order += 1;
            market.doubt(book, &why);
        }
    }

    /// The order of a record; `None`, which is counted: it has no side or no price.
    fn order_of<M: Market<Mbo>>(&mut self, book: BookId, record: &Mbo, market: &mut M) -> Option<Order> {
        let Some(side) = side_of(record.side) else {
            self.bad.unknown += 1;
            return None;
        };
        if record.price == UNDEFINED_PRICE {
            self.bad.no_price += 1;
            market.doubt(book, &Refused::NoPrice(record.order));
            return None;
        }
        let (size, priority) = (u64::from(record.size), record.head.event_time_ns);
        Some(Order { reference: record.order, side, price: record.price, size, priority, owner: 0 })
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
