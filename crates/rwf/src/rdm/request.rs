//! What the payload of a request can say: a batch of items or streams, a view, the behaviours of a symbol list.

use super::elements::{Element, Elements};
use super::read::for_each;
use crate::container::SetScope;
use crate::msg::RequestMsg;
use crate::primitive::Primitive;
use crate::wire::{LenForm, Writer};
use crate::{DataType, DecodeError, EncodeError};

/// `:ViewType`s (ETA `ViewTypes`).
mod view_type {
    /// Blank, or no number.
    pub(super) const NONE: u64 = 0;
    pub(super) const FIELD_IDS: u64 = 1;
    pub(super) const ELEMENT_NAMES: u64 = 2;
}

/// Bits of `:DataStreams` in a symbol list's behaviours (ETA `SymbolList`).
pub mod data_streams {
    /// Open a stream for each item.
    pub const STREAMS: u64 = 1;
    /// Take a snapshot of each item.
    pub const SNAPSHOTS: u64 = 2;
}

/// The payload of a request or close.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Payload<'a> {
    /// `:ItemList`: a request for each of these names; the flag `HAS_BATCH` says that it counts.
    pub items: Option<Vec<&'a [u8]>>,
    /// `:StreamIdList`: a re-issue or close of each of these streams.
    pub streams: Option<Vec<i32>>,
    /// `:ViewType` and `:ViewData`: the fields wanted; the flag `HAS_VIEW` says that it counts.
    pub view: Option<View>,
    /// `:DataStreams` in `:SymbolListBehaviors`: bits of [`data_streams`].
    pub data_streams: Option<u64>,
}

/// Which fields are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum View {
    /// Fields by id, in the requester's order.
    Fields(Vec<i16>),
    /// Elements by name.
    Elements(Vec<Vec<u8>>),
    /// A type of view that is not known: to be answered by
    /// [`UNSUPPORTED_VIEW_TYPE`](crate::StateCode::UNSUPPORTED_VIEW_TYPE).
    Unsupported(u64),
    /// Type or data are missing or do not fit: to be answered by [`INVALID_VIEW`](crate::StateCode::INVALID_VIEW).
    Invalid,
}

impl<'a> Payload<'a> {
    /// Reads the payload of a request. A body that is no element list says nothing.
    ///
    /// # Errors
    /// An element list that is not well formed, or a batch that is no array of text or numbers.
    pub fn of_request(msg: &RequestMsg<'a>) -> Result<Self, DecodeError> {
        Self::decode(msg.container, msg.body)
    }

    /// Reads the payload of a request or close. A body that is no element list says nothing.
    ///
    /// # Errors
    /// An element list that is not well formed, or a batch that is no array of text or numbers.
    pub fn decode(container: DataType, body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut payload = Self::default();
        if container != DataType::ELEMENT_LIST {
            return Ok(payload);
        }
        let mut view_type = None;
        let mut view_data = None;
        for_each(body, &SetScope::NONE, |element| {
            match element.name() {
                b":ItemList" => payload.items = Some(names(element)?),
                b":StreamIdList" => payload.streams = Some(numbers(element)?),
                b":ViewType" => view_type = Some(element.uint().ok().flatten().unwrap_or(view_type::NONE)),
                b":ViewData" => view_data = Some(*element),
                b":SymbolListBehaviors" => payload.data_streams = behaviours(element)?,
                _ => {}
            }
            Ok(())
        })?;
        payload.view = View::read(view_type, view_data.as_ref());
        Ok(payload)
    }

    /// Writes the payload: an element list.
    ///
    /// # Errors
    /// The buffer is full; a list is longer than 65,535 items or bytes; the view is of no known type.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut list = Elements::begin(w)?;
        if let Some(items) = &self.items {
            list.ascii_array(":ItemList", LenForm::Shortest, items)?;
        }
        if let Some(streams) = &self.streams {
            list.int_array(":StreamIdList", LenForm::Shortest, streams)?;
        }
        match &self.view {
            None => {}
            Some(View::Fields(fids)) => {
                list.uint(":ViewType", view_type::FIELD_IDS)?;
                list.fid_array(":ViewData", LenForm::Shortest, fids)?;
            }
            Some(View::Elements(names)) => {
                list.uint(":ViewType", view_type::ELEMENT_NAMES)?;
                list.ascii_array(":ViewData", LenForm::Shortest, names)?;
            }
            Some(View::Unsupported(_) | View::Invalid) => {
                return Err(EncodeError::Unrepresentable("view of an unknown type"));
            }
        }
        if let Some(bits) = self.data_streams {
            list.container(":SymbolListBehaviors", DataType::ELEMENT_LIST, LenForm::Shortest, |w| {
                let mut behaviours = Elements::begin(w)?;
                behaviours.uint(":DataStreams", bits)?;
                behaviours.end();
                Ok(())
            })?;
        }
        list.end();
        Ok(())
    }
}

