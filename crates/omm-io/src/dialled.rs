//! A connection that this process makes and makes again: whoever fails goes on to the server's next place.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use net::tcp::{ConnId, SocketOptions};
use rssl::{ClientConfig, Version};
use rssl_io::{Ended, RsslIo};

use super::Role;

/// Where a server is reached: one place after the other.
pub trait Reach: Display {
    /// The place to try.
    fn address(&self) -> SocketAddr;

    /// The place could not be used, or not any longer: another is to be tried.
    fn go_on(&mut self);
}

/// A server with one place.
impl Reach for SocketAddr {
    fn address(&self) -> SocketAddr {
        *self
    }

    fn go_on(&mut self) {}
}

/// The meaning that the end of a connection has for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// The connection was another one's.
    OfAnother,
    /// The server is dialled again, with a version that it knows.
    Redialled,
    /// The role knows that it has no connection.
    Lost,
}

/// The connection of a role that its owner keeps elsewhere; [`Client`](super::Client) keeps both.
pub struct Dialled<R> {
    to: R,
    conn: Option<ConnId>,
    /// The version that the server is greeted with.
    version: Version,
    /// The server knows another version of the protocol: it is dialled again at once, of which the role hears nothing.
    redial: bool,
    /// The role has no more use for the connection: it goes when what waits has been sent.
    leaves: bool,
}

impl<R: Reach> Dialled<R> {
    /// A connection that is not made yet, to a server at `to`.
    pub const fn new(to: R) -> Self {
        Self { to, conn: None, version: Version::V14, redial: false, leaves: false }
    }

    /// Where the server is.
    pub const fn server(&self) -> &R {
        &self.to
    }

    /// The connection, while there is one or one is being made.
    pub const fn conn(&self) -> Option<ConnId> {
        self.conn
    }

    /// Whether a connection is this one.
    pub fn is(&self, conn: ConnId) -> bool {
        self.conn == Some(conn)
    }

    /// Does what is due, and dials if the role wants a connection.
    ///
    /// # Errors
    /// The server could not be dialled: the role knows, and wants it again in its time.
    pub fn connect(&mut self, role: &mut impl Role, now: u64, io: &mut RsslIo) -> io::Result<()> {
        role.handle_timeout(now);
        if self.conn.is_some() || !(std::mem::take(&mut self.redial) || role.wants_connection(now)) {
            return Ok(());
        }
        self.leaves = false;
        let config = ClientConfig { version: self.version, ..ClientConfig::default() };
        let dialled = io.connect(now, self.to.address(), &SocketOptions::default(), Arc::new(config), None);
        if dialled.is_err() {
            self.to.go_on();
            role.disconnected(now);
        }
        self.conn = Some(dialled?);
        Ok(())
    }

    /// A session is established: true if it is on this connection.
    pub fn opened(&mut self, role: &mut impl Role, now: u64, conn: ConnId) -> bool {
        let is_own = self.is(conn);
        if is_own {
            role.connected(now);
        }
        is_own
    }

    /// A connection is over.
    pub fn closed(&mut self, role: &mut impl Role, now: u64, conn: ConnId, ended: &Ended) -> Closed {
        if !self.is(conn) {
            return Closed::OfAnother;
        }
        self.conn = None;
        self.version = ended.next_version.unwrap_or(Version::V14);
        self.redial = ended.next_version.is_some();
        if self.redial {
            return Closed::Redialled;
        }
        self.to.go_on();
        role.disconnected(now);
        Closed::Lost
    }

    /// The connection is to end once what the role has to say is sent (`omm::consumer::Event::Disconnect` asks for it).
    pub const fn leave(&mut self) {
        self.leaves = true;
    }

    /// Sends what the role has to say; ends the connection behind it if that was asked for.
    pub fn send(&mut self, role: &mut impl Role, now: u64, io: &mut RsslIo) {
        let Some(conn) = self.conn else {
            // Without a connection a role has nothing to say: what it wants is said again on the next one.
            return;
        };
        io.send(now, conn, |packer| {
            while let Some(msg) = role.poll_transmit() {
                packer.push(msg, None);
            }
        });
        if std::mem::take(&mut self.leaves) {
            io.close_drained(conn, "the session is over");
        }
    }
}
