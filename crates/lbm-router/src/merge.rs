//! Copies of a source by several paths, made one: the first copy of each number goes on, in ascending order.

use std::collections::BTreeMap;

use lbm::wire::distance;

/// How copies are merged.
#[derive(Clone, Copy, Debug)]
pub struct MergeConfig {
    /// How long a number that one path has passed over is waited for on the others, ns.
    pub wait_ns: u64,
    /// Bytes of messages that may wait for such a number.
    pub held_bytes_max: usize,
}

impl Default for MergeConfig {
    fn default() -> Self {
        Self { wait_ns: 100_000_000, held_bytes_max: 4 << 20 }
    }
}

/// The outcome of copies. Numbers only ascend over all calls.
pub trait MergeSink {
    /// The first copy of a message.
    fn message(&mut self, sqn: u32, message: &[u8]);
    /// Numbers that no path has brought.
    fn lost(&mut self, first: u32, count: u32);
}

/// Counts of a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeStats {
    /// Messages that went on.
    pub messages: u64,
    /// Copies of numbers that had gone on, or had been given up.
    pub duplicates: u64,
    /// Numbers that no path has brought.
    pub lost: u64,
}

#[derive(Debug)]
struct Way {
    key: u64,
    /// The number after the last that has come by it, or was told to be lost on it.
    cursor: Option<u32>,
}

/// See the module.
#[derive(Debug)]
pub struct Merge {
    config: MergeConfig,
    /// The number that goes on next.
    next: Option<u32>,
    /// Numbers that have gone on, or were given up, since the beginning: the position of `next`.
    position: u64,
    ways: Vec<Way>,
    /// By position.
    held: BTreeMap<u64, Box<[u8]>>,
    held_bytes: usize,
    due: Option<u64>,
    stats: MergeStats,
}

impl Merge {
    /// Without a path yet.
    pub fn new(config: MergeConfig) -> Self {
        Self {
            config,
            next: None,
            position: 0,
            ways: Vec::new(),
            held: BTreeMap::new(),
            held_bytes: 0,
            due: None,
            stats: MergeStats::default(),
        }
    }

    /// Counters.
    pub fn stats(&self) -> MergeStats {
        self.stats
    }

    /// The number that goes on next, once one has.
    pub fn next(&self) -> Option<u32> {
        self.next
    }

    /// Bytes that wait for a number.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Messages of another path are to come.
    pub fn join(&mut self, key: u64) {
        if !self.ways.iter().any(|way| way.key == key) {
            self.ways.push(Way { key, cursor: None });
        }
    }

    /// No more messages come by the path; what was waited for on it alone is given up.
    pub fn leave(&mut self, key: u64, sink: &mut impl MergeSink) {
        self.ways.retain(|way| way.key != key);
        self.settle(sink);
    }

    /// A message has come by a path that has joined.
    #[inline]
    pub fn message(&mut self, now: u64, key: u64, sqn: u32, message: &[u8], sink: &mut impl MergeSink) {
        if let [way] = &mut *self.ways
            && way.key == key
            && self.next == Some(sqn)
            && self.held.is_empty()
        {
            // The steady state.
            way.cursor = Some(sqn.wrapping_add(1));
            self.go_on(sqn, message, sink);
            return;
        }
        self.out_of_step(now, key, sqn, message, sink);
    }

    fn out_of_step(&mut self, now: u64, key: u64, sqn: u32, message: &[u8], sink: &mut impl MergeSink) {
        // A path that was left while the message was on its way.
        let Some(way) = self.ways.iter_mut().find(|way| way.key == key) else { return };
        way.cursor = Some(sqn.wrapping_add(1));
        let next = *self.next.get_or_insert(sqn);
        let ahead = distance(next, sqn);
        if ahead < 0 {
            self.stats.duplicates += 1;
            return;
        }
        if ahead == 0 {
            self.go_on(sqn, message, sink);
        } else {
            let position = self.position + ahead as u64;
            if self.held.contains_key(&position) {
                self.stats.duplicates += 1;
            } else {
                self.held_bytes += message.len();
                self.held.insert(position, message.into());
            }
        }
        self.settle(sink);
        self.bound(sink);
        self.wait(now);
    }

