//! Which P2PSs the images under way are not for: they have asked for more since those were asked for.
//!
//! A provider answers the requests on a stream in their order, and a set does not say which one it answers. So each set that
//! answers is counted against the requests that were sent, and a P2PS is served from the answer on that its own request has.

use super::peers::Slots;
use rustc_hash::FxHashMap;

/// A P2PS whose wish the provider has not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owed {
    slot: u8,
    /// It has opened the item, so none of its watchers has had an image.
    opened: bool,
    /// Answers to earlier requests that may come before its own.
    earlier: u8,
    /// The number of its reissue, which it is told with the answer.
    serial: Option<u32>,
}

/// The P2PSs that are owed an image, by item.
#[derive(Debug, Default)]
pub(super) struct OwedImages {
    items: FxHashMap<u32, Vec<Owed>>,
}

impl OwedImages {
    /// `slot` wants more than the `earlier` requests that are not answered yet have asked for: it has opened the item, or
    /// reissued with this number.
    pub(super) fn note(&mut self, handle: u32, slot: u8, serial: Option<u32>, earlier: u8) {
        let owed = self.items.entry(handle).or_default();
        let opened = serial.is_none() || owed.iter().any(|known| known.slot == slot && known.opened);
        owed.retain(|known| known.slot != slot);
        owed.push(Owed { slot, opened, earlier, serial });
    }

    /// A set that answers a request begins: it is for those whose turn it is, and answers these reissues (slot and number).
    /// True if others are still owed one.
    pub(super) fn answered(&mut self, handle: u32, reissues: &mut Vec<(u8, u32)>) -> bool {
        if self.items.is_empty() {
            return false;
        }
        let Some(owed) = self.items.get_mut(&handle) else { return false };
        owed.retain(|known| {
            if known.earlier == 0 {
                reissues.extend(known.serial.map(|serial| (known.slot, serial)));
            }
            known.earlier > 0
        });
        for known in owed.iter_mut() {
            known.earlier -= 1;
        }
        let others = !owed.is_empty();
        if !others {
            self.items.remove(&handle);
        }
        others
    }

    /// The slots, as bits, that have opened the item and are owed their first image.
    pub(super) fn opened(&self, handle: u32) -> Slots {
        self.slots(handle, |known| known.opened)
    }

    /// All slots, as bits, that are owed an image.
    pub(super) fn all(&self, handle: u32) -> Slots {
        self.slots(handle, |_| true)
    }

    fn slots(&self, handle: u32, which: impl Fn(&Owed) -> bool) -> Slots {
        if self.items.is_empty() {
            return 0;
        }
        let owed = self.items.get(&handle).map(Vec::as_slice).unwrap_or_default();
        owed.iter().filter(|known| which(known)).fold(0, |slots, known| slots | (1 as Slots) << known.slot)
    }

    /// The P2PS is no longer interested.
    pub(super) fn forget(&mut self, handle: u32, slot: u8) {
        if self.items.is_empty() {
            return;
        }
        if let Some(owed) = self.items.get_mut(&handle) {
            owed.retain(|known| known.slot != slot);
            if owed.is_empty() {
                self.items.remove(&handle);
            }
        }
    }

    /// The item is off its stream: the next request is made with all that is wanted by then, so its first answer is everyone's.
    pub(super) fn start_over(&mut self, handle: u32) {
        if self.items.is_empty() {
            return;
        }
        if let Some(owed) = self.items.get_mut(&handle) {
            owed.retain(|known| known.serial.is_some());
            for known in owed.iter_mut() {
                (known.opened, known.earlier) = (false, 0);
            }
            if owed.is_empty() {
                self.items.remove(&handle);
            }
        }
    }

    /// The item is gone.
    pub(super) fn forget_item(&mut self, handle: u32) {
        self.items.remove(&handle);
    }
}
