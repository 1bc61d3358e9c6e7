//! Reading the containers of the administrative domains.

use super::elements::Element;
use crate::msg::MsgKey;
use crate::wire::Reader;
use crate::{DataType, DecodeError};

/// Calls `f` with each element of an element list.
pub(crate) fn for_each<'a>(
    bytes: &'a [u8],
    mut f: impl FnMut(&Element<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut r = Reader::new(bytes, "element list");
    let flags = r.u8()?;
    if flags & 0x01 != 0 {
        r.buf8()?;
    }
    if flags & 0x06 != 0 {
        return Err(DecodeError::invalid("set data in an administrative message", 0));
    }
    if flags & 0x08 != 0 {
        for _ in 0..r.u16()? {
            let name = r.buf15()?;
            let data_type = DataType(r.u8()?);
            let data = if data_type == DataType::NO_DATA { &[][..] } else { r.buf16()? };
            f(&Element { name, data_type, data })?;
        }
    }
    Ok(())
}

/// Calls `f` with each element of the attributes of a key, which may have none.
pub(crate) fn for_each_of_key<'a>(
    key: &MsgKey<'a>,
    f: impl FnMut(&Element<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    match &key.attrib {
        Some(attrib) if attrib.container == DataType::ELEMENT_LIST => for_each(attrib.data, f),
        Some(attrib) if attrib.container != DataType::NO_DATA => {
            Err(DecodeError::invalid("attributes that are no element list", 0))
        }
        _ => Ok(()),
    }
}

/// Calls `f` with the data of each item of an array of `item_type`.
pub(crate) fn for_each_item<'a>(
    element: &Element<'a>,
    mut f: impl FnMut(DataType, &'a [u8]) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    if element.data_type != DataType::ARRAY {
        return Err(DecodeError::invalid("element that must be an array", 0));
    }
    if element.data.is_empty() {
        return Ok(());
    }
    let mut r = Reader::new(element.data, "array");
    let item_type = DataType(r.u8()?);
    let item_len = usize::from(r.u8()?);
    for _ in 0..r.u16()? {
        f(item_type, if item_len == 0 { r.buf16()? } else { r.bytes(item_len)? })?;
    }
    Ok(())
}

/// An entry of a map, filter list or vector.
pub(crate) struct Entry<'a> {
    pub(crate) action: u8,
    /// Key of a map entry, empty otherwise.
    pub(crate) key: &'a [u8],
    /// Filter id or index.
    pub(crate) id: u32,
    pub(crate) container: DataType,
    pub(crate) data: &'a [u8],
}

impl Entry<'_> {
    /// The key of a map with numbers as keys; `None` if it is blank.
    pub(crate) fn key_uint(&self) -> Result<Option<u64>, DecodeError> {
        super::elements::uint(self.key)
    }
}

const DELETE: u8 = 3;

/// Calls `f` with each entry of a map whose keys have the type `key_type`.
pub(crate) fn for_each_map_entry<'a>(
    bytes: &'a [u8],
    key_type: DataType,
    mut f: impl FnMut(&Entry<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut r = Reader::new(bytes, "map");
    let flags = r.u8()?;
    if DataType(r.u8()?) != key_type {
        return Err(DecodeError::invalid("key type of a map", 1));
    }
    let container = DataType::from_wire_container(r.u8()?);
    if flags & 0x10 != 0 {
        r.i16()?;
    }
    skip_preamble(&mut r, flags)?;
    for _ in 0..r.u16()? {
        let head = r.u8()?;
        if head & 0x10 != 0 {
            r.buf15()?;
        }
        let key = r.buf15()?;
        let action = head & 0x0F;
        let data = if action == DELETE || container == DataType::NO_DATA { &[][..] } else { r.buf16()? };
        f(&Entry { action, key, id: 0, container, data })?;
    }
    Ok(())
}

/// Set definitions, summary data and count hint, as maps and vectors have them.
fn skip_preamble<'a>(r: &mut Reader<'a>, flags: u8) -> Result<&'a [u8], DecodeError> {
    let mut summary = &[][..];
    if flags & 0x01 != 0 {
        r.buf15()?;
    }
    if flags & 0x02 != 0 {
        summary = r.buf15()?;
    }
    if flags & 0x08 != 0 {
        r.u30()?;
    }
    Ok(summary)
}

/// Calls `f` with each entry of a filter list.
pub(crate) fn for_each_filter<'a>(
    bytes: &'a [u8],
    mut f: impl FnMut(&Entry<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    const CLEAR: u8 = 3;
    if bytes.is_empty() {
        return Ok(());
    }
    let mut r = Reader::new(bytes, "filter list");
    let flags = r.u8()?;
    let common = DataType::from_wire_container(r.u8()?);
    if flags & 0x02 != 0 {
        r.u8()?;
    }
    for _ in 0..r.u8()? {
        let head = r.u8()?;
        let id = r.u8()?;
        let container = if head & 0x20 != 0 { DataType::from_wire_container(r.u8()?) } else { common };
        if head & 0x10 != 0 {
            r.buf15()?;
        }
        let action = head & 0x0F;
        let data = if action == CLEAR || container == DataType::NO_DATA { &[][..] } else { r.buf16()? };
        f(&Entry { action, key: &[], id: id.into(), container, data })?;
    }
    Ok(())
}

/// Calls `f` with each entry of a vector and gives its summary data.
pub(crate) fn for_each_vector_entry<'a>(
    bytes: &'a [u8],
    mut f: impl FnMut(&Entry<'a>) -> Result<(), DecodeError>,
) -> Result<&'a [u8], DecodeError> {
    const CLEAR: u8 = 3;
    const DELETE: u8 = 5;
    let mut r = Reader::new(bytes, "vector");
    let flags = r.u8()?;
    let container = DataType::from_wire_container(r.u8()?);
    let summary = skip_preamble(&mut r, flags)?;
    for _ in 0..r.u16()? {
        let head = r.u8()?;
        let id = r.u30()?;
        if head & 0x10 != 0 {
            r.buf15()?;
        }
        let action = head & 0x0F;
        let bare = matches!(action, CLEAR | DELETE) || container == DataType::NO_DATA;
        f(&Entry { action, key: &[], id, container, data: if bare { &[][..] } else { r.buf16()? } })?;
    }
    Ok(summary)
}
