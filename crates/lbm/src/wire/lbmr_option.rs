//! Options of advertisements and of whole topic-resolution packets.

use core::net::Ipv4Addr;

use super::{Full, Reader, WireError, Writer, invalid};

/// Flag: the option may be ignored by who does not know it.
pub const IGNORE: u16 = 0x8000;

/// Where a source answers late-join requests, and what it retained when it advertised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateJoin {
    /// 0x4000: acknowledgements go to the source.
    pub flags: u16,
    /// TCP port of the source.
    pub port: u16,
    /// Address of the source.
    pub address: Ipv4Addr,
    /// Names the transport session in requests.
    pub transport: u32,
    /// Newest retained message.
    pub high_sqn: u32,
    /// Oldest retained message.
    pub low_sqn: u32,
}

/// Where a source takes requests, and what it can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Functionality {
    /// [`IGNORE`].
    pub flags: u16,
    /// TCP port of the source.
    pub port: u16,
    /// Address of the source.
    pub address: Ipv4Addr,
    /// [`Functionality::LATE_JOIN`] and others.
    pub functions: u32,
}

impl Functionality {
    /// The source retains messages for late joiners.
    pub const LATE_JOIN: u32 = 1;
    /// The source persists messages.
    pub const PERSISTENCE: u32 = 2;
    /// The source assigns its messages to receivers.
    pub const QUEUING: u32 = 8;
}

/// A source assigns its messages to receivers, which register at its request port: queuing by load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// [`IGNORE`].
    pub flags: u16,
    /// Of a broker's queue; 0.
    pub queue: u32,
    /// Of a source at a broker; 0.
    pub reg_id: u64,
    /// The source's id in headers of queuing.
    pub source: u32,
    /// Address of the source.
    pub address: Ipv4Addr,
    /// TCP port of the source.
    pub port: u16,
}

/// An option of one advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of these are named by the format")]
pub enum TopicOption<'a> {
    LateJoin(LateJoin),
    Cost {
        flags: u8,
        hops: u8,
        cost: u32,
    },
    /// Originating transport id, 32 bytes.
    Origin {
        flags: u16,
        id: [u8; 32],
    },
    Instance {
        flags: u8,
        reserved: u8,
        instance: [u8; 8],
    },
    Domain {
        flags: u16,
        domain: u32,
    },
    Functionality(Functionality),
    Queue(Queue),
    /// Everything else (persistence, brokers), and the ones above in a form of another version.
    Unknown {
        code: u8,
        body: &'a [u8],
    },
}

const LATE_JOIN: u8 = 4;
const COST: u8 = 7;
const ORIGIN: u8 = 8;
const INSTANCE: u8 = 9;
const QUEUE: u8 = 11;
const DOMAIN: u8 = 13;
const FUNCTIONALITY: u8 = 14;

impl<'a> TopicOption<'a> {
    /// An option that cannot be read costs nothing but itself: the advertisement and those around it count.
    fn decode(code: u8, body: &'a [u8]) -> Self {
        Self::decode_known(code, body).unwrap_or(Self::Unknown { code, body })
    }

    fn decode_known(code: u8, body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new("LBMR topic option", body, 0);
        let option = match code {
            LATE_JOIN => Self::LateJoin(LateJoin {
                flags: r.u16()?,
                port: (r.u16()?, r.u16()?).0,
                address: r.address()?,
                transport: r.u32()?,
                high_sqn: r.u32()?,
                low_sqn: r.u32()?,
            }),
            COST => Self::Cost { flags: r.u8()?, hops: r.u8()?, cost: r.u32()? },
            ORIGIN => Self::Origin { flags: r.u16()?, id: r.array()? },
            INSTANCE => Self::Instance { flags: r.u8()?, reserved: r.u8()?, instance: r.array()? },
            DOMAIN => Self::Domain { flags: r.u16()?, domain: r.u32()? },
            FUNCTIONALITY => Self::Functionality(Functionality {
                flags: r.u16()?,
                port: (r.u16()?, r.u16()?).0,
                address: r.address()?,
                functions: r.u32()?,
            }),
            QUEUE => Self::Queue(Queue {
                flags: r.u16()?,
                queue: r.u32()?,
                reg_id: r.u64()?,
                source: r.u32()?,
                address: r.address()?,
                port: (r.u16()?, r.u16()?).0,
            }),
            _ => Self::Unknown { code, body: r.rest() },
        };
        if r.rest().is_empty() { Ok(option) } else { Err(invalid("LBMR topic option length", 0)) }
    }

