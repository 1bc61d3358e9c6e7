//! LBMC, the message layer: what datagrams and streams carry.

use super::header::{ExtensionOption, Fragment, Header};
use super::{Full, Reader, WireError, Writer, invalid, truncated};

/// Bytes of a data message before its extension headers.
pub const DATA_HEADER: usize = 12;
/// Bytes of a control message before its extension headers.
pub const CONTROL_HEADER: usize = 4;
/// Bytes that a fragmented message has before its data.
pub const FRAGMENT_HEADER: usize = DATA_HEADER + 16;
/// The longest message on the wire, all headers included.
pub const MESSAGE_MAX: usize = 65_535;

/// Ends a chain of extension headers: the payload follows.
pub const NEXT_DATA: u8 = 0x00;
/// Ends a chain of extension headers: nothing follows.
pub const NEXT_NONE: u8 = 0xFF;

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message of a topic.
    Message,
    /// End of transport session; known to Wireshark, not sent.
    EndOfTransport,
    /// A message sent again before anyone asked.
    ProactiveRetransmission,
    /// Extension headers without a message.
    Control,
    /// A message sent again by late join or off-transport recovery.
    Retransmission,
}

impl Kind {
    const fn bits(self) -> u8 {
        match self {
            Self::Message => 0x0,
            Self::EndOfTransport => 0x1,
            Self::ProactiveRetransmission => 0x2,
            Self::Control => 0x8,
            Self::Retransmission => 0xA,
        }
    }

    const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0x0 => Self::Message,
            0x1 => Self::EndOfTransport,
            0x2 => Self::ProactiveRetransmission,
            0x8 => Self::Control,
            0xA => Self::Retransmission,
            _ => return None,
        })
    }

    /// Whether messages of this kind have a topic index and a sequence number.
    pub const fn has_topic(self) -> bool {
        matches!(self, Self::Message | Self::ProactiveRetransmission | Self::Retransmission)
    }
}

