//! Connections that come, say something and go leave no memory behind, on either side and however they end. This binary has one test,
//! because it counts the allocations of the whole process.

use std::alloc::System;
use std::net::SocketAddr;
use std::sync::Arc;

use net::tcp::{Close, ConnId, SocketOptions};
use rssl::{ClientConfig, ServerConfig};
use rssl_io::{Ended, Handler, Listener, Opened, RsslIo};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Connections that are there together, and how often they come.
const TOGETHER: usize = 100;
const EARLY: usize = 20;
const ROUNDS: usize = 100;

/// Events of one side.
#[derive(Default)]
struct Side {
    opened: Vec<ConnId>,
    messages: usize,
    closed: usize,
}

impl Handler for Side {
    fn opened(&mut self, _: u64, conn: ConnId, _: &Opened<'_>) {
        self.opened.push(conn);
    }
    fn message(&mut self, _: u64, _: ConnId, _: &[u8]) {
        self.messages += 1;
    }
    fn closed(&mut self, _: u64, _: ConnId, _: &Ended) {
        self.closed += 1;
    }
}

struct World {
    server: (RsslIo, Side),
    clients: (RsslIo, Side),
    addr: SocketAddr,
    config: Arc<ClientConfig>,
}

impl World {
    fn new() -> Self {
        let mut io = RsslIo::new(1).expect("descriptors");
        let listener = Listener::rssl(Arc::new(ServerConfig::default()));
        let (_, addr) = io.listen_as(([127, 0, 0, 1], 0).into(), &SocketOptions::default(), listener).expect("a port");
        let clients = (RsslIo::new(2).expect("descriptors"), Side::default());
        Self { server: (io, Side::default()), clients, addr, config: Arc::new(ClientConfig::default()) }
    }

    fn until(&mut self, what: &str, enough: impl Fn(&Side, &Side) -> bool) {
        let end = net::clock::now() + 60_000_000_000;
        while !enough(&self.server.1, &self.clients.1) {
            for (io, side) in [&mut self.clients, &mut self.server] {
                let at = io.turn(Some(net::clock::now() + 1_000_000), side).expect("sockets");
                assert!(at < end, "{what}: {} {}", side.messages, side.closed);
            }
        }
    }

    /// Clients come, each says something and is answered, and they go: the first half by a reset, the others in order.
    fn round(&mut self, message: &[u8]) {
        for _ in 0..TOGETHER {
            let (io, options) = (&mut self.clients.0, SocketOptions::default());
            io.connect(net::clock::now(), self.addr, &options, Arc::clone(&self.config), None).expect("a socket");
        }
        self.until("sessions", |server, clients| server.opened.len() + clients.opened.len() == 2 * TOGETHER);
        for (io, side) in [&mut self.clients, &mut self.server] {
            for conn in &side.opened {
                io.send(net::clock::now(), *conn, |packer| {
                    packer.push(message, None);
                });
            }
        }
        self.until("messages", |server, clients| server.messages + clients.messages == 2 * TOGETHER);
        for (at, conn) in self.clients.1.opened.iter().enumerate() {
            let how = if at < TOGETHER / 2 { Close::Reset } else { Close::Now };
            self.clients.0.close(*conn, "gone", how);
        }
        self.until("the end", |server, clients| server.closed + clients.closed == 2 * TOGETHER);
        for side in [&mut self.server.1, &mut self.clients.1] {
            side.opened.clear();
            (side.messages, side.closed) = (0, 0);
        }
    }
}

fn in_use() -> isize {
    // Tables that grow and shrink by reallocation are among both.
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated as isize - stats.bytes_deallocated as isize
}

#[test]
fn connections_that_come_and_go_leave_nothing_behind() {
    // A status of the login domain, as it is said often: what it means is not looked at here.
    let message = [0, 16, 3, 1, 0, 0, 0, 1, 0, 0, 128, 0, 0, 0, 0, 0, 0, 0];
    let mut world = World::new();
    (0..EARLY).for_each(|_| world.round(&message));
    let early = in_use();
    (0..ROUNDS).for_each(|_| world.round(&message));
    let grown = in_use() - early;
    // A single table may have taken more room, whatever the number of connections; a byte for each were 10,000.
    assert!(grown < 4_096, "{grown} bytes more after {} connections", ROUNDS * TOGETHER);
}
