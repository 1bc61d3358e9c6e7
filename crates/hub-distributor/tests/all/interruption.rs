//! Providers that are connected and send no data.

use crate::world::*;
use hub_distributor::{Balance, Config, Interruption, Notice, RouteConfig};
use hub_stream::{Kind, Request, flags};
use rwf::msg::{RefreshFlags, RequestFlags, RequestMsg};
use rwf::rdm::login;
use rwf::{DataState, StreamState};

const WHOLE: RefreshFlags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);
/// Seconds.
const DURATION: u64 = 4;
const WINDOW: u64 = 10;
/// Pause before the first trial, seconds.
const PAUSE: u64 = 60;

/// P2PS 1, and so many providers of FEED that are watched, in this order.
fn world(providers: u32, change: impl FnOnce(&mut Config)) -> World {
    let interruption = Some(Interruption { duration: DURATION * SECOND, traffic_window: WINDOW * SECOND });
    let routes = vec![RouteConfig { interruption, ..RouteConfig::default() }; providers as usize];
    let mut config =
        Config { balance: Balance::First, routes, retry_max_interval: PAUSE * SECOND, ..Config::default() };
    change(&mut config);
    let mut world = World::new(config);
    world.p2ps_up(1);
    for id in 0..providers {
        come(&mut world, id);
    }
    world
}

fn come(world: &mut World, id: u32) {
    let features = login::Features { optimized_pause_resume: Some(true), ..login::Features::default() };
    world.route_up_with(id, features);
    world.directory(id, vec![service(7, "FEED")]);
    world.turn();
    world.events();
    world.sent(id);
}

/// Updates of a stream, one a second.
fn ticks(world: &mut World, id: u32, stream: i32, seconds: u64) {
    for _ in 0..seconds {
        world.update(id, stream, &[(22, b"1")]);
        world.pass(1);
        world.events();
    }
}

fn image(world: &mut World, id: u32, stream: i32) {
    world.refresh(id, stream, &[(22, b"2")], WHOLE);
    world.turn();
}

fn notices(world: &mut World) -> Vec<String> {
    world.sd.notices().map(|notice| notice.to_string()).collect()
}

/// Of an item that is open at provider 0, which has ticked for the traffic window: handle and stream.
fn ticking(world: &mut World, name: &str) -> (u32, i32) {
    let (handle, stream) = world.open_imaged(1, name);
    ticks(world, 0, stream, WINDOW + 1);
    notices(world);
    (handle, stream)
}

/// The state of the last status of each item, in the order of the statuses.
fn told(world: &mut World) -> Vec<(u32, StreamState, DataState)> {
    let events = world.events();
    let statuses = events.iter().filter(|event| event.kind == Kind::ItemStatus);
    statuses.map(|event| (event.handle, event.state().stream, event.state().data)).collect()
}

#[test]
fn items_of_a_silent_provider_are_asked_for_at_another() {
    let mut world = world(2, |_| {});
    let (handle, stream) = ticking(&mut world, "A");
    world.pass(DURATION - 2);
    assert!(world.events().is_empty() && notices(&mut world).is_empty(), "not yet");
    world.pass(2);
    assert_eq!(world.closes(0), [stream]);
    let asked = world.requests(1);
    assert_eq!(asked.iter().map(|request| request.1.as_str()).collect::<Vec<_>>(), ["A"]);
    assert!(world.events().iter().any(|event| event.kind == Kind::ServiceStatus), "those who watch are told");
    image(&mut world, 1, asked[0].0);
    let events = world.events();
    assert!(events.iter().any(|e| e.kind == Kind::Image && e.handle == handle && e.has(flags::RECOVERY)), "{events:?}");
    let notices = notices(&mut world);
    assert_eq!(
        notices[..2],
        [
            "service FEED is silent at provider provider0:14002: no data for 4.0 s though items are open; another takes over, or they are suspect until data come",
            "service FEED is silent at provider provider0:14002: 1 items there are asked for at another"
        ]
    );
    let counters = world.sd.counters();
    assert_eq!((counters.data_interruptions, counters.items_silent, counters.data_resumptions), (1, 0, 0));
    let overview: Vec<Vec<bool>> =
        world.sd.session_overview().map(|s| s.services.iter().map(|offer| offer.interrupted).collect()).collect();
    assert_eq!(overview, [[true], [false]]);
    world.open(1, "B");
    assert!(world.requests(0).is_empty());
    assert_eq!(world.requests(1).len(), 1, "nothing new is asked of the silent one, though it comes first");
}

