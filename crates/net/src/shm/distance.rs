//! How far the readers of a log are from its writer, as a line of the cache goes.

use super::map::UNUSED;
use super::sync::Ordering;
use super::{READERS, map::Map};

/// A line from the cache of a processor beside takes up to some 70 ns, reading the clock included, from another cache of the third level 140 ns and
/// more.
const FAR_NS: u64 = 100;
/// Of eight looks so many: a look during which the processor was taken away says nothing.
const ENOUGH: u32 = 5;

/// Whether lines come from afar, by how long it took to read the position that a reader wrote last. The host of a virtual machine moves
/// processors, so this changes while a log is written. It decides on hints alone.
#[derive(Debug, Default)]
pub(super) struct Distance {
    /// A reader's entry that was in use, and the position that was read there.
    reader: Option<(usize, u64)>,
    /// The last eight looks, the newest lowest; 1: far.
    looks: u8,
}

impl Distance {
    pub(super) fn is_far(&self) -> bool {
        self.looks.count_ones() >= ENOUGH
    }

    /// Looks once: to be called before a writer reads the positions for its own purposes, for then their lines are here.
    pub(super) fn look(&mut self, map: &Map) {
        let Some((entry, before)) = self.reader else {
            let used = |entry: &usize| map.position_of(*entry).load(Ordering::Relaxed) != UNUSED;
            self.reader = (0..READERS).find(used).map(|entry| (entry, UNUSED));
            return;
        };
        let begun = now();
        let position = map.position_of(entry).load(Ordering::Acquire);
        let took = now().saturating_sub(begun);
        self.reader = (position != UNUSED).then_some((entry, position));
        // A line that nobody wrote since was here already.
        if position != before && position != UNUSED {
            self.note(took);
        }
    }

    fn note(&mut self, ns: u64) {
        self.looks = self.looks << 1 | u8::from(ns > FAR_NS);
    }
}

/// Monotonic ns; a model has no time.
fn now() -> u64 {
    if cfg!(loom) { 0 } else { crate::clock::now() }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn most_of_the_last_looks_decide() {
        let mut distance = Distance::default();
        assert!(!distance.is_far());
        for _ in 0..4 {
            distance.note(260);
        }
        assert!(!distance.is_far());
        distance.note(260);
        assert!(distance.is_far());
        // One that was disturbed changes nothing, in either state.
        distance.note(60);
        assert!(distance.is_far());
        for _ in 0..8 {
            distance.note(60);
        }
        distance.note(1_000_000);
        assert!(!distance.is_far());
    }
}
