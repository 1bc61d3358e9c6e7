//! Dictionaries as the payload of dictionary refreshes: a series of element lists, split into parts that fit a buffer.
//!
//! Both kinds define set 0 in the message and then send bare values. What decides where a part ends is the rule of the
//! SDK's encoder, so that parts come out byte for byte as from an SDK provider.

use super::{Dictionary, EnumTable, EnumValue, FieldDef, TYPE_ENUMS, TYPE_FIELDS};
use crate::wire::{LenForm, Writer};
use crate::{DataType, EncodeError};

const HAS_SET_DEFS: u8 = 0x01;
const HAS_SUMMARY: u8 = 0x02;
const HAS_COUNT_HINT: u8 = 0x04;

/// Element list with set data, set 0 understood.
const SET_DATA: u8 = 0x02;
/// Element list with set data and a set id.
const SET_DATA_AND_ID: u8 = 0x06;
/// Element list with plain elements.
const STANDARD_DATA: u8 = 0x08;

const FIELD_SET: [(&str, DataType); 9] = [
    ("NAME", DataType::ASCII_STRING),
    ("FID", DataType::INT_2),
    ("RIPPLETO", DataType::INT_2),
    ("TYPE", DataType::INT_1),
    ("LENGTH", DataType::UINT_2),
    ("RWFTYPE", DataType::UINT_1),
    ("RWFLEN", DataType::UINT_2),
    ("ENUMLENGTH", DataType::UINT_1),
    ("LONGNAME", DataType::ASCII_STRING),
];
const ENUM_SET: [(&str, DataType); 3] =
    [("FIDS", DataType::ARRAY), ("VALUE", DataType::ARRAY), ("DISPLAY", DataType::ARRAY)];

/// How much of a dictionary is wanted: the filter of a dictionary request (ETA `Dictionary.VerbosityValues`). It counts by
/// size, any value between two of these works like the lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Verbosity(pub u32);

impl Verbosity {
    /// Versions only.
    pub const INFO: Self = Self(0);
    /// What decoding and caching need: without long names and lengths of enumerations.
    pub const MINIMAL: Self = Self(3);
    /// Everything but descriptions.
    pub const NORMAL: Self = Self(7);
    /// Everything; encoded like [`Verbosity::NORMAL`], as the SDK does.
    pub const VERBOSE: Self = Self(15);

    fn has_entries(self) -> bool {
        self > Self::INFO
    }

    /// The elements of each field definition.
    fn field_set(self) -> &'static [(&'static str, DataType)] {
        if self >= Self::NORMAL { &FIELD_SET } else { &FIELD_SET[..7] }
    }
}

/// Writes the field definitions of a dictionary, part by part.
#[derive(Debug, Clone)]
pub struct FieldParts<'d> {
    dictionary: &'d Dictionary,
    verbosity: Verbosity,
    /// The next field id to look at; over `i16::MAX` when all are written.
    next: i32,
    started: bool,
}

/// Writes the enumerations of a dictionary, part by part.
#[derive(Debug, Clone)]
pub struct EnumParts<'d> {
    dictionary: &'d Dictionary,
    verbosity: Verbosity,
    next: usize,
}

impl Dictionary {
    /// The field definitions as payload of dictionary refreshes.
    pub fn field_parts(&self, verbosity: Verbosity) -> FieldParts<'_> {
        FieldParts { dictionary: self, verbosity, next: i16::MIN.into(), started: false }
    }

    /// The enumerations as payload of dictionary refreshes.
    pub fn enum_parts(&self, verbosity: Verbosity) -> EnumParts<'_> {
        EnumParts { dictionary: self, verbosity, next: 0 }
    }
}

