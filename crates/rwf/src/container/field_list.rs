//! Field list: values by field id. The types of the fields are in the dictionary, not on the wire.
//!
//! This is the payload of market data, and its entry loop is the hottest code of the crate.

use super::parts::payload_of;
use super::sets::{FieldSetDef, SetEncoder, SetScope, TypesLeft};
use crate::macros::flag_set;
use crate::primitive::{self, Primitive};
use crate::wire::{LenForm, Reader, ShortNumber, Writer};
use crate::{DataType, DecodeError, EncodeError, Real};

flag_set! {
    /// Flags of field and element lists (ETA `FieldListFlags`, `ElementListFlags`).
    ListFlags: u8 {
        /// Information about the list is there.
        HAS_INFO = 0x01,
        /// Set data is there.
        HAS_SET_DATA = 0x02,
        /// The set's id is there; without it, it is 0.
        HAS_SET_ID = 0x04,
        /// Standard data is there.
        HAS_STANDARD_DATA = 0x08,
    }
}

/// Information about a field list.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct FieldListInfo {
    /// Id of the dictionary; at most 32,767.
    pub dict_id: u16,
    /// Number of the template the list was made from.
    pub num: u16,
}

/// A field list.
#[derive(Clone, Copy, Debug)]
pub struct FieldList<'a> {
    /// Information about the list.
    pub info: Option<FieldListInfo>,
    /// Id of the set; `None` without the flag, which means 0 if there is set data.
    pub set_id: Option<u16>,
    set_data: Option<&'a [u8]>,
    set_def: FieldSetDef<'a>,
    set_known: bool,
    has_standard: bool,
    count: u16,
    standard: &'a [u8],
    base: usize,
}

/// An entry of a field list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldEntry<'a> {
    /// Field id.
    pub fid: i16,
    /// The form that a set definition prescribes; [`DataType::UNKNOWN`] for standard data, where the dictionary has to
    /// say the type.
    pub enc: DataType,
    /// The value's bytes; none for a blank.
    pub data: &'a [u8],
}

impl<'a> FieldEntry<'a> {
    /// The value, `data_type` being what the dictionary says of the field; a set definition goes before it.
    ///
    /// # Errors
    /// Invalid if the bytes are not of the type, or the type is no primitive.
    #[inline]
    pub fn value(&self, data_type: DataType) -> Result<Primitive<'a>, DecodeError> {
        Primitive::decode(self.resolve(data_type), self.data)
    }

    /// The type of the bytes, `data_type` being what the dictionary says of the field.
    #[inline]
    pub const fn resolve(&self, data_type: DataType) -> DataType {
        if self.enc.0 == DataType::UNKNOWN.0 { data_type } else { self.enc }
    }
}

impl<'a> FieldList<'a> {
    /// Decodes the header.
    ///
    /// # Errors
    /// Truncated.
    #[inline]
    pub fn decode(data: &'a [u8], scope: &SetScope<'a>) -> Result<Self, DecodeError> {
        // Standard data alone is what nearly all lists have.
        if let [0x08, hi, lo, ref standard @ ..] = *data {
            return Ok(Self {
                has_standard: true,
                count: u16::from_be_bytes([hi, lo]),
                standard,
                base: 3,
                ..Self::EMPTY
            });
        }
        Self::decode_all(data, scope)
    }

    /// The standard entries of a list that has nothing else, and how many they are to be.
    #[inline]
    pub(crate) const fn plain(data: &[u8]) -> Option<(&[u8], u16)> {
        match data {
            [0x08, hi, lo, standard @ ..] => Some((standard, u16::from_be_bytes([*hi, *lo]))),
            _ => None,
        }
    }

    const EMPTY: Self = FieldList {
        info: None,
        set_id: None,
        set_data: None,
        set_def: FieldSetDef::EMPTY,
        set_known: false,
        has_standard: false,
        count: 0,
        standard: &[],
        base: 0,
    };

