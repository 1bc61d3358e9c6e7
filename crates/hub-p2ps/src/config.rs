//! Configuration of a P2PS.

use crate::hash_seed::HashSeed;
use crate::status_texts::StatusTexts;
use hub_content::headlines::HeadlineRule;
use rwf::rdm::login;
use rwf::rdm::state::Recovery;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Limits and times of a [`super::P2ps`]. Names are those of the RMDS parameters, in snake case, where there is one.
#[derive(Debug, Clone)]
pub struct Config {
    /// Number of this life of the P2PS, for Source Distributors that have known an earlier one: another one in every start.
    pub incarnation: u32,
    /// Text that names this server in the login ("Login accepted by host ...").
    pub host_name: String,
    /// Ids that services have here whenever they come: clients that know several servers expect the same id for the same service. Others
    /// get theirs in the order in which they are first heard of.
    pub service_ids: ServiceIds,
    /// The only services that clients see; empty for all.
    pub service_list: Vec<String>,
    /// Services that clients do not see, whatever that list says.
    pub blocked_service_list: Vec<String>,
    /// Application ids of clients for which nothing is recovered here, as if their logins had `SingleOpen` 0.
    pub disable_single_open: Vec<String>,
    /// Application ids of clients whose directories do not show the services of `service_groups`; `GROUP:ID` is about one of these.
    pub disable_service_groups: Vec<String>,
    /// Names of services that are groups of others.
    pub service_groups: Vec<String>,
    /// What is said of single services, by name: for these it counts in place of what is said here for all.
    pub services: BTreeMap<String, ServiceConfig>,
    /// Clients may pause their streams; without, who asks for it gets updates as before.
    pub support_pause_resume: bool,
    /// The directory says of a service that is down that it takes no requests (`discourageRequestsOnOutage`).
    pub discourage_on_outage: bool,
    /// Clients may have this server stand by for another one.
    pub support_warm_standby: bool,
    /// Servers that clients are told of that ask for them, and whether this P2PS is one for those of others.
    pub connections: Connections,
    /// Logins that one user may have at a time; 0 for any number.
    pub max_mounts_per_user: u32,
    /// Items that one client connection may have open; 0 for any number.
    pub item_limit: u32,
    /// Items that all clients of one user together may have open; 0 for any number.
    pub aggregate_item_limit: u32,
    /// Items that all clients together may have open; 0 for any number. When it is reached, no more are taken until it is below the upper
    /// mark.
    pub total_item_limit: u32,
    /// Items that all clients together may have open of a service, by its name; that of the empty name is of all others, each for itself.
    /// None or 0 for any number. As [`Self::total_item_limit`] when it is reached.
    pub service_item_limits: BTreeMap<String, u32>,
    /// Where what is near one of these limits is told of.
    pub load_percents: super::Percents,
    /// How often the load factor of the services is worked out that is told of this server, nanoseconds; 0 tells of none.
    pub load_factor_interval: u64,
    /// Times that this server counts as it is full for that: a weaker one more, so that it is as full as another with fewer clients
    /// (`scalingFactor`).
    pub load_scale: u32,
    /// Logins at which this server is full for that; 0 leaves them out of account.
    pub mounts_when_full: u32,
    /// When the opens that wait are told of.
    pub open_queue: super::QueueMarks,
    /// Items that nobody gets.
    pub blocked: super::BlockedList,
    /// Different views through which one item may be watched at a time; further ones are refused, because every update of the item is
    /// filtered once for each. 0 for any number.
    pub max_views_per_item: u32,
    /// Highest priority class of a request that counts: a higher one is taken for this. Providers' places go by classes
    /// (`hub_distributor::Config::preemption`).
    pub max_priority_class: u8,
    /// Priority class of requests that say none.
    pub default_priority_class: u8,
    /// Nanoseconds for which an item that nobody watches any more stays open, so that who comes back finds it
    /// (`consumerAgeUnwatchedItemTime`); 0 gives it back at once.
    pub unwatched_time: u64,
    /// Items that stay open so; beyond, the one that has been without watchers longest is given back. 0 for any number.
    pub max_unwatched: u32,
    /// Opens that may be unanswered by one Source Distributor; further ones wait their turn. 0 for any number.
    pub open_window: u32,
    /// Opens of a service that may be unanswered, by all Source Distributors together, by its name; that of the empty name is of all others,
    /// each for itself. None or 0 for any number within `open_window`.
    pub service_open_windows: BTreeMap<String, u32>,
    /// Percent of `open_window` that items which were lost or refused may use, so that those that are asked for the first time do not wait for
    /// all of them.
    pub open_window_for_polls: u32,
    /// Opens sent to Source Distributors from one [`super::P2ps::on_timer`] to the next, however often requests are taken in
    /// between, so that images of a large watchlist do not hold up those that stream.
    pub opens_per_turn: u32,
    /// Items and watchers that a turn tells of a source or a service that is lost, or of one that is back, before the updates of
    /// others have their turn.
    pub work_per_turn: u32,
    /// Bounds of what waits for clients that take less than there is for them.
    pub egress: super::egress::Limits,
    /// Which services are conflated, and what is offered of that.
    pub conflation: super::conflation::Settings,
    /// Largest dictionary message; a larger dictionary goes out in parts.
    pub max_fragment_size: usize,
    /// Nanoseconds that a post may be unanswered before the poster gets a nak.
    pub post_timeout: u64,
    /// How long a client may be connected without a login; 0 for any time.
    pub login_timeout: u64,
    /// Nanoseconds between two measurements of the round trip to a client whose login offers it; 0 for none.
    pub round_trip_interval: u64,
    /// Posts that one client may have unanswered; further ones get a nak. 0 for any number.
    pub max_posts_per_client: u32,
    /// Nanoseconds that an image may be on its way before those who want more than it holds hear why they wait.
    pub request_timeout: u64,
    /// Nanoseconds before an item that was refused or closed for recovery is asked for again; doubled each time.
    pub recovery_delay: u64,
    /// Largest such pause, in nanoseconds.
    pub recovery_delay_max: u64,
    /// Nanoseconds between the heartbeats sent to a Source Distributor; 0 for none (same process).
    pub heartbeat_interval: u64,
    /// Nobody waits for this P2PS, one of very many: it sends a heartbeat each [`crate::stream::UNPACED_HEARTBEATS`] such intervals.
    pub is_unpaced: bool,
    /// Bytes of a Source Distributor's stream after which it is told how far this P2PS has read, beside the heartbeats; 0 for
    /// never. Less than half of its `hub_distributor::Config::window`.
    pub report_bytes: usize,
    /// Nanoseconds of silence after which a Source Distributor counts as lost; 0 for never (same process).
    pub source_timeout: u64,
    /// Source Distributors in the order in which they are asked, by the names that [`super::P2ps::name_source`] tells; others come after
    /// these, in the order in which they were seen. Empty: all in that order, and items stay where they are.
    pub source_order: Vec<String>,
    /// Nanoseconds for which the first Source Distributor of a `source_order` has to have had a service again before its items go back
    /// there; 0 leaves them where they are.
    pub source_failback: u64,
    /// Names of Source Distributors that stand by for each other, two in each list, or more: what is open at one is open at another of
    /// them, too, which takes over at once. A name stands in one list at most.
    pub source_pairs: Vec<Vec<String>>,
    /// Source Distributors that stand by for each other number the updates of an item alike, so that a takeover can go on with the next one.
    pub sequence_numbers: bool,
    /// Nanoseconds that a Source Distributor may take to say what lost messages were about, before all of its items are
    /// asked for anew.
    pub gap_timeout: u64,
    /// Items of one Source Distributor: it numbers them densely, so a handle from here on is nobody's, and four bytes each are kept.
    pub max_handles: u32,
    /// Bytes of updates held for images that come by another way than the updates; beyond, an image is asked for again.
    pub hold_bytes: usize,
    /// Beginnings of the texts of statuses that say that a service is down or not there.
    pub status_texts: StatusTexts,
    /// Key of the tables whose keys clients choose.
    pub hash_seed: HashSeed,
    /// Tells this P2PS from all others, in every life of it, so that a Source Distributor knows it again; 0 for none.
    pub key: u64,
    /// Bytes of payload in one part of an image that comes out of the cache.
    pub image_part: usize,
    /// Which items are cached here, so that who comes later gets its image from memory; none unless said.
    pub cache: crate::cache::rules::CacheRules,
    /// How large held pages are.
    pub page_sizes: crate::cache::rules::PageSizes,
    /// Filters that keep parts of services from all who watch; nothing unless said.
    pub filters: crate::filter::rules::Filters,
    /// Records of chains that are open for a client behind the first ones, at most; a record has up to 14 members.
    pub chain_records: usize,
    /// Events that operators are told of beside those that they always are.
    pub notices: Notices,
    /// Services whose headlines have their permission codes in a field (`newsServiceItemPairList`), by name.
    pub headlines: BTreeMap<String, Arc<HeadlineRule>>,
    /// Settings of the permissions; off unless said. Rights come later ([`super::P2ps::set_rights`]).
    pub permissions: permissions::Settings,
    /// Field and enumeration dictionary offered for every service; it goes before what providers offer. `None`: what
    /// providers offer, its gaps filled by the built-in one.
    pub dictionary: Option<Arc<rwf::dictionary::Dictionary>>,
}

