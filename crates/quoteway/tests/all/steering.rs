//! An operator looks at a server with two providers, at the hub between processes, and moves items from one provider to the other.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::http::{Process, ask, start};

/// A program that ends with the test.
pub(crate) struct Program(pub(crate) Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quoteway"));
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A source that takes connections, and where.
pub(crate) fn source() -> (Program, String) {
    source_of(&[])
}

/// The same with more to its command line.
pub(crate) fn source_of(more: &[&str]) -> (Program, String) {
    let args = ["sink-driven-src", "--bind", "127.0.0.1", "-N", "0", "-K"];
    let rate: &[&str] = if more.contains(&"-U") { &[] } else { &["-U", "200"] };
    let mut child = program(&[&args[..], rate, more].concat())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the source starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let line = lines.by_ref().map_while(Result::ok).find(|line| line.contains("is published on")).expect("it is ready");
    std::thread::spawn(move || lines.for_each(drop));
    let at = line.split(" on ").nth(1).and_then(|rest| rest.split(';').next()).expect("an address").to_owned();
    (Program(child), at)
}

/// A consumer of three items that stays until the test ends.
pub(crate) fn consumer(server: &Process) -> Program {
    consumer_of(server, &["-il", "RDT{0..2}"])
}

pub(crate) fn consumer_of(server: &Process, what: &[&str]) -> Program {
    let port = server.at("rssl");
    let port = port.rsplit(':').next().expect("a port");
    let args = ["test-client", "-h", "127.0.0.1", "-p", port, "--seconds", "600"];
    Program(program(&[&args, what].concat()).spawn().expect("it starts"))
}

pub(crate) fn ctl(server: &Process, args: &[&str]) -> (bool, String) {
    let mut command = program(&["ctl", "--at", &server.web()]);
    let output = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("it runs");
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// The items open at each provider of the first service, in the order of the routes that count.
fn open_at(services: &str) -> Vec<(String, u64)> {
    let services: Value = serde_json::from_str(services).expect("JSON");
    let offers = services[0]["providers"].as_array().into_iter().flatten();
    offers.map(|o| (o["address"].as_str().unwrap_or_default().to_owned(), o["open"].as_u64().unwrap_or(0))).collect()
}

fn server(dir: &Path, choice: &str, routes: [&str; 2]) -> Process {
    let file = dir.join("q.toml");
    let routes = routes.map(|at| format!("[[route]]\nhost_list = [\"{at}\"]\n")).concat();
    let text = format!("[p2ps]\nenable_cache = true\n[source_distributor]\nprovider_choice = \"{choice}\"\n{routes}");
    std::fs::write(&file, text).expect("written");
    let ports = ["serve", "--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0", "--http-port", "0"];
    start(&[&ports[..], &["--config", file.to_str().expect("UTF-8")]].concat())
}

#[test]
fn items_go_to_the_standby_and_back_by_hand() {
    let dir = tempfile::tempdir().expect("a folder");
    let ((_one, first), (_two, second)) = (source(), source());
    let server = server(dir.path(), "first", [&first, &second]);
    server.wait_for("/api/v1/providers", |_, body| body.matches("\"state\":\"ready\"").count() == 2);
    let _consumer = consumer(&server);
    let at = |address: &str, body: &str| open_at(body).iter().any(|(of, open)| of == address && *open == 3);
    server.wait_for("/api/v1/services", |_, body| at(&first, body));

    let post = |body: &str| ask(&server.web(), "POST", "/api/v1/switch", body, &[]);
    assert_eq!(post("{\"service\":\"DIRECT_FEED\"}").0, 400, "why is wanted");
    let (status, _, said) = post("{\"service\":\"DIRECT_FEED\",\"provider\":\"nobody:1\",\"why\":\"x\"}");
    assert!(status == 409 && said.contains(&first) && said.contains(&second), "{said}");
    assert_eq!(post("{\"service\":\"NONE\",\"why\":\"x\"}").0, 409);
    let (status, _, said) =
        post(&format!("{{\"service\":\"DIRECT_FEED\",\"provider\":\"{second}\",\"why\":\"first is replaced\"}}"));
    assert!(status == 200 && said.contains("3 items go there: first is replaced"), "{said}");
    server.wait_for("/api/v1/services", |_, body| at(&second, body));
    server.wait_for("/api/v1/events", |_, body| {
        body.contains("audit: operator local")
            && body.contains(&format!("items of service DIRECT_FEED go from provider {first}"))
    });
    // Its watchers were told, are open again, and the image is the new provider's.
    let item = server.wait_for("/api/v1/items/DIRECT_FEED/RDT1", |status, body| {
        status == 200 && body.contains("Item goes from provider") && body.contains("\"current\":true")
    });
    let item: Value = serde_json::from_str(&item).expect("JSON");
    assert_eq!((item[0]["item"]["state"].as_str(), item[0]["item"]["watchers"].as_u64()), (Some("open"), Some(1)));
    assert!(item[0]["image"]["refresh"]["Fields"].is_object(), "{item}");

    let (done, text) = ctl(&server, &["switch", "DIRECT_FEED", "--why", "first is back"]);
    assert!(done && text.contains("is switched to the first provider of its routes"), "{text}");
    server.wait_for("/api/v1/services", |_, body| at(&first, body));
    let (done, text) = ctl(&server, &["item", "DIRECT_FEED", "RDT1"]);
    assert!(done && text.contains("Item goes from provider") && text.contains("\nimage"), "{text}");
    let (done, text) = ctl(&server, &["items", "rdt", "--state", "open"]);
    assert!(done && text.lines().count() == 4, "{text}");
    assert_eq!(ctl(&server, &["items", "--state", "suspect"]).1.lines().count(), 1);
    // The bytes of the connections are known.
    let clients = server.json("/api/v1/clients");
    assert!(clients["found"][0]["traffic"]["sent_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{clients}");
    let providers = server.json("/api/v1/providers");
    assert!(providers[0]["traffic"]["received_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{providers}");
    assert_eq!(server.json("/api/v1/hub"), Value::Array(Vec::new()), "both halves are here");
}

#[test]
fn the_log_says_who_has_the_items_of_a_provider_that_is_gone() {
    let dir = tempfile::tempdir().expect("a folder");
    let ((one, first), (two, second)) = (source(), source());
    let server = server(dir.path(), "first", [&first, &second]);
    let _consumer = consumer(&server);
    let has = |provider: &str, body: &str| open_at(body).iter().any(|(at, items)| at == provider && *items == 3);
    server.wait_for("/api/v1/services", |_, body| has(&first, body));
    drop(one);
    let moved = format!("provider {first} is gone: closed by the peer; 3 items of service DIRECT_FEED go to {second}");
    server.wait_for("/api/v1/events", |_, body| body.contains(&moved));
    server.wait_for("/api/v1/services", |_, body| has(&second, body));
    drop(two);
    let left = format!(
        "provider {second} is gone: closed by the peer; 3 items of service DIRECT_FEED are Suspect: no other provider has it"
    );
    server.wait_for("/api/v1/events", |_, body| body.contains(&left));
}

#[test]
fn a_hot_standby_takes_over_from_a_provider_that_is_gone() {
    let dir = tempfile::tempdir().expect("a folder");
    let ((one, first), (_two, second)) = (source(), source());
    let server = server(dir.path(), "hot", [&first, &second]);
    let _consumer = consumer(&server);
    // The items are open at both, whichever of them came first.
    server.wait_for("/api/v1/services", |_, body| {
        let open = open_at(body);
        open.len() == 2 && open.iter().all(|(_, items)| *items == 3)
    });
    let (moved, said) = ctl(&server, &["switch", "DIRECT_FEED", &first, "--why", "it is to be the one that is used"]);
    assert!(moved, "{said}");
    drop(one);
    server.wait_for("/api/v1/events", |_, body| {
        body.contains(&format!("3 items of service DIRECT_FEED go on at the hot standby of provider {first}"))
    });
    // Watchers were told nothing of it, and are served.
    for name in ["RDT0", "RDT1", "RDT2"] {
        let item = server.wait_for(&format!("/api/v1/items/DIRECT_FEED/{name}"), |status, body| {
            status == 200 && body.contains("\"current\":true")
        });
        assert!(!item.contains("Suspect") && !item.contains("lost"), "{item}");
    }
    let at = |address: &str, body: &str| open_at(body).iter().any(|(of, open)| of == address && *open == 3);
    server.wait_for("/api/v1/services", |_, body| at(&second, body));
}

#[test]
fn a_service_group_goes_on_with_its_next_member_and_says_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let ((one, first), (_two, second)) = (source_of(&["-S", "FEED_A"]), source_of(&["-S", "FEED_B"]));
    let file = dir.path().join("q.toml");
    // The route of the first member comes last.
    let routes = [&second, &first].map(|at| format!("[[route]]\nhost_list = [\"{at}\"]\n")).concat();
    let group = "service_group_list = [\"DIRECT_FEED=FEED_A|FEED_B\"]";
    std::fs::write(&file, format!("[source_distributor]\n{group}\n{routes}")).expect("written");
    let ports = ["serve", "--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0", "--http-port", "0"];
    let server = start(&[&ports[..], &["--config", file.to_str().expect("UTF-8")]].concat());
    let offers = |body: &str| -> Vec<(String, u64)> {
        let services: Value = serde_json::from_str(body).expect("JSON");
        let group = services.as_array().and_then(|all| all.iter().find(|service| service["name"] == "DIRECT_FEED"));
        let offers = group.and_then(|group| group["providers"].as_array()).into_iter().flatten();
        offers
            .map(|o| (o["served_from"].as_str().unwrap_or_default().to_owned(), o["open"].as_u64().unwrap_or(0)))
            .collect()
    };
    server.wait_for("/api/v1/services", |_, body| offers(body).len() == 2);
    let _consumer = consumer(&server);
    server.wait_for("/api/v1/services", |_, body| offers(body) == [("FEED_A".to_owned(), 3), ("FEED_B".to_owned(), 0)]);
    let (done, text) = ctl(&server, &["services"]);
    assert!(done && text.contains(&format!("{first} (FEED_A, 3), {second} (FEED_B, 0)")), "{text}");
    drop(one);
    server.wait_for("/api/v1/services", |_, body| offers(body) == [("FEED_B".to_owned(), 3)]);
    server.wait_for("/api/v1/events", |_, body| {
        body.contains(&format!("service group DIRECT_FEED is served from service FEED_B of provider {second}"))
    });
}

#[test]
fn a_provider_that_sends_more_than_it_may_is_held_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_one, at) = source_of(&["-U", "20000"]);
    let file = dir.path().join("q.toml");
    let route = format!("[[route]]\nhost_list = [\"{at}\"]\nmax_incoming_messages_per_second = 2000\n");
    std::fs::write(&file, route).expect("written");
    let ports = ["serve", "--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0", "--http-port", "0"];
    let server = start(&[&ports[..], &["--config", file.to_str().expect("UTF-8")]].concat());
    let _consumer = consumer(&server);
    server.wait_for("/api/v1/events", |_, body| {
        body.contains(&format!("provider {at} sends more than it may (0 bytes, 2000 messages a second"))
    });
    let number = |body: &str, name: &str| {
        let line = body.lines().find(|line| line.starts_with(name)).and_then(|line| line.rsplit(' ').next());
        line.and_then(|number| number.parse::<f64>().ok()).unwrap_or(0.0)
    };
    // The server goes on, a tenth of a second at a time.
    let metrics = server.wait_for("/metrics", |_, body| number(body, "quoteway_providers_rate_pauses") >= 5.0);
    assert!(number(&metrics, "quoteway_providers_over_rate") >= 1.0, "{metrics}");
    let updates = number(&metrics, "quoteway_source_distributor_updates");
    server.wait_for("/metrics", |_, body| number(body, "quoteway_source_distributor_updates") >= updates + 1_000.0);
}

#[test]
fn a_client_that_asks_faster_than_it_may_is_slowed_and_no_other() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_one, at) = source_of(&["-U", "1000"]);
    let file = dir.path().join("q.toml");
    let text = format!("[p2ps]\nmax_incoming_messages_per_second = 1000\n[[route]]\nhost_list = [\"{at}\"]\n");
    std::fs::write(&file, text).expect("written");
    let ports = ["serve", "--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0", "--http-port", "0"];
    let server = start(&[&ports[..], &["--config", file.to_str().expect("UTF-8")]].concat());
    let _consumer = consumer(&server);
    let number = |body: &str, name: &str| {
        let line = body.lines().find(|line| line.starts_with(name)).and_then(|line| line.rsplit(' ').next());
        line.and_then(|number| number.parse::<f64>().ok()).unwrap_or(0.0)
    };
    let sent = "quoteway_p2ps_messages_out";
    server.wait_for("/metrics", |_, body| {
        number(body, sent) > 1.0 && number(body, "quoteway_consumers_rate_pauses") == 0.0
    });
    // More items than a client may ask for in some seconds.
    let _greedy = consumer_of(&server, &["-il", "GREEDY{0..4999}", "-o", "5000"]);
    server.wait_for("/api/v1/events", |_, body| {
        body.contains("sends more than it may (0 bytes, 1000 messages a second") && body.contains("client 127.0.0.1:")
    });
    let metrics = server.wait_for("/metrics", |_, body| number(body, "quoteway_consumers_rate_pauses") >= 5.0);
    assert!(number(&metrics, "quoteway_consumers_over_rate") < 1.5, "the other one is read: {metrics}");
    // The client gets all of it.
    server.wait_for("/metrics", |_, body| number(body, "quoteway_p2ps_items{") >= 5_000.0);
}

