//! Element list: values by name, each with its type.

use super::field_list::{ListFlags, write_set};
use super::parts::payload_of;
use super::sets::{ElementSetDef, SetEncoder, SetScope, TypesLeft};
use crate::primitive::{self, Primitive};
use crate::wire::{LenForm, Reader, Writer};
use crate::{DataType, DecodeError, EncodeError};

/// Information about an element list.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct ElementListInfo {
    /// Number of the template the list was made from.
    pub num: u16,
}

/// An element list.
#[derive(Clone, Copy, Debug)]
pub struct ElementList<'a> {
    /// Information about the list.
    pub info: Option<ElementListInfo>,
    /// Id of the set; `None` without the flag, which means 0 if there is set data.
    pub set_id: Option<u16>,
    set_data: Option<&'a [u8]>,
    set_def: Option<ElementSetDef<'a>>,
    has_standard: bool,
    count: u16,
    standard: &'a [u8],
    base: usize,
}

/// An entry of an element list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ElementEntry<'a> {
    /// Name; at most 32,767 bytes.
    pub name: &'a [u8],
    /// Type of the data; in set data it can be one of the forms of set definitions.
    pub data_type: DataType,
    /// The value's bytes; none for a blank.
    pub data: &'a [u8],
}

impl<'a> ElementEntry<'a> {
    /// The value.
    ///
    /// # Errors
    /// Invalid if the bytes are not of the type, or the type is no primitive.
    pub fn value(&self) -> Result<Primitive<'a>, DecodeError> {
        Primitive::decode(self.data_type, self.data)
    }
}

impl<'a> ElementList<'a> {
    /// Decodes the header.
    ///
    /// # Errors
    /// Truncated.
    pub fn decode(data: &'a [u8], scope: &SetScope<'a>) -> Result<Self, DecodeError> {
        let mut list = ElementList {
            info: None,
            set_id: None,
            set_data: None,
            set_def: None,
            has_standard: false,
            count: 0,
            standard: &[],
            base: 0,
        };
        if data.is_empty() {
            return Ok(list);
        }
        let mut r = Reader::new(data, "element list header");
        let flags = ListFlags(r.u8()?);
        list.has_standard = flags.contains(ListFlags::HAS_STANDARD_DATA);
        if flags.contains(ListFlags::HAS_INFO) {
            let info = r.buf8()?;
            let base = r.offset() - info.len();
            let num = Reader::new(info, "element list info").u16().map_err(|e| e.within(base))?;
            list.info = Some(ElementListInfo { num });
        }
        if flags.contains(ListFlags::HAS_SET_DATA) {
            list.set_id = if flags.contains(ListFlags::HAS_SET_ID) { Some(r.reading("set id").rb15()?) } else { None };
            list.set_def = scope.element_set(list.set_id.unwrap_or(0));
            list.set_data = Some(if list.has_standard { r.reading("set data").buf15()? } else { r.rest() });
        }
        if list.has_standard {
            list.count = r.reading("element count").u16()?;
            list.standard = r.rest();
        }
        list.base = r.offset();
        Ok(list)
    }

    /// The entries: those of the set, then the standard ones. The iterator ends after the first error.
    ///
    /// Set data whose definition is not known is skipped, see [`ElementList::is_set_skipped`].
    pub fn entries(&self) -> ElementEntries<'a> {
        ElementEntries {
            r: Reader::new(self.standard, "element entry"),
            left: self.count,
            set_def: self.set_def.unwrap_or(ElementSetDef::EMPTY),
            set: Reader::new(self.set_data.unwrap_or_default(), "set data"),
            base: self.base,
        }
    }

    /// The first entry with this name; entries after one that cannot be decoded are not found.
    pub fn find(&self, name: &[u8]) -> Option<ElementEntry<'a>> {
        self.entries().map_while(Result::ok).find(|entry| entry.name == name)
    }

    /// The bytes of the set data.
    pub const fn set_data(&self) -> Option<&'a [u8]> {
        self.set_data
    }

    /// The definition of the set data, if it is known.
    pub const fn set_def(&self) -> Option<ElementSetDef<'a>> {
        self.set_def
    }

    /// True if there is set data whose definition is not known.
    pub const fn is_set_skipped(&self) -> bool {
        self.set_data.is_some() && self.set_def.is_none()
    }

    /// True if the header announces standard data, be it without entries.
    pub const fn has_standard_data(&self) -> bool {
        self.has_standard
    }

    /// Number of standard entries that the header promises.
    pub const fn standard_len(&self) -> usize {
        self.count as usize
    }
}

