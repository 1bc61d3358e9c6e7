//! How long a takeover takes: of two Source Distributors that stand by for each other the one in use is killed again and again.
//!
//! `QUOTEWAY_TRIALS` says how often (3 without it); each takes about a second. What is told is the longest time between two updates of any item around
//! each kill, at the consumer: what the kill took to be noticed, the takeover, and the 5 ms between two updates.

use std::time::Duration;

use crate::hub::names;
use crate::hub::place::Place;
use crate::hub::provider::Counting;
use crate::hub::site::{Join, Site, Tuning};
use crate::hub::watcher::Watcher;

const ITEMS: usize = 100;

struct Trials {
    provider: Counting,
    site: Site,
    watcher: Watcher,
}

impl Trials {
    fn new(join: Join) -> Self {
        let place = Place::Here;
        let provider = Counting::start(&place);
        let tuning = Tuning { pairs: Some(true), ..Tuning::default() };
        let site = Site::tuned(join, &tuning, (&place, &place), &[&[provider.addr], &[provider.addr]], 1);
        let watcher = Watcher::connect(&place, "watcher", site.rssl(0));
        watcher.open(&names(ITEMS));
        watcher.wait_all_ok();
        Self { provider, site, watcher }
    }

    fn wait_for_standby(&self) {
        let wanted = format!("\"standby\":{ITEMS},");
        self.site.p2pss[0].wait_for_http("/api/v1/services", |_, body| body.contains(&wanted));
        // The images of all of them have come.
        self.watcher.wait_updates(60);
    }

    /// Images and Suspects of all items.
    fn heard(&self) -> (u32, u32) {
        self.watcher.look(|v| v.items.values().fold((0, 0), |(i, s), item| (i + item.images, s + item.suspects)))
    }

    /// The one that is in use dies; the longest pause of an item.
    fn one(&mut self, used: usize) -> Duration {
        self.wait_for_standby();
        let before = self.heard();
        self.watcher.forget_pauses();
        self.site.distributors[used].kill();
        self.watcher.wait_updates(40);
        assert_eq!(self.heard(), before, "no item has an image or is Suspect");
        let pause = self.watcher.look(|v| v.items.values().map(|item| item.pause).max());
        self.site.distributors[used].restart();
        pause.unwrap_or_default()
    }
}

fn takeovers(join: Join) {
    let count = std::env::var("QUOTEWAY_TRIALS").ok().and_then(|text| text.parse().ok()).unwrap_or(3_usize);
    let mut trials = Trials::new(join);
    let mut pauses: Vec<Duration> = (0..count).map(|trial| trials.one(trial % 2)).collect();
    trials.watcher.settle(&trials.provider);
    pauses.sort_unstable();
    let at = |share: f64| pauses[((count as f64 * share).ceil() as usize).clamp(1, count) - 1].as_secs_f64() * 1e3;
    println!(
        "{join:?}, {count} takeovers of {ITEMS} items: pauses of {:.1} ms in the middle, {:.1} ms at the 99th percentile, {:.1} ms at most",
        at(0.5),
        at(0.99),
        at(1.0)
    );
    assert!(at(0.99) < 1_000.0, "a takeover takes less than a second: {pauses:?}");
}

#[test]
fn takeovers_take_no_time_over_tcp() {
    takeovers(Join::Tcp);
}

#[test]
fn takeovers_take_no_time_over_multicast() {
    takeovers(Join::LbtRm);
}
