//! Servers that are away: ports that refuse and stay held, connections whose input is dropped.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use net::tcp::{ConnId, Event, ListenerId, RecvOutcome, Scratch, SocketOptions, Tcp, TcpConfig};

/// Past this, a test has failed; nothing waits for it to pass.
const LIMIT: Duration = Duration::from_secs(20);

/// A listener on a port that was named: the kernel has just said that it is free.
fn listening(tcp: &mut Tcp) -> (ListenerId, SocketAddr) {
    for _ in 0..100 {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        // Another program may be given the port between: then another one is asked for.
        if let Ok(listening) = tcp.listen(free.expect("a free port"), &SocketOptions::default()) {
            return listening;
        }
    }
    panic!("no port of a hundred was free")
}

fn accept(tcp: &mut Tcp) -> ConnId {
    let mut events = Vec::new();
    loop {
        tcp.poll(Some(LIMIT), &mut events).expect("poll");
        assert!(!events.is_empty(), "nobody came");
        let accepted = events.iter().find_map(|event| match event {
            Event::Accepted { conn, .. } => Some(*conn),
            _ => None,
        });
        if let Some(conn) = accepted {
            return conn;
        }
    }
}

#[test]
fn a_listener_that_refuses_is_there_again_on_the_port_that_it_held() {
    let mut tcp = Tcp::new(TcpConfig::default()).expect("a set");
    let (listener, addr) = listening(&mut tcp);
    let served = TcpStream::connect(addr).expect("it listens");
    let conn = accept(&mut tcp);
    for _ in 0..3 {
        tcp.set_refusing(listener, true).expect("it refuses");
        let refused = TcpStream::connect(addr).expect_err("a refusal");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let own = SocketOptions { local: Some(addr), reuse_address: false, ..SocketOptions::default() };
        let held = tcp.connect(addr, &own).expect_err("the port is held");
        assert_eq!(held.kind(), io::ErrorKind::AddrInUse);
        tcp.set_refusing(listener, false).expect("it listens again, though connections of before are open");
        let again = TcpStream::connect(addr).expect("it is there");
        accept(&mut tcp);
        drop(again);
    }
    assert!(tcp.peer_addr(conn).is_ok(), "what was accepted before stays");
    drop(served);
}

#[test]
fn connections_that_waited_are_reset_where_a_listener_refuses() {
    let mut tcp = Tcp::new(TcpConfig::default()).expect("a set");
    let (listener, addr) = listening(&mut tcp);
    let mut waits = TcpStream::connect(addr).expect("it listens");
    tcp.set_refusing(listener, true).expect("it refuses");
    waits.set_read_timeout(Some(LIMIT)).expect("a limit");
    let read = io::Read::read(&mut waits, &mut [0; 8]);
    assert_eq!(read.expect_err("a reset").kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn a_connection_whose_input_is_dropped_hears_nothing_and_acknowledges_nothing() {
    let mut tcp = Tcp::new(TcpConfig::default()).expect("a set");
    let (_, addr) = listening(&mut tcp);
    let mut gone = TcpStream::connect(addr).expect("it listens");
    let dropped = accept(&mut tcp);
    let mut heard = TcpStream::connect(addr).expect("it listens");
    let kept = accept(&mut tcp);
    tcp.drop_input(dropped).expect("a filter");
    gone.write_all(b"lost").expect("the kernel takes it");
    drop(gone);
    heard.write_all(b"heard").expect("the kernel takes it");
    let (mut events, mut scratch) = (Vec::new(), Scratch::default());
    let mut bytes = Vec::new();
    while bytes.len() < 5 {
        tcp.poll(Some(LIMIT), &mut events).expect("poll");
        assert!(!events.is_empty(), "nothing came");
        for event in &events {
            let Event::Readable { conn } = event else { panic!("{event:?}") };
            assert_eq!(*conn, kept, "neither the bytes nor the end of the other one come");
            if let RecvOutcome::Data(data) = tcp.recv(*conn, &mut scratch) {
                bytes.extend_from_slice(data);
            }
        }
    }
    assert_eq!(bytes, b"heard");
}
