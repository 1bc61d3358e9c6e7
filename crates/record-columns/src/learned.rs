//! What was seen of a recording before its tables are written: their fields and items, since a table has its columns at its beginning.

use crate::form::Seen;
use record::{Entry, Item, Kind, Record};
use rwf::dictionary::Dictionary;
use rwf::{DataType, FieldList, SetScope, peek};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Of one domain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Domain {
    /// Fields by number.
    pub(crate) fields: BTreeMap<i16, Seen>,
    /// Items in the order in which they were seen, each a service and a name.
    pub(crate) items: Vec<(Arc<str>, Arc<str>)>,
    known: HashSet<(Arc<str>, Arc<str>)>,
}

impl Domain {
    fn item(&mut self, item: &Item) {
        let pair = (item.service.clone(), item.name.clone());
        if self.known.insert(pair.clone()) {
            self.items.push(pair);
        }
    }
}

/// Fields and items of all domains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Learned {
    pub(crate) domains: BTreeMap<u8, Domain>,
}

impl Learned {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sees a record. The dictionary says of what type its fields are.
    pub fn note(&mut self, entry: &Entry<'_>, dictionary: &Dictionary) {
        let Some(item) = entry.item else { return };
        let domain = self.domains.entry(item.domain).or_default();
        domain.item(item);
        for field in fields_of(&entry.record).iter().flat_map(FieldList::entries).flatten() {
            let seen = domain
                .fields
                .entry(field.fid)
                .or_insert_with(|| Seen::new(dictionary.field(field.fid).map(rwf::dictionary::FieldDef::data_type)));
            if let Some(Ok(value)) = seen.data_type().map(|data_type| field.value(data_type)) {
                seen.note(&value);
            }
        }
    }

    /// All items that were seen, each as its domain and its service.
    pub fn items(&self) -> impl Iterator<Item = (u8, &str)> {
        self.domains.iter().flat_map(|(number, domain)| domain.items.iter().map(|(service, _)| (*number, &**service)))
    }
}

/// The fields of a record, if it has some.
pub(crate) fn fields_of<'m>(record: &Record<'m>) -> Option<FieldList<'m>> {
    let has_fields = matches!(record.kind, Kind::Refresh | Kind::Update);
    let body = record.body;
    if !has_fields || peek::container(body) != Some(DataType::FIELD_LIST) {
        return None;
    }
    FieldList::decode(peek::body(body)?, &SetScope::NONE).ok()
}
