//! Primitive values, in the three forms the wire has for them: with a length (lists, map keys, variable arrays), in
//! the fixed forms of set definitions, and in arrays of fixed item length.

use crate::container::Array;
use crate::wire::{Reader, ShortNumber, Writer, int_len, uint_len};
use crate::{DataType, Date, DateTime, DecodeError, EncodeError, Qos, Real, RealHint, State, Time};
use std::borrow::Cow;
use std::fmt;

/// A primitive value. Byte members borrow from the decoded slice.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Primitive<'a> {
    /// No value. In lists this is length zero; set definitions have blank forms of their own for some types.
    Blank,
    /// [`DataType::INT`]
    Int(i64),
    /// [`DataType::UINT`]
    UInt(u64),
    /// [`DataType::FLOAT`]
    Float(f32),
    /// [`DataType::DOUBLE`]
    Double(f64),
    /// [`DataType::REAL`]
    Real(Real),
    /// [`DataType::DATE`]
    Date(Date),
    /// [`DataType::TIME`]
    Time(Time),
    /// [`DataType::DATETIME`]
    DateTime(DateTime),
    /// [`DataType::QOS`]
    Qos(Qos),
    /// [`DataType::STATE`]
    State(State<'a>),
    /// [`DataType::ENUM`]
    Enum(u16),
    /// [`DataType::ARRAY`]
    Array(Array<'a>),
    /// [`DataType::BUFFER`]
    Buffer(&'a [u8]),
    /// [`DataType::ASCII_STRING`]
    Ascii(&'a [u8]),
    /// [`DataType::UTF8_STRING`]
    Utf8(&'a [u8]),
    /// [`DataType::RMTES_STRING`]; see [`rmtes`](crate::rmtes) for its text.
    Rmtes(&'a [u8]),
}

impl<'a> Primitive<'a> {
    /// Decodes the bytes of a value (without length) of a base type or set form.
    ///
    /// Integers may be longer than needed, up to 8 bytes. A blank is whatever its type has for it: no bytes at all, a
    /// date of zeros, a time of ones, a real with the hint 0x20 or without mantissa.
    ///
    /// # Errors
    /// Invalid if the length or content is not possible for the type, or the type is no primitive.
    #[inline]
    pub fn decode(data_type: DataType, data: &'a [u8]) -> Result<Self, DecodeError> {
        if data.is_empty() {
            return if data_type.is_container() { Err(not_primitive()) } else { Ok(Self::Blank) };
        }
        match data_type {
            DataType::REAL => real(data).map(|v| v.map_or(Self::Blank, Self::Real)),
            DataType::INT | DataType::INT_1 | DataType::INT_2 | DataType::INT_4 | DataType::INT_8 => {
                int(data).map(Self::Int)
            }
            DataType::UINT | DataType::UINT_1 | DataType::UINT_2 | DataType::UINT_4 | DataType::UINT_8 => {
                uint(data).map(Self::UInt)
            }
            DataType::ENUM => enumeration(data).map(Self::Enum),
            DataType::TIME | DataType::TIME_3 | DataType::TIME_5 | DataType::TIME_7 | DataType::TIME_8 => {
                let time = time(data)?;
                Ok(if time.is_blank() { Self::Blank } else { Self::Time(time) })
            }
            DataType::DATE | DataType::DATE_4 => {
                let date = date(data)?;
                Ok(if date.is_blank() { Self::Blank } else { Self::Date(date) })
            }
            DataType::DATETIME
            | DataType::DATETIME_7
            | DataType::DATETIME_9
            | DataType::DATETIME_11
            | DataType::DATETIME_12 => {
                let both = DateTime::from_bytes(data).ok_or(DecodeError::invalid("date and time", 0))?;
                Ok(if both.is_blank() { Self::Blank } else { Self::DateTime(both) })
            }
            DataType::BUFFER => Ok(Self::Buffer(data)),
            DataType::ASCII_STRING => Ok(Self::Ascii(data)),
            DataType::UTF8_STRING => Ok(Self::Utf8(data)),
            DataType::RMTES_STRING => Ok(Self::Rmtes(data)),
            _ => Self::decode_rare(data_type, data),
        }
    }

    /// What is seldom decoded.
    #[inline(never)]
    fn decode_rare(data_type: DataType, data: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(match data_type {
            DataType::FLOAT | DataType::FLOAT_4 => match data.try_into() {
                Ok(bytes) => Self::Float(f32::from_be_bytes(bytes)),
                Err(_) => return Err(DecodeError::invalid("float", 0)),
            },
            DataType::DOUBLE | DataType::DOUBLE_8 => match data.try_into() {
                Ok(bytes) => Self::Double(f64::from_be_bytes(bytes)),
                Err(_) => return Err(DecodeError::invalid("double", 0)),
            },
            DataType::QOS => Self::Qos(Qos::read(&mut Reader::new(data, "quality of service"))?),
            DataType::STATE => Self::State(State::read(&mut Reader::new(data, "state"))?),
            DataType::ARRAY => Self::Array(Array::decode(data)?),
            DataType::REAL_4RB | DataType::REAL_8RB => set_real(data_type, data)?.map_or(Self::Blank, Self::Real),
            _ => return Err(not_primitive()),
        })
    }

    /// The base type; `None` for a blank, which fits every type.
    pub const fn data_type(&self) -> Option<DataType> {
        Some(match self {
            Self::Blank => return None,
            Self::Int(_) => DataType::INT,
            Self::UInt(_) => DataType::UINT,
            Self::Float(_) => DataType::FLOAT,
            Self::Double(_) => DataType::DOUBLE,
            Self::Real(_) => DataType::REAL,
            Self::Date(_) => DataType::DATE,
            Self::Time(_) => DataType::TIME,
            Self::DateTime(_) => DataType::DATETIME,
            Self::Qos(_) => DataType::QOS,
            Self::State(_) => DataType::STATE,
            Self::Enum(_) => DataType::ENUM,
            Self::Array(_) => DataType::ARRAY,
            Self::Buffer(_) => DataType::BUFFER,
            Self::Ascii(_) => DataType::ASCII_STRING,
            Self::Utf8(_) => DataType::UTF8_STRING,
            Self::Rmtes(_) => DataType::RMTES_STRING,
        })
    }

    /// True for [`Primitive::Blank`].
    pub const fn is_blank(&self) -> bool {
        matches!(self, Self::Blank)
    }

    /// The bytes of a buffer or string of any kind.
    pub const fn as_bytes(&self) -> Option<&'a [u8]> {
        match *self {
            Self::Buffer(b) | Self::Ascii(b) | Self::Utf8(b) | Self::Rmtes(b) => Some(b),
            _ => None,
        }
    }

    /// The value of an unsigned integer, an enumeration, or a signed integer that is not negative.
    pub const fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::UInt(v) => Some(v),
            Self::Enum(v) => Some(v as u64),
            Self::Int(v) if v >= 0 => Some(v as u64),
            _ => None,
        }
    }

    /// Text of a string of any kind: RMTES converted, what is not UTF-8 replaced.
    pub fn as_text(&self) -> Option<Cow<'a, str>> {
        match *self {
            Self::Buffer(b) | Self::Ascii(b) | Self::Utf8(b) => Some(String::from_utf8_lossy(b)),
            Self::Rmtes(b) => Some(crate::rmtes::message_text(b)),
            _ => None,
        }
    }

    /// Writes the bytes of the value, without a length; nothing for a blank.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::Unrepresentable`] for parts that are out of range.
    #[inline]
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        match self {
            Self::Blank => Ok(()),
            Self::Int(v) => write_int(*v, w),
            Self::UInt(v) => write_uint(*v, w),
            Self::Real(v) => write_real(*v, w),
            Self::Enum(v) => write_uint(u64::from(*v), w),
            Self::Date(v) => w.array(v.to_bytes()),
            Self::Time(v) => v.write(v.encoded_len(), w),
            Self::DateTime(v) => {
                w.array(v.date.to_bytes())?;
                v.time.write(v.time.encoded_len(), w)
            }
            Self::Buffer(b) | Self::Ascii(b) | Self::Utf8(b) | Self::Rmtes(b) => w.bytes(b),
            Self::Float(v) => w.array(v.to_be_bytes()),
            Self::Double(v) => w.array(v.to_be_bytes()),
            Self::Qos(v) => v.write(w),
            Self::State(v) => v.write(w),
            Self::Array(v) => v.encode(w),
        }
    }

    /// The frequent types: their length is known before anything is written.
    #[inline]
    pub(crate) fn short_number(&self) -> Option<ShortNumber> {
        match self {
            Self::UInt(v) => Some(ShortNumber::uint(*v)),
            Self::Enum(v) => Some(ShortNumber::uint(u64::from(*v))),
            Self::Int(v) => Some(ShortNumber::int(*v)),
            Self::Real(v) => ShortNumber::real(*v),
            Self::Time(v) => ShortNumber::time(*v),
            _ => None,
        }
    }

    /// Writes the value with an `ob16` length before it, as lists and variable arrays have it.
    ///
    /// # Errors
    /// As [`Primitive::encode`]; [`EncodeError::TooLong`] over 65,535 bytes.
    #[inline]
    pub fn encode_ob16(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        if let Some(number) = self.short_number() {
            return w.short_number(&number);
        }
        if let Some(bytes) = self.as_bytes() {
            return w.buf16(bytes);
        }
        let mark = w.begin_ob16(crate::wire::LenForm::Shortest)?;
        self.encode(w)?;
        w.end_ob16(mark)
    }

    /// Writes the value as set data of type `enc`: fixed forms without a length, all others with one.
    ///
    /// # Errors
    /// As [`Primitive::encode_ob16`]; [`EncodeError::Unrepresentable`] if the value is of another type, does not fit in
    /// the form, would lose precision in it, or is a blank that the form cannot express.
    pub fn encode_set(&self, enc: DataType, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        if self.data_type().is_some_and(|t| t != enc.base()) {
            return Err(EncodeError::Unrepresentable("value of another type"));
        }
        match (enc, *self) {
            (DataType::REAL_4RB | DataType::REAL_8RB, Self::Blank) => w.u8(RealHint::BLANK),
            (DataType::REAL_4RB | DataType::REAL_8RB, Self::Real(v)) => write_set_real(enc, v, w),
            _ => match fixed_len(enc) {
                Some(len) => self.encode_fixed(enc, len, w),
                None if enc.is_primitive() => self.encode_ob16(w),
                None => Err(EncodeError::Unrepresentable("set data of an unknown form")),
            },
        }
    }

    /// Writes the value in exactly `len` bytes: integers extended, strings cut or padded with zeros, times to the parts
    /// that fit. `data_type` says what a blank is the blank of.
    ///
    /// # Errors
    /// As [`Primitive::encode_set`].
    pub fn encode_fixed(&self, data_type: DataType, len: usize, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        const UNREPRESENTABLE: EncodeError = EncodeError::Unrepresentable("value in a fixed length");
        match *self {
            Self::Blank => match data_type.base() {
                DataType::DATE if len == 4 => w.array(Date::BLANK.to_bytes()),
                DataType::TIME => Time::BLANK.write(len, w),
                DataType::DATETIME => {
                    w.array(Date::BLANK.to_bytes())?;
                    Time::BLANK.write(len.saturating_sub(4), w)
                }
                base if base.0 >= DataType::BUFFER.0 => w.zeros(len),
                _ => Err(UNREPRESENTABLE),
            },
            Self::Int(v) => match len {
                1..=7 if v >> (8 * len - 1) == v >> 63 => w.bytes(&v.to_be_bytes()[8 - len..]),
                8 => w.array(v.to_be_bytes()),
                _ => Err(UNREPRESENTABLE),
            },
            Self::UInt(v) => write_fixed_uint(v, len, w),
            Self::Enum(v) => write_fixed_uint(u64::from(v), len, w),
            Self::Time(v) if fits_in(v, len) => v.write(len, w),
            Self::DateTime(v) if len > 4 && fits_in(v.time, len - 4) => {
                w.array(v.date.to_bytes())?;
                v.time.write(len - 4, w)
            }
            Self::Buffer(b) | Self::Ascii(b) | Self::Utf8(b) | Self::Rmtes(b) => {
                let kept = b.len().min(len);
                w.bytes(&b[..kept])?;
                w.zeros(len - kept)
            }
            Self::Float(_) | Self::Date(_) if len == 4 => self.encode(w),
            Self::Double(_) if len == 8 => self.encode(w),
            _ => Err(UNREPRESENTABLE),
        }
    }
}

