//! The P2PSs themselves: joining, their blocks, and leaving in all its ways.

use super::items::Bits;
use super::peers::{Peer, Slots};
use super::timers::Timer;
use super::{ProviderSink, SourceDistributor};
use crate::stream::{ALL, Block, Event, HubError, Request, Seen};

/// Gaps that a P2PS may tell of between two heartbeats: one that loses more is not able to follow.
const MAX_GAPS: u32 = 200;

impl SourceDistributor {
    /// A P2PS has joined: it gets every service and dictionary there is. What is for it comes at [`Self::next_position`] or
    /// behind it. `id` is the number that the caller gives it, one that no P2PS has which is there.
    pub fn p2ps_up(&mut self, now: u64, id: u16) {
        if self.peers.slot(id).is_some() {
            return;
        }
        let (incarnation, position) = (self.incarnation, self.hub.next_position());
        let joined = if id == ALL { None } else { self.peers.join(id, now, incarnation, position) };
        let Some(slot) = joined else {
            self.counters.refused_p2ps += 1;
            return;
        };
        self.pace.joined(now, slot);
        for service in self.services.ids() {
            if self.services.get(service).is_some_and(|service| service.advertised) {
                self.publish_service(service, id);
            }
        }
        self.publish_dictionaries(id);
    }

    /// The transport to a P2PS has ended. What it had open stays so for [`super::Config::lease`]; its number is free.
    pub fn p2ps_down(&mut self, now: u64, id: u16, out: &mut impl ProviderSink) {
        self.drop_p2ps(now, id, out);
    }

    /// A P2PS is past a bound that the caller has (it does not take what is sent to it). It is told so, and gone.
    pub fn p2ps_lost(&mut self, now: u64, id: u16, why: &'static str, out: &mut impl ProviderSink) {
        self.counters.overrun_p2ps += 1;
        self.cut_off(now, id, why, out);
    }

