//! Views of an application when one server takes over from another, and what the servers are told.

use crate::sites::{Manner, Name, SECOND, World};
use client::images::Condition;
use client::{Arrangement, Event, LinkId};
use rwf::msg::{Domain, MsgClass, PostMsg};

fn name(service: u16, text: &str) -> Name {
    (service, text.to_owned())
}

/// A world of two servers in which items A and B of both services are known, and open.
fn world(arrangement: Arrangement, manner: Manner) -> World {
    let mut world = World::new(2, arrangement, manner);
    for service in 1..=2 {
        world.change(&name(service, "A"));
        world.change(&name(service, "B"));
    }
    (0..2).for_each(|site| world.feed(site, usize::MAX));
    for service in 1..=2 {
        world.subscribe(service, &["A", "B"], true);
    }
    world.settle();
    world.apps.iter_mut().for_each(|app| app.classes.clear());
    world
}

fn classes(world: &World, app: usize) -> Vec<MsgClass> {
    world.apps[app].classes.iter().filter(|(item, _)| *item == 0).map(|(_, class)| *class).collect()
}

fn changes(world: &mut World, sites: &[usize]) {
    (1..=2).for_each(|service| world.change(&name(service, "A")));
    for site in sites {
        world.feed(*site, usize::MAX);
    }
    world.talk(usize::MAX);
}

#[test]
fn a_standby_takes_over_with_an_image_and_no_suspect() {
    let mut world = world(Arrangement::StandbyByLogin, Manner::Knows);
    assert_eq!((world.sites[0].told.as_slice(), world.sites[1].told.as_slice()), (&[(None, 0)][..], &[(None, 1)][..]));
    changes(&mut world, &[0, 1]);
    assert_eq!((classes(&world, 0), world.value(0, 0)), (vec![MsgClass::UPDATE], Some(20)));
    world.kill(0, false);
    world.talk(usize::MAX);
    changes(&mut world, &[1]);
    assert_eq!(world.sites[1].told.last(), Some(&(None, 0)));
    assert_eq!(classes(&world, 0), [MsgClass::UPDATE, MsgClass::REFRESH, MsgClass::UPDATE]);
    assert_eq!(
        (world.value(0, 0), world.condition(0, 0), world.condition(0, 1)),
        (Some(30), Condition::Ok, Condition::Ok)
    );
    let serves = |event: &Event| matches!(event, Event::Serves { service: None, .. });
    assert_eq!(world.events.iter().filter(|event| serves(event)).count(), 2, "the first login, and the takeover");
    // The one that is back stands by, and goes on doing so.
    world.sites[0].is_alive = true;
    world.settle();
    changes(&mut world, &[0, 1]);
    assert_eq!(world.sites[0].told.last(), Some(&(None, 1)));
    assert_eq!((world.client.main_link().index(), world.value(0, 0)), (1, Some(40)));
    assert_eq!((world.streams(0), world.streams(1)), (4, 4));
}

#[test]
fn the_first_link_serves_though_another_would_be_there_before() {
    let mut world = World::new(2, Arrangement::StandbyByLogin, Manner::Knows);
    assert!(!world.connect(1), "the first one has not been tried");
    assert!(world.connect(0));
    world.talk(usize::MAX);
    assert!(world.connect(1));
    world.talk(usize::MAX);
    assert_eq!(world.client.main_link(), LinkId::FIRST);
    // A server that hangs keeps the others waiting for a time.
    let mut world = World::new(2, Arrangement::StandbyByLogin, Manner::Knows);
    let first = world.client.links().next().expect("a link");
    assert!(world.client.poll_connect(world.now, first).is_some());
    assert_eq!((world.connect(1), world.client.timeout()), (false, Some(world.now + 3 * SECOND)));
    world.pass(3 * SECOND);
    assert!(world.connect(1));
    world.talk(usize::MAX);
    assert_eq!(world.client.main_link().index(), 1);
}

#[test]
fn a_server_that_knows_no_standby_is_asked_for_images() {
    let mut world = world(Arrangement::StandbyByLogin, Manner::Ignorant);
    assert!(world.sites.iter().all(|site| site.told.is_empty()));
    changes(&mut world, &[0, 1]);
    assert_eq!(classes(&world, 0), [MsgClass::UPDATE], "and none of the standby");
    world.kill(0, false);
    changes(&mut world, &[1]);
    assert_eq!((world.value(0, 0), world.condition(0, 0)), (Some(30), Condition::Ok));
    assert!(!classes(&world, 0).contains(&MsgClass::STATUS), "{:?}", classes(&world, 0));
}

