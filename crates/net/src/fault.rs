//! Injected faults, for tests and demonstrations: connections that are cut in the middle of a message, that come in pieces, that are
//! never read or never accepted.
//!
//! Faults are drawn from a seed, connection by connection in the order in which they come in: the same seed and the same order give
//! the same faults. A set without a plan pays nothing: the tests for it are part of flags that a send and a receive look at anyway.

use std::ops::Range;

/// What goes wrong with one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnFault {
    /// Cut when so many more bytes have been received.
    pub cut_after_received_bytes: Option<u64>,
    /// Cut when so many more bytes have been given to be sent.
    pub cut_after_sent_bytes: Option<u64>,
    /// The cut is a reset; otherwise an end of stream.
    pub reset: bool,
    /// Receive nothing (the peer sees its own queue fill up).
    pub stall_reads: bool,
    /// Receive at most so many bytes at a time, at least one.
    pub receive_at_most_bytes: Option<usize>,
}

impl ConnFault {
    /// Bytes that the next receive may take; zero: cut or stalled.
    pub(crate) fn receive_limit(&self) -> usize {
        if self.stall_reads {
            return 0;
        }
        let cut = self.cut_after_received_bytes.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
        cut.min(self.receive_at_most_bytes.map_or(usize::MAX, |most| most.max(1)))
    }

    pub(crate) fn on_received(&mut self, bytes: usize) {
        if let Some(left) = &mut self.cut_after_received_bytes {
            *left = left.saturating_sub(bytes as u64);
        }
    }

    /// Bytes that may still be sent before the cut.
    pub(crate) fn send_limit(&self) -> usize {
        self.cut_after_sent_bytes.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX))
    }

    pub(crate) fn on_sent(&mut self, bytes: usize) {
        if let Some(left) = &mut self.cut_after_sent_bytes {
            *left = left.saturating_sub(bytes as u64);
        }
    }
}

/// How often what happens: rates are per thousand connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRates {
    /// Connections that are closed instead of accepted.
    pub drop_accepts: u32,
    /// Connections that are cut, each by chance while receiving or while sending.
    pub cuts: u32,
    /// After how many bytes they are cut.
    pub cut_bytes: Range<u64>,
    /// Of the cuts, those that are resets.
    pub resets: u32,
    /// Connections that are never read.
    pub stalls: u32,
    /// Connections whose input comes in pieces.
    pub pieces: u32,
    /// How long the pieces are.
    pub piece_bytes: Range<usize>,
}

impl Default for FaultRates {
    /// No faults.
    fn default() -> Self {
        Self { drop_accepts: 0, cuts: 0, cut_bytes: 1..65_536, resets: 500, stalls: 0, pieces: 0, piece_bytes: 1..64 }
    }
}

/// Faults for the connections of a set, drawn from a seed.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    random: Random,
    rates: FaultRates,
}

impl FaultPlan {
    /// A plan with these rates.
    pub fn new(seed: u64, rates: FaultRates) -> Self {
        Self { random: Random(seed), rates }
    }

    /// Whether the connection that comes in is dropped.
    pub(crate) fn draw_drop(&mut self) -> bool {
        self.rates.drop_accepts > 0 && self.random.below(1000) < u64::from(self.rates.drop_accepts)
    }

    /// The faults of a new connection, if it has any.
    pub(crate) fn draw_connection(&mut self) -> Option<ConnFault> {
        let mut fault = ConnFault::default();
        // A fixed number of draws a connection: changing one rate does not change what the others draw.
        let [cut, after, side, reset, stall, piece, length] = std::array::from_fn(|_| self.random.next());
        let hit = |draw: u64, rate: u32| draw % 1000 < u64::from(rate);
        let within = |draw: u64, from: u64, to: u64| from + draw % to.saturating_sub(from).max(1);
        if hit(cut, self.rates.cuts) {
            let bytes = Some(within(after, self.rates.cut_bytes.start, self.rates.cut_bytes.end));
            if side % 2 == 0 {
                fault.cut_after_received_bytes = bytes;
            } else {
                fault.cut_after_sent_bytes = bytes;
            }
            fault.reset = hit(reset, self.rates.resets);
        }
        fault.stall_reads = hit(stall, self.rates.stalls);
        if hit(piece, self.rates.pieces) {
            let range = &self.rates.piece_bytes;
            fault.receive_at_most_bytes = Some(within(length, range.start as u64, range.end as u64) as usize);
        }
        (fault != ConnFault::default()).then_some(fault)
    }
}

/// The `SplitMix64` generator: small, and the same everywhere.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_faults() {
        let draw = |seed| {
            let mut plan =
                FaultPlan::new(seed, FaultRates { cuts: 300, stalls: 100, pieces: 200, ..FaultRates::default() });
            (0..1000).map(|_| plan.draw_connection()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let faulty = draw(1).iter().flatten().count();
        assert!((400..600).contains(&faulty), "about 1 - 0.7 * 0.9 * 0.8 = 50 % are faulty: {faulty}");
    }

    #[test]
    fn one_rate_does_not_change_what_the_others_draw() {
        let draw = |stalls| {
            let mut plan = FaultPlan::new(5, FaultRates { cuts: 300, stalls, ..FaultRates::default() });
            let cut =
                |fault: Option<ConnFault>| fault.and_then(|f| f.cut_after_sent_bytes.or(f.cut_after_received_bytes));
            (0..1000).map(|_| cut(plan.draw_connection())).collect::<Vec<_>>()
        };
        assert_eq!(draw(0), draw(700));
    }

    #[test]
    fn a_plan_without_rates_has_no_faults() {
        let mut plan = FaultPlan::new(3, FaultRates::default());
        assert!((0..1000).all(|_| !plan.draw_drop() && plan.draw_connection().is_none()));
    }
}
