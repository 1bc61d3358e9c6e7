//! Recordings of real clients and servers, replayed.
//!
//! Fed with the bytes of one direction, however cut, a session in the place of the receiver must give exactly the messages that the
//! real one read; given the messages of its own direction, it must write exactly the frames that the real one wrote, except for what
//! is different in every run (key values, compressed bytes, the start of fragment ids) and the two differences that
//! `same_frames` names.
#![allow(clippy::disallowed_macros, reason = "prints what it checked")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use rssl::frame::{self, Kind};
use rssl::handshake::{Answer, ConnectAck, ConnectRequest};
use rssl::{
    ClientConfig, Closed, Compression, CompressionSet, Connection, Direction, Event, Negotiated, ServerConfig, Sink,
    Tap, Version,
};
use serde_json::Value;

#[test]
fn every_transcript_replays() {
    let mut files: Vec<_> = std::fs::read_dir(folder())
        .unwrap_or_else(|e| panic!("{}: {e}; set QUOTEWAY_VECTORS", folder().display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "json"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no transcripts in {}", folder().display());
    for path in &files {
        let text = std::fs::read_to_string(path).unwrap();
        let transcript = Transcript::read(&text);
        let mut count = Count::default();
        for number in transcript.connections() {
            let recording = transcript.connection(number);
            recording.replay_server(&mut count);
            recording.replay_client(&mut count);
            recording.replay_tap(&mut count);
        }
        println!("{}: {count:?}", transcript.name);
        assert!(count.frames > 0, "{}: nothing checked", transcript.name);
    }
    println!("{} transcripts", files.len());
}

fn folder() -> PathBuf {
    let vectors = std::env::var_os("QUOTEWAY_VECTORS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors"), PathBuf::from);
    vectors.join("rssl")
}

/// What was checked in one file.
#[derive(Debug, Default)]
struct Count {
    handshakes: usize,
    refusals: usize,
    silent_closes: usize,
    messages: usize,
    pings: usize,
    cuts: usize,
    /// Frames written exactly as recorded.
    frames: usize,
    /// Frames whose compressed bytes may differ: decompressed and compared.
    compressed: usize,
}

struct Transcript {
    name: String,
    frames: Vec<Recorded>,
    to_server: Vec<Vec<u8>>,
    to_client: Vec<Vec<u8>>,
    negotiated: Option<Value>,
}

#[derive(Clone)]
struct Recorded {
    connection: u64,
    direction: Direction,
    kind: String,
    wire: Vec<u8>,
}

impl Transcript {
    fn read(text: &str) -> Self {
        let json: Value = serde_json::from_str(text).unwrap();
        let messages = |name: &str| json[name].as_array().unwrap().iter().map(unhex).collect();
        let frames = json["frames"].as_array().unwrap().iter().filter(|f| f["kind"] != "end_of_stream");
        Self {
            name: json["name"].as_str().unwrap().to_owned(),
            frames: frames
                .map(|frame| Recorded {
                    connection: frame["conn"].as_u64().unwrap(),
                    direction: match frame["dir"].as_str() {
                        Some("C") => Direction::ToServer,
                        Some("S") => Direction::ToClient,
                        other => panic!("direction {other:?}"),
                    },
                    kind: frame["kind"].as_str().unwrap().to_owned(),
                    wire: unhex(&frame["wire"]),
                })
                .collect(),
            to_server: messages("messages_read_by_server"),
            to_client: messages("messages_read_by_client"),
            negotiated: json.get("negotiated").filter(|n| n.get("ping_timeout").is_some()).cloned(),
        }
    }

    fn connections(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.frames.iter().map(|f| f.connection).collect();
        numbers.dedup();
        numbers
    }

    fn connection(&self, number: u64) -> Recording<'_> {
        let frames: Vec<&Recorded> = self.frames.iter().filter(|f| f.connection == number).collect();
        let request = frames.iter().find(|f| f.kind == "connect_request").expect("a request");
        Recording {
            transcript: self,
            last: self.connections().last() == Some(&number),
            request: ConnectRequest::decode(&request.wire).expect("a good request"),
            answer: frames.iter().find(|f| f.kind == "connect_ack" || f.kind == "connect_nak").map(|f| {
                let offered = ConnectRequest::decode(&request.wire).unwrap().key_exchange;
                Answer::decode(&f.wire, offered).expect("a good answer")
            }),
            frames,
        }
    }
}

