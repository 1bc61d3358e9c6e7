//! How exchanges' feeds of the process stand: told by the threads that take them, each second at most, and shown from here.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use super::answer::{Answer, Fault};
use super::asked::Asked;
use super::endpoint::Api;
use super::families::{escaped, head};

/// How an exchange's feed stands. Counters are of since it began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Feed {
    /// Its name in the configuration (`[feed.NAME]`).
    pub name: String,
    /// Its protocol.
    pub protocol: String,
    /// Messages are missing, or a connection or a snapshot is awaited: its items are Suspect.
    pub suspect: bool,
    /// Messages that were applied.
    pub messages: u64,
    /// Messages a second, between the last two times that the feed told how it stands.
    pub messages_per_second: f64,
    /// Items that the exchange has told of.
    pub items: u64,
    /// Gaps that were told; of a session over TCP, losses of the connection.
    pub gaps: u64,
    /// Gaps that were filled after they were told.
    pub repairs: u64,
    /// Requests for messages that no line had brought.
    pub requests: u64,
    /// Messages that were given up.
    pub lost: u64,
    /// Snapshots that were put in place.
    pub snapshots: u64,
    /// Connections that were dialled.
    pub connections: u64,
    /// Datagrams that found a receive buffer full.
    pub dropped: u64,
    /// From the exchange's time of a message until it was taken from the socket, nanoseconds: half were not later. It means something only where this host's clock is the exchange's.
    pub latency_median_ns: u64,
    /// All but one of a hundred were not later.
    pub latency_p99_ns: u64,
    /// The latest.
    pub latency_max_ns: u64,
    /// Messages whose time was later than the clock of this host.
    pub early: u64,
    /// The lines, A first; those that have brought something.
    pub lines: Vec<Line>,
    /// What was wrong, by kind.
    pub bad: BTreeMap<String, u64>,
}

/// A line of a feed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Line {
    /// `A`, `B`, ...
    pub line: String,
    /// Packets that came.
    pub packets: u64,
    /// Messages that no other line had brought before.
    pub first: u64,
    /// Packets whose first message another line had brought a known time before.
    pub behind: u64,
    /// How long before, summed; nanoseconds.
    pub behind_ns: u64,
}

/// The feeds of a process. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Feeds(Arc<Mutex<BTreeMap<String, Feed>>>);

impl Feeds {
    /// Says how a feed stands.
    pub fn tell(&self, feed: Feed) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(feed.name.clone(), feed);
    }

    /// All feeds by name.
    pub fn all(&self) -> Vec<Feed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

pub(super) fn feeds(api: &Api, _: &Asked) -> Ready<Result<Answer, Fault>> {
    ready(Answer::of(&api.about.feeds.all()))
}

type Figure = (&'static str, &'static str, fn(&Feed) -> u64);
type LineFigure = (&'static str, &'static str, fn(&Line) -> u64);

const COUNTERS: [Figure; 9] = [
    ("messages", "Messages of the exchange that were applied.", |f| f.messages),
    ("gaps", "Gaps that were told.", |f| f.gaps),
    ("repairs", "Gaps that were filled after they were told.", |f| f.repairs),
    ("requests", "Requests for messages that no line had brought.", |f| f.requests),
    ("lost", "Messages that were given up.", |f| f.lost),
    ("snapshots", "Snapshots that were put in place.", |f| f.snapshots),
    ("connections", "Connections that were dialled.", |f| f.connections),
    ("dropped", "Datagrams that found a receive buffer full.", |f| f.dropped),
    ("early", "Messages whose time was later than the clock here.", |f| f.early),
];
const GAUGES: [Figure; 2] = [
    ("suspect", "1 while messages, a connection or a snapshot are missing.", |f| f.suspect as u64),
    ("items", "Items that the exchange has told of.", |f| f.items),
];
const LINES: [LineFigure; 3] = [
    ("packets", "Packets of a line.", |l| l.packets),
    ("first", "Messages that no other line had brought before.", |l| l.first),
    ("behind", "Packets whose first message another line had brought before.", |l| l.behind),
];

