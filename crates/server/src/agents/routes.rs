//! Dialling interactive providers: one session a route, tried again for ever with a growing pause. The addresses that a name has are tried
//! one after the other before the next host is, and so are the servers of a service (`srv:`), in the order that it gives.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use config::{Compression, Config, ConnectionType, RouteProtocol};
use net::dns::{self, Servers, ServiceName};
use net::tcp::{ConnId, SocketOptions};
use net::tls::TlsClient;
use rssl::{ClientConfig, CompressionSet, Version};

use super::input_rate::InputLimit;
use rssl::ws::upgrade::Protocol;
use rssl::ws::{self, JsonConfig};
use rssl_io::{Credentials, RsslIo, Way, WebSocketDial};

/// The routes of a Source Distributor.
pub struct Routes {
    dialled: Vec<Route>,
    options: SocketOptions,
    /// Bytes that may wait for a provider.
    backlog_max: usize,
    resolved: Receiver<(usize, Result<Found, String>)>,
    resolver: Sender<(usize, Result<Found, String>)>,
}

/// The result of a look-up.
enum Found {
    /// Of a host.
    Addresses(Vec<SocketAddr>),
    /// Of a service.
    Servers(Servers),
}

struct Route {
    config: config::Route,
    hosts: Vec<String>,
    /// The host to try next.
    next: usize,
    /// Of an entry that is a service: the server that is tried, and those to be tried after it.
    server: Option<String>,
    servers: VecDeque<String>,
    /// The addresses of services (by place in `hosts`), and until when they hold.
    services: HashMap<usize, (u64, Servers)>,
    /// Further addresses of that host, or of the proxy on the way to it.
    addresses: VecDeque<SocketAddr>,
    /// The address that is or was dialled last.
    address: Option<SocketAddr>,
    client: ClientConfig,
    protocol: RouteProtocol,
    tls: Option<TlsClient>,
    state: State,
    pause_ns: u64,
    /// The shortest of them.
    first_pause_ns: u64,
    /// The fault told last; it is told once until it changes.
    told: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Dial at this time.
    Waiting(u64),
    /// A thread looks up the host's name.
    Resolving,
    /// A connection is being made, or there is a session.
    Connected(ConnId),
    /// The route is in the configuration no more; its number is given to no other.
    Ended,
}

/// An answer of the DNS is used for so long at most, nanoseconds.
const LIFE_MAX: u64 = 3_600_000_000_000;
/// The pause grows up to so many times the first one.
const PAUSE_GROWTH_MAX: u64 = 10;

impl Routes {
    /// The routes of a configuration; all are due at once.
    ///
    /// # Errors
    /// Certificates to trust cannot be read.
    pub fn new(config: &Config) -> io::Result<Self> {
        let (resolver, resolved) = channel();
        Ok(Self {
            dialled: config.dialled_routes().map(|r| Route::new(r, config)).collect::<io::Result<_>>()?,
            options: config::socket_options(
                config.source_distributor.tcp_no_delay,
                config.source_distributor.tcp_send_buf_size,
                config.source_distributor.tcp_recv_buf_size,
            ),
            backlog_max: config.source_distributor.max_provider_backlog as usize,
            resolved,
            resolver,
        })
    }

    /// The route of a connection.
    pub fn of(&self, conn: ConnId) -> Option<usize> {
        self.dialled.iter().position(|r| r.state == State::Connected(conn))
    }

    /// Limits of what the provider of a route may send.
    pub fn limit(&self, route: usize) -> InputLimit {
        let config = &self.dialled[route].config;
        InputLimit { bytes: config.max_incoming_bytes_per_second, messages: config.max_incoming_messages_per_second }
    }

    /// When [`Routes::on_timer`] is due.
    pub fn timeout(&self) -> Option<u64> {
        self.dialled.iter().filter_map(|r| if let State::Waiting(at) = r.state { Some(at) } else { None }).min()
    }

