//! A service that is down at one provider and up at another: items go where it is up. And where providers have an order, items go back
//! to the first of them when it has the service again, or to the one that an operator has switched to.
//!
//! A service may have a million items at the provider where it goes down, so they move in turns, each of
//! [`crate::Config::work_per_turn`] items, and what other providers send goes out in between. An item that has yet to move
//! is served as before, by a provider that may still update it.

use super::Providers;
use super::session::Role;
use super::{DIRECTORY_STREAM, Phase};
use crate::ids::Handle;
use crate::items::Former;
use crate::timers::Timer;
use crate::{Notice, ProviderSink, SessionId, SourceDistributor};
use rwf::rdm::directory::{Action, ConsumerStatus, ServiceStatus};
use rwf::{DataState, State, StateCode, StreamState};
use std::fmt;

/// Why the items of a service leave a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Why {
    /// The service is down there.
    Down,
    /// The service sends no data there. Items that no other provider has stay, and are told Suspect.
    Silent,
    /// The service sends data again: the items stay, and those that were told Suspect get an image.
    Returns,
    /// Another provider comes first: address of that one, and whether an operator has said so.
    NotFirst { first: String, by_hand: bool },
}

/// The items of a service leave a provider.
#[derive(Debug)]
pub(super) struct Move {
    why: Why,
    /// Address of the provider, which may be gone when the move is over.
    provider: String,
    /// Places in the list of the items that the provider has on its streams that are not looked at: all below this. An item that leaves
    /// the list gives its place to the last one, which is looked at already.
    below: usize,
    /// Items that have gone.
    moved: usize,
}

/// Why a switch to a provider is not made. The text is for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SwitchError {
    /// No interactive provider has a service of this name.
    NoService(String),
    /// None of those that have it is at this address.
    NoProvider {
        /// The address that was asked for.
        provider: String,
        /// Names of the providers that have the service.
        known: Vec<String>,
    },
    /// The service is down there, or takes no requests.
    NotUp {
        /// The provider's address.
        provider: String,
    },
}

impl fmt::Display for SwitchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoService(name) => write!(f, "no interactive provider has a service {name:?}"),
            Self::NoProvider { provider, known } => {
                write!(f, "no provider of it is at {provider}; there are {}", known.join(", "))
            }
            Self::NotUp { provider } => write!(f, "provider {provider} takes no requests for it now"),
        }
    }
}

impl std::error::Error for SwitchError {}

impl Providers {
    /// Whether the items of a provider are on their way for nothing else than that its data have stopped, or come again.
    fn is_free_to_turn(&mut self, service: u16, session: SessionId) -> bool {
        let under_way = self.outages.moves.get_mut((service, session));
        under_way.is_none_or(|under_way| matches!(under_way.why, Why::Silent | Why::Returns))
    }

    /// The first provider of a service that takes requests: one that is silent only if there is no other.
    fn first_provider(&self, service: u16) -> Option<SessionId> {
        let takes = |id: &SessionId| {
            let session = self.sessions.get(*id).filter(|session| session.phase == Phase::Ready);
            session
                .and_then(|session| session.offer(service))
                .is_some_and(|offer| offer.takes_requests() == (true, true))
        };
        let providers = self.services.get(service)?.providers();
        let ticks = |id: &SessionId| takes(id) && !self.is_interrupted(*id, service);
        providers.iter().find(|id| ticks(id)).or_else(|| providers.iter().find(|id| takes(id))).copied()
    }
}

impl SourceDistributor {
    /// The items of a service leave the providers at which it is down, for others at which it is up. Private streams are of the
    /// provider that they are with.
    pub(super) fn leave_down_providers(&mut self, service: u16, out: &mut dyn ProviderSink) {
        let known = &self.providers.services[service];
        if known.cached || known.providers().len() < 2 {
            return;
        }
        let down: Vec<SessionId> =
            known.providers().iter().copied().filter(|&id| self.is_down_with_items(id, service)).collect();
        self.leave_silent_providers(service);
        for session in down {
            self.begin_move(service, session, Why::Down);
        }
        self.work_moves(out);
    }

    /// The items of a service leave the providers that are silent, in the turns to come: another may have them now.
    pub(super) fn leave_silent_providers(&mut self, service: u16) {
        let silent =
            |&id: &SessionId| self.providers.is_interrupted(id, service) && self.items.at(id, service).len() > 0;
        let silent: Vec<SessionId> =
            self.providers.services[service].providers().iter().copied().filter(silent).collect();
        for session in silent {
            self.begin_silence(service, session);
        }
    }

