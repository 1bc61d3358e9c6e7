//! Times of day and week at which something is due, written as for `cron`.
//!
//! | form | fields |
//! |---|---|
//! | Unix | minute, hour, day of the month, month, day of the week (0 to 7; 0 and 7 are Sunday) |
//! | Quartz, as EMA Java 3.9.1 has it | second, and the same; days of the week count from 1, which is Sunday; a year may follow if it is `*` |
//!
//! A field is `*` (or `?`), or numbers, ranges (`1-5`) and steps (`*/15`, `10/20`, `1-9/2`) with commas between them; months and days of the week also
//! by the first three letters of their names. If both days are restricted, either will do, as for `cron`. Quartz' `L`, `W` and `#` are not known.

use std::fmt;

/// Seconds of a day.
const DAY: i64 = 86_400;
/// Days that are looked at for the next time: 29 February comes within eight years.
const DAYS_MAX: i64 = 366 * 9;

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A text that is no schedule: which field, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleError {
    field: &'static str,
    text: String,
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, text } = self;
        write!(
            f,
            "{text:?} is no {field} of a schedule; write it as for cron, such as \"30 6 * * MON-FRI\" (minute, hour, day, month, day of the week), or with seconds before them"
        )
    }
}

impl std::error::Error for ScheduleError {}

/// Times, as sets of what each part of one may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Bit n is the number n, here and in the others.
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    /// Sunday is 0.
    weekdays: u64,
    /// Days of the month, and of the week, are not all.
    is_restricted: (bool, bool),
}

/// A field of a schedule.
struct Field {
    name: &'static str,
    low: u32,
    high: u32,
    /// Names of numbers from `low` on.
    names: &'static [&'static str],
}

impl Field {
    /// The numbers of a text as bits.
    fn read(&self, text: &str) -> Result<u64, ScheduleError> {
        let bad = || ScheduleError { field: self.name, text: text.to_owned() };
        let number = |text: &str| {
            let named = self.names.iter().position(|name| text.eq_ignore_ascii_case(name));
            let number = named.map_or_else(|| text.parse().ok(), |at| Some(at as u32 + self.low));
            number.filter(|number| (self.low..=self.high).contains(number)).ok_or_else(bad)
        };
        let mut bits = 0;
        for part in text.split(',') {
            let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
            let step = step.map_or(Ok(1), |step| step.parse().ok().filter(|step| *step > 0).ok_or_else(bad))?;
            let (from, to) = match range.split_once('-') {
                _ if matches!(range, "*" | "?") => (self.low, self.high),
                Some((from, to)) => (number(from)?, number(to)?),
                // A step without a range goes on to the end.
                None if part.contains('/') => (number(range)?, self.high),
                None => (number(range)?, number(range)?),
            };
            if from > to {
                return Err(bad());
            }
            (from..=to).step_by(step).for_each(|number| bits |= 1 << number);
        }
        Ok(bits)
    }
}

impl Schedule {
    /// Reads a schedule.
    ///
    /// # Errors
    /// The text has not five or six fields, or one is none of its kind.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let mut fields: Vec<&str> = text.split_whitespace().collect();
        if fields.len() == 7 && matches!(fields[6], "*" | "?") {
            fields.pop();
        }
        let has_seconds = fields.len() == 6;
        let [seconds, minutes, hours, days, months, weekdays] = match fields[..] {
            [minutes, hours, days, months, weekdays] => ["0", minutes, hours, days, months, weekdays],
            [a, b, c, d, e, f] => [a, b, c, d, e, f],
            _ => return Err(ScheduleError { field: "list of five or six fields", text: text.to_owned() }),
        };
        let field = |name, low, high, names, text: &str| Field { name, low, high, names }.read(text);
        let is_restricted = |text: &str| !matches!(text, "*" | "?");
        let of_week = if has_seconds {
            // Bit 1 is Sunday.
            field("day of the week", 1, 7, &DAYS, weekdays)? >> 1
        } else {
            let bits = field("day of the week", 0, 7, &DAYS, weekdays)?;
            (bits | bits >> 7) & 0x7F
        };
        Ok(Self {
            seconds: field("second", 0, 59, &[], seconds)?,
            minutes: field("minute", 0, 59, &[], minutes)?,
            hours: field("hour", 0, 23, &[], hours)?,
            days: field("day of the month", 1, 31, &[], days)?,
            months: field("month", 1, 12, &MONTHS, months)?,
            weekdays: of_week,
            is_restricted: (is_restricted(days), is_restricted(weekdays)),
        })
    }

    /// The first time of the schedule after another one, both in seconds since 1970 by the clock on the wall of the place where it is to hold. `None`:
    /// there is none in the next years, as for 31 February.
    pub fn next_after(&self, time_s: i64) -> Option<i64> {
        let from = time_s + 1;
        let first = from.div_euclid(DAY);
        (first..first + DAYS_MAX).filter(|day| self.has_day(*day)).find_map(|day| {
            let earliest = if day == first { from.rem_euclid(DAY) } else { 0 };
            self.time_of_day(earliest).map(|time| day * DAY + time)
        })
    }

    fn has_day(&self, day: i64) -> bool {
        let (month, of_month) = month_and_day(day);
        // 1 January 1970 was a Thursday.
        let of_week = (day + 4).rem_euclid(7);
        let (by_month, by_week) = (self.days >> of_month & 1 == 1, self.weekdays >> of_week & 1 == 1);
        let fits = if self.is_restricted == (true, true) { by_month || by_week } else { by_month && by_week };
        fits && self.months >> month & 1 == 1
    }

    /// The first time of a day that is not before another one, seconds.
    fn time_of_day(&self, earliest: i64) -> Option<i64> {
        let (hour, minute, second) = (earliest / 3_600, earliest / 60 % 60, earliest % 60);
        let from = |bits: u64, low: i64| (low..64).find(|n| bits >> n & 1 == 1);
        let (first_minute, first_second) = (from(self.minutes, 0)?, from(self.seconds, 0)?);
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1
                && let Some(second) = from(self.seconds, second)
            {
                return Some(hour * 3_600 + minute * 60 + second);
            }
            if let Some(minute) = from(self.minutes, minute + 1) {
                return Some(hour * 3_600 + minute * 60 + first_second);
            }
        }
        from(self.hours, hour + 1).map(|hour| hour * 3_600 + first_minute * 60 + first_second)
    }
}

