//! Transport sessions: numbered datagrams of messages, and what makes them reliable.
//!
//! LBT-RM and LBT-RU share one [`Sender`] and one [`Receiver`]; [`Framing`] is what differs in their bytes. [`tcp`] and [`ipc`] are
//! reliable below and only need framing.

pub mod ipc;
pub mod lbtru;
pub mod limiter;
pub mod memory;
mod receiver;
mod recovery;
mod sender;
pub mod tcp;
mod window;

use core::fmt;

use crate::wire::{self, Full, NcfReason, Writer};

pub use receiver::{Receiver, ReceiverConfig, ReceiverStats};
pub use sender::{Output, Sender, SenderConfig, SenderStats};
pub use window::Train;

/// A sender cannot take a message now: too much waits for the socket or for the rate limit. [`Sender::writable`] tells when to
/// try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WouldBlock;

impl fmt::Display for WouldBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the transport session cannot take a message now")
    }
}

impl core::error::Error for WouldBlock {}

/// Takes encoded LBMC messages: a transport session as its sources see it.
pub trait Carrier {
    /// The longest LBMC message that one datagram holds, headers included.
    fn message_max(&self) -> usize;

    /// Whether so many bytes of one message can ever be taken.
    fn can_ever_take(&self, _bytes: usize) -> bool {
        true
    }

    /// Whether `bytes` of messages can be taken now, in as many datagrams as they need.
    ///
    /// # Errors
    /// Not now. The carrier will say when it is writable again.
    fn admit(&mut self, now: u64, bytes: usize) -> Result<(), WouldBlock>;

    /// Room for one LBMC message of exactly `length` bytes, at most [`Carrier::message_max`], after [`Carrier::admit`]. The
    /// caller fills it and calls [`Carrier::commit`].
    fn claim(&mut self, now: u64, length: usize) -> &mut [u8];

    /// Room for one LBMC message in what is open, if it needs nothing else: no admission, no new datagram and nothing after it. The
    /// caller fills it, and that is all. `None`: it has to go the whole way, by [`Carrier::admit`].
    #[inline]
    fn append(&mut self, _length: usize) -> Option<&mut [u8]> {
        None
    }

    /// The claimed message is complete; `flush` sends everything that waits.
    fn commit(&mut self, now: u64, flush: bool);

    /// Sends what waits for a fuller datagram.
    fn flush(&mut self, now: u64);
}

/// In which order a datagram is handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Next in sequence, as it came.
    InOrder,
    /// Ahead of a gap. It will come once more as [`Order::Held`].
    Early,
    /// Next in sequence; it came before as [`Order::Early`].
    Held,
}

/// Why a datagram will never come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// Not repaired within the NAK generation interval.
    Timeout,
    /// The datagram has left the source's transmission window.
    Window,
    /// The source refused to send it again.
    Refused,
    /// More was missed at once than can be asked for.
    Burst,
}

/// Why a transport session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// Nothing was heard for the activity timeout.
    Timeout,
    /// The source began again with the same session id.
    Restart,
    /// The source has dropped us (LBT-RU, TCP) or closed.
    Reset,
}

impl std::fmt::Display for EndReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Timeout => "nothing was heard of it for the activity timeout",
            Self::Restart => "its source has begun anew",
            Self::Reset => "its source has ended it",
        })
    }
}

/// Takes what a transport session receives. Between `begin` and `end` every sequence number comes exactly once as
/// [`Order::InOrder`] or [`Order::Held`], or in `lost`, in order.
pub trait DatagramSink {
    /// The session was heard for the first time.
    fn begin(&mut self) {}

    /// The LBMC messages of a datagram; borrowed from the received bytes unless held.
    fn datagram(&mut self, sqn: u32, order: Order, messages: &[u8]);

    /// `count` datagrams from `first` on are lost.
    fn lost(&mut self, first: u32, count: u32, reason: LossReason);

    /// The session is over. Another `begin` may follow.
    fn end(&mut self, reason: EndReason);
}

/// What differs between the bytes of LBT-RM and LBT-RU.
pub trait Framing {
    /// Bytes of a datagram before its messages.
    const HEADER: usize;

    /// Writes the parts of a datagram's header that are always the same.
    fn begin(&self, header: &mut [u8]);

    /// Writes sequence number and trail.
    fn stamp(&self, header: &mut [u8], sqn: u32, trail: u32);

    /// Makes a stored datagram a retransmission and renews its trail.
    fn mark(&self, header: &mut [u8], trail: u32);

