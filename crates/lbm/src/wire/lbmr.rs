//! LBMR, topic resolution: queries (TQR) and advertisements (TIR).

use core::net::Ipv4Addr;

use super::lbmr_option::{PacketOptions, TopicOptions};
use super::{Full, Reader, WireError, Writer, invalid};

/// The longest topic name, in bytes.
pub const TOPIC_NAME_MAX: usize = 246;

const HEADER: usize = 4;
const HAS_OPTIONS: u8 = 0x08;

/// How a wildcard query is to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternKind {
    /// Perl-compatible.
    Pcre,
    /// POSIX.
    Regex,
    /// A value that this version does not know.
    Other(u8),
}

impl PatternKind {
    const fn from_bits(bits: u8) -> Self {
        match bits {
            1 => Self::Pcre,
            2 => Self::Regex,
            other => Self::Other(other),
        }
    }

    const fn bits(self) -> u8 {
        match self {
            Self::Pcre => 1,
            Self::Regex => 2,
            Self::Other(bits) => bits,
        }
    }
}

/// A topic-resolution packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// 1 with options, 0 without; not checked.
    pub version: u8,
    /// What it says.
    pub body: Body<'a>,
    /// Who sent it.
    pub options: Option<PacketOptions<'a>>,
}

/// What a topic-resolution packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Queries and advertisements. With neither of them it is the keep-alive of a resolver daemon.
    Topics {
        /// Topics that receivers look for.
        queries: Queries<'a>,
        /// Topics that sources offer.
        adverts: Adverts<'a>,
    },
    /// A context that has receivers keeps its entry at the resolver daemon.
    ReceiverAlive,
    /// A context that has sources keeps its entry at the resolver daemon.
    SourceAlive,
    /// Topic management.
    Management {
        /// Raw records.
        records: &'a [u8],
        /// How many.
        count: u16,
    },
    /// Who a context is.
    ContextInfo(ContextInfo<'a>),
    /// Asks everybody to advertise or query again: 4 advertisements, 2 queries, 1 wildcard queries, 0x10 and 0x20 contexts.
    ResolutionRequest {
        /// What is asked for.
        flags: u16,
    },
    /// Anything else.
    Other {
        /// Packet type, low three bits.
        kind: u8,
        /// All after the first byte.
        body: &'a [u8],
    },
}

/// Who a context is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextInfo<'a> {
    /// Routers that the packet passed.
    pub hops: u8,
    /// 0x8000 query, 0x4000 address valid, 0x2000 instance valid, 1 name follows.
    pub flags: u16,
    /// Request port.
    pub port: u16,
    /// Address.
    pub address: Ipv4Addr,
    /// Instance id.
    pub instance: [u8; 8],
    /// Name, if flagged.
    pub name: Option<&'a [u8]>,
}

const NORMAL: u8 = 0;
const WILDCARD: u8 = 1;
const RECEIVER_ALIVE: u8 = 2;
const SOURCE_ALIVE: u8 = 3;
const MANAGEMENT: u8 = 4;
const EXTENDED: u8 = 7;
const EXTENDED_CONTEXT: u8 = 3;
const EXTENDED_REQUEST: u8 = 4;
const NAME_FOLLOWS: u16 = 1;

