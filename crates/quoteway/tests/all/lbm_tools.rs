//! `lbmpub` and `lbmsub` as their users run them: two processes on this host, by every transport.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use measure::observer::{read_received, read_sent};
use measure::process::Process;
use serde_json::Value;

/// Longer than anything takes on a loaded machine, in seconds.
const PATIENCE: f64 = 120.0;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Options by which a test has groups and ports of its own, as a file that lives as long as the value.
struct Private {
    folder: tempfile::TempDir,
    file: PathBuf,
}

impl Private {
    fn new() -> Self {
        let n = std::process::id() * 16 + NEXT.fetch_add(1, Ordering::Relaxed);
        let group = format!("239.66.{}.{}", n >> 8 & 255, n & 255);
        let port = 40_000 + n % 20_000;
        let lines = format!(
            "context default_interface 127.0.0.1
            context resolver_multicast_address {group}
            context resolver_multicast_port {port}
            source transport_lbtrm_multicast_address {group}
            source transport_lbtrm_destination_port {}
            context transport_lbtrm_source_port_low 0
            context transport_lbtrm_source_port_high 0
            context transport_lbtru_port_low 0
            context transport_lbtru_port_high 0
            receiver transport_lbtru_port_low 0
            receiver transport_lbtru_port_high 0
            context transport_tcp_port_low 0
            context transport_tcp_port_high 0
            receiver transport_lbtrm_nak_initial_backoff_interval 5
            receiver transport_lbtrm_nak_backoff_interval 40
            receiver transport_lbtrm_nak_suppress_interval 40",
            port + 1
        );
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("lbm.cfg");
        std::fs::write(&file, lines).expect("written");
        Self { folder, file }
    }

    fn start(&self, words: &str) -> Process {
        let mut args: Vec<&str> = words.split(' ').collect();
        args.extend(["--options", self.file.to_str().expect("a path")]);
        let mut command = Command::new(env!("CARGO_BIN_EXE_quoteway"));
        Process::start(words, command.args(args)).expect("it starts")
    }

    /// Runs a subscriber and a publisher to their ends; gives their results.
    fn run(&self, subscriber: &str, publisher: &str) -> (Value, Value) {
        let mut subscriber = self.start(subscriber);
        subscriber.wait_for("ready", PATIENCE).expect("it listens");
        let published = self.start(publisher).json(PATIENCE).expect("a result");
        let received = subscriber.json(PATIENCE).expect("a result");
        (published, received)
    }
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

#[test]
fn everything_comes_by_every_transport() {
    for transport in ["lbtrm", "lbtru", "tcp", "lbtipc"] {
        let publisher = format!("lbmpub --transport {transport} --topics 3 --count 3000 --rate 3000 --linger 0.3");
        let (published, received) = Private::new().run("lbmsub --topics 3 --strict", &publisher);
        assert_eq!(
            (number(&published, "sent"), number(&received, "messages")),
            (3000, 3000),
            "{published}\n{received}"
        );
        assert_eq!((number(&received, "lost"), number(&received, "out_of_order")), (0, 0), "{received}");
        assert!(received["latency_us"]["median"].as_f64().is_some_and(|us| us > 0.0), "{received}");
        let session = published["session"].as_str().expect("a session");
        assert!(session.starts_with(&transport.to_uppercase()), "{session}");
        assert_eq!(received["streams"][0]["session"], published["session"]);
    }
}

/// The second publisher is there before the first one ends, and goes on alone.
#[test]
fn publishers_stand_in_for_each_other() {
    let private = Private::new();
    let mut subscriber = private.start("lbmsub -H --topics 2");
    subscriber.wait_for("ready", PATIENCE).expect("it listens");
    let publisher = |more: &str| private.start(&format!("lbmpub -H --topics 2 --rate 2k --tolerance 100 {more}"));
    let (first, second) =
        (publisher("--seconds 4 --linger 0.3"), publisher("--transport tcp --seconds 8 --linger 0.3"));
    let received = subscriber.json(PATIENCE).expect("a result");
    for mut publisher in [first, second] {
        publisher.json(PATIENCE).expect("a result");
    }
    assert_eq!((number(&received, "lost"), number(&received, "out_of_order")), (0, 0), "{received}");
    let failover = &received["hot_failover"];
    assert_eq!((number(failover, "sources"), number(failover, "differing")), (4, 0), "{received}");
    assert!(number(failover, "duplicates") > 500 && number(&received, "messages") > 8_000, "{received}");
}

/// Two resolution services, no multicast: one is killed, the other does; and the first is told everything when it is started again.
#[test]
fn topics_are_resolved_over_tcp_while_one_of_two_services_is_there() {
    let private = Private::new();
    let service = |port: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quoteway"));
        let mut service = Process::start("lbmsrs", command.args(["lbmsrs", "--port", port])).expect("it starts");
        let ready = service.wait_for("ready ", PATIENCE).expect("it listens");
        (service, ready.text.trim().rsplit(' ').next().expect("an address").to_owned())
    };
    let ((first, one), (second, two)) = (service("0"), service("0"));
    let lines = std::fs::read_to_string(&private.file).expect("lines");
    let services = "context resolver_disable_udp_topic_resolution 1\ncontext resolver_service";
    std::fs::write(&private.file, format!("{lines}\n{services} {one},{two}")).expect("written");
    let run = |what: &str| {
        let (published, received) =
            private.run("lbmsub --topics 3 --strict", "lbmpub --topics 3 --count 600 --rate 3000 --linger 0.3");
        assert_eq!((number(&published, "sent"), number(&received, "messages")), (600, 600), "{what}: {received}");
    };
    run("both are there");
    drop(first);
    run("the second alone");
    let (_first, again) = service(one.rsplit(':').next().expect("a port"));
    assert_eq!(again, one);
    drop(second);
    run("the first alone, which was started again");
}

