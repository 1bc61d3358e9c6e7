//! A client session and a server session talk to each other: whatever is agreed on and however the bytes are cut, each gets exactly
//! what the other wrote.

use proptest::prelude::*;
use rssl::frame::{self, Ahead, Kind};
use rssl::{ClientConfig, Compression, CompressionSet, Connection, Negotiated, ServerConfig, Sink, Version};

#[derive(Default)]
struct Seen {
    connected: usize,
    messages: Vec<Vec<u8>>,
    pings: usize,
    /// Messages that were announced, and have yet to come by themselves.
    ahead: std::collections::VecDeque<Vec<u8>>,
    /// How many had been announced when each message came, with those that had come before.
    announced: Vec<usize>,
}

impl Sink for Seen {
    fn connected(&mut self, _: &Negotiated) {
        self.connected += 1;
    }
    fn ahead(&mut self, messages: Ahead<'_, '_>) {
        assert!(self.ahead.len() <= 16, "no more is announced than what is worked on while it comes");
        self.ahead.extend(messages.map(<[u8]>::to_vec));
    }
    fn message(&mut self, msg: &[u8]) {
        if let Some(announced) = self.ahead.pop_front() {
            assert_eq!(announced, msg);
        }
        self.messages.push(msg.to_vec());
        self.announced.push(self.messages.len() + self.ahead.len());
    }
    fn ping(&mut self) {
        self.pings += 1;
    }
}

/// What one side does.
#[derive(Debug, Clone)]
enum Action {
    Write(Vec<u8>),
    Pack(Vec<(Vec<u8>, Option<i32>)>),
    Ping,
}

fn message(size_max: usize) -> impl Strategy<Value = Vec<u8>> {
    let size = prop_oneof![6 => 1..200usize, 2 => 200..2_000usize, 1 => 2_000..size_max.max(2_001)];
    (size, any::<u8>(), prop::bool::ANY).prop_map(|(size, seed, random)| {
        let mut state = u64::from(seed) | 0x1234_5600;
        (0..size)
            .map(|at| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                if random { state as u8 } else { (at / 7) as u8 ^ seed }
            })
            .collect()
    })
}

fn action(size_max: usize) -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => message(size_max).prop_map(Action::Write),
        4 => prop::collection::vec((message(size_max), any::<Option<i32>>()), 0..12).prop_map(Action::Pack),
        1 => Just(Action::Ping),
    ]
}

#[derive(Debug, Clone)]
struct Agreement {
    version: Version,
    server: Compression,
    offer: CompressionSet,
    force: bool,
    level: u8,
    threshold: Option<usize>,
    max_user_message_size: u16,
    client_keys: bool,
    server_keys: bool,
}

fn agreement() -> impl Strategy<Value = Agreement> {
    (
        prop::sample::select(Version::ALL.to_vec()),
        prop::sample::select(vec![Compression::None, Compression::Zlib, Compression::Lz4]),
        0..4u8,
        any::<bool>(),
        0..=9u8,
        prop_oneof![Just(None), (0..400usize).prop_map(Some)],
        prop_oneof![16..200u16, 200..2_000u16, Just(6144), Just(u16::MAX), 60_000..u16::MAX],
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(version, server, offer, force, level, threshold, size, client_keys, server_keys)| Agreement {
            version,
            server,
            offer: CompressionSet::from_bits(offer),
            force,
            level,
            threshold,
            max_user_message_size: size,
            client_keys,
            server_keys,
        })
}

impl Agreement {
    fn pair(&self) -> (Connection, Connection) {
        let client = Connection::client(ClientConfig {
            version: self.version,
            compression: self.offer,
            compression_threshold: self.threshold,
            key_exchange: self.client_keys,
            seed: 7,
            ..ClientConfig::default()
        });
        let server = Connection::server(ServerConfig {
            max_user_message_size: self.max_user_message_size,
            compression: self.server,
            compression_level: self.level,
            force_compression: self.force,
            compression_threshold: self.threshold,
            key_exchange: self.server_keys,
            ..ServerConfig::default()
        });
        (client, server.with_seed(9))
    }
}

