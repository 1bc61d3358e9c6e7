//! The contents of a recording, for people and as JSON.

use super::counted;
use crate::output::Output;
use crate::when;
use record::{Folder, Gap, Info, Recording};
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;

/// Parts of the span for which a rate is shown.
const PARTS: usize = 60;
/// Gaps that are listed.
const GAPS: usize = 20;
/// Bars of a sparkline, the lowest first.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Shows a recording, or one of its segments.
///
/// # Errors
/// A text for the user: nothing of it can be read.
pub(super) fn show(path: &Path, as_json: bool) -> anyhow::Result<()> {
    let recording = Recording::open(Folder::to_read(path))?;
    let (info, rates) = (recording.info(), recording.rates(PARTS));
    let damage: Vec<String> = recording.damage().iter().map(ToString::to_string).collect();
    let mut output = Output::default();
    if as_json {
        output.line(&as_value(&info, &rates, &damage).to_string());
    } else {
        text(&path.display().to_string(), &info, &rates, &damage).lines().for_each(|line| output.line(line));
    }
    output.finish()
}

fn as_value(info: &Info, rates: &[f64], damage: &[String]) -> serde_json::Value {
    let kinds: serde_json::Map<String, serde_json::Value> = info
        .counts
        .iter()
        .map(|(kind, count)| (kind.name().to_owned(), json!({ "records": count.messages, "bytes": count.bytes })))
        .collect();
    let gap = |(time, gap): &(u64, Gap)| {
        let Gap { reason, from, to, messages, bytes } = gap;
        let (time, from, to) = (when::text(*time), when::text(*from), when::text(*to));
        json!({ "time": time, "reason": reason.text(), "from": from, "to": to, "messages": messages, "bytes": bytes })
    };
    let (first, last) = info.span.unzip();
    json!({
        "segments": info.segments,
        "is_open": info.is_open,
        "bytes": info.bytes,
        "first": first.map(when::text),
        "last": last.map(when::text),
        "records": info.records(),
        "kinds": kinds,
        "items": info.items,
        "bytes_a_record": info.bytes_a_record(),
        "gaps": info.gaps.iter().map(gap).collect::<Vec<_>>(),
        "records_by_time": rates.iter().map(|count| count.round()).collect::<Vec<_>>(),
        "damage": damage,
    })
}

fn text(name: &str, info: &Info, rates: &[f64], damage: &[String]) -> String {
    let mut out = String::new();
    let end = if info.is_open { "without an end: it is being written, or its writer was killed" } else { "finished" };
    let (segments, megabytes) = (counted(info.segments as u64, "segment"), info.bytes as f64 / 1e6);
    let _ = writeln!(out, "{name}: {segments}, {megabytes:.3} MB, {end}");
    let Some((first, last)) = info.span else {
        let _ = writeln!(out, "no records");
        return out;
    };
    let length = last.saturating_sub(first);
    let _ = writeln!(out, "from     {}\nto       {}, {}", when::text(first), when::text(last), when::length(length));
    let kinds: Vec<String> =
        info.counts.iter().map(|(kind, count)| format!("{} {}", count.messages, kind.name())).collect();
    let _ = writeln!(out, "records  {}: {}", info.records(), kinds.join(", "));
    let _ = writeln!(out, "items    {}", info.items);
    let raw: u64 = info.counts.iter().map(|(_, count)| count.bytes).sum();
    let raw = raw as f64 / info.records().max(1) as f64;
    let _ = writeln!(out, "size     {:.2} bytes a record, {raw:.1} as they came", info.bytes_a_record());
    let seconds = (length as f64 / 1e9).max(1e-9);
    let most = rates.iter().copied().fold(0.0, f64::max);
    let average = info.records() as f64 / seconds;
    let _ = writeln!(out, "rate     {average:.1} a second, at most {:.1}", most * rates.len() as f64 / seconds);
    let _ = writeln!(out, "         {}", sparkline(rates));
    let _ = writeln!(out, "gaps     {}", info.gaps.len());
    for (time, gap) in info.gaps.iter().take(GAPS) {
        let missing = gap.messages.map_or("nobody knows how much".to_owned(), |count| counted(count, "message"));
        let length = when::length(gap.to.saturating_sub(gap.from));
        let _ = writeln!(out, "         {} {}: {length}, {missing}", when::text(*time), gap.reason.text());
    }
    if info.gaps.len() > GAPS {
        let _ = writeln!(out, "         and {} more (--json has all)", info.gaps.len() - GAPS);
    }
    for found in damage {
        let _ = writeln!(out, "damage   {found}");
    }
    out
}

/// A bar for each number, the largest as high as can be; a blank for none.
fn sparkline(numbers: &[f64]) -> String {
    let most = numbers.iter().copied().fold(0.0, f64::max);
    let bar = |number: &f64| {
        let height = (number / most * BARS.len() as f64).ceil() as usize;
        if *number <= 0.0 || most <= 0.0 { ' ' } else { BARS[height.clamp(1, BARS.len()) - 1] }
    };
    numbers.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Count, GapReason, Kind};

    #[test]
    fn what_is_shown_says_what_is_there() {
        let gap =
            Gap { reason: GapReason::Overflow, from: 1_000_000_000, to: 3_000_000_000, messages: Some(7), bytes: 9 };
        let info = Info {
            segments: 2,
            bytes: 4_000_000,
            span: Some((0, 10_000_000_000)),
            counts: vec![
                (Kind::Refresh, Count { messages: 10, bytes: 990 }),
                (Kind::Update, Count { messages: 90, bytes: 10 }),
            ],
            items: 3,
            gaps: vec![(3_000_000_000, gap)],
            is_open: true,
        };
        let shown = text("x", &info, &[0.0, 1.0, 99.0], &["0000000000.qwr: cut".to_owned()]);
        let expected = "x: 2 segments, 4.000 MB, without an end: it is being written, or its writer was killed\n\
            from     1970-01-01T00:00:00Z\nto       1970-01-01T00:00:10Z, 10.0 s\n\
            records  100: 10 refresh, 90 update\nitems    3\nsize     40000.00 bytes a record, 10.0 as they came\n\
            rate     10.0 a second, at most 29.7\n         \u{20}▁█\ngaps     1\n         \
            1970-01-01T00:00:03Z the recorder could not follow: 2.0 s, 7 messages\ndamage   0000000000.qwr: cut\n";
        assert_eq!(shown, expected);
        let gaps = vec![(3_000_000_000, Gap { messages: Some(1), ..gap })];
        let shown = text("x", &Info { segments: 1, gaps, ..info.clone() }, &[], &[]);
        assert!(shown.starts_with("x: 1 segment, ") && shown.contains(", 1 message\n"), "{shown}");
        let value = as_value(&info, &[1.4], &[]);
        assert_eq!((&value["kinds"]["update"]["records"], &value["gaps"][0]["messages"]), (&json!(90), &json!(7)));
        assert_eq!(value["records_by_time"], json!([1.0]));
    }
}
