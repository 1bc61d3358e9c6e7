//! Topic resolution through a stateful resolution service (SRS): registration, and batches of records about sources and receivers, in
//! `RSocket` frames ([`super::rsocket`]).
//!
//! The layouts are those that Wireshark's dissector has. Names end with a NUL, which counts in their length. What stands in `otid`, in
//! `functionality_flags` and in `version` is not public: `docs/wire/lbm.md` says what is written here.

use core::net::Ipv4Addr;

use super::lbmr::{Advert, TOPIC_NAME_MAX, Transport};
use super::lbmr_option::{Functionality, IGNORE, LateJoin, TopicOption, TopicOptions};
use super::{Reader, WireError, Writer, invalid};

/// Bytes of the id of a source.
pub const OTID: usize = 32;
/// Version of the protocol that is said at registration.
pub const PROTOCOL: u8 = 1;
/// The cost that says that a source has ended.
pub const ENDED: u32 = u32::MAX;
/// The longest record that is written: both names, and the fixed fields.
pub const RECORD_MAX: usize = 640;

const REGISTRATION_REQUEST: u16 = 1;
const REGISTRATION_RESPONSE: u16 = 2;
const STREAM_REQUEST: u16 = 3;
const SOURCE: u16 = 4;
const SOURCE_DELETED: u16 = 5;
const RECEIVER: u16 = 6;
const SOURCE_LEFT: u16 = 12;
const ROUTE: u16 = 13;
const ROUTE_ENDED: u16 = 14;
const DOMAIN: u16 = 15;
const NAME_QUERY: u16 = 16;
const NAME: u16 = 17;
const NAME_ENDED: u16 = 18;
/// This project's version, as in packets of LBMR.
const VERSION: u32 = 0x0001_0000;
/// Begins the ids of sources of this project.
const OTID_MARK: &[u8; 4] = b"QWY1";
/// Begins those of proxy sources of its routers.
const PROXY_MARK: &[u8; 4] = b"QWYP";
/// The kind of a context that is a router's.
pub const ROUTER: u8 = 1;

/// The id of a proxy source: its router, in short, and the originating transport id of its source without the bytes that are always 0.
/// `None`: they are not.
fn proxy_otid(origin: &[u8; 32], router: [u8; 8]) -> Option<[u8; OTID]> {
    let mut otid = [0; OTID];
    otid[..4].copy_from_slice(PROXY_MARK);
    for (i, byte) in router.iter().enumerate() {
        otid[4 + i % 3] ^= byte;
    }
    otid[7..16].copy_from_slice(&origin[..9]);
    otid[16..].copy_from_slice(&origin[12..28]);
    (origin_of(&otid).as_ref() == Some(origin)).then_some(otid)
}

/// The originating transport id in the id of a proxy source. `None`: it is not one.
fn origin_of(otid: &[u8; OTID]) -> Option<[u8; 32]> {
    let mut origin = [0; 32];
    origin[..9].copy_from_slice(&otid[7..16]);
    origin[12..28].copy_from_slice(&otid[16..]);
    otid.starts_with(PROXY_MARK).then_some(origin)
}

/// The account of a context of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistrationRequest {
    /// 0 an application, 1 a router, 2 a store.
    pub kind: u8,
    /// Where the connection comes from; not checked.
    pub address: Ipv4Addr,
    /// Port, likewise.
    pub port: u16,
    /// Random, one for each context: by it, its host and its address a context is known when it connects again.
    pub session: u32,
    /// The host.
    pub host: u32,
    /// [`PROTOCOL`].
    pub protocol: u8,
    /// Bits of [`interest_mode`].
    pub interest_mode: u8,
    /// Topic resolution domain.
    pub domain: u32,
}

/// The interest of a context.
pub mod interest_mode {
    /// Sources of topics for which it has receivers; without the bit all.
    pub const FILTER: u8 = 1;
    /// Others' receivers: for routers.
    pub const FORWARD: u8 = 2;
}

/// The answer to a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistrationResponse {
    /// Number that the service gave the context.
    pub client: u64,
    /// Topic resolution domain.
    pub domain: u32,
    /// [`PROTOCOL`].
    pub protocol: u8,
}

