//! The column that a field becomes, by its type and by the values that it had.
//!
//! Each rule is what `DuckDB`, polars, pandas and pyarrow read right: see `docs/decisions/0018-columns.md`.

use arrow_schema::{DataType as ArrowType, TimeUnit};
use rwf::{DataType, Primitive, Real, RealHint};

/// Digits of a narrow decimal: the most that any number of 64 bits has room for.
pub(crate) const NARROW_DIGITS: u8 = 18;
/// Digits of a wide decimal.
pub(crate) const WIDE_DIGITS: u8 = 38;
/// Digits of an integer of 64 bits without a sign.
const INTEGER_DIGITS: u8 = 20;
/// Integers beyond are no doubles, which pandas makes of integers where some are blank: 2^53.
const EXACT_MAX: u64 = 1 << 53;
/// Hints that have arithmetic.
const HINTS: usize = RealHint::FRACTION_256.0 as usize + 1;

/// The type of a field's column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// 64 bits with a sign.
    Integer,
    /// A decimal of 20 digits without places: integers beyond 2^53.
    WideInteger,
    /// A decimal of 18 digits, or of 38 where one value needs more.
    Decimal { scale: u8, is_wide: bool },
    /// 64 bits, never NaN.
    Double,
    /// Days since 1970.
    Date,
    /// Nanoseconds of the day as an integer: Parquet's own time of day is not read by pandas, and rounded by `DuckDB`.
    TimeOfDay,
    /// Nanoseconds since 1970, UTC.
    DateTime,
    /// A number, with its display in a column beside it.
    Enumeration,
    /// UTF-8.
    Text,
    /// Bytes as they came: a buffer, or a field that the dictionary lacks.
    Bytes,
}

impl Form {
    /// The type in Arrow.
    pub(crate) fn arrow(self) -> ArrowType {
        match self {
            Self::Integer | Self::TimeOfDay => ArrowType::Int64,
            Self::WideInteger => ArrowType::Decimal128(INTEGER_DIGITS, 0),
            Self::Decimal { scale, is_wide } => {
                ArrowType::Decimal128(if is_wide { WIDE_DIGITS } else { NARROW_DIGITS }, scale as i8)
            }
            Self::Double => ArrowType::Float64,
            Self::Date => ArrowType::Date32,
            Self::DateTime => instant(),
            Self::Enumeration => ArrowType::UInt16,
            Self::Text => ArrowType::Utf8,
            Self::Bytes => ArrowType::Binary,
        }
    }
}

/// A time in UTC, to the nanosecond.
pub(crate) fn instant() -> ArrowType {
    ArrowType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

/// What was seen of a field's values: as much as its column depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Type by the dictionary; none for a field that it lacks.
    data_type: Option<DataType>,
    /// Of integers the largest magnitude.
    largest: u64,
    /// Of reals whether a hint was there, and the largest magnitude of its mantissas.
    hints: [Option<u64>; HINTS],
}

impl Seen {
    pub(crate) const fn new(data_type: Option<DataType>) -> Self {
        Self { data_type, largest: 0, hints: [None; HINTS] }
    }

    /// The type by the dictionary.
    pub(crate) const fn data_type(&self) -> Option<DataType> {
        self.data_type
    }

    /// Sees a value.
    pub(crate) fn note(&mut self, value: &Primitive<'_>) {
        match *value {
            Primitive::Int(number) => self.largest = self.largest.max(number.unsigned_abs()),
            Primitive::UInt(number) => self.largest = self.largest.max(number),
            Primitive::Real(Real { mantissa, hint }) => {
                if let Some(largest) = self.hints.get_mut(usize::from(hint.0)) {
                    *largest = (*largest).max(Some(mantissa.unsigned_abs()));
                }
            }
            _ => {}
        }
    }

