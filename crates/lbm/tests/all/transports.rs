//! LBT-RU, LBT-TCP and LBT-IPC under the same topics.

use std::net::{Ipv4Addr, SocketAddrV4};

use lbm::topic::{DeliveryConfig, Message, Session, Source, SourceConfig, TopicSink};
use lbm::transport::ipc::{Identity, Log, LogReader, Pacing, Room};
use lbm::transport::lbtru::{Client, ClientConfig, Server};
use lbm::transport::tcp::{Batch, Deframer, hello, session_of_hello};
use lbm::transport::{Carrier, DatagramSink, EndReason, Order, SenderConfig, Train};
use lbm::wire::lbmc::Messages;
use lbm::wire::lbtru::{self, Body, Packet};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

#[derive(Default)]
struct Sink {
    messages: Vec<Vec<u8>>,
    ended: Vec<EndReason>,
    lost: u32,
}

impl TopicSink for Sink {
    fn message(&mut self, _: u32, message: Message<'_>) {
        self.messages.push(message.payload.to_vec());
    }
    fn lost(&mut self, _: u32, _: u32) {
        self.lost += 1;
    }
    fn burst_lost(&mut self, _: u32, _: u32, count: u32) {
        self.lost += count;
    }
    fn end(&mut self, _: u32, reason: EndReason) {
        self.ended.push(reason);
    }
}

fn session(sink: &mut Sink) -> Session {
    let mut session = Session::new();
    session.add(1, 1, DeliveryConfig::default(), sink);
    session
}

/// A server and clients; `lose(n)` says whether the n-th packet of the server is lost.
struct World {
    server: Server,
    clients: Vec<(SocketAddrV4, Client, Session, Sink)>,
    packets: u32,
    now: u64,
}

impl World {
    fn new(clients: u8) -> Self {
        let config = SenderConfig { datagram_max: 600, batching_minimum_length: 1, ..SenderConfig::default() };
        let clients = (0..clients).map(|i| {
            let mut sink = Sink::default();
            let session = session(&mut sink);
            let address = SocketAddrV4::new(Ipv4Addr::new(10, 1, 1, 20 + i), 14_360);
            (address, Client::new(7, u32::from(i) + 100, ClientConfig::default(), SECOND), session, sink)
        });
        let clients = clients.collect();
        Self { server: Server::new(7, config, 2, 10 * SECOND), clients, packets: 0, now: SECOND }
    }

    fn pump(&mut self, lose: impl Fn(u32) -> bool) {
        let (now, mut packets) = (self.now, Vec::new());
        self.server.on_timer(now);
        self.server.replies(|to, packet| packets.push((to, packet.to_vec())));
        let to: Vec<SocketAddrV4> = self.server.clients().collect();
        let sender = self.server.sender();
        let output = sender.output(now);
        let mut all: Vec<Vec<u8>> = output.control().map(<[u8]>::to_vec).collect();
        let control = all.len();
        all.extend(output.retransmissions().map(<[u8]>::to_vec));
        let again = all.len() - control;
        all.extend(output.trains(65_000, 64).flat_map(Train::datagrams).map(<[u8]>::to_vec));
        let new = all.len() - control - again;
        sender.sent_control(control);
        sender.sent_retransmissions(now, again);
        sender.sent(now, new as u32);
        packets.extend(all.iter().flat_map(|packet| to.iter().map(|to| (*to, packet.clone()))));
        for (address, client, session, sink) in &mut self.clients {
            for (_, packet) in packets.iter().filter(|(to, _)| to == address) {
                self.packets += 1;
                if !lose(self.packets) {
                    let packet = Packet::decode(packet).expect("our own");
                    client.receive(now, &packet, &mut session.dispatch(now, sink));
                }
            }
            let mut answers = Vec::new();
            client.on_timer(now, &mut session.dispatch(now, sink), |p| answers.push(p.to_vec()));
            for answer in answers {
                self.server.receive(now, *address, &Packet::decode(&answer).expect("our own"));
            }
        }
    }
}

