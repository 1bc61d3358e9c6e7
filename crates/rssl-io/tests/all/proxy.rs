//! Sessions through an HTTP proxy.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use net::tcp::SocketOptions;
use rssl::ClientConfig;
use rssl::ws::upgrade::Protocol;
use rssl::ws::{self, Limits};
use rssl_io::{Way, WebSocketDial};

use crate::{Recorder, Seen, Server, server_offering_tls};

/// A proxy for one connection: it gives this answer in these pieces, and passes bytes on to where it was asked to. Gives the request.
fn proxy(answer: &'static [&'static str]) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let serve = move || {
        let (mut client, _) = listener.accept().expect("a connection");
        client.set_nodelay(true).expect("an option");
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            client.read_exact(&mut byte).expect("a request");
            request.push(byte[0]);
        }
        let request = String::from_utf8(request).expect("text");
        let target = request.split(' ').nth(1).expect("a target").to_owned();
        for piece in answer {
            client.write_all(piece.as_bytes()).expect("room");
        }
        if !answer.concat().contains(" 200 ") {
            return request;
        }
        let mut server = TcpStream::connect(target).expect("the server");
        let (mut from_server, mut to_client) =
            (server.try_clone().expect("one more"), client.try_clone().expect("one more"));
        let back = std::thread::spawn(move || {
            let _ = std::io::copy(&mut from_server, &mut to_client);
        });
        let _ = std::io::copy(&mut client, &mut server);
        let _ = server.shutdown(std::net::Shutdown::Both);
        back.join().expect("its end");
        request
    };
    (at, std::thread::spawn(serve))
}

const OPEN: &[&str] = &["HTTP/1.1 200 Con", "nection established\r\nVia: 1.1 border\r\n\r", "\n"];

fn through(server: &Server) -> Way {
    Way { through_proxy_to: Some(server.addr.to_string()), ..Way::default() }
}

#[test]
fn a_session_goes_through_a_proxy_with_and_without_tls() {
    let (mut server, trust) = server_offering_tls();
    for encrypted in [false, true] {
        let (at, proxy) = proxy(OPEN);
        let way = Way { tls: encrypted.then(|| trust.connect("localhost").unwrap()), ..through(&server) };
        let config = Arc::new(ClientConfig::default());
        let now = net::clock::now();
        let conn = server.io.connect(now, at, &SocketOptions::default(), config, way).expect("a socket");
        let seen = (server.next(), server.next());
        assert!(matches!(seen, (Seen::Opened(_), Seen::Opened(_))), "{encrypted}: {seen:?}");
        server.io.send(0, conn, |packer| packer.push(b"from far", None));
        assert_eq!(server.next(), Seen::Message(b"from far".to_vec()));
        server.io.close_drained(conn, "done");
        assert!(matches!((server.next(), server.next()), (Seen::Closed { .. }, Seen::Closed { .. })));
        let request = proxy.join().expect("its end");
        assert_eq!(request, format!("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n", server.addr));
    }
}

#[test]
fn a_websocket_session_goes_through_a_proxy() {
    let mut server = Server::new(|_| {});
    let (at, _proxy) = proxy(OPEN);
    let dial = WebSocketDial {
        host: server.addr.to_string(),
        protocols: vec![Protocol::Json],
        rssl: Arc::new(ClientConfig::default()),
        limits: Limits::default(),
        json: ws::JsonConfig::default(),
    };
    let way = through(&server);
    server
        .io
        .connect_websocket(net::clock::now(), at, &SocketOptions::default(), Arc::new(dial), way)
        .expect("a socket");
    let seen = (server.next(), server.next());
    assert!(matches!(seen, (Seen::Opened(_), Seen::Opened(_))), "{seen:?}");
}

#[test]
fn a_proxy_that_refuses_or_is_silent_is_told() {
    let mut io = rssl_io::RsslIo::new(1).expect("descriptors");
    let silent: &[&str] = &[];
    let refused: &[&str] = &["HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"];
    for (answer, expected) in
        [(refused, "the proxy does not connect with far:14002: \"HTTP/1.1 403 Forbidden\""), (silent, "in time")]
    {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let way = Way { through_proxy_to: Some("far:14002".to_owned()), ..Way::default() };
        let patience = if answer.is_empty() { 20_000_000 } else { 20_000_000_000 };
        let config = Arc::new(ClientConfig { handshake_timeout_ns: patience, ..ClientConfig::default() });
        let at = listener.local_addr().expect("an address");
        io.connect(net::clock::now(), at, &SocketOptions::default(), config, way).expect("a socket");
        let (mut client, _) = listener.accept().expect("a connection");
        for piece in answer {
            client.write_all(piece.as_bytes()).expect("room");
        }
        let mut recorder = Recorder::default();
        while recorder.seen.is_empty() {
            io.turn(Some(net::clock::now() + 1_000_000_000), &mut recorder).expect("sockets");
        }
        let Some(Seen::Closed { established: false, why }) = recorder.seen.pop_front() else { panic!() };
        assert!(why.contains(expected), "{why}");
    }
}
