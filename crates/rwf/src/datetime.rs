//! Dates and times as the wire has them: every part for itself, with values that stand for "blank".

use crate::{EncodeError, wire::Writer};
use std::fmt;

/// A calendar date. A part that is 0 is blank; a date with all parts 0 is blank as a whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Date {
    /// Year, 1 to 65,535; 0 is blank.
    pub year: u16,
    /// Month, 1 to 12; 0 is blank.
    pub month: u8,
    /// Day of the month, 1 to 31; 0 is blank.
    pub day: u8,
}

impl Date {
    /// The blank date.
    pub const BLANK: Self = Self { year: 0, month: 0, day: 0 };

    /// A date.
    pub const fn new(year: u16, month: u8, day: u8) -> Self {
        Self { year, month, day }
    }

    /// The date `days` after 1970-01-01 (Howard Hinnant's civil-from-days).
    pub const fn from_days(days: u32) -> Self {
        let z = days + 719_468;
        let era = z / 146_097;
        let day_of_era = z % 146_097;
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = year_of_era + era * 400 + (month <= 2) as u32;
        Self { year: year as u16, month: month as u8, day: (day_of_year - (153 * shifted + 2) / 5 + 1) as u8 }
    }

    /// How many days after 1970-01-01 it is; none for a date that there is not, before 1970 or after 2500.
    pub fn days(self) -> Option<u32> {
        let (year, month, day) = (u32::from(self.year), u32::from(self.month), u32::from(self.day));
        if !(1970..=2500).contains(&year) || !(1..=12).contains(&month) || day == 0 {
            return None;
        }
        // Near enough; the date itself says which day it is.
        let about = (year - 1970) * 365 + (year - 1969) / 4 + (month - 1) * 30;
        (about.saturating_sub(8)..about + 48).find(|days| Self::from_days(*days) == self)
    }

    /// True if all parts are blank.
    #[inline]
    pub const fn is_blank(self) -> bool {
        self.year == 0 && self.month == 0 && self.day == 0
    }

    /// The date of four bytes: day, month, year.
    #[inline]
    pub const fn from_bytes(&[day, month, hi, lo]: &[u8; 4]) -> Self {
        Self { year: u16::from_be_bytes([hi, lo]), month, day }
    }

    /// The four bytes of the date.
    #[inline]
    pub const fn to_bytes(self) -> [u8; 4] {
        let [hi, lo] = self.year.to_be_bytes();
        [self.day, self.month, hi, lo]
    }
}

impl fmt::Display for Date {
    /// `2024-02-29`, blank parts as `--`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.year {
            0 => f.write_str("----")?,
            year => write!(f, "{year:04}")?,
        }
        for part in [self.month, self.day] {
            match part {
                0 => f.write_str("---")?,
                part => write!(f, "-{part:02}")?,
            }
        }
        Ok(())
    }
}

/// A time of day. Blank parts are all ones: 255, 65,535 for milliseconds, 2,047 for micro- and nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Time {
    /// Hour, 0 to 23.
    pub hour: u8,
    /// Minute, 0 to 59.
    pub minute: u8,
    /// Second, 0 to 60.
    pub second: u8,
    /// Millisecond, 0 to 999.
    pub millisecond: u16,
    /// Microsecond within the millisecond, 0 to 999.
    pub microsecond: u16,
    /// Nanosecond within the microsecond, 0 to 999.
    pub nanosecond: u16,
}

impl Time {
    /// The blank time.
    pub const BLANK: Self =
        Self { hour: 0xFF, minute: 0xFF, second: 0xFF, millisecond: 0xFFFF, microsecond: SUB_MAX, nanosecond: SUB_MAX };

    /// A time to the second.
    pub const fn new(hour: u8, minute: u8, second: u8) -> Self {
        Self { hour, minute, second, millisecond: 0, microsecond: 0, nanosecond: 0 }
    }

    /// A time of day from nanoseconds since midnight; whole days are dropped.
    pub const fn from_nanos(nanos: u64) -> Self {
        let seconds = nanos / 1_000_000_000;
        Self {
            hour: (seconds / 3600 % 24) as u8,
            minute: (seconds / 60 % 60) as u8,
            second: (seconds % 60) as u8,
            millisecond: (nanos / 1_000_000 % 1000) as u16,
            microsecond: (nanos / 1000 % 1000) as u16,
            nanosecond: (nanos % 1000) as u16,
        }
    }

