//! The published figures of other systems, from a folder of tables that is not part of the project.
//!
//! Latency tables have the columns `update_rate_per_s,mean_us,stddev_us,max_us,min_us,samples`, a throughput table has
//! `system,test,in_per_s,out_per_s,note`. Cells may be empty.

use std::fs;
use std::path::Path;

use super::scenario::{Original, Scenario};

/// Stands behind the name of every published figure of Producer 50/50.
pub const INFERRED: &str = " (our Producer 50/50 is inferred)";

/// A published series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// How it is called, source included.
    pub label: String,
    /// Latency at rates; empty for a throughput.
    pub points: Vec<Point>,
    /// Highest rate published, deliveries a second; the highest of the points where there are some.
    pub highest: f64,
    /// What the table says of it.
    pub note: String,
}

/// Latency at a rate, as published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Updates a second.
    pub rate: f64,
    /// Mean, in microseconds.
    pub mean_us: f64,
    /// Standard deviation.
    pub stddev_us: f64,
    /// Longest.
    pub max_us: f64,
    /// Shortest, where it is published.
    pub min_us: Option<f64>,
}

impl Series {
    /// The point of a rate.
    pub fn at(&self, rate: f64) -> Option<&Point> {
        self.points.iter().find(|p| (p.rate - rate).abs() < 0.5)
    }
}

/// The series that a scenario names, and what kept others from being read.
pub fn read(folder: &Path, scenario: &Scenario) -> (Vec<Series>, Vec<String>) {
    if scenario.originals.is_empty() {
        return (Vec::new(), Vec::new());
    }
    if !folder.is_dir() {
        let text = format!("the original's figures are left out: no folder {} (--reference DIR)", folder.display());
        return (Vec::new(), vec![text]);
    }
    let (mut series, mut faults) = (Vec::new(), Vec::new());
    for original in &scenario.originals {
        // The folder of the reports has its tables one level down.
        let path = [folder.join("tables"), folder.to_owned()].map(|f| f.join(&original.file));
        let text = path.iter().find_map(|p| fs::read_to_string(p).ok());
        match text.as_deref().map(|text| parse(original, text)) {
            Some(Ok(mut one)) => {
                if scenario.is_mixed() {
                    // What it is compared with is our reading of the test: said wherever the figure stands.
                    one.label += INFERRED;
                }
                series.push(one);
            }
            Some(Err(why)) => faults.push(format!("{}: {why}", original.file)),
            None => faults.push(format!("{} is not in {}", original.file, folder.display())),
        }
    }
    (series, faults)
}

fn parse(original: &Original, text: &str) -> Result<Series, String> {
    let mut lines = text.lines();
    let heading = cells(lines.next().unwrap_or_default());
    let column = |name: &str| heading.iter().position(|h| h == name).ok_or_else(|| format!("no column {name}"));
    let number = |row: &[String], at: usize| row.get(at).and_then(|cell| cell.trim().parse::<f64>().ok());
    let mut series = Series { label: original.label.clone(), ..Series::default() };
    if original.system.is_empty() {
        let at = [column("update_rate_per_s")?, column("mean_us")?, column("stddev_us")?, column("max_us")?];
        let min = column("min_us")?;
        for line in lines {
            let row = cells(line);
            if let [Some(rate), Some(mean_us), Some(stddev_us), Some(max_us)] = at.map(|at| number(&row, at)) {
                series.points.push(Point { rate, mean_us, stddev_us, max_us, min_us: number(&row, min) });
            }
        }
        series.highest = series.points.iter().map(|p| p.rate).fold(0.0, f64::max);
        return if series.points.is_empty() { Err("no figures".to_owned()) } else { Ok(series) };
    }
    let (system, test, out, note) = (column("system")?, column("test")?, column("out_per_s")?, column("note")?);
    let row = lines.map(cells).find(|row| {
        row.get(system) == Some(&original.system) && (original.test.is_empty() || row.get(test) == Some(&original.test))
    });
    let row = row.ok_or_else(|| format!("no system {:?} with test {:?}", original.system, original.test))?;
    series.highest = number(&row, out).ok_or("no figure of the system")?;
    series.note = row.get(note).cloned().unwrap_or_default();
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

    fn original(system: &str, test: &str) -> Original {
        let [file, label, system, test] = ["t.csv", "T", system, test].map(str::to_owned);
        Original { file, label, system, test }
    }

    #[test]
    fn tables_are_read_with_their_gaps() {
        let text = "update_rate_per_s,mean_us,stddev_us,max_us,min_us,samples\n1000,10.5,2,30,,\n2000,,2,30,5,6\n";
        let series = parse(&original("", ""), text).unwrap();
        assert_eq!((series.points.len(), series.highest), (1, 1_000.0));
        assert_eq!(series.at(1_000.0).map(|p| (p.mean_us, p.min_us)), Some((10.5, None)));
        assert!(parse(&original("", ""), "rate\n1").unwrap_err().contains("update_rate_per_s"));
    }

    #[test]
    fn a_throughput_is_that_of_its_system_and_test() {
        let text = "system,test,in_per_s,out_per_s,note\nA,\"x, 100 mounts\",,47,\"one, two\"\nA,y,3,5,n\n";
        let series = parse(&original("A", "x, 100 mounts"), text).unwrap();
        assert_eq!((series.highest, series.note.as_str()), (47.0, "one, two"));
        assert!(parse(&original("B", "y"), text).unwrap_err().contains("\"B\""));
    }

    #[test]
    fn what_the_built_in_scenarios_name_is_there() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference");
        for scenario in scenarios(BUILT_IN, &[]).unwrap() {
            let (series, faults) = read(&folder, &scenario);
            if folder.is_dir() {
                let is_said = |s: &Series| s.label.ends_with(INFERRED) == scenario.is_mixed();
                assert!(series.iter().all(is_said), "{}", scenario.name);
                assert!(faults.is_empty() && series.len() == scenario.originals.len(), "{}: {faults:?}", scenario.name);
            } else {
                assert!(series.is_empty() && (faults.is_empty() || faults[0].contains("--reference")));
            }
        }
        if !folder.is_dir() {
            println!("the published tables are not there: {}", folder.display());
        }
    }
}
