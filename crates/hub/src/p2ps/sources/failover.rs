//! A service that is down at one source and up at another: items go where it is up.

use crate::p2ps::delivery::statuses::{Pending, Relayed, Telling};
use crate::p2ps::ids::{ItemId, ServiceId, SourceId};
use crate::p2ps::{Notice, P2ps};
use rwf::{DataState, State, StateCode, StreamState};

impl P2ps {
    /// A source has said something of a service. Items that are open where the service is down are given back, and asked for where it
    /// takes requests.
    pub(in crate::p2ps) fn leave_down_sources(&mut self, service: ServiceId) {
        let Some(known) = self.services.get(service) else {
            debug_assert!(false, "a service that never was: {service:?}");
            return;
        };
        let up = known.providers.iter().filter(|provider| provider.offer.condition.up).count();
        if up == 0 || up == known.providers.len() {
            return;
        }
        let name = known.name.clone();
        let is_down = |provider: &&super::services::Provider| !provider.offer.condition.up;
        let down: Vec<SourceId> = known.providers.iter().filter(is_down).map(|provider| provider.source).collect();
        let text = format!("Service {name} is down at its source; the item is asked for at another.");
        let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, &text);
        for source in down {
            let moves: Vec<ItemId> =
                self.items_at(service, source).into_iter().filter(|&id| self.can_move(id)).collect();
            if moves.is_empty() {
                continue;
            }
            for &id in &moves {
                self.let_go(id);
                // Who waits for a first image hears only what ends the wait: another source is asked at once.
                self.tell_item(id, state, Telling { pending: Pending::ToldIfFinal, relayed: Relayed::No, once: true });
                self.recover(id);
            }
            self.counters.items_lost += moves.len() as u64;
            self.notices.push(Notice::ItemsMoved { service: name.clone(), source, items: moves.len() as u64 });
        }
    }

    /// True for an item that is open, and could be had from another source. Private streams are of the provider that they are with.
    pub(in crate::p2ps) fn can_move(&self, id: ItemId) -> bool {
        let item = self.items.get(id);
        let other = self.provider_of(id).map(|(source, _)| source);
        item.is_open() && !item.is_private() && other.is_some_and(|other| item.source() != Some(other))
    }
}
