//! Every option that is accepted, with its default. Names, scopes, units and the product's defaults are facts of its public
//! documentation (version 6.17); what they mean is said for those that have an effect here.

use core::marker::PhantomData;

use super::value::{
    ActivityMethod, BitsPerSecond, Bytes, ChannelBehavior, Consensus, Count, Daemon, FdManagement, Flag,
    FlightBehavior, Group, Identifier, IndexEligibility, InterestMode, Interface, Intergroup, Intragroup, Millis,
    OperationalMode, OwnGroup, Port, Seconds, SendOrder, Services, SignedMillis, SlowReceivers, SourceSideFiltering,
    Store, StoreBehavior, StoreGroup, Text, TransportId, TransportName, Value, WaitBehavior,
};
use super::{Kind, Scope, Unit};
use crate::topic::Ordering;
use crate::transport::ipc::Pacing;
use crate::wire::lbmr::PatternKind;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The option's LBM name.
    pub name: &'static str,
    /// What it belongs to.
    pub scope: Scope,
    /// What values it takes.
    pub kind: Kind,
    /// The value if none is given.
    pub default: &'static str,
    /// The product's default where ours is another one.
    pub product_default: Option<&'static str>,
    /// Unit of a number.
    pub unit: Unit,
    /// What it does; empty = accepted so that files written for the product load, without effect here.
    pub meaning: &'static str,
}

impl Entry {
    const fn new<T: Value>(scope: Scope, name: &'static str, default: &'static str, meaning: &'static str) -> Self {
        Self { name, scope, kind: T::KIND, default, product_default: None, unit: T::UNIT, meaning }
    }

    const fn at_least(mut self, least: u64) -> Self {
        if let Kind::Number(_, most) = self.kind {
            self.kind = Kind::Number(least, most);
        }
        self
    }

    const fn at_most(mut self, most: u64) -> Self {
        if let Kind::Number(least, _) = self.kind {
            self.kind = Kind::Number(least, most);
        }
        self
    }

    const fn product(mut self, default: &'static str) -> Self {
        self.product_default = Some(default);
        self
    }
}

/// A name of the table in small letters, as LBM writes it.
const fn small<const LENGTH: usize>(name: &str) -> [u8; LENGTH] {
    let (name, mut letters, mut i) = (name.as_bytes(), [0; LENGTH], 0);
    while i < LENGTH {
        letters[i] = name[i].to_ascii_lowercase();
        i += 1;
    }
    letters
}

const fn is_same(a: &str, b: &str) -> bool {
    let (a, b, mut i) = (a.as_bytes(), b.as_bytes(), 0);
    while i < a.len() && i < b.len() && a[i].eq_ignore_ascii_case(&b[i]) {
        i += 1;
    }
    i == a.len() && i == b.len()
}

/// Where an option stands in the table, in whatever letters its name is given. Asked when constants are made.
const fn position(scope: Scope, name: &str) -> usize {
    let mut at = 0;
    while at < ENTRIES.len() {
        if ENTRIES[at].scope as u8 == scope as u8 && is_same(ENTRIES[at].name, name) {
            return at;
        }
        at += 1;
    }
    panic!("no such option")
}

/// An option of the table whose values are of type `T`. Those that there are, are constants of [`ContextOption`], [`SourceOption`],
/// [`ReceiverOption`] and [`WildcardOption`]: no other can be named.
///
/// ```
/// use lbm::options::{Options, SourceOption, TransportName};
///
/// let mut options = Options::new();
/// options.put(SourceOption::TRANSPORT, "lbtrm")?;
/// assert_eq!(options.get(SourceOption::TRANSPORT), TransportName::Lbtrm);
/// let nanoseconds: u64 = options.get(SourceOption::TRANSPORT_LBTRM_IGNORE_INTERVAL);
/// assert_eq!(nanoseconds, 100_000_000);
/// # Ok::<(), lbm::options::OptionError>(())
/// ```
///
/// A name that is not there, or is one of another scope, does not compile:
///
/// ```compile_fail,E0599
/// # use lbm::options::{Options, SourceOption};
/// Options::new().get(SourceOption::TRANSPORT_LBTRM_IGNORE_INTERVALL);
/// ```
///
/// Nor does reading an option as what it is not:
///
/// ```compile_fail,E0308
/// # use lbm::options::{Options, SourceOption};
/// let text: &str = Options::new().get(SourceOption::TRANSPORT_LBTRM_IGNORE_INTERVAL);
/// ```
pub struct Opt<T> {
    /// Place in [`TABLE`].
    pub(super) index: usize,
    value: PhantomData<fn() -> T>,
}

impl<T> Clone for Opt<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Opt<T> {}

impl<T> Opt<T> {
    const fn of(scope: Scope, name: &str) -> Self {
        Self { index: position(scope, name), value: PhantomData }
    }

    /// The line of the table.
    pub fn entry(self) -> &'static Entry {
        &TABLE[self.index]
    }

    /// The option's LBM name.
    pub fn name(self) -> &'static str {
        self.entry().name
    }
}

impl<T> core::fmt::Debug for Opt<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} {}", self.entry().scope, self.name())
    }
}

/// Options of a context.
#[derive(Debug)]
pub enum ContextOption {}
/// Options of a source.
#[derive(Debug)]
pub enum SourceOption {}
/// Options of a receiver.
#[derive(Debug)]
pub enum ReceiverOption {}
/// Options of a wildcard receiver.
#[derive(Debug)]
pub enum WildcardOption {}

/// The type whose constants are the options of a scope.
macro_rules! constants_of {
    (Context) => {
        ContextOption
    };
    (Source) => {
        SourceOption
    };
    (Receiver) => {
        ReceiverOption
    };
    (Wildcard) => {
        WildcardOption
    };
}

/// Makes of each line `scope NAME: type [least, most] = default (the product's default), meaning;` an entry of the table and a constant.
macro_rules! options {
    ($(
        $scope:ident $name:ident: $type:ident $([$least:literal $(, $most:literal)?])? = $default:literal
        $((product $product:literal))?, $meaning:literal;
    )*) => {
        const ENTRIES: &[Entry] = &[$({
            const CAPITALS: &str = stringify!($name);
            const LETTERS: [u8; CAPITALS.len()] = small(CAPITALS);
            const NAME: &str = match core::str::from_utf8(&LETTERS) {
                Ok(name) => name,
                Err(_) => panic!("names are ASCII"),
            };
            Entry::new::<$type>(Scope::$scope, NAME, $default, $meaning)
                $(.at_least($least) $(.at_most($most))?)?
                $(.product($product))?
        },)*];

        /// All options, by subject.
        pub static TABLE: &[Entry] = ENTRIES;

        $(
            impl constants_of!($scope) {
                #[doc = concat!("Default ", $default, "; ", $meaning)]
                #[allow(rustdoc::broken_intra_doc_links, reason = "brackets of an option's own syntax, as lists of options show it")]
                pub const $name: Opt<$type> = Opt::of(Scope::$scope, stringify!($name));
            }
        )*
    };
}

