//! Values as text: numbers, dates, times, and the six-bit code of some.

use rwf::dictionary::{FieldDef, MarketfeedType};
use rwf::wire::Writer;
use rwf::{DataType, Date, EncodeError, Real, RealHint, Time, primitive};

use crate::record::Text;
use crate::words::{self, WORD};
use crate::{Loss, RS, US};

const MONTHS: [&[u8; 3]; 12] =
    [b"JAN", b"FEB", b"MAR", b"APR", b"MAY", b"JUN", b"JUL", b"AUG", b"SEP", b"OCT", b"NOV", b"DEC"];

/// Whether a value other than text stands for "blank".
#[inline]
pub(crate) fn is_blank(value: &[u8]) -> bool {
    matches!(value, [] | [b' ', ..]) && value.iter().all(|byte| *byte == b' ')
}

/// Text of a price without a value.
pub(crate) const BLANK_PRICE: &[u8] = b"+0";
/// Text of a price of zero.
pub(crate) const ZERO_PRICE: &[u8] = b"-0";

/// Whether the value of a price stands for "blank": any zero that has no minus, with or without a point or a fraction (`0`, `+0`, `0.00`,
/// `0 0/32`). A price of zero is `-0`.
pub(crate) fn is_blank_price(value: &[u8]) -> bool {
    let text = trimmed(value);
    !text.starts_with(b"-") && real(text).is_some_and(|price| price.mantissa == 0)
}

fn trimmed(value: &[u8]) -> &[u8] {
    value.trim_ascii()
}

/// A sign and the rest.
fn signed(value: &[u8]) -> (bool, &[u8]) {
    match value {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] | rest => (false, rest),
    }
}

/// So many digits are less than any bound of an `i64`.
const SAFE_DIGITS: usize = 18;

/// Digits as a number that an `i64` holds, too.
#[inline]
fn digits(text: &[u8]) -> Option<u64> {
    match words::word(text) {
        Some(word) => words::number(word, text.len()),
        None => long_digits(text),
    }
}

/// The digits of more than a word.
#[inline(never)]
fn long_digits(text: &[u8]) -> Option<u64> {
    if text.len() > SAFE_DIGITS {
        return many_digits(text);
    }
    let mut number = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    Some(number)
}

#[cold]
fn many_digits(text: &[u8]) -> Option<u64> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = text.iter().try_fold(0u64, |n, digit| n.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?;
    Some(number)
}

fn with_sign(is_negative: bool, magnitude: u64) -> Option<i64> {
    if is_negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// The decimal numbers of a word at most, without blanks and `+`.
#[inline]
pub(crate) fn short_real(text: Text<'_>) -> Option<Real> {
    let (word, len) = (text.word()?, text.len());
    if len > 0 && word as u8 == b'-' {
        let Real { mantissa, hint } = decimal(word >> 8, len - 1)?;
        return Some(Real::new(-mantissa, hint));
    }
    decimal(word, len)
}

/// The number that the first `len` bytes of a word write in digits, one point among them or none.
#[inline]
fn decimal(word: u64, len: usize) -> Option<Real> {
    let digits = words::digits(word);
    let others = words::others(digits);
    let point = words::offset(others);
    if point >= len {
        return (len > 0).then(|| Real::new(words::value(digits, len) as i64, RealHint::EXPONENT0));
    }
    let is_decimal = word >> (8 * point) & 0xFF == u64::from(b'.') && words::offset(others & (others - 1)) >= len;
    if len == 1 || !is_decimal {
        return None;
    }
    // Digits behind the point move down to its place.
    let whole = (1 << (8 * point)) - 1;
    let (digits, places) = (digits & whole | (digits >> 8) & !whole, len - 1 - point);
    Some(Real::new(words::value(digits, len - 1) as i64, RealHint(RealHint::EXPONENT0.0 - places as u8)))
}

/// A price or whole number: `-12.345`, `+0.5`, `98 28/32`, `28/32`.
pub(crate) fn real(value: &[u8]) -> Option<Real> {
    let (is_negative, text) = signed(trimmed(value));
    let mut magnitude = 0u64;
    let mut point = None;
    let is_safe = text.len() <= SAFE_DIGITS;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' if is_safe => magnitude = magnitude * 10 + u64::from(byte - b'0'),
            b'0'..=b'9' => magnitude = magnitude.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?,
            b'.' if point.is_none() => point = Some(at),
            b' ' | b'/' => return fraction(is_negative, text),
            _ => return None,
        }
    }
    let places = point.map_or(0, |at| text.len() - at - 1);
    // A point needs a digit on one of its sides.
    if text.len() == usize::from(point.is_some()) || places > usize::from(RealHint::EXPONENT0.0) {
        return None;
    }
    let hint = RealHint(RealHint::EXPONENT0.0 - places as u8);
    Some(Real::new(with_sign(is_negative, magnitude)?, hint))
}

