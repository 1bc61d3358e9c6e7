//! Preemption: at a provider's limit an item of a higher class takes the place of one of a lower class.

use crate::world::*;
use hub_content::cache::rules::NamePattern;
use hub_distributor::{Config, ItemPriorities, ItemPriority, LockError, Notice, RouteConfig};
use hub_stream::{Kind, Request, flags};
use rwf::msg::{Msg, Priority, RefreshFlags, RequestMsg};
use rwf::rdm::directory::Load;
use rwf::{DataState, StateCode};

const RETRY: u64 = 180;

/// P2PSs 1 and 2, and provider 0 of FEED, which takes this many items.
fn world(limit: u64, change: impl FnOnce(&mut Config)) -> World {
    let mut config = Config { preemption: true, ..Config::default() };
    change(&mut config);
    let mut world = World::with_two_p2pss(config);
    let load = Load { open_limit: Some(limit), ..Load::default() };
    world.directory_update(0, vec![with_load(state_update(7, true, true), load)]);
    world.events();
    world
}

fn of_class(name: &str, class: u8) -> RequestMsg<'_> {
    RequestMsg { priority: Some(Priority { class, count: 1 }), ..request(name) }
}

/// Opens an item of a class; its handle.
fn open(world: &mut World, name: &str, class: u8) -> u32 {
    let token = world.open_request(1, 1, flags::STREAMING, &of_class(name, class));
    world.turn();
    let events = world.events();
    events.iter().find(|event| event.kind == Kind::ItemOpened && event.arg == token).expect("it is opened").handle
}

/// What went to the provider: names asked for, and streams closed.
fn sent(world: &mut World) -> (Vec<String>, Vec<i32>) {
    let (mut asked, mut closed) = (Vec::new(), Vec::new());
    for bytes in world.sent(0) {
        match Msg::decode(&bytes).unwrap() {
            Msg::Request(request) => asked.push(request.key.name_lossy().into_owned()),
            Msg::Close(close) => closed.push(close.stream_id),
            _ => {}
        }
    }
    (asked, closed)
}

#[test]
fn a_higher_class_takes_the_place_of_the_lowest() {
    let mut world = world(2, |_| {});
    let (low, at_low) = world.open_imaged(1, "LOW");
    let (_, _) = world.open_imaged(1, "SHARED");
    // Two ask for it.
    world.open_with(2, "SHARED", flags::STREAMING);
    world.events();
    world.sent(0);
    let token = world.open_request(1, 1, flags::STREAMING, &of_class("HIGH", 3));
    let events = world.events();
    assert!(events.iter().any(|event| event.kind == Kind::ItemOpened && event.arg == token));
    let status = events.iter().find(|event| event.kind == Kind::ItemStatus && event.handle == low).expect("a status");
    assert_eq!((status.state().data, status.state().code), (DataState::SUSPECT, StateCode::PREEMPTED));
    let asked = world.sent(0);
    let Msg::Request(high) = Msg::decode(asked.last().expect("a request")).unwrap() else { panic!("{asked:?}") };
    assert_eq!(high.key.name_lossy(), "HIGH");
    let Msg::Close(close) = Msg::decode(&asked[0]).unwrap() else { panic!("{asked:?}") };
    assert_eq!((close.stream_id, asked.len()), (at_low, 2));
    world.refresh(0, high.stream_id, &[(22, b"1")], RefreshFlags::SOLICITED | RefreshFlags::REFRESH_COMPLETE);
    let notices: Vec<String> = world.sd.notices().map(|notice: Notice| notice.to_string()).collect();
    assert!(
        notices.iter().any(|line| line.contains("item \"LOW\" of service FEED is closed at provider provider0:14002")),
        "{notices:?}"
    );
    assert_eq!(world.sd.counters().preempted, 1);
    // The item is asked for again after a while, and waits as long as there is no place.
    world.pass(RETRY + 1);
    assert!(sent(&mut world).0.iter().all(|name| name != "LOW"));
    let handle = events.iter().find(|event| event.kind == Kind::ItemOpened).expect("opened").handle;
    world.close(1, handle);
    world.turn();
    assert!(sent(&mut world).0.contains(&"LOW".to_owned()), "there is a place again");
    world.events();
}

#[test]
fn equal_and_usual_classes_wait() {
    let mut world = world(1, |_| {});
    open(&mut world, "A", 2);
    sent(&mut world);
    for (name, class) in [("B", 1), ("C", 2)] {
        open(&mut world, name, class);
        assert_eq!(sent(&mut world), (vec![], vec![]), "{name}");
    }
    open(&mut world, "D", 3);
    assert_eq!(sent(&mut world).0, ["D"], "however many wait before it");
}

