//! Books of which the venue tells every order.

use super::{
    Hint, MOST_ORDERS, NONE, OrderBooks, Refused, Stored, StoredLevel, free_level, free_order, ladder_of, scale,
    side_of, tell_gone,
};
use crate::event::{BookId, Cause, Event, Events, Level, LevelChange, Order, Side};
use crate::rules::{ByOrder, FillRule, Priority, Rules};

/// Where an order stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Orders of its price that are before it.
    pub orders_ahead: u32,
    /// Sizes of the orders before it.
    pub size_ahead: u64,
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

impl<R: ByOrder, const QUEUED: bool> OrderBooks<R, QUEUED> {
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
        if self.free_order == NONE && self.orders.len() >= MOST_ORDERS {
            return Err(Refused::Uncountable(order.reference));
        }
        let (level, change) = self.level_for(ladder, order)?;
        let place = self.place_for(order, level);
        self.index.enter(vacant, place);
        let stored = self.attach(place, level, order.size, order.priority);
        events.event(book, &Event::Added(*order));
        self.tell_level(&stored, change, events);
        Ok(())
    }

    /// An execution of `by`, as the rules have it: what is left of the order, and its book.
    ///
    /// # Errors
    /// No order has the number, or it had less than was taken; then it is gone, too.
    #[inline]
    pub fn fill<E: Events>(&mut self, reference: u64, by: u64, events: &mut E) -> Result<(BookId, Order), Refused> {
        self.reduce_near(reference, by, Cause::Fill, Hint::NONE, events)
    }

    /// Cancels a part of an order, which stays where it is: what is left of it (size 0: it is gone), and its book.
    ///
    /// # Errors
    /// No order has the number, or it had less than was taken; then it is gone, too.
    #[inline]
    pub fn cancel<E: Events>(&mut self, reference: u64, by: u64, events: &mut E) -> Result<(BookId, Order), Refused> {
        self.reduce_near(reference, by, Cause::Cancel, Hint::NONE, events)
    }

    /// As [`OrderBooks::fill`] or [`OrderBooks::cancel`], which the cause says, of an order that was looked ahead at.
    ///
    /// # Errors
    /// As of both.
    #[inline]
    pub fn reduce_near<E: Events>(
        &mut self,
        reference: u64,
        by: u64,
        cause: Cause,
        hint: Hint,
        events: &mut E,
    ) -> Result<(BookId, Order), Refused> {
        if cause == Cause::Fill && R::FILL == FillRule::Reported {
            let (book, order) = self.order(reference).ok_or(Refused::UnknownOrder(reference))?;
            events.event(book, &Event::FillTold { order, by });
            return Ok((book, order));
        }
        let place = self.find_near(reference, hint)?;
        let had = self.orders.get(place).size;
        if by >= had {
            let (book, order) = self.remove(place, cause, events);
            let exceeds = Refused::Exceeds { reference, by, had };
            return if by == had { Ok((book, Order { size: 0, ..order })) } else { Err(exceeds) };
        }
        let order = self.orders.get_mut(place);
        order.size -= by;
        let order = *order;
        let level = self.levels.get_mut(order.level);
        level.size -= by;
        let level = *level;
        let order = self.order_of(place, &order, &level);
        events.event(level.book(), &Event::Reduced { order, by, cause });
        self.tell_level(&level, LevelChange::Changed, events);
        Ok((level.book(), order))
    }

    /// Removes an order: how it was, and its book.
    ///
    /// # Errors
    /// No order has the number.
    #[inline]
    pub fn delete<E: Events>(&mut self, reference: u64, events: &mut E) -> Result<(BookId, Order), Refused> {
        self.delete_near(reference, Hint::NONE, events)
    }

    /// As [`OrderBooks::delete`], of an order that was looked ahead at.
    ///
    /// # Errors
    /// As of [`OrderBooks::delete`].
    #[inline]
    pub fn delete_near<E: Events>(
        &mut self,
        reference: u64,
        hint: Hint,
        events: &mut E,
    ) -> Result<(BookId, Order), Refused> {
        let place = self.find_near(reference, hint)?;
        Ok(self.remove(place, Cause::Cancel, events))
    }

    /// Gives an order other terms under its number: side, price, size, priority, owner. Whether it keeps its place is the rules' matter.
    /// Book of the level.
    ///
    /// # Errors
    /// Nothing has changed: no order has the number, the size is 0, or the level's sum cannot be counted.
    pub fn change<E: Events>(&mut self, new: &Order, events: &mut E) -> Result<BookId, Refused> {
        let place = self.find_near(new.reference, Hint::NONE)?;
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
        self.replace_near(reference, by, terms, Hint::NONE, events)
    }

    /// As [`OrderBooks::replace`], of an order that was looked ahead at.
    ///
    /// # Errors
    /// As of [`OrderBooks::replace`].
    #[inline]
    pub fn replace_near<E: Events>(
        &mut self,
        reference: u64,
        by: u64,
        terms: Terms,
        hint: Hint,
        events: &mut E,
    ) -> Result<(BookId, Order), Refused> {
        let place = self.find_near(reference, hint)?;
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
        self.index.remove(reference, place);
        if let Some(vacant) = self.index.vacant(by, |place| orders.get(place).reference == by) {
            self.index.enter(vacant, place);
        }
        Ok((book, new))
    }

    /// The level for a new order at its price, made if there is none, and what that makes of it.
    #[inline]
    fn level_for(&mut self, ladder: u32, order: &Order) -> Result<(u32, LevelChange), Refused> {
        let scale = scale::<R>(order.side);
        if let Some(level) = self.ladders[ladder as usize].find(scale, order.price) {
            let sum = self.levels.get(level).size.checked_add(order.size);
            return sum.map(|_| (level, LevelChange::Changed)).ok_or(Refused::Uncountable(order.reference));
        }
        let level = self.make_level(ladder, Level { price: order.price, size: 0, orders: 0 });
        self.ladders[ladder as usize].insert(scale, order.price, level);
        Ok((level, LevelChange::New))
    }

    /// The place of an order, which may have been seen ahead.
    #[inline]
    fn find_near(&self, reference: u64, hint: Hint) -> Result<u32, Refused> {
        let (place, is_inside) = self.index.peek(reference);
        let place = if is_inside { place } else { hint.0 };
        match self.orders.try_get(place) {
            Some(order) if order.reference == reference && order.level != NONE => Ok(place),
            _ => self.find(reference),
        }
    }

    #[inline(never)]
    fn find(&self, reference: u64) -> Result<u32, Refused> {
        let found = self.index.find(reference, |place| self.orders.get(place).reference == reference);
        found.ok_or(Refused::UnknownOrder(reference))
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

    /// Adds a written order to its level: to the sums, and to the queue where its priority wants it. The level as it is now.
    #[inline]
    fn attach(&mut self, place: u32, level: u32, size: u64, priority: u64) -> StoredLevel {
        let stored = self.levels.get_mut(level);
        stored.size += size;
        stored.orders += 1;
        if QUEUED {
            let mut before = stored.last;
            if R::PRIORITY == Priority::Number {
                while before != NONE && *self.priorities.get(before) > priority {
                    before = self.orders.get(before).previous;
                }
            }
            let behind = if before == NONE {
                std::mem::replace(&mut stored.first, place)
            } else {
                std::mem::replace(&mut self.orders.get_mut(before).next, place)
            };
            if behind == NONE {
                stored.last = place;
            } else {
                self.orders.get_mut(behind).previous = place;
            }
            let order = self.orders.get_mut(place);
            (order.previous, order.next) = (before, behind);
        }
        *stored
    }

    /// Takes an order out of its level: out of the sums and out of the queue. The level as it is now, which may be empty.
    #[inline]
    fn detach(&mut self, order: &Stored) -> StoredLevel {
        let Stored { size, previous, next, level, .. } = *order;
        let stored = self.levels.get_mut(level);
        stored.size -= size;
        stored.orders -= 1;
        if QUEUED {
            if previous == NONE {
                stored.first = next;
            } else {
                self.orders.get_mut(previous).next = next;
            }
            if next == NONE {
                stored.last = previous;
            } else {
                self.orders.get_mut(next).previous = previous;
            }
        }
        *stored
    }

    /// Removes the order at a place: its book, and how it was.
    #[inline]
    fn remove<E: Events>(&mut self, place: u32, cause: Cause, events: &mut E) -> (BookId, Order) {
        let stored = *self.orders.get(place);
        self.index.remove(stored.reference, place);
        let level = self.detach(&stored);
        let order = self.order_of(place, &stored, &level);
        free_order(&mut self.orders, &mut self.free_order, place);
        events.event(level.book(), &Event::Removed { order, cause });
        self.settle(stored.level, &level, events);
        (level.book(), order)
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
        let stored = *self.orders.get(place);
        let from = stored.level;
        let book = self.levels.get(from).book();
        let is_same_level = old.side == new.side && old.price == new.price;
        let (to, change) = if is_same_level {
            let rest = self.levels.get(from).size - old.size;
            rest.checked_add(new.size).ok_or(Refused::Uncountable(new.reference))?;
            (from, LevelChange::Changed)
        } else {
            self.level_for(ladder_of(book, new.side), new)?
        };
        if keeps_place {
            let level = self.levels.get_mut(from);
            level.size = level.size - old.size + new.size;
        } else {
            self.detach(&stored);
        }
        let order = self.orders.get_mut(place);
        (order.reference, order.size, order.level, order.owner) = (new.reference, new.size, to, new.owner);
        if QUEUED {
            *self.priorities.get_mut(place) = new.priority;
        }
        if !keeps_place {
            self.attach(place, to, new.size, new.priority);
        }
        events.event(book, &Event::Replaced { old: *old, new: *new, keeps_place });
        if !is_same_level {
            let left = *self.levels.get(from);
            self.settle(from, &left, events);
        }
        self.tell_level(self.levels.get(to), change, events);
        Ok(book)
    }

    /// Tells of a level that lost something, and takes it off its ladder if nothing is left.
    #[inline]
    fn settle<E: Events>(&mut self, at: u32, level: &StoredLevel, events: &mut E) {
        if level.orders > 0 {
            return self.tell_level(level, LevelChange::Changed, events);
        }
        let (prices, scale) = (&mut self.ladders[level.ladder as usize], scale::<R>(side_of(level.ladder)));
        let rank = if E::WANTS_RANK { prices.rank(scale, level.price) } else { Event::UNRANKED };
        prices.remove(scale, level.price);
        free_level(&mut self.levels, &mut self.free_level, at);
        tell_gone(level.ladder, level.price, rank, events);
    }

    /// Invariants between changes; for tests.
    ///
    /// # Panics
    /// Something does not hold.
    pub fn check_invariants(&self) {
        let mut orders = 0;
        for (ladder, rungs) in self.ladders.iter().enumerate() {
            let (mut last, mut levels) = (None, 0);
            let scale = scale::<R>(side_of(ladder as u32));
            for rung in rungs.iter(scale) {
                let level = self.levels.get(rung.level);
                assert_eq!(level.ladder as usize, ladder, "a level is on its ladder");
                assert_eq!(side_of(level.ladder).price_of(rung.goodness), level.price);
                assert!(level.orders > 0 && last.is_none_or(|last| last > rung.goodness), "levels are in order");
                last = Some(rung.goodness);
                assert_eq!(rungs.find(scale, level.price), Some(rung.level), "a level is found by its price");
                assert_eq!(rungs.rank(scale, level.price), levels, "a rank is the place among the levels");
                levels += 1;
                orders += level.orders as usize;
                if QUEUED {
                    self.check_queue(rung.level);
                }
            }
            assert_eq!(rungs.len(), levels as usize);
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
        ladder.into_iter().flat_map(move |prices| prices.iter(scale::<R>(side))).flat_map(|rung| {
            let first = Some(self.levels.get(rung.level).first).filter(|place| *place != NONE);
            let places =
                std::iter::successors(first, |place| Some(self.orders.get(*place).next).filter(|next| *next != NONE));
            places.map(|place| self.order_at(place))
        })
    }

    /// Where an order stands at its price. Walks over those before it.
    pub fn place(&self, reference: u64) -> Option<Place> {
        let place = self.index.find(reference, |place| self.orders.get(place).reference == reference)?;
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
