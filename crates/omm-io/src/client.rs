//! A role and its connection.

use std::io;

use net::tcp::ConnId;
use rssl_io::{Ended, RsslIo};

use super::{Closed, Dialled, Reach, Role};

/// A role with the connection that it has, or will have.
pub struct Client<C, R> {
    /// The role.
    pub role: C,
    dialled: Dialled<R>,
}

impl<C: Role, R: Reach> Client<C, R> {
    /// A client that is not connected yet, to a server at `to`.
    pub const fn new(role: C, to: R) -> Self {
        Self { role, dialled: Dialled::new(to) }
    }

    /// Where the server is.
    pub const fn server(&self) -> &R {
        self.dialled.server()
    }

    /// Whether a connection is this client's.
    pub fn has(&self, conn: ConnId) -> bool {
        self.dialled.is(conn)
    }

    /// Does what is due, and dials if the role wants a connection. First of all in a turn.
    ///
    /// # Errors
    /// The server could not be dialled: the role knows, and wants it again in its time.
    pub fn connect(&mut self, now: u64, io: &mut RsslIo) -> io::Result<()> {
        self.dialled.connect(&mut self.role, now, io)
    }

    /// A session is established: true if it is this client's.
    pub fn opened(&mut self, now: u64, conn: ConnId) -> bool {
        self.dialled.opened(&mut self.role, now, conn)
    }

    /// A connection is over.
    pub fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) -> Closed {
        self.dialled.closed(&mut self.role, now, conn, ended)
    }

    /// The connection is to end once what the role has to say is sent.
    pub const fn leave(&mut self) {
        self.dialled.leave();
    }

    /// Sends what the role has to say; ends the connection behind it if that was asked for. Last of all in a turn.
    pub fn send(&mut self, now: u64, io: &mut RsslIo) {
        self.dialled.send(&mut self.role, now, io);
    }
}
