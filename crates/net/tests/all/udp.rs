//! UDP on loopback: unicast and multicast, one by one, in batches and in trains, with each offload on and off.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use net::udp::{Offload, Slabs, UdpOptions, UdpSocket};

const ANY_PORT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);

fn options(gso: bool, gro: bool) -> UdpOptions {
    UdpOptions { gso, gro, receive_buffer: Some(4 << 20), ..UdpOptions::default() }
}

/// Receives until so many datagrams are there; panics if they do not come.
fn collect(socket: &mut UdpSocket, slabs: &mut Slabs, count: usize) -> Vec<(SocketAddrV4, Vec<u8>)> {
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut all = Vec::new();
    while all.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} datagrams came", all.len());
        socket.wait_readable(Some(Duration::from_secs(1))).expect("wait");
        for arrival in &socket.recv(slabs).expect("recv") {
            all.extend(arrival.datagrams().map(|datagram| (arrival.source, datagram.to_vec())));
        }
    }
    all
}

/// Bytes that differ from datagram to datagram.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 31 + i / 251) as u8).collect()
}

#[test]
fn trains_arrive_as_the_datagrams_they_are_made_of_with_every_offload_on_and_off() {
    let mut slabs = Slabs::default();
    for (gso, gro) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut receiver = UdpSocket::bind(ANY_PORT, &options(gso, gro)).expect("bind");
        let mut sender = UdpSocket::bind(ANY_PORT, &options(gso, gro)).expect("bind");
        // (bytes, segment): one datagram; exact and short ends; the longest of trains; longer than one train may be; a jumbo.
        for (bytes, segment) in [
            (1, 1),
            (64, 64),
            (1_000, 100),
            (1_001, 100),
            (65_507, 1_024),
            (200_000, 1_400),
            (40_000, 8_192),
            (90_000, 30_000),
        ] {
            let sent = pattern(bytes);
            let count = sender.send_train(Some(receiver.local_addr()), &sent, segment).expect("send");
            assert_eq!(count, bytes.div_ceil(segment), "gso {gso} gro {gro}: {bytes} in {segment}");
            let got = collect(&mut receiver, &mut slabs, count);
            let expected: Vec<_> =
                sent.chunks(segment).map(|datagram| (sender.local_addr(), datagram.to_vec())).collect();
            assert!(got == expected, "gso {gso} gro {gro}: {bytes} in {segment}");
        }
        assert_eq!((sender.gso() == Offload::On, receiver.gro() == Offload::On), (gso, gro), "loopback does both");
        assert_eq!(receiver.counters().datagrams_received, sender.counters().datagrams_sent);
        assert_eq!(receiver.counters().bytes_received, sender.counters().bytes_sent);
        assert_eq!((receiver.refresh_drops(), sender.counters().send_losses), (0, 0));
    }
}

#[test]
fn a_train_is_one_call_on_either_side() {
    let mut slabs = Slabs::default();
    let mut receiver = UdpSocket::bind(ANY_PORT, &options(true, true)).expect("bind");
    let mut sender = UdpSocket::bind(ANY_PORT, &options(true, true)).expect("bind");
    assert_eq!(sender.send_train(Some(receiver.local_addr()), &pattern(46 * 1_408), 1_408).expect("send"), 46);
    assert_eq!(sender.counters().send_calls, 1);
    assert!(receiver.wait_readable(Some(Duration::from_secs(10))).expect("wait"));
    let received = receiver.recv(&mut slabs).expect("recv");
    let arrivals: Vec<_> = received.iter().map(|arrival| (arrival.bytes.len(), arrival.segment)).collect();
    assert_eq!(arrivals, [(46 * 1_408, 1_408)]);
    assert!(!received.is_full() && sender.wait_writable(None).expect("wait"));
}

