//! Reader of the two dictionary file formats, `RDMFieldDictionary` and `enumtype.def`.
//!
//! Both are line oriented: `!tag NAME VALUE` lines carry the properties of the file, other `!` lines are comments. A field
//! line is `ACRONYM "LONG NAME" FID RIPPLES-TO TYPE LENGTH [( ENUM-LENGTH )] RWF-TYPE RWF-LENGTH`. An enumeration file is a
//! row of tables: `ACRONYM FID` lines name the fields, then `VALUE "DISPLAY" MEANING` lines list the values, where the
//! display may also be hexadecimal bytes between two `#`.

use super::{DictionaryError, EnumValue, Fault, MarketfeedType, Place};
use crate::DataType;

/// A field line, its ripple still a name.
pub(super) struct FieldLine<'a> {
    pub(super) line: u32,
    pub(super) acronym: &'a str,
    pub(super) long_name: &'a str,
    pub(super) fid: i16,
    pub(super) ripples_to: Option<&'a str>,
    pub(super) marketfeed_type: MarketfeedType,
    pub(super) length: u16,
    pub(super) enum_length: u8,
    pub(super) data_type: DataType,
    pub(super) rwf_length: u16,
}

/// An enumeration table with the fields that use it.
pub(super) struct EnumTableLines<'a> {
    pub(super) line: u32,
    pub(super) fields: Vec<(i16, &'a str)>,
    pub(super) values: Vec<EnumValue>,
}

/// The `!tag` lines of a file, in order.
pub(super) type Tags<'a> = Vec<(u32, &'a str, &'a str)>;

pub(super) fn fields<'a>(origin: &str, text: &'a [u8]) -> Result<(Tags<'a>, Vec<FieldLine<'a>>), DictionaryError> {
    let mut tags = Vec::new();
    let mut out = Vec::with_capacity(text.len() / 128);
    for_each_line(origin, text, &mut tags, |line, columns| {
        let acronym = columns.word("acronym")?;
        let long_name = columns.quoted("long name")?;
        let fid = columns.fid()?;
        let ripples_to = match columns.word("ripples to")? {
            "NULL" => None,
            other => Some(other),
        };
        let name = columns.word("field type")?;
        let marketfeed_type = MarketfeedType::from_name(name).ok_or_else(|| Fault::UnknownType(name.to_owned()))?;
        let length = columns.number("length")?;
        let enum_length = columns.parenthesised("enum length")?;
        let name = columns.word("RWF type")?;
        let data_type = data_type(name).ok_or_else(|| Fault::UnknownType(name.to_owned()))?;
        let rwf_length = columns.number("RWF length")?;
        out.push(FieldLine {
            line,
            acronym,
            long_name,
            fid,
            ripples_to,
            marketfeed_type,
            length,
            enum_length,
            data_type,
            rwf_length,
        });
        Ok(())
    })?;
    Ok((tags, out))
}

pub(super) fn enums<'a>(origin: &str, text: &'a [u8]) -> Result<(Tags<'a>, Vec<EnumTableLines<'a>>), DictionaryError> {
    let mut tags = Vec::new();
    let mut tables: Vec<EnumTableLines<'a>> = Vec::new();
    for_each_line(origin, text, &mut tags, |line, columns| {
        // Acronyms may begin with a digit, too.
        if columns.rest.iter().take_while(|byte| !byte.is_ascii_whitespace()).all(u8::is_ascii_digit) {
            let value = columns.number("enum value")?;
            let display = columns.display()?;
            let meaning = columns.remainder();
            let table = tables.last_mut().ok_or(Fault::TableWithoutField)?;
            table.values.push(EnumValue { value, display: display.into(), meaning: meaning.into() });
            return Ok(());
        }
        let acronym = columns.word("acronym")?;
        if acronym.starts_with(['"', '#', '-']) {
            return Err(Fault::Missing("acronym or enum value"));
        }
        let fid = columns.fid()?;
        match tables.last_mut() {
            Some(table) if table.values.is_empty() => table.fields.push((fid, acronym)),
            _ => tables.push(EnumTableLines { line, fields: vec![(fid, acronym)], values: Vec::new() }),
        }
        Ok(())
    })?;
    if let Some(table) = tables.last().filter(|table| table.values.is_empty()) {
        return Err(DictionaryError::new(origin, Place::Line(table.line), Fault::Missing("enum value")));
    }
    Ok((tags, tables))
}

/// Calls `parse` with each line that is neither blank nor a comment, and collects the tags.
fn for_each_line<'a>(
    origin: &str,
    text: &'a [u8],
    tags: &mut Tags<'a>,
    mut parse: impl FnMut(u32, &mut Columns<'a>) -> Result<(), Fault>,
) -> Result<(), DictionaryError> {
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let number = index as u32 + 1;
        let mut columns = Columns { rest: line.trim_ascii() };
        let result = if let Some(tag) = columns.rest.strip_prefix(b"!tag") {
            columns.rest = tag;
            columns.word("tag name").map(|name| tags.push((number, name, columns.remainder())))
        } else if columns.rest.is_empty() || columns.rest[0] == b'!' {
            Ok(())
        } else {
            parse(number, &mut columns)
        };
        result.map_err(|fault| DictionaryError::new(origin, Place::Line(number), fault))?;
    }
    Ok(())
}

