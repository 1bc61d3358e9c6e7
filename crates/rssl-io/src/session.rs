//! One connection's layers, and what its kind of session makes of bytes and of time.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use net::tcp::{ConnId, ListenerId, SendOutcome, Tcp};
use net::tls::TlsSession;
use rssl::frame::Ahead;
use rssl::ws::upgrade::{self, Ask, Protocol, Request, Upgrade};
use rssl::ws::{self, Json, JsonPacker, Role, Socket, code};
use rssl::{Closed, Connection, Negotiated, Packer, Standing, Version, http_tunnel};

use crate::account::{Account, BytesRead, STRANGER_MAX};
use crate::handler::{Handler, Opened, Spoken};
use crate::listener::{Beginning, Listener, WebSocket, WebSocketDial, beginning};
use crate::reason::EndReason;
use crate::tunnel::Tunnel;

/// The protocol above the socket and its encryption.
#[allow(
    clippy::large_enum_variant,
    reason = "most sessions are RSSL, and their data path is to have no further pointer"
)]
pub(crate) enum Kind {
    /// RSSL.
    Rssl(Connection),
    /// The first bytes have not told.
    Undecided(Box<Undecided>),
    /// A server was dialled that has not answered the request for a WebSocket session.
    Dialling(Box<Dialling>),
    /// RSSL in WebSocket frames.
    RsslInWebSocket(Box<Wrapped>),
    /// A client's RSSL in an HTTP request: plain on its way here, in chunks on the way back.
    RsslInHttp(Box<Connection>),
    /// JSON in WebSocket frames.
    Json(Box<Json>),
}

/// RSSL in WebSocket frames.
pub(crate) struct Wrapped {
    socket: Socket,
    rssl: Connection,
}

impl Wrapped {
    fn on_timer(&mut self, now: u64, out: &mut Vec<u8>) -> Result<(), Closed> {
        let mut plain = Vec::new();
        let result = self.rssl.on_timer(now, &mut plain);
        self.socket.wrap_rssl(&plain, out);
        result
    }
}

/// A connection that came in and has not said what it speaks.
pub(crate) struct Undecided {
    head: Vec<u8>,
    /// Bytes of it that were there when it was read last, as HTTP.
    read: usize,
    seed: u64,
    since: u64,
    /// The text with which the session is to be refused.
    refusal: Option<String>,
}

impl Undecided {
    pub(crate) fn new(now: u64, seed: u64, refusal: Option<String>) -> Self {
        Self { head: Vec::new(), read: 0, seed, since: now, refusal }
    }
}

/// A WebSocket session that this side has asked for.
pub(crate) struct Dialling {
    dial: Arc<WebSocketDial>,
    ask: Ask,
    head: Vec<u8>,
    seed: u64,
    since: u64,
}

impl Dialling {
    /// A session that is asked for with [`Dialling::start`]; `seed` makes nonce and masks.
    pub(crate) fn new(now: u64, seed: u64, dial: Arc<WebSocketDial>) -> Self {
        let mut nonce = [0; 16];
        for (half, salt) in nonce.chunks_exact_mut(8).zip([0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F]) {
            half.copy_from_slice(&(seed ^ now).wrapping_mul(salt).rotate_left(29).to_le_bytes());
        }
        let ask = Ask { host: dial.host.clone(), protocols: dial.protocols.clone(), nonce };
        Self { dial, ask, head: Vec::new(), seed, since: now }
    }

    /// Appends the request.
    pub(crate) fn start(&self, out: &mut Vec<u8>) {
        self.ask.encode(out);
    }
}

