//! Data files as they are written by people, by the SDK and by recorders.

use super::*;
use rwf::{FieldList, Map, SetScope, State, StreamState};
use std::path::PathBuf;

fn parse(text: &str) -> Result<DataFile, DataError> {
    DataFile::parse(text, &Dictionary::builtin())
}

fn update_body(message: &[u8]) -> Vec<(i16, Vec<u8>)> {
    let body = rwf::peek::body(message).unwrap();
    let list = FieldList::decode(body, &SetScope::default()).unwrap();
    list.entries().map(|e| e.unwrap()).map(|e| (e.fid, e.data.to_vec())).collect()
}

const MSG_DATA: &str = r#"<!-- a comment with <tags> in it -->
<?xml version="1.0"?>
<msgFormat>
<marketPriceMsgList updateMsgCount="1">
  <refreshMsg><dataBody><fieldList entryCount="3">
    <fieldEntry fieldId="22" dataType="RSSL_DT_REAL" data="401.50"/>
    <fieldEntry fieldId="16" dataType="RSSL_DT_DATE" data="11/15/2005"/>
    <fieldEntry fieldId="114" dataType="RSSL_DT_REAL" data=""/>
  </fieldList></dataBody></refreshMsg>
  <updateMsg><dataBody><fieldList>
    <fieldEntry fieldId="1025" dataType="RSSL_DT_TIME" data=" 14:40:32:000"/>
    <fieldEntry fieldId="293" dataType="RSSL_DT_RMTES_STRING" data="A&amp;B"/>
    <fieldEntry fieldId="115" dataType="RSSL_DT_ENUM" data="2"/>
  </fieldList></dataBody></updateMsg>
  <postMsg><dataBody><updateMsg/></dataBody></postMsg>
</marketPriceMsgList>
<marketByOrderMsgList>
  <refreshMsg><dataBody><map>
    <summaryData><fieldList><fieldEntry fieldId="15" dataType="RSSL_DT_ENUM" data="840"/></fieldList></summaryData>
    <mapEntry action="RSSL_MPEA_ADD_ENTRY" key="100"><fieldList setId="0">
      <fieldEntry fieldId="3427" dataType="RSSL_DT_REAL" data="10.5"/></fieldList></mapEntry>
    <mapEntry action="RSSL_MPEA_DELETE_ENTRY" key="101"/>
  </map></dataBody></refreshMsg>
</marketByOrderMsgList>
</msgFormat>"#;

#[test]
fn the_performance_tools_form_is_read() {
    let file = parse(MSG_DATA).unwrap();
    let nameless = |domain| DataItem { name: None, domain };
    assert_eq!(file.items, [nameless(Domain::MARKET_PRICE), nameless(Domain::MARKET_BY_ORDER)]);
    assert_eq!((file.events.len(), file.is_timed()), (3, false));
    assert_eq!(
        update_body(&file.events[0].message),
        [(22, vec![0x0C, 0x00, 0x9C, 0xD6]), (16, vec![15, 11, 0x07, 0xD5]), (114, vec![])]
    );
    assert_eq!(
        update_body(&file.events[1].message),
        [(1025, vec![14, 40, 32]), (293, b"A&B".to_vec()), (115, vec![2])]
    );
    let Ok(Msg::Refresh(book)) = Msg::decode(&file.events[2].message) else { panic!("no refresh") };
    let map = Map::decode(book.body, &SetScope::default()).unwrap();
    let entries: Vec<_> = map.entries().map(|e| e.unwrap()).map(|e| (e.action, e.key.to_vec())).collect();
    assert_eq!(entries, [(rwf::MapAction::ADD, b"100".to_vec()), (rwf::MapAction::DELETE, b"101".to_vec())]);
    assert!(map.summary().is_some());
}

