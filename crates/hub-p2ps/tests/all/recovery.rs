//! Loss and return: what watchers are told, and which images they get.

use crate::world::{SECOND, World, item, refresh, refresh_with, status, token_of, untokened};
use hub_p2ps::Config;
use hub_stream::{ALL, Event, NO_GROUP, flags};
use rwf::msg::{RefreshFlags, RequestFlags, RequestMsg, StatusMsg};
use rwf::{DataState, DataType, State, StateCode, StreamState};

const RECOVER: StreamState = StreamState::CLOSED_RECOVER;
const SUSPECT: DataState = DataState::SUSPECT;

#[test]
fn a_lost_source_makes_items_suspect_once_and_recovery_begins_afresh() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(1, 5, "A", 0);
    world.request(2, &item(5, "B"));
    world.asked();
    world.source_down(0);
    assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT"]);
    assert_eq!(world.take(2), ["status 5 OPEN/SUSPECT"], "nobody is left to ask");
    assert_eq!(world.asked(), [""; 0]);
    world.source(0);
    assert_eq!(world.asked(), [""; 0], "the service has to come first");
    world.publish(0, |p| {
        p.service(40, "FEED");
    });
    let mut asked = world.asked();
    // Items that wait for a service are asked for in no order.
    asked.sort_unstable_by_key(|request| request.contains("key B"));
    assert!(asked.len() == 2 && asked[0].contains("key A") && asked[1].contains("key B"), "{asked:?}");
    let wanted_back = [0, 1].map(|at: usize| asked[at].contains("streaming wanted back"));
    assert_eq!(wanted_back, [true, false], "who has had an image waits for the next, however long it takes");
    world.publish(0, |p| {
        p.opened(token_of(&asked[0]), 0).opened(token_of(&asked[1]), 1);
        p.update(0, &[(22, 3)]).image(0, &[(22, 3)]).image(1, &[(22, 4)]).update(0, &[(22, 5)]);
    });
    assert_eq!(
        world.take(1),
        ["refresh 5 clear complete OPEN/OK group 3 key 1:A 22=3", "update 5 22=5"],
        "unsolicited and with ClearCache to the one that was open; an update before that has no ground"
    );
    assert_eq!(world.take(2), ["refresh 5 solicited complete OPEN/OK group 3 key 1:B 22=4"]);
    assert_eq!(world.p2ps.counters().items_lost, 2);
}

#[test]
fn clients_with_a_directory_hear_of_a_loss_by_it_alone() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.directory(1, 2);
    world.open(1, 5, "A", 0);
    world.open(2, 5, "B", 1);
    world.source_down(0);
    let messages = world.raw(1);
    let [only] = &messages[..] else { panic!("{messages:?}") };
    let Ok(rwf::msg::Msg::Update(update)) = rwf::msg::Msg::decode(only) else { panic!() };
    let update = rwf::rdm::directory::Update::decode(&update).unwrap();
    let state = update.services[0].state.as_ref().unwrap().value().unwrap();
    assert!(!state.up);
    assert_eq!(state.status.as_ref().unwrap().data, SUSPECT);
    assert_eq!(world.take(2), ["status 5 OPEN/SUSPECT"]);
}

#[test]
fn another_source_takes_over() {
    let mut world = World::with_feed();
    world.source(1);
    world.publish(1, |p| {
        p.service(7, "FEED");
    });
    world.clients([1, 2]);
    world.open(1, 5, "A", 3);
    world.request(2, &item(5, "B"));
    world.asked();
    world.source_down(0);
    assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT"]);
    let asked = world.asked();
    assert!(asked.len() == 2 && asked.iter().all(|words| words.starts_with("1: open ")), "{asked:?}");
    world.publish(1, |p| {
        p.opened(token_of(&asked[0]), 0).image(0, &[(22, 8)]);
    });
    assert_eq!(world.take(1), ["refresh 5 clear complete OPEN/OK group 1.0.3 key 1:A 22=8"]);
}

