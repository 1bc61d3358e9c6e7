//! The stacked topologies of the reports between two hosts with two network cards each: multipath (a daemon for each card, services
//! split between them), with several P2PSs behind each daemon (multiplex), and several Source Distributors.

use crate::hosts::{Host, Lan};
use crate::hub::names;
use crate::hub::place::Place;
use crate::hub::provider::Counting;
use crate::hub::site::{Join, Site, Tuning, network};
use crate::hub::watcher::Watcher;

/// A hub on one network card of the two hosts.
struct Path {
    provider: Counting,
    site: Site,
    watchers: Vec<Watcher>,
}

impl Path {
    /// Source Distributors for the same provider and two P2PSs, a daemon at each end, all at these addresses of the hosts.
    fn new(hub: &'static str, network: &[String], near: &Host, far: &Host, distributors: usize) -> Self {
        let (near, far) = (Place::from(near), Place::from(far));
        let provider = Counting::start(&near);
        let tuning = Tuning { hub: hub.to_owned(), network: Some(network.to_vec()), ..Tuning::default() };
        let routes = [provider.addr];
        let site = Site::tuned(Join::Rrcpd, &tuning, (&near, &far), &vec![&routes[..]; distributors], 2);
        let watchers: Vec<Watcher> =
            (0..2).map(|n| Watcher::connect(&far, &format!("{hub:?} {n}"), site.rssl(n))).collect();
        for watcher in &watchers {
            watcher.open(&names(20));
            watcher.wait_all_ok();
        }
        Self { provider, site, watchers }
    }

    fn assert_well(&self) {
        for watcher in &self.watchers {
            watcher.wait_all_ok();
            watcher.wait_updates(20);
            watcher.settle(&self.provider);
        }
    }

    fn suspects(&self) -> u32 {
        self.watchers.iter().map(|w| w.look(|v| v.items.values().map(|i| i.suspects).sum::<u32>())).sum()
    }
}

/// Both paths carry; when one is cut, what goes by it is Suspect until it is back, and the other's watchers see nothing.
#[test]
fn one_of_two_paths_is_cut() {
    let Some(lan) = Lan::new(&["near", "far"]) else { return };
    lan.add_second_network();
    let (near, far) = (lan.host("near"), lan.host("far"));
    // Both hubs resolve on the same network: their names tell them apart.
    let shared = network();
    let first = Path::new("name = \"a\"\n", &shared, near, far, 1);
    let second = Path::new("name = \"b\"\n", &shared, &near.second(), &far.second(), 2);
    first.assert_well();
    second.assert_well();
    for (cut, path, other) in [(far, &first, &second), (&far.second(), &second, &first)] {
        let before = other.suspects();
        cut.cut_off();
        for watcher in &path.watchers {
            watcher.wait_none_ok();
        }
        for watcher in &other.watchers {
            watcher.wait_updates(50);
        }
        assert_eq!(other.suspects(), before, "the other path is as it was");
        cut.rejoin();
        path.assert_well();
        other.assert_well();
    }
    // A single daemon brought each stream to both P2PSs of its card.
    for (path, streams) in [(&first, 1), (&second, 2)] {
        assert_eq!(path.site.relays[1].counter("rrcpd", "streams"), streams);
        assert_eq!(path.site.relays[1].counter("rrcpd", "dropped"), 0);
    }
}
