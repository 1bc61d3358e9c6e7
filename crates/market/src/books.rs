//! The books of a channel, order by order.

use std::marker::PhantomData;

use thiserror::Error;

use crate::event::{BookId, BookState, Cause, Event, Events, Level, LevelChange, Order, Side};
use crate::index::OrderIndex;
use crate::ladder::Ladder;
use crate::rules::{FillRule, Priority, Rules};
use crate::slab::Slab;

/// No place of a slab.
const NONE: u32 = u32::MAX;

/// Most orders at one time; places are 32 bits.
const MOST_ORDERS: usize = NONE as usize - 1;

/// Why a change was not made as it was told. Whose fault it is cannot be seen here: a lost message before it makes all of them, so the
/// caller counts it and holds the book to be in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// No order has this number.
    #[error("order {0} is in no book")]
    UnknownOrder(u64),
    /// An order with this number stands already; it stays as it is.
    #[error("order {0} is in a book already")]
    DuplicateOrder(u64),
    /// The book has not been opened.
    #[error("there is no book {}", .0.0)]
    UnknownBook(BookId),
    /// An order of size 0, which no venue has.
    #[error("order {0} is of size 0")]
    NoSize(u64),
    /// More was taken than the order had: nothing can be left of it, so it is gone.
    #[error("{by} were taken from order {reference}, which had {had}")]
    Exceeds {
        /// The order's number.
        reference: u64,
        /// Size that was to be taken.
        by: u64,
        /// Size that the order had.
        had: u64,
    },
    /// The sizes of the level, or the number of orders, pass what can be counted.
    #[error("order {0} makes a sum that cannot be counted")]
    Uncountable(u64),
}

/// An order in memory: half a cache line, and never in two lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Stored {
    reference: u64,
    size: u64,
    /// The order before it at its price; unused without queues.
    previous: u32,
    /// The order behind it; in a place that is free, the next free place.
    next: u32,
    /// Level of the order; [`NONE`]: the place is free.
    level: u32,
    owner: u32,
}

/// A level in memory.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct StoredLevel {
    price: i64,
    size: u64,
    /// First order of the queue; in a place that is free, the next free place.
    first: u32,
    last: u32,
    orders: u32,
    /// Which ladder it stands on: twice the book's number, and one more for asks.
    ladder: u32,
}

/// Where an order stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Orders of its price that are before it.
    pub orders_ahead: u32,
    /// Sizes of the orders before it.
    pub size_ahead: u64,
}

/// The books of all instruments of a channel, order by order, under the rules `R`.
///
/// All orders of the channel share one index and one slab: an order takes 32 bytes and 10 to 13 of the index, with queues 8 more for its
/// priority. Nothing is allocated unless there are more orders, levels or books than ever before. Every change is O(1) but for the search of
/// a price, which begins at the best: O(log levels) far away, and a new far price moves the levels that are better.
///
/// `QUEUED` false leaves out the queues: who reads levels only is spared the neighbours of each order.
#[derive(Debug)]
pub struct OrderBooks<R, const QUEUED: bool = true> {
    index: OrderIndex,
    orders: Slab<Stored, 16>,
    /// Beside `orders`; empty without queues.
    priorities: Slab<u64, 16>,
    levels: Slab<StoredLevel, 12>,
    ladders: Vec<Ladder<u32>>,
    free_order: u32,
    free_level: u32,
    rules: PhantomData<R>,
}

impl<R: Rules, const QUEUED: bool> Default for OrderBooks<R, QUEUED> {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl<R: Rules, const QUEUED: bool> OrderBooks<R, QUEUED> {
    /// Books with memory for so many orders at one time.
    pub fn with_capacity(orders: usize) -> Self {
        let mut books = Self {
            index: OrderIndex::with_capacity(orders),
            orders: Slab::new(),
            priorities: Slab::new(),
            levels: Slab::new(),
            ladders: Vec::new(),
            free_order: NONE,
            free_level: NONE,
            rules: PhantomData,
        };
        books.orders.reserve(orders);
        if QUEUED {
            books.priorities.reserve(orders);
        }
        books
    }

    /// Makes sure that there is a book of this number, and of all lower ones: numbers are dense, or memory is wasted.
    pub fn open(&mut self, book: BookId) {
        let ladders = (book.0 as usize + 1) * 2;
        if self.ladders.len() < ladders {
            self.ladders.resize_with(ladders, Ladder::default);
        }
    }

