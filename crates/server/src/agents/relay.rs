//! `rrcpd`: carries the data streams of hubs between the network and the shared memory of its host, so that each stream comes
//! to a host (or a network card) once, however many P2PSs run there.
//!
//! ```text
//! network ==LBT-RM==> [receiver] -> a source for each stream ==LBT-IPC==> P2PSs of this host
//! network <==LBT-RM== a source for each stream <- [receiver] <==LBT-IPC== Source Distributors of this host
//! ```
//!
//! Blocks are carried as they are: incarnations and positions are the Source Distributor's, and a loss on either side shows to
//! the P2PS as one gap, which the hub's rules heal. Nobody waits for a reader: in shared memory a writer is not held up by one
//! that stands still; that one misses blocks. Where the network would block, blocks wait in a bounded queue; beyond it they
//! are dropped and counted.
//!
//! A stream is carried from the first block on that says who sends it, if that is believed (`Trust`), and no more than
//! `STREAMS` at a time: each takes a window of its own on the other side.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use config::{Config, HubTransport};
use hub_io::announcement::Announcement;
use hub_io::trust::Trust;
use hub_io::{HubPeer, options, watch};
use lbm_io::options::Options;
use lbm_io::{Context, Delivery, EndReason, Events, SendError, SendFlags, SourceId, Sources, Stream, Transport};
use net::tcp::ConnId;
use rssl_io::{Ended, Handler, Opened, RsslIo};

use crate::agents::monitor::{Monitor, MonitorHandle, Thread, monitor};
use crate::agents::status::{STATUS, Status};
use crate::counters::{Part, Samples};

/// Streams that are carried at a time in one direction.
const STREAMS: usize = 64;

hub::counters! {
/// Counters of one direction.
pub struct Counters {
    /// Streams that are carried.
    pub streams: u64 as Gauge,
    /// Streams carried so far.
    pub streams_begun: u64,
    /// Times that a stream was not carried, since its sender is not believed or there are too many.
    pub refused: u64,
    /// Blocks carried.
    pub blocks: u64,
    /// Bytes of the blocks carried.
    pub bytes: u64 in Bytes,
    /// Times that LBM would have blocked.
    pub blocked: u64,
    /// Bytes that wait for LBM.
    pub waiting_bytes: u64 as Gauge in Bytes,
    /// Blocks dropped because too many waited.
    pub dropped: u64,
    /// Messages that LBM has reported lost before they came here.
    pub lost: u64,
}
}

/// The agent. See the module's description.
pub struct Relay {
    /// Watches the descriptors of both sides. No session ever comes to it.
    io: RsslIo,
    network: Side,
    local: Side,
    status: Option<Status>,
    name: String,
    monitor: Monitor,
    handle: MonitorHandle,
}

/// A context, and where its streams go on the other side.
struct Side {
    context: Context,
    options: Options,
    /// By stream number.
    routes: Vec<Route>,
    /// The sources here, which carry the streams of the other side.
    sources: Vec<Carried>,
    counters: Counters,
    trusts: Vec<Trust>,
    /// The last refusal that was told.
    refusal: String,
    /// Times that a source here would have blocked.
    blocked: u64,
    /// Bytes that may wait for a source.
    limit: usize,
    is_local: bool,
}

/// The fate of a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Route {
    /// Not looked at yet.
    New,
    /// The stream is this process's own, or of a transport that belongs to the other side.
    Ignored,
    /// The stream goes on by this source of the other side.
    To(SourceId),
}

/// A source that carries a stream of the other side.
struct Carried {
    id: SourceId,
    /// The stream's topic, and where it comes from.
    from: String,
    waiting: VecDeque<Box<[u8]>>,
    waiting_bytes: usize,
}

const NETWORK: u32 = 0;
const LOCAL: u32 = 1;

