//! Histograms of LBM's latencies by microsecond, of all sides over each other: at the highest rate of the shortest and of the longest
//! messages, as the report on LBM shows them.

use super::html::charts::colour;
use super::html::svg::{self, Axis, Histogram, Scale, duration};
use super::summary::Label;
use crate::lbm::SIDES;
use crate::results::{Outcome, Row, Side};

/// What most of a side's samples are, which the plot holds.
const MOST: f64 = 0.95;
/// Least and greatest microseconds of the plot.
const ENDS: (usize, usize) = (12, 250);

/// The charts; empty without histograms.
pub(super) fn html(outcome: &Outcome) -> String {
    let rows = outcome.rows.iter().filter(|row| SIDES.iter().any(|side| sum(row, *side).is_some()));
    let rows: Vec<(Label<'_>, &Row)> = rows.filter_map(|row| Some((Label::of(&row.label)?, row))).collect();
    let sizes = || rows.iter().map(|(label, _)| label.payload);
    let (Some(shortest), Some(longest)) = (sizes().min(), sizes().max()) else { return String::new() };
    let mut out = String::new();
    for payload in if shortest == longest { vec![shortest] } else { vec![shortest, longest] } {
        // Rates ascend, networks follow each other: the last row of the first network.
        let network = rows.first().map_or("", |(label, _)| label.transport);
        let is_meant = |(label, _): &&(Label<'_>, &Row)| label.payload == payload && label.transport == network;
        if let Some((_, row)) = rows.iter().rfind(is_meant) {
            out += &chart(row);
        }
    }
    out
}

/// Samples by microsecond of all runs of a side, and how many there were in all.
fn sum(row: &Row, side: Side) -> Option<(Vec<u64>, f64)> {
    let mut all: Vec<u64> = Vec::new();
    let mut samples = 0.0;
    for run in row.side(side) {
        let Some(observed) = run.observed.as_ref().filter(|o| !o.fine.is_empty()) else { continue };
        all.resize(all.len().max(observed.fine.len()), 0);
        all.iter_mut().zip(&observed.fine).for_each(|(all, one)| *all += one);
        samples += run.get("samples").unwrap_or(0.0);
    }
    (samples > 0.0).then_some((all, samples))
}

fn chart(row: &Row) -> String {
    let sides: Vec<(Side, Vec<u64>, f64)> =
        SIDES.into_iter().filter_map(|side| sum(row, side).map(|(all, samples)| (side, all, samples))).collect();
    let end_of = |all: &[u64], samples: f64| {
        let mut seen = 0;
        let within = all.iter().take_while(|count| {
            seen += **count;
            (seen as f64) < MOST * samples
        });
        within.count() + 2
    };
    let end = sides.iter().map(|(_, all, samples)| end_of(all, *samples)).max().unwrap_or(0).clamp(ENDS.0, ENDS.1);
    let plots: Vec<Histogram> = sides
        .iter()
        .zip(["", "2 2", "9 3 2 3"])
        .map(|((side, all, samples), dashes)| {
            let shown = all.iter().take(end).enumerate().filter(|(_, count)| **count > 0);
            let shares: Vec<(f64, f64)> = shown.map(|(us, count)| (us as f64, *count as f64 / samples)).collect();
            let beyond = 1.0 - shares.iter().map(|(_, share)| share).sum::<f64>();
            let beyond = if beyond < 1e-9 { 0.0 } else { beyond };
            Histogram { name: side.title().to_owned(), colour: colour(*side), dashes, shares, beyond }
        })
        .collect();
    let x = Axis { name: "latency, buckets of 1 µs", scale: Scale::Linear, text: duration };
    let one_way = row.metrics().contains(&"call_p50_us");
    let of = if one_way { "one way, from the call" } else { "there and back, from the intended time" };
    svg::histograms(&format!("Histogram of {}: {of}", row.label), x, 1.0, &plots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Metrics, Observed};

    #[test]
    fn the_highest_rate_of_the_shortest_and_longest_messages_is_shown() {
        let run = |fine: &[u64], samples: f64| Metrics {
            figures: vec![("samples".to_owned(), samples), ("call_p50_us".to_owned(), 5.0)],
            observed: Some(Observed { fine: fine.to_vec(), ..Observed::default() }),
        };
        let row = |label: &str| {
            let mut row = Row::new(label);
            // Two runs: 8 of 10 samples at 1 us, one at 3, one beyond.
            row.add(Side::Ours, run(&[0, 4, 0, 1], 5.0));
            row.add(Side::Ours, run(&[0, 4], 5.0));
            row.add(Side::Aeron, run(&[0, 0, 5], 5.0));
            row
        };
        let labels = ["lbtrm-64b-25k", "lbtrm-64b-125k", "lbtrm-512b-125k", "lbtrm-1024b-125k", "veth-lbtrm-64b-125k"];
        let outcome = Outcome { rows: labels.map(row).to_vec(), ..Outcome::default() };
        let page = html(&outcome);
        assert_eq!(page.matches("<svg").count(), 2, "{page}");
        for part in ["Histogram of lbtrm-64b-125k: one way", "lbtrm-1024b-125k", "10 % beyond", ">Aeron<", ">80 %<"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert_eq!(html(&Outcome { rows: vec![Row::new("lbtrm-64b-25k")], ..Outcome::default() }), "");
    }
}