    /// Dials what is due.
    pub fn on_timer(&mut self, now: u64, io: &mut RsslIo) {
        for index in 0..self.dialled.len() {
            if matches!(self.dialled[index].state, State::Waiting(at) if at <= now) {
                self.dial(now, index, io);
            }
        }
        while let Ok((index, result)) = self.resolved.try_recv() {
            if self.dialled[index].state != State::Resolving {
                continue;
            }
            match result {
                Ok(Found::Addresses(addresses)) => {
                    self.dialled[index].addresses = addresses.into();
                    self.dial(now, index, io);
                }
                Ok(Found::Servers(servers)) => {
                    let route = &mut self.dialled[index];
                    route.servers = servers.draw().into();
                    tracing::info!(
                        "route {}: {}",
                        route.hosts[route.next],
                        Vec::from(route.servers.clone()).join(", ")
                    );
                    let until = now + (servers.ttl.as_nanos() as u64).min(LIFE_MAX);
                    route.services.insert(route.next, (until, servers));
                    self.dial(now, index, io);
                }
                Err(why) => self.failed(now, index, &why),
            }
        }
    }

    fn dial(&mut self, now: u64, index: usize, io: &mut RsslIo) {
        let route = &mut self.dialled[index];
        if let Some(addr) = route.addresses.pop_front() {
            return self.connect(now, index, addr, io);
        }
        if let (None, Some(service)) = (&route.server, ServiceName::of(&route.hosts[route.next])) {
            if route.servers.is_empty() {
                let known = route.services.get(&route.next).filter(|(until, _)| now < *until);
                route.servers = known.map(|(_, servers)| servers.draw().into()).unwrap_or_default();
            }
            route.server = route.servers.pop_front();
            if route.server.is_none() {
                return self.look_up(now, index, io, move || {
                    let servers =
                        service.map_err(|e| e.to_string()).and_then(|s| dns::look_up(&s).map_err(|e| e.to_string()));
                    servers.map(Found::Servers)
                });
            }
        }
        // Whoever is reached through a proxy has its name looked up there.
        let host = route.proxy().unwrap_or_else(|| route.host().to_owned());
        if let Ok(addr) = host.replace("localhost:", "127.0.0.1:").parse() {
            self.connect(now, index, addr, io);
            return;
        }
        self.look_up(now, index, io, move || match host.to_socket_addrs() {
            Ok(addrs) if addrs.len() == 0 => Err(format!("{host}: no address has this name")),
            Ok(addrs) => Ok(Found::Addresses(addrs.collect())),
            Err(e) => Err(format!("{host}: {e}")),
        });
    }

