//! All that this program counts, as one closed table: [`Part`] by part, each counter with name, kind, unit and help.
//!
//! An agent gives a reading of its parts ([`Samples`]) when it is asked: `Server::sample` and its like. Status lines
//! (`quoteway lbmstat`), the log and metrics are written from readings, and know no counter by name. To add a counter, add a field
//! with its comment to the struct where it is counted; to add a part, declare its struct by [`hub::counters!`], name it here
//! ([`Part`]) and add it to a reading.
//!
//! ```
//! use server::counters::{Part, Samples};
//!
//! let mut samples = Samples::default();
//! samples.add(Part::P2ps, &[("rssl", "127.0.0.1:14002".to_owned())], &hub::p2ps::Counters::default());
//! assert!(samples.lines().starts_with("p2ps\trssl=127.0.0.1:14002\tclients=0\t"));
//! let mut text = String::new();
//! samples.open_metrics(&mut text);
//! assert!(text.contains("# TYPE quoteway_p2ps_clients gauge\n# HELP quoteway_p2ps_clients Clients connected.\n"));
//! assert!(text.contains("quoteway_p2ps_updates_in_total{rssl=\"127.0.0.1:14002\"} 0\n"));
//! ```

use std::fmt::Write as _;

use hub::counters::{Counted, Counter, Kind, Unit};
use hub_io::{aeron, links, publisher};

use crate::{agents, log};

/// A part of the program that counts for itself, with counters of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// The Source Distributor's state machine.
    SourceDistributor,
    /// A Source Distributor's sessions with providers.
    Providers,
    /// A Source Distributor's persistent cache.
    Records,
    /// A Source Distributor's side of the hub between processes.
    HubPublisher,
    /// One P2PS, as its Source Distributor sees it.
    P2psOf,
    /// The P2PS's state machine.
    P2ps,
    /// A P2PS's sessions with consumers.
    Consumers,
    /// A P2PS's side of the hub between processes.
    HubSubscriber,
    /// One end of the hub's data stream over Aeron.
    HubAeron,
    /// One direction of an `rrcpd`.
    Rrcpd,
    /// The TCP sockets of a thread that serves.
    Sockets,
    /// The log of the process.
    Log,
    /// The memory of the process.
    Memory,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 13] = [
        Self::SourceDistributor,
        Self::Providers,
        Self::Records,
        Self::HubPublisher,
        Self::P2psOf,
        Self::P2ps,
        Self::Consumers,
        Self::HubSubscriber,
        Self::HubAeron,
        Self::Rrcpd,
        Self::Sockets,
        Self::Log,
        Self::Memory,
    ];

    /// The part's name in metrics, after `quoteway_`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SourceDistributor => "source_distributor",
            Self::Providers => "providers",
            Self::Records => "persistent_cache",
            Self::HubPublisher => "hub_publisher",
            Self::P2psOf => "hub_p2ps",
            Self::P2ps => "p2ps",
            Self::Consumers => "consumers",
            Self::HubSubscriber => "hub_subscriber",
            Self::HubAeron => "hub_aeron",
            Self::Rrcpd => "rrcpd",
            Self::Sockets => "sockets",
            Self::Log => "log",
            Self::Memory => "memory",
        }
    }

    /// The part's counters.
    pub const fn table(self) -> &'static [Counter] {
        match self {
            Self::SourceDistributor => hub::distributor::Counters::TABLE,
            Self::Providers => agents::providers::Counters::TABLE,
            Self::Records => agents::records::Counters::TABLE,
            Self::HubPublisher => publisher::Counters::TABLE,
            Self::P2psOf => agents::source_distributor::P2psBehind::TABLE,
            Self::P2ps => hub::p2ps::Counters::TABLE,
            Self::Consumers => agents::consumers::Counters::TABLE,
            Self::HubSubscriber => links::Counters::TABLE,
            Self::HubAeron => aeron::Counters::TABLE,
            Self::Rrcpd => agents::relay::Counters::TABLE,
            Self::Sockets => Sockets::TABLE,
            Self::Log => log::Counters::TABLE,
            Self::Memory => Memory::TABLE,
        }
    }

    /// The kind of the status line on which its counters stand. Parts of one agent share a line, on which names are unique.
    pub const fn line(self) -> &'static str {
        match self {
            Self::SourceDistributor | Self::Providers | Self::Records | Self::HubPublisher => "source-distributor",
            Self::P2psOf => "p2ps-of",
            Self::P2ps | Self::Consumers | Self::HubSubscriber => "p2ps",
            Self::HubAeron => "aeron",
            Self::Rrcpd => "rrcpd",
            Self::Sockets => "sockets",
            Self::Log => "log",
            Self::Memory => "memory",
        }
    }
}

