//! Bytes that lie: cut off, with false lengths, nested without end, mutated at random. Each gives a typed error or a
//! value, never a panic; and decoding them takes neither long nor much memory.

mod checks;
#[path = "../../../../../fuzz/kept.rs"]
mod kept;

use crate::golden::case::{self, Case};
use rwf::msg::{Msg, RefreshMsg};
use rwf::wire::{LenForm, Writer};
use rwf::{DataType, ElementListEncoder, EncodeError};

/// All codec vectors.
fn vectors() -> Vec<Case> {
    let files = ["rwf", "rdm"].iter().flat_map(|folder| case::files(folder));
    let codec = files.filter(|file| file.file_stem().is_some_and(|stem| stem != "rmtes"));
    codec.flat_map(|file| case::cases(&file)).map(|case| Case::new(&case)).collect()
}

/// Feeds changed bytes of a case to every entry point that could meet them.
fn feed(case: &Case, bytes: &[u8]) {
    let _ = checks::visit_all(case.root, bytes, &|fid| case.fid_types.of(fid));
    if case.root == DataType::MSG {
        checks::message(bytes);
    }
}

#[test]
fn every_vector_passes_the_checks() {
    for case in vectors() {
        let types = |fid| case.fid_types.of(fid);
        checks::visit_all(case.root, &case.bytes, &types).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        feed(&case, &case.bytes);
    }
}

#[test]
fn truncation_at_every_offset() {
    for case in vectors() {
        // The few large vectors repeat the same entries: a sample of their offsets is enough.
        let step = 1 + case.bytes.len() / 2048;
        for len in (0..case.bytes.len()).step_by(step) {
            let cut = &case.bytes[..len];
            feed(&case, cut);
            if case.root == DataType::MSG {
                let header = 2 + usize::from(u16::from_be_bytes([case.bytes[0], case.bytes[1]]));
                assert_eq!(Msg::decode(cut).is_err(), len < header, "{} cut to {len}", case.name);
            }
        }
    }
}

#[test]
fn lying_lengths_and_counts() {
    for case in vectors().iter().filter(|case| case.bytes.len() <= 300) {
        let mut bytes = case.bytes.clone();
        for at in 0..bytes.len() {
            for lie in [0x00, 0x7F, 0x80, 0xFD, 0xFE, 0xFF, bytes[at] ^ 1, bytes[at].wrapping_add(1)] {
                let truth = std::mem::replace(&mut bytes[at], lie);
                feed(case, &bytes);
                bytes[at] = truth;
            }
        }
    }
}

/// A small generator of numbers that are the same in every run (xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % below
    }
}

#[test]
fn mutated_vectors() {
    let vectors = vectors();
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    for _ in 0..30_000 {
        let case = &vectors[numbers.next(vectors.len())];
        if case.bytes.is_empty() || case.bytes.len() > 4096 {
            continue;
        }
        let mut bytes = case.bytes.clone();
        for _ in 0..=numbers.next(6) {
            let at = numbers.next(bytes.len());
            match numbers.next(6) {
                0 => bytes[at] = numbers.next(256) as u8,
                1 => bytes[at] ^= 1 << numbers.next(8),
                2 => bytes.truncate(at + 1),
                3 => bytes.insert(at, numbers.next(256) as u8),
                4 => {
                    let other = &vectors[numbers.next(vectors.len())].bytes;
                    let len = other.len().min(1 + numbers.next(64));
                    bytes.splice(at.., other[other.len() - len..].iter().copied());
                }
                _ => {
                    let end = bytes.len().min(at + 1 + numbers.next(16));
                    let copy = bytes[at..end].to_vec();
                    bytes.splice(at..at, copy);
                }
            }
            if bytes.is_empty() {
                bytes.push(0);
            }
        }
        feed(case, &bytes);
        checks::cursor(&bytes);
        checks::text(&bytes);
        checks::value(&bytes);
    }
}

#[test]
fn mutated_rmtes() {
    let file =
        case::files("rwf").into_iter().find(|f| f.file_stem().is_some_and(|s| s == "rmtes")).expect("RMTES cases");
    let mut seeds = vec![b"\x1B&@\x1B$B\x45\x6C\x1B|\xC5\xEC\x8E\x31\x1B$)G\xC4\xA1\x0E\x0F".to_vec()];
    for case in case::cases(&file) {
        let steps = case.get("steps").and_then(|s| s.as_array()).cloned().unwrap_or_default();
        seeds.extend(case.get("hex").map(|hex| case::unhex(case::text(hex))));
        seeds.extend(steps.iter().map(|step| case::unhex(case::text(&step["apply_hex"]))));
    }
    let mut numbers = Numbers(0xD1B5_4A32_D192_ED03);
    for _ in 0..30_000 {
        let (a, b) = (numbers.next(seeds.len()), numbers.next(seeds.len()));
        let mut bytes = [&seeds[a][..], &[0], &seeds[b][..]].concat();
        for _ in 0..numbers.next(5) {
            let at = numbers.next(bytes.len());
            bytes[at] =
                if numbers.next(2) == 0 { b"\x1B[0`b%&$()\x0E\x8E"[numbers.next(12)] } else { numbers.next(256) as u8 };
        }
        checks::text(&bytes);
    }
}

