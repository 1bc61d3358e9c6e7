//! Hot standby: each item is open at two providers, one of which is used, and the other one takes over.

use crate::world::*;
use hub_content::cache::rules::CacheRules;
use hub_distributor::{Balance, Config, Notice, RouteConfig};
use hub_stream::{Kind, flags};
use rwf::msg::{Domain, Msg, RefreshFlags, RefreshMsg, StatusMsg, UpdateMsg};
use rwf::rdm::directory::Group;
use rwf::rdm::directory::{Load, Part};
use rwf::{DataState, DataType, StateCode, StreamState};

const WHOLE: RefreshFlags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);
/// Seconds after which items go back.
pub(crate) const DECISION: u64 = 10;
/// Seconds after which mirrors are looked for again.
const AGAIN: u64 = 60;

/// P2PS 1, and providers 0 and 1 of FEED in this order.
pub(crate) fn world(sequence_numbers: bool, change: impl FnOnce(&mut Config)) -> World {
    let failback = DECISION * SECOND;
    let mut config = Config { balance: Balance::Hot, failback, sequence_numbers, ..Config::default() };
    change(&mut config);
    let mut world = World::new(config);
    world.p2ps_up(1);
    for id in [0, 1] {
        come(&mut world, id);
    }
    world
}

pub(crate) fn come(world: &mut World, id: u32) {
    world.route_up(id);
    world.directory(id, vec![service(7, "FEED")]);
    world.turn();
    world.events();
    world.sent(id);
}

pub(crate) fn image(world: &mut World, id: u32, stream: i32, number: u32, value: &[u8]) {
    world.refresh_with(id, &[(22, value)], |msg: &mut RefreshMsg<'_>| {
        (msg.stream_id, msg.flags, msg.seq_num) = (stream, WHOLE, Some(number));
    });
    world.turn();
}

pub(crate) fn update(world: &mut World, id: u32, stream: i32, number: u32) {
    let value = number.to_string();
    let body = field_list(&[(22, value.as_bytes())]);
    let msg = UpdateMsg {
        container: DataType::FIELD_LIST,
        seq_num: Some(number),
        body: &body,
        ..UpdateMsg::new(Domain::MARKET_PRICE, stream)
    };
    world.message(id, |w| msg.encode(w));
}

/// An item that is open at both providers, with image 10: its handle, and its streams.
pub(crate) fn mirrored(world: &mut World, name: &str) -> (u32, i32, i32) {
    mirrored_at(world, name, 0, 1)
}

pub(crate) fn mirrored_at(world: &mut World, name: &str, used: u32, standby: u32) -> (u32, i32, i32) {
    let handle = world.open(1, name);
    let at_used = world.requests(used).last().expect("a request").0;
    assert!(world.requests(standby).is_empty(), "what is not open yet is asked for at one provider");
    image(world, used, at_used, 10, b"10");
    let requests = world.requests(standby);
    assert_eq!((requests.len(), requests[0].1.as_str()), (1, name));
    image(world, standby, requests[0].0, 10, b"10");
    assert_eq!(world.kinds(), [Kind::Image], "of the two images one goes on");
    (handle, at_used, requests[0].0)
}

/// What goes on of updates: their numbers.
pub(crate) fn numbers(world: &mut World) -> Vec<u32> {
    let events = world.events();
    let updates = events.iter().filter(|event| event.kind == Kind::Update);
    let number = |event: &Ev| match Msg::decode(&event.body).unwrap() {
        Msg::Update(update) => update.seq_num.unwrap(),
        other => panic!("{other:?}"),
    };
    let numbers = updates.map(number).collect();
    let says_suspect = |event: &Ev| match event.kind {
        Kind::ItemStatus => matches!(Msg::decode(&event.body).unwrap(), Msg::Status(StatusMsg { state: Some(_), .. })),
        Kind::ServiceStatus => true,
        _ => false,
    };
    assert!(!events.iter().any(says_suspect), "nobody hears of a loss: {events:?}");
    numbers
}

fn taken_over(world: &mut World) -> Vec<(usize, usize)> {
    let notices = world.sd.notices().filter_map(|notice| match notice {
        Notice::ItemsTakenOver { items, in_sequence, .. } => Some((items, in_sequence)),
        _ => None,
    });
    notices.collect()
}

