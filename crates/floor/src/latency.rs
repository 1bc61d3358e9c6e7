//! Percentiles of latencies, without a library.

use std::fmt;

/// Width of a bucket in ns unless something else is asked for, and how many there are: up to 100 ms; then as many wider ones: up to
/// 10 s; then one for the rest.
const WIDTH: u64 = 100;
const BUCKETS: usize = 1_000_000;
const WIDER: u64 = 100;
/// Microseconds of a histogram that is shown one by one.
const SHOWN_US: usize = 250;

/// Counts of latencies by bucket.
#[derive(Debug)]
pub(super) struct Histogram {
    width: u64,
    counts: Vec<u32>,
    /// Behind those, buckets a hundred times as wide.
    wide: Vec<u32>,
    count: u64,
    min: u64,
    max: u64,
    sum: f64,
    squares: f64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self::with_width(WIDTH)
    }

    pub(super) fn with_width(width: u64) -> Self {
        Self {
            width,
            counts: vec![0; BUCKETS],
            wide: vec![0; BUCKETS + 1],
            count: 0,
            min: u64::MAX,
            max: 0,
            sum: 0.0,
            squares: 0.0,
        }
    }

    #[inline]
    pub(super) fn add(&mut self, ns: u64) {
        match self.counts.get_mut((ns / self.width) as usize) {
            Some(count) => *count += 1,
            None => self.wide[((ns / self.width / WIDER) as usize).min(BUCKETS)] += 1,
        }
        self.count += 1;
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
        self.sum += ns as f64;
        self.squares += ns as f64 * ns as f64;
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Samples by microsecond, as far as [`SHOWN_US`]: for a chart.
    pub(super) fn by_microsecond(&self) -> Vec<u64> {
        let mut all = vec![0; SHOWN_US];
        for (bucket, count) in self.counts.iter().enumerate().take(SHOWN_US * 1_000 / self.width as usize) {
            all[bucket * self.width as usize / 1_000] += u64::from(*count);
        }
        all.truncate(all.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1));
        all
    }

    fn quantile(&self, q: f64) -> f64 {
        let wanted = (self.count as f64 * q) as u64;
        let mut seen = 0;
        let fine = self.counts.iter().zip((0u64..).map(|bucket| bucket * self.width));
        let wide = self.wide.iter().zip((0u64..).map(|bucket| bucket * self.width * WIDER));
        for (&count, ns) in fine.chain(wide.take(BUCKETS)) {
            seen += u64::from(count);
            if seen > wanted {
                return ns as f64 / 1000.0;
            }
        }
        self.max as f64 / 1000.0
    }

    pub(super) fn distribution(&self) -> Distribution {
        if self.count == 0 {
            return Distribution::default();
        }
        let mean = self.sum / self.count as f64;
        let variance = (self.squares / self.count as f64 - mean * mean).max(0.0);
        let Latency { min, median, p90, p99, p999, max } = self.latency();
        let (mean, stddev, p9999) = (mean / 1000.0, variance.sqrt() / 1000.0, self.quantile(0.9999));
        Distribution { min, median, mean, stddev, p90, p99, p999, p9999, max }
    }

    pub(super) fn latency(&self) -> Latency {
        if self.count == 0 {
            return Latency::default();
        }
        Latency {
            min: self.min as f64 / 1000.0,
            median: self.quantile(0.5),
            p90: self.quantile(0.9),
            p99: self.quantile(0.99),
            p999: self.quantile(0.999),
            max: self.max as f64 / 1000.0,
        }
    }
}

/// Latencies of one measurement as the reports have them, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distribution {
    /// The shortest.
    pub min: f64,
    /// Half are shorter.
    pub median: f64,
    /// Mean of the latencies.
    pub mean: f64,
    /// Standard deviation of the latencies.
    pub stddev: f64,
    /// Nine in ten are shorter.
    pub p90: f64,
    /// 99 % are shorter.
    pub p99: f64,
    /// 99.9 % are shorter.
    pub p999: f64,
    /// 99.99 % are shorter.
    pub p9999: f64,
    /// The longest.
    pub max: f64,
}

/// Latencies of one measurement, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// The shortest.
    pub min: f64,
    /// Half are shorter.
    pub median: f64,
    /// Nine in ten are shorter.
    pub p90: f64,
    /// 99 % are shorter.
    pub p99: f64,
    /// 99.9 % are shorter.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl Latency {
    /// As a JSON object, in microseconds.
    pub fn to_json(&self) -> String {
        let Self { min, median, p90, p99, p999, max } = self;
        format!(
            r#"{{"min":{min:.1},"median":{median:.1},"p90":{p90:.1},"p99":{p99:.1},"p999":{p999:.1},"max":{max:.1}}}"#
        )
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { min, median, p90, p99, p999, max } = self;
        write!(f, "min {min:.1} median {median:.1} 90% {p90:.1} 99% {p99:.1} 99.9% {p999:.1} max {max:.0} us")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut histogram = Histogram::new();
        for us in 1..=1000 {
            histogram.add(us * 1000);
        }
        histogram.add(500_000_000);
        let latency = histogram.latency();
        assert_eq!((latency.min, latency.median, latency.p90, latency.max), (1.0, 501.0, 901.0, 500_000.0));
        (0..2_000).for_each(|_| histogram.add(250_000_000));
        assert_eq!((histogram.latency().median, histogram.latency().p99), (250_000.0, 250_000.0));
        assert_eq!(Histogram::new().latency(), Latency::default());
        assert_eq!(Histogram::new().by_microsecond(), [0; 0]);
        let mut fine = Histogram::with_width(10);
        for ns in [2_010, 2_990, 4_000, 249_999, 250_000] {
            fine.add(ns);
        }
        let shown = fine.by_microsecond();
        assert_eq!((shown.len(), &shown[..5], shown[249]), (250, &[0, 0, 2, 0, 1][..], 1));
        let mut two = Histogram::new();
        two.add(1_000);
        two.add(3_000);
        assert_eq!((two.distribution().mean, two.distribution().stddev), (2.0, 1.0));
    }
}
