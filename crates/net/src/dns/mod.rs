//! Servers by the name of their service: DNS SRV records (RFC 2782), which the system's own look-up of hosts leaves out.
//!
//! A list of hosts may have `srv:_rssl._tcp.example.com` instead of `HOST:PORT`. Looking such a name up gives the [`Servers`] of its
//! records; [`Servers::draw`] puts them in the order in which a client is to try them. The names of their hosts are left to the
//! system, so that `/etc/hosts` and whatever else it asks counts.
//!
//! [`look_up`] blocks for as long as [`Resolver::longest`]: a thread that serves has another one do it.

mod ask;
mod message;
mod order;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

pub use ask::{NAME_SERVERS, Resolver};

/// What is before the name of a service in a list of hosts.
const PREFIX: &str = "srv:";
/// Servers that are taken from one answer; the others are those that would be tried last.
pub const SERVERS_MAX: usize = 64;

/// The name of a service: `_rssl._tcp.example.com`, or `_rssl._tcp` in a domain that the system searches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceName(String);

/// A text that begins with `srv:` and names no service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadServiceName(String);

impl fmt::Display for BadServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} names no service: srv:_SERVICE._tcp.DOMAIN, without a port", self.0)
    }
}

impl std::error::Error for BadServiceName {}

impl ServiceName {
    /// The service that an entry of a list of hosts names; `None` for an entry that is a host.
    ///
    /// # Errors
    /// What follows `srv:` is no name of a service.
    pub fn of(entry: &str) -> Option<Result<Self, BadServiceName>> {
        let name = entry.strip_prefix(PREFIX)?;
        let name = name.strip_suffix('.').unwrap_or(name);
        let is_label = |label: &str| {
            let is_known = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            (1..=63).contains(&label.len()) && label.chars().all(is_known)
        };
        let mut labels = name.split('.');
        let is_service = [labels.next(), labels.next()]
            .iter()
            .all(|label| label.is_some_and(|label| label.len() > 1 && label.starts_with('_') && is_label(label)));
        // The longest name of the DNS is 255 bytes with the length of each label and the root.
        let is_name = is_service && labels.all(is_label) && name.len() <= 253;
        Some(if is_name { Ok(Self(name.to_owned())) } else { Err(BadServiceName(entry.to_owned())) })
    }

    /// Whether an entry of a list of hosts means a service.
    pub fn is_meant_by(entry: &str) -> bool {
        entry.starts_with(PREFIX)
    }

    /// The name, without `srv:` and without a dot at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

/// One SRV record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Servers of the lowest number are tried first.
    pub priority: u16,
    /// The share of the clients that come to this one first, among those of one priority.
    pub weight: u16,
    /// Name of the host, without a dot at its end.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Servers {
    /// At least one, at most [`SERVERS_MAX`], by priority.
    pub list: Vec<Server>,
    /// How long the answer may be used.
    pub ttl: Duration,
}

impl Servers {
    /// `HOST:PORT` of the servers in the order in which this client is to try them: by priority, and at random by weight among those
    /// of one priority, another order at each call.
    pub fn draw(&self) -> Vec<String> {
        let drawn = order::draw(&self.list, |bound| random() % bound);
        drawn.into_iter().map(|server| format!("{}:{}", server.host, server.port)).collect()
    }
}

/// A number that nobody outside can foresee.
fn random() -> u64 {
    // Keys from the operating system, another pair at each call.
    RandomState::new().hash_one(0)
}

/// Why a service has no servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The domain says that the service is not there (a record whose target is the root).
    NotOffered,
    /// No name server knows the name, or it has no SRV records.
    NoRecords,
    /// What the last name server that was asked did.
    NoAnswer {
        /// The server.
        server: SocketAddr,
        /// What it did.
        what: String,
    },
    /// There is no name server to ask.
    NoNameServer(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOffered => write!(f, "the domain says that it does not offer this service"),
            Self::NoRecords => write!(f, "no SRV record has this name"),
            Self::NoAnswer { server, what } => write!(f, "name server {server}: {what}"),
            Self::NoNameServer(why) => write!(f, "no name server can be asked: {why}"),
        }
    }
}

impl std::error::Error for Fault {}

