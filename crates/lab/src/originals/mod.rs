//! The published figures of other systems: bare numbers with the report, table and page that they stand on, as CSV in
//! `published/`. Nothing is computed from them: what the page calls published is a cell of those files.
//!
//! | file | columns after `report,table,page` |
//! |---|---|
//! | `latency.csv` | `update_rate_per_s,mean_us,stddev_us,max_us,min_us,samples` |
//! | `throughput.csv` | `system,test,in_per_s,out_per_s,out_gbps` |
//! | `lbm.csv` | `test,payload_bytes,target_rate_per_s,path,run,actual_rate_per_s,median_us,mean_us,stddev_us,min_us,max_us,p99_us,p999_us`; run `combined`: the report's own combination of its runs; actual rate `loss`: data was lost |
//!
//! Cells may be empty; a page is empty where the copy of the report that was read has no page numbers.

use std::fs;
use std::path::Path;

pub mod lbm;

use super::error::FileError;
use super::results::series::{INFERRED, Point, Series};
use super::scenario::{Original, Scenario};

/// The files.
#[derive(Clone, Debug)]
pub struct Tables {
    latency: Csv,
    throughput: Csv,
    /// Latencies of the report on LBM 3.3.9.
    pub(crate) lbm: Csv,
}

impl Tables {
    /// The tables that come with the program.
    pub fn built_in() -> Self {
        Self {
            latency: Csv::read(include_str!("../../published/latency.csv")),
            throughput: Csv::read(include_str!("../../published/throughput.csv")),
            lbm: Csv::read(include_str!("../../published/lbm.csv")),
        }
    }

    /// The tables of a folder; a file that is not there is the built-in one.
    ///
    /// # Errors
    /// There is no such folder, or a file cannot be read.
    pub fn of(folder: &Path) -> Result<Self, FileError> {
        let mut all = Self::built_in();
        if !folder.is_dir() {
            return Err(FileError::of("published figures", folder)(std::io::ErrorKind::NotADirectory.into()));
        }
        for (name, table) in
            [("latency.csv", &mut all.latency), ("throughput.csv", &mut all.throughput), ("lbm.csv", &mut all.lbm)]
        {
            let path = folder.join(name);
            if path.is_file() {
                let text = fs::read_to_string(&path).map_err(FileError::of("published figures", &path))?;
                *table = Csv::read(&text);
            }
        }
        Ok(all)
    }

    /// A table as the files have it: the heading of its columns, then its rows; without report, table and page, and without columns that are
    /// empty in all of its rows.
    pub fn cells(&self, report: &str, table: &str) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        for csv in [&self.latency, &self.throughput, &self.lbm] {
            let rows: Vec<&[String]> = csv.of(report, table).collect();
            if rows.is_empty() {
                continue;
            }
            // A column that this table does not have is none.
            let is_there = |at: &usize| rows.iter().any(|row| row.get(*at).is_some_and(|cell| !cell.is_empty()));
            let columns: Vec<usize> = (3..csv.heading.len()).filter(is_there).collect();
            let of = |row: &[String]| columns.iter().map(|at| row.get(*at).cloned().unwrap_or_default()).collect();
            all.push(of(&csv.heading));
            all.extend(rows.iter().map(|row| of(row)));
        }
        all
    }

    /// The rows of a table of throughputs.
    pub fn throughput_rows<'a>(&'a self, report: &'a str, table: &'a str) -> impl Iterator<Item = &'a [String]> {
        self.throughput.of(report, table)
    }

    /// Every report and table that has a figure, in the order of the files.
    pub fn names(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for csv in [&self.latency, &self.throughput, &self.lbm] {
            for row in &csv.rows {
                let name = (csv.text(row, "report").to_owned(), csv.text(row, "table").to_owned());
                if !all.contains(&name) {
                    all.push(name);
                }
            }
        }
        all
    }
}

