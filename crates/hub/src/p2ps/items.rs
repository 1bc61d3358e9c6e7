//! The table of items: what the fan-out needs apart from what the rest needs.

use super::direct::Holds;
use super::streams::MAX_ITEMS;
use super::views::ViewSpec;
use super::watchers::Watchers;
use crate::item::{self, ItemKey};
use crate::stream::{NO_GROUP, NO_HANDLE};
use hashbrown::HashTable;

/// Number of an item at this P2PS.
pub(crate) type ItemId = u32;
/// Public id of a service, as clients know it.
pub(crate) type ServiceId = u16;

/// No source: the item is bound to none.
pub(crate) const NO_SOURCE: u16 = u16::MAX;

/// Where an item is on its way to a Source Distributor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not asked for: it waits for its service, a source, room in the open window, or the time to try again.
    Waiting,
    /// Asked for; the token is in `handle`.
    Opening,
    /// Open; the handle is in `handle`.
    Open,
    /// A view of another item (see [`Item::parent`]).
    View,
}

/// Bits of [`Item::flags`].
pub(crate) mod bits {
    /// A private stream: one watcher, never recovered, not in the index.
    pub(crate) const PRIVATE: u16 = 0x0001;
    /// An item of its own for snapshots only: not in the index after it was asked for.
    pub(crate) const SNAPSHOT: u16 = 0x0002;
    /// Its watchers were told that it is suspect, and no good image came since.
    pub(crate) const SUSPECT: u16 = 0x0004;
    /// It was open before: the next image goes to all that watch, as a recovery.
    pub(crate) const RECOVERING: u16 = 0x0008;
    /// An image was asked for and has not begun to arrive.
    pub(crate) const IMAGE_ASKED: u16 = 0x0010;
    /// A set has begun and is not complete.
    pub(crate) const IN_SET: u16 = 0x0020;
    /// Some open watcher may have asked for an image.
    pub(crate) const SOME_ASKED: u16 = 0x0040;
    /// It is in its service's queue of items to open.
    pub(crate) const QUEUED: u16 = 0x0080;
    /// It waits for the time to try again.
    pub(crate) const RETRYING: u16 = 0x0100;
    /// An update was kept from those that wait, since the image was asked for.
    pub(crate) const UPDATE_WITHHELD: u16 = 0x0200;
    /// A view that is wider than what was asked for: no image fits before the answer to the reissue.
    pub(crate) const WIDENING: u16 = 0x0400;
    /// A reissue has to follow when the image that is on its way has come.
    pub(crate) const REISSUE_DUE: u16 = 0x0800;
    /// The entry is in use.
    pub(crate) const LIVE: u16 = 0x1000;
    /// A private stream that the client asked for as a qualified one.
    pub(crate) const QUALIFIED: u16 = 0x2000;
    /// Clients may know it by another group than its present one.
    pub(crate) const REGROUPED: u16 = 0x4000;
    /// It is among those whose image is asked for as the limit of a turn lets it.
    pub(crate) const REFRESH_DUE: u16 = 0x8000;
}

/// What only views, unusual requests and late images need.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// Views of this item that someone watches.
    pub(crate) views: Vec<ItemId>,
    /// Of a view: number of the view.
    pub(crate) view: u32,
    /// What was asked for upstream: the union of views, `None` for everything.
    pub(crate) asked: Option<ViewSpec>,
    /// What images are sure to hold until the answer to a reissue that asked for more; `None` if none is awaited.
    pub(crate) shown: Option<ViewSpec>,
    /// Number of that reissue, until it is answered; 0 if none is awaited.
    pub(crate) serial: u32,
    /// Position of the last such answer: images from there on hold what was asked for.
    pub(crate) wide_from: u64,
    /// What its first watcher asked the provider for beside a view: an element list, or nothing.
    pub(crate) elements: Box<[u8]>,
    /// Stream position of the last update kept from those that wait.
    pub(crate) withheld_at: u64,
}

