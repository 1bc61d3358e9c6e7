//! Jitter. Not for secrets.

/// xorshift64*: a run is a function of its seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // The state must not be 0; neighbouring seeds must differ in all bits.
        let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self((z ^ (z >> 31)) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Uniform in [0.5, 1.5] times the interval: how NAKs are spread.
    pub(crate) fn around(&mut self, interval_ns: u64) -> u64 {
        interval_ns / 2 + if interval_ns == 0 { 0 } else { self.next() % (interval_ns + 1) }
    }
}
