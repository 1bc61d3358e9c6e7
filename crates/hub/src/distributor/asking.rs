//! Asking providers for items: which provider, how many at a time, and again when it failed.

use super::config::Balance;
use super::items::{Bits, Item, NO_SESSION, Upstream};
use super::sessions::{Offer, Phase};
use super::streams::Stream;
use super::timers::Timer;
use super::{ProviderSink, SessionId, SourceDistributor, is_watched};
use crate::item::{ItemKey, KeyQos};
use crate::stream::{ALL, Event, flags};
use rwf::msg::{CloseMsg, Domain, RequestFlags, RequestMsg};
use rwf::{DataState, Qos, State, StateCode, StreamState};

/// Why an item cannot be asked for at a provider now. In order: what the best provider lacks counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wait {
    /// Its open window is full; it will not take long.
    Window,
    OpenLimit,
    NotAccepting,
    Down,
    /// None offers it.
    NoProvider,
}

impl Wait {
    /// What a consumer is told. The window is a matter of moments, nobody is told.
    fn text(self) -> Option<(StateCode, &'static str)> {
        match self {
            Self::Window => None,
            Self::OpenLimit => {
                Some((StateCode::TOO_MANY_ITEMS, "Provider's open limit is reached: waiting for an item to be closed"))
            }
            Self::NotAccepting => Some((StateCode::NONE, "Provider accepts no requests now: waiting for it")),
            Self::Down => Some((StateCode::NONE, "Service is down: waiting for it")),
            Self::NoProvider => Some((StateCode::NONE, "No provider offers this item now: waiting for one")),
        }
    }
}

/// How many items without a place a pump looks past before it leaves the queue to the next.
const LOOK_PAST: usize = 32;

impl SourceDistributor {
    /// Puts an item into its service's queue.
    pub(super) fn enqueue(&mut self, handle: u32) {
        let Some(item) = self.items.get_mut(handle).filter(|item| !item.has(Bits::QUEUED | Bits::ENDED)) else {
            return;
        };
        item.bits.set(Bits::QUEUED, true);
        let Some(service) = self.services.get_mut(item.service) else { return };
        let queue = if item.has(Bits::ANSWERED) { &mut service.lost } else { &mut service.fresh };
        queue.push_back(handle);
    }

    /// Asks providers for what waits in a service's queue, as far as windows and this turn's budget go.
    pub(super) fn pump(&mut self, now: u64, service: u16, out: &mut dyn ProviderSink) {
        let mut passed = Vec::new();
        while passed.len() < LOOK_PAST {
            let Some(queues) = self.services.get_mut(service).filter(|service| service.is_waiting()) else { break };
            if self.budget == 0 {
                self.hungry = true;
                break;
            }
            let Some(handle) = queues.next(self.turn) else { break };
            self.turn = self.turn.wrapping_add(1);
            let Some(item) = self.items.get(handle) else { continue };
            if item.service != service || !item.has(Bits::QUEUED) || item.upstream != Upstream::Idle {
                continue;
            }
            match self.route(item) {
                Ok(session) => {
                    self.budget -= 1;
                    self.ask(now, handle, session, out);
                }
                Err(_) => passed.push(handle),
            }
            // With one provider what stops one item stops all, as a rule; look past it only for what is different.
            if passed.len() == 1 && self.is_simple(service) {
                break;
            }
        }
        let Some(queues) = self.services.get_mut(service) else { return };
        for handle in passed.into_iter().rev() {
            let answered = self.items.get(handle).is_some_and(|item| item.has(Bits::ANSWERED));
            if answered { queues.lost.push_front(handle) } else { queues.fresh.push_front(handle) }
        }
    }

    /// Whether the items of a service fare alike: it has one provider, that is not at its limit for streams only.
    fn is_simple(&self, service: u16) -> bool {
        let Some(&[only]) = self.services.get(service).map(|known| known.providers.as_slice()) else { return false };
        self.session(only).and_then(|session| session.offer(service)).is_some_and(|offer| {
            matches!(offer.place(true, self.config.open_window), Err(Wait::Window | Wait::NotAccepting | Wait::Down))
        })
    }

