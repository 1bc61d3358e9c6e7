//! Replays that a server plays itself: steered by HTTP, `ctl` and lines, with the same orders.

use rwf::msg::MsgClass;
use serde_json::Value;

use crate::chain::config_file;
use crate::http::{self, Process};
use crate::recording::{ITEMS, SERVICE, Watcher};
use crate::replaying::{image_of, market, middle};
use crate::steering::ctl;

/// Gives an order by HTTP: the status, and what is said.
fn order(server: &Process, name: &str, body: &str) -> (u16, String) {
    let path = format!("/api/v1/replays/{name}");
    let (status, _, said) = http::ask(&server.web(), "POST", &path, body, &[("Content-Type", "application/json")]);
    (status, said)
}

fn bodies(all: &[Vec<u8>]) -> Vec<Vec<u8>> {
    all.iter().map(|msg| rwf::peek::body(msg).expect("a body").to_vec()).collect()
}

fn replay_of(server: &Process) -> Value {
    server.json("/api/v1/replays")[0].clone()
}

fn rssl_port(server: &Process) -> u16 {
    server.at("rssl").rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

#[test]
fn a_server_plays_a_recording_and_is_steered_by_http_and_ctl() {
    let (folder, watcher) = market();
    let (moment, expected, rest) = middle(folder.path(), &watcher);
    let text = format!(
        "[replay.today]\nfolders = [{:?}]\nitem_patterns = [{:?}]\npaused = true\nat_times = [{moment:?}]\n",
        folder.path().to_str().expect("UTF-8"),
        ITEMS[0],
    );
    let file = config_file(&text);
    let server = http::serve(&["--config", file.path().to_str().expect("UTF-8")]);
    server.wait_for("/readyz", |status, _| status == 200);
    let replay = replay_of(&server);
    assert_eq!((&replay["name"], &replay["state"]), (&"today".into(), &"paused".into()), "{replay}");
    let mut watcher = Watcher::new(rssl_port(&server), SERVICE, &ITEMS[..1]);
    // Who goes to a time gets the image of then.
    assert_eq!(order(&server, "today", &format!("{{\"order\":\"seek {moment}\"}}")).0, 200);
    watcher.until("the image of then", |came| came.iter().any(|(_, msg)| image_of(msg).as_ref() == Some(&expected)));
    let (is_done, said) = ctl(&server, &["replay", "step", "--why", "look"]);
    assert!(is_done && said.contains("step 1: replay today is at"), "{said}");
    watcher.until("an update", |came| came.iter().any(|(_, msg)| rwf::peek::class(msg) == Some(MsgClass::UPDATE)));
    assert_eq!(bodies(&watcher.of(0, MsgClass::UPDATE)), bodies(&rest[..1]), "one, and no other");
    assert_eq!(replay_of(&server)["state"], "paused");
    for words in [&["replay", "speed", "max"][..], &["replay", "go", "--of", "today"]] {
        let (is_done, said) = ctl(&server, words);
        assert!(is_done, "{said}");
    }
    watcher.until("the rest", |came| {
        came.iter().filter(|(_, msg)| rwf::peek::class(msg) == Some(MsgClass::UPDATE)).count() >= rest.len()
    });
    assert_eq!(bodies(&watcher.of(0, MsgClass::UPDATE)), bodies(&rest));
    server.wait_for("/api/v1/replays", |_, text| text.contains("\"state\":\"over\""));
    what_is_told_and_refused(&server);
    // The service as of that time is served beside.
    let short = moment.replace("000Z", "Z").replace("000Z", "Z").replace(".Z", "Z");
    let mut then = Watcher::new(rssl_port(&server), &format!("{SERVICE}@{short}"), &ITEMS[..1]);
    then.until("the image of then", |came| came.iter().any(|(_, msg)| image_of(msg).as_ref() == Some(&expected)));
}

/// Figures of a replay, and what is refused with words that help.
fn what_is_told_and_refused(server: &Process) {
    let profile = server.json("/api/v1/replays/today/profile");
    let records = profile["records"].as_array().expect("a list").iter().filter_map(Value::as_f64).sum::<f64>();
    assert!(records > 10.0 && profile["to_ms"].as_f64() > profile["from_ms"].as_f64(), "{profile}");
    let (_, _, metrics) = server.get("/metrics");
    assert!(metrics.contains("quoteway_replay_time_seconds{replay=\"today\"} 1"), "{metrics}");
    assert!(metrics.contains("quoteway_replay_running{replay=\"today\"} 0"), "{metrics}");
    let (_, said) = ctl(server, &["replay"]);
    assert!(said.contains("today") && said.contains("over"), "{said}");
    for (name, body, status, words) in [
        ("today", "{\"order\":\"fly\"}", 400, "is no order; there are pause"),
        ("today", "{}", 400, "say what"),
        ("today", "{\"order\":\"seek 1999-01-01T00:00:00Z\"}", 409, "the replay goes from 2"),
        ("tomorrow", "{\"order\":\"go\"}", 404, "there are today"),
    ] {
        let (found, said) = order(server, name, body);
        assert!(found == status && said.contains(words), "{body}: {found} {said}");
    }
    let (is_done, said) = ctl(server, &["replay", "fly"]);
    assert!(!is_done && said.contains("is no order"), "{said}");
    // It begins anew, though it was over.
    assert_eq!(order(server, "today", "{\"order\":\"loop on\"}").0, 200);
    server.wait_for("/api/v1/replays", |_, text| text.contains("\"state\":\"running\""));
    assert_eq!(order(server, "today", "{\"order\":\"loop off\"}").0, 200);
}

#[test]
fn a_replay_that_cannot_begin_is_told_with_its_name() {
    let file = config_file("[replay.today]\nfolders = [\"/nowhere/at/all\"]\n");
    let path = file.path().to_str().expect("UTF-8");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_quoteway"))
        .args(["serve", "--rssl-port", "0", "--nip-port", "0", "--http-port", "0", "--config", path])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("[replay.today]: /nowhere/at/all"), "{said}");
}

#[test]
fn one_command_serves_a_recording_with_its_page() {
    let (folder, _) = market();
    let path = folder.path().to_str().expect("UTF-8");
    let ports = ["--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0", "--http-port", "0"];
    let server = http::start(&[&["replay", path, "--serve", "--paused"], &ports[..]].concat());
    assert_eq!(replay_of(&server)["state"], "paused");
    let (status, _, page) = server.get("/replay.js");
    assert!(status == 200 && page.contains("class Replays"), "{status}");
}
