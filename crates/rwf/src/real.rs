//! Decimal numbers and fractions: a mantissa and a hint.

use crate::macros::open_enum;
use std::fmt;

open_enum! {
    /// What to do with the mantissa of a [`Real`] (ETA `RealHints`).
    RealHint: u8 {
        /// Times 10^-14.
        EXPONENT_14 = 0,
        /// Times 10^-13.
        EXPONENT_13 = 1,
        /// Times 10^-12.
        EXPONENT_12 = 2,
        /// Times 10^-11.
        EXPONENT_11 = 3,
        /// Times 10^-10.
        EXPONENT_10 = 4,
        /// Times 10^-9.
        EXPONENT_9 = 5,
        /// Times 10^-8.
        EXPONENT_8 = 6,
        /// Times 10^-7.
        EXPONENT_7 = 7,
        /// Times 10^-6.
        EXPONENT_6 = 8,
        /// Times 10^-5.
        EXPONENT_5 = 9,
        /// Times 10^-4.
        EXPONENT_4 = 10,
        /// Times 10^-3.
        EXPONENT_3 = 11,
        /// Times 10^-2: two decimal places.
        EXPONENT_2 = 12,
        /// Times 10^-1.
        EXPONENT_1 = 13,
        /// Integer.
        EXPONENT0 = 14,
        /// Times 10.
        EXPONENT1 = 15,
        /// Times 10^2.
        EXPONENT2 = 16,
        /// Times 10^3.
        EXPONENT3 = 17,
        /// Times 10^4.
        EXPONENT4 = 18,
        /// Times 10^5.
        EXPONENT5 = 19,
        /// Times 10^6.
        EXPONENT6 = 20,
        /// Times 10^7.
        EXPONENT7 = 21,
        /// Whole, as a fraction.
        FRACTION_1 = 22,
        /// Halves.
        FRACTION_2 = 23,
        /// Quarters.
        FRACTION_4 = 24,
        /// Eighths.
        FRACTION_8 = 25,
        /// 16ths.
        FRACTION_16 = 26,
        /// 32nds.
        FRACTION_32 = 27,
        /// 64ths.
        FRACTION_64 = 28,
        /// 128ths.
        FRACTION_128 = 29,
        /// 256ths.
        FRACTION_256 = 30,
        /// Positive infinity; no mantissa.
        INFINITY = 33,
        /// Negative infinity; no mantissa.
        NEG_INFINITY = 34,
        /// Not a number; no mantissa.
        NOT_A_NUMBER = 35,
    }
}

impl RealHint {
    /// The hint byte of a blank value.
    pub(crate) const BLANK: u8 = 0x20;

    /// True for infinities and NaN, which have no mantissa.
    #[inline]
    pub const fn is_special(self) -> bool {
        matches!(self, Self::INFINITY | Self::NEG_INFINITY | Self::NOT_A_NUMBER)
    }

    /// The power of ten, for the exponents.
    pub const fn exponent(self) -> Option<i32> {
        if self.0 <= Self::EXPONENT7.0 { Some(self.0 as i32 - Self::EXPONENT0.0 as i32) } else { None }
    }

    /// The divisor, for the fractions.
    pub const fn divisor(self) -> Option<u32> {
        if self.0 >= Self::FRACTION_1.0 && self.0 <= Self::FRACTION_256.0 {
            Some(1 << (self.0 - Self::FRACTION_1.0))
        } else {
            None
        }
    }
}

/// A decimal number or fraction. Two reals are equal when mantissa and hint are: 1.20 is not 1.2, as on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Real {
    /// The mantissa; 0 for infinities and NaN.
    pub mantissa: i64,
    /// What to do with it.
    pub hint: RealHint,
}

impl Default for Real {
    /// Zero as an integer.
    fn default() -> Self {
        Self::new(0, RealHint::EXPONENT0)
    }
}

impl Real {
    /// Positive infinity.
    pub const INFINITY: Self = Self::new(0, RealHint::INFINITY);
    /// Negative infinity.
    pub const NEG_INFINITY: Self = Self::new(0, RealHint::NEG_INFINITY);
    /// Not a number.
    pub const NOT_A_NUMBER: Self = Self::new(0, RealHint::NOT_A_NUMBER);

    /// A real of a mantissa and a hint.
    #[inline]
    pub const fn new(mantissa: i64, hint: RealHint) -> Self {
        Self { mantissa, hint }
    }

