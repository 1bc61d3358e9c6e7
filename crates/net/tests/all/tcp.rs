//! The TCP set over real loopback sockets. No sleeps: every wait is for an event of the set or a blocking call of the peer.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use net::fault::{ConnFault, FaultPlan, FaultRates};
use net::tcp::{
    Batching, Close, CloseReason, ConnId, Event, ListenerId, RecvOutcome, Scratch, SendOutcome, SocketOptions, Tcp,
    TcpConfig,
};

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Past this, a test has failed; nothing waits for it to pass.
const LIMIT: Duration = Duration::from_secs(20);

/// A set with a listener, and what a test needs to drive it.
struct Server {
    tcp: Tcp,
    listener: ListenerId,
    addr: SocketAddr,
    events: Vec<Event>,
    scratch: Scratch,
}

impl Server {
    fn new() -> Self {
        Self::with(TcpConfig::default(), &SocketOptions::default())
    }

    fn with(config: TcpConfig, options: &SocketOptions) -> Self {
        let mut tcp = Tcp::new(config).expect("a set");
        let (listener, addr) = tcp.listen(ANY, options).expect("listen");
        assert_ne!(addr.port(), 0, "the real port is returned");
        Self { tcp, listener, addr, events: Vec::new(), scratch: Scratch::default() }
    }

    /// Polls until the events satisfy `f`, and returns what it makes of them.
    #[track_caller]
    fn until<T>(&mut self, mut f: impl FnMut(&mut Tcp, &mut Scratch, &Event) -> Option<T>) -> T {
        let deadline = Instant::now() + LIMIT;
        loop {
            self.tcp.poll(Some(LIMIT), &mut self.events).expect("poll");
            let mut found = None;
            for event in &self.events {
                if found.is_none() {
                    found = f(&mut self.tcp, &mut self.scratch, event);
                }
            }
            if let Some(found) = found {
                return found;
            }
            assert!(Instant::now() < deadline, "no such event; last were {:?}", self.events);
        }
    }

    #[track_caller]
    fn accept(&mut self) -> ConnId {
        self.until(|_, _, event| match *event {
            Event::Accepted { conn, .. } => Some(conn),
            _ => None,
        })
    }

    #[track_caller]
    fn pair(&mut self) -> (ConnId, TcpStream) {
        let peer = TcpStream::connect(self.addr).expect("connect");
        peer.set_read_timeout(Some(LIMIT)).expect("timeout");
        (self.accept(), peer)
    }

    #[track_caller]
    fn closed(&mut self, wanted: ConnId) -> CloseReason {
        self.until(|tcp, scratch, event| match *event {
            Event::Readable { conn } => {
                tcp.recv(conn, scratch);
                None
            }
            Event::Closed { conn, why } if conn == wanted => Some(why),
            _ => None,
        })
    }