#[test]
fn a_takeover_loses_no_update_and_repeats_none_where_numbers_agree() {
    let mut world = world(true, |_| {});
    let (handle, used, standby) = mirrored(&mut world, "A");
    for number in 11..=13 {
        update(&mut world, 0, used, number);
    }
    for number in 11..=16 {
        update(&mut world, 1, standby, number);
    }
    assert_eq!(numbers(&mut world), [11, 12, 13]);
    world.down(0);
    assert_eq!(numbers(&mut world), [14, 15, 16], "at once, what the other had not sent");
    assert!(world.requests(1).is_empty(), "and no image is asked for");
    update(&mut world, 1, standby, 17);
    assert_eq!(numbers(&mut world), [17]);
    assert_eq!(taken_over(&mut world), [(1, 1)]);
    world.close(1, handle);
    assert_eq!(world.closes(1), [standby]);
}

#[test]
fn a_standby_that_is_behind_sends_nothing_twice() {
    let mut world = world(true, |_| {});
    let (_, used, standby) = mirrored(&mut world, "A");
    for number in 11..=15 {
        update(&mut world, 0, used, number);
    }
    update(&mut world, 1, standby, 11);
    world.events();
    world.down(0);
    for number in 12..=17 {
        update(&mut world, 1, standby, number);
    }
    assert_eq!(numbers(&mut world), [16, 17]);
    assert_eq!(world.sd.counters().dropped_repeats, 4);
}

/// The streams on which the standby was asked for images.
fn asked(world: &mut World) -> Vec<i32> {
    world.requests(1).into_iter().map(|(stream, ..)| stream).collect()
}

/// A standby that is behind what was passed on has taken over, and another P2PS waits for an image; the standby's stream.
fn asked_while_behind(world: &mut World) -> i32 {
    let (_, used, standby) = mirrored(world, "A");
    for number in 11..=15 {
        update(world, 0, used, number);
    }
    update(world, 1, standby, 11);
    world.events();
    world.down(0);
    world.p2ps_up(2);
    world.open(2, "A");
    world.turn();
    assert_eq!(asked(world), [standby]);
    world.events();
    standby
}

#[test]
fn an_image_of_a_standby_that_is_behind_waits_until_it_has_caught_up() {
    let mut world = world(true, |_| {});
    let standby = asked_while_behind(&mut world);
    image(&mut world, 1, standby, 12, b"12");
    update(&mut world, 1, standby, 13);
    update(&mut world, 1, standby, 14);
    assert!(world.events().is_empty(), "those who watch have had 15");
    assert!(world.requests(1).is_empty(), "it is behind still");
    update(&mut world, 1, standby, 15);
    world.turn();
    assert!(world.events().is_empty());
    assert_eq!(asked(&mut world), [standby], "it has caught up");
    image(&mut world, 1, standby, 15, b"15");
    assert_eq!(world.kinds(), [Kind::Image]);
    update(&mut world, 1, standby, 16);
    assert_eq!(numbers(&mut world), [16]);
    assert_eq!(world.sd.counters().images_held_back, 1);
}

#[test]
fn an_image_of_a_standby_that_stays_behind_goes_on_in_the_end() {
    let mut world = world(true, |_| {});
    let standby = asked_while_behind(&mut world);
    for _ in 0..3 {
        image(&mut world, 1, standby, 12, b"12");
        assert!(world.events().is_empty());
        world.pass(16);
        assert_eq!(asked(&mut world), [standby], "it is asked for again");
        world.events();
    }
    image(&mut world, 1, standby, 12, b"12");
    assert_eq!(world.kinds(), [Kind::Image], "who waits gets what there is");
    update(&mut world, 1, standby, 13);
    assert_eq!(numbers(&mut world), [13]);
}

