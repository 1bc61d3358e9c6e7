//! Set definitions: field ids (or names) and types that entries share, so that the entries carry only values.
//!
//! ```text
//! block:  flags u8 (0) | count u8 | definitions
//! definition:  id rb15 | count u8 | entries: field id i16 | type u8, or: name with 15-bit length | type u8
//! ```
//!
//! Local definitions (ids 0 to 15, at most 15 in a block) come in the header of a map, vector or series and hold for
//! everything inside, also for containers within containers. Global ones (ids from 16) come from a set dictionary.
//! A block does not say whether it defines field or element sets; that follows from the container type beside it.

use crate::primitive::Primitive;
use crate::wire::{LenForm, Reader, Writer};
use crate::{DataType, DecodeError, EncodeError};
use std::collections::BTreeMap;

/// Largest id of a local set; larger ids are global.
pub const MAX_LOCAL_ID: u16 = 15;
/// Most definitions in a block. One less than the ids would allow: both ETA codecs refuse sixteen.
pub const MAX_LOCAL_DEFS: u8 = 15;

/// The set definitions that hold at some place in a message.
#[derive(Clone, Copy, Default, Debug)]
pub struct SetScope<'a> {
    fields: Option<&'a [u8]>,
    elements: Option<&'a [u8]>,
    global: Option<&'a GlobalSets>,
}

impl<'a> SetScope<'a> {
    /// No definitions: what holds at the top of a message when there is no set dictionary.
    pub const NONE: SetScope<'static> = SetScope { fields: None, elements: None, global: None };

    /// The definitions of a set dictionary.
    pub const fn global(sets: &'a GlobalSets) -> Self {
        Self { fields: None, elements: None, global: Some(sets) }
    }

    /// The scope inside a container of `container`s whose header has this block of definitions. The block is checked.
    pub(super) fn enter(mut self, block: Option<&'a [u8]>, container: DataType) -> Result<Self, DecodeError> {
        let Some(block) = block else { return Ok(self) };
        match container {
            DataType::FIELD_LIST => {
                check(block, skip_field)?;
                self.fields = Some(block);
            }
            DataType::ELEMENT_LIST => {
                check(block, skip_element)?;
                self.elements = Some(block);
            }
            // Meant for containers further in; the kind is the one that the bytes can be.
            _ => {
                let (fields, elements) = (check(block, skip_field), check(block, skip_element));
                if fields.is_ok() {
                    self.fields = Some(block);
                }
                if elements.is_ok() {
                    self.elements = Some(block);
                }
                fields.or(elements)?;
            }
        }
        Ok(self)
    }

    /// The definition of field set `id`, local or global.
    pub fn field_set(&self, id: u16) -> Option<FieldSetDef<'a>> {
        if id > MAX_LOCAL_ID {
            return self.global?.fields.get(&id).map(|entries| FieldSetDef { entries });
        }
        let (entries, _) = find(self.fields?, id, skip_field)?;
        Some(FieldSetDef { entries })
    }

    /// The definition of element set `id`, local or global.
    pub fn element_set(&self, id: u16) -> Option<ElementSetDef<'a>> {
        if id > MAX_LOCAL_ID {
            return self.global?.elements.get(&id).map(|entries| ElementSetDef { entries });
        }
        let (entries, _) = find(self.elements?, id, skip_element)?;
        Some(ElementSetDef { entries })
    }
}

/// The local definitions of a block, in order, as (id, definition): for dumps.
///
/// # Errors
/// Truncated or invalid, as when the container was decoded.
pub fn field_sets(block: &[u8]) -> Result<Vec<(u16, FieldSetDef<'_>)>, DecodeError> {
    Ok(list(block, skip_field)?.into_iter().map(|(id, entries)| (id, FieldSetDef { entries })).collect())
}

/// As [`field_sets`], for element sets.
///
/// # Errors
/// Truncated or invalid, as when the container was decoded.
pub fn element_sets(block: &[u8]) -> Result<Vec<(u16, ElementSetDef<'_>)>, DecodeError> {
    Ok(list(block, skip_element)?.into_iter().map(|(id, entries)| (id, ElementSetDef { entries })).collect())
}

type Skip = for<'a> fn(&mut Reader<'a>) -> Result<(), DecodeError>;

fn skip_field(r: &mut Reader<'_>) -> Result<(), DecodeError> {
    r.bytes(3).map(|_| ())
}

fn skip_element(r: &mut Reader<'_>) -> Result<(), DecodeError> {
    r.buf15()?;
    r.u8().map(|_| ())
}

/// Reads one definition: id and the bytes of its entries.
fn definition<'a>(r: &mut Reader<'a>, skip: Skip) -> Result<(u16, &'a [u8]), DecodeError> {
    let id = r.rb15()?;
    let count = r.u8()?;
    let (rest, start) = (r.rest(), r.offset());
    for _ in 0..count {
        skip(r)?;
    }
    Ok((id, &rest[..r.offset() - start]))
}

