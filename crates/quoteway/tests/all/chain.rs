//! The binary as its users run it: source, server and clients as processes of their own, joined by sockets.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use net::tcp::{ConnId, SocketOptions};
use net::tls::TlsClient;
use rssl::ClientConfig;
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::msg::{CloseFlags, CloseMsg, Domain, Msg, MsgKey, RequestFlags, RequestMsg};
use rwf::rdm::request::Payload;
use rwf::wire::Writer;
use rwf::{DataType, EncodeError, FieldList, SetScope, StateCode};
use tools::consumer::{Consumer, Identity, Received};

/// A process that ends with the test, and its first line.
pub(crate) struct Process {
    child: Child,
    line: String,
}

impl Process {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line to its standard input.
    pub(crate) fn tell(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("piped");
        writeln!(input, "{line}").expect("it reads");
    }

    /// The line that it was waited for.
    pub(crate) fn line(&self) -> &str {
        &self.line
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) enum From {
    Output,
    Error,
}

/// Starts `quoteway` and waits for the first line that contains `sign`.
pub(crate) fn start(args: &[&str], from: &From, sign: &str) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quoteway"));
    command.args(args).stdin(Stdio::piped());
    let mut child = match from {
        From::Output => command.stdout(Stdio::piped()).stderr(Stdio::null()),
        From::Error => command.stdout(Stdio::null()).stderr(Stdio::piped()),
    }
    .spawn()
    .expect("the binary starts");
    let stream: Box<dyn Read + Send> = match from {
        From::Output => Box::new(child.stdout.take().expect("piped")),
        From::Error => Box::new(child.stderr.take().expect("piped")),
    };
    let mut lines = BufReader::new(stream).lines();
    let line = lines.by_ref().map_while(Result::ok).find(|l| l.contains(sign)).expect("the sign that it is ready");
    // Later output is read away, so that the process never waits for us.
    std::thread::spawn(move || lines.for_each(drop));
    Process { child, line }
}

pub(crate) fn source(args: &[&str]) -> (Process, String) {
    let mut all = vec!["sink-driven-src", "--bind", "127.0.0.1", "-N", "0", "-K"];
    all.extend(args);
    let process = start(&all, &From::Error, "is published on");
    let address = process.line.split(" on ").nth(1).and_then(|t| t.split(';').next()).expect("an address").to_string();
    (process, address)
}

pub(crate) fn serve(args: &[&str]) -> (Process, u16) {
    let mut all = vec!["serve", "--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0"];
    all.extend(args);
    let process = start(&all, &From::Output, "ready ");
    let port = port_of(&process, "rssl=");
    (process, port)
}

pub(crate) fn port_of(process: &Process, key: &str) -> u16 {
    let at = process.line.split(key).nth(1).and_then(|t| t.split(' ').next()).expect("an address in the ready line");
    at.trim_end_matches('/').parse::<SocketAddr>().expect("an address").port()
}

