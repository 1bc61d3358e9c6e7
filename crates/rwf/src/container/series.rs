//! Series: entries in a row.

use super::parts::{Parts, PartsEncoder};
use super::sets::{SetDefsEncoder, SetScope};
use crate::macros::flag_set;
use crate::wire::{LenForm, Reader, Writer};
use crate::{DataType, DecodeError, EncodeError};

flag_set! {
    /// Flags of a series (ETA `SeriesFlags`).
    SeriesFlags: u8 {
        /// Set definitions are there.
        HAS_SET_DEFS = 0x01,
        /// Summary data is there.
        HAS_SUMMARY_DATA = 0x02,
        /// A count hint is there.
        HAS_TOTAL_COUNT_HINT = 0x04,
    }
}

/// A series.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a> {
    /// Type of the entries.
    pub container: DataType,
    parts: Parts<'a>,
}

impl<'a> Series<'a> {
    /// Decodes the header.
    ///
    /// # Errors
    /// Truncated; invalid set definitions.
    pub fn decode(data: &'a [u8], scope: &SetScope<'a>) -> Result<Self, DecodeError> {
        if data.is_empty() {
            return Ok(Self { container: DataType::NO_DATA, parts: Parts::empty(scope) });
        }
        let mut r = Reader::new(data, "series header");
        let &[flags, container] = r.array()?;
        let flags = SeriesFlags(flags);
        let container = DataType::from_wire_container(container);
        let has_hint = flags.contains(SeriesFlags::HAS_TOTAL_COUNT_HINT);
        Ok(Self { container, parts: Parts::read(&mut r, flags.0, has_hint, container, scope)? })
    }

    /// The entries: bytes of containers. The iterator ends after the first error.
    pub fn entries(&self) -> SeriesEntries<'a> {
        SeriesEntries {
            r: Reader::new(self.parts.entries, "series entry"),
            left: self.parts.count,
            no_data: self.container == DataType::NO_DATA,
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

/// Iterator over the entries of a series.
#[derive(Clone, Debug)]
pub struct SeriesEntries<'a> {
    r: Reader<'a>,
    left: u16,
    no_data: bool,
    base: usize,
}

impl<'a> Iterator for SeriesEntries<'a> {
    type Item = Result<&'a [u8], DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let entry = if self.no_data { Ok(&[][..]) } else { self.r.buf16() };
        Some(entry.map_err(|e| {
            self.left = 0;
            e.within(self.base)
        }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left as usize))
    }
}

/// Writes a series in place: set definitions and summary first, if any, then entries.
#[derive(Debug)]
pub struct SeriesEncoder<'w, 'b> {
    parts: PartsEncoder<'w, 'b>,
    container: DataType,
}

impl<'w, 'b> SeriesEncoder<'w, 'b> {
    /// Begins a series of `container`s, with an optional guess of how many entries all parts have.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    pub fn begin(w: &'w mut Writer<'b>, container: DataType, count_hint: Option<u32>) -> Result<Self, EncodeError> {
        let mut flags = SeriesFlags::NONE;
        flags.set(SeriesFlags::HAS_TOTAL_COUNT_HINT, count_hint.is_some());
        let flags_at = w.position();
        w.array([flags.0, container.wire_container()])?;
        Ok(Self { parts: PartsEncoder::new(w, flags_at, flags.0, count_hint), container })
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

    /// An entry that `body` writes; `body` is not called for a series of no data.
    ///
    /// # Errors
    /// Those of `body`; [`EncodeError::BufferFull`]; [`EncodeError::TooLong`]. The series is as before then.
    pub fn entry(&mut self, body: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>) -> Result<(), EncodeError> {
        self.entry_with(LenForm::Shortest, body)
    }

    /// As [`SeriesEncoder::entry`], with a form for the length.
    ///
    /// # Errors
    /// As [`SeriesEncoder::entry`].
    pub fn entry_with(
        &mut self,
        form: LenForm,
        body: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let payload = (self.container != DataType::NO_DATA).then_some(form);
        self.parts.entry(payload, |_| Ok(()), body)
    }

    /// Number of entries so far.
    pub const fn len(&self) -> usize {
        self.parts.len()
    }

    /// True without entries so far.
    pub const fn is_empty(&self) -> bool {
        self.parts.len() == 0
    }

    /// Ends the series.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`] if there was no entry and the count does not fit.
    pub fn finish(self) -> Result<(), EncodeError> {
        self.parts.finish()
    }
}
