//! Field lists and element lists: entries one behind the other in the form in which they are sent.

use super::{ApplyError, Schema};
use crate::container::{ElementListInfo, FieldListInfo};
use crate::dictionary::{Dictionary, FieldDef};
use crate::rmtes::{self, RmtesCache};
use crate::wire::{Reader, Writer};
use crate::{
    DataType, ElementList, ElementListEncoder, EncodeError, FieldEntry, FieldList, FieldListEncoder, Primitive,
};
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

/// Spare room that a list gets when it has to grow: an eighth, so that memory stays near what is held.
fn spare(len: usize) -> usize {
    len / 8 + 8
}

/// Gives the bytes at `old` another length; at the end if that is empty there. What is in them then is not specified. Nothing
/// is allocated as long as the capacity is enough.
fn resize_at(bytes: &mut Vec<u8>, old: &Range<usize>, len: usize) {
    let end = bytes.len();
    if len > old.len() {
        let more = len - old.len();
        if bytes.capacity() - end < more {
            bytes.reserve_exact(more.max(spare(end)));
        }
        bytes.resize(end + more, 0);
        bytes.copy_within(old.end..end, old.end + more);
    } else {
        bytes.copy_within(old.end.., old.start + len);
        bytes.truncate(end - (old.len() - len));
    }
}

/// Puts `new` in the place of `old`, at the end if that is empty there.
fn splice(bytes: &mut Vec<u8>, old: Range<usize>, new: &[u8]) {
    resize_at(bytes, &old, new.len());
    bytes[old.start..old.start + new.len()].copy_from_slice(new);
}

/// A field list.
#[derive(Debug, Default)]
pub(super) struct Fields {
    info: Option<FieldListInfo>,
    count: u16,
    /// Field id and length-prefixed value of each field.
    bytes: Vec<u8>,
}

/// Most fields that a value passes through when it ripples; the longest chain of the published dictionaries has five.
const MAX_RIPPLE: usize = 16;

impl Fields {
    /// Forgets all fields, but not the memory for them.
    pub(super) fn clear(&mut self) {
        self.info = None;
        self.count = 0;
        self.bytes.clear();
    }

    /// Replaces the fields that `data` has, and appends those that are new. In an update, fields ripple first.
    pub(super) fn apply(&mut self, data: &[u8], schema: &Schema<'_>, refresh: bool) -> Result<(), ApplyError> {
        let list = FieldList::decode(data, &schema.sets)?;
        if list.is_set_skipped() {
            return Err(ApplyError::UnknownSet);
        }
        self.info = list.info.or(self.info);
        if let Some(dictionary) = schema.dictionary.filter(|_| schema.ripple && !refresh) {
            self.ripple(&list, dictionary)?;
        }
        let first = self.bytes.is_empty();
        if first && self.bytes.capacity() < data.len() {
            self.bytes.reserve_exact(data.len());
        }
        // Updates name fields in the image's order as a rule: the search goes on behind the last one found.
        let mut cursor = 0;
        for entry in list.entries() {
            let entry = entry?;
            let mut room = [0; MAX_SET_VALUE];
            let value = standard(entry.enc, entry.data, &mut room)?;
            let found = if first { None } else { self.find_from(entry.fid, cursor) };
            let place = found.unwrap_or(self.bytes.len()..self.bytes.len());
            let text = may_be_text(&entry, schema.dictionary);
            let partial = text && rmtes::is_partial(value) && holds_text(&self.bytes[place.clone()]);
            cursor = if partial {
                let whole = changed_text(&self.bytes[place.clone()], value)?;
                self.put(entry.fid, place, whole.bytes())?
            } else {
                self.put(entry.fid, place, value)?
            };
        }
        Ok(())
    }

