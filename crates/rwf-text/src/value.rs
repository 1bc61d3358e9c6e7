use std::fmt;

use crate::Printer;
use crate::hex::{Ascii, Hex};
use rwf::container::Array;
use rwf::dictionary::EnumTable;
use rwf::{DataType, Primitive};

/// Bytes that fit beside a label; more go on lines of their own.
const INLINE: usize = 16;

impl Printer<'_, '_, '_> {
    /// The value of a primitive; ends the line. `table` explains enumerations.
    pub(super) fn primitive(&mut self, data_type: DataType, bytes: &[u8], table: Option<&EnumTable>) -> fmt::Result {
        match Primitive::decode(data_type, bytes) {
            Ok(Primitive::Buffer(bytes)) => self.bytes(bytes),
            Ok(Primitive::Array(array)) => self.array(&array, table),
            Ok(value) => writeln!(self.out, "{}", Value { value, table }),
            Err(error) => self.undecodable(error, bytes),
        }
    }

    /// Bytes of an unknown meaning; ends the line.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        if bytes.len() <= INLINE {
            return writeln!(self.out, "{}  |{}|", Hex(bytes), Ascii(bytes));
        }
        writeln!(self.out, "{} bytes", bytes.len())?;
        self.nested(|p| p.hex_lines(bytes))
    }

    fn array(&mut self, array: &Array<'_>, table: Option<&EnumTable>) -> fmt::Result {
        write!(self.out, "{} [", array.item_type)?;
        for (index, item) in array.values().enumerate() {
            self.out.write_str(if index == 0 { "" } else { ", " })?;
            match item {
                // An array cannot hold arrays.
                Ok(Primitive::Array(_)) => self.out.write_str("!! array in an array")?,
                Ok(Primitive::Buffer(bytes)) => write!(self.out, "{}", Hex(bytes))?,
                Ok(value) => write!(self.out, "{}", Value { value, table })?,
                Err(error) => write!(self.out, "!! {error}")?,
            }
        }
        writeln!(self.out, "]")
    }
}

/// A value on one line: text in quotes, enumerations with their display.
pub(super) struct Value<'a> {
    pub(super) value: Primitive<'a>,
    pub(super) table: Option<&'a EnumTable>,
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Primitive::Blank => f.write_str("blank"),
            Primitive::Enum(value) => match self.table.and_then(|table| table.value(value)) {
                Some(entry) => write!(f, "{value} {}", Quoted(&rwf::rmtes::to_utf8(entry.display()))),
                None => write!(f, "{value}"),
            },
            _ => match self.value.as_text() {
                Some(text) => write!(f, "{}", Quoted(&text)),
                None => write!(f, "{}", self.value),
            },
        }
    }
}

/// Text in quotes, on one line: control characters escaped, letters of all scripts as they are.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '\'' => f.write_char('\'')?,
                _ => write!(f, "{}", character.escape_debug())?,
            }
        }
        f.write_char('"')
    }
}
