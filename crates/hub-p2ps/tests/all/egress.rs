//! Clients that take less than there is for them.

use crate::world::{World, item};
use hub_p2ps::egress::{FlowControl, Limits};
use hub_p2ps::{ClientId, CloseReason, Config};

const SLOW: ClientId = ClientId(1);

fn world() -> World {
    let egress =
        Limits { guaranteed: 100, max: 1_000, pool: 10_000, breach: 400, ok: 50, behind: 200, ..Limits::default() };
    let mut world = World::with_feed_and(Config { egress, ..Config::default() });
    world.clients([1, 2]);
    world.open(1, 5, "IBM", 4);
    world.request(2, &item(6, "IBM"));
    world.asked();
    world.publish(0, |p| {
        p.image(4, &[(22, 1)]);
    });
    world.take(2);
    world
}

fn updates(world: &mut World, values: std::ops::Range<u64>) {
    for value in values {
        world.publish(0, |p| {
            p.update(4, &[(22, value)]);
        });
    }
}

fn words(stream: i32, values: std::ops::Range<u64>) -> Vec<String> {
    values.map(|value| format!("update {stream} 22={value}")).collect()
}

#[test]
fn what_a_session_has_no_room_for_is_held_and_follows_in_order() {
    let mut world = world();
    world.p2ps.client_backlog(SLOW, 100);
    updates(&mut world, 0..2);
    assert_eq!(world.take(1), words(5, 0..2), "what is guaranteed passes");
    world.p2ps.client_backlog(SLOW, 101);
    assert_eq!(world.p2ps.flow_control().collect::<Vec<_>>(), [(SLOW, FlowControl::PauseReading)]);
    updates(&mut world, 2..6);
    assert_eq!(world.take(1), [""; 0]);
    world.p2ps.client_backlog(SLOW, 60);
    updates(&mut world, 6..7);
    assert_eq!(world.take(1), [""; 0], "until half of it is left");
    world.p2ps.client_backlog(SLOW, 50);
    assert_eq!(world.p2ps.timeout(), Some(0), "there is something to do");
    for _ in 0..5 {
        world.settle();
    }
    updates(&mut world, 7..8);
    assert_eq!(world.take(1), words(5, 2..8));
    world.p2ps.client_backlog(SLOW, 0);
    assert_eq!(world.p2ps.flow_control().collect::<Vec<_>>(), [(SLOW, FlowControl::ResumeReading)]);
    assert_eq!(world.take(2), words(6, 0..8), "nobody else waits");
}

#[test]
fn one_that_takes_nothing_is_cut_off_and_nobody_else_notices() {
    let mut world = world();
    world.p2ps.client_backlog(SLOW, 300);
    assert_eq!(world.p2ps.clients_behind(), 1);
    updates(&mut world, 0..100);
    assert_eq!(world.take(1), [""; 0]);
    assert_eq!(world.take(2), words(6, 0..100));
    let controls: Vec<_> = world.p2ps.flow_control().map(|(_, control)| control).collect();
    assert!(matches!(controls[..], [FlowControl::PauseReading, FlowControl::Slow { waiting: 401.. }]), "{controls:?}");
    let [(1, CloseReason::SlowConsumer { waiting, max: 1_000, pool: 10_000 })] = world.closed[..] else {
        panic!("{:?}", world.closed)
    };
    assert!(waiting > 1_000 && waiting < 1_100, "{waiting}");
    world.closed.clear();
    assert_eq!(world.p2ps.counters().clients_cut_off, 1);
    world.disconnect(1);
    assert_eq!((world.p2ps.clients_behind(), world.p2ps.counters().watchers), (0, 1));
}

#[test]
fn beyond_the_pool_those_with_more_than_is_guaranteed_go() {
    let egress = Limits { guaranteed: 100, pool: 250, ..Limits::default() };
    let mut world = World::with_feed_and(Config { egress, ..Config::default() });
    world.clients([1, 2, 3]);
    for (client, bytes) in [(1, 100), (2, 100), (3, 50)] {
        world.p2ps.client_backlog(ClientId(client), bytes);
    }
    world.p2ps.client_backlog(ClientId(3), 101);
    world.settle();
    let closed: Vec<u32> = world.closed.drain(..).map(|(client, _)| client).collect();
    assert_eq!(closed, [3]);
}

#[test]
fn one_that_is_closed_gets_first_what_was_held() {
    let mut world = world();
    world.p2ps.client_backlog(SLOW, 200);
    updates(&mut world, 0..3);
    assert_eq!(world.take(1), [""; 0]);
    world.bytes(1, &[1, 2, 3]);
    assert_eq!(world.take(1), words(5, 0..3));
    assert!(matches!(world.closed[..], [(1, CloseReason::Garbage { .. })]));
    world.closed.clear();
    world.take(2);
}

/// What tells clients that cannot keep up from those that take nothing.
#[test]
fn what_clients_take_while_they_are_behind_is_counted() {
    let mut world = world();
    world.p2ps.client_backlog(SLOW, 150);
    world.p2ps.client_backlog(SLOW, 50);
    assert_eq!(world.p2ps.taken_behind(), 0, "it was not behind");
    for (backlog, taken) in [(250, 0), (240, 10), (300, 10), (190, 120), (0, 120)] {
        world.p2ps.client_backlog(SLOW, backlog);
        assert_eq!(world.p2ps.taken_behind(), taken, "{backlog} wait");
    }
}

/// Who watches one item a thousand times gets each of its messages so often, all of it in one flush.
#[test]
fn one_that_is_to_get_far_more_than_may_wait_is_cut_off_before_it_is_copied() {
    let large: Vec<(i16, u64)> = (0..6_000).map(|fid| (fid, 1 << 40)).collect();
    for is_held in [false, true] {
        let egress = Limits { guaranteed: 1 << 20, max: 2 << 20, ..Limits::default() };
        let mut world = World::with_feed_and(Config { egress, ..Config::default() });
        world.clients([1, 2]);
        world.open(2, 6, "IBM", 4);
        for stream in 10..410 {
            world.request(1, &item(stream, "IBM"));
        }
        world.asked();
        if is_held {
            world.p2ps.client_backlog(SLOW, (1 << 20) + 1);
        }
        world.publish(0, |p| {
            p.image(4, &large);
        });
        assert_eq!(world.take(1), [""; 0], "400 images of 54 KB");
        let [(1, CloseReason::SlowConsumer { waiting, .. })] = world.closed[..] else { panic!("{:?}", world.closed) };
        assert!(waiting > 16 << 20, "{waiting}");
        world.closed.clear();
        world.p2ps.flow_control();
        world.publish(0, |p| {
            p.update(4, &[(22, 2)]);
        });
        assert_eq!((world.take(2), world.take(1).len()), (words(6, 2..3), 0));
        world.disconnect(1);
    }
}
