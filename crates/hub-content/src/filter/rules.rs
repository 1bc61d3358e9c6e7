//! Which fields and updates of which services go on.

use rwf::msg::UpdateType;
use rwf::passing::Passing;
use rwf::wire::Reader;
use rwf::{DataType, FieldList, Real, SetScope, peek};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The filters of all services. The default lets everything pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filters {
    /// The rules of a service, by its name.
    pub services: BTreeMap<String, Arc<ServiceFilter>>,
    /// The rules of all other services.
    pub others: Option<Arc<ServiceFilter>>,
}

impl Filters {
    /// The filter of a service; none if all of it passes.
    pub fn of(&self, service: &str) -> Option<&Arc<ServiceFilter>> {
        let filter = self.services.get(service).or(self.others.as_ref())?;
        (**filter != ServiceFilter::default()).then_some(filter)
    }

    /// True if some service may be filtered.
    pub fn is_on(&self) -> bool {
        self.others.is_some() || !self.services.is_empty()
    }
}

/// What of a service passes. The default lets everything pass.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ServiceFilter {
    /// Fields that pass, in images, updates and entries of books.
    pub fields: FieldRule,
    /// Updates that do not go on, whatever is in them. Images hold what they say.
    pub withheld: UpdateTypes,
    /// The only items that this is about; all if `None`. Only a Source Distributor looks at it.
    pub selector: Option<FieldSelector>,
}

impl Passing for ServiceFilter {
    fn filters(&self, list: DataType) -> bool {
        list == DataType::FIELD_LIST && self.fields != FieldRule::All
    }

    fn field(&self, fid: i16) -> bool {
        self.fields.passes(fid)
    }

    fn element(&self, _: &[u8]) -> bool {
        true
    }
}

/// Items by the value of a field of their images (`filterField`, `filterFieldValues`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldSelector {
    /// The field, such as 259, the type of the record.
    pub fid: i16,
    /// The field's values that select an item.
    pub values: Vec<FieldValue>,
}

impl FieldSelector {
    /// True if an item with this image is selected. One that has not the field is not.
    pub fn selects(&self, container: DataType, body: &[u8]) -> bool {
        field_of(container, body, self.fid).is_some_and(|data| self.values.iter().any(|value| value.is(data)))
    }
}

/// A decimal number by its value: the mantissa has no zero at its end, so that 1.50 is 1.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decimal {
    mantissa: i128,
    /// The power of ten that it is multiplied by.
    exponent: i32,
}

impl Decimal {
    /// So many digits have room beside each other: a number of 64 bits, and eight halves of it.
    const MOST_DIGITS: usize = 30;

    fn new(mut mantissa: i128, mut exponent: i32) -> Self {
        if mantissa == 0 {
            return Self { mantissa, exponent: 0 };
        }
        while mantissa % 10 == 0 {
            (mantissa, exponent) = (mantissa / 10, exponent + 1);
        }
        Self { mantissa, exponent }
    }

    /// The number of a text such as `-12.50`; `None` for anything else, and for one of more than thirty digits.
    pub fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, rest) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        let digits = whole.len() + rest.len();
        if !is_number(whole) || !is_number(rest) || digits == 0 || digits > Self::MOST_DIGITS {
            return None;
        }
        let mantissa: i128 = [whole, rest].concat().parse().ok()?;
        let mantissa = if text.starts_with('-') { -mantissa } else { mantissa };
        Some(Self::new(mantissa, -i32::try_from(rest.len()).ok()?))
    }

    /// The value of a REAL; `None` of infinities and of what is no number.
    pub fn of_real(real: Real) -> Option<Self> {
        let mantissa = i128::from(real.mantissa);
        if let Some(exponent) = real.hint.exponent() {
            return Some(Self::new(mantissa, exponent));
        }
        // Each half is five tenths.
        let halves = real.hint.divisor()?.trailing_zeros();
        Some(Self::new(mantissa * 5_i128.pow(halves), -(halves as i32)))
    }
}

/// A value of a field, as it is compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldValue {
    /// Of an enumeration or an unsigned number.
    Number(u64),
    /// Of a REAL, by its value: 1.50 and 3/2 are the same.
    Decimal(Decimal),
    /// Of a text, without spaces around it.
    Text(Box<[u8]>),
}

