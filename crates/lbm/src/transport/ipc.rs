//! LBT-IPC: one writer and many readers over a log in shared memory. Here is what the log holds; the memory, its positions and who
//! waits for whom are the caller's ([`Room`] for the writer, slices for the readers).
//!
//! A record is a header of 16 bytes (length, kind, sequence number, zero; all 32 bits, native order) and a datagram of LBMC messages,
//! up to the next multiple of 8. Readers always see whole records.

use super::{Carrier, DatagramSink, LossReason, Order, WouldBlock};

/// First eight bytes of what identifies a segment.
pub const MAGIC: u64 = u64::from_le_bytes(*b"QWLBTIPC");
/// Version of the records.
pub const VERSION: u32 = 2;

const RECORD_HEADER: usize = 16;
const DATA: u32 = 1;

/// Who waits for whom: `transport_lbtipc_behavior`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pacing {
    /// The writer overwrites what a slow reader has not read; the reader is told of its loss.
    #[default]
    Source,
    /// The writer waits for the slowest reader.
    Receiver,
}

/// Whose session a segment is: 64 bytes in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// As advertised.
    pub session_id: u32,
    /// As advertised.
    pub transport_id: u16,
    /// As advertised.
    pub host_id: u32,
}

impl Identity {
    /// Magic (u64), version, session id, transport id, host id (u32 each), native order, and zeros.
    pub fn encode(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        put(&mut bytes[8..24], [VERSION, self.session_id, u32::from(self.transport_id), self.host_id]);
        bytes
    }

    /// `None` if it is no segment of LBT-IPC, or of another version.
    pub fn decode(bytes: &[u8; 64]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<8>()?;
        let [version, session_id, transport_id, host_id] = fields(rest)?;
        (u64::from_ne_bytes(*magic) == MAGIC && version == VERSION).then_some(Self {
            session_id,
            transport_id: u16::try_from(transport_id).ok()?,
            host_id,
        })
    }
}

/// The writer's end of the memory.
pub trait Room {
    /// The bytes behind what is published: at least `want`, unless readers have yet to make room. What was written there stays until
    /// it is published, and what was once given is never taken back.
    fn room(&mut self, want: usize) -> &mut [u8];

    /// Makes the first `bytes` of it visible to readers.
    fn publish(&mut self, bytes: usize);
}

/// The log does not hold what its writer would have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// How many bytes behind the first one the broken record begins.
    pub at: usize,
}

impl core::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("a record in shared memory is broken; the session has to be joined anew")
    }
}

impl core::error::Error for Corrupt {}

const fn padded(length: usize) -> usize {
    (RECORD_HEADER + length + 7) & !7
}

/// Spelled out: calls that copy slices are not always inlined, and this is written for each record.
fn put(to: &mut [u8], values: [u32; 4]) {
    let [[a, b, c, d], [e, f, g, h], [i, j, k, l], [m, n, o, p]] = values.map(u32::to_ne_bytes);
    if let Some(to) = to.first_chunk_mut() {
        *to = [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p];
    }
}

fn fields(from: &[u8]) -> Option<[u32; 4]> {
    let bytes: &[u8; RECORD_HEADER] = from.first_chunk()?;
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *bytes;
    Some([[a, b, c, d], [e, f, g, h], [i, j, k, l], [m, n, o, p]].map(u32::from_ne_bytes))
}

/// The writer's side.
#[derive(Debug)]
pub struct Log {
    datagram_max: usize,
    batching_minimum_length: usize,
    /// A record whose datagram is no longer than this stays open.
    append_max: usize,
    pacing: Pacing,
    /// Bytes of the open record's datagram; 0 = no record is open.
    open: usize,
    sqn: u32,
}

impl Log {
    /// A record is published once its messages are `batching_minimum_length` long. The ring has to hold four of the longest datagrams;
    /// paced by readers, also twice the longest message, which would not be taken otherwise.
    pub fn new(datagram_max: usize, batching_minimum_length: usize, pacing: Pacing) -> Self {
        let datagram_max = datagram_max.clamp(500, 65_535);
        let append_max = datagram_max.min(batching_minimum_length.saturating_sub(1));
        Self { datagram_max, batching_minimum_length, append_max, pacing, open: 0, sqn: 0 }
    }

    /// Whether messages wait for a flush.
    pub fn is_open(&self) -> bool {
        self.open != 0
    }

