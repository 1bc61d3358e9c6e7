//! A book by rank: the venue tells what stands at the first, second, ... price, and moves the others.

use crate::event::{BookId, Event, Events, Level, LevelChange, Side};

/// A rank that cannot be: a message before was lost, or the feed is not the one that this book is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongRank {
    /// Beyond the depth of the book, or behind a rank that is empty.
    #[error("rank {rank} of a side with {levels} levels and room for {depth}")]
    Beyond {
        /// The rank, from 0.
        rank: usize,
        /// Levels that the side has.
        levels: usize,
        /// Levels that it may have.
        depth: usize,
    },
}

/// The levels of one instrument, keyed by rank: CME MDP 3.0 by price. The order of the levels is the venue's word: nothing is sorted here.
#[derive(Clone, Debug)]
pub struct RankedBook {
    id: BookId,
    depth: usize,
    sides: [Vec<Level>; 2],
}

impl RankedBook {
    /// An empty book of so many levels a side.
    pub fn new(id: BookId, depth: usize) -> Self {
        Self { id, depth, sides: [Vec::with_capacity(depth + 1), Vec::with_capacity(depth + 1)] }
    }

    /// A new level at `rank` (0: the best): the others behind it move down, and what passes the depth is gone.
    ///
    /// # Errors
    /// The rank is beyond the depth, or behind an empty one: nothing has changed.
    pub fn insert<E: Events>(
        &mut self,
        side: Side,
        rank: usize,
        level: Level,
        events: &mut E,
    ) -> Result<(), WrongRank> {
        let levels = &mut self.sides[side as usize];
        if rank >= self.depth || rank > levels.len() {
            return Err(WrongRank::Beyond { rank, levels: levels.len(), depth: self.depth });
        }
        levels.insert(rank, level);
        events.event(self.id, &Event::Level { side, level, rank: rank as u32, change: LevelChange::New });
        if levels.len() > self.depth {
            let gone = levels.pop();
            self.tell_gone(side, self.depth, gone, events);
        }
        Ok(())
    }

    /// Overwrites the level at `rank`. If the price is another, the old one is told as gone.
    ///
    /// # Errors
    /// There is no level at this rank: nothing has changed.
    pub fn change<E: Events>(
        &mut self,
        side: Side,
        rank: usize,
        level: Level,
        events: &mut E,
    ) -> Result<(), WrongRank> {
        let levels = &mut self.sides[side as usize];
        let beyond = WrongRank::Beyond { rank, levels: levels.len(), depth: self.depth };
        let old = std::mem::replace(levels.get_mut(rank).ok_or(beyond)?, level);
        let mut change = LevelChange::Changed;
        if old.price != level.price {
            self.tell_gone(side, rank, Some(old), events);
            change = LevelChange::New;
        }
        events.event(self.id, &Event::Level { side, level, rank: rank as u32, change });
        Ok(())
    }

    /// Deletes `count` levels from `rank` on; those behind move up. One level (delete), all from it on (delete from: `usize::MAX`), or, with
    /// rank 0, all from the best up to one (delete thru).
    ///
    /// # Errors
    /// There is no level at this rank: nothing has changed.
    pub fn delete<E: Events>(
        &mut self,
        side: Side,
        rank: usize,
        count: usize,
        events: &mut E,
    ) -> Result<(), WrongRank> {
        let levels = &mut self.sides[side as usize];
        if rank >= levels.len() {
            return Err(WrongRank::Beyond { rank, levels: levels.len(), depth: self.depth });
        }
        let end = rank.saturating_add(count).min(levels.len());
        for gone in levels.drain(rank..end) {
            let level = Level { size: 0, orders: 0, ..gone };
            events.event(self.id, &Event::Level { side, level, rank: rank as u32, change: LevelChange::Gone });
        }
        Ok(())
    }

    /// Empties the book.
    pub fn clear<E: Events>(&mut self, events: &mut E) {
        self.sides.iter_mut().for_each(Vec::clear);
        events.event(self.id, &Event::Cleared { side: None });
    }

    /// The levels of a side in the venue's order, the best first.
    pub fn levels(&self, side: Side) -> &[Level] {
        &self.sides[side as usize]
    }

    fn tell_gone<E: Events>(&self, side: Side, rank: usize, level: Option<Level>, events: &mut E) {
        if let Some(level) = level {
            let level = Level { size: 0, orders: 0, ..level };
            events.event(self.id, &Event::Level { side, level, rank: rank as u32, change: LevelChange::Gone });
        }
    }
}
