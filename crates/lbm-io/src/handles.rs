//! Names of a context's sources, receivers and requests, and how a message is to be sent.

use std::net::SocketAddrV4;

use crate::places::Name;

/// A source of a [`Context`](crate::Context).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub(crate) Name);

/// A receiver of a [`Context`](crate::Context), for one topic or for all that match a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReceiverId(pub(crate) Name);

/// A request that waits for replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub(crate) u32);

impl SourceId {
    /// A small number for tables. Once this one is removed another one may have it.
    pub const fn index(self) -> usize {
        self.0.place()
    }
}

impl ReceiverId {
    /// A small number for tables. Once this one is removed another one may have it.
    pub const fn index(self) -> usize {
        self.0.place()
    }
}

/// A receiving context as a source that filters knows it: see [`Sources::asking`](crate::Sources::asking).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FilteredReceiver(pub(crate) u32);

impl FilteredReceiver {
    /// The receiver of this number, as [`FilteredReceiver::number`] tells it.
    pub const fn of(number: u32) -> Self {
        Self(number)
    }

    /// Its number, for state machines that know no context.
    pub const fn number(self) -> u32 {
        self.0
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

impl Request {
    pub(crate) fn of(header: lbm::wire::header::Request) -> Self {
        Self { from: SocketAddrV4::new(header.address, header.port), number: header.index }
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
