//! TCP connections that carry LBMC messages, each with a deframer and its owner's number.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};

use lbm::transport::tcp::Deframer;
use net::Network;
use net::tcp::{Close, ConnId, Event, RecvOutcome, Scratch, SendOutcome, SocketOptions, Tcp, TcpConfig};

/// A connection, by the number that its owner gave it.
struct Line {
    number: u64,
    deframer: Deframer,
}

/// An event of a connection.
pub(crate) enum LineEvent<'a> {
    /// Somebody has connected.
    Accepted,
    /// A connection of ours stands.
    Connected,
    /// Whole messages.
    Messages(&'a [u8]),
    /// The connection is over.
    Closed,
}

/// The connections of a store or a client, in a set of their own.
pub(crate) struct Lines {
    pub(crate) tcp: Tcp,
    by_conn: HashMap<ConnId, Line>,
    by_number: HashMap<u64, ConnId>,
    scratch: Scratch,
    next: u64,
    /// Bytes that may wait for one connection.
    queue_max: usize,
    connections_max: usize,
    /// Addresses that may connect; empty: this host alone.
    allow: Vec<Network>,
    /// Connections of others, which were closed.
    refused: u64,
}

impl Lines {
    pub(crate) fn new(queue_max: usize, connections_max: usize) -> io::Result<Self> {
        Ok(Self {
            tcp: Tcp::new(TcpConfig::default())?,
            by_conn: HashMap::new(),
            by_number: HashMap::new(),
            scratch: Scratch::default(),
            next: 0,
            queue_max,
            connections_max,
            allow: Vec::new(),
            refused: 0,
        })
    }

    /// Takes connections of these networks, beside those of this host.
    pub(crate) fn allow(&mut self, networks: &[Network]) {
        self.allow = networks.to_vec();
    }

    fn takes(&self, peer: SocketAddr) -> bool {
        peer.ip().is_loopback() || self.allow.iter().any(|network| network.contains(peer.ip()))
    }

    /// Connections that were not taken, of strangers or for want of room.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Connects. An error is told as a connection that is over is.
    pub(crate) fn connect(&mut self, number: u64, to: SocketAddrV4) -> io::Result<()> {
        if self.by_conn.len() >= self.connections_max {
            return Err(io::Error::other(format!("there are {} connections already", self.connections_max)));
        }
        let conn = self.tcp.connect(SocketAddr::V4(to), &SocketOptions::default())?;
        self.by_conn.insert(conn, Line { number, deframer: Deframer::default() });
        self.by_number.insert(number, conn);
        Ok(())
    }

    pub(crate) fn close(&mut self, number: u64) {
        if let Some(conn) = self.by_number.remove(&number) {
            self.by_conn.remove(&conn);
            self.tcp.close(conn, Close::Now);
        }
    }

    /// Sends; a connection whose peer does not read is closed, which is told as its end.
    pub(crate) fn send(&mut self, number: u64, bytes: &[u8]) {
        let Some(conn) = self.by_number.get(&number).copied() else { return };
        if let SendOutcome::Queued(queued) = self.tcp.send(conn, bytes)
            && queued > self.queue_max
        {
            self.tcp.close(conn, Close::Reset);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.by_conn.len()
    }

    /// Deals with an event of the set: `each` gets the connection's number and what has happened; false: what came cannot be read, and the
    /// connection is closed.
    pub(crate) fn on_event(&mut self, event: Event, mut each: impl FnMut(u64, LineEvent<'_>) -> bool) {
        match event {
            Event::Accepted { conn, peer, .. } => {
                if self.by_conn.len() >= self.connections_max || !self.takes(peer) {
                    self.refused += 1;
                    return self.tcp.close(conn, Close::Now);
                }
                self.next += 1;
                self.by_conn.insert(conn, Line { number: self.next, deframer: Deframer::default() });
                self.by_number.insert(self.next, conn);
                each(self.next, LineEvent::Accepted);
            }
            Event::Connected { conn } => {
                if let Some(line) = self.by_conn.get(&conn) {
                    each(line.number, LineEvent::Connected);
                }
            }
            Event::Readable { conn } => self.read(conn, each),
            Event::Closed { conn, .. } => {
                if let Some(line) = self.by_conn.remove(&conn) {
                    self.by_number.remove(&line.number);
                    each(line.number, LineEvent::Closed);
                }
            }
            Event::AcceptFailed { .. } | Event::Drained { .. } | Event::Woken | Event::Ready { .. } => {}
        }
    }

    fn read(&mut self, conn: ConnId, mut each: impl FnMut(u64, LineEvent<'_>) -> bool) {
        let bytes = match self.tcp.recv(conn, &mut self.scratch) {
            RecvOutcome::Data(bytes) => &*bytes,
            RecvOutcome::Empty | RecvOutcome::Ended => return,
        };
        let Some(line) = self.by_conn.get_mut(&conn) else { return };
        let (number, mut good) = (line.number, true);
        let read = line.deframer.receive(bytes, |messages| good &= each(number, LineEvent::Messages(messages)));
        if read.is_err() || !good {
            self.tcp.close(conn, Close::Now);
        }
    }
}
