//! What a scenario is: its parameters, its rates and its goals, read from a file that users can copy and change.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use super::rows::Side;
use crate::tools::sink_driven_src::pace::Rate;

/// The scenarios that come with the binary; `quoteway lab list --toml` prints them.
pub const BUILT_IN: &str = include_str!("scenarios.toml");

/// One scenario.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// How it is called on the command line; the name of its table.
    #[serde(skip)]
    pub name: String,
    /// What is measured, in a line.
    pub title: String,
    /// What the reader of a figure has to know.
    #[serde(default)]
    pub about: String,
    /// Which procedure runs it.
    pub kind: Kind,
    /// Only run when it is named.
    #[serde(default)]
    pub on_request: bool,
    /// Items of the watchlist.
    #[serde(default = "items")]
    pub items: u32,
    /// Bytes of an update message.
    #[serde(default = "size")]
    pub size: usize,
    /// Consumer connections.
    #[serde(default = "one")]
    pub mounts: u32,
    /// Share of the items that all mounts watch; each of the others is watched by one.
    #[serde(default = "all")]
    pub common: f64,
    /// The server is between source and client; without it the client connects to the source.
    #[serde(default = "yes")]
    pub server: bool,
    /// Deliveries a second at the clients, separated by spaces: `max`, `search`, `1000`, `50k`, `1.5M`.
    #[serde(default)]
    pub rates: String,
    /// The rates of these at which the peer runs too.
    #[serde(default)]
    pub peer_rates: String,
    /// Socket buffers in bytes.
    #[serde(default = "buffer")]
    pub socket_buffer: usize,
    /// How the source waits: `block`, `yield` or `spin`; server and client always block.
    #[serde(default = "idle")]
    pub idle: String,
    /// Every so manieth update carries a time stamp.
    #[serde(default = "one")]
    pub stamp_every: u32,
    /// Measured seconds of a run.
    #[serde(default = "seconds")]
    pub seconds: f64,
    /// Seconds at a run's rate before that which do not count.
    #[serde(default = "warmup")]
    pub warmup: f64,
    /// What is to be reached: `ROW METRIC[/floor|/peer] (>=|<=) VALUE`.
    #[serde(default)]
    pub goals: Vec<String>,
}

/// The procedure of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Decoding and encoding the reference updates, beside ETA Java on the same bytes.
    Codec,
    /// Source, server and client at rates, beside the bare loops and ETA Java.
    Flow,
    /// Opening a watchlist while another client streams.
    Images,
    /// Bytes of an item and of a watcher.
    Memory,
}

fn items() -> u32 {
    100_000
}
fn size() -> usize {
    85
}
fn one() -> u32 {
    1
}
fn all() -> f64 {
    1.0
}
fn yes() -> bool {
    true
}
fn buffer() -> usize {
    262_144
}
fn idle() -> String {
    "yield".to_owned()
}
fn seconds() -> f64 {
    3.0
}
fn warmup() -> f64 {
    1.0
}

/// At what rate a flow runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Point {
    /// As fast as it goes: queues are full.
    Max,
    /// The highest rate that is held without a growing queue.
    Search,
    /// So many deliveries a second.
    Rate(f64),
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "search" {
            return Ok(Self::Search);
        }
        match Rate::parse(text) {
            Some(Rate::Max) => Ok(Self::Max),
            Some(Rate::PerSecond(rate)) => Ok(Self::Rate(rate)),
            _ => Err(format!("{text:?} is no rate; write max, search or deliveries a second: 1000, 50k, 1.5M")),
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Max => f.write_str("max"),
            Self::Search => f.write_str("search"),
            Self::Rate(rate) if rate >= 1e6 => write!(f, "{}M", rate / 1e6),
            Self::Rate(rate) if rate >= 1e3 => write!(f, "{}k", rate / 1e3),
            Self::Rate(rate) => write!(f, "{rate}"),
        }
    }
}

impl Scenario {
    /// The rates of the scenario.
    ///
    /// # Errors
    /// A word that is no rate.
    pub fn points(&self) -> Result<Vec<Point>, String> {
        self.rates.split_whitespace().map(str::parse).collect()
    }

    /// Whether the peer runs at this rate too.
    pub fn with_peer(&self, point: Point) -> bool {
        self.peer_rates.split_whitespace().any(|word| word.parse() == Ok(point))
    }

    /// Deliveries for each update that the source sends.
    pub fn fan(&self) -> f64 {
        self.common * f64::from(self.mounts) + (1.0 - self.common)
    }

    /// Its goals.
    ///
    /// # Errors
    /// A line that is no goal.
    pub fn goals(&self) -> Result<Vec<Goal>, String> {
        self.goals.iter().map(|line| line.parse()).collect()
    }

    fn check(&self) -> Result<(), String> {
        self.points()?;
        for word in self.peer_rates.split_whitespace() {
            word.parse::<Point>()?;
        }
        self.goals()?;
        let sound = self.items > 0
            && self.mounts > 0
            && self.stamp_every > 0
            && (0.0..=1.0).contains(&self.common)
            && self.seconds > 0.0;
        if !sound || !(0.0..=600.0).contains(&self.warmup) || self.seconds > 86_400.0 {
            return Err("items, mounts, common (0 to 1), seconds or warmup is out of range".to_owned());
        }
        if self.kind == Kind::Flow && self.rates.trim().is_empty() {
            return Err("a flow needs rates".to_owned());
        }
        Ok(())
    }
}

