//! Fields by name: decoded one by one when they are looked at, without an allocation, or into a struct of them.
//!
//! ```
//! use client::fields::{Layout, fields};
//! use client::Fields;
//! use rwf::dictionary::Dictionary;
//! use rwf::{FieldListEncoder, Real, RealHint, wire::Writer};
//!
//! #[derive(Fields, Default, Debug, PartialEq)]
//! struct Quote {
//!     bid: Option<Real>,
//!     #[field("ASK")]
//!     offer: Option<f64>,
//!     dsply_name: Option<String>,
//! }
//!
//! let dictionary = Dictionary::builtin();
//! let layout = Layout::<Quote>::of(&dictionary)?;
//! let mut buf = [0; 64];
//! let mut w = Writer::new(&mut buf);
//! let mut list = FieldListEncoder::begin(&mut w)?;
//! list.real(22, Real::new(4000, RealHint::EXPONENT_2))?;
//! list.real(25, Real::new(4005, RealHint::EXPONENT_2))?;
//! list.finish()?;
//!
//! let mut quote = Quote::default();
//! assert_eq!(layout.apply(&mut quote, w.written())?, 2);
//! assert_eq!(quote, Quote { bid: Some(Real::new(4000, RealHint::EXPONENT_2)), offer: Some(40.05), dsply_name: None });
//! let names: Vec<_> = fields(w.written(), &dictionary).map(|field| field.map(|f| f.name().to_owned())).collect();
//! assert_eq!(names, [Ok("BID".to_owned()), Ok("ASK".to_owned())]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::plain::PlainEntries;
pub use rwf::Primitive;
use rwf::container::FieldEntries;
use rwf::dictionary::{Dictionary, FieldDef};
use rwf::wire::encode_growing;
use rwf::{
    DataType, Date, DateTime, DecodeError, EncodeError, FieldEntry, FieldList, FieldListEncoder, Real, RealHint,
    SetScope, Time,
};
use std::marker::PhantomData;

/// A field of a payload; its value is decoded when it is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Field<'a, 'd> {
    entry: FieldEntry<'a>,
    definition: &'d FieldDef,
}

impl<'a, 'd> Field<'a, 'd> {
    #[inline]
    pub(crate) const fn new(entry: FieldEntry<'a>, definition: &'d FieldDef) -> Self {
        Self { entry, definition }
    }

    /// Field id.
    #[inline]
    pub const fn fid(&self) -> i16 {
        self.entry.fid
    }

    /// Name, such as `BID`.
    pub fn name(&self) -> &'d str {
        self.definition.acronym()
    }

    /// The definition in the dictionary.
    pub const fn definition(&self) -> &'d FieldDef {
        self.definition
    }

    /// The type of the value's bytes.
    #[inline]
    pub fn data_type(&self) -> DataType {
        self.entry.resolve(self.definition.data_type())
    }

    /// The value's bytes; none for a blank.
    #[inline]
    pub const fn bytes(&self) -> &'a [u8] {
        self.entry.data
    }

    /// The value.
    ///
    /// # Errors
    /// The bytes are not of the field's type.
    #[inline]
    pub fn value(&self) -> Result<Primitive<'a>, DecodeError> {
        self.entry.value(self.definition.data_type())
    }
}

/// The fields of a field list in order. A field that the dictionary does not know is left out.
#[inline]
pub fn fields<'a, 'd>(body: &'a [u8], dictionary: &'d Dictionary) -> NamedFields<'a, 'd> {
    let entries = FieldList::decode(body, &SetScope::NONE).map(|list| list.entries());
    NamedFields { entries: entries.map_err(Some), dictionary }
}

/// See [`fields`].
#[derive(Debug)]
pub struct NamedFields<'a, 'd> {
    /// Why there are none, until it is told.
    entries: Result<FieldEntries<'a>, Option<DecodeError>>,
    dictionary: &'d Dictionary,
}

impl<'a, 'd> Iterator for NamedFields<'a, 'd> {
    type Item = Result<Field<'a, 'd>, DecodeError>;

