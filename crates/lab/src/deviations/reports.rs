//! What the reports on RMDS and TREP say of their tests. What one does not say is none here, and never what is usual.

use crate::scenario::Scenario;

/// What a report says of a test.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    /// Machines of the load and of the system, and what joined them.
    pub(super) topology: &'static str,
    /// Source and client share a machine, and the system has so many others. None: they are apart, or it is not said.
    pub(super) others: Option<u32>,
    pub(super) processes: &'static str,
    /// P2PSs; none where their number is not said.
    pub(super) p2ps: Option<u32>,
    /// Source Distributors of one chain; none where their number is not said.
    pub(super) distributors: Option<u32>,
    pub(super) processors: &'static str,
    pub(super) binding: &'static str,
    pub(super) priority: Priority,
    pub(super) mtu: Option<u32>,
    pub(super) offload: Option<&'static str>,
    /// Which network stack, where the report names one.
    pub(super) stack: Option<&'static str>,
    pub(super) buffers: Option<&'static str>,
    pub(super) profile: &'static str,
    /// Output by timer; none where it is not said.
    pub(super) is_timed: Option<bool>,
    /// Of the 74 bytes, the header is none; false where that is not said.
    pub(super) is_data: bool,
    /// Clients that watch the same, and whether the report says how many.
    pub(super) watchlist: &'static str,
    pub(super) bursts: Option<u32>,
    pub(super) sampling: Sampling,
    /// How long a run was: in words and in seconds; none where it is not said.
    pub(super) seconds: Option<(&'static str, f64)>,
    /// What of a run did not count; none where it is not said.
    pub(super) discarded: Option<&'static str>,
}

/// Scheduling of the processes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Priority {
    NotSaid,
    /// The report says that there was none.
    Ordinary,
    /// `chrt -f` of the clients and of everybody else, and the rest in words.
    Realtime {
        client: u32,
        others: u32,
        about: &'static str,
    },
}

/// What of the messages is timed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sampling {
    /// Throughput only.
    None,
    /// Some updates carry a stamp.
    Stamps(&'static str),
}

const LATENCY: &str = "by message: no timer, `tcpNoDelay`";
pub(super) const TIMED: &str = "by timer: `timedWrites`, `flushInterval` 20, `tcpNoDelay` off";
const ITEMS: &str = "100000 items, 1 mount";
const HUNDRED_INFERRED: &str =
    "mounts and items not said; 100 mounts, half of the updates to all, are inferred from the ratio of output to input";
const HUNDRED: &str = "100 mounts; half of the updates to all is inferred, items are not said";

const REDHAT: Setup = Setup {
    topology: "load on one machine, the system on another, CAT6 crossover cables, 1 GigE",
    others: Some(1),
    processes: "source, Source Distributor, rrcpd, rrcpd, P2PS, client",
    p2ps: Some(1),
    distributors: Some(1),
    processors: "one dual-core Xeon a machine, 2.13 or 2.66 GHz",
    binding: "none; irqbalance on",
    priority: Priority::NotSaid,
    mtu: None,
    offload: Some("TSO off in RHEL 4.4, on in RHEL 5.1; said to make no difference"),
    stack: None,
    buffers: Some("rmem and wmem 8,388,608; tcpSendBufSize 64,240"),
    profile: LATENCY,
    is_timed: Some(false),
    is_data: false,
    watchlist: ITEMS,
    bursts: Some(500),
    sampling: Sampling::Stamps("ten stamps a second (`-UL 10`), some 6,050 a run"),
    seconds: Some(("a little longer than 600 s", 600.0)),
    discarded: Some("the first 300 to 600 stamps: 35 to 50 s"),
};

const NOVELL: Setup = Setup {
    topology: "three blades, source and client on one of them, InfiniBand or 1 GigE through a switch",
    others: Some(2),
    processors: "two quad-core Xeons of 3.0 GHz a blade",
    binding: "each process to cores of its own out of eight; interrupts to core 7 and the cards' to 0 and 1",
    priority: Priority::Realtime {
        client: 55,
        others: 55,
        about: "; SLERT: real-time kernel, cores 0 to 6 shielded, no SMIs",
    },
    offload: None,
    stack: Some("InfiniBand: VMA for UDP and SDP for TCP, beside the kernel; 1 GigE: the kernel's"),
    buffers: Some("rmem and wmem default 8,388,608, max 16,777,216; tcpSendBufSize 64,240"),
    bursts: None,
    sampling: Sampling::Stamps("some updates carry a stamp, 3,000 a rate"),
    seconds: None,
    discarded: None,
    ..REDHAT
};

