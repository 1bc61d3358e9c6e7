//! LBT-IPC: one writer and many readers over a ring in shared memory. The layout is this project's own; mapping the memory, and the
//! atomic loads and stores of positions, are the caller's.
//!
//! A segment is a header page, then a table of readers, then the ring. A position counts bytes since the beginning; its place in the
//! ring is the position modulo the capacity. Records do not wrap: padding fills the end. A record is a header of 16 bytes (length,
//! kind, sequence number, zero; all 32 bits, native order) and a datagram of LBMC messages, up to the next multiple of 8.

use super::{Carrier, DatagramSink, LossReason, Order, WouldBlock};

/// First eight bytes of a segment.
pub const MAGIC: u64 = u64::from_le_bytes(*b"QWLBTIPC");
/// Version of the layout.
pub const VERSION: u32 = 1;
/// Where the header has [`MAGIC`] (u64), then version, pacing (u32 each), capacity (u64), session id, transport id, host id (u32 each).
pub const HEADER_AT: usize = 0;
/// Where the position is up to which the writer may have overwritten the ring: stored before it writes (u64).
pub const CLAIMED_AT: usize = 128;
/// Where the position is up to which records are complete: stored after it has written (u64).
pub const PUBLISHED_AT: usize = 256;
/// Where the writer's last sign of life is, monotonic ns (u64).
pub const ALIVE_AT: usize = 384;
/// Where the table of readers begins.
pub const READERS_AT: usize = 4096;
/// Bytes of a reader's entry: position (u64, [`READER_FREE`] if unused) and sign of life (u64), alone on their cache lines.
pub const READER_SIZE: usize = 128;
/// How many readers there can be.
pub const READERS: usize = 96;
/// Where the ring begins.
pub const RING_AT: usize = READERS_AT + READERS * READER_SIZE;
/// A reader's position while the entry is unused.
pub const READER_FREE: u64 = u64::MAX;

const RECORD_HEADER: usize = 16;
const DATA: u32 = 1;
const PADDING: u32 = 2;

/// Who waits for whom: `transport_lbtipc_behavior`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pacing {
    /// The writer overwrites what a slow reader has not read; the reader is told of its loss.
    #[default]
    Source,
    /// The writer waits for the slowest reader.
    Receiver,
}

/// The ring does not hold what its writer would have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// The position of the broken record.
    pub position: u64,
}

impl core::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "the shared-memory record at position {} is broken; the session has to be joined anew", self.position)
    }
}

impl core::error::Error for Corrupt {}

/// The size of a whole segment whose ring has `capacity` bytes.
pub const fn segment_size(capacity: usize) -> usize {
    RING_AT + capacity
}

fn padded(length: usize) -> u64 {
    ((RECORD_HEADER + length + 7) & !7) as u64
}

fn put(ring: &mut [u8], at: usize, fields: [u32; 4]) {
    for (i, field) in fields.into_iter().enumerate() {
        ring[at + 4 * i..at + 4 * i + 4].copy_from_slice(&field.to_ne_bytes());
    }
}

fn get(ring: &[u8], at: usize) -> Option<[u32; 3]> {
    let header: &[u8; RECORD_HEADER] = ring.get(at..at + RECORD_HEADER)?.try_into().ok()?;
    let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = *header;
    Some([u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]), u32::from_ne_bytes([i, j, k, l])])
}

/// The writer's side.
#[derive(Debug)]
pub struct Log {
    capacity: u64,
    datagram_max: usize,
    batching_minimum_length: usize,
    pacing: Pacing,
    /// Where the open record begins.
    position: u64,
    /// Bytes of the open record's datagram; `None` = no record is open.
    open: Option<usize>,
    sqn: u32,
    /// The slowest reader, as last seen; at most a lap behind `position`.
    gate: u64,
}

impl Log {
    /// `capacity` is a power of two, at least 65,536 and four datagrams.
    pub fn new(capacity: usize, datagram_max: usize, batching_minimum_length: usize, pacing: Pacing) -> Option<Self> {
        let datagram_max = datagram_max.clamp(500, 65_535);
        if !capacity.is_power_of_two() || capacity < 65_536 || capacity < 4 * datagram_max {
            return None;
        }
        Some(Self {
            capacity: capacity as u64,
            datagram_max,
            batching_minimum_length,
            pacing,
            position: 0,
            open: None,
            sqn: 0,
            gate: 0,
        })
    }

    /// What [`PUBLISHED_AT`] has to hold once all that was written is visible.
    pub fn published(&self) -> u64 {
        self.position
    }

    /// What [`CLAIMED_AT`] has to hold before more is written: the end of the longest record that may be open, after padding.
    pub fn claimed(&self) -> u64 {
        self.position + 2 * padded(self.datagram_max)
    }

    /// Who the writer waits for: the smallest position of all readers, or [`READER_FREE`] if there are none. Ask for it when a send
    /// would block, not for each message.
    pub fn set_gate(&mut self, slowest: u64) {
        self.gate = if slowest == READER_FREE { self.position } else { slowest };
    }

    /// The log with its ring, to send through.
    pub fn writer<'a>(&'a mut self, ring: &'a mut [u8]) -> LogWriter<'a> {
        debug_assert_eq!(ring.len() as u64, self.capacity);
        LogWriter { log: self, ring }
    }
}

