//! Views: subsets of an item's fields or elements, and what they let through; and what is the same item at another rate.

use crate::p2ps::encode;
use rwf::container::{ElementList, ElementListEncoder, FieldList, FieldListEncoder, SetScope};
use rwf::rdm::request::{Payload, View};
use rwf::wire::Writer;
use rwf::{DataType, DecodeError, EncodeError};

/// What a view lets through, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ViewSpec {
    /// Fields by id.
    Fields(Box<[i16]>),
    /// Elements by name.
    Elements(Box<[Vec<u8>]>),
    /// What is shown, everything if `None`, conflated over so many milliseconds.
    Conflated(u16, Option<Box<Self>>),
}

impl ViewSpec {
    /// The same conflated over an interval, 0 for none; everything if nothing else is said of what is shown.
    pub(crate) fn at(interval: u16, shown: Option<Self>) -> Option<Self> {
        if interval == 0 { shown } else { Some(Self::Conflated(interval, shown.map(Box::new))) }
    }

    /// Milliseconds over which the view is conflated; 0 for none.
    pub(crate) const fn interval(&self) -> u16 {
        match self {
            Self::Conflated(interval, _) => *interval,
            Self::Fields(_) | Self::Elements(_) => 0,
        }
    }

    /// The subset that it shows; `None` for everything.
    pub(crate) fn shown(&self) -> Option<&Self> {
        match self {
            Self::Conflated(_, shown) => shown.as_deref(),
            Self::Fields(_) | Self::Elements(_) => Some(self),
        }
    }

    /// True if all that `other` lets through passes here too.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self.shown(), other.shown()) {
            (None, _) => true,
            (Some(Self::Fields(own)), Some(Self::Fields(other))) => {
                other.iter().all(|fid| own.binary_search(fid).is_ok())
            }
            (Some(Self::Elements(own)), Some(Self::Elements(other))) => {
                other.iter().all(|name| own.binary_search(name).is_ok())
            }
            _ => false,
        }
    }

    /// The view as payload of a request.
    pub(crate) fn payload(&self) -> Vec<u8> {
        let view = match self {
            Self::Fields(fids) => View::Fields(fids.to_vec()),
            Self::Elements(names) => View::Elements(names.to_vec()),
            Self::Conflated(_, shown) => return shown.as_ref().map_or_else(Vec::new, |shown| shown.payload()),
        };
        let payload = Payload { view: Some(view), ..Payload::default() };
        let mut out = Vec::new();
        // Too long a view is asked for as everything, which is always right.
        if encode::append(&mut out, 256, |w| payload.encode(w)).is_err() {
            out.clear();
        }
        out
    }

    /// Writes what passes of a container; `Ok(None)` if it is of a kind that this view does not filter, `Some(false)` if
    /// nothing passes. Set data is written out as standard data.
    fn filter(&self, container: DataType, body: &[u8], w: &mut Writer<'_>) -> Result<Option<bool>, Fault> {
        match (self, container) {
            (Self::Fields(fids), DataType::FIELD_LIST) => filter_fields(fids, body, w),
            (Self::Elements(names), DataType::ELEMENT_LIST) => filter_elements(names, body, w),
            (Self::Conflated(_, Some(shown)), _) => shown.filter(container, body, w),
            _ => Ok(None),
        }
    }
}