/// One TCP connection of a transcript.
struct Recording<'t> {
    transcript: &'t Transcript,
    last: bool,
    frames: Vec<&'t Recorded>,
    request: ConnectRequest<'t>,
    answer: Option<Answer<'t>>,
}

impl Recording<'_> {
    fn wire(&self, direction: Direction) -> Vec<u8> {
        self.frames.iter().filter(|f| f.direction == direction).flat_map(|f| f.wire.clone()).collect()
    }

    fn ack(&self) -> Option<ConnectAck<'_>> {
        match self.answer {
            Some(Answer::Ack(ack)) => Some(ack),
            _ => None,
        }
    }

    fn messages(&self, direction: Direction) -> &[Vec<u8>] {
        match direction {
            _ if !self.last => &[],
            Direction::ToServer => &self.transcript.to_server,
            Direction::ToClient => &self.transcript.to_client,
        }
    }

    /// A session with the real client.
    fn server(&self) -> Connection {
        let mut config = ServerConfig::default();
        match self.answer {
            Some(Answer::Ack(ack)) => {
                config.max_user_message_size = ack.max_user_message_size;
                config.client_pings = ack.client_pings;
                config.server_pings = ack.server_pings;
                config.force_compression = ack.forced;
                config.compression_level = ack.compression_level;
                config.component = String::from_utf8(ack.component.to_vec()).unwrap();
                config.key_exchange = !matches!(ack.key, Some(None));
                config.compression = ack.compression_type().unwrap();
                (config.ping_timeout_min_s, config.ping_timeout_max_s) = (ack.ping_timeout_s, ack.ping_timeout_s);
            }
            Some(Answer::Nak(_)) => {}
            None => config.versions = Version::V11..=self.request.version.lower().expect("a lower version"),
        }
        let mut server = Connection::server(config);
        if let Some(Answer::Nak(text)) = self.answer
            && self.request.protocol_type == 0
        {
            server.refuse(std::str::from_utf8(text).unwrap());
        }
        server
    }

    /// A session with the real server.
    fn client(&self) -> Connection {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Connection::client(ClientConfig {
            version: self.request.version,
            protocol_type: self.request.protocol_type,
            major: self.request.major,
            minor: self.request.minor,
            ping_timeout_s: self.request.ping_timeout_s,
            compression: self.request.compression,
            key_exchange: self.request.key_exchange,
            host: text(self.request.host),
            address: text(self.request.address),
            component: text(self.request.component),
            ..ClientConfig::default()
        })
    }

    fn replay_server(&self, count: &mut Count) {
        let wire = self.wire(Direction::ToServer);
        let (mut server, mut out, mut seen) = (self.server(), Vec::new(), Seen::default());
        server.start(0, &mut out);
        let result = server.receive(0, &wire, &mut out, &mut seen);
        match self.answer {
            Some(Answer::Ack(ack)) => {
                result.unwrap_or_else(|e| panic!("{}: server: {e}", self.transcript.name));
                count.handshakes += 1;
                if !is_hand_made(&ack) {
                    let recorded = self.frames.iter().find(|f| f.kind == "connect_ack").unwrap();
                    assert_eq!(without_keys(&out, &self.request), without_keys(&recorded.wire, &self.request));
                    count.frames += 1;
                }
            }
            Some(Answer::Nak(_)) => {
                assert!(matches!(result, Err(Closed::Refusing { .. } | Closed::ProtocolType { .. })), "{result:?}");
                assert_eq!(out, self.wire(Direction::ToClient));
                count.refusals += 1;
                count.frames += 1;
            }
            None => {
                let code = self.request.version.request_code();
                assert_eq!(result, Err(Closed::UnknownVersion { code }));
                assert!(out.is_empty());
                count.silent_closes += 1;
            }
        }
        self.check_seen(Direction::ToServer, &seen, count);
        if self.ack().is_some() {
            self.check_cuts(Direction::ToServer, &seen, count);
            self.check_frames(&mut server, Direction::ToClient, count);
        }
    }

    fn replay_client(&self, count: &mut Count) {
        let wire = self.wire(Direction::ToClient);
        let (mut client, mut out, mut seen) = (self.client(), Vec::new(), Seen::default());
        client.start(0, &mut out);
        let request = &self.frames.iter().find(|f| f.kind == "connect_request").unwrap().wire;
        // Hand-made requests leave things out that ours have.
        if names_the_sdk(request) {
            assert_eq!(out, *request);
            count.frames += 1;
        }
        out.clear();
        assert_eq!(client.next_version(), self.request.version.lower());
        let result = client.receive(0, &wire, &mut out, &mut seen);
        match self.answer {
            Some(Answer::Ack(ack)) => {
                result.unwrap_or_else(|e| panic!("{}: client: {e}", self.transcript.name));
                let recorded = self.frames.iter().find(|f| f.kind == "client_key").map_or(&[][..], |f| &f.wire);
                assert_eq!(out.len(), recorded.len());
                let same = if matches!(ack.key, Some(Some(_))) { 4 } else { out.len() };
                assert_eq!(out[..same], recorded[..same]);
                count.frames += usize::from(!recorded.is_empty());
            }
            Some(Answer::Nak(text)) => {
                let text = String::from_utf8(text.to_vec()).unwrap();
                assert_eq!(result, Err(Closed::Refused { text }));
                assert_eq!(client.next_version(), None);
            }
            None => assert_eq!(result, Ok(())),
        }
        self.check_seen(Direction::ToClient, &seen, count);
        if self.ack().is_some() {
            if let (true, Some(expected)) = (self.last, &self.transcript.negotiated) {
                check_negotiated(seen.connected.as_ref().unwrap(), expected);
            }
            self.check_cuts(Direction::ToClient, &seen, count);
            self.check_frames(&mut client, Direction::ToServer, count);
        }
    }

    fn check_seen(&self, direction: Direction, seen: &Seen, count: &mut Count) {
        let expected = self.messages(direction);
        assert_eq!(seen.messages.len(), expected.len(), "{}: messages {direction:?}", self.transcript.name);
        assert_eq!(seen.messages, expected, "{}: messages {direction:?}", self.transcript.name);
        count.messages += expected.len();
        let pings = self.frames.iter().filter(|f| f.direction == direction && f.kind == "ping").count();
        assert_eq!(seen.pings, pings as u64, "{}: pings", self.transcript.name);
        count.pings += pings;
    }

    /// The same bytes cut in two at every position, and byte by byte, give the same.
    fn check_cuts(&self, direction: Direction, whole: &Seen, count: &mut Count) {
        let wire = self.wire(direction);
        let receiver = || match direction {
            Direction::ToServer => self.server(),
            Direction::ToClient => self.client(),
        };
        for cut in 1..wire.len() {
            let (mut session, mut out, mut seen) = (receiver(), Vec::new(), Seen::default());
            session.start(0, &mut out);
            for part in [&wire[..cut], &wire[cut..]] {
                session.receive(0, part, &mut out, &mut seen).unwrap();
            }
            assert_eq!(&seen, whole, "{}: cut at {cut}", self.transcript.name);
        }
        let (mut session, mut out, mut seen) = (receiver(), Vec::new(), Seen::default());
        session.start(0, &mut out);
        for byte in &wire {
            session.receive(0, std::slice::from_ref(byte), &mut out, &mut seen).unwrap();
        }
        assert_eq!(&seen, whole, "{}: byte by byte", self.transcript.name);
        count.cuts += wire.len();
    }

    /// `session` has the handshake behind it: it writes what the recording has in its direction.
    fn check_frames(&self, session: &mut Connection, direction: Direction, count: &mut Count) {
        // Hand-made servers cut fragments where they like.
        if direction == Direction::ToClient && is_hand_made(&self.ack().unwrap()) {
            return;
        }
        let wide = self.request.version.wide_fragment_ids();
        let compression = self.ack().unwrap().compression_type().unwrap();
        let mut reader = Reader::new(wide, compression);
        let mut ours = Reader::new(wide, compression);
        for recorded in self.frames.iter().filter(|f| f.direction == direction) {
            if ["connect_request", "connect_ack", "client_key"].contains(&recorded.kind.as_str()) {
                continue;
            }
            let Some(batch) = reader.frame(&recorded.wire) else { continue };
            let mut out = Vec::new();
            match batch.messages.as_slice() {
                [] => {
                    let due = session.timeout().unwrap();
                    session.on_timer(due, &mut out).unwrap();
                }
                [message] if !batch.packed => session.write(0, message, &mut out).unwrap(),
                messages => {
                    let mut packer = session.pack(0, &mut out);
                    for message in messages {
                        packer.push(message, None);
                    }
                    assert_eq!(packer.finish(), Ok(messages.len()));
                }
            }
            let mut rest = out.as_slice();
            let mut written = None;
            while let Ok(Some(length)) = frame::length(rest) {
                assert!(written.is_none(), "{}: more frames than recorded", self.transcript.name);
                written = ours.frame(&rest[..length]);
                rest = &rest[length..];
            }
            let written = written.expect("whole messages");
            assert_eq!(written.messages, batch.messages);
            same_frames(&self.transcript.name, (compression, wide), &written, &batch, count);
        }
    }

    fn replay_tap(&self, count: &mut Count) {
        for step in [usize::MAX, 1] {
            let mut tap = Tap::new();
            let (mut to_server, mut to_client, mut frames) = (Vec::new(), Vec::new(), 0);
            for recorded in &self.frames {
                for part in recorded.wire.chunks(step) {
                    tap.feed(recorded.direction, part, |event| match event {
                        Event::Frame { wire, .. } => {
                            assert_eq!(wire, recorded.wire);
                            frames += 1;
                        }
                        Event::Message(message) if recorded.direction == Direction::ToServer => {
                            to_server.push(message.to_vec());
                        }
                        Event::Message(message) => to_client.push(message.to_vec()),
                        Event::Unreadable(what) => panic!("{}: {what}", self.transcript.name),
                        Event::ConnectRequest(request) => assert_eq!(request, self.request),
                        Event::ConnectAck(ack) => assert_eq!(Some(ack), self.ack()),
                        Event::ConnectNak(text) => assert_eq!(self.answer, Some(Answer::Nak(text))),
                        Event::Key(_) => assert_eq!(recorded.kind, "client_key"),
                        Event::Ping => assert_eq!(recorded.kind, "ping"),
                    })
                    .unwrap();
                }
            }
            assert_eq!(frames, self.frames.len());
            assert_eq!(to_server, self.messages(Direction::ToServer));
            assert_eq!(to_client, self.messages(Direction::ToClient));
        }
        count.frames += self.frames.len();
    }
}

