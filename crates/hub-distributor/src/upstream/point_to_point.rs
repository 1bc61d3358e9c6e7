//! Point to point: who waits for which image, and images for one P2PS alone (`usePointToPointData`).

use crate::SourceDistributor;
use crate::hub_stream::HubStream;
use crate::ids::{Handle, Slot};
use crate::items::P2psSet;
use crate::p2ps_links::Links;
use crate::stream::{ALL, Event};
use rustc_hash::FxHashMap;

/// An image that so many P2PSs wait for goes by the stream, if nobody else has the item open: once, whatever their number.
const CROWD: usize = 8;

/// P2PSs by the way on which an image is to come to them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recipients {
    /// To each of them alone.
    pub(crate) alone: P2psSet,
    /// By the stream that all read.
    pub(crate) by_stream: P2psSet,
}

impl Recipients {
    fn is_empty(&self) -> bool {
        self.alone.is_empty() && self.by_stream.is_empty()
    }

    /// Splits off those that are in a set. Who is in both ways is served by the stream.
    fn split(self, set: &P2psSet) -> (Self, Self) {
        let alone = self.alone.without(&self.by_stream);
        let inside = Self { alone: alone.intersection(set), by_stream: self.by_stream.intersection(set) };
        let outside = Self { alone: alone.without(set), by_stream: self.by_stream.without(set) };
        (inside, outside)
    }

    fn remove(&mut self, slot: Slot) {
        self.alone.remove(slot);
        self.by_stream.remove(slot);
    }
}

/// Links that wait for images, by item.
#[derive(Debug, Default)]
pub(crate) struct PointToPoint {
    wanted: FxHashMap<Handle, Recipients>,
    /// The P2PSs that the set under way is for.
    served: FxHashMap<Handle, Recipients>,
}

impl PointToPoint {
    /// A P2PS waits for an image of an item, which is to go to it alone or by the stream.
    pub(crate) fn want(&mut self, handle: Handle, slot: Slot, alone: bool) {
        let recipients = self.wanted.entry(handle).or_default();
        let set = if alone { &mut recipients.alone } else { &mut recipients.by_stream };
        set.insert(slot);
    }

    /// The next set is for everyone who is interested, by the stream.
    pub(crate) fn want_all(&mut self, handle: Handle, interest: &P2psSet) {
        let recipients = self.wanted.entry(handle).or_default();
        recipients.by_stream = recipients.by_stream.union(interest);
    }

    /// A solicited set begins, continues or ends: the P2PSs that it is for. Those that are `left_out` wait on.
    pub(crate) fn serve(&mut self, handle: Handle, left_out: &P2psSet, first: bool, complete: bool) -> Recipients {
        if first {
            let (waiting, served) = self.wanted.remove(&handle).unwrap_or_default().split(left_out);
            if !waiting.is_empty() {
                self.wanted.insert(handle, waiting);
            }
            if complete {
                // Most sets are one message. One that broke off is over with this one.
                if !self.served.is_empty() {
                    self.served.remove(&handle);
                }
                return served;
            }
            self.served.insert(handle, served);
        }
        let served = if complete { self.served.remove(&handle) } else { self.served.get(&handle).cloned() };
        served.unwrap_or_default()
    }

    /// The set under way will not be completed: those that it was for wait on, as one P2PS alone has had no use of its parts.
    /// True if there are any.
    pub(crate) fn break_off(&mut self, handle: Handle) -> bool {
        if self.served.is_empty() {
            return false;
        }
        let Some(served) = self.served.remove(&handle) else { return false };
        let wanted = self.wanted.entry(handle).or_default();
        wanted.alone = wanted.alone.union(&served.alone);
        wanted.by_stream = wanted.by_stream.union(&served.by_stream);
        !served.alone.is_empty()
    }

    /// Whether an image that is made for one P2PS now goes to it alone. The P2PS waits no more.
    pub(crate) fn goes_alone(&mut self, handle: Handle, slot: Slot) -> bool {
        let wanted = self.wanted.get(&handle);
        let alone = wanted.is_some_and(|wanted| wanted.alone.contains(slot) && !wanted.by_stream.contains(slot));
        if wanted.is_some() {
            self.forget(handle, slot);
        }
        alone
    }

    pub(crate) fn forget(&mut self, handle: Handle, slot: Slot) {
        for table in [&mut self.wanted, &mut self.served] {
            if !table.is_empty()
                && let Some(recipients) = table.get_mut(&handle)
            {
                recipients.remove(slot);
                if recipients.is_empty() {
                    table.remove(&handle);
                }
            }
        }
    }

    pub(crate) fn forget_item(&mut self, handle: Handle) {
        for table in [&mut self.wanted, &mut self.served] {
            if !table.is_empty() {
                table.remove(&handle);
            }
        }
    }

    /// The items that somebody waits for.
    pub(crate) fn handles(&self) -> impl Iterator<Item = Handle> + '_ {
        self.wanted.keys().chain(self.served.keys()).copied()
    }
}

/// Publishes an image: to one P2PS alone if it may go that way. True if so.
pub(crate) fn write_image(alone: bool, hub: &mut HubStream, links: &mut Links, image: &Event<'_>) -> bool {
    if let &Event::Image { target, .. } = image
        && alone
        && target != ALL
        && links.event_alone(target, image)
    {
        return true;
    }
    hub.event(image);
    false
}

impl SourceDistributor {
    /// Hands out what goes to single P2PSs, by their numbers. It is to be sent after the block of the same turn, or at any
    /// other time: positions tell where it belongs.
    pub fn point_to_point_blocks(&mut self, f: impl FnMut(u16, &[u8])) {
        self.links.point_to_point_blocks(f);
    }

    /// Publishes an image to those that have asked for one.
    pub(super) fn publish_image_to(&mut self, to: &Recipients, image: &Event<'_>) {
        let &Event::Image { handle, group, flags, rwf, .. } = image else {
            return hub_items::fault!("no image: {image:?}");
        };
        let all = to.alone.union(&to.by_stream);
        if (to.alone.is_empty() || all.len() >= CROWD) && all == *self.items[Handle(handle)].interest() {
            return self.hub.event(image);
        }
        for slot in all.iter() {
            // A P2PS that has left since waits no more.
            let Some(target) = self.links.id(slot) else { continue };
            let position = self.hub.next_position();
            let image = Event::Image { target, handle, group, flags, position, rwf };
            if write_image(to.alone.contains(slot), &mut self.hub, &mut self.links, &image) {
                self.counters.point_to_point_images += 1;
            }
        }
    }
}
