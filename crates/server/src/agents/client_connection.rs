//! A client's connection, as operators are shown it.

use hub::p2ps::ClientId;
use net::tcp::ConnId;
use rssl_io::Spoken;

/// The protocol of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// RSSL.
    Rssl,
    /// RSSL in WebSocket frames.
    RsslInWebSocket,
    /// RSSL in an HTTP request.
    RsslInHttp,
    /// JSON in WebSocket frames.
    Json,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Rssl, Self::RsslInWebSocket, Self::RsslInHttp, Self::Json];

    pub(super) fn of(spoken: &Spoken<'_>) -> Self {
        match spoken {
            Spoken::Rssl(_) => Self::Rssl,
            Spoken::RsslInWebSocket(_) => Self::RsslInWebSocket,
            Spoken::RsslInHttp(_) => Self::RsslInHttp,
            Spoken::Json(_) => Self::Json,
        }
    }

    /// The protocol's name, as it stands in labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rssl => "rssl",
            Self::RsslInWebSocket => "rssl.rwf",
            Self::RsslInHttp => "rssl.http",
            Self::Json => "tr_json2",
        }
    }
}

/// A client's connection, as operators see it.
#[derive(Debug, Clone, Copy)]
pub struct Connection<'a> {
    /// The client's number at the P2PS.
    pub id: ClientId,
    /// The client's connection.
    pub conn: ConnId,
    /// Address and port.
    pub address: &'a str,
    /// The name that the client's program gives itself, and how it came.
    pub program: &'a str,
    /// Its protocol.
    pub protocol: Protocol,
    /// When it came, monotonic nanoseconds.
    pub since: u64,
    /// The connection is not read for now: too much waits for it, or enough was opened for a while.
    pub is_held_back: bool,
}
