//! Items by their keys, in a table that grows a piece at a time.

use crate::item::ItemHash;
use hashbrown::HashTable;

/// Parts of an index, a power of two. A hash table that is full moves all of its entries at once, each with a look at its item: 3 ms for
/// 60,000 items, in which nobody gets an update. A part moves its 256th.
const PARTS: usize = 256;
/// Where a hash has the number of its part: neither where the buckets come from nor the tags (the uppermost seven).
const PART_SHIFT: u32 = 16;

/// Numbers of items (`T`, such as a handle) by the hash of service and key. The keys themselves are in the items.
#[derive(Debug)]
pub struct ItemIndex<T> {
    /// None before the first item, [`PARTS`] from then on.
    parts: Vec<HashTable<T>>,
    len: usize,
}

impl<T> Default for ItemIndex<T> {
    fn default() -> Self {
        Self { parts: Vec::new(), len: 0 }
    }
}

fn part(hash: ItemHash) -> usize {
    (hash.bits() >> PART_SHIFT) as usize % PARTS
}

/// Spread over 64 bits for a table that takes buckets from the low ones and tags from the high ones; what all of a part have in common is
/// left out of the low ones.
fn spread(hash: ItemHash) -> u64 {
    const BELOW: u32 = (1 << PART_SHIFT) - 1;
    let bits = hash.bits();
    let above = bits >> (PART_SHIFT + PARTS.trailing_zeros());
    u64::from(bits) << 32 | u64::from(bits & BELOW | above << PART_SHIFT)
}

impl<T: Copy + PartialEq> ItemIndex<T> {
    /// Items in the index.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The item with this hash of which `is_same` says that it is the one.
    #[inline]
    pub fn find(&self, hash: ItemHash, is_same: impl FnMut(&T) -> bool) -> Option<T> {
        self.parts.get(part(hash))?.find(spread(hash), is_same).copied()
    }

    /// Adds an item that is not in the index; `hash_of` gives the hashes of those that are, for a part that has to grow.
    pub fn insert(&mut self, hash: ItemHash, item: T, hash_of: impl Fn(T) -> ItemHash) {
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS, HashTable::new);
        }
        self.parts[part(hash)].insert_unique(spread(hash), item, |&item| spread(hash_of(item)));
        self.len += 1;
    }

    /// Takes an item out, if it is in the index under this hash.
    pub fn remove(&mut self, hash: ItemHash, item: T) {
        let Some(part) = self.parts.get_mut(part(hash)) else { return };
        if let Ok(entry) = part.find_entry(spread(hash), |&other| other == item) {
            entry.remove();
            self.len -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash_seed::HashSeed;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::collections::HashSet;

    fn hash_of(number: u32) -> ItemHash {
        ItemHash::new(HashSeed::new(7, 9), (number % 3) as u16, &number.to_le_bytes())
    }

    #[test]
    fn no_item_waits_until_many_have_moved() {
        let mut index = ItemIndex::default();
        let (count, mut most) = (200_000u32, 0);
        for number in 0..count {
            let moved = Cell::new(0);
            let hash_of = |number| {
                moved.set(moved.get() + 1);
                hash_of(number)
            };
            index.insert(self::hash_of(number), number, hash_of);
            most = most.max(moved.get());
        }
        assert!((1..count / 100).contains(&most), "{most} of {count} moved for one");
        for number in 0..count {
            assert_eq!(index.find(hash_of(number), |&other| other == number), Some(number));
        }
    }

    #[test]
    fn hashes_of_a_part_differ_where_a_table_looks() {
        let all: Vec<ItemHash> = (0..100_000).map(hash_of).filter(|&hash| part(hash) == 3).collect();
        let low: HashSet<u64> = all.iter().map(|&hash| spread(hash) & 0xFF_FFFF).collect();
        assert!(low.len() + 2 >= all.len(), "{} of {}", low.len(), all.len());
        let tags: HashSet<u64> = all.iter().map(|&hash| spread(hash) >> 57).collect();
        assert!(tags.len() > 100, "{}", tags.len());
    }

    proptest! {
        #[test]
        fn an_index_holds_what_a_set_holds(operations in prop::collection::vec((any::<bool>(), 0u32..60), 0..400)) {
            let (mut index, mut set) = (ItemIndex::default(), HashSet::new());
            for (adds, number) in operations {
                if adds && !set.contains(&number) {
                    index.insert(hash_of(number), number, hash_of);
                    set.insert(number);
                } else if !adds {
                    index.remove(hash_of(number), number);
                    set.remove(&number);
                }
                prop_assert_eq!(index.len(), set.len());
                prop_assert_eq!(index.is_empty(), set.is_empty());
                let found = index.find(hash_of(number), |&other| other == number);
                prop_assert_eq!(found.is_some(), set.contains(&number));
            }
        }
    }
}
