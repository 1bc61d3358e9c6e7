//! Images that outlive their server: killed or stopped and started again, with a file that is whole, damaged or another's; or copied from
//! another one that has them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rwf::DataState;
use rwf::msg::Msg;

use crate::chain::Mount;
use crate::http::{Process, start};
use crate::steering::{Program, program};

const PORTS: [&str; 9] =
    ["serve", "--interface", "127.0.0.1", "--rssl-port", "0", "--nip-port", "0", "--http-port", "0"];

/// A configuration with a persistent cache in a folder.
fn config(folder: &Path, more: &str) -> String {
    let cache = folder.join("cache");
    let text = format!(
        "[source_distributor]\nsupport_persistent_cache = true\npersistent_cache_directory = \"{}\"\n{more}\n",
        cache.display()
    );
    let file = folder.join("q.toml");
    fs::write(&file, text).expect("written");
    file.to_str().expect("UTF-8").to_owned()
}

fn serve(file: &str) -> Process {
    start(&[&PORTS[..], &["--config", file]].concat())
}

/// A publisher of ten items, so many updates a second.
fn publisher(server: &Process, rate: &str) -> Program {
    let (at, items) = (server.at("nip"), "RDT{0..9}");
    Program(
        program(&["sink-driven-src", "--nip", &at, "--items", items, "-U", rate, "-UL", "0", "-K"])
            .spawn()
            .expect("it starts"),
    )
}

fn metric(body: &str, name: &str) -> u64 {
    let value = |line: &str| line.strip_prefix(name)?.rsplit_once(' ')?.1.parse::<f64>().ok();
    body.lines().find_map(value).map_or(0, |value| value as u64)
}

/// Waits until counters are as wanted.
fn wait_for(server: &Process, wanted: impl Fn(&dyn Fn(&str) -> u64) -> bool) {
    server.wait_for("/metrics", |status, body| status == 200 && wanted(&|name| metric(body, name)));
}

const WRITTEN: &str = "quoteway_persistent_cache_records_written_total";
const CHANGED: &str = "quoteway_persistent_cache_records_changed";
const RESTORED: &str = "quoteway_source_distributor_records_restored_total";
const EXPIRED: &str = "quoteway_source_distributor_records_expired_total";

/// A consumer of an item.
fn consumer(server: &Process) -> Mount {
    let port = server.at("rssl").rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let mut mount = Mount::connect(port, None);
    mount.run_until(|seen| seen.service);
    mount.open_items(&["RDT3"]);
    mount
}

/// State and payload, if the message is an image.
fn image(msg: &[u8]) -> Option<(DataState, Vec<u8>)> {
    match Msg::decode(msg).ok()? {
        Msg::Refresh(refresh) => Some((refresh.state.data, refresh.body.to_vec())),
        _ => None,
    }
}

#[test]
fn a_consumer_gets_the_image_of_before_a_kill_and_then_the_providers() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = config(folder.path(), "persistent_interval_ms = 20");
    let mut server = serve(&file);
    let source = publisher(&server, "0");
    let mut before = consumer(&server);
    let (state, content) = before.run_until(|seen| image(&seen.last));
    assert_eq!(state, DataState::OK);
    wait_for(&server, |counter| counter(WRITTEN) >= 10 && counter(CHANGED) == 0);
    // Each was published once, and what is counted is on the disk.
    server.child.kill().expect("killed");
    server.child.wait().expect("gone");
    drop(source);

    let server = serve(&file);
    assert_eq!(metric(&server.get("/metrics").2, RESTORED), 10);
    let mut after = consumer(&server);
    let stale = after.run_until(|seen| image(&seen.last));
    assert_eq!(stale, (DataState::SUSPECT, content), "what it was, as Suspect");
    let _source = publisher(&server, "100");
    let (_, fresh) = after.run_until(|seen| image(&seen.last).filter(|(data, _)| *data == DataState::OK));
    assert!(!fresh.is_empty());
    let images = after.seen.items;
    after.run_until(|seen| (seen.items > images + 5).then_some(()));
    // Clients that come now get the provider's, too.
    assert_eq!(consumer(&server).run_until(|seen| image(&seen.first)).0, DataState::OK);
}

