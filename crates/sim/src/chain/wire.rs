//! A connection as bytes: two real RSSL sessions, and what is on its way between them, which arrives in pieces.

use super::random::Random;
use rssl::{ClientConfig, Compression, CompressionSet, Connection, Negotiated, ServerConfig, Sink, Version};

/// One side's bytes on their way.
type Pipe = Vec<u8>;

/// A connection.
#[derive(Debug)]
pub(crate) struct Wire {
    client: Connection,
    server: Connection,
    up: Pipe,
    down: Pipe,
}

/// Messages that have arrived.
#[derive(Debug, Default)]
struct Arrived(Vec<Vec<u8>>);

impl Sink for Arrived {
    fn connected(&mut self, _: &Negotiated) {}

    fn message(&mut self, msg: &[u8]) {
        self.0.push(msg.to_vec());
    }
}

impl Wire {
    /// A connection whose handshake is done; version, compression and sizes are left to chance.
    pub(crate) fn new(now: u64, random: &mut Random) -> Self {
        let compression = match random.below(3) {
            0 => (CompressionSet::NONE, Compression::None),
            1 => (CompressionSet::ZLIB, Compression::Zlib),
            _ => (CompressionSet::LZ4, Compression::Lz4),
        };
        let seed = random.next();
        let mut wire = Self {
            client: Connection::client(ClientConfig {
                version: Version::ALL[random.below(4)],
                compression: compression.0,
                compression_threshold: Some(30 + random.below(300)),
                seed,
                ..ClientConfig::default()
            }),
            server: Connection::server(ServerConfig {
                compression: compression.1,
                compression_threshold: Some(30 + random.below(300)),
                max_user_message_size: 300 + random.below(6000) as u16,
                ..ServerConfig::default()
            })
            .with_seed(seed ^ 1),
            up: Vec::new(),
            down: Vec::new(),
        };
        wire.client.start(now, &mut wire.up);
        for _ in 0..6 {
            let nothing = wire.pump(now, true, random);
            assert!(nothing.0.is_empty() && nothing.1.is_empty(), "messages in a handshake");
        }
        assert!(wire.client.is_connected() && wire.server.is_connected(), "the handshake is over");
        wire
    }

    /// The client sends messages, one by one.
    pub(crate) fn client_sends(&mut self, now: u64, msg: &[u8]) {
        self.client.write(now, msg, &mut self.up).expect("a message that fits");
    }

    /// The server sends messages, packed.
    pub(crate) fn server_sends(&mut self, now: u64, messages: &[Vec<u8>]) {
        let mut packer = self.server.pack(now, &mut self.down);
        for msg in messages {
            packer.push(msg, rwf::peek::stream_id(msg));
        }
        packer.finish().expect("messages that fit");
    }

    /// Some bytes arrive, or all: the messages that are whole now at the server, and at the client.
    pub(crate) fn pump(&mut self, now: u64, all: bool, random: &mut Random) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let (mut at_server, mut at_client) = (Arrived::default(), Arrived::default());
        let Self { client, server, up, down } = self;
        arrive(now, (server, up, down), &mut at_server, all, random);
        arrive(now, (client, down, up), &mut at_client, all, random);
        (at_server.0, at_client.0)
    }

    /// Nothing is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.up.is_empty() && self.down.is_empty()
    }
}

/// Some of a session's input arrives, in pieces; what it answers goes to the output.
fn arrive(
    now: u64,
    (session, input, output): (&mut Connection, &mut Pipe, &mut Pipe),
    sink: &mut Arrived,
    all: bool,
    random: &mut Random,
) {
    if session.timeout().is_some_and(|at| at <= now) {
        session.on_timer(now, output).expect("a session that goes on");
    }
    let count = if all { input.len() } else { random.below(input.len() + 1) };
    let mut taken: Vec<u8> = input.drain(..count).collect();
    while !taken.is_empty() {
        let piece = if random.chance(50) { taken.len() } else { 1 + random.below(taken.len()) };
        let piece: Vec<u8> = taken.drain(..piece).collect();
        session.receive(now, &piece, output, sink).expect("a session that goes on");
    }
}
