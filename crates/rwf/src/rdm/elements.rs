//! Element lists of the administrative models: written element by element in the SDK's order and length forms.

use super::state::StateBuf;
use crate::container::{Array, ElementEntry};
use crate::primitive::Primitive;
use crate::wire::{LenForm, Writer};
use crate::{DataType, DecodeError, EncodeError, Qos, State};

/// Flag byte of an element list that holds plain elements only.
const STANDARD_DATA: u8 = 0x08;

/// Writes an element list: plain elements, their count patched in at the end.
pub(crate) struct Elements<'w, 'b> {
    w: &'w mut Writer<'b>,
    count_at: usize,
    count: u16,
}

impl<'w, 'b> Elements<'w, 'b> {
    pub(crate) fn begin(w: &'w mut Writer<'b>) -> Result<Self, EncodeError> {
        w.u8(STANDARD_DATA)?;
        let count_at = w.reserve_u16()?;
        Ok(Self { w, count_at, count: 0 })
    }

    pub(crate) fn end(self) {
        self.w.patch_u16(self.count_at, self.count);
    }

    fn name(&mut self, name: &str, data_type: DataType) -> Result<(), EncodeError> {
        self.w.buf15(name.as_bytes())?;
        self.w.u8(data_type.0)?;
        self.count += 1;
        Ok(())
    }

    pub(crate) fn uint(&mut self, name: &str, value: u64) -> Result<(), EncodeError> {
        self.name(name, DataType::UINT)?;
        write_uint(self.w, value)
    }

    pub(crate) fn enumeration(&mut self, name: &str, value: u16) -> Result<(), EncodeError> {
        self.name(name, DataType::ENUM)?;
        write_uint(self.w, value.into())
    }

    pub(crate) fn ascii(&mut self, name: &str, value: &str) -> Result<(), EncodeError> {
        self.name(name, DataType::ASCII_STRING)?;
        self.w.buf16(value.as_bytes())
    }

    /// Bytes under the type of ASCII text, as the SDK writes some.
    pub(crate) fn ascii_bytes(&mut self, name: &str, value: &[u8]) -> Result<(), EncodeError> {
        self.name(name, DataType::ASCII_STRING)?;
        self.w.buf16(value)
    }

    pub(crate) fn buffer(&mut self, name: &str, value: &[u8]) -> Result<(), EncodeError> {
        self.name(name, DataType::BUFFER)?;
        self.w.buf16(value)
    }

    /// Bytes that are encoded already.
    pub(crate) fn raw(&mut self, name: &str, data_type: DataType, data: &[u8]) -> Result<(), EncodeError> {
        self.name(name, data_type)?;
        if data_type == DataType::NO_DATA { Ok(()) } else { self.w.buf16(data) }
    }

    pub(crate) fn state(&mut self, name: &str, value: &State<'_>) -> Result<(), EncodeError> {
        self.name(name, DataType::STATE)?;
        let mark = self.w.begin_ob16(LenForm::Shortest)?;
        value.write(self.w)?;
        self.w.end_ob16(mark)
    }

    pub(crate) fn uint_opt(&mut self, name: &str, value: Option<u64>) -> Result<(), EncodeError> {
        value.map_or(Ok(()), |value| self.uint(name, value))
    }

    pub(crate) fn bool_opt(&mut self, name: &str, value: Option<bool>) -> Result<(), EncodeError> {
        self.uint_opt(name, value.map(u64::from))
    }

    pub(crate) fn ascii_opt(&mut self, name: &str, value: Option<&String>) -> Result<(), EncodeError> {
        value.map_or(Ok(()), |value| self.ascii(name, value))
    }

    /// An array of numbers. `item_len` is 0 for minimal lengths, else the bytes of each.
    pub(crate) fn uint_array(&mut self, name: &str, form: LenForm, values: &[u64]) -> Result<(), EncodeError> {
        self.array(name, form, DataType::UINT, values, |w, value| write_uint(w, *value))
    }

    pub(crate) fn ascii_array<T: AsRef<[u8]>>(
        &mut self,
        name: &str,
        form: LenForm,
        values: &[T],
    ) -> Result<(), EncodeError> {
        self.array(name, form, DataType::ASCII_STRING, values, |w, value| w.buf16(value.as_ref()))
    }

    pub(crate) fn qos_array(&mut self, name: &str, form: LenForm, values: &[Qos]) -> Result<(), EncodeError> {
        self.array(name, form, DataType::QOS, values, |w, value| {
            let mark = w.begin_ob16(LenForm::Shortest)?;
            value.write(w)?;
            w.end_ob16(mark)
        })
    }

    pub(crate) fn int_array(&mut self, name: &str, form: LenForm, values: &[i32]) -> Result<(), EncodeError> {
        self.array(name, form, DataType::INT, values, |w, value| write_int(w, (*value).into()))
    }

    /// Field ids in two bytes each.
    pub(crate) fn fid_array(&mut self, name: &str, form: LenForm, values: &[i16]) -> Result<(), EncodeError> {
        self.sized_array(name, form, DataType::INT, 2, values, |w, value| w.i16(*value))
    }

