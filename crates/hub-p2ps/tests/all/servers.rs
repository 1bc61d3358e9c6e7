//! A P2PS among others: what it says of itself, what it hears of them, and what its clients hear.

use crate::world::{SECOND, World, words};
use hub_p2ps::{ClientId, Config, Connections, Joined, Place, ServerOrder, SourceId};
use hub_stream::{BlockWriter, Event, Health, Kind, Server};
use rwf::msg::Msg;
use rwf::rdm::login;

const LOAD_INTERVAL: u64 = 10 * SECOND;

fn config(order: ServerOrder) -> Config {
    let connections = Connections { of_hub: true, order, ..Connections::default() };
    Config { connections, load_factor_interval: LOAD_INTERVAL, mounts_when_full: 160, ..Config::default() }
}

fn place(host: &str) -> Place {
    Place { host: host.to_owned(), rssl: 14_002, websocket: 15_000 }
}

fn server(host: &str, load_factor: u16) -> Server<'_> {
    Server { host, rssl: 14_002, websocket: 15_000, load_factor: Some(load_factor), health: Health::Well }
}

/// This P2PS is reached at "own".
fn world(order: ServerOrder) -> World {
    let mut world = World::with(config(order));
    world.p2ps.serve_at(world.now, place("own"));
    world
}

/// A Source Distributor on the other side of a network is joined.
fn join(world: &mut World, source: u16) {
    let joined = Joined { number: 12, incarnation: 55, position: 0 };
    world.p2ps.source_joined(world.now, SourceId(source), joined);
    world.settle();
}

/// What this P2PS says of itself to Source Distributors, as they read it.
fn said(world: &mut World) -> Vec<String> {
    let sent = std::mem::take(&mut world.sent);
    let asked = world.asked();
    let serve = asked.iter().zip(&sent).filter(|(words, _)| words.ends_with("serve"));
    let words = |(words, body): (&String, &Vec<u8>)| {
        let source = words.split(':').next().unwrap();
        let servers = Server::read_all(Kind::Serve, body).unwrap();
        let one = servers.first().map(|s| format!("{} {:?} {:?}", s.host, s.load_factor, s.health));
        format!("{source}: {}", one.unwrap_or_default())
    };
    serve.map(words).collect()
}

