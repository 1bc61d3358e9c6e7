//! Items whose watchers have all paused rest upstream, and go on with the first who resumes or comes.

use crate::world::{Publisher, World, encode, item};
use hub_p2ps::{ClientId, Config, SourceId};
use rwf::msg::{RequestFlags, RequestMsg};
use rwf::rdm::login;

/// The requests for handle 0 since the last call that say something of a pause: `pause` or `go on`, and whether an image is wanted.
fn asked_pauses(world: &mut World) -> Vec<(bool, bool)> {
    let asked = world.asked();
    assert!(asked.iter().all(|words| words.starts_with("0: reissue 0")), "{asked:?}");
    asked.iter().map(|words| (words.contains("|PAUSE]"), words.contains(" with image"))).collect()
}

#[test]
fn an_item_rests_upstream_when_all_who_watch_have_paused() {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(1, 5, "A", 0);
    world.request(2, &item(5, "A"));
    world.publish(0, |p| {
        p.image(0, &[(22, 1)]);
    });
    world.asked();
    let pause = RequestFlags::STREAMING | RequestFlags::PAUSE | RequestFlags::NO_REFRESH;
    world.request(1, &RequestMsg { flags: pause, ..item(5, "A") });
    assert!(asked_pauses(&mut world).is_empty(), "client 2 wants its updates");
    world.close(2, 5);
    assert_eq!(asked_pauses(&mut world), [(true, false)], "who is left has paused");
    world.request(1, &RequestMsg { flags: pause, ..item(5, "A") });
    assert!(asked_pauses(&mut world).is_empty(), "once");
    world.take(1);
    world.take(2);
    // A new watcher has it go on, and has the image that follows, not one of before.
    world.request(2, &item(6, "A"));
    assert_eq!(asked_pauses(&mut world), [(false, true)]);
    world.publish(0, |p| {
        p.image(0, &[(22, 2)]);
    });
    assert!(world.take(2).is_empty(), "updates behind it may have been held back");
    world.publish(0, |p| {
        p.answered(0, 1).image(0, &[(22, 3)]).update(0, &[(22, 4)]);
    });
    assert_eq!(world.take(2), ["refresh 6 solicited complete OPEN/OK group 3 key 1:A 22=3", "update 6 22=4"]);
    assert!(world.take(1).is_empty(), "still paused");
    // The first who resumes has it go on, too.
    world.close(2, 6);
    assert_eq!(asked_pauses(&mut world), [(true, false)]);
    world.request(1, &item(5, "A"));
    assert_eq!(asked_pauses(&mut world), [(false, true)]);
    world.publish(0, |p| {
        p.answered(0, 2).image(0, &[(22, 5)]).update(0, &[(22, 6)]);
    });
    assert_eq!(world.take(1), ["refresh 5 solicited complete OPEN/OK group 3 key 1:A 22=5", "update 5 22=6"]);
}

/// The opens since the last call, whether they are of items that are to rest.
fn asked_opens(world: &mut World) -> Vec<bool> {
    let asked = world.asked();
    asked.iter().filter(|words| words.contains(": open ")).map(|words| words.contains("|PAUSE]")).collect()
}

#[test]
fn an_item_that_rests_is_asked_for_elsewhere_as_one_that_rests() {
    let mut world = World::with_feed();
    world.clients([1]);
    let rests = RequestFlags::STREAMING | RequestFlags::PAUSE;
    world.request(1, &RequestMsg { flags: rests, ..item(5, "A") });
    assert_eq!(asked_opens(&mut world), [true], "its first image, and then rest");
    world.source_down(0);
    assert_eq!(world.take(1), ["status 5 OPEN/SUSPECT"]);
    world.source(0);
    world.publish(0, |p| {
        p.service(40, "FEED");
    });
    assert_eq!(asked_opens(&mut world), [true], "the same after a loss");
}

#[test]
fn a_login_that_pauses_all_has_the_items_rest_upstream() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.open(1, 5, "A", 0);
    world.publish(0, |p| {
        p.image(0, &[(22, 1)]);
    });
    world.asked();
    let login = |pause| login::Request { name: "user1".to_owned(), pause, no_refresh: true, ..Default::default() };
    world.send_with(1, |w| login(true).encode(w));
    assert_eq!(asked_pauses(&mut world), [(true, false)]);
    world.send_with(1, |w| login(false).encode(w));
    assert_eq!(asked_pauses(&mut world), [(false, true)]);
}