impl fmt::Display for Primitive<'_> {
    /// Readable text; bytes of buffers in hexadecimal, nothing for a blank.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blank => Ok(()),
            Self::Int(v) => v.fmt(f),
            Self::UInt(v) => v.fmt(f),
            Self::Float(v) => v.fmt(f),
            Self::Double(v) => v.fmt(f),
            Self::Real(v) => v.fmt(f),
            Self::Date(v) => v.fmt(f),
            Self::Time(v) => v.fmt(f),
            Self::DateTime(v) => v.fmt(f),
            Self::Qos(v) => v.fmt(f),
            Self::State(v) => v.fmt(f),
            Self::Enum(v) => v.fmt(f),
            Self::Array(v) => v.fmt(f),
            Self::Buffer(b) => b.iter().try_for_each(|b| write!(f, "{b:02x}")),
            Self::Ascii(b) | Self::Utf8(b) => f.write_str(&String::from_utf8_lossy(b)),
            Self::Rmtes(b) => f.write_str(&crate::rmtes::message_text(b)),
        }
    }
}

#[cold]
fn not_primitive() -> DecodeError {
    DecodeError::invalid("type of a primitive", 0)
}

/// A signed integer of 1 to 8 bytes.
///
/// # Errors
/// Invalid for another length.
#[inline]
pub fn int(data: &[u8]) -> Result<i64, DecodeError> {
    let Some(magnitude) = number(data) else { return Err(DecodeError::invalid("length of an integer", 0)) };
    let unused = 64 - 8 * data.len();
    Ok((magnitude << unused) as i64 >> unused)
}

