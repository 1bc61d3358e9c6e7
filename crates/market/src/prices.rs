//! The prices of one side: those near the best price by their place, all others in order.
//!
//! Nearly all that happens to a book happens within some dozen ticks of its best price. For as many ticks there is a slot each, and a bit that says whether
//! a level stands there: a price is found, put and taken without a search, and the bits say which is the best. INVARIANT: a price that has a slot
//! is nowhere else, so that who finds the slot empty knows that there is no such level. Prices between two ticks, and those of venues without a tick, are
//! on the [`Ladder`].

use crate::event::Side;
use crate::ladder::{Ladder, Rung};

/// Ticks that have a slot.
const SPAN: i64 = 32;
/// Ticks above a price that the span is moved for: as many better prices have a slot, all others are worse.
const ABOVE: i64 = 7;
/// The span moves down for a worse price if its best level stands on one of so many lowest ticks.
const LOW: i64 = 8;

/// The prices of one side, and the level of each.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Prices {
    /// A bit for each slot: a level stands there.
    taken: u32,
    /// Lowest tick of the span. The slot of a tick is its remainder: a span that moves leaves the others where they are.
    from: i64,
    /// Levels whose prices have no slot.
    pub(crate) far: Ladder<u32>,
    slots: [u32; SPAN as usize],
}

impl Default for Prices {
    fn default() -> Self {
        Self { taken: 0, from: 0, far: Ladder::default(), slots: [0; SPAN as usize] }
    }
}

/// The step by which a side's prices are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Of a price's smallest units; 0: there is none.
    pub(crate) tick: i64,
    pub(crate) side: Side,
}

impl Scale {
    /// The number of a price's tick, which rises from the worst price to the best; `None`: it is on none.
    #[inline]
    fn tick_of(self, price: i64) -> Option<i64> {
        if self.tick == 0 {
            return None;
        }
        let ticks = price / self.tick;
        (ticks * self.tick == price).then(|| self.side.goodness(ticks))
    }

    /// The number of the tick that a price is on, or of one beside it: whose slot is to be looked ahead at.
    #[inline]
    fn near_tick(self, price: i64) -> i64 {
        if self.tick == 0 { 0 } else { self.side.goodness(price / self.tick) }
    }

    /// The number of the best tick that is no better than a price.
    fn tick_below(self, price: i64) -> i64 {
        let (floor, is_between) = (price.div_euclid(self.tick), price.rem_euclid(self.tick) != 0);
        self.side.goodness(floor + i64::from(is_between && self.side == Side::Ask))
    }

    /// The goodness of the price of a tick.
    #[inline]
    fn goodness(self, tick: i64) -> i64 {
        self.side.goodness(self.side.price_of(tick).saturating_mul(self.tick))
    }

    /// The tick of a price of this goodness.
    fn tick_of_goodness(self, goodness: i64) -> Option<i64> {
        self.tick_of(self.side.price_of(goodness))
    }
}

#[inline]
fn slot_of(tick: i64) -> usize {
    (tick & (SPAN - 1)) as usize
}

impl Prices {
    #[inline]
    fn is_in_span(&self, tick: i64) -> bool {
        (tick.wrapping_sub(self.from) as u64) < SPAN as u64
    }

    /// The bits of the span from its lowest tick up.
    #[inline]
    fn bits(&self) -> u32 {
        self.taken.rotate_right(slot_of(self.from) as u32)
    }

    pub(crate) fn memory(&self) -> usize {
        self.far.memory()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.taken.count_ones() as usize + self.far.len()
    }

    /// The level at a price.
    #[inline]
    pub(crate) fn find(&self, scale: Scale, price: i64) -> Option<u32> {
        if let Some(tick) = scale.tick_of(price)
            && self.is_in_span(tick)
        {
            let slot = slot_of(tick);
            return (self.taken >> slot & 1 == 1).then(|| self.slots[slot]);
        }
        self.find_far(scale, price)
    }

    #[inline(never)]
    fn find_far(&self, scale: Scale, price: i64) -> Option<u32> {
        let at = self.far.find(scale.side.goodness(price)).ok()?;
        Some(self.far.at(at).level)
    }