impl<'a> Packet<'a> {
    /// Reads a UDP payload, all of it.
    ///
    /// # Errors
    /// Not a topic-resolution packet, or bytes left over.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new("LBMR header", bytes, 0);
        let first = r.u8()?;
        let (version, kind) = (first >> 4, first & 7);
        let (content, options) = if first & HAS_OPTIONS == 0 {
            (bytes, None)
        } else {
            let (content, options) = PacketOptions::split(bytes, HEADER)?;
            (content, Some(options))
        };
        let mut r = Reader::new("LBMR packet", content, 1);
        let body = match kind {
            NORMAL | WILDCARD | RECEIVER_ALIVE | SOURCE_ALIVE => {
                let (query_count, advert_count) = (r.u8()?, r.u16()?);
                let queries = Queries::read(&mut r, content, query_count, kind == WILDCARD)?;
                let adverts = Adverts::read(&mut r, content, advert_count)?;
                match kind {
                    RECEIVER_ALIVE if query_count == 0 && advert_count == 0 => Body::ReceiverAlive,
                    SOURCE_ALIVE if query_count == 0 && advert_count == 0 => Body::SourceAlive,
                    NORMAL | WILDCARD => Body::Topics { queries, adverts },
                    _ => return Err(invalid("LBMR counts of a keep-alive", 1)),
                }
            }
            MANAGEMENT => {
                let (head, at) = (r.array::<3>()?, r.at());
                let (length, count) = (r.u16()?, r.u16()?);
                if head != [0; 3] || usize::from(length) != content.len() - at {
                    return Err(invalid("LBMR topic management length", at));
                }
                Body::Management { records: r.rest(), count }
            }
            EXTENDED => decode_extended(&mut r, content)?,
            _ => Body::Other { kind, body: r.rest() },
        };
        if r.rest().is_empty() {
            Ok(Self { version, body, options })
        } else {
            Err(invalid("bytes after an LBMR packet", 0))
        }
    }

    /// Writes the packet.
    ///
    /// # Errors
    /// It does not fit.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        let kind = match self.body {
            Body::Topics { queries, .. } if queries.wildcard => WILDCARD,
            Body::Topics { .. } => NORMAL,
            Body::ReceiverAlive => RECEIVER_ALIVE,
            Body::SourceAlive => SOURCE_ALIVE,
            Body::Management { .. } => MANAGEMENT,
            Body::ContextInfo(_) | Body::ResolutionRequest { .. } => EXTENDED,
            Body::Other { kind, .. } => kind,
        };
        w.u8(self.version << 4 | if self.options.is_some() { HAS_OPTIONS } else { 0 } | kind)?;
        match self.body {
            Body::Topics { queries, adverts } => {
                w.u8(queries.count)?;
                w.u16(adverts.count)?;
                for query in queries.iter() {
                    query.encode(w)?;
                }
                for advert in adverts.iter() {
                    advert.encode(w)?;
                }
            }
            Body::ReceiverAlive | Body::SourceAlive => w.bytes(&[0; 3])?,
            Body::Management { records, count } => {
                w.bytes(&[0; 3])?;
                w.u16(u16::try_from(records.len() + 4).map_err(|_| Full)?)?;
                w.u16(count)?;
                w.bytes(records)?;
            }
            Body::ContextInfo(info) => {
                w.u8(EXTENDED_CONTEXT)?;
                let name = info.name.map_or(0, |name| name.len() + 1);
                w.u8(u8::try_from(20 + name).map_err(|_| Full)?)?;
                w.u8(info.hops)?;
                w.u16(info.flags)?;
                w.u16(info.port)?;
                w.bytes(&info.address.octets())?;
                w.bytes(&info.instance)?;
                if let Some(name) = info.name {
                    w.bytes(name)?;
                    w.u8(0)?;
                }
            }
            Body::ResolutionRequest { flags } => {
                w.u8(EXTENDED_REQUEST)?;
                w.u16(flags)?;
            }
            Body::Other { body, .. } => w.bytes(body)?,
        }
        self.options.map_or(Ok(()), |options| options.encode(w))
    }
}

fn decode_extended<'a>(r: &mut Reader<'a>, content: &'a [u8]) -> Result<Body<'a>, WireError> {
    match r.u8()? {
        EXTENDED_CONTEXT => {
            if usize::from(r.u8()?) != content.len() {
                return Err(invalid("LBMR context length", 2));
            }
            let (hops, flags) = (r.u8()?, r.u16()?);
            let (port, address, instance) = (r.u16()?, r.address()?, r.array()?);
            let name = if flags & NAME_FOLLOWS == 0 { None } else { Some(r.text()?) };
            Ok(Body::ContextInfo(ContextInfo { hops, flags, port, address, instance, name }))
        }
        EXTENDED_REQUEST => Ok(Body::ResolutionRequest { flags: r.u16()? }),
        _ => {
            r.rest();
            Ok(Body::Other { kind: EXTENDED, body: &content[1..] })
        }
    }
}

/// What a receiver looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query<'a> {
    /// One topic.
    Topic(&'a [u8]),
    /// All topics that match.
    Pattern(PatternKind, &'a [u8]),
}

impl<'a> Query<'a> {
    fn read(r: &mut Reader<'a>, wildcard: bool) -> Result<Self, WireError> {
        Ok(if wildcard {
            let kind = PatternKind::from_bits(r.u8()?);
            Self::Pattern(kind, r.text()?)
        } else {
            Self::Topic(r.text()?)
        })
    }

    fn encode(self, w: &mut Writer<'_>) -> Result<(), Full> {
        let name = match self {
            Self::Topic(name) => name,
            Self::Pattern(kind, name) => {
                w.u8(kind.bits())?;
                name
            }
        };
        w.bytes(name)?;
        w.u8(0)
    }
}

/// The queries of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Queries<'a> {
    bytes: &'a [u8],
    count: u8,
    wildcard: bool,
}

