//! The books of a channel. What all of them have in common is here; how a venue changes them is in the modules below, one for each key: the order,
//! the price, the rank.

use std::marker::PhantomData;

use thiserror::Error;

use crate::event::{BookId, BookState, Event, Events, Level, LevelChange, Order, Side};
use crate::index::OrderIndex;
use crate::prices::{Prices, Scale};
use crate::rules::{CrossedRule, Rules};
use crate::slab::Slab;

mod ahead;
mod by_order;
mod by_price;
mod by_rank;

pub use ahead::{Ahead, Hint};
pub use by_order::{Place, Terms};
pub use by_price::UnknownLevel;
pub use by_rank::{Rank, WrongRank};

/// No place of a slab.
const NONE: u32 = u32::MAX;

/// Orders, and levels, for which memory is taken at a time at least.
const CHUNK: usize = 1 << 14;
const LEVEL_CHUNK: usize = 1 << 12;

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
    /// An order without a price, which has no place in a book. Told by handlers of venues that have a value for it.
    #[error("order {0} has no price")]
    NoPrice(u64),
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

impl Stored {
    /// No order.
    const FREE: Self = Self { reference: 0, size: 0, previous: NONE, next: NONE, level: NONE, owner: 0 };
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

impl StoredLevel {
    /// No level.
    const FREE: Self = Self { price: 0, size: 0, first: NONE, last: NONE, orders: 0, ladder: 0 };

    #[inline]
    fn book(&self) -> BookId {
        BookId(self.ladder / 2)
    }
}

/// The books of all instruments of a channel under the rules `R`, which say what the venue keys its changes by: orders
/// ([`ByOrder`](crate::ByOrder)), prices ([`ByPrice`](crate::ByPrice)) or ranks ([`ByRank`](crate::ByRank)). Levels, how they are read, what is told of
/// them, and clearing are the same for all.
///
/// All orders of the channel share one index and one slab: an order takes 32 bytes and 10 to 13 of the index, with queues 8 more for its
/// priority. Nothing is allocated unless there are more orders, levels or books than ever before. Every change is O(1) but for the search of
/// a price, which begins at the best: O(log levels) far away, and a new far price moves the levels that are better.
///
/// `QUEUED` false leaves out the queues: who reads levels only is spared the neighbours of each order.
#[derive(Debug)]
pub struct OrderBooks<R, const QUEUED: bool = true> {
    index: OrderIndex,
    orders: Slab<Stored, CHUNK>,
    /// Beside `orders`; empty without queues.
    priorities: Slab<u64, CHUNK>,
    levels: Slab<StoredLevel, LEVEL_CHUNK>,
    ladders: Vec<Prices>,
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
    /// Books with memory for so many orders at one time, which is there before the first of them comes.
    pub fn with_capacity(orders: usize) -> Self {
        Self {
            index: OrderIndex::with_capacity(orders),
            orders: Slab::with_room(orders, Stored::FREE),
            priorities: Slab::with_room(if QUEUED { orders } else { 0 }, u64::MAX),
            levels: Slab::with_room(0, StoredLevel::FREE),
            ladders: Vec::new(),
            free_order: NONE,
            free_level: NONE,
            rules: PhantomData,
        }
    }

    /// Makes sure that there is a book of this number, and of all lower ones: numbers are dense, or memory is wasted.
    pub fn open(&mut self, book: BookId) {
        let ladders = (book.0 as usize + 1) * 2;
        if self.ladders.len() < ladders {
            self.ladders.resize_with(ladders, Prices::default);
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
        let ladders = self.ladders.capacity() * size_of::<Prices>();
        let rungs = self.ladders.iter().map(Prices::memory).sum::<usize>();
        let orders = self.index.memory() + self.orders.memory() + self.priorities.memory();
        orders + self.levels.memory() + ladders + rungs
    }

    /// The order of this number and its book.
    pub fn order(&self, reference: u64) -> Option<(BookId, Order)> {
        let place = self.index.find(reference, |place| self.orders.get(place).reference == reference)?;
        Some((self.book_of(place), self.order_at(place)))
    }

    /// The levels of a side, the best first; none of a book that is not open. `take` limits the depth.
    pub fn levels(&self, book: BookId, side: Side) -> impl Iterator<Item = Level> + '_ {
        let ladder = self.ladders.get(ladder_of(book, side) as usize);
        ladder.into_iter().flat_map(move |prices| prices.iter(scale::<R>(side))).map(|rung| self.level_at(rung.level))
    }

