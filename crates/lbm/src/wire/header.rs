//! Extension headers of LBMC messages.

use core::net::Ipv4Addr;

use super::{Full, Reader, WireError, Writer, invalid};

/// Codes of the headers that are decoded here; Wireshark knows more, which stay [`Header::Unknown`].
pub mod code {
    /// Part of a longer message.
    pub const FRAGMENT: u8 = 0x01;
    /// Begin or end of an application's batch.
    pub const BATCH: u8 = 0x02;
    /// A message that expects a reply.
    pub const REQUEST: u8 = 0x04;
    /// The topic's name, in immediate messages.
    pub const TOPIC_NAME: u8 = 0x05;
    /// An application header.
    pub const APPLICATION: u8 = 0x06;
    /// A chain of application headers.
    pub const APPLICATION_CHAIN: u8 = 0x07;
    /// Originating transport id.
    pub const ORIGINATING_TRANSPORT: u8 = 0x0B;
    /// Context instance of the destination.
    pub const DESTINATION_INSTANCE: u8 = 0x0C;
    /// Context instance to return to.
    pub const RETURN_INSTANCE: u8 = 0x0D;
    /// Source index.
    pub const SOURCE_INDEX: u8 = 0x0E;
    /// Asks for one retained message.
    pub const RETRANSMIT_REQUEST: u8 = 0x15;
    /// Says which messages are retained.
    pub const LATE_JOIN_INFO: u8 = 0x1E;
    /// Topic sequence number information.
    pub const TOPIC_SQNS: u8 = 0x20;
    /// Own context instance.
    pub const OWN_INSTANCE: u8 = 0x42;
    /// Domain.
    pub const DOMAIN: u8 = 0x43;
    /// Path index.
    pub const PATH_INDEX: u8 = 0x45;
    /// Originating domain.
    pub const ORIGINATING_DOMAIN: u8 = 0x4A;
    /// Stream of a message.
    pub const STREAM: u8 = 0x4B;
    /// Asks which messages are retained.
    pub const LATE_JOIN_REQUEST: u8 = 0x4E;
    /// Signature.
    pub const HMAC: u8 = 0x62;
    /// Topic index.
    pub const TOPIC_INDEX: u8 = 0x65;
    /// Session id, first message of a receiver on TCP.
    pub const SESSION_ID: u8 = 0x6B;
    /// A private option.
    pub const OPTION: u8 = 0xFE;
}

/// The bit of most headers' flags that lets a receiver skip what it does not know.
pub const IGNORE: u16 = 0x8000;

/// A part of a message: its data goes to `offset` of `total` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// [`IGNORE`], or 0: must be understood.
    pub flags: u16,
    /// Topic sequence number of the message's first fragment.
    pub first_sqn: u32,
    /// Where the data belongs.
    pub offset: u32,
    /// Bytes of the whole message.
    pub total: u32,
}

/// A message that expects replies at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// 0x80: ignore.
    pub flags: u8,
    /// 0: TCP.
    pub transport: u8,
    /// Chosen by the requester; comes back with the reply.
    pub index: u32,
    /// TCP port of the requester.
    pub port: u16,
    /// Address of the requester.
    pub address: Ipv4Addr,
}

/// Topic sequence number information: the last message sent on each topic.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TopicSqns<'a> {
    /// [`IGNORE`] and the count.
    pub flags: u16,
    records: &'a [u8],
}

impl<'a> TopicSqns<'a> {
    /// The most records that a header can hold.
    pub const MAX: usize = 31;

    /// From records as they lie on the wire: 8 bytes each, topic index and sequence number.
    pub fn from_records(records: &'a [u8]) -> Self {
        Self { flags: IGNORE | (records.len() / 8) as u16, records }
    }

