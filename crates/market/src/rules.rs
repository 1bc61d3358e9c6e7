//! What venues mean by the same words, as types: a book is made for one venue's rules and cannot be driven by another's.

use crate::event::{Order, Side};

/// Effect of an execution message on the order that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillRule {
    /// The executed size leaves the order; at 0 the order is gone.
    Takes,
    /// Nothing: a cancel or change of the order follows and takes it. Who takes the fill as well takes it twice.
    Reported,
}

/// Meaning of [`Order::priority`], and whether it decides the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// The time since which the order has its place, in nanoseconds; the place itself is that of arrival.
    Time,
    /// The venue's number: lower numbers of a price stand before higher ones, whatever the order of arrival.
    Number,
}

/// Extent of a clear message that names a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClearRule {
    /// The venue has no such message: only a new session empties its books.
    SessionOnly,
    /// The named side; both if it names none.
    NamedSide,
    /// The whole book, whatever is named.
    WholeBook,
}

/// What it means that the best bid is above the best ask between two messages of the venue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrossedRule {
    /// It can be so (before the opening, in test traffic, between messages that belong together): it is told as it is.
    Lawful,
    /// The venue trades such orders before it tells of them: something was lost, and the book is not to be believed.
    MeansLoss,
}

/// The rules of a venue.
pub trait Rules {
    /// As many of the venue's smallest units have nearly all prices of its orders between them: those are found without a search. 0: there is no such
    /// number, or it differs from instrument to instrument. Prices between two ticks are as good, and slower.
    const TICK: i64 = 0;
    /// Extent of a clear.
    const CLEAR: ClearRule = ClearRule::WholeBook;
    /// Meaning of a crossed book.
    const CROSSED: CrossedRule = CrossedRule::Lawful;

    /// Which side a clear that names `side` empties; `None`: both.
    fn cleared(side: Option<Side>) -> Option<Side> {
        match Self::CLEAR {
            ClearRule::NamedSide => side,
            ClearRule::WholeBook | ClearRule::SessionOnly => None,
        }
    }
}

/// The rules of a venue that tells every order.
pub trait ByOrder: Rules {
    /// Effect of a fill.
    const FILL: FillRule;
    /// Meaning of an order's priority.
    const PRIORITY: Priority;
    /// Whether an order that is changed from `old` to `new` under one number stands where it stood.
    fn keeps_place(old: &Order, new: &Order) -> bool;
}

/// The rules of a venue that tells what stands at a price.
pub trait ByPrice: Rules {}

/// The rules of a venue that tells what stands at a rank.
pub trait ByRank: Rules {}

/// Nasdaq TotalView-ITCH 5.0: executions reduce the order at its place; a replaced order has a new number and stands last; nothing but a
/// new day empties a book.
#[derive(Clone, Copy, Debug)]
pub struct NasdaqItch;

impl Rules for NasdaqItch {
    /// A cent.
    const TICK: i64 = 100;
    const CLEAR: ClearRule = ClearRule::SessionOnly;
}

impl ByOrder for NasdaqItch {
    const FILL: FillRule = FillRule::Takes;
    const PRIORITY: Priority = Priority::Time;

    fn keeps_place(_old: &Order, _new: &Order) -> bool {
        false
    }
}

/// Databento's normalised orders (DBN, schema MBO): T and F take nothing, the C or M after them does; M with another price or a larger
/// size stands last, with a smaller size stays; R empties the side that it names. Before the opening a book is crossed.
#[derive(Clone, Copy, Debug)]
pub struct DbnMbo;

impl Rules for DbnMbo {
    const CLEAR: ClearRule = ClearRule::NamedSide;
}

impl ByOrder for DbnMbo {
    const FILL: FillRule = FillRule::Reported;
    const PRIORITY: Priority = Priority::Time;

    fn keeps_place(old: &Order, new: &Order) -> bool {
        old.side == new.side && old.price == new.price && new.size <= old.size
    }
}

/// CME MDP 3.0 by order: each change brings the order's priority number, and that alone decides its place.
#[derive(Clone, Copy, Debug)]
pub struct CmeMdp;

impl Rules for CmeMdp {}

impl ByOrder for CmeMdp {
    const FILL: FillRule = FillRule::Reported;
    const PRIORITY: Priority = Priority::Number;

    fn keeps_place(old: &Order, new: &Order) -> bool {
        old.side == new.side && old.price == new.price && old.priority == new.priority
    }
}

/// CME MDP 3.0 by price: levels have ranks, those of orders and those that are implied.
#[derive(Clone, Copy, Debug)]
pub struct CmeLevels;

impl Rules for CmeLevels {}
impl ByRank for CmeLevels {}

/// IEX DEEP 1.0: levels by price; size 0 deletes one, now and then one that is not there; test traffic is crossed.
#[derive(Clone, Copy, Debug)]
pub struct IexDeep;

impl Rules for IexDeep {
    const CLEAR: ClearRule = ClearRule::SessionOnly;
}
impl ByPrice for IexDeep {}

/// Kraken's books: levels by price, cut to the depth behind each message. Checksums tell what was lost.
#[derive(Clone, Copy, Debug)]
pub struct KrakenLevels;

impl Rules for KrakenLevels {}
impl ByPrice for KrakenLevels {}
