//! A Source Distributor's process with two threads: routes go round them, and P2PSs see two Source Distributors.

use std::net::SocketAddr;

use crate::chain::{client, source};
use crate::http::{self, Process};
use crate::steering::ctl;

fn assert_whole(p2ps: &Process, service: &str) {
    let at: SocketAddr = p2ps.at("rssl").parse().expect("an address");
    let report = client(at.port(), &["-S", service, "-il", "RDT{0..99}", "--seconds", "1"]);
    let whole = (&report["complete"], &report["lost"], &report["refused"]);
    assert_eq!(whole, (&true.into(), &0.into(), &0.into()), "{report}");
    assert!(report["received"].as_u64().is_some_and(|n| n > 0), "{report}");
}

/// The thread that has the only provider of a service, by the id of its session, which begins with the thread's number.
fn thread_of(distributor: &Process, service: &str) -> String {
    let services = distributor.json("/api/v1/services");
    let named = services.as_array().into_iter().flatten().filter(|known| known["name"] == service);
    let offers: Vec<_> = named.flat_map(|known| known["providers"].as_array().into_iter().flatten()).collect();
    assert_eq!(offers.len(), 1, "{services}");
    offers[0]["provider"].as_str().and_then(|id| id.split('.').next()).expect("an id").to_owned()
}

#[test]
fn each_thread_serves_the_services_of_its_routes() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("q.toml");
    let sources = ["A", "B", "C"].map(|service| source(&["-S", service, "-U", "2k"]));
    let route = |(place, service): (usize, &str)| {
        format!("[[route]]\nhost_list = [{:?}]\nservice_list = [{service:?}]\n", sources[place].1)
    };
    let head = "[hub]\nport = 0\n[source_distributor]\nsource_thread_count = 2\nnip_port = 0\n[http]\nport = 0\n";
    let first = head.to_owned() + &route((0, "A")) + &route((1, "B"));
    std::fs::write(&file, &first).expect("written");
    let config = file.to_str().expect("UTF-8");
    let distributor = http::start(&["source-distributor", "--interface", "127.0.0.1", "--config", config]);
    let hubs = distributor.at("hub");
    let hubs: Vec<&str> = hubs.split(',').collect();
    assert_eq!(hubs.len(), 2, "{}", distributor.ready);
    let p2ps = http::start(&[
        "p2ps",
        "--interface",
        "127.0.0.1",
        "--http-port",
        "0",
        "--rssl-port",
        "0",
        "--source-distributor",
        hubs[0],
        "--source-distributor",
        hubs[1],
    ]);
    assert_whole(&p2ps, "A");
    assert_whole(&p2ps, "B");
    assert_ne!(thread_of(&distributor, "A"), thread_of(&distributor, "B"));
    // A route that comes with a reload is dialled by the thread whose part it is, and by no other.
    std::fs::write(&file, first + &route((2, "C"))).expect("written");
    let (done, said) = ctl(&distributor, &["reload", "--why", "another provider"]);
    assert!(done, "{said}");
    assert_whole(&p2ps, "C");
    assert_eq!(thread_of(&distributor, "C"), thread_of(&distributor, "A"));
    // The second thread need not know what the first one has.
    let (done, said) = ctl(&distributor, &["switch", "B", &sources[1].1, "--why", "a test"]);
    assert!(done, "{said}");
    let (done, said) = ctl(&distributor, &["switch", "NONE", "--why", "a test"]);
    assert!(!done, "{said}");
}
