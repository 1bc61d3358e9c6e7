//! Cheap looks at a message that stays bytes, and the two changes a relay makes to it.
//!
//! ```
//! use rwf::{msg::{CloseMsg, Domain, MsgClass}, peek, wire::Writer};
//! let mut buf = [0; 32];
//! let mut w = Writer::new(&mut buf);
//! CloseMsg::new(Domain::MARKET_PRICE, 5).encode(&mut w)?;
//! let msg = w.into_written();
//! assert_eq!(peek::class(msg), Some(MsgClass::CLOSE));
//! peek::set_stream_id(msg, -1);
//! assert_eq!(peek::stream_id(msg), Some(-1));
//! # Ok::<(), rwf::EncodeError>(())
//! ```

use crate::msg::{
    AckFlags, CLASS_MASK, Domain, GenericFlags, KeyFlags, MsgClass, PostFlags, RefreshFlags, RequestFlags, StatusFlags,
    UpdateFlags,
};
use crate::wire::Reader;
use crate::{DataType, DecodeError, Qos, State};
use std::ops::Range;

/// Offset of the stream id in every message; four bytes, big-endian.
pub const STREAM_ID_OFFSET: usize = 4;

/// Length of the part of the header that is the same for all messages: header length, class, domain, stream id.
const FIXED_LEN: usize = 8;

/// Length of what every header begins with, where the flags have two bytes.
const HEAD_LEN: usize = FIXED_LEN + 3;

/// What every header begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Class.
    pub class: MsgClass,
    /// Domain.
    pub domain: Domain,
    /// Stream id.
    pub stream_id: i32,
    /// Flags as they stand on the wire; their meaning depends on the class.
    pub flags: u16,
    /// Type of the body.
    pub container: DataType,
    /// Where the body starts in the message.
    pub body_offset: usize,
}

/// Reads what every header begins with, and checks that the header is within the message.
///
/// # Errors
/// Truncated.
#[inline]
pub fn header(msg: &[u8]) -> Result<Header, DecodeError> {
    // The data path: all that is looked at is there, which one comparison tells.
    let Some(head) = msg.first_chunk::<HEAD_LEN>() else { return header_of_short(msg) };
    let &[high, low, class, domain, a, b, c, d, first, second, third] = head;
    let (flags, container, offset) = match first {
        0..0x80 => (u16::from(first), second, HEAD_LEN - 1),
        _ => (u16::from_be_bytes([first & 0x7F, second]), third, HEAD_LEN),
    };
    let body_offset = usize::from(u16::from_be_bytes([high, low])) + 2;
    if body_offset > msg.len() || body_offset < offset {
        return Err(DecodeError::truncated("message header", 0));
    }
    Ok(Header {
        class: MsgClass(class & CLASS_MASK),
        domain: Domain(domain),
        stream_id: i32::from_be_bytes([a, b, c, d]),
        flags,
        container: DataType::from_wire_container(container),
        body_offset,
    })
}

/// As [`header`], for any message.
#[cold]
fn header_of_short(msg: &[u8]) -> Result<Header, DecodeError> {
    let mut r = Reader::new(msg, "message header");
    let body_offset = r.u16()? as usize + 2;
    let &[class, domain, a, b, c, d] = r.array()?;
    let flags = r.rb15()?;
    let container = DataType::from_wire_container(r.u8()?);
    if body_offset > msg.len() || body_offset < r.offset() {
        return Err(DecodeError::truncated("message header", 0));
    }
    Ok(Header {
        class: MsgClass(class & CLASS_MASK),
        domain: Domain(domain),
        stream_id: i32::from_be_bytes([a, b, c, d]),
        flags,
        container,
        body_offset,
    })
}

/// The class; `None` if the message is too short to have one.
#[inline]
pub fn class(msg: &[u8]) -> Option<MsgClass> {
    msg.get(2).map(|b| MsgClass(b & CLASS_MASK))
}

/// The domain; `None` if the message is too short to have one.
#[inline]
pub fn domain(msg: &[u8]) -> Option<Domain> {
    msg.get(3).map(|b| Domain(*b))
}

/// The stream id; `None` if the message is too short to have one.
#[inline]
pub fn stream_id(msg: &[u8]) -> Option<i32> {
    let fixed = msg.first_chunk::<FIXED_LEN>()?;
    let [.., a, b, c, d] = *fixed;
    Some(i32::from_be_bytes([a, b, c, d]))
}

/// The flags as they stand on the wire; `None` if the message is too short to have any.
#[inline]
pub fn flags(msg: &[u8]) -> Option<u16> {
    Reader::new(msg.get(FIXED_LEN..)?, "").rb15().ok()
}

/// The type of the body; `None` if the message is too short to have one.
#[inline]
pub fn container(msg: &[u8]) -> Option<DataType> {
    let mut r = Reader::new(msg.get(FIXED_LEN..)?, "");
    r.rb15().ok()?;
    r.u8().ok().map(DataType::from_wire_container)
}

