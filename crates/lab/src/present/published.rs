//! The tables of the report on LBM 3.3.9 beside ours, cell by cell as printed: as a table with charts, and as CSV.

use std::fmt::Write as _;

use super::html::charts::{PUBLISHED_FIRST as PUBLISHED, colour};
use super::html::svg::{self, Axis, Bar, Line, Scale, duration, escape, short};
use crate::lbm::SIDES;
use crate::results::published::{COLUMNS, Published, Table};
use crate::results::{Outcome, Side, medians};

/// How theirs was measured.
const CONDITIONS: &str = "Published: 18 May 2009, LBM 3.3.9 on SUSE Linux Enterprise Real Time 10, a publisher's machine and one for each subscriber \
     (2 x quad-core Xeon X5355 each), 10 GigE by Solarflare NICs with OpenOnload and a Cisco switch, runs of 30 s, two of them; one way, clocks \
     synchronised to 2 µs. Ours: see the conditions above; one machine whose processors all processes share, and one clock.";

/// Charts and the table side by side, and the rates that a search has found; empty for what is not of LBM.
pub fn html(outcome: &Outcome) -> String {
    let mut out = rates(outcome);
    let Some(table) = &outcome.published else { return out + &super::histograms::html(outcome) };
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
        escape(&table.place)
    );
    out.push_str("<div class=\"scroll\"><table><tr><th>bytes</th><th>rate of each source</th><th></th>");
    for (_, _, name) in COLUMNS {
        let _ = write!(out, "<th>{name}</th>");
    }
    out.push_str("</tr>\n");
    for row in &table.rows {
        line(&mut out, outcome, row);
    }
    // Behind the curves, as in the report.
    out + "</table></div>\n" + &super::histograms::html(outcome)
}

/// A published row as printed, and ours below it, or that there is none.
fn line(out: &mut String, outcome: &Outcome, row: &Published) {
    let label = row.beside(outcome);
    let target = match (row.target, row.actual) {
        (Some(rate), _) => format!("{rate:.0}"),
        (None, Some(rate)) => format!("{rate:.0}, its highest"),
        (None, None) => "its highest".to_owned(),
    };
    let cells = if row.is_lost {
        format!("<td colspan=\"{}\">data was lost</td>", COLUMNS.len())
    } else {
        row.figures.map(|us| format!("<td>{us}</td>")).concat()
    };
    let path = if row.path > 1 { format!(", path {}", row.path) } else { String::new() };
    let _ = writeln!(
        out,
        "<tr class=\"group\"><td>{}</td><td>{target}</td><td>published{path}</td>{cells}</tr>",
        row.payload
    );
    let mut is_measured = false;
    for side in SIDES {
        let ours = medians(outcome, &label, side);
        if !COLUMNS.iter().any(|(_, name, _)| ours.contains_key(&row.ours(name))) {
            continue;
        }
        is_measured = true;
        let _ = write!(out, "<tr><td></td><td></td><td>{}{}</td>", side.title(), unheld(outcome, &label, side));
        for (_, name, _) in COLUMNS {
            let _ =
                write!(out, "<td>{}</td>", ours.get(&row.ours(name)).map_or(String::new(), |us| format!("{us:.3}")));
        }
        out.push_str("</tr>\n");
    }
    if !is_measured {
        let columns = COLUMNS.len();
        let _ = writeln!(
            out,
            "<tr><td></td><td></td><td>Quoteway</td><td colspan=\"{columns}\">no figure in this call: not run, or not held (see the notes)</td></tr>"
        );
    }
}

/// What stands behind a side that was asked for the rate and has not held it: its figures are those of another rate.
fn unheld(outcome: &Outcome, label: &str, side: Side) -> &'static str {
    let is_unheld = outcome.rows.iter().any(|row| row.label == label && !row.is_held(side));
    if is_unheld { ", not held" } else { "" }
}

/// A figure over the rate for the shortest and the longest messages: ours, Aeron's, the published one.
fn chart(outcome: &Outcome, table: &Table, figure: &str, title: &str) -> String {
    let Some(at) = COLUMNS.iter().position(|(_, name, _)| *name == figure) else { return String::new() };
    let payloads = table.rows.iter().map(|row| row.payload);
    let ends = [payloads.clone().min().unwrap_or(0), payloads.max().unwrap_or(0)];
    let mut all = Vec::new();
    for (payload, shades) in ends.into_iter().zip([["", "6 3", "2 3"], ["9 3 2 3", "4 2", "1 3"]]) {
        let rows = || table.rows.iter().filter(move |row| row.payload == payload && row.path == 1);
        for (side, dashes) in [Side::Ours, Side::Aeron].into_iter().zip(shades) {
            let points = rows().filter_map(|row| {
                let label = row.beside(outcome);
                let ours = medians(outcome, &label, side);
                let is_held = unheld(outcome, &label, side).is_empty();
                Some((row.target?, *ours.get(figure)?)).filter(|_| is_held)
            });
            all.push(Line {
                name: format!("{}, {payload} B", side.title()),
                colour: colour(side),
                dashes,
                points: points.collect(),
            });
        }
        let published = rows().filter(|row| !row.is_lost).filter_map(|row| Some((row.target?, row.figures[at])));
        all.push(Line {
            name: format!("published, {payload} B"),
            colour: PUBLISHED,
            dashes: shades[2],
            points: published.collect(),
        });
    }
    // Published figures are drawn whether a rate was held here or not.
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
        all.push(Bar { name, colour: PUBLISHED, value: original.highest, range: None, is_published: true });
    }
    svg::bars("Messages a second, nothing lost", |v| format!("{}/s", short(v)), &all)
}

