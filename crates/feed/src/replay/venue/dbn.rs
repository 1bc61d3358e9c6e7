//! Databento files: orders, of which books are made, prices of any depth, trades, and what the venue says of instruments.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use market::{BookId, Event, Events, Level, ReadBooks, Refused, Side};
use venue::dbn::{
    DbnReader, Head, Mbo, MboBooks, Mbp1, Mbp10, MbpBooks, Metadata, Record, SNAPSHOT, Statistic, TradingStatus,
    UNDEFINED_PRICE,
};
use venue::{Market, Trade};

use super::board::Board;
use super::bytes::Bytes;
use super::input::Input;
use super::values::{Facts, Print};
use crate::Model;
use rwf::Date;

use crate::session::{DAY, Nanos};

/// Prices have nine decimals; neither currency nor exchange is told.
pub(super) const FACTS: Facts =
    Facts { decimals: 9, size_decimals: 0, currency: None, exchange: None, quote_exchange: None };

/// Schemas whose records make books by order, and by price.
const BY_ORDER: u16 = 0;
const BY_PRICE: u16 = 2;
/// The others that are read: best prices (mbp-1, tbbo, cmbp-1, cbbo-1s, cbbo-1m, tcbbo, bbo-1s, bbo-1m), trades, statistics, status.
const PRICES_ALONE: [u16; 11] = [1, 3, 4, 10, 11, 14, 15, 16, 17, 18, 19];

/// A file that is being read.
pub(super) struct Dbn {
    bytes: Bytes,
    reader: DbnReader,
    piece: Vec<u8>,
    has_ended: bool,
    next: Option<Record>,
    books: MboBooks,
    levels: MbpBooks,
    schema: u16,
    /// Items of instruments that have no book.
    quoted: HashMap<u32, u32>,
    records: u64,
    /// Records of types that are not read.
    other: u64,
    trouble: Option<String>,
    now: u64,
}