    /// Books that are open.
    pub fn books(&self) -> usize {
        self.ladders.len() / 2
    }

    /// Orders that stand, in all books.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// No order stands.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that are held, whether orders use them or not.
    pub fn memory(&self) -> usize {
        let ladders = self.ladders.capacity() * size_of::<Ladder<u32>>();
        let rungs = self.ladders.iter().map(Ladder::memory).sum::<usize>();
        self.index.memory() + self.orders.memory() + self.priorities.memory() + self.levels.memory() + ladders + rungs
    }

    /// The order of this number and its book.
    pub fn order(&self, reference: u64) -> Option<(BookId, Order)> {
        let place = self.index.find(reference, |place| self.orders.get(place).reference == reference)?;
        Some((self.book_of(place), self.order_at(place)))
    }

    /// The levels of a side, the best first; none of a book that is not open. `take` limits the depth.
    pub fn levels(&self, book: BookId, side: Side) -> impl Iterator<Item = Level> + '_ {
        let ladder = self.ladders.get(ladder_of(book, side) as usize);
        ladder.into_iter().flat_map(Ladder::iter).map(|rung| self.level_at(rung.level))
    }

    /// The best level of a side.
    pub fn best(&self, book: BookId, side: Side) -> Option<Level> {
        let best = self.ladders.get(ladder_of(book, side) as usize)?.best()?;
        Some(self.level_at(best.level))
    }

    /// The level at a price.
    pub fn level(&self, book: BookId, side: Side, price: i64) -> Option<Level> {
        let ladder = self.ladders.get(ladder_of(book, side) as usize)?;
        let at = ladder.find(side.goodness(price)).ok()?;
        Some(self.level_at(ladder.at(at).level))
    }

    /// How the best prices stand to each other.
    pub fn state(&self, book: BookId) -> BookState {
        let price = |side| self.best(book, side).map(|level| level.price);
        BookState::of(price(Side::Bid), price(Side::Ask))
    }

    /// A new order.
    ///
    /// # Errors
    /// Nothing has changed: the book is not open, the number is in use, the size is 0 or the level's sum cannot be counted.
    #[inline]
    pub fn add<E: Events>(&mut self, book: BookId, order: &Order, events: &mut E) -> Result<(), Refused> {
        let ladder = ladder_of(book, order.side);
        if ladder as usize >= self.ladders.len() {
            return Err(Refused::UnknownBook(book));
        }
        if order.size == 0 {
            return Err(Refused::NoSize(order.reference));
        }
        let orders = &self.orders;
        let vacant = self.index.vacant(order.reference, |place| orders.get(place).reference == order.reference);
        let vacant = vacant.ok_or(Refused::DuplicateOrder(order.reference))?;
        if self.orders.len() >= MOST_ORDERS && self.free_order == NONE {
            return Err(Refused::Uncountable(order.reference));
        }
        let (level, change) = self.level_for(ladder, order)?;
        let place = self.place_for(order, level);
        self.index.enter(vacant, place);
        self.attach(place, level, order.size);
        events.event(book, &Event::Added(*order));
        self.tell_level(level, change, events);
        Ok(())
    }

    /// An execution of `by`, as the rules have it: what is left of the order, and its book.
    ///
    /// # Errors
    /// No order has the number, or it had less than was taken; then it is gone, too.
    #[inline]
    pub fn fill<E: Events>(&mut self, reference: u64, by: u64, events: &mut E) -> Result<(BookId, Order), Refused> {
        match R::FILL {
            FillRule::Takes => self.take(reference, by, Cause::Fill, events),
            FillRule::Reported => {
                let (book, order) = self.order(reference).ok_or(Refused::UnknownOrder(reference))?;
                events.event(book, &Event::FillTold { order, by });
                Ok((book, order))
            }
        }
    }

    /// Cancels a part of an order, which stays where it is: what is left of it (size 0: it is gone), and its book.
    ///
    /// # Errors
    /// No order has the number, or it had less than was taken; then it is gone, too.
    #[inline]
    pub fn cancel<E: Events>(&mut self, reference: u64, by: u64, events: &mut E) -> Result<(BookId, Order), Refused> {
        self.take(reference, by, Cause::Cancel, events)
    }

