//! Latencies and rates over an interval and over a run, in the units of the benchmark reports.

use hdrhistogram::Histogram;

/// A distribution of latencies: recorded in nanoseconds, told in microseconds.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
    sum_ns: u128,
    sum_of_squares: f64,
}

/// Longest latency that is told apart, in nanoseconds: a minute. What is longer counts as a minute.
const LONGEST_NS: u64 = 60_000_000_000;

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    /// Nothing recorded yet.
    pub fn new() -> Self {
        // Three digits from 1 ns to a minute: about 200 KB.
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are in order");
        Self { histogram, sum_ns: 0, sum_of_squares: 0.0 }
    }

    /// Takes one latency.
    pub fn record(&mut self, nanos: u64) {
        let nanos = nanos.clamp(1, LONGEST_NS);
        self.histogram.saturating_record(nanos);
        self.sum_ns += u128::from(nanos);
        self.sum_of_squares += nanos as f64 * nanos as f64;
    }

    /// Takes another distribution's records.
    pub fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("both have the same bounds");
        self.sum_ns += other.sum_ns;
        self.sum_of_squares += other.sum_of_squares;
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.histogram.reset();
        self.sum_ns = 0;
        self.sum_of_squares = 0.0;
    }

    /// The columns that the reports print.
    pub fn summary(&self) -> Summary {
        let samples = self.histogram.len();
        if samples == 0 {
            return Summary::default();
        }
        let mean_ns = self.sum_ns as f64 / samples as f64;
        let variance = (self.sum_of_squares / samples as f64 - mean_ns * mean_ns).max(0.0);
        let at = |quantile: f64| self.histogram.value_at_quantile(quantile) as f64 / 1e3;
        Summary {
            samples,
            mean_us: mean_ns / 1e3,
            stddev_us: variance.sqrt() / 1e3,
            min_us: self.histogram.min() as f64 / 1e3,
            max_us: self.histogram.max() as f64 / 1e3,
            p50_us: at(0.50),
            p90_us: at(0.90),
            p99_us: at(0.99),
            p999_us: at(0.999),
        }
    }
}

/// Statistics of a distribution, in microseconds; all zero without samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// How many.
    pub samples: u64,
    /// Mean.
    pub mean_us: f64,
    /// Standard deviation of the population.
    pub stddev_us: f64,
    /// Shortest.
    pub min_us: f64,
    /// Longest.
    pub max_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_percentiles_are_those_of_the_samples() {
        let mut latency = Latency::new();
        assert_eq!(latency.summary(), Summary::default());
        for us in 1..=1_000u64 {
            latency.record(us * 1_000);
        }
        let s = latency.summary();
        assert_eq!(s.samples, 1_000);
        assert!((s.mean_us - 500.5).abs() < 0.01 && (s.stddev_us - 288.675).abs() < 0.01, "{s:?}");
        for (value, expected) in [(s.min_us, 1.0), (s.max_us, 1_000.0), (s.p50_us, 500.0), (s.p99_us, 990.0)] {
            assert!((value - expected).abs() / expected < 0.002, "{value} for {expected}");
        }
    }

    #[test]
    fn distributions_add_up_and_outliers_are_kept_in_bounds() {
        let (mut a, mut b) = (Latency::new(), Latency::new());
        a.record(0);
        b.record(u64::MAX);
        a.add(&b);
        let s = a.summary();
        assert_eq!(s.samples, 2);
        assert!((s.max_us - 60_000_000.0).abs() / 60_000_000.0 < 0.002);
        a.clear();
        assert_eq!(a.summary().samples, 0);
    }
}
