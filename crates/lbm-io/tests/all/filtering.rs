//! Source-side filtering of LBT-TCP and LBT-RU, by the bytes that sources hand to the kernel.

use lbm_io::{SendFlags, SourceId};

use crate::world::World;

fn bytes(world: &mut World) -> u64 {
    world.left.stats().sending.iter().map(|s| s.sent.bytes).sum()
}

/// Sends so many messages of 1,000 bytes and waits for one on another topic behind them; returns the bytes that went to receivers.
fn send(world: &mut World, source: SourceId, count: usize, (other, topic): (SourceId, &str)) -> u64 {
    let before = bytes(world);
    for _ in 0..count {
        world.left.send(source, &[7; 1_000], SendFlags::NONE).expect("room");
    }
    world.settle(other, topic);
    bytes(world) - before
}

#[test]
fn a_receiver_gets_the_topics_that_it_wants_and_no_other_bytes() {
    a_receiver_gets_what_it_wants("tcp");
}

#[test]
fn a_client_of_datagrams_gets_the_topics_that_it_wants_and_no_other_bytes() {
    a_receiver_gets_what_it_wants("lbtru");
}

fn a_receiver_gets_what_it_wants(transport: &str) {
    for behavior in ["none", "inclusion"] {
        let mut world = World::new(&format!(
            "source transport {transport}
            context transport_{transport}_maximum_ports 1
            source transport_source_side_filtering_behavior {behavior}"
        ));
        let options = world.options.clone();
        let [a, b] = ["a", "b"].map(|topic| world.left.source(topic, &options).expect("a source"));
        let [first, second] = [a, b].map(|source| world.left.sources().transport(source).copied());
        assert!(first.is_some() && first == second, "one session");
        world.right.receiver("a", &options).expect("a receiver");
        world.introduce(a, "a");
        let sent = send(&mut world, b, 100, (a, "a"));
        assert_eq!(sent >= 100_000, behavior == "none", "{behavior}: {sent} bytes");
        // Wanted from now on, and then no more.
        let receiver = world.right.receiver("b", &options).expect("a receiver");
        world.introduce(b, "b");
        assert!(send(&mut world, b, 100, (a, "a")) >= 100_000);
        world.right.remove_receiver(receiver);
        world.until("b is left out", |world| {
            let before = bytes(world);
            world.left.send(b, &[7; 1_000], SendFlags::FLUSH).expect("room");
            bytes(world) - before < 1_000 || behavior == "none"
        });
        let sent = send(&mut world, b, 100, (a, "a"));
        assert_eq!(sent >= 100_000, behavior == "none", "{behavior}: {sent} bytes");
    }
}

#[test]
fn each_receiver_has_its_own_part() {
    each_has_its_own_part("tcp");
}

#[test]
fn each_client_of_datagrams_has_its_own_part() {
    each_has_its_own_part("lbtru");
}

/// Two receivers have a part each; what one asks for does not go to the other, and who names no receiver changes nothing.
fn each_has_its_own_part(transport: &str) {
    let mut world = World::new(&format!(
        "source transport {transport}
        context transport_{transport}_maximum_ports 1
        source transport_source_side_filtering_behavior inclusion"
    ));
    let options = world.options.clone();
    let [a, b] = ["a", "b"].map(|topic| world.left.source(topic, &options).expect("a source"));
    world.right.receiver("a", &options).expect("a receiver");
    world.left.receiver("b", &options).expect("a receiver of its own");
    world.introduce(a, "a");
    let deliveries = |world: &World| world.left_ear.topic("b").messages.len();
    world.until("b is heard", |world| {
        world.left.send(b, b"hello", SendFlags::FLUSH).expect("room");
        deliveries(world) > 0
    });
    let before = bytes(&mut world);
    for _ in 0..50 {
        world.left.send(a, &[1; 1_000], SendFlags::NONE).expect("room");
        world.left.send(b, &[2; 1_000], SendFlags::NONE).expect("room");
    }
    world.settle(a, "a");
    let sent = bytes(&mut world) - before;
    assert!((100_000..115_000).contains(&sent), "each message went once: {sent}");
}

/// Datagrams that are lost on the way are asked for again and come with the client's topics, in order and without a gap.
#[test]
fn losses_of_a_client_are_repaired_with_its_part() {
    let mut world = World::new(
        "source transport lbtru
        context transport_lbtru_maximum_ports 1
        source transport_source_side_filtering_behavior inclusion",
    );
    let options = world.options.clone();
    let [a, b] = ["a", "b"].map(|topic| world.left.source(topic, &options).expect("a source"));
    world.right.receiver("a", &options).expect("a receiver");
    world.introduce(a, "a");
    world.settle(a, "a");
    world.right.lose(100_000, 7);
    for number in 0..2_000u32 {
        world.left.send(a, &number.to_be_bytes(), SendFlags::NONE).expect("room");
        world.left.send(b, &[2; 500], SendFlags::NONE).expect("room");
        // A wish for the other topic begins in the middle of all that.
        if number == 1_000 {
            world.right.receiver("b", &options).expect("a receiver");
        }
        if number % 10 == 0 {
            world.turn();
        }
    }
    world.left.send(a, b"last", SendFlags::FLUSH).expect("room");
    world.until("everything", |world| world.ear.topic("a").messages.last().is_some_and(|m| m == b"last"));
    let had = world.ear.topic("a").messages;
    let numbers = had.iter().filter_map(|message| Some(u32::from_be_bytes(message.as_slice().try_into().ok()?)));
    // The last one has four bytes as well.
    assert!(numbers.take(2_000).eq(0..2_000), "each once, in order");
    world.right.lose(0, 0);
    world.introduce(b, "b");
    assert_eq!(
        (world.ear.topic("a").lost.len(), world.ear.topic("b").lost.len()),
        (0, 0),
        "a wish leaves no gap behind"
    );
}
