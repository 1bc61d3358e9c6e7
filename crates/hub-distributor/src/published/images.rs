//! Answers from held images, and items whose provider is gone.

use crate::SourceDistributor;
use crate::ids::{Handle, Slot};
use crate::stream::{ALL, Event, flags};
use crate::upstream::write_image;
use rwf::msg::{Domain, RefreshFlags, RefreshMsg};
use rwf::{DataState, State, StateCode, StreamState};

/// The state for those that an image cannot be given to.
const WAITING: State<'static> = State {
    stream: StreamState::OPEN,
    data: DataState::SUSPECT,
    code: StateCode::NONE,
    text: b"No whole image is published: waiting for the provider",
};

impl SourceDistributor {
    /// Sends a P2PS the held image of an item that it has open, or as soon as the set under way is complete.
    pub(crate) fn answer_from_cache(&mut self, handle: Handle, slot: Slot) {
        let item = &mut self.items[handle];
        if item.in_set() {
            item.want_another();
            return self.await_set(handle);
        }
        let target = self.links.number(slot);
        self.answer_now(handle, target);
    }

    /// Publishes the held image of an item, or that there is none.
    pub(super) fn answer_now(&mut self, handle: Handle, target: u16) {
        let Some(image) = self.items[handle].image() else {
            return hub_items::fault!("{handle:?} has no image, and is published");
        };
        if self.published.images.get(image).is_whole() {
            self.publish_image(handle, handle, target);
        } else {
            // The provider went away between the parts of the first image, or there was none yet, or it is not to be held.
            self.published.awaited.leave_unanswered(handle);
            self.publish_status(handle, target, flags::WAITING_ONLY, WAITING);
        }
    }

    /// A snapshot of a published item: an instance of its own, answered as soon as the image is whole.
    pub(crate) fn open_snapshot(&mut self, instance: Handle) {
        let item = &self.items[instance];
        let Some(shared) = self.items.find(item.service(), item.key()) else {
            return hub_items::fault!("{instance:?} is a snapshot of no item");
        };
        self.published.snapshots.add(shared, instance);
        if self.items[shared].in_set() {
            return self.await_set(instance);
        }
        self.answer_snapshots(shared);
        if self.published.snapshots.waits(shared, instance) {
            self.publish_status(instance, ALL, flags::WAITING_ONLY, WAITING);
        }
    }

    /// Answers the snapshots that wait for an item's image, if it is whole.
    pub(super) fn answer_snapshots(&mut self, shared: Handle) {
        let Some(image) = self.items[shared].image() else {
            return hub_items::fault!("{shared:?} has no image, and is published");
        };
        if !self.published.images.get(image).is_whole() {
            return;
        }
        for instance in self.published.snapshots.take(shared) {
            self.publish_image(shared, instance, ALL);
            self.end_item(instance);
        }
    }

