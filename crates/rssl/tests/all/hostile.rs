//! Hostile bytes: a typed error, never a panic, and no more memory than the bytes justify.

#[path = "../../../../fuzz/kept.rs"]
mod kept;
pub(crate) mod targets;

use proptest::prelude::*;
use rssl::{ClientConfig, Closed, Compression, CompressionSet, Connection, Direction, Event, ServerConfig, Sink, Tap};
use targets::{Digest, REASSEMBLY_BYTES_MAX};

/// Handshake done; version 14; server side of a session with this compression.
fn server_choice(compression: u8) -> u8 {
    0x20 | compression << 2
}

const NONE: u8 = 0;
const ZLIB: u8 = 1;
const LZ4: u8 = 2;

/// Bytes that look like frames more often than random ones would.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let flags =
        prop::sample::select(vec![0x00u8, 0x01, 0x02, 0x03, 0x04, 0x05, 0x08, 0x0c, 0x0d, 0x12, 0x14, 0x1c, 0x81]);
    let extended = prop::sample::select(vec![0x01u8, 0x02, 0x04, 0x08]);
    let frame = (flags, extended, prop::collection::vec(any::<u8>(), 0..60), -2..3i32).prop_map(
        |(flags, extended, body, lie)| {
            let mut frame = vec![0, 0, flags];
            if flags & 1 != 0 {
                frame.push(extended);
                if body.len() % 3 == 0 {
                    frame.extend_from_slice(&[0, 0, 0, body.len() as u8, 0, 1]);
                }
            }
            frame.extend_from_slice(&body);
            let length = (frame.len() as i32 + if lie.abs() == 2 { lie } else { 0 }) as u16;
            frame[..2].copy_from_slice(&length.to_be_bytes());
            frame
        },
    );
    prop::collection::vec(frame, 0..20).prop_map(|frames| frames.concat())
}

/// Operations of a WebSocket session that go further than random bytes: most frames are whole, and most texts are texts.
fn operations() -> impl Strategy<Value = Vec<u8>> {
    let operation = (any::<u8>(), "[ -~\u{e9}]{0,40}")
        .prop_map(|(operation, text)| [&[operation, text.len() as u8], text.as_bytes()].concat());
    (any::<[u8; 2]>(), prop::collection::vec(operation, 0..30))
        .prop_map(|(head, all)| [&head[..], &all.concat()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn smoke_receive_random(data in prop::collection::vec(any::<u8>(), 0..400)) {
        targets::receive(&data);
    }

    #[test]
    fn smoke_receive_frames(choice: u8, step: u8, frames in frames()) {
        targets::receive(&[&[choice, step], frames.as_slice()].concat());
    }

    #[test]
    fn smoke_websocket(data in prop::collection::vec(any::<u8>(), 0..600), operations in operations()) {
        targets::websocket(&data);
        targets::websocket(&operations);
    }

    #[test]
    fn smoke_record(data in prop::collection::vec(any::<u8>(), 0..400), frames in frames()) {
        targets::record(&data);
        let pieces: Vec<u8> = frames.chunks(200).flat_map(|c| [&[c[0], 0, c.len() as u8], c].concat()).collect();
        targets::record(&pieces);
    }

    #[test]
    fn smoke_write(data in prop::collection::vec(any::<u8>(), 0..3_000)) {
        targets::write(&data);
    }

    /// A good session with some bytes changed.
    #[test]
    fn smoke_damaged(
        choice: u8,
        step: u8,
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..900), 1..8),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = Vec::new();
        // Handshake frames of the other role, or messages of an established session.
        let choice = choice & 0x7f;
        if choice & 0x20 == 0 {
            bytes.extend(handshake_bytes(choice));
        } else {
            let mut peer = targets::session(choice ^ 0x40);
            for message in &messages {
                peer.write(0, message, &mut bytes).unwrap();
            }
        }
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        targets::receive(&[&[choice, step], bytes.as_slice()].concat());
    }
}

fn handshake_bytes(choice: u8) -> Vec<u8> {
    let mut client = Connection::client(ClientConfig { compression: CompressionSet::ZLIB, ..ClientConfig::default() });
    let mut server = Connection::server(ServerConfig { compression: Compression::Zlib, ..ServerConfig::default() });
    let (mut request, mut answer, mut digest) = (Vec::new(), Vec::new(), Digest::default());
    client.start(0, &mut request);
    server.receive(0, &request, &mut answer, &mut digest).unwrap();
    if choice & 0x40 != 0 { answer } else { request }
}

/// Peak of memory that `session` took above what it had, in bytes.
fn peak_bytes(choice: u8, bytes: &[u8]) -> (u64, Result<(), Closed>) {
    let mut session = targets::session(choice);
    // The thread's shared work buffers are made once, and not by a peer.
    let _ = targets::session(choice).receive(1, b"\x00\x05\x04\x00\x00", &mut Vec::new(), &mut Digest::default());
    let mut end = Ok(());
    let info = allocation_counter::measure(|| {
        end = session.receive(1, bytes, &mut Vec::new(), &mut Digest::default());
    });
    (info.bytes_max, end)
}

