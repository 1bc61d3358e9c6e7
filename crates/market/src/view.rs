//! Views of a limited depth, and of several books as one.

use crate::event::{Level, LevelChange, Side};

/// The best levels of one side as a subscriber was last told of them. A view is brought up to date when a book is fit to be published, and
/// says what that changes: a level that leaves the book brings the next deeper one into view, which no event of the book tells.
#[derive(Clone, Debug)]
pub struct DepthView {
    side: Side,
    depth: usize,
    told: Vec<Level>,
    /// Used while comparing; kept for its memory.
    seen: Vec<Level>,
}

impl DepthView {
    /// An empty view of the best `depth` levels of a side.
    pub fn new(side: Side, depth: usize) -> Self {
        Self { side, depth, told: Vec::with_capacity(depth), seen: Vec::with_capacity(depth) }
    }

    /// Compares with the book's levels, the best first, and tells of each that came into view, changed or left it: first those that left, then
    /// the others, so that a subscriber never holds more than `depth`. A level that left has the size and orders that it had.
    pub fn update(&mut self, levels: impl Iterator<Item = Level>, mut tell: impl FnMut(LevelChange, Level)) {
        self.seen.clear();
        self.seen.extend(levels.take(self.depth));
        let rank = |levels: &[Level], level: &Level| {
            let goodness = self.side.goodness(level.price);
            levels.binary_search_by(|other| goodness.cmp(&self.side.goodness(other.price)))
        };
        for old in self.told.iter().filter(|old| rank(&self.seen, old).is_err()) {
            tell(LevelChange::Gone, *old);
        }
        for new in &self.seen {
            match rank(&self.told, new) {
                Ok(at) if self.told[at] == *new => {}
                Ok(_) => tell(LevelChange::Changed, *new),
                Err(_) => tell(LevelChange::New, *new),
            }
        }
        std::mem::swap(&mut self.told, &mut self.seen);
    }

    /// Levels that were last told, the best first.
    pub fn levels(&self) -> &[Level] {
        &self.told
    }
}

/// One side of several books as one, the best first: levels of one price are summed. Prices must be of one unit.
pub fn consolidated<I: Iterator<Item = Level>>(side: Side, books: Vec<I>) -> impl Iterator<Item = Level> {
    let mut books: Vec<_> = books.into_iter().map(Iterator::peekable).collect();
    std::iter::from_fn(move || {
        let best = books.iter_mut().filter_map(|book| book.peek().map(|level| side.goodness(level.price))).max()?;
        let mut sum = Level { price: side.price_of(best), size: 0, orders: 0 };
        for book in &mut books {
            while let Some(level) = book.next_if(|level| side.goodness(level.price) == best) {
                sum.size = sum.size.saturating_add(level.size);
                sum.orders = sum.orders.saturating_add(level.orders);
            }
        }
        Some(sum)
    })
}

/// A venue's best price and what stands there, in a unit that all venues of a consolidated book have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// The price.
    pub price: i128,
    /// The size.
    pub size: i128,
}

/// The best of several venues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BestQuote {
    /// The best price, and the sum of the sizes of all who have it.
    pub quote: Quote,
    /// Who has it: the first of them.
    pub first: usize,
}

/// The best of a side over venues, of each of which the number and its quote are given; `None`: none of them has one. Whether a venue counts (its book
/// is good, its side not too old) is for the caller to say, who leaves others out.
pub fn best_quote(side: Side, quotes: impl Iterator<Item = (usize, Quote)>) -> Option<BestQuote> {
    quotes.fold(None, |best: Option<BestQuote>, (first, quote)| match best {
        Some(BestQuote { quote: known, first }) if known.price == quote.price => {
            Some(BestQuote { quote: Quote { size: known.size.saturating_add(quote.size), ..known }, first })
        }
        Some(known) if (quote.price < known.quote.price) == (side == Side::Bid) => Some(known),
        _ => Some(BestQuote { quote, first }),
    })
}