/// A label that tells one reading from others of its part, as `("rssl", "10.0.0.1:14002")`: a name in snake case and a value of any text.
pub type Label = (&'static str, String);

/// The counters of one part at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Of which part.
    pub part: Part,
    /// Of which one of its kind.
    pub labels: Vec<Label>,
    /// In the order of [`Part::table`].
    pub values: Vec<u64>,
}

impl Sample {
    /// Each counter with its value.
    pub fn counters(&self) -> impl Iterator<Item = (&'static Counter, u64)> {
        self.part.table().iter().zip(self.values.iter().copied())
    }

    /// The name of its line: `hub=prod`.
    fn title(&self) -> String {
        let labels = self
            .labels
            .iter()
            .map(|(name, value)| format!("{name}={}", value.replace(net::plain::is_unprintable, "?")));
        labels.collect::<Vec<_>>().join(" ")
    }
}

/// A reading of several parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Samples(Vec<Sample>);

impl Samples {
    /// Adds what one part has counted. The parts of one status line follow each other, with the same labels.
    pub fn add<C: Counted>(&mut self, part: Part, labels: &[Label], counters: &C) {
        debug_assert!(
            std::ptr::eq(part.table(), C::TABLE) || part.table() == C::TABLE,
            "the counters are not of {part:?}"
        );
        self.0.push(Sample { part, labels: labels.to_vec(), values: counters.values() });
    }

    /// Adds what the sockets of a thread have counted.
    pub fn add_sockets(&mut self, labels: &[Label], counters: &net::tcp::Counters) {
        self.add(Part::Sockets, labels, &Sockets::from(*counters));
    }

    /// Adds what the process as a whole counts.
    pub fn add_process(&mut self) {
        self.add(Part::Log, &[], &log::counters());
        self.add(Part::Memory, &[], &Memory::now());
    }

    /// Adds what another reading has.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The same with a further label on each reading, but for those of the process as a whole, which have none.
    #[must_use]
    pub fn labelled(mut self, label: &Label) -> Self {
        self.0
            .iter_mut()
            .filter(|sample| !sample.labels.is_empty())
            .for_each(|sample| sample.labels.push(label.clone()));
        self
    }

    /// Adds what another reading has of parts and labels that are not here yet.
    pub fn extend_by_new(&mut self, other: Self) {
        for sample in other.0 {
            if !self.0.iter().any(|known| (known.part, &known.labels) == (sample.part, &sample.labels)) {
                self.0.push(sample);
            }
        }
    }

    /// Each part's reading.
    pub fn iter(&self) -> impl Iterator<Item = &Sample> {
        self.0.iter()
    }

    /// As status lines: kind, name and `counter=value`, parted by tabs.
    pub fn lines(&self) -> String {
        let mut text = String::new();
        let mut last: Option<&Sample> = None;
        for sample in &self.0 {
            if last.is_none_or(|last| (last.part.line(), &last.labels) != (sample.part.line(), &sample.labels)) {
                let end = if last.is_some() { "\n" } else { "" };
                let _ = write!(text, "{end}{}\t{}", sample.part.line(), sample.title());
            }
            for (counter, value) in sample.counters() {
                let _ = write!(text, "\t{}={value}", counter.name);
            }
            last = Some(sample);
        }
        if last.is_some() {
            text.push('\n');
        }
        text
    }

