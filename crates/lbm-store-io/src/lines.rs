//! TCP connections that carry LBMC messages, each with a deframer and an owner's number.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};

use lbm::transport::tcp::Deframer;
use net::tcp::{Close, ConnId, Event, RecvOutcome, Scratch, SendOutcome, SocketOptions, Tcp, TcpConfig};

/// A connection, by the number that its owner gave it.
struct Line {
    number: u64,
    deframer: Deframer,
}

/// What has happened to a connection.
pub(crate) enum LineEvent<'a> {
    /// Somebody has connected.
    Accepted,
    /// A connection of ours stands.
    Connected,
    /// Whole messages. False: they cannot be read, and the connection is closed.
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
        })
    }

    /// Connects. An error is told as a connection that is over is.
    pub(crate) fn connect(&mut self, number: u64, to: SocketAddrV4) -> io::Result<()> {
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

    /// Deals with an event of the set: `each` gets the connection's number and what has happened.
    pub(crate) fn on_event(&mut self, event: Event, mut each: impl FnMut(u64, LineEvent<'_>) -> bool) {
        match event {
            Event::Accepted { conn, .. } => {
                if self.by_conn.len() >= self.connections_max {
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
            Event::Readable { conn } => {
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
            Event::Closed { conn, .. } => {
                if let Some(line) = self.by_conn.remove(&conn) {
                    self.by_number.remove(&line.number);
                    each(line.number, LineEvent::Closed);
                }
            }
            Event::AcceptFailed { .. } | Event::Drained { .. } | Event::Woken | Event::Ready { .. } => {}
        }
    }
}
