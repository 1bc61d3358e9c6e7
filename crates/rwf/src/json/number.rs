//! Numbers, dates and times as JSON has them.

use crate::{Date, DateTime, Real, RealHint, Time};

/// An unsigned number with so many digits at least. By hand: formatting costs several times as much, and most of a message is numbers.
pub(super) fn padded(mut value: u64, places: usize, out: &mut String) {
    /// Digits of the largest number.
    const MOST: usize = 20;
    let digit = |value: u64| char::from(b'0' + (value % 10) as u8);
    if value < 10 && places <= 1 {
        return out.push(digit(value));
    }
    if value < 100 && places <= 2 {
        out.push(digit(value / 10));
        return out.push(digit(value));
    }
    let mut digits = [b'0'; MOST];
    let mut at = MOST;
    while value > 0 {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
    }
    at = at.min(MOST - places.clamp(1, MOST));
    out.push_str(str::from_utf8(&digits[at..]).unwrap_or_default());
}

/// An unsigned number.
pub(super) fn unsigned(value: u64, out: &mut String) {
    padded(value, 1, out);
}

/// A signed number.
pub(super) fn signed(value: i64, out: &mut String) {
    if value < 0 {
        out.push('-');
    }
    unsigned(value.unsigned_abs(), out);
}

/// Decimal digits as many as the hint says, fractions as decimals, infinities and NaN in quotes.
pub(super) fn real(value: Real, out: &mut String) {
    match value.hint {
        RealHint::INFINITY => out.push_str("\"Inf\""),
        RealHint::NEG_INFINITY => out.push_str("\"-Inf\""),
        RealHint::NOT_A_NUMBER => out.push_str("\"NaN\""),
        _ if value.mantissa == 0 => out.push('0'),
        hint => match (hint.divisor(), hint.exponent()) {
            (Some(divisor), _) => fraction(value.mantissa, divisor, out),
            (None, Some(exponent)) => decimal(value.mantissa, exponent, out),
            (None, None) => out.push_str(&value.to_string()),
        },
    }
}

/// A mantissa with the decimals, or with the zeros behind it, that its exponent says.
fn decimal(mantissa: i64, exponent: i32, out: &mut String) {
    if mantissa < 0 {
        out.push('-');
    }
    let magnitude = mantissa.unsigned_abs();
    if exponent >= 0 {
        unsigned(magnitude, out);
        for _ in 0..exponent {
            out.push('0');
        }
        return;
    }
    let places = exponent.unsigned_abs();
    let scale = 10_u64.pow(places);
    unsigned(magnitude / scale, out);
    out.push('.');
    padded(magnitude % scale, places as usize, out);
}

/// The divisor is a power of two, so its decimals come to an end.
fn fraction(mantissa: i64, divisor: u32, out: &mut String) {
    let magnitude = mantissa.unsigned_abs();
    let divisor = u64::from(divisor);
    if mantissa < 0 {
        out.push('-');
    }
    unsigned(magnitude / divisor, out);
    let mut rest = magnitude % divisor;
    if rest > 0 {
        out.push('.');
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
    let (mut mantissa, mut decimals) = (0_i64, None);
    for byte in digits.bytes() {
        match byte {
            b'0'..=b'9' => {
                mantissa = mantissa * 10 + i64::from(byte - b'0');
                decimals = decimals.map(|decimals: i32| decimals + 1);
            }
            b'.' if decimals.is_none() => decimals = Some(0),
            _ => return None,
        }
    }
    let exponent = -decimals.unwrap_or(0);
    if exponent < MIN_EXPONENT {
        return None;
    }
    if mantissa == 0 {
        return Some(Real::new(0, RealHint::EXPONENT0));
    }
    let hint = RealHint((i32::from(RealHint::EXPONENT0.0) + exponent) as u8);
    Some(Real::new(if negative { -mantissa } else { mantissa }, hint))
}

const MIN_EXPONENT: i32 = -14;
const MAX_EXPONENT: i32 = 7;

fn fits(mantissa: i128, negative: bool) -> bool {
    mantissa <= i128::from(i64::MAX) + i128::from(negative)
}

/// A float as Java prints it: `1.0`, `123.456`, `1.0E-20`; infinities and NaN in quotes.
pub(super) fn float(value: f64, shortest: &str, out: &mut String) {
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
        (1..-exponent).for_each(|_| out.push('0'));
        out.push_str(&digits);
        return;
    }
    let whole = exponent as usize + 1;
    for index in 0..whole.max(digits.len()) {
        if index == whole {
            out.push('.');
        }
        out.push(digits.as_bytes().get(index).map_or('0', |digit| char::from(*digit)));
    }
    if digits.len() <= whole {
        out.push_str(".0");
    }
}

/// `2024-02-29`; with parts missing `2024-02`, `2024`, `--02-29`, `--02` or `----29`.
pub(super) fn date(date: Date, out: &mut String) {
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
pub(super) fn time(time: Time, out: &mut String) {
    padded(time.hour.into(), 2, out);
    for part in [time.minute, time.second] {
        if part == 255 {
            return;
        }
        out.push(':');
        padded(part.into(), 2, out);
    }
    let part = |value: u16| if value > 999 { 0 } else { u32::from(value) };
    let nanos = part(time.millisecond) * 1_000_000 + part(time.microsecond) * 1_000 + part(time.nanosecond);
    if nanos > 0 {
        let decimals = format!("{nanos:09}");
        out.push('.');
        out.push_str(decimals.trim_end_matches('0'));
    }
}

/// Date and time with a `T` between them; a blank part is left out.
pub(super) fn date_time(value: DateTime, out: &mut String) {
    if !value.date.is_blank() {
        date(value.date, out);
    }
    if !value.time.is_blank() {
        out.push('T');
        time(value.time, out);
    }
}

/// A date in the forms that [`date`] writes, and as `29 FEB 2024`.
pub(super) fn parse_date(text: &str) -> Option<Date> {
    const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
    if text.is_empty() {
        return Some(Date::BLANK);
    }
    let mut words = text.splitn(4, ' ');
    let date =
        if let (Some(day), Some(month), Some(year), None) = (words.next(), words.next(), words.next(), words.next()) {
            let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))? + 1;
            Date::new(year.parse().ok()?, month as u8, day.parse().ok()?)
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

fn two_digits(text: &str) -> Option<u8> {
    (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// `H:M`, `H:M:S` or `H:M:S.decimals`, each part of one or two digits; up to nine decimals.
pub(super) fn parse_time(text: &str) -> Option<Time> {
    if text.is_empty() {
        return Some(Time::BLANK);
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
    if parts.next().is_some() || decimals.len() > 9 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Hour 24 is how some feeds say the end of the day, second 60 is a leap second.
    if hour > 24 || minute > 59 || second > 60 {
        return None;
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
    let (date, time) = match text.split_once('T') {
        Some(parts) => parts,
        None if text.contains(':') => text.rsplit_once(' ')?,
        None => (text, ""),
    };
    Some(DateTime { date: parse_date(date)?, time: parse_time(time)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut String)) -> String {
        let mut out = String::new();
        write(&mut out);
        out
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
        for bad in ["2024-2-9", "2024-13-01", "2023-02-29", "24-01-01", "x", "2024-01-01-01", "----1"] {
            assert_eq!(parse_date(bad), None, "{bad}");
        }
        for bad in ["xx", "10", "10:61", "25:00", "1:2:3:4", "1:2:3.0123456789", "1:2:61", ":1"] {
            assert_eq!(parse_time(bad), None, "{bad}");
        }
    }
}
