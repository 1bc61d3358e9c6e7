//! LBMC headers of queuing by load. Layouts are those of Wireshark's dissector; stock tshark 4.0.17 reads each without an error
//! (`tests/all/tshark.rs`). Numbers are big-endian. The queue's id, which brokers have, is 0 here.

use core::net::Ipv4Addr;

use lbm::wire::WireError;
use lbm::wire::header::{ExtensionOption, Header, IGNORE};

use crate::{Index, MessageId};

/// The longest control message that is written here.
pub const CONTROL_MAX: usize = 1_400;
/// Messages that one consumption report names at most: so many ids and the fields around them have room in a header.
pub const REPORT_MAX: usize = 14;

/// Codes of the headers.
pub mod code {
    /// Id of a message.
    pub const MESSAGE_ID: u8 = 8;
    /// Which receiver of an application set a message is for.
    pub const ASSIGNMENT: u8 = 15;
    /// Registration of a receiver at a source.
    pub const REGISTRATION: u8 = 48;
    /// Answer to it.
    pub const REGISTRATION_RESPONSE: u8 = 49;
    /// Consumption report.
    pub const ACK: u8 = 50;
    /// A source asks whether a receiver is there, or the receiver answers.
    pub const KEEPALIVE: u8 = 52;
    /// How much a receiver has to do.
    pub const LOAD_FACTOR: u8 = 63;
}

/// Kind of our private option: the index of a message. 1 are replies, 2 is hot failover.
const INDEX: u8 = 3;

/// Which receiver of an application set a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The source's id.
    pub source: u32,
    /// The receiver's assignment id.
    pub receiver: u32,
    /// The application set.
    pub set: u16,
    /// How often the message was assigned before in this set; not 0: somebody may have had it.
    pub again: u16,
}

/// A receiver registers at a source, or leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The receiver's program.
    pub reg_id: u64,
    /// Counts the receiver's commands.
    pub command: u16,
    /// The source's id.
    pub source: u32,
    /// The receiver's assignment id.
    pub receiver: u32,
    /// The part that a registration has, and a deregistration has not.
    pub joins: Option<Joins>,
}

/// A receiver's description of itself when it registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joins {
    /// Its receiver type id: `umq_receiver_type_id`.
    pub kind: u32,
    /// Whether it takes indices: `umq_index_assignment_eligibility_default`.
    pub takes_indices: bool,
    /// Port and address of its request port, if it has one.
    pub port: u16,
    /// See `port`.
    pub address: Ipv4Addr,
}

/// A source's answer to a registration or deregistration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistrationResponse {
    /// As in the registration.
    pub reg_id: u64,
    /// As in the registration.
    pub command: u16,
    /// The outcome.
    pub answer: Answer,
}

/// See [`RegistrationResponse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The receiver is one of the application set.
    Registered {
        /// The source's id.
        source: u32,
        /// The receiver's assignment id.
        receiver: u32,
        /// The set.
        set: u16,
    },
    /// The receiver is registered no more.
    Left {
        /// The source's id.
        source: u32,
        /// The receiver's assignment id.
        receiver: u32,
    },
    /// The source does not take it.
    Refused(Refusal),
}

/// Why a source does not take a receiver. Numbers and their meanings are those of Wireshark's dissector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 6: the source does not know the receiver, or no more: it has to register.
    Unknown,
    /// 8: another receiver has this assignment id.
    AssignmentIdInUse,
    /// 9: no application set of the source has the receiver's type.
    ReceiverType,
    /// 10: the source has no room for another receiver.
    Full,
}

impl Refusal {
    const fn number(self) -> u16 {
        match self {
            Self::Unknown => 6,
            Self::AssignmentIdInUse => 8,
            Self::ReceiverType => 9,
            Self::Full => 10,
        }
    }

    const fn of(number: u16) -> Self {
        match number {
            8 => Self::AssignmentIdInUse,
            9 => Self::ReceiverType,
            10 => Self::Full,
            _ => Self::Unknown,
        }
    }

    /// In words, with what to do.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Unknown => "the source does not know the receiver any more: it registers again",
            Self::AssignmentIdInUse => "another receiver has this assignment id: it takes another one",
            Self::ReceiverType => {
                "no application set of the source has this receiver type: look at umq_ulb_application_set of the source \
                 and umq_receiver_type_id of the receiver"
            }
            Self::Full => "the source has no room for another receiver",
        }
    }
}

/// How much a receiver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// From so many sources of queues it receives.
    pub sources: u16,
    /// So many messages it has not consumed, of all sources together.
    pub messages: u16,
}

