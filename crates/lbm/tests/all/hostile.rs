//! Hostile bytes: a typed error, never a panic, and no more memory than the bytes justify. `QUOTEWAY_HOSTILE_CASES` is how many cases
//! a test tries (default 4,000).

#[path = "../../../../fuzz/kept.rs"]
mod kept;
mod targets;

use proptest::prelude::*;

/// Good packets with some bytes changed are more telling than random ones.
fn damaged(good: Vec<u8>, damage: &[(prop::sample::Index, u8)], cut: prop::sample::Index) -> Vec<u8> {
    let mut bytes = good;
    for (at, value) in damage {
        let at = at.index(bytes.len());
        bytes[at] = *value;
    }
    bytes.truncate(cut.index(bytes.len() + 1).max(1));
    bytes
}

fn cases() -> u32 {
    std::env::var("QUOTEWAY_HOSTILE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(4_000)
}

fn good_packets() -> Vec<Vec<u8>> {
    let hex = |text: &str| -> Vec<u8> {
        let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
        digits.chunks_exact(2).map(|d| (d[0] << 4 | d[1]) as u8).collect()
    };
    vec![
        hex("000038365e551d01 0000000000000000 80030000 0000001a 10000001 00000000 49424d206269642031 34322e3130"),
        hex("020038365e551d01 00000000 00000009 00000000 80030000"),
        hex("030038365e551d01 0002 0000 00000008 00000009"),
        hex("040038365e551d01 00000000 0002 0010 00000008 00000009"),
        // A fragment, an application header, a chain of properties, TSNI.
        hex(
            "000038365e551d01 0000000000000000 80030000 0001001f 10000001 00000000 00100000 00000000 00000000 00000c80 313233",
        ),
        hex("000038365e551d01 0000000000000000 80030000 0006001b 10000001 00000000 0008800701020304 77697468 313233"),
        hex("000038365e551d01 0000000000000000 80030000 08200018 ff148002 1000000100000002 1000000200000003"),
        // LBT-RU DATA with session and client.
        hex("00010000 00000001 00000000 02088000 7c900002 00088000 00c0ffee 0000000d 20000002 00000001 61"),
        // TQR, wildcard TQR, TIR with options.
        hex("00010000 6d6400"),
        hex("01010000 015e6d642e2a2400"),
        hex(
            "18000001 6d6400 9010003c 10000001 00040014 0e108000 38370000 0a01010a 00000000 0a01010a e00a0a0a 5e551d01 38403836 \
             810c8000a1a2a3a4a5a6a7a8 82048000 83088001 00010000 84088000 00000000 80040024",
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn smoke_datagram_random(data in prop::collection::vec(any::<u8>(), 0..200)) {
        targets::datagram(&data);
        targets::messages(&data);
    }

    #[test]
    fn smoke_stream(data in prop::collection::vec(any::<u8>(), 0..400)) {
        targets::stream(&data);
    }

    #[test]
    fn smoke_receiver(data in prop::collection::vec(any::<u8>(), 0..600)) {
        targets::receiver(&data);
    }

    #[test]
    fn smoke_srs(data in prop::collection::vec(any::<u8>(), 0..600)) {
        targets::srs(&data);
    }

    #[test]
    fn smoke_sender(data in prop::collection::vec(any::<u8>(), 0..900)) {
        targets::sender(&data);
    }

    #[test]
    fn smoke_datagram_damaged(
        packet in prop::sample::select(good_packets()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut: prop::sample::Index,
    ) {
        let bytes = damaged(packet, &damage, cut);
        targets::datagram(&bytes);
        targets::messages(bytes.get(20..).unwrap_or_default());
    }
}

/// Found by fuzzing.
#[test]
fn options_do_not_reach_into_the_header() {
    let packet = [0x0D, 4, 0x80, 0, 0x80, 4, 0, 8];
    lbm::wire::lbmr::Packet::decode(&packet).expect_err("options of eight bytes in a packet of eight");
    targets::datagram(&packet);
}

#[test]
fn the_good_packets_are_good() {
    use lbm::wire::{lbmr, lbtrm, lbtru};
    let packets = good_packets();
    assert!(packets[..7].iter().all(|p| lbtrm::Packet::decode(p).is_ok()));
    assert!(lbtru::Packet::decode(&packets[7]).is_ok());
    for packet in &packets[8..] {
        lbmr::Packet::decode(packet).expect("good");
    }
}

/// What coverage-guided fuzzing has learnt keeps the rules.
#[test]
fn kept_inputs_keep_the_rules() {
    let folder = env!("CARGO_MANIFEST_DIR");
    kept::run(folder, "lbm_datagram", targets::datagram);
    kept::run(folder, "lbm_messages", targets::messages);
    kept::run(folder, "lbm_stream", targets::stream);
    kept::run(folder, "lbm_receiver", targets::receiver);
    kept::run(folder, "lbm_sender", targets::sender);
}
