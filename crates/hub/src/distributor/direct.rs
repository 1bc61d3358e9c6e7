//! Images for one P2PS alone (`usePointToPointData`): who waits for which, and what goes to whom.

use super::SourceDistributor;
use super::peers::{Peers, Slots, slots};
use crate::stream::{ALL, BlockWriter, Event};
use rustc_hash::FxHashMap;

/// Who waits for images, by item. Empty unless images go to one P2PS alone.
#[derive(Debug, Default)]
pub(super) struct Direct {
    on: bool,
    wanted: FxHashMap<u32, Slots>,
    /// Those that the set under way is for.
    served: FxHashMap<u32, Slots>,
}

impl Direct {
    pub(super) fn new(on: bool) -> Self {
        Self { on, ..Self::default() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// A solicited set begins, continues or ends: the P2PSs that it is for. Those that are `left_out` wait on.
    pub(super) fn serve(&mut self, handle: u32, left_out: Slots, first: bool, complete: bool) -> Slots {
        if first {
            let wanted = self.wanted.remove(&handle).unwrap_or_default();
            if wanted & left_out != 0 {
                self.wanted.insert(handle, wanted & left_out);
            }
            self.served.insert(handle, wanted & !left_out);
        }
        let served = self.served.get(&handle).copied().unwrap_or_default();
        if complete {
            self.served.remove(&handle);
        }
        served
    }

    pub(super) fn forget(&mut self, handle: u32, slot: u8) {
        let bit = (1 as Slots) << slot;
        for table in [&mut self.wanted, &mut self.served] {
            if !table.is_empty()
                && let Some(set) = table.get_mut(&handle)
            {
                *set &= !bit;
            }
        }
    }

    pub(super) fn forget_item(&mut self, handle: u32) {
        self.wanted.remove(&handle);
        self.served.remove(&handle);
    }
}

/// Writes an image for one P2PS, or for all.
pub(super) fn write_image(direct: &Direct, hub: &mut BlockWriter, peers: &mut Peers, image: &Event<'_>) -> bool {
    if let &Event::Image { target, .. } = image
        && direct.on
        && target != ALL
        && let Some(peer) = peers.slot(target).and_then(|slot| peers.get_mut(slot))
    {
        peer.direct.event(image);
        return true;
    }
    hub.event(image);
    false
}

impl SourceDistributor {
    /// Hands out what goes to single P2PSs, by their numbers. It is to be sent after the block of the same turn, or at any
    /// other time: positions tell where it belongs.
    pub fn direct_blocks(&mut self, mut f: impl FnMut(u16, &[u8])) {
        for (_, peer) in self.peers.iter_mut() {
            if let (Some(id), Some(block)) = (peer.id, peer.direct.block()) {
                f(id, block);
            }
            peer.direct.clear();
        }
    }

    /// A P2PS waits for an image of an item.
    pub(super) fn note_wanted(&mut self, handle: u32, slot: u8) {
        if self.direct.on {
            *self.direct.wanted.entry(handle).or_default() |= (1 as Slots) << slot;
        }
    }

    /// Publishes an image that answers requests to those alone that have asked.
    pub(super) fn image_to(&mut self, served: Slots, image: Event<'_>) {
        let Event::Image { handle, group, flags, position, rwf, .. } = image else { return };
        for slot in slots(served) {
            let Some(target) = self.peers.id(slot) else { continue };
            let image = Event::Image { target, handle, group, flags, position, rwf };
            if write_image(&self.direct, &mut self.hub, &mut self.peers, &image) {
                self.counters.direct_images += 1;
            }
        }
    }
}