/// A header of queuing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of these are named by the format")]
pub enum Ulb<'a> {
    MessageId(MessageId),
    Assignment(Assignment),
    Registration(Registration),
    Response(RegistrationResponse),
    /// `ids`: 16 bytes each, of which [`stamps`] takes the numbers.
    Consumed {
        source: u32,
        receiver: u32,
        set: u16,
        ids: &'a [u8],
    },
    /// From the source, which wants an answer; with an application set it is the receiver's answer.
    Keepalive {
        answer: Option<u16>,
        reg_id: u64,
        source: u32,
        receiver: u32,
    },
    Load(Load),
    Index(IndexRef<'a>),
    /// Of the topic that a control message is about.
    TopicIndex(u32),
    /// Session and topic of the source that a receiver speaks to: [`Transport::originating_id`](lbm::wire::lbmr::Transport::originating_id).
    Origin([u8; 32]),
}

/// An index where it lies in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexRef<'a> {
    /// A number.
    Number(u64),
    /// A text.
    Text(&'a [u8]),
}

impl IndexRef<'_> {
    /// The index, kept.
    pub fn to_index(self) -> Index {
        match self {
            Self::Number(number) => Index::Number(number),
            Self::Text(text) => Index::Text(text.into()),
        }
    }
}

impl Index {
    /// The index, borrowed.
    pub fn borrowed(&self) -> IndexRef<'_> {
        match self {
            Self::Number(number) => IndexRef::Number(*number),
            Self::Text(text) => IndexRef::Text(text),
        }
    }
}

/// The stamps of a consumption report.
pub fn stamps(ids: &[u8]) -> impl Iterator<Item = u64> {
    ids.chunks_exact(16).filter_map(|id| Some(u64::from_be_bytes(*id.last_chunk()?)))
}

const IGNORE_BYTE: u8 = 0x80;
const ASSIGNED: u16 = 0x4000;
const REASSIGNED: u16 = 0x2000;
const TAKES_INDICES: u8 = 0x10;
const RESPONSE_WANTED: u8 = 0x40;
/// Flag of errors: they are about a source, not a broker.
const OF_ULB: u8 = 0x20;
const REGISTERS: u8 = 5;
const LEAVES: u8 = 6;
const ERROR: u8 = 0xFF;
const CONSUMED: u8 = 3;
const ALIVE: u8 = 3;
const ALIVE_ANSWER: u8 = 19;
const LOAD_OF_RECEIVER: u8 = 2;

/// Reads the fields of a header.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let short = WireError::Truncated { what: "header of queuing", offset: 2 };
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(short)?;
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
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let short = WireError::Truncated { what: "header of queuing", offset: 2 };
        let (head, rest) = self.0.split_at_checked(length).ok_or(short)?;
        self.0 = rest;
        Ok(head)
    }
}

impl<'a> Ulb<'a> {
    /// The header as one of queuing by load. `None` for all others.
    ///
    /// # Errors
    /// The header is one, and too short.
    pub fn of(header: &Header<'a>) -> Result<Option<Self>, WireError> {
        match *header {
            Header::Unknown { code, body } => Self::decode(code, body),
            Header::TopicIndex { index, .. } => Ok(Some(Self::TopicIndex(index))),
            Header::OriginatingTransport { id, .. } => Ok(Some(Self::Origin(id))),
            Header::Option(ExtensionOption { subtype: ExtensionOption::QUOTEWAY, data, .. }) => {
                Ok(Self::index_of(data).map(Self::Index))
            }
            _ => Ok(None),
        }
    }

