//! When updates are due: in bursts of `rate / ticks` as the original tool sends them, or each at a time of its own.
//!
//! The schedule is open-loop: it never waits for what is behind. An update that could not be sent in time is still due,
//! and its intended time says how late it is.

const SECOND: u64 = 1_000_000_000;

/// The form of the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// So many bursts a second, all updates of a burst at once.
    Bursts {
        /// Bursts a second, at least 1.
        per_second: u32,
    },
    /// Evenly: update `i` at `i / rate`.
    Smooth,
}

/// How many updates a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// None until told otherwise.
    Stopped,
    /// So many.
    PerSecond(f64),
    /// As many as the connection takes.
    Max,
}

impl Rate {
    /// What `ur` and `-U` take: a number, with `k` or `M` behind it if wanted, or `max`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("max") {
            return Some(Self::Max);
        }
        let (digits, unit) = match text.strip_suffix(['k', 'K']) {
            Some(digits) => (digits, 1e3),
            None => text.strip_suffix(['m', 'M']).map_or((text, 1.0), |digits| (digits, 1e6)),
        };
        let rate: f64 = digits.parse().ok()?;
        (rate.is_finite() && rate >= 0.0).then_some(if rate == 0.0 {
            Self::Stopped
        } else {
            Self::PerSecond(rate * unit)
        })
    }
}

/// A text that is no rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no rate; write updates a second: 50000, 50k, 1.5M or max")]
pub struct RateError(pub String);

impl std::str::FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        Self::parse(text).ok_or_else(|| RateError(text.to_owned()))
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stopped => f.write_str("0"),
            Self::PerSecond(rate) => write!(f, "{rate:.0}"),
            Self::Max => f.write_str("max"),
        }
    }
}

/// The schedule of one stream of updates.
#[derive(Clone, Debug)]
pub struct Pacer {
    shape: Shape,
    rate: Rate,
    /// Time 0 of the schedule.
    since: u64,
    /// Updates taken since then.
    taken: u64,
}

impl Pacer {
    /// A schedule that starts now.
    pub fn new(shape: Shape, rate: Rate, now: u64) -> Self {
        Self { shape, rate, since: now, taken: 0 }
    }

    /// The rate in force.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Another rate from now on; what was due and is not sent is forgotten.
    pub fn set_rate(&mut self, rate: Rate, now: u64) {
        *self = Self::new(self.shape, rate, now);
    }

    /// How many updates are due.
    pub fn due(&self, now: u64) -> u64 {
        match self.rate {
            Rate::Stopped => 0,
            Rate::Max => u64::MAX,
            Rate::PerSecond(rate) => {
                let seconds = now.saturating_sub(self.since) as f64 / SECOND as f64;
                let total = match self.shape {
                    Shape::Smooth => (seconds * rate) as u64,
                    Shape::Bursts { per_second } => {
                        let bursts = (seconds * f64::from(per_second)).floor();
                        (bursts * rate / f64::from(per_second)) as u64
                    }
                };
                total.saturating_sub(self.taken)
            }
        }
    }

    /// When the next update is (or was) due; `None` when there is none, `now` when there is no schedule.
    pub fn next(&self, now: u64) -> Option<u64> {
        match self.rate {
            Rate::Stopped => None,
            Rate::Max => Some(now),
            Rate::PerSecond(rate) => {
                let after = match self.shape {
                    Shape::Smooth => (self.taken + 1) as f64 / rate,
                    Shape::Bursts { per_second } => {
                        let per_burst = rate / f64::from(per_second);
                        (((self.taken + 1) as f64 / per_burst).ceil()) / f64::from(per_second)
                    }
                };
                Some(self.since + (after * SECOND as f64).ceil() as u64)
            }
        }
    }

    /// Takes the next update; says when it was intended to go out.
    #[inline]
    pub fn take(&mut self, now: u64) -> u64 {
        let intended = self.next(now).unwrap_or(now);
        self.taken += 1;
        intended
    }

    /// Takes `count` updates whose intended times nobody needs.
    #[inline]
    pub fn skip(&mut self, count: u64) {
        self.taken += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_carry_their_share_and_nothing_is_due_between_them() {
        let mut pacer = Pacer::new(Shape::Bursts { per_second: 500 }, Rate::PerSecond(10_000.0), 100);
        assert_eq!(pacer.due(100 + 1_999_999), 0);
        assert_eq!(pacer.next(0), Some(100 + 2_000_000));
        assert_eq!(pacer.due(100 + 2_000_000), 20);
        for _ in 0..20 {
            assert_eq!(pacer.take(0), 100 + 2_000_000);
        }
        assert_eq!((pacer.due(100 + 3_999_999), pacer.next(0)), (0, Some(100 + 4_000_000)));
    }

    #[test]
    fn uneven_rates_come_out_even_over_a_second() {
        let mut pacer = Pacer::new(Shape::Bursts { per_second: 500 }, Rate::PerSecond(1_234.0), 0);
        let mut total = 0;
        for tick in 1..=500u64 {
            let due = pacer.due(tick * 2_000_000);
            assert!((2..=3).contains(&due), "{due}");
            pacer.skip(due);
            total += due;
        }
        assert_eq!(total, 1_234);
    }

    #[test]
    fn smooth_updates_have_times_of_their_own_and_lateness_is_not_forgiven() {
        let mut pacer = Pacer::new(Shape::Smooth, Rate::PerSecond(1_000_000.0), 0);
        assert_eq!(pacer.due(999), 0);
        let intended: Vec<u64> = (0..5).map(|_| pacer.take(1_000_000)).collect();
        assert_eq!(intended, [1_000, 2_000, 3_000, 4_000, 5_000]);
        assert_eq!(pacer.due(1_000_000), 995, "a stall leaves its updates due");
        pacer.set_rate(Rate::Stopped, 2_000_000);
        assert_eq!((pacer.due(u64::MAX), pacer.next(0)), (0, None));
        pacer.set_rate(Rate::Max, 0);
        assert_eq!((pacer.due(5), pacer.take(7)), (u64::MAX, 7));
    }

    #[test]
    fn due_and_next_agree() {
        for shape in [Shape::Smooth, Shape::Bursts { per_second: 333 }] {
            for rate in [0.5, 7.0, 999.9, 123_456.0] {
                let mut pacer = Pacer::new(shape, Rate::PerSecond(rate), 5);
                for _ in 0..200 {
                    let at = pacer.next(0).unwrap();
                    assert!(pacer.due(at + 1) >= 1 && pacer.due(at - at.min(2_000)) == 0, "{shape:?} {rate}");
                    pacer.take(0);
                }
            }
        }
    }

    #[test]
    fn rates_are_written_as_people_do() {
        assert_eq!(Rate::parse("50000"), Some(Rate::PerSecond(50_000.0)));
        assert_eq!(Rate::parse(" 1.5M"), Some(Rate::PerSecond(1_500_000.0)));
        assert_eq!(Rate::parse("20k"), Some(Rate::PerSecond(20_000.0)));
        assert_eq!((Rate::parse("0"), Rate::parse("MAX")), (Some(Rate::Stopped), Some(Rate::Max)));
        assert!(Rate::parse("-1").is_none() && Rate::parse("fast").is_none() && Rate::parse("inf").is_none());
    }
}