/// Neither compressed nor with keys, in small frames.
fn plain(version: Version) -> Agreement {
    Agreement {
        version,
        server: Compression::None,
        offer: CompressionSet::NONE,
        force: false,
        level: 0,
        threshold: None,
        max_user_message_size: 100,
        client_keys: false,
        server_keys: false,
    }
}

/// Hands bytes over in pieces of the given sizes, over and over.
fn deliver(bytes: &[u8], cuts: &[usize], to: &mut Connection, seen: &mut Seen) -> Vec<u8> {
    let (mut out, mut rest, mut turn) = (Vec::new(), bytes, 0);
    while !rest.is_empty() {
        let (part, later) = rest.split_at(cuts[turn % cuts.len()].min(rest.len()));
        to.receive(0, part, &mut out, seen).unwrap();
        rest = later;
        turn += 1;
    }
    out
}

fn perform(actions: &[Action], session: &mut Connection) -> (Vec<u8>, Vec<Vec<u8>>, usize) {
    let (mut out, mut expected, mut pings) = (Vec::new(), Vec::new(), 0);
    for action in actions {
        match action {
            Action::Write(message) => {
                session.write(0, message, &mut out).unwrap();
                expected.push(message.clone());
            }
            Action::Pack(messages) => {
                let mut packer = session.pack(0, &mut out);
                for (message, stream_id) in messages {
                    packer.push(message, *stream_id);
                    let mut message = message.clone();
                    if let (Some(id), Some(field)) = (stream_id, message.get_mut(4..8)) {
                        field.copy_from_slice(&id.to_be_bytes());
                    }
                    expected.push(message);
                }
                assert_eq!(packer.finish(), Ok(messages.len()));
            }
            Action::Ping => {
                // The last write was at 0, so a ping is due after a third of the timeout.
                session.on_timer(25_000_000_000, &mut out).unwrap();
                session.write(0, b"back to time 0", &mut out).unwrap();
                expected.push(b"back to time 0".to_vec());
                pings += 1;
            }
        }
    }
    (out, expected, pings)
}