/// What a session handed to its sink.
#[derive(Default, PartialEq, Debug)]
struct Seen {
    connected: Option<Negotiated>,
    messages: Vec<Vec<u8>>,
    pings: u64,
}

impl Sink for Seen {
    fn connected(&mut self, info: &Negotiated) {
        assert!(self.connected.is_none() && self.messages.is_empty(), "connected comes once and first");
        self.connected = Some(info.clone());
    }

    fn message(&mut self, msg: &[u8]) {
        assert!(self.connected.is_some(), "connected comes first");
        self.messages.push(msg.to_vec());
    }

    fn ping(&mut self) {
        self.pings += 1;
    }
}

fn check_negotiated(info: &Negotiated, expected: &Value) {
    let ours = serde_json::json!({
        "client_max_fragment_size": info.max_fragment_size(),
        "ping_timeout": info.ping_timeout_s,
        "compression_type": info.compression as u8,
        "client_to_server_pings": info.client_pings,
        "server_to_client_pings": info.server_pings,
        "major": info.major,
        "minor": info.minor,
    });
    for (name, value) in ours.as_object().unwrap() {
        assert_eq!(value, &expected[name], "{name}");
    }
}

/// The frames that carry one call's messages, and those messages.
struct Batch {
    frames: Vec<Vec<u8>>,
    messages: Vec<Vec<u8>>,
    packed: bool,
}

