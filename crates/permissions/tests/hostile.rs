//! Hostile bytes: a typed error, never a panic.

mod hostile {
    pub(crate) mod targets;
}
#[path = "../../../fuzz/kept.rs"]
mod kept;

use hostile::targets;
use proptest::prelude::*;

/// Bytes that look like a lock more often than random ones would.
fn nearly_a_lock() -> impl Strategy<Value = Vec<u8>> {
    let nibble = prop::sample::select(vec![0u8, 1, 2, 9, 0xA, 0xB, 0xC, 0xD, 0xD, 0xF]);
    (3u8..5, prop::collection::vec((nibble.clone(), nibble), 2..40)).prop_map(|(version, nibbles)| {
        let bytes = nibbles.into_iter().map(|(high, low)| high << 4 | low);
        std::iter::once(version).chain(bytes).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn smoke_lock(data in prop::collection::vec(any::<u8>(), 0..60), near in nearly_a_lock()) {
        targets::lock(&data);
        targets::lock(&near);
        targets::lock(&[near.as_slice(), data.as_slice(), near.as_slice()].concat());
    }
}

/// Inputs that coverage-guided fuzzing has found keep the rules.
#[test]
fn kept_inputs_keep_the_rules() {
    let folder = env!("CARGO_MANIFEST_DIR");
    kept::run(folder, "permissions_lock", targets::lock);
}