/// Every frame is whole and no longer than the maximum user message size and three.
fn check_frames(bytes: &[u8], agreed: &Negotiated) {
    let mut rest = bytes;
    let mut overflow = false;
    while !rest.is_empty() {
        let length = frame::length(rest).unwrap().expect("whole frames");
        assert!(length <= usize::from(agreed.max_user_message_size) + 3);
        let parsed = frame::parse(&rest[..length], agreed.version.wide_fragment_ids()).unwrap();
        assert!(!(parsed.compressed && agreed.compression == Compression::None));
        if overflow {
            assert!(parsed.kind == Kind::Data && parsed.compressed && !parsed.overflows);
        }
        overflow = parsed.overflows;
        rest = &rest[length..];
    }
    assert!(!overflow);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn each_side_gets_what_the_other_wrote(
        agreement in agreement(),
        from_client in prop::collection::vec(action(70_000), 0..10),
        from_server in prop::collection::vec(action(70_000), 0..10),
        cuts in prop::collection::vec(prop_oneof![1..20usize, 20..9_000usize, Just(usize::MAX)], 1..6),
    ) {
        let (mut client, mut server) = agreement.pair();
        let (mut at_client, mut at_server) = (Seen::default(), Seen::default());
        let (mut to_server, mut nothing) = (Vec::new(), Vec::new());
        server.start(0, &mut nothing);
        client.start(0, &mut to_server);
        prop_assert!(nothing.is_empty());
        let answer = deliver(&to_server, &cuts, &mut server, &mut at_server);
        let key = deliver(&answer, &cuts, &mut client, &mut at_client);
        prop_assert!(deliver(&key, &cuts, &mut server, &mut at_server).is_empty());
        prop_assert!(client.is_connected() && server.is_connected());
        prop_assert_eq!((at_client.connected, at_server.connected), (1, 1));

        let agreed = client.negotiated().unwrap().clone();
        let servers = server.negotiated().unwrap();
        prop_assert_eq!(agreed.shared_key, servers.shared_key);
        let keys = agreement.version == Version::V14 && agreement.client_keys && agreement.server_keys;
        prop_assert_eq!(agreed.shared_key.is_some(), keys);
        prop_assert_eq!((agreed.version, agreed.compression), (servers.version, servers.compression));
        let expected = match (agreement.server, agreement.offer.preferred()) {
            (Compression::None, _) => Compression::None,
            (own, offered) => offered.unwrap_or(if agreement.force { own } else { Compression::None }),
        };
        prop_assert_eq!(agreed.compression, expected);

        for (to_server, actions) in [(true, &from_client), (false, &from_server)] {
            let (writer, reader, seen) = if to_server {
                (&mut client, &mut server, &mut at_server)
            } else {
                (&mut server, &mut client, &mut at_client)
            };
            let (bytes, messages, pings) = perform(actions, writer);
            check_frames(&bytes, &agreed);
            prop_assert!(deliver(&bytes, &cuts, reader, seen).is_empty());
            prop_assert_eq!(&seen.messages, &messages);
            prop_assert_eq!(seen.pings, pings);
            prop_assert_eq!(reader.orphaned_fragments(), 0);
            prop_assert_eq!(reader.received_bytes() >= bytes.len() as u64, true);
        }
    }
}

#[test]
fn messages_of_a_frame_are_announced_a_group_before_they_come() {
    let mut agreement = plain(Version::V14);
    agreement.max_user_message_size = 6_144;
    let (mut client, mut server) = agreement.pair();
    let (mut seen, mut asked) = (Seen::default(), Vec::new());
    client.start(0, &mut asked);
    let answer = deliver(&asked, &[usize::MAX], &mut server, &mut Seen::default());
    deliver(&answer, &[usize::MAX], &mut client, &mut seen);
    let messages: Vec<_> = (0..40).map(|number| (vec![number; 10], None)).collect();
    let (bytes, _, _) = perform(&[Action::Pack(messages)], &mut server);
    deliver(&bytes, &[usize::MAX], &mut client, &mut seen);
    // Two groups before the first one is worked on, then one more each time that a group is done.
    let expected: Vec<_> = (0..40).map(|number| ((number / 16 + 2) * 16_usize).min(40)).collect();
    assert_eq!(seen.announced, expected);
}

/// Fragments of several messages, of other messages and pings in between, as peers with several writers send them.
#[test]
fn interleaved_fragments_are_sorted_out() {
    for version in [Version::V14, Version::V11] {
        let (mut client, mut server) = plain(version).pair();
        let (mut seen, mut out) = (Seen::default(), Vec::new());
        client.start(0, &mut out);
        let mut answer = Vec::new();
        server.receive(0, &out, &mut answer, &mut seen).unwrap();
        client.receive(0, &answer, &mut Vec::new(), &mut seen).unwrap();
        assert!(client.is_connected() && server.is_connected());

        let messages: Vec<Vec<u8>> = (1..=3).map(|n| vec![n; 100 * usize::from(n) + 1]).collect();
        let mut queues: Vec<Vec<Vec<u8>>> = messages
            .iter()
            .map(|message| {
                let mut out = Vec::new();
                server.write(0, message, &mut out).unwrap();
                let mut frames = Vec::new();
                while let Ok(Some(length)) = frame::length(&out) {
                    frames.push(out.drain(..length).collect());
                }
                frames.reverse();
                frames
            })
            .collect();
        let mut mixed = Vec::new();
        while queues.iter().any(|queue| !queue.is_empty()) {
            for queue in &mut queues {
                mixed.extend(queue.pop().unwrap_or_default());
                mixed.extend(frame::PING);
                server.write(0, b"between", &mut mixed).unwrap();
            }
        }
        let mut seen = Seen::default();
        client.receive(0, &mixed, &mut Vec::new(), &mut seen).unwrap();
        assert!(seen.pings > 0);
        seen.messages.retain(|message| message != b"between");
        seen.messages.sort();
        assert_eq!(seen.messages, messages);
    }
}

