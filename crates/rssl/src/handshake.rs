//! The four frames of the handshake as data: connect request, connect answer, refusal, key.
//!
//! Decoding borrows and never panics. The layouts, by connection version, are in `docs/wire/rssl.md`.

use crate::config::{Compression, CompressionSet, Version};
use crate::frame::{Fields, HEADER, extended, flag};
use crate::key::KEY_SIZE;
pub use crate::key::KeyBlock;

/// Longest frame that a handshake may have, bytes: over everything that the length bytes inside can add up to. A peer that speaks
/// something else (HTTP begins with what reads as a length of 18,245) is noticed at its first bytes.
pub const FRAME_MAX: usize = 2048;

/// The text about a longer one.
pub(crate) const TOO_LONG: &str = "frame is too long for a handshake: the peer may be speaking another protocol";

/// A client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectRequest<'a> {
    /// Connection version.
    pub version: Version,
    /// Offers the key exchange (version 14).
    pub key_exchange: bool,
    /// Compressions offered: first byte of the bitmap.
    pub compression: CompressionSet,
    /// Ping timeout, seconds.
    pub ping_timeout_s: u8,
    /// 0 for RWF; 0 in version 11, which cannot say it.
    pub protocol_type: u8,
    /// RWF major version.
    pub major: u8,
    /// RWF minor version.
    pub minor: u8,
    /// Host name.
    pub host: &'a [u8],
    /// IP address as text.
    pub address: &'a [u8],
    /// Component version; empty in versions 11 and 12.
    pub component: &'a [u8],
}

/// Why a connect request cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// The version's number is none of the four.
    UnknownVersion(u32),
    /// The bytes are wrong.
    Malformed(&'static str),
}

impl From<&'static str> for RequestError {
    fn from(what: &'static str) -> Self {
        Self::Malformed(what)
    }
}

impl<'a> ConnectRequest<'a> {
    /// Takes a whole frame.
    ///
    /// # Errors
    /// See [`RequestError`]. The op code in the flag byte is not looked at, as in ETA.
    pub fn decode(frame: &'a [u8]) -> Result<Self, RequestError> {
        let mut at = Fields { bytes: frame, what: "connect request is cut off" };
        at.take(HEADER)?;
        let code = at.u32()?;
        let version = Version::from_request_code(code).ok_or(RequestError::UnknownVersion(code))?;
        let flags = at.u8()?;
        let header_length = usize::from(at.u8()?);
        let bitmap = at.short_bytes()?;
        let ping_timeout_s = at.u8()?;
        at.u8()?; // session flags: the server decides who pings
        let protocol_type = if version == Version::V11 { 0 } else { at.u8()? };
        let major = at.u8()?;
        let minor = at.u8()?;
        let host = at.short_bytes()?;
        let address = at.short_bytes()?;
        let mut length = frame.len();
        if frame.len() == header_length_end(frame, header_length, version) + 2 && frame.ends_with(b"\r\n") {
            length -= 2; // ETA lets browsers' line ends pass
        }
        if length != header_length_end(frame, header_length, version) {
            return Err(RequestError::Malformed("connect request length and header length disagree"));
        }
        let component = if version >= Version::V13 { component(&mut at) } else { &[] };
        Ok(Self {
            version,
            key_exchange: version == Version::V14 && flags & flag::KEY != 0,
            compression: CompressionSet::from_bits(bitmap.first().copied().unwrap_or(0)),
            ping_timeout_s,
            protocol_type,
            major,
            minor,
            host,
            address,
            component,
        })
    }

    /// Appends the frame. Texts over their limits are cut.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = begin(out, 0);
        out.extend_from_slice(&self.version.request_code().to_be_bytes());
        out.push(if self.version == Version::V14 && self.key_exchange { flag::KEY } else { 0 });
        let header_length_at = out.len();
        out.push(0);
        if self.compression == CompressionSet::NONE {
            out.push(0);
        } else {
            out.extend_from_slice(&[1, self.compression.bits()]);
        }
        out.extend_from_slice(&[self.ping_timeout_s, 0]);
        if self.version > Version::V11 {
            out.push(self.protocol_type);
        }
        out.extend_from_slice(&[self.major, self.minor]);
        push_short(out, self.host, HOST_MAX);
        push_short(out, self.address, ADDRESS_MAX);
        out[header_length_at] = (out.len() - start) as u8;
        if self.version >= Version::V13 {
            push_component(out, self.component);
        }
        end(out, start);
    }
}

