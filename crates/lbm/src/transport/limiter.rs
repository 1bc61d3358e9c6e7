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
    ceiling_bps: u64,
    floor_bps: u64,
    step_bps: u64,
    /// No second halving before this time: one burst of NAKs is one event.
    hold_until: u64,
}

impl Limiter {
    /// `rate_bps` 0 is no limit.
    pub fn fixed(rate_bps: u64, interval_ns: u64) -> Self {
        let interval_ns = interval_ns.max(1);
        let mut limiter = Self { rate_bps, interval_ns, allowance: 0, tick_at: 0, adaptive: None };
        limiter.allowance = limiter.per_interval();
        limiter
    }

    /// Begins at `ceiling_bps`, halves when [`Limiter::back_off`] is called, and returns by a hundredth of the ceiling per
    /// interval.
    pub fn adaptive(ceiling_bps: u64, interval_ns: u64) -> Self {
        let mut limiter = Self::fixed(ceiling_bps, interval_ns);
        limiter.adaptive = Some(Adaptive {
            ceiling_bps,
            floor_bps: (ceiling_bps / 64).max(1),
            step_bps: (ceiling_bps / 100).max(1),
            hold_until: 0,
        });
        limiter
    }

    /// Whether there is a limit at all.
    pub fn is_limited(&self) -> bool {
        self.rate_bps != 0
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
            let gain = adaptive.step_bps.saturating_mul(passed);
            self.rate_bps = self.rate_bps.saturating_add(gain).min(adaptive.ceiling_bps);
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

    /// When to call [`Limiter::tick`] while something waits.
    pub fn tick_at(&self) -> u64 {
        self.tick_at
    }

    /// Receivers lose: an adaptive limit halves, once per `hold_ns`.
    pub fn back_off(&mut self, now: u64, hold_ns: u64) {
        if let Some(adaptive) = &mut self.adaptive
            && now >= adaptive.hold_until
        {
            adaptive.hold_until = now.saturating_add(hold_ns);
            self.rate_bps = (self.rate_bps / 2).max(adaptive.floor_bps);
        }
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
        limiter.back_off(2 * MS, 100 * MS);
        limiter.back_off(3 * MS, 100 * MS);
        assert_eq!(limiter.rate_bps(), 50_000_000);
        limiter.tick(502 * MS);
        assert_eq!(limiter.rate_bps(), 100_000_000);
        for i in 1..100 {
            limiter.back_off(502 * MS + i * 100 * MS, 100 * MS);
        }
        assert_eq!(limiter.rate_bps(), 100_000_000 / 64);
    }
}
