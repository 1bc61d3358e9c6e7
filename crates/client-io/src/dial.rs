//! How servers are dialled: by name, in the transport and encryption of the settings.

use crate::settings::{Encryption, Transport};
use net::tcp::{ConnId, SocketOptions};
use omm::Server;
use rssl::ws::upgrade::Protocol;
use rssl::ws::{JsonConfig, Limits};
use rssl::{ClientConfig, Version};
use rssl_io::{RsslIo, WebSocketDial};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

/// Settings of connections that are dialled.
#[derive(Debug, Clone, Default)]
pub struct Dial {
    /// How bytes travel.
    pub transport: Transport,
    /// Encryption.
    pub encryption: Encryption,
}

impl Dial {
    /// Begins a connection; the look-up of the name blocks. The `attempt`th one takes another address of the name than the one before.
    pub(crate) fn connect(
        &self,
        now: u64,
        io: &mut RsslIo,
        server: &Server,
        (attempt, version): (usize, Version),
    ) -> Result<ConnId, String> {
        let addresses = (server.host.as_str(), server.port).to_socket_addrs().map_err(|e| e.to_string())?;
        let mut addresses: Vec<SocketAddr> = addresses.collect();
        addresses.sort_by_key(SocketAddr::is_ipv6);
        let at = attempt.checked_rem(addresses.len()).ok_or("no address has this name")?;
        let tls = match &self.encryption {
            Encryption::Plain => None,
            Encryption::Tls(tls) => Some(tls.connect(&server.host).map_err(|e| e.to_string())?),
        };
        // A WebSocket has no keys to exchange, and not every server takes the message that says so in RSSL.
        let key_exchange = self.transport != Transport::WebSocket;
        let config = Arc::new(ClientConfig { version, key_exchange, ..ClientConfig::default() });
        let options = SocketOptions::default();
        let dialled = match self.transport {
            Transport::Rssl => io.connect(now, addresses[at], &options, config, tls),
            Transport::WebSocket => {
                let dial = WebSocketDial {
                    host: format!("{}:{}", server.host, server.port),
                    protocols: vec![Protocol::Rwf],
                    rssl: config,
                    limits: Limits::default(),
                    json: JsonConfig::default(),
                };
                io.connect_websocket(now, addresses[at], &options, Arc::new(dial), tls)
            }
        };
        dialled.map_err(|e| e.to_string())
    }
}
