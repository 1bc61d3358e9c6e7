//! Faults between consumers and the provider, as consumers see them: Suspect, then a fresh image; or a close with a
//! reason. The watchers check by themselves that nothing stale is Ok.

use crate::hub::names;
use crate::hub::place::Place;
use crate::hub::provider::{Counting, SERVICE};
use crate::hub::site::{Join, Part, Site, Tuning};
use crate::hub::watcher::Watcher;

/// A provider, a site with two P2PSs, and a watcher at each.
struct Scene {
    provider: Counting,
    site: Site,
    watchers: Vec<Watcher>,
}

impl Scene {
    fn new(join: Join) -> Self {
        let place = Place::Here;
        let provider = Counting::start(&place);
        let site = Site::start(join, &place, &[&[provider.addr]], 2);
        let watchers: Vec<Watcher> =
            (0..2).map(|n| Watcher::connect(&place, &format!("watcher {n}"), site.rssl(n))).collect();
        for watcher in &watchers {
            watcher.open(&names(30));
            watcher.wait_all_ok();
            watcher.wait_updates(5);
        }
        Self { provider, site, watchers }
    }

    /// All is well again: everyone is at the provider's last number and goes on.
    fn assert_well(&self) {
        for watcher in &self.watchers {
            watcher.wait_all_ok();
            watcher.wait_updates(5);
            watcher.settle(&self.provider);
        }
    }

    fn suspects(&self, watcher: usize) -> u32 {
        self.watchers[watcher].look(|v| v.items.values().map(|i| i.suspects).sum())
    }
}

fn the_source_distributor_dies_and_comes_back(join: Join) {
    let mut scene = Scene::new(join);
    scene.site.distributors[0].kill();
    for watcher in &scene.watchers {
        watcher.wait_none_ok();
    }
    scene.site.distributors[0].restart();
    scene.assert_well();
}

fn the_source_distributor_freezes(join: Join) {
    let scene = Scene::new(join);
    scene.site.distributors[0].freeze();
    for watcher in &scene.watchers {
        watcher.wait_none_ok();
    }
    scene.site.distributors[0].thaw();
    scene.assert_well();
}

/// A P2PS that stands still for longer than its silence is borne: others see nothing of it, and its own consumers see
/// Suspect and then a fresh image when it goes on.
fn a_p2ps_freezes(join: Join) {
    let scene = Scene::new(join);
    scene.site.p2pss[0].freeze();
    let before = scene.suspects(1);
    // Longer than peer_timeout_ms: counted in updates of the other, at 200 a second.
    scene.watchers[1].wait_updates(500);
    scene.site.p2pss[0].thaw();
    scene.watchers[0].wait("every item to have been Suspect", |v| v.items.values().all(|i| i.suspects > 0));
    scene.assert_well();
    assert_eq!(scene.suspects(1), before, "the other P2PS's consumers notice nothing");
}

/// A P2PS that is gone takes nothing with it: what only it had open is closed when its lease is over, and one that is started
/// again serves as before.
fn a_p2ps_dies_and_comes_back(join: Join) {
    let mut scene = Scene::new(join);
    let before = scene.suspects(1);
    scene.site.p2pss[0].restart();
    scene.watchers[1].wait_updates(50);
    scene.watchers[0] = Watcher::connect(&Place::Here, "watcher 0 again", scene.site.rssl(0));
    scene.watchers[0].open(&names(35));
    scene.assert_well();
    assert_eq!(scene.suspects(1), before, "the other P2PS's consumers notice nothing");
    scene.site.p2pss[0].kill();
    crate::hub::until("30 open streams", || {
        scene.watchers[1].wait_updates(1);
        scene.provider.streams() == 30
    });
}

/// Two Source Distributors have the same service: when one dies, its items come from the other, with images.
fn one_of_two_distributors_dies(join: Join) {
    let place = Place::Here;
    let provider = Counting::start(&place);
    let mut site = Site::start(join, &place, &[&[provider.addr], &[provider.addr]], 1);
    let watcher = Watcher::connect(&place, "watcher", site.rssl(0));
    watcher.open(&names(30));
    watcher.wait_all_ok();
    for number in 0..2 {
        site.distributors[number].kill();
        watcher.wait_all_ok();
        watcher.wait_updates(20);
        watcher.settle(&provider);
        site.distributors[number].restart();
        // The one that is back is joined before the other goes.
        watcher.wait_updates(300);
    }
}