#[cold]
fn fraction(is_negative: bool, text: &[u8]) -> Option<Real> {
    let slash = text.iter().position(|byte| *byte == b'/')?;
    let (left, divisor) = (&text[..slash], digits(trimmed(&text[slash + 1..]))?);
    let (whole, part) = match left.iter().position(|byte| *byte == b' ') {
        Some(blank) => (digits(&left[..blank])?, digits(trimmed(&left[blank..]))?),
        None => (0, digits(left)?),
    };
    if !divisor.is_power_of_two() || !(2..=256).contains(&divisor) {
        return None;
    }
    let magnitude = whole.checked_mul(divisor)?.checked_add(part)?;
    let hint = RealHint(RealHint::FRACTION_1.0 + divisor.trailing_zeros() as u8);
    Some(Real::new(with_sign(is_negative, magnitude)?, hint))
}

/// Up to four digits.
#[inline]
pub(crate) fn short_uint(text: Text<'_>) -> Option<u16> {
    text.half().and_then(|half| words::short_number(half, text.len())).map(|number| number as u16)
}

pub(crate) fn uint(value: &[u8]) -> Option<u64> {
    digits(value).or_else(|| uint_in_blanks(value))
}

/// The same with what may stand around the digits.
fn uint_in_blanks(value: &[u8]) -> Option<u64> {
    match signed(trimmed(value)) {
        (false, text) => digits(text),
        (true, text) => digits(text).filter(|number| *number == 0),
    }
}

pub(crate) fn int(value: &[u8]) -> Option<i64> {
    let (is_negative, text) = signed(trimmed(value));
    with_sign(is_negative, digits(text)?)
}

/// `16 SEP 2013`: day of one or two digits, month in any case, year.
pub(crate) fn date(value: &[u8]) -> Option<Date> {
    let mut parts = value.split(|byte| *byte == b' ').filter(|part| !part.is_empty());
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    let month = MONTHS.iter().position(|name| month.eq_ignore_ascii_case(&name[..]))? as u8 + 1;
    let (day, year) = (digits(day)?, digits(year)?);
    let is_date = (1..=31).contains(&day) && (1..=9999).contains(&year) && parts.next().is_none();
    is_date.then(|| Date::new(year as u16, month, day as u8))
}

/// `10:34:56` as the bytes that it has in RWF, and how many.
#[inline]
pub(crate) fn clock(text: Text<'_>) -> Option<([u8; 8], usize)> {
    /// What such a time has beside its digits.
    const FORM: u64 = u64::from_le_bytes(*b"00:00:00");
    /// Where its digits are.
    const DIGITS: u64 = u64::from_le_bytes([0x0F, 0x0F, 0, 0x0F, 0x0F, 0, 0x0F, 0x0F]);
    let digits = text.word().filter(|_| text.len() == WORD)? ^ FORM;
    if digits & !DIGITS != 0 || words::others(digits) != 0 {
        return None;
    }
    let [hour, _, _, minute, _, _, second, _] = (digits.wrapping_mul(10) + (digits >> 8)).to_le_bytes();
    let is_time = hour < 24 && minute < 60 && second <= 60;
    is_time.then_some(([hour, minute, second, 0, 0, 0, 0, 0], if second == 0 { 2 } else { 3 }))
}

