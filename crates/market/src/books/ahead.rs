//! What changes that come soon will touch, brought into the caches: an order is found by three reads of which each waits for the one before it, and
//! none of them is in a cache in a channel of many instruments. Of a batch of messages the reads of one kind wait for memory together.

use std::hint::black_box;

use super::{NONE, OrderBooks, ladder_of};
use crate::event::{BookId, Side};
use crate::ladder::Ladder;
use crate::rules::ByOrder;

/// As many messages are looked at together at most; what is more is not looked at. Their lines fill the first cache twice, and each loop's wait for its last
/// read is shared by more of them.
const TOGETHER: usize = 128;

/// Some of a kind, in a fixed place.
#[derive(Clone, Copy, Debug)]
struct Few<T> {
    all: [T; TOGETHER],
    len: usize,
}

impl<T: Copy> Few<T> {
    const fn new(filler: T) -> Self {
        Self { all: [filler; TOGETHER], len: 0 }
    }

    #[inline]
    fn push(&mut self, one: T) {
        if let Some(place) = self.all.get_mut(self.len) {
            *place = one;
            self.len += 1;
        }
    }

    #[inline]
    fn get(&self) -> &[T] {
        &self.all[..self.len]
    }
}

/// The orders and levels that a batch of messages is about: made once, filled for each batch, given to [`OrderBooks::look_ahead`].
#[derive(Clone, Debug)]
pub struct Ahead {
    /// Numbers of orders that stand.
    standing: Few<u64>,
    /// Ladders and goodness of new orders.
    adds: Few<(u32, i64)>,
}

impl Default for Ahead {
    fn default() -> Self {
        Self { standing: Few::new(0), adds: Few::new((NONE, 0)) }
    }
}

impl Ahead {
    /// Most messages of a batch.
    pub const MOST: usize = TOGETHER;

    /// Forgets the batch before.
    #[inline]
    pub fn clear(&mut self) {
        (self.standing.len, self.adds.len) = (0, 0);
    }

    /// An order of this number will be executed, cancelled, deleted, changed or replaced.
    #[inline]
    pub fn order(&mut self, reference: u64) {
        self.standing.push(reference);
    }

    /// A new order will come to this price.
    #[inline]
    pub fn add(&mut self, book: BookId, side: Side, price: i64) {
        self.adds.push((ladder_of(book, side), side.goodness(price)));
    }
}

impl<R: ByOrder, const QUEUED: bool> OrderBooks<R, QUEUED> {
    /// Reads what these changes will read. Nothing changes, and nothing needs to be right: what is not found is read when it is needed.
    ///
    /// Each loop reads what the one before has brought, and begins reads whose values nothing depends on within the loop: a branch on a value that is
    /// still on its way, guessed wrong, would make all behind it wait.
    pub fn look_ahead(&self, ahead: &Ahead) {
        let (standing, adds) = (ahead.standing.get(), ahead.adds.get());
        let mut read = 0;
        for (ladder, _) in adds {
            read ^= self.ladders.get(*ladder as usize).map_or(0, |rungs| rungs.len() as u64);
        }
        let mut places = [NONE; TOGETHER];
        self.look_for(standing, &mut places);
        let places = &places[..standing.len()];
        for (ladder, _) in adds {
            read ^= self.ladders.get(*ladder as usize).map_or(0, Ladder::touch);
        }
        let mut levels = [NONE; TOGETHER];
        for (level, place) in levels.iter_mut().zip(places) {
            *level = self.orders.try_get(*place).map_or(NONE, |order| order.level);
        }
        if QUEUED {
            read ^= self.look_at_neighbours(places);
        }
        read ^= self.look_at_levels(&levels[..places.len()]);
        let mut to = Few::new(NONE);
        for (ladder, goodness) in adds {
            to.push(self.near(*ladder, *goodness));
        }
        read ^= self.look_at_targets(to.get());
        black_box(read);
    }

    /// Places of orders, as far as they are found at once.
    #[inline]
    fn look_for(&self, standing: &[u64], places: &mut [u32; TOGETHER]) {
        let mut in_table = Few::new(0u8);
        for (at, (place, reference)) in places.iter_mut().zip(standing).enumerate() {
            match self.index.place_in_window(*reference) {
                Some(found) => *place = found,
                None => in_table.push(at as u8),
            }
        }
        let in_table = in_table.get();
        black_box(in_table.iter().fold(0, |read, at| read ^ self.index.first_cell(standing[usize::from(*at)])));
        for at in in_table {
            places[usize::from(*at)] = self.index.guess(standing[usize::from(*at)]);
        }
    }

    /// Levels of orders that stand, and of those that may be about to go the ladders.
    #[inline]
    fn look_at_levels(&self, levels: &[u32]) -> u64 {
        let (mut read, mut last_orders, mut count) = (0, [NONE; TOGETHER], 0);
        for level in levels {
            if let Some(level) = self.levels.try_get(*level) {
                last_orders[count] = level.ladder;
                count += usize::from(level.orders == 1);
            }
        }
        for ladder in &last_orders[..count] {
            read ^= self.ladders.get(*ladder as usize).map_or(0, Ladder::touch);
        }
        read
    }

    /// Levels that new orders go to, and the last orders of them.
    #[inline]
    fn look_at_targets(&self, levels: &[u32]) -> u64 {
        let (mut read, mut last) = (0, [NONE; TOGETHER]);
        for (last, level) in last.iter_mut().zip(levels) {
            *last = self.levels.try_get(*level).map_or(NONE, |level| level.last);
            read ^= u64::from(*last);
        }
        if QUEUED {
            for place in &last[..levels.len()] {
                read ^= self.orders.try_get(*place).map_or(0, |order| order.reference);
            }
        }
        read
    }

    /// Orders beside those that stand at these places.
    #[inline]
    fn look_at_neighbours(&self, places: &[u32]) -> u64 {
        let mut read = 0;
        for place in places {
            let (previous, next) = self.orders.try_get(*place).map_or((NONE, NONE), |o| (o.previous, o.next));
            read ^= self.orders.try_get(previous).map_or(0, |order| order.reference);
            read ^= self.orders.try_get(next).map_or(0, |order| order.reference);
        }
        read
    }

    /// The level of a price, or [`NONE`].
    #[inline]
    fn near(&self, ladder: u32, goodness: i64) -> u32 {
        let Some(rungs) = self.ladders.get(ladder as usize) else { return NONE };
        rungs.find(goodness).map_or(NONE, |at| rungs.at(at).level)
    }
}
