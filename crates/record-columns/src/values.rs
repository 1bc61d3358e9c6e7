//! The values of a column while its row group grows.

use crate::form::{Form, NARROW_DIGITS, factors, instant, scaled};
use arrow_array::types::Decimal128Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, Date32Array, DictionaryArray, Float64Array, Int32Array, Int64Array, PrimitiveArray,
    StringArray, TimestampNanosecondArray, UInt16Array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::DataType as ArrowType;
use rwf::{Date, Primitive, Real, Time};
use std::borrow::Cow;
use std::mem::replace;
use std::sync::Arc;

const SECOND: i64 = 1_000_000_000;

/// Rows that have a value, a bit each; those behind the last one have none.
#[derive(Debug, Default)]
struct Valid(Vec<u64>);

impl Valid {
    /// Row `row` has a value, all others since the last one have none.
    #[inline]
    fn set(&mut self, row: usize) {
        let word = row / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (row % 64);
    }

    fn finish(&mut self, rows: usize) -> NullBuffer {
        self.0.resize(rows.div_ceil(64), 0);
        // The next batch is about as long.
        let next = Vec::with_capacity(self.0.len());
        NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(replace(&mut self.0, next)), 0, rows))
    }
}

/// Texts or bytes, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    ends: Vec<i32>,
    bytes: Vec<u8>,
    valid: Valid,
}

impl Texts {
    /// Bytes of the contents so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Sets the value of a row behind those that have one.
    pub(crate) fn set(&mut self, row: usize, bytes: &[u8]) {
        self.ends.resize(row, self.bytes.len() as i32);
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len() as i32);
        self.valid.set(row);
    }

    fn parts(&mut self, rows: usize) -> (OffsetBuffer<i32>, Vec<u8>, NullBuffer) {
        self.ends.resize(rows, self.bytes.len() as i32);
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        offsets.append(&mut self.ends);
        let next = Vec::with_capacity(self.bytes.len());
        let bytes = replace(&mut self.bytes, next);
        (OffsetBuffer::new(offsets.into()), bytes, self.valid.finish(rows))
    }

    /// All rows as texts.
    pub(crate) fn finish_text(&mut self, rows: usize) -> Result<ArrayRef, arrow_schema::ArrowError> {
        let (offsets, bytes, nulls) = self.parts(rows);
        Ok(Arc::new(StringArray::try_new(offsets, bytes.into(), Some(nulls))?))
    }

    /// All rows as bytes.
    pub(crate) fn finish_bytes(&mut self, rows: usize) -> ArrayRef {
        let (offsets, bytes, nulls) = self.parts(rows);
        Arc::new(BinaryArray::new(offsets, bytes.into(), Some(nulls)))
    }
}

/// Numbers of a type, where not all rows have one.
#[derive(Debug)]
pub(crate) struct Numbers<T> {
    values: Vec<T>,
    valid: Valid,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self { values: Vec::new(), valid: Valid::default() }
    }
}

impl<T: Copy + Default> Numbers<T> {
    /// Sets the value of a row behind those that have one.
    #[inline]
    pub(crate) fn set(&mut self, row: usize, value: T) {
        if row != self.values.len() {
            self.values.resize(row, T::default());
        }
        self.values.push(value);
        self.valid.set(row);
    }

    /// All rows.
    pub(crate) fn finish(&mut self, rows: usize) -> (Vec<T>, Option<NullBuffer>) {
        self.values.resize(rows, T::default());
        (replace(&mut self.values, Vec::with_capacity(rows)), Some(self.valid.finish(rows)))
    }
}

impl Numbers<i64> {
    pub(crate) fn finish_integers(&mut self, rows: usize) -> ArrayRef {
        let (values, nulls) = self.finish(rows);
        Arc::new(Int64Array::new(values.into(), nulls))
    }

    pub(crate) fn finish_instants(&mut self, rows: usize) -> ArrayRef {
        let (values, nulls) = self.finish(rows);
        Arc::new(TimestampNanosecondArray::new(values.into(), nulls).with_timezone("UTC"))
    }
}

