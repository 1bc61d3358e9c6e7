//! Object stores: a folder, and S3 as moto's server has it.

use crate::brokers::{Broker, s3_server, start_s3};
use crate::{ITEMS, Writing, beside, config, forget_the_place, send_all, until};
use record::JournalConfig;
use record_columns::{Assumed, TableReader};
use record_streams::{Access, Config, Progress, Target, put_files};
use rwf::dictionary::Dictionary;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

/// Segments of some twenty ticks: they end by their age, and a tick is a millisecond.
const SHORT: JournalConfig = JournalConfig {
    block_records: 8,
    block_bytes: 1 << 20,
    slice_records: 1 << 11,
    segment_bytes: 1 << 30,
    segment_age_ns: 20_000_000,
    keep_bytes: None,
    keep_age_ns: None,
    unpacked_bytes: None,
};

/// Names and contents of all files below a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in next.read_dir().into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).expect("below").to_string_lossy().into_owned();
            found.insert(name, std::fs::read(&path).expect("a file"));
        }
    }
    found
}

/// Sequence numbers of the updates in all Parquet files, which have to be whole.
fn sequences(objects: &BTreeMap<String, Vec<u8>>) -> Vec<u64> {
    let assumed = || Assumed { service: "FEED".to_owned(), domain: 6 };
    let mut all = Vec::new();
    for (name, content) in objects.iter().filter(|(name, _)| name.ends_with(".parquet")) {
        assert!(name.starts_with("MARKET_PRICE/date=2027-01-15/service=FEED/"), "{name}");
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(content).expect("room");
        let mut reader = TableReader::parquet(file, &Dictionary::builtin(), assumed()).expect("a table");
        while let Some(row) = reader.next_row().expect("rows") {
            all.extend(row.sequence);
        }
    }
    all.sort_unstable();
    all
}

/// Each note names objects that are there, and all are named.
fn check_notes(objects: &BTreeMap<String, Vec<u8>>) {
    let mut named = BTreeSet::new();
    for (_, content) in objects.iter().filter(|(name, _)| name.starts_with("_segments/")) {
        let note: Value = serde_json::from_slice(content).expect("JSON");
        for object in note["objects"].as_array().expect("a list") {
            let name = object["name"].as_str().expect("a name");
            assert_eq!(objects[name].len() as u64, object["bytes"].as_u64().expect("a number"), "{name}");
            named.insert(name.to_owned());
        }
    }
    let tables: BTreeSet<String> = objects.keys().filter(|name| name.ends_with(".parquet")).cloned().collect();
    assert_eq!(named, tables);
}

/// All of the recording is there, once, whoever looks, and a second sender changes nothing.
#[test]
fn a_folder_has_each_closed_segment_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (recording, lake) = (folder.path().join("recording"), folder.path().join("lake"));
    let target = format!("file://{}", lake.display());
    let mut writing = Writing::begin_with(&recording, SHORT);
    writing.ticks(40);
    let mut following = config(&recording, &target, false);
    let (done, troubles) = beside(&following, 100, |progress| {
        until("the first segments", || progress().sent >= 80);
        // The one that is written is not sent.
        assert!(progress().sent < 120);
        writing.ticks(40);
    });
    assert_eq!((troubles, done.known), (Vec::new(), 0));
    let some = files(&lake);
    check_notes(&some);
    let numbers = sequences(&some);
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    writing.end();
    let done = send_all(&recording, &target);
    assert!(done.sent > 0 && done.objects > 0);
    let all = files(&lake);
    check_notes(&all);
    assert_eq!(sequences(&all), (0..ITEMS.len() as u64 * 80).collect::<Vec<_>>());
    assert!(some.iter().all(|(name, content)| all[name] == *content), "what was put is not put otherwise");
    // Who has forgotten where it was asks the store, and puts nothing.
    forget_the_place(&recording);
    let again = send_all(&recording, &target);
    assert_eq!((again.sent, again.objects, again.known), (0, 0, 240));
    // A segment of which a part is missing there is put again, and is the same.
    forget_the_place(&recording);
    let note = all.keys().find(|name| name.starts_with("_segments/")).expect("a note");
    std::fs::remove_file(lake.join(note)).expect("a file");
    assert!(send_all(&recording, &target).objects > 0);
    assert_eq!(files(&lake), all);
    // Only what is asked for.
    following.items = vec![permissions_of("IBM.N")];
    following.target = Target::parse(&format!("file://{}", folder.path().join("one").display())).expect("a target");
    following.until_end = true;
    record_streams::run(&following, &|| false, &mut |_| {}).expect("a recording");
    assert_eq!(sequences(&files(&folder.path().join("one"))).len(), 80);
    assert!(!files(&recording).keys().any(|name| name.contains("tables/")), "nothing is left beside the recording");
}

