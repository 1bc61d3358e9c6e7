//! Items that nobody watches any more, and that stay open for a while so that who comes back finds them: in the order in which that ends.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::hash::Hash;

/// An item in line. It counts as long as its serial is the item's.
#[derive(Debug, Clone, Copy)]
struct Entry<K> {
    /// When the item's time is over, nanoseconds.
    until: u64,
    serial: u64,
    key: K,
}

/// Entries of items that have left the line, beside as many as are in it, before those are taken out.
const LEFT_MAX: usize = 64;

/// A line of items by time, each once. Whoever leaves it from within costs no look at the others. Keys are numbers of our own, chosen by no peer.
#[derive(Debug)]
pub struct Unwatched<K> {
    /// By time. The first one counts, if there is one.
    line: VecDeque<Entry<K>>,
    serials: FxHashMap<K, u64>,
    last_serial: u64,
}

impl<K> Default for Unwatched<K> {
    fn default() -> Self {
        Self { line: VecDeque::new(), serials: FxHashMap::default(), last_serial: 0 }
    }
}

impl<K: Copy + Eq + Hash> Unwatched<K> {
    /// Number of items that stay.
    pub fn len(&self) -> usize {
        self.serials.len()
    }

    /// No item stays.
    pub fn is_empty(&self) -> bool {
        self.serials.is_empty()
    }

    /// Whether an item stays.
    #[inline]
    pub fn contains(&self, key: K) -> bool {
        !self.serials.is_empty() && self.serials.contains_key(&key)
    }

    /// An item stays until then, nanoseconds; one that does already keeps its time. No item leaves before one that came earlier, also when times
    /// were made shorter meanwhile.
    pub fn keep(&mut self, key: K, until: u64) {
        if self.contains(key) {
            return;
        }
        self.last_serial += 1;
        let before = self.line.back().map_or(0, |last| last.until);
        self.line.push_back(Entry { until: until.max(before), serial: self.last_serial, key });
        self.serials.insert(key, self.last_serial);
    }

    /// An item stays no more: someone watches it, or it has ended. Tells whether it did.
    pub fn remove(&mut self, key: K) -> bool {
        if !self.contains(key) {
            return false;
        }
        self.serials.remove(&key);
        if self.line.len() > 2 * self.serials.len() + LEFT_MAX {
            let Self { line, serials, .. } = self;
            line.retain(|entry| serials.get(&entry.key) == Some(&entry.serial));
        }
        self.drop_left();
        true
    }

    /// When the first item is to go, nanoseconds; 0 if more stay than `most`.
    pub fn deadline(&self, most: usize) -> Option<u64> {
        if self.len() > most {
            return Some(0);
        }
        self.line.front().map(|first| first.until)
    }

    /// Takes out the first item if its time is over, or if more stay than `most`.
    pub fn take_due(&mut self, now: u64, most: usize) -> Option<K> {
        self.deadline(most).filter(|&at| at <= now)?;
        let first = self.line.pop_front()?;
        self.serials.remove(&first.key);
        self.drop_left();
        Some(first.key)
    }

    /// Takes those from the front of the line that have left it.
    fn drop_left(&mut self) {
        while let Some(first) = self.line.front()
            && self.serials.get(&first.key) != Some(&first.serial)
        {
            self.line.pop_front();
        }
    }

    /// Panics if the line and its index do not fit together. As long as all items.
    pub fn check(&self) {
        let counts = |entry: &&Entry<K>| self.serials.get(&entry.key) == Some(&entry.serial);
        assert_eq!(self.line.iter().filter(counts).count(), self.serials.len(), "items that stay, and their entries");
        assert!(self.line.front().iter().all(counts), "the first one has left");
        assert!(self.line.iter().is_sorted_by_key(|entry| entry.until), "items that stay are in order");
        assert!(self.line.len() <= 2 * self.serials.len() + LEFT_MAX, "entries of items that have left");
    }
}

#[cfg(test)]
mod tests {
    use super::Unwatched;
    use proptest::prelude::*;

    #[test]
    fn the_one_that_came_first_goes_first_or_when_there_are_too_many() {
        let mut items = Unwatched::default();
        for (key, until) in [(7, 50), (3, 60), (5, 40)] {
            items.keep(key, until);
        }
        assert_eq!((items.len(), items.deadline(3)), (3, Some(50)));
        assert_eq!(items.take_due(49, 3), None);
        assert_eq!(items.deadline(2), Some(0));
        assert_eq!(items.take_due(49, 2), Some(7), "there are too many");
        items.keep(3, 90);
        assert_eq!(items.take_due(60, 3), Some(3), "it keeps its time");
        assert_eq!(items.take_due(60, 3), Some(5), "none goes before one that came earlier");
        assert!(items.is_empty() && items.deadline(0).is_none());
        items.check();
    }

    #[test]
    fn one_that_comes_back_has_another_place() {
        let mut items = Unwatched::default();
        items.keep(7, 50);
        items.keep(3, 60);
        assert!(items.remove(7) && !items.remove(7));
        items.keep(7, 70);
        assert_eq!(items.deadline(2), Some(60));
        assert_eq!((items.take_due(100, 2), items.take_due(100, 2)), (Some(3), Some(7)));
        assert_eq!(items.take_due(100, 0), None);
    }

    proptest! {
        /// Against a list that is looked through.
        #[test]
        fn does_what_a_list_does(steps in proptest::collection::vec((0..4_u8, 0..20_u32, 0..30_u64), 0..600)) {
            let (mut items, mut model) = (Unwatched::default(), Vec::<(u32, u64)>::new());
            let mut now = 0;
            for (what, key, number) in steps {
                match what {
                    0 | 1 => {
                        items.keep(key, now + 10);
                        if model.iter().all(|(known, _)| *known != key) {
                            model.push((key, now + 10));
                        }
                    }
                    2 => {
                        let before = model.len();
                        model.retain(|(known, _)| *known != key);
                        prop_assert_eq!(items.remove(key), model.len() < before);
                    }
                    _ => {
                        now += number / 4;
                        let most = 12;
                        let due = model.first().filter(|(_, until)| *until <= now || model.len() > most).copied();
                        prop_assert_eq!(items.take_due(now, most), due.map(|(key, _)| key));
                        if due.is_some() {
                            model.remove(0);
                        }
                    }
                }
                prop_assert_eq!(items.len(), model.len());
                items.check();
            }
        }
    }
}
