//! How near a P2PS is to its limits: items of a mount, of a user, of a service and of all clients, and opens that wait. Each has a state that rises at
//! one mark and falls at a lower one, so that operators hear of it once.
//!
//! A mount or a user at its limit is refused one item more. When the items of all clients have reached theirs, everything new is refused
//! until they are below the upper mark again: a server that is full for an hour does not flicker. A service with a limit of its own does the
//! same.

mod factor;
pub(crate) mod states;
pub(crate) mod usage;

use super::clients::refusal::Refusal;
use super::ids::{ClientId, ServiceId};
use super::sources::services::Service;
use super::{Config, Notice, P2ps};
use factor::LoadFactor;
use hub_items::load_marks::{LoadState, Marks, QueueMarks};
use states::LoadOf;
use std::collections::BTreeMap;

/// Nanoseconds between two looks at the opens that wait.
const QUEUE_LOOK: u64 = 1_000_000_000;

/// The marks of the limits of items, worked out once for all opens and closes.
#[derive(Debug, Clone, Copy)]
struct Limits {
    mount: Marks,
    user: Marks,
    total: Marks,
}

impl Limits {
    fn of(config: &Config) -> Self {
        let marks = |limit| Marks::of_limit(limit, config.load_percents).unwrap_or(Marks::NONE);
        Self {
            mount: marks(config.item_limit),
            user: marks(config.aggregate_item_limit),
            total: marks(config.total_item_limit),
        }
    }
}

impl Service {
    /// Whether too many of its items are open for one more.
    pub(crate) fn check_item_limit(&self) -> Result<(), Refusal<'_>> {
        let usage = &self.usage;
        if usage.has_room() {
            return Ok(());
        }
        Err(Refusal::ServiceItemLimit { service: &self.name, items: usage.watchers, limit: usage.limit })
    }
}

/// The states of what is there once, and where those of all begin and end.
#[derive(Debug)]
pub(crate) struct Load {
    limits: Limits,
    /// Items of all clients.
    total: LoadState,
    queue: LoadState,
    /// When the queue is looked at next.
    look_at: u64,
    /// How full this server is.
    factor: LoadFactor,
}

impl Load {
    /// Nothing is near the limits of a configuration.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            limits: Limits::of(config),
            total: LoadState::Normal,
            queue: LoadState::Normal,
            look_at: 0,
            factor: LoadFactor::default(),
        }
    }

    /// How full this server is, as it is told of every service; `None` where nothing is told.
    pub(crate) fn factor(&self) -> Option<u64> {
        self.factor.told()
    }

    /// When it is worked out again how full this server is, or told of; it is each `interval`, unless that is 0.
    pub(crate) fn factor_timeout(&self, interval: u64) -> Option<u64> {
        self.factor.timeout(interval)
    }

    /// When the queue of opens has to be looked at, because its state may end.
    pub(crate) fn timeout(&self) -> Option<u64> {
        (self.queue != LoadState::Normal).then_some(self.look_at)
    }
}

/// Counts what goes from one state to another.
fn recount((burdened, overloaded): (&mut u64, &mut u64), from: LoadState, to: LoadState) {
    for (state, comes) in [(from, false), (to, true)] {
        let count = match state {
            LoadState::Normal => continue,
            LoadState::Burdened => &mut *burdened,
            LoadState::Overloaded => &mut *overloaded,
        };
        *count = if comes { *count + 1 } else { count.saturating_sub(1) };
    }
}

impl P2ps {
    /// A client watches an item more or less.
    pub(crate) fn note_load(&mut self, client: ClientId) {
        let Self { clients, counters, output, config, load, .. } = self;
        let limits = &load.limits;
        let total = limits.total.next(load.total, counters.watchers);
        let (mount, user) = (limits.mount, limits.user);
        if total != load.total {
            load.total = total;
            let (load, limit) = (counters.watchers, config.total_item_limit);
            output.notice(Notice::Load { of: LoadOf::All, state: total, load, limit });
        }
        // A client that is gone, or not logged in, counts for nobody.
        let Some((known, users)) = clients.with_users(client) else { return };
        // As above.
        let Some(login) = &known.login else { return };
        // Items that end after their login count for nobody.
        let items = if known.is_leaving { 0 } else { known.items };
        let state = mount.next(known.load, items.into());
        if state != known.load {
            recount((&mut counters.mounts_burdened, &mut counters.mounts_overloaded), known.load, state);
            known.load = state;
            let of = LoadOf::Mount { user: login.name.clone(), address: known.info.address };
            output.notice(Notice::Load { of, state, load: items.into(), limit: config.item_limit });
        }
        let Some(usage) = users.usage_mut(login.user) else {
            hub_items::fault!("a login of a user that is not there: {:?}", login.user);
            return;
        };
        let state = user.next(usage.load, usage.items.into());
        if state != usage.load {
            recount((&mut counters.users_burdened, &mut counters.users_overloaded), usage.load, state);
            usage.load = state;
            let of = LoadOf::User(login.name.clone());
            output.notice(Notice::Load { of, state, load: usage.items.into(), limit: config.aggregate_item_limit });
        }
    }

