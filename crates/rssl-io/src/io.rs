//! The turn of a thread's sockets and sessions, and sending.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use net::tcp::{Batching, Close, ConnId, Event, ListenerId, RecvOutcome, Scratch, SocketOptions, Tcp, TcpConfig};
use net::tls::{TlsServer, TlsSession};
use rssl::ws::{FrameKind, JsonPacker};
use rssl::{ClientConfig, Connection, Packer, ServerConfig};

use crate::account::{Account, BytesRead, STRANGER_MAX, STRANGER_READ};
use crate::admission::Admission;
use crate::handler::{Ended, Handler};
use crate::listener::{Beginning, Encryption, Listener, WebSocketDial, beginning};
use crate::reason::{AdmissionError, EndReason};
use crate::session::{Dialling, Kind, Noise, Session, Undecided};
use crate::tunnel::{Tunnel, Way};

mod accounts;
mod pace;

/// The sockets and sessions of one thread.
pub struct RsslIo {
    tcp: Tcp,
    events: Vec<Event>,
    scratch: Scratch,
    out: Vec<u8>,
    cipher: Vec<u8>,
    /// RSSL frames on their way into WebSocket frames.
    frames: Vec<u8>,
    /// Memory for what sessions have pending, for reuse.
    spare: Vec<Vec<u8>>,
    /// The same, of those with much room: one serves many connections, each of which is sent to as soon as much is composed for it.
    large: Vec<Vec<u8>>,
    /// Bytes that are taken from one connection a turn.
    read_most_bytes: usize,
    /// True once the log has said that the batching is refused.
    told_refusal: bool,
    /// The result of [`RsslIo::flush_all`].
    batch: Vec<(ConnId, Vec<u8>)>,
    sessions: Vec<Option<Session>>,
    listeners: Vec<Listener>,
    admission: Admission,
    accounts: accounts::Accounts,
    pace: pace::Pace,
    /// When to ask a session again what is due: one entry for each session that is there and has something, no more, so that connections that
    /// come and go leave nothing behind.
    timers: BTreeSet<(u64, ConnId)>,
    seed: u64,
    /// Foreign descriptors that have something, a bit for each number.
    ready: u32,
}

/// How long a connection may take to drain when it is closed in order.
const DRAIN: Duration = Duration::from_secs(2);
/// Room that composing keeps between turns; more is given back.
const OUT_KEPT: usize = 1 << 20;
/// Largest memory of pending bytes that is kept, and how many.
const PENDING_KEPT: usize = 128 << 10;
const SPARES: usize = 1024;
/// The same of large memory.
const LARGE_KEPT: usize = 4 << 20;
const LARGE: usize = 2;

