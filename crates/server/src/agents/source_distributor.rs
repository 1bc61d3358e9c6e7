//! A Source Distributor in a process of its own: providers on one side, the hub on the other.

use std::io;
use std::net::SocketAddr;

use config::Config;
use hub::deadlines::earliest;
use hub::distributor::{Restore, SourceDistributor};
use hub_io::publisher::{Publisher, Requests};
use hub_io::{HubPeer, LinkError, Ready, copy};

use super::monitor::{Monitor, MonitorHandle, Thread, monitor};
use super::providers::Providers;
use super::status::{STATUS, Status};
use crate::counters::{Part, Samples};
use rssl_io::RsslIo;

/// The agent.
pub struct SourceDistributorAgent {
    io: RsslIo,
    providers: Providers,
    hub: Publisher,
    /// Providers are not read: the data stream does not flow, or too much of it is on its way to a P2PS.
    holding: bool,
    status: Option<Status>,
    name: String,
    monitor: Monitor,
    handle: MonitorHandle,
}

hub::counters! {
/// How a P2PS keeps up, as its Source Distributor sees it.
pub struct P2psBehind {
    /// Bytes of the stream that the P2PS has yet to read.
    pub behind_bytes: u64 as Gauge in Bytes,
    /// 1 for a P2PS that is not waited for any more since it did not move.
    pub left_behind: u64 as Gauge,
}
}

/// Where a Source Distributor can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// Non-interactive providers, if they are accepted.
    pub nip: Option<SocketAddr>,
    /// P2PSs.
    pub hub: SocketAddr,
}

impl SourceDistributorAgent {
    /// Opens the ports of one of the threads that the configuration asks for, counted from 0: each is a Source Distributor of its own. `incarnation` tells this life of it
    /// from earlier ones, and from the other threads.
    ///
    /// # Errors
    /// A port cannot be listened on; the message names it.
    pub fn new(config: &Config, incarnation: u32, thread: u16) -> io::Result<Self> {
        let config = &config::of_source_thread(config, thread);
        let mut io = RsslIo::new(u64::from(incarnation))?;
        let mut machine = SourceDistributor::new(config::across_processes_distributor(config), incarnation);
        // Before any port is open: of two that start together neither waits for the other.
        copy_images(config, incarnation, &mut machine)?;
        let mut providers = Providers::new(config, machine, &mut io)?;
        providers.share_routes(thread);
        let hub = Publisher::new(config, incarnation, &mut io)?;
        let status = Status::open_in(&mut io)?;
        let timed = config.source_distributor.latency_calc_enabled;
        let (monitor, handle) = monitor(&name_of(thread), io.tcp().waker(), timed);
        Ok(Self { io, providers, hub, holding: false, status, name: config.hub.name.clone(), monitor, handle })
    }

    /// The way to ask its thread.
    pub fn handle(&self) -> MonitorHandle {
        self.handle.clone()
    }

    /// The ports that were opened.
    pub fn addresses(&self) -> Addresses {
        Addresses { nip: self.providers.nip_addr(), hub: self.hub.addr() }
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
        self.announce(net::clock::now());
        self.providers.on_timer(net::clock::now(), &mut self.io);
        while !stop() {
            self.turn()?;
        }
        self.providers.distributor.leave("it is being stopped");
        self.publish(net::clock::now());
        Ok(())
    }

    fn turn(&mut self) -> io::Result<()> {
        let deadline = earliest([self.providers.timeout(), self.hub.timeout()]);
        if self.monitor.times_next_turn() {
            self.providers.time_turn();
        }
        let now = self.io.turn(deadline, &mut self.providers)?;
        self.announce(now);
        self.providers.on_timer(now, &mut self.io);
        // Updates go out before the requests are looked at, which may be many.
        self.publish(now);
        let ready = Ready::take(&mut self.io);
        if ready.any() || self.hub.timeout().is_some_and(|at| at <= now) {
            self.hub.turn(now, ready, &mut self.providers)?;
            self.publish(now);
            while let Some(joined) = self.hub.join(self.providers.distributor.next_position()) {
                if joined.unpaced {
                    self.providers.distributor.p2ps_up_unpaced(now, joined.number);
                } else {
                    self.providers.distributor.p2ps_up(now, joined.number);
                }
                self.publish(now);
            }
        }
        let distributor = &mut self.providers.distributor;
        self.hub.give_copies(now, |from, most, each| distributor.copy_records(from, most, each));
        self.send_point_to_point(now);
        let hold = self.providers.distributor.must_wait(now) || self.hub.is_congested();
        if hold != self.holding {
            self.holding = hold;
            self.providers.hold(self.holding, &mut self.io);
        }
        self.providers.flush(now, &mut self.io);
        self.providers.end_timed_turn(now);
        self.monitor.end_turn(now, || self.providers.distributor.counters().updates);
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
        let peers = self.peers().collect();
        let (consumers, providers) = (None, Some(&mut self.providers));
        self.monitor.answer(Thread { now, io: &mut self.io, consumers, providers, peers, samples, latency });
    }

