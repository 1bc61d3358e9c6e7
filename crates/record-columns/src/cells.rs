//! Values of columns by row, whatever of the types that programs write has been taken for them.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType as ArrowType, TimeUnit};

/// Doubles up to here are all integers that there are: 2^53.
const EXACT_MAX: f64 = (1_u64 << 53) as f64;

/// Text of a row; none where it has none, or the column is of another type.
pub(crate) fn text(array: &dyn Array, row: usize) -> Option<&str> {
    if array.is_null(row) {
        return None;
    }
    match array.data_type() {
        ArrowType::Utf8 => Some(array.as_string::<i32>().value(row)),
        ArrowType::LargeUtf8 => Some(array.as_string::<i64>().value(row)),
        ArrowType::Utf8View => Some(array.as_string_view().value(row)),
        ArrowType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let key = usize::try_from(integer(dictionary.keys(), row)?).ok()?;
            text(dictionary.values().as_ref(), key)
        }
        _ => None,
    }
}

/// Bytes of a row: of texts, too.
pub(crate) fn bytes(array: &dyn Array, row: usize) -> Option<&[u8]> {
    if array.is_null(row) {
        return None;
    }
    match array.data_type() {
        ArrowType::Binary => Some(array.as_binary::<i32>().value(row)),
        ArrowType::LargeBinary => Some(array.as_binary::<i64>().value(row)),
        ArrowType::BinaryView => Some(array.as_binary_view().value(row)),
        _ => text(array, row).map(str::as_bytes),
    }
}

/// A whole number of a row: of integers, dates (days), decimals without places and doubles that are whole.
pub(crate) fn integer(array: &dyn Array, row: usize) -> Option<i128> {
    if array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        ArrowType::Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        ArrowType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        ArrowType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        ArrowType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        ArrowType::UInt8 => array.as_primitive::<UInt8Type>().value(row).into(),
        ArrowType::UInt16 => array.as_primitive::<UInt16Type>().value(row).into(),
        ArrowType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into(),
        ArrowType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into(),
        ArrowType::Date32 => array.as_primitive::<Date32Type>().value(row).into(),
        ArrowType::Decimal128(_, 0) => array.as_primitive::<Decimal128Type>().value(row),
        // pandas makes doubles of integers where some are blank.
        ArrowType::Float64 => {
            let number = array.as_primitive::<Float64Type>().value(row);
            return (number.fract() == 0.0 && number.abs() <= EXACT_MAX).then_some(number as i128);
        }
        _ => return None,
    })
}

/// A decimal of a row, and its places.
pub(crate) fn decimal(array: &dyn Array, row: usize) -> Option<(i128, i8)> {
    if array.is_null(row) {
        return None;
    }
    match array.data_type() {
        ArrowType::Decimal128(_, scale) => Some((array.as_primitive::<Decimal128Type>().value(row), *scale)),
        _ => Some((integer(array, row)?, 0)),
    }
}

/// A double of a row.
pub(crate) fn double(array: &dyn Array, row: usize) -> Option<f64> {
    if array.is_null(row) {
        return None;
    }
    match array.data_type() {
        ArrowType::Float32 => Some(array.as_primitive::<Float32Type>().value(row).into()),
        ArrowType::Float64 => Some(array.as_primitive::<Float64Type>().value(row)),
        _ => None,
    }
}

/// Nanoseconds since 1970 of a row: of times of any unit.
pub(crate) fn instant(array: &dyn Array, row: usize) -> Option<i64> {
    if array.is_null(row) {
        return None;
    }
    let ArrowType::Timestamp(unit, _) = array.data_type() else { return None };
    match unit {
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().value(row).checked_mul(1_000_000_000),
        TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().value(row).checked_mul(1_000_000),
        TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().value(row).checked_mul(1_000),
        TimeUnit::Nanosecond => Some(array.as_primitive::<TimestampNanosecondType>().value(row)),
    }
}

/// Texts of a row that has a list of them; none where it has none.
pub(crate) fn list(array: &dyn Array, row: usize) -> Option<ArrayRef> {
    if array.is_null(row) {
        return None;
    }
    match array.data_type() {
        ArrowType::List(_) => Some(array.as_list::<i32>().value(row)),
        ArrowType::LargeList(_) => Some(array.as_list::<i64>().value(row)),
        _ => None,
    }
}
