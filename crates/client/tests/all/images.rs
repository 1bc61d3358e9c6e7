//! Whatever dies and whenever, in the end each image is the provider's, and none that is older is called good.

use crate::world::{SECOND, World};
use client::LinkId;
use client::images::Condition;
use client::queue::{Overflow, QueueConfig};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Subscribe { first: usize, count: usize, tight: bool },
    Unsubscribe(usize),
    Change { item: usize, first: bool },
    Connect,
    Kill,
    Talk(usize),
    Complete,
    InParts(bool),
    Take(usize),
    Pass,
}

const NAMES: [&str; 6] = ["A", "B", "C", "D", "E", "MISSING"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..6usize, 1..6usize, any::<bool>()).prop_map(|(first, count, tight)| Step::Subscribe { first, count, tight }),
        1 => (0..4usize).prop_map(Step::Unsubscribe),
        8 => (0..5usize, any::<bool>()).prop_map(|(item, first)| Step::Change { item, first }),
        3 => Just(Step::Connect),
        1 => Just(Step::Kill),
        8 => (1..40usize).prop_map(Step::Talk),
        3 => Just(Step::Complete),
        1 => any::<bool>().prop_map(Step::InParts),
        4 => (0..4usize).prop_map(Step::Take),
        1 => Just(Step::Pass),
    ];
    prop::collection::vec(step, 1..150)
}

fn run(world: &mut World, step: &Step, number: u64) {
    match *step {
        Step::Subscribe { first, count, tight } if world.apps.len() < 4 => {
            let names: Vec<&str> = (first..first + count).map(|n| NAMES[n % NAMES.len()]).collect();
            let limit_bytes = if tight { 60 } else { 1 << 20 };
            let overflow = if tight { Overflow::Latest } else { Overflow::Wait };
            world.subscribe(&names, QueueConfig { limit_bytes, overflow }, true);
        }
        Step::Unsubscribe(app) if app < world.apps.len() => world.unsubscribe(app),
        Step::Change { item, first } => world.change(NAMES[item], first, number),
        Step::Connect => {
            world.connect();
        }
        Step::Kill => {
            world.kill();
            for app in 0..world.apps.len() {
                world.take(app);
                for item in 0..world.apps[app].names.len() as u32 {
                    assert_ne!(world.condition(app, item), Condition::Ok, "an item without a connection");
                }
            }
        }
        Step::Talk(most) => world.talk(most),
        Step::Complete => world.complete(),
        Step::InParts(on) => world.in_parts = on,
        Step::Take(app) if app < world.apps.len() => world.take(app),
        Step::Pass => world.pass(SECOND),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn in_the_end_each_image_is_the_providers(steps in steps()) {
        let mut world = World::new();
        for (number, name) in NAMES[..5].iter().enumerate() {
            world.values.insert((*name).to_owned(), (number as u64, 0));
        }
        for (number, step) in steps.iter().enumerate() {
            run(&mut world, step, 100 + number as u64);
        }
        world.settle();
        for app in 0..world.apps.len() {
            for (item, name) in world.apps[app].names.clone().iter().enumerate() {
                let item = item as u32;
                if name == "MISSING" {
                    prop_assert_eq!(world.condition(app, item), Condition::Closed);
                } else {
                    prop_assert_eq!(world.value(app, item), world.values.get(name).copied(), "{} of {}", name, app);
                    prop_assert_eq!(world.condition(app, item), Condition::Ok);
                }
            }
        }
        while !world.apps.is_empty() {
            world.unsubscribe(0);
        }
        world.settle();
        prop_assert_eq!(world.client.streams(), 0);
        prop_assert_eq!(world.client.consumer(LinkId::FIRST).items(), 0);
        prop_assert_eq!(world.provider.as_ref().map(omm::provider::Provider::streams), Some(0));
    }

    #[test]
    fn any_message_is_taken_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), stream in 0..9u8) {
        let mut world = World::new();
        world.values.insert("A".to_owned(), (1, 2));
        world.subscribe(&["A", "B"], QueueConfig::default(), true);
        world.settle();
        let mut msg = bytes;
        if msg.len() > 7 {
            msg[4..8].copy_from_slice(&[0, 0, 0, stream]);
        }
        let now = world.now;
        world.client.handle_message(now, LinkId::FIRST, &msg, &mut |_| {});
        world.client.check_invariants();
    }
}
