//! How far the readers of a log are from its writer, as a line of the cache goes.

use super::READERS;
use super::map::{Map, UNUSED};
use super::sync::Ordering;

/// A line from the cache of a processor beside takes some 30 to 50 ns, from another cache of the third level 110 ns and more.
const FAR_NS: u64 = 80;
/// Of eight looks so many: a look during which the processor was taken away says nothing.
const ENOUGH: u32 = 5;
/// Where a clock tells such times, after what was loaded before: on aarch64 its steps are as long, and it waits for no load.
const CAN_TELL: bool = cfg!(all(target_arch = "x86_64", not(loom), not(miri)));

/// Whether lines come from afar, by how long it took to read the position that a reader wrote last. The host of a virtual machine moves
/// processors, so this changes while a log is written. It decides on hints alone.
#[derive(Debug, Default)]
pub(super) struct Distance {
    /// A reader's entry that was in use, and the position that was read there.
    reader: Option<(usize, u64)>,
    /// The last eight looks, the newest lowest; 1: far.
    looks: u8,
    is_far: bool,
    /// The next look is at this position of the writer: one a lap.
    due: u64,
}

impl Distance {
    #[inline]
    pub(super) fn is_far(&self) -> bool {
        self.is_far
    }

    /// Looks once a lap: to be called before a writer at `published` reads the positions for its own purposes, for then their lines are here.
    pub(super) fn look(&mut self, map: &Map, published: u64) {
        if !CAN_TELL || published < self.due {
            return;
        }
        self.due = published + map.capacity() as u64;
        let Some((entry, before)) = self.reader else {
            let used = |entry: &usize| map.position_of(*entry).load(Ordering::Relaxed) != UNUSED;
            self.reader = (0..READERS).find(used).map(|entry| (entry, UNUSED));
            return;
        };
        let [idle, begun] = std::array::from_fn(|_| crate::clock::now());
        let position = map.position_of(entry).load(Ordering::Acquire);
        // The clock's own time is no distance.
        let took = (crate::clock::now() - begun).saturating_sub(begun - idle);
        self.reader = (position != UNUSED).then_some((entry, position));
        // A line that nobody wrote since was here already.
        if position != before && position != UNUSED {
            self.note(took);
        }
    }

    pub(super) fn note(&mut self, ns: u64) {
        self.looks = self.looks << 1 | u8::from(ns > FAR_NS);
        self.is_far = self.looks.count_ones() >= ENOUGH;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn most_of_the_last_looks_decide() {
        let mut distance = Distance::default();
        assert!(!distance.is_far());
        for _ in 0..4 {
            distance.note(120);
        }
        assert!(!distance.is_far());
        distance.note(120);
        assert!(distance.is_far());
        // A disturbed measurement changes nothing, in either state.
        distance.note(40);
        assert!(distance.is_far());
        for _ in 0..8 {
            distance.note(40);
        }
        distance.note(1_000_000);
        assert!(!distance.is_far());
    }
}
