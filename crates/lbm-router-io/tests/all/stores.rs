//! Sources with stores, and receivers of other domains that use them.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::path::Path;
use std::time::{Duration, Instant};

use lbm_io::{Delivery, Events, SendFlags, Sources};
use lbm_router_io::RouterServer;
use lbm_store::receiver::{Delivered, TopicEvent};
use lbm_store::source::SourceEvent;
use lbm_store::store::StoreConfig;
use lbm_store_io::{Client, ClientEvents, PersistentReceiver, PersistentSource, ServerConfig, StoreServer};

use crate::rig::{PATIENCE, domain, endpoint, options, router};

/// Events that a client has seen.
#[derive(Default)]
struct Seen {
    ready: bool,
    stable: u32,
    confirmed: u32,
    /// Of each message of a receiver: how often it came, and how often by a store.
    had: BTreeMap<u32, (u32, u32)>,
    gone: u32,
    without_stores: bool,
}

impl Events for Seen {
    fn message(&mut self, _: &mut Sources, _: &Delivery<'_>) {}
}

impl ClientEvents for Seen {
    fn delivered(&mut self, _: &mut Sources, _: PersistentReceiver, _: u32, message: &Delivered<'_>) {
        assert_eq!(message.payload, message.sqn.to_be_bytes(), "the number is the source's");
        let (times, by_store) = self.had.entry(message.sqn).or_default();
        *times += 1;
        *by_store += u32::from(message.repeated);
    }

    fn gone(&mut self, _: &mut Sources, _: PersistentReceiver, _: u32, _: u32, count: u32) {
        self.gone += count;
    }

    fn source(&mut self, _: &mut Sources, _: PersistentSource, event: &SourceEvent) {
        match *event {
            SourceEvent::Ready { .. } => self.ready = true,
            SourceEvent::Stable { first, last } => self.stable += last.wrapping_sub(first) + 1,
            SourceEvent::Confirmed { .. } => self.confirmed += 1,
            _ => {}
        }
    }

    fn receiver(&mut self, _: &mut Sources, _: PersistentReceiver, event: &TopicEvent) {
        self.without_stores |= matches!(event, TopicEvent::WithoutStores { .. });
    }
}

struct Program {
    client: Client,
    seen: Seen,
}

impl Program {
    fn new(lines: &[String]) -> Self {
        Self { client: Client::new(&options(lines)).expect("a context"), seen: Seen::default() }
    }

    fn receiving(lines: &[String]) -> (Self, PersistentReceiver) {
        let mut program = Self::new(lines);
        let receiver = program.client.receiver("orders", &options(lines)).expect("a receiver");
        (program, receiver)
    }

    fn turn(&mut self) {
        self.client.poll(Some(Duration::from_micros(200)), &mut self.seen).expect("a turn");
    }
}

/// A domain with a store and a source, and routers to others.
struct World {
    store: StoreServer,
    routers: Vec<RouterServer>,
    sender: Program,
    source: PersistentSource,
    sent: u32,
}

impl World {
    fn new(one: &[String], routers: Vec<RouterServer>) -> Self {
        let config = ServerConfig {
            address: SocketAddrV4::new([127, 0, 0, 1].into(), 0),
            allow: Vec::new(),
            folder: None,
            log_bytes_min: 1 << 20,
            store: StoreConfig::default(),
        };
        let store = StoreServer::new(&config, &options(one)).expect("a store");
        let mut lines = one.to_vec();
        lines.push(format!("source ume_store {}", store.address()));
        lines.push("source ume_session_id 1".to_owned());
        lines.push("source ume_confirmed_delivery_notification 1".to_owned());
        let mut sender = Program::new(&lines);
        let source = sender.client.source("orders", &options(&lines)).expect("a source");
        let mut world = Self { store, routers, sender, source, sent: 0 };
        world.until("the source is registered", &mut [], |world, _| world.sender.seen.ready);
        world
    }

