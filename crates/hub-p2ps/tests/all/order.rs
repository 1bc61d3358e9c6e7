//! Source Distributors in an order: the first has the items, the others take over, and items go back or where an operator wants them.

use crate::world::*;
use hub_p2ps::{Config, Notice, SourceId, SwitchError};
use rwf::Qos;
use rwf::rdm::directory::ServiceState;

/// Seconds after which items go back.
const DECISION: u64 = 10;

/// "one" is to be asked first, and has number 1; "two" has number 0. Both have FEED, and client 1 is there.
fn world() -> World {
    let source_order = vec!["one".to_owned(), "two".to_owned()];
    let mut world = World::with(Config { source_order, source_failback: DECISION * SECOND, ..Config::default() });
    for (id, name) in [(0, "two"), (1, "one")] {
        world.p2ps.name_source(SourceId(id), name);
        come(&mut world, id);
    }
    world.clients([1]);
    notices(&mut world);
    world
}

/// Client 1 opens an item, which is asked for at this source and gets an image.
fn open_at(world: &mut World, at: u16, stream: i32, name: &str) {
    world.request(1, &item(stream, name));
    answer(world, at, stream as u32);
    assert_eq!(world.take(1).len(), 1, "an image");
}

/// The only open is at this source, and gets its image.
fn answer(world: &mut World, at: u16, handle: u32) {
    let asked = world.asked();
    assert!(asked.len() == 1 && asked[0].starts_with(&format!("{at}: open ")), "{asked:?}");
    world.publish(at, |p| {
        p.opened(token_of(&asked[0]), handle).image(handle, &[(22, 8)]);
    });
}

/// The only item goes from one source, where it has this handle, to another: the token of its open there.
fn goes(world: &mut World, (from, handle): (u16, u32), to: u16) -> u32 {
    let asked = world.asked();
    let close = format!("{from}: close {handle}");
    let opens: Vec<&String> = asked.iter().filter(|words| words.starts_with(&format!("{to}: open "))).collect();
    assert!(asked.len() == 2 && asked.contains(&close) && opens.len() == 1, "{asked:?}");
    token_of(opens[0])
}

fn state(world: &mut World, id: u16, up: bool) {
    world.publish(id, |p| {
        p.service_with(40, info("FEED", &[6, 8], &[Qos::REALTIME_TICK]), ServiceState::new(up));
    });
}

/// Name, open and opening of the sources of FEED, in their order.
fn served(world: &World) -> Vec<(String, usize, usize)> {
    let feed = world.p2ps.service_overview().find(|service| service.name == "FEED").expect("the service");
    feed.sources.iter().map(|source| (source.name.to_owned(), source.open, source.opening)).collect()
}

fn switched(from: &str, to: &str, items: u64, by_hand: bool) -> Notice {
    Notice::ItemsSwitched { service: "FEED".into(), from: from.into(), to: to.into(), items, by_hand }
}

fn first(source: &str, before: &str) -> Notice {
    Notice::FirstSource { service: "FEED".into(), source: source.into(), before: before.into() }
}

fn whole(items: u64, took: u64) -> Notice {
    Notice::ItemsWhole { service: "FEED".into(), items, took }
}

#[test]
fn the_first_of_the_order_is_asked_whatever_its_number() {
    let mut world = world();
    open_at(&mut world, 1, 5, "A");
    assert_eq!(served(&world), [("one".into(), 1, 0), ("two".into(), 0, 0)]);
}

#[test]
fn items_go_to_the_next_one_and_back_when_the_first_is_there_for_long_enough() {
    let mut world = world();
    open_at(&mut world, 1, 5, "A");
    world.source_down(1);
    assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT"]);
    world.pass(SECOND / 4);
    answer(&mut world, 0, 3);
    assert_eq!(world.take(1), ["refresh 5 clear complete OPEN/OK group 3 key 1:A 22=8"]);
    let lost = Notice::SourceLost { source: "one".into(), items: 1, why: "is not reachable" };
    assert_eq!(notices(&mut world), [first("two", "one"), lost, whole(1, SECOND / 4)]);

    come(&mut world, 1);
    assert_eq!(notices(&mut world), [first("one", "two")]);
    open_at(&mut world, 1, 6, "B");
    world.pass((DECISION - 1) * SECOND);
    assert!(world.asked().is_empty(), "not before its time");
    assert_eq!(world.p2ps.timeout().map(|at| at.min(world.now + SECOND)), Some(world.now + SECOND));
    world.pass(SECOND);
    assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT"], "told once");
    let token = goes(&mut world, (0, 3), 1);
    world.publish(1, |p| {
        p.opened(token, 9).image(9, &[(22, 7)]);
    });
    assert_eq!(world.take(1), ["refresh 5 clear complete OPEN/OK group 1.0.3 key 1:A 22=7"]);
    assert_eq!(notices(&mut world), [switched("two", "one", 1, false), whole(1, 0)]);
    world.pass(3 * DECISION * SECOND);
    assert!(world.asked().is_empty(), "and stay there");
}

