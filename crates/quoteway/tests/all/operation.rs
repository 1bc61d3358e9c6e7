//! Operation of a running server, as an operator meets it: reload, drain, stop, blocked items, permissions, the log as JSON.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::http::{self, PORTS, Process, ask, demo};

/// A server with a configuration file.
fn serve(file: &Path) -> Process {
    http::serve(&["--config", file.to_str().expect("UTF-8")])
}

fn post(server: &Process, path: &str, body: &str) -> (u16, Value) {
    let (status, _, body) = ask(&server.web(), "POST", path, body, &[]);
    (status, serde_json::from_str(&body).unwrap_or_else(|e| panic!("{path}: {e}: {body}")))
}

/// A consumer that stays until it is killed; what it says goes nowhere.
struct Consumer(Child);

impl Drop for Consumer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn consumer(server: &Process) -> Consumer {
    let port = server.at("rssl");
    let port = port.rsplit(':').next().expect("a port");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quoteway"));
    command.args(["test-client", "-h", "127.0.0.1", "-p", port, "-il", "A", "--seconds", "60"]);
    Consumer(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"))
}

fn signal(process: &Process, name: &str) {
    let pid = process.child.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().expect("kill").success());
}

/// The ids of the clients that are there.
fn client_ids(server: &Process) -> Vec<String> {
    let clients = server.json("/api/v1/clients");
    let found = clients["found"].as_array().expect("a list").iter();
    found.map(|client| client["id"].as_str().expect("an id").to_owned()).collect()
}

#[test]
fn a_configuration_is_read_again_as_a_whole_or_not_at_all() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("q.toml");
    std::fs::write(&file, "[p2ps]\nmax_mounts = 9\n[[route]]\nhost_list = [\"127.0.0.1:1\"]\n").expect("written");
    let server = serve(&file);
    let _client = consumer(&server);
    server.wait_for("/api/v1/clients", |_, body| body.contains("\"protocol\""));
    let before = client_ids(&server);

    std::fs::write(&file, "[p2ps]\nmax_mounts = 9\nmax_muonts = 8\n").expect("written");
    let (status, answer) = post(&server, "/api/v1/reload", "{\"why\":\"a test\"}");
    let error = answer["error"].as_str().expect("why");
    assert!(status == 422 && error.contains("q.toml:3:") && error.contains("max_mounts"), "{status} {answer}");
    assert!(server.json("/api/v1/providers").to_string().contains("127.0.0.1:1\""), "nothing has changed");

    let changed = "[p2ps]\nmax_mounts = 1\nmax_fragment_size = 5000\n[[route]]\nhost_list = [\"127.0.0.1:2\"]\n[log]\nlevel = \"debug\"\n";
    std::fs::write(&file, changed).expect("written");
    signal(&server, "HUP");
    let events = server.wait_for("/api/v1/events", |_, body| body.contains("SIGHUP: the configuration is read again"));
    for told in [
        "applied: p2ps.max_mounts = 1 (was 9); log.level",
        "route to 127.0.0.1:1 is ended; route to 127.0.0.1:2 is dialled",
        "needs a restart: p2ps.max_fragment_size = 5000 (was 6144)",
    ] {
        assert!(events.contains(told), "{told} is not in {events}");
    }
    let providers = server.json("/api/v1/providers").to_string();
    assert!(providers.contains("127.0.0.1:2\"") && !providers.contains("127.0.0.1:1\""), "{providers}");
    assert_eq!(client_ids(&server), before, "nobody is dropped");
    // The new limit counts: one is there already.
    let _second = consumer(&server);
    server.wait_for("/api/v1/events", |_, body| body.contains("All 1 mounts are taken"));

    let (status, answer) = post(&server, "/api/v1/reload", "{\"why\":\"again\"}");
    assert_eq!((status, answer["applied"].as_array().map(Vec::len)), (200, Some(0)), "{answer}");
    assert_eq!(answer["restart"][0], "p2ps.max_fragment_size = 5000 (was 6144)", "said until it is done: {answer}");
}

