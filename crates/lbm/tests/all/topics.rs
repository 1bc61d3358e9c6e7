//! Topics over one session without a network: the test decides which datagrams arrive, when and in which order.

mod catch_up;
mod forwarding;

use lbm::topic::{
    DeliveryConfig, Message, Ordering, Reply, SendError, Session, Source, SourceConfig, TopicSink, decode_reply,
    encode_reply,
};
use lbm::transport::{DatagramSink, EndReason, Lbtrm, Order, Received, Receiver, ReceiverConfig, Sender, SenderConfig};
use lbm::wire::header::{ExtensionOption, Fragment, Header, Request};
use lbm::wire::lbmc::{self, Messages};
use lbm::wire::lbtrm::{Body, Data, Packet};
use lbm::wire::{NcfReason, Writer};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const FRAMING: Lbtrm = Lbtrm { unicast_port: 14_390, session_id: 0x5E55_1D01, group_size: 3 };

/// What a receiver was told.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TopicEvent {
    Begin,
    Message(u32, String),
    Lost(u32),
    Burst(u32, u32),
    End(EndReason),
}

#[derive(Default)]
struct Sink(Vec<(u32, TopicEvent)>);

impl Sink {
    fn take(&mut self) -> Vec<TopicEvent> {
        self.0.drain(..).map(|(_, told)| told).collect()
    }
}

impl TopicSink for Sink {
    fn begin(&mut self, receiver: u32) {
        self.0.push((receiver, TopicEvent::Begin));
    }
    fn message(&mut self, receiver: u32, message: Message<'_>) {
        let text = if message.payload.len() < 40 {
            String::from_utf8_lossy(message.payload).into_owned()
        } else {
            format!("{} bytes", message.payload.len())
        };
        self.0.push((receiver, TopicEvent::Message(message.sqn, text)));
    }
    fn lost(&mut self, receiver: u32, sqn: u32) {
        self.0.push((receiver, TopicEvent::Lost(sqn)));
    }
    fn burst_lost(&mut self, receiver: u32, first: u32, count: u32) {
        self.0.push((receiver, TopicEvent::Burst(first, count)));
    }
    fn end(&mut self, receiver: u32, reason: EndReason) {
        self.0.push((receiver, TopicEvent::End(reason)));
    }
}

fn message(sqn: u32, text: &str) -> TopicEvent {
    TopicEvent::Message(sqn, text.to_owned())
}

/// A sender whose datagrams are collected, and a receiver to give them to.
struct Pair {
    sender: Sender<Lbtrm>,
    receiver: Receiver<Lbtrm>,
    session: Session,
    sink: Sink,
    now: u64,
}

impl Pair {
    fn new(topics: &[u32], delivery: &DeliveryConfig) -> Self {
        let sender = SenderConfig {
            datagram_max: 500,
            window_size: 65_536,
            batching_minimum_length: 1,
            ..SenderConfig::default()
        };
        let receiver = ReceiverConfig {
            nak_initial_backoff_interval_ns: 10 * MS,
            nak_backoff_interval_ns: 20 * MS,
            nak_generation_interval_ns: SECOND,
            ..ReceiverConfig::default()
        };
        let (mut session, mut sink) = (Session::new(), Sink::default());
        for topic in topics {
            assert!(session.add(*topic, *topic, delivery.clone(), &mut sink));
        }
        let receiver = Receiver::new(FRAMING, receiver, 0);
        Self { sender: Sender::new(FRAMING, sender), receiver, session, sink, now: SECOND }
    }

    /// Takes what the sender would have sent.
    fn datagrams(&mut self) -> Vec<Vec<u8>> {
        let output = self.sender.output(self.now);
        let control = output.control().count();
        let mut packets: Vec<Vec<u8>> = output.control().map(<[u8]>::to_vec).collect();
        let again: Vec<Vec<u8>> = output.retransmissions().map(<[u8]>::to_vec).collect();
        let trains: Vec<_> = output.trains(65_000, 64).collect();
        let sent = trains.iter().map(|t| t.datagrams).sum();
        packets.extend(again.iter().cloned());
        packets.extend(trains.iter().flat_map(|t| t.datagrams()).map(<[u8]>::to_vec));
        self.sender.sent_control(control);
        self.sender.sent_retransmissions(self.now, again.len());
        self.sender.sent(self.now, sent);
        packets
    }

