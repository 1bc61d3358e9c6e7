//! The tables of the report on LBM 3.3.9 beside ours: as a table with charts, and as CSV.
//!
//! The file has the columns `test,payload_bytes,target_rate_per_s,run,actual_rate_per_s,median_us,mean_us,stddev_us,min_us,max_us,`
//! `p99_us,p999_us`; a run that lost messages has `loss` as its actual rate. It is read when the lab runs and is no part of the project.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{SIDES, medians};
use crate::html::charts::colour;
use crate::html::svg::{self, Axis, Bar, Line, Scale, duration, escape, short};
use crate::rows::{Outcome, Side};
use crate::scenario::{Point, Scenario};

/// File of the tables' folder.
const FILE: &str = "latency-lbm339-10gige.csv";
/// What is published, by the name of the figure that it compares with: the report counts from the call of the API.
const COLUMNS: [(&str, &str, &str); 7] = [
    ("median_us", "call_p50_us", "median"),
    ("mean_us", "call_mean_us", "mean"),
    ("stddev_us", "call_stddev_us", "std dev"),
    ("min_us", "call_min_us", "min"),
    ("max_us", "call_max_us", "max"),
    ("p99_us", "call_p99_us", "99 %"),
    ("p999_us", "call_p999_us", "99.9 %"),
];
/// How theirs was measured.
const CONDITIONS: &str = "Published: 18 May 2009, LBM 3.3.9 on SUSE Linux Enterprise Real Time 10, a publisher's machine and one for each subscriber \
     (2 x quad-core Xeon X5355 each), 10 GigE by Solarflare NICs with OpenOnload and a Cisco switch, runs of 30 s, two of them; one way, clocks \
     synchronised to 2 µs. Ours: see the conditions above; one machine whose processors all processes share, and one clock.";

/// A test of the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// As the report calls it.
    pub test: String,
    /// Its rows; runs of the same row are one.
    pub rows: Vec<Published>,
}

/// A row: two runs, or one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// Bytes of a message.
    pub payload: u32,
    /// Messages a second that were asked for; none where the highest rate was sought.
    pub target: Option<f64>,
    /// Messages a second that came; `None`: data was lost.
    pub actual: Option<f64>,
    /// The columns in microseconds: the least min and greatest max of the runs, the mean of everything else, as far as the report's
    /// own tables do so.
    pub figures: [f64; COLUMNS.len()],
}

impl Published {
    /// Its mean.
    pub fn mean_us(&self) -> f64 {
        self.figures[1]
    }

    /// The row of ours that stands beside it.
    pub fn label(&self) -> String {
        match self.target {
            Some(rate) => format!("lbtrm-{}b-{}", self.payload, Point::Rate(rate)),
            None => format!("lbtrm-{}b-search", self.payload),
        }
    }
}

/// The table that a scenario names, if there is one, or why not.
///
/// # Errors
/// What is missing, for a note.
pub fn read(folder: &Path, scenario: &Scenario) -> Result<Option<Table>, String> {
    let Some(grid) = scenario.lbm.as_ref().filter(|grid| !grid.report.is_empty()) else { return Ok(None) };
    let paths = [folder.join("tables"), folder.to_owned()].map(|f| f.join(FILE));
    let text = paths.iter().find_map(|path| fs::read_to_string(path).ok());
    let text = text.ok_or_else(|| format!("the report's figures are left out: no {FILE} in {}", folder.display()))?;
    parse(&text, &grid.report).map(Some).map_err(|why| format!("{FILE}: {why}"))
}

fn parse(text: &str, test: &str) -> Result<Table, String> {
    let mut lines = text.lines().map(|line| line.trim_end().split(',').collect::<Vec<_>>());
    let heading = lines.next().unwrap_or_default();
    let column = |name: &str| heading.iter().position(|h| *h == name).ok_or_else(|| format!("no column {name}"));
    let (tests, payloads) = (column("test")?, column("payload_bytes")?);
    let (targets, actuals) = (column("target_rate_per_s")?, column("actual_rate_per_s")?);
    let mut columns = [0; COLUMNS.len()];
    for (at, (name, ..)) in columns.iter_mut().zip(COLUMNS) {
        *at = column(name)?;
    }
    let mut rows: Vec<(Published, f64)> = Vec::new();
    for line in lines.filter(|line| line.get(tests) == Some(&test)) {
        let number = |at: usize| line.get(at).and_then(|cell| cell.parse::<f64>().ok());
        let payload = number(payloads).ok_or_else(|| format!("no payload in {line:?}"))? as u32;
        let (target, actual) = (number(targets), number(actuals));
        let figures = columns.map(|at| number(at).unwrap_or(f64::NAN));
        match rows.iter_mut().find(|(row, _)| row.payload == payload && row.target == target) {
            Some((row, runs)) => {
                row.actual = row.actual.zip(actual).map(|(one, other)| one.min(other));
                for ((mine, new), (name, ..)) in row.figures.iter_mut().zip(figures).zip(COLUMNS) {
                    *mine = match name {
                        "min_us" => mine.min(new),
                        "max_us" => mine.max(new),
                        _ => (*mine * *runs + new) / (*runs + 1.0),
                    };
                }
                *runs += 1.0;
            }
            None => rows.push((Published { payload, target, actual, figures }, 1.0)),
        }
    }
    let rows: Vec<Published> = rows.into_iter().map(|(row, _)| row).collect();
    if rows.is_empty() { Err(format!("no test {test:?}")) } else { Ok(Table { test: test.to_owned(), rows }) }
}

