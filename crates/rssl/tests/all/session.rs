//! Time, refusals and misuse: what a session does when nothing or the wrong thing comes.

use rssl::{ClientConfig, Closed, Connection, Fault, ServerConfig, Sink, Version, WriteError};

const SECOND: u64 = 1_000_000_000;

#[derive(Default)]
struct Counter {
    messages: usize,
    pings: usize,
}

impl Sink for Counter {
    fn message(&mut self, _: &[u8]) {
        self.messages += 1;
    }
    fn ping(&mut self) {
        self.pings += 1;
    }
}

fn connect(client: ClientConfig, server: ServerConfig, now: u64) -> (Connection, Connection) {
    let (mut client, mut server) = (Connection::client(client), Connection::server(server));
    let (mut a, mut b, mut sink) = (Vec::new(), Vec::new(), Counter::default());
    server.start(now, &mut b);
    client.start(now, &mut a);
    server.receive(now, &a, &mut b, &mut sink).unwrap();
    a.clear();
    client.receive(now, &b, &mut a, &mut sink).unwrap();
    server.receive(now, &a, &mut Vec::new(), &mut sink).unwrap();
    assert!(client.is_connected() && server.is_connected());
    (client, server)
}

#[test]
fn the_server_brings_the_ping_timeout_into_its_limits() {
    for (asked, agreed) in [(0, 20), (5, 20), (20, 20), (33, 33), (60, 60), (61, 60), (255, 60)] {
        let config = ClientConfig { ping_timeout_s: asked, ..ClientConfig::default() };
        let (client, server) = connect(config, ServerConfig::default(), 0);
        assert_eq!(client.negotiated().unwrap().ping_timeout_s, agreed);
        assert_eq!(server.negotiated().unwrap().ping_timeout_s, agreed);
    }
}

#[test]
fn the_lower_rwf_version_wins() {
    for (asked, agreed) in [((14, 0), (14, 0)), ((14, 7), (14, 1)), ((13, 9), (13, 9)), ((15, 0), (14, 1))] {
        let config = ClientConfig { major: asked.0, minor: asked.1, ..ClientConfig::default() };
        let (client, _) = connect(config, ServerConfig::default(), 0);
        let info = client.negotiated().unwrap();
        assert_eq!((info.major, info.minor), agreed);
    }
}

#[test]
fn pings_keep_an_idle_session_and_silence_ends_it() {
    let start = 1_000 * SECOND;
    let (mut client, mut server) = connect(ClientConfig::default(), ServerConfig::default(), start);
    let (mut to_server, mut to_client, mut sink) = (Vec::new(), Vec::new(), Counter::default());
    assert_eq!(client.timeout(), Some(start + 20 * SECOND));
    client.on_timer(start + 20 * SECOND - 1, &mut to_server).unwrap();
    assert!(to_server.is_empty(), "not due yet");

    let mut now = start;
    for round in 1..=10 {
        now = start + round * 20 * SECOND;
        client.on_timer(now, &mut to_server).unwrap();
        server.on_timer(now, &mut to_client).unwrap();
        assert_eq!((to_server.as_slice(), to_client.as_slice()), (&[0, 3, 2][..], &[0, 3, 2][..]));
        server.receive(now, &to_server, &mut Vec::new(), &mut sink).unwrap();
        client.receive(now, &to_client, &mut Vec::new(), &mut sink).unwrap();
        to_server.clear();
        to_client.clear();
    }
    assert_eq!((sink.pings, sink.messages), (20, 0));

    // Any bytes count as a sign of life, and any write as a ping.
    client.write(now + 15 * SECOND, b"message", &mut to_server).unwrap();
    assert_eq!(client.timeout(), Some(now + 35 * SECOND));
    server.receive(now + 15 * SECOND, &to_server[..1], &mut Vec::new(), &mut sink).unwrap();
    server.on_timer(now + 75 * SECOND - 1, &mut to_client).unwrap();
    let closed = server.on_timer(now + 75 * SECOND, &mut to_client).unwrap_err();
    assert_eq!(closed, Closed::PingTimeout { silent_ns: 60 * SECOND });
    assert_eq!(closed.fault(), Fault::Silence);
    assert_eq!(closed.to_string(), "nothing was received for 60 s: ping timeout");
    assert_eq!((server.timeout(), server.is_connected()), (None, false));
}

