//! Source Distributor in one thread, the P2PS in several: each egress shard owns a part of the clients.
//!
//! ```text
//! providers -> [ingest: Source Distributor] == broadcast ring of hub blocks ==> [shard 0: P2PS] -> its clients
//!                      ^                                                  \==> [shard 1: P2PS] -> its clients
//!                      \------------ one ring of request blocks a shard -------------/
//! ```
//!
//! Every shard is a P2PS of its own towards the Source Distributor and reads the same hub stream in place. The ring is
//! gated on the slowest shard, so a shard never waits for a socket: what a client does not take is queued for it. When a shard
//! falls behind, or most clients do, the ingest stops reading from the providers ([`Backpressure`]). The shards listen on one port; the
//! kernel spreads the connections over them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};

use config::Config;
use hub::deadlines::earliest;
use hub::distributor::SourceDistributor;
use hub::p2ps::{P2ps, SourceId};
use net::Waker;
use net::ring::{PushError, Reader, Writer, broadcast, spsc};

use super::backpressure::{Backpressure, Load};
use super::consumer_ports::{Bound, Port};
use super::consumers::Consumers;
use super::monitor::{Monitor, MonitorHandle, Thread, monitor};
use super::permissions::{Administration, Permissioning};
use super::providers::Providers;
use super::send_coalescing::SendCoalescing;
use super::server::Addresses;
use super::status::{STATUS, Status};
use crate::counters::{Label, Samples};
use rssl_io::RsslIo;

/// Bytes of the ring of hub blocks. A block is at most half of it; a larger one is cut.
const EVENTS: usize = 16 << 20;
/// Bytes of a shard's ring of request blocks.
const REQUESTS: usize = 4 << 20;
/// The only Source Distributor of this process.
const SOURCE: SourceId = SourceId(0);
/// Hub blocks that a shard takes in one turn, so that its clients' requests get their turn too.
const BLOCKS_PER_TURN: usize = 64;

/// A server whose clients are spread over threads.
pub struct Sharded {
    ingest: Ingest,
    shards: Vec<JoinHandle<()>>,
    addresses: Addresses,
    stop: Arc<AtomicUsize>,
    wakers: Vec<net::Waker>,
    /// `None` while permissions are off.
    permissioning: Option<Permissioning>,
    monitors: Vec<MonitorHandle>,
}

struct Ingest {
    io: RsslIo,
    providers: Providers,
    events: Writer,
    requests: Vec<Reader>,
    client_load: Arc<ClientLoad>,
    backpressure: Backpressure,
    /// The providers are not read.
    holding: bool,
    status: Option<Status>,
    labels: [Label; 1],
    monitor: Monitor,
}

/// The clients of all shards, as far as the ingest has to know.
struct ClientLoad {
    mounts: Arc<AtomicUsize>,
    behind: AtomicUsize,
    /// Bytes that clients have taken while they were behind, ever.
    taken: AtomicU64,
    /// The ingest wants to be woken when fewer are behind.
    awaited: AtomicBool,
    ingest: Waker,
}

impl ClientLoad {
    /// A shard reports how many of its clients are behind, and how many were; and how much those have taken since.
    fn report(&self, (behind, before): (usize, usize), taken: u64) {
        if taken > 0 {
            self.taken.fetch_add(taken, Ordering::Relaxed);
        }
        if behind == before {
            return;
        }
        if behind > before {
            self.behind.fetch_add(behind - before, Ordering::SeqCst);
        } else {
            self.behind.fetch_sub(before - behind, Ordering::SeqCst);
        }
        // SYNC: with `await_fewer`: either that sees the new number, or this sees the flag.
        if self.awaited.load(Ordering::SeqCst) {
            self.ingest.wake();
        }
    }

    /// Has the ingest woken by the next report, or not any more.
    fn await_fewer(&self, wanted: bool) {
        self.awaited.store(wanted, Ordering::SeqCst);
    }
}

struct Shard {
    io: RsslIo,
    consumers: Consumers,
    client_load: Arc<ClientLoad>,
    /// Clients that were behind when it was reported.
    behind: usize,
    /// Bytes that clients which were behind had taken when it was reported.
    taken: u64,
    events: Reader,
    requests: Writer,
    /// Request blocks that found no space, oldest first.
    unsent: Vec<Vec<u8>>,
    coalescing: SendCoalescing,
    status: Option<Status>,
    labels: [Label; 2],
    monitor: Monitor,
}

/// The resources that all shards are opened with.
struct ShardSetup<'a> {
    config: &'a Config,
    incarnation: u32,
    client_load: &'a Arc<ClientLoad>,
    permissioning: Option<&'a Permissioning>,
}

