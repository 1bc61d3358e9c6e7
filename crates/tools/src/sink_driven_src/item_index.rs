//! Items of a load by domain and name, in a table that grows a piece at a time.

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;
use rwf::msg::Domain;
use std::hash::BuildHasher as _;

/// Parts of an index, a power of two. A hash table that is full moves all of its entries at once and looks at each name for that: 11 ms for 57,000 items,
/// in which no update is sent. A part moves its 256th.
const PARTS: usize = 256;

/// Where a hash has the number of its part.
const PART_SHIFT: u32 = 40;

/// The hash of an item's domain and name.
#[derive(Clone, Copy)]
pub(super) struct KeyHash(u64);

impl KeyHash {
    pub(super) fn new(domain: Domain, name: &str) -> Self {
        Self(FxBuildHasher.hash_one((domain, name)))
    }

    fn part(self) -> usize {
        // The tables of the parts take buckets from the lowest bits and tags from the uppermost ones.
        (self.0 >> PART_SHIFT) as usize % PARTS
    }
}

/// Numbers of items: what they are called, their owner knows. A million of them take 10 MB, of which an open reads one line or two.
pub(super) struct ItemIndex(Box<[HashTable<u32>]>);

impl Default for ItemIndex {
    fn default() -> Self {
        Self((0..PARTS).map(|_| HashTable::new()).collect())
    }
}

impl ItemIndex {
    /// The item with this hash of which `is_same` says that it is the one.
    pub(super) fn find(&self, hash: KeyHash, is_same: impl FnMut(&u32) -> bool) -> Option<u32> {
        self.0[hash.part()].find(hash.0, is_same).copied()
    }

    /// Adds an item that is not there; `hash_of` gives the hashes of those that are, for a part that has to grow.
    pub(super) fn insert(&mut self, hash: KeyHash, item: u32, hash_of: impl Fn(u32) -> KeyHash) {
        self.0[hash.part()].insert_unique(hash.0, item, |&item| hash_of(item).0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn none_of_a_hundred_thousand_opens_moves_more_than_a_thousand_others() {
        let mut index = ItemIndex::default();
        let names: Vec<String> = (0..100_000).map(|item| format!("BULK{item}")).collect();
        let hash_of = |item: u32| KeyHash::new(Domain::MARKET_PRICE, &names[item as usize]);
        for item in 0..100_000 {
            let moved = Cell::new(0);
            let hash = |item| {
                moved.set(moved.get() + 1);
                hash_of(item)
            };
            index.insert(hash_of(item), item, hash);
            assert!(moved.get() < 1_000, "{} moved with BULK{item}", moved.get());
        }
        let find = |domain, name: &str| {
            let is_same = |&item: &u32| names[item as usize] == name && domain == Domain::MARKET_PRICE;
            index.find(KeyHash::new(domain, name), is_same)
        };
        assert_eq!(find(Domain::MARKET_PRICE, "BULK77777"), Some(77_777));
        assert_eq!(find(Domain::MARKET_BY_ORDER, "BULK77777"), None);
    }
}