impl FieldParts<'_> {
    /// Writes the next part, a series, into the room that is left, and says whether it is the last.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`] when there is not room for one definition; nothing is written then.
    pub fn write(&mut self, w: &mut Writer<'_>) -> Result<bool, EncodeError> {
        let start = w.position();
        let result = self.write_part(w);
        if result.is_err() {
            w.rollback(start);
        }
        result
    }

    fn write_part(&mut self, w: &mut Writer<'_>) -> Result<bool, EncodeError> {
        let first = !self.started;
        let defs = self.verbosity.has_entries();
        w.u8(flag(defs, HAS_SET_DEFS)
            | flag(first, HAS_SUMMARY)
            | flag(first && !self.dictionary.is_empty(), HAS_COUNT_HINT))?;
        w.u8(DataType::ELEMENT_LIST.wire_container())?;
        if defs {
            set_definition(w, self.verbosity.field_set())?;
        }
        if first {
            let properties = &self.dictionary.properties;
            summary(w, TYPE_FIELDS, properties.dictionary_id, &[("Version", &properties.field_version)])?;
            if !self.dictionary.is_empty() {
                w.u30(self.dictionary.len() as u32)?;
            }
        }
        let count_at = w.reserve_u16()?;
        let mut count = 0;
        let mut next = self.next;
        while defs && next <= i16::MAX.into() {
            if let Some(field) = self.dictionary.field(next as i16) {
                if !fits(w, field) || count == u16::MAX {
                    break;
                }
                self.entry(w, field)?;
                count += 1;
            }
            next += 1;
        }
        let last = !defs || next > i16::MAX.into();
        if count == 0 && !last {
            return Err(EncodeError::BufferFull);
        }
        w.patch_u16(count_at, count);
        self.next = next;
        self.started = true;
        Ok(last)
    }

    fn entry(&self, w: &mut Writer<'_>, field: &FieldDef) -> Result<(), EncodeError> {
        let form = if max_entry_len(field) < 0xFE { LenForm::Shortest } else { LenForm::Long };
        let entry = w.begin_ob16(form)?;
        w.u8(SET_DATA)?;
        w.buf16(field.acronym.as_bytes())?;
        w.i16(field.fid)?;
        w.i16(field.ripples_to)?;
        w.u8(field.marketfeed_type.0 as u8)?;
        w.u16(field.length)?;
        w.u8(field.data_type.0)?;
        w.u16(field.rwf_length)?;
        if self.verbosity >= Verbosity::NORMAL {
            w.u8(field.enum_length)?;
            w.buf16(field.long_name.as_bytes())?;
        }
        w.end_ob16(entry)
    }
}

/// The SDK asks for three bytes more than the most that an entry can take.
fn fits(w: &Writer<'_>, field: &FieldDef) -> bool {
    3 + max_entry_len(field) <= w.remaining()
}

/// Names, fixed values, flags and the two lengths of names, at the highest verbosity.
fn max_entry_len(field: &FieldDef) -> usize {
    field.acronym.len() + field.long_name.len() + 14
}

