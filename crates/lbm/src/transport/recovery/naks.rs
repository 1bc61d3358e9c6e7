//! When missing numbers are asked for, and when they are given up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::random::Random;
use crate::wire::distance;

/// Timing of NAKs, ns; see the options of the same names.
#[derive(Clone, Copy, Debug)]
pub(in crate::transport) struct Timing {
    pub(in crate::transport) initial_backoff: u64,
    pub(in crate::transport) backoff: u64,
    pub(in crate::transport) generation: u64,
    pub(in crate::transport) suppress: u64,
}

/// Numbers that are asked for in one back-off interval at most, the oldest first: 16 KB of NAKs.
pub(super) const NAKS_MAX: usize = 4_096;

/// Ranges of numbers that wait for their next NAK, or for being given up.
#[derive(Debug)]
pub(super) struct Naks {
    /// (when, first, count) of ranges that may hold missing numbers. Each missing number is in exactly one range.
    due: BinaryHeap<Reverse<(u64, u32, u32)>>,
    /// Losses found until then join the same NAK.
    initial_due: u64,
    /// Numbers to be asked for now.
    list: Vec<u32>,
    /// Numbers that may still be asked for until `renewed_at`.
    left: usize,
    renewed_at: u64,
    /// When numbers that are asked for in this turn are asked for again.
    again: u64,
    timing: Timing,
    random: Random,
}

impl Naks {
    pub(super) fn new(timing: Timing, seed: u64) -> Self {
        Self {
            due: BinaryHeap::new(),
            initial_due: 0,
            list: Vec::new(),
            left: NAKS_MAX,
            renewed_at: 0,
            again: 0,
            timing,
            random: Random::new(seed),
        }
    }

    /// `count` numbers from `first` on are found to be missing.
    pub(super) fn miss(&mut self, now: u64, first: u32, count: u32) {
        if self.initial_due <= now {
            self.initial_due = now.saturating_add(self.random.around(self.timing.initial_backoff));
        }
        let due = self.initial_due.min(now.saturating_add(self.timing.generation));
        self.due.push(Reverse((due, first, count)));
    }

    /// Nothing is missing any more.
    pub(super) fn clear(&mut self) {
        self.due.clear();
        self.initial_due = 0;
    }