    fn index_of(data: &'a [u8]) -> Option<IndexRef<'a>> {
        match data {
            [INDEX, 1, 0, 0, number @ ..] => Some(IndexRef::Number(u64::from_be_bytes(number.try_into().ok()?))),
            [INDEX, 0, 0, 0, text @ ..] => Some(IndexRef::Text(text)),
            _ => None,
        }
    }

    fn decode(code: u8, body: &'a [u8]) -> Result<Option<Self>, WireError> {
        let mut f = Fields(body);
        Ok(Some(match code {
            code::MESSAGE_ID => Self::MessageId(MessageId { source: (f.u16()?, f.u64()?).1 as u32, stamp: f.u64()? }),
            code::ASSIGNMENT => {
                let (flags, _queue) = (f.u16()?, f.u32()?);
                if flags & ASSIGNED == 0 {
                    return Ok(None);
                }
                Self::Assignment(Assignment {
                    source: f.u32()?,
                    receiver: f.u32()?,
                    set: f.u16()?,
                    again: f.u16()?.max(u16::from(flags & REASSIGNED != 0)),
                })
            }
            code::REGISTRATION => return Self::registration(&mut f),
            code::REGISTRATION_RESPONSE => return Self::response(&mut f),
            code::ACK => {
                let count = usize::from(f.u8()? & 0x0F);
                if f.u8()? != CONSUMED {
                    return Ok(None);
                }
                let ids = f.bytes(16 * count)?;
                Self::Consumed { source: f.u32()?, receiver: f.u32()?, set: f.u16()?, ids }
            }
            code::KEEPALIVE => {
                let (_flags, kind, _queue, reg_id) = (f.u8()?, f.u8()?, f.u32()?, f.u64()?);
                let (source, receiver) = ((f.u32()?, f.u32()?).1, f.u32()?);
                let answer = match kind {
                    ALIVE => None,
                    ALIVE_ANSWER => Some(f.u16()?),
                    _ => return Ok(None),
                };
                Self::Keepalive { answer, reg_id, source, receiver }
            }
            code::LOAD_FACTOR => Self::Load(Load { sources: (f.u16()?, f.u16()?).1, messages: f.u16()? }),
            _ => return Ok(None),
        }))
    }

    fn registration(f: &mut Fields<'a>) -> Result<Option<Self>, WireError> {
        let (flags, kind, _queue, command, _instance) = (f.u8()?, f.u8()?, f.u32()?, f.u16()?, f.u16()?);
        let (reg_id, source, receiver) = (f.u64()?, f.u32()?, f.u32()?);
        let joins = match kind {
            REGISTERS => Some(Joins {
                kind: f.u32()?,
                takes_indices: flags & TAKES_INDICES != 0,
                port: (f.u16()?, f.u16()?).0,
                address: f.take::<4>()?.into(),
            }),
            LEAVES => None,
            _ => return Ok(None),
        };
        Ok(Some(Self::Registration(Registration { reg_id, command, source, receiver, joins })))
    }

    fn response(f: &mut Fields<'a>) -> Result<Option<Self>, WireError> {
        let (_flags, kind, _queue, command, _instance, reg_id) =
            (f.u8()?, f.u8()?, f.u32()?, f.u16()?, f.u16()?, f.u64()?);
        let answer = match kind {
            REGISTERS => Answer::Registered { source: f.u32()?, receiver: f.u32()?, set: f.u16()? },
            LEAVES => Answer::Left { source: f.u32()?, receiver: f.u32()? },
            ERROR => Answer::Refused(Refusal::of((f.u16()?, f.u16()?).1)),
            _ => return Ok(None),
        };
        Ok(Some(Self::Response(RegistrationResponse { reg_id, command, answer })))
    }
}

/// Fields of a header that is written.
struct Body<'a>(&'a mut Vec<u8>);

impl Body<'_> {
    fn u8(&mut self, values: &[u8]) {
        self.0.extend_from_slice(values);
    }
    fn u16(&mut self, values: &[u16]) {
        for value in values {
            self.0.extend_from_slice(&value.to_be_bytes());
        }
    }
    fn u32(&mut self, values: &[u32]) {
        for value in values {
            self.0.extend_from_slice(&value.to_be_bytes());
        }
    }
    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }
    /// The head of commands and their answers, behind flags and kind.
    fn command(&mut self, command: u16, reg_id: u64) {
        self.u32(&[0]);
        self.u16(&[command, 0]);
        self.u64(reg_id);
    }
}

