//! Items that nobody watches any more stay open for a while: who comes back finds them, and the hub sees no close and no open.

use crate::world::{SECOND, World, encode, item, status, token_of};
use hub_content::cache::rules::CacheRules;
use hub_p2ps::{Config, SourceId};
use hub_stream::{ALL, Event, flags};
use rwf::msg::{RequestFlags, RequestMsg};
use rwf::{DataState, StateCode, StreamState};

fn keeping(more: Config) -> World {
    let mut world = World::with_feed_and(Config { unwatched_time: 10 * SECOND, ..more });
    world.clients([1, 2]);
    world
}

fn cached() -> World {
    keeping(Config { cache: CacheRules::everything(), ..Config::default() })
}

fn left(world: &World) -> (u64, u64, u64, u64) {
    let counters = world.p2ps.counters();
    (counters.items, counters.items_unwatched, counters.items_found_open, counters.items_aged)
}

#[test]
fn who_comes_back_has_the_image_of_now_from_memory() {
    let mut world = cached();
    world.open(1, 5, "IBM", 4);
    world.close(1, 5);
    assert_eq!((world.asked(), left(&world)), (vec![], (1, 1, 0, 0)));
    world.publish(0, |p| {
        p.update(4, &[(22, 7)]);
    });
    assert_eq!(world.p2ps.counters().updates_unwatched, 1);
    world.pass(9 * SECOND);
    world.request(2, &item(8, "IBM"));
    assert_eq!(world.take(2), ["refresh 8 solicited clear complete OPEN/OK group 3 key 1:IBM 22=7 25=2"]);
    assert_eq!((world.asked(), left(&world)), (vec![], (1, 0, 1, 0)));
    world.pass(9 * SECOND);
    world.publish(0, |p| {
        p.update(4, &[(22, 8)]);
    });
    assert_eq!((world.take(2), world.asked()), (vec!["update 8 22=8".to_owned()], vec![]));
    world.close(2, 8);
    world.pass(9 * SECOND);
    assert_eq!(world.asked(), [""; 0], "the time begins anew with the last watcher");
    world.pass(SECOND);
    assert_eq!((world.asked(), left(&world)), (vec!["0: close 4".to_owned()], (0, 0, 1, 1)));
}

