//! The services of all sources, merged by name: what clients see, and who is asked.

use super::Sources;
use super::qos::is_offered;
use crate::cascade::{Lines, is_line};
use crate::config::{MAX_SERVICE_ID, ServiceIds};
use crate::conflation::ServiceConflation;
use crate::hash_seed::{HashSeed, SeededMap};
use crate::ids::{ItemId, RemoteService, ServiceId, SourceId};
use crate::items::state::Standing;
use crate::load::usage::ServiceUsage;
use crate::{Notice, P2ps};
use rwf::Qos;
use rwf::msg::Domain;
use rwf::rdm::dictionary::{ENUMS, FIELDS};
use rwf::rdm::directory::{self, Info, Load, Part};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Ids are handed out from 1, so that those of the first 253 services stay one byte long in every key.
const FIRST_ID: u16 = 1;
/// No place.
const NOWHERE: u16 = u16::MAX;

/// State and load of a service, as they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Condition {
    /// `ServiceState`.
    pub(crate) up: bool,
    /// `AcceptingRequests`.
    pub(crate) accepting: bool,
    pub(crate) load: Load,
}

/// The entry of one source for a service.
#[derive(Debug, Clone, Default)]
pub(crate) struct Offer {
    pub(crate) info: Info,
    pub(crate) condition: Condition,
    /// The sites that it has come through.
    pub(crate) path: Vec<String>,
    /// The communication lines by which its providers are reached.
    pub(crate) lines: Lines,
}

impl Offer {
    /// What an entry of a directory says.
    pub(crate) fn of(entry: &directory::Service) -> Self {
        let state = entry.state.as_ref().and_then(Part::value);
        let links = || entry.links.as_ref().and_then(Part::value).into_iter().flatten();
        let load = entry.load.as_ref().and_then(Part::value);
        Self {
            info: entry.info.as_ref().and_then(Part::value).cloned().unwrap_or_default(),
            condition: Condition {
                up: state.is_some_and(|state| state.up),
                accepting: state.is_some_and(|state| state.accepting_requests.unwrap_or(true)),
                load: load.copied().unwrap_or_default(),
            },
            path: links().filter(|link| !is_line(link)).map(|link| link.name.clone()).collect(),
            lines: links()
                .filter(|link| is_line(link))
                .map(|link| (link.name.clone(), link.up.unwrap_or(true)))
                .collect(),
        }
    }
}

/// One source of a service.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) source: SourceId,
    /// The service's id at the source.
    pub(crate) service: RemoteService,
    pub(crate) offer: Offer,
}

impl Provider {
    pub(crate) fn takes_requests(&self, sources: &Sources) -> bool {
        let condition = &self.offer.condition;
        sources.is_up(self.source) && condition.up && condition.accepting && condition.load.open_window != Some(0)
    }

    /// True if it takes requests now for items of this domain and quality.
    pub(crate) fn serves(&self, sources: &Sources, domain: Domain, qos: Option<Qos>) -> bool {
        let offer = &self.offer.info;
        self.takes_requests(sources)
            && offer.capabilities.contains(&domain)
            && qos.is_none_or(|qos| is_offered(&offer.qos, qos))
    }
}

/// Which source of a service comes first.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Choice {
    /// The first source that takes requests, and since when.
    pub(super) first: Option<(SourceId, u64)>,
    /// The one that was the first before there was none.
    pub(super) before: Option<SourceId>,
    /// The source that an operator has switched to.
    pub(super) switched: Option<SourceId>,
    /// When its items go back to the first source, if they are to.
    pub(super) failback_at: Option<u64>,
}

impl Choice {
    /// The first source that takes requests, as it was noted last.
    pub(crate) fn first(&self) -> Option<SourceId> {
        self.first.map(|(source, _)| source)
    }

    /// The source that an operator has switched to.
    pub(crate) fn switched_to(&self) -> Option<SourceId> {
        self.switched
    }
}

