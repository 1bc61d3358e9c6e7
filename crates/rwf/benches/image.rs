//! What an update costs that a cache applies to a held image, beside what decoding its header and the values of its fields costs: the
//! 74-byte update, without and with fields that ripple, and changes of four and of all of the twenty levels of a book. Fields ripple as the dictionary says,
//! as in both caches. `cargo bench -p quoteway-rwf --bench image`; for instructions, run the built bench under
//! `valgrind --tool=callgrind --toggle-collect='*image::work*'` with the name of one row as its argument.

#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a benchmark reads the clock and prints")]

#[path = "codec/reference.rs"]
mod reference;

use rwf::dictionary::Dictionary;
use rwf::image::{Ahead, Image, Latest, Plans, Schema};
use rwf::msg::{Domain, RefreshFlags, RefreshMsg, UpdateMsg};
use rwf::wire::Writer;
use rwf::{
    DataType, FieldList, FieldListEncoder, Map, MapAction, MapEncoder, MapHead, Primitive, Real, RealHint, SetScope,
};
use std::hint::black_box;
use std::sync::Arc;
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

fn measure(name: &str, rounds: usize, mut turn: &mut dyn FnMut()) {
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

/// The image of an item.
fn held(container: DataType, body: &[u8], schema: &Schema<'_>) -> Image {
    let mut image = Image::new();
    let flags = RefreshFlags::REFRESH_COMPLETE;
    let refresh = RefreshMsg { container, flags, body, ..RefreshMsg::new(Domain::MARKET_PRICE, 5) };
    image.refresh(&refresh, schema).expect("image");
    image
}

fn body(update: &[u8]) -> &[u8] {
    UpdateMsg::decode(black_box(update)).expect("update").body
}

/// Bid and ask, and their sizes.
fn quote(price: i64) -> Vec<u8> {
    let mut buf = vec![0; 64];
    let mut w = Writer::new(&mut buf);
    let mut list = FieldListEncoder::begin(&mut w).expect("room");
    for (fid, hint, mantissa) in [
        (22, RealHint::EXPONENT_2, price),
        (30, RealHint::EXPONENT0, 18),
        (25, RealHint::EXPONENT_2, price),
        (31, RealHint::EXPONENT0, 10),
    ] {
        list.real(fid, Real::new(mantissa, hint)).expect("room");
    }
    list.finish().expect("room");
    w.written().to_vec()
}

/// An update of a book.
fn changed(change: &[u8]) -> Vec<u8> {
    changed_in(DataType::MAP, change)
}

/// An update with this payload.
fn changed_in(container: DataType, change: &[u8]) -> Vec<u8> {
    let mut buf = vec![0; 8_192];
    let mut w = Writer::new(&mut buf);
    let update = UpdateMsg { container, body: change, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) };
    update.encode(&mut w).expect("room");
    w.written().to_vec()
}

/// The fields of the long update, and those that bid and ask ripple to.
fn rippling(image: &[u8]) -> Vec<u8> {
    let list = FieldList::decode(image, &SetScope::NONE).expect("field list");
    let mut buf = vec![0; 512];
    let mut w = Writer::new(&mut buf);
    let mut more = FieldListEncoder::begin(&mut w).expect("room");
    for entry in list.entries() {
        let entry = entry.expect("field");
        more.raw(entry.fid, entry.data).expect("room");
    }
    for fid in [23, 24, 26, 27] {
        more.real(fid, Real::new(40_149, RealHint::EXPONENT_2)).expect("room");
    }
    more.finish().expect("room");
    w.written().to_vec()
}

/// An update of fields that are in another order in the image, as the project's own source has them.
fn shuffled(image: &[u8]) -> Vec<u8> {
    let list = FieldList::decode(image, &SetScope::NONE).expect("field list");
    let mut entries: Vec<_> = list.entries().map(|entry| entry.expect("field")).collect();
    entries.retain(|entry| [22, 25, 30, 31, 3855, 115, 6, 32, 3298, 3297].contains(&entry.fid));
    entries
        .sort_by_key(|entry| [22, 25, 30, 31, 3855, 115, 6, 32, 3298, 3297].iter().position(|fid| *fid == entry.fid));
    let mut buf = vec![0; 512];
    let mut w = Writer::new(&mut buf);
    let mut list = FieldListEncoder::begin(&mut w).expect("room");
    for entry in &entries {
        list.raw(entry.fid, entry.data).expect("room");
    }
    list.finish().expect("room");
    let mut buf = vec![0; 512];
    let mut message = Writer::new(&mut buf);
    let update = UpdateMsg {
        container: DataType::FIELD_LIST,
        seq_num: Some(7),
        body: w.written(),
        ..UpdateMsg::new(Domain::MARKET_PRICE, 5)
    };
    update.encode(&mut message).expect("room");
    message.written().to_vec()
}