#[test]
fn without_a_cache_the_image_is_asked_for_on_the_stream_that_is_open() {
    let mut world = keeping(Config::default());
    world.open(1, 5, "IBM", 4);
    world.close(1, 5);
    world.request(2, &item(8, "IBM"));
    assert_eq!(world.asked(), ["0: refresh 4"]);
    world.publish(0, |p| {
        p.image(4, &[(22, 3)]);
    });
    assert_eq!(world.take(2), ["refresh 8 solicited complete OPEN/OK group 3 key 1:IBM 22=3"]);
    // A snapshot joins, and begins the time anew.
    world.close(2, 8);
    world.request(1, &RequestMsg { flags: RequestFlags::NONE, ..item(5, "IBM") });
    assert_eq!(world.asked(), ["0: refresh 4"]);
    world.publish(0, |p| {
        p.image(4, &[(22, 4)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete NON_STREAMING/OK group 3 key 1:IBM 22=4"]);
    assert_eq!((world.asked(), left(&world)), (vec![], (1, 1, 2, 0)));
}

#[test]
fn the_one_that_is_without_watchers_longest_makes_room() {
    let mut world = keeping(Config { max_unwatched: 2, ..Config::default() });
    for (stream, name, handle) in [(5, "A", 4), (6, "B", 5), (7, "C", 6)] {
        world.open(1, stream, name, handle);
    }
    for stream in [6, 5, 7] {
        world.close(1, stream);
    }
    assert_eq!(world.p2ps.timeout(), Some(0), "there is one too many");
    world.pass(0);
    assert_eq!((world.asked(), left(&world)), (vec!["0: close 5".to_owned()], (2, 2, 0, 1)));
    // A client that goes leaves its items as one that closes them does.
    world.open(2, 8, "D", 7);
    world.disconnect(2);
    world.pass(0);
    assert_eq!((world.asked(), left(&world)), (vec!["0: close 4".to_owned()], (2, 2, 0, 2)));
}

#[test]
fn what_has_no_watchers_is_not_recovered() {
    let mut world = cached();
    let opened = |world: &mut World, name: &str, handle| {
        world.open(1, handle as i32, name, handle);
        world.close(1, handle as i32);
        assert_eq!((world.asked(), left(world).1), (vec![], 1), "{name}");
    };
    opened(&mut world, "CLOSED", 4);
    world.publish(0, |p| {
        let rwf = status(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE);
        p.event(Event::ItemStatus { target: ALL, handle: 4, group: 3, flags: flags::CLOSED, rwf: &rwf });
    });
    assert_eq!((world.asked(), left(&world).0), (vec!["0: close 4".to_owned()], 0), "its handle is given back");
    opened(&mut world, "LOST", 5);
    world.p2ps.source_down(world.now, SourceId(0));
    world.settle();
    world.pass(0);
    assert_eq!((world.asked(), left(&world)), (vec![], (0, 0, 0, 0)));
}

#[test]
fn a_state_that_came_meanwhile_is_what_who_comes_back_is_told() {
    let mut world = cached();
    world.open(1, 5, "IBM", 4);
    world.close(1, 5);
    world.publish(0, |p| {
        let rwf = status(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE);
        p.event(Event::ItemStatus { target: ALL, handle: 4, group: 3, flags: 0, rwf: &rwf });
    });
    world.request(2, &item(8, "IBM"));
    assert_eq!(world.take(2), ["refresh 8 solicited clear complete OPEN/SUSPECT group 3 key 1:IBM 22=1 25=2"]);
    assert_eq!(world.asked(), [""; 0]);
}

#[test]
fn streams_of_one_client_and_items_that_rest_do_not_stay() {
    let mut world = cached();
    let private = RequestFlags::STREAMING | RequestFlags::PRIVATE_STREAM;
    world.request(1, &RequestMsg { flags: private, ..item(5, "IBM") });
    let token = world.token();
    assert_eq!(world.asked().len(), 1);
    world.publish(0, |p| {
        p.opened(token, 4).image(4, &[(22, 1)]);
    });
    assert_eq!(world.take(1).len(), 1);
    world.close(1, 5);
    assert_eq!((world.asked(), left(&world)), (vec!["0: close 4".to_owned()], (0, 0, 0, 0)));

    let mut world = keeping(Config::default());
    world.open(1, 5, "IBM", 4);
    let paused = RequestFlags::STREAMING | RequestFlags::PAUSE | RequestFlags::NO_REFRESH;
    world.request(1, &RequestMsg { flags: paused, ..item(5, "IBM") });
    assert_eq!(world.asked().len(), 1, "the item rests at its provider");
    world.close(1, 5);
    assert_eq!((world.asked(), left(&world)), (vec!["0: close 4".to_owned()], (0, 0, 0, 0)));
}

#[test]
fn an_item_that_was_seen_through_a_view_is_asked_for_whole_by_who_comes_back() {
    use rwf::rdm::request::{Payload, View};
    let mut world = keeping(Config::default());
    let body = encode(|w| Payload { view: Some(View::Fields(vec![22])), ..Payload::default() }.encode(w));
    let flags = RequestFlags::STREAMING | RequestFlags::HAS_VIEW;
    world.request(1, &RequestMsg { flags, container: rwf::DataType::ELEMENT_LIST, body: &body, ..item(5, "IBM") });
    let token = world.token();
    world.asked();
    world.publish(0, |p| {
        p.opened(token, 4).image(4, &[(22, 1)]);
    });
    assert_eq!(world.take(1).len(), 1);
    world.close(1, 5);
    assert_eq!((world.asked(), left(&world).1), (vec![], 1));
    world.request(2, &item(8, "IBM"));
    let asked = world.asked();
    assert!(asked.len() == 1 && asked[0].starts_with("0: reissue 4 with image"), "{asked:?}");
    world.close(2, 8);
    world.pass(11 * SECOND);
    assert_eq!((world.asked(), left(&world).0), (vec!["0: close 4".to_owned()], 0));
}

#[test]
fn an_open_that_is_answered_when_nobody_waits_any_more_stays_too() {
    let mut world = keeping(Config::default());
    world.request(1, &item(5, "IBM"));
    let asked = world.asked();
    world.close(1, 5);
    assert_eq!(world.asked(), [""; 0]);
    world.publish(0, |p| {
        p.opened(token_of(&asked[0]), 4).image(4, &[(22, 1)]);
    });
    assert_eq!((world.asked(), left(&world).1), (vec![], 1));
    world.pass(10 * SECOND);
    assert_eq!(world.asked(), ["0: close 4"]);
}
