//! Topic resolution over TCP: contexts that find each other by a resolution service alone.

use std::time::{Duration, Instant};

use crate::world::{PATIENCE, World, options, with};
use lbm_io::{Context, SendFlags, Srs, SrsConfig, Warning};

fn service(port: u16) -> Srs {
    Srs::new(&SrsConfig::new(format!("127.0.0.1:{port}").parse().expect("an address"))).expect("a service")
}

/// Contexts that have these services, and nothing else.
fn world(services: &[&Srs], lines: &str) -> World {
    let named: Vec<String> = services.iter().map(|service| service.address().to_string()).collect();
    World::of(options(&format!(
        "context resolver_disable_udp_topic_resolution 1\ncontext resolver_service {}\n{lines}",
        named.join(",")
    )))
}

/// Turns of the contexts and of the services that are there, until it is so.
fn until(world: &mut World, services: &mut [Option<Srs>], what: &str, mut so: impl FnMut(&mut World) -> bool) {
    let began = Instant::now();
    while !so(world) {
        world.turn();
        for service in services.iter_mut().flatten() {
            service.poll(Some(Duration::ZERO)).expect("a turn");
        }
        let late = began.elapsed() > PATIENCE;
        let stats: Vec<_> = services.iter().flatten().map(Srs::stats).collect();
        assert!(!late, "{what}: {stats:?}\n{:?}\n{:?}", world.left.stats().services, world.right.stats().services);
    }
}

fn hears(world: &mut World, topic: &str, source: lbm_io::SourceId, more_than: usize) -> bool {
    world.left.send(source, b"x", SendFlags::FLUSH).expect("room");
    world.ear.topic(topic).messages.len() > more_than
}

#[test]
fn contexts_find_each_other_by_a_service_with_every_transport() {
    let mut services = [Some(service(0))];
    let mut world = world(&[services[0].as_ref().expect("there")], "");
    let options = world.options.clone();
    for transport in ["lbtrm", "lbtru", "tcp", "lbtipc"] {
        let own = with(&options, &format!("source transport {transport}"));
        let source = world.left.source(transport, &own).expect("a source");
        world.right.receiver(transport, &options).expect("a receiver");
        until(&mut world, &mut services, transport, |world| hears(world, transport, source, 0));
    }
    // A pattern, and a second receiver of a topic, of which the service says nothing new.
    world.right.wildcard("^lbtr", &options).expect("a pattern");
    world.right.receiver("tcp", &options).expect("a receiver");
    until(&mut world, &mut services, "the pattern", |world| {
        let of = |world: &World, name: &str| {
            world.ear.heard.iter().filter(|((_, topic), heard)| topic == name && heard.begun > 0).count()
        };
        of(world, "lbtrm") == 2 && of(world, "lbtru") == 2 && of(world, "tcp") == 2
    });
    assert_eq!(services[0].as_ref().map(|service| service.stats().contexts), Some(2));
    let stats = world.right.stats();
    assert_eq!((stats.services_registered, stats.services.known, stats.resolver.packets), (1, 4, 0));
}

/// Late join needs more than the session: the number of the source's session in requests.
#[test]
fn a_late_joiner_gets_what_was_sent_before_it_came() {
    let mut services = [Some(service(0))];
    let mut world = world(
        &[services[0].as_ref().expect("there")],
        "source transport tcp\nsource late_join 1\nreceiver use_late_join 1",
    );
    let options = world.options.clone();
    let source = world.left.source("a", &options).expect("a source");
    for n in 0..5u8 {
        world.left.send(source, &[n], SendFlags::FLUSH).expect("room");
    }
    world.right.receiver("a", &options).expect("a receiver");
    until(&mut world, &mut services, "what was retained", |world| {
        world.left.send(source, &[9], SendFlags::FLUSH).expect("room");
        world.ear.topic("a").messages.len() > 6
    });
    let messages = world.ear.topic("a").messages;
    assert_eq!(messages[..6], [vec![0], vec![1], vec![2], vec![3], vec![4], vec![9]]);
}

#[test]
fn services_that_go_and_come_are_told_everything_again() {
    let mut services = [Some(service(0)), Some(service(0))];
    let ports: Vec<u16> = services.iter().flatten().map(|service| service.address().port()).collect();
    let both: Vec<&Srs> = services.iter().flatten().collect();
    let mut world = world(&both, "source transport tcp");
    let options = world.options.clone();
    let first = world.left.source("a", &options).expect("a source");
    world.right.receiver("a", &options).expect("a receiver");
    until(&mut world, &mut services, "the first", |world| hears(world, "a", first, 0));
    // A single service of two is enough.
    services[0] = None;
    let second = world.left.source("b", &options).expect("a source");
    world.right.receiver("b", &options).expect("a receiver");
    until(&mut world, &mut services, "by the second service", |world| hears(world, "b", second, 0));
    let warned = |world: &mut World| {
        let warnings: Vec<Warning> = world.left.warnings().collect();
        warnings.iter().filter(|warning| matches!(warning, Warning::Service { .. })).count()
    };
    until(&mut world, &mut services, "the operator knows", |world| warned(world) == 1);
    // The first comes back, knowing nothing, and the second goes: what begins now is found by the first.
    services[0] = Some(service(ports[0]));
    until(&mut world, &mut services, "the first is back", |world| {
        (world.left.stats().services_registered, world.right.stats().services_registered) == (2, 2)
    });
    services[1] = None;
    let third = world.left.source("c", &options).expect("a source");
    world.right.receiver("c", &options).expect("a receiver");
    until(&mut world, &mut services, "by the first service", |world| hears(world, "c", third, 0));
    // With none at all what was found goes on.
    services[0] = None;
    let before = world.ear.topic("c").messages.len();
    until(&mut world, &mut services, "without services", |world| hears(world, "c", third, before));
    assert_eq!(world.ear.topic("a").begun, 1);
    assert!(world.ear.topic("a").ended.is_empty());
}

