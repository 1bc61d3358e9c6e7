//! Effects of IEX's messages on its books.

use std::collections::HashMap;

use market::{BookId, IexDeep, Level, OneBook, OrderBooks, Side};

use super::messages::{EVENT_COMPLETE, EXTENDED_HOURS, Message, ODD_LOT, TradeBreak, TradeReport, Unreadable};
use crate::market_events::{Market, Trade, TradeKind};
use crate::nasdaq::Text;

/// What was wrong, by kind; all are counted, none stops anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bad {
    /// Messages of types that are not known.
    pub unknown_type: u64,
    /// Messages that are shorter than their type.
    pub short: u64,
    /// A level was deleted that is not there.
    pub unknown_level: u64,
    /// A trade was broken that is not known, or was broken before.
    pub unknown_trade: u64,
    /// Symbols that are more than a feed has.
    pub too_many: u64,
    /// Levels and trades at a price of 0 or below it, which are taken as told: no share has one.
    pub price: u64,
}

/// Symbols of a feed at most.
const MOST_SYMBOLS: usize = 1 << 18;

/// Flag of a trade: single-price cross.
const CROSS: u8 = 0x08;

/// The symbols, books and trades of one session.
#[derive(Debug, Default)]
pub struct IexDay {
    symbols: HashMap<Text<8>, BookId>,
    books: OrderBooks<IexDeep>,
    /// By book: levels of an event have come, and its last has not.
    in_event: Vec<bool>,
    /// The session's trades by number, for when one of them is broken.
    trades: HashMap<i64, (BookId, Trade)>,
    messages: u64,
    bad: Bad,
}

impl IexDay {
    /// A session of which nothing has come.
    pub fn new() -> Self {
        Self::default()
    }

    /// The books; [`IexDay::number`] has the number of each.
    pub fn books(&self) -> &OrderBooks<IexDeep> {
        &self.books
    }

    /// The book of a number.
    pub fn book(&self, book: BookId) -> Option<OneBook<'_, IexDeep>> {
        ((book.0 as usize) < self.books.books()).then(|| self.books.book(book))
    }

    /// The number of a symbol's book.
    pub fn number(&self, symbol: Text<8>) -> Option<BookId> {
        self.symbols.get(&symbol).copied()
    }

    /// The number of a symbol's book, given now if it has none; `None`: there are too many.
    pub fn name(&mut self, symbol: Text<8>) -> Option<BookId> {
        if let Some(book) = self.number(symbol) {
            return Some(book);
        }
        if self.books.books() == MOST_SYMBOLS {
            self.bad.too_many += 1;
            return None;
        }
        let book = BookId(self.books.books() as u32);
        self.books.open(book);
        self.in_event.push(false);
        self.symbols.insert(symbol, book);
        Some(book)
    }

    /// Messages that could be read.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// What was wrong.
    pub fn bad(&self) -> &Bad {
        &self.bad
    }

    /// A new session: no level, no trade. Symbols keep their numbers.
    pub fn begin<M: Market<Message>>(&mut self, market: &mut M) {
        self.books.clear_all(market);
        self.in_event.fill(false);
        self.trades.clear();
    }

    /// Levels of an event have come, and its last has not: the book is not consistent.
    pub fn is_in_event(&self, book: BookId) -> bool {
        self.in_event.get(book.0 as usize).copied().unwrap_or(false)
    }

    /// Applies a message; `Err` tells what is wrong with it, which has been counted. The book may be published behind [`Market::end`], which
    /// messages within an event that is not complete do not have.
    ///
    /// # Errors
    /// The bytes are no message.
    pub fn apply<M: Market<Message>>(&mut self, bytes: &[u8], market: &mut M) -> Result<(), Unreadable> {
        match Message::decode(bytes) {
            Ok(message) => {
                self.apply_message(&message, market);
                Ok(())
            }
            Err(why) => {
                match why {
                    Unreadable::Type(_) => self.bad.unknown_type += 1,
                    Unreadable::Empty | Unreadable::Short { .. } => self.bad.short += 1,
                }
                Err(why)
            }
        }
    }

    /// Applies a message that has been read.
    pub fn apply_message<M: Market<Message>>(&mut self, message: &Message, market: &mut M) {
        self.messages += 1;
        let book = match message.symbol().map(|symbol| self.name(symbol)) {
            Some(None) => return,
            Some(Some(book)) => Some(book),
            None => None,
        };
        market.begin(book, message.time());
        match (message, book) {
            (Message::BuyLevel(m), Some(book)) => {
                self.set((book, Side::Bid), (m.price, m.size), m.flags, market);
            }
            (Message::SellLevel(m), Some(book)) => {
                self.set((book, Side::Ask), (m.price, m.size), m.flags, market);
            }
            (Message::TradeReport(m), Some(book)) => self.trade(book, m, market),
            (Message::TradeBreak(m), Some(book)) => self.break_trade(book, m, market),
            _ => market.notice(book, message),
        }
        if !book.is_some_and(|book| self.is_in_event(book)) {
            market.end(book);
        }
    }

    fn set<M: Market<Message>>(
        &mut self,
        (book, side): (BookId, Side),
        (price, size): (i64, u32),
        flags: u8,
        market: &mut M,
    ) {
        self.in_event[book.0 as usize] = flags & EVENT_COMPLETE == 0;
        self.bad.price += u64::from(price <= 0 && size > 0);
        let level = Level { price, size: u64::from(size), orders: 0 };
        // IEX deletes levels that are not there now and then; that says nothing of the others.
        if self.books.set(book, side, level, market).is_err() {
            self.bad.unknown_level += 1;
        }
    }

    fn trade<M: Market<Message>>(&mut self, book: BookId, m: &TradeReport, market: &mut M) {
        self.bad.price += u64::from(m.price <= 0);
        let trade = Trade {
            number: m.id as u64,
            price: m.price,
            size: u64::from(m.size),
            aggressor: None,
            order: None,
            kind: if m.flags & CROSS == 0 { TradeKind::Book } else { TradeKind::Cross(b'X') },
            is_eligible: m.flags & (EXTENDED_HOURS | ODD_LOT) == 0,
        };
        self.trades.insert(m.id, (book, trade));
        market.trade(book, &trade);
    }

    fn break_trade<M: Market<Message>>(&mut self, book: BookId, m: &TradeBreak, market: &mut M) {
        match self.trades.get(&m.id) {
            Some((of, trade)) if *of == book => {
                market.broken(book, trade);
                self.trades.remove(&m.id);
            }
            _ => self.bad.unknown_trade += 1,
        }
    }
}
