//! Answers that are owed: whatever a client changes meanwhile, its first image is solicited, a set is solicited in all its
//! parts or in none, and nobody is left on an item that is over.

use crate::world::{World, encode, item, refresh_with, token_of};
use hub_stream::flags;
use rwf::msg::{RefreshFlags, RequestFlags, RequestMsg};
use rwf::rdm::request::{Payload, View};
use rwf::{DataState, DataType, State};

const QUIET: RequestFlags = RequestFlags(RequestFlags::STREAMING.0 | RequestFlags::NO_REFRESH.0);
const PAUSE: RequestFlags = RequestFlags(QUIET.0 | RequestFlags::PAUSE.0);

fn view(fids: &[i16]) -> Vec<u8> {
    let payload = Payload { view: Some(View::Fields(fids.to_vec())), ..Payload::default() };
    encode(|w| payload.encode(w))
}

fn viewed(stream: i32, flags: RequestFlags, body: &[u8]) -> RequestMsg<'_> {
    let flags = flags | RequestFlags::HAS_VIEW;
    RequestMsg { flags, container: DataType::ELEMENT_LIST, body, ..item(stream, "A") }
}

fn part(number: u16, last: bool, value: u64) -> Vec<u8> {
    let flags = if last { RefreshFlags::REFRESH_COMPLETE } else { RefreshFlags::NONE };
    refresh_with(flags, State::OPEN_OK, Some(number), &[(22, value)])
}

#[test]
fn a_first_image_is_solicited_whatever_changed_before_it() {
    let narrow = view(&[22]);
    for step in 0..3 {
        let mut world = World::with_feed();
        world.clients([1]);
        world.request(1, &item(5, "A"));
        let token = world.token();
        world.asked();
        let shown = match step {
            0 => {
                world.request(1, &viewed(5, QUIET, &narrow));
                " 22=1"
            }
            1 => {
                world.request(1, &RequestMsg { flags: PAUSE, ..item(5, "A") });
                world.request(1, &RequestMsg { flags: QUIET, ..item(5, "A") });
                " 22=1 25=2"
            }
            _ => {
                world.request(1, &RequestMsg { flags: PAUSE, ..item(5, "A") });
                " 22=1 25=2"
            }
        };
        assert_eq!(world.asked(), [""; 0]);
        world.publish(0, |p| {
            p.opened(token, 0).image(0, &[(22, 1), (25, 2)]).update(0, &[(22, 3)]);
        });
        let mut expected = vec![format!("refresh 5 solicited complete OPEN/OK group 3 key 1:A{shown}")];
        if step < 2 {
            expected.push("update 5 22=3".to_owned());
        }
        assert_eq!(world.take(1), expected);
        world.asked();
    }
}

