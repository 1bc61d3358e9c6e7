//! Results: rows of figures for each side, taken in pairs, and what the goals make of them.

pub mod contents;
mod deviation;
pub mod goals;
pub mod published;
pub mod series;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use measure::observer::analysis::{Outlier, Percentile};
use measure::observer::steady::Window;
use measure::stats::{Spread, ratios};

pub use deviation::{Deviation, Same};
pub use goals::{Goal, GoalError};
pub use series::Series;

/// What the names of rows between hosts begin with.
pub(crate) const APART: &str = "veth-";

/// Whose figure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Quoteway.
    Ours,
    /// Quoteway with evenly paced updates, where the procedure sends bursts as the originals did.
    Smooth,
    /// Quoteway, of which as few messages are timed as the report's harness timed.
    Sampled,
    /// Quoteway in another way, which the scenario names: other shards, another transport, without `io_uring`.
    Variant,
    /// The bare loop of the same shape.
    Floor,
    /// A provider and a consumer of ETA Java, connected directly.
    Eta,
    /// nats-server.
    Nats,
    /// Aeron's C media driver.
    Aeron,
}

/// Other products on the same work.
pub const PEERS: [Side; 3] = [Side::Eta, Side::Nats, Side::Aeron];

/// Everything that ours is compared with, in the order of the columns.
pub const OTHERS: [Side; 7] =
    [Side::Smooth, Side::Sampled, Side::Variant, Side::Floor, Side::Eta, Side::Nats, Side::Aeron];

impl Side {
    /// The side's name in records, goals and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Smooth => "smooth",
            Self::Sampled => "sampled",
            Self::Variant => "variant",
            Self::Floor => "floor",
            Self::Eta => "eta",
            Self::Nats => "nats",
            Self::Aeron => "aeron",
        }
    }

    /// The side's name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Ours => "Quoteway",
            Self::Smooth => "Quoteway, evenly paced",
            Self::Sampled => "Quoteway, sampled as the report did",
            Self::Variant => "Quoteway, variant",
            Self::Floor => "bare loop",
            Self::Eta => "ETA Java, direct",
            Self::Nats => "nats-server",
            Self::Aeron => "Aeron",
        }
    }
}

impl FromStr for Side {
    type Err = SideError;

    fn from_str(text: &str) -> Result<Self, SideError> {
        let mut known = [Self::Ours].into_iter().chain(OTHERS);
        known.find(|s| s.name() == text).ok_or_else(|| SideError(text.to_owned()))
    }
}

/// A name that no side has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no side {0:?}; there are ours, {known}", known = OTHERS.map(Side::name).join(", "))]
pub struct SideError(pub String);

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The figures of one run, by name. The unit is the end of the name (`_us`, `_ns`, `_s`, `_bytes`); `rate` is a second,
/// `ns` a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Name and value.
    pub figures: Vec<(String, f64)>,
    /// The observer's figures, if it was there.
    pub observed: Option<Observed>,
}

/// The points of an observed run in a chart.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Observed {
    /// Latencies of the steady state from the intended time, by bucket of 10 us.
    pub buckets: BTreeMap<u64, u64>,
    /// The latencies of LBM, the shortest by microsecond: one way from the call, there and back from the intended time.
    pub fine: Vec<u64>,
    /// The same latencies as an HDR histogram shows them.
    pub percentiles: Vec<Percentile>,
    /// The whole run in windows.
    pub windows: Vec<Window>,
    /// Seconds before the steady state.
    pub discarded_s: f64,
    /// Whether there was one.
    pub is_steady: bool,
    /// The slowest messages of the steady state.
    #[serde(default)]
    pub outliers: Vec<Outlier>,
    /// Deliveries in each whole second of the run.
    #[serde(default)]
    pub each_second: Vec<f64>,
}

impl FromIterator<(String, f64)> for Metrics {
    fn from_iter<T: IntoIterator<Item = (String, f64)>>(figures: T) -> Self {
        Self { figures: figures.into_iter().collect(), observed: None }
    }
}

