//! A mirror becomes the stream in use.

use super::Mirror;
use crate::ids::{GroupId, Handle};
use crate::items::{Former, Place};
use crate::providers::{Offer, Providers, Stream};
use crate::sequence::{Sequence, Tail};
use crate::stream::{ALL, Event};
use crate::{Notice, ProviderSink, SessionId, SourceDistributor};
use rwf::msg::{Domain, RequestFlags, StatusMsg};
use rwf::peek;

impl Mirror {
    /// Whether the provider of a mirror is up, ticks and has the item whole and good.
    fn may_take_over(&self, service: u16, providers: &Providers) -> bool {
        let ticks = |offer: &Offer| offer.up && !offer.flow.is_interrupted();
        let is_up = providers.offer(self.place.session, service).is_some_and(ticks);
        is_up && self.is_whole && self.good_since.is_some() && providers.is_reached(self.place.session, service)
    }
}

impl SourceDistributor {
    /// Items among these that no mirror takes over; the others have gone over to it when this returns.
    pub(crate) fn not_taken_over(
        &mut self,
        handles: Vec<Handle>,
        former: Former,
        out: &mut dyn ProviderSink,
    ) -> Vec<Handle> {
        let mut rest = handles;
        rest.retain(|&handle| !self.take_over_hot(handle, former, out));
        rest
    }

    /// The mirror of an item takes over, if its provider has it whole and good. False if there is none that could.
    pub(crate) fn take_over_hot(&mut self, handle: Handle, former: Former, out: &mut dyn ProviderSink) -> bool {
        let service = self.items[handle].service();
        let Some(from) = self.items[handle].place().map(|place| place.session) else { return false };
        let Some(in_sequence) = self.swap_hot(handle, former, out) else { return false };
        let taken = self.hot_standby.taken.entry((from, service)).or_default();
        taken.items += 1;
        taken.in_sequence += usize::from(in_sequence);
        true
    }

    /// As [`Self::take_over_hot`]: whether those who watch go on with the next update and need no image; `None` if there is no mirror that
    /// could take over.
    pub(super) fn swap_hot(&mut self, handle: Handle, former: Former, out: &mut dyn ProviderSink) -> Option<bool> {
        let item = &self.items[handle];
        let service = item.service();
        let used = item.place().filter(|_| item.is_open() && item.is_watched() && item.is_answered())?;
        if !self.hot_standby.mirror(handle).is_some_and(|mirror| mirror.may_take_over(service, &self.providers)) {
            return None;
        }
        let mut mirror = self.hot_standby.take_mirror(handle, service)?;
        let sequence = self.hot_standby.pair(handle).map(|pair| &pair.sequence);
        let passed = sequence.and_then(Sequence::passed);
        let in_sequence = self.config.sequence_numbers
            && self.items[handle].is_undisturbed()
            && sequence.is_some_and(|sequence| sequence.goes_on_with(&mirror.tail));
        let (new, group) = (mirror.place, mirror.group);
        let tail = std::mem::take(&mut mirror.tail);
        self.leave_former(handle, (used, former), passed, out);
        self.providers[new.session].streams.set(new.stream, Stream::of_careful(handle, false));
        self.counters.hot_takeovers += 1;
        self.counters.hot_takeovers_in_sequence += u64::from(in_sequence);
        if in_sequence {
            self.go_on_in_sequence(handle, new, group, tail);
        } else {
            self.go_on_with_image(handle, new, out);
        }
        if !former.is_mirror() {
            self.hot_standby.filling.entry(service).or_default().queue.push_back(handle);
        }
        Some(in_sequence)
    }

