//! Parameters of the hub between processes.

use super::section::section;
use super::value::HubTransport;

section! {
    /// The hub between Source Distributors and P2PSs that are processes of their own.
    Hub = "hub", "RRCP";
    name: String = String::from("quoteway"), "", "Name of the hub: those of one name find each other; its data stream is the topic quoteway.hub.NAME.";
    instance: String = String::new(), "", "Name of this Source Distributor within the hub, the same in every life of it; empty means the address of its hub port.";
    transport: HubTransport = HubTransport::Tcp, "transportType" in "PROCESS", "How the data stream travels: \"tcp\" (on the unicast connections), \"lbt-rm\" (multicast), \"lbt-ru\" (UDP), \"lbt-tcp\", \"lbt-ipc\" (shared memory: one host, or a host's rrcpd), or \"aeron\" (as the section aeron says).";
    rtds_status_texts: bool = false, "", "Texts of statuses begin as RTDS's do where a service is down (\"F10: Service down: ...\") or is not there (\"Service not available: ...\"), for programs and people that look for these; what is ours follows. Each process says so for what it tells.";
    interface: String = String::new(), "", "Address of the network interface that the hub uses, or its network, as 10.1.0.0/16: so one file does for many hosts. Empty leaves it to the kernel, and listens on all.";
    port: u16 = 14004, "", "Port on which a Source Distributor takes the unicast connections of its P2PSs; 0 takes a free one.";
    source_distributors: Vec<String> = Vec::new(), "", "HOST:PORT of the Source Distributors that a P2PS joins when the transport is \"tcp\", or srv:_SERVICE._tcp.DOMAIN for all that the DNS names (docs/operating/discovery.md); with the other transports it finds them.";
    key_file: String = String::new(), "", "File with the hub's shared key, at least 32 bytes that its owner alone can read: who does not have it can neither join nor announce. Empty means no key.";
    clock_tolerance_s: u32 = 30, "", "How far the clocks of a hub with a key may differ, seconds: an announcement that is older is a copy.";
    allow: Vec<String> = Vec::new(), "", "Addresses and networks (10.1.0.0/16) of this hub's processes: from others nobody connects, and no announcement is taken. Empty means all.";
    p2ps_per_host: u32 = 32, "", "P2PSs of one address that a Source Distributor takes at a time, of 2,048 in all.";
    greeting_timeout_s: u16 = 10, "", "Time in which a connection to the hub port has to greet, seconds; it is closed then.";
    tls_ca_file: String = String::new(), "", "PEM file with the certificates to which those of the other side of unicast connections must lead; with it they are encrypted. Empty means no TLS.";
    tls_cert_file: String = String::new(), "", "PEM file with this process's certificate chain for them, leaf first; it carries the address (or name) by which P2PSs connect.";
    tls_key_file: String = String::new(), "", "PEM file with the private key of tls_cert_file.";
    multicast_address: String = String::new(), "sendMultAddress", "Multicast group of the data stream; empty leaves it to the LBM options, and is 239.101.3.11 with Aeron, where the last number must be odd.";
    multicast_ttl: u32 = 16, "ipMultTTL|PacketTTL", "Time to live of multicast: how many routers it may pass.";
    udp_recv_buf_size: u32 = 8_388_608, "udpRecvBufSize" times 1024, "Socket receive buffer of multicast and UDP, bytes; what the kernel does not grant is said in the log.";
    udp_send_buf_size: u32 = 1_048_576, "udpSendBufSize" times 1024, "Socket send buffer of multicast and UDP, bytes.";
    lbm_options_file: String = String::new(), "", "File of LBM options (lines of context|source|receiver NAME VALUE) for the hub's topics.";
    lbm_options: Vec<String> = Vec::new(), "", "LBM options as such lines; they win over those of the file.";
    use_point_to_point_data: bool = false, "usePointToPointData" in "SERVICE", "Send what is for one P2PS (images, answers) on its unicast connection and not in the data stream.";
    heartbeat_interval_ms: u32 = 1_000, "", "Pause between heartbeats in each direction, milliseconds. A P2PS with paces_providers = false sends one each fifth time.";
    peer_timeout_ms: u32 = 5_000, "", "Silence after which the other side counts as lost, milliseconds; five times that for a P2PS with paces_providers = false.";
    lease_ms: u32 = 10_000, "", "How long a Source Distributor keeps open what a P2PS had open that is gone, milliseconds.";
    history_bytes: u32 = 67_108_864, "", "Bytes of its data stream of which a Source Distributor remembers the items, to tell a P2PS which ones lost messages were of. Memory is some 4 bytes a message.";
    max_items: u32 = 10_000_000, "", "Items that a Source Distributor holds at a time, all services together; its P2PSs take it for no more (four bytes each), so give them the same number.";
    max_backlog: u32 = 67_108_864, "", "Bytes that may wait for one P2PS's connection before it is cut off and has to join again.";
    window_bytes: u32 = 8_388_608, "", "Bytes of the data stream that may be on their way to a P2PS before the providers have to wait for it; at least 1 MB, or 0, which waits for nobody.";
    patience_ms: u32 = 500, "", "How long the providers wait for a P2PS that does not read, milliseconds; it is left behind then until it has caught up.";
    paces_providers: bool = true, "", "Whether the providers wait for this P2PS when it is behind. With false they never do, and what it alone has asked for comes on its unicast connection: for hubs with very many P2PSs (quoteway desktop).";
    max_lag: u64 = 0, "", "Messages of the data stream by which a P2PS may be behind before it is declared lost; 0 for any number.";
    max_requests: u32 = 1_000_000, "", "Requests that a P2PS may send between two heartbeats before it is declared lost; 0 for any number.";
    tcp_send_buf_size: u32 = 1_048_576, "", "Socket send buffer of the unicast connections, bytes; 0 leaves it to the kernel.";
    tcp_recv_buf_size: u32 = 1_048_576, "", "Socket receive buffer of the unicast connections, bytes; 0 leaves it to the kernel.";
}

section! {
    /// The daemon that carries data streams between the network ([hub]) and the shared memory of its host.
    Rrcpd = "rrcpd", "RRCP";
    hubs: Vec<String> = Vec::new(), "", "Names of further hubs to carry, beside hub.name.";
    local_lbm_options: Vec<String> = Vec::new(), "", "LBM options for the shared-memory side, as lines of context|source|receiver NAME VALUE; they win over those of the hub.";
    bind_main_thread: String = String::new(), "bindMainThread", "Processors for the daemon, such as 0 or 2-3; empty leaves it to the kernel.";
    priority: String = String::new(), "priority", "Scheduling of the daemon, such as \"fifo 55\" or \"nice -5\"; empty leaves it to the kernel.";
}