/// An element list in an element list, `depth` deep.
fn nested(w: &mut Writer<'_>, depth: usize) -> Result<(), EncodeError> {
    let mut list = ElementListEncoder::begin(w)?;
    if depth > 1 {
        list.container(b"n", DataType::ELEMENT_LIST, LenForm::Shortest, |w| nested(w, depth - 1))?;
    }
    list.finish()
}

#[test]
fn nesting_is_bounded() {
    use rwf::walk::MAX_DEPTH;
    let mut buf = vec![0; 60_000];
    for depth in [1, MAX_DEPTH, MAX_DEPTH + 1, 2000] {
        let mut w = Writer::new(&mut buf);
        nested(&mut w, depth).unwrap();
        let walked = checks::visit_all(DataType::ELEMENT_LIST, w.written(), &checks::any_type);
        assert_eq!(walked.is_ok(), depth <= MAX_DEPTH, "{depth}");
        if let Err(e) = walked {
            assert_eq!(e.what(), "depth of nesting");
        }
    }
    // Messages in messages, too: header of a generic message whose body is a message.
    let one = [0x00, 0x08, 0x07, 0x06, 0, 0, 0, 1, 0x00, 0x0D];
    let walked = checks::visit_all(DataType::MSG, &one.repeat(1000), &checks::any_type);
    assert_eq!(walked.map_err(|e| e.what()), Err("depth of nesting"));
}

#[test]
fn counts_promise_nothing() {
    // 65,535 entries, and not one byte of them.
    for (data_type, bytes) in [
        (DataType::FIELD_LIST, &[0x08, 0xFF, 0xFF][..]),
        (DataType::ELEMENT_LIST, &[0x08, 0xFF, 0xFF]),
        (DataType::MAP, &[0x00, 0x04, 0x04, 0xFF, 0xFF]),
        (DataType::VECTOR, &[0x00, 0x04, 0xFF, 0xFF]),
        (DataType::SERIES, &[0x00, 0x04, 0xFF, 0xFF]),
        (DataType::FILTER_LIST, &[0x00, 0x04, 0xFF]),
        (DataType::ARRAY, &[0x04, 0x00, 0xFF, 0xFF]),
    ] {
        let e = checks::visit_all(data_type, bytes, &checks::any_type).expect_err("no entries");
        assert!(e.is_truncated(), "{data_type}: {e}");
    }
    let list = rwf::FieldList::decode(&[0x08, 0xFF, 0xFF], &rwf::SetScope::NONE).unwrap();
    assert!(list.entries().size_hint().1.unwrap() <= 1, "no reason to allocate");
}

#[test]
fn a_key_that_outgrows_its_length_is_rewritten() {
    use rwf::msg::{Domain, MsgKey};
    // The key's length in its one-byte form, as no encoder here writes it, at the limit of that form.
    let name = [b'N'; 0x7F - 3];
    let refresh =
        RefreshMsg { group_id: &[0, 0], key: Some(MsgKey::item(5, &name)), ..RefreshMsg::new(Domain::MARKET_PRICE, 7) };
    let mut buf = [0; 400];
    let mut w = Writer::new(&mut buf);
    refresh.encode(&mut w).unwrap();
    let mut short = w.written().to_vec();
    let at = short.windows(2).position(|b| b == [0x80, 0x7F]).expect("length of the key");
    short.remove(at);
    short[1] -= 1;
    assert_eq!(Msg::decode(&short), Ok(Msg::Refresh(refresh)));
    checks::message(&short);
}

/// Texts near to what a client of the WebSocket API sends.
const JSON: [&str; 5] = [
    r#"{"ID":1,"Domain":"Login","Key":{"Name":"user","Elements":{"ApplicationId":"256","Position":"127.0.0.1"}}}"#,
    r#"{"ID":5,"Key":{"Name":["A","B"],"Service":7},"View":["BID",25],"Streaming":false}"#,
    r#"{"ID":5,"Type":"Update","UpdateType":"Quote","Fields":{"BID":40.15,"ASK":null,"TRDTIM_1":"01:02:03","PROD_PERM":3}}"#,
    r#"[{"ID":7,"Type":"Refresh","Domain":"MarketByPrice","State":{"Stream":"Open","Data":"Ok","Text":"\u00e9"},"Map":{"KeyType":"Buffer","Entries":[{"Action":"Add","Key":"QQ==","Fields":{"BID":1e2}}]}},{"Type":"Ping"}]"#,
    r#"{"ID":8,"Type":"Post","Ack":true,"PostID":1,"Key":{"Service":7,"Name":"A"},"Message":{"ID":0,"Type":"Update","Fields":{"BID":-0.5}}}"#,
];

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2_000))]

    #[test]
    fn smoke_json(
        which in 0..JSON.len(),
        changes in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), proptest::prelude::any::<u8>()), 0..6),
    ) {
        let mut bytes = JSON[which].as_bytes().to_vec();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        checks::json(&bytes);
    }
}

#[test]
fn every_vector_shown_as_json_is_read_again() {
    for case in vectors().iter().filter(|case| case.root == DataType::MSG) {
        checks::json_of(&case.bytes);
    }
}

/// Inputs that coverage-guided fuzzing has found keep the rules.
#[test]
fn kept_inputs_keep_the_rules() {
    let folder = env!("CARGO_MANIFEST_DIR");
    kept::run(folder, "rwf_message", checks::message);
    kept::run(folder, "rwf_value", checks::value);
    kept::run(folder, "rwf_text", checks::text);
    kept::run(folder, "rwf_cursor", checks::cursor);
    kept::run(folder, "rwf_json", checks::json);
}
