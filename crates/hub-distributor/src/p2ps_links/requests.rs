//! The requests of the P2PSs: opens, closes, further images, reissues, generic messages.

use crate::ids::{Handle, Slot};
use crate::item::ItemKey;
use crate::items::NOT_PUBLISHED;
use crate::items::{Item, Kind as ItemKind, UnwatchedTimer};
use crate::stream::{Event, HubError, Kind, Request, flags};
use crate::timers::Timer;
use crate::{Counters, ProviderSink, SourceDistributor};
use rwf::msg::{Domain, RequestMsg};
use rwf::{DataState, State, StateCode, StreamState, peek};

/// A refused open: where it is counted, and the state that says why.
type Refusal = (fn(&mut Counters) -> &mut u64, State<'static>);

fn refusal(code: StateCode, text: &'static str, counter: fn(&mut Counters) -> &mut u64) -> Refusal {
    (counter, State::new(StreamState::CLOSED, DataState::SUSPECT, code, text))
}

/// Who opens what.
#[derive(Debug, Clone, Copy)]
struct Open {
    slot: Slot,
    target: u16,
    service: u16,
    token: u32,
    /// Of [`flags`].
    flags: u8,
}

/// The RWF request in a request of a P2PS.
fn decode(kind: Kind, rwf: &[u8]) -> Result<RequestMsg<'_>, HubError> {
    RequestMsg::decode(rwf).map_err(|_| HubError::Malformed { kind, what: "request in it" })
}

impl SourceDistributor {
    /// One request of a P2PS, which is there: `id` is its number.
    pub(crate) fn request(
        &mut self,
        slot: Slot,
        id: u16,
        request: &Request<'_>,
        out: &mut dyn ProviderSink,
    ) -> Result<(), HubError> {
        debug_assert_eq!(self.links.id(slot), Some(id));
        match *request {
            Request::Hello { incarnation, key } => self.hello(slot, incarnation, key, out)?,
            Request::Heartbeat { position } => self.has_read(slot, position)?,
            Request::Gap { from, to } => self.tell_missed(slot, id, (from, to), out)?,
            Request::Bye => self.bye(slot, out),
            Request::Serve { server } => self.serves(slot, server),
            Request::Open { service, token, flags, rwf } => {
                let message = decode(Kind::Open, rwf)?;
                self.open(Open { slot, target: id, service, token, flags }, &message, out);
            }
            Request::Refresh { handle, in_stream } => {
                if let Some(handle) = self.held(handle, slot) {
                    self.refresh_wanted(handle, slot, in_stream, out);
                }
            }
            Request::Reissue { handle, serial, in_stream, rwf } => {
                let message = decode(Kind::Reissue, rwf)?;
                if let Some(handle) = self.held(handle, slot) {
                    self.reissued(handle, slot, serial, in_stream, &message, out);
                }
            }
            Request::Close { handle } => {
                if let Some(handle) = self.held(handle, slot) {
                    self.lose_interest(handle, slot, out);
                }
            }
            Request::Post { service, handle, token, rwf } => {
                let handle = handle.map(Handle);
                self.post(slot, service, handle, token, rwf, out)?;
            }
            Request::Generic { handle, rwf } => {
                if let Some(handle) = self.held(handle, slot) {
                    self.generic_upstream(handle, rwf, out);
                }
            }
        }
        Ok(())
    }

    /// The item of a handle, if the P2PS may speak about it; if not, its request is dropped.
    fn held(&mut self, handle: u32, slot: Slot) -> Option<Handle> {
        let handle = Handle(handle);
        let held = self.items.get(handle).is_some_and(|item| item.interest().contains(slot));
        self.counters.dropped_unknown_handle += u64::from(!held);
        held.then_some(handle)
    }

    /// A P2PS waits for an image of an item, in the stream if it says so, else as is usual for it.
    fn want_by_its_way(&mut self, handle: Handle, slot: Slot, in_stream: bool) {
        let alone = !in_stream
            && (self.providers.rules(&self.config, self.items[handle].service()).point_to_point
                || self.links.is_unpaced(slot));
        self.upstream.want_image(handle, slot, alone);
    }

