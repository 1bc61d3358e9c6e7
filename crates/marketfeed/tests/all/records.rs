//! Whole messages against the reading of another decoder.

use marketfeed::{
    Converter, FS, Options, ParseError, RS, Record, RecordEncoder, RecordType, RtlRule, RwfHeader, Scan, US, scan,
};
use proptest::prelude::*;
use rwf::msg::{Msg, MsgClass};
use rwf::wire::Writer;
use rwf::{DataType, FieldList, Primitive, SetScope};
use serde_json::Value;

use crate::{DICTIONARY, cases, is_default_folder, unhex};

fn text(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|bytes| bytes.iter().map(|b| char::from(*b)).collect())
}

fn number(value: &Value) -> Option<u16> {
    value.as_u64().map(|number| u16::try_from(number).unwrap())
}

#[test]
fn headers_and_fields_are_those_of_the_witness() {
    let cases = cases("marketfeed/records.jsonl");
    assert!(!is_default_folder() || cases.len() == 21, "{} cases", cases.len());
    for case in &cases {
        let (name, bytes) = (&case["name"], unhex(&case["hex"]));
        let record = Record::parse(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(u64::from(record.record_type.0), case["type"], "{name}");
        assert_eq!(text(record.tag).unwrap_or_default(), case["tag"].as_str().unwrap_or_default(), "{name}");
        assert_eq!(text(Some(record.item)).unwrap(), case["ric"].as_str().unwrap(), "{name}");
        assert_eq!(record.rtl, number(&case["rtl"]), "{name}");
        assert_eq!(record.field_list, number(&case["field_list"]), "{name}");
        let status = text(record.status).and_then(|status| status.parse::<u64>().ok());
        assert_eq!(status, case["sub_status"].as_u64(), "{name}");
        let code = text(record.code).and_then(|code| code.parse::<u64>().ok());
        assert_eq!(code, case["status"].as_u64(), "{name}");
        assert_eq!(text(record.text).as_deref(), case["status_text"].as_str(), "{name}");
        let fields: Vec<(i64, String)> =
            record.fields().map(Result::unwrap).map(|f| (f.fid.into(), text(Some(f.value)).unwrap())).collect();
        let expected: Vec<(i64, String)> = case["fields"]
            .as_array()
            .map_or(&[][..], Vec::as_slice)
            .iter()
            .map(|field| (field["fid"].as_i64().unwrap(), field["raw"].as_str().unwrap().to_owned()))
            .collect();
        assert_eq!(fields, expected, "{name}");
    }
}

#[test]
fn records_are_written_as_they_were_read() {
    for case in cases("marketfeed/records.jsonl") {
        let (name, bytes) = (&case["name"], unhex(&case["hex"]));
        let record = Record::parse(&bytes).unwrap();
        let mut buffer = [0; 2000];
        let mut w = Writer::new(&mut buffer);
        let mut encoder = RecordEncoder::begin(&mut w, &record).unwrap();
        for field in record.fields() {
            let field = field.unwrap();
            encoder.field(field.fid, field.value).unwrap();
        }
        encoder.finish().unwrap();
        if record.tag.is_some() {
            assert_eq!(w.written(), bytes, "{name}");
        } else {
            // A missing tag is written empty.
            assert_eq!(
                Record { tag: None, body_at: record.body_at, ..Record::parse(w.written()).unwrap() },
                record,
                "{name}"
            );
        }
    }
}

/// The typed reading of a field in RWF, as the vectors write it.
fn reading(data_type: DataType, data: &[u8]) -> (&'static str, String) {
    match Primitive::decode(data_type, data).unwrap() {
        _ if data.is_empty() => ("blank", "true".to_owned()),
        Primitive::Blank => ("blank", "true".to_owned()),
        Primitive::Real(real) => {
            let exponent = real.hint.exponent().map(|e| match e {
                0 => "EXPONENT0".to_owned(),
                e if e < 0 => format!("EXPONENT_{}", -e),
                e => format!("EXPONENT{e}"),
            });
            let hint = exponent.unwrap_or_else(|| format!("FRACTION_{}", real.hint.divisor().unwrap()));
            ("real", format!("{} {hint}", real.mantissa))
        }
        Primitive::Enum(number) => ("enum", number.to_string()),
        Primitive::UInt(number) => ("uint", number.to_string()),
        Primitive::Date(date) => ("date", format!("{:02}.{:02}.{:04}", date.day, date.month, date.year)),
        Primitive::Time(time) => ("time", format!("{:02}:{:02}:{:02}", time.hour, time.minute, time.second)),
        other => ("text", other.to_string()),
    }
}

/// What the witness read, in the form of [`reading`]; `None`: it has no typed reading.
fn witnessed(field: &Value) -> Option<(&'static str, String)> {
    if let Some(real) = field.get("real") {
        return Some(("real", format!("{} {}", real["m"].as_str().unwrap(), real["hint"].as_str().unwrap())));
    }
    if field.get("blank").is_some() {
        return Some(("blank", "true".to_owned()));
    }
    if let Some(date) = field.get("date").and_then(Value::as_str) {
        assert_eq!(&date[3..6], "SEP", "all dates of the vectors are of September");
        return Some(("date", format!("{}.09.{}", &date[..2], &date[7..])));
    }
    if let Some(time) = field.get("time").and_then(Value::as_str) {
        let seconds = if time.len() == 5 { ":00" } else { "" };
        return Some(("time", format!("{time}{seconds}")));
    }
    let numbers = [("enum", field.get("enum")), ("uint", field.get("uint"))];
    numbers.into_iter().find_map(|(kind, value)| Some((kind, value?.as_str()?.to_owned())))
}

#[test]
fn values_become_what_the_witness_read() {
    let mut typed = 0;
    for case in cases("marketfeed/records.jsonl") {
        let (name, bytes) = (&case["name"], unhex(&case["hex"]));
        let record = Record::parse(&bytes).unwrap();
        let mut converter = Converter::new(Options { rtl: RtlRule::SequenceNumber, ..Options::default() });
        let mut buffer = [0; 2000];
        let mut w = Writer::new(&mut buffer);
        let header = RwfHeader { stream_id: 5, service_id: Some(1), dictionary_id: 1, is_solicited: true };
        converter.to_rwf(&DICTIONARY, &record, &header, &mut w).unwrap_or_else(|e| panic!("{name}: {e}"));
        let msg = Msg::decode(w.written()).unwrap();
        let body = match &msg {
            Msg::Refresh(refresh) => {
                assert_eq!(refresh.seq_num, record.rtl.map(u32::from), "{name}");
                refresh.body
            }
            Msg::Update(update) => update.body,
            other => {
                assert_eq!(other.class(), MsgClass::STATUS, "{name}");
                continue;
            }
        };
        let list = FieldList::decode(body, &SetScope::NONE).unwrap();
        assert_eq!(list.info.map(|info| info.num), record.field_list.filter(|_| record.record_type.0 != 318), "{name}");
        for (entry, field) in list.entries().zip(case["fields"].as_array().unwrap()) {
            let entry = entry.unwrap();
            assert_eq!(i64::from(entry.fid), field["fid"], "{name}: {}", converter.losses());
            let Some(expected) = witnessed(field) else { continue };
            let data_type = DICTIONARY.field(entry.fid).unwrap().data_type();
            assert_eq!(reading(data_type, entry.data), expected, "{name} field {}", entry.fid);
            typed += 1;
        }
        // The witness has no reading for one field of the vectors that has none for us either.
        let dropped = case["fields"].as_array().unwrap().len() - list.entries().count();
        assert_eq!(converter.losses().dropped(), dropped as u64, "{name}: {}", converter.losses());
    }
    assert_eq!(typed, 40);
}

#[test]
fn streams_are_cut_into_messages() {
    let cases: Vec<Vec<u8>> = cases("marketfeed/records.jsonl").iter().map(|case| unhex(&case["hex"])).collect();
    let mut stream = b"rest of a message\x1c\r\n".to_vec();
    for bytes in &cases {
        stream.extend_from_slice(bytes);
        stream.extend_from_slice(b"\r\n");
    }
    let mut found = Vec::new();
    let mut at = 0;
    while let Scan::Message { start, end } = scan(&stream[at..]) {
        found.push(stream[at + start..at + end].to_vec());
        at += end;
    }
    assert_eq!(found, cases);
    assert_eq!(scan(&stream[at..]), Scan::Nothing);
    assert_eq!(scan(b"\x1c316"), Scan::Partial { start: 0 });
    assert_eq!(scan(b"x\x1c"), Scan::Partial { start: 1 });
    assert_eq!(scan(b"\x1c\x1c316\x1dA\x1c"), Scan::Message { start: 1, end: 8 });
}

#[test]
fn faults_are_told_with_their_place() {
    let error = |bytes: &[u8]| match Record::parse(bytes) {
        Ok(record) => record.fields().find_map(Result::err).expect("a fault in the fields"),
        Err(error) => error,
    };
    assert_eq!(error(b""), ParseError::NotEnclosed(0));
    assert_eq!(error(b"\x1c316\x1dA"), ParseError::NotEnclosed(5));
    assert_eq!(error(b"\x1c\x1dA\x1c"), ParseError::NoType(1));
    assert_eq!(error(b"\x1c316\x1fXX\x1c"), ParseError::NoItem(7));
    assert_eq!(error(b"\x1c316\x1dA\x1fx\x1c"), ParseError::BadNumber(7));
    assert_eq!(error(b"\x1c316\x1dA\x1e22\x1c"), ParseError::BadField(6));
    assert_eq!(error(b"\x1c316\x1dA\x1e22\x1f1\x1f2\x1c"), ParseError::BadField(6));
    assert_eq!(error(b"\x1c316\x1dA\x1e99999\x1f1\x1c"), ParseError::BadField(6));
    assert_eq!(error(&[b"\x1c316\x1dA", &[FS][..], b"317\x1dB\x1c"].concat()), ParseError::EarlyEnd(6));
}

/// The fields of a body by nothing but splitting, and where the first fault is.
fn fields_by_splitting(body: &[u8], body_at: usize) -> Vec<Result<(i16, Vec<u8>), ParseError>> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < body.len() {
        let end = (at + 1..body.len()).find(|end| body[*end] == RS).unwrap_or(body.len());
        let field = &body[at + 1..end];
        let middle = field.iter().position(|byte| *byte == US);
        let id = middle.and_then(|middle| std::str::from_utf8(&field[..middle]).ok());
        let is_id = |id: &&str| {
            let digits = id.strip_prefix('-').unwrap_or(id);
            (1..=5).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        let fid = id.filter(is_id).and_then(|id| id.parse().ok());
        let value =
            middle.map(|middle| &field[middle + 1..]).filter(|value| !value.iter().any(|byte| byte & 0xFC == 0x1C));
        match (fid, value) {
            (Some(fid), Some(value)) if body[at] == RS => all.push(Ok((fid, value.to_vec()))),
            _ => {
                all.push(Err(ParseError::BadField(body_at + at)));
                return all;
            }
        }
        at = end;
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn fields_are_what_splitting_finds(body in prop::collection::vec(nearly_fields(), 0..40)) {
        let body = body.concat();
        // Records whose fields do not begin with RS come from nowhere but a program.
        let record = Record { body: &body, body_at: 7, ..Record::new(RecordType::UPDATE, b"I") };
        let fields: Vec<_> =
            record.fields().map(|field| field.map(|field| (field.fid, field.value.to_vec()))).collect();
        prop_assert_eq!(fields, fields_by_splitting(&body, 7));
    }
}

fn nearly_fields() -> impl Strategy<Value = Vec<u8>> {
    let whole =
        (-33_000_i32..33_000, "[0-9.:A ]{0,20}").prop_map(|(id, value)| format!("\x1e{id}\x1f{value}").into_bytes());
    let small = (0_i32..2_000, "[0-9.]{0,9}").prop_map(|(id, value)| format!("\x1e{id}\x1f{value}").into_bytes());
    let odd =
        prop::sample::select(vec![&b"\x1e"[..], b"\x1f", b"\x1d", b"-", b"007", b"\xe9", b""]).prop_map(<[u8]>::to_vec);
    prop_oneof![8 => small, 4 => whole, 1 => odd]
}
