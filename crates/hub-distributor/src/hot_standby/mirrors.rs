//! Which items are to have a mirror, asking for it, and what its provider sends.

use super::{Filling, HotStandby, Mirror};
use crate::config::Balance;
use crate::ids::{GroupId, Handle};
use crate::items::{Items, Kind, Place};
use crate::providers::Stream;
use crate::sequence::Tail;
use crate::timers::Timer;
use crate::upstream::Wait;
use crate::{CloseReason, ProviderSink, SessionId, SourceDistributor};
use rwf::msg::{CloseMsg, Domain, MsgClass, RefreshFlags, RefreshMsg, RequestFlags, StatusMsg};
use rwf::{DataState, State, StreamState, peek};

/// Items that are looked at in a row for whether they have a mirror.
const LOOK_AT: usize = 1_000;

/// Which mirrors are meant.
enum Members {
    All,
    Group(GroupId),
}

impl HotStandby {
    /// The members of a group of mirrors belong to another from now on.
    pub(crate) fn merge_groups(&mut self, (id, service): (SessionId, u16), from: GroupId, to: GroupId) {
        let handles: Vec<Handle> = self.at(id, service).collect();
        for handle in handles {
            if let Some(mirror) = self.mirror_mut(handle).filter(|mirror| mirror.group == from) {
                mirror.group = to;
            }
        }
    }

    fn pop_filling(&mut self, service: u16) {
        if let Some(filling) = self.filling.get_mut(&service) {
            filling.queue.pop_front();
        }
    }

    /// The next items of a service go into its queue.
    fn find_without_mirror(&mut self, service: u16, items: &Items, budget: &mut usize) {
        // No item of the service is to have a mirror.
        let Some(Filling { below, .. }) = self.filling.get(&service) else { return };
        let below = (*below).min(items.of_service(service).len());
        let looked = below.min(LOOK_AT).min((*budget).max(1));
        *budget -= looked.min(*budget);
        let rest = below - looked;
        let handles: Vec<Handle> = items.of_service(service).skip(rest).take(looked).collect();
        if let Some(filling) = self.filling.get_mut(&service) {
            filling.below = rest;
            filling.queue.extend(handles);
        }
    }
}

impl SourceDistributor {
    /// Whether an item is one that hot standby is for.
    pub(crate) fn is_hot(&self, handle: Handle) -> bool {
        self.config.balance == Balance::Hot && matches!(self.items[handle].kind(), Kind::Shared { .. })
    }

    /// The provider in use has given its first answer on the item's stream.
    pub(crate) fn begin_pair(&mut self, handle: Handle) {
        if self.is_hot(handle) {
            self.hot_standby.add_pair(handle);
            let service = self.items[handle].service();
            self.hot_standby.filling.entry(service).or_default().queue.push_back(handle);
        }
    }

    /// The items of a service are to be looked through for those without a mirror: a provider has come, or takes requests again.
    pub(crate) fn want_mirrors(&mut self, service: u16) {
        if self.config.balance == Balance::Hot && self.providers.service(service).is_some_and(|known| !known.cached) {
            let items = self.items.of_service(service).len();
            self.hot_standby.look_through(service, items);
        }
    }

    /// Looks through a service again after a while: mirrors that were not answered, or ended, are asked for again.
    fn look_again_later(&mut self, service: u16) {
        if self.hot_standby.timed.insert(service) {
            let pause = self.providers.rules(&self.config, service).retry_max_interval;
            self.timers.set(self.now.saturating_add(pause), Timer::Mirrors(service));
        }
    }

    pub(crate) fn mirrors_timer(&mut self, service: u16) {
        self.hot_standby.timed.remove(&service);
        self.want_mirrors(service);
    }

    /// Asks for mirrors, as far as windows and this turn's requests go.
    pub(crate) fn work_mirrors(&mut self, out: &mut dyn ProviderSink) {
        let services: Vec<u16> = self.hot_standby.filling.keys().copied().collect();
        let mut budget = self.config.work_per_turn.max(1) as usize;
        for service in services {
            self.ask_mirrors(service, &mut budget, out);
        }
    }

    fn ask_mirrors(&mut self, service: u16, budget: &mut usize, out: &mut dyn ProviderSink) {
        while let Some(filling) = self.hot_standby.filling.get_mut(&service).filter(|filling| !filling.is_blocked) {
            if filling.queue.is_empty() && filling.below > 0 {
                self.hot_standby.find_without_mirror(service, &self.items, budget);
                if *budget == 0 {
                    return self.upstream.pacing().go_on_next_turn();
                }
                continue;
            }
            let Some(&handle) = filling.queue.front() else {
                self.hot_standby.filling.remove(&service);
                return;
            };
            if !self.lacks_mirror(service, handle, out) {
                self.hot_standby.pop_filling(service);
                continue;
            }
            let Some(place) = self.items[handle].place() else {
                hub_items::fault!("{handle:?} is open, and has no stream");
                self.hot_standby.pop_filling(service);
                continue;
            };
            match self.standby_for(handle, place.session) {
                Err(Wait::Window) => {
                    if let Some(filling) = self.hot_standby.filling.get_mut(&service) {
                        filling.is_blocked = true;
                    }
                }
                Err(_) => self.hot_standby.pop_filling(service),
                Ok(_) if !self.upstream.pacing().may_send() => return,
                Ok(session) => {
                    self.upstream.pacing().sent();
                    self.hot_standby.pop_filling(service);
                    self.ask_mirror(handle, session, out);
                }
            }
        }
    }