/// Runs `test-client` to its end and gives its closing line.
pub(crate) fn client(port: u16, args: &[&str]) -> serde_json::Value {
    let port = port.to_string();
    let mut all = vec!["test-client", "-h", "127.0.0.1", "-p", &port];
    all.extend(args);
    let output = Command::new(env!("CARGO_BIN_EXE_quoteway")).args(&all).output().expect("the client runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let json = text
        .lines()
        .rfind(|l| l.starts_with('{'))
        .unwrap_or_else(|| panic!("no closing line in {text}\n{}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(json).expect("JSON")
}

/// Every item has its image, updates came, none was lost or out of order.
fn assert_whole(report: &serde_json::Value, streams: u64) {
    assert_eq!(report["complete"], true, "{report}");
    assert_eq!(report["streams"], streams, "{report}");
    assert_eq!(report["lost"], 0, "{report}");
    assert_eq!(report["reordered"], 0, "{report}");
    assert_eq!(report["refused"], 0, "{report}");
    assert!(report["received"].as_u64().is_some_and(|n| n > 0), "{report}");
}

const SHORT: [&str; 2] = ["--seconds", "1"];

#[test]
fn a_watchlist_streams_through_source_server_and_client() {
    let (_source, at) = source(&["-U", "20k"]);
    let (_server, port) = serve(&["--route", &at]);
    let report = client(port, &[&["-il", "RDT{0..999}", "decodeFormat", "2"][..], &SHORT].concat());
    assert_whole(&report, 1_000);
}

#[test]
fn half_of_a_watchlist_is_shared_by_all_mounts() {
    let (_source, at) = source(&["-U", "5k"]);
    let (_server, port) = serve(&["--route", &at]);
    let args = ["-il", "RDT{0..199}", "--mounts", "20", "--common", "0.5"];
    assert_whole(&client(port, &[&args[..], &SHORT].concat()), 20 * 100 + 100);
}

#[test]
fn shards_serve_their_clients_as_one_thread_does() {
    let (_source, at) = source(&["-U", "5k"]);
    let (_server, port) = serve(&["--route", &at, "--shards", "2"]);
    let args = ["-il", "RDT{0..199}", "--mounts", "20", "--common", "0.5"];
    assert_whole(&client(port, &[&args[..], &SHORT].concat()), 20 * 100 + 100);
}

/// As fast as the source can: more than the clients take, who share two processors with everybody. Nobody is cut off, though a
/// twentieth of the usual backlog is allowed, because the source is held back.
#[test]
fn shards_hold_an_unpaced_source_back() {
    holds_an_unpaced_source_back(2);
}

/// The same where one thread does everything.
#[test]
fn a_single_thread_holds_an_unpaced_source_back() {
    holds_an_unpaced_source_back(0);
}

fn holds_an_unpaced_source_back(threads: u32) {
    let (_source, at) = source(&["-U", "max"]);
    let limits = "guaranteed_output_buffers = 80\nmax_output_buffers = 4000";
    let config = config_file(&format!("[p2ps]\n{limits}\nwriter_thread_count = {threads}\n"));
    let (_server, port) = serve(&["--route", &at, "--config", config.path().to_str().expect("UTF-8")]);
    let args = ["-il", "RDT{0..199}", "--mounts", "20", "decodeFormat", "3", "--seconds", "2"];
    assert_whole(&client(port, &args), 4_000);
}

pub(crate) fn config_file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    file
}

#[test]
fn writes_by_timer_lose_nothing() {
    let (_source, at) = source(&["-U", "5k"]);
    let config = config_file("[p2ps]\ntimed_writes = true\nflush_interval_ms = 20\ntcp_no_delay = false\n");
    let (_server, port) = serve(&["--route", &at, "--config", config.path().to_str().expect("UTF-8")]);
    assert_whole(&client(port, &[&["-il", "RDT{0..99}", "--mounts", "3"][..], &SHORT].concat()), 300);
}

#[test]
fn unpacked_and_compressed_sessions_lose_nothing() {
    let (_source, at) = source(&["-U", "5k"]);
    for text in ["rssl_msg_packing = false", "compression_type = \"zlib\"\nforce_rssl_compression = true"] {
        let config = config_file(&format!("[p2ps]\n{text}\n"));
        let (_server, port) = serve(&["--route", &at, "--config", config.path().to_str().expect("UTF-8")]);
        assert_whole(&client(port, &[&["-il", "RDT{0..99}"][..], &SHORT].concat()), 100);
    }
}

#[test]
fn a_source_that_comes_later_is_found() {
    let at_port = measure::ports::reserve().to_string();
    let (_server, port) = serve(&["--route", &format!("127.0.0.1:{at_port}")]);
    let client = std::thread::spawn(move || client(port, &[&["-il", "RDT{0..9}"][..], &SHORT].concat()));
    let args = ["sink-driven-src", "--bind", "127.0.0.1", "-N", &at_port, "-K", "-U", "1k"];
    let _source = start(&args, &From::Error, "is published on");
    assert_whole(&client.join().expect("the client ends"), 10);
}

#[test]
fn a_mount_too_many_is_refused_with_a_text() {
    let (_source, at) = source(&[]);
    let config = config_file("[p2ps]\nmax_mounts = 0\n");
    let (_server, port) = serve(&["--route", &at, "--config", config.path().to_str().expect("UTF-8")]);
    let mut mount = Mount::connect(port, None);
    let why = mount.run_until(|m| m.ended.clone());
    assert!(why.contains("mounts are taken") && why.contains("maxMounts"), "{why}");
}

#[test]
fn mounts_that_connect_together_are_counted_together() {
    let (_source, at) = source(&[]);
    let config = config_file("[p2ps]\nmax_mounts = 2\n");
    let (_server, port) = serve(&["--route", &at, "--config", config.path().to_str().expect("UTF-8")]);
    // All are connected before the first of them says anything.
    let mut mounts: Vec<Mount> = (0..8).map(|_| Mount::connect(port, None)).collect();
    for mount in &mut mounts {
        mount.run_until(|m| (m.opened || m.ended.is_some()).then_some(()));
    }
    assert_eq!(mounts.iter().filter(|mount| mount.seen.opened).count(), 2);
    // A mount that is given back can be had again.
    drop(mounts);
    let again = || {
        let mut mount = Mount::connect(port, None);
        mount.run_until(|m| (m.opened || m.ended.is_some()).then_some(m.opened))
    };
    assert!((0..100).any(|_| again()), "mounts that are gone are counted for ever");
}

#[test]
fn a_client_that_does_not_read_is_cut_off_and_no_other_notices() {
    let (_source, at) = source(&["-U", "100k"]);
    let config =
        config_file("[p2ps]\nguaranteed_output_buffers = 10\nmax_output_buffers = 100\ntcp_send_buf_size = 65536\n");
    let (_server, port) = serve(&["--route", &at, "--config", config.path().to_str().expect("UTF-8")]);
    let mut lazy = Mount::connect(port, None);
    lazy.run_until(|m| m.service);
    lazy.open_items(&["RDT0", "RDT1", "RDT2", "RDT3"]);
    lazy.run_until(|m| (m.items >= 4).then_some(()));
    lazy.io.set_reading(lazy.conn, false);
    // The other one is there all the time in which the first is cut off; it watches the same items.
    let report = client(port, &["-il", "RDT{0..3}", "--seconds", "3"]);
    assert_whole(&report, 4);
    lazy.io.set_reading(lazy.conn, true);
    let why = lazy.run_until(|m| m.ended.clone());
    assert!(why.contains("reset"), "{why}");
}

#[test]
fn conflation_of_a_client_that_does_not_read_counts_every_update() {
    let (_source, at) = source(&["-U", "5k"]);
    let config = config_file(
        "[p2ps]\nguaranteed_output_buffers = 10\nmax_output_buffers = 1000\ntcp_send_buf_size = 65536\n\
         [conflation]\njust_in_time = \"all\"\nstart_percent = 5\nend_percent = 1\n",
    );
    let (_server, port) = serve(&["--route", &at, "--config", config.path().to_str().expect("UTF-8")]);
    let mut lazy = Mount::connect(port, None);
    lazy.run_until(|m| m.service);
    lazy.open_items(&["RDT0", "RDT1", "RDT2", "RDT3"]);
    lazy.run_until(|m| (m.items >= 4).then_some(()));
    lazy.io.set_reading(lazy.conn, false);
    // The other one, which watches the same items, is there while the first does not read.
    assert_whole(&client(port, &["-il", "RDT{0..3}", "--seconds", "4"]), 4);
    lazy.io.set_reading(lazy.conn, true);
    let text = lazy.run_until(|m| m.conflated.resumed.clone().or_else(|| m.ended.clone()));
    assert!(text.contains("one by one again"), "{text}");
    let Conflated { started, most, wrong, .. } = &lazy.seen.conflated;
    assert!(*started > 0 && *most > 10, "{started} streams, {most} updates in one at most");
    assert_eq!(*wrong, 0, "numbers of updates that do not go on where the counts say");
}

#[test]
fn the_encrypted_connection_type_carries_a_session() {
    let key = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_string()]).expect("a certificate");
    let dir = tempfile::tempdir().expect("a folder");
    let (cert_file, key_file) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&cert_file, key.cert.pem()).expect("written");
    std::fs::write(&key_file, key.signing_key.serialize_pem()).expect("written");
    let (_source, at) = source(&["-U", "1k"]);
    let config = config_file(&format!(
        "[p2ps]\nencrypted_port = 0\nserver_cert_file = {:?}\nserver_key_file = {:?}\n",
        cert_file.display().to_string(),
        key_file.display().to_string()
    ));
    let (server, _) = serve(&["--route", &at, "--config", config.path().to_str().expect("UTF-8")]);
    let tls = TlsClient::with_roots_from(&cert_file).expect("usable");
    let mut mount = Mount::connect(port_of(&server, "encrypted="), Some(&tls));
    mount.run_until(|m| m.service);
    mount.open_items(&["RDT0"]);
    // The image and at least a hundred updates.
    mount.run_until(|m| (m.items > 100).then_some(()));

    let port = port_of(&server, "encrypted=").to_string();
    let ca_file = cert_file.to_str().expect("UTF-8");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quoteway"));
    command.args(["test-client", "-h", "127.0.0.1", "-p", &port, "-ct", "encrypted", "--ca-file", ca_file]);
    let output = command.args(["-il", "RDT{0..9}", "--seconds", "0.5", "-l", "0"]).output().expect("it runs");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a line of JSON");
    assert_eq!((&report["complete"], &report["images"], &report["lost"]), (&true.into(), &10.into(), &0.into()));
}

