//! Rate limits: bits per second, spent per interval.

/// An allowance that is renewed at each interval. What one datagram overdraws is owed by the next interval.
#[derive(Clone, Debug)]
pub struct Limiter {
    rate_bps: u64,
    interval_ns: u64,
    /// Bits left in this interval; negative while in debt.
    allowance: i64,
    /// When the next interval begins.
    tick_at: u64,
    adaptive: Option<Adaptive>,
}

#[derive(Clone, Debug)]
struct Adaptive {
    /// 0 = none: the limit begins with a burst of NAKs and ends once the rate has doubled since.
    ceiling_bps: u64,
    /// What it has fallen from.
    from_bps: u64,
    /// No second halving before this time: one burst of NAKs is one event.
    hold_until: u64,
}

impl Adaptive {
    /// Whoever asks for more than was lost must not bring a session to a stop, least of all one that has no configured limit.
    fn floor_bps(&self) -> u64 {
        (self.from_bps / if self.ceiling_bps == 0 { 8 } else { 64 }).max(1)
    }
}

impl Limiter {
    /// `rate_bps` 0 is no limit.
    pub fn fixed(rate_bps: u64, interval_ns: u64) -> Self {
        let interval_ns = interval_ns.max(1);
        let mut limiter = Self { rate_bps, interval_ns, allowance: 0, tick_at: 0, adaptive: None };
        limiter.allowance = limiter.per_interval();
        limiter
    }

    /// Begins at `ceiling_bps` (0 = no limit), halves when [`Limiter::back_off`] is called, and returns by a hundredth of what it has
    /// fallen from in each interval.
    pub fn adaptive(ceiling_bps: u64, interval_ns: u64) -> Self {
        let mut limiter = Self::fixed(ceiling_bps, interval_ns);
        limiter.adaptive = Some(Adaptive { ceiling_bps, from_bps: ceiling_bps, hold_until: 0 });
        limiter
    }

    /// Whether there is a limit at all.
    pub fn is_limited(&self) -> bool {
        self.rate_bps != 0
    }

    /// Whether repeated data counts as well: it does towards a limit that was configured, not towards one that is there for a while
    /// because a receiver cannot follow, who then would get neither.
    pub fn counts_repairs(&self) -> bool {
        self.adaptive.as_ref().is_none_or(|adaptive| adaptive.ceiling_bps != 0)
    }

    /// The present rate, 0 = no limit.
    pub fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    fn per_interval(&self) -> i64 {
        let bits = u128::from(self.rate_bps) * u128::from(self.interval_ns) / 1_000_000_000;
        i64::try_from(bits).unwrap_or(i64::MAX / 4).clamp(1, i64::MAX / 4)
    }

    /// Begins a new interval if its time has come.
    #[inline]
    pub fn tick(&mut self, now: u64) {
        if self.rate_bps == 0 || now < self.tick_at {
            return;
        }
        let passed = (now - self.tick_at) / self.interval_ns + 1;
        self.tick_at =
            if self.tick_at == 0 { now + self.interval_ns } else { self.tick_at + passed * self.interval_ns };
        if let Some(adaptive) = &self.adaptive {
            let gain = (adaptive.from_bps / 100).max(1).saturating_mul(passed);
            self.rate_bps = self.rate_bps.saturating_add(gain);
            if adaptive.ceiling_bps != 0 {
                self.rate_bps = self.rate_bps.min(adaptive.ceiling_bps);
            } else if self.rate_bps >= adaptive.from_bps.saturating_mul(2) {
                self.rate_bps = 0;
                return;
            }
        }
        let full = self.per_interval();
        let gain = full.saturating_mul(i64::try_from(passed).unwrap_or(i64::MAX));
        self.allowance = self.allowance.saturating_add(gain).min(full);
    }