    /// Removes an order: how it was, and its book.
    ///
    /// # Errors
    /// No order has the number.
    #[inline]
    pub fn delete<E: Events>(&mut self, reference: u64, events: &mut E) -> Result<(BookId, Order), Refused> {
        let place = self.find(reference)?;
        let order = self.order_at(place);
        let book = self.book_of(place);
        self.remove(place, &order, Cause::Cancel, events);
        Ok((book, order))
    }

    /// Gives an order other terms under its number: side, price, size, priority, owner. Whether it keeps its place is the rules' matter.
    /// Book of the level.
    ///
    /// # Errors
    /// Nothing has changed: no order has the number, the size is 0, or the level's sum cannot be counted.
    pub fn change<E: Events>(&mut self, new: &Order, events: &mut E) -> Result<BookId, Refused> {
        let place = self.find(new.reference)?;
        if new.size == 0 {
            return Err(Refused::NoSize(new.reference));
        }
        let old = self.order_at(place);
        let keeps_place = R::keeps_place(&old, new) && old.side == new.side && old.price == new.price;
        // Who keeps the place has had it since then.
        let since = if keeps_place && R::PRIORITY == Priority::Time { old.priority } else { new.priority };
        self.put(place, &old, &Order { priority: since, ..*new }, keeps_place, events)
    }

    /// Replaces an order by one with another number on its side, with its owner: one change. The new order stands last at its price. Its book
    /// and the new order.
    ///
    /// # Errors
    /// Nothing has changed: no order has the old number, another has the new one, the size is 0, or the level's sum cannot be counted.
    #[inline]
    pub fn replace<E: Events>(
        &mut self,
        reference: u64,
        by: u64,
        terms: Terms,
        events: &mut E,
    ) -> Result<(BookId, Order), Refused> {
        let place = self.find(reference)?;
        if terms.size == 0 {
            return Err(Refused::NoSize(by));
        }
        if by == reference {
            let old = self.order_at(place);
            let new = Order { price: terms.price, size: terms.size, priority: terms.priority, ..old };
            let book = self.put(place, &old, &new, false, events)?;
            return Ok((book, new));
        }
        if self.index.find(by, |place| self.orders.get(place).reference == by).is_some() {
            return Err(Refused::DuplicateOrder(by));
        }
        let old = self.order_at(place);
        let new = Order { reference: by, price: terms.price, size: terms.size, priority: terms.priority, ..old };
        let book = self.put(place, &old, &new, false, events)?;
        let orders = &self.orders;
        // The place bears the new number by now; only its place tells the old number's cell.
        self.index.remove(reference, |at| at == place);
        if let Some(vacant) = self.index.vacant(by, |place| orders.get(place).reference == by) {
            self.index.enter(vacant, place);
        }
        Ok((book, new))
    }

    /// Empties a book as a clear message that names `side` does under the rules. Without queues this looks at every order of all books.
    pub fn clear<E: Events>(&mut self, book: BookId, side: Option<Side>, events: &mut E) {
        if book.0 as usize >= self.books() {
            return;
        }
        let cleared = R::cleared(side);
        for side in Side::BOTH.into_iter().filter(|side| cleared.is_none_or(|only| only == *side)) {
            let ladder = ladder_of(book, side);
            let mut rungs = std::mem::take(&mut self.ladders[ladder as usize]);
            self.forget_orders(ladder, &rungs);
            for rung in rungs.iter() {
                free_level(&mut self.levels, &mut self.free_level, rung.level);
            }
            rungs.clear();
            self.ladders[ladder as usize] = rungs;
        }
        events.event(book, &Event::Cleared { side: cleared });
    }

    /// Empties all books, as a new session does, and tells each that had orders. The books stay open.
    pub fn clear_all<E: Events>(&mut self, events: &mut E) {
        self.index.clear();
        self.orders.clear();
        self.priorities.clear();
        self.levels.clear();
        (self.free_order, self.free_level) = (NONE, NONE);
        for book in 0..self.books() {
            let sides = &mut self.ladders[book * 2..book * 2 + 2];
            if sides.iter().any(|side| side.len() > 0) {
                sides.iter_mut().for_each(Ladder::clear);
                events.event(BookId(book as u32), &Event::Cleared { side: None });
            }
        }
    }

