//! A plain reader of captures, which shares no code with the handlers: what it hears is what they are held to.
//!
//! Captures of the exchange IEX: its TOPS feed (best quotes and trades) and its DEEP feed (price levels and trades).
//!
//! A capture is a pcap or pcapng file, plain or gzipped, of UDP packets. A packet's payload is a 40-byte header of the
//! exchange's transport (little-endian: version u8, reserved u8, protocol u16, channel u32, session u32, payload length u16,
//! message count u16, stream offset i64, first sequence number i64, send time i64 in nanoseconds since 1970) and so many
//! messages, each behind its length (u16). Message layouts are at [`Message`]. Prices are ten-thousandths of a dollar.

use capture::ip::{self, Ip};
use capture::{Fragments, Reader};
use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A message that matters here. All begin with: type u8, flags u8, time i64, symbol of 8 characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Nanoseconds since 1970.
    pub time: u64,
    /// The symbol, filled up with blanks.
    pub symbol: [u8; 8],
    /// The event.
    pub what: What,
}

/// What a message tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// `Q`: the best quote of the exchange; a price of 0 is none.
    Quote {
        /// Best bid price.
        bid: i64,
        /// Its size.
        bid_size: u32,
        /// Best ask price.
        ask: i64,
        /// Its size.
        ask_size: u32,
    },
    /// `T`: a trade.
    Trade {
        /// Its price.
        price: i64,
        /// Its size.
        size: u32,
        /// What a break names.
        id: i64,
        /// It counts for the last price, highest, lowest and first; odd lots and those of extended hours count for the volume alone.
        eligible: bool,
    },
    /// `B`: a trade of before was none.
    Break {
        /// The trade's.
        id: i64,
    },
    /// `8` and `5`: a price level of the book has this size now; 0 is gone.
    Level {
        /// The bids' side.
        buy: bool,
        /// Price of the level.
        price: i64,
        /// All that is there.
        size: u32,
        /// The book is consistent after this message.
        settled: bool,
    },
}

/// Flags of a trade.
const EXTENDED_HOURS: u8 = 0x40;
const ODD_LOT: u8 = 0x20;

impl Message {
    /// Reads a message; `None` for one that does not matter here or is too short.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut at = Cursor { bytes };
        let [kind, flags] = at.take()?;
        let time = u64::from_le_bytes(at.take()?);
        let symbol = at.take()?;
        let what = match kind {
            b'Q' => {
                let bid_size = at.u32()?;
                let bid = at.i64()?;
                let ask = at.i64()?;
                What::Quote { bid, bid_size, ask, ask_size: at.u32()? }
            }
            b'T' => {
                let size = at.u32()?;
                let price = at.i64()?;
                What::Trade { price, size, id: at.i64()?, eligible: flags & (EXTENDED_HOURS | ODD_LOT) == 0 }
            }
            b'B' => {
                at.slice(12)?;
                What::Break { id: at.i64()? }
            }
            b'8' | b'5' => {
                let size = at.u32()?;
                What::Level { buy: kind == b'8', price: at.i64()?, size, settled: flags & 1 != 0 }
            }
            _ => return None,
        };
        Some(Self { time, symbol, what })
    }

    /// The symbol that a message of any type is about; `None` for one that is about none.
    pub fn symbol_of(bytes: &[u8]) -> Option<[u8; 8]> {
        match bytes.first()? {
            b'S' => None,
            _ => bytes.get(10..18)?.try_into().ok(),
        }
    }

    /// The symbol without its filling.
    pub fn symbol(&self) -> &str {
        str::from_utf8(&self.symbol).unwrap_or_default().trim_end_matches(' ')
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*head)
    }

    fn slice(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(head)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }
}

/// What comes next in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A message.
    Message(Message),
    /// The stream begins anew: what was known of the books is void.
    Restart,
    /// So many messages are not in the capture: what was known of the books may be wrong from here on.
    Lost(u64),
}

/// What was in a capture beside its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets of which all was heard before.
    pub repeated: u64,
    /// Packets of other protocols, or of another feed of the exchange.
    pub foreign: u64,
    /// How often the stream began anew.
    pub restarts: u64,
    /// Places at which messages are missing.
    pub gaps: u64,
    /// Messages that are missing.
    pub lost: u64,
    /// Those of them whose packets are in the capture, in part.
    pub short: u64,
}

/// In words, of what is missing.
impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} messages are missing from the capture, at {} places", self.lost, self.gaps)
    }
}