/// One connection.
pub(crate) struct Session {
    pub(crate) id: ConnId,
    pub(crate) kind: Kind,
    /// Between the socket and the session where the connection is encrypted.
    pub(crate) tls: Option<TlsSession>,
    /// The proxy that has not opened the way yet: encryption and session begin behind it.
    pub(crate) tunnel: Option<Box<Tunnel>>,
    pub(crate) listener: Option<ListenerId>,
    pub(crate) peer: SocketAddr,
    /// Composed bytes that wait for [`RsslIo::flush`](crate::RsslIo::flush); empty unless writes are timed.
    pub(crate) pending: Vec<u8>,
    pub(crate) established: bool,
    /// A message has come.
    pub(crate) spoke: bool,
    /// When a session that has not spoken is closed; `u64::MAX` for never.
    pub(crate) speak_by: u64,
    /// The session's place among the timers; 0 if nothing is due.
    pub(crate) timer_at: u64,
    /// Bytes that are read from it in one turn at most.
    pub(crate) read_most_bytes: usize,
    /// The session's account: bytes that wait for it, and those that it has not finished.
    pub(crate) account: Account,
    /// The session is read behind the others: it came in, and has not logged in as far as is known, or is loud ([`Account::is_loud`]).
    pub(crate) is_last: bool,
    /// Bytes read of it lately, if so.
    pub(crate) bytes_read: BytesRead,
    /// Set when this side has decided the end.
    pub(crate) why: Option<Box<EndReason>>,
}

impl Session {
    /// Takes plain bytes, all of them; answers go to `out`.
    #[inline]
    pub(crate) fn receive<H: Handler>(
        &mut self,
        now: u64,
        bytes: &[u8],
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
        listeners: &[Listener],
        handler: &mut H,
    ) -> Result<(), EndReason> {
        let mut sink = Dispatch {
            handler,
            now,
            conn: self.id,
            listener: self.listener,
            peer: self.peer,
            established: &mut self.established,
            spoke: &mut self.spoke,
            account: &mut self.account,
            way: |info| Spoken::Rssl(info),
        };
        match &mut self.kind {
            Kind::Rssl(rssl) => rssl.receive(now, bytes, out, &mut sink).map_err(EndReason::Rssl),
            other => receive_other(other, now, bytes, out, scratch, listeners, sink),
        }
    }

    /// Bytes that are kept of what the peer has not finished.
    pub(crate) fn unfinished_bytes(&self) -> usize {
        match &self.kind {
            Kind::Rssl(rssl) => rssl.unfinished_bytes(),
            Kind::RsslInWebSocket(wrapped) => wrapped.socket.unfinished_bytes() + wrapped.rssl.unfinished_bytes(),
            Kind::RsslInHttp(rssl) => rssl.unfinished_bytes(),
            Kind::Json(json) => json.unfinished_bytes(),
            Kind::Undecided(undecided) => undecided.head.len(),
            Kind::Dialling(dialling) => dialling.head.len(),
        }
    }

    /// Appends the first words of a session that this side begins.
    pub(crate) fn start(&mut self, now: u64, out: &mut Vec<u8>) {
        match &mut self.kind {
            Kind::Rssl(rssl) => rssl.start(now, out),
            Kind::Dialling(dialling) => {
                dialling.since = now;
                dialling.start(out);
            }
            _ => {}
        }
    }

    /// Takes what a proxy sends. When the way is open, the first words of the session are appended to `out`, and the bytes of the
    /// proxy's answer are counted.
    #[cold]
    pub(crate) fn pass_proxy(&mut self, now: u64, bytes: &[u8], out: &mut Vec<u8>) -> Result<Option<usize>, EndReason> {
        let Some(tunnel) = &mut self.tunnel else { return Ok(Some(0)) };
        let answered = tunnel.receive(bytes).map_err(EndReason::Proxy)?;
        if answered.is_some() {
            self.tunnel = None;
            self.start(now, out);
        }
        Ok(answered)
    }