/// Where the frame must end by its header length: that is the whole frame in versions 11 and 12, and the position of the
/// component version block in the others.
fn header_length_end(frame: &[u8], header_length: usize, version: Version) -> usize {
    if version < Version::V13 {
        return header_length;
    }
    header_length + 1 + frame.get(header_length).map_or(0, |&container| usize::from(container))
}

/// The server's answer when it accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectAck<'a> {
    /// Connection version.
    pub version: Version,
    /// Compression is forced.
    pub forced: bool,
    /// Longest message in one frame, bytes.
    pub max_user_message_size: u16,
    /// The client is to ping.
    pub client_pings: bool,
    /// The server pings.
    pub server_pings: bool,
    /// Ping timeout, seconds.
    pub ping_timeout_s: u8,
    /// RWF major version.
    pub major: u8,
    /// RWF minor version.
    pub minor: u8,
    /// Compression type as on the wire (0 none, 1 zlib, 2 LZ4).
    pub compression: u16,
    /// Compression level.
    pub compression_level: u8,
    /// The key part, if there is one: `Some(None)` for a type other than 1, which stands for no key.
    pub key: Option<Option<KeyBlock>>,
    /// Component version; empty in versions 11 and 12.
    pub component: &'a [u8],
}

/// A server's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The server accepts.
    Ack(ConnectAck<'a>),
    /// The server refuses, with a text (without the NUL at its end).
    Nak(&'a [u8]),
}

impl<'a> Answer<'a> {
    /// Flags and extended flags of a frame are those of an answer, and not of any frame of the session proper.
    #[must_use]
    pub fn is_answer(flags: u8, extended: u8) -> bool {
        flags & !flag::FORCED == flag::EXTENDED && matches!(extended, extended::ACK | extended::NAK)
    }

    /// Takes a whole frame. There is a key part only if the request offered the exchange: nothing in the answer says so for sure.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn decode(frame: &'a [u8], key_offered: bool) -> Result<Self, &'static str> {
        let mut at = Fields { bytes: frame, what: "connect answer is cut off" };
        at.u16()?;
        let flags = at.u8()?;
        if flags & flag::EXTENDED == 0 {
            return Err("neither a connect answer nor a refusal");
        }
        let kind = at.u8()?;
        let header_length = usize::from(at.u8()?);
        at.u8()?;
        if kind & extended::NAK != 0 {
            // ETA reads a text only where the frame has one.
            let length = at.u16().unwrap_or(0);
            let text = at.take(usize::from(length).min(at.bytes.len()))?;
            return Ok(Self::Nak(text.strip_suffix(b"\0").unwrap_or(text)));
        }
        if kind & extended::ACK == 0 {
            return Err("neither a connect answer nor a refusal");
        }
        let version = Version::from_answer_code(at.u32()?).ok_or("connect answer of an unknown version")?;
        at.take(header_length.saturating_sub(ACK_HEADER))?;
        let max_user_message_size = at.u16()?;
        let pings = at.u8()?;
        let mut ack = ConnectAck {
            version,
            forced: flags & flag::FORCED != 0,
            max_user_message_size,
            client_pings: pings & CLIENT_PINGS != 0,
            server_pings: pings & SERVER_PINGS != 0,
            ping_timeout_s: at.u8()?,
            major: at.u8()?,
            minor: at.u8()?,
            compression: at.u16()?,
            compression_level: at.u8()?,
            key: None,
            component: &[],
        };
        if version == Version::V14 && key_offered && at.bytes.first() == Some(&flag::KEY) {
            ack.key = Some(key_part(&mut at)?);
        }
        if version >= Version::V13 {
            ack.component = component(&mut at);
        }
        Ok(Self::Ack(ack))
    }
}

impl ConnectAck<'_> {
    /// The compression that both sides are to use; `None` for an unknown type.
    #[must_use]
    pub fn compression_type(&self) -> Option<Compression> {
        match Compression::from_code(self.compression) {
            // ETA's rule for a server that forces compression and names none.
            Some(Compression::None) if self.forced => Some(Compression::Zlib),
            known => known,
        }
    }

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let forced = if self.forced { flag::FORCED } else { 0 };
        let start = begin(out, flag::EXTENDED | forced);
        out.extend_from_slice(&[extended::ACK, ACK_HEADER as u8, 0]);
        out.extend_from_slice(&self.version.answer_code().to_be_bytes());
        out.extend_from_slice(&self.max_user_message_size.to_be_bytes());
        let client = if self.client_pings { CLIENT_PINGS } else { 0 };
        let server = if self.server_pings { SERVER_PINGS } else { 0 };
        out.extend_from_slice(&[client | server, self.ping_timeout_s, self.major, self.minor]);
        out.extend_from_slice(&self.compression.to_be_bytes());
        out.push(self.compression_level);
        match self.key {
            None => {}
            Some(None) => out.extend_from_slice(&[flag::KEY, 0, 0]),
            Some(Some(key)) => {
                out.extend_from_slice(&[flag::KEY, KEY_TYPE, 3 * KEY_SIZE as u8]);
                for value in [key.modulus, key.generator, key.public] {
                    out.extend_from_slice(&value.to_be_bytes());
                }
            }
        }
        if self.version >= Version::V13 {
            push_component(out, self.component);
        }
        end(out, start);
    }
}

