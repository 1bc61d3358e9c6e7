//! Fields of a payload, each handed over as what it is: for those who look at every field of every update.

use crate::fields::{Field, fields};
use crate::plain::PlainEntries;
use rwf::dictionary::Dictionary;
use rwf::{DataType, DecodeError, Primitive, Real, Time, primitive};

/// Takes values by their types. A [`Primitive`] is any of seventeen things, which costs more to put together and to take apart than most values to read; here
/// a number stays a number. What a visitor has no function for comes as a [`Primitive`].
///
/// ```
/// use client::visits::{Visitor, visit};
/// use client::fields::{Field, Primitive};
/// use rwf::dictionary::Dictionary;
/// use rwf::{FieldListEncoder, Real, RealHint, wire::Writer};
///
/// /// The sum of all prices; other fields are passed over.
/// struct Sum(f64);
///
/// impl<'a> Visitor<'a> for Sum {
///     fn real(&mut self, _: Field<'a, '_>, value: Real) {
///         self.0 += value.to_f64();
///     }
///     fn other(&mut self, _: Field<'a, '_>, _: Primitive<'a>) {}
/// }
///
/// let mut buf = [0; 64];
/// let mut w = Writer::new(&mut buf);
/// let mut list = FieldListEncoder::begin(&mut w)?;
/// list.real(22, Real::new(4000, RealHint::EXPONENT_2))?;
/// list.real(25, Real::new(4005, RealHint::EXPONENT_2))?;
/// list.finish()?;
/// let mut sum = Sum(0.0);
/// assert_eq!(visit(w.written(), &Dictionary::builtin(), &mut sum), Ok(2));
/// assert_eq!(sum.0, 80.05);
/// # Ok::<(), rwf::EncodeError>(())
/// ```
pub trait Visitor<'a> {
    /// A value that has no function of its own here, or a blank.
    fn other(&mut self, field: Field<'a, '_>, value: Primitive<'a>);

    /// A REAL.
    #[inline]
    fn real(&mut self, field: Field<'a, '_>, value: Real) {
        self.other(field, Primitive::Real(value));
    }

    /// An unsigned integer.
    #[inline]
    fn uint(&mut self, field: Field<'a, '_>, value: u64) {
        self.other(field, Primitive::UInt(value));
    }

    /// An integer.
    #[inline]
    fn int(&mut self, field: Field<'a, '_>, value: i64) {
        self.other(field, Primitive::Int(value));
    }

    /// The number of an enumeration.
    #[inline]
    fn enumeration(&mut self, field: Field<'a, '_>, value: u16) {
        self.other(field, Primitive::Enum(value));
    }

    /// A time of day.
    #[inline]
    fn time(&mut self, field: Field<'a, '_>, value: Time) {
        self.other(field, Primitive::Time(value));
    }

    /// A text as RMTES: ASCII as a rule, see [`rwf::rmtes`].
    #[inline]
    fn text(&mut self, field: Field<'a, '_>, value: &'a [u8]) {
        self.other(field, Primitive::Rmtes(value));
    }
}

/// Hands all fields of a field list over that the dictionary knows, in order. Gives how many they were.
///
/// # Errors
/// The list is malformed, or a value is not of its field's type. What came before it has been handed over.
#[inline]
pub fn visit<'a>(
    body: &'a [u8],
    dictionary: &Dictionary,
    visitor: &mut impl Visitor<'a>,
) -> Result<usize, DecodeError> {
    let mut count = 0;
    if let Some(mut entries) = PlainEntries::of(body) {
        // What is seldom is kept apart from what is often: where two ways meet, a value that one of them has from a call goes through memory on both. No call
        // takes the visitor in here, so that what it adds up may stay in a register.
        for entry in &mut entries {
            let Some(definition) = dictionary.field(entry.fid) else { continue };
            let field = || Field::new(entry.entry(), definition);
            count += 1;
            match definition.data_type() {
                DataType::REAL if let Some(value) = entry.common_real() => visitor.real(field(), value),
                DataType::ENUM if let Some(value) = entry.common_enumeration() => visitor.enumeration(field(), value),
                DataType::RMTES_STRING if !entry.is_blank() => visitor.text(field(), entry.data()),
                DataType::UINT if let Some(value) = entry.common_uint() => visitor.uint(field(), value),
                DataType::TIME if let Some(value) = entry.common_time() => visitor.time(field(), value),
                data_type => match seldom(entry.data(), data_type)? {
                    Primitive::Real(value) => visitor.real(field(), value),
                    Primitive::Enum(value) => visitor.enumeration(field(), value),
                    Primitive::UInt(value) => visitor.uint(field(), value),
                    Primitive::Int(value) => visitor.int(field(), value),
                    Primitive::Time(value) => visitor.time(field(), value),
                    Primitive::Rmtes(value) => visitor.text(field(), value),
                    value => visitor.other(field(), value),
                },
            }
        }
        if entries.is_over() {
            return Ok(count);
        }
    }
    visit_any(body, dictionary, visitor, count)
}

