//! A service that is down at one source and up at another: items go where it is up.
//!
//! A service may have a million items at the source where it goes down, so they move in turns, as outages are told of
//! ([`super::outage`]): each turn looks at so many items and no more. An item that has yet to move is served as before, by a source that
//! may still update it.

use crate::p2ps::delivery::statuses::{Pending, Relayed, Telling};
use crate::p2ps::ids::{ItemId, ServiceId, SourceId};
use crate::p2ps::items::state::Standing;
use crate::p2ps::{Notice, P2ps};
use rwf::{DataState, State, StateCode, StreamState};

/// The items of a service leave a source at which it is down.
#[derive(Debug)]
pub(crate) struct Move {
    /// Places in the list of the items that are open there that are not looked at: all below this. An item that leaves the list gives
    /// its place to the last one, which is looked at already; an item that is opened there meanwhile becomes the last one, and stays.
    below: usize,
    /// Items that have gone.
    moved: u64,
}

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
        for provider in known.providers.iter().filter(|provider| !provider.offer.condition.up) {
            let source = provider.source;
            let below = self.items.count_standing(service, Standing::Open(source));
            let moves = &mut self.outages.moves;
            match moves.get_mut((service, source)) {
                Some(under_way) => under_way.below = below,
                None if below == 0 => {}
                None => moves.push_back((service, source), Move { below, moved: 0 }),
            }
        }
        self.work_moves();
    }

    /// Goes on with the moves, as far as this turn lets it.
    pub(super) fn work_moves(&mut self) {
        while self.outages.budget > 0
            && let Some(((service, source), &Move { below, .. })) = self.outages.moves.front()
        {
            let open = self.items.count_standing(service, Standing::Open(source));
            let next = below.min(open).checked_sub(1).filter(|_| self.is_down_beside(service, source));
            let Some(place) = next else {
                self.end_move();
                continue;
            };
            let id = self.items.standing(service, Standing::Open(source)).nth(place).expect("a place in the list");
            let moves = self.can_move(id);
            let cost = if moves { 1 + self.items.watchers(id).len() } else { 1 };
            self.counters.items_touched += cost as u64;
            self.outages.budget = self.outages.budget.saturating_sub(cost);
            if let Some((_, under_way)) = self.outages.moves.front_mut() {
                under_way.below = place;
                under_way.moved += u64::from(moves);
            }
            if moves {
                self.move_item(service, id);
            }
        }
    }

    /// All items of the move in front are looked at, or there is no reason any more to move them.
    fn end_move(&mut self) {
        let Some(((service, source), Move { moved, .. })) = self.outages.moves.pop_front() else { return };
        if moved > 0
            && let Some(known) = self.services.get(service)
        {
            self.notices.push(Notice::ItemsMoved { service: known.name.clone(), source, items: moved });
        }
    }

    /// True if a service is down at this source, and up at another.
    fn is_down_beside(&self, service: ServiceId, source: SourceId) -> bool {
        let Some(known) = self.services.get(service) else { return false };
        let is_up = |at: &super::services::Provider| at.offer.condition.up;
        let down = known.providers.iter().any(|provider| provider.source == source && !is_up(provider));
        down && known.providers.iter().any(is_up)
    }

    fn move_item(&mut self, service: ServiceId, id: ItemId) {
        let name = self.services.get(service).map_or("", |known| known.name.as_str());
        let text = format!("Service {name} is down at its source; the item is asked for at another.");
        let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, &text);
        self.counters.items_lost += 1;
        self.let_go(id);
        // Who waits for a first image hears only what ends the wait: another source is asked at once.
        self.tell_item(id, state, Telling { pending: Pending::ToldIfFinal, relayed: Relayed::No, once: true });
        self.recover(id);
    }

    /// True for an item that is open, and could be had from another source. Private streams are of the provider that they are with.
    pub(in crate::p2ps) fn can_move(&self, id: ItemId) -> bool {
        let item = self.items.get(id);
        let other = self.provider_of(id).map(|(source, _)| source);
        item.is_open() && !item.is_private() && other.is_some_and(|other| item.source() != Some(other))
    }
}