    fn give(&mut self, datagram: &[u8]) -> Vec<TopicEvent> {
        let packet = Packet::decode(datagram).expect("our own");
        let received = Received::from_lbtrm(&packet).expect("no NAK");
        let mut dispatch = self.session.dispatch(self.now, &mut self.sink);
        self.receiver.receive(self.now, received, &mut dispatch);
        self.check_invariants();
        self.sink.take()
    }

    fn check_invariants(&self) {
        self.sender.check_invariants();
        self.receiver.check_invariants();
        self.session.check_invariants();
    }

    /// Lets time pass at the receiver; returns the NAK'd numbers.
    fn wait(&mut self, ns: u64) -> Vec<u32> {
        self.now += ns;
        let mut naks = Vec::new();
        let mut dispatch = self.session.dispatch(self.now, &mut self.sink);
        self.receiver.on_timer(self.now, &mut dispatch, |packet| {
            let packet = Packet::decode(packet).expect("a NAK");
            let Body::Nak { sqns, .. } = packet.body else { panic!("{packet:?}") };
            naks.extend(sqns.iter());
        });
        self.check_invariants();
        naks
    }
}

fn send(source: &mut Source, pair: &mut Pair, text: &str) {
    source.send(pair.now, &mut pair.sender, text.as_bytes(), true).expect("room");
}

fn source(topic: u32) -> Source {
    Source::new(topic, SourceConfig::default())
}

#[test]
fn a_gap_in_one_topic_does_not_hold_up_another() {
    let mut pair = Pair::new(&[1, 2], &DeliveryConfig::default());
    let (mut a, mut b) = (source(1), source(2));
    send(&mut a, &mut pair, "a0");
    send(&mut b, &mut pair, "b0");
    send(&mut a, &mut pair, "a1");
    send(&mut b, &mut pair, "b1");
    send(&mut a, &mut pair, "a2");
    let d = pair.datagrams();
    assert_eq!(pair.give(&d[0]), [TopicEvent::Begin, TopicEvent::Begin, message(0, "a0")]);
    assert_eq!(pair.give(&d[1]), [message(0, "b0")]);
    assert_eq!(pair.give(&d[3]), [message(1, "b1")], "a1 is missing, b is not");
    assert_eq!(pair.give(&d[4]), [], "a2 waits for a1");
    assert_eq!(pair.give(&d[2]), [message(1, "a1"), message(2, "a2")]);
    assert!(d.iter().all(|d| pair.receiver.stats().duplicates == 0 && !d.is_empty()));
    assert_eq!(pair.give(&d[2]), []);
    assert_eq!(pair.receiver.stats().duplicates, 1);
}

#[test]
fn a_nak_is_answered_by_a_marked_retransmission_and_a_second_one_by_an_ncf() {
    let mut pair = Pair::new(&[1], &DeliveryConfig::default());
    let mut a = source(1);
    (0..4).for_each(|i| send(&mut a, &mut pair, &format!("{i}")));
    let d = pair.datagrams();
    pair.give(&d[0]);
    assert_eq!(pair.give(&d[3]), []);
    assert_eq!(pair.wait(16 * MS), [1, 2]);
    let now = pair.now;
    pair.sender.nak(now, 9, [1, 2].into_iter());
    let again = pair.datagrams();
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|d| d[16] == 0xA0), "bit 0x20 marks a retransmission");
    pair.sender.nak(now, 9, [1, 2, 1].into_iter());
    let ncf = pair.datagrams();
    assert_eq!(ncf.len(), 1);
    let Body::Ncf { reason, sqns, .. } = Packet::decode(&ncf[0]).expect("an NCF").body else { panic!("{ncf:?}") };
    assert_eq!((reason, sqns.iter().collect::<Vec<_>>()), (NcfReason::Ignored, vec![1, 2]));
    // The NCF keeps the receiver quiet.
    pair.give(&ncf[0]);
    assert_eq!(pair.wait(100 * MS), []);
    assert_eq!(pair.give(&again[1]), []);
    assert_eq!(pair.give(&again[0]), [message(1, "1"), message(2, "2"), message(3, "3")]);
    assert_eq!((pair.receiver.stats().repaired, pair.sender.stats().retransmissions), (2, 2));
}

