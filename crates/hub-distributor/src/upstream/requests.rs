//! Requests to interactive providers: how many at a time, and again when they failed.

use crate::ids::{Epoch, Handle, Slot, StreamId};
use crate::items::{Item, Place};
use crate::providers::Stream;
use crate::stream::{ALL, Event, flags};
use crate::timers::Timer;
use crate::upstream::Wait;
use crate::{ProviderSink, SessionId, SourceDistributor};
use rwf::msg::{CloseMsg, Domain, RequestFlags, RequestMsg};
use rwf::{DataState, State, StateCode, StreamState};

/// The state for those whose request a provider has not answered.
const UNANSWERED: State<'static> = State {
    stream: StreamState::OPEN,
    data: DataState::SUSPECT,
    code: StateCode::TIMEOUT,
    text: b"Provider has not answered in time: the request is repeated",
};
/// The state for those whose item no provider was asked for, since others came first.
const NO_TURN: State<'static> = State {
    stream: StreamState::OPEN,
    data: DataState::SUSPECT,
    code: StateCode::NONE,
    text: b"Provider is busy with other requests: the item waits for its turn",
};
/// The state for those who have come in the middle of a set that does not end.
const UNFINISHED: State<'static> = State {
    stream: StreamState::OPEN,
    data: DataState::SUSPECT,
    code: StateCode::TIMEOUT,
    text: b"Provider has begun an image and does not end it: waiting for the rest",
};

/// The state for those whose item was asked for too often.
const GIVEN_UP: State<'static> = State {
    stream: StreamState::CLOSED,
    data: DataState::SUSPECT,
    code: StateCode::NONE,
    text: b"Item was asked for as often as is allowed (retryLimit), in vain",
};

/// How many items without a place are passed over before the queue is left to the next turn.
const LOOK_PAST: usize = 32;

impl Item {
    /// Whether an item waits in a queue, and those who wait for it have heard nothing.
    fn is_untold(&self) -> bool {
        self.is_queued() && self.is_watched() && !self.is_suspect() && self.is_waited_for()
    }
}

impl SourceDistributor {
    /// Puts an item into its service's queue, if it is in none.
    pub(crate) fn enqueue(&mut self, handle: Handle) {
        if !self.items[handle].queue() || self.upstream.doubts.enqueue(handle, &self.items) {
            return;
        }
        let item = &self.items[handle];
        let service = item.service();
        self.providers[service].queue_back(handle, item.is_answered());
        if self.items[handle].is_untold() {
            let count = self.items.of_service(service).len();
            let items = &self.items;
            let waits = |handle| items.get(handle).is_some_and(|item| item.service() == service && item.is_queued());
            self.providers[service].note_untold(handle, count, waits);
        }
    }

    /// As [`Self::ask_queued`]; then those who wait longer than for moments hear why.
    pub(crate) fn send_queued(&mut self, service: u16, out: &mut dyn ProviderSink) {
        self.ask_queued(service, out);
        self.explain_queue(service);
    }

    /// Asks providers for what waits in a service's queue, as far as windows and this turn's requests go.
    pub(crate) fn ask_queued(&mut self, service: u16, out: &mut dyn ProviderSink) {
        let (mut passed, mut set_aside) = (Vec::new(), 0);
        if self.providers[service].is_settling {
            return;
        }
        while passed.len() < LOOK_PAST && self.providers[service].is_waiting() && self.upstream.pacing.may_send() {
            let turn = self.upstream.pacing.take();
            let Some(handle) = self.providers[service].next_queued(turn) else { break };
            // An item in a queue may have ended since, its handle be another's.
            if !self.items.get(handle).is_some_and(|item| item.service() == service && item.is_queued()) {
                continue;
            }
            match self.route(handle) {
                Ok(session) => {
                    self.upstream.pacing.sent();
                    self.ask(handle, session, out);
                }
                // An item that no provider has does not stand in the way of one that one may have in a moment.
                Err(Wait::NoProvider) => {
                    let items = self.items.of_service(service).len();
                    self.providers[service].set_aside(handle, items);
                    set_aside += 1;
                    if set_aside == self.config.work_per_turn.max(1) {
                        self.upstream.pacing.go_on_next_turn();
                        break;
                    }
                }
                Err(Wait::OpenLimit) if self.preempt_queued(handle, out) => {}
                Err(_) => passed.push(handle),
            }
            // With one provider what stops one item stops all, as a rule; look past it only for what is different.
            if passed.len() == 1 && self.providers.is_simple(&self.config, service) {
                break;
            }
        }
        for handle in passed.into_iter().rev() {
            let answered = self.items[handle].is_answered();
            self.providers[service].queue_front(handle, answered);
        }
        self.upstream.doubts.note_change();
    }

