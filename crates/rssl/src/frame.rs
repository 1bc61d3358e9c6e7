//! Frame headers, usable without a session.
//!
//! A frame is `length (2, its own bytes too) flags (1)` and, with [`flag::EXTENDED`], one byte of extended flags; then the payload.
//! Everything is big-endian.

/// Bytes of the length and the flags.
pub const HEADER: usize = 3;

/// Longest frame that the two length bytes can say.
pub const LENGTH_MAX: usize = u16::MAX as usize;

/// The ping of both directions: a data frame without payload.
pub const PING: [u8; HEADER] = [0, HEADER as u8, flag::DATA];

/// Bits of the flag byte.
pub mod flag {
    /// A byte of extended flags follows.
    pub const EXTENDED: u8 = 0x01;
    /// Data. Not set on compressed frames.
    pub const DATA: u8 = 0x02;
    /// The payload is compressed.
    pub const COMPRESSED: u8 = 0x04;
    /// The compressed payload goes on in the next frame. Alone (in the handshake of version 14): a key frame.
    pub const OVERFLOW: u8 = 0x08;
    /// The client's public value follows; the same bit as [`OVERFLOW`].
    pub const KEY: u8 = 0x08;
    /// The payload is a row of messages, each with two bytes of length.
    pub const PACKED: u8 = 0x10;
    /// In a connect answer: compression is forced.
    pub const FORCED: u8 = 0x80;
}

/// Bits of the extended flag byte.
pub mod extended {
    /// Connect answer.
    pub const ACK: u8 = 0x01;
    /// Refusal.
    pub const NAK: u8 = 0x02;
    /// A fragment after the first.
    pub const FRAGMENT: u8 = 0x04;
    /// The first fragment.
    pub const FIRST_FRAGMENT: u8 = 0x08;
}

/// Length of the frame that `bytes` begins with: `None` if that takes more bytes to tell.
///
/// # Errors
/// A length below [`HEADER`] is no frame.
#[inline]
pub fn length(bytes: &[u8]) -> Result<Option<usize>, &'static str> {
    match bytes {
        [high, low, ..] => {
            let length = usize::from(*high) << 8 | usize::from(*low);
            if length < HEADER { Err("frame length is below 3") } else { Ok(Some(length)) }
        }
        _ => Ok(None),
    }
}

/// The contents of a frame of an established session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: a ping.
    Ping,
    /// One message (or, after an overflowing frame, the rest of its compressed payload).
    Data,
    /// Several messages.
    Packed,
    /// The beginning of a message.
    FirstFragment {
        /// Bytes of the whole message, without any headers.
        total: u32,
        /// Fragment id; in versions 11 and 12 up to 255.
        id: u16,
    },
    /// More of a message.
    NextFragment {
        /// Fragment id.
        id: u16,
    },
}

/// A frame of an established session, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its contents.
    pub kind: Kind,
    /// The payload is compressed.
    pub compressed: bool,
    /// The compressed payload goes on in the next frame.
    pub overflows: bool,
    /// The bytes behind the headers, as on the wire.
    pub payload: &'a [u8],
}

/// Takes a whole frame of an established session apart. `wide_fragment_ids` as in [`Version::wide_fragment_ids`].
///
/// # Errors
/// Says what is wrong with the headers.
///
/// [`Version::wide_fragment_ids`]: crate::Version::wide_fragment_ids
pub fn parse(frame: &[u8], wide_fragment_ids: bool) -> Result<Frame<'_>, &'static str> {
    let (header, rest) = frame.split_at_checked(HEADER).ok_or("frame is shorter than its header")?;
    let flags = header[2];
    let compressed = flags & flag::COMPRESSED != 0;
    let overflows = flags & flag::OVERFLOW != 0;
    if rest.is_empty() {
        return Ok(Frame { kind: Kind::Ping, compressed: false, overflows: false, payload: rest });
    }
    if flags & (flag::DATA | flag::COMPRESSED | flag::PACKED) == 0 || (overflows && !compressed) {
        return Err("frame flags that do not occur in a session");
    }
    if flags & flag::EXTENDED == 0 {
        let kind = if flags & flag::PACKED != 0 { Kind::Packed } else { Kind::Data };
        return Ok(Frame { kind, compressed, overflows, payload: rest });
    }
    let mut at = Fields { bytes: rest, what: "fragment header is cut off" };
    let kind = match at.u8()? {
        extended::FIRST_FRAGMENT => {
            let total = at.u32()?;
            Kind::FirstFragment { total, id: at.fragment_id(wide_fragment_ids)? }
        }
        extended::FRAGMENT => Kind::NextFragment { id: at.fragment_id(wide_fragment_ids)? },
        _ => return Err("extended frame flags that do not occur in a session"),
    };
    Ok(Frame { kind, compressed, overflows, payload: at.bytes })
}

