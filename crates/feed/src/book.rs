//! The order book of one instrument behind its best quote: price levels made of single orders.
//!
//! The best quote is decided elsewhere; the book follows it ([`Book::set_best`]) and lives a little behind it
//! ([`Book::stir`]). INVARIANT: each side is sorted best first, no level is empty, and no bid reaches an ask.

use super::random::Random;

/// Bid or ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BookSide {
    /// Buyers; best is the highest price.
    Bid = 0,
    /// Sellers; best is the lowest price.
    Ask = 1,
}

impl BookSide {
    /// Both, bids first.
    pub const BOTH: [Self; 2] = [Self::Bid, Self::Ask];

    /// True when `a` is nearer the other side than `b`.
    fn better(self, a: i64, b: i64) -> bool {
        match self {
            Self::Bid => a > b,
            Self::Ask => a < b,
        }
    }
}

/// One order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Unique in the book's life.
    pub id: u64,
    /// Size left.
    pub size: u64,
}

/// All orders at one price, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Price in units of the instrument's last decimal.
    pub price: i64,
    /// Never empty.
    pub orders: Vec<Order>,
}

impl Level {
    /// Sum of the orders' sizes.
    pub fn size(&self) -> u64 {
        self.orders.iter().map(|o| o.size).sum()
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
    /// Which side.
    pub side: BookSide,
    /// Its price.
    pub price: i64,
    /// The order after the change.
    pub order: Order,
}

/// A change of one price level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelChange {
    /// New, changed or gone.
    pub action: Action,
    /// Which side.
    pub side: BookSide,
    /// Its price.
    pub price: i64,
}

/// Changes since it was last cleared, in the order in which they happened.
#[derive(Clone, Debug, Default)]
pub struct BookChanges {
    /// For `MarketByOrder`.
    pub orders: Vec<OrderChange>,
    /// For `MarketByPrice`; one entry per touched level at most, joined as they happen.
    pub levels: Vec<LevelChange>,
}

impl BookChanges {
    /// Forgets everything; keeps the allocations.
    pub fn clear(&mut self) {
        self.orders.clear();
        self.levels.clear();
    }

    fn order(&mut self, action: Action, side: BookSide, price: i64, order: Order) {
        self.orders.push(OrderChange { action, side, price, order });
    }

