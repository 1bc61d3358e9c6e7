//! TotalView-ITCH messages, applied to books and told as items.

use std::collections::HashMap;

use market::{BookId, ReadBooks};
use venue::nasdaq::itch::Message;
use venue::nasdaq::{Bad, Text, TotalView};
use venue::sequence::Change;
use venue::{Trade, TradeKind};

use super::board::Board;
use super::input::tell_change;
use super::messages::{self, Messages, ToBoard};
use super::values::{Auction, Facts};
use crate::new_york;
use crate::session::{DAY, SECOND};

/// Prices have four decimals and are of US dollars; 43 is Nasdaq in the dictionary's table of `BIDXID`.
pub(super) const FACTS: Facts =
    Facts { decimals: 4, size_decimals: 0, currency: Some(840), exchange: None, quote_exchange: Some(43) };

/// Types of messages that name orders and trades: what the venue tells of stocks comes before them.
const TRAFFIC: &[u8] = b"AFECXDUPQ";

/// Stocks, books and trades of a day.
#[derive(Default)]
pub(super) struct ItchMessages {
    day: TotalView,
    notices: ItchNotices,
    /// Nanoseconds from 1970 to the day's midnight in New York.
    midnight: u64,
}

/// What the venue said of stocks and market.
#[derive(Default)]
struct ItchNotices {
    /// Trading state by locate, and whether Nasdaq's own market halts it.
    states: HashMap<u16, (u8, bool)>,
}

impl ItchMessages {
    /// The date in New York, as days since 1970.
    pub(super) fn of_date(date: u32) -> Self {
        Self { midnight: midnight(date), ..Self::default() }
    }

    /// When the day began in New York, nanoseconds since 1970.
    pub(super) fn midnight(&self) -> u64 {
        self.midnight
    }
}

impl Messages for ItchMessages {
    fn set_date(&mut self, wall: u64) {
        // The date in New York, whatever its clock: no feed runs at midnight.
        self.midnight = midnight((wall.saturating_sub(5 * 3_600 * SECOND) / DAY) as u32);
    }

    fn time(&self, message: &[u8]) -> Option<u64> {
        time_of(message).map(|time| self.midnight + time)
    }

    fn look_ahead(&mut self, messages: &mut dyn Iterator<Item = &[u8]>) {
        self.day.look_ahead(messages);
    }

    fn apply(&mut self, message: &[u8], at: u64, board: &mut Board) {
        board.midnight = self.midnight;
        board.begin(at);
        if let (Some(stock), Some(locate)) = (stock_of(message), locate_of(message).filter(|l| *l > 0))
            && !board.is_named(BookId(u32::from(locate)))
        {
            board.name_book(BookId(u32::from(locate)), &stock.trimmed());
        }
        // A message that cannot be read has been counted by its kind.
        let _unreadable = self.day.apply(message, &mut ToBoard { board, notices: &mut self.notices });
        board.settle(self.day.books());
    }

    fn change(&mut self, change: &Change, board: &mut Board) {
        if matches!(change, Change::Session { .. }) {
            self.day.begin(&mut ToBoard { board, notices: &mut self.notices });
            self.notices.states.clear();
        }
        tell_change(board, change);
        board.settle(self.day.books());
    }

    fn clear(&mut self, board: &mut Board) {
        self.day.clear_books(&mut ToBoard { board, notices: &mut self.notices });
        board.settle(self.day.books());
    }

    fn is_traffic(&self, message: &[u8]) -> bool {
        message.first().is_some_and(|code| TRAFFIC.contains(code))
    }

    fn books(&self) -> &dyn ReadBooks {
        self.day.books()
    }

    fn count(&self) -> u64 {
        self.day.messages()
    }

    fn bad(&self) -> Vec<(String, u64)> {
        Bad::ALL.iter().map(|kind| (kind.to_string(), self.day.bad(*kind))).collect()
    }
}

/// The stock of a message that names one.
fn stock_of(message: &[u8]) -> Option<Text<8>> {
    let at = match message.first()? {
        b'R' | b'H' | b'Y' | b'K' | b'J' | b'h' | b'N' | b'O' => 11,
        b'A' | b'F' | b'P' => 24,
        b'Q' => 19,
        b'L' => 15,
        b'I' => 28,
        _ => return None,
    };
    message.get(at..at + 8)?.try_into().ok().map(Text)
}

