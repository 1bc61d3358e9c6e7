//! A service that is down at one source and up at another: items go where it is up. And where sources have an order, items go back to
//! the first of them when it has the service again ([`super::order`]), or to the one that an operator has switched to.
//!
//! A service may have a million items at the source where it goes down, so they move in turns, as outages are told of
//! ([`super::outage`]): each turn looks at so many items and no more. An item that has yet to move is served as before, by a source that
//! may still update it.

use super::Sources;
use super::services::Provider;
use crate::hot_standby::Former;
use crate::ids::{ItemId, ServiceId, SourceId};
use crate::items::Items;
use crate::items::state::Standing;
use crate::items::telling::{Pending, Relayed, Telling};
use crate::{Notice, P2ps};
use rwf::{DataState, State, StateCode, StreamState};
use std::fmt;

/// Why the items of a service leave a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The service is down there.
    Down,
    /// Another source comes first, maybe because an operator has said so.
    NotFirst { first: SourceId, by_hand: bool },
}

/// The items of a service leave a source.
#[derive(Debug)]
pub(crate) struct Move {
    why: Why,
    /// Places in the list of the items that are open there that are not looked at: all below this. An item that leaves the list gives
    /// its place to the last one, which is looked at already; an item that is opened there meanwhile becomes the last one, and stays.
    below: usize,
    /// Items that have gone.
    moved: u64,
    /// Some are to go when their mirrors are ready.
    is_to_go_on: bool,
}

/// Why a switch to a Source Distributor is not made. The text is for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SwitchError {
    /// No Source Distributor has a service of this name.
    NoService(String),
    /// None of those that have it is called this.
    NoSource {
        /// The name that was asked for.
        source: String,
        /// Names of the Source Distributors that have the service.
        known: Vec<String>,
    },
    /// The service is down there, or takes no requests.
    NotUp {
        /// The Source Distributor's name.
        source: String,
    },
}

impl fmt::Display for SwitchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoService(name) => write!(f, "no source distributor has a service {name:?}"),
            Self::NoSource { source, known } => {
                write!(f, "no source distributor that has it is called {source}; there are {}", known.join(", "))
            }
            Self::NotUp { source } => write!(f, "Source Distributor {source} takes no requests for it now"),
        }
    }
}

impl std::error::Error for SwitchError {}

impl Sources {
    /// Whether the items of a move have still a reason to leave.
    fn is_to_leave(&self, service: ServiceId, source: SourceId, why: Why) -> bool {
        // The items of a service that is gone are told of that.
        let Some(known) = self.services.alive(service) else { return false };
        match why {
            Why::Down => {
                let is_up = |at: &Provider| at.offer.condition.up;
                let down = known.providers.iter().any(|provider| provider.source == source && !is_up(provider));
                down && known.providers.iter().any(is_up)
            }
            Why::NotFirst { first, .. } => known.choice.first() == Some(first) && first != source,
        }
    }

    /// The items of a service leave a source, in this turn and the next ones.
    pub(super) fn begin_move(&mut self, items: &Items, service: ServiceId, source: SourceId, why: Why) {
        let below = items.count_standing(service, Standing::Open(source));
        let is_any = below + items.count_standing(service, Standing::Opening(source)) > 0;
        let moves = &mut self.outages.moves;
        match moves.get_mut((service, source)) {
            Some(under_way) => (under_way.below, under_way.why) = (below, why),
            None if is_any => moves.push_back((service, source), Move { why, below, moved: 0, is_to_go_on: false }),
            None => {}
        }
    }
}

impl P2ps {
    /// A source has said something of a service. Items that are open where the service is down are given back, and asked for where it
    /// takes requests.
    pub(crate) fn leave_down_sources(&mut self, service: ServiceId) {
        let Some(known) = self.sources.services.get(service) else {
            hub_items::fault!("a service that never was: {service:?}");
            return;
        };
        let up = known.providers.iter().filter(|provider| provider.offer.condition.up).count();
        if up == 0 || up == known.providers.len() {
            return;
        }
        let down = known.providers.iter().filter(|provider| !provider.offer.condition.up);
        for source in down.map(|provider| provider.source).collect::<Vec<_>>() {
            self.sources.begin_move(&self.items, service, source, Why::Down);
        }
        self.work_moves();
    }

    /// An operator has the items of a service asked for at the Source Distributor of this name, until that one is gone; `None` goes back
    /// to the configured order. Tells how many items go from other ones, in this turn and the next ones.
    ///
    /// # Errors
    /// No such service, no such Source Distributor, or one that does not take requests for it.
    pub fn switch_source(&mut self, now: u64, service: &str, source: Option<&str>) -> Result<usize, SwitchError> {
        self.now = now;
        let found = self.sources.services.iter().find(|known| known.alive && known.name == service);
        let known = found.ok_or_else(|| SwitchError::NoService(service.to_owned()))?;
        let id = known.id;
        let wanted = match source {
            None => None,
            Some(wanted) => {
                let named = |provider: &&Provider| self.sources.name_of(provider.source) == wanted;
                let all = || known.providers.iter().map(|provider| self.sources.name_of(provider.source)).collect();
                let no_source = || SwitchError::NoSource { source: wanted.to_owned(), known: all() };
                let found = known.providers.iter().find(named).ok_or_else(no_source)?;
                if !found.takes_requests(&self.sources) {
                    return Err(SwitchError::NotUp { source: wanted.to_owned() });
                }
                Some(found.source)
            }
        };
        self.begin_outages_in(id);
        self.switch_to(id, wanted);
        let is_ordered = wanted.is_some() || !self.config.source_order.is_empty();
        Ok(if is_ordered { self.leave_later_sources(id, true) } else { 0 })
    }

