//! The messages of TOPS 1.6 and DEEP 1.0: administration alike in both, quotes in TOPS, price levels in DEEP. Prices have four decimals.

use thiserror::Error;

use super::layout::{Field, messages};
use crate::nasdaq::Text;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unreadable {
    /// There is no byte.
    #[error("a message without a byte")]
    Empty,
    /// The type is not one of these versions.
    #[error("message type {:?} is unknown", char::from(*.0))]
    Type(u8),
    /// Fewer bytes than the type has.
    #[error("message {:?} of {length} bytes", char::from(*.code))]
    Short {
        /// The type.
        code: u8,
        /// Bytes that there are.
        length: usize,
    },
}

/// Flag of a quote: the symbol is halted, or not available.
pub const QUOTE_HALTED: u8 = 0x80;
/// Flag of a quote: outside of regular hours.
pub const QUOTE_OUTSIDE_HOURS: u8 = 0x40;
/// Flag of a level: the event is complete, and the book consistent.
pub const EVENT_COMPLETE: u8 = 0x01;
/// Flag of a trade: in extended hours.
pub const EXTENDED_HOURS: u8 = 0x40;
/// Flag of a trade: of less than a round lot.
pub const ODD_LOT: u8 = 0x20;

messages! {
    /// A point of the day: O start of messages, S start of system hours, R start of regular hours, M their end, E end of system hours, C end of
    /// messages.
    b'S' 10 SystemEvent {}
    /// A security of the day. Flags: 0x80 test, 0x40 when issued, 0x20 ETP.
    b'D' 31 Directory {
        /// Symbol.
        symbol: Text<8> = 10,
        /// Shares of a round lot.
        lot: u32 = 18,
        /// Official closing price of the day before, adjusted; 0: none.
        previous_close: i64 = 22,
        /// Tier of limit up, limit down: 0 none, 1, 2.
        luld_tier: u8 = 30,
    }
    /// Trading status: H halted, O order acceptance period, P paused, T trading. A symbol that the day's first ones do not name counts as halted.
    b'H' 22 TradingStatus {
        /// Symbol.
        symbol: Text<8> = 10,
        /// Reason code.
        reason: Text<4> = 18,
    }
    /// Interest of retail customers: blank none, A buy, B sell, C both.
    b'I' 18 RetailInterest {
        /// Symbol.
        symbol: Text<8> = 10,
    }
    /// A halt of IEX alone: O halted, N not.
    b'O' 18 OperationalHalt {
        /// Symbol.
        symbol: Text<8> = 10,
    }
    /// Short-sale price test: 0 not in effect, 1 in effect.
    b'P' 19 ShortSaleTest {
        /// Symbol.
        symbol: Text<8> = 10,
        /// Blank none, A activated, C continued, D deactivated, N not available.
        detail: u8 = 18,
    }
    /// A point of the security's day: O its opening process is complete, C its closing process.
    b'E' 18 SecurityEvent {
        /// Symbol.
        symbol: Text<8> = 10,
    }
    /// The best quote (TOPS); a price of 0 is none.
    b'Q' 42 Quote {
        /// Symbol.
        symbol: Text<8> = 10,
        /// Shares at the bid.
        bid_size: u32 = 18,
        /// Best bid.
        bid: i64 = 22,
        /// Best ask.
        ask: i64 = 30,
        /// Shares at the ask.
        ask_size: u32 = 38,
    }
    /// A level of the bids (DEEP).
    b'8' 30 BuyLevel {
        /// Symbol.
        symbol: Text<8> = 10,
        /// Shares at the price now; 0: the level is gone.
        size: u32 = 18,
        /// Price of the level.
        price: i64 = 22,
    }
    /// A level of the asks (DEEP).
    b'5' 30 SellLevel {
        /// Symbol.
        symbol: Text<8> = 10,
        /// Shares at the price now; 0: the level is gone.
        size: u32 = 18,
        /// Price of the level.
        price: i64 = 22,
    }
    /// A trade. Flags: 0x80 intermarket sweep, 0x40 extended hours, 0x20 odd lot, 0x10 trade-through exempt, 0x08 single-price cross.
    b'T' 38 TradeReport {
        /// Symbol.
        symbol: Text<8> = 10,
        /// Shares.
        size: u32 = 18,
        /// Price of the trade.
        price: i64 = 22,
        /// Number of the trade, unique in a session.
        id: i64 = 30,
    }
    /// An official price: Q of the opening, M of the close.
    b'X' 26 OfficialPrice {
        /// Symbol.
        symbol: Text<8> = 10,
        /// The price.
        price: i64 = 18,
    }
    /// A trade of before is void.
    b'B' 38 TradeBreak {
        /// Symbol.
        symbol: Text<8> = 10,
        /// Shares.
        size: u32 = 18,
        /// Price of the trade.
        price: i64 = 22,
        /// Number of the trade that is broken.
        id: i64 = 30,
    }
    /// What an auction would trade now: O opening, C closing, I IPO, H halt, V volatility.
    b'A' 80 Auction {
        /// Symbol.
        symbol: Text<8> = 10,
        /// Shares that would be paired.
        paired: u32 = 18,
        /// Price at which imbalance is measured.
        reference: i64 = 22,
        /// Indicative clearing price.
        indicative: i64 = 30,
        /// Shares that would not be paired.
        imbalance: u32 = 38,
        /// B buy, S sell, N none.
        side: u8 = 42,
        /// How often it was put off.
        extension: u8 = 43,
        /// When it will be, seconds since 1970 UTC.
        scheduled: u32 = 44,
        /// Clearing price of the auction book.
        clearing: i64 = 48,
        /// Reference of the collar.
        collar: i64 = 56,
        /// Lower end of the collar.
        lower: i64 = 64,
        /// Upper end of the collar.
        upper: i64 = 72,
    }
}

impl Message {
    /// The symbol that the message is about; `None`: the market.
    pub fn symbol(&self) -> Option<Text<8>> {
        match self {
            Self::SystemEvent(_) => None,
            Self::Directory(m) => Some(m.symbol),
            Self::TradingStatus(m) => Some(m.symbol),
            Self::RetailInterest(m) => Some(m.symbol),
            Self::OperationalHalt(m) => Some(m.symbol),
            Self::ShortSaleTest(m) => Some(m.symbol),
            Self::SecurityEvent(m) => Some(m.symbol),
            Self::Quote(m) => Some(m.symbol),
            Self::BuyLevel(m) => Some(m.symbol),
            Self::SellLevel(m) => Some(m.symbol),
            Self::TradeReport(m) => Some(m.symbol),
            Self::OfficialPrice(m) => Some(m.symbol),
            Self::TradeBreak(m) => Some(m.symbol),
            Self::Auction(m) => Some(m.symbol),
        }
    }
}