    /// For the log: what is not 0, one line a part.
    pub fn summary(&self) -> Vec<String> {
        let line = |sample: &Sample| {
            let counted = sample.counters().filter(|(_, value)| *value > 0);
            let counted: Vec<_> = counted.map(|(counter, value)| format!("{} {value}", counter.name)).collect();
            let title = format!("{} {}", sample.part.line(), sample.title());
            format!("{}: {}", title.trim_end(), counted.join(", "))
        };
        self.0.iter().filter(|sample| sample.values.iter().any(|value| *value > 0)).map(line).collect()
    }

    /// Appends all families in the text format of `OpenMetrics`, each with `# TYPE`, `# UNIT` where there is one, `# HELP` and its
    /// samples. The caller ends the text with `# EOF`.
    pub fn open_metrics(&self, text: &mut String) {
        for part in Part::ALL {
            for (place, counter) in part.table().iter().enumerate() {
                let mut samples = self.0.iter().filter(|sample| sample.part == part).peekable();
                if samples.peek().is_none() {
                    continue;
                }
                let family = format!("quoteway_{}_{}", part.name(), counter.name);
                let (kind, end) = match counter.kind {
                    Kind::Total => ("counter", "_total"),
                    Kind::Gauge => ("gauge", ""),
                };
                let _ = writeln!(text, "# TYPE {family} {kind}");
                if counter.unit == Unit::Bytes {
                    let _ = writeln!(text, "# UNIT {family} bytes");
                }
                let _ = writeln!(text, "# HELP {family} {}", escaped(counter.help));
                for sample in samples {
                    let _ = writeln!(text, "{family}{end}{} {}", label_set(&sample.labels), sample.values[place]);
                }
            }
        }
    }
}