#[test]
fn who_recovers_alone_is_closed_when_something_is_lost() {
    let mut world = World::with_feed();
    world.login(1, Some(false), Some(true));
    world.login(2, Some(true), Some(false));
    world.open(1, 5, "A", 0);
    world.request(2, &item(5, "A"));
    world.asked();
    world.publish(0, |p| {
        p.image(0, &[(22, 1)]);
    });
    world.take(2);
    let gone = State::new(RECOVER, SUSPECT, StateCode::NONE, "");
    world.publish(0, |p| {
        p.event(Event::ServiceStatus { service: 40, state: gone });
    });
    assert_eq!(world.take(1), ["status 5 CLOSED_RECOVER/SUSPECT"]);
    assert_eq!(world.take(2), ["status 5 OPEN/SUSPECT"], "the source recovers it, under the same handle");
    world.request(1, &item(5, "A"));
    assert_eq!(world.asked(), ["0: refresh 0"]);
    world.publish(0, |p| {
        p.image_with(0, flags::RECOVERY, &refresh(&[(22, 6)]));
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=6"]);
    assert_eq!(world.take(2), ["refresh 5 clear complete OPEN/OK group 3 key 1:A 22=6"]);
    world.request(2, &item(6, "B"));
    world.asked();
    world.source_down(0);
    assert_eq!(world.take(1), ["status 5 CLOSED_RECOVER/SUSPECT"]);
    assert_eq!(world.take(2), ["status 5 OPEN/SUSPECT", "status 6 OPEN/SUSPECT"]);
}

#[test]
fn table_18_is_applied_to_each_item_status() {
    // What an open stream is told of a suspect item, and of one that is closed for recovery.
    for (single_open, allow_suspect, of_suspect, of_recover) in [
        (true, true, "OPEN", "OPEN"),
        (true, false, "OPEN", "OPEN"),
        (false, true, "OPEN", "CLOSED_RECOVER"),
        (false, false, "CLOSED_RECOVER", "CLOSED_RECOVER"),
    ] {
        for (stream, closed, expected) in [(StreamState::OPEN, 0, of_suspect), (RECOVER, flags::CLOSED, of_recover)] {
            let mut world = World::with_feed();
            world.login(1, Some(single_open), Some(allow_suspect));
            world.open(1, 5, "A", 0);
            world.publish(0, |p| {
                p.status(0, closed, &status(stream, SUSPECT, StateCode::NONE));
            });
            assert_eq!(world.take(1), [format!("status 5 {expected}/SUSPECT")]);
            let closes = closed != 0 || expected != "OPEN";
            assert_eq!(world.asked(), if closes { vec!["0: close 0"] } else { vec![] });
            world.request(1, &item(5, "A"));
            let again = world.asked();
            match (expected, closed) {
                ("OPEN", 0) => assert_eq!(again, ["0: refresh 0"], "it is open still"),
                ("OPEN", _) => assert_eq!(again, [""; 0], "it waits for its next attempt"),
                _ => assert_eq!(again.len(), 1, "the client asks anew"),
            }
        }
    }
}

#[test]
fn suspect_images_close_who_takes_no_suspect_data() {
    let mut world = World::with_feed();
    world.login(1, Some(false), Some(false));
    world.login(2, Some(false), Some(true));
    world.request(1, &item(5, "A"));
    world.request(2, &item(5, "A"));
    let token = world.token();
    world.asked();
    let stale = State::new(StreamState::OPEN, SUSPECT, StateCode::NONE, "stale");
    let rwf = refresh_with(RefreshFlags::REFRESH_COMPLETE, stale, None, &[(22, 1)]);
    world.publish(0, |p| {
        p.opened(token, 0).image_with(0, 0, &rwf);
    });
    assert_eq!(world.take(1), ["status 5 CLOSED_RECOVER/SUSPECT"]);
    assert_eq!(world.take(2), ["refresh 5 solicited complete OPEN/SUSPECT group 3 key 1:A 22=1"]);
    world.publish(0, |p| {
        p.update(0, &[(22, 2)]).image(0, &[(22, 2)]);
    });
    assert_eq!(
        world.take(2),
        ["update 5 22=2", "refresh 5 clear complete OPEN/OK group 3 key 1:A 22=2"],
        "good again, for those too who did not ask"
    );
}

#[test]
fn a_service_that_is_down_holds_requests_or_sends_them_away() {
    for single_open in [true, false] {
        let mut world = World::with_feed();
        world.login(1, Some(single_open), Some(true));
        world.publish(0, |p| {
            let info = crate::world::info("FEED", &[6, 8], &[]);
            p.service_with(40, info, rwf::rdm::directory::ServiceState::new(false));
        });
        world.request(1, &item(5, "A"));
        assert_eq!(world.asked(), [""; 0]);
        let expected = if single_open { "status 5 OPEN/SUSPECT" } else { "status 5 CLOSED_RECOVER/SUSPECT" };
        assert_eq!(world.take(1), [expected]);
        world.publish(0, |p| {
            p.service(40, "FEED");
        });
        let asked = world.asked();
        assert_eq!(asked.len(), usize::from(single_open));
        if single_open {
            world.publish(0, |p| {
                p.opened(token_of(&asked[0]), 0).image(0, &[(22, 1)]);
            });
            assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=1"]);
        }
    }
}

#[test]
fn a_deleted_service_closes_by_the_directory_or_by_statuses_never_both() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.login(3, Some(false), None);
    world.directory(1, 2);
    for (client, name, handle) in [(1, "A", 0), (2, "B", 1), (3, "C", 2)] {
        world.open(client, 5, name, handle);
    }
    world.publish(0, |p| {
        p.event(Event::ServiceGone { service: 40 });
    });
    assert_eq!(world.raw(1).len(), 1, "the deletion alone");
    assert_eq!(world.take(2), ["status 5 OPEN/SUSPECT"], "this server recovers it");
    assert_eq!(world.take(3), ["status 5 CLOSED_RECOVER/SUSPECT"]);
    assert_eq!(sorted(world.asked()), ["0: close 0", "0: close 1", "0: close 2"]);
    world.request(1, &item(5, "A"));
    assert_eq!(world.take(1), ["status 5 CLOSED/SUSPECT/SOURCE_UNKNOWN"], "its stream is free again");
    world.publish(0, |p| {
        p.service(40, "FEED");
    });
    world.raw(1);
    let asked = world.asked();
    assert_eq!(asked.len(), 1);
    world.publish(0, |p| {
        p.opened(token_of(&asked[0]), 9).image(9, &[(22, 4)]);
    });
    assert_eq!(world.take(2), ["refresh 5 clear complete OPEN/OK group 3 key 1:B 22=4"]);
}

#[test]
fn an_open_in_a_withdrawn_service_is_forgotten_with_its_source() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.request(1, &item(5, "A"));
    world.request(2, &item(5, "B"));
    assert_eq!(world.asked().len(), 2);
    world.publish(0, |p| {
        p.event(Event::ServiceGone { service: 40 });
    });
    assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT"]);
    assert_eq!(world.take(2), ["status 5 OPEN/SUSPECT"]);
    world.disconnect(1);
    world.source_down(0);
    assert_eq!(world.p2ps.counters().items, 1, "only one is watched");
    world.source(0);
    world.publish(0, |p| {
        p.service(40, "FEED");
    });
    let asked = world.asked();
    assert!(asked.len() == 1 && asked[0].ends_with(" key B"), "{asked:?}");
}

