//! The messages of one source that a store holds.

use std::collections::VecDeque;

use lbm::topic::Run;
use lbm::wire::distance;

use crate::blocks::{Blocks, Place};

/// So many numbers may be missing before a message at most: a forged number must not take all memory.
const JUMP_MAX: i32 = 1 << 20;
/// Bytes that a message costs besides its own.
const OVERHEAD: usize = 48;

/// What came of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// It is held now.
    New,
    /// It was held already.
    Known,
    /// It lies before what is held, or too far ahead.
    Outside,
}

/// Encoded messages by number, with holes.
#[derive(Debug)]
pub(super) struct Kept {
    low: u32,
    slots: VecDeque<Option<Place>>,
    bytes: usize,
    blocks: Blocks,
}

impl Default for Kept {
    fn default() -> Self {
        Self { low: 0, slots: VecDeque::new(), bytes: 0, blocks: Blocks::new(1) }
    }
}

impl Kept {
    /// The first number that can be held.
    pub(super) fn low(&self) -> u32 {
        self.low
    }

    /// The number behind the newest.
    pub(super) fn end(&self) -> u32 {
        self.low.wrapping_add(self.slots.len() as u32)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Nothing is held; messages come from `low` on.
    pub(super) fn start(&mut self, low: u32) {
        self.slots.clear();
        self.blocks.clear();
        self.bytes = 0;
        self.low = low;
    }

    fn index(&self, sqn: u32) -> Option<usize> {
        usize::try_from(distance(self.low, sqn)).ok().filter(|index| *index < self.slots.len())
    }

    pub(super) fn get(&self, sqn: u32) -> Option<&[u8]> {
        self.blocks.get((*self.slots.get(self.index(sqn)?)?)?)
    }

    fn store(&mut self, head: &[u8], body: &[u8]) -> Place {
        self.bytes += head.len() + body.len() + OVERHEAD;
        self.blocks.put(head, body)
    }

    fn forget(&mut self, place: Place) {
        self.bytes -= place.length() + OVERHEAD;
        self.blocks.forget(place);
    }

    /// Takes a message, which is in two parts.
    #[inline]
    pub(super) fn put(&mut self, sqn: u32, head: &[u8], body: &[u8]) -> Put {
        let ahead = distance(self.end(), sqn);
        if distance(self.low, sqn) < 0 || ahead > JUMP_MAX {
            return Put::Outside;
        }
        if ahead >= 0 {
            (0..ahead).for_each(|_| self.slots.push_back(None));
            let place = self.store(head, body);
            self.slots.push_back(Some(place));
            return Put::New;
        }
        let Some(index) = self.index(sqn) else { return Put::Outside };
        if self.slots[index].is_some() {
            return Put::Known;
        }
        self.slots[index] = Some(self.store(head, body));
        Put::New
    }

    /// Takes messages that come next: the first has the number behind the newest.
    pub(super) fn put_run(&mut self, run: &Run<'_>) {
        debug_assert_eq!(run.first, self.end(), "they come next");
        self.bytes += run.bytes.len() + run.count as usize * OVERHEAD;
        self.slots.reserve(run.count as usize);
        let slots = &mut self.slots;
        self.blocks.put_run(run, |place| slots.push_back(Some(place)));
    }

    /// Forgets all from `from` on.
    pub(super) fn cut(&mut self, from: u32) {
        if distance(self.low, from) < 0 {
            return self.start(from);
        }
        while distance(from, self.end()) > 0 {
            if let Some(Some(place)) = self.slots.pop_back() {
                self.forget(place);
            }
        }
    }

    /// Forgets the oldest number.
    pub(super) fn drop_first(&mut self) {
        if let Some(slot) = self.slots.pop_front() {
            self.low = self.low.wrapping_add(1);
            if let Some(place) = slot {
                self.forget(place);
            }
        }
    }

    /// The runs of numbers that are held from `first` to before `end`, as first and last.
    pub(super) fn runs(&self, first: u32, end: u32) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        let from = distance(self.low, first).max(0) as usize;
        let count = distance(self.low, end).max(0) as usize;
        for (index, slot) in self.slots.iter().enumerate().take(count).skip(from) {
            let sqn = self.low.wrapping_add(index as u32);
            match runs.last_mut() {
                _ if slot.is_none() => {}
                Some((_, last)) if last.wrapping_add(1) == sqn => *last = sqn,
                _ => runs.push((sqn, sqn)),
            }
        }
        runs
    }