#[test]
fn a_train_that_the_kernel_refuses_goes_out_one_by_one_and_shorter_ones_are_tried_again() {
    let mut slabs = Slabs::default();
    let mut receiver = UdpSocket::bind(ANY_PORT, &options(true, false)).expect("bind");
    let mut sender = UdpSocket::bind(ANY_PORT, &options(true, true)).expect("bind");
    sender.connect(receiver.local_addr()).expect("connect");
    // Without checksums the kernel refuses trains by EINVAL, as it does those above the path's MTU.
    set_no_checksums(&sender, true);
    let train = pattern(20 * 1_000);
    for calls in [2, 1] {
        let before = sender.counters().send_calls;
        assert_eq!(sender.send_train(None, &train, 1_000).expect("send"), 20);
        assert_eq!(sender.counters().send_calls - before, calls, "refused once, then not tried");
        let got = collect(&mut receiver, &mut slabs, 20);
        assert!(got.iter().map(|(_, bytes)| bytes.as_slice()).eq(train.chunks(1_000)));
    }
    set_no_checksums(&sender, false);
    let before = sender.counters().send_calls;
    assert_eq!(sender.send_train(None, &train, 999).expect("send"), 21);
    assert_eq!(sender.counters().send_calls - before, 1, "a train again");
    assert_eq!(collect(&mut receiver, &mut slabs, 21).len(), 21);
    assert_eq!((sender.gso(), sender.counters().send_losses), (Offload::On, 0));
}