/// A source of a topic (SIR); with the cost [`ENDED`] one that is no more (SER).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceInfo<'a> {
    /// Id of the source.
    pub otid: [u8; OTID],
    /// The topic's name.
    pub topic: &'a [u8],
    /// The transport session in the notation of source names.
    pub source: &'a [u8],
    /// The host of shared memory.
    pub host: u32,
    /// The topic within the transport session.
    pub index: u32,
    /// As in topic options of LBMR ([`Functionality`]).
    pub functions: u32,
    /// Where the source takes requests; port 0: nowhere.
    pub request: (Ipv4Addr, u16),
    /// The context that has the source.
    pub instance: [u8; 8],
    /// As in an advertisement.
    pub ttl: u16,
    /// 0 in one's own domain, [`ENDED`] when the source has ended.
    pub cost: u32,
    /// The domain from which a proxy source comes; 0: it is a source.
    pub domain: u32,
}

/// How a context stands to a topic or pattern, as a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterestKind {
    /// The context has receivers now (RIR, WIR).
    Wanted,
    /// The context has none any more (RDR, WDR).
    Unwanted,
    /// No context has any more (RER, WER).
    Ended,
}

/// A topic, or a pattern of topics, that a context has receivers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest<'a> {
    /// How the context stands to it.
    pub kind: InterestKind,
    /// Whether the name is a pattern.
    pub pattern: bool,
    /// Topic or pattern.
    pub name: &'a [u8],
    /// Topic resolution domain.
    pub domain: u32,
    /// The context.
    pub instance: [u8; 8],
}

/// A record of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A source is there, or has ended.
    Source(SourceInfo<'a>),
    /// A source was deleted by its context (SDR).
    SourceDeleted {
        /// Id of the source.
        otid: [u8; OTID],
        /// The topic's name.
        topic: &'a [u8],
    },
    /// Receivers are there, or are no more.
    Interest(Interest<'a>),
    /// Of routers, or of names of contexts: without a use here.
    Other {
        /// The number of its kind.
        kind: u16,
    },
}

/// The meaning of the data of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// The first message of a context.
    Register(RegistrationRequest),
    /// The answer to it.
    Registered(RegistrationResponse),
    /// From now on the context takes records.
    Stream,
    /// Records, to be read with [`Message::records`].
    Batch(&'a [u8]),
}

impl<'a> Message<'a> {
    /// Reads the data of a frame.
    ///
    /// # Errors
    /// None of the messages. The records of a batch are not looked at.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new("SRS message", bytes, 0);
        let message = match r.u16()? {
            REGISTRATION_REQUEST => Self::Register(RegistrationRequest {
                kind: r.u8()?,
                address: r.address()?,
                port: r.u16()?,
                session: r.u32()?,
                host: r.u32()?,
                protocol: r.u8()?,
                interest_mode: r.u8()?,
                domain: r.u32()?,
            }),
            REGISTRATION_RESPONSE => {
                Self::Registered(RegistrationResponse { client: r.u64()?, domain: r.u32()?, protocol: r.u8()? })
            }
            STREAM_REQUEST => {
                r.u8()?;
                Self::Stream
            }
            SOURCE..=NAME_ENDED => return Ok(Self::Batch(bytes)),
            _ => return Err(invalid("SRS message id", 0)),
        };
        if r.rest().is_empty() { Ok(message) } else { Err(invalid("SRS message length", 0)) }
    }

    /// The records of a batch, up to the first that cannot be read; none of other messages.
    pub fn records(self) -> impl Iterator<Item = Result<Record<'a>, WireError>> {
        let bytes = if let Self::Batch(bytes) = self { bytes } else { &[] };
        let mut r = Reader::new("SRS record", bytes, 0);
        let mut failed = false;
        core::iter::from_fn(move || {
            if failed || r.at() >= bytes.len() {
                return None;
            }
            let record = Record::read(&mut r);
            failed = record.is_err();
            Some(record)
        })
    }

    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Register(m) => {
                out.extend_from_slice(&REGISTRATION_REQUEST.to_be_bytes());
                out.push(m.kind);
                out.extend_from_slice(&m.address.octets());
                out.extend_from_slice(&m.port.to_be_bytes());
                out.extend_from_slice(&m.session.to_be_bytes());
                out.extend_from_slice(&m.host.to_be_bytes());
                out.extend_from_slice(&[m.protocol, m.interest_mode]);
                out.extend_from_slice(&m.domain.to_be_bytes());
            }
            Self::Registered(m) => {
                out.extend_from_slice(&REGISTRATION_RESPONSE.to_be_bytes());
                out.extend_from_slice(&m.client.to_be_bytes());
                out.extend_from_slice(&m.domain.to_be_bytes());
                out.push(m.protocol);
            }
            Self::Stream => {
                out.extend_from_slice(&STREAM_REQUEST.to_be_bytes());
                out.push(0);
            }
            Self::Batch(records) => out.extend_from_slice(records),
        }
    }
}

