//! Frames out of files.

use crate::gzip::{Ending, Gunzip, MAGIC};
use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read};
use std::ops::Range;

/// A captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The frame's place in the file, from 1.
    pub number: u64,
    /// When it was captured: nanoseconds since 1970, 0 where the capture does not say.
    pub nanos: u64,
    /// What it begins with, see [`crate::link`].
    pub link: u32,
    /// What was captured of it.
    pub bytes: &'a [u8],
    /// Bytes that it had on the wire: more than `bytes` where the capture has a part of it.
    pub length: usize,
}

/// Why a file is not read on. All but `Io` are faults of the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// There is not a byte in it.
    #[error("is empty")]
    Empty,
    /// The file begins as no capture does.
    #[error("is no pcap or pcapng capture")]
    NoCapture,
    /// The file's content contradicts itself.
    #[error("is damaged after frame {after}: {what}")]
    Damaged {
        /// The last frame before.
        after: u64,
        /// The fault.
        what: &'static str,
    },
    /// The system, or gzip, cannot give more of it.
    #[error("cannot be read after frame {after}: {error}")]
    Io {
        /// The last frame before.
        after: u64,
        /// What was said.
        error: io::Error,
    },
}

impl From<CaptureError> for io::Error {
    fn from(error: CaptureError) -> Self {
        let kind = match &error {
            CaptureError::Io { error, .. } => error.kind(),
            _ => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}

/// What a capture does not have, or a reader could not give. Shown as words, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// The file ends within a frame or a member of gzip: its writer was stopped, or still writes.
    pub is_cut: bool,
    /// Bytes behind gzip's last member that are no gzip.
    pub garbage: u64,
    /// Frames of which the capture has a part: of any protocol, so that it may not matter to whoever reads one.
    pub short_frames: u64,
}

impl LeftOut {
    /// All was there.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The file was read to an end that is one; frames may be short.
    pub fn is_whole_file(&self) -> bool {
        !self.is_cut && self.garbage == 0
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.is_cut {
            parts.push("the file is cut off at its end".to_owned());
        }
        if self.garbage > 0 {
            parts.push(format!("{} bytes behind the end of the gzip data are no gzip and were not read", self.garbage));
        }
        if self.short_frames > 0 {
            parts.push(format!("{} frames were captured in part (snap length)", self.short_frames));
        }
        f.write_str(&parts.join("; "))
    }
}

/// The frames of a capture, in order: pcap or pcapng of either byte order, micro- or nanoseconds; gzipped or not. Captures that were
/// appended to each other, also of different kinds, are read as one.
#[derive(Debug)]
pub struct Reader<R> {
    input: Input<R>,
    format: Format,
    big_endian: bool,
    /// What is being read: a frame behind its head, or a block.
    buffer: Vec<u8>,
    /// Of a pcap file one, of a pcapng section any number.
    interfaces: Vec<Interface>,
    frames: u64,
    left_out: LeftOut,
}

#[derive(Debug)]
enum Input<R> {
    Plain(BufReader<R>),
    Gzip(Box<BufReader<Gunzip<BufReader<R>>>>),
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(input) => input.read(out),
            Self::Gzip(input) => input.read(out),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// With the length of what stands before each frame.
    Pcap {
        head: usize,
    },
    PcapNg,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u32,
    /// Units of its times in a second.
    per_second: u64,
    offset_s: i64,
    /// A simple block tells the length on the wire alone; at most so much of it is there.
    snap_length: usize,
}

/// What a block or record holds: when, of which link type, where in the buffer, and how long it was.
struct Found {
    nanos: u64,
    link: u32,
    range: Range<usize>,
    length: usize,
}

/// No frame of a sensible capture is longer; programs that capture write 256 KB at most by default.
const FRAME_MAX: usize = 4 << 20;
/// Bytes of gzip's content that are unpacked at a time.
const UNPACKED: usize = 64 * 1024;
/// Bytes for which room is made at a time, whatever a file promises.
const STEP: usize = 64 * 1024;
const SECTION: [u8; 4] = [0x0A, 0x0D, 0x0D, 0x0A];
const NANOS: u64 = 1_000_000_000;

/// Whether these are the first bytes of a capture that is not gzipped.
pub fn is_capture(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|magic| *magic == SECTION || pcap_of(*magic).is_some())
}

