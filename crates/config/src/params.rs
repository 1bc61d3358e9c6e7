//! Every parameter: its section, name, type, default, RMDS name, unit and meaning, declared once.
//!
//! A new section also gets a field in [`Config`](super::Config) and its place in `Config::sections`.

use super::section::section;
use super::syslog::Syslog;
use super::value::{
    AbsentRights, AuditSync, CacheLocation, Compression, ConnectionType, DomainList, Entries, LogFormat,
    MarketfeedClients, PageSizeList, PermissionMode, ProviderChoice, RouteProtocol, ServerOrder, ServiceGroupList,
    ServiceIdList,
};
use hub::cache::rules::{Domains, PageSizes};
use hub::p2ps::ServiceIds;
use rwf::page::PageSize;
use std::collections::BTreeMap;

section! {
    /// The side that faces consumers.
    P2ps = "p2ps", "P2PS";
    interface: String = String::new(), "", "Address to listen on, or its network, as 10.1.0.0/16; empty means all.";
    rssl_port: u16 = 14002, "rsslPort", "Port on which consumers connect; 0 takes a free one.";
    encrypted_port: u16 = 14006, "", "Port for consumers with the encrypted connection type (TLS), open when server_cert_file is set; 0 takes a free one.";
    websocket: bool = true, "", "Take WebSocket sessions (tr_json2, rssl.json.v2, rssl.rwf) on the ports for consumers, beside RSSL.";
    enable_websocket_port: bool = true, "", "Open websocket_port too; the usual one is done without where another program has it, or rssl_port is 0.";
    websocket_port: u16 = 15000, "", "Port by which WebSocket clients find a server by habit; takes RSSL as well. 0 takes a free one.";
    websocket_ping_timeout_s: u16 = 30, "", "Longest silence of a JSON session, seconds (3 to 255): a ping goes out after a third of it.";
    websocket_compression: bool = false, "", "Compress JSON (permessage-deflate) for clients that offer it.";
    websocket_origins: Vec<String> = vec![String::from("host")], "", "Pages whose scripts may connect by WebSocket: \"host\" for those of the same host, whatever their port, and of the loopback; \"own\" for the one that this process shows; \"*\" for all; or https://host:port. Empty means none. Other programs than browsers are not concerned.";
    websocket_one_message_agents: Vec<String> = vec![String::from("Python")], "", "User-Agent of the WebSocket clients that are sent each JSON message in a frame of its own, since they handle what waits for them in no order: lseg-data and refinitiv-data call themselves Python. Empty means none.";
    websocket_token_cookie: String = String::new(), "", "Cookie of a WebSocket request whose value is a token: its client is logged in with it, unasked, on stream -1 (by habit AuthToken; cookies position and applicationId go with it). Empty: no cookie counts.";
    default_service: String = String::new(), "", "Service of JSON requests that name none; empty means the first there is.";
    json_expand_enums: bool = true, "", "Enumerated fields are their display text in JSON, not their number.";
    json_service_names: bool = true, "", "Services are names in JSON, not numbers.";
    catch_unknown_json_keys: bool = false, "catchUnknownJsonKeys", "A message of a JSON client with a member that nobody knows is answered with an error; else the member is passed over.";
    catch_unknown_json_fids: bool = true, "catchUnknownJsonFids", "The same for a field that the dictionary does not have.";
    max_connections_per_address: u32 = 0, "", "Consumer connections of one address at a time; 0 means any number.";
    max_logins_per_address_per_second: u32 = 2_000, "", "Logins and reissued tokens of one address in a second; one more is refused. A site behind one address (NAT) counts as one. 0 means any number. With egress shards each counts for itself.";
    max_handshakes: u32 = 20_000, "", "Consumer connections of a thread that may be in their handshake at a time; a further one is closed at once. 0 means any number.";
    handshake_timeout_s: u16 = 15, "", "Time in which a connection has to be a session, of providers that dial in as well, seconds: who says nothing, or too little, is closed then.";
    login_timeout_s: u16 = 60, "", "Time in which a consumer has to log in after the handshake, and again after a logout, seconds; pings and other messages count for nothing. 0 means any.";
    round_trip_interval_s: u16 = 10, "", "Time between two measurements of the round trip to a consumer whose login offers it (RoundTripLatency 2), seconds. 0 measures none, and the login refresh says so.";
    token_keys_file: String = String::new(), "", "File with the public keys (JWKS) of those who issue tokens (JWT, RS256 or ES256); read again when it changes. Empty: logins by token are refused.";
    token_required: bool = true, "", "Where token_keys_file is set: logins by name are refused.";
    token_issuers: Vec<String> = Vec::new(), "", "Issuers (iss) whose tokens count; empty means any that a key is known of.";
    token_audience: String = String::new(), "", "Audience (aud) that a token has to name; empty means any.";
    token_user_claim: String = String::from("sub"), "", "Claim of a token that names its user.";
    token_clock_tolerance_s: u16 = 30, "", "How far the clock of an issuer of tokens may differ from ours, seconds.";
    server_cert_file: String = String::new(), "", "PEM file with this server's certificate chain, leaf first; read again when it changes. Empty means no TLS.";
    server_key_file: String = String::new(), "", "PEM file with the private key of server_cert_file; read again when it changes.";
    client_ca_file: String = String::new(), "", "PEM file with the certificates to which those of consumers must lead. With it every consumer port takes TLS only, and nobody without such a certificate; empty asks for none.";
    max_mounts: u32 = 10_000, "maxMounts", "Consumer connections at a time; one more is refused with a text.";
    log_mount_requests: bool = true, "logMountRequests", "Clients that come and go are lines of the log; false leaves them to its level debug.";
    log_item_error: bool = false, "logItemError", "Each state of an item that is not good, as those who watch hear of it, is a line of the log, up to 50 a second.";
    log_non_recoverable_opens: bool = false, "logNonRecoverableOpens" in "SERVICE", "Each item that is asked for and closed for good, before anybody has had it, is a line of the log, up to 50 a second with those of log_item_error.";
    log_discovery_events: bool = false, "logDiscoveryEvents", "P2PSs of the hub that come and go as servers for clients (enable_connect_config) are lines of the log.";
    max_mounts_per_user: u32 = 256, "maxMountsPerUser", "Connections of one login name at a time.";
    drain_time_s: u16 = 0, "", "Time over which a server that is stopped or drained closes its clients, evenly, seconds, so that other servers are not stormed. 0 closes all at once.";
    redirect_text: String = String::new(), "", "What clients of a server that is stopped or drained are told beside why, such as where else to connect.";
    item_limit: u32 = 1_000_000, "itemLimitPerMount|itemLimit", "Open items of one connection; a further one is refused as TooManyItems.";
    aggregate_item_limit: u32 = 5_000_000, "aggregateItemLimit", "Open items over all connections of one login name.";
    total_item_limit: u32 = 0, "", "Open items over all connections of a server, of each egress shard for itself; when it is reached, no more are taken until limit_upper_percent of it is left. 0 means any number.";
    service_item_limit: Entries = Entries::NONE, "", "Open items of a service over all connections of a server, of each egress shard for itself: SERVICE:NUMBER, or NUMBER for each of all others; when it is reached, no more are taken until limit_upper_percent of it is left. 0 means any number.";
    limit_upper_percent: u32 = 90, "", "Percent of item_limit, aggregate_item_limit, total_item_limit and service_item_limit from which a connection, a user, the server or a service is reported as burdened.";
    limit_lower_percent: u32 = 80, "", "Percent of them below which it is reported as normal again.";
    open_queue_burdened: u32 = 8_000, "openQueueBurdenedThreshold", "Items waiting to be opened from which the queue of opens is reported as burdened; 0 means never.";
    open_queue_overloaded: u32 = 10_000, "openQueueHeavilyBurdenedThreshold", "Items waiting to be opened from which it is reported as overloaded; 0 means never.";
    open_queue_hysteresis: u32 = 1_000, "openQueueHysteresis", "How far below these marks the states end.";
    blocked_items_file: Entries = Entries::NONE, "blockedItemsFile" in "SERVICES", "Files of items that nobody gets: SERVICE:FILE for the items of a service, FILE for those of all; a name a line, # begins a comment. Read again by a reload.";
    consumer_age_unwatched_item_time_s: u32 = 0, "consumerAgeUnwatchedItemTime", "How long an item that nobody watches here any more stays open at its Source Distributor, seconds, so that who comes back has its image from this P2PS (with enable_cache), or from the stream that is open, and the hub sees no close and no open (docs/operating/cache.md). 0 gives it back at once.";
    max_unwatched_items: u32 = 100_000, "", "Items that stay open so, by each egress shard; beyond it the one that has been without watchers longest is given back. 0 means any number.";
    minimum_open_window: u32 = 500, "minimumOpenWindow", "Requests that may await their image at a time, for each service.";
    service_open_window: Entries = Entries::NONE, "", "Requests of a service that may await their image at a time, within minimum_open_window: SERVICE:NUMBER, or NUMBER for each of all others. 0 means any number.";
    open_window_for_poll_requests: u32 = 80, "openWindowForPollRequests", "Percent of minimum_open_window that items may use which were lost or refused and are asked for again, so that new requests do not wait for all of them; 1 to 100.";
    enable_cache: bool = false, "enableCache", "Hold the images of the items that clients watch: who asks later is answered from memory, and the provider hears nothing (docs/operating/cache.md).";
    max_cache_size: u32 = 1_000_000, "maxCacheSize", "Items cached at a time, by each egress shard; beyond it the one that was asked for longest ago is cached no more. 0 means any number.";
    domains_cached: DomainList = DomainList(Domains::ALL), "domainsCached", "Domains whose items are cached.";
    domains_not_cached: DomainList = DomainList(Domains::NONE), "domainsNotCached", "Domains whose items are not cached, whatever domains_cached says.";
    headline_permission_field: Entries = Entries::NONE, "", "Field that has the permission code of a headline, as source_distributor.headline_permission_field, for the clients of this P2PS alone: SERVICE:FIELD=NUMBER (docs/operating/permissions.md).";
    news_service_item_pair_list: Vec<String> = Vec::new(), "newsServiceItemPairList", "Items that are headlines then: SERVICE:NAME, or a name alone for all services that headline_permission_field names; * stands for any text in the name, ? for one character. Without one of the service N2_*.";
    latency_calc_enabled: bool = true, "latencyCalcEnabled", "Time every thirty-second turn that delivers something, so that it is known how long messages are in this process (docs/operating/seeing.md).";
    latency_calc_mount_based: bool = false, "latencyCalcMountBased", "Tell that of each client by itself, too, where latency_calc_enabled is on.";
    num_latency_samples: u32 = 0, "numLatencySamples", "Samples of each client by which its latency is told, the last ones, up to 10000; 0 means a hundred.";
    max_priority_class: u16 = 255, "maxPriorityClass", "Highest priority class (PriorityClass) of a request that counts, 1 to 255: a higher one is taken for this.";
    default_priority_class: u16 = 1, "defaultPriorityClass", "Priority class of requests that say none, 1 to max_priority_class.";
    max_views_per_item: u32 = 1_000, "", "Different views through which one item may be watched at a time; a further one is refused. 0 means any number.";
    work_per_turn: u32 = 1_000, "", "Items and watchers that are told of a lost source or service, and items of batches that are opened or closed, before the updates of others have their turn.";
    service_list: Vec<String> = Vec::new(), "serviceList", "The only services that clients of this P2PS see; empty means all.";
    blocked_service_list: Vec<String> = Vec::new(), "blockedServiceList", "Services that clients of this P2PS do not see, whatever service_list says.";
    disable_single_open_list: Vec<String> = Vec::new(), "disableSingleOpenList", "Application ids of clients for which nothing is recovered here, as if their logins had SingleOpen 0; they are told so.";
    service_group_list: Vec<String> = Vec::new(), "", "The only groups of source_distributor.service_group_list that clients of this P2PS see, by their names; empty means all.";
    disable_service_group_app_ids: Vec<String> = Vec::new(), "disableServiceGroupAppIds", "Application ids of clients whose directories show no service groups, or with GROUP:ID not that one (source_distributor.service_group_list, which the P2PS's file has to have, too).";
    disconnect_src_down: bool = false, "disconnectSrcDown", "Close the clients, and take no new ones, while all services are down, those of disconnect_service_list if it names some: so that they go to another server (docs/operating/running.md).";
    disconnect_single_src_down: bool = false, "disconnectSingleSrcDown", "The same while any of them is down.";
    disconnect_service_list: Vec<String> = Vec::new(), "disconnectServiceList", "The services that this is about; empty means all that there are.";
    dismount_on_outage: Vec<String> = Vec::new(), "dismountOnOutage" in "SERVICES", "Services each of which has the clients closed while it is down, after disconnect_after_s, whatever disconnect_src_down says; \"*\" means any. In rmds.cnf True or False at the service.";
    discourage_requests_on_outage: bool = false, "discourageRequestsOnOutage" in "SERVICE", "Say of a service that is down that it takes no requests (AcceptingRequests 0), so that clients which look at that ask another server, or later.";
    disconnect_after_s: u32 = 10, "", "How long that has to be so, seconds.";
    cached_services: Vec<String> = Vec::new(), "", "Services whose items are cached where enable_cache is on; empty means all.";
    service_ids: ServiceIdList = ServiceIdList(ServiceIds::new()), "serviceId" in "SERVICES", "Ids that services have here whenever they come, SERVICE=ID: for clients that know several servers and expect the same id for the same service (docs/operating/standby.md). Others get theirs, from 1, as they are first heard of.";
    support_pause_resume: bool = true, "supportPauseResume", "Clients may pause their streams, and are told so at login; false has pauses passed over.";
    support_warm_standby: bool = true, "supportWarmStandby", "Clients may name this server their active or their standby one, for all services or by service: a standby sends states and images, and no updates until it is made active.";
    connection_list: Vec<String> = Vec::new(), "", "Servers (HOST:PORT) that clients are told of that ask for them at login (DownloadConnectionConfig), most wanted first, this one among them (docs/operating/discovery.md). EMA connects by its own list alone, whatever it is told. Empty tells them of the hub's P2PSs, if enable_connect_config is on.";
    enable_connect_config: bool = false, "enableConnectConfig", "Tell the other P2PSs of the hub where clients reach this server and how full it is, and clients that ask at login of all P2PSs that are there, the best first (docs/operating/discovery.md). All processes of the hub have to know of it.";
    connection_host: String = String::new(), "", "Name or address by which clients reach this server, as enable_connect_config tells others. Empty means the address of p2ps.interface, or the host's name if that is all.";
    connection_order: ServerOrder = ServerOrder::default(), "", "Which of them a client finds first: \"list\" the first of connection_list, or the best P2PS, \"spread\" another one for each login, of P2PSs among those that are equally good.";
    load_factor_interval_s: u32 = 0, "loadFactorCalcInterval", "How often the directory's Load says how full this server is (LoadFactor, by its clients and its items, in sixteenths), and with enable_connect_config the other P2PSs of the hub, seconds: for those who have the same services from several servers, such as a Source Distributor of another site (docs/operating/discovery.md). 0 never says so.";
    scaling_factor: u32 = 1, "scalingFactor", "Times that this server is said to be full (load_factor_interval_s): 2 for one with half the room of others of the same limits (docs/operating/discovery.md). At least 1.";
    connection_standby_servers: u16 = 0, "", "How many connections such a client is to hold beside its first (NumStandbyServers).";
    open_rate: u32 = 250_000, "", "Items a second that a thread opens over all its clients, so that large watchlists do not delay those that stream; those that someone watches already do not count. 0 means as they come.";
    max_incoming_bytes_per_second: u32 = 0, "maxIncomingBytesPerSecond", "Bytes of messages that a client may send in a second (65536 or more): beyond it that client is not read for a moment, and its socket holds it back (docs/operating/running.md). 0 means any number.";
    max_incoming_messages_per_second: u32 = 0, "maxIncomingMessagesPerSecond", "Messages that a client may send in a second (1000 or more); a batch is one. 0 means any number.";
    guaranteed_output_buffers: u32 = 1_600, "guaranteedOutputBuffers", "Output buffers (of max_fragment_size bytes) that a client may fill before its own requests have to wait.";
    max_output_buffers: u32 = 16_000, "maxOutputBuffers", "Output buffers at which a slow client is cut off.";
    pool_size: u32 = 200_000, "poolSize", "Output buffers over all clients; beyond it the slowest clients are cut off first.";
    output_threshold_breach: u32 = 60, "outputThresholdBreach", "Percent of max_output_buffers at which a client is reported as slow.";
    output_threshold_ok: u32 = 30, "outputThresholdOK", "Percent of max_output_buffers below which it is reported as well again.";
    timed_writes: bool = false, "timedWrites", "Write by timer (throughput) and not at the end of each turn (latency).";
    flush_interval_ms: u32 = 20, "flushInterval", "The timer of timed_writes, milliseconds.";
    tcp_no_delay: bool = true, "tcpNoDelay", "Nagle's algorithm off.";
    rssl_msg_packing: bool = true, "rsslMsgPacking", "Put many messages into one frame.";
    max_fragment_size: u32 = 6_144, "maxFragmentSize", "Largest message in one frame, bytes; a longer one goes out in fragments.";
    tcp_send_buf_size: u32 = 262_144, "tcpSendBufSize", "Socket send buffer, bytes; 0 leaves it to the kernel.";
    tcp_recv_buf_size: u32 = 262_144, "tcpRecvBufSize", "Socket receive buffer, bytes; 0 leaves it to the kernel.";
    ping_timeout_s: u16 = 60, "pingTimeout", "Longest silence of a connection, seconds: the upper bound of what a client asks for.";
    min_ping_timeout_s: u16 = 6, "minPingTimeout", "Shortest ping timeout that a client may ask for, seconds.";
    client_to_server_pings: bool = true, "clientToServerPings", "Expect pings of clients; a silent one is cut off after its ping timeout.";
    server_to_client_pings: bool = true, "serverToClientPings", "Send pings to clients to which nothing else goes.";
    allow_comp_mode: bool = true, "allowCompMode", "Let clients use compression.";
    compression_type: Compression = Compression::None, "compressionType", "Compression that is agreed to when a client offers it.";
    min_compression_threshold: u32 = 0, "minCompressionThreshold", "Shorter messages are not compressed, bytes; 0 means 30 with zlib and 300 with LZ4.";
    force_rssl_compression: bool = false, "forceRsslCompression", "Compress whether or not the client asks for it.";
    zlib_compression_level: u32 = 3, "zlibCompressionLevel", "Effort of zlib, 1 to 9.";
    writer_thread_count: u16 = 0, "writerThreadCount", "Egress shards, each a thread with its own clients; 0 does everything in one thread.";
    bind_main_thread: String = String::new(), "bindMainThread", "Processors for the main thread, such as 0 or 2-3; empty leaves it to the kernel.";
    bind_writer_threads: Vec<String> = Vec::new(), "", "Processors for each egress shard in turn (RMDS: bindWriteThread.1, .2 and so on).";
    priority: String = String::new(), "priority", "Scheduling of the process's threads: \"fifo 55\" (real time, as chrt -f 55), \"nice -5\", or empty for the kernel's choice.";
    slice_us: u32 = 100, "", "Slice of time sharing that the threads ask the kernel for, microseconds (100 to 100000): a thread with a short one is let in sooner beside busy processes. 0 leaves it to the kernel.";
    shard_rest_us: u32 = 500, "", "Longest rest of an egress shard after a turn that brought little, microseconds: as long as the turn, for half as many sends. 0: none, for the lowest latency where processors are to spare.";
    io_uring: bool = false, "", "Send to all clients of a turn with one system call (io_uring), where the kernel allows it.";
    marketfeed: MarketfeedClients = MarketfeedClients::Asked, "", "Which RSSL clients get Market Price items as Marketfeed records (OPAQUE payloads): \"off\", \"asked\" (their login has MarketfeedData 1) or \"all\".";
    enable_marketfeed_port: bool = false, "", "Open marketfeed_port too.";
    marketfeed_port: u16 = 14016, "", "Port on which every RSSL client gets Market Price items as Marketfeed records, whatever marketfeed says; JSON clients are not concerned. 0 takes a free one.";
    marketfeed_services: Vec<String> = Vec::new(), "", "Services whose Market Price items every RSSL client gets as Marketfeed records.";
    expanded_enum_fields: bool = false, "expandedEnumFields" in "SERVICE", "Enumerations are their display text in Marketfeed, not their number.";
    seq_num_follows_marketfeed_rules: bool = false, "seqNumFollowsMarketfeedRules" in "SERVICE", "The record transaction level of Marketfeed is RWF's sequence number (16 bits of it), both ways; otherwise records are counted for each item, and RWF gets no number of them.";
    convert_to_idn_style: bool = true, "convertToIDNStyle" in "SERVICE", "Prices in Marketfeed have IDN's zero and blank, both ways: zero without a minus is blank and -0 is zero (docs/wire/marketfeed.md); false: zero is zero, and blank is empty.";
    use_template_number: bool = false, "useTemplateNumber" in "SERVICE", "The template number of a Marketfeed image that becomes a field list (convert_mfeed_data_to_rwf) is that field list's, too; false leaves it out. Records for clients have the field list's number in any case.";
    source_distributor_order: Vec<String> = Vec::new(), "", "Source Distributors in the order in which they are asked for items, by hub.instance, or as hub.source_distributors names them: the first that has a service serves, the others take over (docs/operating/standby.md). Those that are not named come after them. Empty: in the order in which they are heard.";
    source_distributor_failback_s: u32 = 0, "", "With source_distributor_order: how long the first Source Distributor has to have a service again before items go back to it, seconds; 0 leaves them where they are.";
    source_distributor_pairs: Vec<String> = Vec::new(), "", "Source Distributors that stand by for each other, ONE|OTHER, by the names of source_distributor_order: each item is open at both, one of them is used, and the other one takes over at once (docs/operating/standby.md). Without source_distributor_order their order is that of this list.";
    source_distributor_sequence_numbers: bool = false, "", "With source_distributor_pairs: the Source Distributors of a pair have providers that number the updates of an item alike, so that a takeover goes on with the next update and needs no new image.";
    max_posts_per_client: u32 = 10_000, "", "Posts of one client that may await their acks; a further one gets a NAK. 0 means any number.";
    post_timeout_s: u32 = 15, "insertTimeout" in "SERVICE", "Time in which a post has to be acknowledged by its provider, seconds.";
}

