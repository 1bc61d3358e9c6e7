//! A page for each report, in the order of the report: its first charts on the first screen, then what it holds and where each of it
//! is, then the scenarios, then the published cells that nothing of ours stands beside, with the reason.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::charts::{self, DASHES, PUBLISHED};
use super::svg::{self, Axis, Line, Scale, duration, escape, short};
use super::{begin, environment_line, goals, key_results, method, section, system};
use crate::environment::Environment;
use crate::originals::Tables;
use crate::present::difference;
use crate::present::report::NOTICE;
use crate::results::Series;
use crate::results::contents::{self, Place, Report};
use crate::results::{Outcome, Side};

/// A page.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The report's group.
    pub group: String,
    /// The whole of it.
    pub html: String,
}

/// Everything that was run, and the file that its page goes to.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// All outcomes.
    pub outcomes: &'a [Outcome],
    /// The page of everything; those of reports are beside it.
    pub path: &'a Path,
}

impl Call<'_> {
    /// The file of a report's page.
    pub fn file(&self, group: &str) -> PathBuf {
        self.path.with_extension(format!("{group}.html"))
    }

    /// A link to the section of an outcome, from the page of a report.
    fn link(&self, from: &Report, to: &Outcome) -> String {
        let name = escape(&to.name);
        if to.group == from.group {
            return format!("<a href=\"#{name}\">{name}</a>");
        }
        let file = if contents::of(&to.group).is_some() { self.file(&to.group) } else { self.path.to_owned() };
        let file = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        format!("<a href=\"{}#{name}\">{name}</a>", in_address(&file))
    }
}

/// A file's name as it is written in an address.
fn in_address(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let written = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(written).collect()
}

/// The pages of all reports of which something was run.
pub fn pages(environment: &Environment, pairs: u32, call: Call<'_>, tables: &Tables) -> Vec<Page> {
    let of = |report: &'static Report| {
        let these: Vec<Outcome> = call.outcomes.iter().filter(|o| o.group == report.group).cloned().collect();
        (!these.is_empty()).then(|| Page {
            group: report.group.to_owned(),
            html: page(report, environment, pairs, (&these, call), tables),
        })
    };
    contents::REPORTS.iter().filter_map(of).collect()
}

