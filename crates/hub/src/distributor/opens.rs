//! The requests of the P2PSs: opens, closes, further images, reissues, generic messages.

use super::items::{Bits, NO_SESSION, Upstream};
use super::peers::Slots;
use super::{ProviderSink, SessionId, SourceDistributor, is_watched};
use crate::item::ItemKey;
use crate::stream::{ALL, Event, HubError, Request, flags};
use rwf::msg::{Domain, RequestMsg};
use rwf::{DataState, State, StateCode, StreamState, peek};

/// A refused open: where it is counted, and the state that says why.
type Refusal = (fn(&mut super::Counters) -> &mut u64, State<'static>);

fn refusal(code: StateCode, text: &'static str, counter: fn(&mut super::Counters) -> &mut u64) -> Refusal {
    (counter, State::new(StreamState::CLOSED, DataState::SUSPECT, code, text))
}

impl SourceDistributor {
    /// One request of a P2PS.
    pub(super) fn request(
        &mut self,
        now: u64,
        slot: u8,
        request: &Request<'_>,
        out: &mut dyn ProviderSink,
    ) -> Result<(), HubError> {
        match *request {
            Request::Hello { incarnation, key } => self.hello(now, slot, incarnation, key, out)?,
            Request::Heartbeat { position } => self.has_read(now, slot, position)?,
            Request::Gap { from, to } => self.tell_missed(now, slot, from, to, out)?,
            Request::Bye => self.bye(now, slot, out),
            Request::Open { service, token, flags, rwf } => {
                let kind = crate::stream::Kind::Open;
                let message =
                    RequestMsg::decode(rwf).map_err(|_| HubError::Malformed { kind, what: "request in it" })?;
                self.open(now, slot, service, token, flags, &message, out);
            }
            Request::Refresh { handle, in_stream } => {
                if self.holds(handle, slot) {
                    self.note_wanted(handle, slot, in_stream);
                    if self.items.get(handle).is_some_and(|item| item.has(Bits::ENDED)) {
                        self.repeat_end(handle, slot);
                    } else {
                        self.want_image(now, handle, slot, out);
                    }
                }
            }
            Request::Reissue { handle, serial, in_stream, rwf } => {
                let kind = crate::stream::Kind::Reissue;
                let message =
                    RequestMsg::decode(rwf).map_err(|_| HubError::Malformed { kind, what: "request in it" })?;
                if !self.holds(handle, slot) {
                    return Ok(());
                }
                if serial.is_some() && self.items.get(handle).is_some_and(|item| item.has(Bits::ENDED)) {
                    self.repeat_end(handle, slot);
                } else {
                    self.wishes.note(handle, slot, &message);
                    if serial.is_some() {
                        self.note_wanted(handle, slot, in_stream);
                        self.owe(handle, slot, serial);
                    }
                    self.reissue(now, handle, serial.is_some(), out);
                    if serial.is_some() {
                        self.want_image(now, handle, slot, out);
                    }
                }
            }
            Request::Close { handle } => {
                if self.holds(handle, slot) {
                    self.lose_interest(now, handle, slot, out);
                }
            }
            Request::Post { service, handle, token, rwf } => self.post(now, slot, service, handle, token, rwf, out)?,
            Request::Generic { handle, rwf } => {
                if self.holds(handle, slot) {
                    self.generic_upstream(handle, rwf, out);
                }
            }
        }
        Ok(())
    }

    /// Whether the P2PS may speak about this handle; if not, its request is dropped.
    fn holds(&mut self, handle: u32, slot: u8) -> bool {
        let holds = self.items.get(handle).is_some_and(|item| item.interest & (1 as Slots) << slot != 0);
        if !holds {
            self.counters.dropped_unknown_handle += 1;
        }
        holds
    }

    #[expect(clippy::too_many_arguments, reason = "the members of one request")]
    fn open(
        &mut self,
        now: u64,
        slot: u8,
        service: u16,
        token: u32,
        bits: u8,
        request: &RequestMsg<'_>,
        out: &mut dyn ProviderSink,
    ) {
        self.counters.opens += 1;
        let target = self.peers.id(slot).unwrap_or(ALL);
        self.key.clear();
        ItemKey::new(request.domain, &request.key, request.qos).write(&mut self.key);
        match self.resolve(service, bits, request.domain) {
            Ok(handle) => {
                let Some(item) = self.items.get_mut(handle) else { return };
                let was_watched = item.interest != 0;
                item.interest |= (1 as Slots) << slot;
                let (cached, snapshot) = (item.has(Bits::PUBLISHED), item.has(Bits::HELD_SNAPSHOT));
                if !cached && !snapshot {
                    self.wishes.note(handle, slot, request);
                }
                self.hub.event(&Event::ItemOpened { target, handle, token });
                self.note_wanted(handle, slot, false);
                if snapshot {
                    self.open_snapshot(handle);
                } else if cached {
                    self.answer_from_cache(handle, slot);
                } else {
                    self.watch(now, handle, slot, was_watched, out);
                }
            }
            Err((counter, state)) => {
                *counter(&mut self.counters) += 1;
                self.hub.event(&Event::Refused { target, token, state });
            }
        }
    }

    /// The item that `self.key` of a service is, made if need be.
    fn resolve(&mut self, service: u16, bits: u8, domain: Domain) -> Result<u32, Refusal> {
        let unknown = || {
            let text = "Service is not known to the Source Distributor";
            refusal(StateCode::SOURCE_UNKNOWN, text, |c| &mut c.refused_unknown_service)
        };
        let known = self.services.get(service).filter(|service| service.advertised).ok_or_else(unknown)?;
        if matches!(domain, Domain::LOGIN | Domain::SOURCE) {
            let text = "Login and directory are not items: ask the P2PS for them";
            return Err(refusal(StateCode::USAGE_ERROR, text, |c| &mut c.refused_usage));
        }
        if !known.cached && !known.domains.contains(domain.0) {
            let text = "Service does not provide this domain: its Capabilities list those that it has";
            return Err(refusal(StateCode::USAGE_ERROR, text, |c| &mut c.refused_usage));
        }
        let instance = match (bits & flags::PRIVATE != 0, bits & flags::SNAPSHOT_ONLY != 0) {
            (true, true) => Bits::PRIVATE | Bits::SNAPSHOT,
            (true, false) => Bits::PRIVATE,
            (false, true) => Bits::SNAPSHOT,
            (false, false) => 0,
        };
        let cached = known.cached;
        let found = self.items.find(service, &self.key);
        // There is nobody to have a private stream with where images are held.
        if cached && (found.is_none() || instance & Bits::PRIVATE != 0) {
            let text = "Item is not published by the non-interactive provider of its service";
            return Err(refusal(StateCode::NOT_FOUND, text, |c| &mut c.refused_not_found));
        }
        if let Some(handle) = found.filter(|_| instance == 0) {
            return Ok(handle);
        }
        let full = self.items.len() >= (self.config.max_items.min(super::streams::MAX_HANDLE) as usize);
        if full {
            let text = "Source Distributor holds as many items as it may: raise its max_items or close some";
            return Err(refusal(StateCode::NO_RESOURCES, text, |c| &mut c.refused_no_resources));
        }
        let instance = if cached { instance | Bits::HELD_SNAPSHOT } else { instance };
        Ok(self.items.insert(service, &self.key, instance))
    }

    /// A P2PS has opened an interactive item: see that an image reaches it.
    fn watch(&mut self, now: u64, handle: u32, slot: u8, was_watched: bool, out: &mut dyn ProviderSink) {
        let Some(item) = self.items.get(handle) else { return };
        let (service, new) = (item.service, !was_watched && item.upstream == Upstream::Idle);
        if new {
            let epoch = item.epoch;
            self.timers.set(now.saturating_add(self.config.request_timeout), super::Timer::Request(handle, epoch));
            self.enqueue(handle);
            self.pump(now, service, out);
            self.explain_wait(handle, ALL);
            return;
        }
        if item.upstream == Upstream::Idle {
            let target = self.peers.id(slot).unwrap_or(ALL);
            self.explain_wait(handle, target);
            return;
        }
        if !was_watched {
            self.set_live(handle, item.has(Bits::ANSWERED));
        }
        if self.items.get(handle).is_some_and(|item| item.has(Bits::VIEW)) {
            self.owe(handle, slot, None);
            self.reissue(now, handle, true, out);
        } else {
            self.want_image(now, handle, slot, out);
        }
    }

    /// A P2PS has given an item back, or is gone.
    pub(super) fn lose_interest(&mut self, now: u64, handle: u32, slot: u8, out: &mut dyn ProviderSink) {
        self.wishes.forget(handle, slot);
        self.owed.forget(handle, slot);
        self.direct.forget(handle, slot);
        let Some(item) = self.items.get_mut(handle) else { return };
        item.interest &= !((1 as Slots) << slot);
        if item.interest != 0 || item.has(Bits::PUBLISHED) {
            return;
        }
        let keep = item.upstream == Upstream::Open && !item.is_instance() && item.has(Bits::ANSWERED);
        if keep && self.config.age_unwatched > 0 {
            item.unwatched_since = tenths(now);
            if !item.has(Bits::AGING) {
                item.bits.set(Bits::AGING, true);
                self.timers.set(now.saturating_add(self.config.age_unwatched), super::Timer::Unwatched(handle));
            }
            self.set_live(handle, false);
        } else {
            let service = item.service;
            self.close_upstream(now, handle, out);
            self.forget_item(handle);
            self.pump(now, service, out);
        }
    }

    pub(super) fn unwatched_timer(&mut self, now: u64, handle: u32, out: &mut dyn ProviderSink) {
        let Some(item) = self.items.get_mut(handle).filter(|item| item.has(Bits::AGING)) else { return };
        item.bits.set(Bits::AGING, false);
        if item.interest != 0 {
            return;
        }
        let due = (u64::from(item.unwatched_since) * TENTH).saturating_add(self.config.age_unwatched);
        if now < due {
            item.bits.set(Bits::AGING, true);
            self.timers.set(due, super::Timer::Unwatched(handle));
            return;
        }
        let service = item.service;
        self.close_upstream(now, handle, out);
        self.forget_item(handle);
        self.pump(now, service, out);
    }

    /// Takes the item out of every table. It must not be open upstream any more.
    pub(super) fn forget_item(&mut self, handle: u32) {
        self.wishes.forget_item(handle);
        self.owed.forget_item(handle);
        self.direct.forget_item(handle);
        if let Some(item) = self.items.remove(handle) {
            if item.has(Bits::LOST)
                && let Some(service) = self.services.get_mut(item.service)
            {
                service.lost_items -= 1;
            }
            self.cache.remove(item.image);
        }
    }

    /// The item is over: who opens its key gets another. It goes when the last P2PS has given it back.
    pub(super) fn end_item(&mut self, handle: u32) {
        self.end_snapshots(handle);
        self.owed.forget_item(handle);
        self.items.unshare(handle);
        let Some(item) = self.items.get_mut(handle) else { return };
        let lost = item.has(Bits::LOST);
        item.bits.set(Bits::LOST | Bits::PUBLISHED | Bits::QUEUED | Bits::EXPECTING, false);
        item.bits.set(Bits::ENDED, true);
        item.upstream = Upstream::Idle;
        let image = std::mem::replace(&mut item.image, super::items::NO_IMAGE);
        let (service, unwatched) = (item.service, item.interest == 0);
        self.cache.remove(image);
        if lost && let Some(service) = self.services.get_mut(service) {
            service.lost_items -= 1;
        }
        if unwatched {
            self.forget_item(handle);
        }
    }

    fn generic_upstream(&mut self, handle: u32, rwf: &[u8], out: &mut dyn ProviderSink) {
        let place = self.items.get(handle).filter(|item| is_watched(item) && item.session != NO_SESSION);
        let target = place.and_then(|item| {
            let session = self.session(item.session)?;
            let provider_id = session.offer(item.service).map_or(0, |offer| offer.provider_id);
            Some((item.session, item.stream, provider_id))
        });
        let Some((session, stream, provider_id)) = target else {
            self.counters.dropped_generic += 1;
            return;
        };
        let mut message = Vec::with_capacity(rwf.len() + 4);
        if !matches!(peek::rewrite_service_id(rwf, provider_id, &mut message), Ok(true)) {
            message.extend_from_slice(rwf);
        }
        if peek::header(&message).is_ok() && peek::set_stream_id(&mut message, stream) {
            out.send(SessionId(session), &message);
        } else {
            self.counters.dropped_generic += 1;
        }
    }
}

const TENTH: u64 = 100_000_000;

fn tenths(now: u64) -> u32 {
    (now / TENTH) as u32
}
