//! Parameters of the hub's data stream over Aeron.

use super::section::section;
use super::value::{Parameter, Raw, expected};

section! {
    /// The hub's data stream over Aeron (hub.transport = "aeron"): needs a program built with --features aeron.
    Aeron = "aeron", "Aeron";
    medium: AeronMedium = AeronMedium::Unicast, "", "What the data stream goes over: \"unicast\" (UDP to each P2PS, clouds included), \"multicast\" (UDP to hub.multicast_address), or \"ipc\" (memory shared by the processes of one media driver).";
    driver: AeronDriver = AeronDriver::Embedded, "", "Whose the media driver is: \"embedded\" (a thread of this process) or \"external\" (another process, in dir).";
    dir: String = String::new(), "", "Directory of the media driver (aeron.dir of Aeron), in memory: /dev/shm/.... Empty gives an embedded one a directory of its own.";
    port: u16 = 40_456, "", "UDP port: of a Source Distributor where P2PSs ask for its stream, of a P2PS without sources where it listens, or of the group.";
    sources: Vec<String> = Vec::new(), "", "HOST:PORT of the Source Distributors that a P2PS asks for their streams when the medium is \"unicast\"; empty means that they send by themselves (destinations).";
    destinations: Vec<String> = Vec::new(), "", "HOST:PORT of the P2PSs to which a Source Distributor sends when the medium is \"unicast\"; empty means to those that ask (sources).";
    flow_control: AeronFlowControl = AeronFlowControl::Min, "", "Whom a Source Distributor waits for: \"min\" (all P2PSs), \"max\" (the fastest; the others lose what they cannot take), or \"tagged\" (those of its group_tag).";
    group_tag: u32 = 0, "", "Tag of this P2PS, or of those that a Source Distributor with tagged flow control waits for; 0 means none.";
    term_bytes: u32 = 16_777_216, "", "Bytes of a term buffer, a power of two from 4 MB to 64 MB; a stream has three on each side.";
    mtu: u32 = 1_408, "", "Longest UDP payload, bytes, a multiple of 32: 8192 and more where frames are that long, or on one host.";
    nak_delay_us: u32 = 100, "", "How long an embedded driver waits at most before it asks for a datagram that it misses, and before it asks again, microseconds (aeron.nak.multicast.max.backoff of Aeron): about a round trip between the hosts, or more. It asks for one gap at a time, so that this bounds how many are closed in a second; in a round trip of 20 ms it asks more than 200 times for each with 100. On ways where datagrams overtake each other, longer than that takes. A stream to a single entry of destinations has Aeron's own delays (a microsecond, then 100).";
    retransmit_linger_us: u32 = 1_000, "", "How long an embedded driver does not send the same datagram again, whoever asks for it, microseconds (aeron.retransmit.unicast.linger of Aeron): about a round trip between the hosts, or more. Where that is 20 ms, each lost datagram is sent some 20 times with 1000. A repair that is lost in its turn is late by that.";
    idle: AeronIdle = AeronIdle::Backoff, "", "What Aeron's threads of this process do while there is nothing to do: \"backoff\" (sleep, a millisecond at most), \"yield\" or \"spin\" (a processor each, and microseconds).";
}

/// Declares a parameter with a closed set of names; the first is the default.
macro_rules! named_choice {
    ($(#[doc = $about:literal])+ $name:ident, $kind:literal; $($(#[doc = $meaning:literal])+ $variant:ident = $text:literal),+ $(,)?) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[doc = $meaning])+ $variant,)+ }

        impl Parameter for $name {
            const KIND: &'static str = $kind;
            fn read(raw: &Raw<'_>) -> Result<Self, String> {
                match raw {
                    $(Raw::Text(text) if text.eq_ignore_ascii_case($text) => Ok(Self::$variant),)+
                    _ => Err(expected::<Self>(raw)),
                }
            }
            fn show(&self) -> String {
                format!("{:?}", match self { $(Self::$variant => $text,)+ })
            }
        }
    };
}

named_choice! {
    /// The transport of the data stream.
    AeronMedium, "\"unicast\", \"multicast\" or \"ipc\"";
    /// UDP to each P2PS.
    Unicast = "unicast",
    /// UDP to a group.
    Multicast = "multicast",
    /// Memory of a host.
    Ipc = "ipc",
}

named_choice! {
    /// Whose the media driver is.
    AeronDriver, "\"embedded\" or \"external\"";
    /// A thread of this process.
    Embedded = "embedded",
    /// Another process.
    External = "external",
}

named_choice! {
    /// Whom a Source Distributor waits for.
    AeronFlowControl, "\"min\", \"max\" or \"tagged\"";
    /// All P2PSs.
    Min = "min",
    /// The fastest.
    Max = "max",
    /// Settings of a tag.
    Tagged = "tagged",
}

named_choice! {
    /// A thread's behaviour while there is nothing to do.
    AeronIdle, "\"backoff\", \"yield\" or \"spin\"";
    /// The thread sleeps, longer and longer.
    Backoff = "backoff",
    /// The thread lets others run.
    Yield = "yield",
    /// The thread keeps its processor.
    Spin = "spin",
}
