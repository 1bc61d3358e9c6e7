//! Field lists merged by field: of each the last value, and the number of the update that brought it.

use super::{Ripples, Role};
use crate::encode;
use rwf::container::FieldListInfo;
use rwf::wire::Writer;
use rwf::{DataType, EncodeError, FieldEntry, FieldList, FieldListEncoder, Primitive, SetScope, rmtes};
use std::collections::VecDeque;

/// Fields of one list; an update with more follows by itself.
const MAX_FIELDS: usize = 4_096;
/// Longest value in set form once it stands on its own.
const MAX_SET_VALUE: usize = 32;
/// What a partial text begins with.
const ESC: u8 = 0x1B;

/// A field, and where its value lies.
#[derive(Debug, Clone, Copy)]
struct Field {
    fid: i16,
    len: u16,
    /// Bytes that the value may have where it lies.
    room: u16,
    at: u32,
    /// Number of the update that brought the value.
    changed: u32,
}

/// The last value of each field.
#[derive(Debug, Default)]
pub(super) struct Values {
    info: Option<FieldListInfo>,
    /// In the order in which they came first.
    fields: Vec<Field>,
    bytes: Vec<u8>,
    /// Bytes that belong to no field any more.
    waste: usize,
}

impl Values {
    /// Forgets all fields, but not the memory for them.
    pub(super) fn clear(&mut self) {
        self.info = None;
        self.fields.clear();
        self.bytes.clear();
        self.waste = 0;
    }

    /// Has the memory come near in which the values are, and where they lie.
    #[inline]
    fn touch(&self) -> u8 {
        self.bytes.first().copied().unwrap_or(0) ^ self.fields.first().map_or(0, |field| field.len as u8)
    }

    /// Takes in the fields of an update that was looked at ([`can_merge`]).
    pub(super) fn set(&mut self, list: &FieldList<'_>, number: u32) {
        self.info = list.info.or(self.info);
        // Updates name fields in the same order as a rule: the search goes on behind the last one found.
        let mut cursor = 0;
        for entry in list.entries() {
            let Ok(entry) = entry else { break };
            let mut room = [0; MAX_SET_VALUE];
            let Some(value) = standard(&entry, &mut room) else { continue };
            let known = self.find_from(entry.fid, cursor);
            cursor = known.unwrap_or(self.fields.len()) + 1;
            if let Some(at) = known {
                self.replace(at, value, number);
            } else {
                let (at, len) = (self.bytes.len() as u32, value.len() as u16);
                self.bytes.extend_from_slice(value);
                self.fields.push(Field { fid: entry.fid, len, room: len, at, changed: number });
            }
        }
    }

    fn find_from(&self, fid: i16, cursor: usize) -> Option<usize> {
        if self.fields.get(cursor).is_some_and(|field| field.fid == fid) {
            return Some(cursor);
        }
        self.fields.iter().position(|field| field.fid == fid)
    }

    fn replace(&mut self, at: usize, value: &[u8], number: u32) {
        let end = self.bytes.len();
        let field = &mut self.fields[at];
        field.len = value.len() as u16;
        field.changed = number;
        if field.len > field.room {
            self.waste += usize::from(field.room);
            field.room = field.len;
            field.at = end as u32;
            self.bytes.extend_from_slice(value);
            if self.waste > self.bytes.len() / 2 {
                self.tidy();
            }
        } else {
            let from = field.at as usize;
            self.bytes[from..from + value.len()].copy_from_slice(value);
        }
    }

    /// Lays the values one behind the other again.
    fn tidy(&mut self) {
        let mut bytes = Vec::with_capacity(self.bytes.len() - self.waste);
        for field in &mut self.fields {
            let at = bytes.len() as u32;
            let from = field.at as usize;
            bytes.extend_from_slice(&self.bytes[from..from + usize::from(field.room)]);
            field.at = at;
        }
        self.bytes = bytes;
        self.waste = 0;
    }

    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// Writes the fields that have changed since an update, that one included.
    pub(super) fn write_since(&self, since: u32, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut list = FieldListEncoder::begin(w)?;
        if let Some(info) = self.info {
            list.info(info)?;
        }
        for field in self.fields.iter().filter(|field| field.changed >= since) {
            let from = field.at as usize;
            list.raw(field.fid, &self.bytes[from..from + usize::from(field.len)])?;
        }
        list.finish()
    }
}

/// A value as standard data has it, whatever form it came in; none if it cannot be.
fn standard<'a>(entry: &FieldEntry<'a>, room: &'a mut [u8; MAX_SET_VALUE]) -> Option<&'a [u8]> {
    if entry.enc == DataType::UNKNOWN || entry.enc == entry.enc.base() {
        return Some(entry.data);
    }
    let value = Primitive::decode(entry.enc, entry.data).ok()?;
    let mut w = Writer::new(room);
    value.encode(&mut w).ok()?;
    Some(w.into_written())
}

