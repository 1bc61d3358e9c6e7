//! From a frame to the IP packet in it, and to UDP or TCP in that.

use crate::{Frame, link};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// IP protocol number of TCP.
pub const TCP: u8 = 6;
/// IP protocol number of UDP.
pub const UDP: u8 = 17;

/// An IP packet, or a fragment of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip<'a> {
    /// The sender.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// [`TCP`], [`UDP`] or another.
    pub protocol: u8,
    /// Pairs fragments.
    pub id: u32,
    /// Where in the whole the payload belongs, in bytes.
    pub offset: usize,
    /// More fragments follow.
    pub more: bool,
    /// What was captured of what is behind the headers.
    pub payload: &'a [u8],
    /// Bytes of the payload that were sent and not captured.
    pub missing: usize,
}

impl Ip<'_> {
    /// The packet has a part of the payload of a whole packet.
    pub fn is_fragment(&self) -> bool {
        self.more || self.offset != 0
    }
}

/// A UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The sender.
    pub source: SocketAddr,
    /// To whom.
    pub destination: SocketAddr,
    /// What was captured of it.
    pub payload: &'a [u8],
    /// Bytes of it that were sent and not captured.
    pub missing: usize,
}

/// A TCP segment, as far as a reader of its stream needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// The sender.
    pub source: SocketAddr,
    /// To whom.
    pub destination: SocketAddr,
    /// The number of its first byte; of a segment that opens a connection, one before that.
    pub sequence: u32,
    /// The segment opens a connection (SYN).
    pub opens: bool,
    /// Nothing of this direction follows (FIN).
    pub ends: bool,
    /// The connection is over, both ways (RST).
    pub aborts: bool,
    /// What was captured of it.
    pub payload: &'a [u8],
    /// Bytes of it that were sent and not captured.
    pub missing: usize,
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86DD;
const MPLS: u16 = 0x8847;
/// Tags of VLANs: IEEE 802.1Q, 802.1ad, and what switches wrote as the outer one before that.
const VLAN: [u16; 3] = [0x8100, 0x88A8, 0x9100];
/// The longest frame whose length stands where others have their type (IEEE 802.3); a SNAP header follows.
const LENGTH_MAX: u16 = 1_500;

/// The IP packet in a frame; `None` for anything else.
pub fn of_frame<'a>(frame: &Frame<'a>) -> Option<Ip<'a>> {
    let bytes = frame.bytes;
    let packet = match frame.link {
        link::ETHERNET => behind_type(bytes, 12)?,
        // Families as systems number them: IPv4 is 2 everywhere, IPv6 10, 24, 28 or 30.
        link::NULL | link::LOOP => match bytes.get(..4)? {
            [2 | 10 | 24 | 28 | 30, 0, 0, 0] | [0, 0, 0, 2 | 10 | 24 | 28 | 30] => bytes.get(4..)?,
            _ => return None,
        },
        link::LINUX_SLL => behind_type(bytes, 14)?,
        // The type stands first, what it speaks of after the rest of the header.
        link::LINUX_SLL2 => match u16_at(bytes, 0)? {
            IPV4 | IPV6 => bytes.get(20..)?,
            tag if VLAN.contains(&tag) => behind_type(bytes, 22)?,
            _ => return None,
        },
        12 | 14 | link::RAW | link::IPV4 | link::IPV6 => bytes,
        _ => return None,
    };
    // As long as the packet was on the wire; behind a short one Ethernet fills its frame up.
    let sent = frame.length.saturating_sub(bytes.len()) + packet.len();
    match packet.first()? >> 4 {
        4 => ip4(packet, sent),
        6 => ip6(packet, sent),
        _ => None,
    }
}

/// The IP packet behind the `EtherType` at `at`; tags, labels and SNAP headers are passed over.
fn behind_type(frame: &[u8], mut at: usize) -> Option<&[u8]> {
    loop {
        match u16_at(frame, at)? {
            IPV4 | IPV6 => return frame.get(at + 2..),
            MPLS => return behind_labels(frame, at + 2),
            tag if VLAN.contains(&tag) => at += 4,
            length if length <= LENGTH_MAX && frame.get(at + 2..at + 8)? == [0xAA, 0xAA, 3, 0, 0, 0] => at += 8,
            _ => return None,
        }
    }
}

/// MPLS labels have four bytes; the last one is marked. What follows does not say what it is.
fn behind_labels(frame: &[u8], mut at: usize) -> Option<&[u8]> {
    while frame.get(at + 2)? & 1 == 0 {
        at += 4;
    }
    frame.get(at + 4..)
}