/// A name as it was sent, without the NUL at its end.
fn name<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], WireError> {
    let length = r.u8()?;
    let name = r.take(length.into())?;
    Ok(name.strip_suffix(&[0]).unwrap_or(name))
}

/// The name of a topic or pattern, as the resolver would take it.
fn topic<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], WireError> {
    let at = r.at();
    let name = name(r)?;
    if name.is_empty() || name.len() > TOPIC_NAME_MAX || name.contains(&0) {
        return Err(invalid("SRS topic name", at));
    }
    Ok(name)
}

fn put_name(out: &mut Vec<u8>, name: &[u8]) {
    debug_assert!(name.len() < 255, "a name of {} bytes", name.len());
    out.push(name.len() as u8 + 1);
    out.extend_from_slice(name);
    out.push(0);
}

/// Instance, type, version, its flags and a reserved word of a context, of which the first is of interest.
fn context(r: &mut Reader<'_>) -> Result<[u8; 8], WireError> {
    let instance = r.array()?;
    r.take(1 + 4 + 4 + 4)?;
    Ok(instance)
}

impl<'a> Record<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, WireError> {
        let at = r.at();
        Ok(match r.u16()? {
            SOURCE => Self::Source(SourceInfo::read(r)?),
            SOURCE_DELETED => Self::SourceDeleted { otid: r.array()?, topic: topic(r)? },
            number @ RECEIVER..SOURCE_LEFT => {
                let (pattern, kind) = ((number - RECEIVER) / 3 == 1, (number - RECEIVER) % 3);
                let kind = [InterestKind::Wanted, InterestKind::Unwanted, InterestKind::Ended][usize::from(kind)];
                Self::Interest(Interest { kind, pattern, name: topic(r)?, domain: r.u32()?, instance: context(r)? })
            }
            kind @ SOURCE_LEFT => {
                r.take(OTID)?;
                name(r)?;
                name(r)?;
                context(r)?;
                Self::Other { kind }
            }
            kind @ (ROUTE | ROUTE_ENDED) => {
                let domains = r.u16()?;
                r.take(usize::from(domains) * 4 + 4 + 2)?;
                context(r)?;
                Self::Other { kind }
            }
            kind @ DOMAIN => {
                r.u32()?;
                context(r)?;
                Self::Other { kind }
            }
            kind @ (NAME_QUERY | NAME | NAME_ENDED) => {
                name(r)?;
                r.take(if kind == NAME_QUERY { 4 } else { 4 + 4 + 2 + 8 })?;
                context(r)?;
                Self::Other { kind }
            }
            _ => return Err(invalid("SRS message id", at)),
        })
    }

    /// Appends the record. [`Record::Other`] is never written.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Source(info) => info.encode(out),
            Self::SourceDeleted { otid, topic } => {
                out.extend_from_slice(&SOURCE_DELETED.to_be_bytes());
                out.extend_from_slice(&otid);
                put_name(out, topic);
            }
            Self::Interest(interest) => {
                let kind = match interest.kind {
                    InterestKind::Wanted => 0,
                    InterestKind::Unwanted => 1,
                    InterestKind::Ended => 2,
                };
                let number = RECEIVER + kind + if interest.pattern { 3 } else { 0 };
                out.extend_from_slice(&number.to_be_bytes());
                put_name(out, interest.name);
                out.extend_from_slice(&interest.domain.to_be_bytes());
                out.extend_from_slice(&interest.instance);
                out.push(0);
                out.extend_from_slice(&VERSION.to_be_bytes());
                out.extend_from_slice(&[0; 8]);
            }
            Self::Other { .. } => debug_assert!(false, "what is not read is not written"),
        }
    }
}