/// An unsigned integer of 1 to 8 bytes.
///
/// # Errors
/// Invalid for another length.
#[inline]
pub fn uint(data: &[u8]) -> Result<u64, DecodeError> {
    let Some(number) = number(data) else { return Err(DecodeError::invalid("length of an unsigned integer", 0)) };
    Ok(number)
}

/// The number of 1 to 8 bytes; `None` for another length. The bytes are read in pieces that overlap, since lengths change from value to value and a jump by
/// length would be guessed wrong.
#[inline]
fn number(data: &[u8]) -> Option<u64> {
    let len = data.len();
    if let (Some(first), Some(last), 4..=8) = (data.first_chunk(), data.last_chunk(), len) {
        let high = u64::from(u32::from_be_bytes(*first)) << (8 * (len - 4));
        return Some(high | u64::from(u32::from_be_bytes(*last)));
    }
    match *data {
        [byte] => Some(u64::from(byte)),
        [high, ref low @ ..] if len <= 3 => {
            let (middle, last) = (low[0], low[len - 2]);
            Some(u64::from(high) << (8 * (len - 1)) | u64::from(middle) << (8 * (len - 2)) | u64::from(last))
        }
        _ => None,
    }
}

/// An enumeration value: 1 or 2 bytes.
///
/// # Errors
/// Invalid for another length.
#[inline]
pub fn enumeration(data: &[u8]) -> Result<u16, DecodeError> {
    match *data {
        [a] => Ok(u16::from(a)),
        [a, b] => Ok(u16::from_be_bytes([a, b])),
        _ => Err(DecodeError::invalid("length of an enumeration", 0)),
    }
}

