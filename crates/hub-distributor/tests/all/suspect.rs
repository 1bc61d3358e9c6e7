//! Hot standby: the standby takes items over that their provider says Suspect of, and that it has good itself.

use crate::hot_standby::{DECISION, come, image, mirrored, mirrored_at, numbers, update, world};
use crate::world::*;
use hub_distributor::Notice;
use hub_stream::{Kind, flags};
use rwf::msg::{Msg, RefreshFlags, StatusMsg};
use rwf::rdm::directory::{Group, Part, ServiceState};
use rwf::{DataState, State, StateCode, StreamState};

const SUSPECT: State<'static> = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "line is cut");
const OK: State<'static> = State::new(StreamState::OPEN, DataState::OK, StateCode::NONE, "");

/// What the log says of items that went over: from whom, to whom, how many, of these in sequence, whether back.
fn swaps(world: &mut World) -> Vec<(String, String, usize, usize, bool)> {
    let short = |address: String| address.split(':').next().expect("an address").to_owned();
    let notices = world.sd.notices().filter_map(|notice| match notice {
        Notice::SuspectItems { from, to, items, in_sequence, returns, .. } => {
            Some((short(from), short(to), items, in_sequence, returns))
        }
        _ => None,
    });
    notices.collect()
}

fn swap(from: u32, to: u32, items: usize, in_sequence: usize, returns: bool) -> (String, String, usize, usize, bool) {
    (format!("provider{from}"), format!("provider{to}"), items, in_sequence, returns)
}

/// The data states that those who watch an item are told.
fn told(world: &mut World, handle: u32) -> Vec<DataState> {
    let states = world.events().into_iter().filter(|event| event.handle == handle || event.kind == Kind::ServiceStatus);
    let state = |event: Ev| match event.kind {
        Kind::ItemStatus => match Msg::decode(&event.body).unwrap() {
            Msg::Status(StatusMsg { state: Some(state), .. }) => Some(state.data),
            _ => None,
        },
        Kind::Image => Some(event.image().state.data),
        Kind::ServiceStatus => Some(event.short_state().1),
        _ => None,
    };
    states.filter_map(state).collect()
}

fn group_says(world: &mut World, id: u32, group: u8, state: State<'_>) {
    let mut entry = state_update(7, true, true);
    entry.groups.push(Part::Update(Group { group: vec![0, group], merged_to: None, status: Some(state.into()) }));
    world.directory_update(id, vec![entry]);
}

fn service_says(world: &mut World, id: u32, state: State<'_>) {
    let mut entry = state_update(7, true, true);
    let said = ServiceState { up: true, accepting_requests: Some(true), status: Some(state.into()) };
    entry.state = Some(Part::Update(said));
    world.directory_update(id, vec![entry]);
}

#[test]
fn an_item_that_is_suspect_goes_on_at_the_standby_without_a_word() {
    let mut world = world(true, |_| {});
    let (handle, used, standby) = mirrored(&mut world, "A");
    update(&mut world, 0, used, 11);
    for number in 11..=13 {
        update(&mut world, 1, standby, number);
    }
    assert_eq!(numbers(&mut world), [11]);
    world.status(0, used, SUSPECT);
    assert_eq!(numbers(&mut world), [12, 13], "at once, what the other had not sent, and no status");
    update(&mut world, 0, used, 12);
    update(&mut world, 1, standby, 14);
    assert_eq!(numbers(&mut world), [14], "of the standby from now on");
    assert!(world.closes(0).is_empty() && world.requests(1).is_empty(), "nothing is closed, no image is asked for");
    assert_eq!(world.sd.counters().suspect_takeovers, 1);
    // And back, when that one says Suspect of it and the other has it good.
    world.status(1, standby, SUSPECT);
    assert_eq!(told(&mut world, handle), [DataState::SUSPECT], "neither has it good");
    world.status(0, used, OK);
    assert_eq!(world.requests(0).iter().map(|r| r.0).collect::<Vec<_>>(), [used], "an image on the open stream");
    update(&mut world, 1, standby, 15);
    image(&mut world, 0, used, 15, b"15");
    assert_eq!(told(&mut world, handle), [DataState::OK]);
    update(&mut world, 0, used, 16);
    assert_eq!(numbers(&mut world), [16]);
}

#[test]
fn without_agreed_numbers_there_is_one_image() {
    let mut world = world(false, |_| {});
    let (handle, used, standby) = mirrored(&mut world, "A");
    world.status(0, used, SUSPECT);
    assert_eq!(world.requests(1).iter().map(|r| r.0).collect::<Vec<_>>(), [standby]);
    update(&mut world, 0, used, 11);
    update(&mut world, 1, standby, 11);
    assert!(world.events().is_empty(), "nothing before the image, and no word of a loss");
    image(&mut world, 1, standby, 12, b"12");
    let events = world.events();
    assert!(events.len() == 1 && events[0].handle == handle && events[0].has(flags::RECOVERY), "{events:?}");
    update(&mut world, 1, standby, 13);
    assert_eq!(numbers(&mut world), [13]);
}

