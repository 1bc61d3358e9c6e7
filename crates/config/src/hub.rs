//! The configuration as the hub's two sides take it.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::{Arc, OnceLock};

use hub::cache::rules::{CacheRules, Domains, RecordRules, ServiceRule, ServiceSet};
use hub::conflation::merge::Ripples;
use hub::filter::rules::FieldSet;
use hub::hash_seed::HashSeed;
use hub::status_texts::StatusTexts;
use hub::{distributor, p2ps};
use rwf::dictionary::Dictionary;

use super::blocked::blocked_list;
use super::by_service;
use super::headlines::{headlines, headlines_of_p2ps};
use super::patterns::patterns;
use super::service_qos::service_qos;
use super::{
    CacheLocation, Config, HubTransport, ProviderChoice, Route, Service, conflation, dictionary, filters, service,
};

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;

/// Room for RWF headers around the payload of a dictionary part.
const DICTIONARY_HEADROOM: usize = 144;

/// Settings for the Source Distributor.
pub fn distributor_config(config: &Config) -> distributor::Config {
    let c = &config.source_distributor;
    distributor::Config {
        user_name: c.user_name.clone(),
        routes: config.dialled_routes().map(|route| route_config(config, route)).collect(),
        application_id: c.application_id.to_string(),
        balance: match c.provider_choice {
            ProviderChoice::Load => distributor::Balance::Load,
            ProviderChoice::First => distributor::Balance::First,
            ProviderChoice::Hot => distributor::Balance::Hot,
        },
        sequence_numbers: c.provides_sequence_numbers,
        takeover_on_suspect: c.takeover_on_suspect,
        standby_pairs: c.active_standby_pairs.iter().map(|pair| names_of_pair(pair)).collect(),
        service_qos: service_qos(c),
        // Entries that are neither are a fault of the file (`rules`).
        supports_snapshots: by_service::flags(&c.supports_snapshots).unwrap_or_default(),
        out_of_band_snapshots: by_service::flags(&c.supports_out_of_band_snapshots).unwrap_or_default(),
        services: service::of_distributor(config),
        service_groups: c.service_group_list.0.clone(),
        site: site(&c.site),
        failback: if c.auto_failback { u64::from(c.failback_s) * SECOND } else { 0 },
        restart: u64::from(c.service_restart_time_s) * SECOND,
        age_unwatched: u64::from(c.age_unwatched_item_time_s) * SECOND,
        age_unpublished: u64::from(c.age_unpublished_s) * SECOND,
        publication_patience: u64::from(c.publication_patience_ms) * 1_000_000,
        preemption: c.preemption,
        preemption_retry: u64::from(c.preemption_retry_s) * SECOND,
        locked_items: patterns(c.locked_item_list.iter().map(String::as_str)),
        request_timeout: u64::from(c.request_timeout_s) * SECOND,
        retry_max_interval: u64::from(c.normal_retry_time_s.max(1)) * SECOND,
        retry_limit: c.retry_limit,
        recover_on_close: c.recover_items_on_close,
        poll_refused: c.non_recoverable_polling,
        max_load: c.max_load_level,
        counts_unwatched: c.include_unwatched_items_in_load,
        recognition: u64::from(c.recognition_time_s) * SECOND,
        forward_priority: c.forward_item_priority_to_src_app,
        stale_recovery_retry: u64::from(c.stale_recovery_retry_time_s) * SECOND,
        contributions: contributions(c),
        max_pending_posts: c.max_pending_out_insert as usize,
        post_timeout: u64::from(config.p2ps.post_timeout_s) * SECOND,
        post_flush: u64::from(c.insert_flush_interval_ms) * MILLISECOND,
        open_window: c.initial_open_limit,
        cache: distributor_cache(config),
        records: record_rules(c),
        filters: filters::of_distributor(config),
        conflation: conflation::settings_at_source(&config.source_conflation),
        ripples: ripples(config),
        headlines: headlines(c),
        page_sizes: c.page_sizes.0.clone(),
        status_texts: status_texts(config),
        hash_seed: hash_seed(),
        ..distributor::Config::default()
    }
}

/// The fields that ripple, where services are conflated at the Source Distributor.
fn ripples(config: &Config) -> Arc<Ripples> {
    let c = &config.source_conflation;
    if !c.ripple || c.update_aggregation.is_empty() {
        return Arc::default();
    }
    // A file that cannot be read ends the start elsewhere.
    let dictionary = dictionary(config).ok().flatten().unwrap_or_else(Dictionary::builtin);
    Arc::new(Ripples::of(&dictionary))
}

