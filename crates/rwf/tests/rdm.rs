//! The administrative models against the golden vectors: decode to the model, encode, same bytes.

// Tests print what they covered.
#![allow(clippy::disallowed_macros)]

use rwf::msg::Msg;
use rwf::rdm::{dictionary, directory, login};
use rwf::wire::Writer;
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
