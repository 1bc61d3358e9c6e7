//! Forged and broken packets at every socket of a context: what is received stays right, and nobody falls over.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};

use crate::world::{World, with};
use lbm_io::options::ContextOption;
use lbm_io::{SendFlags, Transport};
use net::udp::{UdpOptions, UdpSocket};

/// xorshift.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Random bytes, or a damaged packet of the right kind.
    fn packet(&mut self, like: &[u8]) -> Vec<u8> {
        let mut bytes = like.to_vec();
        match self.next() % 4 {
            0 => bytes = (0..self.next() % 200).map(|_| self.next() as u8).collect(),
            1 => bytes.truncate(self.next() as usize % (bytes.len() + 1)),
            2 => bytes.extend((0..self.next() % 64).map(|_| self.next() as u8)),
            _ => {
                for _ in 0..=self.next() % 4 {
                    let at = self.next() as usize % bytes.len();
                    bytes[at] = self.next() as u8;
                }
            }
        }
        bytes
    }
}

/// Packets that look like those of a session, with its real numbers.
fn like(transport: &Transport) -> Vec<Vec<u8>> {
    let message = [0, 0, 0, 20, 0x10, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8];
    match *transport {
        Transport::Lbtrm { session_id, unicast_port, .. } => {
            let header = |kind: u8| [&[kind, 0][..], &unicast_port.to_be_bytes(), &session_id.to_be_bytes()].concat();
            let far = 0x7000_0000_u32.to_be_bytes();
            vec![
                [&header(0)[..], &far, &[0; 4], &[0x80, 3, 0, 0], &message].concat(),
                [&header(2)[..], &[0; 4], &far, &far, &[0x80, 3, 0, 0]].concat(),
                [&header(3)[..], &[0, 2, 0, 0], &far, &[0; 4]].concat(),
                [&header(4)[..], &far, &[0, 1, 0, 0x10], &[0, 0, 0, 9]].concat(),
            ]
        }
        Transport::Lbtru { session_id, .. } => {
            let id = [&[0, 8, 0x80, 0][..], &session_id.unwrap_or(0).to_be_bytes()].concat();
            vec![
                [&[6, 1, 0, 0][..], &id].concat(),
                [&[5, 1, 0, 0, 0xFF, 0xFF, 0, 0][..], &id].concat(),
                [&[3, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 7][..], &id].concat(),
                [&[7, 0, 0, 0][..]].concat(),
            ]
        }
        _ => vec![[&[8, 0x6B, 0, 12, 0xFF, 8, 0, 0][..], &[1, 2, 3, 4]].concat(), message.to_vec()],
    }
}

/// Also what goes to groups goes out on loopback.
fn udp() -> UdpSocket {
    let options = UdpOptions { multicast_interface: Some(Ipv4Addr::LOCALHOST), ..UdpOptions::default() };
    UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), &options).expect("a socket")
}

/// Whoever forges advertisements of a topic that is wanted makes us listen to a bounded number of sessions, and to the real one.
#[test]
fn forged_advertisements_are_bounded() {
    let mut world = World::new("source transport lbtrm\nreceiver transport_lbtrm_activity_timeout 2000");
    let options = world.options.clone();
    let source = world.left.source("md", &options).expect("a source");
    world.right.receiver("md", &options).expect("a receiver");
    world.right.receiver("late", &options).expect("a receiver");
    world.introduce(source, "md");
    let to = SocketAddrV4::new(
        options.get(ContextOption::RESOLVER_MULTICAST_ADDRESS),
        options.get(ContextOption::RESOLVER_MULTICAST_PORT),
    );
    let mut socket = udp();
    for i in 0..6_000u32 {
        let [a, b, c, d] = i.to_be_bytes();
        // One session each; every tenth in a group of its own.
        let group = if i % 10 == 0 { [239, 99, c, d] } else { [239, 99, 0, 0] };
        let transport = [&[127, 0, 0, 1][..], &group, &[a, b, c, d], &[0x70, 0, 0x60, 0]].concat();
        let advert = [b"md\0\x10\x10\0\x3c\0\0\0\x01", &transport[..]].concat();
        socket.send(Some(to), &[&[0, 0, 0, 1], &advert[..]].concat()).expect("a packet");
        if i % 50 == 0 {
            world.turn();
        }
    }
    world.until("many sessions", |w| w.right.stats().unreachable > 0);
    assert!(world.right.stats().receiving.len() <= 4_096);
    assert!(world.right.warnings().count() <= 100);
    world.settle(source, "md");
    // One that comes now finds no room at first, but is not forgotten.
    let own = with(&options, "source transport tcp");
    let late = world.left.source("late", &own).expect("a source");
    world.introduce(late, "late");
    world.left.remove_source(late);
    // Those that nobody sends on go away again.
    world.until("their end", |w| w.right.stats().receiving.len() == 1);
}