impl View {
    /// The view that type and data make; `None` if neither is there.
    fn read(view_type: Option<u64>, data: Option<&Element<'_>>) -> Option<Self> {
        let view = match (view_type, data) {
            (None, None) => return None,
            (Some(view_type::FIELD_IDS), Some(data)) => fids(data).ok().map(Self::Fields),
            (Some(view_type::ELEMENT_NAMES), Some(data)) => {
                names(data).ok().map(|names| Self::Elements(names.into_iter().map(<[u8]>::to_vec).collect()))
            }
            (Some(other), _) if other > view_type::ELEMENT_NAMES => Some(Self::Unsupported(other)),
            _ => None,
        };
        Some(view.unwrap_or(Self::Invalid))
    }
}

fn names<'a>(element: &Element<'a>) -> Result<Vec<&'a [u8]>, DecodeError> {
    let mut names = Vec::new();
    for item in element.items()? {
        let item = item?;
        match item.as_bytes() {
            Some(name) => names.push(name),
            None if item.is_blank() => names.push(&[]),
            None => return Err(DecodeError::invalid("list of names", 0)),
        }
    }
    Ok(names)
}

fn numbers<T: TryFrom<i64>>(element: &Element<'_>) -> Result<Vec<T>, DecodeError> {
    let mut numbers = Vec::new();
    for item in element.items()? {
        let number = match item? {
            Primitive::Int(number) => Some(number),
            Primitive::UInt(number) => i64::try_from(number).ok(),
            _ => None,
        };
        numbers.push(
            number.and_then(|number| T::try_from(number).ok()).ok_or(DecodeError::invalid("list of numbers", 0))?,
        );
    }
    Ok(numbers)
}

fn fids(element: &Element<'_>) -> Result<Vec<i16>, DecodeError> {
    numbers(element)
}

fn behaviours(element: &Element<'_>) -> Result<Option<u64>, DecodeError> {
    if element.data_type() != DataType::ELEMENT_LIST {
        return Err(DecodeError::invalid("behaviours that are no element list", 0));
    }
    let mut data_streams = None;
    for_each(element.data(), &SetScope::NONE, |element| {
        if element.name() == b":DataStreams" {
            data_streams = element.uint()?;
        }
        Ok(())
    })?;
    Ok(data_streams)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(payload: &Payload<'_>) -> Payload<'static> {
        let mut buf = [0; 300];
        let mut w = Writer::new(&mut buf);
        payload.encode(&mut w).unwrap();
        Payload::decode(DataType::ELEMENT_LIST, Box::leak(w.written().into())).unwrap()
    }

    #[test]
    fn what_is_encoded_is_read_back() {
        let batch = Payload {
            items: Some(vec![b"A.N", b"", b"B.N"]),
            view: Some(View::Fields(vec![22, -1, 25])),
            ..Payload::default()
        };
        assert_eq!(again(&batch), batch);
        let close = Payload { streams: Some(vec![5, -7, 100_000]), ..Payload::default() };
        assert_eq!(again(&close), close);
        let names =
            Payload { view: Some(View::Elements(vec![b"X".to_vec()])), data_streams: Some(3), ..Payload::default() };
        assert_eq!(again(&names), names);
    }

    #[test]
    fn views_that_do_not_work_are_told_apart() {
        let view = |bytes: &[u8]| Payload::decode(DataType::ELEMENT_LIST, Box::leak(bytes.into())).unwrap().view;
        // :ViewType 9 without data; :ViewType 1 without data; :ViewData without type.
        assert_eq!(view(b"\x08\x00\x01\x09:ViewType\x04\x01\x09"), Some(View::Unsupported(9)));
        assert_eq!(view(b"\x08\x00\x01\x09:ViewType\x04\x01\x01"), Some(View::Invalid));
        assert_eq!(view(b"\x08\x00\x01\x09:ViewData\x0f\x04\x03\x02\x00\x00"), Some(View::Invalid));
        // Field id 40,000 is out of range.
        assert_eq!(
            view(b"\x08\x00\x02\x09:ViewType\x04\x01\x01\x09:ViewData\x0f\x08\x03\x00\x00\x01\x03\x00\x9c\x40"),
            Some(View::Invalid)
        );
        assert_eq!(view(b"\x08\x00\x00"), None);
    }
}