impl<'a> Queries<'a> {
    fn read(r: &mut Reader<'a>, content: &'a [u8], count: u8, wildcard: bool) -> Result<Self, WireError> {
        let start = r.at();
        for _ in 0..count {
            Query::read(r, wildcard)?;
        }
        Ok(Self { bytes: &content[start..r.at()], count, wildcard })
    }

    /// The queries, in order.
    pub fn iter(self) -> impl Iterator<Item = Query<'a>> {
        let mut r = Reader::new("LBMR query", self.bytes, 0);
        (0..self.count).map_while(move |_| Query::read(&mut r, self.wildcard).ok())
    }

    /// How many there are.
    pub fn len(self) -> usize {
        usize::from(self.count)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.count == 0
    }
}

impl core::fmt::Debug for Queries<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// How a topic can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the fields of these are named by the format")]
pub enum Transport {
    Tcp {
        address: Ipv4Addr,
        session_id: Option<u32>,
        port: u16,
    },
    Lbtru {
        address: Ipv4Addr,
        session_id: Option<u32>,
        port: u16,
    },
    /// LBT-SMX, shared memory of one host.
    Lbtsmx {
        host: u32,
        session_id: u32,
        transport: u16,
    },
    Lbtrm {
        /// Address from which the data comes and to which NAKs go.
        source: Ipv4Addr,
        group: Ipv4Addr,
        session_id: u32,
        destination_port: u16,
        /// UDP port for NAKs.
        unicast_port: u16,
    },
    Lbtrdma {
        address: Ipv4Addr,
        session_id: u32,
        port: u16,
    },
    /// LBT-IPC, shared memory of one host.
    Lbtipc {
        host: u32,
        session_id: u32,
        transport: u16,
    },
    /// A kind that this version does not know, or a known one in an unknown form: passed over, so that the advertisements behind it
    /// count. It cannot be written.
    Other {
        code: u8,
    },
}

const TCP: u8 = 0x00;
const LBTRU: u8 = 0x01;
const LBTSMX: u8 = 0x04;
const LBTRM: u8 = 0x10;
const LBTRDMA: u8 = 0x20;
const LBTIPC: u8 = 0x40;