/// A date: 4 bytes. All zeros are [`Date::BLANK`].
///
/// # Errors
/// Invalid for another length.
#[inline]
pub fn date(data: &[u8]) -> Result<Date, DecodeError> {
    match data.first_chunk() {
        Some(bytes) if data.len() == 4 => Ok(Date::from_bytes(bytes)),
        _ => Err(DecodeError::invalid("date", 0)),
    }
}

/// A time: 2, 3, 5, 7 or 8 bytes. All ones are [`Time::BLANK`].
///
/// # Errors
/// Invalid for another length.
#[inline]
pub fn time(data: &[u8]) -> Result<Time, DecodeError> {
    match Time::from_bytes(data) {
        Some(time) => Ok(time),
        None => Err(DecodeError::invalid("time", 0)),
    }
}

/// A real: hint byte and mantissa of 1 to 8 bytes. `None` is blank.
///
/// The top two bits of the hint have a meaning only in sets and are ignored here, as by ETA.
///
/// # Errors
/// Invalid for no bytes at all, a mantissa over 8 bytes or the hint 31.
// As a call, what it gives goes through memory in pieces that are read as one.
#[allow(clippy::inline_always, reason = "measured: a tenth of the time of an update of 13 fields")]
#[inline(always)]
pub fn real(data: &[u8]) -> Result<Option<Real>, DecodeError> {
    let [hint, mantissa @ ..] = data else { return Err(DecodeError::invalid("real", 0)) };
    let code = hint & 0x3F;
    if code & 0x20 == 0 && code != 0x1F && !mantissa.is_empty() {
        return match int(mantissa) {
            Ok(mantissa) => Ok(Some(Real::new(mantissa, RealHint(code)))),
            Err(_) => Err(DecodeError::invalid("mantissa of a real", 1)),
        };
    }
    odd_real(code, mantissa)
}

