//! Messages of interactive providers on item streams.

use super::point_to_point::Recipients;
use crate::ids::{GroupId, Handle, Slot, StreamId};
use crate::items::{Former, News, P2psSet, Part};
use crate::stream::{ALL, Event, flags};
use crate::{CloseReason, ProviderSink, SessionId, SourceDistributor};
use rwf::msg::{MsgClass, RefreshFlags, RefreshMsg, StatusMsg};
use rwf::{DataState, State, StateCode, StreamState, peek};

impl SourceDistributor {
    /// A message on a stream that is none of login, directory and dictionaries.
    pub(crate) fn item_message(
        &mut self,
        id: SessionId,
        msg: &[u8],
        out: &mut dyn ProviderSink,
    ) -> Result<(), CloseReason> {
        let header = peek::header(msg)?;
        if header.class == MsgClass::ACK {
            return self.provider_ack(id, msg);
        }
        let stream = self.providers[id].streams.get(StreamId(header.stream_id));
        let Some(handle) = stream.mirror().or(stream.handle()) else {
            self.counters.dropped_unknown_stream += 1;
            return Ok(());
        };
        let Some(headline) = self.as_headline(handle, header.class, msg) else {
            return self.message_of((id, handle), &header, msg, out);
        };
        let header = peek::header(&headline)?;
        let taken = self.message_of((id, handle), &header, &headline, out);
        self.content.give_back_headline(headline);
        taken
    }

    /// A message of an item or of its mirror.
    fn message_of(
        &mut self,
        (id, handle): (SessionId, Handle),
        header: &peek::Header,
        msg: &[u8],
        out: &mut dyn ProviderSink,
    ) -> Result<(), CloseReason> {
        if self.providers[id].streams.get(StreamId(header.stream_id)).mirror().is_some() {
            return self.mirror_message(id, handle, header, msg, out);
        }
        match header.class {
            MsgClass::UPDATE => {
                self.note_data(id, self.items[handle].service(), out);
                self.careful_update(id, handle, header, msg);
                self.ask_when_caught_up(handle, out);
            }
            MsgClass::REFRESH if !self.providers.is_reached(id, self.items[handle].service()) => {
                self.answered_anew(handle, out);
            }
            MsgClass::REFRESH => {
                if self.hot_standby.has(handle) {
                    let refresh = RefreshMsg::decode(msg)?;
                    if self.leave_suspect(handle, &refresh.state, out) {
                        self.mirror_refresh(handle, &refresh, out);
                        return Ok(());
                    }
                    if self.holds_back(handle, &refresh) {
                        self.ask_when_caught_up(handle, out);
                        return Ok(());
                    }
                }
                self.passing_refresh(handle, header, msg, out)?;
            }
            MsgClass::STATUS => {
                let status = StatusMsg::decode(msg)?;
                if status.state.is_some_and(|state| self.leave_suspect(handle, &state, out)) {
                    self.mirror_status(handle, &status, out);
                } else {
                    self.item_status(handle, &status, msg, out);
                }
            }
            MsgClass::GENERIC => {
                let has_key = peek::has_key(header.class, header.flags);
                self.hub.event(&Event::Generic { target: ALL, handle: handle.0, has_key, rwf: msg });
            }
            _ => self.counters.dropped_unexpected += 1,
        }
        Ok(())
    }

