//! Pending images: which P2PSs the images under way are not for, since they have asked for more after those were asked for.
//!
//! A provider answers the requests on a stream in their order, and a set does not say which one it answers. So each set that
//! answers is counted against the requests that were sent, and a P2PS is served from the answer on that its own request has.

use crate::ids::{Handle, Slot};
use crate::items::P2psSet;
use rustc_hash::FxHashMap;

/// A P2PS whose request the provider has not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pending {
    slot: Slot,
    /// The P2PS has opened the item, so none of its watchers has had an image.
    opened: bool,
    /// Answers to earlier requests that may come before its own.
    earlier: u8,
    /// The number of its reissue, which it is told with the answer.
    serial: Option<u32>,
}

/// The P2PSs that an image is pending for, by item. Few items have any.
#[derive(Debug, Default)]
pub(crate) struct PendingImages {
    items: FxHashMap<Handle, Vec<Pending>>,
}

impl PendingImages {
    /// `slot` wants more than the `earlier` requests that are not answered yet have asked for: it has opened the item, or
    /// reissued with this number.
    pub(crate) fn note(&mut self, handle: Handle, slot: Slot, serial: Option<u32>, earlier: u8) {
        let pending = self.items.entry(handle).or_default();
        let opened = serial.is_none() || pending.iter().any(|known| known.slot == slot && known.opened);
        pending.retain(|known| known.slot != slot);
        pending.push(Pending { slot, opened, earlier, serial });
    }

    /// A set that answers a request begins: it is for those whose turn it is, and answers these reissues (slot and number).
    /// True if others still wait for one.
    pub(crate) fn answered(&mut self, handle: Handle, reissues: &mut Vec<(Slot, u32)>) -> bool {
        let mut others = false;
        self.change(handle, |pending| {
            pending.retain(|known| {
                if known.earlier == 0 {
                    reissues.extend(known.serial.map(|serial| (known.slot, serial)));
                }
                known.earlier > 0
            });
            for known in pending.iter_mut() {
                known.earlier -= 1;
            }
            others = !pending.is_empty();
        });
        others
    }

    /// The P2PSs that have opened the item and wait for their first image.
    pub(crate) fn opened(&self, handle: Handle) -> P2psSet {
        self.slots(handle, |known| known.opened)
    }

    /// All that wait for an image.
    pub(crate) fn all(&self, handle: Handle) -> P2psSet {
        self.slots(handle, |_| true)
    }

    fn slots(&self, handle: Handle, which: impl Fn(&Pending) -> bool) -> P2psSet {
        let mut set = P2psSet::EMPTY;
        if !self.items.is_empty() {
            let pending = self.items.get(&handle).map(Vec::as_slice).unwrap_or_default();
            pending.iter().filter(|known| which(known)).for_each(|known| set.insert(known.slot));
        }
        set
    }

    /// The P2PS is no longer interested.
    pub(crate) fn forget(&mut self, handle: Handle, slot: Slot) {
        self.change(handle, |pending| pending.retain(|known| known.slot != slot));
    }

    /// The item is off its stream: the next request is made with all that is wanted by then, so its first answer is everyone's.
    pub(crate) fn start_over(&mut self, handle: Handle) {
        self.change(handle, |pending| {
            pending.retain(|known| known.serial.is_some());
            for known in pending.iter_mut() {
                (known.opened, known.earlier) = (false, 0);
            }
        });
    }

    /// The item is gone.
    pub(crate) fn forget_item(&mut self, handle: Handle) {
        if !self.items.is_empty() {
            self.items.remove(&handle);
        }
    }

    /// Changes what is pending for an item, if anything is.
    fn change(&mut self, handle: Handle, change: impl FnOnce(&mut Vec<Pending>)) {
        if self.items.is_empty() {
            return;
        }
        if let Some(pending) = self.items.get_mut(&handle) {
            change(pending);
            if pending.is_empty() {
                self.items.remove(&handle);
            }
        }
    }

    /// The links that are noted, by item.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, Slot)> + '_ {
        self.items.iter().flat_map(|(&handle, pending)| pending.iter().map(move |known| (handle, known.slot)))
    }
}