const IBM: Setup = Setup {
    topology: "three blades, source and client on one of them, 10 GigE through a switch",
    others: Some(2),
    processes: "source, ADH, rrcpd, rrcpd, ADS, client",
    processors: "two quad-core Xeons of 3.3 GHz a blade",
    binding: "interrupts to core 1, rrcpd to 2 and 3, ADH and ADS to 4 and 5, source to 4 or 6, client to 5",
    offload: None,
    buffers: Some("rmem default 8,388,608, wmem default 1,677,216"),
    is_data: true,
    bursts: Some(1_000),
    sampling: Sampling::Stamps("some updates carry a stamp, 3,070 a rate"),
    seconds: Some(("at least 300 s", 300.0)),
    discarded: None,
    ..REDHAT
};

/// The test of the report that a scenario repeats.
pub(super) fn of(scenario: &Scenario) -> Option<Setup> {
    let is_throughput = scenario.stamp_every > 1;
    Some(match scenario.group.as_str() {
        "redhat-2008" if is_throughput => Setup {
            topology: "one machine for the stacked component, 4 x 1 GigE (of a report of STAC, 2007); the others are not said",
            others: None,
            processes: "stacked Source Distributors or stacked P2PSs, each tested alone; how many is not said",
            p2ps: None,
            distributors: None,
            processors: "four quad-core Xeons of 2.93 GHz",
            binding: "not said",
            offload: None,
            buffers: None,
            profile: "tuned for throughput; timers are not said",
            is_timed: None,
            watchlist: "not said",
            bursts: None,
            sampling: Sampling::None,
            seconds: None,
            discarded: None,
            ..REDHAT
        },
        "redhat-2008" => Setup {
            topology: if scenario.nodes == 3 {
                "load on one machine, Source Distributor and P2PS on one each, CAT6 crossover cables, 1 GigE"
            } else {
                REDHAT.topology
            },
            others: Some(if scenario.nodes == 3 { 2 } else { 1 }),
            binding: if scenario.bind.is_empty() {
                REDHAT.binding
            } else {
                "interrupts and rrcpd to core 0, Source Distributor and P2PS to core 1; irqbalance off"
            },
            ..REDHAT
        },
        "novell-2009" if is_throughput => Setup {
            topology: "four blades, the clients on two of them; hub by 1 GigE, clients by InfiniBand or 1 GigE through a switch",
            others: None,
            processes: "source, Source Distributor, rrcpd, rrcpd, four P2PSs, four clients",
            p2ps: Some(4),
            binding: "each P2PS to a core of its own out of eight, rrcpd to three, clients to one each; interrupts to core 7 and the cards'",
            priority: Priority::Realtime {
                client: 49,
                others: 55,
                about: "; SLERT: real-time kernel, cores 0 to 6 shielded, no SMIs",
            },
            stack: Some("InfiniBand: SDP for the clients' TCP, beside the kernel; 1 GigE: the kernel's"),
            buffers: Some("rmem and wmem default 8,388,608, max 16,777,216; tcpSendBufSize as the system has it"),
            profile: TIMED,
            is_timed: Some(true),
            watchlist: HUNDRED_INFERRED,
            sampling: Sampling::None,
            ..NOVELL
        },
        "novell-2009" => NOVELL,
        "ibm-2010" if is_throughput => Setup {
            topology: "three blades: source and ADH, ADS, client; 10 GigE through a switch",
            others: None,
            profile: "tuned for throughput; timers are not said",
            is_timed: None,
            watchlist: if scenario.mounts > 1 { HUNDRED } else { ITEMS },
            sampling: Sampling::None,
            seconds: None,
            ..IBM
        },
        "ibm-2010" => IBM,
        "intel-2008" => Setup {
            topology: "source and Source Distributor on one machine, the P2PSs on one, clients on two; hub by 1 GigE, clients by 10 GigE through a switch",
            others: None,
            processes: "source, Source Distributor, rrcpd, rrcpd, ten P2PSs, ten clients",
            p2ps: Some(10),
            processors: "P2PSs: four six-core Xeons of 2.4 GHz",
            binding: "each process and each card's interrupts to cores of their own out of 24",
            priority: Priority::Ordinary,
            mtu: Some(if scenario.name.contains("9000") { 9_000 } else { 1_500 }),
            offload: Some("receive queues on several cores; no TOE, no I/OAT"),
            buffers: Some("rmem and wmem default 8,388,608, max 16,777,216; tcpSendBufSize 64,240"),
            profile: TIMED,
            is_timed: Some(true),
            watchlist: HUNDRED_INFERRED,
            bursts: None,
            sampling: Sampling::None,
            seconds: None,
            discarded: None,
            ..REDHAT
        },
        _ => return None,
    })
}