#[test]
fn lbtru_connects_repairs_and_drops_the_silent() {
    let mut world = World::new(2);
    for _ in 0..5 {
        world.pump(|_| false);
        world.now += 100 * MS;
    }
    assert_eq!(world.server.clients().count(), 2);
    let mut source = Source::new(1, SourceConfig::default());
    let mut sent = Vec::new();
    for i in 0..300u32 {
        let payload = vec![i as u8; 1 + i as usize * 7 % 900];
        source.send(world.now, world.server.sender(), &payload, false).expect("room");
        sent.push(payload);
        world.pump(|n| n % 7 == 3);
        world.now += 10 * MS;
    }
    for _ in 0..300 {
        world.pump(|n| n % 7 == 3);
        world.now += 20 * MS;
    }
    for (_, client, _, sink) in &world.clients {
        assert_eq!((sink.messages.len(), sink.lost), (sent.len(), 0), "{client:?}");
        assert!(sink.messages == sent);
        assert!(client.receiver().stats().repaired > 0);
    }
    // The second client falls silent; the first one stays.
    let (address, ..) = world.clients.pop().expect("two");
    for _ in 0..150 {
        world.pump(|_| false);
        world.now += 100 * MS;
    }
    assert_eq!(world.server.clients().count(), 1);
    assert!(world.server.clients().all(|client| client != address));
}

#[test]
fn lbtru_refuses_more_clients_than_it_may_have_and_they_give_up() {
    let mut world = World::new(3);
    for _ in 0..650 {
        world.pump(|_| false);
        world.now += 100 * MS;
    }
    assert_eq!(world.server.clients().count(), 2);
    assert!(world.server.refused() >= 600);
    assert!(world.clients[2].1.is_ended());
    assert_eq!(world.clients.iter().filter(|c| c.1.is_ended()).count(), 1);
}

/// Connection requests with forged addresses, and nobody behind them.
#[test]
fn lbtru_requests_of_nobody_keep_no_client_out() {
    const SESSION: u32 = 0x7C90_0001;
    let request = |session_id| Packet {
        flags: 0,
        identity: lbtru::Identity { session_id, client_id: Some(5) },
        body: Body::ConnectRequest,
    };
    let ack = Packet { body: Body::Ack { sqn: u32::MAX }, ..request(Some(SESSION)) };
    let address = |n: u32| SocketAddrV4::new(Ipv4Addr::from(0x0A00_0000 + n), 14_390);
    let answers = |server: &mut Server| {
        let mut count = 0;
        server.replies(|_, _| count += 1);
        count
    };
    let mut server = Server::new(SESSION, SenderConfig::default(), 8, 10_000 * MS);
    // Without the session's number: not even an answer.
    for n in 0..1_000 {
        server.receive(0, address(n), &request(None));
    }
    assert_eq!((server.refused(), answers(&mut server)), (1_000, 0));
    // With it, as many as there are places.
    for n in 0..1_000 {
        server.receive(MS, address(n), &request(Some(SESSION)));
    }
    assert_eq!((server.refused(), answers(&mut server)), (1_992, 8));
    // A client that lives repeats its request, as it always does, and gets one of them.
    let mut now = MS;
    while answers(&mut server) == 0 {
        now += 100 * MS;
        assert!(now < 1_000 * MS, "no place in a second");
        server.receive(now, address(5_000), &request(Some(SESSION)));
    }
    server.receive(now + MS, address(5_000), &ack);
    assert_eq!(server.clients().collect::<Vec<_>>(), [address(5_000)]);
    // It does not lose it to others, however many there are.
    for n in 0..1_000 {
        server.receive(now + 300 * MS + u64::from(n) * MS, address(n), &request(Some(SESSION)));
    }
    assert_eq!(server.clients().collect::<Vec<_>>(), [address(5_000)]);
}

