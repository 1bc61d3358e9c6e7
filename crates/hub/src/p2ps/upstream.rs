//! Towards the Source Distributors: what is opened where and when, what is closed, and what happens when one is lost.

use super::items::{ItemId, NO_SOURCE, Phase, ServiceId, bits};
use super::notice::Notice;
use super::refusal::Refusal;
use super::statuses::{Pending, Relayed, Telling};
use super::{P2ps, SourceId, compose, payload};
use crate::stream::{NO_GROUP, NO_HANDLE, Request, flags};
use rwf::msg::{Domain, Priority, RequestFlags, RequestMsg};
use rwf::rdm::directory::filter;
use rwf::{DataState, DataType, State, StateCode, StreamState};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Items that are asked for again later, by time.
#[derive(Debug, Default)]
pub(crate) struct Retries {
    heap: BinaryHeap<Reverse<(u64, ItemId)>>,
}

impl Retries {
    pub(crate) fn timeout(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }
}

impl P2ps {
    /// Puts an item that has to be opened in its service's queue.
    pub(super) fn queue_open(&mut self, id: ItemId) {
        let item = self.items.get_mut(id);
        if item.phase != Phase::Waiting || item.has(bits::QUEUED | bits::RETRYING) {
            return;
        }
        item.set(bits::QUEUED);
        let service = item.service;
        if let Some(service) = self.services.get_mut(service) {
            service.queue.push_back(id);
        }
    }

    /// True if items can be opened at once, but for the limit of opens a turn.
    pub(super) fn work_left(&self) -> bool {
        !self.refreshes.is_empty()
            || self.services.iter().any(|service| {
                service
                    .queue
                    .front()
                    .is_some_and(|&id| self.provider_of(id).is_none_or(|(source, _)| self.room_at(source)))
            })
    }

    fn room_at(&self, source: u16) -> bool {
        let window = self.config.open_window as usize;
        self.sources.get(usize::from(source)).and_then(Option::as_deref).is_none_or(|source| source.has_room(window))
    }

    /// The source that could serve an item now, and the service's id there.
    fn provider_of(&self, id: ItemId) -> Option<(u16, u16)> {
        let item = self.items.get(id);
        let key = self.items.key(id);
        self.services.alive(item.service)?.choose(&self.sources, Domain(key.domain), key.qos.to_qos())
    }

    /// Opens what waits, as far as the limits of a turn and the open windows let it.
    pub(super) fn open_waiting(&mut self) {
        let mut budget = self.opens_left;
        for service in self.services.round() {
            while budget > 0 {
                let Some(id) = self.services.get(service).and_then(|service| service.queue.front().copied()) else {
                    break;
                };
                let item = self.items.get(id);
                let due = item.has(bits::QUEUED) && item.phase == Phase::Waiting && item.service == service;
                match due.then(|| self.provider_of(id)).flatten() {
                    Some((source, _)) if !self.room_at(source) => break,
                    Some((source, remote)) => {
                        self.open_at(id, source, remote);
                        budget -= 1;
                    }
                    None if due => self.park(id),
                    None => {}
                }
                if let Some(service) = self.services.get_mut(service) {
                    service.queue.pop_front();
                }
            }
        }
        self.opens_left = self.refresh_waiting(budget);
    }

    /// Leaves an item waiting until something changes for its service.
    fn park(&mut self, id: ItemId) {
        let item = self.items.get_mut(id);
        item.clear(bits::QUEUED);
        let service = item.service;
        if let Some(service) = self.services.get_mut(service) {
            service.parked = true;
        }
    }

    /// Queues the items of a service that nobody could serve: something has changed.
    pub(super) fn unpark(&mut self, service: ServiceId) {
        let Some(known) = self.services.get_mut(service) else { return };
        if !std::mem::take(&mut known.parked) {
            return;
        }
        for id in 0..self.items.bound() {
            let item = self.items.get(id);
            if item.has(bits::LIVE) && item.service == service && item.phase == Phase::Waiting {
                self.queue_open(id);
            }
        }
    }

