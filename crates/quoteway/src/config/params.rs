//! Every parameter: its section, name, type, default, RMDS name, unit and meaning, declared once.
//!
//! A new section also gets a field in [`Config`](super::Config) and its place in `Config::sections`.

use super::section::section;
use super::value::{Compression, ConnectionType};

section! {
    /// The side that faces consumers.
    P2ps = "p2ps", "P2PS";
    interface: String = String::new(), "", "Address to listen on; empty means all.";
    rssl_port: u16 = 14002, "rsslPort", "Port on which consumers connect; 0 takes a free one.";
    encrypted_port: u16 = 14006, "", "Port for consumers with the encrypted connection type (TLS), open when server_cert_file is set; 0 takes a free one.";
    server_cert_file: String = String::new(), "", "PEM file with this server's certificate chain, leaf first; empty means no TLS.";
    server_key_file: String = String::new(), "", "PEM file with the private key of server_cert_file.";
    max_mounts: u32 = 10_000, "maxMounts", "Consumer connections at a time; one more is refused with a text.";
    max_mounts_per_user: u32 = 256, "maxMountsPerUser", "Connections of one login name at a time.";
    item_limit: u32 = 1_000_000, "itemLimit", "Open items of one connection; a further one is refused as TooManyItems.";
    aggregate_item_limit: u32 = 5_000_000, "aggregateItemLimit", "Open items over all connections of one login name.";
    minimum_open_window: u32 = 500, "minimumOpenWindow", "Requests that may await their image at a time, for each service.";
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
    ping_timeout_s: u16 = 60, "pingTimeout" in "PORT", "Longest silence of a connection, seconds: the upper bound of what a client asks for.";
    min_ping_timeout_s: u16 = 6, "minPingTimeout" in "PORT", "Shortest ping timeout that a client may ask for, seconds.";
    compression_type: Compression = Compression::None, "compressionType", "Compression that is agreed to when a client offers it.";
    force_rssl_compression: bool = false, "forceRsslCompression", "Compress whether or not the client asks for it.";
    zlib_compression_level: u32 = 3, "zlibCompressionLevel", "Effort of zlib, 1 to 9.";
    writer_thread_count: u16 = 0, "writerThreadCount", "Egress shards, each a thread with its own clients; 0 does everything in one thread.";
    bind_main_thread: String = String::new(), "bindMainThread", "Processors for the main thread, such as 0 or 2-3; empty leaves it to the kernel.";
    bind_writer_threads: Vec<String> = Vec::new(), "bindWriteThread", "Processors for each egress shard in turn.";
    real_time_priority: u32 = 0, "", "Real-time priority of the threads (chrt -f), 1 to 99; 0 leaves it to the kernel.";
    post_timeout_s: u32 = 15, "insertTimeout", "Time in which a post has to be acknowledged by its provider, seconds.";
}

section! {
    /// The side that faces providers.
    SourceDistributor = "source_distributor", "Src_Dist";
    interface: String = String::new(), "", "Address to listen on for non-interactive providers; empty means all.";
    enable_nip_server: bool = true, "enableNIPServer", "Accept non-interactive providers.";
    nip_port: u16 = 14003, "listenPort", "Port on which non-interactive providers connect; 0 takes a free one.";
    nip_max_mounts: u32 = 256, "maxMounts" in "server*ipc*transmissionBus", "Non-interactive providers at a time.";
    user_name: String = String::from("quoteway"), "userName", "Login name towards interactive providers.";
    application_id: u32 = 256, "applicationId", "Application id towards interactive providers.";
    recovery_interval_ms: u32 = 1_000, "recoveryInterval" times 1000, "First pause before a lost route is dialled again, milliseconds; doubles up to ten times as much.";
    request_timeout_s: u32 = 15, "retryTimer", "Time after which an unanswered open is reported as Timeout and asked again, seconds.";
    age_unwatched_item_time_s: u32 = 0, "ageUnwatchedItemTime", "How long an item that nobody watches stays open at its provider, seconds; 0 closes it at once.";
    initial_open_limit: u32 = 1_000, "initialOpenLimit", "Opens that may await an answer from a provider that states no OpenWindow.";
    tcp_no_delay: bool = true, "tcpNoDelay", "Nagle's algorithm off.";
    tcp_send_buf_size: u32 = 262_144, "tcpSendBufSize", "Socket send buffer, bytes; 0 leaves it to the kernel.";
    tcp_recv_buf_size: u32 = 262_144, "tcpRecvBufSize", "Socket receive buffer, bytes; 0 leaves it to the kernel.";
    ping_timeout_s: u16 = 30, "pingInterval", "Longest silence of a provider's connection, seconds.";
    bind_main_thread: String = String::new(), "bindMainThread", "Processors for the thread of a source-distributor process, such as 0 or 2-3; empty leaves it to the kernel.";
    real_time_priority: u32 = 0, "", "Real-time priority of that thread (chrt -f), 1 to 99; 0 leaves it to the kernel.";
}

section! {
    /// One interactive provider that is dialled.
    Route = "route", "route";
    host_list: Vec<String> = Vec::new(), "hostList", "HOST:PORT of the provider; further ones are tried in turn when it cannot be reached.";
    port: u16 = 14002, "port", "Port for entries of host_list that name none.";
    rssl_connection_type: ConnectionType = ConnectionType::Socket, "rsslConnectionType", "\"socket\", or \"encrypted\" for TLS.";
    ca_file: String = String::new(), "", "PEM file with the certificates that an encrypted provider's must lead to; empty means those of this machine.";
    compression_type: Compression = Compression::None, "compressionType", "Compression to offer.";
    user_name: String = String::new(), "userName", "Login name towards this provider; empty means that of source_distributor.";
    service_list: Vec<String> = Vec::new(), "serviceList", "Services to take from this provider; empty means all.";
}

section! {
    /// Field and enumeration dictionary.
    DictionaryFiles = "dictionary", "dictionary";
    field_file: String = String::new(), "fieldDictionary", "RDMFieldDictionary file; empty means the built-in dictionary.";
    enum_file: String = String::new(), "enumFile", "enumtype.def file; empty means the built-in one.";
}
