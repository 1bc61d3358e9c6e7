//! The report as one HTML file: no scripts, nothing loaded from elsewhere, legible on paper.
//!
//! On top what matters and under which conditions, then the goals, the system, the method, and for each scenario its charts and
//! tables. Every number comes from the same rows as those of the Markdown report.

pub mod charts;
pub mod prose;
pub mod report;
pub mod svg;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use prose::prose;
use svg::{duration, escape, exact, short};

use super::report::{NOTICE, figure, is_after_a_report};
use crate::environment::Environment;
use crate::results::{OTHERS, Outcome, Row, Side};
use crate::stages;
use measure::observer::{CLOCK, steady};
use measure::stats::Spread;

/// Fewer runs of each side than this are a look, not a measurement.
const CLAIM_PAIRS: u32 = 3;
const STYLE: &str = include_str!("style.css");

/// Writes the page.
pub fn page(environment: &Environment, pairs: u32, outcomes: &[Outcome]) -> String {
    let mut out = begin("Quoteway: lab report");
    out += "<h1>Quoteway: lab report</h1>\n";
    environment_line(&mut out, environment);
    if is_after_a_report(outcomes) {
        let _ = writeln!(out, "<p class=\"soft\">{}</p>", escape(NOTICE));
    }
    key_results(&mut out, pairs, outcomes);
    goals(&mut out, outcomes);
    let links: Vec<String> = outcomes.iter().map(|o| format!("<a href=\"#{0}\">{0}</a>", escape(&o.name))).collect();
    let _ = writeln!(out, "<nav>{}</nav>", links.join(" "));
    system(&mut out, environment);
    method(&mut out, pairs);
    for outcome in outcomes {
        section(&mut out, outcome);
    }
    out + "</main></body></html>\n"
}

/// A page up to its first heading.
fn begin(title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{}</title><style>\n{STYLE}</style></head><body><main>\n",
        escape(title)
    )
}

/// When, where and how something was measured.
fn environment_line(out: &mut String, environment: &Environment) {
    let Environment { at, program, command, host, .. } = environment;
    let _ = writeln!(
        out,
        "<p class=\"soft\">{} · {}<br>{}<br><code>{}</code></p>",
        escape(at),
        escape(program),
        escape(host),
        escape(command)
    );
}

/// What each scenario comes down to; nothing that was not measured in this call, or published.
fn key_results(out: &mut String, pairs: u32, outcomes: &[Outcome]) {
    let lines: Vec<String> = outcomes.iter().flat_map(|outcome| with_conditions(outcome, key_lines(outcome))).collect();
    if lines.is_empty() {
        return;
    }
    out.push_str("<section class=\"key\"><h2>Key results</h2><ul>\n");
    for line in lines {
        let _ = writeln!(out, "<li>{line}</li>");
    }
    let _ = writeln!(
        out,
        "</ul><p>{}Medians of {pairs} run(s) on the machine named above, whose processors run the load generators too. Published figures were \
         measured in 2008 to 2010 on other machines, several of them with networks between: side by side they say how far apart systems are, not why.</p></section>",
        if pairs < CLAIM_PAIRS { "So few runs show that everything works, and support no claim. " } else { "" }
    );
}

/// The claims of a scenario; the last one says under which conditions they hold.
fn with_conditions(outcome: &Outcome, mut lines: Vec<String>) -> Vec<String> {
    if let Some(last) = lines.last_mut()
        && !outcome.conditions.is_empty()
    {
        let (name, conditions) = (escape(&outcome.name), escape(&outcome.conditions));
        let _ = write!(last, "<br><span class=\"conditions\"><a href=\"#{name}\">{name}</a>: {conditions}.</span>");
    }
    lines
}