/// Marketfeed that one server gives another takes as such, and makes field lists of it again.
#[test]
fn market_price_goes_out_as_marketfeed_and_comes_back_as_fields() {
    let (_source, at) = source(&["-U", "2k"]);
    let path = |file: &tempfile::NamedTempFile| file.path().to_str().expect("UTF-8").to_owned();
    let out = config_file("[p2ps]\nmarketfeed = \"all\"\n");
    let (_first, records) = serve(&["--route", &at, "--config", &path(&out)]);
    let mut mount = Mount::connect(records, None);
    mount.run_until(|m| m.service);
    mount.open_items(&["RDT0"]);
    mount.run_until(|m| (m.items > 20).then_some(()));
    let msg = Msg::decode(&mount.seen.last).expect("a message");
    assert_eq!(msg.container(), DataType::OPAQUE);
    let record = marketfeed::Record::parse(msg.body()).expect("a record");
    assert_eq!((record.record_type, record.item), (marketfeed::RecordType::UPDATE, &b"RDT0"[..]));
    assert!(record.rtl.is_some_and(|rtl| rtl > 1) && record.fields().all(|field| field.is_ok()));

    // A service goes by what it says itself.
    let kept = "[source_distributor]\nconvert_mfeed_data_to_rwf = true\n[service.DIRECT_FEED]\nconvert_mfeed_data_to_rwf = false\n";
    let made = "[service.DIRECT_FEED]\nconvert_mfeed_data_to_rwf = true\n";
    for (text, container) in [(kept, DataType::OPAQUE), (made, DataType::FIELD_LIST)] {
        let file = config_file(text);
        let (_second, port) = serve(&["--route", &format!("127.0.0.1:{records}"), "--config", &path(&file)]);
        let mut mount = Mount::connect(port, None);
        mount.run_until(|m| m.service);
        mount.open_items(&["RDT0"]);
        mount.run_until(|m| (m.items > 3).then_some(()));
        assert_eq!(Msg::decode(&mount.seen.last).expect("a message").container(), container, "{text}");
    }

    let back = config_file("[source_distributor]\nconvert_mfeed_data_to_rwf = true\n");
    let (_second, port) = serve(&["--route", &format!("127.0.0.1:{records}"), "--config", &path(&back)]);
    let mut mount = Mount::connect(port, None);
    mount.run_until(|m| m.service);
    mount.open_items(&["RDT0", "RDT1"]);
    mount.run_until(|m| (m.items > 20).then_some(()));
    let msg = Msg::decode(&mount.seen.last).expect("a message");
    assert_eq!(msg.container(), DataType::FIELD_LIST);
    let list = FieldList::decode(msg.body(), &SetScope::NONE).expect("a field list");
    assert!(list.entries().count() > 3 && list.entries().all(|field| field.is_ok()));
    let report = client(port, &[&["-il", "RDT{0..99}", "decodeFormat", "2"][..], &SHORT].concat());
    assert_eq!((&report["complete"], &report["streams"]), (&true.into(), &100.into()), "{report}");
}

