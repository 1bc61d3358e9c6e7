//! Values of fields, as C gives them.

use crate::arguments::{list, text};
use crate::error::{Code, Failure};
use client::fields;
use rwf::Primitive;
use rwf::dictionary::Dictionary;
use std::ffi::{c_char, c_double};

/// `qw_value_t`.
#[repr(C)]
pub struct QwValue {
    name: *const c_char,
    kind: i32,
    reserved: i32,
    integer: i64,
    number: c_double,
    text: *const c_char,
}

/// Fields by name.
///
/// # Safety
/// `values` has `count` whole values with texts that end with a NUL, all valid and not written for `'a`.
pub(crate) unsafe fn named<'a>(values: *const QwValue, count: usize) -> Result<Vec<(&'a str, Primitive<'a>)>, Failure> {
    // SAFETY: by this function's contract.
    let values = unsafe { list(values, count, "values") }?;
    let mut named = Vec::with_capacity(values.len());
    for value in values {
        // SAFETY: likewise.
        let name = unsafe { text(value.name, "the name of a value") }?;
        let primitive = match value.kind {
            0 => Primitive::Blank,
            1 => Primitive::Int(value.integer),
            2 => Primitive::Double(value.number),
            // SAFETY: likewise.
            3 => Primitive::Utf8(unsafe { text(value.text, name) }?.as_bytes()),
            other => return Err(Failure::new(Code::Invalid, format!("{name}: {other} is no type of a value"))),
        };
        named.push((name, primitive));
    }
    Ok(named)
}

/// A field list of values.
///
/// # Safety
/// As for [`named`].
pub(crate) unsafe fn field_list(
    dictionary: &Dictionary,
    values: *const QwValue,
    count: usize,
) -> Result<Vec<u8>, Failure> {
    // SAFETY: by this function's contract.
    let named = unsafe { named(values, count) }?;
    let mut body = Vec::new();
    fields::write(dictionary, &named, &mut body).map_err(|e| Failure::new(Code::Field, e.to_string()))?;
    Ok(body)
}
