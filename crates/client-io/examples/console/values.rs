//! Fields as columns `NAME=VALUE`.

use client::fields::{self, fields};
use rwf::dictionary::Dictionary;
use rwf::{DataType, Primitive};
use std::error::Error;
use std::fmt::Write as _;

/// A field list of columns: numbers for fields of numbers, text for others, nothing for a blank.
pub(crate) fn written(columns: &[&str], dictionary: &Dictionary) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut values = Vec::new();
    for column in columns {
        let (name, text) = column.split_once('=').ok_or_else(|| format!("{column} is not NAME=VALUE"))?;
        let is_text = dictionary.field_named(name).is_none_or(|field| {
            matches!(field.data_type(), DataType::RMTES_STRING | DataType::ASCII_STRING | DataType::UTF8_STRING)
        });
        let value = match text {
            "" => Primitive::Blank,
            text if is_text => Primitive::Utf8(text.as_bytes()),
            text => Primitive::Double(text.parse().map_err(|e| format!("{column}: {e}"))?),
        };
        values.push((name, value));
    }
    let mut body = Vec::new();
    fields::write(dictionary, &values, &mut body)?;
    Ok(body)
}

/// The fields of a payload, each behind a tab; of other data the text that all data have.
pub(crate) fn columns(container: DataType, body: &[u8], dictionary: &Dictionary) -> String {
    let mut out = String::new();
    if container != DataType::FIELD_LIST {
        let text = rwf_text::container(container, body, Some(dictionary)).to_string();
        let _ = write!(out, "\t{}", text.escape_debug());
        return out;
    }
    for field in fields(body, dictionary) {
        let written = match field.and_then(|field| field.value().map(|value| (field.name(), value))) {
            Ok((name, value)) => write!(out, "\t{name}={}", value.to_string().escape_debug()),
            Err(error) => write!(out, "\tmalformed: {error}"),
        };
        // A string takes all that is written.
        let _ = written;
    }
    out
}
