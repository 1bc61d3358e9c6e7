//! Sockets and RSSL sessions joined: bytes in, messages out, and back.
//!
//! One [`RsslIo`] belongs to one thread. [`RsslIo::turn`] polls the sockets, feeds the sessions and calls the
//! [`Handler`] for what comes out; afterwards the owner writes with [`RsslIo::send`]. The handler does not write itself:
//! everything a turn brings is taken in first and answered in one packed write per connection.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use net::tcp::{
    Batching, Close, ConnId, Event, ListenerId, RecvOutcome, Scratch, SendOutcome, SocketOptions, Tcp, TcpConfig,
};
use net::tls::{TlsServer, TlsSession};
use rssl::{ClientConfig, Closed, Connection, Negotiated, Packer, ServerConfig, Version};

/// Takes what the sessions bring.
pub trait Handler {
    /// A connection came in. An error is the text with which the session is refused.
    ///
    /// # Errors
    /// The refusal's text.
    fn admit(&mut self, _listener: ListenerId, _peer: SocketAddr) -> Result<(), String> {
        Ok(())
    }
    /// A session is established.
    fn opened(&mut self, now: u64, conn: ConnId, opened: &Opened<'_>);
    /// A message came in.
    fn message(&mut self, now: u64, conn: ConnId, msg: &[u8]);
    /// A connection is over. `established` tells whether [`Handler::opened`] was called for it.
    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended);
    /// The kernel has taken all that was queued for a connection.
    fn drained(&mut self, _now: u64, _conn: ConnId) {}
}

/// What is known when a session is established.
#[derive(Debug)]
pub struct Opened<'a> {
    /// The listener it came in on; `None` for one that was dialled.
    pub listener: Option<ListenerId>,
    /// The other end.
    pub peer: SocketAddr,
    /// What the handshake agreed on.
    pub info: &'a Negotiated,
}

/// How a connection ended.
#[derive(Debug)]
pub struct Ended {
    /// The session had been established.
    pub established: bool,
    /// Why, for people.
    pub why: String,
    /// The connection version to try next, if the server seems not to know the one that was offered.
    pub next_version: Option<Version>,
}

struct Session {
    id: ConnId,
    rssl: Connection,
    /// Between the socket and the session where the connection type is encrypted.
    tls: Option<TlsSession>,
    listener: Option<ListenerId>,
    peer: SocketAddr,
    /// Composed bytes that wait for [`RsslIo::flush`]; empty unless writes are timed.
    pending: Vec<u8>,
    established: bool,
    timer_at: u64,
    /// Bytes that are read from it in one turn at most.
    read_most: usize,
    /// Set when this side has decided the end.
    why: Option<String>,
}

/// The sockets and sessions of one thread.
pub struct RsslIo {
    tcp: Tcp,
    events: Vec<Event>,
    scratch: Scratch,
    out: Vec<u8>,
    cipher: Vec<u8>,
    /// Memory for what sessions have pending, for reuse.
    spare: Vec<Vec<u8>>,
    /// That the batching is refused has been said.
    told_refusal: bool,
    /// What [`RsslIo::flush_all`] hands over.
    batch: Vec<(ConnId, Vec<u8>)>,
    sessions: Vec<Option<Session>>,
    listeners: Vec<Door>,
    /// When to ask a session again what is due. An entry whose time is not the session's `timer_at` is an old one.
    timers: BinaryHeap<Reverse<(u64, ConnId)>>,
    seed: u64,
    /// Foreign descriptors that have something, a bit for each number.
    ready: u32,
}

/// What sessions of a listener are made with.
struct Door {
    session: Arc<ServerConfig>,
    tls: Option<TlsServer>,
    read_most: usize,
}

