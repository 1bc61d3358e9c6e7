//! What Source Distributors publish. Updates are the hot path: handle to item, item to watchers, one entry each.

use super::P2ps;
use super::items::{ItemId, Phase};
use super::source::NO_ITEM;
use super::turn::BodyId;
use super::views::{Filtered, append_filtered};
use super::watchers::Watcher;
use crate::stream::{ALL, Block, Event, HubError, Message, Messages, Seen, flags};
use rwf::StateCode;
use rwf::peek;
use rwf::rdm::directory::{self, Action};

impl P2ps {
    pub(super) fn read_block(&mut self, number: u16, bytes: &[u8]) -> Result<(), HubError> {
        let block = Block::parse(bytes)?;
        let now = self.now;
        let Some(source) = self.source_mut(number).filter(|source| source.up) else { return Ok(()) };
        let joined = source.joined;
        if joined.is_some_and(|incarnation| incarnation != block.heading.incarnation) {
            self.counters.hub_blocks_foreign += 1;
            return Ok(());
        }
        source.heard_at = now;
        let mut messages = block.messages();
        let seen = source.continuity.accept(&block.heading);
        let heard = std::mem::replace(&mut source.heard, true);
        match seen {
            Seen::Next => {}
            Seen::Old => return Ok(()),
            Seen::Partly(read) => messages.by_ref().take(usize::try_from(read).unwrap_or(usize::MAX)).for_each(drop),
            Seen::Gap(missing) if joined.is_some() => {
                let to = block.heading.first_seq;
                self.tell_gap(number, to.wrapping_sub(missing), to);
            }
            Seen::NewIncarnation if !heard => {}
            Seen::NewIncarnation => {
                self.begin_again(number, StateCode::NONE, "has started again");
                if let Some(source) = self.source_mut(number) {
                    source.continuity.accept(&block.heading);
                    source.heard = true;
                }
            }
            Seen::Gap(_) => {
                // Which items are hit is not known: all are, and everything is asked for anew.
                let continuity = source.continuity;
                self.counters.hub_gaps += 1;
                self.begin_again(number, StateCode::GAP_DETECTED, "has lost messages");
                if let Some(source) = self.source_mut(number) {
                    // It is the same life: a loss of the first answers is to be noticed as well.
                    source.continuity = continuity;
                    source.heard = true;
                }
                return Ok(());
            }
        }
        if joined.is_some() {
            return self.read_in_turn(number, bytes, messages);
        }
        self.read_messages::<false>(number, bytes, messages)
    }

    fn begin_again(&mut self, number: u16, code: StateCode, why: &'static str) {
        self.lose_source(number, code, why);
        self.connect_source(number, None);
    }

    /// Acts on messages. With `COPY` deliveries do not point into the block, which need not live until the flush.
    pub(super) fn read_messages<const COPY: bool>(
        &mut self,
        number: u16,
        block: &[u8],
        mut messages: Messages<'_>,
    ) -> Result<(), HubError> {
        while let Some(other) = self.read_updates::<COPY>(number, block, &mut messages) {
            match other? {
                (NO_ITEM, message) if message.target == ALL || self.is_target(number, message.target) => {
                    self.event(number, &Event::decode(&message)?);
                    if self.is_over_network(number) {
                        self.bar_earlier_images(number, &message);
                    }
                    if self.source_mut(number).is_none_or(|source| !source.up) {
                        // It has ended, or this P2PS is not joined to it any more.
                        return Ok(());
                    }
                }
                (NO_ITEM, _) => {}
                (item, message) => self.careful_update(item, &message),
            }
        }
        Ok(())
    }

    /// True if what is targeted so is for this P2PS.
    fn is_target(&self, number: u16, target: u16) -> bool {
        self.sources.get(usize::from(number)).and_then(Option::as_deref).is_some_and(|source| source.number == target)
    }