/// The ports of the shards. Those that the first one has got are the others' too.
struct Ports {
    port: Port,
    bound: Option<Bound>,
}

impl Sharded {
    /// Opens the ports and starts the shards.
    ///
    /// # Errors
    /// A port cannot be listened on, a dictionary cannot be read, or a thread cannot be started where it is to run.
    pub fn new(config: &Config, incarnation: u32) -> io::Result<Self> {
        let count = config.p2ps.writer_thread_count.max(1);
        let mut io = RsslIo::new(u64::from(incarnation))?;
        let distributor = SourceDistributor::new(config::distributor_config(config), incarnation);
        let mut providers = Providers::new(config, distributor, &mut io)?;
        let (mut events, readers) = broadcast(EVENTS, usize::from(count));
        events.wake_with(io.tcp().waker());
        let mounts = Arc::new(AtomicUsize::new(0));
        let client_load = Arc::new(ClientLoad {
            mounts: mounts.clone(),
            behind: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
            awaited: AtomicBool::new(false),
            ingest: io.tcp().waker(),
        });
        let stop = Arc::new(AtomicUsize::new(0));
        let permissioning = Permissioning::start(config)?;
        let (ingest_monitor, handle) =
            monitor("source distributor", io.tcp().waker(), config.source_distributor.latency_calc_enabled);
        let (mut shards, mut requests, mut wakers, mut monitors) = (Vec::new(), Vec::new(), Vec::new(), vec![handle]);
        let mut ports = Ports { port: Port::of(&config.p2ps, count > 1), bound: None };
        let common =
            ShardSetup { config, incarnation, client_load: &client_load, permissioning: permissioning.as_ref() };
        for (id, events) in (0..count).zip(readers) {
            let (writer, mut reader) = spsc(REQUESTS);
            reader.wake_with(io.tcp().waker());
            requests.push(reader);
            let (mut shard, handle) = Shard::open(&common, id, events, writer, &mut ports)?;
            providers.distributor.p2ps_up(net::clock::now(), id);
            wakers.push(shard.io.tcp().waker());
            monitors.push(handle);
            shards.push(shard.start(id, config, stop.clone())?);
        }
        let addresses = Addresses::new(ports.bound.expect("there is a shard"), providers.nip_addr());
        let (backpressure, holding) = (Backpressure::default(), false);
        let (status, labels) = (Status::open_in(&mut io)?, [("hub", config.hub.name.clone())]);
        let monitor = ingest_monitor;
        let ingest =
            Ingest { io, providers, events, requests, client_load, backpressure, holding, status, labels, monitor };
        Ok(Self { ingest, shards, addresses, stop, wakers, permissioning, monitors })
    }

    /// The ports that were opened.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// The administration of permissions; `None` while they are off.
    pub fn administration(&self) -> Option<Administration> {
        self.permissioning.as_ref().map(Permissioning::administration)
    }

    /// The ways to ask the ingest and each shard.
    pub fn monitors(&self) -> Vec<MonitorHandle> {
        self.monitors.clone()
    }

    /// The sockets of the ingest, for a waker that ends a turn.
    pub fn io(&mut self) -> &mut RsslIo {
        &mut self.ingest.io
    }

    /// Serves until `stop` says so, or until a shard is lost.
    ///
    /// # Errors
    /// The sockets have become unusable, or a shard has ended.
    pub fn run(&mut self, stop: impl Fn() -> bool) -> io::Result<()> {
        self.ingest.providers.on_timer(net::clock::now(), &mut self.ingest.io);
        let mut result = Ok(());
        while !stop() && result.is_ok() {
            result = self.ingest.turn();
            if self.shards.iter().any(JoinHandle::is_finished) {
                result = Err(io::Error::other("an egress shard has ended"));
            }
        }
        self.stop.store(1, Ordering::Release);
        for waker in &self.wakers {
            waker.wake();
        }
        for shard in self.shards.drain(..) {
            if shard.join().is_err() {
                result = Err(io::Error::other("an egress shard has failed"));
            }
        }
        result
    }
}

impl Ingest {
    fn turn(&mut self) -> io::Result<()> {
        let deadline = if self.may_sleep() { self.timeout() } else { Some(0) };
        let Self { io, providers, requests, .. } = self;
        if self.monitor.times_next_turn() {
            providers.time_turn();
        }
        let now = io.turn(deadline, providers)?;
        requests.iter_mut().for_each(Reader::awake);
        self.events.awake();
        providers.on_timer(now, io);
        self.publish();
        for (id, reader) in self.requests.iter_mut().enumerate() {
            reader.read(BLOCKS_PER_TURN, |_, block| {
                if let Err(e) = self.providers.requests(now, id as u16, block) {
                    tracing::error!("requests of shard {id} could not be read: {e}");
                }
            });
        }
        self.publish();
        self.providers.flush(now, &mut self.io);
        self.hold(now);
        self.providers.end_timed_turn(now);
        self.monitor.end_turn(now, || self.providers.distributor.counters().updates);
        if self.monitor.is_asked() {
            self.oversee(now);
        }
        if self.io.take_ready(STATUS) {
            self.answer(now);
        }
        Ok(())
    }

