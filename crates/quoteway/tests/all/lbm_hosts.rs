//! Topic messaging between hosts: loss, partitions, and what Wireshark sees.
//!
//! Loss is made by nftables where a host receives. With GSO and GRO it takes whole trains, without them single datagrams:
//! each is tested, by the context option `udp_offload`.

use std::path::Path;
use std::process::Command;

use crate::hosts::{Host, Lan};
use measure::process::Process;
use serde_json::Value;

/// Longer than anything takes on a loaded machine, in seconds.
const PATIENCE: f64 = 240.0;

/// The options with which nothing is lost at 20 % and 50,000 messages a second: `docs/operating/lbm.md` has the reasons.
const LOSSY: &str = "
    receiver transport_lbtrm_nak_initial_backoff_interval 5
    receiver transport_lbtrm_nak_backoff_interval 20
    receiver transport_lbtrm_nak_suppress_interval 20
    receiver transport_lbtrm_nak_generation_interval 10000
    source transport_lbtrm_ignore_interval 5
    source transport_lbtrm_transmission_window_size 100000000
    source transport_lbtrm_sm_minimum_interval 50
    receiver delivery_control_maximum_burst_loss 1000000";

struct Tools {
    folder: tempfile::TempDir,
    options: String,
}

impl Tools {
    fn new(options: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("lbm.cfg");
        std::fs::write(&file, options).expect("written");
        Self { folder, options: file.to_str().expect("a path").to_owned() }
    }

    fn start(&self, host: &Host, words: &str) -> Process {
        let mut args: Vec<&str> = words.split_whitespace().collect();
        args.extend(["--options", &self.options]);
        host.start(args[0], env!("CARGO_BIN_EXE_quoteway"), &args)
    }

