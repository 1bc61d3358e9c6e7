//! Messages that a tunnel stream's ends say to each other: classes of service, and the headers of what is in the tunnel.
//!
//! A class of service is a filter list in the request and in the refresh that accepts it. Everything else is a generic message whose extended header, big endian, is
//!
//! | | bytes |
//! |---|---|
//! | data, or the same sent again | 1 or 3; from stream version 2 on, flags (1: a fragment, of which more follows) |
//! | acknowledgement | 2; action (1: the sender ends the stream), in one byte or in two with the highest bit set; number up to which all came; number of ranges to be sent again, each two numbers; number of ranges that came beside, likewise; bytes that may be on their way |
//!
//! Source: ETA, `ClassOfService` and `TunnelStreamMsgImpl` (Real-Time SDK 2.x, Java), and what its reactor takes and sends (`interop`, `TunnelPostsTest`).

use rwf::container::{
    ElementList, ElementListEncoder, FilterAction, FilterHead, FilterList, FilterListEncoder, SetScope,
};
use rwf::wire::Writer;
use rwf::{DataType, DecodeError, EncodeError, Primitive};

/// Numbers of the parts of a class of service; the bit of one in a key's filter is one less.
mod id {
    pub(super) const COMMON: u8 = 1;
    pub(super) const AUTHENTICATION: u8 = 2;
    pub(super) const FLOW_CONTROL: u8 = 3;
    pub(super) const DATA_INTEGRITY: u8 = 4;
}

const DATA: u8 = 1;
const ACK: u8 = 2;
const DATA_AGAIN: u8 = 3;
/// The action of an acknowledgement by which its sender ends the stream.
const ENDS: u8 = 1;
/// A flag of data.
const FRAGMENT: u8 = 1;
/// The stream version from which on data have flags.
const WITH_FLAGS: u64 = 2;

/// Terms that the ends of a tunnel stream agree upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClassOfService {
    pub(super) stream_version: u64,
    /// Longest message in the tunnel, bytes, as a provider says.
    pub(super) max_message: Option<u64>,
    /// The first message in the tunnel is a login.
    pub(super) has_login: bool,
    /// Bytes that may be on their way to who says this, where flow is controlled.
    pub(super) window: Option<i64>,
}

impl ClassOfService {
    /// Bits of the parts that are written.
    pub(super) fn filter(&self) -> u32 {
        let bit = |id: u8, is_there: bool| u32::from(is_there) << (id - 1);
        bit(id::COMMON, true)
            | bit(id::AUTHENTICATION, self.has_login)
            | bit(id::FLOW_CONTROL, self.window.is_some())
            | bit(id::DATA_INTEGRITY, true)
    }

