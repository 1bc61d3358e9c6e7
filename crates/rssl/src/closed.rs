//! Why a session ended, and why a message could not be written.

use std::fmt;

/// Why a session is over. After it the connection takes and gives no more bytes; what is in `out` (a refusal, say) is still to
/// be sent before the socket is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closed {
    /// The server answered our connect request with a refusal.
    Refused {
        /// The server's own text.
        text: String,
    },
    /// This side refused the client; the refusal is in `out`.
    Refusing {
        /// The text that was sent.
        text: String,
    },
    /// The client asked for another protocol type than ours (0 is RWF, 2 JSON); the refusal is in `out`.
    ProtocolType {
        /// The client's request.
        theirs: u8,
        /// The versions that this server speaks.
        ours: u8,
    },
    /// The client offered a connection version that this server does not accept. Nothing is answered: the peer is to try again
    /// one version lower.
    UnknownVersion {
        /// The version number of the request as on the wire (0x17 is connection version 14).
        code: u32,
    },
    /// The peer sent bytes that break the protocol.
    Malformed {
        /// The fault.
        what: &'static str,
        /// Where: position of the frame's first byte in all bytes received on this connection.
        position: u64,
    },
    /// A fragmented message would need more memory than the configuration allows.
    ReassemblyLimit {
        /// Bytes that all unfinished messages of the peer would have together.
        wanted: u64,
        /// Bytes that are allowed.
        limit: u64,
    },
    /// The peer promised pings and was silent for the whole ping timeout.
    PingTimeout {
        /// How long nothing came, nanoseconds.
        silent_ns: u64,
    },
    /// The handshake was not finished in time.
    HandshakeTimeout {
        /// The bytes that did not come.
        missing: &'static str,
        /// How long it was waited for, nanoseconds.
        waited_ns: u64,
    },
    /// The session was over before this call.
    AlreadyClosed,
}

/// Whose doing a close was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The peer broke the protocol or asked for something that cannot be had.
    Peer,
    /// Nobody heard from the peer: a dead process, a frozen host or a cut line.
    Silence,
    /// One side decided so (a refusal, a limit).
    Policy,
    /// The caller went on using a closed session.
    Caller,
}

impl Closed {
    /// Whose doing it was.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::Malformed { .. } | Self::UnknownVersion { .. } | Self::ProtocolType { .. } => Fault::Peer,
            Self::PingTimeout { .. } | Self::HandshakeTimeout { .. } => Fault::Silence,
            Self::Refused { .. } | Self::Refusing { .. } | Self::ReassemblyLimit { .. } => Fault::Policy,
            Self::AlreadyClosed => Fault::Caller,
        }
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { text } => write!(f, "the server refused the connection: {text:?}"),
            Self::Refusing { text } => write!(f, "connection refused by this server: {text:?}"),
            Self::ProtocolType { theirs, ours } => write!(
                f,
                "the client asked for protocol type {theirs} and this server speaks {ours} (0 is RWF, 2 is JSON); \
                 set the same protocol type on both sides"
            ),
            Self::UnknownVersion { code } => write!(
                f,
                "connect request with version {code:#x} is not accepted here; closed without an answer so that the client \
                 tries a lower connection version"
            ),
            Self::Malformed { what, position } => {
                write!(f, "the peer broke the RSSL protocol at byte {position} of its stream: {what}")
            }
            Self::ReassemblyLimit { wanted, limit } => write!(
                f,
                "unfinished fragmented messages of the peer would need {wanted} bytes and {limit} are allowed; \
                 let the peer send smaller messages, or fewer of them at once"
            ),
            Self::PingTimeout { silent_ns } => {
                write!(f, "nothing was received for {} s: ping timeout", *silent_ns as f64 / 1e9)
            }
            Self::HandshakeTimeout { missing, waited_ns } => {
                write!(f, "handshake timeout: no {missing} within {} s", *waited_ns as f64 / 1e9)
            }
            Self::AlreadyClosed => f.write_str("the session is already closed"),
        }
    }
}

impl std::error::Error for Closed {}

/// Why a message was not written. Nothing of it is in `out`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// The handshake is not finished, or the session is over.
    NotConnected,
    /// A message without bytes: on the wire it would be a ping.
    Empty,
    /// The length does not fit the four bytes that a fragmented message has for it.
    TooLong,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotConnected => "message not written: the session is not connected",
            Self::Empty => "message not written: it has no bytes and would be taken for a ping",
            Self::TooLong => "message not written: it is longer than 4 GB",
        })
    }
}

impl std::error::Error for WriteError {}