#[test]
fn a_compressed_fragment_that_does_not_fit_goes_out_in_two_frames() {
    let agreement = Agreement {
        version: Version::V14,
        server: Compression::Zlib,
        offer: CompressionSet::ZLIB,
        force: false,
        level: 6,
        threshold: None,
        max_user_message_size: 1000,
        client_keys: true,
        server_keys: true,
    };
    let (mut client, mut server) = agreement.pair();
    let (mut seen, mut out, mut back) = (Seen::default(), Vec::new(), Vec::new());
    client.start(0, &mut out);
    server.receive(0, &out, &mut back, &mut seen).unwrap();
    out.clear();
    client.receive(0, &back, &mut out, &mut seen).unwrap();
    server.receive(0, &out, &mut Vec::new(), &mut seen).unwrap();

    let mut state = 1u64;
    let message: Vec<u8> = (0..2500)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect();
    let mut wire = Vec::new();
    server.write(0, &message, &mut wire).unwrap();
    assert_eq!(wire[..4], [0x03, 0xeb, 0x0d, 0x08]);
    assert_eq!(wire[10], 0x78, "a zlib header");
    assert_eq!(wire[1003 + 2], 0x04);
    assert_eq!(wire[wire.len() - 4..], [0, 0, 0xff, 0xff], "a sync flush");
    // Other frames never need a second one.
    let at = wire.len();
    for length in 1..=1000 {
        server.write(0, &message[..length], &mut wire).unwrap();
        let mut packer = server.pack(0, &mut wire);
        packer.push(&message[..length], None);
        packer.push(&message[..length], None);
        packer.push(&message[..20], None);
        packer.finish().unwrap();
    }
    let mut rest = &wire[at..];
    while let Ok(Some(length)) = frame::length(rest) {
        assert!(rest[2] & 0x08 == 0);
        rest = &rest[length..];
    }
    let mut seen = Seen::default();
    client.receive(0, &wire, &mut Vec::new(), &mut seen).unwrap();
    assert_eq!(seen.messages.len(), 1 + 4 * 1000);
    assert_eq!(seen.messages[0], message);
}

/// The largest images that providers send: thousands of fragments, read in pieces that end anywhere.
#[test]
fn an_image_of_sixteen_megabytes_crosses() {
    let agreement = Agreement {
        version: Version::V14,
        server: Compression::None,
        offer: CompressionSet::NONE,
        force: false,
        level: 0,
        threshold: None,
        max_user_message_size: 6_144,
        client_keys: false,
        server_keys: false,
    };
    let (mut client, mut server) = agreement.pair();
    let (mut seen, mut out, mut answer) = (Seen::default(), Vec::new(), Vec::new());
    client.start(0, &mut out);
    server.receive(0, &out, &mut answer, &mut seen).unwrap();
    client.receive(0, &answer, &mut Vec::new(), &mut seen).unwrap();
    let image: Vec<u8> = (0..16_000_000_u32).map(|at| (at % 251) as u8).collect();
    out.clear();
    server.write(0, &image, &mut out).unwrap();
    for piece in out.chunks(99_991) {
        client.receive(0, piece, &mut Vec::new(), &mut seen).unwrap();
    }
    assert!(seen.messages == [image], "{} messages", seen.messages.len());
    assert_eq!(client.orphaned_fragments(), 0);
}