fn key_lines(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    let rows = charts::rated(outcome);
    let mean = |row: &Row| row.spread(Side::Ours, "call_mean_us").map(|s| s.median);
    // At a rate that was not held a mean says how long the queue was.
    let held = rows.iter().filter(|(_, row)| row.is_held(Side::Ours));
    let ends: Vec<(f64, f64)> = held.filter_map(|(rate, row)| Some((*rate, mean(row)?))).collect();
    if let (false, Some(first), Some(last)) = (outcome.originals.is_empty(), ends.first(), ends.last()) {
        let ours: Vec<String> = shown_ends(*first, *last).map(|(rate, us)| at_rate(us, rate)).collect();
        let mut text = format!("<b>{}</b>: mean latency {}", prose(&outcome.title), ours.join(", "));
        let theirs: Vec<String> = outcome.originals.iter().filter_map(|o| published_ends(o, &ends)).collect();
        if !theirs.is_empty() {
            let _ = write!(text, "; published: {}", theirs.join("; "));
        }
        lines.push(text + ".");
    }
    let rate = |row: &Row, side| row.spread(side, "rate").map(|s| s.median);
    let unpaced = |side| rate(outcome.rows.iter().find(|r| r.label == "max")?, side);
    // Published rates are sustained maxima: nothing unpaced stands beside them.
    let is_published = outcome.originals.iter().any(|o| o.points.is_empty());
    let held = charts::sought(outcome).and_then(|row| rate(row, Side::Ours));
    let max = unpaced(Side::Ours).filter(|_| !is_published);
    if held.is_some() || max.is_some() {
        let mut parts = Vec::new();
        parts.extend(held.map(|r| format!("{}/s held without a growing queue", short(r))));
        parts.extend(max.map(|r| format!("{}/s unpaced", short(r))));
        for side in OTHERS.into_iter().filter(|_| !is_published) {
            parts.extend(unpaced(side).map(|r| format!("{}: {}/s unpaced", side.title(), short(r))));
        }
        let published = outcome.originals.iter().filter(|o| o.points.is_empty() && o.highest > 0.0);
        parts.extend(published.map(|o| format!("published: {}/s ({})", exact(o.highest), escape(&o.label))));
        lines.push(format!("<b>{}</b>: {}.", prose(&outcome.title), parts.join("; ")));
    }
    lines.extend(super::summary::lines(outcome));
    lines.extend(beside_peers(outcome, &rows));
    lines.extend(whole_turns(outcome));
    if lines.is_empty() {
        lines.extend(judged(outcome));
    }
    lines
}

/// The figures that the scenario has goals for, but for those of unpaced runs where rates are published, which were sustained.
fn judged(outcome: &Outcome) -> Option<String> {
    let is_published = outcome.originals.iter().any(|o| o.points.is_empty());
    let said: Vec<String> = outcome
        .verdicts
        .iter()
        .filter(|verdict| !is_published || verdict.goal.row != "max" || verdict.goal.over.is_some())
        .filter_map(|verdict| {
            let (goal, value) = (&verdict.goal, verdict.value?);
            let unit = if goal.over.is_some() { "ratio" } else { goal.metric.as_str() };
            let over = goal.over.map_or(String::new(), |side| format!(", ours : {side},"));
            Some(format!("{} {}{over} {}", escape(&goal.row), escape(said(&goal.metric)), figure(unit, value)))
        })
        .collect();
    (!said.is_empty()).then(|| format!("<b>{}</b>: {}.", prose(&outcome.title), said.join("; ")))
}

/// The lowest and the highest rate, once if they are the same.
fn shown_ends(first: (f64, f64), last: (f64, f64)) -> impl Iterator<Item = (f64, f64)> {
    let is_one = (first.0 - last.0).abs() < 0.5;
    [first, last].into_iter().take(if is_one { 1 } else { 2 })
}

fn at_rate(us: f64, rate: f64) -> String {
    format!("{} at {}/s", duration(us), short(rate))
}

