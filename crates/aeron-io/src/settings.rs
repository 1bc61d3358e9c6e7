//! How the two sides meet, and the channels that follow from it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How long a subscriber that was let go of may still read what is there: as long as its patience by Aeron's default, and the publication may
/// wait that long once more.
const LINGER: Duration = Duration::from_millis(1);
/// How long a subscriber that was let go of rests at least before it is taken in again. While it stands still, each taking in costs the others
/// another wait, so that a rest is many times as long as one.
const RESTING: Duration = Duration::from_secs(5);
/// And so many times the patience.
const RESTS_FOR: u32 = 10;

/// What both ends are made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whose the media driver is.
    pub driver: DriverOf,
    /// The driver's directory; without one, a driver of this process has one of its own in `/dev/shm`.
    pub dir: Option<PathBuf>,
    /// The transport.
    pub medium: Medium,
    /// Aeron's number of the stream.
    pub stream: i32,
    /// Bytes of a term buffer; a publication has three. A power of two. The longest message is an eighth of it.
    pub term_bytes: usize,
    /// Longest datagram without UDP and IP headers, bytes.
    pub mtu: usize,
    /// Socket buffers, bytes.
    pub send_buffer: usize,
    /// And those of the receiving side, which is also its window.
    pub receive_buffer: usize,
    /// Bytes of the ring between the polling thread and the owner.
    pub ring_bytes: usize,
    /// What driver and polling thread do while there is nothing to do.
    pub idle: Idle,
    /// How long a receiver of a group or of a publication to many waits before it asks for what it misses, and before it asks again, at most. One that
    /// is its publication's only destination waits as Aeron does: a microsecond, then 100.
    pub nak_delay: Duration,
    /// How long a sender does not send the same again, whoever asks for it.
    pub retransmit_linger: Duration,
    /// How long a subscriber that does not read may hold the others up.
    pub patience: Duration,
    /// Silence after which a media driver or a publication counts as gone.
    pub silence: Duration,
}

/// Whose the media driver is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverOf {
    /// A thread of this process.
    ThisProcess,
    /// Another process, that may come and go.
    Another,
}

/// What a stream goes over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Medium {
    /// Memory shared with the processes that use the same media driver.
    Ipc,
    /// UDP to each subscriber.
    Unicast {
        /// Where the publication takes those in that ask for it; and, without `sources`, where subscribers listen.
        at: SocketAddr,
        /// `host:port` of the publications that a subscriber asks for.
        sources: Vec<String>,
        /// `host:port` of the subscribers, where they do not ask.
        destinations: Vec<String>,
        /// Whom the publication waits for.
        flow: FlowControl,
        /// The tag by which `tagged` knows them; 0 for none.
        tag: u32,
    },
    /// UDP to a group.
    Multicast {
        /// The group, whose last number is odd (Aeron answers on the next).
        group: SocketAddr,
        /// Address or network of the interface; empty for the one the kernel takes.
        interface: String,
        /// Routers that it may pass.
        ttl: u32,
        /// Whom the publication waits for.
        flow: FlowControl,
        /// The tag by which `tagged` knows them; 0 for none.
        tag: u32,
    },
}

/// Whom a publication to many waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowControl {
    /// All of them.
    Min,
    /// The fastest: the others lose what they cannot take.
    Max,
    /// All that have its tag.
    Tagged,
}

/// A thread's behaviour while there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// The thread sleeps: each nap is twice as long as the one before, so that what comes waits no longer than nothing had come before.
    Backoff {
        /// The first nap.
        first: Duration,
        /// The longest.
        longest: Duration,
    },
    /// The thread lets others run.
    Yield,
    /// The thread does not let go of its processor.
    Spin,
}

impl Idle {
    /// Naps from a microsecond to a millisecond.
    pub const BACKOFF: Self = Self::Backoff { first: Duration::from_micros(1), longest: Duration::from_millis(1) };
}

