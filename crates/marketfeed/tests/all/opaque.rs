//! Records as OPAQUE payloads of RWF messages, both ways.

use marketfeed::{Converter, Options, Record, RecordType, RtlRule};
use proptest::prelude::*;
use rwf::msg::{Domain, Msg, MsgKey, RefreshFlags, RefreshMsg, UpdateMsg, UpdateType};
use rwf::wire::Writer;
use rwf::{DataState, DataType, EncodeError, FieldList, FieldListEncoder, Real, RealHint, SetScope, StreamState};

use crate::{DICTIONARY, cases, is_default_folder, unhex};

fn bytes(encode: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buffer = [0; 4_000];
    let mut w = Writer::new(&mut buffer);
    encode(&mut w).unwrap();
    w.written().to_vec()
}

fn opaque(stream_id: i32, body: &[u8]) -> Vec<u8> {
    let update = UpdateMsg { container: DataType::OPAQUE, body, ..UpdateMsg::new(Domain::MARKET_PRICE, stream_id) };
    bytes(|w| update.encode(w))
}

fn prices() -> Vec<u8> {
    bytes(|w| {
        let mut list = FieldListEncoder::begin(w)?;
        list.real(22, Real::new(15_520, RealHint::EXPONENT_4))?;
        list.real(25, Real::new(15_530, RealHint::EXPONENT_4))?;
        list.finish()
    })
}

#[test]
fn every_record_of_the_vectors_is_a_message() {
    let (mut converted, mut out) = (0, Vec::new());
    let mut converter = Converter::new(Options::default());
    for case in cases("marketfeed/records.jsonl") {
        let record = unhex(&case["hex"]);
        let before = out.len();
        let kind = Record::parse(&record).map(|record| record.record_type);
        match converter.read_opaque(&DICTIONARY, &opaque(7, &record), &mut out) {
            Ok(is_record) => assert!(is_record, "{case}"),
            Err(error) => {
                // Commands and broadcasts have no form in RWF.
                assert!(matches!(kind, Err(_) | Ok(RecordType(2 | 4))), "{case}: {error}");
                assert_eq!(out.len(), before, "nothing is left of what failed");
                continue;
            }
        }
        converted += 1;
        let msg = Msg::decode(&out[before..]).unwrap();
        assert_eq!(msg.stream_id(), 7);
        match (&msg, kind.unwrap()) {
            (Msg::Status(status), RecordType::STATUS) => {
                assert_eq!(status.state.unwrap().stream, StreamState::OPEN);
            }
            (Msg::Status(status), RecordType::DROP) => {
                assert_eq!(status.state.unwrap().stream, StreamState::CLOSED);
            }
            (Msg::Refresh(_), RecordType::IMAGE | RecordType::SNAPSHOT) | (Msg::Update(_), _) => {}
            other => panic!("{case}: {other:?}"),
        }
    }
    assert!(!is_default_folder() || converted >= 15, "{converted}");
}

#[test]
fn a_message_keeps_its_header_both_ways() {
    let body = prices();
    let key = Some(MsgKey::item(3, b"GBP="));
    let refresh = RefreshMsg {
        container: DataType::FIELD_LIST,
        flags: RefreshFlags::SOLICITED | RefreshFlags::REFRESH_COMPLETE,
        seq_num: Some(70_000),
        group_id: &[0, 7],
        perm_data: Some(b"\x03\x01\x01\x65\x62\xc0"),
        key,
        body: &body,
        ..RefreshMsg::new(Domain::MARKET_PRICE, 5)
    };
    let update = UpdateMsg {
        container: DataType::FIELD_LIST,
        update_type: UpdateType::QUOTE,
        seq_num: Some(70_001),
        body: &body,
        ..UpdateMsg::new(Domain::MARKET_PRICE, 5)
    };
    for (msg, start) in [(bytes(|w| refresh.encode(w)), &b"\x1c340"[..]), (bytes(|w| update.encode(w)), b"\x1c316")] {
        let mut converter = Converter::new(Options { rtl: RtlRule::SequenceNumber, ..Options::default() });
        let (mut wrapped, mut back, mut rtl) = (Vec::new(), Vec::new(), 0);
        assert_eq!(converter.write_opaque(&DICTIONARY, &msg, b"GBP=", &mut rtl, &mut wrapped), Ok(true));
        let decoded = Msg::decode(&wrapped).unwrap();
        assert_eq!(decoded.container(), DataType::OPAQUE);
        let record = Record::parse(decoded.body()).unwrap();
        assert!(decoded.body().starts_with(start));
        assert_eq!((record.item, record.rtl.map(u32::from)), (&b"GBP="[..], Some(rtl.into())));
        assert!([70_000_u32 as u16, 70_001_u32 as u16].contains(&rtl), "the sequence number, 16 bits of it");
        assert_eq!(record.fields().count(), 2);
        assert_eq!(converter.read_opaque(&DICTIONARY, &wrapped, &mut back), Ok(true));
        let (was, is) = (Msg::decode(&msg).unwrap(), Msg::decode(&back).unwrap());
        assert_eq!((was.body(), was.container()), (is.body(), is.container()));
        match (was, is) {
            (Msg::Refresh(was), Msg::Refresh(is)) => {
                assert_eq!(
                    (was.flags, was.key, was.group_id, was.perm_data),
                    (is.flags, is.key, is.group_id, is.perm_data)
                );
                assert_eq!(is.state.data, DataState::OK);
            }
            (Msg::Update(was), Msg::Update(is)) => assert_eq!(was.update_type, is.update_type),
            other => panic!("{other:?}"),
        }
        assert_eq!(converter.losses().all(), []);
    }
}

