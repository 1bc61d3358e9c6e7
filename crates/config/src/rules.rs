//! Rules over more than one parameter, or tighter than a parameter's type.

use std::net::{IpAddr, Ipv4Addr};

use net::affinity::{CpuList, Priority};
use net::dns::ServiceName;
use rssl::ws::pages::{Origin, OwnPage, Pages};

use super::hub::{SMALLEST_WINDOW, names_of_pair, names_there};
use super::patterns::{PATTERNS, are_patterns};
use super::record::{self, Record};
use super::{
    Aeron, AeronDriver, AeronFlowControl, AeronMedium, AnySection, Compression, Config, Conflation, Filters, Http, Hub,
    HubTransport, Log, P2ps, Permissions, ProviderChoice, Route, RouteProtocol, Rrcpd, Section, SourceConflation,
    SourceDistributor, by_service, conflation, filters, headlines, service_qos, source_threads,
};

/// The least limit on what a peer may send in a second, in bytes: what one turn takes in of a connection has to be less than what the longest
/// pause in reading it makes up for.
pub const INPUT_BYTES_MIN: u32 = 65_536;
/// As [`INPUT_BYTES_MIN`], in messages.
pub const INPUT_MESSAGES_MIN: u32 = 1_000;

/// A rule that a configuration breaks.
pub(super) struct Broken {
    /// The section's name.
    pub(super) section: &'static str,
    /// The key at fault.
    pub(super) key: &'static str,
    /// The value that it should have, as the end of a sentence that begins with section and key.
    pub(super) what: &'static str,
}

/// Every rule that `config` breaks.
pub(super) fn broken(config: &Config) -> Vec<Broken> {
    let mut found = of_p2ps(config);
    found.extend(of_permissions(&config.permissions));
    found.extend(of_distributor_and_daemon(config));
    found.extend(of_hub(&config.hub));
    found.extend(of_http(&config.http));
    found.extend(of_aeron(config));
    if let Some((key, what)) = conflation::fault(&config.conflation) {
        found.push(Broken { section: Conflation::NAME, key, what });
    }
    if let Some((key, what)) = conflation::fault_at_source(&config.source_conflation) {
        found.push(Broken { section: SourceConflation::NAME, key, what });
    }
    if let Some((key, what)) = filters::fault(&config.filters) {
        found.push(Broken { section: Filters::NAME, key, what });
    }
    if let Some((key, what)) = headlines::fault(&config.source_distributor) {
        found.push(Broken { section: SourceDistributor::NAME, key, what });
    }
    if let Some((key, what)) = headlines::fault_of_p2ps(&config.p2ps) {
        found.push(Broken { section: P2ps::NAME, key, what });
    }
    if let Some((key, what)) = record::fault(&config.record) {
        found.push(Broken { section: Record::NAME, key, what });
    }
    if let Some((key, what)) = service_qos::fault(&config.source_distributor) {
        found.push(Broken { section: SourceDistributor::NAME, key, what });
    }
    if let Some((section, key, what)) = source_threads::fault(config) {
        found.push(Broken { section, key, what });
    }
    if !config.log.level.is_empty() && super::log_filter(&config.log.level).is_err() {
        let what = "must be error, warn, info, debug, trace, or levels by module";
        found.push(Broken { section: Log::NAME, key: "level", what });
    }
    let text = &config.p2ps.redirect_text;
    if text.len() > 200 || text.contains(char::is_control) {
        found.push(Broken { section: P2ps::NAME, key: "redirect_text", what: "must be one line of at most 200 bytes" });
    }
    found
}

fn cpus(list: &str) -> bool {
    list.is_empty() || list.parse::<CpuList>().is_ok()
}

/// Two names or more in each, none of them empty, and none twice.
fn are_pairs(pairs: &[String]) -> bool {
    let pairs: Vec<Vec<String>> = pairs.iter().map(|pair| names_of_pair(pair)).collect();
    let mut names: Vec<&String> = pairs.iter().flatten().collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    names.len() == count && names.iter().all(|name| !name.is_empty()) && pairs.iter().all(|pair| pair.len() > 1)
}

