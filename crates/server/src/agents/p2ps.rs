//! A P2PS in a process of its own: consumers on one side, the hub on the other.
//!
//! With `writer_thread_count` it is so many P2PSs, each a thread with its own place in the hub and its own part of the
//! clients: they share nothing but the port and the count of mounts.

use std::hash::{Hash as _, Hasher as _};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use config::Config;
use hub_io::links::Blocks;
use hub_io::subscriber::Subscriber;
use hub_io::{LinkError, Ready};
use rustc_hash::FxHasher;

use hub::deadlines::earliest;
use hub::p2ps::{Joined, P2ps, SourceId};

use super::consumer_ports::{Bound, Port};
use super::consumers::Consumers;
use super::monitor::{Monitor, MonitorHandle, Thread, monitor};
use super::permissions::Permissioning;
use super::status::{STATUS, Status};
use crate::counters::{Part, Samples};
use rssl_io::RsslIo;

/// The agent.
pub struct P2psAgent {
    io: RsslIo,
    consumers: Consumers,
    hub: Subscriber,
    status: Option<Status>,
    monitor: Monitor,
    handle: MonitorHandle,
}

impl P2psAgent {
    /// Opens the ports. `incarnation` tells this life of the P2PS from others; `mounts` is shared by those that share a port,
    /// of which this is number `shard`.
    ///
    /// # Errors
    /// A port cannot be listened on, or a dictionary cannot be read; the message names it.
    pub fn new(
        config: &Config,
        (incarnation, shard): (u32, u16),
        mounts: Arc<AtomicUsize>,
        port: Port,
        permissioning: Option<&Permissioning>,
    ) -> io::Result<Self> {
        let mut io = RsslIo::with(u64::from(incarnation), super::batching(config))?;
        let machine = P2ps::new(config::across_processes_p2ps(config, incarnation, key(config, shard)?)?, 0);
        let mut consumers = Consumers::new(config, machine, mounts, port, &mut io)?;
        consumers.set_permissions(permissioning.map(|process| process.of_thread(shard, io.tcp().waker())));
        consumers.gather();
        let hub = Subscriber::new(config, incarnation, &format!("rssl port {}", consumers.port()), &mut io)?;
        let status = Status::open_in(&mut io)?;
        let (monitor, handle) = monitor(&format!("p2ps {shard}"), io.tcp().waker(), config.p2ps.latency_calc_enabled);
        Ok(Self { io, consumers, hub, status, monitor, handle })
    }

    /// The way to ask its thread.
    pub fn handle(&self) -> MonitorHandle {
        self.handle.clone()
    }

    /// Where consumers connect.
    pub fn bound(&self) -> Bound {
        self.consumers.bound()
    }

    /// The sockets, for a waker that ends a turn.
    pub fn io(&mut self) -> &mut RsslIo {
        &mut self.io
    }

    /// Serves until `stop` says so; it is asked after each turn.
    ///
    /// # Errors
    /// The sockets have become unusable.
    pub fn run(&mut self, stop: impl Fn() -> bool) -> io::Result<()> {
        while !stop() {
            self.turn()?;
        }
        // Streams that are open upstream need not be kept for this P2PS.
        let Self { io, consumers, hub, .. } = self;
        consumers.p2ps.leave();
        Delivery { consumers, io }.send_requests(net::clock::now(), hub);
        Ok(())
    }

    fn turn(&mut self) -> io::Result<()> {
        let Self { io, consumers, hub, .. } = self;
        let deadline = earliest([consumers.timeout(), hub.timeout()]);
        let now = io.turn(deadline, consumers)?;
        if self.monitor.times_next_turn() {
            consumers.time_turn(now);
        }
        // Before anything is read from the hub: after a standstill, what has become stale is to be known as such.
        consumers.on_timer(now, io);
        let ready = Ready::take(io);
        let mut delivery = Delivery { consumers, io };
        hub.turn(now, ready, &mut delivery)?;
        delivery.give_up_the_lost(now, hub);
        delivery.consumers.flush(now, &[], delivery.io);
        delivery.consumers.end_turn(now, delivery.io);
        delivery.send_requests(now, hub);
        self.monitor.end_turn(now, || self.consumers.p2ps.delivered());
        if self.monitor.is_asked() {
            self.oversee(now);
        }
        if self.io.take_ready(STATUS)
            && let Some(question) = self.status.as_mut().and_then(|status| status.question(now))
        {
            question.answer(|samples| self.sample(samples));
        }
        Ok(())
    }