impl Ulb<'_> {
    const fn code(&self) -> u8 {
        match self {
            Self::MessageId(_) => code::MESSAGE_ID,
            Self::Assignment(_) => code::ASSIGNMENT,
            Self::Registration(_) => code::REGISTRATION,
            Self::Response(_) => code::REGISTRATION_RESPONSE,
            Self::Consumed { .. } => code::ACK,
            Self::Keepalive { .. } => code::KEEPALIVE,
            Self::Load(_) => code::LOAD_FACTOR,
            Self::Index(_) => lbm::wire::header::code::OPTION,
            Self::TopicIndex(_) => lbm::wire::header::code::TOPIC_INDEX,
            Self::Origin(_) => lbm::wire::header::code::ORIGINATING_TRANSPORT,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        let mut body = Body(out);
        match *self {
            Self::MessageId(id) => {
                body.u16(&[IGNORE]);
                body.u64(id.source.into());
                body.u64(id.stamp);
            }
            Self::Assignment(a) => {
                body.u16(&[IGNORE | ASSIGNED | if a.again > 0 { REASSIGNED } else { 0 }]);
                body.u32(&[0, a.source, a.receiver]);
                body.u16(&[a.set, a.again]);
            }
            Self::Registration(r) => {
                let takes = r.joins.is_some_and(|joins| joins.takes_indices);
                let kind = if r.joins.is_some() { REGISTERS } else { LEAVES };
                body.u8(&[if takes { TAKES_INDICES } else { 0 }, kind]);
                body.command(r.command, r.reg_id);
                body.u32(&[r.source, r.receiver]);
                if let Some(joins) = r.joins {
                    body.u32(&[joins.kind, u32::from(joins.port) << 16, joins.address.into(), 0]);
                }
            }
            Self::Response(r) => match r.answer {
                Answer::Registered { source, receiver, set } => {
                    body.u8(&[0, REGISTERS]);
                    body.command(r.command, r.reg_id);
                    body.u32(&[source, receiver, u32::from(set) << 16, 0]);
                }
                Answer::Left { source, receiver } => {
                    body.u8(&[0, LEAVES]);
                    body.command(r.command, r.reg_id);
                    body.u32(&[source, receiver]);
                }
                Answer::Refused(refusal) => {
                    body.u8(&[OF_ULB, ERROR]);
                    body.command(r.command, r.reg_id);
                    body.u16(&[0, refusal.number()]);
                }
            },
            Self::Consumed { source, receiver, set, ids } => {
                body.u8(&[(ids.len() / 16).min(REPORT_MAX) as u8, CONSUMED]);
                body.u8(&ids[..ids.len().min(16 * REPORT_MAX)]);
                body.u32(&[source, receiver, u32::from(set) << 16]);
            }
            Self::Keepalive { answer, reg_id, source, receiver } => {
                body.u8(&answer.map_or([RESPONSE_WANTED, ALIVE], |_| [0, ALIVE_ANSWER]));
                body.u32(&[0]);
                body.u64(reg_id);
                body.u32(&[0, source, receiver]);
                if let Some(set) = answer {
                    body.u16(&[set, 0]);
                }
            }
            Self::Load(load) => {
                body.u8(&[IGNORE_BYTE, LOAD_OF_RECEIVER]);
                body.u16(&[load.sources, load.messages]);
            }
            Self::Index(index) => {
                body.u8(&[0xC0, 0]);
                body.u16(&[ExtensionOption::QUOTEWAY, 0]);
                match index {
                    IndexRef::Number(number) => {
                        body.u8(&[INDEX, 1, 0, 0]);
                        body.u64(number);
                    }
                    IndexRef::Text(text) => {
                        body.u8(&[INDEX, 0, 0, 0]);
                        body.u8(&text[..text.len().min(Index::TEXT_MAX)]);
                    }
                }
            }
            Self::TopicIndex(index) => {
                body.u16(&[IGNORE]);
                body.u32(&[index]);
            }
            Self::Origin(id) => {
                body.u16(&[IGNORE]);
                body.u8(&id);
            }
        }
    }
}

