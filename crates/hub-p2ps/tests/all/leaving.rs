//! Clients that log out or go with more streams than a turn ends: others are served in between, and they themselves hear nothing more.

use crate::world::{PRICE, World, encode, item};
use hub_p2ps::{ClientId, CloseReason, Config};
use rwf::msg::{CloseMsg, Domain};
use rwf::rdm::login;

const NAMES: [(i32, &str, u32); 5] = [(5, "A", 0), (6, "B", 1), (7, "C", 2), (8, "D", 3), (9, "E", 4)];

/// Client 1 has five items, of which client 2 has one, `E`.
fn world(config: Config) -> World {
    let mut world = World::with_feed_and(Config { work_per_turn: 2, ..config });
    world.clients([1, 2]);
    for (stream, name, handle) in NAMES {
        world.open(1, stream, name, handle);
    }
    world.request(2, &item(5, "E"));
    world.publish(0, |p| {
        p.image(4, &[(22, 1)]);
    });
    assert_eq!(world.take(2).len(), 1);
    world.asked();
    world.pass(0);
    world
}

/// An update of every item; those who get it besides client 2, which gets that of `E`.
fn update_all(world: &mut World, price: u64) -> Vec<String> {
    world.publish(0, |p| {
        for (_, _, handle) in NAMES {
            p.update(handle, &[(22, price)]);
        }
    });
    assert_eq!(world.take(2), [format!("update 5 22={price}")]);
    world.take(1)
}

fn log_out(world: &mut World, client: u32) -> bool {
    let close = encode(|w| CloseMsg::new(Domain::LOGIN, 1).encode(w));
    let done = world.p2ps.client_message(world.now, ClientId(client), &close);
    world.settle();
    done
}

#[test]
fn who_is_gone_departs_in_turns_and_others_are_served_in_each() {
    let mut world = world(Config::default());
    world.disconnect(1);
    let counters = world.p2ps.counters();
    assert_eq!((counters.clients, counters.mounts, counters.watchers), (1, 1, 4), "two of six in this turn");
    assert!(world.p2ps.is_departing(ClientId(1)) && world.p2ps.mounts().count() == 1);
    assert_eq!(world.asked(), ["0: close 0", "0: close 1"]);
    assert!(update_all(&mut world, 2).is_empty());
    // Its connection may be heard of no more, nor closed.
    world.bytes(1, b"garbage");
    world.p2ps.dismiss(world.now, ClientId(1), "by an operator");
    assert_eq!((world.p2ps.timeout(), world.p2ps.departed().count()), (Some(0), 0));
    world.pass(0);
    assert_eq!(world.asked(), ["0: close 2", "0: close 3"]);
    assert!(update_all(&mut world, 3).is_empty());
    world.pass(0);
    assert_eq!(world.p2ps.departed().collect::<Vec<_>>(), [ClientId(1)]);
    assert!(!world.p2ps.is_departing(ClientId(1)) && world.p2ps.timeout() != Some(0));
    assert!(world.asked().is_empty() && update_all(&mut world, 4).is_empty());
    assert_eq!(world.p2ps.counters().watchers, 1);
}

#[test]
fn a_number_that_is_given_out_again_too_early_has_nothing_of_before() {
    let mut world = world(Config::default());
    world.disconnect(1);
    world.login(1, None, None);
    assert!(!world.p2ps.is_departing(ClientId(1)) && world.p2ps.departed().count() == 0);
    assert_eq!(world.asked(), ["0: close 0", "0: close 1", "0: close 2", "0: close 3"]);
    assert!(update_all(&mut world, 2).is_empty());
    world.open(1, 5, "A", 0);
    assert_eq!(update_all(&mut world, 3), ["update 5 22=3"]);
}

#[test]
fn who_logs_out_hears_nothing_more_and_logs_in_again_when_all_has_ended() {
    let mut world = world(Config { aggregate_item_limit: 5, item_limit: 5, ..Config::default() });
    assert!(log_out(&mut world, 1), "it is done for the client");
    assert_eq!((world.p2ps.counters().mounts, world.p2ps.is_logged_in(ClientId(1))), (1, false));
    assert!(update_all(&mut world, 2).is_empty());
    assert!(world.p2ps.is_behind(ClientId(1)));
    let login = login::Request { name: "user1".to_owned(), ..login::Request::default() };
    world.send_with(1, |w| login.encode(w));
    world.send_with(1, |w| item(5, "E").encode(w));
    assert!(world.take(1).is_empty(), "it waits");
    // Its user has none of what is left.
    world.connect(3);
    world.send_with(3, |w| login.encode(w));
    world.request(3, &item(5, "E"));
    assert_eq!(world.take(3), ["login refresh 1 solicited complete OPEN/OK key user1"]);
    assert_eq!(world.asked(), ["0: close 0", "0: close 1", "0: refresh 4"]);
    let mut turns = 0;
    while world.p2ps.timeout() == Some(0) {
        world.pass(0);
        turns += 1;
    }
    assert_eq!((turns, world.asked()), (3, vec!["0: close 2".to_owned(), "0: close 3".to_owned()]));
    assert_eq!(world.take(1), ["login refresh 1 solicited complete OPEN/OK key user1"]);
    world.publish(0, |p| {
        p.image(4, &[(22, 3)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:E 22=3"]);
    assert_eq!(world.take(3).len(), 1);
    assert_eq!(world.p2ps.departed().count(), 0, "it is still connected");
}

#[test]
fn who_is_closed_and_goes_leaves_once() {
    let mut world = world(Config::default());
    world.bytes(1, b"garbage");
    let (client, reason) = world.closed.pop().unwrap();
    assert!(client == 1 && matches!(reason, CloseReason::Garbage { .. }), "{reason:?}");
    assert_eq!((world.p2ps.counters().watchers, world.p2ps.is_departing(ClientId(1))), (4, false));
    assert!(update_all(&mut world, 2).is_empty());
    world.pass(0);
    world.disconnect(1);
    assert!(world.p2ps.is_departing(ClientId(1)));
    world.pass(0);
    assert_eq!((world.p2ps.counters().watchers, world.p2ps.departed().count()), (1, 1));
    assert_eq!(world.asked().len(), 4);
}

#[test]
fn who_logs_out_and_goes_meanwhile_departs() {
    let mut world = world(Config::default());
    log_out(&mut world, 1);
    world.send(1, CloseMsg::new(PRICE, 5));
    world.pass(0);
    world.disconnect(1);
    assert!(!world.p2ps.is_behind(ClientId(1)));
    world.pass(0);
    world.pass(0);
    assert_eq!((world.p2ps.counters().watchers, world.p2ps.counters().clients), (1, 1));
    assert_eq!(world.asked().len(), 4);
    assert!(world.p2ps.timeout() != Some(0));
}

#[test]
fn many_who_go_at_once_share_the_turns() {
    let mut world = World::with_feed_and(Config { work_per_turn: 4, ..Config::default() });
    world.clients([1, 2, 3]);
    for client in 1..=3 {
        for (stream, name) in [(5, "A"), (6, "B"), (7, "C")] {
            world.request(client, &item(stream, name));
        }
    }
    world.asked();
    world.pass(0);
    (1..=3).for_each(|client| world.disconnect(client));
    assert_eq!(world.p2ps.counters().watchers, 5, "four in a turn, of all together");
    world.pass(0);
    assert_eq!((world.p2ps.counters().watchers, world.p2ps.departed().count()), (1, 1));
    world.pass(0);
    assert_eq!((world.p2ps.counters().watchers, world.p2ps.departed().count()), (0, 1));
}