/// Items of a service that wait to be opened. A queue may hold the numbers of items that are gone.
#[derive(Debug, Default)]
pub(crate) struct OpenQueue {
    /// Items that are asked for the first time.
    fresh: VecDeque<ItemId>,
    /// Items that were lost, or refused: clients have heard of them.
    polls: VecDeque<ItemId>,
}

impl OpenQueue {
    /// One of the two.
    fn of(&mut self, polls: bool) -> &mut VecDeque<ItemId> {
        if polls { &mut self.polls } else { &mut self.fresh }
    }

    /// The first of one of the two.
    pub(crate) fn first(&self, polls: bool) -> Option<ItemId> {
        let queue = if polls { &self.polls } else { &self.fresh };
        queue.front().copied()
    }

    /// Whether something waits that was lost or refused.
    pub(crate) fn has_polls(&self) -> bool {
        !self.polls.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ItemId> {
        self.fresh.iter().chain(&self.polls).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.fresh.len() + self.polls.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.polls.is_empty()
    }
}

/// A service under its public id.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) id: ServiceId,
    pub(crate) name: String,
    /// Clients know it. The id stays the name's when it is gone.
    pub(crate) alive: bool,
    /// In the order in which they are asked.
    pub(crate) providers: Vec<Provider>,
    /// Which of them comes first, and since when.
    pub(crate) choice: Choice,
    /// Everything that any source offered since it came: an offer does not shrink when a source goes.
    pub(crate) info: Info,
    /// Qualities that any source offered. What clients are offered is in `info`.
    pub(crate) source_qos: Vec<Qos>,
    /// As clients were told last.
    pub(crate) told: Condition,
    /// The sites that it comes through, as clients were told last.
    pub(crate) told_path: Vec<String>,
    /// The communication lines of its providers, likewise.
    pub(crate) told_lines: Lines,
    /// Items to be opened.
    queue: OpenQueue,
    /// What is open of it, and what may be.
    pub(crate) usage: ServiceUsage,
    /// When it went, if it was ever there.
    gone_at: u64,
    /// The service has no name any more; its id waits for another.
    nameless: bool,
}

impl Service {
    /// The items that are to be opened when their source takes requests, and numbers that items have left behind.
    pub(crate) fn queue(&self) -> &OpenQueue {
        &self.queue
    }

    /// Takes in what a source offers; true if that is more than was offered before.
    pub(crate) fn widen(&mut self, offer: &Info, conflation: &ServiceConflation) -> bool {
        let info = &mut self.info;
        info.name.clone_from(&self.name);
        let before = (info.capabilities.len(), info.qos.len());
        for &domain in offer.capabilities.iter().chain(&[Domain::DICTIONARY]) {
            if let Err(at) = info.capabilities.binary_search(&domain) {
                info.capabilities.insert(at, domain);
            }
        }
        for qos in &offer.qos {
            if !self.source_qos.contains(qos) {
                self.source_qos.push(*qos);
            }
        }
        if self.source_qos.is_empty() {
            self.source_qos.push(Qos::REALTIME_TICK);
        }
        info.qos = conflation.offer(&self.source_qos);
        // The one dictionary of all services; a consumer waits for both names (RDM usage guide 4.3.1.1).
        info.dictionaries_provided = vec![FIELDS.to_owned(), ENUMS.to_owned()];
        info.dictionaries_used.clone_from(&info.dictionaries_provided);
        info.vendor = info.vendor.take().or_else(|| offer.vendor.clone());
        info.item_list = info.item_list.take().or_else(|| offer.item_list.clone());
        info.is_source = Some(false);
        info.supports_qos_range = Some(true);
        info.supports_out_of_band_snapshots =
            info.supports_out_of_band_snapshots.or(offer.supports_out_of_band_snapshots);
        info.accepting_consumer_status = Some(false);
        before != (info.capabilities.len(), info.qos.len())
    }

