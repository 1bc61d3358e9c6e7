//! Numbers, dates and times as JSON has them.

use super::out::Out;
use crate::{Date, DateTime, Real, RealHint, Time};
use std::ops::RangeInclusive;

/// The numbers of two digits, one behind the other.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut at = 0;
    while at < 100 {
        pairs[at] = [b'0' + at as u8 / 10, b'0' + at as u8 % 10];
        at += 1;
    }
    pairs
};

/// Digits that are put together from the last one on. By hand: formatting costs several times as much, and most of a message is numbers.
struct Digits {
    bytes: [u8; Self::MOST + Self::COPIED],
    at: usize,
}

impl Digits {
    /// A sign, the digits of the largest number, a point, and more zeros than any hint asks for.
    const MOST: usize = 40;
    /// Bytes that are copied whether they are used or not, since a number of bytes that is known to the compiler costs a fraction.
    const COPIED: usize = 16;

    #[inline]
    const fn new() -> Self {
        Self { bytes: [b'0'; Self::MOST + Self::COPIED], at: Self::MOST }
    }

    #[inline]
    fn byte(&mut self, byte: u8) {
        self.at -= 1;
        self.bytes[self.at] = byte;
    }

    #[inline]
    fn pair(&mut self, value: u64) {
        self.at -= 2;
        self.bytes[self.at..self.at + 2].copy_from_slice(&PAIRS[(value % 100) as usize]);
    }

    /// All digits of a number, at least one.
    #[inline]
    fn whole(&mut self, mut value: u64) {
        while value >= 100 {
            self.pair(value);
            value /= 100;
        }
        if value >= 10 {
            self.pair(value);
        } else {
            self.byte(b'0' + value as u8);
        }
    }

    #[inline]
    fn end(&self, out: &mut Vec<u8>) {
        let (digits, len) = (&self.bytes[self.at..], Self::MOST - self.at);
        match digits.first_chunk::<{ Self::COPIED }>() {
            Some(copied) if len <= Self::COPIED => {
                let end = out.len() + len;
                out.extend_from_slice(copied);
                out.truncate(end);
            }
            _ => out.extend_from_slice(&digits[..len]),
        }
    }
}

/// An unsigned number with so many digits at least, up to 20.
pub(super) fn padded(value: u64, places: usize, out: &mut Vec<u8>) {
    if value < 100 && places == 2 {
        return out.extend_from_slice(&PAIRS[value as usize]);
    }
    let mut digits = Digits::new();
    digits.whole(value);
    digits.at = digits.at.min(Digits::MOST - places.min(20));
    digits.end(out);
}

/// An unsigned number.
#[inline]
pub(super) fn unsigned(value: u64, out: &mut Vec<u8>) {
    if value < 10 {
        return out.push(b'0' + value as u8);
    }
    let mut digits = Digits::new();
    digits.whole(value);
    digits.end(out);
}

/// A signed number.
#[inline]
pub(super) fn signed(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    unsigned(value.unsigned_abs(), out);
}

/// Decimal digits as many as the hint says, fractions as decimals, infinities and NaN in quotes.
#[inline]
pub(super) fn real(value: Real, out: &mut Vec<u8>) {
    match value.hint {
        RealHint::INFINITY => out.push_str("\"Inf\""),
        RealHint::NEG_INFINITY => out.push_str("\"-Inf\""),
        RealHint::NOT_A_NUMBER => out.push_str("\"NaN\""),
        _ if value.mantissa == 0 => out.push(b'0'),
        hint => match (hint.divisor(), hint.exponent()) {
            (Some(divisor), _) => fraction(value.mantissa, divisor, out),
            (None, Some(exponent)) => decimal(value.mantissa, exponent, out),
            (None, None) => out.push_str(&value.to_string()),
        },
    }
}

/// A mantissa with the decimals, or with the zeros behind it, that its exponent says.
#[inline]
fn decimal(mantissa: i64, exponent: i32, out: &mut Vec<u8>) {
    debug_assert!((MIN_EXPONENT..=MAX_EXPONENT).contains(&exponent), "no hint has an exponent of {exponent}");
    let mut left = mantissa.unsigned_abs();
    let mut digits = Digits::new();
    if exponent < 0 {
        let mut places = exponent.unsigned_abs();
        if places % 2 == 1 {
            digits.byte(b'0' + (left % 10) as u8);
            left /= 10;
        }
        places /= 2;
        while places > 0 {
            digits.pair(left);
            left /= 100;
            places -= 1;
        }
        digits.byte(b'.');
    } else {
        // The digits are zeros.
        digits.at -= exponent as usize;
    }
    digits.whole(left);
    if mantissa < 0 {
        digits.byte(b'-');
    }
    digits.end(out);
}