/// Fields that clients may contribute. Entries that say nothing are a fault of the file (`rules`).
fn contributions(c: &super::SourceDistributor) -> distributor::ContributionRules {
    let fields = |entry: &String| {
        let (service, what) = filters::parts(entry);
        Some((service.unwrap_or_default().to_owned(), FieldSet::new(filters::fields(what)?)))
    };
    distributor::ContributionRules {
        services: c.contrib_service_list.iter().cloned().collect(),
        fields: c.contrib_field_list.0.iter().filter_map(fields).collect(),
        exchange_fields: c.contrib_exchange_field_list.0.iter().filter_map(fields).collect(),
        rates: by_service::numbers(&c.contrib_max_update_rate).unwrap_or_default(),
        least_rates: by_service::numbers(&c.contrib_min_update_rate).unwrap_or_default(),
        templates: by_service::sets(&c.contrib_positive_template_id_list).unwrap_or_default(),
        levels: by_service::flags(&c.contrib_insert_rtl).unwrap_or_default(),
        not_templates: by_service::sets(&c.contrib_negative_template_id_list).unwrap_or_default(),
    }
}

/// The beginning of statuses' texts.
fn status_texts(config: &Config) -> StatusTexts {
    if config.hub.rtds_status_texts { StatusTexts::Rtds } else { StatusTexts::Own }
}

/// The name of this site. A site that was given none is this process alone.
fn site(given: &str) -> String {
    static OWN: OnceLock<String> = OnceLock::new();
    if !given.is_empty() {
        return given.to_owned();
    }
    let number = || RandomState::new().hash_one(0_u8) & 0xFFFF_FFFF;
    OWN.get_or_init(|| format!("{}-{:08x}", net::host::name(), number())).clone()
}

/// A key for hash tables that no peer can know: each `RandomState` is keyed by the operating system.
fn hash_seed() -> HashSeed {
    let draw = || RandomState::new().hash_one(0_u8);
    HashSeed::new(draw(), draw())
}

/// Settings that are special to a route.
pub fn route_config(config: &Config, route: &Route) -> distributor::RouteConfig {
    distributor::RouteConfig {
        user_name: route.user_name.clone(),
        server_id: route.server_id.clone(),
        services: route.service_list.clone(),
        // Entries that stand for no service are a fault of the file (`rules`).
        named_there: names_there(route).unwrap_or_default(),
        blocked_services: blocked_services(config, &route.server_id),
        comm_links: route.comm_links.clone(),
        server_cost: route.server_cost,
        priority_class: u8::try_from(route.priority_class_value).unwrap_or(u8::MAX),
        priority_count_multiplier: route.priority_count_multiplier,
        max_items: route.max_cache,
        partitions: patterns(route.server_partition_list.iter().map(String::as_str)),
        not_partitions: patterns(route.server_partition_negation_list.iter().map(String::as_str)),
        interruption: route.interruption_detection.then(|| distributor::Interruption {
            duration: u64::from(route.interruption_duration_ms) * MILLISECOND,
            traffic_window: u64::from(route.traffic_window_s) * SECOND,
        }),
    }
}

/// The names that services have at a provider, by those that they have here; `None` where an entry stands for no service. Without a
/// `service_list` an entry without HERE waits for one, which operators are told (`rules::idle_of_route`).
pub(super) fn names_there(route: &Route) -> Option<BTreeMap<String, String>> {
    let mut names = BTreeMap::new();
    for (at, entry) in route.app_service_name.iter().enumerate() {
        let (here, there) = match entry.split_once('=') {
            Some((here, there)) => (here.trim(), there.trim()),
            None if route.service_list.is_empty() => continue,
            None => (route.service_list.get(at)?.as_str(), entry.trim()),
        };
        let is_wanted = route.service_list.is_empty() || route.service_list.iter().any(|listed| listed == here);
        if here.is_empty()
            || there.is_empty()
            || !is_wanted
            || names.insert(here.to_owned(), there.to_owned()).is_some()
        {
            return None;
        }
    }
    Some(names)
}

