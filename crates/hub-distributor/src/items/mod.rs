//! The items: their handles and their keys. What state an item may be in, [`state`] says.

mod p2ps_set;
mod state;

pub(crate) use p2ps_set::P2psSet;
use state::Filing;
pub(crate) use state::{Item, Kind, Left, News, Part, Place, UnwatchedTimer};

use super::SessionId;
use super::ids::{Epoch, GroupId, Handle, ImageSlot, Slot, StreamId};
use crate::hash_seed::HashSeed;
use crate::item::{HashedKey, ItemHash, ItemKey};
use crate::roster::Roster;
use hub_items::item_index::ItemIndex;
use rustc_hash::FxHashMap;
use std::ops::{Index, IndexMut};

/// The text for those who have asked for an item that nobody publishes.
pub(crate) const NOT_PUBLISHED: &str = "Item is not published by the non-interactive provider of its service";

/// The fate of the stream that an item was on when it goes over to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Former {
    /// The stream's provider has ended it, or is gone.
    Gone,
    /// The former stream is closed.
    Closed,
    /// The former stream is the mirror from now on.
    StandsBy,
    /// As that; its provider says that it is Suspect.
    Suspect,
}

impl Former {
    /// The stream stays open, as the mirror.
    pub(crate) const fn is_mirror(self) -> bool {
        matches!(self, Self::StandsBy | Self::Suspect)
    }
}

/// All items by handle, and those that are shared by service and key.
///
/// A handle that comes from a peer may be nobody's: [`Items::get`]. One that comes from a table of ours is an item's, or there is a
/// fault of ours: indexing asserts it.
#[derive(Debug, Default)]
pub(crate) struct Items {
    slots: Vec<Option<Item>>,
    free: Vec<Handle>,
    index: ItemIndex<Handle>,
    /// Of the index: clients choose its keys.
    seed: HashSeed,
    last_epoch: u32,
    rosters: Rosters,
    /// The next item to be checked when only some are.
    checked: u32,
}

/// The items by what concerns many of them at once. Updates have nothing to do with these lists.
#[derive(Debug, Default)]
struct Rosters {
    /// Of a service: those that have ended, and those that have not.
    services: Roster,
    /// On a stream of a session: by session and service.
    offers: Roster,
    groups: Roster,
    /// One list.
    unpublished: Roster,
    /// How many items on streams of a session nobody watches, by session and service; without those of which there are none.
    unwatched: FxHashMap<(SessionId, u16), u32>,
}

impl Rosters {
    #[inline]
    fn refile(&mut self, handle: Handle, from: Filing, to: Filing) {
        self.services.refile(handle.0, from.service, to.service);
        self.offers.refile(handle.0, from.offer, to.offer);
        self.groups.refile(handle.0, from.group, to.group);
        self.unpublished.refile(handle.0, from.unpublished, to.unpublished);
        if from.unwatched != to.unwatched {
            self.recount_unwatched(from.unwatched, to.unwatched);
        }
    }

    fn recount_unwatched(&mut self, from: Option<(SessionId, u16)>, to: Option<(SessionId, u16)>) {
        if let Some(from) = from {
            match self.unwatched.get_mut(&from) {
                Some(1) => drop(self.unwatched.remove(&from)),
                Some(count) => *count -= 1,
                None => hub_items::fault!("an item that nobody watches was counted nowhere: {from:?}"),
            }
        }
        if let Some(to) = to {
            *self.unwatched.entry(to).or_default() += 1;
        }
    }
}

