//! Keyed hashing of what peers choose: names, stream ids, groups.
//!
//! A peer that knows the hash function of a table makes keys that all fall into one bucket, and each lookup becomes a scan. So a
//! table whose keys a peer chooses hashes with SipHash-1-3 under a [`HashSeed`] that no peer knows. Keys of our own (handles, slots,
//! post ids) are dense numbers, and need no seed.

use siphasher::sip::SipHasher13;
use std::collections::HashMap;
use std::hash::BuildHasher;

/// The secret key of the tables of one instance. A process draws it from its operating system when it starts; a simulation gives
/// it, so that a run is a function of its seed alone. The default is known to everybody: for tests.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct HashSeed {
    high: u64,
    low: u64,
}

impl HashSeed {
    /// A seed of these 128 bits.
    pub const fn new(high: u64, low: u64) -> Self {
        Self { high, low }
    }

    /// Keyed hash of bytes in one piece.
    #[inline]
    pub fn hash_bytes(self, bytes: &[u8]) -> u64 {
        SipHasher13::new_with_keys(self.high, self.low).hash(bytes)
    }
}

impl BuildHasher for HashSeed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.high, self.low)
    }
}

impl std::fmt::Debug for HashSeed {
    /// Says nothing of the bits: logs are read by others.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashSeed(..)")
    }
}

/// A map whose keys a peer chooses.
pub type SeededMap<K, V> = HashMap<K, V, HashSeed>;
