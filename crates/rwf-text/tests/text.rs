//! Readable text: what it looks like, and that there is one for any bytes.

// Tests print what they covered.
#![allow(clippy::disallowed_macros)]

use proptest::prelude::*;
use rwf::container::{FieldListEncoder, MapAction, MapEncoder, MapHead};
use rwf::dictionary::Dictionary;
use rwf::msg::{
    AckMsg, Attrib, Conflation, Domain, GenericMsg, MsgKey, NakCode, PostFlags, PostMsg, PostUserInfo, Priority,
    RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, UpdateFlags, UpdateMsg, UpdateType,
};
use rwf::rdm::directory::{self, Action, Info, Part, Service, ServiceState};
use rwf::wire::{LenForm, Writer};
use rwf::{DataType, Date, Primitive, Qos, Rate, Real, RealHint, State, Time, Timeliness};
use rwf_text as text;
use serde_json::Value;
use std::path::PathBuf;

fn written(write: impl FnOnce(&mut Writer<'_>) -> Result<(), rwf::EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 4096];
    let mut w = Writer::new(&mut buf);
    write(&mut w).unwrap();
    w.written().to_vec()
}

fn fields(values: &[(i16, Primitive<'_>)]) -> Vec<u8> {
    written(|w| {
        let mut list = FieldListEncoder::begin(w)?;
        for (fid, value) in values {
            list.field(*fid, value)?;
        }
        list.finish()
    })
}

fn two_places(mantissa: i64) -> Primitive<'static> {
    Primitive::Real(Real::new(mantissa, RealHint::EXPONENT_2))
}

fn assert_text(bytes: &[u8], expected: &str) {
    let found = text::message(bytes, Some(&Dictionary::builtin())).to_string();
    assert!(found == expected, "found:\n{found}\nexpected:\n{expected}");
}

#[test]
fn market_price_refresh() {
    let body = fields(&[
        (3, Primitive::Rmtes(b"SOME \"NAME\"")),
        (22, two_places(12_345)),
        (25, Primitive::Blank),
        (4, Primitive::Enum(2)),
        (15, Primitive::Enum(9999)),
        (16, Primitive::Date(Date::new(2024, 2, 29))),
        (18, Primitive::Time(Time::new(9, 30, 1))),
        (14, Primitive::Enum(1)),
        (9999, Primitive::Buffer(&[1, 2, 0x41])),
        (-5, Primitive::Buffer(&[7; 20])),
    ]);
    let msg = RefreshMsg {
        container: DataType::FIELD_LIST,
        flags: RefreshFlags::SOLICITED | RefreshFlags::REFRESH_COMPLETE,
        seq_num: Some(17),
        state: State { text: b"All is well", ..State::OPEN_OK },
        group_id: &[0, 1],
        perm_data: Some(&[3, 8]),
        qos: Some(Qos::REALTIME_TICK),
        key: Some(MsgKey { name_type: Some(1), ..MsgKey::item(1, b"IBM.N") }),
        body: &body,
        ..RefreshMsg::new(Domain::MARKET_PRICE, 5)
    };
    assert_text(
        &written(|w| msg.encode(w)),
        r#"REFRESH MARKET_PRICE, stream 5, 128 bytes
  flags       SOLICITED|REFRESH_COMPLETE
  state       OPEN/OK/NONE "All is well"
  sequence    17
  group       00 01
  qos         REALTIME/TICK_BY_TICK
  permission  03 08
  key         service 1, name "IBM.N", name type 1
  FIELD_LIST
         3 DSPLY_NAME  RMTES_STRING "SOME \"NAME\""
        22 BID         REAL         123.45
        25 ASK         REAL         blank
         4 RDN_EXCHID  ENUM         2 "NYS"
        15 CURRENCY    ENUM         9999
        16 TRADE_DATE  DATE         2024-02-29
        18 TRDTIM_1    TIME         09:30:01
        14 PRCTCK_1    ENUM         1 "⇧"
      9999 ?           01 02 41  |..A|
        -5 ?           20 bytes
      0000  07 07 07 07 07 07 07 07  07 07 07 07 07 07 07 07  |................|
      0010  07 07 07 07                                       |....|
"#,
    );
}

#[test]
fn update_with_everything() {
    let body = fields(&[(22, two_places(1))]);
    let msg = UpdateMsg {
        container: DataType::FIELD_LIST,
        flags: UpdateFlags::DO_NOT_CONFLATE,
        update_type: UpdateType::QUOTE,
        seq_num: Some(3),
        conflation: Some(Conflation { count: 2, time: 500 }),
        ext_header: Some(&[9]),
        post_user_info: Some(PostUserInfo { addr: 0x0A00_0001, id: 42 }),
        body: &body,
        ..UpdateMsg::new(Domain(200), -7)
    };
    assert_text(
        &written(|w| msg.encode(w)),
        r"UPDATE 200, stream -7, 37 bytes
  flags       DO_NOT_CONFLATE
  update type QUOTE
  sequence    3
  conflation  2 updates in 500 ms
  post user   10.0.0.1, id 42
  ext header  09
  FIELD_LIST
        22 BID         REAL         0.01
",
    );
}

#[test]
fn requests_and_acknowledgements() {
    let msg = RequestMsg {
        flags: RequestFlags::STREAMING | RequestFlags::MSG_KEY_IN_UPDATES,
        priority: Some(Priority { class: 2, count: 3 }),
        qos: Some(Qos::REALTIME_TICK),
        worst_qos: Some(Qos { time_info: 900, dynamic: true, ..Qos::new(Timeliness::DELAYED, Rate::JIT_CONFLATED) }),
        key: MsgKey { identifier: Some(-1), ..MsgKey::EMPTY },
        ..RequestMsg::new(Domain::MARKET_BY_PRICE, 9)
    };
    assert_text(
        &written(|w| msg.encode(w)),
        r"REQUEST MARKET_BY_PRICE, stream 9, 24 bytes
  flags       STREAMING|MSG_KEY_IN_UPDATES
  priority    class 2, count 3
  qos         REALTIME/TICK_BY_TICK
  worst qos   DELAYED 900 s/JIT_CONFLATED/dynamic
  key         identifier -1
",
    );
    assert_text(
        &written(|w| RequestMsg::new(Domain::LOGIN, 1).encode(w)),
        "REQUEST LOGIN, stream 1, 13 bytes\n  key         empty\n",
    );
    let msg = AckMsg {
        ack_id: 12,
        nak_code: Some(NakCode::NO_RESPONSE),
        text: Some(b"too late"),
        seq_num: Some(4),
        ..AckMsg::new(Domain::MARKET_PRICE, 5)
    };
    assert_text(
        &written(|w| msg.encode(w)),
        r#"ACK MARKET_PRICE, stream 5, 28 bytes
  ack id      12
  nak code    NO_RESPONSE
  text        "too late"
  sequence    4
"#,
    );
}

#[test]
fn a_message_in_a_post() {
    let body = fields(&[(30, Primitive::Real(Real::new(-3, RealHint::FRACTION_8)))]);
    let inner = UpdateMsg { container: DataType::FIELD_LIST, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 0) };
    let inner = written(|w| inner.encode(w));
    let msg = PostMsg {
        container: DataType::MSG,
        flags: PostFlags::ACK | PostFlags::POST_COMPLETE,
        post_user_info: PostUserInfo { addr: 0x7F00_0001, id: 1 },
        post_id: Some(77),
        key: Some(MsgKey::item(3, b"A")),
        post_user_rights: Some(5),
        body: &inner,
        ..PostMsg::new(Domain::MARKET_PRICE, 1)
    };
    assert_text(
        &written(|w| msg.encode(w)),
        r#"POST MARKET_PRICE, stream 1, 49 bytes
  flags       POST_COMPLETE|ACK
  post user   127.0.0.1, id 1
  post id     77
  rights      CREATE|MODIFY_PERM
  key         service 3, name "A"
  UPDATE MARKET_PRICE, stream 0, 19 bytes
    update type UNSPECIFIED
    FIELD_LIST
          30 BIDSIZE     REAL         -3/8
"#,
    );
}

#[test]
fn directory_refresh() {
    let info = Info {
        name: "DIRECT_FEED".to_owned(),
        capabilities: vec![Domain::DICTIONARY, Domain::MARKET_PRICE],
        qos: vec![Qos::REALTIME_TICK],
        ..Info::default()
    };
    let mut service = Service::new(1, Action::Add);
    service.info = Some(Part::Set(info));
    service.state = Some(Part::Update(ServiceState::new(true)));
    service.load = Some(Part::Clear);
    let request = directory::Request { stream_id: 2, streaming: true, service_id: None, filter: 0x0B };
    let refresh = directory::Refresh::answer(&request, vec![service, Service::delete(2)]);
    assert_text(
        &written(|w| refresh.encode(w)),
        r#"REFRESH SOURCE, stream 2, 153 bytes
  flags       SOLICITED|REFRESH_COMPLETE|CLEAR_CACHE
  state       OPEN/OK/NONE
  group       00 00
  key         filter 0xb INFO|STATE|LOAD
  MAP of FILTER_LIST by UINT, 2 entries
    ADD 1: FILTER_LIST, 3 entries
      SET 1 INFO: ELEMENT_LIST
        Name         ASCII_STRING "DIRECT_FEED"
        Capabilities ARRAY        UINT [5, 6]
        QoS          ARRAY        QOS [REALTIME/TICK_BY_TICK]
      CLEAR 4 LOAD
      UPDATE 2 STATE: ELEMENT_LIST
        ServiceState      UINT         1
        AcceptingRequests UINT         1
    DELETE 2
"#,
    );
}

#[test]
fn map_with_definitions_summary_and_odd_keys() {
    let body = written(|w| {
        let head = MapHead {
            count_hint: Some(9),
            key_field_id: Some(3426),
            per_entry_perm: true,
            ..MapHead::new(DataType::BUFFER, DataType::FIELD_LIST)
        };
        let mut map = MapEncoder::begin(w, head)?;
        map.set_defs(LenForm::Shortest, |defs| {
            defs.field_set(0, &[(3427, DataType::REAL_4RB), (-9, DataType::UINT_2)])
        })?;
        map.summary(LenForm::Shortest, |w| w.bytes(&fields(&[(53, Primitive::Enum(2))])))?;
        // Set data of set 0: 3427 in two mantissa bytes, then -9.
        map.entry_with(MapAction::ADD, &Primitive::Buffer(b"ORDER1"), Some(&[1, 2]), LenForm::Shortest, |w| {
            w.bytes(&[2, 0x4C, 0, 200, 0, 7])
        })?;
        map.entry(MapAction::UPDATE, &Primitive::Buffer(&[0, 1]), |w| w.bytes(&[6, 5, 1]))?;
        map.delete(&Primitive::Buffer(b"ORDER3"))?;
        map.finish()
    });
    let msg = UpdateMsg { container: DataType::MAP, body: &body, ..UpdateMsg::new(Domain::MARKET_BY_ORDER, 5) };
    assert_text(
        &written(|w| msg.encode(w)),
        r#"UPDATE MARKET_BY_ORDER, stream 5, 72 bytes
  update type UNSPECIFIED
  MAP of FIELD_LIST by BUFFER, key field 3426, 3 entries of about 9
    set 0: 3427 ORDER_PRC REAL_4RB, -9 ? UINT_2
    summary: FIELD_LIST
          53 TRD_UNITS   ENUM         2 "2DP "
    ADD "ORDER1", permission 01 02: FIELD_LIST
        3427 ORDER_PRC   REAL_4RB     2.00
          -9 ?           UINT_2       7
    UPDATE 00 01: FIELD_LIST, set 5
      !! set data without a definition: 01  |.|
    DELETE "ORDER3"
"#,
    );
}

#[test]
fn what_cannot_be_decoded_is_marked_and_shown() {
    // The second field says 9 bytes and has one; the real in the first has ten.
    let body = [8, 0, 2, 0, 22, 11, 14, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 25, 9, 1];
    let msg = UpdateMsg { container: DataType::FIELD_LIST, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) };
    assert_text(
        &written(|w| msg.encode(w)),
        r"UPDATE MARKET_PRICE, stream 5, 32 bytes
  update type UNSPECIFIED
  FIELD_LIST
        22 BID         REAL         !! invalid mantissa of a real at byte 1
      0000  0e 01 02 03 04 05 06 07  08 09 0a                 |...........|
    !! truncated field entry at byte 17
",
    );
    assert_text(
        &[0, 40, 4, 6, 0],
        "MSG, 5 bytes, !! truncated message header at byte 2\n  0000  00 28 04 06 00                                    |.(...|\n",
    );
    let key = MsgKey { attrib: Some(Attrib::new(DataType::MAP, &[1])), ..MsgKey::EMPTY };
    let msg = GenericMsg {
        key: Some(key),
        container: DataType::XML,
        body: b"<a>\n <b/>\n</a>",
        ..GenericMsg::new(Domain(1), 5)
    };
    assert_text(
        &written(|w| msg.encode(w)),
        r"GENERIC LOGIN, stream 5, 30 bytes
  key
    MAP !! truncated map header at byte 0
      0000  01                                                |.|
  XML, 14 bytes
    <a>
     <b/>
    </a>
",
    );
}

