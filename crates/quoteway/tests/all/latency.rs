//! How long messages are in a process, told of each client and each provider.

use std::process::{Child, Command, Stdio};

use crate::chain::{config_file, source};
use crate::http::{PORTS, Process, start};

/// A client that watches until the test is over.
struct Watching(Child);

impl Watching {
    fn at(server: &Process) -> Self {
        let address = server.at("rssl");
        let port = address.rsplit(':').next().expect("a port");
        let args = ["test-client", "-h", "127.0.0.1", "-p", port, "-il", "RDT{0..9}", "--seconds", "600"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_quoteway"));
        Self(command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the client runs"))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn server(at: &str, text: &str) -> Process {
    let config = config_file(text);
    let path = config.path().to_str().expect("UTF-8");
    start(&[&PORTS[..], &["--route", at, "--config", path]].concat())
}

/// Whether somebody was measured in an answer.
fn is_measured(body: &str) -> bool {
    body.contains("\"latency\":{\"samples\":")
}

#[test]
fn latency_is_told_of_each_client_and_each_provider_where_that_is_asked_for() {
    let (_source, at) = source(&["-U", "1k"]);
    for threads in [0, 1] {
        let text = format!(
            "[p2ps]\nwriter_thread_count = {threads}\nlatency_calc_mount_based = true\nnum_latency_samples = 10\n\
             [source_distributor]\nlatency_calc_server_based = true\n"
        );
        let server = server(&at, &text);
        let _client = Watching::at(&server);
        for path in ["/api/v1/clients", "/api/v1/providers"] {
            let body = server.wait_for(path, |status, body| status == 200 && is_measured(body));
            let told: serde_json::Value = serde_json::from_str(&body).expect("JSON");
            let latency = found(&told).expect("it was there");
            let (median, tail) = (latency["median_us"].as_f64(), latency["p99_us"].as_f64());
            assert!(median > Some(0.0) && tail >= median, "{path}: {latency}");
        }
        let mounts = server.json("/sharedmem/print/mounts").to_string();
        assert!(mounts.contains("latencyMedianMicroseconds"), "{mounts}");
    }
}

/// The first latency in an answer.
fn found(value: &serde_json::Value) -> Option<&serde_json::Value> {
    match value {
        serde_json::Value::Object(members) => match members.get("latency") {
            Some(latency) if latency.is_object() => Some(latency),
            _ => members.values().find_map(found),
        },
        serde_json::Value::Array(values) => values.iter().find_map(found),
        _ => None,
    }
}

#[test]
fn nothing_is_timed_where_that_is_switched_off() {
    let (_source, at) = source(&["-U", "1k"]);
    let server = server(&at, "[p2ps]\nlatency_calc_enabled = false\nlatency_calc_mount_based = true\n");
    let _client = Watching::at(&server);
    let delivered = |body: &str| {
        let line = body.lines().find(|line| line.starts_with("quoteway_p2ps_updates_out_total"))?;
        line.rsplit(' ').next()?.parse::<f64>().ok()
    };
    // Many more turns than are timed elsewhere.
    let body = server.wait_for("/metrics", |_, body| delivered(body).is_some_and(|updates| updates > 2_000.0));
    let count = body.lines().find(|line| line.starts_with("quoteway_turn_latency_seconds_count")).expect("a histogram");
    assert!(count.ends_with(" 0"), "{count}");
    assert!(!is_measured(&server.get("/api/v1/clients").2));
}
