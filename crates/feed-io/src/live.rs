//! An exchange's feed on sockets: what its state machine asks for is done, and what comes is given to it.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsFd as _;
use std::time::Duration;

use anyhow::anyhow;
use feed::replay::venue::live::{LiveFeed, LiveItems as _, LiveProtocol, Origin, Want};
use net::tcp::{Close, ConnId, Event, RecvOutcome, Scratch, SocketOptions, Tcp, TcpConfig};
use net::udp::{Slabs, UdpOptions, UdpSocket};

use crate::site::Site;
use crate::source::{Intake, Report, Source, clock, run_timers};

/// A line, or the way to the server that repeats messages.
struct Socket {
    udp: UdpSocket,
    origin: Origin,
    is_ready: bool,
    /// Datagrams that found the kernel's buffer full, as far as they were told of.
    dropped: u64,
}

/// Lines and sessions as a source. The sockets are looked at whenever it is asked to go on.
pub type LiveSource = Source<Lines>;

/// A feed with its sockets.
pub struct Lines {
    feed: LiveFeed,
    protocol: LiveProtocol,
    site: String,
    tcp: Tcp,
    sockets: Vec<Socket>,
    server: Option<SocketAddr>,
    conn: Option<ConnId>,
    slabs: Slabs,
    scratch: Scratch,
    events: Vec<Event>,
    /// Something was read, of which there may be more.
    has_read: bool,
    trouble: Option<String>,
}

impl Source<Lines> {
    /// Opens the sockets of a site, which `text` names for people. `report` is told how the feed stands each second, and `progress` what is less than was wanted.
    ///
    /// # Errors
    /// A text for the user: a socket cannot be had, or a group not be joined.
    pub fn open(
        site: &Site,
        text: &str,
        report: Option<Report>,
        progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Self> {
        let named = |e: std::io::Error| anyhow!("{text}: {e}");
        let mut tcp = Tcp::new(TcpConfig::default()).map_err(named)?;
        let mut sockets = Vec::new();
        let options = site.options();
        for (n, line) in site.lines.iter().enumerate() {
            let udp = UdpSocket::bind(line.group, &options).map_err(named)?;
            if line.group.ip().is_multicast() {
                udp.join(*line.group.ip(), line.interface).map_err(named)?;
            }
            let shortage = udp.granted(&options).map_err(named)?.to_string();
            if !shortage.is_empty() {
                progress(&format!("{}: {shortage}", udp.local_addr()));
            }
            sockets.push(Socket { udp, origin: Origin::Line(n as u8), is_ready: true, dropped: 0 });
        }
        if let Some(server) = site.repeater {
            let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
            let mut udp =
                UdpSocket::bind(any, &UdpOptions { reuse_address: false, ..options.clone() }).map_err(named)?;
            // Datagrams of others are not taken in.
            udp.connect(server).map_err(named)?;
            sockets.push(Socket { udp, origin: Origin::Repeater, is_ready: true, dropped: 0 });
        }
        for (number, socket) in sockets.iter().enumerate() {
            tcp.watch(socket.udp.as_fd(), number as u32).map_err(named)?;
        }
        let lines = Lines {
            feed: LiveFeed::new(&site.config, clock()),
            protocol: site.config.protocol,
            site: text.to_owned(),
            tcp,
            sockets,
            server: site.server,
            conn: None,
            slabs: Slabs::default(),
            scratch: Scratch::default(),
            events: Vec::new(),
            has_read: false,
            trouble: None,
        };
        Ok(Source::new(lines, text, report))
    }
}

impl Intake for Lines {
    type Feed = LiveFeed;

    fn feed(&self) -> &LiveFeed {
        &self.feed
    }

    fn feed_mut(&mut self) -> &mut LiveFeed {
        &mut self.feed
    }

    fn tcp(&self) -> &Tcp {
        &self.tcp
    }

    fn protocol(&self) -> String {
        self.protocol.to_string()
    }