    /// Numbers will not come by a path.
    pub fn lost(&mut self, now: u64, key: u64, first: u32, count: u32, sink: &mut impl MergeSink) {
        let end = first.wrapping_add(count);
        // A path that was left meanwhile.
        let Some(way) = self.ways.iter_mut().find(|way| way.key == key) else { return };
        way.cursor = Some(end);
        if self.next.is_some() {
            self.settle(sink);
            self.wait(now);
        }
    }

    fn go_on(&mut self, sqn: u32, message: &[u8], sink: &mut impl MergeSink) {
        self.next = Some(sqn.wrapping_add(1));
        self.position += 1;
        self.stats.messages += 1;
        sink.message(sqn, message);
    }

    /// Sends on what follows, and gives up what all paths have passed.
    fn settle(&mut self, sink: &mut impl MergeSink) {
        while let Some(next) = self.next {
            if let Some(message) = self.held.remove(&self.position) {
                self.held_bytes -= message.len();
                self.go_on(next, &message, sink);
                continue;
            }
            // A path on which nothing has come yet may begin anywhere, and is not waited for.
            let passed = self.ways.iter().filter_map(|way| way.cursor).map(|cursor| distance(next, cursor)).min();
            let first_held = self.held.first_key_value().map(|(position, _)| position - self.position);
            let passed = match (passed, first_held) {
                (Some(passed), first) => u64::try_from(passed).unwrap_or(0).min(first.unwrap_or(u64::MAX)),
                (None, Some(first)) => first,
                (None, None) => 0,
            };
            if passed == 0 {
                break;
            }
            self.give_up(passed, sink);
        }
        if self.held.is_empty() {
            self.due = None;
        }
    }

    fn give_up(&mut self, count: u64, sink: &mut impl MergeSink) {
        // Before the first message there is no number that could be given up.
        let Some(next) = self.next else { return };
        self.next = Some(next.wrapping_add(count as u32));
        self.position += count;
        self.stats.lost += count;
        sink.lost(next, count as u32);
    }

    /// A message that does not fit is not waited for.
    fn bound(&mut self, sink: &mut impl MergeSink) {
        while self.held_bytes > self.config.held_bytes_max {
            // Nothing is held: nor are bytes.
            let Some((first, _)) = self.held.first_key_value() else { return };
            let count = first - self.position;
            self.give_up(count, sink);
            self.settle(sink);
        }
    }

    fn wait(&mut self, now: u64) {
        if self.held.is_empty() {
            self.due = None;
        } else if self.due.is_none() {
            self.due = Some(now.saturating_add(self.config.wait_ns));
        }
    }

    /// When [`Merge::on_timer`] is to be called.
    pub fn timeout(&self) -> Option<u64> {
        self.due
    }

