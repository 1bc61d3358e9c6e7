//! A Source Distributor on the other side of a network: joining it, what is lost on the way, and silence.

use super::items::{ItemId, Phase, bits};
use super::source::{Joined, Source};
use super::statuses::{Pending, Relayed, Telling};
use super::{P2ps, SourceId};
use crate::stream::{Block, Continuity, Event, HubError, Messages, Request};
use rwf::{DataState, State, StateCode, StreamState};
use std::collections::VecDeque;

/// What waits behind a gap, in order.
#[derive(Debug, Default)]
pub(crate) struct Held {
    queue: VecDeque<Waiting>,
    bytes: usize,
}

#[derive(Debug)]
enum Waiting {
    /// The word on what was lost before this position. Nobody waits for it longer than until the deadline.
    Answer { to: u64, deadline: u64 },
    /// A block that came.
    Block(Box<[u8]>),
}

impl Held {
    /// When the answer to the first gap is overdue.
    fn deadline(&self) -> Option<u64> {
        match self.queue.front() {
            Some(Waiting::Answer { deadline, .. }) => Some(*deadline),
            _ => None,
        }
    }

    /// End of the gap that is being told of.
    fn awaited(&self) -> Option<u64> {
        match self.queue.front() {
            Some(Waiting::Answer { to, .. }) => Some(*to),
            _ => None,
        }
    }

    fn extend(&mut self, nanoseconds: u64) {
        for waiting in &mut self.queue {
            if let Waiting::Answer { deadline, .. } = waiting {
                *deadline = deadline.saturating_add(nanoseconds);
            }
        }
    }
}

impl P2ps {
    pub(super) fn connect_source(&mut self, number: u16, joined: Option<Joined>) {
        let slot = usize::from(number);
        if self.sources.len() <= slot {
            self.sources.resize_with(slot + 1, || None);
        }
        let (incarnation, now, key, id) = (self.config.incarnation, self.now, self.config.key, self.id);
        let source = self.sources[slot].get_or_insert_with(|| Box::new(Source::new(incarnation)));
        if source.up {
            self.lose_source(number, StateCode::NONE, "has started again");
        }
        let Some(source) = self.source_mut(number) else { return };
        source.up = true;
        source.heard_at = now;
        source.sent_at = now;
        source.number = joined.map_or(id, |joined| joined.number);
        source.joined = joined.map(|joined| joined.incarnation);
        if let Some(Joined { incarnation, position, .. }) = joined {
            source.continuity = Continuity::starting(incarnation, position);
            source.heard = true;
            source.read_to = position;
        }
        let incarnation = source.joined.unwrap_or(0);
        source.writer.request(&Request::Hello { incarnation, key });
    }

    /// A source that is on the other side of a network is lost, and has to be joined anew.
    pub(super) fn part_from(&mut self, number: u16, code: StateCode, why: &'static str) {
        let over_network = self.source_mut(number).is_some_and(|source| source.joined.is_some());
        self.lose_source(number, code, why);
        if over_network {
            self.source_closing.push((SourceId(number), why));
        }
    }

    /// Messages of a source are lost: it is asked what they were about, and what came behind them waits for the answer.
    pub(super) fn tell_gap(&mut self, number: u16, from: u64, to: u64) {
        let deadline = self.now.saturating_add(self.config.gap_timeout);
        self.counters.hub_gaps += 1;
        self.counters.hub_messages_lost += to.saturating_sub(from);
        if let Some(source) = self.source_mut(number) {
            source.held.queue.push_back(Waiting::Answer { to, deadline });
            source.writer.request(&Request::Gap { from, to });
        }
    }

