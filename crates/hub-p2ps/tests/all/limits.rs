//! Limits of items by connection, by user and in total: what is refused, and what operators hear of it.

use crate::world::{World, item, texts};
use hub_p2ps::{BlockedList, Config, LoadOf, LoadState, Notice, QueueMarks};

/// What operators hear.
fn heard(world: &mut World) -> Vec<String> {
    let loads = world.p2ps.notices().filter(|notice| matches!(notice, Notice::Load { .. }));
    loads.map(|notice| notice.to_string()).collect()
}

/// Client 1 asks for items until so many have been asked for, streams from 5 on.
fn ask(world: &mut World, client: u32, names: std::ops::Range<i32>) {
    for at in names {
        world.request(client, &item(5 + at, &format!("I{at}")));
    }
    world.asked();
}

fn close(world: &mut World, client: u32, names: std::ops::Range<i32>) {
    names.for_each(|at| world.close(client, 5 + at));
    world.asked();
}

#[test]
fn a_connection_and_a_user_are_told_of_once_on_the_way_up_and_once_on_the_way_down() {
    let config = Config { item_limit: 10, aggregate_item_limit: 20, ..Config::default() };
    let mut world = World::with_feed_and(config);
    world.clients([1]);
    heard(&mut world);
    ask(&mut world, 1, 0..8);
    assert!(heard(&mut world).is_empty());
    ask(&mut world, 1, 8..9);
    assert_eq!(heard(&mut world), ["a connection of user1 from 10.0.0.1 is burdened: 9 items are open (limit 10)"]);
    assert_eq!(world.p2ps.mounts().map(|mount| mount.load).collect::<Vec<_>>(), [LoadState::Burdened]);
    close(&mut world, 1, 8..9);
    ask(&mut world, 1, 8..10);
    assert_eq!(
        heard(&mut world),
        ["a connection of user1 from 10.0.0.1 is overloaded: 10 items are open, and no more are taken (limit 10)"]
    );
    ask(&mut world, 1, 10..11);
    let told = world.raw(1);
    assert_eq!(texts(&told), ["This connection has 10 items open, the most allowed (itemLimit): close some first."]);
    let counters = world.p2ps.counters();
    assert_eq!((counters.mounts_burdened, counters.mounts_overloaded, counters.users_burdened), (0, 1, 0));
    // An item goes and another comes: a connection at its limit is not kept from that.
    close(&mut world, 1, 0..1);
    ask(&mut world, 1, 10..11);
    assert!(heard(&mut world).is_empty() && world.take(1).is_empty());
    // The same user again: two connections have eighteen of twenty.
    world.clients([2]);
    world.disconnect(2);
    close(&mut world, 1, 1..4);
    let down = heard(&mut world);
    assert_eq!(down.len(), 2, "overloaded to burdened, and to normal: {down:?}");
    assert_eq!(down[1], "a connection of user1 from 10.0.0.1 is normal again: 7 items are open (limit 10)");
    world.disconnect(1);
    world.asked();
    assert!(heard(&mut world).is_empty());
    let counters = world.p2ps.counters();
    assert_eq!((counters.mounts_burdened, counters.mounts_overloaded), (0, 0));
}

#[test]
fn a_user_has_a_limit_over_all_connections() {
    let mut world = World::with_feed_and(Config { aggregate_item_limit: 4, ..Config::default() });
    world.clients([1]);
    ask(&mut world, 1, 0..4);
    let up = heard(&mut world);
    assert_eq!(up, ["user user1 is overloaded: 4 items are open, and no more are taken (limit 4)"]);
    assert_eq!(world.p2ps.counters().users_overloaded, 1);
    world.disconnect(1);
    world.asked();
    let down = heard(&mut world);
    assert_eq!(down, ["user user1 is normal again: 3 items are open (limit 4)"], "of four items both marks are four");
    assert_eq!(world.p2ps.counters().users_burdened, 0);
}

#[test]
fn a_full_server_takes_nothing_until_there_is_room_again() {
    let mut world = World::with_feed_and(Config { total_item_limit: 10, ..Config::default() });
    world.clients([1, 2]);
    ask(&mut world, 1, 0..10);
    let up = heard(&mut world);
    assert_eq!(
        up,
        [
            "this server is burdened: 9 items are open (limit 10)",
            "this server is overloaded: 10 items are open, and no more are taken (limit 10)"
        ]
    );
    assert_eq!(world.p2ps.load_states().0, LoadState::Overloaded);
    // An item less is not enough.
    close(&mut world, 1, 0..1);
    ask(&mut world, 2, 20..21);
    let told = world.raw(2);
    assert_eq!(crate::world::words(&told[0]), "status 25 CLOSED/SUSPECT/TOO_MANY_ITEMS");
    assert_eq!(
        texts(&told),
        ["This server is overloaded: 9 items are open, of 10 (totalItemLimit). Ask another server, or again later."]
    );
    // Open items go on: a reissue is nothing new.
    world.request(1, &item(6, "I1"));
    assert!(world.take(1).is_empty());
    close(&mut world, 1, 1..2);
    assert_eq!(heard(&mut world), ["this server is burdened: 8 items are open (limit 10)"]);
    ask(&mut world, 2, 20..21);
    assert!(world.take(2).is_empty(), "below the upper mark there is room");
    world.p2ps.reconfigure(&Config::default());
    assert_eq!(heard(&mut world), ["this server is normal again: 9 items are open (limit 0)"]);
}