#[test]
fn an_image_that_is_suspect_is_left_too() {
    let mut world = world(true, |_| {});
    let (handle, used, standby) = mirrored(&mut world, "A");
    update(&mut world, 1, standby, 11);
    world.refresh_with(0, &[(22, b"0")], |msg| {
        (msg.stream_id, msg.flags, msg.state) = (used, RefreshFlags::REFRESH_COMPLETE, SUSPECT);
    });
    assert_eq!(numbers(&mut world), [11], "and not the image");
    world.status(1, standby, SUSPECT);
    assert_eq!(told(&mut world, handle), [DataState::SUSPECT], "the other one has it Suspect since that image");
}

#[test]
fn a_suspect_item_goes_over_when_the_standby_has_it_good() {
    let mut world = world(true, |_| {});
    let handle = world.open(1, "A");
    let used = world.requests(0)[0].0;
    world.refresh_with(0, &[(22, b"0")], |msg| (msg.stream_id, msg.state) = (used, SUSPECT));
    assert_eq!(told(&mut world, handle), [DataState::SUSPECT]);
    world.turn();
    let standby = world.requests(1)[0].0;
    image(&mut world, 1, standby, 10, b"10");
    assert_eq!(world.requests(1).len(), 1, "the one image for those who watch");
    image(&mut world, 1, standby, 11, b"11");
    assert_eq!(told(&mut world, handle), [DataState::OK]);
    world.pass(2);
    assert_eq!(swaps(&mut world), [swap(0, 1, 1, 0, false)]);
}

#[test]
fn a_group_that_is_suspect_goes_over_alone() {
    let mut world = world(true, |_| {});
    let (a, used, _) = mirrored(&mut world, "A");
    let (b, ..) = mirrored(&mut world, "B");
    world.refresh_with(0, &[(22, b"0")], |msg| {
        (msg.stream_id, msg.flags, msg.group_id, msg.seq_num) =
            (used, RefreshFlags::REFRESH_COMPLETE, &[0, 1], Some(10));
    });
    world.events();
    group_says(&mut world, 0, 1, SUSPECT);
    assert!(told(&mut world, a).is_empty());
    world.pass(2);
    assert_eq!(swaps(&mut world), [swap(0, 1, 1, 1, false)]);
    assert!(told(&mut world, b).is_empty());
    let open = |world: &World| -> Vec<u32> { world.sd.session_overview().map(|s| s.services[0].open).collect() };
    assert_eq!(open(&world), [2, 2], "each has both, one as a standby");
    // The member that has stayed is told of its own group; the one that has left is not.
    group_says(&mut world, 0, 0, SUSPECT);
    world.pass(2);
    assert_eq!(swaps(&mut world), [swap(0, 1, 1, 1, false)]);
    assert!(told(&mut world, b).is_empty());
}

#[test]
fn a_service_that_is_suspect_goes_over_and_what_the_standby_lacks_is_told() {
    let mut world = world(true, |_| {});
    let (a, ..) = mirrored(&mut world, "A");
    let b = world.open(1, "B");
    let stream = world.requests(0)[0].0;
    image(&mut world, 0, stream, 10, b"10");
    world.events();
    service_says(&mut world, 0, SUSPECT);
    let events = world.events();
    let suspect: Vec<u32> = events
        .iter()
        .filter(|event| event.kind == Kind::ItemStatus)
        .filter(|event| matches!(Msg::decode(&event.body).unwrap(), Msg::Status(StatusMsg { state: Some(_), .. })))
        .map(|event| event.handle)
        .collect();
    assert_eq!(suspect, [b], "{a} is good at the standby, which has not answered for the other: {events:?}");
    assert!(!events.iter().any(|event| event.kind == Kind::ServiceStatus));
}

#[test]
fn it_can_be_turned_off() {
    let mut world = world(true, |config| config.takeover_on_suspect = false);
    let (handle, used, _) = mirrored(&mut world, "A");
    world.status(0, used, SUSPECT);
    assert_eq!(told(&mut world, handle), [DataState::SUSPECT]);
    group_says(&mut world, 0, 0, SUSPECT);
    let kinds = world.kinds();
    assert!(kinds.contains(&Kind::GroupStatus), "{kinds:?}");
    assert_eq!(world.sd.counters().hot_takeovers, 0);
}