impl Dbn {
    /// Opens a file and reads what it says of itself.
    ///
    /// # Errors
    /// It cannot be read, is no such file, or has records of another schema alone.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut new = Self {
            bytes: Bytes::open(path)?,
            reader: DbnReader::new(),
            piece: Vec::new(),
            has_ended: false,
            next: None,
            books: MboBooks::new(),
            levels: MbpBooks::new(),
            schema: BY_ORDER,
            quoted: HashMap::new(),
            records: 0,
            other: 0,
            trouble: None,
            now: 0,
        };
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
        while new.reader.metadata().map_err(|why| invalid(why.to_string()))?.is_none() {
            if !new.push() {
                return Err(invalid("it ends within what it says of itself".to_owned()));
            }
        }
        let schema = new.metadata().map_or(BY_ORDER, |metadata| metadata.schema);
        new.schema = schema;
        if ![BY_ORDER, BY_PRICE].contains(&schema) && !PRICES_ALONE.contains(&schema) {
            let known = "mbo, mbp-1, mbp-10, trades, tbbo, bbo, cmbp-1, cbbo, tcbbo, statistics and status are";
            return Err(invalid(format!("its records are of schema {schema}, which is not read: {known}")));
        }
        new.fill();
        Ok(new)
    }

    fn metadata(&mut self) -> Option<&Metadata> {
        self.reader.metadata().ok().flatten()
    }

    /// Models that the file's records make.
    pub(super) fn models(&self) -> &'static [Model] {
        match self.schema {
            BY_ORDER => &[Model::Price, Model::ByOrder, Model::ByPrice],
            BY_PRICE => &[Model::Price, Model::ByPrice],
            _ => &[Model::Price],
        }
    }

    /// Symbols that the file says it has.
    pub(super) fn symbols(&mut self) -> Vec<String> {
        let mappings = self.metadata().map(|metadata| metadata.mappings.as_slice()).unwrap_or_default();
        mappings.iter().map(|mapping| mapping.symbol.clone()).collect()
    }

    fn push(&mut self) -> bool {
        self.has_ended = self.has_ended || !self.bytes.next(&mut self.piece);
        if !self.has_ended {
            self.reader.push(&self.piece);
        }
        !self.has_ended
    }

    /// Reads the next record of a type that is read.
    fn fill(&mut self) {
        self.next = None;
        while self.next.is_none() {
            match self.reader.next_record() {
                Ok(Some(Record::Other(_))) => self.other += 1,
                Ok(Some(record)) => self.next = Some(record),
                Ok(None) => {
                    if !self.push() {
                        return;
                    }
                }
                Err(why) => {
                    self.trouble = Some(format!("{why}; nothing behind it can be read"));
                    return;
                }
            }
        }
        // Orders of a snapshot have times of their own; the file's pace is that of its capture.
        let at = match self.next {
            Some(Record::Mbo(record)) => record.receive_time_ns,
            Some(Record::Mbp1(record)) => record.head.event_time_ns,
            Some(Record::Mbp10(record)) => record.change.head.event_time_ns,
            Some(Record::Trade(record)) => record.head.event_time_ns,
            Some(Record::Statistic(record)) => record.head.event_time_ns,
            Some(Record::Status(record)) => record.head.event_time_ns,
            _ => 0,
        };
        self.now = self.now.max(at);
    }

    /// The venue's symbol of an instrument, else its number.
    fn symbol(&mut self, instrument: u32) -> String {
        let date = Date::from_days((self.now / DAY) as u32);
        let day = u32::from(date.year) * 10_000 + u32::from(date.month) * 100 + u32::from(date.day);
        let symbol = self.metadata().and_then(|metadata| metadata.symbol(instrument, day)).map(str::to_owned);
        symbol.unwrap_or_else(|| instrument.to_string())
    }

    fn apply_mbo(&mut self, record: &Mbo, board: &mut Board) {
        if let Some(book) = self.books.ends_before(record) {
            board.settle_book(book, self.books.books());
        }
        if self.books.book(record.head.instrument).is_none() {
            // The book gets the next number when its first record is applied.
            let book = BookId(self.books.books().books() as u32);
            let symbol = self.symbol(record.head.instrument);
            board.name_book(book, &symbol);
        }
        let is_snapshot = record.flags & SNAPSHOT != 0;
        board.begin(if is_snapshot { record.receive_time_ns } else { record.head.event_time_ns });
        let is_last = self.books.apply(record, &mut ToBoard { board });
        if let (true, Some(book)) = (is_last, self.books.book(record.head.instrument)) {
            board.settle_book(book, self.books.books());
        }
    }

    /// The item of an instrument that has no book here, at the time of a record of it.
    fn begin(&mut self, head: &Head, board: &mut Board) -> u32 {
        let item = if let Some(item) = self.quoted.get(&head.instrument) {
            *item
        } else {
            let symbol = self.symbol(head.instrument);
            let item = board.item(&symbol);
            self.quoted.insert(head.instrument, item);
            item
        };
        board.begin(head.event_time_ns);
        item
    }

    fn apply_mbp(&mut self, record: &Mbp1, board: &mut Board) {
        let item = self.begin(&record.head, board);
        if record.action == b'T' {
            tell_trade(item, record, board);
        }
        let level = |level: Level| Some(level).filter(|level| level.price != UNDEFINED_PRICE);
        board.quote(item, level(record.bid), level(record.ask));
    }

    fn apply_mbp10(&mut self, record: &Mbp10, board: &mut Board) {
        let head = &record.change.head;
        if self.levels.book(head.instrument).is_none() {
            // The book gets the next number when its first record is applied.
            let book = BookId(self.levels.books().books() as u32);
            let symbol = self.symbol(head.instrument);
            board.name_book(book, &symbol);
        }
        board.begin(head.event_time_ns);
        let is_last = self.levels.apply(record, &mut ToBoard { board });
        if let (true, Some(book)) = (is_last, self.levels.book(head.instrument)) {
            board.settle_book(book, self.levels.books());
        }
    }

    /// Figures that are taken back are as none.
    fn apply_statistic(&mut self, record: &Statistic, board: &mut Board) {
        let item = self.begin(&record.head, board);
        let is_taken_back = record.update_action == 2;
        let price = Some(record.price).filter(|price| *price != UNDEFINED_PRICE && !is_taken_back);
        board.status(item, |status| {
            let [high, low] = status.limits.unwrap_or_default();
            match record.kind {
                1 => status.official_open = price,
                3 => status.settlement = price,
                9 => status.open_interest = record.quantity.filter(|_| !is_taken_back),
                11 => status.official_close = price,
                17 => status.limits = Some([price, low]),
                18 => status.limits = Some([high, price]),
                _ => {}
            }
        });
    }

    /// `TRD_STATUS`: 1 normal, 2 halted, 3 suspended, 4 before or behind trading; what is no state of trading leaves it.
    fn apply_status(&mut self, record: &TradingStatus, board: &mut Board) {
        let item = self.begin(&record.head, board);
        let trading = match record.action {
            0 | 14 => None,
            7 => Some(1),
            8 | 9 | 15 => Some(2),
            10 => Some(3),
            _ => Some(4),
        };
        board.status(item, |status| {
            status.trading = trading.or(status.trading);
            match record.short_sale {
                b'Y' => status.short_sale = Some(4),
                b'N' => status.short_sale = Some(1),
                _ => {}
            }
        });
    }
}