    /// Fans out updates until something else comes: another message (given back with [`NO_ITEM`]), or an update that
    /// concerns more than open watchers (given back with its item, open watchers served).
    #[inline]
    fn read_updates<'m, const COPY: bool>(
        &mut self,
        number: u16,
        block: &[u8],
        messages: &mut Messages<'m>,
    ) -> Option<Result<(ItemId, Message<'m>), HubError>> {
        let Self { sources, items, turn, counters, .. } = self;
        let source = sources.get(usize::from(number))?.as_deref()?;
        let (mut read, mut unwatched, mut delivered) = (0, 0, 0);
        let mut careful = None;
        while let Some(message) = messages.next_update() {
            read += 1;
            let id = source.item(message.handle);
            if id == NO_ITEM {
                unwatched += 1;
                continue;
            }
            let watchers = &items.watchers[id as usize];
            let open = watchers.open();
            if !open.is_empty() {
                let body = if COPY && message.flags & flags::HAS_KEY == 0 {
                    turn.arena_body(|arena| {
                        arena.extend_from_slice(message.body);
                        Ok::<(), rwf::DecodeError>(())
                    })
                    .ok()
                } else if message.flags & flags::HAS_KEY == 0 {
                    let start = message.body.as_ptr().addr() - block.as_ptr().addr();
                    Some(turn.block_body(start, message.body.len()))
                } else {
                    let service = items.get(id).service;
                    turn.arena_body(|arena| rewrite_key(message.body, service, arena)).ok()
                };
                if let Some(body) = body {
                    turn.fan_out(body, open);
                    delivered += open.len() as u64;
                } else {
                    counters.hub_messages_bad += 1;
                }
            }
            if watchers.needs_care() {
                careful = Some((id, message));
                break;
            }
        }
        counters.updates_in += read;
        counters.updates_unwatched += unwatched;
        counters.updates_out += delivered;
        match careful {
            Some(careful) => Some(Ok(careful)),
            None => Some(messages.next()?.map(|message| (NO_ITEM, message))),
        }
    }

    /// An update of an item that has views, or watchers that wait.
    fn careful_update(&mut self, id: ItemId, message: &Message<'_>) {
        let mut waits = self.someone_waits(id);
        let mut view_body = None;
        for at in 0..self.items.get(id).views().len() {
            let view = self.items.get(id).views()[at];
            waits |= self.someone_waits(view);
            if self.items.watchers[view as usize].open_count() > 0 {
                self.view_update(view, message, &mut view_body);
            }
        }
        if waits {
            self.hold_update(id, message);
        }
    }

    /// True if a watcher of the item, not counting its views, waits for an image. Those that rest do not.
    pub(super) fn someone_waits(&self, id: ItemId) -> bool {
        self.items.watchers[id as usize].held().iter().any(|&watcher| self.waits(watcher))
    }

    /// True if a watcher is not one that rests.
    pub(super) fn waits(&self, watcher: Watcher) -> bool {
        let watch = self.client(watcher.client).and_then(|client| client.streams.watch(watcher.stream));
        watch.is_some_and(|(_, watch)| watch.waits())
    }

    /// Delivers an update as a view shows it.
    fn view_update(&mut self, view: ItemId, message: &Message<'_>, whole: &mut Option<BodyId>) {
        let Some(body) = self.view_body(view, message, whole) else { return };
        let Self { turn, items, counters, .. } = self;
        let open = items.watchers[view as usize].open();
        turn.fan_out(body, open);
        counters.updates_out += open.len() as u64;
    }

    /// An update as a view shows it, if it shows any of it. `whole` is the unfiltered body, made when the first view needs it.
    pub(super) fn view_body(
        &mut self,
        view: ItemId,
        message: &Message<'_>,
        whole: &mut Option<BodyId>,
    ) -> Option<BodyId> {
        let id = self.view_of(view)?;
        let Self { turn, items, views, counters, scratch, .. } = self;
        let service = items.get(view).service;
        scratch.update.clear();
        let has_key = message.flags & flags::HAS_KEY != 0;
        if has_key && rewrite_key(message.body, service, &mut scratch.update).is_err() {
            counters.hub_messages_bad += 1;
            return None;
        }
        let update = if has_key { &scratch.update[..] } else { message.body };
        let Ok(header) = peek::header(update) else {
            counters.hub_messages_bad += 1;
            return None;
        };
        let (head, data) = update.split_at(header.body_offset);
        let mut outcome = Filtered::Nothing;
        let body = turn.arena_body(|arena| {
            arena.extend_from_slice(head);
            outcome = append_filtered(views.spec(id), header.container, data, arena);
            if matches!(outcome, Filtered::Written) { Ok(()) } else { Err(()) }
        });
        counters.views_filtered += 1;
        match (outcome, body) {
            (Filtered::Written, Ok(body)) => Some(body),
            (Filtered::Nothing, _) => None,
            _ => {
                counters.views_unfiltered += 1;
                let all = || {
                    turn.arena_body(|arena| {
                        arena.extend_from_slice(update);
                        Ok::<(), ()>(())
                    })
                };
                whole.map_or_else(all, Ok).ok().map(|body| *whole.insert(body))
            }
        }
    }

    /// Anything but an update.
    pub(super) fn event(&mut self, number: u16, event: &Event<'_>) {
        match *event {
            Event::Service { service, name, filters, .. } => {
                match directory::Service::decode_filters(service, Action::Add, filters) {
                    Ok(entry) => self.offer_service(number, service, name, &entry),
                    Err(_) => self.counters.hub_messages_bad += 1,
                }
            }
            Event::ServiceGone { service } => {
                let id = self.source_mut(number).and_then(|source| source.services.remove(&service));
                if let Some(id) = id {
                    self.withdraw_service(id, number);
                }
            }
            Event::ServiceStatus { service, state } => {
                if let Some(id) = self.public_service(number, service) {
                    self.service_status(number, id, state);
                }
            }
            Event::GroupStatus { service, group, state, merged_to } => {
                if let Some(id) = self.public_service(number, service) {
                    self.group_status(number, id, group, state, merged_to);
                }
            }
            Event::ItemOpened { handle, token, .. } => self.item_opened(number, handle, token),
            Event::Refused { token, state, .. } => {
                let item = self.source_mut(number).and_then(|source| source.take_token(token));
                if let Some(id) = item {
                    self.refused(id, state);
                }
            }
            Event::Image { handle, group, flags, position, rwf, .. } => {
                if let Some(id) = self.item_of(number, handle) {
                    self.image(number, id, group, flags, position, rwf);
                }
            }
            Event::Answered { handle, serial, position, .. } => {
                if let Some(id) = self.item_of(number, handle) {
                    self.answered(id, serial, position);
                }
            }
            Event::ItemStatus { handle, group, flags, rwf, .. } => {
                if let Some(id) = self.item_of(number, handle) {
                    self.item_status(number, id, group, flags, rwf);
                }
            }
            Event::Ack { token, rwf, .. } => self.ack(token, rwf),
            Event::Generic { handle, has_key, rwf, .. } => {
                if let Some(id) = self.item_of(number, handle) {
                    self.generic_from_source(id, has_key, rwf);
                }
            }
            Event::Dictionary { service, rwf, .. } => self.dictionary_part(number, service, rwf),
            Event::Resync { .. } => self.part_from(number, StateCode::GAP_DETECTED, "could not be followed"),
            Event::Leaving { .. } => self.part_from(number, StateCode::NONE, "has ended"),
            // What answers a gap comes to one P2PS alone.
            Event::Update { .. } | Event::Heartbeat { .. } | Event::Missed { .. } | Event::CaughtUp { .. } => {}
        }
    }

    pub(super) fn item_of(&self, number: u16, handle: u32) -> Option<ItemId> {
        let id = self.sources.get(usize::from(number))?.as_deref()?.item(handle);
        (id != NO_ITEM).then_some(id)
    }

    fn public_service(&self, number: u16, service: u16) -> Option<u16> {
        self.sources.get(usize::from(number))?.as_deref()?.services.get(&service).copied()
    }

    fn item_opened(&mut self, number: u16, handle: u32, token: u32) {
        let Some(source) = self.source_mut(number) else { return };
        let Some(id) = source.take_token(token) else {
            // An answer to an open of an earlier life, with which its handle has ended: it may be another's, or ours, by now.
            return;
        };
        if !source.bind(handle, id) {
            self.counters.hub_messages_bad += 1;
            self.detach(id);
            return self.queue_open(id);
        }
        let item = self.items.get_mut(id);
        item.phase = Phase::Open;
        item.handle = handle;
        let service = self.services.get(item.service);
        if service.is_none_or(|service| service.providers.iter().all(|provider| provider.source != number)) {
            // The word on a gap that the service is gone has come before it, and the one in the stream will find nothing to end.
            self.give_back(id);
            return self.recover(id);
        }
        if !self.is_watched(id) {
            self.release(id);
        }
    }
}

/// Appends a message with the public service id in its key.
pub(super) fn rewrite_key(msg: &[u8], service: u16, out: &mut Vec<u8>) -> Result<(), rwf::DecodeError> {
    if !peek::rewrite_service_id(msg, service, out)? {
        out.extend_from_slice(msg);
    }
    Ok(())
}