    /// A look-up may take seconds: it has a thread of its own, so that nobody else waits.
    fn look_up(
        &mut self,
        now: u64,
        index: usize,
        io: &mut RsslIo,
        find: impl FnOnce() -> Result<Found, String> + Send + 'static,
    ) {
        self.dialled[index].state = State::Resolving;
        let (answer, waker) = (self.resolver.clone(), io.tcp().waker());
        let find = move || {
            // A fault of a library that reads answers must not leave the route without another attempt.
            let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(find));
            let _ =
                answer.send((index, found.unwrap_or_else(|_| Err("an answer of the DNS cannot be read".to_owned()))));
            waker.wake();
        };
        if let Err(e) = std::thread::Builder::new().name("look-up".into()).spawn(find) {
            self.failed(now, index, &format!("its name cannot be looked up: {e}"));
        }
    }

    fn connect(&mut self, now: u64, index: usize, addr: SocketAddr, io: &mut RsslIo) {
        let route = &mut self.dialled[index];
        route.address = Some(addr);
        let host = route.host().rsplit_once(':').map_or("", |(host, _)| host);
        let tls = match route.tls.as_ref().map(|tls| tls.connect(host)).transpose() {
            Ok(tls) => tls,
            Err(e) => return self.failed(now, index, &e.to_string()),
        };
        let client = Arc::new(route.client.clone());
        let through_proxy_to = route.proxy().map(|_| route.host().to_owned());
        let proxy_credentials = match through_proxy_to.as_ref().and_then(|_| route.credentials()).transpose() {
            Ok(credentials) => credentials,
            Err(e) => return self.failed(now, index, &e),
        };
        let way = Way { tls, through_proxy_to, proxy_credentials };
        let dialled = match route.protocol {
            RouteProtocol::Rssl => io.connect(now, addr, &self.options, client, way),
            RouteProtocol::Json | RouteProtocol::RwfInWebSocket => {
                let dial = Arc::new(route.websocket(client));
                io.connect_websocket(now, addr, &self.options, dial, way)
            }
        };
        match dialled {
            Ok(conn) => {
                route.state = State::Connected(conn);
                io.bound(conn, self.backlog_max);
            }
            Err(e) => self.failed(now, index, &e.to_string()),
        }
    }

    /// Ends the route of a configuration; tells its number, and its connection if it has one.
    pub fn end(&mut self, route: &config::Route) -> Option<(u16, Option<ConnId>)> {
        let is_it = |known: &Route| known.state != State::Ended && known.config == *route;
        let number = self.dialled.iter().position(is_it)?;
        let state = std::mem::replace(&mut self.dialled[number].state, State::Ended);
        let conn = if let State::Connected(conn) = state { Some(conn) } else { None };
        Some((number as u16, conn))
    }

    /// Adds a route, which is due at once; tells its number.
    ///
    /// # Errors
    /// Certificates to trust cannot be read.
    pub fn add(&mut self, route: &config::Route, config: &Config) -> io::Result<u16> {
        self.dialled.push(Route::new(route, config)?);
        Ok((self.dialled.len() - 1) as u16)
    }

    /// The hosts of each route that is dialled, with its number.
    pub fn hosts(&self) -> impl Iterator<Item = (u16, String)> {
        let dialled = (0..).zip(&self.dialled).filter(|(_, route)| route.state != State::Ended);
        dialled.map(|(number, route)| (number, route.config.host_list.join(", ")))
    }

    /// The session of a route is established.
    pub fn established(&mut self, index: usize) {
        let route = &mut self.dialled[index];
        route.pause_ns = 0;
        route.told = None;
        // If this session is lost, the next host is due: it takes over because the one before it cannot serve, by whatever address.
        route.addresses.clear();
        route.servers.clear();
    }

    /// The connection of a route is over. `next_version` is what to offer if the server did not know ours.
    pub fn lost(&mut self, now: u64, index: usize, why: &str, next_version: Option<Version>) {
        let route = &mut self.dialled[index];
        if let Some(version) = next_version {
            route.client.version = version;
            route.addresses.extend(route.address);
            route.addresses.rotate_right(1);
            route.state = State::Waiting(now);
            return;
        }
        route.client.version = Version::V14;
        self.failed(now, index, why);
    }

    fn failed(&mut self, now: u64, index: usize, why: &str) {
        let route = &mut self.dialled[index];
        if let (Some(_), Some(addr)) = (route.addresses.front(), route.address) {
            tracing::info!("route {}: {why} at {addr}; trying its next address", route.host());
            route.state = State::Waiting(now);
            return;
        }
        if let (Some(server), Some(_)) = (route.server.take(), route.servers.front()) {
            tracing::info!("route {}: {why} at {server}; trying its next server", route.hosts[route.next]);
            route.state = State::Waiting(now);
            return;
        }
        let first = route.first_pause_ns;
        route.pause_ns = (route.pause_ns * 2).clamp(first, first * PAUSE_GROWTH_MAX);
        route.state = State::Waiting(now + route.pause_ns);
        if route.told.as_deref() != Some(why) {
            tracing::warn!(
                "route {}: {why}; trying again every {} ms",
                route.hosts[route.next],
                route.pause_ns / 1_000_000
            );
            route.told = Some(why.to_string());
        }
        route.next = (route.next + 1) % route.hosts.len();
    }
}

impl Route {
    /// `HOST:PORT` that is tried: the entry of the list, or the server that its service has led to.
    fn host(&self) -> &str {
        self.server.as_ref().unwrap_or(&self.hosts[self.next])
    }

    /// `HOST:PORT` of the proxy that is dialled instead of the host.
    fn proxy(&self) -> Option<String> {
        let (host, port) = (&self.config.proxy_host, self.config.proxy_port);
        (!host.is_empty()).then(|| format!("{host}:{port}"))
    }

    /// The user at the proxy, read for each attempt: passwords change. The error names the file, and nothing that is in it.
    fn credentials(&self) -> Option<Result<Credentials, String>> {
        let file = Some(self.config.proxy_credentials_file.as_str()).filter(|file| !file.is_empty())?;
        let text = config::read_named_text(file.as_ref()).map_err(|e| format!("proxy_credentials_file {file}: {e}"));
        let read = |text: String| {
            let line = text.lines().next().unwrap_or_default();
            Credentials::new(line)
                .ok_or_else(|| format!("proxy_credentials_file {file}: its first line is no USER:PASSWORD"))
        };
        Some(text.and_then(read))
    }

