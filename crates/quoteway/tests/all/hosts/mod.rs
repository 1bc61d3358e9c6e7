//! Hosts for tests: network namespaces, each with an `eth0`, joined by a bridge that carries multicast. Loss is made by nftables
//! where a host receives, a partition by a port of the bridge.
//!
//! ```ignore
//! let Some(lan) = Lan::new(&["feed", "client"]) else { return };
//! lan.host("client").lose(20);
//! let publisher = lan.host("feed").start("pub", env!("CARGO_BIN_EXE_quoteway"), &["lbmpub"]);
//! ```
//!
//! Needs root, `ip`, `bridge` (Debian: iproute2) and `nft` (nftables). Where they are missing [`Lan::new`] says so in one line and
//! gives nothing; with `QUOTEWAY_HOSTS=required` it fails instead.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::{BufRead as _, BufReader};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use measure::process::Process;

/// A network of hosts. Taken down when dropped.
pub(crate) struct Lan {
    prefix: String,
    hosts: Vec<Host>,
}

/// A host of a [`Lan`].
pub(crate) struct Host {
    /// As it was named.
    pub(crate) name: String,
    /// Of its `eth0`; the network is 10.77.0.0/24.
    pub(crate) address: Ipv4Addr,
    namespace: String,
    switch: String,
    /// Its port of the bridge.
    port: String,
}

static COUNT: AtomicU32 = AtomicU32::new(0);
/// `ip` sets up its folder with the first namespace, which two at a time spoil.
static BUILDING: Mutex<()> = Mutex::new(());

