//! How near a P2PS is to its limits: items of a mount, of a user, of a service and of all clients, and opens that wait. Each has a state that rises at
//! one mark and falls at a lower one, so that operators hear of it once.
//!
//! A mount or a user at its limit is refused one item more. When the items of all clients have reached theirs, everything new is refused
//! until they are below the upper mark again: a server that is full for an hour does not flicker. A service with a limit of its own does the
//! same.

use super::clients::refusal::Refusal;
use super::ids::{ClientId, ServiceId};
use super::items::state::Standing;
use super::sources::services::Service;
use super::{Config, Notice, P2ps};
use std::collections::BTreeMap;
use std::fmt;

/// Nanoseconds between two looks at the opens that wait.
const QUEUE_LOOK: u64 = 1_000_000_000;

/// How near something is to its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum LoadState {
    /// Below the upper mark, or below the lower one after it was over that.
    #[default]
    Normal,
    /// At the upper mark or over it, and not below the lower one since.
    Burdened,
    /// At its limit, and not below the upper mark since.
    Overloaded,
}

impl LoadState {
    /// As it is shown to people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Burdened => "burdened",
            Self::Overloaded => "overloaded",
        }
    }
}

impl fmt::Display for LoadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where the states of a limit begin and end, in percent of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percents {
    /// From here on it is burdened.
    pub upper: u32,
    /// Below this it is normal again.
    pub lower: u32,
}

impl Default for Percents {
    fn default() -> Self {
        Self { upper: 90, lower: 80 }
    }
}

/// Where the states of a queue begin, and how far below that each of them ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueMarks {
    /// The queue is burdened from this length on (`openQueueBurdenedThreshold`); 0 for never.
    pub burdened: u32,
    /// The queue is overloaded from this length on (`openQueueHeavilyBurdenedThreshold`); 0 for never.
    pub overloaded: u32,
    /// A state ends at so many less (`openQueueHysteresis`).
    pub hysteresis: u32,
}

/// A limit with its marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Marks {
    /// Burdened from here on, and overloaded until below `overloaded_ends`.
    burdened: u64,
    overloaded: u64,
    burdened_ends: u64,
    overloaded_ends: u64,
}

impl Marks {
    /// The marks of a limit; `None` for one that is none.
    fn of_limit(limit: u32, percents: Percents) -> Option<Self> {
        let part = |percent: u32| (u64::from(limit) * u64::from(percent.min(100))).div_ceil(100).max(1);
        let upper = part(percents.upper);
        let lower = part(percents.lower).min(upper);
        let (burdened, overloaded) = (upper, u64::from(limit));
        (limit > 0).then_some(Self { burdened, overloaded, burdened_ends: lower, overloaded_ends: upper })
    }

    fn of_queue(marks: QueueMarks) -> Option<Self> {
        let from = |mark: u32| if mark == 0 { u64::MAX } else { u64::from(mark) };
        let ends = |mark: u32| u64::from(mark.saturating_sub(marks.hysteresis).max(1));
        let is_on = marks.burdened > 0 || marks.overloaded > 0;
        is_on.then_some(Self {
            burdened: from(marks.burdened),
            overloaded: from(marks.overloaded),
            burdened_ends: ends(marks.burdened),
            overloaded_ends: ends(marks.overloaded),
        })
    }

    /// The state that follows one at this load.
    fn next(&self, state: LoadState, load: u64) -> LoadState {
        let is_overloaded = load >= self.overloaded || state == LoadState::Overloaded && load >= self.overloaded_ends;
        let is_burdened = load >= self.burdened || state >= LoadState::Burdened && load >= self.burdened_ends;
        match (is_overloaded, is_burdened) {
            (true, _) => LoadState::Overloaded,
            (false, true) => LoadState::Burdened,
            (false, false) => LoadState::Normal,
        }
    }
}

impl Marks {
    /// The marks of no limit: no load reaches them.
    const NONE: Self =
        Self { burdened: u64::MAX, overloaded: u64::MAX, burdened_ends: u64::MAX, overloaded_ends: u64::MAX };
}

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