    fn array<T>(
        &mut self,
        name: &str,
        form: LenForm,
        item_type: DataType,
        items: &[T],
        write: impl Fn(&mut Writer<'_>, &T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.sized_array(name, form, item_type, 0, items, write)
    }

    fn sized_array<T>(
        &mut self,
        name: &str,
        form: LenForm,
        item_type: DataType,
        item_len: u8,
        items: &[T],
        write: impl Fn(&mut Writer<'_>, &T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let max = usize::from(u16::MAX);
        let count =
            u16::try_from(items.len()).map_err(|_| EncodeError::TooLong { what: "array", len: items.len(), max })?;
        self.name(name, DataType::ARRAY)?;
        let mark = self.w.begin_ob16(form)?;
        self.w.array([item_type.0, item_len])?;
        self.w.u16(count)?;
        for item in items {
            write(self.w, item)?;
        }
        self.w.end_ob16(mark)
    }

    /// An element that `write` fills in place, its length in the long form as the SDK reserves it.
    pub(crate) fn container(
        &mut self,
        name: &str,
        data_type: DataType,
        form: LenForm,
        write: impl FnOnce(&mut Writer<'b>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.name(name, data_type)?;
        let mark = self.w.begin_ob16(form)?;
        write(self.w)?;
        self.w.end_ob16(mark)
    }
}

/// Minimal big-endian with an `ob16` length; zero is one zero byte.
pub(crate) fn write_uint(w: &mut Writer<'_>, value: u64) -> Result<(), EncodeError> {
    let bytes = value.to_be_bytes();
    let skip = (value.leading_zeros() / 8).min(7) as usize;
    w.buf16(&bytes[skip..])
}

/// Minimal two's complement with an `ob16` length.
pub(crate) fn write_int(w: &mut Writer<'_>, value: i64) -> Result<(), EncodeError> {
    let bytes = value.to_be_bytes();
    let significant = 64 - if value < 0 { value.leading_ones() } else { value.leading_zeros() } + 1;
    w.buf16(&bytes[8 - significant.div_ceil(8) as usize..])
}

/// What most attributes fit in, bytes: every login is written by way of [`scratch`].
const SCRATCH: usize = 1 << 10;
/// No buffer of a message is longer.
const SCRATCH_MAX: usize = 1 << 16;

/// Runs `write` on a buffer of its own, again with a larger one where it is full, and gives what was written: attributes and bodies that stand
/// inside a message.
pub(crate) fn scratch(write: impl Fn(&mut Writer<'_>) -> Result<(), EncodeError>) -> Result<Vec<u8>, EncodeError> {
    let mut buf = vec![0; SCRATCH];
    loop {
        let mut w = Writer::new(&mut buf);
        match write(&mut w) {
            Ok(()) => {
                let len = w.position();
                buf.truncate(len);
                return Ok(buf);
            }
            Err(EncodeError::BufferFull) if buf.len() < SCRATCH_MAX => buf = vec![0; buf.len() * 8],
            Err(e) => return Err(e),
        }
    }
}

/// An element of a known name, which must have its type.
#[derive(Clone, Copy)]
pub(crate) struct Element<'a>(pub(crate) ElementEntry<'a>);

impl<'a> Element<'a> {
    pub(crate) fn name(&self) -> &'a [u8] {
        self.0.name
    }

    pub(crate) fn data(&self) -> &'a [u8] {
        self.0.data
    }

    /// The type of the value, without regard to the form that set data gives it.
    pub(crate) fn data_type(&self) -> DataType {
        self.0.data_type.base()
    }

    /// A number; `None` if it is blank.
    pub(crate) fn uint(&self) -> Result<Option<u64>, DecodeError> {
        match self.0.value()? {
            Primitive::UInt(value) => Ok(Some(value)),
            Primitive::Blank if self.data_type() == DataType::UINT => Ok(None),
            _ => Err(DecodeError::invalid("element that must be UINT", 0)),
        }
    }

    pub(crate) fn bool(&self) -> Result<Option<bool>, DecodeError> {
        Ok(self.uint()?.map(|value| value != 0))
    }

    pub(crate) fn enumeration(&self) -> Result<Option<u16>, DecodeError> {
        match self.0.value()? {
            Primitive::Enum(value) => Ok(Some(value)),
            Primitive::Blank if self.data_type() == DataType::ENUM => Ok(None),
            _ => Err(DecodeError::invalid("element that must be ENUM", 0)),
        }
    }

    /// Text of any of the text types or plain bytes, with what is not UTF-8 replaced.
    pub(crate) fn text(&self) -> Result<String, DecodeError> {
        self.bytes().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn bytes(&self) -> Result<Vec<u8>, DecodeError> {
        match self.data_type() {
            DataType::ASCII_STRING | DataType::UTF8_STRING | DataType::RMTES_STRING | DataType::BUFFER => {
                Ok(self.data().to_vec())
            }
            _ => Err(DecodeError::invalid("element that must be text", 0)),
        }
    }

    pub(crate) fn state(&self) -> Result<StateBuf, DecodeError> {
        match self.0.value()? {
            Primitive::State(state) => Ok(state.into()),
            _ => Err(DecodeError::invalid("element that must be STATE", 0)),
        }
    }

    /// The items of an array; none if it is blank.
    pub(crate) fn items(&self) -> Result<impl Iterator<Item = Result<Primitive<'a>, DecodeError>>, DecodeError> {
        if self.data_type() != DataType::ARRAY {
            return Err(DecodeError::invalid("element that must be ARRAY", 0));
        }
        let array = if self.data().is_empty() { None } else { Some(Array::decode(self.data())?) };
        Ok(array.into_iter().flat_map(|array| array.values()))
    }
}
