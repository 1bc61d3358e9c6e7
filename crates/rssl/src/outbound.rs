//! From messages to frames: plain, packed, fragmented, compressed.
//!
//! Frames are composed in the caller's buffer. Packing is the hot path: for each message two bytes of length, one copy and four
//! bytes of stream id.

use crate::closed::WriteError;
use crate::compress::Deflater;
use crate::config::{Compression, Version};
use crate::frame::{self, HEADER, extended, flag};
use crate::spare;

/// What one direction's frames depend on.
pub(crate) struct Outbound {
    /// Longest message, packed payload, or header-and-data of a fragment behind the three header bytes:
    /// `PAYLOAD_MIN <= payload_max <= LENGTH_MAX - HEADER`.
    payload_max: usize,
    /// Longest packed payload, and longest payload outside of fragments that is compressed: `pack_max <= payload_max`. With zlib a
    /// little less than `payload_max`, so that it fits its frame even if it grows.
    pack_max: usize,
    /// Payloads shorter than this stay plain; `usize::MAX` without compression.
    threshold: usize,
    compression: Compression,
    level: u8,
    wide_fragment_ids: bool,
    last_fragment_id: u16,
    connected: bool,
    pub(crate) last_sent_ns: u64,
    /// Made with the first compressed frame.
    deflater: Option<Box<Deflater>>,
}

/// Shortest `max_user_message_size` that sessions accept: the first fragment must hold the stream id.
pub(crate) const PAYLOAD_MIN: usize = 16;

impl Outbound {
    pub(crate) fn new() -> Self {
        Self {
            payload_max: PAYLOAD_MIN,
            pack_max: PAYLOAD_MIN,
            threshold: usize::MAX,
            compression: Compression::None,
            level: 0,
            wide_fragment_ids: true,
            last_fragment_id: 0,
            connected: false,
            last_sent_ns: 0,
            deflater: None,
        }
    }

    /// Takes over what the handshake agreed on.
    pub(crate) fn agree(
        &mut self,
        version: Version,
        max_user_message_size: u16,
        compression: Compression,
        level: u8,
        threshold: Option<usize>,
    ) {
        self.payload_max = usize::from(max_user_message_size).clamp(PAYLOAD_MIN, frame::LENGTH_MAX - HEADER);
        self.pack_max = match compression {
            Compression::Zlib => (self.payload_max - self.payload_max.min(ZLIB_GROWTH_MAX)).max(PAYLOAD_MIN),
            _ => self.payload_max,
        };
        self.wide_fragment_ids = version.wide_fragment_ids();
        self.compression = compression;
        self.level = level;
        self.threshold = match compression {
            Compression::None => usize::MAX,
            _ => threshold.unwrap_or(compression.default_threshold()),
        };
        self.connected = true;
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connected
    }

    /// Ends the session for this direction and frees everything.
    pub(crate) fn close(&mut self) {
        self.connected = false;
        self.deflater = None;
    }