impl Relay {
    /// Listens on both sides for the streams of the configured hubs.
    ///
    /// # Errors
    /// The LBM options are wrong, or the operating system refuses a socket.
    pub fn new(config: &Config) -> io::Result<Self> {
        if matches!(config.hub.transport, HubTransport::Tcp | HubTransport::LbtIpc) {
            let why = "rrcpd needs hub.transport lbt-rm, lbt-ru or lbt-tcp: that of the network side";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let mut lines = config.hub.lbm_options.clone();
        lines.extend_from_slice(&config.rrcpd.local_lbm_options);
        let local = config::Hub { transport: HubTransport::LbtIpc, lbm_options: lines, ..config.hub.clone() };
        // The hubs of one daemon have one key.
        let trusts =
            || hubs(config).map(|hub| Trust::new(&config::Hub { name: hub.clone(), ..config.hub.clone() })).collect();
        let mut network = Side::new(&config.hub, trusts)?;
        let mut local = Side::new(&local, trusts)?;
        for hub in hubs(config) {
            network.receive(&options::topic(hub))?;
            local.receive(&options::local_topic(hub))?;
        }
        let mut io = RsslIo::new(0)?;
        watch(&mut io, &network.context, NETWORK)?;
        watch(&mut io, &local.context, LOCAL)?;
        let status = Status::open_in(&mut io)?;
        let name = hubs(config).map(String::as_str).collect::<Vec<_>>().join(",");
        let (monitor, handle) = monitor("rrcpd", io.tcp().waker(), true);
        Ok(Self { io, network, local, status, name, monitor, handle })
    }

    /// The sockets, for a waker that ends a turn.
    pub fn waker(&mut self) -> net::Waker {
        self.io.tcp().waker()
    }

    /// The way to ask its thread.
    pub fn handle(&self) -> MonitorHandle {
        self.handle.clone()
    }

    /// Counters of the ways into the host, and to the network.
    pub fn sample(&self, samples: &mut Samples) {
        // Blocks that one side receives wait for the other.
        for (to, from, side) in [("host", &self.network, &self.local), ("network", &self.local, &self.network)] {
            let counters = Counters {
                streams: side.sources.len() as u64,
                blocked: side.blocked,
                waiting_bytes: side.sources.iter().map(|source| source.waiting_bytes as u64).sum(),
                ..from.counters
            };
            samples.add(Part::Rrcpd, &[("hub", self.name.clone()), ("to", to.to_owned())], &counters);
        }
        samples.add_process();
    }

    /// Carries until `stop` says so; it is asked after each turn.
    ///
    /// # Errors
    /// The sockets have become unusable.
    pub fn run(&mut self, stop: impl Fn() -> bool) -> io::Result<()> {
        while !stop() {
            let due = [self.network.context.timeout(), self.local.context.timeout()].into_iter().flatten().min();
            let now = self.io.turn(due, &mut NoSessions)?;
            carry(&mut self.network, &mut self.local)?;
            carry(&mut self.local, &mut self.network)?;
            self.monitor.end_turn(now, || self.network.counters.blocks + self.local.counters.blocks);
            if self.monitor.is_asked() {
                self.oversee(now);
            }
            if self.io.take_ready(STATUS) {
                self.answer();
            }
        }
        Ok(())
    }

    /// Answers what the thread of HTTP asks.
    #[cold]
    fn oversee(&mut self, now: u64) {
        let (mut samples, latency) = (Samples::default(), self.monitor.latency());
        self.sample(&mut samples);
        let peers = self.streams().collect();
        let (consumers, providers) = (None, None);
        self.monitor.answer(Thread { now, io: &mut self.io, consumers, providers, peers, samples, latency });
    }

    /// The streams that are carried.
    fn streams(&self) -> impl Iterator<Item = HubPeer> {
        let to_host = self.local.sources.iter().map(|source| ("stream-to-host", source));
        let to_network = self.network.sources.iter().map(|source| ("stream-to-network", source));
        to_host.chain(to_network).map(|(kind, source)| HubPeer {
            kind,
            name: source.from.clone(),
            state: "carried",
            behind_bytes: source.waiting_bytes as u64,
        })
    }

    /// Tells what is counted, for `quoteway lbmstat`.
    #[cold]
    fn answer(&mut self) {
        if let Some(question) = self.status.as_mut().and_then(|status| status.question(net::clock::now())) {
            question.answer(|samples| self.sample(samples));
        }
    }
}

/// Hears of no session: an `rrcpd` has neither clients nor providers.
struct NoSessions;

impl Handler for NoSessions {
    fn opened(&mut self, _now: u64, _conn: ConnId, _opened: &Opened<'_>) {}
    fn message(&mut self, _now: u64, _conn: ConnId, _msg: &[u8]) {}
    fn closed(&mut self, _now: u64, _conn: ConnId, _ended: &Ended) {}
}

/// The hubs whose streams are carried.
fn hubs(config: &Config) -> impl Iterator<Item = &String> {
    std::iter::once(&config.hub.name).chain(config.rrcpd.hubs.iter().filter(|&hub| *hub != config.hub.name))
}

/// Takes in what has come to one side and sends it on the other.
fn carry(from: &mut Side, to: &mut Side) -> io::Result<()> {
    let Side { context, routes, sources, counters, is_local, trusts, refusal, .. } = from;
    let mut carrier = Carrier { routes, own: sources, counters, is_local: *is_local, trusts, refusal, to };
    context.poll(Some(Duration::ZERO), &mut carrier)?;
    options::log_warnings(context);
    for source in sources {
        source.send_waiting(context);
    }
    Ok(())
}

impl Side {
    fn new(hub: &config::Hub, trusts: impl Fn() -> io::Result<Vec<Trust>>) -> io::Result<Self> {
        let options = options::of(hub)?;
        let mut context = Context::new(&options).map_err(options::failed)?;
        options::log_warnings(&mut context);
        Ok(Self {
            context,
            options,
            routes: Vec::new(),
            sources: Vec::new(),
            counters: Counters::default(),
            trusts: trusts()?,
            refusal: String::new(),
            blocked: 0,
            limit: hub.max_backlog as usize,
            is_local: hub.transport == HubTransport::LbtIpc,
        })
    }