#[test]
fn clients_go_elsewhere_while_their_services_are_down() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("q.toml");
    let text = "[p2ps]\ndisconnect_src_down = true\ndisconnect_after_s = 0\nredirect_text = \"Use mdhost2:14002\"\n\
                [source_distributor]\nage_unpublished_s = 1\n";
    std::fs::write(&file, text).expect("written");
    let ports = ["serve", "--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0", "--http-port", "0"];
    let server = start(&[&ports[..], &["--config", file.to_str().expect("UTF-8")]].concat());
    let out = "(disconnectSrcDown): All services are down at this server. Use mdhost2:14002";
    server.wait_for("/api/v1/events", |_, body| body.contains(out));
    {
        let _too_early = consumer(&server);
        let refused = "This server takes no new clients: All services are down at this server";
        server.wait_for("/api/v1/events", |_, body| body.contains(refused));
    }
    let publisher = ["sink-driven-src", "--nip", &server.at("nip"), "--items", "RDT{0..2}", "-U", "100", "-K"];
    let publisher = Program(program(&publisher).spawn().expect("it starts"));
    server.wait_for("/api/v1/events", |_, body| body.contains("clients are taken again: their services are up"));
    let _consumer = consumer(&server);
    server.wait_for("/api/v1/clients", |_, body| body.contains("\"protocol\""));
    drop(publisher);
    server.wait_for("/api/v1/events", |_, body| body.matches(out).count() == 2);
    server.wait_for("/api/v1/clients", |_, body| !body.contains("\"protocol\""));
}

