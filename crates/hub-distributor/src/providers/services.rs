//! The services: what they are called, who offers them, and what is waiting for a provider.

use super::session::Domains;
use crate::cascade::Lines;
use crate::conflation::{self, ServiceConflation};
use crate::filter::rules::{Filters, ServiceFilter};
use crate::hash_seed::SeededMap;
use crate::ids::Handle;
use crate::{Config, SessionId};
use hub_content::headlines::HeadlineRule;
use rwf::Qos;
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// How far the non-interactive providers of a service are with what they publish.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Publishing {
    /// Items that have come on a stream and were on none.
    items: u64,
    /// As many of them as there were at the last look, and when there was another one first, monotonic nanoseconds.
    seen: u64,
    seen_at: Option<u64>,
}

impl Publishing {
    /// An item has come on a stream.
    pub(crate) fn count(&mut self) {
        self.items += 1;
    }

    /// When items were seen to come last.
    pub(crate) fn look(&mut self, now: u64) -> Option<u64> {
        if self.items != self.seen {
            (self.seen, self.seen_at) = (self.items, Some(now));
        }
        self.seen_at
    }
}

/// Changes to the content of a service's messages before it goes on.
#[derive(Debug, Default)]
pub(crate) struct Treatment {
    /// The filter of the service; everything passes if `None`.
    pub(crate) filter: Option<Arc<ServiceFilter>>,
    /// How the service is conflated; not if `None`.
    pub(crate) conflation: Option<Arc<ServiceConflation>>,
    /// The rule of headlines that have permission codes in a field.
    pub(crate) headlines: Option<Arc<HeadlineRule>>,
}

/// Times of a service, monotonic nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// When it is deleted unless a provider offers it; `None` while one does, or it is kept for ever.
    deleted_at: Option<u64>,
    /// When a provider has offered it that had not before.
    pub(crate) offered_at: Option<u64>,
}

/// One service. Its id belongs to its name for good.
#[derive(Debug, Default)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) treatment: Treatment,
    /// `Vendor`, as the first provider had it.
    pub(crate) vendor: Option<String>,
    /// `ItemList`, as the first provider had it.
    pub(crate) item_list: Option<String>,
    /// Non-interactive: its images are held here.
    pub(crate) cached: bool,
    /// The service is a service group: it has no provider but by its members.
    pub(crate) is_group: bool,
    /// The first provider of a service group that takes requests, and the member that it is served from there, as the operator knows it.
    pub(crate) served_from: Option<(SessionId, u16)>,
    pub(crate) times: Times,
    /// How far its non-interactive providers are with what they publish.
    pub(crate) publishing: Publishing,
    /// The service was taken back after a start, and no provider has offered it since: requests are answered from what is held.
    pub(crate) is_restored: bool,
    /// P2PSs know it.
    pub(crate) advertised: bool,
    /// P2PSs were told that it is gone, and its items have yet to end; or it is of the other kind, which they have yet to be: until then
    /// nothing new is made of it, and nobody is asked.
    pub(crate) is_settling: bool,
    /// The states that P2PSs were told last: `ServiceState`, `AcceptingRequests`.
    pub(crate) state: (bool, bool),
    /// The sites that it comes through, as P2PSs were told last.
    pub(crate) path: Vec<String>,
    /// Communication lines by which its providers are or were reached.
    pub(crate) lines: Lines,
    /// Every domain and quality that any provider has offered. They only grow: a provider that takes over must not
    /// change what a consumer has seen.
    pub(crate) domains: Domains,
    pub(crate) qos: Vec<Qos>,
    /// Every domain of which a provider has answered a request.
    pub(crate) answered: Domains,
    /// Items that wait and were told nothing: it may have been a matter of moments then.
    untold: VecDeque<Handle>,
    /// Looks in a row that have found it without a provider and without items.
    pub(crate) idle_looks: u16,
    /// The service has no name any more; its id waits for another.
    forgotten: bool,
    /// P2PSs have been told what is out of date.
    pub(crate) stale: bool,
    /// The sessions that offer it: the one that an operator has switched to, then in the order of their routes.
    providers: Vec<SessionId>,
    /// The session that an operator has switched to, as long as it offers the service.
    switched_to: Option<SessionId>,
    /// The first provider that takes requests, and since when it is that one.
    first: Option<(SessionId, u64)>,
    /// Items wanted for the first time.
    fresh: VecDeque<Handle>,
    /// Items wanted back.
    lost: VecDeque<Handle>,
    /// Items that no provider has, as far as they have said.
    set_aside: Vec<Handle>,
    /// Items that are lost: told Suspect and not back.
    lost_items: u32,
}

