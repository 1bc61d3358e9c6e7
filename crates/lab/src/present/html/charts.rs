//! Which charts a scenario has, and what is in them.

use std::fmt::Write as _;

use super::svg::{self, Axis, Bar, Histogram, Line, Scale, duration, short};
use crate::results::{OTHERS, Observed, Outcome, Row, Side};
use crate::scenario::Point;
use crate::stages::{STAGES, SUMS};
use measure::observer::analysis::BUCKET_NS;

// Colours are variables of the style sheet, which has others for the dark.
const OURS: &str = "var(--ours)";
const SMOOTH: &str = "var(--smooth)";
const VARIANT: &str = "var(--variant)";
const FLOOR: &str = "var(--floor)";
/// Ours in charts across scenarios.
pub(super) const OVERVIEW: [&str; 4] = [OURS, SMOOTH, VARIANT, "var(--eta)"];
/// The first of the published ones.
pub(crate) const PUBLISHED_FIRST: &str = PUBLISHED[0];
/// Published series are warm, dashed or outlined; what was measured here is not.
pub(super) const PUBLISHED: [&str; 5] =
    ["var(--theirs-1)", "var(--theirs-2)", "var(--theirs-3)", "var(--theirs-4)", "var(--theirs-5)"];
pub(super) const DASHES: [&str; 5] = ["6 3", "2 3", "9 3 2 3", "4 2", "1 3"];

/// The colour of a side in all charts.
pub fn colour(side: Side) -> &'static str {
    match side {
        Side::Ours => OURS,
        Side::Smooth => SMOOTH,
        Side::Sampled | Side::Variant => VARIANT,
        Side::Floor => FLOOR,
        Side::Eta => "var(--eta)",
        Side::Nats => "var(--nats)",
        Side::Aeron => "var(--aeron)",
    }
}

const RATE: Axis = Axis { name: "deliveries a second", scale: Scale::Logarithmic, text: short };

/// The rows of a scenario that are of a rate, in its order.
pub fn rated(outcome: &Outcome) -> Vec<(f64, &Row)> {
    let rate = |row: &Row| match row.label.parse() {
        Ok(Point::Rate(rate)) => Some(rate),
        _ => None,
    };
    let mut rows: Vec<(f64, &Row)> = outcome.rows.iter().filter_map(|row| Some((rate(row)?, row))).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    rows
}

/// All charts of a scenario, one below the other.
pub fn of(outcome: &Outcome) -> String {
    let rows = rated(outcome);
    let mut out = String::new();
    if rows.len() > 1 || outcome.originals.iter().any(|o| !o.points.is_empty()) {
        out += &means(outcome, &rows);
    }
    if rows.len() > 1 {
        out += &percentiles(&rows);
    }
    if rows.len() > 1 || outcome.originals.iter().any(|o| !o.points.is_empty()) {
        out += &highest(outcome, &rows);
        out += &deviations(outcome, &rows);
    }
    out += &left_out(&rows);
    out += &distributions(&rows);
    out += &nines(&rows);
    out += &throughput(outcome);
    out += &stages(outcome);
    out += &over_time(&rows);
    out
}

/// A figure of a side over the rates that it has held.
pub(super) fn series(rows: &[(f64, &Row)], side: Side, metric: &str) -> Vec<(f64, f64)> {
    let held = rows.iter().filter(|(_, row)| row.is_held(side));
    held.filter_map(|(rate, row)| Some((*rate, row.spread(side, metric)?.median))).collect()
}

/// Which rates are in no chart over the rate, and whose; empty where all were held.
fn left_out(rows: &[(f64, &Row)]) -> String {
    let of = |side: Side| {
        let missed: Vec<String> =
            rows.iter().filter(|(_, row)| !row.is_held(side)).map(|(rate, _)| format!("{}/s", short(*rate))).collect();
        (!missed.is_empty()).then(|| format!("{} {}", side.title(), missed.join(", ")))
    };
    let all: Vec<String> = [Side::Ours].into_iter().chain(OTHERS).filter_map(of).collect();
    if all.is_empty() {
        return String::new();
    }
    format!("<p class=\"soft\">Rates that were not held are in no chart over the rate: {}.</p>\n", all.join("; "))
}

