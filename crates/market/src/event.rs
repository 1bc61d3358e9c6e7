//! What a book is made of and what it tells: sides, orders, levels, and the events that a change makes.

/// Number of a book within an [`OrderBooks`](crate::OrderBooks): what the venue's handler has made of its instrument's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BookId(pub u32);

/// A side of a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// Buyers; the highest price is the best.
    Bid,
    /// Sellers; the lowest price is the best.
    Ask,
}

impl Side {
    /// Both sides, bids first.
    pub const BOTH: [Self; 2] = [Self::Bid, Self::Ask];

    /// The other side.
    #[must_use]
    #[inline]
    pub fn opposite(self) -> Self {
        match self {
            Self::Bid => Self::Ask,
            Self::Ask => Self::Bid,
        }
    }

    /// A number that rises from the worst price to the best. Reversing by complement has no price that it cannot reverse, as
    /// negation has.
    #[inline]
    pub(crate) fn goodness(self, price: i64) -> i64 {
        match self {
            Self::Bid => price,
            Self::Ask => !price,
        }
    }

    /// The price that has this [`Side::goodness`].
    #[inline]
    pub(crate) fn price_of(self, goodness: i64) -> i64 {
        self.goodness(goodness)
    }
}

/// An order as it stands in a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The venue's number of the order, unique among the orders of all books of an [`OrderBooks`](crate::OrderBooks).
    pub reference: u64,
    /// Which side it stands on.
    pub side: Side,
    /// Price in the venue's smallest unit; may be zero or negative.
    pub price: i64,
    /// Open size of the order, in the venue's smallest unit; never 0.
    pub size: u64,
    /// Priority: decides the place at a price, or tells since when the order has that, as [`ByOrder::PRIORITY`](crate::ByOrder::PRIORITY) says: a time
    /// in nanoseconds or the venue's number. 0 where the rules keep none.
    pub priority: u64,
    /// Owner, as the venue's handler numbers owners; 0: not told.
    pub owner: u32,
}

/// A price level: all that stands at one price of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Price in the venue's smallest unit.
    pub price: i64,
    /// Sum of the sizes of its orders.
    pub size: u64,
    /// How many orders make it; 0 where the venue does not tell.
    pub orders: u32,
}

/// Change of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelChange {
    /// Was not there before.
    New,
    /// Has another size, or number of orders.
    Changed,
    /// Is no more; the event has its price, and size and orders of 0.
    Gone,
}

/// Why an order became smaller or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Size was executed.
    Fill,
    /// Size was cancelled, in part or whole.
    Cancel,
}

/// A change of a book. One call of a book makes all events of that change: between them the book is not to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A new order, at the end of what has its priority or better.
    Added(Order),
    /// An order has become smaller by `by`; `order` is what is left of it, at its place.
    Reduced {
        /// The order as it is now.
        order: Order,
        /// Size that the order lost.
        by: u64,
        /// Why.
        cause: Cause,
    },
    /// An order is gone; `order` is how it was before.
    Removed {
        /// The order as it was.
        order: Order,
        /// Why.
        cause: Cause,
    },
    /// An order was executed at a venue whose fills take nothing out of the book: another message will ([`FillRule::Reported`](crate::FillRule)).
    FillTold {
        /// The order as it stands.
        order: Order,
        /// Size that was executed.
        by: u64,
    },
    /// An order has other terms or another number: one change, in which `old` went and `new` came.
    Replaced {
        /// How it was.
        old: Order,
        /// How it is.
        new: Order,
        /// Whether it stands where it stood.
        keeps_place: bool,
    },
    /// A level came, changed or went. Told after what is told of its orders.
    Level {
        /// Side of the book.
        side: Side,
        /// The level as it is now.
        level: Level,
        /// Levels that are better; [`Event::UNRANKED`] if the receiver does not [want it](Events::WANTS_RANK).
        rank: u32,
        /// Change of the level.
        change: LevelChange,
    },
    /// Everything on one side, or on both, went at once; no other event tells of it.
    Cleared {
        /// The side; `None`: both.
        side: Option<Side>,
    },
}

impl Event {
    /// Rank of a level for receivers that want none.
    pub const UNRANKED: u32 = u32::MAX;
}

/// Receiver of changes. The unit type `()` wants nothing.
pub trait Events {
    /// Whether [`Event::Level`] must carry the level's rank, which costs a search.
    const WANTS_RANK: bool = true;
    /// Something changed in a book.
    fn event(&mut self, book: BookId, event: &Event);
}

impl Events for () {
    const WANTS_RANK: bool = false;
    #[inline]
    fn event(&mut self, _book: BookId, _event: &Event) {}
}

impl Events for Vec<(BookId, Event)> {
    fn event(&mut self, book: BookId, event: &Event) {
        self.push((book, *event));
    }
}

/// How best bid and best ask stand to each other, as `BOOK_STATE` (FID 6516) has it. A crossed book can be the truth (pre-open, test
/// traffic): it is told, never repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BookState {
    /// The bid is lower than the ask, or a side is empty.
    Normal,
    /// Both have one price.
    Locked,
    /// The bid is higher than the ask.
    Crossed,
}

impl BookState {
    /// Of the best prices, in any one unit.
    pub fn of<P: Ord>(bid: Option<P>, ask: Option<P>) -> Self {
        match bid.zip(ask).map(|(bid, ask)| bid.cmp(&ask)) {
            Some(std::cmp::Ordering::Equal) => Self::Locked,
            Some(std::cmp::Ordering::Greater) => Self::Crossed,
            _ => Self::Normal,
        }
    }
}