    /// The P2PSs whose transports are to be ended, and why. They are gone already.
    pub fn closing_p2ps(&mut self) -> std::vec::Drain<'_, (u16, &'static str)> {
        self.closing.drain(..)
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
        let read = self.read_block(now, from, block, out);
        if read.is_err() {
            self.counters.closed_p2ps += 1;
            self.drop_p2ps(now, from, out);
        }
        read
    }

    fn read_block(&mut self, now: u64, from: u16, block: &[u8], out: &mut dyn ProviderSink) -> Result<(), HubError> {
        let block = Block::parse(block)?;
        self.make_room(now, from, out);
        self.p2ps_up(now, from);
        let Some(peer) = self.peers.slot(from).and_then(|slot| self.peers.get_mut(slot)) else {
            return Err(HubError::NotJoined);
        };
        peer.last_heard = now;
        let restarted = std::mem::replace(&mut peer.started, true);
        let mut known = 0;
        match peer.continuity.accept(&block.heading) {
            Seen::Next => {}
            Seen::Partly(read) => known = read,
            // A request that is lost is an item that nobody opens: the stream has to be read from its start.
            Seen::NewIncarnation if block.heading.first_seq != 0 => {
                return Err(HubError::Gap { missing: block.heading.first_seq });
            }
            Seen::NewIncarnation if !restarted => {}
            Seen::NewIncarnation => self.restart_p2ps(now, from, &block, out),
            Seen::Gap(missing) => return Err(HubError::Gap { missing }),
            Seen::Old => return Ok(()),
        }
        let Some(slot) = self.peers.slot(from) else { return Err(HubError::NotJoined) };
        for message in block.messages().skip(usize::try_from(known).unwrap_or(usize::MAX)) {
            let request = Request::decode(&message?)?;
            self.request(now, slot, &request, out)?;
            if self.peers.id(slot) != Some(from) {
                // It has left, or was cut off for what it asked.
                return Ok(());
            }
        }
        self.count_requests(now, slot, block.heading.count, out);
        Ok(())
    }

    /// One that asks without end is cut off before it costs the others.
    fn count_requests(&mut self, now: u64, slot: u8, count: u32, out: &mut dyn ProviderSink) {
        let limit = self.config.max_requests;
        let Some(peer) = self.peers.get_mut(slot) else { return };
        peer.requests = peer.requests.saturating_add(count);
        if limit > 0
            && peer.requests > limit
            && let Some(id) = peer.id
        {
            self.counters.overrun_p2ps += 1;
            self.cut_off(now, id, "asks for too much at a time", out);
        }
    }

    /// A lease goes before its time if a P2PS that is there needs its place.
    fn make_room(&mut self, now: u64, id: u16, out: &mut dyn ProviderSink) {
        if self.peers.slot(id).is_none()
            && self.peers.is_full()
            && let Some(slot) = self.peers.oldest_lease()
        {
            self.end_lease(now, slot, out);
        }
    }

    /// The P2PS has come back as another: nothing of the old one counts.
    fn restart_p2ps(&mut self, now: u64, id: u16, block: &Block<'_>, out: &mut dyn ProviderSink) {
        self.drop_p2ps(now, id, out);
        self.make_room(now, id, out);
        self.p2ps_up(now, id);
        if let Some(peer) = self.peers.slot(id).and_then(|slot| self.peers.get_mut(slot)) {
            peer.continuity.accept(&block.heading);
            peer.started = true;
        }
    }

    /// What a P2PS says first. The transport to an earlier life of it may not have noticed that it is gone.
    pub(super) fn hello(
        &mut self,
        now: u64,
        slot: u8,
        incarnation: u32,
        key: u64,
        out: &mut dyn ProviderSink,
    ) -> Result<(), HubError> {
        if incarnation != 0 && incarnation != self.incarnation {
            return Err(HubError::Incarnation { known: incarnation, present: self.incarnation });
        }
        if let Some(peer) = self.peers.get_mut(slot) {
            peer.over_network = incarnation != 0;
        }
        if key == 0 {
            return Ok(());
        }
        let id = self.peers.id(slot);
        while let Some(other) = self.peers.find(|peer| peer.key == key && peer.id != id) {
            self.drop_p2ps(now, other, out);
            self.closing.push((other, "has come back by another connection"));
        }
        if let Some(peer) = self.peers.get_mut(slot) {
            peer.key = key;
        }
        Ok(())
    }

    /// The P2PS ends in order: nobody is to find again what it had open.
    pub(super) fn bye(&mut self, now: u64, slot: u8, out: &mut dyn ProviderSink) {
        if let Some(peer) = self.peers.get_mut(slot) {
            peer.id = None;
        }
        self.pace.left(slot);
        self.end_lease(now, slot, out);
    }

    /// How far a P2PS has read the stream.
    pub(super) fn has_read(&mut self, now: u64, slot: u8, position: u64) -> Result<(), HubError> {
        let kind = crate::stream::Kind::HeartbeatUp;
        if position > self.hub.next_position() {
            return Err(HubError::Malformed { kind, what: "position: it is not published yet" });
        }
        if let Some(peer) = self.peers.get_mut(slot) {
            peer.read_to = peer.read_to.max(position);
            self.pace.has_read(now, slot, position);
        }
        Ok(())
    }

    /// Tells a P2PS that it is lost, and lets it go. The caller ends its transport.
    fn cut_off(&mut self, now: u64, id: u16, why: &'static str, out: &mut dyn ProviderSink) {
        if let Some(slot) = self.peers.slot(id) {
            self.hub.event(&Event::Resync { target: id, why });
            self.let_go(now, slot, out);
            self.closing.push((id, why));
        }
    }

    /// A P2PS is gone. One that reads the stream over a network may not have noticed that its connection has ended: the stream
    /// says so before the handles that it has can become those of other items.
    pub(super) fn drop_p2ps(&mut self, now: u64, id: u16, out: &mut dyn ProviderSink) {
        let Some(slot) = self.peers.slot(id) else { return };
        if self.peers.get(slot).is_some_and(|peer| peer.over_network) {
            self.hub.event(&Event::Resync { target: id, why: "connection has ended" });
        }
        self.let_go(now, slot, out);
    }

    /// What a P2PS had open that is gone stays so for its lease, but for what it could not find again.
    fn let_go(&mut self, now: u64, slot: u8, out: &mut dyn ProviderSink) {
        self.posts.forget_p2ps(slot);
        let lease = self.config.lease;
        let Some(peer) = self.peers.get_mut(slot) else { return };
        peer.id = None;
        peer.last_heard = now;
        peer.direct.clear();
        let serial = peer.serial;
        self.pace.left(slot);
        if lease == 0 {
            return self.end_lease(now, slot, out);
        }
        self.timers.set(now.saturating_add(lease), Timer::Lease(slot, serial));
        for handle in self.interests(slot, |item| item.is_instance() || item.has(Bits::ENDED | Bits::HELD_SNAPSHOT)) {
            self.lose_interest(now, handle, slot, out);
        }
    }

    /// Turns what is published to one P2PS alone, or back.
    fn swap_direct(&mut self, slot: u8) {
        if let Some(peer) = self.peers.get_mut(slot) {
            std::mem::swap(&mut self.hub, &mut peer.direct);
        }
    }

    fn interests(&self, slot: u8, of: impl Fn(&super::Item) -> bool) -> Vec<u32> {
        let bit = (1 as Slots) << slot;
        let wanted = |&handle: &u32| self.items.get(handle).is_some_and(|item| item.interest & bit != 0 && of(item));
        self.items.handles().filter(wanted).collect()
    }

    /// The lease of a P2PS that is gone has ended, if it is still that one's.
    pub(super) fn lease_timer(&mut self, now: u64, slot: u8, serial: u32, out: &mut dyn ProviderSink) {
        if self.peers.get(slot).is_some_and(|peer| peer.serial == serial && peer.id.is_none()) {
            self.counters.expired_leases += 1;
            self.end_lease(now, slot, out);
        }
    }

    /// What a P2PS that is gone had open is closed.
    fn end_lease(&mut self, now: u64, slot: u8, out: &mut dyn ProviderSink) {
        self.posts.forget_p2ps(slot);
        for handle in self.interests(slot, |_| true) {
            self.lose_interest(now, handle, slot, out);
        }
        self.peers.remove(slot);
    }

    /// Says that we are there, and gives up P2PSs that are silent or too far behind.
    pub(super) fn heartbeat(&mut self, now: u64, out: &mut dyn ProviderSink) {
        let (interval, timeout) = (self.config.heartbeat_interval, self.config.p2ps_timeout);
        let next = if interval > 0 { interval } else { timeout };
        // One that stood still itself has heard nobody: the time does not count for the others.
        let late = now.saturating_sub(self.heartbeat_due);
        if self.heartbeat_due > 0 && late > next {
            self.counters.freezes += 1;
            self.peers.iter_mut().for_each(|(_, peer)| peer.last_heard = peer.last_heard.saturating_add(late).min(now));
        }
        if interval > 0 {
            self.hub.event(&Event::Heartbeat { announcement: &self.announcement });
        }
        let heard = now.saturating_sub(timeout);
        while let Some(id) = self.peers.find(|peer| timeout > 0 && peer.last_heard < heard) {
            self.counters.closed_p2ps += 1;
            self.counters.silent_p2ps += 1;
            self.cut_off(now, id, "was silent for too long", out);
        }
        let (limit, position) = (self.config.max_lag, self.hub.next_position());
        while let Some(id) = self.peers.find(|peer| limit > 0 && position.saturating_sub(peer.read_to) > limit) {
            self.counters.overrun_p2ps += 1;
            self.cut_off(now, id, "is too far behind", out);
        }
        for (_, Peer { requests, gaps, .. }) in self.peers.iter_mut() {
            (*requests, *gaps) = (0, 0);
        }
        self.heartbeat_due = now.saturating_add(next);
        self.timers.set(self.heartbeat_due, Timer::Heartbeat);
    }

    /// Tells a P2PS what the messages were about that it has lost.
    pub(super) fn tell_missed(
        &mut self,
        now: u64,
        slot: u8,
        from: u64,
        to: u64,
        out: &mut dyn ProviderSink,
    ) -> Result<(), HubError> {
        let kind = crate::stream::Kind::Gap;
        let Some(peer) = self.peers.get_mut(slot) else { return Ok(()) };
        // Nothing is told twice: one short request has a long answer.
        if from > to || from < peer.told_to || to > self.hub.next_position() {
            return Err(HubError::Malformed { kind, what: "range of positions" });
        }
        self.counters.gaps += 1;
        peer.told_to = to;
        peer.gaps += 1;
        let (Some(id), too_many) = (peer.id, peer.gaps > MAX_GAPS) else { return Ok(()) };
        if too_many || !self.history.reaches(from) {
            self.counters.gaps_too_old += 1;
            self.cut_off(now, id, "has lost more than is kept", out);
            return Ok(());
        }
        let missed = super::gaps::Missed::read(self.history.messages(from, to), id);
        // It goes to this P2PS alone, which waits for it before it reads on.
        self.swap_direct(slot);
        self.tell_again(slot, id, missed);
        self.hub.event(&Event::CaughtUp { target: id, to });
        self.swap_direct(slot);
        Ok(())
    }
}