/// The largest id of a service. Those above are left to whoever needs some that are no service's: JSON clients name services that there are not.
pub(crate) const MAX_SERVICE_ID: u16 = 65_000;

const SECOND: u64 = 1_000_000_000;

/// The number of a service, or that of all others; 0 if there is none.
fn of_service(numbers: &BTreeMap<String, u32>, service: &str) -> u32 {
    numbers.get(service).or_else(|| numbers.get("")).copied().unwrap_or(0)
}

/// Whether the application that logs in is in a list of ids.
fn is_in(ids: &[String], request: &login::Request) -> bool {
    let id = request.attributes.application_id.as_ref();
    !ids.is_empty() && id.is_some_and(|id| ids.contains(id))
}

impl Config {
    /// Whether clients see a service of this name.
    pub(crate) fn serves(&self, service: &str) -> bool {
        let is_in = |list: &[String]| list.iter().any(|name| name == service);
        (self.service_list.is_empty() || is_in(&self.service_list)) && !is_in(&self.blocked_service_list)
    }

    /// The service groups that the directories of a login do not show, by their places in `service_groups`.
    pub(crate) fn groups_hidden_from(&self, request: &login::Request) -> Box<[u16]> {
        let Some(id) = request.attributes.application_id.as_ref() else { return Box::default() };
        let hides = |group: &String| {
            self.disable_service_groups.iter().any(|entry| match entry.rsplit_once(':') {
                Some((of, known)) => of == group && known == id,
                None => entry == id,
            })
        };
        (0..).zip(&self.service_groups).filter(|(_, group)| hides(group)).map(|(place, _)| place).collect()
    }