impl FieldValue {
    /// True if the data of a field are this value.
    pub fn is(&self, data: &[u8]) -> bool {
        match self {
            Self::Number(number) => {
                (1..=8).contains(&data.len()) && data.iter().fold(0, |n, &byte| n << 8 | u64::from(byte)) == *number
            }
            Self::Decimal(number) => {
                let real = rwf::primitive::real(data).ok().flatten();
                real.and_then(Decimal::of_real) == Some(*number)
            }
            Self::Text(text) => data.trim_ascii() == &text[..],
        }
    }
}

/// The data of a field of a field list; none of another container, or without the field.
pub fn field_of(container: DataType, body: &[u8], fid: i16) -> Option<&[u8]> {
    if container != DataType::FIELD_LIST {
        return None;
    }
    let list = FieldList::decode(body, &SetScope::NONE).ok()?;
    list.entries().flatten().find(|entry| entry.fid == fid).map(|entry| entry.data)
}

impl ServiceFilter {
    /// True if an update, an RWF message, is of a type that is withheld. One that is cut off is not: nobody can read it.
    pub fn withholds(&self, update: &[u8]) -> bool {
        self.withheld.has_type_of(update)
    }
}

/// The type of an update: it follows the flags and the container's type.
fn update_type(update: &[u8]) -> Option<UpdateType> {
    let mut r = Reader::new(update.get(peek::STREAM_ID_OFFSET + 4..)?, "update");
    r.rb15().ok()?;
    r.u8().ok()?;
    r.u8().ok().map(UpdateType)
}

/// Which fields pass.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum FieldRule {
    /// Every field.
    #[default]
    All,
    /// The fields of this set.
    Only(FieldSet),
    /// All but these.
    AllBut(FieldSet),
}

impl FieldRule {
    /// True if a field passes.
    pub fn passes(&self, fid: i16) -> bool {
        match self {
            Self::All => true,
            Self::Only(fields) => fields.has(fid),
            Self::AllBut(fields) => !fields.has(fid),
        }
    }
}

/// A set of field ids.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct FieldSet(
    /// Ranges, first and last, in ascending order, none of which touches the next.
    Box<[(i16, i16)]>,
);

impl FieldSet {
    /// The fields of these ranges, each from its first to its last; a range whose last is before its first is empty.
    pub fn new(ranges: impl IntoIterator<Item = (i16, i16)>) -> Self {
        let mut ranges: Vec<(i16, i16)> = ranges.into_iter().filter(|(first, last)| first <= last).collect();
        ranges.sort_unstable();
        let mut merged: Vec<(i16, i16)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some((_, end)) if i32::from(first) <= i32::from(*end) + 1 => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        Self(merged.into())
    }

    /// True if a field is in the set.
    pub fn has(&self, fid: i16) -> bool {
        let at = self.0.partition_point(|&(_, last)| last < fid);
        self.0.get(at).is_some_and(|&(first, _)| first <= fid)
    }

    /// True if no field is in the set.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A set of types of updates; none by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct UpdateTypes([u64; 4]);

impl UpdateTypes {
    /// No type.
    pub const NONE: Self = Self([0; 4]);

    /// The set with this type.
    #[must_use]
    pub const fn with(mut self, kind: UpdateType) -> Self {
        self.0[kind.0 as usize / 64] |= 1 << (kind.0 % 64);
        self
    }

    /// The types that a client does not want, by the bits of its login, of which bit N is type N: those of `wanted` are all that it wants, if
    /// that is said, but for those of `unwanted`. Types from 64 on have no bit: they are wanted where `wanted` is not said.
    pub const fn unwanted(wanted: Option<u64>, unwanted: Option<u64>) -> Self {
        let not = match unwanted {
            Some(bits) => bits,
            None => 0,
        };
        match wanted {
            Some(bits) => Self([!bits | not, u64::MAX, u64::MAX, u64::MAX]),
            None => Self([not, 0, 0, 0]),
        }
    }

    /// True if no type is in the set.
    pub const fn is_empty(self) -> bool {
        matches!(self.0, [0, 0, 0, 0])
    }