#[test]
fn many_streams_are_paused_and_go_on_in_turns_and_others_are_served_in_each() {
    let mut world = World::with_feed_and(Config { work_per_turn: 2, ..Config::default() });
    world.clients([1, 2]);
    for (stream, name, handle) in [(5, "A", 0), (6, "B", 1), (7, "C", 2), (8, "D", 3), (9, "E", 4)] {
        world.open(1, stream, name, handle);
    }
    world.open(2, 5, "Z", 5);
    world.asked();
    let login = |pause| login::Request { name: "user1".to_owned(), pause, no_refresh: true, ..Default::default() };
    let mut price = 0;
    let mut turns = |world: &mut World| {
        let mut turns = Vec::new();
        loop {
            turns.push(world.asked().len());
            price += 1;
            world.publish(0, |p| {
                p.update(5, &[(22, price)]);
            });
            assert_eq!(world.take(2), [format!("update 5 22={price}")]);
            if world.p2ps.timeout() != Some(0) {
                return turns;
            }
            world.pass(0);
        }
    };
    world.pass(0);
    world.send_with(1, |w| login(true).encode(w));
    // A message behind the pause of all streams waits for it.
    world.send_with(1, |w| login(false).encode(w));
    assert!(world.p2ps.is_behind(ClientId(1)));
    assert_eq!(turns(&mut world), [2, 2, 1, 2, 2, 1], "each rests, and goes on");
    assert!(!world.p2ps.is_behind(ClientId(1)));
    assert_eq!((world.p2ps.counters().batches_in_turns, world.p2ps.taken_up().count()), (2, 0));
}

/// A priority that is asked for while an item is being opened is looked at when it is open.
#[test]
fn demands_of_an_item_that_is_being_opened_wait_for_its_answer() {
    let mut world = World::with_feed();
    world.clients([1]);
    world.request(1, &item(5, "A"));
    let token = world.token();
    assert_eq!(asked_opens(&mut world), [false]);
    let pause = RequestFlags::STREAMING | RequestFlags::PAUSE | RequestFlags::NO_REFRESH;
    world.request(1, &RequestMsg { flags: pause, ..item(5, "A") });
    assert!(world.asked().is_empty() && world.p2ps.timeout() != Some(0), "nothing is to be done about it");
    world.publish(0, |p| {
        p.opened(token, 0).image(0, &[(22, 1)]);
    });
    assert_eq!(asked_pauses(&mut world), [(true, false)]);
    assert_eq!(world.take(1).len(), 1, "the image that it had asked for");
}

/// How long 500 updates of an item take that one client watches, while another one has paused it on so many streams.
fn time_of_updates(paused: i32) -> std::time::Duration {
    let mut world = World::with_feed();
    world.clients([1, 2]);
    world.open(2, 5, "A", 0);
    let rests = RequestFlags::STREAMING | RequestFlags::PAUSE;
    // The world looks at everything after each message: all at once, for it would take minutes.
    for stream in 0..paused {
        let request = encode(|w| RequestMsg { flags: rests, ..item(10 + stream, "A") }.encode(w));
        world.p2ps.client_message(world.now, ClientId(1), &request);
    }
    world.settle();
    world.publish(0, |p| {
        p.image(0, &[(22, 1)]);
    });
    assert_eq!(world.take(1).len(), paused as usize, "the first image is owed to those that are paused, too");
    world.take(2);
    // A stream that is resumed gets its image, and nobody else does.
    world.request(1, &item(10, "A"));
    world.publish(0, |p| {
        p.update(0, &[(22, 2)]).image(0, &[(22, 3)]);
    });
    assert_eq!(world.take(1), ["refresh 10 solicited complete OPEN/OK group 3 key 1:A 22=3"]);
    assert_eq!(world.take(2), ["update 5 22=2"]);
    assert_eq!(world.asked(), ["0: refresh 0", "0: refresh 0"], "for the first image, and for the one that is resumed");
    let mut updates = Publisher { writer: world.writer(0) };
    for price in 0..500 {
        updates.update(0, &[(22, price)]);
    }
    let block = updates.writer.block().unwrap().to_vec();
    world.p2ps.check_invariants();
    #[allow(clippy::disallowed_methods, reason = "measures what it costs")]
    let began = std::time::Instant::now();
    world.p2ps.hub_block(world.now, SourceId(0), &block).unwrap();
    began.elapsed()
}

/// An update looks at those who get it, and not at each stream that is paused.
#[test]
fn paused_streams_cost_an_update_nothing() {
    let (few, many) = (time_of_updates(10), time_of_updates(20_000));
    assert!(
        many < few * 20 + std::time::Duration::from_millis(50),
        "{many:?} with 20,000 paused streams, {few:?} with 10"
    );
}
