//! Images that come to this P2PS alone (`usePointToPointData`), by another way than the updates of their items.
//!
//! Each carries its position in the stream. One that is ahead of the stream waits until the stream has been read up to there.
//! For one that is behind, the updates of the item were held since it was asked for: those before its position are in it,
//! those from there on follow it. Where something else than an update has come for the item in between, or the updates have
//! found no room, the image is of no use, and another one is asked for.

use super::P2ps;
use super::events::rewrite_key;
use super::items::{ItemId, Phase, bits};
use super::turn::BodyId;
use super::watchers::Watcher;
use crate::stream::{Event, Kind, Message, NO_GROUP, NO_HANDLE, flags};
use rustc_hash::FxHashMap;
use rwf::StateCode;
use std::collections::VecDeque;

/// An image, or a part of one, that waits.
#[derive(Debug)]
pub(crate) struct Part {
    handle: u32,
    group: u32,
    flags: u8,
    position: u64,
    rwf: Box<[u8]>,
}

/// An update that waits for an image to go before it.
#[derive(Debug)]
struct Update {
    position: u64,
    has_key: bool,
    rwf: Box<[u8]>,
}

/// What is held for the image of an item.
#[derive(Debug, Default)]
struct Hold {
    updates: VecDeque<Update>,
    parts: Vec<Part>,
}

impl Hold {
    fn bytes(&self) -> usize {
        let updates: usize = self.updates.iter().map(|update| update.rwf.len()).sum();
        updates + self.parts.iter().map(|part| part.rwf.len()).sum::<usize>()
    }
}

/// What is held, by item.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    items: FxHashMap<ItemId, Hold>,
    bytes: usize,
}

impl Holds {
    /// The item is another one, or its stream is: nothing held for it is of use.
    pub(crate) fn forget(&mut self, id: ItemId) {
        if !self.items.is_empty()
            && let Some(hold) = self.items.remove(&id)
        {
            self.bytes -= hold.bytes();
        }
    }

    fn take(&mut self, id: ItemId) -> Hold {
        let hold = self.items.remove(&id).unwrap_or_default();
        self.bytes -= hold.bytes();
        hold
    }

    fn put_back(&mut self, id: ItemId, hold: Hold) {
        self.bytes += hold.bytes();
        self.items.insert(id, hold);
    }

    /// Holds an update; false if there is no room for it.
    fn hold(&mut self, id: ItemId, message: &Message<'_>, limit: usize) -> bool {
        if self.bytes + message.body.len() > limit {
            return false;
        }
        self.bytes += message.body.len();
        let has_key = message.has(flags::HAS_KEY);
        let update = Update { position: message.position, has_key, rwf: message.body.into() };
        self.items.entry(id).or_default().updates.push_back(update);
        true
    }

    /// Adds a part to the set under way; false if it is of none, or there is no room for it.
    fn add(&mut self, id: ItemId, part: Part, limit: usize) -> bool {
        let hold = self.items.entry(id).or_default();
        if part.flags & flags::FIRST != 0 {
            self.bytes -= hold.parts.drain(..).map(|part| part.rwf.len()).sum::<usize>();
        } else if hold.parts.is_empty() {
            return false;
        }
        self.bytes += part.rwf.len();
        let complete = part.flags & flags::COMPLETE != 0;
        hold.parts.push(part);
        complete || self.bytes <= limit
    }
}

/// Images that are ahead of their source's stream.
#[derive(Debug, Default)]
pub(crate) struct Early {
    parts: VecDeque<Part>,
    bytes: usize,
}

impl P2ps {
    /// Takes in an image that came to this P2PS alone.
    pub(super) fn direct_image(&mut self, number: u16, event: &Event<'_>) {
        let &Event::Image { handle, group, flags, position, rwf, .. } = event else { return };
        let limit = self.config.hold_bytes;
        let part = Part { handle, group, flags, position, rwf: rwf.into() };
        let Some(source) = self.source_mut(number) else { return };
        if position <= source.read_to && source.early.parts.is_empty() {
            return self.add_part(number, part);
        }
        source.early.bytes += part.rwf.len();
        source.early.parts.push_back(part);
        if source.early.bytes > limit {
            self.part_from(number, StateCode::GAP_DETECTED, "sends images too far ahead of its stream");
        }
    }

