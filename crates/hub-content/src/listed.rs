//! Names in the content of symbol lists and of records of chains.

use rwf::DataType;
use rwf::container::{Map, MapAction, SetScope};
use rwf::rdm::chain::{self, Role};

/// A name that a list or a record of a chain has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The name, never empty.
    pub name: Box<[u8]>,
    /// The name's part in the list or chain.
    pub role: Role,
}

/// The names that a message of a symbol list adds or updates, or that one of a chain's record has in fields that pass; `None` if it cannot be read.
/// Nothing but a map or a field list names anything.
pub fn named_in(container: DataType, body: &[u8], passes: impl Fn(i16) -> bool) -> Option<Vec<Listed>> {
    match container {
        DataType::MAP => symbols_in(body),
        DataType::FIELD_LIST => {
            let links = chain::links(body).ok()?.into_iter().filter(|link| passes(link.fid));
            Some(links.map(|link| Listed { name: link.name.into(), role: link.role }).collect())
        }
        _ => Some(Vec::new()),
    }
}

fn symbols_in(body: &[u8]) -> Option<Vec<Listed>> {
    let mut names = Vec::new();
    let map = Map::decode(body, &SetScope::NONE).ok()?;
    if !matches!(
        map.key_type,
        DataType::BUFFER | DataType::ASCII_STRING | DataType::UTF8_STRING | DataType::RMTES_STRING
    ) {
        return Some(names);
    }
    for entry in map.entries() {
        let entry = entry.ok()?;
        if entry.action != MapAction::DELETE && !entry.key.is_empty() {
            names.push(Listed { name: entry.key.into(), role: Role::Member });
        }
    }
    Some(names)
}
