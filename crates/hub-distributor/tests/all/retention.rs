//! What nobody publishes or offers any more is forgotten in the end, and makes room before where there is none.

use crate::world::*;
use hub_distributor::{Config, Notice, ServiceConfig};
use hub_stream::{Kind, flags};
use rwf::StateCode;

const DAY: u64 = 86_400;
/// The ids that there are.
const IDS: usize = 65_534;

/// A world with P2PS 1 and a non-interactive provider on session 0 whose service `NI_PUB` has id 3 there.
fn with_nip(config: Config) -> World {
    let mut world = World::new(config);
    world.p2ps_up(1);
    world.nip_up(0);
    world.directory(0, vec![service(3, "NI_PUB")]);
    world.events();
    world.sent(0);
    world
}

fn a_day() -> Config {
    Config { age_unpublished: DAY * SECOND, ..Config::default() }
}

/// Whether P2PS 1 finds an item.
fn is_found(world: &mut World, name: &str) -> bool {
    world.events();
    world.open_with(1, name, flags::STREAMING | flags::SNAPSHOT_ONLY);
    let events = world.events();
    match events.iter().find(|event| event.kind == Kind::Refused) {
        Some(refused) => {
            assert_eq!(refused.short_state().2, StateCode::NOT_FOUND, "{events:?}");
            false
        }
        None => true,
    }
}

#[test]
fn images_that_nobody_publishes_are_forgotten_after_their_time() {
    let mut world = with_nip(a_day());
    for (stream, name) in [(1, "LEFT"), (2, "WATCHED"), (3, "TAKEN")] {
        world.publish(0, stream, 3, name, &[(22, b"1")]);
    }
    let watched = world.open(1, "WATCHED");
    world.down(0);
    world.pass(DAY - 1);
    assert!(is_found(&mut world, "LEFT") && is_found(&mut world, "TAKEN"), "its time is not over");
    world.nip_up(0);
    world.directory(0, vec![service(3, "NI_PUB")]);
    world.publish(0, 3, 3, "TAKEN", &[(22, b"2")]);
    world.pass(DAY / 4);
    assert!(!is_found(&mut world, "LEFT"), "its time is over");
    assert!(is_found(&mut world, "WATCHED") && is_found(&mut world, "TAKEN"), "one is watched, one published");
    assert_eq!((world.sd.counters().images_aged, world.sd.counters().services_aged), (1, 0));
    world.close(1, watched);
    world.pass(DAY - 1);
    assert!(is_found(&mut world, "WATCHED"), "its time began when it was watched no more");
    world.pass(DAY / 4);
    assert!(!is_found(&mut world, "WATCHED"));
}

#[test]
fn images_stay_for_ever_where_that_is_asked_for() {
    let mut world = with_nip(Config::default());
    world.publish(0, 1, 3, "LEFT", &[(22, b"1")]);
    world.down(0);
    world.pass(1_000 * DAY);
    assert!(is_found(&mut world, "LEFT"));
}

#[test]
fn images_that_nobody_publishes_make_room() {
    let mut world = with_nip(Config { max_items: 100, ..a_day() });
    for stream in 0..100 {
        world.publish(0, stream, 3, &format!("OLD{stream}"), &[(22, b"1")]);
    }
    world.publish(0, 100, 3, "ONE_MORE", &[(22, b"1")]);
    assert_eq!(world.sd.counters().refused_no_resources, 1, "all are published");
    world.open(1, "OLD7");
    world.down(0);
    world.nip_up(0);
    world.directory(0, vec![service(3, "NI_PUB")]);
    for stream in 0..99 {
        world.publish(0, stream, 3, &format!("NEW{stream}"), &[(22, b"1")]);
    }
    assert_eq!((world.sd.items(), world.sd.counters().images_aged), (100, 99));
    world.publish(0, 99, 3, "NEW99", &[(22, b"1")]);
    assert_eq!(world.sd.counters().refused_no_resources, 2, "the last of the old ones is watched");
}

#[test]
fn a_snapshot_does_not_push_out_the_item_that_it_is_of() {
    let mut world = with_nip(Config { max_items: 1, ..a_day() });
    world.publish(0, 1, 3, "ALONE", &[(22, b"1")]);
    world.down(0);
    world.events();
    world.open_with(1, "ALONE", flags::STREAMING | flags::SNAPSHOT_ONLY);
    let events = world.events();
    assert!(events.iter().any(|event| event.kind == Kind::Refused), "{events:?}");
    assert_eq!(world.sd.items(), 1);
}