    /// Writes what a consumer asks for.
    pub(super) fn encode(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut list = FilterListEncoder::begin(w, FilterHead::new(DataType::ELEMENT_LIST))?;
        list.entry(id::COMMON, FilterAction::SET, |w| {
            let mut common = ElementListEncoder::begin(w)?;
            common.uint(b":ProtocolType", 0)?;
            common.uint(b":ProtocolMajorVersion", 14)?;
            common.uint(b":ProtocolMinorVersion", 1)?;
            common.uint(b":StreamVersion", self.stream_version)?;
            common.finish()
        })?;
        let typed = |w: &mut Writer<'_>| {
            let mut of_type = ElementListEncoder::begin(w)?;
            of_type.uint(b":Type", 1)?;
            of_type.finish()
        };
        if self.has_login {
            list.entry(id::AUTHENTICATION, FilterAction::SET, typed)?;
        }
        if let Some(window) = self.window {
            list.entry(id::FLOW_CONTROL, FilterAction::SET, |w| {
                let mut flow = ElementListEncoder::begin(w)?;
                flow.uint(b":Type", 1)?;
                flow.element(b":RecvWindowSize", DataType::INT, &Primitive::Int(window))?;
                flow.finish()
            })?;
        }
        list.entry(id::DATA_INTEGRITY, FilterAction::SET, typed)?;
        list.finish();
        Ok(())
    }

    /// Reads what a provider says.
    pub(super) fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut found = Self { stream_version: 1, max_message: None, has_login: false, window: None };
        for entry in FilterList::decode(body)?.entries() {
            let entry = entry?;
            if entry.container != DataType::ELEMENT_LIST || entry.action == FilterAction::CLEAR {
                continue;
            }
            let list = ElementList::decode(entry.data, &SetScope::NONE)?;
            let uint = |name: &[u8]| match list.find(name).map(|element| element.value()) {
                Some(Ok(Primitive::UInt(value))) => Some(value),
                _ => None,
            };
            let is_on = || uint(b":Type").is_some_and(|kind| kind != 0);
            match entry.id {
                id::COMMON => {
                    found.stream_version = uint(b":StreamVersion").unwrap_or(1);
                    // A fragment is what a message is to who makes none.
                    found.max_message = [uint(b":MaxMsgSize"), uint(b":MaxFragmentSize")].into_iter().flatten().min();
                }
                id::AUTHENTICATION => found.has_login = is_on(),
                id::FLOW_CONTROL if is_on() => {
                    let window = list.find(b":RecvWindowSize").map(|element| element.value());
                    found.window = if let Some(Ok(Primitive::Int(bytes))) = window { Some(bytes) } else { None };
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

/// The header of what came in a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Header {
    /// A message is in it.
    Data,
    /// A part of one is in it.
    Fragment,
    Ack(Ack),
}

/// An acknowledgement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ack {
    /// Its sender ends the stream, with this number.
    pub(super) ends: bool,
    /// All up to this number have come.
    pub(super) up_to: u32,
    /// Messages that are to be sent again: the first and the last number of each range.
    pub(super) again: Vec<(u32, u32)>,
    /// Bytes that may be on their way to its sender.
    pub(super) window: u32,
}

/// The header of data.
pub(super) fn data(stream_version: u64, is_again: bool) -> ([u8; 2], usize) {
    let length = if stream_version >= WITH_FLAGS { 2 } else { 1 };
    ([if is_again { DATA_AGAIN } else { DATA }, 0], length)
}

impl Ack {
    /// The header of this acknowledgement; it has one range to be sent again at most.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![ACK, if self.ends { ENDS } else { 0 }];
        out.extend(self.up_to.to_be_bytes());
        let again = self.again.first();
        out.push(again.is_some() as u8);
        for number in again.into_iter().flat_map(|&(first, last)| [first, last]) {
            out.extend(number.to_be_bytes());
        }
        out.push(0);
        out.extend(self.window.to_be_bytes());
        out
    }
}

impl Header {
    /// Reads a header; `None` for one that cannot be read.
    pub(super) fn decode(bytes: &[u8], stream_version: u64) -> Option<Self> {
        let (&kind, rest) = bytes.split_first()?;
        match kind {
            DATA | DATA_AGAIN if stream_version >= WITH_FLAGS => {
                let is_fragment = rest.first()? & FRAGMENT != 0;
                Some(if is_fragment { Self::Fragment } else { Self::Data })
            }
            DATA | DATA_AGAIN => Some(Self::Data),
            ACK => Self::ack(rest).map(Self::Ack),
            _ => None,
        }
    }

    fn ack(bytes: &[u8]) -> Option<Ack> {
        let (action, mut rest) = match bytes {
            [high, low, rest @ ..] if high & 0x80 != 0 => (u16::from_be_bytes([high & 0x7F, *low]), rest),
            [low, rest @ ..] => (u16::from(*low), rest),
            [] => return None,
        };
        let mut number = || {
            let (first, behind) = rest.split_first_chunk::<4>()?;
            rest = behind;
            Some(u32::from_be_bytes(*first))
        };
        let up_to = number()?;
        let mut ranges = [Vec::new(), Vec::new()];
        for of_kind in &mut ranges {
            let (&count, behind) = rest.split_first()?;
            rest = behind;
            for _ in 0..count {
                let mut number = || {
                    let (first, behind) = rest.split_first_chunk::<4>()?;
                    rest = behind;
                    Some(u32::from_be_bytes(*first))
                };
                of_kind.push((number()?, number()?));
            }
        }
        let (window, _) = rest.split_first_chunk::<4>()?;
        let [again, _] = ranges;
        Some(Ack { ends: action & u16::from(ENDS) != 0, up_to, again, window: u32::from_be_bytes(*window) })
    }
}