impl Transport {
    /// The bytes that tell this session and a topic in it from all others: laid out as real advertisements of LBT-RM have it, by inference for other
    /// transports. Of those that are not received here all are alike.
    pub fn originating_id(&self, topic: u32) -> [u8; 32] {
        let mut id = [0; 32];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            id[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        match *self {
            Self::Lbtrm { source, group, session_id, destination_port, unicast_port } => {
                put(&[0x10]);
                put(&source.octets());
                put(&unicast_port.to_be_bytes());
                put(&group.octets());
                put(&destination_port.to_be_bytes());
                put(&session_id.to_le_bytes());
            }
            Self::Tcp { address, session_id, port } => {
                put(&[0x00]);
                put(&address.octets());
                put(&port.to_be_bytes());
                put(&session_id.unwrap_or(0).to_le_bytes());
            }
            Self::Lbtru { address, session_id, port } => {
                put(&[0x01]);
                put(&address.octets());
                put(&port.to_be_bytes());
                put(&session_id.unwrap_or(0).to_le_bytes());
            }
            Self::Lbtipc { host, session_id, transport } => {
                put(&[0x40]);
                put(&host.to_be_bytes());
                put(&transport.to_be_bytes());
                put(&session_id.to_le_bytes());
            }
            _ => put(&[0xFF]),
        }
        put(&topic.to_be_bytes());
        id
    }

    fn code(&self) -> u8 {
        match *self {
            Self::Tcp { .. } => TCP,
            Self::Lbtru { .. } => LBTRU,
            Self::Lbtsmx { .. } => LBTSMX,
            Self::Lbtrm { .. } => LBTRM,
            Self::Lbtrdma { .. } => LBTRDMA,
            Self::Lbtipc { .. } => LBTIPC,
            Self::Other { code } => code,
        }
    }

    fn decode(code: u8, info: &[u8]) -> Self {
        Self::decode_known(code, info).unwrap_or(Self::Other { code })
    }

    fn decode_known(code: u8, info: &[u8]) -> Result<Self, WireError> {
        let mut r = Reader::new("LBMR transport", info, 0);
        let with_session = info.len() == 10;
        let transport = match code {
            TCP => Self::Tcp {
                address: r.address()?,
                session_id: if with_session { Some(r.u32()?) } else { None },
                port: r.u16()?,
            },
            LBTRU => Self::Lbtru {
                address: r.address()?,
                session_id: if with_session { Some(r.u32()?) } else { None },
                port: r.u16()?,
            },
            LBTSMX => Self::Lbtsmx { host: r.u32()?, session_id: r.u32()?, transport: r.u16()? },
            LBTIPC => Self::Lbtipc { host: r.u32()?, session_id: r.u32()?, transport: r.u16()? },
            LBTRDMA => Self::Lbtrdma { address: r.address()?, session_id: r.u32()?, port: r.u16()? },
            LBTRM => Self::Lbtrm {
                source: r.address()?,
                group: r.address()?,
                session_id: r.u32()?,
                destination_port: r.u16()?,
                unicast_port: r.u16()?,
            },
            _ => return Err(invalid("LBMR transport type", 0)),
        };
        if r.rest().is_empty() { Ok(transport) } else { Err(invalid("LBMR transport length", 0)) }
    }

    fn encode(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        match *self {
            Self::Tcp { address, session_id, port } | Self::Lbtru { address, session_id, port } => {
                w.bytes(&address.octets())?;
                session_id.map_or(Ok(()), |id| w.u32(id))?;
                w.u16(port)
            }
            Self::Lbtsmx { host, session_id, transport } | Self::Lbtipc { host, session_id, transport } => {
                w.u32(host)?;
                w.u32(session_id)?;
                w.u16(transport)
            }
            Self::Lbtrdma { address, session_id, port } => {
                w.bytes(&address.octets())?;
                w.u32(session_id)?;
                w.u16(port)
            }
            Self::Lbtrm { source, group, session_id, destination_port, unicast_port } => {
                w.bytes(&source.octets())?;
                w.bytes(&group.octets())?;
                w.u32(session_id)?;
                w.u16(destination_port)?;
                w.u16(unicast_port)
            }
            Self::Other { .. } => Err(Full),
        }
    }
}

/// A transport in the notation of source names: `LBTRM:10.1.1.10:14390:5e551d01:224.10.10.10:14400`.
impl core::fmt::Display for Transport {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Tcp { address, session_id: Some(id), port } => write!(f, "TCP:{address}:{port}:{id:08x}"),
            Self::Tcp { address, session_id: None, port } => write!(f, "TCP:{address}:{port}"),
            Self::Lbtru { address, session_id: Some(id), port } => write!(f, "LBTRU:{address}:{port}:{id:08x}"),
            Self::Lbtru { address, session_id: None, port } => write!(f, "LBTRU:{address}:{port}"),
            Self::Lbtsmx { session_id, transport, .. } => write!(f, "LBTSMX:{session_id:x}:{transport}"),
            Self::Lbtipc { session_id, transport, .. } => write!(f, "LBTIPC:{session_id:x}:{transport}"),
            Self::Lbtrdma { address, session_id, port } => write!(f, "LBTRDMA:{address}:{port}:{session_id:08x}"),
            Self::Other { code } => write!(f, "transport 0x{code:02x}"),
            Self::Lbtrm { source, group, session_id, destination_port, unicast_port } => {
                write!(f, "LBTRM:{source}:{unicast_port}:{session_id:08x}:{group}:{destination_port}")
            }
        }
    }
}

/// An advertisement: a topic and how it can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advert<'a> {
    /// The topic's name.
    pub name: &'a [u8],
    /// 60; its meaning is not known.
    pub ttl: u16,
    /// The topic within the transport session.
    pub topic: u32,
    /// Options.
    pub options: TopicOptions<'a>,
    /// Transport session.
    pub transport: Transport,
}

impl<'a> Advert<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, WireError> {
        let name = r.text()?;
        let at = r.at();
        let (code, length, ttl, topic) = (r.u8()?, r.u8()?, r.u16()?, r.u32()?);
        let options = TopicOptions::read(r, code & 0x80 != 0)?;
        if code & 0x80 != 0 && options.is_empty() {
            return Err(invalid("LBMR topic option block length", at));
        }
        let transport = Transport::decode(code & 0x7F, r.take(usize::from(length))?);
        Ok(Self { name, ttl, topic, options, transport })
    }

    /// Writes the advertisement.
    ///
    /// # Errors
    /// It does not fit.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        w.bytes(self.name)?;
        w.u8(0)?;
        let flag = if self.options.is_empty() { 0 } else { 0x80 };
        w.u8(self.transport.code() | flag)?;
        let length_at = w.position();
        w.u8(0)?;
        w.u16(self.ttl)?;
        w.u32(self.topic)?;
        if flag != 0 {
            self.options.encode(w)?;
        }
        let start = w.position();
        self.transport.encode(w)?;
        let length = (w.position() - start) as u8;
        w.patch_u8(length_at, length);
        Ok(())
    }
}