    #[inline]
    fn find(&self, reference: u64) -> Result<u32, Refused> {
        let found = self.index.find(reference, |place| self.orders.get(place).reference == reference);
        found.ok_or(Refused::UnknownOrder(reference))
    }

    fn book_of(&self, place: u32) -> BookId {
        BookId(self.levels.get(self.orders.get(place).level).ladder / 2)
    }

    #[inline]
    fn order_at(&self, place: u32) -> Order {
        let stored = self.orders.get(place);
        let level = self.levels.get(stored.level);
        let priority = if QUEUED { *self.priorities.get(place) } else { 0 };
        Order {
            reference: stored.reference,
            side: side_of(level.ladder),
            price: level.price,
            size: stored.size,
            priority,
            owner: stored.owner,
        }
    }

    fn level_at(&self, level: u32) -> Level {
        let level = self.levels.get(level);
        Level { price: level.price, size: level.size, orders: level.orders }
    }

    /// The level for a new order at its price, made if there is none, and what that makes of it.
    #[inline]
    fn level_for(&mut self, ladder: u32, order: &Order) -> Result<(u32, LevelChange), Refused> {
        let goodness = order.side.goodness(order.price);
        let rungs = &mut self.ladders[ladder as usize];
        match rungs.find(goodness) {
            Ok(at) => {
                let level = rungs.at(at).level;
                let sum = self.levels.get(level).size.checked_add(order.size);
                sum.map(|_| (level, LevelChange::Changed)).ok_or(Refused::Uncountable(order.reference))
            }
            Err(at) => {
                let new = StoredLevel { price: order.price, size: 0, first: NONE, last: NONE, orders: 0, ladder };
                let level = if self.free_level == NONE {
                    self.levels.push(new)
                } else {
                    let level = self.free_level;
                    let free = self.levels.get_mut(level);
                    self.free_level = free.first;
                    *free = new;
                    level
                };
                rungs.insert(at, goodness, level);
                Ok((level, LevelChange::New))
            }
        }
    }

    /// A place in the slab for a new order, written.
    #[inline]
    fn place_for(&mut self, order: &Order, level: u32) -> u32 {
        let stored = Stored {
            reference: order.reference,
            size: order.size,
            previous: NONE,
            next: NONE,
            level,
            owner: order.owner,
        };
        let place = self.free_order;
        if place == NONE {
            if QUEUED {
                self.priorities.push(order.priority);
            }
            return self.orders.push(stored);
        }
        let free = self.orders.get_mut(place);
        self.free_order = free.next;
        *free = stored;
        if QUEUED {
            *self.priorities.get_mut(place) = order.priority;
        }
        place
    }

    /// Adds a written order to its level: to the sums, and to the queue where its priority wants it.
    #[inline]
    fn attach(&mut self, place: u32, level: u32, size: u64) {
        let stored = self.levels.get_mut(level);
        stored.size += size;
        stored.orders += 1;
        if !QUEUED {
            return;
        }
        let mut before = stored.last;
        if R::PRIORITY == Priority::Number {
            let priority = *self.priorities.get(place);
            while before != NONE && *self.priorities.get(before) > priority {
                before = self.orders.get(before).previous;
            }
        }
        let behind = if before == NONE {
            std::mem::replace(&mut self.levels.get_mut(level).first, place)
        } else {
            std::mem::replace(&mut self.orders.get_mut(before).next, place)
        };
        if behind == NONE {
            self.levels.get_mut(level).last = place;
        } else {
            self.orders.get_mut(behind).previous = place;
        }
        let order = self.orders.get_mut(place);
        (order.previous, order.next) = (before, behind);
    }

    /// Takes an order out of its level: out of the sums and out of the queue. The level may be empty then.
    #[inline]
    fn detach(&mut self, place: u32) -> u32 {
        let Stored { size, previous, next, level, .. } = *self.orders.get(place);
        let stored = self.levels.get_mut(level);
        stored.size -= size;
        stored.orders -= 1;
        if QUEUED {
            if previous == NONE {
                stored.first = next;
            }
            if next == NONE {
                stored.last = previous;
            } else {
                self.orders.get_mut(next).previous = previous;
            }
            if previous != NONE {
                self.orders.get_mut(previous).next = next;
            }
        }
        level
    }