#[test]
fn ends_of_sources_and_receivers_are_told() {
    let mut services = [Some(service(0))];
    let mut world = world(&[services[0].as_ref().expect("there")], "source transport tcp");
    let options = world.options.clone();
    let (a, b) = (world.left.source("a", &options), world.left.source("b", &options));
    let (a, b) = (a.expect("a source"), b.expect("a source"));
    let receiver = world.right.receiver("a", &options).expect("a receiver");
    world.right.receiver("b", &options).expect("a receiver");
    until(&mut world, &mut services, "both", |world| {
        hears(world, "b", b, 0);
        hears(world, "a", a, 0)
    });
    world.left.remove_source(a);
    until(&mut world, &mut services, "the end", |world| world.right.stats().services.ended == 1);
    assert_eq!(world.right.stats().services.known, 1);
    assert_eq!(services[0].as_ref().map(|service| service.stats().sources), Some(1));
    world.right.remove_receiver(receiver);
    let began = Instant::now();
    while services[0].as_ref().is_some_and(|service| service.stats().wanted != 1) {
        assert!(began.elapsed() < PATIENCE, "the receiver's end");
        world.turn();
        services.iter_mut().flatten().for_each(|service| service.poll(Some(Duration::ZERO)).expect("a turn"));
    }
}

/// A context that ends in order is not one that is lost, whose sources are kept for a while.
#[test]
fn a_context_that_ends_takes_its_sources_with_it() {
    let mut services = [Some(service(0))];
    let mut world = world(&[services[0].as_ref().expect("there")], "source transport tcp");
    let options = world.options.clone();
    let source = world.left.source("a", &options).expect("a source");
    world.left.source("b", &options).expect("a source");
    world.right.receiver("a", &options).expect("a receiver");
    until(&mut world, &mut services, "the source", |world| hears(world, "a", source, 0));
    world.left = Context::new(&options).expect("another context");
    until(&mut world, &mut services, "the end", |world| world.right.stats().services.ended == 1);
    let kept = services[0].as_ref().map(|service| (service.stats().sources, service.stats().away));
    assert_eq!(kept, Some((0, 0)), "nobody wants b, and the service forgets it, too");
}

const COUNT: usize = 10_000;

#[test]
fn ten_thousand_sources_are_found() {
    let mut services = [Some(service(0)), Some(service(0))];
    let both: Vec<&Srs> = services.iter().flatten().collect();
    let mut world = world(&both, "source transport tcp");
    let options = world.options.clone();
    for n in 0..COUNT {
        world.right.receiver(&format!("md.{n}"), &options).expect("a receiver");
    }
    let sources: Vec<_> =
        (0..COUNT).map(|n| world.left.source(&format!("md.{n}"), &options).expect("a source")).collect();
    let began = Instant::now();
    until(&mut world, &mut services, "all are found", |world| world.right.resolver_stats().found == COUNT as u64);
    println!("{COUNT} sources found in {:?}", began.elapsed());
    until(&mut world, &mut services, "the sessions stand", |world| {
        hears(world, "md.0", sources[0], 0) && hears(world, "md.9999", sources[9_999], 0)
    });
    assert_eq!(services.iter().flatten().map(|service| service.stats().sources).collect::<Vec<_>>(), [COUNT, COUNT]);
    // All end.
    for source in sources {
        world.left.remove_source(source);
    }
    until(&mut world, &mut services, "all have ended", |world| world.right.stats().services.known == 0);
    assert_eq!(services.iter().flatten().map(|service| service.stats().sources).sum::<usize>(), 0);
}

#[test]
fn strangers_and_nonsense_are_cut_off() {
    use std::io::{Read as _, Write as _};
    let config = SrsConfig { connections_max: 1, ..SrsConfig::new("127.0.0.1:0".parse().expect("an address")) };
    let mut srs = Srs::new(&config).expect("a service");
    let mut first = std::net::TcpStream::connect(srs.address()).expect("connected");
    let mut second = std::net::TcpStream::connect(srs.address()).expect("connected");
    first.write_all(&[0, 0, 6, 0, 0, 0, 0, 0xFC, 0]).expect("sent");
    let began = Instant::now();
    let mut notes = Vec::new();
    while notes.len() < 2 {
        srs.poll(Some(Duration::from_millis(5))).expect("a turn");
        notes.extend(srs.notes());
        assert!(began.elapsed() < PATIENCE, "{notes:?}");
    }
    assert!(notes.iter().any(|note| note.contains("there are too many")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("cannot be read")), "{notes:?}");
    assert_eq!((srs.strangers(), srs.stats().malformed), (1, 1));
    let mut rest = Vec::new();
    let _ = first.read_to_end(&mut rest);
    let _ = second.read_to_end(&mut rest);
    assert!(rest.is_empty());
}
