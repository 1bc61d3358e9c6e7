//! LBMC headers of persistence. Layouts are those of Wireshark's dissector; stock tshark 4.0.17 reads each without an error
//! (`tests/all/tshark.rs`). Numbers are big-endian.

use core::net::Ipv4Addr;

use lbm::wire::WireError;
use lbm::wire::header::{ExtensionOption, Header, IGNORE, LateJoinInfo, RetransmitRequest};
use lbm::wire::lbmr::Transport;

use crate::repository::Repository;

/// The longest control message that is written here: a source's word with 64 stores, each in a group of its own, and 24 incarnations.
const CONTROL_MAX: usize = 2_400;
/// Incarnations of a source that a message names at most: as many as an option of 255 bytes holds with room to spare.
pub const EPOCHS_MAX: usize = 24;

/// Codes of the headers.
pub mod code {
    /// Registration of a source or a receiver at a store.
    pub const REGISTRATION: u8 = 18;
    /// Answer to it.
    pub const REGISTRATION_RESPONSE: u8 = 19;
    /// Stability at a store, or consumption by a receiver.
    pub const ACK: u8 = 20;
    /// A client is alive.
    pub const KEEPALIVE: u8 = 22;
    /// Which of a source's stores speaks.
    pub const STORE_ID: u8 = 23;
    /// All numbers that an acknowledgement is about.
    pub const RANGED_ACK: u8 = 24;
    /// Incarnation of the source that an acknowledgement is about.
    pub const ACK_ID: u8 = 25;
    /// Capabilities of a client.
    pub const CAPABILITY: u8 = 26;
    /// Whether stores stand in for a source that is gone.
    pub const PROXY_SOURCE: u8 = 27;
    /// A group of stores.
    pub const STORE_GROUP: u8 = 28;
    /// How long a client may be silent.
    pub const CLIENT_LIFETIME: u8 = 70;
    /// The session of the client's program.
    pub const SESSION: u8 = 71;
    /// A receiver asks for a source's stores.
    pub const SOURCE_INFO_REQUEST: u8 = 83;
    /// A source's stores and numbers.
    pub const SOURCE_INFO: u8 = 85;
    /// A store of a source.
    pub const STORE: u8 = 105;
}

/// A source or receiver registers at a store: PREG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// [`Registration::PACED`], [`Registration::DEREGISTER`] and the product's others.
    pub flags: u8,
    /// Whether the client is a source.
    pub source: bool,
    /// The client's registration id; 0: the store knows it by the session, or gives one.
    pub reg_id: u32,
    /// Index of the transport session in the source's context.
    pub transport: u32,
    /// Topic index of the source.
    pub topic: u32,
    /// Of a receiver: the source's registration id.
    pub source_reg_id: u32,
    /// The client's request port.
    pub port: u16,
    /// The client's address.
    pub address: Ipv4Addr,
}

impl Registration {
    /// Flag: acknowledgements of receivers are not forwarded to this source.
    pub const NO_FORWARD: u8 = 0x40;
    /// Flag: stores stand in for the source when it is gone.
    pub const PROXY: u8 = 0x20;
    /// Flag: persistence is paced by receivers.
    pub const PACED: u8 = 0x10;
    /// Flag: the client leaves for good.
    pub const DEREGISTER: u8 = 0x08;
}

/// A store's answer to a registration: PREG-RESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistrationResponse {
    /// 0x20: an error, with its number in the low four bits; [`RegistrationResponse::PACED`].
    pub code: u8,
    /// Whether the client is a source.
    pub source: bool,
    /// The client's registration id from now on.
    pub reg_id: u32,
    /// As in the registration.
    pub transport: u32,
    /// As in the registration.
    pub topic: u32,
    /// For a source its oldest number that is held; for a receiver the first that it has not consumed.
    pub low: u32,
    /// The newest number that the store has of the source. `low - 1`: none.
    pub high: u32,
}