    fn open_at(&mut self, id: ItemId, source: u16, remote: u16) {
        let mut request = Vec::new();
        let view = self.wanted_view(id);
        let written = self.write_request(id, view.as_ref(), &mut request);
        self.items.clear_widening(id);
        let item = self.items.get_mut(id);
        item.clear(bits::QUEUED | bits::REISSUE_DUE);
        if !written {
            return self.give_up(id, &Refusal::NotEncodable);
        }
        let item = self.items.get(id);
        let mut kind = if item.has(bits::SNAPSHOT) { flags::SNAPSHOT_ONLY } else { flags::STREAMING };
        if item.has(bits::PRIVATE) {
            kind |= flags::PRIVATE;
        }
        let Some(at) = self.sources.get_mut(usize::from(source)).and_then(Option::as_deref_mut) else { return };
        let token = at.new_token(id);
        at.writer.request(&Request::Open { service: remote, token, flags: kind, rwf: &request });
        let item = self.items.get_mut(id);
        item.phase = Phase::Opening;
        item.handle = token;
        item.source = source;
        item.group = NO_GROUP;
        item.set(bits::IMAGE_ASKED);
        self.note_asked_view(id, view, false);
    }

    /// Writes the request for an item as its Source Distributor gets it: exact quality, no service id.
    fn write_request(&self, id: ItemId, view: Option<&super::views::ViewSpec>, out: &mut Vec<u8>) -> bool {
        let item = self.items.get(id);
        let key = self.items.key(id);
        let payload = payload::joined(view.map(super::views::ViewSpec::payload), item.elements());
        let mut flags = RequestFlags::NONE;
        flags.set(RequestFlags::STREAMING, !item.has(bits::SNAPSHOT));
        flags.set(RequestFlags::PRIVATE_STREAM, item.has(bits::PRIVATE));
        flags.set(RequestFlags::QUALIFIED_STREAM, item.has(bits::QUALIFIED));
        flags.set(RequestFlags::HAS_VIEW, view.is_some());
        let mut msg_key = key.msg_key(0);
        msg_key.service_id = None;
        let request = RequestMsg {
            flags,
            key: msg_key,
            qos: key.qos.to_qos(),
            priority: Some(Priority { class: item.priority, count: 1 }),
            container: if payload.is_empty() { DataType::NO_DATA } else { DataType::ELEMENT_LIST },
            body: &payload,
            ..RequestMsg::new(Domain(key.domain), 0)
        };
        compose::append(out, 512 + item.key.len() + request.body.len(), |w| request.encode(w)).is_ok()
    }

    /// Sends an open item's request again: its view or priority has changed. Only with an image more is asked for than
    /// before: without one, nobody would know from when on it comes.
    pub(super) fn reissue_upstream(&mut self, id: ItemId, with_image: bool) {
        let mut request = Vec::new();
        let view = if with_image { self.wanted_view(id) } else { self.narrowed_view(id) };
        if !self.write_request(id, view.as_ref(), &mut request) {
            return;
        }
        let item = self.items.get_mut(id);
        if item.phase != Phase::Open {
            return;
        }
        if with_image {
            item.clear(bits::REISSUE_DUE);
            item.set(bits::IMAGE_ASKED);
        }
        let (source, handle) = (item.source, item.handle);
        let in_stream = with_image && self.is_asked_by_open(id);
        let serial = with_image.then(|| {
            self.last_reissue = self.last_reissue.wrapping_add(1).max(1);
            self.items.get_mut(id).extra_mut().serial = self.last_reissue;
            self.last_reissue
        });
        if let Some(source) = self.source_mut(source) {
            source.writer.request(&Request::Reissue { handle, serial, in_stream, rwf: &request });
        }
        self.note_asked_view(id, view, with_image);
    }

    /// Asks for the image of an open item, unless one is on its way that will do.
    pub(super) fn ask_image(&mut self, id: ItemId) {
        let item = self.items.get_mut(id);
        match item.phase {
            Phase::Waiting => self.queue_open(id),
            // The answer to a reissue is awaited, and may have been among what was lost: no image is known to hold what was asked
            // for before one that it stands in front of.
            Phase::Open if !item.has(bits::IMAGE_ASKED) && item.is_reissued() => self.reissue_upstream(id, true),
            Phase::Open if !item.has(bits::IMAGE_ASKED) => {
                item.set(bits::IMAGE_ASKED);
                let (source, handle) = (item.source, item.handle);
                let in_stream = self.is_asked_by_open(id);
                if let Some(source) = self.source_mut(source) {
                    source.writer.request(&Request::Refresh { handle, in_stream });
                }
            }
            Phase::Open | Phase::Opening | Phase::View => {}
        }
    }

