//! A Source Distributor on the other side of a network: joining it, what is lost on the way, and silence.

use super::Joined;
use super::Sources;
use crate::Config;
use crate::P2ps;
use crate::hot_standby::Former;
use crate::ids::{Handle, ItemId, SourceId};
use crate::items::telling::{Pending, Relayed, Telling};
use crate::stream::{Block, Continuity, Event, HubError, Kind, Messages, Request, UNPACED_HEARTBEATS};
use rwf::{DataState, State, StateCode, StreamState};
use std::collections::VecDeque;

/// Messages that wait behind a gap in the stream of a source, in order.
#[derive(Debug, Default)]
pub(crate) struct BehindGap {
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

impl BehindGap {
    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Messages before a position are lost, and were asked after.
    fn await_answer(&mut self, to: u64, deadline: u64) {
        debug_assert!(
            self.queue.iter().all(|waiting| !matches!(waiting, Waiting::Answer { to: other, .. } if *other >= to))
        );
        self.queue.push_back(Waiting::Answer { to, deadline });
    }

    /// Keeps a block until the gap before it is told of; false if there is no room for it.
    fn keep(&mut self, block: &[u8], limit: usize) -> bool {
        debug_assert!(!self.queue.is_empty(), "a block that need not wait");
        self.bytes += block.len();
        let fits = self.bytes <= limit;
        if fits {
            self.queue.push_back(Waiting::Block(block.into()));
        }
        fits
    }

    /// The gap before a position is told of; false if that is not the one that is awaited.
    fn answered(&mut self, position: u64) -> bool {
        let awaited = self.awaited() == Some(position);
        if awaited {
            self.queue.pop_front();
        }
        awaited
    }

    /// The next block that need not wait any more.
    fn next_block(&mut self) -> Option<Box<[u8]>> {
        let Some(Waiting::Block(_)) = self.queue.front() else { return None };
        let Some(Waiting::Block(block)) = self.queue.pop_front() else { return None };
        debug_assert!(self.bytes >= block.len());
        self.bytes -= block.len();
        Some(block)
    }

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

impl Sources {
    /// When the next heartbeat is due, a source has been silent for too long, or has not said what was lost.
    pub(crate) fn silence_deadline(&self, config: &Config) -> Option<u64> {
        if config.heartbeat_interval == 0 && config.source_timeout == 0 {
            return None;
        }
        let ups = self.iter().map(|(_, source)| source).filter(|source| source.up);
        let due = |at: u64, interval: u64| if interval > 0 { at.saturating_add(interval) } else { u64::MAX };
        // Whoever sends few heartbeats looks at the time as often as others, and so notices that it stood still.
        let last = |sent_at: u64| if config.is_unpaced { self.ticked.max(sent_at) } else { sent_at };
        ups.map(|source| {
            let heartbeat = due(last(source.sent_at), config.heartbeat_interval);
            let silent = due(source.heard_at, config.source_timeout);
            let gap = source.behind_gap.deadline().unwrap_or(u64::MAX);
            heartbeat.min(silent).min(gap)
        })
        .min()
    }
}

impl P2ps {
    pub(crate) fn connect_source(&mut self, number: SourceId, joined: Option<Joined>) {
        let (incarnation, now, key, id) = (self.config.incarnation, self.now, self.config.key, self.sources.id);
        if self.sources.get_or_insert(number, incarnation).up {
            self.lose_source(number, StateCode::NONE, "has started again");
        }
        if self.sources.outages.is_losing(number) {
            match joined {
                Some(joined) => return self.sources.outages.rejoin_later(number, joined),
                None => self.finish_outage_of(number),
            }
        }
        self.finish_leaving(number, None);
        let source = self.sources.get_or_insert(number, incarnation);
        debug_assert!(!source.up && source.bound() == 0, "something is left of an earlier life");
        source.up = true;
        source.heard_at = now;
        source.sent_at = now;
        source.number = joined.map_or(id, |joined| joined.number);
        source.joined = joined.map(|joined| joined.incarnation);
        if let Some(Joined { incarnation, position, .. }) = joined {
            source.continuity = Continuity::starting(incarnation, position);
            source.heard = true;
            source.read_to = position;
            self.servers.await_others(now);
        }
        let incarnation = source.joined.unwrap_or(0);
        source.writer.request(&Request::Hello { incarnation, key });
    }