impl EnumParts<'_> {
    /// Writes the next part, a series, into the room that is left, and says whether it is the last.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`] when there is not room for one table, which cannot be split; nothing is written then.
    pub fn write(&mut self, w: &mut Writer<'_>) -> Result<bool, EncodeError> {
        let start = w.position();
        let result = self.write_part(w);
        if result.is_err() {
            w.rollback(start);
        }
        result
    }

    fn write_part(&mut self, w: &mut Writer<'_>) -> Result<bool, EncodeError> {
        let defs = self.verbosity.has_entries();
        w.u8(flag(defs, HAS_SET_DEFS) | HAS_SUMMARY)?;
        w.u8(DataType::ELEMENT_LIST.wire_container())?;
        if defs {
            set_definition(w, &ENUM_SET)?;
        }
        let properties = &self.dictionary.properties;
        let (rt, dt) = (&properties.enum_rt_version, &properties.enum_dt_version);
        summary(w, TYPE_ENUMS, properties.dictionary_id, &[("RT_Version", rt), ("DT_Version", dt), ("Version", dt)])?;
        let count_at = w.reserve_u16()?;
        let tables = if defs { self.dictionary.tables.get(self.next..).unwrap_or_default() } else { &[] };
        let mut count: u16 = 0;
        for table in tables {
            let start = w.position();
            match write_table(w, table) {
                Ok(()) => count += 1,
                Err(EncodeError::BufferFull) if count > 0 => {
                    w.rollback(start);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        w.patch_u16(count_at, count);
        self.next += usize::from(count);
        Ok(usize::from(count) == tables.len())
    }
}

fn write_table(w: &mut Writer<'_>, table: &EnumTable) -> Result<(), EncodeError> {
    let entry = w.begin_ob16(LenForm::Long)?;
    w.u8(SET_DATA_AND_ID)?;
    w.u8(0)?;
    array(w, DataType::INT, 2, table.fids.len(), table.fids.iter(), |w, fid| w.i16(*fid))?;
    let values = &table.values;
    array(w, DataType::ENUM, 0, values.len(), values.iter(), |w, entry| match u8::try_from(entry.value) {
        Ok(value) => w.buf16(&[value]),
        Err(_) => w.buf16(&entry.value.to_be_bytes()),
    })?;
    array(w, display_type(values), 0, values.len(), values.iter(), |w, entry| w.buf16(&entry.display))?;
    w.end_ob16(entry)
}

/// The narrowest text type that holds all displays.
fn display_type(values: &[EnumValue]) -> DataType {
    let mut narrowest = DataType::ASCII_STRING;
    for value in values {
        match str::from_utf8(&value.display) {
            Ok(text) if text.is_ascii() => {}
            Ok(_) => narrowest = DataType::UTF8_STRING,
            Err(_) => return DataType::RMTES_STRING,
        }
    }
    narrowest
}

fn array<T>(
    w: &mut Writer<'_>,
    data_type: DataType,
    item_len: u8,
    count: usize,
    items: impl Iterator<Item = T>,
    write: impl Fn(&mut Writer<'_>, T) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let max = usize::from(u16::MAX);
    let count = u16::try_from(count).map_err(|_| EncodeError::TooLong { what: "array", len: count, max })?;
    let element = w.begin_ob16(LenForm::Long)?;
    w.u8(data_type.0)?;
    w.u8(item_len)?;
    w.u16(count)?;
    for item in items {
        write(w, item)?;
    }
    w.end_ob16(element)
}

/// A block that defines set 0.
fn set_definition(w: &mut Writer<'_>, elements: &[(&str, DataType)]) -> Result<(), EncodeError> {
    let block = w.begin_rb15(LenForm::Long)?;
    // No flags, one definition, set id 0, then its entries.
    w.array([0, 1, 0, elements.len() as u8])?;
    for (name, data_type) in elements {
        w.buf15(name.as_bytes())?;
        w.u8(data_type.0)?;
    }
    w.end_rb15(block)
}

fn summary(w: &mut Writer<'_>, kind: i64, dictionary_id: i16, versions: &[(&str, &String)]) -> Result<(), EncodeError> {
    let block = w.begin_rb15(LenForm::Long)?;
    w.u8(STANDARD_DATA)?;
    w.u16(2 + versions.len() as u16)?;
    number(w, "Type", kind as i16)?;
    number(w, "DictionaryId", dictionary_id)?;
    for (name, version) in versions {
        w.buf15(name.as_bytes())?;
        w.u8(DataType::ASCII_STRING.0)?;
        w.buf16(version.as_bytes())?;
    }
    w.end_rb15(block)
}

fn number(w: &mut Writer<'_>, name: &str, value: i16) -> Result<(), EncodeError> {
    w.buf15(name.as_bytes())?;
    w.u8(DataType::INT.0)?;
    match i8::try_from(value) {
        Ok(value) => w.buf16(&[value as u8]),
        Err(_) => w.buf16(&value.to_be_bytes()),
    }
}

fn flag(on: bool, bit: u8) -> u8 {
    if on { bit } else { 0 }
}
