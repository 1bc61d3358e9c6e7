//! Configuration of a Source Distributor.

use super::ids::Origin;
use crate::cache::rules::NamePattern;
use crate::conflation;
use crate::hash_seed::HashSeed;
use crate::item::ItemKey;
use crate::status_texts::StatusTexts;
use hub_content::headlines::HeadlineRule;
use rwf::Qos;
use rwf::msg::Priority;
use rwf::rdm::directory::{Part, Service as Entry};
use std::collections::BTreeMap;
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;

/// How a provider is chosen when several offer the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Balance {
    /// The first that can take the item, in the order of the routes; the others stand by.
    First,
    /// As `First`; and each item is asked for at the next provider, too, which takes it over when the first is lost.
    Hot,
    /// The one with the lowest cost, then with the lowest load factor, then with the fewest items.
    #[default]
    Load,
}

impl Balance {
    /// Whether items are open at two providers.
    pub(super) const fn is_hot(self) -> bool {
        matches!(self, Self::Hot)
    }

    /// Whether one provider is asked, and the others stand by.
    pub(super) const fn is_ordered(self) -> bool {
        matches!(self, Self::First | Self::Hot)
    }
}

/// When a provider that is connected counts as one that sends no data. Times are nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interruption {
    /// Silence of a service with open items after which it is interrupted there (`interruptionDuration`).
    pub duration: u64,
    /// How long the service has to have ticked there before, without such a silence (`trafficWindow`).
    pub traffic_window: u64,
}

/// One name over several services of interactive providers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceGroup {
    /// The name: a service to P2PSs and their clients.
    pub name: String,
    /// Names of the services, the one that is asked first in front.
    pub members: Vec<String>,
}

/// Options of the sessions of one route.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RouteConfig {
    /// User name of the login; empty for that of all.
    pub user_name: String,
    /// The operators' name of the provider beside its address; empty for nothing (`serverId`).
    pub server_id: String,
    /// Names of the services to take from the provider; empty for all.
    pub services: Vec<String>,
    /// Names that services have at the provider, by those that they have here (`appServiceName`).
    pub named_there: BTreeMap<String, String>,
    /// Priority class of all requests to the provider; 0 for that of each (`priorityClassValue`).
    pub priority_class: u8,
    /// Times which the count of their priorities is taken, where it is not 0 (`priorityCountMultiplier`).
    pub priority_count_multiplier: u16,
    /// Names of services that are not taken from it (`blockedServerList`).
    pub blocked_services: Vec<String>,
    /// Names of communication lines by which the provider is reached: its services say whether they are up (`commLinks`).
    pub comm_links: Vec<String>,
    /// With [`Balance::Load`]: a provider of a lower cost is asked before those of a higher one, whatever their load (`serverCost`).
    pub server_cost: u32,
    /// Names of the items that the provider has; empty for all (`serverPartitionList`).
    pub partitions: Vec<NamePattern>,
    /// Names of items that it does not have all the same (`serverPartitionNegationList`).
    pub not_partitions: Vec<NamePattern>,
    /// Items that may be open at the provider at a time, of each of its services, where it states no lower limit (`maxCache`); 0 for any number.
    pub max_items: u32,
    /// The route's services are watched for interruptions of their data; not if `None`.
    pub interruption: Option<Interruption>,
}

impl RouteConfig {
    /// Has services that the provider calls otherwise called as they are here. What it has by such a name itself stays without one, and
    /// so is not taken.
    pub(super) fn rename(&self, entries: &mut [Entry]) {
        if self.named_there.is_empty() {
            return;
        }
        for entry in entries {
            let Some(Part::Set(info) | Part::Update(info)) = &mut entry.info else { continue };
            match self.named_there.iter().find(|(_, there)| **there == info.name) {
                Some((here, _)) => info.name.clone_from(here),
                None if self.named_there.contains_key(&info.name) => entry.info = None,
                None => {}
            }
        }
    }