    /// A P2PS wants an image of an item that it has open.
    fn refresh_wanted(&mut self, handle: Handle, slot: Slot, in_stream: bool, out: &mut dyn ProviderSink) {
        self.want_by_its_way(handle, slot, in_stream);
        if self.items[handle].is_ended() {
            self.repeat_end(handle, slot);
        } else {
            self.want_image(handle, slot, out);
            self.explain_wait(handle, self.links.number(slot));
        }
    }

    /// A P2PS wants something else of an item than before; with a number, it wants an image of that.
    fn reissued(
        &mut self,
        handle: Handle,
        slot: Slot,
        serial: Option<u32>,
        in_stream: bool,
        message: &RequestMsg<'_>,
        out: &mut dyn ProviderSink,
    ) {
        if serial.is_some() && self.items[handle].is_ended() {
            return self.repeat_end(handle, slot);
        }
        self.upstream.note_demand(handle, slot, message);
        let Some(serial) = serial else {
            self.reissue(handle, false, out);
            self.preempt(handle, out);
            return;
        };
        self.want_by_its_way(handle, slot, in_stream);
        self.owe_reissue(handle, slot, serial);
        self.reissue(handle, true, out);
        self.want_image(handle, slot, out);
        self.renew_priority(handle, out);
        self.preempt(handle, out);
        self.explain_wait(handle, self.links.number(slot));
    }

    fn open(&mut self, open: Open, request: &RequestMsg<'_>, out: &mut dyn ProviderSink) {
        let Open { slot, target, token, .. } = open;
        self.counters.opens += 1;
        self.key.clear();
        let qos =
            request.qos.map(|qos| self.providers.service(open.service).map_or(qos, |known| known.source_qos(qos)));
        ItemKey::new(request.domain, &request.key, qos).write(&mut self.key);
        let handle = match self.resolve(open.service, open.flags, request.domain) {
            Ok(handle) => handle,
            Err((counter, state)) => {
                *counter(&mut self.counters) += 1;
                return self.hub.event(&Event::Refused { target, token, state });
            }
        };
        let item = &self.items[handle];
        let was_watched = item.has_interest();
        let is_new = !item.interest().contains(slot);
        self.items.watch(handle, slot);
        let item = &self.items[handle];
        let (cached, snapshot) = (item.is_cached(), item.is_cached_snapshot());
        if is_new {
            let items = &self.items;
            self.links.opens(slot, handle, |h| items.get(h).is_some_and(|item| item.interest().contains(slot)));
        }
        if !cached && !snapshot {
            self.upstream.note_demand(handle, slot, request);
        }
        self.hub.event(&Event::ItemOpened { target, handle: handle.0, token });
        self.want_by_its_way(handle, slot, false);
        if snapshot {
            self.open_snapshot(handle);
        } else if self.answer_snapshot_from_held(handle) {
            self.counters.images_from_cache += 1;
        } else if cached {
            self.answer_from_cache(handle, slot);
        } else {
            self.watch(handle, open, was_watched, out);
        }
    }