/// A file: its heading and its cells.
#[derive(Clone, Debug)]
pub(crate) struct Csv {
    heading: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Csv {
    pub(crate) fn read(text: &str) -> Self {
        let mut lines = text.lines().map(cells);
        Self { heading: lines.next().unwrap_or_default(), rows: lines.collect() }
    }

    /// A cell; empty where there is no such column.
    pub(crate) fn text<'a>(&self, row: &'a [String], column: &str) -> &'a str {
        let at = self.heading.iter().position(|name| name == column);
        at.and_then(|at| row.get(at)).map_or("", |cell| cell.trim())
    }

    /// A cell as a number.
    pub(crate) fn number(&self, row: &[String], column: &str) -> Option<f64> {
        self.text(row, column).parse().ok()
    }

    /// The rows of a table of a report.
    pub(crate) fn of<'a>(&'a self, report: &'a str, table: &'a str) -> impl Iterator<Item = &'a [String]> {
        self.rows
            .iter()
            .map(Vec::as_slice)
            .filter(move |row| self.text(row, "report") == report && self.text(row, "table") == table)
    }

    /// Where a row stands: `table 5.1, page 22`.
    pub(crate) fn place(&self, row: &[String]) -> String {
        let page = self.text(row, "page");
        let page = if page.is_empty() { String::new() } else { format!(", page {page}") };
        format!("table {}{page}", self.text(row, "table"))
    }
}

/// The series that a scenario names, and what kept others from being read.
pub fn read(tables: &Tables, scenario: &Scenario) -> (Vec<Series>, Vec<String>) {
    let (mut series, mut faults) = (Vec::new(), Vec::new());
    for original in &scenario.originals {
        let report = if original.report.is_empty() { &scenario.group } else { &original.report };
        match one(tables, report, original) {
            Ok(mut one) => {
                bound(&mut one, scenario);
                if scenario.is_mixed() {
                    // The figure it is compared with is our reading of the test: said wherever the figure stands.
                    one.label += INFERRED;
                }
                series.push(one);
            }
            Err(why) => faults.push(format!("{report}, table {}: {why}", original.table)),
        }
    }
    (series, faults)
}

/// Beside a search for the highest rate within a latency stands the highest that was published within it.
fn bound(series: &mut Series, scenario: &Scenario) {
    let within = |bound: f64, us: f64| bound <= 0.0 || us <= bound;
    let is_within =
        |p: &&Point| within(scenario.mean_latency_us, p.mean_us) && within(scenario.max_latency_us, p.max_us);
    if !series.points.is_empty() {
        series.highest = series.points.iter().filter(is_within).map(|p| p.rate).fold(0.0, f64::max);
    }
}

/// Why a published series cannot stand beside a scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum SeriesError {
    #[error("no figures")]
    Empty,
    #[error("no system {system:?} with test {test:?}")]
    NoSystem { system: String, test: String },
    #[error("no figure of the system")]
    NoFigure,
}

fn one(tables: &Tables, report: &str, original: &Original) -> Result<Series, SeriesError> {
    let mut series = Series { label: original.label.clone(), report: report.to_owned(), ..Series::default() };
    if original.system.is_empty() {
        let csv = &tables.latency;
        for row in csv.of(report, &original.table) {
            let number = |name| csv.number(row, name);
            let all = ["update_rate_per_s", "mean_us", "stddev_us", "max_us"].map(number);
            if let [Some(rate), Some(mean_us), Some(stddev_us), Some(max_us)] = all {
                let (min_us, samples) = (number("min_us"), number("samples"));
                series.points.push(Point { rate, mean_us, stddev_us, max_us, min_us, samples });
                series.place = csv.place(row);
            }
        }
        series.highest = series.points.iter().map(|p| p.rate).fold(0.0, f64::max);
        return if series.points.is_empty() { Err(SeriesError::Empty) } else { Ok(series) };
    }
    let csv = &tables.throughput;
    let row = csv.of(report, &original.table).find(|row| {
        csv.text(row, "system") == original.system
            && (original.test.is_empty() || csv.text(row, "test") == original.test)
    });
    let Original { system, test, .. } = original;
    series.of = (system.clone(), test.clone());
    let row = row.ok_or_else(|| SeriesError::NoSystem { system: system.clone(), test: test.clone() })?;
    series.highest = csv.number(row, "out_per_s").ok_or(SeriesError::NoFigure)?;
    series.place = csv.place(row);
    Ok(series)
}