    pub(crate) fn ping(&mut self, now: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&frame::PING);
        self.last_sent_ns = now;
    }

    pub(crate) fn check(&self, msg: &[u8]) -> Result<(), WriteError> {
        if !self.connected {
            Err(WriteError::NotConnected)
        } else if msg.is_empty() {
            Err(WriteError::Empty)
        } else if u32::try_from(msg.len()).is_err() {
            Err(WriteError::TooLong)
        } else {
            Ok(())
        }
    }

    /// Appends a message that [`check`](Self::check) has passed, in a frame of its own or in fragments.
    pub(crate) fn write(&mut self, now: u64, msg: &[u8], stream_id: Option<i32>, out: &mut Vec<u8>) {
        self.last_sent_ns = now;
        if msg.len() > self.payload_max {
            self.write_fragments(msg, stream_id, out);
            return;
        }
        let start = out.len();
        out.reserve(HEADER + msg.len());
        out.extend_from_slice(&[0, 0, flag::DATA]);
        out.extend_from_slice(msg);
        patch_stream_id(out, start + HEADER, stream_id);
        self.end_frame(start, HEADER, out);
    }

    fn write_fragments(&mut self, msg: &[u8], stream_id: Option<i32>, out: &mut Vec<u8>) {
        let id = self.next_fragment_id();
        let frame_max = HEADER + self.payload_max;
        let mut rest = msg;
        while !rest.is_empty() {
            let first = rest.len() == msg.len();
            let start = out.len();
            out.extend_from_slice(&[0, 0, flag::EXTENDED | flag::DATA]);
            if first {
                out.push(extended::FIRST_FRAGMENT);
                out.extend_from_slice(&(msg.len() as u32).to_be_bytes());
            } else {
                out.push(extended::FRAGMENT);
            }
            if self.wide_fragment_ids {
                out.extend_from_slice(&id.to_be_bytes());
            } else {
                out.push(id as u8);
            }
            let head = out.len() - start;
            let (now, later) = rest.split_at(rest.len().min(frame_max - head));
            out.extend_from_slice(now);
            if first {
                patch_stream_id(out, start + head, stream_id);
            }
            self.end_frame(start, head, out);
            rest = later;
        }
    }

    /// 1 to 65535, in versions 11 and 12 to 255. A message's fragments are written in one go, so ids never meet.
    fn next_fragment_id(&mut self) -> u16 {
        let max = if self.wide_fragment_ids { u16::MAX } else { u16::from(u8::MAX) };
        self.last_fragment_id = if self.last_fragment_id >= max { 1 } else { self.last_fragment_id + 1 };
        self.last_fragment_id
    }

    /// Compresses the frame that `out` ends with if that is due, and writes its length.
    #[inline]
    fn end_frame(&mut self, start: usize, head: usize, out: &mut Vec<u8>) {
        if out.len() - start - head >= self.threshold && self.compress_frame(start, head, out) {
            return;
        }
        patch_length(out, start);
    }

    /// Replaces the payload of the plain frame at `start` by its compressed form. False if the frame is to stay as it is.
    ///
    /// Fragments that grow go on in a second frame, as with ETA. Other frames do not come to that: ETA 3.9.1 fails to read an
    /// overflowing data or packed frame that comes after a fragmented message.
    #[cold]
    fn compress_frame(&mut self, start: usize, head: usize, out: &mut Vec<u8>) -> bool {
        let payload_at = start + head;
        let room = HEADER + self.payload_max - head;
        if head == HEADER && out.len() - payload_at > self.pack_max {
            return false;
        }
        if self.deflater.is_none() {
            self.deflater = Deflater::new(self.compression, self.level).map(Box::new);
        }
        let Some(deflater) = &mut self.deflater else { return false };
        spare::with_work(|work| {
            let Some(length) = deflater.compress(&out[payload_at..], work) else { return false };
            out.truncate(payload_at);
            out[start + 2] = out[start + 2] & !flag::DATA | flag::COMPRESSED;
            let (first, second) = work.bytes[..length].split_at(length.min(room));
            out.extend_from_slice(first);
            patch_length(out, start);
            if !second.is_empty() {
                out[start + 2] |= flag::OVERFLOW;
                let start = out.len();
                out.extend_from_slice(&[0, 0, flag::COMPRESSED]);
                out.extend_from_slice(second);
                patch_length(out, start);
            }
            true
        })
    }
}

/// Packs messages into frames at the end of a buffer; made by [`Connection::pack`](crate::Connection::pack).
///
/// The open frame is closed by [`finish`](Self::finish), or at the latest when the packer is dropped.
#[must_use = "push messages, then finish"]
pub struct Packer<'a> {
    outbound: &'a mut Outbound,
    out: &'a mut Vec<u8>,
    now: u64,
    /// Where the open frame begins.
    start: usize,
    /// Longest message that still fits the open frame; 0 if none is open.
    fits: usize,
    /// Messages in the open frame.
    in_frame: usize,
    messages: usize,
    error: Option<WriteError>,
}

impl<'a> Packer<'a> {
    pub(crate) fn new(outbound: &'a mut Outbound, now: u64, out: &'a mut Vec<u8>) -> Self {
        Self { outbound, out, now, start: 0, fits: 0, in_frame: 0, messages: 0, error: None }
    }

