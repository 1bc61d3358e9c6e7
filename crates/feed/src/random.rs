//! Seeded random numbers, so that a market is a pure function of its seed. Not for secrets.

use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// A stream of pseudo-random numbers: equal seeds give equal streams on every machine.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256StarStar);

impl Random {
    /// The stream that belongs to `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256StarStar::seed_from_u64(seed))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0.0 .. 1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `0 .. bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(bound) * (self.bits() >> 32)) >> 32) as u32
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Exponential with the given mean: the wait until the next event of a Poisson process.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Standard normal (the polar method; the second value is dropped, which keeps the state small).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (a, b) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = a * a + b * b;
            if square > 0.0 && square < 1.0 {
                return a * (-2.0 * square.ln() / square).sqrt();
            }
        }
    }
}

/// A 64-bit hash of `bytes` that is the same on every machine and in every release: names keep their instruments.
pub fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let folded =
        bytes.iter().fold(seed ^ 0xCBF2_9CE4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01B3));
    scramble(folded)
}

/// The output function of `SplitMix64`: every input bit reaches every output bit.
fn scramble(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Markets of earlier releases stay what they were.
    #[test]
    fn a_seed_gives_the_numbers_that_it_always_gave() {
        let mut random = Random::new(7);
        assert_eq!([random.bits(), random.bits()], [0xB358_FAF7_4EF9_765A, 0x475C_3D96_4F48_2CD2]);
    }

    #[test]
    fn equal_seeds_give_equal_streams() {
        let (mut a, mut b, mut c) = (Random::new(7), Random::new(7), Random::new(8));
        let left: Vec<u64> = (0..100).map(|_| a.bits()).collect();
        assert_eq!(left, (0..100).map(|_| b.bits()).collect::<Vec<_>>());
        assert_ne!(left, (0..100).map(|_| c.bits()).collect::<Vec<_>>());
    }

    #[test]
    fn moments_are_those_of_the_named_distributions() {
        let mut random = Random::new(1);
        let n = 200_000;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let exponential: Vec<f64> = (0..n).map(|_| random.exponential(3.0)).collect();
        assert!((mean(&exponential) - 3.0).abs() < 0.05, "{}", mean(&exponential));
        let normal: Vec<f64> = (0..n).map(|_| random.normal()).collect();
        let squares: Vec<f64> = normal.iter().map(|v| v * v).collect();
        assert!(mean(&normal).abs() < 0.01 && (mean(&squares) - 1.0).abs() < 0.02);
        assert!((0..n).all(|_| random.below(10) < 10));
        assert_eq!(random.below(0), 0);
    }
}