    fn begin_move(&mut self, service: u16, session: SessionId, why: Why) {
        let below = self.items.at(session, service).len();
        let provider = self.providers.sessions[session].peer.address.clone();
        let queue = &mut self.providers.outages.moves;
        match queue.get_mut((service, session)) {
            Some(under_way) => (under_way.below, under_way.why) = (below, why),
            None => queue.push_back((service, session), Move { why, provider, below, moved: 0 }),
        }
    }

    /// A provider is silent: its items leave it, unless they are on their way to a provider that comes first. Then those that are left
    /// in the end are looked at.
    pub(super) fn begin_silence(&mut self, service: u16, session: SessionId) {
        if self.providers.is_free_to_turn(service, session) {
            self.begin_move(service, session, Why::Silent);
        }
    }

    /// A provider sends data again: its items stay there, unless they are on their way to a provider that comes first.
    pub(super) fn begin_return(&mut self, service: u16, session: SessionId) {
        if self.providers.is_free_to_turn(service, session) {
            self.begin_move(service, session, Why::Returns);
        }
    }

    fn is_down_with_items(&self, session: SessionId, service: u16) -> bool {
        let offer = self.providers.sessions.offer(session, service);
        offer.is_some_and(|offer| !offer.up) && self.items.at(session, service).len() > 0
    }

    /// Another provider may be the first that takes requests: if items are to go back to that one, they do so when it has been the
    /// first for long enough.
    pub(super) fn note_first_provider(&mut self, service: u16, out: &mut dyn ProviderSink) {
        let first = self.providers.first_provider(service);
        let Some(known) = self.providers.services.get_mut(service) else {
            return hub_items::fault!("service {service} is not known");
        };
        let is_news = known.note_first(self.now, first);
        let is_ordered = self.config.balance.is_ordered() || known.is_group;
        let failback = self.providers.rules(&self.config, service).failback;
        if is_news && first.is_some() && failback > 0 && is_ordered {
            self.timers.set(self.now.saturating_add(failback), Timer::FailBack(service));
        }
        self.tell_roles(service, out);
        self.tell_served_from(service, first);
    }

    /// Tells the providers of a service whether they are asked or stand by, where they have an order (RDM `ConsumerStatus`).
    fn tell_roles(&mut self, service: u16, out: &mut dyn ProviderSink) {
        let Some(known) = self.providers.services.get(service) else {
            return hub_items::fault!("service {service} is not known");
        };
        if known.cached || !self.config.balance.is_ordered() && known.switched_to().is_none() {
            return;
        }
        let first = self.providers.first_provider(service);
        let is_there =
            |id: &SessionId| self.providers.sessions.get(*id).is_some_and(|session| session.phase == Phase::Ready);
        let there: Vec<SessionId> = known.providers().iter().copied().filter(is_there).collect();
        let is_alone = there.len() < 2;
        for id in there {
            let has_items = self.items.at(id, service).len() > 0;
            let Some(offer) =
                self.providers.sessions[id].offer_mut(service).filter(|offer| offer.takes_consumer_status)
            else {
                continue;
            };
            let role = match (first == Some(id) || has_items, is_alone) {
                (true, true) => Role::ActiveNoStandby,
                (true, false) => Role::ActiveWithStandby,
                (false, _) => Role::Standby,
            };
            if offer.told_role.replace(role) == Some(role) {
                continue;
            }
            let status = ServiceStatus {
                service_id: offer.provider_id,
                action: Action::Add,
                mirroring: Some(role as u64),
                warm_standby: None,
            };
            let status = ConsumerStatus { stream_id: DIRECTORY_STREAM, services: vec![status] };
            self.send(id, out, |w| status.encode(w));
        }
    }

    /// The first provider of a service may have been that for long enough: the items of the others go back to it.
    pub(crate) fn failback_timer(&mut self, service: u16, out: &mut dyn ProviderSink) {
        self.note_first_provider(service, out);
        let first = self.providers.services.get(service).and_then(super::services::Service::first);
        let failback = self.providers.rules(&self.config, service).failback;
        if let Some((first, since)) = first
            && self.now.saturating_sub(since) >= failback
        {
            self.leave_later_providers(service, first, false, out);
        }
    }

