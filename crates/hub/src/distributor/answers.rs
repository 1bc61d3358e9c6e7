//! What interactive providers send on item streams.

use super::direct::Ways;
use super::items::{Bits, Upstream};
use super::peers::slots;
use super::{Fault, ProviderSink, SourceDistributor};
use crate::stream::{ALL, Event, NO_GROUP, flags};
use rwf::msg::{Msg, MsgClass, RefreshFlags, RefreshMsg, StatusMsg};
use rwf::{DataState, State, StateCode, StreamState, peek};

impl SourceDistributor {
    /// A message on a stream that is none of login, directory and dictionaries.
    pub(super) fn item_message(
        &mut self,
        now: u64,
        id: u32,
        msg: &[u8],
        out: &mut dyn ProviderSink,
    ) -> Result<(), Fault> {
        let header = peek::header(msg)?;
        let stream = self.session(id).map(|session| session.streams.get(header.stream_id)).unwrap_or_default();
        if header.class == MsgClass::ACK {
            return self.provider_ack(id, msg);
        }
        let Some(handle) = stream.handle() else {
            self.counters.dropped_unknown_stream += 1;
            return Ok(());
        };
        match header.class {
            MsgClass::UPDATE => self.counters.dropped_not_live += 1,
            MsgClass::REFRESH => match Msg::decode(msg)? {
                Msg::Refresh(refresh) => self.item_refresh(now, handle, &refresh, msg, out),
                _ => self.counters.dropped_unexpected += 1,
            },
            MsgClass::STATUS => match Msg::decode(msg)? {
                Msg::Status(status) => self.item_status(now, handle, &status, msg, out),
                _ => self.counters.dropped_unexpected += 1,
            },
            MsgClass::GENERIC => {
                let has_key = peek::has_key(header.class, header.flags);
                self.hub.event(&Event::Generic { target: ALL, handle, has_key, rwf: msg });
            }
            _ => self.counters.dropped_unexpected += 1,
        }
        Ok(())
    }

