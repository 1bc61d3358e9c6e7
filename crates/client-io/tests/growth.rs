//! Sessions that come, lose a server and go leave no memory behind, neither on their side nor on that of publishers, whose connections those are. This
//! binary has one test, because it counts the allocations of the whole process.

use client::Arrangement;
use client::Interest;
use client::publication::PublicationConfig;
use client::queue::{Overflow, QueueConfig};
use client_io::{Publisher, Session, SessionConfig, Subscription};
use omm::consumer::ItemRequest;
use rwf::Primitive;
use rwf::msg::MsgClass;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PATIENCE: Duration = Duration::from_mins(1);
const FEED: &str = "FEED";
const ITEMS: usize = 2_000;
const LIVES: usize = 12;
/// Most bytes that may be in use more after all lives than after the second: what tables are grown to by more that is under way at once. A life that left
/// a word for each item of one subscription would leave more in all.
const GROWTH_MAX: usize = 128 << 10;

fn in_use() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

fn name(item: usize) -> String {
    format!("ITEM{item}")
}

fn publisher() -> Publisher {
    Publisher::listen(PublicationConfig::new(FEED), ([127, 0, 0, 1], 0).into()).expect("a port")
}

fn publish(publishers: &[Publisher], round: usize) {
    for publisher in publishers {
        for item in 0..ITEMS {
            publisher.publish(&name(item), &[("BID", Primitive::Double((round * item) as f64))]).expect("a field");
        }
        publisher.flush();
    }
}

fn session(publishers: &[Publisher], between: &str, arrangement: Arrangement) -> Session {
    let addresses: Vec<String> =
        publishers.iter().map(|publisher| publisher.address().expect("it listens").to_string()).collect();
    let mut config = SessionConfig::new(&addresses.join(between), "user").expect("servers");
    config.client.arrangement = arrangement;
    Session::connect(config).expect("sockets")
}

fn subscribe(session: &Session, overflow: Overflow) -> Subscription {
    let interest = Interest { request: ItemRequest::new(FEED, ""), names: (0..ITEMS).map(name).collect() };
    session.subscribe_to(interest, QueueConfig { limit_bytes: 1 << 20, overflow }).expect("room")
}

fn take_images(items: &mut Subscription) {
    let (mut has_image, end) = (vec![false; ITEMS], Instant::now() + PATIENCE);
    while !has_image.iter().all(|has| *has) {
        assert!(Instant::now() < end, "images are missing: {items:?}");
        for message in items.next_batch(Some(PATIENCE)).expect("it goes on") {
            has_image[message.item as usize] |= message.class == MsgClass::REFRESH;
        }
    }
}

/// Sessions of each kind: with updates that nobody takes, and with a second subscription of the same items, which begins with images that are held.
fn live(publishers: &[Publisher], round: usize) {
    let kinds = [(",", Arrangement::Routing), ("|", Arrangement::Routing), ("|", Arrangement::StandbyByLogin)];
    let sessions = kinds.map(|(between, arrangement)| session(publishers, between, arrangement));
    let overflows = [Overflow::Wait, Overflow::Latest, Overflow::Latest];
    let mut all: Vec<Subscription> =
        sessions.iter().zip(overflows).map(|(session, overflow)| subscribe(session, overflow)).collect();
    all.iter_mut().for_each(take_images);
    take_images(&mut subscribe(&sessions[round % 3], Overflow::Latest));
    publish(publishers, round);
}

#[test]
fn nothing_is_left_behind() {
    let publishers = [publisher(), publisher()];
    publish(&publishers, 1);
    let mut sizes = Vec::new();
    for round in 0..LIVES {
        live(&publishers, round);
        for publisher in &publishers {
            assert_eq!(publisher.wait(PATIENCE, |status| status.connections == 0).connections, 0);
            while publisher.next_event(Duration::ZERO).is_some() {}
            publisher.flush();
        }
        sizes.push(in_use());
    }
    println!("{sizes:?} bytes");
    // Held images of two publishers are most of it.
    assert!(sizes[LIVES - 1] < sizes[1] + GROWTH_MAX, "bytes in use after each life: {sizes:?}");
}