#[test]
fn changes_without_an_image_are_a_gap_that_is_told() {
    let mut world = world(Arrangement::StandbyByLogin, Manner::Forgets);
    changes(&mut world, &[0]);
    world.kill(0, false);
    world.talk(usize::MAX);
    assert_eq!(world.condition(0, 0), Condition::Ok, "nothing is known to be missed");
    changes(&mut world, &[1]);
    assert_eq!(classes(&world, 0), [MsgClass::UPDATE, MsgClass::STATUS, MsgClass::REFRESH]);
    assert_eq!((world.value(0, 0), world.condition(0, 0)), (Some(30), Condition::Ok));
    // Of an item that does not change the image is asked for in the end.
    let asked_of_b = |world: &World| world.apps[0].classes.iter().filter(|(item, _)| *item == 1).count();
    assert_eq!(asked_of_b(&world), 0);
    world.pass(6 * SECOND);
    world.talk(usize::MAX);
    assert_eq!((asked_of_b(&world), world.condition(0, 1)), (2, Condition::Ok), "Suspect, and the image");
}

#[test]
fn by_service_one_that_is_down_is_served_elsewhere_and_the_other_stays() {
    let mut world = world(Arrangement::StandbyByService, Manner::Knows);
    assert_eq!(world.sites[1].told, [(Some(1), 1), (Some(2), 1)]);
    world.set_service(0, 1, false);
    world.talk(usize::MAX);
    assert_eq!((world.sites[0].told.last(), world.sites[1].told.last()), (Some(&(Some(1), 1)), Some(&(Some(1), 0))));
    changes(&mut world, &[0, 1]);
    assert_eq!(
        (classes(&world, 0), classes(&world, 1)),
        (vec![MsgClass::REFRESH, MsgClass::UPDATE], vec![MsgClass::UPDATE])
    );
    let at = |world: &World, app: usize| world.client.link_of(world.apps[app].id, 0).map(LinkId::index);
    assert_eq!((at(&world, 0), at(&world, 1)), (Some(1), Some(0)));
    world.kill(0, true);
    world.settle();
    assert_eq!((at(&world, 0), at(&world, 1)), (Some(1), Some(1)));
}

#[test]
fn routed_items_go_to_the_server_that_has_had_the_service_longest() {
    let mut world = world(Arrangement::Routing, Manner::Knows);
    assert_eq!((world.streams(0), world.streams(1)), (4, 0));
    world.kill(0, true);
    assert_eq!(world.condition(0, 0), Condition::Suspect);
    world.settle();
    assert_eq!((world.streams(0), world.streams(1), world.condition(0, 0)), (0, 4, Condition::Ok));
    // As in EMA: who comes back is asked when the other is lost.
    world.change(&name(1, "C"));
    world.subscribe(1, &["C"], true);
    world.settle();
    assert_eq!((world.streams(0), world.streams(1)), (0, 5));
    // A service that is down at one is asked for at the other, and the rest stays.
    world.set_service(1, 1, false);
    world.settle();
    assert_eq!((world.streams(0), world.streams(1), world.condition(0, 0)), (3, 2, Condition::Ok));
}

#[test]
fn an_item_that_one_server_closes_for_now_is_asked_for_at_the_other() {
    let mut world = world(Arrangement::Routing, Manner::Knows);
    world.close_for_now(0, &name(1, "A"));
    world.talk(usize::MAX);
    assert_eq!((world.streams(0), world.streams(1), world.condition(0, 0)), (3, 1, Condition::Ok));
    // Where both do, it rests in between.
    (0..2).for_each(|site| world.sites[site].is_busy = true);
    world.close_for_now(1, &name(1, "A"));
    let asked = |world: &World| world.sites[0].opened.len() + world.sites[1].opened.len();
    let before = asked(&world);
    for _ in 0..10 {
        world.talk(usize::MAX);
        world.pass(SECOND / 2);
    }
    let times = asked(&world) - before;
    assert!((4..=14).contains(&times), "asked for {times} times in 5 s");
    (0..2).for_each(|site| world.sites[site].is_busy = false);
    world.settle();
    assert_eq!(world.condition(0, 0), Condition::Ok);
}

#[test]
fn posts_go_to_who_serves_and_are_lost_with_it_alone() {
    let mut world = world(Arrangement::StandbyByLogin, Manner::Knows);
    let at = (world.apps[0].id, 0);
    let post = PostMsg::new(Domain::MARKET_PRICE, 0);
    let now = world.now;
    world.client.post(now, at, &post, true).expect("open");
    world.talk(usize::MAX);
    let lost = world.client.post(now, at, &post, true).expect("open");
    world.kill(0, false);
    let answered = world.client.post_off_stream(now, ("FEED", "A"), &post, true).expect("the standby is logged in");
    world.talk(usize::MAX);
    assert_eq!((world.sites[0].posts, world.sites[1].posts), (1, 1));
    let has = |wanted: &dyn Fn(&Event) -> bool| world.events.iter().any(wanted);
    assert!(has(&|event| matches!(event, Event::PostUnanswered { id, .. } if *id == lost)));
    assert!(has(&|event| matches!(event, Event::PostAnswered { id, .. } if *id == answered)));
}