    /// Joins what happened to one level into one change.
    pub(crate) fn level(&mut self, action: Action, side: BookSide, price: i64) {
        let Some(at) = self.levels.iter().position(|c| c.side == side && c.price == price) else {
            self.levels.push(LevelChange { action, side, price });
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

/// Levels kept on each side.
pub const DEPTH: usize = 10;

/// The book.
#[derive(Clone, Debug)]
pub struct Book {
    sides: [Vec<Level>; 2],
    next_id: u64,
    tick: i64,
    lot: u64,
    typical_lots: u32,
}

impl Book {
    /// An empty book whose prices are multiples of `tick` and whose sizes are multiples of `lot`.
    pub fn new(tick: i64, lot: u32, typical_lots: u32) -> Self {
        Self { sides: [Vec::new(), Vec::new()], next_id: 1, tick, lot: u64::from(lot), typical_lots }
    }

    /// The levels of one side, best first.
    pub fn side(&self, side: BookSide) -> &[Level] {
        &self.sides[side as usize]
    }

    /// The level at `price`.
    pub fn level(&self, side: BookSide, price: i64) -> Option<&Level> {
        self.side(side).iter().find(|l| l.price == price)
    }

    /// Makes `price` with `size` the best level of `side`: better levels go, missing depth behind it is filled. A price or
    /// size of 0 empties the side.
    pub fn set_best(&mut self, side: BookSide, price: i64, size: u64, random: &mut Random, changes: &mut BookChanges) {
        if price <= 0 || size == 0 {
            while !self.sides[side as usize].is_empty() {
                self.remove_level(side, 0, changes);
            }
            return;
        }
        while self.side(side).first().is_some_and(|l| side.better(l.price, price)) {
            self.remove_level(side, 0, changes);
        }
        if self.side(side).first().is_none_or(|l| l.price != price) {
            self.insert_level(side, 0, price, size, random, changes);
        } else {
            self.resize(side, 0, size, random, changes);
        }
        while self.side(side).len() > DEPTH {
            self.remove_level(side, DEPTH, changes);
        }
        while self.side(side).len() < DEPTH {
            let last = self.side(side).last().map_or(price, |l| l.price);
            let step = self.tick * (1 + i64::from(random.below(2)));
            let next = if side == BookSide::Bid { last - step } else { last + step };
            if next <= 0 {
                break;
            }
            let size = self.draw_size(random) * 2;
            let at = self.side(side).len();
            self.insert_level(side, at, next, size, random, changes);
        }
    }

    /// Changes one level behind the best: an order comes, goes or is cut.
    pub fn stir(&mut self, random: &mut Random, changes: &mut BookChanges) {
        let side = BookSide::BOTH[random.below(2) as usize];
        let depth = self.side(side).len() as u32;
        if depth < 2 {
            return;
        }
        let at = 1 + random.below(depth - 1) as usize;
        let size = self.sides[side as usize][at].size();
        let drawn = self.draw_size(random);
        let next = if random.chance(0.5) { size + drawn } else { size.saturating_sub(drawn).max(self.lot) };
        self.resize(side, at, next, random, changes);
    }

    fn draw_size(&self, random: &mut Random) -> u64 {
        let lots = random.exponential(f64::from(self.typical_lots)).ceil().clamp(1.0, 1e6);
        lots as u64 * self.lot
    }

    fn insert_level(
        &mut self,
        side: BookSide,
        at: usize,
        price: i64,
        size: u64,
        random: &mut Random,
        changes: &mut BookChanges,
    ) {
        self.sides[side as usize].insert(at, Level { price, orders: Vec::new() });
        let parts = 1 + u64::from(random.below(3));
        let part = (size / parts / self.lot * self.lot).max(1).min(size);
        let mut left = size;
        for n in 1..=parts {
            let size = if n == parts { left } else { part.min(left) };
            left -= size;
            self.add_order(side, at, size, changes);
        }
        changes.level(Action::Add, side, price);
    }

    fn add_order(&mut self, side: BookSide, at: usize, size: u64, changes: &mut BookChanges) {
        if size == 0 {
            return;
        }
        let order = Order { id: self.next_id, size };
        self.next_id += 1;
        let level = &mut self.sides[side as usize][at];
        level.orders.push(order);
        changes.order(Action::Add, side, level.price, order);
    }

    fn remove_level(&mut self, side: BookSide, at: usize, changes: &mut BookChanges) {
        let level = self.sides[side as usize].remove(at);
        for order in level.orders {
            changes.order(Action::Delete, side, level.price, order);
        }
        changes.level(Action::Delete, side, level.price);
    }

    /// Makes a level's total `size` (not 0): a new order at the back, or the oldest ones are cut.
    fn resize(&mut self, side: BookSide, at: usize, size: u64, random: &mut Random, changes: &mut BookChanges) {
        let level = &mut self.sides[side as usize][at];
        let (price, before) = (level.price, level.size());
        if before == size {
            return;
        }
        if size > before {
            if level.orders.len() < 6 {
                self.add_order(side, at, size - before, changes);
            } else {
                let chosen = random.below(level.orders.len() as u32) as usize;
                level.orders[chosen].size += size - before;
                changes.order(Action::Update, side, price, level.orders[chosen]);
            }
        } else {
            let mut cut = before - size;
            while cut > 0 {
                let oldest = &mut level.orders[0];
                if oldest.size <= cut {
                    cut -= oldest.size;
                    let gone = level.orders.remove(0);
                    changes.order(Action::Delete, side, price, gone);
                } else {
                    oldest.size -= cut;
                    cut = 0;
                    changes.order(Action::Update, side, price, *oldest);
                }
            }
        }
        changes.level(Action::Update, side, price);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// The book of a consumer that applies the changes.
    #[derive(Default)]
    struct Consumer {
        orders: BTreeMap<u64, (BookSide, i64, u64)>,
    }

    impl Consumer {
        fn apply(&mut self, changes: &BookChanges) {
            for c in &changes.orders {
                let entry = (c.side, c.price, c.order.size);
                match c.action {
                    Action::Add => assert!(self.orders.insert(c.order.id, entry).is_none()),
                    Action::Update => assert!(self.orders.insert(c.order.id, entry).is_some()),
                    Action::Delete => assert!(self.orders.remove(&c.order.id).is_some()),
                }
            }
        }
    }

    #[test]
    fn a_consumer_of_the_changes_holds_the_same_book() {
        let mut random = Random::new(3);
        let (mut book, mut changes, mut consumer) = (Book::new(1, 100, 5), BookChanges::default(), Consumer::default());
        let mut levels: BTreeSet<(u8, i64)> = BTreeSet::new();
        let mut mid = 10_000i64;
        for step in 0..5_000 {
            changes.clear();
            mid = (mid + i64::from(random.below(7)) - 3).max(50);
            let (bid_size, ask_size) = (100 * u64::from(1 + random.below(20)), 100 * u64::from(1 + random.below(20)));
            book.set_best(BookSide::Bid, mid - 1, bid_size, &mut random, &mut changes);
            book.set_best(BookSide::Ask, mid + 1, ask_size, &mut random, &mut changes);
            book.stir(&mut random, &mut changes);
            consumer.apply(&changes);
            for c in &changes.levels {
                let key = (c.side as u8, c.price);
                match c.action {
                    Action::Add => assert!(levels.insert(key), "step {step} {c:?}"),
                    Action::Update => assert!(levels.contains(&key), "step {step} {c:?}"),
                    Action::Delete => assert!(levels.remove(&key), "step {step} {c:?}"),
                }
            }
            assert_eq!(book.side(BookSide::Bid)[0].size(), bid_size);
            assert_eq!(book.side(BookSide::Ask)[0].price, mid + 1);
            let held: Vec<_> = BookSide::BOTH
                .iter()
                .flat_map(|&side| book.side(side).iter().map(move |l| (side, l)))
                .flat_map(|(side, l)| l.orders.iter().map(move |o| (o.id, (side, l.price, o.size))))
                .collect();
            assert_eq!(held.len(), consumer.orders.len());
            assert!(held.iter().all(|(id, entry)| consumer.orders[id] == *entry));
            assert_eq!(levels.len(), book.side(BookSide::Bid).len() + book.side(BookSide::Ask).len());
            for side in BookSide::BOTH {
                assert!(book.side(side).is_sorted_by(|a, b| side.better(a.price, b.price)));
                assert!(book.side(side).iter().all(|l| !l.orders.is_empty() && l.orders.iter().all(|o| o.size > 0)));
            }
        }
    }
}