    /// Whether anything may be sent in this interval.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.rate_bps == 0 || self.allowance > 0
    }

    /// Bytes were sent.
    #[inline]
    pub fn spend(&mut self, bytes: usize) {
        if self.rate_bps != 0 {
            self.allowance = self.allowance.saturating_sub_unsigned(bytes as u64 * 8);
        }
    }

    /// Asserts between what an adaptive limit moves: for simulations.
    pub(super) fn check_invariants(&self) {
        let Some(adaptive) = &self.adaptive else { return };
        let (rate, ceiling, from) = (self.rate_bps, adaptive.ceiling_bps, adaptive.from_bps);
        assert!(ceiling == 0 || from == ceiling && rate <= ceiling, "{rate} b/s is more than the limit of {ceiling}");
        assert!(rate == 0 || rate >= adaptive.floor_bps(), "{rate} b/s has fallen from {from} to nearly nothing");
        assert!(ceiling != 0 || rate < from.saturating_mul(2).max(1), "{rate} b/s has doubled, and is limited still");
    }

    /// When to call [`Limiter::tick`] while something waits.
    pub fn tick_at(&self) -> u64 {
        self.tick_at
    }

    /// A receiver cannot follow: an adaptive limit halves, once per `hold_ns`. Where there is none, half of `sent_bps` becomes the limit.
    pub fn back_off(&mut self, now: u64, hold_ns: u64, sent_bps: u64) {
        let Some(adaptive) = &mut self.adaptive else { return };
        if now < adaptive.hold_until {
            return;
        }
        let begins = self.rate_bps == 0;
        if begins {
            if sent_bps == 0 {
                return;
            }
            adaptive.from_bps = sent_bps;
            self.rate_bps = sent_bps;
        }
        adaptive.hold_until = now.saturating_add(hold_ns);
        self.rate_bps = (self.rate_bps / 2).max(adaptive.floor_bps());
        if begins {
            self.tick_at = now + self.interval_ns;
            self.allowance = self.per_interval();
        }
    }
}

/// What was sent lately: the most in one period, fading by a quarter with each period.
#[derive(Clone, Debug)]
pub struct Meter {
    period_ns: u64,
    period: u64,
    now: Sent,
    peak: Sent,
    /// The first number of the last period, and of this one.
    recent: [u32; 2],
    next: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    datagrams: u64,
    bytes: u64,
}

impl Meter {
    /// Nothing was sent; the first datagram will be `next`.
    pub fn new(period_ns: u64, next: u32) -> Self {
        let (now, peak) = (Sent::default(), Sent::default());
        Self { period_ns: period_ns.max(1), period: 0, now, peak, recent: [next; 2], next }
    }

    fn roll(&mut self, now: u64) {
        let passed = (now / self.period_ns).saturating_sub(self.period);
        if passed == 0 {
            return;
        }
        self.period += passed;
        self.recent = [if passed == 1 { self.recent[1] } else { self.next }, self.next];
        for (now, peak) in
            [(&mut self.now.datagrams, &mut self.peak.datagrams), (&mut self.now.bytes, &mut self.peak.bytes)]
        {
            *peak = (*peak - *peak / 4).max(core::mem::take(now));
            // What is left after 64 periods is less than a datagram of any burst.
            for _ in 1..passed.min(64) {
                *peak -= *peak / 4;
            }
        }
    }

    /// Datagrams were sent.
    pub fn sent(&mut self, now: u64, datagrams: u32, bytes: u64) {
        self.roll(now);
        self.now.datagrams += u64::from(datagrams);
        self.now.bytes += bytes;
        self.next = self.next.wrapping_add(datagrams);
    }

    /// The number of the period, and the datagrams of a period lately.
    pub fn datagrams(&mut self, now: u64) -> (u64, u64) {
        self.roll(now);
        (self.period, self.peak.datagrams.max(self.now.datagrams))
    }

    /// The first number of those that were sent in this period or the last.
    pub fn recent(&mut self, now: u64) -> u32 {
        self.roll(now);
        self.recent[0]
    }