/// The families of all feeds; nothing where there are none.
pub(super) fn metrics(out: &mut String, feeds: &[Feed]) {
    if feeds.is_empty() {
        return;
    }
    for (kind, ending, figures) in [("counter", "_total", &COUNTERS[..]), ("gauge", "", &GAUGES[..])] {
        for (name, help, value) in figures {
            let family = format!("quoteway_feed_{name}");
            head(out, &family, kind, help);
            for feed in feeds {
                let _ = writeln!(out, "{family}{ending}{{feed=\"{}\"}} {}", escaped(&feed.name), value(feed));
            }
        }
    }
    let family = "quoteway_feed_latency_seconds";
    head(out, family, "gauge", "From the exchange's time of a message until it was taken from the socket.");
    for feed in feeds {
        let name = escaped(&feed.name);
        let quantiles = [("0.5", feed.latency_median_ns), ("0.99", feed.latency_p99_ns), ("1", feed.latency_max_ns)];
        for (quantile, ns) in quantiles {
            let seconds = ns as f64 / 1e9;
            let _ = writeln!(out, "{family}{{feed=\"{name}\",quantile=\"{quantile}\"}} {seconds}");
        }
    }
    of_lines(out, feeds);
    let family = "quoteway_feed_bad";
    head(out, family, "counter", "What was wrong with what came, by kind.");
    for feed in feeds {
        for (kind, count) in &feed.bad {
            let (name, kind) = (escaped(&feed.name), escaped(kind));
            let _ = writeln!(out, "{family}_total{{feed=\"{name}\",kind=\"{kind}\"}} {count}");
        }
    }
}

fn of_lines(out: &mut String, feeds: &[Feed]) {
    let lines = || feeds.iter().flat_map(|feed| feed.lines.iter().map(move |line| (escaped(&feed.name), line)));
    for (name, help, value) in LINES {
        let family = format!("quoteway_feed_line_{name}");
        head(out, &family, "counter", help);
        for (feed, line) in lines() {
            let _ = writeln!(out, "{family}_total{{feed=\"{feed}\",line=\"{}\"}} {}", line.line, value(line));
        }
    }
    let family = "quoteway_feed_line_behind_seconds";
    head(out, family, "counter", "How long before, summed.");
    for (feed, line) in lines() {
        let seconds = line.behind_ns as f64 / 1e9;
        let _ = writeln!(out, "{family}_total{{feed=\"{feed}\",line=\"{}\"}} {seconds}", line.line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feed_and_line_has_its_samples() {
        let feeds = Feeds::default();
        let mut text = String::new();
        metrics(&mut text, &feeds.all());
        assert_eq!(text, "");
        let lines = vec![Line { line: "A".into(), packets: 7, first: 5, behind: 2, behind_ns: 1_500_000 }];
        let bad = BTreeMap::from([("packets that are cut".to_owned(), 3)]);
        let nasdaq = Feed { name: "NASDAQ".into(), messages: 9, suspect: true, lines, bad, ..Feed::default() };
        feeds.tell(Feed { messages: 1, ..nasdaq.clone() });
        feeds.clone().tell(nasdaq);
        feeds.tell(Feed { name: "a\"b".into(), latency_p99_ns: 250_000, ..Feed::default() });
        assert_eq!(feeds.all().iter().map(|feed| feed.name.as_str()).collect::<Vec<_>>(), ["NASDAQ", "a\"b"]);
        metrics(&mut text, &feeds.all());
        for sample in [
            "quoteway_feed_messages_total{feed=\"NASDAQ\"} 9",
            "quoteway_feed_suspect{feed=\"NASDAQ\"} 1",
            "quoteway_feed_suspect{feed=\"a\\\"b\"} 0",
            "quoteway_feed_line_first_total{feed=\"NASDAQ\",line=\"A\"} 5",
            "quoteway_feed_line_behind_seconds_total{feed=\"NASDAQ\",line=\"A\"} 0.0015",
            "quoteway_feed_latency_seconds{feed=\"a\\\"b\",quantile=\"0.99\"} 0.00025",
            "quoteway_feed_bad_total{feed=\"NASDAQ\",kind=\"packets that are cut\"} 3",
        ] {
            assert!(text.lines().any(|line| line == sample), "{sample}\n{text}");
        }
        let families = text.lines().filter(|line| line.starts_with("# TYPE ")).count();
        assert_eq!(families, COUNTERS.len() + GAUGES.len() + LINES.len() + 3);
    }
}
