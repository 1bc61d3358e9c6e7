//! The rules, one by one.

use crate::world::{MS, Plan, SECOND, World};

fn send(world: &mut World, source: usize, count: u32) {
    for _ in 0..count {
        world.publish(source);
        world.run(10 * MS);
    }
    world.run(100 * MS);
}

/// Numbers from the first one that a source of a world has.
fn from_first(count: u32) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count).map(|i| (u32::MAX - 20).wrapping_add(i)).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_topic_goes_where_it_is_wanted_and_nowhere_else() {
    let mut world = World::new(Plan::new(&[&[1], &[2], &[3]], &[(0, 1), (1, 2)]));
    let source = world.add_source(1, "orders");
    let other = world.add_source(1, "trades");
    world.want(3, "orders");
    world.run(2 * SECOND);
    send(&mut world, source, 30);
    send(&mut world, other, 30);
    assert_eq!(world.numbers(3, source), from_first(30));
    assert_eq!((world.numbers(2, source).len(), world.numbers(3, other).len()), (0, 0));
    assert_eq!(world.router(0).topics().count(), 1, "of the other nobody has heard");
    world.want_pattern(2, "^tr");
    world.run(SECOND);
    send(&mut world, other, 5);
    assert_eq!(world.numbers(2, other).len(), 5);
    world.end_source(source);
    world.run(SECOND);
    assert_eq!(world.serving(3, source), [0; 0]);
}

#[test]
fn the_cheapest_way_is_taken_and_another_when_it_breaks() {
    let mut plan = Plan::new(&[&[1], &[2], &[], &[]], &[(0, 2), (2, 1), (0, 3), (3, 1)]);
    plan.links[0].2 = 5;
    let mut world = World::new(plan);
    let source = world.add_source(1, "orders");
    world.want(2, "orders");
    world.run(2 * SECOND);
    send(&mut world, source, 10);
    let by = |world: &World, node: usize| world.router(node).topics().next().map_or(0, |view| view.counts.0);
    assert_eq!((by(&world, 2), by(&world, 3)), (0, 10));
    world.kill(3);
    world.run(100 * MS);
    send(&mut world, source, 10);
    assert_eq!(by(&world, 2), 10);
    assert_eq!(world.numbers(2, source), from_first(20), "the proxy source has stayed, and nothing was sent meanwhile");
    assert_eq!(world.gaps, 0);
}

#[test]
fn with_two_ways_nothing_is_missed_when_one_breaks() {
    let mut plan = Plan::new(&[&[1], &[2], &[], &[]], &[(0, 2), (2, 1), (0, 3), (3, 1)]);
    plan.paths = 2;
    let mut world = World::new(plan);
    let source = world.add_source(1, "orders");
    world.want(2, "orders");
    world.run(2 * SECOND);
    send(&mut world, source, 10);
    // Nothing passes any more, and nobody has been told.
    world.cut_link(2, u64::MAX);
    for _ in 0..500 {
        world.publish(source);
        world.run(20 * MS);
    }
    world.run(SECOND);
    assert_eq!(world.numbers(2, source).len(), 510);
    assert_eq!(world.gaps, 0);
    let view = world.router(1).topics().next().expect("a source");
    assert!(view.counts.1 >= 10, "copies came by both: {:?}", view.counts);
}

#[test]
fn a_circle_of_routers_sends_nothing_round_and_keeps_nothing_alive() {
    let mut plan = Plan::new(&[&[1], &[2], &[3]], &[(0, 1), (1, 2), (2, 0)]);
    plan.paths = 3;
    let mut world = World::new(plan);
    let source = world.add_source(1, "orders");
    world.want(2, "orders");
    world.want(3, "orders");
    world.run(2 * SECOND);
    send(&mut world, source, 50);
    assert_eq!(world.numbers(2, source), from_first(50));
    assert_eq!(world.numbers(3, source), from_first(50));
    for node in 0..3 {
        let view = world.router(node).topics().next().expect("a source");
        assert_eq!(view.counts.0, 50, "each number goes on once");
    }
    world.kill(0);
    world.run(15 * SECOND);
    assert_eq!(
        (world.serving(2, source).len(), world.serving(3, source).len()),
        (0, 0),
        "the others do not keep it for each other"
    );
    world.wants.clear();
    world.run(60 * SECOND);
    let remains = world.remains();
    assert!(remains.is_empty(), "{remains:?}");
}

#[test]
fn a_circle_behind_a_router_that_is_gone_keeps_nothing_alive() {
    let mut world = World::new(Plan::new(&[&[1], &[], &[2], &[3]], &[(0, 1), (1, 2), (2, 3), (3, 1)]));
    let source = world.add_source(1, "orders");
    world.add_source(2, "trades");
    world.want(2, "orders");
    world.want(3, "orders");
    world.want(1, "trades");
    world.run(2 * SECOND);
    send(&mut world, source, 10);
    assert_eq!((world.numbers(2, source), world.numbers(3, source)), (from_first(10), from_first(10)));
    world.kill(0);
    world.run(15 * SECOND);
    for node in 1..4 {
        let router = world.router(node);
        assert_eq!(router.topics().count(), 0, "router {node} has {:?}", router.topics().next());
        assert_eq!(router.wanted(), 1, "router {node}: nobody wants trades any more");
    }
    world.start(0);
    world.run(2 * SECOND);
    send(&mut world, source, 10);
    assert_eq!(world.numbers(3, source), from_first(20));
}