    /// A subscriber that has said that it is ready.
    fn subscriber(&self, host: &Host, words: &str) -> Process {
        let mut process = self.start(host, words);
        process.wait_for("ready", PATIENCE).expect("it listens");
        process
    }
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

/// Waits for the first line of figures, which comes after the first messages. Nothing before the first datagram that arrives is
/// asked for, so loss begins behind it.
fn begun(subscriber: &mut Process) {
    subscriber.wait_for("median us", PATIENCE).expect("messages");
}

/// 50,000 messages a second to a host that loses so many percent of what reaches it; nothing may be lost.
fn nothing_is_lost(percent: u32, offload: u32) {
    // A machine that stands still for as long as the publisher sends leaves its subscriber nothing but the end: then it sends for longer.
    let has_begun = [4, 12, 36].into_iter().any(|seconds| nothing_is_lost_in(percent, offload, seconds));
    assert!(has_begun, "the subscriber had no message before the publisher was done, three times");
}

/// Tells whether the subscriber had messages while they were sent.
fn nothing_is_lost_in(percent: u32, offload: u32, seconds: u32) -> bool {
    let Some(lan) = Lan::new(&["feed", "client"]) else { return true };
    let tools = Tools::new(&format!("{LOSSY}\ncontext udp_offload {offload}"));
    let (feed, client) = (lan.host("feed"), lan.host("client"));
    let mut subscriber = tools.subscriber(client, "lbmsub --strict --patience 60");
    // The rate may be missed on a busy machine, which is not what this is about.
    let words = format!("lbmpub --rate 50k --seconds {seconds} --lead-in 1 --tolerance 100 --linger 3");
    let mut publisher = tools.start(feed, &words);
    if subscriber.wait_for("median us", PATIENCE).is_err() {
        return false;
    }
    client.lose(percent);
    let published = publisher.json(PATIENCE).expect("a result");
    let received = subscriber.json(PATIENCE).expect("a result");
    let dropped = client.lost();
    eprintln!("{percent} %, offload {offload}: {} a second, {dropped} packets dropped", published["rate"]);
    assert_eq!(number(&received, "messages"), number(&published, "sent"), "{received}\n{published}");
    assert_eq!((number(&received, "lost"), number(&received, "reported_lost")), (0, 0), "{received}");
    assert!(number(&published, "sent") > 20_000, "{published}");
    // Dropped datagrams were asked for again and came.
    assert!(dropped > 10 && number(&received, "naks") > 0 && number(&published, "retransmissions") > 0, "{dropped}");
    true
}

/// Two machines and a switch, nothing configured: no default route, none for groups.
#[test]
fn a_network_without_a_router_is_enough() {
    let Some(lan) = Lan::new(&["feed", "client"]) else { return };
    let tools = Tools::new("");
    let (feed, client) = (lan.host("feed"), lan.host("client"));
    for host in [feed, client] {
        host.forget_multicast_route();
    }
    for transport in ["lbtrm", "lbtru", "tcp"] {
        let subscriber = tools.subscriber(client, "lbmsub --strict --seconds 60");
        let words = format!("lbmpub --transport {transport} --seconds 1 --lead-in 1 --tolerance 100");
        let published = tools.start(feed, &words).json(PATIENCE).expect("a result");
        let received = { subscriber }.json(PATIENCE).expect("a result");
        assert_eq!(number(&received, "messages"), number(&published, "sent"), "{transport}: {received}\n{published}");
    }
}

#[test]
fn nothing_is_lost_at_1_percent_by_datagrams() {
    nothing_is_lost(1, 0);
}

#[test]
fn nothing_is_lost_at_5_percent_by_trains() {
    nothing_is_lost(5, 1);
}

#[test]
fn nothing_is_lost_at_20_percent_by_datagrams() {
    nothing_is_lost(20, 0);
}

#[test]
fn nothing_is_lost_at_20_percent_by_trains() {
    nothing_is_lost(20, 1);
}

/// Trains of 40 and more datagrams (as fast as it goes, the rate limit lets a burst out every 20 ms), each of which is one packet to the filter that takes one of twenty; received as trains, or one
/// by one after the kernel has cut them.
fn long_trains_are_repaired(gro: u32) {
    // On a busy machine the publisher may be done before packets begin to be dropped: then it goes on for longer.
    let met_losses = [2, 6, 18].into_iter().any(|seconds| trains_that_met_losses_are_repaired(gro, seconds));
    assert!(met_losses, "no packet was dropped in 18 seconds");
}

/// Tells whether any packet was dropped.
fn trains_that_met_losses_are_repaired(gro: u32, seconds: u32) -> bool {
    let Some(lan) = Lan::new(&["feed", "client"]) else { return true };
    let long = format!(
        "{LOSSY}\ncontext transport_lbtrm_datagram_max_size 1472\nsource implicit_batching_minimum_length 1400
        context transport_lbtrm_receiver_socket_buffer 16777216
        context transport_lbtrm_data_rate_limit 500000000\ncontext transport_lbtrm_rate_interval 20"
    );
    let (sending, receiving) = (Tools::new(&long), Tools::new(&format!("{long}\ncontext udp_offload {gro}")));
    let (feed, client) = (lan.host("feed"), lan.host("client"));
    let mut subscriber = receiving.subscriber(client, "lbmsub --strict --patience 60");
    let words = format!(
        "lbmpub --profile throughput --rate max --payload 600 --seconds {seconds} --lead-in 1 --tolerance 100 --linger 3"
    );
    let mut publisher = sending.start(feed, &words);
    begun(&mut subscriber);
    client.lose(5);
    let published = publisher.json(PATIENCE).expect("a result");
    let received = subscriber.json(PATIENCE).expect("a result");
    let (dropped, again) = (client.lost(), number(&published, "retransmissions"));
    eprintln!("gro {gro}: {} a second, {dropped} packets dropped, {again} retransmissions", published["rate"]);
    assert_eq!(number(&received, "messages"), number(&published, "sent"), "{received}\n{published}");
    assert_eq!((number(&received, "lost"), number(&received, "reported_lost")), (0, 0), "{received}");
    // More than one datagram a packet: trains were lost whole. Of a few packets nothing can be said.
    assert!(dropped <= 5 || again > 2 * dropped, "{dropped} dropped, {again} again");
    dropped > 5
}

#[test]
fn long_trains_are_repaired_where_they_come_as_trains() {
    long_trains_are_repaired(1);
}

#[test]
fn long_trains_are_repaired_where_they_come_one_by_one() {
    long_trains_are_repaired(0);
}

#[test]
fn what_cannot_be_repaired_is_reported_and_fails_the_test() {
    let Some(lan) = Lan::new(&["feed", "client"]) else { return };
    // The end of the test may be lost as well: then the subscriber stops when the session has been silent for long enough.
    let tools = Tools::new(
        "receiver transport_lbtrm_send_naks 0\nreceiver transport_lbtrm_nak_generation_interval 500\n\
         receiver transport_lbtrm_activity_timeout 10000",
    );
    let client = lan.host("client");
    let mut subscriber = tools.subscriber(client, "lbmsub --patience 20");
    client.lose(10);
    let words = "lbmpub --rate 2000 --seconds 1 --lead-in 2 --tolerance 100 --linger 3";
    let published = tools.start(lan.host("feed"), words).json(PATIENCE).expect("a result");
    let received = subscriber.json(PATIENCE).expect("a result");
    let (sent, messages) = (number(&published, "sent"), number(&received, "messages"));
    let missing = sent - messages - number(&received, "before_first");
    // The end of the test is a message too, and can be lost with those before it.
    assert!(missing > 20 && number(&received, "lost") + 5 >= missing, "{received}\n{published}");
    assert!(number(&received, "reported_lost") > 20 && number(&published, "naks") == 0, "{received}");
}

/// The host that receives is cut off for so long in the middle of the stream. Shorter than the generation interval and within the
/// window everything is repaired; else what is lost is told, and the stream goes on.
fn partition(seconds: f64) {
    let Some(lan) = Lan::new(&["feed", "client"]) else { return };
    let tools = Tools::new(&format!("{LOSSY}\nreceiver transport_lbtrm_nak_generation_interval 30000"));
    let client = lan.host("client");
    let mut subscriber = tools.subscriber(client, "lbmsub --patience 60");
    let words = format!("lbmpub --rate 2000 --seconds {} --lead-in 1 --tolerance 100 --linger 5", seconds + 4.0);
    let mut publisher = tools.start(lan.host("feed"), &words);
    begun(&mut subscriber);
    client.cut_off();
    measure::process::pause(seconds).expect("not stopped");
    client.rejoin();
    let published = publisher.json(PATIENCE).expect("a result");
    let received = subscriber.json(PATIENCE).expect("a result");
    let (sent, messages) = (number(&published, "sent"), number(&received, "messages"));
    if seconds < 30.0 {
        assert_eq!((messages, number(&received, "lost")), (sent, 0), "{received}\n{published}");
        assert!(number(&published, "retransmissions") > 1_000, "{published}");
    } else {
        // The session was given up, with a word to the application, and found anew; only what was sent meanwhile is missing.
        let (lost, interruptions) = (number(&received, "lost"), number(&received, "interruptions"));
        assert!(messages > 2_000 && messages + lost == sent, "{received}\n{published}");
        assert!(interruptions == 1 && number(&received, "reported_lost") == 0, "{received}");
    }
}

#[test]
fn a_partition_of_5_seconds_is_repaired() {
    partition(5.0);
}

/// Topic resolution has gone quiet when this heals. Takes a minute and a half: only with `QUOTEWAY_LONG=1`.
#[test]
fn a_partition_of_70_seconds_heals() {
    if std::env::var("QUOTEWAY_LONG").is_ok() {
        partition(70.0);
    }
}

#[test]
fn wireshark_and_lbmdump_read_what_passes_between_hosts() {
    let tshark = std::env::var("QUOTEWAY_TSHARK").unwrap_or_else(|_| "tshark".to_owned());
    if tshark == "none" {
        return;
    }
    let Some(lan) = Lan::new(&["feed", "client"]) else { return };
    // Without GSO: a train is one packet on a veth.
    let tools = Tools::new(&format!("{LOSSY}\ncontext udp_offload 0"));
    let (feed, client) = (lan.host("feed"), lan.host("client"));
    let capture = feed.capture(&tools.folder.path().join("feed.pcapng"));
    let mut subscriber = tools.subscriber(client, "lbmsub --topics 3 --strict --patience 60");
    let words = "lbmpub --topics 3 --rate 1000 --payload 300 --seconds 3 --lead-in 1 --tolerance 100 --linger 2";
    let mut publisher = tools.start(feed, words);
    begun(&mut subscriber);
    client.lose(5);
    let published = publisher.json(PATIENCE).expect("a result");
    let received = subscriber.json(PATIENCE).expect("a result");
    assert_eq!(
        (number(&received, "lost"), number(&received, "messages")),
        (0, number(&published, "sent")),
        "{received}"
    );
    let file = capture.stop();

    let errors = read(&tshark, &file, &["-q", "-z", "expert,error"]);
    assert!(!errors.contains("Malformed") && !errors.contains("Errors ("), "{errors}");
    let names = read(&tshark, &file, &["-Y", "lbmc.topic", "-T", "fields", "-e", "lbmc.topic"]);
    for topic in ["quoteway.test.0", "quoteway.test.1", "quoteway.test.2"] {
        assert!(names.contains(topic), "{topic} is not resolved");
    }

    let output = Command::new(env!("CARGO_BIN_EXE_quoteway"))
        .args(["lbmdump", "-q", "--check", "--json"])
        .arg(&file)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_str(text.lines().last().unwrap_or("")).expect("JSON");
    let sessions = summary["summary"]["sessions"].as_array().expect("a list");
    let sum = |name: &str| sessions.iter().map(|s| number(s, name)).sum::<u64>();
    // At the source nothing is missing; what was sent again was asked for by the client.
    assert_eq!((sum("missing"), number(&summary["summary"], "malformed")), (0, 0), "{summary}");
    assert!(sum("retransmissions") > 0, "{summary}");
    let asked = sessions.iter().flat_map(|s| s["nak_senders"].as_array().into_iter().flatten());
    assert!(asked.clone().all(|who| who["receiver"] == client.address.to_string()) && asked.count() > 0, "{summary}");
    // Each topic had an end besides its messages.
    let topics = sessions.iter().flat_map(|s| s["topics"].as_array().into_iter().flatten());
    assert_eq!(topics.map(|t| number(t, "last") + 1).sum::<u64>(), number(&published, "sent") + 3, "{summary}");
}

fn read(tshark: &str, file: &Path, args: &[&str]) -> String {
    let output =
        Command::new(tshark).arg("-r").arg(file).args(["-o", "udp.try_heuristic_first:TRUE"]).args(args).output();
    let output = output.expect("tshark runs (Debian: tshark; QUOTEWAY_TSHARK=none leaves this out)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
