//! Source Distributors that stand by for each other: one has the items, the other one has them open, too, and takes over.

use crate::world::*;
use hub_content::cache::rules::CacheRules;
use hub_p2ps::{Config, Joined, Notice, SourceId};
use hub_stream::{BlockWriter, Event, flags};
use rwf::msg::{RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, UpdateMsg};
use rwf::rdm::directory::ServiceState;
use rwf::rdm::request::{Payload, View};
use rwf::{DataState, DataType, Qos, State, StateCode, StreamState};

/// Seconds after which items go back.
const DECISION: u64 = 10;

fn config(numbered: bool) -> Config {
    let names = || vec!["one".to_owned(), "two".to_owned()];
    Config {
        source_order: names(),
        source_pairs: vec![names()],
        source_failback: DECISION * SECOND,
        sequence_numbers: numbered,
        ..Config::default()
    }
}

/// "one" has number 0 and comes first, "two" has number 1. Both have FEED, and client 1 is there.
fn world(numbered: bool) -> World {
    world_with(config(numbered))
}

fn world_with(config: Config) -> World {
    let mut world = World::with(config);
    for (id, name) in [(0, "one"), (1, "two")] {
        world.p2ps.name_source(SourceId(id), name);
        come(&mut world, id);
    }
    world.clients([1, 2]);
    notices(&mut world);
    world
}

/// An update of this number, that says it.
fn numbered_update(number: u32) -> Vec<u8> {
    let body = fields(&[(22, number.into())]);
    let msg =
        UpdateMsg { seq_num: Some(number), container: DataType::FIELD_LIST, body: &body, ..UpdateMsg::new(PRICE, 77) };
    encode(|w| msg.encode(w))
}

fn numbered_image(number: u32, state: State<'_>) -> Vec<u8> {
    let body = fields(&[(22, number.into())]);
    let msg = RefreshMsg {
        flags: RefreshFlags::REFRESH_COMPLETE | RefreshFlags::SOLICITED,
        seq_num: Some(number),
        state,
        container: DataType::FIELD_LIST,
        body: &body,
        ..RefreshMsg::new(PRICE, 77)
    };
    encode(|w| msg.encode(w))
}

const SUSPECT: State<'static> = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "line is cut");

fn updates(world: &mut World, at: u16, handle: u32, numbers: impl IntoIterator<Item = u32>) {
    world.publish(at, |p| {
        numbers.into_iter().for_each(|number| p.writer.update(handle, false, &numbered_update(number)));
    });
}

fn image(world: &mut World, at: u16, handle: u32, number: u32, bits: u8) {
    world.publish(at, |p| {
        p.image_with(handle, bits, &numbered_image(number, State::OPEN_OK));
    });
}

/// Client 1 opens an item on stream 5: open at `used` under handle 3, and at the other one under handle 8, both with an image of this number.
fn open_at(world: &mut World, used: u16, (there, here): (u32, u32)) {
    world.request(1, &item(5, "A"));
    let asked = world.asked();
    assert!(asked.len() == 1 && asked[0].starts_with(&format!("{used}: open ")), "{asked:?}");
    world.publish(used, |p| {
        p.opened(token_of(&asked[0]), 3).image_with(3, 0, &numbered_image(there, State::OPEN_OK));
    });
    assert_eq!(world.take(1).len(), 1, "an image");
    mirror(world, 1 - used, 8, here);
}

fn open(world: &mut World) {
    open_at(world, 0, (10, 10));
}

/// The mirror of the only item is asked for at this source, and opened there.
fn mirror(world: &mut World, at: u16, handle: u32, number: u32) {
    let asked = world.asked();
    assert!(asked.len() == 1 && asked[0].starts_with(&format!("{at}: open ")), "{asked:?}");
    world.publish(at, |p| {
        p.opened(token_of(&asked[0]), handle).image_with(handle, 0, &numbered_image(number, State::OPEN_OK));
    });
}

fn told(numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
    numbers.into_iter().map(|number| format!("update 5 22={number}")).collect()
}

fn taken(from: &str, in_sequence: u64) -> Notice {
    Notice::ItemsTakenOver { service: "FEED".into(), from: from.into(), items: 1, in_sequence }
}

