//! WebSocket sessions: recordings of real clients and servers, round trips over any cut, and peers that break the rules.

use std::fmt::Write;
use std::path::PathBuf;

use proptest::prelude::*;
use rssl::ws::upgrade::{Offer, Protocol, Request};
use rssl::ws::{Closed, Json, JsonConfig, Limits, Role, Sink, Socket, code, frame, upgrade};
use rssl::{ClientConfig, Connection, ServerConfig};
use serde_json::Value;

#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    texts: Vec<String>,
    binaries: Vec<Vec<u8>>,
    /// Code and reason of the close.
    closed: Option<(u16, String)>,
}

impl Sink for Seen {
    fn text(&mut self, text: &str) {
        self.texts.push(text.to_owned());
    }
    fn binary(&mut self, bytes: &[u8]) {
        self.binaries.push(bytes.to_vec());
    }
}

#[derive(Default)]
struct Messages(Vec<Vec<u8>>);

impl rssl::Sink for Messages {
    fn message(&mut self, msg: &[u8]) {
        self.0.push(msg.to_vec());
    }
}

fn folder() -> PathBuf {
    let vectors = std::env::var_os("QUOTEWAY_VECTORS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors"), PathBuf::from);
    vectors.join("ws")
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex")).collect()
}

/// What one side sent: its HTTP part and its frames.
fn sent(recording: &Value, dir: &str) -> (Vec<u8>, Vec<u8>) {
    let (mut http, mut frames) = (Vec::new(), Vec::new());
    for frame in recording["frames"].as_array().expect("frames").iter().filter(|f| f["dir"] == dir) {
        let wire = hex(frame["wire"].as_str().unwrap_or(""));
        let is_http = frame["kind"].as_str().is_some_and(|kind| kind.starts_with("http"));
        if is_http { &mut http } else { &mut frames }.extend(wire);
    }
    (http, frames)
}

fn read_by(recording: &Value, side: &str) -> Vec<String> {
    recording[side].as_array().expect("messages").iter().map(|m| m.as_str().expect("text").to_owned()).collect()
}

/// Code and reason with which a side has closed the session, if it did.
fn closed_by(recording: &Value, dir: &str) -> Option<(u16, String)> {
    let frames = recording["frames"].as_array().expect("frames");
    let close = frames.iter().find(|frame| frame["dir"] == dir && frame["kind"] == "close")?;
    let code = close["close_code"].as_u64().map_or(code::NONE, |code| code as u16);
    Some((code, close["close_reason"].as_str().unwrap_or_default().to_owned()))
}