/// Byte order, units in a second, and length of a frame's head of a pcap file.
fn pcap_of(magic: [u8; 4]) -> Option<(bool, u64, usize)> {
    let big_endian = magic[0] == 0xA1;
    let number = if big_endian { u32::from_be_bytes(magic) } else { u32::from_le_bytes(magic) };
    match number {
        0xA1B2_C3D4 => Some((big_endian, 1_000_000, 16)),
        0xA1B2_3C4D => Some((big_endian, NANOS, 16)),
        // A patched libpcap of 1999, whose frames have eight bytes more before them.
        0xA1B2_CD34 => Some((big_endian, 1_000_000, 24)),
        _ => None,
    }
}

/// Whether a file of pcap begins here, in the middle of another: its magic, and version 2.4 in the same byte order.
fn begins_pcap(head: &[u8]) -> bool {
    let (Some(magic), Some(version)) = (head.first_chunk::<4>(), head.get(4..8)) else { return false };
    pcap_of(*magic).is_some_and(|(big, ..)| version == if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] })
}

fn byte_order(mark: &[u8]) -> Option<bool> {
    match mark {
        [0x1A, 0x2B, 0x3C, 0x4D] => Some(true),
        [0x4D, 0x3C, 0x2B, 0x1A] => Some(false),
        _ => None,
    }
}

impl<R: Read> Reader<R> {
    /// The capture that a reader holds.
    ///
    /// # Errors
    /// When it cannot be read or is no capture.
    pub fn new(input: R) -> Result<Self, CaptureError> {
        let mut plain = BufReader::with_capacity(256 * 1024, input);
        let head = plain.fill_buf().map_err(|error| CaptureError::Io { after: 0, error })?;
        if head.is_empty() {
            return Err(CaptureError::Empty);
        }
        // A pipe may give one byte at first: no capture begins with that of gzip.
        let is_gzip = head[0] == MAGIC[0];
        let unpacked = |plain| Input::Gzip(Box::new(BufReader::with_capacity(UNPACKED, Gunzip::new(plain))));
        let input = if is_gzip { unpacked(plain) } else { Input::Plain(plain) };
        let mut reader = Self {
            input,
            format: Format::PcapNg,
            big_endian: false,
            buffer: Vec::new(),
            interfaces: Vec::new(),
            frames: 0,
            left_out: LeftOut::default(),
        };
        if !reader.fill(12)? && reader.buffer.is_empty() {
            return Err(CaptureError::Empty);
        }
        if reader.buffer.starts_with(&SECTION) {
            reader.section()?;
        } else if reader.buffer.first_chunk().is_some_and(|magic| pcap_of(*magic).is_some()) {
            reader.file_head()?;
        } else {
            return Err(CaptureError::NoCapture);
        }
        Ok(reader)
    }

