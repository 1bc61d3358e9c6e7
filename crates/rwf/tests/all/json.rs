//! JSON against the texts of the SDK's converter, both ways.

// Tests print what they covered, and take the time.
#![allow(clippy::disallowed_macros, clippy::disallowed_methods)]

use proptest::prelude::*;
use rwf::container::FieldListEncoder;
use rwf::dictionary::Dictionary;
use rwf::json::{Converter, Incoming, JsonError, LeftOut, ServiceNames, Settings};
use rwf::msg::{Domain, RefreshFlags, RefreshMsg, UpdateMsg};
use rwf::wire::Writer;
use rwf::{DataType, Primitive, Real, RealHint};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::LazyLock;

fn shared(variable: &str, folder: &str) -> PathBuf {
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(folder);
    std::env::var_os(variable).map_or_else(default, PathBuf::from)
}

fn read(path: &PathBuf) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

static DICTIONARY: LazyLock<Dictionary> = LazyLock::new(|| {
    let folder = shared("QUOTEWAY_DICTIONARY", "dictionary");
    let mut dictionary = Dictionary::new();
    for name in ["RDMFieldDictionary", "enumtype.def"] {
        let bytes = read(&folder.join(name));
        match name {
            "enumtype.def" => dictionary.load_enums(name, &bytes).unwrap(),
            _ => dictionary.load_fields(name, &bytes).unwrap(),
        }
    }
    dictionary
});

/// The services of the settings `expanded`.
struct Services;

impl ServiceNames for Services {
    fn name(&self, id: u16) -> Option<&str> {
        match id {
            7 => Some("ELEKTRON_DD"),
            260 => Some("DIRECT_FEED"),
            _ => None,
        }
    }

    fn id(&self, name: &str) -> Option<u16> {
        match name {
            "ELEKTRON_DD" => Some(7),
            "DIRECT_FEED" => Some(260),
            _ => None,
        }
    }
}

/// The converter of `converter_settings.json`.
fn converter(settings: &str) -> Converter<'static> {
    let converter = Converter::new(&DICTIONARY);
    let expanded = settings == "expanded";
    let settings = Settings {
        default_service_id: Some(1),
        expand_enums: expanded,
        enum_displays: expanded,
        unknown_members: settings == "strict",
        unknown_fields: settings == "strict",
        explicit: false,
    };
    let converter = converter.with_settings(settings);
    if expanded { converter.with_services(&Services) } else { converter }
}

fn cases(file: &str) -> Vec<Value> {
    let text = String::from_utf8(read(&shared("QUOTEWAY_VECTORS", "vectors").join("json").join(file))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// How many cases there are is known of the vectors beside the project only; others may be given.
fn is_default_folder() -> bool {
    std::env::var_os("QUOTEWAY_VECTORS").is_none()
}

fn unhex(hex: &str) -> Vec<u8> {
    hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn text(converter: Converter<'_>, msg: &[u8]) -> String {
    let mut out = String::new();
    converter.message(msg, &mut out).unwrap();
    out
}

/// Settings under which nothing is left out and nothing is added.
const EXPLICIT: Settings = Settings {
    default_service_id: None,
    expand_enums: false,
    enum_displays: false,
    unknown_members: false,
    unknown_fields: false,
    explicit: true,
};

fn numbers_as_double(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::from(number.as_f64().unwrap()),
        Value::Array(items) => items.into_iter().map(numbers_as_double).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, numbers_as_double(value))).collect(),
        other => other,
    }
}

/// All that a message says, with numbers by their value rather than their digits.
fn content(msg: &[u8]) -> Value {
    let text = text(Converter::new(&DICTIONARY).with_settings(EXPLICIT), msg);
    numbers_as_double(serde_json::from_str(&text).unwrap())
}

