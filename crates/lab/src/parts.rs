//! Parts of a measurement that need a process of their own, started by the lab: the bare loops and the codec's.

use std::hint::black_box;
use std::time::Instant;

use crate::reference::{FIELDS_74, FIELDS_130, LEN_74, LEN_130, encode_update, update_74, update_130};
use clap::Subcommand;
use floor::{fan, relay};
use rwf::dictionary::{Dictionary, FieldDef};
use rwf::json::Converter;
use rwf::msg::UpdateMsg;
use rwf::wire::Writer;
use rwf::{DataType, FieldList, Primitive, SetScope, primitive};

/// A part. Each prints one line of JSON.
#[derive(Clone, Debug, Subcommand)]
pub enum Part {
    /// The bare relay
    Relay {
        /// Relays between source and sink
        #[arg(long)]
        relays: usize,
        /// What the link in the middle is: tcp, udp, multicast or local
        #[arg(long, default_value = "tcp")]
        middle: floor::Middle,
        /// What all bare loops are asked
        #[command(flatten)]
        load: Load,
    },
    /// The bare fan
    Fan {
        /// Connections of the reader
        #[arg(long)]
        connections: usize,
        /// Of a hundred messages, those that go to all connections
        #[arg(long)]
        wide: u32,
        /// What all bare loops are asked
        #[command(flatten)]
        load: Load,
    },
    /// Decoding and encoding: nanoseconds a message, or one kind of work so many times
    Codec {
        /// `decode_74`, `encode_130` and so on
        #[arg(long)]
        work: Option<String>,
        /// How often
        #[arg(long, default_value_t = 0)]
        count: usize,
    },
    /// The stages of an update's way through the server
    Stages(super::stages::work::Args),
    /// LBM, or the same system calls without it
    Lbm(super::lbm::process::Args),
    /// The reference updates as hexadecimal arguments for the same measurement of the peer
    Updates,
    /// The publisher of a test of nats-server
    NatsPublish(super::nats::Load),
    /// The subscribers of a test of nats-server
    NatsSubscribe(super::nats::Load),
    /// Clients of `tr_json2`
    JsonClients(super::websocket::clients::Load),
    /// Consumers over RSSL that come and go together
    Swarm(super::load::swarms::Load),
}

/// The task of all bare loops.
#[derive(Clone, Debug, clap::Args)]
pub struct Load {
    /// Messages a second into the loop; 0 for as many as go
    #[arg(long)]
    rate: f64,
    /// Length of the run; its first quarter does not count
    #[arg(long)]
    seconds: f64,
    /// Bytes of a message
    #[arg(long)]
    size: usize,
    /// Socket buffers
    #[arg(long)]
    socket_buffer: usize,
    /// The source sleeps so many nanoseconds when nothing is due; 0: it yields
    #[arg(long, default_value_t = 0)]
    tick: u64,
}

/// Runs a part.
///
/// # Errors
/// What went wrong, for the user.
pub fn run(part: &Part) -> anyhow::Result<()> {
    match part {
        Part::NatsPublish(load) => super::nats::publish(load).map_err(anyhow::Error::msg)?,
        Part::NatsSubscribe(load) => super::nats::subscribe(load).map_err(anyhow::Error::msg)?,
        Part::JsonClients(load) => super::websocket::clients::run(load).map_err(anyhow::Error::msg)?,
        Part::Swarm(load) => super::load::swarms::run(load).map_err(anyhow::Error::msg)?,
        Part::Relay { relays, middle, load } => {
            let options = relay::RelayOptions {
                relays: *relays,
                middle: *middle,
                rate: load.rate,
                seconds: load.seconds,
                message: load.size,
                tick: load.tick,
                socket_buffer: Some(load.socket_buffer),
                ..relay::RelayOptions::default()
            };
            println!("{}", relay::run(&options).map_err(anyhow::Error::msg)?.to_json(&options));
        }
        Part::Fan { connections, wide, load } => {
            let options = fan::FanOptions {
                connections: *connections,
                wide: *wide,
                relays: 0,
                batch: FAN_BATCH,
                rate: load.rate,
                seconds: load.seconds,
                message: load.size,
                tick: load.tick,
                socket_buffer: Some(load.socket_buffer),
                ..fan::FanOptions::default()
            };
            println!("{}", fan::run(&options).map_err(anyhow::Error::msg)?.to_json(&options));
        }
        Part::Codec { work: None, .. } => println!("{}", codec()),
        Part::Codec { work: Some(name), count } => {
            let work = WORKS.iter().find(|w| w.name == name).ok_or_else(|| anyhow::anyhow!("no work {name:?}"))?;
            let bench = Bench::new();
            repeat_work(work, &bench, *count);
        }
        Part::Stages(args) => super::stages::work::run(args)?,
        Part::Lbm(args) => super::lbm::work::run(args)?,
        Part::Updates => {
            let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
            let bench = Bench::new();
            let json = |texts: &[String]| hex(texts[5].as_bytes());
            print!("74={} 130={} ", hex(&update_74(5)), hex(&update_130(5)));
            println!("json_74={} json_130={}", json(&bench.json_short), json(&bench.json_long));
        }
    }
    Ok(())
}