    /// `value` rounded to `hint`, half away from zero. Infinities and NaN take their own hints.
    ///
    /// `None` if the mantissa does not fit in 64 bits or the hint has no arithmetic.
    pub fn from_f64(value: f64, hint: RealHint) -> Option<Self> {
        if value.is_nan() {
            return Some(Self::NOT_A_NUMBER);
        }
        if value.is_infinite() {
            return Some(if value > 0.0 { Self::INFINITY } else { Self::NEG_INFINITY });
        }
        let scaled = match (hint.exponent(), hint.divisor()) {
            (Some(e), _) if e <= 0 => value * 10f64.powi(-e),
            (Some(e), _) => value / 10f64.powi(e),
            (None, Some(divisor)) => value * f64::from(divisor),
            (None, None) => return None,
        };
        let rounded = scaled.round();
        // 2^63 itself is a double, i64::MAX is not.
        let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded);
        fits.then_some(Self::new(rounded as i64, hint))
    }

    /// The nearest double.
    #[inline]
    pub fn to_f64(self) -> f64 {
        /// Divisors of decimal places: powers of ten that doubles have.
        const PLACES: [f64; 15] = [1e14, 1e13, 1e12, 1e11, 1e10, 1e9, 1e8, 1e7, 1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1.0];
        let mantissa = self.mantissa as f64;
        if let Some(divisor) = PLACES.get(usize::from(self.hint.0)) {
            return mantissa / divisor;
        }
        self.odd_to_f64(mantissa)
    }

    /// Thousands, fractions, and what is no number.
    fn odd_to_f64(self, mantissa: f64) -> f64 {
        match (self.hint.exponent(), self.hint.divisor()) {
            (Some(e), _) => mantissa * 10f64.powi(e),
            (None, Some(divisor)) => mantissa / f64::from(divisor),
            _ if self.hint == RealHint::INFINITY => f64::INFINITY,
            _ if self.hint == RealHint::NEG_INFINITY => f64::NEG_INFINITY,
            _ => f64::NAN,
        }
    }
}

impl fmt::Display for Real {
    /// Decimal digits exactly as many as the hint says; fractions as `12 3/8`; `Inf`, `-Inf`, `NaN`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.mantissa < 0 { "-" } else { "" };
        let magnitude = self.mantissa.unsigned_abs();
        if let Some(exponent) = self.hint.exponent() {
            if exponent >= 0 {
                write!(f, "{sign}{}", u128::from(magnitude) * 10u128.pow(exponent as u32))
            } else {
                let scale = 10u64.pow(exponent.unsigned_abs());
                let places = exponent.unsigned_abs() as usize;
                write!(f, "{sign}{}.{:0places$}", magnitude / scale, magnitude % scale)
            }
        } else if let Some(divisor) = self.hint.divisor() {
            let (whole, rest) = (magnitude / u64::from(divisor), magnitude % u64::from(divisor));
            match (whole, rest) {
                (_, 0) => write!(f, "{sign}{whole}"),
                (0, _) => write!(f, "{sign}{rest}/{divisor}"),
                _ => write!(f, "{sign}{whole} {rest}/{divisor}"),
            }
        } else {
            f.write_str(match self.hint {
                RealHint::INFINITY => "Inf",
                RealHint::NEG_INFINITY => "-Inf",
                _ => "NaN",
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_follows_the_hint() {
        let cases = [
            (Real::new(12345, RealHint::EXPONENT_14), "0.00000000012345"),
            (Real::new(-5, RealHint::EXPONENT_2), "-0.05"),
            (Real::new(i64::MIN, RealHint::EXPONENT7), "-92233720368547758080000000"),
            (Real::new(99, RealHint::FRACTION_8), "12 3/8"),
            (Real::new(-3, RealHint::FRACTION_256), "-3/256"),
            (Real::NEG_INFINITY, "-Inf"),
        ];
        for (real, text) in cases {
            assert_eq!(real.to_string(), text);
        }
    }

    #[test]
    fn a_double_of_decimal_places_is_the_nearest_one() {
        for hint in 0..=RealHint::EXPONENT7.0 {
            let real = Real::new(-123_456_789_012_345, RealHint(hint));
            let text = format!("-123456789012345e{}", i32::from(hint) - 14);
            assert_eq!(Ok(real.to_f64()), text.parse(), "{hint}");
        }
    }

    #[test]
    fn doubles_round_to_the_hint() {
        assert_eq!(Real::from_f64(1.005, RealHint::EXPONENT_2).unwrap().mantissa, 100);
        assert_eq!(Real::from_f64(-2.5, RealHint::EXPONENT0).unwrap().mantissa, -3);
        assert_eq!(Real::from_f64(12.375, RealHint::FRACTION_8), Some(Real::new(99, RealHint::FRACTION_8)));
        assert_eq!(Real::from_f64(1e19, RealHint::EXPONENT0), None);
        assert_eq!(Real::from_f64(f64::NEG_INFINITY, RealHint::EXPONENT0), Some(Real::NEG_INFINITY));
        assert!((Real::new(123, RealHint::EXPONENT_2).to_f64() - 1.23).abs() < 1e-12);
    }
}
