//! What is measured: the cells of a grid, and how each is told to the processes.

use clap::ValueEnum;
use measure::process::Fault;
use serde::{Deserialize, Serialize};

use crate::results::APART;
use crate::results::goals::Point;

/// What happens to messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// One way, as many as go: receivers say how far they are, and nothing is lost for want of room.
    Stream,
    /// One way at a rate, an open loop: latency of every message (or of one of so many), and whether the rate is held.
    OneWay,
    /// There and back, at a rate or one by one.
    RoundTrips,
}

/// How they travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Medium {
    /// LBT-RM: multicast.
    Lbtrm,
    /// LBT-RU: unicast UDP.
    Lbtru,
    /// LBT-IPC: shared memory.
    Lbtipc,
}

impl Medium {
    /// As the option `transport` names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lbtrm => "lbtrm",
            Self::Lbtru => "lbtru",
            Self::Lbtipc => "lbtipc",
        }
    }
}

/// Whether datagrams wait for company.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Every message is sent at once, in a datagram of its own (`implicit_batching_minimum_length 1`).
    #[default]
    Latency,
    /// The messages that are due share datagrams; what is open is sent when nothing more is due.
    Throughput,
}

/// What sides do when there is nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    /// The threads yield, which needs a processor for each.
    #[default]
    Yield,
    /// Receivers block, sources sleep.
    Block,
}

impl Idle {
    /// As the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Yield => "yield",
            Self::Block => "block",
        }
    }
}

/// The cells of a scenario: every combination. Lists are separated by spaces.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// What happens.
    pub measure: Measure,
    /// `lbtrm`, `lbtru`, `lbtipc`.
    pub transports: String,
    /// Bytes of a message.
    pub payloads: String,
    /// Longest datagrams.
    #[serde(default = "datagrams")]
    pub datagrams: String,
    /// UDP GSO and GRO: `off`, `on`.
    #[serde(default = "offload")]
    pub offload: String,
    /// Messages a second, of each source: there and back `max` is one by one; one way `search` is the highest rate that is held.
    #[serde(default = "rates")]
    pub rates: String,
    /// `loopback`, `veth`: the latter gives source and receivers network namespaces of their own, joined by a veth pair or a bridge.
    #[serde(default = "networks")]
    pub networks: String,
    /// Whether datagrams wait for company, one way at a rate.
    #[serde(default)]
    pub profile: Profile,
    /// Pairs of source and receiver that run at once, each with a group of its own: 3 in the report's 3:3.
    #[serde(default = "one")]
    pub paths: usize,
    /// Receivers of each source, one way as fast as it goes.
    #[serde(default = "one")]
    pub receivers: usize,
    /// What everybody does when there is nothing to do.
    #[serde(default)]
    pub idle: Idle,
    /// Which tables of the report on LBM 3.3.9 stand beside it, separated by spaces.
    #[serde(default)]
    pub report: String,
    /// Longest frames of the network between hosts.
    #[serde(default = "mtu")]
    pub mtu: u32,
    /// More options of LBM for ours, in the form of its files, separated by ';'.
    #[serde(default)]
    pub options: String,
}

fn mtu() -> u32 {
    9_000
}

fn datagrams() -> String {
    "8192".to_owned()
}
fn offload() -> String {
    "on".to_owned()
}
fn rates() -> String {
    "max".to_owned()
}

fn networks() -> String {
    "loopback".to_owned()
}
fn one() -> usize {
    1
}

/// One combination.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// What happens.
    pub measure: Measure,
    /// How messages travel.
    pub medium: Medium,
    /// Bytes of a message.
    pub payload: usize,
    /// Longest datagram.
    pub datagram: usize,
    /// With GSO and GRO.
    pub offload: bool,
    /// Messages a second of each source, or round trips.
    pub rate: Point,
    /// In network namespaces instead of on loopback.
    pub veth: bool,
    /// Whether datagrams wait for company.
    pub profile: Profile,
    /// Pairs of source and receiver.
    pub paths: usize,
    /// Receivers of each source.
    pub receivers: usize,
    /// What everybody does when there is nothing to do.
    pub idle: Idle,
}

impl Grid {
    /// Whether it has a parameter of this name.
    pub fn has(&self, key: &str) -> bool {
        toml::Table::try_from(self).is_ok_and(|table| table.contains_key(key))
    }