impl Items {
    /// No items yet; the index is keyed with `seed`.
    pub(crate) fn new(seed: HashSeed) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Items held.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    #[inline]
    pub(crate) fn get(&self, handle: Handle) -> Option<&Item> {
        self.slots.get(handle.0 as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, handle: Handle) -> Option<&mut Item> {
        self.slots.get_mut(handle.0 as usize)?.as_mut()
    }

    /// Makes the timers that are set for the item void; the epoch for new ones.
    pub(crate) fn renew(&mut self, handle: Handle) -> Epoch {
        let epoch = self.next_epoch();
        self[handle].renew(epoch);
        epoch
    }

    fn next_epoch(&mut self) -> Epoch {
        self.last_epoch = self.last_epoch.wrapping_add(1);
        Epoch(self.last_epoch)
    }

    /// The shared item of this name, if there is one that has not ended.
    pub(crate) fn find(&self, service: u16, key: &[u8]) -> Option<Handle> {
        self.find_hashed(self.hash(service, key), service, key)
    }

    /// The hash of an item's service and key.
    pub(crate) fn hash(&self, service: u16, key: &[u8]) -> ItemHash {
        ItemHash::new(self.seed, service, key)
    }

    /// As [`Self::find`], for who goes on to insert the item if there is none.
    pub(crate) fn find_hashed(&self, hash: ItemHash, service: u16, key: &[u8]) -> Option<Handle> {
        let same = |&handle: &Handle| {
            let item = self.slots[handle.0 as usize].as_ref();
            item.is_some_and(|item| item.service() == service && item.hashed_key().is(hash, key))
        };
        self.index.find(hash, same)
    }

    /// A new item, idle and without interest.
    pub(crate) fn insert_hashed(&mut self, hash: ItemHash, service: u16, key: &[u8], kind: Kind) -> Handle {
        let item = Item::new(service, HashedKey::new(hash, key), kind, self.next_epoch());
        let filing = item.filing();
        let handle = if let Some(handle) = self.free.pop() {
            debug_assert!(self.slots[handle.0 as usize].is_none(), "a handle is free that is in use");
            self.slots[handle.0 as usize] = Some(item);
            handle
        } else {
            assert!(self.slots.len() <= Handle::MAX as usize, "the caller bounds the items");
            self.slots.push(Some(item));
            Handle((self.slots.len() - 1) as u32)
        };
        self.rosters.refile(handle, Filing::default(), filing);
        if !kind.is_instance() {
            debug_assert_eq!(self.find(service, key), None, "one shared item for a key");
            let Self { slots, index, .. } = self;
            index.insert(hash, handle, |handle| hash_of(slots, handle));
        }
        handle
    }

    /// Takes the item out of the index, so that an open of its key makes another.
    pub(crate) fn unlist(&mut self, handle: Handle) {
        let hash = hash_of(&self.slots, handle);
        self.index.remove(hash, handle);
    }

    /// Forgets the item; the handle is free.
    pub(crate) fn remove(&mut self, handle: Handle) -> Item {
        self.unlist(handle);
        let item = self.slots[handle.0 as usize].take().expect("an item is forgotten once");
        self.rosters.refile(handle, item.filing(), Filing::default());
        self.free.push(handle);
        debug_assert!(self.free.len() <= self.slots.len());
        item
    }

    /// A transition of an item; keeps the lists in step with it.
    fn change<T>(&mut self, handle: Handle, transition: impl FnOnce(&mut Item) -> T) -> T {
        let item = self.slots[handle.0 as usize].as_mut().expect("a handle of ours is an item's");
        let before = item.filing();
        let result = transition(item);
        let after = item.filing();
        self.rosters.refile(handle, before, after);
        result
    }

    /// See [`Item::ask`].
    pub(crate) fn ask(&mut self, handle: Handle, session: SessionId, stream: StreamId) {
        self.change(handle, |item| item.ask(session, stream));
    }

    /// See [`Item::take_over`].
    pub(crate) fn take_over(&mut self, handle: Handle, place: Place, in_sequence: bool) {
        self.change(handle, |item| item.take_over(place.session, place.stream, in_sequence));
    }

    /// See [`Item::leave`].
    pub(crate) fn leave(&mut self, handle: Handle) -> Option<Left> {
        self.change(handle, Item::leave)
    }

    /// See [`Item::publish_on`].
    pub(crate) fn publish_on(&mut self, handle: Handle, place: Place) {
        self.change(handle, |item| item.publish_on(place.session, place.stream));
    }

    /// See [`Item::unpublish`].
    pub(crate) fn unpublish(&mut self, handle: Handle) -> Option<Place> {
        self.change(handle, Item::unpublish)
    }

    /// See [`Item::end`].
    pub(crate) fn end(&mut self, handle: Handle) -> bool {
        self.change(handle, Item::end)
    }

    /// See [`Item::become_cached`].
    pub(crate) fn become_cached(&mut self, handle: Handle, image: ImageSlot) {
        self.change(handle, |item| item.become_cached(image));
    }

    /// See [`Item::become_shared`].
    pub(crate) fn become_shared(&mut self, handle: Handle) {
        self.change(handle, Item::become_shared);
    }

    /// See [`Item::watch`].
    pub(crate) fn watch(&mut self, handle: Handle, slot: Slot) {
        self.change(handle, |item| item.watch(slot));
    }

    /// See [`Item::unwatch`].
    pub(crate) fn unwatch(&mut self, handle: Handle, slot: Slot) {
        self.change(handle, |item| item.unwatch(slot));
    }

    /// The item is in this group, as its provider says.
    pub(crate) fn set_group(&mut self, handle: Handle, group: GroupId) {
        self.change(handle, |item| item.set_group(group));
    }

    /// The items of a service that have not ended, in no order.
    pub(crate) fn of_service(&self, service: u16) -> impl ExactSizeIterator<Item = Handle> + '_ {
        self.rosters.services.of(state::of_service(service, false)).iter().copied().map(Handle)
    }