    /// (topic index, sequence number) pairs.
    pub fn iter(self) -> impl ExactSizeIterator<Item = (u32, u32)> + 'a {
        self.records
            .chunks_exact(8)
            .map(|r| (u32::from_be_bytes([r[0], r[1], r[2], r[3]]), u32::from_be_bytes([r[4], r[5], r[6], r[7]])))
    }
}

impl core::fmt::Debug for TopicSqns<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// A chain of application headers: elements `{next type, length, u16 reserved, ...}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationChain<'a> {
    /// Zero.
    pub reserved: u8,
    /// Type of the first element.
    pub first: u8,
    /// The elements.
    pub elements: &'a [u8],
}

impl<'a> ApplicationChain<'a> {
    /// Type of the element that holds the number of hot failover, 4 or 8 bytes.
    pub const FAILOVER: u8 = 2;
    /// Type of the element that gives the length of the message properties.
    pub const PROPERTIES_LENGTH: u8 = 6;
    /// Ends the chain.
    pub const END: u8 = 0xFF;

    /// (type, body after the reserved bytes) of each element.
    pub fn iter(self) -> impl Iterator<Item = (u8, &'a [u8])> {
        let (mut kind, mut rest) = (self.first, self.elements);
        core::iter::from_fn(move || {
            let &[next, length, _, _, ..] = rest else { return None };
            if kind == Self::END {
                return None;
            }
            let element = rest.get(..usize::from(length))?;
            let body = element.get(4..)?;
            rest = &rest[element.len()..];
            Some((core::mem::replace(&mut kind, next), body))
        })
    }

    /// Bytes of message properties at the end of the message.
    pub fn properties_length(self) -> Option<u32> {
        let (_, body) = self.iter().find(|(kind, _)| *kind == Self::PROPERTIES_LENGTH)?;
        Some(u32::from_be_bytes(body.get(..4)?.try_into().ok()?))
    }

    /// The number of hot failover, big-endian: 4 bytes of 32 bits, 8 of 64.
    pub fn failover_number(self) -> Option<&'a [u8]> {
        self.iter().find(|(kind, _)| *kind == Self::FAILOVER).map(|(_, body)| body)
    }

    /// The element of message properties.
    pub fn properties_element(length: u32) -> [u8; 8] {
        let [a, b, c, d] = length.to_be_bytes();
        [Self::END, 8, 0, 0, a, b, c, d]
    }
}

/// A private option: what LBM has no header for. Wireshark shows it as opaque bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtensionOption<'a> {
    /// 0x80 ignore, 0x40 ignore the subtype, 0x20 more fragments of the option follow.
    pub flags: u8,
    /// Pairs the fragments of an option.
    pub id: u8,
    /// What the data is; [`ExtensionOption::QUOTEWAY`] is ours.
    pub subtype: u16,
    /// Where this fragment's data belongs.
    pub offset: u16,
    /// The data.
    pub data: &'a [u8],
}

impl ExtensionOption<'_> {
    /// Flags of an option that receivers may pass over, whatever its subtype.
    pub const IGNORE: u8 = 0xC0;
    /// The subtype of our own options.
    pub const QUOTEWAY: u16 = 0x5157;
}

/// A receiver asks which messages a source retains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateJoinRequest {
    /// [`IGNORE`]; 1 `low_sqn`, 2 `requests_max`, 4 `outstanding_max` present.
    pub flags: u16,
    /// Chosen by the requester.
    pub request: u32,
    /// Transport index of the advertisement's late-join option.
    pub transport: u32,
    /// Topic.
    pub topic: u32,
    /// Where to answer.
    pub address: Ipv4Addr,
    /// Where to answer.
    pub port: u16,
    /// First message wanted.
    pub low_sqn: u32,
    /// How many messages at most, 0 = all.
    pub requests_max: u32,
    /// How many at a time.
    pub outstanding_max: u32,
}

/// A source says which messages it retains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateJoinInfo {
    /// [`IGNORE`].
    pub flags: u16,
    /// Oldest.
    pub low_sqn: u32,
    /// Newest.
    pub high_sqn: u32,
    /// The number of the request.
    pub request: u32,
}