/// One port gives Marketfeed to whoever comes, the others do not.
#[test]
fn a_port_may_be_one_for_marketfeed() {
    let (_source, at) = source(&["-U", "2k"]);
    let config = config_file("[p2ps]\nenable_marketfeed_port = true\nmarketfeed_port = 0\n");
    let (server, rssl) = serve(&["--route", &at, "--config", config.path().to_str().expect("UTF-8")]);
    for (port, container) in [(port_of(&server, "marketfeed="), DataType::OPAQUE), (rssl, DataType::FIELD_LIST)] {
        let mut mount = Mount::connect(port, None);
        mount.run_until(|m| m.service);
        mount.open_items(&["RDT0"]);
        mount.run_until(|m| (m.items > 3).then_some(()));
        assert_eq!(Msg::decode(&mount.seen.last).expect("a message").container(), container, "port {port}");
    }
}

/// A list in a close that is no batch closes nothing, and a batch not the stream that it is on: what stays open goes on as records.
#[test]
fn closes_with_lists_leave_records_on_what_stays_open() {
    let (_source, at) = source(&["-U", "2k"]);
    let config = config_file("[p2ps]\nmarketfeed = \"all\"\n");
    let (_server, port) = serve(&["--route", &at, "--config", config.path().to_str().expect("UTF-8")]);
    let mut mount = Mount::connect(port, None);
    mount.run_until(|m| m.service);
    mount.open_items(&["RDT0", "RDT1"]);
    mount.run_until(|m| (m.items > 3).then_some(()));
    for (flags, own, streams) in [(0, 9, vec![5, 6]), (hub::p2ps::CLOSE_BATCH, 5, vec![6])] {
        let mut body = [0; 100];
        let mut list = Writer::new(&mut body);
        Payload { streams: Some(streams), ..Payload::default() }.encode(&mut list).expect("room");
        let (flags, container) = (CloseFlags(flags), DataType::ELEMENT_LIST);
        let body = list.written();
        mount.say(|w| CloseMsg { flags, container, body, ..CloseMsg::new(Domain::MARKET_PRICE, own) }.encode(w));
    }
    mount.open_item("RDT2", 7);
    // Behind them: a read may bring messages of all streams.
    mount.run_until(|m| m.containers.get(&7).copied());
    mount.seen.containers.clear();
    assert_eq!(mount.run_until(|m| m.containers.get(&5).copied()), DataType::OPAQUE);
}

