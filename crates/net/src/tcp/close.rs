//! The ends of connections: in order, at once, by a fault.

use std::cmp::Reverse;
use std::io;

use super::conn::Flags;
use super::{Close, CloseReason, ConnId, Due, Tcp};
use crate::{clock, sys};

impl Tcp {
    /// Closes a connection. From here on nothing of it is reported but [`Event::Closed`](super::Event::Closed), and nothing more can be sent.
    /// One that has ended by itself meanwhile keeps its reason.
    pub fn close(&mut self, conn: ConnId, how: Close) {
        let Some(state) = self.slots.open(conn) else { return };
        match how {
            Close::Drain(limit) if !state.flags.has(Flags::CONNECTING) || state.tail.is_some() => {
                // The limit of before stands.
                if state.flags.has(Flags::CLOSING) {
                    return;
                }
                state.flags.set(Flags::CLOSING);
                let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
                self.due.push(Reverse((clock::now().saturating_add(limit), Due::Close(conn))));
                if state.tail.is_none() {
                    self.shut(conn);
                }
            }
            Close::Drain(_) | Close::Now => self.end(conn, CloseReason::Local { drained: false }),
            Close::Reset => {
                let _ = sys::reset_on_close(state.fd());
                self.end(conn, CloseReason::Local { drained: false });
            }
        }
    }

    /// Sends end of stream; the end is when the peer's comes, so that no reset for unread input can overtake our last bytes.
    pub(super) fn shut(&mut self, id: ConnId) {
        let Some(conn) = self.slots.open(id) else { return };
        match sys::shutdown_write(conn.fd()) {
            Ok(()) => {
                conn.flags.set(Flags::SHUT);
                self.discard_input(id);
            }
            Err(e) => self.end(id, CloseReason::from_error(&e)),
        }
    }

    /// Throws away the input of a closing connection; its end, once seen, is the end of the closing.
    pub(super) fn discard_input(&mut self, id: ConnId) {
        const MOST: usize = 1 << 20;
        let Some(conn) = self.slots.open(id) else { return };
        // Bounded: a peer that goes on flooding after our end of stream is cut off.
        for _ in 0..64 {
            match sys::recv_discard(conn.fd(), MOST) {
                Ok(0) if conn.flags.has(Flags::SHUT) => return self.end(id, CloseReason::Local { drained: true }),
                // The peer will send no more but may still read: what is queued goes on being sent.
                Ok(0) => return,
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) => return self.end(id, CloseReason::from_error(&e)),
            }
        }
        self.close(id, Close::Reset);
    }

    /// The limit of a closing connection is over. Most have ended before.
    pub(super) fn close_overdue(&mut self, id: ConnId) {
        let Some(conn) = self.slots.open(id) else { return };
        if conn.tail.is_some() {
            let _ = sys::reset_on_close(conn.fd());
        }
        self.end(id, CloseReason::Local { drained: false });
    }

    /// Ends a connection: the descriptor goes at once, the slot when the end has been reported. The first reason counts.
    pub(super) fn end(&mut self, id: ConnId, why: CloseReason) {
        let Some(conn) = self.slots.open(id) else { return };
        conn.why = why;
        conn.flags = Flags::default();
        if let Some(tail) = conn.tail.take() {
            self.pool.put(tail);
        }
        conn.drop_fd();
        self.ended.push(id);
    }

    /// Cuts a connection by its fault, if nothing has ended it before.
    pub(super) fn cut(&mut self, id: ConnId) {
        let Some(conn) = self.slots.open(id) else { return };
        if conn.fault.as_ref().is_some_and(|fault| fault.reset) {
            let _ = sys::reset_on_close(conn.fd());
        }
        self.end(id, CloseReason::Fault);
    }
}
