//! What a P2PS asks of a Source Distributor.

use super::event::Head;
use super::{HubError, Kind, Message, NO_HANDLE, Server, flags};

/// A message from a P2PS to a Source Distributor, borrowed from the block. `rwf` members are whole RWF messages; their
/// stream ids mean nothing, and keys in them have no service id (`service` is it).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// The first message of a P2PS's life. What an earlier life of it had open is not open for this one.
    Hello {
        /// The life of the Source Distributor that the P2PS knows, 0 for none: another one refuses it.
        incarnation: u32,
        /// Tells this P2PS from all others, in every life of it; 0 if the transport does that.
        key: u64,
    },
    /// An item is wanted. Answered by `ItemOpened` or `Refused` with the token.
    Open {
        /// The service.
        service: u16,
        /// The P2PS's number for this open.
        token: u32,
        /// [`flags::STREAMING`], [`flags::SNAPSHOT_ONLY`] or [`flags::PRIVATE`] (with either).
        flags: u8,
        /// The request: exact `QoS`, priority, the union of the views or none.
        rwf: &'a [u8],
    },
    /// A further watcher needs the image of an open item.
    Refresh {
        /// The item.
        handle: u32,
        /// The image is also for watchers that go on getting updates: it has to come by the stream, in order with them.
        in_stream: bool,
    },
    /// View, priority or pause of an open item have changed.
    Reissue {
        /// The item.
        handle: u32,
        /// An image is wanted with it, and `Answered` by this number before that; another one each time.
        serial: Option<u32>,
        /// As with [`Self::Refresh`].
        in_stream: bool,
        /// The request as it stands now, complete.
        rwf: &'a [u8],
    },
    /// The P2PS wants no more of an item, or has seen it close. Exactly one for each `ItemOpened`.
    Close {
        /// The item.
        handle: u32,
    },
    /// A post, on an item's stream or (no handle) off-stream.
    Post {
        /// The service it goes to.
        service: u16,
        /// The item whose stream it came on.
        handle: Option<u32>,
        /// The P2PS's number for the ack; 0 if none is wanted.
        token: u32,
        /// The post.
        rwf: &'a [u8],
    },
    /// A generic message on an item's stream.
    Generic {
        /// The item.
        handle: u32,
        /// The generic message.
        rwf: &'a [u8],
    },
    /// The P2PS is alive.
    Heartbeat {
        /// Position of the data stream that it has read up to: the next one it expects.
        position: u64,
    },
    /// Messages of the data stream are lost. Answered by what they were about, then `CaughtUp`, or by `Resync`.
    Gap {
        /// Position of the first that is missing.
        from: u64,
        /// Position of the first that is there again.
        to: u64,
    },
    /// The P2PS ends in order: its interest goes at once.
    Bye,
    /// Where consumers reach this P2PS, and how it is. Who says so is told of the others by `Servers`.
    Serve {
        /// A [`super::Server`] as it is written; empty: it is no server for others to name any more.
        server: &'a [u8],
    },
}

impl<'a> Request<'a> {
    /// Reads a message's body.
    ///
    /// # Errors
    /// [`HubError::WrongDirection`] for an event, [`HubError::Malformed`] for a body or handle that does not fit.
    pub fn decode(message: &Message<'a>) -> Result<Self, HubError> {
        let &Message { kind, target: service, handle, arg: token, body: rwf, .. } = message;
        let bad = |what| HubError::Malformed { kind, what };
        if handle == NO_HANDLE && matches!(kind, Kind::Refresh | Kind::Reissue | Kind::Close | Kind::GenericUp) {
            return Err(bad("handle"));
        }
        Ok(match kind {
            Kind::Hello => Self::Hello { incarnation: token, key: u64_at(rwf, 0).ok_or(bad("key"))? },
            Kind::Open => Self::Open { service, token, flags: message.flags, rwf },
            Kind::Refresh => Self::Refresh { handle, in_stream: message.has(flags::IN_STREAM) },
            Kind::Reissue => {
                let in_stream = message.has(flags::IN_STREAM);
                Self::Reissue { handle, serial: message.has(flags::WITH_IMAGE).then_some(token), in_stream, rwf }
            }
            Kind::Close => Self::Close { handle },
            Kind::Post => {
                let handle = (handle != NO_HANDLE).then_some(handle);
                Self::Post { service, handle, token, rwf }
            }
            Kind::GenericUp => Self::Generic { handle, rwf },
            Kind::HeartbeatUp => Self::Heartbeat { position: u64_at(rwf, 0).ok_or(bad("position"))? },
            Kind::Gap => {
                Self::Gap { from: u64_at(rwf, 0).ok_or(bad("position"))?, to: u64_at(rwf, 8).ok_or(bad("position"))? }
            }
            Kind::Bye => Self::Bye,
            Kind::Serve => {
                let is_one = rwf.is_empty() || Server::read(kind, rwf)?.1.is_empty();
                if !is_one {
                    return Err(bad("more than one server"));
                }
                Self::Serve { server: rwf }
            }
            other => return Err(HubError::WrongDirection(other)),
        })
    }

    pub(super) fn head(&self) -> Head {
        match *self {
            Self::Hello { incarnation, .. } => (Kind::Hello, 0, 0, NO_HANDLE, incarnation),
            Self::Open { service, token, flags, .. } => (Kind::Open, flags, service, NO_HANDLE, token),
            Self::Refresh { handle, in_stream } => (Kind::Refresh, way(in_stream), 0, handle, 0),
            Self::Reissue { handle, serial, in_stream, .. } => {
                let flags = way(in_stream) | if serial.is_some() { flags::WITH_IMAGE } else { 0 };
                (Kind::Reissue, flags, 0, handle, serial.unwrap_or_default())
            }
            Self::Close { handle } => (Kind::Close, 0, 0, handle, 0),
            Self::Post { service, handle, token, .. } => (Kind::Post, 0, service, handle.unwrap_or(NO_HANDLE), token),
            Self::Generic { handle, .. } => (Kind::GenericUp, 0, 0, handle, 0),
            Self::Heartbeat { .. } => (Kind::HeartbeatUp, 0, 0, NO_HANDLE, 0),
            Self::Gap { .. } => (Kind::Gap, 0, 0, NO_HANDLE, 0),
            Self::Bye => (Kind::Bye, 0, 0, NO_HANDLE, 0),
            Self::Serve { .. } => (Kind::Serve, 0, 0, NO_HANDLE, 0),
        }
    }

    pub(super) fn write_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::Open { rwf, .. } | Self::Reissue { rwf, .. } | Self::Post { rwf, .. } | Self::Generic { rwf, .. } => {
                out.extend_from_slice(rwf);
            }
            Self::Serve { server } => out.extend_from_slice(server),
            Self::Hello { key, .. } => out.extend_from_slice(&key.to_le_bytes()),
            Self::Heartbeat { position } => out.extend_from_slice(&position.to_le_bytes()),
            Self::Gap { from, to } => {
                out.extend_from_slice(&from.to_le_bytes());
                out.extend_from_slice(&to.to_le_bytes());
            }
            Self::Refresh { .. } | Self::Close { .. } | Self::Bye => {}
        }
    }
}

const fn way(in_stream: bool) -> u8 {
    if in_stream { flags::IN_STREAM } else { 0 }
}

fn u64_at(body: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*body.get(at..)?.first_chunk::<8>()?))
}
