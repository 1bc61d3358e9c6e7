//! What is left of bodies: fields and elements that pass, in lists and in the entries of maps, vectors and series.
//!
//! What cannot be filtered stays whole: containers without fields, lists whose set definitions are not known, and what cannot be read.

use crate::container::{
    ElementList, ElementListEncoder, FieldList, FieldListEncoder, Map, MapAction, MapEncoder, MapHead, Series,
    SeriesEncoder, SetScope, Vector, VectorAction, VectorEncoder, VectorHead,
};
use crate::msg::MsgClass;
use crate::wire::{LenForm, Writer, encode_growing};
use crate::{DataType, DecodeError, EncodeError};

/// Longest body that is written, bytes.
const LONGEST: usize = 64 << 20;

/// Containers in containers that are looked into; what lies deeper stays whole.
const MAX_DEPTH: u32 = 8;

/// What passes. A kind of list of which everything passes is not looked at.
pub trait Passing {
    /// True if a list of this type is to be filtered.
    fn filters(&self, list: DataType) -> bool;
    /// True if a field passes.
    fn field(&self, fid: i16) -> bool;
    /// True if an element passes.
    fn element(&self, name: &[u8]) -> bool;
}

/// The rest of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The body was filtered.
    Part,
    /// The body was filtered, and nothing passes: what was written is a container without entries.
    Nothing,
    /// The body is of a kind that is not filtered.
    Whole,
    /// The body cannot be read, or not be written without what does not pass: it stays whole.
    Unreadable,
}

/// Why a body cannot be filtered.
#[derive(Debug)]
pub enum Fault {
    /// The body does not follow the format of its container.
    Unreadable,
    /// What is left of it does not fit.
    Unwritable(EncodeError),
}

impl From<DecodeError> for Fault {
    fn from(_: DecodeError) -> Self {
        Self::Unreadable
    }
}

impl From<EncodeError> for Fault {
    fn from(error: EncodeError) -> Self {
        Self::Unwritable(error)
    }
}

impl Fault {
    fn unwritable(self) -> EncodeError {
        match self {
            Self::Unwritable(error) => error,
            Self::Unreadable => EncodeError::Unrepresentable("data that cannot be read"),
        }
    }
}

/// Appends what passes of the body of a message of a class; nothing if it stays whole. Set data is written out as standard data.
///
/// An entry that is to be updated goes if nothing of it passes, but for those of a refresh: there it is one of the image, whatever its
/// action ([`crate::image`]).
pub fn append_passing(
    passing: &impl Passing,
    class: MsgClass,
    container: DataType,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Left {
    let start = out.len();
    let mut left = Left::Unreadable;
    // Set data may grow when it is written out, by a byte or two a value.
    let result = encode_growing(out, start, body.len() * 2, LONGEST, |w| {
        left = match write_passing(passing, container, body, Within::top(class), w) {
            Ok(Some(true)) => Left::Part,
            Ok(Some(false)) => Left::Nothing,
            Ok(None) => Left::Whole,
            Err(Fault::Unreadable) => Left::Unreadable,
            Err(Fault::Unwritable(error)) => return Err(error),
        };
        Ok(())
    });
    let end = *result.as_ref().unwrap_or(&start);
    let left = if result.is_ok() { left } else { Left::Unreadable };
    out.truncate(if matches!(left, Left::Whole | Left::Unreadable) { start } else { end });
    left
}

/// Where a container lies.
#[derive(Debug, Clone, Copy)]
struct Within<'a> {
    scope: SetScope<'a>,
    /// A container around it has set definitions, which are not written: what lies within cannot be copied as it is.
    has_sets: bool,
    depth: u32,
    /// Entries that are there at all are of an image: none goes.
    is_image: bool,
}

impl Within<'_> {
    fn top(class: MsgClass) -> Self {
        Self { scope: SetScope::NONE, has_sets: false, depth: 0, is_image: class == MsgClass::REFRESH }
    }
}

