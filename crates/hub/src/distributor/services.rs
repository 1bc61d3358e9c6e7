//! The services: what they are called, who offers them, and what is waiting for a provider.

use super::sessions::Domains;
use crate::hash_seed::{HashSeed, SeededMap};
use rwf::Qos;
use std::collections::VecDeque;

/// One service. Its id belongs to its name for good.
#[derive(Debug, Default)]
pub(super) struct Service {
    pub(super) name: String,
    /// `Vendor`, as the first provider had it.
    pub(super) vendor: Option<String>,
    /// `ItemList`, as the first provider had it.
    pub(super) item_list: Option<String>,
    /// Non-interactive: its images are held here.
    pub(super) cached: bool,
    /// P2PSs know it.
    pub(super) advertised: bool,
    /// What P2PSs were told last: `ServiceState`, `AcceptingRequests`.
    pub(super) state: (bool, bool),
    /// Every domain and quality that any provider has offered. They only grow: a provider that takes over must not
    /// change what a consumer has seen.
    pub(super) domains: Domains,
    pub(super) qos: Vec<Qos>,
    /// What P2PSs were told is out of date.
    pub(super) stale: bool,
    /// The sessions that offer it, in the order of their routes.
    pub(super) providers: Vec<u32>,
    /// Items wanted for the first time.
    pub(super) fresh: VecDeque<u32>,
    /// Items wanted back.
    pub(super) lost: VecDeque<u32>,
    /// Items that are lost: told Suspect and not back.
    pub(super) lost_items: u32,
}

impl Service {
    /// True if something waits for a provider.
    pub(super) fn is_waiting(&self) -> bool {
        !self.fresh.is_empty() || !self.lost.is_empty()
    }

    /// The next to be asked for. New ones and lost ones take turns, so that neither starves the other.
    pub(super) fn next(&mut self, turn: u32) -> Option<u32> {
        let (first, second) =
            if turn.is_multiple_of(2) { (&mut self.fresh, &mut self.lost) } else { (&mut self.lost, &mut self.fresh) };
        first.pop_front().or_else(|| second.pop_front())
    }
}

/// All services by id (from 1) and by name.
#[derive(Debug, Default)]
pub(super) struct Services {
    list: Vec<Service>,
    by_name: SeededMap<String, u16>,
}

/// Ids above this are not given out; `0xFFFF` means something else on the hub.
const MAX_SERVICES: usize = 0xFFFE;

impl Services {
    /// No services yet. Providers choose their names: `seed` keys the table.
    pub(super) fn new(seed: HashSeed) -> Self {
        Self { by_name: SeededMap::with_hasher(seed), ..Self::default() }
    }

    pub(super) fn get(&self, id: u16) -> Option<&Service> {
        self.list.get(usize::from(id).checked_sub(1)?)
    }

    pub(super) fn get_mut(&mut self, id: u16) -> Option<&mut Service> {
        self.list.get_mut(usize::from(id).checked_sub(1)?)
    }

    /// The service of this name; a new one if there is none. `None` if it is of the other kind or the table is full.
    pub(super) fn find_or_add(&mut self, name: &str, cached: bool) -> Option<u16> {
        if let Some(&id) = self.by_name.get(name) {
            let service = &mut self.list[usize::from(id) - 1];
            // A service that nobody has, or ever published, may change its kind.
            if service.cached != cached && service.providers.is_empty() && !service.advertised {
                service.cached = cached;
            }
            return (service.cached == cached).then_some(id);
        }
        if self.list.len() >= MAX_SERVICES || name.is_empty() {
            return None;
        }
        self.list.push(Service { name: name.to_owned(), cached, ..Service::default() });
        let id = self.list.len() as u16;
        self.by_name.insert(name.to_owned(), id);
        Some(id)
    }

    pub(super) fn ids(&self) -> std::ops::RangeInclusive<u16> {
        1..=self.list.len() as u16
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
        services.get_mut(1).unwrap().providers.push(0);
        assert_eq!(services.find_or_add("A", true), None);
    }

    #[test]
    fn new_and_lost_items_take_turns() {
        let mut service = Service { fresh: (0..4).collect(), lost: (10..12).collect(), ..Service::default() };
        let order: Vec<u32> = (0..).map_while(|turn| service.next(turn)).collect();
        assert_eq!(order, [0, 10, 1, 11, 2, 3]);
    }
}