#[test]
fn a_stop_leaves_everything_and_a_start_gives_it_as_it_was_if_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    // No round is due before the stop.
    let more = "persistent_interval_ms = 3600000\n[service.DIRECT_FEED]\npersistent_restore_as_stale = false";
    let file = config(folder.path(), more);
    let mut server = serve(&file);
    let _source = publisher(&server, "2k");
    let mut before = consumer(&server);
    before.run_until(|seen| (seen.items > 100).then_some(()));
    assert_eq!(metric(&server.get("/metrics").2, WRITTEN), 0);
    let pid = server.child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().expect("kill").success());
    assert!(server.child.wait().expect("it ends").success());

    let server = serve(&file);
    assert_eq!(metric(&server.get("/metrics").2, RESTORED), 10);
    let (state, body) = consumer(&server).run_until(|seen| image(&seen.last));
    assert!(state == DataState::OK && !body.is_empty());
}

#[test]
fn records_beyond_their_number_are_not_there_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = config(folder.path(), "persistent_interval_ms = 20\nrecord_max_number = 3");
    let mut server = serve(&file);
    let source = publisher(&server, "0");
    wait_for(&server, |counter| counter(EXPIRED) == 7 && counter(WRITTEN) >= 3 && counter(CHANGED) == 0);
    server.child.kill().expect("killed");
    server.child.wait().expect("gone");
    drop(source);
    let server = serve(&file);
    let restored = metric(&server.get("/metrics").2, RESTORED);
    assert_eq!(restored, 3);
}

#[test]
fn records_beyond_their_age_end_while_a_server_runs_and_while_it_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = config(folder.path(), "persistent_interval_ms = 20\nrecord_max_age_s = 1");
    let mut server = serve(&file);
    let source = publisher(&server, "0");
    wait_for(&server, |counter| counter(EXPIRED) == 10);
    drop(source);
    let source = publisher(&server, "0");
    wait_for(&server, |counter| counter(WRITTEN) >= 20 && counter(CHANGED) == 0);
    server.child.kill().expect("killed");
    server.child.wait().expect("gone");
    drop(source);
    // The records are over a second old when they are read: the file is given to a server only then.
    let written =
        fs::metadata(folder.path().join("cache/records.redb")).and_then(|file| file.modified()).expect("a file");
    while written.elapsed().is_ok_and(|age| age.as_millis() <= 1_100) {
        std::thread::yield_now();
    }
    let server = serve(&file);
    let body = server.get("/metrics").2;
    assert_eq!(metric(&body, RESTORED), 0);
}

#[test]
fn a_damaged_file_is_put_aside_and_said_and_the_server_serves() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = config(folder.path(), "persistent_interval_ms = 20");
    let mut server = serve(&file);
    let source = publisher(&server, "0");
    wait_for(&server, |counter| counter(WRITTEN) >= 10 && counter(CHANGED) == 0);
    server.child.kill().expect("killed");
    server.child.wait().expect("gone");
    drop(source);
    let records = folder.path().join("cache/records.redb");
    let bytes = fs::read(&records).expect("read");
    fs::write(&records, &bytes[..bytes.len() / 3]).expect("cut off");
    let server = serve(&file);
    server.wait_for("/api/v1/events", |_, body| {
        body.contains("records.redb cannot be read") && body.contains("damaged-1")
    });
    assert!(records.with_extension("damaged-1").exists());
    let _source = publisher(&server, "0");
    assert_eq!(consumer(&server).run_until(|seen| image(&seen.last)).0, DataState::OK);
    wait_for(&server, |counter| counter(WRITTEN) >= 10);
}

