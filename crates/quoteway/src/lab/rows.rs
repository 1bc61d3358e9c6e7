//! What was measured: rows of figures for each side, taken in pairs, and what the goals make of them.

use std::fmt;

use super::scenario::Goal;
use super::stats::{Spread, ratios};

/// Whose figure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Quoteway.
    Ours,
    /// The bare loop of the same shape.
    Floor,
    /// Another product on the same work.
    Peer,
}

impl Side {
    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Floor => "floor",
            Self::Peer => "peer",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The figures of one run, by name. The unit is the end of the name (`_us`, `_ns`, `_s`, `_bytes`); `rate` is a second,
/// `ns` a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics(pub Vec<(String, f64)>);

impl Metrics {
    /// Adds one.
    pub fn push(&mut self, name: &str, value: f64) {
        self.0.push((name.to_owned(), value));
    }

    /// The one of this name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| *v)
    }

    /// As a JSON object.
    pub fn json(&self) -> serde_json::Value {
        self.0
            .iter()
            .map(|(name, value)| (name.clone(), serde_json::json!(value)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

/// The runs of one row: what each side measured, pair by pair.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// What the row is of: a rate, an operation.
    pub label: String,
    ours: Vec<Metrics>,
    floor: Vec<Metrics>,
    peer: Vec<Metrics>,
}

impl Row {
    /// A row without runs.
    pub fn new(label: &str) -> Self {
        Self { label: label.to_owned(), ..Self::default() }
    }

    /// Takes the figures of a run.
    pub fn add(&mut self, side: Side, metrics: Metrics) {
        self.side_mut(side).push(metrics);
    }

    /// The runs of a side; one that failed has no figures.
    pub fn side(&self, side: Side) -> &[Metrics] {
        match side {
            Side::Ours => &self.ours,
            Side::Floor => &self.floor,
            Side::Peer => &self.peer,
        }
    }

    fn side_mut(&mut self, side: Side) -> &mut Vec<Metrics> {
        match side {
            Side::Ours => &mut self.ours,
            Side::Floor => &mut self.floor,
            Side::Peer => &mut self.peer,
        }
    }

    /// The names of all figures, in the order in which they were first seen.
    pub fn metrics(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in [&self.ours, &self.floor, &self.peer].into_iter().flatten().flat_map(|m| &m.0) {
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

    /// The ratio of ours to another side's, pair by pair.
    pub fn ratio(&self, over: Side, metric: &str) -> Option<Spread> {
        Spread::of(&ratios(&self.values(Side::Ours, metric), &self.values(over, metric)))
    }
}

/// What became of a goal.
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
        let row = rows.iter().find(|r| r.label == goal.row);
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
    /// Its title.
    pub title: String,
    /// What the reader has to know.
    pub about: String,
    /// The rows.
    pub rows: Vec<Row>,
    /// The goals.
    pub verdicts: Vec<Verdict>,
    /// What happened on the way: a side that could not run, a rate that was refused.
    pub notes: Vec<String>,
    /// Load average and share of stolen time while it ran.
    pub disturbance: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(metric: &str, value: f64) -> Metrics {
        Metrics(vec![(metric.to_owned(), value)])
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
        assert_eq!((row.metrics(), row.ratio(Side::Peer, "rate")), (vec!["rate"], None));
    }

    #[test]
    fn goals_are_judged_by_the_median() {
        let mut row = Row::new("max");
        row.add(Side::Ours, one("rate", 4e6));
        row.add(Side::Peer, one("rate", 1e6));
        let verdict = |text: &str| Verdict::of(text.parse().unwrap(), std::slice::from_ref(&row)).is_met();
        assert_eq!(verdict("max rate >= 3e6"), Some(true));
        assert_eq!(verdict("max rate/peer <= 3"), Some(false));
        assert_eq!(verdict("max rate/floor >= 1"), None);
        assert_eq!(verdict("search rate >= 1"), None);
    }
}
