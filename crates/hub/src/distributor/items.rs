//! The items: their handles, their keys, who is interested and where they are open.

use super::peers::Slots;
use crate::hash_seed::HashSeed;
use crate::item;
use hashbrown::HashTable;

/// No provider session.
pub(super) const NO_SESSION: u32 = u32::MAX;
/// No image in the cache.
pub(super) const NO_IMAGE: u32 = u32::MAX;

/// Where an item stands with its provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Upstream {
    /// Not open anywhere: in a queue, waiting for a retry, ended, or published without a request.
    Idle,
    /// Asked for, not answered.
    Asked,
    /// Open.
    Open,
}

/// Facts about an item, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bits(pub(super) u16);

impl Bits {
    /// A private stream: an instance of its own that is never recovered.
    pub(super) const PRIVATE: u16 = 0x0001;
    /// A snapshot: an instance of its own that ends with its image.
    pub(super) const SNAPSHOT: u16 = 0x0002;
    /// Published by a non-interactive provider; its image is in the cache.
    pub(super) const PUBLISHED: u16 = 0x0004;
    /// Over; only the P2PSs that have not given the handle back keep it.
    pub(super) const ENDED: u16 = 0x0008;
    /// In its service's queue.
    pub(super) const QUEUED: u16 = 0x0010;
    /// The provider owes a solicited image.
    pub(super) const EXPECTING: u16 = 0x0020;
    /// Between the first and the last part of a set.
    pub(super) const IN_SET: u16 = 0x0040;
    /// The set under way answers a request.
    pub(super) const SET_SOLICITED: u16 = 0x0080;
    /// Somebody came in the middle of the set: another one is needed.
    pub(super) const AGAIN: u16 = 0x0100;
    /// Watchers have had a first image or status.
    pub(super) const ANSWERED: u16 = 0x0200;
    /// It was answered and lost: the next image is a recovery.
    pub(super) const LOST: u16 = 0x0400;
    /// Watchers were told that it is Suspect.
    pub(super) const SUSPECT: u16 = 0x0800;
    /// A timer for the end of its unwatched time is set.
    pub(super) const AGING: u16 = 0x1000;
    /// A snapshot of a published item, that waits for the held image.
    pub(super) const HELD_SNAPSHOT: u16 = 0x4000;
    /// Paused at the provider.
    pub(super) const PAUSED: u16 = 0x2000;
    /// A request on its stream asked for a view: its images may lack what somebody else wants.
    pub(super) const VIEW: u16 = 0x8000;

    pub(super) fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }

    pub(super) fn set(&mut self, bit: u16, on: bool) {
        if on {
            self.0 |= bit;
        } else {
            self.0 &= !bit;
        }
    }
}

/// One item. Kept small: there are millions.
#[derive(Debug)]
pub(super) struct Item {
    /// Canonical bytes of the key.
    pub(super) key: Box<[u8]>,
    /// The P2PSs, by slot, that were told the handle and have not given it back.
    pub(super) interest: Slots,
    /// The session it is open at, or that published it.
    pub(super) session: u32,
    /// Its stream there.
    pub(super) stream: i32,
    /// Its group as of the last image or status.
    pub(super) group: u32,
    /// Where its image is in the cache.
    pub(super) image: u32,
    /// Tenths of a second since the epoch of `now` at which the last watcher left.
    pub(super) unwatched_since: u32,
    /// Changes with each request sent for it and each loss, and is no other item's: a late timer is recognised by it.
    pub(super) epoch: u32,
    pub(super) service: u16,
    pub(super) bits: Bits,
    pub(super) upstream: Upstream,
    /// Failures in a row.
    pub(super) failures: u8,
    /// Requests for an image on its stream that may still be answered.
    pub(super) unanswered: u8,
}

impl Item {
    pub(super) fn has(&self, bit: u16) -> bool {
        self.bits.has(bit)
    }

    pub(super) fn domain(&self) -> u8 {
        self.key.get(1).copied().unwrap_or_default()
    }

    /// Forgets what was under way at its provider. An image that was asked for beside the first is still owed: it is asked for
    /// again when the item is back.
    pub(super) fn leave(&mut self) {
        let asked = self.has(Bits::EXPECTING) && self.upstream == Upstream::Open;
        let owed = (asked || self.has(Bits::AGAIN)) && self.has(Bits::ANSWERED) && !self.is_instance();
        self.bits.set(Bits::EXPECTING | Bits::IN_SET | Bits::PAUSED | Bits::VIEW, false);
        self.unanswered = 0;
        self.bits.set(Bits::AGAIN, owed);
    }

    /// An instance of one open: not found by its key.
    pub(super) fn is_instance(&self) -> bool {
        self.has(Bits::PRIVATE | Bits::SNAPSHOT)
    }
}

/// All items by handle, and the shared ones by service and key.
#[derive(Debug, Default)]
pub(super) struct Items {
    slots: Vec<Option<Item>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    /// Of the index: clients choose its keys.
    seed: HashSeed,
    last_epoch: u32,
}

