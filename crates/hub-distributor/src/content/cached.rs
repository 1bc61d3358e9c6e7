//! The images of interactive items: what goes into them, and answers out of them.
//!
//! A shared item that is to be cached is asked for as a whole, whatever views P2PSs have, and its updates are applied to its image, also
//! when nobody watches it and it stays open for its time (`ageUnwatchedItemTime`): some at a time, before anything else is done with the
//! image, and at the end of a turn that has published at the latest. A P2PS that opens it, asks for an image, joins or has lost messages gets the image from
//! here. While a provider's image is on its way the rules are those without a cache; whoever has come in the middle of a set gets the image
//! when that is whole.

use super::Content;
use crate::ids::{Handle, Slot};
use crate::items::{Item, Kind};
use crate::stream::{ALL, flags, update_flags};
use crate::{SessionId, SourceDistributor};
use rwf::msg::{Domain, MsgClass, RefreshMsg};
use rwf::peek;

impl Content {
    /// Asks for the memory beside an item's image, which is all that most updates touch.
    #[inline]
    pub(crate) fn ask_ahead(&self, handle: Handle) {
        self.images.ask_ahead(handle.0);
    }

    /// The turn is over: no update waits for its image any longer. Number of messages that could not be applied since they were counted last.
    pub(crate) fn settle(&mut self) -> u64 {
        self.images.settle();
        self.images.take_failures()
    }

    /// True if the cached image of an item is what its provider would send, and none is on its way.
    pub(crate) fn is_current(&mut self, handle: Handle, item: &Item) -> bool {
        let settled = item.is_open() && !item.in_set() && !item.is_expecting() && !item.is_lost();
        settled && self.images.get(handle.0).is_some_and(|cached| cached.current().is_some())
    }

    /// True if the item is lost, and the image of before that is here.
    pub(crate) fn has_stale_image(&mut self, handle: Handle, item: &Item) -> bool {
        item.awaits_recovery() && self.images.get(handle.0).is_some_and(|cached| cached.stale().is_some())
    }
}

impl SourceDistributor {
    /// A P2PS wants an interactive item: it is cached from now on if the rules say so.
    pub(crate) fn want_cached(&mut self, handle: Handle) {
        if self.content.images.has(handle.0) {
            return self.content.images.touch(handle.0);
        }
        // An image that was asked for through a view is not whole.
        if !self.config.cache.is_on() || self.upstream.is_narrowed(handle) || !self.is_to_be_cached(handle) {
            return;
        }
        let victim = self.content.images.add(handle.0);
        self.set_relaying(handle);
        if let Some(victim) = victim {
            self.counters.items_uncached += 1;
            self.set_relaying(Handle(victim));
        }
    }

    fn is_to_be_cached(&self, handle: Handle) -> bool {
        let item = &self.items[handle];
        let is_shared = !item.is_instance() && !item.is_cached() && !item.is_ended();
        let key = item.item_key();
        let service = &self.providers[item.service()].name;
        is_shared && self.config.cache.covers(service, Domain(key.domain), key.name.unwrap_or_default())
    }

    /// An item is cached from now on, or no more: its updates go on to the P2PSs as before.
    pub(crate) fn set_relaying(&mut self, handle: Handle) {
        let item = &self.items[handle];
        // Without a stream there are no updates to relay.
        let Some(place) = item.place().filter(|_| item.is_open()) else { return };
        let stream = self.providers[place.session].streams.get(place.stream);
        self.set_live(handle, stream.live().is_some() || stream.is_live_careful());
    }

    /// Applies a part of a provider's image.
    pub(crate) fn cache_refresh(&mut self, handle: Handle, first: bool, one_shot: bool, refresh: &RefreshMsg<'_>) {
        if !self.content.images.has(handle.0) {
            return;
        }
        if one_shot {
            return self.content.images.blank(handle.0);
        }
        let page_size = self.config.page_sizes.of(&self.providers[self.items[handle].service()].name);
        self.content.images.refresh(handle.0, first, refresh, page_size);
        self.count_failures();
    }

