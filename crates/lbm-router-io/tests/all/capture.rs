//! Stock Wireshark listens on loopback while a router serves a domain: no errors. Needs `tshark` (`QUOTEWAY_TSHARK` names another binary, or
//! is `none`) and the right to capture, as root has.

use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lbm_io::SendFlags;

use crate::rig::{PATIENCE, Program, domain, endpoint, router, until};

#[test]
fn wireshark_reads_what_a_router_says_in_its_domains() {
    let binary = std::env::var("QUOTEWAY_TSHARK").unwrap_or_else(|_| "tshark".to_owned());
    let (one, two) = (domain("lbtrm"), domain("lbtrm"));
    let field = |lines: &[String], name: &str| {
        let line = lines.iter().find(|line| line.contains(name)).expect("an option");
        line.rsplit(' ').next().expect("a value").to_owned()
    };
    let ports: Vec<String> = [&one, &two].map(|lines| field(lines, "resolver_multicast_port")).to_vec();
    let groups: Vec<String> = [&one, &two].map(|lines| field(lines, "resolver_multicast_address")).to_vec();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("all.pcapng");
    let child = Command::new(&binary)
        .args([
            "-i",
            "lo",
            "-B",
            "32",
            "-P",
            "-l",
            "-f",
            &format!("net {} or net {} or port 9", groups[0], groups[1]),
            "-w",
        ])
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Some(mut child) = child.ok().filter(|_| binary != "none") else {
        println!("not run: there is no tshark");
        return;
    };
    // Datagrams of our own until one is seen: then all after it will be.
    let output = BufReader::new(child.stdout.take().expect("its output"));
    let (send, seen) = std::sync::mpsc::channel();
    std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
    let probe = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut mark = |length: usize| {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let _ = probe.send_to(&vec![0; length], "127.0.0.1:9");
            while let Ok(line) = seen.recv_timeout(Duration::from_millis(100)) {
                if line.contains(&format!("Len={length}")) {
                    return true;
                }
            }
            if child.try_wait().is_ok_and(|status| status.is_some()) {
                return false;
            }
        }
        false
    };
    if !mark(17) {
        println!("not run: tshark may not capture on loopback");
        return;
    }
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
    assert!(mark(19), "tshark follows");
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    child.wait().expect("it is over");
    let read = |arguments: &[&str]| {
        let mut command = Command::new(&binary);
        command.arg("-r").arg(&file);
        // Each domain has a group and ports of its own, which Wireshark has to know.
        for port in &ports {
            let data: u32 = port.parse::<u32>().expect("a port") + 1;
            command.args(["-d", &format!("udp.port=={port},lbmr"), "-d", &format!("udp.port=={data},lbtrm")]);
        }
        let output = command.args(arguments).output().expect("tshark runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let errors = read(&["-q", "-z", "expert,error"]);
    assert!(!errors.contains("Errors ("), "{errors}");
    assert_eq!(read(&["-Y", "_ws.malformed", "-T", "fields", "-e", "frame.number"]), "");
    for (what, filter) in [
        ("an advertisement with cost and origin", "lbmr.topt.cost && lbmr.topt.otid"),
        ("a router's query", "lbmr.tqr"),
        ("a use query", "lbmr.tmb.tmr.flags"),
        ("a request for everything", "lbmr.topic_res_request.flags"),
        ("messages", "lbmc.topic_idx || lbmc"),
    ] {
        assert!(!read(&["-Y", filter, "-T", "fields", "-e", "frame.number"]).is_empty(), "no {what} is in the capture");
    }
}
