//! A service that is down at one provider and up at another: items go where it is up.
//!
//! A service may have a million items at the provider where it goes down, so they move in turns, each of
//! [`crate::distributor::Config::work_per_turn`] items, and what other providers send goes out in between. An item that has yet to move
//! is served as before, by a provider that may still update it.

use crate::distributor::ids::Handle;
use crate::distributor::{Notice, ProviderSink, SessionId, SourceDistributor};
use rwf::{DataState, State, StateCode, StreamState};

/// The items of a service leave a provider at which it is down.
#[derive(Debug)]
pub(super) struct Move {
    service: u16,
    session: SessionId,
    /// Address of the provider, which may be gone when the move is over.
    provider: String,
    /// Places in the list of the items that the provider has on its streams that are not looked at: all below this. An item that leaves
    /// the list gives its place to the last one, which is looked at already.
    below: usize,
    /// Items that have gone.
    moved: usize,
}

impl SourceDistributor {
    /// The items of a service leave the providers at which it is down, for others at which it is up. Private streams are of the
    /// provider that they are with.
    pub(super) fn leave_down_providers(&mut self, now: u64, service: u16, out: &mut dyn ProviderSink) {
        let known = &self.services[service];
        if known.cached || known.providers().len() < 2 {
            return;
        }
        let down: Vec<SessionId> =
            known.providers().iter().copied().filter(|&id| self.is_down_with_items(id, service)).collect();
        for session in down {
            let below = self.items.at(session, service).len();
            let provider = self.providers[session].peer.address.clone();
            let queue = &mut self.outages.moves;
            match queue.iter_mut().find(|under_way| (under_way.service, under_way.session) == (service, session)) {
                Some(under_way) => under_way.below = below,
                None => queue.push_back(Move { service, session, provider, below, moved: 0 }),
            }
        }
        self.work_moves(now, out);
    }

    fn is_down_with_items(&self, session: SessionId, service: u16) -> bool {
        let offer = self.providers.offer(session, service);
        offer.is_some_and(|offer| !offer.up && offer.open + offer.outstanding > 0)
    }

    /// Goes on with the moves, as far as this turn lets it.
    pub(in crate::distributor) fn work_moves(&mut self, now: u64, out: &mut dyn ProviderSink) {
        while self.outages.budget > 0
            && let Some(&Move { service, session, below, .. }) = self.outages.moves.front()
        {
            let below = below.min(self.items.at(session, service).len());
            if below == 0 || !self.is_down_with_items(session, service) {
                self.end_move();
                continue;
            }
            let looked = below.min(self.outages.budget);
            let rest = below - looked;
            self.outages.budget -= looked;
            let mut handles: Vec<Handle> = self.items.at(session, service).skip(rest).take(looked).collect();
            handles.retain(|&handle| !self.items[handle].is_private() && self.is_served_beside(handle, session));
            let under_way = &mut self.outages.moves[0];
            under_way.below = rest;
            under_way.moved += handles.len();
            self.move_items(now, session, service, &handles, out);
        }
    }

    /// All items of the move in front are looked at, or there is no reason any more to move them.
    fn end_move(&mut self) {
        let Some(Move { service, provider, moved, .. }) = self.outages.moves.pop_front() else { return };
        if moved > 0
            && let Some(known) = self.services.get(service)
        {
            let service = known.name.clone();
            self.notices.push(Notice::ItemsMoved { service, provider, items: moved });
        }
    }

    fn move_items(
        &mut self,
        now: u64,
        session: SessionId,
        service: u16,
        handles: &[Handle],
        out: &mut dyn ProviderSink,
    ) {
        if handles.is_empty() {
            return;
        }
        for &handle in handles {
            self.close_upstream(now, handle, out);
        }
        let provider = &self.providers[session].peer.address;
        let text = format!("Service is down at provider {provider}: the item is asked for at another");
        let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, &text);
        let waited_for = self.lose_items(service, handles, state, true);
        self.explain_waits(now, &waited_for);
    }
}
