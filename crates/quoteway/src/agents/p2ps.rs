//! A P2PS in a process of its own: consumers on one side, the hub on the other.
//!
//! With `writer_thread_count` it is so many P2PSs, each a thread with its own place in the hub and its own part of the
//! clients: they share nothing but the port and the count of mounts.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use hub::p2ps::{self, SourceId};

use super::backbone::subscriber::{Blocks, Joined, Subscriber};
use super::consumers::{Consumers, Port};
use super::rssl_io::RsslIo;
use crate::config::{self, Config};

/// The agent.
pub struct P2psAgent {
    io: RsslIo,
    consumers: Consumers,
    hub: Subscriber,
    /// Sources joined that the state machine has to be watched for giving up.
    joined: Vec<SourceId>,
    rssl: SocketAddr,
}

impl P2psAgent {
    /// Opens the ports. `incarnation` tells this life of the P2PS from others; `mounts` is shared by those that share a port.
    ///
    /// # Errors
    /// A port cannot be listened on, or a dictionary cannot be read; the message names it.
    pub fn new(config: &Config, incarnation: u32, mounts: Arc<AtomicUsize>, port: Port) -> io::Result<Self> {
        let mut io = RsslIo::new(u64::from(incarnation))?;
        let machine = p2ps::P2ps::new(config::across_processes_p2ps(config, incarnation)?, 0);
        let (consumers, rssl) = Consumers::new(config, machine, mounts, port, &mut io)?;
        let hub = Subscriber::new(config, incarnation, &format!("rssl port {}", rssl.port()), &mut io)?;
        Ok(Self { io, consumers, hub, joined: Vec::new(), rssl })
    }

    /// Where consumers connect.
    pub fn rssl_addr(&self) -> SocketAddr {
        self.rssl
    }

    /// Where consumers with the encrypted connection type connect, if there is a certificate.
    pub fn encrypted_addr(&self) -> Option<SocketAddr> {
        self.consumers.encrypted_addr()
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
        Ok(())
    }

    fn turn(&mut self) -> io::Result<()> {
        let Self { io, consumers, hub, joined, .. } = self;
        let deadline = [consumers.timeout(), hub.timeout()].into_iter().flatten().min();
        let now = io.turn(deadline, consumers)?;
        // Before anything is read from the hub: after a standstill, what has become stale is to be known as such.
        consumers.on_timer(now, io);
        let ready = io.take_ready(super::backbone::UNICAST) || hub.timeout().is_some_and(|at| at <= now);
        let mut desk = Desk { consumers, io, joined };
        if ready {
            hub.turn(now, &mut desk)?;
        }
        desk.give_up_the_lost(now, hub);
        desk.consumers.flush(now, &[], desk.io);
        desk.send_requests(now, hub);
        Ok(())
    }
}

/// What the hub's blocks are handed to.
struct Desk<'a> {
    consumers: &'a mut Consumers,
    io: &'a mut RsslIo,
    joined: &'a mut Vec<SourceId>,
}

impl Desk<'_> {
    /// A source that the state machine has lost by its rules (silence, nonsense) is to be joined anew.
    fn give_up_the_lost(&mut self, now: u64, hub: &mut Subscriber) {
        while let Some(at) = self.joined.iter().position(|&s| !self.consumers.p2ps.source_is_up(s)) {
            let source = self.joined.swap_remove(at);
            hub.leave(now, source, "it is lost to this P2PS", self);
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
            hub.leave(now, source, &why, self);
        }
    }
}

impl Blocks for Desk<'_> {
    fn joined(&mut self, now: u64, source: SourceId, _joined: Joined) {
        self.joined.push(source);
        self.consumers.p2ps.source_up(now, source);
    }

    fn block(&mut self, now: u64, source: SourceId, block: &[u8]) -> Result<(), String> {
        self.consumers.hub_block(now, source, block, self.io).map_err(|e| format!("its stream cannot be read: {e}"))
    }

    fn lost(&mut self, now: u64, source: SourceId) {
        self.joined.retain(|&s| s != source);
        self.consumers.p2ps.source_down(now, source);
    }
}