#[test]
fn loss_is_reported_once_for_each_number_and_a_burst_as_one() {
    let config = DeliveryConfig { burst_loss_max: 3, ..DeliveryConfig::default() };
    let mut pair = Pair::new(&[1], &config);
    let mut a = source(1);
    (0..12).for_each(|i| send(&mut a, &mut pair, &format!("{i}")));
    let d = pair.datagrams();
    pair.give(&d[0]);
    pair.give(&d[3]);
    pair.wait(2 * SECOND);
    assert_eq!(pair.sink.take(), [TopicEvent::Lost(1), TopicEvent::Lost(2), message(3, "3")]);
    assert_eq!(pair.give(&d[1]), [], "too late");
    pair.give(&d[10]);
    pair.wait(2 * SECOND);
    assert_eq!(pair.sink.take(), [TopicEvent::Burst(4, 6), message(10, "10")]);
    assert_eq!(pair.give(&d[11]), [message(11, "11")]);
}

#[test]
fn no_loss_before_the_first_message_and_no_half_message() {
    let mut pair = Pair::new(&[1, 2], &DeliveryConfig::default());
    let (mut a, mut b) = (source(1), source(2));
    send(&mut b, &mut pair, "b0");
    a.send(pair.now, &mut pair.sender, &[7; 1200], true).expect("room");
    send(&mut a, &mut pair, "whole");
    let d = pair.datagrams();
    assert_eq!(d.len(), 5);
    // The session begins with b; of a's fragments the first is lost for good.
    pair.give(&d[0]);
    pair.give(&d[2]);
    pair.give(&d[3]);
    pair.give(&d[4]);
    pair.sink.take();
    pair.wait(2 * SECOND);
    assert_eq!(pair.sink.take(), [message(3, "whole")]);
}

#[test]
fn fragments_are_put_together_in_any_order_of_arrival() {
    let mut pair = Pair::new(&[1], &DeliveryConfig::default());
    let mut a = source(1);
    send(&mut a, &mut pair, "x");
    let sqn = a.send(pair.now, &mut pair.sender, &[7; 1_800], false).expect("room");
    assert_eq!(sqn, 4);
    let d = pair.datagrams();
    assert_eq!(d.iter().map(Vec::len).collect::<Vec<_>>(), [33, 500, 500, 500, 492]);
    pair.give(&d[0]);
    pair.give(&d[3]);
    pair.give(&d[1]);
    pair.give(&d[4]);
    assert_eq!(pair.give(&d[2]), [message(4, "1800 bytes")]);
}

/// A datagram of messages that the crate itself would not write.
fn foreign(sqn: u32, messages: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; 1_500];
    let data = Data { sqn, trail: 0, flags: 0x80, group_size: 3, fec_symbol: (sqn & 7) as u16, messages };
    let packet = Packet { unicast_port: FRAMING.unicast_port, session_id: FRAMING.session_id, body: Body::Data(data) };
    let mut w = Writer::new(&mut datagram);
    packet.encode(&mut w).expect("room");
    let length = w.position();
    datagram.truncate(length);
    datagram
}