/// All ports for LBT-RU are held by sessions that somebody has only advertised: a real source finds one all the same.
#[test]
fn forged_sessions_make_way_for_a_real_one() {
    let low = 41_000 + (std::process::id() % 1_000) * 20;
    let mut world = World::new(&format!(
        "source transport lbtru
        receiver transport_lbtru_port_low {low}
        receiver transport_lbtru_port_high {}",
        low + 19
    ));
    let options = world.options.clone();
    world.right.receiver("md", &options).expect("a receiver");
    let to = SocketAddrV4::new(
        options.get(ContextOption::RESOLVER_MULTICAST_ADDRESS),
        options.get(ContextOption::RESOLVER_MULTICAST_PORT),
    );
    let mut socket = udp();
    let mut forge = |world: &mut World, from: u16| {
        for i in from..from + 100 {
            let transport = [&[127, 0, 1, 1][..], &[0, 0, 0, 9], &i.to_be_bytes()].concat();
            let advert = [b"md\0\x01\x0a\0\x3c\0\0\0\x01", &transport[..]].concat();
            socket.send(Some(to), &[&[0, 0, 0, 1], &advert[..]].concat()).expect("a packet");
        }
        world.turn();
    };
    forge(&mut world, 1_000);
    world.until("all ports to be held", |w| w.right.stats().receiving.len() >= 15);
    let source = world.left.source("md", &options).expect("a source");
    let mut from = 2_000;
    world.until("the real source", |w| {
        // The forger goes on.
        forge(w, from);
        from = if from < 60_000 { from + 100 } else { 1_000 };
        w.left.send(source, b"hello", SendFlags::FLUSH).expect("room");
        w.ear.heard.values().any(|heard| !heard.messages.is_empty())
    });
}

#[test]
fn noise_at_every_socket_changes_nothing() {
    for transport in ["lbtrm", "lbtru", "tcp"] {
        let mut world = World::new(&format!("source transport {transport}\nsource late_join 1"));
        let options = world.options.clone();
        let source = world.left.source("md", &options).expect("a source");
        world.right.receiver("md", &options).expect("a receiver");
        world.introduce(source, "md");
        world.settle(source, "md");
        let session = *world.left.sources().transport(source).expect("a session");
        let packets = like(&session);
        let mut targets: Vec<SocketAddrV4> = vec![SocketAddrV4::new(
            options.get(ContextOption::RESOLVER_MULTICAST_ADDRESS),
            options.get(ContextOption::RESOLVER_MULTICAST_PORT),
        )];
        match session {
            Transport::Lbtrm { source, group, destination_port, unicast_port, .. } => {
                targets.extend([SocketAddrV4::new(group, destination_port), SocketAddrV4::new(source, unicast_port)]);
            }
            Transport::Lbtru { address, port, .. } => targets.push(SocketAddrV4::new(address, port)),
            _ => {}
        }
        let (mut socket, mut noise) = (udp(), Noise(0x5EED));
        for i in 0..3_000u32 {
            for target in &targets {
                let packet = noise.packet(&packets[i as usize % packets.len()]);
                socket.send(Some(*target), &packet).expect("a packet");
            }
            if i % 10 == 0 {
                world.left.send(source, &i.to_be_bytes(), SendFlags::FLUSH).expect("room");
                world.turn();
            }
            if i % 100 == 0
                && let Transport::Tcp { address, port, .. } = session
            {
                let mut stream = TcpStream::connect((address, port)).expect("a listener");
                let _ = stream.write_all(&noise.packet(&packets[i as usize % 2]));
            }
        }
        world.until("all messages", |w| w.ear.topic("md").messages.len() >= 300);
        let heard = world.ear.topic("md");
        let numbers: Vec<u32> =
            heard.messages.iter().map(|m| u32::from_be_bytes(m[..4].try_into().expect("four"))).collect();
        assert_eq!(numbers, (0..3_000).step_by(10).collect::<Vec<_>>(), "{transport}");
        assert_eq!((heard.begun, heard.lost, heard.ended), (1, vec![], vec![]), "{transport}");
        if transport != "tcp" {
            let (left, right) = (world.left.stats(), world.right.stats());
            assert!(left.malformed + right.malformed + right.unwanted > 0, "{transport}: {right:?}");
        }
    }
}