fn published(outcome: &Outcome, what: fn(&crate::results::series::Point) -> f64) -> Vec<Line> {
    let lines = outcome.originals.iter().filter(|o| !o.points.is_empty()).enumerate();
    lines
        .map(|(n, original)| Line {
            name: short_name(original),
            colour: PUBLISHED[n % PUBLISHED.len()],
            dashes: DASHES[n % DASHES.len()],
            points: original.points.iter().map(|p| (p.rate, what(p))).collect(),
        })
        .collect()
}

/// A published series by its table, release and system: the whole name has no room at the end of a line, and stands above its column.
fn short_name(original: &crate::results::series::Series) -> String {
    let parts: Vec<&str> = original.label.split(", ").take(2).collect();
    format!("{}: {}", original.table(), parts.join(", "))
}

fn line(name: &str, side: Side, dashes: &'static str, points: Vec<(f64, f64)>) -> Line {
    Line { name: name.to_owned(), colour: colour(side), dashes, points }
}

/// Mean from the call, as the reports have it; without an observer there is none.
fn means(outcome: &Outcome, rows: &[(f64, &Row)]) -> String {
    let y = Axis { name: "mean latency, from the call", scale: Scale::Logarithmic, text: duration };
    let has_bursts = rows.iter().any(|(_, row)| row.has(Side::Smooth));
    let first = if has_bursts { "Quoteway, bursts" } else { "Quoteway" };
    let mut all = vec![
        line(first, Side::Ours, "", series(rows, Side::Ours, "call_mean_us")),
        line("Quoteway, even", Side::Smooth, "5 2", series(rows, Side::Smooth, "call_mean_us")),
    ];
    all.extend([Side::Nats, Side::Aeron].map(|s| line(s.title(), s, "", series(rows, s, "call_mean_us"))));
    if all.iter().all(|l| l.points.is_empty()) {
        return String::new();
    }
    all.extend(published(outcome, |p| p.mean_us));
    svg::lines(
        "Mean latency over the rate (from the call of the API; dashed and warm: published, other machines)",
        RATE,
        y,
        &all,
    )
}

/// Percentiles from the intended time; evenly paced where there are both.
fn percentiles(rows: &[(f64, &Row)]) -> String {
    let y = Axis { name: "latency, from the intended time", scale: Scale::Logarithmic, text: duration };
    let base = if rows.iter().any(|(_, row)| row.has(Side::Smooth)) { Side::Smooth } else { Side::Ours };
    let mut all = Vec::new();
    for (metric, name, dashes) in
        [("p50_us", "median", ""), ("p99_us", "99 %", "6 3"), ("p999_us", "99.9 %", "2 3"), ("max_us", "max", "1 4")]
    {
        all.push(line(&format!("Quoteway {name}"), base, dashes, series(rows, base, metric)));
    }
    for side in [Side::Variant, Side::Floor, Side::Eta, Side::Nats, Side::Aeron] {
        for (metric, name, dashes) in [("p50_us", "median", ""), ("p99_us", "99 %", "6 3")] {
            all.push(line(&format!("{} {name}", side.title()), side, dashes, series(rows, side, metric)));
        }
    }
    svg::lines("Percentiles over the rate (evenly paced, from the intended time of each message)", RATE, y, &all)
}

/// The longest latency of each rate, beside the published ones.
fn highest(outcome: &Outcome, rows: &[(f64, &Row)]) -> String {
    let y = Axis { name: "highest latency, from the call", scale: Scale::Logarithmic, text: duration };
    let mut all = vec![
        line("Quoteway, bursts", Side::Ours, "", series(rows, Side::Ours, "call_max_us")),
        line("Quoteway, even", Side::Smooth, "5 2", series(rows, Side::Smooth, "call_max_us")),
    ];
    if outcome.originals.is_empty() || all[0].points.is_empty() {
        return String::new();
    }
    all.extend(published(outcome, |p| p.max_us));
    svg::lines("Highest latency over the rate (dashed and warm: published, other machines)", RATE, y, &all)
}

fn deviations(outcome: &Outcome, rows: &[(f64, &Row)]) -> String {
    let y = Axis { name: "standard deviation, from the call", scale: Scale::Logarithmic, text: duration };
    let mut all = vec![
        line("Quoteway, bursts", Side::Ours, "", series(rows, Side::Ours, "call_stddev_us")),
        line("Quoteway, even", Side::Smooth, "5 2", series(rows, Side::Smooth, "call_stddev_us")),
    ];
    all.extend(published(outcome, |p| p.stddev_us));
    if outcome.originals.is_empty() || all[0].points.is_empty() {
        return String::new();
    }
    svg::lines("Standard deviation over the rate", RATE, y, &all)
}

