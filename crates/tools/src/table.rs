//! The tables that the tools print: one line an interval, numbers right-aligned under their heading.

use measure::latency::Summary;
use std::fmt::Write as _;

/// A column: heading and width.
pub type Column = (&'static str, usize);

/// What `test-client` prints each interval, in the order of the reports' tables, percentiles behind them.
pub const CLIENT: &[Column] = &[
    ("seconds", 8),
    ("updates/s", 11),
    ("Mean(us)", 10),
    ("StdDev", 9),
    ("Max", 10),
    ("Min", 9),
    ("# Samples", 10),
    ("50%", 9),
    ("90%", 9),
    ("99%", 10),
    ("images", 8),
    ("lost", 7),
];

/// What `sink-driven-src` prints each interval.
pub const SOURCE: &[Column] = &[
    ("seconds", 8),
    ("updates/s", 11),
    ("target/s", 11),
    ("open", 8),
    ("requests", 9),
    ("blocked", 8),
    ("skipped", 8),
    ("late 50%", 9),
    ("late 99%", 10),
    ("late max", 10),
];

/// The heading line of a table.
pub fn heading(columns: &[Column]) -> String {
    row(columns, columns.iter().map(|(title, _)| (*title).to_owned()))
}

/// One line: the cells under their columns.
pub fn row(columns: &[Column], cells: impl IntoIterator<Item = String>) -> String {
    let mut line = String::new();
    for ((_, width), cell) in columns.iter().zip(cells) {
        let _ = write!(line, "{cell:>width$} ");
    }
    line.truncate(line.trim_end().len());
    line
}

/// One line of the client's table. `lost` counts updates that the sequence numbers say are missing.
pub fn client_row(seconds: f64, updates_per_s: f64, latency: &Summary, images: u64, lost: u64) -> String {
    let us = |value: f64| if latency.samples == 0 { "-".to_owned() } else { micros(value) };
    row(
        CLIENT,
        [
            format!("{seconds:.1}"),
            format!("{updates_per_s:.0}"),
            us(latency.mean_us),
            us(latency.stddev_us),
            us(latency.max_us),
            us(latency.min_us),
            latency.samples.to_string(),
            us(latency.p50_us),
            us(latency.p90_us),
            us(latency.p99_us),
            images.to_string(),
            lost.to_string(),
        ],
    )
}

/// The heading of the client's table as CSV.
pub const CLIENT_CSV: &str =
    "seconds,updates_per_s,mean_us,stddev_us,max_us,min_us,samples,p50_us,p90_us,p99_us,images,lost";

/// One line of the client's table as CSV.
pub fn client_csv_row(seconds: f64, updates_per_s: f64, latency: &Summary, images: u64, lost: u64) -> String {
    let l = latency;
    // Figures that were not measured are empty.
    let us = |value: f64| if l.samples == 0 { String::new() } else { format!("{value:.3}") };
    format!(
        "{seconds:.3},{updates_per_s:.0},{},{},{},{},{},{},{},{},{images},{lost}",
        us(l.mean_us),
        us(l.stddev_us),
        us(l.max_us),
        us(l.min_us),
        l.samples,
        us(l.p50_us),
        us(l.p90_us),
        us(l.p99_us)
    )
}

/// What `sink-driven-src` tells each interval.
#[derive(Clone, Debug, Default)]
pub struct SourceLine {
    /// Seconds since the start.
    pub seconds: f64,
    /// Updates a second in the interval.
    pub updates_per_s: f64,
    /// The rate that was asked for.
    pub target: String,
    /// Streams that are updated.
    pub streams: usize,
    /// Messages that came in, since the start.
    pub requests: u64,
    /// Turns in which a session had not taken what it was sent before, since the start.
    pub blocked: u64,
    /// Updates that were given up, since the start.
    pub skipped: u64,
    /// How late updates went out in the interval.
    pub late: Summary,
}

/// One line of the source's table.
pub fn source_row(line: &SourceLine) -> String {
    let late = |value: f64| if line.late.samples == 0 { "-".to_owned() } else { micros(value) };
    row(
        SOURCE,
        [
            format!("{:.1}", line.seconds),
            format!("{:.0}", line.updates_per_s),
            line.target.clone(),
            line.streams.to_string(),
            line.requests.to_string(),
            line.blocked.to_string(),
            line.skipped.to_string(),
            late(line.late.p50_us),
            late(line.late.p99_us),
            late(line.late.max_us),
        ],
    )
}

/// Microseconds with as many digits as matter.
pub fn micros(value: f64) -> String {
    if value >= 1_000.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_table_looks_like_this() {
        let latency = Summary {
            samples: 100,
            mean_us: 231.65,
            stddev_us: 45.63,
            min_us: 163.0,
            max_us: 1046.0,
            p50_us: 220.0,
            p90_us: 301.0,
            p99_us: 700.0,
            p999_us: 900.0,
        };
        let table = format!("{}\n{}\n", heading(CLIENT), client_row(10.0, 1000.2, &latency, 100_000, 0));
        assert_eq!(
            table,
            " seconds   updates/s   Mean(us)    StdDev        Max       Min  # Samples       50%       90%        99%   images    lost\n    10.0        1000      231.7      45.6       1046     163.0        100     220.0     301.0      700.0   100000       0\n"
        );
        assert!(client_row(1.0, 0.0, &Summary::default(), 0, 0).contains("         -"));
        assert_eq!(client_csv_row(1.0, 0.0, &Summary::default(), 0, 0), "1.000,0,,,,,0,,,,0,0");
    }
}
