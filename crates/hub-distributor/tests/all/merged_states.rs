//! States that a provider tells over and over: those who watch are told the last one, and others are served meanwhile.

use crate::world::*;
use hub_distributor::Config;
use hub_stream::{Kind, flags};
use rwf::msg::RefreshFlags;
use rwf::rdm::directory::{Action, Group, Part, Service, ServiceState};
use rwf::{DataState, State, StateCode, StreamState};

const WHOLE: RefreshFlags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);

/// An update of the directory that says a state of FEED and nothing else.
fn told(data: DataState, text: &str) -> Service {
    let mut entry = Service::new(7, Action::Update);
    let status = Some(State::new(StreamState::OPEN, data, StateCode::NONE, text).into());
    entry.state = Some(Part::Update(ServiceState { up: true, accepting_requests: Some(true), status }));
    entry
}

fn data_of(n: usize) -> DataState {
    if n.is_multiple_of(2) { DataState::SUSPECT } else { DataState::OK }
}

#[test]
fn of_many_states_in_a_turn_the_last_one_counts() {
    let mut world = World::with_two_p2pss(Config::default());
    world.open_imaged(1, "A");
    world.events();
    for n in 0..=1_000 {
        world.directory_update(0, vec![told(data_of(n), &format!("state {n}"))]);
    }
    let at_once = world.events();
    assert!(at_once.len() <= 4, "{} events", at_once.len());
    world.turn();
    let last = world.events();
    assert_eq!(last.iter().map(|event| event.kind).collect::<Vec<_>>(), [Kind::ServiceStatus]);
    assert_eq!(last[0].short_state().1, DataState::SUSPECT);
    assert!(last[0].body.windows(10).any(|text| text == b"state 1000"), "the last one");
    assert_eq!(world.sd.counters().states_merged, 1_001 - at_once.len() as u64);
    // In turns of their own they are told as ever.
    for n in 0..10 {
        world.directory_update(0, vec![told(data_of(n), "slowly")]);
        assert_eq!(world.kinds(), [Kind::ServiceStatus], "{n}");
    }
}

#[test]
fn what_comes_behind_a_state_that_waits_counts_more() {
    let mut world = World::with_two_p2pss(Config::default());
    let (handle, stream) = world.open_imaged(1, "A");
    world.events();
    for n in 0..=10 {
        world.directory_update(0, vec![told(data_of(n), "a state")]);
    }
    world.refresh(0, stream, &[(22, b"2")], RefreshFlags::REFRESH_COMPLETE);
    let kinds: Vec<_> = world.events().iter().map(|event| (event.kind, event.handle)).collect();
    assert_eq!(kinds.last(), Some(&(Kind::Image, handle)), "good again: {kinds:?}");
    world.turn();
    assert!(world.events().is_empty(), "no older state comes behind it");
    // One that goes leaves nothing behind.
    for n in 0..=10 {
        world.directory_update(0, vec![told(data_of(n), "a state")]);
    }
    world.down(0);
    world.events();
    world.turn();
    assert!(world.events().iter().all(|event| event.kind != Kind::ServiceStatus));
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    world.turn();
    assert!(world.requests(0).iter().any(|(_, name, _)| name == "A"));
    world.sd.check_invariants();
}

#[test]
fn who_floods_both_states_and_statuses_is_bounded_too() {
    let mut world = World::with_two_p2pss(Config::default());
    let (_, stream) = world.open_imaged(1, "A");
    world.open_imaged(1, "B");
    world.events();
    for n in 0..500 {
        world.directory_update(0, vec![told(data_of(n), "a state")]);
        world.status(0, stream, state(StreamState::OPEN, data_of(n), StateCode::NONE));
    }
    let events = world.events();
    let of_service = events.iter().filter(|event| event.kind == Kind::ServiceStatus).count();
    assert!(of_service <= 4 + 16, "{of_service} of the service");
}

#[test]
fn states_of_groups_are_merged_and_mergers_are_not() {
    let mut world = World::with_feed();
    let handle = world.open(1, "A");
    let stream = world.requests(0)[0].0;
    world.refresh_with(0, &[(22, b"1")], |msg| {
        (msg.stream_id, msg.flags, msg.group_id) = (stream, WHOLE, b"g1");
    });
    world.events();
    let group = |data, merged_to: Option<&[u8]>| {
        let mut entry = Service::new(7, Action::Update);
        let status = Some(State::new(StreamState::OPEN, data, StateCode::NONE, "a group").into());
        entry.groups =
            vec![Part::Update(Group { group: b"g1".to_vec(), merged_to: merged_to.map(<[u8]>::to_vec), status })];
        entry
    };
    for n in 0..200 {
        world.directory_update(0, vec![group(data_of(n), None)]);
    }
    world.directory_update(0, vec![group(DataState::OK, Some(b"g2"))]);
    let events = world.events();
    assert!(events.len() <= 6, "{} events", events.len());
    assert_eq!(events.last().map(|event| event.kind), Some(Kind::GroupStatus));
    world.turn();
    assert!(world.events().is_empty(), "the merger is behind the states");
    world.status(0, stream, state(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE));
    assert!(world.events().iter().any(|event| event.handle == handle && !event.has(flags::CLOSED)));
}
