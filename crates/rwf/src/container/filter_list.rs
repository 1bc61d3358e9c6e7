//! Filter list: up to 255 entries by a small id, each possibly of its own container type.

use super::parts::{payload_of, perm_data};
use crate::macros::{flag_set, open_enum};
use crate::wire::{LenForm, Reader, Writer};
use crate::{DataType, DecodeError, EncodeError};

open_enum! {
    /// What to do with an entry of a filter list (ETA `FilterEntryActions`).
    FilterAction: u8 {
        /// Change it.
        UPDATE = 1,
        /// Set it.
        SET = 2,
        /// Empty it; it has no data.
        CLEAR = 3,
    }
}

flag_set! {
    /// Flags of a filter list (ETA `FilterListFlags`).
    FilterListFlags: u8 {
        /// Entries may have permission data.
        HAS_PER_ENTRY_PERM_DATA = 0x01,
        /// A count hint is there.
        HAS_TOTAL_COUNT_HINT = 0x02,
    }
}

const ENTRY_HAS_PERM_DATA: u8 = 0x10;
const ENTRY_HAS_CONTAINER_TYPE: u8 = 0x20;

/// A filter list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilterList<'a> {
    /// Type of the entries that have none of their own.
    pub container: DataType,
    /// Entries may have permission data.
    pub per_entry_perm: bool,
    /// The sender's guess of how many entries all parts of the refresh have.
    pub count_hint: Option<u8>,
    count: u8,
    entries: &'a [u8],
}

/// An entry of a filter list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilterEntry<'a> {
    /// Which part it is; the domain defines the ids.
    pub id: u8,
    /// The task.
    pub action: FilterAction,
    /// The entry's own container type, if it has one.
    pub own_container: Option<DataType>,
    /// The type of the data: the entry's own or that of the list.
    pub container: DataType,
    /// Permission expression.
    pub perm_data: Option<&'a [u8]>,
    /// The data; empty for a clear.
    pub data: &'a [u8],
}

impl<'a> FilterList<'a> {
    /// Decodes the header.
    ///
    /// # Errors
    /// Truncated.
    pub fn decode(data: &'a [u8]) -> Result<Self, DecodeError> {
        if data.is_empty() {
            let container = DataType::NO_DATA;
            return Ok(Self { container, per_entry_perm: false, count_hint: None, count: 0, entries: &[] });
        }
        let mut r = Reader::new(data, "filter list header");
        let &[flags, container] = r.array()?;
        let flags = FilterListFlags(flags);
        Ok(Self {
            container: DataType::from_wire_container(container),
            per_entry_perm: flags.contains(FilterListFlags::HAS_PER_ENTRY_PERM_DATA),
            count_hint: if flags.contains(FilterListFlags::HAS_TOTAL_COUNT_HINT) { Some(r.u8()?) } else { None },
            count: r.u8()?,
            entries: r.rest(),
        })
    }

    /// The entries. The iterator ends after the first error.
    pub fn entries(&self) -> FilterEntries<'a> {
        FilterEntries {
            r: Reader::new(self.entries, "filter entry"),
            left: self.count,
            container: self.container,
            per_entry_perm: self.per_entry_perm,
            base: if self.count_hint.is_some() { 4 } else { 3 },
        }
    }

    /// Number of entries that the header promises.
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// True if the header promises no entries.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Iterator over the entries of a filter list.
#[derive(Clone, Debug)]
pub struct FilterEntries<'a> {
    r: Reader<'a>,
    left: u8,
    container: DataType,
    per_entry_perm: bool,
    base: usize,
}

impl<'a> FilterEntries<'a> {
    fn read(&mut self) -> Result<FilterEntry<'a>, DecodeError> {
        let r = &mut self.r;
        let &[head, id] = r.array()?;
        let action = FilterAction(head & 0xF);
        let has_own = head & ENTRY_HAS_CONTAINER_TYPE != 0;
        let own_container = if has_own { Some(DataType::from_wire_container(r.u8()?)) } else { None };
        let container = own_container.unwrap_or(self.container);
        let has_perm = self.per_entry_perm && head & ENTRY_HAS_PERM_DATA != 0;
        let perm_data = if has_perm { Some(r.buf15()?) } else { None };
        let data = if has_data(action, container) { r.buf16()? } else { &[] };
        Ok(FilterEntry { id, action, own_container, container, perm_data, data })
    }
}