#[test]
fn every_recording_replays() {
    let mut files: Vec<_> = std::fs::read_dir(folder())
        .unwrap_or_else(|e| panic!("{}: {e}; set QUOTEWAY_VECTORS", folder().display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "json"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no recordings in {}", folder().display());
    for path in files {
        let recording: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let name = path.display().to_string();
        let protocol = replay_upgrade(&name, &recording);
        for (dir, role, side) in
            [("C", Role::Server, "messages_read_by_server"), ("S", Role::Client(1), "messages_read_by_client")]
        {
            let wire = sent(&recording, dir).1;
            for step in [1, 2, 7, 1000, usize::MAX] {
                let seen = receive(&name, role, &wire, step);
                let expected = read_by(&recording, side);
                assert_eq!(seen.closed, closed_by(&recording, dir), "{name} {side}");
                match protocol {
                    Some(Protocol::Rwf) => assert_eq!(rwf_messages(dir, &recording, &seen), expected, "{name} {side}"),
                    Some(_) => assert_eq!(seen.texts, expected, "{name} {side}"),
                    None => assert!(seen.texts.is_empty() && seen.binaries.is_empty(), "{name} {side}: {seen:?}"),
                }
            }
        }
    }
}

/// The request is understood as the recorded server did.
fn replay_upgrade(name: &str, recording: &Value) -> Option<Protocol> {
    let (request, _) = sent(recording, "C");
    let (answer, _) = sent(recording, "S");
    let answer = String::from_utf8(answer).unwrap();
    let deflates = answer.contains("permessage-deflate");
    // The recorded server answered with what it was set to.
    let chosen = answer.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Protocol: "));
    let protocols = chosen.and_then(Protocol::from_name).into_iter().collect();
    match upgrade::read(&request, &Offer { deflate: deflates, protocols, ..Offer::default() }) {
        Request::Upgrade(upgrade, length) => {
            assert_eq!(length, request.len(), "{name}");
            assert!(answer.starts_with("HTTP/1.1 101 "), "{name}: {answer}");
            let mut own = Vec::new();
            upgrade.answer(&mut own);
            let own = String::from_utf8(own).unwrap();
            for line in answer.split("\r\n").filter(|l| l.starts_with("Sec-WebSocket") && !l.contains("Extensions")) {
                assert!(own.contains(line), "{name}: {line} in {own}");
            }
            if upgrade.protocol.is_json() {
                assert_eq!(upgrade.deflate, deflates, "{name}");
            }
            let asked = String::from_utf8_lossy(&request);
            let offered = asked.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Protocol: ")).unwrap_or("");
            if let Request::Upgrade(first, _) = upgrade::read(&request, &Offer::default()) {
                let expected = offered.split(',').find_map(|name| Protocol::from_name(name.trim()));
                assert_eq!(Some(first.protocol), expected, "{name}: the first of the client's list");
            }
            Some(upgrade.protocol)
        }
        Request::Refused(refusal) => {
            assert!(answer.starts_with(&format!("HTTP/1.1 {} ", refusal.status)), "{name}: {answer}");
            None
        }
        Request::Incomplete => panic!("{name}: the request is whole"),
    }
}

fn receive(name: &str, role: Role, wire: &[u8], step: usize) -> Seen {
    let (mut socket, mut seen, mut out) = (Socket::new(role, true, Limits::default()), Seen::default(), Vec::new());
    for piece in wire.chunks(step.min(wire.len().max(1))) {
        match socket.receive(piece, &mut out, &mut seen) {
            Ok(()) => {}
            Err(Closed::Peer { code, reason }) => {
                seen.closed = Some((code, reason));
                break;
            }
            Err(other) => panic!("{name}: {other}"),
        }
    }
    seen
}

/// The RSSL frames of binary frames, read by a session in the place of the recorded receiver, as hex.
fn rwf_messages(dir: &str, recording: &Value, seen: &Seen) -> Vec<String> {
    let (mut out, mut messages) = (Vec::new(), Messages::default());
    let request = &receive("request", Role::Server, &sent(recording, "C").1, usize::MAX).binaries[0];
    let request = rssl::handshake::ConnectRequest::decode(request).unwrap();
    let mut session = if dir == "C" {
        // The recorded server answered with what it was set to.
        let answer = &receive("answer", Role::Client(1), &sent(recording, "S").1, usize::MAX).binaries[0];
        let compression = match rssl::handshake::Answer::decode(answer, request.key_exchange).unwrap() {
            rssl::handshake::Answer::Ack(ack) => ack.compression_type().unwrap(),
            rssl::handshake::Answer::Nak(_) => rssl::Compression::None,
        };
        Connection::server(ServerConfig { compression, ..ServerConfig::default() })
    } else {
        Connection::client(ClientConfig {
            key_exchange: request.key_exchange,
            compression: request.compression,
            ..ClientConfig::default()
        })
    };
    session.start(0, &mut out);
    for frame in &seen.binaries {
        session.receive(0, frame, &mut out, &mut messages).unwrap();
    }
    let hex = |message: &Vec<u8>| {
        message.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    };
    messages.0.iter().map(hex).collect()
}

fn json(role: Role, deflate: bool, payload_max: usize) -> Json {
    let socket = Socket::new(role, deflate, Limits { message_bytes_max: 8 << 20, ..Limits::default() });
    Json::new(socket, JsonConfig { frame_payload_max_bytes: payload_max, ..JsonConfig::default() }, 0)
}

/// A session that sends each message in a frame of its own.
fn singly(role: Role, deflate: bool, payload_max: usize) -> Json {
    let socket = Socket::new(role, deflate, Limits::default());
    let config =
        JsonConfig { frame_payload_max_bytes: payload_max, one_message_a_frame: true, ..JsonConfig::default() };
    Json::new(socket, config, 0)
}

proptest! {
    /// Messages that one side packs the other reads, in order, over any cut, with and without compression, masked or not, alone or with others.
    #[test]
    fn messages_arrive_as_they_were_packed(
        texts in proptest::collection::vec("[a-z\u{e9}\u{20ac}]{0,400}", 1..20),
        deflate: bool,
        from_client: bool,
        alone: bool,
        step in 1_usize..300,
    ) {
        let (a, b) = if from_client { (Role::Client(9), Role::Server) } else { (Role::Server, Role::Client(9)) };
        let sender = if alone { singly } else { json };
        let (mut sender, mut receiver) = (sender(a, deflate, 300), json(b, deflate, 300));
        let messages: Vec<String> = texts.iter().map(|t| format!("{{\"ID\":1,\"T\":\"{t}\"}}")).collect();
        let mut wire = Vec::new();
        let mut packer = sender.pack(5, &mut wire);
        for message in &messages {
            let (own, shared) = message.split_at(7);
            packer.push_parts(own.as_bytes(), shared.as_bytes());
        }
        packer.finish();
        let (mut seen, mut out) = (Vec::new(), Vec::new());
        for piece in wire.chunks(step) {
            receiver.receive(6, piece, &mut out, |text| {
                let Ok(Value::Array(array)) = serde_json::from_str(text) else { panic!("no array: {text}") };
                assert!(!alone || array.len() == 1, "{text}");
                seen.extend(array.into_iter().map(|v| v["T"].as_str().unwrap().to_owned()));
            }).unwrap();
        }
        prop_assert_eq!(seen, texts);
        prop_assert!(out.is_empty());
    }

    /// Whatever comes, there is a typed end and never a panic.
    #[test]
    fn junk_ends_in_a_typed_error(bytes in proptest::collection::vec(any::<u8>(), 0..600), step in 1_usize..99) {
        for (role, deflate) in [(Role::Server, true), (Role::Client(3), false)] {
            let mut socket = Socket::new(role, deflate, Limits { message_bytes_max: 10_000, frames_max: 10 });
            let (mut out, mut seen) = (Vec::new(), Seen::default());
            for piece in bytes.chunks(step) {
                if socket.receive(piece, &mut out, &mut seen).is_err() {
                    break;
                }
            }
        }
        let _ = upgrade::read(&bytes, &Offer::default());
    }
}

/// Frames of a message that one frame could hold are no longer than the bound, and the last says so.
#[test]
fn a_large_message_is_cut_between_characters() {
    let mut sender = json(Role::Server, false, 1000);
    let text = format!("{{\"ID\":1,\"T\":\"{}\"}}", "\u{20ac}".repeat(1500));
    let mut wire = Vec::new();
    let mut packer = sender.pack(0, &mut wire);
    packer.push(&text);
    packer.finish();
    let (mut rest, mut fins, mut whole) = (&wire[..], Vec::new(), Vec::new());
    while let Some(header) = frame::Header::parse(rest).unwrap() {
        let end = header.length + header.payload as usize;
        let payload = &rest[header.length..end];
        assert!(payload.len() <= 1000 && std::str::from_utf8(payload).is_ok());
        whole.extend_from_slice(payload);
        fins.push(header.fin);
        rest = &rest[end..];
    }
    assert_eq!(String::from_utf8(whole).unwrap(), format!("[{text}]"));
    assert_eq!(fins, [false, false, false, false, true]);
}

/// ETA takes no frame that is larger than its input buffer, compressed or not.
#[test]
fn a_large_message_is_cut_when_compressed_too() {
    let mut sender = json(Role::Server, true, 1000);
    let mut digits = 1_u64;
    let mut noise = || {
        digits = digits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{digits:x}")
    };
    let text = format!("{{\"ID\":1,\"T\":\"{}\"}}", (0..1000).map(|_| noise()).collect::<String>());
    let mut wire = Vec::new();
    let mut packer = sender.pack(0, &mut wire);
    packer.push(&text);
    packer.push("{}");
    packer.finish();
    let (mut rest, mut seen) = (&wire[..], Vec::new());
    while let Some(header) = frame::Header::parse(rest).unwrap() {
        assert!(header.payload <= 1000);
        seen.push((header.op, header.fin, header.compressed));
        rest = &rest[header.length + header.payload as usize..];
    }
    use frame::OpCode::{Continuation, Text};
    assert!(seen.len() > 6, "{seen:?}");
    assert_eq!((seen[0], seen[1]), ((Text, false, true), (Continuation, false, false)));
    assert_eq!(seen[seen.len() - 2..], [(Continuation, true, false), (Text, true, true)]);
    let (mut receiver, mut texts) = (json(Role::Client(9), true, 300), Vec::new());
    receiver.receive(0, &wire, &mut Vec::new(), |text| texts.push(text.to_owned())).unwrap();
    assert_eq!(texts, [format!("[{text}]"), "[{}]".to_owned()]);
}

#[test]
fn peers_that_break_the_rules_are_told_so() {
    let masked = |op, fin, payload: &[u8]| {
        let mut out = Vec::new();
        frame::write(&mut out, op, fin, false, Some([1, 2, 3, 4]), payload);
        out
    };
    use frame::OpCode::{Close, Continuation, Text};
    let cases = [
        (vec![0x81, 2, b'h', b'i'], code::PROTOCOL),
        (masked(Text, true, &[0xFF, 0xFE]), code::NOT_UTF8),
        (masked(Continuation, true, b"x"), code::PROTOCOL),
        ([masked(Text, false, b"x"), masked(Text, true, b"x")].concat(), code::PROTOCOL),
        (masked(Close, true, b"x"), code::PROTOCOL),
        (masked(Text, true, &[b'x'; 200]), code::TOO_BIG),
        (
            std::iter::repeat_n(masked(Text, false, b""), 1)
                .chain((0..9).map(|_| masked(Continuation, false, b"")))
                .flatten()
                .collect(),
            code::TOO_BIG,
        ),
    ];
    for (wire, expected) in cases {
        let mut socket = Socket::new(Role::Server, false, Limits { message_bytes_max: 100, frames_max: 5 });
        let (mut out, mut seen) = (Vec::new(), Seen::default());
        let result = socket.receive(&wire, &mut out, &mut seen);
        assert!(matches!(result, Err(Closed::Malformed { code, .. }) if code == expected), "{wire:x?}: {result:?}");
        assert_eq!((out[0], &out[2..4]), (0x88, &expected.to_be_bytes()[..]));
        assert_eq!(socket.receive(&[], &mut out, &mut seen), Err(Closed::AlreadyClosed));
    }
}

/// EMA Java as a provider whose buffers run out in the midst of its dictionary: a status in place of the rest, and then images.
#[test]
fn a_server_may_leave_a_message_unfinished() {
    use frame::OpCode::{Continuation, Text};
    let mut wire = Vec::new();
    for (op, fin, text) in [
        (Text, false, "[{"),
        (Text, true, r#"[{"Type":"Ping"}]"#),
        (Continuation, false, "\"ID\":5"),
        (Continuation, true, "}]"),
    ] {
        frame::write(&mut wire, op, fin, false, None, text.as_bytes());
    }
    for step in 1..wire.len() {
        let (mut socket, mut seen) = (Socket::new(Role::Client(3), false, Limits::default()), Seen::default());
        for piece in wire.chunks(step) {
            socket.receive(piece, &mut Vec::new(), &mut seen).unwrap();
        }
        assert_eq!(seen.texts, [r#"[{"Type":"Ping"}]"#, r#"[{"ID":5}]"#]);
    }
    // The next long one takes the place of one that was given up.
    let (mut socket, mut seen, mut wire) =
        (Socket::new(Role::Client(3), false, Limits::default()), Seen::default(), Vec::new());
    for (op, fin, text) in [(Text, false, "[{"), (Text, true, "[1]"), (Text, false, "[2,"), (Continuation, true, "3]")]
    {
        frame::write(&mut wire, op, fin, false, None, text.as_bytes());
    }
    socket.receive(&wire, &mut Vec::new(), &mut seen).unwrap();
    assert_eq!(seen.texts, ["[1]", "[2,3]"]);
}

#[test]
fn pings_and_closes_are_answered() {
    let (mut client, mut server) =
        (Socket::new(Role::Client(5), false, Limits::default()), Socket::new(Role::Server, false, Limits::default()));
    let (mut wire, mut back, mut seen) = (Vec::new(), Vec::new(), Seen::default());
    let mask = client.mask();
    frame::write(&mut wire, frame::OpCode::Ping, true, false, mask, b"42");
    client.close(code::NORMAL, "done", &mut wire);
    let closed = server.receive(&wire, &mut back, &mut seen);
    assert_eq!(closed, Err(Closed::Peer { code: code::NORMAL, reason: "done".to_owned() }));
    assert_eq!(back, [0x8A, 2, b'4', b'2', 0x88, 2, 0x03, 0xE8]);
    let closed = client.receive(&back, &mut wire, &mut seen);
    assert_eq!(closed, Err(Closed::Peer { code: code::NORMAL, reason: String::new() }));
}

#[test]
fn an_idle_session_is_pinged_after_its_login_and_a_silent_one_ends() {
    const SECOND: u64 = 1_000_000_000;
    let mut server = json(Role::Server, false, 1000);
    let mut out = Vec::new();
    server.on_timer(15 * SECOND, &mut out).unwrap();
    assert!(out.is_empty(), "the first frame must be the answer to the login");
    server.logged_in();
    assert_eq!(server.timeout(), 10 * SECOND);
    server.on_timer(15 * SECOND, &mut out).unwrap();
    assert_eq!(&out[2..], br#"[{"Type":"Ping"}]"#);
    out.clear();
    assert_eq!(server.timeout(), 25 * SECOND);
    // Its own sending does not keep a session from asking whether the peer is there.
    for second in 16..30 {
        let mut packer = server.pack(second * SECOND, &mut out);
        packer.push("{}");
        packer.finish();
        out.clear();
        server.on_timer(second * SECOND, &mut out).unwrap();
        assert_eq!(!out.is_empty(), second == 25, "{second}");
        out.clear();
    }
    let closed = server.on_timer(30 * SECOND, &mut out);
    assert_eq!(closed, Err(Closed::PingTimeout { silent_ns: 30 * SECOND }));
    assert_eq!(out[0], 0x88);
}

#[test]
fn rssl_frames_go_one_in_a_frame() {
    let mut client = Connection::client(ClientConfig::default());
    let mut server = Connection::server(ServerConfig::default());
    let (mut a, mut b) =
        (Socket::new(Role::Client(1), false, Limits::default()), Socket::new(Role::Server, false, Limits::default()));
    let (mut plain, mut wire, mut at_client, mut at_server) =
        (Vec::new(), Vec::new(), Messages::default(), Messages::default());
    server.start(0, &mut plain);
    client.start(0, &mut plain);
    for _ in 0..2 {
        a.wrap_rssl(&std::mem::take(&mut plain), &mut wire);
        let mut seen = Seen::default();
        b.receive(&std::mem::take(&mut wire), &mut Vec::new(), &mut seen).unwrap();
        for frame in seen.binaries {
            server.receive(0, &frame, &mut plain, &mut at_server).unwrap();
        }
        b.wrap_rssl(&std::mem::take(&mut plain), &mut wire);
        let mut seen = Seen::default();
        a.receive(&std::mem::take(&mut wire), &mut Vec::new(), &mut seen).unwrap();
        for frame in seen.binaries {
            client.receive(0, &frame, &mut plain, &mut at_client).unwrap();
        }
    }
    assert!(client.is_connected() && server.is_connected());
    server.write(0, &vec![7; 20_000], &mut plain).unwrap();
    server.write(0, &[8; 20], &mut plain).unwrap();
    b.wrap_rssl(&plain, &mut wire);
    let mut seen = Seen::default();
    a.receive(&wire, &mut Vec::new(), &mut seen).unwrap();
    assert_eq!(seen.binaries.len(), 5);
    for frame in seen.binaries {
        client.receive(0, &frame, &mut Vec::new(), &mut at_client).unwrap();
    }
    assert_eq!(at_client.0, [vec![7; 20_000], vec![8; 20]]);
}