#[test]
fn a_refused_open_closes_or_is_tried_again_with_growing_pauses() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.request(1, &item(5, "NONE"));
    let token = world.token();
    world.asked();
    let not_found = State::new(StreamState::CLOSED, SUSPECT, StateCode::NOT_FOUND, "no such item");
    world.publish(0, |p| {
        p.event(Event::Refused { target: 7, token, state: not_found });
    });
    assert_eq!(world.take(1), ["status 5 CLOSED/SUSPECT/NOT_FOUND"]);
    assert_eq!(world.p2ps.counters().items, 0);

    world.request(1, &item(5, "SLOW"));
    let timeout = State::new(RECOVER, SUSPECT, StateCode::TIMEOUT, "no answer");
    for (attempt, pause) in [1, 2, 4].into_iter().enumerate() {
        let token = world.token();
        world.asked();
        world.publish(0, |p| {
            p.event(Event::Refused { target: 7, token, state: timeout });
        });
        let told = if attempt == 0 { vec!["status 5 OPEN/SUSPECT/TIMEOUT"] } else { vec![] };
        assert_eq!(world.take(1), told, "told once");
        world.pass(pause * SECOND - 1);
        assert_eq!(world.asked(), [""; 0]);
        world.pass(1);
    }
    world.asked();
}

