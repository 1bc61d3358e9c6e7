//! Capture files: pcap and pcapng, plain or gzipped, and what IP packets are in them.
//!
//! Formats: the pcap and pcapng drafts of the IETF (`draft-ietf-opsawg-pcap`, `-pcapng`); link types 1 (Ethernet),
//! 101 (IP), 113 and 276 (Linux "any" device, two versions) of tcpdump's registry.

use flate2::read::GzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::path::Path;

/// IP protocol number of TCP.
pub const TCP: u8 = 6;
/// IP protocol number of UDP.
pub const UDP: u8 = 17;

/// A packet of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Nanoseconds since 1970; 0 where the capture does not say.
    pub at: u64,
    /// What the bytes begin with: a link type of tcpdump's registry.
    pub link: u16,
    /// As far as they were captured.
    pub bytes: &'a [u8],
}

/// An IP packet inside a captured one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip<'a> {
    /// Who sent it.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// [`TCP`], [`UDP`] or another.
    pub protocol: u8,
    /// What is behind the header. A fragment behind the first is none of ours.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// The IP packet in it; `None` for anything else.
    pub fn ip(&self) -> Option<Ip<'a>> {
        const IP4: &[u8] = &[0x08, 0x00];
        const IP6: &[u8] = &[0x86, 0xDD];
        let (mut kind, mut at) = match self.link {
            1 => (self.bytes.get(12..14)?, 14),
            113 => (self.bytes.get(14..16)?, 16),
            276 => (self.bytes.get(..2)?, 20),
            101 if self.bytes.first()? >> 4 == 6 => (IP6, 0),
            101 => (IP4, 0),
            _ => return None,
        };
        while kind == [0x81, 0x00] {
            // A VLAN tag.
            kind = self.bytes.get(at + 2..at + 4)?;
            at += 4;
        }
        let ip = self.bytes.get(at..)?;
        match (kind, ip.first()? >> 4) {
            (IP4, 4) => ip4(ip),
            (IP6, 6) => ip6(ip),
            _ => None,
        }
    }
}

fn ip4(ip: &[u8]) -> Option<Ip<'_>> {
    let header = usize::from(ip.first()? & 0x0F) * 4;
    let address = |at: usize| Some(IpAddr::from(<[u8; 4]>::try_from(ip.get(at..at + 4)?).map(Ipv4Addr::from).ok()?));
    let total = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
    let fragment = u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]) & 0x1FFF;
    if fragment != 0 {
        return None;
    }
    // Offloaded segments say 0; short frames are filled up behind the packet's end.
    let end = if total == 0 { ip.len() } else { total.min(ip.len()) };
    Some(Ip { source: address(12)?, destination: address(16)?, protocol: *ip.get(9)?, payload: ip.get(header..end)? })
}

fn ip6(ip: &[u8]) -> Option<Ip<'_>> {
    let address = |at: usize| Some(IpAddr::from(<[u8; 16]>::try_from(ip.get(at..at + 16)?).map(Ipv6Addr::from).ok()?));
    let length = usize::from(u16::from_be_bytes([*ip.get(4)?, *ip.get(5)?]));
    let end = if length == 0 { ip.len() } else { (40 + length).min(ip.len()) };
    Some(Ip { source: address(8)?, destination: address(24)?, protocol: *ip.get(6)?, payload: ip.get(40..end)? })
}

/// The packets of a capture, in order.
pub struct Packets<R> {
    reader: R,
    format: Format,
    big_endian: bool,
    packet: Vec<u8>,
    /// Of a pcap file one, of a pcapng section any number.
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Pcap,
    PcapNg,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u16,
    /// Nanoseconds of a unit of its time stamps; below one for units finer than that.
    unit: f64,
}

/// What a block or record holds: when, of which interface, and where in the buffer.
struct Found {
    at: u64,
    interface: usize,
    range: Range<usize>,
}

/// No packet or block of a sensible capture is longer.
const BLOCK_MAX: usize = 1 << 20;

/// Opens a capture, gzipped or not.
///
/// # Errors
/// When it cannot be read or is no capture.
pub fn open(path: &Path) -> io::Result<Packets<Box<dyn Read + Send>>> {
    let mut magic = [0; 2];
    let gzipped = File::open(path)?.read(&mut magic)? == 2 && magic == [0x1F, 0x8B];
    let file = File::open(path)?;
    let reader: Box<dyn Read + Send> = if gzipped { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
    Packets::new(Box::new(BufReader::with_capacity(256 * 1024, reader)))
}

/// Whether these are the first bytes of a capture that is not gzipped.
pub fn is_capture(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|magic: &[u8; 4]| format_of(*magic).is_some())
}

/// Format, byte order, and nanoseconds of a unit of time.
fn format_of(magic: [u8; 4]) -> Option<(Format, bool, f64)> {
    match magic {
        [0xD4, 0xC3, 0xB2, 0xA1] => Some((Format::Pcap, false, 1e3)),
        [0x4D, 0x3C, 0xB2, 0xA1] => Some((Format::Pcap, false, 1.0)),
        [0xA1, 0xB2, 0xC3, 0xD4] => Some((Format::Pcap, true, 1e3)),
        [0xA1, 0xB2, 0x3C, 0x4D] => Some((Format::Pcap, true, 1.0)),
        [0x0A, 0x0D, 0x0D, 0x0A] => Some((Format::PcapNg, false, 1e3)),
        _ => None,
    }
}