section! {
    /// The side that faces providers.
    SourceDistributor = "source_distributor", "Src_Dist";
    interface: String = String::new(), "", "Address to listen on for non-interactive providers, or its network; empty means all.";
    enable_nip_server: bool = true, "enableNIPServer", "Accept non-interactive providers.";
    nip_port: u16 = 14003, "listenPort", "Port on which non-interactive providers connect; 0 takes a free one.";
    websocket: bool = true, "", "Take WebSocket sessions (tr_json2, rssl.json.v2, rssl.rwf) on nip_port, beside RSSL.";
    websocket_ping_timeout_s: u16 = 30, "", "Longest silence of a non-interactive provider's JSON session, seconds (3 to 255): a ping goes out after a third of it.";
    nip_max_mounts: u32 = 256, "maxMounts" in "server*ipc*transmissionBus", "Non-interactive providers at a time.";
    nip_max_connections_per_address: u32 = 0, "", "Connections of non-interactive providers of one address at a time; 0 means any number.";
    nip_max_handshakes: u32 = 1_000, "", "Connections to nip_port that may be in their handshake at a time; a further one is closed at once. 0 means any number.";
    nip_max_incoming_bytes_per_second: u32 = 0, "", "Bytes of messages that one non-interactive provider may send in a second (65536 or more): beyond it it is not read for a moment. 0 means any number.";
    nip_max_incoming_messages_per_second: u32 = 0, "", "Messages that one non-interactive provider may send in a second (1000 or more). 0 means any number.";
    nip_login_timeout_s: u16 = 60, "", "Time in which a non-interactive provider has to send its first message after the handshake, seconds; 0 means any.";
    max_provider_backlog: u32 = 67_108_864, "", "Bytes that may wait for one provider's connection, requests and posts, before it is cut off: it does not read. Those that dial in have half as much together, beyond 65536 each.";
    nip_cert_file: String = String::new(), "", "PEM file with the certificate chain shown to non-interactive providers, leaf first; read again when it changes; with it nip_port takes TLS beside plain connections. Empty means no TLS.";
    nip_key_file: String = String::new(), "", "PEM file with the private key of nip_cert_file; read again when it changes.";
    nip_client_ca_file: String = String::new(), "", "PEM file with the certificates to which those of non-interactive providers must lead. With it nip_port takes TLS only, and nobody without such a certificate; empty asks for none.";
    user_name: String = String::from("quoteway"), "userName" in "ROUTE*route", "Login name towards interactive providers.";
    application_id: u32 = 256, "applicationId" in "ROUTE*route", "Application id towards interactive providers.";
    recovery_interval_ms: u32 = 1_000, "recoveryInterval" in "ROUTE*route" times 1000, "First pause before a lost route is dialled again, milliseconds; doubles up to ten times as much.";
    provider_choice: ProviderChoice = ProviderChoice::Load, "", "Which provider is asked for an item where several routes have its service: \"load\" by load factor and number of items, \"first\" the first route that takes requests, while the others stand by, \"hot\" as that and asks the next one for everything, too, so that it can take over at once (docs/operating/standby.md).";
    provides_sequence_numbers: bool = false, "", "With provider_choice \"hot\": the providers of a service number the updates of an item alike, so that a takeover goes on with the next update and needs no new image.";
    takeover_on_suspect: bool = true, "", "With provider_choice \"hot\": items that the provider in use says Suspect of, and that its standby has good, go on at the standby (docs/operating/standby.md).";
    active_standby_pairs: Vec<String> = Vec::new(), "", "With provider_choice \"hot\": routes that stand by for each other, ONE|OTHER, by their server_id; items at other routes have no standby. Empty: every route that has the service (docs/operating/standby.md).";
    blocked_server_list: Entries = Entries::NONE, "blockedServerList" in "SERVICES", "Routes from which a service is not taken, by their server_id: SERVICE:ID,ID.";
    qos_timeliness: Entries = Entries::NONE, "qosTimeliness" in "SERVICES", "Timeliness of a service whose provider states no quality: SERVICE:WORD, or WORD for all others; REALTIME, DELAYED or DELAYED_UNKNOWN. Without it REALTIME.";
    qos_time_info: Entries = Entries::NONE, "qosTimeInfo" in "SERVICES", "Delay of such a service that is DELAYED, seconds: SERVICE:NUMBER, or NUMBER for all others.";
    qos_rate: Entries = Entries::NONE, "qosRate" in "SERVICES", "Rate of such a service: SERVICE:WORD, or WORD for all others; TICK_BY_TICK, TIME_CONFLATED or JIT_CONFLATED. Without it TICK_BY_TICK.";
    qos_rate_info: Entries = Entries::NONE, "qosRateInfo" in "SERVICES", "Interval of such a service that is TIME_CONFLATED, milliseconds: SERVICE:NUMBER, or NUMBER for all others.";
    supports_snapshots: Entries = Entries::NONE, "supportsSnapshots" in "SERVICES", "Whether the providers of a service take requests for snapshots: SERVICE:true or SERVICE:false, or true or false for all others. Where they do not, one is asked for as a stream, which is closed behind its image. Without it they do.";
    supports_out_of_band_snapshots: Entries = Entries::NONE, "supportsOutofBandSnapshots" in "SERVICES", "Whether snapshots of a service can be had beyond the OpenLimit of its providers, whatever these say (SupportsOutOfBandSnapshots), likewise.";
    headline_permission_field: Entries = Entries::NONE, "", "Field that has the permission code of a headline, where the provider's permission data do not, and the number of the service in locks: SERVICE:FIELD=NUMBER, such as NEWS:1=257 (docs/operating/permissions.md).";
    news_name_list: Entries = Entries::NONE, "newsNameList" in "SERVICES", "Names of the items of such a service that are headlines: SERVICE:NAME,NAME; * stands for any text, ? for one character, and what begins with ^ is a regular expression. Without it N2_*.";
    service_group_list: ServiceGroupList = ServiceGroupList(Vec::new()), "", "Service groups, GROUP=SERVICE|SERVICE: one name that clients see beside those of the services, asked for at the first of these that takes requests, then at the next (docs/operating/standby.md).";
    site: String = String::new(), "", "Name of this site among those that are each other's providers, the same for all Source Distributors of a hub: a service that has come through this site is not taken (docs/operating/cascades.md). Empty: the host's name and a number drawn at each start.";
    failback_s: u32 = 0, "decisionTime" in "SERVICE*HSAutoFailback", "With provider_choice \"first\" or \"hot\": how long the first route has to have a service again before items go back to it, seconds; 0 leaves them where they are.";
    auto_failback: bool = true, "enable" in "SERVICE*HSAutoFailback", "Whether items go back so; false leaves them where they are, whatever failback_s says.";
    preemption: bool = false, "", "Where all providers of an item are at their OpenLimit, an item of a higher priority class takes the place of one of a lower class (docs/operating/running.md).";
    preemption_retry_s: u32 = 180, "preemptionRetryTime" in "SERVICE", "How long an item that has given its place to another waits before it is asked for again, seconds.";
    locked_item_list: Vec<String> = Vec::new(), "", "Names of items that give their places to nobody; * stands for any text, ? for one character, and what begins with ^ is a regular expression.";
    item_priority_file: Entries = Entries::NONE, "itemPriorityFile" in "SERVICES", "Files of items with a priority of their own for preemption: SERVICE:FILE for the items of a service, FILE for those of all; a line is a name and behind a blank the priority class (1 to 255) or the word locked, # begins a comment. Read again by a reload.";
    request_timeout_s: u32 = 15, "retryTimer" in "SERVICE", "Time after which an unanswered open is reported as Timeout and asked again, seconds.";
    normal_retry_time_s: u32 = 60, "normalRetryTime" in "SERVICE", "Longest pause before an item that was refused or lost is asked for again, here and at a P2PS of the same file, seconds: the first pause is a second, and doubles each time.";
    retry_limit: u32 = 0, "retryLimit" in "SERVICE", "How often an item is asked for again in a row without an answer of a provider before it is given up: Closed to who watches (at most 255). 0 asks for ever.";
    recover_items_on_close: bool = false, "recoverItemsOnClose" in "SERVICE", "An item that clients have had, and that its provider closes for good (Closed, but NotEntitled), is asked for again as one that it closes to be recovered; false ends it.";
    non_recoverable_polling: bool = false, "nonRecoverablePolling" in "SERVICE", "An item that its provider refuses for good (Closed, but NotEntitled) before clients have had it is asked for again as one that it closes to be recovered: they wait until it is there. False ends it.";
    max_load_level: u32 = 0, "maxLoadLevel" in "SERVICE", "A provider whose directory says a LoadFactor for the service above this (0 to 65535) is asked for no more items of it; they go to others, or wait. 0 asks whatever the load.";
    include_unwatched_items_in_load: bool = true, "includeUnwatchedItemsInLoad" in "SERVICE", "With provider_choice \"load\": items that nobody watches any more, and that stay open at a provider for age_unwatched_item_time_s, count as its items where the one with the fewest is asked; false leaves them out.";
    recognition_time_s: u32 = 0, "recognitionTime" in "SERVICE", "How long a provider has to have had a service up before it is asked for items, seconds, so that one that comes and goes is not asked each time. 0 asks at once.";
    stale_recovery_retry_time_s: u32 = 0, "staleRecoveryRetryTime" in "SERVICE", "How long a provider may leave an item Suspect that it has open before an image of it is asked for, again and again, seconds. 0 waits for what the provider says.";
    service_restart_time_s: u32 = 0, "serviceRestartTime" in "SERVICE", "How long a service is kept that no interactive provider offers any more, seconds: its items are Suspect and come back with a provider; then it is deleted, and they are closed. 0 keeps it for ever.";
    forward_item_priority_to_src_app: bool = true, "forwardItemPriorityToSrcApp" in "SERVICE", "Requests to providers have the priorities that clients want together; false leaves them without.";
    max_pending_out_insert: u32 = 100_000, "maxPendingOutInsert" in "SERVICE", "Posts of all clients that may await the acks of providers; a further one gets a NAK.";
    latency_calc_enabled: bool = true, "latencyCalcEnabled", "As p2ps.latency_calc_enabled, of a Source Distributor in a process, or a thread, of its own.";
    latency_calc_server_based: bool = false, "latencyCalcServerBased", "Tell of each provider by itself how long its messages are in this process, until they go to P2PSs, where latency_calc_enabled is on.";
    num_latency_samples: u32 = 0, "numLatencySamples", "Samples of each provider by which its latency is told, the last ones, up to 10000; 0 means a hundred.";
    contrib_service_list: Vec<String> = Vec::new(), "contribServiceList", "The only services that take posts of clients; others answer them with a NAK. Empty means all.";
    contrib_field_list: Entries = Entries::NONE, "contribFieldList" in "SERVICES", "The only fields that posts may have: SERVICE:FIELDS for one service, FIELDS for all others, such as \"FEED:22,25,-8000..-4001\"; a post with another one gets a NAK.";
    contrib_exchange_field_list: Entries = Entries::NONE, "contribExchangeFieldList" in "SERVICES", "Fields that posts may have beside those of contrib_field_list, written as that; they bound nothing alone.";
    contrib_max_update_rate: Entries = Entries::NONE, "contribMaxUpdateRate" in "SERVICES", "Posts of a service in a second, over all clients: SERVICE:NUMBER, or NUMBER for each of all others; a further one gets a NAK. 0 means any number.";
    contrib_min_update_rate: Entries = Entries::NONE, "contribMinUpdateRate" in "SERVICES", "Posts of one contributor (the address and id that a post says) in a second that are taken beyond contrib_max_update_rate, so that nobody who posts much keeps others from posting at all: SERVICE:NUMBER, or NUMBER for each of all others.";
    contrib_positive_template_id_list: Entries = Entries::NONE, "contribPositiveTemplateIdList" in "SERVICES", "The only templates that posts may be of, by the number of their field list: SERVICE:NUMBERS, or NUMBERS for each of all others, such as \"FEED:80,81\"; another one, and one that says none, gets a NAK.";
    contrib_negative_template_id_list: Entries = Entries::NONE, "contribNegativeTemplateIdList" in "SERVICES", "Templates that posts may not be of, likewise.";
    contrib_insert_rtl: Entries = Entries::NONE, "contribInsertRTL" in "SERVICES", "Whether posts that have no sequence number get one on their way to the provider, counted for each item from 1 to 65535 as a record transaction level: SERVICE:true or SERVICE:false, or true or false for all others. Without it they have none.";
    insert_flush_interval_ms: u32 = 0, "insertFlushInterval" in "SERVICE", "Time for which a post may wait for others, so that they go to their provider together, milliseconds, in steps of 20; 0 sends each at once.";
    age_unwatched_item_time_s: u32 = 0, "ageUnwatchedItemTime" in "SERVICE", "How long an item that nobody watches stays open at its provider, seconds; 0 closes it at once.";
    age_unpublished_s: u32 = 86_400, "", "How long the image of an item is held that no provider publishes any more and nobody watches, and a service that nobody offers and has no item, seconds; 0 for ever. They make room sooner where max_items is reached.";
    publication_patience_ms: u32 = 5_000, "", "How long an item may be asked for in vain after a non-interactive provider has offered its service, milliseconds; and on while others of its items go on to be published, up to twelve times that; then it is closed as one that nobody publishes. Who has had it before a restart waits without an end. 0 closes at once.";
    support_persistent_cache: bool = false, "supportPersistentCache", "Keep the images of non-interactive services in a file of persistent_cache_directory, so that they are there again after a restart (docs/operating/cache.md).";
    persistent_cache_directory: String = String::new(), "persistentCacheDirectory", "Folder of that file, for this process alone; made if it is not there.";
    persistent_cache_service_list: Vec<String> = Vec::new(), "persistentCacheServiceList", "Services whose images are kept; empty means all that are not interactive.";
    persistent_restore_as_stale: bool = true, "persistentRestoreAsStale" in "SERVICE", "Images that were kept are Suspect after a restart until they are published again; false gives them as they were.";
    persistent_interval_ms: u32 = 1_000, "", "Pause between two rounds of writing what has changed, milliseconds: so much of what was published last may be lost by a crash.";
    cache_resiliency_hosts: Vec<String> = Vec::new(), "", "Hub ports (HOST:PORT, or srv:_SERVICE._tcp.DOMAIN) of other Source Distributors of this hub: when this one starts, it copies the images of non-interactive services that the first of them holds that is there. Empty copies none.";
    cache_resiliency_time_s: u32 = 30, "", "Longest time that a start is held up for that copy, seconds; it goes on with what has come.";
    cache_res_download_pace: u32 = 10_000, "cacheResDownloadPace", "Images a second that another Source Distributor is given that starts; 0 for as many as it takes.";
    record_max_age_s: u32 = 0, "", "Time without a refresh or an update after which an item of a non-interactive service ends, on disk and for who watches it, seconds; 0 for ever.";
    record_max_number: u32 = 0, "", "Items of a non-interactive service; beyond it the one that was published longest ago ends. 0 means any number.";
    expiring_services: Vec<String> = Vec::new(), "", "Services for which record_max_age_s and record_max_number count; empty means all that are not interactive.";
    cache_location: CacheLocation = CacheLocation::SrcApp, "cacheLocation" in "SERVICE", "\"ssl\" holds the images of interactive providers' items here, too: a P2PS that asks for an image, joins or has lost messages gets it from memory (docs/operating/cache.md). \"srcApp\" asks the provider.";
    max_cache_size: u32 = 1_000_000, "", "Items of interactive providers that are cached at a time; beyond it the one that was asked for longest ago is cached no more. 0 means any number.";
    domains_cached: DomainList = DomainList(Domains::ALL), "", "Domains whose items are cached where cache_location is \"ssl\".";
    domains_not_cached: DomainList = DomainList(Domains::NONE), "", "Domains whose items are not cached, whatever domains_cached says.";
    cached_services: Vec<String> = Vec::new(), "", "Services whose items are cached where cache_location is \"ssl\"; empty means all.";
    convert_mfeed_data_to_rwf: bool = false, "convertMfeedDataToRWF" in "SERVICE", "Marketfeed records that providers send as OPAQUE payloads of Market Price become field lists by the dictionary; otherwise they are passed on as they are.";
    page_sizes: PageSizeList = PageSizeList(PageSizes { services: BTreeMap::new(), others: PageSize::DEFAULT }), "", "Rows and columns of ANSI pages, which are held as a grid here and in a P2PS: ROWSxCOLUMNS for all services, SERVICE=ROWSxCOLUMNS for one.";
    non_caching_item_list: Vec<String> = Vec::new(), "nonCachingItemList" in "SERVICE", "Names of items that are cached neither here nor in a P2PS; * stands for any text, ? for one character, and what begins with ^ is a regular expression.";
    initial_open_limit: u32 = 1_000, "initialOpenLimit" in "ROUTE*route", "Opens that may await an answer from a provider that states no OpenWindow.";
    tcp_no_delay: bool = true, "tcpNoDelay" in "ROUTE*route", "Nagle's algorithm off.";
    tcp_send_buf_size: u32 = 262_144, "tcpSendBufSize" in "ROUTE*route", "Socket send buffer, bytes; 0 leaves it to the kernel.";
    tcp_recv_buf_size: u32 = 262_144, "tcpRecvBufSize" in "ROUTE*route", "Socket receive buffer, bytes; 0 leaves it to the kernel.";
    ping_timeout_s: u16 = 30, "pingInterval" in "ROUTE*route", "Longest silence of a provider's connection, seconds.";
    source_thread_count: u16 = 0, "numSourceThreads", "Threads of a Source Distributor's process, each a Source Distributor of its own with its part of the routes and a hub port of its own: hub.port for the first, the next ones for the others (docs/operating/topologies.md). 0 and 1 are one thread; quoteway serve has one.";
    bind_source_threads: Vec<String> = Vec::new(), "", "Processors for each of them in turn; empty is that of bind_main_thread.";
    bind_main_thread: String = String::new(), "bindMainThread", "Processors for the main thread, such as 0 or 2-3; empty leaves it to the kernel. With quoteway serve and egress shards the main thread is the Source Distributor's, without them it is one with the P2PS.";
    priority: String = String::new(), "priority", "Scheduling of the process's threads, as p2ps.priority.";
    slice_us: u32 = 100, "", "Slice of time sharing that the threads ask the kernel for, as p2ps.slice_us.";
}

