//! Providers in an order: the first has the items, the others stand by; items go back to the first, or where an operator wants them.

use crate::world::*;
use hub_distributor::{Balance, Config, Notice, ServiceConfig, SwitchError};
use hub_stream::{Kind, flags};
use rwf::msg::{Msg, RefreshFlags};
use rwf::rdm::directory::{self, Load};

const WHOLE: RefreshFlags = RefreshFlags(RefreshFlags::SOLICITED.0 | RefreshFlags::REFRESH_COMPLETE.0);
/// Seconds after which items go back.
const DECISION: u64 = 10;

/// P2PS 1, and providers 0 and 1 of FEED in this order.
fn world(change: impl FnOnce(&mut Config)) -> World {
    let mut config = Config { balance: Balance::First, failback: DECISION * SECOND, ..Config::default() };
    change(&mut config);
    let mut world = World::new(config);
    world.p2ps_up(1);
    for id in [0, 1] {
        world.route_up(id);
        world.directory(id, vec![service(7, "FEED")]);
    }
    world.events();
    world.sent(0);
    world.sent(1);
    world
}

fn back(world: &mut World, id: u32) {
    world.route_up(id);
    world.directory(id, vec![service(7, "FEED")]);
    world.events();
    world.sent(id);
}

/// Provider `from` is lost with item A, and `to` has it whole.
fn taken_over(world: &mut World, from: u32, to: u32) -> u32 {
    let (handle, _) = world.open_imaged(1, "A");
    world.down(from);
    world.events();
    let stream = world.requests(to)[0].0;
    world.refresh(to, stream, &[(22, b"2")], WHOLE);
    assert!(world.events()[0].handle == handle);
    handle
}

/// What a provider was told of its part since the last call, as `SourceMirroringMode`.
fn roles(world: &mut World, id: u32) -> Vec<u64> {
    let sent = world.sent(id);
    let statuses = sent.iter().filter_map(|bytes| match Msg::decode(bytes).unwrap() {
        Msg::Generic(generic) => directory::ConsumerStatus::decode(&generic).unwrap(),
        _ => None,
    });
    let modes = |status: directory::ConsumerStatus| {
        assert_eq!((status.stream_id, status.services.len(), status.services[0].service_id), (2, 1, 7));
        status.services[0].mirroring.unwrap()
    };
    statuses.map(modes).collect()
}

fn switched(world: &mut World) -> Vec<(String, String, usize, bool)> {
    let notices = world.sd.notices().filter_map(|notice| match notice {
        Notice::ItemsSwitched { from, to, items, by_hand, .. } => Some((from, to, items, by_hand)),
        _ => None,
    });
    notices.collect()
}

#[test]
fn items_go_back_to_the_first_provider_when_it_is_there_for_long_enough() {
    let mut world = world(|_| {});
    let handle = taken_over(&mut world, 0, 1);
    back(&mut world, 0);
    world.pass(DECISION - 1);
    assert!(world.requests(0).is_empty() && world.events().is_empty(), "not before its time");
    world.pass(2);
    assert_eq!(world.closes(1).len(), 1);
    let stream = world.requests(0)[0].0;
    let kinds: Vec<Kind> = world.events().iter().map(|e| e.kind).collect();
    assert_eq!(kinds, [Kind::ServiceStatus], "those who watch are told once, and the service stays up");
    world.refresh(0, stream, &[(22, b"3")], WHOLE);
    let events = world.events();
    assert!(events[0].handle == handle && events[0].has(flags::RECOVERY));
    let named = |n: u32| format!("provider{n}:14002");
    assert_eq!(switched(&mut world), [(named(1), named(0), 1, false)]);
    world.pass(3 * DECISION);
    assert!(world.requests(1).is_empty() && world.closes(0).is_empty(), "and stay there");
}

