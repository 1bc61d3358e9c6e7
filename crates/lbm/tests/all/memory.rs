//! The steady data path does not allocate: sending, receiving in order, and repairing what was lost.

use lbm::topic::{DeliveryConfig, Message, Session, Source, SourceConfig, TopicSink};
use lbm::transport::{Carrier, EndReason, Lbtrm, Received, Receiver, ReceiverConfig, Sender, SenderConfig};
use lbm::wire::lbtrm::Packet;

const MS: u64 = 1_000_000;

struct Count(u64);

impl TopicSink for Count {
    fn message(&mut self, _: u32, message: Message<'_>) {
        self.0 += message.payload.len() as u64;
    }
    fn lost(&mut self, _: u32, sqn: u32) {
        panic!("lost {sqn}");
    }
    fn burst_lost(&mut self, _: u32, first: u32, _: u32) {
        panic!("lost {first}");
    }
    fn end(&mut self, _: u32, _: EndReason) {}
}

struct World {
    sender: Sender<Lbtrm>,
    source: Source,
    receiver: Receiver<Lbtrm>,
    session: Session,
    sink: Count,
    now: u64,
    wire: Vec<u8>,
    ends: Vec<usize>,
    datagrams: u64,
}

impl World {
    /// Sends some messages, loses every n-th datagram, lets the receiver ask and the sender repeat.
    fn turn(&mut self, lose: u64) {
        self.now += 10 * MS;
        for i in 0..200usize {
            let payload = &[7; 900][..=i * 4];
            self.source.send(self.now, &mut self.sender, payload, false).expect("room");
        }
        self.sender.flush(self.now);
        let mut sent = 0;
        for train in self.sender.output(self.now).trains(65_000, 64) {
            sent += train.datagrams;
            for datagram in train.datagrams() {
                self.datagrams += 1;
                if lose == 0 || self.datagrams % lose != 1 {
                    let packet = Packet::decode(datagram).expect("our own");
                    let received = Received::from_lbtrm(&packet).expect("data");
                    let mut dispatch = self.session.dispatch(self.now, &mut self.sink);
                    self.receiver.receive(self.now, received, &mut dispatch);
                }
            }
        }
        self.sender.sent(self.now, sent);
        self.now += 10 * MS;
        let (sender, now) = (&mut self.sender, self.now);
        let mut dispatch = self.session.dispatch(now, &mut self.sink);
        self.receiver.on_timer(now, &mut dispatch, |nak| {
            let lbm::wire::lbtrm::Body::Nak { sqns, .. } = Packet::decode(nak).expect("a NAK").body else { panic!() };
            sender.nak(now, 1, sqns.iter());
        });
        self.wire.clear();
        self.ends.clear();
        for datagram in self.sender.output(now).retransmissions() {
            self.wire.extend_from_slice(datagram);
            self.ends.push(self.wire.len());
        }
        self.sender.sent_retransmissions(now, self.ends.len());
        let mut start = 0;
        for end in &self.ends {
            let packet = Packet::decode(&self.wire[start..*end]).expect("our own");
            let received = Received::from_lbtrm(&packet).expect("data");
            self.receiver.receive(now, received, &mut self.session.dispatch(now, &mut self.sink));
            start = *end;
        }
    }
}

#[test]
fn the_steady_path_does_not_allocate() {
    let framing = Lbtrm { unicast_port: 14_390, session_id: 1, group_size: 3 };
    let sender = SenderConfig { datagram_max: 1_472, window_size: 1 << 20, ..SenderConfig::default() };
    let receiver = ReceiverConfig { nak_initial_backoff_interval_ns: MS, ..ReceiverConfig::default() };
    let (mut session, mut sink) = (Session::new(), Count(0));
    session.add(1, 1, DeliveryConfig::default(), &mut sink);
    let mut world = World {
        sender: Sender::new(framing, sender),
        source: Source::new(1, SourceConfig::default()),
        receiver: Receiver::new(framing, receiver, 0),
        session,
        sink,
        now: MS,
        wire: Vec::new(),
        ends: Vec::new(),
        datagrams: 0,
    };
    for lose in [0, 5] {
        for _ in 0..50 {
            world.turn(lose);
        }
        let (before, datagrams) = (world.sink.0, world.datagrams);
        let counted = allocation_counter::measure(|| {
            for _ in 0..200 {
                world.turn(lose);
            }
        });
        assert_eq!(counted.count_total, 0, "losing one in {lose}");
        assert_eq!(world.sink.0 - before, 200 * (1..=200).map(|i| 1 + (i - 1) * 4).sum::<u64>());
        assert!(world.datagrams - datagrams > 200 * 50);
    }
    assert!(world.receiver.stats().repaired > 1_000);
}
