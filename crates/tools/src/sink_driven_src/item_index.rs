//! Items of a load by domain and name, in a table that grows a piece at a time.

use rustc_hash::FxBuildHasher;
use rwf::msg::Domain;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasher as _;
use std::sync::Arc;

/// Parts of an index, a power of two. A hash table that is full moves all of its entries at once and looks at each name for that: 11 ms for 57,000 items,
/// in which no update is sent. A part moves its 256th.
const PARTS: usize = 256;

/// Where a hash has the number of its part.
const PART_SHIFT: u32 = 40;

/// What an item is found by.
pub(super) type Key = (Domain, Arc<str>);

/// Numbers of items.
pub(super) struct ItemIndex(Box<[HashMap<Key, u32, FxBuildHasher>]>);

impl Default for ItemIndex {
    fn default() -> Self {
        Self((0..PARTS).map(|_| HashMap::default()).collect())
    }
}

impl ItemIndex {
    /// The place of an item, whether it is there or not.
    pub(super) fn entry(&mut self, key: Key) -> Entry<'_, Key, u32> {
        self.0[part(&key)].entry(key)
    }
}

fn part(key: &Key) -> usize {
    // The tables of the parts take buckets from the lowest bits and tags from the uppermost ones.
    (FxBuildHasher.hash_one(key) >> PART_SHIFT) as usize % PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_of_a_hundred_thousand_opens_moves_more_than_a_thousand_others() {
        let mut index = ItemIndex::default();
        for item in 0..100_000u32 {
            let key: Key = (Domain::MARKET_PRICE, format!("BULK{item}").into());
            let part = part(&key);
            let room = index.0[part].capacity();
            let Entry::Vacant(entry) = index.entry(key) else { panic!("BULK{item} is new") };
            entry.insert(item);
            let moved = if index.0[part].capacity() > room { index.0[part].len() - 1 } else { 0 };
            assert!(moved < 1_000, "{moved} moved with BULK{item}");
        }
        let known = (Domain::MARKET_PRICE, "BULK77777".into());
        assert!(matches!(index.entry(known), Entry::Occupied(entry) if *entry.get() == 77_777));
        assert!(matches!(index.entry((Domain::MARKET_BY_ORDER, "BULK77777".into())), Entry::Vacant(_)));
    }
}