    // Where it is a call, a field goes through memory in pieces that are read as one, which costs more than finding it.
    #[allow(clippy::inline_always, reason = "measured: half the time of a message of 13 fields")]
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let entries = match &mut self.entries {
            Ok(entries) => entries,
            Err(error) => return error.take().map(Err),
        };
        loop {
            match entries.next()? {
                Ok(entry) => {
                    if let Some(definition) = self.dictionary.field(entry.fid) {
                        return Some(Ok(Field { entry, definition }));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// A value of a field does not fit into the place that the application has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongType {
    /// The type that came.
    pub found: Option<DataType>,
    /// The type of the place.
    pub wanted: &'static str,
}

impl std::fmt::Display for WrongType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.found {
            Some(found) => write!(f, "a value of type {found} does not fit into {}", self.wanted),
            None => write!(f, "a blank does not fit into {}; make it an Option", self.wanted),
        }
    }
}

impl std::error::Error for WrongType {}

/// Why a list of fields cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// The dictionary does not know a field.
    Unknown(UnknownField),
    /// A value is of another type than its field.
    Type {
        /// Name of the field.
        field: String,
        /// The type of the field.
        wanted: DataType,
        /// The type of the value.
        found: Option<DataType>,
    },
    /// Too many fields or too long a value.
    Encode(EncodeError),
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(error) => error.fmt(f),
            Self::Type { field, wanted, found: Some(found) } => {
                write!(f, "{field} is of type {wanted} in the dictionary; a value of type {found} does not fit")
            }
            Self::Type { field, wanted, found: None } => write!(f, "{field} is of type {wanted}, which has no blank"),
            Self::Encode(error) => write!(f, "the fields cannot be written: {error}"),
        }
    }
}

impl std::error::Error for WriteError {}

impl From<EncodeError> for WriteError {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error)
    }
}

/// Writes a field list by names. Numbers fit into number fields of other types where the value is the same: a double into a REAL, with as many
/// places as its shortest text has; text into any string.
///
/// # Errors
/// A name is unknown, or a value does not fit.
pub fn write(dictionary: &Dictionary, values: &[(&str, Primitive<'_>)], out: &mut Vec<u8>) -> Result<(), WriteError> {
    // All is looked at before the bytes are written, since a buffer that is too small is tried again.
    for &(name, value) in values {
        let field = dictionary.field_named(name).ok_or_else(|| WriteError::Unknown(UnknownField(name.to_owned())))?;
        let wanted = field.data_type();
        if fitting(wanted, value).is_none() {
            return Err(WriteError::Type { field: name.to_owned(), wanted, found: value.data_type() });
        }
    }
    let end = encode_growing(out, 0, 1_024, 1 << 24, |w| {
        let mut list = FieldListEncoder::begin(w)?;
        for &(name, value) in values {
            if let Some(field) = dictionary.field_named(name)
                && let Some(value) = fitting(field.data_type(), value)
            {
                list.field(field.fid(), &value)?;
            }
        }
        list.finish()
    })?;
    out.truncate(end);
    Ok(())
}

/// The value as one of a field's type; `None` if it is none.
fn fitting(wanted: DataType, value: Primitive<'_>) -> Option<Primitive<'_>> {
    let is_whole = |v: f64| v.fract() == 0.0 && v.abs() < 9e15;
    Some(match (wanted, value) {
        (_, Primitive::Blank) => Primitive::Blank,
        (DataType::REAL, Primitive::Double(v)) => Primitive::Real(shortest(v)?),
        (DataType::REAL, Primitive::Int(v)) => Primitive::Real(Real::new(v, RealHint::EXPONENT0)),
        (DataType::UINT, Primitive::Int(v)) => Primitive::UInt(v.try_into().ok()?),
        (DataType::ENUM, Primitive::Int(v)) => Primitive::Enum(v.try_into().ok()?),
        (DataType::UINT, Primitive::Double(v)) if is_whole(v) && v >= 0.0 => Primitive::UInt(v as u64),
        (DataType::INT, Primitive::Double(v)) if is_whole(v) => Primitive::Int(v as i64),
        (DataType::DOUBLE, Primitive::Int(v)) => Primitive::Double(v as f64),
        (DataType::FLOAT, Primitive::Double(v)) => Primitive::Float(v as f32),
        (DataType::RMTES_STRING, Primitive::Utf8(text) | Primitive::Ascii(text)) if text.is_ascii() => {
            Primitive::Rmtes(text)
        }
        (DataType::ASCII_STRING, Primitive::Utf8(text)) if text.is_ascii() => Primitive::Ascii(text),
        (DataType::BUFFER, Primitive::Utf8(text)) => Primitive::Buffer(text),
        (wanted, value) if value.data_type() == Some(wanted) => value,
        _ => return None,
    })
}

/// The decimal number of the fewest places that is this double. One that has more than the 14 places of RWF, as sums of doubles do, is rounded to
/// as many as fit; `None` where that would change its first twelve digits. Infinities and not-a-number have forms of their own.
pub fn shortest(value: f64) -> Option<Real> {
    if !value.is_finite() {
        return Real::from_f64(value, RealHint::EXPONENT0);
    }
    let with_places = |places: u8| Real::from_f64(value, RealHint(RealHint::EXPONENT0.0 - places));
    let is_same = |real: &Real| real.to_f64().to_bits() == (value + 0.0).to_bits();
    let is_near = |real: &Real| (real.to_f64() - value).abs() <= value.abs() * 1e-12;
    (0..=14).filter_map(with_places).find(is_same).or_else(|| (0..=14).rev().filter_map(with_places).find(is_near))
}

/// A type that a field's value can be had as. A blank is `None` of an `Option`.
pub trait FromValue: Sized {
    /// The value as this type.
    ///
    /// # Errors
    /// It does not fit.
    fn from_value(value: &Primitive<'_>) -> Result<Self, WrongType>;
}

macro_rules! from_value {
    ($($type:ty, $pattern:pat => $value:expr;)*) => {$(
        impl FromValue for $type {
            fn from_value(value: &Primitive<'_>) -> Result<Self, WrongType> {
                match *value {
                    $pattern => $value,
                    _ => None,
                }
                .ok_or(WrongType { found: value.data_type(), wanted: stringify!($type) })
            }
        }
    )*};
}

from_value! {
    Real, Primitive::Real(real) => Some(real);
    u64, Primitive::UInt(v) => Some(v);
    i64, Primitive::Int(v) => Some(v);
    Date, Primitive::Date(v) => Some(v);
    Time, Primitive::Time(v) => Some(v);
    DateTime, Primitive::DateTime(v) => Some(v);
    u16, Primitive::Enum(v) => Some(v);
}

impl FromValue for f64 {
    /// The nearest double of a number of any type.
    fn from_value(value: &Primitive<'_>) -> Result<Self, WrongType> {
        match *value {
            Primitive::Real(v) => Ok(v.to_f64()),
            Primitive::Double(v) => Ok(v),
            Primitive::Float(v) => Ok(Self::from(v)),
            Primitive::Int(v) => Ok(v as Self),
            Primitive::UInt(v) => Ok(v as Self),
            _ => Err(WrongType { found: value.data_type(), wanted: "f64" }),
        }
    }
}

impl FromValue for String {
    /// The text of a string of any kind; RMTES is converted.
    fn from_value(value: &Primitive<'_>) -> Result<Self, WrongType> {
        let text = value.as_text().ok_or(WrongType { found: value.data_type(), wanted: "String" })?;
        Ok(text.into_owned())
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Primitive<'_>) -> Result<Self, WrongType> {
        if value.is_blank() { Ok(None) } else { T::from_value(value).map(Some) }
    }
}

/// A struct whose members are fields; `#[derive(Fields)]` makes one. Names are those of the members in capitals, or `#[field("NAME")]`.
pub trait Fields {
    /// Names of the fields, by place.
    const NAMES: &'static [&'static str];

    /// Sets the member at a place.
    ///
    /// # Errors
    /// The value does not fit.
    fn set(&mut self, place: usize, value: &Primitive<'_>) -> Result<(), WrongType>;
}

/// A field that the dictionary does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownField(
    /// The name.
    pub String,
);

impl std::fmt::Display for UnknownField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the dictionary has no field {}; names are as in RDMFieldDictionary, in capitals", self.0)
    }
}

impl std::error::Error for UnknownField {}

/// Why a payload was not taken into a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldError {
    /// The payload is malformed: the sender's fault.
    Malformed(DecodeError),
    /// A value does not fit into the member for it: the application's fault.
    WrongType {
        /// Name of the field.
        field: &'static str,
        /// Why it does not fit.
        error: WrongType,
    },
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "the payload is malformed: {error}"),
            Self::WrongType { field, error } => write!(f, "{field}: {error}"),
        }
    }
}