impl Service {
    /// The last provider of the service may be gone: gives when it is deleted, if it is kept for a time in which one may come back (nanoseconds; 0 for ever).
    pub(crate) fn await_restart(&mut self, now: u64, restart: u64) -> Option<u64> {
        // The images of non-interactive providers have an age of their own.
        if restart > 0 && self.advertised && !self.cached && self.providers().is_empty() {
            self.times.deleted_at = Some(now.saturating_add(restart));
            return self.times.deleted_at;
        }
        None
    }

    /// Whether the service has been without a provider for as long as it is kept: its name then, once. It is deleted as by a provider that has it no more.
    pub(crate) fn is_given_up(&mut self, now: u64) -> Option<String> {
        // The timer may be of an earlier outage, or the service has gone for another reason.
        let is_due = self.advertised && self.times.deleted_at.take_if(|at| *at <= now).is_some();
        is_due.then(|| self.name.clone())
    }

    /// The qualities that P2PSs are told of: what is conflated here has no other.
    pub(crate) fn offered(&self) -> Vec<Qos> {
        let default = [Qos::REALTIME_TICK];
        let sources = if self.qos.is_empty() { &default } else { &self.qos[..] };
        self.treatment.conflation.as_ref().map_or_else(|| sources.to_vec(), |conflation| conflation.offer(sources))
    }

    /// The quality of the providers that serves a quality which P2PSs are told of.
    pub(crate) fn source_qos(&self, qos: Qos) -> Qos {
        let default = [Qos::REALTIME_TICK];
        let sources = if self.qos.is_empty() { &default } else { &self.qos[..] };
        self.treatment.conflation.as_ref().map_or(qos, |conflation| conflation.granted(sources, qos).source)
    }

