//! An exchange's feed on sockets: what its state machine asks for is done, and what comes is given to it.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use anyhow::anyhow;
use feed::replay::venue::live::{Clock, LiveFeed, LiveFigures, LiveProtocol, Origin, Want};
use feed::session::Nanos;
use feed::{InstrumentId, MarketSource, Model};
use net::tcp::{Close, ConnId, Event, RecvOutcome, Scratch, SocketOptions, Tcp, TcpConfig};
use net::udp::{Slabs, UdpOptions, UdpSocket};
use rwf::DataState;

use crate::site::Site;

/// A line, or the way to the server that repeats messages.
struct Socket {
    udp: UdpSocket,
    origin: Origin,
    is_ready: bool,
    /// Datagrams that found the kernel's buffer full, as far as they were told of.
    dropped: u64,
}

/// A feed with its sockets. They are looked at whenever the source is asked to go on.
pub struct LiveSource {
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
    /// The distance of the caller's clock behind the monotonic one.
    offset: Nanos,
    /// There may be more to take in at once.
    is_behind: bool,
    trouble: Option<String>,
    /// Messages and time when figures were shown last.
    shown: Cell<(u64, Nanos)>,
    report: Option<Report>,
    reported: u64,
}

/// Takes what comes, how the feed stands, and how many datagrams found a buffer full; each second at most.
pub type Report = Box<dyn FnMut(&str, &LiveFigures, u64) + Send>;

pub(crate) const SECOND: u64 = 1_000_000_000;

/// Reads of all sockets in one call, at most: consumers are not kept waiting for longer.
pub(crate) const ROUNDS: usize = 4;

pub(crate) fn clock() -> Clock {
    Clock { now: net::clock::now(), wall: net::clock::wall() }
}

