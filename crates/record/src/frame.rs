//! Frames: what the files of a recording are made of, each with its checksums.

use crate::bytes::{Input, checksum};
use std::borrow::Cow;

/// The newest version of the format; older ones are read.
pub(crate) const VERSION: u16 = 5;
/// The version of segments without blocks that are not packed, which older programs read as well.
pub(crate) const PACKED_VERSION: u16 = 3;
/// The first version whose index tells items by ranges.
pub(crate) const RANGES_FROM: u16 = 3;
/// Beginning of every file: no text, and changed by whoever takes it for one.
const MAGIC: [u8; 8] = *b"\x89QWREC\r\n";
/// Bytes of a file's head.
pub(crate) const FILE_HEAD_LEN: usize = 64;
/// Bytes of a frame's head.
pub(crate) const FRAME_HEAD_LEN: usize = 16;
/// Bytes of a frame's payload.
pub(crate) const PAYLOAD_MAX: usize = 256 << 20;
/// Bytes of an unpacked payload.
pub(crate) const UNPACKED_MAX: usize = 512 << 20;
/// The payload is packed: its length as u32, then zstd.
const PACKED: u8 = 1;
/// How hard what is not a block is packed.
pub(crate) const LEVEL: i32 = 6;

/// Content of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FrameKind {
    /// Records.
    Block = 1,
    /// Items that the blocks behind it refer to.
    Items = 2,
    /// A checkpoint: images of items.
    Images = 3,
    /// Content of the segment, and where.
    Index = 4,
    /// Where the index is: the last frame of a segment.
    End = 5,
    /// Records as they came, in a tail.
    Rows = 6,
    /// Records, in slices by items.
    Sliced = 7,
    /// A checkpoint in slices by items.
    SlicedImages = 8,
    /// Records as they came, in a segment.
    Raw = 9,
}

impl FrameKind {
    const fn of(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Block,
            2 => Self::Items,
            3 => Self::Images,
            4 => Self::Index,
            5 => Self::End,
            6 => Self::Rows,
            7 => Self::Sliced,
            8 => Self::SlicedImages,
            9 => Self::Raw,
            _ => return None,
        })
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Block | Self::Sliced | Self::Raw => "block",
            Self::Items => "table of items",
            Self::Images | Self::SlicedImages => "checkpoint",
            Self::Index => "index",
            Self::End => "end",
            Self::Rows => "part of the tail",
        }
    }
}

/// The head of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileHead {
    /// Of the format: by it the segment is read, and ended if its writer did not.
    pub(crate) version: u16,
    /// The recording that it belongs to.
    pub(crate) recording: u64,
    /// Number of the segment.
    pub(crate) number: u64,
    /// Sequence number of its first record.
    pub(crate) first: u64,
    /// Wall clock at which it was begun.
    pub(crate) created: u64,
    /// The latest wall clock of the recording before it, 0 if it is the first.
    pub(crate) before: u64,
}

/// Why bytes are no head of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadFault {
    /// Something else, or less than a head.
    Foreign,
    /// Of another version.
    Version(u16),
    /// The frame does not match its checksum.
    Damaged,
}