impl Items {
    /// No items yet; the index is keyed with `seed`.
    pub(super) fn new(seed: HashSeed) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Items held.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    #[inline]
    pub(super) fn get(&self, handle: u32) -> Option<&Item> {
        self.slots.get(handle as usize)?.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, handle: u32) -> Option<&mut Item> {
        self.slots.get_mut(handle as usize)?.as_mut()
    }

    /// Makes the timers that are set for the item void; the epoch for new ones.
    pub(super) fn renew(&mut self, handle: u32) -> u32 {
        self.last_epoch = self.last_epoch.wrapping_add(1);
        let epoch = self.last_epoch;
        if let Some(item) = self.get_mut(handle) {
            item.epoch = epoch;
        }
        epoch
    }

    /// The shared item of this name, if there is one that has not ended.
    pub(super) fn find(&self, service: u16, key: &[u8]) -> Option<u32> {
        let slots = &self.slots;
        self.index.find(item::hash(self.seed, service, key), |&handle| is(slots, handle, service, key)).copied()
    }

    /// A new item, idle and without interest. Bits say whether it is shared, and so found by its key.
    pub(super) fn insert(&mut self, service: u16, key: &[u8], bits: u16) -> u32 {
        self.last_epoch = self.last_epoch.wrapping_add(1);
        let item = Item {
            key: key.into(),
            interest: 0,
            session: NO_SESSION,
            stream: 0,
            group: 0,
            image: NO_IMAGE,
            unwatched_since: 0,
            service,
            bits: Bits(bits),
            epoch: self.last_epoch,
            upstream: Upstream::Idle,
            failures: 0,
            unanswered: 0,
        };
        let shared = !item.is_instance();
        let handle = if let Some(handle) = self.free.pop() {
            self.slots[handle as usize] = Some(item);
            handle
        } else {
            self.slots.push(Some(item));
            (self.slots.len() - 1) as u32
        };
        if shared {
            let Self { slots, index, seed, .. } = self;
            let rehash = |&handle: &u32| hash_of(slots, *seed, handle);
            index.insert_unique(item::hash(*seed, service, key), handle, rehash);
        }
        handle
    }

    /// Takes the item out of the index, so that an open of its key makes another.
    pub(super) fn unshare(&mut self, handle: u32) {
        let Some(item) = self.get(handle) else { return };
        let hash = item::hash(self.seed, item.service, &item.key);
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == handle) {
            entry.remove();
        }
    }

    /// Forgets the item; the handle is free.
    pub(super) fn remove(&mut self, handle: u32) -> Option<Item> {
        self.unshare(handle);
        let item = self.slots.get_mut(handle as usize)?.take()?;
        self.free.push(handle);
        Some(item)
    }

    /// Every handle in use.
    pub(super) fn handles(&self) -> impl Iterator<Item = u32> + '_ {
        self.slots.iter().enumerate().filter(|(_, slot)| slot.is_some()).map(|(handle, _)| handle as u32)
    }
}

fn is(slots: &[Option<Item>], handle: u32, service: u16, key: &[u8]) -> bool {
    slots[handle as usize].as_ref().is_some_and(|item| item.service == service && *item.key == *key)
}

fn hash_of(slots: &[Option<Item>], seed: HashSeed, handle: u32) -> u64 {
    slots[handle as usize].as_ref().map_or(0, |item| item::hash(seed, item.service, &item.key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_small() {
        assert!(size_of::<Option<Item>>() <= 64, "{}", size_of::<Option<Item>>());
    }

    #[test]
    fn an_item_is_found_by_service_and_key_until_it_ends() {
        let mut items = Items::default();
        let a = items.insert(1, b"key", 0);
        let b = items.insert(2, b"key", 0);
        let private = items.insert(1, b"key", Bits::PRIVATE);
        assert_eq!((items.find(1, b"key"), items.find(2, b"key"), items.find(3, b"key")), (Some(a), Some(b), None));
        items.unshare(a);
        assert_eq!(items.find(1, b"key"), None);
        assert!(items.get(a).is_some());
        let again = items.insert(1, b"key", 0);
        assert_eq!(items.find(1, b"key"), Some(again));
        items.remove(a);
        items.remove(private);
        assert_eq!(items.find(1, b"key"), Some(again));
        assert_eq!(items.len(), 2);
        assert_eq!(items.insert(9, b"other", 0), private);
    }

    #[test]
    fn many_items_are_all_found() {
        let mut items = Items::default();
        let handles: Vec<u32> = (0..10_000u32).map(|n| items.insert((n % 3) as u16, &n.to_le_bytes(), 0)).collect();
        for (n, handle) in handles.iter().enumerate() {
            assert_eq!(items.find((n % 3) as u16, &(n as u32).to_le_bytes()), Some(*handle));
            assert_eq!(items.find((n % 3 + 1) as u16, &(n as u32).to_le_bytes()), None);
        }
    }
}