impl LiveSource {
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
        let at = clock();
        Ok(Self {
            feed: LiveFeed::new(&site.config, at),
            protocol: site.config.protocol,
            site: text.to_owned(),
            tcp,
            sockets,
            server: site.server,
            conn: None,
            slabs: Slabs::default(),
            scratch: Scratch::default(),
            events: Vec::new(),
            offset: at.now,
            is_behind: true,
            trouble: None,
            shown: Cell::new((0, at.now)),
            report,
            reported: 0,
        })
    }

    /// Readable whenever something has come: for whoever waits for more than this source.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn wake(&self) -> std::io::Result<OwnedFd> {
        self.tcp.as_fd().try_clone_to_owned()
    }

    /// Tells how the feed stands, if that was long enough ago.
    fn tell(&mut self) {
        let now = net::clock::now();
        if let Some(report) = &mut self.report
            && now >= self.reported + SECOND
        {
            self.reported = now;
            let dropped = self.sockets.iter().map(|socket| socket.dropped).sum();
            report(&self.protocol.to_string(), &self.feed.figures(), dropped);
        }
    }

    fn take_in(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        if let Err(error) = self.tcp.poll(Some(Duration::ZERO), &mut events) {
            self.trouble = Some(error.to_string());
        }
        self.is_behind = false;
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
        while let Some(due) = self.feed.timer().filter(|due| *due <= net::clock::now()) {
            self.feed.on_timer(clock());
            self.act();
            if self.feed.timer() == Some(due) {
                // Done as far as it can be.
                break;
            }
        }
    }

    fn read(&mut self, conn: ConnId) {
        if let RecvOutcome::Data(bytes) = self.tcp.recv(conn, &mut self.scratch) {
            self.feed.bytes(bytes, clock());
            self.is_behind = true;
        }
    }

    fn receive(&mut self, at: usize) {
        let Self { sockets, slabs, feed, site, trouble, is_behind, .. } = self;
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
                *is_behind |= !received.is_empty();
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

/// One line of what a feed has done, for people.
pub(crate) fn summary(figures: &LiveFigures, rate: f64, dropped: u64) -> String {
    let LiveFigures { messages, stream, books, snapshots, dials, is_in_doubt, .. } = figures;
    let mut texts = vec![format!(
        "{messages} messages ({rate:.0} a second), {books} items, gaps {}, repaired {}, requests {}, lost {}",
        stream.gaps, stream.repairs, stream.requests, stream.lost
    )];
    if *dials > 0 {
        texts.push(format!("connections {dials}, snapshots {snapshots}"));
    }
    for (line, counts) in (b'A'..).zip(&figures.lines).filter(|(_, counts)| counts.packets > 0) {
        let behind = counts.behind_ns.checked_div(counts.behind).unwrap_or(0) / 1_000;
        let (line, packets, first) = (char::from(line), counts.packets, counts.first);
        texts.push(format!("line {line}: {packets} packets, {first} messages first, else {behind} us behind"));
    }
    if *messages > 0 {
        let us = |ns: u64| ns / 1_000;
        let (median, p99) = (us(figures.latency_median_ns), us(figures.latency_p99_ns));
        texts.push(format!("{median} us behind the exchange's clock, 99 % within {p99} us"));
    }
    texts.extend(figures.bad.iter().map(|(kind, count)| format!("{kind}: {count}")));
    if dropped > 0 {
        texts.push(format!("receive buffer full: {dropped}"));
    }
    if *is_in_doubt {
        texts.push("Suspect".to_owned());
    }
    texts.join("; ")
}

impl MarketSource for LiveSource {
    fn find(&mut self, name: &str) -> Option<InstrumentId> {
        self.feed.find(name)
    }

    fn offers(&self, _: InstrumentId, model: Model) -> bool {
        self.feed.offers(model)
    }

    fn image(&mut self, id: InstrumentId, model: Model, part: usize, out: &mut Vec<u8>) -> bool {
        self.feed.image(id, model, part, out)
    }

    fn data_state(&self, id: InstrumentId, _: Model) -> DataState {
        self.feed.data_state(id)
    }

    fn watch(&mut self, id: InstrumentId, model: Model, on: bool) {
        self.feed.watch(id, model, on);
    }

    fn due(&self) -> Option<Nanos> {
        if self.is_behind {
            return Some(0);
        }
        // How it stands is told when nothing comes, too.
        let report = self.report.is_some().then(|| self.reported + SECOND);
        let timers = self.feed.timer().into_iter().chain(self.tcp.timeout()).chain(report).min();
        timers.map(|at| at.saturating_sub(self.offset))
    }

    fn symbols(&self) -> Vec<String> {
        self.feed.symbols()
    }

    fn advance(&mut self, now: Nanos, limit: usize, sink: &mut dyn FnMut(feed::Event<'_>)) {
        self.offset = net::clock::now().saturating_sub(now);
        let mut told = 0;
        for _ in 0..ROUNDS {
            self.take_in();
            told += self.feed.flush(sink);
            if !self.is_behind || told >= limit {
                break;
            }
            // Sockets that had something may have more.
            self.sockets.iter_mut().for_each(|socket| socket.is_ready = true);
        }
        self.tell();
    }

    fn is_live(&self) -> bool {
        true
    }

    fn is_ready(&self) -> bool {
        self.feed.is_ready()
    }

    fn may_come(&self, _name: &str) -> bool {
        self.feed.may_come()
    }

    fn remarks(&self) -> Option<String> {
        let dropped = self.sockets.iter().map(|socket| socket.dropped).sum();
        let rejection = self.feed.rejection().map(|why| format!("; {why}")).unwrap_or_default();
        let (figures, now) = (self.feed.figures(), net::clock::now());
        let (before, at) = self.shown.replace((figures.messages, now));
        let rate = (figures.messages - before) as f64 / (now - at).max(1) as f64 * 1e9;
        let text = summary(&figures, rate, dropped);
        Some(format!("{} ({}): {text}{rejection}", self.site, self.protocol))
    }

    fn unread(&self) -> Option<String> {
        self.trouble.as_ref().map(|why| format!("{}: {why}", self.site))
    }
}