    /// Nobody offers it any more. Its id stays its name's, and what it offered is of no use.
    pub(crate) fn leave(&mut self, now: u64) {
        self.alive = false;
        self.gone_at = now;
        self.providers = Vec::new();
        self.choice = Choice::default();
        self.info = Info::default();
        self.source_qos = Vec::new();
        self.told = Condition::default();
        self.told_path = Vec::new();
        self.told_lines = Lines::new();
    }

    /// True if the service has this domain.
    pub(crate) fn has_domain(&self, domain: Domain) -> bool {
        self.info.capabilities.contains(&domain)
    }

    /// The state and load of all sources together: as good as the best, the load of the one that is asked first, but for the load factor of
    /// this server where it is told. One that is down takes no requests if it `discourages`.
    pub(crate) fn condition(&self, sources: &Sources, load_factor: Option<u64>, discourages: bool) -> Condition {
        let reachable = |provider: &&Provider| sources.is_up(provider.source);
        let mut merged = Condition { accepting: true, ..Condition::default() };
        let mut first = true;
        for provider in self.providers.iter().filter(reachable) {
            let condition = provider.offer.condition;
            if first || (condition.up && condition.accepting && !(merged.up && merged.accepting)) {
                merged = condition;
                first = false;
            }
        }
        merged.accepting &= merged.up || !discourages;
        merged.load.load_factor = load_factor.or(merged.load.load_factor);
        merged
    }

    /// The sites that it comes through, by all sources together.
    pub(crate) fn path(&self) -> Vec<String> {
        let mut path: Vec<String> = Vec::new();
        for site in self.providers.iter().flat_map(|provider| &provider.offer.path) {
            if !path.contains(site) {
                path.push(site.clone());
            }
        }
        path
    }

    /// The communication lines of its providers, by all sources together: one is up if it is at any.
    pub(crate) fn lines(&self) -> Lines {
        let mut lines = Lines::new();
        for (name, up) in self.providers.iter().flat_map(|provider| &provider.offer.lines) {
            *lines.entry(name.clone()).or_default() |= up;
        }
        lines
    }

    /// The source that serves an item of this domain and quality now, and the service's id there.
    pub(crate) fn choose(
        &self,
        sources: &Sources,
        domain: Domain,
        qos: Option<Qos>,
    ) -> Option<(SourceId, RemoteService)> {
        self.providers
            .iter()
            .find(|provider| provider.serves(sources, domain, qos))
            .map(|provider| (provider.source, provider.service))
    }
}

/// How long a service has to be gone before its id may be another's, nanoseconds: what clients and sources have under way for it is over
/// by then.
const REST: u64 = 60_000_000_000;
/// Services without a source that are deleted in one look for ids.
const DELETED_AT_ONCE: usize = 1_000;
/// Ids in use are looked through at most so often, nanoseconds.
const LOOK_PAUSE: u64 = 1_000_000_000;

/// All services that were ever known. An id is its name's for good, unless all ids are given out: then those of services that went
/// long ago, and that nothing refers to, are given to others.
#[derive(Debug, Default)]
pub(crate) struct Services {
    /// In the order in which their ids were given out.
    known: Vec<Service>,
    /// Where in `known` the service of an id is, by id.
    places: Vec<u16>,
    /// Ids that the configuration gives to names: no other name gets them.
    fixed: BTreeMap<String, ServiceId>,
    reserved: BTreeSet<ServiceId>,
    /// The lowest id that was not given out, and may be.
    next: u16,
    by_name: SeededMap<String, ServiceId>,
    /// Ids without a name, those first whose services went first.
    free: VecDeque<ServiceId>,
    /// Ids that were given to other names.
    renamed: u64,
    /// When ids that are free may be looked for again.
    look_at: u64,
    /// Turns that have opened items: each begins with another service, so that none waits for the others.
    rounds: u16,
    /// Entries of all queues: most turns find none, and need not look at each service.
    queued: usize,
}

impl Services {
    pub(crate) fn new(seed: HashSeed, ids: &ServiceIds) -> Self {
        let fixed: BTreeMap<_, _> = ids.iter().map(|(name, id)| (name.to_owned(), ServiceId(id))).collect();
        let reserved = fixed.values().copied().collect();
        Self { by_name: SeededMap::with_hasher(seed), fixed, reserved, ..Self::default() }
    }

