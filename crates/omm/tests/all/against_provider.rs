//! A consumer and a provider under random operations, losses and silence, with what the provider has as the model: in the end
//! every item is what it is there, and nobody waits.

use crate::world::{SECOND, World, consumer_config, provider_config, service, state_change};
use omm::consumer::{Event, ItemId, ItemRequest};
use proptest::prelude::*;
use rwf::rdm::directory::Service;
use rwf::{DataState, State, StateCode, StreamState};

const NAMES: [&str; 6] = ["A", "B", "C", "D", "E", "missing"];

#[derive(Debug, Clone)]
enum Step {
    Open(usize, bool),
    Batch(Vec<usize>),
    Close(usize),
    Change(usize, u64),
    Connect,
    Disconnect,
    Answering(bool),
    Answer(usize),
    ClosedRecover(usize),
    ServiceUp(bool),
    ServiceGone,
    Pause(usize, bool),
    Pass(u64),
    Settle,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..NAMES.len(), any::<bool>()).prop_map(|(name, streaming)| Step::Open(name, streaming)),
        1 => prop::collection::vec(0..NAMES.len(), 0..5).prop_map(Step::Batch),
        1 => (0usize..20).prop_map(Step::Close),
        3 => (0..NAMES.len() - 1, any::<u32>()).prop_map(|(name, value)| Step::Change(name, u64::from(value))),
        3 => Just(Step::Connect),
        1 => Just(Step::Disconnect),
        1 => any::<bool>().prop_map(Step::Answering),
        2 => (0usize..4).prop_map(Step::Answer),
        1 => (0usize..20).prop_map(Step::ClosedRecover),
        1 => any::<bool>().prop_map(Step::ServiceUp),
        1 => Just(Step::ServiceGone),
        1 => (0usize..20, any::<bool>()).prop_map(|(item, paused)| Step::Pause(item, paused)),
        2 => (0..20 * SECOND).prop_map(Step::Pass),
        5 => Just(Step::Settle),
    ];
    prop::collection::vec(step, 0..80)
}

fn run(world: &mut World, items: &mut Vec<(ItemId, usize, bool)>, step: Step) {
    match step {
        Step::Open(name, streaming) => {
            let request = ItemRequest { streaming, ..ItemRequest::new("FEED", NAMES[name]) };
            items.push((world.consumer.open(world.now, request).unwrap(), name, streaming));
        }
        Step::Batch(names) => {
            let texts: Vec<&str> = names.iter().map(|&name| NAMES[name]).collect();
            let opened = world.consumer.open_batch(world.now, &ItemRequest::new("FEED", ""), &texts).unwrap();
            items.extend(opened.into_iter().zip(names).map(|(item, name)| (item, name, true)));
        }
        Step::Close(at) if at < items.len() => {
            let (item, ..) = items.remove(at);
            world.consumer.close(world.now, item);
            world.seen.remove(&item);
        }
        Step::Change(name, value) => world.change(NAMES[name], value),
        Step::Connect => drop(world.connect()),
        Step::Disconnect => {
            if world.provider.is_some() {
                world.disconnect();
            }
        }
        Step::Answering(answers) => world.answers = answers,
        Step::Answer(count) => world.answer(count),
        Step::ClosedRecover(at) => {
            if let Some(&(item, ..)) = items.get(at) {
                let state = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, "");
                world.status(item, state);
            }
        }
        Step::ServiceUp(up) => {
            if let Some(provider) = &mut world.provider {
                provider.change_service(&state_change(1, up));
            }
        }
        Step::ServiceGone => {
            if let Some(provider) = &mut world.provider {
                provider.change_service(&Service::delete(1));
                provider.change_service(&service(1, "FEED", Some(3)));
            }
        }
        Step::Pause(at, paused) => {
            if let Some(&(item, ..)) = items.get(at) {
                world.consumer.reissue(item, |request| request.paused = paused);
            }
        }
        Step::Pass(nanoseconds) => world.pass(nanoseconds),
        Step::Settle | Step::Close(_) => world.settle(),
    }
    world.take_events();
    if matches!(world.events.last(), Some(Event::Disconnect(_))) {
        world.events.clear();
        world.disconnect();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn in_the_end_every_item_is_what_the_provider_has(steps in steps()) {
        let mut world = World::new(consumer_config(3), provider_config(vec![service(1, "FEED", Some(3))]));
        for (n, name) in NAMES[..NAMES.len() - 1].iter().enumerate() {
            world.values.insert((*name).to_owned(), n as u64);
        }
        let mut items = Vec::new();
        for step in steps {
            run(&mut world, &mut items, step);
        }
        // Everything works from now on.
        world.answers = true;
        world.settle();
        if world.provider.is_some() {
            world.disconnect();
        }
        world.pass(10 * SECOND);
        world.connect().expect("a server to connect to");
        world.settle();
        world.answer(usize::MAX);
        world.settle();
        world.pass(20 * SECOND);
        world.pass(20 * SECOND);
        for (item, name, streaming) in items {
            let seen = world.seen.get(&item).cloned().unwrap_or_default();
            let value = world.values.get(NAMES[name]).copied();
            if value.is_none() {
                prop_assert_eq!(seen.ended, Some(StreamState::CLOSED), "{} does not exist", NAMES[name]);
            } else if streaming {
                prop_assert_eq!((seen.value, seen.stale, seen.ended), (value, false, None), "{}", NAMES[name]);
            } else {
                prop_assert!(seen.value.is_some() && seen.ended == Some(StreamState::NON_STREAMING), "{:?}", seen);
            }
        }
        prop_assert!(world.most_owed <= 3 + 20, "{} requests at a time", world.most_owed);
    }

    #[test]
    fn any_message_is_taken_without_panic(
        messages in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..60), 1i32..9, 1u8..9), 0..20),
    ) {
        let mut world = World::new(consumer_config(1), provider_config(vec![service(1, "FEED", Some(3))]));
        let mut provider = omm::provider::Provider::new(world.config.clone());
        for name in NAMES {
            world.consumer.open(world.now, ItemRequest::new("FEED", name)).unwrap();
        }
        world.connect().unwrap();
        world.settle();
        for (mut msg, stream_id, class) in messages {
            // Enough of a header for the message to be for somebody.
            if msg.len() > 8 {
                let domain = msg[3] % 11;
                msg[..8].copy_from_slice(&[0, 60, class, domain, 0, 0, 0, stream_id as u8]);
            }
            world.consumer.handle_message(world.now, &msg);
            while world.consumer.poll_event().is_some() {}
            world.consumer.check_invariants();
            provider.handle_message(&msg);
        }
    }
}
