//! The order books of the generator's instruments behind their best quotes: price levels made of single orders.
//!
//! The best quote is decided elsewhere; a book follows it ([`Book::set_best`]) and lives a little behind it
//! ([`Book::stir`]). INVARIANT: no bid of a book reaches its asks.

use market::{BookId, ByOrder, Event, Events, FillRule, Level, LevelChange, Order, OrderBooks, Priority, Rules, Side};

use super::random::Random;

/// Rules of the generator's market: whoever changes an order keeps its place.
#[derive(Clone, Copy, Debug)]
pub struct Generated;

impl Rules for Generated {}

impl ByOrder for Generated {
    const FILL: FillRule = FillRule::Takes;
    const PRIORITY: Priority = Priority::Time;

    fn keeps_place(old: &Order, new: &Order) -> bool {
        old.side == new.side && old.price == new.price
    }
}

/// The action on a map entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The entry is new.
    Add,
    /// The entry has other values.
    Update,
    /// The entry is gone.
    Delete,
}

/// A change of one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderChange {
    /// New, changed or gone.
    pub action: Action,
    /// The order after the change; before it, if it is gone.
    pub order: Order,
}

/// A change of one price level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TouchedLevel {
    /// New, changed or gone.
    pub action: Action,
    /// Which side.
    pub side: Side,
    /// Its price.
    pub price: i64,
}

/// Changes since it was last cleared, in the order in which they happened.
#[derive(Clone, Debug, Default)]
pub struct BookChanges {
    /// For `MarketByOrder`.
    pub orders: Vec<OrderChange>,
    /// For `MarketByPrice`; one entry per touched level at most, joined as they happen.
    pub levels: Vec<TouchedLevel>,
}

impl BookChanges {
    /// Forgets everything; keeps the allocations.
    pub fn clear(&mut self) {
        self.orders.clear();
        self.levels.clear();
    }

    /// Joins what happened to one level into one change.
    fn level(&mut self, action: Action, side: Side, price: i64) {
        let Some(at) = self.levels.iter().position(|c| c.side == side && c.price == price) else {
            self.levels.push(TouchedLevel { action, side, price });
            return;
        };
        match (self.levels[at].action, action) {
            (Action::Add, Action::Delete) => drop(self.levels.remove(at)),
            (Action::Add, _) => {}
            (Action::Delete, Action::Add) => self.levels[at].action = Action::Update,
            (_, now) => self.levels[at].action = now,
        }
    }
}

impl Events for BookChanges {
    const WANTS_RANK: bool = false;

    fn event(&mut self, _book: BookId, event: &Event) {
        let mut order = |action, order| self.orders.push(OrderChange { action, order });
        match *event {
            Event::Added(new) => order(Action::Add, new),
            Event::Reduced { order: left, .. } => order(Action::Update, left),
            Event::Replaced { new, .. } => order(Action::Update, new),
            Event::Removed { order: old, .. } => order(Action::Delete, old),
            Event::Level { side, level, change, .. } => {
                let action = match change {
                    LevelChange::New => Action::Add,
                    LevelChange::Changed => Action::Update,
                    LevelChange::Gone => Action::Delete,
                };
                self.level(action, side, level.price);
            }
            // Neither happens to a book of the generator that somebody is told of.
            Event::FillTold { .. } | Event::Cleared { .. } => {}
        }
    }
}

/// Levels kept on each side.
pub const DEPTH: usize = 10;

/// Bits of an order's number within its book; above them is the book's.
const NUMBER_BITS: u32 = 40;

/// The books of all instruments, and what changed last.
#[derive(Debug, Default)]
pub struct Depths {
    /// The books.
    pub books: OrderBooks<Generated>,
    /// Changes of the book that was changed last.
    pub changes: BookChanges,
    free: Vec<BookId>,
}

impl Depths {
    /// A book whose prices are multiples of `tick` and whose sizes are multiples of `lot`.
    pub fn open(&mut self, tick: i64, lot: u32, typical_lots: u32) -> Book {
        let id = self.free.pop().unwrap_or(BookId(self.books.books() as u32));
        self.books.open(id);
        Book { id, next_number: 1, tick, lot: u64::from(lot), typical_lots }
    }

