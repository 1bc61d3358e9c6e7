//! The administrative models against the golden vectors: decode to the model, encode, same bytes.

// Tests print what they covered.
#![allow(clippy::disallowed_macros)]

use proptest::prelude::*;
use rwf::dictionary::Verbosity;
use rwf::msg::{Domain, Msg};
use rwf::rdm::directory::{Action, Data, Group, Info, Link, Load, Part, Service, ServiceState};
use rwf::rdm::request::{Payload, View};
use rwf::rdm::state::StateBuf;
use rwf::rdm::{dictionary, directory, login};
use rwf::wire::Writer;
use rwf::{DataState, DataType, Qos, Rate, StateCode, StreamState, Timeliness};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

fn vectors() -> PathBuf {
    std::env::var_os("QUOTEWAY_VECTORS")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/vectors")), PathBuf::from)
}

fn cases() -> Vec<(String, Vec<u8>)> {
    let path = vectors().join("rdm/rdm.jsonl");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|case| case["root"] == "MSG")
        .map(|case| (case["name"].as_str().unwrap().to_owned(), unhex(case["hex"].as_str().unwrap())))
        .collect()
}

fn unhex(hex: &str) -> Vec<u8> {
    hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

/// Encodes the model of a message; `None` if there is no model for it.
fn through_model(name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let msg = Msg::decode(bytes).unwrap();
    let mut buf = vec![0; bytes.len() + 100];
    let mut w = Writer::new(&mut buf);
    let w = &mut w;
    match (name.split_once('/').unwrap().0, &msg) {
        ("login.request", Msg::Request(msg)) => login::Request::decode(msg).unwrap().encode(w),
        ("login.refresh", Msg::Refresh(msg)) => login::Refresh::decode(msg).unwrap().encode(w),
        ("login.status", Msg::Status(msg)) => login::Status::decode(msg).unwrap().encode(w),
        ("login.close", Msg::Close(msg)) => login::encode_close(msg.stream_id, w),
        ("login.rtt", Msg::Generic(msg)) => login::RoundTrip::decode(msg).unwrap().unwrap().encode(w),
        ("login.consumer_connection_status", Msg::Generic(msg)) => {
            login::ConnectionStatus::decode(msg).unwrap().unwrap().encode(w)
        }
        ("directory.request", Msg::Request(msg)) => directory::Request::decode(msg).encode(w),
        ("directory.refresh", Msg::Refresh(msg)) => directory::Refresh::decode(msg).unwrap().encode(w),
        ("directory.update", Msg::Update(msg)) => directory::Update::decode(msg).unwrap().encode(w),
        ("directory.status", Msg::Status(msg)) => directory::Status::decode(msg).encode(w),
        ("directory.close", Msg::Close(msg)) => directory::encode_close(msg.stream_id, w),
        ("directory.consumer_status", Msg::Generic(msg)) => {
            directory::ConsumerStatus::decode(msg).unwrap().unwrap().encode(w)
        }
        ("dictionary.request", Msg::Request(msg)) => dictionary::Request::decode(msg).encode(w),
        ("dictionary.status", Msg::Status(msg)) => dictionary::Status::decode(msg).encode(w),
        ("dictionary.close", Msg::Close(msg)) => dictionary::encode_close(msg.stream_id, w),
        _ => return None,
    }
    .unwrap_or_else(|error| panic!("{name}: {error}"));
    Some(w.written().to_vec())
}

#[test]
fn models_encode_what_they_decoded() {
    let mut seen: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    for (name, bytes) in cases() {
        let category = name.split_once('/').unwrap().0.to_owned();
        let modelled = match through_model(&name, &bytes) {
            Some(again) => {
                assert_eq!(hex(&again), hex(&bytes), "{name}");
                true
            }
            None => false,
        };
        seen.entry(category).or_default()[usize::from(modelled)] += 1;
    }
    for (category, [without, with]) in &seen {
        println!("{category:35} {with:4} through a model, {without:4} without");
    }
    for category in MODELLED {
        assert!(seen.get(category).is_some_and(|[without, with]| *without == 0 && *with > 0), "{category}");
    }
}

/// Every case of these categories goes through a model.
const MODELLED: [&str; 15] = [
    "login.request",
    "login.refresh",
    "login.status",
    "login.close",
    "login.rtt",
    "login.consumer_connection_status",
    "directory.request",
    "directory.refresh",
    "directory.update",
    "directory.status",
    "directory.close",
    "directory.consumer_status",
    "dictionary.request",
    "dictionary.status",
    "dictionary.close",
];

/// Reads a message by every model that its class can have; none may panic, whatever the bytes.
fn read_by_every_model(bytes: &[u8]) {
    let Ok(msg) = Msg::decode(bytes) else { return };
    let _ = Payload::decode(msg.container(), msg.body());
    match &msg {
        Msg::Request(msg) => {
            let _ = login::Request::decode(msg);
            let _ = directory::Request::decode(msg);
            let _ = dictionary::Request::decode(msg);
        }
        Msg::Refresh(msg) => {
            let _ = login::Refresh::decode(msg);
            let _ = directory::Refresh::decode(msg);
        }
        Msg::Status(msg) => {
            let _ = login::Status::decode(msg);
            let _ = directory::Status::decode(msg);
            let _ = dictionary::Status::decode(msg);
        }
        Msg::Update(msg) => drop(directory::Update::decode(msg)),
        Msg::Generic(msg) => {
            let _ = login::RoundTrip::decode(msg);
            let _ = login::ConnectionStatus::decode(msg);
            let _ = directory::ConsumerStatus::decode(msg);
        }
        Msg::Close(_) | Msg::Ack(_) | Msg::Post(_) => {}
    }
}

#[test]
fn hostile_messages_are_refused() {
    for (_, bytes) in cases() {
        for len in 0..bytes.len() {
            read_by_every_model(&bytes[..len]);
        }
        let mut changed = bytes.clone();
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7F, 0x80, 0xFE, 0xFF, bytes[at].wrapping_add(1)] {
                changed[at] = value;
                read_by_every_model(&changed);
            }
            changed[at] = bytes[at];
        }
    }
}

