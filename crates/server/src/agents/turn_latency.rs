//! How long messages are in the process: a histogram.

/// Upper bounds of the buckets of [`TurnLatency`], nanoseconds.
pub const BOUNDS_NS: [u64; 16] = [
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    500_000_000,
    1_000_000_000,
];

/// How long the messages of a turn are in the process: from the moment at which they were found until all that came of them was
/// handed to the kernel. Of every thirty-second turn that delivered something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TurnLatency {
    /// Turns by latency: those up to each of [`BOUNDS_NS`], and the slower ones.
    pub counts: [u64; BOUNDS_NS.len() + 1],
    /// Nanoseconds of all of them.
    pub sum_ns: u64,
}

impl TurnLatency {
    pub(super) fn record(&mut self, ns: u64) {
        let bucket = BOUNDS_NS.partition_point(|bound| *bound < ns);
        self.counts[bucket] += 1;
        self.sum_ns += ns;
    }

    /// A percentile in microseconds: the upper bound of its bucket. `None` without samples, and beyond the last bound.
    pub fn percentile_us(&self, percent: u64) -> Option<f64> {
        let total: u64 = self.counts.iter().sum();
        let rank = (total * percent).div_ceil(100).max(1);
        let mut below = 0;
        let bucket = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        });
        bucket.and_then(|bucket| BOUNDS_NS.get(bucket)).map(|bound| *bound as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive_and_the_slowest_have_no_percentile() {
        let mut slow = TurnLatency::default();
        slow.record(5_000);
        slow.record(5_001);
        slow.record(u64::MAX / 2);
        assert_eq!((slow.counts[0], slow.counts[1], slow.counts[BOUNDS_NS.len()]), (1, 1, 1));
        assert_eq!((slow.percentile_us(50), slow.percentile_us(99)), (Some(10.0), None));
        assert_eq!(TurnLatency::default().percentile_us(50), None);
    }
}