    /// Gives up what was waited for long enough.
    pub fn on_timer(&mut self, now: u64, sink: &mut impl MergeSink) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        if let Some((first, _)) = self.held.first_key_value() {
            let count = first - self.position;
            self.give_up(count, sink);
            self.settle(sink);
        }
        self.wait(now);
    }

    /// Asserts what holds between calls: for simulations.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        assert_eq!(self.held_bytes, self.held.values().map(|message| message.len()).sum::<usize>());
        assert!(self.held.first_key_value().is_none_or(|(first, _)| *first > self.position), "the next one waits");
        assert_eq!(self.due.is_some(), !self.held.is_empty(), "a timer for what waits");
        assert!(self.held_bytes <= self.config.held_bytes_max, "more waits than may");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Default)]
    struct Seen(Vec<(u32, bool)>);

    impl MergeSink for Seen {
        fn message(&mut self, sqn: u32, message: &[u8]) {
            assert_eq!(message, sqn.to_be_bytes());
            self.0.push((sqn, true));
        }
        fn lost(&mut self, first: u32, count: u32) {
            for i in 0..count {
                self.0.push((first.wrapping_add(i), false));
            }
        }
    }

    fn put(merge: &mut Merge, key: u64, sqn: u32, seen: &mut Seen) {
        merge.message(0, key, sqn, &sqn.to_be_bytes(), seen);
        merge.check_invariants();
    }

    #[test]
    fn what_one_path_loses_comes_by_the_other() {
        let (mut merge, mut seen) = (Merge::new(MergeConfig::default()), Seen::default());
        merge.join(1);
        merge.join(2);
        put(&mut merge, 1, 5, &mut seen);
        put(&mut merge, 2, 5, &mut seen);
        put(&mut merge, 1, 7, &mut seen);
        assert_eq!(seen.0, [(5, true)], "6 may come");
        put(&mut merge, 2, 6, &mut seen);
        assert_eq!(seen.0, [(5, true), (6, true), (7, true)]);
        merge.lost(0, 1, 8, 1, &mut seen);
        assert_eq!(seen.0.len(), 3, "by one path alone");
        merge.lost(0, 2, 8, 1, &mut seen);
        assert_eq!(seen.0[3..], [(8, false)]);
        assert_eq!(merge.stats(), MergeStats { messages: 3, duplicates: 1, lost: 1 });
    }

    #[test]
    fn a_path_that_stands_still_is_waited_for_no_longer_than_told() {
        let (mut merge, mut seen) = (Merge::new(MergeConfig { wait_ns: 100, held_bytes_max: 8 }), Seen::default());
        merge.join(1);
        merge.join(2);
        put(&mut merge, 1, u32::MAX, &mut seen);
        put(&mut merge, 2, u32::MAX, &mut seen);
        put(&mut merge, 1, 1, &mut seen);
        assert_eq!(merge.timeout(), Some(100));
        merge.on_timer(99, &mut seen);
        assert_eq!(seen.0.len(), 1);
        merge.on_timer(100, &mut seen);
        assert_eq!(seen.0, [(u32::MAX, true), (0, false), (1, true)]);
        // Nor are more bytes held than told.
        for sqn in [3, 5, 7] {
            put(&mut merge, 1, sqn, &mut seen);
        }
        assert_eq!(seen.0[3..], [(2, false), (3, true)]);
        merge.leave(2, &mut seen);
        assert_eq!(seen.0[5..], [(4, false), (5, true), (6, false), (7, true)]);
        merge.check_invariants();
    }

    proptest! {
        /// Whatever paths lose, and whichever is ahead: each number once, in order, and lost only if all have lost it.
        #[test]
        fn each_number_once(first in any::<u32>(), lose in prop::collection::vec(any::<(bool, bool, bool)>(), 1..200), turns in any::<u64>()) {
            let (mut merge, mut seen) = (Merge::new(MergeConfig::default()), Seen::default());
            for key in 0..3 {
                merge.join(key);
            }
            let lost = |path: usize, at: usize| at != 0 && [lose[at].0, lose[at].1, lose[at].2][path];
            let mut at = [0; 3];
            let mut random = turns | 1;
            // Each path begins with the first number.
            let mut order = vec![0, 1, 2];
            while at.iter().any(|at| *at < lose.len()) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let path = order.pop().unwrap_or((random % 3) as usize);
                if at[path] == lose.len() {
                    continue;
                }
                let sqn = first.wrapping_add(at[path] as u32);
                if lost(path, at[path]) {
                    merge.lost(0, path as u64, sqn, 1, &mut seen);
                } else {
                    put(&mut merge, path as u64, sqn, &mut seen);
                }
                merge.check_invariants();
                at[path] += 1;
            }
            prop_assert_eq!(seen.0.len(), lose.len());
            for (i, (sqn, came)) in seen.0.iter().enumerate() {
                prop_assert_eq!(*sqn, first.wrapping_add(i as u32));
                prop_assert_eq!(*came, !(0..3).all(|path| lost(path, i)), "number {}", i);
            }
        }
    }
}
