//! Who waits for which image, and images for one P2PS alone (`usePointToPointData`).

use super::SourceDistributor;
use super::peers::{Peers, Slots, slots};
use crate::stream::{ALL, BlockWriter, Event};
use rustc_hash::FxHashMap;

/// P2PSs by the way on which an image is to come to them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ways {
    /// To each of them alone.
    pub(super) alone: Slots,
    /// By the stream.
    pub(super) stream: Slots,
}

impl Ways {
    fn both(self, set: Slots) -> Self {
        Self { alone: self.alone & set & !self.stream, stream: self.stream & set }
    }
}

/// Who waits for images, by item.
#[derive(Debug, Default)]
pub(super) struct Direct {
    /// Images may go to one P2PS alone.
    on: bool,
    wanted: FxHashMap<u32, Ways>,
    /// Those that the set under way is for.
    served: FxHashMap<u32, Ways>,
}

impl Direct {
    pub(super) fn new(on: bool) -> Self {
        Self { on, ..Self::default() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// The next set is for everyone who is interested, by the stream.
    pub(super) fn want_all(&mut self, handle: u32, interest: Slots) {
        self.wanted.entry(handle).or_default().stream |= interest;
    }

    /// A solicited set begins, continues or ends: the P2PSs that it is for. Those that are `left_out` wait on.
    pub(super) fn serve(&mut self, handle: u32, left_out: Slots, first: bool, complete: bool) -> Ways {
        if first {
            let wanted = self.wanted.remove(&handle).unwrap_or_default();
            let waiting = wanted.both(left_out);
            if waiting.alone | waiting.stream != 0 {
                self.wanted.insert(handle, waiting);
            }
            self.served.insert(handle, wanted.both(!left_out));
        }
        let served = self.served.get(&handle).copied().unwrap_or_default();
        if complete {
            self.served.remove(&handle);
        }
        served
    }

    /// The set under way will not be completed: those that it was for wait on, as one P2PS alone has had no use of its parts.
    /// True if there are any.
    pub(super) fn break_off(&mut self, handle: u32) -> bool {
        let Some(served) = self.served.remove(&handle) else { return false };
        let wanted = self.wanted.entry(handle).or_default();
        wanted.alone |= served.alone;
        wanted.stream |= served.stream;
        served.alone != 0
    }

    /// The way on which one P2PS is to get an image that is made for it now.
    fn way(&mut self, handle: u32, slot: u8) -> bool {
        let bit = (1 as Slots) << slot;
        let Some(ways) = self.wanted.get(&handle) else { return false };
        let alone = ways.alone & bit != 0 && ways.stream & bit == 0;
        self.forget(handle, slot);
        alone
    }

    pub(super) fn forget(&mut self, handle: u32, slot: u8) {
        let bit = (1 as Slots) << slot;
        for table in [&mut self.wanted, &mut self.served] {
            if table.is_empty() {
                continue;
            }
            let Some(ways) = table.get_mut(&handle) else { continue };
            (ways.alone, ways.stream) = (ways.alone & !bit, ways.stream & !bit);
            if ways.alone | ways.stream == 0 {
                table.remove(&handle);
            }
        }
    }

    pub(super) fn forget_item(&mut self, handle: u32) {
        self.wanted.remove(&handle);
        self.served.remove(&handle);
    }
}

/// Writes an image: to one P2PS alone if it may go that way. True if so.
pub(super) fn write_image(alone: bool, hub: &mut BlockWriter, peers: &mut Peers, image: &Event<'_>) -> bool {
    if let &Event::Image { target, .. } = image
        && alone
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
    pub(super) fn note_wanted(&mut self, handle: u32, slot: u8, in_stream: bool) {
        let alone = self.direct.on && !in_stream;
        let ways = self.direct.wanted.entry(handle).or_default();
        let set = if alone { &mut ways.alone } else { &mut ways.stream };
        *set |= (1 as Slots) << slot;
    }

    /// Whether an image that is made for one P2PS now goes to it alone.
    pub(super) fn goes_alone(&mut self, handle: u32, target: u16) -> bool {
        self.peers.slot(target).is_some_and(|slot| self.direct.way(handle, slot))
    }

    /// Publishes an image to those that have asked for one.
    pub(super) fn image_to(&mut self, ways: Ways, image: Event<'_>) {
        let Event::Image { handle, group, flags, rwf, .. } = image else { return };
        let interest = self.items.get(handle).map_or(0, |item| item.interest);
        if ways.alone == 0 && ways.stream == interest {
            return self.hub.event(&image);
        }
        for slot in slots(ways.alone | ways.stream) {
            let Some(target) = self.peers.id(slot) else { continue };
            let alone = ways.alone & (1 as Slots) << slot != 0;
            let position = self.hub.next_position();
            let image = Event::Image { target, handle, group, flags, position, rwf };
            if write_image(alone, &mut self.hub, &mut self.peers, &image) {
                self.counters.direct_images += 1;
            }
        }
    }
}