#[test]
fn without_agreed_numbers_there_is_one_image_and_no_word_of_a_loss() {
    let mut world = world(false, |_| {});
    let (handle, used, standby) = mirrored(&mut world, "A");
    update(&mut world, 0, used, 11);
    update(&mut world, 1, standby, 12);
    assert_eq!(numbers(&mut world), [11]);
    world.down(0);
    assert_eq!(
        world.requests(1).iter().map(|r| r.0).collect::<Vec<_>>(),
        [standby],
        "another image of the open stream"
    );
    update(&mut world, 1, standby, 13);
    assert_eq!(numbers(&mut world), [], "nothing before the image");
    image(&mut world, 1, standby, 13, b"13");
    let events = world.events();
    assert_eq!(events.len(), 1);
    assert!(events[0].handle == handle && events[0].has(flags::RECOVERY) && events[0].has(flags::CLEAR_CACHE));
    update(&mut world, 1, standby, 14);
    assert_eq!(numbers(&mut world), [14]);
    assert_eq!(taken_over(&mut world), [(1, 0)]);
}

#[test]
fn numbers_that_do_not_reach_back_cost_an_image() {
    let mut world = world(true, |_| {});
    let (_, used, standby) = mirrored(&mut world, "A");
    update(&mut world, 0, used, 11);
    // The standby's image is of later, and the update between is nowhere.
    image(&mut world, 1, standby, 13, b"13");
    world.events();
    world.down(0);
    assert_eq!(world.requests(1).len(), 1);
    image(&mut world, 1, standby, 13, b"13");
    assert_eq!(world.kinds(), [Kind::Image]);
}

#[test]
fn an_image_that_does_not_come_after_a_takeover_is_told() {
    let mut world = world(false, |_| {});
    let (handle, ..) = mirrored(&mut world, "A");
    world.down(0);
    assert!(world.events().is_empty());
    world.pass(16);
    let events = world.events();
    let status = events.iter().find(|e| e.kind == Kind::ItemStatus && !e.has(flags::WAITING_ONLY)).expect("a status");
    assert!(status.handle == handle && status.state().data == DataState::SUSPECT);
    world.down(1);
    world.events();
    come(&mut world, 1);
    assert_eq!(world.sd.service_overview().next().expect("FEED").lost, 1);
}

#[test]
fn a_standby_lost_before_its_image_is_told_as_a_loss() {
    let mut world = world(false, |_| {});
    mirrored(&mut world, "A");
    world.down(0);
    assert!(world.events().is_empty());
    world.down(1);
    let events = world.events();
    assert!(events.iter().any(|e| e.kind == Kind::ItemStatus && e.state().data == DataState::SUSPECT), "{events:?}");
}

#[test]
fn a_standby_without_the_item_is_no_standby() {
    let mut world = world(true, |_| {});
    let (handle, _, standby) = mirrored(&mut world, "A");
    world.status(1, standby, state(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE));
    assert!(world.events().is_empty(), "what the standby says of itself goes to nobody");
    world.down(0);
    let kinds = world.kinds();
    assert!(kinds.contains(&Kind::ServiceStatus) || kinds.contains(&Kind::ItemStatus), "a loss: {kinds:?}");
    let requests = world.requests(1);
    assert_eq!(requests.len(), 1, "and asked for as after any loss");
    assert_ne!(requests[0].0, standby);
    image(&mut world, 1, requests[0].0, 20, b"20");
    assert!(world.events().iter().any(|e| e.kind == Kind::Image && e.handle == handle));
}

#[test]
fn the_group_of_the_new_provider_counts() {
    let mut world = world(true, |_| {});
    let (handle, ..) = mirrored(&mut world, "A");
    world.down(0);
    let events = world.events();
    let regrouped: Vec<&Ev> = events.iter().filter(|event| event.kind == Kind::ItemStatus).collect();
    assert_eq!(regrouped.len(), 1, "{events:?}");
    assert_eq!(regrouped[0].handle, handle);
    let group = regrouped[0].arg;
    let suspect = state(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE);
    let mut entry = state_update(7, true, true);
    entry.groups.push(Part::Update(Group { group: vec![0, 0], merged_to: None, status: Some(suspect.into()) }));
    world.directory_update(1, vec![entry]);
    let events = world.events();
    let status = events.iter().find(|event| event.kind == Kind::GroupStatus).expect("a status of the group");
    assert_eq!(status.handle, group);
}

#[test]
fn a_group_that_is_suspect_at_the_standby_does_not_take_over() {
    let mut world = world(true, |_| {});
    mirrored(&mut world, "A");
    let suspect = state(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE);
    let mut entry = state_update(7, true, true);
    entry.groups.push(Part::Update(Group { group: vec![0, 0], merged_to: None, status: Some(suspect.into()) }));
    world.directory_update(1, vec![entry.clone()]);
    world.events();
    world.down(0);
    assert_eq!(world.requests(1).len(), 1, "asked for anew, as after any loss");
    assert_eq!(taken_over(&mut world), []);
}