/// Walks the definitions of a block and checks the limits on ids and counts.
fn each<'a>(block: &'a [u8], skip: Skip, mut f: impl FnMut(u16, &'a [u8])) -> Result<(), DecodeError> {
    let mut r = Reader::new(block, "set definitions");
    r.u8()?;
    let count = r.u8()?;
    if count > MAX_LOCAL_DEFS {
        return Err(DecodeError::invalid("number of set definitions", 1));
    }
    let mut seen = 0u16;
    for _ in 0..count {
        let (id, entries) = definition(&mut r, skip)?;
        if id > MAX_LOCAL_ID || seen & 1 << id != 0 {
            return Err(DecodeError::invalid("id of a set definition", r.offset()));
        }
        seen |= 1 << id;
        f(id, entries);
    }
    Ok(())
}

fn check(block: &[u8], skip: Skip) -> Result<(), DecodeError> {
    each(block, skip, |_, _| ())
}

fn list(block: &[u8], skip: Skip) -> Result<Vec<(u16, &[u8])>, DecodeError> {
    let mut defs = Vec::new();
    each(block, skip, |id, entries| defs.push((id, entries)))?;
    Ok(defs)
}

/// The entries of definition `id` of a block that was checked before.
fn find(block: &[u8], id: u16, skip: Skip) -> Option<(&[u8], usize)> {
    let mut r = Reader::new(block, "set definitions");
    r.u8().ok()?;
    for _ in 0..r.u8().ok()? {
        let (found, entries) = definition(&mut r, skip).ok()?;
        if found == id {
            return Some((entries, r.offset()));
        }
    }
    None
}

/// The field ids and types of a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldSetDef<'a> {
    entries: &'a [u8],
}

impl<'a> FieldSetDef<'a> {
    /// A definition for an encoder, kept in `buf`, whose content it replaces.
    pub fn from_entries(entries: &[(i16, DataType)], buf: &'a mut Vec<u8>) -> Self {
        buf.clear();
        for (fid, enc) in entries {
            buf.extend_from_slice(&fid.to_be_bytes());
            buf.push(enc.0);
        }
        Self { entries: buf }
    }

    /// Number of entries.
    pub const fn len(&self) -> usize {
        self.entries.len() / 3
    }

    /// True without entries.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Field ids and types in order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (i16, DataType)> + 'a {
        self.entries.chunks_exact(3).map(|e| (i16::from_be_bytes([e[0], e[1]]), DataType(e[2])))
    }

    /// The first entry and what follows it.
    #[inline]
    pub(super) const fn split_first(self) -> Option<((i16, DataType), Self)> {
        match self.entries.split_first_chunk() {
            Some((&[hi, lo, enc], entries)) => Some(((i16::from_be_bytes([hi, lo]), DataType(enc)), Self { entries })),
            None => None,
        }
    }

    /// A definition without entries.
    pub(super) const EMPTY: FieldSetDef<'static> = FieldSetDef { entries: &[] };
}

/// The names and types of a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ElementSetDef<'a> {
    entries: &'a [u8],
}

impl<'a> ElementSetDef<'a> {
    /// A definition for an encoder, kept in `buf`, whose content it replaces. Names are cut at 32,767 bytes.
    pub fn from_entries(entries: &[(&[u8], DataType)], buf: &'a mut Vec<u8>) -> Self {
        buf.clear();
        for (name, enc) in entries {
            let name = &name[..name.len().min(crate::wire::RB15_MAX)];
            buf.extend_from_slice(&(0x8000 | name.len() as u16).to_be_bytes());
            buf.extend_from_slice(name);
            buf.push(enc.0);
        }
        Self { entries: buf }
    }