/// The body; `None` if the header is not complete.
#[inline]
pub fn body(msg: &[u8]) -> Option<&[u8]> {
    let len = Reader::new(msg, "").u16().ok()?;
    msg.get(2 + len as usize..)
}

/// The sequence number of an update, by its header; `None` if it has none.
///
/// ```
/// use rwf::{msg::{Domain, UpdateMsg}, peek, wire::Writer};
/// for seq_num in [None, Some(0), Some(7_000_000)] {
///     let mut buf = [0; 64];
///     let mut w = Writer::new(&mut buf);
///     UpdateMsg { seq_num, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) }.encode(&mut w)?;
///     let msg = w.into_written();
///     assert_eq!(peek::update_seq_num(&peek::header(msg)?, msg), seq_num);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
pub fn update_seq_num(header: &Header, msg: &[u8]) -> Option<u32> {
    if header.class != MsgClass::UPDATE || header.flags & UpdateFlags::HAS_SEQ_NUM.0 == 0 {
        return None;
    }
    let mut r = Reader::new(msg.get(FIXED_LEN..header.body_offset)?, "");
    r.rb15().ok()?;
    // Container and update type come before it.
    r.bytes(2).ok()?;
    r.u32().ok()
}

/// Overwrites the stream id. False, and nothing changed, if the message is too short to have one.
#[inline]
pub fn set_stream_id(msg: &mut [u8], id: i32) -> bool {
    let Some(place) = msg.get_mut(STREAM_ID_OFFSET..FIXED_LEN) else { return false };
    place.copy_from_slice(&id.to_be_bytes());
    true
}

/// True if a message of this class with these wire flags has a key: `HAS_MSG_KEY`, and always for a request.
#[inline]
pub const fn has_key(class: MsgClass, flags: u16) -> bool {
    match class {
        MsgClass::REQUEST => true,
        MsgClass::REFRESH => flags & RefreshFlags::HAS_MSG_KEY.0 != 0,
        MsgClass::STATUS => flags & StatusFlags::HAS_MSG_KEY.0 != 0,
        MsgClass::UPDATE => flags & UpdateFlags::HAS_MSG_KEY.0 != 0,
        MsgClass::ACK => flags & AckFlags::HAS_MSG_KEY.0 != 0,
        MsgClass::GENERIC => flags & GenericFlags::HAS_MSG_KEY.0 != 0,
        MsgClass::POST => flags & PostFlags::HAS_MSG_KEY.0 != 0,
        _ => false,
    }
}

/// Where the key's length and the key are in a message.
struct KeyPlace {
    /// Position of the 15-bit length.
    len_at: usize,
    /// The key without its length.
    key: Range<usize>,
}

/// Where the message key lies, without its length; `None` if there is none.
/// [`MsgKey::decode`](crate::msg::MsgKey::decode) takes these bytes.
///
/// # Errors
/// Truncated; invalid for a class that does not exist.
pub fn key_range(msg: &[u8]) -> Result<Option<Range<usize>>, DecodeError> {
    Ok(find_key(msg)?.map(|place| place.key))
}

fn find_key(msg: &[u8]) -> Result<Option<KeyPlace>, DecodeError> {
    let Header { class, flags, body_offset, .. } = header(msg)?;
    let mut r = Reader::new(&msg[..body_offset], "message header");
    r.bytes(FIXED_LEN)?;
    r.rb15()?;
    r.u8()?;
    if !has_key(class, flags) {
        let known = MsgClass::ALL.contains(&class);
        return if known { Ok(None) } else { Err(DecodeError::invalid("message class", 2)) };
    }
    skip_to_key(&mut r, class, flags)?;
    let len_at = r.offset();
    let len = r.reading("message key").buf15()?.len();
    Ok(Some(KeyPlace { len_at, key: r.offset() - len..r.offset() }))
}

