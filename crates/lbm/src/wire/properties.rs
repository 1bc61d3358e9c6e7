//! Message properties: named values behind a message's payload.

use super::{Full, WireError, Writer, invalid, truncated};

const MAGIC: u32 = 0xABAC_DABA;
const BLOCK_HEADER: usize = 8;
const FIELD: usize = 16;

/// The value of a property.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the types are those of C")]
pub enum Value<'a> {
    Boolean(bool),
    Byte(i8),
    Short(i16),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    String(&'a [u8]),
}

/// A block of properties in the byte order of whoever wrote it.
#[derive(Clone, Copy, Debug)]
pub struct Properties<'a> {
    block: &'a [u8],
    count: usize,
    little_endian: bool,
}

impl<'a> Properties<'a> {
    /// Looks at a block: the last bytes of a message, as many as its header chain says.
    ///
    /// # Errors
    /// Wrong magic or version, or more fields than there are bytes.
    pub fn decode(block: &'a [u8]) -> Result<Self, WireError> {
        let head: [u8; BLOCK_HEADER] =
            block.get(..BLOCK_HEADER).and_then(|b| b.try_into().ok()).ok_or(truncated("property block", 0))?;
        let [a, b, c, d, e, f, version, _] = head;
        let little_endian = match u32::from_le_bytes([a, b, c, d]) {
            MAGIC => true,
            swapped if swapped.swap_bytes() == MAGIC => false,
            _ => return Err(invalid("property magic", 0)),
        };
        if version != 0 {
            return Err(invalid("property version", 6));
        }
        let count = if little_endian { u16::from_le_bytes([e, f]) } else { u16::from_be_bytes([e, f]) };
        let count = usize::from(count);
        if block.len() < BLOCK_HEADER + count * FIELD {
            return Err(truncated("property fields", BLOCK_HEADER));
        }
        Ok(Self { block, count, little_endian })
    }

    /// The properties (name, value), or where one is broken.
    pub fn iter(self) -> impl Iterator<Item = Result<(&'a [u8], Value<'a>), WireError>> {
        (0..self.count).map(move |i| self.field(BLOCK_HEADER + i * FIELD))
    }

    fn number(self, at: usize) -> Option<u32> {
        let bytes = self.fixed(at)?;
        Some(if self.little_endian { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    fn fixed<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.block.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    fn native<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        let mut bytes = self.fixed::<N>(at)?;
        if !self.little_endian {
            bytes.reverse();
        }
        Some(bytes)
    }

    fn text(self, at: usize) -> Option<&'a [u8]> {
        let rest = self.block.get(at..)?;
        Some(&rest[..rest.iter().position(|b| *b == 0)?])
    }

    fn field(self, at: usize) -> Result<(&'a [u8], Value<'a>), WireError> {
        let read = || {
            let (key, value, kind) = (self.number(at)?, self.number(at + 4)?, self.number(at + 12)?);
            let name = self.text(key as usize)?;
            let value = value as usize;
            Some((
                name,
                match kind {
                    1 => Value::Boolean(self.native::<1>(value)?[0] != 0),
                    2 => Value::Byte(i8::from_le_bytes(self.native(value)?)),
                    3 => Value::Short(i16::from_le_bytes(self.native(value)?)),
                    4 => Value::Int(i32::from_le_bytes(self.native(value)?)),
                    5 => Value::Long(i64::from_le_bytes(self.native(value)?)),
                    6 => Value::Float(f32::from_le_bytes(self.native(value)?)),
                    7 => Value::Double(f64::from_le_bytes(self.native(value)?)),
                    8 => Value::String(self.text(value)?),
                    _ => return None,
                },
            ))
        };
        read().ok_or(invalid("property", at))
    }
}

/// Writes a block, little-endian. Keys and values are aligned to four bytes.
///
/// # Errors
/// It does not fit.
pub fn encode(w: &mut Writer<'_>, properties: &[(&[u8], Value<'_>)]) -> Result<(), Full> {
    let count = u16::try_from(properties.len()).map_err(|_| Full)?;
    let start = w.position();
    w.bytes(&MAGIC.to_le_bytes())?;
    w.bytes(&count.to_le_bytes())?;
    w.u16(0)?;
    let fields_at = w.position();
    for _ in properties {
        w.bytes(&[0; FIELD])?;
    }
    for (i, (name, value)) in properties.iter().enumerate() {
        let key_at = (w.position() - start) as u32;
        w.bytes(name)?;
        w.u8(0)?;
        while !(w.position() - start).is_multiple_of(4) {
            w.u8(0)?;
        }
        let value_at = (w.position() - start) as u32;
        let kind: u32 = encode_value(w, value)?;
        let end = w.position();
        w.truncate(fields_at + i * FIELD);
        w.bytes(&key_at.to_le_bytes())?;
        w.bytes(&value_at.to_le_bytes())?;
        w.u32(0)?;
        w.bytes(&kind.to_le_bytes())?;
        w.truncate(end);
    }
    Ok(())
}

fn encode_value(w: &mut Writer<'_>, value: &Value<'_>) -> Result<u32, Full> {
    Ok(match *value {
        Value::Boolean(v) => (w.u8(u8::from(v))?, 1).1,
        Value::Byte(v) => (w.bytes(&v.to_le_bytes())?, 2).1,
        Value::Short(v) => (w.bytes(&v.to_le_bytes())?, 3).1,
        Value::Int(v) => (w.bytes(&v.to_le_bytes())?, 4).1,
        Value::Long(v) => (w.bytes(&v.to_le_bytes())?, 5).1,
        Value::Float(v) => (w.bytes(&v.to_le_bytes())?, 6).1,
        Value::Double(v) => (w.bytes(&v.to_le_bytes())?, 7).1,
        Value::String(text) => {
            w.bytes(text)?;
            w.u8(0)?;
            8
        }
    })
}
