//! What a peer can have kept for it that has not logged in, or that does not take its answers.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use net::tcp::{SocketOptions, Tcp, TcpConfig};
use rssl::ws::frame::{self, OpCode};
use rssl::ws::upgrade::Protocol;
use rssl::ws::{Limits, Role, Socket};
use rssl::{ClientConfig, Connection};
use rssl_io::account::{ANSWERS_MAX, SHARED_MAX, STRANGER_MAX};
use rssl_io::{RsslIo, WebSocket};

use super::{Seen, Server, ask, server_offering_tls};

/// More than all sockets between two ends take.
const FLOOD: usize = 64 << 20;
/// What one read of a connection brings at most, and so what may be queued before anything is counted.
const READ: usize = 256 << 10;
/// The same where a port says so.
const STEP: usize = 8 << 10;
const MASK: Option<[u8; 4]> = Some([1, 2, 3, 4]);

fn upgrade(protocol: Protocol) -> Vec<u8> {
    let mut bytes = Vec::new();
    ask(protocol).encode(&mut bytes);
    if protocol == Protocol::Rwf {
        let (mut plain, mut socket) = (Vec::new(), Socket::new(Role::Client(1), false, Limits::default()));
        let config = ClientConfig { key_exchange: false, ..ClientConfig::default() };
        Connection::client(config).start(0, &mut plain);
        socket.wrap_rssl(&plain, &mut bytes);
    }
    bytes
}

/// The first bytes of a client of RSSL.
fn handshake() -> Vec<u8> {
    let mut bytes = Vec::new();
    Connection::client(ClientConfig { key_exchange: false, ..ClientConfig::default() }).start(0, &mut bytes);
    bytes
}

/// Writes the first bytes, then the same again and again until it is closed, or has written [`FLOOD`]; reads nothing. Gives what it wrote.
fn flood(mut client: TcpStream, first: Vec<u8>, again: Vec<u8>) -> JoinHandle<usize> {
    client.set_write_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    std::thread::spawn(move || {
        let mut written = 0;
        if client.write_all(&first).is_ok() {
            let many = again.repeat((64 << 10) / again.len());
            while written < FLOOD && client.write_all(&many).is_ok() {
                written += many.len();
            }
        }
        written
    })
}

fn ping() -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write(&mut bytes, OpCode::Ping, true, false, MASK, &[7; frame::CONTROL_MAX]);
    bytes
}

/// Turns until a connection has ended; gives why, and the most that waited for one.
fn until_closed(server: &mut Server) -> (String, usize) {
    let (end, mut most) = (net::clock::now() + 60_000_000_000, 0);
    loop {
        let now = server.io.turn(Some(net::clock::now() + 10_000_000), &mut server.recorder).expect("sockets");
        for &conn in &server.recorder.conns {
            most = most.max(server.io.backlog(conn));
        }
        while let Some(seen) = server.recorder.seen.pop_front() {
            if let Seen::Closed { why, .. } = seen {
                return (why, most);
            }
        }
        assert!(now < end, "nobody was closed, and {most} bytes waited");
    }
}

#[test]
fn pings_that_nobody_reads_end_the_session_before_a_login_and_after() {
    for protocol in [Protocol::Json, Protocol::Rwf] {
        for knows_nobody in [true, false] {
            let mut server = Server::new(|listener| listener.read_most_bytes = STEP);
            server.recorder.knows_nobody = knows_nobody;
            let client = flood(server.client(), upgrade(protocol), ping());
            let (why, most) = until_closed(&mut server);
            assert!(why.contains("does not take"), "{protocol:?} {knows_nobody}: {why}");
            assert!(most <= ANSWERS_MAX + STEP, "{protocol:?} {knows_nobody}: {most} bytes waited");
            assert!(server.recorder.told > ANSWERS_MAX / 2, "the owner is told of what waits");
            assert!(client.join().expect("a client") < FLOOD, "it was let flood");
        }
    }
}