#[inline(never)]
fn seldom(data: &[u8], data_type: DataType) -> Result<Primitive<'_>, DecodeError> {
    Primitive::decode(data_type, data)
}

/// As [`visit`], of a list of any kind, without the fields that were handed over already.
#[inline(never)]
fn visit_any<'a>(
    body: &'a [u8],
    dictionary: &Dictionary,
    visitor: &mut impl Visitor<'a>,
    handed_over: usize,
) -> Result<usize, DecodeError> {
    let mut count = handed_over;
    for field in fields(body, dictionary).skip(handed_over) {
        let field = field?;
        let bytes = field.bytes();
        count += 1;
        if bytes.is_empty() {
            visitor.other(field, field.value()?);
            continue;
        }
        match field.data_type() {
            DataType::REAL => match primitive::real(bytes)? {
                Some(value) => visitor.real(field, value),
                None => visitor.other(field, Primitive::Blank),
            },
            DataType::ENUM => visitor.enumeration(field, primitive::enumeration(bytes)?),
            DataType::RMTES_STRING => visitor.text(field, bytes),
            DataType::UINT => visitor.uint(field, primitive::uint(bytes)?),
            DataType::INT => visitor.int(field, primitive::int(bytes)?),
            DataType::TIME => match primitive::time(bytes)? {
                value if value.is_blank() => visitor.other(field, Primitive::Blank),
                value => visitor.time(field, value),
            },
            _ => visitor.other(field, field.value()?),
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Places;
    use proptest::prelude::*;
    use rwf::wire::Writer;
    use rwf::{Date, FieldListEncoder, RealHint};

    /// All values as they come, in the form that [`fields`] gives them in.
    #[derive(Default)]
    struct Values<'a>(Vec<(i16, Primitive<'a>)>);

    impl<'a> Visitor<'a> for Values<'a> {
        fn other(&mut self, field: Field<'a, '_>, value: Primitive<'a>) {
            self.0.push((field.fid(), value));
        }
    }

    fn body(values: &[(i16, &[u8])]) -> Vec<u8> {
        let mut buf = [0; 512];
        let mut w = Writer::new(&mut buf);
        let mut list = FieldListEncoder::begin(&mut w).expect("room");
        for (fid, value) in values {
            list.raw(*fid, value).expect("room");
        }
        list.finish().expect("a list");
        w.written().to_vec()
    }

    #[test]
    fn a_visitor_gets_what_fields_gives() {
        let dictionary = Dictionary::builtin();
        let real = [RealHint::EXPONENT_2.0, 0x80, 1];
        let all: &[(i16, &[u8])] = &[
            (22, &real),
            (25, &[]),
            (31, &[0x20]),
            (115, &[2]),
            (3855, &[1, 2, 3, 4, 5]),
            (1025, &[14, 40, 32, 0, 7]),
            (1025, &[255, 255]),
            (16, &[1, 1, 7, 0xEA]),
            (293, b"NAS"),
            // A field of nobody.
            (-32_000, b"?"),
            (22, &[RealHint::NOT_A_NUMBER.0]),
        ];
        let body = body(all);
        let mut visitor = Values::default();
        assert_eq!(visit(&body, &dictionary, &mut visitor), Ok(10));
        let expected: Vec<_> = fields(&body, &dictionary)
            .map(|field| field.and_then(|field| Ok((field.fid(), field.value()?))).expect("whole values"))
            .collect();
        assert_eq!(visitor.0, expected);
        assert!(visitor.0.contains(&(16, Primitive::Date(Date::new(2026, 1, 1)))), "{expected:?}");
    }

    #[test]
    fn a_value_that_is_none_is_told_and_what_came_before_it_is_given() {
        let dictionary = Dictionary::builtin();
        let body = body(&[(115, &[2]), (115, &[1, 2, 3])]);
        let mut visitor = Values::default();
        let told = visit(&body, &dictionary, &mut visitor).expect_err("an enumeration has two bytes");
        assert_eq!((visitor.0.len(), told.what()), (1, "length of an enumeration"));
        assert!(visit(&body[..body.len() - 1], &dictionary, &mut Values::default()).expect_err("cut").is_truncated());
    }

    /// A field of any type that updates have, an unknown one among them, with a value that is mostly one of its type.
    fn any_field() -> impl Strategy<Value = (i16, Vec<u8>)> {
        let of = |fid: i16, lengths: &'static [usize]| {
            (Just(fid), prop::sample::select(lengths), prop::collection::vec(any::<u8>(), 300))
        };
        let any = prop_oneof![
            of(22, &[0, 1, 2, 3, 4, 5, 8, 9, 9, 9]),
            of(30, &[2, 3, 10]),
            of(115, &[0, 1, 1, 2, 2, 2, 1, 2, 3]),
            of(3855, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9]),
            of(1025, &[0, 2, 3, 5, 5, 7, 8, 4]),
            of(16, &[0, 4]),
            of(293, &[0, 1, 3, 7, 253, 254, 300]),
            of(-32_000, &[0, 3, 9]),
        ];
        any.prop_map(|(fid, length, mut value)| {
            value.truncate(length);
            // All hints of a real, and times that are blank.
            if let (22 | 30, Some(hint)) = (fid, value.first_mut()) {
                *hint &= 0x3F;
            } else if fid == 1025 && value.first().is_some_and(|hour| hour % 4 == 0) {
                value.fill(0xFF);
            }
            (fid, value)
        })
    }

    proptest! {
        #[test]
        fn any_list_is_visited_as_it_is_iterated(
            values in prop::collection::vec(any_field(), 0..16),
            cut in prop_oneof![3 => Just(0_usize), 1 => 1..40_usize],
            flags in prop_oneof![4 => Just(None), 1 => any::<u8>().prop_map(Some)],
        ) {
            let dictionary = Dictionary::builtin();
            let mut buf = vec![0; 8_192];
            let mut w = Writer::new(&mut buf);
            let mut list = FieldListEncoder::begin(&mut w).expect("room");
            for (fid, value) in &values {
                list.raw(*fid, value).expect("room");
            }
            list.finish().expect("a list");
            let mut body = w.written().to_vec();
            body[0] = flags.unwrap_or(body[0]);
            body.truncate(body.len().saturating_sub(cut));

            let (mut expected, mut result) = (Vec::new(), Ok(0));
            for field in fields(&body, &dictionary) {
                match field.and_then(|field| Ok((field.fid(), field.value()?))) {
                    Ok(value) => expected.push(value),
                    Err(error) => result = Err(error),
                }
                if result.is_err() {
                    break;
                }
            }
            let expected_result = result.map(|_| expected.len());
            let mut visitor = Values::default();
            prop_assert_eq!(visit(&body, &dictionary, &mut visitor), expected_result);
            prop_assert_eq!(&visitor.0, &expected);

            // The same fields by place, with their bytes.
            let places = Places::of(["BID", "BIDSIZE", "QUOTIM_MS"], &dictionary).expect("known names");
            let mut found = Vec::new();
            let given = places.each_entry(&body, |place, entry| {
                found.push((place, entry.data.to_vec()));
                Ok::<(), DecodeError>(())
            });
            let entries: Vec<_> = fields(&body, &dictionary).map_while(Result::ok).collect();
            let wanted = [22, 30, 3855];
            let place = |fid| wanted.iter().position(|wanted| *wanted == fid);
            let expected: Vec<_> =
                entries.iter().filter_map(|field| Some((place(field.fid())?, field.bytes().to_vec()))).collect();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(given.ok(), fields(&body, &dictionary).all(|field| field.is_ok()).then_some(found.len()));
        }
    }
}
