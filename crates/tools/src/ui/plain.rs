//! Snapshots as lines of text, for pipes, logs and `--no-ui`.

use super::{Link, Row, Snapshot};
use crate::table::micros;
use rwf::Real;
use std::fmt::Write as _;

/// As many of the parts as fit into `room`, two blanks between them: those that come first are wanted most.
pub fn fit(parts: &[String], room: u16) -> String {
    let mut line = String::new();
    for part in parts {
        let wanted = line.chars().count() + if line.is_empty() { 0 } else { 2 } + part.chars().count();
        if wanted <= usize::from(room) {
            line += if line.is_empty() { "" } else { "  " };
            line += part;
        }
    }
    line
}

/// Text that ends with a mark where it was cut.
pub fn cut(text: &str, room: u16) -> String {
    let room = usize::from(room);
    if text.chars().count() <= room {
        return text.to_owned();
    }
    text.chars().take(room.saturating_sub(1)).chain((room > 0).then_some('…')).collect()
}

/// The line that says that everything is up: the first one.
pub fn ready(snapshot: &Snapshot) -> String {
    let mut text = format!(
        "ready: {} on {}, {} of {} items have their image",
        snapshot.service,
        snapshot.address,
        snapshot.imaged(),
        snapshot.rows.len()
    );
    let without = snapshot.rows.iter().filter(|row| !row.imaged);
    for (n, row) in without.enumerate() {
        let state = if row.state.is_empty() { "waiting" } else { &row.state };
        let _ = write!(text, "{} {}: {state}", if n == 0 { ";" } else { "," }, row.name);
    }
    for hint in &snapshot.hints {
        let _ = write!(text, "\n{hint}");
    }
    text
}

/// The line of an interval: rate, latency, and the busiest items.
pub fn line(snapshot: &Snapshot) -> String {
    let mut text = format!("{:7.1}s {:>8} updates/s {:>11} in all", snapshot.uptime_s, snapshot.rate, snapshot.updates);
    if snapshot.link != Link::Up {
        let _ = write!(text, "  {}", snapshot.link.name());
        if !snapshot.notice.is_empty() {
            let _ = write!(text, ": {}", snapshot.notice);
        }
        return text;
    }
    let l = &snapshot.latency;
    if l.samples > 0 {
        let _ = write!(
            text,
            "  latency us 50% {} 90% {} 99% {} max {}",
            micros(l.p50_us),
            micros(l.p90_us),
            micros(l.p99_us),
            micros(l.max_us)
        );
    }
    let mut busiest: Vec<&Row> = snapshot.rows.iter().filter(|r| r.imaged).collect();
    busiest.sort_by_key(|r| std::cmp::Reverse(r.updates));
    for row in busiest.iter().take(3) {
        let _ = write!(text, "  {} {}/{}", row.name, price(row.bid), price(row.ask));
        if row.last.is_some() {
            let _ = write!(text, " last {}", price(row.last));
        }
    }
    text
}

/// A value as text, a dash when there is none.
pub fn price(value: Option<Real>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| v.to_string())
}

/// A whole number with commas between thousands.
pub fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::draw::tests::example;

    #[test]
    fn the_first_line_says_ready_and_how_to_connect() {
        assert_eq!(
            ready(&example()),
            "ready: DIRECT_FEED on 127.0.0.1:14002, 3 of 4 items have their image; ?what: Closed/Suspect/NotFound\nEMA: host(\"localhost:14002\")"
        );
    }

    #[test]
    fn a_line_tells_rate_latency_and_quotes() {
        assert_eq!(
            line(&example()),
            "   12.5s     1234 updates/s       98765 in all  latency us 50% 61.0 90% 88.0 99% 1240 max 3100  IBM.N \
             184.47/184.52 last 184.51  EUR= 1.0871/1.0873  TRI.N 163.10/163.20 last 163.15"
        );
        let lost = Snapshot { link: Link::Away, notice: "closed by the peer".to_owned(), ..example() };
        assert!(line(&lost).ends_with("not connected: closed by the peer"));
        let down = Snapshot { link: Link::ServiceDown, ..example() };
        assert!(line(&down).ends_with("in all  service down"), "{}", line(&down));
    }

    #[test]
    fn large_numbers_are_grouped() {
        let text: Vec<String> = [0.0, 999.0, 1_000.0, 1_234_567.0, -1_000.0].map(thousands).to_vec();
        assert_eq!(text, ["0", "999", "1,000", "1,234,567", "-1,000"]);
    }
}