/// `10:34`, `10:34:56`, `10:34:56.789`.
pub(crate) fn time(value: &[u8]) -> Option<Time> {
    let text = trimmed(value);
    let (clock, thousandths) = match text.iter().position(|byte| *byte == b'.') {
        Some(point) => (&text[..point], digits(&text[point + 1..]).filter(|_| text.len() - point == 4)?),
        None => (text, 0),
    };
    let mut parts = clock.split(|byte| *byte == b':').map(|part| digits(part).filter(|_| part.len() <= 2));
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = match parts.next() {
        Some(second) => second?,
        None if thousandths == 0 => 0,
        None => return None,
    };
    let is_time = hour < 24 && minute < 60 && second <= 60 && parts.next().is_none();
    is_time.then(|| Time { millisecond: thousandths as u16, ..Time::new(hour as u8, minute as u8, second as u8) })
}

/// Milliseconds or nanoseconds since midnight, by the bytes that a time of the field has in RWF (5 or 8).
pub(crate) fn time_of_count(value: &[u8], rwf_length: u16) -> Option<Time> {
    let count = uint(value)?;
    let nanos = if rwf_length <= 5 { count.checked_mul(1_000_000)? } else { count };
    (nanos < 86_400_000_000_000).then(|| Time::from_nanos(nanos))
}

/// Six bits a character, 0x40 upwards, the lowest group first.
pub(crate) fn binary(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 10 || !value.iter().all(|byte| (0x40..0x80).contains(byte)) {
        return None;
    }
    Some(value.iter().rev().fold(0, |number, byte| number << 6 | u64::from(byte & 0x3F)))
}

/// A number as it is written, from its last character on.
struct Backwards {
    text: [u8; 40],
    at: usize,
}

impl Backwards {
    const fn new() -> Self {
        Self { text: [0; 40], at: 40 }
    }

    #[inline]
    fn put(&mut self, byte: u8) {
        self.at -= 1;
        self.text[self.at] = byte;
    }

    /// So many digits of a number; gives what is left of it.
    #[inline]
    fn places(&mut self, mut number: u64, places: u32) -> u64 {
        for _ in 0..places {
            self.put(b'0' + (number % 10) as u8);
            number /= 10;
        }
        number
    }

    /// All digits of a number, at least one.
    #[inline]
    fn whole(&mut self, mut number: u64) {
        loop {
            self.put(b'0' + (number % 10) as u8);
            number /= 10;
            if number == 0 {
                return;
            }
        }
    }

    fn text(&self) -> &[u8] {
        &self.text[self.at..]
    }
}

/// The values that messages have most as text of a word at most, by the type of the field: the text and its length. `None` for all others,
/// blanks and losses among them.
#[inline]
pub(crate) fn short_text(def: &FieldDef, data: &[u8], expands_enums: bool) -> Option<(u64, usize)> {
    let (word, len) = match def.data_type() {
        DataType::REAL => short_decimal(data, def.marketfeed_type() == MarketfeedType::PRICE)?,
        DataType::ENUM if !expands_enums => words::text_of(primitive::enumeration(data).ok()?.into(), 1),
        DataType::UINT if !matches!(def.marketfeed_type(), MarketfeedType::BINARY | MarketfeedType::PRICE) => {
            words::text_of(primitive::uint(data).ok().filter(|number| *number < words::BOUND)?, 1)
        }
        DataType::TIME if def.marketfeed_type() == MarketfeedType::TIME_SECONDS => (words::clock(data)?, WORD),
        DataType::RMTES_STRING | DataType::ASCII_STRING | DataType::UTF8_STRING => {
            (words::word(data).filter(|word| words::separators(*word) == 0)?, data.len())
        }
        _ => return None,
    };
    let longest = usize::from(def.length());
    (longest == 0 || len <= longest).then_some((word, len))
}