#[test]
fn a_stop_sends_clients_elsewhere_and_a_second_one_waits_for_nobody() {
    for (signals, drain_s) in [(1, 0), (2, 600)] {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("q.toml");
        let text = format!("[p2ps]\ndrain_time_s = {drain_s}\nredirect_text = \"Use mdhost2:14002\"\n");
        std::fs::write(&file, text).expect("written");
        let mut server = serve(&file);
        let _clients: Vec<Consumer> = (0..20).map(|_| consumer(&server)).collect();
        server.wait_for("/api/v1/clients", |_, body| body.matches("\"protocol\"").count() == 20);
        signal(&server, "TERM");
        if signals == 2 {
            // The first has begun a drain that takes ten minutes.
            server.wait_for("/api/v1/events", |_, body| body.contains("its 20 clients are sent elsewhere"));
            signal(&server, "TERM");
        }
        assert!(server.child.wait().expect("it ends").success());
    }
}

#[test]
fn a_blocked_item_is_nobodys() {
    let demo = demo(&["IBM.N", "TRI.N", "EUR="]);
    // The demo's own view, and the history of the page's chart.
    let watched = |_, body: &str| body.contains("\"open\"") && body.contains("\"watchers\":2,");
    let item = demo.wait_for("/api/v1/items/DIRECT_FEED/IBM.N", watched);
    let item: Value = serde_json::from_str(&item).expect("JSON");
    assert_eq!(item[0]["source"].as_u64(), Some(0), "{item}");
    let body = "{\"service\":\"DIRECT_FEED\",\"name\":\"IBM.N\",\"why\":\"wrong prices\"}";
    let (status, answer) = post(&demo, "/api/v1/block", body);
    assert!(status == 200 && answer["done"].as_str().is_some_and(|done| done.contains("its 2 watchers")), "{answer}");
    assert_eq!(post(&demo, "/api/v1/block", body).0, 409, "it is already");
    assert_eq!(demo.json("/api/v1/blocked")[0]["why"], "wrong prices");
    demo.wait_for("/api/v1/items/DIRECT_FEED/IBM.N", |status, _| status == 404);
    assert_eq!(demo.get("/api/v1/items/DIRECT_FEED/TRI.N").0, 200, "others are not concerned");
    demo.wait_for("/api/v1/events", |_, body| body.contains("audit: operator local") && body.contains("is blocked"));
    assert_eq!(post(&demo, "/api/v1/unblock", body).0, 200);
    assert_eq!(post(&demo, "/api/v1/unblock", body).0, 404);
    assert_eq!(demo.json("/api/v1/blocked"), Value::Array(Vec::new()));
    // The same by ctl.
    let at = demo.web();
    let ctl = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quoteway"));
        let output = command.args(["ctl", "--at", &at]).args(args).output().expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (done, text) = ctl(&["item", "DIRECT_FEED", "TRI.N"]);
    assert!(done && text.contains("name: TRI.N") && text.contains("ago s"), "{text}");
    let (done, text) = ctl(&["block", "DIRECT_FEED", "TRI.N", "--why", "a test"]);
    assert!(done && text.contains("is blocked"), "{text}");
    let (_, text) = ctl(&["blocked"]);
    assert!(text.contains("DIRECT_FEED  TRI.N  a test"), "{text}");
    let (done, text) = ctl(&["reload", "--why", "a test"]);
    assert!(done && text.contains("nothing has changed"), "{text}");
    let folder = tempfile::tempdir().expect("a folder");
    let dumped = folder.path().join("dump");
    let dumped = dumped.to_str().expect("text");
    let (done, text) = ctl(&["dump", dumped]);
    assert!(done && text.contains("clients.jsonl") && text.contains("items.jsonl"), "{text}");
    let read = |name: &str| std::fs::read_to_string(folder.path().join("dump").join(name)).expect(name);
    let rows = |name: &str| -> Vec<Value> {
        read(name).lines().map(|line| serde_json::from_str(line).expect("a row")).collect()
    };
    // A blocked item has no watchers, and so is in no list of what is watched.
    assert!(rows("items.jsonl").iter().any(|item| item["name"] == "EUR="), "{}", read("items.jsonl"));
    assert!(!rows("clients.jsonl").is_empty() && read("services.json").contains("DIRECT_FEED"));
    assert!(read("blocked.json").contains("TRI.N") && read("log.json").contains("is blocked"));
    let (done, text) = ctl(&["dump", dumped]);
    assert!(!done && text.contains("is there already"), "{text}");
    let (done, text) = ctl(&["permissions", "users"]);
    assert!(!done && text.contains("permissions are off"), "{text}");
    assert!(ctl(&["log-level", "debug"]).0);
    // A trace of the demo's own consumer, as text.
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("trace.pcap");
    let file = file.to_str().expect("UTF-8");
    let id = client_ids(&demo).pop().expect("a client");
    let (done, text) = ctl(&["trace", &id, "--seconds", "2", "-o", file, "--why", "a test"]);
    assert!(done && text.contains("quoteway dump --port"), "{text}");
    let port = text.trim().rsplit("--port ").next().and_then(|rest| rest.split(' ').next()).expect("a port");
    let dump = Command::new(env!("CARGO_BIN_EXE_quoteway")).args(["dump", "--port", port, file]).output();
    let dump = dump.expect("it runs");
    let text = String::from_utf8_lossy(&dump.stdout);
    assert!(dump.status.success() && text.contains("UPDATE"), "{text}\n{}", String::from_utf8_lossy(&dump.stderr));
    assert!(!ctl(&["trace", &id, "-o", file, "--why", "a test"]).0, "nothing is overwritten");
}