#[test]
fn payloads_of_requests_say_what_the_vectors_say() {
    let text = std::fs::read_to_string(vectors().join("rdm/rdm.jsonl")).unwrap();
    let mut checked = 0;
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let name = case["name"].as_str().unwrap();
        if !["batch/", "view/", "symbol_list/request_"].iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let bytes = unhex(case["hex"].as_str().unwrap());
        let msg = Msg::decode(&bytes).unwrap();
        let payload = Payload::decode(msg.container(), msg.body()).unwrap();
        let element = |name: &str| {
            let elements = case["content"]["body"]["std"].as_array().into_iter().flatten();
            elements.filter(|element| element["name"] == name).map(|element| element["value"].clone()).next()
        };
        let texts = |value: Value| -> Vec<Vec<u8>> {
            value["items"].as_array().unwrap().iter().map(|item| unhex(item["hex"].as_str().unwrap())).collect()
        };
        let numbers = |value: Value| -> Vec<i64> {
            value["items"].as_array().unwrap().iter().map(|item| item["v"].as_str().unwrap().parse().unwrap()).collect()
        };
        let items = payload.items.as_ref().map(|items| items.iter().map(|item| item.to_vec()).collect::<Vec<_>>());
        assert_eq!(items, element(":ItemList").map(texts), "{name}");
        let streams =
            payload.streams.as_ref().map(|streams| streams.iter().map(|id| i64::from(*id)).collect::<Vec<_>>());
        assert_eq!(streams, element(":StreamIdList").map(numbers), "{name}");
        match (payload.view, element(":ViewData")) {
            (None, None) => {}
            (Some(View::Fields(fids)), Some(data)) => {
                assert_eq!(fids.iter().map(|fid| i64::from(*fid)).collect::<Vec<_>>(), numbers(data), "{name}");
            }
            (Some(View::Elements(names)), Some(data)) => assert_eq!(names, texts(data), "{name}"),
            other => panic!("{name}: {other:?}"),
        }
        if let Some(behaviours) = element(":SymbolListBehaviors") {
            let bits = behaviours["std"][0]["value"]["v"].as_str().unwrap().parse().ok();
            assert_eq!(payload.data_streams, bits, "{name}");
        }
        checked += 1;
    }
    assert!(checked > 0);
    println!("{checked} request payloads");
}