    /// The best level of a side.
    pub fn best(&self, book: BookId, side: Side) -> Option<Level> {
        let best = self.ladders.get(ladder_of(book, side) as usize)?.best(scale::<R>(side))?;
        Some(self.level_at(best))
    }

    /// The level at a price.
    pub fn level(&self, book: BookId, side: Side, price: i64) -> Option<Level> {
        let ladder = self.ladders.get(ladder_of(book, side) as usize)?;
        Some(self.level_at(ladder.find(scale::<R>(side), price)?))
    }

    /// One of the books, for reading.
    pub fn book(&self, book: BookId) -> OneBook<'_, R, QUEUED> {
        OneBook { books: self, book }
    }

    /// How many levels a side has.
    pub fn depth(&self, book: BookId, side: Side) -> usize {
        self.ladders.get(ladder_of(book, side) as usize).map_or(0, Prices::len)
    }

    /// Whether the venue may have a book that stands so: if not, messages were lost. Asked for between messages of the venue, not within one.
    pub fn is_lawful(&self, book: BookId) -> bool {
        R::CROSSED == CrossedRule::Lawful || self.state(book) != BookState::Crossed
    }

    /// How the best prices stand to each other.
    pub fn state(&self, book: BookId) -> BookState {
        let price = |side| self.best(book, side).map(|level| level.price);
        BookState::of(price(Side::Bid), price(Side::Ask))
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
            for rung in rungs.iter(scale::<R>(side)) {
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
                sides.iter_mut().for_each(Prices::clear);
                events.event(BookId(book as u32), &Event::Cleared { side: None });
            }
        }
    }

    #[inline]
    fn book_of(&self, place: u32) -> BookId {
        BookId(self.levels.get(self.orders.get(place).level).ladder / 2)
    }

    #[inline]
    fn order_at(&self, place: u32) -> Order {
        let stored = self.orders.get(place);
        self.order_of(place, stored, self.levels.get(stored.level))
    }

    #[inline]
    fn order_of(&self, place: u32, stored: &Stored, level: &StoredLevel) -> Order {
        Order {
            reference: stored.reference,
            side: side_of(level.ladder),
            price: level.price,
            size: stored.size,
            priority: if QUEUED { *self.priorities.get(place) } else { 0 },
            owner: stored.owner,
        }
    }

    #[inline]
    fn level_at(&self, level: u32) -> Level {
        let level = self.levels.get(level);
        Level { price: level.price, size: level.size, orders: level.orders }
    }

    /// Makes a level, which is to be put on its ladder.
    #[inline]
    fn make_level(&mut self, ladder: u32, level: Level) -> u32 {
        let Level { price, size, orders } = level;
        let new = StoredLevel { price, size, first: NONE, last: NONE, orders, ladder };
        if self.free_level == NONE {
            return self.levels.push(new);
        }
        let place = self.free_level;
        let free = self.levels.get_mut(place);
        self.free_level = free.first;
        *free = new;
        place
    }

    /// Makes a level at a place of its ladder, of venues that do not tell of orders.
    fn insert_level(&mut self, ladder: u32, at: usize, side: Side, level: Level) -> u32 {
        let place = self.make_level(ladder, level);
        self.ladders[ladder as usize].far.insert(at, side.goodness(level.price), place);
        place
    }

    /// Takes a level off its ladder; what stood there.
    #[inline]
    fn remove_level(&mut self, ladder: u32, at: usize) -> Level {
        let place = self.ladders[ladder as usize].far.remove(at).level;
        let level = self.level_at(place);
        free_level(&mut self.levels, &mut self.free_level, place);
        level
    }

    /// Tells of a level that is as `level` has it.
    #[inline]
    fn tell_level<E: Events>(&self, level: &StoredLevel, change: LevelChange, events: &mut E) {
        let side = side_of(level.ladder);
        let mut rank = Event::UNRANKED;
        if E::WANTS_RANK {
            rank = self.ladders[level.ladder as usize].rank(scale::<R>(side), level.price);
        }
        let told = Level { price: level.price, size: level.size, orders: level.orders };
        events.event(level.book(), &Event::Level { side, level: told, rank, change });
    }

    /// Takes all orders of a ladder out of index and slab; leaves the levels.
    fn forget_orders(&mut self, ladder: u32, rungs: &Prices) {
        if QUEUED {
            for rung in rungs.iter(scale::<R>(side_of(ladder))) {
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
        self.index.remove(self.orders.get(place).reference, place);
        free_order(&mut self.orders, &mut self.free_order, place);
    }
}

/// Tells that a level is no more.
#[inline]
fn tell_gone<E: Events>(ladder: u32, price: i64, rank: u32, events: &mut E) {
    let level = Level { price, size: 0, orders: 0 };
    let event = Event::Level { side: side_of(ladder), level, rank, change: LevelChange::Gone };
    events.event(BookId(ladder / 2), &event);
}

/// One of the books of a channel, for reading.
#[derive(Debug)]
pub struct OneBook<'a, R, const QUEUED: bool = true> {
    books: &'a OrderBooks<R, QUEUED>,
    book: BookId,
}