fn of_takeovers(world: &mut World) -> Vec<Notice> {
    notices(world).into_iter().filter(|notice| matches!(notice, Notice::ItemsTakenOver { .. })).collect()
}

/// Name, open and opening of the sources of FEED, in their order.
fn served(world: &World) -> Vec<(String, usize, usize)> {
    let feed = world.p2ps.service_overview().find(|service| service.name == "FEED").expect("the service");
    feed.sources.iter().map(|source| (source.name.to_owned(), source.open, source.standby)).collect()
}

/// What a client is told of the group that its item is in at the new source.
const REGROUPED: [&str; 2] = ["status 5 group 3", "status 5 group 1.0.3"];

#[test]
fn an_item_is_open_at_both_and_what_the_standby_sends_goes_to_nobody() {
    let mut world = world(true);
    open(&mut world);
    assert_eq!(served(&world), [("one".into(), 1, 0), ("two".into(), 0, 1)]);
    updates(&mut world, 1, 8, [11, 12]);
    assert!(world.take(1).is_empty());
    updates(&mut world, 0, 3, [11]);
    assert_eq!(world.take(1), told([11]));
    assert_eq!(world.p2ps.counters().mirror_updates, 2);
    world.p2ps.check_invariants();
    world.close(1, 5);
    let mut asked = world.asked();
    asked.sort();
    assert_eq!(asked, ["0: close 3", "1: close 8"]);
    world.p2ps.check_invariants();
}

/// The standby is ahead: what it holds is told, and nothing else.
#[test]
fn a_standby_that_is_ahead_goes_on_with_what_the_other_has_not_sent() {
    let mut world = world(true);
    open(&mut world);
    updates(&mut world, 0, 3, [11]);
    updates(&mut world, 1, 8, [11, 12, 13]);
    assert_eq!(world.take(1), told([11]));
    world.source_down(0);
    assert_eq!(world.take(1), [vec![REGROUPED[1].to_owned()], told([12, 13])].concat());
    updates(&mut world, 1, 8, [14]);
    assert_eq!(world.take(1), told([14]));
    assert_eq!(of_takeovers(&mut world), [taken("one", 1)]);
    let counters = world.p2ps.counters();
    assert_eq!((counters.hot_takeovers, counters.hot_takeovers_in_sequence, counters.items_lost), (1, 1, 0));
    assert_eq!(served(&world), [("two".into(), 1, 0)]);
    world.p2ps.check_invariants();
}

/// The standby is behind: what it sends of what was told before is told no more.
#[test]
fn a_standby_that_is_behind_repeats_nothing() {
    let mut world = world(true);
    open(&mut world);
    updates(&mut world, 1, 8, [11]);
    updates(&mut world, 0, 3, 11..=14);
    assert_eq!(world.take(1), told(11..=14));
    world.source_down(0);
    assert_eq!(world.take(1), REGROUPED[1..]);
    updates(&mut world, 1, 8, 12..=15);
    updates(&mut world, 1, 8, [16]);
    assert_eq!(world.take(1), told([15, 16]));
    assert_eq!(world.p2ps.counters().updates_repeated, 3);
    world.p2ps.check_invariants();
}

/// Somebody comes in between, and gets no image that is older than what others have had.
#[test]
fn an_image_of_before_waits_until_the_standby_has_caught_up() {
    let mut world = world(true);
    open(&mut world);
    updates(&mut world, 0, 3, 11..=14);
    assert_eq!(world.take(1), told(11..=14));
    world.source_down(0);
    world.take(1);
    world.request(2, &item(6, "A"));
    assert_eq!(world.asked(), ["1: refresh 8"]);
    image(&mut world, 1, 8, 12, 0);
    assert!(world.take(2).is_empty());
    updates(&mut world, 1, 8, 13..=15);
    assert_eq!(world.take(1), told([15]));
    world.p2ps.check_invariants();
    world.pass(SECOND);
    assert_eq!(world.asked(), ["1: refresh 8"]);
    image(&mut world, 1, 8, 15, 0);
    assert_eq!(world.take(2), ["refresh 6 solicited complete OPEN/OK group 1.0.3 key 1:A 22=15"]);
    updates(&mut world, 1, 8, [16]);
    assert_eq!((world.take(1), world.take(2)), (told([16]), vec!["update 6 22=16".to_owned()]));
}