    /// Puts a level to a price that has none.
    #[inline]
    pub(crate) fn insert(&mut self, scale: Scale, price: i64, level: u32) {
        match scale.tick_of(price) {
            Some(tick) if self.is_in_span(tick) => {
                self.taken |= 1 << slot_of(tick);
                self.slots[slot_of(tick)] = level;
            }
            tick => self.insert_far(scale, price, tick, level),
        }
    }

    #[inline(never)]
    fn insert_far(&mut self, scale: Scale, price: i64, tick: Option<i64>, level: u32) {
        if let Some(tick) = tick {
            self.follow(scale, tick);
            if self.is_in_span(tick) {
                self.taken |= 1 << slot_of(tick);
                self.slots[slot_of(tick)] = level;
                return;
            }
        }
        self.put_far(scale.side.goodness(price), level);
    }

    fn put_far(&mut self, goodness: i64, level: u32) {
        // No level has this price: where it would be is all that there is to find.
        let (Ok(at) | Err(at)) = self.far.find(goodness);
        self.far.insert(at, goodness, level);
    }

    /// Takes the level off a price.
    #[inline]
    pub(crate) fn remove(&mut self, scale: Scale, price: i64) {
        match scale.tick_of(price) {
            Some(tick) if self.is_in_span(tick) => self.taken &= !(1 << slot_of(tick)),
            _ => self.remove_far(scale.side.goodness(price)),
        }
    }

    #[inline(never)]
    fn remove_far(&mut self, goodness: i64) {
        if let Ok(at) = self.far.find(goodness) {
            self.far.remove(at);
        }
    }

    /// Moves the span for a tick that it does not have, if that is where the market is now.
    fn follow(&mut self, scale: Scale, tick: i64) {
        let best = self.from + SPAN - 1 - i64::from(self.bits().leading_zeros());
        let to = if self.taken == 0 || tick > self.from {
            tick
        } else if best - self.from < LOW {
            best
        } else {
            return;
        };
        let from = to + ABOVE + 1 - SPAN;
        let before = std::mem::replace(&mut self.from, from);
        let mut left = self.taken;
        while left != 0 {
            let slot = left.trailing_zeros() as usize;
            left &= left - 1;
            let tick = before + ((slot as i64 - before) & (SPAN - 1));
            if !self.is_in_span(tick) {
                self.taken &= !(1 << slot);
                self.put_far(scale.goodness(tick), self.slots[slot]);
            }
        }
        self.bring_near(scale);
    }

    /// A price that is on the ladder and has a slot now goes there.
    fn bring_near(&mut self, scale: Scale) {
        let mut at = self.far.find(scale.goodness(self.from)).unwrap_or_else(|at| at);
        while let Some(Rung { goodness, level }) = self.far.get(at).copied()
            && goodness <= scale.goodness(self.from + SPAN - 1)
        {
            if let Some(tick) = scale.tick_of_goodness(goodness) {
                self.far.remove(at);
                self.taken |= 1 << slot_of(tick);
                self.slots[slot_of(tick)] = level;
            } else {
                at += 1;
            }
        }
    }

    /// Levels that are better than the one at a price.
    pub(crate) fn rank(&self, scale: Scale, price: i64) -> u32 {
        let goodness = scale.side.goodness(price);
        let (Ok(at) | Err(at)) = self.far.find(goodness);
        let is_there = usize::from(self.far.get(at).is_some_and(|rung| rung.goodness == goodness));
        let far = self.far.len() - at - is_there;
        // The slots of better ticks: all, none, or those from this tick up.
        let better = match self.taken {
            0 => 0,
            _ => match scale.tick_below(price).saturating_sub(self.from) {
                ..-1 => self.bits(),
                above @ -1..31 => self.bits() >> (above + 1),
                _ => 0,
            },
        };
        better.count_ones() + far as u32
    }

