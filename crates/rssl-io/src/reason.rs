//! Why connections are not taken, and why they end: closed lists, with the text for operator and peer.

use std::fmt;

use net::tls::TlsError;

use crate::account::Overdrawn;
use rssl::ws::{self, upgrade::Refusal};

/// Why a port does not take a connection at all.
#[derive(Debug)]
pub enum AdmissionError {
    /// The port is encrypted, and encryption cannot begin.
    Encryption(TlsError),
    /// Too many connections are not yet a session.
    Handshakes {
        /// As many as there are.
        open: usize,
    },
    /// The address has too many connections.
    Address {
        /// As many as it has.
        open: usize,
    },
}

impl fmt::Display for AdmissionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encryption(error) => write!(f, "it cannot be encrypted: {error}"),
            Self::Handshakes { open } => {
                write!(f, "{open} connections are in their handshake already (max_handshakes)")
            }
            Self::Address { open } => {
                write!(f, "this address has {open} connections already (max_connections_per_address)")
            }
        }
    }
}

impl std::error::Error for AdmissionError {}

/// Why a connection has ended, whether or not it became a session.
#[derive(Debug)]
pub enum EndReason {
    /// The socket: the peer has closed it, or it has failed.
    Socket(net::tcp::CloseReason),
    /// Encryption: what the peer sent, or its certificate.
    Encryption(TlsError),
    /// The rules of RSSL: the handshake, frames, silence.
    Rssl(rssl::Closed),
    /// The rules of WebSocket: frames, silence, the peer's close.
    WebSocket(ws::Closed),
    /// An HTTP request that is no upgrade to a session.
    Http(Refusal),
    /// The server that was dialled gives no WebSocket session; its words, or that there were none in time.
    NotUpgraded(String),
    /// The HTTP proxy on the way to the server does not connect with it; its words, or that there were none in time.
    Proxy(String),
    /// The owner of the port refused the session ([`crate::Handler::admit`]); the text that the peer was told.
    Refused(String),
    /// Nothing came after the handshake in the time that the port gives (`login_timeout`).
    NoMessage,
    /// More waits for the peer, or is kept of what it has not finished, than may be.
    Overdrawn(Overdrawn),
    /// A text frame came in a session of RSSL in WebSocket frames.
    TextFrame,
    /// Nothing told a protocol for so many nanoseconds.
    NoProtocol {
        /// Nanoseconds.
        waited: u64,
    },
    /// The owner ended it ([`crate::RsslIo::close`]); the owner's reason as text.
    Owner(String),
}

impl EndReason {
    /// An unknown version is not answered: the peer tries the next lower one.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self, Self::Rssl(rssl::Closed::UnknownVersion { .. }))
    }

    /// The peer was reached and has gone without a word, as servers do that do not know a version. A connection that never came to be says
    /// nothing of versions.
    pub(crate) fn is_without_answer(&self) -> bool {
        use net::tcp::CloseReason::{PeerClosed, Reset};
        matches!(self, Self::Socket(PeerClosed | Reset))
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused = |f: &mut fmt::Formatter<'_>, text: &str| write!(f, "connection refused by this server: {text:?}");
        match self {
            Self::Socket(reason) => reason.fmt(f),
            Self::Encryption(error) => error.fmt(f),
            Self::Rssl(closed) => closed.fmt(f),
            Self::WebSocket(closed) => closed.fmt(f),
            Self::Http(refusal) => write!(f, "HTTP request answered with {}: {}", refusal.status, refusal.why),
            Self::NotUpgraded(text) | Self::Proxy(text) | Self::Owner(text) => f.write_str(text),
            Self::Overdrawn(overdrawn) => overdrawn.fmt(f),
            Self::Refused(text) => refused(f, text),
            Self::NoMessage => refused(f, "no message came after the handshake (login_timeout)"),
            Self::TextFrame => refused(f, "text frame in a session of RSSL"),
            Self::NoProtocol { waited } => {
                let seconds = *waited as f64 / 1e9;
                write!(f, "handshake timeout: nothing that tells a protocol within {seconds} s")
            }
        }
    }
}