/// The divisor is a power of two, so its decimals come to an end.
fn fraction(mantissa: i64, divisor: u32, out: &mut Vec<u8>) {
    let magnitude = mantissa.unsigned_abs();
    let divisor = u64::from(divisor);
    if mantissa < 0 {
        out.push(b'-');
    }
    unsigned(magnitude / divisor, out);
    let mut rest = magnitude % divisor;
    if rest > 0 {
        out.push(b'.');
    }
    while rest > 0 {
        rest *= 10;
        unsigned(rest / divisor, out);
        rest %= divisor;
    }
}

/// The real that a JSON number stands for, with the digits it is written with. Decimals that no hint can hold are rounded
/// off; `None` if that would leave nothing, or if the number is too large.
pub(super) fn parse_real(text: &str) -> Option<Real> {
    /// Digits beyond this are only counted: far more than a mantissa holds, and ten times it still fits.
    const ENOUGH: i128 = 10i128.pow(36);
    if let Some(real) = parse_short_real(text) {
        return Some(real);
    }
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let negative = whole.starts_with('-');
    let mut exponent = exponent.parse::<i32>().ok()?.checked_sub(i32::try_from(decimals.len()).ok()?)?;
    let mut mantissa: i128 = 0;
    let mut lossy = false;
    for digit in whole.bytes().chain(decimals.bytes()).filter(u8::is_ascii_digit).map(|byte| byte - b'0') {
        if mantissa < ENOUGH {
            mantissa = mantissa * 10 + i128::from(digit);
        } else {
            exponent = exponent.checked_add(1)?;
            lossy |= digit != 0;
        }
    }
    if mantissa == 0 {
        return Some(Real::new(0, RealHint::EXPONENT0));
    }
    if exponent > 100 {
        return None;
    }
    let mut last = 0;
    while mantissa > 0 && (!fits(mantissa, negative) || exponent < MIN_EXPONENT) {
        lossy |= last != 0;
        last = mantissa % 10;
        mantissa /= 10;
        exponent += 1;
    }
    lossy |= last != 0;
    mantissa += i128::from(last >= 5);
    if mantissa == 0 || exponent < MIN_EXPONENT || lossy && exponent > 0 {
        return None;
    }
    while exponent > MAX_EXPONENT && fits(mantissa, negative) {
        mantissa *= 10;
        exponent -= 1;
    }
    let signed = if negative { -mantissa } else { mantissa };
    let mantissa = i64::try_from(signed).ok()?;
    Some(Real::new(mantissa, RealHint((i32::from(RealHint::EXPONENT0.0) + exponent) as u8)))
}

/// The same for what prices look like: no exponent, and few enough digits for a mantissa. `None` for other numbers.
fn parse_short_real(text: &str) -> Option<Real> {
    /// Digits that fit any mantissa.
    const DIGITS: usize = 18;
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    if digits.len() > DIGITS {
        return None;
    }
    let (mut mantissa, mut decimals) = (0_u64, None);
    for byte in digits.bytes() {
        match byte {
            b'0'..=b'9' => {
                mantissa = mantissa * 10 + u64::from(byte - b'0');
                decimals = decimals.map(|decimals: usize| decimals + 1);
            }
            b'.' if decimals.is_none() => decimals = Some(0),
            _ => return None,
        }
    }
    short_real(negative, mantissa, decimals.unwrap_or(0))
}

/// The real of so many digits, of which so many are decimals; the digits fit any mantissa. `None` if they are more decimals than a hint
/// has.
#[inline]
pub(super) fn short_real(negative: bool, mantissa: u64, decimals: usize) -> Option<Real> {
    let mantissa = i64::try_from(mantissa).ok()?;
    if decimals > MIN_EXPONENT.unsigned_abs() as usize {
        return None;
    }
    if mantissa == 0 {
        return Some(Real::new(0, RealHint::EXPONENT0));
    }
    let hint = RealHint(RealHint::EXPONENT0.0 - decimals as u8);
    Some(Real::new(if negative { -mantissa } else { mantissa }, hint))
}

