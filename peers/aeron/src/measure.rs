//! When a message is due, and how long it took.

use std::sync::OnceLock;
use std::time::Instant;

use hdrhistogram::Histogram;

/// Nanoseconds of this process.
pub fn now() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// An open loop: a message is due at its time, whatever has become of those before. Without a rate, each when the one before is back.
pub struct Schedule {
    begin: u64,
    counts_from: u64,
    end: u64,
    interval: f64,
    sent: u64,
}

impl Schedule {
    pub fn new(rate: f64, warmup: f64, seconds: f64) -> Self {
        let begin = now() + 1_000_000;
        let counts_from = begin + (warmup * 1e9) as u64;
        let interval = if rate > 0.0 { 1e9 / rate } else { 0.0 };
        Self { begin, counts_from, end: counts_from + (seconds * 1e9) as u64, interval, sent: 0 }
    }

    /// The intended time of a message that is due now.
    #[inline]
    pub fn due(&mut self, time: u64, received: u64) -> Option<u64> {
        if time >= self.end {
            return None;
        }
        let intended = if self.interval > 0.0 {
            self.begin + (self.sent as f64 * self.interval) as u64
        } else if received == self.sent {
            time
        } else {
            return None;
        };
        (intended <= time).then(|| {
            self.sent += 1;
            intended
        })
    }

    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether a message of that time counts.
    #[inline]
    pub fn counts(&self, intended: u64) -> bool {
        intended >= self.counts_from
    }

    pub fn is_over(&self, time: u64) -> bool {
        time >= self.end
    }

    /// What is not back by now will not come.
    pub fn is_overdue(&self, time: u64) -> bool {
        time >= self.end + 200_000_000
    }
}

/// Round trips from the intended time, and how late they were sent.
pub struct Latency {
    round: Histogram<u64>,
    late: Histogram<u64>,
}

impl Latency {
    pub fn new() -> Self {
        let new = || Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds in order");
        Self { round: new(), late: new() }
    }

    #[inline]
    pub fn late(&mut self, intended: u64, counts: bool) {
        if counts {
            self.late.saturating_record(now().saturating_sub(intended).max(1));
        }
    }

    #[inline]
    pub fn back(&mut self, intended: u64, counts: bool) {
        if counts {
            self.round.saturating_record(now().saturating_sub(intended).max(1));
        }
    }

    pub fn json(&self, seconds: f64) -> String {
        let us = |histogram: &Histogram<u64>, q: f64| histogram.value_at_quantile(q) as f64 / 1e3;
        let round = &self.round;
        format!(
            r#""samples":{},"rate_per_s":{:.0},"min_us":{:.2},"p50_us":{:.2},"p90_us":{:.2},"p99_us":{:.2},"p999_us":{:.2},"max_us":{:.2},"late_p50_us":{:.2},"late_p99_us":{:.2}"#,
            round.len(),
            round.len() as f64 / seconds,
            round.min() as f64 / 1e3,
            us(round, 0.5),
            us(round, 0.9),
            us(round, 0.99),
            us(round, 0.999),
            round.max() as f64 / 1e3,
            us(&self.late, 0.5),
            us(&self.late, 0.99),
        )
    }
}