    /// Bits per second lately.
    pub fn rate_bps(&mut self, now: u64) -> u64 {
        self.roll(now);
        let bits = u128::from(self.peak.bytes.max(self.now.bytes)) * 8 * 1_000_000_000;
        u64::try_from(bits / u128::from(self.period_ns)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Bytes that pass in 10 s, offered in full datagrams whenever the limiter is open.
    fn passed(limiter: &mut Limiter, datagram: usize) -> u64 {
        let mut bytes = 0;
        for now in (MS..10_000 * MS).step_by(MS as usize) {
            limiter.tick(now);
            while limiter.is_open() && bytes < 1 << 40 {
                limiter.spend(datagram);
                bytes += datagram as u64;
            }
        }
        bytes
    }

    #[test]
    fn keeps_its_rate_whatever_the_datagram() {
        for datagram in [100, 1_472, 8_192, 65_507] {
            let bits = passed(&mut Limiter::fixed(10_000_000, 10 * MS), datagram) * 8;
            let allowed = 100_000_000;
            assert!(bits.abs_diff(allowed) < allowed / 100 + datagram as u64 * 16, "{datagram}: {bits}");
        }
    }

    #[test]
    fn zero_is_no_limit() {
        let mut limiter = Limiter::fixed(0, 10 * MS);
        limiter.spend(usize::MAX / 16);
        assert!(limiter.is_open() && !limiter.is_limited());
    }

    #[test]
    fn a_pause_is_not_saved_up() {
        let mut limiter = Limiter::fixed(8_000_000, 10 * MS);
        limiter.tick(MS);
        limiter.spend(5_000);
        limiter.tick(60_000 * MS);
        // One interval is 10,000 bytes, however long the pause was.
        limiter.spend(10_000);
        assert!(!limiter.is_open());
    }

    #[test]
    fn adapts_by_halving_and_returns() {
        let mut limiter = Limiter::adaptive(100_000_000, 10 * MS);
        limiter.tick(MS);
        limiter.back_off(2 * MS, 100 * MS, 0);
        limiter.back_off(3 * MS, 100 * MS, 0);
        assert_eq!(limiter.rate_bps(), 50_000_000);
        limiter.tick(502 * MS);
        assert_eq!(limiter.rate_bps(), 100_000_000);
        for i in 1..100 {
            limiter.back_off(502 * MS + i * 100 * MS, 100 * MS, 0);
        }
        assert_eq!(limiter.rate_bps(), 100_000_000 / 64);
    }

    #[test]
    fn begins_at_half_of_what_was_sent_and_ends_above_it() {
        let mut limiter = Limiter::adaptive(0, 10 * MS);
        limiter.back_off(MS, 100 * MS, 0);
        assert!(!limiter.is_limited());
        limiter.back_off(MS, 100 * MS, 80_000_000);
        assert_eq!(limiter.rate_bps(), 40_000_000);
        let bits = passed(&mut limiter.clone(), 1_400) * 8;
        assert!(bits > 80_000_000, "it rises again: {bits}");
        for i in 1..100 {
            limiter.back_off(MS + i * 100 * MS, 100 * MS, 80_000_000);
        }
        assert_eq!(limiter.rate_bps(), 10_000_000, "and never falls below an eighth");
        limiter.tick(60_000 * MS);
        assert!(!limiter.is_limited());
    }

    #[test]
    fn remembers_the_busiest_period_for_a_while() {
        let mut meter = Meter::new(100 * MS, u32::MAX);
        meter.sent(1, 1_000, 1_000_000);
        assert_eq!((meter.recent(2), meter.recent(150 * MS)), (u32::MAX, u32::MAX));
        assert_eq!(meter.datagrams(250 * MS), (2, 750));
        assert_eq!(meter.rate_bps(250 * MS), 60_000_000);
        assert_eq!(meter.recent(250 * MS), 999);
        meter.sent(310 * MS, 2_000, 2_000_000);
        assert_eq!(meter.datagrams(320 * MS), (3, 2_000));
        assert_eq!(meter.datagrams(60_000 * MS).1, 3);
    }
}