fn vectors() -> Vec<(String, DataType, Vec<u8>)> {
    let folder = std::env::var_os("QUOTEWAY_VECTORS")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/vectors")), PathBuf::from);
    let mut cases = Vec::new();
    for folder in [folder.join("rwf"), folder.join("rdm")] {
        for file in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "jsonl") || path.ends_with("rmtes.jsonl") {
                continue;
            }
            for line in std::fs::read_to_string(&path).unwrap().lines() {
                let case: Value = serde_json::from_str(line).unwrap();
                let hex = case["hex"].as_str().unwrap();
                let bytes =
                    hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap());
                let root = DataType::from_name(case["root"].as_str().unwrap()).unwrap();
                cases.push((case["name"].as_str().unwrap().to_owned(), root, bytes.collect()));
            }
        }
    }
    cases
}

#[test]
fn every_vector_has_a_text_whole_or_cut() {
    // Without a dictionary, as the vectors use field ids with types of their own.
    let cases = vectors();
    for (name, data_type, bytes) in &cases {
        let whole = text::container(*data_type, bytes, None).to_string();
        assert!(whole.ends_with('\n') && !whole.contains("\n\n"), "{name}: {whole}");
        let faults = ["!! truncated", "!! invalid", "nested too deep"];
        assert!(!faults.iter().any(|fault| whole.contains(fault)), "{name}: {whole}");
        for len in (0..bytes.len()).step_by(1 + bytes.len() / 100) {
            let _ = text::container(*data_type, &bytes[..len], None).to_string();
        }
    }
    assert!(cases.len() > 1000 || std::env::var_os("QUOTEWAY_VECTORS").is_some());
    println!("{} vectors have a text", cases.len());
}

