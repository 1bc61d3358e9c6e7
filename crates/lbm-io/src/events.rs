//! What a context tells its owner.

use std::net::SocketAddrV4;

use lbm::transport::EndReason;
use lbm::wire::lbmc::{Headers, Kind};
use lbm::wire::lbmr::Transport;

use crate::Sources;

/// A source of a [`Context`](crate::Context).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub(crate) u32);

/// A receiver of a [`Context`](crate::Context), for one topic or for all that match a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReceiverId(pub(crate) u32);

/// A request that waits for replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub(crate) u32);

impl SourceId {
    /// A small number for tables.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl ReceiverId {
    /// A small number for tables.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One topic of one source, as one receiver has it. Order, and the events of beginning, end and loss, belong to this.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    /// Who receives it.
    pub receiver: ReceiverId,
    /// A small number that tells the streams of a context apart; used again after the end of a stream.
    pub number: u32,
    /// The topic's name.
    pub topic: &'a str,
    /// The transport session; with the topic's index it names the source.
    pub transport: &'a Transport,
    /// The topic's index in the session.
    pub index: u32,
}

/// A message that has come. Everything is borrowed for the time of the call.
#[derive(Clone, Debug)]
pub struct Delivery<'a> {
    /// From which source, of which topic, for which receiver.
    pub stream: Stream<'a>,
    /// Topic sequence number; of the last fragment if there were several.
    pub sqn: u32,
    /// The data, properties included.
    pub payload: &'a [u8],
    /// Bytes of message properties at the end of the payload.
    pub properties: u32,
    /// [`Kind::Retransmission`] if it came by late join or off-transport recovery.
    pub kind: Kind,
    /// Extension headers; those of the last fragment if there were several.
    pub headers: Headers<'a>,
    /// Where a reply is to go, if the sender wants one: see [`Sources::respond`].
    pub request: Option<Request>,
}

impl<'a> Delivery<'a> {
    /// The data without message properties, which other products may have put behind it.
    pub fn data(&self) -> &'a [u8] {
        let end = self.payload.len().saturating_sub(self.properties as usize);
        &self.payload[..end]
    }
}

/// Whom to answer. Can be kept and answered later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// The requester's request port.
    pub from: SocketAddrV4,
    /// The request's number there.
    pub number: u32,
}

/// Messages, or fragments, that will never come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Topic sequence number of the first.
    pub first: u32,
    /// How many. One event for each number, but for a gap longer than `delivery_control_maximum_burst_loss`.
    pub count: u32,
}

impl Loss {
    /// Whether this is one event for a long gap.
    pub const fn is_burst(self) -> bool {
        self.count > 1
    }
}

/// Takes what happens in a [`Context`](crate::Context)'s turn. `sources` is the sending half of the context: a callback may send.
pub trait Events {
    /// A message.
    fn message(&mut self, sources: &mut Sources, delivery: &Delivery<'_>);

    /// The source was heard: once, before any message of it.
    fn begin(&mut self, _sources: &mut Sources, _stream: &Stream<'_>) {}

    /// The source has ended, once. If it comes back, that is another stream.
    fn end(&mut self, _sources: &mut Sources, _stream: &Stream<'_>, _reason: EndReason) {}

    /// Something is lost for good. Never before the first message of the stream.
    fn lost(&mut self, _sources: &mut Sources, _stream: &Stream<'_>, _loss: Loss) {}

    /// After [`SendError::WouldBlock`](crate::SendError::WouldBlock): the source can send again.
    fn writable(&mut self, _sources: &mut Sources, _source: SourceId) {}

    /// A reply to [`Sources::request`]. There may be several.
    fn response(&mut self, _sources: &mut Sources, _request: RequestId, _payload: &[u8]) {}
}

/// Takes messages only.
impl<F: FnMut(&mut Sources, &Delivery<'_>)> Events for F {
    fn message(&mut self, sources: &mut Sources, delivery: &Delivery<'_>) {
        self(sources, delivery);
    }
}

/// How to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags(u8);

impl SendFlags {
    /// Block while the session cannot take the message; batch.
    pub const NONE: Self = Self(0);
    /// Send this and all that waits in the session now.
    pub const FLUSH: Self = Self(1);
    /// Return [`SendError::WouldBlock`](crate::SendError::WouldBlock) instead of waiting.
    pub const NONBLOCK: Self = Self(2);

    /// For answers sent from a callback: send this and all that waits in the session, but together with the answers to what came at the
    /// same time. It leaves once the messages that one system call has received are delivered, and no later than the first send after
    /// 20 us, so that who is behind catches up by larger batches. Elsewhere, and in shared memory, the same as [`SendFlags::FLUSH`].
    pub const FLUSH_SOON: Self = Self(4);

    pub(crate) const fn flush(self) -> bool {
        self.0 & 1 != 0
    }

    /// Neither of the two flushes.
    pub(crate) const fn batches(self) -> bool {
        self.0 & 5 == 0
    }

    pub(crate) const fn nonblock(self) -> bool {
        self.0 & 2 != 0
    }
}

impl core::ops::BitOr for SendFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