/// Its numbers have begun anew: nobody waits for it to catch up for ever, and all are told of the new beginning.
#[test]
fn an_image_that_stays_older_is_the_beginning_for_all() {
    let mut world = world(true);
    open(&mut world);
    updates(&mut world, 0, 3, 11..=14);
    world.take(1);
    world.source_down(0);
    world.take(1);
    world.request(2, &item(6, "A"));
    for _ in 0..3 {
        assert_eq!(world.asked(), ["1: refresh 8"]);
        image(&mut world, 1, 8, 2, 0);
        assert!(world.take(2).is_empty());
        world.pass(SECOND);
    }
    assert_eq!(world.asked(), ["1: refresh 8"]);
    image(&mut world, 1, 8, 2, 0);
    assert_eq!(world.take(2), ["refresh 6 solicited complete OPEN/OK group 1.0.3 key 1:A 22=2"]);
    assert_eq!(world.take(1), ["refresh 5 clear complete OPEN/OK group 1.0.3 key 1:A 22=2"]);
    updates(&mut world, 1, 8, [3]);
    assert_eq!((world.take(1), world.take(2)), (told([3]), vec!["update 6 22=3".to_owned()]));
}

/// Who was told Suspect meanwhile begins afresh with it, however old it is.
#[test]
fn an_older_image_ends_suspect() {
    let mut world = world(true);
    open(&mut world);
    updates(&mut world, 0, 3, 11..=14);
    world.take(1);
    world.source_down(0);
    world.take(1);
    world.publish(1, |p| {
        p.status(8, 0, &status(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE));
    });
    image(&mut world, 1, 8, 12, flags::UNSOLICITED);
    updates(&mut world, 1, 8, [13]);
    let image = "refresh 5 clear complete OPEN/OK group 1.0.3 key 1:A 22=12".to_owned();
    assert_eq!(world.take(1), [vec!["status 5 OPEN/SUSPECT".to_owned(), image], told([13])].concat());
    world.p2ps.check_invariants();
}

#[test]
fn without_numbers_there_is_one_image_and_no_word_of_a_loss() {
    let mut world = world(false);
    open(&mut world);
    updates(&mut world, 0, 3, [11]);
    updates(&mut world, 1, 8, [11, 12]);
    assert_eq!(world.take(1), told([11]));
    world.source_down(0);
    assert!(world.take(1).is_empty());
    assert_eq!(world.asked(), ["1: refresh 8"]);
    updates(&mut world, 1, 8, [13]);
    image(&mut world, 1, 8, 13, 0);
    updates(&mut world, 1, 8, [14]);
    let image = "refresh 5 clear complete OPEN/OK group 1.0.3 key 1:A 22=13".to_owned();
    assert_eq!(world.take(1), [vec![image], told([14])].concat());
    assert_eq!(of_takeovers(&mut world), [taken("one", 0)]);
    world.p2ps.check_invariants();
}

/// More than the tail holds.
#[test]
fn a_standby_too_far_ahead_gives_an_image() {
    let mut world = world(true);
    open(&mut world);
    updates(&mut world, 1, 8, 11..=1_000);
    world.source_down(0);
    assert_eq!((world.take(1), world.asked()), (vec![], vec!["1: refresh 8".to_owned()]));
    image(&mut world, 1, 8, 1_000, 0);
    assert_eq!(world.take(1), ["refresh 5 clear complete OPEN/OK group 1.0.3 key 1:A 22=1000"]);
}

#[test]
fn a_standby_that_has_it_not_good_does_not_take_over() {
    for state in [SUSPECT, State { stream: StreamState::CLOSED_RECOVER, ..SUSPECT }] {
        let mut world = world(true);
        open(&mut world);
        world.publish(1, |p| {
            p.status(8, 0, &status(state.stream, state.data, StateCode::NONE));
        });
        assert!(world.take(1).is_empty());
        world.source_down(0);
        assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT"]);
        let asked = world.asked();
        assert!(asked.len() == 2 && asked[0] == "1: close 8" && asked[1].starts_with("1: open"), "{asked:?}");
        assert!(of_takeovers(&mut world).is_empty());
        world.p2ps.check_invariants();
    }
}