/// Groups frames into batches, by a session that reads along.
struct Reader {
    tap: Tap,
    wide: bool,
    /// By fragment id: recorded fragments interleave, ours do not.
    open: BTreeMap<u16, Vec<Vec<u8>>>,
    overflowing: Option<(Kind, Vec<u8>)>,
}

impl Reader {
    fn new(wide: bool, compression: Compression) -> Self {
        let mut tap = Tap::new();
        tap.assume(if wide { Version::V14 } else { Version::V12 }, compression);
        Self { tap, wide, open: BTreeMap::new(), overflowing: None }
    }

    /// The batch that this frame completes.
    fn frame(&mut self, wire: &[u8]) -> Option<Batch> {
        let parsed = frame::parse(wire, self.wide).unwrap();
        let mut messages = Vec::new();
        let mut ping = false;
        self.tap
            .feed(Direction::ToClient, wire, |event| match event {
                Event::Message(message) => messages.push(message.to_vec()),
                Event::Ping => ping = true,
                Event::Unreadable(what) => panic!("{what}"),
                _ => {}
            })
            .unwrap();
        let (kind, frames) = match self.overflowing.take() {
            Some((kind, first)) => (kind, vec![first, wire.to_vec()]),
            None if parsed.overflows => {
                self.overflowing = Some((parsed.kind, wire.to_vec()));
                return None;
            }
            None => (parsed.kind, vec![wire.to_vec()]),
        };
        let frames = match kind {
            Kind::FirstFragment { id, .. } | Kind::NextFragment { id } => {
                self.open.entry(id).or_default().extend(frames);
                if messages.is_empty() {
                    return None;
                }
                self.open.remove(&id).unwrap()
            }
            _ => frames,
        };
        assert!(ping || !messages.is_empty());
        Some(Batch { frames, messages, packed: kind == Kind::Packed })
    }
}