/// Blanks, infinities and NaN.
#[inline(never)]
fn odd_real(code: u8, mantissa: &[u8]) -> Result<Option<Real>, DecodeError> {
    let hint = RealHint(code);
    if hint.is_special() {
        return Ok(Some(Real::new(0, hint)));
    }
    if code == RealHint::BLANK || mantissa.is_empty() {
        return Ok(None);
    }
    // ETA takes only the low five bits of an unknown hint.
    let hint = RealHint(code & 0x1F);
    if hint > RealHint::FRACTION_256 {
        return Err(DecodeError::invalid("hint of a real", 0));
    }
    let mantissa = int(mantissa).map_err(|_| DecodeError::invalid("mantissa of a real", 1))?;
    Ok(Some(Real::new(mantissa, hint)))
}

/// Length of set data in a form without a length; `None` for forms with one and for the two reals.
pub(crate) const fn fixed_len(enc: DataType) -> Option<usize> {
    Some(match enc {
        DataType::INT_1 | DataType::UINT_1 => 1,
        DataType::INT_2 | DataType::UINT_2 => 2,
        DataType::TIME_3 => 3,
        DataType::INT_4 | DataType::UINT_4 | DataType::FLOAT_4 | DataType::DATE_4 => 4,
        DataType::TIME_5 => 5,
        DataType::TIME_7 | DataType::DATETIME_7 => 7,
        DataType::INT_8 | DataType::UINT_8 | DataType::DOUBLE_8 | DataType::TIME_8 => 8,
        DataType::DATETIME_9 => 9,
        DataType::DATETIME_11 => 11,
        DataType::DATETIME_12 => 12,
        _ => return None,
    })
}

/// Reads the bytes of one value of set data, without the length if the form has one.
pub(crate) fn read_set<'a>(enc: DataType, r: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    if let Some(len) = fixed_len(enc) {
        return r.bytes(len);
    }
    match enc {
        DataType::REAL_4RB | DataType::REAL_8RB => {
            let hint = *r.rest().first().ok_or(r.truncated())?;
            r.bytes(1 + set_mantissa_len(enc, hint))
        }
        DataType::NO_DATA => Ok(&[]),
        _ if enc.is_set_primitive() => Err(r.invalid()),
        _ => r.buf16(),
    }
}

