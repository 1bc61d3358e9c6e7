//! The options that the report on LBM names in its section 2.2.8, each read from the text of a file and known by what it does.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use crate::world::World;
use lbm::wire::{Writer, lbtrm};
use lbm_io::options::{ContextOption, Options, SourceOption};
use lbm_io::{SendFlags, SourceId, Transport, Warning};
use net::udp::{Slabs, UdpOptions, UdpSocket};

const TOPIC: &str = "md.equities.ibm";

/// A source that is heard, and its receiver; nothing is under way.
fn introduced(lines: &str) -> (World, SourceId) {
    let mut world = World::new(&format!("source transport lbtrm\n{lines}"));
    let options = world.options.clone();
    let source = world.left.source(TOPIC, &options).expect("a source");
    world.right.receiver(TOPIC, &options).expect("a receiver");
    world.introduce(source, TOPIC);
    world.settle(source, TOPIC);
    (world, source)
}

fn datagrams(world: &mut World) -> u64 {
    world.left.stats().sending[0].sent.datagrams
}

#[test]
fn implicit_batching_minimum_length() {
    let (mut world, source) = introduced("source implicit_batching_minimum_length 1");
    let before = datagrams(&mut world);
    for _ in 0..50 {
        world.left.send(source, &[7; 100], SendFlags::NONE).expect("room");
    }
    assert_eq!(datagrams(&mut world) - before, 50, "every message at once");

    // The longest wait is longer than the test.
    let (mut world, source) =
        introduced("source implicit_batching_minimum_length 8192\nsource implicit_batching_interval 600000");
    let before = datagrams(&mut world);
    // Of a datagram of 8,192 bytes 20 are the transport's; a message has 12 of its own.
    let fit = (8_192 - 20) / 112;
    for _ in 0..fit {
        world.left.send(source, &[7; 100], SendFlags::NONE).expect("room");
    }
    world.turns_for(Duration::from_millis(5));
    assert_eq!(datagrams(&mut world) - before, 0, "{fit} messages wait for company");
    world.left.send(source, &[7; 100], SendFlags::NONE).expect("room");
    world.until("the full one", |w| datagrams(w) - before == 1);
    world.until("its messages", |w| w.ear.topic(TOPIC).messages.len() == fit);
}

#[test]
fn transport_lbtrm_receiver_socket_buffer() {
    // Nobody reads while this comes.
    let burst = |bytes: u64| {
        let (mut world, source) = introduced(&format!(
            "context transport_lbtrm_receiver_socket_buffer {bytes}
            context udp_offload 0
            source implicit_batching_minimum_length 1"
        ));
        for _ in 0..1_000 {
            world.left.send(source, &[7; 1_000], SendFlags::NONE).expect("room");
        }
        // The kernel tells of drops with the next datagram that it takes.
        world.until("all messages", |w| w.ear.topic(TOPIC).messages.len() == 1_000);
        let granted = world.right.warnings().all(|w| !w.to_string().contains("transport_lbtrm_receiver_socket_buffer"));
        (world.right.stats().dropped, granted)
    };
    assert!(burst(20_000).0 > 0);
    let (dropped, granted) = burst(8_388_608);
    assert!(dropped == 0 || !granted, "{dropped} dropped");
}

#[test]
fn a_buffer_that_is_not_granted_is_told_with_the_command_that_helps() {
    let (mut world, _) = introduced("context transport_lbtrm_receiver_socket_buffer 4000000000");
    let texts: Vec<String> = world.right.warnings().map(|w: Warning| w.to_string()).collect();
    let told = texts.iter().find(|t| t.starts_with("transport_lbtrm_receiver_socket_buffer: ")).expect("a warning");
    assert!(told.contains("sysctl -w net.core.rmem_max=4000000000"), "{told}");
}

/// A socket that hears what goes to the world's data group.
fn listener(options: &Options) -> UdpSocket {
    let group = options.get(ContextOption::TRANSPORT_LBTRM_MULTICAST_ADDRESS_LOW);
    let port = options.get(SourceOption::TRANSPORT_LBTRM_DESTINATION_PORT);
    let own = UdpOptions { reuse_address: true, gro: false, ..UdpOptions::default() };
    let socket = UdpSocket::bind(SocketAddrV4::new(group, port), &own).expect("a socket");
    socket.join(group, Ipv4Addr::LOCALHOST).expect("the group");
    socket
}

#[test]
fn transport_datagram_max_size() {
    for (lines, longest) in [
        ("context transport_datagram_max_size 1472", 1_472),
        ("", 8_192),
        // A transport's own option goes over the general one.
        ("context transport_datagram_max_size 1472\ncontext transport_lbtrm_datagram_max_size 4000", 4_000),
    ] {
        let (mut world, source) = introduced(&format!("context udp_offload 0\n{lines}"));
        let (mut socket, mut slabs) = (listener(&world.options), Slabs::new(64));
        world.left.send(source, &vec![7; 50_000], SendFlags::FLUSH).expect("room");
        world.until("the message", |w| w.ear.topic(TOPIC).messages.len() == 1);
        let mut seen = 0;
        while seen < longest {
            let received = socket.recv(&mut slabs).expect("the socket");
            assert!(!received.is_empty(), "{lines}: no datagram of {longest} bytes but of {seen}");
            let lengths = received.iter().flat_map(|arrival| arrival.datagrams()).map(<[u8]>::len);
            seen = lengths.fold(seen, usize::max);
        }
        assert_eq!(seen, longest, "{lines}");
    }
}

