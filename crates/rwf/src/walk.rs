//! A full visit of anything: every container, entry and value inside, whatever the bytes.
//!
//! For checks of foreign bytes, for fuzzing and for counting. Each byte is looked at a bounded number of times: nesting is
//! limited to [`MAX_DEPTH`], and entries that take no bytes (a series of no data) are not visited one by one.

use crate::container::sets::{element_sets, field_sets};
use crate::msg::Msg;
use crate::{
    Array, DataType, DecodeError, ElementList, FieldList, FilterList, Map, Primitive, Series, SetScope, Vector,
};

/// Deepest nesting of containers that is followed, the outermost one being 1. ETA has the same limit.
pub const MAX_DEPTH: usize = 16;

/// What a visit comes across.
#[derive(Clone, Copy, Debug)]
pub enum Visit<'a> {
    /// A container or message, before what is inside.
    Container {
        /// The container's type.
        data_type: DataType,
        /// The bytes within it.
        data: &'a [u8],
        /// Nesting of the container, from 1.
        depth: usize,
    },
    /// A value: of a field, an element, a map key, an array item.
    Value {
        /// The value.
        value: Primitive<'a>,
        /// Nesting of the container it is in.
        depth: usize,
    },
    /// Bytes that are not looked into: opaque containers, fields of unknown type, set data without definition.
    Bytes {
        /// The bytes.
        data: &'a [u8],
        /// Nesting of the container they are in.
        depth: usize,
    },
}

/// Visits `data`, a value or container of type `data_type`, and all that is inside. `field_type` says the types of field
/// ids; [`DataType::UNKNOWN`] leaves a field unopened.
///
/// # Errors
/// The first fault, with its offset in `data`.
pub fn walk<'a>(
    data_type: DataType,
    data: &'a [u8],
    scope: &SetScope<'a>,
    field_type: &dyn Fn(i16) -> DataType,
    visit: &mut dyn FnMut(Visit<'a>),
) -> Result<(), DecodeError> {
    let mut walker = Walker { root: data, field_type, visit, is_located: false };
    walker.node(data_type, data, scope, 0)
}

struct Walker<'a, 'w> {
    /// Offsets of errors count from the first byte of it.
    root: &'a [u8],
    field_type: &'w dyn Fn(i16) -> DataType,
    visit: &'w mut dyn FnMut(Visit<'a>),
    /// Set once an error has its final offset.
    is_located: bool,
}

type Walked = Result<(), DecodeError>;