/// What comes and cannot be handed on is a loss to the application, once, and not silence: a header that may not be ignored, and a
/// message longer than what is put together.
#[test]
fn what_cannot_be_delivered_is_reported_lost() {
    for ordering in [Ordering::Ordered, Ordering::Arrival] {
        let config = DeliveryConfig { ordering, message_max: 1_000, ..DeliveryConfig::default() };
        let mut pair = Pair::new(&[1], &config);
        let mut message_of = |sqn: u32, headers: &[Header<'_>], payload: &[u8]| {
            let mut bytes = vec![0; 1_400];
            let mut w = Writer::new(&mut bytes);
            lbmc::encode(&mut w, lbmc::Kind::Message, 1, sqn, headers, lbmc::NEXT_DATA, payload).expect("room");
            let length = w.position();
            pair.give(&foreign(sqn, &bytes[..length]))
        };
        assert_eq!(message_of(0, &[], b"0"), [TopicEvent::Begin, message(0, "0")]);
        let must = Header::Unknown { code: 0x5D, body: &[0, 0, 1] };
        assert_eq!(message_of(1, &[must], b"1"), [TopicEvent::Lost(1)], "{ordering:?}");
        let option = |flags| ExtensionOption { flags, id: 0, subtype: 0x0102, offset: 0, data: b"x" };
        assert_eq!(message_of(2, &[Header::Option(option(0))], b"2"), [TopicEvent::Lost(2)]);
        assert_eq!(message_of(3, &[Header::Option(option(0x80))], b"3"), [message(3, "3")]);
        let part = |offset: u32| Header::Fragment(Fragment { flags: 0, first_sqn: 4, offset, total: 1_100 });
        assert_eq!(message_of(4, &[part(0)], &[7; 600]), [TopicEvent::Lost(4)]);
        assert_eq!(message_of(5, &[part(600)], &[7; 500]), [TopicEvent::Lost(5)]);
        // Others may be ignored, as may a longer form of a known one.
        let may = Header::Unknown { code: 0x5C, body: b"\x80" };
        let longer = Header::Unknown { code: 0x43, body: &[0x80, 0, 0, 0, 0, 7, 0, 0, 0, 9] };
        assert_eq!(message_of(6, &[may, longer], b"6"), [message(6, "6")]);
    }
}

#[test]
fn arrival_order_delivers_at_once_and_still_reports_loss() {
    for ordering in [Ordering::Arrival, Ordering::ArrivalFragments] {
        let mut pair = Pair::new(&[1], &DeliveryConfig { ordering, ..DeliveryConfig::default() });
        let mut a = source(1);
        (0..3).for_each(|i| send(&mut a, &mut pair, &format!("{i}")));
        a.send(pair.now, &mut pair.sender, &[7; 600], true).expect("room");
        let d = pair.datagrams();
        assert_eq!(pair.give(&d[0]), [TopicEvent::Begin, message(0, "0")]);
        assert_eq!(pair.give(&d[2]), [message(2, "2")]);
        let whole = [pair.give(&d[4]), pair.give(&d[3])].concat();
        let expected = match ordering {
            Ordering::Arrival => vec![message(3, "600 bytes")],
            _ => vec![message(4, "148 bytes"), message(3, "452 bytes")],
        };
        assert_eq!(whole, expected);
        pair.wait(2 * SECOND);
        assert_eq!(pair.sink.take(), [TopicEvent::Lost(1)]);
    }
}

#[test]
fn the_end_of_a_silent_session_is_told_once_and_it_may_begin_again() {
    let mut pair = Pair::new(&[1], &DeliveryConfig::default());
    let mut a = source(1);
    send(&mut a, &mut pair, "0");
    let d = pair.datagrams();
    assert_eq!(pair.give(&d[0]), [TopicEvent::Begin, message(0, "0")]);
    pair.wait(61 * SECOND);
    pair.wait(61 * SECOND);
    assert_eq!(pair.sink.take(), [TopicEvent::End(EndReason::Timeout)]);
    send(&mut a, &mut pair, "1");
    let d = pair.datagrams();
    assert_eq!(pair.give(&d[0]), [TopicEvent::Begin, message(1, "1")]);
}