    #[inline(never)]
    fn decode_all(data: &'a [u8], scope: &SetScope<'a>) -> Result<Self, DecodeError> {
        let mut list = Self::EMPTY;
        if data.is_empty() {
            return Ok(list);
        }
        let mut r = Reader::new(data, "field list header");
        let flags = ListFlags(r.u8()?);
        list.has_standard = flags.contains(ListFlags::HAS_STANDARD_DATA);
        if flags.contains(ListFlags::HAS_INFO) {
            let info = r.buf8()?;
            let base = r.offset() - info.len();
            let mut info = Reader::new(info, "field list info");
            let mut read = || Ok(FieldListInfo { dict_id: info.rb15()?, num: info.u16()? });
            list.info = Some(read().map_err(|e: DecodeError| e.within(base))?);
        }
        if flags.contains(ListFlags::HAS_SET_DATA) {
            list.set_id = if flags.contains(ListFlags::HAS_SET_ID) { Some(r.reading("set id").rb15()?) } else { None };
            let def = scope.field_set(list.set_id.unwrap_or(0));
            list.set_known = def.is_some();
            list.set_def = def.unwrap_or(FieldSetDef::EMPTY);
            list.set_data = Some(if list.has_standard { r.reading("set data").buf15()? } else { r.rest() });
        }
        if list.has_standard {
            list.count = r.reading("field count").u16()?;
            list.standard = r.rest();
        }
        list.base = r.offset();
        Ok(list)
    }

    /// The entries: those of the set, then the standard ones. The iterator ends after the first error.
    ///
    /// Set data whose definition is not known is skipped, see [`FieldList::is_set_skipped`].
    #[inline]
    pub fn entries(&self) -> FieldEntries<'a> {
        FieldEntries {
            standard: self.standard,
            left: self.count,
            set_def: self.set_def,
            set: Reader::new(self.set_data.unwrap_or_default(), "set data"),
            base: self.base,
            len: self.standard.len(),
        }
    }

    /// The bytes of the set data.
    pub const fn set_data(&self) -> Option<&'a [u8]> {
        self.set_data
    }

    /// The definition of the set data, if it is known.
    pub const fn set_def(&self) -> Option<FieldSetDef<'a>> {
        if self.set_known { Some(self.set_def) } else { None }
    }

    /// True if there is set data whose definition is not known.
    pub const fn is_set_skipped(&self) -> bool {
        self.set_data.is_some() && !self.set_known
    }

    /// True if the header announces standard data, be it without entries.
    pub const fn has_standard_data(&self) -> bool {
        self.has_standard
    }

    /// Number of entries, as the set definition and the header have it.
    pub const fn len(&self) -> usize {
        self.set_def.len() + self.count as usize
    }

    /// True if there are no entries by set definition and header.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Iterator over the entries of a field list.
#[derive(Clone, Debug)]
pub struct FieldEntries<'a> {
    standard: &'a [u8],
    left: u16,
    set_def: FieldSetDef<'a>,
    set: Reader<'a>,
    base: usize,
    len: usize,
}

impl<'a> FieldEntries<'a> {
    /// True if the next entry is one of the set.
    pub const fn in_set(&self) -> bool {
        !self.set_def.is_empty()
    }

    /// The bytes of the standard entries that are left, and how many entries that is.
    #[inline]
    pub(crate) const fn standard(&self) -> (&'a [u8], u16) {
        (self.standard, self.left)
    }

    /// Goes on behind so many standard entries, which have so many bytes; none of a set may be left.
    #[inline]
    pub(crate) fn skip_standard(&mut self, count: u16, bytes: usize) {
        debug_assert!(!self.in_set(), "standard entries come behind those of the set");
        self.left -= count;
        self.standard = &self.standard[bytes..];
    }

    /// Ends the iteration with the error for an entry that is cut off.
    #[inline]
    const fn cut_off(&mut self) -> DecodeError {
        self.left = 0;
        DecodeError::truncated("field entry", self.base + self.len - self.standard.len())
    }

    #[inline]
    fn next_of_set(&mut self) -> Option<Result<FieldEntry<'a>, DecodeError>> {
        let ((fid, enc), rest) = self.set_def.split_first()?;
        self.set_def = rest;
        let (data, set) = take_set(enc, self.set);
        self.set = set;
        if data.is_err() {
            self.set_def = FieldSetDef::EMPTY;
            self.left = 0;
        }
        Some(data.map(|data| FieldEntry { fid, enc, data }))
    }
}

// The rare cases take and give what they change by value: with references to it the iterator would live in memory, and
// each entry of the loop would wait for the stores of the one before.

/// The value and the rest of an entry with a length in the long form, or one that is cut off.
#[inline(never)]
fn take_long(after_fid: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut r = Reader::new(after_fid, "field entry");
    let data = r.buf16().ok()?;
    Some((data, r.rest()))
}

/// A value of set data, and the reader after it.
#[inline(never)]
fn take_set(enc: DataType, mut set: Reader<'_>) -> (Result<&[u8], DecodeError>, Reader<'_>) {
    (primitive::read_set(enc, &mut set), set)
}

impl<'a> Iterator for FieldEntries<'a> {
    type Item = Result<FieldEntry<'a>, DecodeError>;