impl std::error::Error for FieldError {}

impl From<DecodeError> for FieldError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

/// Places of fields by id: one look-up a field of a message, whether it is wanted or not.
#[derive(Debug, Clone)]
pub struct Places {
    /// By field id as an unsigned number: place plus 1; 0: not wanted.
    by_fid: Box<[u16; 1 << 16]>,
    types: Vec<DataType>,
}

impl Places {
    /// The places of these names.
    ///
    /// # Errors
    /// The dictionary does not know one.
    pub fn of<'n>(names: impl IntoIterator<Item = &'n str>, dictionary: &Dictionary) -> Result<Self, UnknownField> {
        let by_fid = vec![0; 1 << 16].into_boxed_slice();
        let mut by_fid: Box<[u16; 1 << 16]> = by_fid.try_into().expect("as many places as ids");
        let mut types = Vec::new();
        for name in names {
            let definition = dictionary.field_named(name).ok_or_else(|| UnknownField(name.to_owned()))?;
            types.push(definition.data_type());
            by_fid[usize::from(definition.fid() as u16)] = types.len() as u16;
        }
        Ok(Self { by_fid, types })
    }

    /// Type of the field at a place, as the dictionary says.
    pub fn data_type(&self, place: usize) -> DataType {
        self.types[place]
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.types.len()
    }

    /// Whether none is wanted.
    pub const fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// Calls `each` for the fields of a list that are wanted: place and value.
    ///
    /// # Errors
    /// The list is malformed, or `each` says so.
    #[inline]
    pub fn each<'a, E: From<DecodeError>>(
        &self,
        body: &'a [u8],
        mut each: impl FnMut(usize, Primitive<'a>) -> Result<(), E>,
    ) -> Result<usize, E> {
        self.each_entry(body, |place, entry| each(place, entry.value(self.types[place])?))
    }

    /// Calls `each` for the fields of a list that are wanted, with their bytes as they are: for those who know what they make of each place.
    ///
    /// # Errors
    /// The list is malformed, or `each` says so.
    #[inline]
    pub fn each_entry<'a, E: From<DecodeError>>(
        &self,
        body: &'a [u8],
        mut each: impl FnMut(usize, FieldEntry<'a>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let (mut found, mut passed) = (0, 0);
        if let Some(mut entries) = PlainEntries::of(body) {
            for entry in &mut entries {
                passed += 1;
                let place = self.by_fid[usize::from(entry.fid as u16)];
                if place != 0 {
                    each(usize::from(place) - 1, entry.entry())?;
                    found += 1;
                }
            }
            if entries.is_over() {
                return Ok(found);
            }
        }
        for entry in FieldList::decode(body, &SetScope::NONE)?.entries().skip(passed) {
            let entry = entry?;
            let place = self.by_fid[usize::from(entry.fid as u16)];
            if place != 0 {
                each(usize::from(place) - 1, entry)?;
                found += 1;
            }
        }
        Ok(found)
    }
}