impl<'a> SourceInfo<'a> {
    fn read(r: &mut Reader<'a>) -> Result<Self, WireError> {
        let (otid, topic, source) = (r.array()?, topic(r)?, name(r)?);
        let (host, index, functions) = (r.u32()?, r.u32()?, r.u32()?);
        let request = (r.address()?, r.u16()?);
        let domain = r.u32()?;
        // Encryption, compression, and three numbers of queuing.
        r.take(1 + 1 + 4 + 4 + 8)?;
        let instance = r.array()?;
        // Type, version and its flags.
        r.take(1 + 4 + 4)?;
        Ok(Self {
            otid,
            topic,
            source,
            host,
            index,
            functions,
            request,
            instance,
            ttl: r.u16()?,
            cost: r.u32()?,
            domain,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&SOURCE.to_be_bytes());
        out.extend_from_slice(&self.otid);
        put_name(out, self.topic);
        put_name(out, self.source);
        for word in [self.host, self.index, self.functions] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.extend_from_slice(&self.request.0.octets());
        out.extend_from_slice(&self.request.1.to_be_bytes());
        out.extend_from_slice(&self.domain.to_be_bytes());
        out.extend_from_slice(&[0; 18]);
        out.extend_from_slice(&self.instance);
        out.push(0);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.ttl.to_be_bytes());
        out.extend_from_slice(&self.cost.to_be_bytes());
    }

    /// The record of an advertised source of the context `instance`; `serial` tells sources apart that have the same place one after the
    /// other. `source` is the text of its transport, which lives as long as the record.
    pub fn of(advert: &Advert<'a>, source: &'a str, instance: [u8; 8], serial: u32) -> Self {
        let (mut functions, mut request, mut session) = (0, (Ipv4Addr::UNSPECIFIED, 0), 0);
        let (mut cost, mut origin, mut router, mut domain) = (0, None, None, 0);
        for option in advert.options.iter().flatten() {
            match option {
                TopicOption::Functionality(o) => (functions, request) = (o.functions, (o.address, o.port)),
                TopicOption::LateJoin(o) => session = o.transport,
                TopicOption::Cost { hops: 1.., cost: of, .. } => cost = of.clamp(1, ENDED - 1),
                TopicOption::Origin { id, .. } => origin = Some(id),
                TopicOption::Instance { instance, .. } => router = Some(instance),
                TopicOption::Domain { domain: of, .. } => domain = of,
                _ => {}
            }
        }
        let host = match advert.transport {
            Transport::Lbtipc { host, .. } | Transport::Lbtsmx { host, .. } => host,
            _ => 0,
        };
        let mut otid = [0; OTID];
        otid[..4].copy_from_slice(OTID_MARK);
        otid[4..12].copy_from_slice(&instance);
        otid[12..16].copy_from_slice(&u32::to_be_bytes(session));
        otid[16..20].copy_from_slice(&advert.topic.to_be_bytes());
        otid[20..24].copy_from_slice(&serial.to_be_bytes());
        let proxy = origin.zip(router).filter(|_| cost > 0);
        let (otid, instance) = match proxy.and_then(|(origin, router)| Some((proxy_otid(&origin, router)?, router))) {
            Some(of_proxy) => of_proxy,
            None => (otid, instance),
        };
        Self {
            otid,
            topic: advert.name,
            source: source.as_bytes(),
            host,
            index: advert.topic,
            functions,
            request,
            instance,
            ttl: advert.ttl,
            cost,
            domain: if cost > 0 { domain } else { 0 },
        }
    }

