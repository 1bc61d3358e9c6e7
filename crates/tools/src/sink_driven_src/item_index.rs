//! Items of a load by domain and name, in a table that grows a piece at a time.

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;
use rwf::msg::Domain;
use std::hash::BuildHasher as _;

/// Parts of an index, a power of two. A hash table that is full moves all of its entries at once and looks at each name for that: 11 ms for 57,000 items,
/// in which no update is sent. A part moves its 256th.
const PARTS: usize = 256;

/// Where a hash has the number of its part: in its uppermost bits, and the tables of the parts take buckets from the lowest ones.
const PART_SHIFT: u32 = u32::BITS - PARTS.trailing_zeros();

/// The hash of an item's domain and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHash(u32);

impl KeyHash {
    pub(super) fn new(domain: Domain, name: &str) -> Self {
        // The upper half is the better mixed one of this hash.
        Self((FxBuildHasher.hash_one((domain, name)) >> 32) as u32)
    }

    fn part(self) -> usize {
        (self.0 >> PART_SHIFT) as usize
    }

    /// Spread over 64 bits for a table that takes tags from the uppermost ones.
    fn spread(self) -> u64 {
        const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
        u64::from(self.0).wrapping_mul(ODD)
    }
}

/// Numbers of items with the hashes of what they are called, which their owner knows: a part that has to grow looks at no name. A million of them take some 18 MB,
/// of which an open reads one line or two.
pub(super) struct ItemIndex(Box<[HashTable<(KeyHash, u32)>]>);

impl Default for ItemIndex {
    fn default() -> Self {
        Self((0..PARTS).map(|_| HashTable::new()).collect())
    }
}

impl ItemIndex {
    /// The item with this hash of which `is_same` says that it is the one.
    pub(super) fn find(&self, hash: KeyHash, is_same: impl Fn(u32) -> bool) -> Option<u32> {
        let found = self.0[hash.part()].find(hash.spread(), |&(known, item)| known == hash && is_same(item));
        found.map(|&(_, item)| item)
    }

    /// Adds an item that is not there.
    pub(super) fn insert(&mut self, hash: KeyHash, item: u32) {
        self.0[hash.part()].insert_unique(hash.spread(), (hash, item), |(known, _)| known.spread());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_of_a_hundred_thousand_opens_moves_more_than_a_thousand_others() {
        let mut index = ItemIndex::default();
        let names: Vec<String> = (0..100_000).map(|item| format!("BULK{item}")).collect();
        let hash_of = |item: u32| KeyHash::new(Domain::MARKET_PRICE, &names[item as usize]);
        let mut most = 0;
        for item in 0..100_000 {
            let hash = hash_of(item);
            let part = |index: &ItemIndex| (index.0[hash.part()].capacity(), index.0[hash.part()].len());
            let (room, moved) = part(&index);
            index.insert(hash, item);
            if part(&index).0 != room {
                most = most.max(moved);
            }
        }
        assert!((1..1_000).contains(&most), "{most} moved with one");
        let find = |domain, name: &str| {
            let is_same = |item: u32| names[item as usize] == name && domain == Domain::MARKET_PRICE;
            index.find(KeyHash::new(domain, name), is_same)
        };
        for (item, name) in (0..).zip(&names) {
            assert_eq!(find(Domain::MARKET_PRICE, name), Some(item));
        }
        assert_eq!(find(Domain::MARKET_BY_ORDER, "BULK77777"), None);
    }
}