/// When it was midnight in New York, by the clock that is valid at noon: markets are closed when the clock changes.
fn midnight(date: u32) -> u64 {
    let noon = new_york::utc(date, DAY / 2);
    u64::from(noon.day) * DAY + noon.time - DAY / 2
}

/// Nanoseconds since midnight.
fn time_of(message: &[u8]) -> Option<u64> {
    let bytes: [u8; 6] = message.get(5..11)?.try_into().ok()?;
    Some(bytes.iter().fold(0, |time, byte| time << 8 | u64::from(*byte)))
}

fn locate_of(message: &[u8]) -> Option<u16> {
    message.get(1..3)?.try_into().ok().map(u16::from_be_bytes)
}

impl messages::Notices<Message> for ItchNotices {
    fn traded(&mut self, board: &mut Board, item: u32, trade: &Trade) {
        match trade.kind {
            TradeKind::Cross(b'O') => board.status(item, |status| status.official_open = Some(trade.price)),
            TradeKind::Cross(b'C') => board.status(item, |status| status.official_close = Some(trade.price)),
            _ => {}
        }
    }

    fn notice(&mut self, board: &mut Board, book: Option<BookId>, notice: &Message) {
        if let Message::SystemEvent(event) = notice {
            return self.system_event(event.event, board);
        }
        let Some(item) = book.and_then(|book| board.of_book(book)) else { return };
        match notice {
            Message::StockDirectory(m) => {
                // The day's directory has the last word on whose number it is.
                board.name_book(BookId(u32::from(m.locate)), &m.stock.trimmed());
                board.status(item, |status| status.lot = Some(m.round_lot));
            }
            Message::TradingAction(m) => {
                self.states.entry(m.locate).or_default().0 = m.state;
                self.tell_state(board, item, m.locate, &m.reason.trimmed());
            }
            Message::OperationalHalt(m) if m.market == b'Q' => {
                let state = self.states.entry(m.locate).or_insert((b'H', false));
                state.1 = m.action == b'H';
                self.tell_state(board, item, m.locate, if m.action == b'H' { "operational halt" } else { "" });
            }
            Message::RegSho(m) => {
                let short_sale = match m.action {
                    b'0' => 1,
                    b'1' => 4,
                    b'2' => 3,
                    _ => 0,
                };
                board.status(item, |status| status.short_sale = Some(short_sale));
            }
            Message::Imbalance(m) => {
                let price = |price: u32| (price > 0).then_some(i64::from(price));
                let side = match m.direction {
                    b'N' => 1,
                    b'B' => 2,
                    b'S' => 3,
                    b'O' => 4,
                    _ => 0,
                };
                let (price, reference) = (price(m.near), price(m.reference));
                board.auction(item, Auction { price, paired: m.paired, imbalance: m.imbalance, side, reference });
            }
            _ => {}
        }
    }
}

impl ItchNotices {
    fn begin_session(&mut self, board: &mut Board) {
        self.states.clear();
        board.begin_session();
    }

    fn system_event(&mut self, event: u8, board: &mut Board) {
        if event == b'O' {
            self.begin_session(board);
        }
        let phase = match event {
            b'S' => "PRE-MARKET",
            b'Q' => "REGULAR",
            b'M' => "LATE",
            b'E' | b'C' => "CLOSED",
            _ => return,
        };
        board.market_phase(phase);
    }

    fn tell_state(&self, board: &mut Board, item: u32, locate: u16, reason: &str) {
        let (state, is_halted) = self.states.get(&locate).copied().unwrap_or_default();
        // `TRD_STATUS` and `INST_PHASE`: continuous trading, quotation only, or nothing that is known.
        let (trading, phase) = match state {
            _ if is_halted => (2, 0),
            b'T' => (1, 3),
            b'Q' => (4, 16),
            _ => (2, 0),
        };
        board.status(item, |status| {
            (status.trading, status.phase) = (Some(trading), Some(phase));
            reason.clone_into(&mut status.reason);
        });
    }
}
