//! Copies of messages that have no number: two publishers on one input send the same messages in the same order, so that a message of one
//! is the next message of the other that has the same content.
//!
//! Messages that are often the same to the last byte (a sign of life) may be taken for each other; between them order decides.

use std::collections::VecDeque;

/// Messages that are remembered.
const REMEMBERED: usize = 16_384;
/// How far ahead of where it is a source may be found again.
const REACH: usize = 4_096;

/// A message against those of other sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No source has brought it before; its number here.
    First(u64),
    /// A source has.
    Copy,
}

#[derive(Debug)]
struct Source {
    name: u32,
    /// Its bit in [`Entry::brought`].
    bit: u64,
    /// The place of the message that it will bring next, if others have brought that; counted as [`ByContent::base`] is.
    next: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    digest: u64,
    /// The sources that have brought it, a bit each; sources beyond the 64th have none.
    brought: u64,
}

/// The messages of all sources, merged.
#[derive(Debug, Default)]
pub struct ByContent {
    sources: Vec<Source>,
    /// In the order in which sources have them, as far as that is known.
    merged: VecDeque<Entry>,
    /// How many lay before the first of them.
    base: u64,
    first_copies: u64,
}

impl ByContent {
    /// A source has ended.
    pub fn end(&mut self, source: u32) {
        self.sources.retain(|s| s.name != source);
    }

    fn join(&mut self, name: u32) -> usize {
        let taken = self.sources.iter().fold(0, |bits, source| bits | source.bit);
        let bit = 1u64.checked_shl(taken.trailing_ones()).unwrap_or(0);
        // Somebody else's, before.
        self.merged.iter_mut().for_each(|entry| entry.brought &= !bit);
        self.sources.push(Source { name, bit, next: None });
        self.sources.len() - 1
    }

    /// A message of a source, by its digest.
    pub fn take(&mut self, source: u32, digest: u64) -> Verdict {
        let at = self.sources.iter().position(|s| s.name == source).unwrap_or_else(|| self.join(source));
        match self.sources[at].next {
            Some(next) => self.follow(at, next.max(self.base), digest),
            None => self.find(at, digest),
        }
    }

    /// A source whose place is known: its message is the next one with this content; or one that another source has brought and that was
    /// put before this place, since nobody could know its own; or a new one.
    fn follow(&mut self, at: usize, next: u64, digest: u64) -> Verdict {
        let (index, bit) = ((next - self.base) as usize, self.sources[at].bit);
        let ahead = self.merged.range(index..).take(REACH).position(|entry| entry.digest == digest);
        if let Some(ahead) = ahead {
            self.merged[index + ahead].brought |= bit;
            self.sources[at].next = Some(next + ahead as u64 + 1);
            return Verdict::Copy;
        }
        let before = self.merged.range_mut(..index).rev().take(REACH);
        if let Some(entry) = before.into_iter().find(|e| e.digest == digest && e.brought & bit == 0 && bit != 0) {
            entry.brought |= bit;
            return Verdict::Copy;
        }
        self.merged.insert(index, Entry { digest, brought: bit });
        for (other, source) in self.sources.iter_mut().enumerate() {
            let shifted = |theirs: u64| if other == at || theirs > next { theirs.max(next) + 1 } else { theirs };
            source.next = source.next.map(shifted);
        }
        self.first()
    }

    /// A source whose place is not known yet: the latest message with this content tells it. Who is alone is at the end.
    fn find(&mut self, at: usize, digest: u64) -> Verdict {
        let bit = self.sources[at].bit;
        let known = |entry: &Entry| entry.digest == digest && (entry.brought & bit == 0 || bit == 0);
        if let Some(back) = self.merged.iter().rev().take(REACH).position(known) {
            let index = self.merged.len() - back;
            self.merged[index - 1].brought |= bit;
            self.sources[at].next = Some(self.base + index as u64);
            return Verdict::Copy;
        }
        self.merged.push_back(Entry { digest, brought: bit });
        if self.sources.len() == 1 {
            self.sources[at].next = Some(self.base + self.merged.len() as u64);
        }
        self.first()
    }

    fn first(&mut self) -> Verdict {
        if self.merged.len() > REMEMBERED {
            self.merged.pop_front();
            self.base += 1;
        }
        self.first_copies += 1;
        Verdict::First(self.first_copies - 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn firsts(merge: &mut ByContent, source: u32, messages: impl IntoIterator<Item = u64>) -> usize {
        messages.into_iter().filter(|m| matches!(merge.take(source, *m), Verdict::First(_))).count()
    }

    #[test]
    fn a_source_is_found_wherever_it_joins_and_takes_over() {
        let mut merge = ByContent::default();
        assert_eq!(firsts(&mut merge, 1, 0..1_000), 1_000);
        assert_eq!(firsts(&mut merge, 2, 900..1_000), 0);
        // The second one is ahead, the first one follows; then the first one ends.
        assert_eq!(firsts(&mut merge, 2, 1_000..1_500), 500);
        assert_eq!(firsts(&mut merge, 1, 1_000..1_400), 0);
        merge.end(1);
        assert_eq!(firsts(&mut merge, 2, 1_500..50_000), 48_500);
        assert_eq!(firsts(&mut merge, 3, 49_000..50_100), 100);
        assert_eq!(firsts(&mut merge, 2, 50_000..50_100), 0);
    }

    #[test]
    fn what_one_source_has_lost_the_other_brings() {
        let mut merge = ByContent::default();
        firsts(&mut merge, 1, 0..10);
        firsts(&mut merge, 2, 5..10);
        // The first one misses 12; the second one has it, late, and all others are copies.
        assert_eq!(firsts(&mut merge, 1, [10, 11, 13, 14]), 4);
        assert_eq!(firsts(&mut merge, 2, [10, 11, 12, 13, 14]), 1);
        assert_eq!(firsts(&mut merge, 1, [15, 16]), 2);
        assert_eq!(firsts(&mut merge, 2, [15, 16]), 0);
    }

    #[test]
    fn equal_messages_are_told_apart_by_their_place() {
        let mut merge = ByContent::default();
        let input = [1, 7, 7, 2, 7, 3, 7];
        assert_eq!(firsts(&mut merge, 1, input), 7);
        merge.sources.push(Source { name: 2, bit: 2, next: Some(0) });
        assert_eq!(firsts(&mut merge, 2, input), 0);
        assert_eq!(firsts(&mut merge, 2, [7, 7]), 2);
        assert_eq!(firsts(&mut merge, 1, [7, 7]), 0);
    }

    proptest! {
        /// Two sources of one input, each missing some, in any interleaving: each message that one of them had comes once.
        #[test]
        fn each_message_comes_once(
            steps in proptest::collection::vec((any::<bool>(), 0u8..20), 2..400),
        ) {
            let mut merge = ByContent::default();
            // Both have the first one: so each has its place.
            let (mut at, mut first, mut had) = ([1u64, 1], 0, std::collections::BTreeSet::from([0]));
            first += firsts(&mut merge, 0, [0]);
            first += firsts(&mut merge, 1, [0]);
            for (second, misses) in steps {
                let which = usize::from(second);
                at[which] += u64::from(misses == 0);
                had.insert(at[which]);
                first += firsts(&mut merge, which as u32, [at[which]]);
                at[which] += 1;
            }
            prop_assert_eq!(first, had.len());
        }
    }
}
