//! A hundred thousand topics over real sockets. With the default limits of 1,000 a second this takes 100 s, which `lbm` proves in
//! virtual time; here with limits that a local network bears.

use std::time::{Duration, Instant};

use crate::world::World;
use lbm_io::SendFlags;

const TOPICS: usize = 100_000;

#[test]
fn a_hundred_thousand_topics_resolve_without_a_storm() {
    let mut world = World::new(
        "source transport lbtrm
        context resolver_initial_advertisements_per_second 40000
        context resolver_initial_queries_per_second 40000
        context resolver_sustain_advertisement_bps 30000000
        context resolver_sustain_query_bps 20000000",
    );
    let options = world.options.clone();
    let name = |i: usize| format!("md.topic.{i}");
    let began = Instant::now();
    let sources: Vec<_> = (0..TOPICS).map(|i| world.left.source(&name(i), &options).expect("a source")).collect();
    for i in 0..TOPICS {
        world.right.receiver(&name(i), &options).expect("a receiver");
    }
    let made = began.elapsed();
    let began = Instant::now();
    world.until("all topics", |w| w.right.resolver_stats().found == TOPICS as u64);
    let took = began.elapsed();
    let (left, right) = (*world.left.resolver_stats(), *world.right.resolver_stats());
    println!(
        "{TOPICS} topics made in {made:?}, resolved in {took:?}: {} packets of advertisements, {} of queries, {} bytes",
        left.packets,
        right.packets,
        left.bytes + right.bytes
    );
    // The limits hold: 50 Mbit/s both ways together, whatever 200,000 schedules want.
    let allowed = (took + Duration::from_millis(200)).as_secs_f64() * 50_000_000.0 / 8.0;
    assert!(((left.bytes + right.bytes) as f64) < allowed, "{left:?} {right:?} in {took:?}");
    assert!(left.packets + right.packets < 40_000, "{left:?} {right:?}");
    // And each of them works.
    let last = sources[TOPICS - 1];
    let topic = name(TOPICS - 1);
    world.until("the last topic", |w| {
        w.left.send(last, b"hello", SendFlags::FLUSH).expect("room");
        !w.ear.topic(&topic).messages.is_empty()
    });
}
