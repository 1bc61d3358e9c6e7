//! Links that have as many items as they may have, when those of another link want to move there.

use crate::sites::{Manner, Name, World};
use client::Arrangement;
use client::images::Condition;
use rwf::msg::MsgClass;

fn name(service: u16, text: &str) -> Name {
    (service, text.to_owned())
}

/// Two links with room for two items each, and both full: A and B of service 1 at the first, those of service 2 at the second, where alone it is up.
fn full() -> World {
    let mut world = World::with_room(2, Arrangement::Routing, Manner::Knows, 2);
    for service in 1..=2 {
        world.change(&name(service, "A"));
        world.change(&name(service, "B"));
    }
    world.set_service(0, 2, false);
    world.settle();
    world.subscribe(1, &["A", "B"], true);
    world.subscribe(2, &["A", "B"], true);
    world.settle();
    assert_eq!((world.streams(0), world.streams(1)), (2, 2));
    assert!(world.try_subscribe(2, &["C"], true).is_none(), "it is full");
    world.apps.iter_mut().for_each(|app| app.classes.clear());
    world
}

fn conditions(world: &World, app: usize) -> [Condition; 2] {
    [world.condition(app, 0), world.condition(app, 1)]
}

#[test]
fn items_whose_link_is_lost_are_told_so_and_move_when_there_is_room() {
    let mut world = full();
    world.kill(0, false);
    world.talk(usize::MAX);
    assert_eq!(conditions(&world, 0), [Condition::Suspect; 2]);
    assert_eq!(world.apps[0].classes, [(0, MsgClass::STATUS), (1, MsgClass::STATUS)], "each once");
    assert_eq!(world.streams(1), 2, "no room");
    // A single place is free, and one item has it.
    world.client.drop_item(world.now, world.apps[1].id, 0);
    world.talk(usize::MAX);
    assert_eq!(conditions(&world, 0), [Condition::Ok, Condition::Suspect]);
    world.unsubscribe(1);
    world.talk(usize::MAX);
    assert_eq!((conditions(&world, 0), world.streams(1)), ([Condition::Ok; 2], 2));
    // The other link is there again: what has moved stays.
    world.sites[0].is_alive = true;
    world.settle();
    assert_eq!((world.streams(0), world.streams(1)), (0, 2));
}

#[test]
fn items_without_room_elsewhere_have_their_own_link_when_it_is_back() {
    let mut world = full();
    world.kill(0, true);
    world.talk(usize::MAX);
    assert_eq!(conditions(&world, 0), [Condition::Suspect; 2]);
    world.settle();
    assert_eq!((conditions(&world, 0), conditions(&world, 1)), ([Condition::Ok; 2], [Condition::Ok; 2]));
    // Room that comes later is nothing to them.
    world.unsubscribe(1);
    world.settle();
    assert_eq!((world.streams(0), world.streams(1)), (2, 0));
}

#[test]
fn an_item_that_is_closed_for_now_is_asked_for_again_where_it_was_or_where_room_is_first() {
    let mut world = full();
    world.sites[0].is_busy = true;
    world.close_for_now(0, &name(1, "A"));
    world.talk(usize::MAX);
    assert_eq!(conditions(&world, 0), [Condition::Suspect, Condition::Ok]);
    assert_eq!(world.apps[0].classes, [(0, MsgClass::STATUS)]);
    world.client.drop_item(world.now, world.apps[1].id, 1);
    world.talk(usize::MAX);
    assert_eq!((conditions(&world, 0), world.streams(0), world.streams(1)), ([Condition::Ok; 2], 1, 2));
    // And without room it is asked for where it was.
    let mut world = full();
    world.close_for_now(0, &name(1, "A"));
    world.talk(usize::MAX);
    assert_eq!(conditions(&world, 0), [Condition::Suspect, Condition::Ok]);
    world.settle();
    assert_eq!((conditions(&world, 0), world.streams(0)), ([Condition::Ok; 2], 2));
}

#[test]
fn a_service_that_is_down_where_others_have_no_room_leaves_its_items_open() {
    let mut world = full();
    world.set_service(0, 1, false);
    world.talk(usize::MAX);
    // As with one link: the streams are open, and the server says what it has to say of them.
    assert_eq!((conditions(&world, 0), world.apps[0].classes.len()), ([Condition::Ok; 2], 0));
    world.set_service(0, 1, true);
    world.settle();
    assert_eq!((conditions(&world, 0), world.streams(0), world.streams(1)), ([Condition::Ok; 2], 2, 2));
}

#[test]
fn items_that_wait_for_a_service_are_asked_for_where_it_comes_as_far_as_there_is_room() {
    let mut world = World::with_room(2, Arrangement::Routing, Manner::Knows, 2);
    for text in ["A", "B"] {
        world.change(&name(1, text));
        world.change(&name(2, text));
    }
    (0..2).for_each(|site| world.set_service(site, 1, false));
    world.set_service(0, 2, false);
    world.settle();
    world.subscribe(2, &["A", "B"], true);
    world.subscribe(1, &["A", "B"], true);
    world.settle();
    assert_eq!((conditions(&world, 1), world.streams(1)), ([Condition::Suspect; 2], 2));
    // The service comes where there is no room for what waits for it at the other link.
    world.set_service(1, 1, true);
    world.settle();
    assert_eq!((conditions(&world, 1), world.streams(1)), ([Condition::Suspect; 2], 2));
    world.unsubscribe(0);
    world.settle();
    assert_eq!((conditions(&world, 0), world.streams(1)), ([Condition::Ok; 2], 2));
}