#[test]
fn tcp_says_its_session_first() {
    let bytes = hello(0x7C90_0001);
    assert_eq!(bytes, [0x08, 0x6b, 0, 12, 0xff, 8, 0, 0, 0x7c, 0x90, 0, 1]);
    let message = Messages::new(&bytes).next().expect("one").expect("good");
    assert_eq!(session_of_hello(&message), Some(0x7C90_0001));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn tcp_delivers_however_the_stream_is_cut(
        lengths in prop::collection::vec(0usize..70_000, 1..12),
        cuts in prop::collection::vec(1usize..5_000, 1..40),
    ) {
        let mut batch = Batch::new(usize::MAX, 2_048, 200 * MS);
        let mut source = Source::new(1, SourceConfig::default());
        let sent: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(i, n)| vec![i as u8; *n]).collect();
        for payload in &sent {
            source.send(0, &mut batch, payload, false).expect("room");
        }
        batch.flush(0);
        let (mut deframer, mut sink) = (Deframer::default(), Sink::default());
        let mut session = session(&mut sink);
        let mut rest = batch.output();
        for cut in cuts.iter().cycle() {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            deframer.receive(now, |messages| {
                session.dispatch(0, &mut sink).datagram(0, Order::InOrder, messages);
            }).expect("good");
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert!(sink.messages == sent);
    }

    #[test]
    fn ipc_delivers_everything_to_a_reader_that_keeps_up(
        lengths in prop::collection::vec(0usize..9_000, 1..300),
        datagram_max in 500usize..16_384,
        minimum in 1usize..10_000,
        cut in 0usize..9_000,
    ) {
        let mut log = Log::new(datagram_max, minimum, Pacing::Receiver);
        let mut memory = Memory::new(65_536);
        let mut reader = LogReader::new();
        let mut sink = Sink::default();
        let mut session = session(&mut sink);
        let mut source = Source::new(1, SourceConfig::default());
        let mut sent = Vec::new();
        for (i, length) in lengths.into_iter().enumerate() {
            let payload = vec![i as u8; length];
            if source.send(0, &mut log.writer(&mut memory), &payload, false).is_err() {
                log.writer(&mut memory).flush(0);
                // Also when a copy ends within a record.
                let part = memory.published().len().min(cut);
                let read = reader.read(&memory.published()[..part], &mut session.dispatch(0, &mut sink)).expect("good");
                memory.release(read);
                let read = reader.read(memory.published(), &mut session.dispatch(0, &mut sink)).expect("good");
                memory.release(read);
                prop_assert!(memory.published().is_empty(), "whole records");
                source.send(0, &mut log.writer(&mut memory), &payload, false).expect("room after reading");
            }
            sent.push(payload);
        }
        log.writer(&mut memory).flush(0);
        prop_assert!(!log.is_open());
        reader.read(memory.published(), &mut session.dispatch(0, &mut sink)).expect("good");
        prop_assert_eq!(sink.messages.len(), sent.len());
        prop_assert!(sink.messages == sent && sink.lost == 0);
    }

    /// The short way of a message and the long one leave the same bytes, whatever comes between them.
    #[test]
    fn what_is_appended_is_as_if_it_had_been_sent(
        steps in prop::collection::vec((0usize..2_000, 0u8..20), 1..200),
        datagram_max in 500usize..9_000,
        minimum in 0usize..10_000,
        first_sqn in any::<u32>(),
    ) {
        let [short, long] = [true, false].map(|short| {
            let config = SourceConfig { first_sqn, ..SourceConfig::default() };
            let sources = || [1, 2].map(|topic| Source::new(topic, config.clone()));
            let (mut sources, mut twins) = (sources(), sources());
            let mut server = Server::new(
                7,
                SenderConfig { datagram_max, batching_minimum_length: minimum, window_size: 1 << 20, ..SenderConfig::default() },
                1,
                SECOND,
            );
            let (mut log, mut memory) = (Log::new(datagram_max, minimum, Pacing::Source), Memory::new(1 << 20));
            let mut datagrams = Vec::new();
            for (i, (length, kind)) in steps.iter().enumerate() {
                let (payload, flush) = (vec![i as u8; *length], *kind == 0);
                let topic = usize::from(*kind >= 15);
                let (source, twin) = (&mut sources[topic], &mut twins[topic]);
                one(source, server.sender(), &payload, flush, short);
                one(twin, &mut log.writer(&mut memory), &payload, flush, short);
                let sender = server.sender();
                let output: Vec<Vec<u8>> =
                    sender.output(0).trains(65_000, 64).flat_map(Train::datagrams).map(<[u8]>::to_vec).collect();
                sender.sent(0, output.len() as u32);
                datagrams.extend(output);
            }
            server.sender().flush(0);
            log.writer(&mut memory).flush(0);
            let rest: Vec<u8> = server.sender().output(0).trains(65_000, 64).flat_map(|t| t.bytes.to_vec()).collect();
            (datagrams, rest, memory.published().to_vec())
        });
        prop_assert!(short == long);
    }

    /// The ring is memory that another process can write: any bytes may be there.
    #[test]
    fn ipc_reads_any_bytes(
        noise in prop::collection::vec(any::<u8>(), 0..4_096),
        records in prop::collection::vec((0u32..3_000, 0u32..3, any::<u32>()), 0..8),
    ) {
        let mut bytes = Vec::new();
        for (length, kind, sqn) in records {
            for field in [length, kind, sqn, 0] {
                bytes.extend_from_slice(&field.to_ne_bytes());
            }
            bytes.resize(bytes.len() + length as usize / 2, 7);
        }
        bytes.extend_from_slice(&noise);
        let mut sink = Sink::default();
        let mut session = session(&mut sink);
        let read = LogReader::new().read(&bytes, &mut session.dispatch(0, &mut sink));
        prop_assert!(read.is_ok_and(|read| read <= bytes.len() && read % 8 == 0) || read.is_err_and(|e| e.at < bytes.len()));
    }
}