#[test]
fn topic_sequence_numbers_reveal_a_loss_at_the_end() {
    let mut pair = Pair::new(&[1, 2], &DeliveryConfig::default());
    let (mut a, mut b) = (source(1), source(2));
    send(&mut a, &mut pair, "a0");
    send(&mut a, &mut pair, "a1");
    send(&mut b, &mut pair, "b0");
    let d = pair.datagrams();
    pair.give(&d[0]);
    pair.give(&d[2]);
    pair.wait(2 * SECOND);
    assert_eq!(pair.sink.take(), [message(0, "b0")], "nobody knows yet to whom the lost datagram belonged");
    pair.now += 5 * SECOND;
    assert!(a.on_timer(pair.now, &mut pair.sender));
    let tsni = pair.datagrams();
    assert_eq!(pair.give(&tsni[0]), [TopicEvent::Lost(1)]);
}

#[test]
fn a_send_that_would_block_changes_nothing_and_becomes_writable_once() {
    let mut pair = Pair::new(&[1], &DeliveryConfig::default());
    let mut a = source(1);
    let mut sent = 0;
    while a.send(pair.now, &mut pair.sender, &[0; 400], true).is_ok() {
        sent += 1;
    }
    assert!(sent > 10 && a.next_sqn() == sent);
    assert_eq!(a.send(pair.now, &mut pair.sender, &[0; 400], true), Err(SendError::WouldBlock));
    assert!(!pair.sender.writable(pair.now));
    assert_eq!(pair.datagrams().len(), sent as usize);
    assert!(pair.sender.writable(pair.now));
    assert!(!pair.sender.writable(pair.now));
    a.send(pair.now, &mut pair.sender, &[0; 400], true).expect("room again");
}

#[test]
fn trains_are_equal_datagrams_that_lie_together() {
    let mut pair = Pair::new(&[1], &DeliveryConfig::default());
    let mut a = source(1);
    for length in [100, 100, 100, 60, 100, 200, 200] {
        a.send(pair.now, &mut pair.sender, &vec![1; length], true).expect("room");
    }
    let shape = |pair: &mut Pair, bytes: usize, datagrams: u32| -> Vec<(usize, u32)> {
        pair.sender.output(pair.now).trains(bytes, datagrams).map(|t| (t.segment, t.datagrams)).collect()
    };
    assert_eq!(shape(&mut pair, 65_000, 64), [(132, 4), (132, 1), (232, 2)]);
    assert_eq!(shape(&mut pair, 300, 64), [(132, 2), (132, 2), (132, 1), (232, 1), (232, 1)]);
    assert_eq!(shape(&mut pair, 65_000, 1).len(), 7);
}

#[test]
fn session_messages_back_off_and_data_resets_them() {
    let mut pair = Pair::new(&[1], &DeliveryConfig::default());
    let mut a = source(1);
    assert_eq!(pair.sender.timeout(), None, "nothing to say before the first datagram");
    send(&mut a, &mut pair, "0");
    pair.datagrams();
    let start = pair.now;
    let mut times = Vec::new();
    while times.len() < 8 {
        pair.now = pair.sender.timeout().expect("session messages");
        pair.sender.on_timer(pair.now);
        for packet in pair.datagrams() {
            let Body::SessionMessage { lead: 0, trail: 0, sm_sqn, .. } = Packet::decode(&packet).expect("SM").body
            else {
                panic!("{packet:?}")
            };
            assert_eq!(sm_sqn as usize, times.len());
            times.push((pair.now - start) / MS);
        }
    }
    assert_eq!(times, [200, 600, 1_400, 3_000, 6_200, 12_600, 22_600, 32_600]);
    send(&mut a, &mut pair, "1");
    pair.datagrams();
    assert_eq!(pair.sender.timeout(), Some(pair.now + 200 * MS));
}

