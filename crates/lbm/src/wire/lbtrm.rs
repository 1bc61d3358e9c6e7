//! LBT-RM, reliable multicast: DATA, SM, NAK and NCF.

use super::{Full, NcfReason, Reader, SqnList, WireError, Writer, invalid};

/// Bytes of a DATA packet before its first message.
pub const DATA_HEADER: usize = 20;
/// Bytes of a session message.
pub const SM_LENGTH: usize = 24;
/// Bytes of a NAK before its list.
pub const NAK_HEADER: usize = 12;
/// Bytes of an NCF before its list.
pub const NCF_HEADER: usize = 16;
/// Where the flags of a DATA packet are.
pub const DATA_FLAGS_AT: usize = 16;

/// Flag of DATA and SM: NAKs are to be sent by unicast. Every source sets it.
pub const UNICAST_NAKS: u8 = 0x80;
/// Flag of DATA: NAKs are to be sent by multicast. Not used by any known source.
pub const MULTICAST_NAKS: u8 = 0x40;
/// Flag of DATA: a retransmission.
pub const RETRANSMISSION: u8 = 0x20;

const DATA: u8 = 0;
const SM: u8 = 2;
const NAK: u8 = 3;
const NCF: u8 = 4;

/// An LBT-RM packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// UDP port of the source to which receivers send NAKs. With the session id, the source's address, the group and its port it
    /// names the transport session.
    pub unicast_port: u16,
    /// Random, not zero.
    pub session_id: u32,
    /// What the packet says.
    pub body: Body<'a>,
}

/// What an LBT-RM packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Messages.
    Data(Data<'a>),
    /// The state of the session, when there is nothing else to send.
    SessionMessage {
        /// Counts session messages.
        sm_sqn: u32,
        /// Newest datagram that was sent.
        lead: u32,
        /// Oldest datagram that can be had again.
        trail: u32,
        /// [`UNICAST_NAKS`].
        flags: u8,
        /// Logarithm of the transmission group's size.
        group_size: u8,
    },
    /// A receiver misses these datagrams.
    Nak {
        /// 0: a list of sequence numbers. (1 would be parity.)
        format: u16,
        /// Ascending.
        sqns: SqnList<'a>,
    },
    /// A source has heard a NAK that it does not answer now.
    Ncf {
        /// Oldest datagram that can be had again.
        trail: u32,
        /// Why.
        reason: NcfReason,
        /// 0: a list of sequence numbers.
        format: u8,
        /// The numbers of the NAK.
        sqns: SqnList<'a>,
    },
}

/// A datagram of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// Counts datagrams of the session, from 0; the same for every retransmission.
    pub sqn: u32,
    /// Oldest datagram in the source's transmission window.
    pub trail: u32,
    /// [`UNICAST_NAKS`], [`RETRANSMISSION`]; the low four bits are the FEC type, 0.
    pub flags: u8,
    /// Logarithm of the transmission group's size.
    pub group_size: u8,
    /// `sqn` modulo the group size.
    pub fec_symbol: u16,
    /// LBMC messages, back to back.
    pub messages: &'a [u8],
}

impl Data<'_> {
    /// Whether this is a retransmission.
    pub fn is_retransmission(&self) -> bool {
        self.flags & RETRANSMISSION != 0
    }
}

