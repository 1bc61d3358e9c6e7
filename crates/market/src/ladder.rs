//! The prices of one side, the best last: what happens near the best price moves and searches little.

/// A price of a side and what stands for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rung<T> {
    /// Rises from the worst price to the best ([`Side::goodness`](crate::Side)).
    pub(crate) goodness: i64,
    pub(crate) level: T,
}

/// The prices of one side in order.
#[derive(Clone, Debug)]
pub(crate) struct Ladder<T> {
    rungs: Vec<Rung<T>>,
}

impl<T> Default for Ladder<T> {
    fn default() -> Self {
        Self { rungs: Vec::new() }
    }
}

/// As many rungs are looked at from the best one on before the rest is halved.
const NEAR: usize = 12;

impl<T> Ladder<T> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.rungs.len()
    }

    pub(crate) fn memory(&self) -> usize {
        self.rungs.capacity() * size_of::<Rung<T>>()
    }

    /// Where a price stands, or where it would be put.
    #[inline]
    pub(crate) fn find(&self, goodness: i64) -> Result<usize, usize> {
        let rungs = &self.rungs[..];
        // From the best down, past all that are better: one branch a rung.
        for (better, rung) in rungs.iter().rev().take(NEAR).enumerate() {
            if rung.goodness <= goodness {
                let at = rungs.len() - 1 - better;
                return if rung.goodness == goodness { Ok(at) } else { Err(at + 1) };
            }
        }
        self.find_far(goodness)
    }

    #[inline(never)]
    fn find_far(&self, goodness: i64) -> Result<usize, usize> {
        let far = self.rungs.len().saturating_sub(NEAR);
        self.rungs[..far].binary_search_by(|rung| rung.goodness.cmp(&goodness))
    }

    /// The rung at a place, if there is one.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&Rung<T>> {
        self.rungs.get(at)
    }

    /// The rung of the best price.
    #[inline]
    pub(crate) fn last(&self) -> Option<&Rung<T>> {
        self.rungs.last()
    }

    #[inline]
    pub(crate) fn at(&self, at: usize) -> &Rung<T> {
        &self.rungs[at]
    }

    #[inline]
    pub(crate) fn insert(&mut self, at: usize, goodness: i64, level: T) {
        self.rungs.insert(at, Rung { goodness, level });
    }

    #[inline]
    pub(crate) fn remove(&mut self, at: usize) -> Rung<T> {
        self.rungs.remove(at)
    }

    /// Levels that are better than the one at `at`.
    #[inline]
    pub(crate) fn rank(&self, at: usize) -> u32 {
        (self.rungs.len() - 1 - at) as u32
    }

    /// The best first.
    pub(crate) fn iter(&self) -> std::iter::Rev<std::slice::Iter<'_, Rung<T>>> {
        self.rungs.iter().rev()
    }

    pub(crate) fn clear(&mut self) {
        self.rungs.clear();
    }

    /// Keeps the best `depth`; gives each that went, the worst first.
    pub(crate) fn cut(&mut self, depth: usize) -> std::vec::Drain<'_, Rung<T>> {
        let over = self.rungs.len().saturating_sub(depth);
        self.rungs.drain(..over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_found_wherever_it_is_looked_for_first() {
        for count in 0..40i64 {
            let mut ladder = Ladder::default();
            for n in 0..count {
                ladder.insert(n as usize, n * 2, n);
            }
            for goodness in -1..=count * 2 {
                let place = (0..count).find(|n| n * 2 >= goodness).unwrap_or(count) as usize;
                let is_there = goodness % 2 == 0 && (0..count * 2).contains(&goodness);
                let found = if is_there { Ok(place) } else { Err(place) };
                assert_eq!(ladder.find(goodness), found, "{goodness} of {count}");
            }
        }
    }
}