#[test]
fn pings_go_only_the_agreed_ways() {
    let one_way = ServerConfig { client_pings: false, ..ServerConfig::default() };
    let (client, server) = connect(ClientConfig::default(), one_way, 0);
    assert_eq!(client.timeout(), Some(60 * SECOND), "expects, does not send");
    assert_eq!(server.timeout(), Some(20 * SECOND), "sends, does not expect");
    let none = ServerConfig { client_pings: false, server_pings: false, ..ServerConfig::default() };
    let (mut client, server) = connect(ClientConfig::default(), none, 0);
    assert_eq!((client.timeout(), server.timeout()), (None, None));
    assert_eq!(client.on_timer(u64::MAX, &mut Vec::new()), Ok(()));
    let off = ServerConfig { ping_timeout_max_s: 0, ..ServerConfig::default() };
    let (client, server) = connect(ClientConfig::default(), off, 0);
    assert_eq!((client.timeout(), server.timeout()), (None, None));
}

#[test]
fn a_handshake_that_stalls_is_given_up() {
    let mut server = Connection::server(ServerConfig { handshake_timeout_ns: SECOND, ..ServerConfig::default() });
    server.start(5, &mut Vec::new());
    assert_eq!(server.timeout(), Some(SECOND + 5));
    assert_eq!(server.on_timer(SECOND, &mut Vec::new()), Ok(()));
    let closed = server.on_timer(SECOND + 5, &mut Vec::new()).unwrap_err();
    assert_eq!(closed, Closed::HandshakeTimeout { missing: "connect request", waited_ns: SECOND });

    let mut client = Connection::client(ClientConfig::default());
    let mut request = Vec::new();
    client.start(0, &mut request);
    let mut server = Connection::server(ServerConfig::default());
    server.start(0, &mut Vec::new());
    server.receive(0, &request, &mut Vec::new(), &mut Counter::default()).unwrap();
    assert!(!server.is_connected());
    let closed = server.on_timer(15 * SECOND, &mut Vec::new()).unwrap_err();
    assert!(matches!(closed, Closed::HandshakeTimeout { missing: "key of the client", .. }), "{closed}");
    let closed = client.on_timer(15 * SECOND, &mut Vec::new()).unwrap_err();
    assert!(matches!(closed, Closed::HandshakeTimeout { missing: "answer of the server", .. }), "{closed}");
}

#[test]
fn a_client_goes_down_to_the_version_that_the_server_knows() {
    let mut tried = Vec::new();
    let mut version = Some(Version::V14);
    while let Some(now_offering) = version {
        tried.push(now_offering);
        let mut client = Connection::client(ClientConfig { version: now_offering, ..ClientConfig::default() });
        let config = ServerConfig { versions: Version::V11..=Version::V12, ..ServerConfig::default() };
        let mut server = Connection::server(config);
        let (mut request, mut answer, mut sink) = (Vec::new(), Vec::new(), Counter::default());
        client.start(0, &mut request);
        match server.receive(0, &request, &mut answer, &mut sink) {
            Ok(()) => {
                client.receive(0, &answer, &mut request, &mut sink).unwrap();
                assert_eq!(client.negotiated().unwrap().version, Version::V12);
                assert_eq!(client.next_version(), None);
                break;
            }
            Err(closed) => {
                assert!(matches!(closed, Closed::UnknownVersion { .. }) && answer.is_empty());
                version = client.next_version();
            }
        }
    }
    assert_eq!(tried, [Version::V14, Version::V13, Version::V12]);
    assert_eq!(Version::V11.lower(), None);
}