    /// Acts on a block of a stream over a network, at once or when what was lost before it is known.
    pub(super) fn read_in_turn(&mut self, number: u16, block: &[u8], messages: Messages<'_>) -> Result<(), HubError> {
        let limit = self.config.hold_bytes;
        let Some(source) = self.source_mut(number) else { return Ok(()) };
        if source.held.queue.is_empty() {
            let end = source.continuity.next_position().unwrap_or_default();
            self.read_messages::<false>(number, block, messages)?;
            self.has_read(number, end, block.len());
            return Ok(());
        }
        source.held.bytes += block.len();
        if source.held.bytes > limit {
            self.part_from(number, StateCode::GAP_DETECTED, "sends more than can be held before it says what was lost");
            return Ok(());
        }
        source.held.queue.push_back(Waiting::Block(block.into()));
        Ok(())
    }

    /// Everything that was lost before a position has been told: what came behind it is next, up to another gap.
    pub(super) fn caught_up(&mut self, number: u16, position: u64) -> Result<(), HubError> {
        let Some(source) = self.source_mut(number) else { return Ok(()) };
        match source.held.queue.front() {
            Some(Waiting::Answer { to, .. }) if *to == position => source.held.queue.pop_front(),
            _ => return Ok(()),
        };
        self.has_read(number, position, 0);
        while let Some(source) = self.source_mut(number).filter(|source| source.up) {
            let Some(Waiting::Block(_)) = source.held.queue.front() else { break };
            let Some(Waiting::Block(bytes)) = source.held.queue.pop_front() else { break };
            source.held.bytes -= bytes.len();
            let (block, known) = (Block::parse(&bytes)?, source.read_to);
            let heading = block.heading;
            let mut messages = block.messages();
            let old = known.saturating_sub(heading.first_seq);
            messages.by_ref().take(usize::try_from(old).unwrap_or(usize::MAX)).for_each(drop);
            self.read_messages::<true>(number, &bytes, messages)?;
            self.has_read(number, heading.first_seq.saturating_add(heading.count.into()), bytes.len());
        }
        Ok(())
    }

    /// The stream of a source was acted upon up to a position.
    fn has_read(&mut self, number: u16, position: u64, bytes: usize) {
        let (now, limit) = (self.now, self.config.report_bytes);
        if let Some(source) = self.source_mut(number).filter(|source| source.up) {
            source.read_to = position;
            source.unreported += bytes;
            if limit > 0 && source.unreported >= limit {
                source.unreported = 0;
                source.sent_at = now;
                source.writer.request(&Request::Heartbeat { position });
            }
            self.take_early(number);
        }
    }

    /// Messages for this P2PS alone.
    pub(super) fn read_direct(&mut self, number: u16, bytes: &[u8]) -> Result<(), HubError> {
        let block = Block::parse(bytes)?;
        for message in block.messages() {
            let message = message?;
            let Some(source) = self.source_mut(number).filter(|source| source.up) else { return Ok(()) };
            if source.joined.is_some_and(|incarnation| incarnation != block.heading.incarnation) {
                self.counters.hub_blocks_foreign += 1;
                return Ok(());
            }
            match Event::decode(&message)? {
                Event::CaughtUp { to, .. } => self.caught_up(number, to)?,
                event @ Event::Image { .. } => self.direct_image(number, &event),
                Event::Missed { handle, .. } => {
                    let to = self.source_mut(number).and_then(|source| source.held.awaited());
                    if let (Some(id), Some(to)) = (self.item_of(number, handle), to) {
                        self.missed_item(id, to);
                    }
                }
                event => self.event(number, &event),
            }
        }
        Ok(())
    }

