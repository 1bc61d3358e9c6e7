//! The frames between routers.
//!
//! Frames have the outer form of LBMC messages (`type u8, code u8, length u16`, big-endian), so that messages of topics cross as they
//! are, with the label of their source on this connection in the place of the topic index. Frames of routers have the type 15, which no
//! LBMC message has. `docs/wire/lbm-router.md` has the layouts.

use core::net::{Ipv4Addr, SocketAddrV4};

use lbm::wire::lbmr::PatternKind;

use crate::ids::{PATH_MAX, Path, RouterId};
use crate::interest::{Interest, Place};
use crate::origin::Origin;

/// The first bytes of a connection.
pub const MAGIC: u32 = 0x5157_4C52;
/// Of this protocol.
pub const VERSION: u16 = 2;
/// The longest payload of a response.
pub const RESPONSE_MAX: usize = 65_000;
/// The longest name of a topic or pattern.
pub const NAME_MAX: usize = 246;
/// The longest word of a source on its stores: sources send none that is longer than 2,400 bytes.
pub const STORES_MAX: usize = 2_400;

const TYPE: u8 = 0x0F;

/// Why a source is not to be had any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The source has ended.
    Ended,
    /// The way to it is lost, or nobody wants it there.
    Unreachable,
}

/// A frame that is no message of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are explained with their frames")]
pub enum Frame<'a> {
    /// The first frame in each direction: who speaks, and after how much silence it is to be given up, ms.
    Hello { router: RouterId, silence_ms: u32 },
    /// Nothing else is to be said.
    KeepAlive,
    /// Somebody at a place wants a topic, or all of a pattern; by these routers.
    Wanted { interest: Interest, place: Place, path: Path },
    /// Nobody at the place does any more, as far as the speaker knows.
    NotWanted { interest: Interest, place: Place },
    /// A source can be had under a label. `persistent`: it has stores.
    Source { label: u32, origin: Origin, cost: u32, persistent: bool, path: Path, topic: &'a [u8] },
    /// Not any more.
    SourceGone { label: u32, why: Gone },
    /// The source's messages are wanted on this connection.
    Subscribe { label: u32 },
    /// Not any more.
    Unsubscribe { label: u32 },
    /// These numbers of the source will not come on this connection.
    Lost { label: u32, first: u32, count: u32 },
    /// An answer to a request that came from the source: for whom, and what.
    Response { label: u32, to: SocketAddrV4, number: u32, payload: &'a [u8] },
    /// The source's word on its stores, as its control message has it.
    Stores { label: u32, word: &'a [u8] },
}

const HELLO: u8 = 1;
const KEEP_ALIVE: u8 = 2;
const WANTED: u8 = 3;
const NOT_WANTED: u8 = 4;
const SOURCE: u8 = 5;
const SOURCE_GONE: u8 = 6;
const SUBSCRIBE: u8 = 7;
const UNSUBSCRIBE: u8 = 8;
const LOST: u8 = 9;
const RESPONSE: u8 = 10;
const STORES: u8 = 11;

/// Bytes that are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFrame {
    /// The frame's code.
    pub code: u8,
    /// The fault.
    pub what: &'static str,
}

impl core::fmt::Display for BadFrame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "a frame of code {} has {}", self.code, self.what)
    }
}

impl core::error::Error for BadFrame {}

/// Whether these bytes begin with a frame of a router, and not with a message of a topic.
#[inline]
pub fn is_frame(bytes: &[u8]) -> bool {
    bytes.first() == Some(&TYPE)
}

/// The length of the frame or message at the beginning of `bytes`.
#[inline]
pub fn length(bytes: &[u8]) -> Option<usize> {
    let &[_, _, high, low, ..] = bytes else { return None };
    Some(usize::from(u16::from_be_bytes([high, low])))
}

struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn router(&mut self) -> Option<RouterId> {
        self.array().map(|bytes| RouterId(u64::from_be_bytes(bytes)))
    }

    fn path(&mut self) -> Option<Path> {
        let count = usize::from(self.u8()?);
        if count > PATH_MAX {
            return None;
        }
        (0..count).map(|_| self.router()).collect()
    }

    fn name(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.u8()?);
        let name = self.take(length)?;
        (!name.is_empty() && name.len() <= NAME_MAX && !name.contains(&0)).then_some(name)
    }

    fn interest(&mut self) -> Option<Interest> {
        let pattern = match self.u8()? {
            0 => None,
            1 => Some(PatternKind::Pcre),
            2 => Some(PatternKind::Regex),
            _ => return None,
        };
        let name = core::str::from_utf8(self.name()?).ok()?;
        Some(Interest::new(pattern, name))
    }

    fn place(&mut self) -> Option<Place> {
        Some(Place { router: self.router()?, domain: self.u32()? })
    }
}

