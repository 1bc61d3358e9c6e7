//! Numbers that differ from process to process: session ids, first topics, seeds of jitter. Not for secrets.

use std::hash::{BuildHasher, Hasher, RandomState};

/// 64 random bits, from the keys that the standard library takes from the kernel.
pub(crate) fn bits() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// 32 random bits that are not all zero.
pub(crate) fn id() -> u32 {
    (bits() >> 32) as u32 | 1
}
