//! Messages of IEX, applied to books and told as items.

use std::collections::HashMap;

use market::{BookId, Level, ReadBooks};
use venue::iex::IexDay;
use venue::iex::messages::{Message, Unreadable};
use venue::nasdaq::Text;
use venue::sequence::Change;

use super::board::Board;
use super::input::tell_change;
use super::messages::{self, Messages, ToBoard};
use super::values::{Auction, Facts};

/// Prices have four decimals and are of US dollars; 229 is IEX in the tables of short numbers of exchanges, 1386 in that of `RDN_EXCHD2`.
pub(super) const FACTS: Facts =
    Facts { decimals: 4, size_decimals: 0, currency: Some(840), exchange: Some(1_386), quote_exchange: Some(229) };

/// Symbols, books and trades of a session.
#[derive(Default)]
pub(super) struct IexMessages {
    day: IexDay,
    notices: IexNotices,
    /// Messages that cannot be read, by type.
    unreadable: HashMap<u8, u64>,
}

/// What the exchange said of securities: trading status by book, and whether IEX alone halts it.
#[derive(Default)]
struct IexNotices {
    states: HashMap<BookId, (u8, bool)>,
}

impl Messages for IexMessages {
    fn time(&self, message: &[u8]) -> Option<u64> {
        message.get(2..10)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn apply(&mut self, message: &[u8], at: u64, board: &mut Board) {
        board.begin(at);
        let symbol = match message.first() {
            Some(b'S') | None => None,
            Some(_) => message.get(10..18).and_then(|symbol| symbol.try_into().ok()).map(Text),
        };
        let book = symbol.and_then(|symbol| Some((self.day.name(symbol)?, symbol)));
        if let Some((book, symbol)) = book.filter(|(book, _)| !board.is_named(*book)) {
            board.name_book(book, &symbol.trimmed());
        }
        if let Err(Unreadable::Type(code) | Unreadable::Short { code, .. }) =
            self.day.apply(message, &mut ToBoard { board, notices: &mut self.notices })
        {
            *self.unreadable.entry(code).or_default() += 1;
        }
        if let Some((book, _)) = book.filter(|(book, _)| !self.day.is_in_event(*book)) {
            board.settle_book(book, self.day.books());
        }
    }

    fn change(&mut self, change: &Change, board: &mut Board) {
        if matches!(change, Change::Session { .. }) {
            self.day.begin(&mut ToBoard { board, notices: &mut self.notices });
            self.notices.states.clear();
        }
        tell_change(board, change);
        board.settle(self.day.books());
    }

    /// Securities are told of one by one, each with its first quote: which there are is known at the end alone.
    fn is_traffic(&self, _message: &[u8]) -> bool {
        false
    }

    fn books(&self) -> &dyn ReadBooks {
        self.day.books()
    }

    fn count(&self) -> u64 {
        self.day.messages()
    }

    fn bad(&self) -> Vec<(String, u64)> {
        let day = self.day.bad();
        let kinds = [
            ("deletions of levels that are not there", day.unknown_level),
            ("breaks of trades that are not there", day.unknown_trade),
            ("symbols too many", day.too_many),
            ("levels and trades at a price of 0 or below it", day.price),
        ];
        let mut bad: Vec<_> = kinds.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect();
        let mut unreadable: Vec<_> = self.unreadable.iter().collect();
        unreadable.sort_unstable();
        let text = |code: u8| format!("messages of type {:?} that cannot be read", char::from(code));
        bad.extend(unreadable.into_iter().map(|(code, count)| (text(*code), *count)));
        bad
    }
}

/// A price of 0 is none.
fn price(price: i64) -> Option<i64> {
    Some(price).filter(|price| *price != 0)
}

impl messages::Notices<Message> for IexNotices {
    fn notice(&mut self, board: &mut Board, book: Option<BookId>, notice: &Message) {
        if let Message::SystemEvent(event) = notice {
            let phase = match event.flags {
                b'S' => "PRE-MARKET",
                b'R' => "REGULAR",
                b'M' => "LATE",
                b'E' | b'C' => "CLOSED",
                _ => return,
            };
            return board.market_phase(phase);
        }
        let Some((book, item)) = book.and_then(|book| Some((book, board.of_book(book)?))) else { return };
        match notice {
            Message::Quote(m) => {
                let side = |value: i64, size: u32| {
                    price(value).filter(|_| size > 0).map(|price| Level { price, size: u64::from(size), orders: 0 })
                };
                board.quote(item, side(m.bid, m.bid_size), side(m.ask, m.ask_size));
            }
            Message::Directory(m) => board.status(item, |status| {
                (status.lot, status.adjusted_close) = (Some(m.lot), price(m.previous_close));
            }),
            Message::TradingStatus(m) => {
                self.states.entry(book).or_default().0 = m.flags;
                self.tell_state(board, item, book, &m.reason.trimmed());
            }
            Message::OperationalHalt(m) => {
                let is_halted = m.flags == b'O';
                let state = self.states.entry(book).or_insert((b'H', false));
                if std::mem::replace(&mut state.1, is_halted) != is_halted {
                    self.tell_state(board, item, book, if is_halted { "operational halt" } else { "" });
                }
            }
            Message::ShortSaleTest(m) => {
                let short_sale = match (m.flags, m.detail) {
                    (0, _) => 1,
                    (_, b'C') => 3,
                    _ => 4,
                };
                board.status(item, |status| status.short_sale = Some(short_sale));
            }
            Message::OfficialPrice(m) => board.status(item, |status| match m.flags {
                b'Q' => status.official_open = price(m.price),
                b'M' => status.official_close = price(m.price),
                _ => {}
            }),
            Message::Auction(m) => {
                let side = match m.side {
                    b'N' => 1,
                    b'B' => 2,
                    b'S' => 3,
                    _ => 0,
                };
                let (paired, imbalance) = (u64::from(m.paired), u64::from(m.imbalance));
                let (price, reference) = (price(m.indicative), price(m.reference));
                board.auction(item, Auction { price, paired, imbalance, side, reference });
            }
            _ => {}
        }
    }
}

impl IexNotices {
    fn tell_state(&self, board: &mut Board, item: u32, book: BookId, reason: &str) {
        let (state, is_halted) = self.states.get(&book).copied().unwrap_or_default();
        // `TRD_STATUS` and `INST_PHASE`: continuous trading, the orders of an auction, or nothing that is known.
        let (trading, phase) = match state {
            _ if is_halted => (2, 0),
            b'T' => (1, 3),
            b'O' => (4, 2),
            _ => (2, 0),
        };
        board.status(item, |status| {
            (status.trading, status.phase) = (Some(trading), Some(phase));
            reason.clone_into(&mut status.reason);
        });
    }
}