#[test]
fn a_cache_of_another_process_or_of_nowhere_stops_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = config(folder.path(), "");
    let _server = serve(&file);
    let fails = |file: &str, what: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_quoteway"))
            .args([&PORTS[..], &["--config", file]].concat())
            .stdout(Stdio::null())
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(what), "{text}");
    };
    fails(&file, "another process has it open");
    let nowhere = folder.path().join("nowhere.toml");
    fs::write(&nowhere, "[source_distributor]\nsupport_persistent_cache = true\n").expect("written");
    fails(nowhere.to_str().expect("UTF-8"), "persistent_cache_directory must name a folder");
}

/// A Source Distributor that copies from others, and a P2PS that joins it.
fn distributor(folder: &Path, name: &str, hub: &str) -> Process {
    let file = folder.join(name);
    fs::write(&file, format!("[hub]\ntransport = \"tcp\"\n{hub}")).expect("written");
    let ports = ["--interface", "127.0.0.1", "--nip-port", "0", "--hub-port", "0", "--http-port", "0"];
    let file = ["--config", file.to_str().expect("UTF-8")];
    start(&[&["source-distributor"][..], &ports, &file].concat())
}

fn p2ps(folder: &Path, at: &str, key: &str) -> Process {
    let file = folder.join("p2ps.toml");
    let hub = format!("[hub]\ntransport = \"tcp\"\nsource_distributors = [\"{at}\"]\n{key}");
    fs::write(&file, hub).expect("written");
    let ports = ["--interface", "127.0.0.1", "--rssl-port", "0", "--http-port", "0"];
    start(&[&["p2ps"][..], &ports, &["--config", file.to_str().expect("UTF-8")]].concat())
}

/// With and without a key, a Source Distributor that starts has the images of one that lives, and its clients get them before anybody publishes
/// there; then the publisher's.
#[test]
fn a_distributor_that_starts_copies_the_images_of_one_that_lives() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("hub.key");
    fs::write(&secret, "0123456789abcdef".repeat(4)).expect("written");
    assert!(Command::new("chmod").arg("600").arg(&secret).status().expect("chmod").success());
    for key in [String::new(), format!("key_file = \"{}\"\n", secret.display())] {
        let first = distributor(folder.path(), "first.toml", &key);
        let _publisher = publisher(&first, "0");
        let known = p2ps(folder.path(), &first.at("hub"), &key);
        let (state, content) = consumer(&known).run_until(|seen| image(&seen.last));
        assert_eq!(state, DataState::OK);
        first.wait_for("/metrics", |_, body| metric(body, "quoteway_providers_items") == 10);

        // The first of those that are named is not there.
        let hosts =
            format!("{key}[source_distributor]\ncache_resiliency_hosts = [\"127.0.0.1:1\", \"{}\"]\n", first.at("hub"));
        let second = distributor(folder.path(), "second.toml", &hosts);
        assert_eq!(metric(&second.get("/metrics").2, RESTORED), 10, "all of them are there when it is ready");
        wait_for(&first, |counter| {
            counter("quoteway_hub_publisher_copies_given_total") == 1
                && counter("quoteway_hub_publisher_images_copied_total") == 10
        });
        let joined = p2ps(folder.path(), &second.at("hub"), &key);
        let mut late = consumer(&joined);
        assert_eq!(late.run_until(|seen| image(&seen.last)), (DataState::SUSPECT, content));
        let _second_publisher = publisher(&second, "0");
        late.run_until(|seen| image(&seen.last).filter(|(data, _)| *data == DataState::OK));
    }
}

#[test]
fn a_distributor_starts_without_a_copy_where_nobody_gives_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let other = distributor(folder.path(), "other.toml", "name = \"another\"\n");
    // A peer that takes the connection and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = silent.local_addr().expect("bound");
    let hosts = format!(
        "[source_distributor]\ncache_resiliency_hosts = [\"{}\", \"{silent}\"]\ncache_resiliency_time_s = 1\n",
        other.at("hub")
    );
    let server = distributor(folder.path(), "alone.toml", &hosts);
    server.wait_for("/api/v1/events", |_, body| {
        body.contains("this is hub another, not quoteway") && body.contains("no images are copied from")
    });
    assert_eq!(metric(&server.get("/metrics").2, RESTORED), 0);
}
