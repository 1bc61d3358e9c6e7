//! From a captured frame to the payload of UDP or TCP. Everything may be cut short or forged: what is not understood is `None`.

use std::net::{Ipv4Addr, SocketAddrV4};

use pcap_parser::Linktype;

/// An IPv4 packet, or a fragment of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ip<'a> {
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
    /// 6 TCP, 17 UDP.
    pub(super) protocol: u8,
    /// Pairs fragments.
    pub(super) id: u16,
    /// Where in the whole the payload belongs, in bytes.
    pub(super) offset: usize,
    /// More fragments follow.
    pub(super) more: bool,
    /// After header and options.
    pub(super) payload: &'a [u8],
    /// The capture holds less than was sent.
    pub(super) is_cut: bool,
}

impl Ip<'_> {
    pub(super) fn is_fragment(&self) -> bool {
        self.more || self.offset != 0
    }
}

/// TCP, as far as a reader of its stream needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    pub(super) sequence: u32,
    pub(super) is_syn: bool,
    pub(super) payload: &'a [u8],
}

const IPV4: u16 = 0x0800;
/// Tags of VLANs: IEEE 802.1Q, 802.1ad, and what switches wrote as the outer one before that.
const VLAN: [u16; 3] = [0x8100, 0x88A8, 0x9100];
const MPLS: u16 = 0x8847;
/// The longest frame whose length stands where others have their type (IEEE 802.3); a SNAP header follows.
const LENGTH_MAX: u16 = 1_500;

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;

/// Whether frames of this kind are understood.
pub(super) fn is_known(link: Linktype) -> bool {
    matches!(
        link,
        Linktype::ETHERNET
            | Linktype::NULL
            | Linktype::LOOP
            | Linktype::RAW
            | Linktype(12 | 14)
            | Linktype::IPV4
            | Linktype::LINUX_SLL
            | Linktype::LINUX_SLL2
    )
}

/// The IPv4 packet in a frame.
pub(super) fn ip(link: Linktype, frame: &[u8]) -> Option<Ip<'_>> {
    let packet = match link {
        Linktype::ETHERNET => behind_type(frame, 12)?,
        // The family is written in the byte order of the machine that captured; IPv4 is 2 everywhere.
        Linktype::NULL | Linktype::LOOP => match frame.get(..4)? {
            [2, 0, 0, 0] | [0, 0, 0, 2] => frame.get(4..)?,
            _ => return None,
        },
        Linktype::LINUX_SLL => behind_type(frame, 14)?,
        // The type stands first, what it speaks of after the rest of the header.
        Linktype::LINUX_SLL2 => match u16_at(frame, 0)? {
            IPV4 => frame.get(20..)?,
            tag if VLAN.contains(&tag) => behind_type(frame, 22)?,
            _ => return None,
        },
        Linktype::RAW | Linktype(12 | 14) | Linktype::IPV4 => frame,
        _ => return None,
    };
    ipv4(packet)
}

/// The IPv4 packet behind the `EtherType` at `at`; tags, labels and SNAP headers are passed over.
fn behind_type(frame: &[u8], mut at: usize) -> Option<&[u8]> {
    loop {
        match u16_at(frame, at)? {
            IPV4 => return frame.get(at + 2..),
            MPLS => return behind_labels(frame, at + 2),
            tag if VLAN.contains(&tag) => at += 4,
            length if length <= LENGTH_MAX && frame.get(at + 2..at + 8)? == [0xAA, 0xAA, 3, 0, 0, 0] => at += 8,
            _ => return None,
        }
    }
}

/// MPLS labels have four bytes; the last one is marked. What follows does not say what it is: [`ipv4`] looks.
fn behind_labels(frame: &[u8], mut at: usize) -> Option<&[u8]> {
    while frame.get(at + 2)? & 1 == 0 {
        at += 4;
    }
    frame.get(at + 4..)
}

fn ipv4(packet: &[u8]) -> Option<Ip<'_>> {
    let first = *packet.first()?;
    let header = usize::from(first & 15) * 4;
    if first >> 4 != 4 || header < 20 {
        return None;
    }
    let stated = match usize::from(u16_at(packet, 2)?) {
        // Segmentation offload of very long packets leaves the field empty.
        0 => packet.len(),
        stated => stated,
    };
    let field = u16_at(packet, 6)?;
    Some(Ip {
        source: address_at(packet, 12)?,
        destination: address_at(packet, 16)?,
        protocol: *packet.get(9)?,
        id: u16_at(packet, 4)?,
        offset: usize::from(field & 0x1FFF) * 8,
        more: field & 0x2000 != 0,
        payload: packet.get(header..stated.min(packet.len()))?,
        is_cut: stated > packet.len(),
    })
}

/// Ports and payload of a UDP datagram.
pub(super) fn udp<'a>(ip: &Ip<'a>) -> Option<(SocketAddrV4, SocketAddrV4, &'a [u8])> {
    let (source, destination) = ports(ip)?;
    let payload = ip.payload.get(8..)?;
    let stated = usize::from(u16_at(ip.payload, 4)?);
    let payload = if stated >= 8 { payload.get(..stated - 8).unwrap_or(payload) } else { payload };
    Some((source, destination, payload))
}

/// Ports and content of a TCP segment.
pub(super) fn tcp<'a>(ip: &Ip<'a>) -> Option<(SocketAddrV4, SocketAddrV4, Segment<'a>)> {
    let (source, destination) = ports(ip)?;
    let sequence = u32::from_be_bytes(ip.payload.get(4..8)?.try_into().ok()?);
    let header = usize::from(ip.payload.get(12)? >> 4) * 4;
    let is_syn = ip.payload.get(13)? & 2 != 0;
    if header < 20 {
        return None;
    }
    Some((source, destination, Segment { sequence, is_syn, payload: ip.payload.get(header..)? }))
}

fn ports(ip: &Ip<'_>) -> Option<(SocketAddrV4, SocketAddrV4)> {
    let source = SocketAddrV4::new(ip.source, u16_at(ip.payload, 0)?);
    Some((source, SocketAddrV4::new(ip.destination, u16_at(ip.payload, 2)?)))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn address_at(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    Some(<[u8; 4]>::try_from(bytes.get(at..at + 4)?).ok()?.into())
}