    /// The stream that was in use is closed, or stands by.
    fn leave_former(
        &mut self,
        handle: Handle,
        (used, former): (Place, Former),
        passed: Option<u32>,
        out: &mut dyn ProviderSink,
    ) {
        if !former.is_mirror() {
            return self.free_mirror_stream(handle, used, false, former == Former::Closed, out);
        }
        let item = &self.items[handle];
        let (service, group) = (item.service(), item.group());
        let is_good = former == Former::StandsBy && !item.is_suspect();
        let (is_whole, good_since) = (!item.in_set(), is_good.then_some(0));
        self.providers[used.session].streams.set(used.stream, Stream::of_mirror(handle));
        let tail = Tail::behind(passed);
        let mirror = Mirror { place: used, asked_at: None, group, is_whole, good_since, returns_at: None, tail };
        self.hot_standby.set_mirror(handle, service, mirror);
    }

    /// Watchers get the updates that the provider before has not sent, and nothing else.
    fn go_on_in_sequence(&mut self, handle: Handle, new: Place, group: GroupId, tail: Tail) {
        self.items.take_over(handle, new, true);
        self.items.renew(handle);
        self.set_live(handle, self.items[handle].is_watched());
        self.tell_group(handle, group);
        if let Some(pair) = self.hot_standby.pair_mut(handle) {
            pair.sequence.take_over();
        }
        for update in tail.into_updates() {
            if let Ok(header) = peek::header(&update.rwf) {
                self.careful_update(new.session, handle, &header, &update.rwf);
            }
        }
    }

    /// P2PSs know the item by its new provider's group from now on: no image tells them.
    fn tell_group(&mut self, handle: Handle, group: GroupId) {
        if group == self.items[handle].group() {
            return;
        }
        self.items.set_group(handle, group);
        let status = StatusMsg::new(Domain(self.items[handle].domain()), 0);
        if let Some(rwf) = self.composer.write(&mut self.counters, |w| status.encode(w)) {
            self.hub.event(&Event::ItemStatus { target: ALL, handle: handle.0, group: group.0, flags: 0, rwf });
            self.counters.statuses += 1;
        }
    }

    /// Watchers get one new image of the new provider, and no updates before it.
    fn go_on_with_image(&mut self, handle: Handle, new: Place, out: &mut dyn ProviderSink) {
        self.content.lose_image(handle);
        self.upstream.left_stream(handle);
        let was_lost = self.items[handle].is_lost();
        self.items.take_over(handle, new, false);
        if !was_lost {
            self.providers[self.items[handle].service()].item_is_lost();
        }
        self.hot_standby.begin_numbers(handle, None);
        self.await_answer(handle);
        self.counters.reissues += 1;
        self.send_request_to(new, handle, RequestFlags::NONE, out);
    }

    /// A provider has left a service to its end: the operator hears what mirrors have taken over from it.
    pub(crate) fn tell_taken_over(&mut self, from: SessionId, address: &str, service: u16) {
        // No mirror has taken over anything.
        let Some(taken) = self.hot_standby.taken_from(from, service) else { return };
        let Some(known) = self.providers.service(service) else {
            return hub_items::fault!("service {service} is not known");
        };
        let (service, provider) = (known.name.clone(), address.to_owned());
        let (items, in_sequence) = (taken.items, taken.in_sequence);
        self.notices.push(Notice::ItemsTakenOver { service, provider, items, in_sequence });
    }

    /// Asserts that mirrors are of items that are open elsewhere, on the streams that they say.
    pub(crate) fn check_mirrors(&self) -> usize {
        self.hot_standby.check(|handle| self.items[handle].service());
        for handle in self.hot_standby.handles() {
            let item = self.items.get(handle);
            let may = item.is_some_and(|item| !item.is_instance() && !item.is_cached() && !item.is_ended());
            assert!(may, "{handle:?} may have a mirror: {item:?}");
        }
        let mut mirrors = 0;
        for (handle, place, _) in self.hot_standby.iter() {
            let item = &self.items[handle];
            assert!(item.is_open(), "{handle:?} has a mirror and is not open: {item:?}");
            assert!(item.place().is_some_and(|used| used.session != place.session), "{handle:?} mirrors itself");
            // The mirror's session may be lost, and the outage go on in the next turn.
            let stream = self.providers[place.session].streams.get(place.stream);
            assert_eq!(stream.mirror(), Some(handle), "the stream of a mirror");
            mirrors += 1;
        }
        mirrors
    }
}
