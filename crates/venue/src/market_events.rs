//! A venue's events besides changes of books: trades, notices, doubt.

use market::{BookId, Events, Refused, Side};

use crate::sequence::Change;

/// Where a trade came from, which decides what it counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TradeKind {
    /// An order of the book, at its price.
    Book,
    /// An order of the book, at another price.
    BookAtPrice,
    /// An order that no book showed.
    Hidden,
    /// A cross; the venue's letter for which.
    Cross(u8),
}

/// A trade that counts for volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trade {
    /// The venue's number of the trade.
    pub number: u64,
    /// Price in the venue's smallest unit.
    pub price: i64,
    /// Size in the venue's smallest unit.
    pub size: u64,
    /// The side of who traded at once; `None`: the venue does not tell.
    pub aggressor: Option<Side>,
    /// The order of the book that was executed.
    pub order: Option<u64>,
    /// Where it came from.
    pub kind: TradeKind,
    /// It counts for the last, highest, lowest and first price; others count for the volume alone.
    pub is_eligible: bool,
}

/// Receiver of what a handler tells; `N` is the venue's type for what only it has. Book events come by [`Events`]. All but these and
/// [`Market::end`] may be left as they are.
pub trait Market<N>: Events {
    /// Everything until [`Market::end`] belongs to one message: its book (`None`: all), and its time as the venue counts it.
    #[inline]
    fn begin(&mut self, _book: Option<BookId>, _time: u64) {}

    /// The message is done: the book may be published, unless the stream is in doubt.
    #[inline]
    fn end(&mut self, _book: Option<BookId>) {}

    /// A trade.
    #[inline]
    fn trade(&mut self, _book: BookId, _trade: &Trade) {}

    /// A trade of before is void: volume is less by it.
    fn broken(&mut self, _book: BookId, _trade: &Trade) {}

    /// Notice of the venue about an instrument or the market that is neither book nor trade.
    fn notice(&mut self, _book: Option<BookId>, _notice: &N) {}

    /// A book cannot be what the venue has: its messages name what is not there. Told once a book and session.
    fn doubt(&mut self, _book: BookId, _why: &Refused) {}

    /// Something became of the stream: see [`Change`].
    fn change(&mut self, _change: &Change) {}
}

impl<N> Market<N> for () {}