#[test]
fn statuses_are_relayed_and_turned_to_each_client() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.open(1, 5, "A", 0);
    world.request(1, &item(6, "A"));
    world.asked();
    let rwf = crate::world::encode(|w| {
        StatusMsg {
            state: Some(State::new(StreamState::OPEN, SUSPECT, StateCode::GAP_DETECTED, "gap")),
            key: Some(rwf::msg::MsgKey::item(900, b"A")),
            ..StatusMsg::new(crate::world::PRICE, 1)
        }
        .encode(w)
    });
    world.publish(0, |p| {
        p.event(Event::ItemStatus { target: ALL, handle: 0, group: 12, flags: 0, rwf: &rwf });
        p.event(Event::ItemStatus { target: 3, handle: 0, group: 12, flags: 0, rwf: &rwf });
    });
    assert_eq!(
        world.take(1),
        ["status 5 OPEN/SUSPECT/GAP_DETECTED group 12 key 1:A"],
        "stream 6 waits for its first response, and P2PS 3 is another one"
    );
    world.publish(0, |p| {
        p.event(Event::ItemStatus { target: 7, handle: 0, group: NO_GROUP, flags: flags::PENDING_TOO, rwf: &rwf });
    });
    assert_eq!(
        world.take(1),
        ["status 5 OPEN/SUSPECT/GAP_DETECTED key 1:A", "status 6 OPEN/SUSPECT/GAP_DETECTED key 1:A"]
    );
    world.publish(0, |p| {
        p.status(0, flags::CLOSED, &status(StreamState::CLOSED, SUSPECT, StateCode::NOT_FOUND));
    });
    assert_eq!(world.take(1), ["status 5 CLOSED/SUSPECT/NOT_FOUND", "status 6 CLOSED/SUSPECT/NOT_FOUND"]);
    assert_eq!(world.asked(), ["0: close 0"]);
}

#[test]
fn a_multi_part_set_goes_whole_to_those_who_began_it() {
    let mut world = World::with_feed();
    world.clients([1, 2, 3]);
    world.open(3, 5, "A", 0);
    world.request(1, &item(5, "A"));
    world.asked();
    let part = |number, last, value| {
        let flags = if last { RefreshFlags::REFRESH_COMPLETE } else { RefreshFlags::NONE };
        refresh_with(flags | RefreshFlags::SOLICITED, State::OPEN_OK, Some(number), &[(22, value)])
    };
    world.publish(0, |p| {
        p.part(0, flags::FIRST, &part(0, false, 1));
    });
    world.request(2, &item(5, "A"));
    assert_eq!(world.asked(), ["0: refresh 0"], "a set of its own for who came in the middle");
    world.publish(0, |p| {
        p.update(0, &[(25, 7)]).part(0, 0, &part(1, false, 2)).part(0, flags::COMPLETE, &part(2, true, 3));
        p.update(0, &[(25, 8)]);
    });
    assert_eq!(
        world.take(1),
        [
            "refresh 5 solicited part 0 OPEN/OK group 3 key 1:A 22=1",
            "update 5 25=7",
            "refresh 5 solicited part 1 OPEN/OK group 3 key 1:A 22=2",
            "refresh 5 solicited part 2 complete OPEN/OK group 3 key 1:A 22=3",
            "update 5 25=8",
        ]
    );
    assert_eq!(world.take(2), [""; 0]);
    assert_eq!(world.take(3), ["update 5 25=7", "update 5 25=8"], "who was open sees no image");
    world.publish(0, |p| {
        p.part(0, flags::FIRST, &part(0, false, 4)).part(0, flags::COMPLETE, &part(1, true, 5));
    });
    assert_eq!(
        world.take(2),
        [
            "refresh 5 solicited part 0 OPEN/OK group 3 key 1:A 22=4",
            "refresh 5 solicited part 1 complete OPEN/OK group 3 key 1:A 22=5",
        ]
    );
}