impl Settings {
    /// The channel of the publication.
    pub fn publication(&self) -> String {
        let Self { term_bytes, mtu, send_buffer, .. } = self;
        let common = format!("term-length={term_bytes}|mtu={mtu}|{}", self.untethered());
        let sockets = format!("so-sndbuf={send_buffer}|so-rcvbuf={}", self.receive_buffer);
        match &self.medium {
            Medium::Ipc => format!("aeron:ipc?{common}"),
            Medium::Unicast { at, destinations, flow, tag, .. } => {
                let flow = self.flow_control(*flow, *tag);
                let whom = match destinations.as_slice() {
                    [] => format!("control={at}|control-mode=dynamic|fc={flow}"),
                    [one] => format!("endpoint={one}"),
                    _ => format!("control-mode=manual|fc={flow}"),
                };
                format!("aeron:udp?{whom}|{sockets}|{common}")
            }
            Medium::Multicast { group, interface, ttl, flow, tag } => {
                let (flow, interface) = (self.flow_control(*flow, *tag), on(interface));
                format!("aeron:udp?endpoint={group}{interface}|ttl={ttl}|fc={flow}|{sockets}|{common}")
            }
        }
    }

    /// The channels of the subscribers that the publication has to be told of.
    pub fn destinations(&self) -> Vec<String> {
        match &self.medium {
            Medium::Unicast { destinations, .. } if destinations.len() > 1 => {
                destinations.iter().map(|to| format!("aeron:udp?endpoint={to}")).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The channels of the subscriptions.
    pub fn subscriptions(&self) -> Vec<String> {
        let window = self.receive_buffer.min(self.term_bytes / 2);
        let common = format!("tether=false|{}", self.untethered());
        let sockets = format!("so-rcvbuf={}|rcv-wnd={window}", self.receive_buffer);
        let tag = |tag: u32| if tag == 0 { String::new() } else { format!("|gtag={tag}") };
        match &self.medium {
            Medium::Ipc => vec![format!("aeron:ipc?{common}")],
            Medium::Unicast { at, sources, tag: t, .. } if sources.is_empty() => {
                vec![format!("aeron:udp?endpoint={at}|{sockets}|{common}{}", tag(*t))]
            }
            Medium::Unicast { at, sources, tag: t, .. } => {
                let (ip, tag) = (SocketAddr::new(at.ip(), 0), tag(*t));
                let from = |source: &String| {
                    format!("aeron:udp?endpoint={ip}|control={source}|control-mode=dynamic|{sockets}|{common}{tag}")
                };
                sources.iter().map(from).collect()
            }
            Medium::Multicast { group, interface, tag: t, .. } => {
                vec![format!("aeron:udp?endpoint={group}{}|{sockets}|{common}{}", on(interface), tag(*t))]
            }
        }
    }

    /// When a subscriber that does not read is let go of, and taken in again.
    fn untethered(&self) -> String {
        let [patience, linger, resting] =
            [self.patience, LINGER, RESTING.max(self.patience * RESTS_FOR)].map(|time| time.as_millis());
        format!(
            "untethered-window-limit-timeout={patience}ms|untethered-linger-timeout={linger}ms|untethered-resting-timeout={resting}ms"
        )
    }

    fn flow_control(&self, flow: FlowControl, tag: u32) -> String {
        let patience = self.patience.as_millis();
        match flow {
            FlowControl::Min => format!("min,t:{patience}ms"),
            FlowControl::Max => "max".to_owned(),
            FlowControl::Tagged => format!("tagged,g:{tag},t:{patience}ms"),
        }
    }
}

fn on(interface: &str) -> String {
    if interface.is_empty() { String::new() } else { format!("|interface={interface}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(medium: Medium) -> Settings {
        Settings {
            driver: DriverOf::ThisProcess,
            dir: None,
            medium,
            stream: 7,
            term_bytes: 16 << 20,
            mtu: 1408,
            send_buffer: 1 << 20,
            receive_buffer: 2 << 20,
            ring_bytes: 1 << 20,
            idle: Idle::BACKOFF,
            nak_delay: Duration::from_micros(100),
            retransmit_linger: Duration::from_millis(1),
            patience: Duration::from_millis(500),
            silence: Duration::from_secs(5),
        }
    }

    fn unicast(sources: &[&str], destinations: &[&str], flow: FlowControl) -> Settings {
        let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        settings(Medium::Unicast {
            at: "10.1.0.3:40456".parse().unwrap(),
            sources: all(sources),
            destinations: all(destinations),
            flow,
            tag: 9,
        })
    }

    #[test]
    fn subscribers_that_ask_are_sent_to_each() {
        let s = unicast(&["sd1:40456", "sd2:40456"], &[], FlowControl::Tagged);
        assert!(s.publication().starts_with(
            "aeron:udp?control=10.1.0.3:40456|control-mode=dynamic|fc=tagged,g:9,t:500ms|so-sndbuf=1048576|"
        ));
        let subscriptions = s.subscriptions();
        assert_eq!(subscriptions.len(), 2);
        assert!(subscriptions[1].starts_with("aeron:udp?endpoint=10.1.0.3:0|control=sd2:40456|control-mode=dynamic|"));
        assert!(subscriptions[1].contains("tether=false") && subscriptions[1].ends_with("|gtag=9"));
        assert!(s.destinations().is_empty());
    }

    #[test]
    fn who_stands_still_is_let_go_of_at_once_and_rests_much_longer_than_it_is_waited_for() {
        let mut s = settings(Medium::Ipc);
        let times = |s: &Settings| -> Vec<u64> {
            [s.publication(), s.subscriptions().remove(0)]
                .iter()
                .flat_map(|channel| channel.split('|').filter(|p| p.starts_with("untethered-")).map(str::to_owned))
                .map(|p| p.split('=').nth(1).and_then(|t| t.strip_suffix("ms")?.parse().ok()).expect("milliseconds"))
                .collect()
        };
        assert_eq!(times(&s), [500, 1, 5_000, 500, 1, 5_000], "of the publication and of the subscription");
        s.patience = Duration::from_secs(2);
        assert_eq!(times(&s), [2_000, 1, 20_000, 2_000, 1, 20_000]);
    }

    #[test]
    fn subscribers_that_are_named_are_sent_to() {
        let one = unicast(&[], &["p1:40457"], FlowControl::Min);
        assert!(one.publication().starts_with("aeron:udp?endpoint=p1:40457|so-sndbuf"));
        assert!(one.destinations().is_empty());
        assert!(one.subscriptions()[0].starts_with("aeron:udp?endpoint=10.1.0.3:40456|"));
        let two = unicast(&[], &["p1:40457", "p2:40457"], FlowControl::Max);
        assert!(two.publication().starts_with("aeron:udp?control-mode=manual|fc=max|"));
        assert_eq!(two.destinations(), ["aeron:udp?endpoint=p1:40457", "aeron:udp?endpoint=p2:40457"]);
    }

    #[test]
    fn a_group_has_an_interface_only_if_one_is_named() {
        let group = |interface: &str| {
            settings(Medium::Multicast {
                group: "239.101.3.11:40456".parse().unwrap(),
                interface: interface.to_owned(),
                ttl: 4,
                flow: FlowControl::Min,
                tag: 0,
            })
        };
        assert!(group("").publication().starts_with("aeron:udp?endpoint=239.101.3.11:40456|ttl=4|fc=min,t:500ms|"));
        let named = group("10.1.0.0/16");
        assert!(named.publication().contains("endpoint=239.101.3.11:40456|interface=10.1.0.0/16|"));
        assert!(
            named.subscriptions()[0].contains("|interface=10.1.0.0/16|") && !named.subscriptions()[0].contains("gtag")
        );
        assert!(settings(Medium::Ipc).publication().starts_with("aeron:ipc?term-length=16777216|mtu=1408|"));
    }
}