/// Items open at a Source Distributor, of the first service.
fn open_at(services: &str, name: &str) -> Option<u64> {
    let services: serde_json::Value = serde_json::from_str(services).expect("JSON");
    let offers = services[0]["providers"].as_array()?;
    offers.iter().find(|offer| offer["address"] == name)?["open"].as_u64()
}

/// Items that have gone on at the other one of a pair so far, and those of them that needed no image.
fn takeovers(p2ps: &Part) -> (u64, u64) {
    let counted = p2ps.wait_for_http("/metrics", |status, _| status == 200);
    let number = |name: &str| {
        let is_it = |line: &&str| line.split([' ', '{']).next() == Some(&format!("quoteway_p2ps_{name}_total"));
        let line = counted.lines().find(is_it).unwrap_or_else(|| panic!("{name} in {counted}"));
        line.rsplit(' ').next().and_then(|number| number.parse::<u64>().ok()).expect("a number")
    };
    (number("hot_takeovers"), number("hot_takeovers_in_sequence"))
}

/// Two Source Distributors stand by for each other: when one dies, or an operator says so, its items go on at the other one. Nothing is Suspect,
/// and with numbers that agree there is no image and no update is missing or comes twice: the watcher counts them.
fn one_of_a_pair_dies(join: Join, numbered: bool) {
    let place = Place::Here;
    let provider = Counting::start(&place);
    let tuning = Tuning { pairs: Some(numbered), ..Tuning::default() };
    let mut site = Site::tuned(join, &tuning, (&place, &place), &[&[provider.addr], &[provider.addr]], 1);
    let watcher = Watcher::connect(&place, "watcher", site.rssl(0));
    watcher.open(&names(30));
    watcher.wait_all_ok();
    let seen = || watcher.look(|v| v.items.values().fold((0, 0), |(s, i), item| (s + item.suspects, i + item.images)));
    site.p2pss[0].wait_for_http("/api/v1/services", |_, body| body.contains("\"standby\":30,"));
    // The images of all of them have come.
    watcher.wait_updates(20);
    let web = site.p2pss[0].addr("http=http://").to_string();
    let names: Vec<String> = (0..2).map(|number| site.distributors[number].addr("hub=").to_string()).collect();
    let switch = |name: &String| {
        place.run(&["ctl", "--at", &web, "switch", SERVICE, name, "--why", "a test"]);
        // Items without an image at the standby go over when that has come.
        site.p2pss[0].wait_for_http("/api/v1/services", |_, body| open_at(body, name) == Some(30));
        watcher.wait_updates(20);
    };
    // The one that was joined first was used first.
    switch(&names[0]);
    let before = takeovers(&site.p2pss[0]);
    let (suspects, images) = seen();
    switch(&names[1]);
    switch(&names[0]);
    site.distributors[0].kill();
    watcher.wait_updates(20);
    watcher.settle(&provider);
    let now = takeovers(&site.p2pss[0]);
    let all = 3 * 30;
    assert_eq!(now.0 - before.0, all);
    let (suspects_now, images_now) = seen();
    assert_eq!(suspects_now, suspects, "nothing was Suspect");
    if numbered {
        assert_eq!((now.1 - before.1, images_now), (all, images), "no item needed an image");
    } else {
        assert_eq!((now.1 - before.1, images_now), (0, images + 3 * 30), "one image each");
    }
}

/// One of a pair stands still, and is silent for longer than is borne: the other one goes on with what it has held since then.
fn one_of_a_pair_freezes(join: Join) {
    let place = Place::Here;
    let provider = Counting::start(&place);
    let tuning = Tuning { pairs: Some(true), ..Tuning::default() };
    let site = Site::tuned(join, &tuning, (&place, &place), &[&[provider.addr], &[provider.addr]], 1);
    let watcher = Watcher::connect(&place, "watcher", site.rssl(0));
    watcher.open(&names(30));
    watcher.wait_all_ok();
    let heard = || watcher.look(|v| v.items.values().fold((0, 0), |(s, i), item| (s + item.suspects, i + item.images)));
    let before = heard();
    for number in 0..2 {
        site.p2pss[0].wait_for_http("/api/v1/services", |_, body| body.contains("\"standby\":30,"));
        watcher.wait_updates(60);
        site.distributors[number].freeze();
        watcher.wait_updates(60);
        site.distributors[number].thaw();
    }
    watcher.settle(&provider);
    assert_eq!(heard(), before, "nothing was Suspect, and no item needed an image");
}