/// What clients have open of a service, and what of it they may.
#[derive(Debug)]
pub(crate) struct ServiceUsage {
    /// Watchers of its items.
    watchers: u64,
    /// How near that is to the limit.
    load: LoadState,
    /// The limit; 0 for any number.
    limit: u32,
    marks: Marks,
    /// Opens that may be unanswered; 0 for any number.
    open_window: u32,
}

impl ServiceUsage {
    /// Nothing is open of a service.
    pub(crate) fn of(service: &str, config: &Config) -> Self {
        let mut usage = Self::default();
        usage.set_limits(service, config);
        usage
    }

    fn set_limits(&mut self, service: &str, config: &Config) {
        self.limit = config.item_limit_of(service);
        self.marks = Marks::of_limit(self.limit, config.load_percents).unwrap_or(Marks::NONE);
        self.open_window = config.open_window_of(service);
    }

    /// Opens that may be unanswered; 0 for any number.
    pub(crate) fn open_window(&self) -> u32 {
        self.open_window
    }

    fn has_room(&self) -> bool {
        self.limit == 0 || self.load != LoadState::Overloaded && self.watchers < u64::from(self.limit)
    }
}

impl Default for ServiceUsage {
    fn default() -> Self {
        Self { watchers: 0, load: LoadState::Normal, limit: 0, marks: Marks::NONE, open_window: 0 }
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

/// What is near its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadOf {
    /// One connection that is logged in.
    Mount {
        /// User name.
        user: String,
        /// Address that it connects from.
        address: std::net::IpAddr,
    },
    /// All connections of a user.
    User(String),
    /// What all connections have open of a service.
    Service(String),
    /// All connections.
    All,
    /// Opens that wait for a Source Distributor.
    OpenQueue,
}

impl fmt::Display for LoadOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount { user, address } => write!(f, "a connection of {user} from {address}"),
            Self::User(user) => write!(f, "user {user}"),
            Self::Service(service) => write!(f, "service {service}"),
            Self::All => write!(f, "this server"),
            Self::OpenQueue => write!(f, "the queue of opens"),
        }
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
}

impl Load {
    /// Nothing is near the limits of a configuration.
    pub(crate) fn new(config: &Config) -> Self {
        Self { limits: Limits::of(config), total: LoadState::Normal, queue: LoadState::Normal, look_at: 0 }
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
        let Self { clients, counters, notices, config, load, .. } = self;
        let limits = &load.limits;
        let total = limits.total.next(load.total, counters.watchers);
        let (mount, user) = (limits.mount, limits.user);
        if total != load.total {
            load.total = total;
            let (load, limit) = (counters.watchers, config.total_item_limit);
            notices.push(Notice::Load { of: LoadOf::All, state: total, load, limit });
        }
        let Some((known, users)) = clients.with_users(client) else { return };
        let Some(login) = &known.login else { return };
        // What ends after its login counts for nobody.
        let items = if known.is_leaving { 0 } else { known.items };
        let state = mount.next(known.load, items.into());
        if state != known.load {
            recount((&mut counters.mounts_burdened, &mut counters.mounts_overloaded), known.load, state);
            known.load = state;
            let of = LoadOf::Mount { user: login.name.clone(), address: known.info.address };
            notices.push(Notice::Load { of, state, load: items.into(), limit: config.item_limit });
        }
        let Some(usage) = users.usage_mut(login.user) else { return };
        let state = user.next(usage.load, usage.items.into());
        if state != usage.load {
            recount((&mut counters.users_burdened, &mut counters.users_overloaded), usage.load, state);
            usage.load = state;
            let of = LoadOf::User(login.name.clone());
            notices.push(Notice::Load { of, state, load: usage.items.into(), limit: config.aggregate_item_limit });
        }
    }

    /// Clients watch one item more of a service, or one less.
    pub(crate) fn count_watcher(&mut self, service: ServiceId, comes: bool) {
        let watchers = &mut self.counters.watchers;
        *watchers = if comes { *watchers + 1 } else { *watchers - 1 };
        let Some(known) = self.services.get_mut(service) else {
            hub_items::fault!("a watcher of a service that never was: {service:?}");
            return;
        };
        let watchers = &mut known.usage.watchers;
        *watchers = if comes { *watchers + 1 } else { *watchers - 1 };
        self.note_service_load(service);
    }