    fn take_in(&mut self) -> bool {
        let mut events = std::mem::take(&mut self.events);
        if let Err(error) = self.tcp.poll(Some(Duration::ZERO), &mut events) {
            self.trouble = Some(error.to_string());
        }
        self.has_read = false;
        for event in &events {
            match *event {
                Event::Ready { token } => {
                    if let Some(socket) = self.sockets.get_mut(token as usize) {
                        socket.is_ready = true;
                    }
                }
                Event::Connected { conn } if self.conn == Some(conn) => self.feed.connected(clock()),
                Event::Readable { conn } if self.conn == Some(conn) => self.read(conn),
                Event::Closed { conn, why } if self.conn == Some(conn) => {
                    self.conn = None;
                    tracing::warn!("{}: {}: {why}", self.site, shown(self.server));
                    self.feed.disconnected(clock());
                }
                _ => {}
            }
            self.act();
        }
        self.events = events;
        for at in 0..self.sockets.len() {
            self.receive(at);
            self.act();
        }
        run_timers(self, Self::act);
        self.has_read
    }

    fn look_again(&mut self) {
        self.sockets.iter_mut().for_each(|socket| socket.is_ready = true);
    }

    fn dropped(&self) -> u64 {
        self.sockets.iter().map(|socket| socket.dropped).sum()
    }

    fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

impl Lines {
    fn read(&mut self, conn: ConnId) {
        if let RecvOutcome::Data(bytes) = self.tcp.recv(conn, &mut self.scratch) {
            self.feed.bytes(bytes, clock());
            self.has_read = true;
        }
    }

    fn receive(&mut self, at: usize) {
        let Self { sockets, slabs, feed, site, trouble, has_read, .. } = self;
        let socket = &mut sockets[at];
        if !std::mem::take(&mut socket.is_ready) {
            return;
        }
        match socket.udp.recv(slabs) {
            Ok(received) => {
                for arrival in &received {
                    let clock = clock();
                    arrival.datagrams().for_each(|datagram| feed.datagram(socket.origin, datagram, clock));
                }
                *has_read |= !received.is_empty();
            }
            Err(error) => *trouble = Some(format!("{}: {error}", socket.udp.local_addr())),
        }
        let dropped = socket.udp.drops();
        if dropped > socket.dropped {
            let (more, line) = (dropped - socket.dropped, socket.udp.local_addr());
            tracing::warn!("{site}: {more} datagrams of {line} found the receive buffer full (--receive-buffer)");
            socket.dropped = dropped;
        }
    }

    /// Does what the feed wants.
    fn act(&mut self) {
        while let Some(want) = self.feed.poll() {
            match want {
                Want::Ask(request) => {
                    let way = self.sockets.iter_mut().find(|socket| socket.origin == Origin::Repeater);
                    if let Some(Err(error)) = way.map(|way| way.udp.send(None, &request)) {
                        tracing::warn!("{}: a request cannot be sent: {error}", self.site);
                    }
                }
                Want::Dial => self.dial(),
                Want::Send(bytes) => {
                    if let Some(conn) = self.conn {
                        self.tcp.send(conn, &bytes);
                    }
                }
                Want::HangUp => {
                    if let Some(conn) = self.conn.take() {
                        self.tcp.close(conn, Close::Now);
                    }
                    if let Some(why) = self.feed.rejection() {
                        tracing::warn!("{}: {}: {why}", self.site, shown(self.server));
                    }
                }
            }
        }
    }

    fn dial(&mut self) {
        let Some(server) = self.server else { return };
        let options = SocketOptions { no_delay: true, ..SocketOptions::default() };
        match self.tcp.connect(server, &options) {
            Ok(conn) => self.conn = Some(conn),
            Err(error) => {
                tracing::warn!("{}: {server}: {error}", self.site);
                self.feed.disconnected(clock());
            }
        }
    }
}

fn shown(server: Option<SocketAddr>) -> String {
    server.map_or_else(String::new, |server| server.to_string())
}
