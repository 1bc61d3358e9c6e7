//! Loss on purpose, for tests and demonstrations.

/// Drops received datagrams before anybody looks at them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fault {
    per_million: u64,
    state: u64,
    pub(crate) dropped: u64,
}

impl Fault {
    pub(crate) fn new(per_million: u32, seed: u64) -> Self {
        Self { per_million: per_million.into(), state: seed | 1, dropped: 0 }
    }

    #[inline]
    pub(crate) fn loses(&mut self) -> bool {
        self.per_million != 0 && self.draw()
    }

    #[cold]
    fn draw(&mut self) -> bool {
        // xorshift64*
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let lost = (self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % 1_000_000 < self.per_million;
        self.dropped += u64::from(lost);
        lost
    }
}