#[test]
fn the_rest_of_a_set_that_a_loss_broke_off_reaches_nobody() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.open(1, 5, "A", 0);
    let part = |number| refresh_with(RefreshFlags::NONE, State::OPEN_OK, Some(number), &[(22, number.into())]);
    world.publish(0, |p| {
        p.part(0, flags::FIRST | flags::UNSOLICITED, &part(0));
    });
    world.source_down(0);
    assert_eq!(world.take(1), ["refresh 5 part 0 OPEN/OK group 3 key 1:A 22=0", "status 5 OPEN/SUSPECT"]);
    world.source(0);
    world.publish(0, |p| {
        p.service(40, "FEED");
    });
    let token = world.token();
    world.asked();
    world.publish(0, |p| {
        p.opened(token, 0).part(0, flags::COMPLETE | flags::UNSOLICITED, &part(1)).image(0, &[(22, 7)]);
    });
    assert_eq!(world.take(1), ["refresh 5 clear complete OPEN/OK group 3 key 1:A 22=7"]);
}

#[test]
fn an_unsolicited_image_goes_to_all() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(1, 5, "A", 0);
    world.request(2, &item(5, "A"));
    world.asked();
    let unsolicited = refresh_with(RefreshFlags::REFRESH_COMPLETE, State::OPEN_OK, None, &[(22, 2)]);
    world.publish(0, |p| {
        p.image_with(0, flags::UNSOLICITED, &unsolicited);
    });
    assert_eq!(world.take(1), ["refresh 5 complete OPEN/OK group 3 key 1:A 22=2"]);
    assert_eq!(world.take(2), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=2"]);
    world.publish(0, |p| {
        p.image_with(0, flags::RECOVERY, &refresh(&[(22, 3)])).image(0, &[(22, 4)]);
    });
    for client in [1, 2] {
        assert_eq!(world.take(client), ["refresh 5 clear complete OPEN/OK group 3 key 1:A 22=3"]);
    }
}

#[test]
fn an_image_from_the_past_is_asked_for_again() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(1, 5, "A", 0);
    world.request(2, &item(5, "A"));
    world.asked();
    let position = world.writer(0).next_position();
    world.publish(0, |p| {
        p.update(0, &[(22, 5)]);
        let rwf = refresh(&[(22, 4)]);
        p.event(Event::Image {
            target: 7,
            handle: 0,
            group: 3,
            flags: flags::FIRST | flags::COMPLETE,
            position,
            rwf: &rwf,
        });
    });
    assert_eq!(world.asked(), ["0: refresh 0"]);
    assert_eq!(world.take(2), [""; 0]);
    world.publish(0, |p| {
        p.image(0, &[(22, 5)]);
    });
    assert_eq!(world.take(2), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=5"]);
    assert_eq!(world.take(1), ["update 5 22=5"]);
    assert_eq!(world.p2ps.counters().images_late, 1);
}

