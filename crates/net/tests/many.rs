//! Ten thousand idle connections. In a process of its own, because memory and descriptors belong to the process.

use std::time::{Duration, Instant};

use net::memory::Memory;
use net::rlimit;
use net::tcp::{Event, RecvOutcome, Scratch, SendOutcome, SocketOptions, Tcp, TcpConfig};

/// What an idle connection may cost here: its place in the tables. Buffers would show at once.
const BYTES_EACH: u64 = 400;

#[test]
fn idle_connections_own_no_buffers() {
    let files = rlimit::raise_open_files(20_300).expect("limits").soft;
    let count = ((files - 300) / 2).min(10_000) as usize;
    assert!(count >= 100, "the limit of open files is too low to say anything: {files}");
    let mut tcp = Tcp::new(TcpConfig::default()).expect("a set");
    let options = SocketOptions::default();
    let (_, addr) = tcp.listen("127.0.0.1:0".parse().expect("addr"), &options).expect("listen");
    let mut events = Vec::new();
    let mut scratch = Scratch::default();
    let before = Memory::of_self().expect("status").resident;

    let (mut accepted, mut outgoing) = (Vec::new(), Vec::new());
    while accepted.len() < count || outgoing.len() < count {
        // Few at a time: the kernel's backlog is bounded.
        for _ in 0..(count - outgoing.len()).min(50) {
            outgoing.push(tcp.connect(addr, &options).expect("connect"));
        }
        tcp.poll(Some(Duration::from_secs(20)), &mut events).expect("poll");
        for event in &events {
            match *event {
                Event::Accepted { conn, .. } => accepted.push(conn),
                Event::Connected { .. } => {}
                ref other => panic!("unexpected {other:?}"),
            }
        }
    }
    let used = Memory::of_self().expect("status").resident.saturating_sub(before);
    let each = used / (2 * count as u64);
    assert!(each <= BYTES_EACH, "{each} bytes a connection, {count} pairs");

    // Every one of them works.
    for (i, conn) in accepted.iter().enumerate() {
        assert_eq!(tcp.send(*conn, &(i as u32).to_ne_bytes()), SendOutcome::Sent);
    }
    let (mut seen, mut missing) = (vec![false; count], count);
    let deadline = Instant::now() + Duration::from_mins(1);
    while missing > 0 {
        tcp.poll(Some(Duration::from_secs(20)), &mut events).expect("poll");
        assert!(Instant::now() < deadline, "{missing} never got their bytes");
        for event in &events {
            let Event::Readable { conn } = *event else { continue };
            let RecvOutcome::Data(data) = tcp.recv(conn, &mut scratch) else { panic!("no data") };
            let index = u32::from_ne_bytes((&*data).try_into().expect("four bytes")) as usize;
            assert!(!std::mem::replace(&mut seen[index], true));
            missing -= 1;
        }
    }
}