    /// Appends a message. With a stream id, bytes 4 to 8 of the message (where each RWF header has it) are replaced by it in the
    /// output.
    ///
    /// A message that does not fit the open frame begins a new one; one that fits no packed frame goes out alone or in fragments.
    #[inline]
    pub fn push(&mut self, body: &[u8], stream_id: Option<i32>) {
        // A single comparison for both: an empty message and one that is too long.
        if body.len().wrapping_sub(1) >= self.fits {
            self.push_elsewhere(body, stream_id);
            return;
        }
        self.fits = (self.fits - body.len()).saturating_sub(PACKED_LENGTH);
        self.append(body, stream_id);
    }

    /// Closes the open frame and gives the number of messages pushed.
    ///
    /// # Errors
    /// The first message that could not be written, and why. All others were.
    pub fn finish(mut self) -> Result<usize, WriteError> {
        self.close_frame();
        self.error.map_or(Ok(self.messages), Err)
    }

    #[inline]
    fn append(&mut self, body: &[u8], stream_id: Option<i32>) {
        let [high, low] = (body.len() as u16).to_be_bytes();
        if let Some((&[a, b, c, d, w, x, y, z], rest)) = body.split_first_chunk() {
            let [w, x, y, z] = stream_id.map_or([w, x, y, z], i32::to_be_bytes);
            self.out.extend_from_slice(&[high, low, a, b, c, d, w, x, y, z]);
            self.out.extend_from_slice(rest);
        } else {
            // Too short for a stream id.
            self.out.extend_from_slice(&[high, low]);
            self.out.extend_from_slice(body);
        }
        self.in_frame += 1;
        self.messages += 1;
    }

    #[cold]
    #[inline(never)]
    fn push_elsewhere(&mut self, body: &[u8], stream_id: Option<i32>) {
        if let Err(error) = self.outbound.check(body) {
            self.error.get_or_insert(error);
            return;
        }
        self.close_frame();
        let pack_max = self.outbound.pack_max;
        if body.len() + PACKED_LENGTH > pack_max {
            self.outbound.write(self.now, body, stream_id, self.out);
            self.messages += 1;
            return;
        }
        self.start = self.out.len();
        self.out.reserve(HEADER + pack_max);
        self.out.extend_from_slice(&[0, 0, flag::DATA | flag::PACKED]);
        self.fits = (pack_max - PACKED_LENGTH - body.len()).saturating_sub(PACKED_LENGTH);
        self.append(body, stream_id);
    }

    fn close_frame(&mut self) {
        match self.in_frame {
            0 => return,
            1 => {
                // Alone in its frame, a message needs no length of its own. The copy is of this one message only.
                let payload = self.start + HEADER;
                self.out.copy_within(payload + PACKED_LENGTH.., payload);
                self.out.truncate(self.out.len() - PACKED_LENGTH);
                self.out[self.start + 2] = flag::DATA;
            }
            _ => {}
        }
        self.outbound.end_frame(self.start, HEADER, self.out);
        self.outbound.last_sent_ns = self.now;
        self.in_frame = 0;
        self.fits = 0;
    }
}

impl Drop for Packer<'_> {
    fn drop(&mut self) {
        self.close_frame();
    }
}

#[inline]
fn patch_stream_id(out: &mut [u8], message_at: usize, stream_id: Option<i32>) {
    if let Some(id) = stream_id
        && let Some(field) = out[message_at..].get_mut(STREAM_ID_OFFSET..STREAM_ID_OFFSET + 4)
    {
        field.copy_from_slice(&id.to_be_bytes());
    }
}

fn patch_length(out: &mut [u8], start: usize) {
    let length = (out.len() - start) as u16;
    out[start..start + 2].copy_from_slice(&length.to_be_bytes());
}

/// A payload of 64 KB that cannot be compressed grows by this much at most: stored blocks of at least 16 KB, 5 bytes each, the sync flush
/// and the zlib header. (Level 1 of `zlib-rs` would not store; [`Deflater`] does not use it.)
const ZLIB_GROWTH_MAX: usize = 40;

/// Length bytes before each message in a packed frame.
const PACKED_LENGTH: usize = 2;

/// Where the stream id begins in the header of each RWF message (after header length, class and domain).
const STREAM_ID_OFFSET: usize = 4;
