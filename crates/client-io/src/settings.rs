//! The settings of a session.

use client::ClientConfig;
use net::tls::TlsClient;
use omm::consumer::ConsumerConfig;
use omm::{ConnectionList, Server};
use std::fmt;

/// How bytes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// RSSL on TCP.
    #[default]
    Rssl,
    /// RSSL in binary WebSocket frames (`rssl.rwf`).
    WebSocket,
}

/// Encryption of connections.
#[derive(Clone, Default)]
pub enum Encryption {
    /// None.
    #[default]
    Plain,
    /// TLS; certificates are checked against the host of the server's entry.
    Tls(TlsClient),
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::Tls(_) => "Tls",
        })
    }
}

/// The settings of a session.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// Servers, login, recovery, dictionary, posts.
    pub client: ClientConfig,
    /// How bytes travel.
    pub transport: Transport,
    /// Encryption.
    pub encryption: Encryption,
}

/// A text that is no list of servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError(String);

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no server; write HOST:PORT, of several with commas between them", self.0)
    }
}

impl std::error::Error for AddressError {}

/// The port of consumers where none is written, as in EMA.
const PORT: u16 = 14_002;

pub(crate) fn servers(text: &str) -> Result<Vec<Server>, AddressError> {
    let server = |entry: &str| {
        let bad = || AddressError(entry.to_owned());
        let (host, port) = match entry.rsplit_once(':') {
            // An address of IPv6 has colons of its own, and is written in brackets if a port follows.
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, port.parse().map_err(|_| bad())?)
            }
            _ => (entry, PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || port == 0 { Err(bad()) } else { Ok(Server::new(host, port)) }
    };
    text.split(',').map(str::trim).map(server).collect()
}

impl SessionConfig {
    /// A session with the servers of a list (`HOST:PORT`, with commas between them, tried in order and round and round; port 14002 if none is
    /// written), logged in as `user`.
    ///
    /// # Errors
    /// The list has an entry that is no server.
    pub fn new(list: &str, user: impl Into<String>) -> Result<Self, AddressError> {
        let mut consumer = ConsumerConfig::new(ConnectionList::new(servers(list)?), user);
        consumer.login.attributes.application_name = Some("quoteway".to_owned());
        Ok(Self {
            client: ClientConfig::new(consumer),
            transport: Transport::default(),
            encryption: Encryption::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_hosts_and_ports() {
        let all = servers("a, b:7,[::1]:8,::1").expect("servers");
        let expected = [("a", PORT), ("b", 7), ("::1", 8), ("::1", PORT)];
        assert_eq!(all, expected.map(|(host, port)| Server::new(host, port)));
        for bad in ["", "a,,b", "a:b", ":7", "a:0", "a:70000"] {
            assert!(servers(bad).expect_err(bad).to_string().contains("HOST:PORT"), "{bad}");
        }
    }
}