    fn code(&self) -> u8 {
        match *self {
            Self::LateJoin(_) => LATE_JOIN,
            Self::Cost { .. } => COST,
            Self::Origin { .. } => ORIGIN,
            Self::Instance { .. } => INSTANCE,
            Self::Domain { .. } => DOMAIN,
            Self::Functionality(_) => FUNCTIONALITY,
            Self::Queue(_) => QUEUE,
            Self::Unknown { code, .. } => code,
        }
    }

    /// Writes the option.
    ///
    /// # Errors
    /// It does not fit.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        let start = w.position();
        w.u8(self.code())?;
        w.u8(0)?;
        match *self {
            Self::LateJoin(o) => {
                w.u16(o.flags)?;
                w.u16(o.port)?;
                w.u16(0)?;
                w.bytes(&o.address.octets())?;
                w.u32(o.transport)?;
                w.u32(o.high_sqn)?;
                w.u32(o.low_sqn)?;
            }
            Self::Cost { flags, hops, cost } => {
                w.u8(flags)?;
                w.u8(hops)?;
                w.u32(cost)?;
            }
            Self::Origin { flags, id } => {
                w.u16(flags)?;
                w.bytes(&id)?;
            }
            Self::Instance { flags, reserved, instance } => {
                w.u8(flags)?;
                w.u8(reserved)?;
                w.bytes(&instance)?;
            }
            Self::Domain { flags, domain } => {
                w.u16(flags)?;
                w.u32(domain)?;
            }
            Self::Functionality(o) => {
                w.u16(o.flags)?;
                w.u16(o.port)?;
                w.u16(0)?;
                w.bytes(&o.address.octets())?;
                w.u32(o.functions)?;
            }
            Self::Queue(o) => {
                w.u16(o.flags)?;
                w.u32(o.queue)?;
                w.u64(o.reg_id)?;
                w.u32(o.source)?;
                w.bytes(&o.address.octets())?;
                w.u16(o.port)?;
                w.u16(0)?;
            }
            Self::Unknown { body, .. } => w.bytes(body)?,
        }
        close(w, start)
    }
}

fn close(w: &mut Writer<'_>, start: usize) -> Result<(), Full> {
    let length = u8::try_from(w.position() - start).map_err(|_| Full)?;
    w.patch_u8(start + 1, length);
    Ok(())
}

/// Walks `{code, length, body}` records.
fn records<'a>(what: &'static str, bytes: &'a [u8]) -> impl Iterator<Item = Result<(u8, &'a [u8]), WireError>> {
    let mut at = 0;
    let mut failed = false;
    core::iter::from_fn(move || {
        if failed || at >= bytes.len() {
            return None;
        }
        let mut r = Reader::new(what, bytes, at);
        let mut read = || {
            let code = r.u8()?;
            let length = usize::from(r.u8()?).checked_sub(2).ok_or(invalid(what, at + 1))?;
            Ok((code, r.take(length)?))
        };
        let record = read();
        failed = record.is_err();
        at = r.at();
        Some(record)
    })
}

/// The options of an advertisement.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct TopicOptions<'a>(&'a [u8]);

