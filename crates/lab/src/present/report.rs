//! The report: Markdown, the goals on top, then each scenario's table.

use std::fmt::Write as _;

use super::html::charts;
use super::html::svg::exact;
use crate::environment::Environment;
use crate::results::contents;
use crate::results::series;
use crate::results::{OTHERS, Outcome, Row, Side, Verdict};
use measure::stats::Spread;

/// Writes the report.
pub fn markdown(environment: &Environment, pairs: u32, outcomes: &[Outcome]) -> String {
    let mut out = String::from("# Figures of quoteway-lab\n\n");
    let Environment { host, sockets, program, command, at, .. } = environment;
    let measured = environment.measured();
    let _ = writeln!(out, "- at {at}: `{command}`\n- {program}; measured: {measured}\n- {host}\n- {sockets}");
    let _ = writeln!(
        out,
        "- {pairs} run(s) of each side by turns in one call; a figure is the median, its least and greatest in brackets; \
         a ratio is the median of the ratios run by run"
    );
    if is_after_a_report(outcomes) {
        let _ = writeln!(out, "\n{NOTICE}");
    }
    goals(&mut out, outcomes);
    for outcome in outcomes {
        section(&mut out, outcome);
    }
    out
}

/// What a reader has to know of scenarios that repeat a published procedure; on every page that has one.
pub const NOTICE: &str = "Scenarios called \"after the report of ...\" repeat a procedure as that report describes it, with this project's programs on \
    the machine named above; the deviations stand beside each. They are no STAC Benchmarks and no STAC Reports. STAC (the Securities Technology \
    Analysis Center), Red Hat, Novell, IBM, Intel, Cisco, Solarflare, 29West, Reuters and Thomson Reuters had no part in them and have not \
    reviewed them. STAC is a mark of the Securities Technology Analysis Center; names of other companies, systems and products (RMDS, TREP, \
    Latency Busters) are marks of their owners and stand here only to say which report is meant.";

/// Whether a scenario repeats a report, or has published figures beside it.
pub fn is_after_a_report(outcomes: &[Outcome]) -> bool {
    let is_one = |outcome: &Outcome| {
        let is_beside = !outcome.originals.is_empty() || outcome.published.is_some();
        is_beside || contents::of(&outcome.group).is_some()
    };
    outcomes.iter().any(is_one)
}

fn goals(out: &mut String, outcomes: &[Outcome]) {
    let verdicts: Vec<(&Outcome, &Verdict)> =
        outcomes.iter().flat_map(|o| o.verdicts.iter().map(move |v| (o, v))).collect();
    if verdicts.is_empty() {
        return;
    }
    out.push_str("\n## Goals\n\n| scenario | figure | goal | here | |\n|---|---|---|---|---|\n");
    for (outcome, verdict) in verdicts {
        let goal = &verdict.goal;
        let over = goal.over.map_or(String::new(), |side| format!(", ours : {side}"));
        // A ratio has no unit.
        let unit = if goal.over.is_some() { "ratio" } else { goal.metric.as_str() };
        let relation = if goal.at_least { "at least" } else { "at most" };
        let here = verdict.value.map_or("-".to_owned(), |v| figure(unit, v));
        let met = match verdict.is_met() {
            None => "not measured",
            Some(true) => "met",
            Some(false) => "**missed**",
        };
        let _ = writeln!(
            out,
            "| {} | {} {}{over} | {relation} {} | {here} | {met} |",
            outcome.name,
            goal.row,
            goal.metric,
            figure(unit, goal.bound)
        );
    }
}

fn section(out: &mut String, outcome: &Outcome) {
    let _ = writeln!(out, "\n## {}: {}\n", outcome.name, outcome.title);
    if !outcome.about.is_empty() {
        let _ = writeln!(out, "{}\n", outcome.about);
    }
    if !outcome.disturbance.is_empty() {
        let _ = writeln!(out, "Beside it: {}.\n", outcome.disturbance);
    }
    // Published rates were sustained: nothing unpaced stands with them.
    let is_published = outcome.originals.iter().any(|o| o.points.is_empty());
    let (unpaced, paced): (Vec<&Row>, Vec<&Row>) =
        outcome.rows.iter().partition(|row| is_published && row.label == "max");
    if !paced.is_empty() || unpaced.is_empty() {
        table(out, &paced);
    }
    as_published(out, outcome);
    if !unpaced.is_empty() {
        out.push_str("\nAs fast as it goes, with every buffer full; nothing of it compares with a published rate.\n\n");
        table(out, &unpaced);
    }
    out.push_str(&super::published::markdown(outcome));
    out.push_str(&super::deviations::markdown(&outcome.deviations));
    if !outcome.notes.is_empty() {
        out.push('\n');
    }
    for note in &outcome.notes {
        let _ = writeln!(out, "- {note}");
    }
}