#[test]
fn without_another_provider_it_is_suspect_until_data_come() {
    let mut world = world(1, |_| {});
    let (handle, stream) = ticking(&mut world, "A");
    world.pass(DURATION);
    assert_eq!(told(&mut world), [(handle, StreamState::OPEN, DataState::SUSPECT)]);
    assert!(world.closes(0).is_empty(), "it stays open");
    assert_eq!(world.sd.service_overview().next().expect("FEED").lost, 1);
    world.pass(10 * PAUSE);
    assert!(told(&mut world).is_empty(), "once");
    world.update(0, stream, &[(22, b"3")]);
    world.turn();
    assert!(world.events().is_empty(), "nothing before the image");
    assert_eq!(world.requests(0).iter().map(|request| request.0).collect::<Vec<_>>(), [stream]);
    image(&mut world, 0, stream);
    let events = world.events();
    assert!(events.len() == 1 && events[0].has(flags::RECOVERY | flags::CLEAR_CACHE), "{events:?}");
    assert_eq!(events[0].image().state.data, DataState::OK);
    world.update(0, stream, &[(22, b"4")]);
    assert_eq!(world.kinds(), [Kind::Update]);
    let said = notices(&mut world);
    assert!(said.iter().any(|text| text == "provider provider0:14002 sends data of service FEED again"), "{said:?}");
    let counters = world.sd.counters();
    assert_eq!((counters.items_silent, counters.data_resumptions), (1, 1));
    assert_eq!(world.sd.service_overview().next().expect("FEED").lost, 0);
}

#[test]
fn what_a_silent_provider_answers_is_suspect() {
    let mut world = world(1, |_| {});
    ticking(&mut world, "A");
    world.pass(DURATION);
    world.events();
    let handle = world.open(1, "B");
    let stream = world.requests(0)[0].0;
    image(&mut world, 0, stream);
    let events = world.events();
    assert_eq!(events.iter().map(|event| event.kind).collect::<Vec<_>>(), [Kind::Image, Kind::ItemStatus]);
    assert_eq!((events[1].handle, events[1].state().data), (handle, DataState::SUSPECT));
    world.update(0, stream, &[(22, b"3")]);
    world.turn();
    assert_eq!(world.requests(0).len(), 2, "when it ticks again, images of all");
}

#[test]
fn one_that_has_not_ticked_for_long_enough_may_be_silent() {
    let mut world = world(2, |_| {});
    let (_, stream) = world.open_imaged(1, "A");
    ticks(&mut world, 0, stream, WINDOW - 2);
    world.pass(10 * PAUSE);
    assert!(world.events().is_empty() && notices(&mut world).is_empty() && world.requests(1).is_empty());
}

#[test]
fn a_service_whose_items_all_rest_is_not_expected_to_tick() {
    let mut world = world(2, |_| {});
    let (handle, stream) = ticking(&mut world, "A");
    let paused = RequestMsg { flags: RequestFlags::STREAMING | RequestFlags::PAUSE, ..request("A") };
    let rwf = bytes_of(|w| paused.encode(w));
    world.request(1, &Request::Reissue { handle, serial: None, in_stream: false, rwf: &rwf }).unwrap();
    world.pass(10 * PAUSE);
    assert!(notices(&mut world).is_empty() && world.requests(1).is_empty());
    let resumed = bytes_of(|w| request("A").encode(w));
    world.request(1, &Request::Reissue { handle, serial: Some(9), in_stream: false, rwf: &resumed }).unwrap();
    image(&mut world, 0, stream);
    ticks(&mut world, 0, stream, WINDOW + 1);
    world.pass(DURATION);
    assert_eq!(world.requests(1).len(), 1, "and again when one goes on");
}

#[test]
fn an_item_that_nobody_watches_is_closed_at_a_silent_provider() {
    let mut world = world(1, |config| config.age_unwatched = 1_000 * SECOND);
    let (handle, stream) = ticking(&mut world, "A");
    world.close(1, handle);
    assert!(world.closes(0).is_empty());
    world.pass(DURATION);
    assert_eq!(world.closes(0), [stream]);
    assert!(told(&mut world).is_empty());
    assert_eq!(world.sd.items(), 0);
}