/// A Source Distributor tells of the P2PSs that it knows.
fn hear(world: &mut World, source: u16, servers: &[Server<'_>]) {
    let mut bytes = Vec::new();
    for server in servers {
        server.write(&mut bytes);
    }
    let mut writer = BlockWriter::new(55);
    writer.event(&Event::Servers { target: 12, servers: &bytes });
    let block = writer.block().unwrap().to_vec();
    world.p2ps.point_to_point_block(world.now, SourceId(source), &block).unwrap();
    world.settle();
}

/// A client logs in that asks for servers.
fn ask(world: &mut World, client: u32) -> String {
    world.connect(client);
    let request = login::Request {
        name: "alice".to_owned(),
        password: Some("secret".to_owned()),
        download_connection_config: Some(true),
        ..login::Request::default()
    };
    world.send_with(client, |w| request.encode(w));
    only(world, client, true)
}

/// The one login refresh that has come to a client: the servers in it.
fn only(world: &mut World, client: u32, solicited: bool) -> String {
    let messages = world.raw(client);
    let [message] = &messages[..] else { panic!("{:?}", messages.iter().map(|m| words(m)).collect::<Vec<_>>()) };
    assert!(!message.windows(6).any(|bytes| bytes == b"secret"));
    let Ok(Msg::Refresh(refresh)) = Msg::decode(message) else { panic!("{}", words(message)) };
    let refresh = login::Refresh::decode(&refresh).unwrap();
    assert_eq!((refresh.solicited, refresh.name.as_str(), refresh.stream_id), (solicited, "alice", 1));
    assert_eq!(refresh.attributes.single_open, Some(true));
    let servers = refresh.connection_config.map(|config| config.servers).unwrap_or_default();
    let words = servers.iter().map(|s| format!("{}:{} {}", s.host, s.port, s.load_factor.map_or(-1, |l| l as i64)));
    words.collect::<Vec<_>>().join(", ")
}

#[test]
fn it_says_where_it_is_reached_and_what_has_changed() {
    let mut world = world(ServerOrder::List);
    join(&mut world, 0);
    assert_eq!(said(&mut world), ["0: own Some(0) Impaired"], "it has no service yet");
    world.pass(SECOND);
    assert_eq!(said(&mut world), [""; 0]);
    join(&mut world, 1);
    assert_eq!(said(&mut world), ["1: own Some(0) Impaired"], "who comes hears of it");
    let mut stream = BlockWriter::new(55);
    crate::world::Publisher { writer: &mut stream }.service(40, "FEED");
    let block = stream.block().unwrap().to_vec();
    world.block(0, &block).unwrap();
    world.pass(SECOND);
    assert_eq!(said(&mut world), ["0: own Some(0) Well", "1: own Some(0) Well"]);
    // Ten of 160, and again ten: a step each, told once an interval.
    let mut loads = Vec::new();
    for client in 0..20 {
        world.clients([client]);
        world.pass(SECOND);
        loads.extend(said(&mut world).into_iter().filter(|words| words.starts_with('0')));
    }
    assert_eq!(loads, ["0: own Some(4095) Well"; 1], "once an interval");
    world.p2ps.set_draining(true);
    world.pass(0);
    assert_eq!(said(&mut world), ["0: own Some(4095) Draining", "1: own Some(4095) Draining"]);
    world.p2ps.set_draining(false);
    // The option is turned off: nobody is to name this server.
    world.p2ps.reconfigure(&Config { connections: Connections::default(), ..config(ServerOrder::List) });
    world.pass(SECOND);
    assert_eq!(said(&mut world), ["0: ", "1: "]);
    world.pass(SECOND);
    world.p2ps.source_down(world.now, SourceId(0));
    join(&mut world, 0);
    assert_eq!(said(&mut world), [""; 0], "one that comes now may know nothing of servers");
}

#[test]
fn a_p2ps_without_a_place_or_that_is_not_asked_to_says_nothing() {
    let mut world = World::with(config(ServerOrder::List));
    join(&mut world, 0);
    world.pass(SECOND);
    assert_eq!(world.asked(), ["0: hello"]);
    hear(&mut world, 0, &[server("a", 1)]);
    world.pass(SECOND);
    assert_eq!(ask(&mut world, 1), "", "nor does it believe what it has not asked for");
    let mut world = World::new();
    world.p2ps.serve_at(world.now, place("own"));
    join(&mut world, 0);
    world.pass(SECOND);
    assert_eq!(world.asked(), ["0: hello"]);
    assert_eq!(world.p2ps.timeout().filter(|at| *at <= world.now), None, "nothing is left to do");
    assert_eq!(ask(&mut world, 1), "");
}

#[test]
fn clients_that_ask_are_told_of_the_best_first_and_hear_of_changes() {
    let mut world = world(ServerOrder::List);
    join(&mut world, 0);
    world.pass(SECOND);
    assert_eq!(ask(&mut world, 1), "own:14002 0");
    world.clients([2]);
    hear(&mut world, 0, &[server("b", 0), server("a", 9)]);
    // The entry is of this server as it was a moment ago: this one knows better.
    hear(&mut world, 0, &[server("b", 0), server("a", 9), server("own", 77)]);
    world.pass(SECOND);
    assert_eq!(only(&mut world, 1, false), "b:14002 0, a:14002 9, own:14002 0", "own is impaired: it has no service");
    assert_eq!(world.take(2), [""; 0], "who has not asked hears nothing");
    assert_eq!(ask(&mut world, 3), "b:14002 0, a:14002 9, own:14002 0");
    world.pass(SECOND);
    assert_eq!((world.take(1), world.take(3)), (vec![], vec![]), "nothing has changed");

    // Another load is told once an interval, however often it changes.
    for load in 10..15 {
        hear(&mut world, 0, &[server("b", load), server("a", 9)]);
        world.pass(SECOND);
        assert_eq!(world.take(1), [""; 0]);
    }
    world.pass(LOAD_INTERVAL);
    for client in [1, 3] {
        assert_eq!(only(&mut world, client, false), "a:14002 9, b:14002 14, own:14002 0");
    }
    // A server that is gone, or takes nobody, is off the list at once.
    hear(&mut world, 0, &[server("b", 14), Server { health: Health::Draining, ..server("a", 9) }]);
    world.pass(SECOND);
    assert_eq!(only(&mut world, 1, false), "b:14002 14, own:14002 0");
    assert_eq!(only(&mut world, 3, false), "b:14002 14, own:14002 0");
    world.p2ps.set_draining(true);
    world.pass(SECOND);
    assert_eq!(only(&mut world, 1, false), "b:14002 14", "this one sends its own clients elsewhere");
    world.raw(3);
    let counters = world.p2ps.counters();
    assert_eq!((counters.servers, counters.servers_told), (1, 7));
    // The client asks for the list no more.
    let request =
        login::Request { name: "alice".to_owned(), download_connection_config: Some(false), ..Default::default() };
    world.send_with(3, |w| request.encode(w));
    assert_eq!(only(&mut world, 3, true), "");
    hear(&mut world, 0, &[server("c", 0)]);
    world.pass(SECOND);
    assert_eq!(only(&mut world, 1, false), "c:14002 0");
    assert_eq!(world.take(3), [""; 0]);
    world.asked();
}

#[test]
fn what_is_known_stays_until_a_source_distributor_has_had_the_time_to_hear_of_all() {
    let mut world = world(ServerOrder::List);
    join(&mut world, 0);
    hear(&mut world, 0, &[server("a", 1), server("b", 2)]);
    world.pass(SECOND);
    assert_eq!(ask(&mut world, 1), "a:14002 1, b:14002 2, own:14002 0");
    // The only one is lost: who else is there is not known.
    world.p2ps.source_down(world.now, SourceId(0));
    world.pass(60 * SECOND);
    assert_eq!(world.take(1), [""; 0]);
    join(&mut world, 0);
    hear(&mut world, 0, &[server("b", 2)]);
    world.pass(4 * SECOND);
    assert_eq!(world.take(1), [""; 0], "a may come yet");
    world.pass(SECOND);
    assert_eq!(only(&mut world, 1, false), "b:14002 2, own:14002 0");
    // Another one tells of other P2PSs: both count.
    join(&mut world, 1);
    hear(&mut world, 1, &[server("b", 3), server("c", 0)]);
    world.pass(6 * SECOND);
    assert_eq!(only(&mut world, 1, false), "c:14002 0, b:14002 2, own:14002 0");
    world.p2ps.source_down(world.now, SourceId(1));
    world.pass(SECOND);
    assert_eq!(only(&mut world, 1, false), "b:14002 2, own:14002 0");
    world.asked();
}

#[test]
fn configured_servers_win_and_are_told_anew_when_they_change() {
    let mut world = world(ServerOrder::List);
    join(&mut world, 0);
    hear(&mut world, 0, &[server("a", 1)]);
    world.pass(SECOND);
    assert_eq!(ask(&mut world, 1), "a:14002 1, own:14002 0");
    let mut with = config(ServerOrder::List);
    with.connections.servers = vec![("x".to_owned(), 1), ("a".to_owned(), 2)];
    world.p2ps.reconfigure(&with);
    world.pass(SECOND);
    assert_eq!(only(&mut world, 1, false), "x:1 -1, a:2 -1");
    hear(&mut world, 0, &[server("b", 1)]);
    world.pass(LOAD_INTERVAL);
    assert_eq!(world.take(1), [""; 0], "what P2PSs say does not matter");
    world.p2ps.reconfigure(&config(ServerOrder::List));
    world.pass(SECOND);
    assert_eq!(only(&mut world, 1, false), "b:14002 1, own:14002 0");
    world.asked();
}

#[test]
fn clients_spread_over_those_that_are_equally_good() {
    let mut world = world(ServerOrder::Spread);
    join(&mut world, 0);
    hear(&mut world, 0, &[server("a", 1), server("b", 1), server("c", 9)]);
    world.pass(SECOND);
    let first: Vec<_> = (1..=4).map(|client| ask(&mut world, client)).collect();
    let (ab, ba) = ("a:14002 1, b:14002 1, c:14002 9, own:14002 0", "b:14002 1, a:14002 1, c:14002 9, own:14002 0");
    assert_eq!(first, [ab, ba, ab, ba]);
    // A client keeps its place when others change.
    hear(&mut world, 0, &[server("a", 1), server("b", 1)]);
    world.pass(5 * SECOND);
    let words: Vec<_> = (1..=4).map(|client| only(&mut world, client, false)).collect();
    let (ab, ba) = ("a:14002 1, b:14002 1, own:14002 0", "b:14002 1, a:14002 1, own:14002 0");
    assert_eq!(words, [ab, ba, ab, ba]);
    world.asked();
}

#[test]
fn clients_of_json_are_told_their_port_and_many_clients_in_turns() {
    let mut world = world(ServerOrder::List);
    world.pass(SECOND);
    world.connect(0);
    world.p2ps.mark_json(ClientId(0));
    let request =
        login::Request { name: "alice".to_owned(), download_connection_config: Some(true), ..Default::default() };
    world.send_with(0, |w| request.encode(w));
    assert_eq!(only(&mut world, 0, true), "own:15000 0");
    for client in 1..200 {
        ask(&mut world, client);
    }
    join(&mut world, 0);
    hear(&mut world, 0, &[server("a", 0)]);
    let mut turns = Vec::new();
    world.pass(SECOND);
    while turns.last() != Some(&0) {
        turns.push((0..200).filter(|client| !world.raw(*client).is_empty()).count());
        assert_eq!(world.p2ps.timeout() == Some(0), turns.iter().sum::<usize>() < 200);
        world.pass(0);
    }
    assert_eq!(turns, [64, 64, 64, 8, 0]);
    world.asked();
}

#[test]
fn operators_hear_of_servers_that_come_and_go_where_they_want_to() {
    for is_wanted in [false, true] {
        let notices = hub_p2ps::Notices { servers: is_wanted, ..hub_p2ps::Notices::default() };
        let mut world = World::with(Config { notices, ..config(ServerOrder::default()) });
        world.p2ps.serve_at(world.now, place("own"));
        join(&mut world, 0);
        let told = |world: &mut World| {
            let servers = world.p2ps.notices().filter(|notice| matches!(notice, hub_p2ps::Notice::Server { .. }));
            servers.map(|notice| notice.to_string()).collect::<Vec<_>>()
        };
        let own = told(&mut world);
        hear(&mut world, 0, &[server("other", 1)]);
        world.pass(0);
        let came = told(&mut world);
        // A Source Distributor that was joined a moment ago may not know all yet.
        for _ in 0..6 {
            world.pass(SECOND);
            hear(&mut world, 0, &[server("other", 1)]);
        }
        hear(&mut world, 0, &[]);
        world.pass(0);
        let gone = told(&mut world);
        let line = |text: &str| if is_wanted { vec![text.to_owned()] } else { Vec::new() };
        assert_eq!(own, line("P2PS own:14002 is there for clients"));
        assert_eq!(came, line("P2PS other:14002 is there for clients"));
        assert_eq!(gone, line("P2PS other:14002 is not there for clients any more"));
        world.asked();
    }
}
