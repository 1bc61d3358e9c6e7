//! Sets of P2PSs: who has an item open, who waits for its image.

use crate::ids::Slot;

const WORD: usize = u64::BITS as usize;

/// A set of P2PSs, a bit for each slot. The first 64 slots need no memory of their own, and cost what a word costs; a set with a
/// higher slot in it is as long on the heap as that slot needs.
pub(crate) struct P2psSet(Words);

enum Words {
    Inline(u64),
    /// More than one word, the last of them not 0: equal sets have equal words.
    Heap(Box<[u64]>),
}

impl P2psSet {
    pub(crate) const EMPTY: Self = Self(Words::Inline(0));

    fn words(&self) -> &[u64] {
        match &self.0 {
            Words::Inline(word) => std::slice::from_ref(word),
            Words::Heap(words) => words,
        }
    }

    fn word(&self, index: usize) -> u64 {
        self.words().get(index).copied().unwrap_or_default()
    }

    /// A set of these words, in its shortest form.
    fn from_words(words: &[u64]) -> Self {
        let used = words.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
        let set = match used {
            0 => Self::EMPTY,
            1 => Self(Words::Inline(words[0])),
            _ => Self(Words::Heap(words[..used].into())),
        };
        debug_assert!(!matches!(&set.0, Words::Heap(words) if words.len() < 2 || words.last() == Some(&0)));
        set
    }

    #[inline]
    fn combine(&self, other: &Self, word: impl Fn(u64, u64) -> u64) -> Self {
        match (&self.0, &other.0) {
            (Words::Inline(a), Words::Inline(b)) => Self(Words::Inline(word(*a, *b))),
            _ => self.combine_long(other, word),
        }
    }

    #[cold]
    fn combine_long(&self, other: &Self, word: impl Fn(u64, u64) -> u64) -> Self {
        let length = self.words().len().max(other.words().len());
        let words: Vec<u64> = (0..length).map(|index| word(self.word(index), other.word(index))).collect();
        Self::from_words(&words)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.0, Words::Inline(0))
    }

    pub(crate) fn len(&self) -> usize {
        self.words().iter().map(|word| word.count_ones() as usize).sum()
    }

    #[inline]
    pub(crate) fn contains(&self, slot: Slot) -> bool {
        let slot = usize::from(slot.0);
        match &self.0 {
            Words::Inline(word) if slot < WORD => *word >> slot & 1 != 0,
            _ => self.word(slot / WORD) >> (slot % WORD) & 1 != 0,
        }
    }

    #[inline]
    pub(crate) fn insert(&mut self, slot: Slot) {
        let (index, bit) = (usize::from(slot.0) / WORD, 1 << (usize::from(slot.0) % WORD));
        match &mut self.0 {
            Words::Inline(word) if index == 0 => *word |= bit,
            Words::Heap(words) if index < words.len() => words[index] |= bit,
            _ => self.lengthen(index, bit),
        }
        debug_assert!(self.contains(slot));
    }

    /// Adds a bit past the last word.
    #[cold]
    fn lengthen(&mut self, index: usize, bit: u64) {
        let mut words = self.words().to_vec();
        words.resize(index + 1, 0);
        words[index] |= bit;
        *self = Self(Words::Heap(words.into()));
    }

    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) {
        let (index, bit) = (usize::from(slot.0) / WORD, 1 << (usize::from(slot.0) % WORD));
        match &mut self.0 {
            Words::Inline(word) if index == 0 => *word &= !bit,
            Words::Heap(words) if index < words.len() => {
                words[index] &= !bit;
                if words.last() == Some(&0) {
                    *self = Self::from_words(self.words());
                }
            }
            _ => {}
        }
        debug_assert!(!self.contains(slot));
    }

    #[inline]
    pub(crate) fn union(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a | b)
    }

    #[inline]
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a & b)
    }

    /// The P2PSs that are in this set and not in the other one.
    #[inline]
    pub(crate) fn without(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a & !b)
    }

    /// The slots in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.words().iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                (rest != 0).then(|| {
                    rest &= rest - 1;
                    Slot((index * WORD + bit) as u16)
                })
            })
        })
    }
}

impl Clone for P2psSet {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Words::Inline(word) => Words::Inline(*word),
            Words::Heap(words) => Words::Heap(words.clone()),
        })
    }
}

impl Default for P2psSet {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PartialEq for P2psSet {
    fn eq(&self, other: &Self) -> bool {
        self.words() == other.words()
    }
}

impl Eq for P2psSet {}

impl std::fmt::Debug for P2psSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter().map(|slot| slot.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn only(slot: u16) -> P2psSet {
        set_of(&BTreeSet::from([slot]))
    }

    #[test]
    fn a_set_is_as_small_as_two_words() {
        assert_eq!(size_of::<P2psSet>(), 16);
    }

    #[test]
    fn a_set_that_has_lost_its_high_slots_is_a_small_one_again() {
        let mut set = only(3);
        set.insert(Slot(4_095));
        assert_eq!(set.words().len(), 64);
        set.remove(Slot(4_095));
        assert_eq!(set, only(3));
        assert!(matches!(set.0, Words::Inline(_)));
    }

    fn slots() -> impl Strategy<Value = BTreeSet<u16>> {
        prop::collection::btree_set(prop_oneof![0..64_u16, 60..70_u16, 0..4_200_u16], 0..12)
    }

    fn set_of(slots: &BTreeSet<u16>) -> P2psSet {
        let mut set = P2psSet::EMPTY;
        for &slot in slots {
            set.insert(Slot(slot));
        }
        set
    }

    fn listed(set: &P2psSet) -> BTreeSet<u16> {
        set.iter().map(|slot| slot.0).collect()
    }

    proptest! {
        #[test]
        fn it_is_a_set(a in slots(), b in slots(), gone in slots()) {
            let (mut left, right) = (set_of(&a), set_of(&b));
            prop_assert_eq!(listed(&left.union(&right)), &a | &b);
            prop_assert_eq!(listed(&left.intersection(&right)), &a & &b);
            prop_assert_eq!(listed(&left.without(&right)), &a - &b);
            for &slot in &gone {
                left.remove(Slot(slot));
            }
            let rest = &a - &gone;
            prop_assert_eq!(&left, &set_of(&rest));
            prop_assert_eq!((left.len(), left.is_empty()), (rest.len(), rest.is_empty()));
            for slot in 0..4_200 {
                prop_assert_eq!(left.contains(Slot(slot)), rest.contains(&slot));
            }
        }
    }
}