    /// Gives an item back if nobody watches it any more. What was asked for stays until it is answered.
    pub(super) fn release(&mut self, id: ItemId) {
        if !self.items.watchers[id as usize].is_empty() {
            return;
        }
        let item = self.items.get(id);
        if let Some(parent) = item.parent() {
            return self.release_view(id, parent);
        }
        if !item.has(bits::LIVE) {
            return;
        }
        if !item.views().is_empty() {
            return self.narrow_upstream(id);
        }
        match item.phase {
            Phase::Waiting => self.items.remove(id),
            Phase::Open => {
                self.give_back(id);
                self.items.remove(id);
            }
            Phase::Opening | Phase::View => {}
        }
    }

    /// Ends the use of an item's handle, if it has one: it waits from now on.
    pub(super) fn give_back(&mut self, id: ItemId) {
        let item = self.items.get_mut(id);
        if item.phase != Phase::Open {
            return;
        }
        let (number, handle) = (item.source, item.handle);
        self.detach(id);
        if let Some(source) = self.source_mut(number) {
            source.unbind(handle);
            source.writer.request(&Request::Close { handle });
        }
    }

    /// Makes an item one that waits, whatever it was. Its watchers wait for an image as well: what follows under another
    /// handle does not go on from what they have.
    pub(super) fn detach(&mut self, id: ItemId) {
        self.items.hold_all(id);
        self.items.holds.forget(id);
        let item = self.items.get_mut(id);
        item.phase = Phase::Waiting;
        item.handle = NO_HANDLE;
        item.source = NO_SOURCE;
        if std::mem::replace(&mut item.group, NO_GROUP) != NO_GROUP {
            item.set(bits::REGROUPED);
        }
        if let Some(extra) = item.extra.as_mut() {
            (extra.serial, extra.wide_from) = (0, 0);
        }
        item.clear(bits::IMAGE_ASKED | bits::IN_SET | bits::REISSUE_DUE | bits::UPDATE_WITHHELD);
    }

    /// Asks for an item again after a pause, which grows with every failure in a row.
    pub(super) fn retry_later(&mut self, id: ItemId) {
        let item = self.items.get_mut(id);
        if item.phase != Phase::Waiting || item.has(bits::RETRYING | bits::QUEUED) {
            return;
        }
        item.set(bits::RETRYING);
        let doubled = self.config.recovery_delay.saturating_mul(1 << item.failures.min(20));
        item.failures = item.failures.saturating_add(1);
        let at = self.now.saturating_add(doubled.min(self.config.recovery_delay_max));
        self.retries.heap.push(Reverse((at, id)));
    }

    pub(super) fn retry_items(&mut self) {
        while let Some(&Reverse((at, id))) = self.retries.heap.peek() {
            if at > self.now {
                return;
            }
            self.retries.heap.pop();
            let item = self.items.get_mut(id);
            if item.has(bits::LIVE) && item.has(bits::RETRYING) {
                item.clear(bits::RETRYING);
                self.counters.items_recovered += 1;
                self.queue_open(id);
            }
        }
    }

    /// A source is lost: its items are suspect and wait for another, its services lose a provider.
    pub(super) fn lose_source(&mut self, number: u16, code: StateCode, why: &'static str) {
        let Some(source) = self.source_mut(number).filter(|source| source.up) else { return };
        source.forget();
        self.nak_posts_to(number);
        let mut lost = 0;
        for service in 1..=self.services.count() {
            lost += self.lose_service(service, number, code, why);
        }
        // What it was asked for in services that it has withdrawn since is answered by nobody.
        let unanswered: Vec<ItemId> = self.items.ids().filter(|&id| self.items.get(id).source == number).collect();
        for id in unanswered {
            self.let_go(id);
            self.recover(id);
        }
        self.counters.items_lost += lost;
        self.notices.push(Notice::SourceLost { source: SourceId(number), items: lost, why });
    }