    /// Does what is due by time; what is to be sent goes to `out`.
    pub(crate) fn on_timer(&mut self, now: u64, out: &mut Vec<u8>, listeners: &[Listener]) -> Result<(), EndReason> {
        if self.established && !self.spoke && now >= self.speak_by {
            return Err(EndReason::NoMessage);
        }
        if let Some(tunnel) = &self.tunnel {
            return if now >= tunnel.until { Err(EndReason::Proxy(tunnel.silence())) } else { Ok(()) };
        }
        match &mut self.kind {
            Kind::Rssl(rssl) => rssl.on_timer(now, out).map_err(EndReason::Rssl),
            Kind::Json(json) => json.on_timer(now, out).map_err(EndReason::WebSocket),
            Kind::RsslInWebSocket(wrapped) => wrapped.on_timer(now, out).map_err(EndReason::Rssl),
            Kind::RsslInHttp(rssl) => {
                let mut plain = Vec::new();
                let result = rssl.on_timer(now, &mut plain);
                http_tunnel::wrap(&plain, out);
                result.map_err(EndReason::Rssl)
            }
            Kind::Undecided(undecided) => {
                let limit = self.listener.map_or(0, |l| listeners[l.index()].rssl.handshake_timeout_ns);
                let waited = now.saturating_sub(undecided.since);
                if waited >= limit { Err(EndReason::NoProtocol { waited }) } else { Ok(()) }
            }
            Kind::Dialling(dialling) => {
                let waited = now.saturating_sub(dialling.since);
                if waited < dialling.dial.rssl.handshake_timeout_ns {
                    return Ok(());
                }
                let text =
                    format!("handshake timeout: no answer to the WebSocket request within {} s", waited as f64 / 1e9);
                Err(EndReason::NotUpgraded(text))
            }
        }
    }

