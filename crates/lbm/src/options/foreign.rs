//! What files written for the product hold that has no counterpart here, and why it has no effect.

/// Scopes of the product without a counterpart.
const SCOPES: &[(&str, &str)] = &[
    ("event_queue", "there are no event queues: messages are delivered in the turn that brings them"),
    ("hfx", "hot failover across contexts is not there"),
    ("xsp", "there is no transport services provider: a context's turn serves all transports"),
    ("connection_factory", "it belongs to JMS, which is not there"),
    ("umestore", "a store is configured by the flags of quoteway lbmstore"),
    ("store", "a store is configured by the flags of quoteway lbmstore"),
    ("broker", "there is no broker: sources assign by themselves"),
    ("dro", "there is no router of its own kind here"),
    ("smart_source", "smart sources are ordinary ones here"),
    ("ssrc", "smart sources are ordinary ones here"),
];

/// Beginnings of names, the longer ones first, and why options with them have no effect.
const FAMILIES: &[(&str, &str)] = &[
    ("mim_", "multicast immediate messages are not there"),
    ("unicast_immediate_", "immediate messages are not there"),
    ("request_tcp_", "the request port has no such setting"),
    ("ume_late_join", "receivers ask the stores, whatever a source says"),
    ("ume_sri_", "questions for stores are answered at once"),
    ("ume_store_name", "stores are named by address: ume_store"),
    ("ume_", "persistence has no such setting here"),
    ("umestore", "a store is configured by the flags of quoteway lbmstore"),
    ("umq_hold_interval", "nothing is held: a message that is assigned anew is sent again whole"),
    ("umq_retransmit_request", "nothing is asked for: a message that is assigned anew is sent again whole"),
    ("umq_msg_total_lifetime", "it is for brokers; sets of a source have umq_ulb_application_set_message_lifetime"),
    ("umq_", "it is for brokers, which are not there: sources assign by themselves (umq_ulb_application_set)"),
    ("broker", "brokers are not there"),
    ("queue_", "event queues and brokers are not there"),
    ("event_queue", "there are no event queues: messages are delivered in the turn that brings them"),
    ("hf_", "hot failover is not there"),
    ("hfx_", "hot failover is not there"),
    ("hot_failover", "hot failover is not there"),
    ("monitor_", "monitoring is not done by options: lbmstat reads the counters of every context"),
    ("daemonmon_", "monitoring is not done by options: lbmstat reads the counters of every context"),
    ("resolver_service", "resolution services need no such setting: resolver_service names them"),
    ("resolver_tcp", "resolution services need no such setting: resolver_service names them"),
    ("transport_lbtrdma", "this transport is not there"),
    ("transport_lbtsmx", "this transport is not there: lbtipc is the one in shared memory"),
    ("smart_src_", "smart sources are ordinary ones here"),
    ("transport_lbtrm_smart_src", "smart sources are ordinary ones here"),
    ("mem_mgt_", "smart sources are ordinary ones here"),
    ("encrypt", "encryption of transports is not there"),
    ("tls_", "encryption of transports is not there"),
    ("use_tls", "encryption of transports is not there"),
    ("compression", "compression is not there"),
    ("dbl_", "accelerated drivers are not used by options"),
    ("onload_", "accelerated drivers are not used by options"),
    ("ud_acceleration", "accelerated drivers are not used by options"),
    ("resolver_ud_acceleration", "accelerated drivers are not used by options"),
    ("retransmit_retention_", "what is retained is bounded by the options that are there"),
    ("ulb_", "queuing has no such setting: see umq_ulb_application_set"),
    ("application_data", "it belongs to the product's tools"),
    ("implicit_batching_type", "batching is by length and interval alone"),
];

/// Options whose value changes nothing, and what holds whatever it is.
const FIXED: &[(&str, &str)] = &[
    ("dynamic_fragmentation_reduction", "1"),
    ("source_includes_topic_index", "1"),
    ("response_tcp_nodelay", "1"),
    ("transport_tcp_reuseaddr", "1"),
    ("request_tcp_reuseaddr", "1"),
    ("fd_management_type", "epoll"),
    ("resolver_send_final_advertisements", "0"),
];

/// Why lines of a scope of the product have no effect; `None` for a word that is no scope of it.
pub(super) fn scope(word: &str) -> Option<&'static str> {
    SCOPES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, why)| *why)
}

/// Why an option has no effect, by its name; `None` when its name does not say.
pub(super) fn reason(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let is_code = ["_function", "_callback"].iter().any(|end| lower.ends_with(end));
    if is_code {
        return Some("functions are given by programs, not by files");
    }
    FAMILIES.iter().find(|(begin, _)| lower.starts_with(begin)).map(|(_, why)| *why)
}

/// What holds of an option whatever value it is given.
pub(super) fn fixed(name: &str) -> Option<&'static str> {
    FIXED.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
}