    /// The stream was read on: images that were ahead of it may have their place now.
    pub(super) fn take_early(&mut self, number: u16) {
        while let Some(source) = self.source_mut(number)
            && source.early.parts.front().is_some_and(|part| part.position <= source.read_to)
            && let Some(part) = source.early.parts.pop_front()
        {
            source.early.bytes -= part.rwf.len();
            self.add_part(number, part);
        }
    }

    fn add_part(&mut self, number: u16, part: Part) {
        let Some(id) = self.item_of(number, part.handle) else {
            self.counters.images_unwanted += 1;
            return;
        };
        let complete = part.flags & flags::COMPLETE != 0;
        if !self.items.holds.add(id, part, self.config.hold_bytes) {
            self.counters.images_unwanted += 1;
            if self.items.holds.bytes > self.config.hold_bytes {
                self.items.holds.forget(id);
                self.counters.holds_dropped += 1;
                let read_to = self.source_mut(number).map_or(0, |source| source.read_to);
                self.withhold(id, read_to);
                // Too much to wait for here: the next one is to come by the stream.
                let item = self.items.get_mut(id);
                item.clear(bits::IMAGE_ASKED);
                item.set(bits::SOME_ASKED);
                self.ask_image(id);
            } else if complete {
                // Its beginning was let go when updates found no room.
                self.image_late(id);
            }
        } else if complete {
            self.give_set(number, id);
        }
    }

    /// A whole set is here: it goes out with the updates that belong between its parts and behind it.
    fn give_set(&mut self, number: u16, id: ItemId) {
        let Hold { mut updates, parts } = self.items.holds.take(id);
        self.counters.direct_images += parts.len() as u64;
        let start = parts.first().map_or(0, |part| part.position);
        updates.retain(|update| update.position >= start);
        if self.is_barred(id, start) {
            self.image_late(id);
        } else {
            self.scratch.reached = Some(Vec::new());
            let mut next = 0;
            for part in &parts {
                next = self.replay(id, &updates, next, part.position);
                self.image(number, id, part.group, part.flags, part.position, &part.rwf);
            }
            self.replay(id, &updates, next, u64::MAX);
            self.scratch.reached = None;
        }
        if self.items.get(id).has(bits::LIVE) && self.is_asked_by_open(id) {
            self.ask_image(id);
        }
        let item = self.items.get(id);
        // Who could not use this set gets another, which may lie before some of these updates as well.
        if item.has(bits::LIVE) && item.phase == Phase::Open && !updates.is_empty() && self.is_waited_for(id) {
            self.items.holds.put_back(id, Hold { updates, parts: Vec::new() });
        }
    }

    /// Delivers held updates before a position to those that the set went to; tells the number of the next one.
    fn replay(&mut self, root: ItemId, updates: &VecDeque<Update>, mut next: usize, before: u64) -> usize {
        let reached = self.scratch.reached.take().unwrap_or_default();
        while let Some(update) = updates.get(next).filter(|update| update.position < before) {
            next += 1;
            let flags = if update.has_key { flags::HAS_KEY } else { 0 };
            let message = Message {
                kind: Kind::Update,
                flags,
                target: crate::stream::ALL,
                handle: NO_HANDLE,
                arg: NO_GROUP,
                position: update.position,
                body: &update.rwf,
            };
            let mut bodies: Vec<(ItemId, Option<BodyId>)> = Vec::new();
            let mut whole = None;
            for &(item, watcher) in &reached {
                if !self.is_open(item, watcher) {
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
                    self.turn.deliver(body, watcher.client, watcher.stream);
                    self.counters.updates_out += 1;
                }
            }
            self.counters.updates_replayed += 1;
        }
        self.scratch.reached = Some(reached);
        next
    }

    fn is_open(&self, item: ItemId, watcher: Watcher) -> bool {
        let Some(client) = self.client(watcher.client) else { return false };
        let watches = client.streams.get(watcher.stream) == Some(super::streams::Open::Item(item));
        let place = client.streams.watch(watcher.stream).map(|(place, _)| place);
        watches && place.is_some_and(|place| self.items.watchers[item as usize].is_open(place))
    }