#[test]
fn of_two_routers_one_serves_and_the_other_when_that_is_gone() {
    let mut plan = Plan::new(&[&[1, 2], &[1, 2]], &[]);
    for (_, standby) in &mut plan.routers[1] {
        *standby = true;
    }
    let mut world = World::new(plan);
    let source = world.add_source(1, "orders");
    world.want(2, "orders");
    world.run(6 * SECOND);
    assert_eq!(world.serving(2, source), [0]);
    send(&mut world, source, 10);
    world.kill(0);
    world.run(5 * SECOND);
    assert_eq!(world.serving(2, source), [1]);
    send(&mut world, source, 10);
    assert_eq!(world.numbers(2, source).len(), 20);
    world.start(0);
    world.run(10 * SECOND);
    assert_eq!(world.serving(2, source), [1], "who serves goes on");
    send(&mut world, source, 10);
    assert_eq!((world.numbers(2, source).len(), world.conflicts), (30, 0));
    // No proxy source was ever taken for a source: nothing has come back into the domain of the source.
    assert_eq!(world.numbers(1, source), [0; 0]);
}

#[test]
fn of_two_that_serve_the_better_one_stays() {
    let mut world = World::new(Plan::new(&[&[1, 2], &[1, 2]], &[]));
    let source = world.add_source(1, "orders");
    world.want(2, "orders");
    world.run(5 * SECOND);
    assert_eq!(world.serving(2, source), [0]);
    // Neither hears the other for a while.
    world.cut_domains(0, world.now + 8 * SECOND);
    world.run(7 * SECOND);
    assert_eq!((world.serving(2, source), world.conflicts), (vec![0, 1], 1));
    world.run(3 * SECOND);
    assert_eq!(world.serving(2, source), [0], "the lower id, at the same cost");
    // Those whose receivers take the first copy of each number are served by both.
    let mut plan = Plan::new(&[&[1, 2], &[1, 2]], &[]);
    plan.parallel = true;
    let mut world = World::new(plan);
    let source = world.add_source(1, "orders");
    world.want(2, "orders");
    world.run(5 * SECOND);
    send(&mut world, source, 10);
    assert_eq!(world.serving(2, source), [0, 1]);
    assert!(world.delivered[&(2, world.sources[source].origin)].values().all(|count| *count == 2));
}

#[test]
fn what_finds_no_room_is_lost_and_said() {
    let mut plan = Plan::new(&[&[1], &[2]], &[(0, 1)]);
    plan.queue_bytes_max = 300;
    let mut world = World::new(plan);
    let source = world.add_source(1, "orders");
    world.want(2, "orders");
    world.run(2 * SECOND);
    for _ in 0..50 {
        world.publish(source);
    }
    world.run(SECOND);
    let arrived = world.numbers(2, source).len() as u64;
    assert!(arrived > 0 && arrived < 50, "{arrived}");
    assert_eq!(world.gaps, 50 - arrived, "the end of what was lost is told though nothing follows");
    let dropped = world.router(0).portal_stats(lbm_router::PortalId(1)).expect("a portal").dropped;
    assert_eq!(dropped, 50 - arrived);
}

#[test]
fn a_short_break_is_a_gap_and_not_an_end() {
    let mut world = World::new(Plan::new(&[&[1], &[2]], &[(0, 1)]));
    let source = world.add_source(1, "orders");
    world.want(2, "orders");
    world.run(2 * SECOND);
    send(&mut world, source, 5);
    world.break_link(0);
    world.publish(source);
    world.run(2 * SECOND);
    send(&mut world, source, 5);
    assert_eq!((world.numbers(2, source).len(), world.gaps), (10, 1));
    world.cut_link(0, u64::MAX);
    world.run(30 * SECOND);
    assert_eq!(world.serving(2, source), [0; 0], "one that lasts is");
}

#[test]
fn which_stores_a_source_has_is_known_wherever_it_is_wanted() {
    // A circle of three: each word comes by two ways.
    let mut plan = Plan::new(&[&[1], &[2], &[3]], &[(0, 1), (1, 2), (2, 0)]);
    plan.paths = 2;
    let mut world = World::new(plan);
    let source = world.add_source(1, "orders");
    let origin = world.sources[source].origin;
    world.want(3, "orders");
    world.run(2 * SECOND);
    let told = |world: &World, domain: u32| world.told_stores.get(&(domain, origin)).cloned().unwrap_or_default();
    assert_eq!(told(&world, 3), [[0; 0]; 0], "the source has not said it yet");
    world.say_stores(source, b"one");
    world.run(SECOND);
    assert_eq!(told(&world, 3), [b"one"]);
    // Said again, it is nothing new; another word is.
    world.say_stores(source, b"one");
    world.say_stores(source, b"two");
    world.run(SECOND);
    assert_eq!(told(&world, 3), [b"one", b"two"]);
    // A domain that wants the topic later gets the last word with its proxy source; and so does a peer that comes back.
    world.want(2, "orders");
    world.run(2 * SECOND);
    assert_eq!(told(&world, 2), [b"two"]);
    world.start(2);
    world.run(10 * SECOND);
    assert_eq!(told(&world, 3).last().map(Vec::as_slice), Some(&b"two"[..]));
    assert!(told(&world, 3).len() > 2, "by a new proxy source");
    world.say_stores(source, &[7; 10_000]);
    world.run(SECOND);
    assert_eq!(world.router(0).stats().stores_refused, 1);
    assert_eq!(told(&world, 2), [b"two"]);
}