/// All figures of some rows.
fn table(out: &mut String, these: &[&Row]) {
    let others: Vec<Side> = OTHERS.into_iter().filter(|s| these.iter().any(|row| row.has(*s))).collect();
    out.push_str("| | figure | ours |");
    for side in &others {
        let _ = write!(out, " {side} | ours : {side} |");
    }
    out.push_str("\n|---|---|---|");
    out.push_str(&"---|---|".repeat(others.len()));
    out.push('\n');
    for row in these {
        rows(out, row, &others);
    }
}

/// Published figures beside ours: latencies from the call of the API, in bursts as the originals sent and evenly paced; highest
/// rates.
fn as_published(out: &mut String, outcome: &Outcome) {
    for original in outcome.originals.iter().filter(|o| o.points.is_empty()) {
        let _ = writeln!(
            out,
            "\nPublished: {}/s, {}.",
            exact(original.highest),
            format_args!("{} ({})", original.label, original.place)
        );
    }
    let series: Vec<_> = outcome.originals.iter().filter(|o| !o.points.is_empty()).collect();
    let rated = charts::rated(outcome);
    if series.is_empty() || !rated.iter().any(|(_, row)| row.spread(Side::Ours, "call_mean_us").is_some()) {
        return;
    }
    let has_sampled = rated.iter().any(|(_, row)| row.has(Side::Sampled));
    out.push_str("\nMicroseconds from the call of the API: mean / standard deviation / longest / shortest / samples.\n\n| updates a second | ours, in bursts | ours, evenly paced |");
    if has_sampled {
        out.push_str(" ours, sampled as there |");
    }
    for one in &series {
        let _ = write!(out, " {} ({}) |", one.label, one.place);
    }
    let _ = writeln!(out, "\n|---|---|---|{}", "---|".repeat(series.len() + usize::from(has_sampled)));
    for (rate, row) in rated {
        let of = |side| {
            let metrics = ["call_mean_us", "call_stddev_us", "call_max_us", "call_min_us", "samples"];
            let cells = metrics.map(|metric| row.spread(side, metric));
            let cells: Vec<String> = cells.iter().flatten().map(|s| format!("{:.0}", s.median)).collect();
            let is_marked = !cells.is_empty() && !row.is_held(side);
            cells.join(" / ") + if is_marked { ", not held" } else { "" }
        };
        let _ = write!(out, "| {rate:.0} | {} | {} |", of(Side::Ours), of(Side::Smooth));
        if has_sampled {
            let _ = write!(out, " {} |", of(Side::Sampled));
        }
        for one in &series {
            let figures = one.at(rate).into_iter().flat_map(series::Point::figures);
            let cells: Vec<String> = figures.map(|(_, value)| value.to_string()).collect();
            let _ = write!(out, " {} |", cells.join(" / "));
        }
        out.push('\n');
    }
}

fn rows(out: &mut String, row: &Row, others: &[Side]) {
    // `held` is said in a note where it matters.
    for (n, metric) in row.metrics().into_iter().filter(|m| *m != "held").enumerate() {
        let label = if n == 0 { row.label.as_str() } else { "" };
        let _ = write!(out, "| {label} | {metric} | {} |", spread(metric, row.spread(Side::Ours, metric)));
        for side in others {
            let ratio = spread("ratio", row.ratio(*side, metric));
            let _ = write!(out, " {} | {ratio} |", spread(metric, row.spread(*side, metric)));
        }
        out.push('\n');
    }
}

/// A median with its spread.
fn spread(metric: &str, spread: Option<Spread>) -> String {
    match spread {
        None => String::new(),
        Some(s) if s.count == 1 => figure(metric, s.median),
        Some(s) => format!("{} ({} to {})", figure(metric, s.median), figure(metric, s.low), figure(metric, s.high)),
    }
}