    /// True if the type of an update is in the set. What is no update is not.
    pub fn has_type_of(self, update: &[u8]) -> bool {
        !self.is_empty() && update_type(update).is_some_and(|kind| self.has(kind))
    }

    /// True if a type is in the set.
    pub const fn has(self, kind: UpdateType) -> bool {
        self.0[kind.0 as usize / 64] & 1 << (kind.0 % 64) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::{FieldRule, FieldSet, FieldValue, Filters, ServiceFilter, UpdateTypes};
    use rwf::msg::{Domain, UpdateMsg, UpdateType};
    use rwf::wire::Writer;
    use std::sync::Arc;

    #[test]
    fn types_of_a_login_are_bits() {
        let (quote, trade, late) = (UpdateType::QUOTE, UpdateType::TRADE, UpdateType(64));
        let kept =
            |wanted, unwanted| [quote, trade, late].map(|kind| !UpdateTypes::unwanted(wanted, unwanted).has(kind));
        assert_eq!(kept(None, None), [true, true, true]);
        assert_eq!(kept(Some(0b10), None), [true, false, false], "QUOTE is type 1");
        assert_eq!(kept(None, Some(0b10)), [false, true, true]);
        assert_eq!(kept(Some(0b110), Some(0b100)), [true, false, false]);
        assert!(
            UpdateTypes::unwanted(None, Some(0)).is_empty() && !UpdateTypes::unwanted(Some(u64::MAX), None).is_empty()
        );
    }

    #[test]
    fn values_are_numbers_or_text() {
        assert!(FieldValue::Number(2).is(&[2]) && FieldValue::Number(300).is(&[1, 44]));
        assert!(!FieldValue::Number(0).is(&[]), "a blank is no number");
        assert!(!FieldValue::Number(1).is(&[0, 0, 0, 0, 0, 0, 0, 0, 1]));
        assert!(FieldValue::Text((*b"NYS").into()).is(b" NYS "));
        assert!(!FieldValue::Text((*b"NYS").into()).is(b"NYSE"));
    }

    #[test]
    fn ranges_that_meet_are_one() {
        let set = FieldSet::new([(22, 25), (26, 30), (-5, -1), (7, 3), (24, 24), (i16::MAX, i16::MAX), (i16::MIN, -8)]);
        assert_eq!(set.0[..], [(i16::MIN, -8), (-5, -1), (22, 30), (i16::MAX, i16::MAX)]);
        for (fid, is_in) in [(21, false), (22, true), (30, true), (31, false), (-6, false), (-5, true), (0, false)] {
            assert_eq!(set.has(fid), is_in, "{fid}");
        }
        assert!(set.has(i16::MIN) && set.has(i16::MAX) && FieldSet::new([]).is_empty());
        assert!(FieldRule::Only(set.clone()).passes(25) && !FieldRule::AllBut(set).passes(25));
    }

    #[test]
    fn a_service_that_is_named_has_its_own() {
        let fields = FieldRule::AllBut(FieldSet::new([(22, 22)]));
        let some = Arc::new(ServiceFilter { fields, ..ServiceFilter::default() });
        let mut filters = Filters { others: Some(some.clone()), ..Filters::default() };
        assert!(filters.is_on() && !Filters::default().is_on());
        filters.services.insert("OPEN".to_owned(), Arc::default());
        assert_eq!((filters.of("OPEN"), filters.of("FEED")), (None, Some(&some)));
    }

    #[test]
    fn the_type_of_an_update_is_where_it_stands() {
        let filter = ServiceFilter {
            withheld: UpdateTypes::NONE.with(UpdateType::QUOTE).with(UpdateType(200)),
            ..ServiceFilter::default()
        };
        for (kind, withheld) in [(UpdateType::QUOTE, true), (UpdateType::TRADE, false), (UpdateType(200), true)] {
            let mut buf = [0; 64];
            for seq_num in [None, Some(7)] {
                let mut w = Writer::new(&mut buf);
                let update = UpdateMsg { update_type: kind, seq_num, ..UpdateMsg::new(Domain::MARKET_PRICE, -2) };
                update.encode(&mut w).unwrap();
                assert_eq!(filter.withholds(w.written()), withheld, "{kind}");
            }
        }
        assert!(!filter.withholds(&[]) && !filter.withholds(&[0; 9]));
    }
}
