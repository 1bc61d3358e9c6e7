//! What is measured: the cells of a grid, and how each is told to the processes.

use clap::ValueEnum;
use serde::Deserialize;

use super::super::scenario::Point;

/// What happens to messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// One way, as many as go.
    Stream,
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

/// The cells of a scenario: every combination. Lists are separated by spaces.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
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
    /// Round trips a second; `max` is one by one.
    #[serde(default = "rates")]
    pub rates: String,
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
    /// Round trips a second.
    pub rate: Point,
}

impl Grid {
    /// All combinations, in the order of the lists.
    ///
    /// # Errors
    /// A word that is not understood.
    pub fn cells(&self) -> Result<Vec<Cell>, String> {
        let mut cells = Vec::new();
        for medium in self.transports.split_whitespace() {
            let medium = Medium::from_str(medium, true)?;
            for payload in numbers(&self.payloads, 8..=65_000)? {
                for datagram in numbers(&self.datagrams, 500..=65_507)? {
                    for offload in self.offload.split_whitespace() {
                        let offload = match offload {
                            "on" => true,
                            "off" => false,
                            other => return Err(format!("offload {other:?}: write on or off")),
                        };
                        for rate in self.rates.split_whitespace() {
                            let rate: Point = rate.parse()?;
                            cells.push(Cell { measure: self.measure, medium, payload, datagram, offload, rate });
                        }
                    }
                }
            }
        }
        if cells.is_empty() { Err("a grid of LBM has an empty list".to_owned()) } else { Ok(cells) }
    }
}

fn numbers(text: &str, range: std::ops::RangeInclusive<usize>) -> Result<Vec<usize>, String> {
    let number = |word: &str| {
        let parsed = word.parse().ok().filter(|n| range.contains(n));
        parsed.ok_or_else(|| format!("{word:?}: not a number from {} to {}", range.start(), range.end()))
    };
    text.split_whitespace().map(number).collect()
}

impl Cell {
    /// The name of its row.
    pub fn label(&self) -> String {
        let Self { medium, payload, datagram, .. } = self;
        let offload = if self.offload { "gso" } else { "plain" };
        match (self.measure, self.medium) {
            (Measure::Stream, Medium::Lbtipc) => format!("{}-{payload}b", medium.name()),
            (Measure::Stream, _) => format!("{}-{payload}b-{datagram}-{offload}", medium.name()),
            (Measure::RoundTrips, _) => match self.rate {
                Point::Rate(_) => format!("{}-{payload}b-{}", medium.name(), self.rate),
                Point::Max | Point::Search => format!("{}-{payload}b-serial", medium.name()),
            },
        }
    }

    /// Messages a second; 0 = without a rate.
    fn per_second(&self) -> f64 {
        match self.rate {
            Point::Rate(rate) => rate,
            Point::Max | Point::Search => 0.0,
        }
    }

    /// For `lab part lbm`.
    pub fn arguments(&self) -> Vec<String> {
        let measure = match self.measure {
            Measure::Stream => "stream",
            Measure::RoundTrips => "round-trips",
        };
        let Self { payload, datagram, .. } = self;
        let rate = self.per_second();
        let text = format!(
            "--measure {measure} --medium {} --payload {payload} --datagram {datagram} --rate {rate}{}",
            self.medium.name(),
            if self.offload { " --offload" } else { "" }
        );
        text.split(' ').map(str::to_owned).collect()
    }

    /// For Aeron's program.
    pub fn aeron_arguments(&self) -> Vec<String> {
        let measure = match self.measure {
            Measure::Stream => "throughput",
            Measure::RoundTrips => "latency",
        };
        let medium = match self.medium {
            Medium::Lbtrm => "multicast",
            Medium::Lbtru => "udp",
            Medium::Lbtipc => "ipc",
        };
        // Aeron's frames are multiples of 32 bytes.
        let mtu = self.datagram / 32 * 32;
        let (payload, rate) = (self.payload, self.per_second());
        let text = format!("{measure} --medium {medium} --payload {payload} --mtu {mtu} --rate {rate} --idle yield");
        text.split(' ').map(str::to_owned).collect()
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
        let aeron = cells[1].aeron_arguments().join(" ");
        assert_eq!(aeron, "latency --medium ipc --payload 64 --mtu 8192 --rate 25000 --idle yield");
        assert!(cells[0].arguments().join(" ").starts_with("--measure round-trips --medium lbtipc --payload 64"));
    }

    #[test]
    fn nonsense_is_named() {
        for (line, part) in [
            ("transports = 'lbtrx'\npayloads = '64'", "lbtrx"),
            ("transports = 'lbtrm'\npayloads = '3'", "\"3\""),
            ("transports = 'lbtrm'\npayloads = '64'\noffload = 'maybe'", "maybe"),
            ("transports = ''\npayloads = '64'", "empty"),
        ] {
            let error = grid(&format!("measure = 'stream'\n{line}")).cells().expect_err(line);
            assert!(error.contains(part), "{error}");
        }
    }
}
