//! The image of an item, kept up to date by its messages: the rules of a cache for field lists, maps of them, and pages.
//!
//! A field of an update replaces the field, or its part when it is an edit of a text; an entry of a map is added, changed or deleted by its key; a refresh replaces
//! everything. Payloads of other types are replaced as a whole.

use rwf::page::{Page, PageSize};
use rwf::rmtes::{self, RmtesCache};
use rwf::wire::{LenForm, Writer};
use rwf::{
    DataType, EncodeError, FieldEntry, FieldList, FieldListEncoder, Map, MapAction, MapEncoder, MapHead, Primitive,
    SetScope,
};
use std::collections::BTreeMap;

/// The current image of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// A field list.
    Fields(Fields),
    /// A map of field lists.
    Book(Book),
    /// An ANSI page of the usual size.
    Page(Box<Page>),
    /// Anything else, as it came.
    Other(DataType, Vec<u8>),
}

/// Fields in the order in which they came first, each in the coding of its type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(i16, Box<[u8]>)>);

/// Rows by their key's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Book {
    key_type: DataType,
    key_field_id: Option<i16>,
    summary: Option<Fields>,
    rows: BTreeMap<Box<[u8]>, Fields>,
}

impl Image {
    /// The image that a payload is. What of it cannot be decoded is left out.
    pub fn of(container: DataType, body: &[u8]) -> Self {
        match container {
            DataType::FIELD_LIST => {
                let mut fields = Fields::default();
                fields.merge(body, &SetScope::default());
                Self::Fields(fields)
            }
            DataType::MAP => match Map::decode(body, &SetScope::default()) {
                Ok(map) if map.container == DataType::FIELD_LIST => {
                    let (key_type, key_field_id) = (map.key_type, map.key_field_id);
                    let mut book = Book { key_type, key_field_id, summary: None, rows: BTreeMap::new() };
                    book.merge(&map);
                    Self::Book(book)
                }
                _ => Self::Other(container, body.to_vec()),
            },
            DataType::ANSI_PAGE => {
                let mut page = Page::new(PageSize::default());
                page.apply(body);
                Self::Page(Box::new(page))
            }
            _ => Self::Other(container, body.to_vec()),
        }
    }

    /// Takes an update's payload.
    pub fn apply(&mut self, container: DataType, body: &[u8]) {
        match self {
            Self::Fields(fields) if container == DataType::FIELD_LIST => fields.merge(body, &SetScope::default()),
            Self::Book(book) if container == DataType::MAP => {
                if let Ok(map) = Map::decode(body, &SetScope::default()) {
                    book.merge(&map);
                }
            }
            Self::Page(page) if container == DataType::ANSI_PAGE => page.apply(body),
            _ => *self = Self::of(container, body),
        }
    }

    /// The type of the payload.
    pub fn container(&self) -> DataType {
        match self {
            Self::Fields(_) => DataType::FIELD_LIST,
            Self::Book(_) => DataType::MAP,
            Self::Page(_) => DataType::ANSI_PAGE,
            Self::Other(container, _) => *container,
        }
    }

    /// Appends the payload. Nothing when it cannot be written: somebody has made a row longer than any row can be.
    pub fn append(&self, out: &mut Vec<u8>) {
        match self {
            Self::Other(_, body) => out.extend_from_slice(body),
            Self::Fields(fields) => encode(out, fields.room(), |w| fields.write(w)),
            Self::Book(book) => encode(out, book.room(), |w| book.write(w)),
            Self::Page(page) => out.extend_from_slice(&page.image()),
        }
    }
}

impl Fields {
    /// Takes the fields of a list; those that are there already are replaced.
    pub fn merge(&mut self, body: &[u8], scope: &SetScope<'_>) {
        let Ok(list) = FieldList::decode(body, scope) else { return };
        for entry in list.entries().map_while(Result::ok) {
            let value = standard(&entry);
            match self.0.iter_mut().find(|(fid, _)| *fid == entry.fid) {
                Some((_, old)) if is_edit(&entry, old) => edit(old, &value),
                Some((_, old)) => *old = value,
                None => self.0.push((entry.fid, value)),
            }
        }
    }

