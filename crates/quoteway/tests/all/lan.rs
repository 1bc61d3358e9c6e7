//! The hosts of the tests are what they say: joined, cut off when told, rejoined.

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
