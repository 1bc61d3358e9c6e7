//! A connection as bytes: two real RSSL sessions, some of them within WebSocket, and what is on its way between them, which arrives in
//! pieces.

use super::random::Random;
use rssl::ws::{Limits, Role, Sink as FrameSink, Socket};
use rssl::{ClientConfig, Compression, CompressionSet, Connection, Negotiated, ServerConfig, Sink, Version};

/// One side's bytes on their way.
type Pipe = Vec<u8>;

/// One side: its session, and the WebSocket around it where there is one.
#[derive(Debug)]
struct End {
    session: Connection,
    socket: Option<Socket>,
}

/// RSSL out of the frames of a WebSocket session.
struct Frames<'a> {
    session: &'a mut Connection,
    now: u64,
    answer: Vec<u8>,
    sink: &'a mut Arrived,
}

impl FrameSink for Frames<'_> {
    fn text(&mut self, text: &str) {
        panic!("text {text:?} in a session of RSSL");
    }

    fn binary(&mut self, bytes: &[u8]) {
        self.session.receive(self.now, bytes, &mut self.answer, self.sink).expect("a session that goes on");
    }
}

impl End {
    /// Frames go on their way.
    fn put(&mut self, frames: &[u8], output: &mut Pipe) {
        match &mut self.socket {
            None => output.extend_from_slice(frames),
            Some(socket) => socket.wrap_rssl(frames, output),
        }
    }

    /// Bytes arrive; what is answered goes to the output.
    fn take(&mut self, now: u64, bytes: &[u8], output: &mut Pipe, sink: &mut Arrived) {
        let Self { session, socket } = self;
        let Some(socket) = socket else {
            return session.receive(now, bytes, output, sink).expect("a session that goes on");
        };
        let mut frames = Frames { session, now, answer: Vec::new(), sink };
        socket.receive(bytes, output, &mut frames).expect("a session that goes on");
        let answer = frames.answer;
        socket.wrap_rssl(&answer, output);
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Wire {
    client: End,
    server: End,
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
        let in_websocket = random.chance(40);
        let socket = |role| in_websocket.then(|| Socket::new(role, false, Limits::default()));
        let client = Connection::client(ClientConfig {
            version: Version::ALL[random.below(4)],
            compression: compression.0,
            compression_threshold: Some(30 + random.below(300)),
            seed,
            ..ClientConfig::default()
        });
        let server = Connection::server(ServerConfig {
            compression: compression.1,
            compression_threshold: Some(30 + random.below(300)),
            max_user_message_size: 300 + random.below(6000) as u16,
            ..ServerConfig::default()
        });
        let mut wire = Self {
            client: End { session: client, socket: socket(Role::Client(seed)) },
            server: End { session: server.with_seed(seed ^ 1), socket: socket(Role::Server) },
            up: Vec::new(),
            down: Vec::new(),
        };
        let mut request = Vec::new();
        wire.client.session.start(now, &mut request);
        wire.client.put(&request, &mut wire.up);
        for _ in 0..6 {
            let nothing = wire.pump(now, true, random);
            assert!(nothing.0.is_empty() && nothing.1.is_empty(), "messages in a handshake");
        }
        assert!(wire.client.session.is_connected() && wire.server.session.is_connected(), "the handshake is over");
        wire
    }

    /// The client sends messages, one by one.
    pub(crate) fn client_sends(&mut self, now: u64, msg: &[u8]) {
        let mut frames = Vec::new();
        self.client.session.write(now, msg, &mut frames).expect("a message that fits");
        self.client.put(&frames, &mut self.up);
    }

    /// The server sends messages, packed.
    pub(crate) fn server_sends(&mut self, now: u64, messages: &[Vec<u8>]) {
        let mut frames = Vec::new();
        let mut packer = self.server.session.pack(now, &mut frames);
        for msg in messages {
            packer.push(msg, rwf::peek::stream_id(msg));
        }
        packer.finish().expect("messages that fit");
        self.server.put(&frames, &mut self.down);
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
    (end, input, output): (&mut End, &mut Pipe, &mut Pipe),
    sink: &mut Arrived,
    all: bool,
    random: &mut Random,
) {
    if end.session.timeout().is_some_and(|at| at <= now) {
        let mut frames = Vec::new();
        end.session.on_timer(now, &mut frames).expect("a session that goes on");
        end.put(&frames, output);
    }
    let count = if all { input.len() } else { random.below(input.len() + 1) };
    let mut taken: Vec<u8> = input.drain(..count).collect();
    while !taken.is_empty() {
        let piece = if random.chance(50) { taken.len() } else { 1 + random.below(taken.len()) };
        let piece: Vec<u8> = taken.drain(..piece).collect();
        end.take(now, &piece, output, sink);
    }
}