    /// All combinations, in the order of the lists.
    ///
    /// # Errors
    /// A word that is not understood.
    pub fn cells(&self) -> Result<Vec<Cell>, GridError> {
        let mut cells = Vec::new();
        let words = |list: &str| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for network in words(&self.networks) {
            let veth = either(&network, "loopback", "veth")?;
            for medium in words(&self.transports) {
                let medium = Medium::from_str(&medium, true).map_err(|_| GridError::Transport(medium.clone()))?;
                for payload in numbers(&self.payloads, 8..=65_000)? {
                    for datagram in numbers(&self.datagrams, 500..=65_507)? {
                        for offload in words(&self.offload) {
                            let offload = either(&offload, "off", "on")?;
                            for rate in words(&self.rates) {
                                let cell = self.cell(
                                    medium,
                                    payload,
                                    datagram,
                                    rate.parse().map_err(|_| GridError::Rate(rate.clone()))?,
                                );
                                cells.push(Cell { offload, veth, ..cell });
                            }
                        }
                    }
                }
            }
        }
        cells.iter().try_for_each(Cell::check)?;
        if cells.is_empty() { Err(GridError::Cell("a grid of LBM has an empty list")) } else { Ok(cells) }
    }

    fn cell(&self, medium: Medium, payload: usize, datagram: usize, rate: Point) -> Cell {
        let Self { measure, profile, paths, receivers, idle, .. } = *self;
        Cell { measure, medium, payload, datagram, rate, profile, paths, receivers, idle, offload: false, veth: false }
    }

    /// What a reader of its figures has to know beside them.
    pub fn conditions(&self) -> String {
        let Self { paths, receivers, networks, idle, .. } = self;
        let mut parts = vec![match (*paths, *receivers) {
            (1, 1) => "one source, one receiver, a process each".to_owned(),
            (1, n) => format!("one source, {n} receivers, a process each"),
            (n, 1) => format!("{n} sources, {n} receivers, a process each; each pair has a group of its own"),
            (n, m) => format!("{n} sources with {m} receivers each, a process each"),
        }];
        let mtu = if networks.contains("veth") { format!(", MTU {}", self.mtu) } else { String::new() };
        parts.push(format!("network: {networks}{mtu}"));
        if !self.options.is_empty() {
            parts.push(format!("LBM: {}", self.options));
        }
        parts.push(format!("UDP GSO and GRO: {}", self.offload));
        parts.push(match idle {
            Idle::Yield => "who has nothing to do yields".to_owned(),
            Idle::Block => "receivers block, sources sleep (Aeron: backoff)".to_owned(),
        });
        if self.measure == Measure::OneWay {
            parts.push(match self.profile {
                Profile::Latency => "every message at once, in a datagram of its own".to_owned(),
                Profile::Throughput => "messages that are due share datagrams".to_owned(),
            });
        }
        parts.push("no process bound".to_owned());
        parts.join("; ")
    }
}

/// A grid that has a cell which cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GridError {
    /// A word among the transports.
    #[error("{0:?} is no transport; there are lbtrm, lbtru, lbtipc")]
    Transport(String),
    /// A word among the rates.
    #[error("{0:?} is no rate; write max, search or messages a second: 1000, 50k, 1.5M")]
    Rate(String),
    /// A word that is neither of two.
    #[error("{word:?}: write {no} or {yes}")]
    Word {
        /// The word.
        word: String,
        /// The one.
        no: String,
        /// The other.
        yes: String,
    },
    /// A word among numbers.
    #[error("{word:?}: not a number from {least} to {most}")]
    Number {
        /// The word.
        word: String,
        /// The least that is possible.
        least: usize,
        /// The most.
        most: usize,
    },
    /// A combination.
    #[error("{0}")]
    Cell(&'static str),
}