    fn note_service_load(&mut self, service: ServiceId) {
        let Self { services, counters, notices, .. } = self;
        let Some(known) = services.get_mut(service) else { return };
        let usage = &mut known.usage;
        let state = usage.marks.next(usage.load, usage.watchers);
        if state != usage.load {
            recount((&mut counters.services_burdened, &mut counters.services_overloaded), usage.load, state);
            usage.load = state;
            let of = LoadOf::Service(known.name.clone());
            notices.push(Notice::Load { of, state, load: usage.watchers, limit: usage.limit });
        }
    }

    /// The limits are others now.
    pub(crate) fn reconsider_load(&mut self) {
        self.load.limits = Limits::of(&self.config);
        for service in self.services.ids().collect::<Vec<_>>() {
            if let Some(known) = self.services.get_mut(service) {
                known.usage.set_limits(&known.name, &self.config);
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
        let waiting = self.items_waiting();
        let state = marks.map_or(LoadState::Normal, |marks| marks.next(self.load.queue, waiting));
        if state != self.load.queue {
            self.load.queue = state;
            let QueueMarks { burdened, overloaded, .. } = self.config.open_queue;
            let limit = if state == LoadState::Overloaded { overloaded } else { burdened };
            self.notices.push(Notice::Load { of: LoadOf::OpenQueue, state, load: waiting, limit });
        }
    }

    /// Items that wait to be opened.
    pub(crate) fn items_waiting(&self) -> u64 {
        let waits = [Standing::Queued, Standing::Parked];
        let waiting =
            |service| waits.map(|standing| self.items.count_standing(service, standing)).iter().sum::<usize>();
        self.services.ids().map(waiting).sum::<usize>() as u64
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
        let services = count(&mut self.services.iter().map(|service| service.usage.load));
        assert_eq!(services, (c.services_burdened, c.services_overloaded), "services near their limit");
        let watchers = |id| self.items.watchers(id).len() as u64;
        let mut counted: BTreeMap<u16, u64> = BTreeMap::new();
        for id in self.items.all_ids() {
            *counted.entry(self.items.get(id).service().0).or_default() += watchers(id);
        }
        for service in self.services.iter() {
            let counted = counted.get(&service.id.0).copied().unwrap_or_default();
            assert_eq!(service.usage.watchers, counted, "watchers of {}", service.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LoadState, Marks, Percents, QueueMarks};

    /// The states over loads that come one after the other.
    fn states(marks: Marks, loads: &[u64]) -> String {
        let mut state = LoadState::Normal;
        let step = |load: &u64| {
            state = marks.next(state, *load);
            state.name()[..1].to_owned()
        };
        loads.iter().map(step).collect()
    }

    #[test]
    fn a_state_ends_below_where_it_began() {
        let marks = Marks::of_limit(100, Percents::default()).unwrap();
        assert_eq!(states(marks, &[89, 90, 85, 80, 79, 85, 99, 100, 95, 90, 89, 79]), "nbbbnnbooobn");
        assert_eq!(states(marks, &[100, 10, 200]), "ono");
        let one = Marks::of_limit(1, Percents::default()).unwrap();
        assert_eq!(states(one, &[0, 1, 0]), "non");
        assert_eq!(Marks::of_limit(0, Percents::default()), None);
    }

    #[test]
    fn a_queue_has_marks_of_its_own() {
        let queue = QueueMarks { burdened: 8_000, overloaded: 10_000, hysteresis: 1_000 };
        let marks = Marks::of_queue(queue).unwrap();
        assert_eq!(states(marks, &[7_999, 8_000, 7_000, 6_999, 9_999, 10_000, 9_000, 8_999, 6_999]), "nbbnboobn");
        let only_burdened = Marks::of_queue(QueueMarks { overloaded: 0, ..queue }).unwrap();
        assert_eq!(states(only_burdened, &[1_000_000]), "b");
        assert_eq!(Marks::of_queue(QueueMarks::default()), None);
    }
}