#[test]
fn providers_hear_whether_they_are_asked_or_stand_by() {
    const ALONE: u64 = 0;
    const ACTIVE: u64 = 1;
    const STANDBY: u64 = 2;
    let mut world = World::new(Config { balance: Balance::First, failback: DECISION * SECOND, ..Config::default() });
    world.p2ps_up(1);
    let come = |world: &mut World, id: u32| {
        world.route_up(id);
        world.directory(id, vec![service(7, "FEED")]);
        world.events();
    };
    come(&mut world, 0);
    assert_eq!(roles(&mut world, 0), [ALONE]);
    come(&mut world, 1);
    assert_eq!((roles(&mut world, 0), roles(&mut world, 1)), (vec![ACTIVE], vec![STANDBY]));
    let (_, stream) = world.open_imaged(1, "A");
    world.down(0);
    assert_eq!(roles(&mut world, 1), [ALONE]);
    world.refresh(1, stream, &[(22, b"2")], WHOLE);
    come(&mut world, 0);
    assert_eq!((roles(&mut world, 0), roles(&mut world, 1)), (vec![ACTIVE], vec![ACTIVE]), "it has the items still");
    world.pass(DECISION + 1);
    assert_eq!((roles(&mut world, 0), roles(&mut world, 1)), (vec![], vec![STANDBY]));
}

#[test]
fn where_all_serve_nobody_hears_of_a_part() {
    let mut world = world(|config| config.balance = Balance::Load);
    back(&mut world, 0);
    assert_eq!((roles(&mut world, 0), roles(&mut world, 1)), (vec![], vec![]));
}

#[test]
fn a_provider_that_comes_and_goes_gets_nothing_before_it_stays() {
    let mut world = world(|_| {});
    taken_over(&mut world, 0, 1);
    for _ in 0..4 {
        back(&mut world, 0);
        world.pass(DECISION - 2);
        world.directory_update(0, vec![state_update(7, false, true)]);
        world.pass(1);
        world.directory_update(0, vec![state_update(7, true, true)]);
        world.pass(DECISION - 2);
        assert!(world.requests(0).is_empty(), "up for less than the time of decision");
        world.down(0);
        world.events();
    }
    back(&mut world, 0);
    world.pass(DECISION + 1);
    assert_eq!(world.requests(0).len(), 1);
}

#[test]
fn a_standby_that_comes_back_changes_nothing() {
    let mut world = world(|_| {});
    world.open_imaged(1, "A");
    world.sent(0);
    world.down(1);
    back(&mut world, 1);
    world.pass(3 * DECISION);
    assert!(world.closes(0).is_empty() && world.requests(1).is_empty());
}

#[test]
fn a_full_window_is_waited_for_and_no_reason_to_ask_a_standby() {
    let mut world = world(|config| config.open_window = 1);
    world.open(1, "A");
    world.open(1, "B");
    assert_eq!((world.requests(0).len(), world.requests(1).len()), (1, 0));
    world.refresh(0, 5, &[(22, b"1")], WHOLE);
    assert_eq!((world.requests(0).len(), world.requests(1).len()), (1, 0), "its turn has come");
}

#[test]
fn what_the_first_has_no_room_for_stays_with_the_standby() {
    let mut world = world(|_| {});
    let full = with_load(state_update(7, true, true), Load { open_limit: Some(0), ..Load::default() });
    world.directory_update(0, vec![full]);
    world.open(1, "A");
    let (there, stream) = (world.requests(0).len(), world.requests(1)[0].0);
    assert_eq!(there, 0);
    world.refresh(1, stream, &[(22, b"1")], WHOLE);
    world.down(0);
    back(&mut world, 0);
    let full = with_load(state_update(7, true, true), Load { open_limit: Some(0), ..Load::default() });
    world.directory_update(0, vec![full]);
    world.pass(DECISION + 1);
    assert!(world.closes(1).is_empty() && world.requests(0).is_empty());
}