/// Month and day of the month of a day since 1970, by the Gregorian calendar.
fn month_and_day(day: i64) -> (i64, i64) {
    // Years begin in March here, so that a leap day is the last one; 400 of them have 146,097 days.
    let of_era = (day + 719_468).rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    (if month < 10 { month + 3 } else { month - 9 }, of_month)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 30 November 2026, 17:00:00, a Monday.
    const MONDAY: i64 = 1_796_058_000;

    fn next(text: &str) -> Option<i64> {
        Schedule::parse(text).expect(text).next_after(MONDAY).map(|time| time - MONDAY)
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(month_and_day(MONDAY.div_euclid(DAY)), (11, 30));
        assert_eq!((month_and_day(0), month_and_day(-1), month_and_day(11_016)), ((1, 1), (12, 31), (2, 29)));
        for (text, seconds) in [
            ("* * * * *", 60),
            ("*/15 * * * *", 900),
            ("0 17 * * *", DAY),
            ("30 6 * * MON-FRI", 13 * 3_600 + 1_800),
            ("0 9 * * 0", 5 * DAY + 16 * 3_600),
            ("0 9 * * 7", 5 * DAY + 16 * 3_600),
            // Quartz counts from Sunday as 1.
            ("0 0 9 ? * 1", 5 * DAY + 16 * 3_600),
            ("0/20 * * * * ? *", 20),
            ("5,7-9 0 17 * * ?", 5),
            ("0 0 1 jan *", 31 * DAY + 7 * 3_600),
            // Either day: the 3rd of December is a Thursday, the 2nd a Wednesday.
            ("0 17 3 * wed", 2 * DAY),
        ] {
            assert_eq!(next(text), Some(seconds), "{text}");
        }
        assert_eq!(next("0 0 31 2 *"), None);
        // The next leap day is in 2028.
        assert_eq!(next("0 17 29 2 *"), Some((31 + 365 + 31 + 29) * DAY));
    }

    #[test]
    fn what_is_no_schedule_is_told() {
        for (text, field) in [
            ("", "five or six"),
            ("* * * *", "five or six"),
            ("60 * * * *", "minute"),
            ("* 24 * * *", "hour"),
            ("* * 0 * *", "day of the month"),
            ("* * * 13 *", "month"),
            ("* * * * 8", "day of the week"),
            ("0 * * * * 0", "day of the week"),
            ("*/0 * * * *", "minute"),
            ("9-3 * * * *", "minute"),
            ("0 0 L * ?", "day of the month"),
            ("1,,2 * * * *", "minute"),
        ] {
            let told = Schedule::parse(text).expect_err(text).to_string();
            assert!(told.contains(field) && told.contains("cron"), "{told}");
        }
    }

    proptest! {
        /// The next time is of the schedule, and none before it is: found by trying each second.
        #[test]
        fn the_next_time_is_the_first(start in -4_000_000_000i64..9_000_000_000, s in 0..60u32, m in 0..60u32, h in prop::option::of(0..24u32)) {
            let hour = h.map_or("*".to_owned(), |h| h.to_string());
            let schedule = Schedule::parse(&format!("{s} {m} {hour} * * ?")).expect("a schedule");
            let fits = |time: i64| {
                let of_day = time.rem_euclid(DAY);
                let (hours, minutes, seconds) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
                h.is_none_or(|h| i64::from(h) == hours) && i64::from(m) == minutes && i64::from(s) == seconds
            };
            prop_assert_eq!(schedule.next_after(start), (start + 1..=start + DAY).find(|time| fits(*time)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9*?/,a-f -]{0,40}") {
            if let Ok(schedule) = Schedule::parse(&text) {
                let next = schedule.next_after(MONDAY);
                prop_assert!(next.is_none_or(|next| next > MONDAY));
            }
        }
    }
}