fn ip4(packet: &[u8], sent: usize) -> Option<Ip<'_>> {
    let header = usize::from(packet.first()? & 15) * 4;
    // Segmentation offload of long packets leaves the length empty.
    let stated = Some(usize::from(u16_at(packet, 2)?)).filter(|length| *length > 0).unwrap_or(sent);
    if header < 20 || stated < header {
        return None;
    }
    let flags = u16_at(packet, 6)?;
    let address = |at: usize| Some(IpAddr::V4(Ipv4Addr::from(*packet.get(at..)?.first_chunk::<4>()?)));
    Some(Ip {
        source: address(12)?,
        destination: address(16)?,
        protocol: *packet.get(9)?,
        id: u32::from(u16_at(packet, 4)?),
        offset: usize::from(flags & 0x1FFF) * 8,
        more: flags & 0x2000 != 0,
        payload: packet.get(header..stated.min(packet.len()))?,
        missing: stated.saturating_sub(packet.len()),
    })
}

/// Headers that may stand between that of IPv6 and the payload: hop by hop, routing, fragment, destination.
const EXTENSIONS: [u8; 4] = [0, 43, 44, 60];
/// More of them than any packet has.
const EXTENSIONS_MAX: usize = 8;

fn ip6(packet: &[u8], sent: usize) -> Option<Ip<'_>> {
    let stated = match usize::from(u16_at(packet, 4)?) {
        0 => sent,
        length => 40 + length,
    };
    let address = |at: usize| Some(IpAddr::V6(Ipv6Addr::from(*packet.get(at..)?.first_chunk::<16>()?)));
    let (mut protocol, mut at) = (*packet.get(6)?, 40);
    let (mut id, mut offset, mut more) = (0, 0, false);
    for _ in 0..EXTENSIONS_MAX {
        if !EXTENSIONS.contains(&protocol) || offset != 0 {
            break;
        }
        let [next, length] = *packet.get(at..)?.first_chunk::<2>()?;
        if protocol == 44 {
            let field = u16_at(packet, at + 2)?;
            (offset, more) = (usize::from(field & 0xFFF8), field & 1 != 0);
            id = u32::from_be_bytes(*packet.get(at + 4..)?.first_chunk()?);
            at += 8;
        } else {
            at += 8 + usize::from(length) * 8;
        }
        protocol = next;
    }
    Some(Ip {
        source: address(8)?,
        destination: address(24)?,
        protocol,
        id,
        offset,
        more,
        payload: packet.get(at..stated.min(packet.len()))?,
        missing: stated.saturating_sub(packet.len()),
    })
}

impl<'a> Ip<'a> {
    /// The UDP datagram in a whole packet.
    pub fn udp(&self) -> Option<Datagram<'a>> {
        if self.protocol != UDP {
            return None;
        }
        let (source, destination) = self.ports()?;
        let behind = self.payload.get(8..)?;
        let stated = usize::from(u16_at(self.payload, 4)?);
        let (payload, missing) = match stated.checked_sub(8) {
            Some(length) if length <= behind.len() => (&behind[..length], 0),
            Some(length) if self.missing > 0 => (behind, length - behind.len()),
            // Of a train that the kernel had not cut yet, the length is that of one of its datagrams or 0.
            _ => (behind, self.missing),
        };
        Some(Datagram { source, destination, payload, missing })
    }

    /// The TCP segment in a whole packet.
    pub fn tcp(&self) -> Option<Segment<'a>> {
        if self.protocol != TCP {
            return None;
        }
        let (source, destination) = self.ports()?;
        let sequence = u32::from_be_bytes(*self.payload.get(4..)?.first_chunk()?);
        let header = usize::from(self.payload.get(12)? >> 4) * 4;
        let flags = *self.payload.get(13)?;
        let (ends, opens, aborts) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
        if header < 20 {
            return None;
        }
        // A snap length may end within the options.
        let short = header.saturating_sub(self.payload.len());
        let payload = self.payload.get(header..).unwrap_or_default();
        let missing = self.missing.saturating_sub(short);
        Some(Segment { source, destination, sequence, opens, ends, aborts, payload, missing })
    }

    fn ports(&self) -> Option<(SocketAddr, SocketAddr)> {
        let source = SocketAddr::new(self.source, u16_at(self.payload, 0)?);
        Some((source, SocketAddr::new(self.destination, u16_at(self.payload, 2)?)))
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
