//! Dictionaries: the files, the messages, both against the SDK's bytes.

// Tests print what they covered and measured.
#![allow(clippy::disallowed_macros, clippy::disallowed_methods)]

use rwf::DataType;
use rwf::dictionary::{Dictionary, DictionaryError, EnumValue, Fault, FieldDef, MarketfeedType, Place, Verbosity};
use rwf::msg::Msg;
use rwf::rdm;
use rwf::wire::Writer;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::time::Instant;

fn shared(variable: &str, folder: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")).join(folder),
        PathBuf::from,
    )
}

fn read(path: &std::path::Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn full() -> Dictionary {
    let folder = shared("QUOTEWAY_DICTIONARY", "dictionary");
    let (fields, enums) = (read(&folder.join("RDMFieldDictionary")), read(&folder.join("enumtype.def")));
    let start = Instant::now();
    let mut dictionary = Dictionary::new();
    dictionary.load_fields("RDMFieldDictionary", &fields).unwrap();
    dictionary.load_enums("enumtype.def", &enums).unwrap();
    println!(
        "{} fields and {} enumerations loaded in {:?}",
        dictionary.len(),
        dictionary.enum_tables().len(),
        start.elapsed()
    );
    dictionary
}

fn small() -> Dictionary {
    let folder = shared("QUOTEWAY_VECTORS", "vectors").join("rdm");
    let mut dictionary = Dictionary::new();
    dictionary.load_fields("small", &read(&folder.join("small.RDMFieldDictionary"))).unwrap();
    dictionary.load_enums("small", &read(&folder.join("small.enumtype.def"))).unwrap();
    dictionary
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

fn unhex(hex: &str) -> Vec<u8> {
    hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// All parts of a dictionary refresh, each in a buffer of `size` bytes.
fn parts(dictionary: &Dictionary, request: &rdm::dictionary::Request, size: usize) -> Vec<Vec<u8>> {
    let mut parts = rdm::dictionary::RefreshParts::answer(dictionary, request).unwrap();
    let mut out = Vec::new();
    while !parts.is_done() {
        let mut buf = vec![0; size];
        let mut w = Writer::new(&mut buf);
        parts.write(false, &mut w).unwrap();
        out.push(w.written().to_vec());
    }
    out
}

/// Everything that a dictionary message at normal verbosity carries.
fn assert_same(a: &Dictionary, b: &Dictionary) {
    assert_eq!(a.properties(), b.properties());
    assert_eq!(a.len(), b.len());
    for (a, b) in a.fields().zip(b.fields()) {
        assert_eq!(
            (a.fid(), a.acronym(), a.long_name(), a.ripples_to()),
            (b.fid(), b.acronym(), b.long_name(), b.ripples_to())
        );
        assert_eq!(
            (a.marketfeed_type(), a.length(), a.enum_length()),
            (b.marketfeed_type(), b.length(), b.enum_length())
        );
        assert_eq!((a.data_type(), a.rwf_length()), (b.data_type(), b.rwf_length()), "{}", a.acronym());
    }
    assert_eq!(a.enum_tables().len(), b.enum_tables().len());
    for (a, b) in a.enum_tables().iter().zip(b.enum_tables()) {
        assert_eq!(a.fids(), b.fids());
        assert!(
            a.values().iter().map(|v| (v.value(), v.display())).eq(b.values().iter().map(|v| (v.value(), v.display())))
        );
    }
}

#[test]
fn full_dictionary_goes_out_as_from_the_sdk_and_comes_back() {
    let dictionary = full();
    let runs: Value =
        serde_json::from_slice(&read(&shared("QUOTEWAY_VECTORS", "vectors").join("rdm/full_dictionary.json"))).unwrap();
    let mut checked = 0;
    for run in runs.as_array().unwrap() {
        let fields = run["dictionary"] == "RDMFieldDictionary";
        let request = rdm::dictionary::Request {
            stream_id: if fields { 3 } else { 4 },
            streaming: true,
            service_id: run["service_id"].as_u64().map(|id| id as u16),
            name: if fields { rdm::dictionary::FIELDS } else { rdm::dictionary::ENUMS }.to_owned(),
            verbosity: Verbosity(run["verbosity"].as_u64().unwrap() as u32),
        };
        let messages = parts(&dictionary, &request, run["fragment_buffer_size"].as_u64().unwrap() as usize);
        let expected = run["parts"].as_array().unwrap();
        for (index, (message, expected)) in messages.iter().zip(expected).enumerate() {
            let found = format!("{} {}", message.len(), hex(&Sha256::digest(message)));
            assert_eq!(found, expected.as_str().unwrap(), "{request:?}, part {index}");
            checked += 1;
        }
        assert_eq!(messages.len(), expected.len());
    }
    assert!(checked > 0);
    println!("{checked} fragments of the full dictionary are the SDK's");

    let mut again = Dictionary::new();
    let request = |name: &str| rdm::dictionary::Request {
        stream_id: 3,
        streaming: true,
        service_id: Some(1),
        name: name.to_owned(),
        verbosity: Verbosity::NORMAL,
    };
    for message in parts(&dictionary, &request(rdm::dictionary::FIELDS), 6144) {
        again.apply_fields("provider", Msg::decode(&message).unwrap().body()).unwrap();
    }
    for message in parts(&dictionary, &request(rdm::dictionary::ENUMS), 12_800) {
        again.apply_enums("provider", Msg::decode(&message).unwrap().body()).unwrap();
    }
    assert_same(&dictionary, &again);
}

#[test]
fn small_dictionary_cases_of_the_vectors() {
    let dictionary = small();
    let text = String::from_utf8(read(&shared("QUOTEWAY_VECTORS", "vectors").join("rdm/rdm.jsonl"))).unwrap();
    let cases: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut checked = 0;
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let Some((category, case_name)) = name.split_once('/') else { continue };
        let fields = category.starts_with("dictionary.field");
        if !fields && !category.starts_with("dictionary.enum") {
            continue;
        }
        let verbosity = case_name.split("_v").nth(1).unwrap().split('_').next().unwrap().parse().unwrap();
        let expected = case["hex"].as_str().unwrap();
        if category.ends_with("_payload") {
            let mut buf = vec![0; 60_000];
            let mut w = Writer::new(&mut buf);
            let last = if fields {
                dictionary.field_parts(Verbosity(verbosity)).write(&mut w)
            } else {
                dictionary.enum_parts(Verbosity(verbosity)).write(&mut w)
            };
            assert_eq!((last, hex(w.written()).as_str()), (Ok(true), expected), "{name}");
        } else {
            let bytes = unhex(expected);
            let Msg::Refresh(msg) = Msg::decode(&bytes).unwrap() else { panic!("{name}") };
            let key = msg.key.unwrap();
            let request = rdm::dictionary::Request {
                stream_id: msg.stream_id,
                streaming: true,
                service_id: key.service_id,
                name: key.name_lossy().into_owned(),
                verbosity: Verbosity(verbosity),
            };
            let part = case_name.split("_part").nth(1).map_or(0, |part| part.parse().unwrap());
            let all = parts(&dictionary, &request, case["fragment_buffer_size"].as_u64().unwrap() as usize);
            assert_eq!(hex(&all[part]), expected, "{name}");
            assert_eq!(all.len() > part + 1, case["more_parts"].as_bool().unwrap(), "{name}");
        }
        checked += 1;
    }
    assert!(checked > 0);
    println!("{checked} dictionary cases");
}

#[test]
fn every_verbosity_decodes() {
    let dictionary = small();
    for verbosity in [Verbosity::INFO, Verbosity::MINIMAL, Verbosity::NORMAL, Verbosity::VERBOSE] {
        let mut buf = vec![0; 60_000];
        let mut again = Dictionary::new();
        let mut w = Writer::new(&mut buf);
        dictionary.field_parts(verbosity).write(&mut w).unwrap();
        again.apply_fields("p", w.written()).unwrap();
        let mut w = Writer::new(&mut buf);
        dictionary.enum_parts(verbosity).write(&mut w).unwrap();
        again.apply_enums("p", w.written()).unwrap();
        assert_eq!(again.properties(), dictionary.properties());
        if verbosity == Verbosity::INFO {
            assert!(again.is_empty());
            continue;
        }
        assert_eq!(again.len(), dictionary.len());
        assert_eq!(again.enum_display(6, 90), Some(&b"B"[..]));
        let long_name = if verbosity == Verbosity::MINIMAL { "" } else { "VG BID" };
        assert_eq!(again.field(2).unwrap().long_name(), long_name);
        assert_eq!(again.field(2).unwrap().ripples_to(), Some(11));
    }
}

#[test]
fn look_ups() {
    let dictionary = small();
    let bid = dictionary.field(2).unwrap();
    assert_eq!(
        (bid.acronym(), bid.data_type(), bid.marketfeed_type()),
        ("VG_BID", DataType::REAL, MarketfeedType::PRICE)
    );
    assert_eq!((bid.length(), bid.rwf_length(), bid.ripples_to()), (17, 7, Some(11)));
    assert_eq!(dictionary.field_named("VG_NEG").unwrap().fid(), -1);
    assert_eq!(dictionary.field_named("VG_NONE").map(FieldDef::fid), None);
    assert!(
        dictionary.field(0).is_none() && dictionary.field(i16::MIN).is_none() && dictionary.field(i16::MAX).is_none()
    );
    let kind = dictionary.field(6).unwrap();
    assert_eq!(kind.enum_length(), 4);
    let table = dictionary.enum_table(kind).unwrap();
    assert_eq!(table.value(90).unwrap().display(), [0x42]);
    assert_eq!(table.value_of(b"YCA"), Some(2));
    assert_eq!((table.value(6), table.value_of(b"?")), (None, None));
    assert_eq!(dictionary.enum_display(7, 1), Some(&b"ONE"[..]));
    assert_eq!(dictionary.enum_display(2, 1), None);
    assert_eq!(dictionary.fields().map(FieldDef::fid).collect::<Vec<_>>(), [-1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(dictionary.origin(bid), "small");
}

#[test]
fn builtin_dictionary_agrees_with_the_full_one() {
    let (builtin, full) = (Dictionary::builtin(), full());
    assert!(builtin.len() > 400 && builtin.enum_tables().len() > 20);
    for ours in builtin.fields() {
        let theirs = full.field(ours.fid()).unwrap_or_else(|| panic!("{} is made up", ours.acronym()));
        assert_eq!((ours.acronym(), ours.data_type()), (theirs.acronym(), theirs.data_type()));
        assert_eq!(
            (ours.marketfeed_type(), ours.length()),
            (theirs.marketfeed_type(), theirs.length()),
            "{}",
            ours.acronym()
        );
        assert_eq!(
            (ours.rwf_length(), ours.enum_length()),
            (theirs.rwf_length(), theirs.enum_length()),
            "{}",
            ours.acronym()
        );
        assert!(ours.ripples_to().is_none() || ours.ripples_to() == theirs.ripples_to());
        for value in builtin.enum_table(ours).map_or(&[][..], |table| table.values()) {
            assert_eq!(full.enum_display(ours.fid(), value.value()), Some(value.display()), "{}", ours.acronym());
        }
    }
    let mut merged = Dictionary::builtin();
    assert!(merged.merge(&full).is_empty());
    assert_eq!(merged.len(), full.len());
    for field in full.fields() {
        for value in full.enum_table(field).map_or(&[][..], |table| table.values()) {
            assert_eq!(merged.enum_display(field.fid(), value.value()), Some(value.display()), "{}", field.acronym());
        }
    }
}

#[test]
fn merging_keeps_the_first_and_names_both_sides_of_a_conflict() {
    let dictionary = |origin: &str, fields: &str, enums: &str| {
        let mut dictionary = Dictionary::new();
        dictionary.load_fields(origin, fields.as_bytes()).unwrap();
        if !enums.is_empty() {
            dictionary.load_enums(origin, enums.as_bytes()).unwrap();
        }
        dictionary
    };
    let mut merged = dictionary(
        "a.fields",
        "BID \"BID\" 22 NULL PRICE 17 REAL64 7\nKIND \"KIND\" 40 NULL ENUMERATED 3 (3) ENUM 1",
        "",
    );
    let other = dictionary(
        "service B",
        "!tag Version 7\nBID \"Bid\" 22 NULL ALPHANUMERIC 4 RMTES_STRING 4\nASK \"ASK\" 25 NULL PRICE 17 REAL64 7\n\
         KIND \"KIND\" 40 NULL ENUMERATED 3 (3) ENUM 1\nSIDE \"SIDE\" 41 NULL ENUMERATED 3 (3) ENUM 1",
        "KIND 40\nSIDE 41\n 1 \"ONE\" first",
    );
    let conflicts = merged.merge(&other);
    assert_eq!(
        conflicts.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["field 22 is BID REAL in a.fields and BID RMTES_STRING in service B; the first is used"]
    );
    assert_eq!(merged.field(22).unwrap().data_type(), DataType::REAL);
    let ask = merged.field_named("ASK").unwrap();
    assert_eq!((ask.fid(), merged.origin(ask)), (25, "service B"));
    assert_eq!(merged.enum_display(40, 1), Some(&b"ONE"[..]));
    assert_eq!(merged.enum_display(41, 1), Some(&b"ONE"[..]));
    assert_eq!(merged.properties().field_version, "7");
    assert!(merged.merge(&other).len() == 1 && merged.len() == 4, "merging again changes nothing");
}

#[test]
fn a_bad_line_is_named_with_file_and_reason_and_changes_nothing() {
    let field = r#"BID "BID" 22 NULL PRICE 17 REAL64 7"#;
    let cases: &[(&str, &str)] = &[
        ("BID", "long name is missing"),
        (r#"BID "BID 22 NULL PRICE 17 REAL64 7"#, "long name is missing"),
        (r#"BID "BID" x NULL PRICE 17 REAL64 7"#, r#"field id "x" is not a number in range"#),
        (r#"BID "BID" 40000 NULL PRICE 17 REAL64 7"#, r#"field id "40000" is not a number in range"#),
        (r#"BID "BID" 0 NULL PRICE 17 REAL64 7"#, "field id 0 is reserved"),
        (r#"BID "BID" 22"#, "ripples to is missing"),
        (r#"BID "BID" 22 NULL MONEY 17 REAL64 7"#, r#"type "MONEY" is not known"#),
        (r#"BID "BID" 22 NULL PRICE -1 REAL64 7"#, r#"length "-1" is not a number in range"#),
        (r#"BID "BID" 22 NULL ENUMERATED 3 ( 4 ENUM 1"#, "closing parenthesis is missing"),
        (r#"BID "BID" 22 NULL ENUMERATED 3 ( 0 ) ENUM 1"#, r#"enum length "0" is not a number in range"#),
        (r#"BID "BID" 22 NULL PRICE 17 DECIMAL 7"#, r#"type "DECIMAL" is not known"#),
        (r#"BID "BID" 22 NULL PRICE 17 REAL64"#, "RWF length is missing"),
        (
            "BID2 \"BID\" 21 NULL PRICE 17 REAL64 7\nBID3 \"BID\" 21 NULL PRICE 17 REAL64 7",
            "field 21 is already defined",
        ),
        ("!tag Type 2", "dictionary type 2 where 1 was expected (1 fields, 2 enumerations)"),
        ("!tag Type x", r#"tag value "x" is not a number in range"#),
        ("!tag DictionaryId 3\n!tag DictionaryId 4", "dictionary id 4 does not match 3, loaded before"),
        (field, "field 22 is already defined"),
    ];
    let mut dictionary = Dictionary::new();
    dictionary.load_fields("good", field.as_bytes()).unwrap();
    for (line, reason) in cases {
        let text = format!("! comment\n\n!tag Version 9\n{line}\n");
        let error = dictionary.load_fields("bad", text.as_bytes()).unwrap_err();
        let number = 3 + line.lines().count();
        assert_eq!(error.to_string(), format!("bad:{number}: {reason}"));
        assert_eq!((dictionary.len(), dictionary.properties().field_version.as_str()), (1, ""));
    }
    let cases: &[(&str, &str)] = &[
        ("1 \"ONE\"", "enumeration values must follow the fields that use them"),
        ("KIND", "field id is missing"),
        ("KIND 40", "enum value is missing"),
        ("KIND 40\n1 ONE", "display is missing"),
        ("KIND 40\n1 #4#", "a display between # needs an even number of hexadecimal digits"),
        ("KIND 40\n1 #4g#", "a display between # needs an even number of hexadecimal digits"),
        ("KIND 40\n70000 \"A\"", r#"enum value "70000" is not a number in range"#),
        ("KIND 40\n\"A\" 1", "acronym or enum value is missing"),
        ("!tag Type 1", "dictionary type 1 where 2 was expected (1 fields, 2 enumerations)"),
    ];
    for (line, reason) in cases {
        let error = dictionary.load_enums("bad", line.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), format!("bad:{}: {reason}", line.lines().count()));
    }
    // These are seen when the table is complete and name its first line.
    let cases: &[(&str, &str)] = &[
        ("KIND 40\n1 \"A\"\n1 \"B\"", "value 1 stands twice in the table"),
        ("KIND 40\nKIND 40\n1 \"A\"", "field 40 already has an enumeration"),
        ("NOT_BID 22\n1 \"A\"", "field 22 is BID in the field dictionary but NOT_BID in the enumerations"),
    ];
    for (line, reason) in cases {
        assert_eq!(dictionary.load_enums("bad", line.as_bytes()).unwrap_err().to_string(), format!("bad:1: {reason}"));
    }
    assert!(dictionary.enum_tables().is_empty());
}

#[test]
fn enumerations_may_be_loaded_before_their_fields() {
    let mut dictionary = Dictionary::new();
    dictionary.load_enums("e", b"KIND 40\nSIDE 41\n 2 #20DE# up\n 0 \" \" none").unwrap();
    assert_eq!(dictionary.enum_display(40, 2), None);
    dictionary.load_fields("f", b"KIND \"KIND\" 40 NULL ENUMERATED 3 ( 3 ) ENUM 1").unwrap();
    assert_eq!(dictionary.enum_display(40, 2), Some(&[0x20, 0xDE][..]));
    assert_eq!(dictionary.enum_tables()[0].values().iter().map(EnumValue::value).collect::<Vec<_>>(), [0, 2]);
    let error = dictionary.load_fields("f", b"!\nEDGE \"SIDE\" 41 NULL ENUMERATED 3 ( 3 ) ENUM 1").unwrap_err();
    assert_eq!(
        (error.place, error.to_string().as_str()),
        (Place::Line(2), "f:2: field 41 is EDGE in the field dictionary but SIDE in the enumerations",)
    );
}

#[test]
fn hostile_dictionary_messages_are_refused() {
    let dictionary = small();
    let mut buf = vec![0; 60_000];
    let mut w = Writer::new(&mut buf);
    dictionary.field_parts(Verbosity::NORMAL).write(&mut w).unwrap();
    let fields = w.written().to_vec();
    let mut w = Writer::new(&mut buf);
    dictionary.enum_parts(Verbosity::NORMAL).write(&mut w).unwrap();
    let enums = w.written().to_vec();
    for len in 1..fields.len() {
        assert!(Dictionary::new().apply_fields("x", &fields[..len]).is_err(), "cut at {len}");
    }
    for len in 1..enums.len() {
        assert!(Dictionary::new().apply_enums("x", &enums[..len]).is_err(), "cut at {len}");
    }
    // Any single byte changed: an error or another dictionary, never a panic.
    for (payload, fields) in [(&fields, true), (&enums, false)] {
        for at in 0..payload.len() {
            for bit in 0..8 {
                let mut bytes = payload.clone();
                bytes[at] ^= 1 << bit;
                let mut dictionary = Dictionary::new();
                let _: Result<(), DictionaryError> = if fields {
                    dictionary.apply_fields("x", &bytes).map(|_| ())
                } else {
                    dictionary.apply_enums("x", &bytes).map(|_| ())
                };
            }
        }
    }
    let wrong = Dictionary::new().apply_enums("service A", &fields).unwrap_err();
    assert_eq!(wrong.fault, Fault::WrongType { expected: 2, found: 1 });
    assert_eq!(wrong.to_string(), "service A: dictionary type 1 where 2 was expected (1 fields, 2 enumerations)");
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_file_readers_panic(text in ".{0,300}") {
        let mut dictionary = Dictionary::new();
        let _ = dictionary.load_fields("x", text.as_bytes());
        let _ = dictionary.load_enums("x", text.as_bytes());
    }

    #[test]
    fn no_bytes_make_the_message_readers_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let mut dictionary = Dictionary::new();
        let _ = dictionary.load_fields("x", &bytes);
        let _ = dictionary.load_enums("x", &bytes);
        let _ = dictionary.apply_fields("x", &bytes);
        let _ = dictionary.apply_enums("x", &bytes);
    }
}
