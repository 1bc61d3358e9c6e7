//! Sources in an order: the first that takes requests for a service is asked, and its items go back there when it has had the
//! service for long enough. And when items that were lost are whole again.

use super::failover::Why;
use super::services::{Choice, Provider, Service};
use super::{Sources, name_in};
use crate::ids::{ItemId, ServiceId, SourceId};
use crate::items::state::Standing;
use crate::keyed_queue::KeyedQueue;
use crate::{Notice, P2ps};
use std::collections::BTreeSet;

/// Services looked at in a turn for whether all of their items are back.
const LOOKS_PER_TURN: usize = 64;

/// Items of a service that were lost, and are not all back.
#[derive(Debug)]
struct Loss {
    /// When the first of them was lost.
    since: u64,
    items: u64,
    /// One that was not back when they were looked at last: as long as it is away nobody looks through the others.
    away: Option<ItemId>,
}

/// Services whose items are to go somewhere, or to come back.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// When the items of a service go back to its first source: each service once.
    failbacks: BTreeSet<(u64, ServiceId)>,
    /// In the order in which they are looked at.
    losses: KeyedQueue<ServiceId, Loss>,
}

impl Order {
    /// Has the items of a service go back at a time, or not at all.
    fn set_failback(&mut self, service: ServiceId, choice: &mut Choice, at: Option<u64>) {
        if let Some(before) = std::mem::replace(&mut choice.failback_at, at) {
            self.failbacks.remove(&(before, service));
        }
        self.failbacks.extend(at.map(|at| (at, service)));
    }

    /// When the next service's items go back.
    pub(super) fn timeout(&self) -> Option<u64> {
        self.failbacks.first().map(|(at, _)| *at)
    }

    fn take_due(&mut self, now: u64) -> Option<ServiceId> {
        self.failbacks.first().filter(|(at, _)| *at <= now)?;
        self.failbacks.pop_first().map(|(_, service)| service)
    }

    /// A service is gone.
    pub(crate) fn forget(&mut self, service: &mut Service) {
        self.set_failback(service.id, &mut service.choice, None);
    }
}

impl Service {
    /// Puts the providers in the order in which they are asked.
    pub(super) fn sort_providers(&mut self, rank: impl Fn(SourceId) -> (usize, SourceId)) {
        let switched = self.choice.switched;
        self.providers.sort_by_key(|provider| (switched != Some(provider.source), rank(provider.source)));
    }

    /// The first source that takes requests.
    pub(crate) fn first_source(&self, sources: &Sources) -> Option<SourceId> {
        let first = self.providers.iter().find(|provider| provider.takes_requests(sources));
        first.map(|provider| provider.source)
    }

    /// A source has it no more. False if it never had.
    pub(crate) fn lose_provider(&mut self, source: SourceId) -> bool {
        let before = self.providers.len();
        self.providers.retain(|provider| provider.source != source);
        if self.choice.switched == Some(source) {
            // The others are in their order already.
            self.choice.switched = None;
        }
        self.providers.len() != before
    }

    /// True if `one` is asked before `other`.
    pub(super) fn is_before(&self, one: SourceId, other: SourceId) -> bool {
        let place = |source| self.providers.iter().position(|provider: &Provider| provider.source == source);
        place(one).is_some_and(|one| place(other).is_none_or(|other| one < other))
    }
}

impl Sources {
    /// Providers are asked in the order that is configured, and the first one is known.
    pub(crate) fn check_order(&self) {
        for service in self.services().iter() {
            let key = |provider: &Provider| {
                (service.choice.switched_to() != Some(provider.source), self.rank(provider.source))
            };
            assert!(service.providers.is_sorted_by_key(key), "the order of {}: {:?}", service.name, service.providers);
            // A source that is lost has yet to leave the lists of its services.
            if service.alive && !self.has_outages() {
                assert_eq!(service.choice.first(), service.first_source(self), "the first of {}", service.name);
            }
        }
    }

    /// Items of a service were on their way to a source that is not the first one while the others left it, or their mirrors are not
    /// ready there: they are looked at again after this pause.
    pub(crate) fn look_again_after(&mut self, now: u64, id: ServiceId, pause: u64) {
        let at = now.saturating_add(pause);
        if let Some(service) = self.services.get_mut(id)
            && service.choice.failback_at.is_none()
        {
            self.outages.order.set_failback(id, &mut service.choice, Some(at));
        }
    }

    /// An item of a service is lost, and asked for again.
    pub(crate) fn note_lost(&mut self, now: u64, service: ServiceId) {
        let losses = &mut self.outages.order.losses;
        match losses.get_mut(service) {
            Some(loss) => loss.items += 1,
            None => losses.push_back(service, Loss { since: now, items: 1, away: None }),
        }
    }
}

impl P2ps {
    /// What a source is called, the same in every life of it: told before it is up or joined. It gives the source its place in
    /// [`crate::Config::source_order`].
    pub fn name_source(&mut self, id: SourceId, name: &str) {
        let (rank, pair) = (self.config.rank_of(name), self.config.pair_of_name(name));
        let source = self.sources.get_or_insert(id, self.config.incarnation);
        if source.name == name {
            return;
        }
        name.clone_into(&mut source.name);
        (source.rank, source.pair) = (rank, pair);
        self.sort_all_providers(false);
    }