fn first_fragment(total: u32, id: u16, data: &[u8]) -> Vec<u8> {
    let length = (10 + data.len()) as u16;
    [&length.to_be_bytes()[..], &[0x03, 0x08], &total.to_be_bytes(), &id.to_be_bytes(), data].concat()
}

#[test]
fn an_announced_length_takes_no_memory() {
    let (bytes, end) = peak_bytes(server_choice(NONE), &first_fragment(u32::MAX, 1, b"x"));
    let wanted = u64::from(u32::MAX);
    assert_eq!(end, Err(Closed::ReassemblyLimit { wanted, limit: REASSEMBLY_BYTES_MAX as u64 }));
    assert!(bytes < 10_000, "{bytes}");

    let (bytes, end) = peak_bytes(server_choice(NONE), &first_fragment(REASSEMBLY_BYTES_MAX as u32, 1, b"x"));
    assert_eq!(end, Ok(()));
    assert!(bytes < 10_000, "{bytes}");

    // The beginning of a frame of 64 KB.
    let (bytes, end) = peak_bytes(server_choice(NONE), &[0xff, 0xff, 0x02, 1]);
    assert_eq!(end, Ok(()));
    assert!(bytes < 10_000, "{bytes}");
}

#[test]
fn unfinished_messages_have_a_bound_together() {
    let many: Vec<u8> = (1..=20).flat_map(|id| first_fragment(REASSEMBLY_BYTES_MAX as u32 / 10, id, b"x")).collect();
    let (_, end) = peak_bytes(server_choice(NONE), &many);
    assert!(matches!(end, Err(Closed::ReassemblyLimit { .. })));
    let tiny: Vec<u8> = (1..=u16::MAX).flat_map(|id| first_fragment(2, id, b"x")).collect();
    let (bytes, end) = peak_bytes(server_choice(NONE), &tiny);
    assert!(matches!(end, Err(Closed::ReassemblyLimit { .. })));
    assert!(bytes < 200_000, "{bytes}");
}

#[test]
fn a_repeated_id_gives_up_the_older_message() {
    let mut session = targets::session(server_choice(NONE));
    let mut digest = Digest::default();
    let bytes: Vec<u8> = (0..1_000).flat_map(|_| first_fragment(REASSEMBLY_BYTES_MAX as u32 / 2, 7, b"x")).collect();
    session.receive(0, &bytes, &mut Vec::new(), &mut digest).unwrap();
    assert_eq!(session.orphaned_fragments(), 999);
}

#[test]
fn bombs_are_defused() {
    let zeros = vec![0u8; 8 << 20];
    let frame = |payload: &[u8]| {
        let length = (payload.len() + 3) as u16;
        [&length.to_be_bytes()[..], &[0x04], payload].concat()
    };
    let mut zlib = flate2::Compress::new(flate2::Compression::best(), true);
    let mut payload = Vec::with_capacity(100_000);
    zlib.compress_vec(&zeros, &mut payload, flate2::FlushCompress::Sync).unwrap();
    assert!(payload.len() < 60_000);
    let (bytes, end) = peak_bytes(server_choice(ZLIB), &frame(&payload));
    assert!(matches!(end, Err(Closed::Malformed { .. })), "{end:?}");
    assert!(bytes < 200_000, "{bytes}");

    let payload = lz4_flex::block::compress(&zeros);
    assert!(payload.len() < 60_000);
    let (bytes, end) = peak_bytes(server_choice(LZ4), &frame(&payload));
    assert!(matches!(end, Err(Closed::Malformed { .. })), "{end:?}");
    assert!(bytes < 200_000, "{bytes}");
}

#[test]
fn a_closed_session_holds_nothing_and_says_so() {
    let mut session = targets::session(server_choice(NONE));
    let mut digest = Digest::default();
    let end = session.receive(0, &[0, 3, 2, 0, 2, 2], &mut Vec::new(), &mut digest);
    assert_eq!(digest, {
        let mut d = Digest::default();
        d.ping();
        d
    });
    let Err(Closed::Malformed { position, .. }) = end else { panic!("{end:?}") };
    assert_eq!(position, session.received_bytes());
    assert_eq!(session.receive(0, b"more", &mut Vec::new(), &mut digest), Err(Closed::AlreadyClosed));
    assert_eq!(session.on_timer(0, &mut Vec::new()), Err(Closed::AlreadyClosed));
}

#[test]
fn a_tap_goes_on_after_a_bad_frame() {
    let mut tap = Tap::new();
    let mut events = Vec::new();
    tap.feed(Direction::ToClient, b"\x00\x05\x04ab\x00\x05\x02cd", |event| match event {
        Event::Unreadable(what) => events.push(what.to_owned()),
        Event::Message(message) => events.push(String::from_utf8_lossy(message).into_owned()),
        _ => {}
    })
    .unwrap();
    assert_eq!(events, ["compressed frame though no compression was agreed on", "cd"]);
}

/// Inputs that coverage-guided fuzzing has found keep the rules.
#[test]
fn kept_inputs_keep_the_rules() {
    let folder = env!("CARGO_MANIFEST_DIR");
    kept::run(folder, "rssl_receive", targets::receive);
    kept::run(folder, "rssl_record", targets::record);
    kept::run(folder, "rssl_websocket", targets::websocket);
    kept::run(folder, "rssl_write", targets::write);
}
