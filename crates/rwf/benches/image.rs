//! What an update costs that is applied to a held image, beside what decoding its fields costs: the 74-byte update, and a change
//! of four of the twenty levels of a book. `cargo bench -p quoteway-rwf --bench image`; for instructions, run the built bench under
//! `valgrind --tool=callgrind --toggle-collect='*image::work*'` with the name of one row as its argument.

#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a benchmark reads the clock and prints")]

#[path = "codec/reference.rs"]
mod reference;

use rwf::dictionary::Dictionary;
use rwf::image::{Payload, Schema};
use rwf::msg::UpdateMsg;
use rwf::wire::Writer;
use rwf::{
    DataType, FieldList, FieldListEncoder, Map, MapAction, MapEncoder, MapHead, Primitive, Real, RealHint, SetScope,
};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 501;
const PASSES: usize = 2_000;

/// Levels of a book: their keys, each with price, size, time and count.
fn book(action: MapAction, levels: impl Iterator<Item = u64>, size: i64) -> Vec<u8> {
    let mut buf = vec![0; 8_192];
    let mut w = Writer::new(&mut buf);
    let mut map = MapEncoder::begin(&mut w, MapHead::new(DataType::UINT, DataType::FIELD_LIST)).expect("room");
    for level in levels {
        let entry = map.entry(action, &Primitive::UInt(level), |w| {
            let mut list = FieldListEncoder::begin(w)?;
            list.real(3427, Real::new(40_150 + level as i64, RealHint::EXPONENT_2))?;
            list.real(4356, Real::new(size, RealHint::EXPONENT0))?;
            list.uint(6527, 52_831_000)?;
            list.uint(3430, 3)?;
            list.finish()
        });
        entry.expect("room");
    }
    map.finish().expect("room");
    w.written().to_vec()
}

fn decode_fields(body: &[u8], scope: &SetScope<'_>, dictionary: &Dictionary) -> u64 {
    let list = FieldList::decode(body, scope).expect("field list");
    list.entries().fold(0, |sum, entry| {
        let entry = entry.expect("field");
        let data_type = dictionary.field(entry.fid).map_or(DataType::BUFFER, rwf::dictionary::FieldDef::data_type);
        sum + u64::from(entry.value(data_type).is_ok_and(|value| !value.is_blank()))
    })
}

fn decode_book(body: &[u8], dictionary: &Dictionary) -> u64 {
    let map = Map::decode(body, &SetScope::NONE).expect("map");
    let scope = map.scope();
    map.entries().fold(0, |sum, entry| {
        let entry = entry.expect("entry");
        let key = entry.key_value(DataType::UINT).expect("key").as_u64().unwrap_or(0);
        sum + key + decode_fields(entry.data, &scope, dictionary)
    })
}

/// Not inlined, so that a profiler can tell it from the preparations.
#[inline(never)]
fn work(passes: usize, mut turn: impl FnMut()) {
    for _ in 0..passes {
        turn();
    }
}

fn measure(name: &str, rounds: usize, mut turn: impl FnMut()) {
    work(PASSES, &mut turn);
    let mut figures: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work(PASSES, &mut turn);
            start.elapsed().as_nanos() as f64 / PASSES as f64
        })
        .collect();
    figures.sort_by(f64::total_cmp);
    println!("{name:14} {:9.1} {:9.1}", figures[rounds / 2], figures[0]);
}

fn main() {
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let rounds = if std::env::args().any(|argument| argument == "--test") || only.is_some() { 1 } else { ROUNDS };
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let dictionary = &Dictionary::builtin();
    let schema = Schema { dictionary: Some(dictionary), ..Schema::NONE };
    let update = reference::update_74(5);
    let image = reference::update_130(5);
    let body = UpdateMsg::decode(&update).expect("update").body;
    let change = book(MapAction::UPDATE, [1, 4, 9, 15].into_iter(), 200);

    let mut price = Payload::new(DataType::FIELD_LIST);
    let whole = UpdateMsg::decode(&image).expect("update").body;
    price.refresh(DataType::FIELD_LIST, whole, &schema).expect("image");
    let mut levels = Payload::new(DataType::MAP);
    levels.refresh(DataType::MAP, &book(MapAction::ADD, 0..20, 100), &schema).expect("image");

    println!("{:14} {:>9} {:>9}", "", "median ns", "best ns");
    if wanted("decode_74") {
        measure("decode_74", rounds, || {
            black_box(decode_fields(black_box(body), &SetScope::NONE, dictionary));
        });
    }
    if wanted("apply_74") {
        measure("apply_74", rounds, || price.update(DataType::FIELD_LIST, black_box(body), &schema).expect("update"));
    }
    if wanted("decode_book") {
        measure("decode_book", rounds, || {
            black_box(decode_book(black_box(&change), dictionary));
        });
    }
    if wanted("apply_book") {
        measure("apply_book", rounds, || levels.update(DataType::MAP, black_box(&change), &schema).expect("update"));
    }
}