    /// Room without which a send of so many bytes would block.
    pub fn needs(&self, bytes: usize) -> usize {
        let records = bytes / (self.datagram_max / 2) + 2;
        self.open + bytes + records * (RECORD_HEADER + 8)
    }

    /// The log with its memory, to send through.
    #[inline]
    pub fn writer<'a, R: Room>(&'a mut self, memory: &'a mut R) -> LogWriter<'a, R> {
        LogWriter { log: self, memory }
    }
}

/// A [`Log`] and its memory.
#[derive(Debug)]
pub struct LogWriter<'a, R> {
    log: &'a mut Log,
    memory: &'a mut R,
}

impl<R: Room> LogWriter<'_, R> {
    #[inline]
    fn close(&mut self) {
        let length = core::mem::take(&mut self.log.open);
        if length != 0 {
            put(&mut self.memory.room(RECORD_HEADER)[..RECORD_HEADER], [length as u32, DATA, self.log.sqn, 0]);
            self.log.sqn = self.log.sqn.wrapping_add(1);
            self.memory.publish(padded(length));
        }
    }
}

impl<R: Room> Carrier for LogWriter<'_, R> {
    fn message_max(&self) -> usize {
        self.log.datagram_max
    }

    #[inline]
    fn admit(&mut self, _now: u64, bytes: usize) -> Result<(), WouldBlock> {
        if self.log.pacing == Pacing::Source {
            return Ok(());
        }
        let need = self.log.needs(bytes);
        if self.memory.room(need).len() >= need { Ok(()) } else { Err(WouldBlock) }
    }

    #[inline]
    fn claim(&mut self, _now: u64, length: usize) -> &mut [u8] {
        if self.log.open + length > self.log.datagram_max {
            self.close();
        }
        let at = RECORD_HEADER + self.log.open;
        self.log.open += length;
        // With the padding behind it, so that it can be published.
        &mut self.memory.room(padded(self.log.open))[at..at + length]
    }

    #[inline]
    fn append(&mut self, length: usize) -> Option<&mut [u8]> {
        let (open, end) = (self.log.open, self.log.open + length);
        if open == 0 || end > self.log.append_max {
            return None;
        }
        let whole = padded(end);
        let room = self.memory.room(whole);
        if room.len() < whole {
            return None;
        }
        self.log.open = end;
        Some(&mut room[RECORD_HEADER + open..RECORD_HEADER + end])
    }

    #[inline]
    fn commit(&mut self, _now: u64, flush: bool) {
        if flush || self.log.open >= self.log.batching_minimum_length {
            self.close();
        }
    }

    fn flush(&mut self, _now: u64) {
        self.close();
    }
}

/// A reader's side.
#[derive(Debug, Default)]
pub struct LogReader {
    /// The next record's number, once one was read.
    expected: Option<u32>,
}

impl LogReader {
    /// Has read nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Hands on all records in `bytes` and returns how many bytes they take; a record that is cut at the end comes again. After an
    /// overrun nothing special is to be done: the next record's number tells what was lost.
    ///
    /// # Errors
    /// A record that no writer has written.
    pub fn read(&mut self, bytes: &[u8], sink: &mut impl DatagramSink) -> Result<usize, Corrupt> {
        let mut at = 0;
        while let Some([length, kind, sqn, _]) = bytes.get(at..).and_then(fields) {
            let length = length as usize;
            if kind != DATA || length > usize::from(u16::MAX) {
                return Err(Corrupt { at });
            }
            let Some(body) = bytes.get(at + RECORD_HEADER..at + RECORD_HEADER + length) else { break };
            if at + padded(length) > bytes.len() {
                break;
            }
            at += padded(length);
            self.number(sqn, sink);
            sink.datagram(sqn, Order::InOrder, body);
        }
        if at == 0 && bytes.len() >= padded(usize::from(u16::MAX)) {
            return Err(Corrupt { at });
        }
        Ok(at)
    }

    #[inline]
    fn number(&mut self, sqn: u32, sink: &mut impl DatagramSink) {
        match self.expected.replace(sqn.wrapping_add(1)) {
            None => sink.begin(),
            Some(expected) if expected != sqn => sink.lost(expected, sqn.wrapping_sub(expected), LossReason::Window),
            Some(_) => {}
        }
    }
}