impl<R: Read> Packets<R> {
    /// The capture that a reader holds, not gzipped.
    ///
    /// # Errors
    /// When it cannot be read or is no capture.
    pub fn new(mut reader: R) -> io::Result<Self> {
        let mut magic = [0; 4];
        reader.read_exact(&mut magic)?;
        let (format, big_endian, unit) = format_of(magic).ok_or_else(|| invalid("is no pcap or pcapng capture"))?;
        let mut packets = Self { reader, format, big_endian, packet: Vec::new(), interfaces: Vec::new() };
        if format == Format::Pcap {
            packets.fill(20)?;
            let link = packets.number(&packets.packet[16..20]) as u16;
            packets.interfaces.push(Interface { link, unit });
        } else {
            packets.section_header()?;
        }
        Ok(packets)
    }

    /// The next packet; `None` at the end.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn next_packet(&mut self) -> io::Result<Option<Packet<'_>>> {
        let found = match self.format {
            Format::Pcap => self.next_pcap(),
            Format::PcapNg => self.next_block(),
        };
        match found {
            Ok(Some(found)) => {
                let link = self.interfaces.get(found.interface).map_or(1, |i| i.link);
                Ok(Some(Packet { at: found.at, link, bytes: &self.packet[found.range] }))
            }
            Ok(None) => Ok(None),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn next_pcap(&mut self) -> io::Result<Option<Found>> {
        self.fill(16)?;
        let [seconds, fraction, length] = [0, 4, 8].map(|at| self.number(&self.packet[at..at + 4]));
        let unit = self.interfaces.first().map_or(1.0, |i| i.unit);
        let at = u64::from(seconds) * 1_000_000_000 + (f64::from(fraction) * unit) as u64;
        if length as usize > BLOCK_MAX {
            return Err(invalid("has a packet that is longer than any packet"));
        }
        // A recording that was stopped in a packet has the messages before the cut.
        self.packet.clear();
        let read = (&mut self.reader).take(u64::from(length)).read_to_end(&mut self.packet)?;
        Ok((read > 0 || length == 0).then_some(Found { at, interface: 0, range: 0..read }))
    }

    /// The next enhanced or simple packet block; other blocks are passed over.
    fn next_block(&mut self) -> io::Result<Option<Found>> {
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
                1 => {
                    self.interface();
                    continue;
                }
                _ => continue,
            };
            let captured = self.packet.get(field).map(|bytes| self.number(bytes) as usize);
            let (interface, at) = if kind == 6 { self.stamp() } else { (0, 0) };
            let range = match captured.map(|n| start..start + n).filter(|r| r.end <= length) {
                Some(range) => range,
                // A simple block says the length on the wire; what was captured of it is the rest of the block.
                None if kind == 3 && length > 8 => start..length - 4,
                None => return Err(invalid("has a packet that is longer than its block")),
            };
            return Ok(Some(Found { at, interface, range }));
        }
    }

    /// Interface and time of the enhanced packet block in the buffer.
    fn stamp(&self) -> (usize, u64) {
        let number = |at: usize| self.packet.get(at..at + 4).map_or(0, |bytes| self.number(bytes));
        let interface = number(0) as usize;
        let units = u64::from(number(4)) << 32 | u64::from(number(8));
        let unit = self.interfaces.get(interface).map_or(1e3, |i| i.unit);
        let nanos = if unit >= 1.0 { units.saturating_mul(unit as u64) } else { (units as f64 * unit) as u64 };
        (interface, nanos)
    }

    /// Takes the interface description in the buffer: link type, and option 9, the unit of its time stamps.
    fn interface(&mut self) {
        let short = |at: usize| {
            let bytes: Option<[u8; 2]> = self.packet.get(at..at + 2).and_then(|b| b.try_into().ok());
            bytes.map(|b| if self.big_endian { u16::from_be_bytes(b) } else { u16::from_le_bytes(b) })
        };
        let mut unit = 1e3;
        let mut at = 8;
        while let (Some(code @ 1..), Some(length)) = (short(at), short(at + 2)) {
            if let (9, Some(&value)) = (code, self.packet.get(at + 4)) {
                let base: f64 = if value & 0x80 == 0 { 10.0 } else { 2.0 };
                unit = 1e9 / base.powi(i32::from(value & 0x7F));
            }
            at += 4 + usize::from(length).next_multiple_of(4);
        }
        let link = short(0).unwrap_or(1);
        self.interfaces.push(Interface { link, unit });
    }

    /// The rest of a section header, which says the byte order.
    fn section_header(&mut self) -> io::Result<()> {
        self.fill(8)?;
        self.big_endian = match self.packet[4..8] {
            [0x1A, 0x2B, 0x3C, 0x4D] => true,
            [0x4D, 0x3C, 0x2B, 0x1A] => false,
            _ => return Err(invalid("has a damaged section header")),
        };
        self.interfaces.clear();
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