#[test]
fn what_waits_and_is_wanted_more_takes_a_place() {
    let mut world = world(1, |_| {});
    world.open_imaged(1, "A");
    let waiting = open(&mut world, "B", 1);
    assert_eq!(sent(&mut world), (vec![], vec![]));
    let rwf = bytes_of(|w| of_class("B", 4).encode(w));
    world.request(1, &Request::Reissue { handle: waiting, serial: None, in_stream: false, rwf: &rwf }).unwrap();
    assert_eq!(sent(&mut world).0, ["B"]);
    world.events();
}

#[test]
fn locked_items_and_streams_of_one_give_way_to_nobody() {
    let mut world = world(2, |config| config.locked_items = vec![NamePattern::new("LOCK*")]);
    open(&mut world, "LOCKED", 1);
    world.open_with(1, "PRIVATE", flags::STREAMING | flags::PRIVATE);
    world.turn();
    world.events();
    assert_eq!(sent(&mut world).0, ["LOCKED", "PRIVATE"]);
    open(&mut world, "HIGH", 9);
    assert_eq!(sent(&mut world), (vec![], vec![]));
}

#[test]
fn items_have_the_priorities_of_a_list_and_the_locks_of_operators() {
    let mut world = world(1, |config| {
        config.item_priorities.add("FEED", b"DESK", ItemPriority::Class(5));
        config.item_priorities.add("", b"INDEX", ItemPriority::Locked);
    });
    open(&mut world, "A", 1);
    assert_eq!(sent(&mut world).0, ["A"]);
    // Nobody asks for it with a class.
    open(&mut world, "DESK", 1);
    assert_eq!(sent(&mut world).0, ["DESK"]);
    open(&mut world, "B", 4);
    assert_eq!(sent(&mut world), (vec![], vec![]), "what the list says is more");
    world.sd.lock_item("FEED", b"DESK", "a test").unwrap();
    assert_eq!(world.sd.lock_item("FEED", b"DESK", "again"), Err(LockError::Already));
    open(&mut world, "C", 9);
    assert_eq!(sent(&mut world), (vec![], vec![]), "it is locked");
    assert_eq!(world.sd.locked_items().collect::<Vec<_>>(), [("FEED", &b"DESK"[..], "a test")]);
    assert!(world.sd.unlock_item("FEED", b"DESK") && !world.sd.unlock_item("FEED", b"DESK"));
    let index = open(&mut world, "INDEX", 9);
    assert_eq!(sent(&mut world).0, ["INDEX"]);
    open(&mut world, "D", 10);
    assert_eq!(sent(&mut world), (vec![], vec![]), "the list locks it");
    world.sd.set_item_priorities(ItemPriorities::default());
    world.close(1, index);
    world.turn();
    assert_eq!(sent(&mut world).0.len(), 1, "there is a place");
}

#[test]
fn a_route_may_have_a_lower_limit_than_its_provider() {
    let mut world = world(3, |config| config.routes = vec![RouteConfig { max_items: 1, ..RouteConfig::default() }]);
    let (a, _) = world.open_imaged(1, "A");
    world.sent(0);
    open(&mut world, "B", 1);
    assert_eq!(sent(&mut world), (vec![], vec![]));
    open(&mut world, "C", 2);
    assert_eq!(sent(&mut world).0, ["C"], "in the place of A");
    world.close(1, a);
    world.turn();
    assert_eq!(sent(&mut world), (vec![], vec![]));
}

#[test]
fn without_preemption_all_wait() {
    let mut world = world(1, |config| config.preemption = false);
    open(&mut world, "A", 1);
    open(&mut world, "B", 9);
    assert_eq!(sent(&mut world).0, ["A"]);
}

#[test]
fn an_item_that_waits_for_its_first_image_gives_way_too() {
    let mut world = world(1, |_| {});
    let low = open(&mut world, "LOW", 1);
    let token = world.open_request(1, 1, flags::STREAMING, &of_class("HIGH", 2));
    let events = world.events();
    assert!(events.iter().any(|event| event.kind == Kind::ItemOpened && event.arg == token));
    let told =
        events.iter().find(|event| event.kind == Kind::ItemStatus && event.handle == low).expect("it is told why");
    assert_eq!(told.state().data, DataState::SUSPECT);
    let (asked, closed) = sent(&mut world);
    assert_eq!((asked, closed.len()), (vec!["LOW".to_owned(), "HIGH".to_owned()], 1));
}
