//! WebSocket sessions as state machines without I/O: the upgrade, the frames, and JSON messages in them.
//!
//! | module | what it is |
//! |---|---|
//! | [`upgrade`] | the HTTP request and its answers, both sides |
//! | [`pages`] | the pages whose scripts may connect: `Origin` and `Host`, read strictly |
//! | [`frame`] | frame headers and masks alone |
//! | [`Socket`] | frames as messages: fragments, control frames, compression |
//! | [`Json`] | a session of `tr_json2`: packing, fragments, pings by message, times |
//! | [`JsonTexts`] | a server's messages as the texts of its clients, each body converted once |
//! | [`JsonPeer`] | what a server knows of one of them: errors, and the keys of its streams |
//!
//! `rssl.rwf` needs no session of its own: the bytes of a [`Connection`](crate::Connection) go through
//! [`Socket::wrap_rssl`] and come out of [`Sink::binary`]. The protocol is described in `docs/wire/websocket.md`.

pub mod frame;
mod json;
mod keys;
pub mod pages;
mod socket;
mod texts;
pub mod upgrade;

pub use json::{FrameKind, Json, JsonConfig, JsonPacker};
pub use keys::JsonPeer;
pub use socket::{Limits, Role, Sink, Socket};
pub use texts::{JsonTexts, Read, TextOptions, answers_login, login_payload};

use std::fmt;

/// Codes of close frames (RFC 6455, 7.4.1).
pub mod code {
    /// The session has done what it was for.
    pub const NORMAL: u16 = 1000;
    /// This side goes away.
    pub const GOING_AWAY: u16 = 1001;
    /// The peer broke the protocol.
    pub const PROTOCOL: u16 = 1002;
    /// A kind of frame that this protocol has no use for.
    pub const UNSUPPORTED: u16 = 1003;
    /// No code was in the close frame; never sent.
    pub const NONE: u16 = 1005;
    /// Text that is no UTF-8.
    pub const NOT_UTF8: u16 = 1007;
    /// A rule of this side's owner.
    pub const POLICY: u16 = 1008;
    /// A message that is too long.
    pub const TOO_BIG: u16 = 1009;
}

/// Why a session is over.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closed {
    /// The peer closed it.
    Peer {
        /// The peer's code; [`code::NONE`] if it gave none.
        code: u16,
        /// The peer's reason, mostly empty.
        reason: String,
    },
    /// The peer broke the protocol; a close frame that says so is in the output.
    Malformed {
        /// The code that was sent.
        code: u16,
        /// The fault.
        what: &'static str,
    },
    /// Nothing came for the whole ping timeout.
    PingTimeout {
        /// How long nothing came, nanoseconds.
        silent_ns: u64,
    },
    /// The session was over before this call.
    AlreadyClosed,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer { code: code::NORMAL, reason } if reason.is_empty() => f.write_str("closed by the peer"),
            Self::Peer { code, reason } => write!(f, "closed by the peer with code {code} {reason}"),
            Self::Malformed { code, what } => {
                write!(f, "the peer broke the WebSocket protocol: {what} (closed with code {code})")
            }
            Self::PingTimeout { silent_ns } => {
                write!(f, "nothing was received for {} s: ping timeout", *silent_ns as f64 / 1e9)
            }
            Self::AlreadyClosed => f.write_str("the session is already closed"),
        }
    }
}

impl std::error::Error for Closed {}
