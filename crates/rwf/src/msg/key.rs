//! The message key: what a stream is about.

use super::flags::KeyFlags;
use crate::wire::{LenForm, OB16_LONG, RB15_MAX, Reader, Writer};
use crate::{DataType, DecodeError, EncodeError};
use std::borrow::Cow;
use std::hash::{Hash, Hasher};

/// Names shorter than this are written and read in one go: the key's length fits a byte then.
const PLAIN: usize = 96;

/// A message key. All members are optional; a request has a key even when it is empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct MsgKey<'a> {
    /// Bits of the key that have no meaning here; the known ones follow from the members.
    pub flags: KeyFlags,
    /// Id of the service.
    pub service_id: Option<u16>,
    /// Name of the item, the user, the dictionary; at most 255 bytes. An empty name is not written.
    pub name: Option<&'a [u8]>,
    /// What the name is (ETA `InstrumentNameTypes`, `UserIdTypes`). Written only along with a name.
    pub name_type: Option<u8>,
    /// Bits of the parts that are wanted (directory, dictionary).
    pub filter: Option<u32>,
    /// A number whose meaning the domain defines.
    pub identifier: Option<i32>,
    /// More attributes, in a container.
    pub attrib: Option<Attrib<'a>>,
}

/// The attributes of a message key: a container.
#[derive(Clone, Copy, Debug)]
pub struct Attrib<'a> {
    /// Type of the container.
    pub container: DataType,
    /// The attributes' bytes. Must be empty for [`DataType::NO_DATA`], which has no length on the wire.
    pub data: &'a [u8],
    /// How the length is written. ETA writes the long form for attributes that were encoded in place. Not part of
    /// equality.
    pub len_form: LenForm,
}

impl<'a> Attrib<'a> {
    /// Attributes with the length in its shortest form.
    pub const fn new(container: DataType, data: &'a [u8]) -> Self {
        Self { container, data, len_form: LenForm::Shortest }
    }
}

impl PartialEq for Attrib<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.container == other.container && self.data == other.data
    }
}

impl Eq for Attrib<'_> {}

impl Hash for Attrib<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.container.hash(state);
        self.data.hash(state);
    }
}

impl<'a> MsgKey<'a> {
    /// The key of an item of a service.
    pub const fn item(service_id: u16, name: &'a [u8]) -> Self {
        Self { service_id: Some(service_id), name: Some(name), ..Self::EMPTY }
    }

    /// The key without members.
    pub const EMPTY: Self = Self {
        flags: KeyFlags::NONE,
        service_id: None,
        name: None,
        name_type: None,
        filter: None,
        identifier: None,
        attrib: None,
    };

    /// The name, with what is not UTF-8 replaced; empty if there is none.
    pub fn name_lossy(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.name.unwrap_or_default())
    }

    /// The flags as they stand on the wire.
    pub fn wire_flags(&self) -> KeyFlags {
        let has_name = self.written_name().is_some();
        let mut flags = self.flags.without(KeyFlags::DERIVED);
        flags.set(KeyFlags::HAS_SERVICE_ID, self.service_id.is_some());
        flags.set(KeyFlags::HAS_NAME, has_name);
        flags.set(KeyFlags::HAS_NAME_TYPE, has_name && self.name_type.is_some());
        flags.set(KeyFlags::HAS_FILTER, self.filter.is_some());
        flags.set(KeyFlags::HAS_IDENTIFIER, self.identifier.is_some());
        flags.set(KeyFlags::HAS_ATTRIB, self.attrib.is_some());
        flags
    }

    fn written_name(&self) -> Option<&'a [u8]> {
        self.name.filter(|name| !name.is_empty())
    }

    /// Decodes a key without the length before it. What follows the known members is skipped.
    ///
    /// # Errors
    /// Truncated if a member is longer than the key.
    pub fn decode(key: &'a [u8]) -> Result<Self, DecodeError> {
        Self::read_members(&mut Reader::new(key, "message key"))
    }

    #[inline]
    fn read_members(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let flags = KeyFlags(r.rb15()?);
        let mut key = Self { flags: flags.without(KeyFlags::DERIVED), ..Self::EMPTY };
        if flags.contains(KeyFlags::HAS_SERVICE_ID) {
            key.service_id = Some(r.reading("service id of the key").ob16()?);
        }
        if flags.contains(KeyFlags::HAS_NAME) {
            key.name = Some(r.reading("name of the key").buf8()?);
            if flags.contains(KeyFlags::HAS_NAME_TYPE) {
                key.name_type = Some(r.reading("name type of the key").u8()?);
            }
        }
        if flags.contains(KeyFlags::HAS_FILTER) {
            key.filter = Some(r.reading("filter of the key").u32()?);
        }
        if flags.contains(KeyFlags::HAS_IDENTIFIER) {
            key.identifier = Some(r.reading("identifier of the key").i32()?);
        }
        if flags.contains(KeyFlags::HAS_ATTRIB) {
            key.attrib = Some(Attrib::read(r.reading("attributes of the key"))?);
        }
        Ok(key)
    }

    /// Reads a key with its 15-bit length.
    #[inline]
    pub(super) fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let bytes = r.reading("message key").buf15()?;
        if let Some(key) = Self::read_plain(bytes) {
            return Ok(key);
        }
        Self::read_members(&mut Reader::with_base(bytes, r.offset() - bytes.len(), "message key"))
    }

    /// The key, if it is what nearly all are: service, name and perhaps its type.
    #[inline]
    fn read_plain(bytes: &'a [u8]) -> Option<Self> {
        const PLAIN_FLAGS: u16 = KeyFlags::HAS_SERVICE_ID.0 | KeyFlags::HAS_NAME.0;
        let &[flags, id, length, ref rest @ ..] = bytes else { return None };
        let (plain, typed) = (u16::from(flags) & !KeyFlags::HAS_NAME_TYPE.0, KeyFlags(u16::from(flags)));
        if plain != PLAIN_FLAGS || id == OB16_LONG {
            return None;
        }
        let (name, behind) = rest.split_at_checked(usize::from(length))?;
        let name_type = if typed.contains(KeyFlags::HAS_NAME_TYPE) { Some(*behind.first()?) } else { None };
        Some(Self { service_id: Some(u16::from(id)), name: Some(name), name_type, ..Self::EMPTY })
    }

    /// Writes the key without a length before it.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::TooLong`] for name or attributes.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.rb15(self.wire_flags().0 as usize)?;
        if let Some(id) = self.service_id {
            w.ob16(id as usize)?;
        }
        if let Some(name) = self.written_name() {
            w.buf8(name)?;
            if let Some(name_type) = self.name_type {
                w.u8(name_type)?;
            }
        }
        if let Some(filter) = self.filter {
            w.u32(filter)?;
        }
        if let Some(identifier) = self.identifier {
            w.i32(identifier)?;
        }
        if let Some(attrib) = &self.attrib {
            attrib.write(w)?;
        }
        Ok(())
    }

    /// Writes the key with its length, which always takes two bytes.
    #[inline]
    pub(super) fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let other = self.filter.is_some() | self.identifier.is_some() | self.attrib.is_some();
        match (self.service_id, self.name) {
            (Some(id), Some(name @ [_, ..])) if name.len() < PLAIN && !other && self.flags == KeyFlags::NONE => {
                self.write_plain(id, name, w)
            }
            _ => self.write_any(w),
        }
    }

    /// Writes what nearly all keys are, service, name and perhaps its type, with the length known beforehand: a third of the
    /// instructions.
    fn write_plain(&self, id: u16, name: &[u8], w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut flags = KeyFlags::HAS_SERVICE_ID.0 | KeyFlags::HAS_NAME.0;
        if self.name_type.is_some() {
            flags |= KeyFlags::HAS_NAME_TYPE.0;
        }
        let (flags, length, [high, low]) = (flags as u8, name.len() as u8, id.to_be_bytes());
        let (mut head, used) = if id < u16::from(OB16_LONG) {
            ([0x80, 0, flags, low, length, 0, 0, 0], 5)
        } else {
            ([0x80, 0, flags, OB16_LONG, high, low, length, 0], 7)
        };
        head[1] = (used - 2 + name.len() + usize::from(self.name_type.is_some())) as u8;
        w.short(head, used)?;
        w.bytes(name)?;
        self.name_type.map_or(Ok(()), |name_type| w.u8(name_type))
    }

    fn write_any(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mark = w.begin_rb15(LenForm::Long)?;
        self.encode(w)?;
        w.end_rb15(mark)
    }
}