    /// The provider to ask for an item.
    fn route(&self, item: &Item) -> Result<u32, Wait> {
        let qos = ItemKey::read(&item.key).map(|key| key.qos).unwrap_or_default();
        let snapshot = item.has(Bits::SNAPSHOT);
        let mut best: Option<((u64, u32), u32)> = None;
        let mut wait = Wait::NoProvider;
        let Some(service) = self.services.get(item.service) else { return Err(wait) };
        for &id in &service.providers {
            let Some(session) = self.session(id).filter(|session| session.phase == Phase::Ready) else { continue };
            let Some(offer) = session.offer(item.service).filter(|offer| offer.serves(item.domain(), qos)) else {
                continue;
            };
            if let Err(reason) = offer.place(snapshot, self.config.open_window) {
                wait = wait.min(reason);
                continue;
            }
            let load = (offer.load_factor, offer.open + offer.outstanding);
            if best.is_none_or(|(least, _)| load < least) {
                best = Some((load, id));
            }
            if self.config.balance == Balance::First {
                break;
            }
        }
        best.map(|(_, id)| id).ok_or(wait)
    }

    /// Tells those who wait why they wait, if it may be long.
    pub(super) fn explain_wait(&mut self, handle: u32, target: u16) {
        let Some(item) = self.items.get(handle).filter(|item| item.upstream == Upstream::Idle) else { return };
        let Err(wait) = self.route(item) else { return };
        let Some((code, text)) = wait.text() else { return };
        let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, code, text);
        self.publish_status(handle, target, flags::PENDING_TOO, state);
        if let Some(item) = self.items.get_mut(handle) {
            item.bits.set(Bits::SUSPECT, true);
        }
    }

    /// Sends the request for an item to a session.
    fn ask(&mut self, now: u64, handle: u32, id: u32, out: &mut dyn ProviderSink) {
        let Some(session) = self.sessions.get_mut(id as usize).and_then(Option::as_mut) else { return };
        let Some(item) = self.items.get_mut(handle) else { return };
        let stream = session.ids.take(now);
        session.streams.set(stream, Stream::new(handle, false));
        if let Some(offer) = session.offer_mut(item.service) {
            offer.outstanding += 1;
            offer.snapshots += u32::from(item.has(Bits::SNAPSHOT));
        }
        item.session = id;
        item.stream = stream;
        item.upstream = Upstream::Asked;
        item.bits.set(Bits::QUEUED | Bits::IN_SET, false);
        item.bits.set(Bits::EXPECTING, true);
        item.unanswered = 1;
        let timer = Timer::Request(handle, self.items.renew(handle));
        self.timers.set(now.saturating_add(self.config.request_timeout), timer);
        self.counters.requests += 1;
        self.send_request(handle, RequestFlags::NONE, out);
    }

    /// Writes the request for an item as its P2PSs want it together, on the stream that it has.
    fn send_request(&mut self, handle: u32, extra: RequestFlags, out: &mut dyn ProviderSink) {
        let Some(item) = self.items.get_mut(handle) else { return };
        let Some(session) = self.sessions.get(item.session as usize).and_then(Option::as_ref) else { return };
        let Some(key) = ItemKey::read(&item.key) else { return };
        let provider_id = session.offer(item.service).map_or(0, |offer| offer.provider_id);
        let wishes = self.wishes.merged(handle, item.interest);
        let pause = wishes.pause && session.pause;
        item.bits.set(Bits::PAUSED, pause);
        let mut flags = extra;
        for flag in
            [RequestFlags::QUALIFIED_STREAM, RequestFlags::MSG_KEY_IN_UPDATES, RequestFlags::CONF_INFO_IN_UPDATES]
        {
            flags.set(flag, wishes.flags.contains(flag));
        }
        flags.set(RequestFlags::STREAMING, !item.has(Bits::SNAPSHOT));
        flags.set(RequestFlags::PRIVATE_STREAM, item.has(Bits::PRIVATE));
        flags.set(RequestFlags::PAUSE, pause);
        let mut request = RequestMsg {
            flags,
            priority: Some(wishes.priority),
            qos: key.qos.to_qos(),
            key: key.msg_key(provider_id),
            ext_header: wishes.ext_header,
            ..RequestMsg::new(Domain(key.domain), item.stream)
        };
        let is_view = wishes.flags.contains(RequestFlags::HAS_VIEW);
        item.bits.set(Bits::VIEW, item.has(Bits::VIEW) || is_view && session.views);
        if !is_view || session.views {
            request.flags.set(RequestFlags::HAS_VIEW, is_view);
            (request.container, request.body) = (wishes.container, wishes.body);
        }
        if let Ok(bytes) = self.scratch.write(|w| request.encode(w)) {
            out.send(SessionId(item.session), bytes);
        }
    }

    /// A P2PS needs an image of an item that it has open.
    pub(super) fn want_image(&mut self, now: u64, handle: u32, slot: u8, out: &mut dyn ProviderSink) {
        let Some(item) = self.items.get_mut(handle).filter(|item| is_watched(item)) else { return };
        if item.has(Bits::PUBLISHED) {
            self.answer_from_cache(handle, slot);
        } else if item.has(Bits::IN_SET) {
            item.bits.set(Bits::AGAIN, true);
        } else if item.upstream == Upstream::Open && !item.has(Bits::EXPECTING | Bits::SNAPSHOT) {
            self.request_image(now, handle, out);
        }
    }

    /// Asks the provider for another image of an open item.
    fn request_image(&mut self, now: u64, handle: u32, out: &mut dyn ProviderSink) {
        if let Some(item) = self.items.get_mut(handle) {
            item.bits.set(Bits::EXPECTING, true);
            item.unanswered = item.unanswered.saturating_add(1);
        }
        let timer = Timer::Request(handle, self.items.renew(handle));
        self.timers.set(now.saturating_add(self.config.request_timeout), timer);
        self.counters.reissues += 1;
        self.send_request(handle, RequestFlags::NONE, out);
    }

    /// What the P2PSs want of an open item has changed: view, priority, pause.
    pub(super) fn reissue(&mut self, now: u64, handle: u32, with_image: bool, out: &mut dyn ProviderSink) {
        let Some(item) = self.items.get_mut(handle) else { return };
        if item.has(Bits::ENDED | Bits::PUBLISHED) {
            return;
        }
        if item.upstream == Upstream::Idle {
            // The request that is still to be sent asks for all of it.
            return;
        }
        let owed = item.has(Bits::EXPECTING | Bits::IN_SET);
        if with_image && owed {
            // The image under way was asked for with the old view: another one has to follow it.
            item.bits.set(Bits::AGAIN, true);
        }
        if with_image && !owed {
            self.request_image(now, handle, out);
        } else {
            self.send_request(handle, RequestFlags::NO_REFRESH, out);
        }
    }

    /// A P2PS wants more of an item than was asked for so far: what answers that is not for it. It has opened it, or reissued
    /// with a number.
    pub(super) fn owe(&mut self, handle: u32, slot: u8, serial: Option<u32>) {
        let Some(item) = self.items.get(handle) else { return };
        if item.has(Bits::PUBLISHED) {
            // Held images are whole.
            if let Some(serial) = serial {
                self.tell_answered(handle, slot, serial);
            }
        } else if !item.has(Bits::ENDED) && (item.upstream != Upstream::Idle || serial.is_some()) {
            self.owed.note(handle, slot, serial, item.unanswered);
        }
    }

    /// Tells a P2PS that the images of an item hold what it has reissued for from now on.
    pub(super) fn tell_answered(&mut self, handle: u32, slot: u8, serial: u32) {
        if let Some(target) = self.peers.id(slot) {
            let position = self.hub.next_position();
            self.hub.event(&Event::Answered { target, handle, serial, position });
        }
    }

    /// Closes the item's stream at its provider, if it has one.
    pub(super) fn close_upstream(&mut self, now: u64, handle: u32, out: &mut dyn ProviderSink) {
        let Some(item) = self.items.get(handle) else { return };
        let (session, stream, domain) = (item.session, item.stream, item.domain());
        if self.detach(now, handle) {
            let close = CloseMsg::new(Domain(domain), stream);
            self.counters.closes += 1;
            self.send(session, out, |w| close.encode(w));
        }
    }

    /// Takes the item off its stream. False if it was on none.
    pub(super) fn detach(&mut self, now: u64, handle: u32) -> bool {
        let Some(item) = self.items.get_mut(handle) else { return false };
        let (id, upstream) = (item.session, item.upstream);
        item.leave();
        if self.direct.break_off(handle) && item.has(Bits::ANSWERED) && !item.is_instance() {
            item.bits.set(Bits::AGAIN, true);
        }
        item.upstream = Upstream::Idle;
        item.session = NO_SESSION;
        let (service, stream, snapshot) = (item.service, item.stream, item.has(Bits::SNAPSHOT));
        self.items.renew(handle);
        self.owed.start_over(handle);
        if upstream == Upstream::Idle {
            return false;
        }
        let Some(session) = self.sessions.get_mut(id as usize).and_then(Option::as_mut) else { return false };
        session.streams.set(stream, Stream::NONE);
        session.ids.give_back(stream, now);
        if let Some(offer) = session.offer_mut(service) {
            let count = if upstream == Upstream::Asked { &mut offer.outstanding } else { &mut offer.open };
            *count = count.saturating_sub(1);
            offer.snapshots = offer.snapshots.saturating_sub(u32::from(snapshot));
        }
        true
    }

    /// Turns the relaying of the item's updates on or off.
    pub(super) fn set_live(&mut self, handle: u32, live: bool) {
        let Some(item) = self.items.get(handle).filter(|item| item.upstream == Upstream::Open) else { return };
        if let Some(session) = self.sessions.get_mut(item.session as usize).and_then(Option::as_mut) {
            session.streams.set(item.stream, Stream::new(handle, live));
        }
    }

    /// An open or a reissue has not been answered, or an item has waited for a provider all that time.
    pub(super) fn request_timed_out(&mut self, now: u64, handle: u32, epoch: u32, out: &mut dyn ProviderSink) {
        let Some(item) = self.items.get(handle).filter(|item| item.epoch == epoch && is_watched(item)) else { return };
        match item.upstream {
            Upstream::Open if item.has(Bits::EXPECTING) && !item.has(Bits::IN_SET) => {
                if let Some(item) = self.items.get_mut(handle) {
                    item.bits.set(Bits::EXPECTING, false);
                }
                self.counters.request_timeouts += 1;
                self.want_image(now, handle, 0, out);
            }
            Upstream::Open => {}
            Upstream::Asked => {
                let service = item.service;
                self.counters.request_timeouts += 1;
                self.close_upstream(now, handle, out);
                self.report_timeout(handle);
                self.retry_later(now, handle);
                self.pump(now, service, out);
            }
            // A published item is asked of nobody.
            Upstream::Idle if item.has(Bits::PUBLISHED) => {}
            Upstream::Idle => self.report_timeout(handle),
        }
    }

    fn report_timeout(&mut self, handle: u32) {
        let Some(item) = self.items.get_mut(handle).filter(|item| !item.has(Bits::SUSPECT)) else { return };
        item.bits.set(Bits::SUSPECT, true);
        let text = "Provider has not answered in time: the request is repeated";
        let state = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::TIMEOUT, text);
        self.publish_status(handle, ALL, flags::PENDING_TOO, state);
    }

    /// Has the item asked for again after a pause that grows with its failures.
    pub(super) fn retry_later(&mut self, now: u64, handle: u32) {
        let Some(item) = self.items.get_mut(handle) else { return };
        let doubled = self.config.retry_interval.saturating_mul(1 << item.failures.min(20));
        item.failures = item.failures.saturating_add(1);
        let at = now.saturating_add(doubled.min(self.config.retry_max_interval));
        self.timers.set(at, Timer::Retry(handle, item.epoch));
    }

    pub(super) fn retry(&mut self, now: u64, handle: u32, epoch: u32, out: &mut dyn ProviderSink) {
        let Some(item) = self.items.get(handle).filter(|item| item.epoch == epoch && is_watched(item)) else { return };
        let service = item.service;
        if item.upstream == Upstream::Idle {
            self.enqueue(handle);
            self.pump(now, service, out);
        }
    }
}

impl Offer {
    /// Whether the provider has this domain in this quality.
    fn serves(&self, domain: u8, qos: KeyQos) -> bool {
        let quality = qos == KeyQos::default()
            || self.qos.iter().any(|&offered| KeyQos::from(offered) == qos)
            || (self.qos.is_empty() && KeyQos::from(Qos::REALTIME_TICK) == qos);
        quality && self.domains.contains(domain)
    }

    /// Whether another request fits.
    fn place(&self, snapshot: bool, default_window: u32) -> Result<(), Wait> {
        let window = self.open_window.unwrap_or(u64::from(default_window));
        let limit = self.open_limit.filter(|_| !(snapshot && self.snapshots_beyond_limit)).unwrap_or(u64::MAX);
        let free = if self.snapshots_beyond_limit { self.snapshots } else { 0 };
        let counted = (self.open + self.outstanding).saturating_sub(free);
        if !self.up {
            Err(Wait::Down)
        } else if !self.accepting || window == 0 {
            Err(Wait::NotAccepting)
        } else if u64::from(counted) >= limit {
            Err(Wait::OpenLimit)
        } else if u64::from(self.outstanding) >= window {
            Err(Wait::Window)
        } else {
            Ok(())
        }
    }
}
