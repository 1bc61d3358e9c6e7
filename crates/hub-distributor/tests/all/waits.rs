//! Who waits hears why: no request is without an answer.

use crate::world::*;
use hub_distributor::{Balance, Config};
use hub_stream::{ALL, Kind, Request, flags};
use rwf::msg::RefreshFlags;
use rwf::rdm::directory::{Part, ServiceState};
use rwf::{DataState, State, StateCode, StreamState};

const WHOLE: RefreshFlags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);

/// What the only event of the turn says to those who wait: whom, and the state.
fn explained(world: &mut World) -> (u16, StreamState, StateCode) {
    let events = world.events();
    let [only] = &events[..] else { panic!("{events:?}") };
    assert_eq!((only.kind, only.flags), (Kind::ItemStatus, flags::WAITING_ONLY));
    assert_eq!(only.state().data, DataState::SUSPECT);
    (only.target, only.state().stream, only.state().code)
}

#[test]
fn who_asks_for_a_lost_item_is_told_so_at_once() {
    let mut world = World::with_feed();
    let (handle, _) = world.open_imaged(1, "A");
    world.down(0);
    world.events();
    world.request(1, &Request::Refresh { handle, in_stream: false }).unwrap();
    assert_eq!(explained(&mut world), (1, StreamState::CLOSED_RECOVER, StateCode::NONE));
    // The route comes back, and whoever asks while its provider is asked hears that.
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    let asked = world.requests(0);
    let stream = asked.iter().find(|(_, name, _)| name == "A").unwrap().0;
    world.events();
    world.request(1, &Request::Refresh { handle, in_stream: false }).unwrap();
    assert_eq!(explained(&mut world), (1, StreamState::OPEN, StateCode::NONE));
    world.refresh(0, stream, &[(22, b"1")], WHOLE);
    assert_eq!(world.kinds(), [Kind::Image]);
    world.request(1, &Request::Refresh { handle, in_stream: false }).unwrap();
    assert!(world.kinds().is_empty(), "the provider has it, and is asked");
}

#[test]
fn who_asks_for_an_item_that_was_closed_for_recovery_is_told_so_at_once() {
    let mut world = World::with_feed();
    let (handle, stream) = world.open_imaged(1, "A");
    world.status(0, stream, state(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE));
    world.events();
    world.request(1, &Request::Refresh { handle, in_stream: false }).unwrap();
    assert_eq!(explained(&mut world), (1, StreamState::CLOSED_RECOVER, StateCode::NONE), "the service is up");
}

#[test]
fn who_waits_for_a_first_image_hears_that_its_provider_is_gone() {
    let mut world = World::with_feed();
    let handle = world.open(1, "A");
    world.sent(0);
    world.down(0);
    let events = world.events();
    let told: Vec<_> = events.iter().filter(|e| e.kind == Kind::ItemStatus).collect();
    assert_eq!(told.len(), 1, "{events:?}");
    assert_eq!((told[0].handle, told[0].target, told[0].flags), (handle, ALL, flags::WAITING_ONLY));
    assert_eq!(told[0].state().stream, StreamState::CLOSED_RECOVER);
    world.pass(60);
    assert!(world.events().is_empty(), "once");
}

#[test]
fn who_comes_in_the_middle_of_a_set_that_does_not_end_hears_so() {
    let mut world = World::with_feed();
    let handle = world.open(1, "A");
    let stream = world.requests(0)[0].0;
    world.refresh_with(0, &[(22, b"1")], |msg| {
        (msg.stream_id, msg.flags, msg.part_num) = (stream, RefreshFlags::SOLICITED, Some(0));
    });
    world.events();
    world.request(1, &Request::Refresh { handle, in_stream: false }).unwrap();
    assert!(world.events().is_empty());
    world.pass(16);
    let events = world.events();
    assert!(!events.is_empty());
    for event in events {
        assert_eq!(
            (event.kind, event.flags, event.state().code),
            (Kind::ItemStatus, flags::WAITING_ONLY, StateCode::TIMEOUT)
        );
    }
}

#[test]
fn a_loss_is_told_to_those_too_who_wait_beside_those_that_know_the_item_is_suspect() {
    let mut world = World::with_feed();
    let (handle, stream) = world.open_imaged(1, "A");
    world.status(0, stream, state(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE));
    world.request(1, &Request::Refresh { handle, in_stream: false }).unwrap();
    world.events();
    world.down(0);
    let events = world.events();
    let told = events.iter().filter(|e| e.kind == Kind::ItemStatus && e.flags == flags::WAITING_ONLY);
    assert_eq!(told.count(), 1, "{events:?}");
}

/// FEED at two providers, with an item open at the first.
fn open_at_the_first_of_two() -> (World, u32, i32) {
    let mut world = World::with_two_providers(Balance::Load);
    let (handle, stream) = world.open_imaged(1, "A");
    (world, handle, stream)
}