    /// The column that holds all values which were seen, as far as any column does. Decimals have at least `scale` places.
    pub(crate) fn form(&self, scale: u8) -> Form {
        match self.data_type {
            Some(DataType::INT | DataType::UINT) if self.largest > EXACT_MAX => Form::WideInteger,
            Some(DataType::INT | DataType::UINT) => Form::Integer,
            Some(DataType::REAL) => self.decimal(scale),
            Some(DataType::FLOAT | DataType::DOUBLE) => Form::Double,
            Some(DataType::DATE) => Form::Date,
            Some(DataType::TIME) => Form::TimeOfDay,
            Some(DataType::DATETIME) => Form::DateTime,
            Some(DataType::ENUM) => Form::Enumeration,
            Some(
                DataType::ASCII_STRING
                | DataType::UTF8_STRING
                | DataType::RMTES_STRING
                | DataType::QOS
                | DataType::STATE
                | DataType::ARRAY,
            ) => Form::Text,
            _ => Form::Bytes,
        }
    }

    /// The column of a field of this type, whatever its values were: a price has 38 digits with `scale` places, an integer 64 bits.
    pub(crate) fn fixed_form(&self, scale: u8) -> Form {
        match self.data_type {
            Some(DataType::INT | DataType::UINT) => Form::Integer,
            Some(DataType::REAL) => Form::Decimal { scale, is_wide: true },
            _ => self.form(scale),
        }
    }

    fn decimal(&self, scale: u8) -> Form {
        let seen = || (0..).map(RealHint).zip(&self.hints).filter_map(|(hint, largest)| Some((hint, (*largest)?)));
        let scale = seen().filter_map(|(hint, _)| places(hint)).max().unwrap_or(0).max(scale);
        let is_narrow = |(hint, largest): (RealHint, u64)| {
            factor(hint, scale)
                .and_then(|factor| i128::from(largest).checked_mul(factor))
                .is_some_and(|value| value < 10_i128.pow(u32::from(NARROW_DIGITS)))
        };
        Form::Decimal { scale, is_wide: !seen().all(is_narrow) }
    }
}

/// Decimal places that a hint's values need: a half needs one, a 256th eight. None where there is no arithmetic.
fn places(hint: RealHint) -> Option<u8> {
    match (hint.exponent(), hint.divisor()) {
        (Some(exponent), _) => Some(u8::try_from(-exponent).unwrap_or(0)),
        (None, Some(divisor)) => Some(divisor.trailing_zeros() as u8),
        (None, None) => None,
    }
}

/// By what a mantissa is to be multiplied to be a number of so many places. None where places are too few, or there is no arithmetic.
pub(crate) fn factor(hint: RealHint, scale: u8) -> Option<i128> {
    let ten = |exponent: i32| 10_i128.checked_pow(u32::try_from(exponent).ok()?);
    match (hint.exponent(), hint.divisor()) {
        (Some(exponent), _) => ten(i32::from(scale) + exponent),
        (None, Some(divisor)) => {
            let places = divisor.trailing_zeros();
            ten(i32::from(scale) - places as i32)?.checked_mul(5_i128.pow(places))
        }
        (None, None) => None,
    }
}

/// A real as an integer of so many places. None where it is no such number: there is no arithmetic, or digits other than zeros would be lost.
pub(crate) fn scaled(real: Real, scale: u8) -> Option<i128> {
    let mantissa = i128::from(real.mantissa);
    let Some(factor) = factor(real.hint, scale) else {
        let lost = 10_i128.checked_pow(u32::from(places(real.hint)?.checked_sub(scale)?))?;
        let mantissa = if let Some(divisor) = real.hint.divisor() {
            mantissa.checked_mul(5_i128.pow(divisor.trailing_zeros()))?
        } else {
            mantissa
        };
        return Some(mantissa / lost).filter(|_| mantissa % lost == 0);
    };
    mantissa.checked_mul(factor)
}

