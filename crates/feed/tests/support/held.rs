//! A book as a consumer holds it: what `MarketByOrder` and `MarketByPrice` payloads make of it, held to the rules of maps.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use rwf::{DataType, FieldList, Map, MapAction, Primitive, RealHint, SetScope};

/// Price in the venue's smallest unit, size, and number of orders (0: not told) or 1 bid, 2 ask.
pub(crate) type Entry = (u16, i64, i64, u64);

/// Entries by their keys as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    entries: BTreeMap<String, Entry>,
    /// Of all entries together, in no order.
    hash: u64,
}

/// The states that a book went through, those that are alike in a row once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct States(pub(crate) Vec<u64>);

impl States {
    pub(crate) fn push(&mut self, held: &Held) {
        if self.0.last() != Some(&held.hash) {
            self.0.push(held.hash);
        }
    }
}

fn hash_of(key: &str, entry: &Entry) -> u64 {
    let mut hasher = DefaultHasher::new();
    (key, entry).hash(&mut hasher);
    hasher.finish()
}

impl Held {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Sets an entry; what it was.
    pub(crate) fn set(&mut self, key: &str, entry: Entry) -> Option<Entry> {
        let before = self.remove(key);
        self.hash ^= hash_of(key, &entry);
        self.entries.insert(key.to_owned(), entry);
        before
    }

    /// Removes an entry; what it was.
    pub(crate) fn remove(&mut self, key: &str) -> Option<Entry> {
        let before = self.entries.remove(key)?;
        self.hash ^= hash_of(key, &before);
        Some(before)
    }

    /// Keys and sizes.
    pub(crate) fn text(&self) -> String {
        let all: Vec<String> = self.entries.iter().map(|(key, entry)| format!("{key} {}", entry.2)).collect();
        all.join(", ")
    }

    /// Takes a payload; an entry is added once, and changed and deleted only while it is there.
    pub(crate) fn apply(&mut self, body: &[u8], decimals: u8) {
        let map = Map::decode(body, &SetScope::default()).expect("a map");
        for entry in map.entries().map(|entry| entry.expect("an entry")) {
            let key = String::from_utf8(entry.key.to_vec()).expect("a key of text");
            if entry.action == MapAction::DELETE {
                assert!(self.remove(&key).is_some(), "{key} is deleted and was not there");
                continue;
            }
            let now = of_fields(entry.data, decimals);
            let before = self.set(&key, now);
            assert_eq!(before.is_some(), entry.action == MapAction::UPDATE, "{key}: {:?}", entry.action);
        }
    }
}

/// The fields of an order or a level.
fn of_fields(data: &[u8], decimals: u8) -> Entry {
    let (mut side, mut price, mut size, mut orders) = (0, 0, 0, 0);
    let list = FieldList::decode(data, &SetScope::default()).expect("a field list");
    for field in list.entries().map(|field| field.expect("a field")) {
        match field.fid {
            3427 => price = scaled(&field.value(DataType::REAL).expect("a real"), decimals).expect("a price"),
            3428 => {
                let Ok(Primitive::Enum(number)) = field.value(DataType::ENUM) else { panic!("no side") };
                side = number;
            }
            3429 | 4356 => size = scaled(&field.value(DataType::REAL).expect("a real"), 0).expect("a size"),
            3430 => {
                let Ok(Primitive::UInt(number)) = field.value(DataType::UINT) else { panic!("no number") };
                orders = number;
            }
            _ => {}
        }
    }
    (side, price, size, orders)
}

/// A real in units of the last of so many decimals; `None`: blank.
pub(crate) fn scaled(value: &Primitive<'_>, decimals: u8) -> Option<i64> {
    let Primitive::Real(real) = value else { return None };
    let has = RealHint::EXPONENT0.0 - real.hint.0;
    assert!(has <= decimals, "{real:?} has more than {decimals} decimals");
    Some(real.mantissa * 10i64.pow(u32::from(decimals - has)))
}

/// The values of reals in a field list: absent, blank, or in units of the last of so many decimals.
#[allow(clippy::option_option, reason = "absent, blank, or a value")]
pub(crate) fn real_of(body: &[u8], fid: i16, decimals: u8) -> Option<Option<i64>> {
    let list = FieldList::decode(body, &SetScope::default()).expect("a field list");
    let field = list.entries().map(|field| field.expect("a field")).find(|field| field.fid == fid)?;
    Some(scaled(&field.value(DataType::REAL).expect("a real"), decimals))
}
