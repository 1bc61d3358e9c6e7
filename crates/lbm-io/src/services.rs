//! A context's connections to its resolution services.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, ToSocketAddrs};

use lbm::options::{ContextOption as C, InterestMode, Options};
use lbm::resolver::service::{Action, Client, ClientConfig, LINKS_MAX};
use net::tcp::{Close, CloseReason, ConnId, SendOutcome, SocketOptions};

use crate::error::ContextError;
use crate::io::{Io, Role};
use crate::{Warning, interface, ipc_host, random};

/// Bytes that may wait for a service, beside what was said to it at once when it was connected.
const QUEUE_MAX: usize = 16 << 20;

struct Line {
    at: SocketAddrV4,
    local: SocketAddr,
    conn: Option<ConnId>,
    /// Bytes that may wait for the connection.
    queue_max: usize,
    /// Whether the operator knows that it is away.
    told: bool,
}

/// See the module.
pub(crate) struct Services {
    pub(crate) client: Client,
    lines: Vec<Line>,
}

impl Services {
    /// `None`: the options name no service. `instance` is the id of the context's packets of topic resolution.
    /// A router's contexts are told what others look for.
    pub(crate) fn open(
        options: &Options,
        instance: [u8; 8],
        router: bool,
        now: u64,
    ) -> Result<Option<Self>, ContextError> {
        let named: Vec<&str> = options.services().collect();
        if named.is_empty() {
            return Ok(None);
        }
        if named.len() > LINKS_MAX {
            return Err(ContextError::Unsupported(format!(
                "resolver_service names {} services; {LINKS_MAX} are the most",
                named.len()
            )));
        }
        let lines: Vec<Line> = named.into_iter().map(|text| line(text, options)).collect::<Result<_, _>>()?;
        let address = lines.first().map_or(Ipv4Addr::LOCALHOST, |line| match line.local {
            SocketAddr::V4(local) => *local.ip(),
            SocketAddr::V6(_) => Ipv4Addr::LOCALHOST,
        });
        let config = ClientConfig {
            links: lines.len(),
            instance,
            session: random::id(),
            host: ipc_host::id(),
            address,
            flood: options.get(C::RESOLVER_SERVICE_INTEREST_MODE) == InterestMode::Flood,
            router,
            seed: random::bits(),
            ..ClientConfig::default()
        };
        Ok(Some(Self { client: Client::new(config, now), lines }))
    }

    /// Connects, lets go, and sends what there is to send.
    pub(crate) fn turn(&mut self, now: u64, io: &mut Io, warnings: &mut Vec<Warning>) {
        self.client.on_timer(now);
        let actions: Vec<Action> = self.client.actions(now).collect();
        for action in actions {
            match action {
                Action::Dial(link) => self.dial(now, link, io, warnings),
                Action::Close(link) => {
                    self.let_go(link, io);
                    self.lines[link].warn("it gave no sign of life, or ended the stream of records", warnings);
                }
            }
        }
        for link in 0..self.lines.len() {
            let Some(conn) = self.lines[link].conn else { continue };
            let bytes = self.client.output(link);
            if bytes.is_empty() {
                continue;
            }
            let line = &mut self.lines[link];
            // The first bytes that are many are what the service has to be told at once; the sources and receivers are our own.
            let before = io.tcp.queued(conn);
            if bytes.len() > QUEUE_MAX && before == 0 {
                line.queue_max = bytes.len() + QUEUE_MAX;
            }
            if matches!(io.tcp.send(conn, &bytes), SendOutcome::Queued(queued) if queued > line.queue_max) {
                line.warn("it does not read", warnings);
                self.let_go(link, io);
                self.client.closed(now, link);
            }
        }
    }

