//! Desktops on a hub's multicast: each a host of its own with a `quoteway desktop` that runs without root, without a file and
//! without an address.
//!
//! `QUOTEWAY_DESKTOPS` is their number (8 without it; 240 at most).

use std::time::Duration;

use crate::hosts::Lan;
use crate::hub::place::Place;
use crate::hub::provider::Counting;
use crate::hub::site::{Join, Part, Site, Tuning};
use crate::hub::watcher::Watcher;
use crate::hub::{names, until};

const ITEMS: usize = 10;

struct Desktops {
    provider: Counting,
    site: Site,
    machines: Vec<(Place, Part)>,
    _lan: Lan,
}

impl Desktops {
    /// So many, and a Source Distributor on the LBM groups and ports that all have by default.
    fn start(count: usize, heartbeat_interval_ms: Option<u32>) -> Option<Self> {
        let hosts: Vec<String> = (0..count).map(|n| format!("desk{n}")).collect();
        let all: Vec<&str> = ["feed"].into_iter().chain(hosts.iter().map(String::as_str)).collect();
        let lan = Lan::new(&all)?;
        let feed = Place::from(lan.host("feed"));
        let provider = Counting::start(&feed);
        // Desktops say less often than other P2PSs of these tests that they are there.
        let (peer_timeout_ms, network) = (Some(3_000), Some(Vec::new()));
        let tuning = Tuning { peer_timeout_ms, heartbeat_interval_ms, network, ..Tuning::default() };
        let site = Site::tuned(Join::LbtRm, &tuning, (&feed, &feed), &[&[provider.addr]], 0);
        let machines = hosts.iter().map(|host| {
            let place = Place::from(lan.host(host));
            let part = Part::start_as_nobody(&place, host, &["desktop", "--http-port", "off"]);
            (place, part)
        });
        let machines = machines.collect();
        let desktops = Self { provider, site, machines, _lan: lan };
        desktops.until_joined(count);
        Some(desktops)
    }

    fn counter(&self, counter: &str) -> u64 {
        self.site.distributors[0].counter("source-distributor", counter)
    }

    fn until_joined(&self, count: usize) {
        until("all desktops to join", || self.counter("p2ps_joined") - self.counter("p2ps_lost") == count as u64);
    }

    /// Programs of the users, each on its user's machine, by the port that is usual.
    fn watch(&self) -> Vec<Watcher> {
        let local = "127.0.0.1:14002".parse().expect("an address");
        let watchers = self.machines.iter().enumerate().map(|(n, (place, _))| {
            let watcher = Watcher::connect(place, &format!("user {n}"), local);
            watcher.open(&names(ITEMS));
            watcher
        });
        watchers.collect()
    }

    /// Nanoseconds of processor that the Source Distributor uses in so long.
    fn cpu_in(&self, time: Duration) -> u64 {
        let distributor = &self.site.distributors[0];
        let before = distributor.cpu();
        std::thread::sleep(time);
        distributor.cpu() - before
    }
}

fn count() -> usize {
    std::env::var("QUOTEWAY_DESKTOPS").map_or(8, |n| n.parse().expect("QUOTEWAY_DESKTOPS is a number"))
}

/// Desktops find the hub by themselves, watch the same items as one stream each at the provider, and stand still, sleep and come back
/// without another one noticing; in the end all images are the same.
#[test]
fn desktops_find_the_hub_and_disturb_nobody() {
    let count = count();
    let Some(all) = Desktops::start(count, None) else { return };
    let watchers = all.watch();
    for watcher in &watchers {
        watcher.wait_all_ok();
        watcher.wait_updates(20);
    }
    assert_eq!(all.provider.streams(), ITEMS as u32, "an item is one stream at the provider, whoever watches it");
    let (sleepy, others) = watchers.split_first().expect("some");
    let suspects =
        |of: &[Watcher]| of.iter().map(|w| w.look(|v| v.items.values().map(|i| i.suspects).sum::<u32>())).sum::<u32>();
    let (before, lost, waits) = (suspects(others), all.counter("p2ps_lost"), all.counter("waits"));
    // A lid is closed: the Source Distributor takes the desktop for gone after a while, and the others go on.
    all.machines[0].1.freeze();
    until("the desktop that sleeps to be given up", || all.counter("p2ps_lost") > lost);
    for watcher in others {
        watcher.wait_updates(50);
    }
    assert_eq!(suspects(others), before, "no other desktop has noticed");
    all.machines[0].1.thaw();
    all.until_joined(count);
    sleepy.wait_all_ok();
    sleepy.wait_updates(20);
    assert_eq!(suspects(others), before, "nor has any noticed that it came back");
    assert_eq!(all.counter("waits"), waits, "the provider has waited for none of them");
    for watcher in &watchers {
        watcher.settle(&all.provider);
    }
}

/// What each desktop costs the Source Distributor while nobody watches anything: all of them, beside none. Measured where
/// `QUOTEWAY_DESKTOPS_IDLE` says for how many seconds.
///
/// Between the two the desktops stand still until they are taken for gone: their machines have each multicast datagram as before, of
/// which this kernel makes a copy for each on the sender's account. What is left is what the Source Distributor does for them.
#[test]
fn an_idle_desktop_costs_next_to_nothing() {
    let Ok(seconds) = std::env::var("QUOTEWAY_DESKTOPS_IDLE") else { return };
    let Some(mut all) = Desktops::start(count(), Some(1_000)) else { return };
    let seconds: u64 = seconds.parse().expect("seconds");
    let joined = all.machines.len();
    // Queries of the beginning, and leases of the end, are no part of it.
    let rest = Duration::from_secs(5);
    let each_second = |all: &Desktops| {
        std::thread::sleep(rest);
        all.cpu_in(Duration::from_secs(seconds)) as f64 / 1e3 / seconds as f64
    };
    let with = each_second(&all);
    all.machines.iter().for_each(|(_, part)| part.freeze());
    all.until_joined(0);
    let deaf = each_second(&all);
    all.machines.iter_mut().for_each(|(_, part)| part.kill());
    let without = each_second(&all);
    let [own, copies] = [with - deaf, deaf - without].map(|of_all| of_all / joined as f64);
    eprintln!(
        "us a second at the Source Distributor: {with:.0} with {joined} idle desktops, {deaf:.0} when they stand still, {without:.0} \
         with none; a desktop {own:.1}, its copies of the multicast {copies:.1}"
    );
    let most = if cfg!(debug_assertions) { 200.0 } else { 20.0 };
    assert!(own <= most, "{own:.1} us a second for an idle desktop, {most} at most");
}

/// A desktop that hears nobody says what to look at, and joins when there is somebody.
#[test]
fn a_desktop_that_hears_nobody_says_what_to_look_at() {
    let Some(lan) = Lan::new(&["alone"]) else { return };
    let place = Place::from(lan.host("alone"));
    let mut desktop = Part::start_as_nobody(&place, "alone", &["desktop", "--http-port", "off", "--hub", "prod"]);
    let line = desktop.wait_for("no Source Distributor of hub prod");
    assert!(line.contains("hub.interface") && line.contains("--source-distributor"), "{line}");
}