/// More messages than a read of the writer holds: its turns are as large as they get, like those of the server.
const FAN_BATCH: usize = 4_096;

/// Messages that a piece of work handles.
pub const MESSAGES: usize = 64;
/// Many short rounds: most of them fall between two interruptions, also on a busy machine.
const PASSES: usize = 50;
/// The same with JSON, which takes longer.
const JSON_PASSES: usize = 5;
const ROUNDS: usize = 1_001;
const WARM_UP_ROUNDS: usize = 20;

/// The codec's messages.
struct Bench {
    dictionary: Dictionary,
    short: Vec<[u8; LEN_74]>,
    long: Vec<[u8; LEN_130]>,
    json_short: Vec<String>,
    json_long: Vec<String>,
}

impl Bench {
    fn new() -> Self {
        let ids = 0..MESSAGES as i32;
        let dictionary = Dictionary::builtin();
        let short: Vec<_> = ids.clone().map(update_74).collect();
        let long: Vec<_> = ids.map(update_130).collect();
        let text = |message: &[u8]| {
            let mut text = String::new();
            Converter::new(&dictionary).message(message, &mut text).expect("a reference update");
            text
        };
        let json_short = short.iter().map(|message| text(message)).collect();
        let json_long = long.iter().map(|message| text(message)).collect();
        Self { dictionary, short, long, json_short, json_long }
    }
}

/// One kind of work, on [`MESSAGES`] messages.
struct Work {
    name: &'static str,
    /// How often a round repeats it.
    passes: usize,
    run: fn(&Bench),
}

const WORKS: [Work; 8] = [
    Work { name: "decode_74", passes: PASSES, run: |b| decode_all(&b.short, &b.dictionary) },
    Work { name: "decode_130", passes: PASSES, run: |b| decode_all(&b.long, &b.dictionary) },
    Work { name: "encode_74", passes: PASSES, run: |_| encode_all(black_box(&FIELDS_74), &mut [0; LEN_74]) },
    Work { name: "encode_130", passes: PASSES, run: |_| encode_all(black_box(&FIELDS_130), &mut [0; LEN_130]) },
    Work { name: "write_json_74", passes: JSON_PASSES, run: |b| write_json(&b.short, &b.dictionary) },
    Work { name: "write_json_130", passes: JSON_PASSES, run: |b| write_json(&b.long, &b.dictionary) },
    Work { name: "read_json_74", passes: JSON_PASSES, run: |b| read_json(&b.json_short, &b.dictionary) },
    Work { name: "read_json_130", passes: JSON_PASSES, run: |b| read_json(&b.json_long, &b.dictionary) },
];

/// Does a piece of work so many times; a function of its own, so that a profiler can count from its begin to its end.
#[inline(never)]
fn repeat_work(work: &Work, bench: &Bench, count: usize) {
    for _ in 0..count {
        (work.run)(bench);
    }
}

/// The function in which instructions are counted, as valgrind shows it.
pub const COUNTED: &str = "*repeat_work*";

/// The names of the codec's figures.
pub fn codec_works() -> impl Iterator<Item = &'static str> {
    WORKS.iter().map(|w| w.name)
}

/// Nanoseconds a message of each work, the median of rounds, as a line of JSON.
fn codec() -> serde_json::Value {
    let bench = Bench::new();
    let mut figures = serde_json::Map::new();
    for work in &WORKS {
        let round = || {
            let start = Instant::now();
            repeat_work(work, &bench, work.passes);
            start.elapsed().as_nanos() as f64 / (work.passes * MESSAGES) as f64
        };
        (0..WARM_UP_ROUNDS).for_each(|_| _ = round());
        let rounds: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
        figures.insert(work.name.to_owned(), measure::stats::median(&rounds).into());
    }
    figures.into()
}

#[inline]
fn decode_all<const LEN: usize>(messages: &[[u8; LEN]], dictionary: &Dictionary) {
    for message in black_box(messages) {
        black_box(decode(message, dictionary));
    }
}