/// Whoever knows all numbers of a session, but sends from another address, is not its source; nor is he its receiver.
#[test]
fn a_session_is_not_taken_over_from_another_address() {
    for transport in ["lbtrm", "lbtru"] {
        let mut world = World::new(&format!("source transport {transport}"));
        let options = world.options.clone();
        let source = world.left.source("md", &options).expect("a source");
        world.right.receiver("md", &options).expect("a receiver");
        world.introduce(source, "md");
        world.settle(source, "md");
        let session = *world.left.sources().transport(source).expect("a session");
        let stranger = UdpOptions { multicast_interface: Some(Ipv4Addr::LOCALHOST), ..UdpOptions::default() };
        let mut stranger =
            UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 2), 0), &stranger).expect("a socket");
        let next = world.left.send(source, b"0", SendFlags::FLUSH).expect("room").wrapping_add(1);
        world.until("the first", |w| w.ear.topic("md").messages.len() == 1);
        let topic = world.right.stats().receiving[0].topics.len();
        assert_eq!(topic, 1);
        for round in 0..2_000u32 {
            match session {
                Transport::Lbtrm { group, destination_port, session_id, unicast_port, .. } => {
                    let header =
                        |kind: u8| [&[kind, 0][..], &unicast_port.to_be_bytes(), &session_id.to_be_bytes()].concat();
                    // The next datagram with another content, all that follow, and "do not retry".
                    let number = (next + round % 50).to_be_bytes();
                    let forged = match round % 3 {
                        0 => [&header(0)[..], &number, &[0; 4], &[0x80, 3, 0, 0]].concat(),
                        1 => [&header(2)[..], &[0; 4], &number, &number, &[0x80, 3, 0, 0]].concat(),
                        _ => [&header(4)[..], &number, &[0, 1, 0, 0], &number].concat(),
                    };
                    stranger.send(Some(SocketAddrV4::new(group, destination_port)), &forged).expect("sent");
                }
                Transport::Lbtru { address, port, session_id } => {
                    let id = [&[0, 8, 0x80, 0][..], &session_id.unwrap_or(0).to_be_bytes()].concat();
                    // An acknowledgement and a NAK of a client that never asked for a connection.
                    let forged = match round % 2 {
                        0 => [&[5, 1, 0, 0, 0, 0, 0, 9][..], &id].concat(),
                        _ => [&[3, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &id].concat(),
                    };
                    stranger.send(Some(SocketAddrV4::new(address, port)), &forged).expect("sent");
                }
                _ => panic!("{session}"),
            }
            if round % 20 == 0 {
                world.left.send(source, &round.to_be_bytes(), SendFlags::FLUSH).expect("room");
                world.turn();
            }
        }
        world.until("all messages", |w| w.ear.topic("md").messages.len() == 101);
        let heard = world.ear.topic("md");
        let numbers: Vec<u32> =
            heard.messages[1..].iter().map(|m| u32::from_be_bytes(m[..4].try_into().expect("four"))).collect();
        assert_eq!(numbers, (0..2_000).step_by(20).collect::<Vec<_>>(), "{transport}");
        assert_eq!((heard.begun, heard.lost, heard.ended), (1, vec![], vec![]), "{transport}");
        let (sent, right) = (world.left.stats(), world.right.stats());
        // Few, not none: the receiver may ask for what a busy machine let arrive late.
        assert!(sent.sending[0].sent.naks < 50 && sent.sending[0].sent.retransmissions < 50, "{:?}", sent.sending[0]);
        if transport == "lbtrm" {
            world.until("the forged ones", |w| w.right.stats().unwanted >= 1_000);
        } else {
            assert_eq!(sent.sending[0].receivers, Some(1), "{right:?}");
        }
    }
}

/// One receiver that asks for everything again and again gets what its budget and the retransmission limit allow; the others get
/// every message in time, and nothing grows.
#[test]
fn a_flood_of_naks_does_not_hold_up_the_session() {
    let mut world = World::new(
        "source transport lbtrm
        source implicit_batching_minimum_length 1
        source transport_lbtrm_ignore_interval 1
        context transport_lbtrm_retransmit_rate_limit 2000000",
    );
    let options = world.options.clone();
    let source = world.left.source("md", &options).expect("a source");
    world.right.receiver("md", &options).expect("a receiver");
    world.introduce(source, "md");
    world.settle(source, "md");
    let Some(Transport::Lbtrm { source: address, unicast_port, session_id, .. }) =
        world.left.sources().transport(source).copied()
    else {
        panic!("an LBT-RM session")
    };
    for _ in 0..1_000 {
        world.left.send(source, &[0; 100], SendFlags::NONE).expect("room");
    }
    world.until("all messages", |w| w.ear.topic("md").messages.len() == 1_000);
    let (mut socket, to) = (udp(), SocketAddrV4::new(address, unicast_port));
    let began = std::time::Instant::now();
    for round in 0..2_000u32 {
        // 300 numbers, all in the window.
        let sqns: Vec<u8> = (0..300u32).flat_map(|i| ((round + i) % 1_000).to_be_bytes()).collect();
        let nak = [&[3, 0][..], &unicast_port.to_be_bytes(), &session_id.to_be_bytes(), &[1, 44, 0, 0], &sqns].concat();
        // What the socket does not take is none of the source's trouble.
        let _ = socket.send(Some(to), &nak);
        if round % 20 == 0 {
            world.left.send(source, &round.to_be_bytes(), SendFlags::NONE).expect("room");
            world.turn();
        }
    }
    world.until("all messages", |w| w.ear.topic("md").messages.len() == 1_100);
    let took = began.elapsed();
    let sent = world.left.stats().sending[0].sent;
    assert!(sent.naks > 10_000 && sent.naks_delayed + sent.naks_shed + sent.naks_ignored > 0, "{sent:?}");
    // Two megabits a second, and what one interval may overdraw.
    let allowed = (took.as_secs_f64() + 0.1) * 2_000_000.0 / 8.0;
    assert!((sent.retransmitted_bytes as f64) < allowed, "{sent:?} in {took:?}");
    assert_eq!(world.ear.topic("md").lost, vec![]);
}
