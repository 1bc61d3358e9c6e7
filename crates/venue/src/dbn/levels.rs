//! Books that records of the ten best prices make.

use std::collections::HashMap;

use market::{BookId, ByPrice, Level, OrderBooks, Rules, Side};

use super::{LAST, MOST_INSTRUMENTS, Mbp10, UNDEFINED_PRICE, side_of};
use crate::market_events::{Market, Trade, TradeKind};

/// Databento's levels: each record has all of them. Before the opening a book is crossed.
#[derive(Clone, Copy, Debug)]
pub struct DbnLevels;

impl Rules for DbnLevels {}
impl ByPrice for DbnLevels {}

/// The books of the instruments of a file by price.
#[derive(Debug, Default)]
pub struct MbpBooks {
    books: OrderBooks<DbnLevels>,
    numbers: HashMap<u32, BookId>,
    /// Records of instruments that this channel cannot hold.
    too_many: u64,
}

impl MbpBooks {
    /// No instrument.
    pub fn new() -> Self {
        Self::default()
    }

    /// The books; [`MbpBooks::book`] has their numbers.
    pub fn books(&self) -> &OrderBooks<DbnLevels> {
        &self.books
    }

    /// The book of an instrument that has come.
    pub fn book(&self, instrument: u32) -> Option<BookId> {
        self.numbers.get(&instrument).copied()
    }

    /// Records of instruments that are too many.
    pub fn too_many(&self) -> u64 {
        self.too_many
    }

    /// Applies a record. True: it is the last of its event, and the book may be published.
    pub fn apply<M: Market<Mbp10>>(&mut self, record: &Mbp10, market: &mut M) -> bool {
        let change = &record.change;
        let Some(book) = self.book_for(change.head.instrument) else {
            self.too_many += 1;
            return false;
        };
        market.begin(Some(book), change.head.event_time_ns);
        if change.action == b'T' && change.price != UNDEFINED_PRICE {
            let trade = Trade {
                number: u64::from(change.sequence),
                price: change.price,
                size: u64::from(change.size),
                aggressor: side_of(change.side),
                order: None,
                kind: TradeKind::Book,
                is_eligible: true,
            };
            market.trade(book, &trade);
        }
        for side in Side::BOTH {
            self.set_side(book, side, record, market);
        }
        market.end(Some(book));
        change.flags & LAST != 0
    }

    /// What a record does not have any more goes first, so that there are never more levels than it has.
    fn set_side<M: Market<Mbp10>>(&mut self, book: BookId, side: Side, record: &Mbp10, market: &mut M) {
        let new = || {
            let levels = record.levels.iter().map(|pair| pair[side as usize]);
            levels.filter(|level| level.price != UNDEFINED_PRICE && level.size > 0)
        };
        let is_gone = |level: &Level| !new().any(|new| new.price == level.price);
        let gone: Vec<Level> = self.books.levels(book, side).filter(is_gone).collect();
        let changed = new().filter(|level| self.books.level(book, side, level.price) != Some(*level));
        let changed: Vec<Level> =
            gone.into_iter().map(|level| Level { size: 0, orders: 0, ..level }).chain(changed).collect();
        for level in changed {
            // Deleted is only what stands.
            let _stood = self.books.set(book, side, level, market);
        }
    }

    fn book_for(&mut self, instrument: u32) -> Option<BookId> {
        if let Some(book) = self.book(instrument) {
            return Some(book);
        }
        let book = BookId(self.books.books() as u32);
        if self.books.books() == MOST_INSTRUMENTS {
            return None;
        }
        self.numbers.insert(instrument, book);
        self.books.open(book);
        Some(book)
    }
}