    /// When the first range is due.
    pub(super) fn timeout(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    /// Until when a number is not asked for whose NAK the source has confirmed.
    pub(super) fn quiet_until(&self, now: u64) -> u64 {
        now.saturating_add(self.timing.suppress)
    }

    /// The ranges that are due at `now` are gone through from here on.
    pub(super) fn begin_turn(&mut self, now: u64) {
        self.list.clear();
        self.again = now.saturating_add(self.random.around(self.timing.backoff)).max(now + 1);
        if now >= self.renewed_at {
            self.left = NAKS_MAX;
            self.renewed_at = now.saturating_add(self.timing.backoff);
        }
    }

    /// The next range that is due: (first, count). Whatever of it is still missing has to be put back by [`Naks::put_back`].
    pub(super) fn pop_due(&mut self, now: u64) -> Option<(u32, u32)> {
        let Reverse((at, first, count)) = self.due.peek().copied()?;
        if at > now {
            return None;
        }
        self.due.pop();
        Some((first, count))
    }

    /// The time by which NAKs of one turn for different numbers differ: drawn for each number, missing or not.
    pub(super) fn jitter(&mut self) -> u64 {
        self.random.around(self.timing.backoff)
    }

    /// A number that is missing since `missed_at` is due: asks for it unless a confirmation keeps it quiet. When it is due again; `None` if
    /// it is given up.
    pub(super) fn ask(&mut self, now: u64, sqn: u32, missed_at: u64, quiet_until: u64, jitter: u64) -> Option<u64> {
        if now.saturating_sub(missed_at) >= self.timing.generation {
            return None;
        }
        let due = if quiet_until > now {
            quiet_until.saturating_add(jitter / 2)
        } else {
            if self.left > 0 {
                self.left -= 1;
                self.list.push(sqn);
            }
            self.again
        };
        let deadline = missed_at.saturating_add(self.timing.generation);
        Some(due.min(deadline).max(now + 1))
    }

    /// A range, if there is one, that is still missing: (when it is due, first, count).
    pub(super) fn put_back(&mut self, range: Option<(u64, u32, u32)>) {
        debug_assert!(range.is_none_or(|(.., count)| count > 0), "a range of nothing: {range:?}");
        self.due.extend(range.map(Reverse));
    }

    /// The turn is over: what is to be asked for is put in ascending order from `next` on.
    pub(super) fn end_turn(&mut self, next: u32) {
        self.list.sort_unstable_by_key(|sqn| sqn.wrapping_sub(next));
    }

    /// The numbers that the last turn has found to be asked for, ascending.
    pub(super) fn list(&self) -> &[u32] {
        &self.list
    }

    /// Asserts that each number between `next` and `end` is in exactly one range if it is missing, which `is_missing` says by its
    /// distance from `next`; and that nothing is asked for that was not sent: for simulations.
    pub(super) fn check_invariants(&self, next: u32, end: u32, is_missing: impl Fn(usize) -> bool) {
        let mut ranges = vec![0u8; distance(next, end) as usize];
        for Reverse((_, first, count)) in &self.due {
            let (from, to) = (distance(next, *first), distance(next, first.wrapping_add(*count)));
            assert!(from < to, "{count} numbers from {first} on are no range");
            assert!(to <= ranges.len() as i32, "{first} and {count} more are waited for, and {end} was not sent");
            ranges[from.max(0) as usize..to.max(0) as usize].iter_mut().for_each(|ranges| *ranges += 1);
        }
        for (i, ranges) in ranges.into_iter().enumerate().filter(|(i, _)| is_missing(*i)) {
            assert_eq!(ranges, 1, "{} is missing, and so many ranges ask for it", next.wrapping_add(i as u32));
        }
        assert!(next != end || self.due.is_empty(), "nothing is missing, and {} ranges wait", self.due.len());
        assert!(
            next != end || self.initial_due == 0,
            "nothing is missing, and the next loss would join a NAK of the past"
        );
        assert!(self.left <= NAKS_MAX && self.list.len() <= NAKS_MAX, "more is asked for at once than may be");
        let ascends = self.list.windows(2).all(|pair| distance(pair[0], pair[1]) > 0);
        assert!(ascends, "numbers are asked for in order, each once: {:?}", self.list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn naks() -> Naks {
        let timing = Timing { initial_backoff: 10 * MS, backoff: 100 * MS, generation: 1_000 * MS, suppress: 500 * MS };
        Naks::new(timing, 7)
    }

    #[test]
    fn losses_close_together_share_a_nak() {
        let mut naks = naks();
        naks.miss(MS, 5, 2);
        let due = naks.timeout().expect("a range");
        assert!((6 * MS..=16 * MS).contains(&due), "{due}");
        naks.miss(2 * MS, 9, 1);
        assert!(naks.pop_due(due - 1).is_none());
        assert_eq!((naks.pop_due(due), naks.pop_due(due), naks.pop_due(due)), (Some((5, 2)), Some((9, 1)), None));
    }

    #[test]
    fn a_number_is_asked_for_until_it_is_too_old_and_not_while_it_was_confirmed() {
        let mut naks = naks();
        naks.begin_turn(20 * MS);
        let again = naks.ask(20 * MS, 5, MS, 0, 0).expect("not too old");
        assert!((70 * MS..=170 * MS).contains(&again) && naks.list() == [5]);
        let quiet_until = naks.quiet_until(20 * MS);
        assert_eq!(naks.ask(20 * MS, 6, MS, quiet_until, 40 * MS), Some(540 * MS));
        assert_eq!(naks.list(), [5], "the source has said that it heard of 6");
        // Never later than when it is given up.
        assert_eq!(naks.ask(990 * MS, 7, MS, 2_000 * MS, 0), Some(1_001 * MS));
        assert_eq!(naks.ask(1_001 * MS, 7, MS, 2_000 * MS, 0), None);
    }

    #[test]
    fn so_many_a_turn_and_no_more() {
        let mut naks = naks();
        naks.begin_turn(MS);
        for sqn in 0..NAKS_MAX as u32 + 9 {
            assert!(naks.ask(MS, sqn, 0, 0, 0).is_some());
        }
        assert_eq!(naks.list().len(), NAKS_MAX);
        naks.begin_turn(2 * MS);
        assert!(naks.ask(2 * MS, 1, 0, 0, 0).is_some() && naks.list().is_empty(), "not before the interval is over");
        naks.begin_turn(101 * MS);
        assert!(naks.ask(101 * MS, 1, 0, 0, 0).is_some() && naks.list() == [1]);
    }
}