impl RegistrationResponse {
    /// Code: paced by receivers.
    pub const PACED: u8 = 0x02;
    const ERROR: u8 = 0x20;

    /// The error, if it is one.
    pub fn refusal(&self) -> Option<Refusal> {
        if self.code & Self::ERROR == 0 {
            return None;
        }
        Some(match self.code & 0x0F {
            2 => Refusal::NoSuchSource,
            3 => Refusal::UsedByReceiver,
            4 => Refusal::OtherTopic,
            5 => Refusal::UsedBySource,
            6 => Refusal::Incompatible,
            _ => Refusal::NoPattern,
        })
    }
}

/// Reasons for which a store refuses a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 1: none of the store's patterns has the topic, or the store is full.
    NoPattern,
    /// 2: a receiver names a source that is not registered.
    NoSuchSource,
    /// 3: the registration id is a receiver's.
    UsedByReceiver,
    /// 4: the registration id was another topic's.
    OtherTopic,
    /// 5: the registration id is another source's, which is alive.
    UsedBySource,
    /// 6: what source and store are to do differs.
    Incompatible,
}

impl Refusal {
    /// The response's code.
    pub const fn code(self) -> u8 {
        RegistrationResponse::ERROR
            | match self {
                Self::NoPattern => 1,
                Self::NoSuchSource => 2,
                Self::UsedByReceiver => 3,
                Self::OtherTopic => 4,
                Self::UsedBySource => 5,
                Self::Incompatible => 6,
            }
    }

    /// In words, with what to do.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NoPattern => "the store takes no such topic, or no more of them: look at its configuration",
            Self::NoSuchSource => "the store does not know the source: it has to register first",
            Self::UsedByReceiver => "the registration id is a receiver's: give another one, or a session id",
            Self::OtherTopic => "the registration id was another topic's: give another one, or a session id",
            Self::UsedBySource => {
                "the registration id is that of a source that is alive: give another one, or a session id"
            }
            Self::Incompatible => "source and store are configured differently: look at pacing by receivers",
        }
    }
}

/// A message is stable, or consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The product's flags.
    pub flags: u8,
    /// Whether it tells stability at a store, else consumption by a receiver.
    pub stable: bool,
    /// As in the registration.
    pub transport: u32,
    /// Topic index, or of a receiver the source's registration id.
    pub topic: u32,
    /// Registration id of the receiver; 0 for stability.
    pub receiver: u32,
    /// The newest number.
    pub sqn: u32,
}

/// A header of persistence, or one of late join that is used with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of these are named by the format")]
pub enum Ume<'a> {
    Registration(Registration),
    Response(RegistrationResponse),
    Ack(Ack),
    /// `kind`: 0 store, 1 receiver, 2 source.
    Keepalive {
        flags: u8,
        kind: u8,
        transport: u32,
        topic: u32,
        reg_id: u32,
    },
    StoreId(u16),
    Range {
        first: u32,
        last: u32,
    },
    AckId(u32),
    Capability(u16),
    /// [`PROXY_ENABLED`].
    ProxySource(u16),
    StoreGroup {
        group: u8,
        size: u16,
    },
    /// Milliseconds.
    Lifetime {
        activity_ms: u32,
        state_ms: u32,
    },
    Session(u64),
    InfoRequest {
        transport: u32,
        topic: u32,
    },
    /// `low` is the first number of the source's incarnation if `flags` has [`INITIAL_KNOWN`]; `high` the newest sent.
    Info {
        flags: u16,
        epoch: u32,
        low: u32,
        high: u32,
    },
    Store {
        group: u8,
        port: u16,
        index: u16,
        address: Ipv4Addr,
        reg_id: u32,
    },
    /// Of the topic that the message is about.
    TopicIndex(u32),
    TopicName(&'a [u8]),
    Origin([u8; 32]),
    Retransmit(RetransmitRequest),
    Retained(LateJoinInfo),
    /// Incarnations of a source: pairs of epoch and first number, 8 bytes each. A private option.
    ///
    /// `is_new`, of a store's answer: the client was not known there.
    Epochs {
        is_new: bool,
        pairs: &'a [u8],
    },
    /// Limits that a source asks of the store. A private option.
    Repository(Repository),
}