    /// What an advertisement of the source would say; its options are written into `buffer`. `None`: the source's text names no
    /// transport that is known here.
    ///
    /// A record does not name the session of a request for late join. This project has it in the source's id; a source with an id of
    /// another form is taken for one that retains nothing.
    pub fn advert<'b>(&self, buffer: &'b mut [u8; OPTIONS_MAX]) -> Option<Advert<'b>>
    where
        'a: 'b,
    {
        let transport = parse_transport(core::str::from_utf8(self.source).ok()?, self.host)?;
        let mut w = Writer::new(buffer);
        let (address, port) = self.request;
        if port != 0 {
            let (mut functions, is_ours) = (self.functions, self.otid.starts_with(OTID_MARK));
            if functions & Functionality::LATE_JOIN != 0 && is_ours {
                let session = u32::from_be_bytes([self.otid[12], self.otid[13], self.otid[14], self.otid[15]]);
                let late = LateJoin { flags: 0, port, address, transport: session, high_sqn: 0, low_sqn: 0 };
                TopicOption::LateJoin(late).encode(&mut w).ok()?;
            } else {
                functions &= !Functionality::LATE_JOIN;
            }
            let option = Functionality { flags: IGNORE, port, address, functions };
            TopicOption::Functionality(option).encode(&mut w).ok()?;
        }
        if self.cost != 0 {
            TopicOption::Cost { flags: 0x80, hops: 1, cost: self.cost }.encode(&mut w).ok()?;
            if let Some(id) = origin_of(&self.otid) {
                TopicOption::Origin { flags: IGNORE, id }.encode(&mut w).ok()?;
                TopicOption::Instance { flags: 0x80, reserved: 0, instance: self.instance }.encode(&mut w).ok()?;
                TopicOption::Domain { flags: IGNORE, domain: self.domain }.encode(&mut w).ok()?;
            }
        }
        let length = w.position();
        let options = TopicOptions::from_encoded(&buffer[..length]);
        Some(Advert { name: self.topic, ttl: self.ttl, topic: self.index, options, transport })
    }
}

/// Bytes of the options that [`SourceInfo::advert`] writes, at most.
pub const OPTIONS_MAX: usize = 128;

