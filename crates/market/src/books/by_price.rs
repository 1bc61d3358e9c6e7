//! Books of which the venue tells what stands at a price, never by whom.

use super::{OrderBooks, free_level, ladder_of, tell_gone};
use crate::event::{BookId, Events, Level, LevelChange, Side};
use crate::rules::ByPrice;

/// A venue names a price that has no level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no level at {price} to delete")]
pub struct UnknownLevel {
    /// The price.
    pub price: i64,
}

impl<R: ByPrice, const QUEUED: bool> OrderBooks<R, QUEUED> {
    /// Says what stands at a price; size 0 deletes the level. `orders` is 0 where the venue does not tell. The book is opened if it is not.
    ///
    /// # Errors
    /// A level was deleted that is not there, which some venues do: nothing has changed.
    pub fn set<E: Events>(
        &mut self,
        book: BookId,
        side: Side,
        level: Level,
        events: &mut E,
    ) -> Result<LevelChange, UnknownLevel> {
        self.open(book);
        let ladder = ladder_of(book, side);
        let rungs = &self.ladders[ladder as usize].far;
        let (place, change) = match (rungs.find(side.goodness(level.price)), level.size) {
            (Err(_), 0) => return Err(UnknownLevel { price: level.price }),
            (Ok(at), 0) => {
                let rank = rungs.rank(at);
                self.remove_level(ladder, at);
                tell_gone(ladder, level.price, rank, events);
                return Ok(LevelChange::Gone);
            }
            (Err(at), _) => (self.insert_level(ladder, at, side, level), LevelChange::New),
            (Ok(at), _) => {
                let place = rungs.at(at).level;
                let stored = self.levels.get_mut(place);
                (stored.size, stored.orders) = (level.size, level.orders);
                (place, LevelChange::Changed)
            }
        };
        self.tell_level(self.levels.get(place), change, events);
        Ok(change)
    }

    /// Keeps the best `depth` levels of each side, as subscribers of a limited depth must do by themselves, **after** a whole message has
    /// been applied: who cuts before inserting loses a level for good.
    pub fn cut<E: Events>(&mut self, book: BookId, depth: usize, events: &mut E) {
        self.open(book);
        for side in Side::BOTH {
            let ladder = ladder_of(book, side);
            let rungs = &mut self.ladders[ladder as usize].far;
            let mut rank = rungs.len() as u32;
            for rung in rungs.cut(depth) {
                rank -= 1;
                free_level(&mut self.levels, &mut self.free_level, rung.level);
                tell_gone(ladder, side.price_of(rung.goodness), rank, events);
            }
        }
    }
}