/// Flag of a source's information: its first number is known.
pub const INITIAL_KNOWN: u16 = 2;
/// Of a registration: stores are to stand in for the source when it is gone.
pub const PROXY_ENABLED: u16 = 0x4000;
/// Capability: quorum and consensus.
pub const QUORUM_CONSENSUS: u16 = 0x4000;
/// Marker of our private option that has incarnations.
const EPOCHS: u8 = 2;
/// Likewise of the one that has what a source asks of a store.
const REPOSITORY: u8 = 3;
/// Marker of a source in registrations.
const SOURCE: u8 = 0x80;

/// Reads the fields of a header.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, rest) =
            self.0.split_first_chunk::<N>().ok_or(WireError::Truncated { what: "header of persistence", offset: 2 })?;
        self.0 = rest;
        Ok(*head)
    }
    fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.take::<1>()?[0])
    }
    fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_be_bytes(self.take()?))
    }
    fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_be_bytes(self.take()?))
    }
    fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_be_bytes(self.take()?))
    }
    fn address(&mut self) -> Result<Ipv4Addr, WireError> {
        Ok(self.take::<4>()?.into())
    }
}

impl<'a> Ume<'a> {
    /// The header as one of persistence. `None` for all others.
    ///
    /// # Errors
    /// It is one, and too short.
    pub fn of(header: &Header<'a>) -> Result<Option<Self>, WireError> {
        Ok(Some(match *header {
            Header::Unknown { code, body } => return Self::decode(code, body),
            Header::TopicName { name, .. } => Self::TopicName(name),
            Header::TopicIndex { index, .. } => Self::TopicIndex(index),
            Header::OriginatingTransport { id, .. } => Self::Origin(id),
            Header::RetransmitRequest(request) => Self::Retransmit(request),
            Header::LateJoinInfo(info) => Self::Retained(info),
            Header::Option(ExtensionOption {
                subtype: ExtensionOption::QUOTEWAY,
                data: [EPOCHS, is_new, 0, 0, pairs @ ..],
                ..
            }) => Self::Epochs { is_new: *is_new != 0, pairs },
            Header::Option(ExtensionOption {
                subtype: ExtensionOption::QUOTEWAY,
                data: [REPOSITORY, settings @ ..],
                ..
            }) => match Repository::decode(settings) {
                Some(repository) => Self::Repository(repository),
                None => return Err(WireError::Truncated { what: "what a source asks of a store", offset: 8 }),
            },
            _ => return Ok(None),
        }))
    }

