//! Everything that can stop, stops at random: processes are frozen, thawed, killed and started again, several at a time. Watchers
//! check each message; when all run again and nothing is published any more, each item is Ok with its last value.
//!
//! `QUOTEWAY_SEED` replays a run, `QUOTEWAY_LONG=1` makes it ten times as long.

use std::time::{Duration, Instant};

use crate::hub::names;
use crate::hub::place::Place;
use crate::hub::provider::Counting;
use crate::hub::site::{Join, Site};
use crate::hub::watcher::Watcher;

const ITEMS: usize = 20;

struct Soak {
    random: u64,
    provider: Counting,
    site: Site,
    watchers: Vec<Watcher>,
    /// By number of the process: it stands still.
    frozen: Vec<bool>,
    /// The actions so far, for a failure's message.
    script: Vec<String>,
}

impl Soak {
    fn new(join: Join, seed: u64) -> Self {
        let place = Place::Here;
        let provider = Counting::start(&place);
        let site = Site::start(join, &place, &[&[provider.addr], &[provider.addr]], 2);
        let count = site.distributors.len() + site.p2pss.len() + site.relays.len();
        let watchers = (0..2).map(|n| Self::watch(&site, n)).collect();
        Self { random: seed | 1, provider, site, watchers, frozen: vec![false; count], script: Vec::new() }
    }

    fn watch(site: &Site, number: usize) -> Watcher {
        let watcher = Watcher::connect(&Place::Here, &format!("watcher {number}"), site.rssl(number));
        watcher.open(&names(ITEMS));
        watcher
    }

    /// xorshift: any number below `below`.
    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn note(&mut self, what: &str, number: usize) {
        self.script.push(format!("{what} {number}"));
    }

    fn thaw(&mut self, number: usize) {
        if std::mem::take(&mut self.frozen[number]) {
            self.note("thaw", number);
            self.site.part(number).thaw();
        }
    }

    fn restart(&mut self, number: usize) {
        self.note("restart", number);
        self.frozen[number] = false;
        self.site.part(number).restart();
        if number < self.watchers.len() {
            // Its consumers come back as others.
            self.watchers[number] = Self::watch(&self.site, number);
        }
    }

    fn act(&mut self) {
        let number = self.draw(self.frozen.len() as u64) as usize;
        match self.draw(4) {
            0 => self.restart(number),
            _ if self.frozen[number] => self.thaw(number),
            _ => {
                self.note("freeze", number);
                self.site.part(number).freeze();
                self.frozen[number] = true;
            }
        }
        // Shorter than the silence that is borne, and longer.
        std::thread::sleep(Duration::from_millis([20, 150, 600, 1_300][self.draw(4) as usize]));
    }

    /// Everything runs, and what watchers hold at rest is true.
    fn rest(&mut self) {
        (0..self.frozen.len()).for_each(|number| self.thaw(number));
        for watcher in &self.watchers {
            watcher.wait_all_ok();
            watcher.wait_updates(3);
            watcher.settle(&self.provider);
        }
    }
}

/// A failed run says how it went and how it is had again.
impl Drop for Soak {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("what was done: {}", self.script.join(", "));
        }
    }
}

fn soak(join: Join) {
    let seed = std::env::var("QUOTEWAY_SEED").ok().and_then(|s| s.parse().ok());
    let seed = seed.unwrap_or_else(|| (u64::from(std::process::id()) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    println!("{join:?}: QUOTEWAY_SEED={seed}");
    let long = std::env::var("QUOTEWAY_LONG").is_ok();
    let mut soak = Soak::new(join, seed);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(if long { 200 } else { 20 }) {
        for _ in 0..=soak.draw(5) {
            soak.act();
        }
        soak.rest();
    }
}

#[test]
fn anything_stops_behind_daemons() {
    soak(Join::Rrcpd);
}

#[test]
fn anything_stops_around_shared_memory() {
    soak(Join::LbtIpc);
}

#[test]
fn anything_stops_around_multicast() {
    soak(Join::LbtRm);
}
