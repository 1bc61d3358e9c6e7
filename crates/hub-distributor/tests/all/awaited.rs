//! Items that are asked for before a non-interactive provider has published them.

use crate::world::*;
use hub_distributor::Config;
use hub_stream::{Kind, flags};
use rwf::{DataState, StateCode, StreamState};

/// How long a new provider is given, in seconds.
const PATIENCE: u64 = 5;

/// P2PS 1, and a provider of `NI_PUB` (3) whose directory has just come.
fn world() -> World {
    let mut world = World::new(Config { publication_patience: PATIENCE * SECOND, ..Config::default() });
    world.p2ps_up(1);
    world.nip_up(0);
    world.directory(0, vec![service(3, "NI_PUB")]);
    world.events();
    world.sent(0);
    world
}

fn opened(world: &mut World, name: &str, bits: u8) -> Vec<Kind> {
    world.open_with(1, name, bits);
    world.kinds()
}

#[test]
fn an_item_that_is_asked_for_before_its_first_image_gets_it() {
    let mut world = world();
    assert_eq!(opened(&mut world, "A", flags::STREAMING), [Kind::ItemOpened, Kind::ItemStatus]);
    world.publish(0, 7, 3, "A", &[(22, b"1")]);
    let events = world.events();
    assert_eq!(events.iter().map(|event| event.kind).collect::<Vec<_>>(), [Kind::Image]);
    assert_eq!(
        (events[0].image().state.data, fields_of(events[0].image().body)),
        (DataState::OK, vec![(22, b"1".to_vec())])
    );
    world.pass(2 * PATIENCE);
    assert!(world.events().iter().all(|event| event.kind == Kind::Heartbeat), "what is published does not end");
    world.sd.check_invariants();
}

#[test]
fn an_item_that_nobody_publishes_is_told_so_when_its_provider_has_had_time() {
    let mut world = world();
    assert_eq!(opened(&mut world, "A", flags::STREAMING), [Kind::ItemOpened, Kind::ItemStatus]);
    world.pass(PATIENCE - 1);
    assert!(world.events().iter().all(|event| event.kind == Kind::Heartbeat));
    world.pass(2);
    let events = world.events();
    let ends: Vec<_> = events.iter().filter(|event| event.kind == Kind::ItemStatus).collect();
    assert_eq!(ends.len(), 1, "{events:?}");
    assert!(ends[0].has(flags::CLOSED));
    assert_eq!((ends[0].state().stream, ends[0].state().code), (StreamState::CLOSED, StateCode::NOT_FOUND));
    assert_eq!(opened(&mut world, "A", flags::STREAMING), [Kind::Refused], "the provider is known by now");
    // Another provider of the service may have it.
    world.nip_up(1);
    world.directory(1, vec![service(3, "NI_PUB")]);
    world.events();
    assert_eq!(opened(&mut world, "A", flags::STREAMING), [Kind::ItemOpened, Kind::ItemStatus]);
    world.sd.check_invariants();
}

/// A provider of many items is at them for longer than one of few: who asks for the last of them must not hear that there is none.
#[test]
fn an_item_is_waited_for_while_others_go_on_to_be_published() {
    let mut world = world();
    assert_eq!(opened(&mut world, "LAST", flags::STREAMING), [Kind::ItemOpened, Kind::ItemStatus]);
    let mut items = 0;
    let mut publish = |world: &mut World| {
        items += 1;
        world.publish(0, 7 + items, 3, &format!("I{items}"), &[(22, b"1")]);
    };
    for _ in 0..PATIENCE + 2 {
        publish(&mut world);
        world.pass(PATIENCE - 1);
        assert!(world.events().iter().all(|event| event.kind == Kind::Heartbeat), "it is on its way");
    }
    // A P2PS that asks only now waits as well.
    assert_eq!(opened(&mut world, "LATER", flags::STREAMING), [Kind::ItemOpened, Kind::ItemStatus]);
    publish(&mut world);
    world.publish(0, 7, 3, "LAST", &[(22, b"1")]);
    assert_eq!(world.kinds(), [Kind::Image]);
    // The image is not waited for without an end, whatever else is published.
    for _ in 0..3 * 12 {
        publish(&mut world);
        world.pass(PATIENCE / 2);
    }
    let events = world.events();
    let ends: Vec<_> = events.iter().filter(|event| event.kind == Kind::ItemStatus).collect();
    assert!(ends.len() == 1 && ends[0].has(flags::CLOSED), "{events:?}");
    assert_eq!(opened(&mut world, "NEVER", flags::STREAMING), [Kind::Refused]);
    world.sd.check_invariants();
}

#[test]
fn an_item_that_is_wanted_back_waits_for_as_long_as_it_is_watched() {
    let mut world = world();
    world.pass(10 * PATIENCE);
    world.events();
    let wanted = flags::STREAMING | flags::WANTED_BACK;
    world.open_with(1, "A", wanted);
    let events = world.events();
    assert_eq!(events.iter().map(|event| event.kind).collect::<Vec<_>>(), [Kind::ItemOpened, Kind::ItemStatus]);
    assert_eq!(events[1].state().stream, StreamState::OPEN);
    world.pass(1_000);
    assert!(world.events().iter().all(|event| event.kind == Kind::Heartbeat));
    world.publish(0, 7, 3, "A", &[(22, b"1")]);
    assert_eq!(world.kinds(), [Kind::Image]);
    world.sd.check_invariants();
}

#[test]
fn who_wants_an_item_back_keeps_it_for_those_who_ask_for_the_first_time() {
    let mut world = world();
    assert_eq!(opened(&mut world, "A", flags::STREAMING), [Kind::ItemOpened, Kind::ItemStatus]);
    world.p2ps_up(2);
    world.events();
    world.open_with(2, "A", flags::STREAMING | flags::WANTED_BACK);
    world.pass(2 * PATIENCE);
    assert!(world.events().iter().all(|event| !event.has(flags::CLOSED) || event.kind != Kind::ItemStatus));
    world.publish(0, 7, 3, "A", &[(22, b"1")]);
    assert!(world.kinds().contains(&Kind::Image));
    world.sd.check_invariants();
}

#[test]
fn an_item_whose_image_has_begun_waits_for_the_next_one() {
    let mut world = world();
    let handle = world.open(1, "A");
    world.message(0, |w| {
        let key = rwf::msg::MsgKey { service_id: Some(3), name: Some(b"A"), ..Default::default() };
        let body = field_list(&[(22, b"1")]);
        let flags = rwf::msg::RefreshFlags::CLEAR_CACHE;
        let part = rwf::msg::RefreshMsg {
            flags,
            part_num: Some(0),
            key: Some(key),
            container: rwf::DataType::FIELD_LIST,
            body: &body,
            ..rwf::msg::RefreshMsg::new(rwf::msg::Domain::MARKET_PRICE, -7)
        };
        part.encode(w)
    });
    let begun = world.events();
    assert!(begun.iter().any(|event| event.kind == Kind::Image && event.handle == handle), "{begun:?}");
    world.down(0);
    world.nip_up(0);
    world.directory(0, vec![service(3, "NI_PUB")]);
    world.pass(3 * PATIENCE);
    let events = world.events();
    assert!(events.iter().all(|event| event.kind != Kind::ItemStatus || !event.has(flags::CLOSED)), "{events:?}");
    world.publish(0, 7, 3, "A", &[(22, b"2")]);
    assert!(world.events().iter().any(|event| event.kind == Kind::Image && event.handle == handle));
    world.sd.check_invariants();
}
