//! Reading the containers of the administrative domains: each walk calls a closure per entry and ends at its first error.

use super::elements::Element;
use crate::container::{ElementList, FilterAction, FilterList, Map, MapAction, SetScope, Vector};
use crate::msg::MsgKey;
use crate::{DataType, DecodeError};

/// Calls `f` with each element of an element list.
pub(crate) fn for_each<'a>(
    bytes: &'a [u8],
    scope: &SetScope<'a>,
    mut f: impl FnMut(&Element<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    for entry in ElementList::decode(bytes, scope)?.entries() {
        f(&Element(entry?))?;
    }
    Ok(())
}

/// Calls `f` with each element of the attributes of a key, which may have none.
pub(crate) fn for_each_of_key<'a>(
    key: &MsgKey<'a>,
    f: impl FnMut(&Element<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    match &key.attrib {
        Some(attrib) if attrib.container == DataType::ELEMENT_LIST => for_each(attrib.data, &SetScope::NONE, f),
        Some(attrib) if attrib.container != DataType::NO_DATA => {
            Err(DecodeError::invalid("attributes that are no element list", 0))
        }
        _ => Ok(()),
    }
}

/// An entry of a map.
pub(crate) struct Entry<'a> {
    pub(crate) action: MapAction,
    pub(crate) key: &'a [u8],
    pub(crate) container: DataType,
    pub(crate) data: &'a [u8],
    pub(crate) scope: SetScope<'a>,
}

/// Calls `f` with each entry of a map whose keys have the type `key_type`.
pub(crate) fn for_each_map_entry<'a>(
    bytes: &'a [u8],
    key_type: DataType,
    scope: &SetScope<'a>,
    mut f: impl FnMut(&Entry<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let map = Map::decode(bytes, scope)?;
    if !bytes.is_empty() && map.key_type != key_type {
        return Err(DecodeError::invalid("key type of a map", 1));
    }
    for entry in map.entries() {
        let entry = entry?;
        f(&Entry {
            action: entry.action,
            key: entry.key,
            container: map.container,
            data: entry.data,
            scope: map.scope(),
        })?;
    }
    Ok(())
}

/// Calls `f` with id, action, container type and data of each entry of a filter list.
pub(crate) fn for_each_filter<'a>(
    bytes: &'a [u8],
    mut f: impl FnMut(u8, FilterAction, DataType, &'a [u8]) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    for entry in FilterList::decode(bytes)?.entries() {
        let entry = entry?;
        f(entry.id, entry.action, entry.container, entry.data)?;
    }
    Ok(())
}

/// Calls `summary` with the elements of a vector's summary data, then `f` with those of each of its entries.
pub(crate) fn for_each_vector_entry<'a>(
    bytes: &'a [u8],
    summary: impl FnMut(&Element<'a>) -> Result<(), DecodeError>,
    mut f: impl FnMut(&'a [u8], &SetScope<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let vector = Vector::decode(bytes, &SetScope::NONE)?;
    for_each(vector.summary().unwrap_or_default(), &vector.scope(), summary)?;
    if vector.container != DataType::ELEMENT_LIST && !vector.is_empty() {
        return Err(DecodeError::invalid("vector that holds no element lists", 1));
    }
    for entry in vector.entries() {
        f(entry?.data, &vector.scope())?;
    }
    Ok(())
}