    /// Gives up a book.
    pub fn close(&mut self, book: &Book) {
        self.books.clear(book.id, None, &mut ());
        self.free.push(book.id);
    }
}

/// Number of an order within its book.
pub fn number_of(order: &Order) -> u64 {
    order.reference & ((1 << NUMBER_BITS) - 1)
}

/// How a book behaves.
#[derive(Clone, Debug)]
pub struct Book {
    id: BookId,
    next_number: u64,
    tick: i64,
    lot: u64,
    typical_lots: u32,
}

impl Book {
    /// Its number among the books.
    pub fn id(&self) -> BookId {
        self.id
    }

    /// Makes `price` with `size` the best level of `side`: better levels go, missing depth behind it is filled. A price or
    /// size of 0 empties the side.
    pub fn set_best(&mut self, side: Side, price: i64, size: u64, random: &mut Random, depths: &mut Depths) {
        let id = self.id;
        let best = move |depths: &Depths| depths.books.best(id, side).map(|level| level.price);
        if price <= 0 || size == 0 {
            while let Some(best) = best(depths) {
                self.remove_level(side, best, depths);
            }
            return;
        }
        let is_better = |other: i64| if side == Side::Bid { other > price } else { other < price };
        while let Some(best) = best(depths).filter(|best| is_better(*best)) {
            self.remove_level(side, best, depths);
        }
        if best(depths) == Some(price) {
            self.resize(side, price, size, random, depths);
        } else {
            self.insert_level(side, price, size, random, depths);
        }
        while depths.books.depth(self.id, side) > DEPTH {
            let Some(worst) = self.levels(side, depths).nth(DEPTH) else { break };
            self.remove_level(side, worst.price, depths);
        }
        while depths.books.depth(self.id, side) < DEPTH {
            let last = self.levels(side, depths).last().map_or(price, |level| level.price);
            let step = self.tick * (1 + i64::from(random.below(2)));
            let next = if side == Side::Bid { last - step } else { last + step };
            if next <= 0 {
                break;
            }
            let size = self.draw_size(random) * 2;
            self.insert_level(side, next, size, random, depths);
        }
    }

    /// Changes one level behind the best: an order comes, goes or is cut.
    pub fn stir(&mut self, random: &mut Random, depths: &mut Depths) {
        let side = Side::BOTH[random.below(2) as usize];
        let depth = depths.books.depth(self.id, side) as u32;
        if depth < 2 {
            return;
        }
        let at = 1 + random.below(depth - 1) as usize;
        let Some(Level { price, size, .. }) = self.levels(side, depths).nth(at) else { return };
        let drawn = self.draw_size(random);
        let next = if random.chance(0.5) { size + drawn } else { size.saturating_sub(drawn).max(self.lot) };
        self.resize(side, price, next, random, depths);
    }