/// Factors of all hints, by number; 0 where there is none that a number of 64 bits holds.
pub(crate) fn factors(scale: u8) -> [i64; HINTS] {
    std::array::from_fn(|hint| factor(RealHint(hint as u8), scale).and_then(|f| i64::try_from(f).ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(reals: &[Real]) -> Form {
        let mut seen = Seen::new(Some(DataType::REAL));
        for real in reals {
            seen.note(&Primitive::Real(*real));
        }
        seen.form(0)
    }

    #[test]
    fn decimals_have_the_places_that_values_need() {
        let cents = Real::new(12_345, RealHint::EXPONENT_2);
        assert_eq!(form(&[cents]), Form::Decimal { scale: 2, is_wide: false });
        assert_eq!(form(&[cents, Real::new(3, RealHint::FRACTION_256)]), Form::Decimal { scale: 8, is_wide: false });
        assert_eq!(form(&[Real::new(3, RealHint::EXPONENT7)]), Form::Decimal { scale: 0, is_wide: false });
        // A large number and small ones: 18 digits are not enough.
        let large = Real::new(i64::MIN, RealHint::EXPONENT7);
        assert_eq!(form(&[cents, large]), Form::Decimal { scale: 2, is_wide: true });
        let limit = 10_i64.pow(18);
        assert_eq!(form(&[Real::new(limit - 1, RealHint::EXPONENT0)]), Form::Decimal { scale: 0, is_wide: false });
        assert_eq!(form(&[Real::new(limit, RealHint::EXPONENT0)]), Form::Decimal { scale: 0, is_wide: true });
        assert_eq!(form(&[Real::INFINITY]), Form::Decimal { scale: 0, is_wide: false });
        let mut seen = Seen::new(Some(DataType::REAL));
        seen.note(&Primitive::Real(cents));
        assert_eq!(seen.form(4), Form::Decimal { scale: 4, is_wide: false });
    }

    #[test]
    fn fractions_are_exact_decimals() {
        assert_eq!(factor(RealHint::FRACTION_256, 8), Some(390_625));
        assert_eq!(factor(RealHint::FRACTION_2, 3), Some(500));
        assert_eq!(factor(RealHint::FRACTION_256, 7), None);
        assert_eq!(factor(RealHint::EXPONENT_2, 1), None);
        assert_eq!(factors(2)[usize::from(RealHint::EXPONENT0.0)], 100);
    }

    #[test]
    fn numbers_with_more_places_than_a_column_fit_where_those_are_zeros() {
        assert_eq!(scaled(Real::new(105_000, RealHint::EXPONENT_14), 10), None);
        assert_eq!(scaled(Real::new(1_050_000, RealHint::EXPONENT_14), 10), Some(105));
        assert_eq!(scaled(Real::new(-12_500, RealHint::EXPONENT_4), 2), Some(-125));
        assert_eq!(scaled(Real::new(128, RealHint::FRACTION_256), 1), Some(5));
        assert_eq!(scaled(Real::new(1, RealHint::FRACTION_256), 7), None);
        assert_eq!(scaled(Real::new(7, RealHint::EXPONENT2), 1), Some(7_000));
        assert_eq!(scaled(Real::INFINITY, 2), None);
    }

    #[test]
    fn a_column_of_one_file_of_many_depends_on_no_value() {
        for values in [&[][..], &[Real::new(i64::MIN, RealHint::EXPONENT7)], &[Real::new(1, RealHint::EXPONENT_14)]] {
            let mut seen = Seen::new(Some(DataType::REAL));
            for value in values {
                seen.note(&Primitive::Real(*value));
            }
            assert_eq!(seen.fixed_form(8), Form::Decimal { scale: 8, is_wide: true });
        }
        let mut seen = Seen::new(Some(DataType::UINT));
        seen.note(&Primitive::UInt(u64::MAX));
        assert_eq!(seen.fixed_form(8), Form::Integer);
        assert_eq!(Seen::new(Some(DataType::TIME)).fixed_form(8), Form::TimeOfDay);
    }

    #[test]
    fn integers_that_are_no_doubles_are_decimals() {
        let mut seen = Seen::new(Some(DataType::UINT));
        seen.note(&Primitive::UInt(EXACT_MAX));
        assert_eq!(seen.form(0), Form::Integer);
        seen.note(&Primitive::UInt(EXACT_MAX + 1));
        assert_eq!(seen.form(0), Form::WideInteger);
    }
}