    /// The next frame; `None` at the end. Of a last frame that is cut off there is what was before the cut.
    ///
    /// # Errors
    /// When the file cannot be read on or is damaged.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, CaptureError> {
        let found = loop {
            if self.left_out.is_cut {
                break None;
            }
            let found = match self.format {
                Format::Pcap { head } => self.record(head)?,
                Format::PcapNg => self.block()?,
            };
            match found {
                Next::Frame(found) => break Some(found),
                Next::Other => {}
                Next::End => break None,
            }
        };
        let Some(Found { nanos, link, range, length }) = found else {
            self.note_ending();
            return Ok(None);
        };
        self.frames += 1;
        let bytes = &self.buffer[range];
        let length = length.max(bytes.len());
        // Of a last frame the file has not more.
        self.left_out.short_frames += u64::from(length > bytes.len() && !self.left_out.is_cut);
        Ok(Some(Frame { number: self.frames, nanos, link, bytes, length }))
    }

    /// What was not there so far; whole once [`Self::next_frame`] has given `None` or an error.
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    fn note_ending(&mut self) {
        if let Input::Gzip(input) = &self.input {
            match input.get_ref().ending() {
                Ending::Whole => {}
                Ending::Cut => self.left_out.is_cut = true,
                Ending::Garbage(bytes) => self.left_out.garbage = bytes,
            }
        }
    }

    /// The record of a pcap file, or the head of a file that was appended to it.
    fn record(&mut self, head: usize) -> Result<Next, CaptureError> {
        self.buffer.clear();
        if !self.fill(16)? {
            return Ok(self.at_end());
        }
        if begins_pcap(&self.buffer) {
            self.file_head()?;
            return Ok(Next::Other);
        }
        if self.buffer.starts_with(&SECTION) && byte_order(&self.buffer[8..12]).is_some() {
            self.section()?;
            return Ok(Next::Other);
        }
        let [seconds, fraction, captured, length] = [0, 4, 8, 12].map(|at| self.number(at));
        if captured as usize > FRAME_MAX {
            return Err(self.damaged("it has a frame that is longer than any frame"));
        }
        if !self.fill(head)? {
            return Ok(self.at_end());
        }
        let Some(Interface { link, per_second, .. }) = self.interfaces.first().copied() else {
            return Err(self.damaged("it has no head"));
        };
        let nanos = u64::from(seconds) * NANOS + u64::from(fraction) * (NANOS / per_second);
        let is_whole = self.fill(head + captured as usize)?;
        self.left_out.is_cut |= !is_whole;
        if !is_whole && self.buffer.len() == head {
            return Ok(Next::End);
        }
        let range = head..self.buffer.len();
        Ok(Next::Frame(Found { nanos, link, range, length: length.max(captured) as usize }))
    }

    /// The head of a pcap file, whose first bytes are in the buffer.
    fn file_head(&mut self) -> Result<(), CaptureError> {
        let magic = self.buffer.first_chunk().copied().unwrap_or_default();
        let Some((big_endian, per_second, head)) = pcap_of(magic) else { return Err(CaptureError::NoCapture) };
        if !self.fill(24)? {
            return Err(self.damaged("it ends within its head"));
        }
        (self.big_endian, self.format) = (big_endian, Format::Pcap { head });
        // The upper half may tell of checksums behind the frames, which IP's length leaves out.
        let link = self.number(20) & 0xFFFF;
        self.interfaces.clear();
        self.interfaces.push(Interface { link, per_second, offset_s: 0, snap_length: FRAME_MAX });
        Ok(())
    }

    /// The head of a section, whose first bytes are in the buffer; it says the byte order.
    fn section(&mut self) -> Result<(), CaptureError> {
        if !self.fill(12)? {
            return Err(self.damaged("it ends within the head of a section"));
        }
        let Some(big_endian) = byte_order(&self.buffer[8..12]) else {
            return Err(self.damaged("the head of a section has no byte order"));
        };
        (self.big_endian, self.format) = (big_endian, Format::PcapNg);
        self.interfaces.clear();
        let length = self.number(4) as usize;
        if !(28..=FRAME_MAX).contains(&length) {
            return Err(self.damaged("the head of a section has no sensible length"));
        }
        self.left_out.is_cut |= !self.fill(length.next_multiple_of(4))?;
        Ok(())
    }

    /// The next block of a section.
    fn block(&mut self) -> Result<Next, CaptureError> {
        self.buffer.clear();
        if !self.fill(8)? {
            return Ok(self.at_end());
        }
        if self.buffer.starts_with(&SECTION) {
            self.section()?;
            return Ok(Next::Other);
        }
        if begins_pcap(&self.buffer) {
            self.file_head()?;
            return Ok(Next::Other);
        }
        let (kind, total) = (self.number(0), self.number(4) as usize);
        if total < 12 {
            return Err(self.damaged("it has a block that is shorter than any block"));
        }
        let padded = total.next_multiple_of(4);
        if !matches!(kind, 1..=3 | 6) {
            // Names, statistics, keys: of any length, and never kept.
            let rest = padded as u64 - 8;
            let passed = io::copy(&mut (&mut self.input).take(rest), &mut io::sink()).map_err(|e| self.unread(e))?;
            self.left_out.is_cut |= passed < rest;
            return Ok(Next::Other);
        }
        if total > FRAME_MAX {
            return Err(self.damaged("it has a frame that is longer than any frame"));
        }
        if !self.fill(padded)? {
            self.left_out.is_cut = true;
        } else if self.number(padded - 4) as usize != total {
            return Err(self.damaged("a block says two lengths"));
        }
        // Behind the body stands the length again, unless the file ends before it.
        let end = (padded - 4).min(self.buffer.len());
        match kind {
            1 => {
                self.interface(end);
                Ok(Next::Other)
            }
            3 => self.simple(end),
            _ => self.enhanced(kind, end),
        }
    }

    /// A frame with interface and time: block 6, or 2, which was before it.
    fn enhanced(&mut self, kind: u32, end: usize) -> Result<Next, CaptureError> {
        if end < 28 {
            return self.short_block();
        }
        // Block 2 has two bytes of interface and two of drops.
        let interface = if kind == 6 { self.number(8) as usize } else { usize::from(self.short(8)) };
        let Some(Interface { link, per_second, offset_s, .. }) = self.interfaces.get(interface).copied() else {
            return Err(self.damaged("a frame is of an interface that the section has not"));
        };
        let ticks = u64::from(self.number(12)) << 32 | u64::from(self.number(16));
        let nanos = u128::from(ticks) * u128::from(NANOS) / u128::from(per_second);
        let nanos = (nanos as i128).saturating_add(i128::from(offset_s) * i128::from(NANOS));
        let (captured, length) = (self.number(20) as usize, self.number(24) as usize);
        let range = 28..(28 + captured).min(end);
        if range.len() < captured && !self.left_out.is_cut {
            return Err(self.damaged("a frame is longer than its block"));
        }
        let nanos = u64::try_from(nanos).unwrap_or(0);
        Ok(Next::Frame(Found { nanos, link, range, length: length.max(captured) }))
    }

    /// A frame of the first interface, without a time; what was captured of it is what the block has room for.
    fn simple(&mut self, end: usize) -> Result<Next, CaptureError> {
        if end < 12 {
            return self.short_block();
        }
        let Some(Interface { link, snap_length, .. }) = self.interfaces.first().copied() else {
            return Err(self.damaged("a frame is of an interface that the section has not"));
        };
        let length = self.number(8) as usize;
        let range = 12..(12 + length.min(snap_length)).min(end);
        Ok(Next::Frame(Found { nanos: 0, link, range, length }))
    }

    /// A block that is too short for its kind: the file ends in it, or it is damaged.
    fn short_block(&self) -> Result<Next, CaptureError> {
        if self.left_out.is_cut { Ok(Next::End) } else { Err(self.damaged("a block is too short for its kind")) }
    }

    /// Takes the description of an interface: link type, snap length, and of its options the unit of its times (9) and their offset (14).
    fn interface(&mut self, end: usize) {
        let snap_length = match self.number(12) as usize {
            0 => FRAME_MAX,
            length => length,
        };
        let mut described =
            Interface { link: u32::from(self.short(8)), per_second: 1_000_000, offset_s: 0, snap_length };
        let mut at = 16;
        while at + 4 <= end {
            let (code, length) = (self.short(at), usize::from(self.short(at + 2)));
            let value = self.buffer.get(at + 4..at + 4 + length).unwrap_or_default();
            match (code, value) {
                (0, _) => break,
                (9, &[unit]) => described.per_second = resolution(unit),
                (14, value) if value.len() == 8 => {
                    let offset = u64::from(self.number(at + 4)) | u64::from(self.number(at + 8)) << 32;
                    described.offset_s = if self.big_endian { offset.rotate_left(32) } else { offset } as i64;
                }
                _ => {}
            }
            at += 4 + length.next_multiple_of(4);
        }
        self.interfaces.push(described);
    }

    /// The end of the file, or a cut within the head of a frame.
    fn at_end(&mut self) -> Next {
        self.left_out.is_cut |= !self.buffer.is_empty();
        Next::End
    }

    /// Reads until the buffer has so many bytes; false when the file ends before. The buffer grows as bytes come, not by what was promised.
    fn fill(&mut self, length: usize) -> Result<bool, CaptureError> {
        while self.buffer.len() < length {
            let from = self.buffer.len();
            self.buffer.resize(from + (length - from).min(STEP), 0);
            let read = self.input.read(&mut self.buffer[from..]);
            self.buffer.truncate(from + read.as_ref().map_or(0, |count| *count));
            match read {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.unread(error)),
            }
        }
        Ok(true)
    }

    fn unread(&mut self, error: io::Error) -> CaptureError {
        self.left_out.is_cut = true;
        CaptureError::Io { after: self.frames, error }
    }

    fn damaged(&self, what: &'static str) -> CaptureError {
        CaptureError::Damaged { after: self.frames, what }
    }

    /// The number at a place of the buffer; 0 where there is none.
    fn number(&self, at: usize) -> u32 {
        let bytes = self.buffer.get(at..).and_then(|b| b.first_chunk().copied()).unwrap_or_default();
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn short(&self, at: usize) -> u16 {
        let bytes = self.buffer.get(at..).and_then(|b| b.first_chunk().copied()).unwrap_or_default();
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }
}

enum Next {
    Frame(Found),
    /// Something without a frame.
    Other,
    End,
}

/// Units of a time in a second: a power of ten, or of two if the top bit is set. What no number holds is taken as the default.
fn resolution(code: u8) -> u64 {
    let exponent = u32::from(code & 0x7F);
    let units = if code & 0x80 == 0 { 10u64.checked_pow(exponent) } else { 2u64.checked_pow(exponent) };
    units.unwrap_or(1_000_000)
}

#[cfg(test)]
mod tests;