    /// Whether there are items of a service, ended or not.
    pub(crate) fn any_of_service(&self, service: u16) -> bool {
        [false, true].into_iter().any(|ended| !self.rosters.services.of(state::of_service(service, ended)).is_empty())
    }

    /// The items of a service that a session has on its streams, in no order.
    pub(crate) fn at(&self, session: SessionId, service: u16) -> impl ExactSizeIterator<Item = Handle> + '_ {
        self.rosters.offers.of(state::offered(session, service)).iter().copied().map(Handle)
    }

    /// How many items of a service that a session has on its streams nobody watches.
    pub(crate) fn unwatched_at(&self, session: SessionId, service: u16) -> u32 {
        self.rosters.unwatched.get(&(session, service)).copied().unwrap_or(0)
    }

    /// The items in a group, in no order. Some may be at another session by now, or at none.
    pub(crate) fn in_group(&self, group: GroupId) -> impl ExactSizeIterator<Item = Handle> + '_ {
        self.rosters.groups.of(state::in_group(group)).iter().copied().map(Handle)
    }

    /// The items whose images are held though no provider publishes them, in no order: who leaves the list gives its place to the last.
    pub(crate) fn unpublished(&self) -> &[u32] {
        self.rosters.unpublished.of(state::UNPUBLISHED)
    }

    /// No item has a handle of this number or above.
    pub(crate) fn handles_end(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Every item.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, &Item)> + '_ {
        let place = |(index, slot)| Some((Handle(index as u32), Option::as_ref(slot)?));
        self.slots.iter().enumerate().filter_map(place)
    }

    /// Asserts that every item is in a legal state, and found by its key if it is shared.
    pub(crate) fn check_all(&self) {
        for (handle, item) in self.iter() {
            self.check(handle, item);
        }
        let listed = self.iter().filter(|(_, item)| item.is_listed()).count();
        assert_eq!(self.index.len(), listed, "keys in the index, and items that are found by them");
        assert_eq!(self.iter().count(), self.len(), "items, and handles that are not free");
        let counted = |of: fn(&Filing) -> bool| self.iter().filter(|(_, item)| of(&item.filing())).count();
        let rosters = &self.rosters;
        let listed = (rosters.services.len(), rosters.offers.len(), rosters.groups.len(), rosters.unpublished.len());
        let expected = (
            self.len(),
            counted(|f| f.offer.is_some()),
            counted(|f| f.group.is_some()),
            counted(|f| f.unpublished.is_some()),
        );
        assert_eq!(
            listed, expected,
            "items on the lists of services, of sessions, of groups, and of those not published"
        );
        let unwatched = rosters.unwatched.values().map(|&count| count as usize).sum::<usize>();
        assert_eq!(unwatched, counted(|f| f.unwatched.is_some()), "items that nobody watches");
    }

    /// As [`Self::check_all`], for the next few of them: each has its turn.
    pub(crate) fn check_some(&mut self, count: u32) {
        for _ in 0..count.min(self.slots.len() as u32) {
            self.checked = if (self.checked as usize) < self.slots.len() { self.checked } else { 0 };
            let handle = Handle(self.checked);
            self.checked += 1;
            if let Some(item) = self.get(handle) {
                self.check(handle, item);
            }
        }
    }

    fn check(&self, handle: Handle, item: &Item) {
        item.check(handle);
        let Filing { service, offer, group, unpublished, unwatched } = item.filing();
        if let Some(key) = service {
            self.rosters.services.check(handle.0, key);
        }
        if let Some(key) = offer {
            self.rosters.offers.check(handle.0, key);
        }
        if let Some(key) = group {
            self.rosters.groups.check(handle.0, key);
        }
        if let Some(key) = unpublished {
            self.rosters.unpublished.check(handle.0, key);
        }
        assert!(unwatched.is_none_or(|at| self.rosters.unwatched.contains_key(&at)), "not counted: {item:?}");
        if item.is_listed() {
            assert_eq!(self.find(item.service(), item.key()), Some(handle), "another item has its key: {item:?}");
        }
    }
}