const MIN_EXPONENT: i32 = -14;
const MAX_EXPONENT: i32 = 7;

fn fits(mantissa: i128, negative: bool) -> bool {
    mantissa <= i128::from(i64::MAX) + i128::from(negative)
}

/// A float as Java prints it: `1.0`, `123.456`, `1.0E-20`; infinities and NaN in quotes.
pub(super) fn float(value: f64, shortest: &str, out: &mut Vec<u8>) {
    if value.is_nan() {
        return out.push_str("\"NaN\"");
    }
    if value.is_infinite() {
        return out.push_str(if value > 0.0 { "\"Inf\"" } else { "\"-Inf\"" });
    }
    // `shortest` is Rust's `{:e}`: digits, perhaps with a point, and an exponent.
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |mantissa| ("-", mantissa));
    let digits: String = mantissa.chars().filter(|character| *character != '.').collect();
    out.push_str(sign);
    if value != 0.0 && !(-3..7).contains(&exponent) {
        let decimals = if digits.len() > 1 { &digits[1..] } else { "0" };
        for part in [&digits[..1], ".", decimals, "E"] {
            out.push_str(part);
        }
        return signed(exponent.into(), out);
    }
    if exponent < 0 {
        out.push_str("0.");
        (1..-exponent).for_each(|_| out.push(b'0'));
        out.push_str(&digits);
        return;
    }
    let whole = exponent as usize + 1;
    for index in 0..whole.max(digits.len()) {
        if index == whole {
            out.push(b'.');
        }
        out.push(digits.as_bytes().get(index).copied().unwrap_or(b'0'));
    }
    if digits.len() <= whole {
        out.push_str(".0");
    }
}

/// `2024-02-29`; with parts missing `2024-02`, `2024`, `--02-29`, `--02` or `----29`.
pub(super) fn date(date: Date, out: &mut Vec<u8>) {
    if let Date { year: year @ 1_000..=9_999, month: month @ 1..100, day: day @ 1..100 } = date {
        let [y, z] = [PAIRS[usize::from(year / 100)], PAIRS[usize::from(year % 100)]];
        let [m, d] = [PAIRS[usize::from(month)], PAIRS[usize::from(day)]];
        return out.extend_from_slice(&[y[0], y[1], z[0], z[1], b'-', m[0], m[1], b'-', d[0], d[1]]);
    }
    if date.year > 0 {
        padded(date.year.into(), 4, out);
    }
    let mut parts = |dashes: &str, numbers: &[u8]| {
        for (index, number) in numbers.iter().enumerate() {
            out.push_str(if index == 0 { dashes } else { "-" });
            padded((*number).into(), 2, out);
        }
    };
    match (date.year > 0, date.month > 0, date.day > 0) {
        (true | false, false, false) => {}
        (true, true, false) => parts("-", &[date.month]),
        (true, _, true) => parts("-", &[date.month, date.day]),
        (false, true, true) => parts("--", &[date.month, date.day]),
        (false, true, false) => parts("--", &[date.month]),
        (false, false, true) => parts("----", &[date.day]),
    }
}

/// `09:30:00`, with as many decimals of the second as are not zero; seconds only if they are not blank.
pub(super) fn time(time: Time, out: &mut Vec<u8>) {
    if let Time { hour: hour @ 0..100, minute: minute @ 0..100, second: second @ 0..100, .. } = time {
        let [h, m, s] = [hour, minute, second].map(|part| PAIRS[usize::from(part)]);
        out.extend_from_slice(&[h[0], h[1], b':', m[0], m[1], b':', s[0], s[1]]);
    } else {
        padded(time.hour.into(), 2, out);
        for part in [time.minute, time.second] {
            if part == 255 {
                return;
            }
            out.push(b':');
            padded(part.into(), 2, out);
        }
    }
    let part = |value: u16| if value > 999 { 0 } else { u32::from(value) };
    let nanos = part(time.millisecond) * 1_000_000 + part(time.microsecond) * 1_000 + part(time.nanosecond);
    if nanos > 0 {
        let decimals = format!("{nanos:09}");
        out.push(b'.');
        out.push_str(decimals.trim_end_matches('0'));
    }
}