impl FileHead {
    pub(crate) fn encode(&self) -> [u8; FILE_HEAD_LEN] {
        let mut out = [0; FILE_HEAD_LEN];
        out[..8].copy_from_slice(&MAGIC);
        out[8..10].copy_from_slice(&self.version.to_le_bytes());
        let numbers = [self.recording, self.number, self.first, self.created, self.before];
        for (place, number) in out[16..56].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let check = checksum(&[&out[..60]]);
        out[60..].copy_from_slice(&check.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, HeadFault> {
        if bytes.get(..8) != Some(&MAGIC) {
            return Err(HeadFault::Foreign);
        }
        let mut input = Input::new(&bytes[8..]);
        // A version is told before anything else is looked at: the rest may be laid out otherwise.
        let version = input.u16().ok_or(HeadFault::Damaged)?;
        if !(1..=VERSION).contains(&version) {
            return Err(HeadFault::Version(version));
        }
        let (checked, check) = bytes.get(..FILE_HEAD_LEN).ok_or(HeadFault::Damaged)?.split_at(60);
        if checksum(&[checked]).to_le_bytes() != *check {
            return Err(HeadFault::Damaged);
        }
        let mut numbers = || {
            input.bytes(6)?;
            let (recording, number, first) = (input.u64()?, input.u64()?, input.u64()?);
            Some(Self { version, recording, number, first, created: input.u64()?, before: input.u64()? })
        };
        numbers().ok_or(HeadFault::Damaged)
    }
}

/// Appends a frame.
pub(crate) fn put_frame(kind: FrameKind, payload: &[u8], out: &mut Vec<u8>) {
    put(kind, 0, payload, out);
}

/// Appends a frame whose payload is packed if that makes it smaller.
pub(crate) fn put_packed(kind: FrameKind, payload: &[u8], out: &mut Vec<u8>) {
    match zstd::bulk::compress(payload, LEVEL) {
        Ok(packed) if packed.len() + 4 < payload.len() => {
            let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
            bytes.extend_from_slice(&packed);
            put(kind, PACKED, &bytes, out);
        }
        _ => put(kind, 0, payload, out),
    }
}

fn put(kind: FrameKind, flags: u8, payload: &[u8], out: &mut Vec<u8>) {
    put_head(kind, flags, &[payload], out);
    out.extend_from_slice(payload);
}

/// Appends the head of a frame whose payload is in pieces.
pub(crate) fn put_head(kind: FrameKind, flags: u8, payload: &[&[u8]], out: &mut Vec<u8>) {
    let (start, len) = (out.len(), payload.iter().map(|piece| piece.len()).sum::<usize>());
    out.extend_from_slice(&[kind as u8, flags, 0, 0]);
    out.extend_from_slice(&(len as u32).to_le_bytes());
    out.extend_from_slice(&checksum(payload).to_le_bytes());
    let check = checksum(&[&out[start..]]);
    out.extend_from_slice(&check.to_le_bytes());
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(crate) kind: FrameKind,
    flags: u8,
    /// Bytes of the payload.
    pub(crate) len: usize,
    check: u32,
}

impl FrameHead {
    /// Reads a frame's head; `None` if the bytes are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..FRAME_HEAD_LEN)?;
        let mut input = Input::new(head);
        let (kind, flags, _, len, check) = (input.u8()?, input.u8()?, input.u16()?, input.u32()?, input.u32()?);
        let kind = FrameKind::of(kind)?;
        let is_sound = input.u32()? == checksum(&[&head[..12]]) && len as usize <= PAYLOAD_MAX;
        is_sound.then_some(Self { kind, flags, len: len as usize, check })
    }

    /// Whether the payload is packed as a whole.
    pub(crate) const fn is_packed(&self) -> bool {
        self.flags & PACKED != 0
    }

    /// The payload, unpacked; `None` if it is damaged.
    pub(crate) fn payload<'a>(&self, kept: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if kept.len() != self.len || checksum(&[kept]) != self.check {
            return None;
        }
        if !self.is_packed() {
            return Some(kept.into());
        }
        let (len, packed) = kept.split_first_chunk::<4>()?;
        let len = u32::from_le_bytes(*len) as usize;
        // zstd makes no more than so much of a byte: what says otherwise shall not make us ask for memory.
        if len > UNPACKED_MAX || len > packed.len().saturating_mul(crate::block::decode::UNPACKED_OF_A_BYTE) {
            return None;
        }
        crate::block::decode::unpack(packed, len).map(Cow::Owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_whole_or_not_at_all() {
        for payload in [&b""[..], b"seven", &[7; 5000]] {
            let mut bytes = Vec::new();
            put_packed(FrameKind::Items, payload, &mut bytes);
            let head = FrameHead::decode(&bytes).expect("a frame");
            assert_eq!(head.payload(&bytes[FRAME_HEAD_LEN..]).as_deref(), Some(payload));
            for at in 0..bytes.len() {
                let mut wrong = bytes.clone();
                wrong[at] ^= 0x10;
                let read = FrameHead::decode(&wrong)
                    .and_then(|head| Some(head.payload(&wrong[FRAME_HEAD_LEN..])?.into_owned()));
                assert_eq!(read, None, "byte {at} is changed and nobody notices");
            }
        }
    }

    #[test]
    fn the_head_of_a_file_says_what_is_wrong_with_it() {
        let head = FileHead { version: 2, recording: 1, number: 2, first: 3, created: 4, before: 5 };
        let bytes = head.encode();
        assert_eq!(FileHead::decode(&bytes), Ok(head));
        assert_eq!(FileHead::decode(b"PAR1"), Err(HeadFault::Foreign));
        assert_eq!(FileHead::decode(&bytes[..30]), Err(HeadFault::Damaged));
        let mut other = bytes;
        other[8] = 6;
        assert_eq!(FileHead::decode(&other), Err(HeadFault::Version(6)));
        for at in 10..FILE_HEAD_LEN {
            let mut wrong = bytes;
            wrong[at] ^= 1;
            assert_eq!(FileHead::decode(&wrong), Err(HeadFault::Damaged), "byte {at}");
        }
    }
}