/// Charts and the table side by side, and the rates that a search has found; empty for what is not of LBM.
pub fn html(outcome: &Outcome) -> String {
    let mut out = rates(outcome) + &super::histograms::html(outcome);
    let Some(table) = &outcome.published else { return out };
    for (figure, title) in [
        ("call_mean_us", "Mean latency, one way from the call (dashed: published, other machines)"),
        ("call_p999_us", "99.9 % of the latencies, one way from the call (dashed: published, other machines)"),
        ("call_stddev_us", "Standard deviation (dashed: published, other machines)"),
    ] {
        out += &chart(outcome, table, figure, title);
    }
    let _ = writeln!(
        out,
        "<h3>As the report has it ({}), microseconds from the call</h3><p>{CONDITIONS}</p>",
        escape(&table.test)
    );
    out.push_str("<div class=\"scroll\"><table><tr><th>bytes</th><th>rate</th><th></th>");
    for (_, _, name) in COLUMNS {
        let _ = write!(out, "<th>{name}</th>");
    }
    out.push_str("</tr>\n");
    let is_measured = |row: &&Published| outcome.rows.iter().any(|r| r.label == row.label());
    for row in table.rows.iter().filter(is_measured) {
        let label = row.label();
        let target = row.target.map_or("search".to_owned(), |rate| format!("{rate:.0}"));
        let cells = match row.actual {
            None => format!("<td colspan=\"{}\">data was lost</td>", COLUMNS.len()),
            Some(_) => row.figures.map(|us| format!("<td>{us:.0}</td>")).concat(),
        };
        let _ = writeln!(
            out,
            "<tr class=\"group\"><td>{}</td><td>{target}</td><td>published</td>{cells}</tr>",
            row.payload
        );
        for side in SIDES {
            let ours = medians(outcome, &label, side);
            if ours.is_empty() {
                continue;
            }
            let _ = write!(out, "<tr><td></td><td></td><td>{}</td>", side.title());
            for (_, name, _) in COLUMNS {
                let _ = write!(out, "<td>{}</td>", ours.get(name).map_or(String::new(), |us| format!("{us:.1}")));
            }
            out.push_str("</tr>\n");
        }
    }
    out.push_str("</table></div>\n");
    let left_out = table.rows.iter().filter(|row| !is_measured(row)).count();
    if left_out > 0 {
        let _ =
            writeln!(out, "<p class=\"soft\">{left_out} more rows were published and not measured in this call.</p>");
    }
    out
}

/// A figure over the rate for the shortest and the longest messages: ours, Aeron's, the published one.
fn chart(outcome: &Outcome, table: &Table, figure: &str, title: &str) -> String {
    let Some(at) = COLUMNS.iter().position(|(_, name, _)| *name == figure) else { return String::new() };
    let payloads = table.rows.iter().map(|row| row.payload);
    let ends = [payloads.clone().min().unwrap_or(0), payloads.max().unwrap_or(0)];
    let mut all = Vec::new();
    for (payload, shades) in ends.into_iter().zip([["", "6 3", "2 3"], ["9 3 2 3", "4 2", "1 3"]]) {
        let rows = || table.rows.iter().filter(move |row| row.payload == payload);
        for (side, dashes) in [Side::Ours, Side::Aeron].into_iter().zip(shades) {
            let points =
                rows().filter_map(|row| Some((row.target?, *medians(outcome, &row.label(), side).get(figure)?)));
            all.push(Line {
                name: format!("{}, {payload} B", side.title()),
                colour: colour(side),
                dashes,
                points: points.collect(),
            });
        }
        let published =
            rows().filter(|row| row.actual.is_some()).filter_map(|row| Some((row.target?, row.figures[at])));
        all.push(Line {
            name: format!("published, {payload} B"),
            colour: "#b5471b",
            dashes: shades[2],
            points: published.collect(),
        });
    }
    if all.iter().filter(|line| !line.name.starts_with("published")).all(|line| line.points.is_empty()) {
        return String::new();
    }
    let x = Axis { name: "messages a second of each source", scale: Scale::Linear, text: short };
    svg::lines(title, x, Axis { name: "latency", scale: Scale::Logarithmic, text: duration }, &all)
}

