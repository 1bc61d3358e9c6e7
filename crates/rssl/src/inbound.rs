//! From received bytes to messages: frames that arrive in pieces, compressed frames, fragments.
//!
//! Whole plain frames never come here; [`Connection::receive`](crate::Connection::receive) hands their messages on from the caller's
//! buffer. An idle session holds no memory here: `tail` is empty between whole frames, and `rare` exists only on sessions that
//! have had a fragment or a compressed frame.

use crate::closed::Closed;
use crate::compress::Inflater;
use crate::config::{Compression, Version};
use crate::frame::{self, Frame, Kind};
use crate::handshake::TOO_LONG;
use crate::spare::{self, Work};

/// The state that one direction's bytes have left behind.
pub(crate) struct Inbound {
    /// The beginning of a frame whose end has not come: `0 <= tail.len() < length of that frame`.
    tail: Vec<u8>,
    /// Bytes of all whole frames so far: where the next frame begins in the stream.
    position: u64,
    wide_fragment_ids: bool,
    compression: Compression,
    reassembly_bytes_max: usize,
    /// The same while the peer is not known.
    stranger_bytes_max: Option<u32>,
    rare: Option<Box<Rare>>,
}

#[derive(Default)]
struct Rare {
    partials: Vec<Partial>,
    /// Sum of `Partial::total`, not above `reassembly_bytes_max`.
    partial_bytes: usize,
    inflater: Option<Inflater>,
    overflow: Option<Overflow>,
    orphans: u64,
}

/// A message of which some fragments have come: `0 < bytes.len() < total`.
struct Partial {
    id: u16,
    total: usize,
    bytes: Vec<u8>,
}

/// The first part of a compressed payload that did not fit its frame.
struct Overflow {
    kind: Kind,
    bytes: Vec<u8>,
}