    fn item_refresh(
        &mut self,
        now: u64,
        handle: u32,
        refresh: &RefreshMsg<'_>,
        rwf: &[u8],
        out: &mut dyn ProviderSink,
    ) {
        if refresh.state.stream.is_final() {
            self.final_refresh(now, handle, refresh, rwf, out);
            return;
        }
        let group = self.group_of(handle, Some(refresh.group_id));
        let service = self.first_answer(handle);
        let complete = refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE);
        let mut reissues = Vec::new();
        let Some(item) = self.items.get_mut(handle) else { return };
        let first = !item.has(Bits::IN_SET) || refresh.part_num == Some(0);
        if first {
            if item.has(Bits::IN_SET) && self.direct.break_off(handle) {
                item.bits.set(Bits::AGAIN, true);
            }
            let answer = refresh.flags.contains(RefreshFlags::SOLICITED) && item.unanswered > 0;
            // Another answer to a request that was repeated is nobody's any more.
            item.bits.set(Bits::SET_SOLICITED, answer && item.has(Bits::EXPECTING));
            if answer {
                item.unanswered -= 1;
                let owed = self.owed.answered(handle, &mut reissues);
                // Whose request it does not answer is served by the answers still to come, or by another request.
                item.bits.set(Bits::EXPECTING, owed && item.unanswered > 0);
                item.bits.set(Bits::AGAIN, owed || item.has(Bits::AGAIN));
            }
        }
        item.bits.set(Bits::IN_SET, !complete);
        let one_shot = refresh.state.stream == StreamState::NON_STREAMING || item.has(Bits::SNAPSHOT);
        let lost = item.has(Bits::LOST);
        let mut bits = 0;
        for (flag, on) in [
            (flags::FIRST, first),
            (flags::COMPLETE, complete),
            (flags::SNAPSHOT, one_shot),
            (flags::RECOVERY, lost),
            (flags::UNSOLICITED, !lost && !item.has(Bits::SET_SOLICITED)),
            (flags::CLEAR_CACHE, first && (lost || refresh.flags.contains(RefreshFlags::CLEAR_CACHE))),
        ] {
            if on {
                bits |= flag;
            }
        }
        let (good, suspect) = (refresh.state.data == DataState::OK, refresh.state.data == DataState::SUSPECT);
        // It is so to everyone on the stream, also to those that this answer is not for.
        let for_some = item.has(Bits::SET_SOLICITED) && !lost && !one_shot;
        let tells = suspect && for_some && item.has(Bits::ANSWERED) && !item.has(Bits::SUSPECT);
        let mut good_again = first && item.has(Bits::SUSPECT) && good;
        item.bits.set(Bits::ANSWERED, true);
        if first || suspect {
            item.bits.set(Bits::SUSPECT, suspect);
        } else if good && item.has(Bits::SUSPECT) {
            // It is good to those that are in this set, and a loss is news to them. Who is not in it was told by a status, and
            // is told otherwise by another image.
            item.bits.set(Bits::SUSPECT, false);
            item.bits.set(Bits::AGAIN, true);
            good_again = true;
        }
        if let Some(group) = group {
            item.group = group;
        }
        let (group, watched) = (item.group, item.interest != 0);
        if watched {
            if tells {
                self.publish_status(handle, ALL, 0, State { stream: StreamState::OPEN, ..refresh.state });
            }
            if good_again {
                // It says so to all who were told the contrary.
                self.direct.want_all(handle, self.items.get(handle).map_or(0, |item| item.interest));
            }
            for (slot, serial) in reissues {
                self.tell_answered(handle, slot, serial);
            }
            self.publish_refresh(handle, group, bits, rwf);
        }
        self.set_live(handle, watched && !one_shot);
        if complete {
            self.set_complete(now, handle, one_shot, out);
        }
        if let Some(service) = service {
            self.pump(now, service, out);
        }
    }

    /// Publishes a provider's refresh, or a part of it: to all P2PSs, but those that it is not for. A P2PS that has the item
    /// open tells what answers its reissue by the flags, and its watchers need whatever goes to open ones; one that has opened
    /// the item only now takes any image for its first. If the item ends with this set, the latter gets the end of it without the
    /// beginning, and so opens anew.
    fn publish_refresh(&mut self, handle: u32, group: u32, bits: u8, rwf: &[u8]) {
        self.counters.images += 1;
        let opened = self.owed.opened(handle);
        let to_open = bits & (flags::RECOVERY | flags::UNSOLICITED | flags::SNAPSHOT) != 0;
        let left_out = if to_open { opened } else { self.owed.all(handle) };
        let interest = self.items.get(handle).map_or(0, |item| item.interest);
        let snapshot = self.items.get(handle).is_some_and(|item| item.has(Bits::SNAPSHOT));
        if self.direct.is_on() && snapshot {
            // It is one P2PS's own.
            let position = self.hub.next_position();
            let ways = Ways { alone: interest, stream: 0 };
            return self.image_to(ways, Event::Image { target: ALL, handle, group, flags: bits, position, rwf });
        }
        if !to_open {
            let (first, complete) = (bits & flags::FIRST != 0, bits & flags::COMPLETE != 0);
            let served = self.direct.serve(handle, left_out | !interest, first, complete);
            let position = self.hub.next_position();
            return self.image_to(served, Event::Image { target: ALL, handle, group, flags: bits, position, rwf });
        }
        if left_out & interest == 0 {
            let position = self.hub.next_position();
            self.hub.event(&Event::Image { target: ALL, handle, group, flags: bits, position, rwf });
            return;
        }
        let ends = bits & flags::SNAPSHOT != 0 && bits & flags::COMPLETE != 0;
        let served = if ends { interest } else { interest & !left_out };
        for slot in slots(served) {
            let Some(target) = self.peers.id(slot) else { continue };
            let flags = if left_out & (1 as super::peers::Slots) << slot == 0 { bits } else { bits & !flags::FIRST };
            let position = self.hub.next_position();
            self.hub.event(&Event::Image { target, handle, group, flags, position, rwf });
        }
    }

    /// A refresh that ends its stream: what it says (a redirection names the other item in its key) goes to everyone.
    fn final_refresh(
        &mut self,
        now: u64,
        handle: u32,
        refresh: &RefreshMsg<'_>,
        rwf: &[u8],
        out: &mut dyn ProviderSink,
    ) {
        if refresh.state.stream == StreamState::CLOSED_RECOVER {
            self.final_state(now, handle, &refresh.state, None, out);
            return;
        }
        let Some(item) = self.items.get(handle) else { return };
        let (service, group, watched) = (item.service, item.group, item.interest != 0);
        self.detach(now, handle);
        if watched {
            let flags = flags::FIRST | flags::COMPLETE | flags::SNAPSHOT | flags::UNSOLICITED;
            let position = self.hub.next_position();
            self.hub.event(&Event::Image { target: ALL, handle, group, flags, position, rwf });
            self.counters.images += 1;
        }
        self.end_item(handle);
        self.pump(now, service, out);
    }

    /// The last part of a set has come.
    fn set_complete(&mut self, now: u64, handle: u32, one_shot: bool, out: &mut dyn ProviderSink) {
        let Some(item) = self.items.get_mut(handle) else { return };
        let again = item.has(Bits::AGAIN);
        let lost = item.has(Bits::LOST);
        item.bits.set(Bits::AGAIN | Bits::LOST, false);
        if lost && let Some(service) = self.services.get_mut(item.service) {
            service.lost_items -= 1;
        }
        if one_shot {
            self.detach(now, handle);
            self.end_item(handle);
        } else if again {
            self.want_image(now, handle, 0, out);
        }
    }

    /// The provider has answered a request: its window has room again. The service, if this was the first answer.
    fn first_answer(&mut self, handle: u32) -> Option<u16> {
        let item = self.items.get_mut(handle).filter(|item| item.upstream == Upstream::Asked)?;
        item.upstream = Upstream::Open;
        item.failures = 0;
        let service = item.service;
        let session = self.sessions.get_mut(item.session as usize).and_then(Option::as_mut)?;
        let offer = session.offer_mut(service)?;
        offer.outstanding = offer.outstanding.saturating_sub(1);
        offer.open += 1;
        Some(service)
    }

    /// Our number for the group that a message of the item names.
    fn group_of(&mut self, handle: u32, id: Option<&[u8]>) -> Option<u32> {
        let (id, item) = (id?, self.items.get(handle)?);
        let session = self.sessions.get_mut(item.session as usize).and_then(Option::as_mut)?;
        Some(session.group(item.service, id, &mut self.next_group))
    }

    fn item_status(&mut self, now: u64, handle: u32, status: &StatusMsg<'_>, rwf: &[u8], out: &mut dyn ProviderSink) {
        let is_end = |state: &State<'_>| state.stream.is_final() || state.stream == StreamState::NON_STREAMING;
        if let Some(state) = status.state.filter(is_end) {
            self.final_state(now, handle, &state, Some(rwf), out);
            return;
        }
        let group = self.group_of(handle, status.group_id);
        let service = self.first_answer(handle);
        let Some(item) = self.items.get_mut(handle) else { return };
        if let Some(group) = group {
            item.group = group;
        }
        let lost = item.has(Bits::LOST) && !item.has(Bits::IN_SET);
        if lost && status.state.is_some_and(|state| state.data == DataState::OK) {
            // What the P2PSs have is of before the loss: it is not good before the image that is to come says so.
            if let Some(service) = service {
                self.pump(now, service, out);
            }
            return;
        }
        if let Some(state) = status.state {
            item.bits.set(Bits::ANSWERED, true);
            if state.data != DataState::NO_CHANGE {
                item.bits.set(Bits::SUSPECT, state.data == DataState::SUSPECT);
            }
        }
        let group = group.unwrap_or(NO_GROUP);
        self.hub.event(&Event::ItemStatus { target: ALL, handle, group, flags: flags::PENDING_TOO, rwf });
        self.counters.statuses += 1;
        if let Some(service) = service {
            self.pump(now, service, out);
        }
    }

    /// The provider has ended the stream. `rwf` is its status, if that is what said so.
    fn final_state(
        &mut self,
        now: u64,
        handle: u32,
        state: &State<'_>,
        rwf: Option<&[u8]>,
        out: &mut dyn ProviderSink,
    ) {
        let Some(item) = self.items.get(handle) else { return };
        let service = item.service;
        let recoverable = state.stream == StreamState::CLOSED_RECOVER && !item.has(Bits::PRIVATE);
        self.detach(now, handle);
        if recoverable {
            // The provider's word on the item itself: an answer also to those that wait for their first.
            if let Some(item) = self.items.get_mut(handle).filter(|item| item.interest != 0 && !item.has(Bits::SUSPECT))
            {
                item.bits.set(Bits::SUSPECT, true);
                self.publish_status(handle, ALL, flags::PENDING_TOO, State { data: DataState::SUSPECT, ..*state });
            }
            self.lose_item(handle, state.code, state.text);
            self.retry_later(now, handle);
        } else {
            if let Some(rwf) = rwf {
                let (group, flags) = (NO_GROUP, flags::CLOSED);
                self.hub.event(&Event::ItemStatus { target: ALL, handle, group, flags, rwf });
                self.counters.statuses += 1;
            } else {
                self.publish_status(handle, ALL, flags::CLOSED, *state);
            }
            self.end_item(handle);
        }
        self.pump(now, service, out);
    }

    /// The item is without a provider, and will be asked for again: says so once, to those that have had an answer. The state
    /// is the actual one; that the stream lives on here is what the missing `CLOSED` flag says. An item that nobody watches is forgotten; a private stream ends.
    pub(super) fn lose_item(&mut self, handle: u32, code: StateCode, text: &[u8]) {
        let Some(item) = self.items.get(handle) else { return };
        if item.interest == 0 {
            self.forget_item(handle);
            return;
        }
        if item.has(Bits::PRIVATE) {
            let state = State { stream: StreamState::CLOSED_RECOVER, data: DataState::SUSPECT, code, text };
            self.publish_status(handle, ALL, flags::CLOSED, state);
            self.end_item(handle);
            return;
        }
        let tell = item.has(Bits::ANSWERED) && !item.has(Bits::SUSPECT);
        self.mark_lost(handle);
        if tell {
            let state = State { stream: StreamState::CLOSED_RECOVER, data: DataState::SUSPECT, code, text };
            self.publish_status(handle, ALL, 0, state);
        }
    }

    /// Notes that the item is lost: Suspect, and its next image is a recovery.
    pub(super) fn mark_lost(&mut self, handle: u32) {
        self.counters.recoveries += 1;
        let Some(item) = self.items.get_mut(handle) else { return };
        if !item.has(Bits::ANSWERED) {
            return;
        }
        item.bits.set(Bits::SUSPECT, true);
        if !item.has(Bits::LOST) {
            item.bits.set(Bits::LOST, true);
            if let Some(service) = self.services.get_mut(item.service) {
                service.lost_items += 1;
            }
        }
    }
}