    /// The items of a service leave all providers but one.
    fn leave_later_providers(&mut self, service: u16, first: SessionId, by_hand: bool, out: &mut dyn ProviderSink) {
        let known = &self.providers.services[service];
        if known.cached {
            return;
        }
        let to = self.providers.sessions[first].peer.address.clone();
        let later: Vec<SessionId> = known.providers().iter().copied().filter(|&id| id != first).collect();
        for session in later {
            // A session that is lost is left by all of its items anyway.
            let has_order = by_hand
                || self.config.balance.is_ordered()
                || self.providers.serves_later_member(service, session, first);
            if has_order && self.providers.sessions.get(session).is_some() && self.items.at(session, service).len() > 0
            {
                self.begin_move(service, session, Why::NotFirst { first: to.clone(), by_hand });
            }
        }
        self.work_moves(out);
    }

    /// An operator has the items of a service asked for at this provider, by its address or server id, until it is gone; `None` goes back to the
    /// order of the routes. Tells how many items go from other providers, in this turn and the next ones.
    ///
    /// # Errors
    /// No such service, no such provider, or one that does not take requests for it.
    pub fn switch_provider(
        &mut self,
        now: u64,
        service: &str,
        provider: Option<&str>,
        out: &mut impl ProviderSink,
    ) -> Result<usize, SwitchError> {
        self.begin(now);
        let unknown = || SwitchError::NoService(service.to_owned());
        let id = self
            .providers
            .services
            .by_name(service)
            .filter(|&id| !self.providers.services[id].cached)
            .ok_or_else(unknown)?;
        let address =
            |session: &SessionId| self.providers.sessions.get(*session).map(|session| session.peer.address.clone());
        let wanted = match provider {
            None => None,
            Some(wanted) => {
                let there = self.providers.services[id].providers();
                let server_id = |session: SessionId| self.config.server_id(self.providers.sessions[session].origin);
                let is_wanted = |session: &SessionId| {
                    address(session).as_deref() == Some(wanted) || server_id(*session) == wanted && !wanted.is_empty()
                };
                let found = there.iter().copied().find(is_wanted);
                let known = || there.iter().filter_map(address).collect();
                Some(found.ok_or_else(|| SwitchError::NoProvider { provider: wanted.to_owned(), known: known() })?)
            }
        };
        let takes = |session: SessionId| {
            self.providers.sessions.offer(session, id).is_some_and(|o| o.takes_requests() == (true, true))
        };
        if let Some(session) = wanted.filter(|&session| !takes(session)) {
            return Err(SwitchError::NotUp { provider: address(&session).unwrap_or_default() });
        }
        if let Some(session) = wanted {
            self.trust_again(session, id);
        }
        self.providers.services[id].switch_to(wanted, |session| self.providers.sessions.rank(session, id));
        self.note_first_provider(id, out);
        let is_ordered = wanted.is_some() || self.config.balance.is_ordered() || self.providers.services[id].is_group;
        let Some(first) = self.providers.first_provider(id).filter(|_| is_ordered) else { return Ok(0) };
        let others = self.providers.services[id].providers().iter().filter(|&&session| session != first);
        let items = others.map(|&session| self.items.at(session, id).len()).sum();
        self.leave_later_providers(id, first, true, out);
        self.send_queued(id, out);
        Ok(items)
    }

    /// Whether the items of a move have still a reason to leave.
    fn is_to_leave(&self, session: SessionId, service: u16, why: &Why) -> bool {
        match why {
            Why::Down => self.is_down_with_items(session, service),
            Why::Silent => self.providers.is_interrupted(session, service),
            Why::Returns => !self.providers.is_interrupted(session, service),
            Why::NotFirst { .. } => self.providers.first_provider(service).is_some_and(|first| first != session),
        }
    }

    /// Goes on with the moves, as far as this turn lets it.
    pub(crate) fn work_moves(&mut self, out: &mut dyn ProviderSink) {
        while self.providers.outages.budget > 0
            && let Some(((service, session), &Move { below, ref why, .. })) = self.providers.outages.moves.front()
        {
            let below = below.min(self.items.at(session, service).len());
            if below == 0 || !self.is_to_leave(session, service, why) {
                self.end_move(out);
                continue;
            }
            let looked = below.min(self.providers.outages.budget);
            let rest = below - looked;
            self.providers.outages.budget -= looked;
            let handles: Vec<Handle> = self.items.at(session, service).skip(rest).take(looked).collect();
            let Some((_, under_way)) = self.providers.outages.moves.front_mut() else {
                return hub_items::fault!(
                    "the move of {looked} items of service {service} has gone while it was under way"
                );
            };
            under_way.below = rest;
            let (why, provider) = (under_way.why.clone(), under_way.provider.clone());
            let (leaving, staying) = match why {
                Why::Returns => (Vec::new(), handles),
                _ => self.leave_by((session, service), handles, &why, out),
            };
            let moved = looked - staying.len();
            match why {
                Why::Returns => self.return_items(&staying, out),
                Why::Silent => self.fall_silent(session, &staying, out),
                Why::Down | Why::NotFirst { .. } => {}
            }
            if let Some((_, under_way)) = self.providers.outages.moves.front_mut() {
                under_way.moved += moved;
            }
            let text = match why {
                Why::Down => {
                    let text = format!("Service is down at provider {provider}: the item is asked for at another");
                    self.config.status_texts.service_down(text).into_owned()
                }
                Why::Silent | Why::Returns => {
                    format!("No data from provider {provider}: the item is asked for at another")
                }
                Why::NotFirst { first, .. } => format!("Item goes from provider {provider} to {first}"),
            };
            self.move_items(service, &leaving, &text, out);
        }
    }