    /// Whether an item is to be asked for at its standby now. A mirror that was asked for and not answered in time is given up.
    fn lacks_mirror(&mut self, service: u16, handle: Handle, out: &mut dyn ProviderSink) -> bool {
        let Some(item) = self.items.get(handle) else { return false };
        let place = item.place();
        if item.service() != service || !item.is_open() || !item.is_answered() || !self.is_hot(handle) {
            return false;
        }
        // The item was opened before there was hot standby, and perhaps through a view.
        if self.upstream.is_narrowed(handle) {
            return false;
        }
        if !self.hot_standby.has(handle) {
            self.hot_standby.add_pair(handle);
            self.set_relaying(handle);
        }
        let Some(mirror) = self.hot_standby.mirror(handle) else { return true };
        let at = mirror.place.session;
        if mirror.asked_at.is_none() && place.is_some_and(|used| self.is_mirrored_better(handle, used.session, at)) {
            self.leave_mirror(handle, true, out);
            return true;
        }
        let asked_at = mirror.asked_at;
        let in_vain = asked_at.is_some_and(|at| {
            self.now.saturating_sub(at) >= self.providers.rules(&self.config, service).request_timeout
        });
        if in_vain {
            self.counters.request_timeouts += 1;
            self.leave_mirror(handle, true, out);
        } else if asked_at.is_some() {
            self.look_again_later(service);
        }
        in_vain
    }

    /// Whether a provider stands by for an item that comes before the one that its mirror is at.
    fn is_mirrored_better(&self, handle: Handle, used: SessionId, at: SessionId) -> bool {
        let order = self.providers[self.items[handle].service()].providers();
        let rank = |session| order.iter().position(|&known| known == session);
        self.standby_for(handle, used).is_ok_and(|better| better != at && rank(better) < rank(at))
    }

    fn ask_mirror(&mut self, handle: Handle, id: SessionId, out: &mut dyn ProviderSink) {
        let service = self.items[handle].service();
        let session = &mut self.providers[id];
        let place = Place { session: id, stream: session.ids.take(self.now) };
        let before = session.streams.set(place.stream, Stream::of_mirror(handle));
        assert_eq!(before, Stream::NONE, "a stream id is free when it is taken");
        if let Some(offer) = session.offer_mut(service) {
            offer.asked(false);
        }
        let (group, tail) = (GroupId::NONE, Tail::default());
        let mirror = Mirror {
            place,
            asked_at: Some(self.now),
            group,
            is_whole: false,
            good_since: Some(0),
            returns_at: None,
            tail,
        };
        self.hot_standby.set_mirror(handle, service, mirror);
        self.counters.mirror_requests += 1;
        self.send_request_to(place, handle, RequestFlags::NONE, out);
        self.look_again_later(service);
    }

    /// An item has no mirror any more, if it had one: its stream is closed there, or its provider has it no more.
    pub(crate) fn leave_mirror(&mut self, handle: Handle, close: bool, out: &mut dyn ProviderSink) {
        let service = self.items[handle].service();
        // Most items have none.
        let Some(mirror) = self.hot_standby.take_mirror(handle, service) else { return };
        self.free_mirror_stream(handle, mirror.place, mirror.asked_at.is_some(), close, out);
        self.hot_standby.unblock(service);
    }

    /// Frees a stream that is, or was, a mirror's.
    pub(super) fn free_mirror_stream(
        &mut self,
        handle: Handle,
        place: Place,
        unanswered: bool,
        close: bool,
        out: &mut dyn ProviderSink,
    ) {
        let (service, domain) = (self.items[handle].service(), self.items[handle].domain());
        let session = &mut self.providers[place.session];
        session.streams.set(place.stream, Stream::NONE);
        session.ids.give_back(place.stream, self.now);
        if let Some(offer) = session.offer_mut(service) {
            offer.left(unanswered, false);
        }
        if close {
            let close = CloseMsg::new(Domain(domain), place.stream.0);
            self.counters.closes += 1;
            self.send(place.session, out, |w| close.encode(w));
        }
    }

    /// The provider of mirrors has them no more: as many as this turn may look at.
    pub(crate) fn leave_mirrors_at(
        &mut self,
        (session, service): (SessionId, u16),
        at_most: usize,
        close: bool,
        out: &mut dyn ProviderSink,
    ) {
        let handles: Vec<Handle> = self.hot_standby.at(session, service).take(at_most).collect();
        for handle in handles {
            // A request that has crossed with the withdrawal may open the stream yet.
            let unanswered = self.hot_standby.mirror(handle).is_some_and(|mirror| mirror.asked_at.is_some());
            self.leave_mirror(handle, close || unanswered, out);
        }
        self.want_mirrors(service);
    }