#[test]
fn pings_that_nobody_reads_end_an_encrypted_session_too() {
    let (mut server, trust) = server_offering_tls();
    server.recorder.knows_nobody = true;
    // A session of ours, whose socket is read no more when it is up: its tail holds what the server's does not take.
    let mut io = RsslIo::new(3).expect("descriptors");
    let dial = rssl_io::WebSocketDial {
        host: server.addr.to_string(),
        protocols: vec![Protocol::Json],
        rssl: Arc::new(ClientConfig::default()),
        limits: Limits::default(),
        json: rssl::ws::JsonConfig::default(),
    };
    let mut client = super::Recorder::default();
    let way = Some(trust.connect("localhost").expect("a name"));
    let options = SocketOptions::default();
    let conn = io.connect_websocket(net::clock::now(), server.addr, &options, Arc::new(dial), way).expect("a socket");
    while client.conns.is_empty() {
        io.turn(Some(net::clock::now() + 1_000_000), &mut client).expect("sockets");
        server.io.turn(Some(net::clock::now() + 1_000_000), &mut server.recorder).expect("sockets");
    }
    io.set_reading(conn, false);
    let end = net::clock::now() + 60_000_000_000;
    let frames = ping().repeat(500);
    let mut written = 0;
    let why = loop {
        // As frames that were composed elsewhere: the session itself has no reason to ping.
        if io.queue_frames(net::clock::now(), conn, &frames, 0).is_some_and(|waiting| waiting == 0) {
            written += frames.len();
        }
        io.turn(Some(net::clock::now() + 1_000_000), &mut client).expect("sockets");
        let now = server.io.turn(Some(net::clock::now() + 1_000_000), &mut server.recorder).expect("sockets");
        if let Some(Seen::Closed { why, .. }) = server.recorder.seen.iter().find(|s| matches!(s, Seen::Closed { .. })) {
            break why.clone();
        }
        assert!(now < end && written < FLOOD, "it was let flood: {written} bytes");
    };
    assert!(why.contains("does not take"), "{why}");
}

#[test]
fn a_server_that_was_dialled_is_sent_no_more_answers_than_it_takes() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("an address");
    let flooding = std::thread::spawn(move || {
        use std::io::Read as _;
        let (mut stream, _) = listener.accept().expect("a connection");
        let (mut head, mut count) = ([0; 4096], 0);
        while !head[..count].ends_with(b"\r\n\r\n") {
            count += stream.read(&mut head[count..]).expect("a request");
        }
        let offer = rssl::ws::upgrade::Offer::default();
        let rssl::ws::upgrade::Request::Upgrade(upgrade, _) = rssl::ws::upgrade::read(&head[..count], &offer) else {
            panic!("no request");
        };
        let (mut first, mut again) = (Vec::new(), Vec::new());
        upgrade.answer(&mut first);
        frame::write(&mut again, OpCode::Ping, true, false, None, &[7; frame::CONTROL_MAX]);
        flood(stream, first, again).join().expect("a flood")
    });
    let mut io = RsslIo::new(7).expect("descriptors");
    let dial = rssl_io::WebSocketDial {
        host: addr.to_string(),
        protocols: vec![Protocol::Json],
        rssl: Arc::new(ClientConfig::default()),
        limits: Limits::default(),
        json: rssl::ws::JsonConfig::default(),
    };
    io.connect_websocket(net::clock::now(), addr, &SocketOptions::default(), Arc::new(dial), None).expect("a socket");
    let mut server = Server { io, recorder: super::Recorder::default(), addr };
    let (why, most) = until_closed(&mut server);
    assert!(why.contains("does not take") && most <= ANSWERS_MAX + READ, "{why}; {most}");
    assert!(flooding.join().expect("a server") < FLOOD);
}

/// The first fragment of a message of so many bytes, as RSSL has it.
fn first_fragment(total: u32, id: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0, 0, 0x01 | 0x02, 0x08];
    frame.extend_from_slice(&total.to_be_bytes());
    frame.extend_from_slice(&id.to_be_bytes());
    frame.extend_from_slice(payload);
    let length = frame.len() as u16;
    frame[..2].copy_from_slice(&length.to_be_bytes());
    frame
}

#[test]
fn a_stranger_cannot_have_large_messages_kept_and_who_has_logged_in_can() {
    let fragment = || first_fragment(1 << 20, 1, &vec![9; 30_000]);
    let mut server = Server::new(|_| {});
    server.recorder.knows_nobody = true;
    let mut client = server.client();
    client.write_all(&[handshake(), fragment()].concat()).expect("room");
    let (why, _) = until_closed(&mut server);
    assert!(why.contains("1048576 bytes and 65536 are allowed"), "{why}");

    // Whoever has logged in may, even if the message comes in one piece with the login.
    let mut server = Server::new(|_| {});
    let next = [&30_006_u16.to_be_bytes()[..], &[0x01 | 0x02, 0x04, 0, 1], &vec![9; 30_000]].concat();
    let whole = [handshake(), first_fragment(120_000, 1, &vec![9; 30_000]), next.repeat(3)].concat();
    let mut client = server.client();
    client.write_all(&whole).expect("room");
    assert!(matches!(server.next(), Seen::Opened(_)));
    assert_eq!(server.next(), Seen::Message(vec![9; 120_000]));
}