    /// Forgets the fields of a list.
    pub fn forget(&mut self, body: &[u8]) {
        let Ok(list) = FieldList::decode(body, &SetScope::default()) else { return };
        for entry in list.entries().map_while(Result::ok) {
            self.0.retain(|(fid, _)| *fid != entry.fid);
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes that are enough to write them.
    pub fn room(&self) -> usize {
        self.0.iter().map(|(_, value)| value.len() + 5).sum::<usize>() + 16
    }

    /// Writes them as a field list.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut list = FieldListEncoder::begin(w)?;
        for (fid, value) in &self.0 {
            list.raw(*fid, value)?;
        }
        list.finish()
    }
}

fn encode(out: &mut Vec<u8>, room: usize, write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) {
    let start = out.len();
    out.resize(start + room, 0);
    let mut w = Writer::new(&mut out[start..]);
    let written = if write(&mut w).is_ok() { w.position() } else { 0 };
    out.truncate(start + written);
}

/// A value as standard data holds it: forms of set definitions are shorter.
fn standard(entry: &FieldEntry<'_>) -> Box<[u8]> {
    if entry.enc == DataType::UNKNOWN {
        return entry.data.into();
    }
    let mut buffer = vec![0; entry.data.len() + 32];
    let mut w = Writer::new(&mut buffer);
    match entry.value(entry.enc).map(|value| value.encode(&mut w)) {
        Ok(Ok(())) => w.written().into(),
        _ => Box::default(),
    }
}

/// Whether an entry changes a part of the text that is held. Types are not known here; only RMTES has sequences that say so,
/// and a number may begin with the same bytes.
fn is_edit(entry: &FieldEntry<'_>, held: &[u8]) -> bool {
    let may_be_text = entry.enc == DataType::UNKNOWN || entry.enc.base() == DataType::RMTES_STRING;
    may_be_text && rmtes::is_partial(entry.data) && rmtes::decode(held).is_ok()
}

/// Applies an edit. One that cannot be applied changes nothing.
fn edit(held: &mut Box<[u8]>, value: &[u8]) {
    let mut text = RmtesCache::new();
    if text.apply(held).is_ok() && text.apply(value).is_ok() {
        *held = text.bytes().into();
    }
}

impl Book {
    fn merge(&mut self, map: &Map<'_>) {
        let scope = map.scope();
        if let Some(summary) = map.summary() {
            self.summary.get_or_insert_default().merge(summary, &scope);
        }
        for entry in map.entries().map_while(Result::ok) {
            if entry.action == MapAction::DELETE {
                self.rows.remove(entry.key);
                continue;
            }
            let row = self.rows.entry(entry.key.into()).or_default();
            if entry.action == MapAction::ADD {
                *row = Fields::default();
            }
            row.merge(entry.data, &scope);
        }
    }

    fn room(&self) -> usize {
        let rows: usize = self.rows.iter().map(|(key, row)| key.len() + row.room()).sum();
        rows + self.summary.as_ref().map_or(0, Fields::room) + 64
    }

    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let head = MapHead {
            key_field_id: self.key_field_id,
            count_hint: Some(self.rows.len() as u32),
            ..MapHead::new(self.key_type, DataType::FIELD_LIST)
        };
        let mut map = MapEncoder::begin(w, head)?;
        if let Some(summary) = &self.summary {
            map.summary(LenForm::Shortest, |w| summary.write(w))?;
        }
        for (key, row) in &self.rows {
            let key = Primitive::decode(self.key_type, key).unwrap_or(Primitive::Blank);
            map.entry(MapAction::ADD, &key, |w| row.write(w))?;
        }
        map.finish()
    }
}

/// Fields posted to an item: laid over the source's own image until the source itself changes the same fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlay {
    fields: Fields,
    /// Payloads of other types, in order; bounded by [`OTHERS_MAX`].
    others: Vec<(DataType, Vec<u8>)>,
}

/// Payloads of books that are kept for an item; older ones are forgotten.
const OTHERS_MAX: usize = 64;

impl Overlay {
    /// Takes a posted payload.
    pub fn post(&mut self, container: DataType, body: &[u8]) {
        if container == DataType::FIELD_LIST {
            self.fields.merge(body, &SetScope::default());
        } else {
            if self.others.len() >= OTHERS_MAX {
                self.others.remove(0);
            }
            self.others.push((container, body.to_vec()));
        }
    }

    /// The source has published this itself.
    pub fn published(&mut self, container: DataType, body: &[u8]) {
        if container == DataType::FIELD_LIST && !self.fields.is_empty() {
            self.fields.forget(body);
        }
    }

