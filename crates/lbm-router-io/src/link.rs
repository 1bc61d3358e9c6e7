//! Peer portals: TCP or TLS, dialled or taken, tried again.

use std::io;
use std::net::SocketAddr;

use lbm::transport::tcp::Deframer;
use lbm_router::{PeerFault, PortalId, Router};
use net::Network;
use net::tcp::{Close, ConnId, ListenerId, RecvOutcome, Scratch, SendOutcome, SocketOptions, Tcp};
use net::tls::{TlsClient, TlsError, TlsServer, TlsSession};

use crate::config::{PeerTable, TlsTable};
use crate::endpoint::ToProxies;

/// Between two tries to connect, ns.
const RETRY_NS: u64 = 1_000_000_000;
/// How long a connection may take until frames come, ns.
const HANDSHAKE_NS: u64 = 10_000_000_000;

/// The side that connects.
enum Way {
    Dial { to: SocketAddr, tls: Option<(TlsClient, String)>, retry_at: u64 },
    Take { listener: ListenerId, allow: Vec<Network>, tls: Option<TlsServer> },
}

/// A connection.
struct Line {
    conn: ConnId,
    tls: Option<TlsSession>,
    deframer: Deframer,
    /// Until when TCP and TLS are to stand; none once they do.
    until: Option<u64>,
}

/// A peer portal.
pub(crate) struct Link {
    pub(crate) portal: PortalId,
    way: Way,
    line: Option<Line>,
    plain: Vec<u8>,
    cipher: Vec<u8>,
    /// Connections that stood, and those that were refused.
    pub(crate) connections: u64,
    pub(crate) refused: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// For the operator.
    pub(crate) news: Vec<String>,
}

fn invalid(error: &TlsError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error.to_string())
}

impl Link {
    /// Opens the portal: listens, or is going to dial. Returns the address on which it listens.
    pub(crate) fn open(
        portal: PortalId,
        table: &PeerTable,
        allow: Vec<Network>,
        tcp: &mut Tcp,
    ) -> io::Result<(Self, Option<SocketAddr>)> {
        let (way, bound) = match (table.connect, table.listen) {
            (Some(to), _) => {
                let tls = table.tls.as_ref().map(|tls| dialling(tls, to)).transpose()?;
                (Way::Dial { to, tls, retry_at: 0 }, None)
            }
            (None, Some(address)) => {
                let tls = table.tls.as_ref().map(taking).transpose()?;
                let (listener, bound) = tcp.listen(address, &SocketOptions::default())?;
                (Way::Take { listener, allow, tls }, Some(bound))
            }
            (None, None) => return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither connects nor listens")),
        };
        let link = Self {
            portal,
            way,
            line: None,
            plain: Vec::new(),
            cipher: Vec::new(),
            connections: 0,
            refused: 0,
            bytes_in: 0,
            bytes_out: 0,
            news: Vec::new(),
        };
        Ok((link, bound))
    }

    /// Whether a connection is this portal's.
    pub(crate) fn has(&self, conn: ConnId) -> bool {
        self.line.as_ref().is_some_and(|line| line.conn == conn)
    }

    /// Whether the connection stands.
    pub(crate) fn is_up(&self) -> bool {
        self.line.as_ref().is_some_and(|line| line.until.is_none())
    }

    /// The address to which it connects.
    pub(crate) fn target(&self) -> Option<SocketAddr> {
        match &self.way {
            Way::Dial { to, .. } => Some(*to),
            Way::Take { .. } => None,
        }
    }

    fn tell(&mut self, what: impl std::fmt::Display) {
        if self.news.len() < 100 {
            let who = self.target().map_or_else(|| "a peer that connects".to_owned(), |to| format!("the peer {to}"));
            self.news.push(format!("portal {}, {who}: {what}", self.portal.0));
        }
    }

    /// When [`Link::on_timer`] is to be called.
    pub(crate) fn timeout(&self) -> Option<u64> {
        match (&self.line, &self.way) {
            (Some(line), _) => line.until,
            (None, Way::Dial { retry_at, .. }) => Some(*retry_at),
            (None, Way::Take { .. }) => None,
        }
    }