/// A number without a power of ten above 0. A price of zero has a sign that others have not ([`ZERO_PRICE`]).
#[inline]
fn short_decimal(real: &[u8], is_price: bool) -> Option<(u64, usize)> {
    let [hint, mantissa @ ..] = real else { return None };
    let mantissa = primitive::int(mantissa).ok()?;
    let places = usize::from(RealHint::EXPONENT0.0.checked_sub(*hint)?);
    let magnitude = mantissa.unsigned_abs();
    if magnitude >= words::BOUND || places >= WORD || magnitude == 0 && is_price {
        return None;
    }
    let (mut text, mut len) = words::text_of(magnitude, places + 1);
    if places > 0 {
        let whole = (1 << (8 * (len - places))) - 1;
        text = text & whole | u64::from(b'.') << (8 * (len - places)) | (text & !whole) << 8;
        len += 1;
    }
    if mantissa < 0 {
        (text, len) = (text << 8 | u64::from(b'-'), len + 1);
    }
    // A longer text has lost its end.
    (len <= WORD).then_some((text, len))
}

#[inline]
pub(crate) fn write_uint(w: &mut Writer<'_>, number: u64) -> Result<(), EncodeError> {
    if number < words::BOUND {
        let (text, len) = words::text_of(number, 1);
        return w.short(text.to_le_bytes(), len);
    }
    let mut text = Backwards::new();
    text.whole(number);
    w.bytes(text.text())
}

pub(crate) fn write_int(w: &mut Writer<'_>, number: i64) -> Result<(), EncodeError> {
    let mut text = Backwards::new();
    text.whole(number.unsigned_abs());
    if number < 0 {
        text.put(b'-');
    }
    w.bytes(text.text())
}

/// A field id between the marks that stand around it, the head of a field, and its length.
#[allow(clippy::inline_always, reason = "measured: a thirtieth of a message's time")]
#[inline(always)]
pub(crate) fn field_head(fid: i16) -> (u64, usize) {
    let (mut text, mut len) = words::text_of(u64::from(fid.unsigned_abs()), 1);
    if fid < 0 {
        (text, len) = (text << 8 | u64::from(b'-'), len + 1);
    }
    // A sign, five digits and two marks fill a word.
    (u64::from(RS) | text << 8 | u64::from(US) << (8 * (len + 1)), len + 2)
}

/// Text as it is; false, and nothing is written, if there is a separator in it.
#[inline]
pub(crate) fn write_text(w: &mut Writer<'_>, text: &[u8]) -> Result<bool, EncodeError> {
    if let Some(word) = words::word(text) {
        // The byte behind the text is no separator.
        if words::separators(word) != 0 {
            return Ok(false);
        }
        return w.short(word.to_le_bytes(), text.len()).map(|()| true);
    }
    if text.iter().any(|byte| byte & 0xFC == 0x1C) {
        return Ok(false);
    }
    w.bytes(text).map(|()| true)
}

/// Digits with leading zeros.
fn write_padded(w: &mut Writer<'_>, number: u64, width: u32) -> Result<(), EncodeError> {
    let mut text = Backwards::new();
    text.places(number, width);
    w.bytes(text.text())
}