/// Mantissa length of a set-defined real: none for blank, infinities and NaN, else by the top two bits.
const fn set_mantissa_len(enc: DataType, hint: u8) -> usize {
    if hint & RealHint::BLANK != 0 {
        return 0;
    }
    let size = (hint >> 6) as usize;
    if matches!(enc, DataType::REAL_4RB) { 1 + size } else { 2 + 2 * size }
}

fn set_real(enc: DataType, data: &[u8]) -> Result<Option<Real>, DecodeError> {
    let [hint, mantissa @ ..] = data else { return Ok(None) };
    if mantissa.len() != set_mantissa_len(enc, *hint) {
        return Err(DecodeError::invalid("real in a set", 0));
    }
    real(data)
}

fn write_set_real(enc: DataType, real: Real, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    check_hint(real.hint)?;
    if real.hint.is_special() {
        return w.u8(real.hint.0);
    }
    let needed = int_len(real.mantissa);
    let (size, len) = match enc {
        DataType::REAL_4RB if needed <= 4 => (needed - 1, needed),
        DataType::REAL_4RB => return Err(EncodeError::Unrepresentable("mantissa over 32 bits in a set")),
        _ => ((needed - 1) / 2, (needed - 1) / 2 * 2 + 2),
    };
    w.u8((size as u8) << 6 | real.hint.0)?;
    w.bytes(&real.mantissa.to_be_bytes()[8 - len..])
}

fn check_hint(hint: RealHint) -> Result<(), EncodeError> {
    if hint <= RealHint::FRACTION_256 || hint.is_special() {
        Ok(())
    } else {
        Err(EncodeError::Unrepresentable("hint of a real"))
    }
}

impl ShortNumber {
    /// `None` for parts that the longest form has no room for.
    #[inline]
    pub(crate) fn time(value: Time) -> Option<Self> {
        let len = value.encoded_len();
        Some(Self::encoded(value.to_bytes(len)?, len))
    }

    /// `None` for a hint that has no number.
    #[inline]
    pub(crate) fn real(value: Real) -> Option<Self> {
        let has_number = value.hint <= RealHint::FRACTION_256;
        has_number.then(|| Self::new(Some(value.hint.0), value.mantissa as u64, int_len(value.mantissa)))
    }
}

#[inline]
pub(crate) fn write_int(value: i64, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let len = int_len(value);
    w.short((value << (64 - 8 * len)).to_be_bytes(), len)
}

#[inline]
pub(crate) fn write_uint(value: u64, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let len = uint_len(value);
    w.short((value << (64 - 8 * len)).to_be_bytes(), len)
}

#[inline]
pub(crate) fn write_real(real: Real, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    check_hint(real.hint)?;
    w.u8(real.hint.0)?;
    if real.hint.is_special() { Ok(()) } else { write_int(real.mantissa, w) }
}

fn write_fixed_uint(value: u64, len: usize, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    if len == 0 || len > 8 || uint_len(value) > len {
        return Err(EncodeError::Unrepresentable("value in a fixed length"));
    }
    w.bytes(&value.to_be_bytes()[8 - len..])
}

/// True if no nonzero part of the time is lost in `len` bytes; a blank fits in each.
fn fits_in(time: Time, len: usize) -> bool {
    time.is_blank() || time.encoded_len() <= len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_all_lengths_are_read_as_they_are_written() {
        let bytes = [0x81, 0x02, 0xF3, 0x04, 0x85, 0x06, 0x77, 0x98];
        for len in 1..=8 {
            let data = &bytes[8 - len..];
            let plain = data.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
            let negative = data[0] >= 0x80 && len < 8;
            let signed = if negative { plain as i64 - (1 << (8 * len)) } else { plain as i64 };
            assert_eq!((uint(data), int(data)), (Ok(plain), Ok(signed)), "{len} bytes");
        }
        for data in [&[][..], &[0; 9]] {
            assert!(uint(data).is_err() && int(data).is_err(), "{} bytes", data.len());
        }
    }
}