    /// Dials, or gives up what does not come to stand.
    pub(crate) fn on_timer(&mut self, now: u64, tcp: &mut Tcp) {
        if let Some(line) = &self.line {
            if line.until.is_some_and(|until| until <= now) {
                tcp.close(line.conn, Close::Reset);
            }
            return;
        }
        let Way::Dial { to, tls, retry_at } = &mut self.way else { return };
        if *retry_at > now {
            return;
        }
        *retry_at = now + RETRY_NS;
        let session = match tls.as_ref().map(|(client, name)| client.connect(name)).transpose() {
            Ok(session) => session,
            Err(error) => return self.tell(error),
        };
        match tcp.connect(*to, &SocketOptions::default()) {
            Ok(conn) => self.begin(now, conn, session),
            Err(error) => self.tell(error),
        }
    }

    fn begin(&mut self, now: u64, conn: ConnId, tls: Option<TlsSession>) {
        self.line = Some(Line { conn, tls, deframer: Deframer::default(), until: Some(now + HANDSHAKE_NS) });
    }

    /// Somebody has connected to a listener. False: it is not this portal's.
    pub(crate) fn accepted(
        &mut self,
        now: u64,
        (listener, conn, peer): (ListenerId, ConnId, SocketAddr),
        router: &mut Router,
        tcp: &mut Tcp,
        out: &mut ToProxies<'_>,
    ) -> bool {
        let Way::Take { listener: own, allow, tls } = &self.way else { return false };
        if *own != listener {
            return false;
        }
        let allowed = peer.ip().is_loopback() || allow.iter().any(|network| network.contains(peer.ip()));
        let session = tls.as_ref().map(TlsServer::accept).transpose();
        // A portal is for one peer. One that has died without a word is given up after its silence.
        let (true, None, Ok(session)) = (allowed, &self.line, session) else {
            self.refused += 1;
            tcp.close(conn, Close::Now);
            return true;
        };
        self.begin(now, conn, session);
        self.stands(now, router, tcp, out);
        true
    }

    /// TCP stands.
    pub(crate) fn connected(&mut self, now: u64, router: &mut Router, tcp: &mut Tcp, out: &mut ToProxies<'_>) {
        if let Some(Line { conn, tls: Some(tls), .. }) = &mut self.line {
            self.cipher.clear();
            // The first message of TLS is this side's.
            if tls.process(&[], &mut self.cipher, |_| {}).is_ok() {
                tcp.send(*conn, &self.cipher);
            }
        }
        self.stands(now, router, tcp, out);
    }

    /// Tells the router, once TCP and TLS stand.
    fn stands(&mut self, now: u64, router: &mut Router, tcp: &mut Tcp, out: &mut ToProxies<'_>) {
        let Some(line) = &mut self.line else { return };
        if line.until.is_none() || line.tls.as_ref().is_some_and(|tls| !tls.is_established()) {
            return;
        }
        line.until = None;
        self.connections += 1;
        let with =
            line.tls.as_ref().and_then(TlsSession::description).map_or(String::new(), |suite| format!(" by {suite}"));
        let from = tcp.peer_addr(line.conn).map_or(String::new(), |peer| format!(" with {peer}"));
        self.tell(format_args!("connected{from}{with}"));
        router.link_up(now, self.portal, out);
    }