/// The fields of a message with a field list.
fn fids(msg: &[u8]) -> Vec<i16> {
    let list = FieldList::decode(rwf::peek::body(msg).expect("a body"), &SetScope::NONE).expect("a field list");
    list.entries().map(|entry| entry.expect("a field").fid).collect()
}

#[test]
fn what_is_filtered_reaches_no_client() {
    let (_source, at) = source(&["-U", "20k"]);
    let (_open, port) = serve(&["--route", &at]);
    let mut client = Mount::connect(port, None);
    client.run_until(|seen| seen.service);
    client.open_items(&["RDT0"]);
    let image = client.run_until(|seen| (seen.items > 0).then(|| fids(&seen.first)));
    let update = client.run_until(|seen| (seen.items > 1).then(|| fids(&seen.last)));
    let (here, there) = (update[0], *update.last().expect("a field"));
    assert!(here != there && image.contains(&here) && image.contains(&there), "{image:?} {update:?}");
    let config = config_file(&format!(
        "[filters]\nremove_fields = \"{here}\"\np2ps_remove_fields = [\"RDFD:{there}\", \"{there}\"]\n"
    ));
    let (_filtering, port) = serve(&["--route", &at, "--config", config.path().to_str().expect("UTF-8")]);
    let mut client = Mount::connect(port, None);
    client.run_until(|seen| seen.service);
    client.open_items(&["RDT0"]);
    let passing: Vec<i16> = image.into_iter().filter(|fid| ![here, there].contains(fid)).collect();
    assert_eq!(client.run_until(|seen| (seen.items > 0).then(|| fids(&seen.first))), passing);
    for at in 2..20 {
        let update = client.run_until(|seen| (seen.items >= at).then(|| fids(&seen.last)));
        assert!(!update.is_empty() && update.iter().all(|fid| passing.contains(fid)), "{update:?}");
    }
}