    /// A source that is on the other side of a network is lost, and has to be joined anew.
    pub(crate) fn part_from(&mut self, number: SourceId, code: StateCode, why: &'static str) {
        let over_network = self.sources.is_over_network(number);
        self.lose_source(number, code, why);
        if over_network {
            self.sources.close(number, why);
        }
    }

    /// Messages of a source are lost: it is asked what they were about, and what came behind them waits for the answer.
    pub(crate) fn tell_gap(&mut self, number: SourceId, from: u64, to: u64) {
        let deadline = self.now.saturating_add(self.config.gap_timeout);
        self.counters.hub_gaps += 1;
        self.counters.hub_messages_lost += to.saturating_sub(from);
        let Some(source) = self.sources.up_mut(number) else {
            hub_items::fault!("a gap in the stream of {number:?}, which is not there");
            return;
        };
        source.behind_gap.await_answer(to, deadline);
        source.writer.request(&Request::Gap { from, to });
    }

    /// Acts on a block of a stream over a network, at once or when what was lost before it is known.
    pub(crate) fn read_in_turn<const COPY: bool>(
        &mut self,
        number: SourceId,
        block: &[u8],
        messages: Messages<'_>,
    ) -> Result<(), HubError> {
        let limit = self.config.hold_bytes;
        let Some(source) = self.sources.up_mut(number) else {
            hub_items::fault!("a block of {number:?}, which is not there");
            return Ok(());
        };
        if source.behind_gap.is_empty() {
            let end = source.continuity.next_position().unwrap_or_default();
            self.read_messages::<COPY>(number, block, messages)?;
            self.has_read(number, end, block.len());
        } else if !source.behind_gap.keep(block, limit) {
            self.part_from(number, StateCode::GAP_DETECTED, "sends more than can be held before it says what was lost");
        }
        Ok(())
    }

    /// Everything that was lost before a position has been told: what came behind it is next, up to another gap.
    fn caught_up(&mut self, number: SourceId, position: u64) -> Result<(), HubError> {
        if !self.sources.up_mut(number).is_some_and(|source| source.behind_gap.answered(position)) {
            // An answer for an earlier life of the stream.
            self.counters.hub_messages_unclaimed += 1;
            return Ok(());
        }
        self.has_read(number, position, 0);
        while let Some(source) = self.sources.up_mut(number)
            && let Some(bytes) = source.behind_gap.next_block()
        {
            let (block, known) = (Block::parse(&bytes)?, source.read_to);
            let heading = block.heading;
            let mut messages = block.messages();
            let old = known.saturating_sub(heading.first_seq);
            messages.by_ref().take(usize::try_from(old).unwrap_or(usize::MAX)).for_each(drop);
            self.tell_outages_of_updated(number, messages.clone());
            self.read_messages::<true>(number, &bytes, messages)?;
            self.has_read(number, heading.first_seq.saturating_add(heading.count.into()), bytes.len());
        }
        Ok(())
    }

    /// What was told of a gap may have withdrawn a service of which updates come behind the gap: clients that know of the end by their
    /// directory hear nothing of its items any more.
    fn tell_outages_of_updated(&mut self, number: SourceId, messages: Messages<'_>) {
        if !self.sources.outages.is_telling() {
            return;
        }
        for message in messages.flatten().filter(|message| message.kind == Kind::Update) {
            if let Some(id) = self.sources.item_of(number, Handle(message.handle)) {
                self.tell_outage_of_item(id);
            }
        }
    }

    /// The stream of a source was acted upon up to a position.
    fn has_read(&mut self, number: SourceId, position: u64, bytes: usize) {
        let (now, limit) = (self.now, self.config.report_bytes);
        if let Some(source) = self.sources.up_mut(number) {
            debug_assert!(position >= source.read_to, "a stream is read forwards");
            source.read_to = position;
            source.unreported += bytes;
            if limit > 0 && source.unreported >= limit {
                source.unreported = 0;
                source.sent_at = now;
                source.writer.request(&Request::Heartbeat { position });
            }
            self.take_early_images(number);
        }
    }