impl<'a> Frame<'a> {
    /// Reads the frame at the beginning of `bytes`, of which [`is_frame`] holds and whose length the bytes have.
    ///
    /// # Errors
    /// A code that is not known, or fields that are none.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, BadFrame> {
        let code = bytes.get(1).copied().unwrap_or(0);
        let bad = |what| BadFrame { code, what };
        let mut fields = Fields { rest: bytes.get(4..).ok_or(bad("no length"))? };
        let frame = Self::fields(code, &mut fields).ok_or(bad("fields that cannot be read"))?;
        if fields.rest.is_empty() { Ok(frame) } else { Err(bad("bytes left over")) }
    }

    fn fields(code: u8, f: &mut Fields<'a>) -> Option<Self> {
        Some(match code {
            HELLO => {
                let (magic, version) = (f.u32()?, f.u16()?);
                if magic != MAGIC || version != VERSION {
                    return None;
                }
                Self::Hello { router: f.router()?, silence_ms: f.u32()? }
            }
            KEEP_ALIVE => Self::KeepAlive,
            WANTED => Self::Wanted { place: f.place()?, path: f.path()?, interest: f.interest()? },
            NOT_WANTED => Self::NotWanted { place: f.place()?, interest: f.interest()? },
            SOURCE => Self::Source {
                label: f.u32()?,
                origin: Origin(f.array()?),
                cost: f.u32()?,
                persistent: match f.u8()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                },
                path: f.path()?,
                topic: f.name()?,
            },
            SOURCE_GONE => {
                let label = f.u32()?;
                let why = match f.u8()? {
                    0 => Gone::Ended,
                    1 => Gone::Unreachable,
                    _ => return None,
                };
                Self::SourceGone { label, why }
            }
            SUBSCRIBE => Self::Subscribe { label: f.u32()? },
            UNSUBSCRIBE => Self::Unsubscribe { label: f.u32()? },
            LOST => Self::Lost { label: f.u32()?, first: f.u32()?, count: f.u32()? },
            RESPONSE => {
                let (label, address, port, number) = (f.u32()?, f.array::<4>()?, f.u16()?, f.u32()?);
                let to = SocketAddrV4::new(Ipv4Addr::from(address), port);
                Self::Response { label, to, number, payload: core::mem::take(&mut f.rest) }
            }
            STORES => {
                let (label, word) = (f.u32()?, core::mem::take(&mut f.rest));
                (!word.is_empty() && word.len() <= STORES_MAX).then_some(Self::Stores { label, word })?
            }
            _ => return None,
        })
    }

    /// Appends the frame. What it names is within the limits of this module.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[TYPE, self.code(), 0, 0]);
        let u32s = |out: &mut Vec<u8>, values: &[u32]| {
            for value in values {
                out.extend_from_slice(&value.to_be_bytes());
            }
        };
        match self {
            Self::Hello { router, silence_ms } => {
                u32s(out, &[MAGIC]);
                out.extend_from_slice(&VERSION.to_be_bytes());
                out.extend_from_slice(&router.0.to_be_bytes());
                u32s(out, &[*silence_ms]);
            }
            Self::KeepAlive => {}
            Self::Wanted { interest, place, path } => {
                put_place(out, *place);
                put_path(out, path);
                put_interest(out, interest);
            }
            Self::NotWanted { interest, place } => {
                put_place(out, *place);
                put_interest(out, interest);
            }
            Self::Source { label, origin, cost, persistent, path, topic } => {
                u32s(out, &[*label]);
                out.extend_from_slice(&origin.0);
                u32s(out, &[*cost]);
                out.push(u8::from(*persistent));
                put_path(out, path);
                put_name(out, topic);
            }
            Self::SourceGone { label, why } => {
                u32s(out, &[*label]);
                out.push(u8::from(*why == Gone::Unreachable));
            }
            Self::Subscribe { label } | Self::Unsubscribe { label } => u32s(out, &[*label]),
            Self::Lost { label, first, count } => u32s(out, &[*label, *first, *count]),
            Self::Response { label, to, number, payload } => {
                u32s(out, &[*label, u32::from(*to.ip())]);
                out.extend_from_slice(&to.port().to_be_bytes());
                u32s(out, &[*number]);
                out.extend_from_slice(payload);
            }
            Self::Stores { label, word } => {
                u32s(out, &[*label]);
                out.extend_from_slice(word);
            }
        }
        let length = (out.len() - start) as u16;
        out[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn code(&self) -> u8 {
        match self {
            Self::Hello { .. } => HELLO,
            Self::KeepAlive => KEEP_ALIVE,
            Self::Wanted { .. } => WANTED,
            Self::NotWanted { .. } => NOT_WANTED,
            Self::Source { .. } => SOURCE,
            Self::SourceGone { .. } => SOURCE_GONE,
            Self::Subscribe { .. } => SUBSCRIBE,
            Self::Unsubscribe { .. } => UNSUBSCRIBE,
            Self::Lost { .. } => LOST,
            Self::Response { .. } => RESPONSE,
            Self::Stores { .. } => STORES,
        }
    }
}

fn put_place(out: &mut Vec<u8>, place: Place) {
    out.extend_from_slice(&place.router.0.to_be_bytes());
    out.extend_from_slice(&place.domain.to_be_bytes());
}

fn put_path(out: &mut Vec<u8>, path: &[RouterId]) {
    out.push(path.len() as u8);
    for router in path {
        out.extend_from_slice(&router.0.to_be_bytes());
    }
}

fn put_name(out: &mut Vec<u8>, name: &[u8]) {
    out.push(name.len() as u8);
    out.extend_from_slice(name);
}

fn put_interest(out: &mut Vec<u8>, interest: &Interest) {
    out.push(match interest.pattern() {
        None => 0,
        Some(PatternKind::Regex) => 2,
        Some(_) => 1,
    });
    put_name(out, interest.name().as_bytes());
}