    /// What waits in a service's queue, and was to wait for moments when it came: who waits for it hears why, once that takes longer. An open
    /// limit may have been reached by those that were before it.
    pub(crate) fn explain_queue(&mut self, service: u16) {
        if self.providers[service].is_settling {
            return;
        }
        let mut kept = Vec::new();
        while kept.len() < LOOK_PAST && self.upstream.pacing.may_go_on() {
            let Some(handle) = self.providers[service].next_untold() else { break };
            let is_here = self.items.get(handle).is_some_and(|item| item.service() == service);
            if !is_here || !self.items[handle].is_untold() {
                continue;
            }
            if self.reason_to_wait(handle).is_none() {
                kept.push(handle);
                if self.providers.is_simple(&self.config, service) {
                    break;
                }
            } else if self.providers.spend_one() {
                self.explain_wait(handle, ALL);
            } else {
                kept.push(handle);
                self.upstream.pacing.go_on_next_turn();
                break;
            }
        }
        for handle in kept.into_iter().rev() {
            self.providers[service].untold_front(handle);
        }
    }

    /// Tells those of one P2PS, or of all, who wait for an image why none comes, if that may be so for long.
    pub(crate) fn explain_wait(&mut self, handle: Handle, target: u16) {
        // The item does not wait, or for moments only.
        let Some(state) = self.reason_to_wait(handle) else { return };
        if target != ALL && self.content.has_stale_image(handle, &self.items[handle]) {
            // The P2PS was given the image of before the loss, which says so.
            return;
        }
        self.publish_status(handle, target, flags::WAITING_ONLY, state);
        if target == ALL {
            self.items[handle].explain_wait();
        }
    }