    /// How many items may stay open that nobody watches.
    pub(crate) fn most_unwatched(&self) -> usize {
        if self.max_unwatched == 0 { usize::MAX } else { self.max_unwatched as usize }
    }

    /// The limit of a service's open items; 0 for any number.
    pub(crate) fn item_limit_of(&self, service: &str) -> u32 {
        of_service(&self.service_item_limits, service)
    }

    /// The limit of a service's unanswered requests; 0 for any number.
    pub(crate) fn open_window_of(&self, service: &str) -> u32 {
        of_service(&self.service_open_windows, service)
    }

    /// The policy of a login: who recovers its streams, and what it is shown meanwhile.
    pub(crate) fn policy_of(&self, request: &login::Request) -> Recovery {
        let asked = request.attributes.recovery();
        Recovery { single_open: asked.single_open && !is_in(&self.disable_single_open, request), ..asked }
    }

    /// Whether some Source Distributors stand by for others.
    pub(crate) fn has_hot_standby(&self) -> bool {
        !self.source_pairs.is_empty()
    }

    pub(crate) fn rank_of(&self, name: &str) -> usize {
        self.source_order.iter().position(|known| known == name).unwrap_or(usize::MAX)
    }

    pub(crate) fn pair_of_name(&self, name: &str) -> Option<usize> {
        self.source_pairs.iter().position(|pair| pair.iter().any(|known| known == name))
    }
}

/// Values of one service; where one is `None`, that of the [`Config`] counts, which has the same name and says what it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceConfig {
    /// [`Config::post_timeout`] of this service.
    pub post_timeout: Option<u64>,
    /// [`Config::recovery_delay_max`] of this service.
    pub recovery_delay_max: Option<u64>,
    /// [`Config::discourage_on_outage`] of this service.
    pub discourage_on_outage: Option<bool>,
    /// [`Notices::refused_opens`] of this service.
    pub refused_opens: Option<bool>,
}

/// Events that operators are told of beside those that they always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Notices {
    /// States of items that are not good, as those who watch hear of them (`logItemError`).
    pub item_errors: bool,
    /// Items that nobody has had, and that are closed for good (`logNonRecoverableOpens`).
    pub refused_opens: bool,
    /// P2PSs of the hub that come and go (`logDiscoveryEvents`).
    pub servers: bool,
}

impl Config {
    /// Whether operators are told of opens of a service that are refused for good.
    pub(crate) fn tells_refused_opens(&self, service: &str) -> bool {
        self.services.get(service).and_then(|own| own.refused_opens).unwrap_or(self.notices.refused_opens)
    }

    /// How long a post to a service may be unanswered.
    pub(crate) fn post_timeout_of(&self, service: &str) -> u64 {
        self.services.get(service).and_then(|own| own.post_timeout).unwrap_or(self.post_timeout)
    }

    /// The longest that a post to any service may be unanswered.
    pub(crate) fn longest_post_timeout(&self) -> u64 {
        self.services.values().filter_map(|own| own.post_timeout).fold(self.post_timeout, u64::max)
    }

    /// The longest pause before an item of a service is asked for again.
    pub(crate) fn recovery_delay_max_of(&self, service: &str) -> u64 {
        self.services.get(service).and_then(|own| own.recovery_delay_max).unwrap_or(self.recovery_delay_max)
    }

