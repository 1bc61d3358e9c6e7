//! Figures of shared memory, by how far the processors were from each other.
//!
//! The host of a virtual machine moves its processors, now and then within a second: into one cache of the third level (a line there and back
//! in some 50 to 110 ns) or into two (500 ns). What goes through shared memory is up to nine times slower in the second case, whoever
//! sends. Runs of a row are therefore also told apart by what a line took beside each.

use super::SIDES;
use crate::results::{Metrics, Row, Side};
use measure::stats::Spread;

/// The name of the figure: nanoseconds of a cache line to the other processor and back.
pub(super) const LINE: &str = "line_ns";
/// Beyond it two processors share no cache, ns.
const FAR: f64 = 200.0;

/// Medians of each side near and far, where a row has runs of both kinds.
pub(super) fn by_distance(row: &Row) -> Option<String> {
    let metric = if row.metrics().contains(&"rate") { "rate" } else { "p50_us" };
    let is_far = |m: &Metrics| m.get(LINE).map(|ns| ns > FAR);
    let runs = || SIDES.into_iter().flat_map(|side| row.side(side));
    let has = |far| runs().any(|m| is_far(m) == Some(far));
    if !(has(true) && has(false)) {
        return None;
    }
    let of = |side: Side, far: bool| {
        let values: Vec<f64> =
            row.side(side).iter().filter(|m| is_far(m) == Some(far)).filter_map(|m| m.get(metric)).collect();
        let median = Spread::of(&values)?.median;
        let value = if metric == "rate" { format!("{:.1} M/s", median / 1e6) } else { format!("{median:.2} us") };
        let runs = if values.len() == 1 { "run" } else { "runs" };
        Some(format!("{} {value} ({} {runs})", side.title(), values.len()))
    };
    let band = |far: bool| SIDES.into_iter().filter_map(|side| of(side, far)).collect::<Vec<_>>().join(", ");
    Some(format!(
        "a cache line took up to {FAR} ns in some runs and more in others (the first two processors, there and back); up to {FAR} ns: {}; more: {}",
        band(false),
        band(true)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rate: f64, line: f64) -> Metrics {
        [("rate".to_owned(), rate), (LINE.to_owned(), line)].into_iter().collect()
    }

    #[test]
    fn runs_are_told_apart_by_distance_only_where_it_changed() {
        let mut row = Row::new("lbtipc-64b");
        for (ours, aeron, line) in [(100e6, 50e6, 60.0), (90e6, 52e6, 110.0), (95e6, 54e6, 100.0)] {
            row.add(Side::Ours, run(ours, line));
            row.add(Side::Aeron, run(aeron, line));
        }
        assert_eq!(by_distance(&row), None);
        row.add(Side::Ours, run(28e6, 510.0));
        let text = by_distance(&row).expect("both kinds");
        let expected = "a cache line took up to 200 ns in some runs and more in others (the first two processors, there and back); up to 200 ns: Quoteway 95.0 M/s (3 runs), Aeron 52.0 M/s (3 runs); more: Quoteway 28.0 M/s (1 run)";
        assert_eq!(text, expected);
    }
}
