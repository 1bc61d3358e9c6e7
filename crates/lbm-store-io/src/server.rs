//! The store as a server: a context that hears sources, a port for clients, a log.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use lbm::topic::Run;
use lbm::transport::EndReason;
use lbm::wire::lbmc::Message;
use lbm_io::options::{OptionError, Options, Scope};
use lbm_io::{Context, ContextError, Delivery, Events, Loss, Offer, ReceiverId, Sources, Stream, Warning};
use lbm_store::receiver::encode;
use lbm_store::store::{Entry, Log, Store, StoreConfig, StoreStats};
use lbm_store::wire::origin;
use net::tcp::{Event, SocketOptions};
use net::{Network, clock};

use crate::disk::DiskLog;
use crate::lines::{LineEvent, Lines};
use crate::stand_ins::StandIns;

/// Bytes that may wait for one client; one that does not read so much is cut off.
const QUEUE_MAX: usize = 16 << 20;
/// Clients at a time.
const CLIENTS_MAX: usize = 10_000;

/// How a store is run.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where clients connect; port 0 takes a free one.
    pub address: SocketAddrV4,
    /// Networks that may connect, beside this host.
    pub allow: Vec<Network>,
    /// Folder of the log; `None`: messages are held in memory alone.
    pub folder: Option<PathBuf>,
    /// Below so many bytes the log is not written anew; above, when it is three times what is held.
    pub log_bytes_min: u64,
    /// Rules of the store.
    pub store: StoreConfig,
}