#[derive(Debug)]
enum Values {
    Short(Numbers<i64>),
    Wide(Numbers<i128>),
    Double(Numbers<f64>),
    Date(Numbers<i32>),
    Enumeration(Numbers<u16>),
    Text(Texts),
    Bytes(Texts),
}

/// The column of a field.
#[derive(Debug)]
pub(crate) struct Column {
    form: Form,
    /// Of narrow decimals, what a mantissa of each hint is multiplied by.
    factors: [i64; 31],
    values: Values,
    /// The row behind the last one that has a value.
    next: usize,
}

/// A value has no place in its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DoesNotFit;

impl Column {
    pub(crate) fn new(form: Form) -> Self {
        let values = match form {
            Form::Integer | Form::TimeOfDay | Form::DateTime | Form::Decimal { is_wide: false, .. } => {
                Values::Short(Numbers::default())
            }
            Form::WideInteger | Form::Decimal { is_wide: true, .. } => Values::Wide(Numbers::default()),
            Form::Double => Values::Double(Numbers::default()),
            Form::Date => Values::Date(Numbers::default()),
            Form::Enumeration => Values::Enumeration(Numbers::default()),
            Form::Text => Values::Text(Texts::default()),
            Form::Bytes => Values::Bytes(Texts::default()),
        };
        let factors = if let Form::Decimal { scale, .. } = form { factors(scale) } else { [0; 31] };
        Self { form, factors, values, next: 0 }
    }

    /// Sets the value of a row, which has none yet; rows come in order.
    pub(crate) fn set(&mut self, row: usize, value: &Primitive<'_>) -> Result<(), DoesNotFit> {
        if row < self.next {
            // Twice in one message: the column has the first.
            return Err(DoesNotFit);
        }
        match &mut self.values {
            Values::Short(numbers) => numbers.set(row, short(self.form, &self.factors, value).ok_or(DoesNotFit)?),
            Values::Wide(numbers) => numbers.set(row, wide(self.form, value).ok_or(DoesNotFit)?),
            Values::Double(numbers) => numbers.set(row, double(value).ok_or(DoesNotFit)?),
            Values::Date(numbers) => match value {
                Primitive::Date(date) => numbers.set(row, days(*date).ok_or(DoesNotFit)?),
                _ => return Err(DoesNotFit),
            },
            Values::Enumeration(numbers) => match value {
                Primitive::Enum(number) => numbers.set(row, *number),
                _ => return Err(DoesNotFit),
            },
            Values::Text(texts) => texts.set(row, text(value).as_bytes()),
            Values::Bytes(texts) => match value {
                Primitive::Buffer(bytes) => texts.set(row, bytes),
                _ => return Err(DoesNotFit),
            },
        }
        self.next = row + 1;
        Ok(())
    }

    /// Bytes of texts so far.
    pub(crate) fn text_len(&self) -> usize {
        match &self.values {
            Values::Text(texts) | Values::Bytes(texts) => texts.len(),
            _ => 0,
        }
    }

    /// The column, and of an enumeration that of its displays.
    pub(crate) fn finish(
        &mut self,
        rows: usize,
        displays: Option<&Displays>,
        out: &mut Vec<ArrayRef>,
    ) -> Result<(), arrow_schema::ArrowError> {
        self.next = 0;
        let decimal = |values: Vec<i128>, nulls| -> Result<ArrayRef, arrow_schema::ArrowError> {
            let array = PrimitiveArray::<Decimal128Type>::new(values.into(), nulls);
            Ok(Arc::new(array.with_data_type(self.form.arrow())))
        };
        match &mut self.values {
            Values::Short(numbers) => match self.form {
                Form::Decimal { .. } => {
                    let (values, nulls) = numbers.finish(rows);
                    out.push(decimal(values.into_iter().map(i128::from).collect(), nulls)?);
                }
                Form::DateTime => out.push(numbers.finish_instants(rows)),
                _ => out.push(numbers.finish_integers(rows)),
            },
            Values::Wide(numbers) => {
                let (values, nulls) = numbers.finish(rows);
                out.push(decimal(values, nulls)?);
            }
            Values::Double(numbers) => {
                let (values, nulls) = numbers.finish(rows);
                out.push(Arc::new(Float64Array::new(values.into(), nulls)));
            }
            Values::Date(numbers) => {
                let (values, nulls) = numbers.finish(rows);
                out.push(Arc::new(Date32Array::new(values.into(), nulls)));
            }
            Values::Enumeration(numbers) => {
                let (values, nulls) = numbers.finish(rows);
                if let Some(displays) = displays {
                    out.push(Arc::new(UInt16Array::new(values.clone().into(), nulls.clone())));
                    out.push(displays.of(&values, nulls.as_ref())?);
                } else {
                    out.push(Arc::new(UInt16Array::new(values.into(), nulls)));
                }
            }
            Values::Text(texts) => out.push(texts.finish_text(rows)?),
            Values::Bytes(texts) => out.push(texts.finish_bytes(rows)),
        }
        Ok(())
    }
}