impl<'a, R: Rules, const QUEUED: bool> OneBook<'a, R, QUEUED> {
    /// The levels of a side, the best first.
    pub fn levels(&self, side: Side) -> impl Iterator<Item = Level> + use<'a, R, QUEUED> {
        self.books.levels(self.book, side)
    }

    /// The level at a price.
    pub fn level(&self, side: Side, price: i64) -> Option<Level> {
        self.books.level(self.book, side, price)
    }

    /// How the best prices stand to each other.
    pub fn state(&self) -> BookState {
        self.books.state(self.book)
    }
}

impl<'a, R: Rules> OneBook<'a, R> {
    /// The orders of a side, as they will be executed.
    pub fn orders(&self, side: Side) -> impl Iterator<Item = Order> + use<'a, R> {
        self.books.orders(self.book, side)
    }
}

/// Books of a venue, whatever its rules and what it keys its changes by.
pub trait ReadBooks {
    /// The best level of a side.
    fn best(&self, book: BookId, side: Side) -> Option<Level>;
    /// The level at a price.
    fn level(&self, book: BookId, side: Side, price: i64) -> Option<Level>;
    /// Levels of a side, the best first.
    fn levels(&self, book: BookId, side: Side) -> Box<dyn Iterator<Item = Level> + '_>;
    /// Orders of a side, as they will be executed; none where the venue tells of none.
    fn orders(&self, _book: BookId, _side: Side) -> Box<dyn Iterator<Item = Order> + '_> {
        Box::new(std::iter::empty())
    }
    /// The venue's own name of an order, where that is no number.
    fn order_name(&self, _reference: u64) -> Option<[u8; 16]> {
        None
    }
}

impl<R: Rules> ReadBooks for OrderBooks<R> {
    fn best(&self, book: BookId, side: Side) -> Option<Level> {
        Self::best(self, book, side)
    }

    fn level(&self, book: BookId, side: Side, price: i64) -> Option<Level> {
        Self::level(self, book, side, price)
    }

    fn levels(&self, book: BookId, side: Side) -> Box<dyn Iterator<Item = Level> + '_> {
        Box::new(Self::levels(self, book, side))
    }

    fn orders(&self, book: BookId, side: Side) -> Box<dyn Iterator<Item = Order> + '_> {
        Box::new(Self::orders(self, book, side))
    }
}

#[inline]
fn ladder_of(book: BookId, side: Side) -> u32 {
    book.0.saturating_mul(2).saturating_add(u32::from(side == Side::Ask))
}

/// The step by which the prices of a side are counted under these rules.
#[inline]
fn scale<R: Rules>(side: Side) -> Scale {
    Scale { tick: R::TICK, side }
}

#[inline]
fn side_of(ladder: u32) -> Side {
    if ladder & 1 == 0 { Side::Bid } else { Side::Ask }
}

#[inline]
fn free_order(orders: &mut Slab<Stored, CHUNK>, free: &mut u32, place: u32) {
    let order = orders.get_mut(place);
    order.level = NONE;
    order.next = std::mem::replace(free, place);
}

#[inline]
fn free_level(levels: &mut Slab<StoredLevel, LEVEL_CHUNK>, free: &mut u32, at: u32) {
    let level = levels.get_mut(at);
    // A caller that has seen the order ahead sees that it is no more.
    level.orders = 0;
    level.first = std::mem::replace(free, at);
}
