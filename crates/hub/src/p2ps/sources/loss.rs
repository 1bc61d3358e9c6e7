//! What the end of a source, of its service or of an item there means: those who watch are told, and it is asked for elsewhere, or
//! again.

use super::services::Provider;
use crate::p2ps::delivery::statuses::{Pending, Relayed, Telling};
use crate::p2ps::ids::{ItemId, ServiceId, SourceId};
use crate::p2ps::items::state::State as ItemState;
use crate::p2ps::{Notice, P2ps};
use rwf::rdm::directory::filter;
use rwf::{DataState, State, StateCode, StreamState};

impl P2ps {
    /// A source is lost: its items are suspect and wait for another, its services lose a provider.
    pub(in crate::p2ps) fn lose_source(&mut self, number: SourceId, code: StateCode, why: &'static str) {
        // A transport may end after its silence was found here.
        let Some(source) = self.sources.up_mut(number) else { return };
        source.forget();
        self.nak_posts_to(number);
        let mut lost = 0;
        for service in self.services.ids() {
            lost += self.lose_service(service, number, code, why);
        }
        // What it was asked for in services that it has withdrawn since is answered by nobody.
        let unanswered: Vec<ItemId> =
            self.items.ids().filter(|&id| self.items.get(id).source() == Some(number)).collect();
        for id in unanswered {
            self.let_go(id);
            self.recover(id);
        }
        self.counters.items_lost += lost;
        self.notices.push(Notice::SourceLost { source: number, items: lost, why });
    }

    /// What losing a source means for one service; tells how many items it served.
    fn lose_service(&mut self, service: ServiceId, number: SourceId, code: StateCode, why: &str) -> u64 {
        let Some(known) = self.services.get_mut(service) else {
            debug_assert!(false, "a service that never was: {service:?}");
            return 0;
        };
        let before = known.providers.len();
        known.providers.retain(|provider| provider.source != number);
        if known.providers.len() == before {
            return 0;
        }
        let text = format!("The source of service {} {why}; it is asked for again by itself.", known.name);
        // Turned to each client's wishes: open and suspect for who leaves recovery to this server.
        let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, code, &text);
        let lost = self.items_at(service, number);
        let alone = !self.has_answered_beside(service, |item| item.source() == Some(number));
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
    pub(in crate::p2ps) fn withdraw_service(&mut self, service: ServiceId, number: SourceId) {
        let Some(known) = self.services.get(service) else {
            debug_assert!(false, "a service that never was: {service:?}");
            return;
        };
        let other = |provider: &Provider| provider.source != number;
        if known.providers.iter().any(other) {
            self.lose_service(service, number, StateCode::NONE, "offers it no more");
            return;
        }
        let name = known.name.clone();
        let text = format!("Service {name} is gone.");
        let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, &text);
        self.delete_service(service);
        let of_service = |&id: &ItemId| {
            let item = self.items.get(id);
            item.service() == service && !item.is_view()
        };
        for id in self.items.ids().filter(of_service).collect::<Vec<_>>() {
            self.let_go(id);
            self.tell_item(id, state, Telling { pending: Pending::Told, relayed: Relayed::Deleted, once: false });
            self.recover(id);
        }
        self.notices.push(Notice::ServiceGone { service: name });
    }

    /// Items of a service that a source serves or was asked for.
    pub(super) fn items_at(&self, service: ServiceId, number: SourceId) -> Vec<ItemId> {
        let at = |&id: &ItemId| {
            let item = self.items.get(id);
            item.service() == service && item.source() == Some(number)
        };
        self.items.ids().filter(at).collect()
    }

    /// Ends an item's bond with its source: what is open is given back, what was asked for is awaited no more if the
    /// source is gone.
    pub(super) fn let_go(&mut self, id: ItemId) {
        let item = self.items.get(id);
        let up = item.source().is_some_and(|source| self.sources.is_up(source));
        match (item.state(), up) {
            (ItemState::Open { .. }, true) => self.give_back(id),
            (ItemState::Open { .. } | ItemState::Opening { .. }, false) => self.items.detach(id),
            _ => {}
        }
    }

    /// Has a lost item opened again, if someone is left who watches it.
    pub(in crate::p2ps) fn recover(&mut self, id: ItemId) {
        let item = self.items.get_mut(id);
        // It may be gone with its last watcher, or be asked for already.
        if !item.is_waiting() {
            return;
        }
        if item.is_private() {
            return self.release(id);
        }
        item.recover();
        if self.items.is_watched(id) {
            self.counters.items_recovered += 1;
            self.queue_open(id);
        } else {
            self.release(id);
        }
    }

    /// An open that a Source Distributor refuses. Who lets this server recover streams is told once, and waits.
    pub(in crate::p2ps) fn refused(&mut self, id: ItemId, state: State<'_>) {
        self.items.detach(id);
        self.tell_item(id, state, Telling { once: true, ..Telling::ALL });
        self.recover_later(id);
    }

    /// After a final state: those who are left want it again.
    pub(in crate::p2ps) fn recover_later(&mut self, id: ItemId) {
        let item = self.items.get_mut(id);
        // It may be gone with its last watcher.
        if !item.is_waiting() {
            return;
        }
        if self.items.is_watched(id) {
            self.items.get_mut(id).recover();
            self.retry_later(id);
        } else {
            self.release(id);
        }
    }
}