#[test]
fn items_are_blocked_by_a_file_that_a_reload_reads_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let (file, list) = (dir.path().join("q.toml"), dir.path().join("blocked"));
    std::fs::write(&list, "# none yet\n").expect("written");
    let text = format!("[p2ps]\nblocked_items_file = [\"{}\"]\n", list.display());
    std::fs::write(&file, text).expect("written");
    let server = serve(&file);
    assert_eq!(server.json("/api/v1/blocked"), Value::Array(Vec::new()));
    std::fs::write(&list, "A\nB\n").expect("written");
    let (status, answer) = post(&server, "/api/v1/reload", "{\"why\":\"a test\"}");
    assert_eq!(status, 200, "{answer}");
    let blocked = server.json("/api/v1/blocked");
    assert_eq!(blocked.as_array().map(Vec::len), Some(2), "{blocked}");
    let (status, answer) = post(&server, "/api/v1/unblock", "{\"service\":\"X\",\"name\":\"A\",\"why\":\"a test\"}");
    assert!(status == 409 && answer.to_string().contains("blocked_items_file"), "{status} {answer}");
    std::fs::remove_file(&list).expect("removed");
    let (status, answer) = post(&server, "/api/v1/reload", "{\"why\":\"a test\"}");
    assert!(status == 422 && answer.to_string().contains("cannot be read"), "{status} {answer}");
    assert_eq!(server.json("/api/v1/blocked"), blocked, "what cannot be read changes nothing");
}