#[test]
fn a_service_that_goes_down_is_taken_over_and_closed() {
    let mut world = world(true, |_| {});
    let (_, used, standby) = mirrored(&mut world, "A");
    update(&mut world, 1, standby, 11);
    world.events();
    world.directory_update(0, vec![state_update(7, false, true)]);
    assert_eq!(numbers(&mut world), [11]);
    assert_eq!(world.closes(0), [used]);
}

#[test]
fn an_item_that_one_provider_closes_for_recovery_goes_on_at_the_other() {
    let mut world = world(true, |_| {});
    let (_, used, standby) = mirrored(&mut world, "A");
    update(&mut world, 1, standby, 11);
    world.status(0, used, state(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE));
    assert_eq!(numbers(&mut world), [11]);
    world.pass(1);
    let requests = world.requests(0);
    assert_eq!(requests.len(), 1, "and is asked for there as the mirror of the other");
    image(&mut world, 0, requests[0].0, 11, b"11");
    update(&mut world, 0, requests[0].0, 12);
    world.down(1);
    assert_eq!(numbers(&mut world), [12]);
}

#[test]
fn items_go_back_without_a_word_when_the_first_is_there_for_long_enough() {
    let mut world = world(true, |_| {});
    let (_, _, standby) = mirrored(&mut world, "A");
    world.down(0);
    world.events();
    come(&mut world, 0);
    world.pass(0);
    // Sent away by `come`: the request of the mirror.
    let there = 5;
    image(&mut world, 0, there, 20, b"20");
    update(&mut world, 1, standby, 21);
    assert_eq!(numbers(&mut world), [21]);
    update(&mut world, 0, there, 21);
    update(&mut world, 0, there, 22);
    world.pass(DECISION + 1);
    assert_eq!(numbers(&mut world), [22], "of the first provider from now on");
    assert!(world.closes(1).is_empty(), "the other one stands by");
    update(&mut world, 1, standby, 22);
    update(&mut world, 1, standby, 23);
    assert_eq!(numbers(&mut world), []);
    world.down(0);
    assert_eq!(numbers(&mut world), [23]);
}

#[test]
fn a_switch_by_hand_swaps_the_two() {
    let mut world = world(true, |_| {});
    let (_, used, standby) = mirrored(&mut world, "A");
    update(&mut world, 0, used, 11);
    update(&mut world, 1, standby, 11);
    let items = world.sd.switch_provider(world.now, "FEED", Some("provider1:14002"), &mut world.sent).unwrap();
    assert_eq!(items, 1);
    update(&mut world, 0, used, 12);
    update(&mut world, 1, standby, 12);
    assert_eq!(numbers(&mut world), [11, 12]);
    assert!(world.closes(0).is_empty() && world.requests(1).is_empty());
    world.sd.switch_provider(world.now, "FEED", None, &mut world.sent).unwrap();
    update(&mut world, 1, standby, 13);
    update(&mut world, 0, used, 13);
    assert_eq!(numbers(&mut world), [13]);
}

#[test]
fn a_standby_that_comes_later_is_asked_for_everything() {
    let mut world = world(true, |config| config.work_per_turn = 2);
    world.down(1);
    world.events();
    for n in 0..7 {
        world.open_imaged(1, &format!("ITEM{n}"));
    }
    world.route_up(1);
    world.directory(1, vec![service(7, "FEED")]);
    world.turn();
    world.events();
    let items = world.requests(1).into_iter().filter(|(_, name, _)| name.starts_with("ITEM"));
    assert_eq!(items.count(), 7);
}

#[test]
fn the_window_of_the_standby_is_kept() {
    let mut world = world(true, |_| {});
    let load = Load { open_window: Some(1), ..Load::default() };
    world.directory_update(1, vec![with_load(state_update(7, true, true), load)]);
    for n in 0..3 {
        world.open_imaged(1, &format!("ITEM{n}"));
        world.turn();
    }
    for _ in 0..3 {
        let requests = world.requests(1);
        assert_eq!(requests.len(), 1, "one at a time");
        image(&mut world, 1, requests[0].0, 1, b"1");
    }
    world.events();
    assert!(world.requests(1).is_empty());
}