impl<'a> Packet<'a> {
    /// Reads a UDP payload.
    ///
    /// # Errors
    /// Not an LBT-RM packet of version 0.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new("LBT-RM header", bytes, 0);
        let version_type = r.u8()?;
        let next_header = r.u8()?;
        let unicast_port = r.u16()?;
        let session_id = r.u32()?;
        if version_type >> 4 != 0 {
            return Err(invalid("LBT-RM version", 0));
        }
        if next_header != 0 {
            return Err(invalid("LBT-RM next header", 1));
        }
        let body = match version_type {
            DATA => Body::Data(Data {
                sqn: r.u32()?,
                trail: r.u32()?,
                flags: r.u8()?,
                group_size: r.u8()?,
                fec_symbol: r.u16()?,
                messages: r.rest(),
            }),
            SM => {
                let body = Body::SessionMessage {
                    sm_sqn: r.u32()?,
                    lead: r.u32()?,
                    trail: r.u32()?,
                    flags: r.u8()?,
                    group_size: r.u8()?,
                };
                r.u16()?;
                body
            }
            NAK => {
                let count = r.u16()?;
                Body::Nak { format: r.u16()?, sqns: SqnList::read(&mut r, count)? }
            }
            NCF => {
                let trail = r.u32()?;
                let count = r.u16()?;
                r.u8()?;
                let reason_format = r.u8()?;
                Body::Ncf {
                    trail,
                    reason: NcfReason::from_bits(reason_format >> 4),
                    format: reason_format & 15,
                    sqns: SqnList::read(&mut r, count)?,
                }
            }
            _ => return Err(invalid("LBT-RM packet type", 0)),
        };
        Ok(Self { unicast_port, session_id, body })
    }

    /// Writes the packet.
    ///
    /// # Errors
    /// It does not fit.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        let kind = match self.body {
            Body::Data(_) => DATA,
            Body::SessionMessage { .. } => SM,
            Body::Nak { .. } => NAK,
            Body::Ncf { .. } => NCF,
        };
        encode_header(w, kind, self.unicast_port, self.session_id)?;
        match self.body {
            Body::Data(data) => {
                w.u32(data.sqn)?;
                w.u32(data.trail)?;
                w.u8(data.flags)?;
                w.u8(data.group_size)?;
                w.u16(data.fec_symbol)?;
                w.bytes(data.messages)
            }
            Body::SessionMessage { sm_sqn, lead, trail, flags, group_size } => {
                w.u32(sm_sqn)?;
                w.u32(lead)?;
                w.u32(trail)?;
                w.u8(flags)?;
                w.u8(group_size)?;
                w.u16(0)
            }
            Body::Nak { format, sqns } => {
                w.u16(sqns.len() as u16)?;
                w.u16(format)?;
                w.bytes(sqns.0)
            }
            Body::Ncf { trail, reason, format, sqns } => {
                w.u32(trail)?;
                w.u16(sqns.len() as u16)?;
                w.u8(0)?;
                w.u8(reason.bits() << 4 | format & 15)?;
                w.bytes(sqns.0)
            }
        }
    }
}

fn encode_header(w: &mut Writer<'_>, kind: u8, unicast_port: u16, session_id: u32) -> Result<(), Full> {
    w.u8(kind)?;
    w.u8(0)?;
    w.u16(unicast_port)?;
    w.u32(session_id)
}

/// Writes a NAK for `sqns`.
///
/// # Errors
/// It does not fit.
pub fn encode_nak(w: &mut Writer<'_>, unicast_port: u16, session_id: u32, sqns: &[u32]) -> Result<(), Full> {
    encode_header(w, NAK, unicast_port, session_id)?;
    w.u16(u16::try_from(sqns.len()).map_err(|_| Full)?)?;
    w.u16(0)?;
    sqns.iter().try_for_each(|sqn| w.u32(*sqn))
}

/// Writes an NCF for `sqns`.
///
/// # Errors
/// It does not fit.
pub fn encode_ncf(
    w: &mut Writer<'_>,
    unicast_port: u16,
    session_id: u32,
    trail: u32,
    reason: NcfReason,
    sqns: &[u32],
) -> Result<(), Full> {
    encode_header(w, NCF, unicast_port, session_id)?;
    w.u32(trail)?;
    w.u16(u16::try_from(sqns.len()).map_err(|_| Full)?)?;
    w.u8(0)?;
    w.u8(reason.bits() << 4)?;
    sqns.iter().try_for_each(|sqn| w.u32(*sqn))
}

/// The header of a datagram whose sequence number and trail are not known yet; see [`stamp_data`].
pub(crate) fn data_template(unicast_port: u16, session_id: u32, group_size: u8) -> [u8; DATA_HEADER] {
    let mut header = [0; DATA_HEADER];
    header[2..4].copy_from_slice(&unicast_port.to_be_bytes());
    header[4..8].copy_from_slice(&session_id.to_be_bytes());
    header[DATA_FLAGS_AT] = UNICAST_NAKS;
    header[17] = group_size;
    header
}

/// Completes a header made by [`data_template`].
#[inline]
pub(crate) fn stamp_data(header: &mut [u8], sqn: u32, trail: u32) {
    let symbol = sqn & ((1u32 << header[17]) - 1);
    header[8..12].copy_from_slice(&sqn.to_be_bytes());
    header[12..16].copy_from_slice(&trail.to_be_bytes());
    header[18..20].copy_from_slice(&(symbol as u16).to_be_bytes());
}