/// One or more, each by its own address.
fn names_pages(origins: &[String]) -> bool {
    !origins.is_empty() && origins.iter().all(|origin| origin.parse::<Origin>().is_ok())
}

fn of_p2ps(config: &Config) -> Vec<Broken> {
    let mut found = Vec::new();
    let p = &config.p2ps;
    let mut rule = |holds: bool, key, what| {
        if !holds {
            found.push(Broken { section: P2ps::NAME, key, what });
        }
    };
    let (bytes, messages) = (p.max_incoming_bytes_per_second, p.max_incoming_messages_per_second);
    rule(bytes == 0 || bytes >= INPUT_BYTES_MIN, "max_incoming_bytes_per_second", BYTES);
    rule(messages == 0 || messages >= INPUT_MESSAGES_MIN, "max_incoming_messages_per_second", MESSAGES);
    let percent = p.open_window_for_poll_requests;
    rule((1..=100).contains(&percent), "open_window_for_poll_requests", "must be from 1 to 100");
    rule(p.num_latency_samples <= 10_000, "num_latency_samples", "must be at most 10000");
    rule(
        p.guaranteed_output_buffers <= p.max_output_buffers,
        "guaranteed_output_buffers",
        "must not be over max_output_buffers (its default is 1600)",
    );
    rule(
        p.output_threshold_ok <= p.output_threshold_breach && p.output_threshold_breach <= 100,
        "output_threshold_breach",
        "needs output_threshold_ok <= output_threshold_breach <= 100",
    );
    rule(
        p.min_ping_timeout_s <= p.ping_timeout_s && p.ping_timeout_s <= 255,
        "ping_timeout_s",
        "needs min_ping_timeout_s <= ping_timeout_s <= 255",
    );
    for (key, list) in [("service_item_limit", &p.service_item_limit), ("service_open_window", &p.service_open_window)]
    {
        rule(by_service::numbers(list).is_some(), key, by_service::NUMBERS);
    }
    rule(is_address(&p.interface), "interface", ADDRESS);
    rule((100..=65_000).contains(&p.max_fragment_size), "max_fragment_size", "must be from 100 to 65000");
    let ping = p.websocket_ping_timeout_s;
    rule((3..=255).contains(&ping), "websocket_ping_timeout_s", "must be from 3 to 255");
    rule(
        p.websocket_token_cookie.is_empty() || names_pages(&p.websocket_origins),
        "websocket_token_cookie",
        "needs websocket_origins to name each page (https://host:port): a browser sends its cookies from every page",
    );
    rule(
        Pages::parse(&p.websocket_origins, &OwnPage::default()).is_ok(),
        "websocket_origins",
        "must be \"host\", \"own\", \"*\", or SCHEME://HOST[:PORT] without a path",
    );
    rule(!p.token_user_claim.is_empty(), "token_user_claim", "must name a claim");
    rule((1..=9).contains(&p.zlib_compression_level), "zlib_compression_level", "must be from 1 to 9");
    rule(!p.timed_writes || p.flush_interval_ms > 0, "flush_interval_ms", "must be over 0 when timed_writes is true");
    rule(
        p.server_cert_file.is_empty() == p.server_key_file.is_empty(),
        "server_cert_file",
        "and server_key_file go together",
    );
    rule(
        p.client_ca_file.is_empty() || !p.server_cert_file.is_empty(),
        "client_ca_file",
        "needs server_cert_file: certificates are shown under TLS",
    );
    rule(
        p.limit_lower_percent <= p.limit_upper_percent && p.limit_upper_percent <= 100,
        "limit_upper_percent",
        "needs limit_lower_percent <= limit_upper_percent <= 100",
    );
    rule(
        p.open_queue_overloaded == 0 || p.open_queue_burdened <= p.open_queue_overloaded,
        "open_queue_burdened",
        "must not be over open_queue_overloaded (its default is 10000)",
    );
    rule(p.handshake_timeout_s > 0, "handshake_timeout_s", "must be over 0");
    rule(
        are_pairs(&p.source_distributor_pairs),
        "source_distributor_pairs",
        "must be ONE|OTHER, with each Source Distributor in one pair at most",
    );
    rule(p.work_per_turn > 0, "work_per_turn", "must be over 0");
    rule(p.scaling_factor > 0, "scaling_factor", "must be at least 1");
    let is_group = |name: &str| config.source_distributor.service_group_list.0.iter().any(|group| group.name == name);
    let groups = p.service_group_list.iter().map(String::as_str);
    rule(groups.clone().all(is_group), "service_group_list", GROUPS);
    let mut of_groups = p.disable_service_group_app_ids.iter().filter_map(|entry| entry.rsplit_once(':'));
    rule(of_groups.all(|(name, _)| is_group(name)), "disable_service_group_app_ids", GROUPS);
    rule((1..=255).contains(&p.max_priority_class), "max_priority_class", "must be from 1 to 255");
    rule(
        (1..=p.max_priority_class).contains(&p.default_priority_class),
        "default_priority_class",
        "must be from 1 to max_priority_class",
    );
    rule(p.writer_thread_count <= 64, "writer_thread_count", "must be at most 64");
    rule(p.min_compression_threshold <= 65_535, "min_compression_threshold", "must be at most 65535");
    rule(cpus(&p.bind_main_thread), "bind_main_thread", "must be a list of processors such as 0-3,5");
    rule(
        p.bind_writer_threads.iter().all(|c| cpus(c)),
        "bind_writer_threads",
        "must be lists of processors such as 0-3,5",
    );
    rule(priority(&p.priority).is_ok(), "priority", PRIORITY);
    rule(is_slice(p.slice_us), "slice_us", SLICE);
    rule(p.shard_rest_us <= 100_000, "shard_rest_us", "must be at most 100000");
    found
}