#[test]
fn one_that_is_watched_again_gets_nothing_before_its_image() {
    let mut world = world(1, |config| config.age_unwatched = 1_000 * SECOND);
    let (handle, stream) = ticking(&mut world, "A");
    world.pass(DURATION);
    world.close(1, handle);
    world.events();
    world.sent(0);
    assert_eq!(world.open(1, "A"), handle);
    world.update(0, stream, &[(22, b"3")]);
    world.turn();
    assert!(world.kinds().iter().all(|kind| *kind != Kind::Update), "it waits for its image");
    image(&mut world, 0, stream);
    assert!(world.kinds().contains(&Kind::Image));
}

#[test]
fn a_silent_provider_is_tried_again_after_pauses_that_grow() {
    let mut world = world(2, |config| config.failback = 10 * SECOND);
    ticking(&mut world, "A");
    world.pass(DURATION);
    let mut at = world.requests(1)[0].0;
    image(&mut world, 1, at);
    for pause in [PAUSE, 2 * PAUSE, 4 * PAUSE] {
        notices(&mut world);
        world.sent(0);
        ticks(&mut world, 1, at, pause - 1);
        assert!(world.requests(0).is_empty(), "not before {pause} s");
        // On trial it comes first, and items go back to it when it has been that for long enough.
        ticks(&mut world, 1, at, 12);
        let asked = world.requests(0);
        assert_eq!(asked.len(), 1, "after {pause} s");
        image(&mut world, 0, asked[0].0);
        world.sent(1);
        world.pass(DURATION + DURATION);
        let again = world.requests(1);
        assert_eq!(again.len(), 1, "it is silent, without a traffic window: {:?}", notices(&mut world));
        at = again[0].0;
        image(&mut world, 1, at);
        world.events();
    }
}

#[test]
fn one_that_ticks_on_trial_keeps_the_items() {
    let mut world = world(2, |config| config.failback = 10 * SECOND);
    let (handle, _) = ticking(&mut world, "A");
    world.pass(DURATION);
    let at = world.requests(1)[0].0;
    image(&mut world, 1, at);
    ticks(&mut world, 1, at, PAUSE + 12);
    let back = world.requests(0)[0].0;
    image(&mut world, 0, back);
    world.events();
    world.sent(1);
    ticks(&mut world, 0, back, 100);
    assert!(world.requests(1).is_empty() && told(&mut world).is_empty());
    world.pass(DURATION);
    assert_eq!(world.requests(1).len(), 1, "until it is silent again");
    world.close(1, handle);
}

#[test]
fn an_operator_who_wants_a_silent_provider_gets_it_on_trial() {
    let mut world = world(2, |_| {});
    ticking(&mut world, "A");
    world.pass(DURATION);
    let at = world.requests(1)[0].0;
    image(&mut world, 1, at);
    world.events();
    world.sent(0);
    let moved = world.sd.switch_provider(world.now, "FEED", Some("provider0:14002"), &mut world.sent);
    assert_eq!(moved, Ok(1));
    world.turn();
    let asked = world.requests(0);
    assert_eq!(asked.len(), 1);
    image(&mut world, 0, asked[0].0);
    world.pass(2 * DURATION);
    assert_eq!(world.requests(1).len(), 1, "it sends nothing, and the other one has the items again");
}

#[test]
fn a_provider_that_comes_gets_what_is_silent_elsewhere() {
    let mut world = world(2, |_| {});
    world.down(1);
    world.turn();
    let (handle, stream) = ticking(&mut world, "A");
    world.pass(DURATION);
    assert_eq!(told(&mut world), [(handle, StreamState::OPEN, DataState::SUSPECT)]);
    world.route_up(1);
    world.directory(1, vec![service(7, "FEED")]);
    world.turn();
    assert_eq!(world.closes(0), [stream]);
    let asked = world.requests(1);
    let asked: Vec<i32> = asked.iter().filter(|request| request.1 == "A").map(|request| request.0).collect();
    assert_eq!(asked.len(), 1);
    image(&mut world, 1, asked[0]);
    assert!(world.events().iter().any(|e| e.kind == Kind::Image && e.has(flags::RECOVERY)));
    assert_eq!(world.sd.service_overview().next().expect("FEED").lost, 0);
}

