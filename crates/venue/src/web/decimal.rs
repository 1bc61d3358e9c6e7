//! Numbers as they are sent: in decimal, as texts or as numbers of JSON, never through a floating-point number.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A number with its decimals: `digits` times ten to the power of minus `decimals`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decimal {
    digits: i64,
    decimals: u8,
}

/// More decimals are of no venue.
const MOST_DECIMALS: i32 = 18;

impl Decimal {
    /// Reads `1.50`, `-3`, `1.5e-7`; `None`: it is none, or has more digits than can be counted.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, exponent) = match text.split_once(['e', 'E']) {
            Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (is_negative, number) = number.strip_prefix('-').map_or((false, number), |rest| (true, rest));
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || !whole.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        // Zeros at the end are kept, which tell the product's decimals, unless there is no room for them.
        for part in [part, part.trim_end_matches('0')] {
            let digits = whole
                .bytes()
                .chain(part.bytes())
                .try_fold(0i64, |value, byte| value.checked_mul(10)?.checked_add(i64::from(byte - b'0')));
            let decimals = (part.len() as i32).checked_sub(exponent)?;
            let (digits, decimals) = match digits {
                Some(0) => (Some(0), decimals.clamp(0, MOST_DECIMALS)),
                Some(digits) if decimals < 0 => (raised(digits, decimals.unsigned_abs()), 0),
                digits => (digits, decimals),
            };
            if let (Some(digits), 0..=MOST_DECIMALS) = (digits, decimals) {
                let digits = if is_negative { -digits } else { digits };
                return Some(Self { digits, decimals: decimals as u8 });
            }
        }
        None
    }

    /// Whether it is 0, in whatever spelling.
    pub fn is_zero(self) -> bool {
        self.digits == 0
    }

    /// Decimals as they were sent.
    pub fn decimals(self) -> u8 {
        self.decimals
    }

    /// Decimals that it needs.
    pub fn needed(self) -> u8 {
        let (mut digits, mut decimals) = (self.digits, self.decimals);
        while decimals > 0 && digits % 10 == 0 {
            (digits, decimals) = (digits / 10, decimals - 1);
        }
        decimals
    }

    /// The number in units of so many decimals; `None`: it has more, or is too large.
    pub fn scaled(self, decimals: u8) -> Option<i64> {
        if let Some(more) = decimals.checked_sub(self.decimals) {
            return raised(self.digits, u32::from(more));
        }
        let unit = 10i64.checked_pow(u32::from(self.decimals - decimals))?;
        (self.digits % unit == 0).then_some(self.digits / unit)
    }
}

fn raised(digits: i64, by: u32) -> Option<i64> {
    digits.checked_mul(10i64.checked_pow(by)?)
}

impl<'de> Deserialize<'de> for Decimal {
    /// From a text or a number of JSON, whose characters are read as they are.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(from)?.get();
        let text = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(raw);
        Self::parse(text).ok_or_else(|| serde::de::Error::custom("no number"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_every_digit() {
        let parts = |text| Decimal::parse(text).map(|d| (d.digits, d.decimals, d.needed()));
        assert_eq!(parts("0.00001814"), Some((1_814, 8, 8)));
        assert_eq!(parts("20108.0"), Some((201_080, 1, 0)));
        assert_eq!(parts("1e-10"), Some((1, 10, 10)));
        assert_eq!(parts("1.5E3"), Some((1_500, 0, 0)));
        assert_eq!(parts("-37.63"), Some((-3_763, 2, 2)));
        assert_eq!(parts("0.000000000000000000000"), Some((0, 18, 0)));
        assert_eq!(parts("9223372036854775807.0"), Some((i64::MAX, 0, 0)));
        for none in ["", ".", "-", "1.2.3", "1e", "0x1", "9223372036854775808", "1e-30", "1e300", "nan", "1 "] {
            assert_eq!(parts(none), None, "{none}");
        }
    }

    #[test]
    fn numbers_are_counted_in_units_that_hold_them() {
        let scaled = |text, decimals| Decimal::parse(text).and_then(|d| d.scaled(decimals));
        assert_eq!((scaled("1.50", 1), scaled("1.55", 1), scaled("1.5", 4)), (Some(15), None, Some(15_000)));
        assert_eq!((scaled("9223372036854775807", 1), scaled("0", 18)), (None, Some(0)));
        let json: Vec<Decimal> = serde_json::from_str(r#"["1.5",2.50,-3]"#).unwrap();
        assert_eq!(json.iter().map(|d| d.scaled(2)).collect::<Vec<_>>(), [Some(150), Some(250), Some(-300)]);
        assert!(serde_json::from_str::<Decimal>("null").is_err());
    }
}
