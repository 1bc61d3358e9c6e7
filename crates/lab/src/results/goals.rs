//! At what rates a scenario runs, and what its figures are to be.

use std::fmt;
use std::str::FromStr;

use super::Side;
use feed::pace::Rate;

/// A word that is no rate, or a line that is no goal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GoalError {
    /// A word among the rates.
    #[error("{0:?} is no rate; write max, search or deliveries a second: 1000, 50k, 1.5M")]
    Rate(String),
    /// A goal.
    #[error("goal {0:?}: write ROW METRIC[/SIDE] >= VALUE, or <=")]
    Goal(String),
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
    type Err = GoalError;

    fn from_str(text: &str) -> Result<Self, GoalError> {
        if text == "search" {
            return Ok(Self::Search);
        }
        match Rate::parse(text) {
            Some(Rate::Max) => Ok(Self::Max),
            Some(Rate::PerSecond(rate)) => Ok(Self::Rate(rate)),
            _ => Err(GoalError::Rate(text.to_owned())),
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
    type Err = GoalError;

    fn from_str(text: &str) -> Result<Self, GoalError> {
        let wrong = || GoalError::Goal(text.to_owned());
        let words: Vec<&str> = text.split_whitespace().collect();
        let [row, metric, relation, bound] = words[..] else { return Err(wrong()) };
        let (metric, over) = match metric.split_once('/') {
            None => (metric, None),
            Some((metric, side)) => (metric, Some(side.parse().map_err(|_| wrong())?)),
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
