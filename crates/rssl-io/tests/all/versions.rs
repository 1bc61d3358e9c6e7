//! Which ends of a dialled connection say that the server does not know the version that was offered.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use net::tcp::{SocketOptions, Tcp, TcpConfig};
use net::tls::TlsClient;
use rssl::{ClientConfig, Version};
use rssl_io::RsslIo;

use super::{Recorder, server_offering_tls};

/// Dials, has something happen, and gives what to offer next when the connection has ended.
fn dial(addr: SocketAddr, tls: Option<&TlsClient>, then: impl FnOnce()) -> (Option<Version>, String) {
    let (mut io, mut client) = (RsslIo::new(7).expect("descriptors"), Recorder::default());
    let way = tls.map(|tls| tls.connect("elsewhere.example").expect("a name"));
    let config = Arc::new(ClientConfig::default());
    io.connect(net::clock::now(), addr, &SocketOptions::default(), config, way).expect("a socket");
    then();
    let end = net::clock::now() + 60_000_000_000;
    loop {
        if let (Some(&next), Some(super::Seen::Closed { why, .. })) =
            (client.next_versions.first(), client.seen.pop_front())
        {
            return (next, why);
        }
        let now = io.turn(Some(end), &mut client).expect("sockets");
        assert!(now < end, "nothing came for 60 s");
    }
}

/// A port that answers no connection request for now: its queue is full. Between hosts every refusal comes late, as it does here when the
/// port is closed.
fn full() -> (Tcp, SocketAddr, Vec<TcpStream>) {
    let mut listening = Tcp::new(TcpConfig::default()).expect("descriptors");
    let options = SocketOptions { backlog: 0, ..SocketOptions::default() };
    let (_, addr) = listening.listen(([127, 0, 0, 1], 0).into(), &options).expect("a port");
    let wait = std::time::Duration::from_millis(100);
    let waiting: Vec<_> = std::iter::from_fn(|| TcpStream::connect_timeout(&addr, wait).ok()).collect();
    (listening, addr, waiting)
}

#[test]
fn a_port_that_nobody_listens_on_knows_every_version() {
    let (listening, addr, waiting) = full();
    let (next, why) = dial(addr, None, || {
        drop(listening);
        drop(waiting);
    });
    assert!(why.contains("connect failed"), "{why}");
    assert_eq!(next, None, "it was never reached");
}

#[test]
fn a_server_that_goes_without_a_word_is_offered_a_lower_one() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("an address");
    let (next, why) = dial(addr, None, || drop(listener.accept().expect("a connection")));
    assert_eq!(next, Version::V14.lower(), "{why}");
}

#[test]
fn a_certificate_that_is_not_trusted_says_nothing_of_versions() {
    let (mut server, trust) = server_offering_tls();
    let addr = server.addr;
    let serving = std::thread::spawn(move || {
        while server.recorder.seen.is_empty() {
            server.io.turn(Some(net::clock::now() + 10_000_000), &mut server.recorder).expect("sockets");
        }
    });
    let (next, why) = dial(addr, Some(&trust), || {});
    assert!(why.contains("TLS"), "{why}");
    assert_eq!(next, None);
    serving.join().expect("a server");
}
