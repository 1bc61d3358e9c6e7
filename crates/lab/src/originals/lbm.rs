//! The tables of the report on LBM 3.3.9, read for a scenario.

use super::Tables;
use crate::results::published::{COLUMNS, Published, Table};
use crate::scenario::Scenario;

/// The report, as the published files call it.
const REPORT: &str = "cisco-2009";
/// The appendix calls the rate of its last rows 870k; tables 3-4 and 3-5, the text and the appendix's own actual rates (859,843) say
/// 860,000.
const MISPRINT: (f64, f64) = (870_000.0, 860_000.0);

/// The tables that a scenario names, if it does, or why not. Where two have the same row, that of the first is taken: the tables of the
/// text stand before those of the appendix, of which what remains are the rows in which data was lost.
///
/// # Errors
/// What is missing.
pub fn read(tables: &Tables, scenario: &Scenario) -> Result<Option<Table>, TableError> {
    let Some(grid) = scenario.lbm.as_ref().filter(|grid| !grid.report.is_empty()) else { return Ok(None) };
    let mut all = Table::default();
    for name in grid.report.split_whitespace() {
        let one = parse(tables, name)?;
        let is_new = |row: &Published| !all.rows.iter().any(|r| r.label() == row.label() && r.path == row.path);
        let new: Vec<Published> = one.rows.into_iter().filter(is_new).collect();
        if !new.is_empty() {
            all.place += if all.place.is_empty() { "" } else { "; " };
            all.place += &one.place;
        }
        all.rows.extend(new);
    }
    Ok(Some(all))
}

/// A table that cannot stand beside a scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("published figures, table {table}: {what}")]
pub struct TableError {
    /// The table.
    pub table: String,
    /// What is missing.
    pub what: String,
}

/// A table of the report, as printed.
///
/// # Errors
/// What is missing.
pub(crate) fn parse(tables: &Tables, name: &str) -> Result<Table, TableError> {
    let missing = |what: String| TableError { table: name.to_owned(), what };
    let csv = &tables.lbm;
    let mut table = Table::default();
    for row in csv.of(REPORT, name) {
        let number = |column: &str| csv.number(row, column);
        let payload = number("payload_bytes").ok_or_else(|| missing(format!("no payload in {row:?}")))? as u32;
        let target =
            number("target_rate_per_s").map(|rate| if (rate - MISPRINT.0).abs() < 0.5 { MISPRINT.1 } else { rate });
        let is_lost = csv.text(row, "actual_rate_per_s") == "loss";
        let figures = COLUMNS.map(|(column, ..)| number(column).unwrap_or(f64::NAN));
        if !is_lost && figures.iter().any(|us| us.is_nan()) {
            return Err(missing(format!("a figure is missing in {row:?}")));
        }
        let path = number("path").map_or(1, |path| path as u32);
        let actual = number("actual_rate_per_s");
        let published = Published { payload, target, path, actual, is_lost, figures };
        // Both runs of a row lost data: that is one fact.
        if !table.rows.iter().any(|r| is_lost && r.is_lost && r.label() == published.label()) {
            table.rows.push(published);
        }
        table.place = csv.place(row);
    }
    if table.rows.is_empty() { Err(missing("there is no such table".to_owned())) } else { Ok(table) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{BUILT_IN, read as scenarios};

    /// The published rows of a scenario.
    fn beside(name: &str) -> Table {
        let all = scenarios(BUILT_IN).expect("scenarios");
        let scenario = all.iter().find(|s| s.name == name).expect("the scenario");
        read(&Tables::built_in(), scenario).expect("a table").expect("it names some")
    }

    #[test]
    fn combined_tables_are_taken_as_printed() {
        let table = beside("cisco-lbm-1to1-latency");
        assert_eq!(table.rows.len(), 20);
        let row = table.rows.iter().find(|r| r.label() == "lbtrm-64b-25k").expect("the row");
        // The mean of the two runs' percentiles would be 30 and 41.5.
        assert_eq!(row.figures.map(|us| us as u32), [13, 14, 4, 11, 68, 30, 46]);
        assert_eq!(table.place, "table 3-1, page 18");
    }

    #[test]
    fn rows_that_lost_data_come_from_the_appendix() {
        let table = beside("cisco-lbm-1to1-throughput");
        let lost: Vec<String> = table.rows.iter().filter(|r| r.is_lost).map(Published::label).collect();
        assert_eq!((table.rows.len(), lost.len()), (30, 10), "{lost:?}");
        assert!(
            lost.contains(&"lbtrm-1024b-340k".to_owned()) && lost.contains(&"lbtrm-128b-860k".to_owned()),
            "{lost:?}"
        );
    }

    #[test]
    fn further_paths_compare_with_the_figures_of_theirs() {
        let table = beside("cisco-lbm-3to3-latency");
        assert_eq!([1, 2, 3].map(|path| table.rows.iter().filter(|r| r.path == path).count()), [20, 20, 20]);
        let second = table.rows.iter().find(|r| r.path == 2 && r.label() == "lbtrm-64b-25k").expect("the row");
        assert_eq!((second.ours("call_p99_us"), second.figures[4]), ("path2_call_p99_us".to_owned(), 950.0));
    }

    #[test]
    fn every_published_row_is_measured() {
        for scenario in scenarios(BUILT_IN).expect("scenarios") {
            let table = read(&Tables::built_in(), &scenario).expect("it is there");
            let cells = scenario.lbm.iter().flat_map(|grid| grid.cells().expect("cells"));
            let labels: Vec<String> = cells.map(|cell| cell.label()).collect();
            for row in table.iter().flat_map(|table| &table.rows) {
                let label = row.label();
                assert!(labels.iter().any(|l| l.ends_with(&label)), "{}: {label} is not measured", scenario.name);
                let paths = scenario.lbm.as_ref().map_or(1, |grid| grid.paths);
                assert!(row.path as usize <= paths, "{}: no path {}", scenario.name, row.path);
            }
        }
    }
}