impl<'a> TopicOptions<'a> {
    /// Reads the block at the beginning of the reader, if `present`.
    pub(crate) fn read(r: &mut Reader<'a>, present: bool) -> Result<Self, WireError> {
        if !present {
            return Ok(Self::default());
        }
        let at = r.at();
        if r.u16()? != 0x0004 {
            return Err(invalid("LBMR topic option block", at));
        }
        let length = usize::from(r.u16()?).checked_sub(4).ok_or(invalid("LBMR topic option block length", at + 2))?;
        let bytes = r.take(length)?;
        let options = Self(bytes);
        options.iter().try_for_each(|option| option.map(|_| ())).map_err(|e| e.shifted(at + 4))?;
        Ok(options)
    }

    /// From bytes written by [`TopicOption::encode`].
    pub fn from_encoded(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The options, in order. Those of a decoded packet are all good.
    pub fn iter(self) -> impl Iterator<Item = Result<TopicOption<'a>, WireError>> {
        records("LBMR topic option", self.0).map(|record| {
            let (code, body) = record?;
            Ok(TopicOption::decode(code, body))
        })
    }

    pub(crate) fn encode(self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.u16(0x0004)?;
        let at = w.position();
        w.u16(0)?;
        for option in self.iter() {
            option.map_err(|_| Full)?.encode(w)?;
        }
        let length = u16::try_from(w.position() - at + 2).map_err(|_| Full)?;
        w.patch_u16(at, length);
        Ok(())
    }
}

impl core::fmt::Debug for TopicOptions<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// An option of a whole packet: who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of these are named by the format")]
pub enum PacketOption<'a> {
    /// Random, one per context.
    SourceId {
        flags: u16,
        id: [u8; 8],
    },
    /// The kind of the context: [`SenderKind`].
    SourceType {
        flags: u8,
        kind: u8,
    },
    /// Product version, one byte per component.
    Version {
        flags: u16,
        version: u32,
    },
    Domain {
        flags: u16,
        domain: u32,
    },
    /// Any other, and the ones above in a form of another version.
    Unknown {
        code: u8,
        body: &'a [u8],
    },
}

const LENGTH: u8 = 0x80;
const SOURCE_ID: u8 = 0x81;
const SOURCE_TYPE: u8 = 0x82;
const VERSION: u8 = 0x83;
const LOCAL_DOMAIN: u8 = 0x84;

impl<'a> PacketOption<'a> {
    fn decode(code: u8, body: &'a [u8]) -> Self {
        Self::decode_known(code, body).unwrap_or(Self::Unknown { code, body })
    }

    fn decode_known(code: u8, body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new("LBMR packet option", body, 0);
        let option = match code {
            SOURCE_ID => Self::SourceId { flags: r.u16()?, id: r.array()? },
            SOURCE_TYPE => Self::SourceType { flags: r.u8()?, kind: r.u8()? },
            VERSION => Self::Version { flags: r.u16()?, version: r.u32()? },
            LOCAL_DOMAIN => Self::Domain { flags: r.u16()?, domain: r.u32()? },
            _ => Self::Unknown { code, body: r.rest() },
        };
        if r.rest().is_empty() { Ok(option) } else { Err(invalid("LBMR packet option length", 0)) }
    }

    fn encode(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        let start = w.position();
        let code = match *self {
            Self::SourceId { .. } => SOURCE_ID,
            Self::SourceType { .. } => SOURCE_TYPE,
            Self::Version { .. } => VERSION,
            Self::Domain { .. } => LOCAL_DOMAIN,
            Self::Unknown { code, .. } => code,
        };
        w.u8(code)?;
        w.u8(0)?;
        match *self {
            Self::SourceId { flags, id } => {
                w.u16(flags)?;
                w.bytes(&id)?;
            }
            Self::SourceType { flags, kind } => {
                w.u8(flags)?;
                w.u8(kind)?;
            }
            Self::Version { flags, version: value } | Self::Domain { flags, domain: value } => {
                w.u16(flags)?;
                w.u32(value)?;
            }
            Self::Unknown { body, .. } => w.bytes(body)?,
        }
        close(w, start)
    }
}

