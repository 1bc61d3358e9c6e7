//! What changes that come soon will touch, brought into the caches: an order is found by three reads of which each waits for the one before it, and
//! none of them is in a cache in a channel of many instruments. Of a batch of messages the reads of one kind wait for memory together.

use std::hint::black_box;

use super::{NONE, OrderBooks, ladder_of};
use crate::event::{BookId, Side};
use crate::ladder::Ladder;
use crate::rules::ByOrder;

/// What a message that comes soon is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// An order of this number is executed, cancelled, deleted or changed.
    Order(u64),
    /// A new order, of this number.
    Add {
        /// The order's number.
        reference: u64,
        /// Its book.
        book: BookId,
        /// Its side.
        side: Side,
        /// Its price.
        price: i64,
    },
    /// An order of the first number is replaced by one of the second.
    Replace {
        /// Number of the order that goes.
        old: u64,
        /// Number of the order that comes.
        new: u64,
    },
}

/// As many are looked at together; more is done in several turns.
const TOGETHER: usize = 64;

/// Numbers in a fixed place, as many as were put there.
struct Few<T, const N: usize> {
    all: [T; N],
    len: usize,
}

impl<T: Copy, const N: usize> Few<T, N> {
    fn new(filler: T) -> Self {
        Self { all: [filler; N], len: 0 }
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

/// What a batch touches, by kind: each list is walked in a loop of a few instructions, so that the processor has many of its reads under way at once.
struct Touched {
    /// Cells of the index, and numbers in its window.
    cells: Few<u32, { 2 * TOGETHER }>,
    window: Few<u64, { 2 * TOGETHER }>,
    /// Numbers of orders that stand.
    standing: Few<u64, TOGETHER>,
    /// Ladders and goodness of new orders.
    adds: Few<(u32, i64), TOGETHER>,
}

impl<R: ByOrder, const QUEUED: bool> OrderBooks<R, QUEUED> {
    /// Reads what these changes will read. Nothing changes, and nothing needs to be right: what is not found is read when it is needed.
    #[inline]
    pub fn look_ahead(&self, ahead: &[Ahead]) {
        for some in ahead.chunks(TOGETHER) {
            black_box(self.look_at(some));
        }
    }

    /// Each loop reads what the one before has brought, and begins reads whose values nothing depends on within the loop: a branch on a value that is
    /// still on its way, guessed wrong, would make all behind it wait.
    fn look_at(&self, ahead: &[Ahead]) -> u64 {
        let touched = self.sort_out(ahead);
        let mut read = 0;
        for cell in touched.cells.get() {
            read ^= self.index.cell(*cell);
        }
        for reference in touched.window.get() {
            read ^= self.index.window_cell(*reference);
        }
        for (ladder, _) in touched.adds.get() {
            read ^= self.ladders.get(*ladder as usize).map_or(0, |rungs| rungs.len() as u64);
        }
        let mut places = Few::<u32, TOGETHER>::new(NONE);
        for reference in touched.standing.get() {
            places.push(self.index.guess(*reference).unwrap_or(NONE));
        }
        for place in places.get() {
            read ^= self.orders.try_get(*place).map_or(0, |order| order.size);
        }
        if QUEUED {
            for place in places.get() {
                read ^= self.priorities.try_get(*place).copied().unwrap_or(0);
            }
        }
        for (ladder, _) in touched.adds.get() {
            read ^= self.ladders.get(*ladder as usize).map_or(0, Ladder::touch);
        }
        let mut levels = Few::<u32, { 2 * TOGETHER }>::new(NONE);
        for place in places.get() {
            levels.push(self.orders.try_get(*place).map_or(NONE, |order| order.level));
        }
        for (ladder, goodness) in touched.adds.get() {
            levels.push(self.near(*ladder, *goodness));
        }
        for level in levels.get() {
            read ^= self.levels.try_get(*level).map_or(0, |level| level.size);
        }
        if QUEUED {
            read ^= self.look_at_neighbours(places.get(), &levels.get()[places.len..]);
        }
        read
    }

    /// Orders beside those that stand at these places, and the last ones of the levels that new orders go to.
    #[inline]
    fn look_at_neighbours(&self, places: &[u32], levels: &[u32]) -> u64 {
        let mut read = 0;
        let mut beside = Few::<u32, { 3 * TOGETHER }>::new(NONE);
        for place in places {
            let (previous, next) = self.orders.try_get(*place).map_or((NONE, NONE), |o| (o.previous, o.next));
            beside.push(previous);
            beside.push(next);
        }
        for level in levels {
            beside.push(self.levels.try_get(*level).map_or(NONE, |level| level.last));
        }
        for place in beside.get() {
            read ^= self.orders.try_get(*place).map_or(0, |order| order.size);
        }
        read
    }

    #[inline]
    fn sort_out(&self, ahead: &[Ahead]) -> Touched {
        let (cells, window) = (Few::new(0), Few::new(0));
        let (standing, adds) = (Few::new(0), Few::new((NONE, 0)));
        let mut touched = Touched { cells, window, standing, adds };
        for ahead in ahead {
            match *ahead {
                Ahead::Order(reference) => {
                    self.look_for(reference, &mut touched);
                    touched.standing.push(reference);
                }
                Ahead::Add { reference, book, side, price } => {
                    self.look_for(reference, &mut touched);
                    touched.adds.push((ladder_of(book, side), side.goodness(price)));
                }
                // Where the new order goes the old one's level would tell, which is one read more.
                Ahead::Replace { old, new } => {
                    self.look_for(old, &mut touched);
                    self.look_for(new, &mut touched);
                    touched.standing.push(old);
                }
            }
        }
        touched
    }

    #[inline]
    fn look_for(&self, reference: u64, touched: &mut Touched) {
        match self.index.home_of(reference) {
            Some(cell) => touched.cells.push(cell),
            None => touched.window.push(reference),
        }
    }

    /// The level of a price, or [`NONE`].
    #[inline]
    fn near(&self, ladder: u32, goodness: i64) -> u32 {
        let Some(rungs) = self.ladders.get(ladder as usize) else { return NONE };
        rungs.find(goodness).map_or(NONE, |at| rungs.at(at).level)
    }
}