#[test]
fn a_private_stream_is_one_to_one_and_never_recovered() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    let private =
        |stream| RequestMsg { flags: RequestFlags::STREAMING | RequestFlags::PRIVATE_STREAM, ..item(stream, "A") };
    world.request(1, &private(5));
    world.request(2, &private(5));
    let asked = world.asked();
    assert!(asked.len() == 2 && asked.iter().all(|words| words.contains(" 40 private request")), "{asked:?}");
    world.publish(0, |p| {
        p.opened(token_of(&asked[0]), 0).opened(token_of(&asked[1]), 1).image(0, &[(22, 1)]).update(0, &[(22, 2)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited private complete OPEN/OK group 3 key 1:A 22=1", "update 5 22=2"]);
    world.source_down(0);
    assert_eq!(world.take(1), ["status 5 CLOSED_RECOVER/SUSPECT"]);
    assert_eq!(world.take(2), ["status 5 CLOSED_RECOVER/SUSPECT"]);
    assert_eq!(world.p2ps.counters().items, 0);
}

#[test]
fn a_private_stream_hears_its_end_where_a_directory_speaks_of_recovery() {
    for (single_open, own) in [(true, vec!["status 5 CLOSED_RECOVER/SUSPECT"]), (false, vec![])] {
        let mut world = World::with_feed();
        world.login(1, Some(single_open), None);
        world.directory(1, 2);
        let flags = RequestFlags::STREAMING | RequestFlags::PRIVATE_STREAM;
        world.request(1, &RequestMsg { flags, ..item(5, "A") });
        let token = world.token();
        world.asked();
        world.publish(0, |p| {
            p.opened(token, 0).image(0, &[(22, 1)]);
        });
        assert_eq!(world.take(1), ["refresh 5 solicited private complete OPEN/OK group 3 key 1:A 22=1"]);
        world.publish(0, |p| {
            p.event(Event::ServiceStatus { service: 40, state: State::new(RECOVER, SUSPECT, StateCode::NONE, "") });
            p.status(0, flags::CLOSED, &status(RECOVER, SUSPECT, StateCode::NONE));
        });
        let told = world.take(1);
        assert!(told[0].starts_with("directory update 2"), "{told:?}");
        assert_eq!(told[1..], own, "its directory says that the stream is recovered, which a private one is not");
        assert_eq!(world.asked(), ["0: close 0"]);
    }
}

#[test]
fn who_was_told_of_a_loss_is_not_told_that_the_next_open_takes_long() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(1, 5, "A", 0);
    world.source_down(0);
    assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT"]);
    world.source(0);
    world.publish(0, |p| {
        p.service(40, "FEED");
    });
    let token = world.token();
    world.asked();
    world.request(2, &item(5, "A"));
    let slow = status(StreamState::OPEN, SUSPECT, StateCode::TIMEOUT);
    world.publish(0, |p| {
        p.opened(token, 0).status(0, flags::PENDING_TOO, &slow);
    });
    assert_eq!(world.take(1), [""; 0]);
    assert_eq!(world.take(2), ["status 5 OPEN/SUSPECT/TIMEOUT"]);
    world.publish(0, |p| {
        p.image(0, &[(22, 1)]).status(0, flags::PENDING_TOO, &slow);
    });
    assert_eq!(
        world.take(1),
        ["refresh 5 clear complete OPEN/OK group 3 key 1:A 22=1", "status 5 OPEN/SUSPECT/TIMEOUT"],
        "the item was good between"
    );
    assert_eq!(
        world.take(2),
        ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=1", "status 5 OPEN/SUSPECT/TIMEOUT"]
    );
}

#[test]
fn a_gap_begins_everything_anew() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.open(1, 5, "A", 0);
    let writer = world.writer(0);
    writer.update(0, false, &crate::world::update(&[(22, 3)]));
    writer.clear();
    world.publish(0, |p| {
        p.update(0, &[(22, 4)]);
    });
    assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT/GAP_DETECTED"]);
    assert_eq!(world.asked(), ["0: hello"]);
    world.publish(0, |p| {
        p.update(0, &[(22, 5)]).service(40, "FEED");
    });
    let asked = world.asked();
    world.publish(0, |p| {
        p.opened(token_of(&asked[0]), 0).image(0, &[(22, 5)]);
    });
    assert_eq!(world.take(1), ["refresh 5 clear complete OPEN/OK group 3 key 1:A 22=5"]);
    assert_eq!(world.p2ps.counters().hub_gaps, 1);
}

#[test]
fn a_silent_source_is_given_up_and_heartbeats_are_sent() {
    let config = Config { heartbeat_interval: SECOND, source_timeout: 5 * SECOND, ..Config::default() };
    let mut world = World::with_feed_and(config);
    world.clients([1]);
    world.open(1, 5, "A", 0);
    world.pass(SECOND);
    assert_eq!(world.asked(), ["0: heartbeat"]);
    world.publish(0, |p| {
        p.event(Event::Heartbeat { announcement: b"" });
    });
    world.pass(4 * SECOND);
    assert_eq!(world.asked(), ["0: heartbeat"]);
    world.pass(SECOND);
    assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT/TIMEOUT"]);
}

#[test]
fn who_heard_that_an_item_is_good_again_gets_no_image_for_it() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(1, 5, "A", 0);
    world.request(2, &item(5, "A"));
    world.asked();
    let good = |number, flags| refresh_with(flags, State::OPEN_OK, Some(number), &[(22, 1)]);
    world.publish(0, |p| {
        p.part(0, flags::FIRST, &good(0, RefreshFlags::NONE));
        p.status(0, 0, &status(StreamState::OPEN, SUSPECT, StateCode::NONE));
        p.part(0, flags::COMPLETE, &good(1, RefreshFlags::REFRESH_COMPLETE));
    });
    assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT"]);
    assert_eq!(world.take(2).len(), 3);
    world.request(2, &item(5, "A"));
    world.asked();
    world.publish(0, |p| {
        p.image(0, &[(22, 2)]);
    });
    assert_eq!(world.take(1), ["refresh 5 clear complete OPEN/OK group 3 key 1:A 22=2"]);
    assert_eq!(world.take(2), ["refresh 5 solicited clear complete OPEN/OK group 3 key 1:A 22=2"]);
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(1, 5, "A", 0);
    world.publish(0, |p| {
        p.part(0, flags::FIRST | flags::UNSOLICITED, &good(0, RefreshFlags::NONE));
        p.status(0, 0, &status(StreamState::OPEN, SUSPECT, StateCode::NONE));
        p.part(0, flags::COMPLETE | flags::UNSOLICITED, &good(1, RefreshFlags::REFRESH_COMPLETE));
    });
    assert_eq!(world.take(1).len(), 3);
    world.request(2, &item(5, "A"));
    world.asked();
    world.publish(0, |p| {
        p.image(0, &[(22, 2)]);
    });
    assert_eq!(world.take(1), [""; 0], "the last part said so");
    assert_eq!(world.take(2).len(), 1);
}