    /// Tells what is counted, for `quoteway lbmstat`.
    #[cold]
    fn answer(&mut self, now: u64) {
        if let Some(question) = self.status.as_mut().and_then(|status| status.question(now)) {
            question.answer(|samples| self.sample(samples));
        }
    }

    /// Answers what the thread of HTTP asks.
    #[cold]
    fn oversee(&mut self, now: u64) {
        let (mut samples, latency) = (Samples::default(), self.monitor.latency());
        self.sample(&mut samples);
        let (consumers, providers) = (None, Some(&mut self.providers));
        let peers = Vec::new();
        self.monitor.answer(Thread { now, io: &mut self.io, consumers, providers, peers, samples, latency });
    }

    fn sample(&self, samples: &mut Samples) {
        self.providers.sample(&self.labels, self.holding, samples);
        samples.add_sockets(&self.labels, self.io.counters());
        samples.add_process();
    }

    /// Has it woken by what it waits for; `false` if there is some already.
    fn may_sleep(&mut self) -> bool {
        // Every one has to be asked, so no short cut.
        let idle = self.requests.iter_mut().fold(true, |idle, r| r.prepare_sleep() & idle);
        // Held by the ring or by the clients: to be woken when either is better.
        idle && (!self.holding || self.events.prepare_wait(Backpressure::ENDS_BELOW) || self.load().behind > 0)
    }

    fn timeout(&self) -> Option<u64> {
        let again = if self.holding { self.backpressure.timeout() } else { None };
        earliest([self.providers.timeout(), again])
    }

    fn load(&self) -> Load {
        let ClientLoad { mounts, behind, taken, .. } = &*self.client_load;
        let behind = behind.load(Ordering::SeqCst);
        let (mounts, taken) = (mounts.load(Ordering::Relaxed), taken.load(Ordering::Relaxed));
        Load { lag: self.events.lag(), behind, mounts, taken }
    }

    /// Reads from the providers or does not, as the shards and clients keep up.
    fn hold(&mut self, now: u64) {
        if !self.holding && self.backpressure.must_wait(now, self.load()) {
            self.holding = true;
            self.client_load.await_fewer(true);
        }
        if self.holding {
            // Looked at again behind the flag, so that no report is missed; and told to those that came since.
            self.holding = self.backpressure.must_wait(now, self.load());
            self.providers.hold(self.holding, &mut self.io);
            if !self.holding {
                self.client_load.await_fewer(false);
            }
        }
    }

    /// Hands the Source Distributor's block to the shards. If the ring is full, which takes more than a turn's input, this waits.
    fn publish(&mut self) {
        let Some(block) = self.providers.distributor.block() else { return };
        for part in hub::stream::parts(block, self.events.longest()) {
            while self.events.push(0, &part) == Err(PushError::Full) {
                std::thread::yield_now();
            }
        }
        self.events.publish();
        self.providers.distributor.clear_block();
    }
}

impl Ports {
    /// The next shard listens where this one does.
    fn opened(&mut self, consumers: &Consumers) {
        let bound = *self.bound.get_or_insert(consumers.bound());
        self.port.follow(&bound);
    }
}

impl Shard {
    /// Opens the ports of a shard. It reads the hub stream from `events`, and writes what it asks for to `requests`.
    fn open(
        common: &ShardSetup<'_>,
        id: u16,
        mut events: Reader,
        requests: Writer,
        ports: &mut Ports,
    ) -> io::Result<(Self, MonitorHandle)> {
        let &ShardSetup { config, incarnation, client_load, permissioning } = common;
        let seed = u64::from(incarnation) ^ u64::from(id + 1) << 32;
        let mut io = RsslIo::with(seed, super::batching(config))?;
        let p2ps = P2ps::new(config::p2ps_config(config, incarnation)?, id);
        let mounts = client_load.mounts.clone();
        let mut consumers = Consumers::new(config, p2ps, mounts, ports.port, &mut io)?;
        consumers.set_permissions(permissioning.map(|process| process.of_thread(id, io.tcp().waker())));
        consumers.p2ps.source_up(net::clock::now(), SOURCE);
        consumers.gather();
        ports.opened(&consumers);
        events.wake_with(io.tcp().waker());
        let status = Status::open_in(&mut io)?;
        let (monitor, handle) = monitor(&format!("egress {id}"), io.tcp().waker(), config.p2ps.latency_calc_enabled);
        let labels = [("rssl", consumers.bound().rssl.to_string()), ("shard", id.to_string())];
        let shard = Self {
            monitor,
            io,
            consumers,
            client_load: client_load.clone(),
            behind: 0,
            taken: 0,
            events,
            requests,
            unsent: Vec::new(),
            coalescing: SendCoalescing::new(config.p2ps.writer_thread_count.max(1), config.p2ps.shard_rest_us),
            status,
            labels,
        };
        Ok((shard, handle))
    }