    /// Answers what the thread of HTTP asks.
    #[cold]
    fn oversee(&mut self, now: u64) {
        let (mut samples, latency) = (Samples::default(), self.monitor.latency());
        self.sample(&mut samples);
        let (consumers, providers, peers) = (Some(&mut self.consumers), None, self.hub.peers());
        self.monitor.answer(Thread { now, io: &mut self.io, consumers, providers, peers, samples, latency });
    }

    /// The counters so far.
    pub fn sample(&self, samples: &mut Samples) {
        let labels = [("rssl", self.consumers.bound().rssl.to_string())];
        self.consumers.sample(&labels, samples);
        samples.add(Part::HubSubscriber, &labels, &self.hub.counters());
        if let Some(counters) = self.hub.aeron() {
            samples.add(Part::HubAeron, &labels, &counters);
        }
        samples.add_sockets(&labels, self.io.counters());
        samples.add_process();
    }
}

/// A key that tells this P2PS from others in every life of it: its host, its port and its number there; 0 (nobody is known again) if
/// the port is another one each time.
fn key(config: &Config, shard: u16) -> io::Result<u64> {
    if config.p2ps.rssl_port == 0 {
        return Ok(0);
    }
    let mut hasher = FxHasher::default();
    net::host::name().hash(&mut hasher);
    // Hosts in containers may share a name.
    let mut addresses: Vec<_> = net::interfaces::interfaces()?.into_iter().map(|i| i.address).collect();
    addresses.sort_unstable();
    addresses.hash(&mut hasher);
    (&config.p2ps.interface, config.p2ps.rssl_port, shard, &config.hub.name).hash(&mut hasher);
    Ok(hasher.finish().max(1))
}

/// Takes the blocks of the hub to the consumers.
struct Delivery<'a> {
    consumers: &'a mut Consumers,
    io: &'a mut RsslIo,
}

impl Delivery<'_> {
    /// A source that the state machine has lost by its rules (silence, a gap too old) is to be joined anew.
    fn give_up_the_lost(&mut self, now: u64, hub: &mut Subscriber) {
        let lost: Vec<_> = self.consumers.p2ps.closing_sources().collect();
        for (source, why) in lost {
            hub.leave(now, source, why, self);
        }
    }

    fn send_requests(&mut self, now: u64, hub: &mut Subscriber) {
        let mut failed = Vec::new();
        self.consumers.p2ps.requests(|source, block| {
            if let Err(why) = hub.send(source, block) {
                failed.push((source, why));
            }
        });
        for (source, why) in failed {
            hub.leave(now, source, &why.to_string(), self);
        }
    }
}

impl Blocks for Delivery<'_> {
    fn joined(&mut self, now: u64, source: SourceId, joined: Joined, name: &str) {
        self.consumers.p2ps.name_source(source, name);
        self.consumers.p2ps.source_joined(now, source, joined);
    }

    fn block(&mut self, now: u64, source: SourceId, block: &[u8]) -> Result<(), LinkError> {
        let read = self.consumers.hub_block(now, source, block, self.io);
        read.map_err(|why| LinkError::Block { what: "its stream", why })
    }

    fn point_to_point_block(&mut self, now: u64, source: SourceId, block: &[u8]) -> Result<(), LinkError> {
        let read = self.consumers.p2ps.point_to_point_block(now, source, block);
        read.map_err(|why| LinkError::Block { what: "what it sends", why })
    }

    fn lost(&mut self, now: u64, source: SourceId) {
        self.consumers.p2ps.source_down(now, source);
    }
}