/// Asks the system's name servers for the servers of a service, as [`Resolver::look_up`] does.
///
/// # Errors
/// There are none, or nobody says which.
pub fn look_up(name: &ServiceName) -> Result<Servers, Fault> {
    Resolver::of_system()?.look_up(name)
}

/// An address of a server, and the host that it was found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name or address of the host: what its certificate has to name.
    pub host: String,
    /// Where it is.
    pub address: SocketAddr,
}

/// What an entry of a list of hosts stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// In the order in which they are to be tried.
    pub list: Vec<Place>,
    /// How long the answer about a service may be used; `None` for a host, whose look-up does not say.
    pub ttl: Option<Duration>,
}

/// The places that an entry of a list of hosts (`HOST:PORT`, or `srv:` with the name of a service) stands for, in the order in which
/// they are to be tried; of one host those of IPv4 first, since servers here listen on IPv4 unless told otherwise. For programs that
/// have nothing else to do: it blocks.
///
/// # Errors
/// A text for people: the entry is wrong, or nothing has this name. Of a service's hosts those that cannot be found are left out while
/// others can.
pub fn places(entry: &str) -> io::Result<Places> {
    let Some(service) = ServiceName::of(entry) else {
        return places_of(entry).map(|list| Places { list, ttl: None });
    };
    let service = service.map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e.to_string()))?;
    let servers = look_up(&service).map_err(|e| io::Error::other(e.to_string()))?;
    let (mut list, mut fault) = (Vec::new(), None);
    for server in servers.draw() {
        match places_of(&server) {
            Ok(places) => list.extend(places),
            Err(e) => fault = Some(io::Error::new(e.kind(), format!("{server}: {e}"))),
        }
    }
    fault.filter(|_| list.is_empty()).map_or(Ok(Places { list, ttl: Some(servers.ttl) }), Err)
}

fn places_of(host_and_port: &str) -> io::Result<Vec<Place>> {
    let mut addresses: Vec<_> = host_and_port.to_socket_addrs()?.collect();
    if addresses.is_empty() {
        return Err(io::Error::other("no address has this name"));
    }
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let host = host_and_port.rsplit_once(':').map_or(host_and_port, |(host, _)| host);
    Ok(addresses.into_iter().map(|address| Place { host: host.to_owned(), address }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_host_or_a_service() {
        assert_eq!(ServiceName::of("feed:14002"), None);
        assert_eq!(ServiceName::of("feed"), None);
        for good in ["_rssl._tcp.example.com", "_rssl._tcp", "_a-b._tcp.x", "_x._tcp.sub_net.example.com"] {
            let name = ServiceName::of(&format!("srv:{good}")).expect("a service").expect("a name");
            assert_eq!((name.as_str(), name.to_string()), (good, format!("srv:{good}")));
        }
        let absolute = ServiceName::of("srv:_rssl._tcp.example.com.").expect("a service").expect("a name");
        assert_eq!(absolute.as_str(), "_rssl._tcp.example.com");
        let long = format!("_rssl._tcp.{}", "a.".repeat(125));
        let label = format!("_rssl._tcp.{}", "a".repeat(64));
        for bad in [
            "",
            "_rssl",
            "example.com",
            "_rssl._tcp:14002",
            "_rssl._tcp..x",
            "_._tcp.x",
            "_rssl._tcp.b c",
            &long,
            &label,
        ] {
            let told = ServiceName::of(&format!("srv:{bad}")).expect("a service").expect_err("no name");
            assert!(told.to_string().contains("srv:_SERVICE._tcp.DOMAIN"), "{told}");
        }
    }

    #[test]
    fn a_host_is_its_own_place() {
        let place = Place { host: "127.0.0.1".to_owned(), address: ([127, 0, 0, 1], 14_002).into() };
        let found = places("127.0.0.1:14002").expect("an address");
        assert_eq!(found, Places { list: vec![place], ttl: None });
        assert!(places("127.0.0.1").is_err(), "no port");
        assert!(places("srv:nonsense").expect_err("no service").to_string().contains("names no service"));
    }

    #[test]
    fn random_numbers_differ() {
        assert_ne!((random(), random()), (random(), random()));
    }
}