impl<'a> Iterator for FilterEntries<'a> {
    type Item = Result<FilterEntry<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let entry = self.read();
        Some(entry.map_err(|e| {
            self.left = 0;
            e.within(self.base)
        }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left as usize))
    }
}

fn has_data(action: FilterAction, container: DataType) -> bool {
    action != FilterAction::CLEAR && container != DataType::NO_DATA
}

/// What the header of a filter list to be written says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilterHead {
    /// Type of the entries that have none of their own.
    pub container: DataType,
    /// A guess of how many entries all parts have.
    pub count_hint: Option<u8>,
    /// Entries may have permission data.
    pub per_entry_perm: bool,
}

impl FilterHead {
    /// A header with nothing optional.
    pub const fn new(container: DataType) -> Self {
        Self { container, count_hint: None, per_entry_perm: false }
    }
}

/// Writes a filter list in place.
#[derive(Debug)]
pub struct FilterListEncoder<'w, 'b> {
    w: &'w mut Writer<'b>,
    head: FilterHead,
    count_at: usize,
    count: u8,
}

impl<'w, 'b> FilterListEncoder<'w, 'b> {
    /// Begins a filter list.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    pub fn begin(w: &'w mut Writer<'b>, head: FilterHead) -> Result<Self, EncodeError> {
        let mut flags = FilterListFlags::NONE;
        flags.set(FilterListFlags::HAS_PER_ENTRY_PERM_DATA, head.per_entry_perm);
        flags.set(FilterListFlags::HAS_TOTAL_COUNT_HINT, head.count_hint.is_some());
        w.array([flags.0, head.container.wire_container()])?;
        if let Some(hint) = head.count_hint {
            w.u8(hint)?;
        }
        let count_at = w.position();
        w.u8(0)?;
        Ok(Self { w, head, count_at, count: 0 })
    }

    /// An entry of the list's container type whose data `body` writes; `body` is not called for a clear or no data.
    ///
    /// # Errors
    /// Those of `body`; [`EncodeError::BufferFull`]; [`EncodeError::TooLong`]. The list is as before then.
    pub fn entry(
        &mut self,
        id: u8,
        action: FilterAction,
        body: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.entry_with(id, action, None, None, LenForm::Shortest, body)
    }

    /// As [`FilterListEncoder::entry`], with a container type of the entry's own, permission data and a form for the
    /// data's length.
    ///
    /// # Errors
    /// As [`FilterListEncoder::entry`]; [`EncodeError::Unrepresentable`] for permission data in a list whose header does
    /// not announce any.
    pub fn entry_with(
        &mut self,
        id: u8,
        action: FilterAction,
        own_container: Option<DataType>,
        perm: Option<&[u8]>,
        form: LenForm,
        body: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        if perm.is_some() && !self.head.per_entry_perm {
            return Err(EncodeError::Unrepresentable("permission data of an entry"));
        }
        if self.count == u8::MAX {
            return Err(EncodeError::TooLong { what: "entries", len: 256, max: 255 });
        }
        let container = own_container.unwrap_or(self.head.container);
        let w = &mut *self.w;
        let start = w.position();
        let mut write = || {
            let mut head = action.0 & 0xF;
            head |= if perm.is_some() { ENTRY_HAS_PERM_DATA } else { 0 };
            head |= if own_container.is_some() { ENTRY_HAS_CONTAINER_TYPE } else { 0 };
            w.array([head, id])?;
            if let Some(own) = own_container {
                w.u8(own.wire_container())?;
            }
            perm_data(w, perm)
        };
        let done =
            write().and_then(|()| if has_data(action, container) { payload_of(self.w, form, body) } else { Ok(()) });
        match done {
            Ok(()) => {
                self.count += 1;
                self.w.patch_u8(self.count_at, self.count);
                Ok(())
            }
            Err(e) => {
                self.w.rollback(start);
                Err(e)
            }
        }
    }

    /// Number of entries so far.
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// True without entries so far.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Ends the list. Nothing is left to do; the call makes the end visible.
    pub fn finish(self) {}
}