    /// The priority of a request to the provider, of that which its P2PSs want.
    pub(super) fn priority(&self, wanted: Priority) -> Priority {
        let class = if self.priority_class > 0 { self.priority_class } else { wanted.class };
        let count = u32::from(wanted.count) * u32::from(self.priority_count_multiplier.max(1));
        Priority { class, count: u16::try_from(count).unwrap_or(u16::MAX) }
    }

    /// Whether the provider has the item with this key, in canonical bytes.
    pub(super) fn has_item_of(&self, key: &[u8]) -> bool {
        if self.partitions.is_empty() && self.not_partitions.is_empty() {
            return true;
        }
        let Some(key) = ItemKey::read(key) else {
            hub_items::fault!("the key of an item is not canonical: {key:?}");
            return false;
        };
        let name = key.name.unwrap_or_default();
        let is_in = |list: &[NamePattern]| list.iter().any(|pattern| pattern.matches(name));
        (self.partitions.is_empty() || is_in(&self.partitions)) && !is_in(&self.not_partitions)
    }
}

/// Settings of a [`super::SourceDistributor`]. Times are nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// User name of the logins to providers.
    pub user_name: String,
    /// By the number of [`super::Origin::Route`]; a route that is not here has nothing special.
    pub routes: Vec<RouteConfig>,
    /// `ApplicationId` of the logins to providers.
    pub application_id: String,
    /// `ApplicationName` in logins, both to providers and back to non-interactive ones.
    pub application_name: String,
    /// `Position` of the logins to providers: `address/host`.
    pub position: String,
    /// How a provider is chosen.
    pub balance: Balance,
    /// With [`Balance::Hot`]: providers of one service number the updates of an item alike, so that a takeover needs no image.
    pub sequence_numbers: bool,
    /// With [`Balance::Hot`]: the standby takes over items that their provider says Suspect of, and that it has good itself.
    pub takeover_on_suspect: bool,
    /// With [`Balance::Hot`]: server ids of routes that stand by for each other, two in each list, or more; for others nobody stands by. Empty: all
    /// that have the service stand by for each other.
    pub standby_pairs: Vec<Vec<String>>,
    /// Qualities of services whose providers state none, by name; that of the empty name is of all others. Without one such a service is
    /// real time, tick by tick.
    pub service_qos: BTreeMap<String, Qos>,
    /// Whether providers of a service take requests for snapshots, by its name; that of the empty name is of all others, and without one
    /// they do (`supportsSnapshots`).
    pub supports_snapshots: BTreeMap<String, bool>,
    /// Whether snapshots can be had beyond the `OpenLimit` of a service's providers, likewise; without one what each of them says
    /// (`supportsOutofBandSnapshots`).
    pub out_of_band_snapshots: BTreeMap<String, bool>,
    /// What is said of single services, by name: for these it counts in place of what is said here for all.
    pub services: BTreeMap<String, crate::ServiceConfig>,
    /// Service groups, each with a name of its own that is no member's.
    pub service_groups: Vec<ServiceGroup>,
    /// The name of this site among those that serve each other, the same for all Source Distributors of a hub. Services say
    /// through which sites they have come, and none is taken that has come through this one. Empty: nothing is said, and all are taken.
    pub site: String,
    /// With [`Balance::First`] and [`Balance::Hot`]: how long a provider has to have a service again before the items of later ones go back to it; 0 leaves
    /// them where they are.
    pub failback: u64,
    /// How long a service is kept that no provider offers any more, its items Suspect, before it is deleted and they are closed; 0 for ever
    /// (`serviceRestartTime`). Services of non-interactive providers are not concerned.
    pub restart: u64,
    /// How long an item stays open upstream when nobody watches it any more; 0 closes it at once
    /// (`ageUnwatchedItemTime`).
    pub age_unwatched: u64,
    /// How long an image is held that no provider publishes any more and nobody watches, and a service is known that nobody offers and
    /// has no item; 0 for ever.
    pub age_unpublished: u64,
    /// How long an item may be asked for in vain after a non-interactive provider has offered its service, before it counts as one that is
    /// not published, nanoseconds; up to [`crate::PATIENCES_MAX`] times that while others go on to be published. 0 refuses it at once.
    pub publication_patience: u64,
    /// How long a provider may take to answer login and directory requests before its session is closed.
    pub login_timeout: u64,
    /// How long a provider may take to answer an item request before it is given up and retried.
    pub request_timeout: u64,
    /// Pause before an item that failed is asked for again; doubles with each failure.
    pub retry_interval: u64,
    /// Longest such pause.
    pub retry_max_interval: u64,
    /// How often an item is asked for again in a row without an answer before it is given up; 0 for ever (`retryLimit`).
    pub retry_limit: u32,
    /// Items that clients have had, and that their provider closes for good, are asked for again as if it had closed them to be recovered
    /// (`recoverItemsOnClose`).
    pub recover_on_close: bool,
    /// Items that their provider closes for good before anybody has had them are asked for again as if it had closed them to be recovered
    /// (`nonRecoverablePolling`).
    pub poll_refused: bool,
    /// A provider whose `LoadFactor` for a service is above this is asked for no more items of it; 0 for none (`maxLoadLevel`).
    pub max_load: u32,
    /// Items that nobody watches, and that are open at a provider still, count where the provider with the fewest items is asked
    /// (`includeUnwatchedItemsInLoad`).
    pub counts_unwatched: bool,
    /// How long a provider that is connected has to have had a service up before it is asked for items of it; 0 asks at once (`recognitionTime`).
    pub recognition: u64,
    /// How long a provider may leave an item Suspect that it has open before an image is asked for; 0 for ever (`staleRecoveryRetryTime`).
    pub stale_recovery_retry: u64,
    /// Requests have the priorities that P2PSs want (`forwardItemPriorityToSrcApp`); else they say none.
    pub forward_priority: bool,
    /// How long a provider may take to acknowledge a post.
    pub post_timeout: u64,
    /// How long posts may wait for others, so that they go to their provider together, nanoseconds; 0 sends each at once (`insertFlushInterval`).
    pub post_flush: u64,
    /// Unanswered item requests allowed at a provider that does not state an `OpenWindow`.
    pub open_window: u32,
    /// Item requests sent from one [`super::SourceDistributor::on_timer`] to the next.
    pub opens_per_turn: u32,
    /// Items looked at from one [`super::SourceDistributor::on_timer`] to the next because their service is down at their provider.
    pub work_per_turn: u32,
    /// Where providers are at their limits, items of a higher priority class take the places of those of a lower one.
    pub preemption: bool,
    /// How long an item that has given its place to another waits before it is asked for again.
    pub preemption_retry: u64,
    /// Names of items that give their places to nobody.
    pub locked_items: Vec<NamePattern>,
    /// Priorities that items have whoever asks for them; only [`super::SourceDistributor::set_item_priorities`] changes them later.
    pub item_priorities: crate::ItemPriorities,
    /// Items held at once, all services together; further opens are refused.
    pub max_items: u32,
    /// Whether to fetch the dictionaries that providers offer.
    pub download_dictionaries: bool,
    /// How long a service that is new waits for the dictionaries that its provider offers, before consumers see it.
    pub dictionary_timeout: u64,
    /// Bytes of dictionaries kept for a P2PS that comes later.
    pub max_dictionary_bytes: usize,
    /// Posts waiting for an ack at once.
    pub max_pending_posts: usize,
    /// Bounds on what clients contribute by posts.
    pub contributions: crate::ContributionRules,
    /// Bytes of payload in one part of an image that is built from the cache.
    pub image_part: usize,
    /// Which items of interactive providers are cached, so that further images need no word to the provider; none unless said.
    pub cache: crate::cache::rules::CacheRules,
    /// Which images of non-interactive services outlive the process, and which expire; none unless said.
    pub records: crate::cache::rules::RecordRules,
    /// Filters of services; everything passes unless said.
    pub filters: crate::filter::rules::Filters,
    /// Services whose headlines have their permission codes in a field (`headlinePermissioning`), by name.
    pub headlines: BTreeMap<String, Arc<HeadlineRule>>,
    /// Services whose updates are conflated here, before they go to the hub: those with an interval, and their exceptions. What is offered to
    /// clients beside that, and conflation just in time, is for P2PSs.
    pub conflation: conflation::Settings,
    /// Fields that ripple, and so are merged with as many of their last values as it takes; none without a dictionary.
    pub ripples: Arc<conflation::merge::Ripples>,
    /// How large held pages are.
    pub page_sizes: crate::cache::rules::PageSizes,
    /// Pause between heartbeats on the hub stream; 0 sends none (both sides in one process).
    pub heartbeat_interval: u64,
    /// Silence after which a P2PS counts as gone; 0 never.
    pub p2ps_timeout: u64,
    /// How long what a P2PS had open stays open when it is gone, so that it finds it when it is back; 0 closes it at once.
    pub lease: u64,
    /// Bytes of the stream of which is kept what they were about, to tell a P2PS what it has lost; 0 keeps nothing (both sides in one process).
    pub history_bytes: usize,
    /// Whether an image that only one P2PS waits for goes to that one alone ([`super::SourceDistributor::point_to_point_blocks`];
    /// `usePointToPointData`) and not by the stream that all read.
    pub point_to_point: bool,
    /// Messages by which a P2PS may be behind with reading the stream before it is declared lost; 0 for any number.
    pub max_lag: u64,
    /// Bytes of the stream that may be on their way to a P2PS before [`super::SourceDistributor::must_wait`] says so; 0 for any
    /// number.
    pub window: u64,
    /// How long a P2PS is waited for that does not move.
    pub patience: u64,
    /// Requests that a P2PS may send between two heartbeats before it is declared lost; 0 for any number.
    pub max_requests: u32,
    /// Beginnings of the texts of statuses that say that a service is down.
    pub status_texts: StatusTexts,
    /// Key of the tables whose keys providers and clients choose.
    pub hash_seed: HashSeed,
}

