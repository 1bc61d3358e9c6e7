//! Items that servers open by themselves for a symbol list, when there are several servers.

use crate::opened;
use crate::sites::{Manner, Name, SECOND, World, payload};
use client::Arrangement;
use client::images::Condition;
use rwf::msg::{Domain, MsgClass};

fn name(service: u16, text: &str) -> Name {
    (service, text.to_owned())
}

/// A server opens an item on a stream of its own, or sends its image once more; `number` counts changes.
fn provide(world: &mut World, site: usize, stream_id: i32, name: &str, number: u64) {
    world.say(site, &opened::image(stream_id, name, &payload(&[(1, number), (2, number * 10)])));
}

fn update(world: &mut World, site: usize, stream_id: i32, number: u64) {
    world.say(site, &opened::update(stream_id, &payload(&[(1, number), (2, number * 10)])));
}

/// Two servers that open what the list LIST names, which is open; the application has seen it, and A and B in it.
fn world(arrangement: Arrangement) -> World {
    let mut world = World::new(2, arrangement, Manner::Knows);
    for text in ["LIST", "A", "B", "C"] {
        world.change(&name(1, text));
    }
    world.settle();
    let list = |request: &mut omm::consumer::ItemRequest| {
        (request.domain, request.data_streams) = (Domain::SYMBOL_LIST, true);
    };
    world.try_subscribe_to(1, &["LIST"], list).expect("room");
    world.talk(usize::MAX);
    world.extend_listed(0, &["A", "B"]);
    world
}

fn conditions(world: &World) -> [Condition; 2] {
    [world.condition(0, 1), world.condition(0, 2)]
}

fn asked(world: &World) -> Vec<String> {
    let opened = world.sites.iter().flat_map(|site| &site.opened);
    opened.filter(|name| *name != "LIST").cloned().collect()
}

#[test]
fn routed_items_of_a_list_come_with_it_at_another_server() {
    let mut world = world(Arrangement::Routing);
    provide(&mut world, 0, -1, "A", 1);
    provide(&mut world, 0, -2, "B", 1);
    // Nobody watches what the list names later.
    provide(&mut world, 0, -3, "C", 1);
    update(&mut world, 0, -1, 2);
    assert_eq!((conditions(&world), world.value(0, 1)), ([Condition::Ok; 2], Some(20)));
    world.apps[0].classes.clear();
    world.kill(0, false);
    world.talk(usize::MAX);
    assert_eq!(conditions(&world), [Condition::Suspect; 2]);
    assert_eq!(
        world.apps[0].classes.iter().filter(|(item, class)| *item == 1 && *class == MsgClass::STATUS).count(),
        1
    );
    // The list is asked for at the other one, and nothing else.
    assert_eq!((world.sites[1].opened.as_slice(), world.client.streams()), (&["LIST".to_owned()][..], 3));
    provide(&mut world, 1, -7, "B", 5);
    assert_eq!(conditions(&world), [Condition::Suspect, Condition::Ok]);
    // Items that the server there does not open are asked for.
    world.pass(6 * SECOND);
    world.talk(usize::MAX);
    assert_eq!((conditions(&world), asked(&world)), ([Condition::Ok; 2], vec!["A".to_owned()]));
    // The first is back; then the second is lost, and the list goes with what was asked for.
    world.sites[0].is_alive = true;
    world.settle();
    world.kill(1, false);
    world.talk(usize::MAX);
    provide(&mut world, 0, -1, "B", 8);
    world.settle();
    assert_eq!((conditions(&world), world.value(0, 2)), ([Condition::Ok; 2], Some(80)));
    world.unsubscribe(0);
    world.settle();
    assert_eq!((world.client.streams(), world.streams(0)), (0, 0));
}

#[test]
fn items_of_a_list_without_any_server_wait_for_the_first_that_comes() {
    let mut world = world(Arrangement::Routing);
    provide(&mut world, 0, -1, "A", 1);
    provide(&mut world, 0, -2, "B", 1);
    world.kill(1, false);
    world.kill(0, false);
    world.pass(20 * SECOND);
    assert_eq!(conditions(&world), [Condition::Suspect; 2]);
    world.sites[1].is_alive = true;
    (0..3).for_each(|_| world.pass(SECOND));
    world.connect(1);
    world.talk(usize::MAX);
    provide(&mut world, 1, -1, "A", 4);
    provide(&mut world, 1, -2, "B", 4);
    assert_eq!((conditions(&world), asked(&world)), ([Condition::Ok; 2], vec![]));
}

fn takes_over(arrangement: Arrangement) {
    let mut world = world(arrangement);
    // Both servers open them, the one that stands by before the other.
    provide(&mut world, 1, -5, "A", 1);
    provide(&mut world, 0, -1, "A", 1);
    provide(&mut world, 0, -2, "B", 1);
    provide(&mut world, 1, -6, "B", 1);
    update(&mut world, 0, -1, 2);
    assert_eq!((conditions(&world), world.value(0, 1), world.client.streams()), ([Condition::Ok; 2], Some(20), 3));
    world.apps[0].classes.clear();
    world.kill(0, false);
    world.talk(usize::MAX);
    // The one that serves now sends images first.
    provide(&mut world, 1, -5, "A", 3);
    provide(&mut world, 1, -6, "B", 3);
    update(&mut world, 1, -5, 4);
    let of_a: Vec<MsgClass> =
        world.apps[0].classes.iter().filter(|(item, _)| *item == 1).map(|(_, class)| *class).collect();
    assert_eq!((of_a, world.value(0, 1)), (vec![MsgClass::REFRESH, MsgClass::UPDATE], Some(40)), "no Suspect");
    assert_eq!((conditions(&world), asked(&world)), ([Condition::Ok; 2], vec![]));
    // The first is back and stands by; it has opened one of them when the other is lost.
    world.sites[0].is_alive = true;
    for _ in 0..3 {
        world.pass(SECOND);
        world.connect(0);
        world.talk(usize::MAX);
    }
    provide(&mut world, 0, -1, "B", 4);
    world.kill(1, false);
    world.talk(usize::MAX);
    provide(&mut world, 0, -1, "B", 5);
    assert_eq!((conditions(&world), world.value(0, 2)), ([Condition::Suspect, Condition::Ok], Some(50)));
    provide(&mut world, 0, -2, "A", 6);
    assert_eq!((conditions(&world), asked(&world)), ([Condition::Ok; 2], vec![]));
    world.unsubscribe(0);
    world.talk(usize::MAX);
    assert_eq!((world.client.streams(), world.streams(0)), (0, 0));
}

#[test]
fn by_login_a_standby_takes_over_what_both_have_opened_for_a_list() {
    takes_over(Arrangement::StandbyByLogin);
}

#[test]
fn by_service_it_does_so() {
    takes_over(Arrangement::StandbyByService);
}