/// What a published series says at the rates that were measured here: its lowest and its highest common one.
fn published_ends(original: &crate::results::series::Series, ends: &[(f64, f64)]) -> Option<String> {
    let common: Vec<(f64, f64)> =
        ends.iter().filter_map(|(rate, _)| Some((*rate, original.at(*rate)?.mean_us))).collect();
    let (first, last) = (common.first()?, common.last()?);
    let text: Vec<String> =
        shown_ends(*first, *last).map(|(rate, us)| format!("{us} µs at {}/s", exact(rate))).collect();
    Some(format!("{} {}", escape(&original.label), text.join(", ")))
}

/// What a delivery costs the server by the size of its turns, and what of that the bare things cost.
fn whole_turns(outcome: &Outcome) -> Option<String> {
    let [sum, turn, _] = stages::SUMS;
    let mut parts = Vec::new();
    for row in &outcome.rows {
        let Some(batch) = row.label.strip_suffix(turn).and_then(|l| l.strip_suffix(" a turn: ")) else { continue };
        let floors = outcome.rows.iter().find(|r| r.label == format!("{batch} a turn: {sum}"));
        let ns = |row: &Row, side| row.spread(side, "delivery_ns").or_else(|| row.spread(side, "ns")).map(|s| s.median);
        if let Some((ours, floor)) = ns(row, Side::Ours).zip(floors.and_then(|row| ns(row, Side::Floor))) {
            parts.push(format!("{ours:.0} ns at {batch} updates a turn (bare: {floor:.0})"));
        }
    }
    (!parts.is_empty()).then(|| format!("<b>{}</b>: a delivery costs {}.", prose(&outcome.title), parts.join(", ")))
}

/// Median latency beside each peer at the rates where both ran.
fn beside_peers(outcome: &Outcome, rows: &[(f64, &Row)]) -> Vec<String> {
    let mut lines = Vec::new();
    for side in crate::results::PEERS {
        let held = rows.iter().filter(|(_, row)| row.is_held(row.base(side)) && row.is_held(side));
        let both = held.filter_map(|(rate, row)| {
            let (ours, theirs) = (row.spread(row.base(side), "p50_us")?, row.spread(side, "p50_us")?);
            let (ours, theirs, rate) = (duration(ours.median), duration(theirs.median), short(*rate));
            Some(format!("{ours} against {theirs} at {rate}/s"))
        });
        let both: Vec<String> = both.collect();
        if !both.is_empty() {
            let (title, name) = (prose(&outcome.title), side.title());
            lines.push(format!("<b>{title}</b>: median beside {name} {}.", both.join(", ")));
        }
    }
    lines
}

fn goals(out: &mut String, outcomes: &[Outcome]) {
    let mut rows = String::new();
    let (mut met, mut missed, mut unmeasured) = (0, 0, 0);
    for (outcome, verdict) in outcomes.iter().flat_map(|o| o.verdicts.iter().map(move |v| (o, v))) {
        match verdict.is_met() {
            Some(true) => met += 1,
            Some(false) => missed += 1,
            None => {
                unmeasured += 1;
                continue;
            }
        }
        let goal = &verdict.goal;
        let over = goal.over.map_or(String::new(), |side| format!(", ours : {side}"));
        let unit = if goal.over.is_some() { "ratio" } else { goal.metric.as_str() };
        let relation = if goal.at_least { "at least" } else { "at most" };
        let here = verdict.value.map_or("-".to_owned(), |v| figure(unit, v));
        let is_met = verdict.is_met() == Some(true);
        let word = if is_met { "<span class=\"met\">met</span>" } else { "<span class=\"missed\">missed</span>" };
        let _ = writeln!(
            rows,
            "<tr><td>{}</td><td class=\"text\">{} {}{over}</td><td>{relation} {}</td><td>{here}</td><td>{word}</td></tr>",
            escape(&outcome.name),
            escape(&goal.row),
            escape(said(&goal.metric)),
            figure(unit, goal.bound)
        );
    }
    if !rows.is_empty() {
        let _ = write!(out, "<h3>Goals: {met} met, {missed} missed</h3>");
        out.push_str("<div class=\"scroll\"><table><tr><th>scenario</th><th class=\"text\">figure</th><th>goal</th><th>here</th><th></th></tr>\n");
        out.push_str(&rows);
        out.push_str("</table></div>\n");
        if unmeasured > 0 {
            let _ =
                writeln!(out, "<p class=\"soft\">{unmeasured} more speak of what was not measured in this call.</p>");
        }
    }
}