    /// The service has no name any more.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.forgotten
    }

    /// True if something waits for a provider.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.fresh.is_empty() || !self.lost.is_empty()
    }

    /// The sessions that offer it, in the order of their routes.
    pub(crate) fn providers(&self) -> &[SessionId] {
        &self.providers
    }

    /// A session offers it; `rank` tells the order.
    pub(crate) fn add_provider<K: Ord>(&mut self, id: SessionId, rank: impl Fn(SessionId) -> K) {
        if !self.providers.contains(&id) {
            self.providers.push(id);
            self.is_restored = false;
            self.times.deleted_at = None;
            self.sort_providers(rank);
        }
    }

    /// A session offers it, or has another place than before; `rank` tells the order.
    pub(crate) fn place_provider<K: Ord>(&mut self, id: SessionId, rank: impl Fn(SessionId) -> K) {
        if self.providers.contains(&id) {
            self.sort_providers(rank);
        } else {
            self.add_provider(id, rank);
        }
    }

    fn sort_providers<K: Ord>(&mut self, rank: impl Fn(SessionId) -> K) {
        let switched_to = self.switched_to;
        self.providers.sort_by_key(|&id| (switched_to != Some(id), rank(id)));
    }

    pub(crate) fn remove_provider(&mut self, id: SessionId) {
        self.providers.retain(|&provider| provider != id);
        self.switched_to.take_if(|switched_to| *switched_to == id);
    }

    /// An operator wants this provider to be the first, or the order of the routes back; `rank` tells the order.
    pub(crate) fn switch_to<K: Ord>(&mut self, id: Option<SessionId>, rank: impl Fn(SessionId) -> K) {
        debug_assert!(id.is_none_or(|id| self.providers.contains(&id)), "a switch to one that has not the service");
        self.switched_to = id;
        self.sort_providers(rank);
    }

    /// The provider that an operator has switched to.
    pub(crate) fn switched_to(&self) -> Option<SessionId> {
        self.switched_to
    }

    /// Notes the first provider that takes requests; true if that is another one than before.
    pub(crate) fn note_first(&mut self, now: u64, first: Option<SessionId>) -> bool {
        let is_news = self.first.map(|(id, _)| id) != first;
        if is_news {
            self.first = first.map(|id| (id, now));
        }
        is_news
    }

    /// The first provider that takes requests, and since when.
    pub(crate) fn first(&self) -> Option<(SessionId, u64)> {
        self.first
    }

    /// An item waits for a provider, behind the others.
    pub(crate) fn queue_back(&mut self, handle: Handle, answered: bool) {
        if answered { self.lost.push_back(handle) } else { self.fresh.push_back(handle) }
    }

    /// An item waits for a provider, before the others.
    pub(crate) fn queue_front(&mut self, handle: Handle, answered: bool) {
        if answered { self.lost.push_front(handle) } else { self.fresh.push_front(handle) }
    }

    /// An item that no provider has waits for one that does. Of those that were set aside before some may be gone by now: where there are
    /// more of them than the service has `items`, all are looked at again.
    pub(crate) fn set_aside(&mut self, handle: Handle, items: usize) {
        self.set_aside.push(handle);
        if self.set_aside.len() > 64 + 2 * items {
            self.look_at_set_aside();
        }
    }

    /// A provider has said something of what it offers: it may have what was set aside.
    pub(crate) fn look_at_set_aside(&mut self) {
        self.set_aside.sort_unstable();
        self.set_aside.dedup();
        self.fresh.extend(self.set_aside.drain(..));
    }

    /// An item waits, and nobody was told why. Of those before it some are gone by now: where there are more than the service has `items`,
    /// the others stay, which `is_untold` tells.
    pub(crate) fn note_untold(&mut self, handle: Handle, items: usize, is_untold: impl Fn(Handle) -> bool) {
        self.untold.push_back(handle);
        if self.untold.len() > 64 + 2 * items {
            self.untold.retain(|&handle| is_untold(handle));
        }
    }

    /// The next item that waits and was told nothing.
    pub(crate) fn next_untold(&mut self) -> Option<Handle> {
        self.untold.pop_front()
    }

    /// There is nothing to tell of it yet.
    pub(crate) fn untold_front(&mut self, handle: Handle) {
        self.untold.push_front(handle);
    }

    /// Nothing waits any more.
    pub(crate) fn clear_queues(&mut self) {
        self.fresh.clear();
        self.lost.clear();
        self.set_aside.clear();
        self.untold.clear();
    }

    /// Items that wait, in no order.
    pub(crate) fn queued(&self) -> impl Iterator<Item = Handle> + '_ {
        self.fresh.iter().chain(&self.lost).chain(&self.set_aside).copied()
    }

    /// Items that are lost: told Suspect and not back.
    pub(crate) fn lost_items(&self) -> u32 {
        self.lost_items
    }

    pub(crate) fn item_is_lost(&mut self) {
        self.lost_items += 1;
    }

    pub(crate) fn item_is_back(&mut self) {
        assert!(self.lost_items > 0, "an item is back that was not lost");
        self.lost_items -= 1;
    }

    /// The next to be asked for. New ones and lost ones take turns, so that neither starves the other.
    pub(crate) fn next_queued(&mut self, turn: u32) -> Option<Handle> {
        let (first, second) =
            if turn.is_multiple_of(2) { (&mut self.fresh, &mut self.lost) } else { (&mut self.lost, &mut self.fresh) };
        first.pop_front().or_else(|| second.pop_front())
    }
}

/// All services by id (from 1) and by name. An id that comes from a peer may be nobody's: [`Services::get`]; one of a table of ours is a
/// service's for good, and indexing asserts it.
///
/// Ids are used again only when all have been given out, those first that were forgotten first: what a P2PS has sent for the service that
/// had the id before must not reach the one that has it now.
#[derive(Debug, Default)]
pub(crate) struct Services {
    list: Vec<Service>,
    by_name: SeededMap<String, u16>,
    /// Ids of services that were forgotten, oldest first.
    free: VecDeque<u16>,
    /// As `free`, and too new to be used again.
    resting: Vec<u16>,
    /// Filters, by service.
    filters: Filters,
    headlines: BTreeMap<String, Arc<HeadlineRule>>,
    conflation: conflation::Settings,
}

/// Ids above this are not given out; `0xFFFF` means something else on the hub.
const MAX_SERVICES: usize = 0xFFFE;

