//! Hostile bytes: a typed error or a gap, never a panic.

#[path = "../../../../fuzz/kept.rs"]
mod kept;
#[path = "../hostile/targets.rs"]
mod targets;

use crate::{recorded, small, written};
use proptest::prelude::*;

/// The frames of a segment that has everything.
fn frames() -> Vec<u8> {
    recorded(30, record::JournalConfig { segment_bytes: u64::MAX, ..small() }).files["0000000001.qwr"][64..].to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn smoke_recording(
        noise in proptest::collection::vec(any::<u8>(), 0..200),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        targets::recording(&noise);
        let mut changed = frames();
        for (at, byte) in changes {
            let at = at.index(changed.len());
            changed[at] = byte;
        }
        targets::recording(&changed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    /// Changes of whole recordings, with right checksums down to those of slices.
    #[test]
    fn changes_of_what_a_writer_has_made_keep_the_rules(
        which in any::<[u8; 2]>(),
        changes in proptest::collection::vec(any::<[u8; 5]>(), 1..5),
    ) {
        targets::changed(&[&which[..], changes.as_flattened()].concat());
    }
}

/// What is changed has slices, and its checksums are made as the writer makes them, or the changes would not get into the slices.
#[test]
fn changes_reach_into_slices() {
    assert!(targets::mends_what_is_whole());
    let (blocks, images) = targets::sliced_frames();
    assert!(blocks >= 4 && images >= 3, "{blocks} sliced blocks, {images} sliced checkpoints");
}

/// Inputs that coverage-guided fuzzing has learnt keep the rules.
#[test]
fn kept_inputs_keep_the_rules() {
    kept::run(env!("CARGO_MANIFEST_DIR"), "record_segment", targets::recording);
}

/// A tail without its segment's blocks, and the other way round.
#[test]
fn halves_of_recordings_are_read() {
    let open = written(13, small());
    let files = &open.store().files;
    assert!(files.len() > 1);
    for name in files.keys() {
        targets::recording(&files[name]);
    }
}