impl RsslIo {
    /// No sockets yet. `seed` feeds the key exchange of the sessions.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn new(seed: u64) -> io::Result<Self> {
        Self::with(seed, Batching::Send)
    }

    /// As [`RsslIo::new`]; `batching` is how [`RsslIo::flush_all`] sends.
    ///
    /// # Errors
    /// As there.
    pub fn with(seed: u64, batching: Batching) -> io::Result<Self> {
        Ok(Self {
            tcp: Tcp::new(TcpConfig { batching, ..TcpConfig::default() })?,
            told_refusal: false,
            events: Vec::new(),
            scratch: Scratch::default(),
            out: Vec::new(),
            cipher: Vec::new(),
            frames: Vec::new(),
            spare: Vec::new(),
            large: Vec::new(),
            read_most_bytes: usize::MAX,
            batch: Vec::new(),
            sessions: Vec::new(),
            listeners: Vec::new(),
            admission: Admission::default(),
            accounts: accounts::Accounts::default(),
            pace: pace::Pace::default(),
            timers: BTreeSet::new(),
            seed,
            ready: 0,
        })
    }

    /// The sockets below, for wakers and counters.
    pub fn tcp(&mut self) -> &mut Tcp {
        &mut self.tcp
    }

    /// The sockets' counters.
    pub fn counters(&self) -> &net::tcp::Counters {
        self.tcp.counters()
    }

    /// Tells whether a descriptor that [`Tcp::watch`] was given with this number (0 to 31) has become readable since it was
    /// asked last.
    pub fn take_ready(&mut self, number: u32) -> bool {
        let bit = 1 << (number & 31);
        let ready = self.ready & bit != 0;
        self.ready &= !bit;
        ready
    }

    /// Listens for sessions.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn listen(
        &mut self,
        addr: SocketAddr,
        options: &SocketOptions,
        config: Arc<ServerConfig>,
    ) -> io::Result<(ListenerId, SocketAddr)> {
        self.listen_as(addr, options, Listener::rssl(config))
    }

    /// Listens for sessions of the encrypted connection type.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn listen_encrypted(
        &mut self,
        addr: SocketAddr,
        options: &SocketOptions,
        config: Arc<ServerConfig>,
        tls: TlsServer,
    ) -> io::Result<(ListenerId, SocketAddr)> {
        let listener = Listener { encryption: Encryption::Required(tls), ..Listener::rssl(config) };
        self.listen_as(addr, options, listener)
    }

    /// Has no more than so many bytes read in one turn from each session that comes in here from now on, so that what it asks for
    /// does not keep the others waiting. What is left is read in the next turn.
    pub fn limit_reading(&mut self, listener: ListenerId, bytes: usize) {
        self.listeners[listener.index()].read_most_bytes = bytes;
    }

    /// Listens for sessions of every kind that the listener takes.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn listen_as(
        &mut self,
        addr: SocketAddr,
        options: &SocketOptions,
        listener: Listener,
    ) -> io::Result<(ListenerId, SocketAddr)> {
        let (id, addr) = self.tcp.listen(addr, options)?;
        debug_assert_eq!(id.index(), self.listeners.len());
        self.open_account(listener.bounds);
        self.listeners.push(listener);
        Ok((id, addr))
    }

    /// Dials a server, with TLS or a proxy in between if there is some ([`Way`]). Success and failure come as [`Handler::opened`]
    /// or [`Handler::closed`].
    ///
    /// # Errors
    /// The socket cannot even be made.
    pub fn connect(
        &mut self,
        now: u64,
        addr: SocketAddr,
        options: &SocketOptions,
        config: Arc<ClientConfig>,
        way: impl Into<Way>,
    ) -> io::Result<ConnId> {
        let conn = self.tcp.connect(addr, options)?;
        let patience = config.handshake_timeout_ns;
        let rssl = Connection::client(config).with_seed(self.next_seed() ^ now).of_stranger(STRANGER_MAX);
        self.dial(now, conn, Kind::Rssl(rssl), way.into(), (addr, patience));
        Ok(conn)
    }

    /// As [`RsslIo::connect`], by WebSocket: JSON or RSSL in it, as the server chooses of what `dial` asks for.
    ///
    /// # Errors
    /// The socket cannot even be made.
    pub fn connect_websocket(
        &mut self,
        now: u64,
        addr: SocketAddr,
        options: &SocketOptions,
        dial: Arc<WebSocketDial>,
        way: impl Into<Way>,
    ) -> io::Result<ConnId> {
        let conn = self.tcp.connect(addr, options)?;
        let patience = dial.rssl.handshake_timeout_ns;
        let dialling = Dialling::new(now, self.next_seed() ^ now, dial);
        self.dial(now, conn, Kind::Dialling(Box::new(dialling)), way.into(), (addr, patience));
        Ok(conn)
    }

    /// A connection that this side makes. A proxy has so many nanoseconds to answer.
    fn dial(&mut self, now: u64, conn: ConnId, kind: Kind, way: Way, (peer, patience): (SocketAddr, u64)) {
        let Way { tls, through_proxy_to, proxy_credentials } = way;
        let until = now.saturating_add(patience);
        let tunnel = through_proxy_to.map(|target| Box::new(Tunnel::new(target, proxy_credentials, until)));
        self.insert(now, conn, kind, (tls, tunnel), (None, peer));
    }

    fn next_seed(&mut self) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.seed
    }

    fn insert(
        &mut self,
        now: u64,
        conn: ConnId,
        kind: Kind,
        (tls, tunnel): (Option<TlsSession>, Option<Box<Tunnel>>),
        (listener, peer): (Option<ListenerId>, SocketAddr),
    ) {
        let read_most_bytes = listener.map_or(usize::MAX, |l| self.listeners[l.index()].read_most_bytes);
        let each = listener.map_or(usize::MAX, |l| self.listeners[l.index()].bounds.each);
        let mut session = Session {
            id: conn,
            kind,
            tls,
            tunnel,
            listener,
            peer,
            pending: Vec::new(),
            established: false,
            spoke: false,
            speak_by: u64::MAX,
            timer_at: 0,
            read_most_bytes,
            account: Account::new(each),
            is_last: listener.is_some(),
            bytes_read: BytesRead::default(),
            why: None,
        };
        self.out.clear();
        if let Some(tunnel) = &session.tunnel {
            tunnel.start(&mut self.out);
            self.tcp.send(conn, &self.out);
        } else {
            session.start(now, &mut self.out);
            if !self.out.is_empty() {
                session.transmit(&mut self.tcp, &mut self.cipher, &self.out);
            }
        }
        self.tcp.set_patient(conn, session.is_last);
        session.set_timer(0, &mut self.timers, &self.listeners);
        if self.sessions.len() <= conn.slot() {
            self.sessions.resize_with(conn.slot() + 1, || None);
        }
        let before = self.sessions[conn.slot()].replace(session);
        debug_assert!(before.is_none(), "a slot is free when a connection gets it");
    }

    fn session(&mut self, conn: ConnId) -> Option<&mut Session> {
        self.sessions.get_mut(conn.slot())?.as_mut().filter(|s| s.id == conn)
    }

    /// Takes no more than so many bytes from a connection in a turn from now on; `usize::MAX`: as much as one read gives.
    pub fn read_at_most(&mut self, bytes: usize) {
        self.read_most_bytes = bytes;
    }

    /// Waits for input until `deadline` (absolute nanoseconds; `None` for ever), takes it in and returns the time of it.
    ///
    /// # Errors
    /// Only what makes all sockets unusable.
    pub fn turn(&mut self, deadline: Option<u64>, handler: &mut impl Handler) -> io::Result<u64> {
        self.end_those_overdrawn(handler);
        let due = self.timers.first().map(|&(at, _)| at);
        let deadline = [deadline, due, self.admission.unsaid_due(), self.pace()].into_iter().flatten().min();
        let timeout = deadline.map(|at| Duration::from_nanos(at.saturating_sub(net::clock::now())));
        let mut events = std::mem::take(&mut self.events);
        let polled = self.tcp.poll(timeout, &mut events);
        let now = net::clock::now();
        for event in &events {
            if !matches!(*event, Event::Readable { conn } if self.is_read_last(now, conn, handler)) {
                self.event(now, *event, handler);
            }
        }
        self.read_last(now, handler);
        self.events = events;
        polled?;
        self.run_timers(now, handler);
        self.admission.log_unsaid(now);
        for memory in [&mut self.out, &mut self.cipher, &mut self.frames] {
            if memory.capacity() > OUT_KEPT {
                *memory = Vec::new();
            }
        }
        Ok(now)
    }

    fn event(&mut self, now: u64, event: Event, handler: &mut impl Handler) {
        match event {
            Event::Readable { conn } => self.read(now, conn, handler),
            Event::Accepted { listener, conn, peer } => {
                self.in_their_time(|io| io.accept(now, listener, conn, peer, handler));
            }
            Event::Closed { conn, why } => {
                let session = self.sessions.get_mut(conn.slot()).and_then(|known| known.take_if(|s| s.id == conn));
                // Refused before it was a session: its refusal was logged, and its owner never heard of it.
                let Some(mut session) = session else { return };
                session.clear_timer(&mut self.timers);
                let port = session.listener.and_then(|listener| self.accounts.ports.get_mut(listener.index()));
                session.account.close(&mut self.accounts.shared, port);
                let why = session.why.take().map_or(EndReason::Socket(why), |why| *why);
                let next_version = session.next_version().filter(|_| why.is_without_answer());
                let ended = Ended { established: session.established, next_version, why };
                let (listener, peer) = (session.listener, session.peer);
                if listener.is_some() {
                    self.admission.leave(peer.ip(), ended.established);
                    if !ended.established {
                        self.admission.log_refused(now, peer, &ended.why);
                    }
                }
                handler.closed(now, conn, &ended);
            }
            Event::Drained { conn } => {
                self.settle_drained(conn);
                handler.drained(now, conn);
            }
            Event::AcceptFailed { errno, .. } => {
                tracing::warn!("connections cannot be accepted: {}", io::Error::from_raw_os_error(errno));
            }
            Event::Ready { token } => self.ready |= 1 << (token & 31),
            Event::Connected { .. } | Event::Woken => {}
        }
    }

    fn accept(&mut self, now: u64, id: ListenerId, conn: ConnId, peer: SocketAddr, handler: &mut impl Handler) {
        let listener = &self.listeners[id.index()];
        let tls = match &listener.encryption {
            Encryption::Required(tls) => tls.accept().map(Some),
            Encryption::None | Encryption::Offered(_) => Ok(None),
        };
        let admitted = tls.map_err(AdmissionError::Encryption);
        let admitted = admitted.and_then(|tls| self.admission.admit(&listener.limits, peer.ip()).map(|()| tls));
        let tls = match admitted {
            Ok(tls) => tls,
            Err(why) => {
                self.admission.log_refused(now, peer, &why);
                self.tcp.close(conn, Close::Now);
                return;
            }
        };
        let refusal = handler.admit(id, conn, peer).err();
        let undecided = Undecided::new(now, self.next_seed() ^ now, refusal);
        self.insert(now, conn, Kind::Undecided(Box::new(undecided)), (tls, None), (Some(id), peer));
    }

    #[inline]
    fn read(&mut self, now: u64, conn: ConnId, handler: &mut impl Handler) {
        let Some(session) = self.sessions.get_mut(conn.slot()).and_then(Option::as_mut) else { return };
        let most = if session.is_last { STRANGER_READ } else { session.read_most_bytes };
        let received = self.tcp.recv_at_most(conn, &mut self.scratch, most.min(self.read_most_bytes));
        // Nothing there, or the end, which is an event of its own.
        let RecvOutcome::Data(bytes) = received else { return };
        let mut bytes: &[u8] = bytes;
        // Input behind the decision to close is read away.
        if session.id != conn || session.why.is_some() {
            return;
        }
        self.out.clear();
        if session.tunnel.is_some() {
            match session.pass_proxy(now, bytes, &mut self.out) {
                Ok(None) => return,
                Ok(Some(answered)) => {
                    session.transmit(&mut self.tcp, &mut self.cipher, &self.out);
                    session.set_timer(now, &mut self.timers, &self.listeners);
                    bytes = &bytes[answered..];
                }
                Err(why) => return self.end(conn, why, Close::Now),
            }
            self.out.clear();
        }
        let (was_established, read) = (session.established, bytes.len());
        let noise = Noise::before(session);
        let waited = self.tcp.queued(conn);
        if matches!(session.kind, Kind::Undecided(_)) && session.tls.is_none() {
            session.tls = begin_tls(session, bytes, &self.listeners);
        }
        let (mut result, mut tls_error) = (Ok(()), None);
        let (out, frames, listeners) = (&mut self.out, &mut self.frames, self.listeners.as_slice());
        match session.tls.take() {
            None => result = session.receive(now, bytes, out, frames, listeners, handler),
            Some(mut tls) => {
                self.cipher.clear();
                let processed = tls.process(bytes, &mut self.cipher, |plain| {
                    if result.is_ok() {
                        result = session.receive(now, plain, out, frames, listeners, handler);
                    }
                });
                tls_error = processed.err();
                session.tls = Some(tls);
                if let Some(listener) = session.listener.filter(|_| !was_established) {
                    listeners[listener.index()].encryption.log_news();
                }
                if !self.cipher.is_empty() {
                    self.tcp.send(conn, &self.cipher);
                }
            }
        }
        if session.established && !was_established {
            if let Some(listener) = session.listener {
                self.admission.established();
                let limit = listeners[listener.index()].limits.login_timeout_ns;
                session.speak_by = if limit == 0 { u64::MAX } else { now + limit };
            }
            // The pings' times come before the handshake's, which is the one that is set.
            session.set_timer(now, &mut self.timers, listeners);
        }
        if !self.out.is_empty() {
            session.transmit(&mut self.tcp, &mut self.cipher, &self.out);
        }
        noise.after(session, read, self.out.len());
        if session.is_last {
            session.bytes_read.add(now, read);
        }
        let overdrawn = session.account.is_over();
        if let Some(e) = tls_error {
            self.end(conn, EndReason::Encryption(e), Close::Drain(DRAIN));
        } else if let Err(end) = result.or_else(|end| if overdrawn { Ok(()) } else { Err(end) }) {
            let how = if end.is_unanswered() { Close::Now } else { Close::Drain(DRAIN) };
            self.end(conn, end, how);
        } else {
            self.settle_read(now, conn, self.tcp.queued(conn).saturating_sub(waited), handler);
            self.note_noise(now, conn);
        }
    }

    fn run_timers(&mut self, now: u64, handler: &mut impl Handler) {
        while let Some(&(_, conn)) = self.timers.first().filter(|(at, _)| *at <= now) {
            let session =
                self.sessions.get_mut(conn.slot()).and_then(Option::as_mut).filter(|session| session.id == conn);
            let Some(session) = session else {
                debug_assert!(false, "a session's timer goes with it");
                self.timers.pop_first();
                continue;
            };
            session.clear_timer(&mut self.timers);
            self.out.clear();
            let result = session.on_timer(now, &mut self.out, &self.listeners);
            session.set_timer(now, &mut self.timers, &self.listeners);
            if !self.out.is_empty() {
                // A ping may not overtake composed bytes: they are whole frames, so it goes behind them.
                if session.pending.is_empty() {
                    session.transmit(&mut self.tcp, &mut self.cipher, &self.out);
                } else {
                    session.pending.extend_from_slice(&self.out);
                }
            }
            let waiting = self.backlog(conn);
            if let Err(end) = result {
                self.end(conn, end, Close::Now);
            } else if waiting > 0 {
                self.count(conn, Some(waiting));
                handler.waits(now, conn, waiting);
            }
        }
    }

    /// Writes messages to a session, packed, and sends them at once. Gives the bytes that are queued for the connection
    /// because the kernel did not take them; `None` if the connection is gone.
    #[inline]
    pub fn send(&mut self, now: u64, conn: ConnId, write: impl FnOnce(&mut Packer<'_>)) -> Option<usize> {
        let session = self.sessions.get_mut(conn.slot())?.as_mut().filter(|s| s.id == conn)?;
        if !session.pending.is_empty() {
            // Bytes that wait for the timer go first.
            let mut pending = std::mem::take(&mut session.pending);
            session.compose(now, &mut pending, &mut self.frames, write);
            session.pending = pending;
            return self.flush(conn);
        }
        self.out.clear();
        session.compose(now, &mut self.out, &mut self.frames, write);
        let queued = session.transmit(&mut self.tcp, &mut self.cipher, &self.out);
        self.count(conn, queued)
    }

    /// Writes messages to a session, each in a frame of its own, and sends them at once; otherwise as [`RsslIo::send`].
    pub fn send_unpacked<'m>(
        &mut self,
        now: u64,
        conn: ConnId,
        messages: impl Iterator<Item = (&'m [u8], i32)>,
    ) -> Option<usize> {
        let session = self.sessions.get_mut(conn.slot())?.as_mut().filter(|s| s.id == conn)?;
        let mut pending = std::mem::take(&mut session.pending);
        for (body, stream) in messages {
            // A packer that is closed after each message writes it as a plain frame.
            session.compose(now, &mut pending, &mut self.frames, |p| p.push(body, Some(stream)));
        }
        session.pending = pending;
        self.flush(conn)
    }

    /// Writes messages to a session, packed, without sending them; [`RsslIo::flush`] does. Gives the bytes that wait.
    pub fn queue(&mut self, now: u64, conn: ConnId, write: impl FnOnce(&mut Packer<'_>)) -> Option<usize> {
        let session = self.sessions.get_mut(conn.slot())?.as_mut().filter(|s| s.id == conn)?;
        if session.pending.capacity() == 0 {
            session.pending = self.large.pop().or_else(|| self.spare.pop()).unwrap_or_default();
        }
        let mut pending = std::mem::take(&mut session.pending);
        session.compose(now, &mut pending, &mut self.frames, write);
        session.pending = pending;
        let waiting = session.pending.len() + self.tcp.queued(conn);
        self.count(conn, Some(waiting))
    }

    /// Writes JSON messages to a session that takes them, packed, without sending them; otherwise as [`RsslIo::queue`].
    pub fn queue_json(&mut self, now: u64, conn: ConnId, write: impl FnOnce(&mut JsonPacker<'_>)) -> Option<usize> {
        let session = self.sessions.get_mut(conn.slot())?.as_mut().filter(|s| s.id == conn)?;
        if session.pending.capacity() == 0 {
            session.pending = self.large.pop().or_else(|| self.spare.pop()).unwrap_or_default();
        }
        let mut pending = std::mem::take(&mut session.pending);
        session.compose_json(now, &mut pending, write);
        session.pending = pending;
        let waiting = session.pending.len() + self.tcp.queued(conn);
        self.count(conn, Some(waiting))
    }

    /// How a session's JSON is framed; `None` for one that takes none.
    pub fn frame_kind(&mut self, conn: ConnId) -> Option<FrameKind> {
        match &self.session(conn)?.kind {
            Kind::Json(json) => json.frame_kind(),
            _ => None,
        }
    }

    /// Bytes composed for a session and not sent, from a byte on.
    pub fn composed(&mut self, conn: ConnId, from: usize) -> &[u8] {
        self.session(conn).and_then(|session| session.pending.get(from..)).unwrap_or_default()
    }

    /// Gives a session frames that were composed for another of the same [`FrameKind`], behind what is composed for it. So many bytes or
    /// more are sent at once, without being copied, where nothing is before them. Gives the bytes that wait, as [`RsslIo::queue_json`].
    pub fn queue_frames(&mut self, now: u64, conn: ConnId, frames: &[u8], at_once: usize) -> Option<usize> {
        let session = self.sessions.get_mut(conn.slot())?.as_mut().filter(|s| s.id == conn)?;
        if let Kind::Json(json) = &mut session.kind {
            json.sends_packed(now);
        }
        let waiting = if session.pending.is_empty() && frames.len() >= at_once {
            session.transmit(&mut self.tcp, &mut self.cipher, frames)
        } else {
            session.pending.extend_from_slice(frames);
            Some(session.pending.len() + self.tcp.queued(conn))
        };
        self.count(conn, waiting)
    }

    /// Says that the login of a JSON session has been answered: it may be pinged from now on, if it is still there.
    pub fn logged_in(&mut self, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn.slot()).and_then(Option::as_mut).filter(|s| s.id == conn) else {
            return;
        };
        if let Kind::Json(json) = &mut session.kind {
            json.logged_in();
            session.set_timer(0, &mut self.timers, &self.listeners);
        }
    }

    /// Takes over what the server of a dialled JSON session says of itself: the longest silence it bears, seconds, and the longest
    /// message it takes, bytes.
    pub fn limit_by_server(&mut self, conn: ConnId, ping_timeout_s: Option<u8>, message_bytes_max: Option<usize>) {
        if let Some(Session { kind: Kind::Json(json), .. }) = self.session(conn) {
            json.limit_by_server(ping_timeout_s, message_bytes_max);
        }
    }

    /// Whether a session takes JSON ([`RsslIo::queue_json`]) rather than RWF messages.
    pub fn is_json(&mut self, conn: ConnId) -> bool {
        self.session(conn).is_some_and(|session| matches!(session.kind, Kind::Json(_)))
    }

    /// Sends what [`RsslIo::queue`] has gathered. Gives the bytes that the kernel did not take.
    pub fn flush(&mut self, conn: ConnId) -> Option<usize> {
        let session = self.sessions.get_mut(conn.slot())?.as_mut().filter(|s| s.id == conn)?;
        if session.pending.is_empty() {
            return Some(self.tcp.queued(conn));
        }
        let pending = std::mem::take(&mut session.pending);
        let queued = session.transmit(&mut self.tcp, &mut self.cipher, &pending);
        self.keep(pending);
        self.count(conn, queued)
    }

    /// As [`RsslIo::flush`] for several connections, with as few system calls as the set makes for a batch. `each` gets the bytes that
    /// the kernel did not take; it is not called for a connection that is gone.
    pub fn flush_all(&mut self, conns: impl Iterator<Item = ConnId>, mut each: impl FnMut(ConnId, usize)) {
        let mut batch = std::mem::take(&mut self.batch);
        for conn in conns {
            let Some(session) = self.session(conn) else { continue };
            if session.tls.is_none() {
                batch.push((conn, std::mem::take(&mut session.pending)));
            } else if let Some(queued) = self.flush(conn) {
                each(conn, queued);
            }
        }
        self.tcp.send_all(&batch, |bytes| bytes);
        if let Some(why) = self.tcp.batching_refused().filter(|_| !self.told_refusal) {
            tracing::warn!("{why}");
            self.told_refusal = true;
        }
        for (conn, bytes) in batch.drain(..) {
            self.keep(bytes);
            let queued = self.tcp.queued(conn);
            self.count(conn, Some(queued));
            each(conn, queued);
        }
        self.batch = batch;
    }

    /// Keeps memory for what others will have pending.
    fn keep(&mut self, mut memory: Vec<u8>) {
        if memory.capacity() > PENDING_KEPT {
            if memory.capacity() <= LARGE_KEPT && self.large.len() < LARGE {
                memory.clear();
                self.large.push(memory);
            }
        } else if memory.capacity() > 0 && self.spare.len() < SPARES {
            memory.clear();
            self.spare.push(memory);
        }
    }

    /// Bytes composed or queued here for a connection that the kernel has not taken yet.
    pub fn backlog(&mut self, conn: ConnId) -> usize {
        let pending = self.session(conn).map_or(0, |s| s.pending.len());
        pending + self.tcp.queued(conn)
    }

    /// Stops or resumes reading from a connection.
    pub fn set_reading(&mut self, conn: ConnId, reading: bool) {
        self.tcp.set_reading(conn, reading);
    }

    /// Ends a connection for a reason of its owner. [`Handler::closed`] follows with the reason.
    pub fn close(&mut self, conn: ConnId, why: &str, how: Close) {
        self.end(conn, EndReason::Owner(why.to_owned()), how);
    }

    /// Begins the end of a session. One that has ended, or is ending, keeps its first reason.
    fn end(&mut self, conn: ConnId, why: EndReason, how: Close) {
        let Some(session) = self.sessions.get_mut(conn.slot()).and_then(Option::as_mut) else { return };
        if session.id != conn || session.why.is_some() {
            return;
        }
        let mut pending = std::mem::take(&mut session.pending);
        session.say_goodbye(&why, &mut pending);
        session.why = Some(Box::new(why));
        session.clear_timer(&mut self.timers);
        if !pending.is_empty() {
            session.transmit(&mut self.tcp, &mut self.cipher, &pending);
        }
        if let Some(tls) = session.tls.as_mut().filter(|_| session.tunnel.is_none()) {
            self.cipher.clear();
            tls.close(&mut self.cipher);
            self.tcp.send(conn, &self.cipher);
        }
        self.tcp.close(conn, how);
    }

    /// Ends a connection after what has been written is sent.
    pub fn close_drained(&mut self, conn: ConnId, why: &str) {
        self.close(conn, why, Close::Drain(DRAIN));
    }
}

/// The TLS session of a connection whose first byte asks for one, if its listener has it to offer.
fn begin_tls(session: &Session, bytes: &[u8], listeners: &[Listener]) -> Option<TlsSession> {
    if beginning(*bytes.first()?) != Beginning::Tls {
        return None;
    }
    let Encryption::Offered(tls) = &listeners[session.listener?.index()].encryption else { return None };
    tls.accept().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::Opened;
    use std::io::Write;
    use std::net::TcpStream;

    struct Gone(usize);

    impl Handler for Gone {
        fn opened(&mut self, _: u64, _: ConnId, _: &Opened<'_>) {}
        fn message(&mut self, _: u64, _: ConnId, _: &[u8]) {}
        fn closed(&mut self, _: u64, _: ConnId, _: &Ended) {
            self.0 += 1;
        }
    }

    #[test]
    fn connections_that_come_and_go_leave_no_timers() {
        let mut io = RsslIo::new(1).expect("descriptors");
        let listener = Listener::rssl(Arc::new(ServerConfig::default()));
        let any = ([127, 0, 0, 1], 0).into();
        let (_, addr) = io.listen_as(any, &SocketOptions::default(), listener).expect("a port");
        let mut gone = Gone(0);
        for round in 1..=20 {
            let mut clients: Vec<_> = (0..10).map(|_| TcpStream::connect(addr).expect("a connection")).collect();
            // Half of them begin a handshake, half are silent; some say what is no RSSL.
            for (n, client) in clients.iter_mut().enumerate().skip(5) {
                client.write_all(if n == 9 { b"junk\n" } else { &[0, 9, 0] }).expect("room");
            }
            drop(clients);
            while gone.0 < 10 * round {
                io.turn(Some(net::clock::now() + 1_000_000_000), &mut gone).expect("sockets");
            }
            assert!(io.timers.is_empty(), "{} after round {round}", io.timers.len());
        }
    }
}