    /// Whether the directory says of a service that is down that it takes no requests.
    pub(crate) fn discourages_on_outage(&self, service: &str) -> bool {
        self.services.get(service).and_then(|own| own.discourage_on_outage).unwrap_or(self.discourage_on_outage)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            incarnation: 1,
            host_name: "quoteway".to_owned(),
            service_ids: ServiceIds::default(),
            service_list: Vec::new(),
            blocked_service_list: Vec::new(),
            disable_single_open: Vec::new(),
            disable_service_groups: Vec::new(),
            service_groups: Vec::new(),
            services: BTreeMap::new(),
            support_pause_resume: true,
            discourage_on_outage: false,
            support_warm_standby: true,
            connections: Connections::default(),
            max_mounts_per_user: 0,
            item_limit: 0,
            aggregate_item_limit: 0,
            total_item_limit: 0,
            service_item_limits: BTreeMap::new(),
            load_percents: super::Percents::default(),
            load_factor_interval: 0,
            load_scale: 1,
            mounts_when_full: 0,
            open_queue: super::QueueMarks::default(),
            blocked: super::BlockedList::default(),
            max_views_per_item: 1_000,
            max_priority_class: u8::MAX,
            default_priority_class: 1,
            unwatched_time: 0,
            max_unwatched: 100_000,
            open_window: 5_000,
            service_open_windows: BTreeMap::new(),
            open_window_for_polls: 80,
            opens_per_turn: 100,
            work_per_turn: 1_000,
            egress: super::egress::Limits::default(),
            conflation: super::conflation::Settings::default(),
            max_fragment_size: 6_000,
            post_timeout: 15 * SECOND,
            login_timeout: 0,
            round_trip_interval: 0,
            max_posts_per_client: 10_000,
            request_timeout: 15 * SECOND,
            recovery_delay: SECOND,
            recovery_delay_max: 60 * SECOND,
            heartbeat_interval: 0,
            is_unpaced: false,
            report_bytes: 0,
            source_timeout: 0,
            source_order: Vec::new(),
            source_failback: 0,
            source_pairs: Vec::new(),
            sequence_numbers: false,
            gap_timeout: 5 * SECOND,
            max_handles: 10_000_000,
            hold_bytes: 64 << 20,
            status_texts: StatusTexts::default(),
            hash_seed: HashSeed::default(),
            key: 0,
            image_part: 6_000,
            cache: crate::cache::rules::CacheRules::default(),
            page_sizes: crate::cache::rules::PageSizes::default(),
            filters: crate::filter::rules::Filters::default(),
            chain_records: 10_000,
            notices: Notices::default(),
            headlines: BTreeMap::new(),
            permissions: permissions::Settings::default(),
            dictionary: None,
        }
    }
}

/// Ids of services by name, each given once (RMDS `serviceId`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceIds(BTreeMap<String, u16>);

/// Why a service cannot have an id.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceIdError {
    /// 0, or above the largest.
    Range(u16),
    /// Another service has it: its name.
    Taken(String),
}

impl fmt::Display for ServiceIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(id) => write!(f, "{id} is no id of a service: 1 to {MAX_SERVICE_ID}"),
            Self::Taken(name) => write!(f, "service {name} has this id"),
        }
    }
}

impl std::error::Error for ServiceIdError {}

impl ServiceIds {
    /// None: ids go by the order in which services come.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Gives an id to a service, instead of the one that it had.
    ///
    /// # Errors
    /// The id is out of range, or another service's.
    pub fn give(&mut self, name: &str, id: u16) -> Result<(), ServiceIdError> {
        if !(1..=MAX_SERVICE_ID).contains(&id) {
            return Err(ServiceIdError::Range(id));
        }
        if let Some((other, _)) = self.0.iter().find(|&(other, &taken)| taken == id && other != name) {
            return Err(ServiceIdError::Taken(other.clone()));
        }
        self.0.insert(name.to_owned(), id);
        Ok(())
    }

    /// Names and ids, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u16)> {
        self.0.iter().map(|(name, &id)| (name.as_str(), id))
    }
}

/// The servers of a site, as clients that ask are told of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connections {
    /// Names or addresses with their ports, most wanted first. Without any those of the hub count.
    pub servers: Vec<(String, u16)>,
    /// This P2PS tells the others of its hub where consumers reach it, and its clients of them.
    pub of_hub: bool,
    /// How many connections a client is to hold beside its first.
    pub standby_servers: u16,
    /// Which server a client finds first.
    pub order: ServerOrder,
}

/// Which server of a list a client finds first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServerOrder {
    /// The first one: the others are for its loss.
    #[default]
    List,
    /// Another one for each login among those that are equally good, and the others behind it in turn: clients spread over all.
    Spread,
}
