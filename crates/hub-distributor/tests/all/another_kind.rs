//! A service that goes from an interactive provider to a non-interactive one, or back: it stays, and its items are good again.

use crate::world::*;
use hub_distributor::Config;
use hub_stream::{Kind, flags};
use rwf::msg::RefreshFlags;
use rwf::{DataState, StreamState};

const WHOLE: RefreshFlags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);

/// What P2PSs were told of services: kinds of their events, and whether the service was up.
fn of_services(events: &[Ev]) -> Vec<Kind> {
    let kinds = events.iter().map(|event| event.kind);
    kinds.filter(|kind| matches!(kind, Kind::Service | Kind::ServiceGone)).collect()
}

fn is_end(event: &Ev) -> bool {
    event.kind == Kind::ItemStatus && event.has(flags::CLOSED)
}

/// The images of an item, by their data state and first field.
fn images(events: &[Ev], handle: u32) -> Vec<(DataState, Vec<u8>)> {
    let of_item = events.iter().filter(|event| event.kind == Kind::Image && event.handle == handle);
    of_item.map(|event| (event.image().state.data, fields_of(event.image().body)[0].1.clone())).collect()
}

fn statuses(events: &[Ev], handle: u32) -> Vec<(StreamState, DataState)> {
    let of_item = events.iter().filter(|event| event.kind == Kind::ItemStatus && event.handle == handle);
    of_item.map(|event| (event.state().stream, event.state().data)).collect()
}

#[test]
fn items_of_an_interactive_provider_are_good_again_when_they_are_published() {
    for stands_by in [false, true] {
        let mut world = World::with_feed();
        let (had, _) = world.open_imaged(1, "A");
        let waits = world.open(1, "B");
        if stands_by {
            world.nip_up(1);
            world.directory(1, vec![service(3, "FEED")]);
        }
        world.events();
        world.down(0);
        world.turn();
        let mut events = world.events();
        if stands_by {
            assert_eq!(world.sent.closed.pop().map(|(id, _)| id), Some(1), "it is to come back and publish all of it");
            world.down(1);
        }
        world.nip_up(2);
        world.directory(2, vec![service(3, "FEED")]);
        world.turn();
        assert!(!world.sent.closed.iter().any(|(id, _)| *id == 2), "it is taken");
        events.extend(world.events());
        assert!(!of_services(&events).contains(&Kind::ServiceGone), "{events:?}");
        assert!(!events.iter().any(is_end), "nothing is closed: {events:?}");
        world.sd.check_invariants();
        for (stream, name) in [(10, "A"), (11, "B"), (12, "C")] {
            world.publish(2, stream, 3, name, &[(22, b"2")]);
        }
        world.turn();
        let events = world.events();
        for handle in [had, waits] {
            assert_eq!(images(&events, handle), [(DataState::OK, b"2".to_vec())], "stands by: {stands_by}");
        }
        // A P2PS that opens now gets what is held.
        world.open_with(1, "C", flags::STREAMING);
        let events = world.events();
        assert_eq!(images(&events, events[0].handle), [(DataState::OK, b"2".to_vec())]);
        world.close(1, had);
        world.turn();
        world.sd.check_invariants();
    }
}

#[test]
fn items_that_were_published_are_asked_for_at_an_interactive_provider() {
    for stands_by in [false, true] {
        let mut world = World::new(Config::default());
        world.p2ps_up(1);
        world.nip_up(0);
        world.directory(0, vec![service(3, "FEED")]);
        world.publish(0, 10, 3, "A", &[(22, b"1")]);
        world.publish(0, 11, 3, "B", &[(22, b"1")]);
        let handle = world.open(1, "A");
        if stands_by {
            world.route_up(1);
            world.directory(1, vec![service(7, "FEED")]);
            assert!(!world.requests(1).iter().any(|(_, name, _)| name == "A"), "the name is taken");
        }
        world.events();
        world.down(0);
        if !stands_by {
            world.turn();
            world.route_up(1);
            world.directory(1, vec![service(7, "FEED")]);
        }
        world.turn();
        let events = world.events();
        assert!(!of_services(&events).contains(&Kind::ServiceGone), "{events:?}");
        assert!(!events.iter().any(is_end), "nothing is closed: {events:?}");
        let told = statuses(&events, handle);
        let by_service = events.iter().any(|event| event.kind == Kind::ServiceStatus);
        assert!(by_service || told == [(StreamState::OPEN, DataState::SUSPECT)], "it is told once: {events:?}");
        world.sd.check_invariants();
        let mut asked = world.requests(1);
        // Login and directory have the streams before.
        asked.retain(|(stream, ..)| *stream >= 5);
        assert_eq!(asked.iter().map(|(_, name, _)| name.as_str()).collect::<Vec<_>>(), ["A"], "what is watched");
        world.refresh(1, asked[0].0, &[(22, b"2")], WHOLE);
        world.turn();
        assert_eq!(images(&world.events(), handle), [(DataState::OK, b"2".to_vec())]);
        world.sd.check_invariants();
    }
}