    /// Other Source Distributors stand by for each other, or say whether they number alike.
    pub(crate) fn pair_sources(&mut self) {
        for id in self.sources.ids() {
            let pair =
                self.config.pair_of_name(&self.sources.get(id).map(|source| source.name.clone()).unwrap_or_default());
            if let Some(source) = self.sources.get_mut(id) {
                source.pair = pair;
            }
        }
        self.begin_hot_standby_anew();
    }

    /// The configured order has changed.
    pub(crate) fn reorder_sources(&mut self) {
        let Self { sources, config, .. } = self;
        for (_, source) in sources.iter_mut() {
            let place = config.source_order.iter().position(|known| *known == source.name);
            source.rank = place.unwrap_or(usize::MAX);
        }
        self.sort_all_providers(true);
    }

    /// With `anew`, the time for which a source has been the first counts from now on.
    fn sort_all_providers(&mut self, anew: bool) {
        for id in self.sources.services.ids().collect::<Vec<_>>() {
            self.sources.sort_providers(id);
            let Some(service) = self.sources.services.get_mut(id) else { continue };
            if service.alive {
                service.choice.first = service.choice.first.filter(|_| !anew);
                self.note_first_source(id);
            }
        }
    }

    /// Another source of a service may be the first that takes requests: if its items are to go there, they do so when it has been
    /// the first for long enough.
    pub(crate) fn note_first_source(&mut self, id: ServiceId) {
        let Self { sources, config, output, now, .. } = self;
        // A service that never was has no sources.
        let Some(service) = sources.services.get(id) else { return };
        let first = service.first_source(sources);
        if first == service.choice.first() {
            return;
        }
        let Sources { table, services, outages, .. } = sources;
        // The same service as above.
        let Some(service) = services.get_mut(id) else { return };
        service.choice.first = first.map(|source| (source, *now));
        if let Some(source) = first
            && let Some(before) = service.choice.before.replace(source).filter(|before| *before != source)
        {
            let (source, before) = (name_in(table, source), name_in(table, before));
            output.notice(Notice::FirstSource { service: service.name.clone(), source, before });
        }
        let is_timed = first.is_some() && config.source_failback > 0 && !config.source_order.is_empty();
        let at = is_timed.then(|| now.saturating_add(config.source_failback));
        outages.order.set_failback(id, &mut service.choice, at);
    }

    /// Has the items of services go back to their first sources where these have been there for long enough.
    pub(crate) fn fail_back(&mut self) {
        while let Some(id) = self.sources.outages.order.take_due(self.now) {
            if let Some(service) = self.sources.services.get_mut(id) {
                service.choice.failback_at = None;
                self.leave_later_sources(id, false);
            }
        }
    }

    /// The items of a service leave all sources but the first; how many there are now.
    pub(super) fn leave_later_sources(&mut self, id: ServiceId, by_hand: bool) -> usize {
        // A service that is gone has no items at sources.
        let Some(service) = self.sources.services.alive(id) else { return 0 };
        // There is nowhere to go.
        let Some(first) = service.choice.first() else { return 0 };
        let later: Vec<SourceId> = service.providers.iter().map(|p| p.source).filter(|&at| at != first).collect();
        let mut items = 0;
        for source in later {
            items += self.items.count_standing(id, Standing::Open(source));
            self.sources.begin_move(&self.items, id, source, Why::NotFirst { first, by_hand });
        }
        self.work_moves();
        items
    }

    /// An operator has switched a service to a source, or back to the order.
    pub(super) fn switch_to(&mut self, id: ServiceId, source: Option<SourceId>) {
        if let Some(service) = self.sources.services.get_mut(id) {
            service.choice.switched = source;
        }
        self.sources.sort_providers(id);
        self.note_first_source(id);
    }

    /// Tells the operator of services whose lost items are all back.
    #[inline]
    pub(crate) fn note_whole(&mut self) {
        // Not before all that is lost has been told of.
        if !self.sources.outages.order.losses.is_empty() && !self.sources.outages.has_work() {
            self.look_at_losses();
        }
    }

    fn look_at_losses(&mut self) {
        let mut first_left = None;
        for _ in 0..LOOKS_PER_TURN {
            let next = self.sources.outages.order.losses.front().map(|(id, _)| id);
            if next.is_none() || next == first_left {
                return;
            }
            // The first one, as above.
            let Some((id, mut loss)) = self.sources.outages.order.losses.pop_front() else { return };
            let is_away = |item: &ItemId| {
                let item = self.items.get(*item);
                item.service() == id && item.is_recovering()
            };
            loss.away = loss.away.filter(is_away).or_else(|| self.items.apart(id).find(is_away));
            if loss.away.is_some() {
                first_left = first_left.or(Some(id));
                self.sources.outages.order.losses.push_back(id, loss);
            } else if let Some(service) = self.sources.services.alive(id) {
                let (service, took) = (service.name.clone(), self.now.saturating_sub(loss.since));
                self.output.notice(Notice::ItemsWhole { service, items: loss.items, took });
            }
        }
    }
}