    fn place(&self, id: ServiceId) -> Option<usize> {
        self.places.get(usize::from(id.0)).copied().filter(|&place| place != NOWHERE).map(usize::from)
    }

    /// A service that clients know.
    pub(crate) fn alive(&self, id: ServiceId) -> Option<&Service> {
        self.get(id).filter(|service| service.alive)
    }

    /// A service by its name, gone or not.
    pub(crate) fn by_name(&self, name: &str) -> Option<&Service> {
        self.get(*self.by_name.get(name)?)
    }

    /// A service, gone or not.
    pub(crate) fn get(&self, id: ServiceId) -> Option<&Service> {
        self.known.get(self.place(id)?)
    }

    pub(crate) fn get_mut(&mut self, id: ServiceId) -> Option<&mut Service> {
        let place = self.place(id)?;
        self.known.get_mut(place)
    }

    /// How many times an id was given to another name.
    pub(crate) fn renamed(&self) -> u64 {
        self.renamed
    }

    /// Services in the order in which they got their ids, those included that are gone.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Service> {
        self.known.iter()
    }

    /// The services of [`Services::iter`] from a place on.
    pub(crate) fn from(&self, place: usize) -> &[Service] {
        self.known.get(place..).unwrap_or_default()
    }

    /// All ids handed out.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ServiceId> {
        self.known.iter().map(|service| service.id)
    }

    /// The places of all services, beginning with another one each time: [`Services::at`].
    pub(crate) fn round(&mut self) -> impl Iterator<Item = u16> + Clone + use<> {
        let count = self.known.len() as u16;
        self.rounds = self.rounds.checked_add(1).filter(|&rounds| rounds < count).unwrap_or(0);
        let first = self.rounds;
        (first..count).chain(0..first)
    }

    /// True if an item of any service is in its queue to be opened, or has left its number there.
    #[inline]
    pub(crate) fn has_queued(&self) -> bool {
        self.queued > 0
    }

    /// Puts an item in its service's queue. `waits` tells of which entries the items still wait there, and `count` how many such items the
    /// service has: those that are gone leave their numbers behind, and the limits of a turn may keep them here. They are looked at as the
    /// queue doubles, so that it is never four times as long as what waits in it, and 128.
    pub(crate) fn queue_open(
        &mut self,
        service: ServiceId,
        (id, is_poll): (ItemId, bool),
        count: usize,
        waits: impl Fn(ItemId) -> bool,
    ) {
        let Some(place) = self.place(service) else {
            hub_items::fault!("an item of a service that never was: {id:?}");
            return;
        };
        let queue = self.known[place].queue.of(is_poll);
        queue.push_back(id);
        self.queued += 1;
        let length = queue.len();
        if length.is_power_of_two() && length > 2 * count + 64 {
            queue.retain(|&id| waits(id));
            self.queued -= length - queue.len();
        }
    }

    /// Takes the first entry out of one of a service's queues.
    pub(crate) fn pop_queued(&mut self, service: ServiceId, polls: bool) {
        let first = self.get_mut(service).and_then(|known| known.queue.of(polls).pop_front());
        self.queued -= usize::from(first.is_some());
    }

    /// Panics if what is in the queues was miscounted.
    pub(crate) fn check(&self) {
        let queued: usize = self.known.iter().map(|service| service.queue.len()).sum();
        assert_eq!(self.queued, queued, "entries of all queues");
    }

    /// The id at a place.
    pub(crate) fn at(&self, place: u16) -> ServiceId {
        self.known[usize::from(place)].id
    }

    /// The id that belongs to a name, a new one if it has none; `None` if all ids are taken.
    pub(crate) fn id_of(&mut self, name: &str) -> Option<ServiceId> {
        if let Some(&id) = self.by_name.get(name) {
            return Some(id);
        }
        let service = |id| Service {
            id,
            name: name.to_owned(),
            alive: false,
            providers: Vec::new(),
            choice: Choice::default(),
            info: Info::default(),
            source_qos: Vec::new(),
            told: Condition::default(),
            told_path: Vec::new(),
            told_lines: Lines::new(),
            queue: OpenQueue::default(),
            usage: ServiceUsage::default(),
            gone_at: 0,
            nameless: false,
        };
        let id = match self.fixed.get(name) {
            Some(&id) => id,
            None => self.next_id().or_else(|| self.free.pop_front())?,
        };
        if let Some(place) = self.place(id) {
            self.renamed += 1;
            self.known[place] = service(id);
        } else {
            let slots = usize::from(id.0) + 1;
            if self.places.len() < slots {
                self.places.resize(slots, NOWHERE);
            }
            self.places[slots - 1] = self.known.len() as u16;
            self.known.push(service(id));
        }
        self.by_name.insert(name.to_owned(), id);
        Some(id)
    }

    /// An id that was never given out.
    fn next_id(&mut self) -> Option<ServiceId> {
        self.next = self.next.max(FIRST_ID);
        while self.reserved.contains(&ServiceId(self.next)) {
            self.next += 1;
        }
        if self.next > MAX_SERVICE_ID {
            return None;
        }
        self.next += 1;
        Some(ServiceId(self.next - 1))
    }

    /// Takes the names from services that went long ago and that nothing refers to, as `is_used` says. False if it is too early to look
    /// for such again.
    fn free_ids(&mut self, now: u64, rest: u64, is_used: &impl Fn(&Service) -> bool) -> bool {
        if now < self.look_at {
            return false;
        }
        self.look_at = now.saturating_add(LOOK_PAUSE);
        let idle = |service: &&mut Service| {
            let gone = !service.alive && !service.nameless && service.providers.is_empty() && service.queue.is_empty();
            gone && now >= service.gone_at.saturating_add(rest) && !is_used(service)
        };
        let reserved = &self.reserved;
        let may_go = |service: &&mut Service| !reserved.contains(&service.id) && idle(service);
        let mut freed: Vec<&mut Service> = self.known.iter_mut().filter(may_go).collect();
        freed.sort_by_key(|service| service.gone_at);
        for service in freed {
            self.by_name.remove(&std::mem::take(&mut service.name));
            service.nameless = true;
            self.free.push_back(service.id);
        }
        true
    }
}

