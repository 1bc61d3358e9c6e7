//! Field lists and element lists: entries one behind the other in the form in which they are sent.

use super::{ApplyError, Schema};
use crate::container::{ElementListInfo, FieldListInfo};
use crate::rmtes::{self, RmtesCache};
use crate::wire::{Reader, Writer};
use crate::{DataType, ElementList, ElementListEncoder, EncodeError, FieldList, FieldListEncoder, Primitive};
use std::ops::Range;

/// Longest value in set form once it stands on its own.
const MAX_SET_VALUE: usize = 32;

/// A value as standard data has it, whatever form it came in.
fn standard<'a>(enc: DataType, data: &'a [u8], room: &'a mut [u8; MAX_SET_VALUE]) -> Result<&'a [u8], ApplyError> {
    if enc == DataType::UNKNOWN || enc == enc.base() {
        return Ok(data);
    }
    let value = Primitive::decode(enc, data)?;
    let mut w = Writer::new(room);
    value.encode(&mut w)?;
    Ok(w.into_written())
}

/// Puts `new` in the place of `old`, at the end if that is empty there.
fn splice(bytes: &mut Vec<u8>, old: Range<usize>, new: &[u8]) {
    if old.len() == new.len() {
        bytes[old].copy_from_slice(new);
    } else {
        bytes.splice(old, new.iter().copied());
    }
}

/// A field list.
#[derive(Debug, Default)]
pub(super) struct Fields {
    info: Option<FieldListInfo>,
    count: u16,
    /// Field id and length-prefixed value of each field.
    bytes: Vec<u8>,
}

impl Fields {
    /// Replaces the fields that `data` has, and appends those that are new.
    pub(super) fn apply(&mut self, data: &[u8], schema: &Schema<'_>) -> Result<(), ApplyError> {
        let list = FieldList::decode(data, &schema.sets)?;
        if list.is_set_skipped() {
            return Err(ApplyError::UnknownSet);
        }
        self.info = list.info.or(self.info);
        let first = self.bytes.is_empty();
        if first {
            self.bytes.reserve_exact(data.len());
        }
        let mut entry_bytes = Vec::new();
        // Updates name fields in the image's order as a rule: the search goes on behind the last one found.
        let mut cursor = 0;
        for entry in list.entries() {
            let entry = entry?;
            let mut room = [0; MAX_SET_VALUE];
            let value = standard(entry.enc, entry.data, &mut room)?;
            let found = if first {
                None
            } else {
                self.find(entry.fid, cursor..self.bytes.len()).or_else(|| self.find(entry.fid, 0..cursor))
            };
            let place = found.unwrap_or(self.bytes.len()..self.bytes.len());
            let partial = is_partial_text(entry.enc, &self.bytes[place.clone()], value);
            if let [_, _, length, held @ ..] = &mut self.bytes[place.clone()]
                && usize::from(*length) == value.len()
                && held.len() == value.len()
                && !partial
            {
                held.copy_from_slice(value);
                cursor = place.end;
                continue;
            }
            if place.is_empty() {
                self.count = self.count.checked_add(1).ok_or(ApplyError::TooLarge("more entries"))?;
            }
            if partial {
                let whole = changed_text(&self.bytes[place.clone()], value)?;
                write_field(&mut entry_bytes, entry.fid, whole.bytes())?;
            } else {
                write_field(&mut entry_bytes, entry.fid, value)?;
            }
            cursor = place.start + entry_bytes.len();
            splice(&mut self.bytes, place, &entry_bytes);
        }
        Ok(())
    }

    /// The entry of a field within a range that begins and ends between entries.
    fn find(&self, fid: i16, range: Range<usize>) -> Option<Range<usize>> {
        let wanted = fid.to_be_bytes();
        let mut at = range.start;
        while at < range.end {
            let bytes = &self.bytes[at..range.end];
            let length = match bytes {
                [_, _, short @ 0..0xFE, ..] => 3 + usize::from(*short),
                [_, _, _, hi, lo, ..] => 5 + usize::from(u16::from_be_bytes([*hi, *lo])),
                _ => return None,
            };
            if bytes[..2] == wanted {
                return Some(at..at + length);
            }
            at += length;
        }
        None
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut list = FieldListEncoder::begin(w)?;
        if let Some(info) = self.info {
            list.info(info)?;
        }
        list.begin_standard()?;
        list.finish_bare();
        let count_at = w.position() - 2;
        w.patch_u16(count_at, self.count);
        w.bytes(&self.bytes)
    }
}