    /// Clients watch one item more of a service, or one less.
    pub(crate) fn count_watcher(&mut self, service: ServiceId, comes: bool) {
        let watchers = &mut self.counters.watchers;
        *watchers = if comes { *watchers + 1 } else { *watchers - 1 };
        let Some((usage, _)) = self.sources.usage_mut(service) else {
            hub_items::fault!("a watcher of a service that never was: {service:?}");
            return;
        };
        let watchers = &mut usage.watchers;
        *watchers = if comes { *watchers + 1 } else { *watchers - 1 };
        self.note_service_load(service);
    }

    fn note_service_load(&mut self, service: ServiceId) {
        let Self { sources, counters, output, .. } = self;
        // Ids of services stay: both callers have just found it.
        let Some((usage, name)) = sources.usage_mut(service) else { return };
        let state = usage.marks.next(usage.load, usage.watchers);
        if state != usage.load {
            recount((&mut counters.services_burdened, &mut counters.services_overloaded), usage.load, state);
            usage.load = state;
            let of = LoadOf::Service(name.to_owned());
            output.notice(Notice::Load { of, state, load: usage.watchers, limit: usage.limit });
        }
    }

    /// The limits are others now.
    pub(crate) fn reconsider_load(&mut self) {
        self.load.limits = Limits::of(&self.config);
        for service in self.sources.services().ids().collect::<Vec<_>>() {
            if let Some((usage, name)) = self.sources.usage_mut(service) {
                usage.set_limits(name, &self.config);
            }
            self.note_service_load(service);
        }
        for client in self.clients.ids() {
            self.note_load(client);
        }
        self.load.look_at = 0;
    }

    /// Whether all clients together have too many items for one more.
    pub(crate) fn check_total(&self) -> Result<(), Refusal<'_>> {
        let limit = self.config.total_item_limit;
        if limit > 0 && (self.load.total == LoadState::Overloaded || self.counters.watchers >= u64::from(limit)) {
            return Err(Refusal::TotalItemLimit { items: self.counters.watchers, limit });
        }
        Ok(())
    }

    /// Looks at how many opens wait, once a second at most.
    pub(crate) fn look_at_queue(&mut self) {
        let marks = Marks::of_queue(self.config.open_queue);
        let is_idle = marks.is_none() && self.load.queue == LoadState::Normal;
        if is_idle || self.now < self.load.look_at {
            return;
        }
        self.load.look_at = self.now + QUEUE_LOOK;
        let waiting = self.sources.items_waiting(&self.items);
        let state = marks.map_or(LoadState::Normal, |marks| marks.next(self.load.queue, waiting));
        if state != self.load.queue {
            self.load.queue = state;
            let QueueMarks { burdened, overloaded, .. } = self.config.open_queue;
            let limit = if state == LoadState::Overloaded { overloaded } else { burdened };
            self.output.notice(Notice::Load { of: LoadOf::OpenQueue, state, load: waiting, limit });
        }
    }

    /// The states of the items of all clients, and of the queue of opens.
    pub fn load_states(&self) -> (LoadState, LoadState) {
        (self.load.total, self.load.queue)
    }

    /// Asserts that the counts of states are those of clients and users.
    pub(crate) fn check_load(&self) {
        let count = |states: &mut dyn Iterator<Item = LoadState>| {
            states.fold((0, 0), |(burdened, overloaded), state| match state {
                LoadState::Normal => (burdened, overloaded),
                LoadState::Burdened => (burdened + 1, overloaded),
                LoadState::Overloaded => (burdened, overloaded + 1),
            })
        };
        let c = &self.counters;
        let mounts = count(&mut self.clients.iter().map(|(_, client)| client.load));
        assert_eq!(mounts, (c.mounts_burdened, c.mounts_overloaded), "mounts near their limit");
        let users = count(&mut self.clients.users().states());
        assert_eq!(users, (c.users_burdened, c.users_overloaded), "users near their limit");
        let services = count(&mut self.sources.services().iter().map(|service| service.usage.load));
        assert_eq!(services, (c.services_burdened, c.services_overloaded), "services near their limit");
        let watchers = |id| self.items.watchers(id).len() as u64;
        let mut counted: BTreeMap<u16, u64> = BTreeMap::new();
        for id in self.items.all_ids() {
            *counted.entry(self.items.get(id).service().0).or_default() += watchers(id);
        }
        for service in self.sources.services().iter() {
            let counted = counted.get(&service.id.0).copied().unwrap_or_default();
            assert_eq!(service.usage.watchers, counted, "watchers of {}", service.name);
        }
    }
}