impl P2ps {
    /// The id of a service's name. Without one left, those of services that went long ago are given to others; `None`, and a word for the
    /// operator, if there is none such.
    pub(crate) fn id_of_service(&mut self, name: &str) -> Option<ServiceId> {
        if let Some(known) = self.sources.services.by_name(name) {
            return Some(known.id);
        }
        let mut id = self.sources.services.id_of(name);
        if id.is_none() {
            id = self.id_of_another(name);
        }
        if let Some(known) = id.and_then(|id| self.sources.services.get_mut(id)) {
            known.usage = ServiceUsage::of(name, &self.config);
        }
        id
    }

    /// The id of a service that went long ago, for another name.
    fn id_of_another(&mut self, name: &str) -> Option<ServiceId> {
        self.counters.services_refused += 1;
        let looked = self.free_service_ids();
        let id = self.sources.services.id_of(name);
        if id.is_some() {
            self.counters.services_refused -= 1;
        } else if looked {
            let refused = self.counters.services_refused;
            self.output.notice(Notice::NoServiceIds { service: name.to_owned(), refused });
        }
        id
    }

    fn free_service_ids(&mut self) -> bool {
        let named = self.clients.services_named();
        let Self { sources, items, config, .. } = self;
        let at_sources = |source| [Standing::Opening(source), Standing::Open(source)];
        let waits = [Standing::Parked, Standing::Queued, Standing::Retrying];
        let standings: Vec<Standing> = waits.into_iter().chain(sources.ids().flat_map(at_sources)).collect();
        let Sources { services, outages, .. } = sources;
        let has_items = |id| standings.iter().any(|&standing| items.count_standing(id, standing) > 0);
        let rest = REST.max(config.longest_post_timeout().saturating_mul(2));
        // A loss that is being told of may name any of them.
        let is_used = |service: &Service| outages.has_work() || named.contains(&service.id) || has_items(service.id);
        let looked = services.free_ids(self.now, rest, &is_used);
        if looked && services.free.is_empty() {
            // Services whose source is lost, and that nobody asks for, are gone from now on: their ids are free after the rest.
            let down =
                services.iter().filter(|service| service.alive && service.providers.is_empty() && !is_used(service));
            for id in down.map(|service| service.id).take(DELETED_AT_ONCE).collect::<Vec<_>>() {
                self.delete_service(id);
                let service = self.sources.services.get(id).map(|service| service.name.clone()).unwrap_or_default();
                self.output.notice(Notice::ServiceGone { service });
            }
        }
        looked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_those_who_went_are_used_when_there_is_no_other() {
        let mut services = Services::default();
        for n in 0..MAX_SERVICE_ID {
            assert_eq!(services.id_of(&n.to_string()), Some(ServiceId(n + FIRST_ID)));
        }
        for (id, gone_at) in [(9, 20), (4, 10), (5, 10), (6, 2_000)] {
            services.get_mut(ServiceId(id)).unwrap().leave(gone_at);
        }
        for service in &mut services.known {
            service.alive = service.gone_at == 0;
        }
        assert_eq!(services.id_of("new"), None);
        assert!(services.free_ids(1_500, 1_000, &|service: &Service| service.id == ServiceId(5)));
        assert!(!services.free_ids(1_501, 1_000, &|_: &Service| false), "not so soon again");
        assert_eq!([services.id_of("new"), services.id_of("newer")], [Some(ServiceId(4)), Some(ServiceId(9))]);
        assert_eq!((services.id_of("newest"), services.renamed()), (None, 2));
        assert_eq!(services.id_of("3"), None, "a name that was taken away is a new one");
        assert_eq!(services.id_of("4"), Some(ServiceId(5)), "one that is in use keeps it");
        let new = services.get(ServiceId(4)).unwrap();
        assert_eq!((new.name.as_str(), new.alive), ("new", false));
        assert_eq!(services.by_name.len(), usize::from(MAX_SERVICE_ID));
    }

    #[test]
    fn ids_of_the_configuration_are_their_names_and_nobody_elses() {
        let mut ids = ServiceIds::default();
        for (name, id) in [("B", 2), ("HIGH", 40_000), ("TOP", MAX_SERVICE_ID)] {
            ids.give(name, id).unwrap();
        }
        let mut services = Services::new(HashSeed::default(), &ids);
        let got = ["A", "C", "HIGH", "B", "D", "TOP"].map(|name| services.id_of(name).map(|id| id.0));
        assert_eq!(got, [1, 3, 40_000, 2, 4, MAX_SERVICE_ID].map(Some));
        assert_eq!(services.get(ServiceId(40_000)).map(|service| service.name.as_str()), Some("HIGH"));
        assert!(services.get(ServiceId(39_999)).is_none() && services.get(ServiceId(5)).is_none());
        assert_eq!(services.ids().map(|id| id.0).collect::<Vec<_>>(), [1, 3, 40_000, 2, 4, MAX_SERVICE_ID]);
        let mut round: Vec<u16> = services.round().map(|place| services.at(place).0).collect();
        round.sort_unstable();
        assert_eq!(round, [1, 2, 3, 4, 40_000, MAX_SERVICE_ID]);
        // A service that went long ago keeps its id.
        assert!(services.free_ids(u64::MAX, 1, &|_: &Service| false));
        assert!(services.free.iter().all(|id| !services.reserved.contains(id)) && services.free.len() == 3);
        assert_eq!(services.id_of("HIGH"), Some(ServiceId(40_000)));
    }
}