/// How a struct of fields is read with a dictionary.
#[derive(Debug, Clone)]
pub struct Layout<F> {
    places: Places,
    of: PhantomData<fn() -> F>,
}

impl<F: Fields> Layout<F> {
    /// The layout with this dictionary.
    ///
    /// # Errors
    /// The dictionary does not know a field.
    pub fn of(dictionary: &Dictionary) -> Result<Self, UnknownField> {
        Ok(Self { places: Places::of(F::NAMES.iter().copied(), dictionary)?, of: PhantomData })
    }

    /// Takes the fields of a field list over; members that are not in it stay. Gives how many were.
    ///
    /// # Errors
    /// The list is malformed, or a value does not fit; members before that are taken over.
    #[inline]
    pub fn apply(&self, into: &mut F, body: &[u8]) -> Result<usize, FieldError> {
        self.places.each(body, |place, value| {
            into.set(place, &value).map_err(|error| FieldError::WrongType { field: F::NAMES[place], error })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_the_dictionary_has_them_or_refused() {
        let dictionary = Dictionary::builtin();
        let mut out = Vec::new();
        let values =
            [("BID", Primitive::Double(39.9)), ("ASK", Primitive::Blank), ("DSPLY_NAME", Primitive::Utf8(b"IBM"))];
        write(&dictionary, &values, &mut out).expect("known fields");
        let read: Vec<_> = fields(&out, &dictionary).map(|f| f.and_then(|f| f.value())).collect();
        let bid = Primitive::Real(Real::new(399, RealHint::EXPONENT_1));
        assert_eq!(read, [Ok(bid), Ok(Primitive::Blank), Ok(Primitive::Rmtes(b"IBM"))]);
        let text = write(&dictionary, &[("BID", Primitive::Utf8(b"x"))], &mut out).expect_err("no number");
        assert!(text.to_string().contains("BID is of type"), "{text}");
        let unknown = write(&dictionary, &[("BIDD", Primitive::Int(1))], &mut out).expect_err("no field");
        assert!(unknown.to_string().contains("no field BIDD"));
    }

    #[test]
    fn a_double_has_its_fewest_places() {
        let text = |v: f64| shortest(v).map(|real| real.to_string());
        assert_eq!(text(0.1).as_deref(), Some("0.1"));
        assert_eq!(text(100.0).as_deref(), Some("100"));
        assert_eq!(text(-39.905).as_deref(), Some("-39.905"));
        assert_eq!(text(3.0 + 0.029).as_deref(), Some("3.029"));
        assert_eq!(text(0.1 + 0.2).as_deref(), Some("0.30000000000000"));
        assert_eq!(text(-0.0).as_deref(), Some("0"));
        assert_eq!(text(1e-15), None, "RWF has fourteen places");
        assert_eq!(text(1e30), None);
    }

    #[test]
    fn a_blank_needs_a_place_for_it() {
        assert_eq!(Option::<f64>::from_value(&Primitive::Blank), Ok(None));
        assert!(f64::from_value(&Primitive::Blank).expect_err("blank").to_string().contains("Option"));
        assert!(String::from_value(&Primitive::UInt(1)).is_err());
    }
}