#[test]
fn items_have_priorities_by_a_file_and_operators_lock_them() {
    let dir = tempfile::tempdir().expect("a folder");
    let (file, list) = (dir.path().join("q.toml"), dir.path().join("priorities"));
    std::fs::write(&list, "IBM 5\n").expect("written");
    let text = format!("[source_distributor]\nitem_priority_file = [\"FEED:{}\"]\n", list.display());
    std::fs::write(&file, text).expect("written");
    let server = serve(&file);
    std::fs::write(&list, "IBM five\n").expect("written");
    let (status, answer) = post(&server, "/api/v1/reload", "{\"why\":\"a test\"}");
    assert!(status == 422 && answer.to_string().contains("priorities:1: "), "{status} {answer}");
    let at = server.web();
    let ctl = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quoteway"));
        let output = command.args(["ctl", "--at", &at]).args(args).output().expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (done, text) = ctl(&["lock", "FEED", "TRI.N", "--why", "a test"]);
    assert!(done && text.contains("is locked"), "{text}");
    assert!(!ctl(&["lock", "FEED", "TRI.N", "--why", "again"]).0);
    let (_, text) = ctl(&["locked"]);
    assert!(text.contains("FEED     TRI.N  a test"), "{text}");
    server.wait_for("/api/v1/events", |_, body| body.contains("audit: operator local") && body.contains("is locked"));
    assert!(ctl(&["unlock", "FEED", "TRI.N", "--why", "a test"]).0);
    assert!(!ctl(&["unlock", "FEED", "TRI.N", "--why", "a test"]).0);
    assert_eq!(server.json("/api/v1/locked"), Value::Array(Vec::new()));
}

#[test]
fn administrators_ask_and_act_on_permissions() {
    let dir = tempfile::tempdir().expect("a folder");
    let (file, rights) = (dir.path().join("q.toml"), dir.path().join("rights.toml"));
    std::fs::write(&rights, "version = \"1\"\n[services.FEED]\nid = 1\n[users.alice]\n").expect("written");
    std::fs::write(&file, format!("[permissions]\nmode = \"on\"\nrights_file = {rights:?}\n")).expect("written");
    let server = serve(&file);
    assert_eq!(server.json("/api/v1/permissions/users"), Value::Array(Vec::new()));
    let denied = server.json("/api/v1/permissions/explain?user=bob&service=FEED&item=IBM");
    assert_eq!(denied["granted"], false, "{denied}");
    assert_eq!(server.get("/api/v1/permissions/explain?user=bob").0, 400);
    assert_eq!(server.json("/api/v1/permissions/who?service=FEED&pe=62"), Value::Array(Vec::new()));
    assert_eq!(server.get("/api/v1/permissions/who?service=FEED").0, 400);
    assert_eq!(server.json("/api/v1/permissions/usage"), Value::Array(Vec::new()));
    assert_eq!(post(&server, "/api/v1/permissions/logout", "{\"user\":\"bob\",\"why\":\"a test\"}").0, 404);
    assert_eq!(post(&server, "/api/v1/permissions/repermission", "{\"why\":\"a test\"}").0, 200);
    server.wait_for("/api/v1/events", |_, body| body.contains("what everybody has open is checked again"));
}

#[test]
fn the_log_is_json_where_that_is_wanted() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("q.toml");
    std::fs::write(&file, "[log]\nformat = \"json\"\n").expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quoteway"));
    command.args(PORTS).args(["--config", file.to_str().expect("UTF-8")]).env("QUOTEWAY_LOG", "info");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut out = BufReader::new(child.stdout.take().expect("piped")).lines();
    let ready = out.by_ref().map_while(Result::ok).find(|line| line.starts_with("ready")).expect("it is ready");
    std::thread::spawn(move || out.for_each(drop));
    let mut server = Process { child, ready };
    assert_eq!(post(&server, "/api/v1/log", "{\"level\":\"info\"}").0, 200);
    signal(&server, "TERM");
    let mut text = String::new();
    server.child.stderr.take().expect("piped").read_to_string(&mut text).expect("UTF-8");
    let audit = text.lines().find(|line| line.contains("audit")).unwrap_or_else(|| panic!("no audit in {text}"));
    let line: Value = serde_json::from_str(audit).expect("JSON");
    assert_eq!(line["level"], "info");
    assert!(line["text"].as_str().is_some_and(|text| text.starts_with("audit: operator local")), "{line}");
}
