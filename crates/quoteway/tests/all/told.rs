//! Operators are told of items what a client on the socket was told of them, and of images no more than a user of the page may see.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::batches::Json;
use crate::http::{Process, serve};
use crate::steering::{Program, consumer_of, ctl, source};

const NAMES: [&str; 3] = ["RDT0", "RDT1", "RDT2"];

/// A client that has the three items, and hears what becomes of them.
fn watching(server: &Process) -> Json {
    let port = server.at("rssl").rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let mut client = Json::connect(port);
    client.say(&json!({"ID": 1, "Domain": "Login", "Key": {"Name": "user"}}));
    client.until(|msg| msg["Type"] == "Refresh" && msg["Domain"] == "Login", |_| {});
    client.say(&json!({"ID": 2, "Domain": "Source", "Key": {"Filter": 63}}));
    client.until(|msg| msg["Domain"] == "Source" && msg.to_string().contains("DIRECT_FEED"), |_| {});
    for (id, name) in (5..).zip(NAMES) {
        client.say(&json!({"ID": id, "Key": {"Name": name, "Service": "DIRECT_FEED"}}));
        client.until(|msg| msg["ID"] == id && msg["Type"] == "Refresh", |_| {});
    }
    client
}

/// The state of an item as a message tells it, in the words of the administration.
fn state(msg: &Value) -> Option<(String, String)> {
    let word = |name: &str| msg["State"][name].as_str().map(str::to_uppercase);
    Some((word("Stream")?, word("Data")?))
}

/// Reads until the first item's state is told; gives it.
fn next_state(client: &mut Json) -> (String, String) {
    let mut told = None;
    client.until(
        |msg| msg["ID"] == 5 && state(msg).is_some(),
        |msg| {
            told = if msg["ID"] == 5 { state(msg).or(told.take()) } else { told.take() };
        },
    );
    told.expect("it was told")
}

/// The administration, `ctl` and the metrics say the same of the service: so many items are suspect, and it is up or not.
fn says(server: &Process, suspect: u64, up: bool) {
    let is_so = |body: &str| {
        let services: Value = serde_json::from_str(body).expect("JSON");
        services[0]["suspect"] == suspect && services[0]["up"] == up
    };
    server.wait_for("/api/v1/services", |status, body| status == 200 && is_so(body));
    let metrics = server.get("/metrics").2;
    let gauge = |name: &str| format!("quoteway_service_{name}{{service=\"DIRECT_FEED\"}} ");
    let value = |name: &str| metrics.lines().find_map(|line| line.strip_prefix(&gauge(name))?.parse::<u64>().ok());
    assert_eq!((value("items_suspect"), value("up")), (Some(suspect), Some(u64::from(up))));
    let found = server.json("/api/v1/items?state=suspect");
    assert_eq!(found["found"].as_array().map(Vec::len), Some(suspect as usize), "{found}");
    let (_, table) = ctl(server, &["items", "--state", "suspect"]);
    assert_eq!(table.lines().count() as u64, 1 + suspect, "{table}");
}

/// The last state that the administration has of the first item.
fn last_change(server: &Process) -> (String, String) {
    let items = server.json("/api/v1/items/DIRECT_FEED/RDT0");
    let last = items[0]["changes"].as_array().and_then(|all| all.last().cloned()).expect("something was told");
    let word = |name: &str| last[name].as_str().unwrap_or_default().replace('_', "");
    (word("stream"), word("data"))
}