/// A store could not be opened, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The context that hears sources.
    #[error("the context that hears sources: {0}")]
    Context(#[from] ContextError),
    /// Its options.
    #[error("{0}")]
    Options(#[from] OptionError),
    /// The port for clients.
    #[error("the port for clients, {address}: {source} (is there another store? another port is chosen by --port)")]
    Port {
        /// Where it was to be.
        address: SocketAddrV4,
        /// The system's reason.
        source: io::Error,
    },
    /// The log.
    #[error("the store's log: {0}")]
    Log(#[from] record::Error),
    /// The system.
    #[error("the store's sockets: {0}")]
    Sockets(#[from] io::Error),
}

/// Where the store writes.
#[derive(Debug)]
enum StoreLog {
    Memory,
    Disk(DiskLog),
}

impl Log for StoreLog {
    #[inline]
    fn write(&mut self, entry: &Entry<'_>) -> u64 {
        match self {
            Self::Memory => 0,
            Self::Disk(log) => log.write(entry),
        }
    }

    fn has_room(&self) -> bool {
        match self {
            Self::Memory => true,
            Self::Disk(log) => log.has_room(),
        }
    }

    fn is_durable(&self) -> bool {
        matches!(self, Self::Disk(_))
    }
}

/// See the module. Driven by its owner's turn, [`StoreServer::poll`].
pub struct StoreServer {
    context: Context,
    options: Options,
    lines: Lines,
    address: SocketAddrV4,
    store: Store<StoreLog>,
    receivers: HashMap<Box<[u8]>, ReceiverId>,
    events: Vec<Event>,
    scratch: Vec<u8>,
    /// Damage that was found in the log, for the operator.
    damage: Vec<String>,
    stand_ins: StandIns,
}

/// Hands to the store what the context receives.
struct ToStore<'a> {
    store: &'a mut Store<StoreLog>,
    now: u64,
    scratch: &'a mut Vec<u8>,
    stand_ins: &'a StandIns,
}

impl Events for ToStore<'_> {
    const TAKES_RUNS: bool = true;

    #[inline]
    fn run(&mut self, _: &mut Sources, stream: &Stream<'_>, run: &Run<'_>) -> bool {
        self.store.run(stream.number, run)
    }

    #[inline]
    fn message(&mut self, _: &mut Sources, delivery: &Delivery<'_>) {
        let message = lbm::topic::Message {
            sqn: delivery.sqn,
            payload: delivery.payload,
            properties: delivery.properties,
            kind: delivery.kind,
            headers: delivery.headers.clone(),
        };
        let encoded = encode(delivery.stream.index, &message, self.scratch);
        self.store.data(self.now, delivery.stream.number, delivery.sqn, encoded);
    }

    fn found(&mut self, _: &mut Sources, stream: &Stream<'_>, _: &Offer) {
        self.store.stream(self.now, stream.number, origin(stream.transport, stream.index));
    }

    fn question(&mut self, sources: &mut Sources, message: &Message<'_>, answers: &mut Vec<u8>) {
        self.stand_ins.answer(sources, message, self.store, answers);
    }

    fn end(&mut self, _: &mut Sources, stream: &Stream<'_>, _: EndReason) {
        self.store.stream_ended(stream.number);
    }

    fn lost(&mut self, _: &mut Sources, stream: &Stream<'_>, loss: Loss) {
        self.store.data_lost(self.now, stream.number, loss.first, loss.count);
    }
}

impl StoreServer {
    /// Opens port and log; what the log holds is there again. `options` are those of the context that hears sources.
    ///
    /// # Errors
    /// The port or the folder is taken, or cannot be used.
    pub fn new(config: &ServerConfig, options: &Options) -> Result<Self, ServerError> {
        let mut options = options.clone();
        // A store takes fragments as they come, and asks the source for what is missing.
        for name in ["ordered_delivery", "use_late_join", "use_otr"] {
            options.set(Scope::Receiver, name, "0")?;
        }
        let context = Context::new(&options)?;
        let mut lines = Lines::new(QUEUE_MAX, CLIENTS_MAX)?;
        let socket = SocketOptions { reuse_address: true, ..SocketOptions::default() };
        let port = |source| ServerError::Port { address: config.address, source };
        let (_, bound) = lines.tcp.listen(SocketAddr::V4(config.address), &socket).map_err(port)?;
        let address = SocketAddrV4::new(*config.address.ip(), bound.port());
        lines.tcp.watch(context.as_fd(), 0)?;
        lines.allow(&config.allow);
        let now = clock::now();
        let mut damage = Vec::new();
        let mut store = Store::new(config.store.clone(), StoreLog::Memory);
        if let Some(folder) = &config.folder {
            // First of all the folder is ours alone.
            let (log, cut) = DiskLog::open(folder, config.log_bytes_min, lines.tcp.waker())?;
            damage = DiskLog::read(folder, |entry| store.restore(now, entry))?;
            damage.extend(cut);
            *store.log() = StoreLog::Disk(log);
        }
        Ok(Self {
            context,
            options,
            lines,
            address,
            store,
            receivers: HashMap::new(),
            events: Vec::new(),
            scratch: Vec::new(),
            damage,
            stand_ins: StandIns::default(),
        })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// Damage that was found in the log; told once.
    pub fn damage(&mut self) -> Vec<String> {
        std::mem::take(&mut self.damage)
    }

    /// Warnings of the context that hears sources.
    pub fn warnings(&mut self) -> impl Iterator<Item = Warning> {
        self.context.warnings()
    }

    /// Counters of the store.
    pub fn stats(&self) -> StoreStats {
        self.store.stats()
    }

    /// Clients that are connected, and connections that were refused: of networks that are not allowed, or for want of room.
    pub fn clients(&self) -> (usize, u64) {
        (self.lines.count(), self.lines.refused())
    }

    /// Proxy sources that are there, and those that could not be made.
    pub fn proxy_sources(&self) -> (usize, u64) {
        self.stand_ins.counts()
    }

    /// See [`Store::each_source`].
    pub fn each_source(&self, each: impl FnMut(u32, &[u8], (u32, u32), usize, &[(u32, u32)])) {
        self.store.each_source(each);
    }

    /// A turn: waits at most `timeout`, and handles what has come.
    ///
    /// # Errors
    /// Only what makes the server unusable.
    pub fn poll(&mut self, timeout: Option<Duration>) -> Result<(), ServerError> {
        self.tune_in();
        let now = clock::now();
        let own = [self.store.timeout(), self.stand_ins.timeout()].into_iter().flatten().min();
        let due = [self.context.timeout(), self.lines.tcp.timeout(), own].into_iter().flatten().min();
        let left = due.map(|due| Duration::from_nanos(due.saturating_sub(now)));
        let wait = left.into_iter().chain(timeout).min();
        let mut events = std::mem::take(&mut self.events);
        let polled = self.lines.tcp.poll(wait, &mut events);
        let now = clock::now();
        let Self { store, scratch, stand_ins, .. } = self;
        let mut heard = ToStore { store, now, scratch, stand_ins };
        self.context.poll(Some(Duration::ZERO), &mut heard)?;
        for event in events.drain(..) {
            let store = &mut self.store;
            self.lines.on_event(event, |number, event| match event {
                LineEvent::Messages(messages) => store.receive(now, number, messages).is_ok(),
                LineEvent::Closed => {
                    store.closed(now, number);
                    true
                }
                LineEvent::Accepted | LineEvent::Connected => true,
            });
        }
        self.events = events;
        polled?;
        self.store.on_timer(now);
        self.stand_in(now);
        self.settle();
        Ok(())
    }

    /// Makes and removes proxy sources, and lets them say what they have to.
    fn stand_in(&mut self, now: u64) {
        let proxies: Vec<_> = self.store.proxies().collect();
        for proxy in &proxies {
            self.stand_ins.set(now, proxy, &mut self.context, &self.options);
        }
        self.stand_ins.announce(now, &mut self.context, &self.store);
    }

    /// The end of a turn: what is written is acknowledged, answers leave.
    fn settle(&mut self) {
        let held = self.store.bytes();
        if let StoreLog::Disk(log) = self.store.log() {
            let done = log.done();
            if log.take_spoiled() || log.is_long(held) {
                log.begin_anew();
                self.store.write_all();
            } else {
                self.store.logged(done);
            }
        }
        self.store.flush();
        if let StoreLog::Disk(log) = self.store.log() {
            log.flush();
        }
        for (number, bytes) in self.store.output().drain() {
            self.lines.send(number, &bytes);
        }
    }

    /// Hears the topics that sources have registered.
    fn tune_in(&mut self) {
        let wanted: Vec<_> = self.store.wanted().collect();
        for topic in wanted {
            if !topic.on {
                if let Some(receiver) = self.receivers.remove(&topic.topic) {
                    self.context.remove_receiver(receiver);
                }
            } else if !self.receivers.contains_key(&topic.topic)
                && let Ok(name) = std::str::from_utf8(&topic.topic)
                // A name that the resolver does not take is one that nobody can advertise.
                && let Ok(receiver) = self.context.receiver(name, &self.options)
            {
                self.receivers.insert(topic.topic, receiver);
            }
        }
    }
}

impl std::fmt::Debug for StoreServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreServer").field("address", &self.address).finish_non_exhaustive()
    }
}