/// Whether a row is about the rate: what was sought, or a stream.
fn is_rate(label: &str) -> bool {
    label.contains("lbt") && ["-search", "-plain", "-gso", "b"].iter().any(|end| label.ends_with(end))
}

/// The table side by side as Markdown: the columns of the report, a line for each side. Empty without one.
pub fn markdown(outcome: &Outcome) -> String {
    let Some(table) = &outcome.published else { return String::new() };
    let names = COLUMNS.map(|(_, _, name)| name).join(" | ");
    let mut out = format!("\nAs the report has it ({}), microseconds from the call.\n\n", table.place);
    let _ = writeln!(out, "| bytes | rate of each source | | {names} |\n|---|---|---|{}", "---|".repeat(COLUMNS.len()));
    for row in &table.rows {
        let rate = row.target.or(row.actual).map_or("its highest".to_owned(), |rate| format!("{rate:.0}"));
        let path = if row.path > 1 { format!(", path {}", row.path) } else { String::new() };
        let cells = if row.is_lost {
            format!("data was lost |{}", " |".repeat(COLUMNS.len() - 1))
        } else {
            row.figures.map(|us| format!("{us} |")).join(" ")
        };
        let _ = writeln!(out, "| {} | {rate} | published{path} | {cells}", row.payload);
        for side in SIDES {
            let label = row.beside(outcome);
            let ours = medians(outcome, &label, side);
            let figure = |(_, name, _): &(&str, &str, &str)| ours.get(&row.ours(name));
            if COLUMNS.iter().any(|column| figure(column).is_some()) {
                let cells = COLUMNS.map(|c| figure(&c).map_or(" |".to_owned(), |us| format!("{us:.3} |")));
                let _ = writeln!(out, "| | | {}{} | {}", side.title(), unheld(outcome, &label, side), cells.join(" "));
            }
        }
    }
    out
}

/// The published figures as lines of CSV, by the names of ours: `scenario,row,published: PLACE,,figure,value`.
pub fn csv(outcome: &Outcome) -> String {
    let mut out = String::new();
    let Some(table) = &outcome.published else { return out };
    for row in &table.rows {
        let mut line = |figure: &str, value: f64| {
            let (name, label, place) = (&outcome.name, row.beside(outcome), &table.place);
            let _ = writeln!(out, "{name},{label},\"published: {place}\",,{figure},{value}");
        };
        if row.is_lost {
            line("lost", 1.0);
            continue;
        }
        if let Some(rate) = row.actual {
            line(&row.ours("rate"), rate);
        }
        for ((_, figure, _), value) in COLUMNS.into_iter().zip(row.figures) {
            line(&row.ours(figure), value);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::originals::{Tables, lbm};
    use crate::results::{Metrics, Row};
    use crate::scenario::{BUILT_IN, read as scenarios};

    /// The published rows of a scenario.
    fn beside(name: &str) -> Table {
        let all = scenarios(BUILT_IN).expect("scenarios");
        let scenario = all.iter().find(|s| s.name == name).expect("the scenario");
        lbm::read(&Tables::built_in(), scenario).expect("a table").expect("it names some")
    }

    #[test]
    fn theirs_stands_beside_ours() {
        let metrics = |mean: f64, held: f64| -> Metrics {
            [("call_mean_us".to_owned(), mean), ("held".to_owned(), held)].into_iter().collect()
        };
        let mut row = Row::new("lbtrm-64b-25k");
        row.add(Side::Ours, metrics(6.5, 1.0));
        row.add(Side::Aeron, metrics(9.5, 0.0));
        let table = beside("cisco-lbm-1to1-latency");
        let outcome = Outcome { name: "own".to_owned(), rows: vec![row], published: Some(table), ..Outcome::default() };
        let page = html(&outcome);
        for part in [
            "<td>6.500</td>",
            "<td>68</td>",
            "no figure in this call",
            "published, 64 B",
            "2009",
            "<svg",
            "<td>Aeron, not held</td>",
            "<td>Quoteway</td><td></td>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let text = markdown(&outcome);
        for line in ["| 64 | 25000 | published | 13 | 14 | 4 | 11 | 68 | 30 | 46 |\n", "| | | Quoteway |  | 6.500 |"] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let csv = csv(&outcome);
        assert!(csv.contains("own,lbtrm-64b-25k,\"published: table 3-1, page 18\",,call_mean_us,14\n"), "{csv}");
        let lossy = Outcome { published: Some(beside("cisco-lbm-1to1-throughput")), ..outcome };
        assert!(html(&lossy).contains("data was lost") && super::csv(&lossy).contains("lbtrm-1024b-340k"));
        assert_eq!((super::html(&Outcome::default()), super::csv(&Outcome::default())), (String::new(), String::new()));
    }

    #[test]
    fn what_was_measured_between_hosts_stands_beside_what_was() {
        let mut rows: Vec<Row> = ["lbtrm-64b-25k", "veth-lbtrm-64b-25k"].map(Row::new).into();
        for (row, mean) in rows.iter_mut().zip([6.5, 20.25]) {
            row.add(Side::Ours, [("call_mean_us".to_owned(), mean)].into_iter().collect());
        }
        let table = beside("cisco-lbm-1to1-latency");
        let outcome = Outcome { name: "own".to_owned(), rows, published: Some(table), ..Outcome::default() };
        let page = html(&outcome);
        assert!(page.contains("<td>20.250</td>") && !page.contains("<td>6.500</td>"), "{page}");
        assert!(csv(&outcome).contains("own,veth-lbtrm-64b-25k,\"published"));
    }
}