    /// Something of an item was lost before a position: what its watchers have is not current before the next image, and no
    /// image from before the position is of use.
    pub(super) fn missed_item(&mut self, id: ItemId, to: u64) {
        let item = self.items.get_mut(id);
        if item.phase != Phase::Open {
            return;
        }
        self.counters.items_missed += 1;
        let (private, snapshot, service) = (item.has(bits::PRIVATE), item.has(bits::SNAPSHOT), item.service);
        let name = self.services.get(service).map_or("", |service| service.name.as_str());
        let text = format!("Messages of service {name} were lost; the image is asked for again.");
        let stream = if private { StreamState::CLOSED_RECOVER } else { StreamState::OPEN };
        let state = State::new(stream, DataState::SUSPECT, StateCode::GAP_DETECTED, &text);
        if private || snapshot {
            self.give_back(id);
        } else {
            self.items.hold_all(id);
            let item = self.items.get_mut(id);
            item.clear(bits::IMAGE_ASKED | bits::IN_SET);
            item.set(bits::RECOVERING);
            self.withhold(id, to.saturating_sub(1));
        }
        let pending = if private { Pending::Told } else { Pending::ToldIfFinal };
        self.tell_item(id, state, Telling { pending, relayed: Relayed::No, once: true });
        if private || snapshot {
            self.recover(id);
        } else if self.is_watched(id) {
            let item = self.items.get_mut(id);
            if !item.has(bits::REFRESH_DUE) {
                item.set(bits::REFRESH_DUE);
                self.refreshes.push_back(id);
            }
        } else {
            self.release(id);
        }
    }

    /// Asks for the images of open items that need one, as far as the limit of the turn lets it.
    /// Tells what is left of it.
    pub(super) fn refresh_waiting(&mut self, budget: u32) -> u32 {
        for left in (0..budget).rev() {
            let Some(id) = self.refreshes.pop_front() else { return left + 1 };
            self.items.get_mut(id).clear(bits::REFRESH_DUE);
            let item = self.items.get(id);
            let open = item.has(bits::LIVE) && item.phase == Phase::Open && !item.has(bits::IMAGE_ASKED);
            let (recovering, in_set) = (item.has(bits::RECOVERING), item.has(bits::IN_SET));
            if !open || !self.is_watched(id) {
                continue;
            }
            // The answer to a reissue may be among what was lost, and no other image is for those that wait for it.
            match (self.is_widening(id), in_set) {
                (true, true) => self.items.get_mut(id).set(bits::REISSUE_DUE),
                (true, false) => self.reissue_upstream(id, true),
                (false, false) if recovering => self.ask_image(id),
                (false, _) => {}
            }
        }
        0
    }

    pub(super) fn source_timeout(&self) -> Option<u64> {
        let ups = self.sources.iter().flatten().filter(|source| source.up);
        let due = |at: u64, interval: u64| if interval > 0 { at.saturating_add(interval) } else { u64::MAX };
        ups.map(|source| {
            let heartbeat = due(source.sent_at, self.config.heartbeat_interval);
            let silent = due(source.heard_at, self.config.source_timeout);
            let gap = source.held.deadline().unwrap_or(u64::MAX);
            heartbeat.min(silent).min(gap)
        })
        .min()
    }

    /// One that stood still itself has heard nobody: the time does not count for the others.
    pub(super) fn note_freeze(&mut self) {
        let (now, interval) = (self.now, self.config.heartbeat_interval);
        let still = now.saturating_sub(std::mem::replace(&mut self.ticked, now));
        let up = self.sources.iter().flatten().any(|source| source.joined.is_some());
        if interval == 0 || still <= 2 * interval || still == now || !up {
            return;
        }
        self.counters.freezes += 1;
        for source in self.sources.iter_mut().flatten() {
            source.heard_at = source.heard_at.saturating_add(still).min(now);
            source.held.extend(still);
        }
    }

    /// Sends heartbeats, and gives up sources that are silent for too long or do not say what was lost.
    pub(super) fn watch_sources(&mut self) {
        let (now, interval, limit) = (self.now, self.config.heartbeat_interval, self.config.source_timeout);
        for number in 0..self.sources.len() as u16 {
            let Some(source) = self.source_mut(number).filter(|source| source.up) else { continue };
            if limit > 0 && now.saturating_sub(source.heard_at) >= limit {
                self.part_from(number, StateCode::TIMEOUT, "is silent");
            } else if source.held.deadline().is_some_and(|deadline| deadline <= now) {
                self.part_from(number, StateCode::GAP_DETECTED, "does not say what was lost");
            } else if interval > 0 && now.saturating_sub(source.sent_at) >= interval {
                source.sent_at = now;
                source.writer.request(&Request::Heartbeat { position: source.read_to });
            }
        }
    }
}
