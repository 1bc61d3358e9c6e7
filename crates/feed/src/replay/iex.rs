//! Captures of the exchange IEX: its TOPS feed (best quotes and trades) and its DEEP feed (price levels and trades).
//!
//! A capture is a pcap or pcapng file, plain or gzipped, of UDP packets. A packet's payload is a 40-byte header of the
//! exchange's transport (little-endian: version u8, reserved u8, protocol u16, channel u32, session u32, payload length u16,
//! message count u16, stream offset i64, first sequence number i64, send time i64 in nanoseconds since 1970) and so many
//! messages, each behind its length (u16). Message layouts are at [`Message`]. Prices are ten-thousandths of a dollar.

use super::packets::{self, Packets, UDP};
use std::io::{self, Read};
use std::path::Path;

/// A message that matters here. All begin with: type u8, flags u8, time i64, symbol of 8 characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Nanoseconds since 1970.
    pub time: u64,
    /// The symbol, filled up with blanks.
    pub symbol: [u8; 8],
    /// What happened.
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
                What::Trade { price: at.i64()?, size }
            }
            b'8' | b'5' => {
                let size = at.u32()?;
                What::Level { buy: kind == b'8', price: at.i64()?, size, settled: flags & 1 != 0 }
            }
            _ => return None,
        };
        Some(Self { time, symbol, what })
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

/// The messages of a capture, in order; read as they are asked for.
pub struct Capture {
    packets: Packets<Box<dyn Read + Send>>,
    /// The payload that is being taken apart, and where it goes on.
    payload: Vec<u8>,
    at: usize,
    /// Packets whose sequence numbers were heard before, or that make no sense.
    pub skipped: u64,
    /// How often the stream began again: what was known of the books is void then.
    pub restarts: u64,
    next_sequence: Option<i64>,
}

/// A feed of the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// Best quotes and trades (0x8003).
    Tops,
    /// Price levels and trades (0x8004).
    Deep,
}

/// Length of the transport's header.
const HEADER: usize = 40;

/// What is inside a UDP packet.
fn udp_payload(udp: &[u8]) -> Option<&[u8]> {
    let length = usize::from(u16::from_be_bytes([*udp.get(4)?, *udp.get(5)?]));
    udp.get(8..length.min(udp.len()))
}

impl Capture {
    /// Opens a capture.
    ///
    /// # Errors
    /// When it cannot be read or is no capture.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            packets: packets::open(path)?,
            payload: Vec::new(),
            at: 0,
            skipped: 0,
            restarts: 0,
            next_sequence: None,
        })
    }

    /// Which feed it is of: the transport's protocol number of the packet read last.
    pub fn feed(&self) -> Feed {
        match self.payload.get(2..4) {
            Some([0x04, 0x80]) => Feed::Deep,
            _ => Feed::Tops,
        }
    }

    /// The next message, `None` at the end. Of a packet that is cut off the whole messages count.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn next_message(&mut self) -> io::Result<Option<Message>> {
        loop {
            let mut rest = Cursor { bytes: &self.payload[self.at.min(self.payload.len())..] };
            let body = rest.take().map(u16::from_le_bytes).and_then(|len| rest.slice(usize::from(len)));
            if let Some(body) = body {
                self.at += 2 + body.len();
                if let Some(message) = Message::decode(body) {
                    return Ok(Some(message));
                }
                continue;
            }
            if !self.next_payload()? {
                return Ok(None);
            }
        }
    }

    /// Takes the next packet that brings something new.
    fn next_payload(&mut self) -> io::Result<bool> {
        loop {
            let Some(packet) = self.packets.next_packet()? else { return Ok(false) };
            let udp = packet.ip().filter(|ip| ip.protocol == UDP).and_then(|ip| udp_payload(ip.payload));
            let Some(payload) = udp.filter(|p| p.len() >= HEADER) else {
                self.skipped += 1;
                continue;
            };
            let mut at = Cursor { bytes: &payload[14..] };
            let (count, _, sequence) = (at.take().map_or(0, u16::from_le_bytes), at.i64(), at.i64().unwrap_or(0));
            // A stream that begins again at 1 is a new one (the exchange's own sample has eleven such beginnings); any other
            // step back is a repetition.
            let back = self.next_sequence.is_some_and(|next| sequence < next);
            let duplicate = back && sequence != 1;
            self.restarts += u64::from(back && !duplicate && count > 0);
            if count == 0 || duplicate {
                self.skipped += u64::from(duplicate && count > 0);
                continue;
            }
            self.next_sequence = Some(sequence.saturating_add(i64::from(count)));
            self.payload.clear();
            self.payload.extend_from_slice(payload);
            self.at = HEADER;
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests;