    /// True if all parts are blank.
    #[inline]
    pub const fn is_blank(self) -> bool {
        self.hour == 0xFF
            && self.minute == 0xFF
            && self.second == 0xFF
            && self.millisecond == 0xFFFF
            && self.microsecond == SUB_MAX
            && self.nanosecond == SUB_MAX
    }

    /// The time of 2, 3, 5, 7 or 8 bytes; `None` for another length. Parts without bytes are 0, unless all others are
    /// blank: then they are blank, too.
    #[inline]
    pub const fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (mut time, blank) = match *bytes {
            [hour, minute] => {
                let blank = hour == 0xFF && minute == 0xFF;
                (Self { hour, minute, second: 0, ..MIDNIGHT }, blank)
            }
            [hour, minute, second] => {
                let blank = hour == 0xFF && minute == 0xFF && second == 0xFF;
                (Self { hour, minute, second, ..MIDNIGHT }, blank)
            }
            [hour, minute, second, ms1, ms0] => {
                let millisecond = u16::from_be_bytes([ms1, ms0]);
                let blank = hour == 0xFF && minute == 0xFF && second == 0xFF && millisecond == 0xFFFF;
                (Self { hour, minute, second, millisecond, ..MIDNIGHT }, blank)
            }
            [hour, minute, second, ms1, ms0, us1, us0] => {
                let millisecond = u16::from_be_bytes([ms1, ms0]);
                let microsecond = u16::from_be_bytes([us1, us0]);
                let blank =
                    hour == 0xFF && minute == 0xFF && second == 0xFF && millisecond == 0xFFFF && microsecond == SUB_MAX;
                (Self { hour, minute, second, millisecond, microsecond, nanosecond: 0 }, blank)
            }
            [hour, minute, second, ms1, ms0, us1, us0, ns0] => {
                // The upper three bits of the nanoseconds sit above the eleven of the microseconds.
                let us = u16::from_be_bytes([us1, us0]);
                let time = Self {
                    hour,
                    minute,
                    second,
                    millisecond: u16::from_be_bytes([ms1, ms0]),
                    microsecond: us & SUB_MAX,
                    nanosecond: (us & 0x3800) >> 3 | ns0 as u16,
                };
                (time, false)
            }
            _ => return None,
        };
        if blank {
            time = Self::BLANK;
        }
        Some(time)
    }

    /// Length of the shortest form that holds all nonzero parts and cannot be taken for a blank: 2, 3, 5, 7 or 8 bytes.
    #[inline]
    pub const fn encoded_len(self) -> usize {
        // Two parts of all ones, in no legal time, could make a short form one of the blanks.
        if self.hour == 0xFF && self.minute == 0xFF {
            return self.encoded_len_of_ones();
        }
        if self.nanosecond != 0 {
            8
        } else if self.microsecond != 0 {
            7
        } else if self.millisecond != 0 {
            5
        } else if self.second != 0 {
            3
        } else {
            2
        }
    }

    #[cold]
    const fn encoded_len_of_ones(self) -> usize {
        if self.nanosecond != 0 || (self.millisecond == 0xFFFF && self.microsecond == SUB_MAX) {
            8
        } else if self.microsecond != 0 || self.millisecond == 0xFFFF {
            7
        } else if self.millisecond != 0 || self.second == 0xFF {
            5
        } else {
            3
        }
    }

    /// Writes the first `len` bytes' worth of parts, `len` being 2, 3, 5, 7 or 8.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::Unrepresentable`] for another length, or for micro- or nanoseconds
    /// over 2,047.
    #[inline]
    pub fn write(self, len: usize, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        match self.to_bytes(len) {
            Some(bytes) => w.short(bytes, len),
            None => Err(EncodeError::Unrepresentable("time")),
        }
    }

    /// The first `len` bytes' worth of parts; the bytes behind them mean nothing. `None` as for [`Time::write`].
    #[inline]
    pub(crate) const fn to_bytes(self, len: usize) -> Option<[u8; 8]> {
        let Self { hour, minute, second, millisecond, microsecond, nanosecond } = self;
        let [ms1, ms0] = millisecond.to_be_bytes();
        let [us1, us0] = microsecond.to_be_bytes();
        match len {
            2 | 3 | 5 | 7 => Some([hour, minute, second, ms1, ms0, us1, us0, 0]),
            8 if microsecond <= SUB_MAX && nanosecond <= SUB_MAX => {
                let [ns1, ns0] = nanosecond.to_be_bytes();
                Some([hour, minute, second, ms1, ms0, us1 | ns1 << 3, us0, ns0])
            }
            _ => None,
        }
    }
}