/// A Source Distributor with this route, on a hub over TCP.
fn distributor(config: &[&str], route: &str) -> Process {
    let ports = ["--nip-port", "0", "--hub-port", "0", "--interface", "127.0.0.1", "--http-port", "0"];
    start(&[&["source-distributor", "--route", route][..], &ports, config].concat())
}

#[test]
fn a_p2ps_asks_its_distributors_in_order_and_switches_by_hand() {
    let dir = tempfile::tempdir().expect("a folder");
    let ((_one, first), (_two, second)) = (source(), source());
    let plain = dir.path().join("plain.toml");
    std::fs::write(&plain, "[hub]\ntransport = \"tcp\"\n").expect("written");
    let plain = ["--config", plain.to_str().expect("UTF-8")];
    let (one, two) = (distributor(&plain, &first), distributor(&plain, &second));
    let (one, two) = (one.at("hub"), two.at("hub"));
    // The one that is configured last comes first.
    let file = dir.path().join("q.toml");
    let text = format!(
        "[hub]\ntransport = \"tcp\"\nsource_distributors = [\"{one}\", \"{two}\"]\n[p2ps]\nsource_distributor_order = [\"{two}\", \"{one}\"]\n"
    );
    std::fs::write(&file, &text).expect("written");
    let ports = ["--rssl-port", "0", "--interface", "127.0.0.1", "--http-port", "0"];
    let server = start(&[&["p2ps"][..], &ports, &["--config", file.to_str().expect("UTF-8")]].concat());
    let listed = |body: &str| open_at(body).into_iter().map(|(of, _)| of).collect::<Vec<_>>();
    server.wait_for("/api/v1/services", |_, body| listed(body) == [two.clone(), one.clone()]);
    let _consumer = consumer(&server);
    let at = |address: &str, body: &str| open_at(body).iter().any(|(of, open)| of == address && *open == 3);
    server.wait_for("/api/v1/services", |_, body| at(&two, body));

    let (done, text) = ctl(&server, &["switch", "DIRECT_FEED", "nobody", "--why", "x"]);
    assert!(!done && text.contains(&one) && text.contains(&two), "{text}");
    let (done, text) = ctl(&server, &["switch", "DIRECT_FEED", &one, "--why", "two is replaced"]);
    assert!(done && text.contains("3 items go there: two is replaced"), "{text}");
    server.wait_for("/api/v1/services", |_, body| at(&one, body));
    server.wait_for("/api/v1/events", |_, body| {
        body.contains(&format!("3 items of service DIRECT_FEED go from Source Distributor {two} to {one}"))
            && body.contains("service DIRECT_FEED is whole again after")
    });
    let (done, text) = ctl(&server, &["switch", "DIRECT_FEED", "--why", "two is back"]);
    assert!(done && text.contains("the first source distributor of its order"), "{text}");
    server.wait_for("/api/v1/services", |_, body| at(&two, body));
}

