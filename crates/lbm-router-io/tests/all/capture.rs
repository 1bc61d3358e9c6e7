//! Stock Wireshark listens on loopback while a router serves a domain: no errors. Needs `tshark` (`QUOTEWAY_TSHARK` names another binary, or
//! is `none`) and the right to capture, as root has.

use std::path::Path;
use std::time::{Duration, Instant};

use lbm_io::SendFlags;
use lbm_trials::capture::Listening;

use crate::rig::{Program, domain, endpoint, router, until};

#[test]
fn wireshark_reads_what_a_router_says_in_its_domains() {
    let (one, two) = (domain("lbtrm"), domain("lbtrm"));
    let field = |lines: &[String], name: &str| {
        let line = lines.iter().find(|line| line.contains(name)).expect("an option");
        line.rsplit(' ').next().expect("a value").to_owned()
    };
    let ports: Vec<String> = [&one, &two].map(|lines| field(lines, "resolver_multicast_port")).to_vec();
    let groups: Vec<String> = [&one, &two].map(|lines| field(lines, "resolver_multicast_address")).to_vec();
    let Some(mut listening) = Listening::start("lbm-router-io", &format!("net {} or net {}", groups[0], groups[1]))
    else {
        return;
    };
    let text = format!("name = 'a'\ninterest_timeout_s = 3{}{}", endpoint(1, &one), endpoint(2, &two));
    let mut router = router(&text, Path::new(""));
    // The context soon stops asking by itself, and is asked.
    let briefly =
        ["receiver resolver_query_minimum_initial_duration 500", "receiver resolver_query_minimum_sustain_duration 1"];
    let (mut publisher, mut subscriber) = (Program::new(&one, &[]), Program::new(&two, &briefly));
    let source = publisher.context.source("orders", &publisher.options).expect("a source");
    subscriber.context.receiver("orders", &subscriber.options).expect("a receiver");
    subscriber.context.wildcard("^trades", &subscriber.options).expect("a receiver");
    let began = Instant::now();
    until("messages for six seconds", &mut [&mut router], &mut [&mut publisher, &mut subscriber], |programs| {
        if programs[1].seen.count("orders") < 1_000 {
            let _ = programs[0].context.send(source, b"now", SendFlags::FLUSH | SendFlags::NONBLOCK);
        }
        programs[1].seen.count("orders") >= 1_000 && began.elapsed() > Duration::from_secs(6)
    });
    // Each domain has a group and ports of its own, which Wireshark has to know.
    let of_domain = |port: &String| {
        let data: u32 = port.parse::<u32>().expect("a port") + 1;
        [format!("-dudp.port=={port},lbmr"), format!("-dudp.port=={data},lbtrm")]
    };
    let capture = listening.stop(&ports.iter().flat_map(of_domain).collect::<Vec<_>>());
    capture.check(None);
    for (what, filter) in [
        ("an advertisement with cost and origin", "lbmr.topt.cost && lbmr.topt.otid"),
        ("a router's query", "lbmr.tqr"),
        ("a use query", "lbmr.tmb.tmr.flags"),
        ("a request for everything", "lbmr.topic_res_request.flags"),
        ("messages", "lbmc.topic_idx || lbmc"),
    ] {
        assert!(capture.count(filter) > 0, "no {what} is in the capture");
    }
}