/// The last provider deletes the service by a word of the directory, and another one has the name already.
#[test]
fn a_service_that_its_provider_withdraws_goes_on_with_who_stands_by() {
    let mut world = World::with_feed();
    let (handle, _) = world.open_imaged(1, "A");
    world.nip_up(1);
    world.directory(1, vec![service(3, "FEED")]);
    world.events();
    world.directory_update(0, vec![rwf::rdm::directory::Service::delete(7)]);
    world.turn();
    let events = world.events();
    assert!(!of_services(&events).contains(&Kind::ServiceGone), "{events:?}");
    world.down(1);
    world.nip_up(1);
    world.directory(1, vec![service(3, "FEED")]);
    world.publish(1, 10, 3, "A", &[(22, b"2")]);
    world.turn();
    assert_eq!(images(&world.events(), handle), [(DataState::OK, b"2".to_vec())]);
    world.sd.check_invariants();
}

/// Private streams and snapshots that wait are nobody's to give back; they end, and who asks again is told what there is.
#[test]
fn what_nobody_can_give_back_ends() {
    let mut world = World::with_feed();
    world.open_with(1, "P", flags::STREAMING | flags::PRIVATE);
    world.open_with(1, "S", flags::SNAPSHOT_ONLY);
    world.nip_up(1);
    world.directory(1, vec![service(3, "FEED")]);
    world.events();
    world.down(0);
    world.turn();
    let events = world.events();
    let ends: Vec<_> = events.iter().filter(|event| is_end(event)).map(|event| event.state().stream).collect();
    assert_eq!(ends, [StreamState::CLOSED_RECOVER; 2], "{events:?}");
    world.sd.check_invariants();
}

/// A million items do not hold a turn: they change in as many turns as it takes, and nothing is asked for meanwhile.
#[test]
fn items_change_in_turns() {
    let mut world = World::with_two_p2pss(Config { work_per_turn: 10, ..Config::default() });
    let handles: Vec<u32> = (0..50).map(|n| world.open_imaged(1, &format!("I{n}")).0).collect();
    world.nip_up(1);
    world.directory(1, vec![service(3, "FEED")]);
    world.events();
    world.down(0);
    let mut turns = 0;
    while world.sent.closed.iter().all(|(id, _)| *id != 1) {
        assert_eq!(world.sd.timeout(), Some(0), "there is more to do");
        world.sd.on_timer(world.now, &mut world.sent);
        world.sd.check_invariants();
        if turns == 3 {
            // An item that comes in between is of the service as it will be.
            world.open_with(1, "new", flags::STREAMING);
        }
        turns += 1;
        assert!(turns < 100, "it does not end");
    }
    assert!(turns > 3, "{turns}");
    world.events();
    world.down(1);
    world.nip_up(1);
    world.directory(1, vec![service(3, "FEED")]);
    for n in 0..50 {
        world.publish(1, 100 + n, 3, &format!("I{n}"), &[(22, b"2")]);
    }
    for _ in 0..20 {
        world.turn();
    }
    let events = world.events();
    for handle in handles {
        assert_eq!(images(&events, handle), [(DataState::OK, b"2".to_vec())]);
    }
    world.sd.check_invariants();
}