/// The messages of a capture, in order; read as they are asked for.
pub struct Capture {
    reader: Reader<Box<dyn Read + Send>>,
    fragments: Fragments,
    /// The payload that is being taken apart, where it goes on, and how many messages it should have there.
    payload: Vec<u8>,
    at: usize,
    left: u64,
    /// The capture has a part of the packet.
    is_short: bool,
    /// To be told before the next message.
    pending: VecDeque<Input>,
    stream: Option<Stream>,
    /// Sessions that others followed: what comes of them is late.
    before: VecDeque<u32>,
    feed: Option<Feed>,
    counters: Counters,
}

/// Where the exchange's stream is.
struct Stream {
    session: u32,
    /// Number of the next message.
    next: i64,
    /// When the newest packet was sent.
    sent: i64,
}

/// A feed of the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// Best quotes and trades (0x8003; 0x8002 before).
    Tops,
    /// Price levels and trades (0x8004).
    Deep,
}

impl Feed {
    fn of(protocol: u16) -> Option<Self> {
        match protocol {
            0x8002 | 0x8003 => Some(Self::Tops),
            0x8004 => Some(Self::Deep),
            _ => None,
        }
    }
}

/// Length of the transport's header.
const HEADER: usize = 40;
/// Sessions that are remembered.
const SESSIONS: usize = 16;

/// The header of a packet, as far as it matters.
#[derive(Clone, Copy)]
struct Header {
    feed: Feed,
    session: u32,
    /// Messages in the packet; none tells that the stream is alive, and where it is.
    count: u16,
    /// Bytes of messages before this packet.
    offset: i64,
    /// Number of the first message.
    first: i64,
    /// Nanoseconds since 1970.
    sent: i64,
}

impl Header {
    fn decode(payload: &[u8]) -> Option<Self> {
        let mut at = Cursor { bytes: payload };
        at.slice(2)?;
        let feed = Feed::of(u16::from_le_bytes(at.take()?))?;
        at.slice(4)?;
        let session = at.u32()?;
        at.slice(2)?;
        let count = u16::from_le_bytes(at.take()?);
        Some(Self { feed, session, count, offset: at.i64()?, first: at.i64()?, sent: at.i64()? })
    }

    /// The number behind the packet's last message.
    fn end(&self) -> i64 {
        self.first.saturating_add(i64::from(self.count))
    }
}