/// Sends a message, the short way if it may and can.
fn one(source: &mut Source, to: &mut impl Carrier, payload: &[u8], flush: bool, short: bool) {
    if !short || flush || source.append(0, to, payload).is_none() {
        source.send(0, to, payload, flush).expect("room");
    }
}

/// Memory as a segment of shared memory gives it, in one piece.
struct Memory {
    bytes: Vec<u8>,
    capacity: usize,
    published: usize,
    released: usize,
}

impl Memory {
    fn new(capacity: usize) -> Self {
        Self { bytes: Vec::new(), capacity, published: 0, released: 0 }
    }

    fn published(&self) -> &[u8] {
        &self.bytes[self.released..self.published]
    }

    fn release(&mut self, bytes: usize) {
        self.released += bytes;
    }
}

impl Room for Memory {
    fn room(&mut self, _want: usize) -> &mut [u8] {
        self.bytes.resize(self.released + self.capacity, 0);
        &mut self.bytes[self.published..]
    }

    fn publish(&mut self, bytes: usize) {
        self.published += bytes;
    }
}

/// Messages that were only appended put off the topic's sequence number, too; after a long silence it has to be asked for anew.
#[test]
fn appended_messages_put_off_what_is_said_after_a_silence() {
    let config = SenderConfig { batching_minimum_length: 8_000, ..SenderConfig::default() };
    let mut server = Server::new(7, config, 1, 1_000 * SECOND);
    let (mut source, sender) = (Source::new(1, SourceConfig::default()), server.sender());
    assert_eq!(source.append(0, sender, b"first"), None, "no datagram is open, and no timer runs");
    source.send(SECOND, sender, b"first", false).expect("room");
    assert_eq!(source.append(4 * SECOND, sender, b"second"), Some(1));
    assert!(!source.on_timer(7 * SECOND, sender), "five seconds after the second");
    assert_eq!(source.timeout(), Some(9 * SECOND));
    assert!(source.on_timer(9 * SECOND, sender));
    let mut now = 9 * SECOND;
    while let Some(at) = source.timeout() {
        now = at;
        source.on_timer(now, sender);
    }
    assert!(now < 70 * SECOND, "a minute of it is enough");
    source.send(now, sender, b"third", false).expect("room");
    assert!(source.timeout().is_some() && source.append(now, sender, b"fourth").is_some());
}

#[test]
fn ipc_tells_the_slow_reader_what_it_lost() {
    let mut log = Log::new(1_000, 1, Pacing::Source);
    let mut memory = Memory::new(1 << 20);
    let mut reader = LogReader::new();
    let mut sink = Sink::default();
    let mut session = session(&mut sink);
    let mut source = Source::new(1, SourceConfig::default());
    for i in 0..10_010u32 {
        source.send(0, &mut log.writer(&mut memory), &i.to_be_bytes(), true).expect("never blocks");
        if i == 9 {
            reader.read(memory.published(), &mut session.dispatch(0, &mut sink)).expect("good");
        }
        if i <= 9_999 {
            // An overrun: it goes on at the newest.
            let all = memory.published().len();
            memory.release(if i == 9 || i == 9_999 { all } else { 0 });
        }
    }
    reader.read(memory.published(), &mut session.dispatch(0, &mut sink)).expect("good");
    assert_eq!((sink.messages.len(), sink.lost), (20, 9_990));
}

#[test]
fn ipc_paced_by_receivers_waits_for_the_slowest_and_paced_by_the_source_for_nobody() {
    let mut memory = Memory::new(65_536);
    let mut log = Log::new(1_000, 1, Pacing::Receiver);
    let mut source = Source::new(1, SourceConfig::default());
    let mut sent = 0;
    while source.send(0, &mut log.writer(&mut memory), &[0; 100], true).is_ok() {
        sent += 1;
    }
    assert!((480..512).contains(&sent), "{sent}");
    memory.release(log.needs(100));
    source.send(0, &mut log.writer(&mut memory), &[0; 100], true).expect("room");
    let mut log = Log::new(1_000, 1, Pacing::Source);
    assert!(log.writer(&mut memory).admit(0, 1 << 30).is_ok());
}

#[test]
fn ipc_knows_its_own_segments() {
    let identity = Identity { session_id: 0x7C90_0001, transport_id: 20_001, host_id: 3 };
    let mut bytes = identity.encode();
    assert_eq!(Identity::decode(&bytes), Some(identity));
    bytes[8] ^= 1;
    assert_eq!(Identity::decode(&bytes), None);
    assert_eq!(Identity::decode(&[0; 64]), None);
}
