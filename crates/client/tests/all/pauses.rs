//! Items that rest and go on, and what is asked for of them changed.

use crate::world::{SECOND, World};
use client::images::Condition;
use client::queue::{Overflow, QueueConfig};
use proptest::prelude::*;
use rwf::msg::{MsgClass, Priority};
use std::sync::Arc;

const QUEUE: QueueConfig = QueueConfig { limit_bytes: 1 << 20, overflow: Overflow::Wait };

fn world(server_pauses: bool) -> World {
    let mut world = World::new();
    if !server_pauses {
        Arc::get_mut(&mut world.config).expect("nobody has it yet").features.optimized_pause_resume = None;
    }
    for (number, name) in ["A", "B"].iter().enumerate() {
        world.values.insert((*name).to_owned(), (number as u64, 7));
    }
    world
}

fn is_paused_at_server(world: &World, name: &str) -> Vec<bool> {
    let provider = world.provider.as_ref().expect("a connection");
    let streams = (1..2_000).filter_map(|id| provider.stream(id));
    streams.filter(|asked| asked.name == name.as_bytes()).map(|asked| asked.paused).collect()
}

#[test]
fn a_stream_rests_at_the_server_when_all_who_watch_it_do() {
    let mut world = world(true);
    let (first, other) = (world.subscribe(&["A"], QUEUE, true), world.subscribe(&["A"], QUEUE, true));
    world.settle();
    world.pause(first, 0, true);
    world.talk(usize::MAX);
    assert_eq!(is_paused_at_server(&world, "A"), [false]);
    world.change("A", true, 5);
    world.talk(usize::MAX);
    world.take(first);
    world.take(other);
    assert_eq!((world.value(first, 0), world.value(other, 0)), (Some((0, 7)), Some((5, 7))));
    world.pause(other, 0, true);
    world.talk(usize::MAX);
    assert_eq!(is_paused_at_server(&world, "A"), [true]);
    world.change("A", true, 6);
    world.pause(first, 0, false);
    world.talk(usize::MAX);
    world.change("A", false, 8);
    world.talk(usize::MAX);
    world.take(first);
    let classes: Vec<MsgClass> = world.apps[first].taken.iter().map(|(_, class)| *class).collect();
    assert_eq!(
        classes,
        [MsgClass::REFRESH, MsgClass::REFRESH, MsgClass::UPDATE],
        "the image of before the pause is none"
    );
    assert_eq!((world.value(first, 0), is_paused_at_server(&world, "A")), (Some((6, 8)), vec![false]));
    // The one who is left rests, and so does the stream.
    world.unsubscribe(first);
    world.talk(usize::MAX);
    assert_eq!(is_paused_at_server(&world, "A"), [true]);
    // A subscription that joins wakes the stream.
    world.change("A", true, 9);
    let joined = world.subscribe(&["A"], QUEUE, true);
    world.talk(usize::MAX);
    world.take(joined);
    assert_eq!((world.value(joined, 0), world.apps[joined].taken.len()), (Some((9, 8)), 1));
}

#[test]
fn a_server_that_cannot_pause_goes_on_and_the_application_rests() {
    let mut world = world(false);
    let app = world.subscribe(&["A"], QUEUE, true);
    world.settle();
    world.pause(app, 0, true);
    world.change("A", true, 5);
    world.talk(usize::MAX);
    world.take(app);
    assert_eq!((world.value(app, 0), is_paused_at_server(&world, "A")), (Some((0, 7)), vec![false]));
    world.kill();
    world.settle();
    assert_eq!(
        (world.condition(app, 0), world.value(app, 0)),
        (Condition::Ok, Some((5, 7))),
        "states and images are told in a pause"
    );
    world.change("A", true, 6);
    world.talk(usize::MAX);
    world.pause(app, 0, false);
    world.take(app);
    assert_eq!(world.value(app, 0), Some((6, 7)));
}

