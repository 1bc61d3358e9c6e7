//! Diffie-Hellman with 64-bit values, as in the version 14 handshake.
//!
//! 64 bits protect nothing; the exchange is here because real peers ask for it.

/// Bytes of a key frame's value, and of each of the three values of a key block.
pub(crate) const KEY_SIZE: usize = 8;

/// Parameters and public value of the side that accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyBlock {
    /// Modulus. ETA takes any 63-bit number, prime or not.
    pub modulus: u64,
    /// Generator. ETA's is always 5.
    pub generator: u64,
    /// generator ^ secret mod modulus.
    pub public: u64,
}

impl KeyBlock {
    /// A key block from two random values. The values on the wire are positive as signed numbers, since ETA Java calculates with
    /// those.
    pub(crate) fn new(seed: &mut Seed) -> (Self, u64) {
        let modulus = seed.next_positive() | 1 << 62;
        let secret = seed.next_positive() | 1;
        let generator = 5;
        (Self { modulus, generator, public: pow_mod(generator, secret, modulus) }, secret)
    }
}

/// base ^ exponent mod modulus; 0 for a modulus of 0, which a hostile peer can send.
pub(crate) fn pow_mod(base: u64, mut exponent: u64, modulus: u64) -> u64 {
    if modulus == 0 {
        return 0;
    }
    let m = u128::from(modulus);
    let mut square = u128::from(base) % m;
    let mut result = 1 % m;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * square % m;
        }
        square = square * square % m;
        exponent >>= 1;
    }
    result as u64
}

/// A stream of values from the caller's seed (`SplitMix64`): the crate itself asks no one for randomness.
pub(crate) struct Seed(pub(crate) u64);

impl Seed {
    /// A value below 2^63.
    pub(crate) fn next_positive(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_get_the_same_secret() {
        for n in 0..200 {
            let (block, secret) = KeyBlock::new(&mut Seed(n));
            let other = Seed(n ^ 0xffff).next_positive();
            let theirs = pow_mod(block.generator, other, block.modulus);
            assert_eq!(pow_mod(block.public, other, block.modulus), pow_mod(theirs, secret, block.modulus));
        }
    }

    #[test]
    fn a_hostile_modulus_is_harmless() {
        assert_eq!(pow_mod(5, u64::MAX, 0), 0);
        assert_eq!(pow_mod(5, u64::MAX, 1), 0);
        assert_eq!(pow_mod(u64::MAX, u64::MAX, u64::MAX), 0);
    }

    #[test]
    fn known_values() {
        assert_eq!(pow_mod(3, 4, 7), 4);
        assert_eq!(pow_mod(5, 0, 7), 1);
        // 2^64 mod the largest 64-bit prime.
        assert_eq!(pow_mod(2, 64, 0xffff_ffff_ffff_ffc5), 0x3b);
    }
}
