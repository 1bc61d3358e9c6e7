//! Vector: entries by index.

use super::parts::{Parts, PartsEncoder, perm_data};
use super::sets::{SetDefsEncoder, SetScope};
use crate::macros::{flag_set, open_enum};
use crate::wire::{LenForm, Reader, Writer};
use crate::{DataType, DecodeError, EncodeError};

open_enum! {
    /// What to do with an entry of a vector (ETA `VectorEntryActions`).
    VectorAction: u8 {
        /// Change it.
        UPDATE = 1,
        /// Set it.
        SET = 2,
        /// Empty it; it has no data.
        CLEAR = 3,
        /// Insert it and move the following ones up.
        INSERT = 4,
        /// Remove it and move the following ones down; it has no data.
        DELETE = 5,
    }
}

flag_set! {
    /// Flags of a vector (ETA `VectorFlags`).
    VectorFlags: u8 {
        /// Set definitions are there.
        HAS_SET_DEFS = 0x01,
        /// Summary data is there.
        HAS_SUMMARY_DATA = 0x02,
        /// Entries may have permission data.
        HAS_PER_ENTRY_PERM_DATA = 0x04,
        /// A count hint is there.
        HAS_TOTAL_COUNT_HINT = 0x08,
        /// Entries may be inserted and deleted.
        SUPPORTS_SORTING = 0x10,
    }
}

const ENTRY_HAS_PERM_DATA: u8 = 0x10;

/// A vector.
#[derive(Clone, Copy, Debug)]
pub struct Vector<'a> {
    /// Type of the entries' data.
    pub container: DataType,
    /// Entries may be inserted and deleted.
    pub sortable: bool,
    /// Entries may have permission data.
    pub per_entry_perm: bool,
    parts: Parts<'a>,
}

/// An entry of a vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VectorEntry<'a> {
    /// The task.
    pub action: VectorAction,
    /// Position; below 2^30.
    pub index: u32,
    /// Permission expression.
    pub perm_data: Option<&'a [u8]>,
    /// The data; empty for a deletion.
    pub data: &'a [u8],
}

impl<'a> Vector<'a> {
    /// Decodes the header.
    ///
    /// # Errors
    /// Truncated; invalid set definitions.
    pub fn decode(data: &'a [u8], scope: &SetScope<'a>) -> Result<Self, DecodeError> {
        if data.is_empty() {
            let parts = Parts::empty(scope);
            return Ok(Self { container: DataType::NO_DATA, sortable: false, per_entry_perm: false, parts });
        }
        let mut r = Reader::new(data, "vector header");
        let &[flags, container] = r.array()?;
        let flags = VectorFlags(flags);
        let container = DataType::from_wire_container(container);
        let has_hint = flags.contains(VectorFlags::HAS_TOTAL_COUNT_HINT);
        Ok(Self {
            container,
            sortable: flags.contains(VectorFlags::SUPPORTS_SORTING),
            per_entry_perm: flags.contains(VectorFlags::HAS_PER_ENTRY_PERM_DATA),
            parts: Parts::read(&mut r, flags.0, has_hint, container, scope)?,
        })
    }

    /// The entries. The iterator ends after the first error.
    pub fn entries(&self) -> VectorEntries<'a> {
        VectorEntries {
            r: Reader::new(self.parts.entries, "vector entry"),
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

/// Iterator over the entries of a vector.
#[derive(Clone, Debug)]
pub struct VectorEntries<'a> {
    r: Reader<'a>,
    left: u16,
    container: DataType,
    per_entry_perm: bool,
    base: usize,
}

impl<'a> VectorEntries<'a> {
    #[inline]
    fn read(&mut self) -> Result<VectorEntry<'a>, DecodeError> {
        let r = &mut self.r;
        let head = r.u8()?;
        let action = VectorAction(head & 0xF);
        let has_perm = self.per_entry_perm && head & ENTRY_HAS_PERM_DATA != 0;
        Ok(VectorEntry {
            action,
            index: r.u30()?,
            perm_data: if has_perm { Some(r.buf15()?) } else { None },
            data: if has_data(action, self.container) { r.buf16()? } else { &[] },
        })
    }
}

impl<'a> Iterator for VectorEntries<'a> {
    type Item = Result<VectorEntry<'a>, DecodeError>;

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
fn has_data(action: VectorAction, container: DataType) -> bool {
    action != VectorAction::CLEAR && action != VectorAction::DELETE && container != DataType::NO_DATA
}

/// What the header of a vector to be written says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VectorHead {
    /// Type of the entries' data.
    pub container: DataType,
    /// Entries may be inserted and deleted.
    pub sortable: bool,
    /// A guess of how many entries all parts have.
    pub count_hint: Option<u32>,
    /// Entries may have permission data.
    pub per_entry_perm: bool,
}

impl VectorHead {
    /// A header with nothing optional.
    pub const fn new(container: DataType) -> Self {
        Self { container, sortable: false, count_hint: None, per_entry_perm: false }
    }
}

/// Writes a vector in place: set definitions and summary first, if any, then entries.
#[derive(Debug)]
pub struct VectorEncoder<'w, 'b> {
    parts: PartsEncoder<'w, 'b>,
    head: VectorHead,
}

impl<'w, 'b> VectorEncoder<'w, 'b> {
    /// Begins a vector.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    pub fn begin(w: &'w mut Writer<'b>, head: VectorHead) -> Result<Self, EncodeError> {
        let mut flags = VectorFlags::NONE;
        flags.set(VectorFlags::SUPPORTS_SORTING, head.sortable);
        flags.set(VectorFlags::HAS_TOTAL_COUNT_HINT, head.count_hint.is_some());
        flags.set(VectorFlags::HAS_PER_ENTRY_PERM_DATA, head.per_entry_perm);
        let flags_at = w.position();
        w.array([flags.0, head.container.wire_container()])?;
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

    /// An entry whose data `body` writes; `body` is not called for a clear, a deletion or a vector of no data.
    ///
    /// # Errors
    /// Those of `body`; [`EncodeError::BufferFull`]; [`EncodeError::TooLong`]. The vector is as before then.
    pub fn entry(
        &mut self,
        action: VectorAction,
        index: u32,
        body: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.entry_with(action, index, None, LenForm::Shortest, body)
    }

    /// As [`VectorEncoder::entry`], with permission data and a form for the data's length.
    ///
    /// # Errors
    /// As [`VectorEncoder::entry`]; [`EncodeError::Unrepresentable`] for permission data in a vector whose header does
    /// not announce any.
    pub fn entry_with(
        &mut self,
        action: VectorAction,
        index: u32,
        perm: Option<&[u8]>,
        form: LenForm,
        body: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        if perm.is_some() && !self.head.per_entry_perm {
            return Err(EncodeError::Unrepresentable("permission data of an entry"));
        }
        let payload = has_data(action, self.head.container).then_some(form);
        let head = |w: &mut Writer<'b>| {
            w.u8(action.0 & 0xF | if perm.is_some() { ENTRY_HAS_PERM_DATA } else { 0 })?;
            w.u30(index)?;
            perm_data(w, perm)
        };
        self.parts.entry(payload, head, body)
    }

    /// Number of entries so far.
    pub const fn len(&self) -> usize {
        self.parts.len()
    }

    /// True without entries so far.
    pub const fn is_empty(&self) -> bool {
        self.parts.len() == 0
    }

    /// Ends the vector.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`] if there was no entry and the count does not fit.
    pub fn finish(self) -> Result<(), EncodeError> {
        self.parts.finish()
    }
}