#[test]
fn another_priority_is_asked_for_on_the_stream_or_beside_it() {
    let mut world = world(true);
    let (first, other) = (world.subscribe(&["A"], QUEUE, true), world.subscribe(&["A"], QUEUE, true));
    world.settle();
    let high = Some(Priority { class: 5, count: 1 });
    world.reissue(first, 0, |request| request.priority = high);
    world.settle();
    assert_eq!((world.client.streams(), world.value(first, 0)), (2, Some((0, 7))));
    // The other one asks for the same: it joins, and its own stream is over.
    world.reissue(other, 0, |request| request.priority = high);
    world.settle();
    assert_eq!((world.client.streams(), world.value(other, 0)), (1, Some((0, 7))));
    world.unsubscribe(other);
    world.reissue(first, 0, |request| request.priority = None);
    world.settle();
    let provider = world.provider.as_ref().expect("a connection");
    let asked: Vec<_> = (1..2_000).filter_map(|id| provider.stream(id)).map(|asked| asked.priority).collect();
    assert_eq!((asked, world.client.streams()), (vec![None], 1));
}

#[derive(Debug, Clone)]
enum Step {
    Subscribe(bool),
    Unsubscribe(usize),
    Pause(usize, bool),
    Priority(usize, u8),
    Change(bool, bool),
    Kill,
    Talk(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => any::<bool>().prop_map(Step::Subscribe),
        1 => any::<usize>().prop_map(Step::Unsubscribe),
        5 => (any::<usize>(), any::<bool>()).prop_map(|(at, is_paused)| Step::Pause(at, is_paused)),
        2 => (any::<usize>(), 0..3u8).prop_map(|(at, class)| Step::Priority(at, class)),
        6 => (any::<bool>(), any::<bool>()).prop_map(|(first, other)| Step::Change(first, other)),
        1 => Just(Step::Kill),
        4 => (1..20usize).prop_map(Step::Talk),
    ]
}

proptest! {
    /// Subscriptions pause, ask for something else, join and leave, and connections are lost: who has gone on has what the provider has, and who rests is
    /// given no update.
    #[test]
    fn who_goes_on_has_all_and_who_rests_has_no_updates(server_pauses in any::<bool>(), steps in prop::collection::vec(step(), 1..80)) {
        let mut world = world(server_pauses);
        let mut paused: Vec<bool> = Vec::new();
        let mut number = 100;
        for step in steps {
            let count = paused.len();
            let nth = |at: usize| at.checked_rem(count);
            match step {
                Step::Subscribe(rests) => {
                    let mut request = omm::consumer::ItemRequest::new(crate::world::SERVICE, "");
                    request.paused = rests;
                    world.subscribe_to(&["A", "B"], QUEUE, request);
                    paused.push(rests);
                }
                Step::Unsubscribe(at) => if let Some(at) = nth(at) {
                    world.unsubscribe(at);
                    paused.remove(at);
                },
                Step::Pause(at, is_paused) => if let Some(at) = nth(at) {
                    world.take(at);
                    world.apps[at].taken.clear();
                    (0..2).for_each(|item| world.pause(at, item, is_paused));
                    paused[at] = is_paused;
                },
                Step::Priority(at, class) => if let Some(at) = nth(at) {
                    let priority = (class > 0).then_some(Priority { class, count: 1 });
                    world.reissue(at, 0, |request| request.priority = priority);
                },
                Step::Change(is_a, first) => {
                    number += 1;
                    world.change(if is_a { "A" } else { "B" }, first, number);
                }
                Step::Kill => world.kill(),
                Step::Talk(most) => {
                    world.connect();
                    world.talk(most);
                }
            }
            for (at, rests) in paused.iter().enumerate() {
                world.take(at);
                let taken = std::mem::take(&mut world.apps[at].taken);
                prop_assert!(!rests || taken.iter().all(|(_, class)| *class != MsgClass::UPDATE), "an update in a pause");
            }
        }
        for at in 0..paused.len() {
            (0..2).for_each(|item| world.pause(at, item, false));
        }
        world.pass(SECOND);
        world.settle();
        for at in 0..paused.len() {
            prop_assert_eq!((world.value(at, 0), world.value(at, 1)), (Some(world.values["A"]), Some(world.values["B"])));
            prop_assert_eq!((world.condition(at, 0), world.condition(at, 1)), (Condition::Ok, Condition::Ok));
        }
    }
}