fn main() {
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let rounds = if std::env::args().any(|argument| argument == "--test") || only.is_some() { 1 } else { ROUNDS };
    let dictionary = &Dictionary::builtin();
    let schema = &Schema { dictionary: Some(dictionary), ripple: true, ..Schema::NONE };
    let update = reference::update_74(5);
    let long = reference::update_130(5);
    let fields = body(&long);
    let four = changed(&book(MapAction::UPDATE, [1, 4, 9, 15].into_iter(), 200));
    let all = changed(&book(MapAction::UPDATE, 0..20, 200));

    println!("{:14} {:>9} {:>9}", "", "median ns", "best ns");
    let row = |name: &str, turn: &mut dyn FnMut()| {
        if only.as_deref().is_none_or(|only| only == name) {
            measure(name, rounds, turn);
        }
    };
    row("decode_74", &mut || {
        black_box(decode_fields(body(&update), &SetScope::NONE, dictionary));
    });
    for (name, image) in [("apply_74", fields.to_vec()), ("apply_ripple", rippling(fields))] {
        let mut image = held(DataType::FIELD_LIST, &image, schema);
        row(name, &mut || apply(&mut image, &update, schema));
    }
    // As the caches do since updates of a make are planned for all items of a layout.
    let shuffled = shuffled(fields);
    for (name, image, update) in [
        ("planned_74", fields.to_vec(), update.to_vec()),
        ("planned_ripple", rippling(fields), update.to_vec()),
        ("planned_order", rippling(fields), shuffled.clone()),
    ] {
        let mut plans = Plans::new(Some(Arc::new(Dictionary::builtin())));
        let mut image = held(DataType::FIELD_LIST, &image, schema);
        row(name, &mut || {
            image.update_planned(black_box(&update), &mut plans).expect("update");
        });
    }
    let mut image = held(DataType::FIELD_LIST, &rippling(fields), schema);
    row("apply_order", &mut || apply(&mut image, &shuffled, schema));
    // Bid and ask of other lengths, by turns.
    let mut image = held(DataType::FIELD_LIST, &rippling(fields), schema);
    let mut turn = 0;
    let others = changed_in(DataType::FIELD_LIST, &quote(100));
    let same = changed_in(DataType::FIELD_LIST, &quote(40_150));
    row("decode_quote", &mut || {
        black_box(decode_fields(body(&same), &SetScope::NONE, dictionary));
    });
    row("apply_uneven", &mut || {
        turn += 1;
        apply(&mut image, if turn % 2 == 0 { &same } else { &others }, schema);
    });
    for (decode, apply_name, change) in [("decode_book", "apply_book", &four), ("decode_all", "apply_all", &all)] {
        row(decode, &mut || {
            black_box(decode_book(body(change), dictionary));
        });
        let mut image = held(DataType::MAP, &book(MapAction::ADD, 0..20, 100), schema);
        row(apply_name, &mut || apply(&mut image, change, schema));
    }
    if only.as_deref().is_some_and(|only| only == "wide") {
        wide(&rippling(fields), &update, schema);
    }
}

/// A million images, updated in no order: applied, 32 at a time after a look at all of them, as caches did before the last update was kept beside an image, and kept.
/// One row by turns with the other, three times; it takes 700 MB, and runs when it is named alone.
fn wide(fields: &[u8], update: &[u8], schema: &Schema<'_>) {
    const IMAGES: usize = 1 << 20;
    const GROUP: usize = 32;
    let mut plans = Plans::new(Some(Arc::new(Dictionary::builtin())));
    let mut images: Vec<Image> = (0..IMAGES).map(|_| held(DataType::FIELD_LIST, fields, schema)).collect();
    let mut latest = vec![Latest::default(); IMAGES];
    for (image, latest) in images.iter_mut().zip(&mut latest) {
        image.note_layout(&mut plans);
        image.update_planned(update, &mut plans).expect("update");
        image.open(latest, &plans);
    }
    // An odd factor makes one round trip of all places, each far from the one before.
    let place = |number: usize| number.wrapping_mul(0x9E37_79B1) % IMAGES;
    for _ in 0..3 {
        let begun = Instant::now();
        let mut ahead = [Ahead::default(); GROUP];
        for group in (0..IMAGES).step_by(GROUP) {
            let mut seen = 0;
            for (number, ahead) in ahead.iter_mut().enumerate() {
                *ahead = images[place(group + number)].ahead(black_box(update), &plans);
            }
            for (number, ahead) in ahead.iter().enumerate() {
                seen ^= images[place(group + number)].touch(*ahead, &plans);
            }
            black_box(seen);
            for (number, ahead) in ahead.iter().enumerate() {
                images[place(group + number)].update_ahead(black_box(update), &mut plans, *ahead).expect("update");
            }
        }
        let applied = begun.elapsed().as_nanos() / IMAGES as u128;
        let begun = Instant::now();
        for group in (0..IMAGES).step_by(GROUP) {
            let near = (0..GROUP).fold(0, |near, number| near + u32::from(latest[place(group + number)].is_open()));
            assert_eq!(black_box(near), GROUP as u32, "all are kept");
            for number in 0..GROUP {
                assert!(plans.keep(&mut latest[place(group + number)], black_box(update)), "it is kept");
            }
        }
        let kept = begun.elapsed().as_nanos() / IMAGES as u128;
        println!("wide: applied {applied} ns, kept {kept} ns an update");
        for (image, latest) in images.iter_mut().zip(&mut latest) {
            image.take_in(latest, &mut plans).expect("what was kept can be applied");
        }
    }
}

fn apply(image: &mut Image, update: &[u8], schema: &Schema<'_>) {
    let update = UpdateMsg::decode(black_box(update)).expect("update");
    image.update(&update, schema).expect("update");
}