/// Displays of an enumeration.
#[derive(Debug)]
pub(crate) struct Displays {
    /// All displays, and by number which of them it has; -1 for none.
    texts: Arc<StringArray>,
    of_number: Vec<i32>,
}

impl Displays {
    /// Displays by number, in order of numbers.
    pub(crate) fn new(displays: impl Iterator<Item = (u16, String)>) -> Self {
        let (mut texts, mut of_number) = (Vec::<String>::new(), Vec::new());
        for (number, display) in displays {
            let at = texts.iter().position(|text| *text == display).unwrap_or_else(|| {
                texts.push(display);
                texts.len() - 1
            });
            if of_number.len() <= usize::from(number) {
                of_number.resize(usize::from(number) + 1, -1);
            }
            of_number[usize::from(number)] = at as i32;
        }
        Self { texts: Arc::new(texts.iter().map(Some).collect()), of_number }
    }

    fn of(&self, numbers: &[u16], nulls: Option<&NullBuffer>) -> Result<ArrayRef, arrow_schema::ArrowError> {
        let display = |number: &u16| self.of_number.get(usize::from(*number)).copied().unwrap_or(-1);
        let displays: Vec<i32> = numbers.iter().map(display).collect();
        // A number without a display has none either.
        let known = NullBuffer::new(displays.iter().map(|at| *at >= 0).collect());
        let nulls = NullBuffer::union(Some(&known), nulls);
        let keys = Int32Array::new(displays.into_iter().map(|at| at.max(0)).collect(), nulls);
        Ok(Arc::new(DictionaryArray::try_new(keys, Arc::clone(&self.texts) as ArrayRef)?))
    }
}

/// A dictionary column of texts that are known, by number; a negative one is none.
pub(crate) fn dictionary(keys: Vec<i32>, texts: &Arc<StringArray>) -> Result<ArrayRef, arrow_schema::ArrowError> {
    if keys.iter().all(|key| *key >= 0) {
        let keys = Int32Array::new(keys.into(), None);
        return Ok(Arc::new(DictionaryArray::try_new(keys, Arc::clone(texts) as ArrayRef)?));
    }
    let nulls = NullBuffer::new(keys.iter().map(|key| *key >= 0).collect());
    let keys = Int32Array::new(keys.into_iter().map(|key| key.max(0)).collect(), Some(nulls));
    Ok(Arc::new(DictionaryArray::try_new(keys, Arc::clone(texts) as ArrayRef)?))
}

/// The type of such a column.
pub(crate) fn dictionary_type() -> ArrowType {
    ArrowType::Dictionary(Box::new(ArrowType::Int32), Box::new(ArrowType::Utf8))
}

/// A required column of times.
pub(crate) fn instants(values: Vec<i64>) -> ArrayRef {
    let array = TimestampNanosecondArray::new(values.into(), None).with_timezone("UTC");
    debug_assert_eq!(*array.data_type(), instant());
    Arc::new(array)
}