    /// The numbers from `first` on that are not held, up to before `end`.
    pub(super) fn holes(&self, first: u32, end: u32, limit: usize) -> Vec<u32> {
        let first = if distance(self.low, first) < 0 { self.low } else { first };
        let count = distance(first, end).clamp(0, JUMP_MAX);
        (0..count as u32).map(|i| first.wrapping_add(i)).filter(|sqn| self.get(*sqn).is_none()).take(limit).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::collections::btree_map::Entry;

    use lbm::wire::lbmc::{DATA_HEADER, data_header};
    use proptest::prelude::*;

    use super::*;

    /// The same as a map from number to bytes, with numbers that do not wrap.
    #[derive(Default)]
    struct Naive {
        low: u64,
        end: u64,
        held: BTreeMap<u64, Vec<u8>>,
    }

    proptest! {
        #[test]
        fn what_is_held_is_what_a_map_holds(
            base in prop_oneof![Just(0u32), Just(u32::MAX - 20), any::<u32>()],
            acts in prop::collection::vec((0u8..9, 0u64..60, 1usize..40), 1..80),
        ) {
            let number = |sqn: u64| base.wrapping_add(sqn as u32);
            let (mut kept, mut naive) = (Kept::default(), Naive::default());
            kept.start(base);
            for (act, sqn, length) in acts {
                match act {
                    0..=4 => {
                        let message = vec![sqn as u8; length];
                        let (head, body) = message.split_at(length / 3);
                        let put = kept.put(number(sqn), head, body);
                        let expected = if sqn < naive.low {
                            Put::Outside
                        } else if let Entry::Vacant(place) = naive.held.entry(sqn) {
                            place.insert(message);
                            naive.end = naive.end.max(sqn + 1);
                            Put::New
                        } else {
                            Put::Known
                        };
                        prop_assert_eq!(put, expected);
                    }
                    5 => {
                        kept.cut(number(sqn));
                        naive.held.split_off(&sqn);
                        (naive.low, naive.end) = (naive.low.min(sqn), naive.end.min(sqn));
                    }
                    8 => {
                        let first = kept.end();
                        let lengths: Vec<usize> = (0..sqn % 5).map(|i| length + i as usize).collect();
                        let mut bytes = Vec::new();
                        for (i, length) in lengths.iter().enumerate() {
                            let head = data_header((DATA_HEADER + length) as u16, 7, first.wrapping_add(i as u32));
                            let message = [&head[..], &vec![*length as u8; *length]].concat();
                            bytes.extend_from_slice(&message);
                            naive.held.insert(naive.end, message);
                            naive.end += 1;
                        }
                        let run = Run::read(first, &bytes);
                        prop_assert_eq!((run.count as usize, run.bytes.len()), (lengths.len(), bytes.len()));
                        kept.put_run(&run);
                    }
                    6 => {
                        kept.drop_first();
                        if naive.low < naive.end {
                            naive.held.remove(&naive.low);
                            naive.low += 1;
                        }
                    }
                    _ => {
                        kept.start(number(sqn));
                        naive = Naive { low: sqn, end: sqn, held: BTreeMap::new() };
                    }
                }
                prop_assert_eq!((kept.low(), kept.end()), (number(naive.low), number(naive.end)));
                let bytes: usize = naive.held.values().map(|message| message.len() + OVERHEAD).sum();
                prop_assert_eq!(kept.bytes(), bytes);
                for sqn in 0..naive.end + 10 {
                    prop_assert_eq!(kept.get(number(sqn)), naive.held.get(&sqn).map(Vec::as_slice), "number {}", sqn);
                }
                let holes: Vec<u32> =
                    (naive.low..naive.end).filter(|sqn| !naive.held.contains_key(sqn)).map(number).collect();
                prop_assert_eq!(kept.holes(kept.low(), kept.end(), usize::MAX), holes);
                let runs: usize = kept.runs(kept.low(), kept.end()).iter().map(|(a, b)| b.wrapping_sub(*a) as usize + 1).sum();
                prop_assert_eq!(runs, naive.held.len());
            }
        }
    }
}
