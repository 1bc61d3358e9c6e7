//! Nanoseconds per message of reading Marketfeed and of converting to and from RWF, each beside its floor.
//!
//! `cargo bench -p quoteway-marketfeed --bench records`. The update is the 74-byte one of the RWF benchmarks. "Separators
//! alone" finds the four separators in the same bytes with `memchr` (three in one pass, the fourth in another) and does
//! nothing else. "Decode of RWF" visits every field and value. Each figure is the median of rounds; the fastest beside it.
//! The dictionary is made here, of the fields that the update has, so that the benchmark needs no files.
//!
//! For instructions: `cargo bench -p quoteway-marketfeed --bench records --no-run`, then the program under
//! `valgrind --tool=callgrind --toggle-collect='*records::work*'` with `separators`, `parse`, `decode`, `to_rwf` or `to_marketfeed` as its
//! argument; it does the work 11,000 times.

#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a benchmark reads the clock and prints")]

#[path = "../../rwf/benches/codec/reference.rs"]
#[allow(dead_code, reason = "the codec's benchmark uses the rest")]
mod reference;

use std::hint::black_box;
use std::time::Instant;

use marketfeed::{Converter, Options, Record, RwfHeader};
use reference::update_74;
use rwf::dictionary::Dictionary;
use rwf::msg::{Msg, UpdateMsg};
use rwf::wire::Writer;
use rwf::{DataType, FieldList, Primitive, SetScope};

const ROUNDS: usize = 1001;
const WARM_UP_ROUNDS: usize = 10;
const MESSAGES: usize = 1000;

/// The fields of the update, with types and lengths as the published dictionary has them.
const FIELDS: &[u8] = b"\
QUOTIM \"QUOTE TIME\" 1025 NULL TIME_SECONDS 8 TIME 5
BID_TICK_1 \"TICK\" 115 NULL ENUMERATED 2 ( 1 ) ENUM 1
BID \"BID\" 22 NULL PRICE 17 REAL64 7
BID_NET_CH \"CHANGE\" 114 NULL PRICE 17 REAL64 7
BIDSIZE \"BID SIZE\" 30 NULL PRICE 17 REAL64 7
ASK \"ASK\" 25 NULL PRICE 17 REAL64 7
ASKSIZE \"ASK SIZE\" 31 NULL PRICE 17 REAL64 7
BID_MMID1 \"MAKER\" 293 NULL ALPHANUMERIC 4 RMTES_STRING 4
BIDXID \"EXCHANGE\" 3298 NULL ENUMERATED 4 ( 3 ) ENUM 2
ASK_MMID1 \"MAKER\" 296 NULL ALPHANUMERIC 4 RMTES_STRING 4
ASKXID \"EXCHANGE\" 3297 NULL ENUMERATED 4 ( 3 ) ENUM 2
";

/// Not inlined, so that a profiler can tell it from the preparations.
#[inline(never)]
fn work(mut message: impl FnMut()) {
    for _ in 0..MESSAGES {
        message();
    }
}

/// Median nanoseconds a message of the work that is called `name`; `None` if another one alone is wanted.
fn measure(name: &str, what: &str, mut message: impl FnMut()) -> Option<f64> {
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    if only.as_deref().is_some_and(|only| only != name) {
        return None;
    }
    let rounds = if only.is_some() { 1 } else { ROUNDS };
    for _ in 0..WARM_UP_ROUNDS {
        work(&mut message);
    }
    let mut rounds: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work(&mut message);
            start.elapsed().as_nanos() as f64 / MESSAGES as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let median = rounds[rounds.len() / 2];
    println!("{what:40} {median:9.1} ns {:9.1} ns best", rounds[0]);
    Some(median)
}

fn decode(dictionary: &Dictionary, bytes: &[u8]) -> u64 {
    let update = UpdateMsg::decode(bytes).expect("an update");
    let list = FieldList::decode(update.body, &SetScope::NONE).expect("a field list");
    let mut sum = 0;
    for entry in list.entries() {
        let entry = entry.expect("a field");
        let data_type = dictionary.field(entry.fid).map_or(DataType::UNKNOWN, rwf::dictionary::FieldDef::data_type);
        sum += match entry.value(data_type).expect("a value") {
            Primitive::Real(real) => real.mantissa as u64,
            Primitive::Enum(number) => u64::from(number),
            Primitive::Time(time) => u64::from(time.second),
            Primitive::Rmtes(text) => text.len() as u64,
            _ => 1,
        };
    }
    sum
}

fn main() {
    let mut dictionary = Dictionary::new();
    dictionary.load_fields("the fields of the benchmark", FIELDS).expect("a dictionary");
    let rwf = update_74(5);
    let msg = Msg::decode(&rwf).expect("an update");
    let mut converter = Converter::new(Options::default());
    let (mut buffer, mut rtl) = ([0; 1000], 0);
    let mut w = Writer::new(&mut buffer);
    converter.to_marketfeed(&dictionary, &msg, b"IBM.N", &mut rtl, &mut w).expect("a conversion");
    let record = w.written().to_vec();
    assert_eq!(converter.losses().all(), []);
    println!("{} bytes of RWF are {} of Marketfeed", rwf.len(), record.len());

    let separators = measure("separators", "separators alone (memchr)", || {
        let bytes = black_box(record.as_slice());
        let three: usize = memchr::memchr3_iter(0x1C, 0x1E, 0x1F, bytes).sum();
        black_box(three + memchr::memchr_iter(0x1D, bytes).sum::<usize>());
    });
    let parse = measure("parse", "parse of Marketfeed, every field", || {
        let record = Record::parse(black_box(&record)).expect("a record");
        let sum: usize =
            record.fields().map(|field| field.map_or(0, |field| field.fid as usize + field.value.len())).sum();
        black_box(sum);
    });
    let decoded = measure("decode", "decode of RWF, every value", || {
        black_box(decode(&dictionary, black_box(&rwf)));
    });
    let header = RwfHeader { stream_id: 5, service_id: Some(1), dictionary_id: 1, is_solicited: false };
    let to_rwf = measure("to_rwf", "Marketfeed to RWF", || {
        // By reference, as where providers' records are read.
        let parsed = Record::parse(black_box(&record));
        let record = parsed.as_ref().expect("a record");
        let mut w = Writer::new(&mut buffer);
        converter.to_rwf(&dictionary, record, &header, &mut w).expect("a conversion");
        black_box(w.position());
    });
    let to_marketfeed = measure("to_marketfeed", "RWF to Marketfeed", || {
        let msg = Msg::decode(black_box(&rwf)).expect("an update");
        let mut w = Writer::new(&mut buffer);
        converter.to_marketfeed(&dictionary, &msg, b"IBM.N", &mut rtl, &mut w).expect("a conversion");
        black_box(w.position());
    });
    let (Some(separators), Some(parse), Some(decoded), Some(to_rwf), Some(to_marketfeed)) =
        (separators, parse, decoded, to_rwf, to_marketfeed)
    else {
        return;
    };
    println!("parsed {:.2} as fast as the separators are found (wanted: 0.5)", separators / parse);
    println!("to RWF {:.2}, to Marketfeed {:.2} times a decode (wanted: 3)", to_rwf / decoded, to_marketfeed / decoded);
}