    /// Whether nothing is left of it.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.others.is_empty()
    }

    /// Lays it over the image in `out[start..]`.
    pub fn apply(&self, container: DataType, start: usize, out: &mut Vec<u8>) {
        if self.is_empty() {
            return;
        }
        let mut image = Image::of(container, &out[start..]);
        if let Image::Fields(fields) = &mut image {
            for (fid, value) in &self.fields.0 {
                match fields.0.iter_mut().find(|(known, _)| known == fid) {
                    Some((_, old)) => old.clone_from(value),
                    None => fields.0.push((*fid, value.clone())),
                }
            }
        }
        for (container, body) in &self.others {
            image.apply(*container, body);
        }
        out.truncate(start);
        image.append(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::append_fields;

    fn list(fields: &[(i16, u64)]) -> Vec<u8> {
        let mut out = Vec::new();
        append_fields(&mut out, |w| {
            for (fid, value) in fields {
                w.uint(*fid, *value);
            }
        });
        out
    }

    fn bytes(image: &Image) -> Vec<u8> {
        let mut out = Vec::new();
        image.append(&mut out);
        out
    }

    type Row<'a> = (MapAction, &'a [u8], &'a [(i16, u64)]);

    fn map(rows: &[Row<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        crate::fields::append(&mut out, 1_024, |w| {
            let mut map = MapEncoder::begin(w, MapHead::new(DataType::BUFFER, DataType::FIELD_LIST))?;
            for (action, key, fields) in rows {
                map.entry(*action, &Primitive::Buffer(key), |w| w.bytes(&list(fields)))?;
            }
            map.finish()
        });
        out
    }

    #[test]
    fn fields_are_replaced_in_place_and_new_ones_follow() {
        let mut image = Image::of(DataType::FIELD_LIST, &list(&[(1, 10), (2, 20)]));
        image.apply(DataType::FIELD_LIST, &list(&[(2, 21), (3, 30)]));
        assert_eq!(bytes(&image), list(&[(1, 10), (2, 21), (3, 30)]));
    }

    #[test]
    fn an_edit_changes_its_part_of_a_text() {
        let row = |text: &[u8]| {
            let mut out = Vec::new();
            append_fields(&mut out, |w| w.raw(315, text));
            out
        };
        let mut image = Image::of(DataType::FIELD_LIST, &row(b"EUR/USD 1.0815"));
        image.apply(DataType::FIELD_LIST, &row(b"\x1b[12`20"));
        assert_eq!(bytes(&image), row(b"EUR/USD 1.0820"));
    }

    #[test]
    fn rows_of_a_book_are_added_changed_and_deleted() {
        let (add, update, delete) = (MapAction::ADD, MapAction::UPDATE, MapAction::DELETE);
        let mut image = Image::of(DataType::MAP, &map(&[(add, b"1", &[(1, 1), (2, 2)]), (add, b"2", &[(1, 5)])]));
        image.apply(DataType::MAP, &map(&[(update, b"1", &[(2, 3)]), (delete, b"2", &[]), (add, b"3", &[(1, 7)])]));
        let expected = Image::of(DataType::MAP, &map(&[(add, b"1", &[(1, 1), (2, 3)]), (add, b"3", &[(1, 7)])]));
        assert_eq!(image, expected);
        assert_eq!(Image::of(DataType::MAP, &bytes(&image)), image, "what is written reads back");
        image.apply(DataType::MAP, &map(&[(add, b"1", &[(9, 9)])]));
        let Image::Book(book) = &image else { panic!("a book") };
        assert_eq!(book.rows[&b"1"[..]].0.len(), 1, "an added row begins anew");
    }

    #[test]
    fn hostile_payloads_do_no_harm() {
        let long = list(&(0..100).map(|n| (n, u64::MAX)).collect::<Vec<_>>());
        let rows = map(&[(MapAction::ADD, b"1", &[(1, 1), (2, 2)]), (MapAction::DELETE, b"2", &[])]);
        for (container, body) in [(DataType::FIELD_LIST, list(&[(1, 10), (2, 20)])), (DataType::MAP, rows)] {
            for at in 0..body.len() {
                for value in [0, 1, 0x7F, 0x80, 0xFE, 0xFF] {
                    let mut body = body.clone();
                    body[at] = value;
                    let mut image = Image::of(container, &body);
                    image.apply(container, &body[..at]);
                    image.apply(DataType::FIELD_LIST, &long);
                    bytes(&image);
                }
            }
        }
        // A row that grows beyond what a row can be.
        let mut image = Image::of(DataType::MAP, &map(&[(MapAction::ADD, b"1", &[(1, 1)])]));
        let Image::Book(book) = &mut image else { panic!("a book") };
        for fid in 0..9_000 {
            book.rows.get_mut(&b"1"[..]).unwrap().0.push((fid, vec![0; 8].into()));
        }
        assert!(bytes(&image).is_empty());
    }

    #[test]
    fn what_was_posted_stays_until_the_source_changes_it() {
        let mut overlay = Overlay::default();
        overlay.post(DataType::FIELD_LIST, &list(&[(2, 99), (7, 7)]));
        let shown = |overlay: &Overlay| {
            let mut out = vec![0xEE];
            out.extend(list(&[(1, 10), (2, 20)]));
            overlay.apply(DataType::FIELD_LIST, 1, &mut out);
            out.split_off(1)
        };
        assert_eq!(shown(&overlay), list(&[(1, 10), (2, 99), (7, 7)]));
        overlay.published(DataType::FIELD_LIST, &list(&[(2, 21)]));
        assert_eq!(shown(&overlay), list(&[(1, 10), (2, 20), (7, 7)]));
        overlay.published(DataType::FIELD_LIST, &list(&[(7, 1)]));
        assert!(overlay.is_empty());
    }
}