#[test]
fn a_mirror_that_is_not_answered_or_closed_is_asked_for_again() {
    let mut world = world(true, |_| {});
    world.open_imaged(1, "A");
    world.turn();
    let first = world.requests(1)[0].0;
    world.pass(AGAIN + 1);
    let sent = world.sent(1);
    let classes: Vec<bool> = sent.iter().map(|m| matches!(Msg::decode(m).unwrap(), Msg::Close(_))).collect();
    assert_eq!(classes, [true, false], "closed, and asked for on another stream");
    let Msg::Request(request) = Msg::decode(&sent[1]).unwrap() else { panic!() };
    assert_ne!(request.stream_id, first);
    world.status(1, request.stream_id, state(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND));
    assert!(world.events().iter().all(|event| event.kind != Kind::ItemStatus), "no matter to those who watch");
    world.pass(AGAIN + 1);
    assert_eq!(world.requests(1).len(), 1);
}

#[test]
fn a_standby_that_leaves_changes_nothing() {
    let mut world = world(true, |_| {});
    let (_, used, _) = mirrored(&mut world, "A");
    world.down(1);
    update(&mut world, 0, used, 11);
    assert_eq!(numbers(&mut world), [11]);
    assert_eq!(world.sd.session_overview().map(|session| session.services[0].open).sum::<u32>(), 1);
}

#[test]
fn instances_and_what_ends_have_no_mirror() {
    let mut world = world(true, |_| {});
    world.open_with(1, "S", flags::SNAPSHOT_ONLY);
    world.open_with(1, "P", flags::STREAMING | flags::PRIVATE);
    world.events();
    for (stream, ..) in world.requests(0) {
        world.refresh(0, stream, &[(22, b"1")], WHOLE);
    }
    world.turn();
    assert!(world.requests(1).is_empty());
    let (_, used, standby) = mirrored(&mut world, "A");
    world.status(0, used, state(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND));
    assert_eq!(world.closes(1), [standby], "the end of the item is the end of its mirror");
    world.events();
}

#[test]
fn a_cached_image_is_kept_up_over_a_takeover() {
    let mut world = world(true, |config| config.cache = CacheRules::everything());
    world.p2ps_up(2);
    let (_, used, standby) = mirrored(&mut world, "A");
    update(&mut world, 0, used, 11);
    update(&mut world, 1, standby, 11);
    update(&mut world, 1, standby, 12);
    world.down(0);
    assert_eq!(numbers(&mut world), [11, 12]);
    world.open_with(2, "A", flags::STREAMING);
    let events = world.events();
    let image = events.iter().find(|event| event.kind == Kind::Image).expect("out of the cache").image();
    assert_eq!(fields_of(image.body), [(22, b"12".to_vec())]);
    assert!(world.requests(1).is_empty());
}

#[test]
fn routes_stand_by_for_each_other_in_pairs() {
    let named = |id: &str| RouteConfig { server_id: id.to_owned(), ..RouteConfig::default() };
    let mut world = world(true, |config| {
        config.routes = ["a1", "b1", "a2"].map(named).to_vec();
        config.standby_pairs = vec![vec!["a1".to_owned(), "a2".to_owned()]];
    });
    world.open(1, "A");
    let at_used = world.requests(0).last().expect("a request").0;
    image(&mut world, 0, at_used, 10, b"10");
    assert!(world.requests(1).is_empty(), "it is of no pair");
    come(&mut world, 2);
    world.pass(AGAIN + 1);
    assert!(world.requests(1).is_empty());
    let requests = world.requests(2);
    assert_eq!(requests.len(), 1, "the other of its pair");
    image(&mut world, 2, requests[0].0, 10, b"10");
    world.events();
    world.down(0);
    update(&mut world, 2, requests[0].0, 11);
    assert_eq!(numbers(&mut world), [11]);
    // By its server id as by its address.
    let mut out = std::mem::take(&mut world.sent);
    assert_eq!(world.sd.switch_provider(world.now, "FEED", Some("b1"), &mut out), Ok(1));
    world.sent = out;
}