/// The service to which a route's tunnel stream is opened, by its name at the provider; `None` leaves that to what the provider offers.
pub fn tunnel_service(route: &Route) -> Option<String> {
    let here = route.service_list.first()?;
    let there = names_there(route).unwrap_or_default();
    Some(there.get(here).unwrap_or(here).clone())
}

/// Services that are not taken from a server.
fn blocked_services(config: &Config, server_id: &str) -> Vec<String> {
    let entries = config.source_distributor.blocked_server_list.0.iter().map(|entry| filters::parts(entry));
    let blocked = entries.filter(|(_, ids)| !server_id.is_empty() && filters::words(ids).any(|id| id == server_id));
    blocked.filter_map(|(service, _)| service.map(str::to_owned)).collect()
}

/// Settings for a P2PS. `incarnation` is another one for each start and shard.
///
/// # Errors
/// A dictionary file cannot be read; the message names it and the line.
pub fn p2ps_config(config: &Config, incarnation: u32) -> io::Result<p2ps::Config> {
    let dictionary = dictionary(config)?.map(Arc::new);
    let blocked = blocked_list(config).map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))?;
    Ok(p2ps::Config { incarnation, dictionary, blocked, ..p2ps_limits(config) })
}

/// Settings for a P2PS but for its dictionary, its blocked items and the number of its life: nothing is read for them.
pub fn p2ps_limits(config: &Config) -> p2ps::Config {
    let c = &config.p2ps;
    p2ps::Config {
        egress: conflation::limits(&config.conflation, egress_limits(c)),
        conflation: conflation::settings(&config.conflation),
        service_ids: c.service_ids.0.clone(),
        service_list: c.service_list.clone(),
        blocked_service_list: c.blocked_service_list.iter().cloned().chain(hidden_groups(config)).collect(),
        services: service::of_p2ps(config),
        disable_single_open: c.disable_single_open_list.clone(),
        disable_service_groups: c.disable_service_group_app_ids.clone(),
        service_groups: config.source_distributor.service_group_list.0.iter().map(|group| group.name.clone()).collect(),
        recovery_delay_max: u64::from(config.source_distributor.normal_retry_time_s.max(1)) * SECOND,
        max_posts_per_client: c.max_posts_per_client,
        support_pause_resume: c.support_pause_resume,
        discourage_on_outage: c.discourage_requests_on_outage,
        support_warm_standby: c.support_warm_standby,
        connections: connections(c),
        load_factor_interval: u64::from(c.load_factor_interval_s) * SECOND,
        load_scale: c.scaling_factor,
        // Each egress shard has its part of the clients, and tells of itself.
        mounts_when_full: c.max_mounts.div_ceil(u32::from(c.writer_thread_count.max(1))),
        max_mounts_per_user: c.max_mounts_per_user,
        item_limit: c.item_limit,
        aggregate_item_limit: c.aggregate_item_limit,
        total_item_limit: c.total_item_limit,
        // Entries that are no numbers are a fault of the file (`rules`).
        service_item_limits: by_service::numbers(&c.service_item_limit).unwrap_or_default(),
        service_open_windows: by_service::numbers(&c.service_open_window).unwrap_or_default(),
        load_percents: p2ps::Percents { upper: c.limit_upper_percent, lower: c.limit_lower_percent },
        open_queue: p2ps::QueueMarks {
            burdened: c.open_queue_burdened,
            overloaded: c.open_queue_overloaded,
            hysteresis: c.open_queue_hysteresis,
        },
        max_views_per_item: c.max_views_per_item,
        max_priority_class: u8::try_from(c.max_priority_class).unwrap_or(u8::MAX),
        default_priority_class: u8::try_from(c.default_priority_class).unwrap_or(u8::MAX),
        unwatched_time: u64::from(c.consumer_age_unwatched_item_time_s) * SECOND,
        max_unwatched: c.max_unwatched_items,
        work_per_turn: c.work_per_turn,
        open_window: c.minimum_open_window,
        open_window_for_polls: c.open_window_for_poll_requests,
        max_fragment_size: (c.max_fragment_size as usize).saturating_sub(DICTIONARY_HEADROOM).max(100),
        post_timeout: u64::from(c.post_timeout_s) * SECOND,
        source_order: source_order(c),
        source_failback: u64::from(c.source_distributor_failback_s) * SECOND,
        source_pairs: c.source_distributor_pairs.iter().map(|pair| names_of_pair(pair)).collect(),
        sequence_numbers: c.source_distributor_sequence_numbers,
        login_timeout: u64::from(c.login_timeout_s) * SECOND,
        round_trip_interval: u64::from(c.round_trip_interval_s) * SECOND,
        status_texts: status_texts(config),
        hash_seed: hash_seed(),
        image_part: (c.max_fragment_size as usize).saturating_sub(DICTIONARY_HEADROOM).max(100),
        cache: p2ps_cache(config),
        headlines: headlines_of_p2ps(c),
        notices: p2ps::Notices {
            item_errors: c.log_item_error,
            refused_opens: c.log_non_recoverable_opens,
            servers: c.log_discovery_events,
        },
        filters: filters::of_p2ps(&config.filters),
        page_sizes: config.source_distributor.page_sizes.0.clone(),
        permissions: permission_settings(&config.permissions),
        ..p2ps::Config::default()
    }
}