/// One message, or one fragment of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it is for.
    pub kind: Kind,
    /// Topic within the transport session; 0 where the kind has none.
    pub topic: u32,
    /// Counts messages and fragments of the topic; 0 where the kind has none.
    pub sqn: u32,
    /// Code of the first extension header, [`NEXT_DATA`] or [`NEXT_NONE`].
    pub next: u8,
    /// Everything after the base header: extension headers, then payload.
    pub tail: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads one message at the beginning of `bytes` and says how long it is.
    ///
    /// # Errors
    /// Not a message, or a length that `bytes` do not have.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<(Self, usize), WireError> {
        let &[version_type, next, high, low, ..] = bytes else { return Err(truncated("LBMC header", 0)) };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let message = bytes.get(..length).ok_or(truncated("LBMC message", 0))?;
        // The common case first: version 0, an ordinary message.
        let kind = if version_type == 0 {
            Kind::Message
        } else if version_type >> 4 != 0 {
            return Err(invalid("LBMC version", 0));
        } else {
            Kind::from_bits(version_type).ok_or(invalid("LBMC message type", 0))?
        };
        if !kind.has_topic() {
            let tail = message.get(CONTROL_HEADER..).ok_or(invalid("LBMC message length", 2))?;
            return Ok((Self { kind, topic: 0, sqn: 0, next, tail }, length));
        }
        let &[_, _, _, _, t0, t1, t2, t3, s0, s1, s2, s3, ref tail @ ..] = message else {
            return Err(invalid("LBMC message length", 2));
        };
        let (topic, sqn) = (u32::from_be_bytes([t0, t1, t2, t3]), u32::from_be_bytes([s0, s1, s2, s3]));
        Ok((Self { kind, topic, sqn, next, tail }, length))
    }

    /// The message at the beginning of `bytes` if it is of the kind that most are: one of a topic, without extension headers. `None`
    /// says no more than that [`Message::decode`] has to look.
    #[inline]
    pub fn plain(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let (head, _) = bytes.split_first_chunk::<DATA_HEADER>()?;
        let &[v, n, l0, l1, t0, t1, t2, t3, s0, s1, s2, s3] = head;
        // Version and type, and the code of what follows, are 0; then the whole word is the length.
        let length = u32::from_be_bytes([v, n, l0, l1]) as usize;
        if length > MESSAGE_MAX {
            return None;
        }
        let tail = bytes.get(DATA_HEADER..length)?;
        let (topic, sqn) = (u32::from_be_bytes([t0, t1, t2, t3]), u32::from_be_bytes([s0, s1, s2, s3]));
        Some((Self { kind: Kind::Message, topic, sqn, next: NEXT_DATA, tail }, length))
    }

    /// The extension headers, in order.
    #[inline]
    pub fn headers(&self) -> Headers<'a> {
        Headers { next: self.next, rest: self.tail, at: self.base_length(), failed: false }
    }

    /// Goes over the extension headers and finds the payload.
    ///
    /// # Errors
    /// A broken chain, or a header that is unknown and must not be ignored.
    #[inline]
    pub fn content(&self) -> Result<Content<'a>, WireError> {
        if self.next == NEXT_DATA {
            return Ok(Content { payload: self.tail, fragment: None, properties: 0 });
        }
        self.content_of_chain()
    }

    fn content_of_chain(&self) -> Result<Content<'a>, WireError> {
        let (mut fragment, mut properties) = (None, 0);
        let mut headers = self.headers();
        for header in &mut headers {
            let at = headers_at(self, &header);
            match header? {
                Header::Fragment(f) => fragment = Some(f),
                Header::ApplicationChain(chain) => properties = chain.properties_length().unwrap_or(0),
                Header::Unknown { body, .. } if body.first().is_none_or(|flags| flags & 0x80 == 0) => {
                    return Err(invalid("LBMC header that may not be ignored", at));
                }
                // Neither the option nor its subtype may be ignored, and it is not ours.
                Header::Option(option) if option.subtype != ExtensionOption::QUOTEWAY && option.flags & 0xC0 == 0 => {
                    return Err(invalid("LBMC option that may not be ignored", at));
                }
                _ => {}
            }
        }
        Ok(Content { payload: headers.payload(), fragment, properties })
    }

    const fn base_length(&self) -> usize {
        if self.kind.has_topic() { DATA_HEADER } else { CONTROL_HEADER }
    }

    /// Writes the message with its tail as it is.
    ///
    /// # Errors
    /// It does not fit, or is longer than [`MESSAGE_MAX`].
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        let length = u16::try_from(self.base_length() + self.tail.len()).map_err(|_| Full)?;
        w.u8(self.kind.bits())?;
        w.u8(self.next)?;
        w.u16(length)?;
        if self.kind.has_topic() {
            w.u32(self.topic)?;
            w.u32(self.sqn)?;
        }
        w.bytes(self.tail)
    }
}

fn headers_at(message: &Message<'_>, header: &Result<Header<'_>, WireError>) -> usize {
    match header {
        Err(WireError::Truncated { offset, .. } | WireError::Invalid { offset, .. }) => *offset,
        Ok(_) => message.base_length(),
    }
}

/// What a receiver needs of a message beyond its topic and sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content<'a> {
    /// The data, properties included.
    pub payload: &'a [u8],
    /// Set if the payload is a part of a longer message.
    pub fragment: Option<Fragment>,
    /// Bytes of message properties at the end of the whole message.
    pub properties: u32,
}

/// Goes over the messages of a datagram.
///
/// Up to three bytes at the end are passed over, as Wireshark does; everything else has to be messages.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Messages<'a> {
    /// The messages that lie in `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// What was not read yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Passes over so many bytes, which are whole messages.
    #[inline]
    pub fn skip_bytes(&mut self, count: usize) {
        self.at += count;
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, WireError>;

    /// After an error there is nothing more: where the next message begins is unknown.
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..)?;
        if rest.len() < CONTROL_HEADER {
            return None;
        }
        match Message::decode(rest) {
            Ok((message, length)) => {
                self.at += length;
                Some(Ok(message))
            }
            Err(error) => {
                let at = core::mem::replace(&mut self.at, self.bytes.len());
                Some(Err(error.shifted(at)))
            }
        }
    }
}

/// Goes over the extension headers of a message. Offsets of errors count from the message.
#[derive(Clone, Debug)]
pub struct Headers<'a> {
    next: u8,
    rest: &'a [u8],
    at: usize,
    failed: bool,
}

