//! Servers that are found by the name of their service, in a DNS of the test's own.

use std::collections::HashMap;
use std::net::UdpSocket;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use measure::ports::reserve;
use serde_json::Value;
use simple_dns::rdata::{RData, SRV};
use simple_dns::{CLASS, Name, Packet, RCODE, ResourceRecord};

use crate::http::{Process, start_with};
use crate::steering::{program, source};

/// Priority and port of servers on this machine.
type Zone = HashMap<&'static str, Vec<(u16, u16)>>;

/// A name server: what it knows may change, and it counts the questions for each name.
struct Dns {
    at: String,
    zone: Arc<Mutex<Zone>>,
    asked: Arc<Mutex<HashMap<String, u32>>>,
}

impl Dns {
    /// The answering thread ends with the process.
    fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let at = socket.local_addr().expect("an address").to_string();
        let (zone, asked) = (Arc::<Mutex<Zone>>::default(), Arc::<Mutex<HashMap<String, u32>>>::default());
        let (known, counts) = (Arc::clone(&zone), Arc::clone(&asked));
        std::thread::spawn(move || {
            let mut bytes = [0; 512];
            while let Ok((length, client)) = socket.recv_from(&mut bytes) {
                let question = Packet::parse(&bytes[..length]).expect("a question");
                let name = question.questions[0].qname.to_string();
                let mut answer = question.into_reply();
                let zone = known.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(servers) = zone.get(name.as_str()) {
                    for &(priority, port) in servers {
                        let data =
                            RData::SRV(SRV { priority, weight: 0, port, target: Name::new_unchecked("localhost") });
                        let owner = Name::new(&name).expect("a name").into_owned();
                        answer.answers.push(ResourceRecord::new(owner, CLASS::IN, 1, data));
                    }
                } else {
                    *answer.rcode_mut() = RCODE::NameError;
                }
                drop(zone);
                // Counted before it is answered: whoever has the answer finds the count.
                *counts.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
                socket.send_to(&answer.build_bytes_vec().expect("bytes"), client).expect("sent");
            }
        });
        Self { at, zone, asked }
    }

    fn say(&self, name: &'static str, servers: &[(u16, u16)]) {
        self.zone.lock().unwrap_or_else(PoisonError::into_inner).insert(name, servers.to_vec());
    }

    fn asked(&self, name: &str) -> u32 {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied().unwrap_or(0)
    }

    fn start_server(&self, args: &[&str]) -> Process {
        start_with(args, &[("QUOTEWAY_NAME_SERVERS", &self.at)])
    }
}

fn port_of(address: &str) -> u16 {
    address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

fn count(server: &Process, text: &str) -> usize {
    let events = server.json("/api/v1/events");
    let is_it = |event: &&Value| event.to_string().contains(text);
    events.as_array().map_or(0, |events| events.iter().filter(is_it).count())
}

#[test]
fn everybody_finds_everybody_by_name() {
    let dir = tempfile::tempdir().expect("a folder");
    let dns = Dns::start();
    let file = dir.path().join("q.toml");
    let lists = "[hub]\ntransport = \"tcp\"\nsource_distributors = [\"srv:_quoteway._tcp.hub.test\"]\n\
        [[route]]\nhost_list = [\"srv:_rssl._tcp.feed.test\"]\n";
    std::fs::write(&file, lists).expect("written");
    let config = ["--config", file.to_str().expect("UTF-8"), "--interface", "127.0.0.1", "--http-port", "0"];
    let distributor =
        || dns.start_server(&[&["source-distributor", "--nip-port", "0", "--hub-port", "0"], &config[..]].concat());

    // Nobody knows the hub yet: that is said once, and asked again.
    let p2ps = dns.start_server(&[&["p2ps", "--rssl-port", "0"], &config[..]].concat());
    p2ps.wait_for("/api/v1/hub", |_, body| body.contains("srv:_quoteway._tcp.hub.test") && body.contains("not found"));
    p2ps.wait_for("/api/v1/events", |_, _| dns.asked("_quoteway._tcp.hub.test") >= 2);
    assert_eq!(count(&p2ps, "srv:_quoteway._tcp.hub.test: no SRV record has this name; asking again"), 1);

    // The provider that is wanted most is not there: the next one is asked.
    let ((_one, first), (_two, second)) = (source(), source());
    dns.say("_rssl._tcp.feed.test", &[(2, port_of(&first)), (3, port_of(&second)), (1, reserve())]);
    let one = distributor();
    one.wait_for("/api/v1/providers", |_, body| body.contains("\"state\":\"ready\"") && body.contains(&first));
    assert!(!one.get("/api/v1/providers").2.contains(&second));

    dns.say("_quoteway._tcp.hub.test", &[(1, port_of(&one.at("hub")))]);
    p2ps.wait_for("/api/v1/hub", |_, body| body.contains("\"state\":\"joined\""));

    // A consumer goes on to the server that is there.
    dns.say("_rssl._tcp.p2ps.test", &[(20, port_of(&p2ps.at("rssl"))), (10, reserve())]);
    let args =
        ["test-client", "-h", "srv:_rssl._tcp.p2ps.test", "-il", "RDT{0..2}", "--seconds", "0.5", "--json=always"];
    let output = program(&args).env("QUOTEWAY_NAME_SERVERS", &dns.at).stdout(Stdio::piped()).output().expect("it runs");
    let report = String::from_utf8_lossy(&output.stdout);
    let report: Value = serde_json::from_str(report.lines().last().expect("a report")).expect("JSON");
    assert_eq!(report["images"], 3, "{report}");

    // The hub's Source Distributor goes, and another one comes elsewhere.
    let two = distributor();
    dns.say("_quoteway._tcp.hub.test", &[(1, port_of(&two.at("hub")))]);
    drop(one);
    let there = format!("localhost:{}", port_of(&two.at("hub")));
    let is_there = |hub: &Value| hub["name"] == there.as_str() && hub["state"] == "joined";
    p2ps.wait_for("/api/v1/hub", |_, body| {
        let hub: Vec<Value> = serde_json::from_str(body).expect("JSON");
        hub.iter().any(is_there) && hub.iter().any(|hub| hub["state"] == "not heard")
    });
    p2ps.wait_for("/api/v1/services", |_, body| body.contains(&there));
}

#[test]
fn a_name_that_nobody_knows_ends_a_tool_and_a_wrong_one_a_server() {
    let dns = Dns::start();
    let args = ["test-client", "-h", "srv:_rssl._tcp.nowhere.test", "-il", "IBM.N"];
    let output = program(&args).env("QUOTEWAY_NAME_SERVERS", &dns.at).stderr(Stdio::piped()).output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("-h \"srv:_rssl._tcp.nowhere.test\": no SRV record"), "{told}");
    let output = program(&["desktop", "--source-distributor", "srv:hub.test"]).stderr(Stdio::piped()).output();
    let output = output.expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("\"srv:hub.test\" names no service"), "{told}");
}
