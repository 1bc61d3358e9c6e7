//! A connection of a run: the RSSL session, and what waits to be sent.

use std::sync::Arc;

use net::tcp::{ConnId, Tcp};
use rssl::{Connection, Negotiated, ServerConfig, Sink};

use crate::recording::Recording;

/// Bytes that may wait for a client at most: more than the largest dictionary many times.
const WAITING_MAX: usize = 64 << 20;

/// A connection.
pub(crate) struct Peer {
    pub(crate) id: ConnId,
    session: Connection,
    waiting: Vec<u8>,
    /// The handshake is done.
    pub(crate) is_up: bool,
    heard_ns: u64,
    paced_at_ns: u64,
}

/// Messages out of received bytes.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) messages: Vec<Vec<u8>>,
}

impl Sink for Received {
    fn connected(&mut self, _: &Negotiated) {}

    fn message(&mut self, msg: &[u8]) {
        self.messages.push(msg.to_vec());
    }
}

impl Peer {
    pub(crate) fn new(now: u64, id: ConnId, config: Arc<ServerConfig>, seed: u64) -> Self {
        let mut session = Connection::server(config).with_seed(seed);
        let mut waiting = Vec::new();
        session.start(now, &mut waiting);
        Self { id, session, waiting, is_up: false, heard_ns: now, paced_at_ns: now }
    }

    /// Takes bytes; an error is why the session is over.
    pub(crate) fn receive(&mut self, now: u64, bytes: &[u8], received: &mut Received) -> Result<(), String> {
        self.heard_ns = now;
        let done = self.session.receive(now, bytes, &mut self.waiting, received);
        self.is_up = self.session.is_connected();
        done.map_err(|why| why.to_string())
    }

    /// Writes a message; it waits until [`Peer::flush`].
    pub(crate) fn write(&mut self, now: u64, message: &[u8]) -> Result<(), String> {
        if self.waiting.len() > WAITING_MAX {
            return Err(format!("more than {WAITING_MAX} bytes wait for the client"));
        }
        self.session.write(now, message, &mut self.waiting).map_err(|error| error.to_string())
    }

    /// Leaves the last message half: what is sent ends inside its frame.
    pub(crate) fn write_half(&mut self, now: u64, message: &[u8]) -> Result<(), String> {
        let before = self.waiting.len();
        self.write(now, message)?;
        let half = (self.waiting.len() - before) / 2;
        self.waiting.truncate(before + half);
        Ok(())
    }

    /// Sends what waits, or so much of it as a pace in bytes a second allows.
    pub(crate) fn flush(&mut self, now: u64, tcp: &mut Tcp, pace: Option<u64>, recording: &mut Recording) {
        let most = pace.map_or(usize::MAX, |pace| (pace as f64 * (now - self.paced_at_ns) as f64 / 1e9) as usize);
        let count = self.waiting.len().min(most);
        if count > 0 {
            self.paced_at_ns = now;
            recording.passed(now, self.id, false, &self.waiting[..count]);
            tcp.send(self.id, &self.waiting[..count]);
            self.waiting.drain(..count);
        } else if self.waiting.is_empty() {
            self.paced_at_ns = now;
        }
    }

    pub(crate) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether a session may be pinged still: one that was silent for the ping timeout is the judge's, who has it go on.
    fn is_heard(&self, now: u64) -> bool {
        let timeout_s = self.session.negotiated().map_or(0, |terms| terms.ping_timeout_s);
        now.saturating_sub(self.heard_ns) < u64::from(timeout_s) * 1_000_000_000
    }

    pub(crate) fn due(&self, now: u64) -> Option<u64> {
        self.session.timeout().filter(|_| !self.is_up || self.is_heard(now))
    }

    /// Pings, if it is time; an error is why the session is over.
    pub(crate) fn ping(&mut self, now: u64) -> Result<(), String> {
        if self.is_up && !self.is_heard(now) {
            return Ok(());
        }
        self.session.on_timer(now, &mut self.waiting).map_err(|why| why.to_string())
    }
}
