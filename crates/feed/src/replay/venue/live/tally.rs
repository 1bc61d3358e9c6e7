//! Figures of a channel.

use venue::lines::LineCounts;
use venue::sequence::Counts;

/// What a feed from the network has done so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveFigures {
    /// Messages that were applied.
    pub messages: u64,
    /// Counters of the numbered stream; of a session over TCP they are of its connections: gaps are losses of the connection.
    pub stream: Counts,
    /// By line: packets, which was first, how far it was behind.
    pub lines: Vec<LineCounts>,
    /// Snapshots that were put in place.
    pub snapshots: u64,
    /// Connections that were dialled.
    pub dials: u64,
    /// Items that the venue has told of.
    pub books: u64,
    /// From the venue's time of a message until it was taken from the socket: half were not later, nanoseconds.
    pub latency_median_ns: u64,
    /// All but one of a hundred were not later.
    pub latency_p99_ns: u64,
    /// The latest.
    pub latency_max_ns: u64,
    /// Messages whose time was later than the clock here, which count as no time: one of the two clocks is wrong.
    pub early: u64,
    /// Messages are missing, or a connection or a snapshot is awaited: items are Suspect.
    pub is_in_doubt: bool,
    /// What was wrong, by kind; each that was.
    pub bad: Vec<(String, u64)>,
}

/// Buckets of a doubling.
const STEPS: usize = 8;

/// Times by size, an eighth of a doubling each.
#[derive(Debug)]
pub(super) struct Times {
    buckets: Vec<u64>,
    count: u64,
    pub max: u64,
    pub early: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { buckets: vec![0; 64 * STEPS], count: 0, max: 0, early: 0 }
    }
}

impl Times {
    #[inline]
    pub(super) fn add(&mut self, from: u64, until: u64) {
        let time = until.saturating_sub(from);
        self.early += u64::from(from > until);
        self.max = self.max.max(time);
        self.count += 1;
        self.buckets[bucket(time)] += 1;
    }

    /// The time that so many of a hundred do not exceed, but for the width of a bucket.
    pub(super) fn percentile(&self, percent: u64) -> u64 {
        let wanted = (self.count * percent).div_ceil(100);
        let mut seen = 0;
        let at = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted && seen > 0
        });
        at.map_or(0, |at| upper(at).min(self.max))
    }
}

fn bucket(time: u64) -> usize {
    if time < STEPS as u64 {
        return time as usize;
    }
    let doublings = time.ilog2() as usize;
    let step = (time >> (doublings - 3)) as usize & (STEPS - 1);
    (doublings - 2) * STEPS + step
}

/// The longest time of a bucket.
fn upper(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let (shift, step) = (bucket / STEPS - 1, bucket % STEPS);
    (((STEPS + step + 1) as u128) << shift).saturating_sub(1).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_lies_in_its_bucket() {
        let mut last = 0;
        for time in (0..4_000).chain((12..64).flat_map(|n| [(1 << n) - 1, 1 << n, (1 << n) + (1 << (n - 1))])) {
            let at = bucket(time);
            assert!(upper(at) >= time && (at == 0 || upper(at - 1) < time), "{time}");
            assert!(at >= last || time < 4_096, "{time}");
            last = at;
        }
        assert_eq!(bucket(u64::MAX), 62 * STEPS - 1);
    }

    #[test]
    fn percentiles_are_those_of_the_times_but_for_an_eighth() {
        let mut times = Times::default();
        (1..=1_000).for_each(|time| times.add(0, time * 1_000));
        times.add(7, 3);
        let near = |value: u64, right: u64| value >= right && value <= right + right / 8;
        assert!(near(times.percentile(50), 500_000) && near(times.percentile(99), 990_000));
        assert_eq!((times.max, times.early, Times::default().percentile(50)), (1_000_000, 1, 0));
    }
}