#[test]
fn implicit_batching_waits_for_length_or_time() {
    let config = SenderConfig { datagram_max: 500, batching_minimum_length: 200, ..SenderConfig::default() };
    let mut sender = Sender::new(FRAMING, config);
    let mut a = source(1);
    a.send(SECOND, &mut sender, &[0; 50], false).expect("room");
    assert!(sender.output(SECOND).is_empty());
    a.send(SECOND, &mut sender, &[0; 150], false).expect("room");
    assert_eq!(sender.output(SECOND).trains(65_000, 64).count(), 1);
    sender.sent(SECOND, 1);
    a.send(2 * SECOND, &mut sender, &[0; 50], false).expect("room");
    // Does not fit any more: what waits goes first.
    a.send(2 * SECOND, &mut sender, &[0; 440], false).expect("room");
    let lengths: Vec<usize> = sender.output(2 * SECOND).trains(65_000, 1).map(|t| t.segment).collect();
    assert_eq!(lengths, [82, 472]);
    sender.sent(2 * SECOND, 2);
    a.send(3 * SECOND, &mut sender, &[0; 50], false).expect("room");
    assert_eq!(sender.timeout(), Some(2 * SECOND + 200 * MS), "a session message, then the batch");
    sender.on_timer(3 * SECOND + 200 * MS);
    assert_eq!(sender.output(3 * SECOND + 200 * MS).trains(65_000, 64).count(), 1);
}

#[test]
fn a_forged_number_far_away_moves_nothing() {
    let mut pair = Pair::new(&[1], &DeliveryConfig::default());
    let mut a = source(1);
    (0..40).for_each(|i| send(&mut a, &mut pair, &format!("{i}")));
    let d = pair.datagrams();
    pair.give(&d[0]);
    for i in 1..40u32 {
        let mut forged = d[i as usize].clone();
        let wild = i.wrapping_mul(0x0101_0101) ^ 0x4000_0000;
        forged[8..12].copy_from_slice(&wild.to_be_bytes());
        forged[12..16].copy_from_slice(&wild.to_be_bytes());
        assert_eq!(pair.give(&forged), []);
        assert_eq!(pair.give(&d[i as usize]), [message(i, &i.to_string())]);
    }
    assert_eq!(pair.receiver.stats().implausible, 39);
    assert_eq!(pair.wait(SECOND / 2), []);
}

/// Forged datagrams within reach are believed, one after the other, until far ahead of the source, with more losses than are remembered.
/// Once they end the session goes on by itself, and nothing that the source has sent since is missing.
#[test]
fn a_session_that_was_led_astray_comes_back() {
    for quiet in [false, true] {
        let mut pair = Pair::new(&[1], &DeliveryConfig::default());
        let mut a = source(1);
        send(&mut a, &mut pair, "0");
        let d = pair.datagrams();
        pair.give(&d[0]);
        for leap in 1..=40u32 {
            pair.give(&foreign(leap * 1_000, &[]));
            pair.wait(2 * SECOND);
        }
        pair.sink.take();
        // The source has not noticed anything. A quiet one sends a message now and then repeats where it is.
        let mut heard = Vec::new();
        for round in 1..=8u32 {
            if !quiet || round == 1 {
                send(&mut a, &mut pair, &round.to_string());
            } else {
                pair.now = pair.sender.timeout().expect("session messages").max(pair.now);
                let now = pair.now;
                pair.sender.on_timer(now);
            }
            for datagram in pair.datagrams() {
                heard.extend(pair.give(&datagram));
            }
            let asked = pair.wait(300 * MS);
            let now = pair.now;
            pair.sender.nak(now, 9, asked.into_iter());
            for datagram in pair.datagrams() {
                heard.extend(pair.give(&datagram));
            }
        }
        let last = if quiet { 1 } else { 8 };
        assert_eq!(heard, (1..=last).map(|i| message(i, &i.to_string())).collect::<Vec<_>>(), "quiet: {quiet}");
    }
}

