//! The tables of the report on LBM 3.3.9, row by row as printed.

use super::goals::Point;
use super::{APART, Outcome};

/// What is published, by the name of the figure that it compares with: the report counts from the call of the API.
pub(crate) const COLUMNS: [(&str, &str, &str); 7] = [
    ("median_us", "call_p50_us", "median"),
    ("mean_us", "call_mean_us", "mean"),
    ("stddev_us", "call_stddev_us", "std dev"),
    ("min_us", "call_min_us", "min"),
    ("max_us", "call_max_us", "max"),
    ("p99_us", "call_p99_us", "99 %"),
    ("p999_us", "call_p999_us", "99.9 %"),
];

/// Tables of the report that stand beside a scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Where they stand: `table 3-1, page 18`.
    pub place: String,
    /// The table's rows.
    pub rows: Vec<Published>,
}

/// A row, as printed; a table that combines runs has combined their data, not their figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// Bytes of a message.
    pub payload: u32,
    /// Messages a second of each publisher that were asked for; none where the highest rate was sought.
    pub target: Option<f64>,
    /// Which pair of publisher and subscriber, from 1.
    pub path: u32,
    /// Messages a second that came, where the table says so.
    pub actual: Option<f64>,
    /// Data was lost: there are no figures.
    pub is_lost: bool,
    /// The columns in microseconds.
    pub figures: [f64; COLUMNS.len()],
}

impl Published {
    /// The row's mean.
    pub fn mean_us(&self) -> f64 {
        self.figures[1]
    }

    /// The row of ours that stands beside it: between hosts, as there, where a call has that, and of loopback in a call that has nothing else.
    pub fn beside(&self, outcome: &Outcome) -> String {
        let label = self.label();
        let apart = format!("{APART}{label}");
        if outcome.rows.iter().any(|row| row.label == apart) { apart } else { label }
    }

    /// Payload, rate and medium, as rows of ours are called on loopback.
    pub fn label(&self) -> String {
        match self.target {
            Some(rate) => format!("lbtrm-{}b-{}", self.payload, Point::Rate(rate)),
            None => format!("lbtrm-{}b-search", self.payload),
        }
    }

    /// The name of a figure of ours that compares with this row's: those of further paths have the path in front.
    pub(crate) fn ours(&self, figure: &str) -> String {
        if self.path > 1 { format!("path{}_{figure}", self.path) } else { figure.to_owned() }
    }
}
