//! Equal requests share a stream; posts are answered.

use crate::world::{SECOND, SERVICE, World};
use client::images::Condition;
use client::queue::{Overflow, QueueConfig};
use client::{Event, PostError};
use rwf::msg::{Domain, MsgClass, PostMsg};

fn world() -> World {
    let mut world = World::new();
    for (number, name) in ["A", "B"].iter().enumerate() {
        world.values.insert((*name).to_owned(), (number as u64, 7));
    }
    world
}

const QUEUE: QueueConfig = QueueConfig { limit_bytes: 1 << 20, overflow: Overflow::Wait };

#[test]
fn who_joins_gets_the_held_image_and_the_provider_hears_nothing() {
    let mut world = world();
    world.subscribe(&["A", "B"], QUEUE, true);
    world.settle();
    world.change("A", true, 50);
    world.talk(usize::MAX);
    let joined = world.subscribe(&["B", "A", "A"], QUEUE, true);
    world.take(joined);
    assert_eq!((world.value(joined, 1), world.value(joined, 2)), (Some((50, 7)), Some((50, 7))));
    assert_eq!(world.opened, ["A", "B"]);
    world.change("A", false, 8);
    world.talk(usize::MAX);
    world.take(joined);
    let classes = [MsgClass::REFRESH, MsgClass::UPDATE];
    for item in [1, 2] {
        let of_item = world.apps[joined].taken.iter().filter(|(taken, _)| *taken == item);
        assert_eq!(of_item.map(|(_, class)| *class).collect::<Vec<_>>(), classes);
    }
    // The first leaves: the stream stays for the other.
    world.unsubscribe(0);
    world.settle();
    assert_eq!((world.client.streams(), world.condition(0, 1)), (2, Condition::Ok));
}

#[test]
fn who_joins_between_parts_waits_for_the_whole() {
    let mut world = world();
    world.in_parts = true;
    let first = world.subscribe(&["A"], QUEUE, true);
    world.connect();
    world.talk(usize::MAX);
    let joined = world.subscribe(&["A"], QUEUE, true);
    world.take(first);
    world.take(joined);
    assert_eq!((world.apps[first].taken.len(), world.apps[joined].taken.len()), (1, 0));
    world.complete();
    world.talk(usize::MAX);
    world.take(joined);
    assert_eq!((world.value(joined, 0), world.apps[joined].taken.len()), (Some((0, 7)), 1));
    assert_eq!(world.opened, ["A"]);
}

#[test]
fn snapshots_are_asked_for_each_and_are_over_with_their_images() {
    let mut world = world();
    world.subscribe(&["A"], QUEUE, true);
    let snapshots = world.subscribe(&["A", "B"], QUEUE, false);
    world.settle();
    assert_eq!((world.condition(snapshots, 0), world.value(snapshots, 1)), (Condition::Snapshot, Some((1, 7))));
    assert_eq!((world.client.streams(), world.opened.len()), (1, 3));
}

#[test]
fn a_slow_application_gets_the_latest_of_each_item() {
    let mut world = world();
    let slow = world.subscribe(&["A", "B"], QueueConfig { limit_bytes: 64, overflow: Overflow::Latest }, true);
    world.settle();
    world.apps[slow].taken.clear();
    for number in 0..1_000 {
        world.change(["A", "B"][number as usize % 2], true, number);
        world.talk(usize::MAX);
    }
    world.take(slow);
    assert_eq!((world.value(slow, 0), world.value(slow, 1)), (Some((998, 7)), Some((999, 7))));
    let counts = world.apps[slow].queue.counts();
    assert!(counts.merged > 950 && world.apps[slow].taken.len() < 10, "{counts:?}");
}

#[test]
fn posts_are_answered_on_and_off_stream_or_told_unanswered() {
    let mut world = world();
    let app = world.subscribe(&["A"], QUEUE, true);
    let at = (world.apps[app].id, 0);
    let post = PostMsg::new(Domain::MARKET_PRICE, 0);
    assert_eq!(world.client.post(0, at, &post, true), Err(PostError::NotOpen));
    world.settle();
    let now = world.now;
    let on = world.client.post(now, at, &post, true).expect("open");
    let off = world.client.post_off_stream(now, (SERVICE, "B"), &post, true).expect("logged in");
    world.talk(usize::MAX);
    let late = world.client.post(world.now, at, &post, true).expect("open");
    world.pass(16 * SECOND);
    let told: Vec<_> = world
        .events
        .iter()
        .filter_map(|event| match event {
            Event::PostAnswered { id, by, nak: None, text } => Some((*id, *by, text.as_str())),
            Event::PostUnanswered { id, by } => Some((*id, *by, "none")),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(on, Some(at), "taken"), (off, None, "taken"), (late, Some(at), "none")]);
}
