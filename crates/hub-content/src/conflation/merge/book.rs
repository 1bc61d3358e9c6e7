//! Maps merged by key: what each row comes to, and the summary.
//!
//! | A row was | then is added | then is updated | then is deleted |
//! |---|---|---|---|
//! | untouched | added | updated | deleted |
//! | added | added with the new data | added with the data changed | deleted: an earlier one may be there |
//! | updated | added | updated with both | deleted |
//! | deleted | added | deleted: a receiver skips updates of what is not there | deleted |
//!
//! Fields of rows do not ripple here: where they would, each row is one of a book, and its next value is no history of the last one.

use super::can_merge;
use rwf::container::{Map, MapAction, MapEncoder, MapHead, SetScope};
use rwf::image::{Payload, Schema};
use rwf::wire::{LenForm, Writer};
use rwf::{DataType, EncodeError, FieldList, Primitive};
use std::collections::BTreeMap;

/// Rows of one merge; what comes beyond follows by itself.
const MAX_ROWS: usize = 4_096;

#[derive(Debug)]
struct Row {
    key: Box<[u8]>,
    action: MapAction,
    /// None of a row that is deleted.
    data: Option<Payload>,
}

/// Maps of field lists, merged.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// Of the last one; its key type, container and key field are those of all.
    head: Option<MapHead>,
    summary: Option<Payload>,
    /// In the order in which they were first touched.
    rows: Vec<Row>,
    by_key: BTreeMap<Box<[u8]>, usize>,
    /// What the rows take, about.
    bytes: usize,
}

impl Book {
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes in the rows of an update; false, and nothing changed, if they cannot be merged.
    pub(super) fn merge(&mut self, body: &[u8]) -> bool {
        let Some(map) = Map::decode(body, &SetScope::NONE).ok().filter(|map| self.takes(map)) else { return false };
        let schema = Schema { sets: map.scope(), ..Schema::NONE };
        if let Some(summary) = map.summary() {
            let known = self.summary.get_or_insert_with(|| Payload::new(DataType::FIELD_LIST));
            changed(known, summary, &schema);
        }
        for entry in map.entries().flatten() {
            let at = self.row(entry.key);
            let row = &mut self.rows[at];
            self.bytes += entry.data.len() / 4;
            match (entry.action, row.action, &mut row.data) {
                (MapAction::DELETE, ..) => (row.action, row.data) = (MapAction::DELETE, None),
                (MapAction::UPDATE, MapAction::DELETE, _) => {}
                (MapAction::UPDATE, _, Some(data)) => changed(data, entry.data, &schema),
                (action, ..) => {
                    let mut data = Payload::new(DataType::FIELD_LIST);
                    changed(&mut data, entry.data, &schema);
                    (row.action, row.data) = (action, Some(data));
                }
            }
        }
        self.head = Some(MapHead {
            key_field_id: map.key_field_id,
            count_hint: map.count_hint(),
            ..MapHead::new(map.key_type, map.container)
        });
        true
    }

    /// The place of a row: a new one is an update of nothing yet.
    fn row(&mut self, key: &[u8]) -> usize {
        if let Some(&at) = self.by_key.get(key) {
            return at;
        }
        let at = self.rows.len();
        self.rows.push(Row { key: key.into(), action: MapAction::UPDATE, data: None });
        self.by_key.insert(key.into(), at);
        self.bytes += 2 * key.len() + 64;
        at
    }

    /// True if a map fits what is there, and all of it can be read.
    fn takes(&self, map: &Map<'_>) -> bool {
        let same = self.head.is_none_or(|head| (head.key_type, head.key_field_id) == (map.key_type, map.key_field_id));
        let scope = map.scope();
        let is_good = |data: &[u8]| FieldList::decode(data, &scope).is_ok_and(|list| can_merge(&list, None));
        same && map.container == DataType::FIELD_LIST
            && !map.per_entry_perm
            && self.rows.len() + map.len() <= MAX_ROWS
            && map.summary().is_none_or(is_good)
            && map.entries().all(|entry| {
                entry.is_ok_and(|entry| {
                    let known = matches!(entry.action, MapAction::UPDATE | MapAction::ADD | MapAction::DELETE);
                    known && entry.key_value(map.key_type).is_ok() && is_good(entry.data)
                })
            })
    }

    /// Writes the map that all come to.
    pub(super) fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let Some(head) = self.head else {
            debug_assert!(false, "a book of no map");
            return Ok(());
        };
        let mut map = MapEncoder::begin(w, head)?;
        if let Some(summary) = &self.summary {
            map.summary(LenForm::Shortest, |w| summary.write(w))?;
        }
        for row in &self.rows {
            let key = Primitive::decode(head.key_type, &row.key)
                .map_err(|_| EncodeError::Unrepresentable("key of a row that was read when it came"))?;
            match &row.data {
                Some(data) => map.entry(row.action, &key, |w| data.write(w))?,
                None => map.delete(&key)?,
            }
        }
        map.finish()
    }
}

/// Changes a field list that was looked at before.
fn changed(payload: &mut Payload, data: &[u8], schema: &Schema<'_>) {
    let applied = payload.update(DataType::FIELD_LIST, data, schema);
    debug_assert!(applied.is_ok(), "fields that were read cannot be merged: {applied:?}");
}
