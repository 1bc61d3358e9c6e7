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

/// What a JSON session handed on, and how it ended.
#[derive(Debug, Default, PartialEq, Eq)]
struct Texts {
    texts: Vec<String>,
    end: Option<rssl::ws::Closed>,
}

/// A JSON session through operations that the input says: frames come in, whole or as they are, messages are packed, time passes, the
/// session is closed. Whatever comes out is read by the other side, and the same input in other pieces gives the same texts.
pub(crate) fn websocket(data: &[u8]) {
    let [choice, step, operations @ ..] = data else { return };
    let whole = websocket_run(*choice, usize::MAX, operations);
    let pieces = websocket_run(*choice, usize::from(*step) + 1, operations);
    assert_eq!(whole, pieces);
}

fn websocket_run(choice: u8, step: usize, mut operations: &[u8]) -> Texts {
    use rssl::ws::{Json, JsonConfig, Limits, Role, Sink as WebSocketSink, Socket, frame};

    /// Reads what the session writes.
    struct Reader;
    impl WebSocketSink for Reader {
        fn text(&mut self, text: &str) {
            assert!(text.starts_with('[') && text.ends_with(']'), "what is sent is an array");
        }
        fn binary(&mut self, _: &[u8]) {
            panic!("no binary frame is sent");
        }
    }

    let (deflate, is_server) = (choice & 1 != 0, choice & 2 == 0);
    let limits = Limits { message_bytes_max: 1 << 16, frames_max: 16 };
    let (own, other) = if is_server { (Role::Server, Role::Client(3)) } else { (Role::Client(3), Role::Server) };
    let config = JsonConfig { frame_payload_max_bytes: 200, ..JsonConfig::default() };
    let mut session = Json::new(Socket::new(own, deflate, limits), config, 0);
    let mut reader = Socket::new(other, deflate, Limits { message_bytes_max: 1 << 20, frames_max: 1 << 16 });
    let (mut seen, mut now, mut is_read) = (Texts::default(), 0_u64, true);
    while let [operation, length, rest @ ..] = operations {
        let (bytes, later) = rest.split_at(usize::from(*length).min(rest.len()));
        operations = later;
        let mut out = Vec::new();
        let mut receive = |wire: &[u8], out: &mut Vec<u8>| {
            for piece in wire.chunks(step) {
                if seen.end.is_none() {
                    seen.end = session.receive(now, piece, out, |text| seen.texts.push(text.to_owned())).err();
                }
            }
        };
        match operation & 7 {
            0 => receive(bytes, &mut out),
            kind @ 1..=3 => {
                let op = match (kind, operation >> 4 & 3) {
                    (1, _) => frame::OpCode::Text,
                    (2, 0) => frame::OpCode::Ping,
                    (2, 1) => frame::OpCode::Pong,
                    (2, 2) => frame::OpCode::Close,
                    (2, _) => frame::OpCode::Binary,
                    _ => frame::OpCode::Continuation,
                };
                let mask = is_server.then_some([1, 2, 3, *length]);
                let mut wire = Vec::new();
                let payload = &bytes[..bytes.len().min(if kind == 2 { 125 } else { usize::MAX })];
                frame::write(&mut wire, op, operation & 0x40 == 0, operation & 0x80 != 0, mask, payload);
                receive(&wire, &mut out);
            }
            4 => {
                let text = format!("{{\"a\":{:?}}}", String::from_utf8_lossy(bytes));
                let mut packer = session.pack(now, &mut out);
                (0..=operation >> 4).for_each(|_| packer.push(&text));
                packer.finish();
            }
            5 => session.logged_in(),
            6 => {
                now += u64::from(*length) * 1_000_000_000;
                if seen.end.is_none() {
                    seen.end = session.on_timer(now, &mut out).err();
                }
            }
            _ => session.close(rssl::ws::code::NORMAL, "over", &mut out),
        }
        // Nothing is read behind a close.
        is_read = is_read && reader.receive(&out, &mut Vec::new(), &mut Reader).is_ok();
        if seen.end.is_some() {
            break;
        }
    }
    seen
}

/// Small, so that a test can tell an allocation by an announced length from one by received bytes.
pub(crate) const REASSEMBLY_BYTES_MAX: usize = 1 << 20;
