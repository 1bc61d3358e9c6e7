//! New York's clock, by which American exchanges work: what it shows, as UTC.
//!
//! Summer time began and ended by other rules in other years (15 U.S.C. 260a and what amended it): since 2007 from the second Sunday of
//! March to the first of November, from 1987 from the first of April to the last of October, before that from the last of April; 1974 and
//! 1975 began in winter. The clock changes at two at night.

use rwf::Date;

use crate::session::{DAY, Moment, Nanos, SECOND};

const HOUR: Nanos = 3_600 * SECOND;

/// When it is so long after midnight of a day (days since 1970-01-01) on New York's clock. Of the hour that comes twice in autumn the first
/// is meant; that which is left out in spring is taken as winter time.
pub fn utc(day: u32, since_midnight: Nanos) -> Moment {
    let behind = if is_summer(day + (since_midnight / DAY) as u32, since_midnight % DAY) { 4 } else { 5 };
    let time = since_midnight + behind * HOUR;
    Moment { day: day + (time / DAY) as u32, time: time % DAY }
}

fn is_summer(day: u32, time: Nanos) -> bool {
    let date = Date::from_days(day);
    let first = day + 1 - day_of_year(date);
    let (begins, ends) = (first + summer(date.year).0, first + summer(date.year).1);
    // Summer time begins at two, which is three then, and ends at two, which is one then.
    (begins < day || begins == day && time >= 3 * HOUR) && (day < ends || day == ends && time < 2 * HOUR)
}

/// The days of a year on which summer time begins and ends; 0 is the first of January.
fn summer(year: u16) -> (u32, u32) {
    let last_of = |month: u8, days: u8| on_or_after(year, month, days - 6);
    let begins = match year {
        2007.. => on_or_after(year, 3, 8),
        1987.. => on_or_after(year, 4, 1),
        1975 => on_or_after(year, 2, 23),
        1974 => on_or_after(year, 1, 6),
        _ => last_of(4, 30),
    };
    let ends = if year >= 2007 { on_or_after(year, 11, 1) } else { last_of(10, 31) };
    (begins, ends)
}

/// The first Sunday from a date on, as a day of its year from 0.
fn on_or_after(year: u16, month: u8, day: u8) -> u32 {
    let at = day_of_year(Date { year, month, day }) - 1;
    // 1970-01-01 was a Thursday.
    let weekday = (first_day(year) + at + 4) % 7;
    at + (7 - weekday) % 7
}

/// Days from 1970-01-01 to the first of a year's January.
fn first_day(year: u16) -> u32 {
    let before = u32::from(year.max(1970)) - 1;
    (u32::from(year.max(1970)) - 1970) * 365 + (before / 4 - before / 100 + before / 400)
        - (1969 / 4 - 1969 / 100 + 1969 / 400)
}