#[test]
fn a_stranger_cannot_have_fragments_of_websocket_kept() {
    // As the port of providers has it.
    let large = Limits { message_bytes_max: 1 << 20, ..Limits::default() };
    for knows_nobody in [true, false] {
        let mut server = Server::new(|listener| {
            listener.websocket = Some(Arc::new(WebSocket { limits: large, ..WebSocket::default() }));
        });
        server.recorder.knows_nobody = knows_nobody;
        let mut bytes = upgrade(Protocol::Json);
        frame::write(&mut bytes, OpCode::Text, false, false, MASK, &vec![b' '; 40_000]);
        // The rest of the second one does not come.
        let mut second = Vec::new();
        frame::write(&mut second, OpCode::Continuation, true, false, MASK, &vec![b' '; 40_000]);
        bytes.extend_from_slice(&second[..20_000]);
        let mut client = server.client();
        client.write_all(&bytes).expect("room");
        assert!(matches!(server.next(), Seen::Opened(_)));
        if knows_nobody {
            let (why, _) = until_closed(&mut server);
            assert!(why.contains("message is longer than allowed"), "{why}");
        } else {
            client.write_all(&second[20_000..]).expect("room");
            assert_eq!(server.next(), Seen::Text(" ".repeat(80_000)));
        }
    }
}

#[test]
fn many_small_unfinished_messages_are_no_way_around() {
    let mut server = Server::new(|_| {});
    server.recorder.knows_nobody = true;
    let mut client = server.client();
    let fragments: Vec<u8> = (1..=1_000).flat_map(|id| first_fragment(101, id, &[9; 100])).collect();
    client.write_all(&[handshake(), fragments].concat()).expect("room");
    let (why, _) = until_closed(&mut server);
    assert!(why.contains("are allowed"), "{why}");
}

#[test]
fn a_few_bytes_that_become_many_are_not_worked_off_for_a_stranger() {
    let mut server = Server::new(|listener| {
        let offer = rssl::ws::upgrade::Offer { deflate: true, ..Default::default() };
        listener.websocket = Some(Arc::new(WebSocket { offer, ..WebSocket::default() }));
    });
    server.recorder.knows_nobody = true;
    let head = "GET /WebSocket HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: tr_json2\r\n\
                Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n";
    let mut deflate = flate2::Compress::new(flate2::Compression::best(), false);
    let mut small = Vec::with_capacity(4096);
    deflate.compress_vec(&vec![b' '; 60_000], &mut small, flate2::FlushCompress::Sync).expect("compressed");
    small.truncate(small.len() - 4);
    let mut again = Vec::new();
    frame::write(&mut again, OpCode::Text, true, true, MASK, &small);
    assert!(again.len() < 500, "{}", again.len());
    // The same window for all of them: each begins anew.
    let mut client = server.client();
    client.write_all(&[head.as_bytes(), &again.repeat(1_000)].concat()).expect("room");
    let (why, _) = until_closed(&mut server);
    assert!(why.contains("before a login"), "{why}");
    let texts = server.recorder.seen.iter().filter(|seen| matches!(seen, Seen::Text(_))).count();
    assert!(texts <= rssl_io::account::SAID_MAX / 60_000, "{texts} were taken");
}

#[test]
fn many_strangers_together_have_so_much_and_the_quiet_stay() {
    let mut server = Server::new(|_| {});
    server.recorder.knows_nobody = true;
    let mut quiet = server.client();
    quiet.write_all(&handshake()).expect("room");
    assert!(matches!(server.next(), Seen::Opened(_)));
    let count = SHARED_MAX / 60_000 + 20;
    let mut half = vec![0xEA, 0x60, 2];
    half.resize(59_000, 7);
    let mut clients = Vec::new();
    let (mut open, mut closed) = (0, 0);
    for _ in 0..count {
        let mut client = server.client();
        client.write_all(&[handshake(), half.clone()].concat()).expect("room");
        clients.push(client);
    }
    while open < count || closed < count - SHARED_MAX / 59_000 {
        match server.next() {
            Seen::Opened(_) => open += 1,
            Seen::Closed { why, .. } => {
                assert!(why.contains("for all that have not logged in"), "{why}");
                closed += 1;
            }
            seen => panic!("{seen:?}"),
        }
    }
    quiet.write_all(&[0, 8, 2, 1, 2, 3, 4, 5]).expect("it is there");
    // Strangers grow by what is read in a turn, so that further ones may have to go meanwhile.
    loop {
        match server.next() {
            Seen::Closed { why, .. } => assert!(why.contains("for all that have not logged in"), "{why}"),
            seen => break assert_eq!(seen, Seen::Message(vec![1, 2, 3, 4, 5])),
        }
        closed += 1;
    }
    assert!(closed < count, "some have their share");
}