    /// Receives exactly `count` bytes of a connection.
    #[track_caller]
    fn receive(&mut self, wanted: ConnId, count: usize) -> Vec<u8> {
        let mut all = Vec::new();
        self.until(|tcp, scratch, event| {
            if *event == (Event::Readable { conn: wanted })
                && let RecvOutcome::Data(data) = tcp.recv(wanted, scratch)
            {
                all.extend_from_slice(data);
            }
            (all.len() >= count).then_some(())
        });
        assert_eq!(all.len(), count);
        all
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}

#[test]
fn bytes_go_both_ways() {
    let mut server = Server::new();
    let (conn, mut peer) = server.pair();
    assert_eq!(server.tcp.peer_addr(conn).expect("peer"), peer.local_addr().expect("local"));
    assert_eq!(server.tcp.local_addr(conn).expect("local"), server.addr);
    peer.write_all(b"request").expect("write");
    assert_eq!(server.receive(conn, 7), b"request");
    assert_eq!(server.tcp.send(conn, b"refresh"), SendOutcome::Sent);
    let mut answer = [0; 7];
    peer.read_exact(&mut answer).expect("read");
    assert_eq!(&answer, b"refresh");
}

#[test]
fn two_sets_connect() {
    let mut server = Server::new();
    let mut client = Server::new();
    let conn = client.tcp.connect(server.addr, &SocketOptions::default()).expect("connect");
    assert!(matches!(client.tcp.send(conn, b"early"), SendOutcome::Queued(5)), "kept until the connection is there");
    client.until(|_, _, event| (*event == Event::Connected { conn }).then_some(()));
    let accepted = server.accept();
    assert_eq!(server.receive(accepted, 5), b"early");
    server.tcp.close(accepted, Close::Now);
    assert_eq!(server.closed(accepted), CloseReason::Local { drained: false });
    assert_eq!(client.closed(conn), CloseReason::PeerClosed);
    assert_eq!((server.tcp.connections(), client.tcp.connections()), (0, 0));
}

#[test]
fn a_refused_connect_says_so() {
    let unused = TcpListener::bind(ANY).expect("bind").local_addr().expect("addr");
    let mut server = Server::new();
    match server.tcp.connect(unused, &SocketOptions::default()) {
        Ok(conn) => assert_eq!(server.closed(conn), CloseReason::ConnectFailed(libc::ECONNREFUSED)),
        Err(e) => assert_eq!(e.raw_os_error(), Some(libc::ECONNREFUSED)),
    }
    assert_eq!(server.tcp.counters().connected, 0);
}

#[test]
fn an_outgoing_connection_is_bound_as_asked() {
    let mut server = Server::new();
    let options = SocketOptions { local: Some("127.0.0.2:0".parse().expect("addr")), ..SocketOptions::default() };
    let addr = server.addr;
    let conn = server.tcp.connect(addr, &options).expect("connect");
    let peer = server.until(|_, _, event| match *event {
        Event::Accepted { peer, .. } => Some(peer),
        _ => None,
    });
    assert_eq!(peer.ip(), Ipv4Addr::new(127, 0, 0, 2));
    assert_eq!(server.tcp.local_addr(conn).expect("local"), peer);
}

#[test]
fn input_beyond_the_scratch_is_reported_again_and_nothing_is_reported_when_it_is_exhausted() {
    let mut server = Server::new();
    server.scratch = Scratch::new(1000);
    let (conn, mut peer) = server.pair();
    let sent = pattern(10_000);
    peer.write_all(&sent).expect("write");
    assert_eq!(server.receive(conn, sent.len()), sent);
    // The last receive may have filled the scratch exactly: one more report then finds nothing.
    for _ in 0..2 {
        server.tcp.poll(Some(Duration::ZERO), &mut server.events).expect("poll");
        for event in server.events.drain(..) {
            assert_eq!(event, Event::Readable { conn });
            assert_eq!(server.tcp.recv(conn, &mut server.scratch), RecvOutcome::Empty);
        }
    }
    server.tcp.poll(Some(Duration::ZERO), &mut server.events).expect("poll");
    assert_eq!(server.events, []);
}

#[test]
fn a_report_comes_back_until_the_input_is_received() {
    let mut server = Server::new();
    let (conn, mut peer) = server.pair();
    peer.write_all(b"x").expect("write");
    server.until(|_, _, event| (*event == Event::Readable { conn }).then_some(()));
    for _ in 0..3 {
        server.tcp.poll(None, &mut server.events).expect("poll");
        assert_eq!(server.events, [Event::Readable { conn }]);
    }
}

#[test]
fn one_short_receive_a_turn_is_enough() {
    let mut server = Server::new();
    let (conn, mut peer) = server.pair();
    for round in 1..=50u64 {
        peer.write_all(b"update").expect("write");
        assert_eq!(server.receive(conn, 6), b"update");
        assert_eq!(server.tcp.counters().recv_calls, round);
    }
}

#[test]
fn a_flooding_connection_does_not_starve_another() {
    let mut server = Server::new();
    server.scratch = Scratch::new(4096);
    let (flood, mut flooder) = server.pair();
    let (quiet, mut whisperer) = server.pair();
    let flooding = thread::spawn(move || while flooder.write_all(&vec![1; 65_536]).is_ok() {});
    server.receive_some(flood, 100_000);
    whisperer.write_all(b"here").expect("write");
    // The flood has no end: if it were served first for as long as it has input, this would never be.
    server.until(|tcp, scratch, event| {
        let Event::Readable { conn } = *event else { return None };
        tcp.recv(conn, scratch);
        (conn == quiet).then_some(())
    });
    server.tcp.close(flood, Close::Reset);
    server.closed(flood);
    flooding.join().expect("flooder");
}

impl Server {
    fn receive_some(&mut self, wanted: ConnId, at_least: usize) {
        let mut count = 0;
        self.until(|tcp, scratch, event| {
            if *event == (Event::Readable { conn: wanted })
                && let RecvOutcome::Data(data) = tcp.recv(wanted, scratch)
            {
                assert!(data.len() <= 4096, "a turn is bounded by the scratch");
                count += data.len();
            }
            (count >= at_least).then_some(())
        });
    }
}

#[test]
fn a_refused_tail_is_queued_and_follows_in_order() {
    let mut server =
        Server::with(TcpConfig::default(), &SocketOptions { send_buffer: Some(96 * 1024), ..SocketOptions::default() });
    let (conn, mut peer) = server.pair();
    let sent = pattern(3_000_000);
    let mut outcomes = Vec::new();
    for part in sent.chunks(77_777) {
        outcomes.push(server.tcp.send(conn, part));
    }
    assert!(matches!(outcomes.last(), Some(SendOutcome::Queued(_))));
    let queued = server.tcp.queued(conn);
    assert!(queued > 1_000_000, "most of it cannot be in the kernel: {queued}");
    // Bytes in the peer's receive buffer are acknowledged; the rest of what the kernel took is backlog.
    while server.tcp.kernel_backlog(conn) == 0 {
        server.tcp.poll(Some(LIMIT), &mut server.events).expect("poll");
        assert_eq!(server.events, [], "not drained: the peer has not read anything");
    }
    let reader = thread::spawn(move || {
        let mut got = vec![0; 3_000_000];
        peer.read_exact(&mut got).expect("read");
        (got, peer)
    });
    server.until(|_, _, event| (*event == Event::Drained { conn }).then_some(()));
    assert_eq!(server.tcp.queued(conn), 0);
    let (got, mut peer) = reader.join().expect("reader");
    assert!(got == sent, "in order and complete");
    // Afterwards sends go straight to the kernel again.
    assert_eq!(server.tcp.send(conn, b"next"), SendOutcome::Sent);
    let mut next = [0; 4];
    peer.read_exact(&mut next).expect("read");
    assert_eq!(&next, b"next");
}

#[test]
fn repeated_stalls_arm_writability_once() {
    let options = SocketOptions { send_buffer: Some(96 * 1024), ..SocketOptions::default() };
    let mut server = Server::with(TcpConfig::default(), &options);
    let (conn, mut peer) = server.pair();
    let chunk = vec![7; 1_000_000];
    for _ in 0..10 {
        assert!(matches!(server.tcp.send(conn, &chunk), SendOutcome::Queued(_)));
        let reader = thread::spawn(move || {
            peer.read_exact(&mut vec![0; 1_000_000]).expect("read");
            peer
        });
        server.until(|_, _, event| (*event == Event::Drained { conn }).then_some(()));
        peer = reader.join().expect("reader");
    }
    assert!(server.tcp.counters().arms <= 12, "not twice a stall: {:?}", server.tcp.counters());
}

#[test]
fn exhausted_input_does_not_keep_the_next_poll_from_waiting() {
    let mut server = Server::with(TcpConfig::default(), &SocketOptions::default());
    let (conn, mut peer) = server.pair();
    peer.write_all(b"12345").expect("write");
    server.until(|_, _, event| (*event == Event::Readable { conn }).then_some(()));
    let mut scratch = Scratch::default();
    assert_eq!(server.tcp.timeout(), Some(0), "there is input");
    // A limit leaves the rest for later; less than the limit is all there was.
    assert_eq!(server.tcp.recv_at_most(conn, &mut scratch, 2), RecvOutcome::Data(&mut b"12".to_owned()));
    assert_eq!(server.tcp.timeout(), Some(0));
    assert_eq!(server.tcp.recv_at_most(conn, &mut scratch, 9), RecvOutcome::Data(&mut b"345".to_owned()));
    assert_eq!(server.tcp.timeout(), None);
    peer.write_all(b"6").expect("write");
    server.until(|_, _, event| (*event == Event::Readable { conn }).then_some(()));
    assert_eq!(server.tcp.recv(conn, &mut scratch), RecvOutcome::Data(&mut b"6".to_owned()));
}

fn with_batching(batching: Batching) -> Server {
    let options = SocketOptions { send_buffer: Some(96 * 1024), ..SocketOptions::default() };
    Server::with(TcpConfig { batching, ..TcpConfig::default() }, &options)
}

#[test]
fn a_batch_reaches_every_connection() {
    for batching in [Batching::Send, Batching::IoUring] {
        let mut server = with_batching(batching);
        let pairs: Vec<_> = (0..20).map(|_| server.pair()).collect();
        let bytes = pattern(20 * 100);
        let batch: Vec<_> = pairs.iter().enumerate().map(|(i, (conn, _))| (*conn, i * 100..i * 100 + 100)).collect();
        let before = server.tcp.counters().send_calls;
        let summary = server.tcp.send_all(&batch, |range| &bytes[range.clone()]);
        assert_eq!((summary.sent, summary.queued, summary.gone), (20, 0, 0));
        assert_eq!(server.tcp.counters().bytes_sent, 2000);
        let calls = server.tcp.counters().send_calls - before;
        let expected = if batching == Batching::IoUring && server.tcp.batching_refused().is_none() { 1 } else { 20 };
        assert_eq!(calls, expected, "{batching:?}");
        for (i, (_, mut peer)) in pairs.into_iter().enumerate() {
            let mut got = [0; 100];
            peer.read_exact(&mut got).expect("read");
            assert_eq!(got, bytes[i * 100..i * 100 + 100]);
        }
    }
}

#[test]
fn a_batch_treats_each_connection_by_its_state() {
    for batching in [Batching::Send, Batching::IoUring] {
        let mut server = with_batching(batching);
        let pairs: Vec<_> = (0..8).map(|_| server.pair()).collect();
        let [stalled, refusing, closing, gone, reset, faulty, empty, well] = std::array::from_fn(|i| pairs[i].0);
        server.tcp.send(stalled, &pattern(4_000_000));
        assert!(server.tcp.queued(stalled) > 0);
        server.tcp.close(closing, Close::Drain(LIMIT));
        server.tcp.close(gone, Close::Now);
        assert_eq!(server.closed(gone), CloseReason::Local { drained: false });
        server.tcp.set_fault(faulty, Some(ConnFault { cut_after_sent_bytes: Some(1), ..ConnFault::default() }));
        server.tcp.send(reset, b"unread");
        pairs[4].1.peek(&mut [0; 6]).expect("arrived");
        let mut peers: Vec<_> = pairs.into_iter().map(|(_, peer)| peer).collect();
        drop(peers.remove(4));
        server.until(|_, _, event| (*event == Event::Readable { conn: reset }).then_some(()));

        let bytes = pattern(4_000_000);
        let small = 0..100;
        let batch = [
            (stalled, small.clone()),
            (refusing, 0..bytes.len()),
            (closing, small.clone()),
            (gone, small.clone()),
            (reset, small.clone()),
            (faulty, small.clone()),
            (empty, 0..0),
            (well, small.clone()),
        ];
        // The kernel may have taken more of it meanwhile.
        let queued = server.tcp.queued(stalled);
        let summary = server.tcp.send_all(&batch, |range| &bytes[range.clone()]);
        assert_eq!((summary.sent, summary.queued, summary.gone), (2, 2, 4), "{batching:?}");
        assert_eq!(server.tcp.queued(stalled), queued + 100);
        assert!(server.tcp.queued(refusing) > 0);
        assert_eq!(server.closed(faulty), CloseReason::Fault);
        let mut got = [0; 100];
        peers.last_mut().expect("well").read_exact(&mut got).expect("read");
        assert_eq!(got, bytes[small]);
        // The long one arrives whole, behind nothing and before nothing.
        let mut peer = peers.remove(1);
        let reader = thread::spawn(move || {
            let mut got = vec![0; 4_000_000];
            peer.read_exact(&mut got).expect("read");
            got
        });
        server.until(|_, _, event| (*event == Event::Drained { conn: refusing }).then_some(()));
        assert!(reader.join().expect("reader") == bytes);
    }
}

#[test]
fn the_peers_end_is_told_from_a_reset() {
    let mut server = Server::new();
    let (conn, peer) = server.pair();
    drop(peer);
    assert_eq!(server.closed(conn), CloseReason::PeerClosed);

    let (conn, peer) = server.pair();
    assert_eq!(server.tcp.send(conn, b"unread bytes make the peer's close a reset"), SendOutcome::Sent);
    let mut first = [0];
    (&peer).read_exact(&mut first).expect("they have arrived");
    drop(peer);
    assert_eq!(server.closed(conn), CloseReason::Reset);
}

#[test]
fn input_before_the_end_is_delivered_even_if_a_send_failed() {
    let mut server = Server::new();
    let (conn, mut peer) = server.pair();
    server.tcp.send(conn, b"unread");
    peer.peek(&mut [0; 6]).expect("arrived");
    peer.write_all(b"last words").expect("write");
    drop(peer);
    // Data and reset are in; the send meets the reset first.
    server.until(|_, _, event| matches!(event, Event::Readable { .. }).then_some(()));
    while server.tcp.send(conn, b"x") == SendOutcome::Sent {}
    assert_eq!(server.receive(conn, 10), b"last words");
    assert_eq!(server.closed(conn), CloseReason::Reset);
}

#[test]
fn an_orderly_close_delivers_everything_first() {
    let options = SocketOptions { send_buffer: Some(96 * 1024), ..SocketOptions::default() };
    let mut server = Server::with(TcpConfig::default(), &options);
    let (conn, mut peer) = server.pair();
    // Unread input would turn a plain close into a reset that overtakes our last bytes.
    peer.write_all(b"never received").expect("write");
    let sent = pattern(1_000_000);
    assert!(matches!(server.tcp.send(conn, &sent), SendOutcome::Queued(_)));
    server.tcp.close(conn, Close::Drain(LIMIT));
    assert_eq!(server.tcp.send(conn, b"late"), SendOutcome::Gone);
    let reader = thread::spawn(move || {
        let mut got = Vec::new();
        peer.read_to_end(&mut got).expect("an end, not a reset");
        got
    });
    assert_eq!(server.closed(conn), CloseReason::Local { drained: true });
    assert!(reader.join().expect("reader") == sent);
}

#[test]
fn an_orderly_close_that_takes_too_long_is_a_reset() {
    let options = SocketOptions { send_buffer: Some(96 * 1024), ..SocketOptions::default() };
    let mut server = Server::with(TcpConfig::default(), &options);
    let (conn, mut peer) = server.pair();
    server.tcp.send(conn, &vec![1; 8_000_000]);
    server.tcp.close(conn, Close::Drain(Duration::from_millis(20)));
    assert_eq!(server.closed(conn), CloseReason::Local { drained: false });
    let mut got = Vec::new();
    let error = peer.read_to_end(&mut got).expect_err("the peer can tell that bytes are missing");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn an_orderly_close_does_not_wait_for_ever_for_the_peers_end() {
    let mut server = Server::new();
    let (conn, mut peer) = server.pair();
    server.tcp.send(conn, b"all");
    server.tcp.close(conn, Close::Drain(Duration::from_millis(20)));
    assert_eq!(server.closed(conn), CloseReason::Local { drained: false });
    let mut got = Vec::new();
    peer.read_to_end(&mut got).expect("in order");
    assert_eq!(got, b"all");
}

#[test]
fn a_reused_slot_does_not_get_what_was_meant_for_the_one_before() {
    let mut server = Server::new();
    let (old, mut old_peer) = server.pair();
    old_peer.write_all(b"for the old one").expect("write");
    server.until(|_, _, event| matches!(event, Event::Readable { .. }).then_some(()));
    server.tcp.close(old, Close::Now);
    assert_eq!(server.closed(old), CloseReason::Local { drained: false });
    let (new, mut new_peer) = server.pair();
    assert_eq!(new.slot(), old.slot(), "slots stay dense");
    assert_ne!(new, old);
    assert_eq!(server.tcp.send(old, b"x"), SendOutcome::Gone);
    assert_eq!(server.tcp.recv(old, &mut server.scratch), RecvOutcome::Ended);
    server.tcp.close(old, Close::Now);
    server.tcp.set_reading(old, false);
    new_peer.write_all(b"for the new one").expect("write");
    assert_eq!(server.receive(new, 15), b"for the new one");
}

#[test]
fn slots_are_dense_and_every_end_is_reported_once() {
    let mut server = Server::new();
    let mut ends = 0;
    for round in 0..20 {
        let peers: Vec<_> = (0..10).map(|_| server.pair()).collect();
        for (i, (conn, _)) in peers.iter().enumerate() {
            assert!(conn.slot() < 10, "round {round}");
            if i % 2 == 0 {
                server.tcp.close(*conn, Close::Now);
            }
        }
        drop(peers);
        let mut left = 10;
        server.until(|tcp, scratch, event| {
            match *event {
                Event::Readable { conn } => drop(tcp.recv(conn, scratch)),
                Event::Closed { .. } => {
                    ends += 1;
                    left -= 1;
                }
                _ => {}
            }
            (left == 0).then_some(())
        });
    }
    assert_eq!(ends, 200);
    assert_eq!(server.tcp.counters().closed, 200);
}

#[test]
fn reading_can_be_paused() {
    let mut server = Server::new();
    let (conn, mut peer) = server.pair();
    let (other, mut marker) = server.pair();
    server.tcp.set_reading(conn, false);
    peer.write_all(b"held").expect("write");
    marker.write_all(b"m").expect("write");
    server.until(|_, _, event| {
        assert_ne!(*event, Event::Readable { conn });
        (*event == Event::Readable { conn: other }).then_some(())
    });
    server.tcp.set_reading(conn, true);
    assert_eq!(server.receive(conn, 4), b"held");
}

#[test]
fn those_who_are_patient_wait_together() {
    let mut server = Server::new();
    let (conn, mut peer) = server.pair();
    let (other, mut marker) = server.pair();
    server.tcp.set_patient(conn, true);
    peer.write_all(b"one").expect("write");
    assert_eq!(server.receive(conn, 3), b"one");
    server.tcp.hold_patient(true);
    peer.write_all(b"two").expect("write");
    for _ in 0..3 {
        marker.write_all(b"m").expect("write");
        server.until(|_, _, event| {
            assert_ne!(*event, Event::Readable { conn });
            (*event == Event::Readable { conn: other }).then_some(())
        });
        assert_eq!(server.receive(other, 1), b"m");
    }
    // Held bytes are no reason to look again at once.
    let mut events = Vec::new();
    server.tcp.poll(Some(Duration::ZERO), &mut events).expect("it is there");
    assert_eq!((events.as_slice(), server.tcp.timeout()), (&[][..], None));
    server.tcp.hold_patient(false);
    assert_eq!(server.receive(conn, 3), b"two");
}

#[test]
fn a_paused_connection_that_is_reset_ends() {
    let mut server = Server::new();
    let (conn, peer) = server.pair();
    server.tcp.send(conn, b"unread");
    peer.peek(&mut [0; 6]).expect("arrived");
    server.tcp.set_reading(conn, false);
    drop(peer);
    assert_eq!(server.closed(conn), CloseReason::Reset);
}

#[test]
fn accepting_can_be_paused() {
    let mut server = Server::new();
    let (conn, mut marker) = server.pair();
    server.tcp.set_accepting(server.listener, false).expect("pause");
    let _waiting = TcpStream::connect(server.addr).expect("the backlog takes it");
    marker.write_all(b"m").expect("write");
    server.until(|_, _, event| {
        assert!(!matches!(event, Event::Accepted { .. }));
        (*event == Event::Readable { conn }).then_some(())
    });
    server.tcp.set_accepting(server.listener, true).expect("resume");
    server.accept();
    server.tcp.close_listener(server.listener);
    assert!(TcpStream::connect(server.addr).is_err());
}

#[test]
fn the_granted_buffer_sizes_can_be_read() {
    let options =
        SocketOptions { send_buffer: Some(100_000), receive_buffer: Some(50_000), ..SocketOptions::default() };
    let mut server = Server::with(TcpConfig::default(), &options);
    let addr = server.addr;
    let outgoing = server.tcp.connect(addr, &options).expect("connect");
    let accepted = server.accept();
    for conn in [outgoing, accepted] {
        let granted = server.tcp.buffer_sizes(conn).expect("sizes");
        assert_eq!((granted.send, granted.receive), (200_000, 100_000), "doubled by the kernel");
    }
}

#[test]
fn several_listeners_share_a_port_if_they_want_to() {
    let options = SocketOptions { reuse_port: true, ..SocketOptions::default() };
    let mut tcp = Tcp::new(TcpConfig::default()).expect("a set");
    let (_, addr) = tcp.listen(ANY, &options).expect("first");
    tcp.listen(addr, &options).expect("second");
    let error = tcp.listen(addr, &SocketOptions::default()).expect_err("without the option");
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

#[test]
fn ipv6_works() {
    let mut server = Server::new();
    let Ok((_, addr)) = server.tcp.listen("[::1]:0".parse().expect("addr"), &SocketOptions::default()) else {
        return; // no IPv6 on this machine
    };
    let conn = server.tcp.connect(addr, &SocketOptions::default()).expect("connect");
    server.until(|_, _, event| (*event == Event::Connected { conn }).then_some(()));
    assert_eq!(server.tcp.peer_addr(conn).expect("peer"), addr);
}

#[test]
fn a_wake_up_is_never_lost_and_wake_ups_coalesce() {
    let mut tcp = Tcp::new(TcpConfig::default()).expect("a set");
    let mut events = Vec::new();
    let waker = tcp.waker();
    for _ in 0..10 {
        waker.wake();
    }
    tcp.poll(None, &mut events).expect("poll");
    assert_eq!(events, [Event::Woken]);
    tcp.poll(Some(Duration::ZERO), &mut events).expect("poll");
    assert_eq!(events, []);
    // Each number the thread stores must be seen by a poll that does not time out.
    let stored = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = 20_000;
    let writer = thread::spawn({
        let stored = stored.clone();
        move || {
            for n in 1..=count {
                stored.store(n, std::sync::atomic::Ordering::Relaxed);
                waker.wake();
            }
        }
    });
    while stored.load(std::sync::atomic::Ordering::Relaxed) < count {
        tcp.poll(Some(LIMIT), &mut events).expect("poll");
        assert_eq!(events, [Event::Woken], "a time-out: a wake-up was lost");
    }
    writer.join().expect("writer");
}

#[test]
fn a_timeout_below_a_millisecond_is_kept() {
    let mut tcp = Tcp::new(TcpConfig::default()).expect("a set");
    let mut events = Vec::new();
    let start = Instant::now();
    for _ in 0..20 {
        tcp.poll(Some(Duration::from_micros(50)), &mut events).expect("poll");
    }
    assert!(start.elapsed() >= Duration::from_millis(1));
    assert_eq!(events, []);
}

#[test]
fn a_foreign_descriptor_is_watched() {
    use std::os::fd::AsFd;
    let mut server = Server::new();
    let socket = std::net::UdpSocket::bind(ANY).expect("bind");
    server.tcp.watch(socket.as_fd(), 42).expect("watch");
    let sender = std::net::UdpSocket::bind(ANY).expect("bind");
    sender.send_to(b"d", socket.local_addr().expect("addr")).expect("send");
    server.until(|_, _, event| (*event == Event::Ready { token: 42 }).then_some(()));
    server.until(|_, _, event| (*event == Event::Ready { token: 42 }).then_some(()));
    // With the input taken, it is silent until it is also watched for output.
    socket.recv(&mut [0; 8]).expect("recv");
    server.tcp.poll(Some(Duration::ZERO), &mut server.events).expect("poll");
    assert_eq!(server.events, []);
    server.tcp.watch_output(socket.as_fd(), 42, true).expect("watch");
    server.until(|_, _, event| (*event == Event::Ready { token: 42 }).then_some(()));
    server.tcp.watch_output(socket.as_fd(), 42, false).expect("watch");
    server.tcp.poll(Some(Duration::ZERO), &mut server.events).expect("poll");
    assert_eq!(server.events, []);
    sender.send_to(b"d", socket.local_addr().expect("addr")).expect("send");
    server.tcp.unwatch(socket.as_fd()).expect("unwatch");
    server.tcp.poll(Some(Duration::ZERO), &mut server.events).expect("poll");
    assert_eq!(server.events, []);
}

#[test]
fn an_adopted_stream_is_like_any_other() {
    let listener = TcpListener::bind(ANY).expect("bind");
    let mut peer = TcpStream::connect(listener.local_addr().expect("addr")).expect("connect");
    let (stream, _) = listener.accept().expect("accept");
    let mut server = Server::new();
    peer.write_all(b"before it was adopted").expect("write");
    let conn = server.tcp.adopt(stream).expect("adopt");
    assert_eq!(server.receive(conn, 21), b"before it was adopted");
}

#[test]
fn a_fault_cuts_after_so_many_bytes() {
    let mut server = Server::new();
    let (conn, mut peer) = server.pair();
    server.tcp.set_fault(conn, Some(ConnFault { cut_after_received_bytes: Some(5), ..ConnFault::default() }));
    peer.write_all(b"0123456789").expect("write");
    assert_eq!(server.receive(conn, 5), b"01234");
    assert_eq!(server.closed(conn), CloseReason::Fault);

    let (conn, mut peer) = server.pair();
    server.tcp.set_fault(conn, Some(ConnFault { cut_after_sent_bytes: Some(5), ..ConnFault::default() }));
    assert_eq!(server.tcp.send(conn, b"012"), SendOutcome::Sent);
    assert_eq!(server.tcp.send(conn, b"3456"), SendOutcome::Gone);
    let mut got = Vec::new();
    peer.read_to_end(&mut got).expect("an end");
    assert_eq!(got, b"01234");
    assert_eq!(server.closed(conn), CloseReason::Fault);
}

#[test]
fn a_fault_stalls_and_cuts_input_into_pieces() {
    let mut server = Server::new();
    let (conn, mut peer) = server.pair();
    let (marker, mut marking) = server.pair();
    server.tcp.set_fault(conn, Some(ConnFault { stall_reads: true, ..ConnFault::default() }));
    peer.write_all(b"abcdefgh").expect("write");
    marking.write_all(b"m").expect("write");
    server.until(|_, _, event| {
        assert_ne!(*event, Event::Readable { conn });
        (*event == Event::Readable { conn: marker }).then_some(())
    });
    server.tcp.set_fault(conn, Some(ConnFault { receive_at_most_bytes: Some(3), ..ConnFault::default() }));
    let mut pieces = Vec::new();
    server.until(|tcp, scratch, event| {
        if *event == (Event::Readable { conn })
            && let RecvOutcome::Data(data) = tcp.recv(conn, scratch)
        {
            pieces.push(data.to_vec());
        }
        (pieces.concat().len() == 8).then_some(())
    });
    assert_eq!(pieces, [b"abc".to_vec(), b"def".to_vec(), b"gh".to_vec()]);
}

#[test]
fn a_plan_drops_connections_instead_of_accepting_them() {
    let config = TcpConfig {
        faults: Some(FaultPlan::new(1, FaultRates { drop_accepts: 1000, ..FaultRates::default() })),
        ..TcpConfig::default()
    };
    let mut server = Server::with(config, &SocketOptions::default());
    let mut peer = TcpStream::connect(server.addr).expect("connect");
    server.tcp.poll(Some(LIMIT), &mut server.events).expect("poll");
    assert_eq!(server.events, []);
    assert_eq!(peer.read(&mut [0; 1]).expect("an end"), 0);
}
