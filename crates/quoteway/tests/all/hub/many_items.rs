//! Each process of a site fails in each way while many items update, on a network of hosts; in the end each watcher's image is the
//! provider's.
//!
//! `QUOTEWAY_ITEMS` says how many items (2,000 without it); with 100,000 of them an optimised build takes some minutes.

use std::time::{Duration, Instant};

use crate::hosts::Lan;
use crate::hub::names;
use crate::hub::place::Place;
use crate::hub::provider::Counting;
use crate::hub::site::{Join, Site};
use crate::hub::watcher::Watcher;

/// How long a fault lasts, which is what is tested: longer than the silence that is borne (`peer_timeout_ms`). Nothing is waited for by it.
const AWAY: Duration = Duration::from_millis(1_300);
const HOSTS: [&str; 3] = ["feed", "distributors", "consumers"];
/// Processes: two P2PSs, two Source Distributors, a daemon on each side.
const PROCESSES: usize = 6;

struct Scene {
    items: usize,
    lan: Lan,
    provider: Counting,
    site: Site,
    /// One for each P2PS.
    watchers: Vec<Watcher>,
}

impl Scene {
    fn new(items: usize) -> Option<Self> {
        let lan = Lan::new(&HOSTS)?;
        let place = |name: &str| Place::from(lan.host(name));
        let provider = Counting::start(&place("feed"));
        let routes = [provider.addr];
        let places = (&place("distributors"), &place("consumers"));
        let site = Site::across(Join::Rrcpd, places, &[&routes, &routes], 2);
        let mut scene = Self { items, lan, provider, site, watchers: Vec::new() };
        scene.watchers = (0..2).map(|number| scene.watch(number)).collect();
        Some(scene)
    }

    fn place(&self, name: &str) -> Place {
        Place::from(self.lan.host(name))
    }

    fn watch(&self, number: usize) -> Watcher {
        let addr = self.site.rssl(number);
        let watcher = Watcher::connect(&self.place("consumers"), &format!("watcher {number}"), addr);
        watcher.has_several_sources();
        watcher.open(&names(self.items));
        watcher
    }

    /// What one process can suffer: it dies and comes back, stands still for less than is borne, and for more.
    fn fail(&mut self, number: usize) {
        let part = self.site.part(number);
        let name = part.name().to_owned();
        part.kill();
        std::thread::sleep(AWAY);
        part.restart();
        self.assert_whole(&format!("{name} died and came back"));
        for still in [AWAY / 4, AWAY] {
            let part = self.site.part(number);
            part.freeze();
            std::thread::sleep(still);
            part.thaw();
            self.assert_whole(&format!("{name} stood still for {still:?}"));
        }
    }

    fn cut_off(&mut self, host: &str) {
        self.lan.host(host).cut_off();
        std::thread::sleep(AWAY);
        self.lan.host(host).rejoin();
        self.assert_whole(&format!("the host of the {host} was cut off"));
    }

    /// Every watcher has every item, gets updates of it, and in the end has what the provider has.
    fn assert_whole(&mut self, after: &str) {
        let begun = Instant::now();
        for number in 0..self.watchers.len() {
            if self.watchers[number].look(|v| v.ended.is_some()) {
                // Consumers come back when their connection is lost.
                self.watchers[number] = self.watch(number);
            }
        }
        for watcher in &self.watchers {
            watcher.wait_all_ok();
            watcher.wait_updates(1);
        }
        for watcher in &self.watchers {
            watcher.settle(&self.provider);
            assert_eq!(watcher.look(|v| v.items.len()), self.items);
        }
        println!("{after}: all is as the provider has it after {:?}", begun.elapsed());
    }
}

#[test]
fn each_process_fails_in_each_way() {
    let items = std::env::var("QUOTEWAY_ITEMS").ok().map_or(2_000, |text| text.parse().expect("a number of items"));
    let Some(mut scene) = Scene::new(items) else { return };
    scene.assert_whole("the beginning");
    for number in 0..PROCESSES {
        scene.fail(number);
    }
    for host in HOSTS {
        scene.cut_off(host);
    }
    let place = scene.place("feed");
    scene.provider.restart(&place);
    scene.assert_whole("the provider died and came back");
}
