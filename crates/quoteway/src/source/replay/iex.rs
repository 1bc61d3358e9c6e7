//! Captures of the exchange IEX: its TOPS feed (best quotes and trades) and its DEEP feed (price levels and trades).
//!
//! A capture is a pcap or pcapng file, plain or gzipped, of UDP packets. A packet's payload is a 40-byte header of the
//! exchange's transport (little-endian: version u8, reserved u8, protocol u16, channel u32, session u32, payload length u16,
//! message count u16, stream offset i64, first sequence number i64, send time i64 in nanoseconds since 1970) and so many
//! messages, each behind its length (u16). Message layouts are at [`Message`]. Prices are ten-thousandths of a dollar.

use flate2::read::GzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Read};
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
    packets: Packets<BufReader<Box<dyn Read + Send>>>,
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

impl Capture {
    /// Opens a capture.
    ///
    /// # Errors
    /// When it cannot be read or is no capture.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut magic = [0; 2];
        let gzipped = file.read(&mut magic)? == 2 && magic == [0x1F, 0x8B];
        let file = File::open(path)?;
        let reader: Box<dyn Read + Send> = if gzipped { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
        let packets = Packets::new(BufReader::with_capacity(256 * 1024, reader))?;
        Ok(Self { packets, payload: Vec::new(), at: 0, skipped: 0, restarts: 0, next_sequence: None })
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
            let Some(payload) = udp_payload(packet).filter(|p| p.len() >= HEADER) else {
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

/// What is inside an Ethernet frame that carries UDP over IPv4.
fn udp_payload(frame: &[u8]) -> Option<&[u8]> {
    let mut at = 12;
    let mut kind = frame.get(at..at + 2)?;
    while kind == [0x81, 0x00] {
        // A VLAN tag.
        at += 4;
        kind = frame.get(at..at + 2)?;
    }
    let ip = frame.get(at + 2..)?;
    let header = usize::from(ip.first()? & 0x0F) * 4;
    if kind != [0x08, 0x00] || ip.first()? >> 4 != 4 || *ip.get(9)? != 17 {
        return None;
    }
    let udp = ip.get(header..)?;
    let length = usize::from(u16::from_be_bytes([*udp.get(4)?, *udp.get(5)?]));
    udp.get(8..length.min(udp.len()))
}

/// The packets of a capture file.
struct Packets<R> {
    reader: R,
    format: Format,
    big_endian: bool,
    packet: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Pcap,
    PcapNg,
}

/// No packet or block of a sensible capture is longer.
const BLOCK_MAX: usize = 1 << 20;

impl<R: Read> Packets<R> {
    fn new(mut reader: R) -> io::Result<Self> {
        let mut magic = [0; 4];
        reader.read_exact(&mut magic)?;
        let (format, big_endian) = match magic {
            [0xD4, 0xC3, 0xB2, 0xA1] | [0x4D, 0x3C, 0xB2, 0xA1] => (Format::Pcap, false),
            [0xA1, 0xB2, 0xC3, 0xD4] | [0xA1, 0xB2, 0x3C, 0x4D] => (Format::Pcap, true),
            [0x0A, 0x0D, 0x0D, 0x0A] => (Format::PcapNg, false),
            _ => return Err(invalid("is no pcap or pcapng capture")),
        };
        let mut packets = Self { reader, format, big_endian, packet: Vec::new() };
        if format == Format::Pcap {
            packets.fill(20)?;
            let link = packets.number(&packets.packet[16..20]);
            if link & 0xFFFF != 1 {
                return Err(invalid("is a capture of something else than Ethernet"));
            }
        } else {
            packets.section_header()?;
        }
        Ok(packets)
    }

    /// The next packet; `None` at the end.
    fn next_packet(&mut self) -> io::Result<Option<&[u8]>> {
        let found = match self.format {
            Format::Pcap => self.next_pcap(),
            Format::PcapNg => self.next_block(),
        };
        match found {
            Ok(Some(range)) => Ok(Some(&self.packet[range])),
            Ok(None) => Ok(None),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn next_pcap(&mut self) -> io::Result<Option<std::ops::Range<usize>>> {
        self.fill(16)?;
        let length = self.number(&self.packet[8..12]) as usize;
        if length > BLOCK_MAX {
            return Err(invalid("has a packet that is longer than any packet"));
        }
        // A recording that was stopped in a packet has the messages before the cut.
        self.packet.clear();
        let read = (&mut self.reader).take(length as u64).read_to_end(&mut self.packet)?;
        Ok((read > 0 || length == 0).then_some(0..read))
    }

    /// The next enhanced or simple packet block; other blocks are passed over.
    fn next_block(&mut self) -> io::Result<Option<std::ops::Range<usize>>> {
        loop {
            self.fill(4)?;
            let kind = self.number(&self.packet[..4]);
            if self.packet[..4] == [0x0A, 0x0D, 0x0D, 0x0A] {
                self.section_header()?;
                continue;
            }
            self.fill(4)?;
            let length =
                (self.number(&self.packet[..4]) as usize).checked_sub(8).ok_or_else(|| invalid("has a short block"))?;
            self.fill(length)?;
            let (start, field) = match kind {
                6 => (20, 12..16),
                3 => (4, 0..4),
                _ => continue,
            };
            let captured = self.packet.get(field).map(|bytes| self.number(bytes) as usize);
            match captured.map(|n| start..start + n).filter(|r| r.end <= length) {
                Some(range) => return Ok(Some(range)),
                // A simple block says the length on the wire; what was captured of it is the rest of the block.
                None if kind == 3 && length > 8 => return Ok(Some(start..length - 4)),
                None => return Err(invalid("has a packet that is longer than its block")),
            }
        }
    }

    /// The rest of a section header, which says the byte order.
    fn section_header(&mut self) -> io::Result<()> {
        self.fill(8)?;
        self.big_endian = match self.packet[4..8] {
            [0x1A, 0x2B, 0x3C, 0x4D] => true,
            [0x4D, 0x3C, 0x2B, 0x1A] => false,
            _ => return Err(invalid("has a damaged section header")),
        };
        let length =
            (self.number(&self.packet[..4]) as usize).checked_sub(12).ok_or_else(|| invalid("has a short block"))?;
        self.fill(length)
    }

    fn fill(&mut self, length: usize) -> io::Result<()> {
        if length > BLOCK_MAX {
            return Err(invalid("has a packet that is longer than any packet"));
        }
        self.packet.resize(length, 0);
        self.reader.read_exact(&mut self.packet)
    }

    fn number(&self, bytes: &[u8]) -> u32 {
        let bytes: [u8; 4] = bytes.try_into().unwrap_or_default();
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests;
