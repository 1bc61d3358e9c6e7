//! The messages of Nasdaq TotalView-ITCH 5.0.
//!
//! Prices of orders and trades are unsigned integers of four implied decimals, those of market-wide circuit breakers of eight. A code is the
//! ASCII letter that the specification names.

use market::Side;
use thiserror::Error;

use super::layout::{Field, Text, messages};

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unreadable {
    /// There is no byte.
    #[error("a message without a byte")]
    Empty,
    /// The type is not one of this version.
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
    /// A field has a value that it cannot have.
    #[error("message {:?}: {field} has a value that it cannot have", char::from(*.code))]
    Value {
        /// The type.
        code: u8,
        /// The field.
        field: &'static str,
    },
}

messages! {
    /// A point of the day.
    b'S' 12 SystemEvent {
        /// O start of messages, S start of system hours, Q start of market hours, M their end, E end of system hours, C end of messages.
        event: u8 = 11,
    }
    /// A stock of the day, told before trading.
    b'R' 39 StockDirectory {
        /// Symbol.
        stock: Text<8> = 11,
        /// Listing market and tier: Q G S (Nasdaq), N A P Z V, or blank.
        market_category: u8 = 19,
        /// D deficient, E delinquent, Q bankrupt, S suspended, N normal, ...; blank: not Nasdaq's to say.
        financial_status: u8 = 20,
        /// Shares of a round lot.
        round_lot: u32 = 21,
        /// Y: only round lots are accepted.
        round_lots_only: u8 = 25,
        /// Class of the issue.
        issue_class: u8 = 26,
        /// Sub-type of the issue.
        issue_sub_type: Text<2> = 27,
        /// P live, T test.
        authenticity: u8 = 29,
        /// Y, N: subject to the short-sale close-out rule; blank: not told.
        short_sale_threshold: u8 = 30,
        /// Y: first day after an IPO.
        ipo: u8 = 31,
        /// Limit-up limit-down tier: 1, 2 or blank.
        luld_tier: u8 = 32,
        /// Y: exchange-traded product.
        etp: u8 = 33,
        /// How many times the index it moves.
        etp_leverage: u32 = 34,
        /// Y: it moves against the index.
        inverse: u8 = 38,
    }
    /// Trading state of a stock. A stock that no such message names before trading counts as halted.
    b'H' 25 TradingAction {
        /// Symbol.
        stock: Text<8> = 11,
        /// H halted everywhere, P paused, Q quoting only, T trading.
        state: u8 = 19,
        /// Not used.
        reserved: u8 = 20,
        /// Reason code.
        reason: Text<4> = 21,
    }
    /// Short-sale price test (Regulation SHO).
    b'Y' 20 RegSho {
        /// Symbol.
        stock: Text<8> = 11,
        /// 0 none, 1 in effect by a fall within the day, 2 remains in effect.
        action: u8 = 19,
    }
    /// A market maker's position in a stock.
    b'L' 26 ParticipantPosition {
        /// The market maker.
        mpid: Text<4> = 11,
        /// Symbol.
        stock: Text<8> = 15,
        /// Y: primary market maker.
        primary: u8 = 23,
        /// N normal, P passive, S syndicate, ...
        mode: u8 = 24,
        /// A active, E excused, W withdrawn, S suspended, D deleted.
        state: u8 = 25,
    }
    /// Levels of the market-wide circuit breakers for the day, with eight decimals.
    b'V' 35 BreakerLevels {
        /// Level 1.
        level1: u64 = 11,
        /// Level 2.
        level2: u64 = 19,
        /// Level 3.
        level3: u64 = 27,
    }
    /// A market-wide circuit breaker was reached.
    b'W' 12 BreakerStatus {
        /// 1, 2 or 3.
        level: u8 = 11,
    }
    /// When an IPO will be quoted.
    b'K' 28 IpoQuoting {
        /// Symbol.
        stock: Text<8> = 11,
        /// Seconds since midnight.
        release_time: u32 = 19,
        /// A anticipated, C cancelled or postponed.
        qualifier: u8 = 23,
        /// Price of the IPO.
        price: u32 = 24,
    }
    /// Collar of the auction after a limit-up limit-down pause.
    b'J' 35 AuctionCollar {
        /// Symbol.
        stock: Text<8> = 11,
        /// Reference price.
        reference: u32 = 19,
        /// Upper collar.
        upper: u32 = 23,
        /// Lower collar.
        lower: u32 = 27,
        /// Number of the extension.
        extension: u32 = 31,
    }
    /// A halt of one of the operator's markets.
    b'h' 21 OperationalHalt {
        /// Symbol.
        stock: Text<8> = 11,
        /// Q Nasdaq, B BX, X PSX.
        market: u8 = 19,
        /// H halted, T resumed.
        action: u8 = 20,
    }
    /// A new order whose owner is not told.
    b'A' 36 AddOrder {
        /// The order's number, unique in the day.
        order: u64 = 11,
        /// Side of the order.
        side: Side = 19,
        /// Shares.
        shares: u32 = 20,
        /// Symbol.
        stock: Text<8> = 24,
        /// Price.
        price: u32 = 32,
    }
    /// A new order with its owner.
    b'F' 40 AddAttributed {
        /// The order's number, unique in the day.
        order: u64 = 11,
        /// Side of the order.
        side: Side = 19,
        /// Shares.
        shares: u32 = 20,
        /// Symbol.
        stock: Text<8> = 24,
        /// Price.
        price: u32 = 32,
        /// The owner.
        mpid: Text<4> = 36,
    }
    /// An order was executed at its price.
    b'E' 31 Executed {
        /// The order.
        order: u64 = 11,
        /// Shares of this execution.
        shares: u32 = 19,
        /// The trade's number, unique in the day.
        match_number: u64 = 23,
    }
    /// An order was executed at another price.
    b'C' 36 ExecutedAt {
        /// The order.
        order: u64 = 11,
        /// Shares of this execution.
        shares: u32 = 19,
        /// The trade's number, unique in the day.
        match_number: u64 = 23,
        /// Y: part of time and sales; N: a cross trade will tell of it again.
        printable: u8 = 31,
        /// Price of the execution; that of the order stays.
        price: u32 = 32,
    }
    /// A part of an order was cancelled.
    b'X' 23 Cancelled {
        /// The order.
        order: u64 = 11,
        /// Shares that went.
        shares: u32 = 19,
    }
    /// An order is gone.
    b'D' 19 Deleted {
        /// The order.
        order: u64 = 11,
    }
    /// An order went and another came in its place, of the same side, stock and owner.
    b'U' 35 Replaced {
        /// The order that went.
        old: u64 = 11,
        /// The one that came.
        new: u64 = 19,
        /// Shares of the new order.
        shares: u32 = 27,
        /// Price of the new order.
        price: u32 = 31,
    }
    /// A trade with an order that no book showed.
    b'P' 44 HiddenTrade {
        /// 0.
        order: u64 = 11,
        /// Always B, which says nothing.
        side: u8 = 19,
        /// Shares.
        shares: u32 = 20,
        /// Symbol.
        stock: Text<8> = 24,
        /// Price.
        price: u32 = 32,
        /// The trade's number.
        match_number: u64 = 36,
    }
    /// All that was executed in a cross.
    b'Q' 40 CrossTrade {
        /// Shares; 0: there was no cross.
        shares: u64 = 11,
        /// Symbol.
        stock: Text<8> = 19,
        /// Price.
        price: u32 = 27,
        /// The trade's number.
        match_number: u64 = 31,
        /// O opening, C closing, H after a halt or IPO, I intraday.
        cross: u8 = 39,
    }
    /// A trade is void.
    b'B' 19 BrokenTrade {
        /// The trade's number.
        match_number: u64 = 11,
    }
    /// Net order imbalance before a cross.
    b'I' 50 Imbalance {
        /// Shares that would be executed.
        paired: u64 = 11,
        /// Shares that would not.
        imbalance: u64 = 19,
        /// B buy, S sell, N none, O insufficient orders.
        direction: u8 = 27,
        /// Symbol.
        stock: Text<8> = 28,
        /// Price by cross orders alone.
        far: u32 = 36,
        /// Price by cross and continuous orders.
        near: u32 = 40,
        /// Reference price.
        reference: u32 = 44,
        /// O opening, C closing, H halt or IPO, A extended close.
        cross: u8 = 48,
        /// How far the near price is from the reference.
        variation: u8 = 49,
    }
    /// Interest of retail customers inside the spread.
    b'N' 20 RetailInterest {
        /// Symbol.
        stock: Text<8> = 11,
        /// B buy, S sell, A both, N none.
        interest: u8 = 19,
    }
    /// A direct listing with a capital raise: the collars of its opening.
    b'O' 48 DirectListing {
        /// Symbol.
        stock: Text<8> = 11,
        /// Y: may be released for trading.
        open_eligible: u8 = 19,
        /// Lowest allowed price.
        minimum: u32 = 20,
        /// Highest allowed price.
        maximum: u32 = 24,
        /// Price at which it would open.
        near: u32 = 28,
        /// When that was computed, nanoseconds since midnight.
        near_time: u64 = 32,
        /// Lower collar.
        lower: u32 = 40,
        /// Upper collar.
        upper: u32 = 44,
    }
}