    fn new(route: &config::Route, config: &Config) -> io::Result<Self> {
        let hosts = route
            .host_list
            .iter()
            .map(|h| if h.contains(':') { h.clone() } else { format!("{h}:{}", route.port) })
            .collect();
        let client = ClientConfig {
            ping_timeout_s: config.source_distributor.ping_timeout_s.min(255) as u8,
            compression: match route.compression_type {
                Compression::None => CompressionSet::NONE,
                Compression::Zlib => CompressionSet::ZLIB,
                Compression::Lz4 => CompressionSet::LZ4,
            },
            // A WebSocket has no keys to exchange, and not every server takes the message that says so in RSSL.
            key_exchange: route.protocol != RouteProtocol::RwfInWebSocket,
            ..ClientConfig::default()
        };
        let tls = match (route.rssl_connection_type, route.ca_file.as_str()) {
            (ConnectionType::Socket, _) => None,
            (ConnectionType::Encrypted, "") => Some(TlsClient::with_system_roots()),
            (ConnectionType::Encrypted, file) => Some(TlsClient::with_roots_from(Path::new(file))),
        };
        let tls = tls.transpose().map_err(|e| io::Error::other(e.to_string()))?;
        let protocol = route.protocol;
        let first_pause_ns = u64::from(config::recovery_interval_ms(config, route)) * 1_000_000;
        let config = route.clone();
        Ok(Self {
            config,
            hosts,
            next: 0,
            server: None,
            servers: VecDeque::new(),
            services: HashMap::new(),
            addresses: VecDeque::new(),
            address: None,
            client,
            protocol,
            tls,
            state: State::Waiting(0),
            pause_ns: 0,
            first_pause_ns,
            told: None,
        })
    }

    /// The question for the host that is next.
    fn websocket(&self, rssl: Arc<ClientConfig>) -> WebSocketDial {
        WebSocketDial {
            host: self.host().to_owned(),
            protocols: vec![if self.protocol == RouteProtocol::Json { Protocol::Json } else { Protocol::Rwf }],
            limits: ws::Limits { message_bytes_max: super::DIALLED_MESSAGE_MAX, ..ws::Limits::default() },
            json: JsonConfig { ping_timeout_s: rssl.ping_timeout_s.max(3), ..JsonConfig::default() },
            rssl,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts sessions, and tells routes of connections that are lost.
    struct Seen<'a>(&'a mut Routes, u32);

    impl rssl_io::Handler for Seen<'_> {
        fn opened(&mut self, _: u64, conn: ConnId, _: &rssl_io::Opened<'_>) {
            let index = self.0.of(conn).expect("a route's");
            self.0.established(index);
            self.1 += 1;
        }
        fn message(&mut self, _: u64, _: ConnId, _: &[u8]) {}
        fn closed(&mut self, now: u64, conn: ConnId, ended: &rssl_io::Ended) {
            if let Some(index) = self.0.of(conn) {
                self.0.lost(now, index, &ended.why.to_string(), ended.next_version);
            }
        }
    }

