//! Providers that are not asked: for their load, or because they have only just come.

use crate::world::*;
use hub_distributor::{Balance, Config, ServiceConfig};
use hub_stream::Kind;
use rwf::msg::RefreshFlags;
use rwf::rdm::directory::{Action, Load, Part, Service};

fn load(id: u16, factor: u64) -> Service {
    let load = Load { load_factor: Some(factor), ..Load::default() };
    Service { load: Some(Part::Update(load)), ..Service::new(id, Action::Update) }
}

fn world(config: Config) -> World {
    let mut world = World::new(config);
    world.p2ps_up(1);
    for id in [0, 1] {
        world.route_up(id);
        world.directory(id, vec![service(7, "FEED")]);
    }
    world.events();
    world
}

/// How many items each provider was asked for since the last call.
fn asked(world: &mut World) -> [usize; 2] {
    [0, 1].map(|id| world.requests(id).len())
}

#[test]
fn a_provider_above_the_load_that_is_allowed_is_asked_for_nothing_more() {
    let own = ServiceConfig { max_load: Some(100), ..ServiceConfig::default() };
    for balance in [Balance::First, Balance::Load] {
        let services = [("FEED".to_owned(), own.clone())].into();
        let mut world = world(Config { balance, services, ..Config::default() });
        world.directory_update(0, vec![load(7, 101)]);
        asked(&mut world);
        world.open(1, "A");
        assert_eq!(asked(&mut world), [0, 1], "{balance:?}");
        world.directory_update(1, vec![load(7, 30_000)]);
        let handle = world.open(1, "B");
        world.turn();
        assert_eq!(asked(&mut world), [0, 0], "both have enough");
        // Which is said at once, or as soon as the queue is looked at.
        world.pass(1);
        world.events();
        world.open(1, "C");
        world.directory_update(0, vec![load(7, 100)]);
        world.turn();
        assert_eq!(asked(&mut world), [2, 0], "{handle} and the next one");
    }
}

#[test]
fn who_waits_for_a_provider_that_has_too_much_to_do_is_told() {
    let mut world = world(Config { max_load: 5, ..Config::default() });
    world.directory_update(0, vec![load(7, 6)]);
    world.directory_update(1, vec![load(7, 6)]);
    world.events();
    world.open_with(1, "A", hub_stream::flags::STREAMING);
    let events = world.events();
    let told = events.iter().find(|event| event.kind == Kind::ItemStatus).expect("a status");
    assert!(String::from_utf8_lossy(told.state().text).contains("maxLoadLevel"), "{told:?}");
}

#[test]
fn a_provider_that_has_just_come_is_asked_when_it_is_recognised() {
    let mut world = World::new(Config { recognition: 10 * SECOND, balance: Balance::First, ..Config::default() });
    world.p2ps_up(1);
    world.route_up(0);
    world.directory(0, vec![service(7, "FEED")]);
    world.events();
    world.sent(0);
    world.open(1, "A");
    world.pass(9);
    assert_eq!(asked(&mut world), [0, 0]);
    world.pass(1);
    assert_eq!(asked(&mut world), [1, 0]);
    // Down and up again: from the beginning; what it has open it keeps.
    world.directory_update(0, vec![state_update(7, false, true)]);
    world.pass(1);
    world.directory_update(0, vec![state_update(7, true, true)]);
    world.open(1, "B");
    world.pass(5);
    world.directory_update(0, vec![state_update(7, false, true)]);
    world.directory_update(0, vec![state_update(7, true, true)]);
    world.requests(0);
    world.pass(6);
    assert_eq!(asked(&mut world), [0, 0], "the first timer counts no more");
    world.pass(5);
    assert!(asked(&mut world)[0] > 0);
    world.sd.check_invariants();
}

#[test]
fn items_that_nobody_watches_count_unless_that_is_set_otherwise() {
    for (counts_unwatched, expected) in [(true, 0), (false, 1)] {
        let mut world =
            world(Config { balance: Balance::Load, age_unwatched: 60 * SECOND, counts_unwatched, ..Config::default() });
        world.open_imaged(1, "A");
        let handle = world.open(1, "B");
        let stream = world.requests(1).last().expect("a request").0;
        world.refresh(1, stream, &[(22, b"1")], RefreshFlags::SOLICITED | RefreshFlags::REFRESH_COMPLETE);
        world.events();
        world.close(1, handle);
        asked(&mut world);
        world.open(1, "C");
        let names = |world: &mut World, id| world.requests(id).into_iter().map(|(_, name, _)| name).collect::<Vec<_>>();
        let of_each = [0, 1].map(|id| names(&mut world, id));
        assert!(of_each[expected].contains(&"C".to_owned()), "{counts_unwatched}: {of_each:?}");
        world.sd.check_invariants();
        // A watcher that comes back for it watches it again, and it goes with its provider.
        world.open(1, "B");
        world.sd.check_invariants();
        world.down(1);
        world.sd.check_invariants();
    }
}