#[test]
fn what_is_suspect_where_it_is_goes_over_and_back() {
    let mut world = world(true);
    open(&mut world);
    world.publish(0, |p| {
        p.status(3, 0, &status(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE));
    });
    assert_eq!(world.take(1), REGROUPED[1..]);
    assert_eq!(served(&world), [("one".into(), 0, 1), ("two".into(), 1, 0)]);
    updates(&mut world, 1, 8, [11]);
    assert_eq!(world.take(1), told([11]));
    // The item is good there again: an operator has it go back.
    world.publish(0, |p| {
        p.status(3, 0, &status(StreamState::OPEN, DataState::OK, StateCode::NONE));
        p.writer.update(3, false, &numbered_update(11));
        p.writer.update(3, false, &numbered_update(12));
    });
    assert!(world.take(1).is_empty());
    world.p2ps.switch_source(world.now, "FEED", Some("one")).unwrap();
    world.settle();
    assert_eq!(world.take(1), [vec![REGROUPED[0].to_owned()], told([12])].concat());
    updates(&mut world, 1, 8, [12]);
    assert_eq!(served(&world), [("one".into(), 1, 0), ("two".into(), 0, 1)]);
    assert_eq!(world.p2ps.counters().suspect_takeovers, 1);
    assert!(world.asked().is_empty());
    world.p2ps.check_invariants();
}

/// Both say so: the first word is told nobody, the second one is.
#[test]
fn what_is_suspect_at_both_is_told_and_good_where_it_is_good_first() {
    let mut world = world(true);
    open(&mut world);
    let suspect = status(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE);
    world.publish(0, |p| {
        p.event(Event::ServiceStatus { service: 40, state: SUSPECT });
    });
    world.publish(1, |p| {
        p.status(8, 0, &suspect);
    });
    assert_eq!(world.take(1), [REGROUPED[1], "status 5 OPEN/SUSPECT"]);
    image(&mut world, 0, 3, 12, flags::UNSOLICITED);
    assert_eq!(world.asked(), ["0: refresh 3"]);
    image(&mut world, 0, 3, 13, 0);
    assert_eq!(world.take(1), ["refresh 5 clear complete OPEN/OK group 3 key 1:A 22=13"]);
    world.p2ps.check_invariants();
}

/// Its images say it, too.
#[test]
fn a_suspect_image_is_left_to_the_standby() {
    let mut world = world(true);
    open(&mut world);
    world.publish(0, |p| {
        p.image_with(3, flags::UNSOLICITED, &numbered_image(11, SUSPECT));
    });
    assert_eq!(world.take(1), REGROUPED[1..]);
    world.p2ps.check_invariants();
}

#[test]
fn an_operator_swaps_them_and_nothing_is_asked_for() {
    let mut world = world(true);
    open(&mut world);
    updates(&mut world, 1, 8, [11]);
    assert_eq!(world.p2ps.switch_source(world.now, "FEED", Some("two")), Ok(1));
    world.settle();
    assert_eq!(world.take(1), [vec![REGROUPED[1].to_owned()], told([11])].concat());
    updates(&mut world, 0, 3, [11, 12]);
    updates(&mut world, 1, 8, [12]);
    assert_eq!(world.take(1), told([12]));
    assert_eq!(world.p2ps.switch_source(world.now, "FEED", None), Ok(1));
    world.settle();
    assert_eq!(world.take(1), REGROUPED[..1]);
    updates(&mut world, 0, 3, [13]);
    assert_eq!((world.take(1), world.asked()), (told([13]), vec![]));
    world.p2ps.check_invariants();
}