fn service_state(world: &mut World, id: u32, up: bool, status: Option<State<'_>>) {
    let mut entry = rwf::rdm::directory::Service::new(7 + id as u16 * 300, rwf::rdm::directory::Action::Update);
    let status = status.map(Into::into);
    entry.state = Some(Part::Update(ServiceState { up, accepting_requests: None, status }));
    world.directory_update(id, vec![entry]);
}

#[test]
fn items_leave_a_provider_where_their_service_is_down_for_another_at_once() {
    for suspect in [false, true] {
        let (mut world, handle, stream) = open_at_the_first_of_two();
        let stale = State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NONE, "stale");
        service_state(&mut world, 0, false, suspect.then_some(stale));
        assert_eq!(world.closes(0), [stream], "released");
        assert_eq!(
            world.requests(1),
            [(5, "A".into(), rwf::msg::RequestFlags::STREAMING)],
            "asked for in the same turn"
        );
        let events = world.events();
        assert_eq!(
            events.iter().map(|e| e.kind).collect::<Vec<_>>(),
            [Kind::ServiceStatus],
            "told; the service stays up"
        );
        assert_eq!(events[0].short_state().0, StreamState::CLOSED_RECOVER);
        world.refresh(1, 5, &[(22, b"2")], WHOLE);
        let events = world.events();
        assert!(events.len() == 1 && events[0].handle == handle && events[0].has(flags::RECOVERY), "{events:?}");
        let notices: Vec<String> = world.sd.notices().map(|notice| notice.to_string()).collect();
        assert_eq!(
            notices,
            ["service FEED is down at provider provider0:14002: its 1 items there are asked for at another"]
        );
    }
}

#[test]
fn many_items_leave_a_provider_in_turns_and_others_are_served_in_each() {
    const ITEMS: usize = 3_000;
    const BUDGET: usize = 250;
    let config = Config {
        balance: Balance::First,
        work_per_turn: BUDGET as u32,
        opens_per_turn: u32::MAX,
        open_window: u32::MAX,
        ..Config::default()
    };
    let mut world = World::new(config);
    world.p2ps_up(1);
    for id in [0, 1, 2] {
        world.route_up(id);
        world.directory(id, vec![service(7 + id as u16 * 300, if id == 2 { "OTHER" } else { "FEED" })]);
    }
    world.events();
    // Logins and directory requests.
    for id in [0, 1, 2] {
        world.sent(id);
    }
    world.open_request(1, 2, flags::STREAMING, &request("S"));
    let stream = world.requests(2)[0].0;
    world.refresh(2, stream, &[(22, b"1")], WHOLE);
    for n in 0..ITEMS {
        world.open_with(1, &format!("I{n}"), flags::STREAMING);
    }
    let opened = world.requests(0);
    assert_eq!(opened.len(), ITEMS, "all at the first");
    for (stream, ..) in opened {
        world.refresh(0, stream, &[(22, b"1")], WHOLE);
    }
    world.events();
    service_state(&mut world, 0, false, None);
    let mut moved = 0;
    let mut turns = 0;
    loop {
        let closed = world.closes(0).len();
        assert!(closed <= BUDGET, "{closed} in turn {turns}");
        moved += closed;
        assert_eq!(world.requests(1).len(), closed, "asked for at the other in the same turn");
        world.update(2, stream, &[(22, b"2")]);
        let events = world.events();
        assert_eq!(events.iter().filter(|e| e.kind == Kind::Update).count(), 1, "the update of the other service");
        turns += 1;
        if world.sd.timeout() != Some(0) {
            break;
        }
        world.now += 1_000_000;
        world.sd.on_timer(world.now, &mut world.sent);
    }
    world.sd.check_invariants();
    assert_eq!((moved, turns >= ITEMS / BUDGET), (ITEMS, true), "{turns} turns");
    let notices: Vec<String> = world.sd.notices().map(|notice| notice.to_string()).collect();
    let said = notices.iter().filter(|line| line.contains("its 3000 items there are asked for at another"));
    assert_eq!(said.count(), 1, "{notices:?}");
}

#[test]
fn items_stay_where_their_service_is_down_until_another_has_it() {
    let (mut world, _, stream) = open_at_the_first_of_two();
    service_state(&mut world, 1, false, None);
    world.events();
    service_state(&mut world, 0, false, None);
    assert!(world.closes(0).is_empty(), "it still gets updates there");
    world.events();
    service_state(&mut world, 1, true, None);
    assert_eq!(world.closes(0), [stream]);
    assert_eq!(world.requests(1).len(), 1);
    let notices: Vec<String> = world.sd.notices().map(|notice| notice.to_string()).collect();
    assert_eq!(notices.len(), 3, "down, moved, up again: {notices:?}");
}

