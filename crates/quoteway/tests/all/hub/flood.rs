//! A source that sends as fast as it may: nobody is cut off for that, and nothing is lost.

use crate::hub::names;
use crate::hub::place::Place;
use crate::hub::provider::Counting;
use crate::hub::site::{Join, Site, Tuning};
use crate::hub::watcher::Watcher;

/// Much more than a window of the data stream, in updates.
const FLOOD: u64 = 200_000;

/// What is in memory between processes is overwritten long before all of a flood was sent.
const LBM: &[&str] = &["source transport_lbtipc_transmission_window_size 4194304"];

/// The window is the smallest one, and everyone is waited for as long as it takes: this machine may have other things to do.
fn patient() -> Tuning {
    Tuning {
        hub: "window_bytes = 1048576
patience_ms = 30000
"
        .to_owned(),
        lbm: LBM,
        ..Tuning::default()
    }
}

struct Scene {
    provider: Counting,
    site: Site,
    watchers: Vec<Watcher>,
}

impl Scene {
    fn new(join: Join, tuning: &Tuning) -> Self {
        let place = Place::Here;
        let provider = Counting::start(&place);
        let site = Site::tuned(join, tuning, (&place, &place), &[&[provider.addr]], 2);
        let watchers: Vec<Watcher> =
            (0..2).map(|n| Watcher::connect(&place, &format!("watcher {n}"), site.rssl(n))).collect();
        for watcher in &watchers {
            watcher.open(&names(100));
            watcher.wait_all_ok();
        }
        Self { provider, site, watchers }
    }

    fn suspects(&self) -> Vec<u32> {
        self.watchers.iter().map(|w| w.look(|v| v.items.values().map(|i| i.suspects).sum())).collect()
    }

    fn distributor(&self, counter: &str) -> u64 {
        self.site.distributors[0].counter("source-distributor", counter)
    }

    /// Asks until the distributor has counted one. Each question is a process, so that nothing spins.
    fn wait_distributor(&self, counter: &str) {
        crate::hub::until(counter, || self.distributor(counter) > 0);
    }
}

/// The providers wait for the P2PSs, whatever is between.
fn providers_wait(join: Join) {
    let scene = Scene::new(join, &patient());
    let before = scene.suspects();
    scene.provider.flood(FLOOD);
    for watcher in &scene.watchers {
        watcher.settle(&scene.provider);
    }
    assert_eq!(scene.suspects(), before, "nothing was lost");
    assert!(scene.distributor("updates") >= FLOOD);
    for bad in ["p2ps_lost", "p2ps_cut_off", "left_behind", "gaps"] {
        assert_eq!(scene.distributor(bad), 0, "{bad}");
    }
    for p2ps in &scene.site.p2pss {
        assert_eq!(p2ps.counter("p2ps", "hub_messages_lost"), 0);
    }
}

/// A P2PS that stands still is waited for only so long: the other's watchers go on, and its own see Suspect, then what is.
fn a_frozen_p2ps_holds_nobody_up(join: Join) {
    let scene = Scene::new(join, &Tuning { hub: "window_bytes = 1048576\n".to_owned(), lbm: LBM, ..Tuning::default() });
    scene.site.p2pss[0].freeze();
    scene.provider.flood(FLOOD);
    scene.watchers[1].settle(&scene.provider);
    scene.wait_distributor("p2ps_lost");
    scene.watchers[1].wait_updates(1);
    scene.site.p2pss[0].thaw();
    scene.watchers[0].wait("every item to have been Suspect", |v| v.items.values().all(|i| i.suspects > 0));
    for watcher in &scene.watchers {
        watcher.wait_all_ok();
        watcher.settle(&scene.provider);
    }
}

macro_rules! suite {
    ($($name:ident: $join:expr;)*) => {$(
        mod $name {
            use crate::hub::site::Join;

            #[test]
            fn providers_wait() {
                super::providers_wait($join);
            }

            #[test]
            fn a_frozen_p2ps_holds_nobody_up() {
                super::a_frozen_p2ps_holds_nobody_up($join);
            }
        }
    )*};
}

suite! {
    tcp: Join::Tcp;
    lbt_rm: Join::LbtRm;
    lbt_ru: Join::LbtRu;
    lbt_tcp: Join::LbtTcp;
    lbt_ipc: Join::LbtIpc;
    rrcpd: Join::Rrcpd;
}

#[cfg(feature = "aeron")]
suite! {
    aeron_unicast: Join::AeronUnicast;
    aeron_multicast: Join::AeronMulticast;
    aeron_ipc: Join::AeronIpc;
}

/// What LBM does not take waits, and the providers with it.
#[test]
fn providers_wait_for_a_rate_limit() {
    let tuning = Tuning {
        hub: "window_bytes = 0\nmax_backlog = 1000000\n".to_owned(),
        lbm: &["context transport_lbtrm_data_rate_limit 40000000"],

        ..Tuning::default()
    };
    let scene = Scene::new(Join::LbtRm, &tuning);
    let before = scene.suspects();
    // A machine that has much else to do may take longer over one flood than the limit does.
    crate::hub::until("the limit to be felt", || {
        scene.provider.flood(FLOOD / 3);
        scene.distributor("congestions") > 0 && scene.distributor("blocked") > 0
    });
    for watcher in &scene.watchers {
        watcher.settle(&scene.provider);
    }
    assert_eq!(scene.suspects(), before, "nothing was lost");
    assert_eq!(scene.distributor("waiting_bytes"), 0, "all was sent");
}
