//! Times of day and date in what tools print: UTC, to the nanosecond.

use feed::session::{DAY, Date, SECOND};

/// A time as `2026-11-27T14:30:00.000000000Z`, with as few decimals as say it: none, 3, 6 or 9.
pub(crate) fn text(nanos: u64) -> String {
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
pub(crate) fn length(nanos: u64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_as_few_decimals_as_say_them() {
        let second = 1_795_789_800 * SECOND;
        let texts = [second, second + 5_000_000, second + 5_000, second + 5].map(text);
        let expected = ["", ".005", ".000005", ".000000005"].map(|decimals| format!("2026-11-27T14:30:00{decimals}Z"));
        assert_eq!(texts, expected);
    }

    #[test]
    fn lengths_are_short() {
        let texts = [5, 1_500, 90_000_000, 12_500_000_000, 5_400 * SECOND, 90_000 * SECOND].map(length);
        assert_eq!(texts, ["5 ns", "1.5 us", "90.0 ms", "12.5 s", "1:30:00", "1 d 1:00:00"]);
    }
}