    fn levels<'a>(&self, side: Side, depths: &'a Depths) -> impl Iterator<Item = Level> + use<'a> {
        depths.books.levels(self.id, side)
    }

    /// Orders of a level, the oldest first.
    fn orders<'a>(&self, side: Side, price: i64, depths: &'a Depths) -> impl Iterator<Item = Order> + use<'a> {
        depths.books.orders(self.id, side).filter(move |order| order.price == price)
    }

    fn draw_size(&self, random: &mut Random) -> u64 {
        let lots = random.exponential(f64::from(self.typical_lots)).ceil().clamp(1.0, 1e6);
        lots as u64 * self.lot
    }

    fn insert_level(&mut self, side: Side, price: i64, size: u64, random: &mut Random, depths: &mut Depths) {
        let parts = 1 + u64::from(random.below(3));
        let part = (size / parts / self.lot * self.lot).max(1).min(size);
        let mut left = size;
        for n in 1..=parts {
            let size = if n == parts { left } else { part.min(left) };
            left -= size;
            self.add_order(side, price, size, depths);
        }
    }

    fn add_order(&mut self, side: Side, price: i64, size: u64, depths: &mut Depths) {
        if size == 0 {
            return;
        }
        let reference = u64::from(self.id.0) << NUMBER_BITS | self.next_number;
        self.next_number += 1;
        let order = Order { reference, side, price, size, priority: 0, owner: 0 };
        let added = depths.books.add(self.id, &order, &mut depths.changes);
        debug_assert!(added.is_ok(), "{added:?}");
    }

    fn remove_level(&self, side: Side, price: i64, depths: &mut Depths) {
        let orders: Vec<u64> = self.orders(side, price, depths).map(|order| order.reference).collect();
        for reference in orders {
            let removed = depths.books.delete(reference, &mut depths.changes);
            debug_assert!(removed.is_ok(), "{removed:?}");
        }
    }

    /// Makes a level's total `size` (not 0): a new order at the back, or the oldest ones are cut.
    fn resize(&mut self, side: Side, price: i64, size: u64, random: &mut Random, depths: &mut Depths) {
        let before = depths.books.level(self.id, side, price).map_or(0, |level| level.size);
        if size > before {
            let orders: Vec<Order> = self.orders(side, price, depths).collect();
            if orders.len() < 6 {
                return self.add_order(side, price, size - before, depths);
            }
            let chosen = orders[random.below(orders.len() as u32) as usize];
            let larger = Order { size: chosen.size + size - before, ..chosen };
            let changed = depths.books.change(&larger, &mut depths.changes);
            debug_assert!(changed.is_ok(), "{changed:?}");
        }
        let mut cut = before.saturating_sub(size);
        while cut > 0 {
            let Some(oldest) = self.orders(side, price, depths).next() else { return };
            let by = oldest.size.min(cut);
            cut -= by;
            let reduced = depths.books.cancel(oldest.reference, by, &mut depths.changes);
            debug_assert!(reduced.is_ok(), "{reduced:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// The book of a consumer that applies the changes.
    #[derive(Default)]
    struct Consumer {
        orders: BTreeMap<u64, (Side, i64, u64)>,
    }

    impl Consumer {
        fn apply(&mut self, changes: &BookChanges) {
            for c in &changes.orders {
                let entry = (c.order.side, c.order.price, c.order.size);
                match c.action {
                    Action::Add => assert!(self.orders.insert(c.order.reference, entry).is_none()),
                    Action::Update => assert!(self.orders.insert(c.order.reference, entry).is_some()),
                    Action::Delete => assert!(self.orders.remove(&c.order.reference).is_some()),
                }
            }
        }
    }

    #[test]
    fn a_consumer_of_the_changes_holds_the_same_book() {
        let mut random = Random::new(3);
        let (mut depths, mut consumer) = (Depths::default(), Consumer::default());
        let mut book = depths.open(1, 100, 5);
        let mut levels: BTreeSet<(u8, i64)> = BTreeSet::new();
        let mut mid = 10_000i64;
        for step in 0..5_000 {
            depths.changes.clear();
            mid = (mid + i64::from(random.below(7)) - 3).max(50);
            let (bid_size, ask_size) = (100 * u64::from(1 + random.below(20)), 100 * u64::from(1 + random.below(20)));
            book.set_best(Side::Bid, mid - 1, bid_size, &mut random, &mut depths);
            book.set_best(Side::Ask, mid + 1, ask_size, &mut random, &mut depths);
            book.stir(&mut random, &mut depths);
            consumer.apply(&depths.changes);
            for c in &depths.changes.levels {
                let key = (c.side as u8, c.price);
                match c.action {
                    Action::Add => assert!(levels.insert(key), "step {step} {c:?}"),
                    Action::Update => assert!(levels.contains(&key), "step {step} {c:?}"),
                    Action::Delete => assert!(levels.remove(&key), "step {step} {c:?}"),
                }
            }
            let books = &depths.books;
            assert_eq!(books.best(book.id, Side::Bid).map(|level| level.size), Some(bid_size));
            assert_eq!(books.best(book.id, Side::Ask).map(|level| level.price), Some(mid + 1));
            let held: Vec<Order> = Side::BOTH.iter().flat_map(|&side| books.orders(book.id, side)).collect();
            assert_eq!(held.len(), consumer.orders.len());
            assert!(held.iter().all(|o| consumer.orders[&o.reference] == (o.side, o.price, o.size)));
            assert_eq!(levels.len(), books.depth(book.id, Side::Bid) + books.depth(book.id, Side::Ask));
            assert_ne!(books.state(book.id), market::BookState::Crossed);
            books.check_invariants();
        }
        depths.close(&book);
        assert!(depths.books.is_empty() && depths.open(1, 100, 5).id == book.id);
    }
}