/// What has to go back waits for its mirror at the first one, and hears nothing of that.
#[test]
fn items_go_back_when_the_first_has_them_again() {
    let mut world = world(true);
    open(&mut world);
    world.source_down(0);
    world.take(1);
    come(&mut world, 0);
    let asked = world.asked();
    assert!(asked.len() == 1 && asked[0].starts_with("0: open "), "{asked:?}");
    world.pass(DECISION * SECOND);
    assert_eq!(served(&world), [("one".into(), 0, 1), ("two".into(), 1, 0)], "it has no image there yet");
    world.publish(0, |p| {
        p.opened(token_of(&asked[0]), 4).image_with(4, 0, &numbered_image(10, State::OPEN_OK));
    });
    updates(&mut world, 1, 8, [11]);
    updates(&mut world, 0, 4, [11]);
    assert_eq!(world.take(1), told([11]));
    world.pass(61 * SECOND);
    assert_eq!(served(&world), [("one".into(), 1, 0), ("two".into(), 0, 1)]);
    updates(&mut world, 0, 4, [12]);
    assert_eq!(world.take(1), [vec![REGROUPED[0].to_owned()], told([12])].concat());
    world.p2ps.check_invariants();
}

#[test]
fn a_standby_that_is_lost_refuses_or_ends_it_is_nothing_to_those_who_watch() {
    let mut world = world(true);
    open(&mut world);
    world.source_down(1);
    world.pass(SECOND);
    assert_eq!(served(&world), [("one".into(), 1, 0)]);
    come(&mut world, 1);
    let token = world.token();
    world.asked();
    let refusal = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, "not now");
    world.publish(1, |p| {
        p.event(Event::Refused { target: 7, token, state: refusal });
    });
    assert!(world.asked().is_empty());
    world.pass(60 * SECOND);
    mirror(&mut world, 1, 2, 10);
    world.publish(1, |p| {
        p.status(2, flags::CLOSED, &status(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND));
    });
    assert_eq!(world.asked(), ["1: close 2"]);
    world.pass(60 * SECOND);
    mirror(&mut world, 1, 2, 10);
    world.publish(1, |p| {
        p.event(Event::ServiceGone { service: 40 });
    });
    world.pass(SECOND);
    assert_eq!(world.asked(), ["1: close 2"]);
    assert_eq!(world.take(1), Vec::<String>::new());
    world.p2ps.check_invariants();
}

/// The item is given up before its mirror is open: what is opened then is given back.
#[test]
fn what_is_opened_for_nobody_is_given_back() {
    let mut world = world(true);
    world.request(1, &item(5, "A"));
    let token = token_of(&world.asked()[0]);
    world.publish(0, |p| {
        p.opened(token, 3).image_with(3, 0, &numbered_image(1, State::OPEN_OK));
    });
    world.take(1);
    let token = token_of(&world.asked()[0]);
    world.close(1, 5);
    assert_eq!(world.asked(), ["0: close 3"]);
    world.p2ps.check_invariants();
    world.publish(1, |p| {
        p.opened(token, 8).image_with(8, 0, &numbered_image(1, State::OPEN_OK));
    });
    assert_eq!(world.asked(), ["1: close 8"]);
    world.p2ps.check_invariants();
}

/// An item is opened at a source once: who wants what is on its way there for nobody gets that.
#[test]
fn an_open_of_a_mirror_that_is_on_its_way_serves_who_comes_next() {
    for loses in [false, true] {
        let mut world = world(true);
        world.request(1, &item(5, "A"));
        let token = token_of(&world.asked()[0]);
        world.publish(0, |p| {
            p.opened(token, 3).image_with(3, 0, &numbered_image(1, State::OPEN_OK));
        });
        world.take(1);
        let mirror = token_of(&world.asked()[0]);
        if loses {
            world.source_down(0);
            assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT"]);
        } else {
            world.close(1, 5);
            world.request(1, &item(5, "A"));
            let asked = world.asked();
            assert!(asked.len() == 2 && asked[0] == "0: close 3" && asked[1].starts_with("0: open"), "{asked:?}");
            let token = token_of(&asked[1]);
            world.publish(0, |p| {
                p.opened(token, 3).image_with(3, 0, &numbered_image(1, State::OPEN_OK));
            });
            assert_eq!(world.take(1).len(), 1);
        }
        assert!(world.asked().is_empty(), "it is asked for there already");
        world.publish(1, |p| {
            p.opened(mirror, 8).image_with(8, 0, &numbered_image(2, State::OPEN_OK));
        });
        let news = world.take(1);
        if loses {
            assert_eq!(news, ["refresh 5 clear complete OPEN/OK group 1.0.3 key 1:A 22=2"]);
        } else {
            assert!(news.is_empty());
            assert_eq!(served(&world), [("one".into(), 1, 0), ("two".into(), 0, 1)]);
        }
        world.p2ps.check_invariants();
    }
}