/// A rule on names of service groups.
const GROUPS: &str = "must name groups of source_distributor.service_group_list";

fn of_permissions(rights: &Permissions) -> Option<Broken> {
    let broken = |key, what| Some(Broken { section: Permissions::NAME, key, what });
    let (is_on, url) = (rights.mode.0 != permissions::Mode::Off, &rights.rights_url);
    match (rights.rights_file.is_empty(), url.is_empty()) {
        (true, true) if is_on => broken("rights_file", "or rights_url must be set, unless mode is \"off\""),
        (false, false) => broken("rights_url", "and rights_file are two sources; one can be set"),
        _ if !["http://", "https://"].iter().any(|scheme| url.is_empty() || url.starts_with(scheme)) => {
            broken("rights_url", "must begin with http:// or https://")
        }
        _ if rights.rights_poll_s == 0 => broken("rights_poll_s", "must be at least 1"),
        _ if rights.rights_timeout_s == 0 => broken("rights_timeout_s", "must be at least 1"),
        _ => None,
    }
}

/// The range of a provider's rate.
const BYTES: &str = "must be 0 or at least 65536";
/// As [`BYTES`].
const MESSAGES: &str = "must be 0 or at least 1000";

fn of_distributor_and_daemon(config: &Config) -> Vec<Broken> {
    let mut found = Vec::new();
    let s = &config.source_distributor;
    let mut rule = |holds: bool, key, what| {
        if !holds {
            found.push(Broken { section: SourceDistributor::NAME, key, what });
        }
    };
    rule(is_address(&s.interface), "interface", ADDRESS);
    rule(cpus(&s.bind_main_thread), "bind_main_thread", "must be a list of processors such as 0-3,5");
    rule(priority(&s.priority).is_ok(), "priority", PRIORITY);
    rule(is_slice(s.slice_us), "slice_us", SLICE);
    rule(s.source_thread_count <= 64, "source_thread_count", "must be at most 64");
    rule(
        s.bind_source_threads.iter().all(|c| cpus(c)),
        "bind_source_threads",
        "must be lists of processors such as 0-3,5",
    );
    let (bytes, messages) = (s.nip_max_incoming_bytes_per_second, s.nip_max_incoming_messages_per_second);
    rule(bytes == 0 || bytes >= INPUT_BYTES_MIN, "nip_max_incoming_bytes_per_second", BYTES);
    rule(messages == 0 || messages >= INPUT_MESSAGES_MIN, "nip_max_incoming_messages_per_second", MESSAGES);
    rule((1..=255).contains(&s.ping_timeout_s), "ping_timeout_s", "must be from 1 to 255");
    rule(s.num_latency_samples <= 10_000, "num_latency_samples", "must be at most 10000");
    let lists = [
        ("supports_snapshots", &s.supports_snapshots),
        ("supports_out_of_band_snapshots", &s.supports_out_of_band_snapshots),
        ("contrib_insert_rtl", &s.contrib_insert_rtl),
    ];
    for (key, list) in lists {
        rule(by_service::flags(list).is_some(), key, by_service::FLAGS);
    }
    for (key, list) in [("locked_item_list", &s.locked_item_list), ("non_caching_item_list", &s.non_caching_item_list)]
    {
        rule(are_patterns(list.iter().map(String::as_str)), key, PATTERNS);
    }
    let fields = |entry: &String| filters::fields(filters::parts(entry).1).is_some();
    let what = "must be fields, or SERVICE:FIELDS, such as FEED:22,25,-8000..-4001";
    rule(s.contrib_field_list.0.iter().all(fields), "contrib_field_list", what);
    rule(s.contrib_exchange_field_list.0.iter().all(fields), "contrib_exchange_field_list", what);
    let rates = by_service::numbers(&s.contrib_max_update_rate);
    rule(rates.is_some(), "contrib_max_update_rate", by_service::NUMBERS);
    let rates = by_service::numbers(&s.contrib_min_update_rate);
    rule(rates.is_some(), "contrib_min_update_rate", by_service::NUMBERS);
    let templates = by_service::sets(&s.contrib_positive_template_id_list);
    rule(templates.is_some(), "contrib_positive_template_id_list", by_service::SETS);
    let templates = by_service::sets(&s.contrib_negative_template_id_list);
    rule(templates.is_some(), "contrib_negative_template_id_list", by_service::SETS);
    rule(s.retry_limit <= 255, "retry_limit", "must be at most 255");
    let ping = s.websocket_ping_timeout_s;
    rule((3..=255).contains(&ping), "websocket_ping_timeout_s", "must be from 3 to 255");
    rule(s.nip_cert_file.is_empty() == s.nip_key_file.is_empty(), "nip_cert_file", "and nip_key_file go together");
    rule(
        s.nip_client_ca_file.is_empty() || !s.nip_cert_file.is_empty(),
        "nip_client_ca_file",
        "needs nip_cert_file: certificates are shown under TLS",
    );
    rule(
        !s.support_persistent_cache || !s.persistent_cache_directory.is_empty(),
        "persistent_cache_directory",
        "must name a folder when support_persistent_cache is true",
    );
    rule(
        s.cache_resiliency_hosts.iter().all(|host| match ServiceName::of(host) {
            Some(service) => service.is_ok(),
            None => host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()),
        }),
        "cache_resiliency_hosts",
        "must be HOST:PORT or srv:_SERVICE._tcp.DOMAIN each",
    );
    // A P2PS may have the file of its Source Distributors without their routes.
    let is_server = |id: &String| config.routes.is_empty() || config.routes.iter().any(|r| r.server_id == *id);
    let pairs = &s.active_standby_pairs;
    rule(
        are_pairs(pairs) && pairs.iter().flat_map(|pair| names_of_pair(pair)).all(|id| is_server(&id)),
        "active_standby_pairs",
        "must be ONE|OTHER each, by the server_id of routes, each in one pair",
    );
    rule((10..=3_600_000).contains(&s.persistent_interval_ms), "persistent_interval_ms", "must be from 10 to 3600000");
    if !cpus(&config.rrcpd.bind_main_thread) {
        let what = "must be a list of processors such as 0-3,5";
        found.push(Broken { section: Rrcpd::NAME, key: "bind_main_thread", what });
    }
    if priority(&config.rrcpd.priority).is_err() {
        found.push(Broken { section: Rrcpd::NAME, key: "priority", what: PRIORITY });
    }
    found
}