#[test]
fn one_that_is_opened_paused_has_its_image_and_rests() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.request(1, &RequestMsg { flags: PAUSE, ..item(5, "A") });
    let token = world.token();
    world.asked();
    world.publish(0, |p| {
        p.opened(token, 0).image(0, &[(22, 1)]).update(0, &[(22, 2)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=1"]);
    world.request(1, &RequestMsg { flags: QUIET, ..item(5, "A") });
    assert_eq!(world.asked(), ["0: reissue 0 with image request 0 [STREAMING] REALTIME/TICK_BY_TICK key A"]);
    world.publish(0, |p| {
        p.answered(0, 1).image(0, &[(22, 3)]).update(0, &[(22, 4)]);
    });
    assert_eq!(
        world.take(1),
        ["refresh 5 clear complete OPEN/OK group 3 key 1:A 22=3", "update 5 22=4"],
        "unsolicited, and in place of what it has: it missed updates"
    );
}

#[test]
fn a_refresh_asked_for_in_an_unsolicited_set_is_answered_by_another() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.open(1, 5, "A", 0);
    world.publish(0, |p| {
        p.part(0, flags::FIRST | flags::UNSOLICITED, &part(0, false, 4));
    });
    world.request(1, &item(5, "A"));
    assert_eq!(world.asked(), ["0: refresh 0"]);
    world.publish(0, |p| {
        p.part(0, flags::COMPLETE | flags::UNSOLICITED, &part(1, true, 5)).image(0, &[(22, 6)]).image(0, &[(22, 7)]);
    });
    assert_eq!(
        world.take(1),
        [
            "refresh 5 part 0 OPEN/OK group 3 key 1:A 22=4",
            "refresh 5 part 1 complete OPEN/OK group 3 key 1:A 22=5",
            "refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=6",
        ]
    );
}

#[test]
fn an_answer_that_a_pause_breaks_off_comes_again() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.request(1, &item(5, "A"));
    let token = world.token();
    world.asked();
    world.publish(0, |p| {
        p.opened(token, 0).part(0, flags::FIRST, &part(0, false, 1));
    });
    world.request(1, &RequestMsg { flags: PAUSE, ..item(5, "A") });
    assert_eq!(world.asked(), ["0: refresh 0", "0: reissue 0 request 0 [STREAMING|PAUSE] REALTIME/TICK_BY_TICK key A"]);
    world.publish(0, |p| {
        p.part(0, flags::COMPLETE, &part(1, true, 2)).image(0, &[(22, 3)]).image(0, &[(22, 4)]);
    });
    assert_eq!(
        world.take(1),
        [
            "refresh 5 solicited part 0 OPEN/OK group 3 key 1:A 22=1",
            "refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=3",
        ]
    );
}

#[test]
fn another_view_is_asked_for_with_an_image_however_it_is_wished() {
    let mut world = World::with_feed();
    world.clients([1]);
    let (bid, ask) = (view(&[22]), view(&[25]));
    world.request(1, &viewed(5, RequestFlags::STREAMING, &bid));
    let token = world.token();
    world.asked();
    world.publish(0, |p| {
        p.opened(token, 0).image(0, &[(22, 1)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=1"]);
    world.request(1, &viewed(5, QUIET, &ask));
    let asked = world.asked();
    assert!(asked.len() == 1 && asked[0].starts_with("0: reissue 0 with image "), "{asked:?}");
    world.publish(0, |p| {
        p.image_with(0, flags::UNSOLICITED, &crate::world::refresh(&[(22, 2)])).answered(0, 1).image(0, &[(25, 3)]);
    });
    assert_eq!(world.take(1), ["refresh 5 clear complete OPEN/OK group 3 key 1:A 25=3"]);
}

#[test]
fn more_is_asked_for_only_with_an_image() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    let bid = view(&[22]);
    world.request(1, &viewed(5, RequestFlags::STREAMING, &bid));
    let token = world.token();
    world.asked();
    world.publish(0, |p| {
        p.opened(token, 0).image(0, &[(22, 1)]);
    });
    world.take(1);
    world.request(1, &viewed(5, RequestFlags::STREAMING, &bid));
    assert_eq!(world.asked(), ["0: refresh 0"]);
    world.request(2, &item(5, "A"));
    assert_eq!(world.asked(), [""; 0], "the answer has to come first");
    let raised = Some(rwf::msg::Priority { class: 5, count: 1 });
    world.request(1, &RequestMsg { priority: raised, ..viewed(5, QUIET, &bid) });
    assert!(world.sent[0].ends_with(&bid), "no more than before");
    let asked = world.asked();
    assert!(asked.len() == 1 && asked[0].starts_with("0: reissue 0 request "), "{asked:?}");
    world.publish(0, |p| {
        p.image(0, &[(22, 2)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=2"]);
    let asked = world.asked();
    assert!(asked.len() == 1 && asked[0].starts_with("0: reissue 0 with image "), "{asked:?}");
    world.publish(0, |p| {
        p.answered(0, 1).image(0, &[(22, 3), (25, 4)]);
    });
    assert_eq!(world.take(2), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=3 25=4"]);
}

#[test]
fn the_wider_image_is_the_one_that_is_said_to_be() {
    // Whatever comes before the answer to the reissue is nothing to who waits for more, and what comes behind it is.
    for bits in [0, flags::UNSOLICITED, flags::RECOVERY] {
        let mut world = World::with_feed();
        world.clients([1, 2]);
        let bid = view(&[22]);
        world.request(1, &viewed(5, RequestFlags::STREAMING, &bid));
        let token = world.token();
        world.asked();
        world.publish(0, |p| {
            p.opened(token, 0).image(0, &[(22, 1)]);
        });
        world.take(1);
        world.request(2, &item(5, "A"));
        assert_eq!(world.asked().len(), 1, "a reissue");
        world.publish(0, |p| {
            p.image_with(0, bits, &crate::world::refresh(&[(22, 2)])).answered(0, 99);
        });
        world.take(1);
        assert_eq!(world.take(2), [""; 0], "it may be as narrow as before");
        assert_eq!(world.asked(), [""; 0]);
        world.publish(0, |p| {
            p.answered(0, 1).image_with(0, bits, &crate::world::refresh(&[(22, 3), (25, 4)]));
        });
        world.take(1);
        assert_eq!(world.take(2), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=3 25=4"]);
    }
}

#[test]
fn who_comes_while_more_is_asked_for_waits_for_it_as_well() {
    let mut world = World::with_feed();
    world.clients([1, 2, 3, 4]);
    let (bid, ask) = (view(&[22]), view(&[25]));
    world.request(1, &viewed(5, RequestFlags::STREAMING, &bid));
    let token = world.token();
    world.asked();
    world.publish(0, |p| {
        p.opened(token, 0).image(0, &[(22, 1)]);
    });
    world.take(1);
    world.request(2, &item(5, "A"));
    assert_eq!(world.asked().len(), 1, "a reissue");
    world.request(3, &viewed(5, RequestFlags::STREAMING, &ask));
    world.request(4, &viewed(5, RequestFlags::STREAMING, &bid));
    assert_eq!(world.asked(), [""; 0], "everything is on its way");
    world.publish(0, |p| {
        p.image_with(0, flags::UNSOLICITED, &crate::world::refresh(&[(22, 2)]));
    });
    assert_eq!(world.take(1), ["refresh 5 complete OPEN/OK group 3 key 1:A 22=2"]);
    assert_eq!(world.take(3), [""; 0], "this is as narrow as before");
    assert_eq!(world.take(4), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=2"]);
    world.publish(0, |p| {
        p.answered(0, 1).image(0, &[(22, 3), (25, 4)]);
    });
    assert_eq!(world.take(2), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=3 25=4"]);
    assert_eq!(world.take(3), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 25=4"]);
}

#[test]
fn who_wants_back_what_is_just_given_up_asks_for_it_again() {
    let mut world = World::with_feed();
    world.clients([1]);
    let (both, last, bid) = (view(&[22, 25]), view(&[30]), view(&[22]));
    world.request(1, &viewed(5, RequestFlags::STREAMING, &both));
    let token = world.token();
    world.asked();
    world.publish(0, |p| {
        p.opened(token, 0).image(0, &[(22, 1), (25, 1)]);
    });
    world.take(1);
    world.request(1, &viewed(5, RequestFlags::STREAMING, &last));
    assert_eq!(world.asked().len(), 1, "a reissue for 30 alone");
    world.request(1, &viewed(5, RequestFlags::STREAMING, &bid));
    world.asked();
    world.publish(0, |p| {
        p.answered(0, 1).image(0, &[(30, 2)]);
    });
    assert_eq!(world.take(1), [""; 0], "that is not what it wants now");
    let asked = world.asked();
    assert!(asked.iter().any(|words| words.starts_with("0: reissue 0 with image ")), "{asked:?}");
    world.publish(0, |p| {
        p.answered(0, 2).image(0, &[(22, 3)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=3"]);
}

#[test]
fn an_answer_that_came_while_paused_does_not_go_on_after_it() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.open(1, 5, "A", 0);
    let pause = RequestFlags(RequestFlags::STREAMING.0 | RequestFlags::PAUSE.0);
    world.request(1, &RequestMsg { flags: pause, ..item(5, "A") });
    world.publish(0, |p| {
        p.part(0, flags::FIRST, &part(0, false, 1)).update(0, &[(22, 9)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited part 0 OPEN/OK group 3 key 1:A 22=1"]);
    assert_eq!(world.asked(), ["0: refresh 0", "0: reissue 0 request 0 [STREAMING|PAUSE] REALTIME/TICK_BY_TICK key A"]);
    world.request(1, &RequestMsg { flags: QUIET, ..item(5, "A") });
    assert!(world.asked().is_empty(), "one image at a time");
    world.publish(0, |p| {
        p.part(0, flags::COMPLETE, &part(1, true, 2)).update(0, &[(22, 10)]);
    });
    assert_eq!(world.asked(), ["0: reissue 0 with image request 0 [STREAMING] REALTIME/TICK_BY_TICK key A"]);
    world.publish(0, |p| {
        p.answered(0, 1);
        p.part(0, flags::FIRST, &part(0, false, 3)).part(0, flags::COMPLETE, &part(1, true, 4)).update(0, &[(22, 11)]);
    });
    assert_eq!(
        world.take(1),
        [
            "refresh 5 solicited part 0 OPEN/OK group 3 key 1:A 22=3",
            "refresh 5 solicited part 1 complete OPEN/OK group 3 key 1:A 22=4",
            "update 5 22=11",
        ],
        "it has missed an update between the parts"
    );
}

#[test]
fn a_set_that_is_broken_off_is_replaced_by_the_next() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(1, 5, "A", 0);
    world.publish(0, |p| {
        p.part(0, flags::FIRST | flags::UNSOLICITED, &part(0, false, 1));
    });
    world.request(2, &item(5, "A"));
    world.asked();
    world.publish(0, |p| {
        p.image(0, &[(22, 3)]);
    });
    assert_eq!(
        world.take(1),
        ["refresh 5 part 0 OPEN/OK group 3 key 1:A 22=1", "refresh 5 clear complete OPEN/OK group 3 key 1:A 22=3"]
    );
    assert_eq!(world.take(2), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=3"]);
}

#[test]
fn one_that_rests_while_its_item_ends_opens_it_anew_when_resumed() {
    let mut world = World::with_feed();
    world.clients([1, 2, 3]);
    world.open(1, 5, "A", 0);
    world.open(3, 5, "B", 1);
    world.request(1, &RequestMsg { flags: PAUSE, ..item(5, "A") });
    assert_eq!(world.asked(), ["0: reissue 0 request 0 [STREAMING|PAUSE] REALTIME/TICK_BY_TICK key A"]);
    world.request(2, &item(5, "A"));
    assert_eq!(world.asked(), ["0: reissue 0 with image request 0 [STREAMING] REALTIME/TICK_BY_TICK key A"]);
    world.publish(0, |p| {
        p.answered(0, 1).image_with(0, flags::SNAPSHOT, &crate::world::refresh(&[(22, 1)]));
    });
    assert_eq!(world.take(2), ["refresh 5 solicited complete NON_STREAMING/OK group 3 key 1:A 22=1"]);
    assert_eq!(world.asked(), ["0: close 0"], "and nothing is opened for one that rests");
    world.request(1, &item(5, "A"));
    let asked = world.asked();
    assert_eq!(asked.len(), 1);
    world.publish(0, |p| {
        p.opened(token_of(&asked[0]), 4).image_with(4, flags::SNAPSHOT, &crate::world::refresh(&[(22, 2)]));
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete NON_STREAMING/OK group 3 key 1:A 22=2"]);
    assert_eq!(world.asked(), ["0: close 4"]);
    assert_eq!(world.p2ps.counters().items, 1);
}

#[test]
fn the_last_image_of_an_item_ends_all_its_streams() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(1, 5, "A", 0);
    world.request(2, &item(5, "A"));
    world.asked();
    world.publish(0, |p| {
        p.image_with(0, flags::SNAPSHOT, &crate::world::refresh(&[(22, 1)]));
    });
    assert_eq!(world.take(1), ["refresh 5 complete NON_STREAMING/OK group 3 key 1:A 22=1"]);
    assert_eq!(world.take(2), ["refresh 5 solicited complete NON_STREAMING/OK group 3 key 1:A 22=1"]);
    assert_eq!(world.asked(), ["0: close 0"]);
    assert_eq!(world.p2ps.counters().items, 0);
}

#[test]
fn one_that_joins_in_the_last_set_of_an_item_opens_it_anew() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.request(1, &item(5, "A"));
    let token = world.token();
    world.asked();
    world.publish(0, |p| {
        p.opened(token, 0).part(0, flags::COMPLETE | flags::SNAPSHOT, &part(1, true, 1));
    });
    let asked = world.asked();
    assert!(asked.len() == 2 && asked[0] == "0: close 0", "{asked:?}");
    world.publish(0, |p| {
        p.opened(token_of(&asked[1]), 1).image_with(1, flags::SNAPSHOT, &crate::world::refresh(&[(22, 1)]));
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete NON_STREAMING/OK group 3 key 1:A 22=1"]);
    assert_eq!(world.asked(), ["0: close 1"]);
}

#[test]
fn a_snapshot_that_wants_more_than_the_one_under_way_is_opened_anew() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    let narrow = view(&[22]);
    world.request(1, &viewed(5, RequestFlags::NONE, &narrow));
    let token = world.token();
    world.asked();
    world.request(2, &RequestMsg { flags: RequestFlags::NONE, ..item(5, "A") });
    assert_eq!(world.asked(), [""; 0], "the answer has to come first");
    world.publish(0, |p| {
        p.opened(token, 0).image_with(0, flags::SNAPSHOT, &crate::world::refresh(&[(22, 1)]));
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete NON_STREAMING/OK group 3 key 1:A 22=1"]);
    let asked = world.asked();
    assert!(asked.len() == 2 && asked[0] == "0: close 0" && asked[1].contains(" 40 snapshot "), "{asked:?}");
    world.publish(0, |p| {
        p.opened(token_of(&asked[1]), 1).image_with(1, flags::SNAPSHOT, &crate::world::refresh(&[(22, 1), (25, 2)]));
    });
    assert_eq!(world.take(2), ["refresh 5 solicited complete NON_STREAMING/OK group 3 key 1:A 22=1 25=2"]);
    assert_eq!(world.asked(), ["0: close 1"]);
}

#[test]
fn who_was_told_by_the_end_of_a_set_gets_the_image_that_is_good_again() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.open(1, 5, "A", 0);
    world.request(1, &item(5, "A"));
    world.asked();
    let suspect = State { data: DataState::SUSPECT, ..State::OPEN_OK };
    let part = |state, number| refresh_with(RefreshFlags::SOLICITED, state, Some(number), &[(22, 2)]);
    world.publish(0, |p| {
        p.part(0, flags::FIRST, &part(State::OPEN_OK, 0)).part(0, flags::COMPLETE, &part(suspect, 1));
    });
    assert_eq!(world.take(1).len(), 2);
    world.publish(0, |p| {
        p.image(0, &[(22, 3)]);
    });
    assert_eq!(world.take(1), ["refresh 5 clear complete OPEN/OK group 3 key 1:A 22=3"]);
}