/// Date and time with a `T` between them; a blank part is left out.
pub(super) fn date_time(value: DateTime, out: &mut Vec<u8>) {
    if !value.date.is_blank() {
        date(value.date, out);
    }
    if !value.time.is_blank() {
        out.push(b'T');
        time(value.time, out);
    }
}

/// A date in the forms that [`date`] writes, and as `29 FEB 2024`.
pub(super) fn parse_date(text: &str) -> Option<Date> {
    const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
    if text.is_empty() {
        return Some(Date::BLANK);
    }
    if let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *text.as_bytes()
        && let (Some(century), Some(year)) = (pair([y0, y1]), pair([y2, y3]))
        && let (Some(month), Some(day)) = (pair([m0, m1]), pair([d0, d1]))
    {
        let date = Date::new(u16::from(century) * 100 + u16::from(year), month, day);
        return (date.month <= 12 && date.day <= days(date)).then_some(date);
    }
    let mut words = text.splitn(4, ' ');
    let date =
        if let (Some(day), Some(month), Some(year), None) = (words.next(), words.next(), words.next(), words.next()) {
            let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))? + 1;
            // Of two digits nobody knows the century; ETA takes the last one.
            let year = digits(year, 4..=4)?;
            Date::new(year, month as u8, digits(day, 1..=2)? as u8)
        } else if let Some(day) = text.strip_prefix("----") {
            Date::new(0, 0, two_digits(day)?)
        } else if let Some(rest) = text.strip_prefix("--") {
            match rest.split_once('-') {
                Some((month, day)) => Date::new(0, two_digits(month)?, two_digits(day)?),
                None => Date::new(0, two_digits(rest)?, 0),
            }
        } else {
            let mut parts = text.split('-');
            let year = parts.next().filter(|year| year.len() == 4)?.parse().ok()?;
            let month = parts.next().map_or(Some(0), two_digits)?;
            let day = parts.next().map_or(Some(0), two_digits)?;
            if parts.next().is_some() {
                return None;
            }
            Date::new(year, month, day)
        };
    (date.month <= 12 && date.day <= days(date)).then_some(date)
}

/// Days of the month; 31 when year or month do not say.
fn days(date: Date) -> u8 {
    match date.month {
        4 | 6 | 9 | 11 => 30,
        2 if date.year == 0 => 29,
        2 => 28 + u8::from(is_leap(date.year)),
        _ => 31,
    }
}

fn is_leap(year: u16) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// The number of two digits.
#[inline]
fn pair(digits: [u8; 2]) -> Option<u8> {
    let [tens, ones] = digits.map(|digit| digit.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| tens * 10 + ones)
}

