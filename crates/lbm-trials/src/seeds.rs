//! Worlds by seed: `QUOTEWAY_SEED=n` runs one, `QUOTEWAY_SEEDS=n` so many.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Chance from a seed, by xorshift: enough for schedules. Twice the same seed is twice the same.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Of a seed; neighbouring ones have little in common.
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..4 {
            random.number();
        }
        random
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Any number below `limit`; 0 of nothing.
    pub fn below(&mut self, limit: u64) -> u64 {
        (self.number() >> 11) % limit.max(1)
    }

    /// Whether something happens that does in one case of so many.
    pub fn one_in(&mut self, cases: u64) -> bool {
        self.below(cases) == 0
    }

    /// Whether something happens that does in so many cases of a thousand.
    pub fn chance(&mut self, of_a_thousand: u64) -> bool {
        self.below(1_000) < of_a_thousand
    }
}

/// The number in an environment variable. `None`: there is none, or it is no number.
pub fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs the worlds 1 to `usual`, or as many as `QUOTEWAY_SEEDS` says, or the one that `QUOTEWAY_SEED` names.
///
/// # Panics
/// As `run` does; the seed is printed before, so that the world can be run alone.
pub fn each_seed(usual: u64, run: impl Fn(u64)) {
    each(asked("QUOTEWAY_SEED"), asked("QUOTEWAY_SEEDS").unwrap_or(usual), run);
}

/// The same for tests whose runs are kills of processes: `QUOTEWAY_KILLS` says how many.
///
/// # Panics
/// See [`each_seed`].
pub fn each_kill(usual: u64, run: impl Fn(u64)) {
    each(asked("QUOTEWAY_SEED"), asked("QUOTEWAY_KILLS").unwrap_or(usual), run);
}

fn each(alone: Option<u64>, count: u64, run: impl Fn(u64)) {
    for seed in alone.map_or(1..=count, |seed| seed..=seed) {
        if let Err(why) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            eprintln!("QUOTEWAY_SEED={seed}");
            resume_unwind(why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_worlds_are_run_or_the_one_that_is_named() {
        let ran = |alone, count| {
            let ran = std::cell::RefCell::new(Vec::new());
            each(alone, count, |seed| ran.borrow_mut().push(seed));
            ran.into_inner()
        };
        assert_eq!(ran(None, 3), [1, 2, 3]);
        assert_eq!(ran(Some(7), 3), [7]);
        assert_eq!(ran(None, 0), [0; 0]);
    }

    #[test]
    fn chance_is_a_matter_of_the_seed() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(|_| random.below(10)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(4), numbers(4));
        assert_ne!(numbers(4), numbers(5));
        assert!((0..10).all(|number| numbers(4).contains(&number)));
        assert_eq!(Random::new(1).below(0), 0);
    }
}