    /// Takes turns until something holds.
    fn until(
        &mut self,
        what: &str,
        receivers: &mut [&mut Program],
        mut holds: impl FnMut(&mut Self, &[&mut Program]) -> bool,
    ) {
        let began = Instant::now();
        while !holds(self, receivers) {
            let report =
                || self.routers.iter().map(|router| router.report().join("\n")).collect::<Vec<_>>().join("\n\n");
            assert!(began.elapsed() < PATIENCE, "{what}: not in time; {}", report());
            self.store.poll(Some(Duration::from_micros(200))).expect("a turn");
            for router in &mut self.routers {
                router.poll(Duration::from_micros(200)).expect("a turn");
                for news in router.news() {
                    eprintln!("{news}");
                }
            }
            self.sender.turn();
            for receiver in receivers.iter_mut() {
                receiver.turn();
            }
        }
    }

    /// Sends so many messages, of which each has its number, and waits until they are stable.
    fn send(&mut self, count: u32, receivers: &mut [&mut Program]) {
        let all = self.sent + count;
        self.until("messages are stable", receivers, |world, _| {
            let Self { sender: Program { client, .. }, source, sent, .. } = world;
            if *sent < all && client.send(*source, &sent.to_be_bytes(), SendFlags::FLUSH).is_ok() {
                *sent += 1;
            }
            world.sender.seen.stable == all
        });
    }
}

fn session(lines: &[String]) -> Vec<String> {
    [lines, &["receiver ume_session_id 2".to_owned()]].concat()
}

/// A receiver registers at the store of another domain, goes away, and comes back for what it has missed.
fn a_receiver_comes_back(one: &[String], two: &[String], routers: Vec<RouterServer>) {
    let two = session(two);
    let mut world = World::new(one, routers);
    let (mut first, receiver) = Program::receiving(&two);
    world.until("the receiver is registered", &mut [&mut first], |_, receivers| {
        let topic = receivers[0].client.receiver_state(receiver).expect("it is there");
        topic.sources().any(|(source, ..)| topic.stores(source).any(|(_, registered)| registered))
    });
    world.send(50, &mut [&mut first]);
    world.until("all is delivered", &mut [&mut first], |world, receivers| {
        receivers[0].seen.had.len() == 50 && world.sender.seen.confirmed > 0
    });
    assert!(!first.seen.without_stores, "it knows its stores from the proxy source");
    first.client.remove_receiver(receiver);
    world.until("the store has heard how far it is", &mut [&mut first], |world, _| {
        let mut next = 0;
        world.store.each_source(|_, _, _, _, receivers| next = receivers.first().map_or(0, |(_, next)| *next));
        next == 50
    });
    drop(first);
    world.send(100, &mut []);
    let (mut second, _) = Program::receiving(&two);
    world.until("what was missed has come", &mut [&mut second], |_, receivers| receivers[0].seen.had.len() == 100);
    world.send(20, &mut [&mut second]);
    world.until("and what is new", &mut [&mut second], |_, receivers| receivers[0].seen.had.len() == 120);
    let Seen { had, gone, .. } = &second.seen;
    assert_eq!((had.keys().next(), had.keys().last(), *gone), (Some(&50), Some(&169), 0));
    assert!(had.values().all(|(times, _)| *times == 1), "each once: {had:?}");
    let by_store = had.values().filter(|(_, by_store)| *by_store > 0).count();
    assert!(by_store >= 100, "by the store: {by_store}");
}

#[test]
fn a_receiver_of_another_domain_gets_from_the_store_what_it_has_missed() {
    for (from, to) in [("lbtrm", "lbtrm"), ("tcp", "lbtru")] {
        let (one, two) = (domain(from), domain(to));
        let a = router(&format!("name = 'a'{}{}", endpoint(1, &one), endpoint(2, &two)), Path::new(""));
        a_receiver_comes_back(&one, &two, vec![a]);
    }
}

#[test]
fn stores_are_known_behind_two_routers() {
    let (one, two) = (domain("lbtrm"), domain("tcp"));
    let b = router(&format!("name = 'b'{}[[peer]]\nlisten = '127.0.0.1:0'", endpoint(2, &two)), Path::new(""));
    let at = b.listening()[0];
    let a = router(&format!("name = 'a'{}[[peer]]\nconnect = '{at}'", endpoint(1, &one)), Path::new(""));
    a_receiver_comes_back(&one, &two, vec![a, b]);
}