#[test]
fn private_streams_stay_with_their_provider() {
    let (mut world, _, _) = open_at_the_first_of_two();
    world.open_with(1, "B", flags::STREAMING | flags::PRIVATE);
    let at = u32::from(world.requests(1).len() == 1);
    world.sent(0);
    service_state(&mut world, at, false, None);
    let closed = world.closes(at);
    assert_eq!(closed.len(), usize::from(at == 0), "only the shared item: {closed:?}");
}

#[test]
fn a_provider_of_the_other_kind_stands_by_and_takes_over() {
    let mut world = World::with_feed();
    world.open_imaged(1, "A");
    world.nip_up(1);
    world.directory(1, vec![service(3, "FEED")]);
    assert!(world.kinds().is_empty(), "the name is taken");
    let notices = |world: &mut World| world.sd.notices().map(|notice| notice.to_string()).collect::<Vec<_>>();
    let told = notices(&mut world);
    assert!(told.len() == 1 && told[0].contains("nip1 is not taken: an interactive one has that name"), "{told:?}");
    world.directory(1, vec![service(3, "FEED")]);
    assert!(notices(&mut world).is_empty(), "one line");
    world.down(0);
    assert!(!world.kinds().contains(&Kind::ServiceGone), "it is down, and stays");
    assert_eq!(world.sent.closed.pop().map(|(id, _)| id), Some(1), "it is to come back and publish all of it");
    world.nip_up(2);
    world.directory(2, vec![service(3, "FEED")]);
    assert_eq!(world.kinds(), [Kind::Service]);
    // And the other way round.
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    assert!(world.kinds().is_empty());
    notices(&mut world);
    world.down(2);
    let kinds = world.kinds();
    assert_eq!(kinds.last(), Some(&Kind::Service), "{kinds:?}");
    assert!(!kinds.contains(&Kind::ServiceGone), "{kinds:?}");
    let told = notices(&mut world);
    assert!(told.iter().any(|line| line.contains("taken over by provider provider0:14002")), "{told:?}");
    world.open_with(1, "B", flags::STREAMING);
    assert!(world.requests(0).iter().any(|(_, name, _)| name == "B"), "it is asked");
}

/// P2PS 1, and FEED that takes `limit` items, and `window` requests at a time.
fn limited(limit: u64, window: u64) -> World {
    let mut world = World::with_two_p2pss(Config::default());
    let load = rwf::rdm::directory::Load {
        open_limit: Some(limit),
        open_window: Some(window),
        ..rwf::rdm::directory::Load::default()
    };
    world.directory_update(0, vec![with_load(state_update(7, true, true), load)]);
    world.events();
    world
}

#[test]
fn items_beyond_an_open_limit_are_told_so_as_soon_as_it_is_reached() {
    for window in [1, 3, 100] {
        let mut world = limited(10, window);
        let handles: Vec<u32> = (0..200).map(|n| world.open(1, &format!("I{n}"))).collect();
        let mut open = Vec::new();
        let mut told = std::collections::HashMap::new();
        loop {
            let asked = world.requests(0);
            if asked.is_empty() && world.sd.timeout() != Some(0) {
                break;
            }
            for (stream, ..) in asked {
                open.push(stream);
                world.refresh(0, stream, &[(22, b"1")], WHOLE);
            }
            world.turn();
            for event in world.events().iter().filter(|event| event.kind == Kind::ItemStatus) {
                assert_eq!((event.flags, event.state().data), (flags::WAITING_ONLY, DataState::SUSPECT));
                assert_eq!(event.state().code, StateCode::TOO_MANY_ITEMS);
                *told.entry(event.handle).or_insert(0) += 1;
            }
        }
        assert_eq!(open.len(), 10);
        // Items that came when the limit was reached already have read so with their opens.
        let at_once = if window >= 10 { 0 } else { 190 };
        assert_eq!(told.len(), at_once, "window {window}: all hear, once");
        assert!(told.values().all(|&times| times == 1));
        world.pass(60);
        let late: Vec<_> = world.events();
        assert!(late.iter().all(|event| event.kind != Kind::ItemStatus), "{late:?}");
        // When there is room, the next is asked for.
        world.close(1, handles[0]);
        world.turn();
        assert_eq!(world.requests(0).len(), 1);
        world.sd.check_invariants();
    }
}

#[test]
fn who_waits_behind_others_for_the_window_hears_that_and_not_that_the_provider_was_silent() {
    let mut world = limited(100, 1);
    world.open(1, "A");
    world.open(1, "B");
    let behind = world.open(1, "C");
    assert_eq!(world.requests(0).len(), 1);
    world.pass(16);
    let events = world.events();
    let told: Vec<_> = events.iter().filter(|event| event.handle == behind && event.kind == Kind::ItemStatus).collect();
    assert_eq!(told.len(), 1, "{events:?}");
    assert!(told[0].state().text_lossy().contains("waits for its turn"), "{:?}", told[0].state());
}
