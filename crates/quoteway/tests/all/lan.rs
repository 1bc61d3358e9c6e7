//! The hosts of the tests are what they say: joined, cut off when told, rejoined.

use std::time::{Duration, Instant};

use crate::hosts::Lan;

#[test]
fn hosts_reach_each_other_until_they_are_cut_off() {
    let Some(lan) = Lan::new(&["server", "client"]) else { return };
    let mut server = lan.host("server").start("serve", env!("CARGO_BIN_EXE_quoteway"), &["serve"]);
    server.wait_for("ready", 60.0).expect("it listens");
    let connects = |seconds: &str| {
        let connect = format!("exec 3<>/dev/tcp/{}/14002", lan.host("server").address);
        let mut command = lan.host("client").command("timeout");
        command.args([seconds, "bash", "-c", &connect]).output().expect("it runs").status.success()
    };
    assert!(connects("30"));
    lan.host("client").cut_off();
    assert!(!connects("1"));
    lan.host("client").rejoin();
    assert!(connects("30"));
}

/// A port that refuses says nothing of versions of RSSL: the next host of the list is dialled after one attempt, not after one for each
/// version. On one host the refusal comes with the call that connects, which hides what becomes of one that comes later.
#[test]
fn a_host_that_refuses_is_dialled_once_and_then_the_next() {
    let Some(lan) = Lan::new(&["server", "dead", "feed"]) else { return };
    let program = env!("CARGO_BIN_EXE_quoteway");
    let [dead, feed] = [lan.host("dead"), lan.host("feed")];
    let mut source = feed.start("feed", program, &["sink-driven-src", "--bind", "0.0.0.0", "-N", "14002", "-K"]);
    source.wait_for("is published on", 60.0).expect("it listens");
    for host in [dead, feed] {
        host.count_connects();
    }
    let routes = format!("[[route]]\nhost_list = [\"{}\", \"{}\"]\n", dead.address, feed.address);
    let config = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(config.path(), routes).expect("written");
    let args = ["serve", "--config", config.path().to_str().expect("UTF-8")];
    let mut server = lan.host("server").start("serve", program, &args);
    server.wait_for("ready", 60.0).expect("it listens");
    let begun = Instant::now();
    while feed.connects() == 0 {
        assert!(begun.elapsed() < Duration::from_mins(1), "the second host is not dialled");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(dead.connects(), 1, "attempts at the first host");
}