/// A value with as many digits as matter, in the unit that its name says.
pub fn figure(metric: &str, value: f64) -> String {
    let short = |value: f64| match value.abs() {
        v if v >= 1_000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    match metric {
        "rate" | "MODEL_rate" | "rate_least_second" | "rate_most_second" if value >= 1e6 => {
            format!("{:.2} M/s", value / 1e6)
        }
        "rate" | "MODEL_rate" | "rate_least_second" | "rate_most_second" => format!("{value:.0} /s"),
        "rise_us_per_s" => format!("{value:.0} us/s"),
        "gbps" => format!("{value:.3} Gbit/s"),
        "instructions" | "delivery_instructions" | "hub_naks" | "hub_retransmissions" | "naks" | "retransmissions" => {
            format!("{value:.0}")
        }
        name if name.contains("ratio") => format!("{value:.2}"),
        name if name.ends_with("_us") => format!("{} us", short(value)),
        name if name.ends_with("ns") => format!("{value:.1} ns"),
        name if name.ends_with("_bytes") && value >= 1e6 => format!("{:.1} MB", value / 1e6),
        name if name.ends_with("_bytes") => format!("{value:.1} B"),
        name if name.ends_with("_s") => format!("{value:.3} s"),
        _ => short(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Metrics;

    fn metrics(figures: &[(&str, f64)]) -> Metrics {
        figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn the_report_looks_like_this() {
        let environment = Environment {
            host: "box: 2 x CPU".to_owned(),
            sockets: "wmem_max 1, rmem_max 2".to_owned(),
            program: "quoteway-lab 0.1.0, commit abc".to_owned(),
            lab: "/bin/quoteway-lab".to_owned(),
            product: "/bin/quoteway, 7 bytes".to_owned(),
            command: "quoteway-lab chain".to_owned(),
            at: "2026-11-20T10:15:00Z".to_owned(),
            facts: Vec::new(),
        };
        let mut row = Row::new("max");
        for (ours, floor) in [(8e6, 10e6), (9e6, 12e6), (7e6, 10e6)] {
            row.add(Side::Ours, metrics(&[("rate", ours), ("p50_us", 1_234.0), ("held", 1.0)]));
            row.add(Side::Floor, metrics(&[("rate", floor)]));
        }
        let rows = vec![row];
        let verdicts = ["max rate >= 3e6", "max rate/floor >= 0.9", "search rate >= 1e6"]
            .map(|goal| Verdict::of(goal.parse().unwrap(), &rows))
            .to_vec();
        let outcome = Outcome {
            name: "chain".to_owned(),
            title: "Chain".to_owned(),
            about: "Three processes.".to_owned(),
            rows,
            verdicts,
            notes: vec!["the peer is not built".to_owned()],
            disturbance: "load average 2.0, 0.0 % stolen".to_owned(),
            ..Outcome::default()
        };
        let expected = "\
# Figures of quoteway-lab

- at 2026-11-20T10:15:00Z: `quoteway-lab chain`
- quoteway-lab 0.1.0, commit abc; measured: quoteway, 7 bytes
- box: 2 x CPU
- wmem_max 1, rmem_max 2
- 3 run(s) of each side by turns in one call; a figure is the median, its least and greatest in brackets; a ratio is the median of the ratios run by run

## Goals

| scenario | figure | goal | here | |
|---|---|---|---|---|
| chain | max rate | at least 3.00 M/s | 8.00 M/s | met |
| chain | max rate, ours : floor | at least 0.90 | 0.75 | **missed** |
| chain | search rate | at least 1.00 M/s | - | not measured |

## chain: Chain

Three processes.

Beside it: load average 2.0, 0.0 % stolen.

| | figure | ours | floor | ours : floor |
|---|---|---|---|---|
| max | rate | 8.00 M/s (7.00 M/s to 9.00 M/s) | 10.00 M/s (10.00 M/s to 12.00 M/s) | 0.75 (0.70 to 0.80) |
|  | p50_us | 1234 us (1234 us to 1234 us) |  |  |

- the peer is not built
";
        assert_eq!(markdown(&environment, 3, &[outcome]), expected);
    }

    #[test]
    fn published_latencies_stand_beside_both_paces() {
        let mut row = Row::new("10k");
        let figures = |mean| metrics(&[("call_mean_us", mean), ("call_stddev_us", 20.0), ("call_max_us", 900.0)]);
        row.add(Side::Ours, figures(70.4));
        row.add(Side::Smooth, figures(50.2));
        let point =
            series::Point { rate: 1e4, mean_us: 379.0, stddev_us: 42.4, max_us: 814.0, min_us: None, samples: None };
        let series = |points, highest| series::Series {
            label: "RMDS 6".to_owned(),
            points,
            highest,
            place: "table 1".to_owned(),
            ..series::Series::default()
        };
        let originals = vec![series(vec![point], 1e4), series(Vec::new(), 4.7e6)];
        let mut text = String::new();
        as_published(&mut text, &Outcome { rows: vec![row], originals, ..Outcome::default() });
        assert!(text.contains("| 10000 | 70 / 20 / 900 | 50 / 20 / 900 | 379 / 42.4 / 814 |"), "{text}");
        assert!(text.contains("Published: 4.7M/s, RMDS 6 (table 1)."), "{text}");
    }

    #[test]
    fn what_was_not_held_says_so_beside_what_is_published() {
        let figures = |held| metrics(&[("call_mean_us", 9e4), ("held", held)]);
        let mut row = Row::new("10k");
        row.add(Side::Ours, figures(0.0));
        row.add(Side::Smooth, figures(1.0));
        let point =
            series::Point { rate: 1e4, mean_us: 379.0, stddev_us: 42.4, max_us: 814.0, min_us: None, samples: None };
        let originals = vec![series::Series { points: vec![point], ..series::Series::default() }];
        let mut text = String::new();
        as_published(&mut text, &Outcome { rows: vec![row], originals, ..Outcome::default() });
        assert!(text.contains("| 10000 | 90000, not held | 90000 | 379 / 42.4 / 814 |"), "{text}");
    }

    #[test]
    fn an_unpaced_rate_stands_apart_from_a_published_one() {
        let row = |label: &str, rate| {
            let mut row = Row::new(label);
            row.add(Side::Ours, metrics(&[("rate", rate)]));
            row
        };
        let highest = series::Series { label: "TREP".to_owned(), highest: 4.7e6, ..series::Series::default() };
        let outcome = Outcome { rows: vec![row("max", 8e6), row("search", 6e6)], ..Outcome::default() };
        let of = |originals: Vec<series::Series>| {
            let mut text = String::new();
            section(&mut text, &Outcome { originals, ..outcome.clone() });
            text
        };
        let text = of(vec![highest]);
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(at("6.00 M/s") < at("Published: 4.7M/s"), "{text}");
        assert!(
            at("Published: 4.7M/s") < at("nothing of it compares") && at("nothing of it compares") < at("8.00 M/s")
        );
        let text = of(Vec::new());
        assert!(text.find("8.00 M/s") < text.find("6.00 M/s") && !text.contains("compares"), "{text}");
    }

    #[test]
    fn whatever_repeats_a_report_says_whose_marks_these_are() {
        use crate::scenario::{BUILT_IN, read, select};
        let tables = crate::originals::Tables::built_in();
        let chosen = select(read(BUILT_IN).unwrap(), &["reports".to_owned()]).unwrap();
        let titled = read(BUILT_IN).unwrap().into_iter().filter(|s| s.title.starts_with("After the report of"));
        assert_eq!(chosen.len(), titled.count(), "all that repeat a report, by one name");
        for scenario in chosen {
            let outcome = crate::outcome_of(&scenario, &tables, crate::run::Where::Namespaces);
            let text = markdown(&Environment::default(), 1, std::slice::from_ref(&outcome));
            let page = crate::present::html::page(&Environment::default(), 1, &[outcome]);
            assert!(text.contains("no STAC Benchmarks") && page.contains("no STAC Benchmarks"), "{}", scenario.name);
        }
    }

    #[test]
    fn units_follow_the_name() {
        for (metric, value, text) in [
            ("rate", 950.0, "950 /s"),
            ("ns", 49.94, "49.9 ns"),
            ("server_cpu_ns", 61.0, "61.0 ns"),
            ("p99_us", 56.28, "56.28 us"),
            ("watcher_bytes", 23.66, "23.7 B"),
            ("server_empty_bytes", 12_345_678.0, "12.3 MB"),
            ("images_s", 0.4123, "0.412 s"),
            ("p99_ratio", 1.666, "1.67"),
        ] {
            assert_eq!(figure(metric, value), text);
        }
    }
}