/// What is known of an item beside its watchers.
#[derive(Debug)]
pub(crate) struct Item {
    /// Canonical bytes of the key.
    pub(crate) key: Box<[u8]>,
    pub(crate) extra: Option<Box<Extra>>,
    /// Handle or token, by phase; of a view: its parent.
    pub(crate) handle: u32,
    /// Hub group, in the numbers of `source`.
    pub(crate) group: u32,
    pub(crate) service: ServiceId,
    /// Source that it is open at or asked of.
    pub(crate) source: u16,
    pub(crate) flags: u16,
    pub(crate) phase: Phase,
    /// Priority class asked for; counts are the number of watchers.
    pub(crate) priority: u8,
    /// Attempts to open it that failed in a row.
    pub(crate) failures: u8,
}

impl Item {
    pub(crate) const fn has(&self, bit: u16) -> bool {
        self.flags & bit != 0
    }

    pub(crate) const fn set(&mut self, bit: u16) {
        self.flags |= bit;
    }

    pub(crate) const fn clear(&mut self, bit: u16) {
        self.flags &= !bit;
    }

    /// The item that this is a view of.
    pub(crate) const fn parent(&self) -> Option<ItemId> {
        match self.phase {
            Phase::View => Some(self.handle),
            _ => None,
        }
    }

    /// Views of this item.
    pub(crate) fn views(&self) -> &[ItemId] {
        self.extra.as_deref().map_or(&[], |extra| &extra.views)
    }

    /// True if a reissue that asked for more is not answered.
    pub(crate) fn is_reissued(&self) -> bool {
        self.extra.as_deref().is_some_and(|extra| extra.serial != 0)
    }

    /// What its first watcher asked the provider for beside a view: an element list, or nothing.
    pub(crate) fn elements(&self) -> &[u8] {
        self.extra.as_deref().map_or(&[], |extra| &extra.elements)
    }

    pub(crate) fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// Drops [`Extra`] if nothing stands in it any more.
    pub(crate) fn trim_extra(&mut self) {
        let asked = |extra: &Extra| extra.asked.is_some() || extra.shown.is_some() || extra.serial != 0;
        let idle = |extra: &Extra| extra.views.is_empty() && !asked(extra) && extra.elements.is_empty();
        if self.parent().is_none() && self.extra.as_deref().is_some_and(idle) {
            self.extra = None;
        }
    }

    /// True if an item of this kind is found by its key.
    const fn indexed(&self) -> bool {
        !self.has(bits::PRIVATE) && !matches!(self.phase, Phase::View)
    }
}

/// All items that someone watches, or that a Source Distributor has yet to answer for.
#[derive(Debug, Default)]
pub(crate) struct Items {
    /// By item number: the hot half.
    pub(crate) watchers: Vec<Watchers>,
    /// By item number: the cold half.
    cold: Vec<Item>,
    free: Vec<ItemId>,
    index: HashTable<ItemId>,
    /// What is held for images by another way.
    pub(crate) holds: Holds,
}

impl Items {
    pub(crate) fn get(&self, id: ItemId) -> &Item {
        &self.cold[id as usize]
    }

    pub(crate) fn get_mut(&mut self, id: ItemId) -> &mut Item {
        &mut self.cold[id as usize]
    }

    /// Items in use.
    pub(crate) fn len(&self) -> usize {
        self.cold.len() - self.free.len()
    }

    /// One more than the largest number in use.
    pub(crate) fn bound(&self) -> ItemId {
        self.cold.len() as ItemId
    }