    /// The item that `self.key` of a service is, made if need be.
    fn resolve(&mut self, service: u16, bits: u8, domain: Domain) -> Result<Handle, Refusal> {
        let unknown = || {
            let text = "Service is not known to the Source Distributor";
            refusal(StateCode::SOURCE_UNKNOWN, text, |c| &mut c.refused_unknown_service)
        };
        let known = self.providers.service(service).filter(|service| service.advertised).ok_or_else(unknown)?;
        if matches!(domain, Domain::LOGIN | Domain::SOURCE) {
            let text = "Login and directory are not items: ask the P2PS for them";
            return Err(refusal(StateCode::USAGE_ERROR, text, |c| &mut c.refused_usage));
        }
        if !known.cached && !known.domains.contains(domain.0) {
            let text = "Service does not provide this domain: its Capabilities list those that it has";
            return Err(refusal(StateCode::USAGE_ERROR, text, |c| &mut c.refused_usage));
        }
        let no_room = || {
            let text = "Source Distributor holds as many items as it may (hub.max_items): close some";
            refusal(StateCode::NO_RESOURCES, text, |c| &mut c.refused_no_resources)
        };
        let known_cached = known.cached;
        let hash = self.items.hash(service, &self.key);
        let found = self.items.find_hashed(hash, service, &self.key);
        let kind = match (known_cached, bits & flags::PRIVATE != 0, bits & flags::SNAPSHOT_ONLY != 0) {
            (false, true, true) => ItemKind::PrivateSnapshot,
            (false, true, false) => ItemKind::Private,
            (false, false, true) => ItemKind::Snapshot,
            (false, false, false) => ItemKind::SHARED,
            // There is nobody to have a private stream with where images are held.
            (true, false, snapshot) if found.is_some() => {
                if snapshot {
                    ItemKind::CachedSnapshot
                } else {
                    ItemKind::SHARED
                }
            }
            (true, false, false) if let Some(patience) = self.publication_patience(service, bits) => {
                return self.await_publication(hash, service, patience).ok_or_else(no_room);
            }
            (true, ..) => {
                return Err(refusal(StateCode::NOT_FOUND, NOT_PUBLISHED, |c| &mut c.refused_not_found));
            }
        };
        if let Some(handle) = found.filter(|_| !kind.is_instance()) {
            if known_cached && bits & flags::WANTED_BACK != 0 {
                self.published.want_back(handle);
            }
            return Ok(handle);
        }
        if !known_cached && self.is_given_up(service, &self.key, domain.0) {
            let text = "Provider closes its connection when it is asked for this: it is asked no more for now";
            return Err(refusal(StateCode::NONE, text, |c| &mut c.refused_given_up));
        }
        // A snapshot is of an item that has to stay.
        if !self.find_room(found) {
            return Err(no_room());
        }
        Ok(self.items.insert_hashed(hash, service, &self.key, kind))
    }

    /// Whether there are as many items as there may be.
    pub(crate) fn is_full(&self) -> bool {
        self.items.len() >= self.config.max_items.min(Handle::MAX) as usize
    }

    /// A P2PS has opened an interactive item: see that an image reaches it.
    fn watch(&mut self, handle: Handle, open: Open, was_watched: bool, out: &mut dyn ProviderSink) {
        self.want_cached(handle);
        if was_watched && self.items[handle].is_waiting() && self.answer_from_held(handle, open.slot) {
            return;
        }
        let item = &self.items[handle];
        if item.is_waiting() {
            if was_watched {
                self.preempt(handle, out);
                return self.explain_wait(handle, open.target);
            }
            let service = item.service();
            self.enqueue(handle);
            self.ask_queued(service, out);
            self.preempt(handle, out);
            let item = &self.items[handle];
            if item.is_waiting() {
                let timer = Timer::Request(handle, item.epoch());
                let timeout = self.providers.rules(&self.config, self.items[handle].service()).request_timeout;
                self.timers.set(self.now.saturating_add(timeout), timer);
            }
            return self.explain_wait(handle, crate::stream::ALL);
        }
        if !was_watched {
            self.leave_if_suspect(handle, out);
            let item = &self.items[handle];
            // An item that is lost has an image to come, and nothing goes on before it.
            self.set_live(handle, item.is_answered() && !item.awaits_recovery());
        }
        if self.upstream.is_narrowed(handle) {
            self.owe_open(handle, open.slot);
            self.reissue(handle, true, out);
        } else {
            self.want_image(handle, open.slot, out);
        }
        self.renew_priority(handle, out);
        self.explain_wait(handle, open.target);
    }

