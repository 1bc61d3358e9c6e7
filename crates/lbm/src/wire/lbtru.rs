//! LBT-RU, reliable unicast: the same recovery as LBT-RM towards each of a session's clients.

use super::{Full, NcfReason, Reader, SqnList, WireError, Writer, invalid, truncated};

/// Flag of DATA: a retransmission.
pub const RETRANSMISSION: u16 = 0x4000;
/// Flag of a session message: the answer to a connection request.
pub const SYN: u16 = 0x8000;

const DATA: u8 = 0;
const SM: u8 = 2;
const NAK: u8 = 3;
const NCF: u8 = 4;
const ACK: u8 = 5;
const CREQ: u8 = 6;
const RST: u8 = 7;

const OPTION_SESSION: u8 = 1;
const OPTION_CLIENT: u8 = 2;
const OPTION_FLAGS: u16 = 0x8000;

/// Which session and which of its clients a packet belongs to; each is an optional header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The session's id, from its advertisement.
    pub session_id: Option<u32>,
    /// The id a client chose for itself.
    pub client_id: Option<u32>,
}

impl Identity {
    /// Bytes of its headers.
    pub fn length(self) -> usize {
        8 * (usize::from(self.session_id.is_some()) + usize::from(self.client_id.is_some()))
    }
}

/// An LBT-RU packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The 16 bits after type and next header: [`RETRANSMISSION`] in DATA, [`SYN`] in a session message, request type in a
    /// connection request, reason in a reset; else 0.
    pub flags: u16,
    /// Session and client.
    pub identity: Identity,
    /// What it says.
    pub body: Body<'a>,
}

/// What an LBT-RU packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Messages.
    Data {
        /// Counts datagrams of the session.
        sqn: u32,
        /// Oldest datagram that can be had again.
        trail: u32,
        /// LBMC messages, back to back.
        messages: &'a [u8],
    },
    /// The state of the session.
    SessionMessage {
        /// Counts session messages.
        sm_sqn: u32,
        /// Newest datagram that was sent.
        lead: u32,
        /// Oldest datagram that can be had again.
        trail: u32,
    },
    /// The client misses these datagrams.
    Nak {
        /// 0: a list.
        format: u16,
        /// Ascending.
        sqns: SqnList<'a>,
    },
    /// The source has heard a NAK that it does not answer now.
    Ncf {
        /// Oldest datagram that can be had again.
        trail: u32,
        /// Why.
        reason: NcfReason,
        /// 0: a list.
        format: u8,
        /// The numbers of the NAK.
        sqns: SqnList<'a>,
    },
    /// The client lives and has everything up to `sqn`.
    Ack {
        /// Newest datagram received in order.
        sqn: u32,
    },
    /// A receiver wants to be a client.
    ConnectRequest,
    /// The source has dropped the client.
    Reset,
}

impl<'a> Packet<'a> {
    /// Reads a UDP payload.
    ///
    /// # Errors
    /// Not an LBT-RU packet of version 0.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new("LBT-RU header", bytes, 0);
        let version_type = r.u8()?;
        let next = r.u8()?;
        let flags = r.u16()?;
        let mut body = match version_type {
            DATA => Body::Data { sqn: r.u32()?, trail: r.u32()?, messages: &[] },
            SM => Body::SessionMessage { sm_sqn: r.u32()?, lead: r.u32()?, trail: r.u32()? },
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
            ACK => Body::Ack { sqn: r.u32()? },
            CREQ => Body::ConnectRequest,
            RST => Body::Reset,
            _ => return Err(invalid("LBT-RU version and packet type", 0)),
        };
        let identity = decode_identity(&mut r, next)?;
        if let Body::Data { messages, .. } = &mut body {
            *messages = r.rest();
        }
        Ok(Self { flags, identity, body })
    }

    /// Writes the packet.
    ///
    /// # Errors
    /// It does not fit.
    pub fn encode(&self, w: &mut Writer<'_>) -> Result<(), Full> {
        let kind = match self.body {
            Body::Data { .. } => DATA,
            Body::SessionMessage { .. } => SM,
            Body::Nak { .. } => NAK,
            Body::Ncf { .. } => NCF,
            Body::Ack { .. } => ACK,
            Body::ConnectRequest => CREQ,
            Body::Reset => RST,
        };
        w.u8(kind)?;
        w.u8(match self.identity {
            Identity { session_id: Some(_), .. } => OPTION_SESSION,
            Identity { client_id: Some(_), .. } => OPTION_CLIENT,
            Identity { .. } => 0,
        })?;
        w.u16(self.flags)?;
        match self.body {
            Body::Data { sqn, trail, .. } => {
                w.u32(sqn)?;
                w.u32(trail)?;
            }
            Body::SessionMessage { sm_sqn, lead, trail } => {
                w.u32(sm_sqn)?;
                w.u32(lead)?;
                w.u32(trail)?;
            }
            Body::Nak { format, sqns } => {
                w.u16(sqns.len() as u16)?;
                w.u16(format)?;
                w.bytes(sqns.0)?;
            }
            Body::Ncf { trail, reason, format, sqns } => {
                w.u32(trail)?;
                w.u16(sqns.len() as u16)?;
                w.u8(0)?;
                w.u8(reason.bits() << 4 | format & 15)?;
                w.bytes(sqns.0)?;
            }
            Body::Ack { sqn } => w.u32(sqn)?,
            Body::ConnectRequest | Body::Reset => {}
        }
        encode_identity(w, self.identity)?;
        if let Body::Data { messages, .. } = self.body { w.bytes(messages) } else { Ok(()) }
    }
}