impl<'a> Walker<'a, '_> {
    fn node(&mut self, data_type: DataType, data: &'a [u8], scope: &SetScope<'a>, depth: usize) -> Walked {
        let walked = match data_type {
            DataType::UNKNOWN => {
                (self.visit)(Visit::Bytes { data, depth });
                Ok(())
            }
            _ if data_type.is_container() => self.container(data_type, data, scope, depth + 1),
            _ => self.value(data_type, data, depth),
        };
        self.located(walked, data)
    }

    /// Moves the offset of an error of this very slice to the frame of the root, once.
    fn located(&mut self, walked: Walked, data: &[u8]) -> Walked {
        walked.map_err(|e| {
            if std::mem::replace(&mut self.is_located, true) {
                return e;
            }
            // An empty slice need not lie in the root; there is nothing in it that could be pointed at.
            let base = data.as_ptr().addr().wrapping_sub(self.root.as_ptr().addr());
            if base <= self.root.len() { e.within(base) } else { e }
        })
    }

    fn value(&mut self, data_type: DataType, data: &'a [u8], depth: usize) -> Walked {
        let value = Primitive::decode(data_type, data)?;
        (self.visit)(Visit::Value { value, depth });
        if let Primitive::Array(array) = value { self.array(&array, depth) } else { Ok(()) }
    }

    fn array(&mut self, array: &Array<'a>, depth: usize) -> Walked {
        for item in array.items() {
            let item = item?;
            // An array of arrays does not exist.
            if array.item_type == DataType::ARRAY {
                return Err(DecodeError::invalid("type of array items", 0));
            }
            let value = Primitive::decode(array.item_type, item)?;
            (self.visit)(Visit::Value { value, depth });
        }
        Ok(())
    }

    fn container(&mut self, data_type: DataType, data: &'a [u8], scope: &SetScope<'a>, depth: usize) -> Walked {
        if depth > MAX_DEPTH {
            return Err(DecodeError::invalid("depth of nesting", 0));
        }
        (self.visit)(Visit::Container { data_type, data, depth });
        if data.is_empty() {
            return Ok(());
        }
        match data_type {
            DataType::MSG => self.msg(data, scope, depth),
            DataType::FIELD_LIST => self.field_list(data, scope, depth),
            DataType::ELEMENT_LIST => self.element_list(data, scope, depth),
            DataType::FILTER_LIST => self.filter_list(data, scope, depth),
            DataType::VECTOR => self.vector(data, scope, depth),
            DataType::MAP => self.map(data, scope, depth),
            DataType::SERIES => self.series(data, scope, depth),
            _ => {
                (self.visit)(Visit::Bytes { data, depth });
                Ok(())
            }
        }
    }

    fn msg(&mut self, data: &'a [u8], scope: &SetScope<'a>, depth: usize) -> Walked {
        let msg = Msg::decode(data)?;
        if let Some(attrib) = msg.key().and_then(|key| key.attrib) {
            self.node(attrib.container, attrib.data, scope, depth)?;
        }
        self.node(msg.container(), msg.body(), scope, depth)
    }

    fn field_list(&mut self, data: &'a [u8], scope: &SetScope<'a>, depth: usize) -> Walked {
        let list = FieldList::decode(data, scope)?;
        if list.is_set_skipped() {
            (self.visit)(Visit::Bytes { data: list.set_data().unwrap_or_default(), depth });
        }
        for entry in list.entries() {
            let entry = entry?;
            let data_type = entry.resolve((self.field_type)(entry.fid));
            self.node(data_type, entry.data, scope, depth)?;
        }
        Ok(())
    }

    fn element_list(&mut self, data: &'a [u8], scope: &SetScope<'a>, depth: usize) -> Walked {
        let list = ElementList::decode(data, scope)?;
        if list.is_set_skipped() {
            (self.visit)(Visit::Bytes { data: list.set_data().unwrap_or_default(), depth });
        }
        for entry in list.entries() {
            let entry = entry?;
            self.node(entry.data_type, entry.data, scope, depth)?;
        }
        Ok(())
    }

    fn filter_list(&mut self, data: &'a [u8], scope: &SetScope<'a>, depth: usize) -> Walked {
        for entry in FilterList::decode(data)?.entries() {
            let entry = entry?;
            self.node(entry.container, entry.data, scope, depth)?;
        }
        Ok(())
    }

    fn vector(&mut self, data: &'a [u8], scope: &SetScope<'a>, depth: usize) -> Walked {
        let list = Vector::decode(data, scope)?;
        self.shared(list.container, list.set_defs(), list.summary(), &list.scope(), depth)?;
        for entry in list.entries() {
            self.node(list.container, entry?.data, &list.scope(), depth)?;
        }
        Ok(())
    }

    fn map(&mut self, data: &'a [u8], scope: &SetScope<'a>, depth: usize) -> Walked {
        let list = Map::decode(data, scope)?;
        self.shared(list.container, list.set_defs(), list.summary(), &list.scope(), depth)?;
        for entry in list.entries() {
            let entry = entry?;
            if list.key_type.is_container() || list.key_type == DataType::ARRAY {
                return Err(DecodeError::invalid("type of map keys", 1));
            }
            self.node(list.key_type, entry.key, scope, depth)?;
            self.node(list.container, entry.data, &list.scope(), depth)?;
        }
        Ok(())
    }

    fn series(&mut self, data: &'a [u8], scope: &SetScope<'a>, depth: usize) -> Walked {
        let list = Series::decode(data, scope)?;
        self.shared(list.container, list.set_defs(), list.summary(), &list.scope(), depth)?;
        if list.container == DataType::NO_DATA {
            return Ok(());
        }
        for entry in list.entries() {
            self.node(list.container, entry?, &list.scope(), depth)?;
        }
        Ok(())
    }

    /// Set definitions, which the decoder has checked, and summary data.
    fn shared(
        &mut self,
        container: DataType,
        set_defs: Option<&'a [u8]>,
        summary: Option<&'a [u8]>,
        scope: &SetScope<'a>,
        depth: usize,
    ) -> Walked {
        if let Some(block) = set_defs {
            debug_assert!(field_sets(block).is_ok() || element_sets(block).is_ok());
        }
        summary.map_or(Ok(()), |summary| self.node(container, summary, scope, depth))
    }
}