/// Iterator over the entries of an element list.
#[derive(Clone, Debug)]
pub struct ElementEntries<'a> {
    r: Reader<'a>,
    left: u16,
    set_def: ElementSetDef<'a>,
    set: Reader<'a>,
    base: usize,
}

impl<'a> ElementEntries<'a> {
    /// True if the next entry is one of the set.
    pub fn in_set(&self) -> bool {
        self.set_def.split_first().is_some()
    }

    #[inline]
    fn read(&mut self) -> Result<ElementEntry<'a>, DecodeError> {
        let r = &mut self.r;
        let name = r.buf15()?;
        let data_type = DataType(r.u8()?);
        let data = if data_type == DataType::NO_DATA { &[] } else { r.buf16()? };
        Ok(ElementEntry { name, data_type, data })
    }
}

impl<'a> Iterator for ElementEntries<'a> {
    type Item = Result<ElementEntry<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(((name, data_type), rest)) = self.set_def.split_first() {
            self.set_def = rest;
            let data = primitive::read_set(data_type, &mut self.set);
            if data.is_err() {
                self.set_def = ElementSetDef::EMPTY;
                self.left = 0;
            }
            return Some(data.map(|data| ElementEntry { name, data_type, data }));
        }
        self.left = self.left.checked_sub(1)?;
        let entry = self.read();
        Some(entry.map_err(|e| {
            self.left = 0;
            e.within(self.base)
        }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // A set entry has two bytes of definition, a standard one two of its own.
        (0, Some(self.set_def.entries().count() + (self.left as usize).min(self.r.remaining() / 2 + 1)))
    }
}

/// Writes an element list in place: information first, if any, then set data, then standard entries.
#[derive(Debug)]
pub struct ElementListEncoder<'w, 'b> {
    w: &'w mut Writer<'b>,
    flags_at: usize,
    flags: ListFlags,
    count_at: usize,
    count: u16,
}

impl<'w, 'b> ElementListEncoder<'w, 'b> {
    /// Begins an element list.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    pub fn begin(w: &'w mut Writer<'b>) -> Result<Self, EncodeError> {
        let flags_at = w.position();
        w.u8(0)?;
        Ok(Self { w, flags_at, flags: ListFlags::NONE, count_at: 0, count: 0 })
    }

    fn flag(&mut self, flag: ListFlags) {
        self.flags |= flag;
        self.w.patch_u8(self.flags_at, self.flags.0);
    }

    /// Information about the list; the first thing, if at all.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::Unrepresentable`] after anything else.
    pub fn info(&mut self, info: ElementListInfo) -> Result<(), EncodeError> {
        if self.flags != ListFlags::NONE {
            return Err(EncodeError::Unrepresentable("information after data of the list"));
        }
        self.w.u8(2)?;
        self.w.u16(info.num)?;
        self.flag(ListFlags::HAS_INFO);
        Ok(())
    }

    /// Set data: `body` writes the values in the order of `def`. Without an `id` the set is 0. `then_standard` must say
    /// whether standard entries will follow (and in what form the length is written that set data has then).
    ///
    /// # Errors
    /// Those of `body`; [`EncodeError::Unrepresentable`] after set data or standard entries, or if `body` writes more or
    /// fewer values than `def` has.
    pub fn set(
        &mut self,
        id: Option<u16>,
        def: ElementSetDef<'_>,
        then_standard: Option<LenForm>,
        body: impl FnOnce(&mut SetEncoder<'_, 'b, '_>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        if self.flags.without(ListFlags::HAS_INFO) != ListFlags::NONE {
            return Err(EncodeError::Unrepresentable("set data after data of the list"));
        }
        write_set(self.w, id, TypesLeft::Elements(def), then_standard, body)?;
        self.flag(ListFlags::HAS_SET_DATA);
        if id.is_some() {
            self.flag(ListFlags::HAS_SET_ID);
        }
        if then_standard.is_some() { self.open_standard() } else { Ok(()) }
    }