options! {
    // General.
    Context COMPATIBILITY_INCLUDE_PRE_UM_6_0_BEHAVIOR: Count = "0", "";
    Context CONTEXT_NAME: Text = "", "";
    Context DEFAULT_INTERFACE: Interface = "0.0.0.0", "interface for everything that has no interface of its own, as address/bits";
    Context DYNAMIC_FRAGMENTATION_REDUCTION: Flag = "0", "always on here: a fragment is cut to the headers that it has";
    Context FD_MANAGEMENT_TYPE: FdManagement = "select", "how descriptors are waited for: all values mean epoll here";
    Context FILE_DESCRIPTOR_MANAGEMENT_BEHAVIOR: WaitBehavior = "pend", "whether the receiving thread blocks or polls";
    Receiver MESSAGE_SELECTOR: Text = "", "";
    Context MULTIPLE_RECEIVE_MAXIMUM_DATAGRAMS: Count = "0", "";
    Context OPERATIONAL_MODE: OperationalMode = "embedded", "the application drives a context here, whatever it says";
    Receiver ORDERED_DELIVERY: Ordering = "1", "1 in order, -1 as messages arrive, 0 as fragments arrive";
    Context RECEIVER_CALLBACK_SERVICE_TIME_ENABLED: Count = "0", "";
    Context STATISTICS: Flag = "1", "whether `quoteway lbmstat` on this host may read the counters; not an option of the product";
    Context SOURCE_INCLUDES_TOPIC_INDEX: Flag = "1", "TIRs name topic indexes; always so here";
    Source TRANSPORT: TransportName = "tcp", "how messages of a source travel";
    Context TRANSPORT_DATAGRAM_MAX_SIZE: Bytes [0, 65_535] = "0", "longest datagram of all transports that have none of their own, 0 = not set; the name of old releases";
    Receiver TRANSPORT_DEMUX_TABLESZ: Count = "1", "";
    Context UDP_OFFLOAD: Flag = "1", "trains of datagrams by one call (UDP GSO and GRO) where the kernel has them; not an option of the product";
    Context LBTRU_CONNECTED_CLIENTS: Count [0, 1_024] = "128", "so many clients of an LBT-RU session have a connected socket of their own, which saves the kernel a route lookup a datagram; not an option of the product";
    Context UDP_BUSY_POLL: Count [0, 1_000_000] = "0", "microseconds for which a receive that finds nothing polls the network card (SO_BUSY_POLL), 0 = the system's setting; not an option of the product";
    Context TRANSPORT_SESSION_MULTIPLE_SENDING_THREADS: Flag = "1", "whether several threads may send on a session: a context belongs to one thread here and takes no lock, whatever this says (in C: one lock a context)";
    Context TRANSPORT_SESSION_SINGLE_RECEIVING_THREAD: Count = "0", "";
    Source TRANSPORT_SOURCE_SIDE_FILTERING_BEHAVIOR: SourceSideFiltering = "none", "inclusion: a source of LBT-TCP sends to each receiver the topics that it wants alone; ulb: and of topics with queues the messages alone that are assigned to it; other transports send to all";
    Source TRANSPORT_TOPIC_SEQUENCE_NUMBER_INFO_ACTIVE_THRESHOLD: Seconds = "60", "how long after the last message the last number is repeated, 0 = for ever";
    Source TRANSPORT_TOPIC_SEQUENCE_NUMBER_INFO_INTERVAL: Millis = "5000", "after so much silence the last number of a topic is sent, 0 = never";
    Receiver TRANSPORT_TOPIC_SEQUENCE_NUMBER_INFO_REQUEST_INTERVAL: Millis = "1000", "";
    Receiver TRANSPORT_TOPIC_SEQUENCE_NUMBER_INFO_REQUEST_MAXIMUM: Count = "60", "";
    Source USE_EXTENDED_RECLAIM_NOTIFICATIONS: Count = "1", "";
    Receiver USE_HOTLINK: Count = "0", "";
    Source USE_HOTLINK: Count = "0", "";
    // Topic resolution.
    Context DISABLE_EXTENDED_TOPIC_RESOLUTION_MESSAGE_OPTIONS: Count = "0", "";
    Receiver RESOLUTION_NO_SOURCE_NOTIFICATION_THRESHOLD: Count = "0", "";
    Receiver RESOLUTION_NUMBER_OF_SOURCES_QUERY_THRESHOLD: Count = "10000000", "a receiver asks no more once it has so many sources";
    Wildcard RESOLUTION_NUMBER_OF_SOURCES_MAXIMUM: Count = "250000", "a wildcard receiver takes no more sources than this (about 1 KB each), whoever advertises; of the context's options, 0 = the context's million; not an option of the product";
    Source RESOLVER_ADVERTISEMENT_MAXIMUM_INITIAL_INTERVAL: Millis = "500", "initial phase of a source: doubled up to this interval";
    Source RESOLVER_ADVERTISEMENT_MINIMUM_INITIAL_DURATION: Millis = "5000", "initial phase of a source: how long";
    Source RESOLVER_ADVERTISEMENT_MINIMUM_INITIAL_INTERVAL: Millis = "10", "initial phase of a source: first interval";
    Source RESOLVER_ADVERTISEMENT_MINIMUM_SUSTAIN_DURATION: Seconds = "60", "sustaining phase of a source: how long, 0 = for ever";
    Source RESOLVER_ADVERTISEMENT_SEND_IMMEDIATE_RESPONSE: Flag = "1", "whether a query is answered at once";
    Source RESOLVER_ADVERTISEMENT_SUSTAIN_INTERVAL: Millis = "1000", "sustaining phase of a source: interval";
    Context RESOLVER_CACHE: Count = "1", "";
    Context RESOLVER_CONTEXT_NAME_ACTIVITY_TIMEOUT: Millis = "60000", "";
    Context RESOLVER_CONTEXT_NAME_QUERY_DURATION: Millis = "0", "";
    Context RESOLVER_CONTEXT_NAME_QUERY_MAXIMUM_INTERVAL: Millis = "1000", "";
    Context RESOLVER_CONTEXT_NAME_QUERY_MINIMUM_INTERVAL: Millis = "100", "";
    Context RESOLVER_DATAGRAM_MAX_SIZE: Bytes [500, 65_535] = "8192", "longest topic-resolution packet";
    Context RESOLVER_DISABLE_UDP_TOPIC_RESOLUTION: Flag = "0", "1: topics are resolved by resolver_service alone, neither by multicast nor through daemons";
    Context RESOLVER_DOMAIN_ID_ACTIVE_PROPAGATION_TIMEOUT: Count = "0", "";
    Context RESOLVER_INITIAL_ADVERTISEMENT_BPS: BitsPerSecond = "1000000", "limit of advertisements, 0 = none; the larger of this and the sustaining one holds";
    Context RESOLVER_INITIAL_ADVERTISEMENTS_PER_SECOND: Count = "1000", "limit of advertisements, 0 = none";
    Context RESOLVER_INITIAL_QUERIES_PER_SECOND: Count = "1000", "limit of queries, 0 = none";
    Context RESOLVER_INITIAL_QUERY_BPS: BitsPerSecond = "1000000", "limit of queries, 0 = none; the larger of this and the sustaining one holds";
    Receiver RESOLVER_QUERY_MAXIMUM_INITIAL_INTERVAL: Millis = "200", "initial phase of a receiver: doubled up to this interval";
    Receiver RESOLVER_QUERY_MINIMUM_INITIAL_DURATION: Millis = "5000", "initial phase of a receiver: how long";
    Receiver RESOLVER_QUERY_MINIMUM_INITIAL_INTERVAL: Millis = "20", "initial phase of a receiver: first interval";
    Receiver RESOLVER_QUERY_MINIMUM_SUSTAIN_DURATION: Seconds = "60", "sustaining phase of a receiver: how long, 0 = for ever";
    Receiver RESOLVER_QUERY_SUSTAIN_INTERVAL: Millis = "1000", "sustaining phase of a receiver: interval";
    Context RESOLVER_RECEIVER_DATAGRAM_MAX_SIZE: Bytes = "0", "";
    Context RESOLVER_RECEIVER_MAP_TABLESZ: Count = "131111", "";
    Context RESOLVER_SERVICE: Services = "", "resolution services, each [interface[:port]->]host:port; at most five, each line adds some, 0.0.0.0:0 takes back those before it";
    Context RESOLVER_SERVICE_INTEREST_MODE: InterestMode = "filter", "of which sources a resolution service tells: filter, of topics that receivers want; flood, of all";
    Source RESOLVER_SEND_FINAL_ADVERTISEMENTS: Count = "0", "the format of these is not known; has no effect here";
    Source RESOLVER_SEND_INITIAL_ADVERTISEMENT: Flag = "1", "";
    Context RESOLVER_SOURCE_DATAGRAM_MAX_SIZE: Bytes = "0", "";
    Context RESOLVER_SOURCE_MAP_TABLESZ: Count = "131111", "";
    Context RESOLVER_SUSTAIN_ADVERTISEMENT_BPS: BitsPerSecond = "1000000", "limit of advertisements, 0 = none; the larger of this and the initial one holds";
    Context RESOLVER_SUSTAIN_ADVERTISEMENTS_PER_SECOND: Count = "0", "";
    Context RESOLVER_SUSTAIN_QUERIES_PER_SECOND: Count = "0", "";
    Context RESOLVER_SUSTAIN_QUERY_BPS: BitsPerSecond = "1000000", "limit of queries, 0 = none; the larger of this and the initial one holds";
    Context RESOLVER_UNICAST_ACTIVITY_TIMEOUT: Millis = "1000", "a daemon is taken for dead after this silence";
    Context RESOLVER_UNICAST_CHANGE_INTERVAL: Millis = "200", "";
    Context RESOLVER_UNICAST_CHECK_INTERVAL: Millis = "200", "";
    Context RESOLVER_UNICAST_FORCE_ALIVE: Count = "0", "";
    Context RESOLVER_UNICAST_IGNORE_UNKNOWN_SOURCE: Count = "1", "";
    Context RESOLVER_UNICAST_KEEPALIVE_INTERVAL: Millis = "500", "how often a daemon is told that we live";
    // Topic resolution by multicast.
    Context RESOLVER_MULTICAST_ADDRESS: Group = "224.9.10.11", "group of topic resolution, both ways";
    Context RESOLVER_MULTICAST_INCOMING_ADDRESS: OwnGroup = "224.9.10.11", "group of topic resolution, receiving; 0.0.0.0 = resolver_multicast_address";
    Context RESOLVER_MULTICAST_INCOMING_PORT: Port = "12965", "port of topic resolution, receiving; 0 = resolver_multicast_port";
    Context RESOLVER_MULTICAST_INTERFACE: Interface = "0.0.0.0", "interface of topic resolution and of LBT-RM";
    Context RESOLVER_MULTICAST_OUTGOING_ADDRESS: OwnGroup = "224.9.10.11", "group of topic resolution, sending; 0.0.0.0 = resolver_multicast_address";
    Context RESOLVER_MULTICAST_OUTGOING_PORT: Port = "12965", "port of topic resolution, sending; 0 = resolver_multicast_port";
    Context RESOLVER_MULTICAST_PORT: Port = "12965", "port of topic resolution, both ways";
    Context RESOLVER_MULTICAST_RECEIVER_SOCKET_BUFFER: Bytes = "8388608", "receive buffer of topic resolution; the granted size is checked";
    Context RESOLVER_MULTICAST_TTL: Count [0, 255] = "16", "time to live of all multicast";
    // Topic resolution by unicast.
    Context RESOLVER_UNICAST_DAEMON: Daemon = "", "a resolver daemon, [Interface[:LocalPort]->]Address:Port; may come several times";
    Context RESOLVER_UNICAST_INTERFACE: Interface = "0.0.0.0", "interface towards resolver daemons";
    Context RESOLVER_UNICAST_PORT_HIGH: Port = "14406", "last local port towards resolver daemons";
    Context RESOLVER_UNICAST_PORT_LOW: Port = "14402", "first local port towards resolver daemons";
    Context RESOLVER_UNICAST_RECEIVER_SOCKET_BUFFER: Bytes = "8388608", "receive buffer towards resolver daemons";
    // TCP, network.
    Receiver TRANSPORT_TCP_INTERFACE: Interface = "0.0.0.0", "interface of the session";
    Source TRANSPORT_TCP_INTERFACE: Interface = "0.0.0.0", "interface of the session";
    Context TRANSPORT_TCP_MAXIMUM_PORTS: Count [0, 65_535] = "10", "sessions per context";
    Source TRANSPORT_TCP_PORT: Port = "0", "port of the session, 0 = from the pool";
    Context TRANSPORT_TCP_PORT_HIGH: Port = "14390", "last port of the pool";
    Context TRANSPORT_TCP_PORT_LOW: Port = "14371", "first port of the pool";
    // TCP, operation.
    Source TRANSPORT_SESSION_MAXIMUM_BUFFER: Bytes = "262144" (product "65536"), "bytes that may wait for the socket before a send would block";
    Receiver TRANSPORT_TCP_ACTIVITY_METHOD: ActivityMethod = "timer", "";
    Receiver TRANSPORT_TCP_ACTIVITY_TIMEOUT: Millis = "0", "";
    Source TRANSPORT_TCP_ACTIVITY_TIMEOUT: Millis = "0", "";
    Source TRANSPORT_TCP_COALESCE_THRESHOLD: Count = "1024", "";
    Context TRANSPORT_TCP_DATAGRAM_MAX_SIZE: Bytes = "65535", "longest message on the stream";
    Receiver TRANSPORT_TCP_DRO_LOSS_RECOVERY_TIMEOUT: Millis = "0", "";
    Source TRANSPORT_TCP_EXCLUSIVEADDR: Count = "1", "";
    Source TRANSPORT_TCP_LISTEN_BACKLOG: Count = "5", "connections that wait to be accepted";
    Source TRANSPORT_TCP_MULTIPLE_RECEIVER_BEHAVIOR: SlowReceivers = "normal", "what a source does about slow receivers";
    Source TRANSPORT_TCP_MULTIPLE_RECEIVER_SEND_ORDER: SendOrder = "serial", "";
    Source TRANSPORT_TCP_NODELAY: Flag = "1", "whether Nagle's algorithm is off";
    Context TRANSPORT_TCP_RECEIVER_SOCKET_BUFFER: Bytes = "0", "receive buffer, 0 = the kernel's choice";
    Source TRANSPORT_TCP_REUSEADDR: Count = "0", "always on here";
    Source TRANSPORT_TCP_SENDER_SOCKET_BUFFER: Bytes = "0", "send buffer, 0 = the kernel's choice";
    Source TRANSPORT_TCP_USE_SESSION_ID: Flag = "1", "";
    // LBT-RM, network.
    Source TRANSPORT_LBTRM_DESTINATION_PORT: Port = "14400", "port to which datagrams go; same group and port = same session";
    Source TRANSPORT_LBTRM_MULTICAST_ADDRESS: OwnGroup = "0.0.0.0", "group of the source, 0.0.0.0 = from the pool";
    Context TRANSPORT_LBTRM_MULTICAST_ADDRESS_HIGH: Group = "224.10.10.14", "last group of the pool";
    Context TRANSPORT_LBTRM_MULTICAST_ADDRESS_LOW: Group = "224.10.10.10", "first group of the pool";
    Context TRANSPORT_LBTRM_SOURCE_PORT_HIGH: Port = "14399", "last port for NAKs";
    Context TRANSPORT_LBTRM_SOURCE_PORT_LOW: Port = "14390", "first port for NAKs, one per session";
    // LBT-RM, reliability.
    Source TRANSPORT_LBTRM_IGNORE_INTERVAL: Millis = "100" (product "500"), "no second retransmission of a datagram within this time";
    Receiver TRANSPORT_LBTRM_NAK_BACKOFF_INTERVAL: Millis = "200", "between NAKs, times 0.5 to 1.5";
    Receiver TRANSPORT_LBTRM_NAK_GENERATION_INTERVAL: Millis [5] = "10000", "a loss is given up";
    Receiver TRANSPORT_LBTRM_NAK_INITIAL_BACKOFF_INTERVAL: Millis = "50", "from a loss to its first NAK, times 0.5 to 1.5";
    Receiver TRANSPORT_LBTRM_NAK_SUPPRESS_INTERVAL: Millis = "1000", "no NAK for so long after an NCF";
    Context TRANSPORT_LBTRM_RECEIVER_SOCKET_BUFFER: Bytes = "8388608", "receive buffer; the granted size is checked";
    Receiver TRANSPORT_LBTRM_SEND_NAKS: Flag = "1", "whether receivers ask for what they miss";
    Context TRANSPORT_LBTRM_SOURCE_SOCKET_BUFFER: Bytes = "1048576", "send buffer";
    Source TRANSPORT_LBTRM_TRANSMISSION_WINDOW_LIMIT: Bytes = "0", "the window is of fixed size here";
    Source TRANSPORT_LBTRM_TRANSMISSION_WINDOW_SIZE: Bytes [65_536, 1_073_741_824] = "25165824", "bytes kept for retransmission";
    // LBT-RM, operation.
    Receiver TRANSPORT_LBTRM_ACTIVITY_TIMEOUT: Millis = "60000", "a silent session ends";
    Source TRANSPORT_LBTRM_COALESCE_THRESHOLD: Count = "15", "messages are written in place here";
    Context TRANSPORT_LBTRM_DATA_RATE_ADAPTIVE: Flag = "1", "lets the data rate fall while a receiver cannot follow; not an option of the product";
    Context TRANSPORT_LBTRM_DATA_RATE_LIMIT: BitsPerSecond = "0" (product "10000000"), "new and repeated data, 0 = no limit";
    Context TRANSPORT_LBTRM_DATAGRAM_MAX_SIZE: Bytes [500, 65_535] = "8192", "longest datagram";
    Receiver TRANSPORT_LBTRM_PREACTIVITY_TIMEOUT: Millis = "0", "";
    Context TRANSPORT_LBTRM_RATE_INTERVAL: Millis = "10", "over which the rate limits are measured";
    Context TRANSPORT_LBTRM_RECEIVER_DATAGRAM_MAX_SIZE: Bytes = "0", "longest datagram of receivers, 0 = the general one";
    Context TRANSPORT_LBTRM_RECEIVER_TIMESTAMP: Count = "0", "";
    Context TRANSPORT_LBTRM_RECYCLE_RECEIVE_BUFFERS: Count = "0", "";
    Context TRANSPORT_LBTRM_RETRANSMIT_RATE_LIMIT: BitsPerSecond = "500000000" (product "5000000"), "repeated data, 0 = no limit";
    Source TRANSPORT_LBTRM_SM_MAXIMUM_INTERVAL: Millis = "10000", "longest time between session messages";
    Source TRANSPORT_LBTRM_SM_MINIMUM_INTERVAL: Millis [1] = "200", "first session message after so much silence";
    Context TRANSPORT_LBTRM_SOURCE_DATAGRAM_MAX_SIZE: Bytes = "0", "longest datagram of sources, 0 = the general one";
    Context TRANSPORT_LBTRM_SOURCE_TIMESTAMP: Count = "0", "";
    Source TRANSPORT_LBTRM_TGSZ: Count [1, 65_535] = "8", "transmission group size; named in headers, without effect";
    // LBT-RU, network.
    Source TRANSPORT_LBTRU_ALLOW_EPHEMERAL: Count [0, 65_535] = "0", "";
    Receiver TRANSPORT_LBTRU_INTERFACE: Interface = "0.0.0.0", "interface of the session";
    Source TRANSPORT_LBTRU_INTERFACE: Interface = "0.0.0.0", "interface of the session";
    Context TRANSPORT_LBTRU_MAXIMUM_PORTS: Count [0, 65_535] = "5", "sessions per context";
    Source TRANSPORT_LBTRU_PORT: Port = "0", "port of the session, 0 = from the pool";
    Context TRANSPORT_LBTRU_PORT_HIGH: Port = "14389", "last port of the pool";
    Receiver TRANSPORT_LBTRU_PORT_HIGH: Port = "14379", "last port of the pool";
    Context TRANSPORT_LBTRU_PORT_LOW: Port = "14380", "first port of the pool";
    Receiver TRANSPORT_LBTRU_PORT_LOW: Port = "14360", "first port of the pool";
    // LBT-RU, reliability.
    Source TRANSPORT_LBTRU_IGNORE_INTERVAL: Millis = "100" (product "500"), "no second retransmission of a datagram within this time";
    Receiver TRANSPORT_LBTRU_NAK_BACKOFF_INTERVAL: Millis = "200", "between NAKs, times 0.5 to 1.5";
    Receiver TRANSPORT_LBTRU_NAK_GENERATION_INTERVAL: Millis [5] = "10000", "a loss is given up";
    Receiver TRANSPORT_LBTRU_NAK_INITIAL_BACKOFF_INTERVAL: Millis = "0", "from a loss to its first NAK, times 0.5 to 1.5";
    Receiver TRANSPORT_LBTRU_NAK_SUPPRESS_INTERVAL: Millis = "1000", "no NAK for so long after an NCF";
    Context TRANSPORT_LBTRU_RECEIVER_SOCKET_BUFFER: Bytes = "8388608", "receive buffer; the granted size is checked";
    Receiver TRANSPORT_LBTRU_SEND_NAKS: Flag = "1", "whether receivers ask for what they miss";
    Context TRANSPORT_LBTRU_SOURCE_SOCKET_BUFFER: Bytes = "1048576", "send buffer";
    Source TRANSPORT_LBTRU_TRANSMISSION_WINDOW_LIMIT: Bytes = "0", "the window is of fixed size here";
    Source TRANSPORT_LBTRU_TRANSMISSION_WINDOW_SIZE: Bytes [65_536, 1_073_741_824] = "25165824", "bytes kept for retransmission";
    // LBT-RU, operation.
    Receiver TRANSPORT_LBTRU_ACKNOWLEDGEMENT_INTERVAL: Millis [1] = "500", "between acknowledgements of a client";
    Receiver TRANSPORT_LBTRU_ACTIVITY_TIMEOUT: Millis = "60000", "a silent session ends";
    Source TRANSPORT_LBTRU_CLIENT_ACTIVITY_TIMEOUT: Millis = "10000", "a silent client is dropped";
    Source TRANSPORT_LBTRU_CLIENT_MAP_SIZE: Count = "7", "size of a table; the table grows here";
    Source TRANSPORT_LBTRU_COALESCE_THRESHOLD: Count = "15", "messages are written in place here";
    Receiver TRANSPORT_LBTRU_CONNECT_INTERVAL: Millis [1] = "100", "between connection requests";
    Context TRANSPORT_LBTRU_DATA_RATE_LIMIT: BitsPerSecond = "0" (product "10000000"), "new and repeated data, 0 = no limit";
    Context TRANSPORT_LBTRU_DATAGRAM_MAX_SIZE: Bytes [500, 65_535] = "8192", "longest datagram";
    Receiver TRANSPORT_LBTRU_MAXIMUM_CONNECT_ATTEMPTS: Count = "600", "connection requests before a receiver gives up";
    Context TRANSPORT_LBTRU_RATE_INTERVAL: Millis = "100", "over which the rate limits are measured";
    Context TRANSPORT_LBTRU_RECEIVER_DATAGRAM_MAX_SIZE: Bytes = "0", "longest datagram of receivers, 0 = the general one";
    Context TRANSPORT_LBTRU_RECYCLE_RECEIVE_BUFFERS: Count = "0", "";
    Context TRANSPORT_LBTRU_RETRANSMIT_RATE_LIMIT: BitsPerSecond = "500000000" (product "5000000"), "repeated data, 0 = no limit";
    Source TRANSPORT_LBTRU_SM_MAXIMUM_INTERVAL: Millis = "10000", "longest time between session messages";
    Source TRANSPORT_LBTRU_SM_MINIMUM_INTERVAL: Millis [1] = "200", "first session message after so much silence";
    Context TRANSPORT_LBTRU_SOURCE_DATAGRAM_MAX_SIZE: Bytes = "0", "longest datagram of sources, 0 = the general one";
    Source TRANSPORT_LBTRU_USE_SESSION_ID: Flag = "1", "";
    // LBT-IPC.
    Receiver TRANSPORT_LBTIPC_ACTIVITY_TIMEOUT: Millis = "60000", "a session whose writer gives no sign of life ends; one that is dead ends at once";
    Source TRANSPORT_LBTIPC_BEHAVIOR: Pacing = "source_paced", "who waits for whom";
    Context TRANSPORT_LBTIPC_DATAGRAM_MAX_SIZE: Bytes [500, 65_535] = "65535", "longest datagram";
    Receiver TRANSPORT_LBTIPC_DRO_LOSS_RECOVERY_TIMEOUT: Millis = "0", "";
    Source TRANSPORT_LBTIPC_ID: TransportId = "0", "transport id of the session, 0 = from the pool";
    Context TRANSPORT_LBTIPC_ID_HIGH: TransportId = "20005", "last transport id of the pool";
    Context TRANSPORT_LBTIPC_ID_LOW: TransportId = "20001", "first transport id of the pool";
    Source TRANSPORT_LBTIPC_MAXIMUM_RECEIVERS_PER_TRANSPORT: Count = "20", "";
    Context TRANSPORT_LBTIPC_PEND_BEHAVIOR_LINGER_LOOP_COUNT: Count = "1", "";
    Context TRANSPORT_LBTIPC_RECEIVER_OPERATIONAL_MODE: OperationalMode = "embedded", "";
    Context TRANSPORT_LBTIPC_RECEIVER_THREAD_BEHAVIOR: WaitBehavior = "pend", "";
    Context TRANSPORT_LBTIPC_RECYCLE_RECEIVE_BUFFERS: Count = "0", "";
    Source TRANSPORT_LBTIPC_SM_INTERVAL: Millis = "10000", "between signs of life of a writer";
    Source TRANSPORT_LBTIPC_TRANSMISSION_WINDOW_SIZE: Bytes = "25165824", "size of the shared-memory ring, rounded up to a power of two";
    // LBT-SMX.
    Receiver TRANSPORT_LBTSMX_ACTIVITY_TIMEOUT: Millis = "60000", "";
    Source TRANSPORT_LBTSMX_DATAGRAM_MAX_SIZE: Bytes = "8192", "";
    Source TRANSPORT_LBTSMX_ID: TransportId = "0", "";
    Context TRANSPORT_LBTSMX_ID_HIGH: TransportId = "30005", "";
    Context TRANSPORT_LBTSMX_ID_LOW: TransportId = "30001", "";
    Source TRANSPORT_LBTSMX_MAXIMUM_RECEIVERS_PER_TRANSPORT: Count = "64", "";
    Context TRANSPORT_LBTSMX_MESSAGE_STATISTICS_ENABLED: Count = "0", "";
    Source TRANSPORT_LBTSMX_SM_INTERVAL: Millis = "10000", "";
    Source TRANSPORT_LBTSMX_TRANSMISSION_WINDOW_SIZE: Bytes = "131072", "";
    // Acceleration.
    Context DBL_LBTRM_ACCELERATION: Count = "0", "";
    Context DBL_LBTRU_ACCELERATION: Count = "0", "";
    Context DBL_MIM_ACCELERATION: Count = "0", "";
    Context DBL_RESOLVER_ACCELERATION: Count = "0", "";
    Context ONLOAD_ACCELERATION_STACK_NAME: Text = "", "";
    Receiver ONLOAD_ACCELERATION_STACK_NAME: Text = "", "";
    Source ONLOAD_ACCELERATION_STACK_NAME: Text = "", "";
    Context RESOLVER_UD_ACCELERATION: Count = "0", "";
    Context UD_ACCELERATION: Count = "0", "";
    // Implicit batching.
    Source IMPLICIT_BATCHING_INTERVAL: Millis [3] = "200", "longest wait of a message for a fuller datagram";
    Source IMPLICIT_BATCHING_MINIMUM_LENGTH: Bytes = "2048", "a datagram is sent once its messages are this long; 1 = every message at once";
    // Delivery.
    Receiver CHANNEL_MAP_TABLESZ: Count = "10273", "";
    Receiver DELIVERY_CONTROL_LOSS_CHECK_INTERVAL: Millis = "0", "no timer is needed here: the transport says when a number is lost";
    Receiver DELIVERY_CONTROL_MAXIMUM_BURST_LOSS: Count = "65536" (product "1024"), "a longer gap is one event";
    Context DELIVERY_CONTROL_MAXIMUM_TOTAL_MAP_ENTRIES: Count = "200000", "messages that wait behind a gap";
    Context DELIVERY_CONTROL_MESSAGE_BATCHING: Count = "0", "";
    Context MIM_DELIVERY_CONTROL_LOSS_CHECK_INTERVAL: Millis = "0", "";
    Receiver NULL_CHANNEL_BEHAVIOR: ChannelBehavior = "deliver", "";
    Receiver UNRECOGNIZED_CHANNEL_BEHAVIOR: ChannelBehavior = "deliver", "";
    // Late join.
    Source LATE_JOIN: Flag = "0", "whether a source retains messages";
    Receiver LATE_JOIN_INFO_REQUEST_INTERVAL: Millis = "1000", "between questions which messages are retained";
    Receiver LATE_JOIN_INFO_REQUEST_MAXIMUM: Count = "60", "how many such questions";
    Receiver RETRANSMIT_INITIAL_SEQUENCE_NUMBER_REQUEST: Count = "1", "";
    Receiver RETRANSMIT_MESSAGE_CACHING_PROXIMITY: Count = "5000", "";
    Receiver RETRANSMIT_REQUEST_INTERVAL: Millis = "500", "between questions for one message";
    Receiver RETRANSMIT_REQUEST_MAXIMUM: Count = "0", "messages to fetch at a late join, 0 = all";
    Receiver RETRANSMIT_REQUEST_MESSAGE_TIMEOUT: Millis = "10000", "a message that was asked for is given up";
    Receiver RETRANSMIT_REQUEST_OUTSTANDING_MAXIMUM: Count = "10", "questions at a time";
    Source RETRANSMIT_RETENTION_AGE_THRESHOLD: Seconds = "0", "older messages may be dropped";
    Source RETRANSMIT_RETENTION_SIZE_LIMIT: Bytes = "25165824", "never more is retained";
    Source RETRANSMIT_RETENTION_SIZE_THRESHOLD: Bytes = "0", "more may be dropped";
    Receiver USE_LATE_JOIN: Flag = "1", "whether a receiver asks for retained messages";
    // Off-transport recovery.
    Receiver OTR_MESSAGE_CACHING_THRESHOLD: Count = "10000", "";
    Receiver OTR_REQUEST_INITIAL_DELAY: Millis = "2000", "recovery begins when the transport gives up, so not used here";
    Receiver OTR_REQUEST_LOG_ALERT_COOLDOWN: Seconds = "300", "";
    Receiver OTR_REQUEST_MAXIMUM_INTERVAL: Millis = "10000", "";
    Receiver OTR_REQUEST_MESSAGE_TIMEOUT: Millis = "60000", "a message that was asked for is given up; with use_late_join 1 that one's options hold";
    Receiver OTR_REQUEST_MINIMUM_INTERVAL: Millis = "1000", "between questions for one message; likewise";
    Receiver OTR_REQUEST_OUTSTANDING_MAXIMUM: Count = "200", "questions at a time; likewise";
    Receiver USE_OTR: Count [0, 2] = "0" (product "2"), "whether what the transport has lost is asked for by TCP: 0 no, 1 yes, 2 if the source offers it";
    // Wildcard receivers.
    Wildcard PATTERN_TYPE: PatternKind = "pcre", "how a wildcard receiver's pattern is understood";
    Wildcard RESOLVER_NO_SOURCE_LINGER_TIMEOUT: Millis = "1000", "";
    Wildcard RESOLVER_QUERY_MAXIMUM_INTERVAL: Millis = "1000", "wildcard queries: doubled up to this interval";
    Wildcard RESOLVER_QUERY_MINIMUM_DURATION: Seconds = "60", "wildcard queries: how long, 0 = for ever";
    Wildcard RESOLVER_QUERY_MINIMUM_INTERVAL: Millis = "50", "wildcard queries: first interval";
    Context RESOLVER_WILDCARD_QUERIES_PER_SECOND: Count = "0", "";
    Context RESOLVER_WILDCARD_QUERY_BPS: BitsPerSecond = "1000000", "";
    Context RESOLVER_WILDCARD_RECEIVER_MAP_TABLESZ: Count = "10273", "";
    // Requests, network.
    Context REQUEST_TCP_BIND_REQUEST_PORT: Flag = "1", "whether the context has a request port";
    Context REQUEST_TCP_INTERFACE: Interface = "0.0.0.0", "interface of the request port";
    Context REQUEST_TCP_PORT: Port = "0", "request port of the context, 0 = from the pool";
    Context REQUEST_TCP_PORT_HIGH: Port = "14395", "last request port of the pool";
    Context REQUEST_TCP_PORT_LOW: Port = "14391", "first request port of the pool";
    // Requests, operation.
    Context REQUEST_TCP_ACTIVITY_TIMEOUT: Millis = "0", "";
    Context REQUEST_TCP_EXCLUSIVEADDR: Count = "1", "";
    Context REQUEST_TCP_LISTEN_BACKLOG: Count = "5", "connections that wait to be accepted";
    Context REQUEST_TCP_REUSEADDR: Count = "0", "always on here";
    Context RESPONSE_SESSION_MAXIMUM_BUFFER: Bytes = "65536", "bytes of replies that may wait for the socket";
    Context RESPONSE_SESSION_SENDER_SOCKET_BUFFER: Bytes = "0", "";
    Context RESPONSE_TCP_ACTIVITY_TIMEOUT: SignedMillis = "-1", "";
    Context RESPONSE_TCP_DELETION_TIMEOUT: Millis = "20000", "an idle reply connection is closed";
    Context RESPONSE_TCP_INTERFACE: Interface = "0.0.0.0", "";
    Context RESPONSE_TCP_NODELAY: Flag = "0", "Nagle's algorithm is always off here";
    // Hot failover.
    Receiver HF_BY_CONTENT: Flag = "0", "messages without a number are copies of each other if their content is the same: for publishers that number nothing; not an option of the product";
    Receiver HF_COMPARE: Flag = "1", "whether copies of one number are held against each other, and told if they differ; not an option of the product";
    Receiver HF_DUPLICATE_DELIVERY: Flag = "0", "whether later copies are delivered as well, and say so";
    Receiver HF_OPTIONAL_MESSAGES: Flag = "1", "whether optional messages are delivered";
    Wildcard HF_RECEIVER: Flag = "0", "whether a wildcard receiver has each topic by hot failover";
    Receiver HF_WAITING_MAXIMUM: Bytes = "67108864", "bytes of a topic that wait behind a gap at most; not an option of the product";
    // Persistence.
    Context UME_ACK_BATCHING_INTERVAL: Millis = "100", "how long a persistent receiver gathers what was consumed before it tells the stores";
    Receiver UME_ACTIVITY_TIMEOUT: Millis = "0", "after so much silence a store takes the receiver for gone, 0 = the time of the store";
    Source UME_ACTIVITY_TIMEOUT: Millis = "0", "after so much silence a store takes the source for gone, 0 = the time of the store";
    Receiver UME_ALLOW_CONFIRMED_DELIVERY: Flag = "1", "";
    Receiver UME_APPLICATION_OUTSTANDING_MAXIMUM: Count = "0", "";
    Source UME_CONFIRMED_DELIVERY_NOTIFICATION: Count = "0", "whether a persistent source is told what receivers have consumed; 0 = no";
    Receiver UME_CONSENSUS_SEQUENCE_NUMBER_BEHAVIOR: Consensus = "majority", "where a receiver begins of what stores know of it: majority, highest, lowest";
    Source UME_CONSENSUS_SEQUENCE_NUMBER_BEHAVIOR: Text = "highest", "";
    Receiver UME_EXPLICIT_ACK_ONLY: Flag = "0", "only the application says what is consumed, not the return of the callback";
    Source UME_FLIGHT_SIZE: Count = "1000", "messages and fragments that are not stable, at most";
    Source UME_FLIGHT_SIZE_BEHAVIOR: FlightBehavior = "block", "what a send does when so many are not stable: block waits (or is refused), notify goes on and tells";
    Source UME_FLIGHT_SIZE_BYTES: Bytes = "0", "and their bytes, 0 = no such rule";
    Source UME_FORCE_RECLAIM_FUNCTION: Text = "NULL", "";
    Source UME_LATE_JOIN: Flag = "0", "";
    Source UME_MESSAGE_STABILITY_LIFETIME: Millis = "1200000", "what is not stable after so long is given up";
    Source UME_MESSAGE_STABILITY_NOTIFICATION: Count = "1", "whether a source is told which messages are stable; 0 = no";
    Source UME_MESSAGE_STABILITY_TIMEOUT: Millis = "5000", "what is not stable after so long is sent again to the stores that lack it";
    Context UME_PROACTIVE_KEEPALIVE_INTERVAL: Millis = "3000", "how often stores hear that a source or receiver is there";
    Source UME_PROXY_SOURCE: Flag = "0", "whether stores stand in for the source when it is gone: receivers find its topic, and get what stores hold";
    Context UME_RECEIVER_LIVENESS_INTERVAL: Millis = "0", "";
    Receiver UME_RECEIVER_PACED_PERSISTENCE: Count = "0", "whether stores hold messages until this receiver has consumed them: with a source that has the same option";
    Source UME_RECEIVER_PACED_PERSISTENCE: Count = "0", "whether receivers pace the source: stores drop what all that pace have consumed, and hold the source back";
    Receiver UME_RECOVERY_SEQUENCE_NUMBER_INFO_FUNCTION: Text = "NULL", "";
    Receiver UME_REGISTRATION_EXTENDED_FUNCTION: Text = "NULL", "";
    Receiver UME_REGISTRATION_FUNCTION: Text = "NULL", "";
    Receiver UME_REGISTRATION_INTERVAL: Millis = "3000", "between two attempts to register at a store";
    Source UME_REGISTRATION_INTERVAL: Millis = "3000", "between two attempts to register at a store";
    Source UME_REPOSITORY_ACK_ON_RECEPTION: Flag = "0", "1: stores acknowledge a message when it has come, whether or not their disk has it";
    Source UME_REPOSITORY_DISK_FILE_SIZE_LIMIT: Bytes = "0", "bytes of the source that stores with a disk hold at most, 0 = as many as they are told themselves";
    Source UME_REPOSITORY_SIZE_LIMIT: Bytes = "0", "bytes of the source that stores hold at most, 0 = as many as they are told themselves, and never more than that";
    Source UME_REPOSITORY_SIZE_THRESHOLD: Bytes = "0", "where receivers pace the source: stores keep what all have consumed while they hold no more than so many bytes";
    Source UME_RETENTION_INTERGROUP_STABILITY_BEHAVIOR: Intergroup = "any", "a message is stable once so many groups of stores have it: any, majority, all, all-active";
    Source UME_RETENTION_INTRAGROUP_STABILITY_BEHAVIOR: Intragroup = "quorum", "a group has a message once so many of its stores do: quorum (more than half), all";
    Source UME_RETENTION_SIZE_LIMIT: Bytes = "25165824", "bytes that a source retains for its stores at most; then as at ume_flight_size";
    Source UME_RETENTION_SIZE_THRESHOLD: Bytes = "0", "";
    Source UME_RETENTION_UNIQUE_CONFIRMATIONS: Count = "0", "receivers that must have consumed a message before the source lets go of it";
    Context UME_SESSION_ID: Identifier = "0", "by which stores know this program when it is started again, 0 = none; decimal, or hexadecimal after 0x";
    Receiver UME_SESSION_ID: Identifier = "0", "likewise for a receiver, 0 = that of the context";
    Source UME_SESSION_ID: Identifier = "0", "likewise for a source, 0 = that of the context";
    Context UME_SOURCE_LIVENESS_TIMEOUT: Millis = "0", "";
    Source UME_SRI_FLUSH_SRI_REQUEST_RESPONSE: Flag = "0", "";
    Source UME_SRI_IMMEDIATE_SRI_REQUEST_RESPONSE: Flag = "1", "";
    Source UME_SRI_INTER_SRI_INTERVAL: Millis = "500", "between two announcements of the stores to receivers";
    Source UME_SRI_MAX_NUMBER_OF_SRI_PER_UPDATE: Count = "20", "so many announcements after each change";
    Receiver UME_SRI_REQUEST_INTERVAL: Millis = "1000", "between two questions to a source for its stores";
    Receiver UME_SRI_REQUEST_MAXIMUM: Count = "60", "so many questions, then the source is taken for one without stores";
    Source UME_SRI_REQUEST_RESPONSE_LATENCY: Millis = "100", "";
    Receiver UME_STATE_LIFETIME: Millis = "0", "how long stores remember where a receiver is that has gone, 0 = the time of the store";
    Source UME_STATE_LIFETIME: Millis = "0", "how long stores keep the messages of a source that has gone, 0 = the time of the store";
    Source UME_STORE: Store = "", "a store of the source: [domain:]address:port[:registration id[:group]]; one line for each";
    Source UME_STORE_ACTIVITY_TIMEOUT: Millis = "10000", "a store that is silent for so long is dialled anew";
    Source UME_STORE_BEHAVIOR: StoreBehavior = "quorum-consensus", "always quorum and consensus here";
    Source UME_STORE_CHECK_INTERVAL: Millis = "500", "";
    Source UME_STORE_GROUP: StoreGroup = "", "a group of stores and how many it has: index:size; checked against ume_store. One line for each";
    Source UME_STORE_NAME: Text = "", "";
    Receiver UME_USE_ACK_BATCHING: Flag = "1", "0: stores hear at once what was consumed";
    Receiver UME_USE_LATE_JOIN: Flag = "1", "whether a receiver that stores do not know gets what they hold";
    Receiver UME_USE_STORE: Flag = "1", "whether a receiver asks the stores of sources that have some";
    Context UME_USER_RECEIVER_REGISTRATION_ID: Identifier = "0", "registration id of receivers, 32 bits; 0 = by session, or the stores give one";
    Source UME_WRITE_DELAY: Millis = "0", "where receivers pace the source: stores write a message to their disk after so long, and not at all if all have consumed it before";
    // Queuing.
    Context UMQ_COMMAND_INTERVAL: Millis [1] = "500", "a receiver of a queue that has no answer to its registration repeats it at this interval";
    Context UMQ_COMMAND_OUTSTANDING_MAXIMUM: Count = "1000", "";
    Receiver UMQ_DELAYED_CONSUMPTION_REPORT_INTERVAL: Millis = "0", "so long a report of what was consumed waits for others";
    Receiver UMQ_HOLD_INTERVAL: Millis = "10000", "";
    Receiver UMQ_INDEX_ASSIGNMENT_ELIGIBILITY_DEFAULT: IndexEligibility = "eligible", "whether sources may assign indices to the receiver from the beginning";
    Source UMQ_MESSAGE_STABILITY_NOTIFICATION: Count = "1", "";
    Source UMQ_MSG_TOTAL_LIFETIME: Millis = "0", "";
    Context UMQ_QUEUE_ACTIVITY_TIMEOUT: Millis = "3000", "";
    Receiver UMQ_QUEUE_PARTICIPATION: Flag = "1", "0: the receiver is in no application set, and gets all that is sent";
    Context UMQ_QUEUE_REGISTRATION_ID: Text = "", "";
    Receiver UMQ_RECEIVER_TYPE_ID: Count = "0", "by this the source knows which application set the receiver belongs to";
    Receiver UMQ_RETRANSMIT_REQUEST_INTERVAL: Millis = "500", "";
    Receiver UMQ_RETRANSMIT_REQUEST_OUTSTANDING_MAXIMUM: Count = "100", "";
    Context UMQ_SESSION_ID: Text = "0", "";
    Source UMQ_ULB_APPLICATION_SET: Text = "", "application sets and the receiver types in them, SET:TYPE,TYPE;SET:TYPE: one receiver of each set consumes a message; the source has a queue if it names any, 16 at most";
    Source UMQ_ULB_APPLICATION_SET_ASSIGNMENT_FUNCTION: Text = "", "SET:default: who has the least for its portion; SET:random: by chance, in proportion to portions";
    Source UMQ_ULB_APPLICATION_SET_EVENTS: Text = "", "events of a set that are told, SET:EVENT|EVENT";
    Source UMQ_ULB_APPLICATION_SET_LOAD_FACTOR_BEHAVIOR: Text = "", "what counts of the load that receivers tell, SET:ignored, SET:provisioned (portions are divided by their sources) or SET:dynamic (messages of all sources); set by set, ignored where none is given";
    Source UMQ_ULB_APPLICATION_SET_MESSAGE_LIFETIME: Text = "", "SET:MS: a message that is not consumed after so long is given up, 0 = never";
    Source UMQ_ULB_APPLICATION_SET_MESSAGE_MAX_REASSIGNMENTS: Text = "", "SET:N: a message is assigned so often, the first time included, and then given up; 0 = as often as need be";
    Source UMQ_ULB_APPLICATION_SET_MESSAGE_REASSIGNMENT_TIMEOUT: Text = "", "SET:MS: a message that is not consumed after so long is assigned anew; 10000 where none is given";
    Source UMQ_ULB_APPLICATION_SET_RECEIVER_ACTIVITY_TIMEOUT: Text = "", "SET:MS: a receiver that is silent for so long is gone, and its messages are assigned anew; 10000 where none is given";
    Source UMQ_ULB_APPLICATION_SET_RECEIVER_KEEPALIVE_INTERVAL: Text = "", "SET:MS: a receiver that has said nothing for so long is asked whether it is there; 1000 where none is given";
    Source UMQ_ULB_APPLICATION_SET_ROUND_ROBIN_BIAS: Text = "1", "a receiver that has anything counts as having so many messages more; one number for all sets, or SET:N";
    Source UMQ_ULB_CHECK_INTERVAL: Millis [1] = "1000", "between looks of a source for receivers and messages that are overdue";
    Source UMQ_ULB_EVENTS: Text = "0", "events that are told, of all sets: names as MSG_CONSUME|RCV_TIMEOUT, or a number after 0x";
    Source UMQ_ULB_FLIGHT_SIZE: Count [1] = "1000", "messages of a queue that may be neither consumed nor given up";
    Source UMQ_ULB_FLIGHT_SIZE_BEHAVIOR: FlightBehavior = "block", "what becomes of a message beyond the flight size: block refuses it until there is room, notify sends it and tells; 64 MB are kept at most, whatever this says";
    Source UMQ_ULB_RECEIVER_EVENTS: Text = "", "events of receivers of a type that are told, TYPE:EVENT|EVENT";
    Source UMQ_ULB_RECEIVER_PORTION: Text = "", "the share of the messages that receivers of a type get, beside others of their set, TYPE:N; 1 where none is given";
    Source UMQ_ULB_RECEIVER_PRIORITY: Text = "", "receivers of a lower priority get messages while none of a higher one is there, TYPE:N; 0 where none is given";
    Receiver UMQ_ULB_SOURCE_ACTIVITY_TIMEOUT: Millis = "10000", "a source that is silent for so long is registered at anew, 0 = never";
    Receiver UMQ_ULB_SOURCE_CHECK_INTERVAL: Millis [1] = "1000", "between looks of a receiver for such sources";
}