#[test]
fn a_service_that_nobody_offers_is_forgotten_after_its_time() {
    let mut world = with_nip(a_day());
    world.route_up(1);
    world.directory(1, vec![service(7, "FEED")]);
    world.down(0);
    world.down(1);
    world.events();
    world.pass(DAY - 1);
    assert!(!world.kinds().contains(&Kind::ServiceGone));
    world.pass(DAY / 4);
    let gone = world.kinds().iter().filter(|kind| **kind == Kind::ServiceGone).count();
    assert_eq!((gone, world.sd.counters().services_aged), (2, 2));
    world.sent(1);
    world.route_up(1);
    world.directory(1, vec![service(7, "FEED")]);
    world.pass(4);
    assert!(world.kinds().contains(&Kind::Service), "it may come back at any time");
}

#[test]
fn a_service_that_somebody_waits_for_stays() {
    let mut world = World::new(a_day());
    world.p2ps_up(1);
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    world.open_imaged(1, "IBM.N");
    world.down(0);
    world.pass(3 * DAY);
    assert!(!world.kinds().contains(&Kind::ServiceGone));
    assert_eq!(world.sd.counters().services_aged, 0);
}

#[test]
fn services_without_an_id_are_said_and_come_in_when_there_is_room() {
    let mut world = World::new(a_day());
    world.p2ps_up(1);
    for id in [0, 1] {
        world.route_up(id);
    }
    let names: Vec<u16> = (0..IDS as u16).collect();
    for some in names.chunks(500) {
        world.directory_update(0, some.iter().map(|&id| service(id, &format!("S{id}"))).collect());
        world.sent(0);
        world.sd.clear_block();
    }
    assert_eq!(world.sd.counters().refused_services, 0);
    let _ = world.sd.notices();
    world.directory(1, vec![service(7, "LATE")]);
    let notices: Vec<Notice> = world.sd.notices().collect();
    let lacking = Notice::NoServiceIds { service: "LATE".into(), provider: "provider1:14002".into() };
    assert_eq!(notices, [lacking]);
    assert_eq!(world.sd.counters().refused_services, 1);
    // The one who has them all withdraws a few: they are forgotten soon, since no P2PS knows them any more.
    let gone = |id: u16| rwf::rdm::directory::Service::delete(id);
    world.directory_update(0, (100..200).map(gone).collect());
    world.turn();
    world.sd.clear_block();
    for _ in 0..4 {
        world.now += 600 * SECOND + SECOND;
        world.sd.on_timer(world.now, &mut world.sent);
    }
    assert_eq!(world.sd.counters().services_aged, 100);
    let late = world.sd.service_overview().find(|service| service.name == "LATE");
    assert!(late.is_some(), "it is let in");
}

#[test]
fn a_service_that_no_provider_offers_any_more_is_deleted_after_its_time() {
    let own = ServiceConfig { restart: Some(10 * SECOND), ..ServiceConfig::default() };
    let mut world = World::new(Config { services: [("FEED".to_owned(), own)].into(), ..Config::default() });
    world.p2ps_up(1);
    let come = |world: &mut World| {
        world.route_up(0);
        world.directory(0, vec![service(7, "FEED"), service(8, "OTHER")]);
        world.events();
    };
    let gone = |world: &mut World| world.events().iter().filter(|event| event.kind == Kind::ServiceGone).count();
    come(&mut world);
    let (handle, _) = world.open_imaged(1, "A");
    // A provider that comes back in time finds it; the time of before counts no more.
    world.down(0);
    world.pass(9);
    assert_eq!(gone(&mut world), 0, "its time is not over");
    come(&mut world);
    world.pass(5);
    world.down(0);
    world.pass(9);
    assert_eq!((gone(&mut world), world.sd.items()), (0, 1));
    world.pass(2);
    assert_eq!(gone(&mut world), 1, "the one service");
    world.close(1, handle);
    assert_eq!(world.sd.items(), 0, "its item is over, and goes when its P2PS has given it back");
    assert_eq!(world.sd.counters().services_given_up, 1);
    let notices: Vec<Notice> = world.sd.notices().collect();
    assert!(notices.contains(&Notice::ServiceGivenUp { service: "FEED".to_owned() }), "{notices:?}");
    world.sd.check_invariants();
    // The provider offers it anew.
    come(&mut world);
    world.sent(0);
    world.open(1, "B");
    assert_eq!(world.requests(0).len(), 1);
}
