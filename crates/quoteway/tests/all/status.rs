//! `quoteway serve` tells what it counts, as the separate processes do.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

struct Kill(Child);

impl Drop for Kill {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a server with these flags tells: kind, name, and a counter that every such line has.
fn lines_of(flags: &[&str]) -> Vec<(String, String)> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_quoteway"))
        .args(["serve", "--rssl-port", "0", "--nip-port", "0", "--interface", "127.0.0.1"])
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut ready = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut ready).expect("a line");
    assert!(ready.starts_with("ready"), "{ready}");
    let server = Kill(child);
    let pid = server.0.id().to_string();
    let shown = Command::new(env!("CARGO_BIN_EXE_quoteway"))
        .args(["lbmstat", "--once", "--json", "--pid", &pid])
        .output()
        .expect("it runs");
    let report: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    let things = report["sessions"].as_array().expect("a list").clone();
    let counter = |kind: &str| match kind {
        "source-distributor" => "expired_leases",
        "p2ps" => "clients_cut_off",
        "sockets" => "accepted",
        "log" => "lines_lost",
        "memory" => "huge_pages_refused",
        _ => panic!("an unknown kind {kind}"),
    };
    let line = |thing: &serde_json::Value| {
        let (kind, name) = (thing["kind"].as_str().expect("text"), thing["name"].as_str().expect("text"));
        let value = thing[counter(kind)].as_u64();
        // A kernel without huge pages refuses them.
        assert!(value == Some(0) || kind == "memory" && value.is_some(), "{thing}");
        (kind.to_owned(), name.split('=').next().unwrap_or_default().to_owned())
    };
    let mut lines: Vec<_> = things.iter().map(line).collect();
    lines.sort();
    lines
}

fn pairs(lines: &[(&str, &str)]) -> Vec<(String, String)> {
    lines.iter().map(|(kind, name)| ((*kind).to_owned(), (*name).to_owned())).collect()
}

#[test]
fn a_server_in_one_thread_tells_what_both_halves_count() {
    let all = [("log", ""), ("memory", ""), ("p2ps", "rssl"), ("sockets", "rssl"), ("source-distributor", "hub")];
    assert_eq!(lines_of(&[]), pairs(&all));
}

#[test]
fn each_thread_of_a_server_with_shards_tells_for_itself() {
    let all = [
        ("log", ""),
        ("memory", ""),
        ("p2ps", "rssl"),
        ("p2ps", "rssl"),
        ("sockets", "hub"),
        ("sockets", "rssl"),
        ("sockets", "rssl"),
        ("source-distributor", "hub"),
    ];
    assert_eq!(lines_of(&["--shards", "2"]), pairs(&all));
}