    /// Why an item of an interactive service gets no image now. What takes a moment only is no reason: a timer runs meanwhile.
    fn reason_to_wait(&self, handle: Handle) -> Option<State<'static>> {
        let item = &self.items[handle];
        if item.is_asked() && item.is_suspect() {
            let text = "Provider is asked for the item again, and has not answered yet";
            return Some(State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, text));
        }
        if !item.is_waiting() || item.is_cached() || item.is_cached_snapshot() {
            return None;
        }
        let why = self.route(handle).err().and_then(|wait| wait.text(self.config.status_texts));
        let in_doubt =
            (StateCode::NONE, "Provider went when it was asked for the item: it is asked again after all others");
        let why = why.or(self.upstream.doubts.has(item).then_some(in_doubt));
        let lost = (StateCode::NONE, "Item was lost, or closed for recovery: it is asked for again");
        let (code, text) = why.or(item.is_suspect().then_some(lost))?;
        Some(State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, code, text))
    }

    /// Items that were lost while somebody waited for an image, and are in a queue now: who waits hears why, at once or when the request
    /// timeout is over.
    pub(crate) fn explain_waits(&mut self, handles: &[Handle]) {
        for &handle in handles {
            let Some(item) = self.items.get(handle).filter(|item| item.is_watched() && item.is_waiting()) else {
                continue;
            };
            let timer = Timer::Request(handle, item.epoch());
            let timeout = self.providers.rules(&self.config, self.items[handle].service()).request_timeout;
            self.timers.set(self.now.saturating_add(timeout), timer);
            self.explain_wait(handle, ALL);
        }
    }

    /// Sends the request for an item to a session.
    pub(super) fn ask(&mut self, handle: Handle, id: SessionId, out: &mut dyn ProviderSink) {
        let item = &mut self.items[handle];
        let session = &mut self.providers[id];
        let stream = session.ids.take(self.now);
        let before = session.streams.set(stream, Stream::new(handle, false));
        assert_eq!(before, Stream::NONE, "a stream id is free when it is taken");
        if let Some(offer) = session.offer_mut(item.service()) {
            offer.asked(item.is_snapshot());
        }
        self.items.ask(handle, id, stream);
        self.upstream.doubts.note_asked(handle, &self.items[handle], id);
        self.await_answer(handle);
        self.counters.requests += 1;
        self.send_request(handle, RequestFlags::NONE, out);
    }

    /// Sets the timer for what the provider is asked for now.
    pub(crate) fn await_answer(&mut self, handle: Handle) {
        let timer = Timer::Request(handle, self.items.renew(handle));
        let timeout = self.providers.rules(&self.config, self.items[handle].service()).request_timeout;
        self.timers.set(self.now.saturating_add(timeout), timer);
    }

    /// Writes the request for an item as its P2PSs want it together, on the stream that it has.
    fn send_request(&mut self, handle: Handle, extra: RequestFlags, out: &mut dyn ProviderSink) {
        let Some(place) = self.items[handle].place() else {
            return hub_items::fault!("a request for {handle:?}, which has no stream");
        };
        self.send_request_to(place, handle, extra, out);
    }

    /// Writes the request for an image once more that is asked for, and whose answer was of no use.
    pub(super) fn send_request_again(&mut self, handle: Handle, out: &mut dyn ProviderSink) {
        debug_assert!(self.items[handle].is_expecting(), "an image that nobody waits for: {handle:?}");
        self.send_request(handle, RequestFlags::NONE, out);
    }

    /// As [`Self::send_request`], on a stream that the item has or is to have.
    pub(crate) fn send_request_to(
        &mut self,
        place: Place,
        handle: Handle,
        extra: RequestFlags,
        out: &mut dyn ProviderSink,
    ) {
        let item = &self.items[handle];
        if !self.providers.is_reached(place.session, item.service()) {
            // The item is about to leave.
            return;
        }
        let session = &self.providers[place.session];
        let key = item.item_key();
        let offer = session.offer(item.service());
        let provider_id = offer.map_or(0, |offer| offer.provider_id);
        let states_no_qos = offer.is_some_and(|offer| offer.states_no_qos);
        // The cache holds whole images, and needs every update; and a standby is to have what the other has.
        let whole = self.content.is_cached(handle) || self.is_hot(handle);
        let (views, can_pause) = if whole { (false, false) } else { session.views_and_pauses() };
        let streams = !item.is_snapshot() || !self.config.takes_snapshots(&self.providers[item.service()].name);
        let demands = self.upstream.merge.merged(handle, item.interest().len());
        let mut flags = extra;
        for flag in
            [RequestFlags::QUALIFIED_STREAM, RequestFlags::MSG_KEY_IN_UPDATES, RequestFlags::CONF_INFO_IN_UPDATES]
        {
            flags.set(flag, demands.flags.contains(flag));
        }
        flags.set(RequestFlags::STREAMING, streams);
        flags.set(RequestFlags::PRIVATE_STREAM, item.is_private());
        let pauses = demands.pause && can_pause && !item.is_snapshot();
        flags.set(RequestFlags::PAUSE, pauses);
        let (forwards, route) =
            (self.providers.rules(&self.config, item.service()).forward_priority, self.config.route(session.origin));
        let mut request = RequestMsg {
            flags,
            priority: forwards.then(|| route.map_or(demands.priority, |route| route.priority(demands.priority))),
            qos: key.qos.to_qos().filter(|_| !states_no_qos),
            key: key.msg_key(provider_id),
            ext_header: demands.ext_header,
            ..RequestMsg::new(Domain(key.domain), place.stream.0)
        };
        let (priority, is_view) = (demands.priority, demands.flags.contains(RequestFlags::HAS_VIEW));
        if !is_view || views {
            request.flags.set(RequestFlags::HAS_VIEW, is_view);
            (request.container, request.body) = (demands.container, demands.body);
        }
        if let Some(bytes) = self.composer.write(&mut self.counters, |w| request.encode(w)) {
            self.posts.waiting.flush(place.session, out);
            out.send(place.session, bytes);
        }
        self.upstream.merge.note_sent(handle, is_view && views, pauses, priority);
    }

    /// A P2PS needs an image of an item that it has open.
    pub(crate) fn want_image(&mut self, handle: Handle, slot: Slot, out: &mut dyn ProviderSink) {
        if self.items[handle].is_cached() {
            self.answer_from_cache(handle, slot);
        } else if !self.answer_from_held(handle, slot) {
            self.want_another_image(handle, out);
        }
    }

    /// Watchers of an interactive item need another image: after the set under way, by the request under way, or by one more.
    pub(crate) fn want_another_image(&mut self, handle: Handle, out: &mut dyn ProviderSink) {
        let item = &mut self.items[handle];
        if !item.is_watched() {
            return;
        }
        if item.in_set() {
            item.want_another();
            self.await_set(handle);
        } else if item.is_open() && !item.is_expecting() && !item.is_snapshot() {
            self.request_image(handle, out);
        }
    }

    /// Somebody waits for the end of the set under way: its provider may leave it at that.
    pub(crate) fn await_set(&mut self, handle: Handle) {
        let timer = Timer::Request(handle, self.items[handle].epoch());
        let timeout = self.providers.rules(&self.config, self.items[handle].service()).request_timeout;
        self.timers.set(self.now.saturating_add(timeout), timer);
    }

    /// Asks the provider for another image of an open item.
    fn request_image(&mut self, handle: Handle, out: &mut dyn ProviderSink) {
        self.items[handle].request_image();
        self.await_answer(handle);
        self.counters.reissues += 1;
        self.send_request(handle, RequestFlags::NONE, out);
    }

    /// The demands of P2PSs for an open item have changed: view, priority, pause.
    pub(crate) fn reissue(&mut self, handle: Handle, with_image: bool, out: &mut dyn ProviderSink) {
        let item = &mut self.items[handle];
        if !(item.is_asked() || item.is_open()) {
            // The request that is still to be sent asks for all of it; a held image is whole.
            return;
        }
        let due = item.is_expecting() || item.in_set();
        if with_image && self.content.is_current(handle, &self.items[handle]) {
            // The image comes out of the cache, and is whole.
            return;
        }
        let item = &mut self.items[handle];
        if with_image && due {
            // The image under way was asked for with the old view: another one has to follow it.
            item.want_another();
        }
        if with_image && !due {
            self.request_image(handle, out);
        } else {
            self.send_request(handle, RequestFlags::NO_REFRESH, out);
        }
    }

    /// Tells the provider of an open item what priority its P2PSs want together, where no request has: one has come whose image was held, or
    /// one is gone.
    pub(crate) fn renew_priority(&mut self, handle: Handle, out: &mut dyn ProviderSink) {
        let item = &self.items[handle];
        let is_due = item.is_open() && self.upstream.merge.is_priority_due(handle, item.interest().len());
        if is_due && self.providers.rules(&self.config, self.items[handle].service()).forward_priority {
            self.reissue(handle, false, out);
        }
    }

    /// A P2PS has opened an item of which less was asked for so far: what answers that is not for it.
    pub(crate) fn owe_open(&mut self, handle: Handle, slot: Slot) {
        let item = &self.items[handle];
        if item.is_asked() || item.is_open() {
            self.upstream.pending.note(handle, slot, None, item.unanswered());
        }
    }

    /// A P2PS has reissued with a number, and wants an image of all that it asks for now.
    pub(crate) fn owe_reissue(&mut self, handle: Handle, slot: Slot, serial: u32) {
        let is_held = self.items[handle].is_cached()
            || self.content.is_current(handle, &self.items[handle])
            || self.content.has_stale_image(handle, &self.items[handle]);
        let item = &self.items[handle];
        if is_held {
            // Held images are whole.
            self.tell_answered(handle, slot, serial);
        } else if !item.is_ended() {
            self.upstream.pending.note(handle, slot, Some(serial), item.unanswered());
        }
    }

    /// Tells a P2PS that the images of an item hold what it has reissued for from now on. If it is gone, nobody is to be told.
    pub(crate) fn tell_answered(&mut self, handle: Handle, slot: Slot, serial: u32) {
        if let Some(target) = self.links.id(slot) {
            let position = self.hub.next_position();
            self.hub.event(&Event::Answered { target, handle: handle.0, serial, position });
        }
    }

    /// Closes the item's stream at its interactive provider, if it has one. The session that it was at.
    pub(crate) fn close_upstream(&mut self, handle: Handle, out: &mut dyn ProviderSink) -> Option<SessionId> {
        let domain = self.items[handle].domain();
        let (session, stream) = self.detach(handle, out)?;
        self.upstream.doubts.forget_unanswered(handle, session);
        let close = CloseMsg::new(Domain(domain), stream.0);
        self.counters.closes += 1;
        self.send(session, out, |w| close.encode(w));
        Some(session)
    }

    /// Takes the item off its stream at an interactive provider, and frees that. The stream that it had.
    pub(crate) fn detach(&mut self, handle: Handle, out: &mut dyn ProviderSink) -> Option<(SessionId, StreamId)> {
        self.leave_mirror(handle, true, out);
        let left = self.leave_stream(handle)?;
        let service = self.items[handle].service();
        let session = &mut self.providers[left.place.session];
        let before = session.streams.set(left.place.stream, Stream::NONE);
        assert_eq!(before.handle(), Some(handle), "the stream of an item is its own");
        session.ids.give_back(left.place.stream, self.now);
        if let Some(offer) = session.offer_mut(service) {
            offer.left(left.unanswered, left.snapshot);
        }
        Some((left.place.session, left.place.stream))
    }

    /// The item is off its stream, for all that it knows: the session may be gone.
    pub(crate) fn leave_stream(&mut self, handle: Handle) -> Option<crate::items::Left> {
        self.content.lose_image(handle);
        let left = self.items.leave(handle);
        let item = &mut self.items[handle];
        if self.upstream.left_stream(handle) && item.may_recover_image() {
            item.want_another();
        }
        self.items.renew(handle);
        left
    }

    /// Turns the relaying of the item's updates on or off, if it is open.
    pub(crate) fn set_live(&mut self, handle: Handle, live: bool) {
        let item = &self.items[handle];
        if let Some(place) = item.place().filter(|_| item.is_open()) {
            debug_assert!(!live || item.is_watched(), "updates are relayed to nobody");
            let stream = match (self.is_looked_at(handle), self.content.is_cached(handle)) {
                (true, _) => Stream::of_careful(handle, live),
                (false, true) => Stream::of_cached(handle, live),
                (false, false) => Stream::new(handle, live),
            };
            self.providers[place.session].streams.set(place.stream, stream);
        }
    }

    /// Whether the item's updates are looked at before they are relayed. Those of an item that is cached, and no more than that, are not.
    pub(crate) fn is_looked_at(&self, handle: Handle) -> bool {
        self.is_filtered(handle)
            || self.providers.conflation_of(&self.items[handle]).is_some()
            || self.has_headlines(handle)
            || self.hot_standby.has(handle)
            || self.is_monitored(handle)
    }

    /// An open or a reissue has not been answered, or an item has waited for a provider all that time.
    pub(crate) fn request_timed_out(&mut self, handle: Handle, epoch: Epoch, out: &mut dyn ProviderSink) {
        // The item may be gone, or about something else, since the timer was set.
        let Some(item) = self.items.get_mut(handle).filter(|item| item.epoch() == epoch && item.is_watched()) else {
            return;
        };
        if item.give_up_image() {
            self.counters.request_timeouts += 1;
            if item.is_taken_over() {
                // Watchers were told nothing of the takeover, since its image was a matter of moments.
                item.explain_wait();
                self.publish_status(handle, ALL, 0, UNANSWERED);
            }
            self.publish_status(handle, ALL, flags::WAITING_ONLY, UNANSWERED);
            self.hot_standby.held_too_long(handle);
            self.want_another_image(handle, out);
        } else if item.in_set() || item.is_cached_snapshot() {
            self.publish_status(handle, ALL, flags::WAITING_ONLY, UNFINISHED);
        } else if item.is_asked() {
            let service = item.service();
            self.counters.request_timeouts += 1;
            let session = self.close_upstream(handle, out);
            self.report_timeout(handle);
            self.retry_later(handle, session);
            self.send_queued(service, out);
        } else if item.is_waiting() && !item.is_cached() {
            self.report_wait(handle);
        }
    }

    /// An item waits that no provider was asked for: those who wait for it hear why, once.
    fn report_wait(&mut self, handle: Handle) {
        let item = &self.items[handle];
        if item.is_suspect() && !item.is_waited_for() {
            return;
        }
        let state = self.reason_to_wait(handle).unwrap_or(NO_TURN);
        self.items[handle].explain_wait();
        self.publish_status(handle, ALL, flags::WAITING_ONLY, state);
    }

    /// Tells those who wait for an item that it takes longer: once, and those who have come after a loss.
    fn report_timeout(&mut self, handle: Handle) {
        let item = &mut self.items[handle];
        if item.is_suspect() && !item.is_waited_for() {
            return;
        }
        item.explain_wait();
        self.publish_status(handle, ALL, flags::WAITING_ONLY, UNANSWERED);
    }

    /// Has the item asked for again after a pause that grows with its failures: elsewhere, if it can be had elsewhere. One that was asked
    /// for too often ends.
    pub(crate) fn retry_later(&mut self, handle: Handle, failed_at: Option<SessionId>) {
        if let Some(session) = failed_at {
            self.upstream.note_failure(handle, session);
        }
        let rules = self.providers.rules(&self.config, self.items[handle].service());
        let item = &mut self.items[handle];
        let failures = item.fail();
        if rules.retry_limit > 0 && u32::from(failures) >= rules.retry_limit {
            self.counters.given_up += 1;
            self.publish_end(handle, &GIVEN_UP, None);
            return self.end_item(handle);
        }
        let doubled = self.config.retry_interval.saturating_mul(1 << failures.min(20));
        let at = self.now.saturating_add(doubled.min(rules.retry_max_interval));
        self.timers.set(at, Timer::Retry(handle, item.epoch()));
    }

    /// The pause after a failure is over. The item may be gone, or asked for already, since the timer was set.
    pub(crate) fn retry(&mut self, handle: Handle, epoch: Epoch, out: &mut dyn ProviderSink) {
        let due = |item: &&Item| item.epoch() == epoch && item.is_watched() && item.is_waiting();
        // The timer was set for something else.
        let Some(service) = self.items.get(handle).filter(due).map(Item::service) else { return };
        self.enqueue(handle);
        self.send_queued(service, out);
    }
}