fn set_no_checksums(socket: &UdpSocket, on: bool) {
    let value = libc::c_int::from(on);
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`, an int.
    let result = unsafe {
        let fd = socket.as_fd().as_raw_fd();
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_NO_CHECK, (&raw const value).cast(), len)
    };
    assert_eq!(result, 0);
}

#[test]
fn a_batch_goes_to_many_peers_in_order() {
    let mut slabs = Slabs::new(1);
    let mut receivers: Vec<_> =
        (0..3).map(|_| UdpSocket::bind(ANY_PORT, &options(true, false)).expect("bind")).collect();
    let mut sender = UdpSocket::bind(ANY_PORT, &options(true, true)).expect("bind");
    // More than one call takes.
    let datagrams: Vec<_> = (0..300).map(|i| (receivers[i % 3].local_addr(), pattern(i + 1))).collect();
    let sent = sender.send_batch(datagrams.iter().map(|(to, bytes)| (Some(*to), bytes.as_slice()))).expect("send");
    assert_eq!(sent, 300);
    for (i, receiver) in receivers.iter_mut().enumerate() {
        let got = collect(receiver, &mut slabs, 100);
        let lengths: Vec<_> = got.iter().map(|(_, bytes)| bytes.len()).collect();
        assert_eq!(lengths, (0..100).map(|k| 3 * k + i + 1).collect::<Vec<_>>());
        assert!(got.iter().all(|(_, bytes)| *bytes == pattern(bytes.len())));
    }
}

#[test]
fn every_member_of_a_group_gets_what_is_sent_to_it_and_nobody_else_does() {
    let (group, other) = (Ipv4Addr::new(239, 192, 77, 1), Ipv4Addr::new(239, 192, 77, 2));
    let mut slabs = Slabs::default();
    let shared = UdpOptions { reuse_address: true, destination: true, ..options(true, true) };
    let mut first = UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0), &shared).expect("bind");
    let port = first.local_addr().port();
    let mut second = UdpSocket::bind(SocketAddrV4::new(group, port), &shared).expect("bind to the group");
    let mut outsider = UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port), &shared).expect("bind");
    for member in [&first, &second] {
        member.join(group, Ipv4Addr::LOCALHOST).expect("join");
    }
    outsider.join(other, Ipv4Addr::LOCALHOST).expect("join");

    let sending =
        UdpOptions { multicast_interface: Some(Ipv4Addr::LOCALHOST), multicast_ttl: 0, ..options(true, true) };
    let mut sender = UdpSocket::bind(ANY_PORT, &sending).expect("bind");
    let train = pattern(10 * 500);
    assert_eq!(sender.send_train(Some(SocketAddrV4::new(group, port)), &train, 500).expect("send"), 10);
    for member in [&mut first, &mut second] {
        let got = collect(member, &mut slabs, 10);
        assert!(got.iter().map(|(_, bytes)| bytes.as_slice()).eq(train.chunks(500)));
    }
    assert!(outsider.recv(&mut slabs).expect("recv").is_empty(), "in the other group only");

    assert!(sender.send(Some(SocketAddrV4::new(other, port)), b"other").expect("send"));
    assert!(outsider.wait_readable(Some(Duration::from_secs(10))).expect("wait"));
    let destinations: Vec<_> = outsider.recv(&mut slabs).expect("recv").iter().map(|a| a.destination).collect();
    assert_eq!(destinations, [Some(other)]);

    first.leave(group, Ipv4Addr::LOCALHOST).expect("leave");
    assert!(first.leave(group, Ipv4Addr::LOCALHOST).is_err(), "left already");
    sender.send(Some(SocketAddrV4::new(group, port)), b"again").expect("send");
    assert_eq!(collect(&mut second, &mut slabs, 1).len(), 1);
    assert!(first.recv(&mut slabs).expect("recv").is_empty(), "left");
}

#[test]
fn a_group_that_cannot_be_joined_says_why() {
    let socket = UdpSocket::bind(ANY_PORT, &UdpOptions::default()).expect("bind");
    let error =
        socket.join(Ipv4Addr::new(239, 1, 1, 1), Ipv4Addr::new(203, 0, 113, 77)).expect_err("no such interface");
    let text = error.to_string();
    assert!(text.contains("239.1.1.1") && text.contains("203.0.113.77") && text.contains("interface"), "{text}");
    let error = UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::new(203, 0, 113, 77), 0), &UdpOptions::default());
    assert!(error.expect_err("not ours").to_string().contains("203.0.113.77"));
}

#[test]
fn what_finds_the_buffer_full_is_counted() {
    let mut slabs = Slabs::default();
    let small = UdpOptions { receive_buffer: Some(4_096), gro: false, ..UdpOptions::default() };
    let mut receiver = UdpSocket::bind(ANY_PORT, &small).expect("bind");
    let mut sender = UdpSocket::bind(ANY_PORT, &options(false, false)).expect("bind");
    let to = Some(receiver.local_addr());
    let payload = pattern(1_000);
    for _ in 0..200 {
        assert!(sender.send(to, &payload).expect("send"));
    }
    let kept = collect(&mut receiver, &mut slabs, 1).len() as u64;
    assert_eq!(kept + receiver.refresh_drops(), 200);
    assert!(receiver.drops() > 100);
    // And without a system call, once something comes after the loss.
    let mut other = UdpSocket::bind(ANY_PORT, &small).expect("bind");
    let to = Some(other.local_addr());
    for _ in 0..200 {
        assert!(sender.send(to, &payload).expect("send"));
    }
    let kept = collect(&mut other, &mut slabs, 1).len() as u64;
    assert!(sender.send(to, b"last").expect("send"));
    assert_eq!(collect(&mut other, &mut slabs, 1)[0].1, b"last");
    assert_eq!(kept + other.drops(), 200);
}

#[test]
fn a_datagram_longer_than_allowed_is_dropped_and_counted() {
    let mut slabs = Slabs::default();
    let mut sender = UdpSocket::bind(ANY_PORT, &options(false, false)).expect("bind");
    for gro in [false, true] {
        let bounded = UdpOptions { datagram_max: 1_000, ..options(false, gro) };
        let mut receiver = UdpSocket::bind(ANY_PORT, &bounded).expect("bind");
        let to = Some(receiver.local_addr());
        for length in [1_001, 1_000, 60_000, 999] {
            assert!(sender.send(to, &pattern(length)).expect("send"));
        }
        let lengths: Vec<_> = collect(&mut receiver, &mut slabs, 2).iter().map(|(_, bytes)| bytes.len()).collect();
        assert_eq!((lengths.as_slice(), receiver.counters().truncated), ([1_000, 999].as_slice(), 2), "gro {gro}");
    }
}

#[test]
fn a_peer_that_is_gone_is_counted_and_no_error() {
    let mut slabs = Slabs::default();
    let peer = UdpSocket::bind(ANY_PORT, &UdpOptions::default()).expect("bind");
    let to = peer.local_addr();
    drop(peer);
    let mut sender = UdpSocket::bind(ANY_PORT, &UdpOptions::default()).expect("bind");
    sender.connect(to).expect("connect");
    for _ in 0..5 {
        assert!(sender.send(None, b"is anybody there?").expect("send"));
        assert_eq!(sender.send_train(None, &[7; 300], 100).expect("send"), 3);
        assert!(sender.recv(&mut slabs).expect("recv").is_empty());
    }
    assert!(sender.counters().refused > 0);
    // A new socket there is heard at once.
    let mut peer = UdpSocket::bind(to, &UdpOptions::default()).expect("bind");
    assert_eq!(sender.send_train(None, &[7; 300], 100).expect("send"), 3);
    assert_eq!(collect(&mut peer, &mut slabs, 3).len(), 3);
}

#[test]
fn what_the_caller_does_wrong_is_an_error_and_what_the_network_does_is_loss() {
    let mut sender = UdpSocket::bind(ANY_PORT, &options(true, true)).expect("bind");
    let here = sender.local_addr();
    assert!(sender.send(Some(here), &pattern(65_508)).is_err(), "too long");
    assert!(sender.send(None, b"to whom?").is_err(), "no address");
    // A socket of loopback has no way to other hosts.
    let away = SocketAddrV4::new(Ipv4Addr::new(203, 0, 113, 1), 9);
    assert!(sender.send(Some(away), b"far").expect("no mistake of ours"));
    assert!(sender.counters().send_losses == 1 && sender.send_error().is_some());
}

/// Peers choose the addresses that are answered: a datagram may come from port 0.
#[test]
fn an_address_that_cannot_be_sent_to_costs_its_own_datagrams_alone() {
    let mut slabs = Slabs::default();
    let mut peer = UdpSocket::bind(ANY_PORT, &options(true, true)).expect("bind");
    let mut sender = UdpSocket::bind(ANY_PORT, &options(true, true)).expect("bind");
    let good = Some(peer.local_addr());
    let everybody = SocketAddrV4::new(Ipv4Addr::BROADCAST, 9);
    for bad in [ANY_PORT, everybody] {
        let lost = sender.counters().send_losses;
        assert!(sender.send(Some(bad), b"an answer").expect("no mistake of ours"));
        let batch = [(good, &b"one"[..]), (Some(bad), b"two"), (good, b"three")];
        assert_eq!(sender.send_batch(batch).expect("no mistake of ours"), 3);
        let came: Vec<_> = collect(&mut peer, &mut slabs, 2).into_iter().map(|(_, bytes)| bytes).collect();
        assert_eq!(came, [b"one".to_vec(), b"three".to_vec()]);
        assert_eq!(sender.send_train(Some(bad), &[7; 300], 100).expect("no mistake of ours"), 3);
        assert_eq!(sender.counters().send_losses - lost, 5);
    }
    // Trains of that length go to others as before.
    let calls = sender.counters().send_calls;
    assert_eq!(sender.send_train(good, &[7; 300], 100).expect("send"), 3);
    assert_eq!((sender.counters().send_calls - calls, sender.gso()), (1, Offload::On));
    assert_eq!(collect(&mut peer, &mut slabs, 3).len(), 3);
}

#[test]
fn sockets_that_share_a_port_share_its_peers() {
    let shared = UdpOptions { reuse_port: true, ..UdpOptions::default() };
    let first = UdpSocket::bind(ANY_PORT, &shared).expect("bind");
    let second = UdpSocket::bind(first.local_addr(), &shared).expect("the same port");
    assert_eq!(first.local_addr(), second.local_addr());
    assert!(UdpSocket::bind(first.local_addr(), &UdpOptions::default()).is_err(), "not to one who does not share");
}

/// Two sockets at one address: the connected one has its peer, the other one all others, also after the connected one has gone.
#[test]
fn a_socket_beside_another_has_its_peer_and_nobody_else() {
    let mut slabs = Slabs::default();
    let mut shared = UdpSocket::bind(ANY_PORT, &options(true, true)).expect("bind");
    let (mut near, mut far) = (
        UdpSocket::bind(ANY_PORT, &options(true, true)).expect("bind"),
        UdpSocket::bind(ANY_PORT, &options(true, true)).expect("bind"),
    );
    let at = shared.local_addr();
    let mut own = shared.beside(near.local_addr(), &options(true, true)).expect("a second socket");
    assert_eq!(own.local_addr(), at);
    for n in 0..20u8 {
        near.send(Some(at), &[n]).expect("send");
        far.send(Some(at), &[100 + n]).expect("send");
        let heard = |socket: &mut UdpSocket, slabs: &mut Slabs| collect(socket, slabs, 1).remove(0);
        assert_eq!(heard(&mut own, &mut slabs), (near.local_addr(), vec![n]));
        assert_eq!(heard(&mut shared, &mut slabs), (far.local_addr(), vec![100 + n]));
    }
    assert_eq!(own.send_train(None, &pattern(1_001), 100).expect("send"), 11);
    assert!(collect(&mut near, &mut slabs, 11).iter().all(|(from, _)| *from == at), "from the address that near knows");

    let taken = UdpSocket::bind(at, &UdpOptions { reuse_address: true, ..options(true, true) });
    assert_eq!(taken.expect_err("nobody else gets the port").kind(), std::io::ErrorKind::AddrInUse);
    drop(own);
    near.send(Some(at), b"again").expect("send");
    assert_eq!(collect(&mut shared, &mut slabs, 1), [(near.local_addr(), b"again".to_vec())]);
}
