//! Ports, and how the first bytes of a connection tell its protocol.

use std::sync::Arc;

use net::tls::TlsServer;
use rssl::ws::upgrade::{Offer, Protocol};
use rssl::ws::{JsonConfig, Limits};
use rssl::{ClientConfig, ServerConfig};

use crate::account::Bounds;
use crate::admission;

/// Settings of a port's sessions.
#[derive(Clone)]
pub struct Listener {
    /// RSSL, also within WebSocket.
    pub rssl: Arc<ServerConfig>,
    /// WebSocket; `None` answers every HTTP request with what the port is for.
    pub websocket: Option<Arc<WebSocket>>,
    /// TLS below both.
    pub encryption: Encryption,
    /// Bytes that are read from one session in a turn at most; what is left is read in the next turn.
    pub read_most_bytes: usize,
    /// Limits by address and in total.
    pub limits: admission::Limits,
    /// Bytes that may wait for those who have logged in.
    pub bounds: Bounds,
}

impl Listener {
    /// RSSL alone, without encryption or limits.
    #[must_use]
    pub fn rssl(config: Arc<ServerConfig>) -> Self {
        Self {
            rssl: config,
            websocket: None,
            encryption: Encryption::None,
            read_most_bytes: usize::MAX,
            limits: admission::Limits::default(),
            bounds: Bounds::default(),
        }
    }
}

/// Whether a port speaks TLS.
#[derive(Clone)]
pub enum Encryption {
    /// The port has no encryption.
    None,
    /// Connections that begin with a TLS handshake get it; others are plain.
    Offered(TlsServer),
    /// Nothing else is taken.
    Required(TlsServer),
}

impl Encryption {
    /// Says in the log that the files of the certificate have changed, once for all who have it. A handshake is what has them looked at.
    pub(crate) fn log_news(&self) {
        let (Self::Offered(tls) | Self::Required(tls)) = self else { return };
        if let Some(news) = tls.news() {
            tracing::warn!("{news}");
        }
    }
}

/// Settings of WebSocket sessions.
#[derive(Debug, Clone, Default)]
pub struct WebSocket {
    /// Protocols, compression, origins.
    pub offer: Offer,
    /// Limits of what a client may send.
    pub limits: Limits,
    /// JSON sessions.
    pub json: JsonConfig,
    /// `User-Agent` of clients that are sent each JSON message in a frame of its own.
    pub one_message_agents: Vec<String>,
}

impl WebSocket {
    /// How a JSON session is made with a client that names itself so.
    pub(crate) fn json_for(&self, user_agent: &str) -> JsonConfig {
        let singly = self.one_message_agents.iter().any(|agent| agent == user_agent);
        JsonConfig { one_message_a_frame: self.json.one_message_a_frame || singly, ..self.json }
    }
}

/// The request to a server that is dialled by WebSocket.
#[derive(Debug, Clone)]
pub struct WebSocketDial {
    /// Host and port, for the request's `Host`.
    pub host: String,
    /// The protocols, best first.
    pub protocols: Vec<Protocol>,
    /// RSSL in it, and the time that the answer may take.
    pub rssl: Arc<ClientConfig>,
    /// Limits of what the server may send.
    pub limits: Limits,
    /// JSON sessions.
    pub json: JsonConfig,
}

/// The protocol that the first byte of a connection tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// An RSSL connect request: its length is below 2,048.
    Rssl,
    /// The method of an HTTP request.
    Http,
    /// A TLS handshake record.
    Tls,
    /// None of them.
    Junk,
}

/// Tells protocols apart by the first byte.
#[must_use]
pub fn beginning(first: u8) -> Beginning {
    match first {
        0..=7 => Beginning::Rssl,
        0x16 => Beginning::Tls,
        b'A'..=b'Z' => Beginning::Http,
        _ => Beginning::Junk,
    }
}
