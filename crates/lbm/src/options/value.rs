//! The types of options' values: each option has one of these types, and is read as nothing else.

use core::net::{Ipv4Addr, SocketAddrV4};

use super::{Kind, Unit};
use crate::topic::Ordering;
use crate::transport::ipc::Pacing;
use crate::wire::lbmr::PatternKind;

/// A type of values, and how a text is read as one.
pub trait Value {
    /// The value in Rust.
    type Of<'a>;
    /// Texts that are values, unless the option's range is narrower.
    const KIND: Kind;
    /// Unit of a number.
    const UNIT: Unit = Unit::Plain;

    /// Reads a text that [`Value::KIND`] accepts. Options hold no other.
    fn read(text: &str) -> Self::Of<'_>;
}

/// Sums and products of a few of these stay within 64 bits: 136 years in nanoseconds are a quarter of them.
const NUMBER: Kind = Kind::Number(0, u32::MAX as u64);

macro_rules! values {
    ($($(#[$doc:meta])* $name:ident: $of:ty, $kind:expr, $unit:ident, $read:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}

        impl Value for $name {
            type Of<'a> = $of;
            const KIND: Kind = $kind;
            const UNIT: Unit = Unit::$unit;

            fn read(text: &str) -> Self::Of<'_> {
                $read(text)
            }
        }
    )*};
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

fn address(text: &str) -> Ipv4Addr {
    text.parse().unwrap_or(Ipv4Addr::UNSPECIFIED)
}

/// A number of 64 bits, as persistence has them.
pub(super) fn identifier(text: &str) -> Option<u64> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    hexadecimal.map_or_else(|| text.parse().ok(), |digits| u64::from_str_radix(digits, 16).ok())
}

/// A group of stores: index and size.
pub(super) fn group_of(text: &str) -> Option<(u8, u8)> {
    let (index, size) = text.split_once(':')?;
    Some((index.parse().ok()?, size.parse().ok()?))
}

/// A store of a source, as `ume_store` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreSpec {
    /// Its address and port.
    pub at: SocketAddrV4,
    /// The source's registration id there; 0: by session, or the store gives one.
    pub reg_id: u32,
    /// The store's group.
    pub group: u8,
}

impl StoreSpec {
    /// Reads `[Domain:]Address:Port[:RegistrationId[:Group]]`. Domains of routers mean nothing here.
    pub fn of(text: &str) -> Option<Self> {
        let mut parts = text.split(':').peekable();
        if !parts.peek()?.contains('.') {
            parts.next()?.parse::<u32>().ok()?;
        }
        let at = SocketAddrV4::new(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let reg_id = parts.next().map_or(Some(0), |text| text.parse().ok())?;
        let group = parts.next().map_or(Some(0), |text| text.parse().ok())?;
        (parts.next().is_none() && at.port() != 0).then_some(Self { at, reg_id, group })
    }
}

values! {
    /// A count.
    Count: u64, NUMBER, Plain, number;
    /// 0 or 1.
    Flag: bool, Kind::Number(0, 1), Plain, |text| number(text) != 0;
    /// A UDP or TCP port.
    Port: u16, Kind::Number(0, u16::MAX as u64), Plain, |text| number(text) as u16;
    /// A transport id of shared memory.
    TransportId: u16, Kind::Number(0, u16::MAX as u64), Plain, |text| number(text) as u16;
    /// Milliseconds in the text, nanoseconds in Rust.
    Millis: u64, NUMBER, Milliseconds, |text| number(text).saturating_mul(1_000_000);
    /// Milliseconds, negative ones too, in the text and in Rust.
    SignedMillis: i64, Kind::Signed, Milliseconds, |text: &str| text.parse().unwrap_or(0);
    /// Seconds in the text, nanoseconds in Rust.
    Seconds: u64, NUMBER, Seconds, |text| number(text).saturating_mul(1_000_000_000);
    /// Bytes.
    Bytes: usize, Kind::Number(0, 1 << 40), Bytes, |text| number(text) as usize;
    /// Bits per second.
    BitsPerSecond: u64, Kind::Number(0, 1 << 44), BitsPerSecond, number;
    /// A multicast group.
    Group: Ipv4Addr, Kind::Group, Plain, address;
    /// A multicast group, or 0.0.0.0 for none of its own.
    OwnGroup: Ipv4Addr, Kind::OwnGroup, Plain, address;
    /// An interface: its address, a network that it is in, or its name.
    Interface: &'a str, Kind::Interface, Plain, core::convert::identity;
    /// A resolver daemon: `[Interface[:LocalPort]->]Address:Port`. There may be several.
    Daemon: &'a str, Kind::Daemon, Plain, core::convert::identity;
    /// Resolution services. There may be several: [`Options::services`](super::Options::services).
    Services: &'a str, Kind::Services, Plain, core::convert::identity;
    /// A store of a source. There may be several: [`Options::stores`](super::Options::stores).
    Store: Option<StoreSpec>, Kind::Store, Plain, StoreSpec::of;
    /// A group of stores, index and size. There may be several: [`Options::store_groups`](super::Options::store_groups).
    StoreGroup: Option<(u8, u8)>, Kind::StoreGroup, Plain, group_of;
    /// A number of 64 bits.
    Identifier: u64, Kind::Identifier, Plain, |text| identifier(text).unwrap_or(0);
    /// Any text.
    Text: &'a str, Kind::Text, Plain, core::convert::identity;
}

/// Words that stand for the values of a type.
macro_rules! words {
    ($type:ty: $($word:literal => $variant:ident),+) => {
        impl Value for $type {
            type Of<'a> = Self;
            const KIND: Kind = Kind::Choice(&[$($word),+]);

            fn read(text: &str) -> Self {
                // Options hold words of the list only; the first one stands for what is none.
                [$(($word, Self::$variant)),+].into_iter().find(|(word, _)| *word == text).map_or(
                    [$(Self::$variant),+][0],
                    |(_, value)| value,
                )
            }
        }
    };
}

/// A type of its own for the words of an option.
macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident: $($word:literal => $variant:ident),+;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $(
                #[doc = concat!("`", $word, "`")]
                $variant,
            )+
        }

        words!($name: $($word => $variant),+);
    )*};
}

