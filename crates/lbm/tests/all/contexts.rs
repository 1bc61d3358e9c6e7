//! Whole contexts: resolution, sessions and topics together, over a link that can be cut.

use std::net::{Ipv4Addr, SocketAddrV4};

use lbm::publisher::Publisher;
use lbm::resolver::{Resolver, ResolverConfig};
use lbm::subscriber::{SubscribeConfig, Subscriber};
use lbm::topic::{CatchUpConfig, DeliveryConfig, Message, RetentionConfig, SendError, SourceConfig, TopicSink};
use lbm::transport::{EndReason, Lbtrm, SenderConfig};
use lbm::wire::Writer;
use lbm::wire::header::Header;
use lbm::wire::lbmc::Messages;
use lbm::wire::lbmr::{Advert, Packet, PatternKind, Transport};
use lbm::wire::lbmr_option::{Functionality, TopicOption, TopicOptions};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 10);
const GROUP: (Ipv4Addr, u16) = (Ipv4Addr::new(224, 10, 10, 10), 14_400);

#[derive(Default, Debug)]
struct Sink {
    begun: u32,
    messages: Vec<u32>,
    lost: u64,
    ended: Vec<EndReason>,
}

impl TopicSink for Sink {
    fn begin(&mut self, _: u32) {
        self.begun += 1;
    }
    fn message(&mut self, _: u32, message: Message<'_>) {
        let number = message.payload[..4].try_into().expect("four bytes");
        self.messages.push(u32::from_be_bytes(number));
    }
    fn lost(&mut self, _: u32, _: u32) {
        self.lost += 1;
    }
    fn burst_lost(&mut self, _: u32, _: u32, count: u32) {
        self.lost += u64::from(count);
    }
    fn end(&mut self, _: u32, reason: EndReason) {
        self.ended.push(reason);
    }
}

struct World {
    now: u64,
    publisher: Publisher<Lbtrm>,
    sources: Resolver,
    subscriber: Subscriber,
    receivers: Resolver,
    config: SubscribeConfig,
    sink: Sink,
    cut: bool,
    joined: Vec<usize>,
}

impl World {
    fn new(late_join: bool) -> Self {
        let framing = Lbtrm { unicast_port: 14_390, session_id: 0x5E55_1D01, group_size: 3 };
        let catch_up = CatchUpConfig { late_join, recovery: late_join, ..CatchUpConfig::default() };
        let resolver = |id| Resolver::new(ResolverConfig { source_id: [id; 8], ..ResolverConfig::default() });
        Self {
            now: SECOND,
            publisher: Publisher::new(
                framing,
                SenderConfig { batching_minimum_length: 1, ..SenderConfig::default() },
                77,
            ),
            sources: resolver(1),
            subscriber: Subscriber::new(7),
            receivers: resolver(2),
            config: SubscribeConfig {
                delivery: DeliveryConfig { catch_up, ..DeliveryConfig::default() },
                ..SubscribeConfig::default()
            },
            sink: Sink::default(),
            cut: false,
            joined: Vec::new(),
        }
    }

    fn add(&mut self, name: &[u8]) -> u32 {
        let late_join = Some(RetentionConfig::default());
        let topic = self.publisher.add(SourceConfig { late_join, ..SourceConfig::default() });
        let mut options = [0; 32];
        let mut w = Writer::new(&mut options);
        let functions = Functionality::LATE_JOIN;
        let option = Functionality { flags: 0x8000, port: 14_391, address: SOURCE, functions };
        TopicOption::Functionality(option).encode(&mut w).expect("fits");
        let transport = Transport::Lbtrm {
            source: SOURCE,
            group: GROUP.0,
            session_id: 0x5E55_1D01,
            destination_port: GROUP.1,
            unicast_port: 14_390,
        };
        let options = TopicOptions::from_encoded(w.written());
        self.sources.add_source(self.now, &Advert { name, ttl: 60, topic, options, transport }).expect("a name");
        topic
    }

    /// One turn of both drivers.
    fn turn(&mut self) {
        let now = self.now;
        let mut resolution = (Vec::new(), Vec::new());
        self.sources.on_timer(now, |p| resolution.0.push(p.to_vec()));
        self.receivers.on_timer(now, |p| resolution.1.push(p.to_vec()));
        if !self.cut {
            for packet in &resolution.1 {
                let packet = Packet::decode(packet).expect("our own");
                self.sources.receive(now, &packet, |_| panic!("nobody looks for anything there"));
            }
            for packet in &resolution.0 {
                let packet = Packet::decode(packet).expect("our own");
                let (subscriber, sink, joined, config) =
                    (&mut self.subscriber, &mut self.sink, &mut self.joined, &self.config);
                self.receivers.receive(now, &packet, |found| {
                    let subscribed = subscriber.subscribe(now, &found.advert, found.token, config, sink);
                    joined.extend(subscribed.filter(|s| s.opened).map(|s| s.session));
                    true
                });
            }
        }
        self.publisher.on_timer(now);
        self.transmit();
        let (mut naks, mut questions) = (Vec::new(), Vec::new());
        self.subscriber.on_timer(
            now,
            &mut self.sink,
            |_, to, nak| naks.push((*to, nak.to_vec())),
            |q| {
                assert_eq!(q.to, SocketAddrV4::new(SOURCE, 14_391));
                let mut answer = Vec::new();
                let source = self.publisher.source(q.topic).expect("a source");
                match q.header {
                    Header::LateJoinRequest(request) => source.late_join_request(now, &request, &mut answer),
                    Header::RetransmitRequest(request) => drop(source.retransmit_request(&request, &mut answer)),
                    other => panic!("{other:?}"),
                }
                questions.push((q.session, q.topic, answer));
            },
        );
        if !self.cut {
            for (to, nak) in naks {
                assert_eq!(to.to_string(), "LBTRM:10.1.1.10:14390:5e551d01:224.10.10.10:14400");
                assert!(self.publisher.receive(now, 1, &nak));
            }
            for (session, topic, answer) in questions {
                for header in Messages::new(&answer).flat_map(|m| m.expect("ours").headers()) {
                    if let Ok(Header::LateJoinInfo(info)) = header {
                        self.subscriber.late_join_info(now, session, topic, &info, &mut self.sink);
                    }
                }
                self.subscriber.fetched(now, session, &answer, &mut self.sink);
            }
        }
        self.transmit();
        for ended in self.subscriber.ended().collect::<Vec<_>>() {
            self.receivers.forget(now, &ended.transport);
        }
        self.subscriber.check_invariants();
    }

