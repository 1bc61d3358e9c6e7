//! Zlib and LZ4 of one session. Both are made at the first compressed frame: a zlib stream has over 200 KB.

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress};

use lz4_flex::block::{compress_into_with_table, decompress_into};

use crate::config::Compression;
use crate::spare::Work;

/// Decompressed frames may have this many bytes. No message or packed payload of a frame can be longer: its length was announced
/// in two bytes.
pub(crate) const DECOMPRESSED_MAX: usize = u16::MAX as usize;

/// Compresses the frames of one direction.
#[derive(Debug)]
pub(crate) enum Deflater {
    Zlib(Compress),
    Lz4,
}

impl Deflater {
    pub(crate) fn new(compression: Compression, level: u8) -> Option<Self> {
        match compression {
            Compression::None => None,
            // Level 1 of zlib-rs never stores, so incompressible payloads would grow by an eighth: more than ETA's reader has room for.
            Compression::Zlib => {
                let level = if level == 1 { 2 } else { u32::from(level.min(9)) };
                Some(Self::Zlib(Compress::new(flate2::Compression::new(level), true)))
            }
            Compression::Lz4 => Some(Self::Lz4),
        }
    }

    /// Compresses a frame's payload into `work`, which has room for twice the longest, and gives the length; `None` if the
    /// payload is better sent plain.
    pub(crate) fn compress(&mut self, payload: &[u8], work: &mut Work) -> Option<usize> {
        match self {
            Self::Zlib(stream) => {
                let before = (stream.total_in(), stream.total_out());
                // A single call does it: there is room for all of it. From here on the stream contains this payload, so it must be sent.
                stream.compress(payload, &mut work.bytes, FlushCompress::Sync).ok()?;
                debug_assert_eq!(stream.total_in() - before.0, payload.len() as u64);
                Some((stream.total_out() - before.1) as usize)
            }
            Self::Lz4 => {
                let length = compress_into_with_table(payload, &mut work.bytes, &mut work.lz4).ok()?;
                (length < payload.len()).then_some(length)
            }
        }
    }
}

/// Decompresses the frames of one direction.
#[derive(Debug)]
pub(crate) enum Inflater {
    Zlib(Decompress),
    Lz4,
}

impl Inflater {
    pub(crate) fn new(compression: Compression) -> Option<Self> {
        match compression {
            Compression::None => None,
            Compression::Zlib => Some(Self::Zlib(Decompress::new(true))),
            Compression::Lz4 => Some(Self::Lz4),
        }
    }

    /// Decompresses a whole payload into `work` and gives the length.
    pub(crate) fn decompress(&mut self, mut payload: &[u8], work: &mut Work) -> Result<usize, &'static str> {
        // A byte more than may come out: filling it shows that it is too much.
        let room = &mut work.bytes[..=DECOMPRESSED_MAX];
        match self {
            Self::Zlib(stream) => {
                let mut filled = 0;
                while !payload.is_empty() {
                    let before = (stream.total_in(), stream.total_out());
                    stream
                        .decompress(payload, &mut room[filled..], FlushDecompress::Sync)
                        .map_err(|_| "compressed frame is no zlib data")?;
                    let read = (stream.total_in() - before.0) as usize;
                    let written = (stream.total_out() - before.1) as usize;
                    payload = payload.get(read..).unwrap_or_default();
                    filled += written;
                    if filled > DECOMPRESSED_MAX {
                        return Err("compressed frame is longer than 64 KB when decompressed");
                    }
                    if read == 0 && written == 0 {
                        return Err("bytes after the end of the zlib stream");
                    }
                }
                Ok(filled)
            }
            Self::Lz4 => match decompress_into(payload, room) {
                Ok(length) if length <= DECOMPRESSED_MAX => Ok(length),
                _ => Err("compressed frame is no LZ4 block of 64 KB or less"),
            },
        }
    }
}
