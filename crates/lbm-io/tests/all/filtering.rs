//! Source-side filtering of LBT-TCP, by the bytes that sources hand to the kernel.

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
    for behavior in ["none", "inclusion"] {
        let mut world = World::new(&format!(
            "source transport tcp
            context transport_tcp_maximum_ports 1
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

/// Two receivers have a part each; what one asks for does not go to the other, and who names no receiver changes nothing.
#[test]
fn each_receiver_has_its_own_part() {
    let mut world = World::new(
        "source transport tcp
        context transport_tcp_maximum_ports 1
        source transport_source_side_filtering_behavior inclusion",
    );
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