/// An item that can stand by is asked for whole, and those with a view get what they asked for.
#[test]
fn views_are_of_this_side() {
    let mut world = world(true);
    let payload = Payload { view: Some(View::Fields(vec![22])), ..Payload::default() };
    let view = encode(|w| payload.encode(w));
    let flags = RequestFlags::STREAMING | RequestFlags::HAS_VIEW;
    world.request(1, &RequestMsg { flags, container: DataType::ELEMENT_LIST, body: &view, ..item(5, "A") });
    let asked = world.asked();
    assert!(!asked[0].contains("VIEW"), "{asked:?}");
    world.publish(0, |p| {
        p.opened(token_of(&asked[0]), 3).image_with(3, 0, &numbered_image(10, State::OPEN_OK));
    });
    assert_eq!(world.take(1).len(), 1);
    mirror(&mut world, 1, 8, 10);
    updates(&mut world, 1, 8, [11]);
    world.source_down(0);
    assert_eq!(world.take(1), [vec![REGROUPED[1].to_owned()], told([11])].concat());
    assert!(world.asked().is_empty());
    world.p2ps.check_invariants();
}

/// What is cached goes on, too: who comes later gets the image with all updates.
#[test]
fn the_cached_image_goes_on() {
    let cache = CacheRules::everything();
    let mut world = world_with(Config { cache, ..config(true) });
    open(&mut world);
    updates(&mut world, 1, 8, [11, 12]);
    world.source_down(0);
    world.take(1);
    updates(&mut world, 1, 8, [13]);
    assert_eq!(world.take(1), told([13]));
    world.request(2, &item(6, "A"));
    assert_eq!(world.take(2), ["refresh 6 solicited clear complete OPEN/OK group 1.0.3 key 1:A 22=13"]);
    assert!(world.asked().is_empty());
}

#[test]
fn a_service_that_goes_down_or_away_is_left_without_a_word() {
    for goes in [true, false] {
        let mut world = world(true);
        open(&mut world);
        updates(&mut world, 1, 8, [11]);
        world.publish(0, |p| {
            if goes {
                p.event(Event::ServiceGone { service: 40 });
            } else {
                p.service_with(40, info("FEED", &[6, 8], &[Qos::REALTIME_TICK]), ServiceState::new(false));
            }
        });
        assert_eq!(world.take(1), [vec![REGROUPED[1].to_owned()], told([11])].concat());
        assert_eq!(world.asked(), ["0: close 3"]);
        world.p2ps.check_invariants();
    }
}

/// An item closed for recovery is had at the other one.
#[test]
fn an_item_that_is_closed_for_recovery_goes_on() {
    let mut world = world(true);
    open(&mut world);
    world.publish(0, |p| {
        p.status(3, flags::CLOSED, &status(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE));
    });
    assert_eq!(world.take(1), REGROUPED[1..]);
    let asked = world.asked();
    assert!(asked.len() == 2 && asked[0] == "0: close 3" && asked[1].starts_with("0: open "), "{asked:?}");
    world.p2ps.check_invariants();
}

/// Who waits for an image when its source goes gets that of the standby, and who had one goes on.
#[test]
fn who_waits_gets_the_image_of_the_standby() {
    let mut world = world(true);
    open(&mut world);
    world.request(2, &item(6, "A"));
    assert_eq!(world.asked(), ["0: refresh 3"]);
    world.source_down(0);
    assert_eq!(world.take(1), REGROUPED[1..]);
    assert_eq!((world.take(2), world.asked()), (vec![], vec!["1: refresh 8".to_owned()]));
    updates(&mut world, 1, 8, [11]);
    image(&mut world, 1, 8, 11, 0);
    assert_eq!(world.take(1), told([11]));
    assert_eq!(world.take(2), ["refresh 6 solicited complete OPEN/OK group 1.0.3 key 1:A 22=11"]);
    world.p2ps.check_invariants();
}