    /// Goes on with the moves, as far as this turn lets it.
    pub(super) fn work_moves(&mut self) {
        while self.sources.outages.budget > 0
            && let Some(((service, source), &Move { why, below, .. })) = self.sources.outages.moves.front()
        {
            let open = self.items.count_standing(service, Standing::Open(source));
            let next = below.min(open).checked_sub(1).filter(|_| self.sources.is_to_leave(service, source, why));
            let Some(place) = next else {
                self.end_move();
                continue;
            };
            let id = self.items.standing(service, Standing::Open(source)).nth(place).expect("a place in the list");
            let moves = match why {
                Why::Down => self.can_move(id),
                Why::NotFirst { .. } => self.can_move(id) && self.comes_before(service, id, source),
            };
            let waits = moves && matches!(why, Why::NotFirst { .. }) && self.waits_for_mirror(id);
            let moves = moves && !waits;
            let cost = if moves { 1 + self.items.watchers(id).len() } else { 1 };
            self.counters.items_touched += cost as u64;
            self.sources.outages.budget = self.sources.outages.budget.saturating_sub(cost);
            if let Some((_, under_way)) = self.sources.outages.moves.front_mut() {
                under_way.below = place;
                under_way.moved += u64::from(moves);
                under_way.is_to_go_on |= waits;
            }
            if moves {
                self.move_item(service, id, source, why);
            }
        }
    }

    /// All items of the move in front are looked at, or there is no reason any more to move them.
    fn end_move(&mut self) {
        // The caller has found a move in front.
        let Some(((service, source), Move { why, moved, is_to_go_on, .. })) = self.sources.outages.moves.pop_front()
        else {
            return;
        };
        let is_half = || is_to_go_on || self.items.count_standing(service, Standing::Opening(source)) > 0;
        if let Why::NotFirst { .. } = why
            && self.sources.is_to_leave(service, source, why)
            && is_half()
        {
            let is_soon = !is_to_go_on || self.hot_standby.is_filling(service);
            let pause = if is_soon {
                self.config.recovery_delay
            } else {
                self.sources.longest_recovery_delay(&self.config, service)
            };
            self.sources.look_again_after(self.now, service, pause);
        }
        // Operators hear of no move of nothing.
        let Some(known) = self.sources.services.get(service).filter(|_| moved > 0) else { return };
        let (service, from) = (known.name.clone(), self.sources.name_of(source));
        self.output.notice(match why {
            Why::Down => Notice::ItemsMoved { service, source: from, items: moved },
            Why::NotFirst { first, by_hand } => {
                Notice::ItemsSwitched { service, from, to: self.sources.name_of(first), items: moved, by_hand }
            }
        });
    }

    /// True if an item is asked for at a source that comes before the one where it is open.
    fn comes_before(&self, service: ServiceId, id: ItemId, source: SourceId) -> bool {
        let other = self.sources.provider_of(&self.items, id).map(|(other, _)| other);
        self.sources.services.alive(service).zip(other).is_some_and(|(known, other)| known.is_before(other, source))
    }

    /// True if an item that is to go to another source is mirrored there, or is to be, and the mirror could not take over yet: it goes
    /// when that can.
    fn waits_for_mirror(&self, id: ItemId) -> bool {
        let to = self.sources.provider_of(&self.items, id).map(|(source, _)| source);
        let is_mirrored_there =
            self.hot_standby.mirror_source(id) == to || self.standby_for(id).map(|(source, _)| source) == to;
        self.sources.is_hot(&self.items, &self.config, id)
            && to.is_some()
            && is_mirrored_there
            && !self.is_mirror_ready(id)
    }

    fn move_item(&mut self, service: ServiceId, id: ItemId, source: SourceId, why: Why) {
        let is_to_mirror = match why {
            Why::Down => true,
            Why::NotFirst { .. } => {
                self.hot_standby.mirror_source(id)
                    == self.sources.provider_of(&self.items, id).map(|(source, _)| source)
            }
        };
        let former = if why == Why::Down { Former::GivenBack } else { Former::StandsBy };
        if is_to_mirror && self.take_over(id, former) {
            return;
        }
        let name = self.sources.services.get(service).map_or("", |known| known.name.as_str());
        let text = match why {
            Why::Down => {
                let text = format!("Service {name} is down at its source; the item is asked for at another.");
                self.config.status_texts.service_down(text).into_owned()
            }
            Why::NotFirst { first, .. } => {
                let (from, to) = (self.sources.name_of(source), self.sources.name_of(first));
                format!("Item goes from source distributor {from} to {to}.")
            }
        };
        let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, &text);
        self.counters.items_lost += 1;
        self.let_go(id);
        // Watchers that wait for a first image hear only what ends the wait: another source is asked at once.
        self.tell_item(id, state, Telling { pending: Pending::IfFinal, relayed: Relayed::No, once: true });
        self.recover(id);
        self.sources.note_lost(self.now, service);
    }

    /// True for an item that is open, and could be had from another source. Private streams are of the provider that they are with.
    pub(crate) fn can_move(&self, id: ItemId) -> bool {
        let item = self.items.get(id);
        let other = self.sources.provider_of(&self.items, id).map(|(source, _)| source);
        item.is_open() && !item.is_private() && other.is_some_and(|other| item.source() != Some(other))
    }
}