    fn timeout(&self, listeners: &[Listener]) -> Option<u64> {
        if let Some(tunnel) = &self.tunnel {
            return Some(tunnel.until);
        }
        let own = match &self.kind {
            Kind::Rssl(rssl) => rssl.timeout(),
            Kind::RsslInWebSocket(wrapped) => wrapped.rssl.timeout(),
            Kind::RsslInHttp(rssl) => rssl.timeout(),
            Kind::Json(json) => Some(json.timeout()),
            Kind::Undecided(undecided) => {
                self.listener.map(|l| undecided.since + listeners[l.index()].rssl.handshake_timeout_ns)
            }
            Kind::Dialling(dialling) => Some(dialling.since + dialling.dial.rssl.handshake_timeout_ns),
        };
        let speak_by = (self.established && !self.spoke && self.speak_by != u64::MAX).then_some(self.speak_by);
        match (own, speak_by) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Has the session asked again when it says, but not before the next turn; never, if its end is decided.
    pub(crate) fn set_timer(&mut self, now: u64, timers: &mut BTreeSet<(u64, ConnId)>, listeners: &[Listener]) {
        self.clear_timer(timers);
        if let Some(at) = self.timeout(listeners).filter(|_| self.why.is_none()) {
            self.timer_at = at.max(now + 1);
            timers.insert((self.timer_at, self.id));
        }
    }

    /// Nothing of the session is due any more.
    pub(crate) fn clear_timer(&mut self, timers: &mut BTreeSet<(u64, ConnId)>) {
        if self.timer_at != 0 {
            timers.remove(&(std::mem::take(&mut self.timer_at), self.id));
        }
    }

    /// The version to try next, if the server that was dialled seems not to know the one that was offered.
    pub(crate) fn next_version(&self) -> Option<Version> {
        if self.tunnel.is_some() {
            return None;
        }
        match &self.kind {
            Kind::Rssl(rssl) => rssl.next_version(),
            Kind::RsslInWebSocket(wrapped) => wrapped.rssl.next_version(),
            _ => None,
        }
    }

    /// Appends the last words that the protocol has for an end that this side decides.
    pub(crate) fn say_goodbye(&mut self, why: &EndReason, out: &mut Vec<u8>) {
        if self.tunnel.is_some() {
            return;
        }
        match &mut self.kind {
            Kind::Json(json) => json.close(code::NORMAL, &why.to_string(), out),
            Kind::RsslInWebSocket(wrapped) => wrapped.socket.close(code::NORMAL, &why.to_string(), out),
            Kind::Rssl(_) | Kind::RsslInHttp(_) | Kind::Undecided(_) | Kind::Dialling(_) => {}
        }
    }

    /// Appends messages to `out`, as they go to the socket.
    #[inline]
    pub(crate) fn compose(
        &mut self,
        now: u64,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
        write: impl FnOnce(&mut Packer<'_>),
    ) {
        match &mut self.kind {
            Kind::Rssl(rssl) => pack(rssl, now, out, write),
            Kind::RsslInWebSocket(wrapped) => {
                scratch.clear();
                pack(&mut wrapped.rssl, now, scratch, write);
                wrapped.socket.wrap_rssl(scratch, out);
            }
            Kind::RsslInHttp(rssl) => {
                scratch.clear();
                pack(rssl, now, scratch, write);
                http_tunnel::wrap(scratch, out);
            }
            Kind::Json(_) | Kind::Undecided(_) | Kind::Dialling(_) => {
                debug_assert!(false, "RWF messages for a session that takes none");
            }
        }
    }

    /// Appends JSON messages to `out`, as they go to the socket.
    pub(crate) fn compose_json(&mut self, now: u64, out: &mut Vec<u8>, write: impl FnOnce(&mut JsonPacker<'_>)) {
        let Kind::Json(json) = &mut self.kind else {
            debug_assert!(false, "JSON messages for a session that takes none");
            return;
        };
        let mut packer = json.pack(now, out);
        write(&mut packer);
        packer.finish();
    }

    /// Sends composed bytes, encrypted where the connection is. Gives what the kernel did not take; `None` if the
    /// connection is gone.
    #[inline]
    pub(crate) fn transmit(&mut self, tcp: &mut Tcp, cipher: &mut Vec<u8>, bytes: &[u8]) -> Option<usize> {
        let outcome = match &mut self.tls {
            None => tcp.send(self.id, bytes),
            Some(tls) => {
                cipher.clear();
                tls.encrypt(bytes, cipher).ok()?;
                tcp.send(self.id, cipher)
            }
        };
        match outcome {
            SendOutcome::Sent => Some(0),
            SendOutcome::Queued(bytes) => Some(bytes),
            SendOutcome::Gone => None,
        }
    }
}

/// Results of a read of a connection beside messages.
pub(crate) struct Noise {
    spoke: bool,
    unfinished: usize,
}

impl Noise {
    /// To be asked before.
    #[inline]
    pub(crate) fn before(session: &mut Session) -> Self {
        Self { spoke: std::mem::take(&mut session.spoke), unfinished: session.unfinished_bytes() }
    }

    /// So many bytes were read, and so many of answers made. Bytes that were neither a message nor a part of one are pings.
    #[inline]
    pub(crate) fn after(self, session: &mut Session, read: usize, answers: usize) {
        let is_quiet = session.spoke && answers == 0;
        if !is_quiet {
            let kept = session.unfinished_bytes().saturating_sub(self.unfinished);
            session.account.note_noise(if session.spoke { 0 } else { read.saturating_sub(kept) }, answers);
        }
        session.spoke |= self.spoke;
    }
}

fn pack(rssl: &mut Connection, now: u64, out: &mut Vec<u8>, write: impl FnOnce(&mut Packer<'_>)) {
    let mut packer = rssl.pack(now, out);
    write(&mut packer);
    if let Err(e) = packer.finish() {
        // Only messages that no frame can carry end here; what produced them is at fault, not the peer.
        tracing::error!("a message could not be written: {e}");
    }
}

#[cold]
fn receive_other<H: Handler>(
    kind: &mut Kind,
    now: u64,
    bytes: &[u8],
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
    listeners: &[Listener],
    mut sink: Dispatch<'_, H>,
) -> Result<(), EndReason> {
    match kind {
        Kind::Rssl(rssl) => rssl.receive(now, bytes, out, &mut sink).map_err(EndReason::Rssl),
        Kind::Json(json) => {
            let result = json.receive_guarded(now, bytes, out, |text| {
                if let Some(text) = text.filter(|text| sink.takes(text.len())) {
                    *sink.spoke = true;
                    sink.handler.text(now, sink.conn, text);
                }
                rssl::Sink::standing(&mut sink)
            });
            result.map_err(EndReason::WebSocket)
        }
        Kind::RsslInWebSocket(wrapped) => {
            let Wrapped { socket, rssl } = &mut **wrapped;
            sink.way = |info| Spoken::RsslInWebSocket(info);
            scratch.clear();
            let mut frames = Frames { rssl, now, out: scratch, sink, text: false, end: None };
            let result = socket.receive(bytes, out, &mut frames);
            let Frames { end, text, .. } = frames;
            socket.wrap_rssl(scratch, out);
            if text {
                socket.close(code::UNSUPPORTED, "text frame in a session of RSSL", out);
                return Err(EndReason::TextFrame);
            }
            end.map_or(Ok(()), |closed| Err(EndReason::Rssl(closed))).and(result.map_err(EndReason::WebSocket))
        }
        Kind::RsslInHttp(rssl) => {
            sink.way = |info| Spoken::RsslInHttp(info);
            scratch.clear();
            let result = rssl.receive(now, bytes, scratch, &mut sink).map_err(EndReason::Rssl);
            // What a server's session answers by itself is the handshake.
            http_tunnel::wrap_answer(scratch, out);
            result
        }
        Kind::Dialling(dialling) => {
            dialling.head.extend_from_slice(bytes);
            let (protocol, length) = match dialling.ask.answer(&dialling.head) {
                Ok(None) => return Ok(()),
                Ok(Some(agreed)) => agreed,
                Err(why) => return Err(EndReason::NotUpgraded(why)),
            };
            let (head, since) = (std::mem::take(&mut dialling.head), dialling.since);
            *kind = begin_dialled(dialling, protocol, since, now, out, &mut sink);
            let rest = &head[length..];
            if rest.is_empty() { Ok(()) } else { receive_other(kind, now, rest, out, scratch, listeners, sink) }
        }
        Kind::Undecided(undecided) => {
            let Some(listener) = sink.listener.map(|l| &listeners[l.index()]) else { return Ok(()) };
            undecided.head.extend_from_slice(bytes);
            let Some(&first) = undecided.head.first() else { return Ok(()) };
            if beginning(first) == Beginning::Http {
                if !is_worth_reading(&undecided.head, bytes.len(), undecided.read) {
                    return Ok(());
                }
                undecided.read = undecided.head.len();
                return begin_http(kind, listener, now, out, scratch, listeners, sink);
            }
            let undecided = std::mem::replace(&mut **undecided, Undecided::new(0, 0, None));
            begin_rssl(kind, undecided, listener, now, out, sink)
        }
    }
}

/// Whether the header of an HTTP request that has grown by so many bytes is to be read again: it may be whole, or is twice as long as when
/// it was read last. A peer that sends it byte by byte does not have it read for each of them.
fn is_worth_reading(head: &[u8], new: usize, read: usize) -> bool {
    let tail = &head[head.len().saturating_sub(new + 2)..];
    let has_empty_line = tail.windows(2).any(|two| two == b"\n\n") || tail.windows(3).any(|three| three == b"\n\r\n");
    has_empty_line || head.len() >= 2 * read || head.len() > upgrade::HEAD_MAX
}

/// A connection that speaks RSSL from its first byte on.
fn begin_rssl<H: Handler>(
    kind: &mut Kind,
    undecided: Undecided,
    listener: &Listener,
    now: u64,
    out: &mut Vec<u8>,
    mut sink: Dispatch<'_, H>,
) -> Result<(), EndReason> {
    let Undecided { head, seed, since, refusal, .. } = undecided;
    let mut rssl = Connection::server(Arc::clone(&listener.rssl)).with_seed(seed).of_stranger(STRANGER_MAX);
    if let Some(text) = refusal {
        rssl.refuse(&text);
    }
    rssl.start(since, out);
    let result = rssl.receive(now, &head, out, &mut sink);
    *kind = Kind::Rssl(rssl);
    result.map_err(EndReason::Rssl)
}

/// An HTTP request: an upgrade to WebSocket, or something that gets a short answer.
#[allow(clippy::too_many_arguments)]
fn begin_http<H: Handler>(
    kind: &mut Kind,
    listener: &Listener,
    now: u64,
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
    listeners: &[Listener],
    sink: Dispatch<'_, H>,
) -> Result<(), EndReason> {
    let Kind::Undecided(undecided) = kind else { return Ok(()) };
    if http_tunnel::is_request(&undecided.head) {
        return begin_tunnel(kind, listener, now, out, scratch, listeners, sink);
    }
    // Without a configuration for it the port takes no WebSocket: the request is answered, and refused.
    let nothing = upgrade::Offer { protocols: Vec::new(), ..Default::default() };
    let nothing = WebSocket { offer: nothing, ..Default::default() };
    let config = listener.websocket.as_deref().unwrap_or(&nothing);
    let (upgrade, length) = match upgrade::read(&undecided.head, &config.offer) {
        Request::Incomplete => return Ok(()),
        Request::Refused(refusal) => {
            refusal.answer(out);
            return Err(EndReason::Http(refusal));
        }
        Request::Upgrade(upgrade, length) => (upgrade, length),
    };
    let Undecided { head, seed, since, refusal, .. } = std::mem::replace(&mut **undecided, Undecided::new(0, 0, None));
    upgrade.answer(out);
    let mut socket = Socket::new(Role::Server, upgrade.deflate, config.limits).of_stranger(STRANGER_MAX);
    if upgrade.protocol == Protocol::Rwf {
        let mut rssl = Connection::server(Arc::clone(&listener.rssl)).with_seed(seed).of_stranger(STRANGER_MAX);
        if let Some(text) = refusal {
            rssl.refuse(&text);
        }
        rssl.start(since, out);
        *kind = Kind::RsslInWebSocket(Box::new(Wrapped { socket, rssl }));
    } else if let Some(text) = refusal {
        // A browser learns nothing of an HTTP status, so the refusal comes as a close.
        socket.close(code::NORMAL, &text, out);
        return Err(EndReason::Refused(text));
    } else {
        let json = config.json_for(&upgrade.user_agent);
        *kind = Kind::Json(Box::new(Json::new(socket, json, now)));
        *sink.established = true;
        let opened = Opened { listener: sink.listener, peer: sink.peer, spoken: Spoken::Json(&upgrade) };
        sink.handler.opened(now, sink.conn, &opened);
    }
    let rest = &head[length..];
    if rest.is_empty() { Ok(()) } else { receive_other(kind, now, rest, out, scratch, listeners, sink) }
}

/// A request for RSSL in HTTP.
#[allow(clippy::too_many_arguments)]
fn begin_tunnel<H: Handler>(
    kind: &mut Kind,
    listener: &Listener,
    now: u64,
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
    listeners: &[Listener],
    sink: Dispatch<'_, H>,
) -> Result<(), EndReason> {
    let Kind::Undecided(undecided) = kind else { return Ok(()) };
    let length = match http_tunnel::read(&undecided.head) {
        http_tunnel::Request::Incomplete => return Ok(()),
        http_tunnel::Request::BodyBegins => {
            // The few bytes that are missing end in no empty line: the request is read with each of them.
            undecided.read = 0;
            return Ok(());
        }
        http_tunnel::Request::Refused(refusal) => {
            refusal.answer(out);
            return Err(EndReason::Http(refusal));
        }
        http_tunnel::Request::Open(length) => length,
    };
    let Undecided { head, seed, since, refusal, .. } = std::mem::replace(&mut **undecided, Undecided::new(0, 0, None));
    http_tunnel::answer(out);
    let mut rssl = Connection::server(Arc::clone(&listener.rssl)).with_seed(seed).of_stranger(STRANGER_MAX);
    if let Some(text) = refusal {
        rssl.refuse(&text);
    }
    rssl.start(since, out);
    *kind = Kind::RsslInHttp(Box::new(rssl));
    let rest = &head[length..];
    if rest.is_empty() { Ok(()) } else { receive_other(kind, now, rest, out, scratch, listeners, sink) }
}

/// The session that a dialled server has agreed to.
fn begin_dialled<H: Handler>(
    dialling: &Dialling,
    protocol: Protocol,
    since: u64,
    now: u64,
    out: &mut Vec<u8>,
    sink: &mut Dispatch<'_, H>,
) -> Kind {
    let dial = &dialling.dial;
    let mut socket = Socket::new(Role::Client(dialling.seed), false, dial.limits).of_stranger(STRANGER_MAX);
    if protocol == Protocol::Rwf {
        let rssl = Connection::client(Arc::clone(&dial.rssl)).with_seed(dialling.seed);
        let mut rssl = rssl.of_stranger(STRANGER_MAX);
        let mut request = Vec::new();
        rssl.start(since, &mut request);
        socket.wrap_rssl(&request, out);
        return Kind::RsslInWebSocket(Box::new(Wrapped { socket, rssl }));
    }
    *sink.established = true;
    let upgrade = Upgrade {
        protocol,
        deflate: false,
        accept: String::new(),
        origin: None,
        user_agent: String::new(),
        cookies: String::new(),
    };
    let opened = Opened { listener: None, peer: sink.peer, spoken: Spoken::Json(&upgrade) };
    sink.handler.opened(now, sink.conn, &opened);
    Kind::Json(Box::new(Json::new(socket, dial.json, now)))
}

/// RSSL frames out of binary WebSocket frames.
struct Frames<'a, H> {
    rssl: &'a mut Connection,
    now: u64,
    out: &'a mut Vec<u8>,
    sink: Dispatch<'a, H>,
    text: bool,
    end: Option<Closed>,
}

impl<H: Handler> ws::Sink for Frames<'_, H> {
    fn text(&mut self, _: &str) {
        self.text = true;
    }

    fn binary(&mut self, bytes: &[u8]) {
        if self.end.is_none() {
            self.end = self.rssl.receive(self.now, bytes, self.out, &mut self.sink).err();
        }
    }

    fn standing(&mut self) -> Standing {
        rssl::Sink::standing(&mut self.sink)
    }
}

/// Hands on what an RSSL session brings.
struct Dispatch<'a, H> {
    handler: &'a mut H,
    now: u64,
    conn: ConnId,
    listener: Option<ListenerId>,
    peer: SocketAddr,
    established: &'a mut bool,
    spoke: &'a mut bool,
    account: &'a mut Account,
    /// How an RSSL session is told of once it is there.
    way: fn(&Negotiated) -> Spoken<'_>,
}

impl<H: Handler> Dispatch<'_, H> {
    /// Whether a message of so many bytes is taken: who is not known says little.
    #[inline]
    fn takes(&mut self, bytes: usize) -> bool {
        self.account.is_known || self.takes_of_stranger(bytes)
    }