/// A subscriber that is not there when a publisher is gets from the store what it has missed, and the next publisher goes on behind it.
#[test]
fn messages_outlive_their_publisher_in_a_store() {
    let private = Private::new();
    let folder = private.folder.path().join("log");
    let mut store = private.start(&format!("lbmstore --port 0 --disk {}", folder.display()));
    let address = store.wait_for("ready ", PATIENCE).expect("it listens");
    let address = address.text.trim().rsplit(' ').next().expect("an address").to_owned();
    let publish = |private: &Private, rate: &str| {
        let words = format!("lbmpub --store {address} --session-id 1 --count 700 --rate {rate} --linger 0 --json");
        private.start(&words).json(PATIENCE).expect("a result")
    };
    let first = publish(&private, "max");
    assert_eq!(
        (number(&first, "sent"), number(&first, "stable"), number(&first, "in_flight")),
        (700, 701, 0),
        "{first}"
    );
    let mut subscriber = private.start("lbmsub --session-id 2 --sources 2 --json --seconds 100");
    let second = publish(&private, "1k");
    assert_eq!(number(&second, "in_flight"), 0, "{second}");
    assert!(second["rate"].as_f64().is_some_and(|rate| rate < 1_050.0), "no faster than it was to be: {second}");
    assert!(second["stable_us"]["median"].as_f64().is_some_and(|us| us > 0.0), "{second}");
    // The subscriber learns of the stores from a publisher that is there.
    let _third = private.start(&format!("lbmpub --store {address} --session-id 1 --count 0 --linger 100 --json"));
    let received = subscriber.json(PATIENCE).expect("a result");
    assert_eq!((number(&received, "lost"), number(&received, "out_of_order")), (0, 0), "{received}");
    assert_eq!(number(&received, "messages"), 1400, "{received}");
}

/// Each message is consumed by one subscriber of each set; those of one that is killed come to the other.
#[test]
fn subscribers_share_what_a_publisher_assigns() {
    for transport in ["lbtrm", "tcp"] {
        let private = Private::new();
        let mut subscribers = [10, 10, 20].map(|kind| {
            let mut subscriber = private.start(&format!("lbmsub --receiver-type {kind} --seconds 100"));
            subscriber.wait_for("ready", PATIENCE).expect("it listens");
            subscriber
        });
        let mut killed = private.start("lbmsub --receiver-type 10 --seconds 100");
        killed.wait_for("ready", PATIENCE).expect("it listens");
        let timeouts = "source umq_ulb_application_set_receiver_activity_timeout 0:1000;1:1000";
        let file = private.folder.path().join("timeouts.cfg");
        std::fs::write(&file, format!("{timeouts}\n")).expect("written");
        let words = format!(
            "lbmpub --transport {transport} --application-sets 0:10;1:20 --indices 5 --count 3000 --rate 1000 --linger 0.3 --json --options {}",
            file.display()
        );
        let mut publisher = private.start(&words);
        (0..4).for_each(|_| drop(publisher.wait_for("is ready", PATIENCE).expect("the subscribers are found")));
        drop(killed);
        let published = publisher.json(PATIENCE).expect("a result");
        assert_eq!(
            (number(&published, "sent"), number(&published, "complete"), number(&published, "in_flight")),
            (3_000, 3_000, 0),
            "{published}"
        );
        let received: Vec<Value> = subscribers.iter_mut().map(|s| s.json(PATIENCE).expect("a result")).collect();
        assert!(published["rate"].as_f64().is_some_and(|rate| rate < 1_050.0), "{published}");
        assert_eq!(number(&received[2], "messages"), 3_000, "{received:?}");
        let of_first_set = number(&received[0], "messages") + number(&received[1], "messages");
        assert!((1..=3_000).contains(&of_first_set), "the killed one may have had some: {received:?}");
        assert_eq!(number(&received[2], "again"), 0, "{received:?}");
    }
}

#[test]
fn messages_of_every_size_come_in_both_profiles() {
    for (profile, payload) in [("latency", 16), ("latency", 20_000), ("throughput", 64), ("throughput", 20_000)] {
        let publisher = format!("lbmpub --profile {profile} --payload {payload} --count 500 --rate 500 --linger 0.3");
        let (_, received) = Private::new().run(&format!("lbmsub --profile {profile} --strict"), &publisher);
        let bytes = number(&received, "bytes");
        assert_eq!(
            (number(&received, "messages"), bytes, number(&received, "lost")),
            (500, 500 * payload, 0),
            "{received}"
        );
    }
}