    /// The level at the best price.
    #[inline]
    pub(crate) fn best(&self, scale: Scale) -> Option<u32> {
        let (bits, far) = (self.bits(), self.far.last());
        if bits == 0 {
            return far.map(|rung| rung.level);
        }
        let tick = self.from + SPAN - 1 - i64::from(bits.leading_zeros());
        match far {
            Some(far) if far.goodness > scale.goodness(tick) => Some(far.level),
            _ => Some(self.slots[slot_of(tick)]),
        }
    }

    /// The best first.
    #[inline]
    pub(crate) fn iter(&self, scale: Scale) -> impl Iterator<Item = Rung<u32>> + use<'_> {
        let (mut bits, mut far) = (self.bits(), self.far.iter().copied().peekable());
        std::iter::from_fn(move || {
            if bits == 0 {
                return far.next();
            }
            let above = i64::from(SPAN as u32 - 1 - bits.leading_zeros());
            let goodness = scale.goodness(self.from + above);
            if far.peek().is_some_and(|rung| rung.goodness > goodness) {
                return far.next();
            }
            bits &= !(1 << above);
            Some(Rung { goodness, level: self.slots[slot_of(self.from + above)] })
        })
    }

    pub(crate) fn clear(&mut self) {
        self.taken = 0;
        self.far.clear();
    }

    /// Where it lies which prices there are.
    #[inline]
    pub(crate) fn address(&self) -> *const u8 {
        std::ptr::from_ref(self).cast()
    }

    /// Where the slot of a price lies.
    #[inline]
    pub(crate) fn slot_address(&self, scale: Scale, price: i64) -> *const u8 {
        std::ptr::from_ref(&self.slots[slot_of(scale.near_tick(price))]).cast()
    }

    /// The level that has the slot of a price, if it has one and stands: to be looked ahead at.
    #[inline]
    pub(crate) fn guess(&self, scale: Scale, price: i64) -> u32 {
        self.slots[slot_of(scale.near_tick(price))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A market that wanders, jumps, and has levels far away and between two ticks: whatever the span does, all is as in a map.
    #[test]
    fn prices_are_as_in_a_map_wherever_the_span_is() {
        for side in Side::BOTH {
            let scale = Scale { tick: 100, side };
            let (mut prices, mut map, mut moved) = (Prices::default(), BTreeMap::new(), 0);
            let (mut state, mut middle) = (5u64, 0i64);
            for turn in 0..40_000u32 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let mut draw = |below: u64| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    ((state >> 33) % below) as i64
                };
                middle += (draw(3) - 1) * 100 + if draw(500) == 0 { (draw(9) - 4) * 2_000 } else { 0 };
                let near = [12, 12, 12, 90][draw(4) as usize];
                let price = middle + (draw(near) - near as i64 / 2) * 100 + if draw(20) == 0 { draw(100) } else { 0 };
                let before = prices.from;
                if let Some(level) = map.remove(&side.goodness(price)) {
                    assert_eq!(prices.find(scale, price), Some(level));
                    prices.remove(scale, price);
                } else {
                    assert_eq!(prices.find(scale, price), None, "{price} in turn {turn}");
                    prices.insert(scale, price, turn);
                    map.insert(side.goodness(price), turn);
                }
                moved += u32::from(prices.from != before);
                if map.len() > 30 {
                    let gone = if turn % 2 == 0 { map.pop_first() } else { map.pop_last() };
                    prices.remove(scale, side.price_of(gone.expect("some").0));
                }
                assert_eq!((prices.len(), prices.best(scale)), (map.len(), map.values().next_back().copied()));
                let better = map.range(side.goodness(price) + 1..).count();
                assert_eq!(prices.rank(scale, price) as usize, better, "{price} in turn {turn}");
                if turn % 16 == 0 {
                    let all: Vec<(i64, u32)> = prices.iter(scale).map(|rung| (rung.goodness, rung.level)).collect();
                    assert_eq!(all, map.iter().rev().map(|(goodness, level)| (*goodness, *level)).collect::<Vec<_>>());
                }
            }
            assert!(moved > 500, "the span moved {moved} times");
        }
    }
}