impl Capture {
    /// Opens a capture.
    ///
    /// # Errors
    /// When it cannot be read or is no capture.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::of(Box::new(File::open(path)?))
    }

    /// The capture that a reader holds.
    ///
    /// # Errors
    /// When it cannot be read or is no capture.
    pub fn of(input: Box<dyn Read + Send>) -> io::Result<Self> {
        Ok(Self {
            reader: Reader::new(input)?,
            fragments: Fragments::default(),
            payload: Vec::new(),
            at: 0,
            left: 0,
            is_short: false,
            pending: VecDeque::new(),
            stream: None,
            before: VecDeque::new(),
            feed: None,
            counters: Counters::default(),
        })
    }

    /// Which feed it is of: that of the first packet. Packets of another are foreign.
    pub fn feed(&self) -> Feed {
        self.feed.unwrap_or(Feed::Tops)
    }

    /// What was in it beside messages, so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// What the file does not have, or could not give, so far.
    pub fn left_out(&self) -> capture::LeftOut {
        self.reader.left_out()
    }

    /// What comes next, `None` at the end. Of a last packet that is cut off the whole messages count.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn next_input(&mut self) -> io::Result<Option<Input>> {
        loop {
            if let Some(heard) = self.pending.pop_front() {
                return Ok(Some(heard));
            }
            match self.next_body()? {
                Some(body) => {
                    if let Some(message) = Message::decode(&self.payload[body]) {
                        return Ok(Some(Input::Message(message)));
                    }
                }
                None if self.pending.is_empty() => return Ok(None),
                None => {}
            }
        }
    }

    /// The symbols of up to so many messages from here on, sorted, and what of the file could not be read on the way; what is played is not
    /// what was looked at.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn symbols(mut self, most: u64) -> io::Result<(Vec<[u8; 8]>, capture::LeftOut)> {
        let mut symbols = std::collections::BTreeSet::new();
        for _ in 0..most {
            let Some(body) = self.next_body()? else {
                if self.pending.is_empty() {
                    break;
                }
                self.pending.clear();
                continue;
            };
            symbols.extend(Message::symbol_of(&self.payload[body]));
        }
        Ok((symbols.into_iter().collect(), self.left_out()))
    }

    /// Where in the payload the next message is; `None` when something is to be told before it, or at the end.
    fn next_body(&mut self) -> io::Result<Option<std::ops::Range<usize>>> {
        loop {
            let mut rest = Cursor { bytes: self.payload.get(self.at..).unwrap_or_default() };
            let body = rest.take().map(u16::from_le_bytes).and_then(|len| rest.slice(usize::from(len)));
            if let Some(body) = body.filter(|_| self.left > 0) {
                let start = self.at + 2;
                (self.at, self.left) = (start + body.len(), self.left - 1);
                return Ok(Some(start..self.at));
            }
            let lost = std::mem::take(&mut self.left);
            // Where the file ends, nobody knows what followed.
            if lost > 0 && !self.reader.left_out().is_cut {
                self.counters.short += if self.is_short { lost } else { 0 };
                self.lose(lost);
                return Ok(None);
            }
            if !self.next_payload()? || !self.pending.is_empty() {
                return Ok(None);
            }
        }
    }

    fn lose(&mut self, count: u64) {
        self.counters.gaps += 1;
        self.counters.lost += count;
        self.pending.push_back(Input::Lost(count));
    }

    /// Takes the next packet that brings something new; false at the end.
    fn next_payload(&mut self) -> io::Result<bool> {
        loop {
            let Some(frame) = self.reader.next_frame()? else { return Ok(false) };
            let whole;
            let mut packet = ip::of_frame(&frame);
            if let Some(part) = packet.filter(Ip::is_fragment) {
                let Some(payload) = self.fragments.add(&part) else { continue };
                whole = payload;
                packet = Some(Ip { offset: 0, more: false, payload: &whole, ..part });
            }
            let datagram = packet.and_then(|packet| packet.udp());
            let header = datagram.and_then(|datagram| Header::decode(datagram.payload));
            let (Some(datagram), Some(header)) = (datagram, header) else {
                self.counters.foreign += 1;
                continue;
            };
            if *self.feed.get_or_insert(header.feed) != header.feed {
                self.counters.foreign += 1;
                continue;
            }
            self.payload.clear();
            self.payload.extend_from_slice(datagram.payload);
            self.is_short = datagram.missing > 0;
            let Some(known) = self.admit(header) else {
                self.counters.repeated += u64::from(header.count > 0);
                if self.pending.is_empty() {
                    continue;
                }
                return Ok(true);
            };
            self.at = HEADER;
            self.left = u64::from(header.count);
            for _ in 0..known {
                let length = self.payload.get(self.at..self.at + 2).map_or(0, |l| u16::from_le_bytes([l[0], l[1]]));
                self.at += 2 + usize::from(length);
                self.left = self.left.saturating_sub(1);
            }
            return Ok(true);
        }
    }

    /// How many of a packet's first messages were heard before; `None` when there is nothing new in it. What is to be told before its
    /// messages is pending then.
    fn admit(&mut self, header: Header) -> Option<u64> {
        let Header { session, count, first, sent, .. } = header;
        let Some(stream) = &mut self.stream else {
            self.stream = Some(Stream { session, next: header.end(), sent });
            return (count > 0).then_some(0);
        };
        if session != stream.session {
            if self.before.contains(&session) {
                return None;
            }
            if self.before.len() == SESSIONS {
                self.before.pop_front();
            }
            self.before.push_back(stream.session);
            *stream = Stream { session, next: 1, sent };
            self.restart();
        } else if first < stream.next && Self::begins_anew(stream, header) {
            // The exchange's own sample has eleven such beginnings in one session.
            *stream = Stream { session, next: 1, sent };
            self.restart();
        }
        let stream = self.stream.as_mut()?;
        stream.sent = stream.sent.max(sent);
        let (next, end) = (stream.next, header.end());
        stream.next = next.max(end);
        if first > next {
            self.lose(first.abs_diff(next));
        }
        let known = if first < next { next.abs_diff(first) } else { 0 };
        (count > 0 && end > next).then_some(known)
    }

    /// Whether a packet that goes back to the first number begins a new stream, or comes late: a copy was sent when the packet was.
    fn begins_anew(stream: &Stream, header: Header) -> bool {
        let is_first = header.first == 1 && header.offset == 0;
        is_first && if header.count == 0 { header.sent >= stream.sent } else { header.sent > stream.sent }
    }

    fn restart(&mut self) {
        self.counters.restarts += 1;
        self.pending.push_back(Input::Restart);
    }
}