impl Services {
    /// No services yet. Providers choose their names: `seed` keys the table.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            by_name: SeededMap::with_hasher(config.hash_seed),
            filters: config.filters.clone(),
            headlines: config.headlines.clone(),
            conflation: config.conflation.clone(),
            ..Self::default()
        }
    }

    pub(crate) fn get(&self, id: u16) -> Option<&Service> {
        self.list.get(usize::from(id).checked_sub(1)?)
    }

    /// As [`Self::get`], to change it.
    pub(crate) fn get_mut(&mut self, id: u16) -> Option<&mut Service> {
        self.list.get_mut(usize::from(id).checked_sub(1)?)
    }

    /// The service of this name; a new one if there is none. `None` if it is of the other kind or the table is full.
    pub(crate) fn find_or_add(&mut self, name: &str, cached: bool) -> Option<u16> {
        if let Some(&id) = self.by_name.get(name) {
            let service = &mut self.list[usize::from(id) - 1];
            // A service that nobody has, or ever published, may change its kind at once.
            if service.cached != cached && service.providers.is_empty() && !service.advertised && !service.is_settling {
                service.cached = cached;
            }
            return (service.cached == cached).then_some(id);
        }
        if name.is_empty() {
            return None;
        }
        let filter = self.filters.of(name).cloned();
        let headlines = self.headlines.get(name).cloned();
        let conflation = Some(self.conflation.of(name)).filter(|of| of.interval > 0).map(|of| Arc::new(of.clone()));
        let treatment = Treatment { filter, conflation, headlines };
        let service = Service { name: name.to_owned(), treatment, cached, ..Service::default() };
        let id = if self.list.len() < MAX_SERVICES {
            self.list.push(service);
            self.list.len() as u16
        } else {
            let id = self.free.pop_front()?;
            self[id] = service;
            id
        };
        self.by_name.insert(name.to_owned(), id);
        Some(id)
    }

    /// The id of the service of this name.
    pub(crate) fn by_name(&self, name: &str) -> Option<u16> {
        self.by_name.get(name).copied()
    }

    /// Whether a service of this name is known.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Whether a service that is new finds an id.
    pub(crate) fn has_room(&self) -> bool {
        self.list.len() < MAX_SERVICES || !self.free.is_empty()
    }

    /// A service that nobody offers, that has no item and that no P2PS knows, is forgotten. Its id rests.
    pub(crate) fn forget(&mut self, id: u16) {
        let known = std::mem::take(&mut self[id]);
        assert!(!known.forgotten && !known.advertised && known.providers.is_empty() && !known.is_waiting());
        self[id].forgotten = true;
        self.by_name.remove(&known.name);
        self.resting.push(id);
    }

    /// The ids that were forgotten before may be used again.
    pub(crate) fn rest_is_over(&mut self) {
        self.free.extend(self.resting.drain(..));
    }

    pub(crate) fn ids(&self) -> std::ops::RangeInclusive<u16> {
        1..=self.list.len() as u16
    }
}

impl Index<u16> for Services {
    type Output = Service;

    fn index(&self, id: u16) -> &Service {
        self.get(id).expect("a service id of ours is a service's")
    }
}

impl IndexMut<u16> for Services {
    fn index_mut(&mut self, id: u16) -> &mut Service {
        self.get_mut(id).expect("a service id of ours is a service's")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_belongs_to_its_name() {
        let mut services = Services::default();
        let a = services.find_or_add("A", false);
        let b = services.find_or_add("B", true);
        assert_eq!((a, b), (Some(1), Some(2)));
        assert_eq!(services.find_or_add("A", false), a);
        assert_eq!(services.find_or_add("", false), None);
        assert!(services.get(0).is_none() && services.get(3).is_none());
        services[1].add_provider(SessionId(0), |id| id.0);
        assert_eq!(services.find_or_add("A", true), None);
    }

    #[test]
    fn a_full_table_takes_the_ids_of_the_forgotten() {
        let mut services = Services::default();
        for n in 0..MAX_SERVICES {
            assert_eq!(services.find_or_add(&n.to_string(), false), Some((n + 1) as u16));
        }
        assert!(!services.has_room() && services.find_or_add("more", false).is_none());
        services.forget(7);
        services.forget(3);
        assert!(services.find_or_add("more", false).is_none(), "too new");
        services.rest_is_over();
        assert!(services.has_room() && !services.has("6"));
        assert_eq!(services.find_or_add("more", true), Some(7), "the oldest first");
        assert_eq!(services.find_or_add("6", false), Some(3), "a name that was forgotten is new");
        assert_eq!((services[7].name.as_str(), services[7].cached), ("more", true));
        assert!(services.find_or_add("yet more", false).is_none());
    }

    #[test]
    fn new_and_lost_items_take_turns() {
        let mut service = Service::default();
        (0..4).for_each(|handle| service.queue_back(Handle(handle), false));
        (10..12).for_each(|handle| service.queue_back(Handle(handle), true));
        let order: Vec<u32> = (0..).map_while(|turn| Some(service.next_queued(turn)?.0)).collect();
        assert_eq!(order, [0, 10, 1, 11, 2, 3]);
    }
}
