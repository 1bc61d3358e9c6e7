//! The hosts of a measurement: this one by loopback, or network namespaces joined as machines are: two by a veth pair, more by a bridge.
//!
//! Host 0 is where the sources are, each receiver has a host of its own: report 1:1 has two machines, 3:3 four. A namespace is no
//! machine: all of them share the processors.

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use measure::process::Fault;

/// The hosts; they are gone when this value is.
#[derive(Debug)]
pub(super) struct Lan {
    /// Network namespaces; none is loopback.
    hosts: Vec<String>,
    switch: Option<String>,
}

const QUEUE_LENGTH: u32 = 5_000;

static MADE: AtomicU32 = AtomicU32::new(0);

impl Lan {
    /// This host.
    pub(super) fn loopback() -> Self {
        Self { hosts: Vec::new(), switch: None }
    }

    /// So many hosts, at least two, and how long frames between them may be.
    ///
    /// # Errors
    /// Without root or the `ip` command.
    pub(super) fn make(count: usize, mtu: u32) -> Result<Self, Fault> {
        let tag = format!("{:x}{:x}", std::process::id() & 0xFFFF, MADE.fetch_add(1, Ordering::Relaxed) & 0xFF);
        let mut lan = Self { hosts: Vec::new(), switch: None };
        for n in 0..count.clamp(2, 200) {
            let name = format!("quoteway-lbm-{tag}-{n}");
            ip(&format!("netns add {name}"))?;
            lan.hosts.push(name.clone());
            ip(&format!("-n {name} link set lo up"))?;
        }
        let ends = format!("mtu {mtu} txqueuelen {QUEUE_LENGTH}");
        if let [one, other] = lan.hosts.as_slice() {
            ip(&format!("link add eth0 {ends} netns {one} type veth peer name eth0 {ends} netns {other}"))?;
        } else {
            let switch = format!("quoteway-lbm-{tag}-s");
            ip(&format!("netns add {switch}"))?;
            lan.switch = Some(switch.clone());
            // Without snooping the bridge gives multicast to every port.
            ip(&format!("-n {switch} link add br0 mtu {mtu} type bridge mcast_snooping 0"))?;
            ip(&format!("-n {switch} link set br0 up"))?;
            for (n, host) in lan.hosts.iter().enumerate() {
                ip(&format!("link add eth0 {ends} netns {host} type veth peer name p{n} {ends} netns {switch}"))?;
                ip(&format!("-n {switch} link set p{n} master br0 up"))?;
            }
        }
        for (n, host) in lan.hosts.iter().enumerate() {
            ip(&format!("-n {host} addr add {}/24 dev eth0", address(n)))?;
            ip(&format!("-n {host} link set eth0 up"))?;
            ip(&format!("-n {host} route add 224.0.0.0/4 dev eth0"))?;
        }
        Ok(lan)
    }

    /// The address of a host.
    pub(super) fn address(&self, host: usize) -> Ipv4Addr {
        if self.hosts.is_empty() { Ipv4Addr::LOCALHOST } else { address(host) }
    }

    /// The words in front of a command that run it on a host.
    pub(super) fn enter(&self, host: usize) -> Vec<String> {
        match self.hosts.get(host) {
            Some(name) => ["ip", "netns", "exec", name].map(str::to_owned).to_vec(),
            None => Vec::new(),
        }
    }

    /// Whether hosts are apart.
    pub(super) fn is_apart(&self) -> bool {
        !self.hosts.is_empty()
    }
}

fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 213, 9, host as u8 + 1)
}

impl Drop for Lan {
    fn drop(&mut self) {
        for name in self.hosts.iter().chain(&self.switch) {
            // The veth pairs go with their namespace.
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

fn ip(args: &str) -> Result<(), Fault> {
    let output = Command::new("ip").args(args.split_whitespace()).output();
    let output = output.map_err(|e| format!("veth needs the ip command (iproute2): {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(Fault::Failed(format!("ip {args}: {} (--loopback does without namespaces)", why.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::Nodes;

    #[test]
    fn hosts_reach_each_other_and_vanish() {
        let loopback = Lan::loopback();
        assert_eq!((loopback.address(3), loopback.enter(0).len()), (Ipv4Addr::LOCALHOST, 0));
        if !Nodes::can_be_made() {
            println!("no hosts: network namespaces need root and iproute2");
            return;
        }
        for count in [2, 4] {
            let lan = Lan::make(count, 9_000).expect("hosts");
            assert!(lan.is_apart());
            let words = lan.enter(0);
            let to = lan.address(count - 1).to_string();
            let run = |args: &[&str]| Command::new(&words[0]).args(&words[1..]).args(args).output().expect("it runs");
            assert!(run(&["ip", "route", "get", &to]).status.success());
            let name = words[3].clone();
            drop(lan);
            let listed = Command::new("ip").args(["netns", "list"]).output().expect("it runs");
            assert!(!String::from_utf8_lossy(&listed.stdout).contains(&name));
        }
    }
}