impl From<GridError> for Fault {
    fn from(error: GridError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Which of two words it is.
fn either(word: &str, no: &str, yes: &str) -> Result<bool, GridError> {
    match word {
        word if word == no => Ok(false),
        word if word == yes => Ok(true),
        other => Err(GridError::Word { word: other.to_owned(), no: no.to_owned(), yes: yes.to_owned() }),
    }
}

fn numbers(text: &str, range: std::ops::RangeInclusive<usize>) -> Result<Vec<usize>, GridError> {
    let number = |word: &str| {
        let parsed = word.parse().ok().filter(|n| range.contains(n));
        parsed.ok_or_else(|| GridError::Number { word: word.to_owned(), least: *range.start(), most: *range.end() })
    };
    text.split_whitespace().map(number).collect()
}

impl Cell {
    fn check(&self) -> Result<(), GridError> {
        let Self { measure, medium, rate, paths, receivers, .. } = *self;
        let in_memory = medium == Medium::Lbtipc;
        if !(1..=8).contains(&paths) || !(1..=8).contains(&receivers) {
            return Err(GridError::Cell("paths and receivers must be 1 to 8"));
        }
        if in_memory && (self.veth || paths * receivers > 1 || measure == Measure::OneWay) {
            return Err(GridError::Cell(
                "lbtipc is measured between two processes of one host, by streams and round trips",
            ));
        }
        if receivers > 1 && (measure != Measure::Stream || medium != Medium::Lbtrm) {
            return Err(GridError::Cell("several receivers of a source: streams by lbtrm only"));
        }
        if paths > 1 && measure == Measure::RoundTrips {
            return Err(GridError::Cell("several paths: one way only"));
        }
        if rate == Point::Max && measure == Measure::OneWay {
            return Err(GridError::Cell("one way needs a rate, or search; as fast as it goes is measure = \"stream\""));
        }
        Ok(())
    }

    /// The name of its row.
    pub fn label(&self) -> String {
        let Self { medium, payload, datagram, .. } = self;
        let offload = if self.offload { "gso" } else { "plain" };
        let medium = format!("{}{}-{payload}b", if self.veth { APART } else { "" }, medium.name());
        match (self.measure, self.medium) {
            (Measure::Stream, Medium::Lbtipc) => medium,
            (Measure::Stream, _) => format!("{medium}-{datagram}-{offload}"),
            (Measure::OneWay, _) => format!("{medium}-{}", self.rate),
            (Measure::RoundTrips, _) => match self.rate {
                Point::Rate(_) => format!("{medium}-{}", self.rate),
                Point::Max | Point::Search => format!("{medium}-serial"),
            },
        }
    }

    /// Messages a second; 0 = without a rate.
    pub fn per_second(&self) -> f64 {
        match self.rate {
            Point::Rate(rate) => rate,
            Point::Max | Point::Search => 0.0,
        }
    }

    /// The longest datagram that Aeron can have: its frames are multiples of 32 bytes.
    pub fn aeron_mtu(&self) -> usize {
        self.datagram / 32 * 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(lines: &str) -> Grid {
        toml::from_str(lines).expect("a grid")
    }

    #[test]
    fn a_grid_is_every_combination() {
        let grid = grid(
            "measure = 'stream'\ntransports = 'lbtrm lbtru'\npayloads = '64 1024'\ndatagrams = '1408 8192'\noffload = 'off on'",
        );
        let labels: Vec<String> = grid.cells().expect("cells").iter().map(Cell::label).collect();
        assert_eq!(
            (labels.len(), labels[0].as_str(), labels[15].as_str()),
            (16, "lbtrm-64b-1408-plain", "lbtru-1024b-8192-gso")
        );
    }

    #[test]
    fn round_trips_are_named_by_their_rate() {
        let grid = grid("measure = 'round-trips'\ntransports = 'lbtipc'\npayloads = '64'\nrates = 'max 25k'");
        let cells = grid.cells().expect("cells");
        assert_eq!((cells[0].label().as_str(), cells[1].label().as_str()), ("lbtipc-64b-serial", "lbtipc-64b-25k"));
    }

    #[test]
    fn networks_and_paths_are_part_of_a_cell() {
        let grid = grid(
            "measure = 'one-way'\ntransports = 'lbtrm'\npayloads = '64'\nrates = '125k search'\nnetworks = 'loopback veth'\n\
             paths = 3\nprofile = 'throughput'\nidle = 'block'",
        );
        let cells = grid.cells().expect("cells");
        let labels: Vec<String> = cells.iter().map(Cell::label).collect();
        assert_eq!(labels, ["lbtrm-64b-125k", "lbtrm-64b-search", "veth-lbtrm-64b-125k", "veth-lbtrm-64b-search"]);
        assert!(cells.iter().all(|c| c.paths == 3 && c.profile == Profile::Throughput && c.idle == Idle::Block));
        assert!(grid.conditions().contains("3 sources, 3 receivers"), "{}", grid.conditions());
    }

    #[test]
    fn nonsense_is_named() {
        for (line, part) in [
            ("transports = 'lbtrx'\npayloads = '64'", "lbtrx"),
            ("transports = 'lbtrm'\npayloads = '3'", "\"3\""),
            ("transports = 'lbtrm'\npayloads = '64'\noffload = 'maybe'", "maybe"),
            ("transports = ''\npayloads = '64'", "empty"),
            ("transports = 'lbtipc'\npayloads = '64'\nnetworks = 'veth'", "lbtipc"),
            ("transports = 'lbtru'\npayloads = '64'\nreceivers = 3", "receivers"),
            ("transports = 'lbtru'\npayloads = '64'\npaths = 9", "paths"),
            ("transports = 'lbtru'\npayloads = '64'\nnetworks = 'atm'", "atm"),
        ] {
            let error = grid(&format!("measure = 'stream'\n{line}")).cells().expect_err(line).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