fn permissions_of(name: &str) -> names::Pattern {
    names::Pattern::parse(name).expect("a pattern")
}

/// An answer of the server to a plain request; the body.
fn ask(port: u16, request: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server");
    let authorization = "Authorization: AWS4-HMAC-SHA256 Credential=id/20261127/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
    let text = format!("{request} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\n{authorization}\r\n\r\n");
    stream.write_all(text.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    assert!(answer.starts_with(b"HTTP/1.") && answer[9..].starts_with(b"200"), "{}", String::from_utf8_lossy(&answer));
    answer.split_off(end + 4)
}

/// All objects of a bucket below a prefix, without it.
fn objects(port: u16, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    let list = String::from_utf8(ask(port, &format!("GET /ticks?list-type=2&prefix={prefix}"))).expect("XML");
    let names = list.split("<Key>").skip(1).filter_map(|part| part.split("</Key>").next());
    let get = |name: &str| ask(port, &format!("GET /ticks/{}", name.replace('%', "%25").replace('=', "%3D")));
    names.map(|name| (name.strip_prefix(prefix).expect("below it").to_owned(), get(name))).collect()
}

fn s3(folder: &Path, port: u16, until_end: bool) -> Config {
    let access = Access {
        login: Some(("id".to_owned(), "secret".to_owned())),
        endpoint: Some(format!("http://127.0.0.1:{port}")),
        ..Access::default()
    };
    Config { access, ..config(folder, "s3://ticks/lake/one", until_end) }
}

fn bucket(broker: &Broker) {
    ask(broker.port, "PUT /ticks");
}

#[test]
fn what_is_recorded_while_the_store_is_away_is_put_when_it_is_back() {
    let Some(program) = s3_server() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let recording = folder.path().join("recording");
    let mut writing = Writing::begin_with(&recording, SHORT);
    writing.ticks(40);
    let server = start_s3(&program, None);
    let port = server.port;
    bucket(&server);
    let mut back = None;
    let (done, troubles) = beside(&s3(&recording, port, false), 0, |progress| {
        until("what was there", || progress().sent >= 80);
        check_notes(&objects(port, "lake/one/"));
        server.kill();
        // The recorder does not wait for anybody.
        writing.ticks(40);
        until("that it is away", || progress().trouble.is_some());
        // It comes back without the bucket, which nobody but its owner makes.
        let again = start_s3(&program, Some(port));
        until("what it says of that", || progress().trouble.as_ref().is_some_and(|text| text.contains("NoSuchBucket")));
        bucket(&again);
        back = Some(again);
        until("what came meanwhile", || progress().sent + progress().known >= 200);
    });
    assert_eq!(done.removed, 0);
    assert!(troubles.iter().any(|text| text.contains("s3://ticks/lake/one")), "{troubles:?}");
    writing.end();
    let rest = record_streams::run(&s3(&recording, port, true), &|| false, &mut |_| {}).expect("a recording");
    // A store whose answer came too late had the segment when it was asked again.
    let of = |progress: &Progress| progress.sent + progress.known;
    assert_eq!(of(&done) + of(&rest), 240, "{done:?}, {rest:?}");
    let all = objects(port, "lake/one/");
    check_notes(&all);
    // What was put before it was away is gone with its memory; the rest is whole and in order.
    let numbers = sequences(&all);
    assert_eq!(numbers, (240 - numbers.len() as u64..240).collect::<Vec<_>>());
    drop(back);
}

#[test]
fn a_long_file_goes_in_parts_and_names_have_any_characters() {
    let Some(program) = s3_server() else { return };
    let server = start_s3(&program, None);
    bucket(&server);
    let folder = tempfile::tempdir().expect("a folder");
    let paths = ["long", "MARKET_PRICE/service=A%20B%2FC/short"].map(|name| folder.path().join(name));
    std::fs::create_dir_all(paths[1].parent().expect("a folder")).expect("a folder");
    let long: Vec<u8> = (0..33 << 20).map(|n: u32| (n ^ (n >> 9)) as u8).collect();
    std::fs::write(&paths[0], &long).expect("room");
    std::fs::write(&paths[1], b"short").expect("room");
    let config = s3(folder.path(), server.port, true);
    let put = |files: &[PathBuf]| put_files(&config.target, &config.access, folder.path(), files, &|| false);
    assert_eq!(put(&paths).expect("it is put"), 2);
    let all = objects(server.port, "lake/one/");
    assert_eq!(all.keys().map(String::as_str).collect::<Vec<_>>(), ["MARKET_PRICE/service=A%20B%2FC/short", "long"]);
    assert!(all["long"] == long && all["MARKET_PRICE/service=A%20B%2FC/short"] == b"short");
}