/// Writes what passes of a container, and tells whether anything does; `None` if it is not to be filtered, and what was written is void.
fn write_passing(
    passing: &impl Passing,
    container: DataType,
    body: &[u8],
    within: Within<'_>,
    w: &mut Writer<'_>,
) -> Result<Option<bool>, Fault> {
    match container {
        DataType::FIELD_LIST if passing.filters(container) => write_fields(passing, body, &within.scope, w),
        DataType::ELEMENT_LIST if passing.filters(container) => write_elements(passing, body, &within.scope, w),
        _ if within.depth >= MAX_DEPTH => Ok(None),
        DataType::MAP => write_map(passing, body, within, w),
        DataType::VECTOR => write_vector(passing, body, within, w),
        DataType::SERIES => write_series(passing, body, within, w),
        _ => Ok(None),
    }
}

fn write_fields(
    passing: &impl Passing,
    body: &[u8],
    scope: &SetScope<'_>,
    w: &mut Writer<'_>,
) -> Result<Option<bool>, Fault> {
    let list = FieldList::decode(body, scope)?;
    if list.is_set_skipped() {
        return Err(Fault::Unreadable);
    }
    let mut out = FieldListEncoder::begin(w)?;
    if let Some(info) = list.info {
        out.info(info)?;
    }
    for entry in list.entries() {
        let entry = entry?;
        if !passing.field(entry.fid) {
            continue;
        }
        if entry.enc == DataType::UNKNOWN || entry.enc.is_container() {
            out.raw(entry.fid, entry.data)?;
        } else {
            out.field(entry.fid, &entry.value(DataType::UNKNOWN)?)?;
        }
    }
    let any = !out.is_empty();
    out.finish()?;
    Ok(Some(any))
}

fn write_elements(
    passing: &impl Passing,
    body: &[u8],
    scope: &SetScope<'_>,
    w: &mut Writer<'_>,
) -> Result<Option<bool>, Fault> {
    let list = ElementList::decode(body, scope)?;
    if list.is_set_skipped() {
        return Err(Fault::Unreadable);
    }
    let mut out = ElementListEncoder::begin(w)?;
    if let Some(info) = list.info {
        out.info(info)?;
    }
    copy_elements(&list, |name| passing.element(name), &mut out)?;
    let any = !out.is_empty();
    out.finish()?;
    Ok(Some(any))
}

/// Copies the elements with these names. Set data is written out as standard data.
///
/// # Errors
/// [`Fault`] if the list cannot be read, or what is left of it not written.
pub fn copy_elements(
    list: &ElementList<'_>,
    wanted: impl Fn(&[u8]) -> bool,
    out: &mut ElementListEncoder<'_, '_>,
) -> Result<(), Fault> {
    for entry in list.entries() {
        let entry = entry?;
        if !wanted(entry.name) {
            continue;
        }
        if entry.data_type.is_set_primitive() {
            out.element(entry.name, entry.data_type.base(), &entry.value()?)?;
        } else {
            out.raw(entry.name, entry.data_type, entry.data)?;
        }
    }
    Ok(())
}

/// The entries of a map, a vector or a series, as they are filtered.
struct Entries<'a, P> {
    passing: &'a P,
    container: DataType,
    within: Within<'a>,
}

impl<'a, P: Passing> Entries<'a, P> {
    /// `None` if the entries are of a kind that is not filtered.
    fn new(
        passing: &'a P,
        container: DataType,
        scope: SetScope<'a>,
        has_sets: bool,
        around: Within<'_>,
    ) -> Option<Self> {
        let may_hold = matches!(container, DataType::MAP | DataType::VECTOR | DataType::SERIES);
        let within = Within { scope, has_sets, depth: around.depth + 1, is_image: around.is_image };
        (passing.filters(container) || may_hold).then_some(Self { passing, container, within })
    }

    /// Writes the data of an entry, or the summary; false if nothing of it passes.
    fn write(&self, data: &[u8], w: &mut Writer<'_>) -> Result<bool, EncodeError> {
        let start = w.position();
        match write_passing(self.passing, self.container, data, self.within, w).map_err(Fault::unwritable)? {
            Some(any) => Ok(any),
            None if self.within.has_sets => Err(EncodeError::Unrepresentable("data of set definitions around it")),
            None => {
                w.rollback(start);
                w.bytes(data)?;
                Ok(!data.is_empty())
            }
        }
    }