#[test]
fn a_service_has_a_limit_of_its_own() {
    let service_item_limits = [("FEED".to_owned(), 10), (String::new(), 1)].into();
    let mut world = World::with_feed_and(Config { service_item_limits, ..Config::default() });
    world.clients([1, 2]);
    ask(&mut world, 1, 0..10);
    let up = heard(&mut world);
    assert_eq!(
        up,
        [
            "service FEED is burdened: 9 items are open (limit 10)",
            "service FEED is overloaded: 10 items are open, and no more are taken (limit 10)"
        ]
    );
    let counters = world.p2ps.counters();
    assert_eq!((counters.services_burdened, counters.services_overloaded), (0, 1));
    close(&mut world, 1, 0..1);
    ask(&mut world, 2, 20..21);
    let told = world.raw(2);
    assert_eq!(crate::world::words(&told[0]), "status 25 CLOSED/SUSPECT/TOO_MANY_ITEMS");
    assert_eq!(
        texts(&told),
        [
            "Service FEED is overloaded: 9 items of it are open, of 10 (serviceItemLimit). Ask another server, or again later."
        ]
    );
    world.request(1, &item(6, "I1"));
    assert!(world.take(1).is_empty(), "what is open goes on");
    close(&mut world, 1, 1..2);
    assert_eq!(heard(&mut world), ["service FEED is burdened: 8 items are open (limit 10)"]);
    ask(&mut world, 2, 20..21);
    assert!(world.take(2).is_empty(), "below the upper mark there is room");
    world.p2ps.check_invariants();
    world.disconnect(1);
    world.asked();
    assert_eq!(heard(&mut world), ["service FEED is normal again: 7 items are open (limit 10)"]);
    world.p2ps.check_invariants();
    world.p2ps.reconfigure(&Config { service_item_limits: [(String::new(), 1)].into(), ..Config::default() });
    let down = ["service FEED is overloaded: 1 items are open, and no more are taken (limit 1)"];
    assert_eq!(heard(&mut world), down, "the number of all others");
}

#[test]
fn a_service_has_a_window_of_its_own() {
    let service_open_windows = [("FEED".to_owned(), 2)].into();
    let mut world = World::with_feed_and(Config { service_open_windows, ..Config::default() });
    world.clients([1]);
    for at in 0..5 {
        world.request(1, &item(5 + at, &format!("I{at}")));
    }
    assert_eq!(world.asked().len(), 2, "the others wait");
    assert_eq!(world.p2ps.timeout(), world.p2ps.timeout().filter(|&at| at > world.now), "nothing is done meanwhile");
    world.p2ps.reconfigure(&Config { service_open_windows: [("FEED".to_owned(), 3)].into(), ..Config::default() });
    world.settle();
    assert_eq!(world.asked().len(), 1);
    world.p2ps.reconfigure(&Config::default());
    world.settle();
    assert_eq!(world.asked().len(), 2);
}

#[test]
fn opens_that_wait_are_told_of() {
    let open_queue = QueueMarks { burdened: 4, overloaded: 6, hysteresis: 2 };
    let mut world = World::with_feed_and(Config { open_window: 1, open_queue, ..Config::default() });
    world.clients([1]);
    ask(&mut world, 1, 0..6);
    world.pass(1_000_000_000);
    assert_eq!(heard(&mut world), ["the queue of opens is burdened: 5 items wait to be opened (limit 4)"]);
    ask(&mut world, 1, 6..7);
    world.pass(1);
    assert!(heard(&mut world).is_empty(), "it is looked at once a second");
    assert!(world.p2ps.timeout().is_some_and(|at| at <= world.now + 1_000_000_000));
    world.pass(1_000_000_000);
    assert_eq!(heard(&mut world), ["the queue of opens is overloaded: 6 items wait to be opened (limit 6)"]);
    assert_eq!(world.p2ps.counters().open_queue_state, 2);
    close(&mut world, 1, 1..7);
    world.pass(1_000_000_000);
    let down = Notice::Load { of: LoadOf::OpenQueue, state: LoadState::Normal, load: 0, limit: 4 };
    assert_eq!(heard(&mut world), [down.to_string()]);
}

#[test]
fn a_list_of_blocked_items_is_taken_over_as_a_whole() {
    let mut list = BlockedList::default();
    list.add("FEED", b"IBM");
    let mut world = World::with_feed_and(Config { blocked: list, ..Config::default() });
    world.clients([1]);
    world.request(1, &item(5, "IBM"));
    let told = world.raw(1);
    assert_eq!(crate::world::words(&told[0]), "status 5 CLOSED/SUSPECT/NOT_ENTITLED");
    assert!(texts(&told)[0].contains("blockedItemsFile"), "{told:?}");
    world.open(1, 6, "TRI", 900);
    world.open(1, 7, "EUR=", 901);
    let mut list = BlockedList::default();
    list.add("", b"TRI");
    list.add("OTHER", b"EUR=");
    assert_eq!(world.p2ps.set_blocked_list(world.now, list.clone()), 1);
    world.settle();
    assert_eq!(world.take(1), ["status 6 CLOSED/SUSPECT/NOT_ENTITLED"]);
    assert_eq!(world.asked(), ["0: close 900"]);
    assert_eq!(world.p2ps.set_blocked_list(world.now, list), 0, "nothing is new");
    world.open(1, 5, "IBM", 902);
    assert!(world.p2ps.is_listed_as_blocked("FEED", b"TRI") && !world.p2ps.unblock_item("FEED", b"TRI"));
    assert_eq!(world.p2ps.blocked_items().count(), 2);
    assert_eq!(world.p2ps.set_blocked_list(world.now, BlockedList::default()), 0);
    world.open(1, 6, "TRI", 903);
}