    #[cold]
    fn takes_of_stranger(&mut self, bytes: usize) -> bool {
        self.account.is_known = *self.established && self.handler.is_known(self.conn);
        self.account.is_known || self.account.note_bytes(bytes)
    }
}

impl<H: Handler> rssl::Sink for Dispatch<'_, H> {
    fn connected(&mut self, info: &Negotiated) {
        *self.established = true;
        let opened = Opened { listener: self.listener, peer: self.peer, spoken: (self.way)(info) };
        self.handler.opened(self.now, self.conn, &opened);
    }

    #[inline]
    fn ahead(&mut self, messages: Ahead<'_, '_>) {
        if self.account.is_known {
            self.handler.ahead(self.conn, messages);
        }
    }

    #[inline]
    fn message(&mut self, msg: &[u8]) {
        if self.takes(msg.len()) {
            *self.spoke = true;
            self.handler.message(self.now, self.conn, msg);
        }
    }

    fn standing(&mut self) -> Standing {
        self.account.is_known |= *self.established && self.handler.is_known(self.conn);
        if self.account.is_known {
            Standing::Known
        } else if self.account.is_over() {
            Standing::Over
        } else {
            Standing::Stranger
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_comes_byte_by_byte_is_read_a_few_times() {
        for end in ["\r\n\r\n", "\n\n", "\n\r\n"] {
            let whole = format!("GET /WebSocket HTTP/1.1\r\nX: {}{end}", "y".repeat(20_000));
            let (mut reads, mut read) = (0, 0);
            for length in 1..=whole.len() {
                if is_worth_reading(&whole.as_bytes()[..length], 1, read) {
                    (reads, read) = (reads + 1, length);
                }
            }
            assert_eq!(read, whole.len(), "when it is whole, at the latest");
            assert!(reads < 20, "{reads}");
        }
        // In one piece, and with its last bytes alone.
        assert!(
            is_worth_reading(b"GET / HTTP/1.1\r\n\r\n", 18, 0) && is_worth_reading(b"GET / HTTP/1.1\r\n\r\n", 1, 17)
        );
        assert!(is_worth_reading(&vec![b'G'; upgrade::HEAD_MAX + 1], 1, upgrade::HEAD_MAX));
    }
}
