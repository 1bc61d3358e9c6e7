//! Containers of entries that have a content of their own: maps, vectors, filter lists, series.

use super::content::{Content, MAX_ROWS};
use super::{ApplyError, Schema};
use crate::wire::{LenForm, Writer};
use crate::{
    DataType, DecodeError, EncodeError, FilterAction, FilterHead, FilterList, FilterListEncoder, MapAction, MapEncoder,
    MapHead, Primitive, SeriesEncoder, VectorAction, VectorEncoder, VectorHead,
};
use hashbrown::HashTable;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

/// An entry without what identifies it.
#[derive(Debug, Default)]
struct Row {
    perm_data: Option<Box<[u8]>>,
    content: Content,
}

/// Removed rows of a map whose memory is kept.
const MAX_REMOVED: usize = 4;

/// Most entries of one message.
const MAX_PART: usize = u16::MAX as usize;

/// Applies the summary of a container to the held one.
fn apply_summary(
    held: &mut Option<Content>,
    summary: Option<&[u8]>,
    container: DataType,
    schema: &Schema<'_>,
    depth: u8,
) -> Result<(), ApplyError> {
    let Some(summary) = summary.filter(|_| container != DataType::NO_DATA) else { return Ok(()) };
    if let Some(held) = held {
        return held.update_entry(container, summary, schema, depth);
    }
    *held = Some(Content::entry(container, summary, schema, depth)?);
    Ok(())
}

/// A container's entries must all be of one type. What has no data at all goes with each: an update that only deletes comes so from those
/// who read the type off the entries' data, as converters of JSON do.
fn same_container(held: &mut Option<DataType>, container: DataType) -> Result<(), ApplyError> {
    match *held.get_or_insert(container) {
        known if known == container || container == DataType::NO_DATA => Ok(()),
        DataType::NO_DATA => {
            *held = Some(container);
            Ok(())
        }
        known => Err(ApplyError::NotUpdatable { held: known, update: container }),
    }
}

/// How a map finds its rows by their keys.
#[derive(Debug)]
enum Index {
    /// The prints of all rows' keys, in their order: a book has few rows, and to look at all of these takes less than to hash a key.
    Few(Vec<u64>),
    /// Places of the rows by the hashes of their keys; once a map has had many rows.
    Many(HashTable<u32>),
}

impl Default for Index {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

/// Most rows that are found by their prints.
const MAX_FEW: usize = 32;

/// A number that keys seldom share: their first and their last bytes, and their length. Others who do cost comparisons of keys, of
/// [`MAX_FEW`] at most.
#[inline]
fn print(key: &[u8]) -> u64 {
    let (first, last) = match (key.first_chunk::<8>(), key.last_chunk::<8>()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (key.iter().fold(0, |print, byte| print << 8 | u64::from(*byte)), 0),
    };
    first ^ last.rotate_left(29) ^ (key.len() as u64) << 56
}

/// A map, its entries found by key.
#[derive(Debug, Default)]
pub(super) struct Map {
    container: Option<DataType>,
    key_type: DataType,
    key_field_id: Option<i16>,
    per_entry_perm: bool,
    summary: Option<Content>,
    rows: Vec<(Box<[u8]>, Row)>,
    index: Index,
    /// The row that was found last: the next one is behind it as a rule.
    last_found: u32,
    /// Rows whose memory the next ones get: books take orders out and put others in.
    removed: Vec<(Box<[u8]>, Row)>,
}

/// What rows are found by. Whoever publishes chooses their keys, so the hash is keyed (`SipHash`) with what no peer knows. Nothing that is
/// seen depends on the key: the order of the rows is that of their arrival.
fn hash(key: &[u8]) -> u64 {
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let mut hasher = SEED.build_hasher();
    hasher.write(key);
    hasher.finish()
}

impl Map {
    /// Applies the entries of a message. In a refresh all that it has is the image, so that an entry which is to be updated and is not
    /// there is added: ETA's example providers of order books send images of such entries.
    pub(super) fn apply(
        &mut self,
        data: &[u8],
        schema: &Schema<'_>,
        refresh: bool,
        depth: u8,
    ) -> Result<(), ApplyError> {
        let map = crate::Map::decode(data, &schema.sets)?;
        if data.is_empty() {
            return Ok(());
        }
        let container = map.container;
        if self.container.is_none() {
            self.key_type = map.key_type;
        } else if self.key_type != map.key_type {
            return Err(ApplyError::NotUpdatable { held: self.key_type, update: map.key_type });
        }
        same_container(&mut self.container, container)?;
        self.key_field_id = map.key_field_id.or(self.key_field_id);
        self.per_entry_perm |= map.per_entry_perm;
        let schema = &Schema { sets: map.scope(), ..*schema };
        apply_summary(&mut self.summary, map.summary(), container, schema, depth)?;
        for entry in map.entries() {
            let entry = entry?;
            entry.key_value(self.key_type)?;
            let found = if entry.action == MapAction::UPDATE { self.find(entry.key) } else { None };
            match entry.action {
                MapAction::DELETE => self.remove(entry.key),
                MapAction::UPDATE if found.is_some() || !refresh => {
                    // Outside a refresh an update of what is not there has nothing to change; consumers skip it too.
                    if let Some(at) = found {
                        self.last_found = at as u32;
                        let row = &mut self.rows[at].1;
                        row.content.update_entry(container, entry.data, schema, depth)?;
                        if let Some(perm_data) = entry.perm_data {
                            row.perm_data = Some(perm_data.into());
                        }
                    }
                }
                MapAction::ADD | MapAction::UPDATE => {
                    let row = &mut self.row(entry.key)?.1;
                    row.perm_data = entry.perm_data.map(Into::into);
                    row.content.replace(container, entry.data, schema, depth)?;
                }
                _ => return Err(DecodeError::invalid("action of a map entry", 0).into()),
            }
        }
        Ok(())
    }

