//! IEX-TP: numbered messages in segments of one channel, by several lines.
//!
//! A segment: version, protocol, channel, session, length of its messages, count, offset of the stream in bytes, number of its first message, send
//! time; then so many messages, each behind its length in two bytes. Count 0 is a heartbeat and has the number that comes next.
//!
//! Numbers begin again at 1 with a session, and, as recorded days show, also within one: behind a segment with number 1, offset 0 and a send time
//! that is later than all before, by more than lines are apart. A number of 1 alone is no new beginning: the other line's first segment has it, too.
//! If no line brought that segment, numbers that were told of already and are sent so much later tell it. Whatever was sent before a beginning is of the numbers
//! before, though a line that is behind brings it after.

use std::collections::VecDeque;

use crate::lines::{LineCounts, Lines};
use crate::sequence::{Arbiter, Change, Counts, Limits, Receiver};

/// Bytes before the messages of a segment.
pub const HEADER: usize = 40;
/// The version of the transport.
const VERSION: u8 = 1;
/// Sessions that are remembered as over.
const SESSIONS: usize = 16;

/// Which feed a segment is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TOPS: best quotes and trades (0x8003; 0x8002 before 1.6).
    Tops,
    /// DEEP 1.0: price levels and trades.
    Deep,
}

/// A segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which feed.
    pub protocol: Protocol,
    /// Channel of the feed.
    pub channel: u32,
    /// Session, another one each day.
    pub session: u32,
    /// Bytes of messages.
    pub length: u16,
    /// Messages; 0: heartbeat.
    pub count: u16,
    /// Bytes of messages before this segment.
    pub offset: i64,
    /// Number of the first message, or of the one that comes next.
    pub first: u64,
    /// When it was sent, nanoseconds since 1970 UTC.
    pub sent: i64,
}

impl Header {
    /// Reads a header; `None`: too short, of another version or protocol, or with a number below 0.
    pub fn read(segment: &[u8]) -> Option<Self> {
        let bytes = segment.first_chunk::<HEADER>()?;
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let i64_at = |at: usize| (u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32) as i64;
        let protocol = match u16_at(2) {
            0x8002 | 0x8003 => Protocol::Tops,
            0x8004 => Protocol::Deep,
            _ => return None,
        };
        (bytes[0] == VERSION && i64_at(24) >= 0).then(|| Self {
            protocol,
            channel: u32_at(4),
            session: u32_at(8),
            length: u16_at(12),
            count: u16_at(14),
            offset: i64_at(16),
            first: i64_at(24) as u64,
            sent: i64_at(32),
        })
    }

    /// The header's bytes.
    pub fn write(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0] = VERSION;
        let protocol: u16 = if self.protocol == Protocol::Tops { 0x8003 } else { 0x8004 };
        bytes[2..4].copy_from_slice(&protocol.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.channel.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.session.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.length.to_le_bytes());
        bytes[14..16].copy_from_slice(&self.count.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.sent.to_le_bytes());
        bytes
    }

    /// One more than the number of the segment's last message; `None`: past what can be counted.
    fn end(&self) -> Option<u64> {
        self.first.checked_add(u64::from(self.count)).filter(|end| *end < i64::MAX as u64)
    }
}

/// Segments that were wrong or of no use, by kind; none of them stops anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BadSegments {
    /// No header of this version.
    pub header: u64,
    /// Ends before the messages that it counts; those that are whole were used, the others are missing.
    pub cut: u64,
    /// Of another feed or channel than the first segment.
    pub foreign: u64,
    /// Of a session that is over, or of the numbers before they began again within one.
    pub of_an_old_session: u64,
}

/// Where the stream is.
#[derive(Clone, Copy, Debug)]
struct Stream {
    protocol: Protocol,
    channel: u32,
    session: u32,
    /// When its first segment was sent.
    began: i64,
    /// When the segment with the newest message was sent.
    sent: i64,
    /// Numbers began again within the session: when the newest segment of those before was sent.
    before: Option<i64>,
}

/// A stream of IEX-TP from all its lines.
#[derive(Debug)]
pub struct TpReceiver {
    stream: Option<Stream>,
    over: VecDeque<u32>,
    arbiter: Arbiter,
    lines: Lines,
    /// How often numbers began again within a session.
    restarts: u64,
    bad: BadSegments,
}

impl TpReceiver {
    /// A stream of which no segment has come.
    pub fn new(limits: Limits) -> Self {
        Self {
            stream: None,
            over: VecDeque::new(),
            arbiter: Arbiter::new(1, limits),
            lines: Lines::new(),
            restarts: 0,
            bad: BadSegments::default(),
        }
    }

