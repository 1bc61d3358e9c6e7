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

    /// Reads the best rungs, so that they are in a cache soon.
    #[inline]
    pub(crate) fn touch(&self) -> u64 {
        let rung = |behind: usize| {
            self.rungs.get(self.rungs.len().wrapping_sub(behind)).map_or(0, |rung| rung.goodness as u64)
        };
        // Four rungs have a line.
        rung(1) ^ rung(5) ^ rung(9)
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

    #[inline]
    pub(crate) fn best(&self) -> Option<&Rung<T>> {
        self.rungs.last()
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