#[test]
fn the_image_of_a_page_is_told_as_rows() {
    let dir = tempfile::tempdir().expect("a folder");
    let ((_one, first), (_two, second)) = (source_of(&["-Q", "pages"]), source_of(&["-Q", "pages"]));
    let server = server(dir.path(), "first", [&first, &second]);
    let _consumer = consumer(&server);
    let found = server.wait_for("/api/v1/items/DIRECT_FEED/RDT1", |_, body| body.contains("\"current\":true"));
    let found: Value = serde_json::from_str(&found).expect("JSON");
    let rows = found[0]["image"]["rows"].as_array().expect("rows");
    let row = |n: usize| rows[n].as_str().expect("a text");
    assert!(rows.len() == 25 && row(0).starts_with(" SPOT RATES") && row(24).starts_with("quoteway"), "{rows:?}");
    let (done, text) = ctl(&server, &["item", "DIRECT_FEED", "RDT1"]);
    assert!(done && text.contains("\n SPOT RATES") && text.contains("\nquoteway"), "{text}");
}

#[test]
fn both_ends_of_a_hub_name_the_other() {
    let ports = ["--interface", "127.0.0.1", "--http-port", "0"];
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("q.toml");
    std::fs::write(&file, "[hub]\ntransport = \"tcp\"\n").expect("written");
    let config = ["--config", file.to_str().expect("UTF-8")];
    let distributor = ["source-distributor", "--nip-port", "0", "--hub-port", "0"];
    let distributor = start(&[&distributor[..], &ports, &config].concat());
    let at = distributor.at("hub");
    let p2ps = start(&[&["p2ps", "--rssl-port", "0", "--source-distributor", &at][..], &ports, &config].concat());
    // Looked at as it was then: on a busy machine a link may be lost and made again.
    let joined = |server: &Process| -> Value {
        let body = server.wait_for("/api/v1/hub", |_, body| body.contains("\"state\":\"joined\""));
        serde_json::from_str(&body).expect("JSON")
    };
    let (up, down) = (joined(&p2ps), joined(&distributor));
    assert_eq!(
        (up[0]["kind"].as_str(), up[0]["name"].as_str()),
        (Some("source-distributor"), Some(at.as_str())),
        "{up}"
    );
    assert_eq!((down[0]["kind"].as_str(), down[0]["behind_bytes"].as_u64()), (Some("p2ps"), Some(0)), "{down}");
    assert!(ctl(&p2ps, &["hub"]).1.contains(&at));
}
