//! Map: entries by a key of some primitive type.

use super::parts::{Parts, PartsEncoder, perm_data};
use super::sets::{SetDefsEncoder, SetScope};
use crate::macros::{flag_set, open_enum};
use crate::primitive::Primitive;
use crate::wire::{LenForm, Reader, Writer};
use crate::{DataType, DecodeError, EncodeError};

open_enum! {
    /// What to do with an entry of a map (ETA `MapEntryActions`).
    MapAction: u8 {
        /// Change it.
        UPDATE = 1,
        /// Add it, or replace it.
        ADD = 2,
        /// Remove it; it has no data.
        DELETE = 3,
    }
}

flag_set! {
    /// Flags of a map (ETA `MapFlags`).
    MapFlags: u8 {
        /// Set definitions are there.
        HAS_SET_DEFS = 0x01,
        /// Summary data is there.
        HAS_SUMMARY_DATA = 0x02,
        /// Entries may have permission data.
        HAS_PER_ENTRY_PERM_DATA = 0x04,
        /// A count hint is there.
        HAS_TOTAL_COUNT_HINT = 0x08,
        /// The field id of the key is there.
        HAS_KEY_FIELD_ID = 0x10,
    }
}

const ENTRY_HAS_PERM_DATA: u8 = 0x10;

/// A map.
#[derive(Clone, Copy, Debug)]
pub struct Map<'a> {
    /// Type of the keys, as a base type.
    pub key_type: DataType,
    /// Type of the entries' data.
    pub container: DataType,
    /// The field that the key is.
    pub key_field_id: Option<i16>,
    /// Entries may have permission data.
    pub per_entry_perm: bool,
    parts: Parts<'a>,
}

/// An entry of a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapEntry<'a> {
    /// The task.
    pub action: MapAction,
    /// Permission expression.
    pub perm_data: Option<&'a [u8]>,
    /// The key's bytes; [`MapEntry::key_value`] decodes them.
    pub key: &'a [u8],
    /// The data; empty for a deletion.
    pub data: &'a [u8],
}

impl<'a> MapEntry<'a> {
    /// The key as a value.
    ///
    /// # Errors
    /// Invalid if the bytes are not of this type.
    pub fn key_value(&self, key_type: DataType) -> Result<Primitive<'a>, DecodeError> {
        Primitive::decode(key_type, self.key)
    }
}

impl<'a> Map<'a> {
    /// Decodes the header.
    ///
    /// # Errors
    /// Truncated; invalid set definitions.
    pub fn decode(data: &'a [u8], scope: &SetScope<'a>) -> Result<Self, DecodeError> {
        if data.is_empty() {
            let (key_type, container) = (DataType::UNKNOWN, DataType::NO_DATA);
            let parts = Parts::empty(scope);
            return Ok(Self { key_type, container, key_field_id: None, per_entry_perm: false, parts });
        }
        let mut r = Reader::new(data, "map header");
        let &[flags, key_type, container] = r.array()?;
        let flags = MapFlags(flags);
        let container = DataType::from_wire_container(container);
        let key_field_id = if flags.contains(MapFlags::HAS_KEY_FIELD_ID) { Some(r.i16()?) } else { None };
        let has_hint = flags.contains(MapFlags::HAS_TOTAL_COUNT_HINT);
        Ok(Self {
            key_type: DataType(key_type).base(),
            container,
            key_field_id,
            per_entry_perm: flags.contains(MapFlags::HAS_PER_ENTRY_PERM_DATA),
            parts: Parts::read(&mut r, flags.0, has_hint, container, scope)?,
        })
    }

    /// The entries. The iterator ends after the first error.
    pub fn entries(&self) -> MapEntries<'a> {
        MapEntries {
            r: Reader::new(self.parts.entries, "map entry"),
            left: self.parts.count,
            container: self.container,
            per_entry_perm: self.per_entry_perm,
            base: self.parts.entries_offset,
        }
    }

    /// Number of entries that the header promises.
    pub const fn len(&self) -> usize {
        self.parts.count as usize
    }

    /// True if the header promises no entries.
    pub const fn is_empty(&self) -> bool {
        self.parts.count == 0
    }

    /// The sender's guess of how many entries all parts of the refresh have.
    pub const fn count_hint(&self) -> Option<u32> {
        self.parts.count_hint
    }

    /// The block of set definitions.
    pub const fn set_defs(&self) -> Option<&'a [u8]> {
        self.parts.set_defs
    }

    /// Data about all entries, of the entries' container type.
    pub const fn summary(&self) -> Option<&'a [u8]> {
        self.parts.summary
    }

    /// The set definitions that hold inside.
    pub const fn scope(&self) -> SetScope<'a> {
        self.parts.scope
    }
}

/// Iterator over the entries of a map.
#[derive(Clone, Debug)]
pub struct MapEntries<'a> {
    r: Reader<'a>,
    left: u16,
    container: DataType,
    per_entry_perm: bool,
    base: usize,
}

impl<'a> MapEntries<'a> {
    #[inline]
    fn read(&mut self) -> Result<MapEntry<'a>, DecodeError> {
        let r = &mut self.r;
        let head = r.u8()?;
        let action = MapAction(head & 0xF);
        let has_perm = self.per_entry_perm && head & ENTRY_HAS_PERM_DATA != 0;
        Ok(MapEntry {
            action,
            perm_data: if has_perm { Some(r.buf15()?) } else { None },
            key: r.buf15()?,
            data: if has_data(action, self.container) { r.buf16()? } else { &[] },
        })
    }
}