    /// Begins standard data; the first entry does so by itself.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::Unrepresentable`] after set data that was not announced to be followed.
    pub fn begin_standard(&mut self) -> Result<(), EncodeError> {
        if self.flags.contains(ListFlags::HAS_STANDARD_DATA) {
            return Ok(());
        }
        // Set data that was announced to be followed has opened standard data itself.
        if self.flags.contains(ListFlags::HAS_SET_DATA) {
            return Err(EncodeError::Unrepresentable("standard data after set data without length"));
        }
        self.open_standard()
    }

    fn open_standard(&mut self) -> Result<(), EncodeError> {
        self.count_at = self.w.reserve_u16()?;
        self.flag(ListFlags::HAS_STANDARD_DATA);
        Ok(())
    }

    fn entry(
        &mut self,
        name: &[u8],
        data_type: DataType,
        write: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.begin_standard()?;
        if self.count == u16::MAX {
            return Err(EncodeError::TooLong { what: "elements", len: 0x1_0000, max: 0xFFFF });
        }
        let start = self.w.position();
        let mut head = || {
            self.w.buf15(name)?;
            self.w.u8(data_type.0)
        };
        match head().and_then(|()| write(self.w)) {
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

    /// An element with a primitive value of a base type, or a blank of it.
    ///
    /// # Errors
    /// As [`Primitive::encode_ob16`]; [`EncodeError::Unrepresentable`] if the value is of another type. The list is as
    /// before then.
    pub fn element(&mut self, name: &[u8], data_type: DataType, value: &Primitive<'_>) -> Result<(), EncodeError> {
        if value.data_type().is_some_and(|t| t != data_type) || !data_type.is_primitive() {
            return Err(EncodeError::Unrepresentable("value of another type"));
        }
        self.entry(name, data_type, |w| value.encode_ob16(w))
    }

    /// An unsigned integer.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    pub fn uint(&mut self, name: &[u8], value: u64) -> Result<(), EncodeError> {
        self.element(name, DataType::UINT, &Primitive::UInt(value))
    }

    /// An ASCII string.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::TooLong`] over 65,535 bytes.
    pub fn ascii(&mut self, name: &[u8], value: &[u8]) -> Result<(), EncodeError> {
        self.element(name, DataType::ASCII_STRING, &Primitive::Ascii(value))
    }

    /// An element with a value that is encoded already; for [`DataType::NO_DATA`] it must be empty.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::TooLong`] over 65,535 bytes. The list is as before then.
    pub fn raw(&mut self, name: &[u8], data_type: DataType, value: &[u8]) -> Result<(), EncodeError> {
        match (data_type, value) {
            (DataType::NO_DATA, []) => self.entry(name, data_type, |_| Ok(())),
            (DataType::NO_DATA, _) => Err(EncodeError::Unrepresentable("bytes of no data")),
            _ => self.entry(name, data_type, |w| w.buf16(value)),
        }
    }

    /// An element whose value is a container or array, which `body` writes; it is not called for
    /// [`DataType::NO_DATA`].
    ///
    /// # Errors
    /// Those of `body`; [`EncodeError::TooLong`] over 65,535 bytes. The list is as before then.
    pub fn container(
        &mut self,
        name: &[u8],
        data_type: DataType,
        form: LenForm,
        body: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        if data_type == DataType::NO_DATA {
            return self.entry(name, data_type, |_| Ok(()));
        }
        self.entry(name, data_type, |w| payload_of(w, form, body))
    }

    /// Number of standard entries so far.
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// True without standard entries so far.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Ends the list. One that has neither set nor standard data gets a count of zero.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`] if that count does not fit.
    pub fn finish(mut self) -> Result<(), EncodeError> {
        if self.flags.contains(ListFlags::HAS_SET_DATA) { Ok(()) } else { self.begin_standard() }
    }

    /// Ends the list as it stands: one without data stays without even a count.
    pub fn finish_bare(self) {}
}
