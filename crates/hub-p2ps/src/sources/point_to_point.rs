//! Images that come to this P2PS alone (`usePointToPointData`), by another way than the updates of their items.
//!
//! Each carries its position in the stream. One that is ahead of the stream waits until the stream has been read up to there.
//! For one that is behind, the updates of the item were held since it was asked for: those before its position are in it,
//! those from there on follow it. Where something else than an update has come for the item in between, or the updates have
//! found no room, the image is of no use, and another one is asked for.

use super::Sources;
use crate::P2ps;
use crate::delivery::deliveries::BodyId;
use crate::ids::{Handle, HubGroup, ItemId, SourceId};
use crate::items::Items;
use crate::items::pending_images::{Added, HeldUpdate, Part, PendingImage};
use crate::stream::{Event, Kind, Message, NO_GROUP, NO_HANDLE, flags};
use rwf::StateCode;
use std::collections::VecDeque;

/// Images that are ahead of their source's stream.
#[derive(Debug, Default)]
pub(crate) struct EarlyImages {
    parts: VecDeque<Part>,
    bytes: usize,
}

impl Sources {
    /// Parts of a set for this P2PS alone are here: at its source those who wait for the image count as those who have begun to get it, and here
    /// they have got nothing.
    pub(crate) fn has_begun_set(&self, items: &Items, number: SourceId, id: ItemId) -> bool {
        // No image comes of an item that is not open.
        let Some((_, handle)) = items.open_at(id) else { return false };
        let is_early = |parts: &VecDeque<Part>| parts.iter().any(|part| part.handle == handle);
        items.pending().has_parts(id) || self.up(number).is_some_and(|source| is_early(&source.early_images.parts))
    }

    /// True if an item is served over a network.
    fn comes_over_network(&self, items: &Items, id: ItemId) -> bool {
        items.get(id).source().is_some_and(|source| self.is_over_network(source))
    }
}

impl P2ps {
    /// Takes in an image that came to this P2PS alone.
    pub(super) fn point_to_point_image(&mut self, number: SourceId, event: &Event<'_>) {
        let &Event::Image { handle, group, flags, position, rwf, .. } = event else {
            hub_items::fault!("no image: {event:?}");
            return;
        };
        let limit = self.config.hold_bytes;
        let part = Part { handle: Handle(handle), group: HubGroup(group), flags, position, rwf: rwf.into() };
        let Some(source) = self.sources.up_mut(number) else {
            hub_items::fault!("an image of {number:?}, which is not there");
            return;
        };
        if position <= source.read_to && source.early_images.parts.is_empty() {
            return self.add_part(number, part);
        }
        source.early_images.bytes += part.rwf.len();
        source.early_images.parts.push_back(part);
        if source.early_images.bytes > limit {
            self.part_from(number, StateCode::GAP_DETECTED, "sends images too far ahead of its stream");
        }
    }

    /// The stream was read on: images that were ahead of it may have their place now.
    pub(super) fn take_early_images(&mut self, number: SourceId) {
        while let Some(source) = self.sources.up_mut(number)
            && let Some(part) = source.early_images.parts.pop_front_if(|part| part.position <= source.read_to)
        {
            source.early_images.bytes -= part.rwf.len();
            self.add_part(number, part);
        }
    }

    fn add_part(&mut self, number: SourceId, part: Part) {
        if let Some(id) = self.sources.mirror_of(number, part.handle) {
            let Part { group, flags, position, rwf, .. } = &part;
            return self.mirror_image(number, id, *group, *flags, (*position, true), rwf);
        }
        let Some(id) = self.sources.item_of(number, part.handle) else {
            self.counters.images_unwanted += 1;
            return;
        };
        let is_last = part.is_last();
        match self.items.pending_mut().add(id, part, self.config.hold_bytes) {
            Added::Kept => {}
            Added::Whole => self.give_set(number, id),
            Added::Stray => {
                self.counters.images_unwanted += 1;
                if is_last {
                    // The set's beginning was let go when updates found no room.
                    self.image_late(id);
                }
            }
            Added::NoRoom => {
                self.counters.images_unwanted += 1;
                self.counters.holds_dropped += 1;
                self.items.pending_mut().forget(id);
                let read_to = self.sources.up(number).map_or(0, |source| source.read_to);
                self.items.bar_images(id, read_to);
                // Too much to wait for here: the next one is to come by the stream.
                self.items.get_mut(id).image_unusable();
                self.items.watchers_mut(id).mark_asked(true);
                self.ask_image(id);
            }
        }
    }

    /// A whole set is here: it goes out with the updates that belong between its parts and behind it.
    fn give_set(&mut self, number: SourceId, id: ItemId) {
        let PendingImage { mut updates, parts } = self.items.pending_mut().take(id);
        self.counters.point_to_point_images += parts.len() as u64;
        let start = parts.first().map_or(0, |part| part.position);
        updates.retain(|update| update.position >= start);
        if self.items.is_barred(id, start) {
            self.image_late(id);
        } else {
            self.output.note_reached();
            let asked_by_open = self.items.is_asked_by_open(id);
            let mut next = 0;
            for part in &parts {
                next = self.replay(id, &updates, next, part.position);
                self.image(number, id, part.group, part.flags, part.position, &part.rwf);
            }
            self.replay(id, &updates, next, u64::MAX);
            self.output.forget_reached();
            if !asked_by_open {
                // All of its parts were here, so it leaves nobody behind who is owed the rest of it.
                self.items.nobody_open_has_asked(id);
            }
        }
        if self.must_come_in_stream(id) {
            self.ask_image(id);
        }
        // A watcher that could not use this set gets another, which may lie before some of these updates as well.
        if self.items.get(id).is_open() && !updates.is_empty() && self.is_waited_for(id) {
            self.items.pending_mut().put_back(id, updates);
        }
    }