    fn transmit(&mut self) {
        let now = self.now;
        let output = self.publisher.output(now);
        let control: Vec<Vec<u8>> = output.control().map(<[u8]>::to_vec).collect();
        let again: Vec<Vec<u8>> = output.retransmissions().map(<[u8]>::to_vec).collect();
        let trains: Vec<_> = output.trains(65_000, 64).collect();
        let sent = trains.iter().map(|t| t.datagrams).sum();
        let new: Vec<Vec<u8>> = trains.iter().flat_map(|t| t.datagrams()).map(<[u8]>::to_vec).collect();
        for datagram in control.iter().chain(&again).chain(&new) {
            if !self.cut {
                self.subscriber.receive(now, SOURCE, GROUP, datagram, &mut self.sink).expect("our own");
            }
        }
        self.publisher.sender().sent_control(control.len());
        self.publisher.sender().sent_retransmissions(now, again.len());
        self.publisher.sender().sent(now, sent);
    }

    /// Sends the numbers, one each 20 ms.
    fn send(&mut self, topic: u32, numbers: core::ops::Range<u32>) {
        for number in numbers {
            self.publisher.send(self.now, topic, &number.to_be_bytes(), true).expect("room");
            self.turn();
            self.now += 20 * MS;
        }
    }

    fn wait(&mut self, ns: u64) {
        let until = self.now + ns;
        while self.now < until {
            self.now += 10 * MS;
            self.turn();
        }
    }
}

#[test]
fn a_topic_is_found_joined_and_delivered() {
    let mut world = World::new(false);
    let topic = world.add(b"md.ibm");
    world.receivers.add_receiver(world.now, b"md.ibm", 5).expect("a name");
    world.turn();
    assert_eq!(world.joined, [0]);
    world.send(topic, 0..100);
    assert_eq!(world.sink.messages, (0..100).collect::<Vec<_>>());
    assert_eq!(world.publisher.send(world.now, topic + 9, b"x", true), Err(SendError::NoTopic));
    let (transport, receiver, topics) = world.subscriber.sessions().next().expect("one");
    assert_eq!(transport.to_string(), "LBTRM:10.1.1.10:14390:5e551d01:224.10.10.10:14400");
    assert_eq!((receiver.datagrams, topics.datagrams, receiver.missed), (100, 100, 0));
    assert_eq!(world.subscriber.unsubscribe(&transport, topic), Some(0));
    world.send(topic, 100..110);
    assert_eq!((world.sink.messages.len(), world.subscriber.unknown()), (100, 10));
}

#[test]
fn a_partition_of_five_seconds_is_repaired() {
    let mut world = World::new(false);
    let topic = world.add(b"md.ibm");
    world.receivers.add_wildcard(world.now, PatternKind::Pcre, "^md", 5).expect("a pattern");
    world.send(topic, 0..100);
    world.cut = true;
    world.send(topic, 100..350);
    world.cut = false;
    world.send(topic, 350..600);
    world.wait(5 * SECOND);
    assert_eq!(world.sink.messages, (0..600).collect::<Vec<_>>());
    assert_eq!((world.sink.begun, world.sink.lost), (1, 0));
}

/// Topic resolution has gone quiet by the time the session ends; the receiver asks anew and is told what it missed by a new beginning.
#[test]
fn a_partition_of_seventy_seconds_ends_the_session_and_it_is_found_again() {
    let mut world = World::new(false);
    let topic = world.add(b"md.ibm");
    world.receivers.add_receiver(world.now, b"md.ibm", 5).expect("a name");
    world.send(topic, 0..100);
    world.wait(100 * SECOND);
    world.cut = true;
    world.send(topic, 100..3_600);
    world.cut = false;
    assert_eq!(world.sink.ended, [EndReason::Timeout]);
    world.wait(SECOND);
    world.send(topic, 3_600..3_700);
    world.wait(SECOND);
    let expected: Vec<u32> = (0..100).chain(3_600..3_700).collect();
    assert_eq!(world.sink.messages, expected);
    assert_eq!((world.sink.begun, world.sink.lost), (2, 0));
}

#[test]
fn a_late_joiner_gets_everything_and_recovery_what_the_window_has_lost() {
    let mut world = World::new(true);
    let topic = world.add(b"md.ibm");
    world.send(topic, 0..200);
    world.receivers.add_receiver(world.now, b"md.ibm", 5).expect("a name");
    world.wait(100 * MS);
    world.send(topic, 200..300);
    world.wait(20 * SECOND);
    assert_eq!(world.sink.messages, (0..300).collect::<Vec<_>>());
    // Longer than the NAK generation interval, shorter than the activity timeout.
    world.cut = true;
    world.send(topic, 300..1_300);
    world.cut = false;
    world.send(topic, 1_300..1_400);
    world.wait(30 * SECOND);
    assert_eq!(world.sink.messages, (0..1_400).collect::<Vec<_>>());
    assert_eq!((world.sink.begun, world.sink.lost), (1, 0));
}