proptest! {
    #[test]
    fn any_bytes_have_a_text(data_type in any::<u8>(), bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let dictionary = Dictionary::builtin();
        let found = text::container(DataType(data_type), &bytes, Some(&dictionary)).to_string();
        prop_assert!(found.ends_with('\n'));
    }

    #[test]
    fn a_changed_byte_never_stops_the_text(at in any::<prop::sample::Index>(), value in any::<u8>()) {
        let mut bytes = written(|w| {
            let mut service = Service::new(1, Action::Add);
            service.info = Some(Part::Set(Info { name: "X".into(), capabilities: vec![Domain::LOGIN], ..Info::default() }));
            directory::Update { stream_id: 2, services: vec![service], ..directory::Update::default() }.encode(w)
        });
        let at = at.index(bytes.len());
        bytes[at] = value;
        prop_assert!(text::message(&bytes, None).to_string().ends_with('\n'));
    }
}

#[test]
fn nesting_without_end_is_cut_off() {
    // Element lists, each the only element of the one around it.
    let mut bytes = vec![8, 0, 0];
    for _ in 0..2000 {
        let mut outer = vec![8, 0, 1, 1, b'a', DataType::ELEMENT_LIST.0, 0xFE];
        outer.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
        outer.extend_from_slice(&bytes);
        bytes = outer;
    }
    let found = text::container(DataType::ELEMENT_LIST, &bytes, None).to_string();
    assert!(found.contains("nested too deep"));
}