/// The advertisements of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Adverts<'a> {
    bytes: &'a [u8],
    count: u16,
}

impl<'a> Adverts<'a> {
    fn read(r: &mut Reader<'a>, content: &'a [u8], count: u16) -> Result<Self, WireError> {
        let start = r.at();
        for _ in 0..count {
            Advert::read(r)?;
        }
        Ok(Self { bytes: &content[start..r.at()], count })
    }

    /// The advertisements, in order.
    pub fn iter(self) -> impl Iterator<Item = Advert<'a>> {
        let mut r = Reader::new("LBMR advertisement", self.bytes, 0);
        (0..self.count).map_while(move |_| Advert::read(&mut r).ok())
    }

    /// How many there are.
    pub fn len(self) -> usize {
        usize::from(self.count)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.count == 0
    }
}

impl core::fmt::Debug for Adverts<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Builds packets of queries or advertisements in the caller's buffer. Queries have to come before advertisements.
#[derive(Debug)]
pub struct Builder<'a, 'b> {
    w: Writer<'a>,
    options: &'b [u8],
    wildcard: bool,
    queries: u8,
    adverts: u16,
}

impl<'a, 'b> Builder<'a, 'b> {
    /// A packet that ends with `options`, made by [`super::lbmr_option::sender`]. A wildcard packet takes patterns only. `buffer`
    /// is scratch space; its size is the packet's limit.
    ///
    /// # Errors
    /// The buffer has no room for header and options.
    pub fn new(buffer: &'a mut [u8], options: &'b [u8], wildcard: bool) -> Result<Self, Full> {
        let room = buffer.len().checked_sub(options.len()).ok_or(Full)?;
        let (front, _) = buffer.split_at_mut(room);
        let mut w = Writer::new(front);
        w.bytes(&[0; HEADER])?;
        Ok(Self { w, options, wildcard, queries: 0, adverts: 0 })
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.queries == 0 && self.adverts == 0
    }

    /// Bytes of the packet so far.
    pub fn length(&self) -> usize {
        self.w.position() + self.options.len()
    }

    /// Adds a query.
    ///
    /// # Errors
    /// It does not fit any more; the packet is as it was.
    pub fn query(&mut self, query: Query<'_>) -> Result<(), Full> {
        debug_assert!(self.adverts == 0, "queries come first");
        debug_assert_eq!(matches!(query, Query::Pattern(..)), self.wildcard, "patterns have packets of their own");
        let at = self.w.position();
        let count = self.queries.checked_add(1).ok_or(Full)?;
        if let Err(full) = query.encode(&mut self.w) {
            self.w.truncate(at);
            return Err(full);
        }
        self.queries = count;
        Ok(())
    }

    /// Adds an advertisement.
    ///
    /// # Errors
    /// It does not fit any more; the packet is as it was.
    pub fn advert(&mut self, advert: &Advert<'_>) -> Result<(), Full> {
        let at = self.w.position();
        let count = self.adverts.checked_add(1).ok_or(Full)?;
        if let Err(full) = advert.encode(&mut self.w) {
            self.w.truncate(at);
            return Err(full);
        }
        self.adverts = count;
        Ok(())
    }

    /// Adds an advertisement that [`Advert::encode`] has written before.
    ///
    /// # Errors
    /// It does not fit any more; the packet is as it was.
    pub fn encoded_advert(&mut self, record: &[u8]) -> Result<(), Full> {
        let count = self.adverts.checked_add(1).ok_or(Full)?;
        self.w.bytes(record)?;
        self.adverts = count;
        Ok(())
    }

    /// Completes the packet and appends it to `out`.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        let version = if self.options.is_empty() { 0 } else { 0x10 | HAS_OPTIONS };
        self.w.patch_u8(0, version | if self.wildcard { WILDCARD } else { NORMAL });
        self.w.patch_u8(1, self.queries);
        self.w.patch_u16(2, self.adverts);
        out.extend_from_slice(self.w.written());
        out.extend_from_slice(self.options);
    }
}