    /// Messages for this P2PS alone.
    pub(crate) fn read_point_to_point(&mut self, number: SourceId, bytes: &[u8]) -> Result<(), HubError> {
        if self.keep_for_rejoin(number, true, bytes) {
            return Ok(());
        }
        let block = Block::parse(bytes)?;
        for message in block.messages() {
            let message = message?;
            // The block may end the gap.
            let Some(source) = self.sources.up(number) else { return Ok(()) };
            if source.joined.is_some_and(|incarnation| incarnation != block.heading.incarnation) {
                self.counters.hub_blocks_foreign += 1;
                return Ok(());
            }
            match Event::decode(&message)? {
                Event::CaughtUp { to, .. } => self.caught_up(number, to)?,
                event @ Event::Image { .. } => self.point_to_point_image(number, &event),
                Event::Missed { handle, .. } => {
                    let to = source.behind_gap.awaited();
                    let mirror = self.sources.mirror_of(number, Handle(handle));
                    if let (Some(id), Some(to)) = (mirror, to) {
                        self.mirror_missed(id, to);
                    } else if let (Some(id), Some(to)) = (self.sources.item_of(number, Handle(handle)), to) {
                        self.missed_item(number, id, to);
                    } else {
                        self.counters.hub_messages_unclaimed += 1;
                    }
                }
                event => self.event(number, &event),
            }
        }
        Ok(())
    }

    /// Something of an open item was lost before a position: what its watchers have is not current before the next image, and no
    /// image from before the position is of use.
    fn missed_item(&mut self, number: SourceId, id: ItemId, to: u64) {
        if self.tell_outage_of_item(id) && self.items.get(id).source() != Some(number) {
            // A loss has told of more than this gap, or a mirror has taken over.
            return;
        }
        if self.take_over(id, Former::Missed(to)) {
            self.counters.items_missed += 1;
            return;
        }
        let item = self.items.get(id);
        debug_assert!(item.is_open(), "{id:?} has a handle, and is not open");
        self.counters.items_missed += 1;
        let (private, snapshot, service) = (item.is_private(), item.is_snapshot(), item.service());
        let name = self.sources.services.get(service).map_or("", |service| service.name.as_str());
        let text = format!("Messages of service {name} were lost; the image is asked for again.");
        let stream = if private { StreamState::CLOSED_RECOVER } else { StreamState::OPEN };
        let state = State::new(stream, DataState::SUSPECT, StateCode::GAP_DETECTED, &text);
        if private || snapshot {
            self.give_back(id);
        } else {
            self.items.lose_messages(id);
            self.items.bar_images(id, to.saturating_sub(1));
        }
        let pending = if private { Pending::All } else { Pending::IfFinal };
        self.tell_item(id, state, Telling { pending, relayed: Relayed::No, once: true });
        if private || snapshot {
            self.recover(id);
        } else if self.items.is_watched(id) {
            if self.items.get_mut(id).set_refresh_queued(true) {
                self.sources.upstream.queue_refresh(id);
            }
        } else {
            self.release(id);
        }
    }

    /// One that stood still itself has heard nobody: the time does not count for the others.
    pub(crate) fn note_freeze(&mut self) {
        let (now, interval) = (self.now, self.config.heartbeat_interval);
        let still = now.saturating_sub(std::mem::replace(&mut self.sources.ticked, now));
        let up = self.sources.iter().any(|(_, source)| source.joined.is_some());
        if interval == 0 || still <= 2 * interval || still == now || !up {
            return;
        }
        self.counters.freezes += 1;
        for (_, source) in self.sources.iter_mut() {
            source.heard_at = source.heard_at.saturating_add(still).min(now);
            source.behind_gap.extend(still);
        }
    }

    /// Sends heartbeats, and gives up sources that are silent for too long or do not say what was lost.
    pub(crate) fn watch_sources(&mut self) {
        let (now, limit) = (self.now, self.config.source_timeout);
        let each = if self.config.is_unpaced { UNPACED_HEARTBEATS } else { 1 };
        let interval = self.config.heartbeat_interval * each;
        for number in self.sources.ids() {
            let Some(source) = self.sources.up_mut(number) else { continue };
            if limit > 0 && now.saturating_sub(source.heard_at) >= limit {
                self.part_from(number, StateCode::TIMEOUT, "is silent");
            } else if source.behind_gap.deadline().is_some_and(|deadline| deadline <= now) {
                self.part_from(number, StateCode::GAP_DETECTED, "does not say what was lost");
            } else if interval > 0 && now.saturating_sub(source.sent_at) >= interval {
                source.sent_at = now;
                source.writer.request(&Request::Heartbeat { position: source.read_to });
            }
        }
    }
}