    #[inline]
    fn find(&self, key: &[u8]) -> Option<usize> {
        let is_at = |at: usize| self.rows.get(at).is_some_and(|(own, _)| **own == *key);
        match &self.index {
            Index::Few(prints) => {
                let wanted = print(key);
                let next = self.last_found as usize + 1;
                if prints.get(next) == Some(&wanted) && is_at(next) {
                    return Some(next);
                }
                (0..).zip(prints).find(|&(at, print)| *print == wanted && is_at(at)).map(|(at, _)| at)
            }
            Index::Many(places) => places.find(hash(key), |&at| is_at(at as usize)).map(|&at| at as usize),
        }
    }

    /// The row of a key; added if there is none. A new one may have the memory of one that was removed.
    fn row(&mut self, key: &[u8]) -> Result<&mut (Box<[u8]>, Row), ApplyError> {
        if let Some(at) = self.find(key) {
            return Ok(&mut self.rows[at]);
        }
        if self.rows.len() >= MAX_ROWS {
            return Err(ApplyError::TooLarge("more entries"));
        }
        let (mut own, row) = self.removed.pop().unwrap_or_default();
        if own.len() == key.len() {
            own.copy_from_slice(key);
        } else {
            own = key.into();
        }
        let at = self.rows.len();
        self.rows.push((own, row));
        self.note(key, at);
        Ok(&mut self.rows[at])
    }

    /// The last row is new, and has this key.
    fn note(&mut self, key: &[u8], at: usize) {
        let rows = &self.rows;
        let hash_of = |&at: &u32| hash(&rows[at as usize].0);
        match &mut self.index {
            Index::Few(prints) if at < MAX_FEW => prints.push(print(key)),
            Index::Few(_) => {
                let mut places = HashTable::with_capacity(2 * MAX_FEW);
                for at in 0..=at as u32 {
                    places.insert_unique(hash_of(&at), at, hash_of);
                }
                self.index = Index::Many(places);
            }
            Index::Many(places) => {
                places.insert_unique(hash(key), at as u32, hash_of);
            }
        }
    }

    fn remove(&mut self, key: &[u8]) {
        let Some(at) = self.find(key) else { return };
        let last = self.rows.len() - 1;
        let removed = self.rows.swap_remove(at);
        if self.removed.len() < MAX_REMOVED {
            self.removed.push(removed);
        }
        match &mut self.index {
            Index::Few(prints) => drop(prints.swap_remove(at)),
            Index::Many(places) => {
                if let Ok(entry) = places.find_entry(hash(key), |&other| other as usize == at) {
                    entry.remove();
                }
                if at < last
                    && let Some(moved) = places.find_mut(hash(&self.rows[at].0), |&other| other as usize == last)
                {
                    *moved = at as u32;
                }
            }
        }
    }