    fn receive(&mut self, topic: &str) -> io::Result<()> {
        self.context.receiver(topic, &self.options).map(drop).map_err(options::failed)
    }

    /// A source for a stream of the other side.
    fn add(&mut self, topic: &str, from: String) -> io::Result<SourceId> {
        let id = self.context.source(topic, &self.options).map_err(options::failed)?;
        options::log_warnings(&mut self.context);
        self.sources.push(Carried { id, from, waiting: VecDeque::new(), waiting_bytes: 0 });
        Ok(id)
    }

    fn remove(&mut self, id: SourceId) {
        self.context.remove_source(id);
        self.sources.retain(|source| source.id != id);
    }

    /// Sends a block at once; false if it was dropped.
    #[inline]
    fn send(&mut self, id: SourceId, block: &[u8]) -> bool {
        let Self { context, sources, limit, blocked, .. } = self;
        let Some(source) = sources.iter_mut().find(|source| source.id == id) else { return false };
        if source.waiting.is_empty() {
            match context.send(id, block, SendFlags::FLUSH | SendFlags::NONBLOCK) {
                Ok(_) => return true,
                Err(SendError::WouldBlock) => *blocked += 1,
                Err(_) => return false,
            }
        }
        if source.waiting_bytes + block.len() > *limit {
            return false;
        }
        source.waiting_bytes += block.len();
        source.waiting.push_back(block.into());
        true
    }
}

impl Carried {
    fn send_waiting(&mut self, context: &mut Context) {
        while let Some(block) = self.waiting.front() {
            if context.send(self.id, block, SendFlags::FLUSH | SendFlags::NONBLOCK) == Err(SendError::WouldBlock) {
                return;
            }
            self.waiting_bytes -= block.len();
            self.waiting.pop_front();
        }
    }
}

struct Carrier<'a> {
    routes: &'a mut Vec<Route>,
    /// The sources of this side: what they send may come back.
    own: &'a [Carried],
    counters: &'a mut Counters,
    is_local: bool,
    trusts: &'a [Trust],
    refusal: &'a mut String,
    to: &'a mut Side,
}

impl Carrier<'_> {
    /// Decides what becomes of a stream, from a block of it.
    #[cold]
    fn route(&mut self, sources: &Sources, stream: &Stream<'_>, block: &[u8]) -> Route {
        let number = stream.number as usize;
        if self.routes.len() <= number {
            self.routes.resize(number + 1, Route::New);
        }
        let in_memory = matches!(stream.transport, Transport::Lbtipc { .. });
        let own = self.own.iter().any(|source| sources.transport(source.id) == Some(stream.transport));
        self.routes[number] =
            if own || in_memory != self.is_local { Route::Ignored } else { self.judge(stream, block) };
        self.routes[number]
    }