#[test]
fn what_is_known_of_a_service_is_the_sum_of_its_entries() {
    let state = |up, accepting_requests, status: Option<StateBuf>| ServiceState { up, accepting_requests, status };
    let suspect = StateBuf { stream: StreamState::OPEN, data: DataState::SUSPECT, ..StateBuf::default() };
    let link =
        |name: &str, action, up| Link { name: name.into(), action, up: Some(up), kind: None, code: None, text: None };
    let mut known = Service::new(1, Action::Add);
    known.info = Some(Part::Set(Info { name: "A".into(), vendor: Some("V".into()), ..Info::default() }));
    known.state = Some(Part::Set(state(true, Some(true), None)));
    known.links = Some(Part::Set(vec![link("x", Action::Add, true), link("y", Action::Add, true)]));
    known.load = Some(Part::Set(Load { open_limit: Some(5), ..Load::default() }));
    assert!(known.is_usable() && known.name() == Some("A"));

    let mut change = Service::new(1, Action::Update);
    change.info = Some(Part::Update(Info { capabilities: vec![Domain::LOGIN], ..Info::default() }));
    change.state = Some(Part::Update(state(true, Some(false), Some(suspect))));
    change.groups = vec![Part::Set(Group { group: vec![1], ..Group::default() })];
    change.links = Some(Part::Update(vec![link("x", Action::Update, false), link("y", Action::Delete, false)]));
    change.load = Some(Part::Clear);
    change.data = Some(Part::Update(Data { kind: Some(1), data: None }));
    known.apply(&change);
    let info = known.info.as_ref().and_then(Part::value).unwrap();
    assert_eq!(
        (info.name.as_str(), info.vendor.as_deref(), &info.capabilities[..]),
        ("A", Some("V"), &[Domain::LOGIN][..])
    );
    assert_eq!(known.state, Some(Part::Set(state(true, Some(false), None))), "a transient status is not kept");
    assert!(!known.is_usable() && known.groups.is_empty() && known.load.is_none());
    assert_eq!(known.links, Some(Part::Set(vec![link("x", Action::Add, false)])));
    assert_eq!(known.data, Some(Part::Set(Data { kind: Some(1), data: None })));

    let mut replaced = Service::new(1, Action::Add);
    replaced.info = Some(Part::Set(Info { name: "B".into(), ..Info::default() }));
    known.apply(&replaced);
    assert!(known.name() == Some("B") && known.state.is_none() && known.links.is_none());
}

#[test]
fn a_refresh_carries_only_the_parts_that_were_asked_for() {
    let mut service = Service::new(9, Action::Add);
    service.info = Some(Part::Set(Info { name: "A".into(), ..Info::default() }));
    service.state = Some(Part::Set(ServiceState::new(true)));
    let request =
        directory::Request { stream_id: 2, streaming: false, service_id: None, filter: directory::filter::STATE };
    let refresh = directory::Refresh::answer(&request, vec![service]);
    let mut buf = [0; 200];
    let mut w = Writer::new(&mut buf);
    refresh.encode(&mut w).unwrap();
    let Msg::Refresh(msg) = Msg::decode(w.written()).unwrap() else { panic!() };
    let again = directory::Refresh::decode(&msg).unwrap();
    assert_eq!(again.state.stream, StreamState::NON_STREAMING);
    assert!(again.services[0].info.is_none() && again.services[0].is_usable());
}