/// A number as text. Gives what the text does not keep.
pub(crate) fn write_real(w: &mut Writer<'_>, real: Real) -> Result<Option<Loss>, Error> {
    let magnitude = real.mantissa.unsigned_abs();
    if let Some(exponent) = real.hint.exponent().filter(|exponent| *exponent < 0) {
        let mut text = Backwards::new();
        let whole = text.places(magnitude, exponent.unsigned_abs());
        text.put(b'.');
        text.whole(whole);
        if real.mantissa < 0 {
            text.put(b'-');
        }
        return Ok(w.bytes(text.text()).map(|()| None)?);
    }
    if real.mantissa < 0 {
        w.u8(b'-')?;
    }
    if let Some(exponent) = real.hint.exponent() {
        write_uint(w, magnitude)?;
        if magnitude != 0 {
            (0..exponent).try_for_each(|_| w.u8(b'0'))?;
        }
        return Ok((exponent > 0).then_some(Loss::Hint));
    }
    match real.hint.divisor().map(u64::from) {
        Some(1) => {
            write_uint(w, magnitude)?;
            Ok(Some(Loss::Hint))
        }
        Some(divisor) => {
            write_uint(w, magnitude / divisor)?;
            w.u8(b' ')?;
            write_uint(w, magnitude % divisor)?;
            w.u8(b'/')?;
            write_uint(w, divisor)?;
            Ok(None)
        }
        None => Err(Error::Lost(Loss::Special)),
    }
}

pub(crate) fn write_date(w: &mut Writer<'_>, date: Date) -> Result<(), Error> {
    let Date { year, month, day } = date;
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return Err(Error::Lost(Loss::PartialDate));
    }
    write_padded(w, u64::from(day), 2)?;
    w.u8(b' ')?;
    w.bytes(MONTHS[usize::from(month) - 1])?;
    w.u8(b' ')?;
    Ok(write_padded(w, u64::from(year), 4)?)
}

/// How a field writes a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeForm {
    Minutes,
    Seconds,
    Millis,
    Nanos,
}

pub(crate) fn write_time(w: &mut Writer<'_>, time: Time, form: TimeForm) -> Result<Option<Loss>, Error> {
    let Time { hour, minute, second, millisecond, microsecond, nanosecond } = time;
    if hour > 23 || minute > 59 || second > 60 || millisecond > 999 || microsecond > 999 || nanosecond > 999 {
        return Err(Error::Lost(Loss::PartialDate));
    }
    let below_milli = microsecond != 0 || nanosecond != 0;
    let seconds = (u64::from(hour) * 60 + u64::from(minute)) * 60 + u64::from(second);
    let millis = seconds * 1000 + u64::from(millisecond);
    let is_cut = match form {
        TimeForm::Minutes | TimeForm::Seconds => {
            let two = |number: u8| [b'0' + number / 10, b'0' + number % 10];
            let ([a, b], [c, d], [e, f]) = (two(hour), two(minute), two(second));
            let text = [a, b, b':', c, d, b':', e, f];
            w.short(text, if form == TimeForm::Seconds { 8 } else { 5 })?;
            form == TimeForm::Minutes && second != 0 || millisecond != 0 || below_milli
        }
        TimeForm::Millis => {
            write_uint(w, millis)?;
            below_milli
        }
        TimeForm::Nanos => {
            write_uint(w, millis * 1_000_000 + u64::from(microsecond) * 1000 + u64::from(nanosecond))?;
            false
        }
    };
    Ok(is_cut.then_some(Loss::TimeCut))
}

pub(crate) fn write_binary(w: &mut Writer<'_>, number: u64, length: u16) -> Result<(), Error> {
    if length == 0 || length > 10 || number.checked_shr(6 * u32::from(length)).is_some_and(|rest| rest != 0) {
        return Err(Error::Lost(Loss::TooLong));
    }
    for group in 0..u32::from(length) {
        w.u8(0x40 | (number.checked_shr(6 * group).unwrap_or(0) & 0x3F) as u8)?;
    }
    Ok(())
}

/// A value that is not written: for want of room, or because it cannot be said.
#[derive(Debug)]
pub(crate) enum Error {
    Encode(EncodeError),
    Lost(Loss),
}

impl From<EncodeError> for Error {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error)
    }
}