/// Rates as bars, of streams and of searches: ours, the bare loop's, Aeron's, published ones.
fn rates(outcome: &Outcome) -> String {
    let mut all = Vec::new();
    for row in outcome.rows.iter().filter(|row| is_rate(&row.label)) {
        for side in SIDES {
            if let Some(spread) = row.spread(side, "rate") {
                all.push(Bar {
                    name: format!("{}, {}", row.label, side.name()),
                    colour: colour(side),
                    value: spread.median,
                    range: Some((spread.low, spread.high)),
                    is_published: false,
                });
            }
        }
    }
    if all.is_empty() {
        return String::new();
    }
    for original in &outcome.originals {
        let name = format!("published: {}", original.label);
        all.push(Bar { name, colour: "#b5471b", value: original.highest, range: None, is_published: true });
    }
    svg::bars("Messages a second, nothing lost", |v| format!("{}/s", short(v)), &all)
}

/// Whether a row is about the rate: what was sought, or a stream.
fn is_rate(label: &str) -> bool {
    label.contains("lbt") && ["-search", "-plain", "-gso", "b"].iter().any(|end| label.ends_with(end))
}

/// The published figures as lines of CSV, by the names of ours: `scenario,row,published: TEST,,figure,value`.
pub fn csv(outcome: &Outcome) -> String {
    let mut out = String::new();
    let Some(table) = &outcome.published else { return out };
    for row in &table.rows {
        let line = |figure: &str, value: f64| {
            format!("{},{},published: {},,{figure},{value}\n", outcome.name, row.label(), table.test)
        };
        match row.actual {
            None => out += &line("lost", 1.0),
            Some(rate) => {
                out += &line("rate", rate);
                for ((_, figure, _), value) in COLUMNS.into_iter().zip(row.figures) {
                    out += &line(figure, value);
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Metrics, Row};
    use crate::scenario::{BUILT_IN, read as scenarios};

    const MADE_UP: &str = "test,payload_bytes,target_rate_per_s,run,actual_rate_per_s,median_us,mean_us,stddev_us,min_us,max_us,p99_us,p999_us\n\
        A,64,1000,1,999,10,11,2,5,50,20,30\nA,64,1000,2,998,12,13,4,4,70,22,34\nA,64,2000,1,loss,,,,,,,\nB,64,,1,7,1,1,1,1,1,1,1\n";

    #[test]
    fn runs_are_combined_and_losses_told() {
        let table = parse(MADE_UP, "A").expect("a table");
        assert_eq!(table.rows.len(), 2);
        assert_eq!(table.rows[0].figures.map(|us| us as u32), [11, 12, 3, 4, 70, 21, 32]);
        assert_eq!((table.rows[0].actual, table.rows[1].actual), (Some(998.0), None));
        assert_eq!(table.rows[0].label(), "lbtrm-64b-1k");
        assert_eq!(parse(MADE_UP, "B").expect("a table").rows[0].label(), "lbtrm-64b-search");
        assert!(parse(MADE_UP, "C").expect_err("no such test").contains("\"C\""));
        assert!(parse("test\nA", "A").expect_err("no columns").contains("payload_bytes"));
    }

    #[test]
    fn theirs_stands_beside_ours() {
        let metrics = |mean: f64| -> Metrics { [("call_mean_us".to_owned(), mean)].into_iter().collect() };
        let mut row = Row::new("lbtrm-64b-1k");
        row.add(Side::Ours, metrics(6.5));
        row.add(Side::Aeron, metrics(9.5));
        let table = parse(MADE_UP, "A").expect("a table");
        let outcome = Outcome { name: "own".to_owned(), rows: vec![row], published: Some(table), ..Outcome::default() };
        let page = html(&outcome);
        for part in ["<td>6.5</td>", "<td>12</td>", "1 more rows were published", "published, 64 B", "2009", "<svg"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let both = Outcome { rows: vec![outcome.rows[0].clone(), Row::new("lbtrm-64b-2k")], ..outcome.clone() };
        assert!(html(&both).contains("data was lost"), "{}", html(&both));
        let csv = csv(&outcome);
        assert!(csv.contains("own,lbtrm-64b-1k,published: A,,call_mean_us,12\n"), "{csv}");
        assert!(csv.contains("own,lbtrm-64b-2k,published: A,,lost,1\n"), "{csv}");
        assert_eq!((super::html(&Outcome::default()), super::csv(&Outcome::default())), (String::new(), String::new()));
    }

    #[test]
    fn what_the_built_in_scenarios_name_is_published() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference");
        for scenario in scenarios(BUILT_IN, &[]).expect("scenarios") {
            let table = read(&folder, &scenario);
            if !folder.is_dir() {
                continue;
            }
            let table = table.expect("it is there");
            let cells = scenario.lbm.iter().flat_map(|grid| grid.cells().expect("cells"));
            let labels: Vec<String> = cells.map(|cell| cell.label()).collect();
            for row in table.iter().flat_map(|table| &table.rows) {
                assert!(labels.contains(&row.label()), "{}: {} is not measured", scenario.name, row.label());
            }
        }
        if !folder.is_dir() {
            println!("the published tables are not there: {}", folder.display());
        }
    }
}