/// What is left of a line.
struct Columns<'a> {
    rest: &'a [u8],
}

impl<'a> Columns<'a> {
    fn word(&mut self, column: &'static str) -> Result<&'a str, Fault> {
        let rest = self.rest.trim_ascii_start();
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        if word.is_empty() {
            return Err(Fault::Missing(column));
        }
        str::from_utf8(word).map_err(|_| Fault::NotText(column))
    }

    fn quoted(&mut self, column: &'static str) -> Result<&'a str, Fault> {
        let text = self.delimited(b'"').ok_or(Fault::Missing(column))?;
        str::from_utf8(text).map_err(|_| Fault::NotText(column))
    }

    fn delimited(&mut self, delimiter: u8) -> Option<&'a [u8]> {
        let rest = self.rest.trim_ascii_start().strip_prefix(&[delimiter])?;
        let end = rest.iter().position(|byte| *byte == delimiter)?;
        self.rest = &rest[end + 1..];
        Some(&rest[..end])
    }

    fn number<T: TryFrom<i64>>(&mut self, column: &'static str) -> Result<T, Fault> {
        let word = self.word(column)?;
        parse(word).ok_or_else(|| Fault::BadNumber { column, text: word.to_owned() })
    }

    fn fid(&mut self) -> Result<i16, Fault> {
        match self.number("field id")? {
            0 => Err(Fault::ReservedFid),
            fid => Ok(fid),
        }
    }

    /// A number in parentheses, 0 when there is none.
    fn parenthesised(&mut self, column: &'static str) -> Result<u8, Fault> {
        let Some(rest) = self.rest.trim_ascii_start().strip_prefix(b"(") else {
            return Ok(0);
        };
        let end = rest.iter().position(|byte| *byte == b')').ok_or(Fault::Missing("closing parenthesis"))?;
        self.rest = &rest[end + 1..];
        let text = str::from_utf8(rest[..end].trim_ascii()).map_err(|_| Fault::NotText(column))?;
        parse(text).filter(|length| *length != 0).ok_or_else(|| Fault::BadNumber { column, text: text.to_owned() })
    }

    fn display(&mut self) -> Result<Vec<u8>, Fault> {
        if let Some(text) = self.delimited(b'"') {
            return Ok(text.to_vec());
        }
        let digits = self.delimited(b'#').ok_or(Fault::Missing("display"))?;
        if digits.is_empty() || digits.len() % 2 != 0 {
            return Err(Fault::BadHex);
        }
        digits
            .chunks_exact(2)
            .map(|pair| Some(hex_digit(pair[0])? << 4 | hex_digit(pair[1])?))
            .collect::<Option<_>>()
            .ok_or(Fault::BadHex)
    }

    /// The rest of the line; text that is not UTF-8 counts as absent, as it only describes.
    fn remainder(&mut self) -> &'a str {
        str::from_utf8(std::mem::take(&mut self.rest).trim_ascii()).unwrap_or_default()
    }
}

fn parse<T: TryFrom<i64>>(word: &str) -> Option<T> {
    word.parse::<i64>().ok().and_then(|number| T::try_from(number).ok())
}

fn hex_digit(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).map(|digit| digit as u8)
}

/// The type of an RWF type name. The widths of older files (`UINT64`, `REAL32`) only say how much to cache.
fn data_type(name: &str) -> Option<DataType> {
    Some(match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "INT" => DataType::INT,
        "UINT" => DataType::UINT,
        "REAL" => DataType::REAL,
        "FLOAT" => DataType::FLOAT,
        "DOUBLE" => DataType::DOUBLE,
        "DATE" => DataType::DATE,
        "TIME" => DataType::TIME,
        "DATETIME" | "DATE_TIME" => DataType::DATETIME,
        "QOS" => DataType::QOS,
        "STATE" | "STATUS" => DataType::STATE,
        "ENUM" => DataType::ENUM,
        "ARRAY" => DataType::ARRAY,
        "BUFFER" => DataType::BUFFER,
        "ASCII_STRING" => DataType::ASCII_STRING,
        "UTF8_STRING" => DataType::UTF8_STRING,
        "RMTES_STRING" => DataType::RMTES_STRING,
        "OPAQUE" => DataType::OPAQUE,
        "XML" => DataType::XML,
        "FIELD_LIST" => DataType::FIELD_LIST,
        "ELEMENT_LIST" | "ELEM_LIST" => DataType::ELEMENT_LIST,
        "ANSI_PAGE" => DataType::ANSI_PAGE,
        "FILTER_LIST" => DataType::FILTER_LIST,
        "VECTOR" => DataType::VECTOR,
        "MAP" => DataType::MAP,
        "SERIES" => DataType::SERIES,
        "MSG" => DataType::MSG,
        "JSON" => DataType::JSON,
        _ => return None,
    })
}