    /// The context ends: the services are told that its sources do, else they would keep them for the time of a context that is lost. What a socket does not take
    /// now is not told.
    pub(crate) fn leave(&mut self, io: &mut Io) {
        self.client.remove_sources();
        for link in 0..self.lines.len() {
            let Some(conn) = self.lines[link].conn else { continue };
            let bytes = self.client.output(link);
            if !bytes.is_empty() {
                io.tcp.send(conn, &bytes);
            }
        }
    }

    fn dial(&mut self, now: u64, link: usize, io: &mut Io, warnings: &mut Vec<Warning>) {
        let line = &mut self.lines[link];
        let options = SocketOptions { local: Some(line.local), ..SocketOptions::default() };
        match io.tcp.connect(SocketAddr::V4(line.at), &options) {
            Ok(conn) => {
                io.set_role(conn, Role::Service(link));
                (line.conn, line.queue_max) = (Some(conn), QUEUE_MAX);
            }
            Err(error) => {
                line.warn(&error.to_string(), warnings);
                self.client.closed(now, link);
            }
        }
    }

    /// Closes a link's connection; its end is not told.
    fn let_go(&mut self, link: usize, io: &mut Io) {
        if let Some(conn) = self.lines[link].conn.take() {
            io.set_role(conn, Role::None);
            io.tcp.close(conn, Close::Now);
        }
    }

    pub(crate) fn connected(&mut self, now: u64, link: usize) {
        self.client.connected(now, link);
        if let Some(line) = self.lines.get_mut(link) {
            line.told = false;
        }
    }

    pub(crate) fn closed(&mut self, now: u64, link: usize, why: CloseReason, warnings: &mut Vec<Warning>) {
        if let Some(line) = self.lines.get_mut(link) {
            line.conn = None;
            line.warn(&why.to_string(), warnings);
            self.client.closed(now, link);
        }
    }

    /// Bytes of a link's connection. False: they are none of a service's; the connection is closed, and its end told.
    pub(crate) fn receive(&mut self, now: u64, link: usize, bytes: &[u8]) -> bool {
        self.client.receive(now, link, bytes).is_ok()
    }
}

impl Line {
    /// Tells the operator once each time that the service is away.
    fn warn(&mut self, reason: &str, warnings: &mut Vec<Warning>) {
        if !std::mem::replace(&mut self.told, true) {
            warnings.push(Warning::Service { service: self.at, reason: reason.to_owned() });
        }
    }
}

/// A service as it is written: `[Interface[:LocalPort]->]Host:Port`. Its form was checked when the option was set; a host's name is looked up
/// once, when the context is made.
fn line(text: &str, options: &Options) -> Result<Line, ContextError> {
    let bad = |why: &str| ContextError::Unsupported(format!("resolver_service {text}: {why}"));
    let (local, remote) = match text.rsplit_once("->") {
        Some((local, remote)) => (Some(local.trim()), remote.trim()),
        None => (None, text),
    };
    let found = remote.to_socket_addrs().map_err(|error| bad(&format!("{remote} is not found: {error}")))?;
    let mut found = found.filter_map(|address| match address {
        SocketAddr::V4(address) => Some(address),
        SocketAddr::V6(_) => None,
    });
    let at = found.next().ok_or_else(|| bad("it has no IPv4 address"))?;
    let mut own = options.clone();
    let mut port = 0;
    if let Some(local) = local {
        let (interface, local_port) = local.split_once(':').map_or((local, None), |(i, p)| (i.trim(), Some(p.trim())));
        if let Some(text) = local_port {
            port = text.parse().map_err(|_| bad("its local port is none"))?;
        }
        own.put(C::DEFAULT_INTERFACE, interface).map_err(|error| bad(&error.to_string()))?;
    }
    // A service on this host is reached by its own address, whichever interface leads to the others.
    let interface =
        if at.ip().is_loopback() { Ipv4Addr::LOCALHOST } else { interface::unicast(&own, C::DEFAULT_INTERFACE)? };
    let local = SocketAddr::V4(SocketAddrV4::new(interface, port));
    Ok(Line { at, local, conn: None, queue_max: QUEUE_MAX, told: false })
}