    /// Delivers held updates before a position to those that the set went to; tells the number of the next one.
    fn replay(&mut self, root: ItemId, updates: &VecDeque<HeldUpdate>, mut next: usize, before: u64) -> usize {
        let reached = self.output.take_reached();
        while let Some(update) = updates.get(next).filter(|update| update.position < before) {
            next += 1;
            let message = Message {
                kind: Kind::Update,
                flags: update.flags,
                target: crate::stream::ALL,
                handle: NO_HANDLE,
                arg: NO_GROUP,
                position: update.position,
                body: &update.rwf,
            };
            self.counters.updates_replayed += 1;
            self.update_replayed(root, &update.rwf);
            self.cache_update(root, &message);
            if message.has(flags::HAS_LOCK) && self.looks_at_locks() {
                let open: Vec<_> = reached
                    .iter()
                    .copied()
                    .filter(|(item, watcher)| self.clients.watches_openly(&self.items, *item, *watcher))
                    .collect();
                self.counters.updates_out += self.deliver_guarded(root, &message, &open, true);
                continue;
            }
            self.note_named_to(&reached, &message);
            let mut bodies: Vec<(ItemId, Option<BodyId>)> = Vec::new();
            let mut whole = None;
            for &(item, watcher) in &reached {
                if !self.clients.watches_openly(&self.items, item, watcher) {
                    continue;
                }
                let known = bodies.iter().find(|(of, _)| *of == item).map(|(_, body)| *body);
                let body = known.unwrap_or_else(|| {
                    let body = if item == root {
                        self.copied(item, &message)
                    } else {
                        self.view_body(item, &message, &mut whole)
                    };
                    bodies.push((item, body));
                    body
                });
                if let Some(body) = body {
                    self.output.deliver(body, watcher.client, watcher.stream);
                    self.counters.updates_out += 1;
                }
            }
        }
        self.output.put_back_reached(reached);
        next
    }

    pub(crate) fn copied(&mut self, item: ItemId, message: &Message<'_>) -> Option<BodyId> {
        let service = self.items.get(item).service();
        let body = self.output.message_body(message.body, message.has(flags::HAS_KEY).then_some(service));
        self.counters.hub_messages_bad += u64::from(body.is_none());
        body
    }

    /// An update is kept from those that wait: for the image that is to come, if there is room.
    pub(crate) fn hold_update(&mut self, id: ItemId, message: &Message<'_>) {
        if self.sources.comes_over_network(&self.items, id) {
            let limit = self.config.hold_bytes;
            if self.items.pending_mut().hold(id, message, limit) {
                return;
            }
            self.items.pending_mut().forget(id);
            self.counters.holds_dropped += 1;
            // So it might be again: the next image is to come by the stream.
            self.items.watchers_mut(id).mark_asked(true);
        }
        self.items.bar_images(id, message.position);
    }

    /// Nobody waits for an image, so an update is not held for it. One that is under way all the same (whoever asked has paused) would take a
    /// cached image back in time if it lies before this update.
    pub(crate) fn pass_update(&mut self, id: ItemId, message: &Message<'_>) {
        if self.items.is_cached(id)
            && self.items.get(id).is_image_asked()
            && self.sources.comes_over_network(&self.items, id)
        {
            self.items.bar_images(id, message.position);
        }
    }

    /// A watcher waits from now on. If nobody did before, no update was held: an image, or a set of which parts are here, that
    /// belongs before what was read already is not for this watcher.
    pub(super) fn bar_images_without_updates(&mut self, root: ItemId) {
        // Images that come in the stream, among the updates, are late for nobody.
        let Some((source, _)) = self.items.open_at(root).filter(|_| self.sources.comes_over_network(&self.items, root))
        else {
            return;
        };
        let all = [root].into_iter().chain(self.items.views_of(root).iter().copied());
        let held = all.flat_map(|id| self.items.watchers(id).waiting());
        if held.filter(|&&held| self.clients.waits(held)).nth(1).is_some() {
            return;
        }
        if let Some(last_read) = self.sources.up(source).and_then(|source| source.read_to.checked_sub(1)) {
            self.items.bar_images(root, last_read);
        }
    }

    /// True if a watcher that gets updates may have asked for an image of an item, or of a view of it. An image that comes
    /// by another way than the updates is not for it: it would go back in time.
    pub(super) fn must_come_in_stream(&self, root: ItemId) -> bool {
        self.sources.comes_over_network(&self.items, root) && self.items.is_asked_by_open(root)
    }

    fn awaits_image(&self, id: ItemId) -> bool {
        self.items.get(id).is_image_asked() || self.is_waited_for(id)
    }

    /// Something else than an update has come by the stream. An image by the other way that lies before it would undo it.
    pub(crate) fn bar_earlier_images(&mut self, number: SourceId, message: &Message<'_>) {
        self.bar_earlier_mirror_images(number, message);
        match message.kind {
            Kind::Image | Kind::ItemStatus | Kind::ItemOpened => {
                if let Some(id) = self.sources.item_of(number, Handle(message.handle))
                    && (message.kind == Kind::Image || self.awaits_image(id))
                {
                    self.items.bar_images(id, message.position);
                }
            }
            Kind::ServiceStatus | Kind::GroupStatus => {
                let open = |&id: &ItemId| self.items.open_at(id).is_some_and(|(source, _)| source == number);
                for id in self.items.ids().filter(open).collect::<Vec<_>>() {
                    if self.awaits_image(id) {
                        self.items.bar_images(id, message.position);
                    }
                }
            }
            _ => {}
        }
    }
}
