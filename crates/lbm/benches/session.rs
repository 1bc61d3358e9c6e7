//! The pure state machines: what a message costs before and after the sockets. `cargo bench -p quoteway-lbm`.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros, reason = "a benchmark reads the clock and prints")]
#![allow(missing_docs, reason = "a benchmark")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use lbm::topic::{DeliveryConfig, Message, Session, Source, SourceConfig, TopicSink};
use lbm::transport::ipc::{Log, LogReader, Pacing, Room};
use lbm::transport::{Carrier, EndReason, Lbtrm, Received, Receiver, ReceiverConfig, Sender, SenderConfig};
use lbm::wire::lbtrm::Packet;

/// Bytes in one turn: what is handed to the socket at once.
const TURN: usize = 256 << 10;
const FRAMING: Lbtrm = Lbtrm { unicast_port: 14_390, session_id: 0x5E55_1D01, group_size: 3 };

#[derive(Default)]
struct Count {
    messages: u64,
    bytes: u64,
}

impl TopicSink for Count {
    #[inline]
    fn message(&mut self, _: u32, message: Message<'_>) {
        self.messages += 1;
        self.bytes += u64::from(message.payload[0]) + message.payload.len() as u64;
    }
    fn lost(&mut self, _: u32, sqn: u32) {
        panic!("lost {sqn}");
    }
    fn burst_lost(&mut self, _: u32, first: u32, count: u32) {
        panic!("lost {count} from {first}");
    }
    fn end(&mut self, _: u32, _: EndReason) {}
}

/// (ns a message to send, ns a message to receive, datagrams a train)
fn lbtrm(datagram_max: usize, length: usize, window_size: usize, turns: usize) -> (f64, f64, f64) {
    let config = SenderConfig {
        datagram_max,
        window_size,
        batching_minimum_length: datagram_max,
        unsent_max: 16 << 20,
        ..SenderConfig::default()
    };
    let mut sender = Sender::new(FRAMING, config);
    let mut source = Source::new(1, SourceConfig::default());
    let mut receiver = Receiver::new(FRAMING, ReceiverConfig::default(), 0);
    let (mut session, mut sink) = (Session::new(), Count::default());
    session.add(1, 1, DeliveryConfig::default(), &mut sink);
    let payload = vec![7; length];
    let (mut slab, mut datagrams) = (Vec::new(), Vec::new());
    let (mut sending, mut receiving) = (Duration::ZERO, Duration::ZERO);
    let (mut trains, mut count) = (0u64, 0u64);
    let turn_messages = TURN / (length + 32);
    for turn in 0..turns {
        let now = turn as u64 * 1_000_000 + 1;
        let start = Instant::now();
        for _ in 0..turn_messages {
            source.send(now, &mut sender, black_box(&payload), false).expect("room");
        }
        sender.flush(now);
        sending += start.elapsed();

        slab.clear();
        datagrams.clear();
        let mut sent = 0;
        for train in sender.output(now).trains(65_000, 64) {
            trains += 1;
            sent += train.datagrams;
            for datagram in train.datagrams() {
                datagrams.push((slab.len(), datagram.len()));
                slab.extend_from_slice(datagram);
            }
        }
        count += u64::from(sent);
        let start = Instant::now();
        sender.sent(now, sent);
        sending += start.elapsed();

        let start = Instant::now();
        for (at, length) in &datagrams {
            let packet = Packet::decode(&slab[*at..at + length]).expect("our own");
            let received = Received::from_lbtrm(&packet).expect("data");
            receiver.receive(now, received, &mut session.dispatch(now, &mut sink));
        }
        receiving += start.elapsed();
    }
    let messages = (turns * turn_messages) as f64;
    assert_eq!(sink.messages, (turns * turn_messages) as u64);
    black_box(sink.bytes);
    (sending.as_nanos() as f64 / messages, receiving.as_nanos() as f64 / messages, count as f64 / trains as f64)
}

/// The ring's memory without other processes.
struct Memory {
    bytes: Vec<u8>,
    published: usize,
}

impl Room for Memory {
    fn room(&mut self, _want: usize) -> &mut [u8] {
        &mut self.bytes[self.published..]
    }

    fn publish(&mut self, bytes: usize) {
        self.published += bytes;
    }
}

/// ns a message through the shared-memory log, written and read in turns on one thread.
fn ipc(length: usize, turns: usize) -> f64 {
    let mut log = Log::new(8_192, 8_192, Pacing::Receiver);
    let mut memory = Memory { bytes: vec![0; 1 << 21], published: 0 };
    let mut reader = LogReader::new();
    let mut source = Source::new(1, SourceConfig::default());
    let (mut session, mut sink) = (Session::new(), Count::default());
    session.add(1, 1, DeliveryConfig::default(), &mut sink);
    let payload = vec![7; length];
    let start = Instant::now();
    for _ in 0..turns {
        let begin = if memory.published > 1 << 20 { 0 } else { memory.published };
        memory.published = begin;
        let mut writer = log.writer(&mut memory);
        for _ in 0..1024 {
            source.send(1, &mut writer, black_box(&payload), false).expect("room");
        }
        writer.flush(1);
        reader.read(&memory.bytes[begin..memory.published], &mut session.dispatch(1, &mut sink)).expect("our own");
    }
    assert_eq!(sink.messages, turns as u64 * 1024);
    start.elapsed().as_nanos() as f64 / (turns * 1024) as f64
}

fn main() {
    // `cargo test --benches` runs it once, small.
    let turns = if std::env::args().any(|a| a == "--bench") { 400 } else { 2 };
    println!(
        "{:>9} {:>8} {:>9} {:>12} {:>12} {:>16}",
        "datagram", "message", "window", "send ns", "receive ns", "datagrams/train"
    );
    for datagram in [1_408, 8_192] {
        for length in [64, 1_024] {
            for window in [1 << 20, 24 << 20] {
                let (send, receive, train) = lbtrm(datagram, length, window, turns);
                let window = window >> 20;
                println!("{datagram:>9} {length:>8} {window:>6} MB {send:>12.1} {receive:>12.1} {train:>16.1}");
            }
        }
    }
    println!("LBT-IPC, 64 bytes, written and read: {:.1} ns a message", ipc(64, turns * 8));
}
