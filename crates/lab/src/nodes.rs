//! The nodes of a test: network namespaces joined by veth pairs as by crossover cables, or everything on loopback.
//!
//! Two nodes: source and client on node 1, the system on node 2, as in report 1. Three: Source Distributor on node 2,
//! P2PS on node 3, and a cable between each two of them. A namespace is no machine: all nodes share the processors. Where the user names
//! machines ([`Hosts`]), these are the nodes of the system, and this machine is node 1.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::hosts::{Hosts, LOOPBACK};
use measure::process::Fault;

/// The nodes; namespaces are gone when this value is.
pub struct Nodes {
    /// Names of the namespaces.
    names: Vec<String>,
    /// Machines instead.
    hosts: Option<Arc<Hosts>>,
}

/// How the networks between nodes are.
#[derive(Clone, Copy, Debug)]
pub struct Network<'a> {
    /// Longest frame.
    pub mtu: u32,
    /// Segmentation offload: `on`, `off`, or empty for what the kernel chooses.
    pub tso: &'a str,
}

/// Switches TCP segmentation offload, as `ethtool -K DEVICE tso off` in the reports.
fn offload(node: &str, device: &str, how: &str) -> Result<(), Fault> {
    let done = ip(&format!("netns exec {node} ethtool -K {device} tso {how}"));
    let hint = "segmentation offload is switched by ethtool, which has to be installed";
    done.map_err(|fault| if fault == Fault::Stopped { fault } else { Fault::Failed(format!("{hint}: {fault}")) })
}

/// Length of the interfaces' send queues, as in the reports.
const QUEUE_LENGTH: u32 = 5_000;

/// Each set of nodes of this process has names of its own.
static MADE: AtomicU32 = AtomicU32::new(0);

impl Nodes {
    /// One node: this one.
    pub fn loopback() -> Self {
        Self { names: Vec::new(), hosts: None }
    }

    /// This machine, and those that were reached.
    pub fn on(hosts: Arc<Hosts>) -> Self {
        Self { names: Vec::new(), hosts: Some(hosts) }
    }

    /// The machines beside this one, where there are some.
    pub fn hosts(&self) -> Option<&Hosts> {
        self.hosts.as_deref()
    }

    /// Makes two or three nodes whose networks are as they should be; one is loopback.
    ///
    /// # Errors
    /// Without root or the `ip` command.
    pub fn make(count: u32, network: Network<'_>) -> Result<Self, Fault> {
        if count < 2 {
            return Ok(Self::loopback());
        }
        let tag = format!("{:x}{:x}", std::process::id() & 0xFFFF, MADE.fetch_add(1, Ordering::Relaxed) & 0xFF);
        let mut nodes = Self::loopback();
        for n in 1..=count {
            let name = format!("quoteway-{tag}-{n}");
            ip(&format!("netns add {name}"))?;
            nodes.names.push(name);
            ip(&format!("-n {} link set lo up", nodes.names[n as usize - 1]))?;
        }
        for (link, (a, b)) in cables(count).enumerate() {
            let ends = [format!("qw{tag}{link}a"), format!("qw{tag}{link}b")];
            let (names, length) = (&nodes.names, QUEUE_LENGTH);
            ip(&format!(
                "link add {} txqueuelen {length} netns {} type veth peer name {} txqueuelen {length} netns {}",
                ends[0], names[a], ends[1], names[b]
            ))?;
            for (end, node, host) in [(&ends[0], a, 1), (&ends[1], b, 2)] {
                ip(&format!("-n {} addr add 10.213.{link}.{host}/24 dev {end}", names[node]))?;
                ip(&format!("-n {} link set {end} mtu {}", names[node], network.mtu))?;
                if !network.tso.is_empty() {
                    offload(&names[node], end, network.tso)?;
                }
                ip(&format!("-n {} link set {end} up", names[node]))?;
            }
        }
        Ok(nodes)
    }

    /// So many of a hundred datagrams that reach the nodes of the hub are lost, chosen at random: the hub's data, NAKs and repairs alike. A train
    /// (GSO) is one packet here. Nothing where there is no network of the hub's own.
    ///
    /// # Errors
    /// Without nftables.
    pub fn lose(&self, percent: u32) -> Result<(), Fault> {
        if percent == 0 || self.names.len() < 3 {
            return Ok(());
        }
        let rules = format!(
            "add table inet loss; add chain inet loss in {{ type filter hook prerouting priority -300; }}; \
             add rule inet loss in iifname != lo meta l4proto udp numgen random mod 100 < {percent} drop"
        );
        for name in &self.names[1..] {
            let output = Command::new("ip").args(["netns", "exec", name, "nft", &rules]).output();
            let output = output.map_err(|e| format!("nodes need the ip command (iproute2): {e}"))?;
            if !output.status.success() {
                let why = String::from_utf8_lossy(&output.stderr);
                return Err(Fault::Failed(format!("losses need nftables: nft: {}", why.trim())));
            }
        }
        Ok(())
    }

