//! Array: primitives of one type, each with a length or all of the same length.

use crate::primitive::Primitive;
use crate::wire::{Reader, Writer};
use crate::{DataType, DecodeError, EncodeError};
use std::fmt;

/// An array of primitives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Array<'a> {
    /// Type of the items, as a base type.
    pub item_type: DataType,
    /// Length of each item in bytes; 0 if each has its own length.
    pub item_len: u16,
    count: u16,
    items: &'a [u8],
}

impl<'a> Array<'a> {
    /// Decodes the header: type u8, item length `ob16`, count u16.
    ///
    /// # Errors
    /// Truncated.
    pub fn decode(data: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(data, "array header");
        Ok(Self { item_type: DataType(r.u8()?).base(), item_len: r.ob16()?, count: r.u16()?, items: r.rest() })
    }

    /// The bytes of the items, without lengths. The iterator ends after the first error.
    pub fn items(&self) -> ArrayItems<'a> {
        ArrayItems { r: Reader::new(self.items, "array item"), left: self.count, item_len: self.item_len }
    }

    /// The items as values.
    pub fn values(&self) -> impl Iterator<Item = Result<Primitive<'a>, DecodeError>> + use<'a> {
        let item_type = self.item_type;
        self.items().map(move |item| item.and_then(|bytes| Primitive::decode(item_type, bytes)))
    }

    /// Number of items that the header promises.
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// True if the header promises no items.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Writes the array as it was decoded.
    pub(crate) fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.u8(self.item_type.0)?;
        w.ob16(self.item_len as usize)?;
        w.u16(self.count)?;
        w.bytes(self.items)
    }
}

impl fmt::Display for Array<'_> {
    /// Items in brackets, separated by commas; `?` where one cannot be decoded.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "[";
        for value in self.values() {
            match value {
                // An array cannot hold arrays: a hostile one must not recurse.
                Ok(Primitive::Array(_)) | Err(_) => write!(f, "{separator}?")?,
                Ok(value) => write!(f, "{separator}{value}")?,
            }
            separator = ", ";
        }
        f.write_str(if separator == "[" { "[]" } else { "]" })
    }
}

/// Iterator over the bytes of the items of an array.
#[derive(Clone, Debug)]
pub struct ArrayItems<'a> {
    r: Reader<'a>,
    left: u16,
    item_len: u16,
}

impl<'a> Iterator for ArrayItems<'a> {
    type Item = Result<&'a [u8], DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let item = if self.item_len == 0 { self.r.buf16() } else { self.r.bytes(self.item_len as usize) };
        if item.is_err() {
            self.left = 0;
        }
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some((self.left as usize).min(self.r.remaining())))
    }
}

/// Writes an array in place.
#[derive(Debug)]
pub struct ArrayEncoder<'w, 'b> {
    w: &'w mut Writer<'b>,
    item_type: DataType,
    item_len: u16,
    count_at: usize,
    count: u16,
}

impl<'w, 'b> ArrayEncoder<'w, 'b> {
    /// Begins an array of a base type. With an `item_len` of 0 each item gets a length of its own.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::Unrepresentable`] for a type that is no primitive, or an array.
    pub fn begin(w: &'w mut Writer<'b>, item_type: DataType, item_len: u16) -> Result<Self, EncodeError> {
        if !item_type.is_primitive() || item_type == DataType::ARRAY {
            return Err(EncodeError::Unrepresentable("type of array items"));
        }
        w.u8(item_type.0)?;
        w.ob16(item_len as usize)?;
        let count_at = w.reserve_u16()?;
        Ok(Self { w, item_type, item_len, count_at, count: 0 })
    }

    /// The next item.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::Unrepresentable`] for a value of another type or one that does not fit
    /// in the fixed length. The array is as before then.
    pub fn item(&mut self, value: &Primitive<'_>) -> Result<(), EncodeError> {
        if value.data_type().is_some_and(|t| t != self.item_type) {
            return Err(EncodeError::Unrepresentable("array item of another type"));
        }
        if self.count == u16::MAX {
            return Err(EncodeError::TooLong { what: "array items", len: 0x1_0000, max: 0xFFFF });
        }
        let start = self.w.position();
        let done = match self.item_len {
            0 => value.encode_ob16(self.w),
            len => value.encode_fixed(self.item_type, len as usize, self.w),
        };
        match done {
            Ok(()) => {
                self.count += 1;
                self.w.patch_u16(self.count_at, self.count);
                Ok(())
            }
            Err(e) => {
                self.w.rollback(start);
                Err(e)
            }
        }
    }

    /// Ends the array. Nothing is left to do; the call makes the end visible.
    pub fn finish(self) {}
}