#[test]
fn the_file_of_the_sdk_is_read_whole() {
    let folder = std::env::var_os("QUOTEWAY_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let path = folder.join("rtsdk/MsgData.xml");
    if !path.is_file() {
        return println!("no {}: set QUOTEWAY_DATA to test with it", path.display());
    }
    let file = DataFile::open(&path, &Dictionary::builtin()).unwrap();
    assert_eq!((file.items.len(), file.events.len()), (1, 3));
    let fields: Vec<usize> = file.events.iter().map(|e| update_body(&e.message).len()).collect();
    assert_eq!(fields, [70, 13, 13]);
}

#[test]
fn a_trace_says_which_item_a_stream_is_of() {
    let text = r#"<!-- Incoming Message -->
<refreshMsg domainType="MARKET_PRICE" streamId="5" containerType="FIELD_LIST" flags="0xFF" groupId="0">
    <key flags="0x07" serviceId="1" name="IBM.N" nameType="1"/>
    <dataBody><fieldList flags="0x08"><fieldEntry fieldId="22" dataType="REAL" data="1.25"/></fieldList></dataBody>
</refreshMsg>
<UPDATE domainType="RSSL_DMT_MARKET_PRICE" streamId="5" updateType="1 (RDM_UPD_EVENT_TYPE_QUOTE)">
    <dataBody><fieldList><fieldEntry fieldId="22" data="0C 7E"/></fieldList></dataBody>
</UPDATE>
<statusMsg domainType="MARKET_PRICE" streamId="5" streamState="OPEN" dataState="SUSPECT" text="gone"><dataBody/></statusMsg>
<refreshMsg domainType="LOGIN" streamId="1"><dataBody/></refreshMsg>
<requestMsg domainType="MARKET_PRICE" streamId="6"><key name="X"/></requestMsg>"#;
    let file = parse(text).unwrap();
    assert_eq!(file.items, [DataItem { name: Some("IBM.N".to_owned()), domain: Domain::MARKET_PRICE }]);
    assert_eq!(file.events.iter().map(|e| e.item).collect::<Vec<_>>(), [0, 0, 0]);
    assert_eq!(update_body(&file.events[1].message), [(22, vec![0x0C, 0x7E])]);
    let Ok(Msg::Status(status)) = Msg::decode(&file.events[2].message) else { panic!("no status") };
    let expected = State::new(StreamState::OPEN, rwf::DataState::SUSPECT, rwf::StateCode::NONE, "gone");
    assert_eq!(status.state, Some(expected));
}

#[test]
fn lines_of_json_are_read_with_their_times() {
    let text = r#"
# what a recorder writes
{"at":0,"message":{"ID":5,"Type":"Refresh","Key":{"Name":"IBM.N"},"Fields":{"BID":1}}}
{"at":0.25,"message":{"ID":5,"Type":"Update","Fields":{"BID":2}}}
{"at":0.5,"item":"TRI.N","message":{"ID":9,"Type":"Update","Fields":{"BID":3}}}
{"at":0.5,"message":{"ID":1,"Type":"Close"}}"#;
    let file = parse(text).unwrap();
    let names: Vec<_> = file.items.iter().map(|i| i.name.as_deref()).collect();
    assert_eq!(names, [Some("IBM.N"), Some("TRI.N")]);
    let found: Vec<_> = file.events.iter().map(|e| (e.at.unwrap(), e.item)).collect();
    assert_eq!((found, file.skipped), (vec![(0, 0), (250_000_000, 0), (500_000_000, 1)], 1));
    assert!(file.is_timed());
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let field = |attributes: &str| {
        format!(
            "<marketPriceMsgList>\n<updateMsg><dataBody><fieldList>\n<fieldEntry {attributes}/></fieldList></dataBody></updateMsg></marketPriceMsgList>"
        )
    };
    for (text, line, part) in [
        (field("fieldId=\"x\" data=\"\""), 3, "\"x\" is no field id"),
        (field("data=\"\""), 3, "no fieldId"),
        (field("fieldId=\"1\" dataType=\"RSSL_DT_REAL\" data=\"abc\""), 3, "\"abc\" is no RSSL_DT_REAL"),
        (field("fieldId=\"1\" dataType=\"RSSL_DT_TIME\" data=\"25:00\""), 3, "RSSL_DT_TIME"),
        (field("fieldId=\"1\" dataType=\"NO\" data=\"1\""), 3, "no type of a field"),
        (field("fieldId=\"1\" data=\"0g\""), 3, "hexadecimal"),
        (field("fieldId"), 3, "NAME=\"VALUE\""),
        ("<a>\n<b>\n</a>".to_owned(), 3, "</a>"),
        ("<a>\n<b>".to_owned(), 2, "<b> is not closed"),
        ("\n<updateMsg/>".to_owned(), 2, "no domainType"),
        ("<a".to_owned(), 1, "tag"),
        ("<!-- a".to_owned(), 1, "comment"),
        ("<a/>".to_owned(), 0, "holds no refresh"),
        ("{\"at\":0}".to_owned(), 1, "missing"),
        ("<a>".repeat(100), 1, "nested"),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.line == line && error.what.contains(part), "{text}: {error:?}");
    }
}

#[test]
fn a_file_with_a_wrong_character_is_an_error_or_another_file() {
    let json = r#"{"at":0.25,"item":"A","message":{"ID":5,"Type":"Update","Fields":{"BID":2}}}"#;
    for text in [MSG_DATA, json] {
        for (at, _) in text.char_indices().step_by(5) {
            for wrong in ['<', '>', '"', '/', '{', '9', '\u{0}', '\u{e9}'] {
                let mut chars: Vec<char> = text.chars().collect();
                chars[text[..at].chars().count()] = wrong;
                let _ = parse(&chars.into_iter().collect::<String>());
            }
        }
    }
}

#[test]
fn a_file_cut_off_anywhere_is_an_error_and_no_panic() {
    for (at, _) in MSG_DATA.char_indices() {
        let _ = parse(&MSG_DATA[..at]);
        let _ = parse(&MSG_DATA[at..]);
    }
}

#[test]
fn raw_marketfeed_is_read_record_by_record() {
    let bytes = b"\n\x1c340\x1fXX\x1dGBP=\x1f77\x1f1\x1e22\x1f1.5520\x1e25\x1fnone\x1c\x1c316\x1c\x1c316\x1fXX\x1dGBP=\x1f2\x1e22\x1f1.5530\x1c\x1c317\x1d";
    assert!(records::are_there(bytes) && !records::are_there(b"<MsgData/>") && !records::are_there(b""));
    let file = DataFile::of_records(bytes, &Dictionary::builtin()).unwrap();
    let item = DataItem { name: Some("GBP=".to_owned()), domain: Domain::MARKET_PRICE };
    assert_eq!((&file.items[..], file.events.len(), file.skipped), (&[item][..], 2, 2));
    assert_eq!(file.losses.all(), [(25, marketfeed::Loss::Value, 1)]);
    assert!(!file.is_timed());
    let Ok(Msg::Update(update)) = Msg::decode(&file.events[1].message) else { panic!("an update") };
    assert_eq!(update.container, rwf::DataType::FIELD_LIST);
    let nothing = DataFile::of_records(b"\x1c316\x1c", &Dictionary::builtin()).unwrap_err();
    assert!(nothing.to_string().contains("no refresh"), "{nothing}");
}
