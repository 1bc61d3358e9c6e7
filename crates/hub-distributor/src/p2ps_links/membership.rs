//! The P2PSs themselves: joining, their blocks, and leaving in all its ways.

use super::{Gap, Link};
use crate::ids::{Handle, Slot};
use crate::items::Item;
use crate::stream::{ALL, Block, Event, HubError, Kind, Request, Seen};
use crate::timers::Timer;
use crate::{ProviderSink, SourceDistributor};

impl SourceDistributor {
    /// A P2PS has joined: it gets every service and dictionary there is. What is for it comes at [`Self::next_position`] or
    /// behind it. `id` is the number that the caller gives it, one that no P2PS has which is there.
    pub fn p2ps_up(&mut self, now: u64, id: u16) {
        self.begin(now);
        self.take_in(id, false);
    }

    /// As [`Self::p2ps_up`], one of which there may be very many (a desktop): providers never wait for it, and what is for it alone (dictionaries,
    /// images, where not several want them) comes by [`Self::point_to_point_blocks`] and costs no other P2PS anything.
    pub fn p2ps_up_unpaced(&mut self, now: u64, id: u16) {
        self.begin(now);
        self.take_in(id, true);
    }

    fn take_in(&mut self, id: u16, is_unpaced: bool) {
        if self.links.slot(id).is_some() {
            return;
        }
        let stream = (self.hub.incarnation(), self.hub.next_position());
        let joined = if id == ALL { None } else { self.links.join(id, self.now, stream, is_unpaced) };
        let Some(slot) = joined else {
            self.counters.refused_p2ps += 1;
            return;
        };
        if !is_unpaced {
            self.hub.reader_joined(self.now, slot);
        }
        for service in self.providers.service_ids() {
            if self.providers[service].advertised {
                self.publish_service(service, id);
            }
        }
        if is_unpaced {
            self.swap_point_to_point(slot);
        }
        self.publish_dictionaries(id);
        if is_unpaced {
            self.swap_point_to_point(slot);
        }
    }

    /// The transport to a P2PS has ended. What it had open stays so for [`crate::Config::lease`]; its number is free.
    pub fn p2ps_down(&mut self, now: u64, id: u16, out: &mut impl ProviderSink) {
        self.begin(now);
        self.drop_p2ps(id, out);
    }

    /// A P2PS is past a bound that the caller has (it does not take what is sent to it). It is told so, and gone.
    pub fn p2ps_lost(&mut self, now: u64, id: u16, why: &'static str, out: &mut impl ProviderSink) {
        self.begin(now);
        self.counters.overrun_p2ps += 1;
        self.cut_off(id, why, out);
    }