/// Shares by bucket, to the right end of the plot; the rest is beyond.
fn histogram(name: String, side: Side, dashes: &'static str, observed: &Observed, end_us: f64) -> Histogram {
    let total: u64 = observed.buckets.values().sum();
    let share = |count: u64| count as f64 / total.max(1) as f64;
    let width = BUCKET_NS as f64 / 1e3;
    let inside = observed.buckets.iter().map(|(n, count)| (*n as f64 * width, *count));
    let shares: Vec<(f64, f64)> = inside.filter(|(at, _)| *at < end_us).map(|(at, count)| (at, share(count))).collect();
    let beyond = 1.0 - shares.iter().map(|s| s.1).sum::<f64>();
    Histogram { name, colour: colour(side), dashes, shares, beyond: if beyond < 1e-9 { 0.0 } else { beyond } }
}

/// Latency below which this share of the samples lies, by the upper end of its bucket.
fn below(observed: &Observed, share: f64) -> f64 {
    let total: u64 = observed.buckets.values().sum();
    let mut seen = 0;
    for (n, count) in &observed.buckets {
        seen += count;
        if seen as f64 >= share * total as f64 {
            return (n + 1) as f64 * BUCKET_NS as f64 / 1e3;
        }
    }
    0.0
}

/// Where the body of a distribution ends: most of the samples, and not far beyond the median.
fn most(observed: &Observed) -> f64 {
    below(observed, 0.95).min(6.0 * below(observed, 0.5)).max(below(observed, 0.7))
}

/// Histograms of the lowest, a middle and the highest observed rate, and at one rate of everybody who was observed.
fn distributions(rows: &[(f64, &Row)]) -> String {
    let observed: Vec<&(f64, &Row)> = rows.iter().filter(|(_, row)| row.observed(Side::Ours).is_some()).collect();
    let (Some(first), Some(last)) = (observed.first(), observed.last()) else { return String::new() };
    let x = Axis { name: "latency from the intended time, buckets of 10 µs", scale: Scale::Linear, text: duration };
    let mut chosen = vec![*first, observed[observed.len() / 2], *last];
    chosen.dedup_by(|a, b| (a.0 - b.0).abs() < 0.5);
    let end = chosen.iter().filter_map(|(_, row)| row.observed(Side::Ours)).map(most).fold(50.0, f64::max);
    let shades = [(Side::Ours, ""), (Side::Smooth, "5 2"), (Side::Floor, "2 2")];
    let all: Vec<Histogram> = chosen
        .iter()
        .zip(shades)
        .filter_map(|((rate, row), (shade, dashes))| {
            Some(histogram(format!("{}/s", short(*rate)), shade, dashes, row.observed(Side::Ours)?, end))
        })
        .collect();
    let mut out = svg::histograms("Histograms of the latency, Quoteway", x, 10.0, &all);
    // Beside the others at the highest rate at which somebody else was observed.
    let others = |row: &Row| OTHERS.into_iter().filter(|s| row.observed(*s).is_some()).collect::<Vec<_>>();
    if let Some((rate, row)) = rows.iter().rev().find(|(_, row)| !others(row).is_empty()) {
        let sides: Vec<Side> = [Side::Ours].into_iter().chain(others(row)).collect();
        let ends: Vec<f64> = sides.iter().filter_map(|s| row.observed(*s)).map(most).collect();
        // A tail of one side must not press the others into a line; what is beyond is said.
        let shortest = ends.iter().copied().fold(f64::MAX, f64::min).max(50.0);
        let end = ends.into_iter().fold(50.0, f64::max).min(5.0 * shortest);
        let all: Vec<Histogram> = sides
            .iter()
            .zip(["", "5 2", "2 2", "9 3 2 3"])
            .filter_map(|(side, dashes)| {
                Some(histogram(side.title().to_owned(), *side, dashes, row.observed(*side)?, end))
            })
            .collect();
        out += &svg::histograms(&format!("Side by side at {} a second", short(*rate)), x, 10.0, &all);
    }
    out
}

