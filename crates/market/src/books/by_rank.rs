//! Books of which the venue tells what stands at the first, second, ... price, and moves the others. The order of the levels is the venue's word:
//! nothing is sorted here.

use super::{OrderBooks, ladder_of, side_of, tell_gone};
use crate::event::{BookId, Event, Events, Level, LevelChange, Side};
use crate::rules::ByRank;

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

/// Where a level is to be put, changed or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// The side.
    pub side: Side,
    /// Levels that are better; 0: the best.
    pub rank: usize,
    /// Levels that a side of the book has at most.
    pub depth: usize,
}

impl<R: ByRank, const QUEUED: bool> OrderBooks<R, QUEUED> {
    /// A new level: the others behind it move down, and what passes the depth is gone. The book is opened if it is not.
    ///
    /// # Errors
    /// The rank is beyond the depth, or behind an empty one: nothing has changed.
    pub fn insert_at<E: Events>(
        &mut self,
        book: BookId,
        at: Rank,
        level: Level,
        events: &mut E,
    ) -> Result<(), WrongRank> {
        self.open(book);
        let Rank { side, rank, depth } = at;
        let levels = self.depth(book, side);
        if rank >= depth || rank > levels {
            return Err(WrongRank::Beyond { rank, levels, depth });
        }
        let ladder = ladder_of(book, side);
        self.insert_level(ladder, levels - rank, side, level);
        tell(ladder, level, rank, LevelChange::New, events);
        if levels == depth {
            let gone = self.remove_level(ladder, 0);
            tell_gone(ladder, gone.price, depth as u32, events);
        }
        Ok(())
    }

    /// Overwrites a level. If the price is another, the old one is told as gone.
    ///
    /// # Errors
    /// There is no level at this rank: nothing has changed.
    pub fn change_at<E: Events>(
        &mut self,
        book: BookId,
        at: Rank,
        level: Level,
        events: &mut E,
    ) -> Result<(), WrongRank> {
        let Rank { side, rank, depth } = at;
        let levels = self.depth(book, side);
        let place = levels.checked_sub(rank + 1).ok_or(WrongRank::Beyond { rank, levels, depth })?;
        let ladder = ladder_of(book, side);
        let old = self.remove_level(ladder, place);
        self.insert_level(ladder, place, side, level);
        let mut change = LevelChange::Changed;
        if old.price != level.price {
            tell_gone(ladder, old.price, rank as u32, events);
            change = LevelChange::New;
        }
        tell(ladder, level, rank, change, events);
        Ok(())
    }

    /// Deletes `count` levels from a rank on; those behind move up. One level (delete), all from it on (delete from: `usize::MAX`), or, with
    /// rank 0, all from the best up to one (delete thru).
    ///
    /// # Errors
    /// There is no level at this rank: nothing has changed.
    pub fn delete_at<E: Events>(
        &mut self,
        book: BookId,
        at: Rank,
        count: usize,
        events: &mut E,
    ) -> Result<(), WrongRank> {
        let Rank { side, rank, depth } = at;
        let levels = self.depth(book, side);
        if rank >= levels {
            return Err(WrongRank::Beyond { rank, levels, depth });
        }
        let ladder = ladder_of(book, side);
        for _ in 0..count.min(levels - rank) {
            let behind = self.depth(book, side) - 1 - rank;
            let gone = self.remove_level(ladder, behind);
            tell_gone(ladder, gone.price, rank as u32, events);
        }
        Ok(())
    }
}

fn tell<E: Events>(ladder: u32, level: Level, rank: usize, change: LevelChange, events: &mut E) {
    let event = Event::Level { side: side_of(ladder), level, rank: rank as u32, change };
    events.event(BookId(ladder / 2), &event);
}