fn two_digits(text: &str) -> Option<u8> {
    (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// The number of so many decimal digits.
fn digits(text: &str, count: RangeInclusive<usize>) -> Option<u16> {
    (count.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// `H:M`, `H:M:S` or `H:M:S.decimals`, each part of one or two digits; up to nine decimals. Or `H:M:S:milli:micro:nano` with the last ones
/// left out, as the WebSocket API guide prints times (chapter 12). A `Z` behind it, as JavaScript's `toISOString` writes, means nothing:
/// times of the wire are UTC. Another offset is refused, since the time would be another.
pub(super) fn parse_time(text: &str) -> Option<Time> {
    if text.is_empty() {
        return Some(Time::BLANK);
    }
    let text = text.strip_suffix('Z').unwrap_or(text);
    if let [h0, h1, b':', m0, m1, b':', s0, s1] = *text.as_bytes()
        && let (Some(hour @ ..=24), Some(minute @ ..=59), Some(second @ ..=60)) =
            (pair([h0, h1]), pair([m0, m1]), pair([s0, s1]))
    {
        return Some(Time::new(hour, minute, second));
    }
    let mut parts = text.split(':');
    let number = |text: &str| -> Option<u8> {
        (matches!(text.len(), 1 | 2) && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
    };
    let hour = number(parts.next()?)?;
    let minute = number(parts.next()?)?;
    let (second, decimals) = match parts.next() {
        None => (0, ""),
        Some(second) => {
            let (second, decimals) = second.split_once('.').unwrap_or((second, ""));
            (number(second)?, decimals)
        }
    };
    let fractions: Vec<&str> = parts.collect();
    if decimals.len() > 9 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Hour 24 is how some feeds say the end of the day, second 60 is a leap second.
    if hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    if !fractions.is_empty() {
        if fractions.len() > 3 || !decimals.is_empty() {
            return None;
        }
        let part = |at: usize| fractions.get(at).map_or(Some(0), |part| digits(part, 1..=3));
        return Some(Time {
            millisecond: part(0)?,
            microsecond: part(1)?,
            nanosecond: part(2)?,
            ..Time::new(hour, minute, second)
        });
    }
    let decimals = decimals.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanos = decimals.fold(0_u32, |nanos, digit| nanos * 10 + u32::from(digit - b'0'));
    Some(Time {
        millisecond: (nanos / 1_000_000) as u16,
        microsecond: (nanos / 1_000 % 1_000) as u16,
        nanosecond: (nanos % 1_000) as u16,
        ..Time::new(hour, minute, second)
    })
}

/// Date and time with a `T` or a blank between them.
pub(super) fn parse_date_time(text: &str) -> Option<DateTime> {
    if text.is_empty() {
        return Some(DateTime::BLANK);
    }
    // The T of OCT is none.
    let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let between =
        |&(at, _): &(usize, &str)| (at == 0 || is_digit(at - 1)) && (at + 1 == text.len() || is_digit(at + 1));
    let (date, time) = match text.match_indices('T').find(between) {
        Some((at, _)) => (&text[..at], &text[at + 1..]),
        None if text.contains(':') => text.rsplit_once(' ')?,
        None => (text, ""),
    };
    Some(DateTime { date: parse_date(date)?, time: parse_time(time)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn reals_are_written_with_their_digits() {
        let cases = [
            (134_750, RealHint::EXPONENT_2, "1347.50"),
            (-5, RealHint::EXPONENT_14, "-0.00000000000005"),
            (7, RealHint::EXPONENT3, "7000"),
            (0, RealHint::EXPONENT_3, "0"),
            (3, RealHint::FRACTION_8, "0.375"),
            (-513, RealHint::FRACTION_256, "-2.00390625"),
            (16, RealHint::FRACTION_4, "4"),
            (i64::MIN, RealHint::EXPONENT_4, "-922337203685477.5808"),
            (0, RealHint::NEG_INFINITY, "\"-Inf\""),
        ];
        for (mantissa, hint, text) in cases {
            assert_eq!(written(|out| real(Real::new(mantissa, hint), out)), text);
        }
    }

    #[test]
    fn numbers_are_written_as_by_formatting() {
        let all = (0..1_200).chain([9_999, 123_456_789, u64::MAX - 1, u64::MAX]);
        for value in all {
            assert_eq!(written(|out| unsigned(value, out)), value.to_string());
            for places in [2, 4, 14] {
                assert_eq!(written(|out| padded(value, places, out)), format!("{value:0places$}"));
            }
        }
        for value in [0, -1, 7, i64::MIN, i64::MAX] {
            assert_eq!(written(|out| signed(value, out)), value.to_string());
        }
    }

    #[test]
    fn short_reals_are_read_as_long_ones() {
        for text in ["0", "-0.00", "1347.50", "-5", "0.00000000000001", "99999999999999.9999", "-123456789012345678"] {
            // With an exponent the long way is taken.
            assert_eq!(parse_real(text), parse_real(&format!("{text}e0")), "{text}");
        }
        assert_eq!(parse_short_real("0.000000000000001"), None);
    }

    #[test]
    fn reals_are_read_with_their_digits() {
        let cases = [
            ("1347.50", Some((134_750, -2))),
            ("1.5e-3", Some((15, -4))),
            ("1e3", Some((1, 3))),
            ("1E14", Some((10_000_000, 7))),
            ("0.00000000000001", Some((1, -14))),
            ("1e-20", None),
            ("0.00", Some((0, 0))),
            ("123456789.123456789", Some((123_456_789_123_456_789, -9))),
            ("-9223372036854775808", Some((i64::MIN, 0))),
            ("9223372036854775808", None),
            ("1e27", None),
            ("99999999999999999999e2147483647", None),
            ("1e-2147483648", None),
            ("5000000000e-3309050", None),
            ("0.12345678901234567890", Some((12_345_678_901_235, -14))),
            ("100000000000000000000", Some((1_000_000_000_000_000_000, 2))),
        ];
        for (text, expected) in cases {
            let found = parse_real(text).map(|real| (real.mantissa, i32::from(real.hint.0) - 14));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn floats_as_java_prints_them() {
        let cases = [
            (2.5, "2.5"),
            (1.0, "1.0"),
            (0.0, "0.0"),
            (-7.25, "-7.25"),
            (1e-20, "1.0E-20"),
            (-1.5e30, "-1.5E30"),
            (0.001, "0.001"),
            (0.00012, "1.2E-4"),
            (1_234_567.0, "1234567.0"),
            (12_345_678.0, "1.2345678E7"),
            (f64::NAN, "\"NaN\""),
        ];
        for (value, text) in cases {
            assert_eq!(written(|out| float(value, &format!("{value:e}"), out)), text);
        }
    }

    #[test]
    fn dates_and_times_lead_back() {
        for text in ["2024-02-29", "2198", "2157-01", "--12-12", "--07", "----31"] {
            assert_eq!(written(|out| date(parse_date(text).unwrap(), out)), text);
        }
        for text in ["00:00:00", "23:59:60", "10:20:30.4005006", "16:15:14.000700767", "12:00:00.001"] {
            assert_eq!(written(|out| time(parse_time(text).unwrap(), out)), text);
        }
        let text = "2003-08-20T23:59:59.999";
        assert_eq!(written(|out| date_time(parse_date_time(text).unwrap(), out)), text);
        assert_eq!(parse_date("29 FEB 2024"), parse_date("2024-02-29"));
        assert_eq!(parse_time("1:2:3"), Some(Time::new(1, 2, 3)));
        let millis = |hour, minute, second, millisecond| Time { millisecond, ..Time::new(hour, minute, second) };
        for (text, expected) in [
            ("14:40:32:000:000:000", Time::new(14, 40, 32)),
            ("14:40:32:123:456:789", Time { microsecond: 456, nanosecond: 789, ..millis(14, 40, 32, 123) }),
            ("09:30:00:500", millis(9, 30, 0, 500)),
            ("9:30:0:5", millis(9, 30, 0, 5)),
            ("09:30:00Z", Time::new(9, 30, 0)),
            ("09:30:00.250Z", millis(9, 30, 0, 250)),
        ] {
            assert_eq!(parse_time(text), Some(expected), "{text}");
        }
        let both =
            |date: &str, time: &str| parse_date(date).zip(parse_time(time)).map(|(date, time)| DateTime { date, time });
        for (text, date, time) in [
            ("10 OCT 2024 09:30:00", "2024-10-10", "09:30:00"),
            ("10 OCT 2024T09:30:00", "2024-10-10", "09:30:00"),
            ("10 AUG 2024", "2024-08-10", ""),
            ("10 OCT 2024", "2024-10-10", ""),
            ("10 MAR 2024 09:30:00:500", "2024-03-10", "09:30:00.5"),
            ("2024-03-10T09:30:00.000Z", "2024-03-10", "09:30:00"),
            ("2024-03-10 09:30:00.5", "2024-03-10", "09:30:00.5"),
            ("2024-03-10T", "2024-03-10", ""),
            ("T09:30:00", "", "09:30:00"),
        ] {
            assert_eq!(parse_date_time(text), both(date, time), "{text}");
            assert!(parse_date_time(text).is_some(), "{text}");
        }
        for bad in ["2024-03-10T09:30:00+02:00", "04 MAR 24 09:30:00", "10 OCT", "OCT 2024"] {
            assert_eq!(parse_date_time(bad), None, "{bad}");
        }
        for bad in [
            "04 MAR 24",
            "04 MAR 124",
            "004 MAR 2024",
            "+4 MAR 2024",
            "2024-2-9",
            "2024-13-01",
            "2023-02-29",
            "24-01-01",
            "x",
            "2024-01-01-01",
            "----1",
        ] {
            assert_eq!(parse_date(bad), None, "{bad}");
        }
        for bad in [
            "xx",
            "10",
            "10:61",
            "25:00",
            "1:2:3:4:5:6:7",
            "1:2:3.5:4",
            "1:2:3:4444",
            "1:2:3:",
            "1:2:3ZZ",
            "09:30+01:00",
            "1:2:3.0123456789",
            "1:2:61",
            ":1",
        ] {
            assert_eq!(parse_time(bad), None, "{bad}");
        }
    }
}