    #[test]
    fn what_a_proxy_is_told_is_read_for_each_attempt_and_shown_in_no_fault() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("proxy");
        let mut route = config::Route { host_list: vec!["far".to_owned()], ..config::Route::default() };
        let of = |route: &config::Route| Route::new(route, &Config::default()).expect("a route").credentials();
        assert!(of(&route).is_none(), "none are named");
        route.proxy_credentials_file = file.display().to_string();
        let missing = of(&route).expect("a file is named").expect_err("it is not there");
        assert!(missing.contains(&route.proxy_credentials_file), "{missing}");
        std::fs::write(&file, "only-a-secret\n").expect("written");
        let bad = of(&route).expect("a file is named").expect_err("no colon");
        assert!(bad.contains("USER:PASSWORD") && !bad.contains("secret"), "{bad}");
        std::fs::write(&file, "user:secret\nanother line\n").expect("written");
        assert!(of(&route).expect("a file is named").is_ok());
    }

    /// Sockets that listen at the first address; at the second is nobody.
    fn someone_and_nobody() -> (RsslIo, SocketAddr, SocketAddr) {
        let mut io = RsslIo::new(1).expect("descriptors");
        let any = ([127, 0, 0, 1], 0).into();
        let server = rssl_io::Listener::rssl(Arc::new(rssl::ServerConfig::default()));
        let (_, there) = io.listen_as(any, &SocketOptions::default(), server).expect("a port");
        let gone = std::net::TcpListener::bind("127.0.0.1:0").and_then(|taken| taken.local_addr()).expect("a port");
        (io, there, gone)
    }

    #[test]
    fn the_addresses_of_a_name_are_tried_before_the_next_host() {
        let text = "[[route]]\nhost_list = [\"feed:1\", \"other:2\"]\n";
        let mut routes = Routes::new(&Config::parse("test", text).expect("no faults")).expect("a route");
        let (mut io, there, gone) = someone_and_nobody();
        // The name was looked up, and has three addresses: at two of them is nobody.
        routes.dialled[0].addresses = [gone, gone, there].into();
        let (mut now, mut sessions) = (net::clock::now(), 0);
        while sessions == 0 {
            routes.on_timer(now, &mut io);
            assert_eq!((routes.dialled[0].next, routes.dialled[0].pause_ns), (0, 0), "no other host, and no pause");
            let mut told = Seen(&mut routes, 0);
            now = io.turn(Some(now + 1_000_000_000), &mut told).expect("sockets");
            sessions = told.1;
        }
        assert_eq!(routes.dialled[0].address, Some(there));
        // A route that had a session and lost it goes to the next host, after a pause.
        routes.lost(now, 0, "gone", None);
        assert_eq!(routes.dialled[0].next, 1);
        assert!(routes.timeout().is_some_and(|at| at > now));
    }

    #[test]
    fn the_servers_of_a_service_are_tried_before_the_next_host() {
        let text = "[[route]]\nhost_list = [\"srv:_rssl._tcp.example.com\", \"other:2\"]\n";
        let mut routes = Routes::new(&Config::parse("test", text).expect("no faults")).expect("a route");
        let (mut io, there, gone) = someone_and_nobody();
        let host =
            |priority, at: SocketAddr| dns::Server { priority, weight: 0, host: "127.0.0.1".into(), port: at.port() };
        // The DNS has answered.
        let list = vec![host(1, gone), host(2, there), host(3, gone)];
        routes.dialled[0].state = State::Resolving;
        let servers = Servers { list, ttl: std::time::Duration::from_mins(1) };
        routes.resolver.send((0, Ok(Found::Servers(servers)))).expect("it is heard");
        let (mut now, mut sessions) = (net::clock::now(), 0);
        while sessions == 0 {
            routes.on_timer(now, &mut io);
            assert_eq!((routes.dialled[0].next, routes.dialled[0].pause_ns), (0, 0), "no other host, and no pause");
            let mut told = Seen(&mut routes, 0);
            now = io.turn(Some(now + 1_000_000_000), &mut told).expect("sockets");
            sessions = told.1;
        }
        let first = &routes.dialled[0];
        assert_eq!((first.address, first.host()), (Some(there), format!("127.0.0.1:{}", there.port()).as_str()));
        // Whoever loses a session goes to the next host, and comes back to the best server of the service, whose answer still holds.
        routes.lost(now, 0, "gone", None);
        assert_eq!((routes.dialled[0].next, routes.dialled[0].host()), (1, "other:2"));
        routes.dialled[0].next = 0;
        routes.dial(now, 0, &mut io);
        assert_eq!(routes.dialled[0].address, Some(gone));
        // When its time is over, it is looked up.
        routes.dialled[0].servers.clear();
        routes.lost(now, 0, "gone", None);
        routes.dialled[0].next = 0;
        routes.dial(now + 61_000_000_000, 0, &mut io);
        assert!(routes.dialled[0].state == State::Resolving);
    }

    #[test]
    fn a_version_that_a_server_does_not_know_is_offered_lower_at_the_same_address() {
        let text = "[[route]]\nhost_list = [\"feed:1\"]\n";
        let mut routes = Routes::new(&Config::parse("test", text).expect("no faults")).expect("a route");
        let [one, two] = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        (routes.dialled[0].address, routes.dialled[0].addresses) = (Some(one), [two].into());
        routes.lost(5, 0, "unknown version", Version::V14.lower());
        assert_eq!(routes.dialled[0].addresses, [one, two]);
        assert_eq!(routes.timeout(), Some(5));
    }

    #[test]
    fn no_keys_are_offered_within_websocket() {
        let config = Config::default();
        for (protocol, keys) in [(RouteProtocol::Rssl, true), (RouteProtocol::RwfInWebSocket, false)] {
            let route = config::Route { host_list: vec!["feed:1".into()], protocol, ..config::Route::default() };
            assert_eq!(Route::new(&route, &config).expect("a route").client.key_exchange, keys, "{protocol:?}");
        }
    }
}