/// The options at the end of a packet, the length option that ends them included.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PacketOptions<'a>(&'a [u8]);

impl<'a> PacketOptions<'a> {
    /// Splits a packet, which begins with `header` bytes, into what is before the options and the options.
    pub(crate) fn split(bytes: &'a [u8], header: usize) -> Result<(&'a [u8], Self), WireError> {
        let end = bytes.len();
        let at = end.checked_sub(4).ok_or(super::truncated("LBMR packet options", 0))?;
        if bytes[at] != LENGTH || bytes[at + 1] != 4 {
            return Err(invalid("LBMR packet option length", at));
        }
        let total = usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]));
        if total < 4 {
            return Err(invalid("LBMR packet option length", at + 2));
        }
        let start = end.checked_sub(total).filter(|start| *start >= header);
        let start = start.ok_or(invalid("LBMR packet option length", at + 2))?;
        let options = Self(&bytes[start..]);
        options.iter().try_for_each(|option| option.map(|_| ())).map_err(|e| e.shifted(start))?;
        Ok((&bytes[..start], options))
    }

    /// From bytes written by [`sender`].
    pub fn from_encoded(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The options, without the length option. Those of a decoded packet are all good.
    pub fn iter(self) -> impl Iterator<Item = Result<PacketOption<'a>, WireError>> {
        let end = self.0.len().saturating_sub(4);
        records("LBMR packet option", &self.0[..end]).map(|record| {
            let (code, body) = record?;
            Ok(PacketOption::decode(code, body))
        })
    }

    /// The random id of the context that sent the packet.
    pub fn source_id(self) -> Option<[u8; 8]> {
        self.iter().find_map(|option| match option {
            Ok(PacketOption::SourceId { id, .. }) => Some(id),
            _ => None,
        })
    }

    /// Whether the packet is a router's.
    pub fn is_of_router(self) -> bool {
        let kind = SenderKind::Router as u8;
        self.iter().any(|option| matches!(option, Ok(PacketOption::SourceType { kind: of, .. }) if of == kind))
    }

    pub(crate) fn encode(self, w: &mut Writer<'_>) -> Result<(), Full> {
        let start = w.position();
        for option in self.iter() {
            option.map_err(|_| Full)?.encode(w)?;
        }
        end_options(w, start)
    }
}

fn end_options(w: &mut Writer<'_>, start: usize) -> Result<(), Full> {
    let total = u16::try_from(w.position() - start + 4).map_err(|_| Full)?;
    w.u8(LENGTH)?;
    w.u8(4)?;
    w.u16(total)
}

/// Bytes of the options that a context sends: [`sender`].
pub const SENDER_LENGTH: usize = 36;

/// The kind of a context that sends packets of topic resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SenderKind {
    /// A program with sources or receivers.
    Application = 0,
    /// A router between domains, whose queries stand for receivers elsewhere.
    Router = 1,
    /// A store.
    Store = 2,
}

/// The options of a context's packets: its random id, what it is, this project's version and its domain (0 where it knows none).
pub fn sender(id: [u8; 8], kind: SenderKind, domain: u32) -> [u8; SENDER_LENGTH] {
    let mut bytes = [0; SENDER_LENGTH];
    let mut w = Writer::new(&mut bytes);
    let options = [
        PacketOption::SourceId { flags: IGNORE, id },
        PacketOption::SourceType { flags: 0x80, kind: kind as u8 },
        PacketOption::Version { flags: IGNORE, version: 0x0001_0000 },
        PacketOption::Domain { flags: IGNORE, domain },
    ];
    let written = options.iter().try_for_each(|o| o.encode(&mut w)).and_then(|()| end_options(&mut w, 0));
    debug_assert!(written.is_ok(), "the buffer has this size");
    bytes
}

impl core::fmt::Debug for PacketOptions<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