#[test]
fn a_refusal_reaches_the_client_with_its_text() {
    let mut client = Connection::client(ClientConfig::default());
    let mut server = Connection::server(ServerConfig::default());
    server.refuse("Mount limit of 100 reached");
    let (mut request, mut answer) = (Vec::new(), Vec::new());
    client.start(0, &mut request);
    let closed = server.receive(0, &request, &mut answer, &mut Counter::default()).unwrap_err();
    let text = "Mount limit of 100 reached".to_owned();
    assert_eq!(closed, Closed::Refusing { text: text.clone() });
    let closed = client.receive(0, &answer, &mut request, &mut Counter::default()).unwrap_err();
    assert_eq!(closed, Closed::Refused { text });
    assert_eq!(client.next_version(), None, "a refusal is an answer");
    let again = client.receive(0, &answer, &mut request, &mut Counter::default());
    assert_eq!(again, Err(Closed::AlreadyClosed));
}

#[test]
fn other_protocols_on_the_port_are_noticed_at_their_first_bytes() {
    for greeting in [&b"GET /WebSocket HTTP/1.1\r\n"[..], b"\x16\x03\x01\x02\x00", b"\xff\xff"] {
        let mut server = Connection::server(ServerConfig::default());
        let closed = server.receive(0, greeting, &mut Vec::new(), &mut Counter::default()).unwrap_err();
        assert!(matches!(closed, Closed::Malformed { position: 0, .. }), "{closed}");
    }
}

#[test]
fn writing_needs_a_session_and_a_message() {
    let mut client = Connection::client(ClientConfig::default());
    let mut out = Vec::new();
    assert_eq!(client.write(0, b"early", &mut out), Err(WriteError::NotConnected));
    let mut packer = client.pack(0, &mut out);
    packer.push(b"early", None);
    assert_eq!(packer.finish(), Err(WriteError::NotConnected));
    assert!(out.is_empty());

    let (mut client, _) = connect(ClientConfig::default(), ServerConfig::default(), 0);
    assert_eq!(client.write(0, b"", &mut out), Err(WriteError::Empty));
    assert!(out.is_empty());
    let mut packer = client.pack(0, &mut out);
    packer.push(b"one", None);
    packer.push(b"", None);
    packer.push(b"two", None);
    assert_eq!(packer.finish(), Err(WriteError::Empty));
    assert_eq!(out, b"\x00\x0d\x12\x00\x03one\x00\x03two", "the others went out");
}

#[test]
fn packing_fills_frames_to_the_last_byte() {
    let config = ServerConfig { max_user_message_size: 500, ..ServerConfig::default() };
    let (_, mut server) = connect(ClientConfig::default(), config, 0);
    let mut out = Vec::new();
    let mut packer = server.pack(0, &mut out);
    packer.push(&[1; 30], None);
    packer.push(&[2; 30], None);
    packer.push(&[3; 434], None); // 2+30 + 2+30 + 2+434 = 500
    packer.push(&[4; 499], None); // with its length it would not fit: alone, as it is
    packer.push(&[5; 500], None);
    packer.push(&[6; 501], None); // fragments
    packer.push(&[7; 10], Some(-5));
    drop(packer); // closes the open frame
    let mut frames = Vec::new();
    let mut rest = out.as_slice();
    while let Ok(Some(length)) = rssl::frame::length(rest) {
        frames.push((length, rest[2]));
        rest = &rest[length..];
    }
    assert_eq!(frames, [(503, 0x12), (502, 0x02), (503, 0x02), (503, 0x03), (14, 0x03), (13, 0x02)]);
    assert_eq!(out[out.len() - 10..], [7, 7, 7, 7, 0xff, 0xff, 0xff, 0xfb, 7, 7]);
}

