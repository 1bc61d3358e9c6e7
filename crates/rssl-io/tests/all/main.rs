//! One port, every protocol: what the first bytes of a connection lead to.

mod http_tunnel;
mod proxy;
mod strangers;
mod versions;

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use net::tcp::{ConnId, SocketOptions};
use net::tls::{TlsClient, TlsServer};
use rssl::ws::upgrade::{Ask, Protocol};
use rssl::ws::{self, Limits, Role, Socket, frame};
use rssl::{ClientConfig, ServerConfig};
use rssl_io::{Encryption, Ended, Handler, Listener, Opened, RsslIo, WebSocket, WebSocketDial, admission};

/// Events of the server's side, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Opened(String),
    Message(Vec<u8>),
    Text(String),
    Closed { established: bool, why: String },
}

#[derive(Default)]
struct Recorder {
    seen: VecDeque<Seen>,
    conns: Vec<ConnId>,
    /// Nobody has logged in.
    knows_nobody: bool,
    /// The most bytes that were told to wait.
    told: usize,
    /// The next offer, of each that has ended.
    next_versions: Vec<Option<rssl::Version>>,
}

impl Handler for Recorder {
    fn opened(&mut self, _: u64, conn: ConnId, opened: &Opened<'_>) {
        self.conns.push(conn);
        self.seen.push_back(Seen::Opened(opened.spoken.to_string()));
    }
    fn message(&mut self, _: u64, _: ConnId, msg: &[u8]) {
        self.seen.push_back(Seen::Message(msg.to_vec()));
    }
    fn text(&mut self, _: u64, _: ConnId, text: &str) {
        self.seen.push_back(Seen::Text(text.to_owned()));
    }
    fn is_known(&self, _: ConnId) -> bool {
        !self.knows_nobody
    }
    fn waits(&mut self, _: u64, _: ConnId, bytes: usize) {
        self.told = self.told.max(bytes);
    }
    fn closed(&mut self, _: u64, _: ConnId, ended: &Ended) {
        self.next_versions.push(ended.next_version);
        self.seen.push_back(Seen::Closed { established: ended.established, why: ended.why.to_string() });
    }
}

struct Server {
    io: RsslIo,
    recorder: Recorder,
    addr: SocketAddr,
}

impl Server {
    fn new(change: impl FnOnce(&mut Listener)) -> Self {
        let mut io = RsslIo::new(1).expect("descriptors");
        let mut listener = Listener::rssl(Arc::new(ServerConfig::default()));
        listener.websocket = Some(Arc::new(WebSocket::default()));
        change(&mut listener);
        let (_, addr) = io.listen_as(([127, 0, 0, 1], 0).into(), &SocketOptions::default(), listener).expect("a port");
        Self { io, recorder: Recorder::default(), addr }
    }

    /// Turns until something is seen.
    fn next(&mut self) -> Seen {
        let end = net::clock::now() + 20_000_000_000;
        loop {
            if let Some(seen) = self.recorder.seen.pop_front() {
                return seen;
            }
            let now = self.io.turn(Some(end), &mut self.recorder).expect("sockets");
            assert!(now < end, "nothing came for 20 s");
        }
    }

    fn client(&self) -> TcpStream {
        let client = TcpStream::connect(self.addr).expect("a connection");
        client.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        client
    }
}

fn ask(protocol: Protocol) -> Ask {
    Ask { host: "localhost".to_owned(), protocols: vec![protocol], nonce: [3; 16] }
}

fn text_frame(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write(&mut out, frame::OpCode::Text, true, false, Some([1, 2, 3, 4]), text.as_bytes());
    out
}