    pub(super) fn write(&self, from: usize, limit: usize, w: &mut Writer<'_>) -> Result<Option<usize>, EncodeError> {
        let Some(container) = self.container else { return Ok(None) };
        let rest = self.rows.get(from..).unwrap_or_default();
        let head = MapHead {
            key_field_id: self.key_field_id,
            count_hint: (from == 0 && limit != usize::MAX).then_some(self.rows.len() as u32),
            per_entry_perm: self.per_entry_perm,
            ..MapHead::new(self.key_type, container)
        };
        let mut map = MapEncoder::begin(w, head)?;
        if let Some(summary) = self.summary.as_ref().filter(|_| from == 0) {
            map.summary(LenForm::Long, |w| summary.write(w))?;
        }
        let mut size = 0;
        for (count, (key, row)) in rest.iter().enumerate() {
            if count == MAX_PART || size > limit {
                map.finish()?;
                return Ok(Some(from + count));
            }
            let key_value = Primitive::decode(self.key_type, key).unwrap_or(Primitive::Blank);
            let perm = row.perm_data.as_deref();
            map.entry_with(MapAction::ADD, &key_value, perm, LenForm::Long, |w| measured(&row.content, w, &mut size))?;
            size += key.len() + 4;
        }
        map.finish().map(|()| None)
    }
}

/// Writes an entry's content and adds its size up.
fn measured(content: &Content, w: &mut Writer<'_>, size: &mut usize) -> Result<(), EncodeError> {
    let start = w.position();
    content.write(w)?;
    *size += w.position() - start;
    Ok(())
}

/// A vector, its entries by index.
#[derive(Debug, Default)]
pub(super) struct Vector {
    container: Option<DataType>,
    sortable: bool,
    per_entry_perm: bool,
    summary: Option<Content>,
    rows: BTreeMap<u32, Row>,
}

impl Vector {
    /// Applies the entries of a message; in a refresh as [`Map::apply`] does.
    pub(super) fn apply(
        &mut self,
        data: &[u8],
        schema: &Schema<'_>,
        refresh: bool,
        depth: u8,
    ) -> Result<(), ApplyError> {
        let vector = crate::Vector::decode(data, &schema.sets)?;
        if data.is_empty() {
            return Ok(());
        }
        let container = vector.container;
        same_container(&mut self.container, container)?;
        self.sortable |= vector.sortable;
        self.per_entry_perm |= vector.per_entry_perm;
        let schema = &Schema { sets: vector.scope(), ..*schema };
        apply_summary(&mut self.summary, vector.summary(), container, schema, depth)?;
        for entry in vector.entries() {
            let entry = entry?;
            let perm_data: Option<Box<[u8]>> = entry.perm_data.map(Into::into);
            let is_new = refresh && !self.rows.contains_key(&entry.index);
            match entry.action {
                VectorAction::UPDATE if is_new => {
                    let content = Content::entry(container, entry.data, schema, depth)?;
                    self.rows.insert(entry.index, Row { perm_data, content });
                }
                VectorAction::SET => {
                    let row = self.rows.entry(entry.index).or_default();
                    row.perm_data = perm_data;
                    row.content.replace(container, entry.data, schema, depth)?;
                }
                VectorAction::UPDATE => {
                    if let Some(row) = self.rows.get_mut(&entry.index) {
                        row.content.update_entry(container, entry.data, schema, depth)?;
                        row.perm_data = perm_data.or(row.perm_data.take());
                    }
                }
                VectorAction::CLEAR => {
                    if let Some(row) = self.rows.get_mut(&entry.index) {
                        row.content = Content::Empty;
                    }
                }
                VectorAction::INSERT => {
                    let content = Content::entry(container, entry.data, schema, depth)?;
                    let behind = self.rows.split_off(&entry.index);
                    self.rows.extend(behind.into_iter().map(|(index, row)| (index.saturating_add(1), row)));
                    self.rows.insert(entry.index, Row { perm_data, content });
                }
                VectorAction::DELETE => {
                    let mut behind = self.rows.split_off(&entry.index);
                    behind.remove(&entry.index);
                    self.rows.extend(behind.into_iter().map(|(index, row)| (index - 1, row)));
                }
                _ => return Err(DecodeError::invalid("action of a vector entry", 0).into()),
            }
            if self.rows.len() > MAX_ROWS {
                return Err(ApplyError::TooLarge("more entries"));
            }
        }
        Ok(())
    }

