//! Times of day and date on command lines, in files and in what tools print: UTC, to the nanosecond.

use rwf::Date;

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

/// A time as `2026-11-27T14:30:00.000000000Z`, with as few decimals as say it: none, 3, 6 or 9.
pub fn text(nanos: u64) -> String {
    let Date { year, month, day } = Date::from_days((nanos / DAY) as u32);
    let (second, fraction) = (nanos % DAY / SECOND, nanos % SECOND);
    let (hours, minutes, seconds) = (second / 3600, second / 60 % 60, second % 60);
    let whole = format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}");
    match fraction {
        0 => format!("{whole}Z"),
        _ if fraction.is_multiple_of(1_000_000) => format!("{whole}.{:03}Z", fraction / 1_000_000),
        _ if fraction.is_multiple_of(1_000) => format!("{whole}.{:06}Z", fraction / 1_000),
        _ => format!("{whole}.{fraction:09}Z"),
    }
}

/// How long something is: `90 ms`, `12.5 s`, `1:30:00`.
pub fn length(nanos: u64) -> String {
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.1} us", nanos as f64 / 1e3),
        1_000_000..SECOND => format!("{:.1} ms", nanos as f64 / 1e6),
        _ if nanos < 60 * SECOND => format!("{:.1} s", nanos as f64 / 1e9),
        _ => {
            let seconds = nanos / SECOND;
            let (days, time) = (seconds / 86_400, seconds % 86_400);
            let days = if days > 0 { format!("{days} d ") } else { String::new() };
            format!("{days}{}:{:02}:{:02}", time / 3600, time / 60 % 60, time % 60)
        }
    }
}

/// A text is no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write a time of UTC, from 1970 on, as 2026-11-27T14:30:00Z or 2026-11-27T14:30:00.123456789Z")]
pub struct NoTime;

/// A time from its text, nanoseconds since 1970: `2026-11-27T14:30:00Z`, with up to nine decimals; `T` may be a blank, and `Z` be left out.
///
/// # Errors
/// The text is no such time; the user has written it.
pub fn parse(text: &str) -> Result<u64, NoTime> {
    read(text).ok_or(NoTime)
}

fn read(text: &str) -> Option<u64> {
    let text = text.strip_suffix(['Z', 'z']).unwrap_or(text);
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let mut parts = date.split('-').map(number);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut clock = time.split(':').map(number);
    let (hours, minutes, seconds) = (clock.next()??, clock.next()??, clock.next().unwrap_or(Some(0))?);
    let is_over = parts.next().is_some() || clock.next().is_some() || fraction.len() > 9;
    if is_over || hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let fraction = if fraction.is_empty() { 0 } else { number(&format!("{fraction:0<9}"))? };
    let nanos = (hours * 3600 + minutes * 60 + seconds) * SECOND + fraction;
    let (year, month, day) = (u16::try_from(year).ok()?, u8::try_from(month).ok()?, u8::try_from(day).ok()?);
    u64::from(Date::new(year, month, day).days()?).checked_mul(DAY)?.checked_add(nanos)
}

/// A number of digits alone.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_and_time_comes_back() {
        for days in 0..193_000 {
            let Date { year, month, day } = Date::from_days(days);
            assert_eq!(Date::new(year, month, day).days(), Some(days), "{year}-{month}-{day}");
        }
        for nanos in [0, 1, 1_000, 1_000_000, SECOND, 1_795_789_800_123_456_789, 1_795_789_800 * SECOND] {
            assert_eq!(parse(&text(nanos)).expect("our own"), nanos, "{}", text(nanos));
        }
        assert_eq!(text(1_795_789_800 * SECOND), "2026-11-27T14:30:00Z");
        assert_eq!(parse("2026-11-27 14:30").expect("short"), 1_795_789_800 * SECOND);
        assert_eq!(parse("2026-11-27T14:30:00.5").expect("short"), 1_795_789_800 * SECOND + SECOND / 2);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for wrong in [
            "",
            "2026-11-27",
            "2026-02-30T00:00Z",
            "2026-11-27T24:00Z",
            "1969-12-31T23:59:59Z",
            "2026-11-27T1:2:3:4",
            "-1-1-1T0:0",
            "2026-11-27T14:30:00.0123456789Z",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lengths_are_short() {
        let texts = [5, 1_500, 90_000_000, 12_500_000_000, 5_400 * SECOND, 90_000 * SECOND].map(length);
        assert_eq!(texts, ["5 ns", "1.5 us", "90.0 ms", "12.5 s", "1:30:00", "1 d 1:00:00"]);
    }
}
