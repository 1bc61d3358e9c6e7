//! Round trips over login streams.

use crate::world::{PRICE, SECOND, World};
use hub_p2ps::Config;
use rwf::msg::{CloseMsg, Domain, GenericMsg, Msg};
use rwf::rdm::login::{self, RoundTrip};

const MILLISECOND: u64 = SECOND / 1_000;

fn world() -> World {
    World::with(Config { round_trip_interval: 10 * SECOND, ..Config::default() })
}

/// Logs in, and gives the round trips that the refresh grants.
fn log_in(world: &mut World, client: u32, offered: Option<u64>) -> Option<u64> {
    world.connect(client);
    reissue(world, client, offered)
}

fn reissue(world: &mut World, client: u32, offered: Option<u64>) -> Option<u64> {
    let mut request = login::Request { name: "alice".to_owned(), ..login::Request::default() };
    request.attributes.round_trip_latency = offered;
    world.send_with(client, |w| request.encode(w));
    let answer = world.raw(client);
    let [refresh] = &answer[..] else { panic!("{answer:?}") };
    let Ok(Msg::Refresh(refresh)) = Msg::decode(refresh) else { panic!("{refresh:?}") };
    login::Refresh::decode(&refresh).unwrap().attributes.round_trip_latency
}

/// The one measurement that a client was sent.
fn sent(world: &mut World, client: u32) -> RoundTrip {
    let answer = world.raw(client);
    let [generic] = &answer[..] else { panic!("{answer:?}") };
    let Ok(Msg::Generic(generic)) = Msg::decode(generic) else { panic!("{generic:?}") };
    assert_eq!(generic.domain, Domain::LOGIN);
    RoundTrip::decode(&generic).unwrap().unwrap()
}

fn answer(world: &mut World, client: u32, asked: &RoundTrip) {
    let answer = asked.answer();
    world.send_with(client, |w| answer.encode(w));
}

fn measured(world: &World) -> Vec<Option<u64>> {
    world.p2ps.mounts().map(|mount| mount.round_trip_us).collect()
}

#[test]
fn who_offers_it_is_measured_and_told_what_the_last_one_was() {
    let mut world = world();
    assert_eq!(log_in(&mut world, 1, Some(2)), Some(2));
    world.pass(9 * SECOND);
    assert!(world.raw(1).is_empty(), "too soon");
    world.pass(SECOND);
    let first = sent(&mut world, 1);
    assert_eq!((first.stream_id, first.from_provider, first.latency), (1, true, None));
    world.pass(3 * MILLISECOND);
    answer(&mut world, 1, &first);
    assert_eq!(measured(&world), [Some(3_000)]);
    answer(&mut world, 1, &first);
    let counters = world.p2ps.counters();
    assert_eq!((counters.round_trips, counters.generics, counters.generics_dropped), (1, 2, 1), "one answer counts");
    assert_eq!(reissue(&mut world, 1, None), Some(2), "a reissue that says nothing of it leaves it as it is");
    world.pass(10 * SECOND);
    let second = sent(&mut world, 1);
    assert_eq!(second.latency, Some(3_000));
    assert_ne!(second.ticks, first.ticks);
}

#[test]
fn who_does_not_offer_it_is_not_measured_and_nobody_where_it_is_off() {
    let mut on = world();
    assert_eq!((log_in(&mut on, 1, None), log_in(&mut on, 2, Some(1))), (None, None));
    on.pass(100 * SECOND);
    assert!(on.raw(1).is_empty() && on.raw(2).is_empty());
    let mut off = World::with(Config::default());
    assert_eq!(log_in(&mut off, 1, Some(2)), None);
    off.pass(100 * SECOND);
    assert!(off.raw(1).is_empty());
}

#[test]
fn what_is_no_answer_or_comes_too_late_is_dropped_and_the_client_stays() {
    let mut world = world();
    log_in(&mut world, 1, Some(2));
    world.pass(10 * SECOND);
    let first = sent(&mut world, 1);
    world.pass(10 * SECOND);
    let second = sent(&mut world, 1);
    assert_eq!(world.p2ps.counters().round_trips_unanswered, 1);
    answer(&mut world, 1, &first);
    answer(&mut world, 1, &RoundTrip { ticks: u64::MAX, ..second });
    world.send(1, GenericMsg::new(Domain::LOGIN, 1));
    answer(&mut world, 1, &RoundTrip { stream_id: 9, ..second });
    assert_eq!((measured(&world), world.p2ps.counters().generics_dropped), (vec![None], 4));
    answer(&mut world, 1, &second);
    assert_eq!(measured(&world), [Some(0)]);
    assert!(world.closed.is_empty(), "{:?}", world.closed);
}

#[test]
fn it_ends_with_the_login() {
    let mut world = world();
    log_in(&mut world, 1, Some(2));
    log_in(&mut world, 2, Some(2));
    world.send(1, CloseMsg::new(Domain::LOGIN, 1));
    world.disconnect(2);
    world.pass(100 * SECOND);
    assert!(world.raw(1).is_empty());
    assert_eq!(world.p2ps.counters().round_trips_unanswered, 0);
    assert_eq!(reissue(&mut world, 1, Some(2)), Some(2));
    world.pass(10 * SECOND);
    assert_eq!(sent(&mut world, 1).latency, None);
    // An item's stream is not the login's.
    world.send(1, GenericMsg::new(PRICE, 1));
    assert_eq!(world.p2ps.counters().round_trips, 0);
}