impl<'a> Attrib<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let container = DataType::from_wire_container(r.u8()?);
        if container == DataType::NO_DATA {
            return Ok(Self::new(container, &[]));
        }
        let long = r.rest().first().is_some_and(|b| b & 0x80 != 0);
        let data = r.buf15()?;
        let len_form = if long && data.len() < 0x80 { LenForm::Long } else { LenForm::Shortest };
        Ok(Self { container, data, len_form })
    }

    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.u8(self.container.wire_container())?;
        if self.container == DataType::NO_DATA {
            return if self.data.is_empty() { Ok(()) } else { Err(EncodeError::Unrepresentable("bytes of no data")) };
        }
        if self.data.len() > RB15_MAX {
            return Err(EncodeError::TooLong { what: "key attributes", len: self.data.len(), max: RB15_MAX });
        }
        match self.len_form {
            LenForm::Shortest => w.buf15(self.data),
            LenForm::Long => {
                w.rb15_long(self.data.len())?;
                w.bytes(self.data)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MsgKey, PLAIN};
    use crate::wire::{Reader, Writer};

    #[test]
    fn the_short_way_is_the_long_way() {
        let name = [b'N'; PLAIN + 40];
        for id in [0, 1, 0xFD, 0xFE, 0xFF, 0x100, u16::MAX] {
            for (length, name_type) in
                (0..name.len()).flat_map(|length| [(length, None), (length, Some(1)), (length, Some(255))])
            {
                let key = MsgKey { name_type, ..MsgKey::item(id, &name[..length]) };
                for room in [0, length + 3, length + 7, 300] {
                    let (mut short, mut long) = ([0; 300], [0; 300]);
                    let (mut a, mut b) = (Writer::new(&mut short[..room]), Writer::new(&mut long[..room]));
                    assert_eq!(key.write(&mut a), key.write_any(&mut b));
                    if key.write_any(&mut Writer::new(&mut [0; 300][..room])).is_ok() {
                        assert_eq!(a.written(), b.written());
                        let mut r = Reader::new(a.written(), "key");
                        let read = MsgKey::read(&mut r).unwrap();
                        assert_eq!(read, MsgKey::decode(&b.written()[2..]).unwrap());
                    }
                }
            }
        }
    }

    #[test]
    fn keys_that_are_cut_off_are_refused_either_way() {
        let (mut bytes, key) = ([0; 40], MsgKey { name_type: Some(1), ..MsgKey::item(7, b"IBM.N") });
        let mut w = Writer::new(&mut bytes);
        key.write(&mut w).unwrap();
        let whole = w.written();
        for length in 2..whole.len() {
            let cut = [&[0x80, (length - 2) as u8], &whole[2..length]].concat();
            let short = MsgKey::read(&mut Reader::new(&cut, "key")).is_ok();
            assert_eq!(short, MsgKey::decode(&cut[2..]).is_ok(), "{length}");
            assert!(!short);
        }
    }
}