    /// Writes a value to the place of its field; at the end for a new one. Gives where the entry ends.
    fn put(&mut self, fid: i16, place: Range<usize>, value: &[u8]) -> Result<usize, ApplyError> {
        let length = u16::try_from(value.len()).map_err(|_| ApplyError::TooLarge("a longer value"))?;
        let head = if length < 0xFE { 3 } else { 5 };
        if place.is_empty() {
            self.count = self.count.checked_add(1).ok_or(ApplyError::TooLarge("more entries"))?;
        }
        let end = place.start + head + value.len();
        if place.len() != head + value.len() {
            resize_at(&mut self.bytes, &place, head + value.len());
        }
        let entry = &mut self.bytes[place.start..end];
        entry[..2].copy_from_slice(&fid.to_be_bytes());
        let [hi, lo] = length.to_be_bytes();
        if head == 3 {
            entry[2] = lo;
        } else {
            entry[2..5].copy_from_slice(&[0xFE, hi, lo]);
        }
        entry[head..].copy_from_slice(value);
        Ok(end)
    }

    /// Hands the held values of the fields that an update is about to change on to the fields that they ripple to, as far as
    /// those are held. What the update itself says of such a field comes after, and counts.
    #[inline(never)]
    fn ripple(&mut self, update: &FieldList<'_>, dictionary: &Dictionary) -> Result<(), ApplyError> {
        for entry in update.entries() {
            let fid = entry?.fid;
            let (chain, len) = self.chain(fid, dictionary);
            if len < 2 {
                continue;
            }
            // A field further along in the chain of another one is moved with that one.
            let mut others = update.entries().flatten().filter(|other| other.fid != fid);
            let moved = others.any(|other| {
                let (chain, len) = self.chain(other.fid, dictionary);
                chain[..len].contains(&fid)
            });
            if !moved {
                for pair in chain[..len].windows(2).rev() {
                    self.copy_value(pair[0], pair[1]);
                }
            }
        }
        Ok(())
    }

    /// A field and those that its value ripples through, as far as all are held; how many.
    fn chain(&self, fid: i16, dictionary: &Dictionary) -> ([i16; MAX_RIPPLE], usize) {
        let (mut chain, mut len) = ([0; MAX_RIPPLE], 0);
        let mut next = dictionary.field(fid).filter(|field| field.ripples_to().is_some()).map(|_| fid);
        while let Some(fid) = next.filter(|fid| len < MAX_RIPPLE && !chain[..len].contains(fid)) {
            if self.find_from(fid, 0).is_none() {
                break;
            }
            chain[len] = fid;
            len += 1;
            next = dictionary.field(fid).and_then(FieldDef::ripples_to);
        }
        (chain, len)
    }

    /// Gives a held field the value of another.
    fn copy_value(&mut self, from: i16, to: i16) {
        let (Some(source), Some(place)) = (self.find_from(from, 0), self.find_from(to, 0)) else { return };
        let len = source.len();
        let grown = len as isize - place.len() as isize;
        resize_at(&mut self.bytes, &place, len);
        // The source has moved if it lies behind.
        let start = if source.start > place.start { source.start.wrapping_add_signed(grown) } else { source.start };
        self.bytes.copy_within(start..start + len, place.start);
        self.bytes[place.start..place.start + 2].copy_from_slice(&to.to_be_bytes());
    }

    /// The entry of a field: first looked for from `cursor`, between two entries, on.
    #[inline]
    fn find_from(&self, fid: i16, cursor: usize) -> Option<Range<usize>> {
        self.find(fid, cursor..self.bytes.len()).or_else(|| self.find(fid, 0..cursor))
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

/// Whether a field may be RMTES text: the set or the dictionary says so, or nobody says anything.
#[inline]
fn may_be_text(entry: &FieldEntry<'_>, dictionary: Option<&Dictionary>) -> bool {
    match dictionary.and_then(|dictionary| dictionary.field(entry.fid)) {
        _ if entry.enc != DataType::UNKNOWN => entry.enc.base() == DataType::RMTES_STRING,
        Some(field) => field.data_type() == DataType::RMTES_STRING,
        None => true,
    }
}

/// Whether what a field's entry holds can be text: a number may begin with the bytes of a partial update.
fn holds_text(entry: &[u8]) -> bool {
    let mut r = Reader::new(entry, "held field");
    r.i16().and_then(|_| r.buf16()).is_ok_and(|held| rmtes::decode(held).is_ok())
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