/// The rule that a route breaks, if there is one.
pub(super) fn of_route(route: &Route) -> Option<Broken> {
    let no_time = route.interruption_detection && route.interruption_duration_ms == 0;
    let json_tunnel = route.enable_tunnel_stream_aggregation && route.protocol == RouteProtocol::Json;
    let (bytes, messages) = (route.max_incoming_bytes_per_second, route.max_incoming_messages_per_second);
    let names = |list: &[String]| are_patterns(list.iter().map(String::as_str));
    let rules = [
        (names(&route.server_partition_list), "server_partition_list", PATTERNS),
        (names(&route.server_partition_negation_list), "server_partition_negation_list", PATTERNS),
        (route.priority_class_value <= 255, "priority_class_value", "must be at most 255"),
        (names_there(route).is_some(), "app_service_name", NAMES_THERE),
        (route.tunnel_stream_num_ipc_output_buffers > 0, "tunnel_stream_num_ipc_output_buffers", "must be over 0"),
        (!json_tunnel, "enable_tunnel_stream_aggregation", "is not for a route of protocol \"tr_json2\""),
        (!no_time, "interruption_duration_ms", "must be over 0 when interruption_detection is true"),
        (bytes == 0 || bytes >= INPUT_BYTES_MIN, "max_incoming_bytes_per_second", BYTES),
        (messages == 0 || messages >= INPUT_MESSAGES_MIN, "max_incoming_messages_per_second", MESSAGES),
    ];
    let broken = rules.into_iter().find(|&(holds, ..)| !holds);
    broken.map(|(_, key, what)| Broken { section: Route::NAME, key, what })
}