    /// Puts an entry with what passes of `data`; false if nothing passes and it `may_go`, and then it is not put.
    fn put<'b>(
        &self,
        data: &[u8],
        may_go: bool,
        put: impl FnOnce(&mut dyn FnMut(&mut Writer<'b>) -> Result<(), EncodeError>) -> Result<(), EncodeError>,
    ) -> Result<bool, EncodeError> {
        let mut is_gone = false;
        let result = put(&mut |w| {
            is_gone = !self.write(data, w)? && may_go;
            // An entry that fails is taken back.
            if is_gone { Err(EncodeError::Unrepresentable("an entry without data")) } else { Ok(()) }
        });
        if is_gone { Ok(false) } else { result.map(|()| true) }
    }
}

fn write_map(
    passing: &impl Passing,
    body: &[u8],
    within: Within<'_>,
    w: &mut Writer<'_>,
) -> Result<Option<bool>, Fault> {
    let map = Map::decode(body, &within.scope)?;
    let has_sets = within.has_sets || map.set_defs().is_some();
    let Some(entries) = Entries::new(passing, map.container, map.scope(), has_sets, within) else {
        return Ok(None);
    };
    let Map { key_type, container, key_field_id, per_entry_perm, .. } = map;
    let head = MapHead { key_type, container, key_field_id, count_hint: map.count_hint(), per_entry_perm };
    let mut out = MapEncoder::begin(w, head)?;
    let mut any = false;
    if let Some(summary) = map.summary() {
        out.summary(LenForm::Shortest, |w| {
            any = entries.write(summary, w)?;
            Ok(())
        })?;
    }
    for entry in map.entries() {
        let entry = entry?;
        let key = entry.key_value(key_type)?;
        // An added entry is there, and one with a lock of its own says so, with or without data.
        let may_go = entry.action == MapAction::UPDATE && entry.perm_data.is_none() && !within.is_image;
        any |= entries.put(entry.data, may_go, |write| {
            out.entry_with(entry.action, &key, entry.perm_data, LenForm::Shortest, write)
        })?;
    }
    out.finish()?;
    Ok(Some(any))
}

fn write_vector(
    passing: &impl Passing,
    body: &[u8],
    within: Within<'_>,
    w: &mut Writer<'_>,
) -> Result<Option<bool>, Fault> {
    let vector = Vector::decode(body, &within.scope)?;
    let has_sets = within.has_sets || vector.set_defs().is_some();
    let Some(entries) = Entries::new(passing, vector.container, vector.scope(), has_sets, within) else {
        return Ok(None);
    };
    let Vector { container, sortable, per_entry_perm, .. } = vector;
    let head = VectorHead { container, sortable, count_hint: vector.count_hint(), per_entry_perm };
    let mut out = VectorEncoder::begin(w, head)?;
    let mut any = false;
    if let Some(summary) = vector.summary() {
        out.summary(LenForm::Shortest, |w| {
            any = entries.write(summary, w)?;
            Ok(())
        })?;
    }
    for entry in vector.entries() {
        let entry = entry?;
        let may_go = entry.action == VectorAction::UPDATE && entry.perm_data.is_none() && !within.is_image;
        any |= entries.put(entry.data, may_go, |write| {
            out.entry_with(entry.action, entry.index, entry.perm_data, LenForm::Shortest, write)
        })?;
    }
    out.finish()?;
    Ok(Some(any))
}

fn write_series(
    passing: &impl Passing,
    body: &[u8],
    within: Within<'_>,
    w: &mut Writer<'_>,
) -> Result<Option<bool>, Fault> {
    let series = Series::decode(body, &within.scope)?;
    let has_sets = within.has_sets || series.set_defs().is_some();
    let Some(entries) = Entries::new(passing, series.container, series.scope(), has_sets, within) else {
        return Ok(None);
    };
    let mut out = SeriesEncoder::begin(w, series.container, series.count_hint())?;
    let mut any = false;
    if let Some(summary) = series.summary() {
        out.summary(LenForm::Shortest, |w| {
            any = entries.write(summary, w)?;
            Ok(())
        })?;
    }
    for entry in series.entries() {
        // Entries of a series have no names: one that goes would move the others.
        any |= entries.put(entry?, false, |write| out.entry(write))?;
    }
    out.finish()?;
    Ok(Some(any))
}
