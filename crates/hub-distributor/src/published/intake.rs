//! Messages of non-interactive providers on item streams.

use crate::ids::{GroupId, Handle, StreamId};
use crate::item::{ItemKey, KeyQos};
use crate::items::{Kind, Part, Place};
use crate::providers::Stream;
use crate::stream::{ALL, Event, flags, update_flags_of};
use crate::{SessionId, SourceDistributor};
use permissions::lock::combine_bytes;
use rwf::image::{Image, Schema};
use rwf::msg::{Domain, Msg, MsgKey, RefreshFlags, RefreshMsg, StatusMsg, UpdateFlags, UpdateMsg};
use rwf::{DataState, Qos, State, StateCode, StreamState};

impl SourceDistributor {
    /// What passes of a message of a non-interactive provider on an item stream.
    pub(crate) fn take_published(&mut self, id: SessionId, decoded: &Msg<'_>, msg: &[u8]) {
        if !matches!(decoded, Msg::Refresh(_)) {
            let place = Place { session: id, stream: StreamId(decoded.stream_id()) };
            if self.published.standby.item_at(place).is_some() {
                return self.standby_message(place, decoded);
            }
        }
        match decoded {
            Msg::Update(update) => self.published_update(id, update, msg),
            Msg::Refresh(refresh) => self.published_refresh(id, refresh, msg),
            Msg::Status(status) => self.published_status(id, status, msg),
            Msg::Close(close) => {
                if let Some(handle) = self.published_item(id, close.stream_id) {
                    let text = "Provider has closed the item";
                    let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NONE, text);
                    self.publisher_leaves(handle, &state, None);
                }
            }
            Msg::Generic(generic) => {
                if let Some(handle) = self.published_item(id, generic.stream_id) {
                    let has_key = generic.key.is_some();
                    self.hub.event(&Event::Generic { target: ALL, handle: handle.0, has_key, rwf: msg });
                }
            }
            Msg::Ack(_) | Msg::Request(_) | Msg::Post(_) => self.counters.dropped_unexpected += 1,
        }
    }

    /// The item on a stream of the session; a message on another stream is dropped.
    fn published_item(&mut self, id: SessionId, stream: i32) -> Option<Handle> {
        let handle = self.providers[id].streams.get(StreamId(stream)).handle();
        self.counters.dropped_unknown_stream += u64::from(handle.is_none());
        handle
    }

    /// Writes the canonical bytes of a published key to `self.key`; the service, if the session offers it.
    fn published_key(&mut self, id: SessionId, domain: Domain, key: &MsgKey<'_>, qos: Option<Qos>) -> Option<u16> {
        let session = &self.providers[id];
        let offer = match key.service_id {
            Some(service) => session.offer_by_id(service),
            None => session.offers.only(),
        };
        let Some(offer) = offer else {
            self.counters.dropped_unknown_service += 1;
            return None;
        };
        let service = offer.service;
        let qos = qos.or(offer.qos.first().copied()).unwrap_or(Qos::REALTIME_TICK);
        self.key.clear();
        ItemKey::new(domain, key, Some(qos)).write(&mut self.key);
        Some(service)
    }

    fn published_refresh(&mut self, id: SessionId, refresh: &RefreshMsg<'_>, rwf: &[u8]) {
        // An image that finds no place is counted by what it lacks.
        let Some(handle) = self.place_published(id, refresh) else { return };
        if refresh.state.stream.is_final() {
            self.publisher_leaves(handle, &refresh.state, None);
            return;
        }
        if !self.items[handle].in_set() && refresh.part_num.is_some_and(|part| part > 0) {
            // The rest of a set whose head was for another place, or is lost.
            self.counters.dropped_not_live += 1;
            return;
        }
        let group = self.providers.group(id, self.items[handle].service(), refresh.group_id);
        self.items.set_group(handle, group);
        self.take_refresh(handle, refresh, rwf);
    }

    /// The item that a refresh is for, on its stream from now on; made if it is new.
    fn place_published(&mut self, id: SessionId, refresh: &RefreshMsg<'_>) -> Option<Handle> {
        let place = Place { session: id, stream: StreamId(refresh.stream_id) };
        let handle = match (&refresh.key, self.published.standby.item_at(place)) {
            (Some(key), _) => {
                let service = self.published_key(id, refresh.domain, key, refresh.qos)?;
                self.offer_quality(service, refresh.qos);
                self.find_or_publish(service)?
            }
            (None, Some(handle)) => handle,
            (None, None) => return self.published_item(id, refresh.stream_id),
        };
        self.settle_published(handle);
        let is_elsewhere = self.items[handle].place().is_some_and(|at| at.session != id);
        let continues = refresh.part_num.is_some_and(|part| part > 0);
        if is_elsewhere && (continues || refresh.state.stream.is_final()) {
            self.standby_refresh(place, refresh);
            return None;
        }
        self.move_to_stream(handle, place);
        Some(handle)
    }

    /// A quality that the provider publishes in without having said so is offered from now on: nobody could ask for it.
    fn offer_quality(&mut self, service: u16, qos: Option<Qos>) {
        let known = &mut self.providers[service];
        if let Some(qos) = qos.filter(|qos| !known.qos.iter().any(|&other| KeyQos::from(other) == KeyQos::from(*qos))) {
            known.qos.push(qos);
            known.stale = true;
            self.advertise(service);
        }
    }

    /// The item of `self.key`, made if there is room for it.
    pub(super) fn find_or_publish(&mut self, service: u16) -> Option<Handle> {
        let hash = self.items.hash(service, &self.key);
        if let Some(handle) = self.items.find_hashed(hash, service, &self.key) {
            return Some(handle);
        }
        if !self.find_room(None) {
            self.counters.refused_no_resources += 1;
            return None;
        }
        let image = self.published.images.add();
        let handle = self.items.insert_hashed(hash, service, &self.key, Kind::Cached { image });
        self.begin_record(handle, 0, false);
        let known = &mut self.providers[service];
        if known.domains.insert(self.items[handle].domain()) {
            known.stale = true;
            self.advertise(service);
        }
        Some(handle)
    }

    /// The session has the item on this stream: it is on no other, and no other item is on it.
    fn move_to_stream(&mut self, handle: Handle, place: Place) {
        if self.items[handle].place() == Some(place) {
            return;
        }
        if self.items[handle].place().is_none() {
            self.providers[self.items[handle].service()].publishing.count();
        }
        self.published.clear_standby(place);
        if !self.displace(handle, place.session) {
            // A set does not go on elsewhere.
            self.abandon_set(handle);
        }
        self.unpublish(handle);
        let evicted = self.providers[place.session].streams.set(place.stream, Stream::new(handle, false)).handle();
        self.items.publish_on(handle, place);
        if let Some(image) = self.items[handle].image() {
            self.published.images.touch(image);
        } else {
            hub_items::fault!("{handle:?} has no image, and is published");
        }
        if let Some(evicted) = evicted {
            assert_ne!(evicted, handle, "an item that is on no stream was found on one");
            let text = "Provider has put another item on the stream";
            let state = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, text);
            // The stream is the other item's already.
            self.items.unpublish(evicted);
            let service = self.items[evicted].service();
            self.published_lost(service, &[evicted], state, false);
        }
    }

    /// Applies a refresh to the held image, and publishes it for those who watch.
    pub(super) fn take_refresh(&mut self, handle: Handle, refresh: &RefreshMsg<'_>, rwf: &[u8]) {
        let item = &mut self.items[handle];
        let complete = refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE);
        let part = item.take_cached_part(item.begins_set(refresh.part_num), complete, refresh.state.data);
        let (group, watched) = (item.group(), item.has_interest());
        let Some(image) = item.image() else { return hub_items::fault!("{handle:?} has no image, and is published") };
        let image = self.published.images.get_mut(image);
        let schema = self.config.page_sizes.schema(&self.providers[item.service()].name);
        if image.refresh(refresh, &schema).is_err() {
            self.counters.cache_failures += 1;
        }
        if part.first {
            let (item, conflation) = (&self.items[handle], self.providers.conflation_of(&self.items[handle]));
            self.hub.note_interval(handle, conflation, item.item_key().name, refresh);
        }
        let answers = self.published.awaited.take_part(handle, complete);
        if watched {
            let flags = published_flags(part, answers, refresh.flags.contains(RefreshFlags::CLEAR_CACHE));
            let (group, position) = (group.0, self.hub.next_position());
            self.hub.event(&Event::Image { target: ALL, handle: handle.0, group, flags, position, rwf });
            self.counters.images += 1;
        }
        if complete {
            self.published_complete(handle);
        }
    }

    /// The last part of a set: those who came in its middle get the image now.
    fn published_complete(&mut self, handle: Handle) {
        let item = &mut self.items[handle];
        let (awaited, was_lost) = item.complete_set();
        if was_lost {
            self.providers[item.service()].item_is_back();
        }
        self.note_published(handle);
        if awaited {
            self.answer_now(handle, ALL);
        }
        self.answer_snapshots(handle);
    }

    fn published_update(&mut self, id: SessionId, update: &UpdateMsg<'_>, rwf: &[u8]) {
        // A message on no stream is counted.
        let Some(handle) = self.item_of(id, update.domain, update.key.as_ref(), update.stream_id) else { return };
        let item = &self.items[handle];
        // After a loss nothing counts before the first part of an image.
        if item.awaits_recovery() {
            self.counters.dropped_not_live += 1;
            return;
        }
        let watched = item.has_interest();
        self.take_update(handle, update);
        if watched {
            self.relay_published(handle, rwf);
        } else {
            self.counters.dropped_not_live += 1;
        }
    }

    /// Relays an update of a published item, unless it is one that its service withholds.
    pub(super) fn relay_published(&mut self, handle: Handle, rwf: &[u8]) {
        let bits = update_flags_of(rwf);
        if self.relays_published(handle, rwf, bits) {
            let conflation = self.providers.conflation_of(&self.items[handle]);
            self.counters.updates += u64::from(self.hub.relay(handle, bits, rwf, conflation));
        }
    }

    /// The item of a message that is no refresh: by its stream, or by its key if the provider goes on with it after it came back.
    fn item_of(&mut self, id: SessionId, domain: Domain, key: Option<&MsgKey<'_>>, stream: i32) -> Option<Handle> {
        let on_stream = self.providers[id].streams.get(StreamId(stream)).handle();
        let handle = match (on_stream, key) {
            (Some(handle), _) => Some(handle),
            (None, Some(key)) => self.adopt(id, domain, key, StreamId(stream)),
            (None, None) => None,
        };
        self.counters.dropped_unknown_stream += u64::from(handle.is_none());
        handle
    }

    /// An item that a provider goes on with after it came back, known by the key in its update.
    fn adopt(&mut self, id: SessionId, domain: Domain, key: &MsgKey<'_>, stream: StreamId) -> Option<Handle> {
        let service = self.published_key(id, domain, key, None)?;
        let handle = self.items.find(service, &self.key)?;
        self.settle_published(handle);
        if self.items[handle].place().is_some_and(|place| place.session != id) {
            self.counters.dropped_not_owner += 1;
            return None;
        }
        self.move_to_stream(handle, Place { session: id, stream });
        Some(handle)
    }

    /// Applies an update to the held image. One that cannot be applied makes it Suspect.
    pub(super) fn take_update(&mut self, handle: Handle, update: &UpdateMsg<'_>) {
        let item = &self.items[handle];
        let Some(image) = item.image() else { return hub_items::fault!("{handle:?} has no image, and is published") };
        let image = self.published.images.get_mut(image);
        if item.is_lost() {
            // The held image is of an earlier life of the provider.
            image.update_next(update, &Schema::NONE);
        } else if image.update(update, &Schema::NONE).is_err() {
            self.counters.cache_failures += 1;
        }
        narrow(image, update);
        self.note_published(handle);
    }

    fn published_status(&mut self, id: SessionId, status: &StatusMsg<'_>, rwf: &[u8]) {
        // A message on no stream is counted.
        let Some(handle) = self.item_of(id, status.domain, status.key.as_ref(), status.stream_id) else { return };
        if let Some(state) = status.state.filter(|state| state.stream.is_final()) {
            self.publisher_leaves(handle, &state, Some(rwf));
            return;
        }
        let item = &mut self.items[handle];
        // After a loss nothing makes the held image good before the first part of the next.
        if item.awaits_recovery() && status.state.is_some_and(|state| state.data == DataState::OK) {
            self.counters.dropped_not_live += 1;
            return;
        }
        let mut group = GroupId::NONE;
        if let Some(name) = status.group_id {
            group = self.providers.group(id, item.service(), name);
            self.items.set_group(handle, group);
        }
        self.publish_open_status(handle, group, status, rwf);
    }

    /// Applies a status that leaves the item open to its held image, and publishes it.
    pub(super) fn publish_open_status(&mut self, handle: Handle, group: GroupId, status: &StatusMsg<'_>, rwf: &[u8]) {
        let item = &mut self.items[handle];
        let Some(image) = item.image() else { return hub_items::fault!("{handle:?} has no image, and is published") };
        let image = self.published.images.get_mut(image);
        if let Some(perm_data) = status.perm_data {
            image.set_perm_data(perm_data);
        }
        if let Some(state) = status.state {
            image.set_state(&state);
            item.tell_state(if image.is_suspect() { DataState::SUSPECT } else { DataState::OK });
        }
        self.note_changed(handle);
        let (target, flags) = (ALL, flags::PENDING_TOO);
        self.hub.event(&Event::ItemStatus { target, handle: handle.0, group: group.0, flags, rwf });
        self.counters.statuses += 1;
    }

    /// The provider that is used has ended an item: another one that has it gets it back, or it is over.
    fn publisher_leaves(&mut self, handle: Handle, state: &State<'_>, rwf: Option<&[u8]>) {
        self.unpublish(handle);
        let service = self.items[handle].service();
        if !self.take_back(service, &[handle]).is_empty() {
            self.published_final(handle, state, rwf);
        }
    }

    /// The item has ended where it comes from. One that can be recovered keeps its image, Suspect, until it is published again.
    pub(super) fn published_final(&mut self, handle: Handle, state: &State<'_>, rwf: Option<&[u8]>) {
        self.unpublish(handle);
        if state.stream == StreamState::CLOSED_RECOVER {
            let service = self.items[handle].service();
            self.published_lost(service, &[handle], State { data: DataState::SUSPECT, ..*state }, false);
        } else {
            self.publish_end(handle, state, rwf);
            self.end_item(handle);
        }
    }
}