impl Item {
    /// The item's key, read: items keep it in canonical bytes.
    pub(crate) fn item_key(&self) -> ItemKey<'_> {
        ItemKey::read(self.key()).unwrap_or_else(|| {
            // An item without a name, which no provider has.
            hub_items::fault!("the key of an item is not canonical: {self:?}");
            ItemKey::default()
        })
    }
}

impl Index<Handle> for Items {
    type Output = Item;

    fn index(&self, handle: Handle) -> &Item {
        self.get(handle).expect("a handle of ours is an item's")
    }
}

impl IndexMut<Handle> for Items {
    fn index_mut(&mut self, handle: Handle) -> &mut Item {
        self.get_mut(handle).expect("a handle of ours is an item's")
    }
}

fn hash_of(slots: &[Option<Item>], handle: Handle) -> ItemHash {
    let item = slots[handle.0 as usize].as_ref().expect("only items are in the index");
    item.hashed_key().hash().expect("an item has a key")
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Items {
        /// See [`Self::insert_hashed`].
        pub(crate) fn insert(&mut self, service: u16, key: &[u8], kind: Kind) -> Handle {
            self.insert_hashed(self.hash(service, key), service, key, kind)
        }
    }

    #[test]
    fn an_item_is_found_by_service_and_key_until_it_ends() {
        let mut items = Items::default();
        let a = items.insert(1, b"key", Kind::SHARED);
        let b = items.insert(2, b"key", Kind::SHARED);
        let private = items.insert(1, b"key", Kind::Private);
        assert_eq!((items.find(1, b"key"), items.find(2, b"key"), items.find(3, b"key")), (Some(a), Some(b), None));
        items.unlist(a);
        assert_eq!(items.find(1, b"key"), None);
        assert!(items.get(a).is_some());
        let again = items.insert(1, b"key", Kind::SHARED);
        assert_eq!(items.find(1, b"key"), Some(again));
        items.remove(a);
        items.remove(private);
        assert_eq!(items.find(1, b"key"), Some(again));
        assert_eq!(items.len(), 2);
        assert_eq!(items.insert(9, b"other", Kind::SHARED), private);
    }

    #[test]
    fn many_items_are_all_found() {
        let mut items = Items::default();
        let handles: Vec<Handle> =
            (0..10_000u32).map(|n| items.insert((n % 3) as u16, &n.to_le_bytes(), Kind::SHARED)).collect();
        for (n, handle) in handles.iter().enumerate() {
            assert_eq!(items.find((n % 3) as u16, &(n as u32).to_le_bytes()), Some(*handle));
            assert_eq!(items.find((n % 3 + 1) as u16, &(n as u32).to_le_bytes()), None);
        }
    }
}
