//! `lbmrouter` as its users run it, between a publisher and a subscriber as they run those. More of what it routes is tested in
//! `crates/lbm-router-io`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use measure::process::Process;

/// Longer than anything takes on a loaded machine, in seconds.
const PATIENCE: f64 = 120.0;

fn write(folder: &Path, name: &str, text: &str) -> String {
    let file = folder.join(name);
    std::fs::write(&file, text).expect("written");
    file.to_str().expect("a path").to_owned()
}

#[test]
fn a_file_that_cannot_be_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_quoteway")).arg("lbmrouter").args(args).output().expect("it runs");
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout),
        )
    };
    let (good, example) = run(&["--example"]);
    assert!(good, "{example}");
    let file = write(folder.path(), "example.toml", &example);
    let (good, said) = run(&["--check", &file]);
    assert!(
        good && said.contains("endpoint in domain 2") && said.contains("listens on 127.0.0.1:14380 by TCP"),
        "{said}"
    );
    let file = write(folder.path(), "bad.toml", &example.replace("domain = 2", "domain = 1"));
    let (good, said) = run(&["--check", &file]);
    assert!(!good && said.contains("[[endpoint]] 2") && said.contains("a router is in a domain once"), "{said}");
    let (good, said) = run(&["/nowhere/router.toml"]);
    assert!(!good && said.contains("/nowhere/router.toml"), "{said}");
}

/// Options of a domain that no other test has, as a file.
fn domain(folder: &Path, name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = std::process::id() * 16 + NEXT.fetch_add(1, Ordering::Relaxed);
    let (group, port) = (format!("239.68.{}.{}", n >> 8 & 255, n & 255), 20_000 + n % 20_000);
    let mut lines = format!(
        "context default_interface 127.0.0.1\ncontext resolver_multicast_address {group}\n\
         context resolver_multicast_port {port}\nsource transport_lbtrm_multicast_address {group}\n\
         source transport_lbtrm_destination_port {}\n",
        port + 1
    );
    let ports = ["context transport_lbtrm_source_port", "context transport_tcp_port", "context request_tcp_port"];
    for name in ports.into_iter().chain(["context transport_lbtru_port", "receiver transport_lbtru_port"]) {
        writeln!(lines, "{name}_low 0\n{name}_high 0").expect("a text");
    }
    write(folder, name, &lines)
}

/// A publisher in one domain and a subscriber in the other know nothing of the router, nor of each other's domain.
#[test]
fn a_publisher_and_a_subscriber_of_two_domains_meet_by_three_transports() {
    for transport in ["lbtrm", "lbtru", "tcp"] {
        let folder = tempfile::tempdir().expect("a folder");
        let (near, far) = (domain(folder.path(), "near.cfg"), domain(folder.path(), "far.cfg"));
        let endpoint = |number: u32, options: &str| {
            format!(
                "[[endpoint]]\ndomain = {number}\noptions = [\"{options}\"]\nset = [\"source transport {transport}\"]\n"
            )
        };
        let text = format!("name = \"between\"\n{}{}", endpoint(1, &near), endpoint(2, &far));
        let file = write(folder.path(), "router.toml", &text);
        let start = |args: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_quoteway"));
            Process::start(args[0], command.args(args)).expect("it starts")
        };
        let mut router = start(&["lbmrouter", &file]);
        router.wait_for("ready", PATIENCE).expect("it routes");
        let mut subscriber = start(&["lbmsub", "--topics", "3", "--options", &far]);
        subscriber.wait_for("ready", PATIENCE).expect("it listens");
        let words =
            format!("lbmpub --topics 3 --count 3000 --rate 3000 --transport {transport} --linger 1 --options {near}");
        let published = start(&words.split(' ').collect::<Vec<_>>()).json(PATIENCE).expect("a result");
        let received = subscriber.json(PATIENCE).expect("a result");
        assert_eq!(published["sent"], 3_000, "{transport}: {published}");
        assert_eq!((&received["lost"], &received["out_of_order"]), (&0.into(), &0.into()), "{transport}: {received}");
        let count = |name: &str| received[name].as_u64().unwrap_or(0);
        assert_eq!(count("messages") + count("before_first"), 3_000, "{transport}: {received}");
    }
}