/// A receiver asks for one message again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetransmitRequest {
    /// [`IGNORE`]; 0x4000 asks for topic sequence number information instead.
    pub flags: u16,
    /// Chosen by the requester.
    pub request: u32,
    /// Transport index of the advertisement's late-join option.
    pub transport: u32,
    /// Topic.
    pub topic: u32,
    /// The message.
    pub sqn: u32,
    /// Where to send it.
    pub port: u16,
    /// Where to send it.
    pub address: Ipv4Addr,
}

impl RetransmitRequest {
    /// Flag: send the topic's sequence number information, not a message.
    pub const TOPIC_SQNS: u16 = 0x4000;
}

/// An extension header. Those that no part of this crate interprets beyond their fields have the wire's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of these are named by the format")]
pub enum Header<'a> {
    Fragment(Fragment),
    /// 2 begins, 1 ends a batch.
    Batch {
        flags: u16,
    },
    Request(Request),
    /// The name ends with a NUL.
    TopicName {
        flags: u16,
        name: &'a [u8],
    },
    /// The low 15 bits of `flags` are the application's code.
    Application {
        flags: u16,
        data: &'a [u8],
    },
    ApplicationChain(ApplicationChain<'a>),
    OriginatingTransport {
        flags: u16,
        id: [u8; 32],
    },
    /// Destination, return or own context instance, by code.
    Instance {
        code: u8,
        flags: u16,
        instance: [u8; 8],
    },
    /// Source or path index, by code.
    Index {
        code: u8,
        flags: u16,
        index: u64,
    },
    /// Domain or originating domain, by code.
    Domain {
        code: u8,
        flags: u16,
        domain: u32,
    },
    Stream {
        flags: u16,
        stream: u32,
        sqn: u32,
        instance: [u8; 8],
    },
    Hmac {
        flags: u8,
        pad: u8,
        digest: [u8; 20],
    },
    TopicIndex {
        flags: u16,
        index: u32,
    },
    SessionId {
        flags: u16,
        id: u32,
    },
    TopicSqns(TopicSqns<'a>),
    LateJoinRequest(LateJoinRequest),
    LateJoinInfo(LateJoinInfo),
    RetransmitRequest(RetransmitRequest),
    Option(ExtensionOption<'a>),
    /// Any other code, or one of the above that is longer than we know it and may be ignored; if the top bit of its first byte is
    /// clear it must not be.
    Unknown {
        code: u8,
        body: &'a [u8],
    },
}

impl<'a> Header<'a> {
    /// The code that the header before it names.
    pub fn code(&self) -> u8 {
        match *self {
            Self::Fragment(_) => code::FRAGMENT,
            Self::Batch { .. } => code::BATCH,
            Self::Request(_) => code::REQUEST,
            Self::TopicName { .. } => code::TOPIC_NAME,
            Self::Application { .. } => code::APPLICATION,
            Self::ApplicationChain(_) => code::APPLICATION_CHAIN,
            Self::OriginatingTransport { .. } => code::ORIGINATING_TRANSPORT,
            Self::Instance { code, .. }
            | Self::Index { code, .. }
            | Self::Domain { code, .. }
            | Self::Unknown { code, .. } => code,
            Self::Stream { .. } => code::STREAM,
            Self::Hmac { .. } => code::HMAC,
            Self::TopicIndex { .. } => code::TOPIC_INDEX,
            Self::SessionId { .. } => code::SESSION_ID,
            Self::TopicSqns(_) => code::TOPIC_SQNS,
            Self::LateJoinRequest(_) => code::LATE_JOIN_REQUEST,
            Self::LateJoinInfo(_) => code::LATE_JOIN_INFO,
            Self::RetransmitRequest(_) => code::RETRANSMIT_REQUEST,
            Self::Option(_) => code::OPTION,
        }
    }

    /// Reads the body of a header, without its two common bytes. Offsets of errors count from the header.
    pub(crate) fn decode(code: u8, body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new("LBMC extension header", body, 0);
        let header = Self::decode_fields(code, &mut r).map_err(|e| e.shifted(2))?;
        if r.rest().is_empty() {
            return Ok(header);
        }
        // Another version's. What is a part of a message must not be taken for a whole one.
        let ignorable = body.first().is_some_and(|flags| flags & 0x80 != 0) && code != code::FRAGMENT;
        if ignorable { Ok(Self::Unknown { code, body }) } else { Err(invalid("LBMC extension header length", 1)) }
    }

    fn decode_fields(code: u8, r: &mut Reader<'a>) -> Result<Self, WireError> {
        Ok(match code {
            code::FRAGMENT => {
                Self::Fragment(Fragment { flags: r.u16()?, first_sqn: r.u32()?, offset: r.u32()?, total: r.u32()? })
            }
            code::BATCH => Self::Batch { flags: r.u16()? },
            code::REQUEST => Self::Request(Request {
                flags: r.u8()?,
                transport: r.u8()?,
                index: r.u32()?,
                port: (r.u16()?, r.u16()?).0,
                address: r.address()?,
            }),
            code::TOPIC_NAME => Self::TopicName { flags: r.u16()?, name: r.rest() },
            code::APPLICATION => Self::Application { flags: r.u16()?, data: r.rest() },
            code::APPLICATION_CHAIN => {
                Self::ApplicationChain(ApplicationChain { reserved: r.u8()?, first: r.u8()?, elements: r.rest() })
            }
            code::ORIGINATING_TRANSPORT => Self::OriginatingTransport { flags: r.u16()?, id: r.array()? },
            code::DESTINATION_INSTANCE | code::RETURN_INSTANCE | code::OWN_INSTANCE => {
                Self::Instance { code, flags: r.u16()?, instance: r.array()? }
            }
            code::SOURCE_INDEX | code::PATH_INDEX => Self::Index { code, flags: r.u16()?, index: r.u64()? },
            code::DOMAIN | code::ORIGINATING_DOMAIN => Self::Domain { code, flags: r.u16()?, domain: r.u32()? },
            code::STREAM => Self::Stream { flags: r.u16()?, stream: r.u32()?, sqn: r.u32()?, instance: r.array()? },
            code::HMAC => Self::Hmac { flags: r.u8()?, pad: r.u8()?, digest: r.array()? },
            code::TOPIC_INDEX => Self::TopicIndex { flags: r.u16()?, index: r.u32()? },
            code::SESSION_ID => Self::SessionId { flags: r.u16()?, id: r.u32()? },
            code::TOPIC_SQNS => {
                let (flags, records) = (r.u16()?, r.rest());
                if records.len() % 8 != 0 {
                    return Err(invalid("TSNI record list", 4));
                }
                Self::TopicSqns(TopicSqns { flags, records })
            }
            code::LATE_JOIN_REQUEST => Self::LateJoinRequest(LateJoinRequest {
                flags: r.u16()?,
                request: r.u32()?,
                transport: r.u32()?,
                topic: r.u32()?,
                address: r.address()?,
                port: (r.u16()?, r.u16()?).0,
                low_sqn: r.u32()?,
                requests_max: r.u32()?,
                outstanding_max: r.u32()?,
            }),
            code::LATE_JOIN_INFO => Self::LateJoinInfo(LateJoinInfo {
                flags: r.u16()?,
                low_sqn: r.u32()?,
                high_sqn: r.u32()?,
                request: r.u32()?,
            }),
            code::RETRANSMIT_REQUEST => Self::RetransmitRequest(RetransmitRequest {
                flags: r.u16()?,
                request: r.u32()?,
                transport: r.u32()?,
                topic: r.u32()?,
                sqn: r.u32()?,
                port: (r.u16()?, r.u16()?).0,
                address: r.address()?,
            }),
            code::OPTION => Self::Option(ExtensionOption {
                flags: r.u8()?,
                id: r.u8()?,
                subtype: r.u16()?,
                offset: r.u16()?,
                data: r.rest(),
            }),
            _ => Self::Unknown { code, body: r.rest() },
        })
    }

    /// Writes the header; `next` is the code of the one after it.
    ///
    /// # Errors
    /// It does not fit, or is longer than 255 bytes. What was begun stays in the writer.
    pub fn encode(&self, w: &mut Writer<'_>, next: u8) -> Result<(), Full> {
        let start = w.position();
        w.u8(next)?;
        w.u8(0)?;
        self.encode_fields(w)?;
        let length = u8::try_from(w.position() - start).map_err(|_| Full)?;
        w.patch_u8(start + 1, length);
        Ok(())
    }

    fn encode_fields(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        match *self {
            Self::Fragment(f) => {
                w.u16(f.flags)?;
                w.u32(f.first_sqn)?;
                w.u32(f.offset)?;
                w.u32(f.total)
            }
            Self::Batch { flags } => w.u16(flags),
            Self::Request(q) => {
                w.u8(q.flags)?;
                w.u8(q.transport)?;
                w.u32(q.index)?;
                w.u16(q.port)?;
                w.u16(0)?;
                w.bytes(&q.address.octets())
            }
            Self::TopicName { flags, name: data } | Self::Application { flags, data } => {
                w.u16(flags)?;
                w.bytes(data)
            }
            Self::ApplicationChain(chain) => {
                w.u8(chain.reserved)?;
                w.u8(chain.first)?;
                w.bytes(chain.elements)
            }
            Self::OriginatingTransport { flags, id } => {
                w.u16(flags)?;
                w.bytes(&id)
            }
            Self::Instance { flags, instance, .. } => {
                w.u16(flags)?;
                w.bytes(&instance)
            }
            Self::Index { flags, index, .. } => {
                w.u16(flags)?;
                w.u64(index)
            }
            Self::Domain { flags, domain: value, .. }
            | Self::TopicIndex { flags, index: value }
            | Self::SessionId { flags, id: value } => {
                w.u16(flags)?;
                w.u32(value)
            }
            Self::Stream { flags, stream, sqn, instance } => {
                w.u16(flags)?;
                w.u32(stream)?;
                w.u32(sqn)?;
                w.bytes(&instance)
            }
            Self::Hmac { flags, pad, digest } => {
                w.u8(flags)?;
                w.u8(pad)?;
                w.bytes(&digest)
            }
            Self::TopicSqns(sqns) => {
                w.u16(sqns.flags)?;
                w.bytes(sqns.records)
            }
            Self::LateJoinRequest(q) => {
                w.u16(q.flags)?;
                w.u32(q.request)?;
                w.u32(q.transport)?;
                w.u32(q.topic)?;
                w.bytes(&q.address.octets())?;
                w.u16(q.port)?;
                w.u16(0)?;
                w.u32(q.low_sqn)?;
                w.u32(q.requests_max)?;
                w.u32(q.outstanding_max)
            }
            Self::LateJoinInfo(info) => {
                w.u16(info.flags)?;
                w.u32(info.low_sqn)?;
                w.u32(info.high_sqn)?;
                w.u32(info.request)
            }
            Self::RetransmitRequest(q) => {
                w.u16(q.flags)?;
                w.u32(q.request)?;
                w.u32(q.transport)?;
                w.u32(q.topic)?;
                w.u32(q.sqn)?;
                w.u16(q.port)?;
                w.u16(0)?;
                w.bytes(&q.address.octets())
            }
            Self::Option(option) => {
                w.u8(option.flags)?;
                w.u8(option.id)?;
                w.u16(option.subtype)?;
                w.u16(option.offset)?;
                w.bytes(option.data)
            }
            Self::Unknown { body, .. } => w.bytes(body),
        }
    }
}