/// From 1.
fn day_of_year(date: Date) -> u32 {
    const BEFORE: [u16; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let is_leap = date.year.is_multiple_of(4) && (!date.year.is_multiple_of(100) || date.year.is_multiple_of(400));
    let month = usize::from(date.month.clamp(1, 12)) - 1;
    u32::from(BEFORE[month]) + u32::from(date.day) + u32::from(is_leap && date.month > 2)
}

/// Days from 1970-01-01 to a date given as its eight digits; `None` when there is no such date, or it is before 1970.
pub fn days_of(digits: &str) -> Option<u32> {
    if digits.len() != 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: u32 = digits.parse().ok()?;
    let date = Date { year: (number / 10_000) as u16, month: (number / 100 % 100) as u8, day: (number % 100) as u8 };
    if date.year < 1970 || !(1..=12).contains(&date.month) || date.day == 0 {
        return None;
    }
    let days = first_day(date.year) + day_of_year(date) - 1;
    (Date::from_days(days) == date).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first day of summer time and of winter time of each year, as month and day, out of the time zone database (2025b).
    const CHANGES: [(u16, u16, u16); 68] = [
        (1970, 426, 1025),
        (1971, 425, 1031),
        (1972, 430, 1029),
        (1973, 429, 1028),
        (1974, 106, 1027),
        (1975, 223, 1026),
        (1976, 425, 1031),
        (1977, 424, 1030),
        (1978, 430, 1029),
        (1979, 429, 1028),
        (1980, 427, 1026),
        (1981, 426, 1025),
        (1982, 425, 1031),
        (1983, 424, 1030),
        (1984, 429, 1028),
        (1985, 428, 1027),
        (1986, 427, 1026),
        (1987, 405, 1025),
        (1988, 403, 1030),
        (1989, 402, 1029),
        (1990, 401, 1028),
        (1991, 407, 1027),
        (1992, 405, 1025),
        (1993, 404, 1031),
        (1994, 403, 1030),
        (1995, 402, 1029),
        (1996, 407, 1027),
        (1997, 406, 1026),
        (1998, 405, 1025),
        (1999, 404, 1031),
        (2000, 402, 1029),
        (2001, 401, 1028),
        (2002, 407, 1027),
        (2003, 406, 1026),
        (2004, 404, 1031),
        (2005, 403, 1030),
        (2006, 402, 1029),
        (2007, 311, 1104),
        (2008, 309, 1102),
        (2009, 308, 1101),
        (2010, 314, 1107),
        (2011, 313, 1106),
        (2012, 311, 1104),
        (2013, 310, 1103),
        (2014, 309, 1102),
        (2015, 308, 1101),
        (2016, 313, 1106),
        (2017, 312, 1105),
        (2018, 311, 1104),
        (2019, 310, 1103),
        (2020, 308, 1101),
        (2021, 314, 1107),
        (2022, 313, 1106),
        (2023, 312, 1105),
        (2024, 310, 1103),
        (2025, 309, 1102),
        (2026, 308, 1101),
        (2027, 314, 1107),
        (2028, 312, 1105),
        (2029, 311, 1104),
        (2030, 310, 1103),
        (2031, 309, 1102),
        (2032, 314, 1107),
        (2033, 313, 1106),
        (2034, 312, 1105),
        (2035, 311, 1104),
        (2036, 309, 1102),
        (2037, 308, 1101),
    ];

    fn day(year: u16, month_and_day: u16) -> u32 {
        days_of(&format!("{year}{month_and_day:04}")).unwrap()
    }

    fn hours(day: u32, hour: u64) -> u64 {
        let utc = utc(day, hour * HOUR);
        (u64::from(utc.day - day) * DAY + utc.time) / HOUR - hour
    }

    #[test]
    fn the_clock_changes_on_the_days_of_the_year_in_question() {
        for (year, spring, autumn) in CHANGES {
            let (spring, autumn) = (day(year, spring), day(year, autumn));
            for d in day(year, 101)..=day(year, 1231) {
                let expected = if (spring..autumn).contains(&d) { 4 } else { 5 };
                assert_eq!(hours(d, 12), expected, "{:?}", Date::from_days(d));
            }
            assert_eq!([hours(spring, 1), hours(spring, 2), hours(spring, 3)], [5, 5, 4], "{year}");
            assert_eq!([hours(autumn, 1), hours(autumn, 2), hours(autumn, 3)], [4, 5, 5], "{year}");
        }
    }

    #[test]
    fn half_past_nine_is_what_it_was_in_utc() {
        let half_past_nine = 9 * HOUR + HOUR / 2;
        for (date, hour) in
            [("20180312", 13), ("20181105", 14), ("20190101", 14), ("20060401", 14), ("20060403", 13), ("19870406", 13)]
        {
            let day = days_of(date).unwrap();
            assert_eq!(utc(day, half_past_nine), Moment { day, time: hour * HOUR + HOUR / 2 }, "{date}");
        }
        let evening = days_of("20190101").unwrap();
        assert_eq!(utc(evening, 20 * HOUR), Moment { day: evening + 1, time: HOUR });
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(
            [days_of("19700101"), days_of("20000229"), days_of("20181105")],
            [Some(0), Some(11_016), Some(17_840)]
        );
        for none in ["19691231", "20190229", "20191301", "20190100", "2019010", "201901011", "2019010x"] {
            assert_eq!(days_of(none), None, "{none}");
        }
    }
}