    /// Numbers of the items in use.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ItemId> + '_ {
        self.cold.iter().enumerate().filter(|(_, item)| item.has(bits::LIVE)).map(|(id, _)| id as ItemId)
    }

    /// The shared item with this key; snapshots have items of their own.
    pub(crate) fn find(&self, service: ServiceId, key: &[u8], snapshot: bool) -> Option<ItemId> {
        let kind = if snapshot { bits::SNAPSHOT } else { 0 };
        let same = |&id: &ItemId| {
            let item = self.get(id);
            item.flags & bits::SNAPSHOT == kind && item.service == service && *item.key == *key
        };
        self.index.find(item::hash(service, key), same).copied()
    }

    /// A new item without watchers; `None` if there is no number left.
    pub(crate) fn insert(&mut self, service: ServiceId, key: &[u8], flags: u16, phase: Phase) -> Option<ItemId> {
        let item = Item {
            key: key.into(),
            extra: None,
            handle: NO_HANDLE,
            group: NO_GROUP,
            service,
            source: NO_SOURCE,
            flags: flags | bits::LIVE,
            phase,
            priority: 1,
            failures: 0,
        };
        let indexed = item.indexed();
        let id = if let Some(id) = self.free.pop() {
            self.cold[id as usize] = item;
            id
        } else {
            let id = self.bound();
            if id >= MAX_ITEMS {
                return None;
            }
            self.cold.push(item);
            self.watchers.push(Watchers::default());
            id
        };
        if indexed {
            let Self { index, cold, .. } = self;
            let rehash = |&id: &ItemId| item::hash(cold[id as usize].service, &cold[id as usize].key);
            index.insert_unique(item::hash(service, key), id, rehash);
        }
        Some(id)
    }

    /// Takes an item out of the index: whoever asks next gets another one.
    pub(crate) fn unlist(&mut self, id: ItemId) {
        let item = self.get(id);
        let hash = item::hash(item.service, &item.key);
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == id) {
            entry.remove();
        }
    }

    /// Takes the watchers of an item, and of its views, out of the updates until they have an image.
    pub(crate) fn hold_all(&mut self, id: ItemId) {
        let Self { watchers, cold, .. } = self;
        for &id in [id].iter().chain(cold[id as usize].views()) {
            watchers[id as usize].hold_all();
        }
    }

    /// What is asked for now is what all views of an item need together.
    pub(crate) fn clear_widening(&mut self, id: ItemId) {
        let item = self.get_mut(id);
        item.clear(bits::WIDENING);
        if let Some(extra) = item.extra.as_mut() {
            (extra.shown, extra.serial, extra.wide_from) = (None, 0, 0);
        }
        for at in 0..self.get(id).views().len() {
            let view = self.get(id).views()[at];
            self.get_mut(view).clear(bits::WIDENING);
        }
    }

    /// Frees an item that has no watchers.
    pub(crate) fn remove(&mut self, id: ItemId) {
        self.unlist(id);
        self.holds.forget(id);
        self.watchers[id as usize] = Watchers::default();
        let item = self.get_mut(id);
        item.key = Box::default();
        item.extra = None;
        item.flags = 0;
        item.phase = Phase::Waiting;
        item.handle = NO_HANDLE;
        self.free.push(id);
    }

    /// The key of an item, which its views share.
    pub(crate) fn key(&self, id: ItemId) -> ItemKey<'_> {
        ItemKey::read(&self.get(self.root(id)).key).unwrap_or_default()
    }

    /// The item whose stream to a Source Distributor serves this one: itself, or the one it is a view of.
    pub(crate) fn root(&self, id: ItemId) -> ItemId {
        self.get(id).parent().unwrap_or(id)
    }
}

#[cfg(test)]
mod tests {
    use super::{Item, Items, Phase, bits};

    #[test]
    fn an_item_is_small() {
        // The hot half has 32 bytes, the index takes up to 11, the allocation of the key up to 16 beside its text.
        assert!(size_of::<Item>() <= 48, "{}", size_of::<Item>());
    }

    #[test]
    fn numbers_are_reused_and_keys_found() {
        let mut items = Items::default();
        let a = items.insert(1, b"a", 0, Phase::Waiting).unwrap();
        let b = items.insert(1, b"b", 0, Phase::Waiting).unwrap();
        let snapshot = items.insert(1, b"a", bits::SNAPSHOT, Phase::Waiting).unwrap();
        let private = items.insert(1, b"c", bits::PRIVATE, Phase::Waiting).unwrap();
        assert_eq!(items.find(1, b"a", false), Some(a));
        assert_eq!(items.find(1, b"a", true), Some(snapshot));
        assert_eq!(items.find(2, b"a", false), None);
        assert_eq!(items.find(1, b"c", false), None);
        items.unlist(snapshot);
        assert_eq!(items.find(1, b"a", true), None);
        items.remove(a);
        assert_eq!(items.find(1, b"a", false), None);
        assert_eq!(items.insert(1, b"d", 0, Phase::Waiting), Some(a));
        assert_eq!(items.find(1, b"b", false), Some(b));
        assert_eq!(items.ids().collect::<Vec<_>>(), [a, b, snapshot, private]);
        assert_eq!(items.len(), 4);
    }
}