#[test]
fn an_operator_switches_and_takes_it_back() {
    let mut world = world(|_| {});
    let (handle, _) = world.open_imaged(1, "A");
    world.sent(0);
    let to = |world: &mut World, provider: Option<&str>| {
        world.sd.switch_provider(world.now, "FEED", provider, &mut world.sent)
    };
    assert_eq!(to(&mut world, Some("provider1:14002")), Ok(1));
    assert_eq!(world.closes(0).len(), 1);
    let stream = world.requests(1)[0].0;
    world.events();
    world.refresh(1, stream, &[(22, b"2")], WHOLE);
    assert!(world.events()[0].handle == handle);
    // The order of the routes does not count meanwhile, and new items go there too.
    world.pass(3 * DECISION);
    world.open(1, "B");
    assert!(world.requests(0).is_empty());
    assert_eq!(world.requests(1).len(), 1);
    assert_eq!(to(&mut world, None), Ok(2));
    assert_eq!((world.closes(1).len(), world.requests(0).len()), (2, 2));
    assert!(switched(&mut world).iter().all(|(.., by_hand)| *by_hand));
}

#[test]
fn a_switch_ends_with_its_provider() {
    let mut world = world(|_| {});
    world.open_imaged(1, "A");
    let now = world.now;
    world.sd.switch_provider(now, "FEED", Some("provider1:14002"), &mut world.sent).unwrap();
    world.turn();
    world.sent(0);
    world.sent(1);
    world.down(1);
    let requests = world.requests(0);
    assert_eq!(requests.len(), 1, "the next one takes over");
    world.refresh(0, requests[0].0, &[(22, b"3")], WHOLE);
    back(&mut world, 1);
    world.pass(3 * DECISION);
    assert!(world.requests(1).is_empty() && world.closes(0).is_empty(), "the order of the routes counts again");
}

#[test]
fn a_switch_to_where_nothing_is_is_refused() {
    let mut world = world(|_| {});
    let now = world.now;
    let mut to = |service: &str, provider| world.sd.switch_provider(now, service, Some(provider), &mut world.sent);
    assert_eq!(to("FEED2", "provider1:14002"), Err(SwitchError::NoService("FEED2".into())));
    let known = vec!["provider0:14002".to_owned(), "provider1:14002".to_owned()];
    assert_eq!(to("FEED", "provider9:1"), Err(SwitchError::NoProvider { provider: "provider9:1".into(), known }));
    world.directory_update(1, vec![state_update(7, false, true)]);
    let refused = world.sd.switch_provider(now, "FEED", Some("provider1:14002"), &mut world.sent);
    assert_eq!(refused, Err(SwitchError::NotUp { provider: "provider1:14002".into() }));
}

#[test]
fn items_are_switched_in_turns() {
    let mut world = world(|config| config.work_per_turn = 3);
    for n in 0..10 {
        world.open(1, &format!("I{n}"));
    }
    world.requests(0);
    let now = world.now;
    assert_eq!(world.sd.switch_provider(now, "FEED", Some("provider1:14002"), &mut world.sent), Ok(10));
    assert!(world.closes(0).len() <= 3);
    world.turn();
    assert_eq!(world.requests(1).len(), 10);
    assert_eq!(switched(&mut world).iter().map(|(_, _, items, _)| items).sum::<usize>(), 10);
}

#[test]
fn items_go_back_in_the_one_service_for_which_that_is_set() {
    let own = ServiceConfig { failback: Some(3 * SECOND), ..ServiceConfig::default() };
    let services = [("FEED".to_owned(), own)].into();
    let mut world = world(|config| (config.failback, config.services) = (0, services));
    taken_over(&mut world, 0, 1);
    back(&mut world, 0);
    world.pass(2);
    assert!(world.requests(0).is_empty(), "not before its time");
    world.pass(2);
    assert_eq!((world.requests(0).len(), world.closes(1).len()), (1, 1));
    // Where it is set that none go back, they stay, whatever is said for all.
    let own = ServiceConfig { failback: Some(0), ..ServiceConfig::default() };
    let services = [("FEED".to_owned(), own)].into();
    let mut world = self::world(|config| config.services = services);
    taken_over(&mut world, 0, 1);
    back(&mut world, 0);
    world.pass(3 * DECISION);
    assert!(world.requests(0).is_empty() && world.closes(1).is_empty());
}