/// What is lost at once is told of in no order.
fn sorted(mut words: Vec<String>) -> Vec<String> {
    words.sort_unstable();
    words
}

#[test]
fn what_a_private_stream_is_asked_for_with_goes_to_its_provider() {
    let mut world = World::with_feed();
    world.clients([1]);
    let flags = RequestFlags::STREAMING | RequestFlags::PRIVATE_STREAM | RequestFlags::QUALIFIED_STREAM;
    let with = |stream, flags| RequestMsg {
        flags,
        container: DataType::FILTER_LIST,
        body: &[0, 0, 0],
        ext_header: Some(b"abc"),
        ..item(stream, "A")
    };
    world.request(1, &with(5, flags));
    assert_eq!(
        untokened(&world.asked()),
        [
            "0: open 40 private request 0 [STREAMING|PRIVATE_STREAM|QUALIFIED_STREAM] REALTIME/TICK_BY_TICK FILTER_LIST of 3 bytes header of 3 bytes key A"
        ]
    );
    // Clients that share an item have the provider asked for what all of them can have.
    world.request(1, &with(6, RequestFlags::STREAMING));
    assert_eq!(untokened(&world.asked()), ["0: open 40 streaming request 0 [STREAMING] REALTIME/TICK_BY_TICK key A"]);
}

#[test]
fn new_requests_do_not_wait_for_all_that_is_recovered() {
    let mut world = World::with_feed_and(Config { open_window: 5, open_window_for_polls: 40, ..Config::default() });
    world.clients([1, 2]);
    for (n, name) in (0..).zip(["A", "B", "C", "D"]) {
        world.open(1, 5 + n, name, n as u32);
    }
    world.source_down(0);
    world.take(1);
    world.source(0);
    world.publish(0, |p| {
        p.service(40, "FEED");
    });
    let recovered = world.asked();
    assert_eq!(recovered.len(), 2, "two fifths of the window: {recovered:?}");
    for (n, name) in (0..).zip(["E", "F", "G", "H"]) {
        world.request(2, &item(5 + n, name));
    }
    let asked = world.asked();
    let names: Vec<bool> =
        ["E", "F", "G"].iter().map(|name| asked.iter().any(|r| r.ends_with(&format!("key {name}")))).collect();
    assert_eq!((names, asked.len()), (vec![true; 3], 3), "and the window for the rest: {asked:?}");
    // An answer makes room for the next new one.
    world.publish(0, |p| {
        p.opened(token_of(&recovered[0]), 10).image(10, &[(22, 3)]);
    });
    assert_eq!(world.take(1).len(), 1);
    let asked = world.asked();
    assert!(asked.len() == 1 && asked[0].contains("key H"), "{asked:?}");
}