    /// A P2PS has given an item back, or is gone.
    pub(crate) fn lose_interest(&mut self, handle: Handle, slot: Slot, out: &mut dyn ProviderSink) {
        self.upstream.unwatch(handle, slot);
        self.items.unwatch(handle, slot);
        let item = &self.items[handle];
        if item.has_interest() || item.is_cached() {
            // The others may all have paused.
            if item.is_open() && self.upstream.is_to_pause(handle, item.interest().len()) {
                self.reissue(handle, false, out);
            }
            self.renew_priority(handle, out);
            return;
        }
        let age = self.providers.rules(&self.config, self.items[handle].service()).age_unwatched;
        let item = &mut self.items[handle];
        if item.may_age() && age > 0 {
            if item.starts_aging(self.now) {
                self.timers.set(self.now.saturating_add(age), Timer::Unwatched(handle));
            }
            self.set_live(handle, false);
        } else {
            self.close_item(handle, out);
        }
    }

    /// An item that nobody watches is closed at its provider, and forgotten.
    fn close_item(&mut self, handle: Handle, out: &mut dyn ProviderSink) {
        let service = self.items[handle].service();
        self.close_upstream(handle, out);
        self.forget_item(handle);
        self.send_queued(service, out);
    }

    /// The unwatched time of an item may be over. The item may be gone since the timer was set.
    pub(crate) fn unwatched_timer(&mut self, handle: Handle, out: &mut dyn ProviderSink) {
        // The item is gone, with its unwatched time.
        let Some(service) = self.items.get(handle).map(Item::service) else { return };
        let age = self.providers.rules(&self.config, service).age_unwatched;
        match self.items[handle].unwatched_timer(self.now, age) {
            UnwatchedTimer::Watched => {}
            UnwatchedTimer::NotYet(due) => self.timers.set(due, Timer::Unwatched(handle)),
            UnwatchedTimer::Over => self.close_item(handle, out),
        }
    }

    /// Takes the item out of every table. It must not be open upstream any more.
    pub(crate) fn forget_item(&mut self, handle: Handle) {
        debug_assert!(self.items[handle].place().is_none(), "an item leaves its stream before it is forgotten");
        self.upstream.forget_item(handle);
        self.content.forget(handle);
        self.hub.forget(handle);
        self.hot_standby.forget(handle);
        if let Some(image) = self.items[handle].image() {
            self.end_record(handle, image);
        }
        let item = self.items.remove(handle);
        if item.is_lost() {
            self.providers[item.service()].item_is_back();
        }
        self.published.forget(handle, item.image());
        if item.is_cached_snapshot()
            && let Some(shared) = self.items.find(item.service(), item.key())
        {
            self.published.forget_snapshot(shared, handle);
        }
    }

    /// The item is over: who opens its key gets another. It goes when the last P2PS has given it back. It must not be open
    /// upstream any more.
    pub(crate) fn end_item(&mut self, handle: Handle) {
        self.end_snapshots(handle);
        self.upstream.owe_nothing(handle);
        self.items.unlist(handle);
        self.content.forget(handle);
        self.hot_standby.forget(handle);
        let item = &self.items[handle];
        let (image, service, watched) = (item.image(), item.service(), item.has_interest());
        if let Some(image) = image {
            self.end_record(handle, image);
        }
        let was_lost = self.items.end(handle);
        self.published.forget(handle, image);
        if was_lost {
            self.providers[service].item_is_back();
        }
        if !watched {
            self.forget_item(handle);
        }
    }

    /// A generic message of a consumer goes to the provider at which its item is open.
    fn generic_upstream(&mut self, handle: Handle, rwf: &[u8], out: &mut dyn ProviderSink) {
        let item = &self.items[handle];
        let place = item.place().filter(|place| self.providers.is_reached(place.session, item.service()));
        let Some(place) = place else {
            self.counters.dropped_generic += 1;
            return;
        };
        let provider_id = self.providers.service_id(place.session, self.items[handle].service());
        let mut message = Vec::with_capacity(rwf.len() + 4);
        if !matches!(peek::rewrite_service_id(rwf, provider_id, &mut message), Ok(true)) {
            message.extend_from_slice(rwf);
        }
        if peek::header(&message).is_ok() && peek::set_stream_id(&mut message, place.stream.0) {
            self.posts.waiting.flush(place.session, out);
            out.send(place.session, &message);
        } else {
            self.counters.dropped_generic += 1;
        }
    }
}
