//! A book by price: the venue tells what stands at a price, never by whom.

use crate::event::{BookId, BookState, Event, Events, Level, LevelChange, Side};
use crate::ladder::Ladder;

/// A venue names a price that has no level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no level at {price} to delete")]
pub struct UnknownLevel {
    /// The price.
    pub price: i64,
}

#[derive(Clone, Copy, Debug)]
struct Sums {
    size: u64,
    orders: u32,
}

/// The levels of one instrument, keyed by price: IEX DEEP, Kraken, Coinbase and their like.
#[derive(Clone, Debug)]
pub struct PriceBook {
    id: BookId,
    ladders: [Ladder<Sums>; 2],
}

impl PriceBook {
    /// An empty book.
    pub fn new(id: BookId) -> Self {
        Self { id, ladders: [Ladder::default(), Ladder::default()] }
    }

    /// Says what stands at a price; size 0 deletes the level. `orders` is 0 where the venue does not tell.
    ///
    /// # Errors
    /// A level was deleted that is not there, which some venues do: nothing has changed.
    pub fn set<E: Events>(&mut self, side: Side, level: Level, events: &mut E) -> Result<LevelChange, UnknownLevel> {
        let Level { price, size, orders } = level;
        let ladder = &mut self.ladders[side as usize];
        let goodness = side.goodness(price);
        let (at, change) = match (ladder.find(goodness), size) {
            (Err(_), 0) => return Err(UnknownLevel { price }),
            (Err(at), _) => {
                ladder.insert(at, goodness, Sums { size, orders });
                (at, LevelChange::New)
            }
            (Ok(at), 0) => (at, LevelChange::Gone),
            (Ok(at), _) => {
                ladder.at_mut(at).level = Sums { size, orders };
                (at, LevelChange::Changed)
            }
        };
        let rank = ladder.rank(at);
        let mut level = level;
        if change == LevelChange::Gone {
            ladder.remove(at);
            level.orders = 0;
        }
        events.event(self.id, &Event::Level { side, level, rank, change });
        Ok(change)
    }

    /// Keeps the best `depth` levels of each side, as subscribers of a limited depth must do by themselves, **after** a whole message has
    /// been applied: who cuts before inserting loses a level for good.
    pub fn cut<E: Events>(&mut self, depth: usize, events: &mut E) {
        for side in Side::BOTH {
            let ladder = &mut self.ladders[side as usize];
            let mut rank = ladder.len() as u32;
            for rung in ladder.cut(depth) {
                rank -= 1;
                let level = Level { price: side.price_of(rung.goodness), size: 0, orders: 0 };
                events.event(self.id, &Event::Level { side, level, rank, change: LevelChange::Gone });
            }
        }
    }

    /// Empties the book.
    pub fn clear<E: Events>(&mut self, events: &mut E) {
        self.ladders.iter_mut().for_each(Ladder::clear);
        events.event(self.id, &Event::Cleared { side: None });
    }

    /// The levels of a side, the best first.
    pub fn levels(&self, side: Side) -> impl Iterator<Item = Level> + '_ {
        let level =
            move |goodness, sums: Sums| Level { price: side.price_of(goodness), size: sums.size, orders: sums.orders };
        self.ladders[side as usize].iter().map(move |rung| level(rung.goodness, rung.level))
    }

    /// The level at a price.
    pub fn level(&self, side: Side, price: i64) -> Option<Level> {
        let ladder = &self.ladders[side as usize];
        let rung = ladder.at(ladder.find(side.goodness(price)).ok()?);
        Some(Level { price, size: rung.level.size, orders: rung.level.orders })
    }

    /// How the best prices stand to each other.
    pub fn state(&self) -> BookState {
        let price = |side| self.levels(side).next().map(|level| level.price);
        BookState::of(price(Side::Bid), price(Side::Ask))
    }
}