section! {
    /// One interactive provider that is dialled.
    Route = "route", "route";
    route_enabled: bool = true, "routeEnabled", "Dial it at all.";
    host_list: Vec<String> = Vec::new(), "hostList", "HOST:PORT of the provider; further ones are tried in turn when it cannot be reached. srv:_SERVICE._tcp.DOMAIN stands for the servers that the DNS names (docs/operating/discovery.md).";
    port: u16 = 14002, "port", "Port for entries of host_list that name none.";
    protocol: RouteProtocol = RouteProtocol::Rssl, "", "\"rssl\", or by WebSocket \"tr_json2\" (JSON) or \"rssl.rwf\"; each with TLS where rssl_connection_type is \"encrypted\".";
    rssl_connection_type: ConnectionType = ConnectionType::Socket, "rsslConnectionType", "\"socket\", or \"encrypted\" for TLS.";
    ca_file: String = String::new(), "", "PEM file with the certificates that an encrypted provider's must lead to; empty means those of this machine.";
    proxy_host: String = String::new(), "proxyHost", "HTTP proxy through which the provider is dialled (CONNECT); it looks the provider's name up. Empty means straight.";
    proxy_port: u16 = 8080, "proxyPort", "Port of proxy_host.";
    proxy_credentials_file: String = String::new(), "", "File whose first line is USER:PASSWORD towards proxy_host (Basic); read for each attempt. Empty: none.";
    compression_type: Compression = Compression::None, "compressionType", "Compression to offer.";
    user_name: String = String::new(), "userName", "Login name towards this provider; empty means that of source_distributor.";
    convert_mfeed_data_to_rwf: bool = false, "", "As source_distributor.convert_mfeed_data_to_rwf, for this provider.";
    server_id: String = String::new(), "serverId", "What operators call this provider beside its address: for quoteway ctl switch, blocked_server_list and active_standby_pairs.";
    source_thread: u16 = 0, "", "Which of source_thread_count threads dials it, from 1 on; 0 has routes that have no service in common go round them, and those without a service_list be in the first.";
    service_list: Vec<String> = Vec::new(), "serviceList", "Services to take from this provider; empty means all.";
    app_service_name: Vec<String> = Vec::new(), "appServiceName", "Names that services have at this provider, where they have others here: HERE=THERE; one without HERE is for the service at its place in service_list. A service of the provider that is called HERE itself is not taken.";
    priority_class_value: u16 = 0, "priorityClassValue", "Priority class of all requests to this provider, 1 to 255; 0: each has what its clients want together.";
    priority_count_multiplier: u16 = 1, "priorityCountMultiplier", "Times which the count of their priorities is taken.";
    recovery_interval_ms: Option<u32> = None, "recoveryInterval" times 1000, "As source_distributor.recovery_interval_ms, for this provider.";
    max_incoming_bytes_per_second: u32 = 0, "maxIncomingBytesPerSecond", "Bytes of messages that this provider may send in a second (65536 or more): beyond it it is not read for a moment, and its socket holds it back (docs/operating/running.md). 0 means any number.";
    max_incoming_messages_per_second: u32 = 0, "maxIncomingMessagesPerSecond", "Messages that this provider may send in a second (1000 or more). 0 means any number.";
    enable_tunnel_stream_aggregation: bool = false, "enableTunnelStreamAggregation", "Posts to this provider that clients make off-stream go in one tunnel stream, opened to the first service of service_list (or the first that has the domain SYSTEM), with a login of its own in it: as a contribution channel takes them (docs/operating/running.md).";
    tunnel_stream_user_name: String = String::new(), "", "Login name in that tunnel stream; empty means no login in it.";
    tunnel_stream_password_file: String = String::new(), "", "File whose first line is the password of that login; empty means none.";
    tunnel_stream_num_ipc_output_buffers: u32 = 400, "", "Posts that may wait in that tunnel stream until the provider has taken them; a further one is refused (NoResources). At least 1.";
    comm_links: Vec<String> = Vec::new(), "commLinks", "Names of communication lines by which this provider is reached: the LINK filter of the directory says of each of its services whether they are up (docs/operating/cascades.md).";
    server_cost: u32 = 0, "serverCost", "With provider_choice \"load\": providers of a lower cost are asked before those of a higher one, whatever their load (docs/operating/standby.md).";
    server_partition_list: Vec<String> = Vec::new(), "serverPartitionList", "Names of the items that this provider has; * stands for any text, ? for one character, and what begins with ^ is a regular expression. Empty means all.";
    server_partition_negation_list: Vec<String> = Vec::new(), "serverPartitionNegationList", "Names, likewise, of items that this provider does not have, whatever server_partition_list says.";
    max_cache: u32 = 0, "maxCache", "Items of each service that may be open at this provider at a time, where it states no lower limit (OpenLimit); a further one waits for a place, or takes that of another (preemption). 0 means any number.";
    interruption_detection: bool = false, "interruptionDetection" in "datastreamMonitor", "A service that has ticked and sends no data any more, though items of it are open, is left as if it were down: another provider takes over, or its items are Suspect until data come (docs/operating/standby.md).";
    interruption_duration_ms: u32 = 10_000, "interruptionDuration" in "datastreamMonitor" times 1000, "Silence of a service after which that is so, milliseconds.";
    traffic_window_s: u32 = 10, "trafficWindow" in "datastreamMonitor", "How long a service has to have ticked before, without such a silence, seconds; 0 counts any silence behind the first update.";
}