/// What the server of ETA C writes for version 14 without a key: the container of the component version is said to be a byte longer
/// (0x22) than the length byte and the text (0x20) that follow, and the frame ends with the text.
#[test]
fn a_server_of_eta_c_is_understood() {
    let mut answer = vec![0, 0, 0x01, 0x01, 10, 0, 0, 0, 0, 9, 0x17, 0xFE, 0x03, 60, 14, 1, 0, 0, 6];
    answer.extend_from_slice(b"\x22\x20eta3.2.2.2.linux.2 64-bit Static");
    answer[1] = answer.len() as u8;
    let config = ClientConfig { key_exchange: false, ..ClientConfig::default() };
    let (mut client, mut out) = (Connection::client(config), Vec::new());
    client.start(0, &mut out);
    client.receive(0, &answer, &mut out, &mut Counter::default()).unwrap();
    assert_eq!(client.negotiated().unwrap().peer_component, "eta3.2.2.2.linux.2 64-bit Static");
}

/// The whole answer with a key, in a frame of 0x50 bytes.
#[test]
fn a_server_of_eta_c_is_understood_with_a_key() {
    let mut answer = vec![0, 0, 0x01, 0x01, 10, 0, 0, 0, 0, 9, 0x17, 0xFE, 0x03, 60, 14, 1, 0, 0, 6];
    answer.extend_from_slice(&[0x08, 0x01, 0x18]);
    for value in [0x0DF8_81DE_DF73_E7AF_u64, 5, 77] {
        answer.extend_from_slice(&value.to_be_bytes());
    }
    answer.extend_from_slice(b"\x22\x20eta3.2.2.2.linux.2 64-bit Static");
    assert_eq!(answer.len(), 0x50);
    answer[1] = 0x50;
    let (mut client, mut out) = (Connection::client(ClientConfig::default()), Vec::new());
    client.start(0, &mut out);
    out.clear();
    client.receive(0, &answer, &mut out, &mut Counter::default()).unwrap();
    assert_eq!(client.negotiated().unwrap().peer_component, "eta3.2.2.2.linux.2 64-bit Static");
    assert_eq!(out[..4], [0, 12, 8, 8], "the client's key follows");
}

/// ETA takes each of these, so they are no reason to refuse a session.
#[test]
fn no_bound_of_an_answer_is_stricter_than_that_of_eta() {
    let fixed = [0, 0, 0x01, 0x01, 10, 0, 0, 0, 0, 9, 0x17, 0xFE, 0x03, 60, 14, 1, 0, 0, 6];
    for (tail, text) in [
        (&b""[..], ""),
        (b"\x00", ""),
        (b"\x00\x05ABCDE", ""),
        (b"\x09\x00", ""),
        (b"\x03\x05ABCDE", "ABCDE"),
        (b"\x40\x05ABCDE", "ABCDE"),
        (b"\x06\x40ABCDE", "ABCDE"),
        (b"\x09\x05ABCDEmore", "ABCDE"),
    ] {
        let mut answer = [&fixed[..], tail].concat();
        answer[1] = answer.len() as u8;
        let config = ClientConfig { key_exchange: false, ..ClientConfig::default() };
        let (mut client, mut out) = (Connection::client(config), Vec::new());
        client.start(0, &mut out);
        client.receive(0, &answer, &mut out, &mut Counter::default()).unwrap_or_else(|e| panic!("{tail:x?}: {e}"));
        assert_eq!(client.negotiated().unwrap().peer_component, text, "{tail:x?}");
    }

    // An answer of a lower version than was asked for sets the session's version.
    let mut answer = fixed[..19].to_vec();
    (answer[1], answer[9]) = (19, 8);
    let (mut client, mut out) = (Connection::client(ClientConfig::default()), Vec::new());
    client.start(0, &mut out);
    client.receive(0, &answer, &mut out, &mut Counter::default()).unwrap();
    assert_eq!(client.negotiated().unwrap().version, Version::V13);

    // A refusal without a text is one.
    let (mut client, mut out) = (Connection::client(ClientConfig::default()), Vec::new());
    client.start(0, &mut out);
    let refused = client.receive(0, &[0, 6, 1, 2, 8, 0], &mut out, &mut Counter::default());
    assert_eq!(refused, Err(Closed::Refused { text: String::new() }));
}