    #[inline]
    fn take<E: Events>(
        &mut self,
        reference: u64,
        by: u64,
        cause: Cause,
        events: &mut E,
    ) -> Result<(BookId, Order), Refused> {
        let place = self.find(reference)?;
        let order = self.order_at(place);
        let book = self.book_of(place);
        if by >= order.size {
            self.remove(place, &order, cause, events);
            let exceeds = Refused::Exceeds { reference, by, had: order.size };
            return if by == order.size { Ok((book, Order { size: 0, ..order })) } else { Err(exceeds) };
        }
        let stored = self.orders.get_mut(place);
        stored.size -= by;
        let level = stored.level;
        self.levels.get_mut(level).size -= by;
        let order = Order { size: order.size - by, ..order };
        events.event(book, &Event::Reduced { order, by, cause });
        self.tell_level(level, LevelChange::Changed, events);
        Ok((book, order))
    }

    #[inline]
    fn remove<E: Events>(&mut self, place: u32, order: &Order, cause: Cause, events: &mut E) {
        self.index.remove(order.reference, |at| at == place);
        let level = self.detach(place);
        free_order(&mut self.orders, &mut self.free_order, place);
        events.event(BookId(self.levels.get(level).ladder / 2), &Event::Removed { order: *order, cause });
        self.settle(level, events);
    }

    /// Writes `new` over the order at `place`, whose index cell stays the caller's matter.
    fn put<E: Events>(
        &mut self,
        place: u32,
        old: &Order,
        new: &Order,
        keeps_place: bool,
        events: &mut E,
    ) -> Result<BookId, Refused> {
        let book = self.book_of(place);
        let level = self.orders.get(place).level;
        let is_same_level = old.side == new.side && old.price == new.price;
        let uncountable = Refused::Uncountable(new.reference);
        let (to, change) = if is_same_level {
            let rest = self.levels.get(level).size - old.size;
            rest.checked_add(new.size).ok_or(uncountable)?;
            (level, LevelChange::Changed)
        } else {
            self.level_for(ladder_of(book, new.side), new)?
        };
        if keeps_place {
            let stored = self.levels.get_mut(level);
            stored.size = stored.size - old.size + new.size;
        } else {
            self.detach(place);
        }
        let stored = self.orders.get_mut(place);
        (stored.reference, stored.size, stored.level, stored.owner) = (new.reference, new.size, to, new.owner);
        if QUEUED {
            *self.priorities.get_mut(place) = new.priority;
        }
        if !keeps_place {
            self.attach(place, to, new.size);
        }
        events.event(book, &Event::Replaced { old: *old, new: *new, keeps_place });
        if !is_same_level {
            self.settle(level, events);
        }
        self.tell_level(to, change, events);
        Ok(book)
    }

    /// Tells of a level that lost something, and takes it off its ladder if nothing is left.
    #[inline]
    fn settle<E: Events>(&mut self, level: u32, events: &mut E) {
        let stored = *self.levels.get(level);
        if stored.orders > 0 {
            return self.tell_level(level, LevelChange::Changed, events);
        }
        let side = side_of(stored.ladder);
        let rungs = &mut self.ladders[stored.ladder as usize];
        let mut rank = Event::UNRANKED;
        if let Ok(at) = rungs.find(side.goodness(stored.price)) {
            rank = rungs.rank(at);
            rungs.remove(at);
        }
        free_level(&mut self.levels, &mut self.free_level, level);
        let level = Level { price: stored.price, size: 0, orders: 0 };
        events.event(BookId(stored.ladder / 2), &Event::Level { side, level, rank, change: LevelChange::Gone });
    }

    #[inline]
    fn tell_level<E: Events>(&self, level: u32, change: LevelChange, events: &mut E) {
        let stored = self.levels.get(level);
        let side = side_of(stored.ladder);
        let mut rank = Event::UNRANKED;
        if E::WANTS_RANK {
            let rungs = &self.ladders[stored.ladder as usize];
            rank = rungs.find(side.goodness(stored.price)).map_or(rank, |at| rungs.rank(at));
        }
        let level = Level { price: stored.price, size: stored.size, orders: stored.orders };
        events.event(BookId(stored.ladder / 2), &Event::Level { side, level, rank, change });
    }