/// A [`Log`] and its ring.
#[derive(Debug)]
pub struct LogWriter<'a> {
    log: &'a mut Log,
    ring: &'a mut [u8],
}

impl LogWriter<'_> {
    fn offset(&self) -> usize {
        (self.log.position & (self.log.capacity - 1)) as usize
    }

    fn close(&mut self) {
        if let Some(length) = self.log.open.take() {
            let at = self.offset();
            put(self.ring, at, [length as u32, DATA, self.log.sqn, 0]);
            self.log.sqn = self.log.sqn.wrapping_add(1);
            self.log.position += padded(length);
        }
    }

    fn begin(&mut self) {
        let (at, capacity) = (self.offset(), self.log.capacity as usize);
        if at + RECORD_HEADER + self.log.datagram_max > capacity {
            // Records are multiples of 8, so there may be no room for a header; readers know that.
            if capacity - at >= RECORD_HEADER {
                put(self.ring, at, [(capacity - at - RECORD_HEADER) as u32, PADDING, 0, 0]);
            }
            self.log.position += (capacity - at) as u64;
        }
        self.log.open = Some(0);
    }
}

impl Carrier for LogWriter<'_> {
    fn message_max(&self) -> usize {
        self.log.datagram_max
    }

    #[inline]
    fn admit(&mut self, _now: u64, bytes: usize) -> Result<(), WouldBlock> {
        let records = (bytes / (self.log.datagram_max / 2) + 2) as u64;
        let need = bytes as u64 + records * (RECORD_HEADER as u64 + 8) + 2 * padded(self.log.datagram_max);
        let free = match self.log.pacing {
            Pacing::Source => self.log.capacity,
            Pacing::Receiver => {
                self.log.capacity - self.log.position.saturating_sub(self.log.gate).min(self.log.capacity)
            }
        };
        if need <= free { Ok(()) } else { Err(WouldBlock) }
    }

    #[inline]
    fn claim(&mut self, _now: u64, length: usize) -> &mut [u8] {
        if self.log.open.is_none_or(|open| open + length > self.log.datagram_max) {
            self.close();
            self.begin();
        }
        let open = self.log.open.unwrap_or(0);
        let at = self.offset() + RECORD_HEADER + open;
        self.log.open = Some(open + length);
        &mut self.ring[at..at + length]
    }

    #[inline]
    fn commit(&mut self, _now: u64, flush: bool) {
        if flush || self.log.open.is_some_and(|open| open >= self.log.batching_minimum_length) {
            self.close();
        }
    }

    fn flush(&mut self, _now: u64) {
        self.close();
    }
}

/// A reader's side.
#[derive(Debug)]
pub struct LogReader {
    capacity: u64,
    position: u64,
    /// The next record's number, once one was read.
    expected: Option<u32>,
}

impl LogReader {
    /// Begins at `published`, as read from the segment.
    pub fn new(capacity: usize, published: u64) -> Self {
        Self { capacity: capacity as u64, position: published, expected: None }
    }

    /// What the reader's entry has to hold; everything before may be overwritten.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Hands on all records up to `published`. With source pacing the caller gives a `ring` that it has copied, and calls
    /// [`LogReader::overrun`] afterwards and before it believes what it got.
    ///
    /// # Errors
    /// A record that no writer has written.
    pub fn read(&mut self, ring: &[u8], published: u64, sink: &mut impl DatagramSink) -> Result<usize, Corrupt> {
        let (start, mask) = (self.position, self.capacity - 1);
        if ring.len() as u64 != self.capacity || published.wrapping_sub(start) > self.capacity {
            return Err(Corrupt { position: start });
        }
        while self.position != published {
            let corrupt = Corrupt { position: self.position };
            let at = (self.position & mask) as usize;
            let to_end = ring.len() - at;
            if to_end < RECORD_HEADER {
                self.position += to_end as u64;
                continue;
            }
            let [length, kind, sqn] = get(ring, at).ok_or(corrupt)?;
            let body = ring.get(at + RECORD_HEADER..at + RECORD_HEADER + length as usize).ok_or(corrupt)?;
            let size = padded(body.len());
            if size > published - self.position {
                return Err(corrupt);
            }
            self.position += size;
            match kind {
                PADDING => {}
                DATA => {
                    self.number(sqn, sink);
                    sink.datagram(sqn, Order::InOrder, body);
                }
                _ => return Err(corrupt),
            }
        }
        Ok((self.position - start) as usize)
    }

    fn number(&mut self, sqn: u32, sink: &mut impl DatagramSink) {
        match self.expected.replace(sqn.wrapping_add(1)) {
            None => sink.begin(),
            Some(expected) if expected != sqn => sink.lost(expected, sqn.wrapping_sub(expected), LossReason::Window),
            Some(_) => {}
        }
    }

    /// Whether the writer has overwritten what begins at `position`: `claimed` as read from the segment after the records were.
    pub fn overrun(&self, position: u64, claimed: u64) -> bool {
        claimed.saturating_sub(position) > self.capacity
    }

    /// Goes to the newest record after an overrun. The next record's number tells what was lost.
    pub fn skip_to(&mut self, published: u64) {
        self.position = published;
    }
}