#[test]
fn a_message_that_does_not_fit_is_an_error_and_a_login_is_accepted_by_echo() {
    let request = login::Request { name: "user".into(), role: Some(login::ROLE_PROVIDER), ..login::Request::default() };
    assert!(request.is_provider());
    let features = login::Features { post: Some(true), view: Some(false), ..login::Features::default() };
    let refresh = login::Refresh::accept(&request, features, "welcome");
    assert_eq!((refresh.name.as_str(), refresh.solicited, refresh.stream_id), ("user", true, 1));
    let mut buf = [0; 300];
    let mut w = Writer::new(&mut buf);
    refresh.encode(&mut w).unwrap();
    let len = w.position();
    for size in 0..len {
        assert!(refresh.encode(&mut Writer::new(&mut buf[..size])).is_err(), "{size} of {len}");
    }
    let refusal = login::Status::refuse(1, StateCode::EXCEEDED_MAX_MOUNTS_PER_USER, "too many mounts");
    assert_eq!(refusal.state.unwrap().stream, StreamState::CLOSED);
    let long = login::Request { name: "x".repeat(256), ..request };
    assert!(long.encode(&mut Writer::new(&mut [0; 1000])).is_err());
}

#[test]
fn a_dictionary_refresh_is_marked_by_flags() {
    let mut dictionary = rwf::dictionary::Dictionary::new();
    dictionary.load_fields("f", b"A \"A\" 1 NULL PRICE 17 REAL64 7\nB \"B\" 2 NULL PRICE 17 REAL64 7").unwrap();
    let request = dictionary::Request {
        stream_id: 3,
        streaming: true,
        service_id: None,
        name: dictionary::FIELDS.into(),
        verbosity: Verbosity::NORMAL,
    };
    let mut parts = dictionary::RefreshParts::answer(&dictionary, &request).unwrap().unsolicited();
    let mut flags = Vec::new();
    while !parts.is_done() {
        let mut buf = [0; 185];
        let mut w = Writer::new(&mut buf);
        parts.write(true, &mut w).unwrap();
        let Msg::Refresh(msg) = Msg::decode(w.written()).unwrap() else { panic!() };
        flags.push(msg.flags.to_string());
    }
    assert_eq!(flags, ["CLEAR_CACHE", "REFRESH_COMPLETE"]);
    let mut tight = dictionary::RefreshParts::answer(&dictionary, &request).unwrap();
    let mut buf = [0; 160];
    let mut w = Writer::new(&mut buf);
    assert!(tight.write(false, &mut w).is_err() && w.position() == 0 && !tight.is_done());
    assert!(
        dictionary::RefreshParts::answer(&dictionary, &dictionary::Request { name: "Other".into(), ..request })
            .is_none()
    );
}

fn text() -> impl Strategy<Value = String> {
    "[ -~äß]{1,20}"
}

prop_compose! {
    fn attributes()(
        application_id in prop::option::of(text()),
        position in prop::option::of(text()),
        single_open in any::<Option<bool>>(),
        allow_suspect_data in any::<Option<bool>>(),
        round_trip_latency in any::<Option<u64>>(),
    ) -> login::Attributes {
        login::Attributes { application_id, position, single_open, allow_suspect_data, round_trip_latency, ..login::Attributes::default() }
    }
}

prop_compose! {
    fn qos()(timeliness in 0u8..8, rate in 0u8..16, time_info in any::<u16>(), rate_info in any::<u16>()) -> Qos {
        let mut qos = Qos::new(Timeliness(timeliness), Rate(rate));
        if timeliness > 2 { qos.time_info = time_info; }
        if rate > 2 { qos.rate_info = rate_info; }
        qos
    }
}

