//! The settings of a session.

use client::{ClientConfig, LINKS_MAX};
use net::dns::ServiceName;
use net::tls::{TlsClient, TlsError};
use omm::consumer::ConsumerConfig;
use omm::{ConnectionList, Schedule, ScheduleError, Server};
use std::fmt;
use std::path::Path;

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

impl Encryption {
    /// TLS with servers whose certificates are of those in a PEM file, or without one of those that this machine trusts.
    ///
    /// # Errors
    /// The file cannot be read or has no certificate; this machine trusts none.
    pub fn with_roots(roots: Option<&Path>) -> Result<Self, TlsError> {
        roots.map_or_else(TlsClient::with_system_roots, TlsClient::with_roots_from).map(Self::Tls)
    }
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
#[non_exhaustive]
pub enum AddressError {
    /// An entry is no server.
    NoServer(String),
    /// More connections at a time than there may be.
    TooMany(usize),
    /// The preferred server is none of the list.
    NotListed(String),
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoServer(text) => {
                write!(
                    f,
                    "{text:?} is no server; write HOST:PORT or srv:_SERVICE._tcp.DOMAIN, of several with commas between them, of connections that are held at a time with |"
                )
            }
            Self::TooMany(count) => write!(
                f,
                "{count} connections at a time are too many; write {LINKS_MAX} lists with | between them at most"
            ),
            Self::NotListed(text) => {
                write!(f, "{text:?} is not in the list of servers, so it cannot be preferred; write it as it is there")
            }
        }
    }
}

impl std::error::Error for AddressError {}

/// The port of consumers where none is written, as in EMA.
const PORT: u16 = 14_002;

pub(crate) fn servers(text: &str) -> Result<Vec<Server>, AddressError> {
    let server = |entry: &str| {
        let bad = || AddressError::NoServer(entry.to_owned());
        match ServiceName::of(entry) {
            // The DNS says the ports of a service.
            Some(Ok(_)) => return Ok(Server::new(entry, 0)),
            Some(Err(_)) => return Err(bad()),
            None => {}
        }
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
    /// written; `srv:_SERVICE._tcp.DOMAIN` for what the DNS says, ports included), logged in as `user`. Lists with `|` between them are connections that are held at the same time, one out of each
    /// ([`client::Arrangement`]).
    ///
    /// # Errors
    /// The list has an entry that is no server, or there are more than [`client::LINKS_MAX`] connections.
    pub fn new(list: &str, user: impl Into<String>) -> Result<Self, AddressError> {
        let lists: Result<Vec<_>, _> = list.split('|').map(|list| servers(list).map(ConnectionList::new)).collect();
        let mut lists = lists?;
        if lists.len() > LINKS_MAX {
            return Err(AddressError::TooMany(lists.len()));
        }
        let mut consumer = ConsumerConfig::new(lists.remove(0), user);
        consumer.login.attributes.application_name = Some("quoteway".to_owned());
        Ok(Self {
            client: ClientConfig { beside: lists, ..ClientConfig::new(consumer) },
            transport: Transport::default(),
            encryption: Encryption::default(),
        })
    }

    /// Encrypts connections; certificates must be of those in a PEM file, or without one of those that this machine trusts.
    ///
    /// # Errors
    /// The file cannot be read or has no certificate; this machine trusts none.
    pub fn encrypt(&mut self, roots: Option<&Path>) -> Result<(), TlsError> {
        self.encryption = Encryption::with_roots(roots)?;
        Ok(())
    }

    /// Prefers a server of the lists: it is tried first after every loss and, with `fall_back_ns`, gone back to when a connection to another one of
    /// its list has lasted so long.
    ///
    /// # Errors
    /// The text is no server, or none of the lists.
    pub fn prefer(&mut self, server: &str, fall_back_ns: Option<u64>) -> Result<(), AddressError> {
        let preferred = servers(server)?;
        let client = &mut self.client;
        let lists = std::iter::once(&mut client.consumer.connections).chain(&mut client.beside);
        let mut is_listed = false;
        for list in lists {
            if let Some(at) = list.servers.iter().position(|known| preferred.first() == Some(known)) {
                (list.preferred, list.fall_back_ns, is_listed) = (Some(at), fall_back_ns, true);
            }
        }
        if is_listed && preferred.len() == 1 { Ok(()) } else { Err(AddressError::NotListed(server.to_owned())) }
    }

    /// Goes back to preferred servers at times of day and week by the clock of this place, written as for `cron` ([`Schedule`]), in place of a time
    /// elsewhere (EMA's `DetectionTimeSchedule`). Lists without a preferred server stay as they are.
    ///
    /// # Errors
    /// The text is no schedule.
    pub fn fall_back_at(&mut self, schedule: &str) -> Result<(), ScheduleError> {
        let schedule = Schedule::parse(schedule)?;
        let client = &mut self.client;
        for list in std::iter::once(&mut client.consumer.connections).chain(&mut client.beside) {
            list.fall_back_at = list.preferred.map(|_| schedule.clone());
        }
        Ok(())
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
        let service = servers("srv:_rssl._tcp.example.com,a").expect("a service and a host");
        assert_eq!(service, [Server::new("srv:_rssl._tcp.example.com", 0), Server::new("a", PORT)]);
        for bad in ["srv:a", "srv:_rssl._tcp.a:7", "", "a,,b", "a:b", ":7", "a:0", "a:70000"] {
            assert!(servers(bad).expect_err(bad).to_string().contains("HOST:PORT"), "{bad}");
        }
    }

    #[test]
    fn lists_are_connections_and_a_server_of_them_can_be_preferred() {
        let mut config = SessionConfig::new("a:1,b:1 | c:1", "user").expect("servers");
        assert_eq!((config.client.consumer.connections.servers.len(), config.client.beside.len()), (2, 1));
        config.prefer("b:1", Some(5)).expect("one of the list");
        let list = &config.client.consumer.connections;
        assert_eq!((list.preferred, list.fall_back_ns, config.client.beside[0].preferred), (Some(1), Some(5), None));
        config.fall_back_at("30 6 * * MON-FRI").expect("a schedule");
        let lists = [&config.client.consumer.connections, &config.client.beside[0]];
        assert_eq!(lists.map(|list| list.fall_back_at.is_some()), [true, false]);
        assert!(config.fall_back_at("half past six").is_err());
        assert_eq!(config.prefer("d:1", None), Err(AddressError::NotListed("d:1".to_owned())));
        assert!(SessionConfig::new("a:1 |", "user").is_err() && config.prefer("a:1,b:1", None).is_err());
        let many = vec!["a:1"; LINKS_MAX + 1].join("|");
        assert_eq!(SessionConfig::new(&many, "user").err(), Some(AddressError::TooMany(LINKS_MAX + 1)));
    }
}