    pub(super) fn write(&self, from: usize, limit: usize, w: &mut Writer<'_>) -> Result<Option<usize>, EncodeError> {
        let Some(container) = self.container else { return Ok(None) };
        let head = VectorHead {
            sortable: self.sortable,
            count_hint: (from == 0 && limit != usize::MAX).then_some(self.rows.len() as u32),
            per_entry_perm: self.per_entry_perm,
            ..VectorHead::new(container)
        };
        let mut vector = VectorEncoder::begin(w, head)?;
        if let Some(summary) = self.summary.as_ref().filter(|_| from == 0) {
            vector.summary(LenForm::Long, |w| summary.write(w))?;
        }
        let mut size = 0;
        for (count, (&index, row)) in self.rows.iter().skip(from).enumerate() {
            if count == MAX_PART || size > limit {
                vector.finish()?;
                return Ok(Some(from + count));
            }
            let cleared = matches!(row.content, Content::Empty) && container != DataType::NO_DATA;
            let action = if cleared { VectorAction::CLEAR } else { VectorAction::SET };
            let perm = row.perm_data.as_deref();
            vector.entry_with(action, index, perm, LenForm::Long, |w| measured(&row.content, w, &mut size))?;
            size += 5;
        }
        vector.finish().map(|()| None)
    }
}

/// A filter list.
#[derive(Debug, Default)]
pub(super) struct Filters {
    container: Option<DataType>,
    per_entry_perm: bool,
    /// Id, container and content of each entry, in order of id.
    rows: BTreeMap<u8, (DataType, Row)>,
}

impl Filters {
    pub(super) fn apply(&mut self, data: &[u8], schema: &Schema<'_>, depth: u8) -> Result<(), ApplyError> {
        let list = FilterList::decode(data)?;
        if data.is_empty() {
            return Ok(());
        }
        self.container = Some(list.container);
        self.per_entry_perm |= list.per_entry_perm;
        for entry in list.entries() {
            let entry = entry?;
            let perm_data: Option<Box<[u8]>> = entry.perm_data.map(Into::into);
            match entry.action {
                FilterAction::CLEAR => {
                    self.rows.remove(&entry.id);
                }
                FilterAction::SET => {
                    let content = Content::entry(entry.container, entry.data, schema, depth)?;
                    self.rows.insert(entry.id, (entry.container, Row { perm_data, content }));
                }
                FilterAction::UPDATE => match self.rows.get_mut(&entry.id) {
                    Some((held, _)) if *held != entry.container => {
                        return Err(ApplyError::NotUpdatable { held: *held, update: entry.container });
                    }
                    Some((container, row)) => {
                        row.content.update_entry(*container, entry.data, schema, depth)?;
                        row.perm_data = perm_data.or(row.perm_data.take());
                    }
                    None => {
                        let content = Content::entry(entry.container, entry.data, schema, depth)?;
                        self.rows.insert(entry.id, (entry.container, Row { perm_data, content }));
                    }
                },
                _ => return Err(DecodeError::invalid("action of a filter list entry", 0).into()),
            }
        }
        Ok(())
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let Some(container) = self.container else { return Ok(()) };
        let head = FilterHead { per_entry_perm: self.per_entry_perm, ..FilterHead::new(container) };
        let mut list = FilterListEncoder::begin(w, head)?;
        for (&id, (own, row)) in &self.rows {
            let own = (*own != container).then_some(*own);
            let perm = row.perm_data.as_deref();
            list.entry_with(id, FilterAction::SET, own, perm, LenForm::Long, |w| row.content.write(w))?;
        }
        list.finish();
        Ok(())
    }
}

/// A series: entries in a row, to which more are added.
#[derive(Debug, Default)]
pub(super) struct Series {
    container: Option<DataType>,
    summary: Option<Content>,
    rows: Vec<Content>,
}

impl Series {
    pub(super) fn apply(&mut self, data: &[u8], schema: &Schema<'_>, depth: u8) -> Result<(), ApplyError> {
        let series = crate::Series::decode(data, &schema.sets)?;
        if data.is_empty() {
            return Ok(());
        }
        let container = series.container;
        same_container(&mut self.container, container)?;
        let schema = &Schema { sets: series.scope(), ..*schema };
        apply_summary(&mut self.summary, series.summary(), container, schema, depth)?;
        for entry in series.entries() {
            if self.rows.len() >= MAX_ROWS {
                return Err(ApplyError::TooLarge("more entries"));
            }
            self.rows.push(Content::entry(container, entry?, schema, depth)?);
        }
        Ok(())
    }

    pub(super) fn write(&self, from: usize, limit: usize, w: &mut Writer<'_>) -> Result<Option<usize>, EncodeError> {
        let Some(container) = self.container else { return Ok(None) };
        let hint = (from == 0 && limit != usize::MAX).then_some(self.rows.len() as u32);
        let mut series = SeriesEncoder::begin(w, container, hint)?;
        if let Some(summary) = self.summary.as_ref().filter(|_| from == 0) {
            series.summary(LenForm::Long, |w| summary.write(w))?;
        }
        let mut size = 0;
        for (count, row) in self.rows.iter().skip(from).enumerate() {
            if count == MAX_PART || size > limit {
                series.finish()?;
                return Ok(Some(from + count));
            }
            series.entry(|w| measured(row, w, &mut size))?;
        }
        series.finish().map(|()| None)
    }
}