impl Metrics {
    /// Adds one.
    pub fn push(&mut self, name: &str, value: f64) {
        self.figures.push((name.to_owned(), value));
    }

    /// The one of this name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|(n, _)| n == name).map(|(_, v)| *v)
    }

    /// As a JSON object.
    pub fn json(&self) -> serde_json::Value {
        self.figures
            .iter()
            .map(|(name, value)| (name.clone(), serde_json::json!(value)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

/// The runs of one row: what each side measured, pair by pair.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The subject of the row: a rate, an operation.
    pub label: String,
    sides: Vec<(Side, Vec<Metrics>)>,
}

impl Row {
    /// A row without runs.
    pub fn new(label: &str) -> Self {
        Self { label: label.to_owned(), sides: Vec::new() }
    }

    /// Takes the figures of a run; one that failed has none.
    pub fn add(&mut self, side: Side, metrics: Metrics) {
        match self.sides.iter_mut().find(|(s, _)| *s == side) {
            Some((_, runs)) => runs.push(metrics),
            None => self.sides.push((side, vec![metrics])),
        }
    }

    /// The runs of a side.
    pub fn side(&self, side: Side) -> &[Metrics] {
        self.sides.iter().find(|(s, _)| *s == side).map_or(&[], |(_, runs)| runs)
    }

    /// Whether a side has a figure at all.
    pub fn has(&self, side: Side) -> bool {
        self.side(side).iter().any(|m| !m.figures.is_empty())
    }

    /// The observer's figures of a side's first run that it saw.
    pub fn observed(&self, side: Side) -> Option<&Observed> {
        self.side(side).iter().find_map(|m| m.observed.as_ref())
    }

    /// The names of all figures, in the order in which they were first seen.
    pub fn metrics(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        let sides = [Side::Ours].into_iter().chain(OTHERS);
        for (name, _) in sides.flat_map(|s| self.side(s)).flat_map(|m| &m.figures) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    fn values(&self, side: Side, metric: &str) -> Vec<f64> {
        // A run without the figure keeps its place, so that pairs stay pairs; spreads leave it out.
        self.side(side).iter().map(|m| m.get(metric).unwrap_or(f64::NAN)).collect()
    }

    /// A figure of a side over all runs.
    pub fn spread(&self, side: Side, metric: &str) -> Option<Spread> {
        Spread::of(&self.values(side, metric))
    }

    /// Whether a side has held the rate of the row, in more than half of its runs: at one that was not held, a latency says how long a
    /// queue was, and the rate is no result. A side of which nothing says so was asked for no rate, or is not looked at for that.
    pub fn is_held(&self, side: Side) -> bool {
        self.spread(side, "held").is_none_or(|held| held.median > 0.5)
    }

    /// Which runs of ours are compared with a side: the evenly paced ones where there are some, as everybody else paces
    /// evenly; only those themselves, and the sampled ones and a variant, which pace as ours, are compared with ours in bursts.
    pub fn base(&self, over: Side) -> Side {
        if !matches!(over, Side::Smooth | Side::Sampled | Side::Variant) && self.has(Side::Smooth) {
            Side::Smooth
        } else {
            Side::Ours
        }
    }

    /// The ratio of ours to another side's, pair by pair.
    pub fn ratio(&self, over: Side, metric: &str) -> Option<Spread> {
        Spread::of(&ratios(&self.values(self.base(over), metric), &self.values(over, metric)))
    }
}

/// The outcome of a goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The goal.
    pub goal: Goal,
    /// The figure it speaks of; `None` if it was not measured.
    pub value: Option<f64>,
}

impl Verdict {
    /// Judges a goal by the rows of its scenario.
    pub fn of(goal: Goal, rows: &[Row]) -> Self {
        // A rate that was sought and not held is no figure.
        let is_result = |row: &&Row| goal.row != "search" || row.is_held(Side::Ours);
        let row = rows.iter().find(|r| r.label == goal.row).filter(is_result);
        let spread = row.and_then(|row| match goal.over {
            None => row.spread(Side::Ours, &goal.metric),
            Some(side) => row.ratio(side, &goal.metric),
        });
        Self { value: spread.map(|s| s.median), goal }
    }

    /// Whether it is reached; `None` if it was not measured.
    pub fn is_met(&self) -> Option<bool> {
        let value = self.value?;
        Some(if self.goal.at_least { value >= self.goal.bound } else { value <= self.goal.bound })
    }
}

/// Everything of one scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Name of the scenario.
    pub name: String,
    /// The report that it belongs to, if it does.
    pub group: String,
    /// The outcome's title.
    pub title: String,
    /// Notes for the reader.
    pub about: String,
    /// The rows.
    pub rows: Vec<Row>,
    /// The goals.
    pub verdicts: Vec<Verdict>,
    /// Events on the way: a side that could not run, a rate that was refused.
    pub notes: Vec<String>,
    /// Load average and share of stolen time while it ran.
    pub disturbance: String,
    /// Parameters of the scenario that a figure needs beside it.
    pub conditions: String,
    /// Published figures of other systems.
    pub originals: Vec<Series>,
    /// Where the test differs from the report that it repeats.
    pub deviations: Vec<Deviation>,
    /// Deliveries for each update in.
    pub fan: f64,
    /// The table of the report on LBM that stands beside it.
    pub published: Option<published::Table>,
}

/// The figures of a side of a row by name, medians over the runs.
pub fn medians(outcome: &Outcome, label: &str, side: Side) -> BTreeMap<String, f64> {
    let Some(row) = outcome.rows.iter().find(|r| r.label == label) else { return BTreeMap::new() };
    let all = row.metrics().into_iter();
    all.filter_map(|name| Some((name.to_owned(), row.spread(side, name)?.median))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(metric: &str, value: f64) -> Metrics {
        [(metric.to_owned(), value)].into_iter().collect()
    }

    #[test]
    fn ratios_pair_the_runs_even_when_one_lacks_a_figure() {
        let mut row = Row::new("max");
        for (ours, floor) in [(Some(10.0), 20.0), (None, 10.0), (Some(30.0), 40.0)] {
            row.add(Side::Ours, ours.map_or_else(Metrics::default, |v| one("rate", v)));
            row.add(Side::Floor, one("rate", floor));
        }
        let ratio = row.ratio(Side::Floor, "rate").unwrap();
        assert_eq!((ratio.count, ratio.low, ratio.high), (2, 0.5, 0.75));
        row.add(Side::Smooth, one("rate", 60.0));
        assert_eq!(row.ratio(Side::Floor, "rate").map(|s| s.median), Some(3.0));
        assert_eq!((row.metrics(), row.ratio(Side::Eta, "rate")), (vec!["rate"], None));
    }

    #[test]
    fn goals_are_judged_by_the_median() {
        let mut row = Row::new("max");
        row.add(Side::Ours, one("rate", 4e6));
        row.add(Side::Eta, one("rate", 1e6));
        let verdict = |text: &str| Verdict::of(text.parse().unwrap(), std::slice::from_ref(&row)).is_met();
        assert_eq!(verdict("max rate >= 3e6"), Some(true));
        assert_eq!(verdict("max rate/eta <= 3"), Some(false));
        assert_eq!(verdict("max rate/floor >= 1"), None);
        assert_eq!(verdict("search rate >= 1"), None);
    }

    #[test]
    fn a_rate_is_held_by_more_than_half_of_the_runs() {
        let mut row = Row::new("search");
        assert!(row.is_held(Side::Ours), "nothing was asked for");
        for (held, is_held) in [(1.0, true), (0.0, false), (1.0, true), (0.0, false)] {
            row.add(Side::Ours, [("rate".to_owned(), 2.0), ("held".to_owned(), held)].into_iter().collect());
            assert_eq!(row.is_held(Side::Ours), is_held, "{:?}", row.side(Side::Ours));
        }
        let goal = "search rate >= 1".parse().unwrap();
        assert_eq!(Verdict::of(goal, &[row]).is_met(), None, "what was not held meets nothing");
    }
}
