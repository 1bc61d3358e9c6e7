//! A book as slow and plain as can be: a list of orders in the order of their places. And a follower, who knows events only.

use std::collections::BTreeMap;

use market::{BookId, ByOrder, Event, Events, FillRule, Level, LevelChange, Order, Priority, Side};

/// The orders of one book; those of one price stand in the list as in their queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Naive {
    pub(crate) orders: Vec<Order>,
}

impl Naive {
    pub(crate) fn at(&self, reference: u64) -> Option<usize> {
        self.orders.iter().position(|order| order.reference == reference)
    }

    pub(crate) fn add<R: ByOrder>(&mut self, order: Order) {
        let behind = |other: &Order| {
            R::PRIORITY == Priority::Number
                && (other.side, other.price) == (order.side, order.price)
                && other.priority > order.priority
        };
        let at = self.orders.iter().position(behind).unwrap_or(self.orders.len());
        self.orders.insert(at, order);
    }

    pub(crate) fn take(&mut self, reference: u64, by: u64) {
        if let Some(at) = self.at(reference) {
            if self.orders[at].size > by {
                self.orders[at].size -= by;
            } else {
                self.orders.remove(at);
            }
        }
    }

    pub(crate) fn fill<R: ByOrder>(&mut self, reference: u64, by: u64) {
        if R::FILL == FillRule::Takes {
            self.take(reference, by);
        }
    }

    pub(crate) fn change<R: ByOrder>(&mut self, new: Order, place: Option<bool>) {
        if let Some(at) = self.at(new.reference) {
            let old = self.orders[at];
            if place.unwrap_or_else(|| R::keeps_place(&old, &new)) {
                // Who keeps the place has had it since then.
                let since = if R::PRIORITY == Priority::Time { old.priority } else { new.priority };
                self.orders[at] = Order { priority: since, ..new };
            } else {
                self.orders.remove(at);
                self.add::<R>(new);
            }
        }
    }

    pub(crate) fn side(&self, side: Side) -> Vec<Order> {
        let mut orders: Vec<Order> = self.orders.iter().filter(|order| order.side == side).copied().collect();
        // Stable: what has one price keeps its order.
        match side {
            Side::Bid => orders.sort_by_key(|order| std::cmp::Reverse(order.price)),
            Side::Ask => orders.sort_by_key(|order| order.price),
        }
        orders
    }

    pub(crate) fn levels(&self, side: Side) -> Vec<Level> {
        let mut levels: Vec<Level> = Vec::new();
        for order in self.side(side) {
            match levels.last_mut().filter(|level| level.price == order.price) {
                Some(level) => (level.size, level.orders) = (level.size + order.size, level.orders + 1),
                None => levels.push(Level { price: order.price, size: order.size, orders: 1 }),
            }
        }
        levels
    }
}

/// Rebuilds levels and orders from events alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Follower {
    pub(crate) levels: BTreeMap<(BookId, Side, i64), Level>,
    pub(crate) orders: BTreeMap<u64, (BookId, Order)>,
    /// Rank of the last level event, and what it was of.
    pub(crate) last: Option<(BookId, Side, Level, u32, LevelChange)>,
}

impl Follower {
    pub(crate) fn levels_of(&self, book: BookId, side: Side) -> Vec<Level> {
        let of = |(key, level): (&(BookId, Side, i64), &Level)| ((key.0, key.1) == (book, side)).then_some(*level);
        let mut levels: Vec<Level> = self.levels.iter().filter_map(of).collect();
        if side == Side::Bid {
            levels.reverse();
        }
        levels
    }

    fn remove(&mut self, order: &Order) {
        let (_, known) = self.orders.remove(&order.reference).expect("an order that was told");
        assert_eq!(known, *order, "what goes is told as it was");
    }
}

impl Events for Follower {
    fn event(&mut self, book: BookId, event: &Event) {
        match event {
            Event::Added(order) => assert_eq!(self.orders.insert(order.reference, (book, *order)), None),
            Event::Reduced { order, by, .. } => {
                let (of, known) = self.orders.insert(order.reference, (book, *order)).expect("known");
                assert_eq!((of, known), (book, Order { size: order.size + by, ..*order }));
            }
            Event::Removed { order, .. } => self.remove(order),
            Event::FillTold { order, .. } => assert_eq!(self.orders.get(&order.reference), Some(&(book, *order))),
            Event::Replaced { old, new, .. } => {
                self.remove(old);
                self.orders.insert(new.reference, (book, *new));
            }
            Event::Level { side, level, change, rank } => {
                self.last = Some((book, *side, *level, *rank, *change));
                let key = (book, *side, level.price);
                let known = match change {
                    LevelChange::Gone => {
                        assert_eq!((level.size, level.orders), (0, 0));
                        self.levels.remove(&key)
                    }
                    _ => self.levels.insert(key, *level),
                };
                assert_eq!(known.is_none(), *change == LevelChange::New, "{event:?}");
            }
            Event::Cleared { side } => {
                let is_kept = |of: BookId, at: Side| of != book || side.is_some_and(|side| side != at);
                self.levels.retain(|key, _| is_kept(key.0, key.1));
                self.orders.retain(|_, (of, order)| is_kept(*of, order.side));
            }
        }
    }
}