/// The side of the record is that of the trader who did not wait in the book.
fn tell_trade(item: u32, record: &Mbp1, board: &mut Board) {
    let aggressor = match record.side {
        b'B' => Some(Side::Bid),
        b'A' => Some(Side::Ask),
        _ => None,
    };
    let (number, size) = (u64::from(record.sequence), u64::from(record.size));
    let (price, at) = (record.price, record.head.event_time_ns);
    if price != UNDEFINED_PRICE {
        board.trade(item, Print { number, price, size, at, aggressor, is_eligible: true });
    }
}

impl Input for Dbn {
    fn next_at(&self) -> Option<u64> {
        self.next.map(|_| self.now)
    }

    fn step(&mut self, board: &mut Board) {
        match self.next {
            Some(Record::Mbo(record)) => self.apply_mbo(&record, board),
            Some(Record::Mbp1(record)) => {
                self.apply_mbp(&record, board);
                board.settle(self.books.books());
            }
            Some(Record::Mbp10(record)) => self.apply_mbp10(&record, board),
            Some(Record::Trade(record)) => {
                let item = self.begin(&record.head, board);
                let venue::dbn::Print { head, price, size, action, side, flags, sequence } = record;
                let none = Level { price: UNDEFINED_PRICE, size: 0, orders: 0 };
                tell_trade(
                    item,
                    &Mbp1 { head, price, size, action, side, flags, sequence, bid: none, ask: none },
                    board,
                );
            }
            Some(Record::Statistic(record)) => self.apply_statistic(&record, board),
            Some(Record::Status(record)) => self.apply_status(&record, board),
            _ => {}
        }
        self.records += 1;
        self.fill();
    }

    fn settles_itself(&self) -> bool {
        true
    }

    fn is_at_traffic(&self) -> bool {
        false
    }

    fn books(&self) -> &dyn ReadBooks {
        if self.schema == BY_PRICE { self.levels.books() } else { self.books.books() }
    }

    fn at_clock(&self, since_midnight: Nanos) -> u64 {
        self.now / DAY * DAY + since_midnight
    }

    fn messages(&self) -> u64 {
        self.records
    }

    fn unread(&self) -> Option<String> {
        let torn = (self.has_ended && self.reader.rest() > 0)
            .then(|| format!("the last record is torn: {} bytes of it are there", self.reader.rest()));
        self.bytes.trouble().map(str::to_owned).or_else(|| self.trouble.clone()).or(torn)
    }

    fn remarks(&self) -> Option<String> {
        let bad = self.books.bad();
        let kinds = [
            ("orders that are not there", bad.unknown_order),
            ("orders that cannot be added", bad.bad_add),
            ("cancels of more than there was", bad.exceeds),
            ("orders and trades without a price", bad.no_price),
            ("unknown actions and sides", bad.unknown),
            ("records of too many instruments", bad.too_many + self.levels.too_many()),
            ("records of types that are not read", self.other),
        ];
        let texts: Vec<String> =
            kinds.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{what}: {count}")).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

/// Takes what records tell.
struct ToBoard<'a> {
    board: &'a mut Board,
}

impl Events for ToBoard<'_> {
    const WANTS_RANK: bool = false;

    #[inline]
    fn event(&mut self, book: BookId, event: &Event) {
        self.board.event(book, event);
    }
}

impl<N> Market<N> for ToBoard<'_> {
    fn trade(&mut self, book: BookId, trade: &Trade) {
        let Some(item) = self.board.of_book(book) else { return };
        let Trade { number, price, size, aggressor, .. } = *trade;
        let at = self.board.now();
        if price != UNDEFINED_PRICE {
            self.board.trade(item, Print { number, price, size, at, aggressor, is_eligible: true });
        }
    }

    fn doubt(&mut self, book: BookId, why: &Refused) {
        self.board.doubt_book(book, &format!("records are missing: {why}"));
    }
}