prop_compose! {
    fn info()(
        name in text(),
        capabilities in prop::collection::vec(any::<u8>().prop_map(Domain), 0..6),
        used in prop::collection::vec(text(), 0..4),
        qos in prop::collection::vec(qos(), 0..4),
        item_list in prop::option::of(text()),
        is_source in any::<Option<bool>>(),
    ) -> Info {
        Info { name, capabilities, dictionaries_used: used, qos, item_list, is_source, ..Info::default() }
    }
}

prop_compose! {
    fn service()(
        id in any::<u16>(),
        action in prop_oneof![Just(Action::Add), Just(Action::Update)],
        info in info(),
        state in any::<(bool, Option<bool>)>(),
        kind in 0..4u8,
        load in any::<(Option<u64>, Option<u64>, Option<u64>)>(),
        group in prop::collection::vec(any::<u8>(), 0..8),
        link in text(),
    ) -> Service {
        let mut service = Service::new(id, action);
        service.info = (kind & 1 != 0).then_some(Part::Set(info));
        service.state = (kind & 2 != 0).then_some(Part::Update(ServiceState { up: state.0, accepting_requests: state.1, status: None }));
        service.load = Some(Part::Set(Load { open_limit: load.0, open_window: load.1, load_factor: load.2 }));
        service.groups = vec![Part::Set(Group { merged_to: Some(group.clone()), group, status: None }), Part::Clear];
        service.links = Some(Part::Set(vec![Link { name: link, action: Action::Add, up: Some(true), kind: Some(1), code: None, text: None }]));
        service
    }
}

proptest! {
    #[test]
    fn any_login_comes_back(
        name in text(), attributes in attributes(), role in any::<Option<u64>>(), pause in any::<bool>(),
        token in prop::option::of(text()), extended in prop::option::of(prop::collection::vec(any::<u8>(), 1..20)),
    ) {
        let request = login::Request {
            name, attributes, role, pause, authentication_token: token, authentication_extended: extended, ..login::Request::default()
        };
        let mut buf = [0; 2000];
        let mut w = Writer::new(&mut buf);
        request.encode(&mut w).unwrap();
        let Msg::Request(msg) = Msg::decode(w.written()).unwrap() else { panic!() };
        prop_assert_eq!(login::Request::decode(&msg).unwrap(), request);
    }

    #[test]
    fn any_directory_comes_back(services in prop::collection::vec(service(), 0..5), sequence in any::<Option<u32>>()) {
        let update = directory::Update { stream_id: 2, sequence, services, ..directory::Update::default() };
        let mut buf = vec![0; 10_000];
        let mut w = Writer::new(&mut buf);
        update.encode(&mut w).unwrap();
        let Msg::Update(msg) = Msg::decode(w.written()).unwrap() else { panic!() };
        prop_assert_eq!(directory::Update::decode(&msg).unwrap(), update);
    }

    #[test]
    fn any_payload_comes_back(
        items in prop::option::of(prop::collection::vec(text(), 0..20)), streams in any::<Option<Vec<i32>>>(),
        fids in any::<Vec<i16>>(), bits in any::<Option<u64>>(),
    ) {
        let items = items.as_ref().map(|items| items.iter().map(String::as_bytes).collect());
        let payload = Payload { items, streams, view: Some(View::Fields(fids)), data_streams: bits };
        let mut buf = vec![0; 10_000];
        let mut w = Writer::new(&mut buf);
        payload.encode(&mut w).unwrap();
        prop_assert_eq!(Payload::decode(DataType::ELEMENT_LIST, w.written()).unwrap(), payload);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_by_every_model(&bytes);
        let _ = directory::services(DataType::MAP, &bytes);
        let _ = Service::decode_filters(1, Action::Add, &bytes);
        let _ = Payload::decode(DataType::ELEMENT_LIST, &bytes);
    }
}