    fn decode(code: u8, body: &'a [u8]) -> Result<Option<Self>, WireError> {
        let mut f = Fields(body);
        Ok(Some(match code {
            code::REGISTRATION => Self::Registration(Registration {
                flags: f.u8()?,
                source: f.u8()? & SOURCE != 0,
                reg_id: f.u32()?,
                transport: f.u32()?,
                topic: f.u32()?,
                source_reg_id: f.u32()?,
                port: (f.u16()?, f.u16()?).0,
                address: f.address()?,
            }),
            code::REGISTRATION_RESPONSE => Self::Response(RegistrationResponse {
                code: f.u8()?,
                source: f.u8()? & SOURCE != 0,
                reg_id: f.u32()?,
                transport: f.u32()?,
                topic: f.u32()?,
                low: f.u32()?,
                high: f.u32()?,
            }),
            code::ACK => Self::Ack(Ack {
                flags: f.u8()?,
                stable: f.u8()? == 1,
                transport: f.u32()?,
                topic: f.u32()?,
                receiver: f.u32()?,
                sqn: f.u32()?,
            }),
            code::KEEPALIVE => Self::Keepalive {
                flags: f.u8()?,
                kind: f.u8()?,
                transport: f.u32()?,
                topic: f.u32()?,
                reg_id: f.u32()?,
            },
            code::STORE_ID => Self::StoreId(f.u16()? & 0x7FFF),
            code::RANGED_ACK => Self::Range { first: (f.u16()?, f.u32()?).1, last: f.u32()? },
            code::ACK_ID => Self::AckId((f.u16()?, f.u32()?).1),
            code::CAPABILITY => Self::Capability(f.u16()?),
            code::PROXY_SOURCE => Self::ProxySource(f.u16()?),
            code::STORE_GROUP => Self::StoreGroup { group: (f.u8()?, f.u8()?).1, size: f.u16()? },
            code::CLIENT_LIFETIME => Self::Lifetime { activity_ms: (f.u16()?, f.u32()?).1, state_ms: f.u32()? },
            code::SESSION => Self::Session((f.u16()?, f.u64()?).1),
            code::SOURCE_INFO_REQUEST => Self::InfoRequest { transport: (f.u16()?, f.u32()?).1, topic: f.u32()? },
            code::SOURCE_INFO => Self::Info { flags: f.u16()?, epoch: f.u32()?, low: f.u32()?, high: f.u32()? },
            code::STORE => Self::Store {
                group: (f.u8()?, f.u8()?).1,
                port: f.u16()?,
                index: f.u16()?,
                address: f.address()?,
                reg_id: f.u32()?,
            },
            _ => return Ok(None),
        }))
    }