/// The cells of a line of CSV; quotes keep commas.
fn cells(line: &str) -> Vec<String> {
    let (mut all, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.trim_end().chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    all.push(cell);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{BUILT_IN, read as scenarios};

    fn original(table: &str, system: &str, test: &str) -> Original {
        let [report, table, label, system, test] = ["R", table, "T", system, test].map(str::to_owned);
        Original { report, table, label, system, test }
    }

    fn tables(latency: &str, throughput: &str) -> Tables {
        Tables { latency: Csv::read(latency), throughput: Csv::read(throughput), lbm: Csv::read("") }
    }

    #[test]
    fn tables_are_read_with_their_gaps() {
        let text = "report,table,page,update_rate_per_s,mean_us,stddev_us,max_us,min_us,samples\n\
                    R,1,7,1000,10.5,2,30,,\nR,1,7,2000,,2,30,5,6\nR,2,8,1000,1,1,1,1,1\n";
        let series = one(&tables(text, ""), "R", &original("1", "", "")).unwrap();
        assert_eq!((series.points.len(), series.highest, series.place.as_str()), (1, 1_000.0, "table 1, page 7"));
        assert_eq!(series.at(1_000.0).map(|p| (p.mean_us, p.min_us)), Some((10.5, None)));
        assert!(one(&tables(text, ""), "R", &original("3", "", "")).is_err());
    }

    #[test]
    fn a_throughput_is_that_of_its_system_and_test() {
        let text = "report,table,page,system,test,in_per_s,out_per_s\nR,1,,A,\"x, 100 mounts\",,47\nR,1,,A,y,3,5\n";
        let series = one(&tables("", text), "R", &original("1", "A", "x, 100 mounts")).unwrap();
        assert_eq!((series.highest, series.place.as_str()), (47.0, "table 1"));
        assert!(one(&tables("", text), "R", &original("1", "B", "y")).unwrap_err().to_string().contains("\"B\""));
    }

    #[test]
    fn the_highest_published_rate_keeps_the_bound_of_a_search() {
        let all = scenarios(BUILT_IN).unwrap();
        let highest = |name: &str| {
            let scenario = all.iter().find(|s| s.name == name).unwrap();
            read(&Tables::built_in(), scenario).0[0].highest as u32
        };
        // At 1.65 million a second the mean was 1,063 us.
        assert_eq!((highest("ibm-latency"), highest("ibm-latency-held")), (1_650_000, 1_600_000));
    }

    #[test]
    fn every_series_that_a_scenario_names_is_there() {
        let tables = Tables::built_in();
        for scenario in scenarios(BUILT_IN).unwrap() {
            let (series, faults) = read(&tables, &scenario);
            assert!(faults.is_empty() && series.len() == scenario.originals.len(), "{}: {faults:?}", scenario.name);
            let is_said = |s: &Series| s.label.ends_with(INFERRED) == scenario.is_mixed();
            assert!(series.iter().all(is_said), "{}", scenario.name);
        }
    }

    /// Beside the reports themselves, where they are: the figures that ship are the figures of the tables that were read from them.
    #[test]
    fn the_figures_that_ship_are_those_that_were_read_from_the_reports() {
        let folder = std::env::var_os("QUOTEWAY_REFERENCE")
            .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference"), Into::into);
        let folder = folder.join("tables");
        if !folder.is_dir() {
            println!("the reports' tables are not there: {}", folder.display());
            return;
        }
        let of = |name: &str| Csv::read(&fs::read_to_string(folder.join(name)).expect(name));
        let built_in = Tables::built_in();
        for (report, table, file) in [
            ("redhat-2008", "5.1", "latency-rmds6-2node-rhel44.csv"),
            ("redhat-2008", "5.2", "latency-rmds6-2node-rhel44-bound.csv"),
            ("redhat-2008", "6.4", "latency-rmds603-2node-rhel51-bound.csv"),
            ("novell-2009", "2", "latency-rmds63-sles-infiniband.csv"),
            ("novell-2009", "5", "latency-rmds63-slert-1gige.csv"),
            ("ibm-2010", "3.2.1", "latency-trep21-10gige.csv"),
        ] {
            let theirs = of(file);
            let ours: Vec<&[String]> = built_in.latency.of(report, table).map(|row| &row[3..]).collect();
            assert_eq!(ours, theirs.rows.iter().map(Vec::as_slice).collect::<Vec<_>>(), "{report} {table}");
        }
        let runs = of("latency-lbm339-10gige.csv");
        let shipped = built_in.lbm.rows.iter().filter(|row| built_in.lbm.text(row, "run") != "combined").count();
        assert_eq!(shipped, runs.rows.len());
    }
}