section! {
    /// An exchange's feed that the process takes in itself and serves as one of its services, a table [feed.NAME] for each (docs/operating/feeds.md).
    Feed = "feed", "feed";
    feed_enabled: bool = true, "", "Take it in at all.";
    source: String = String::new(), "", "Where it comes from: mold:GROUP:PORT,GROUP:PORT, soup:HOST:PORT, iex-tops:GROUP:PORT,... or iex-deep:GROUP:PORT,...; cme:CONFIG.XML, the exchange's configuration file; a venue on the web as coinbase:BTC-USD,ETH-USD (binance:, bitmex:, bitstamp:, independent-reserve:, kraken:, kraken-futures:) or wss://HOST/PATH#PRODUCTS; or a file, which is played once at its own pace.";
    service: String = String::new(), "", "Name of its service; empty means NAME of [feed.NAME].";
    suffix: String = String::from("usual"), "", "Behind each symbol; \"usual\" is nothing, .IEX of TOPS and .DEEP of DEEP.";
    symbols_file: String = String::new(), "", "File with the columns symbol,name,isin: the name that consumers ask for, and the ISIN, of the venue's symbols; others keep the venue's name. Empty means none.";
    line_interfaces: Vec<String> = Vec::new(), "", "Address of the interface on which its lines come, or one for each line; empty means as the routes of the host say.";
    repeater: String = String::new(), "", "HOST:PORT of the server that repeats messages (MoldUDP64 re-requests); empty means none.";
    snapshot_server: String = String::new(), "", "HOST:PORT of the server of snapshots (GLIMPSE); empty means none.";
    login_user: String = String::new(), "", "User name at the server of the session or of snapshots.";
    login_password_file: String = String::new(), "", "File whose first line is the password there.";
    login_session: String = String::new(), "", "Session there; empty means the one that runs.";
    receive_buffer: u32 = 16 << 20, "", "Receive buffer of the socket of each line, bytes.";
    channel: String = String::new(), "", "Channel of CME's configuration file; empty means its only one.";
    schema_file: String = String::new(), "", "Schema of CME's messages (templates_FixBinary.xml), which a channel or a capture of CME needs; empty means none.";
    web_socket: String = String::new(), "", "Address of the WebSocket of a venue on the web, wss://HOST:PORT/PATH; empty means the venue's usual one.";
    http_server: String = String::new(), "", "Server from which a venue on the web has the beginnings of its books fetched, https://HOST:PORT; empty means the venue's usual one.";
    ca_file: String = String::new(), "", "PEM file with the certificates that the servers of a venue on the web must lead to; empty means those of this machine.";
}