/// Why a body cannot be filtered.
#[derive(Debug)]
pub(crate) enum Fault {
    Unreadable,
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

fn filter_fields(fids: &[i16], body: &[u8], w: &mut Writer<'_>) -> Result<Option<bool>, Fault> {
    let list = FieldList::decode(body, &SetScope::NONE)?;
    if list.is_set_skipped() {
        return Ok(None);
    }
    let mut out = FieldListEncoder::begin(w)?;
    if let Some(info) = list.info {
        out.info(info)?;
    }
    for entry in list.entries() {
        let entry = entry?;
        if fids.binary_search(&entry.fid).is_err() {
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

fn filter_elements(names: &[Vec<u8>], body: &[u8], w: &mut Writer<'_>) -> Result<Option<bool>, Fault> {
    let list = ElementList::decode(body, &SetScope::NONE)?;
    if list.is_set_skipped() {
        return Ok(None);
    }
    let mut out = ElementListEncoder::begin(w)?;
    if let Some(info) = list.info {
        out.info(info)?;
    }
    copy_elements(&list, |name| names.binary_search_by(|known| known.as_slice().cmp(name)).is_ok(), &mut out)?;
    let any = !out.is_empty();
    out.finish()?;
    Ok(Some(any))
}

/// Copies the elements with these names. Set data is written out as standard data.
pub(crate) fn copy_elements(
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

/// What is left of a message's body under a view.
pub(crate) enum Filtered {
    /// It was filtered, into the end of the vector.
    Written,
    /// Nothing of it passes.
    Nothing,
    /// It is of a kind that is not filtered.
    Whole,
}

/// Appends what a view lets through of a body.
pub(crate) fn append_filtered(spec: &ViewSpec, container: DataType, body: &[u8], out: &mut Vec<u8>) -> Filtered {
    let start = out.len();
    let mut outcome = Filtered::Whole;
    // Set data may grow when it is written out, by a byte or two a value.
    let result = encode::append(out, body.len() * 2, |w| match spec.filter(container, body, w) {
        Ok(Some(any)) => {
            outcome = if any { Filtered::Written } else { Filtered::Nothing };
            Ok(())
        }
        Ok(None) | Err(Fault::Unreadable) => {
            outcome = Filtered::Whole;
            Ok(())
        }
        Err(Fault::Unwritable(error)) => Err(error),
    });
    if result.is_err() {
        outcome = Filtered::Whole;
    }
    if !matches!(outcome, Filtered::Written) {
        out.truncate(start);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::{Filtered, ViewSpec, append_filtered};
    use rwf::DataType;
    use rwf::container::{FieldList, FieldListEncoder, SetScope};
    use rwf::wire::Writer;

    fn fields(fids: &[i16]) -> ViewSpec {
        ViewSpec::Fields(fids.into())
    }

    #[test]
    fn a_view_covers_its_subsets() {
        let (a, b) = (fields(&[1, 2]), fields(&[2, 3]));
        assert!(!a.covers(&b) && a.covers(&fields(&[2])) && a.covers(&a));
        assert!(!a.covers(&ViewSpec::Elements(Box::default())));
    }

    #[test]
    fn a_conflated_view_shows_what_it_shows() {
        let whole = ViewSpec::at(500, None).unwrap();
        let part = ViewSpec::at(500, Some(fields(&[1, 2]))).unwrap();
        assert_eq!(ViewSpec::at(0, Some(fields(&[1]))), Some(fields(&[1])));
        assert_eq!((whole.interval(), part.interval(), fields(&[1]).interval()), (500, 500, 0));
        assert!(whole.covers(&part) && !part.covers(&whole) && part.covers(&fields(&[2])));
        assert!(fields(&[1, 2, 3]).covers(&part) && !fields(&[1, 2]).covers(&whole));
        assert_eq!((whole.payload(), part.payload()), (Vec::new(), fields(&[1, 2]).payload()));
    }

    #[test]
    fn only_wanted_fields_pass() {
        let mut buf = [0; 100];
        let mut w = Writer::new(&mut buf);
        let mut list = FieldListEncoder::begin(&mut w).unwrap();
        for fid in [3, 22, 25, -1] {
            list.uint(fid, fid as u64 & 0x7F).unwrap();
        }
        list.finish().unwrap();
        let body = w.into_written();
        let mut out = vec![7];
        assert!(matches!(append_filtered(&fields(&[-1, 22]), DataType::FIELD_LIST, body, &mut out), Filtered::Written));
        assert_eq!(out[0], 7);
        let list = FieldList::decode(&out[1..], &SetScope::NONE).unwrap();
        let fids: Vec<i16> = list.entries().map(|entry| entry.unwrap().fid).collect();
        assert_eq!(fids, [22, -1]);
        assert!(matches!(append_filtered(&fields(&[99]), DataType::FIELD_LIST, body, &mut out), Filtered::Nothing));
        assert!(matches!(append_filtered(&fields(&[22]), DataType::MAP, body, &mut out), Filtered::Whole));
    }
}
