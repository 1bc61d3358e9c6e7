//! How servers are dialled: by name of a host or of a service, in the transport and encryption of the settings.

use crate::settings::{Encryption, Transport};
use net::dns::{self, Place, ServiceName};
use net::tcp::{ConnId, SocketOptions};
use omm::Server;
use rssl::ws::upgrade::Protocol;
use rssl::ws::{JsonConfig, Limits};
use rssl::{ClientConfig, Version};
use rssl_io::{RsslIo, WebSocketDial};
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
    /// Begins a connection; the look-up of the name blocks. The `attempt`th one takes another address of the name than the one before, or another
    /// server of a service.
    pub(crate) fn connect(
        &self,
        now: u64,
        io: &mut RsslIo,
        server: &Server,
        (attempt, version): (usize, Version),
    ) -> Result<ConnId, String> {
        let dns::Places { list, .. } = dns::places(&entry(server)).map_err(|e| e.to_string())?;
        let at = attempt.checked_rem(list.len()).ok_or("no address has this name")?;
        let Place { host, address } = &list[at];
        let tls = match &self.encryption {
            Encryption::Plain => None,
            Encryption::Tls(tls) => Some(tls.connect(bare(host)).map_err(|e| e.to_string())?),
        };
        // A WebSocket has no keys to exchange, and not every server takes the message that says so in RSSL.
        let key_exchange = self.transport != Transport::WebSocket;
        let config = Arc::new(ClientConfig { version, key_exchange, ..ClientConfig::default() });
        let options = SocketOptions::default();
        let dialled = match self.transport {
            Transport::Rssl => io.connect(now, *address, &options, config, tls),
            Transport::WebSocket => {
                let dial = WebSocketDial {
                    host: format!("{host}:{}", address.port()),
                    protocols: vec![Protocol::Rwf],
                    rssl: config,
                    limits: Limits::default(),
                    json: JsonConfig::default(),
                };
                io.connect_websocket(now, *address, &options, Arc::new(dial), tls)
            }
        };
        dialled.map_err(|e| e.to_string())
    }
}

/// A host without the brackets that an address of IPv6 is written in.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

/// A server as its list has it: `HOST:PORT`, or the name of a service, which has its ports itself.
pub(crate) fn entry(server: &Server) -> String {
    let Server { host, port, .. } = server;
    if ServiceName::is_meant_by(host) {
        host.clone()
    } else if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