/// Images at the standby are asked for in turns.
#[test]
fn a_takeover_of_many_asks_for_so_many_images_a_turn() {
    let mut world = world_with(Config { opens_per_turn: 4, ..config(false) });
    for number in 0..10_u32 {
        world.request(1, &item(10 + number as i32, &format!("I{number}")));
        world.pass(SECOND / 10);
        let token = token_of(&world.asked()[0]);
        world.publish(0, |p| {
            p.opened(token, number).image(number, &[(22, 1)]);
        });
        world.pass(SECOND / 10);
        let token = token_of(&world.asked()[0]);
        world.publish(1, |p| {
            p.opened(token, number).image(number, &[(22, 1)]);
        });
    }
    assert_eq!(world.take(1).len(), 10);
    world.source_down(0);
    let mut turns = Vec::new();
    while turns.iter().sum::<usize>() < 10 {
        turns.push(world.asked().len());
        world.p2ps.on_timer(world.now);
        world.settle();
    }
    assert!(turns.iter().all(|asked| *asked <= 4), "{turns:?}");
    assert!(world.take(1).is_empty());
    world.p2ps.check_invariants();
    world.asked();
}

/// A stream with a place of its own, over a network.
struct Remote {
    id: SourceId,
    stream: BlockWriter,
    alone: BlockWriter,
}

const LIFE: u32 = 55;

impl Remote {
    fn join(world: &mut World, id: u16, name: &str) -> Self {
        let id = SourceId(id);
        world.p2ps.name_source(id, name);
        world.p2ps.source_joined(world.now, id, Joined { number: 7, incarnation: LIFE, position: 0 });
        world.settle();
        world.asked();
        let mut remote = Self { id, stream: BlockWriter::new(LIFE), alone: BlockWriter::new(LIFE) };
        remote.publish(world, |p| {
            p.service(40, "FEED");
        });
        remote
    }