#[test]
fn suspect_items_and_services_that_are_down_are_seen_as_clients_hear_of_them() {
    let (mut feed, at) = source();
    // The client hears nothing while the test looks elsewhere.
    let dir = tempfile::tempdir().expect("a folder");
    let config = dir.path().join("q.toml");
    std::fs::write(&config, "[p2ps]\nwebsocket_ping_timeout_s = 255\n").expect("written");
    let server = serve(&["--route", &at, "--config", config.to_str().expect("UTF-8")]);
    let mut client = watching(&server);
    says(&server, 0, true);
    let mut order = |words: &str| {
        let stdin = feed.0.stdin.as_mut().expect("piped");
        stdin.write_all(words.as_bytes()).and_then(|()| stdin.flush()).expect("it reads");
    };
    order("suspect RDT0\n");
    let told = next_state(&mut client);
    assert_eq!(told, ("OPEN".to_owned(), "SUSPECT".to_owned()));
    says(&server, 1, true);
    assert_eq!(last_change(&server), told);
    order("ok RDT0\n");
    assert_eq!(next_state(&mut client).1, "OK");
    says(&server, 0, true);
    // All of them.
    order("suspect\n");
    assert_eq!(next_state(&mut client), last_change(&server));
    says(&server, 3, true);
    order("ok\n");
    assert_eq!(next_state(&mut client).1, "OK");
    says(&server, 0, true);
    order("down\n");
    client.until(|msg| msg["Domain"] == "Source" && msg.to_string().contains("\"ServiceState\":0"), |_| {});
    server.wait_for("/api/v1/services", |_, body| body.contains("\"up\":false"));
    order("up\n");
    client.until(|msg| msg["Domain"] == "Source" && msg.to_string().contains("\"ServiceState\":1"), |_| {});
    server.wait_for("/api/v1/services", |_, body| body.contains("\"up\":true"));
    // The provider goes: those who watch all of its items hear it by their directory, once for all.
    let _ = feed.0.kill();
    client.until(|msg| msg["Domain"] == "Source" && msg.to_string().contains("\"Data\":\"Suspect\""), |_| {});
    assert_eq!(last_change(&server), ("OPEN".to_owned(), "SUSPECT".to_owned()));
    says(&server, 3, false);
}

#[test]
fn an_image_is_shown_to_those_who_might_have_it_from_the_page() {
    let dir = tempfile::tempdir().expect("a folder");
    let (rights, config) = (dir.path().join("rights.toml"), dir.path().join("q.toml"));
    std::fs::write(
        &rights,
        "version = \"1\"\n[services.DIRECT_FEED]\nid = 1\nguard = \"subject\"\n\
         [services.DIRECT_FEED.subservices]\nEQUITIES = \"exchange\"\nRATES = \"exchange\"\n\
         [services.DIRECT_FEED.subjects]\n\"RDT0\" = \"RATES\"\n\"RDT*\" = \"EQUITIES\"\n\
         [users.web.grants]\nDIRECT_FEED = [\"EQUITIES\"]\n\
         [users.trader.grants]\nDIRECT_FEED = [\"EQUITIES\", \"RATES\"]\n",
    )
    .expect("written");
    let text =
        format!("[p2ps]\nenable_cache = true\n[permissions]\nmode = \"on\"\nrights_file = \"{}\"\n", rights.display());
    std::fs::write(&config, text).expect("written");
    let (_feed, at) = source();
    let server = serve(&["--route", &at, "--config", config.to_str().expect("UTF-8")]);
    let _trader: Program = consumer_of(&server, &["-u", "trader", "-il", "RDT{0..1}"]);
    let open = |_: u16, body: &str| body.contains("\"state\":\"open\"");
    let allowed = server
        .wait_for("/api/v1/items/DIRECT_FEED/RDT1", |status, body| open(status, body) && body.contains("\"Fields\""));
    assert!(!allowed.contains("image_denied"), "{allowed}");
    let denied = server
        .wait_for("/api/v1/items/DIRECT_FEED/RDT0", |status, body| open(status, body) && body.contains("image_denied"));
    let denied: Value = serde_json::from_str(&denied).expect("JSON");
    assert!(denied[0]["image"].is_null() && denied[0]["image_denied"].to_string().contains("RATES"), "{denied}");
    // By its number, too.
    let id = denied[0]["item"]["id"].as_str().expect("an id");
    let by_number = server.json(&format!("/api/v1/items/{id}"));
    assert!(by_number["image"].is_null() && by_number["image_denied"].is_string(), "{by_number}");
    let events = server.wait_for("/api/v1/events", |_, body| body.contains("was shown the image of"));
    assert!(events.contains("was shown the image of item RDT1 of service DIRECT_FEED"), "{events}");
    assert!(!events.contains("was shown the image of item RDT0"), "{events}");
    let (_, text) = ctl(&server, &["item", "DIRECT_FEED", "RDT0"]);
    assert!(text.contains("image denied:") && !text.contains("\nimage:"), "{text}");
}