    /// Of items that are to leave a provider: those that are to be asked for at another one, and those that stay since no other has them.
    /// All others have gone over to their mirrors.
    fn leave_by(
        &mut self,
        (session, service): (SessionId, u16),
        handles: Vec<Handle>,
        why: &Why,
        out: &mut dyn ProviderSink,
    ) -> (Vec<Handle>, Vec<Handle>) {
        let (private, shared): (Vec<Handle>, Vec<Handle>) =
            handles.into_iter().partition(|&handle| self.items[handle].is_private());
        let mut kept = Vec::new();
        let rest = match why {
            Why::NotFirst { by_hand, .. } => match self.providers.first_provider(service) {
                Some(first) => {
                    let (stay, shared): (Vec<Handle>, Vec<Handle>) =
                        shared.into_iter().partition(|&handle| self.is_kept_from(handle, first, *by_hand));
                    kept = stay;
                    self.move_hot(shared, first, out)
                }
                None => shared,
            },
            // The silent one stands by: so it is seen when it sends data again.
            Why::Silent => self.not_taken_over(shared, Former::StandsBy, out),
            Why::Down | Why::Returns => self.not_taken_over(shared, Former::Closed, out),
        };
        let (leaving, mut staying): (Vec<Handle>, Vec<Handle>) =
            rest.into_iter().partition(|&handle| self.is_served_beside(handle, session, *why == Why::Down));
        staying.extend(private);
        staying.extend(kept);
        (leaving, staying)
    }

    /// All items of the move in front are looked at, or there is no reason any more to move them.
    fn end_move(&mut self, out: &mut dyn ProviderSink) {
        let Some(((service, session), Move { provider, why, moved, .. })) = self.providers.outages.moves.pop_front()
        else {
            return hub_items::fault!("a move ends that is not under way");
        };
        self.tell_taken_over(session, &provider, service);
        let is_over = !matches!(why, Why::Silent | Why::Returns);
        if moved > 0
            && let Some(known) = self.providers.services.get(service)
        {
            let service = known.name.clone();
            self.notices.push(match why {
                Why::Down => Notice::ItemsMoved { service, provider, items: moved, silent: false },
                Why::Silent | Why::Returns => Notice::ItemsMoved { service, provider, items: moved, silent: true },
                Why::NotFirst { first, by_hand } => {
                    Notice::ItemsSwitched { service, from: provider, to: first, items: moved, by_hand }
                }
            });
        }
        let is_monitored = self.providers.sessions.get(session).is_some_and(|known| known.interruption.is_some());
        match self.providers.is_interrupted(session, service) {
            _ if !is_over || !is_monitored => {}
            // Items that could not leave may have been told Suspect before.
            false => self.begin_return(service, session),
            true if self.is_down_with_items(session, service) => {}
            true => self.begin_silence(service, session),
        }
        self.tell_roles(service, out);
    }

    /// Items that move to a provider that is preferred go over to their mirrors there, and the provider that they leave stands by. The others.
    fn move_hot(&mut self, handles: Vec<Handle>, preferred: SessionId, out: &mut dyn ProviderSink) -> Vec<Handle> {
        let (mirrored, mut rest): (Vec<Handle>, Vec<Handle>) =
            handles.into_iter().partition(|&handle| self.hot_standby.mirror_session(handle) == Some(preferred));
        rest.extend(self.not_taken_over(mirrored, Former::StandsBy, out));
        rest
    }

    fn move_items(&mut self, service: u16, handles: &[Handle], text: &str, out: &mut dyn ProviderSink) {
        if handles.is_empty() {
            return;
        }
        for &handle in handles {
            self.close_upstream(handle, out);
        }
        let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, text);
        let waited_for = self.lose_items(service, handles, state, true);
        self.explain_waits(&waited_for);
    }
}
