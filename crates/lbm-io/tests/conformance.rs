//! One suite for all transports, on real sockets.

mod world;

use lbm_io::SendFlags;
use world::World;

const TRANSPORTS: [&str; 3] = ["lbtrm", "lbtru", "tcp"];

fn payload(i: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![i as u8; length.max(4)];
    bytes[..4].copy_from_slice(&i.to_be_bytes());
    bytes
}

/// Sends messages of many lengths and takes turns; each comes once and in order.
fn exchange(transport: &str, lines: &str, lose: u32, count: u32) -> World {
    let mut world = World::new(&format!("source transport {transport}\n{lines}"));
    let options = world.options.clone();
    let source = world.left.source("md.ibm", &options).expect("a source");
    world.right.receiver("md.ibm", &options).expect("a receiver");
    world.introduce(source, "md.ibm");
    world.settle(source, "md.ibm");
    world.right.lose(lose, 7);
    world.left.lose(lose / 2, 8);
    let mut sent = Vec::new();
    for i in 0..count {
        let length = match i % 50 {
            49 => 100_000,
            n => n as usize * n as usize,
        };
        let bytes = payload(i, length);
        let flags = if i % 7 == 0 { SendFlags::FLUSH } else { SendFlags::NONE };
        world.left.send(source, &bytes, flags).expect("a blocking send");
        sent.push(bytes);
        if i % 20 == 0 {
            world.turn();
        }
    }
    world.left.flush(source).expect("a source");
    world.until("all messages", |w| w.ear.topic("md.ibm").messages.len() == sent.len());
    let heard = world.ear.topic("md.ibm");
    assert!(heard.messages == sent, "{transport}: order and bytes");
    assert_eq!((heard.begun, heard.lost, heard.ended), (1, vec![], vec![]), "{transport}");
    assert!(heard.sqns.windows(2).all(|w| w[0] < w[1]), "{transport}");
    world
}

#[test]
fn messages_come_once_and_in_order() {
    for transport in TRANSPORTS {
        exchange(transport, "", 0, 1_000);
    }
}
