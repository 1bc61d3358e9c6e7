//! What maps, vectors and series have in common: set definitions, summary data, count hint, counted entries.

use super::sets::{SetDefsEncoder, SetScope};
use crate::wire::{LenForm, Mark, Reader, Writer};
use crate::{DataType, DecodeError, EncodeError};

/// Flags that stand at the same bits in maps, vectors and series.
pub(super) const HAS_SET_DEFS: u8 = 0x01;
pub(super) const HAS_SUMMARY_DATA: u8 = 0x02;

/// Set definitions, summary, count hint and entries, as they follow each other in maps, vectors and series.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    pub(super) set_defs: Option<&'a [u8]>,
    pub(super) summary: Option<&'a [u8]>,
    pub(super) count_hint: Option<u32>,
    pub(super) count: u16,
    pub(super) entries: &'a [u8],
    pub(super) entries_offset: usize,
    pub(super) scope: SetScope<'a>,
}

impl<'a> Parts<'a> {
    #[inline]
    pub(super) fn read(
        r: &mut Reader<'a>,
        flags: u8,
        has_hint: bool,
        container: DataType,
        scope: &SetScope<'a>,
    ) -> Result<Self, DecodeError> {
        let set_defs = if flags & HAS_SET_DEFS != 0 { Some(r.reading("set definitions").buf15()?) } else { None };
        let scope = if set_defs.is_some() {
            let base = r.offset() - set_defs.map_or(0, <[u8]>::len);
            scope.enter(set_defs, container).map_err(|e| e.within(base))?
        } else {
            *scope
        };
        let summary = if flags & HAS_SUMMARY_DATA != 0 { Some(r.reading("summary data").buf15()?) } else { None };
        let count_hint = if has_hint { Some(r.reading("count hint").u30()?) } else { None };
        let count = r.reading("entry count").u16()?;
        Ok(Self { set_defs, summary, count_hint, count, entries: r.rest(), entries_offset: r.offset(), scope })
    }

    /// What zero bytes in place of a container stand for.
    pub(super) const fn empty(scope: &SetScope<'a>) -> Self {
        Self {
            set_defs: None,
            summary: None,
            count_hint: None,
            count: 0,
            entries: &[],
            entries_offset: 0,
            scope: *scope,
        }
    }
}

/// Permission data and payload of an entry, in the writer of a container.
pub(super) fn perm_data(w: &mut Writer<'_>, perm: Option<&[u8]>) -> Result<(), EncodeError> {
    perm.map_or(Ok(()), |p| w.buf15(p))
}

/// The writing side of [`Parts`]. The header goes out when the first entry comes, so that set definitions and summary
/// can be given before.
#[derive(Debug)]
pub(super) struct PartsEncoder<'w, 'b> {
    pub(super) w: &'w mut Writer<'b>,
    flags_at: usize,
    flags: u8,
    hint: Option<u32>,
    state: Stage,
    count_at: usize,
    count: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
enum Stage {
    Start,
    SetDefs,
    Summary,
    Entries,
}

impl<'w, 'b> PartsEncoder<'w, 'b> {
    /// `flags` are at `flags_at` already; those of set definitions and summary are added as these come.
    pub(super) fn new(w: &'w mut Writer<'b>, flags_at: usize, flags: u8, hint: Option<u32>) -> Self {
        Self { w, flags_at, flags, hint, state: Stage::Start, count_at: 0, count: 0 }
    }

    fn advance(&mut self, to: Stage, flag: u8) -> Result<(), EncodeError> {
        if self.state >= to {
            return Err(EncodeError::Unrepresentable("header part after a later part of its container"));
        }
        self.state = to;
        self.flags |= flag;
        self.w.patch_u8(self.flags_at, self.flags);
        Ok(())
    }

    pub(super) fn set_defs(
        &mut self,
        form: LenForm,
        body: impl FnOnce(&mut SetDefsEncoder<'_, 'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.advance(Stage::SetDefs, HAS_SET_DEFS)?;
        let mark = self.w.begin_rb15(form)?;
        body(&mut SetDefsEncoder::begin(self.w)?)?;
        self.w.end_rb15(mark)
    }

    pub(super) fn summary(
        &mut self,
        form: LenForm,
        body: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.advance(Stage::Summary, HAS_SUMMARY_DATA)?;
        let mark = self.w.begin_rb15(form)?;
        body(self.w)?;
        self.w.end_rb15(mark)
    }

    /// Writes hint and count, once.
    #[inline]
    pub(super) fn open_entries(&mut self) -> Result<(), EncodeError> {
        if self.state == Stage::Entries {
            return Ok(());
        }
        let start = self.w.position();
        if let Some(hint) = self.hint {
            self.w.u30(hint)?;
        }
        match self.w.reserve_u16() {
            Ok(at) => self.count_at = at,
            Err(e) => {
                self.w.rollback(start);
                return Err(e);
            }
        }
        self.state = Stage::Entries;
        Ok(())
    }

    /// One entry: `head` writes what comes before the payload, `body` the payload, if the entry has one. On failure
    /// nothing of the entry stays.
    #[inline]
    pub(super) fn entry(
        &mut self,
        payload: Option<LenForm>,
        head: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
        body: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.open_entries()?;
        if self.count == u16::MAX {
            return Err(EncodeError::TooLong { what: "entries", len: 0x1_0000, max: 0xFFFF });
        }
        let start = self.w.position();
        let done = head(self.w).and_then(|()| match payload {
            None => Ok(()),
            Some(form) => payload_of(self.w, form, body),
        });
        match done {
            Ok(()) => {
                self.count += 1;
                self.w.patch_u16(self.count_at, self.count);
                Ok(())
            }
            Err(e) => {
                self.w.rollback(start);
                Err(e)
            }
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.count as usize
    }

    pub(super) fn finish(mut self) -> Result<(), EncodeError> {
        self.open_entries()
    }
}

/// A payload with its `ob16` length.
#[inline]
pub(super) fn payload_of<'b>(
    w: &mut Writer<'b>,
    form: LenForm,
    body: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let mark: Mark = w.begin_ob16(form)?;
    body(w)?;
    w.end_ob16(mark)
}
