//! Hostile bytes: a typed error, never a panic.

#[path = "../../../../fuzz/kept.rs"]
mod kept;
#[path = "../hostile/targets.rs"]
mod targets;

use proptest::prelude::*;

use crate::{cases, unhex};

/// Bytes that look like records more often than random ones would.
fn nearly_records() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        &b"\x1c316"[..],
        b"\x1c340",
        b"\x1c407",
        b"\x1c",
        b"\x1f",
        b"\x1d",
        b"\x1e",
        b"22",
        b"-1",
        b"XX",
        b"IBM.N",
        b"1.5",
        b"\x1b[",
        b"3`",
        b"2b",
        b"\x9b",
        b"\0",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Bytes that look like pages more often than random ones would.
fn nearly_a_page() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop::sample::select(
        b"\x1b\x1b[[;;0129?>#()78cDEMHfABCJKLMPSTrmhl@pZ \n\r\t\x08\x0e\x0f\x00xX\xff\x9b".to_vec(),
    );
    (1u8..30, 1u8..30, prop::collection::vec(byte, 0..300))
        .prop_map(|(rows, columns, bytes)| [&[rows, columns], &bytes[..]].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn smoke_marketfeed(data in prop::collection::vec(any::<u8>(), 0..200), near in nearly_records()) {
        targets::marketfeed(&data);
        targets::marketfeed(&near);
    }

    #[test]
    fn smoke_page(data in prop::collection::vec(any::<u8>(), 0..300), near in nearly_a_page()) {
        targets::page(&data);
        targets::page(&near);
    }
}

#[test]
fn vectors_cut_and_changed() {
    for case in cases("marketfeed/records.jsonl") {
        let mut bytes = unhex(&case["hex"]);
        for at in 0..bytes.len() {
            targets::marketfeed(&bytes[..at]);
            for lie in [0x1C, 0x1D, 0x1E, 0x1F, b'0', 0xFF] {
                let truth = std::mem::replace(&mut bytes[at], lie);
                targets::marketfeed(&bytes);
                bytes[at] = truth;
            }
        }
    }
}

/// Inputs that coverage-guided fuzzing has found keep the rules.
#[test]
fn kept_inputs_keep_the_rules() {
    let folder = env!("CARGO_MANIFEST_DIR");
    kept::run(folder, "marketfeed", targets::marketfeed);
    kept::run(folder, "page", targets::page);
}
