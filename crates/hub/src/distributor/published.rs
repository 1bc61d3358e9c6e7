//! Non-interactive providers: what they publish, the images held for them, and who is answered from those.

use super::cache;
use super::items::{Bits, NO_IMAGE, NO_SESSION};
use super::sessions::Session;
use super::streams::Stream;
use super::{Fault, SourceDistributor};
use crate::item::{ItemKey, KeyQos};
use crate::stream::{ALL, Event, NO_GROUP, flags};
use rwf::image::Schema;
use rwf::msg::{Domain, Msg, MsgKey, NakCode, PostMsg, RefreshFlags, RefreshMsg, StatusMsg, UpdateMsg};
use rwf::{DataState, DataType, Qos, State, StateCode, StreamState};

/// A refused post: code and text.
type Nak = (NakCode, &'static str);

impl SourceDistributor {
    /// A message of a non-interactive provider on an item stream.
    pub(super) fn published_message(&mut self, id: u32, msg: &[u8]) -> Result<(), Fault> {
        match Msg::decode(msg)? {
            Msg::Update(update) => self.published_update(id, &update, msg),
            Msg::Refresh(refresh) => self.published_refresh(id, &refresh, msg),
            Msg::Status(status) => self.published_status(id, &status, msg),
            Msg::Close(close) => {
                if let Some(handle) = self.published_item(id, close.stream_id) {
                    let text = "Provider has closed the item";
                    let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NONE, text);
                    self.publish_status(handle, ALL, flags::CLOSED, state);
                    self.unpublish(handle);
                    self.end_item(handle);
                }
            }
            Msg::Generic(generic) => {
                if let Some(handle) = self.published_item(id, generic.stream_id) {
                    let has_key = generic.key.is_some();
                    self.hub.event(&Event::Generic { target: ALL, handle, has_key, rwf: msg });
                }
            }
            Msg::Ack(_) | Msg::Request(_) | Msg::Post(_) => self.counters.dropped_unexpected += 1,
        }
        Ok(())
    }

    /// The item on a stream of the session.
    fn published_item(&mut self, id: u32, stream: i32) -> Option<u32> {
        let handle = self.session(id)?.streams.get(stream).handle();
        if handle.is_none() {
            self.counters.dropped_unknown_stream += 1;
        }
        handle
    }

    /// Writes the canonical bytes of a published key to `self.key`; the service, if the session offers it.
    fn published_key(&mut self, id: u32, domain: Domain, key: &MsgKey<'_>, qos: Option<Qos>) -> Option<u16> {
        let session = self.session(id)?;
        let offer = match key.service_id {
            Some(service) => session.offer_by_id(service),
            None if session.offers.len() == 1 => session.offers.first(),
            None => None,
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

    fn published_refresh(&mut self, id: u32, refresh: &RefreshMsg<'_>, rwf: &[u8]) {
        let Some(handle) = self.place_published(id, refresh) else { return };
        if refresh.state.stream.is_final() {
            self.published_final(handle, &refresh.state, None);
            return;
        }
        let Some(session) = self.sessions.get_mut(id as usize).and_then(Option::as_mut) else { return };
        let Some(item) = self.items.get_mut(handle) else { return };
        item.group = session.group(item.service, refresh.group_id, &mut self.next_group);
        self.take_refresh(handle, refresh, rwf);
    }

    /// The item that a refresh is for, on its stream from now on; made if it is new.
    fn place_published(&mut self, id: u32, refresh: &RefreshMsg<'_>) -> Option<u32> {
        let handle = match &refresh.key {
            None => return self.published_item(id, refresh.stream_id),
            Some(key) => {
                let service = self.published_key(id, refresh.domain, key, refresh.qos)?;
                self.offer_quality(service, refresh.qos);
                self.find_or_publish(service)?
            }
        };
        self.move_to_stream(handle, id, refresh.stream_id);
        Some(handle)
    }

    /// A quality that the provider publishes in without having said so is offered from now on: nobody could ask for it.
    fn offer_quality(&mut self, service: u16, qos: Option<Qos>) {
        let Some(known) = self.services.get_mut(service) else { return };
        if let Some(qos) = qos.filter(|qos| !known.qos.iter().any(|&other| KeyQos::from(other) == KeyQos::from(*qos))) {
            known.qos.push(qos);
            known.stale = true;
            self.advertise(service);
        }
    }

    /// The item of `self.key`.
    fn find_or_publish(&mut self, service: u16) -> Option<u32> {
        if let Some(handle) = self.items.find(service, &self.key) {
            return Some(handle);
        }
        if self.items.len() >= self.config.max_items.min(super::streams::MAX_HANDLE) as usize {
            self.counters.refused_no_resources += 1;
            return None;
        }
        let domain = self.key.get(1).copied().unwrap_or_default();
        let handle = self.items.insert(service, &self.key, Bits::PUBLISHED);
        if let Some(item) = self.items.get_mut(handle) {
            item.image = self.cache.add();
        }
        if let Some(known) = self.services.get_mut(service)
            && known.domains.insert(domain)
        {
            known.stale = true;
            self.advertise(service);
        }
        Some(handle)
    }

    /// The session has the item on this stream: it is on no other, and no other item is on it.
    fn move_to_stream(&mut self, handle: u32, id: u32, stream: i32) {
        let Some(item) = self.items.get(handle) else { return };
        if (item.session, item.stream) == (id, stream) {
            return;
        }
        // A set does not go on elsewhere.
        self.abandon_set(handle);
        let Some(item) = self.items.get(handle) else { return };
        if item.session != NO_SESSION {
            let (old, old_stream) = (item.session, item.stream);
            if let Some(session) = self.session_mut(old) {
                session.streams.set(old_stream, Stream::NONE);
            }
        }
        let Some(session) = self.session_mut(id) else { return };
        let evicted = session.streams.set(stream, Stream::new(handle, false)).handle();
        if let Some(item) = self.items.get_mut(handle) {
            item.session = id;
            item.stream = stream;
        }
        if let Some(evicted) = evicted.filter(|&evicted| evicted != handle) {
            let text = "Provider has put another item on the stream";
            let state = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, text);
            if let Some(item) = self.items.get_mut(evicted) {
                item.session = NO_SESSION;
                let service = item.service;
                self.published_lost(service, &[evicted], state);
            }
        }
    }

    /// Applies a refresh to the held image, and publishes it for those who watch.
    fn take_refresh(&mut self, handle: u32, refresh: &RefreshMsg<'_>, rwf: &[u8]) {
        let Some(item) = self.items.get_mut(handle) else { return };
        let first = !item.has(Bits::IN_SET) || refresh.part_num == Some(0);
        let complete = refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE);
        let lost = item.has(Bits::LOST);
        item.bits.set(Bits::IN_SET, !complete);
        item.bits.set(Bits::ANSWERED, true);
        item.bits.set(Bits::SUSPECT, refresh.state.data == DataState::SUSPECT);
        let (group, watched, image) = (item.group, item.interest != 0, item.image);
        let applied = self.cache.get_mut(image).map(|image| image.refresh(refresh, &Schema::NONE));
        if !matches!(applied, Some(Ok(()))) {
            self.counters.cache_failures += 1;
        }
        let mut bits = if lost { flags::RECOVERY } else { flags::UNSOLICITED };
        for (flag, on) in [
            (flags::FIRST, first),
            (flags::COMPLETE, complete),
            (flags::CLEAR_CACHE, first && (lost || refresh.flags.contains(RefreshFlags::CLEAR_CACHE))),
        ] {
            if on {
                bits |= flag;
            }
        }
        if watched {
            let (group, position) = (self.current_group(group), self.hub.next_position());
            self.hub.event(&Event::Image { target: ALL, handle, group, flags: bits, position, rwf });
            self.counters.images += 1;
        }
        if complete {
            self.published_complete(handle);
        }
    }

    /// The last part of a set: those who came in its middle get the image now.
    fn published_complete(&mut self, handle: u32) {
        let Some(item) = self.items.get_mut(handle) else { return };
        let again = item.has(Bits::AGAIN);
        let lost = item.has(Bits::LOST);
        item.bits.set(Bits::AGAIN | Bits::LOST, false);
        if lost && let Some(service) = self.services.get_mut(item.service) {
            service.lost_items -= 1;
        }
        if again {
            self.publish_image(handle, handle, ALL);
        }
        self.answer_snapshots(handle);
    }

    /// The set under way will not be completed: those who wait for it get the image that there was before, if any.
    fn abandon_set(&mut self, handle: u32) {
        let Some(item) = self.items.get_mut(handle).filter(|item| item.has(Bits::IN_SET)) else { return };
        let again = item.has(Bits::AGAIN);
        item.bits.set(Bits::IN_SET | Bits::AGAIN, false);
        let Some(image) = self.cache.get_mut(item.image) else { return };
        image.abandon_refresh();
        if image.is_whole() {
            if again {
                self.publish_image(handle, handle, ALL);
            }
            self.answer_snapshots(handle);
        }
    }

    fn published_update(&mut self, id: u32, update: &UpdateMsg<'_>, rwf: &[u8]) {
        let Some(session) = self.session(id) else { return };
        let handle = match (session.streams.get(update.stream_id).handle(), &update.key) {
            (Some(handle), _) => Some(handle),
            (None, Some(key)) => self.adopt(id, update.domain, key, update.stream_id),
            (None, None) => None,
        };
        let Some(handle) = handle else {
            self.counters.dropped_unknown_stream += 1;
            return;
        };
        // After a loss nothing counts before the first part of an image.
        let dead = self.items.get(handle).is_some_and(|item| item.has(Bits::LOST) && !item.has(Bits::IN_SET));
        if dead {
            self.counters.dropped_not_live += 1;
            return;
        }
        self.take_update(handle, update);
        if self.items.get(handle).is_some_and(|item| item.interest != 0) {
            self.hub.update(handle, update.key.is_some(), rwf);
            self.counters.updates += 1;
        } else {
            self.counters.dropped_not_live += 1;
        }
    }

    /// An item that a provider goes on with after it came back, known by the key in its update.
    fn adopt(&mut self, id: u32, domain: Domain, key: &MsgKey<'_>, stream: i32) -> Option<u32> {
        let service = self.published_key(id, domain, key, None)?;
        let handle = self.items.find(service, &self.key)?;
        let owner = self.items.get(handle)?.session;
        if owner != NO_SESSION && owner != id {
            self.counters.dropped_not_owner += 1;
            return None;
        }
        self.move_to_stream(handle, id, stream);
        Some(handle)
    }

    /// Applies an update to the held image. One that cannot be applied makes it Suspect, once.
    fn take_update(&mut self, handle: u32, update: &UpdateMsg<'_>) {
        let Some(item) = self.items.get(handle) else { return };
        let lost = item.has(Bits::LOST);
        let Some(image) = self.cache.get_mut(item.image) else { return };
        if lost {
            // What is held is of an earlier life of the provider.
            image.update_next(update, &Schema::NONE);
        } else if image.update(update, &Schema::NONE).is_err() {
            self.counters.cache_failures += 1;
        }
    }

    fn published_status(&mut self, id: u32, status: &StatusMsg<'_>, rwf: &[u8]) {
        let Some(session) = self.session(id) else { return };
        let handle = match (session.streams.get(status.stream_id).handle(), &status.key) {
            (Some(handle), _) => Some(handle),
            (None, Some(key)) => self.adopt(id, status.domain, key, status.stream_id),
            (None, None) => None,
        };
        let Some(handle) = handle else {
            self.counters.dropped_unknown_stream += 1;
            return;
        };
        if let Some(state) = status.state.filter(|state| state.stream.is_final()) {
            self.published_final(handle, &state, Some(rwf));
            return;
        }
        let Some(session) = self.sessions.get_mut(id as usize).and_then(Option::as_mut) else { return };
        let Some(item) = self.items.get_mut(handle) else { return };
        // After a loss nothing makes the held image good before the first part of the next.
        let lost = item.has(Bits::LOST) && !item.has(Bits::IN_SET);
        if lost && status.state.is_some_and(|state| state.data == DataState::OK) {
            self.counters.dropped_not_live += 1;
            return;
        }
        let group = status.group_id.map(|group| session.group(item.service, group, &mut self.next_group));
        item.group = group.unwrap_or(item.group);
        self.take_status(handle, status);
        let group = group.unwrap_or(NO_GROUP);
        self.hub.event(&Event::ItemStatus { target: ALL, handle, group, flags: flags::PENDING_TOO, rwf });
        self.counters.statuses += 1;
    }

    /// Applies a status that leaves the item open to its held image.
    fn take_status(&mut self, handle: u32, status: &StatusMsg<'_>) {
        let Some(item) = self.items.get_mut(handle) else { return };
        let Some(image) = self.cache.get_mut(item.image) else { return };
        if let Some(perm_data) = status.perm_data {
            image.set_perm_data(perm_data);
        }
        if let Some(state) = status.state {
            image.set_state(&state);
            item.bits.set(Bits::SUSPECT, image.is_suspect());
        }
    }

    /// The provider has ended an item. One that can be recovered keeps its image, Suspect, until it is published again.
    fn published_final(&mut self, handle: u32, state: &State<'_>, rwf: Option<&[u8]>) {
        self.unpublish(handle);
        let Some(item) = self.items.get(handle) else { return };
        if state.stream == StreamState::CLOSED_RECOVER {
            let service = item.service;
            self.published_lost(service, &[handle], State { data: DataState::SUSPECT, ..*state });
            return;
        }
        match rwf {
            Some(rwf) => {
                let (group, flags) = (NO_GROUP, flags::CLOSED);
                self.hub.event(&Event::ItemStatus { target: ALL, handle, group, flags, rwf });
                self.counters.statuses += 1;
            }
            None => self.publish_status(handle, ALL, flags::CLOSED, *state),
        }
        self.end_item(handle);
    }

    /// Takes the item off its provider's stream.
    fn unpublish(&mut self, handle: u32) {
        let Some(item) = self.items.get_mut(handle) else { return };
        let (id, stream) = (std::mem::replace(&mut item.session, NO_SESSION), item.stream);
        if let Some(session) = self.session_mut(id) {
            session.streams.set(stream, Stream::NONE);
        }
    }

    /// The items of a service that a session publishes.
    pub(super) fn published_at(&self, id: u32, service: u16) -> Vec<u32> {
        let streams = self.session(id).into_iter().flat_map(|session: &Session| session.streams.iter());
        let of_service = |handle: &u32| self.items.get(*handle).is_some_and(|item| item.service == service);
        streams.map(|(_, handle)| handle).filter(of_service).collect()
    }

    /// Items whose provider is gone: their images stay, Suspect, and become good one by one as they are published again.
    pub(super) fn published_lost(&mut self, service: u16, handles: &[u32], state: State<'_>) {
        // The images stay: to a consumer the stream is open, only stale.
        let state = State { stream: StreamState::OPEN, ..state };
        let at_once =
            self.services.get(service).is_some_and(|known| known.providers.is_empty() && known.lost_items == 0);
        if at_once && handles.iter().any(|&handle| self.items.get(handle).is_some_and(|item| item.interest != 0)) {
            self.hub.event(&Event::ServiceStatus { service, state });
        }
        for &handle in handles {
            self.unpublish(handle);
            let Some(item) = self.items.get(handle) else { continue };
            let tell = item.interest != 0 && !at_once && !item.has(Bits::SUSPECT);
            if let Some(image) = self.cache.get_mut(item.image) {
                image.set_state(&state);
            }
            self.abandon_set(handle);
            self.mark_lost(handle);
            if tell {
                self.publish_status(handle, ALL, 0, state);
            }
        }
    }

    /// Sends a P2PS the held image of an item that it has open.
    pub(super) fn answer_from_cache(&mut self, handle: u32, slot: u8) {
        let Some(item) = self.items.get_mut(handle) else { return };
        if item.has(Bits::IN_SET) {
            item.bits.set(Bits::AGAIN, true);
            return;
        }
        let target = self.peers.id(slot).unwrap_or(ALL);
        if self.cache.get(item.image).is_some_and(cache::Image::is_whole) {
            self.publish_image(handle, handle, target);
        } else {
            // The provider went away between the parts of the first image.
            let text = "Image was not published to its end: waiting for the provider";
            let state = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, text);
            self.publish_status(handle, target, flags::PENDING_TOO, state);
        }
    }

    /// A snapshot of a published item: an instance of its own, answered as soon as the image is whole.
    pub(super) fn open_snapshot(&mut self, instance: u32) {
        let Some(item) = self.items.get(instance) else { return };
        let Some(shared) = self.items.find(item.service, &item.key) else { return self.end_snapshot(instance) };
        self.snapshots.entry(shared).or_default().push(instance);
        let in_set = self.items.get(shared).is_some_and(|item| item.has(Bits::IN_SET));
        if !in_set {
            self.answer_snapshots(shared);
        }
    }

    /// Answers the snapshots that wait for an item's image, if it is whole.
    fn answer_snapshots(&mut self, shared: u32) {
        let Some(item) = self.items.get(shared) else { return };
        if !self.cache.get(item.image).is_some_and(cache::Image::is_whole) {
            return;
        }
        for instance in self.snapshots.remove(&shared).unwrap_or_default() {
            // The handle may be another's by now.
            let waits = self.items.get(instance).is_some_and(|item| item.has(Bits::HELD_SNAPSHOT));
            if waits && self.items.get(instance).map(|item| &item.key) == self.items.get(shared).map(|item| &item.key) {
                self.publish_image(shared, instance, ALL);
                self.end_item(instance);
            }
        }
    }

    /// The item of a snapshot is not there any more.
    fn end_snapshot(&mut self, instance: u32) {
        let text = "Item was closed by its provider before its image was whole";
        let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND, text);
        self.publish_status(instance, ALL, flags::CLOSED, state);
        self.end_item(instance);
    }

    /// A published item is over: the snapshots that wait for it are too.
    pub(super) fn end_snapshots(&mut self, shared: u32) {
        for instance in self.snapshots.remove(&shared).unwrap_or_default() {
            if self.items.get(instance).is_some_and(|item| item.has(Bits::HELD_SNAPSHOT)) {
                self.end_snapshot(instance);
            }
        }
    }

    /// Publishes the held image of an item for those who wait for one under a handle: its own, or that of a snapshot.
    fn publish_image(&mut self, shared: u32, handle: u32, target: u16) {
        let alone = self.goes_alone(handle, target);
        let last = if handle == shared { 0 } else { flags::SNAPSHOT };
        let Some(item) = self.items.get(shared).filter(|item| item.image != NO_IMAGE) else { return };
        let (Some(image), Some(key)) = (self.cache.get(item.image), ItemKey::read(&item.key)) else { return };
        let provider_id = self.session(item.session).and_then(|session| session.offer(item.service));
        let msg_key = key.msg_key(provider_id.map_or(item.service, |offer| offer.provider_id));
        let group = self.current_group(item.group);
        let (domain, stream) = (Domain(key.domain), item.stream);
        let mut from = Some(0);
        let mut part: u16 = 0;
        while let Some(row) = from {
            let mut next = None;
            let limit = self.config.image_part;
            let written = self.scratch.write(|w| {
                let start = w.position();
                let part_num = (row > 0).then_some(part);
                next = image.write(cache::header(domain, stream, msg_key, part_num), row, limit, w)?;
                if row == 0 && next.is_some() {
                    // Only now is it known to be the first of several.
                    w.rollback(start);
                    next = image.write(cache::header(domain, stream, msg_key, Some(0)), row, limit, w)?;
                }
                Ok(())
            });
            let Ok(rwf) = written else {
                self.counters.cache_failures += 1;
                return;
            };
            let first = if row == 0 { flags::FIRST | flags::CLEAR_CACHE } else { 0 };
            let flags = first | last | if next.is_none() { flags::COMPLETE } else { 0 };
            let position = self.hub.next_position();
            let image = Event::Image { target, handle, group, flags, position, rwf };
            if super::direct::write_image(alone, &mut self.hub, &mut self.peers, &image) {
                self.counters.direct_images += 1;
            }
            self.counters.images += 1;
            part = part.saturating_add(1);
            from = next;
        }
    }

    /// Applies a post to the held image of the item it names, and publishes it.
    pub(super) fn post_to_cache(&mut self, service: u16, handle: Option<u32>, post: &PostMsg<'_>) -> Result<(), Nak> {
        let nested = (post.container == DataType::MSG).then(|| Msg::decode(post.body)).transpose();
        let nested = nested.map_err(|_| (NakCode::INVALID_CONTENT, "The message in the post is malformed"))?;
        let nested_key = nested.as_ref().and_then(Msg::key).copied();
        let key = nested_key.filter(|key| key.name.is_some()).or(post.key);
        let domain = nested.as_ref().map_or(post.domain, Msg::domain);
        let handle = match (handle, key) {
            (Some(handle), _) => Some(handle),
            (None, Some(key)) => self.posted_item(service, domain, &key, matches!(nested, Some(Msg::Refresh(_)))),
            (None, None) => {
                return Err((NakCode::INVALID_CONTENT, "An off-stream post needs a key that names the item"));
            }
        };
        let handle = handle
            .filter(|&handle| self.items.get(handle).is_some_and(|i| i.service == service && i.has(Bits::PUBLISHED)))
            .ok_or((NakCode::SYMBOL_UNKNOWN, "Item is not published: post a refresh to create it"))?;
        match nested {
            None => {
                let update = UpdateMsg {
                    container: post.container,
                    post_user_info: Some(post.post_user_info),
                    body: post.body,
                    ..UpdateMsg::new(domain, 0)
                };
                self.posted_update(handle, &update);
            }
            Some(Msg::Update(update)) => {
                self.posted_update(handle, &UpdateMsg { post_user_info: Some(post.post_user_info), ..update });
            }
            Some(Msg::Refresh(refresh)) => {
                let refresh = RefreshMsg { post_user_info: Some(post.post_user_info), ..refresh };
                self.posted_refresh(handle, &refresh);
            }
            Some(Msg::Status(status)) => {
                let status = StatusMsg { post_user_info: Some(post.post_user_info), ..status };
                self.posted_status(handle, &status);
            }
            Some(_) => return Err((NakCode::INVALID_CONTENT, "Only refresh, update and status can be posted")),
        }
        Ok(())
    }

    /// The item that an off-stream post names, in the service's first quality.
    fn posted_item(&mut self, service: u16, domain: Domain, key: &MsgKey<'_>, create: bool) -> Option<u32> {
        let qos = self.services.get(service)?.qos.first().copied().unwrap_or(Qos::REALTIME_TICK);
        self.key.clear();
        ItemKey::new(domain, key, Some(qos)).write(&mut self.key);
        if create { self.find_or_publish(service) } else { self.items.find(service, &self.key) }
    }

    fn posted_update(&mut self, handle: u32, update: &UpdateMsg<'_>) {
        self.take_update(handle, update);
        let mut bytes = Vec::new();
        if let Ok(rwf) = self.scratch.write(|w| update.encode(w)) {
            bytes.extend_from_slice(rwf);
        }
        if self.items.get(handle).is_some_and(|item| item.interest != 0) && !bytes.is_empty() {
            self.hub.update(handle, update.key.is_some(), &bytes);
            self.counters.updates += 1;
        }
    }

    fn posted_refresh(&mut self, handle: u32, refresh: &RefreshMsg<'_>) {
        let mut bytes = Vec::new();
        if let Ok(rwf) = self.scratch.write(|w| refresh.encode(w)) {
            bytes.extend_from_slice(rwf);
        }
        if refresh.state.stream.is_final() {
            self.published_final(handle, &refresh.state, None);
        } else {
            self.take_refresh(handle, refresh, &bytes);
        }
    }

    fn posted_status(&mut self, handle: u32, status: &StatusMsg<'_>) {
        let mut bytes = Vec::new();
        if let Ok(rwf) = self.scratch.write(|w| status.encode(w)) {
            bytes.extend_from_slice(rwf);
        }
        if let Some(state) = status.state.filter(|state| state.stream.is_final()) {
            self.published_final(handle, &state, Some(&bytes));
            return;
        }
        self.take_status(handle, status);
        let (group, flags) = (NO_GROUP, flags::PENDING_TOO);
        self.hub.event(&Event::ItemStatus { target: ALL, handle, group, flags, rwf: &bytes });
        self.counters.statuses += 1;
    }
}