/// True if a value names parts of the text that is held in a field's entry. Types are not known here: it is so if nothing of both
/// speaks against it. A number may begin with the same bytes.
fn is_partial_text(enc: DataType, entry: &[u8], value: &[u8]) -> bool {
    let text = enc == DataType::UNKNOWN || enc.base() == DataType::RMTES_STRING;
    let held = || {
        let mut r = Reader::new(entry, "held field");
        r.i16().and_then(|_| r.buf16())
    };
    text && rmtes::is_partial(value) && held().is_ok_and(|held| rmtes::decode(held).is_ok())
}

/// The held text of a field's entry with the parts replaced that an update names. Types are not known here; only RMTES has
/// sequences that say so.
fn changed_text(entry: &[u8], update: &[u8]) -> Result<RmtesCache, ApplyError> {
    let mut r = Reader::new(entry, "held field");
    r.i16()?;
    let mut text = RmtesCache::new();
    text.apply(r.buf16()?)?;
    text.apply(update)?;
    Ok(text)
}

fn write_field(out: &mut Vec<u8>, fid: i16, value: &[u8]) -> Result<(), ApplyError> {
    out.clear();
    out.extend_from_slice(&fid.to_be_bytes());
    write_ob16(out, value)
}

fn write_ob16(out: &mut Vec<u8>, value: &[u8]) -> Result<(), ApplyError> {
    let length = u16::try_from(value.len()).map_err(|_| ApplyError::TooLarge("a longer value"))?;
    if length < 0xFE {
        out.push(length as u8);
    } else {
        out.push(0xFE);
        out.extend_from_slice(&length.to_be_bytes());
    }
    out.extend_from_slice(value);
    Ok(())
}

/// An element list.
#[derive(Debug, Default)]
pub(super) struct Elements {
    info: Option<ElementListInfo>,
    count: u16,
    /// Name, type and value of each element.
    bytes: Vec<u8>,
}

impl Elements {
    /// Replaces the elements that `data` has, and appends those that are new.
    pub(super) fn apply(&mut self, data: &[u8], schema: &Schema<'_>) -> Result<(), ApplyError> {
        let list = ElementList::decode(data, &schema.sets)?;
        if list.is_set_skipped() {
            return Err(ApplyError::UnknownSet);
        }
        self.info = list.info.or(self.info);
        let mut entry_bytes = Vec::new();
        for entry in list.entries() {
            let entry = entry?;
            let mut room = [0; MAX_SET_VALUE];
            let value = standard(entry.data_type, entry.data, &mut room)?;
            write_element(&mut entry_bytes, entry.name, entry.data_type.base(), value)?;
            let place = self.find(entry.name)?.unwrap_or(self.bytes.len()..self.bytes.len());
            if place.is_empty() {
                self.count = self.count.checked_add(1).ok_or(ApplyError::TooLarge("more entries"))?;
            }
            splice(&mut self.bytes, place, &entry_bytes);
        }
        Ok(())
    }

    fn find(&self, name: &[u8]) -> Result<Option<Range<usize>>, ApplyError> {
        let mut r = Reader::new(&self.bytes, "held element list");
        while !r.is_empty() {
            let start = r.offset();
            let found = r.buf15()? == name;
            if DataType(r.u8()?) != DataType::NO_DATA {
                r.buf16()?;
            }
            if found {
                return Ok(Some(start..r.offset()));
            }
        }
        Ok(None)
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut list = ElementListEncoder::begin(w)?;
        if let Some(info) = self.info {
            list.info(info)?;
        }
        list.finish()?;
        let count_at = w.position() - 2;
        w.patch_u16(count_at, self.count);
        w.bytes(&self.bytes)
    }
}

fn write_element(out: &mut Vec<u8>, name: &[u8], data_type: DataType, value: &[u8]) -> Result<(), ApplyError> {
    out.clear();
    match u16::try_from(name.len()) {
        Ok(short @ 0..0x80) => out.push(short as u8),
        Ok(length @ 0x80..0x8000) => out.extend_from_slice(&(0x8000 | length).to_be_bytes()),
        _ => return Err(ApplyError::TooLarge("a longer value")),
    }
    out.extend_from_slice(name);
    out.push(data_type.0);
    if data_type == DataType::NO_DATA { Ok(()) } else { write_ob16(out, value) }
}