/// Appends a refusal; the text gets its NUL here.
pub fn encode_nak(text: &str, out: &mut Vec<u8>) {
    let text = cut(text.as_bytes(), NAK_TEXT_MAX);
    let start = begin(out, flag::EXTENDED);
    out.extend_from_slice(&[extended::NAK, 8, 0]);
    out.extend_from_slice(&(text.len() as u16 + 1).to_be_bytes());
    out.extend_from_slice(text);
    out.push(0);
    end(out, start);
}

/// Appends the client's key frame; `None` when it has no key to give.
pub fn encode_key(public: Option<u64>, out: &mut Vec<u8>) {
    let start = begin(out, flag::KEY);
    match public {
        None => out.push(0),
        Some(value) => {
            out.push(KEY_SIZE as u8);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
    end(out, start);
}

/// The client's public value in a key frame; `None` in an empty one.
///
/// # Errors
/// Says what is wrong.
pub fn decode_key(frame: &[u8]) -> Result<Option<u64>, &'static str> {
    let mut at = Fields { bytes: frame, what: "key frame is cut off" };
    at.u16()?;
    if at.u8()? & flag::KEY == 0 {
        return Err("a key frame was due");
    }
    match usize::from(at.u8()?) {
        0 => Ok(None),
        KEY_SIZE => at.u64().map(Some),
        _ => Err("key of another length than 8"),
    }
}

fn key_part(at: &mut Fields<'_>) -> Result<Option<KeyBlock>, &'static str> {
    at.u8()?;
    let kind = at.u8()?;
    let block = at.short_bytes()?;
    if kind != KEY_TYPE {
        return Ok(None);
    }
    let mut values = Fields { bytes: block, what: "key block is cut off" };
    let key = KeyBlock { modulus: values.u64()?, generator: values.u64()?, public: values.u64()? };
    if key.modulus < 2 { Err("key exchange with a modulus below 2") } else { Ok(Some(key)) }
}

/// The component version block: a container length, then a length and the text. An empty container is legal, and so is none at all
/// (the raw servers of the test vectors send both).
///
/// Neither length is held against the other, and both end with the frame, as in ETA: the servers of ETA C give the container one
/// byte more than follows.
fn component<'a>(at: &mut Fields<'a>) -> &'a [u8] {
    let [container, length, text @ ..] = at.bytes else { return &[] };
    let text = if *container == 0 { &[] } else { cut(text, usize::from(*length)) };
    at.bytes = &[];
    text
}

fn push_component(out: &mut Vec<u8>, text: &[u8]) {
    let text = cut(text, COMPONENT_MAX);
    out.push(text.len() as u8 + 1);
    push_short(out, text, COMPONENT_MAX);
}

fn push_short(out: &mut Vec<u8>, bytes: &[u8], max: usize) {
    let bytes = cut(bytes, max);
    out.push(bytes.len() as u8);
    out.extend_from_slice(bytes);
}

fn cut(bytes: &[u8], max: usize) -> &[u8] {
    &bytes[..bytes.len().min(max)]
}

fn begin(out: &mut Vec<u8>, flags: u8) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0, 0, flags]);
    start
}

fn end(out: &mut [u8], start: usize) {
    let length = (out.len() - start) as u16;
    out[start..start + 2].copy_from_slice(&length.to_be_bytes());
}

/// Up to the end of the version in a connect answer.
const ACK_HEADER: usize = 10;
const CLIENT_PINGS: u8 = 0x01;
const SERVER_PINGS: u8 = 0x02;

/// The only key exchange there is (`TR_SL1_64` in ETA).
const KEY_TYPE: u8 = 1;

// Together these keep the header length of a connect request within its byte.
const HOST_MAX: usize = 128;
const ADDRESS_MAX: usize = 64;

/// As ETA: container length and text length are one byte each.
const COMPONENT_MAX: usize = 253;
const NAK_TEXT_MAX: usize = 1024;