    // Where it is a call, an entry goes through memory, which costs more than reading it.
    #[allow(clippy::inline_always, reason = "measured: a third of the time of a message as JSON")]
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if !self.set_def.is_empty() {
            return self.next_of_set();
        }
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        // A way of its own for each form: where they meet, what one gives by memory the other would have to write there, too.
        if let [hi, lo, len @ 0..0xFE, ref rest @ ..] = *self.standard
            && let Some((data, rest)) = rest.split_at_checked(usize::from(len))
        {
            self.standard = rest;
            return Some(Ok(FieldEntry { fid: i16::from_be_bytes([hi, lo]), enc: DataType::UNKNOWN, data }));
        }
        let [hi, lo, ref after_fid @ ..] = *self.standard else { return Some(Err(self.cut_off())) };
        let Some((data, rest)) = take_long(after_fid) else { return Some(Err(self.cut_off())) };
        self.standard = rest;
        Some(Ok(FieldEntry { fid: i16::from_be_bytes([hi, lo]), enc: DataType::UNKNOWN, data }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // A standard entry is at least three bytes: a count from the network is no reason to allocate.
        (0, Some(self.set_def.len() + (self.left as usize).min(self.standard.len() / 3 + 1)))
    }
}

/// Writes a field list in place: information first, if any, then set data, then standard entries. The count is patched
/// when the list is finished.
#[derive(Debug)]
#[must_use = "a list that was begun has to be finished"]
pub struct FieldListEncoder<'w, 'b> {
    w: &'w mut Writer<'b>,
    flags_at: usize,
    flags: ListFlags,
    count_at: usize,
    /// Standard entries for which there are still numbers; 0 while standard data is not open, too, so that an entry asks once.
    left: u16,
}

impl<'w, 'b> FieldListEncoder<'w, 'b> {
    /// Begins a field list.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    #[inline]
    pub fn begin(w: &'w mut Writer<'b>) -> Result<Self, EncodeError> {
        let flags_at = w.position();
        w.u8(0)?;
        Ok(Self { w, flags_at, flags: ListFlags::NONE, count_at: 0, left: 0 })
    }

    #[inline]
    fn flag(&mut self, flag: ListFlags) {
        self.flags |= flag;
        self.w.patch_u8(self.flags_at, self.flags.0);
    }

    /// Information about the list; the first thing, if at all.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::Unrepresentable`] after anything else.
    pub fn info(&mut self, info: FieldListInfo) -> Result<(), EncodeError> {
        if self.flags != ListFlags::NONE {
            return Err(EncodeError::Unrepresentable("information after data of the list"));
        }
        self.w.u8(if info.dict_id < 0x80 { 3 } else { 4 })?;
        self.w.rb15(info.dict_id as usize)?;
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
        def: FieldSetDef<'_>,
        then_standard: Option<LenForm>,
        body: impl FnOnce(&mut SetEncoder<'_, 'b, '_>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        if self.flags.without(ListFlags::HAS_INFO) != ListFlags::NONE {
            return Err(EncodeError::Unrepresentable("set data after data of the list"));
        }
        write_set(self.w, id, TypesLeft::Fields(def), then_standard, body)?;
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
    #[inline]
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

    #[inline]
    fn open_standard(&mut self) -> Result<(), EncodeError> {
        self.count_at = self.w.reserve_u16()?;
        self.left = u16::MAX;
        self.flag(ListFlags::HAS_STANDARD_DATA);
        Ok(())
    }

    #[inline]
    fn entry(
        &mut self,
        fid: i16,
        write: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.whole_entry(|w| {
            w.i16(fid)?;
            write(w)
        })
    }

    /// An entry, field id and all; the list is as before if it fails.
    #[inline]
    fn whole_entry(
        &mut self,
        write: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.begin_standard()?;
        if self.left == 0 {
            return Err(EncodeError::TooLong { what: "fields", len: 0x1_0000, max: 0xFFFF });
        }
        let start = self.w.position();
        match write(self.w) {
            Ok(()) => {
                self.left -= 1;
                Ok(())
            }
            Err(e) => {
                self.w.rollback(start);
                Err(e)
            }
        }
    }

    /// A field with a primitive value.
    ///
    /// # Errors
    /// As [`Primitive::encode_ob16`]. The list is as before then.
    #[inline]
    pub fn field(&mut self, fid: i16, value: &Primitive<'_>) -> Result<(), EncodeError> {
        match value.short_number() {
            Some(number) => self.number(fid, &number),
            None => self.entry(fid, |w| value.encode_ob16(w)),
        }
    }

    // The frequent way is short enough to be a part of its caller's loop, and the number in registers then.
    #[inline]
    fn number(&mut self, fid: i16, number: &ShortNumber) -> Result<(), EncodeError> {
        if self.left > 0 && self.w.numbered(fid, number) {
            self.left -= 1;
            return Ok(());
        }
        self.odd_number(fid, number.hint, number.bytes, number.len)
    }

    /// The first one, one too many, or one for which there is less room than the longest takes.
    #[inline(never)]
    fn odd_number(&mut self, fid: i16, hint: Option<u8>, bytes: [u8; 8], len: usize) -> Result<(), EncodeError> {
        self.entry(fid, |w| w.short_number(&ShortNumber { hint, bytes, len }))
    }

    /// A field with a value of up to eight bytes that is encoded already: the first `len` of `value`. Takes less than
    /// [`FieldListEncoder::raw`].
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]. The list is as before then.
    ///
    /// # Panics
    /// `len` is over eight.
    #[inline]
    pub fn short(&mut self, fid: i16, value: [u8; 8], len: usize) -> Result<(), EncodeError> {
        assert!(len <= value.len());
        self.number(fid, &ShortNumber::encoded(value, len))
    }