/// Decodes a message to its last value, each by the function for its type as hot code does; the sum over all of them
/// keeps any from being left out.
fn decode(message: &[u8], dictionary: &Dictionary) -> i64 {
    let update = UpdateMsg::decode(message).expect("the reference update");
    let list = FieldList::decode(update.body, &SetScope::NONE).expect("its field list");
    let mut sum = i64::from(update.stream_id);
    for entry in list.entries() {
        let entry = entry.expect("a field");
        let data_type = dictionary.field(entry.fid).map_or(DataType::UNKNOWN, FieldDef::data_type);
        sum = sum.wrapping_add(match entry.resolve(data_type) {
            DataType::UINT => primitive::uint(entry.data).expect("a value") as i64,
            DataType::REAL => {
                let v = primitive::real(entry.data).expect("a value").expect("no blank");
                v.mantissa + i64::from(v.hint.0)
            }
            DataType::DATE => {
                let v = primitive::date(entry.data).expect("a value");
                i64::from(v.year) + i64::from(v.month) + i64::from(v.day)
            }
            DataType::TIME => {
                let v = primitive::time(entry.data).expect("a value");
                i64::from(v.hour) + i64::from(v.minute) + i64::from(v.second) + i64::from(v.millisecond)
            }
            DataType::ENUM => i64::from(primitive::enumeration(entry.data).expect("a value")),
            DataType::RMTES_STRING => entry.data.len() as i64,
            other => panic!("a reference update has no {other}"),
        });
    }
    sum
}

#[inline]
fn encode_all(fields: &[(i16, DataType, Primitive<'static>)], out: &mut [u8]) {
    for stream_id in 0..MESSAGES as i32 {
        let mut writer = Writer::new(&mut *out);
        encode_update(stream_id, fields, &mut writer).expect("the fields fit");
        black_box(writer.written());
    }
}

/// Each message as text, as a server writes it for its JSON clients.
#[inline]
fn write_json<const LEN: usize>(messages: &[[u8; LEN]], dictionary: &Dictionary) {
    let converter = Converter::new(dictionary);
    let mut text = Vec::with_capacity(1_024);
    for message in black_box(messages) {
        text.clear();
        converter.message_utf8(message, &mut text).expect("a reference update");
        black_box(&text);
    }
}

/// Each text as a message.
#[inline]
fn read_json(texts: &[String], dictionary: &Dictionary) {
    let converter = Converter::new(dictionary);
    for text in black_box(texts) {
        for message in converter.messages(text) {
            black_box(message.expect("a reference update"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::json::Incoming;

    #[test]
    fn the_texts_are_those_of_the_reference_updates() {
        let bench = Bench::new();
        let converter = Converter::new(&bench.dictionary);
        for (text, message) in bench.json_long.iter().zip(&bench.long) {
            let Ok(Incoming::Message(read)) = &converter.messages(text)[0] else { panic!("{text}") };
            let fields = |bytes: &[u8]| decode(bytes, &bench.dictionary);
            assert_eq!(fields(read), fields(message), "{text}");
        }
    }

    #[test]
    fn every_work_handles_the_reference_updates() {
        let bench = Bench::new();
        for work in &WORKS {
            (work.run)(&bench);
        }
        assert_ne!(decode(&bench.short[3], &bench.dictionary), decode(&bench.short[4], &bench.dictionary));
        let mut out = [0; LEN_130];
        let mut writer = Writer::new(&mut out);
        encode_update(3, &FIELDS_130, &mut writer).unwrap();
        assert_eq!(writer.written(), &bench.long[3][..]);
    }
}

#[cfg(test)]
mod reference_tests {
    use crate::reference::*;
    use rwf::msg::UpdateMsg;
    use rwf::wire::Writer;
    use rwf::{FieldList, SetScope};

    #[test]
    fn the_updates_have_their_length_and_content() {
        for (bytes, fields) in [(&update_74(5)[..], &FIELDS_74[..]), (&update_130(5), &FIELDS_130)] {
            let update = UpdateMsg::decode(bytes).unwrap();
            let list = FieldList::decode(update.body, &SetScope::NONE).unwrap();
            let decoded: Vec<_> = list.entries().map(Result::unwrap).collect();
            assert_eq!(decoded.len(), fields.len());
            for (entry, (fid, data_type, value)) in decoded.iter().zip(fields) {
                assert_eq!((entry.fid, entry.value(*data_type)), (*fid, Ok(*value)));
            }
            let mut again = vec![0; bytes.len()];
            encode_update(5, fields, &mut Writer::new(&mut again)).unwrap();
            assert_eq!(again, bytes, "the buffer is filled to the last byte");
        }
    }
}