/// A transport from its text, as `Display` of [`Transport`] writes it; also with marks in its name (`LBT-IPC`), and with the topic's
/// index in brackets behind it, as the product shows sources.
fn parse_transport(text: &str, host: u32) -> Option<Transport> {
    let text = text.split('[').next()?;
    let (kind, rest) = text.split_once(':')?;
    let kind: String = kind.chars().filter(|c| *c != '-').map(|c| c.to_ascii_uppercase()).collect();
    let fields: Vec<&str> = rest.split(':').collect();
    let session = |at: usize| fields.get(at).and_then(|text| u32::from_str_radix(text, 16).ok());
    let address = |at: usize| fields.get(at).and_then(|text| text.parse::<Ipv4Addr>().ok());
    let port = |at: usize| fields.get(at).and_then(|text| text.parse::<u16>().ok());
    Some(match (kind.as_str(), fields.len()) {
        ("TCP", 2) => Transport::Tcp { address: address(0)?, session_id: None, port: port(1)? },
        ("TCP", 3) => Transport::Tcp { address: address(0)?, session_id: Some(session(2)?), port: port(1)? },
        ("LBTRU", 2) => Transport::Lbtru { address: address(0)?, session_id: None, port: port(1)? },
        ("LBTRU", 3) => Transport::Lbtru { address: address(0)?, session_id: Some(session(2)?), port: port(1)? },
        ("LBTRM", 5) => Transport::Lbtrm {
            source: address(0)?,
            group: address(3).filter(Ipv4Addr::is_multicast)?,
            session_id: session(2)?,
            destination_port: port(4)?,
            unicast_port: port(1)?,
        },
        ("LBTIPC", 2) => Transport::Lbtipc { host, session_id: session(0)?, transport: port(1)? },
        ("LBTSMX", 2) => Transport::Lbtsmx { host, session_id: session(0)?, transport: port(1)? },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transports() -> Vec<Transport> {
        let (address, group) = (Ipv4Addr::new(10, 1, 1, 10), Ipv4Addr::new(224, 10, 10, 10));
        vec![
            Transport::Tcp { address, session_id: Some(0x7C90_0001), port: 14_371 },
            Transport::Tcp { address, session_id: None, port: 14_371 },
            Transport::Lbtru { address, session_id: Some(7), port: 14_380 },
            Transport::Lbtru { address, session_id: None, port: 14_380 },
            Transport::Lbtrm {
                source: address,
                group,
                session_id: 0x5E55_1D01,
                destination_port: 14_400,
                unicast_port: 14_390,
            },
            Transport::Lbtipc { host: 0xA0_0001, session_id: 0x7C90_0003, transport: 20_001 },
            Transport::Lbtsmx { host: 0xA0_0001, session_id: 0x7C90_0003, transport: 20_001 },
        ]
    }

    #[test]
    fn an_advertisement_comes_back_from_its_record_by_every_transport() {
        for (transport, late_join) in transports().into_iter().flat_map(|t| [(t, false), (t, true)]) {
            let mut buffer = [0; OPTIONS_MAX];
            let mut w = Writer::new(&mut buffer);
            let (address, port) = (Ipv4Addr::new(10, 1, 1, 10), 14_391);
            let functions = if late_join { Functionality::LATE_JOIN } else { Functionality::PERSISTENCE };
            if late_join {
                let late = LateJoin { flags: 0, port, address, transport: 9, high_sqn: 0, low_sqn: 0 };
                TopicOption::LateJoin(late).encode(&mut w).expect("fits");
            }
            let option = Functionality { flags: IGNORE, port, address, functions };
            TopicOption::Functionality(option).encode(&mut w).expect("fits");
            let options = TopicOptions::from_encoded(w.written());
            let advert = Advert { name: b"md.ibm", ttl: 60, topic: 42, options, transport };
            let source = transport.to_string();
            let mut bytes = Vec::new();
            Record::Source(SourceInfo::of(&advert, &source, [3; 8], 1)).encode(&mut bytes);
            assert!(bytes.len() <= RECORD_MAX);
            let message = Message::decode(&bytes).expect("ours");
            let records: Vec<_> = message.records().collect();
            let [Ok(Record::Source(info))] = records[..] else { panic!("{records:?}") };
            let mut buffer = [0; OPTIONS_MAX];
            assert_eq!(info.advert(&mut buffer), Some(advert), "{source}");
        }
    }

    #[test]
    fn a_proxy_source_comes_back_with_its_source_and_its_router() {
        let mut origin = [0; 32];
        origin[..9].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 42, 1]);
        origin[12..28].copy_from_slice(&[9; 16]);
        let advertise = |origin: [u8; 32], router: [u8; 8]| {
            let mut buffer = [0; OPTIONS_MAX];
            let mut w = Writer::new(&mut buffer);
            TopicOption::Cost { flags: 0x80, hops: 1, cost: 3 }.encode(&mut w).expect("fits");
            TopicOption::Origin { flags: IGNORE, id: origin }.encode(&mut w).expect("fits");
            TopicOption::Instance { flags: 0x80, reserved: 0, instance: router }.encode(&mut w).expect("fits");
            TopicOption::Domain { flags: IGNORE, domain: 1 }.encode(&mut w).expect("fits");
            let transport = transports()[0];
            let options = TopicOptions::from_encoded(w.written());
            let advert = Advert { name: b"a", ttl: 60, topic: 7, options, transport };
            let text = transport.to_string();
            let info = SourceInfo::of(&advert, &text, [3; 8], 1);
            let mut buffer = [0; OPTIONS_MAX];
            (info.otid, info.instance, info.advert(&mut buffer) == Some(advert))
        };
        let (one, two) = ([1, 2, 3, 4, 5, 6, 7, 8], [8, 2, 3, 4, 5, 6, 7, 8]);
        let (of_one, of_two) = (advertise(origin, one), advertise(origin, two));
        assert!(of_one.2 && of_two.2 && of_one.0 != of_two.0, "each router has a proxy source of its own");
        assert_eq!(of_one.1, one);
        // An id that is no originating transport id of this project cannot be named: it is a proxy source all the same.
        origin[31] = 1;
        let (otid, instance, _) = advertise(origin, one);
        assert!(otid.starts_with(OTID_MARK) && instance == [3; 8]);
    }

    #[test]
    fn sources_are_read_as_the_product_writes_them() {
        let group = Ipv4Addr::new(231, 13, 13, 13);
        let expected = Transport::Lbtrm {
            source: Ipv4Addr::new(10, 29, 3, 88),
            group,
            session_id: 0xE067_9ABB,
            destination_port: 14_400,
            unicast_port: 14_390,
        };
        assert_eq!(
            parse_transport("LBT-RM:10.29.3.88:14390:e0679abb:231.13.13.13:14400[1539853954]", 0),
            Some(expected)
        );
        for bad in [
            "",
            "TCP",
            "TCP:1.2.3.4",
            "TCP:1.2.3.4:99999",
            "LBTRM:10.0.0.1:1:2:10.0.0.2:3",
            "LBTIPC:xyz:1",
            "PIGEON:1.2.3.4:5",
        ] {
            assert_eq!(parse_transport(bad, 0), None, "{bad}");
        }
    }

    #[test]
    fn a_source_with_a_foreign_id_retains_nothing() {
        let source = "TCP:10.0.0.1:14371";
        let (otid, request) = ([0xAB; OTID], (Ipv4Addr::new(10, 0, 0, 1), 14_391));
        let info = SourceInfo {
            otid,
            topic: b"a",
            source: source.as_bytes(),
            host: 0,
            index: 1,
            functions: Functionality::LATE_JOIN | Functionality::PERSISTENCE,
            request,
            instance: [0; 8],
            ttl: 0,
            cost: 0,
            domain: 0,
        };
        let mut buffer = [0; OPTIONS_MAX];
        let advert = info.advert(&mut buffer).expect("a transport");
        let options: Vec<_> = advert.options.iter().flatten().collect();
        let [TopicOption::Functionality(only)] = options[..] else { panic!("{options:?}") };
        assert_eq!(only.functions, Functionality::PERSISTENCE);
    }

    #[test]
    fn every_record_comes_back_and_what_is_cut_is_an_error() {
        let mut bytes = Vec::new();
        let mut expected = vec![Record::SourceDeleted { otid: [7; OTID], topic: b"gone" }];
        for pattern in [false, true] {
            for kind in [InterestKind::Wanted, InterestKind::Unwanted, InterestKind::Ended] {
                expected.push(Record::Interest(Interest { kind, pattern, name: b"a.*", domain: 3, instance: [9; 8] }));
            }
        }
        for record in &expected {
            record.encode(&mut bytes);
        }
        let message = Message::decode(&bytes).expect("ours");
        assert_eq!(message.records().collect::<Result<Vec<_>, _>>().as_deref(), Ok(&expected[..]));
        let whole = |length: usize| {
            let message = Message::decode(&bytes[..length]).ok()?;
            let records: Vec<_> = message.records().collect();
            Some(records.iter().filter(|record| record.is_ok()).count())
        };
        assert!((2..bytes.len()).all(|length| whole(length).is_some_and(|n| n < expected.len())));
        // Records of routers and names are passed over.
        let name = [&[0, 17, 2, b'n', 0][..], &[0; 18], &[0; 21]].concat();
        let route = [&[0, 13, 0, 2][..], &[0; 8], &[0; 6], &[0; 21]].concat();
        let mixed = [&name[..], &route, &bytes[..40]].concat();
        let records: Result<Vec<_>, _> = Message::decode(&mixed).expect("a batch").records().collect();
        assert_eq!(records.map(|records| records.len()), Ok(3));
    }

    #[test]
    fn registrations_come_back() {
        let request = RegistrationRequest {
            kind: 0,
            address: Ipv4Addr::new(10, 1, 1, 10),
            port: 40_000,
            session: 1,
            host: 2,
            protocol: PROTOCOL,
            interest_mode: interest_mode::FILTER,
            domain: 0,
        };
        let response = RegistrationResponse { client: 5, domain: 0, protocol: PROTOCOL };
        for message in [Message::Register(request), Message::Registered(response), Message::Stream] {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert_eq!(Message::decode(&bytes), Ok(message));
            bytes.push(0);
            assert!(Message::decode(&bytes).is_err(), "a byte too many");
        }
    }
}