/// Adds a control message to `out`. False: it would be longer than a control message may be, and nothing was added.
pub fn control(out: &mut Vec<u8>, headers: &[Ulb<'_>]) -> bool {
    let start = out.len();
    let code_of = |i: usize| headers.get(i).map_or(lbm::wire::lbmc::NEXT_NONE, Ulb::code);
    out.extend_from_slice(&[0x08, code_of(0), 0, 0]);
    for (i, header) in headers.iter().enumerate() {
        let at = out.len();
        out.extend_from_slice(&[code_of(i + 1), 0]);
        header.put(out);
        // The longest header is a consumption report of 240 bytes.
        out[at + 1] = (out.len() - at) as u8;
    }
    let length = out.len() - start;
    if length > CONTROL_MAX {
        out.truncate(start);
        return false;
    }
    out[start + 2..start + 4].copy_from_slice(&(length as u16).to_be_bytes());
    true
}

/// The headers of a message, as its source sends them. Made anew for each message in the same memory.
#[derive(Clone, Debug, Default)]
pub struct MessageHeaders {
    bytes: Vec<u8>,
    /// Code, and where the body ends in `bytes`.
    ends: Vec<(u8, usize)>,
}

impl MessageHeaders {
    /// Begins anew.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds a header.
    pub fn push(&mut self, header: &Ulb<'_>) {
        header.put(&mut self.bytes);
        self.ends.push((header.code(), self.bytes.len()));
    }

    /// Calls `with` with the headers, as `lbm_io::Sources::send_headed` wants them.
    pub fn with<R>(&self, with: impl FnOnce(&[Header<'_>]) -> R) -> R {
        let mut headers = [Header::Batch { flags: 0 }; crate::SETS_MAX + 2];
        let mut at = 0;
        for (place, (code, end)) in headers.iter_mut().zip(&self.ends) {
            let body = &self.bytes[at..*end];
            at = *end;
            *place = match body {
                [flags, id, s0, s1, o0, o1, data @ ..] if *code == lbm::wire::header::code::OPTION => {
                    Header::Option(ExtensionOption {
                        flags: *flags,
                        id: *id,
                        subtype: u16::from_be_bytes([*s0, *s1]),
                        offset: u16::from_be_bytes([*o0, *o1]),
                        data,
                    })
                }
                body => Header::Unknown { code: *code, body },
            };
        }
        with(&headers[..self.ends.len().min(crate::SETS_MAX + 2)])
    }
}

#[cfg(test)]
mod tests {
    use lbm::wire::lbmc::Message;

    use super::*;

    fn read(bytes: &[u8]) -> Vec<Ulb<'_>> {
        let (message, length) = Message::decode(bytes).expect("ours");
        assert_eq!(length, bytes.len());
        message.headers().map(|header| Ulb::of(&header.expect("ours")).expect("whole").expect("of queuing")).collect()
    }

    fn all() -> Vec<Ulb<'static>> {
        let joins = Joins { kind: 10, takes_indices: true, port: 14_391, address: Ipv4Addr::new(10, 1, 1, 10) };
        let registration = Registration { reg_id: 1 << 40, command: 3, source: 5, receiver: 6, joins: Some(joins) };
        let response = |answer| Ulb::Response(RegistrationResponse { reg_id: 1 << 40, command: 3, answer });
        vec![
            Ulb::TopicIndex(7),
            Ulb::MessageId(MessageId { source: 5, stamp: 1 << 50 }),
            Ulb::Assignment(Assignment { source: 5, receiver: 6, set: 1, again: 0 }),
            Ulb::Assignment(Assignment { source: 5, receiver: 6, set: 1, again: 2 }),
            Ulb::Registration(registration),
            Ulb::Registration(Registration { joins: None, ..registration }),
            response(Answer::Registered { source: 5, receiver: 6, set: 1 }),
            response(Answer::Left { source: 5, receiver: 6 }),
            response(Answer::Refused(Refusal::ReceiverType)),
            Ulb::Consumed { source: 5, receiver: 6, set: 1, ids: &[9; 48] },
            Ulb::Keepalive { answer: None, reg_id: 8, source: 5, receiver: 6 },
            Ulb::Keepalive { answer: Some(1), reg_id: 8, source: 5, receiver: 6 },
            Ulb::Load(Load { sources: 3, messages: 300 }),
            Ulb::Index(IndexRef::Number(77)),
            Ulb::Index(IndexRef::Text(b"IBM.N")),
            Ulb::Origin([8; 32]),
        ]
    }

    #[test]
    fn each_header_comes_back() {
        let mut bytes = Vec::new();
        assert!(control(&mut bytes, &all()));
        assert_eq!(read(&bytes), all());
    }

    #[test]
    fn headers_that_are_cut_short_are_told() {
        for header in all() {
            let mut body = Vec::new();
            header.put(&mut body);
            if matches!(header, Ulb::Index(_) | Ulb::TopicIndex(_) | Ulb::Origin(_)) {
                continue;
            }
            // Fields behind the last one that is read may be missing.
            let needed = match &header {
                Ulb::Registration(Registration { joins: Some(_), .. }) => body.len() - 4,
                Ulb::Response(RegistrationResponse { answer: Answer::Registered { .. }, .. }) => body.len() - 6,
                Ulb::Keepalive { answer: Some(_), .. } | Ulb::Consumed { .. } => body.len() - 2,
                _ => body.len(),
            };
            for length in 0..body.len() {
                let cut = Ulb::of(&Header::Unknown { code: header.code(), body: &body[..length] });
                assert_eq!(cut.is_err(), length < needed, "{header:?} cut to {length}: {cut:?}");
            }
        }
    }

    #[test]
    fn headers_of_messages_are_those_of_control_messages() {
        let mut headers = MessageHeaders::default();
        all()[1..4].iter().for_each(|header| headers.push(header));
        headers.push(&Ulb::Index(IndexRef::Text(b"IBM.N")));
        let back = headers.with(|headers| {
            let kept = headers.iter().map(|header| format!("{:?}", Ulb::of(header).expect("whole").expect("ours")));
            kept.collect::<Vec<_>>()
        });
        let want = [&all()[1..4], &all()[14..15]].concat();
        assert_eq!(back, want.iter().map(|header| format!("{header:?}")).collect::<Vec<_>>());
    }
}