    /// A message on the stream of a mirror.
    pub(crate) fn mirror_message(
        &mut self,
        id: SessionId,
        handle: Handle,
        header: &peek::Header,
        msg: &[u8],
        out: &mut dyn ProviderSink,
    ) -> Result<(), CloseReason> {
        match header.class {
            MsgClass::UPDATE => {
                self.counters.mirror_updates += 1;
                self.note_data(id, self.items[handle].service(), out);
                if self.config.sequence_numbers {
                    self.hot_standby.keep_update(handle, peek::update_seq_num(header, msg), msg);
                }
            }
            MsgClass::REFRESH => {
                let refresh = RefreshMsg::decode(msg)?;
                let is_gone = !self.providers.is_reached(id, self.items[handle].service());
                if is_gone || refresh.state.stream != StreamState::OPEN {
                    // The parts that are to follow of an image that ends its stream have a stream until the last one.
                    let goes_on =
                        !refresh.state.stream.is_final() && !refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE);
                    self.mirror_ended(handle, is_gone || goes_on, out);
                } else {
                    if !refresh.flags.contains(RefreshFlags::SOLICITED) {
                        self.note_data(id, self.items[handle].service(), out);
                    }
                    self.mirror_refresh(handle, &refresh, out);
                }
            }
            MsgClass::STATUS => self.mirror_status(handle, &StatusMsg::decode(msg)?, out),
            _ => self.counters.dropped_unexpected += 1,
        }
        Ok(())
    }

    fn mirror_ended(&mut self, handle: Handle, close: bool, out: &mut dyn ProviderSink) {
        let service = self.items[handle].service();
        self.leave_mirror(handle, close, out);
        self.look_again_later(service);
        self.send_queued(service, out);
    }

    pub(crate) fn mirror_refresh(&mut self, handle: Handle, refresh: &RefreshMsg<'_>, out: &mut dyn ProviderSink) {
        self.mirror_answered(handle, Some(refresh.group_id), out);
        // The first answer may have had the mirror take over, or go.
        let Some(mirror) = self.hot_standby.mirror_mut(handle) else { return };
        let begins = refresh.part_num.is_none_or(|part| part == 0);
        let freed = if begins { mirror.tail.bytes() } else { 0 };
        if begins {
            mirror.tail = Tail::behind(refresh.seq_num);
            mirror.is_whole = false;
        }
        mirror.is_whole |= refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE);
        self.hot_standby.tail_bytes -= freed;
        let is_suspect = refresh.state.data == DataState::SUSPECT;
        self.mirror_says(handle, if is_suspect { DataState::SUSPECT } else { DataState::OK }, out);
    }

    pub(crate) fn mirror_status(&mut self, handle: Handle, status: &StatusMsg<'_>, out: &mut dyn ProviderSink) {
        let is_end = |state: &State<'_>| state.stream.is_final() || state.stream == StreamState::NON_STREAMING;
        if status.state.as_ref().is_some_and(is_end) {
            return self.mirror_ended(handle, false, out);
        }
        self.mirror_answered(handle, status.group_id, out);
        if let Some(state) = status.state {
            self.mirror_says(handle, state.data, out);
        }
    }

    /// The provider has said something on the stream of a mirror: its window has room again, if that is its first word.
    fn mirror_answered(&mut self, handle: Handle, group: Option<&[u8]>, out: &mut dyn ProviderSink) {
        let service = self.items[handle].service();
        // The mirror has gone since its provider wrote.
        let Some(mirror) = self.hot_standby.mirror_mut(handle) else { return };
        let (session, is_first) = (mirror.place.session, mirror.asked_at.take().is_some());
        if let Some(group) = group {
            mirror.group = self.providers.group(session, service, group);
        }
        if is_first {
            if let Some(offer) = self.providers[session].offer_mut(service) {
                offer.answered();
            }
            self.hot_standby.unblock(service);
            self.send_queued(service, out);
        }
    }

    /// A state for all items of a service, or of a group of it, at the provider of their mirrors.
    pub(crate) fn mirrors_state(
        &mut self,
        (id, service): (SessionId, u16),
        group: Option<GroupId>,
        state: State<'_>,
        out: &mut dyn ProviderSink,
    ) {
        let members = group.map_or(Members::All, Members::Group);
        let handles: Vec<Handle> = self.hot_standby.at(id, service).collect();
        self.counters.items_touched += handles.len() as u64;
        for handle in handles {
            let Some(mirror) = self.hot_standby.mirror_mut(handle) else { continue };
            if matches!(members, Members::Group(group) if group != mirror.group) || mirror.asked_at.is_some() {
                continue;
            }
            if state.stream.is_final() {
                self.leave_mirror(handle, false, out);
                self.look_again_later(service);
            } else {
                self.mirror_says(handle, state.data, out);
            }
        }
    }
}