    fn publish(&mut self, world: &mut World, write: impl FnOnce(&mut Publisher<'_>)) {
        let block = self.write(write);
        world.block(self.id.0, &block).unwrap();
    }

    fn write(&mut self, write: impl FnOnce(&mut Publisher<'_>)) -> Vec<u8> {
        write(&mut Publisher { writer: &mut self.stream });
        let block = self.stream.block().unwrap().to_vec();
        self.stream.clear();
        block
    }

    fn tell(&mut self, world: &mut World, event: &Event<'_>) {
        self.alone.event(event);
        let block = self.alone.block().unwrap().to_vec();
        self.alone.clear();
        world.p2ps.point_to_point_block(world.now, self.id, &block).unwrap();
        world.settle();
    }

    /// Some messages are lost; what they were about is told.
    fn lose(&mut self, world: &mut World, handle: u32, write: impl FnOnce(&mut Publisher<'_>)) {
        let from = self.stream.next_position();
        self.write(write);
        let to = self.stream.next_position();
        self.publish(world, |p| {
            p.event(Event::Heartbeat { announcement: b"" });
        });
        assert_eq!(world.asked(), [format!("{}: gap {from}..{to}", self.id.0)]);
        self.tell(world, &Event::Missed { target: 7, handle });
        self.tell(world, &Event::CaughtUp { target: 7, to });
    }
}

/// As [`open_at`], over a network: the image of the mirror comes beside the stream, from before two updates.
fn remotes(world: &mut World) -> [Remote; 2] {
    let mut remotes = [Remote::join(world, 0, "one"), Remote::join(world, 1, "two")];
    world.clients([1]);
    world.request(1, &item(5, "A"));
    let token = token_of(&world.asked()[0]);
    remotes[0].publish(world, |p| {
        p.opened(token, 3).image_with(3, 0, &numbered_image(10, State::OPEN_OK));
    });
    let token = token_of(&world.asked()[0]);
    remotes[1].publish(world, |p| {
        p.opened(token, 8);
    });
    let position = remotes[1].stream.next_position();
    remotes[1].publish(world, |p| {
        p.writer.update(8, false, &numbered_update(11));
        p.writer.update(8, false, &numbered_update(12));
    });
    let rwf = numbered_image(10, State::OPEN_OK);
    let flags = flags::FIRST | flags::COMPLETE;
    remotes[1].tell(world, &Event::Image { target: 7, handle: 8, group: 3, flags, position, rwf: &rwf });
    assert_eq!(world.take(1).len(), 1);
    remotes
}

fn is_in_sequence(world: &World) -> bool {
    world.p2ps.counters().hot_takeovers_in_sequence == 1
}

/// What was read before an image that belongs before it is not in the image, and was not held.
#[test]
fn an_image_beside_the_stream_does_not_hold_what_was_read_since() {
    for passed in [11, 12] {
        let mut world = World::with(config(true));
        let [mut one, mut two] = remotes(&mut world);
        one.publish(&mut world, |p| {
            (11..=passed).for_each(|number| p.writer.update(3, false, &numbered_update(number)));
        });
        two.publish(&mut world, |p| p.writer.update(8, false, &numbered_update(13)));
        assert_eq!(world.take(1), told(11..=passed));
        world.source_down(0);
        assert_eq!(is_in_sequence(&world), passed == 12, "update 12 is not held");
        let news = world.take(1);
        let asked = world.asked();
        if passed == 12 {
            assert_eq!((news, asked), ([vec![REGROUPED[1].to_owned()], told([13])].concat(), vec![]));
        } else {
            assert_eq!((news, asked), (vec![], vec!["1: refresh 8".to_owned()]));
        }
        world.p2ps.check_invariants();
    }
}

#[test]
fn a_standby_that_has_lost_messages_asks_for_an_image() {
    let mut world = World::with(config(true));
    let [_one, mut two] = remotes(&mut world);
    two.lose(&mut world, 8, |p| p.writer.update(8, false, &numbered_update(13)));
    assert_eq!(world.asked(), ["1: refresh 8 in stream"]);
    two.publish(&mut world, |p| p.writer.update(8, false, &numbered_update(14)));
    two.publish(&mut world, |p| {
        p.image_with(8, 0, &numbered_image(10, State::OPEN_OK));
        p.writer.update(8, false, &numbered_update(11));
    });
    world.p2ps.check_invariants();
    world.source_down(0);
    assert!(is_in_sequence(&world));
    assert_eq!(world.take(1), [vec![REGROUPED[1].to_owned()], told([11])].concat());
    world.p2ps.check_invariants();
}

/// A gap of the one in use is filled by the other one.
#[test]
fn messages_that_one_has_lost_come_from_the_other() {
    let mut world = World::with(config(true));
    let [mut one, mut two] = remotes(&mut world);
    one.publish(&mut world, |p| {
        (11..=12).for_each(|number| p.writer.update(3, false, &numbered_update(number)));
    });
    two.publish(&mut world, |p| {
        (13..=14).for_each(|number| p.writer.update(8, false, &numbered_update(number)));
    });
    assert_eq!(world.take(1), told([11, 12]));
    one.lose(&mut world, 3, |p| p.writer.update(3, false, &numbered_update(13)));
    assert!(is_in_sequence(&world));
    assert_eq!(world.take(1), [vec![REGROUPED[1].to_owned()], told([13, 14])].concat());
    assert_eq!(world.asked(), ["0: refresh 3 in stream"]);
    one.publish(&mut world, |p| {
        p.image_with(3, 0, &numbered_image(14, State::OPEN_OK));
        p.writer.update(3, false, &numbered_update(15));
    });
    world.source_down(1);
    assert_eq!(world.take(1), [vec![REGROUPED[0].to_owned()], told([15])].concat());
    world.p2ps.check_invariants();
}

/// With other settings all begins anew: what was numbered alike is not any more.
#[test]
fn a_reload_takes_over_who_stands_by() {
    let mut world = world(true);
    open(&mut world);
    world.p2ps.reconfigure(&Config { source_pairs: Vec::new(), ..config(true) });
    world.settle();
    assert_eq!(world.asked(), ["1: close 8"]);
    assert_ne!(world.p2ps.timeout(), Some(0), "there is nothing to do");
    world.p2ps.check_invariants();
    world.p2ps.reconfigure(&config(true));
    world.settle();
    mirror(&mut world, 1, 8, 10);
    world.source_down(0);
    assert_eq!(world.asked(), ["1: refresh 8"], "the number of the image is not known");
    world.p2ps.check_invariants();
}