    /// A field with a value that is encoded already.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::TooLong`] over 65,535 bytes. The list is as before then.
    #[inline]
    pub fn raw(&mut self, fid: i16, value: &[u8]) -> Result<(), EncodeError> {
        self.entry(fid, |w| w.buf16(value))
    }

    /// A blank field.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    #[inline]
    pub fn blank(&mut self, fid: i16) -> Result<(), EncodeError> {
        self.entry(fid, |w| w.u8(0))
    }

    /// A real.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::Unrepresentable`] for an unknown hint.
    #[inline]
    pub fn real(&mut self, fid: i16, value: Real) -> Result<(), EncodeError> {
        match ShortNumber::real(value) {
            Some(number) => self.number(fid, &number),
            // Infinity and the like, or an unknown hint.
            None => self.field(fid, &Primitive::Real(value)),
        }
    }

    /// An unsigned integer.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    #[inline]
    pub fn uint(&mut self, fid: i16, value: u64) -> Result<(), EncodeError> {
        self.number(fid, &ShortNumber::uint(value))
    }

    /// A signed integer.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    #[inline]
    pub fn int(&mut self, fid: i16, value: i64) -> Result<(), EncodeError> {
        self.number(fid, &ShortNumber::int(value))
    }

    /// The value of an enumeration.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    #[inline]
    pub fn enumeration(&mut self, fid: i16, value: u16) -> Result<(), EncodeError> {
        self.number(fid, &ShortNumber::uint(value.into()))
    }

    /// A field whose value is a container or array, which `body` writes.
    ///
    /// # Errors
    /// Those of `body`; [`EncodeError::TooLong`] over 65,535 bytes. The list is as before then.
    pub fn container(
        &mut self,
        fid: i16,
        form: LenForm,
        body: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.entry(fid, |w| payload_of(w, form, body))
    }

    /// Number of standard entries so far.
    #[inline]
    pub const fn len(&self) -> usize {
        if self.flags.contains(ListFlags::HAS_STANDARD_DATA) { (u16::MAX - self.left) as usize } else { 0 }
    }

    /// True without standard entries so far.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the list. One that has neither set nor standard data gets a count of zero.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`] if that count does not fit.
    #[inline]
    pub fn finish(mut self) -> Result<(), EncodeError> {
        if !self.flags.contains(ListFlags::HAS_SET_DATA) {
            self.begin_standard()?;
        }
        self.finish_bare();
        Ok(())
    }

    /// Ends the list as it stands: one without data stays without even a count.
    #[inline]
    pub fn finish_bare(self) {
        if self.flags.contains(ListFlags::HAS_STANDARD_DATA) {
            self.w.patch_u16(self.count_at, u16::MAX - self.left);
        }
    }
}

/// Set data with its id and, if standard data follows, its length.
pub(super) fn write_set<'b>(
    w: &mut Writer<'b>,
    id: Option<u16>,
    types: TypesLeft<'_>,
    then_standard: Option<LenForm>,
    body: impl FnOnce(&mut SetEncoder<'_, 'b, '_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    if let Some(id) = id {
        w.rb15(id as usize)?;
    }
    let mark = then_standard.map(|form| w.begin_rb15(form)).transpose()?;
    let mut set = SetEncoder::new(w, types);
    body(&mut set)?;
    set.finish()?;
    mark.map_or(Ok(()), |mark| w.end_rb15(mark))
}
