//! The store as a server: a context that hears sources, a port for clients, a log.

use std::collections::HashMap;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use lbm::transport::EndReason;
use lbm_io::options::{Options, Scope};
use lbm_io::{Context, Delivery, Events, Loss, ReceiverId, Sources, Stream};
use lbm_store::receiver::encode;
use lbm_store::store::{Entry, Log, Store, StoreConfig, StoreStats};
use lbm_store::wire::origin;
use net::clock;
use net::tcp::{Event, SocketOptions};

use crate::disk::DiskLog;
use crate::lines::{LineEvent, Lines};

/// Bytes that may wait for one client.
const QUEUE_MAX: usize = 64 << 20;
/// Clients at a time.
const CLIENTS_MAX: usize = 10_000;

/// How a store is run.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where clients connect; port 0 takes a free one.
    pub address: SocketAddrV4,
    /// Folder of the log; `None`: messages are held in memory alone.
    pub folder: Option<PathBuf>,
    /// Rules of the store.
    pub store: StoreConfig,
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
}

/// See the module.
pub struct StoreServer {
    context: Context,
    options: Options,
    lines: Lines,
    address: SocketAddrV4,
    store: Store<StoreLog>,
    receivers: HashMap<Box<[u8]>, ReceiverId>,
    events: Vec<Event>,
    scratch: Vec<u8>,
    /// What was found damaged in the log, for the operator.
    damage: Vec<String>,
}

/// Hands to the store what the context receives.
struct ToStore<'a> {
    store: &'a mut Store<StoreLog>,
    now: u64,
    scratch: &'a mut Vec<u8>,
}

impl Events for ToStore<'_> {
    #[inline]
    fn message(&mut self, _: &mut Sources, delivery: &Delivery<'_>) {
        let message = lbm::topic::Message {
            sqn: delivery.sqn,
            payload: delivery.payload,
            properties: delivery.properties,
            kind: delivery.kind,
            headers: delivery.headers.clone(),
        };
        encode(delivery.stream.index, &message, self.scratch);
        self.store.data(self.now, delivery.stream.number, delivery.sqn, self.scratch);
    }

    fn found(&mut self, _: &mut Sources, stream: &Stream<'_>, _persistent: bool) {
        self.store.stream(self.now, stream.number, origin(stream.transport, stream.index));
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
    pub fn new(config: &ServerConfig, options: &Options) -> anyhow::Result<Self> {
        let mut options = options.clone();
        // A store takes fragments as they come, and asks the source for what is missing.
        options.set(Scope::Receiver, "ordered_delivery", "0").map_err(|e| anyhow!("{e}"))?;
        let context = Context::new(&options)?;
        let mut lines = Lines::new(QUEUE_MAX, CLIENTS_MAX)?;
        let socket = SocketOptions { reuse_address: true, ..SocketOptions::default() };
        let (_, bound) = lines
            .tcp
            .listen(SocketAddr::V4(config.address), &socket)
            .with_context(|| format!("the port for clients, {}", config.address))?;
        let address = SocketAddrV4::new(*config.address.ip(), bound.port());
        lines.tcp.watch(context.as_fd(), 0)?;
        let now = clock::now();
        let mut damage = Vec::new();
        let mut store = Store::new(config.store.clone(), StoreLog::Memory);
        if let Some(folder) = &config.folder {
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
            damage = DiskLog::read(folder, |entry| store.restore(now, entry))?;
            *store.log() = StoreLog::Disk(DiskLog::open(folder, lines.tcp.waker())?);
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
        })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// What was found damaged in the log; told once.
    pub fn damage(&mut self) -> Vec<String> {
        std::mem::take(&mut self.damage)
    }

    /// Warnings of the context that hears sources.
    pub fn warnings(&mut self) -> impl Iterator<Item = lbm_io::Warning> {
        self.context.warnings()
    }

    /// Counters, and clients that are connected.
    pub fn stats(&self) -> (StoreStats, usize) {
        (self.store.stats(), self.lines.count())
    }

    /// See [`Store::each_source`].
    pub fn each_source(&self, each: impl FnMut(u32, &[u8], (u32, u32), usize, &[(u32, u32)])) {
        self.store.each_source(each);
    }

    /// One turn: waits at most `timeout`, and handles what has come.
    ///
    /// # Errors
    /// Only what makes the server unusable.
    pub fn poll(&mut self, timeout: Option<Duration>) -> anyhow::Result<()> {
        self.tune_in();
        let now = clock::now();
        let due = [self.context.timeout(), self.lines.tcp.timeout(), self.store.timeout()].into_iter().flatten().min();
        let left = due.map(|due| Duration::from_nanos(due.saturating_sub(now)));
        let wait = left.into_iter().chain(timeout).min();
        let mut events = std::mem::take(&mut self.events);
        self.lines.tcp.poll(wait, &mut events)?;
        let now = clock::now();
        let mut heard = ToStore { store: &mut self.store, now, scratch: &mut self.scratch };
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
        self.store.on_timer(now);
        self.settle();
        Ok(())
    }

    /// The end of a turn: what is written is acknowledged, answers leave.
    fn settle(&mut self) {
        if let StoreLog::Disk(log) = self.store.log() {
            let (done, failed) = (log.done(), log.take_failed());
            if failed {
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
