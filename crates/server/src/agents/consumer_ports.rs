//! The ports on which consumers come in.

use std::io;
use std::net::{SocketAddr, TcpListener};

use hub::p2ps::Place;
use net::tcp::ListenerId;
use net::tls::TlsServer;
use rssl_io::{Encryption, RsslIo};

/// Bytes that are read from one client in a turn: about a hundred requests, which take a tenth of a millisecond.
const READ_MOST: usize = 8 << 10;

/// The port for consumers.
#[derive(Debug, Clone, Copy)]
pub struct Port {
    /// The port's number; 0 takes a free one.
    pub number: u16,
    /// Port of the encrypted connection type.
    pub encrypted: u16,
    /// Port by which WebSocket clients find a server by habit, if it is opened.
    pub websocket: Option<u16>,
    /// Port on which every client gets Marketfeed.
    pub marketfeed: u16,
    /// Several shards listen on it; the kernel spreads the connections.
    pub shared: bool,
}

impl Port {
    /// The ports of a configuration. That for WebSocket clients is done without, and the log says so, if another program has it and nobody
    /// has chosen its number: those clients are taken on the port of all, too.
    #[must_use]
    pub fn of(c: &config::P2ps, shared: bool) -> Self {
        let usual = usual_websocket();
        // A configuration that leaves the port to the system wants none that others may have.
        let is_wanted = c.websocket && c.enable_websocket_port && (c.rssl_port != 0 || c.websocket_port != usual);
        let is_taken = || c.websocket_port == usual && is_taken(&c.interface, usual);
        Self {
            number: c.rssl_port,
            encrypted: c.encrypted_port,
            websocket: (is_wanted && !is_taken()).then_some(c.websocket_port),
            marketfeed: c.marketfeed_port,
            shared,
        }
    }

    fn has_usual_websocket(&self) -> bool {
        self.websocket == Some(usual_websocket())
    }

    /// The next to listen does so where this one does: the first may have taken free ports.
    pub fn follow(&mut self, bound: &Bound) {
        self.number = bound.rssl.port();
        self.encrypted = bound.encrypted.map_or(self.encrypted, |a| a.port());
        self.websocket = self.websocket.and(bound.websocket).map(|a| a.port());
        self.marketfeed = bound.marketfeed.map_or(self.marketfeed, |a| a.port());
    }
}

/// The port by which WebSocket clients find a server by habit.
fn usual_websocket() -> u16 {
    config::P2ps::default().websocket_port
}

/// Whether another program listens on a port, which the log is told of. Shards share their ports with each other, and would share this one
/// with that program.
fn is_taken(interface: &str, port: u16) -> bool {
    let bound = config::listening_address(interface, port).and_then(TcpListener::bind);
    let is_taken = bound.is_err_and(|e| e.kind() == io::ErrorKind::AddrInUse);
    if is_taken {
        tell_taken(port);
    }
    is_taken
}

fn tell_taken(port: u16) {
    tracing::warn!(
        "no port of their own for WebSocket clients: {port} is taken by another program; they are taken on the ports of all \
         consumers; p2ps.websocket_port chooses another, p2ps.enable_websocket_port = false wants none"
    );
}

/// Where consumers connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// All of them.
    pub rssl: SocketAddr,
    /// Address of the encrypted connection type, if there is a certificate.
    pub encrypted: Option<SocketAddr>,
    /// WebSocket clients, if they may: a port of their own, or that of all.
    pub websocket: Option<SocketAddr>,
    /// Address for clients that want Marketfeed, if there is such a port.
    pub marketfeed: Option<SocketAddr>,
}

/// Where clients of other servers are told to find this one: by a configured host, by the address that it listens on, or by the host's name. `None`
/// where that cannot be told.
pub(super) fn place(bound: &Bound, host: &str) -> Option<Place> {
    let address = bound.rssl.ip();
    let host = match (host, address.is_unspecified()) {
        ("", false) => address.to_string(),
        ("", true) => net::host::name(),
        (host, _) => host.to_owned(),
    };
    let is_told = (1..=255).contains(&host.len()) && host.bytes().all(|byte| byte.is_ascii_graphic());
    let websocket = bound.websocket.map_or(0, |address| address.port());
    is_told.then(|| Place { host, rssl: bound.rssl.port(), websocket })
}

/// The ports for consumers.
pub(super) struct Listeners {
    rssl: (ListenerId, SocketAddr),
    encrypted: Option<(ListenerId, SocketAddr)>,
    websocket: Option<(ListenerId, SocketAddr)>,
    marketfeed: Option<(ListenerId, SocketAddr)>,
    takes_websocket: bool,
}