    /// The P2PSs whose transports are to be ended, and why. They are gone already.
    pub fn closing_p2ps(&mut self) -> std::vec::Drain<'_, (u16, &'static str)> {
        self.links.closing()
    }

    /// Reads a block of requests from a P2PS.
    ///
    /// # Errors
    /// The block is not a hub stream, comes behind a gap, or holds a message that makes no sense. What came before the error
    /// has been done. The P2PS is dropped then, as by [`Self::p2ps_down`]: it has to come back with a new incarnation.
    pub fn request_block(
        &mut self,
        now: u64,
        from: u16,
        block: &[u8],
        out: &mut impl ProviderSink,
    ) -> Result<(), HubError> {
        self.begin(now);
        let read = self.read_block(from, block, out);
        if read.is_err() {
            self.counters.closed_p2ps += 1;
            self.drop_p2ps(from, out);
        }
        read
    }

    fn read_block(&mut self, from: u16, block: &[u8], out: &mut dyn ProviderSink) -> Result<(), HubError> {
        let block = Block::parse(block)?;
        self.make_room(from, out);
        self.p2ps_up(self.now, from);
        let slot = self.links.slot(from).ok_or(HubError::NotJoined)?;
        let (seen, started) = self.links.heard(slot, self.now, &block.heading);
        let known = match seen {
            Seen::Next => 0,
            Seen::Partly(read) => read,
            Seen::Old => return Ok(()),
            // A request that is lost is an item that nobody opens: the stream has to be read from its start.
            Seen::NewIncarnation if block.heading.first_seq != 0 => {
                return Err(HubError::Gap { missing: block.heading.first_seq });
            }
            Seen::NewIncarnation => {
                if started {
                    self.restart_p2ps(from, &block, out);
                }
                0
            }
            Seen::Gap(missing) => return Err(HubError::Gap { missing }),
        };
        let slot = self.links.slot(from).ok_or(HubError::NotJoined)?;
        for message in block.messages().skip(usize::try_from(known).unwrap_or(usize::MAX)) {
            let request = Request::decode(&message?)?;
            self.request(slot, from, &request, out)?;
            if self.links.id(slot) != Some(from) {
                // The P2PS has left, or was cut off for what it asked.
                return Ok(());
            }
        }
        self.count_requests(slot, from, block.heading.count, out);
        Ok(())
    }

    /// One that asks without end is cut off before it costs the others.
    fn count_requests(&mut self, slot: Slot, id: u16, count: u32, out: &mut dyn ProviderSink) {
        let limit = self.config.max_requests;
        let requests = self.links.count_requests(slot, count);
        if limit > 0 && requests > limit {
            self.counters.overrun_p2ps += 1;
            self.cut_off(id, "asks for too much at a time", out);
        }
    }

    /// A lease goes before its time if a P2PS that is there needs its place.
    fn make_room(&mut self, id: u16, out: &mut dyn ProviderSink) {
        if self.links.slot(id).is_none()
            && self.links.is_full()
            && let Some(slot) = self.links.oldest_lease()
        {
            self.end_lease(slot, out);
        }
    }

    /// The P2PS has come back as another: nothing of the old one counts.
    fn restart_p2ps(&mut self, id: u16, block: &Block<'_>, out: &mut dyn ProviderSink) {
        let is_unpaced = self.links.slot(id).is_some_and(|slot| self.links.is_unpaced(slot));
        self.drop_p2ps(id, out);
        self.make_room(id, out);
        self.take_in(id, is_unpaced);
        if let Some(slot) = self.links.slot(id) {
            self.links.heard(slot, self.now, &block.heading);
        }
    }

    /// What a P2PS says first. The transport to an earlier life of it may not have noticed that it is gone.
    pub(crate) fn hello(
        &mut self,
        slot: Slot,
        incarnation: u32,
        key: u64,
        out: &mut dyn ProviderSink,
    ) -> Result<(), HubError> {
        let present = self.hub.incarnation();
        if incarnation != 0 && incarnation != present {
            return Err(HubError::Incarnation { known: incarnation, present });
        }
        self.links.link_mut(slot).over_network = incarnation != 0;
        if key == 0 {
            return Ok(());
        }
        let id = self.links.id(slot);
        while let Some(other) = self.links.find(|link| link.key == key && link.id != id) {
            self.drop_p2ps(other, out);
            self.links.closing.push((other, "has come back by another connection"));
        }
        self.links.link_mut(slot).key = key;
        Ok(())
    }

    /// The P2PS ends in order: nobody is to find again what it had open.
    pub(crate) fn bye(&mut self, slot: Slot, out: &mut dyn ProviderSink) {
        self.leave_links(slot);
        self.hub.reader_left(slot);
        self.end_lease(slot, out);
    }

    /// How far a P2PS has read the stream.
    pub(crate) fn has_read(&mut self, slot: Slot, position: u64) -> Result<(), HubError> {
        if position > self.hub.next_position() {
            let kind = Kind::HeartbeatUp;
            return Err(HubError::Malformed { kind, what: "position: it is not published yet" });
        }
        let link = self.links.link_mut(slot);
        link.read_to = link.read_to.max(position);
        self.hub.has_read(self.now, slot, position);
        Ok(())
    }

    /// Tells a P2PS that it is lost, and lets it go. The caller ends its transport.
    fn cut_off(&mut self, id: u16, why: &'static str, out: &mut dyn ProviderSink) {
        if let Some(slot) = self.links.slot(id) {
            self.hub.event(&Event::Resync { target: id, why });
            self.let_go(slot, out);
            self.links.closing.push((id, why));
        }
    }

    /// A P2PS is gone. One that reads the stream over a network may not have noticed that its connection has ended: the stream
    /// says so before the handles that it has can become those of other items. A P2PS that was dropped before may be named.
    pub(crate) fn drop_p2ps(&mut self, id: u16, out: &mut dyn ProviderSink) {
        // The P2PS was dropped before, or never came.
        let Some(slot) = self.links.slot(id) else { return };
        if self.links.link(slot).over_network {
            self.hub.event(&Event::Resync { target: id, why: "connection has ended" });
        }
        self.let_go(slot, out);
    }

    /// What a P2PS had open that is gone stays so for its lease, but for what it could not find again.
    fn let_go(&mut self, slot: Slot, out: &mut dyn ProviderSink) {
        self.posts.forget_p2ps(slot);
        let serial = self.leave_links(slot);
        self.hub.reader_left(slot);
        if self.config.lease == 0 {
            return self.end_lease(slot, out);
        }
        self.timers.set(self.now.saturating_add(self.config.lease), Timer::Lease(slot, serial));
        for handle in self.open_at(slot, |item| item.is_instance() || item.is_ended()) {
            self.lose_interest(handle, slot, out);
        }
    }

    /// Turns what is published to one P2PS alone, or back.
    fn swap_point_to_point(&mut self, slot: Slot) {
        self.hub.swap(&mut self.links.link_mut(slot).point_to_point);
    }

    /// The items of a kind that a P2PS has open.
    pub(super) fn open_at(&mut self, slot: Slot, of: impl Fn(&Item) -> bool) -> Vec<Handle> {
        let Self { links, items, .. } = self;
        let mut open = links.opened(slot, |handle| items.get(handle).is_some_and(|i| i.interest().contains(slot)));
        open.retain(|&handle| of(&items[handle]));
        open
    }

    /// The lease of a P2PS that is gone has ended, if it is still that one's.
    pub(crate) fn lease_timer(&mut self, slot: Slot, serial: u32, out: &mut dyn ProviderSink) {
        if self.links.is_lease(slot, serial) {
            self.counters.expired_leases += 1;
            self.end_lease(slot, out);
        }
    }

    /// What a P2PS that is gone had open is closed.
    fn end_lease(&mut self, slot: Slot, out: &mut dyn ProviderSink) {
        self.posts.forget_p2ps(slot);
        for handle in self.open_at(slot, |_| true) {
            self.lose_interest(handle, slot, out);
        }
        self.links.remove(slot);
    }

    /// Says that we are there, and gives up P2PSs that are silent or too far behind.
    pub(crate) fn heartbeat(&mut self, out: &mut dyn ProviderSink) {
        let (interval, timeout) = (self.config.heartbeat_interval, self.config.p2ps_timeout);
        let next = if interval > 0 { interval } else { timeout };
        // A process that stood still itself has heard nobody: the time does not count for the others.
        let late = self.now.saturating_sub(self.links.heartbeat_due);
        if self.links.heartbeat_due > 0 && late > next {
            self.counters.freezes += 1;
            self.links.excuse(self.now, late);
        }
        if interval > 0 {
            self.hub.event(&Event::Heartbeat { announcement: &self.links.announcement });
        }
        let now = self.now;
        let is_silent = |link: &Link| now.saturating_sub(link.last_heard) > timeout.saturating_mul(link.patience());
        while let Some(id) = self.links.find(|link| timeout > 0 && is_silent(link)) {
            self.counters.closed_p2ps += 1;
            self.counters.silent_p2ps += 1;
            self.cut_off(id, "was silent for too long", out);
        }
        let (limit, position) = (self.config.max_lag, self.hub.next_position());
        let is_behind = |link: &Link| position.saturating_sub(link.read_to) > limit.saturating_mul(link.patience());
        while let Some(id) = self.links.find(|link| limit > 0 && is_behind(link)) {
            self.counters.overrun_p2ps += 1;
            self.cut_off(id, "is too far behind", out);
        }
        self.links.start_counting();
        self.links.heartbeat_due = self.now.saturating_add(next);
        self.timers.set(self.links.heartbeat_due, Timer::Heartbeat);
    }

    /// Tells a P2PS what the messages were about that it has lost.
    pub(crate) fn tell_missed(
        &mut self,
        slot: Slot,
        id: u16,
        (from, to): (u64, u64),
        out: &mut dyn ProviderSink,
    ) -> Result<(), HubError> {
        let gap = self.links.note_gap(slot, from, to, self.hub.next_position());
        if gap == Gap::Impossible {
            return Err(HubError::Malformed { kind: Kind::Gap, what: "range of positions" });
        }
        self.counters.gaps += 1;
        if gap == Gap::TooMany || !self.hub.keeps(from) {
            self.counters.gaps_too_old += 1;
            self.cut_off(id, "has lost more than is kept", out);
            return Ok(());
        }
        let missed = super::gap_recovery::Missed::read(self.hub.kept(from, to), id);
        // The answer goes to this P2PS alone, which waits for it before it reads on.
        self.swap_point_to_point(slot);
        self.tell_again(slot, id, missed);
        self.hub.event(&Event::CaughtUp { target: id, to });
        self.swap_point_to_point(slot);
        Ok(())
    }
}