words!(Ordering: "1" => Ordered, "-1" => Arrival, "0" => ArrivalFragments);
words!(Pacing: "source_paced" => Source, "receiver_paced" => Receiver);
words!(PatternKind: "pcre" => Pcre, "regex" => Regex);
words!(Intergroup: "any" => Any, "any-group" => Any, "majority" => Majority, "majority-group" => Majority, "all" => All, "all-group" => All,
    "all-active" => AllActive, "all-active-group" => AllActive);
words!(StoreBehavior: "quorum-consensus" => QuorumConsensus, "qc" => QuorumConsensus);

/// `ume_retention_intergroup_stability_behavior`: of how many groups of stores a message has to be stable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Intergroup {
    /// Any one of them is enough.
    #[default]
    Any,
    /// More than half of them.
    Majority,
    /// All of them.
    All,
    /// All that have a quorum of stores that are there.
    AllActive,
}

/// `ume_store_behavior`: how a source works with its stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreBehavior {
    /// Numbers are what stores agree about; messages are stable by a quorum.
    QuorumConsensus,
}

choices! {
    /// `ume_retention_intragroup_stability_behavior`: how many stores of a group make a message stable there; a quorum is more than half of them.
    Intragroup: "quorum" => Quorum, "all" => All;
    /// `ume_consensus_sequence_number_behavior` of receivers: what is believed where stores differ about what was consumed.
    Consensus: "majority" => Majority, "highest" => Highest, "lowest" => Lowest;
    /// `ume_flight_size_behavior`, `umq_ulb_flight_size_behavior`: what becomes of a send when as many messages as may be are not stable, or not
    /// consumed.
    FlightBehavior: "block" => Block, "notify" => Notify;
    /// `umq_index_assignment_eligibility_default`: whether indices are assigned to a receiver from the beginning.
    IndexEligibility: "eligible" => Eligible, "ineligible" => Ineligible;
    /// `transport`: how messages of a source travel.
    TransportName: "tcp" => Tcp, "lbtrm" => Lbtrm, "lbtru" => Lbtru, "lbtipc" => Lbtipc, "lbtsmx" => Lbtsmx;
    /// `transport_tcp_multiple_receiver_behavior`: what a source does about receivers that read more slowly than it sends.
    SlowReceivers: "normal" => Normal, "bounded_latency" => BoundedLatency, "source_paced" => SourcePaced;
    /// `operational_mode`: whether a context has a thread of its own.
    OperationalMode: "embedded" => Embedded, "sequential" => Sequential;
    /// `file_descriptor_management_behavior`: whether a receiving thread blocks or polls.
    WaitBehavior: "pend" => Pend, "busy_wait" => BusyWait;
    /// `fd_management_type`: by which call of the system descriptors are waited for.
    FdManagement:
        "select" => Select, "poll" => Poll, "epoll" => Epoll, "devpoll" => Devpoll, "kqueue" => Kqueue,
        "wsaeventselect" => WsaEventSelect, "wincompport" => WinCompPort, "wincpt" => WinCpt;
    /// `transport_source_side_filtering_behavior`: whether a source leaves out what a receiver does not want.
    SourceSideFiltering: "none" => None, "inclusion" => Inclusion, "ulb" => Queues;
    /// `resolver_service_interest_mode`: of which sources a context is told.
    InterestMode: "filter" => Filter, "flood" => Flood;
    /// `transport_tcp_activity_method`: how a silent connection is noticed.
    ActivityMethod: "timer" => Timer, "SO_KEEPALIVE" => Keepalive;
    /// `transport_tcp_multiple_receiver_send_order`: which receiver is sent to first.
    SendOrder: "serial" => Serial, "random" => Random;
    /// `null_channel_behavior`, `unrecognized_channel_behavior`: what becomes of messages on no channel, or on an unknown one.
    ChannelBehavior: "deliver" => Deliver, "discard" => Discard;
}

/// The services of a value, each as it is written.
pub(super) fn services(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ';']).map(str::trim)
}

/// Whether a text has the form of a service.
pub(super) fn is_service(text: &str) -> bool {
    let (local, remote) = text.rsplit_once("->").map_or((None, text), |(local, remote)| (Some(local), remote));
    let Some((host, port)) = remote.trim().rsplit_once(':') else { return false };
    let is_name =
        |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"./-_".contains(&b));
    let is_local = |text: &str| {
        let (interface, port) = text.trim().split_once(':').map_or((text.trim(), "0"), |(i, p)| (i.trim(), p.trim()));
        Kind::Interface.accepts(interface) && port.parse::<u16>().is_ok()
    };
    is_name(host) && port.parse::<u16>().is_ok() && local.is_none_or(is_local)
}