/// Service groups that clients of this P2PS do not see.
fn hidden_groups(config: &Config) -> impl Iterator<Item = String> {
    let (all, shown) = (&config.source_distributor.service_group_list.0, &config.p2ps.service_group_list);
    let is_hidden = |name: &&String| !shown.is_empty() && !shown.contains(name);
    all.iter().map(|group| &group.name).filter(is_hidden).cloned()
}

/// The list of other servers for clients.
fn connections(c: &super::P2ps) -> p2ps::Connections {
    // Entries without a port that can be connected to are a fault of the file (`ports`).
    let server = |entry: &String| {
        let (host, port) = entry.rsplit_once(':')?;
        Some((host.trim_matches(['[', ']']).to_owned(), port.parse().ok()?))
    };
    p2ps::Connections {
        of_hub: c.enable_connect_config,
        servers: c.connection_list.iter().filter_map(server).collect(),
        standby_servers: c.connection_standby_servers,
        order: c.connection_order.0,
    }
}

/// Settings of a P2PS's cache.
fn p2ps_cache(config: &Config) -> CacheRules {
    let c = &config.p2ps;
    let domains = c.domains_cached.0.except(c.domains_not_cached.0);
    let own = |_: &Service| None;
    cache_rules(config, c.enable_cache, domains, &c.cached_services, c.max_cache_size, own)
}

/// Settings of the Source Distributor's cache of interactive providers.
fn distributor_cache(config: &Config) -> CacheRules {
    let c = &config.source_distributor;
    let domains = c.domains_cached.0.except(c.domains_not_cached.0);
    let enabled = c.cache_location == CacheLocation::Ssl;
    let own = |service: &Service| service.cache_location.map(|location| location == CacheLocation::Ssl);
    cache_rules(config, enabled, domains, &c.cached_services, c.max_cache_size, own)
}

/// `own` is whether a service says for itself that it is cached, or is not.
fn cache_rules(
    config: &Config,
    enabled: bool,
    domains: Domains,
    services: &[String],
    max_items: u32,
    own: impl Fn(&Service) -> Option<bool>,
) -> CacheRules {
    let not_items = |list: &[String]| patterns(list.iter().map(String::as_str));
    let rule = ServiceRule { enabled, domains, not_items: not_items(&config.source_distributor.non_caching_item_list) };
    let max_items = max_items as usize;
    let mut rules = if services.is_empty() {
        CacheRules { others: rule.clone(), max_items, ..CacheRules::default() }
    } else {
        let services = services.iter().map(|name| (name.clone(), rule.clone())).collect();
        CacheRules { services, max_items, ..CacheRules::default() }
    };
    for (name, said) in &config.services {
        let mut of_it = rules.services.get(name).unwrap_or(&rules.others).clone();
        of_it.domains = domains;
        of_it.enabled = own(said).unwrap_or(of_it.enabled);
        of_it.not_items = said.non_caching_item_list.as_deref().map_or_else(|| rule.not_items.clone(), not_items);
        rules.services.insert(name.clone(), of_it);
    }
    rules
}

/// Which images of non-interactive services outlive the process, and which expire.
fn record_rules(c: &super::SourceDistributor) -> RecordRules {
    let services = |wanted: bool, names: &[String]| match (wanted, names) {
        (false, _) => ServiceSet::None,
        (true, []) => ServiceSet::All,
        (true, names) => ServiceSet::Named(names.iter().cloned().collect()),
    };
    RecordRules {
        kept: services(c.support_persistent_cache, &c.persistent_cache_service_list),
        expiring: services(c.record_max_age_s > 0 || c.record_max_number > 0, &c.expiring_services),
        max_age: u64::from(c.record_max_age_s) * SECOND,
        max_number: c.record_max_number,
    }
}