/// A session of RSSL that is up.
fn come_in(server: &mut Server) -> TcpStream {
    let mut client = server.client();
    client.write_all(&handshake()).expect("room");
    assert!(matches!(server.next(), Seen::Opened(_)));
    client
}

/// A message of one byte.
fn message(byte: u8) -> [u8; 4] {
    [0, 4, 2, byte]
}

/// What these have written is at the server's sockets, so that one turn finds all of it.
fn until_arrived<'a>(clients: impl IntoIterator<Item = &'a TcpStream>) {
    let mut tcp = Tcp::new(TcpConfig::default()).expect("descriptors");
    for client in clients {
        let conn = tcp.adopt(client.try_clone().expect("a descriptor")).expect("a socket");
        while tcp.kernel_backlog(conn) > 0 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn who_has_logged_in_is_read_before_strangers_who_spoke_first() {
    let mut server = Server::new(|_| {});
    let mut known = come_in(&mut server);
    known.write_all(&message(1)).expect("room");
    assert_eq!(server.next(), Seen::Message(vec![1]));
    server.recorder.knows_nobody = true;
    let mut strangers: Vec<_> = (0..20).map(|_| come_in(&mut server)).collect();
    for stranger in &mut strangers {
        stranger.write_all(&message(9)).expect("room");
    }
    known.write_all(&message(2)).expect("room");
    until_arrived(strangers.iter().chain([&known]));
    assert_eq!(server.next(), Seen::Message(vec![2]), "it is read first");
    for _ in strangers {
        assert_eq!(server.next(), Seen::Message(vec![9]), "all of them are read");
    }
}

#[test]
fn who_says_least_is_read_first_of_strangers() {
    let mut server = Server::new(|_| {});
    server.recorder.knows_nobody = true;
    let (mut talker, mut modest) = (come_in(&mut server), come_in(&mut server));
    talker.write_all(&message(8).repeat(100)).expect("room");
    for _ in 0..100 {
        assert_eq!(server.next(), Seen::Message(vec![8]));
    }
    talker.write_all(&message(9)).expect("room");
    modest.write_all(&message(1)).expect("room");
    until_arrived([&talker, &modest]);
    assert_eq!(server.next(), Seen::Message(vec![1]));
    assert_eq!(server.next(), Seen::Message(vec![9]));
}

/// Pings of RSSL have no answer, and cost time all the same.
#[test]
fn who_has_logged_in_and_pings_without_an_end_is_read_behind_the_others() {
    let mut server = Server::new(|_| {});
    let mut loud = come_in(&mut server);
    let mut quiet: Vec<_> = (0..5).map(|_| come_in(&mut server)).collect();
    loud.write_all(&[&rssl::frame::PING.repeat(100_000)[..], &message(3)].concat()).expect("room");
    assert_eq!(server.next(), Seen::Message(vec![3]));
    loud.write_all(&message(1)).expect("room");
    for client in &mut quiet {
        client.write_all(&message(2)).expect("room");
    }
    until_arrived(quiet.iter().chain([&loud]));
    for _ in quiet {
        assert_eq!(server.next(), Seen::Message(vec![2]));
    }
    assert_eq!(server.next(), Seen::Message(vec![1]));
}

#[test]
fn who_is_known_by_the_next_turn_may_get_much_at_once() {
    for stays_stranger in [false, true] {
        let mut server = Server::new(|_| {});
        server.recorder.knows_nobody = true;
        let mut client = server.client();
        client.write_all(&handshake()).expect("room");
        assert!(matches!(server.next(), Seen::Opened(_)));
        let conn = server.recorder.conns[0];
        // The answer to its login, and what it had asked for meanwhile.
        server.io.queue(0, conn, |packer| packer.push(&vec![1; 4 * STRANGER_MAX], None));
        server.recorder.knows_nobody = stays_stranger;
        if stays_stranger {
            let (why, _) = until_closed(&mut server);
            assert!(why.contains("does not take"), "{why}");
        } else {
            server.io.turn(Some(net::clock::now()), &mut server.recorder).expect("sockets");
            assert!(server.io.flush(conn).is_some(), "it is there");
            assert!(server.recorder.seen.is_empty(), "{:?}", server.recorder.seen);
        }
    }
}