/// `{name="value",...}`; nothing without labels.
fn label_set(labels: &[Label]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let pairs: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

/// Escapes what `OpenMetrics` wants escaped in help and in the values of labels.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

hub::counters! {
/// The TCP sockets of one thread: [`net::tcp::Counters`].
pub struct Sockets {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections turned away for want of descriptors or memory.
    pub turned_away: u64,
    /// Outgoing connections established.
    pub connected: u64,
    /// Connections that ended, failed connects included.
    pub closed: u64,
    /// Bytes received.
    pub received_bytes: u64 in Bytes,
    /// Bytes handed to the kernel.
    pub sent_bytes: u64 in Bytes,
    /// Calls that received, those included that found nothing.
    pub recv_calls: u64,
    /// Calls that sent, or submissions of an I/O ring.
    pub send_calls: u64,
    /// Sends of which the kernel refused at least a part.
    pub short_sends: u64,
    /// Waits for events.
    pub waits: u64,
    /// Changes of what a connection waits for.
    pub arms: u64,
}
}

hub::counters! {
/// Large tables of the process, which lie in huge pages where the machine gives them: [`net::huge_pages`].
pub struct Memory {
    /// Bytes of large tables, for which huge pages are asked; what was never written of them takes no memory.
    pub large_tables_bytes: u64 as Gauge in Bytes,
    /// Large tables for which the kernel took no such request: it knows no huge pages.
    pub huge_pages_refused: u64,
}
}

impl Memory {
    /// What the process has now.
    pub fn now() -> Self {
        let net::huge_pages::Usage { large_bytes, refused } = net::huge_pages::usage();
        Self { large_tables_bytes: large_bytes, huge_pages_refused: refused }
    }
}

impl From<net::tcp::Counters> for Sockets {
    fn from(counters: net::tcp::Counters) -> Self {
        let net::tcp::Counters {
            accepted,
            turned_away,
            connected,
            closed,
            bytes_received: received_bytes,
            bytes_sent: sent_bytes,
            recv_calls,
            send_calls,
            short_sends,
            waits,
            arms,
        } = counters;
        Self {
            accepted,
            turned_away,
            connected,
            closed,
            received_bytes,
            sent_bytes,
            recv_calls,
            send_calls,
            short_sends,
            waits,
            arms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_can_be_shown_and_names_are_unique_on_a_line() {
        let mut families = Vec::new();
        for part in Part::ALL {
            for counter in part.table() {
                let (name, help) = (counter.name, counter.help);
                assert!(help.ends_with('.') && !help.contains(['[', '`', '\n']), "{name}: {help}");
                assert_eq!(
                    name.ends_with("bytes"),
                    counter.unit == Unit::Bytes,
                    "{name}: OpenMetrics wants the unit last"
                );
                assert!(!name.ends_with("_total"), "{name}: OpenMetrics adds that");
                families.push((part.line(), name));
            }
        }
        let count = families.len();
        families.sort_unstable();
        families.dedup();
        assert_eq!(families.len(), count);
    }

    #[test]
    fn parts_of_one_agent_share_a_line() {
        let mut samples = Samples::default();
        assert_eq!(samples.lines(), "");
        let hub = [("hub", "a\tb".to_owned())];
        let to = |to: &str| [("hub", "x".to_owned()), ("to", to.to_owned())];
        samples.add(Part::Providers, &hub, &agents::providers::Counters { items: 3, holding: 1, ..Default::default() });
        samples.add(Part::HubPublisher, &hub, &publisher::Counters { blocks: 7, ..publisher::Counters::default() });
        samples.add(Part::Rrcpd, &to("host"), &agents::relay::Counters::default());
        samples.add(
            Part::Rrcpd,
            &to("network"),
            &agents::relay::Counters { blocks: 5, ..agents::relay::Counters::default() },
        );
        let lines = samples.lines();
        let lines: Vec<_> = lines.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("source-distributor\thub=a?b\titems=3\tholding=1\tover_rate=0\t"), "{}", lines[0]);
        assert!(lines[0].contains("\tp2ps_joined=0\t") && lines[0].contains("\tblocks=7\t"));
        assert!(lines[1].starts_with("rrcpd\thub=x to=host\t") && lines[2].starts_with("rrcpd\thub=x to=network\t"));
        let summary = samples.summary();
        assert_eq!(summary[0], "source-distributor hub=a?b: items 3, holding 1");
        assert_eq!(summary[2], "rrcpd hub=x to=network: blocks 5");
    }

    #[test]
    fn a_family_stands_once_with_all_its_samples() {
        let mut samples = Samples::default();
        for port in ["1", "2\"\\\n"] {
            let counters = Sockets { sent_bytes: 9, ..Sockets::default() };
            samples.add(Part::Sockets, &[("rssl", port.to_owned())], &counters);
        }
        samples.add(Part::Log, &[], &log::Counters::default());
        let mut text = String::new();
        samples.open_metrics(&mut text);
        let family = "# TYPE quoteway_sockets_sent_bytes counter\n# UNIT quoteway_sockets_sent_bytes bytes\n\
            # HELP quoteway_sockets_sent_bytes Bytes handed to the kernel.\n\
            quoteway_sockets_sent_bytes_total{rssl=\"1\"} 9\n\
            quoteway_sockets_sent_bytes_total{rssl=\"2\\\"\\\\\\n\"} 9\n";
        assert!(text.contains(family), "{text}");
        assert!(text.contains("\nquoteway_log_lines_lost_total 0\n"), "{text}");
        assert_eq!(text.matches("# TYPE").count(), Sockets::TABLE.len() + log::Counters::TABLE.len());
        let mut samples = Samples::default();
        samples.add_process();
        let lines = samples.lines();
        assert!(
            lines.starts_with("log\t\tlines_lost=") && lines.contains("\nmemory\t\tlarge_tables_bytes="),
            "{lines}"
        );
    }
}
