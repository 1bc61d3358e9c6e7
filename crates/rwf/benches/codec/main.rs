//! Nanoseconds per message of decoding and encoding the reference updates: header, every field, every value.
//!
//! `cargo bench -p quoteway-rwf --bench codec` prints a table, with `-- --json` one JSON object on a line, with `-- --hex` the
//! messages as arguments for the same benchmark with ETA Java (`interop/codec-bench`). The types of the fields come from
//! the dictionary, as in real use. Each figure is the median of rounds; the fastest round is beside it.

#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a benchmark reads the clock and prints")]

mod reference;

use reference::{FIELDS_74, FIELDS_130, LEN_74, LEN_130, encode_update, update_74, update_130};
use rwf::dictionary::Dictionary;
use rwf::json::Converter;
use rwf::msg::UpdateMsg;
use rwf::wire::Writer;
use rwf::{DataType, FieldList, Primitive, SetScope, primitive};
use std::hint::black_box;
use std::time::Instant;

/// Many short rounds: most of them fall between two interruptions, also on a busy machine.
const ROUNDS: usize = 1001;
const MESSAGES: usize = 64;

/// Result of one benchmark, in nanoseconds per message.
struct Figure {
    name: &'static str,
    median: f64,
    best: f64,
}

/// Times `work`, which handles [`MESSAGES`] messages.
fn measure(name: &'static str, passes: usize, mut work: impl FnMut()) -> Figure {
    for _ in 0..20 * passes {
        work();
    }
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..passes {
                work();
            }
            start.elapsed().as_nanos() as f64 / (passes * MESSAGES) as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    Figure { name, median: rounds[ROUNDS / 2], best: rounds[0] }
}

/// Decodes a message to its last value; gives a sum over all of them, so that none can be left out.
fn decode(msg: &[u8], dictionary: &Dictionary) -> i64 {
    let update = UpdateMsg::decode(msg).expect("reference update");
    let list = FieldList::decode(update.body, &SetScope::NONE).expect("field list");
    let mut sum = i64::from(update.stream_id);
    for entry in list.entries() {
        let entry = entry.expect("field");
        let data_type = dictionary.field(entry.fid).map_or(DataType::UNKNOWN, rwf::dictionary::FieldDef::data_type);
        sum = sum.wrapping_add(match entry.resolve(data_type) {
            DataType::UINT => primitive::uint(entry.data).expect("value") as i64,
            DataType::REAL => {
                let v = primitive::real(entry.data).expect("value").expect("no blank");
                v.mantissa + i64::from(v.hint.0)
            }
            DataType::DATE => {
                let v = primitive::date(entry.data).expect("value");
                i64::from(v.year) + i64::from(v.month) + i64::from(v.day)
            }
            DataType::TIME => {
                let v = primitive::time(entry.data).expect("value");
                i64::from(v.hour) + i64::from(v.minute) + i64::from(v.second) + i64::from(v.millisecond)
            }
            DataType::ENUM => i64::from(primitive::enumeration(entry.data).expect("value")),
            DataType::RMTES_STRING => entry.data.len() as i64,
            other => panic!("type {other}"),
        });
    }
    sum
}

/// As [`decode`], but by way of [`Primitive`], which can hold a value of any type.
fn decode_primitives(msg: &[u8], dictionary: &Dictionary) -> i64 {
    let update = UpdateMsg::decode(msg).expect("reference update");
    let list = FieldList::decode(update.body, &SetScope::NONE).expect("field list");
    let mut sum = i64::from(update.stream_id);
    for entry in list.entries() {
        let entry = entry.expect("field");
        let data_type = dictionary.field(entry.fid).map_or(DataType::UNKNOWN, rwf::dictionary::FieldDef::data_type);
        sum = sum.wrapping_add(match entry.value(data_type).expect("value") {
            Primitive::UInt(v) => v as i64,
            Primitive::Real(v) => v.mantissa + i64::from(v.hint.0),
            Primitive::Date(v) => i64::from(v.year) + i64::from(v.month) + i64::from(v.day),
            Primitive::Time(v) => {
                i64::from(v.hour) + i64::from(v.minute) + i64::from(v.second) + i64::from(v.millisecond)
            }
            Primitive::Enum(v) => i64::from(v),
            Primitive::Rmtes(v) => v.len() as i64,
            other => panic!("type of {other}"),
        });
    }
    sum
}

