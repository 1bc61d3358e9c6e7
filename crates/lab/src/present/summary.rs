//! A scenario of LBM in short, for the key results: lines of HTML.

use std::fmt::Write as _;

use crate::present::html::svg::{duration, escape, exact, short};
use crate::results::series::Series;
use crate::results::{Outcome, Row, Side};

/// A row's name in its parts: `veth-lbtrm-64b-1408-gso`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label<'a> {
    /// `veth-lbtrm`.
    pub(super) transport: &'a str,
    /// Bytes of a message.
    pub(super) payload: u32,
    /// A rate, `serial`, `search`, or datagram and offload.
    pub(super) rest: &'a str,
}

impl<'a> Label<'a> {
    pub(super) fn of(label: &'a str) -> Option<Self> {
        let (transport, rest) = label.split_once("lbt").and_then(|(_, after)| {
            let end = label.len() - after.len() + after.find('-')?;
            Some((&label[..end], &label[end + 1..]))
        })?;
        let (payload, rest) = rest.split_once('-').unwrap_or((rest, ""));
        Some(Self { transport, payload: payload.strip_suffix('b')?.parse().ok()?, rest })
    }
}

/// The claims, none for what is not of LBM: the fastest stream, the rate found and the latencies at the lowest and the highest rate, of
/// the shortest and the longest messages, with Aeron's and the report's of the same row.
pub fn lines(outcome: &Outcome) -> Vec<String> {
    let rows: Vec<(Label<'_>, &Row)> = outcome.rows.iter().filter_map(|r| Some((Label::of(&r.label)?, r))).collect();
    let mut parts = Vec::new();
    let mut transports: Vec<&str> = rows.iter().map(|(label, _)| label.transport).collect();
    transports.dedup();
    for transport in transports {
        let of = || rows.iter().filter(|(label, _)| label.transport == transport);
        let sizes = || of().map(|(label, _)| label.payload);
        let (Some(shortest), Some(longest)) = (sizes().min(), sizes().max()) else { continue };
        for payload in if shortest == longest { vec![shortest] } else { vec![shortest, longest] } {
            let these: Vec<&(Label<'_>, &Row)> = of().filter(|(label, _)| label.payload == payload).collect();
            let said: Vec<String> = claims(outcome, &these);
            if !said.is_empty() {
                parts.push(format!("{} of {payload} bytes {}", escape(transport), said.join(", ")));
            }
        }
    }
    if parts.is_empty() {
        return Vec::new();
    }
    let published = outcome.originals.iter().filter(|o: &&Series| o.points.is_empty() && o.highest > 0.0);
    let published: Vec<String> = published.map(|o| format!("{}/s ({})", exact(o.highest), escape(&o.label))).collect();
    let published = if published.is_empty() { String::new() } else { format!("; published: {}", published.join(", ")) };
    vec![format!("<b>{}</b>: {}{published}.", escape(&outcome.title), parts.join("; "))]
}

fn claims(outcome: &Outcome, rows: &[&(Label<'_>, &Row)]) -> Vec<String> {
    let median = |row: &Row, side, figure: &str| row.spread(side, figure).map(|s| s.median);
    let mut said = Vec::new();
    let timed =
        rows.iter().filter(|(label, row)| label.rest != "search" && median(row, Side::Ours, "p50_us").is_some());
    let timed: Vec<&&(Label<'_>, &Row)> = timed.collect();
    let ends = [timed.first(), timed.last()];
    for (label, row) in ends.iter().take(timed.len().min(2)).flatten().map(|entry| **entry) {
        // As the report counts where there is one: the mean, from the call.
        let table = outcome.published.as_ref();
        let (figure, name) = if table.is_some() { ("call_mean_us", "mean") } else { ("p50_us", "median") };
        let Some(ours) = median(row, Side::Ours, figure) else { continue };
        let mut text = format!("{} {name} at {}", duration(ours), label.rest);
        if let Some(theirs) = median(row, Side::Aeron, figure) {
            let missed = if row.is_held(Side::Aeron) { "" } else { ", not held" };
            let _ = write!(text, " (Aeron {}{missed})", duration(theirs));
        }
        let published =
            table.and_then(|t| t.rows.iter().find(|p| p.beside(outcome) == row.label && p.path == 1 && !p.is_lost));
        if let Some(published) = published {
            let _ = write!(text, " (published {} µs)", published.mean_us());
        }
        if !row.is_held(Side::Ours) {
            text.push_str(" (not held)");
        }
        said.push(text);
    }
    let rate = |row: &Row, side| median(row, side, "rate");
    let untimed =
        rows.iter().filter(|(label, row)| label.rest == "search" || median(row, Side::Ours, "p50_us").is_none());
    let fastest = untimed.filter_map(|(label, row)| Some((rate(row, Side::Ours)?, label, row)));
    if let Some((ours, label, row)) = fastest.max_by(|a, b| a.0.total_cmp(&b.0)) {
        let how = match label.rest {
            "search" => " held",
            "" => "",
            rest => &format!(" ({rest})"),
        };
        let mut text = format!("{}/s{how}", short(ours));
        if let Some(theirs) = rate(row, Side::Aeron) {
            let _ = write!(text, " (Aeron {}/s)", short(theirs));
        }
        said.push(text);
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Metrics;
    use crate::results::published::{Published, Table};

    fn row(label: &str, sides: &[(Side, &[(&str, f64)])]) -> Row {
        let mut row = Row::new(label);
        for (side, figures) in sides {
            let metrics: Metrics = figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            row.add(*side, metrics);
        }
        row
    }

    fn said(rows: Vec<Row>, published: Option<Table>) -> Vec<String> {
        lines(&Outcome { title: "T".to_owned(), rows, published, ..Outcome::default() })
    }

    #[test]
    fn labels_have_parts() {
        let label = |text| Label::of(text).map(|l| (l.transport, l.payload, l.rest));
        assert_eq!(label("veth-lbtrm-64b-1408-gso"), Some(("veth-lbtrm", 64, "1408-gso")));
        assert_eq!(label("lbtipc-1024b"), Some(("lbtipc", 1_024, "")));
        assert_eq!((label("100k"), label("16 a turn: send")), (None, None));
    }

    #[test]
    fn a_stream_is_its_fastest_row_of_each_size() {
        let of =
            |label: &str, ours: f64| row(label, &[(Side::Ours, &[("rate", ours)]), (Side::Aeron, &[("rate", 2e6)])]);
        let rows =
            vec![of("lbtru-64b-1408-plain", 4e6), of("lbtru-64b-1408-gso", 30e6), of("lbtru-1024b-1408-gso", 2.5e6)];
        let expected = "<b>T</b>: lbtru of 64 bytes 30M/s (1408-gso) (Aeron 2M/s); lbtru of 1024 bytes 2.5M/s (1408-gso) (Aeron 2M/s).";
        assert_eq!(said(rows, None), [expected]);
    }

    #[test]
    fn latencies_stand_beside_aeron_and_the_report() {
        let of = |label: &str, us: f64| {
            let figures = [("rate", 1e3), ("p50_us", us), ("call_mean_us", us + 1.0)];
            row(label, &[(Side::Ours, &figures), (Side::Aeron, &[("p50_us", 16.0)])])
        };
        let rows = || vec![of("lbtrm-64b-25k", 8.5), of("lbtrm-64b-50k", 8.6), of("lbtrm-64b-125k", 14.0)];
        let expected =
            "<b>T</b>: lbtrm of 64 bytes 8.5 µs median at 25k (Aeron 16 µs), 14 µs median at 125k (Aeron 16 µs).";
        assert_eq!(said(rows(), None), [expected]);
        let mut published = Published { payload: 64, target: Some(25e3), path: 1, ..Published::default() };
        published.figures[1] = 14.0;
        let table = Table { place: "A".to_owned(), rows: vec![published] };
        let expected = "<b>T</b>: lbtrm of 64 bytes 9.5 µs mean at 25k (published 14 µs), 15 µs mean at 125k.";
        assert_eq!(said(rows(), Some(table)), [expected]);
        assert_eq!(said(vec![of("100k", 5.0)], None), [""; 0]);
        let late: [(&str, f64); 2] = [("p50_us", 9e3), ("held", 0.0)];
        let late = row("lbtrm-64b-25k", &[(Side::Ours, &late), (Side::Aeron, &late)]);
        let expected = "<b>T</b>: lbtrm of 64 bytes 9 ms median at 25k (Aeron 9 ms, not held) (not held).";
        assert_eq!(said(vec![late], None), [expected]);
        let found = row("lbtrm-64b-search", &[(Side::Ours, &[("rate", 1.9e6), ("p50_us", 90.0)])]);
        assert_eq!(said(vec![found], None), ["<b>T</b>: lbtrm of 64 bytes 1.9M/s held."]);
    }
}
