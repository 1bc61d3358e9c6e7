//! A Source Distributor on the other side of a network: joining it, what is lost on the way, and silence.

use super::items::{ItemId, Phase, bits};
use super::source::{Joined, Source};
use super::statuses::{Pending, Relayed, Telling};
use super::{P2ps, SourceId};
use crate::stream::{Continuity, Request};
use rwf::{DataState, State, StateCode, StreamState};

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

    /// Messages of a source are lost: it is asked what they were about.
    pub(super) fn tell_gap(&mut self, number: u16, from: u64, to: u64) {
        let deadline = self.now.saturating_add(self.config.gap_timeout);
        self.counters.hub_gaps += 1;
        self.counters.hub_messages_lost += to.saturating_sub(from);
        if let Some(source) = self.source_mut(number) {
            source.gaps.push_back((to, deadline));
            source.writer.request(&Request::Gap { from, to });
        }
    }

    /// Everything lost before a position has been told.
    pub(super) fn caught_up(&mut self, number: u16, position: u64) {
        if let Some(source) = self.source_mut(number) {
            source.gaps.retain(|(to, _)| *to != position);
        }
    }

    /// Something of an item was lost: what its watchers have is not current before the next image.
    pub(super) fn missed_item(&mut self, id: ItemId) {
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
        }
        let pending = if private { Pending::Told } else { Pending::ToldIfFinal };
        self.tell_item(id, state, Telling { pending, relayed: Relayed::No, once: true });
        if private || snapshot {
            self.recover(id);
        } else if self.is_watched(id) {
            self.refreshes.push_back(id);
        } else {
            self.release(id);
        }
    }

    /// Asks for the images of open items that need one, as far as the limit of the turn lets it.
    pub(super) fn refresh_waiting(&mut self, budget: u32) {
        for _ in 0..budget {
            let Some(id) = self.refreshes.pop_front() else { return };
            let item = self.items.get(id);
            let due = item.has(bits::LIVE) && item.phase == Phase::Open && item.has(bits::RECOVERING);
            if !due || item.has(bits::IMAGE_ASKED | bits::IN_SET) || !self.is_watched(id) {
                continue;
            }
            if self.is_widening(id) {
                // Its answer may be among what was lost.
                self.reissue_upstream(id, true);
            } else {
                self.ask_image(id);
            }
        }
    }

    pub(super) fn source_timeout(&self) -> Option<u64> {
        let ups = self.sources.iter().flatten().filter(|source| source.up);
        let due = |at: u64, interval: u64| if interval > 0 { at.saturating_add(interval) } else { u64::MAX };
        ups.map(|source| {
            let heartbeat = due(source.sent_at, self.config.heartbeat_interval);
            let silent = due(source.heard_at, self.config.source_timeout);
            let gap = source.gaps.front().map_or(u64::MAX, |(_, deadline)| *deadline);
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
            source.gaps.iter_mut().for_each(|(_, deadline)| *deadline = deadline.saturating_add(still));
        }
    }

    /// Sends heartbeats, and gives up sources that are silent for too long or do not say what was lost.
    pub(super) fn watch_sources(&mut self) {
        let (now, interval, limit) = (self.now, self.config.heartbeat_interval, self.config.source_timeout);
        for number in 0..self.sources.len() as u16 {
            let Some(source) = self.source_mut(number).filter(|source| source.up) else { continue };
            if limit > 0 && now.saturating_sub(source.heard_at) >= limit {
                self.part_from(number, StateCode::TIMEOUT, "is silent");
            } else if source.gaps.front().is_some_and(|(_, deadline)| *deadline <= now) {
                self.part_from(number, StateCode::GAP_DETECTED, "does not say what was lost");
            } else if interval > 0 && now.saturating_sub(source.sent_at) >= interval {
                source.sent_at = now;
                let position = source.continuity.next_position().unwrap_or(0);
                source.writer.request(&Request::Heartbeat { position });
            }
        }
    }
}
