//! The services of all sources, merged by name: what clients see, and who is asked.

use super::Sources;
use super::qos::matching;
use crate::p2ps::conflation::ServiceConflation;
use crate::p2ps::ids::{ItemId, RemoteService, ServiceId, SourceId};
use rustc_hash::FxHashMap;
use rwf::Qos;
use rwf::msg::Domain;
use rwf::rdm::dictionary::{ENUMS, FIELDS};
use rwf::rdm::directory::{self, Info, Load, Part};
use std::collections::VecDeque;

/// Ids are handed out from 1, so that those of the first 253 services stay one byte long in every key.
const FIRST_ID: u16 = 1;

/// State and load of a service, as they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Condition {
    /// `ServiceState`.
    pub(crate) up: bool,
    /// `AcceptingRequests`.
    pub(crate) accepting: bool,
    pub(crate) load: Load,
}

/// What one source says of a service.
#[derive(Debug, Clone, Default)]
pub(crate) struct Offer {
    pub(crate) info: Info,
    pub(crate) condition: Condition,
}

impl Offer {
    /// What an entry of a directory says.
    pub(crate) fn of(entry: &directory::Service) -> Self {
        let state = entry.state.as_ref().and_then(Part::value);
        let load = entry.load.as_ref().and_then(Part::value);
        Self {
            info: entry.info.as_ref().and_then(Part::value).cloned().unwrap_or_default(),
            condition: Condition {
                up: state.is_some_and(|state| state.up),
                accepting: state.is_some_and(|state| state.accepting_requests.unwrap_or(true)),
                load: load.copied().unwrap_or_default(),
            },
        }
    }
}

/// One source of a service.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) source: SourceId,
    /// Its id at the source.
    pub(crate) service: RemoteService,
    pub(crate) offer: Offer,
}

impl Provider {
    fn takes_requests(&self, sources: &Sources) -> bool {
        let condition = &self.offer.condition;
        sources.is_up(self.source) && condition.up && condition.accepting && condition.load.open_window != Some(0)
    }
}

/// A service under its public id.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) id: ServiceId,
    pub(crate) name: String,
    /// Clients know it. The id stays the name's when it is gone.
    pub(crate) alive: bool,
    pub(crate) providers: Vec<Provider>,
    /// Everything that any source offered since it came: an offer does not shrink when a source goes.
    pub(crate) info: Info,
    /// Qualities that any source offered. What clients are offered is in `info`.
    pub(crate) source_qos: Vec<Qos>,
    /// As clients were told last.
    pub(crate) told: Condition,
    /// Items to be opened.
    pub(crate) queue: VecDeque<ItemId>,
}

impl Service {
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

    /// True if the service has this domain.
    pub(crate) fn has_domain(&self, domain: Domain) -> bool {
        self.info.capabilities.contains(&domain)
    }

    /// The state and load of all sources together: as good as the best, the load of the one that is asked first.
    pub(crate) fn condition(&self, sources: &Sources) -> Condition {
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
        merged
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
            .find(|provider| {
                let offer = &provider.offer;
                provider.takes_requests(sources)
                    && offer.info.capabilities.contains(&domain)
                    && qos.is_none_or(|qos| matching(&offer.info.qos, Some(qos), None).is_some())
            })
            .map(|provider| (provider.source, provider.service))
    }
}

/// All services that were ever known.
#[derive(Debug, Default)]
pub(crate) struct Services {
    by_id: Vec<Service>,
    by_name: FxHashMap<String, ServiceId>,
    /// Turns that have opened items: each begins with another service, so that none waits for the others.
    rounds: u16,
}

impl Services {
    fn index(id: ServiceId) -> Option<usize> {
        id.0.checked_sub(FIRST_ID).map(usize::from)
    }

    /// A service that clients know.
    pub(crate) fn alive(&self, id: ServiceId) -> Option<&Service> {
        self.get(id).filter(|service| service.alive)
    }

    /// A service, gone or not.
    pub(crate) fn get(&self, id: ServiceId) -> Option<&Service> {
        self.by_id.get(Self::index(id)?)
    }

    pub(crate) fn get_mut(&mut self, id: ServiceId) -> Option<&mut Service> {
        self.by_id.get_mut(Self::index(id)?)
    }

    /// Services in the order of their ids, those included that are gone.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Service> {
        self.by_id.iter()
    }

    /// All ids handed out.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ServiceId> + use<> {
        (FIRST_ID..).take(self.by_id.len()).map(ServiceId)
    }

    /// All ids handed out, beginning with another one each time.
    pub(crate) fn round(&mut self) -> impl Iterator<Item = ServiceId> + use<> {
        let count = self.by_id.len() as u16;
        self.rounds = self.rounds.checked_add(1).filter(|&rounds| rounds < count).unwrap_or(0);
        let first = self.rounds;
        (0..count).map(move |at| ServiceId(((u32::from(first) + u32::from(at)) % u32::from(count)) as u16 + FIRST_ID))
    }

    /// The id that belongs to a name, a new one if it has none; `None` if all ids are taken.
    pub(crate) fn id_of(&mut self, name: &str) -> Option<ServiceId> {
        if let Some(&id) = self.by_name.get(name) {
            return Some(id);
        }
        let id = ServiceId(u16::try_from(self.by_id.len()).ok()?.checked_add(FIRST_ID)?);
        self.by_id.push(Service {
            id,
            name: name.to_owned(),
            alive: false,
            providers: Vec::new(),
            info: Info::default(),
            source_qos: Vec::new(),
            told: Condition::default(),
            queue: VecDeque::new(),
        });
        self.by_name.insert(name.to_owned(), id);
        Some(id)
    }
}