    /// Whether this process may make nodes.
    pub fn can_be_made() -> bool {
        // An effective user id of 0, as the status of the process says it.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ids = status.lines().find(|l| l.starts_with("Uid:")).unwrap_or_default();
        ids.split_whitespace().nth(2) == Some("0") && ip("netns list").is_ok()
    }

    /// Where the source listens.
    pub fn source(&self) -> IpAddr {
        match &self.hosts {
            Some(hosts) => hosts.here(),
            None if self.names.is_empty() => LOOPBACK,
            None => Ipv4Addr::new(10, 213, 0, 1).into(),
        }
    }

    /// Where the P2PS listens, as the clients see it.
    pub fn server(&self) -> IpAddr {
        if let Some(hosts) = &self.hosts {
            return hosts.last();
        }
        match self.names.len() {
            0 => LOOPBACK,
            2 => Ipv4Addr::new(10, 213, 0, 2).into(),
            _ => Ipv4Addr::new(10, 213, 2, 1).into(),
        }
    }

    /// Where the Source Distributor listens for P2PSs.
    pub fn distributor(&self) -> IpAddr {
        if let Some(hosts) = &self.hosts {
            return hosts.first();
        }
        match self.names.len() {
            0 => LOOPBACK,
            2 => self.server(),
            _ => Ipv4Addr::new(10, 213, 1, 1).into(),
        }
    }

    /// The P2PS's end of the hub's network.
    pub fn far_hub(&self) -> IpAddr {
        match &self.hosts {
            Some(hosts) => hosts.last(),
            None if self.names.len() == 3 => Ipv4Addr::new(10, 213, 1, 2).into(),
            None => self.distributor(),
        }
    }

    /// The words in front of a command that run it on the node of this process (`source`, `client`, `server`,
    /// `distributor`).
    pub fn enter(&self, process: &str) -> Vec<String> {
        if let Some(hosts) = &self.hosts {
            return hosts.enter(process);
        }
        let node = match process {
            _ if self.names.is_empty() => return Vec::new(),
            "source" | "client" => 0,
            "server" => self.names.len() - 1,
            _ => 1,
        };
        ["ip", "netns", "exec", self.names[node].as_str()].map(str::to_owned).to_vec()
    }
}

/// Which nodes have a cable between them: link `n` has the network 10.213.n.0, its first end .1.
fn cables(count: u32) -> impl Iterator<Item = (usize, usize)> {
    [(0, 1), (1, 2), (2, 0)].into_iter().take(if count == 2 { 1 } else { 3 })
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for name in &self.names {
            // The veth pairs go with their namespace.
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

fn ip(args: &str) -> Result<(), Fault> {
    let output = Command::new("ip").args(args.split_whitespace()).output();
    let output = output.map_err(|e| format!("nodes need the ip command (iproute2): {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(Fault::Failed(format!("ip {args}: {} (--loopback does without nodes)", why.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_nodes_everything_is_here() {
        let nodes = Nodes::make(1, Network { mtu: 1_500, tso: "" }).unwrap();
        assert_eq!((nodes.source(), nodes.server()), (LOOPBACK, LOOPBACK));
        assert!(nodes.enter("source").is_empty());
    }

    #[test]
    fn nodes_reach_each_other_and_nothing_else_and_vanish() {
        if !Nodes::can_be_made() {
            println!("no nodes: network namespaces need root and iproute2");
            return;
        }
        let nodes = Nodes::make(3, Network { mtu: 9_000, tso: "" }).unwrap();
        let names = nodes.names.clone();
        let finds = |from: &str, to: IpAddr| {
            let words = nodes.enter(from);
            let command =
                Command::new(&words[0]).args(&words[1..]).args(["ip", "route", "get"]).arg(to.to_string()).output();
            command.is_ok_and(|o| o.status.success())
        };
        let pairs = [("client", nodes.server()), ("distributor", nodes.source()), ("server", nodes.distributor())];
        for (from, to) in pairs {
            assert!(finds(from, to), "{from} to {to}");
        }
        assert!(!finds("source", Ipv4Addr::new(192, 0, 2, 1).into()), "there is no way out");
        drop(nodes);
        let listed = Command::new("ip").args(["netns", "list"]).output().unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(names.iter().all(|name| !listed.contains(name.as_str())), "{listed}");
    }
}