fn permission_settings(c: &super::Permissions) -> permissions::Settings {
    permissions::Settings {
        mode: c.mode.0,
        absence: c.fail.0,
        disconnect_on_loss: c.disconnect_on_loss,
        audit_max: c.audit_max.max(1) as usize,
        locks_max: c.locks_max.max(1) as usize,
    }
}

/// What the Source Distributor is told when its P2PSs are other processes: it speaks when it has nothing to say, and gives
/// up those that are silent.
pub fn across_processes_distributor(config: &Config) -> distributor::Config {
    // On its own connection everything is for this P2PS alone.
    let has_stream = config.hub.transport != HubTransport::Tcp;
    let mut of_all = distributor_config(config);
    for (name, own) in &mut of_all.services {
        own.point_to_point = config.services[name].use_point_to_point_data.filter(|_| has_stream);
    }
    distributor::Config {
        heartbeat_interval: u64::from(config.hub.heartbeat_interval_ms) * MILLISECOND,
        max_items: config.hub.max_items,
        p2ps_timeout: u64::from(config.hub.peer_timeout_ms) * MILLISECOND,
        lease: u64::from(config.hub.lease_ms) * MILLISECOND,
        point_to_point: config.hub.use_point_to_point_data && has_stream,
        history_bytes: config.hub.history_bytes as usize,
        window: config.hub.window_bytes.into(),
        patience: u64::from(config.hub.patience_ms) * MILLISECOND,
        max_lag: config.hub.max_lag,
        max_requests: config.hub.max_requests,
        ..of_all
    }
}

/// Bytes of the data stream after which a P2PS says how far it has read it: a part of the smallest window.
const REPORT_BYTES: usize = 128 << 10;
/// What may wait for clients, in bytes: the parameters count buffers of a fragment each.
fn egress_limits(c: &super::P2ps) -> p2ps::egress::Limits {
    let buffer = c.max_fragment_size as usize;
    let max = c.max_output_buffers as usize * buffer;
    p2ps::egress::Limits {
        guaranteed: c.guaranteed_output_buffers as usize * buffer,
        max,
        pool: c.pool_size as usize * buffer,
        breach: max / 100 * c.output_threshold_breach as usize,
        ok: max / 100 * c.output_threshold_ok as usize,
        ..p2ps::egress::Limits::default()
    }
}

/// The smallest window of the data stream.
pub(super) const SMALLEST_WINDOW: u64 = 8 * REPORT_BYTES as u64;

/// What a P2PS is told when its Source Distributors are other processes, as [`across_processes_distributor`]. `key` is the same
/// in every life of this P2PS, and another one's is not.
///
/// # Errors
/// As [`p2ps_config`].
pub fn across_processes_p2ps(config: &Config, incarnation: u32, key: u64) -> io::Result<p2ps::Config> {
    Ok(p2ps::Config {
        heartbeat_interval: u64::from(config.hub.heartbeat_interval_ms) * MILLISECOND,
        is_unpaced: !config.hub.paces_providers,
        source_timeout: u64::from(config.hub.peer_timeout_ms) * MILLISECOND,
        gap_timeout: u64::from(config.hub.peer_timeout_ms) * MILLISECOND,
        max_handles: config.hub.max_items,
        // Nobody asks how far one has read that nobody waits for.
        report_bytes: if config.hub.paces_providers { REPORT_BYTES } else { 0 },
        key,
        ..p2ps_config(config, incarnation)?
    })
}

/// The names of Source Distributors in a value of `source_distributor_pairs`.
pub(super) fn names_of_pair(pair: &str) -> Vec<String> {
    pair.split('|').map(|name| name.trim().to_owned()).collect()
}

/// The order of Source Distributors; that of the pairs if none is said.
fn source_order(p2ps: &super::P2ps) -> Vec<String> {
    if p2ps.source_distributor_order.is_empty() {
        return p2ps.source_distributor_pairs.iter().flat_map(|pair| names_of_pair(pair)).collect();
    }
    p2ps.source_distributor_order.clone()
}