const NAMES_THERE: &str = "must be HERE=THERE, each service once, or names in the order of service_list";

/// Parameters of a route that have no effect because of others.
pub(super) fn idle_of_route(route: &Route) -> Vec<Idle> {
    let unless = "interruption_detection is true";
    let keys = ["interruption_duration_ms", "traffic_window_s"].into_iter().filter(|_| !route.interruption_detection);
    let mut idle: Vec<Idle> = keys.map(|key| Idle { section: Route::NAME, key, unless }).collect();
    let of_tunnel = [
        ("tunnel_stream_user_name", !route.tunnel_stream_user_name.is_empty()),
        ("tunnel_stream_password_file", !route.tunnel_stream_password_file.is_empty()),
    ];
    let unless = "enable_tunnel_stream_aggregation is true";
    let without = of_tunnel.into_iter().filter(|(_, said)| *said && !route.enable_tunnel_stream_aggregation);
    idle.extend(without.map(|(key, _)| Idle { section: Route::NAME, key, unless }));
    if route.service_list.is_empty() && route.app_service_name.iter().any(|entry| !entry.contains('=')) {
        let unless = "service_list has the services that have these names at the provider";
        idle.push(Idle { section: Route::NAME, key: "app_service_name", unless });
    }
    idle
}

fn of_hub(h: &Hub) -> Vec<Broken> {
    let mut found = Vec::new();
    let mut rule = |holds: bool, key, what| {
        if !holds {
            found.push(Broken { section: Hub::NAME, key, what });
        }
    };
    rule(is_address(&h.interface), "interface", ADDRESS);
    rule(h.multicast_ttl <= 255, "multicast_ttl", "must be at most 255");
    let group = h.multicast_address.parse::<IpAddr>().is_ok_and(|a| a.is_multicast());
    rule(
        group || h.multicast_address.is_empty(),
        "multicast_address",
        "must be an address from 224.0.0.0 to 239.255.255.255",
    );
    let networks = |list: &[String]| list.iter().all(|text| text.parse::<net::Network>().is_ok());
    rule(networks(&h.allow), "allow", "must be addresses or networks, as 10.1.0.0/16");
    rule((1..=64).contains(&h.p2ps_per_host), "p2ps_per_host", "must be from 1 to 64");
    let tls = [&h.tls_ca_file, &h.tls_cert_file, &h.tls_key_file];
    rule(
        tls.iter().all(|f| f.is_empty()) || tls.iter().all(|f| !f.is_empty()),
        "tls_ca_file",
        "tls_cert_file and tls_key_file go together",
    );
    let window = u64::from(h.window_bytes);
    rule(h.max_items > 0, "max_items", "must be over 0");
    rule(h.greeting_timeout_s > 0, "greeting_timeout_s", "must be over 0");
    rule(window == 0 || window >= SMALLEST_WINDOW, "window_bytes", "must be at least 1048576, or 0");
    if h.heartbeat_interval_ms == 0 || h.peer_timeout_ms / 2 < h.heartbeat_interval_ms {
        let what = "must be at least twice heartbeat_interval_ms, which is over 0";
        found.push(Broken { section: Hub::NAME, key: "peer_timeout_ms", what });
    }
    found
}