impl Lan {
    /// A host for each name, up and connected. `None` (and a line on standard error) where this machine cannot have any.
    pub(crate) fn new(names: &[&str]) -> Option<Self> {
        let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(why) = usable() {
            assert!(std::env::var("QUOTEWAY_HOSTS").as_deref() != Ok("required"), "no network of hosts: {why}");
            eprintln!("not run, no network of hosts: {why}");
            return None;
        }
        take_down_leftovers();
        let prefix = format!("qw{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let switch = format!("{prefix}-s");
        let mut lan = Self { prefix, hosts: Vec::new() };
        ip(&["netns", "add", &switch]);
        // Without snooping the bridge gives multicast to every port.
        ip(&["-n", &switch, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0"]);
        ip(&["-n", &switch, "link", "set", "br0", "up"]);
        for (i, name) in names.iter().enumerate() {
            lan.add(name, &switch, i as u8 + 1);
        }
        Some(lan)
    }

    fn add(&mut self, name: &str, switch: &str, number: u8) {
        let (namespace, port) = (format!("{}-{number}", self.prefix), format!("p{number}"));
        let address = Ipv4Addr::new(10, 77, 0, number);
        ip(&["netns", "add", &namespace]);
        ip(&["link", "add", "eth0", "netns", &namespace, "type", "veth", "peer", "name", &port, "netns", switch]);
        ip(&["-n", switch, "link", "set", &port, "master", "br0", "up"]);
        ip(&["-n", &namespace, "addr", "add", &format!("{address}/24"), "dev", "eth0"]);
        for device in ["lo", "eth0"] {
            ip(&["-n", &namespace, "link", "set", device, "up"]);
        }
        ip(&["-n", &namespace, "route", "add", "224.0.0.0/4", "dev", "eth0"]);
        self.hosts.push(Host { name: name.to_owned(), address, namespace, switch: switch.to_owned(), port });
    }

    /// Gives each host a second interface, `eth1` in 10.77.1.0/24, on a bridge of its own: [`Host::second`].
    pub(crate) fn add_second_network(&self) {
        let Some(switch) = self.hosts.first().map(|host| &host.switch) else { return };
        ip(&["-n", switch, "link", "add", "br1", "type", "bridge", "mcast_snooping", "0"]);
        ip(&["-n", switch, "link", "set", "br1", "up"]);
        for host in &self.hosts {
            let second = host.second();
            ip(&[
                "link",
                "add",
                "eth1",
                "netns",
                &host.namespace,
                "type",
                "veth",
                "peer",
                "name",
                &second.port,
                "netns",
                switch,
            ]);
            ip(&["-n", switch, "link", "set", &second.port, "master", "br1", "up"]);
            ip(&["-n", &host.namespace, "addr", "add", &format!("{}/24", second.address), "dev", "eth1"]);
            ip(&["-n", &host.namespace, "link", "set", "eth1", "up"]);
        }
    }

    /// The host of this name.
    pub(crate) fn host(&self, name: &str) -> &Host {
        self.hosts.iter().find(|h| h.name == name).unwrap_or_else(|| panic!("there is no host {name}"))
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        take_down(|namespace| namespace.starts_with(&format!("{}-", self.prefix)));
    }
}

impl Host {
    /// Its network namespace, as `ip netns` knows it.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// From now on no route leads to groups, nor (as ever) to other networks: a network of its own without a router.
    pub(crate) fn forget_multicast_route(&self) {
        ip(&["-n", &self.namespace, "route", "del", "224.0.0.0/4"]);
    }

    /// The same host at its second interface: its address there, and its port of that bridge.
    pub(crate) fn second(&self) -> Self {
        let [a, b, _, d] = self.address.octets();
        Self {
            name: self.name.clone(),
            address: Ipv4Addr::new(a, b, 1, d),
            namespace: self.namespace.clone(),
            switch: self.switch.clone(),
            port: format!("q{d}"),
        }
    }

    /// A command that runs on the host.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, program]);
        command
    }

    /// Starts a program on the host. Its log comes as lines of the process.
    pub(crate) fn start(&self, name: &str, program: &str, args: &[&str]) -> Process {
        let name = format!("{name} on {}", self.name);
        match Process::start(&name, self.command(program).args(args).env_remove("QUOTEWAY_LOG")) {
            Ok(process) => process,
            Err(fault) => panic!("{name}: {fault:?}"),
        }
    }

    /// From now on the host loses so many percent of the UDP packets that reach it, chosen at random. A train (GSO) is one packet
    /// here: it is lost as a whole.
    pub(crate) fn lose(&self, percent: u32) {
        self.nft("flush chain inet loss in");
        if percent > 0 {
            self.nft(&format!(
                "add rule inet loss in iifname \"eth0\" meta l4proto udp numgen random mod 100 < {percent} counter drop"
            ));
        }
    }

    /// How many packets [`Host::lose`] has taken since it was last called.
    pub(crate) fn lost(&self) -> u64 {
        let output = self.command("nft").args(["list", "chain", "inet", "loss", "in"]).output().expect("nft runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let packets = text.split("packets ").nth(1).and_then(|t| t.split(' ').next());
        packets.and_then(|n| n.parse().ok()).unwrap_or(0)
    }

    /// From now on the host counts what asks for a connection with it.
    pub(crate) fn count_connects(&self) {
        self.nft(
            "flush chain inet loss in; add rule inet loss in iifname \"eth0\" tcp flags & (syn | ack) == syn counter",
        );
    }

    /// How many there have been since [`Host::count_connects`].
    pub(crate) fn connects(&self) -> u64 {
        self.lost()
    }

    fn nft(&self, what: &str) {
        let base = "add table inet loss; add chain inet loss in { type filter hook prerouting priority -300; }";
        run(self.command("nft").arg(format!("{base}; {what}")));
    }

    /// Cuts the host off from all others: frames go neither way, its interface stays up.
    pub(crate) fn cut_off(&self) {
        self.set_port("0");
    }

    /// Ends [`Host::cut_off`].
    pub(crate) fn rejoin(&self) {
        self.set_port("3");
    }

    fn set_port(&self, state: &str) {
        run(Command::new("ip").args([
            "netns",
            "exec",
            &self.switch,
            "bridge",
            "link",
            "set",
            "dev",
            &self.port,
            "state",
            state,
        ]));
    }

    /// Captures what passes the host's `eth0` into a file, from when this returns (needs `dumpcap`).
    pub(crate) fn capture(&self, file: &Path) -> Capture {
        let mut command = self.command("dumpcap");
        command.args(["-q", "-i", "eth0", "-B", "64", "-w"]).arg(file);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("dumpcap starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let begun = lines.by_ref().map_while(Result::ok).find(|line| line.contains("File:"));
        assert!(begun.is_some(), "dumpcap captures");
        // Later output must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Capture { child, file: file.to_owned() }
    }
}

/// A capture that goes on.
pub(crate) struct Capture {
    child: Child,
    file: PathBuf,
}

impl Capture {
    /// Ends it; gives its file, which is whole.
    pub(crate) fn stop(mut self) -> PathBuf {
        run(Command::new("kill").args(["-INT", &self.child.id().to_string()]));
        let _ = self.child.wait();
        self.file.clone()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether this machine can have hosts, or why not.
fn usable() -> Result<(), String> {
    let id = Command::new("id").arg("-u").output().map_err(|e| format!("id: {e}"))?;
    if id.stdout.trim_ascii() != b"0" {
        return Err("it takes root".to_owned());
    }
    for (program, package) in [("ip", "iproute2"), ("bridge", "iproute2"), ("nft", "nftables")] {
        let found = Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
        found.map_err(|_| format!("there is no {program} (Debian: {package})"))?;
    }
    let probe = format!("qw{}-{}p", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let made = Command::new("ip").args(["netns", "add", &probe]).output().map_err(|e| format!("ip: {e}"))?;
    let deleted = Command::new("ip").args(["netns", "del", &probe]).output();
    match (made.status.success(), deleted) {
        (true, Ok(_)) => Ok(()),
        _ => Err(format!("no network namespaces: {}", String::from_utf8_lossy(&made.stderr).trim())),
    }
}

/// Namespaces of tests that were killed.
fn take_down_leftovers() {
    take_down(|namespace| {
        let pid = namespace.strip_prefix("qw").and_then(|rest| rest.split('-').next());
        pid.is_some_and(|pid| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists())
    });
}

fn take_down(mut which: impl FnMut(&str) -> bool) {
    let Ok(list) = Command::new("ip").args(["netns", "list"]).output() else { return };
    for line in String::from_utf8_lossy(&list.stdout).lines() {
        let namespace = line.split(' ').next().unwrap_or_default();
        if which(namespace) {
            let _ = Command::new("ip").args(["netns", "del", namespace]).output();
        }
    }
}

fn ip(args: &[&str]) {
    run(Command::new("ip").args(args));
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