impl Config {
    /// The quality of a service whose provider states none, if one is said.
    pub(super) fn qos_of(&self, service: &str) -> Option<Qos> {
        self.service_qos.get(service).or_else(|| self.service_qos.get("")).copied()
    }

    /// Whether providers of a service take requests for snapshots.
    pub(super) fn takes_snapshots(&self, service: &str) -> bool {
        self.supports_snapshots.get(service).or_else(|| self.supports_snapshots.get("")).copied().unwrap_or(true)
    }

    /// Whether snapshots of a service are beyond the limit of its providers, if that is said.
    pub(super) fn snapshots_out_of_band(&self, service: &str) -> Option<bool> {
        let said = self.out_of_band_snapshots.get(service).or_else(|| self.out_of_band_snapshots.get("")).copied();
        // A stream takes a place at the provider.
        if self.takes_snapshots(service) { said } else { Some(false) }
    }

    /// The name of a route's provider beside its address; empty for nothing.
    pub(super) fn server_id(&self, origin: Origin) -> &str {
        self.route(origin).map_or("", |route| route.server_id.as_str())
    }

    /// Whether one of two providers may stand by for the other.
    pub(super) fn are_a_pair(&self, one: Origin, other: Origin) -> bool {
        let (one, other) = (self.server_id(one), self.server_id(other));
        let has = |pair: &Vec<String>, id: &str| !id.is_empty() && pair.iter().any(|of| of == id);
        self.standby_pairs.is_empty() || self.standby_pairs.iter().any(|pair| has(pair, one) && has(pair, other))
    }