/// Percentile distributions over the number of nines: at the lowest, a middle and the highest rate, and of everybody at one.
fn nines(rows: &[(f64, &Row)]) -> String {
    let x = Axis { name: "share of the messages that are not slower", scale: Scale::Logarithmic, text: share };
    let y = Axis { name: "latency, from the intended time", scale: Scale::Logarithmic, text: duration };
    let plot = |name: String, side: Side, dashes, observed: &Observed| {
        let within = observed.percentiles.iter().filter(|p| p.share < 1.0);
        let mut points: Vec<(f64, f64)> = within.map(|p| (1.0 / (1.0 - p.share), p.us)).collect();
        // The longest is drawn where the last sample is.
        if let Some(last) = observed.percentiles.last() {
            points.push((last.count.max(1) as f64, last.us));
        }
        points.dedup_by(|a, b| a.0 <= b.0);
        Line { name, colour: colour(side), dashes, points }
    };
    let observed: Vec<&(f64, &Row)> = rows.iter().filter(|(_, row)| row.observed(Side::Ours).is_some()).collect();
    let (Some(first), Some(last)) = (observed.first(), observed.last()) else { return String::new() };
    let mut chosen = vec![*first, observed[observed.len() / 2], *last];
    chosen.dedup_by(|a, b| (a.0 - b.0).abs() < 0.5);
    let shades = [(Side::Ours, ""), (Side::Smooth, "5 2"), (Side::Floor, "2 2")];
    let all: Vec<Line> = chosen
        .iter()
        .zip(shades)
        .filter_map(|((rate, row), (shade, dashes))| {
            Some(plot(format!("{}/s", short(*rate)), shade, dashes, row.observed(Side::Ours)?))
        })
        .collect();
    let mut out = svg::lines("Percentile distributions (HDR), Quoteway", x, y, &all);
    let others = |row: &Row| OTHERS.into_iter().filter(|s| row.observed(*s).is_some()).collect::<Vec<_>>();
    for (rate, row) in rows.iter().filter(|(_, row)| !others(row).is_empty()).take(2) {
        let sides = [Side::Ours].into_iter().chain(others(row));
        let all: Vec<Line> = sides
            .zip(["", "5 2", "2 2", "9 3 2 3"])
            .filter_map(|(side, dashes)| Some(plot(side.title().to_owned(), side, dashes, row.observed(side)?)))
            .collect();
        out += &svg::lines(&format!("Percentile distributions side by side at {} a second", short(*rate)), x, y, &all);
    }
    out
}