/// Both say who may send; here a context belongs to one thread, and no lock is taken with either. All ways of waiting are epoll.
#[test]
fn transport_session_multiple_sending_threads_and_fd_management_type() {
    for lines in
        ["context transport_session_multiple_sending_threads 0", "context transport_session_multiple_sending_threads 1"]
            .into_iter()
            .chain([
                "context fd_management_type poll",
                "context fd_management_type select",
                "context fd_management_type epoll",
            ])
    {
        let (mut world, source) = introduced(lines);
        world.left.send(source, b"one", SendFlags::FLUSH).expect("room");
        world.until("the message", |w| w.ear.topic(TOPIC).messages.len() == 1);
    }
    let mut options = Options::new();
    let error = options.parse("lbm.cfg", "\ncontext fd_management_type pol").expect_err("no such way");
    let text = error[0].to_string();
    assert!(text.starts_with("lbm.cfg:2: fd_management_type wants one of select, poll, epoll"), "{text}");
}

#[test]
fn transport_lbtrm_ignore_interval() {
    for (interval, pause, repeated) in [(15, Duration::from_millis(40), 2), (3_600_000, Duration::from_millis(40), 1)] {
        let (mut world, source) = introduced(&format!("source transport_lbtrm_ignore_interval {interval}"));
        let Some(Transport::Lbtrm { source: address, unicast_port, session_id, .. }) =
            world.left.sources().transport(source).copied()
        else {
            panic!("an LBT-RM session")
        };
        let mut bytes = [0; 64];
        let mut w = Writer::new(&mut bytes);
        lbtrm::encode_nak(&mut w, unicast_port, session_id, &[0]).expect("fits");
        let mut socket =
            UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), &UdpOptions::default()).expect("a socket");
        for naks in 1..=2 {
            socket.send(Some(SocketAddrV4::new(address, unicast_port)), w.written()).expect("sent");
            world.until("the NAK", |world| world.left.stats().sending[0].sent.naks == naks);
            world.turns_for(pause);
        }
        let sent = world.left.stats().sending[0].sent;
        assert_eq!((sent.retransmissions, sent.naks_ignored), (repeated, 2 - repeated), "{interval} ms");
        assert_eq!(sent.ncfs, 2 - repeated, "{interval} ms");
    }
}

#[test]
fn delivery_control_maximum_burst_loss() {
    for (gap, events) in [(2_048, 2_048), (2_049, 1)] {
        let (mut world, source) = introduced(
            "receiver delivery_control_maximum_burst_loss 2048
            receiver transport_lbtrm_send_naks 0
            receiver transport_lbtrm_nak_generation_interval 20
            source implicit_batching_minimum_length 1",
        );
        let last = world.left.send(source, b"before", SendFlags::NONE).expect("room");
        world.until("the one before", |w| w.ear.topic(TOPIC).messages.len() == 1);
        world.right.lose(1_000_000, 1);
        for i in 0..gap {
            world.left.send(source, b"lost", SendFlags::NONE).expect("room");
            if i % 100 == 0 {
                world.turn();
            }
        }
        // What is in the socket's buffer is lost as well.
        world.until("their loss", |w| w.right.stats().lost_on_purpose >= gap);
        // Session messages were lost, too, and count: the last of the messages may still be there.
        for _ in 0..100 {
            world.turn();
        }
        world.right.lose(0, 0);
        world.left.send(source, b"after", SendFlags::NONE).expect("room");
        world.until("the one after", |w| w.ear.topic(TOPIC).messages.len() == 2);
        let lost = world.ear.topic(TOPIC).lost;
        assert_eq!(lost.len(), events, "a gap of {gap}");
        assert_eq!(lost.iter().map(|(_, count)| u64::from(*count)).sum::<u64>(), gap);
        assert_eq!(lost[0].0, last + 1);
    }
}

/// Not of the report, but of its kind: polling the card. The loopback has none, so that only its acceptance shows.
#[test]
fn udp_busy_poll() {
    // Privileges are needed for more than the system's own setting.
    let mut world = World::new("source transport lbtrm\ncontext udp_busy_poll 50");
    let options = world.options.clone();
    let source = world.left.source(TOPIC, &options).expect("a source");
    world.right.receiver(TOPIC, &options).expect("a receiver");
    world.until("the first message, or a reason", |w| {
        w.left.send(source, b"hello", SendFlags::FLUSH).expect("room");
        let refused = w.right.warnings().any(|warning| warning.to_string().contains("SO_BUSY_POLL"));
        refused || !w.ear.topic(TOPIC).messages.is_empty()
    });
}