/// All ones in the eleven bits of micro- and nanoseconds.
const SUB_MAX: u16 = 0x7FF;

const MIDNIGHT: Time = Time::new(0, 0, 0);

impl fmt::Display for Time {
    /// `09:30:00`, with `.345`, `.345678` or `.345678901` as far as there are nonzero parts; blank as `--:--:--`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_blank() {
            return f.write_str("--:--:--");
        }
        write!(f, "{:02}:{:02}:{:02}", self.hour, self.minute, self.second)?;
        match self.encoded_len() {
            2 | 3 => Ok(()),
            5 => write!(f, ".{:03}", self.millisecond),
            7 => write!(f, ".{:03}{:03}", self.millisecond, self.microsecond),
            _ => write!(f, ".{:03}{:03}{:03}", self.millisecond, self.microsecond, self.nanosecond),
        }
    }
}

/// A date and a time of day.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct DateTime {
    /// The date.
    pub date: Date,
    /// The time.
    pub time: Time,
}

impl DateTime {
    /// The blank date and time.
    pub const BLANK: Self = Self { date: Date::BLANK, time: Time::BLANK };

    /// True if both the date and the time are blank; a real date with a blank time is not.
    #[inline]
    pub const fn is_blank(self) -> bool {
        self.date.is_blank() && self.time.is_blank()
    }

    /// The date and time of 6, 7, 9, 11 or 12 bytes; `None` for another length.
    #[inline]
    pub const fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let Some((date, time)) = bytes.split_first_chunk() else { return None };
        match Time::from_bytes(time) {
            Some(time) => Some(Self { date: Date::from_bytes(date), time }),
            None => None,
        }
    }
}

impl fmt::Display for DateTime {
    /// `2024-02-29T09:30:00.345`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}T{}", self.date, self.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_share_the_microsecond_short() {
        let time = Time { millisecond: 345, microsecond: 678, nanosecond: 901, ..Time::new(1, 2, 3) };
        let mut buf = [0; 8];
        let mut w = Writer::new(&mut buf);
        time.write(time.encoded_len(), &mut w).unwrap();
        assert_eq!(w.written(), [1, 2, 3, 0x01, 0x59, 0x1A, 0xA6, 0x85]);
        assert_eq!(Time::from_bytes(w.written()), Some(time));
    }

    #[test]
    fn blanks_of_each_width() {
        for bytes in [
            &[0xFF; 2][..],
            &[0xFF; 3],
            &[0xFF; 5],
            &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x07, 0xFF],
            &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x3F, 0xFF, 0xFF],
        ] {
            assert!(Time::from_bytes(bytes).unwrap().is_blank(), "{bytes:x?}");
        }
        assert_eq!(Time::from_bytes(&[1, 2, 3, 4]), None);
    }

    #[test]
    fn times_that_are_nearly_blank_do_not_become_so() {
        for (second, millisecond, microsecond, nanosecond) in [
            (0, 0, 0, 0),
            (0xFF, 0, 0, 0),
            (0xFF, 0xFFFF, 0, 0),
            (0xFF, 0xFFFF, 0x7FF, 0),
            (0xFF, 5, 0, 0),
            (3, 0, 9, 0),
        ] {
            let time = Time { millisecond, microsecond, nanosecond, ..Time::new(0xFF, 0xFF, second) };
            let mut buf = [0; 8];
            let mut w = Writer::new(&mut buf);
            time.write(time.encoded_len(), &mut w).unwrap();
            assert_eq!(Time::from_bytes(w.written()), Some(time));
        }
    }

    #[test]
    fn from_nanos_keeps_every_part() {
        let time = Time::from_nanos(34_200_000_000_000 + 345_678_901);
        assert_eq!(time.to_string(), "09:30:00.345678901");
    }
}
