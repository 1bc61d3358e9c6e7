//! What forged sessions cost a receiving context: memory from one bounded pool, few NAKs, and no place that a real source needs.

use core::net::Ipv4Addr;

use lbm::options::Options;
use lbm::subscriber::{SubscribeConfig, Subscriber};
use lbm::topic::{Message, TopicSink};
use lbm::transport::memory::POOL;
use lbm::transport::{EndReason, Framing, Lbtrm};
use lbm::wire::lbmr::{Advert, Transport};
use lbm::wire::lbmr_option::TopicOptions;
use lbm::wire::{Writer, lbmc};

const MS: u64 = 1_000_000;
const PORT: u16 = 14_400;
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);

#[derive(Default)]
struct Ear {
    messages: Vec<(u32, u32)>,
}

impl TopicSink for Ear {
    fn message(&mut self, receiver: u32, message: Message<'_>) {
        self.messages.push((receiver, message.sqn));
    }
    fn lost(&mut self, _: u32, _: u32) {}
    fn burst_lost(&mut self, _: u32, _: u32, _: u32) {}
    fn end(&mut self, _: u32, _: EndReason) {}
}

fn transport(session: u32) -> Transport {
    Transport::Lbtrm {
        source: Ipv4Addr::new(10, 0, (session >> 8) as u8, session as u8),
        group: GROUP,
        session_id: session,
        destination_port: PORT,
        unicast_port: 14_390,
    }
}

struct World {
    subscriber: Subscriber,
    config: SubscribeConfig,
    ear: Ear,
    naks: usize,
    now: u64,
}

impl World {
    fn new() -> Self {
        let options = Options::new();
        let config = SubscribeConfig {
            delivery: options.delivery(),
            lbtrm: options.lbtrm_receiver(0),
            lbtru: options.lbtru_client(0),
        };
        Self { subscriber: Subscriber::new(1), config, ear: Ear::default(), naks: 0, now: MS }
    }

    fn subscribe(&mut self, session: u32) {
        let (options, transport) = (TopicOptions::default(), transport(session));
        let advert = Advert { name: b"md", ttl: 60, topic: 1, options, transport };
        self.subscriber.subscribe(self.now, &advert, session, &self.config, &mut self.ear).expect("a new session");
    }

    fn receive(&mut self, session: u32, write: impl FnOnce(&Lbtrm, &mut Writer<'_>)) {
        let Transport::Lbtrm { source, session_id, unicast_port, .. } = transport(session) else { unreachable!() };
        let mut bytes = [0; 256];
        let mut w = Writer::new(&mut bytes);
        write(&Lbtrm { unicast_port, session_id, group_size: 3 }, &mut w);
        self.subscriber.receive(self.now, source, (GROUP, PORT), w.written(), &mut self.ear).expect("a packet");
    }

    fn session_message(&mut self, session: u32, lead: u32) {
        self.receive(session, |framing, w| framing.session_message(w, 0, lead, 0).expect("room"));
    }

    fn data(&mut self, session: u32, sqn: u32) {
        self.receive(session, |framing, w| {
            let mut header = [0; Lbtrm::HEADER];
            framing.begin(&mut header);
            framing.stamp(&mut header, sqn, 0);
            w.bytes(&header).expect("room");
            lbmc::encode(w, lbmc::Kind::Message, 1, sqn, &[], lbmc::NEXT_DATA, b"payload").expect("room");
        });
    }

    /// Until `until`, as a driver does.
    fn run(&mut self, until: u64) {
        while let Some(at) = self.subscriber.timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            let naks = &mut self.naks;
            self.subscriber.on_timer(self.now, &mut self.ear, |_, _, packet| *naks += packet.len(), |_| {});
        }
        self.now = until;
    }
}

/// One session message that names numbers far ahead reserves nothing for them, and draws next to no NAKs.
#[test]
fn a_forged_session_message_draws_little() {
    let mut world = World::new();
    world.subscribe(7);
    world.session_message(7, 100);
    world.session_message(7, 100 + 65_000);
    let before = world.subscriber.memory();
    world.run(world.now + 11_000 * MS);
    assert_eq!((before, world.subscriber.memory()), (0, 0), "nothing beyond the session's own");
    // 64 numbers, some fifty times.
    assert!(world.naks < 30_000, "{} bytes of NAKs", world.naks);
}

/// All sessions that a context can have, each forged as far as it goes: one budget for all of them, and one for their NAKs.
#[test]
fn four_thousand_forged_sessions_share_one_budget() {
    let mut world = World::new();
    for session in 1..=4_096 {
        world.subscribe(session);
        world.data(session, 0);
        // A burst of its own far ahead, which is believed.
        for sqn in 60_000..60_010 {
            world.data(session, sqn);
        }
    }
    assert!(world.subscriber.memory() <= POOL, "{} bytes", world.subscriber.memory());
    world.run(world.now + 1_000 * MS);
    assert!(world.naks <= 11 * (256 << 10), "{} bytes of NAKs in a second", world.naks);
    // A session that is real has its own share.
    world.ear.messages.clear();
    world.subscribe(9_999);
    for sqn in [0, 1, 5, 6, 7, 3, 2, 4, 8] {
        world.data(9_999, sqn);
    }
    let heard: Vec<u32> = world.ear.messages.iter().filter(|(of, _)| *of == 9_999).map(|(_, sqn)| *sqn).collect();
    assert_eq!(heard, (0..=8).collect::<Vec<_>>());
}

/// Sessions of which only session messages are heard have a small budget for NAKs, which go to whomever they name.
#[test]
fn sessions_without_data_draw_few_naks() {
    let mut world = World::new();
    for session in 1..=4_096 {
        world.subscribe(session);
        world.session_message(session, 10);
        world.session_message(session, 60_000);
    }
    world.run(world.now + 1_000 * MS);
    assert!(world.naks <= 11 * (4 << 10), "{} bytes of NAKs in a second", world.naks);
    assert!(world.subscriber.naks_shed() > 0);
}

/// What a session message says beyond what is believed at once is asked for as repairs come: a real burst that was lost whole is had.
#[test]
fn a_lost_burst_is_recovered_although_it_is_believed_by_and_by() {
    let mut world = World::new();
    world.subscribe(1);
    world.data(1, 0);
    world.session_message(1, 5_000);
    let mut next = 1;
    while next <= 5_000 {
        world.run(world.now + 100 * MS);
        // Whatever was asked for comes.
        for _ in 0..1_024 {
            if next <= 5_000 {
                world.data(1, next);
                next += 1;
            }
        }
    }
    assert!(world.naks > 4 * 4_000, "the numbers were asked for");
    assert_eq!(world.ear.messages.len(), 5_001);
}

/// A source that was only advertised makes way, the one that has waited longest first; one that was heard does not.
#[test]
fn silent_sessions_make_way() {
    let mut world = World::new();
    world.subscribe(1);
    world.subscribe(2);
    world.data(2, 0);
    world.now += 500 * MS;
    world.subscribe(3);
    assert!(world.subscriber.make_way(world.now, |_| true).is_err(), "none has waited long enough");
    world.now += 1_600 * MS;
    let gone = world.subscriber.make_way(world.now, |_| true).expect("one");
    assert_eq!(gone.transport, transport(1));
    world.now += 10_000 * MS;
    assert_eq!(world.subscriber.make_way(world.now, |_| true).expect("one").transport, transport(3));
    assert!(world.subscriber.make_way(world.now, |_| true).is_err(), "the other one is heard");
    assert_eq!(world.subscriber.count(), 1);
}
