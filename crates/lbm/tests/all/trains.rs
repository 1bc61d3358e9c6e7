//! Long trains under loss: datagrams inside them, and whole trains, as a packet filter takes them where GSO is on.

use lbm::topic::{DeliveryConfig, Message, Session, Source, SourceConfig, TopicSink};
use lbm::transport::{EndReason, Lbtrm, Received, Receiver, ReceiverConfig, Sender, SenderConfig};
use lbm::wire::lbtrm::{Body, Packet};

const MS: u64 = 1_000_000;
const FRAMING: Lbtrm = Lbtrm { unicast_port: 14_390, session_id: 77, group_size: 3 };
/// What one call takes.
const TRAIN_BYTES: usize = 65_507;
const TRAIN_DATAGRAMS: u32 = 64;

/// Xorshift: the same losses for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }
}

#[derive(Default)]
struct Sink {
    messages: u32,
    wrong: u32,
}

impl TopicSink for Sink {
    fn message(&mut self, _: u32, message: Message<'_>) {
        let number = message.payload.first_chunk().map_or(u32::MAX, |n| u32::from_be_bytes(*n));
        self.wrong += u32::from(number != self.messages);
        self.messages += 1;
    }
    fn lost(&mut self, _: u32, _: u32) {
        self.wrong += 1;
    }
    fn burst_lost(&mut self, _: u32, _: u32, count: u32) {
        self.wrong += count;
    }
    fn end(&mut self, _: u32, _: EndReason) {}
}

/// What is lost, per thousand.
#[derive(Clone, Copy, Debug)]
struct Loss {
    trains: u64,
    datagrams: u64,
}

/// A sender that is a little ahead of its receiver, over a line that loses; returns the longest train, and how many were lost.
fn run(seed: u64, datagram_max: usize, payload: usize, loss: Loss) -> (u32, u32) {
    const MESSAGES: u32 = 20_000;
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut sender = Sender::new(
        FRAMING,
        SenderConfig {
            datagram_max,
            batching_minimum_length: datagram_max,
            ignore_interval_ns: 2 * MS,
            sm_minimum_interval_ns: 20 * MS,
            ..SenderConfig::default()
        },
    );
    let config = ReceiverConfig {
        nak_initial_backoff_interval_ns: 2 * MS,
        nak_backoff_interval_ns: 8 * MS,
        nak_suppress_interval_ns: 8 * MS,
        ..ReceiverConfig::default()
    };
    let (mut receiver, mut session, mut sink) = (Receiver::new(FRAMING, config, 0), Session::new(), Sink::default());
    assert!(session.add(1, 1, DeliveryConfig::default(), &mut sink));
    let mut source = Source::new(1, SourceConfig::default());
    let (mut now, mut next, mut longest, mut taken) = (MS, 0u32, 0, 0);
    let mut bytes = vec![5; payload];
    while sink.messages < MESSAGES {
        now += MS;
        assert!(now < 60_000 * MS, "seed {seed} {loss:?}: {} of {MESSAGES} messages came", sink.messages);
        // About three trains a millisecond.
        let mut room = 3 * TRAIN_BYTES / payload;
        while next < MESSAGES && room > 0 {
            bytes[..4].copy_from_slice(&next.to_be_bytes());
            if source.append(now, &mut sender, &bytes).is_none()
                && source.send(now, &mut sender, &bytes, next + 1 == MESSAGES).is_err()
            {
                break;
            }
            (next, room) = (next + 1, room - 1);
        }
        sender.on_timer(now);
        if source.timeout().is_some_and(|at| at <= now) {
            source.on_timer(now, &mut sender);
        }
        let output = sender.output(now);
        let (mut packets, mut sent): (Vec<Vec<u8>>, u32) = (Vec::new(), 0);
        let (control, again) = (output.control().count(), output.retransmissions().count());
        packets.extend(output.control().chain(output.retransmissions()).map(<[u8]>::to_vec));
        packets.retain(|_| random.next() % 1_000 >= loss.datagrams);
        for train in output.trains(TRAIN_BYTES, TRAIN_DATAGRAMS) {
            sent += train.datagrams;
            longest = longest.max(train.datagrams);
            // The first one begins the session: nothing before it is asked for.
            let first = receiver.expected() == 0 && packets.is_empty();
            if !first && random.next() % 1_000 < loss.trains {
                taken += 1;
                continue;
            }
            let mut at = 0;
            packets.extend(train.datagrams().map(<[u8]>::to_vec).filter(|_| {
                at += 1;
                first && at == 1 || random.next() % 1_000 >= loss.datagrams
            }));
        }
        sender.sent_control(control);
        sender.sent_retransmissions(now, again);
        sender.sent(now, sent);
        for packet in &packets {
            let packet = Packet::decode(packet).expect("our own");
            let received = Received::from_lbtrm(&packet).expect("no NAK");
            receiver.receive(now, received, &mut session.dispatch(now, &mut sink));
        }
        let mut naks = Vec::new();
        receiver.on_timer(now, &mut session.dispatch(now, &mut sink), |packet| naks.push(packet.to_vec()));
        for nak in naks.iter().filter(|_| random.next() % 1_000 >= loss.datagrams) {
            let Ok(Packet { body: Body::Nak { sqns, .. }, .. }) = Packet::decode(nak) else { panic!("a NAK") };
            sender.nak(now, 1, sqns.iter());
        }
    }
    assert_eq!(sink.wrong, 0, "seed {seed} {loss:?}: each once and in order");
    (longest, taken)
}

#[test]
fn trains_of_forty_and_more_are_repaired_whatever_of_them_is_lost() {
    for (seed, datagram_max, payload) in [(1, 1_408, 600), (2, 1_408, 64), (3, 1_472, 1_400), (4, 8_192, 1_000)] {
        for loss in [
            Loss { trains: 0, datagrams: 50 },
            Loss { trains: 50, datagrams: 0 },
            Loss { trains: 200, datagrams: 0 },
            Loss { trains: 100, datagrams: 200 },
        ] {
            let (longest, taken) = run(seed, datagram_max, payload, loss);
            let long = if datagram_max < 1_500 { 40 } else { 7 };
            assert!(longest >= long, "{datagram_max}: trains of {longest}");
            assert!(loss.trains == 0 || taken > 0, "{datagram_max}: some are lost whole");
        }
    }
}

/// With two trains of one length side by side in memory the second one begins where the first ends.
#[test]
fn a_train_ends_where_one_more_datagram_would_not_fit() {
    let mut sender = Sender::new(
        FRAMING,
        SenderConfig { datagram_max: 8_192, batching_minimum_length: 8_192, ..SenderConfig::default() },
    );
    let mut source = Source::new(1, SourceConfig::default());
    let mut trains = Vec::new();
    for _ in 0..100_000 {
        source.send(0, &mut sender, &[1; 64], false).expect("room");
        if sender.has_train(TRAIN_BYTES, TRAIN_DATAGRAMS) {
            let sizes: Vec<u32> = sender.output(0).trains(TRAIN_BYTES, TRAIN_DATAGRAMS).map(|t| t.datagrams).collect();
            sender.sent(0, sizes.iter().sum());
            trains.push(sizes);
        }
    }
    assert!(trains.len() > 100 && trains.iter().filter(|sizes| **sizes != [8]).count() < 3, "{trains:?}");
}
