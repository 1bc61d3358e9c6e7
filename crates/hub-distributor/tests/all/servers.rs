//! P2PSs that say where consumers reach them are told of each other.

use crate::world::{SECOND, World};
use hub_distributor::Config;
use hub_stream::{Block, Event, Health, HubError, Request, Server};

fn config() -> Config {
    Config { heartbeat_interval: SECOND, p2ps_timeout: 20 * SECOND, lease: 60 * SECOND, ..Config::default() }
}

/// A P2PS says that it is reached at this host, and how full it is.
fn serve(world: &mut World, id: u16, host: &str, load_factor: u16, health: Health) {
    let mut server = Vec::new();
    Server { host, rssl: 14_002, websocket: 15_000, load_factor: Some(load_factor), health }.write(&mut server);
    world.request(id, &Request::Serve { server: &server }).unwrap();
}

/// What P2PSs were told since: the number of each, and hosts with their loads.
fn told(world: &mut World) -> Vec<(u16, String)> {
    let mut all = Vec::new();
    world.sd.point_to_point_blocks(|id, bytes| {
        for message in Block::parse(bytes).unwrap().messages() {
            let message = message.unwrap();
            let Ok(Event::Servers { target, servers }) = Event::decode(&message) else { continue };
            assert_eq!(target, id);
            let servers = Server::read_all(message.kind, servers).unwrap();
            let words = servers.iter().map(|server| format!("{} {}", server.host, server.load_factor.unwrap()));
            all.push((id, words.collect::<Vec<_>>().join(", ")));
        }
    });
    all
}

fn both(list: &str) -> Vec<(u16, String)> {
    vec![(1, list.to_owned()), (2, list.to_owned())]
}

#[test]
fn p2pss_that_say_where_they_are_reached_hear_of_each_other_and_no_others_do() {
    let mut world = World::with_two_p2pss(config());
    world.p2ps_up(3);
    serve(&mut world, 1, "a", 9, Health::Well);
    serve(&mut world, 2, "b", 4, Health::Well);
    world.pass(1);
    assert_eq!(told(&mut world), both("b 4, a 9"), "the best first, and in one word");
    world.pass(5);
    assert_eq!(told(&mut world), [], "nothing has changed");
    serve(&mut world, 2, "b", 4, Health::Well);
    world.pass(5);
    assert_eq!(told(&mut world), [], "nor now");
    serve(&mut world, 2, "b", 4, Health::Impaired);
    world.pass(1);
    assert_eq!(told(&mut world), both("a 9, b 4"));
    // The P2PS is no server any more, and hears no more of others.
    world.request(1, &Request::Serve { server: b"" }).unwrap();
    world.pass(1);
    assert_eq!(told(&mut world), [(2, "b 4".to_owned())]);
    assert_eq!(world.sd.counters().servers_told, 5);
}

#[test]
fn whatever_p2pss_say_they_are_told_once_a_second() {
    let mut world = World::with_two_p2pss(config());
    for load in 0..100 {
        serve(&mut world, 1, "a", load, Health::Well);
        serve(&mut world, 2, "b", 100, Health::Well);
        world.now += SECOND / 25;
        world.pass(0);
    }
    let words = told(&mut world);
    assert_eq!(words.len(), 2 * 4, "in four seconds: {words:?}");
    world.pass(1);
    assert_eq!(told(&mut world), both("a 99, b 100"), "the last word counts");
}

#[test]
fn a_p2ps_that_is_gone_is_no_server_any_more_though_its_lease_runs() {
    let orderly = |world: &mut World| world.request(1, &Request::Bye).unwrap();
    let cut = |world: &mut World| world.p2ps_down(1);
    for leave in [orderly as fn(&mut World), cut] {
        let mut world = World::with_two_p2pss(config());
        serve(&mut world, 1, "a", 1, Health::Well);
        serve(&mut world, 2, "b", 2, Health::Well);
        world.pass(1);
        told(&mut world);
        leave(&mut world);
        world.pass(1);
        assert_eq!(told(&mut world), [(2, "b 2".to_owned())]);
    }
    // A P2PS that is silent is left out, too.
    let mut world = World::with_two_p2pss(config());
    serve(&mut world, 1, "a", 1, Health::Well);
    serve(&mut world, 2, "b", 2, Health::Well);
    for _ in 0..22 {
        world.pass(1);
        world.request(2, &Request::Heartbeat { position: 0 }).unwrap();
    }
    assert_eq!(told(&mut world).last(), Some(&(2, "b 2".to_owned())));
}

#[test]
fn the_best_are_told_of_where_there_are_too_many() {
    let mut world = World::new(config());
    for id in 0..100 {
        world.p2ps_up(id);
        serve(&mut world, id, &format!("host{id}"), 1_000 - id, Health::Well);
    }
    world.pass(1);
    let words = told(&mut world);
    assert_eq!(words.len(), 100);
    let hosts: Vec<_> = words[0].1.split(", ").collect();
    assert_eq!((hosts.len(), hosts[0], hosts[63]), (Server::MOST, "host99 901", "host36 964"));
}

#[test]
fn what_is_no_server_ends_the_connection() {
    for wrong in [&b"x"[..], b"\x00\0\0\0\0\0\0\0\x01a", b"\0\0\0\0\x01\0\0\0\x01aa"] {
        let mut world = World::with_two_p2pss(config());
        let answer = world.request(1, &Request::Serve { server: wrong });
        assert!(matches!(answer, Err(HubError::Malformed { .. })), "{answer:?}");
        assert_eq!(world.sd.counters().closed_p2ps, 1);
    }
}
