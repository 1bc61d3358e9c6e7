//! A server that runs out of descriptors. One test, in a process of its own: the limit belongs to the process.

use std::io::Read;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use net::rlimit;
use net::tcp::{Close, Event, SocketOptions, Tcp, TcpConfig};

#[test]
fn without_descriptors_connections_are_turned_away_and_accepting_resumes_by_itself() {
    let mut tcp = Tcp::new(TcpConfig::default()).expect("a set");
    let (listener, addr) = tcp.listen("127.0.0.1:0".parse().expect("addr"), &SocketOptions::default()).expect("listen");
    // The peers' ends come first: the accepted ends are what there is no room for.
    let mut peers: Vec<_> = (0..5).map(|_| TcpStream::connect(addr).expect("connect")).collect();
    let highest = peers.iter().map(AsRawFd::as_raw_fd).max().expect("five") as u64;
    rlimit::set_soft_open_files(highest + 1 + 2).expect("limit");

    let mut events = Vec::new();
    let mut accepted = Vec::new();
    let mut failure = None;
    while failure.is_none() {
        tcp.poll(None, &mut events).expect("poll");
        for event in &events {
            match *event {
                Event::Accepted { conn, .. } => accepted.push(conn),
                Event::AcceptFailed { listener: which, errno } => {
                    assert_eq!((which, errno), (listener, libc_emfile()));
                    failure = Some(Instant::now());
                }
                ref other => panic!("unexpected {other:?}"),
            }
        }
    }
    assert_eq!(accepted.len(), 2, "room for two");
    assert_eq!(tcp.counters().turned_away, 3);
    // Clients turned away know it at once, and the listener does not spin on what it cannot take.
    let mut ended = 0;
    for peer in &mut peers {
        peer.set_nonblocking(true).expect("option");
        ended += usize::from(matches!(peer.read(&mut [0]), Ok(0)));
    }
    assert_eq!(ended, 3);
    let waits = tcp.counters().waits;
    tcp.poll(Some(Duration::from_millis(20)), &mut events).expect("poll");
    assert_eq!((events.as_slice(), tcp.counters().waits), ([].as_slice(), waits + 1));

    // With descriptors free again it goes on without being asked.
    tcp.close(accepted[0], Close::Now);
    peers.truncate(1);
    let late = TcpStream::connect(addr);
    let deadline = Instant::now() + Duration::from_secs(20);
    let resumed = loop {
        tcp.poll(Some(Duration::from_secs(1)), &mut events).expect("poll");
        if events.iter().any(|event| matches!(event, Event::Accepted { .. })) {
            break true;
        }
        if Instant::now() > deadline {
            break false;
        }
    };
    assert!(late.is_ok() && resumed);
}

fn libc_emfile() -> i32 {
    24
}