section! {
    /// Who may see what (docs/operating/permissions.md).
    Permissions = "permissions", "P2PS";
    mode: PermissionMode = PermissionMode::default(), "", "What permissions do: \"off\"; \"test\" checks and logs and denies nothing; \"on\".";
    rights_file: String = String::new(), "", "File that says who may see what, watched; this or rights_url is needed unless mode is \"off\".";
    rights_url: String = String::new(), "", "Where the same is to be had by HTTP (http:// or https://): asked again and again with the ETag of what is known (docs/operating/permissions.md).";
    rights_poll_s: u32 = 30, "", "How long the server of rights_url may hold a request until there is news, seconds; one that answers at once is asked again after as long. At least 1.";
    rights_timeout_s: u32 = 5, "", "How long the server of rights_url may take to connect and, beyond rights_poll_s, to answer, seconds. At least 1.";
    rights_ca_file: String = String::new(), "", "PEM file with the certificates that a https server of rights_url must lead to; empty means those of this machine.";
    rights_token_file: String = String::new(), "", "File with a token that requests to rights_url carry (Authorization: Bearer); read for each. Empty: none.";
    rights_grace_s: u32 = 0, "", "How long the file may be gone, or the server of rights_url silent, before the rights count as lost and fail and disconnect_on_loss decide, seconds.";
    fail: AbsentRights = AbsentRights::default(), "refuseConnectionsDacsDown", "While the rights cannot be read: \"last\" goes on with those known last, \"closed\" refuses new logins, \"open\" lets unknown users in unchecked. In rmds.cnf True is \"closed\", False is \"last\".";
    disconnect_on_loss: bool = false, "disconnectDacsDown", "Log everybody out when the rights cannot be read any more.";
    audit_file: String = String::new(), "", "File to which each login, watch, post and denial is appended as a line of JSON; empty writes none.";
    audit_file_mb: u32 = 100, "", "Size of the audit file after which it is kept under a number and another one begun, megabytes; 0 means any.";
    audit_files: u32 = 0, "", "Full audit files that are kept, the newest ones; 0 keeps all.";
    audit_sync: AuditSync = AuditSync::default(), "", "When what was written is forced to the disk: \"each\" time, once a \"second\", or \"never\" by the server itself.";
    audit_max: u32 = 65_536, "", "Audit lines that may wait to be written (32 MB of them at most): beyond three quarters new logins wait, beyond all requests and posts too; who is in keeps what is open.";
    locks_max: u32 = 65_536, "", "Different locks of items at a time; items with a further one are denied.";
}

