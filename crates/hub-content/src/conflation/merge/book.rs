//! Maps merged by key: what each row comes to, and the summary.
//!
//! | A row was | then is added | then is updated | then is deleted |
//! |---|---|---|---|
//! | untouched | added | updated | deleted |
//! | added | added with the new data | added with the data changed | deleted: an earlier one may be there |
//! | updated | added | updated with both | deleted |
//! | deleted | added | deleted: a receiver skips updates of what is not there | deleted |
//!
//! Who has had a part of it already gets the rows that have changed since: one that was added before is updated for it.
//! Fields of rows do not ripple here: where they would, each row is one of a book, and its next value is no history of the last one.

use super::fields::{Values, can_merge};
use rwf::container::{Map, MapAction, MapEncoder, MapHead, SetScope};
use rwf::wire::{LenForm, Writer};
use rwf::{DataType, EncodeError, FieldList, Primitive};
use std::collections::BTreeMap;

/// Rows of one merge; what comes beyond follows by itself.
const MAX_ROWS: usize = 4_096;

#[derive(Debug)]
struct Row {
    key: Box<[u8]>,
    /// Number of the update that last added it; 0 if none did.
    added: u32,
    /// Number of the update that last changed it.
    changed: u32,
    is_deleted: bool,
    values: Values,
}

/// Maps of field lists, merged.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// Of the last one; its key type, container and key field are those of all.
    head: Option<MapHead>,
    summary: Values,
    /// Number of the update that last changed the summary; 0 if none has one.
    summary_changed: u32,
    /// In the order in which they were first touched.
    rows: Vec<Row>,
    by_key: BTreeMap<Box<[u8]>, usize>,
}

impl Book {
    /// Takes in the rows of an update; false, and nothing changed, if they cannot be merged. Nobody waits for what came before `oldest`.
    pub(super) fn merge(&mut self, body: &[u8], number: u32, oldest: u32) -> bool {
        let Some(map) = Map::decode(body, &SetScope::NONE).ok().filter(|map| self.fits(map)) else { return false };
        if self.rows.len() + map.len() > MAX_ROWS {
            self.forget_before(oldest);
            if self.rows.len() + map.len() > MAX_ROWS {
                return false;
            }
        }
        let scope = map.scope();
        if let Some(Ok(summary)) = map.summary().map(|summary| FieldList::decode(summary, &scope)) {
            self.summary.set(&summary, number);
            self.summary_changed = number;
        }
        for entry in map.entries().flatten() {
            let Ok(list) = FieldList::decode(entry.data, &scope) else { continue };
            let at = self.row(entry.key);
            let row = &mut self.rows[at];
            match entry.action {
                MapAction::UPDATE if row.is_deleted => continue,
                MapAction::UPDATE => row.values.set(&list, number),
                MapAction::DELETE => {
                    row.values.clear();
                    row.is_deleted = true;
                }
                _ => {
                    row.values.clear();
                    row.values.set(&list, number);
                    (row.added, row.is_deleted) = (number, false);
                }
            }
            row.changed = number;
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
        let row = Row { key: key.into(), added: 0, changed: 0, is_deleted: false, values: Values::default() };
        self.rows.push(row);
        self.by_key.insert(key.into(), at);
        at
    }

    /// Forgets rows that nobody waits for.
    fn forget_before(&mut self, oldest: u32) {
        self.rows.retain(|row| row.changed >= oldest);
        self.by_key = self.rows.iter().enumerate().map(|(at, row)| (row.key.clone(), at)).collect();
    }

    /// True if a map is of the kind of those that are there, and all of it can be read.
    fn fits(&self, map: &Map<'_>) -> bool {
        let same = self.head.is_none_or(|head| (head.key_type, head.key_field_id) == (map.key_type, map.key_field_id));
        let scope = map.scope();
        let is_good = |data: &[u8]| FieldList::decode(data, &scope).is_ok_and(|list| can_merge(&list, data, None));
        same && map.container == DataType::FIELD_LIST
            && !map.per_entry_perm
            && map.summary().is_none_or(is_good)
            && map.entries().all(|entry| {
                entry.is_ok_and(|entry| {
                    let known = matches!(entry.action, MapAction::UPDATE | MapAction::ADD | MapAction::DELETE);
                    known && entry.key_value(map.key_type).is_ok() && is_good(entry.data)
                })
            })
    }

    /// Writes the map of what has changed since an update, that one included.
    pub(super) fn write_since(&self, since: u32, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let Some(head) = self.head else {
            hub_items::fault!("a book of no map");
            return Ok(());
        };
        let mut map = MapEncoder::begin(w, head)?;
        if self.summary_changed >= since {
            map.summary(LenForm::Shortest, |w| self.summary.write_since(since, w))?;
        }
        for row in self.rows.iter().filter(|row| row.changed >= since) {
            let key = Primitive::decode(head.key_type, &row.key)
                .map_err(|_| EncodeError::Unrepresentable("key of a row that was read when it came"))?;
            if row.is_deleted {
                map.delete(&key)?;
            } else {
                let action = if row.added >= since { MapAction::ADD } else { MapAction::UPDATE };
                map.entry(action, &key, |w| row.values.write_since(since, w))?;
            }
        }
        map.finish()
    }
}