fn short(form: Form, factors: &[i64; 31], value: &Primitive<'_>) -> Option<i64> {
    const LIMIT: u64 = 10_u64.pow(NARROW_DIGITS as u32);
    match (form, value) {
        (Form::Decimal { .. }, Primitive::Real(Real { mantissa, hint })) => {
            let factor = *factors.get(usize::from(hint.0)).filter(|factor| **factor != 0)?;
            mantissa.checked_mul(factor).filter(|value| value.unsigned_abs() < LIMIT)
        }
        (Form::Integer, Primitive::Int(number)) => Some(*number),
        (Form::Integer, Primitive::UInt(number)) => i64::try_from(*number).ok(),
        (Form::TimeOfDay, Primitive::Time(time)) => nanos(*time),
        (Form::DateTime, Primitive::DateTime(at)) => {
            i64::from(days(at.date)?).checked_mul(86_400 * SECOND)?.checked_add(nanos(at.time)?)
        }
        _ => None,
    }
}

fn wide(form: Form, value: &Primitive<'_>) -> Option<i128> {
    match (form, value) {
        (Form::Decimal { scale, .. }, Primitive::Real(real)) => {
            scaled(*real, scale).filter(|value| value.unsigned_abs() < 10_u128.pow(38))
        }
        (_, Primitive::Int(number)) => Some(i128::from(*number)),
        (_, Primitive::UInt(number)) => Some(i128::from(*number)),
        _ => None,
    }
}

/// Never NaN, which readers order each in its own way.
fn double(value: &Primitive<'_>) -> Option<f64> {
    let number = match value {
        Primitive::Float(number) => f64::from(*number),
        Primitive::Double(number) => *number,
        _ => return None,
    };
    Some(number).filter(|number| !number.is_nan())
}

/// Nanoseconds of a day. None where a part is blank or no time has it; a leap second is none either.
fn nanos(time: Time) -> Option<i64> {
    let is_whole = time.hour < 24
        && time.minute < 60
        && time.second < 60
        && time.millisecond < 1000
        && time.microsecond < 1000
        && time.nanosecond < 1000;
    let seconds = i64::from(time.hour) * 3600 + i64::from(time.minute) * 60 + i64::from(time.second);
    let micros = i64::from(time.millisecond) * 1000 + i64::from(time.microsecond);
    is_whole.then_some(seconds * SECOND + micros * 1000 + i64::from(time.nanosecond))
}

/// Days since 1970 of a date that is whole and in the calendar (Howard Hinnant's days-from-civil).
pub(crate) fn days(date: Date) -> Option<i32> {
    let Date { year, month, day } = date;
    let (month, day) = (i32::from(month), i32::from(day));
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = match month {
        2 => 28 + i32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if year == 0 || !(1..=12).contains(&month) || !(1..=length).contains(&day) {
        return None;
    }
    let shifted = i32::from(year) - i32::from(month <= 2);
    let (era, of_era) = (shifted / 400, shifted % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

fn text<'a>(value: &Primitive<'a>) -> Cow<'a, str> {
    value.as_text().unwrap_or_else(|| value.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for number in [0, 1, 59, 60, 364, 365, 11_016, 11_017, 20_784, 47_540] {
            assert_eq!(days(Date::from_days(number)), Some(number as i32), "{number}");
        }
        assert_eq!(days(Date::new(1969, 12, 31)), Some(-1));
        assert_eq!(days(Date::new(1600, 3, 1)), Some(-135_080));
        for date in [Date::new(2025, 2, 29), Date::new(2100, 2, 29), Date::new(2026, 0, 1), Date::new(2026, 4, 31)] {
            assert_eq!(days(date), None, "{date}");
        }
    }

    #[test]
    fn times_that_no_clock_has_are_none() {
        assert_eq!(nanos(Time::from_nanos(86_399_999_999_999)), Some(86_399_999_999_999));
        assert_eq!(nanos(Time::new(24, 0, 0)), None);
        assert_eq!(nanos(Time::BLANK), None);
    }

    #[test]
    fn numbers_of_a_display_that_is_the_same_stay_apart() {
        let displays = Displays::new([(1, "A".to_owned()), (3, "A".to_owned()), (4, "B".to_owned())].into_iter());
        assert_eq!((displays.texts.len(), &displays.of_number[..]), (2, &[-1, 0, -1, 0, 1][..]));
    }
}
