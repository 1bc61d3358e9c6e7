//! The interface of the owner of sessions: where messages go, and what it is told of beginnings and ends.

use std::fmt;
use std::net::SocketAddr;

use net::tcp::{ConnId, ListenerId};
use rssl::frame::Ahead;
use rssl::ws::upgrade::Upgrade;
use rssl::{Negotiated, Version};

use crate::reason::EndReason;
/// Takes what the sessions bring.
pub trait Handler {
    /// A connection came in. An error is the text with which the session is refused. [`Handler::closed`] follows for each, also for one
    /// that never becomes a session.
    ///
    /// # Errors
    /// The refusal's text.
    fn admit(&mut self, _listener: ListenerId, _conn: ConnId, _peer: SocketAddr) -> Result<(), String> {
        Ok(())
    }
    /// A session is established.
    fn opened(&mut self, now: u64, conn: ConnId, opened: &Opened<'_>);
    /// Messages that come soon ([`rssl::Sink::ahead`]).
    #[inline]
    fn ahead(&mut self, _conn: ConnId, _messages: Ahead<'_, '_>) {}
    /// A message came in.
    fn message(&mut self, now: u64, conn: ConnId, msg: &[u8]);
    /// A text came in: JSON, one message or an array of them. Only in sessions that were opened as [`Spoken::Json`].
    fn text(&mut self, _now: u64, _conn: ConnId, _text: &str) {}
    /// A connection is over. `established` tells whether [`Handler::opened`] was called for it.
    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended);
    /// Whether the peer of a connection has logged in. Asked of one that has not, with each message and before anything is kept for it: until
    /// then little is (`docs/operating/threat-model.md`). Owners that serve no strangers know all.
    fn is_known(&self, _conn: ConnId) -> bool {
        true
    }
    /// So many bytes wait for a connection, since it did not take what the session answered by itself, a ping as a rule.
    fn waits(&mut self, _now: u64, _conn: ConnId, _bytes: usize) {}
    /// The kernel has taken all that was queued for a connection.
    fn drained(&mut self, _now: u64, _conn: ConnId) {}
}

/// Facts of a session when it is established.
#[derive(Debug)]
pub struct Opened<'a> {
    /// The listener it came in on; `None` for one that was dialled.
    pub listener: Option<ListenerId>,
    /// The other end.
    pub peer: SocketAddr,
    /// The protocol, and the terms of the handshake.
    pub spoken: Spoken<'a>,
}

/// How a connection ended.
#[derive(Debug)]
pub struct Ended {
    /// The session had been established.
    pub established: bool,
    /// Why.
    pub why: EndReason,
    /// The connection version to try next, if the server seems not to know the one that was offered.
    pub next_version: Option<Version>,
}

/// A session's protocol, and the terms of its handshake.
#[derive(Debug, Clone, Copy)]
pub enum Spoken<'a> {
    /// RSSL: messages are RWF.
    Rssl(&'a Negotiated),
    /// RSSL in binary WebSocket frames: messages are RWF.
    RsslInWebSocket(&'a Negotiated),
    /// RSSL in an HTTP request (ETA's connection type `HTTP`): messages are RWF.
    RsslInHttp(&'a Negotiated),
    /// JSON in text frames: [`Handler::text`] gets them, [`RsslIo::queue_json`](crate::RsslIo::queue_json) writes them.
    Json(&'a Upgrade),
}

impl Spoken<'_> {
    /// The messages are JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        matches!(self, Self::Json(_))
    }
}

impl fmt::Display for Spoken<'_> {
    /// The name that the peer gives itself, and how it came.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rssl(info) => f.write_str(&info.peer_component),
            Self::RsslInWebSocket(info) => write!(f, "{}, rssl.rwf over WebSocket", info.peer_component),
            Self::RsslInHttp(info) => write!(f, "{}, RSSL in HTTP", info.peer_component),
            Self::Json(upgrade) => {
                let agent = if upgrade.user_agent.is_empty() { "unnamed" } else { &upgrade.user_agent };
                write!(f, "{agent}, {} over WebSocket", upgrade.protocol.name())
            }
        }
    }
}