/// Messages of a frame that are told of together before they come: enough that their memory has come when they do, and no more than the processor can ask
/// for at a time.
pub(crate) const TOGETHER: usize = 16;

/// Messages of a frame that are told of before they come; what is not one is passed over.
pub type Ahead<'p, 'm> = std::iter::Flatten<std::iter::Take<&'p mut Packed<'m>>>;

/// The messages of an uncompressed packed payload, in order.
///
/// Ends at an empty entry, as ETA does; a cut-off entry is the iterator's last item, an `Err`.
#[derive(Debug, Clone)]
pub struct Packed<'a>(&'a [u8]);

impl<'a> Packed<'a> {
    /// Over the payload of a packed frame.
    #[inline]
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Self {
        Self(payload)
    }

    /// So many messages as are told of together.
    #[inline]
    pub(crate) fn tell_ahead(&mut self) -> Ahead<'_, 'a> {
        self.take(TOGETHER).flatten()
    }
}

impl<'a> Iterator for Packed<'a> {
    type Item = Result<&'a [u8], &'static str>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self.0 {
            [] | [0, 0, ..] => None,
            [high, low, rest @ ..] => {
                let length = usize::from(*high) << 8 | usize::from(*low);
                let Some((message, rest)) = rest.split_at_checked(length) else {
                    self.0 = &[];
                    return Some(Err("packed message is longer than its frame"));
                };
                self.0 = rest;
                Some(Ok(message))
            }
            [_] => {
                self.0 = &[];
                Some(Err("packed frame ends within a message length"))
            }
        }
    }
}

/// Reads header fields; every error is `what`.
pub(crate) struct Fields<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) what: &'static str,
}

impl<'a> Fields<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(self.what)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or(self.what)?;
        self.bytes = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, &'static str> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, &'static str> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, &'static str> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, &'static str> {
        self.array().map(u64::from_be_bytes)
    }

    /// Bytes with one byte of length before them.
    pub(crate) fn short_bytes(&mut self) -> Result<&'a [u8], &'static str> {
        let length = self.u8()?;
        self.take(usize::from(length))
    }

    fn fragment_id(&mut self, wide: bool) -> Result<u16, &'static str> {
        if wide { self.u16() } else { self.u8().map(u16::from) }
    }
}
/// Whether frames begin here, in a recording from its middle on: all that are whole are good ones, and one of them says so by what is in
/// it. `is_message` tells whether bytes are a message.
pub fn begins_frames(mut bytes: &[u8], is_message: impl Fn(&[u8]) -> bool) -> bool {
    let mut is_sure = false;
    while let Some(length) = length(bytes).ok().flatten().filter(|length| *length <= bytes.len()) {
        let Ok(frame) = parse(&bytes[..length], true) else { return false };
        is_sure |= match frame.kind {
            _ if frame.compressed => false,
            Kind::Ping | Kind::NextFragment { .. } => false,
            Kind::FirstFragment { total, .. } => total as usize > frame.payload.len(),
            Kind::Data if is_message(frame.payload) => true,
            Kind::Packed if Packed::new(frame.payload).all(|part| part.is_ok_and(&is_message)) => true,
            Kind::Data | Kind::Packed => return false,
        };
        bytes = &bytes[length..];
    }
    is_sure && length(bytes).is_ok()
}