impl<'a> Iterator for MapEntries<'a> {
    type Item = Result<MapEntry<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let entry = self.read();
        Some(entry.map_err(|e| {
            self.left = 0;
            e.within(self.base)
        }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // An entry is at least two bytes: a count from the network is no reason to allocate.
        (0, Some((self.left as usize).min(self.r.remaining() / 2 + 1)))
    }
}

#[inline]
fn has_data(action: MapAction, container: DataType) -> bool {
    action != MapAction::DELETE && container != DataType::NO_DATA
}

/// What the header of a map to be written says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapHead {
    /// Type of the keys: a base primitive.
    pub key_type: DataType,
    /// Type of the entries' data.
    pub container: DataType,
    /// The field that the key is.
    pub key_field_id: Option<i16>,
    /// A guess of how many entries all parts have.
    pub count_hint: Option<u32>,
    /// Entries may have permission data.
    pub per_entry_perm: bool,
}

impl MapHead {
    /// A header with nothing optional.
    pub const fn new(key_type: DataType, container: DataType) -> Self {
        Self { key_type, container, key_field_id: None, count_hint: None, per_entry_perm: false }
    }
}

/// Writes a map in place: set definitions and summary first, if any, then entries.
#[derive(Debug)]
pub struct MapEncoder<'w, 'b> {
    parts: PartsEncoder<'w, 'b>,
    head: MapHead,
}

impl<'w, 'b> MapEncoder<'w, 'b> {
    /// Begins a map.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    pub fn begin(w: &'w mut Writer<'b>, head: MapHead) -> Result<Self, EncodeError> {
        let mut flags = MapFlags::NONE;
        flags.set(MapFlags::HAS_KEY_FIELD_ID, head.key_field_id.is_some());
        flags.set(MapFlags::HAS_TOTAL_COUNT_HINT, head.count_hint.is_some());
        flags.set(MapFlags::HAS_PER_ENTRY_PERM_DATA, head.per_entry_perm);
        let flags_at = w.position();
        w.array([flags.0, head.key_type.0, head.container.wire_container()])?;
        if let Some(fid) = head.key_field_id {
            w.i16(fid)?;
        }
        Ok(Self { parts: PartsEncoder::new(w, flags_at, flags.0, head.count_hint), head })
    }

    /// Set definitions, before summary and entries.
    ///
    /// # Errors
    /// Those of `body`; [`EncodeError::Unrepresentable`] after summary or entries.
    pub fn set_defs(
        &mut self,
        form: LenForm,
        body: impl FnOnce(&mut SetDefsEncoder<'_, 'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.parts.set_defs(form, body)
    }

    /// Summary data, before the entries; `body` writes a container of the entries' type.
    ///
    /// # Errors
    /// Those of `body`; [`EncodeError::Unrepresentable`] after entries.
    pub fn summary(
        &mut self,
        form: LenForm,
        body: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.parts.summary(form, body)
    }

    /// An entry whose data `body` writes; `body` is not called for a deletion or a map of no data.
    ///
    /// # Errors
    /// Those of `body`; [`EncodeError::BufferFull`]; [`EncodeError::TooLong`]. The map is as before then.
    pub fn entry(
        &mut self,
        action: MapAction,
        key: &Primitive<'_>,
        body: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.entry_with(action, key, None, LenForm::Shortest, body)
    }

    /// As [`MapEncoder::entry`], with permission data and a form for the data's length.
    ///
    /// # Errors
    /// As [`MapEncoder::entry`]; [`EncodeError::Unrepresentable`] for permission data in a map whose header does not
    /// announce any, or for a key of another type.
    pub fn entry_with(
        &mut self,
        action: MapAction,
        key: &Primitive<'_>,
        perm: Option<&[u8]>,
        form: LenForm,
        body: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let MapHead { key_type, container, per_entry_perm, .. } = self.head;
        if perm.is_some() && !per_entry_perm {
            return Err(EncodeError::Unrepresentable("permission data of an entry"));
        }
        if key.data_type().is_some_and(|t| t != key_type) {
            return Err(EncodeError::Unrepresentable("map key of another type"));
        }
        let payload = has_data(action, container).then_some(form);
        let head = |w: &mut Writer<'b>| {
            w.u8(action.0 & 0xF | if perm.is_some() { ENTRY_HAS_PERM_DATA } else { 0 })?;
            perm_data(w, perm)?;
            let mark = w.begin_rb15(LenForm::Shortest)?;
            key.encode(w)?;
            w.end_rb15(mark)
        };
        self.parts.entry(payload, head, body)
    }

    /// An entry that is deleted.
    ///
    /// # Errors
    /// As [`MapEncoder::entry`].
    pub fn delete(&mut self, key: &Primitive<'_>) -> Result<(), EncodeError> {
        self.entry(MapAction::DELETE, key, |_| Ok(()))
    }

    /// Number of entries so far.
    pub const fn len(&self) -> usize {
        self.parts.len()
    }

    /// True without entries so far.
    pub const fn is_empty(&self) -> bool {
        self.parts.len() == 0
    }

    /// Ends the map.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`] if there was no entry and the count does not fit.
    pub fn finish(self) -> Result<(), EncodeError> {
        self.parts.finish()
    }
}