/// Each message as text.
#[inline(never)]
fn write_json<const LEN: usize>(messages: &[[u8; LEN]], dictionary: &Dictionary) {
    let converter = Converter::new(dictionary);
    let mut text = Vec::with_capacity(1_024);
    for message in black_box(messages) {
        text.clear();
        converter.message_utf8(message, &mut text).expect("reference update");
        black_box(&text);
    }
}

/// Each text as a message.
#[inline(never)]
fn read_json(texts: &[String], dictionary: &Dictionary) {
    let converter = Converter::new(dictionary);
    for text in black_box(texts) {
        for message in converter.messages(text) {
            black_box(message.expect("reference update"));
        }
    }
}

fn texts<const LEN: usize>(messages: &[[u8; LEN]], dictionary: &Dictionary) -> Vec<String> {
    let text = |message: &[u8; LEN]| {
        let mut text = String::new();
        Converter::new(dictionary).message(message, &mut text).expect("reference update");
        text
    };
    messages.iter().map(text).collect()
}

fn main() {
    if std::env::args().any(|arg| arg == "--hex") {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        println!("74={} 130={}", hex(&update_74(5)), hex(&update_130(5)));
        return;
    }
    let json = std::env::args().any(|arg| arg == "--json");
    // Run as a test, it only proves that it works.
    let passes = if std::env::args().any(|arg| arg == "--test") { 1 } else { 50 };
    let dictionary = &Dictionary::builtin();
    let short: Vec<_> = (0..MESSAGES as i32).map(update_74).collect();
    let long: Vec<_> = (0..MESSAGES as i32).map(update_130).collect();
    assert_eq!(FieldList::decode(&short[0][11..], &SetScope::NONE).map(|list| list.len()), Ok(FIELDS_74.len()));
    let (short_texts, long_texts) = (texts(&short, dictionary), texts(&long, dictionary));
    assert_eq!(FieldList::decode(&long[0][11..], &SetScope::NONE).map(|list| list.len()), Ok(FIELDS_130.len()));

    let figures = [
        measure("decode_74", passes, || {
            for msg in black_box(&short) {
                black_box(decode(msg, dictionary));
            }
        }),
        measure("decode_130", passes, || {
            for msg in black_box(&long) {
                black_box(decode(msg, dictionary));
            }
        }),
        measure("encode_74", passes, || encode(black_box(&FIELDS_74), &mut [0; LEN_74])),
        measure("encode_130", passes, || encode(black_box(&FIELDS_130), &mut [0; LEN_130])),
        measure("primitive_74", passes, || {
            for msg in black_box(&short) {
                black_box(decode_primitives(msg, dictionary));
            }
        }),
        measure("header_74", passes, || {
            for msg in black_box(&short) {
                black_box(&UpdateMsg::decode(msg).expect("reference update"));
            }
        }),
        measure("write_json_74", passes.div_ceil(10), || write_json(&short, dictionary)),
        measure("write_json_130", passes.div_ceil(10), || write_json(&long, dictionary)),
        measure("read_json_74", passes.div_ceil(10), || read_json(&short_texts, dictionary)),
        measure("read_json_130", passes.div_ceil(10), || read_json(&long_texts, dictionary)),
    ];
    if json {
        let members: Vec<_> = figures.iter().map(|f| format!("\"{}\":{:.1}", f.name, f.median)).collect();
        println!("{{\"codec\":\"quoteway\",\"unit\":\"ns\",{}}}", members.join(","));
        return;
    }
    println!("{:14} {:>9} {:>9}", "", "median ns", "best ns");
    for figure in &figures {
        println!("{:14} {:9.1} {:9.1}", figure.name, figure.median, figure.best);
    }
}

fn encode(fields: &[(i16, DataType, Primitive<'static>)], buf: &mut [u8]) {
    for stream_id in 0..MESSAGES as i32 {
        let mut w = Writer::new(&mut *buf);
        encode_update(stream_id, fields, &mut w).expect("the fields fit");
        black_box(w.written());
    }
}