    /// Writes a session message.
    ///
    /// # Errors
    /// It does not fit.
    fn session_message(&self, w: &mut Writer<'_>, sm_sqn: u32, lead: u32, trail: u32) -> Result<(), Full>;

    /// Writes a NAK confirmation.
    ///
    /// # Errors
    /// It does not fit.
    fn ncf(&self, w: &mut Writer<'_>, trail: u32, reason: NcfReason, sqns: &[u32]) -> Result<(), Full>;

    /// Writes a NAK.
    ///
    /// # Errors
    /// It does not fit.
    fn nak(&self, w: &mut Writer<'_>, sqns: &[u32]) -> Result<(), Full>;
}

/// The identity that LBT-RM packets carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lbtrm {
    /// UDP port of the source to which receivers send NAKs.
    pub unicast_port: u16,
    /// Random, not zero.
    pub session_id: u32,
    /// Logarithm of the transmission group size: `transport_lbtrm_tgsz` 8 is 3. At most 15.
    pub group_size: u8,
}

impl Framing for Lbtrm {
    const HEADER: usize = wire::lbtrm::DATA_HEADER;

    #[inline]
    fn begin(&self, header: &mut [u8]) {
        header.copy_from_slice(&wire::lbtrm::data_template(self.unicast_port, self.session_id, self.group_size & 15));
    }

    #[inline]
    fn stamp(&self, header: &mut [u8], sqn: u32, trail: u32) {
        wire::lbtrm::stamp_data(header, sqn, trail);
    }

    fn mark(&self, header: &mut [u8], trail: u32) {
        header[wire::lbtrm::DATA_FLAGS_AT] |= wire::lbtrm::RETRANSMISSION;
        header[12..16].copy_from_slice(&trail.to_be_bytes());
    }

    fn session_message(&self, w: &mut Writer<'_>, sm_sqn: u32, lead: u32, trail: u32) -> Result<(), Full> {
        let body = wire::lbtrm::Body::SessionMessage {
            sm_sqn,
            lead,
            trail,
            flags: wire::lbtrm::UNICAST_NAKS,
            group_size: self.group_size,
        };
        wire::lbtrm::Packet { unicast_port: self.unicast_port, session_id: self.session_id, body }.encode(w)
    }

    fn ncf(&self, w: &mut Writer<'_>, trail: u32, reason: NcfReason, sqns: &[u32]) -> Result<(), Full> {
        wire::lbtrm::encode_ncf(w, self.unicast_port, self.session_id, trail, reason, sqns)
    }

    fn nak(&self, w: &mut Writer<'_>, sqns: &[u32]) -> Result<(), Full> {
        wire::lbtrm::encode_nak(w, self.unicast_port, self.session_id, sqns)
    }
}

/// What [`Receiver::receive`] needs of a packet, whichever transport it came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// A datagram of messages.
    Data {
        /// The datagram's number.
        sqn: u32,
        /// Oldest number that can be had again.
        trail: u32,
        /// Whether it was sent before.
        retransmission: bool,
        /// LBMC messages.
        messages: &'a [u8],
    },
    /// A session message.
    SessionMessage {
        /// Newest number sent.
        lead: u32,
        /// Oldest number that can be had again.
        trail: u32,
    },
    /// A NAK was heard and is not answered now.
    Ncf {
        /// Oldest number that can be had again.
        trail: u32,
        /// Why.
        reason: NcfReason,
        /// Which.
        sqns: wire::SqnList<'a>,
    },
}

impl<'a> Received<'a> {
    /// From an LBT-RM packet; `None` for a NAK, which is for senders.
    #[inline]
    pub fn from_lbtrm(packet: &wire::lbtrm::Packet<'a>) -> Option<Self> {
        use wire::lbtrm::Body;
        Some(match packet.body {
            Body::Data(data) => Self::Data {
                sqn: data.sqn,
                trail: data.trail,
                retransmission: data.is_retransmission(),
                messages: data.messages,
            },
            Body::SessionMessage { lead, trail, .. } => Self::SessionMessage { lead, trail },
            Body::Ncf { trail, reason, sqns, .. } => Self::Ncf { trail, reason, sqns },
            Body::Nak { .. } => return None,
        })
    }

    /// From an LBT-RU packet of a source; `None` for the others.
    #[inline]
    pub fn from_lbtru(packet: &wire::lbtru::Packet<'a>) -> Option<Self> {
        use wire::lbtru::Body;
        Some(match packet.body {
            Body::Data { sqn, trail, messages } => {
                Self::Data { sqn, trail, retransmission: packet.flags & wire::lbtru::RETRANSMISSION != 0, messages }
            }
            Body::SessionMessage { lead, trail, .. } => Self::SessionMessage { lead, trail },
            Body::Ncf { trail, reason, sqns, .. } => Self::Ncf { trail, reason, sqns },
            _ => return None,
        })
    }
}