    /// Takes all orders of a ladder out of index and slab; leaves the levels.
    fn forget_orders(&mut self, ladder: u32, rungs: &Ladder<u32>) {
        if QUEUED {
            for rung in rungs.iter() {
                let mut place = self.levels.get(rung.level).first;
                while place != NONE {
                    let next = self.orders.get(place).next;
                    self.forget(place);
                    place = next;
                }
            }
        } else if rungs.len() > 0 {
            for place in 0..self.orders.len() as u32 {
                let level = self.orders.get(place).level;
                if level != NONE && self.levels.get(level).ladder == ladder {
                    self.forget(place);
                }
            }
        }
    }

    fn forget(&mut self, place: u32) {
        self.index.remove(self.orders.get(place).reference, |at| at == place);
        free_order(&mut self.orders, &mut self.free_order, place);
    }

    /// Invariants between changes; for tests.
    ///
    /// # Panics
    /// Something does not hold.
    pub fn check_invariants(&self) {
        let mut orders = 0;
        for (ladder, rungs) in self.ladders.iter().enumerate() {
            let mut last = None;
            for rung in rungs.iter() {
                let level = self.levels.get(rung.level);
                assert_eq!(level.ladder as usize, ladder, "a level is on its ladder");
                assert_eq!(side_of(level.ladder).price_of(rung.goodness), level.price);
                assert!(level.orders > 0 && last.is_none_or(|last| last > rung.goodness), "levels are in order");
                last = Some(rung.goodness);
                orders += level.orders as usize;
                if QUEUED {
                    self.check_queue(rung.level);
                }
            }
        }
        assert_eq!(orders, self.len(), "each order is at a level");
    }

    fn check_queue(&self, at: u32) {
        let level = self.levels.get(at);
        let (mut place, mut before, mut size, mut orders) = (level.first, NONE, 0, 0);
        while place != NONE {
            let order = self.orders.get(place);
            assert_eq!((order.level, order.previous), (at, before), "links go both ways");
            assert_eq!(self.index.find(order.reference, |found| found == place), Some(place));
            (size, orders) = (size + order.size, orders + 1);
            (before, place) = (place, order.next);
        }
        assert_eq!((level.last, level.size, level.orders), (before, size, orders), "sums of a level");
    }
}

impl<R: Rules> OrderBooks<R, true> {
    /// The orders of a side: the best price first, within a price as they will be executed.
    pub fn orders(&self, book: BookId, side: Side) -> impl Iterator<Item = Order> + '_ {
        let ladder = self.ladders.get(ladder_of(book, side) as usize);
        ladder.into_iter().flat_map(Ladder::iter).flat_map(|rung| {
            let first = Some(self.levels.get(rung.level).first).filter(|place| *place != NONE);
            let places =
                std::iter::successors(first, |place| Some(self.orders.get(*place).next).filter(|next| *next != NONE));
            places.map(|place| self.order_at(place))
        })
    }

    /// Where an order stands at its price. Walks over those before it.
    pub fn place(&self, reference: u64) -> Option<Place> {
        let place = self.find(reference).ok()?;
        let mut ahead = Place { orders_ahead: 0, size_ahead: 0 };
        let mut before = self.orders.get(place).previous;
        while before != NONE {
            let order = self.orders.get(before);
            ahead.orders_ahead += 1;
            ahead.size_ahead += order.size;
            before = order.previous;
        }
        Some(ahead)
    }
}

/// Terms of an order that replaces another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Price in the venue's smallest unit.
    pub price: i64,
    /// Size; not 0.
    pub size: u64,
    /// As [`Order::priority`].
    pub priority: u64,
}

fn ladder_of(book: BookId, side: Side) -> u32 {
    book.0.saturating_mul(2).saturating_add(u32::from(side == Side::Ask))
}

fn side_of(ladder: u32) -> Side {
    if ladder & 1 == 0 { Side::Bid } else { Side::Ask }
}

fn free_order(orders: &mut Slab<Stored, 16>, free: &mut u32, place: u32) {
    let order = orders.get_mut(place);
    order.level = NONE;
    order.next = std::mem::replace(free, place);
}

fn free_level(levels: &mut Slab<StoredLevel, 12>, free: &mut u32, level: u32) {
    levels.get_mut(level).first = std::mem::replace(free, level);
}
