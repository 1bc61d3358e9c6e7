//! Fields and rows as words: `22=101.50`, `add:KEY{30=1}`.

use rwf::container::FieldListEncoder;
use rwf::wire::Writer;
use rwf::{Date, EncodeError, Primitive, Real, RealHint, Time};

/// A value of a script: `5` is unsigned, `5.25` a REAL with as many digits behind the point, `2026-01-05` a DATE, `09:30:00` a TIME. What links of chains
/// have is a name, whatever it looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Number {
    Uint(u64),
    Real { mantissa: i64, digits: u8 },
    Date(Date),
    Time(Time),
    Name(String),
}

impl Number {
    fn parse(text: &str) -> Option<Self> {
        if let [year, month, day] = text.split('-').collect::<Vec<_>>()[..] {
            let (year, month, day) = (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
            return ((1..=12).contains(&month) && (1..=31).contains(&day)).then_some(Self::Date(Date {
                year,
                month,
                day,
            }));
        }
        if let [hour, minute, second] = text.split(':').collect::<Vec<_>>()[..] {
            let (hour, minute, second) = (hour.parse().ok()?, minute.parse().ok()?, second.parse().ok()?);
            let time = Time { hour, minute, second, ..Time::default() };
            return (hour < 24 && minute < 60 && second < 60).then_some(Self::Time(time));
        }
        let Some((whole, behind)) = text.split_once('.') else { return text.parse().ok().map(Self::Uint) };
        // More digits than a REAL has a hint for.
        if behind.is_empty() || behind.len() > 14 || !behind.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        Some(Self::Real { mantissa: format!("{whole}{behind}").parse().ok()?, digits: behind.len() as u8 })
    }
}

/// Whether a field has the name of another item: a member of a chain, or its next record.
pub(crate) fn is_link(fid: i16) -> bool {
    rwf::rdm::chain::role_of(fid).is_some()
}

/// A field and its value.
pub(crate) type Field = (i16, Number);
/// A row: what happens to it, its key, its fields.
pub(crate) type Row = (String, String, Vec<Field>);

pub(crate) fn parse_field(word: &str) -> Option<Field> {
    let (fid, value) = word.split_once('=')?;
    let fid = fid.parse().ok()?;
    let value = if is_link(fid) { Number::Name(value.to_owned()) } else { Number::parse(value)? };
    Some((fid, value))
}

pub(crate) fn parse_row(word: &str) -> Result<Option<Row>, String> {
    let Some((action, rest)) = word.split_once(':') else { return Ok(None) };
    if !["add", "update", "delete", "set", "insert", "clear"].contains(&action) {
        return Ok(None);
    }
    let (key, fields) = rest.strip_suffix('}').and_then(|rest| rest.split_once('{')).unwrap_or((rest, ""));
    let fields: Option<Vec<Field>> = fields.split(',').filter(|field| !field.is_empty()).map(parse_field).collect();
    let fields = fields.ok_or_else(|| format!("{word}: a row is ACTION:KEY{{FID=NUMBER,..}}"))?;
    Ok(Some((action.to_owned(), key.to_owned(), fields)))
}

pub(crate) fn write_fields(fields: &[Field], w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let mut list = FieldListEncoder::begin(w)?;
    for (fid, value) in fields {
        match value {
            Number::Uint(value) => list.uint(*fid, *value)?,
            Number::Real { mantissa, digits } => list.real(*fid, real(*mantissa, *digits))?,
            Number::Date(date) => list.field(*fid, &Primitive::Date(*date))?,
            Number::Time(time) => list.field(*fid, &Primitive::Time(*time))?,
            Number::Name(name) => list.raw(*fid, name.as_bytes())?,
        }
    }
    list.finish()
}

/// A REAL with so many digits behind its point.
pub(crate) fn real(mantissa: i64, digits: u8) -> Real {
    Real::new(mantissa, RealHint(RealHint::EXPONENT0.0 - digits))
}