/// A rippling field: its last values, oldest first, the present one included.
#[derive(Debug)]
struct Head {
    fid: i16,
    depth: u8,
    /// With the numbers of the updates that brought them.
    values: VecDeque<(u32, Vec<u8>)>,
}

impl Head {
    fn push(&mut self, value: &[u8], number: u32) {
        let full = self.values.len() >= usize::from(self.depth);
        let mut room = if full { self.values.pop_front() } else { None }.unwrap_or_default().1;
        room.clear();
        room.extend_from_slice(value);
        self.values.push_back((number, room));
    }

    /// How many of the values came with an update, or behind it.
    fn since(&self, since: u32) -> usize {
        self.values.iter().rev().take_while(|(number, _)| *number >= since).count()
    }
}

/// The payloads of updates with a field list, merged.
#[derive(Debug, Default)]
pub(super) struct Fields {
    values: Values,
    heads: Vec<Head>,
}

impl Fields {
    /// Takes in the fields of an update; false, and nothing changed, if they cannot be merged.
    pub(super) fn merge(&mut self, body: &[u8], number: u32, ripples: Option<&Ripples>) -> bool {
        let Ok(list) = FieldList::decode(body, &SetScope::NONE) else { return false };
        let ripples = ripples.filter(|ripples| !ripples.is_none());
        if self.values.len() + list.len() > MAX_FIELDS || !can_merge(&list, body, ripples) {
            return false;
        }
        self.values.set(&list, number);
        let Some(ripples) = ripples else { return true };
        for entry in list.entries().flatten() {
            let Some(Role::Head(depth)) = ripples.role(entry.fid) else { continue };
            let known = self.heads.iter().position(|head| head.fid == entry.fid).unwrap_or_else(|| {
                self.heads.push(Head { fid: entry.fid, depth, values: VecDeque::new() });
                self.heads.len() - 1
            });
            self.heads[known].push(entry.data, number);
        }
        true
    }

    /// Has the memory come near that the next update changes.
    #[inline]
    pub(super) fn touch(&self) -> u8 {
        self.values.touch() ^ self.heads.first().map_or(0, |head| head.depth)
    }

    /// Updates that go out ahead of the merged one, for what ripples.
    pub(super) fn older(&self, since: u32) -> usize {
        self.heads.iter().map(|head| head.since(since).saturating_sub(1)).max().unwrap_or_default()
    }

    /// Appends the fields of the older update that goes out as one of so many before the merged one.
    pub(super) fn write_older(&self, since: u32, behind: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let of_one = |head: &Head| head.values.iter().map(|(_, value)| value.len() + 5).max().unwrap_or(0);
        let room = 16 + self.heads.iter().map(of_one).sum::<usize>();
        encode::append(out, room, |w| {
            let mut list = FieldListEncoder::begin(w)?;
            for head in self.heads.iter().filter(|head| head.since(since) > behind) {
                list.raw(head.fid, &head.values[head.values.len() - 1 - behind].1)?;
            }
            list.finish()
        })
    }

    /// Writes the fields that have changed since an update, that one included.
    pub(super) fn write_since(&self, since: u32, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        self.values.write_since(since, w)
    }
}

/// True if an update has no field that depends on the image, and each once. `bytes` are those of the list.
pub(super) fn can_merge(list: &FieldList<'_>, bytes: &[u8], ripples: Option<&Ripples>) -> bool {
    if list.is_set_skipped() {
        return false;
    }
    let may_be_partial = bytes.contains(&ESC);
    let mut seen = 0_u64;
    for (at, entry) in list.entries().enumerate() {
        let Ok(entry) = entry else { return false };
        // A field that comes twice: its bit is looked at first, because two fields seldom share one.
        let bit = 1 << (entry.fid & 63);
        if seen & bit != 0 && list.entries().take(at).flatten().any(|other| other.fid == entry.fid) {
            return false;
        }
        seen |= bit;
        if may_be_partial && rmtes::is_partial(entry.data) {
            return false;
        }
        if entry.enc != DataType::UNKNOWN && standard(&entry, &mut [0; MAX_SET_VALUE]).is_none() {
            return false;
        }
        match ripples.and_then(|ripples| ripples.role(entry.fid)) {
            None => {}
            // A value of a set stands in another form than one of its own.
            Some(Role::Head(_)) if entry.enc == DataType::UNKNOWN => {}
            Some(Role::Head(_) | Role::Member) => return false,
        }
    }
    true
}