/// A report's page: the outcomes of its own scenarios, and links to others beside which a table of it stands.
fn page(
    report: &Report,
    environment: &Environment,
    pairs: u32,
    (outcomes, call): (&[Outcome], Call<'_>),
    tables: &Tables,
) -> String {
    let title = format!("After the report of {}", report.title);
    let mut out = begin(&title);
    let _ = writeln!(out, "<h1>{}</h1>", escape(&title));
    environment_line(&mut out, environment);
    let overviews = overviews(report, outcomes);
    out += if overviews.is_empty() { lead(outcomes) } else { overviews }.as_str();
    let _ = writeln!(
        out,
        "<details><summary>Whose marks these are, and what this is not</summary><p>{}</p></details>",
        escape(NOTICE)
    );
    key_results(&mut out, pairs, outcomes);
    goals(&mut out, outcomes);
    contents_table(&mut out, report, call);
    // In the order in which the report has them, which is that of the built-in scenarios.
    for outcome in outcomes {
        section(&mut out, outcome);
    }
    out += &difference::html(tables, outcomes);
    not_here(&mut out, report, tables);
    throughputs(&mut out, report, tables, call);
    system(&mut out, environment);
    method(&mut out, pairs);
    out + "</main></body></html>\n"
}

/// The first chart of the scenarios, for a report without charts across them: something is seen before anything is read.
fn lead(outcomes: &[Outcome]) -> String {
    const END: &str = "</figure>";
    let first = |outcome: &Outcome| {
        let charts = charts::of(outcome) + &crate::present::published::html(outcome);
        let (_, from) = charts.split_once("<figure>")?;
        let (figure, _) = from.split_once(END)?;
        Some(format!("<figure>{figure}{END}\n"))
    };
    outcomes.iter().find_map(first).unwrap_or_default()
}

/// Mean and highest latency across scenarios, ours and published.
fn overviews(report: &Report, outcomes: &[Outcome]) -> String {
    let mut out = String::new();
    for (title, tables) in report.overviews {
        for (metric, what, value) in [
            ("call_mean_us", "mean latency", (|p| p.mean_us) as fn(&crate::results::series::Point) -> f64),
            ("call_max_us", "highest latency", |p| p.max_us),
        ] {
            let title = format!("{title}: {what}, from the call");
            out += &overview(&title, (report, tables), (metric, value), outcomes);
        }
    }
    out
}

fn overview(
    title: &str,
    (report, tables): (&Report, &[&str]),
    (metric, value): (&str, fn(&crate::results::series::Point) -> f64),
    outcomes: &[Outcome],
) -> String {
    let x = Axis { name: "updates a second", scale: Scale::Logarithmic, text: short };
    let y = Axis { name: "latency", scale: Scale::Logarithmic, text: duration };
    let is_meant = |series: &&Series| {
        !series.points.is_empty() && series.report == report.group && tables.contains(&series.table())
    };
    let (mut ours, mut theirs): (Vec<Line>, Vec<Line>) = (Vec::new(), Vec::new());
    let (mut seen, mut floor): (Vec<&str>, Option<Line>) = (Vec::new(), None);
    for outcome in outcomes {
        // A table stands beside several scenarios; the first is the one that repeats it.
        let new: Vec<&Series> =
            outcome.originals.iter().filter(is_meant).filter(|s| !seen.contains(&s.table())).collect();
        if new.is_empty() {
            continue;
        }
        let rows = charts::rated(outcome);
        ours.push(Line {
            name: format!("ours, {}", outcome.name),
            colour: charts::OVERVIEW[ours.len() % charts::OVERVIEW.len()],
            dashes: "",
            points: charts::series(&rows, Side::Ours, metric),
        });
        let bare = if metric == "call_max_us" { "max_us" } else { "p50_us" };
        let points = charts::series(&rows, Side::Floor, bare);
        // A single host is enough: the bare relay has no nodes.
        if floor.is_none() && !points.is_empty() {
            let name = if bare == "max_us" { "bare relay" } else { "bare relay, median" }.to_owned();
            floor = Some(Line { name, colour: charts::colour(Side::Floor), dashes: "", points });
        }
        for series in new {
            seen.push(series.table());
            theirs.push(Line {
                name: format!("published, {}", series.table()),
                colour: PUBLISHED[theirs.len() % PUBLISHED.len()],
                dashes: DASHES[theirs.len() % DASHES.len()],
                points: series.points.iter().map(|p| (p.rate, value(p))).collect(),
            });
        }
    }
    ours.extend(floor);
    ours.append(&mut theirs);
    svg::lines(&format!("{title} (dashed: published, other machines)"), x, y, &ours)
}

/// The report's tables and figures in its order: where each is, or why it is not.
fn contents_table(out: &mut String, report: &Report, call: Call<'_>) {
    out.push_str("<h2 id=\"contents\">What the report holds</h2><div class=\"scroll\"><table><tr><th>there</th><th class=\"text\">what</th><th class=\"text\">here</th></tr>\n");
    for entry in report.entries {
        let here = match entry.place {
            Place::Above => "the charts on top".to_owned(),
            Place::Differences => "<a href=\"#differences\">differences of ours</a>".to_owned(),
            Place::NotHere(why) if entry.tables.is_empty() => format!("not here: {}", escape(why)),
            Place::NotHere(why) => {
                format!("<a href=\"#table-{}\">as printed</a>; not ours: {}", entry.tables[0], escape(why))
            }
            Place::Beside(names) => {
                let link = |name: &&str| {
                    let run = call.outcomes.iter().find(|o| o.name == **name);
                    let not_run = || format!("{name} (not run in this call: <code>quoteway-lab {name}</code>)");
                    run.map_or_else(not_run, |outcome| call.link(report, outcome))
                };
                names.iter().map(link).collect::<Vec<_>>().join(", ")
            }
        };
        let (name, about) = (escape(entry.name), escape(entry.about));
        let _ = writeln!(out, "<tr><td>{name}</td><td class=\"text\">{about}</td><td class=\"text\">{here}</td></tr>");
    }
    out.push_str("</table></div>\n");
}

/// The published cells beside which nothing of ours stands.
fn not_here(out: &mut String, report: &Report, tables: &Tables) {
    for entry in report.entries {
        let Place::NotHere(why) = entry.place else { continue };
        for table in entry.tables {
            let _ = writeln!(
                out,
                "<h2 id=\"table-{table}\">Published, table {table}: {}</h2><p>Nothing of ours beside it: {}.</p>",
                escape(entry.about),
                escape(why)
            );
            out.push_str(&cells(tables, report.group, table));
        }
    }
}

/// The report's tables of throughputs, whole, row by row with ours.
fn throughputs(out: &mut String, report: &Report, tables: &Tables, call: Call<'_>) {
    let is_one = |table: &&&str| tables.throughput_rows(report.group, table).next().is_some();
    for table in report.entries.iter().flat_map(|e| e.tables).filter(is_one) {
        let _ = writeln!(out, "<h2 id=\"table-{table}\">Published, table {table}: highest rates</h2>");
        out.push_str("<p>Ours is the highest rate that was held, or the highest that this call asked for and that was held.</p>\n");
        out.push_str(&rates_beside(tables, report, table, call));
    }
}

/// A table of throughputs as printed, with what ours has held behind each row, or why there is nothing.
fn rates_beside(tables: &Tables, report: &Report, table: &str, call: Call<'_>) -> String {
    let mut out = String::from("<div class=\"scroll\"><table class=\"cells\">\n");
    for (n, row) in tables.cells(report.group, table).into_iter().enumerate() {
        let tag = if n == 0 { "th" } else { "td" };
        let printed: Vec<String> = row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
        let ours = match (n, &row[..]) {
            (0, _) => "<th>ours in</th><th>ours out</th><th class=\"text\">scenario</th>".to_owned(),
            (_, [system, test, ..]) => match held_beside((report.group, table), (system, test), call.outcomes) {
                Ok((outcome, rate)) => format!(
                    "<td>{:.0}</td><td>{rate:.0}</td><td class=\"text\">{}</td>",
                    rate / outcome.fan.max(1.0),
                    call.link(report, outcome)
                ),
                Err(why) => format!("<td></td><td></td><td class=\"text\">{why}</td>"),
            },
            _ => String::new(),
        };
        let _ = writeln!(out, "<tr>{}{ours}</tr>", printed.concat());
    }
    out + "</table></div>\n"
}

/// What ours has held of a published test: its scenario, whosever group that is in, and deliveries a second.
fn held_beside<'a>(
    (report, table): (&str, &str),
    (system, test): (&str, &str),
    outcomes: &'a [Outcome],
) -> Result<(&'a Outcome, f64), &'static str> {
    if system.contains("OpenOnload") && test.starts_with("3:3") {
        return Err("not here: kernel bypass needs its network card");
    }
    // Three publishers stand as a sum and one by one.
    let (test, figure) = match test.split_once(" publisher ") {
        Some((test, path)) => (test, format!("path{path}_rate")),
        None => (test, "rate".to_owned()),
    };
    let is_meant = |series: &&Series| {
        // Tables of several reports are called 1.
        series.report == report
            && series.table() == table
            && series.of.0 == system
            && (series.of.1 == test || series.of.1.is_empty())
    };
    let mut is_run = false;
    for outcome in outcomes.iter().filter(|outcome| outcome.originals.iter().any(|s| is_meant(&s))) {
        is_run = true;
        let payload = test.split_whitespace().nth(1).filter(|_| test.contains(':'));
        let row = match payload {
            None => charts::held(outcome),
            Some(payload) => {
                let end = format!("lbtrm-{payload}b-search");
                outcome.rows.iter().find(|row| row.label.ends_with(&end))
            }
        };
        if let Some(rate) = row.and_then(|row| row.spread(Side::Ours, &figure)) {
            return Ok((outcome, rate.median));
        }
    }
    Err(if is_run { "no rate was held in this call: see the notes" } else { "not run in this call" })
}

/// All cells of a table as printed.
fn cells(tables: &Tables, report: &str, table: &str) -> String {
    let mut out = String::from("<div class=\"scroll\"><table class=\"cells\">\n");
    for (n, row) in tables.cells(report, table).into_iter().enumerate() {
        let tag = if n == 0 { "th" } else { "td" };
        let row: Vec<String> = row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
        let _ = writeln!(out, "<tr>{}</tr>", row.concat());
    }
    out + "</table></div>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{BUILT_IN, read};

    /// A report's page before anything was measured: everything that was published has its place already.
    fn empty_page(group: &str) -> String {
        let tables = Tables::built_in();
        let scenarios = read(BUILT_IN).unwrap();
        let of_report = scenarios.iter().filter(|s| s.group == group);
        let outcomes: Vec<Outcome> =
            of_report.map(|s| crate::outcome_of(s, &tables, crate::run::Where::Namespaces)).collect();
        let mut pages = pages_of(&outcomes, &tables);
        assert_eq!(pages.len(), 1);
        pages.remove(0).html
    }

    fn call(outcomes: &[Outcome]) -> Call<'_> {
        Call { outcomes, path: Path::new("out/all of it.html") }
    }

    fn pages_of(outcomes: &[Outcome], tables: &Tables) -> Vec<Page> {
        pages(&Environment::default(), 1, call(outcomes), tables)
    }

    /// The published cells of a report that are not on a page: as a row of theirs, one after the other.
    fn missing(page: &str, group: &str) -> Vec<String> {
        let tables = Tables::built_in();
        let cell = |text: &str| {
            let number = text.parse::<f64>().map_or_else(|_| text.to_owned(), |n| n.to_string());
            format!("<td>{}</td>", escape(&number))
        };
        let mut missing = Vec::new();
        for (report, table) in tables.names().into_iter().filter(|(report, _)| report == group) {
            let rows = tables.cells(&report, &table);
            let heading = &rows[0];
            for row in &rows[1..] {
                let value = |name: &str| heading.iter().position(|h| h == name).map_or("", |at| row[at].as_str());
                let figures: &[&str] = match () {
                    () if heading.iter().any(|h| h == "median_us") => {
                        &["median_us", "mean_us", "stddev_us", "min_us", "max_us", "p99_us", "p999_us"]
                    }
                    () if heading.iter().any(|h| h == "out_per_s") => &["in_per_s", "out_per_s", "out_gbps"],
                    () => &["mean_us", "stddev_us", "max_us", "min_us", "samples"],
                };
                let figures: Vec<&str> = figures.iter().copied().filter(|f| heading.iter().any(|h| h == f)).collect();
                if value("actual_rate_per_s") == "loss" {
                    if !page.contains("data was lost") && !page.contains("<td>loss</td>") {
                        missing.push(format!("{table}: {row:?}"));
                    }
                    continue;
                }
                let printed = figures.iter().map(|name| cell(value(name))).collect::<Vec<_>>().concat();
                let raw =
                    figures.iter().map(|name| format!("<td>{}</td>", escape(value(name)))).collect::<Vec<_>>().concat();
                if !page.contains(&printed) && !page.contains(&raw) {
                    missing.push(format!("{table}: {row:?}"));
                }
            }
        }
        missing
    }

    #[test]
    fn the_page_of_red_hat_has_every_published_cell() {
        assert_eq!(missing(&empty_page("redhat-2008"), "redhat-2008"), [""; 0]);
    }

    #[test]
    fn the_page_of_cisco_has_every_published_cell() {
        assert_eq!(missing(&empty_page("cisco-2009"), "cisco-2009"), [""; 0]);
    }

    #[test]
    fn the_page_of_novell_has_every_published_cell() {
        assert_eq!(missing(&empty_page("novell-2009"), "novell-2009"), [""; 0]);
    }

    #[test]
    fn the_page_of_ibm_has_every_published_cell() {
        assert_eq!(missing(&empty_page("ibm-2010"), "ibm-2010"), [""; 0]);
    }

    #[test]
    fn the_page_of_intel_has_every_published_cell() {
        assert_eq!(missing(&empty_page("intel-2008"), "intel-2008"), [""; 0]);
    }

    #[test]
    fn a_cell_that_is_not_there_is_found_missing() {
        let page = empty_page("ibm-2010").replace("4700000", "");
        assert_eq!(missing(&page, "ibm-2010").len(), 1);
    }

    /// What a page shows as published is a cell of the files: every figure of the published columns and charts.
    #[test]
    fn nothing_stands_under_published_that_the_files_do_not_have() {
        let tables = Tables::built_in();
        for scenario in read(BUILT_IN).unwrap() {
            let outcome = crate::outcome_of(&scenario, &tables, crate::run::Where::Namespaces);
            for series in &outcome.originals {
                let report = &series.report;
                let rows = tables.cells(report, series.table());
                let numbers: Vec<f64> = rows.iter().flatten().filter_map(|cell| cell.parse().ok()).collect();
                let has = |value: f64| numbers.iter().any(|n| (n - value).abs() < 1e-9);
                let figures = series.points.iter().flat_map(|p| p.figures().map(|(_, value)| value).chain([p.rate]));
                for value in figures.chain([series.highest]) {
                    assert!(has(value), "{}: {value} is not in table {} of {report}", scenario.name, series.table());
                }
            }
        }
    }

    #[test]
    fn a_report_without_charts_across_scenarios_begins_with_the_first_of_theirs() {
        let tables = Tables::built_in();
        let scenarios = read(BUILT_IN).unwrap();
        let intel = scenarios.iter().find(|s| s.name == "intel-5050-mtu1500").unwrap();
        let mut outcome = crate::outcome_of(intel, &tables, crate::run::Where::Namespaces);
        // Already what is published is something to see, before anything was measured.
        let page = pages_of(std::slice::from_ref(&outcome), &tables).remove(0).html;
        assert!(page.find("<figure>") < page.find("What the report holds") && page.contains("not run in this call"));
        let mut row = crate::results::Row::new("search");
        row.add(Side::Ours, [("rate".to_owned(), 5.05e6)].into_iter().collect());
        outcome.rows.push(row);
        let page = pages_of(&[outcome], &tables).remove(0).html;
        // Beside the published row, in and out.
        assert!(page.contains("<td>225000</td><td>11350000</td><td>100000</td><td>5050000</td>"), "{page}");
        let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part}"));
        assert!(at("<figure>") < at("Key results") && page.matches("<figure>").count() >= 2, "{page}");
    }

    #[test]
    fn a_table_of_one_report_has_what_stands_beside_it_on_the_page_of_another() {
        let tables = Tables::built_in();
        let scenarios = read(BUILT_IN).unwrap();
        let outcome = |name: &str, rate: f64| {
            let scenario = scenarios.iter().find(|s| s.name == name).unwrap();
            let mut outcome = crate::outcome_of(scenario, &tables, crate::run::Where::Namespaces);
            let mut row = crate::results::Row::new("search");
            row.add(Side::Ours, [("rate".to_owned(), rate)].into_iter().collect());
            outcome.rows.push(row);
            outcome
        };
        let outcomes = ["redhat-highest", "intel-5050-mtu1500", "novell-5050"].map(|name| outcome(name, 5.05e6));
        let pages = pages_of(&outcomes, &tables);
        let page = |group: &str| &pages.iter().find(|page| page.group == group).unwrap().html;
        let redhat = page("redhat-2008");
        for part in [
            "<td>5800000</td><td>100000</td><td>5050000</td><td class=\"text\"><a href=\"all%20of%20it.intel-2008.html#intel-5050-mtu1500\">intel-5050-mtu1500</a></td>",
            "<a href=\"#redhat-highest\">redhat-highest</a>, <a href=\"all%20of%20it.intel-2008.html#intel-5050-mtu1500\">",
        ] {
            assert!(redhat.contains(part), "{part}\n{redhat}");
        }
        // A table 1 of another report is another table.
        assert!(!page("intel-2008").contains("#novell-5050") && page("novell-2009").contains("#novell-5050"));
        assert_eq!(call(&outcomes).file("intel-2008"), Path::new("out/all of it.intel-2008.html"));
    }

    #[test]
    fn the_highest_rates_of_lbm_stand_beside_each_publisher() {
        let tables = Tables::built_in();
        let scenarios = read(BUILT_IN).unwrap();
        let scenario = scenarios.iter().find(|s| s.name == "cisco-lbm-3to3-throughput").unwrap();
        let mut outcome = crate::outcome_of(scenario, &tables, crate::run::Where::Namespaces);
        let mut row = crate::results::Row::new("veth-lbtrm-64b-search");
        let figures = [("rate", 900e3), ("path1_rate", 310e3), ("path2_rate", 300e3), ("path3_rate", 290e3)];
        row.add(Side::Ours, figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
        outcome.rows.push(row);
        let page = rates_beside(&tables, contents::of("cisco-2009").unwrap(), "3-6", call(&[outcome]));
        for part in [
            "<td>2460000</td><td>2460000</td><td>1.26</td><td>900000</td><td>900000</td>",
            "<td>830000</td><td>830000</td><td></td><td>300000</td><td>300000</td>",
            "kernel bypass",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn a_page_begins_with_its_charts_and_is_whole() {
        let page = empty_page("redhat-2008");
        let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part}"));
        assert!(
            at("As figure 6 there") < at("What the report holds")
                && at("What the report holds") < at("id=\"redhat-2node\"")
        );
        assert!(at("As figure 7 there: two releases of the system: highest latency") < at("STAC Benchmarks"));
        assert!(page.contains("After the report of Red Hat, 2008") && !page.contains("NaN"));
        // Everything that a link names is there.
        for link in page.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(page.contains(&format!("id=\"{link}\"")), "{link}");
        }
    }
}