/// Skips the members between container type and key.
fn skip_to_key(r: &mut Reader<'_>, class: MsgClass, flags: u16) -> Result<(), DecodeError> {
    let has = |bit: u16| flags & bit != 0;
    match class {
        MsgClass::REQUEST => {
            if has(RequestFlags::HAS_PRIORITY.0) {
                r.u8()?;
                r.ob16()?;
            }
            for bit in [RequestFlags::HAS_QOS, RequestFlags::HAS_WORST_QOS] {
                if has(bit.0) {
                    Qos::read(r)?;
                }
            }
        }
        MsgClass::REFRESH => {
            r.bytes(if has(RefreshFlags::HAS_SEQ_NUM.0) { 4 } else { 0 })?;
            State::read(r)?;
            r.buf8()?;
            if has(RefreshFlags::HAS_PERM_DATA.0) {
                r.buf15()?;
            }
            if has(RefreshFlags::HAS_QOS.0) {
                Qos::read(r)?;
            }
        }
        MsgClass::STATUS => {
            if has(StatusFlags::HAS_STATE.0) {
                State::read(r)?;
            }
            if has(StatusFlags::HAS_GROUP_ID.0) {
                r.buf8()?;
            }
            if has(StatusFlags::HAS_PERM_DATA.0) {
                r.buf15()?;
            }
        }
        MsgClass::UPDATE => {
            r.bytes(if has(UpdateFlags::HAS_SEQ_NUM.0) { 5 } else { 1 })?;
            if has(UpdateFlags::HAS_CONF_INFO.0) {
                r.rb15()?;
                r.u16()?;
            }
            if has(UpdateFlags::HAS_PERM_DATA.0) {
                r.buf15()?;
            }
        }
        MsgClass::ACK => {
            r.bytes(if has(AckFlags::HAS_NAK_CODE.0) { 5 } else { 4 })?;
            if has(AckFlags::HAS_TEXT.0) {
                r.buf16()?;
            }
            r.bytes(if has(AckFlags::HAS_SEQ_NUM.0) { 4 } else { 0 })?;
        }
        MsgClass::GENERIC => {
            r.bytes(if has(GenericFlags::HAS_SEQ_NUM.0) { 4 } else { 0 })?;
            r.bytes(if has(GenericFlags::HAS_SECONDARY_SEQ_NUM.0) { 4 } else { 0 })?;
            if has(GenericFlags::HAS_PERM_DATA.0) {
                r.buf15()?;
            }
        }
        MsgClass::POST => {
            r.bytes(8)?;
            r.bytes(if has(PostFlags::HAS_SEQ_NUM.0) { 4 } else { 0 })?;
            r.bytes(if has(PostFlags::HAS_POST_ID.0) { 4 } else { 0 })?;
            if has(PostFlags::HAS_PERM_DATA.0) {
                r.buf15()?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Copies `msg` to the end of `out` with another service id in its key. All else stays as it is, byte by byte, but for
/// the lengths of key and header where the id takes more or fewer bytes. The key's length takes two bytes then.
///
/// False, and nothing appended, if the message has no key or the key no service id.
///
/// # Errors
/// Truncated or invalid as for decoding the header; invalid if the header would become longer than 65,535 bytes. `out` is
/// unchanged then.
pub fn rewrite_service_id(msg: &[u8], new_id: u16, out: &mut Vec<u8>) -> Result<bool, DecodeError> {
    let Some(KeyPlace { len_at, key }) = find_key(msg)? else { return Ok(false) };
    let mut r = Reader::new(&msg[key.clone()], "message key");
    let flags = r.rb15().map_err(|e| e.within(key.start))?;
    if flags & KeyFlags::HAS_SERVICE_ID.0 == 0 {
        return Ok(false);
    }
    let id_at = key.start + r.offset();
    r.ob16().map_err(|e| e.within(key.start))?;
    let after_id = key.start + r.offset();
    let [hi, lo] = new_id.to_be_bytes();
    let long_id = [0xFE, hi, lo];
    let id: &[u8] = if new_id < 0xFE { &long_id[2..] } else { &long_id };
    if id.len() == after_id - id_at {
        let start = out.len();
        out.extend_from_slice(msg);
        out[start + id_at..start + after_id].copy_from_slice(id);
        return Ok(true);
    }

    let too_long = || DecodeError::invalid("length of a rewritten header", 0);
    let header_len = u16::from_be_bytes([msg[0], msg[1]]) as usize;
    let key_len = key.len() - (after_id - id_at) + id.len();
    let len_len = key.start - len_at;
    let header_len = header_len - (len_len + key.len()) + 2 + key_len;
    let header_len = u16::try_from(header_len).map_err(|_| too_long())?;
    let key_len = u16::try_from(key_len).ok().filter(|len| *len < 0x8000).ok_or_else(too_long)?;
    out.reserve(msg.len() + 4);
    out.extend_from_slice(&header_len.to_be_bytes());
    out.extend_from_slice(&msg[2..len_at]);
    out.extend_from_slice(&(0x8000 | key_len).to_be_bytes());
    out.extend_from_slice(&msg[key.start..id_at]);
    out.extend_from_slice(id);
    out.extend_from_slice(&msg[after_id..]);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::{header, header_of_short};

    #[test]
    fn a_header_is_read_alike_with_and_without_bytes_behind_it() {
        // Flags of one byte and of two; headers that say to be shorter, as long as and longer than they are; each cut anywhere.
        for flags in [&[0x00][..], &[0x7F], &[0x80, 0x01], &[0xFF, 0xFF]] {
            for length in [0_u16, 7, 8, 9, 10, 11, 12, 20, 0xFFFF] {
                let mut msg = length.to_be_bytes().to_vec();
                msg.extend_from_slice(&[0xE4, 6, 1, 2, 3, 4]);
                msg.extend_from_slice(flags);
                msg.extend_from_slice(&[4, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2, 3]);
                for cut in 0..=msg.len() {
                    let (at_once, by_parts) = (header(&msg[..cut]), header_of_short(&msg[..cut]));
                    assert_eq!(at_once, by_parts, "flags {flags:x?}, length {length}, {cut} bytes");
                }
            }
        }
    }
}