#[test]
fn a_full_server_and_blocked_items_are_refused_with_a_text() {
    let (_source, at) = source(&["-U", "20k"]);
    let blocked = config_file("RDT1\nRDT2\n");
    let text = format!("[p2ps]\ntotal_item_limit = 5\nblocked_items_file = [\"{}\"]\n", blocked.path().display());
    let config = config_file(&text);
    let (_server, port) = serve(&["--route", &at, "--config", config.path().to_str().expect("UTF-8")]);
    let report = client(port, &[&["-il", "RDT{0..9}"][..], &SHORT].concat());
    assert_eq!(
        (&report["refused"], &report["lost"]),
        (&5.into(), &0.into()),
        "two are blocked, three too many: {report}"
    );
}

#[test]
fn a_service_that_is_full_takes_no_more_items() {
    let (_source, at) = source(&["-U", "20k"]);
    let config = config_file("[p2ps]\nservice_item_limit = [\"DIRECT_FEED:6\", \"1\"]\nservice_open_window = \"2\"\n");
    let (_server, port) = serve(&["--route", &at, "--config", config.path().to_str().expect("UTF-8")]);
    let report = client(port, &[&["-il", "RDT{0..9}"][..], &SHORT].concat());
    assert_eq!((&report["refused"], &report["lost"]), (&4.into(), &0.into()), "{report}");
}

#[test]
fn two_providers_have_items_by_regular_expressions() {
    let (_one, first) = source(&["-U", "20k"]);
    let (_other, second) = source(&["-U", "20k"]);
    let route = |at: &str, expression: &str| {
        format!("[[route]]\nhost_list = [\"{at}\"]\nserver_partition_list = [\"{expression}\"]\n")
    };
    let config = config_file(&[route(&first, "^RDT[0-4]"), route(&second, "^.*[5-9]$")].concat());
    let (_server, port) = serve(&["--config", config.path().to_str().expect("UTF-8")]);
    let report = client(port, &[&["-il", "RDT{0..9}"][..], &SHORT].concat());
    assert_eq!((&report["images"], &report["lost"]), (&10.into(), &0.into()), "{report}");
}