    /// A published item is over: the snapshots that wait for it are too.
    pub(crate) fn end_snapshots(&mut self, shared: Handle) {
        for instance in self.published.snapshots.take(shared) {
            let text = "Item was closed by its provider before its image was whole";
            let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND, text);
            self.publish_status(instance, ALL, flags::CLOSED, state);
            self.end_item(instance);
        }
    }

    /// Publishes the held image of an item for those who wait for one under a handle: its own, or that of a snapshot.
    pub(crate) fn publish_image(&mut self, shared: Handle, handle: Handle, target: u16) {
        self.publish_image_with(shared, handle, target, 0);
    }

    /// As [`Self::publish_image`]; with [`flags::UNSOLICITED`] among the flags it is for all who watch.
    pub(super) fn publish_image_with(&mut self, shared: Handle, handle: Handle, target: u16, bits: u8) {
        self.hub.release(handle);
        let slot = self.links.slot(target);
        let alone = slot.is_some_and(|slot| self.upstream.goes_alone(handle, slot));
        let last = bits | if handle == shared { 0 } else { flags::SNAPSHOT };
        let solicited = if bits & flags::UNSOLICITED == 0 { RefreshFlags::SOLICITED } else { RefreshFlags::NONE };
        let item = &self.items[shared];
        let image = match item.image() {
            Some(slot) => self.published.images.get(slot),
            None => match self.content.cached(shared) {
                Some(cached) => cached.image(),
                // Watchers that wait for an image get the next one of the provider.
                None => return hub_items::fault!("{shared:?} has no image to give out"),
            },
        };
        let key = item.item_key();
        let offer = item.place().and_then(|place| self.providers.offer(place.session, item.service()));
        let header = RefreshMsg {
            flags: solicited,
            key: Some(key.msg_key(offer.map_or(item.service(), |offer| offer.provider_id))),
            ..RefreshMsg::new(Domain(key.domain), item.place().map_or(0, |place| place.stream.0))
        };
        let group = item.group().0;
        let mut parts = image.parts(header, self.config.image_part);
        while !parts.is_done() {
            let mut part = rwf::image::Part::Only;
            let written = self.composer.write(&mut self.counters, |w| {
                part = parts.write(w)?;
                Ok(())
            });
            let Some(rwf) = written else {
                self.counters.cache_failures += 1;
                return self.publish_status(handle, target, flags::WAITING_ONLY, WAITING);
            };
            let first = if part.is_first() { flags::FIRST | flags::CLEAR_CACHE } else { 0 };
            let flags = first | if part.is_last() { last | flags::COMPLETE } else { last };
            let position = self.hub.next_position();
            let image = Event::Image { target, handle: handle.0, group, flags, position, rwf };
            if write_image(alone, &mut self.hub, &mut self.links, &image) {
                self.counters.point_to_point_images += 1;
            }
            self.counters.images += 1;
        }
    }

    /// The set under way will not be completed: those who wait for it get the image that there was before, if any.
    pub(crate) fn abandon_set(&mut self, handle: Handle) {
        let item = &mut self.items[handle];
        // No set is under way.
        let Some(awaited) = item.abandon_cached_set() else { return };
        let Some(image) = item.image() else { return hub_items::fault!("{handle:?} has no image, and is published") };
        self.published.images.get_mut(image).abandon_refresh();
        if awaited {
            self.answer_now(handle, ALL);
        }
        self.answer_snapshots(handle);
    }

    /// Takes a published item off its provider's stream, if it is on one.
    pub(crate) fn unpublish(&mut self, handle: Handle) {
        if let Some(place) = self.items.unpublish(handle) {
            let before = self.providers[place.session].streams.set(place.stream, crate::providers::Stream::NONE);
            assert_eq!(before.handle(), Some(handle), "the stream of an item is its own");
        }
    }

    /// Items whose provider is gone go back to others that have them. The images of the rest stay, Suspect, and become good one by one
    /// as they are published again. `all` says that the service has no others that are published.
    pub(crate) fn published_lost(&mut self, service: u16, handles: &[Handle], state: State<'_>, all: bool) {
        for &handle in handles {
            self.unpublish(handle);
        }
        let handles = &self.take_back(service, handles)[..];
        // The images stay: to a consumer the stream is open, only stale.
        let state = State { stream: StreamState::OPEN, ..state };
        let known = &self.providers[service];
        let at_once = all && known.providers().is_empty() && known.lost_items() == 0;
        if at_once && handles.iter().any(|&handle| self.items[handle].has_interest()) {
            self.hub.event(&Event::ServiceStatus { service, state });
        }
        for &handle in handles {
            let item = &self.items[handle];
            let tell = item.has_interest() && !at_once && !item.is_suspect();
            let Some(image) = item.image() else {
                hub_items::fault!("{handle:?} has no image, and is published");
                continue;
            };
            self.published.images.get_mut(image).set_state(&state);
            self.note_changed(handle);
            self.abandon_set(handle);
            self.mark_lost(handle);
            if tell {
                self.publish_status(handle, ALL, 0, state);
            }
        }
    }
}