/// The daemons, or media drivers, stand still, and are started again: as if the network had.
fn daemons_fail(join: Join) {
    let mut scene = Scene::new(join);
    for number in 0..2 {
        scene.site.relays[number].freeze();
        for watcher in &scene.watchers {
            watcher.wait_none_ok();
        }
        scene.site.relays[number].thaw();
        scene.assert_well();
        scene.site.relays[number].kill();
        for watcher in &scene.watchers {
            watcher.wait_none_ok();
        }
        scene.site.relays[number].restart();
        scene.assert_well();
    }
}

/// What a daemon carries can be seen at its HTTP port: a stream from the network at that of the P2PSs, one to the network at that of the
/// Source Distributor. Without a stream a daemon is not ready.
#[test]
fn daemons_show_the_streams_that_they_carry() {
    let mut scene = Scene::new(Join::Rrcpd);
    for (relay, kind, to) in
        [(&scene.site.relays[0], "stream-to-network", "network"), (&scene.site.relays[1], "stream-to-host", "host")]
    {
        let ready = relay.wait_for_http("/readyz", |status, _| status == 200);
        assert!(ready.contains("true"), "{ready}");
        let streams = relay.wait_for_http("/api/v1/hub", |status, _| status == 200);
        let streams: serde_json::Value = serde_json::from_str(&streams).expect("JSON");
        assert_eq!(streams.as_array().map(Vec::len), Some(1), "{streams}");
        assert_eq!((&streams[0]["kind"], &streams[0]["state"]), (&kind.into(), &"carried".into()), "{streams}");
        let metrics = relay.wait_for_http("/metrics", |status, _| status == 200);
        let carried =
            metrics.lines().find(|line| line.starts_with("quoteway_rrcpd_blocks_total{") && line.contains(to));
        let blocks = carried.and_then(|line| line.rsplit(' ').next()).and_then(|count| count.parse::<f64>().ok());
        assert!(blocks.is_some_and(|blocks| blocks > 0.0), "{metrics}");
    }
    // Streams without a word end after LBM's time for that, a minute: a daemon that begins has none at once.
    scene.site.distributors[0].kill();
    for relay in &mut scene.site.relays {
        relay.restart();
        let why = relay.wait_for_http("/readyz", |status, _| status == 503);
        assert!(why.contains("no stream is carried"), "{why}");
    }
}

/// The provider goes and comes back while both sides of the hub stay.
fn the_provider_goes(join: Join) {
    let scene = Scene::new(join);
    let Scene { provider, site, watchers } = scene;
    let updates = provider.updates();
    assert!(updates > 0);
    drop(provider);
    for watcher in &watchers {
        watcher.wait_none_ok();
    }
    drop((site, watchers));
}

over_every_transport! {
    the_source_distributor_dies_and_comes_back,
    the_source_distributor_freezes,
    a_p2ps_freezes,
    a_p2ps_dies_and_comes_back,
}

#[test]
fn the_daemons_of_both_hosts_fail() {
    daemons_fail(Join::Rrcpd);
}

#[cfg(feature = "aeron")]
#[test]
fn the_media_drivers_of_both_hosts_fail() {
    daemons_fail(Join::AeronExternal);
}

#[test]
fn one_of_a_pair_dies_over_tcp() {
    one_of_a_pair_dies(Join::Tcp, true);
}

#[test]
fn one_of_a_pair_freezes_over_tcp() {
    one_of_a_pair_freezes(Join::Tcp);
}

#[test]
fn one_of_a_pair_dies_over_multicast() {
    one_of_a_pair_dies(Join::LbtRm, true);
}

#[test]
fn one_of_a_pair_that_counts_by_itself_dies_over_tcp() {
    one_of_a_pair_dies(Join::Tcp, false);
}

#[test]
fn one_of_two_distributors_dies_over_tcp() {
    one_of_two_distributors_dies(Join::Tcp);
}

#[test]
fn one_of_two_distributors_dies_over_multicast() {
    one_of_two_distributors_dies(Join::LbtRm);
}

#[test]
fn one_of_two_distributors_dies_behind_daemons() {
    one_of_two_distributors_dies(Join::Rrcpd);
}

#[test]
fn the_provider_goes_over_tcp() {
    the_provider_goes(Join::Tcp);
}

#[test]
fn the_provider_goes_over_multicast() {
    the_provider_goes(Join::LbtRm);
}