/// An item that is open at provider 0 and stands by at provider 1: handle, and its stream at each.
fn hot_pair() -> (World, u32, i32, i32) {
    let mut world = world(2, |config| config.balance = Balance::Hot);
    let (handle, used) = world.open_imaged(1, "A");
    world.turn();
    let standby = world.requests(1)[0].0;
    image(&mut world, 1, standby);
    (world, handle, used, standby)
}

#[test]
fn a_hot_standby_takes_over_from_a_silent_provider() {
    let (mut world, handle, used, standby) = hot_pair();
    for _ in 0..=WINDOW {
        world.update(0, used, &[(22, b"1")]);
        world.update(1, standby, &[(22, b"1")]);
        world.pass(1);
    }
    world.events();
    for _ in 0..DURATION {
        world.update(1, standby, &[(22, b"1")]);
        world.pass(1);
    }
    assert!(world.events().is_empty(), "nobody hears of it");
    assert!(world.closes(0).is_empty(), "the silent one stands by, so that it is heard when it ticks again");
    assert_eq!(world.requests(1).len(), 1, "one image");
    image(&mut world, 1, standby);
    let events = world.events();
    assert!(events.len() == 1 && events[0].handle == handle && events[0].has(flags::RECOVERY), "{events:?}");
    let taken = |notice: Notice| matches!(notice, Notice::ItemsTakenOver { items: 1, .. });
    assert!(world.sd.notices().any(taken));
    // The one that took over is silent, too, and the first one not.
    for _ in 0..=DURATION + WINDOW {
        world.update(0, used, &[(22, b"5")]);
        world.update(1, standby, &[(22, b"5")]);
        world.pass(1);
    }
    assert!(!world.sd.session_overview().any(|session| session.services[0].interrupted));
    world.events();
    world.sent(0);
    for _ in 0..=DURATION {
        world.update(0, used, &[(22, b"6")]);
        world.pass(1);
    }
    assert_eq!(world.requests(0).iter().map(|request| request.0).collect::<Vec<_>>(), [used]);
    image(&mut world, 0, used);
    assert_eq!(world.kinds(), [Kind::Image]);
}

#[test]
fn when_both_are_silent_nobody_takes_over() {
    let (mut world, handle, used, standby) = hot_pair();
    for _ in 0..=WINDOW {
        world.update(1, standby, &[(22, b"1")]);
        world.update(0, used, &[(22, b"1")]);
        world.pass(1);
    }
    world.events();
    world.pass(DURATION);
    let told = told(&mut world);
    assert_eq!(told, [(handle, StreamState::OPEN, DataState::SUSPECT)]);
    world.update(1, standby, &[(22, b"7")]);
    world.turn();
    assert!(!world.requests(1).is_empty(), "the first that ticks has the item");
    image(&mut world, 1, standby);
    let events = world.events();
    assert!(events.iter().any(|e| e.kind == Kind::Image && e.has(flags::RECOVERY)), "{events:?}");
    world.update(1, standby, &[(22, b"8")]);
    assert_eq!(world.kinds(), [Kind::Update]);
}

#[test]
fn what_all_are_silent_about_goes_to_one_on_trial() {
    let mut world = world(2, |_| {});
    let (handle, _) = ticking(&mut world, "A");
    world.pass(DURATION);
    let at = world.requests(1)[0].0;
    image(&mut world, 1, at);
    ticks(&mut world, 1, at, WINDOW + 1);
    world.sent(0);
    world.pass(DURATION);
    assert_eq!(told(&mut world), [(handle, StreamState::OPEN, DataState::SUSPECT)], "the other one is silent, too");
    world.pass(PAUSE);
    assert_eq!(world.requests(0).len(), 1, "the first one may tick again");
}

#[test]
fn a_route_without_the_setting_is_not_looked_at() {
    let mut world = world(2, |config| config.routes[0].interruption = None);
    let (_, stream) = world.open_imaged(1, "A");
    ticks(&mut world, 0, stream, WINDOW + 1);
    world.pass(10 * PAUSE);
    assert!(world.events().is_empty() && notices(&mut world).is_empty() && world.requests(1).is_empty());
    assert_eq!(world.sd.timeout(), None, "and has no timer");
}