/// Everything that comes until the server closes.
fn read_all(mut client: TcpStream) -> String {
    let mut text = Vec::new();
    let _ = client.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn a_plain_http_request_is_told_what_the_port_is() {
    let mut server = Server::new(|_| {});
    for (request, status) in [("GET / HTTP/1.1\r\nHost: h\r\n\r\n", "404"), ("POST /WebSocket HTTP/1.1\r\n\r\n", "405")]
    {
        let mut client = server.client();
        client.write_all(request.as_bytes()).unwrap();
        let Seen::Closed { established: false, why } = server.next() else { panic!() };
        assert!(why.contains(&format!("HTTP request answered with {status}")), "{why}");
        let answer = read_all(client);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    let mut rssl_only = Server::new(|listener| listener.websocket = None);
    let mut client = rssl_only.client();
    client.write_all(b"GET /WebSocket HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert!(matches!(rssl_only.next(), Seen::Closed { established: false, .. }));
    assert!(read_all(client).starts_with("HTTP/1.1 400 "));
}

#[test]
fn junk_is_closed_with_a_reason() {
    let mut server = Server::new(|_| {});
    for junk in [&b"\x80\x00\x00\x01junk"[..], b"hello\r\n", &[0x16, 3, 1, 0, 200]] {
        let mut client = server.client();
        client.write_all(junk).unwrap();
        let Seen::Closed { established: false, why } = server.next() else { panic!() };
        assert!(why.contains("another protocol"), "{why}");
    }
}

#[test]
fn json_and_rssl_share_a_port() {
    let mut server = Server::new(|_| {});
    let mut client = server.client();
    let mut bytes = Vec::new();
    ask(Protocol::Json).encode(&mut bytes);
    bytes.extend(text_frame(r#"{"ID":1}"#));
    client.write_all(&bytes).unwrap();
    assert_eq!(server.next(), Seen::Opened("unnamed, tr_json2 over WebSocket".to_owned()));
    assert_eq!(server.next(), Seen::Text(r#"{"ID":1}"#.to_owned()));
    let json = server.recorder.conns[0];
    assert!(server.io.is_json(json));
    let queued = server.io.queue_json(0, json, |packer| {
        packer.push_parts(br#"{"ID":1"#, br#","Type":"Refresh"}"#);
        packer.push(r#"{"ID":2}"#);
    });
    assert_eq!(queued, Some(2 + 36));
    server.io.flush(json);

    // RSSL on the same port at the same time.
    let to = server.addr;
    let config = Arc::new(ClientConfig::default());
    let rssl = server.io.connect(net::clock::now(), to, &SocketOptions::default(), config, None).expect("a socket");
    assert!(matches!((server.next(), server.next()), (Seen::Opened(_), Seen::Opened(_))));
    server.io.send(0, rssl, |packer| packer.push(b"a message of RSSL", None));
    assert_eq!(server.next(), Seen::Message(b"a message of RSSL".to_vec()));

    server.io.close_drained(json, "the end");
    let Seen::Closed { established: true, why } = server.next() else { panic!() };
    assert_eq!(why, "the end");
    let answer = read_all(client);
    let (head, frames) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("Sec-WebSocket-Protocol: tr_json2"), "{head}");
    assert!(frames.contains(r#"[{"ID":1,"Type":"Refresh"},{"ID":2}]"#) && frames.ends_with("the end"), "{frames}");
}

#[test]
fn rssl_comes_in_websocket_frames_too() {
    let mut server = Server::new(|_| {});
    let mut client = server.client();
    let mut bytes = Vec::new();
    ask(Protocol::Rwf).encode(&mut bytes);
    let mut socket = Socket::new(Role::Client(1), false, Limits::default());
    let mut rssl = rssl::Connection::client(ClientConfig { key_exchange: false, ..ClientConfig::default() });
    let mut plain = Vec::new();
    rssl.start(0, &mut plain);
    socket.wrap_rssl(&plain, &mut bytes);
    client.write_all(&bytes).unwrap();
    let Seen::Opened(spoken) = server.next() else { panic!() };
    assert!(spoken.ends_with("rssl.rwf over WebSocket"), "{spoken}");

    struct Frames<'a>(&'a mut rssl::Connection, Vec<Vec<u8>>);
    impl ws::Sink for Frames<'_> {
        fn text(&mut self, _: &str) {}
        fn binary(&mut self, bytes: &[u8]) {
            struct Messages<'a>(&'a mut Vec<Vec<u8>>);
            impl rssl::Sink for Messages<'_> {
                fn message(&mut self, msg: &[u8]) {
                    self.0.push(msg.to_vec());
                }
            }
            self.0.receive(0, bytes, &mut Vec::new(), &mut Messages(&mut self.1)).expect("RSSL");
        }
    }
    let conn = server.recorder.conns[0];
    server.io.send(0, conn, |packer| packer.push(&vec![9; 20_000], None));
    let (mut head, mut frames) = (Vec::new(), Frames(&mut rssl, Vec::new()));
    let (mut buf, mut out, mut upgraded) = ([0; 4096], Vec::new(), false);
    while frames.1.is_empty() {
        let count = client.read(&mut buf).expect("bytes");
        assert!(count > 0, "closed");
        let mut bytes = &buf[..count];
        if !upgraded {
            head.extend_from_slice(bytes);
            let Some((protocol, length)) = ask(Protocol::Rwf).answer(&head).expect("an answer") else { continue };
            assert_eq!(protocol, Protocol::Rwf);
            upgraded = true;
            bytes = &head[length..];
            let bytes = bytes.to_vec();
            socket.receive(&bytes, &mut out, &mut frames).expect("frames");
            continue;
        }
        socket.receive(bytes, &mut out, &mut frames).expect("frames");
    }
    assert_eq!(frames.1, [vec![9; 20_000]]);
}

/// A server whose port takes TLS and plain sessions, and who trusts its certificate.
fn server_offering_tls() -> (Server, TlsClient) {
    let dir = tempfile::tempdir().unwrap();
    let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, private) = (dir.path().join("certificate.pem"), dir.path().join("key.pem"));
    std::fs::write(&certificate, key.cert.pem()).unwrap();
    std::fs::write(&private, key.signing_key.serialize_pem()).unwrap();
    let tls = TlsServer::from_files(&certificate, &private, None).unwrap();
    let server = Server::new(|listener| listener.encryption = Encryption::Offered(tls));
    (server, TlsClient::with_roots_from(&certificate).unwrap())
}

#[test]
fn a_port_may_offer_tls_beside_plain_sessions() {
    let (mut server, trust) = server_offering_tls();
    let (to, options) = (server.addr, SocketOptions::default());
    for encrypted in [true, false] {
        let session = encrypted.then(|| trust.connect("localhost").unwrap());
        let config = Arc::new(ClientConfig::default());
        let conn = server.io.connect(net::clock::now(), to, &options, config, session).unwrap();
        let seen = (server.next(), server.next());
        assert!(matches!(seen, (Seen::Opened(_), Seen::Opened(_))), "{encrypted}: {seen:?}");
        server.io.send(0, conn, |packer| packer.push(b"hidden or not", None));
        assert_eq!(server.next(), Seen::Message(b"hidden or not".to_vec()));
    }
}

#[test]
fn those_who_say_nothing_and_those_who_are_many_are_sent_away() {
    let limits = admission::Limits { per_address: 2, login_timeout_ns: 50_000_000, ..admission::Limits::default() };
    let mut server = Server::new(|listener| listener.limits = limits);
    let (mut first, _second, third) = (server.client(), server.client(), server.client());
    let mut bytes = Vec::new();
    ask(Protocol::Json).encode(&mut bytes);
    first.write_all(&bytes).unwrap();
    assert!(matches!(server.next(), Seen::Opened(_)));
    let Seen::Closed { established: true, why } = server.next() else { panic!() };
    assert!(why.contains("login_timeout"), "{why}");
    assert_eq!(read_all(third), "", "the third of an address is closed without a word");
}

/// What both ends of a dialled session see until each has a message of the other.
fn dial(protocol: Protocol) -> (Server, Recorder) {
    let mut server = Server::new(|_| {});
    let (mut io, mut client) = (RsslIo::new(7).expect("descriptors"), Recorder::default());
    let dial = WebSocketDial {
        host: server.addr.to_string(),
        protocols: vec![protocol],
        rssl: Arc::new(ClientConfig::default()),
        limits: Limits::default(),
        json: ws::JsonConfig::default(),
    };
    let options = SocketOptions::default();
    let conn = io.connect_websocket(net::clock::now(), server.addr, &options, Arc::new(dial), None).expect("a socket");
    let mut sent = false;
    let end = net::clock::now() + 20_000_000_000;
    while server.recorder.seen.len() < 2 || client.seen.len() < 2 {
        let now = io.turn(Some(net::clock::now() + 1_000_000), &mut client).expect("sockets");
        server.io.turn(Some(now + 1_000_000), &mut server.recorder).expect("sockets");
        assert!(now < end, "{:?} {:?}", server.recorder.seen, client.seen);
        if !sent && !client.conns.is_empty() && !server.recorder.conns.is_empty() {
            sent = true;
            let back = server.recorder.conns[0];
            for (io, conn) in [(&mut io, conn), (&mut server.io, back)] {
                if io.is_json(conn) {
                    io.queue_json(now, conn, |packer| packer.push(r#"{"ID":1}"#));
                    io.flush(conn);
                } else {
                    io.send(now, conn, |packer| packer.push(b"message", None));
                }
            }
        }
    }
    (server, client)
}

#[test]
fn a_server_is_dialled_by_websocket() {
    for (protocol, spoken, message) in [
        (Protocol::Json, "tr_json2 over WebSocket", Seen::Text(r#"[{"ID":1}]"#.to_owned())),
        (Protocol::Rwf, "rssl.rwf over WebSocket", Seen::Message(b"message".to_vec())),
    ] {
        let (server, client) = dial(protocol);
        for seen in [server.recorder.seen, client.seen] {
            assert!(matches!(&seen[0], Seen::Opened(text) if text.ends_with(spoken)), "{seen:?}");
            assert_eq!(seen[1], message);
        }
    }
}

#[test]
fn a_server_that_gives_no_websocket_is_said_so() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("an address");
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut head = [0; 2048];
        let _ = stream.read(&mut head).expect("a request");
        stream.write_all(b"HTTP/1.1 503 Busy\r\n\r\n").expect("written");
        stream
    });
    let (mut io, mut client) = (RsslIo::new(7).expect("descriptors"), Recorder::default());
    let dial = WebSocketDial {
        host: addr.to_string(),
        protocols: vec![Protocol::Json],
        rssl: Arc::new(ClientConfig::default()),
        limits: Limits::default(),
        json: ws::JsonConfig::default(),
    };
    io.connect_websocket(net::clock::now(), addr, &SocketOptions::default(), Arc::new(dial), None).expect("a socket");
    let end = net::clock::now() + 20_000_000_000;
    while client.seen.is_empty() {
        assert!(io.turn(Some(end), &mut client).expect("sockets") < end, "nothing came for 20 s");
    }
    let Seen::Closed { established: false, why } = &client.seen[0] else { panic!("{:?}", client.seen) };
    assert!(why.contains("503 Busy"), "{why}");
    drop(answering.join());
}