fn of_aeron(config: &Config) -> Vec<Broken> {
    let (a, h) = (&config.aeron, &config.hub);
    if h.transport != HubTransport::Aeron {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut rule = |holds: bool, section, key, what| {
        if !holds {
            found.push(Broken { section, key, what });
        }
    };
    let aeron = Aeron::NAME;
    let needs_dir = a.medium == AeronMedium::Ipc || a.driver == AeronDriver::External;
    rule(
        !needs_dir || !a.dir.is_empty(),
        aeron,
        "dir",
        "must be set for \"ipc\" and for an \"external\" driver: the processes meet there",
    );
    rule(a.medium == AeronMedium::Ipc || a.port != 0, aeron, "port", "must be set: the other side has to know it");
    let term = a.term_bytes;
    rule(
        term.is_power_of_two() && (4 << 20..=64 << 20).contains(&term),
        aeron,
        "term_bytes",
        "must be a power of two from 4194304 to 67108864",
    );
    rule(
        a.mtu % 32 == 0 && (288..=65_504).contains(&a.mtu),
        aeron,
        "mtu",
        "must be a multiple of 32 from 288 to 65504",
    );
    rule((1..=1_000_000).contains(&a.nak_delay_us), aeron, "nak_delay_us", "must be from 1 to 1000000");
    rule((1..=1_000_000).contains(&a.retransmit_linger_us), aeron, "retransmit_linger_us", "must be from 1 to 1000000");
    let tagged = a.flow_control == AeronFlowControl::Tagged;
    rule(!tagged || a.group_tag != 0, aeron, "group_tag", "must be set where flow_control is \"tagged\"");
    let odd = h.multicast_address.parse::<Ipv4Addr>().is_ok_and(|group| group.octets()[3] % 2 == 1);
    rule(
        a.medium != AeronMedium::Multicast || h.multicast_address.is_empty() || odd,
        Hub::NAME,
        "multicast_address",
        "must end in an odd number with Aeron, which answers on the next one",
    );
    rule(h.patience_ms > 0, Hub::NAME, "patience_ms", "must be over 0 with Aeron");
    found
}

fn of_http(http: &Http) -> Vec<Broken> {
    let mut found = Vec::new();
    let mut rule = |holds: bool, key, what| {
        if !holds {
            found.push(Broken { section: Http::NAME, key, what });
        }
    };
    rule(is_address(&http.interface), "interface", ADDRESS);
    rule(http.request_timeout_s > 0, "request_timeout_s", "must be over 0");
    let is_loopback = http.interface.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    rule(
        is_loopback || !http.enabled || !http.users.is_empty(),
        "interface",
        "reaches beyond this machine, which needs http.users (quoteway ctl password makes an entry)",
    );
    rule(
        http.origins.iter().all(|origin| origin.parse::<Origin>().is_ok()),
        "origins",
        "must be SCHEME://HOST[:PORT] without a path",
    );
    rule(
        http.users.iter().all(|user| user.parse::<super::User>().is_ok()),
        "users",
        "must be NAME:viewer:HASH or NAME:operator:HASH, as quoteway ctl password prints them",
    );
    found
}

/// A parameter that a file sets although another one leaves it without effect.
pub(super) struct Idle {
    /// The section's name.
    pub(super) section: &'static str,
    /// The key.
    pub(super) key: &'static str,
    /// The condition that it waits for, as the end of a sentence that begins with the parameter.
    pub(super) unless: &'static str,
}

/// Parameters of this configuration that have no effect, whatever their value, because of others.
pub(super) fn idle(config: &Config) -> Vec<Idle> {
    let (p, s, h) = (&config.p2ps, &config.source_distributor, &config.hub);
    let compressed = p.allow_comp_mode && p.compression_type != Compression::None;
    let mut found = Vec::new();
    let mut idle = |has_none: bool, section, key, unless| {
        if has_none {
            found.push(Idle { section, key, unless });
        }
    };
    let (p2ps, sd, hub) = (P2ps::NAME, SourceDistributor::NAME, Hub::NAME);
    let disconnects = p.disconnect_src_down || p.disconnect_single_src_down;
    idle(!disconnects, p2ps, "disconnect_service_list", "disconnect_src_down or disconnect_single_src_down is true");
    let goes = disconnects || !p.dismount_on_outage.is_empty();
    idle(
        !goes,
        p2ps,
        "disconnect_after_s",
        "disconnect_src_down or disconnect_single_src_down is true, or dismount_on_outage names a service",
    );
    let no_groups = s.service_group_list.0.is_empty();
    idle(no_groups, p2ps, "disable_service_group_app_ids", "there is a source_distributor.service_group_list");
    idle(p.load_factor_interval_s == 0, p2ps, "scaling_factor", "load_factor_interval_s is over 0");
    idle(s.failback_s == 0, sd, "auto_failback", "failback_s is over 0");
    idle(!p.timed_writes, p2ps, "flush_interval_ms", "timed_writes is true");
    idle(p.server_cert_file.is_empty(), p2ps, "encrypted_port", "server_cert_file is set");
    idle(!p.enable_websocket_port, p2ps, "websocket_port", "enable_websocket_port is true");
    idle(!p.websocket, p2ps, "enable_websocket_port", "websocket is true");
    idle(!p.enable_marketfeed_port, p2ps, "marketfeed_port", "enable_marketfeed_port is true");
    for key in ["token_required", "token_issuers", "token_audience", "token_user_claim", "websocket_token_cookie"] {
        idle(p.token_keys_file.is_empty(), p2ps, key, "token_keys_file is set");
    }
    idle(!p.allow_comp_mode, p2ps, "compression_type", "allow_comp_mode is true");
    idle(!compressed, p2ps, "force_rssl_compression", "there is a compression_type");
    idle(!compressed, p2ps, "min_compression_threshold", "there is a compression_type");
    let zlib = compressed && p.compression_type == Compression::Zlib;
    idle(!zlib, p2ps, "zlib_compression_level", "compression_type is zlib");
    idle(p.writer_thread_count == 0, p2ps, "bind_writer_threads", "writer_thread_count is over 0");
    idle(s.source_thread_count < 2, sd, "bind_source_threads", "source_thread_count is over 1");
    idle(s.provider_choice != ProviderChoice::Hot, sd, "active_standby_pairs", "provider_choice is hot");
    idle(!s.enable_nip_server, sd, "nip_port", "enable_nip_server is true");
    for key in
        ["nip_max_mounts", "nip_max_connections_per_address", "nip_max_handshakes", "nip_login_timeout_s", "websocket"]
    {
        idle(!s.enable_nip_server, sd, key, "enable_nip_server is true");
    }
    idle(!s.enable_nip_server, sd, "nip_cert_file", "enable_nip_server is true");
    idle(
        !s.enable_nip_server || !s.websocket,
        sd,
        "websocket_ping_timeout_s",
        "enable_nip_server and websocket are true",
    );
    for param in Record::params().iter().filter(|param| param.info.key != "folder") {
        idle(config.record.folder.is_empty(), Record::NAME, param.info.key, "folder is set");
    }
    idle(config.record.symbol_lists.is_empty(), Record::NAME, "patterns", "symbol_lists names one");
    let c = &config.conflation;
    let none = c.update_aggregation.is_empty();
    idle(none, Conflation::NAME, "aggregation_interval_ms", "update_aggregation names its service");
    let none = config.source_conflation.update_aggregation.is_empty();
    idle(none, SourceConflation::NAME, "aggregation_interval_ms", "update_aggregation names its service");
    let off = c.just_in_time.0 == ::hub::p2ps::conflation::JustInTime::Off;
    for key in ["just_in_time_services", "start_percent", "end_percent"] {
        idle(off, Conflation::NAME, key, "just_in_time is on");
    }
    idle(h.transport != HubTransport::Tcp, hub, "source_distributors", "transport is tcp");
    idle(h.key_file.is_empty(), hub, "clock_tolerance_s", "key_file is set");
    idle_of_transport(config, &mut idle);
    found
}

fn idle_of_transport(config: &Config, idle: &mut impl FnMut(bool, &'static str, &'static str, &'static str)) {
    let (h, hub) = (&config.hub, Hub::NAME);
    let aeron = h.transport == HubTransport::Aeron;
    let group = h.transport == HubTransport::LbtRm || aeron && config.aeron.medium == AeronMedium::Multicast;
    idle(!group, hub, "multicast_address", "transport is lbt-rm, or aeron with multicast");
    let lbm = h.transport != HubTransport::Tcp && !aeron;
    idle(!lbm, hub, "lbm_options_file", "transport is one of LBM's");
    idle(!lbm, hub, "lbm_options", "transport is one of LBM's");
    let udp = matches!(h.transport, HubTransport::LbtRm | HubTransport::LbtRu | HubTransport::Aeron);
    idle(!udp, hub, "udp_recv_buf_size", "transport is lbt-rm, lbt-ru or aeron");
    idle(!udp, hub, "udp_send_buf_size", "transport is lbt-rm, lbt-ru or aeron");
    idle(h.transport == HubTransport::Tcp, hub, "multicast_ttl", "transport is one of LBM's, or aeron");
    idle(h.transport == HubTransport::Tcp, hub, "use_point_to_point_data", "transport is one of LBM's, or aeron");
    for param in Aeron::params() {
        idle(!aeron, Aeron::NAME, param.info.key, "hub.transport is aeron");
    }
    let embedded = config.aeron.driver == AeronDriver::Embedded && config.aeron.medium != AeronMedium::Ipc;
    idle(aeron && !embedded, Aeron::NAME, "nak_delay_us", "driver is embedded and its medium a network");
    idle(aeron && !embedded, Aeron::NAME, "retransmit_linger_us", "driver is embedded and its medium a network");
    let unicast = config.aeron.medium == AeronMedium::Unicast;
    idle(aeron && !unicast, Aeron::NAME, "sources", "medium is unicast");
    idle(aeron && !unicast, Aeron::NAME, "destinations", "medium is unicast");
}

impl Idle {
    /// The sentence for the operator, if `section` holds another value than the default.
    pub(super) fn sentence(&self, section: &dyn AnySection, name: &str) -> Option<String> {
        let infos = section.infos();
        let index = infos.iter().position(|p| p.key == self.key)?;
        (section.show(index) != (infos[index].default)())
            .then(|| format!("{name} has no effect unless {}", self.unless))
    }
}

const ADDRESS: &str = "must be the IP address of this machine to use, its network (10.1.0.0/16), or empty";

fn is_address(text: &str) -> bool {
    let is_network = |(network, bits): (&str, &str)| {
        network.parse::<Ipv4Addr>().is_ok() && bits.parse::<u32>().is_ok_and(|bits| bits <= 32)
    };
    text.is_empty() || text.parse::<IpAddr>().is_ok() || text.split_once('/').is_some_and(is_network)
}

const PRIORITY: &str = "must be \"fifo 1\" to \"fifo 99\", \"nice -20\" to \"nice 19\", or empty";

/// The fault of a list of processors.
pub(super) fn cpu_list_fault(list: &str) -> Option<String> {
    if list.is_empty() { None } else { list.parse::<CpuList>().err().map(|e| e.to_string()) }
}

/// Slices that the kernel grants as they are; 0 is its own.
fn is_slice(microseconds: u32) -> bool {
    microseconds == 0 || (100..=100_000).contains(&microseconds)
}

const SLICE: &str = "must be 0 or from 100 to 100000";

/// The priority that a text asks for; `None` for the kernel's choice.
///
/// # Errors
/// What a priority looks like.
pub(super) fn priority(text: &str) -> Result<Option<Priority>, &'static str> {
    let mut words = text.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (None, ..) => Ok(None),
        (Some("fifo"), Some(level), None) => match level.parse() {
            Ok(level @ 1..=99) => Ok(Some(Priority::Fifo(level))),
            _ => Err(PRIORITY),
        },
        (Some("nice"), Some(level), None) => match level.parse() {
            Ok(level @ -20..=19) => Ok(Some(Priority::Nice(level))),
            _ => Err(PRIORITY),
        },
        _ => Err(PRIORITY),
    }
}