    fn copied(&mut self, item: ItemId, message: &Message<'_>) -> Option<BodyId> {
        let service = self.items.get(item).service;
        let has_key = message.has(flags::HAS_KEY);
        let body = self.turn.arena_body(|arena| {
            if has_key {
                return rewrite_key(message.body, service, arena);
            }
            arena.extend_from_slice(message.body);
            Ok(())
        });
        body.ok()
    }

    /// An update is kept from those that wait: for the image that is to come, if there is room.
    pub(super) fn hold_update(&mut self, id: ItemId, message: &Message<'_>) {
        if self.is_over_network(self.items.get(id).source) {
            if self.items.holds.hold(id, message, self.config.hold_bytes) {
                return;
            }
            self.items.holds.forget(id);
            self.counters.holds_dropped += 1;
            // So it might be again: the next image is to come by the stream.
            self.items.get_mut(id).set(bits::SOME_ASKED);
        }
        self.withhold(id, message.position);
    }

    /// A watcher waits from now on. If nobody did before, no update was held: an image, or a set of which parts are here, that
    /// belongs before what was read already is not for this watcher.
    pub(super) fn bar_images_without_updates(&mut self, root: ItemId) {
        let item = self.items.get(root);
        if item.phase != Phase::Open || !self.is_over_network(item.source) {
            return;
        }
        let all = || [root].into_iter().chain(self.items.get(root).views().iter().copied());
        let held = all().flat_map(|id| self.items.watchers[id as usize].held());
        if held.filter(|&&held| self.waits(held)).nth(1).is_some() {
            return;
        }
        let source = self.sources.get(usize::from(item.source)).and_then(Option::as_deref);
        if let Some(last_read) = source.and_then(|source| source.read_to.checked_sub(1)) {
            self.withhold(root, last_read);
        }
    }

    /// True if a watcher that gets updates may have asked for an image of an item, or of a view of it. An image that comes
    /// by another way than the updates is not for it: it would go back in time.
    pub(super) fn is_asked_by_open(&self, root: ItemId) -> bool {
        let item = self.items.get(root);
        if !self.is_over_network(item.source) {
            return false;
        }
        item.has(bits::SOME_ASKED) || item.views().iter().any(|&view| self.items.get(view).has(bits::SOME_ASKED))
    }

    /// True if a source's images may come by another way than its updates.
    pub(super) fn is_over_network(&self, number: u16) -> bool {
        self.sources.get(usize::from(number)).and_then(Option::as_deref).is_some_and(|source| source.joined.is_some())
    }

    /// No image that belongs at this position or before it is of use to those that wait.
    pub(super) fn withhold(&mut self, id: ItemId, position: u64) {
        let item = self.items.get_mut(id);
        let earlier = item.has(bits::UPDATE_WITHHELD);
        item.set(bits::UPDATE_WITHHELD);
        let at = &mut item.extra_mut().withheld_at;
        *at = if earlier { position.max(*at) } else { position };
    }

    fn awaits_image(&self, id: ItemId) -> bool {
        self.items.get(id).has(bits::IMAGE_ASKED) || self.is_waited_for(id)
    }

    /// Something else than an update has come by the stream. An image by the other way that lies before it would undo it.
    pub(super) fn bar_earlier_images(&mut self, number: u16, message: &Message<'_>) {
        match message.kind {
            Kind::Image | Kind::ItemStatus | Kind::ItemOpened => {
                if let Some(id) = self.item_of(number, message.handle)
                    && (message.kind == Kind::Image || self.awaits_image(id))
                {
                    self.withhold(id, message.position);
                }
            }
            Kind::ServiceStatus | Kind::GroupStatus => {
                let open = |id: &ItemId| {
                    let item = self.items.get(*id);
                    item.source == number && item.phase == Phase::Open
                };
                let open: Vec<ItemId> = self.items.ids().filter(open).collect();
                for id in open {
                    if self.awaits_image(id) {
                        self.withhold(id, message.position);
                    }
                }
            }
            _ => {}
        }
    }
}