#[test]
fn a_service_that_is_down_at_the_first_goes_back_to_it_as_well() {
    let mut world = world();
    open_at(&mut world, 1, 5, "A");
    state(&mut world, 1, false);
    assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT"]);
    assert_eq!(
        world.p2ps.notices().next(),
        Some(Notice::ItemsMoved { service: "FEED".into(), source: "one".into(), items: 1 })
    );
    let token = goes(&mut world, (1, 5), 0);
    world.publish(0, |p| {
        p.opened(token, 3).image(3, &[(22, 8)]);
    });
    world.take(1);
    state(&mut world, 1, true);
    world.pass((DECISION - 1) * SECOND);
    state(&mut world, 1, false);
    state(&mut world, 1, true);
    world.pass(2 * SECOND);
    assert!(world.asked().is_empty(), "each break begins the time anew");
    world.pass(DECISION * SECOND);
    goes(&mut world, (0, 3), 1);
    world.take(1);
}

#[test]
fn an_open_on_its_way_while_the_others_go_back_follows_them() {
    let mut world = world();
    world.source_down(1);
    world.request(1, &item(5, "A"));
    let token = world.token();
    world.asked();
    come(&mut world, 1);
    world.pass(DECISION * SECOND);
    world.publish(0, |p| {
        p.opened(token, 3).image(3, &[(22, 8)]);
    });
    assert_eq!(world.take(1).len(), 1, "an image");
    world.pass(SECOND);
    goes(&mut world, (0, 3), 1);
    world.take(1);
}

#[test]
fn an_item_that_the_first_does_not_have_stays_where_it_is() {
    let mut world = world();
    world.publish(1, |p| {
        p.service_with(40, info("FEED", &[8], &[Qos::REALTIME_TICK]), ServiceState::new(true));
    });
    open_at(&mut world, 0, 5, "A");
    world.pass(2 * DECISION * SECOND);
    assert!(world.asked().is_empty());
}

#[test]
fn without_an_order_items_stay_until_somebody_says_so() {
    let mut world = World::with(Config { source_failback: DECISION * SECOND, ..Config::default() });
    for (id, name) in [(0, "zero"), (1, "one")] {
        world.p2ps.name_source(SourceId(id), name);
    }
    come(&mut world, 1);
    world.clients([1]);
    open_at(&mut world, 1, 5, "A");
    come(&mut world, 0);
    world.pass(2 * DECISION * SECOND);
    assert!(world.asked().is_empty(), "the one that was seen first has new items, and no old ones");
    open_at(&mut world, 0, 6, "B");
}

#[test]
fn an_operator_switches_and_the_order_counts_again_when_that_source_is_gone() {
    let mut world = world();
    open_at(&mut world, 1, 5, "A");
    let now = world.now;
    let switch = |world: &mut World, service: &str, to| world.p2ps.switch_source(now, service, to);
    assert_eq!(switch(&mut world, "NONE", None), Err(SwitchError::NoService("NONE".into())));
    let (source, known) = ("three".to_owned(), vec!["one".to_owned(), "two".to_owned()]);
    assert_eq!(switch(&mut world, "FEED", Some("three")), Err(SwitchError::NoSource { source, known }));

    assert_eq!(switch(&mut world, "FEED", Some("two")), Ok(1));
    world.settle();
    assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT"]);
    let token = goes(&mut world, (1, 5), 0);
    world.publish(0, |p| {
        p.opened(token, 3).image(3, &[(22, 8)]);
    });
    world.take(1);
    assert_eq!(served(&world), [("two".into(), 1, 0), ("one".into(), 0, 0)]);
    assert_eq!(notices(&mut world), [first("two", "one"), switched("one", "two", 1, true), whole(1, 0)]);
    world.pass(3 * DECISION * SECOND);
    assert!(world.asked().is_empty(), "it stays there");

    world.source_down(0);
    world.take(1);
    answer(&mut world, 1, 8);
    world.take(1);
    come(&mut world, 0);
    open_at(&mut world, 1, 6, "B");
    state(&mut world, 0, false);
    let source = "two".to_owned();
    assert_eq!(switch(&mut world, "FEED", Some("two")), Err(SwitchError::NotUp { source }));
    assert_eq!(switch(&mut world, "FEED", None), Ok(0), "all are there");
}

#[test]
fn a_reload_changes_the_order() {
    let mut world = world();
    open_at(&mut world, 1, 5, "A");
    let source_order = vec!["two".to_owned()];
    world.p2ps.reconfigure(&Config { source_order, source_failback: SECOND, ..Config::default() });
    open_at(&mut world, 0, 6, "B");
    world.pass(SECOND);
    goes(&mut world, (1, 5), 0);
    world.take(1);
}