/// `1 / (1 - share)` as the share in percent: 100 is 99 %.
fn share(value: f64) -> String {
    let percent = 100.0 * (1.0 - 1.0 / value.max(1.0));
    let text = format!("{percent:.6}");
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The row of the highest rate that was held: of what was sought, or of the rates that a call asked for.
pub(super) fn held(outcome: &Outcome) -> Option<&Row> {
    sought(outcome).or_else(|| rated(outcome).into_iter().map(|(_, row)| row).rfind(|row| row.is_held(Side::Ours)))
}

/// The row of the rate that a search has found and that was held then.
pub(super) fn sought(outcome: &Outcome) -> Option<&Row> {
    outcome.rows.iter().find(|row| row.label == "search" && row.is_held(Side::Ours))
}

/// Held rates as bars, published ones below: those are sustained maxima, beside which nothing unpaced stands. Without published ones, unpaced
/// rates too.
fn throughput(outcome: &Outcome) -> String {
    let is_published = outcome.originals.iter().any(|o| o.points.is_empty());
    let unpaced = || outcome.rows.iter().find(|r| r.label == "max");
    let rows = if is_published { [held(outcome), None] } else { [sought(outcome), unpaced()] };
    let mut all = Vec::new();
    for row in rows.into_iter().flatten() {
        for side in [Side::Ours].into_iter().chain(OTHERS) {
            // Others run at the rate that ours has held, and could do more.
            let what = match (row.label.as_str(), side) {
                ("max", _) => "unpaced",
                ("search", Side::Ours) => "held",
                (_, Side::Ours) => "asked for, and held",
                _ => "asked for as much",
            };
            if let Some(spread) = row.spread(side, "rate") {
                all.push(Bar {
                    name: format!("{}, {what}", side.title()),
                    colour: colour(side),
                    value: spread.median,
                    range: Some((spread.low, spread.high)),
                    is_published: false,
                });
            }
        }
    }
    if all.is_empty() && !is_published {
        return String::new();
    }
    for (n, original) in outcome.originals.iter().filter(|o| o.points.is_empty() || !is_published).enumerate() {
        all.push(Bar {
            name: original.label.clone(),
            colour: PUBLISHED[n % PUBLISHED.len()],
            value: original.highest,
            range: None,
            is_published: true,
        });
    }
    svg::bars("Deliveries a second", |v| format!("{}/s", short(v)), &all)
}

/// What each stage costs beside its floor, a chart for each size of a turn.
fn stages(outcome: &Outcome) -> String {
    let turn = |row: &Row| row.label.split_once(" a turn: ").map(|(batch, _)| batch.to_owned());
    let mut batches: Vec<String> = outcome.rows.iter().filter_map(turn).collect();
    batches.dedup();
    let mut out = String::new();
    for batch in batches {
        let mut all = Vec::new();
        for stage in STAGES.iter().chain(&SUMS) {
            let label = format!("{batch} a turn: {stage}");
            let Some(row) = outcome.rows.iter().find(|r| r.label == label) else { continue };
            for side in [Side::Ours, Side::Floor] {
                // Of a delivery, where that is not the same as of an update: only then stages can be compared.
                let spread = row.spread(side, "delivery_ns").or_else(|| row.spread(side, "ns"));
                let Some(spread) = spread else { continue };
                let whose = if side == Side::Ours { *stage } else { "its floor" };
                all.push(Bar {
                    name: whose.to_owned(),
                    colour: colour(side),
                    value: spread.median,
                    range: Some((spread.low, spread.high)),
                    is_published: false,
                });
            }
        }
        out += &svg::bars(&format!("Nanoseconds a delivery, {batch} updates a turn"), |v| format!("{v:.1} ns"), &all);
    }
    out
}

/// The run at the highest observed rate over its time: what was discarded, and whether the rest is steady.
fn over_time(rows: &[(f64, &Row)]) -> String {
    let of = |row: &Row| row.observed(Side::Ours).cloned().filter(|o| !o.windows.is_empty());
    let Some((rate, observed)) = rows.iter().rev().find_map(|(rate, row)| Some((*rate, of(row)?))) else {
        return String::new();
    };
    let y = Axis { name: "median latency", scale: Scale::Linear, text: duration };
    let points: Vec<(f64, f64)> = observed.windows.iter().map(|w| (w.at_s, w.median_us)).collect();
    let verdict = match observed.is_steady {
        true if observed.discarded_s > 0.0 => format!("steady from {:.2} s on", observed.discarded_s),
        true => "steady from the begin".to_owned(),
        false => "no steady state found, nothing discarded".to_owned(),
    };
    let title = format!("A run at {} a second over its time: {verdict}", short(rate));
    let sent: Vec<(f64, f64)> = observed.windows.iter().map(|w| (w.at_s, w.received_per_s)).collect();
    let rates = Axis { name: "received a second", scale: Scale::Linear, text: short };
    svg::timeline(&title, y, observed.discarded_s, &points, OURS)
        + &svg::timeline("... and its rate", rates, observed.discarded_s, &sent, OURS)
}

/// Of each observed run, the last of its row: the rate in each second, and the slowest messages with the time at which each was due.
pub(super) fn by_second(outcome: &Outcome) -> String {
    let mut rows = String::new();
    for (rate, row) in rated(outcome) {
        for side in [Side::Ours, Side::Smooth] {
            let Some(observed) = row.observed(side).filter(|o| !o.outliers.is_empty()) else { continue };
            let seconds: Vec<String> = observed.each_second.iter().map(|count| format!("{count:.0}")).collect();
            let outliers: Vec<String> =
                observed.outliers.iter().map(|o| format!("{} at {:.3} s", duration(o.us), o.at_s)).collect();
            let _ = writeln!(
                rows,
                "<tr><td>{rate:.0}</td><td class=\"text\">{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td></tr>",
                side.title(),
                if seconds.is_empty() { "shorter than a second".to_owned() } else { seconds.join(" ") },
                outliers.join(", ")
            );
        }
    }
    if rows.is_empty() {
        return rows;
    }
    format!(
        "<details><summary>The rate in each second, and the slowest messages</summary><div class=\"scroll\"><table><tr><th>update rate</th>\
         <th class=\"text\"></th><th class=\"text\">received in each second</th><th class=\"text\">the slowest, from the intended time, and when each was due</th></tr>\n\
         {rows}</table></div></details>\n"
    )
}