/// What a figure is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// The row of the table.
    pub row: String,
    /// Which figure of it.
    pub metric: String,
    /// Compared with another side's; by itself otherwise.
    pub over: Option<Side>,
    /// At least this, or at most.
    pub at_least: bool,
    /// The bound.
    pub bound: f64,
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("goal {text:?}: write ROW METRIC[/floor|/peer] >= VALUE, or <=");
        let words: Vec<&str> = text.split_whitespace().collect();
        let [row, metric, relation, bound] = words[..] else { return Err(wrong()) };
        let (metric, over) = match metric.split_once('/') {
            None => (metric, None),
            Some((metric, "floor")) => (metric, Some(Side::Floor)),
            Some((metric, "peer")) => (metric, Some(Side::Peer)),
            Some(_) => return Err(wrong()),
        };
        let at_least = match relation {
            ">=" => true,
            "<=" => false,
            _ => return Err(wrong()),
        };
        let bound = bound.parse().map_err(|_| wrong())?;
        Ok(Self { row: row.to_owned(), metric: metric.to_owned(), over, at_least, bound })
    }
}

/// Reads scenarios. `overrides` are `KEY=VALUE` for all of them; a value is read as TOML, or as text if it is none.
///
/// # Errors
/// What is wrong, with the scenario's name.
pub fn read(text: &str, overrides: &[String]) -> Result<Vec<Scenario>, String> {
    let tables: toml::Table = text.parse().map_err(|e: toml::de::Error| format!("scenarios: {e}"))?;
    let mut scenarios = Vec::new();
    for (name, value) in tables {
        let toml::Value::Table(mut table) = value else {
            return Err(format!("scenarios: {name} stands outside of a [scenario]"));
        };
        for line in overrides {
            let (key, value) = line.split_once('=').ok_or_else(|| format!("--set {line}: write KEY=VALUE"))?;
            let parsed = format!("v = {value}").parse::<toml::Table>().ok().and_then(|mut t| t.remove("v"));
            table.insert(key.trim().to_owned(), parsed.unwrap_or_else(|| toml::Value::String(value.to_owned())));
        }
        let scenario: Scenario = table.try_into().map_err(|e| format!("scenario {name}: {e}"))?;
        scenario.check().map_err(|e| format!("scenario {name}: {e}"))?;
        scenarios.push(Scenario { name, ..scenario });
    }
    Ok(scenarios)
}

/// The scenarios of these names in this order; without names, all that need not be asked for.
///
/// # Errors
/// A name that is unknown.
pub fn select(all: Vec<Scenario>, names: &[String]) -> Result<Vec<Scenario>, String> {
    if names.is_empty() {
        return Ok(all.into_iter().filter(|s| !s.on_request).collect());
    }
    let find = |name: &String| {
        all.iter().find(|s| s.name == *name).cloned().ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|s| s.name.as_str()).collect();
            format!("no scenario {name:?}; there are {}", known.join(", "))
        })
    };
    names.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_scenarios_are_sound() {
        let all = read(BUILT_IN, &[]).unwrap();
        let names: Vec<&str> = all.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["codec", "chain", "fanout", "latency", "hop", "hop-blocked", "images", "memory", "smoke"]);
        assert!(all.iter().all(|s| s.name == "smoke" || !s.goals.is_empty()));
        assert_eq!(select(all.clone(), &[]).unwrap().len(), all.len() - 1);
        let fanout = select(all, &["fanout".to_owned()]).unwrap().remove(0);
        assert!((fanout.fan() - 50.5).abs() < 1e-9);
    }

    #[test]
    fn rates_are_words_and_numbers() {
        let text = "[a]\ntitle = 'A'\nkind = 'flow'\nrates = 'max search 1000 50k 1.5M'\npeer_rates = 'max'";
        let scenario = read(text, &[]).unwrap().remove(0);
        let points = scenario.points().unwrap();
        assert_eq!(points[..3], [Point::Max, Point::Search, Point::Rate(1_000.0)]);
        let shown: Vec<String> = points.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["max", "search", "1k", "50k", "1.5M"]);
        assert!(scenario.with_peer(Point::Max) && !scenario.with_peer(Point::Search));
    }

    #[test]
    fn what_is_set_on_the_command_line_wins() {
        let text = "[a]\ntitle = 'A'\nkind = 'memory'\nitems = 5";
        let set = ["items=7".to_owned(), "idle=block".to_owned(), "server = false".to_owned()];
        let scenario = read(text, &set).unwrap().remove(0);
        assert_eq!((scenario.items, scenario.idle.as_str(), scenario.server), (7, "block", false));
    }

    #[test]
    fn faults_name_the_scenario() {
        for (line, part) in [
            ("rats = 'max'", "rats"),
            ("rates = 'fast'", "fast"),
            ("goals = ['max rate > 3']", "max rate > 3"),
            ("goals = ['max rate/nats >= 3']", "nats"),
            ("mounts = 0", "mounts"),
            ("rates = ''", "rates"),
        ] {
            let text = format!("[a]\ntitle = 'A'\nkind = 'flow'\n{line}");
            let error = read(&text, &[]).unwrap_err();
            assert!(error.contains("scenario a") && error.contains(part), "{error}");
        }
        assert!(read("x = 1", &[]).is_err() && read("[a]", &["items".to_owned()]).is_err());
        assert!(select(Vec::new(), &["b".to_owned()]).is_err());
    }

    #[test]
    fn a_goal_is_a_row_a_metric_and_a_bound() {
        let goal: Goal = "decode_74 ns/peer <= 0.333".parse().unwrap();
        assert_eq!((goal.row.as_str(), goal.metric.as_str(), goal.over), ("decode_74", "ns", Some(Side::Peer)));
        assert!(!goal.at_least && (goal.bound - 0.333).abs() < 1e-12);
    }
}