    /// Whether an image of a standby that has taken over is older than what those who watch have had: it is dropped. That it is Suspect is
    /// told, if its first part says so by going on, else by a status.
    fn holds_back(&mut self, handle: Handle, refresh: &RefreshMsg<'_>) -> bool {
        let RefreshMsg { state, seq_num, .. } = *refresh;
        let begins = self.items[handle].begins_set(refresh.part_num) && refresh.part_num.is_none_or(|part| part == 0);
        let complete = refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE);
        let number = seq_num.filter(|_| state.stream == StreamState::OPEN && state.data != DataState::SUSPECT);
        let is_held = self.hot_standby.holds_back(handle, number, begins, complete);
        if is_held {
            self.counters.images_held_back += 1;
            if state.data == DataState::SUSPECT {
                self.items[handle].tell_state(state.data);
                self.content.set_state(handle, &state);
                self.publish_status(handle, ALL, flags::PENDING_TOO, State { stream: StreamState::OPEN, ..state });
            }
        }
        is_held
    }

    /// Asks for the image that somebody waits for, once the provider is no longer behind what was passed on.
    fn ask_when_caught_up(&mut self, handle: Handle, out: &mut dyn ProviderSink) {
        if self.hot_standby.has_caught_up(handle)
            && self.items[handle].is_expecting()
            && self.items[handle].is_watched()
        {
            self.await_answer(handle);
            self.counters.reissues += 1;
            self.send_request_again(handle, out);
        }
    }

    /// What passes of an image, or of a part of one: the item's state takes it in, and those that it is for get it.
    pub(crate) fn item_refresh(
        &mut self,
        handle: Handle,
        refresh: &RefreshMsg<'_>,
        rwf: &[u8],
        out: &mut dyn ProviderSink,
    ) {
        if refresh.state.stream.is_final() {
            return self.final_refresh(handle, refresh, rwf, out);
        }
        if !refresh.flags.contains(RefreshFlags::SOLICITED)
            && let Some(place) = self.items[handle].place()
        {
            self.note_data(place.session, self.items[handle].service(), out);
        }
        self.note_group(handle, refresh.group_id);
        let answered_service = self.first_answer(handle);
        let complete = refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE);
        let first = self.items[handle].begins_set(refresh.part_num);
        let mut reissues = Vec::new();
        if first {
            self.begin_set(handle, refresh.flags.contains(RefreshFlags::SOLICITED), &mut reissues);
        }
        let item = &mut self.items[handle];
        let one_shot = refresh.state.stream == StreamState::NON_STREAMING || item.is_snapshot();
        let (part, news) = item.take_part(first, complete, refresh.state.data);
        let watched = item.has_interest();
        self.cache_refresh(handle, first, one_shot, refresh);
        if first {
            self.hot_standby.image_passed(handle, refresh.seq_num);
            let (item, conflation) = (&self.items[handle], self.providers.conflation_of(&self.items[handle]));
            self.hub.note_interval(handle, conflation, item.item_key().name, refresh);
        }
        if watched {
            self.tell_news(handle, news, part, one_shot, &refresh.state);
            for (slot, serial) in reissues {
                self.tell_answered(handle, slot, serial);
            }
            let clears = refresh.flags.contains(RefreshFlags::CLEAR_CACHE);
            self.publish_refresh(handle, image_flags(part, one_shot, clears), rwf);
        }
        // Updates between the parts of an image are part of it, also where nothing follows the last one.
        self.set_live(handle, watched && !(one_shot && complete));
        // An item that ends leaves its place to others: these are asked for below.
        let ended = (complete && one_shot).then(|| self.items[handle].service());
        if complete {
            let to_close = refresh.state.stream == StreamState::OPEN && self.is_streamed_snapshot(handle);
            self.set_complete(handle, (one_shot, to_close), out);
        }
        if refresh.state.data == DataState::SUSPECT {
            self.note_stale(handle);
        }
        if let Some(service) = answered_service.or(ended) {
            self.send_queued(service, out);
        }
    }

    /// The first part of a set: if it answers a request, the reissues that it answers are added to `reissues`.
    fn begin_set(&mut self, handle: Handle, solicited: bool, reissues: &mut Vec<(Slot, u32)>) {
        let item = &mut self.items[handle];
        if item.in_set() && self.upstream.delivery.break_off(handle) {
            item.want_another();
        }
        if item.begin_set(solicited) {
            let others_owed = self.upstream.pending.answered(handle, reissues);
            item.settle(others_owed);
        }
    }

    /// What a part of an image says to watchers that it may not be for, or that were told the contrary.
    fn tell_news(&mut self, handle: Handle, news: News, part: Part, one_shot: bool, state: &State<'_>) {
        match news {
            // The item is Suspect to everyone on the stream, also to those that this answer is not for.
            News::Suspect if part.solicited && !part.recovery && !one_shot => {
                self.publish_status(handle, ALL, 0, State { stream: StreamState::OPEN, ..*state });
            }
            News::GoodAgain => self.upstream.delivery.want_all(handle, self.items[handle].interest()),
            News::Suspect | News::None => {}
        }
    }

    /// Publishes a provider's refresh, or a part of it: to all P2PSs, but those that it is not for. A P2PS that has the item
    /// open tells what answers its reissue by the flags, and its watchers need whatever goes to open ones; one that has opened
    /// the item only now takes any image for its first. If the item ends with this set, the latter gets the end of it without the
    /// beginning, and so opens anew.
    fn publish_refresh(&mut self, handle: Handle, flags: u8, rwf: &[u8]) {
        self.counters.images += 1;
        // Ahead of images that go to single P2PSs beside the stream, too.
        self.hub.release(handle);
        let item = &self.items[handle];
        let (group, interest) = (item.group().0, item.interest().clone());
        let position = self.hub.next_position();
        let image = Event::Image { target: ALL, handle: handle.0, group, flags, position, rwf };
        if item.is_snapshot() && self.providers.rules(&self.config, item.service()).point_to_point {
            // The image is one P2PS's own.
            let to = Recipients { alone: interest, by_stream: P2psSet::EMPTY };
            return self.publish_image_to(&to, &image);
        }
        let (first, complete) = (flags & flags::FIRST != 0, flags & flags::COMPLETE != 0);
        let to_open = flags & (flags::RECOVERY | flags::UNSOLICITED | flags::SNAPSHOT) != 0;
        if !to_open {
            let left_out = self.upstream.pending.all(handle);
            let to = self.upstream.delivery.serve(handle, &left_out, first, complete);
            return self.publish_image_to(&to, &image);
        }
        let left_out = self.upstream.pending.opened(handle).intersection(&interest);
        if left_out.is_empty() {
            return self.hub.event(&image);
        }
        let ends = flags & flags::SNAPSHOT != 0 && complete;
        let served = if ends { interest } else { interest.without(&left_out) };
        for slot in served.iter() {
            // A P2PS that is gone reads nothing, and its lease keeps the item open.
            let Some(target) = self.links.id(slot) else { continue };
            let flags = if left_out.contains(slot) { flags & !flags::FIRST } else { flags };
            let position = self.hub.next_position();
            self.hub.event(&Event::Image { target, handle: handle.0, group, flags, position, rwf });
        }
    }

    /// A refresh that ends its stream: what it says (a redirection names the other item in its key) goes to everyone.
    fn final_refresh(&mut self, handle: Handle, refresh: &RefreshMsg<'_>, rwf: &[u8], out: &mut dyn ProviderSink) {
        if refresh.state.stream == StreamState::CLOSED_RECOVER
            || self
                .providers
                .rules(&self.config, self.items[handle].service())
                .recovers(&self.items[handle], &refresh.state)
        {
            return self.final_state(handle, &refresh.state, None, out);
        }
        let item = &self.items[handle];
        let (service, group, watched) = (item.service(), item.group().0, item.has_interest());
        self.detach(handle, out);
        if watched {
            let flags = flags::FIRST | flags::COMPLETE | flags::SNAPSHOT | flags::UNSOLICITED;
            let position = self.hub.next_position();
            self.hub.event(&Event::Image { target: ALL, handle: handle.0, group, flags, position, rwf });
            self.counters.images += 1;
        }
        self.end_item(handle);
        self.send_queued(service, out);
    }

    /// A snapshot that was asked for as a stream.
    fn is_streamed_snapshot(&self, handle: Handle) -> bool {
        let item = &self.items[handle];
        item.is_snapshot() && !self.config.takes_snapshots(&self.providers[item.service()].name)
    }

    /// The last part of a set has come. `one_shot`: nothing follows it; `to_close`: for the provider its stream goes on.
    fn set_complete(&mut self, handle: Handle, (one_shot, to_close): (bool, bool), out: &mut dyn ProviderSink) {
        let item = &mut self.items[handle];
        let (another, was_lost) = item.complete_set();
        if was_lost {
            self.providers[item.service()].item_is_back();
        }
        if one_shot {
            if to_close {
                self.close_upstream(handle, out);
            } else {
                self.detach(handle, out);
            }
            self.end_item(handle);
        } else {
            if another && !self.answer_wanted(handle) {
                self.want_another_image(handle, out);
            }
            self.answered_in_silence(handle, out);
        }
    }

    /// The provider has answered a request: its window has room again. The service, if this was the first answer.
    fn first_answer(&mut self, handle: Handle) -> Option<u16> {
        let item = &mut self.items[handle];
        if !item.first_answer() {
            return None;
        }
        self.upstream.forget_failure(handle);
        self.clear_doubt(handle);
        self.begin_pair(handle);
        let item = &self.items[handle];
        let service = item.service();
        if item.place().is_none() {
            hub_items::fault!("{handle:?} is answered, and has no stream");
        }
        if let Some(offer) = item.place().and_then(|place| self.providers[place.session].offer_mut(service)) {
            offer.answered();
        }
        Some(service)
    }

    /// Notes the group that a message of the item names; our number for it.
    fn note_group(&mut self, handle: Handle, id: &[u8]) -> GroupId {
        let item = &self.items[handle];
        let Some(place) = item.place() else {
            hub_items::fault!("{handle:?} is on no stream, and a message came on that");
            return item.group();
        };
        let group = self.providers.group(place.session, item.service(), id);
        if group != item.group() {
            self.items.set_group(handle, group);
        }
        group
    }

    /// A status of a provider.
    fn item_status(&mut self, handle: Handle, status: &StatusMsg<'_>, rwf: &[u8], out: &mut dyn ProviderSink) {
        let is_end = |state: &State<'_>| state.stream.is_final() || state.stream == StreamState::NON_STREAMING;
        if let Some(state) = status.state.filter(is_end) {
            return self.final_state(handle, &state, Some(rwf), out);
        }
        let group = status.group_id.map_or(GroupId::NONE, |id| self.note_group(handle, id));
        let answered_service = self.first_answer(handle);
        let item = &mut self.items[handle];
        let says_good = status.state.is_some_and(|state| state.data == DataState::OK);
        // After a loss what the P2PSs have is not good before the image that is to come says so.
        if !(item.awaits_recovery() && says_good) {
            if let Some(state) = status.state {
                item.tell_state(state.data);
                self.content.set_state(handle, &state);
            }
            if let Some(perm_data) = status.perm_data {
                self.content.set_perm_data(handle, perm_data);
            }
            let (target, flags) = (ALL, flags::PENDING_TOO);
            self.hub.event(&Event::ItemStatus { target, handle: handle.0, group: group.0, flags, rwf });
            self.counters.statuses += 1;
        }
        self.note_stale(handle);
        if let Some(service) = answered_service {
            self.send_queued(service, out);
        }
    }

    /// The provider has ended the stream. `rwf` is its status, if that is what said so.
    fn final_state(&mut self, handle: Handle, state: &State<'_>, rwf: Option<&[u8]>, out: &mut dyn ProviderSink) {
        let item = &self.items[handle];
        let recovers = self.providers.rules(&self.config, item.service()).recovers(item, state);
        let service = item.service();
        let recoverable = recovers || state.stream == StreamState::CLOSED_RECOVER && !item.is_private();
        if recoverable && self.take_over_hot(handle, Former::Gone, out) {
            return self.send_queued(service, out);
        }
        let session = self.detach(handle, out).map(|(session, _)| session);
        if recoverable {
            // The provider's word on the item itself: an answer also to those that wait for their first.
            let item = &mut self.items[handle];
            let knows = item.is_suspect();
            if item.has_interest() && !knows {
                item.explain_wait();
                let state = State { stream: StreamState::CLOSED_RECOVER, data: DataState::SUSPECT, ..*state };
                self.publish_status(handle, ALL, flags::PENDING_TOO, state);
            }
            if self.lose_item(handle, state.code, state.text) {
                self.retry_later(handle, session);
                if knows && self.items[handle].is_waited_for() {
                    // Somebody has come since those who know it were told.
                    self.explain_wait(handle, ALL);
                }
            }
        } else {
            self.publish_end(handle, state, rwf);
            self.end_item(handle);
        }
        self.send_queued(service, out);
    }

    /// Says that an item is over: with the provider's own status, if there is one.
    pub(crate) fn publish_end(&mut self, handle: Handle, state: &State<'_>, rwf: Option<&[u8]>) {
        let Some(rwf) = rwf else { return self.publish_status(handle, ALL, flags::CLOSED, *state) };
        let (group, flags) = (GroupId::NONE.0, flags::CLOSED);
        self.hub.event(&Event::ItemStatus { target: ALL, handle: handle.0, group, flags, rwf });
        self.counters.statuses += 1;
    }

    /// The item is without a provider, and will be asked for again: says so once, to those that have had an answer. The state
    /// is the actual one; that the stream lives on here is what the missing `CLOSED` flag says. An item that nobody watches is
    /// forgotten; a private stream ends. True if the item is to be asked for again.
    pub(crate) fn lose_item(&mut self, handle: Handle, code: StateCode, text: &[u8]) -> bool {
        let state = State { stream: StreamState::CLOSED_RECOVER, data: DataState::SUSPECT, code, text };
        self.content.set_state(handle, &state);
        let item = &self.items[handle];
        if !item.has_interest() {
            self.forget_item(handle);
            return false;
        }
        if item.is_private() {
            self.publish_status(handle, ALL, flags::CLOSED, state);
            self.end_item(handle);
            return false;
        }
        let tell = item.is_answered() && !item.is_suspect();
        self.mark_lost(handle);
        if tell {
            self.publish_status(handle, ALL, 0, state);
        }
        true
    }

    /// Notes that the item is lost: Suspect, and its next image is a recovery.
    pub(crate) fn mark_lost(&mut self, handle: Handle) {
        self.counters.recoveries += 1;
        let item = &mut self.items[handle];
        if item.lose() {
            self.providers[item.service()].item_is_lost();
        }
    }
}

/// The flags of an image on the hub stream.
fn image_flags(part: Part, one_shot: bool, provider_clears: bool) -> u8 {
    let mut bits = 0;
    for (flag, on) in [
        (flags::FIRST, part.first),
        (flags::COMPLETE, part.complete),
        (flags::SNAPSHOT, one_shot),
        (flags::RECOVERY, part.recovery),
        (flags::UNSOLICITED, !part.recovery && !part.solicited),
        (flags::CLEAR_CACHE, part.first && (part.recovery || provider_clears)),
    ] {
        if on {
            bits |= flag;
        }
    }
    bits
}