fn only_message(results: Vec<Result<Incoming, JsonError>>) -> Result<Vec<u8>, String> {
    let [result] = <[_; 1]>::try_from(results).expect("one result");
    match result {
        Ok(Incoming::Message(msg)) => Ok(msg),
        Ok(other) => Err(format!("{other:?}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Where a text in JSON that begins behind its quote ends.
fn end_of_text(rest: &str) -> usize {
    let mut escaped = false;
    rest.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })
    .expect("a text ends")
}

/// Our text with what the SDK gets wrong as the SDK writes it, recognised by what is wrong with the SDK's.
fn with_the_faults_of_the_sdk(text: &str, sdk: &str) -> String {
    let mut text = text.replace("\"Inf\"", "Inf").replace("\"-Inf\"", "-Inf").replace("\"NaN\"", "NaN");
    for code in 0..128 {
        text = text.replace(&format!("\"Code\":{code},"), "\"Code\":null,");
    }
    // The text of a state, byte by byte as signed characters.
    if sdk.contains("\\uFF") {
        const TEXT: &str = "\"Text\":\"";
        let mut garbled = String::new();
        while let Some(at) = text.find(TEXT).map(|at| at + TEXT.len()) {
            let end = at + end_of_text(&text[at..]);
            garbled.push_str(&text[..at]);
            for byte in text[at..end].bytes() {
                if byte.is_ascii() { garbled.push(byte.into()) } else { write!(garbled, "\\uFF{byte:02X}").unwrap() }
            }
            text = text.split_off(end);
        }
        text = garbled + &text;
    }
    // RMTES that is not quite legal: no value at all.
    for at in
        (0..sdk.len()).filter(|at| [&b":}"[..], b":,"].iter().any(|nothing| sdk.as_bytes()[*at..].starts_with(nothing)))
    {
        if text.get(at + 1..).is_some_and(|rest| rest.starts_with('"')) {
            let end = at + 2 + end_of_text(&text[at + 2..]);
            text.replace_range(at + 1..=end, "");
        }
    }
    text
}

#[test]
fn faults_of_the_sdk_are_known_by_what_is_wrong() {
    let ours = r#"{"State":{"Code":99,"Text":"naïve \" ok"},"Fields":{"A":"x\"y","B":"z"}}"#;
    let sdk = r#"{"State":{"Code":null,"Text":"na\uFFC3\uFFAFve \" ok"},"Fields":{"A":,"B":"z"}}"#;
    assert_eq!(with_the_faults_of_the_sdk(ours, sdk), sdk);
    // Differences that are not the SDK's fault stay.
    assert_ne!(with_the_faults_of_the_sdk(ours, r#"{"State":{"Code":null}}"#), r#"{"State":{"Code":null}}"#);
}

#[test]
fn messages_have_the_texts_of_the_sdk() {
    let (mut same, mut better, mut refused) = (0, 0, 0);
    for case in cases("rwf_to_json.jsonl") {
        let name = case["name"].as_str().unwrap();
        let msg = unhex(case["rwf_hex"].as_str().unwrap());
        let found = text(converter(case["settings"].as_str().unwrap()), &msg);
        serde_json::from_str::<Value>(&found).unwrap_or_else(|error| panic!("{name}: {error} in {found}"));
        match case["json"].as_str() {
            Some(expected) if expected == found => same += 1,
            Some(expected) => {
                assert_eq!(with_the_faults_of_the_sdk(&found, expected), expected, "{name}");
                better += 1;
            }
            None => refused += 1,
        }
    }
    println!("{same} texts the same, {better} where the SDK's is no JSON or garbled, {refused} that the SDK refuses");
    assert!(!is_default_folder() || (same, better, refused) == (669, 18, 8), "{same} {better} {refused}");
}

#[test]
fn texts_of_the_sdk_lead_back() {
    /// The SDK's text is garbled, see [`with_the_faults_of_the_sdk`]: bytes with a sign. The SDK garbles it back.
    const GARBLED: &str = "\\uFF";
    let (mut same, mut better) = (0, 0);
    for case in cases("rwf_to_json.jsonl") {
        let name = case["name"].as_str().unwrap();
        let (Some(json), Some(back)) = (case["json"].as_str(), case["back_to_rwf_hex"].as_str()) else {
            continue;
        };
        let converter = converter(case["settings"].as_str().unwrap());
        let found = only_message(converter.messages(json)).unwrap_or_else(|error| panic!("{name}: {error}"));
        if content(&found) == content(&unhex(back)) {
            same += 1;
        } else if !json.contains(GARBLED) {
            // The SDK loses something: then it must be the message that it came from.
            let found = only_message(Converter::new(&DICTIONARY).messages(json)).unwrap();
            let original = unhex(case["rwf_hex"].as_str().unwrap());
            assert_eq!(text(converter, &found), text(converter, &original), "{name}");
            better += 1;
        }
    }
    println!("{same} messages as the SDK's, {better} where the SDK loses something on the way back");
    assert!(!is_default_folder() || same > 630, "{same}");
}

/// What must be true of our message (`None`: an error) where the SDK's converter is known to be wrong.
type Instead = fn(input: &Value, ours: Option<&Value>) -> bool;

/// What is wrong with the SDK's converter in a text, and what we make of that; `None` if nothing is known to be.
fn fault_of_the_sdk(input: &Value, sdk: &Value) -> Option<Instead> {
    let key = &input["Key"];
    let fields = || input["Fields"].as_object().into_iter().flatten().map(|(_, value)| value);
    // Digits that a double does not hold, and numbers beyond the hints.
    let is_far = |number: f64| number != 0.0 && !(1e-13..1e14).contains(&number.abs());
    let has_many_digits = |value: &Value| value.as_f64().is_some_and(|n| is_far(n) || n.fract() != 0.0 && n > 1e8);
    if sdk.get("exception").is_some() {
        return Some(|_, ours| ours.is_none());
    }
    // A key that is a number.
    if !key.is_null() && !key.is_object() {
        return Some(|_, ours| ours.is_none());
    }
    // The view's type, without which no provider takes it for one. A field that the dictionary does not have is left out of the view,
    // as servers built on ETA C have it.
    if input["View"].is_array() {
        return Some(|input, ours| {
            ours.is_some_and(|ours| ours["ViewType"] == "FidList" && ours["View"] == view_of(input))
        });
    }
    if input["Qos"]["Dynamic"] == true {
        return Some(|_, ours| ours.is_some_and(|ours| ours["Qos"]["Dynamic"] == true));
    }
    // A name type whose name is a dummy: the SDK writes a key that nobody can read.
    if key["NameType"] == "AuthnToken" && key["Name"] == "" {
        return Some(|input, ours| ours.is_some_and(|ours| ours["Key"]["Elements"] == input["Key"]["Elements"]));
    }
    if input["Type"] == "Refresh" && input["DoNotCache"] == true {
        return Some(|_, ours| ours.is_some_and(|ours| ours["DoNotCache"] == true));
    }
    if input["Type"] == "Update" && input["Discardable"] == true {
        return Some(|_, ours| ours.is_some_and(|ours| ours["Discardable"] == true));
    }
    // All digits of reals; RMTES that says it is UTF-8.
    let is_beyond_ascii = |value: &Value| value.as_str().is_some_and(|text| !text.is_ascii());
    fields()
        .any(|value| has_many_digits(value) || is_beyond_ascii(value))
        .then_some(|input, ours| ours.is_some_and(|ours| ours["Fields"] == numbers_as_double(input["Fields"].clone())))
}

/// The fields of a view that the dictionary has.
fn view_of(input: &Value) -> Value {
    let fid = |field: &Value| match field {
        Value::String(name) => Some(f64::from(DICTIONARY.field_named(name)?.fid())),
        other => other.as_f64(),
    };
    input["View"].as_array().unwrap().iter().filter_map(fid).map(Value::from).collect()
}

/// What a message of an application is in the SDK's and in our eyes: the same?
fn as_the_sdk(name: &str, json: &str, found: &Result<Incoming, JsonError>, expected: &Value) -> bool {
    match found {
        Ok(Incoming::Message(msg)) => {
            expected["rwf_hex"].as_str().is_some_and(|hex| content(msg) == content(&unhex(hex)))
        }
        Ok(Incoming::Ping) => expected["json_class"] == "Ping",
        Ok(Incoming::Pong) => expected["json_class"] == "Pong",
        Ok(Incoming::Error(_)) => expected["json_class"] == "Error",
        Err(error) => {
            let text = error.message(-1, json);
            let message = serde_json::from_str::<Value>(&text).unwrap();
            assert_eq!((&message["Type"], &message["Debug"]["Message"]), (&"Error".into(), &json.into()), "{name}");
            assert!(matches!(converter("default").messages(&text)[..], [Ok(Incoming::Error(_))]), "{text}");
            expected.get("error_code").is_some()
        }
    }
}

#[test]
fn texts_of_applications() {
    let (mut same, mut better) = (0, 0);
    for case in cases("json_to_rwf.jsonl") {
        let name = case["name"].as_str().unwrap();
        let json = case["json"].as_str().unwrap();
        let found = converter(case["settings"].as_str().unwrap()).messages(json);
        let expected = case["result"].as_array().unwrap();
        assert_eq!(found.len(), expected.len(), "{name}: {found:?}");
        if found.iter().zip(expected).all(|(found, expected)| as_the_sdk(name, json, found, expected)) {
            same += 1;
            continue;
        }
        let input: Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{name}: {error}"));
        let [sdk] = &expected[..] else { panic!("{name}: {found:?} is not {expected:?}") };
        let instead = fault_of_the_sdk(&input, sdk).unwrap_or_else(|| panic!("{name}: {found:?} is not {sdk}"));
        let ours = only_message(found).ok().map(|msg| content(&msg));
        assert!(instead(&input, ours.as_ref()), "{name}: {ours:?} for {json}");
        better += 1;
    }
    println!("{same} texts as the SDK, {better} better");
    assert!(!is_default_folder() || (same, better) == (130, 18), "{same} {better}");
}

/// Every message of all golden vectors.
fn all_messages() -> Vec<(String, Vec<u8>)> {
    let mut messages = Vec::new();
    for file in
        ["rwf/messages.jsonl", "rwf/containers.jsonl", "rwf/sets.jsonl", "rwf/decode_only.jsonl", "rdm/rdm.jsonl"]
    {
        let text = String::from_utf8(read(&shared("QUOTEWAY_VECTORS", "vectors").join(file))).unwrap();
        for case in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            if case["root"] == "MSG" {
                messages.push((case["name"].as_str().unwrap().to_owned(), unhex(case["hex"].as_str().unwrap())));
            }
        }
    }
    for case in cases("rwf_to_json.jsonl") {
        messages.push((case["name"].as_str().unwrap().to_owned(), unhex(case["rwf_hex"].as_str().unwrap())));
    }
    messages
}

#[test]
fn our_texts_lead_back_to_the_same_message() {
    let converter = Converter::new(&DICTIONARY).with_settings(EXPLICIT);
    let messages = all_messages();
    for (name, msg) in &messages {
        let json = text(converter, msg);
        let found = only_message(converter.messages(&json)).unwrap_or_else(|error| panic!("{name}: {error} in {json}"));
        assert_eq!(text(converter, &found), json, "{name}");
    }
    println!("{} messages", messages.len());
}

#[test]
fn nested_growth_is_not_exponential() {
    // Each level needs a larger buffer than its text lets one expect, because of the long items of the arrays within.
    let array = r#""a":{"Type":"Array","Data":{"Type":"AsciiString","Length":65000,"Data":["",""]}}"#;
    let mut json = format!(r#"{{"ID":1,"Type":"Update","Elements":{{{array}}}}}"#);
    for _ in 0..28 {
        json = format!(r#"{{"ID":1,"Type":"Generic","Key":{{"Message":{json}}}}}"#);
    }
    let started = std::time::Instant::now();
    let result = Converter::new(&DICTIONARY).messages(&json);
    assert_eq!(result.len(), 1);
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}

#[test]
fn hostile_bytes_and_texts_do_no_harm() {
    let converter = Converter::new(&DICTIONARY).with_settings(EXPLICIT);
    let mut out = String::new();
    for (name, msg) in all_messages().iter().step_by(7).filter(|(_, msg)| msg.len() < 2000) {
        for at in 0..msg.len() {
            for value in [0, 0x7F, 0x80, 0xFE, 0xFF, msg[at] ^ 1] {
                let mut msg = msg.clone();
                msg[at] = value;
                out.clear();
                if converter.message(&msg, &mut out).is_ok() {
                    serde_json::from_str::<Value>(&out).unwrap_or_else(|error| panic!("{name}: {error} in {out}"));
                } else {
                    assert_eq!(out, "");
                }
            }
            out.clear();
            let _ = converter.message(&msg[..at], &mut out);
        }
    }
    for case in cases("json_to_rwf.jsonl") {
        let json = case["json"].as_str().unwrap();
        for (at, _) in json.char_indices() {
            let _ = converter.messages(&json[..at]);
            for middle in ["\"", "{", "[", "-1", "1e99", "null", "\u{e9}", "\\ud800"] {
                let _ = converter.messages(&format!("{}{middle}{}", &json[..at], &json[at..]));
            }
        }
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~é€]{0,12}".prop_map(Value::from),
        proptest::sample::select(vec!["Open", "Ok", "Int", "Set", "Update", "2024-02-29", "10:20:30", "AAAA", "Inf"])
            .prop_map(Value::from),
    ];
    let name = proptest::sample::select(vec![
        "ID",
        "Type",
        "Key",
        "Name",
        "Fields",
        "Elements",
        "Map",
        "Entries",
        "Action",
        "KeyType",
        "Data",
        "Summary",
        "Vector",
        "Index",
        "Series",
        "FilterList",
        "Message",
        "State",
        "Stream",
        "Qos",
        "View",
        "Length",
        "BID",
        "DSPLY_NAME",
        "PermData",
        "ExtHdr",
        "Service",
        "Domain",
        "22",
        "CountHint",
    ]);
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((name.clone(), inner), 0..6)
                .prop_map(|members| members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_is_read_without_a_panic(value in json_value(), text in "\\PC{0,200}") {
        let converter = converter("expanded");
        for text in [value.to_string(), format!(r#"{{"ID":1,"Type":"Update","Elements":{{"a":{value}}}}}"#), text] {
            for result in converter.messages(&text) {
                if let Ok(Incoming::Message(msg)) = result {
                    let mut out = String::new();
                    converter.message(&msg, &mut out).unwrap();
                }
            }
        }
    }

    #[test]
    fn numbers_come_back(mantissa in any::<i64>(), hint in 0u8..=14, real in "-?[0-9]{1,25}(\\.[0-9]{1,25})?([eE][-+]?[0-9]{1,10})?") {
        let converter = Converter::new(&DICTIONARY);
        let mut buf = [0; 64];
        let mut w = Writer::new(&mut buf);
        UpdateMsg { container: DataType::FIELD_LIST, ..UpdateMsg::new(Domain::MARKET_PRICE, 1) }.encode_header(&mut w).unwrap();
        let mut list = FieldListEncoder::begin(&mut w).unwrap();
        list.field(22, &Primitive::Real(Real::new(mantissa, RealHint(hint)))).unwrap();
        list.finish().unwrap();
        let len = w.position();
        let json = text(converter, &buf[..len]);
        let back = only_message(converter.messages(&json)).unwrap();
        prop_assert_eq!(text(converter, &back), json);
        // Whatever legal number: a message or an error.
        if let Ok(msg) = only_message(converter.messages(&format!(r#"{{"ID":1,"Type":"Update","Fields":{{"BID":{real}}}}}"#))) {
            let exact: f64 = real.parse().unwrap();
            let found = content(&msg)["Fields"]["BID"].as_f64().unwrap();
            prop_assert!((found - exact).abs() <= exact.abs() * 1e-12 + 1e-14, "{} {}", found, exact);
        }
    }
}

/// An update with these fields, of which the types are the dictionary's.
fn update_of(fields: &[(i16, &[u8])]) -> Vec<u8> {
    let mut body = vec![0; 4_096];
    let mut w = Writer::new(&mut body);
    let mut list = FieldListEncoder::begin(&mut w).unwrap();
    for (fid, value) in fields {
        list.raw(*fid, value).unwrap();
    }
    list.finish().unwrap();
    let body = w.into_written().to_vec();
    let mut out = vec![0; 8_192];
    let mut w = Writer::new(&mut out);
    let container = DataType::FIELD_LIST;
    UpdateMsg { container, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) }.encode(&mut w).unwrap();
    w.into_written().to_vec()
}

fn fields_as_json(converter: &Converter<'_>, fields: &[(i16, &[u8])]) -> Value {
    let mut text = String::new();
    converter.message(&update_of(fields), &mut text).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["Fields"].clone()
}

/// The SDK's converter refuses a message for a member that is no field's name (Real-Time-SDK, issues 191 and 225).
#[test]
fn fields_that_the_dictionary_lacks_are_left_out_and_counted() {
    let left_out = LeftOut::default();
    let converter = Converter::new(&DICTIONARY).counting(&left_out);
    let (bid, unknown) = ((22, &[0x0C, 0x30, 0x39][..]), (-9999, &[1, 2][..]));
    assert_eq!(fields_as_json(&converter, &[unknown, bid, (-9998, &[])]), serde_json::json!({"BID": 123.45}));
    assert_eq!(left_out.fields(), 2);
    assert_eq!(fields_as_json(&converter, &[unknown]), serde_json::json!({}));
    assert_eq!(left_out.fields(), 3);
}

/// A partial update of a text as its value would be taken for the whole text (community questions 84541, 131135, 70046).
#[test]
fn a_change_of_a_part_of_a_text_never_looks_like_a_text() {
    let converter = Converter::new(&DICTIONARY);
    const ROW64_1: i16 = 215;
    for (value, expected) in [
        (&b"\x1b[14`19-Nov-24"[..], "\u{1b}[14`19-Nov-24"),
        (b"\x1b[0`A\x1b[5`B\x1b[3b", "\u{1b}[0`A\u{1b}[5`B\u{1b}[3b"),
        (b"ab\x1b[9`c", "ab\u{1b}[9`c"),
        (b"\x1b[2bx", "\u{1b}[2bx"),
        // The value is written over what is held, from byte 0 on.
        (b"-\x1b[4b+", "-\u{1b}[4b+"),
        ("\x1b%0é\x1b[5`é".as_bytes(), "é\u{1b}[5`é"),
        (b"plain", "plain"),
    ] {
        assert_eq!(
            fields_as_json(&converter, &[(ROW64_1, value)]),
            serde_json::json!({"ROW64_1": expected}),
            "{value:?}"
        );
    }
}

/// An image that clears what was held has whole texts, however its provider wrote them; another refresh is written over what is held.
#[test]
fn texts_of_an_image_are_whole() {
    let text_of = |flags: RefreshFlags| {
        let mut buffer = [0; 200];
        let mut w = Writer::new(&mut buffer);
        let refresh = RefreshMsg { flags, container: DataType::FIELD_LIST, ..RefreshMsg::new(Domain::MARKET_PRICE, 5) };
        refresh.encode_header(&mut w).unwrap();
        let mut list = FieldListEncoder::begin(&mut w).unwrap();
        list.raw(215, b"-\x1b[3b\x1b[6`x").unwrap();
        list.finish().unwrap();
        let mut text = String::new();
        Converter::new(&DICTIONARY).message(w.written(), &mut text).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["Fields"]["ROW64_1"].as_str().unwrap().to_owned()
    };
    assert_eq!(text_of(RefreshFlags::CLEAR_CACHE | RefreshFlags::REFRESH_COMPLETE), "----  x");
    assert_eq!(text_of(RefreshFlags::REFRESH_COMPLETE), "-\u{1b}[3b\u{1b}[6`x");
}
