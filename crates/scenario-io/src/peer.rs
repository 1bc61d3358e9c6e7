//! A connection of a run: its session, and what waits to be sent.

use std::sync::Arc;

use net::tcp::{ConnId, Tcp};
use rssl::ws::upgrade::{self, Protocol};
use rssl::{ClientConfig, Connection, Negotiated, ServerConfig, Sink};
use scenario::play::Spoken;

use crate::json::JsonSession;
use crate::recording::Recording;

/// Bytes that may wait for a client at most: more than the largest dictionary many times.
const WAITING_MAX: usize = 64 << 20;

/// What a connection speaks.
enum Session {
    /// The first bytes of a client have not told.
    Undecided {
        head: Vec<u8>,
        seed: u64,
    },
    Rssl(Box<Connection>),
    Json(Box<JsonSession>),
}

/// A connection.
pub(crate) struct Peer {
    pub(crate) id: ConnId,
    /// The server of the run whose connection it is.
    pub(crate) server: usize,
    session: Session,
    config: Arc<ServerConfig>,
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
    /// Pings are not answered.
    pub(crate) is_silent: bool,
}

impl Sink for Received {
    fn connected(&mut self, _: &Negotiated) {}

    fn message(&mut self, msg: &[u8]) {
        self.messages.push(msg.to_vec());
    }
}

impl Peer {
    /// A connection that came in: RSSL, or JSON over WebSocket.
    pub(crate) fn taken(now: u64, id: ConnId, server: usize, config: Arc<ServerConfig>, seed: u64) -> Self {
        Self { server, ..Self::new(now, id, config, Session::Undecided { head: Vec::new(), seed }) }
    }

    /// A connection that was made to a provider.
    pub(crate) fn dialled(now: u64, id: ConnId, config: Arc<ServerConfig>, terms: ClientConfig) -> Self {
        let mut peer = Self::new(now, id, config, Session::Rssl(Box::new(Connection::client(terms))));
        if let Session::Rssl(rssl) = &mut peer.session {
            rssl.start(now, &mut peer.waiting);
        }
        peer
    }

    fn new(now: u64, id: ConnId, config: Arc<ServerConfig>, session: Session) -> Self {
        Self { id, server: 0, session, config, waiting: Vec::new(), is_up: false, heard_ns: now, paced_at_ns: now }
    }

    /// Takes bytes; `false`: the peer has closed the session in order. An error is what it did wrong.
    pub(crate) fn receive(&mut self, now: u64, bytes: &[u8], received: &mut Received) -> Result<bool, String> {
        self.heard_ns = now;
        match &mut self.session {
            Session::Undecided { head, .. } => {
                head.extend_from_slice(bytes);
                self.begin(now, received)
            }
            Session::Rssl(rssl) => {
                let done = rssl.receive(now, bytes, &mut self.waiting, received);
                self.is_up = rssl.is_connected();
                done.map(|()| true).map_err(|why| why.to_string())
            }
            Session::Json(json) => {
                json.is_silent = received.is_silent;
                json.receive(now, bytes, &mut self.waiting, &mut received.messages)
            }
        }
    }

    /// The first bytes tell what the client speaks: a request of HTTP begins with a letter, a frame of RSSL with its length.
    fn begin(&mut self, now: u64, received: &mut Received) -> Result<bool, String> {
        let Session::Undecided { head, seed } = &mut self.session else { return Ok(true) };
        if !head.first().is_some_and(u8::is_ascii_uppercase) {
            let (head, seed) = (std::mem::take(head), *seed);
            let mut rssl = Connection::server(Arc::clone(&self.config)).with_seed(seed);
            rssl.start(now, &mut self.waiting);
            self.session = Session::Rssl(Box::new(rssl));
            return self.receive(now, &head, received);
        }
        let offer = upgrade::Offer { protocols: vec![Protocol::Json, Protocol::JsonV2], ..upgrade::Offer::default() };
        match upgrade::read(head, &offer) {
            upgrade::Request::Incomplete => Ok(true),
            upgrade::Request::Refused(refusal) => {
                refusal.answer(&mut self.waiting);
                Err(format!("no request for a WebSocket session that is served here: {}", refusal.why))
            }
            upgrade::Request::Upgrade(upgrade, length) => {
                upgrade.answer(&mut self.waiting);
                let rest = head.split_off(length);
                self.session = Session::Json(Box::new(JsonSession::new(now, &upgrade, self.config.ping_timeout_max_s)));
                self.is_up = true;
                if rest.is_empty() { Ok(true) } else { Err("frames before the upgrade was answered".to_owned()) }
            }
        }
    }

    /// What the session speaks.
    pub(crate) fn spoken(&self) -> Spoken {
        if matches!(self.session, Session::Json(_)) { Spoken::Json } else { Spoken::Rssl }
    }

    /// The services that there are, for sessions that name them.
    pub(crate) fn set_services(&mut self, services: impl FnOnce() -> Vec<(u16, String)>) {
        if let Session::Json(json) = &mut self.session {
            json.set_services(services());
        }
    }

    /// Writes a message; it waits until [`Peer::flush`].
    pub(crate) fn write(&mut self, now: u64, message: &[u8]) -> Result<(), String> {
        if self.waiting.len() > WAITING_MAX {
            return Err(format!("more than {WAITING_MAX} bytes wait for the client"));
        }
        match &mut self.session {
            Session::Undecided { .. } => Err("nothing is spoken yet".to_owned()),
            Session::Rssl(rssl) => rssl.write(now, message, &mut self.waiting).map_err(|error| error.to_string()),
            Session::Json(json) => json.write(now, message, &mut self.waiting),
        }
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

    /// The ping timeout that the handshake agreed on, s.
    pub(crate) fn ping_timeout_s(&self) -> u8 {
        match &self.session {
            Session::Undecided { .. } => 0,
            Session::Rssl(rssl) => rssl.negotiated().map_or(0, |terms| terms.ping_timeout_s),
            Session::Json(json) => json.ping_timeout_s(),
        }
    }

    /// Whether a session may be pinged still: one that was silent for the ping timeout is the judge's, who has it go on.
    fn is_heard(&self, now: u64) -> bool {
        now.saturating_sub(self.heard_ns) < u64::from(self.ping_timeout_s()) * 1_000_000_000
    }

    pub(crate) fn due(&self, now: u64) -> Option<u64> {
        let due = match &self.session {
            Session::Undecided { .. } => None,
            Session::Rssl(rssl) => rssl.timeout(),
            Session::Json(json) => Some(json.timeout()),
        };
        due.filter(|_| !self.is_up || self.is_heard(now))
    }

    /// Pings, if it is time; an error is why the session is over.
    pub(crate) fn ping(&mut self, now: u64) -> Result<(), String> {
        if self.is_up && !self.is_heard(now) {
            return Ok(());
        }
        match &mut self.session {
            Session::Undecided { .. } => Ok(()),
            Session::Rssl(rssl) => rssl.on_timer(now, &mut self.waiting).map_err(|why| why.to_string()),
            Session::Json(json) => json.on_timer(now, &mut self.waiting),
        }
    }
}