/// A figure's name for people.
fn said(metric: &str) -> &str {
    match metric {
        "p50_us" => "median latency",
        "p99_us" => "latency, 99 %",
        "server_cpu_ns" => "processor time of the server, a delivery",
        other => other,
    }
}

fn system(out: &mut String, environment: &Environment) {
    out.push_str("<h2>System</h2><div class=\"scroll\"><table>\n");
    let main = [
        ("machine", environment.host.as_str()),
        ("sockets", &environment.sockets),
        ("program", &environment.program),
        ("measured", environment.measured()),
    ];
    let all = main.into_iter().chain(environment.facts.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    for (name, value) in all {
        let _ = writeln!(out, "<tr><td>{}</td><td class=\"text\">{}</td></tr>", escape(name), escape(value));
    }
    out.push_str("</table></div>\n");
}

fn method(out: &mut String, pairs: u32) {
    let steady::Rule { windows, in_a_row, rate_percent, latency_percent } = steady::RULE;
    let _ = writeln!(
        out,
        "<h2>Method</h2>\
         <p>Sides run by turns, {pairs} time(s) each; a figure is the median with least and greatest in brackets, a ratio the median of the ratios run by run.</p>\
         <p>Where a scenario is observed, both load generators record every message (or one of so many, the same ones, where it says so) with its \
         number and the time of {CLOCK}, in memory touched before the test, written out after it. Latency counts from the <i>intended</i> time of a message, \
         so a sender that is late hides nothing; figures called <code>call_</code> count from the call of the API, as embedded time stamps in the \
         originals did. Loss, repetition or disorder voids a run.</p>\
         <p>Steady state: a run is cut into {windows} windows; it is steady from the first of {in_a_row} windows in a row whose rate is within {rate_percent:.0} % of, and whose median \
         latency is within three median deviations (at least {latency_percent:.0} %) of what the second half of the run shows. What is before is discarded and shown shaded. Where the last quarter's latency \
         is half above the one before, nothing is called steady.</p>\
         <p>Bursts: the originals' source sent rate/ticks updates at 500 or 1,000 ticks a second. <i>Quoteway</i> in those scenarios does the same, <i>evenly paced</i> beside it does not; \
         bare loops and peers pace evenly and are compared with the latter. Producer 50/50 means that half of the updates go to all mounts and half to one, which is inferred from \
         the reports' ratios of 50.4 to 50.5.</p>"
    );
}

fn section(out: &mut String, outcome: &Outcome) {
    let _ = writeln!(out, "<h2 id=\"{0}\">{1}</h2>", escape(&outcome.name), prose(&outcome.title));
    if !outcome.about.is_empty() {
        let _ = writeln!(out, "<p>{}</p>", prose(&outcome.about));
    }
    let beside =
        if outcome.disturbance.is_empty() { String::new() } else { format!(" Beside it: {}.", outcome.disturbance) };
    let _ = writeln!(
        out,
        "<p class=\"conditions\"><code>quoteway-lab {}</code>: {}.{}</p>",
        escape(&outcome.name),
        escape(&outcome.conditions),
        escape(&beside)
    );
    out.push_str(&charts::of(outcome));
    out.push_str(&super::deviations::html(&outcome.deviations));
    out.push_str(&super::published::html(outcome));
    as_published(out, outcome);
    all_figures(out, outcome);
    out.push_str(&charts::by_second(outcome));
    if !outcome.notes.is_empty() {
        out.push_str("<ul class=\"notes\">");
        for note in &outcome.notes {
            let _ = write!(out, "<li>{}</li>", escape(note));
        }
        out.push_str("</ul>\n");
    }
}

/// The columns of the reports on RMDS: the figure of ours, from the call, and its name there.
const PRINTED: [(&str, &str); 5] = [
    ("call_mean_us", "mean"),
    ("call_stddev_us", "std dev"),
    ("call_max_us", "max"),
    ("call_min_us", "min"),
    ("samples", "samples"),
];

/// The reports' table, cell by cell as printed, ours beside it; a published rate without a figure of ours says so.
fn as_published(out: &mut String, outcome: &Outcome) {
    let rows = charts::rated(outcome);
    let series: Vec<_> = outcome.originals.iter().filter(|o| !o.points.is_empty()).collect();
    if series.is_empty() {
        return;
    }
    let has_even = rows.iter().any(|(_, row)| row.spread(Side::Smooth, "call_mean_us").is_some());
    let mut ours: Vec<(Side, &str)> = if has_even {
        vec![(Side::Ours, "ours, in bursts"), (Side::Smooth, "ours, evenly paced")]
    } else {
        vec![(Side::Ours, "ours")]
    };
    if rows.iter().any(|(_, row)| row.has(Side::Sampled)) {
        ours.push((Side::Sampled, "ours, sampled as there"));
    }
    let columns = PRINTED.len();
    out.push_str("<h3>As the report has it: microseconds from the call of the API</h3><div class=\"scroll\"><table class=\"wide\"><tr><th></th>");
    for (_, name) in &ours {
        let _ = write!(out, "<th colspan=\"{columns}\">{name}</th>");
    }
    for one in &series {
        let _ = write!(out, "<th colspan=\"{columns}\">{} ({})</th>", escape(&one.label), escape(&one.place));
    }
    out.push_str("</tr>\n<tr><th>update rate</th>");
    for _ in 0..ours.len() + series.len() {
        for (_, name) in PRINTED {
            let _ = write!(out, "<th>{name}</th>");
        }
    }
    out.push_str("</tr>\n");
    let mut rates: Vec<f64> = rows.iter().map(|(rate, _)| *rate).collect();
    rates.extend(series.iter().flat_map(|one| one.points.iter().map(|p| p.rate)));
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    for rate in rates {
        let row = rows.iter().find(|(r, _)| (r - rate).abs() < 0.5).map(|(_, row)| *row);
        let missed = ours.iter().filter(|(side, _)| row.is_some_and(|row| !row.is_held(*side)));
        let missed: Vec<&str> = missed.map(|(_, name)| *name).collect();
        let missed = if missed.is_empty() { String::new() } else { format!(", not held by {}", missed.join("; ")) };
        let _ = write!(out, "<tr><td>{rate:.0}{missed}</td>");
        for (side, _) in &ours {
            let figures = PRINTED.map(|(metric, _)| row.and_then(|row| row.spread(*side, metric)).map(|s| s.median));
            if figures[0].is_none() {
                let _ = write!(out, "<td colspan=\"{columns}\">no figure in this call</td>");
                continue;
            }
            for ((_, name), value) in PRINTED.into_iter().zip(figures) {
                let digits = if name == "samples" { 0 } else { 3 };
                let _ = write!(out, "<td>{}</td>", value.map_or(String::new(), |v| format!("{v:.digits$}")));
            }
        }
        for one in &series {
            let figures: Vec<(&str, f64)> =
                one.at(rate).into_iter().flat_map(crate::results::series::Point::figures).collect();
            for (_, name) in PRINTED {
                let value = figures.iter().find(|(figure, _)| name_of(figure) == name).map(|(_, value)| value);
                let _ = write!(out, "<td>{}</td>", value.map_or(String::new(), f64::to_string));
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
}

/// The reports' name of a published figure.
fn name_of(figure: &str) -> &'static str {
    PRINTED.iter().find(|(ours, _)| ours.ends_with(figure)).map_or("", |(_, name)| *name)
}

fn all_figures(out: &mut String, outcome: &Outcome) {
    let others: Vec<Side> = OTHERS.into_iter().filter(|s| outcome.rows.iter().any(|row| row.has(*s))).collect();
    out.push_str("<h3>All figures</h3><div class=\"scroll\"><table><tr><th>figure</th><th>ours</th>");
    for side in &others {
        let _ = write!(out, "<th>{0}</th><th>ours : {0}</th>", side.name());
    }
    out.push_str("</tr>\n");
    for row in &outcome.rows {
        let _ = writeln!(out, "<tr class=\"group\"><td>{}</td></tr>", escape(&row.label));
        for metric in row.metrics().into_iter().filter(|m| *m != "held") {
            let _ = write!(out, "<tr><td>{metric}</td><td>{}</td>", spread(metric, row.spread(Side::Ours, metric)));
            for side in &others {
                let ratio = spread("ratio", row.ratio(*side, metric));
                let _ = write!(out, "<td>{}</td><td>{ratio}</td>", spread(metric, row.spread(*side, metric)));
            }
            out.push_str("</tr>\n");
        }
    }
    out.push_str("</table></div>\n");
}

fn spread(metric: &str, spread: Option<Spread>) -> String {
    match spread {
        None => String::new(),
        Some(s) if s.count == 1 => figure(metric, s.median),
        Some(s) => format!("{} ({} to {})", figure(metric, s.median), figure(metric, s.low), figure(metric, s.high)),
    }
}

/// Every run of every side as lines of CSV: `scenario,row,side,run,figure,value`. Figures `hdr_99.9` are points of the percentile
/// distribution of an observed run, in microseconds.
pub fn csv(outcomes: &[Outcome]) -> String {
    let mut out = String::from("scenario,row,side,run,figure,value\n");
    for outcome in outcomes {
        for row in &outcome.rows {
            for side in [Side::Ours].into_iter().chain(OTHERS) {
                for (n, metrics) in row.side(side).iter().enumerate() {
                    for (name, value) in &metrics.figures {
                        let _ =
                            writeln!(out, "{},{},{},{},{name},{value}", outcome.name, row.label, side.name(), n + 1);
                    }
                    for (second, count) in metrics.observed.iter().flat_map(|o| o.each_second.iter().enumerate()) {
                        let (scenario, label, side) = (&outcome.name, &row.label, side.name());
                        let _ = writeln!(out, "{scenario},{label},{side},{},second_{second},{count}", n + 1);
                    }
                    for (place, outlier) in metrics.observed.iter().flat_map(|o| o.outliers.iter().enumerate()) {
                        let (scenario, label, side) = (&outcome.name, &row.label, side.name());
                        let (n, place) = (n + 1, place + 1);
                        let _ = writeln!(out, "{scenario},{label},{side},{n},outlier_{place}_us,{}", outlier.us);
                        let _ = writeln!(out, "{scenario},{label},{side},{n},outlier_{place}_at_s,{}", outlier.at_s);
                    }
                    for p in metrics.observed.iter().flat_map(|o| &o.percentiles) {
                        let (scenario, label, side) = (&outcome.name, &row.label, side.name());
                        let _ = writeln!(out, "{scenario},{label},{side},{},{},{}", n + 1, p.name(), p.us);
                    }
                }
            }
        }
        out += &super::published::csv(outcome);
        for original in &outcome.originals {
            for p in &original.points {
                let label = original.label.replace('"', "'");
                let name = &outcome.name;
                for (figure, value) in p.figures() {
                    let _ =
                        writeln!(out, "{name},{},\"published: {label}, {}\",,{figure},{value}", p.rate, original.place);
                }
            }
            if original.points.is_empty() {
                let (name, label) = (&outcome.name, original.label.replace('"', "'"));
                let _ = writeln!(out, "{name},,\"published: {label}, {}\",,rate,{}", original.place, original.highest);
            }
        }
    }
    out
}
