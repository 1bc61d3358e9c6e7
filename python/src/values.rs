//! Values of fields as Python's, and back.

use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDate, PyDateTime, PyFloat, PyInt, PyString, PyTime, PyTzInfo};
use rwf::dictionary::Dictionary;
use rwf::{Date, DateTime, Primitive, Time};

fn microseconds(time: Time) -> u32 {
    let or_zero = |part: u16| if part == 0xffff { 0 } else { u32::from(part) };
    or_zero(time.millisecond) * 1_000 + or_zero(time.microsecond).min(999)
}

fn second(time: Time) -> u8 {
    // A leap second has no place in Python's times.
    if time.second == 0xff { 0 } else { time.second.min(59) }
}

/// Text of an enumeration's number: displays are RMTES, arrows of ticks among them.
pub(crate) fn display(dictionary: &Dictionary, fid: i16, number: u16) -> Option<String> {
    let display = dictionary.enum_display(fid, number)?;
    Some(Primitive::Rmtes(display).as_text()?.trim_end().to_owned())
}

/// A value of a field: numbers as `float` or `int`, enumerations as their display, blanks as `None`, times without what is below a microsecond.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    dictionary: &Dictionary,
    fid: i16,
    value: &Primitive<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    match *value {
        Primitive::Blank => Ok(py.None().into_bound(py)),
        Primitive::Real(v) => v.to_f64().into_bound_py_any(py),
        Primitive::Double(v) => v.into_bound_py_any(py),
        Primitive::Float(v) => v.into_bound_py_any(py),
        Primitive::Int(v) => v.into_bound_py_any(py),
        Primitive::UInt(v) => v.into_bound_py_any(py),
        Primitive::Enum(v) => match display(dictionary, fid, v) {
            Some(display) => display.into_bound_py_any(py),
            None => v.into_bound_py_any(py),
        },
        Primitive::Date(Date { year, month, day }) if month > 0 && day > 0 && year > 0 => {
            PyDate::new(py, i32::from(year), month, day)?.into_bound_py_any(py)
        }
        Primitive::Time(t) => {
            PyTime::new(py, t.hour, t.minute, second(t), microseconds(t), None)?.into_bound_py_any(py)
        }
        Primitive::DateTime(DateTime { date, time }) if date.month > 0 && date.day > 0 && date.year > 0 => {
            let t = time;
            let utc = PyTzInfo::utc(py)?;
            let utc = utc.to_owned();
            let (year, us) = (i32::from(date.year), microseconds(t));
            PyDateTime::new(py, year, date.month, date.day, t.hour, t.minute, second(t), us, Some(&utc))?
                .into_bound_py_any(py)
        }
        Primitive::Buffer(bytes) => PyBytes::new(py, bytes).into_bound_py_any(py),
        ref other => match other.as_text() {
            Some(text) => text.into_bound_py_any(py),
            None => other.to_string().into_bound_py_any(py),
        },
    }
}

/// A value that Python gives for a field, owned.
pub(crate) enum Given {
    Blank,
    Int(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    Date(Date),
    Time(Time),
    DateTime(DateTime),
}

impl Given {
    pub(crate) fn of(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        if value.is_none() {
            return Ok(Self::Blank);
        }
        if value.is_instance_of::<PyBool>() {
            return Ok(Self::Int(i64::from(value.extract::<bool>()?)));
        }
        if value.is_instance_of::<PyInt>() {
            return Ok(Self::Int(value.extract()?));
        }
        if value.is_instance_of::<PyFloat>() {
            let number: f64 = value.extract()?;
            // Data frames write what is missing so.
            return Ok(if number.is_nan() { Self::Blank } else { Self::Float(number) });
        }
        if value.is_instance_of::<PyString>() {
            return Ok(Self::Text(value.extract()?));
        }
        if value.is_instance_of::<PyBytes>() {
            return Ok(Self::Bytes(value.extract()?));
        }
        let part = |name: &str| value.getattr(name).and_then(|part| part.extract::<u32>());
        let date =
            || -> PyResult<Date> { Ok(Date::new(part("year")? as u16, part("month")? as u8, part("day")? as u8)) };
        let time = || -> PyResult<Time> {
            let us = part("microsecond")?;
            Ok(Time {
                millisecond: (us / 1_000) as u16,
                microsecond: (us % 1_000) as u16,
                nanosecond: 0,
                ..Time::new(part("hour")? as u8, part("minute")? as u8, part("second")? as u8)
            })
        };
        if value.is_instance_of::<PyDateTime>() {
            return Ok(Self::DateTime(DateTime { date: date()?, time: time()? }));
        }
        if value.is_instance_of::<PyDate>() {
            return Ok(Self::Date(date()?));
        }
        if value.is_instance_of::<PyTime>() {
            return Ok(Self::Time(time()?));
        }
        // Scalars of numpy and the like know how to be numbers.
        if let Ok(number) = value.extract::<f64>() {
            return Ok(if number.is_nan() { Self::Blank } else { Self::Float(number) });
        }
        let kind = value.get_type().name()?;
        Err(PyTypeError::new_err(format!(
            "{name}: a {kind} is no value of a field; give a number, text, date, time or None"
        )))
    }

    pub(crate) fn as_primitive(&self) -> Primitive<'_> {
        match self {
            Self::Blank => Primitive::Blank,
            Self::Int(v) => Primitive::Int(*v),
            Self::Float(v) => Primitive::Double(*v),
            Self::Text(text) => Primitive::Utf8(text.as_bytes()),
            Self::Bytes(bytes) => Primitive::Buffer(bytes),
            Self::Date(v) => Primitive::Date(*v),
            Self::Time(v) => Primitive::Time(*v),
            Self::DateTime(v) => Primitive::DateTime(*v),
        }
    }
}