impl<'a> Headers<'a> {
    /// What follows the chain: the payload once all headers are read. Empty if the chain ended with [`NEXT_NONE`].
    pub fn payload(&self) -> &'a [u8] {
        if self.failed || self.next == NEXT_NONE { &[] } else { self.rest }
    }

    /// The headers that were not read yet, as they lie on the wire, and the code of the first: what [`Headers::of_encoded`] takes.
    pub fn encoded(&self) -> (u8, &'a [u8]) {
        let mut rest = self.clone();
        while let Some(Ok(_)) = rest.next() {}
        (self.next, &self.rest[..self.rest.len() - rest.rest.len()])
    }

    /// Headers that were kept apart from their message.
    pub fn of_encoded(next: u8, chain: &'a [u8]) -> Self {
        Self { next, rest: chain, at: 0, failed: false }
    }

    /// The code that ended the chain, once all headers are read.
    pub fn end(&self) -> u8 {
        self.next
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Result<Header<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.next == NEXT_DATA || self.next == NEXT_NONE {
            return None;
        }
        let mut r = Reader::new("LBMC extension header", self.rest, 0);
        let mut read = || {
            let next = r.u8()?;
            let length = usize::from(r.u8()?).checked_sub(2).ok_or(invalid("LBMC extension header length", 1))?;
            Ok((next, Header::decode(self.next, r.take(length)?)?))
        };
        match read() {
            Ok((next, header)) => {
                self.next = next;
                self.rest = &self.rest[r.at()..];
                self.at += r.at();
                Some(Ok(header))
            }
            Err(error) => {
                self.failed = true;
                Some(Err(WireError::shifted(error, self.at)))
            }
        }
    }
}

/// Writes a message with extension headers, ended by `last` ([`NEXT_DATA`], or [`NEXT_NONE`] in control messages).
///
/// # Errors
/// It does not fit, or is longer than [`MESSAGE_MAX`]. What was begun stays in the writer.
pub fn encode(
    w: &mut Writer<'_>,
    kind: Kind,
    topic: u32,
    sqn: u32,
    headers: &[Header<'_>],
    last: u8,
    payload: &[u8],
) -> Result<(), Full> {
    let start = w.position();
    w.u8(kind.bits())?;
    w.u8(headers.first().map_or(last, Header::code))?;
    w.u16(0)?;
    if kind.has_topic() {
        w.u32(topic)?;
        w.u32(sqn)?;
    }
    for (i, header) in headers.iter().enumerate() {
        header.encode(w, headers.get(i + 1).map_or(last, Header::code))?;
    }
    w.bytes(payload)?;
    let length = u16::try_from(w.position() - start).map_err(|_| Full)?;
    w.patch_u16(start + 2, length);
    Ok(())
}

/// Writes a control message.
///
/// # Errors
/// It does not fit.
pub fn encode_control(w: &mut Writer<'_>, headers: &[Header<'_>]) -> Result<(), Full> {
    encode(w, Kind::Control, 0, 0, headers, NEXT_NONE, &[])
}

/// The base header of an unfragmented data message.
#[inline]
pub fn data_header(length: u16, topic: u32, sqn: u32) -> [u8; DATA_HEADER] {
    // Spelled out: calls that copy slices are not always inlined, and this is written for each message.
    let ([a, b], [c, d, e, f], [g, h, i, j]) = (length.to_be_bytes(), topic.to_be_bytes(), sqn.to_be_bytes());
    [0, 0, a, b, c, d, e, f, g, h, i, j]
}

/// Base header and fragment header of a part of a message.
#[inline]
pub fn fragment_header(length: u16, topic: u32, sqn: u32, fragment: Fragment) -> [u8; FRAGMENT_HEADER] {
    let mut header = [0; FRAGMENT_HEADER];
    header[..DATA_HEADER].copy_from_slice(&data_header(length, topic, sqn));
    header[1] = super::header::code::FRAGMENT;
    header[13] = 16;
    header[14..16].copy_from_slice(&fragment.flags.to_be_bytes());
    header[16..20].copy_from_slice(&fragment.first_sqn.to_be_bytes());
    header[20..24].copy_from_slice(&fragment.offset.to_be_bytes());
    header[24..28].copy_from_slice(&fragment.total.to_be_bytes());
    header
}