#[test]
fn what_is_no_record_is_left_alone() {
    let mut converter = Converter::new(Options::default());
    let mut out = b"before".to_vec();
    let other_domain = UpdateMsg {
        container: DataType::OPAQUE,
        body: b"\x1c316\x1f\x1dA\x1c",
        ..UpdateMsg::new(Domain::MARKET_BY_PRICE, 5)
    };
    for msg in [opaque(5, b""), opaque(5, b"binary"), bytes(|w| other_domain.encode(w))] {
        assert_eq!(converter.read_opaque(&DICTIONARY, &msg, &mut out), Ok(false));
    }
    // Torn: an error, and nothing of it.
    assert!(converter.read_opaque(&DICTIONARY, &opaque(5, b"\x1c316"), &mut out).is_err());
    assert!(converter.read_opaque(&DICTIONARY, b"\0", &mut out).is_err());
    assert_eq!(converter.write_opaque(&DICTIONARY, &opaque(5, b"x"), b"A", &mut 0, &mut out), Ok(false));
    assert_eq!(out, b"before");
}

#[test]
fn losses_are_counted_by_field_and_reason() {
    let record = b"\x1c316\x1f\x1dGBP=\x1f1\x1e22\x1fnonsense\x1e25\x1f1.5\x1c";
    let mut converter = Converter::new(Options::default());
    let mut out = Vec::new();
    for times in 1..3 {
        assert_eq!(converter.read_opaque(&DICTIONARY, &opaque(5, record), &mut out), Ok(true));
        assert_eq!(converter.losses().all(), [(22, marketfeed::Loss::Value, times)]);
        assert_eq!(converter.losses().kinds(), 1);
    }
    let Msg::Update(update) = Msg::decode(&out[out.len() / 2..]).unwrap() else { panic!() };
    let fields: Vec<i16> =
        FieldList::decode(update.body, &SetScope::NONE).unwrap().entries().map(|field| field.unwrap().fid).collect();
    assert_eq!(fields, [25]);
}

proptest! {
    /// Whatever the fields hold: there is room, and what is written is a record.
    #[test]
    fn any_field_list_of_the_dictionary_has_room(
        fields in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..12)), 0..60),
        expands_enums: bool,
    ) {
        let fids: Vec<i16> = DICTIONARY.fields().map(rwf::dictionary::FieldDef::fid).collect();
        let mut buffer = vec![0; 2_000];
        let mut w = Writer::new(&mut buffer);
        let mut list = FieldListEncoder::begin(&mut w).unwrap();
        for (at, value) in &fields {
            list.raw(*at.get(&fids), value).unwrap();
        }
        list.finish().unwrap();
        let container = DataType::FIELD_LIST;
        let update = UpdateMsg { container, body: w.written(), ..UpdateMsg::new(Domain::MARKET_PRICE, 5) };
        let msg = bytes(|w| update.encode(w));
        let mut converter = Converter::new(Options { expands_enums, ..Options::default() });
        let mut out = Vec::new();
        prop_assert_eq!(converter.write_opaque(&DICTIONARY, &msg, b"ITEM", &mut 0, &mut out), Ok(true));
        let written = Msg::decode(&out).unwrap();
        let record = Record::parse(written.body()).unwrap();
        prop_assert!(record.fields().all(|field| field.is_ok()));
        prop_assert_eq!(record.fields().count() as u64 + converter.losses().dropped(), fields.len() as u64);
    }
}

#[test]
fn the_template_number_of_an_image_is_kept_where_that_is_wanted() {
    let (image, update) =
        (b"\x1c340\x1f\x1dGBP=\x1f80\x1f7\x1e22\x1f1.5\x1c", b"\x1c316\x1f\x1dGBP=\x1f1\x1e22\x1f1.5\x1c");
    for (keeps_templates, record, expected) in
        [(true, &image[..], Some((1, 80))), (false, &image[..], None), (true, &update[..], None)]
    {
        let mut converter = Converter::new(Options { keeps_templates, ..Options::default() });
        let mut out = Vec::new();
        assert_eq!(converter.read_opaque(&DICTIONARY, &opaque(5, record), &mut out), Ok(true));
        let decoded = Msg::decode(&out).unwrap();
        let list = FieldList::decode(decoded.body(), &SetScope::NONE).unwrap();
        assert_eq!(list.info.map(|info| (info.dict_id, info.num)), expected);
    }
}