/// The same by a forged message: one number that is far ahead, in a datagram that is believed.
#[test]
fn a_topic_that_was_led_astray_comes_back() {
    for ordering in [Ordering::Ordered, Ordering::Arrival] {
        let mut pair = Pair::new(&[1], &DeliveryConfig { ordering, ..DeliveryConfig::default() });
        let mut a = source(1);
        (0..40).for_each(|i| send(&mut a, &mut pair, &i.to_string()));
        let d = pair.datagrams();
        pair.give(&d[0]);
        let forged = [&[0, 0, 0, 13, 0, 0, 0, 1][..], &0x4000_0000u32.to_be_bytes(), b"x"].concat();
        let told = pair.give(&foreign(1, &forged));
        assert!(told.contains(&TopicEvent::Burst(1, 0x3FFF_FFFF)) && told.len() == 2, "{told:?}");
        let mut heard: Vec<TopicEvent> = d[2..].iter().flat_map(|datagram| pair.give(datagram)).collect();
        assert_eq!(heard.pop(), Some(message(39, "39")));
        let first = if ordering == Ordering::Ordered { 17 } else { 2 };
        assert_eq!(heard, (first..39).map(|i| message(i, &i.to_string())).collect::<Vec<_>>(), "{ordering:?}");
    }
}

#[test]
fn a_source_that_jumped_is_believed_after_a_few_datagrams() {
    let mut pair = Pair::new(&[1], &DeliveryConfig::default());
    let mut a = source(1);
    (0..10).for_each(|i| send(&mut a, &mut pair, &format!("{i}")));
    let d = pair.datagrams();
    pair.give(&d[0]);
    let mut told = Vec::new();
    for i in 1..10u32 {
        let mut jumped = d[i as usize].clone();
        jumped[8..12].copy_from_slice(&(1_000_000 + i).to_be_bytes());
        told.extend(pair.give(&jumped));
    }
    // Those before the fourth are missing now, and asked for.
    assert_eq!(told, []);
    assert_eq!(pair.receiver.stats().lost_burst, 1_000_000);
    assert_eq!(pair.wait(16 * MS), [1_000_001, 1_000_002, 1_000_003]);
}

#[test]
fn a_nak_flood_is_bounded() {
    let config = SenderConfig {
        datagram_max: 500,
        window_size: 1 << 20,
        batching_minimum_length: 1,
        nak_budget: 100,
        retransmit_rate_limit_bps: 1_000_000,
        retransmit_queue_max: 64,
        unsent_max: 1 << 20,
        ..SenderConfig::default()
    };
    let mut sender = Sender::new(FRAMING, config);
    let mut a = source(1);
    for _ in 0..1_000 {
        a.send(SECOND, &mut sender, &[0; 300], true).expect("room");
    }
    sender.sent(SECOND, 1_000);
    for round in 0..50 {
        for peer in 0..3 {
            sender.nak(SECOND + round, peer, 0..1_000);
        }
    }
    let again = sender.output(SECOND).retransmissions().count();
    let stats = *sender.stats();
    assert!(again <= 64, "{again}");
    assert_eq!(stats.naks, 150_000);
    assert!(stats.naks_over_budget >= 149_000, "{stats:?}");
    assert!(stats.naks_shed > 0 && stats.naks_delayed > 0, "{stats:?}");
}

#[test]
fn a_request_carries_its_address_and_a_reply_its_index() {
    let mut pair = Pair::new(&[1], &DeliveryConfig::default());
    let mut a = source(1);
    let request = Request { flags: 0, transport: 0, index: 9, port: 14_391, address: [10, 1, 1, 10].into() };
    let (now, sender) = (pair.now, &mut pair.sender);
    a.send_headed(now, sender, &[Header::Request(request)], b"ping?", true).expect("room");
    let d = pair.datagrams();
    let messages = Packet::decode(&d[0]).expect("data");
    let Body::Data(data) = messages.body else { panic!() };
    let first = Messages::new(data.messages).next().expect("one").expect("good");
    assert_eq!(first.headers().next(), Some(Ok(Header::Request(request))));
    assert_eq!(pair.give(&d[0]), [TopicEvent::Begin, message(0, "ping?")]);

    let mut buffer = [0; 64];
    let mut w = Writer::new(&mut buffer);
    encode_reply(&mut w, Reply { request: 9, payload: b"pong" }).expect("fits");
    let (reply, _) = lbmc::Message::decode(w.written()).expect("ours");
    assert_eq!(decode_reply(&reply), Ok(Some(Reply { request: 9, payload: b"pong" })));
    assert_eq!(decode_reply(&first), Ok(None));
}

