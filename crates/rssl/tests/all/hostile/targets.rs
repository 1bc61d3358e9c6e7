// What the fuzz targets run, and the smoke test in `hostile.rs` with it: any bytes may come, and nothing may panic, hang or take
// memory that the bytes do not justify. Each function takes the fuzzer's bytes.

use rssl::{
    ClientConfig, Closed, Compression, CompressionSet, Connection, Direction, Event, Negotiated, ServerConfig, Sink,
    Tap, Version,
};

/// What a session handed on: enough to tell two runs apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest {
    messages: u64,
    bytes: u64,
    hash: u64,
    pings: u64,
    connected: u64,
}

impl Sink for Digest {
    fn connected(&mut self, _: &Negotiated) {
        self.connected += 1;
    }
    fn message(&mut self, msg: &[u8]) {
        assert!(!msg.is_empty(), "a message has bytes");
        self.messages += 1;
        self.bytes += msg.len() as u64;
        for byte in msg {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    fn ping(&mut self) {
        self.pings += 1;
    }
}

/// The session that the first byte of the input chooses: role, version, compression, handshake done or not.
pub(crate) fn session(choice: u8) -> Connection {
    let version = Version::ALL[usize::from(choice & 3)];
    let compression =
        [Compression::None, Compression::Zlib, Compression::Lz4, Compression::None][usize::from(choice >> 2 & 3)];
    let mut client = Connection::client(ClientConfig {
        version,
        compression: CompressionSet::ZLIB | CompressionSet::LZ4,
        key_exchange: choice & 0x10 != 0,
        reassembly_bytes_max: REASSEMBLY_BYTES_MAX,
        ..ClientConfig::default()
    });
    let mut server = Connection::server(ServerConfig {
        compression,
        max_user_message_size: 600,
        reassembly_bytes_max: REASSEMBLY_BYTES_MAX,
        ..ServerConfig::default()
    });
    let (mut to_server, mut to_client, mut sink) = (Vec::new(), Vec::new(), Digest::default());
    client.start(0, &mut to_server);
    server.start(0, &mut to_client);
    if choice & 0x20 != 0 {
        server.receive(0, &to_server, &mut to_client, &mut sink).expect("our own request");
        to_server.clear();
        client.receive(0, &to_client, &mut to_server, &mut sink).expect("our own answer");
        server.receive(0, &to_server, &mut to_client, &mut sink).expect("our own key");
    }
    if choice & 0x40 != 0 { client } else { server }
}

/// Received bytes: whole, and cut where the input says, they end the same way.
pub(crate) fn receive(data: &[u8]) {
    let [choice, step, bytes @ ..] = data else { return };
    let mut ends = Vec::new();
    for step in [usize::MAX, usize::from(*step) + 1] {
        let (mut session, mut digest, mut out) = (session(*choice), Digest::default(), Vec::new());
        let mut end: Result<(), Closed> = Ok(());
        for part in bytes.chunks(step) {
            end = session.receive(1, part, &mut out, &mut digest);
            if end.is_err() {
                break;
            }
        }
        let late = session.on_timer(u64::MAX, &mut out);
        assert!(late.is_err() || session.is_connected());
        ends.push((digest, end, out, session.orphaned_fragments()));
    }
    assert_eq!(ends[0], ends[1]);
}

/// A recording of both directions: 3 bytes say direction and length of each piece.
pub(crate) fn record(data: &[u8]) {
    let mut tap = Tap::new();
    let mut rest = data;
    while let [direction, high, low, bytes @ ..] = rest {
        let direction = if direction & 1 == 0 { Direction::ToServer } else { Direction::ToClient };
        let length = (usize::from(*high & 3) << 8 | usize::from(*low)).min(bytes.len());
        let shown = tap.feed(direction, &bytes[..length], |event| {
            if let Event::Frame { wire, .. } = event {
                assert!(wire.len() >= 3);
            }
        });
        if shown.is_err() {
            return;
        }
        rest = &bytes[length..];
    }
}

/// Messages written as the input says: what comes out is read back.
pub(crate) fn write(data: &[u8]) {
    let [choice, rest @ ..] = data else { return };
    // Role bits chosen below; the handshake is done.
    let (mut writer, mut reader) = (session(choice & !0x40 | 0x20), session(choice | 0x60));
    let (mut out, mut expected) = (Vec::new(), Digest::default());
    let mut rest = rest;
    while let [kind, high, low, bytes @ ..] = rest {
        let length = (usize::from(*high & 15) << 8 | usize::from(*low)).min(bytes.len());
        let (message, later) = bytes.split_at(length);
        if message.is_empty() {
            assert!(writer.write(0, message, &mut out).is_err());
        } else if kind & 1 == 0 {
            writer.write(0, message, &mut out).expect("a message");
            expected.message(message);
        } else {
            let mut packer = writer.pack(0, &mut out);
            for part in message.chunks(usize::from(kind >> 1) + 1) {
                packer.push(part, None);
                expected.message(part);
            }
            packer.finish().expect("messages");
        }
        rest = later;
    }
    let mut seen = Digest::default();
    reader.receive(0, &out, &mut Vec::new(), &mut seen).expect("our own bytes");
    assert_eq!(seen, expected);
}

/// Small, so that a test can tell an allocation by an announced length from one by received bytes.
pub(crate) const REASSEMBLY_BYTES_MAX: usize = 1 << 20;