#[test]
fn an_item_goes_back_when_the_first_has_had_it_good_for_long_enough() {
    let mut world = world(true, |_| {});
    let (_, used, standby) = mirrored(&mut world, "A");
    world.pass(DECISION * 3);
    world.status(0, used, SUSPECT);
    world.pass(DECISION * 3);
    assert!(numbers(&mut world).is_empty());
    assert_eq!(swaps(&mut world), [swap(0, 1, 1, 1, false)], "it stays there as long as the first one has it Suspect");
    world.status(0, used, OK);
    world.pass(DECISION - 1);
    world.status(0, used, SUSPECT);
    world.status(0, used, OK);
    world.pass(DECISION - 1);
    update(&mut world, 1, standby, 11);
    assert_eq!(numbers(&mut world), [11], "the time counts anew");
    update(&mut world, 0, used, 11);
    update(&mut world, 0, used, 12);
    assert_eq!(numbers(&mut world), []);
    world.pass(3);
    assert_eq!(numbers(&mut world), [12], "of the first provider again");
    assert_eq!(swaps(&mut world), [swap(1, 0, 1, 1, true)]);
    assert!(world.closes(1).is_empty(), "the other stands by");
}

#[test]
fn what_the_first_has_suspect_does_not_go_back_with_the_others() {
    let mut world = world(true, |_| {});
    let (a, ..) = mirrored(&mut world, "A");
    let (b, ..) = mirrored(&mut world, "B");
    world.down(0);
    numbers(&mut world);
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    world.turn();
    let requests = world.requests(0);
    let stream = |name: &str| requests.iter().find(|request| request.1 == name).expect("a mirror").0;
    image(&mut world, 0, stream("A"), 10, b"10");
    world.refresh_with(0, &[(22, b"0")], |msg| (msg.stream_id, msg.state) = (stream("B"), SUSPECT));
    world.pass(DECISION * 2);
    assert!(told(&mut world, a).is_empty() && told(&mut world, b).is_empty(), "nobody hears of anything");
    update(&mut world, 0, stream("A"), 11);
    update(&mut world, 0, stream("B"), 11);
    let events = world.events();
    assert_eq!(events.iter().map(|event| event.handle).collect::<Vec<_>>(), [a], "one is back: {events:?}");
    // Nor does a switch by hand make good what is not.
    world.sd.switch_provider(world.now, "FEED", Some("provider0:14002"), &mut world.sent).unwrap();
    world.pass(1);
    assert!(told(&mut world, b).is_empty());
}

#[test]
fn who_watches_again_what_has_become_suspect_meanwhile_is_served_by_the_standby() {
    let mut world = world(true, |config| config.age_unwatched = 60 * SECOND);
    let (handle, used, standby) = mirrored(&mut world, "A");
    world.close(1, handle);
    world.status(0, used, SUSPECT);
    assert!(world.requests(1).is_empty(), "nobody needs it");
    world.open_with(1, "A", flags::STREAMING);
    assert_eq!(world.requests(1).iter().map(|r| r.0).collect::<Vec<_>>(), [standby]);
    image(&mut world, 1, standby, 12, b"12");
    assert_eq!(told(&mut world, handle).last(), Some(&DataState::OK));
}

#[test]
fn the_log_names_both_and_the_reason() {
    let mut world = world(true, |_| {});
    let streams: Vec<i32> = ["A", "B", "C"].map(|name| mirrored_at(&mut world, name, 0, 1).1).into();
    for stream in streams {
        world.status(0, stream, SUSPECT);
    }
    world.pass(2);
    let notices: Vec<String> = world.sd.notices().map(|notice| notice.to_string()).collect();
    let line = "3 items of service FEED go on at provider provider1:14002, the hot standby, since provider provider0:14002 says Suspect of them: \
                OPEN/SUSPECT/NONE \"line is cut\": 3 with their next update, the others with a new image";
    assert_eq!(notices, [line]);
}

#[test]
fn a_standby_that_leaves_takes_what_it_had_to_go_back_with_it() {
    let mut world = world(true, |_| {});
    let (handle, used, _) = mirrored(&mut world, "A");
    world.status(0, used, SUSPECT);
    world.status(0, used, OK);
    numbers(&mut world);
    world.down(0);
    world.events();
    world.close(1, handle);
    come(&mut world, 0);
    world.pass(DECISION * 2);
    world.events();
    assert_eq!(swaps(&mut world), [swap(0, 1, 1, 1, false)]);
}

#[test]
fn nothing_comes_to_stand_by_at_a_provider_that_is_lost() {
    let mut world = world(true, |config| config.work_per_turn = 1);
    let items: Vec<(u32, i32, i32)> = ["A", "B", "C"].map(|name| mirrored(&mut world, name)).into();
    for &(_, used, standby) in &items {
        world.status(1, standby, SUSPECT);
        world.status(0, used, SUSPECT);
    }
    world.events();
    // Of the items of the one that is lost most have yet to leave it when the other says that it has them good.
    world.down(0);
    for &(_, _, standby) in &items {
        world.status(1, standby, OK);
    }
    world.sd.check_invariants();
    let mut asked = world.requests(1);
    assert!(asked.len() <= 1, "they leave the lost one in turns: {asked:?}");
    world.turn();
    world.events();
    asked.extend(world.requests(1));
    for name in ["A", "B", "C"] {
        assert!(asked.iter().any(|request| request.1 == name), "{name} is asked for: {asked:?}");
    }
}