#[test]
fn the_smallest_window_takes_the_longest_datagrams() {
    for datagram_max in [500, 1_472, 8_192, 65_507] {
        let config =
            SenderConfig { datagram_max, window_size: 1, batching_minimum_length: 1, ..SenderConfig::default() };
        let mut sender = Sender::new(FRAMING, config);
        let mut a = source(1);
        for round in 0..200usize {
            let length = 1 + round * 7_919 % 60_000;
            a.send(SECOND, &mut sender, &vec![0; length], true).expect("room");
            let sent = sender.output(SECOND).trains(65_000, 64).map(|t| t.datagrams).sum();
            sender.sent(SECOND, sent);
        }
        let (trail, next) = sender.window();
        assert!(next.wrapping_sub(trail) > 0 && sender.stats().bytes > 5_000_000);
    }
}

/// Runs of one topic, topics that nobody wants, extension headers, repetitions and gaps, in one datagram: each message as if it had come
/// alone.
#[test]
fn messages_of_a_datagram_take_the_short_way_only_where_it_leads_to_the_same() {
    let application = [Header::Application { flags: 0, data: b"h" }];
    let messages: [(u32, u32, &[Header<'_>], &str); 11] = [
        (1, 0, &[], "a"),
        (1, 1, &[], "b"),
        (3, 0, &[], "nobody's"),
        (3, 1, &[], "nobody's"),
        (2, 0, &[], "c"),
        (1, 2, &application, "d"),
        (1, 3, &[], "e"),
        (1, 3, &[], "again"),
        (1, 4, &[], ""),
        (2, 2, &[], "f"),
        (2, 3, &[], "g"),
    ];
    let encoded: Vec<Vec<u8>> = messages
        .iter()
        .map(|(topic, sqn, headers, text)| {
            let mut buffer = [0; 128];
            let mut w = Writer::new(&mut buffer);
            lbmc::encode(&mut w, lbmc::Kind::Message, *topic, *sqn, headers, lbmc::NEXT_DATA, text.as_bytes())
                .expect("room");
            w.written().to_vec()
        })
        .collect();
    let told = |datagrams: &[Vec<u8>]| {
        let (mut session, mut sink) = (Session::new(), Sink::default());
        for topic in [1, 2] {
            assert!(session.add(topic, topic, DeliveryConfig::default(), &mut sink));
        }
        let mut dispatch = session.dispatch(0, &mut sink);
        dispatch.begin();
        for (n, datagram) in datagrams.iter().enumerate() {
            dispatch.datagram(n as u32, Order::InOrder, datagram);
        }
        (sink.0, session.stats().malformed)
    };
    let expected = [
        (1, TopicEvent::Begin),
        (2, TopicEvent::Begin),
        (1, message(0, "a")),
        (1, message(1, "b")),
        (2, message(0, "c")),
        (1, message(2, "d")),
        (1, message(3, "e")),
        (1, message(4, "")),
        (2, TopicEvent::Lost(1)),
        (2, message(2, "f")),
        (2, message(3, "g")),
    ];
    let one = encoded.concat();
    assert_eq!(told(&encoded), (expected.to_vec(), 0));
    assert_eq!(told(std::slice::from_ref(&one)), (expected.to_vec(), 0));
    // Up to three bytes at the end are passed over; a message that is cut short is not.
    assert_eq!(told(&[[&*one, &[0, 0, 0]].concat()]), (expected.to_vec(), 0));
    assert_eq!(told(&[[&*one, &encoded[10][..8]].concat()]), (expected.to_vec(), 1));
}