    /// Carries a stream if its sender says who it is and is believed. [`Route::New`]: the next blocks may tell.
    fn judge(&mut self, stream: &Stream<'_>, block: &[u8]) -> Route {
        let Some((incarnation, bytes)) = hub::stream::announcement(block) else { return Route::New };
        let Some(announcement) = Announcement::decode(bytes) else { return Route::New };
        let hub = stream.topic.strip_suffix(options::LOCAL_SUFFIX).unwrap_or(stream.topic);
        let trust = self.trusts.iter().find(|trust| options::topic(&trust.hub) == hub);
        let refusal = match trust {
            Some(trust) => trust.refusal(&announcement, incarnation, &stream.transport.into(), 0),
            None => Some("no hub of this name is carried".to_owned()),
        };
        let refusal =
            refusal.or_else(|| (self.to.sources.len() >= STREAMS).then(|| format!("{STREAMS} streams are carried")));
        let Some(why) = refusal else { return self.open(stream) };
        self.counters.refused += 1;
        let text = format!("{}: the stream on {} is not carried on: {why}", stream.topic, stream.transport);
        if *self.refusal != text {
            tracing::warn!("{text}");
            *self.refusal = text;
        }
        Route::New
    }

    fn open(&mut self, stream: &Stream<'_>) -> Route {
        // To the host under the hub's own topic, to the network as well.
        let topic = stream.topic.strip_suffix(options::LOCAL_SUFFIX).unwrap_or(stream.topic);
        match self.to.add(topic, format!("{topic} on {}", stream.transport)) {
            Ok(id) => {
                self.counters.streams_begun += 1;
                tracing::info!("{topic}: the stream on {} is carried on", stream.transport);
                Route::To(id)
            }
            Err(e) => {
                tracing::error!("{topic}: the stream on {} cannot be carried on: {e}", stream.transport);
                Route::Ignored
            }
        }
    }
}

impl Events for Carrier<'_> {
    #[inline]
    fn message(&mut self, sources: &mut Sources, delivery: &Delivery<'_>) {
        let route = match self.routes.get(delivery.stream.number as usize) {
            None | Some(Route::New) => self.route(sources, &delivery.stream, delivery.payload),
            Some(&route) => route,
        };
        let Route::To(id) = route else { return };
        if self.to.send(id, delivery.payload) {
            self.counters.blocks += 1;
            self.counters.bytes += delivery.payload.len() as u64;
        } else {
            self.counters.dropped += 1;
        }
    }

    fn lost(&mut self, _: &mut Sources, _: &Stream<'_>, loss: lbm_io::Loss) {
        self.counters.lost += u64::from(loss.count);
    }

    fn end(&mut self, _: &mut Sources, stream: &Stream<'_>, reason: EndReason) {
        let Some(route) = self.routes.get_mut(stream.number as usize) else { return };
        if let Route::To(id) = std::mem::replace(route, Route::New) {
            self.to.remove(id);
            tracing::info!("{}: the stream on {} has ended: {reason}", stream.topic, stream.transport);
        }
    }
}