/// How long a connection may take to drain when it is closed in order.
const DRAIN: Duration = Duration::from_secs(2);
/// Room that composing keeps between turns; more is given back.
const OUT_KEPT: usize = 1 << 20;
/// Largest memory of pending bytes that is kept, and how many.
const PENDING_KEPT: usize = 128 << 10;
const SPARES: usize = 1024;

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
            spare: Vec::new(),
            batch: Vec::new(),
            sessions: Vec::new(),
            listeners: Vec::new(),
            timers: BinaryHeap::new(),
            seed,
            ready: 0,
        })
    }

    /// The sockets below, for wakers and counters.
    pub fn tcp(&mut self) -> &mut Tcp {
        &mut self.tcp
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
        self.open_door(addr, options, Door { session: config, tls: None, read_most: usize::MAX })
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
        self.open_door(addr, options, Door { session: config, tls: Some(tls), read_most: usize::MAX })
    }

    /// Has no more than so many bytes read in one turn from each session that comes in here from now on, so that what it asks for
    /// does not keep the others waiting. What is left is read in the next turn.
    pub fn limit_reading(&mut self, listener: ListenerId, bytes: usize) {
        self.listeners[listener.index()].read_most = bytes;
    }

    fn open_door(
        &mut self,
        addr: SocketAddr,
        options: &SocketOptions,
        door: Door,
    ) -> io::Result<(ListenerId, SocketAddr)> {
        let (id, addr) = self.tcp.listen(addr, options)?;
        debug_assert_eq!(id.index(), self.listeners.len());
        self.listeners.push(door);
        Ok((id, addr))
    }

    /// Dials a server, with TLS in between if there is some. Success and failure come as [`Handler::opened`] or
    /// [`Handler::closed`].
    ///
    /// # Errors
    /// The socket cannot even be made.
    pub fn connect(
        &mut self,
        now: u64,
        addr: SocketAddr,
        options: &SocketOptions,
        config: Arc<ClientConfig>,
        tls: Option<TlsSession>,
    ) -> io::Result<ConnId> {
        let conn = self.tcp.connect(addr, options)?;
        self.insert(now, conn, Connection::client(config), tls, (None, addr));
        Ok(conn)
    }

    fn insert(
        &mut self,
        now: u64,
        conn: ConnId,
        rssl: Connection,
        tls: Option<TlsSession>,
        (listener, peer): (Option<ListenerId>, SocketAddr),
    ) {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let read_most = listener.map_or(usize::MAX, |l| self.listeners[l.index()].read_most);
        let mut session = Session {
            id: conn,
            rssl: rssl.with_seed(self.seed ^ now),
            tls,
            listener,
            peer,
            pending: Vec::new(),
            established: false,
            timer_at: 0,
            read_most,
            why: None,
        };
        self.out.clear();
        session.rssl.start(now, &mut self.out);
        if !self.out.is_empty() {
            session.transmit(&mut self.tcp, &mut self.cipher, &self.out);
        }
        session.set_timer(0, &mut self.timers);
        if self.sessions.len() <= conn.slot() {
            self.sessions.resize_with(conn.slot() + 1, || None);
        }
        self.sessions[conn.slot()] = Some(session);
    }

    fn session(&mut self, conn: ConnId) -> Option<&mut Session> {
        self.sessions.get_mut(conn.slot())?.as_mut().filter(|s| s.id == conn)
    }

    /// Waits for input until `deadline` (absolute nanoseconds; `None` for ever), takes it in and returns the time of it.
    ///
    /// # Errors
    /// Only what makes all sockets unusable.
    pub fn turn(&mut self, deadline: Option<u64>, handler: &mut impl Handler) -> io::Result<u64> {
        let due = self.timers.peek().map(|t| t.0.0);
        let deadline = match (deadline, due) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let timeout = deadline.map(|at| Duration::from_nanos(at.saturating_sub(net::clock::now())));
        let mut events = std::mem::take(&mut self.events);
        let polled = self.tcp.poll(timeout, &mut events);
        let now = net::clock::now();
        for event in &events {
            self.event(now, *event, handler);
        }
        self.events = events;
        polled?;
        self.run_timers(now);
        if self.out.capacity() > OUT_KEPT {
            self.out = Vec::new();
        }
        Ok(now)
    }

    fn event(&mut self, now: u64, event: Event, handler: &mut impl Handler) {
        match event {
            Event::Readable { conn } => self.read(now, conn, handler),
            Event::Accepted { listener, conn, peer } => {
                let door = &self.listeners[listener.index()];
                let mut rssl = Connection::server(door.session.clone());
                let tls = match door.tls.as_ref().map(TlsServer::accept).transpose() {
                    Ok(tls) => tls,
                    Err(e) => {
                        tracing::error!("a connection from {peer} cannot be encrypted: {e}");
                        self.tcp.close(conn, Close::Now);
                        return;
                    }
                };
                if let Err(text) = handler.admit(listener, peer) {
                    rssl.refuse(&text);
                }
                self.insert(now, conn, rssl, tls, (Some(listener), peer));
            }
            Event::Closed { conn, why } => {
                let Some(session) = self.session(conn) else { return };
                let ended = Ended {
                    established: session.established,
                    next_version: session.rssl.next_version(),
                    why: session.why.take().unwrap_or_else(|| why.to_string()),
                };
                self.sessions[conn.slot()] = None;
                handler.closed(now, conn, &ended);
            }
            Event::Drained { conn } => handler.drained(now, conn),
            Event::AcceptFailed { errno, .. } => {
                tracing::warn!("connections cannot be accepted: {}", io::Error::from_raw_os_error(errno));
            }
            Event::Ready { token } => self.ready |= 1 << (token & 31),
            Event::Connected { .. } | Event::Woken => {}
        }
    }

    #[inline]
    fn read(&mut self, now: u64, conn: ConnId, handler: &mut impl Handler) {
        let Some(session) = self.sessions.get_mut(conn.slot()).and_then(Option::as_mut) else { return };
        let received = self.tcp.recv_at_most(conn, &mut self.scratch, session.read_most);
        let RecvOutcome::Data(bytes) = received else { return };
        if session.id != conn || session.why.is_some() {
            return;
        }
        self.out.clear();
        let was_established = session.established;
        let mut sink = Dispatch {
            handler,
            now,
            conn,
            listener: session.listener,
            peer: session.peer,
            established: &mut session.established,
        };
        let (mut result, mut tls_error) = (Ok(()), None);
        match &mut session.tls {
            None => result = session.rssl.receive(now, bytes, &mut self.out, &mut sink),
            Some(tls) => {
                self.cipher.clear();
                let (rssl, out) = (&mut session.rssl, &mut self.out);
                let processed = tls.process(bytes, &mut self.cipher, |plain| {
                    if result.is_ok() {
                        result = rssl.receive(now, plain, out, &mut sink);
                    }
                });
                tls_error = processed.err();
                if !self.cipher.is_empty() {
                    self.tcp.send(conn, &self.cipher);
                }
            }
        }
        if session.established && !was_established {
            // The pings' times come before the handshake's, which is the one that is set.
            session.set_timer(now, &mut self.timers);
        }
        if !self.out.is_empty() {
            session.transmit(&mut self.tcp, &mut self.cipher, &self.out);
        }
        if let Some(e) = tls_error {
            self.close(conn, &e.to_string(), Close::Drain(DRAIN));
        } else if let Err(closed) = result {
            // An unknown version is not answered: the peer tries the next lower one.
            let how = if matches!(closed, Closed::UnknownVersion { .. }) { Close::Now } else { Close::Drain(DRAIN) };
            self.close(conn, &closed.to_string(), how);
        }
    }

    fn run_timers(&mut self, now: u64) {
        while let Some(&Reverse((at, conn))) = self.timers.peek() {
            if at > now {
                return;
            }
            self.timers.pop();
            let Some(session) = self.sessions.get_mut(conn.slot()).and_then(Option::as_mut) else { continue };
            if session.id != conn || session.why.is_some() || session.timer_at != at {
                continue;
            }
            self.out.clear();
            let result = session.rssl.on_timer(now, &mut self.out);
            session.set_timer(now, &mut self.timers);
            if !self.out.is_empty() {
                // A ping may not overtake composed bytes: they are whole frames, so it goes behind them.
                if session.pending.is_empty() {
                    session.transmit(&mut self.tcp, &mut self.cipher, &self.out);
                } else {
                    session.pending.extend_from_slice(&self.out);
                }
            }
            if let Err(closed) = result {
                self.close(conn, &closed.to_string(), Close::Now);
            }
        }
    }

    /// Writes messages to a session, packed, and sends them at once. Gives the bytes that are queued for the connection
    /// because the kernel did not take them; `None` if the connection is gone.
    #[inline]
    pub fn send(&mut self, now: u64, conn: ConnId, write: impl FnOnce(&mut Packer<'_>)) -> Option<usize> {
        let session = self.sessions.get_mut(conn.slot())?.as_mut().filter(|s| s.id == conn)?;
        if !session.pending.is_empty() {
            // What waits for the timer goes first.
            compose(&mut session.rssl, now, &mut session.pending, write);
            return self.flush(conn);
        }
        self.out.clear();
        compose(&mut session.rssl, now, &mut self.out, write);
        session.transmit(&mut self.tcp, &mut self.cipher, &self.out)
    }

    /// Writes messages to a session, each in a frame of its own, and sends them at once; otherwise as [`RsslIo::send`].
    pub fn send_unpacked<'m>(
        &mut self,
        now: u64,
        conn: ConnId,
        messages: impl Iterator<Item = (&'m [u8], i32)>,
    ) -> Option<usize> {
        let session = self.sessions.get_mut(conn.slot())?.as_mut().filter(|s| s.id == conn)?;
        for (body, stream) in messages {
            // A packer that is closed after each message writes it as a plain frame.
            compose(&mut session.rssl, now, &mut session.pending, |p| p.push(body, Some(stream)));
        }
        self.flush(conn)
    }

    /// Writes messages to a session, packed, without sending them; [`RsslIo::flush`] does. Gives the bytes that wait.
    pub fn queue(&mut self, now: u64, conn: ConnId, write: impl FnOnce(&mut Packer<'_>)) -> Option<usize> {
        let session = self.sessions.get_mut(conn.slot())?.as_mut().filter(|s| s.id == conn)?;
        if session.pending.capacity() == 0 {
            session.pending = self.spare.pop().unwrap_or_default();
        }
        compose(&mut session.rssl, now, &mut session.pending, write);
        Some(session.pending.len() + self.tcp.queued(conn))
    }

    /// Sends what [`RsslIo::queue`] has gathered. Gives the bytes that the kernel did not take.
    pub fn flush(&mut self, conn: ConnId) -> Option<usize> {
        let session = self.sessions.get_mut(conn.slot())?.as_mut().filter(|s| s.id == conn)?;
        let pending = std::mem::take(&mut session.pending);
        let queued = session.transmit(&mut self.tcp, &mut self.cipher, &pending);
        self.keep(pending);
        queued
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
            each(conn, self.tcp.queued(conn));
        }
        self.batch = batch;
    }

    /// Keeps memory for what others will have pending.
    fn keep(&mut self, mut memory: Vec<u8>) {
        if memory.capacity() > 0 && memory.capacity() <= PENDING_KEPT && self.spare.len() < SPARES {
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

    /// Ends a connection. [`Handler::closed`] follows with this reason.
    pub fn close(&mut self, conn: ConnId, why: &str, how: Close) {
        let Some(session) = self.sessions.get_mut(conn.slot()).and_then(Option::as_mut) else { return };
        if session.id != conn || session.why.is_some() {
            return;
        }
        session.why = Some(why.to_string());
        let pending = std::mem::take(&mut session.pending);
        if !pending.is_empty() {
            session.transmit(&mut self.tcp, &mut self.cipher, &pending);
        }
        if let Some(tls) = &mut session.tls {
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

impl Session {
    /// Has the session asked again when it says, but not before the next turn.
    fn set_timer(&mut self, now: u64, timers: &mut BinaryHeap<Reverse<(u64, ConnId)>>) {
        if let Some(at) = self.rssl.timeout() {
            self.timer_at = at.max(now + 1);
            timers.push(Reverse((self.timer_at, self.id)));
        }
    }

    /// Sends composed bytes, encrypted where the connection is. Gives what the kernel did not take; `None` if the
    /// connection is gone.
    #[inline]
    fn transmit(&mut self, tcp: &mut Tcp, cipher: &mut Vec<u8>, bytes: &[u8]) -> Option<usize> {
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

fn compose(rssl: &mut Connection, now: u64, out: &mut Vec<u8>, write: impl FnOnce(&mut Packer<'_>)) {
    let mut packer = rssl.pack(now, out);
    write(&mut packer);
    if let Err(e) = packer.finish() {
        // Only messages that no frame can carry end here; what produced them is at fault, not the peer.
        tracing::error!("a message could not be written: {e}");
    }
}

struct Dispatch<'a, H> {
    handler: &'a mut H,
    now: u64,
    conn: ConnId,
    listener: Option<ListenerId>,
    peer: SocketAddr,
    established: &'a mut bool,
}

impl<H: Handler> rssl::Sink for Dispatch<'_, H> {
    fn connected(&mut self, info: &Negotiated) {
        *self.established = true;
        self.handler.opened(self.now, self.conn, &Opened { listener: self.listener, peer: self.peer, info });
    }

    #[inline]
    fn message(&mut self, msg: &[u8]) {
        self.handler.message(self.now, self.conn, msg);
    }
}