    /// The P2PSs that have joined.
    fn peers(&self) -> impl Iterator<Item = HubPeer> {
        self.providers.distributor.p2pss().map(|(number, behind_bytes, left_behind)| HubPeer {
            kind: "p2ps",
            name: self.hub.peer(number).unwrap_or("-").to_owned(),
            state: if left_behind { "left behind" } else { "joined" },
            behind_bytes,
        })
    }

    /// The counters so far.
    pub fn sample(&self, samples: &mut Samples) {
        let labels = [("hub", self.name.clone())];
        self.providers.sample(&labels, self.holding, samples);
        samples.add(Part::HubPublisher, &labels, &self.hub.counters());
        if let Some(counters) = self.hub.aeron() {
            samples.add(Part::HubAeron, &labels, &counters);
        }
        for (number, behind_bytes, left_behind) in self.providers.distributor.p2pss() {
            let peer = self.hub.peer(number).unwrap_or("-").to_owned();
            let behind = P2psBehind { behind_bytes, left_behind: left_behind.into() };
            samples.add(Part::P2psOf, &[("p2ps", peer)], &behind);
        }
        samples.add_sockets(&labels, self.io.counters());
        samples.add_process();
    }

    /// Before heartbeats are written: what they say of this Source Distributor may be signed anew.
    fn announce(&mut self, now: u64) {
        if let Some(announcement) = self.hub.announcement(now) {
            self.providers.distributor.announce(&announcement);
        }
    }

    fn publish(&mut self, now: u64) {
        let Self { providers, hub, .. } = self;
        if let Some(block) = providers.distributor.block() {
            hub.publish(block);
            providers.distributor.clear_block();
        }
        self.end_the_lost(now);
    }

    /// Sends what is for one P2PS alone.
    fn send_point_to_point(&mut self, now: u64) {
        let Self { providers, hub, .. } = self;
        providers.distributor.point_to_point_blocks(|number, block| hub.send_to(number, block));
        self.end_the_lost(now);
    }

    /// P2PSs that took too little of what was sent, or that the state machine has given up by its rules (silence).
    fn end_the_lost(&mut self, now: u64) {
        let Self { providers, hub, .. } = self;
        while let Some(number) = hub.next_cut_off() {
            providers.p2ps_lost(now, number, "it takes less than it is sent");
        }
        for (number, why) in providers.distributor.closing_p2ps() {
            hub.end_number(number, why);
        }
    }
}

/// A thread's name, for people.
pub fn name_of(thread: u16) -> String {
    if thread == 0 { "source distributor".to_owned() } else { format!("source distributor {}", thread + 1) }
}

impl Requests for Providers {
    fn requests(&mut self, now: u64, number: u16, block: &[u8]) -> Result<(), LinkError> {
        let read = Providers::requests(self, now, number, block);
        read.map_err(|why| LinkError::Block { what: "its requests", why })
    }

    fn gone(&mut self, now: u64, number: u16) {
        self.p2ps_gone(now, number);
    }
}

/// Takes over the images that another Source Distributor holds, as Suspect: what has become of them since, their providers will say.
fn copy_images(config: &Config, incarnation: u32, machine: &mut SourceDistributor) -> io::Result<()> {
    if config.source_distributor.cache_resiliency_hosts.is_empty() {
        return Ok(());
    }
    let (now, how) = (net::clock::now(), Restore { as_stale: true, is_kept: false });
    let (mut refused, mut why) = (0_u64, None);
    copy::copy(config, incarnation, |record| match machine.restore(now, record, how) {
        Ok(_) => {}
        Err(error) => {
            refused += 1;
            why.get_or_insert(error);
        }
    })?;
    if let Some(why) = why {
        tracing::warn!("{refused} of the images that were copied are not taken: of the first, {why}");
    }
    Ok(())
}