    /// Takes a segment of a line (A is 0, B is 1) at time `now` (nanoseconds, never falling).
    pub fn receive(&mut self, line: u8, segment: &[u8], now: u64, receiver: &mut impl Receiver) {
        let Some((header, end)) = Header::read(segment).and_then(|header| Some((header, header.end()?))) else {
            self.bad.header += 1;
            return;
        };
        if !self.is_of_the_stream(&header, end, receiver) {
            return;
        }
        let new = self.messages(&header, &segment[HEADER..], receiver);
        self.lines.note(line, header.first, u64::from(header.count), new, now);
        self.arbiter.exists_until(end);
        self.arbiter.settle(now, receiver);
    }

    /// When [`TpReceiver::on_timer`] wants to be called.
    pub fn timer(&self) -> Option<u64> {
        self.arbiter.timer()
    }

    /// Tells of what is missing, or gives it up.
    pub fn on_timer(&mut self, now: u64, receiver: &mut impl Receiver) {
        self.arbiter.on_timer(now, receiver);
    }

    /// Numbers that are wanted from the exchange's server of lost messages.
    pub fn poll_request(&mut self) -> Option<std::ops::Range<u64>> {
        self.arbiter.poll_request()
    }

    /// Messages are missing, or were since the stream began.
    pub fn is_in_doubt(&self) -> bool {
        self.arbiter.is_in_doubt()
    }

    /// Counters of messages.
    pub fn counts(&self) -> &Counts {
        self.arbiter.counts()
    }

    /// Counters of a line.
    pub fn line(&self, line: u8) -> LineCounts {
        self.lines.counts(line)
    }

    /// Counters of segments that were wrong.
    pub fn bad(&self) -> &BadSegments {
        &self.bad
    }

    /// How often numbers began again within a session.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Whether a segment is to be used; begins what it begins.
    fn is_of_the_stream(&mut self, header: &Header, end: u64, receiver: &mut impl Receiver) -> bool {
        let Some(stream) = &mut self.stream else {
            self.begin(header, receiver);
            return true;
        };
        if (header.protocol, header.channel) != (stream.protocol, stream.channel) {
            self.bad.foreign += 1;
            return false;
        }
        if header.session != stream.session {
            if self.over.contains(&header.session) {
                self.bad.of_an_old_session += 1;
                return false;
            }
            if self.over.len() == SESSIONS {
                self.over.pop_front();
            }
            self.over.push_back(stream.session);
            self.begin(header, receiver);
        } else if stream.is_older(header) {
            self.bad.of_an_old_session += 1;
            return false;
        } else if stream.is_over(header, end, self.arbiter.end()) {
            let before = stream.sent;
            self.restarts += 1;
            self.begin(header, receiver);
            if let Some(stream) = &mut self.stream {
                stream.before = Some(before);
            }
        } else if end >= self.arbiter.end() {
            stream.sent = stream.sent.max(header.sent);
        }
        true
    }

    /// From message 1 on: a feed has no snapshot, so what came before this segment is missing.
    fn begin(&mut self, header: &Header, receiver: &mut impl Receiver) {
        let Header { protocol, channel, session, sent, .. } = *header;
        self.stream = Some(Stream { protocol, channel, session, began: sent, sent, before: None });
        self.arbiter.begin(1);
        self.lines.forget_times();
        receiver.change(&Change::Session { name: session.to_string(), next: 1 });
    }

    /// Gives the messages of a segment to the arbiter; how many were new.
    fn messages(&mut self, header: &Header, mut rest: &[u8], receiver: &mut impl Receiver) -> u64 {
        let mut new = 0;
        for number in (header.first..).take(usize::from(header.count)) {
            let message = rest
                .split_first_chunk::<2>()
                .and_then(|(length, behind)| behind.split_at_checked(usize::from(u16::from_le_bytes(*length))));
            let Some((message, behind)) = message else {
                self.bad.cut += 1;
                return new;
            };
            if number > 0 {
                new += u64::from(self.arbiter.offer(number, message, receiver));
            }
            rest = behind;
        }
        new
    }
}

/// Lines send the same within this time of each other, nanoseconds.
const APART: i64 = 1_000_000_000;

impl Stream {
    /// Whether a segment of the session is of the numbers before they began again: it was sent before. The other line's first segment alone may have been sent a little
    /// before the one that came first.
    fn is_older(&self, header: &Header) -> bool {
        self.before.is_some_and(|before| header.sent < self.began && (header.sent <= before || header.first > 1))
    }

    /// Whether a segment of the session, whose messages end at `end`, begins numbers again where messages until `known` have been told of, or comes late: a copy was sent
    /// when the segment was, and the first one of another line soon after the stream began.
    fn is_over(&self, header: &Header, end: u64, known: u64) -> bool {
        let is_newest = if header.count == 0 { header.sent >= self.sent } else { header.sent > self.sent };
        let is_first = header.first == 1 && header.offset == 0 && header.sent.saturating_sub(self.began) > APART;
        let is_behind = end < known && header.sent.saturating_sub(self.sent) > APART;
        header.first < known && is_newest && (is_first || is_behind)
    }
}