    /// Names and types in order.
    pub fn entries(&self) -> impl Iterator<Item = (&'a [u8], DataType)> + 'a {
        let mut rest = *self;
        std::iter::from_fn(move || {
            let (entry, next) = rest.split_first()?;
            rest = next;
            Some(entry)
        })
    }

    /// The first entry and what follows it.
    #[inline]
    pub(super) fn split_first(self) -> Option<((&'a [u8], DataType), Self)> {
        let mut r = Reader::new(self.entries, "set definitions");
        let name = r.buf15().ok()?;
        let enc = DataType(r.u8().ok()?);
        Some(((name, enc), Self { entries: r.rest() }))
    }

    /// A definition without entries.
    pub(super) const EMPTY: ElementSetDef<'static> = ElementSetDef { entries: &[] };
}

/// Set definitions that come from a set dictionary and hold for whole messages.
#[derive(Clone, Default, Debug)]
pub struct GlobalSets {
    fields: BTreeMap<u16, Box<[u8]>>,
    elements: BTreeMap<u16, Box<[u8]>>,
}

impl GlobalSets {
    /// No definitions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a field set. Ids up to [`MAX_LOCAL_ID`] are never looked up here.
    pub fn add_field_set(&mut self, id: u16, entries: &[(i16, DataType)]) {
        let mut bytes = Vec::new();
        FieldSetDef::from_entries(entries, &mut bytes);
        self.fields.insert(id, bytes.into());
    }

    /// Adds or replaces an element set. Names are cut at 32,767 bytes.
    pub fn add_element_set(&mut self, id: u16, entries: &[(&[u8], DataType)]) {
        let mut bytes = Vec::new();
        ElementSetDef::from_entries(entries, &mut bytes);
        self.elements.insert(id, bytes.into());
    }
}

/// Writes a block of set definitions, without the length before it.
#[derive(Debug)]
pub struct SetDefsEncoder<'w, 'b> {
    w: &'w mut Writer<'b>,
    count_at: usize,
    count: u8,
}

impl<'w, 'b> SetDefsEncoder<'w, 'b> {
    /// Begins a block.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    pub fn begin(w: &'w mut Writer<'b>) -> Result<Self, EncodeError> {
        w.u8(0)?;
        let count_at = w.position();
        w.u8(0)?;
        Ok(Self { w, count_at, count: 0 })
    }

    fn definition(&mut self, id: u16, len: usize) -> Result<(), EncodeError> {
        if self.count == MAX_LOCAL_DEFS || id > MAX_LOCAL_ID {
            return Err(EncodeError::Unrepresentable("set definition over the limit"));
        }
        let len = u8::try_from(len).map_err(|_| EncodeError::TooLong { what: "set definition", len, max: 255 })?;
        self.w.rb15(id as usize)?;
        self.w.u8(len)?;
        self.count += 1;
        self.w.patch_u8(self.count_at, self.count);
        Ok(())
    }

    /// Adds a field set.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; over [`MAX_LOCAL_DEFS`] definitions or an id over [`MAX_LOCAL_ID`].
    pub fn field_set(&mut self, id: u16, entries: &[(i16, DataType)]) -> Result<(), EncodeError> {
        self.definition(id, entries.len())?;
        entries.iter().try_for_each(|(fid, enc)| {
            self.w.i16(*fid)?;
            self.w.u8(enc.0)
        })
    }

    /// Adds an element set.
    ///
    /// # Errors
    /// As [`SetDefsEncoder::field_set`]; [`EncodeError::TooLong`] for a name.
    pub fn element_set(&mut self, id: u16, entries: &[(&[u8], DataType)]) -> Result<(), EncodeError> {
        self.definition(id, entries.len())?;
        entries.iter().try_for_each(|(name, enc)| {
            self.w.buf15(name)?;
            self.w.u8(enc.0)
        })
    }
}

/// Writes the values of a set in the order of its definition.
#[derive(Debug)]
pub struct SetEncoder<'w, 'b, 'd> {
    w: &'w mut Writer<'b>,
    types: TypesLeft<'d>,
}

/// The types of the values that are still to come.
#[derive(Clone, Copy, Debug)]
pub(super) enum TypesLeft<'d> {
    Fields(FieldSetDef<'d>),
    Elements(ElementSetDef<'d>),
}

impl TypesLeft<'_> {
    fn next(&mut self) -> Option<DataType> {
        match self {
            Self::Fields(def) => {
                let ((_, enc), rest) = def.split_first()?;
                *def = rest;
                Some(enc)
            }
            Self::Elements(def) => {
                let ((_, enc), rest) = def.split_first()?;
                *def = rest;
                Some(enc)
            }
        }
    }
}

impl<'w, 'b, 'd> SetEncoder<'w, 'b, 'd> {
    pub(super) fn new(w: &'w mut Writer<'b>, types: TypesLeft<'d>) -> Self {
        Self { w, types }
    }

    fn next_type(&mut self) -> Result<DataType, EncodeError> {
        self.types.next().ok_or(EncodeError::Unrepresentable("more values than the set definition has"))
    }

    /// The next value, in the form that the definition asks for.
    ///
    /// # Errors
    /// As [`Primitive::encode_set`].
    pub fn value(&mut self, value: &Primitive<'_>) -> Result<(), EncodeError> {
        let enc = self.next_type()?;
        value.encode_set(enc, self.w)
    }

    /// The next value, a container that `body` writes.
    ///
    /// # Errors
    /// Those of `body`; [`EncodeError::TooLong`] over 65,535 bytes; [`EncodeError::Unrepresentable`] if the definition has
    /// a primitive here.
    pub fn container(
        &mut self,
        form: LenForm,
        body: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let enc = self.next_type()?;
        if !enc.is_container() && enc != DataType::ARRAY {
            return Err(EncodeError::Unrepresentable("container in place of a primitive"));
        }
        let mark = self.w.begin_ob16(form)?;
        body(self.w)?;
        self.w.end_ob16(mark)
    }

    pub(super) fn finish(mut self) -> Result<(), EncodeError> {
        match self.types.next() {
            None => Ok(()),
            Some(_) => Err(EncodeError::Unrepresentable("fewer values than the set definition has")),
        }
    }
}
