//! Which sequence numbers a capture has seen, and which it misses.

use std::collections::BTreeMap;

use lbm::wire::distance;

/// How a number relates to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The first of its sequence.
    First,
    /// The one that was due.
    Next,
    /// Numbers before it were skipped: the first of them and how many.
    Gap(u32, u32),
    /// The number was missing until now.
    Repair,
    /// The number was there before.
    Duplicate,
    /// Older than the first that was captured.
    Older,
}

/// The numbers of a transport session or of a topic. They count on a circle of 32 bits; here they go on upwards.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    /// The first number, 0 before there is one: numbers begin one circle up.
    first: u64,
    next: u64,
    missing: BTreeMap<u64, u64>,
    /// Numbers that were ever skipped.
    pub(super) skipped: u64,
    /// Of those, how many came later.
    pub(super) repaired: u64,
    /// Numbers that came more than once.
    pub(super) duplicates: u64,
}

const CIRCLE: u64 = 1 << 32;

impl Sequence {
    /// Takes a number.
    pub(super) fn see(&mut self, sqn: u32) -> Arrival {
        if self.first == 0 {
            self.first = CIRCLE + u64::from(sqn);
            self.next = self.first + 1;
            return Arrival::First;
        }
        let at = self.extended(sqn);
        if at >= self.next {
            let skipped = at - self.next;
            let first = self.next as u32;
            self.skip_to(at);
            self.next = at + 1;
            return if skipped == 0 { Arrival::Next } else { Arrival::Gap(first, skipped as u32) };
        }
        if at < self.first {
            return Arrival::Older;
        }
        let Some((&begin, &end)) = self.missing.range(..=at).next_back().filter(|(_, end)| at < **end) else {
            self.duplicates += 1;
            return Arrival::Duplicate;
        };
        self.missing.remove(&begin);
        if begin < at {
            self.missing.insert(begin, at);
        }
        if at + 1 < end {
            self.missing.insert(at + 1, end);
        }
        self.repaired += 1;
        Arrival::Repair
    }

    /// Learns that everything up to `lead` was sent; gives what was not seen of it, first and count.
    pub(super) fn reaches(&mut self, lead: u32) -> Option<(u32, u32)> {
        if self.first == 0 {
            return None;
        }
        let (begin, end) = (self.next, self.extended(lead) + 1);
        if end <= begin {
            return None;
        }
        self.skip_to(end);
        self.next = end;
        Some((begin as u32, (end - begin) as u32))
    }

    /// Whether this number was skipped and has not come.
    pub(super) fn misses(&self, sqn: u32) -> bool {
        let at = self.extended(sqn);
        self.first != 0 && self.missing.range(..=at).next_back().is_some_and(|(_, end)| at < *end)
    }

    /// First and last number; `None` before there is one.
    pub(super) fn range(&self) -> Option<(u32, u32)> {
        (self.first != 0).then(|| (self.first as u32, (self.next - 1) as u32))
    }

    /// How many are missing still.
    pub(super) fn missing(&self) -> u64 {
        self.skipped - self.repaired
    }

    /// Numbers that are missing still: first and last number of each run, oldest first.
    pub(super) fn missing_runs(&self) -> impl Iterator<Item = (u32, u32)> {
        self.missing.iter().map(|(begin, end)| (*begin as u32, (*end - 1) as u32))
    }

    fn skip_to(&mut self, at: u64) {
        if at > self.next {
            self.missing.insert(self.next, at);
            self.skipped += at - self.next;
        }
    }

    fn extended(&self, sqn: u32) -> u64 {
        self.next.saturating_add_signed(i64::from(distance(self.next as u32, sqn)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_repairs_and_duplicates_are_told_apart() {
        let mut s = Sequence::default();
        let seen: Vec<_> = [10, 11, 15, 13, 13, 12, 9, 11].into_iter().map(|n| s.see(n)).collect();
        use Arrival::{Duplicate, First, Gap, Next, Older, Repair};
        assert_eq!(seen, [First, Next, Gap(12, 3), Repair, Duplicate, Repair, Older, Duplicate]);
        assert_eq!((s.skipped, s.repaired, s.missing(), s.duplicates), (3, 2, 1, 2));
        assert_eq!(s.missing_runs().collect::<Vec<_>>(), [(14, 14)]);
        assert_eq!(s.reaches(17), Some((16, 2)));
        assert_eq!((s.reaches(17), s.missing(), s.range()), (None, 3, Some((10, 17))));
    }

    #[test]
    fn numbers_go_on_over_the_end_of_the_circle() {
        let mut s = Sequence::default();
        s.see(u32::MAX - 1);
        assert_eq!(s.see(2), Arrival::Gap(u32::MAX, 3));
        assert_eq!(s.see(u32::MAX), Arrival::Repair);
        assert_eq!(s.missing_runs().collect::<Vec<_>>(), [(0, 1)]);
    }
}