section! {
    /// The web page, metrics and administration of a process.
    Http = "http", "HTTP";
    enabled: bool = true, "", "Serve HTTP at all.";
    port: u16 = 8080, "", "Port of the web page, /metrics and /api/v1; 0 takes a free one. If another program has 8080, the process goes on without.";
    interface: String = String::from("127.0.0.1"), "", "Address to listen on; another one than that of the loopback needs users. Empty means all.";
    users: Vec<String> = Vec::new(), "", "Who may look (viewer) or act (operator): NAME:viewer:HASH or NAME:operator:HASH, as quoteway ctl password prints them. Empty: whoever can connect may act.";
    origins: Vec<String> = Vec::new(), "", "Where the page is beside its own address, such as that of a TLS proxy in front: https://host:port. Browsers may act from there.";
    request_timeout_s: u16 = 30, "", "Time in which the head of a request has to come, seconds; a connection that asks nothing more is closed after it.";
    socket: String = String::new(), "", "Path of a Unix socket for quoteway ctl, open to the process's user alone; empty means none.";
}

section! {
    /// The log of a process, on standard error and in a file.
    Log = "log", "Log";
    level: String = String::new(), "selector" in "PROCESS", "How much is logged: error, warn, info, debug, trace, or by module as QUOTEWAY_LOG, which wins at the start. Empty means info.";
    file: String = String::new(), "", "File to which lines are appended, too. Empty: standard error alone has them.";
    file_mb: u32 = 100, "", "Size of file from which it is kept under a number behind its name, 1 the oldest, and another one begun, megabytes; 0 means any.";
    files: u32 = 10, "", "Full files that are kept, the newest ones; 0 keeps all.";
    standard_error: bool = true, "", "Lines go to standard error where there is a file, too; else only those that the file does not take.";
    syslog: Syslog = Syslog::default(), "install_system_action" in "PROCESS", "Lines that go to the system's log (/dev/log), too: FACILITY.LEVEL, such as \"daemon.info\" or \"local0.warning\", what is logged at all and is that severe. Empty: none. In rmds.cnf True is daemon.info.";
    format: LogFormat = LogFormat::Text, "", "\"text\" for people, or \"json\": a line is an object with time, level and text.";
    operators_file: String = String::new(), "", "File to which what operators do (HTTP, quoteway ctl, signals, new rights) is appended as a line of JSON with time, who and what, whatever the level of the log. Empty: the log alone has it, at every level.";
}

section! {
    /// Field and enumeration dictionary.
    DictionaryFiles = "dictionary", "service";
    field_file: String = String::new(), "fieldDictionary" in "SERVICE", "RDMFieldDictionary file; empty means the built-in dictionary.";
    enum_file: String = String::new(), "enumFile" in "SERVICE", "enumtype.def file; empty means the built-in one.";
}
