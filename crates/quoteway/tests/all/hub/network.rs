//! Two and three hosts, with a network between them that loses packets and falls apart.
//!
//! With `QUOTEWAY_LONG=1` the partition lasts 70 s: topic resolution has gone quiet and sessions have ended by then.

use std::time::{Duration, Instant};

use crate::hosts::{Host, Lan};
use crate::hub::names;
use crate::hub::place::Place;
use crate::hub::provider::Counting;
use crate::hub::site::{Join, Site, Tuning};
use crate::hub::watcher::Watcher;

/// Provider and Source Distributor on one host, P2PS and consumers on the other.
const TWO: [&str; 3] = ["one", "one", "two"];
/// Provider and consumers ("the load driver") on one host, the Source Distributor and the P2PS on two others.
const THREE: [&str; 3] = ["driver", "sd", "p2ps"];

struct Network {
    provider: Counting,
    site: Site,
    watcher: Watcher,
    lan: Lan,
    /// The host of the P2PS.
    far: &'static str,
}

impl Network {
    /// Hosts of provider, Source Distributor and P2PS. `None` where there can be no hosts.
    fn new(join: Join, hosts: [&'static str; 3]) -> Option<Self> {
        Self::tuned(join, hosts, &Tuning::default())
    }

    fn tuned(join: Join, hosts: [&'static str; 3], tuning: &Tuning) -> Option<Self> {
        let mut all: Vec<&str> = hosts.to_vec();
        all.dedup();
        let lan = Lan::new(&all)?;
        let place = |name: &str| Place::from(lan.host(name));
        let provider = Counting::start(&place(hosts[0]));
        let site = Site::tuned(join, tuning, (&place(hosts[1]), &place(hosts[2])), &[&[provider.addr]], 1);
        // Consumers are where the provider is on three hosts, and at the P2PS on two.
        let consumers = if hosts[0] == hosts[1] { hosts[2] } else { hosts[0] };
        let watcher = Watcher::connect(&place(consumers), "watcher", site.rssl(0));
        watcher.open(&names(ITEMS));
        watcher.wait_all_ok();
        Some(Self { provider, site, watcher, far: hosts[2], lan })
    }

    fn far(&self) -> &Host {
        self.lan.host(self.far)
    }
}

/// No trains of datagrams by one call (GSO, GRO): each is sent, received and lost by itself.
const PLAIN: &[&str] = &["context udp_offload 0"];

/// Each is updated 200 times a second: 50,000 messages a second.
const ITEMS: usize = 250;

/// What the network loses, LBM repeats: consumers see every update, and no item becomes Suspect.
fn loss(join: Join, hosts: [&'static str; 3], percent: u32, lbm: &'static [&'static str]) {
    let tuning = Tuning { lbm, ..Tuning::default() };
    let Some(network) = Network::tuned(join, hosts, &tuning) else { return };
    let before = suspects(&network.watcher);
    network.far().lose(percent);
    let (begun, updates) = (Instant::now(), network.provider.updates());
    network.watcher.wait_updates(600);
    // A machine that has other things to do may be slower; what was reached is said.
    let rate = (network.provider.updates() - updates) as f64 / begun.elapsed().as_secs_f64();
    println!("{join:?}, {percent} % lost: {rate:.0} messages a second");
    network.watcher.settle(&network.provider);
    assert!(network.far().lost() > 0, "packets were lost");
    network.far().lose(0);
    network.watcher.wait_updates(10);
    assert_eq!(suspects(&network.watcher), before, "nothing was lost to consumers");
}

fn suspects(watcher: &Watcher) -> u32 {
    watcher.look(|v| v.items.values().map(|i| i.suspects).sum())
}

/// The P2PS's host is cut off: its items are Suspect within the silence that is borne, and come back with images.
fn partition(join: Join, hosts: [&'static str; 3]) {
    let Some(network) = Network::new(join, hosts) else { return };
    let long = std::env::var("QUOTEWAY_LONG").is_ok();
    // On three hosts the consumers are cut off as well: the P2PS alone can say what it knows.
    network.far().cut_off();
    let begun = Instant::now();
    network.watcher.wait_none_ok();
    let rest = Duration::from_secs(if long { 70 } else { 5 }).saturating_sub(begun.elapsed());
    network.watcher.stays("nothing can be Ok while cut off", rest, |v| v.items.values().all(|i| !i.is_ok));
    network.far().rejoin();
    network.watcher.wait_all_ok();
    network.watcher.wait_updates(20);
    network.watcher.settle(&network.provider);
    drop(network.site);
}

macro_rules! losses {
    ($($name:ident: $join:expr, $hosts:expr, $percent:expr, $lbm:expr;)*) => {$(
        #[test]
        fn $name() {
            loss($join, $hosts, $percent, $lbm);
        }
    )*};
}

losses! {
    two_hosts_lose_1_percent: Join::LbtRm, TWO, 1, &[];
    two_hosts_lose_5_percent: Join::LbtRm, TWO, 5, &[];
    two_hosts_lose_20_percent: Join::LbtRm, TWO, 20, &[];
    two_hosts_without_offload_lose_20_percent: Join::LbtRm, TWO, 20, PLAIN;
    three_hosts_lose_5_percent: Join::LbtRm, THREE, 5, &[];
    unicast_udp_loses_20_percent: Join::LbtRu, TWO, 20, &[];
    unicast_udp_without_offload_loses_20_percent: Join::LbtRu, TWO, 20, PLAIN;
    daemons_lose_5_percent: Join::Rrcpd, THREE, 5, &[];
}

#[cfg(feature = "aeron")]
losses! {
    aeron_multicast_loses_5_percent: Join::AeronMulticast, TWO, 5, &[];
    aeron_unicast_loses_1_percent: Join::AeronUnicast, TWO, 1, &[];
    aeron_unicast_loses_5_percent: Join::AeronUnicast, TWO, 5, &[];
}

#[cfg(feature = "aeron")]
#[test]
fn aeron_falls_apart_and_comes_back() {
    partition(Join::AeronUnicast, TWO);
}

#[test]
fn two_hosts_fall_apart_and_find_each_other() {
    partition(Join::LbtRm, TWO);
}

#[test]
fn daemons_fall_apart_and_find_each_other() {
    partition(Join::Rrcpd, TWO);
}

#[test]
fn tcp_falls_apart_and_comes_back() {
    partition(Join::Tcp, TWO);
}