impl Listeners {
    /// Opens the ports that the configuration asks for.
    ///
    /// # Errors
    /// One of them cannot be listened on.
    pub(super) fn open(c: &config::P2ps, port: Port, tls: Option<TlsServer>, io: &mut RsslIo) -> io::Result<Self> {
        let mut options = config::socket_options(c.tcp_no_delay, c.tcp_send_buf_size, c.tcp_recv_buf_size);
        options.reuse_port = port.shared;
        let offered = super::encryption(tls.clone(), !c.client_ca_file.is_empty());
        let mut open = |number, (whom, setting), encryption| {
            let at = config::listening_address(&c.interface, number)?;
            let listener = super::consumer_listener(c, encryption, READ_MOST);
            io.listen_as(at, &options, listener).map_err(|e| config::listening_fault(whom, at, setting, &e))
        };
        let rssl = open(port.number, ("consumers", "--rssl-port (p2ps.rssl_port)"), offered.clone())?;
        let required = tls.map(Encryption::Required);
        let encrypted = required
            .map(|tls| open(port.encrypted, ("encrypted consumers", "p2ps.encrypted_port"), tls))
            .transpose()?;
        let whom = ("WebSocket clients", "p2ps.websocket_port");
        let websocket = match port.websocket.map(|number| open(number, whom, offered.clone())) {
            // Another program has come between.
            Some(Err(e)) if e.kind() == io::ErrorKind::AddrInUse && port.has_usual_websocket() => {
                tell_taken(usual_websocket());
                None
            }
            opened => opened.transpose()?,
        };
        let whom = ("Marketfeed clients", "p2ps.marketfeed_port");
        let marketfeed = c.enable_marketfeed_port.then(|| open(port.marketfeed, whom, offered)).transpose()?;
        Ok(Self { rssl, encrypted, websocket, marketfeed, takes_websocket: c.websocket })
    }

    /// Whether a listener is one of these.
    pub(super) fn own(&self, listener: ListenerId) -> bool {
        let further = [self.encrypted, self.websocket, self.marketfeed];
        listener == self.rssl.0 || further.into_iter().flatten().any(|(l, _)| l == listener)
    }

    /// Whether every client of a listener gets Marketfeed.
    pub(super) fn is_for_marketfeed(&self, listener: ListenerId) -> bool {
        self.marketfeed.is_some_and(|(l, _)| l == listener)
    }

    pub(super) fn bound(&self) -> Bound {
        let address = |of: Option<(ListenerId, SocketAddr)>| of.map(|(_, address)| address);
        Bound {
            rssl: self.rssl.1,
            encrypted: address(self.encrypted),
            websocket: self.takes_websocket.then(|| address(self.websocket).unwrap_or(self.rssl.1)),
            marketfeed: address(self.marketfeed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::{Bound, Port, is_taken, place};
    use config::P2ps;

    #[test]
    fn clients_of_websocket_have_their_usual_port_unless_ports_are_left_to_the_system() {
        let websocket = |rssl_port, websocket_port, is_wanted| {
            let config = P2ps { rssl_port, websocket_port, enable_websocket_port: is_wanted, ..P2ps::default() };
            Port::of(&config, false).websocket
        };
        assert_eq!(websocket(0, 15_000, true), None);
        assert_eq!(websocket(0, 0, true), Some(0));
        assert_eq!(websocket(14_002, 0, true), Some(0));
        assert_eq!(websocket(14_002, 15_001, true), Some(15_001), "who chooses a number gets that one or an error");
        assert_eq!(websocket(14_002, 15_001, false), None);
        assert_eq!(P2ps::default().websocket_port, 15_000);
    }

    #[test]
    fn others_are_told_the_host_that_is_configured_or_listened_on() {
        let bound = |rssl: &str| Bound {
            rssl: rssl.parse().expect("an address"),
            encrypted: None,
            websocket: Some("0.0.0.0:15000".parse().expect("an address")),
            marketfeed: None,
        };
        let told = |rssl, host| place(&bound(rssl), host).map(|place| (place.host, place.rssl, place.websocket));
        assert_eq!(told("10.1.0.3:14002", ""), Some(("10.1.0.3".to_owned(), 14_002, 15_000)));
        assert_eq!(told("10.1.0.3:14002", "p2ps1"), Some(("p2ps1".to_owned(), 14_002, 15_000)));
        assert_eq!(told("0.0.0.0:14002", ""), Some((net::host::name(), 14_002, 15_000)));
        assert_eq!(told("0.0.0.0:14002", "two words"), None);
    }

    #[test]
    fn a_port_is_taken_while_another_program_listens_on_it() {
        let other = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = other.local_addr().expect("an address").port();
        assert!(is_taken("127.0.0.1", port));
        drop(other);
        assert!(!is_taken("127.0.0.1", port));
    }
}