/// Compares frames byte by byte, or headers only where compressed.
///
/// Three differences are ours by choice: a message alone in a packed frame goes out as plain data; an LZ4 block that would be longer than
/// the payload goes out plain; and so does a message so long that its zlib form may not fit its frame. And recorded clients can ask for
/// plain frames, which this crate has no call for.
fn same_frames(
    name: &str,
    (compression, wide): (Compression, bool),
    ours: &Batch,
    recorded: &Batch,
    count: &mut Count,
) {
    let flags = |frame: &Vec<u8>| frame[2];
    if recorded.packed && recorded.messages.len() == 1 {
        assert_eq!(ours.frames.len(), 1);
        assert_eq!(flags(&ours.frames[0]), frame::flag::DATA);
        count.frames += 1;
        return;
    }
    let by_choice = compression != Compression::None
        && recorded.frames.iter().any(|f| {
            let parsed = frame::parse(f, true).unwrap();
            !parsed.compressed && parsed.payload.len() >= compression.default_threshold()
        });
    let overflow = recorded.frames.iter().any(|f| flags(f) & frame::flag::OVERFLOW != 0);
    let fragments = flags(&recorded.frames[0]) & frame::flag::EXTENDED != 0;
    if by_choice || (overflow && (compression == Compression::Lz4 || !fragments)) {
        count.compressed += recorded.frames.len();
        return;
    }
    assert_eq!(ours.frames.len(), recorded.frames.len(), "{name}");
    for (ours, recorded) in ours.frames.iter().zip(&recorded.frames) {
        assert_eq!(flags(ours), flags(recorded), "{name}");
        if flags(ours) & frame::flag::COMPRESSED != 0 {
            count.compressed += 1;
            continue;
        }
        let mut recorded = recorded.clone();
        // ETA counts fragment ids over all connections of the process.
        if flags(ours) & frame::flag::EXTENDED != 0 {
            let at = if ours[3] == frame::extended::FIRST_FRAGMENT { 8 } else { 4 };
            let id_size = 1 + usize::from(wide);
            recorded[at..at + id_size].copy_from_slice(&ours[at..at + id_size]);
        }
        assert_eq!(ours, &recorded, "{name}");
        count.frames += 1;
    }
}

/// A connect answer with the random part of its key block blanked: P and the public value.
fn without_keys(wire: &[u8], request: &ConnectRequest<'_>) -> Vec<u8> {
    let mut wire = wire.to_vec();
    if let Ok(Answer::Ack(ConnectAck { key: Some(Some(_)), .. })) = Answer::decode(&wire, request.key_exchange) {
        wire[22..30].fill(0);
        wire[38..46].fill(0);
    }
    wire
}

/// The SDK's clients name themselves.
fn names_the_sdk(request: &[u8]) -> bool {
    request.windows(3).any(|three| three == b"eta")
}

/// The SDK's servers name themselves where the version has room for it.
fn is_hand_made(ack: &ConnectAck<'_>) -> bool {
    ack.version.wide_fragment_ids() && ack.component.is_empty()
}

fn unhex(value: &Value) -> Vec<u8> {
    let text = value.as_str().expect("hex");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
}

#[test]
fn compression_sets_are_the_bitmap() {
    assert_eq!((CompressionSet::ZLIB | CompressionSet::LZ4).bits(), 3);
}