    /// Has services of a provider called as they are here, where the route of its session says so.
    pub(super) fn rename(&self, origin: Origin, services: &mut [Entry]) {
        if let Some(route) = self.route(origin) {
            route.rename(services);
        }
    }

    /// The options of the route of a session.
    pub(super) fn route(&self, origin: Origin) -> Option<&RouteConfig> {
        match origin {
            Origin::Route(route) => self.routes.get(usize::from(route)),
            Origin::NonInteractive => None,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            user_name: "quoteway".into(),
            routes: Vec::new(),
            application_id: "256".into(),
            application_name: "Quoteway".into(),
            position: "127.0.0.1/net".into(),
            balance: Balance::default(),
            sequence_numbers: false,
            takeover_on_suspect: true,
            standby_pairs: Vec::new(),
            service_qos: BTreeMap::new(),
            supports_snapshots: BTreeMap::new(),
            out_of_band_snapshots: BTreeMap::new(),
            services: BTreeMap::new(),
            service_groups: Vec::new(),
            site: String::new(),
            failback: 0,
            restart: 0,
            age_unwatched: 0,
            age_unpublished: 0,
            publication_patience: 0,
            login_timeout: 45 * SECOND,
            request_timeout: 15 * SECOND,
            retry_interval: SECOND,
            retry_max_interval: 60 * SECOND,
            retry_limit: 0,
            recover_on_close: false,
            poll_refused: false,
            max_load: 0,
            counts_unwatched: true,
            recognition: 0,
            stale_recovery_retry: 0,
            forward_priority: true,
            post_timeout: 15 * SECOND,
            post_flush: 0,
            open_window: 5_000,
            opens_per_turn: 200,
            work_per_turn: 1_000,
            preemption: false,
            preemption_retry: 180 * SECOND,
            locked_items: Vec::new(),
            item_priorities: crate::ItemPriorities::new(),
            max_items: 10_000_000,
            download_dictionaries: true,
            dictionary_timeout: 3 * SECOND,
            max_dictionary_bytes: 64 << 20,
            max_pending_posts: 100_000,
            contributions: crate::ContributionRules::default(),
            image_part: 32_000,
            cache: crate::cache::rules::CacheRules::default(),
            records: crate::cache::rules::RecordRules::default(),
            filters: crate::filter::rules::Filters::default(),
            headlines: BTreeMap::new(),
            conflation: conflation::Settings::default(),
            ripples: Arc::default(),
            page_sizes: crate::cache::rules::PageSizes::default(),
            heartbeat_interval: 0,
            p2ps_timeout: 0,
            lease: 0,
            history_bytes: 0,
            point_to_point: false,
            max_lag: 0,
            window: 0,
            patience: 500_000_000,
            max_requests: 0,
            status_texts: StatusTexts::default(),
            hash_seed: HashSeed::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Part, RouteConfig};
    use rwf::rdm::directory::{Action, Info};

    #[test]
    fn services_are_called_as_they_are_here() {
        let entry = |id: u16, name: &str| {
            let mut entry = Entry::new(id, Action::Add);
            entry.info = Some(Part::Set(Info { name: name.to_owned(), ..Info::default() }));
            entry
        };
        let mut entries = vec![entry(1, "THEIRS"), entry(2, "FEED"), entry(3, "OTHER"), Entry::new(1, Action::Update)];
        RouteConfig::default().rename(&mut entries);
        assert_eq!(entries[0].name(), Some("THEIRS"));
        let route =
            RouteConfig { named_there: [("FEED".to_owned(), "THEIRS".to_owned())].into(), ..RouteConfig::default() };
        route.rename(&mut entries);
        let names: Vec<_> = entries.iter().map(Entry::name).collect();
        assert_eq!(names, [Some("FEED"), None, Some("OTHER"), None]);
    }
}