    /// The data path of items whose only peculiarity is that they are cached: their updates go on as they come, and the cache takes them in.
    /// False, and nothing was done, for any other message, and for an update with a lock. It reads the message again and is not inlined, so that
    /// the way of items without a cache stays as short as it is.
    #[inline(never)]
    pub(crate) fn relay_cached(&mut self, id: SessionId, rwf: &[u8]) -> bool {
        let (Some(session), Ok(header)) = (self.providers.get(id), peek::header(rwf)) else { return false };
        let handle = session.streams.get(crate::ids::StreamId(header.stream_id)).live_cached();
        let Some(handle) = handle.filter(|_| header.class == MsgClass::UPDATE) else { return false };
        let bits = update_flags(&header, rwf);
        if bits & flags::HAS_LOCK != 0 {
            return false;
        }
        debug_assert!(self.content.images.has(handle.0), "{handle:?} is not cached");
        self.hub.update(handle, bits, rwf);
        self.counters.updates += 1;
        self.content.images.update(handle.0, rwf);
        true
    }

    fn count_failures(&mut self) {
        self.counters.cache_failures += self.content.images.take_failures();
    }

    /// What passes of an update that is not relayed as it comes: of an item that is cached or filtered, or that nobody watches. It goes
    /// on if it `may_go`.
    pub(crate) fn cached_update(
        &mut self,
        id: SessionId,
        handle: Handle,
        header: &peek::Header,
        rwf: &[u8],
        may_go: bool,
    ) {
        let bits = update_flags(header, rwf);
        if bits & flags::HAS_LOCK == 0 {
            self.content.images.update(handle.0, rwf);
        } else {
            self.content.images.locked_update(handle.0, rwf);
        }
        let is_live = self.providers[id].streams.get(crate::ids::StreamId(header.stream_id)).is_live_careful();
        match (is_live, may_go) {
            (true, true) => {
                let conflation = self.providers.conflation_of(&self.items[handle]);
                self.counters.updates += u64::from(self.hub.relay(handle, bits, rwf, conflation));
            }
            (true, false) => self.counters.updates_filtered += 1,
            (false, _) => self.counters.dropped_not_live += 1,
        }
    }

    /// Sends a P2PS the cached image of an item that it has open; false if there is none to send.
    pub(crate) fn answer_from_held(&mut self, handle: Handle, slot: Slot) -> bool {
        if !self.content.images.has(handle.0) || !self.items[handle].is_watched() {
            return false;
        }
        let (current, stale) = (
            self.content.is_current(handle, &self.items[handle]),
            self.content.has_stale_image(handle, &self.items[handle]),
        );
        if current || stale {
            self.publish_image(handle, handle, self.links.number(slot));
            self.counters.images_from_cache += u64::from(current);
            self.counters.images_stale += u64::from(stale);
        }
        current || stale
    }

    /// A snapshot is answered from the cached image of the item that streams; false if there is none.
    pub(crate) fn answer_snapshot_from_held(&mut self, instance: Handle) -> bool {
        let item = &self.items[instance];
        if self.content.images.is_empty() || !item.is_of(Kind::Snapshot) {
            return false;
        }
        let Some(shared) = self
            .items
            .find(item.service(), item.key())
            .filter(|&shared| self.content.is_current(shared, &self.items[shared]))
        else {
            return false;
        };
        self.publish_image(shared, instance, ALL);
        self.end_item(instance);
        true
    }

    /// A set is whole, and P2PSs want another image, because they came in its middle: they get the cached one. False if that is not
    /// what they want, or there is none.
    pub(crate) fn answer_wanted(&mut self, handle: Handle) -> bool {
        if !self.content.images.has(handle.0) || !self.content.is_current(handle, &self.items[handle]) {
            return false;
        }
        let Some(to) = self.upstream.serve_latecomers(handle) else { return false };
        let slots = to.alone.union(&to.by_stream);
        for slot in slots.iter() {
            // A P2PS that is gone reads nothing.
            if let Some(target) = self.links.id(slot) {
                self.publish_image(handle, handle, target);
                self.counters.images_from_cache += 1;
            }
        }
        !slots.is_empty()
    }

    /// Asserts that shared items of interactive providers are cached, and no others.
    pub(crate) fn check_cache(&self) {
        self.content.images.check();
        for handle in self.content.images.items().map(Handle) {
            let item = self.items.get(handle);
            let may = item.is_some_and(|item| !item.is_instance() && !item.is_cached() && !item.is_ended());
            assert!(may, "{handle:?} is cached: {item:?}");
        }
    }
}