    /// Input has come.
    pub(crate) fn readable(
        &mut self,
        now: u64,
        router: &mut Router,
        tcp: &mut Tcp,
        scratch: &mut Scratch,
        out: &mut ToProxies<'_>,
    ) {
        let Some(line) = &mut self.line else { return };
        let conn = line.conn;
        let bytes = match tcp.recv(conn, scratch) {
            RecvOutcome::Data(bytes) => &*bytes,
            RecvOutcome::Empty | RecvOutcome::Ended => return,
        };
        self.bytes_in += bytes.len() as u64;
        let Some(tls) = &mut line.tls else {
            let heard = deframe(now, &mut line.deframer, bytes, self.portal, router, out);
            return self.settle(heard, conn, tcp);
        };
        self.plain.clear();
        self.cipher.clear();
        let plain = &mut self.plain;
        let processed = tls.process(bytes, &mut self.cipher, |bytes| plain.extend_from_slice(bytes));
        if !self.cipher.is_empty() {
            tcp.send(conn, &self.cipher);
        }
        if let Err(error) = processed {
            self.tell(error);
            return tcp.close(conn, Close::Now);
        }
        self.stands(now, router, tcp, out);
        let Some(line) = &mut self.line else { return };
        let heard = deframe(now, &mut line.deframer, &self.plain, self.portal, router, out);
        self.settle(heard, conn, tcp);
    }

    fn settle(&mut self, heard: Result<(), String>, conn: ConnId, tcp: &mut Tcp) {
        if let Err(why) = heard {
            self.tell(why);
            tcp.close(conn, Close::Now);
        }
    }

    /// The connection is over.
    pub(crate) fn closed(
        &mut self,
        now: u64,
        why: &impl std::fmt::Display,
        router: &mut Router,
        out: &mut ToProxies<'_>,
    ) {
        let stood = self.is_up();
        self.line = None;
        if stood {
            self.tell(why);
            router.link_down(now, self.portal, out);
        } else if self.connections == 0 && self.news.is_empty() {
            self.tell(format_args!("{why}; it is tried again every second"));
        }
        if let Way::Dial { retry_at, .. } = &mut self.way {
            *retry_at = (*retry_at).max(now + RETRY_NS / 10);
        }
    }

    /// The router wants the connection closed.
    pub(crate) fn hang_up(&mut self, why: &PeerFault, tcp: &mut Tcp) {
        if let Some(conn) = self.line.as_ref().map(|line| line.conn) {
            self.tell(why);
            tcp.close(conn, Close::Reset);
        }
    }

    /// Sends what the router has for the peer, and tells it how much waits.
    pub(crate) fn send(&mut self, now: u64, router: &mut Router, tcp: &mut Tcp) {
        let Some(line) = self.line.as_mut().filter(|line| line.until.is_none()) else { return };
        let (conn, cipher, bytes_out) = (line.conn, &mut self.cipher, &mut self.bytes_out);
        router.set_queued(self.portal, tcp.queued(conn));
        router.take_output(now, self.portal, |bytes| {
            *bytes_out += bytes.len() as u64;
            let sent = match &mut line.tls {
                None => tcp.send(conn, bytes),
                Some(tls) => {
                    cipher.clear();
                    // A session that has failed is closed by what it failed on.
                    let _ = tls.encrypt(bytes, cipher);
                    tcp.send(conn, cipher)
                }
            };
            if let SendOutcome::Queued(queued) = sent { queued } else { 0 }
        });
    }
}

fn deframe(
    now: u64,
    deframer: &mut Deframer,
    bytes: &[u8],
    portal: PortalId,
    router: &mut Router,
    out: &mut ToProxies<'_>,
) -> Result<(), String> {
    let mut heard = Ok(());
    let framed = deframer.receive(bytes, |pieces| {
        if heard.is_ok() {
            heard = router.receive(now, portal, pieces, out);
        }
    });
    framed.map_err(|error| format!("the peer does not speak this protocol: {error}"))?;
    heard.map_err(|fault| fault.to_string())
}

fn dialling(tls: &TlsTable, to: SocketAddr) -> io::Result<(TlsClient, String)> {
    let client = TlsClient::with_certificate(&tls.ca, &tls.certificate, &tls.key).map_err(|error| invalid(&error))?;
    Ok((client, tls.name.clone().unwrap_or_else(|| to.ip().to_string())))
}

fn taking(tls: &TlsTable) -> io::Result<TlsServer> {
    TlsServer::from_files(&tls.certificate, &tls.key, Some(&tls.ca)).map_err(|error| invalid(&error))
}