#[test]
fn round_trips_come_back_and_are_measured() {
    let publisher = "lbmpub --ping --rate max --count 300 --warm-up 0 --linger 0.3";
    let (published, received) = Private::new().run("lbmsub --pong", publisher);
    assert_eq!((number(&published, "unanswered"), number(&received, "messages")), (0, 300), "{published}\n{received}");
    assert_eq!(number(&published["round_trip_us"], "samples"), 300);
}

#[test]
fn both_ends_write_what_they_observed() {
    let private = Private::new();
    let path = |name: &str| private.folder.path().join(name);
    let (sent, received) = (path("sent"), path("received"));
    let publisher =
        format!("lbmpub --count 400 --rate 4000 --linger 0.3 --observe {} --observe-every 4", sent.display());
    private.run(&format!("lbmsub --observe {} --observe-every 4", received.display()), &publisher);
    // The figures that the reports print of such files.
    let output = Command::new(env!("CARGO_BIN_EXE_quoteway"))
        .args(["lab", "observed", "--json"])
        .args([&sent, &received])
        .output()
        .expect("it runs");
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((number(&told, "sent"), number(&told, "received"), number(&told, "lost")), (100, 100, 0), "{told}");
    let median = |name: &str| told[name]["median"].as_f64().expect("a latency");
    assert!(median("send_to_receive_us") > 0.0 && median("from_intended_us") >= median("late_us"), "{told}");
    let (_, sent) = read_sent(&sent).expect("a file of the publisher");
    let (_, received) = read_received(&received).expect("a file of the subscriber");
    let ids = |all: Vec<u64>| all;
    assert_eq!(sent.len(), 100);
    assert_eq!(ids(sent.iter().map(|s| s.id).collect()), ids(received.iter().map(|r| r.id).collect()));
    assert!(sent.iter().zip(&received).all(|(s, r)| s.intended <= s.at && s.at <= r.at));
}

#[test]
fn a_schedule_has_as_many_messages_as_rate_and_time_say() {
    // A hundredth more time than it takes: more than a loaded machine is late.
    let (published, received) =
        Private::new().run("lbmsub --strict", "lbmpub --rate 100 --seconds 5 --tolerance 100 --linger 0.3");
    assert_eq!((number(&published, "sent"), number(&received, "messages")), (500, 500), "{published}\n{received}");
    let output =
        Command::new(env!("CARGO_BIN_EXE_quoteway")).args(["lbmpub", "--rate", "0"]).output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("--rate 0 sends nothing"), "{told}");
}

#[test]
fn a_subscriber_that_gets_nothing_fails() {
    let private = Private::new();
    let output = Command::new(env!("CARGO_BIN_EXE_quoteway"))
        .args(["lbmsub", "--seconds", "0.2", "--options"])
        .arg(&private.file)
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("nothing came"), "{told}");
}

#[test]
fn topics_are_found_through_a_resolver_daemon() {
    let mut daemon = Process::start(
        "lbmrd",
        Command::new(env!("CARGO_BIN_EXE_quoteway")).args(["lbmrd", "--port", "0", "--interface", "127.0.0.1"]),
    )
    .expect("it starts");
    let ready = daemon.wait_for("ready", PATIENCE).expect("it listens");
    let address = ready.text.trim_start_matches("ready ").to_owned();
    let private = Private::new();
    let more = format!(
        "\ncontext resolver_unicast_daemon {address}\ncontext resolver_unicast_port_low 0\ncontext resolver_unicast_port_high 0"
    );
    let lines = std::fs::read_to_string(&private.file).expect("options") + &more;
    std::fs::write(&private.file, lines).expect("written");
    let (_, received) = private.run("lbmsub --strict", "lbmpub --transport tcp --count 100 --linger 0.3");
    assert_eq!((number(&received, "messages"), number(&received, "lost")), (100, 0), "{received}");
}

#[test]
fn lbmstat_sees_what_a_publisher_sends() {
    let private = Private::new();
    let publisher = private.start("lbmpub --rate 1000 --seconds 300 --lead-in 0 --linger 0");
    let (pid, begin) = (publisher.id().to_string(), std::time::Instant::now());
    let sent = |topics: &[&str]| -> (u64, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_quoteway"))
            .args(["lbmstat", "--once", "--pid", &pid])
            .args(topics)
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find(|l| l.contains("LBTRM:")).unwrap_or("").to_owned();
        (line.split_whitespace().nth(2).and_then(|n| n.parse().ok()).unwrap_or(0), text)
    };
    while sent(&[]).0 < 20 {
        assert!(begin.elapsed().as_secs() < 120, "{}", sent(&[]).1);
    }
    let (_, text) = sent(&["--topics"]);
    assert!(text.contains("quoteway.test: ") && text.contains(&pid), "{text}");
}