    const fn code(&self) -> u8 {
        use lbm::wire::header::code as c;
        match self {
            Self::Registration(_) => code::REGISTRATION,
            Self::Response(_) => code::REGISTRATION_RESPONSE,
            Self::Ack(_) => code::ACK,
            Self::Keepalive { .. } => code::KEEPALIVE,
            Self::StoreId(_) => code::STORE_ID,
            Self::Range { .. } => code::RANGED_ACK,
            Self::AckId(_) => code::ACK_ID,
            Self::Capability(_) => code::CAPABILITY,
            Self::ProxySource(_) => code::PROXY_SOURCE,
            Self::StoreGroup { .. } => code::STORE_GROUP,
            Self::Lifetime { .. } => code::CLIENT_LIFETIME,
            Self::Session(_) => code::SESSION,
            Self::InfoRequest { .. } => code::SOURCE_INFO_REQUEST,
            Self::Info { .. } => code::SOURCE_INFO,
            Self::Store { .. } => code::STORE,
            Self::TopicIndex(_) => c::TOPIC_INDEX,
            Self::TopicName(_) => c::TOPIC_NAME,
            Self::Origin(_) => c::ORIGINATING_TRANSPORT,
            Self::Retransmit(_) => c::RETRANSMIT_REQUEST,
            Self::Retained(_) => c::LATE_JOIN_INFO,
            Self::Epochs { .. } | Self::Repository(_) => c::OPTION,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        let words =
            |out: &mut Vec<u8>, words: &[u32]| words.iter().for_each(|w| out.extend_from_slice(&w.to_be_bytes()));
        let short = |out: &mut Vec<u8>, value: u16| out.extend_from_slice(&value.to_be_bytes());
        let marker = |source: bool| if source { SOURCE } else { 0 };
        match *self {
            Self::Registration(r) => {
                out.extend_from_slice(&[r.flags, marker(r.source)]);
                words(
                    out,
                    &[r.reg_id, r.transport, r.topic, r.source_reg_id, u32::from(r.port) << 16, r.address.into()],
                );
            }
            Self::Response(r) => {
                out.extend_from_slice(&[r.code, marker(r.source)]);
                words(out, &[r.reg_id, r.transport, r.topic, r.low, r.high]);
            }
            Self::Ack(a) => {
                out.extend_from_slice(&[a.flags, u8::from(a.stable)]);
                words(out, &[a.transport, a.topic, a.receiver, a.sqn]);
            }
            Self::Keepalive { flags, kind, transport, topic, reg_id } => {
                out.extend_from_slice(&[flags, kind]);
                words(out, &[transport, topic, reg_id]);
            }
            Self::StoreId(value) | Self::Capability(value) | Self::ProxySource(value) => short(out, value),
            Self::Range { first, last } => {
                short(out, IGNORE);
                words(out, &[first, last]);
            }
            Self::AckId(id) => {
                short(out, IGNORE);
                words(out, &[id]);
            }
            Self::StoreGroup { group, size } => {
                out.extend_from_slice(&[0, group]);
                words(out, &[u32::from(size) << 16]);
            }
            Self::Lifetime { activity_ms, state_ms } => {
                short(out, IGNORE);
                words(out, &[activity_ms, state_ms, 0]);
            }
            Self::Session(id) => {
                short(out, IGNORE);
                words(out, &[(id >> 32) as u32, id as u32]);
            }
            Self::InfoRequest { transport, topic } => {
                short(out, 0);
                words(out, &[transport, topic]);
            }
            Self::Info { flags, epoch, low, high } => {
                short(out, flags);
                words(out, &[epoch, low, high]);
            }
            Self::Store { group, port, index, address, reg_id } => {
                out.extend_from_slice(&[0, group]);
                words(out, &[u32::from(port) << 16 | u32::from(index), address.into(), reg_id, 0, 1]);
            }
            Self::TopicIndex(index) => {
                short(out, IGNORE);
                words(out, &[index]);
            }
            Self::TopicName(name) => {
                short(out, 0);
                out.extend_from_slice(name);
            }
            Self::Origin(id) => {
                short(out, IGNORE);
                out.extend_from_slice(&id);
            }
            Self::Retransmit(q) => {
                short(out, q.flags);
                words(out, &[q.request, q.transport, q.topic, q.sqn, u32::from(q.port) << 16, q.address.into()]);
            }
            Self::Retained(info) => {
                short(out, info.flags);
                words(out, &[info.low_sqn, info.high_sqn, info.request]);
            }
            Self::Epochs { is_new, pairs } => {
                out.extend_from_slice(&[0xC0, 0]);
                short(out, ExtensionOption::QUOTEWAY);
                out.extend_from_slice(&[0, 0, EPOCHS, u8::from(is_new), 0, 0]);
                out.extend_from_slice(pairs);
            }
            Self::Repository(repository) => {
                out.extend_from_slice(&[0xC0, 0]);
                short(out, ExtensionOption::QUOTEWAY);
                out.extend_from_slice(&[0, 0, REPOSITORY]);
                out.extend_from_slice(&repository.encode());
                out.extend_from_slice(&[0, 0]);
            }
        }
    }
}

/// Adds a control message to `out`. What would be longer than a header or a control message can be is left out whole: topic names are
/// bounded by [`lbm::resolver`], incarnations by [`EPOCHS_MAX`], stores of a source by its configuration.
pub fn control(out: &mut Vec<u8>, headers: &[Ume<'_>]) {
    let start = out.len();
    let code_of = |i: usize| headers.get(i).map_or(lbm::wire::lbmc::NEXT_NONE, Ume::code);
    out.extend_from_slice(&[0x08, code_of(0), 0, 0]);
    for (i, header) in headers.iter().enumerate() {
        let at = out.len();
        out.extend_from_slice(&[code_of(i + 1), 0]);
        header.put(out);
        let Ok(length) = u8::try_from(out.len() - at) else { return out.truncate(start) };
        out[at + 1] = length;
    }
    let length = out.len() - start;
    if length > CONTROL_MAX {
        return out.truncate(start);
    }
    out[start + 2..start + 4].copy_from_slice(&(length as u16).to_be_bytes());
}

/// The bytes that tell the transport session and topic of a source from all others: [`Transport::originating_id`].
pub fn origin(transport: &Transport, topic: u32) -> [u8; 32] {
    transport.originating_id(topic)
}