/// The result of a frame.
pub(crate) enum Content<'a> {
    Nothing,
    Ping,
    Message(&'a [u8]),
    Packed(&'a [u8]),
    Reassembled(Vec<u8>),
}

/// Why a frame cannot be used.
pub(crate) enum Fail {
    Malformed(&'static str),
    ReassemblyLimit {
        wanted: u64,
        limit: u64,
    },
    /// Whoever takes the messages takes no more.
    Over,
}

impl From<&'static str> for Fail {
    fn from(what: &'static str) -> Self {
        Self::Malformed(what)
    }
}

impl Fail {
    pub(crate) fn at(self, position: u64) -> Closed {
        match self {
            Self::Malformed(what) => Closed::Malformed { what, position },
            Self::ReassemblyLimit { wanted, limit } => Closed::ReassemblyLimit { wanted, limit },
            Self::Over => Closed::AlreadyClosed,
        }
    }
}

impl Inbound {
    pub(crate) fn new(reassembly_bytes_max: usize) -> Self {
        Self {
            tail: Vec::new(),
            position: 0,
            wide_fragment_ids: true,
            compression: Compression::None,
            reassembly_bytes_max,
            stranger_bytes_max: None,
            rare: None,
        }
    }

    pub(crate) fn limit_stranger(&mut self, bytes: usize) {
        self.stranger_bytes_max = Some(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    pub(crate) fn is_of_stranger(&self) -> bool {
        self.stranger_bytes_max.is_some()
    }

    /// The peer is a stranger no more.
    pub(crate) fn know(&mut self) {
        self.stranger_bytes_max = None;
    }

    /// Bytes that are kept of what is not whole.
    pub(crate) fn unfinished_bytes(&self) -> usize {
        let Some(rare) = &self.rare else { return self.tail.len() };
        let overflow = rare.overflow.as_ref().map_or(0, |overflow| overflow.bytes.len());
        self.tail.len() + overflow + rare.partials.iter().map(|partial| partial.bytes.len()).sum::<usize>()
    }

    /// Takes over what the handshake agreed on.
    pub(crate) fn agree(&mut self, version: Version, compression: Compression) {
        self.wide_fragment_ids = version.wide_fragment_ids();
        self.compression = compression;
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn advance(&mut self, bytes: usize) {
        self.position += bytes as u64;
    }

    /// Fragments that belonged to no message, and messages whose fragments the peer stopped sending.
    pub(crate) fn orphans(&self) -> u64 {
        self.rare.as_ref().map_or(0, |rare| rare.orphans)
    }

    #[inline]
    pub(crate) fn has_tail(&self) -> bool {
        !self.tail.is_empty()
    }

    pub(crate) fn tail_length(&self) -> usize {
        self.tail.len()
    }

    /// Takes from `input` what the frame in the tail still lacks, and gives the frame when it is whole. Give the buffer back to
    /// [`spare`] after use.
    pub(crate) fn complete_tail(
        &mut self,
        input: &mut &[u8],
        length_max: usize,
    ) -> Result<Option<Vec<u8>>, &'static str> {
        loop {
            let want = match frame::length(&self.tail)? {
                Some(length) if length > length_max => return Err(TOO_LONG),
                Some(length) if length == self.tail.len() => return Ok(Some(std::mem::take(&mut self.tail))),
                Some(length) => length - self.tail.len(),
                None => 2 - self.tail.len(),
            };
            let (taken, rest) = input.split_at(want.min(input.len()));
            if taken.is_empty() {
                return Ok(None);
            }
            self.tail.extend_from_slice(taken);
            *input = rest;
        }
    }

    /// Keeps the beginning of a frame until the rest comes.
    pub(crate) fn keep_tail(&mut self, rest: &[u8]) {
        debug_assert!(self.tail.is_empty());
        if !rest.is_empty() {
            self.tail = spare::take();
            self.tail.extend_from_slice(rest);
        }
    }

    /// Frees everything.
    pub(crate) fn clear(&mut self) {
        spare::give(std::mem::take(&mut self.tail));
        self.rare = None;
    }

    /// A frame of any kind. Decompressed bytes are in `work`.
    pub(crate) fn content<'a>(&mut self, frame: &'a [u8], work: &'a mut Work) -> Result<Content<'a>, Fail> {
        let frame = frame::parse(frame, self.wide_fragment_ids)?;
        if !frame.compressed {
            return self.assemble(frame.kind, frame.payload);
        }
        match self.decompress(frame, work)? {
            None => Ok(Content::Nothing),
            Some((kind, length)) => self.assemble(kind, &work.bytes[..length]),
        }
    }

    /// Kind and decompressed length of the frame, or of the pair of frames that it completes.
    fn decompress(&mut self, frame: Frame<'_>, work: &mut Work) -> Result<Option<(Kind, usize)>, Fail> {
        let rare = self.rare.get_or_insert_default();
        if rare.inflater.is_none() {
            rare.inflater = Inflater::new(self.compression);
        }
        let Some(inflater) = &mut rare.inflater else {
            return Err(Fail::Malformed("compressed frame though no compression was agreed on"));
        };
        let Some(mut overflow) = rare.overflow.take() else {
            if frame.overflows {
                let mut bytes = spare::take();
                bytes.extend_from_slice(frame.payload);
                rare.overflow = Some(Overflow { kind: frame.kind, bytes });
                return Ok(None);
            }
            return Ok(Some((frame.kind, inflater.decompress(frame.payload, work)?)));
        };
        if frame.kind != Kind::Data || frame.overflows {
            return Err(Fail::Malformed("second part of a compressed payload has headers of its own"));
        }
        overflow.bytes.extend_from_slice(frame.payload);
        let length = inflater.decompress(&overflow.bytes, work)?;
        spare::give(overflow.bytes);
        Ok(Some((overflow.kind, length)))
    }

    fn assemble<'a>(&mut self, kind: Kind, payload: &'a [u8]) -> Result<Content<'a>, Fail> {
        match kind {
            Kind::Ping => Ok(Content::Ping),
            Kind::Data => Ok(Content::Message(payload)),
            Kind::Packed => Ok(Content::Packed(payload)),
            Kind::FirstFragment { total, id } => self.first_fragment(total, id, payload),
            Kind::NextFragment { id } => self.next_fragment(id, payload),
        }
    }

    fn first_fragment<'a>(&mut self, total: u32, id: u16, payload: &'a [u8]) -> Result<Content<'a>, Fail> {
        let total = total as usize;
        if payload.len() >= total {
            return if payload.len() == total && total > 0 {
                Ok(Content::Message(payload))
            } else {
                Err(OVERLONG.into())
            };
        }
        let limit = self.stranger_bytes_max.map_or(self.reassembly_bytes_max, |most| most as usize);
        let rare = self.rare.get_or_insert_default();
        if let Some(old) = rare.partials.iter().position(|partial| partial.id == id) {
            rare.orphans += 1;
            rare.remove(old);
        }
        let wanted = rare.partial_bytes.saturating_add(total);
        if wanted > limit || rare.partials.len() == PARTIALS_MAX {
            return Err(Fail::ReassemblyLimit { wanted: wanted as u64, limit: limit as u64 });
        }
        rare.partial_bytes = wanted;
        let mut bytes = spare::take();
        bytes.extend_from_slice(payload);
        rare.partials.push(Partial { id, total, bytes });
        Ok(Content::Nothing)
    }

    fn next_fragment<'a>(&mut self, id: u16, payload: &[u8]) -> Result<Content<'a>, Fail> {
        let rare = self.rare.get_or_insert_default();
        let Some(index) = rare.partials.iter().position(|partial| partial.id == id) else {
            rare.orphans += 1; // ETA passes over these, too
            return Ok(Content::Nothing);
        };
        let partial = &mut rare.partials[index];
        let missing = partial.total - partial.bytes.len();
        if payload.len() > missing {
            return Err(OVERLONG.into());
        }
        // Grows with what has come, never by what was announced, and not past the end.
        if partial.bytes.capacity() - partial.bytes.len() < payload.len() {
            partial.bytes.reserve_exact(missing.min(payload.len().max(partial.bytes.len())));
        }
        partial.bytes.extend_from_slice(payload);
        if payload.len() < missing {
            return Ok(Content::Nothing);
        }
        Ok(Content::Reassembled(rare.remove(index)))
    }
}

impl Rare {
    fn remove(&mut self, index: usize) -> Vec<u8> {
        let partial = self.partials.swap_remove(index);
        self.partial_bytes -= partial.total;
        partial.bytes
    }
}

const OVERLONG: &str = "fragments have more bytes than their message";

/// Unfinished messages of one peer. ETA interleaves a handful.
const PARTIALS_MAX: usize = 1024;