fn decode_identity(r: &mut Reader<'_>, mut next: u8) -> Result<Identity, WireError> {
    let mut identity = Identity::default();
    while next != 0 {
        let (code, at) = (next, r.at());
        next = r.u8()?;
        let length = usize::from(r.u8()?);
        let mut body = Reader::new(
            "LBT-RU option",
            r.take(length.checked_sub(2).ok_or(invalid("LBT-RU option length", at + 1))?)?,
            0,
        );
        let flags = body.u16().map_err(|_| truncated("LBT-RU option", at))?;
        let known = matches!(code, OPTION_SESSION | OPTION_CLIENT);
        if !known && flags & OPTION_FLAGS == 0 {
            return Err(invalid("LBT-RU option that may not be ignored", at));
        }
        if known {
            let value = body.u32().map_err(|_| truncated("LBT-RU option", at))?;
            let slot = if code == OPTION_SESSION { &mut identity.session_id } else { &mut identity.client_id };
            if slot.replace(value).is_some() {
                return Err(invalid("LBT-RU option that comes twice", at));
            }
        }
    }
    Ok(identity)
}

fn encode_identity(w: &mut Writer<'_>, identity: Identity) -> Result<(), Full> {
    if let Some(session) = identity.session_id {
        w.u8(if identity.client_id.is_some() { OPTION_CLIENT } else { 0 })?;
        w.u8(8)?;
        w.u16(OPTION_FLAGS)?;
        w.u32(session)?;
    }
    if let Some(client) = identity.client_id {
        w.u8(0)?;
        w.u8(8)?;
        w.u16(OPTION_FLAGS)?;
        w.u32(client)?;
    }
    Ok(())
}

/// Bytes of a DATA packet before its first message, when it names the session but no client: one copy for all clients.
pub const DATA_HEADER: usize = 20;

/// The header of a datagram whose sequence number and trail are not known yet; see [`stamp_data`].
pub(crate) fn data_template(session_id: u32) -> [u8; DATA_HEADER] {
    let mut header = [0; DATA_HEADER];
    header[1] = OPTION_SESSION;
    header[13] = 8;
    header[14] = 0x80;
    header[16..20].copy_from_slice(&session_id.to_be_bytes());
    header
}

/// Completes a header made by [`data_template`].
#[inline]
pub(crate) fn stamp_data(header: &mut [u8], sqn: u32, trail: u32) {
    header[4..8].copy_from_slice(&sqn.to_be_bytes());
    header[8..12].copy_from_slice(&trail.to_be_bytes());
}

/// Marks a stored datagram as a retransmission.
pub(crate) fn mark_retransmission(header: &mut [u8], trail: u32) {
    header[2] |= (RETRANSMISSION >> 8) as u8;
    header[8..12].copy_from_slice(&trail.to_be_bytes());
}

/// Writes a list packet: a NAK without `ncf`, else an NCF with (trail, reason).
///
/// # Errors
/// It does not fit.
pub fn encode_list(
    w: &mut Writer<'_>,
    identity: Identity,
    ncf: Option<(u32, NcfReason)>,
    sqns: &[u32],
) -> Result<(), Full> {
    w.u8(if ncf.is_some() { NCF } else { NAK })?;
    w.u8(if identity.session_id.is_some() {
        OPTION_SESSION
    } else if identity.client_id.is_some() {
        OPTION_CLIENT
    } else {
        0
    })?;
    w.u16(0)?;
    let count = u16::try_from(sqns.len()).map_err(|_| Full)?;
    if let Some((trail, reason)) = ncf {
        w.u32(trail)?;
        w.u16(count)?;
        w.u8(0)?;
        w.u8(reason.bits() << 4)?;
    } else {
        w.u16(count)?;
        w.u16(0)?;
    }
    sqns.iter().try_for_each(|sqn| w.u32(*sqn))?;
    encode_identity(w, identity)
}
