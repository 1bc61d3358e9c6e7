//! Who waits hears why: no request is without an answer.

use crate::world::{SECOND, World, info, item, refresh, refresh_with, status, token_of};
use hub_stream::{Event, flags};
use rwf::msg::{RefreshFlags, RequestFlags, RequestMsg};
use rwf::rdm::directory::ServiceState;
use rwf::rdm::request::{Payload, View};
use rwf::{DataState, DataType, State, StateCode, StreamState};

const RECOVER: StreamState = StreamState::CLOSED_RECOVER;
const SUSPECT: DataState = DataState::SUSPECT;

/// A world in which client 1 has A open, whose provider is gone: its source recovers it.
fn lost() -> World {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(1, 5, "A", 0);
    world.publish(0, |p| {
        p.event(Event::ServiceStatus { service: 40, state: State::new(RECOVER, SUSPECT, StateCode::NONE, "") });
        p.service_with(40, info("FEED", &[6, 8], &[]), ServiceState::new(false));
    });
    assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT"]);
    world
}

#[test]
fn a_second_watcher_of_a_lost_item_is_told_by_its_source_and_others_at_once() {
    let mut world = lost();
    world.login(3, Some(false), Some(true));
    world.request(2, &item(5, "A"));
    assert_eq!(world.asked(), ["0: refresh 0"]);
    world.publish(0, |p| {
        p.status(0, flags::WAITING_ONLY, &status(RECOVER, SUSPECT, StateCode::NONE));
    });
    assert_eq!(world.take(2), ["status 5 OPEN/SUSPECT"]);
    assert_eq!(world.take(1), [""; 0], "it knows");
    // The image is asked for already: nobody else is asked, and all are told the same, on another stream of the first too.
    world.request(1, &item(6, "A"));
    assert_eq!(world.take(1), ["status 6 OPEN/SUSPECT"]);
    world.request(1, &RequestMsg { flags: RequestFlags::NONE, ..item(7, "A") });
    assert_eq!(world.take(1), ["status 7 OPEN/SUSPECT"], "a snapshot");
    world.request(3, &item(5, "A"));
    assert_eq!(world.take(3), ["status 5 CLOSED_RECOVER/SUSPECT"], "who recovers by itself");
    assert_eq!(world.asked(), [""; 0]);
    world.publish(0, |p| {
        p.image_with(0, flags::RECOVERY, &refresh(&[(22, 6)]));
    });
    assert_eq!(
        world.take(1),
        [
            "refresh 5 clear complete OPEN/OK group 3 key 1:A 22=6",
            "refresh 6 solicited complete OPEN/OK group 3 key 1:A 22=6",
            "refresh 7 solicited complete NON_STREAMING/OK group 3 key 1:A 22=6",
        ]
    );
    assert_eq!(world.take(2), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=6"]);
}

#[test]
fn a_second_watcher_of_an_item_that_is_tried_again_later_is_told_at_once() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.login(3, Some(false), Some(true));
    world.open(1, 5, "A", 0);
    world.publish(0, |p| {
        p.status(0, flags::CLOSED, &status(RECOVER, SUSPECT, StateCode::NONE));
    });
    assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT"]);
    assert_eq!(world.asked(), ["0: close 0"]);
    world.request(2, &item(5, "A"));
    world.request(3, &item(5, "A"));
    assert_eq!(world.take(2), ["status 5 OPEN/SUSPECT"]);
    assert_eq!(world.take(3), ["status 5 CLOSED_RECOVER/SUSPECT"]);
    assert_eq!(world.asked(), [""; 0], "its time has not come");
    world.pass(SECOND);
    let token = world.token();
    world.asked();
    world.publish(0, |p| {
        p.opened(token, 0).image(0, &[(22, 2)]);
    });
    assert_eq!(world.take(1), ["refresh 5 clear complete OPEN/OK group 3 key 1:A 22=2"]);
    assert_eq!(world.take(2), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=2"]);
}

#[test]
fn a_service_that_goes_down_before_an_item_was_asked_for_says_so() {
    let config = hub_p2ps::Config { opens_per_turn: 1, ..hub_p2ps::Config::default() };
    let mut world = World::with_feed_and(config);
    world.clients([1]);
    world.request(1, &item(5, "A"));
    world.request(1, &item(6, "B"));
    assert_eq!(world.asked().len(), 1, "the other has to wait for its turn");
    world.publish(0, |p| {
        p.service_with(40, info("FEED", &[6, 8], &[]), ServiceState::new(false));
    });
    world.pass(1);
    assert_eq!(world.p2ps.timeout(), Some(0), "it is to go out at once");
    world.settle();
    assert_eq!(world.take(1), ["status 6 OPEN/SUSPECT"]);
    world.pass(60 * SECOND);
}

#[test]
fn who_wants_more_than_the_image_on_its_way_hears_that_it_does_not_end() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    let view = Payload { view: Some(View::Fields(vec![22])), ..Payload::default() };
    let view = crate::world::encode(|w| view.encode(w));
    let flags = RequestFlags::STREAMING | RequestFlags::HAS_VIEW;
    world.request(1, &RequestMsg { flags, container: DataType::ELEMENT_LIST, body: &view, ..item(5, "A") });
    let token = world.token();
    world.asked();
    let part = refresh_with(RefreshFlags::SOLICITED, State::OPEN_OK, Some(0), &[(22, 1)]);
    world.publish(0, |p| {
        p.opened(token, 0).part(0, flags::FIRST, &part);
    });
    assert_eq!(world.take(1).len(), 1);
    world.request(2, &item(5, "A"));
    assert_eq!(world.asked(), [""; 0], "more is asked for behind the image that is on its way");
    world.pass(15 * SECOND);
    assert_eq!(world.take(2), ["status 5 OPEN/SUSPECT/TIMEOUT"]);
    world.request(2, &item(6, "A"));
    assert_eq!(world.take(2), ["status 6 OPEN/SUSPECT"], "who comes later hears it at once");
}

#[test]
fn items_leave_a_source_where_their_service_is_down_for_another_at_once() {
    let mut world = World::with_feed();
    world.source(1);
    world.publish(1, |p| {
        p.service(7, "FEED");
    });
    world.clients([1, 2]);
    world.open(1, 5, "A", 0);
    world.request(2, &item(5, "B"));
    let token = world.token();
    world.asked();
    world.publish(0, |p| {
        p.event(Event::ServiceStatus { service: 40, state: State::new(RECOVER, SUSPECT, StateCode::NONE, "") });
        p.service_with(40, info("FEED", &[6, 8], &[]), ServiceState::new(false));
    });
    assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT"], "told once");
    let asked = world.asked();
    assert_eq!(asked[0], "0: close 0", "released");
    assert!(asked.len() == 2 && asked[1].starts_with("1: open "), "{asked:?}");
    // Earlier requests leave the window when they are answered.
    world.publish(0, |p| {
        p.opened(token, 1);
    });
    let late = world.asked();
    assert!(late.len() == 2 && late.contains(&"0: close 1".to_owned()), "{late:?}");
    world.publish(1, |p| {
        p.opened(token_of(&asked[1]), 0).image(0, &[(22, 8)]);
    });
    assert_eq!(world.take(1), ["refresh 5 clear complete OPEN/OK group 1.0.3 key 1:A 22=8"]);
    let notices: Vec<String> = world.p2ps.notices().map(|notice| notice.to_string()).collect();
    assert!(notices.iter().any(|line| line.contains("down at Source Distributor 0: its 1 items")), "{notices:?}");
}