    fn start(mut self, id: u16, config: &Config, stop: Arc<AtomicUsize>) -> io::Result<JoinHandle<()>> {
        let cpus = config.p2ps.bind_writer_threads.get(usize::from(id)).cloned().unwrap_or_default();
        let (priority, slice) = (config.p2ps.priority.clone(), config.p2ps.slice_us);
        Builder::new().name(format!("egress {id}")).spawn(move || {
            config::place(&format!("egress shard {id}"), &cpus, &priority);
            config::slice(&format!("egress shard {id}"), slice);
            while stop.load(Ordering::Acquire) == 0 {
                if let Err(e) = self.turn() {
                    tracing::error!("egress shard {id}: the sockets have failed: {e}");
                    return;
                }
            }
        })
    }

    fn turn(&mut self) -> io::Result<()> {
        let Self { io, consumers, events, coalescing, .. } = self;
        let due = consumers.timeout();
        let deadline = if coalescing.until() > net::clock::now() {
            // The ring does not wake who rests.
            earliest([due, Some(coalescing.until())])
        } else if events.prepare_sleep() & self.unsent.is_empty() {
            due
        } else {
            Some(0)
        };
        let now = io.turn(deadline, consumers)?;
        events.awake();
        if self.monitor.times_next_turn() {
            consumers.time_turn(now);
        }
        consumers.on_timer(now, io);
        let before = *io.tcp().counters();
        let is_rested = coalescing.until() <= now;
        if is_rested {
            events.read(BLOCKS_PER_TURN, |_, block| {
                if let Err(e) = consumers.hub_block(now, SOURCE, block, io) {
                    tracing::error!("the hub stream could not be read: {e}");
                }
            });
        }
        consumers.flush(now, &[], io);
        consumers.end_turn(now, io);
        if is_rested {
            let (after, end) = (*io.tcp().counters(), net::clock::now());
            coalescing.after(
                end,
                end - now,
                after.send_calls - before.send_calls,
                after.bytes_sent - before.bytes_sent,
            );
        }
        let (behind, taken) = (consumers.behind(), consumers.p2ps.taken_behind());
        self.client_load.report((behind, self.behind), taken - self.taken);
        (self.behind, self.taken) = (behind, taken);
        self.send_requests();
        self.monitor.end_turn(now, || self.consumers.p2ps.delivered());
        if self.monitor.is_asked() {
            self.oversee(now);
        }
        if self.io.take_ready(STATUS) {
            self.answer(now);
        }
        Ok(())
    }

    /// Tells what is counted, for `quoteway lbmstat`.
    #[cold]
    fn answer(&mut self, now: u64) {
        if let Some(question) = self.status.as_mut().and_then(|status| status.question(now)) {
            question.answer(|samples| self.sample(samples));
        }
    }

    /// Answers what the thread of HTTP asks.
    #[cold]
    fn oversee(&mut self, now: u64) {
        let (mut samples, latency) = (Samples::default(), self.monitor.latency());
        self.sample(&mut samples);
        let (consumers, providers) = (Some(&mut self.consumers), None);
        let peers = Vec::new();
        self.monitor.answer(Thread { now, io: &mut self.io, consumers, providers, peers, samples, latency });
    }

    fn sample(&self, samples: &mut Samples) {
        self.consumers.sample(&self.labels, samples);
        samples.add_sockets(&self.labels, self.io.counters());
    }

    /// A full ring never holds a shard up: what does not fit waits here. The P2PS's open window bounds how much that is.
    fn send_requests(&mut self) {
        let Self { consumers, requests, unsent, .. } = self;
        let sent = unsent.iter().take_while(|block| requests.push(0, block) != Err(PushError::Full)).count();
        unsent.drain(..sent);
        consumers.p2ps.requests(|_, block| {
            for part in hub::stream::parts(block, requests.longest()) {
                if !unsent.is_empty() || requests.push(0, &part) == Err(PushError::Full) {
                    unsent.push(part.into_owned());
                }
            }
        });
        requests.publish();
    }
}
