//! Updates held for images that come by another way than the updates of their items.
//!
//! Each such image carries its position in the stream of its source. The updates of its item are held since it was asked for: those
//! before its position are in it, those from there on follow it.

use crate::ids::{Handle, HubGroup, ItemId};
use crate::stream::{Message, flags};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// An image, or a part of one.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) handle: Handle,
    pub(crate) group: HubGroup,
    /// Bits of [`crate::stream::flags`].
    pub(crate) flags: u8,
    /// Position in the stream of its source.
    pub(crate) position: u64,
    pub(crate) rwf: Box<[u8]>,
}

impl Part {
    /// True if no part follows.
    pub(crate) const fn is_last(&self) -> bool {
        self.flags & flags::COMPLETE != 0
    }
}

/// An update that waits for an image to go before it.
#[derive(Debug)]
pub(crate) struct HeldUpdate {
    pub(crate) position: u64,
    /// Bits of [`crate::stream::flags`].
    pub(crate) flags: u8,
    pub(crate) rwf: Box<[u8]>,
}

/// Updates held for the image of one item.
#[derive(Debug, Default)]
pub(crate) struct PendingImage {
    pub(crate) updates: VecDeque<HeldUpdate>,
    pub(crate) parts: Vec<Part>,
}

impl PendingImage {
    fn bytes(&self) -> usize {
        let updates: usize = self.updates.iter().map(|update| update.rwf.len()).sum();
        updates + self.parts.iter().map(|part| part.rwf.len()).sum::<usize>()
    }
}

/// The fate of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Added {
    /// The part waits for the others.
    Kept,
    /// The part was the last one: the set is whole.
    Whole,
    /// The part is of no set whose beginning is here.
    Stray,
    /// There is no room for it.
    NoRoom,
}

/// Held updates, by item.
#[derive(Debug, Default)]
pub(crate) struct PendingImages {
    items: FxHashMap<ItemId, PendingImage>,
    /// Bytes of all messages held.
    bytes: usize,
}

impl PendingImages {
    /// The item is another one, or its stream is: nothing held for it is of use.
    pub(crate) fn forget(&mut self, id: ItemId) {
        if !self.items.is_empty()
            && let Some(pending) = self.items.remove(&id)
        {
            debug_assert!(self.bytes >= pending.bytes());
            self.bytes -= pending.bytes();
        }
    }

    /// Parts of a set are here, and not all of them.
    pub(crate) fn has_parts(&self, id: ItemId) -> bool {
        !self.items.is_empty() && self.items.get(&id).is_some_and(|pending| !pending.parts.is_empty())
    }

    /// Takes out all that is held for an item.
    pub(crate) fn take(&mut self, id: ItemId) -> PendingImage {
        let pending = self.items.remove(&id).unwrap_or_default();
        debug_assert!(self.bytes >= pending.bytes());
        self.bytes -= pending.bytes();
        pending
    }

    /// Holds updates, without parts, that were taken out before.
    pub(crate) fn put_back(&mut self, id: ItemId, updates: VecDeque<HeldUpdate>) {
        let pending = PendingImage { updates, parts: Vec::new() };
        self.bytes += pending.bytes();
        let before = self.items.insert(id, pending);
        debug_assert!(before.is_none(), "something was held beside what was taken out");
    }

    /// Holds an update; false if there is no room for it.
    pub(crate) fn hold(&mut self, id: ItemId, message: &Message<'_>, limit: usize) -> bool {
        if self.bytes + message.body.len() > limit {
            return false;
        }
        self.bytes += message.body.len();
        let update = HeldUpdate { position: message.position, flags: message.flags, rwf: message.body.into() };
        let updates = &mut self.items.entry(id).or_default().updates;
        debug_assert!(updates.back().is_none_or(|last| last.position < update.position), "updates are held in order");
        updates.push_back(update);
        true
    }

    /// Adds a part to the set under way. The last part has room beyond the limit, because its set goes out at once.
    pub(crate) fn add(&mut self, id: ItemId, part: Part, limit: usize) -> Added {
        let pending = self.items.entry(id).or_default();
        if part.flags & flags::FIRST != 0 {
            self.bytes -= pending.parts.drain(..).map(|part| part.rwf.len()).sum::<usize>();
        } else if pending.parts.is_empty() {
            // Nothing may be held for the item at all, and an entry without use would stay.
            if pending.updates.is_empty() {
                self.items.remove(&id);
            }
            return if self.bytes > limit { Added::NoRoom } else { Added::Stray };
        }
        self.bytes += part.rwf.len();
        let is_last = part.is_last();
        pending.parts.push(part);
        match (is_last, self.bytes <= limit) {
            (true, _) => Added::Whole,
            (false, true) => Added::Kept,
            (false, false) => Added::NoRoom,
        }
    }

    pub(super) fn holds_for(&self, id: ItemId) -> bool {
        self.items.contains_key(&id)
    }

    /// Panics if the count of bytes is wrong.
    pub(super) fn check(&self) {
        let bytes: usize = self.items.values().map(PendingImage::bytes).sum();
        assert_eq!(bytes, self.bytes, "bytes held for images");
    }
}
