//! Sending: straight to the kernel, to a connection's tail, or a batch at a time.

use std::io;

use super::conn::{Flags, Slots};
use super::uring::{self, Batcher};
use super::{BASE, CloseReason, ConnId, OUT, SendOutcome, SendSummary, Tcp, token};
use crate::sys;

impl Tcp {
    /// Sends: the kernel gets what it takes at once, the rest is queued and follows by itself, in order. With bytes queued already,
    /// or before the connection is established, all are queued.
    #[inline]
    pub fn send(&mut self, conn: ConnId, bytes: &[u8]) -> SendOutcome {
        let Some(state) = self.slots.open(conn) else { return SendOutcome::Gone };
        if bytes.is_empty() || state.flags.has(Flags::SEND_ASIDE) {
            return self.send_aside(conn, bytes);
        }
        self.counters.send_calls += 1;
        let result = sys::send(state.fd(), bytes);
        self.after_send(conn, bytes, result)
    }

    /// Accounts for a send that was tried, and queues what was refused.
    #[inline]
    fn after_send(&mut self, conn: ConnId, bytes: &[u8], result: io::Result<usize>) -> SendOutcome {
        match result {
            Ok(n) if n == bytes.len() => {
                self.counters.bytes_sent += n as u64;
                SendOutcome::Sent
            }
            Ok(n) => {
                self.counters.bytes_sent += n as u64;
                self.queue(conn, &bytes[n..])
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.queue(conn, bytes),
            Err(e) => {
                self.fail_send(conn, &e);
                SendOutcome::Gone
            }
        }
    }

    /// Nothing more can be sent. What the peer said before it went (as a rule why) may still wait to be received: it is delivered
    /// before the end.
    #[cold]
    pub(super) fn fail_send(&mut self, id: ConnId, error: &io::Error) {
        let why = CloseReason::from_error(error);
        let Some(conn) = self.slots.open(id) else { return };
        if conn.flags.has(Flags::HELD) {
            return self.end(id, why);
        }
        conn.why = why;
        if let Some(tail) = conn.tail.take() {
            self.pool.put(tail);
        }
        conn.flags.clear(Flags::TAIL);
        for flag in [Flags::SEND_FAILED, Flags::READABLE, Flags::ENDING] {
            conn.flags.set(flag);
        }
        self.list(id);
    }

    #[cold]
    fn send_aside(&mut self, conn: ConnId, bytes: &[u8]) -> SendOutcome {
        let Some(state) = self.slots.open(conn) else { return SendOutcome::Gone };
        if state.flags.has(Flags::CLOSING) || state.flags.has(Flags::SEND_FAILED) {
            return SendOutcome::Gone;
        }
        if bytes.is_empty() {
            return match state.queued() {
                0 => SendOutcome::Sent,
                queued => SendOutcome::Queued(queued),
            };
        }
        if let Some(fault) = &mut state.fault {
            let allowed = fault.send_limit().min(bytes.len());
            fault.on_sent(allowed);
            if allowed < bytes.len() {
                if !state.flags.has(Flags::CONNECTING) && state.tail.is_none() {
                    let _ = sys::send(state.fd(), &bytes[..allowed]);
                }
                self.cut(conn);
                return SendOutcome::Gone;
            }
        }
        if state.flags.has(Flags::CONNECTING) || state.tail.is_some() {
            return self.queue(conn, bytes);
        }
        self.counters.send_calls += 1;
        let result = sys::send(state.fd(), bytes);
        self.after_send(conn, bytes, result)
    }

    #[cold]
    fn queue(&mut self, id: ConnId, bytes: &[u8]) -> SendOutcome {
        let Some(conn) = self.slots.open(id) else { return SendOutcome::Gone };
        self.counters.short_sends += 1;
        if conn.tail.is_none() {
            conn.tail = Some(self.pool.tail());
            conn.flags.set(Flags::TAIL);
        }
        let tail = conn.tail.as_mut().expect("just ensured");
        tail.push(bytes, &mut self.pool);
        let queued = tail.len();
        if !conn.flags.has(Flags::ARMED) {
            // Re-registering looks at the socket anew, so an edge between the refused send and this call is not lost.
            conn.flags.set(Flags::ARMED);
            self.counters.arms += 1;
            if let Err(e) = self.epoll.modify(conn.fd(), BASE | OUT, token(id)) {
                self.end(id, CloseReason::from_error(&e));
                return SendOutcome::Gone;
            }
        }
        SendOutcome::Queued(queued)
    }

    /// Sends each connection of the batch its bytes, as [`send`](Self::send) does: the form in which a turn's output is handed over, and
    /// the one that [`Batching`](super::Batching) makes cheaper. `bytes` finds those of an entry, always the same. A connection may
    /// occur once only.
    pub fn send_all<'b, T>(&mut self, batch: &'b [(ConnId, T)], bytes: impl Fn(&'b T) -> &'b [u8]) -> SendSummary {
        let mut summary = SendSummary::default();
        let mut rest = batch;
        while rest.len() >= uring::WORTHWHILE
            && let Some(ring) = self.batcher.take()
        {
            let (now, later) = rest.split_at(rest.len().min(uring::ENTRIES));
            self.send_by_ring(ring, now, &bytes, &mut summary);
            rest = later;
        }
        for (conn, entry) in rest {
            summary.add(self.send(*conn, bytes(entry)));
        }
        summary
    }

    fn send_by_ring<'b, T>(
        &mut self,
        mut ring: Box<uring::Uring>,
        batch: &'b [(ConnId, T)],
        bytes: &impl Fn(&'b T) -> &'b [u8],
        summary: &mut SendSummary,
    ) {
        let straight = |slots: &mut Slots, conn: ConnId, data: &[u8]| {
            !data.is_empty() && slots.open(conn).is_some_and(|state| !state.flags.has(Flags::SEND_ASIDE))
        };
        for (conn, entry) in batch {
            let data = bytes(entry);
            if straight(&mut self.slots, *conn, data) {
                let state = self.slots.open(*conn).expect("just seen");
                // SAFETY: the bytes are borrowed for the whole call, and no connection is closed before the submission returns.
                unsafe { ring.push(state.fd(), data) };
            }
        }
        self.counters.send_calls += 1;
        let outcome = ring.submit();
        let mut index = 0;
        for (conn, entry) in batch {
            let data = bytes(entry);
            // Still true for those that were put in: what happens to one connection here changes no other.
            let result = if straight(&mut self.slots, *conn, data) {
                index += 1;
                ring.result(index - 1)
            } else {
                None
            };
            summary.add(match result {
                Some(result) => self.after_send(*conn, data, result),
                None => self.send(*conn, data),
            });
        }
        ring.clear();
        match outcome {
            Ok(()) => self.batcher = Batcher::On(ring),
            Err(e) => self.batcher.refuse(&e),
        }
    }

    /// Why `io_uring` is not used although it was asked for.
    pub fn batching_refused(&self) -> Option<&str> {
        match &self.batcher {
            Batcher::Refused(why) => Some(why),
            _ => None,
        }
    }
}

impl SendSummary {
    fn add(&mut self, outcome: SendOutcome) {
        match outcome {
            SendOutcome::Sent => self.sent += 1,
            SendOutcome::Queued(_) => self.queued += 1,
            SendOutcome::Gone => self.gone += 1,
        }
    }
}