/// The flags of a provider's refresh on the hub stream. One that answers opens is as if it had been asked for.
fn published_flags(part: Part, answers: bool, provider_clears: bool) -> u8 {
    let mut bits = match (part.recovery, answers) {
        (true, _) => flags::RECOVERY,
        (false, true) => 0,
        (false, false) => flags::UNSOLICITED,
    };
    for (flag, on) in [
        (flags::FIRST, part.first),
        (flags::COMPLETE, part.complete),
        (flags::CLEAR_CACHE, part.first && (part.recovery || provider_clears)),
    ] {
        if on {
            bits |= flag;
        }
    }
    bits
}

/// An update with a lock of its own is part of the held image: who gets that image has to satisfy both, until the next refresh has
/// replaced it, whatever lock a status gives the item meanwhile. What cannot be combined denies.
pub(super) fn narrow(image: &mut Image, update: &UpdateMsg<'_>) {
    let lock = update.perm_data.filter(|_| !update.flags.contains(UpdateFlags::DO_NOT_CACHE));
    if let Some(lock) = lock {
        image.add_perm_data(lock, both_locks);
    }
}

/// The lock that demands two.
pub(super) fn both_locks(one: &[u8], other: &[u8]) -> Vec<u8> {
    /// No lock of any version: what cannot be read denies.
    const NOBODY: [u8; 1] = [0];
    match (one, other) {
        (only, []) | ([], only) => only.to_vec(),
        (one, other) if one == other => one.to_vec(),
        both => combine_bytes(<[&[u8]; 2]>::from(both)).unwrap_or_else(|_| NOBODY.to_vec()),
    }
}