#[test]
fn a_log_that_nobody_reads_does_not_end_the_server() {
    let mut process = Command::new(env!("CARGO_BIN_EXE_quoteway"))
        .args(["serve", "--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop(process.stderr.take());
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let process = Process { child: process, line };
    // Each of these is logged.
    for _ in 0..2 {
        let mut mount = Mount::connect(port_of(&process, "rssl="), None);
        mount.run_until(|m| m.opened.then_some(()));
    }
}

#[test]
fn a_silent_client_is_pinged_and_dropped_in_the_agreed_time() {
    let config = config_file("[p2ps]\nmin_ping_timeout_s = 1\n");
    let (_server, port) = serve(&["--config", config.path().to_str().expect("UTF-8")]);
    let mut peer = std::net::TcpStream::connect(("127.0.0.1", port)).expect("connects");
    peer.set_read_timeout(Some(std::time::Duration::from_secs(8))).expect("set");
    let asking = ClientConfig { ping_timeout_s: 1, key_exchange: false, ..ClientConfig::default() };
    let (mut session, mut out) = (rssl::Connection::client(asking), Vec::new());
    session.start(net::clock::now(), &mut out);
    std::io::Write::write_all(&mut peer, &out).expect("sent");
    // The handshake timeout is 15 s: an end before the read timeout shows that the agreed second counts.
    let mut received = Vec::new();
    peer.read_to_end(&mut received).expect("the server ends the session");
    assert!(received.ends_with(&[0, 3, 2]), "pings come before the end: {received:?}");
}

#[test]
fn a_bad_configuration_stops_the_start_and_names_each_line() {
    let config = config_file("[p2ps]\nrsslport = 1\nmax_mounts = -1\n");
    let path = config.path().to_str().expect("UTF-8").to_string();
    let output =
        Command::new(env!("CARGO_BIN_EXE_quoteway")).args(["serve", "--config", &path]).output().expect("runs");
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains(&format!("{path}:2: there is no key in [p2ps] called rsslport: the nearest is rssl_port")),
        "{text}"
    );
    assert!(text.contains(&format!("{path}:3: p2ps.max_mounts: expected a whole number")), "{text}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("bound").port();
    let output = Command::new(env!("CARGO_BIN_EXE_quoteway"))
        .args(["serve", "--interface", "127.0.0.1", "--rssl-port", &port.to_string(), "--nip-port", "0"])
        .output()
        .expect("runs");
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains(&format!("port {port}")) && text.contains("consumers"), "{text}");
}

/// A consumer by hand: login and directory by the tools' own, items and reading by the test.
pub(crate) struct Mount {
    io: RsslIo,
    conn: ConnId,
    pub(crate) seen: Seen,
}

pub(crate) struct Seen {
    conflated: Conflated,
    consumer: Consumer,
    replies: Vec<Vec<u8>>,
    pub(crate) service: Option<u16>,
    pub(crate) opened: bool,
    /// Messages on item streams.
    pub(crate) items: usize,
    /// The first of them, and the last.
    pub(crate) first: Vec<u8>,
    pub(crate) last: Vec<u8>,
    /// By stream: what the last of its messages has.
    containers: HashMap<i32, DataType>,
    ended: Option<String>,
}

/// The notices of conflation to a mount.
#[derive(Default)]
struct Conflated {
    /// By stream: the number of the last update, and updates since, that had none.
    numbers: HashMap<i32, (u32, u32)>,
    /// Streams that were told that it has started.
    started: u32,
    /// Text of the end.
    resumed: Option<String>,
    /// Most updates that one stood for.
    most: u16,
    /// Updates with another number than follows from what they stand for.
    wrong: u32,
}

impl Conflated {
    fn receive(&mut self, msg: &[u8]) {
        match Msg::decode(msg) {
            Ok(Msg::Status(status)) => match status.state {
                Some(state) if state.code == StateCode::JIT_CONFLATION_STARTED => self.started += 1,
                Some(state) if state.code == StateCode::REALTIME_RESUMED => {
                    self.resumed = Some(String::from_utf8_lossy(state.text).into_owned());
                }
                _ => {}
            },
            Ok(Msg::Refresh(refresh)) => {
                self.numbers.insert(refresh.stream_id, (refresh.seq_num.unwrap_or_default(), 0));
            }
            Ok(Msg::Update(update)) => {
                let count = update.conflation.map_or(1, |conflation| conflation.count);
                self.most = self.most.max(count);
                let Some((number, without)) = self.numbers.get_mut(&update.stream_id) else { return };
                *without += u32::from(count);
                if let Some(this) = update.seq_num {
                    self.wrong += u32::from(this != number.wrapping_add(*without));
                    (*number, *without) = (this, 0);
                }
            }
            _ => {}
        }
    }
}

impl Mount {
    pub(crate) fn connect(port: u16, tls: Option<&TlsClient>) -> Self {
        let mut io = RsslIo::new(1).expect("descriptors");
        let tls = tls.map(|t| t.connect("127.0.0.1").expect("a name"));
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        // A small receive buffer, so that what is not read soon waits at the server.
        let options = SocketOptions { receive_buffer: Some(65_536), ..SocketOptions::default() };
        let conn =
            io.connect(net::clock::now(), addr, &options, Arc::new(ClientConfig::default()), tls).expect("a socket");
        let identity =
            Identity { user: "test".into(), application: "chain test".into(), service: "DIRECT_FEED".into() };
        let consumer = Consumer::new(identity);
        Self {
            io,
            conn,
            seen: Seen {
                conflated: Conflated::default(),
                consumer,
                replies: Vec::new(),
                service: None,
                opened: false,
                items: 0,
                first: Vec::new(),
                last: Vec::new(),
                containers: HashMap::new(),
                ended: None,
            },
        }
    }

    /// Turns until `done` gives something; half a minute at most.
    pub(crate) fn run_until<T>(&mut self, done: impl Fn(&Seen) -> Option<T>) -> T {
        let deadline = net::clock::now() + 30_000_000_000;
        loop {
            if let Some(t) = done(&self.seen) {
                return t;
            }
            let now = self.io.turn(Some(deadline), &mut self.seen).expect("sockets");
            assert!(now < deadline, "waited too long; items {}, service {:?}", self.seen.items, self.seen.service);
            let replies = std::mem::take(&mut self.seen.replies);
            self.io.send(now, self.conn, |p| replies.iter().for_each(|r| p.push(r, None)));
        }
    }

    pub(crate) fn open_items(&mut self, names: &[&str]) {
        names.iter().zip(5..).for_each(|(name, stream)| self.open_item(name, stream));
    }

    fn open_item(&mut self, name: &str, stream: i32) {
        let service = self.seen.service.expect("the service is up");
        let key = MsgKey { service_id: Some(service), name: Some(name.as_bytes()), ..MsgKey::default() };
        let flags = RequestFlags::STREAMING;
        self.say(|w| RequestMsg { flags, key, ..RequestMsg::new(Domain::MARKET_PRICE, stream) }.encode(w));
    }

    fn say(&mut self, encode: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) {
        let mut buffer = [0; 256];
        let mut writer = Writer::new(&mut buffer);
        encode(&mut writer).expect("room");
        self.io.send(net::clock::now(), self.conn, |p| p.push(writer.written(), None));
    }
}

impl Handler for Seen {
    fn opened(&mut self, now: u64, _conn: ConnId, _opened: &Opened<'_>) {
        self.opened = true;
        let replies = &mut self.replies;
        self.consumer.begin(now, &mut |msg| replies.push(msg.to_vec()));
    }

    fn message(&mut self, now: u64, _conn: ConnId, msg: &[u8]) {
        let replies = &mut self.replies;
        match self.consumer.receive(now, msg, &mut |msg| replies.push(msg.to_vec())) {
            Received::ServiceUp(id) => self.service = Some(id),
            Received::Item => {
                self.items += 1;
                self.conflated.receive(msg);
                if let Ok(msg) = Msg::decode(msg) {
                    self.containers.insert(msg.stream_id(), msg.container());
                }
                self.last = msg.to_vec();
                if self.items == 1 {
                    self.first.clone_from(&self.last);
                }
            }
            _ => {}
        }
    }

    fn closed(&mut self, _now: u64, _conn: ConnId, ended: &Ended) {
        self.ended = Some(ended.why.to_string());
    }
}