    /// What losing a source means for one service; tells how many items it served.
    fn lose_service(&mut self, service: ServiceId, number: u16, code: StateCode, why: &str) -> u64 {
        let Some(known) = self.services.get_mut(service) else { return 0 };
        let before = known.providers.len();
        known.providers.retain(|provider| provider.source != number);
        if known.providers.len() == before {
            return 0;
        }
        let text = format!("The source of service {} {why}; it is asked for again by itself.", known.name);
        // Turned to each client's wishes: open and suspect for who leaves recovery to this server.
        let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, code, &text);
        let lost = self.items_at(service, number);
        let alone = !self.has_answered_beside(service, |item| item.source == number);
        self.service_changed(service, alone.then_some(state).filter(|_| !lost.is_empty()));
        let relayed = if alone { Relayed::Status(filter::STATE) } else { Relayed::No };
        for &id in &lost {
            self.let_go(id);
            // Who waits for a first image hears only what ends the wait, unless nobody is left to ask.
            let pending = if self.provider_of(id).is_some() { Pending::ToldIfFinal } else { Pending::Told };
            self.tell_item(id, state, Telling { pending, relayed, once: true });
            self.recover(id);
        }
        self.unpark(service);
        lost.len() as u64
    }

    /// A source offers a service no more. Without any other the service is deleted, which closes everything; who leaves
    /// recovery to this server and has no directory stays, and waits for the service to return.
    pub(super) fn withdraw_service(&mut self, service: ServiceId, number: u16) {
        let Some(known) = self.services.get(service) else { return };
        if known.providers.iter().any(|provider| provider.source != number) {
            self.lose_service(service, number, StateCode::NONE, "offers it no more");
            return;
        }
        let name = known.name.clone();
        let text = format!("Service {name} is gone.");
        let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, &text);
        self.delete_service(service);
        let members: Vec<ItemId> = self
            .items
            .ids()
            .filter(|&id| {
                let item = self.items.get(id);
                item.service == service && item.phase != Phase::View
            })
            .collect();
        for id in members {
            self.let_go(id);
            self.tell_item(id, state, Telling { pending: Pending::Told, relayed: Relayed::Deleted, once: false });
            self.recover(id);
        }
        self.notices.push(Notice::ServiceGone { service: name });
    }

    /// Items of a service that a source serves or was asked for.
    fn items_at(&self, service: ServiceId, number: u16) -> Vec<ItemId> {
        let at = |id: &ItemId| {
            let item = self.items.get(*id);
            item.service == service && item.source == number && item.phase != Phase::View
        };
        self.items.ids().filter(at).collect()
    }

    /// Ends an item's bond with its source: what is open is given back, what was asked for is awaited no more if the
    /// source is gone.
    fn let_go(&mut self, id: ItemId) {
        let item = self.items.get(id);
        let (phase, number) = (item.phase, item.source);
        let up = self.sources.get(usize::from(number)).and_then(Option::as_deref).is_some_and(|source| source.up);
        match phase {
            Phase::Open if up => self.give_back(id),
            Phase::Open | Phase::Opening if !up => self.detach(id),
            _ => {}
        }
    }

    /// Has a lost item opened again, if someone is left who watches it.
    pub(super) fn recover(&mut self, id: ItemId) {
        let item = self.items.get(id);
        if !item.has(bits::LIVE) || item.phase != Phase::Waiting {
            return;
        }
        if item.has(bits::PRIVATE) {
            return self.release(id);
        }
        self.items.get_mut(id).set(bits::RECOVERING);
        if self.is_watched(id) {
            self.counters.items_recovered += 1;
            self.queue_open(id);
        } else {
            self.release(id);
        }
    }

    /// True if someone watches an item, directly or through a view.
    pub(super) fn is_watched(&self, id: ItemId) -> bool {
        !self.items.watchers[id as usize].is_empty() || !self.items.get(id).views().is_empty()
    }
}
