//! A set of TCP listeners and connections on one epoll, for one thread.
//!
//! The owner's turn: [`Tcp::poll`] for events; [`Tcp::recv`] once for each [`Event::Readable`]; then [`Tcp::send`] or
//! [`Tcp::send_all`] what came out of it. Nothing here knows a protocol or copies input: a connection's bytes are received into a
//! [`Scratch`] of the caller's and handed out as a slice of it.
//!
//! ```
//! use net::tcp::{Event, RecvOutcome, Scratch, SocketOptions, Tcp, TcpConfig};
//!
//! # fn main() -> std::io::Result<()> {
//! let mut tcp = Tcp::new(TcpConfig::default())?;
//! let (_, addr) = tcp.listen("127.0.0.1:0".parse().unwrap(), &SocketOptions::default())?;
//! let client = tcp.connect(addr, &SocketOptions::default())?;
//! tcp.send(client, b"hello");
//!
//! let (mut events, mut scratch) = (Vec::new(), Scratch::default());
//! let mut echoed = Vec::new();
//! while echoed.len() < 5 {
//!     tcp.poll(None, &mut events)?;
//!     for event in &events {
//!         let Event::Readable { conn } = *event else { continue };
//!         let RecvOutcome::Data(bytes) = tcp.recv(conn, &mut scratch) else { continue };
//!         if conn == client {
//!             echoed.extend_from_slice(bytes);
//!         } else {
//!             tcp.send(conn, bytes);
//!         }
//!     }
//! }
//! assert_eq!(echoed, b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! # How readiness is kept
//!
//! Connections are registered once, edge-triggered, for input only, and this set remembers which of them may hold more. Compared with
//! the level-triggered way that saves: the call to stop and to resume reading; a second look by the kernel at each connection that
//! was served (it re-queues level-triggered ones); and, because writability is armed at the first refused send and disarmed only when
//! an event shows that it is no longer needed, both calls at each later stall. A receive that fills less than its buffer has taken
//! all there was (epoll(7)), so one call a turn is enough; one that fills it is reported again by the next poll, after all others. To
//! the caller the set looks level-triggered: [`Event::Readable`] comes back until the input is exhausted.
//!
//! # Bounds
//!
//! A turn takes from a connection what fits the scratch buffer, and at most [`ACCEPTS_PER_TURN`] from a listener. A queue is as long
//! as the caller lets it become ([`Tcp::queued`]); nothing is dropped here but by closing.

mod accept;
mod close;
mod conn;
mod options;
mod send;
mod tail;
mod types;
mod uring;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use accept::Acceptors;
use conn::{Conn, Flags, Slots};
use tail::Pool;
use uring::Batcher;

pub use accept::ACCEPTS_PER_TURN;
pub use options::{BufferSizes, DEFAULT_SEND_BUFFER, Keepalive, SocketOptions, Traffic};
pub use types::{
    Close, CloseReason, ConnId, Counters, Event, ListenerId, RecvOutcome, Scratch, SendOutcome, SendSummary,
};
pub use uring::Batching;

use crate::clock;
use crate::fault::{ConnFault, FaultPlan};
use crate::sys::{self, Epoll, EpollEvent};
use crate::waker::Waker;
use crate::yielding::Yielding;

const IN: i32 = libc::EPOLLIN;
const OUT: i32 = libc::EPOLLOUT;
const OVER: i32 = libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;
/// What every connection is registered for; errors and hang-ups are reported unasked.
const BASE: i32 = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;

/// Tokens of what is not a connection, in the place of the slot. Slots stay below.
const TOKEN_LISTENER: u32 = 0x8000_0000;
const TOKEN_WATCH: u32 = 0xC000_0000;
const TOKEN_WAKER: u32 = u32::MAX;

/// Settings of a [`Tcp`].
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Events taken from the kernel in one call.
    pub events_per_poll: usize,
    /// How [`Tcp::send_all`] sends.
    pub batching: Batching,
    /// A thread that has been busy for so long since it last waited gives the others of its processor a turn before it polls
    /// again; `None`: it never does. See [`Yielding`].
    pub yield_after: Option<Duration>,
    /// Injected faults for new connections, for tests and demonstrations.
    pub faults: Option<FaultPlan>,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self { events_per_poll: 512, batching: Batching::default(), yield_after: Some(Yielding::DEFAULT), faults: None }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A closing connection's time is over.
    Close(ConnId),
    /// A listener that could not accept tries again.
    Accept(ListenerId),
}

/// The set of listeners and connections. See the module's documentation.
pub struct Tcp {
    epoll: Epoll,
    ready: Box<[EpollEvent]>,
    slots: Slots,
    acceptors: Acceptors,
    /// Connections that may hold input, in the order in which they are served.
    unread: Vec<ConnId>,
    /// Connections whose end the next poll reports.
    ended: Vec<ConnId>,
    /// Connections whose end the last poll reported: their slots become free with the next.
    told: Vec<ConnId>,
    /// Deadlines, soonest first. Entries of connections that ended before are dropped when they come up.
    due: BinaryHeap<Reverse<(u64, Due)>>,
    pool: Pool,
    batcher: Batcher,
    waker: Waker,
    yielding: Yielding,
    /// What keeps input of a listed connection from being reported: what holds it, and being patient while those wait.
    held: Flags,
    faults: Option<FaultPlan>,
    counters: Counters,
}

impl Tcp {
    /// An empty set.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn new(config: TcpConfig) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        let waker = Waker::new()?;
        epoll.add(waker.fd(), IN | libc::EPOLLET, u64::from(TOKEN_WAKER))?;
        Ok(Self {
            epoll,
            ready: vec![EpollEvent { events: 0, u64: 0 }; config.events_per_poll.max(1)].into_boxed_slice(),
            slots: Slots::default(),
            acceptors: Acceptors::default(),
            unread: Vec::new(),
            ended: Vec::new(),
            told: Vec::new(),
            due: BinaryHeap::new(),
            pool: Pool::default(),
            batcher: Batcher::new(config.batching),
            waker,
            yielding: Yielding::new(config.yield_after),
            held: Flags::HELD,
            faults: config.faults,
            counters: Counters::default(),
        })
    }

    /// Opens a listener and returns it with the address it really has (port 0: one that the kernel chose). Its connections inherit
    /// the options.
    ///
    /// # Errors
    /// What `socket`, `setsockopt`, `bind` or `listen` say, as a rule that the address is in use or not this machine's.
    pub fn listen(&mut self, addr: SocketAddr, options: &SocketOptions) -> io::Result<(ListenerId, SocketAddr)> {
        let fd = sys::tcp_socket(&addr)?;
        options.apply_listening(fd.as_fd(), &addr)?;
        options.apply(fd.as_fd())?;
        sys::bind(fd.as_fd(), addr)?;
        sys::listen(fd.as_fd(), options.backlog)?;
        let bound = sys::socket_name(fd.as_fd(), false)?;
        let id = self.acceptors.insert(fd, options.backlog, &self.epoll)?;
        Ok((id, bound))
    }

    /// Stops or resumes accepting; meanwhile the kernel keeps up to `backlog` connections waiting.
    ///
    /// # Errors
    /// When the kernel refuses the change.
    pub fn set_accepting(&mut self, listener: ListenerId, accepting: bool) -> io::Result<()> {
        self.acceptors.set_accepting(listener, accepting, &self.epoll)
    }

    /// Has a listener refuse connections as if nobody listened there, those that wait in it included, or take them again. Its port stays held
    /// meanwhile, if it was named and not chosen by the kernel: no outgoing connection of another process gets it.
    ///
    /// Closing the listener would not do: a process that is being started has a copy of the socket until its program runs, so that it goes on
    /// listening for as long.
    ///
    /// # Errors
    /// What `shutdown` or `listen` say: another socket may listen at the address by now that was bound with `reuse_address` too.
    pub fn set_refusing(&mut self, listener: ListenerId, refuses: bool) -> io::Result<()> {
        self.acceptors.set_refusing(listener, refuses, &self.epoll)
    }

    /// Has the kernel drop all that comes for a connection, the ends of it too, as if this host had gone without a word: what the peer sends is
    /// never acknowledged. There is no way back.
    ///
    /// # Errors
    /// The connection is gone, or the kernel takes no filter.
    pub fn drop_input(&mut self, conn: ConnId) -> io::Result<()> {
        sys::drop_segments(self.fd_of(conn)?)
    }

    /// Closes a listener; connections that wait in it are reset. Accepted ones stay.
    pub fn close_listener(&mut self, listener: ListenerId) {
        self.acceptors.remove(listener);
    }

    /// Starts an outgoing connection. [`Event::Connected`] or [`Event::Closed`] follows; bytes sent before are queued. There is no
    /// time-out but the kernel's (two minutes): close it when yours is over.
    ///
    /// # Errors
    /// What `socket`, `setsockopt`, `bind` or `connect` say at once. Then there is no connection and no event.
    pub fn connect(&mut self, addr: SocketAddr, options: &SocketOptions) -> io::Result<ConnId> {
        let fd = sys::tcp_socket(&addr)?;
        options.apply(fd.as_fd())?;
        if let Some(local) = options.local {
            if options.reuse_address {
                sys::set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
            }
            if local.port() == 0 {
                // The port is chosen by `connect`, which knows the peer: `bind` looks through all connections of the address, so that
                // the 10,000th took a millisecond.
                sys::set_option(fd.as_fd(), libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
            }
            sys::bind(fd.as_fd(), local)?;
        }
        // Even if it is complete at once, the event comes through epoll: one way for both.
        sys::connect(fd.as_fd(), addr)?;
        let mut flags = Flags::CONNECTING;
        flags.set(Flags::ARMED);
        self.register(fd, flags, BASE | OUT)
    }

    /// Takes in a connected stream that was made elsewhere.
    ///
    /// # Errors
    /// When it cannot be made non-blocking or be registered.
    pub fn adopt(&mut self, stream: TcpStream) -> io::Result<ConnId> {
        let fd = OwnedFd::from(stream);
        sys::set_nonblocking(fd.as_fd())?;
        self.register(fd, Flags::default(), BASE)
    }

    fn register(&mut self, fd: OwnedFd, flags: Flags, interest: i32) -> io::Result<ConnId> {
        // Not inserted before the kernel agreed: a failure leaves nothing behind.
        self.epoll.add(fd.as_fd(), interest, token(self.slots.next_id()))?;
        let conn = self.slots.insert(fd, flags);
        if let Some(fault) = self.faults.as_mut().and_then(FaultPlan::draw_connection) {
            self.set_fault(conn, Some(fault));
        }
        Ok(conn)
    }

    /// Waits for events, at most `timeout` (`None`: for ever; zero: not at all), and replaces the contents of `events` with them. May
    /// return early and with no event. Resolution is nanoseconds where the kernel has `epoll_pwait2` (5.11), else milliseconds,
    /// rounded up.
    ///
    /// # Errors
    /// Only what makes this set unusable; failures of a connection are its [`Event::Closed`].
    pub fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        for id in self.told.drain(..) {
            self.slots.release(id);
        }
        let timeout = self.wait_time(timeout);
        self.counters.waits += 1;
        let (epoll, ready) = (&mut self.epoll, &mut self.ready);
        let count = self.yielding.wait(timeout != Some(Duration::ZERO), || epoll.wait(ready, timeout))?;
        for index in 0..count {
            let EpollEvent { events: bits, u64: token } = self.ready[index];
            let (slot, generation) = (token as u32, (token >> 32) as u32);
            match slot {
                TOKEN_WAKER => {
                    self.waker.take();
                    events.push(Event::Woken);
                }
                TOKEN_WATCH.. => events.push(Event::Ready { token: generation }),
                TOKEN_LISTENER.. => self.accept_from(ListenerId(slot - TOKEN_LISTENER), events)?,
                _ => self.on_ready(ConnId { slot, generation }, bits as i32, events),
            }
        }
        self.run_due(events)?;
        self.report_readable(events);
        self.report_ended(events);
        Ok(())
    }

    /// How long the kernel may wait: not at all when there is something to report already, and not past a deadline.
    fn wait_time(&self, asked: Option<Duration>) -> Option<Duration> {
        if !self.ended.is_empty() || self.has_unread() {
            return Some(Duration::ZERO);
        }
        let Some(&Reverse((due, _))) = self.due.peek() else { return asked };
        let left = Duration::from_nanos(due.saturating_sub(clock::now()));
        Some(asked.map_or(left, |asked| asked.min(left)))
    }

    /// Whether input is known to be left. The list also holds those that were exhausted since they were reported: to look at each
    /// costs less than a poll that finds nothing.
    fn has_unread(&self) -> bool {
        let is_left = |&id: &ConnId| {
            let conn = self.slots.open_ref(id);
            conn.is_some_and(|conn| conn.flags.has(Flags::READABLE) && !conn.flags.has(self.held))
        };
        self.unread.iter().any(is_left)
    }

    fn on_ready(&mut self, id: ConnId, bits: i32, events: &mut Vec<Event>) {
        // A connection that ended earlier in this turn, or an earlier owner of the slot.
        let Some(conn) = self.slots.open(id) else { return };
        if conn.flags.has(Flags::CONNECTING) && !self.finish_connect(id, events) {
            return;
        }
        if bits & OUT != 0 {
            self.on_writable(id, events);
        }
        if bits & (IN | OVER) == 0 {
            return;
        }
        // Sending may have been the end of the connection.
        let Some(conn) = self.slots.open(id) else { return };
        if conn.flags.has(Flags::CLOSING) {
            self.discard_input(id);
            return;
        }
        conn.flags.set(Flags::READABLE);
        if bits & OVER != 0 {
            conn.flags.set(Flags::ENDING);
            // Nobody receives from it now, so nobody else would notice.
            if bits & libc::EPOLLERR != 0 && conn.flags.has(Flags::PAUSED) {
                let errno = sys::option(conn.fd(), libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(libc::ECONNRESET);
                return self.end(id, CloseReason::from_error(&io::Error::from_raw_os_error(errno)));
            }
        }
        self.list(id);
    }

    /// The outcome of a connect; `false` if it failed.
    fn finish_connect(&mut self, id: ConnId, events: &mut Vec<Event>) -> bool {
        let Some(conn) = self.slots.open(id) else { return false };
        let errno = match sys::option(conn.fd(), libc::SOL_SOCKET, libc::SO_ERROR) {
            Ok(errno) => errno,
            Err(e) => e.raw_os_error().unwrap_or(libc::EIO),
        };
        if errno != 0 {
            self.end(id, CloseReason::ConnectFailed(errno));
            return false;
        }
        conn.flags.clear(Flags::CONNECTING);
        self.counters.connected += 1;
        if !conn.flags.has(Flags::CLOSING) {
            events.push(Event::Connected { conn: id });
        }
        true
    }

    fn on_writable(&mut self, id: ConnId, events: &mut Vec<Event>) {
        let Some(conn) = self.slots.open(id) else { return };
        if let Some(tail) = &mut conn.tail {
            let fd = conn.fd.as_ref().expect("open").as_fd();
            let (result, calls) = tail.flush(fd, &mut self.pool);
            self.counters.send_calls += calls;
            match result {
                Ok(sent) => self.counters.bytes_sent += sent as u64,
                Err(e) => return self.fail_send(id, &e),
            }
            if tail.len() > 0 {
                return;
            }
            self.pool.put(conn.tail.take().expect("just flushed"));
            conn.flags.clear(Flags::TAIL);
            if conn.flags.has(Flags::CLOSING) {
                self.shut(id);
            } else {
                events.push(Event::Drained { conn: id });
            }
        } else if conn.flags.has(Flags::ARMED) {
            // The connection was armed and nothing waits: only now is the call to disarm worth its while (see the module's documentation).
            conn.flags.clear(Flags::ARMED);
            self.counters.arms += 1;
            if let Err(e) = self.epoll.modify(conn.fd(), BASE, token(id)) {
                self.end(id, CloseReason::from_error(&e));
            }
        }
    }

    /// Puts a connection that may hold input on the list of those to report.
    fn list(&mut self, id: ConnId) {
        let Some(conn) = self.slots.open(id) else { return };
        if conn.flags.has(Flags::READABLE) && !conn.flags.has(Flags::UNREPORTED) {
            conn.flags.set(Flags::LISTED);
            self.unread.push(id);
        }
    }

    fn report_readable(&mut self, events: &mut Vec<Event>) {
        let (slots, held) = (&mut self.slots, self.held);
        self.unread.retain(|&id| {
            let Some(conn) = slots.open(id) else { return false };
            let stays = conn.flags.has(Flags::READABLE) && !conn.flags.has(Flags::HELD);
            if !stays {
                conn.flags.clear(Flags::LISTED);
            } else if !conn.flags.has(held) {
                events.push(Event::Readable { conn: id });
            }
            stays
        });
    }

    fn report_ended(&mut self, events: &mut Vec<Event>) {
        for &id in &self.ended {
            let why = self.slots.get_ref(id).expect("its slot is kept until it was reported").why;
            events.push(Event::Closed { conn: id, why });
        }
        self.counters.closed += self.ended.len() as u64;
        self.told.append(&mut self.ended);
    }

    fn run_due(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        if self.due.is_empty() {
            return Ok(());
        }
        let now = clock::now();
        while let Some(&Reverse((at, due))) = self.due.peek() {
            if at > now {
                break;
            }
            self.due.pop();
            match due {
                Due::Close(id) => self.close_overdue(id),
                Due::Accept(listener) => {
                    self.acceptors.resume(listener, &self.epoll)?;
                    self.accept_from(listener, events)?;
                }
            }
        }
        Ok(())
    }

    /// Receives once into `scratch`. Call it once for each [`Event::Readable`]; what is left is reported again.
    #[inline]
    pub fn recv<'s>(&mut self, conn: ConnId, scratch: &'s mut Scratch) -> RecvOutcome<'s> {
        self.recv_at_most(conn, scratch, usize::MAX)
    }

    /// As [`recv`](Self::recv), but at most so many bytes (at least one): what one connection may keep a turn from the others.
    #[inline]
    pub fn recv_at_most<'s>(&mut self, conn: ConnId, scratch: &'s mut Scratch, most: usize) -> RecvOutcome<'s> {
        let Some(state) = self.slots.open(conn) else { return RecvOutcome::Ended };
        let most = most.clamp(1, scratch.len());
        let mut room: &mut [u8] = &mut scratch[..most];
        if state.flags.has(Flags::RECV_ASIDE) {
            if state.flags.has(Flags::CONNECTING) {
                return RecvOutcome::Empty;
            }
            if state.flags.has(Flags::CLOSING) {
                return RecvOutcome::Ended;
            }
            let limit = state.fault.as_ref().map_or(usize::MAX, |fault| fault.receive_limit());
            if limit == 0 {
                if state.flags.has(Flags::STALLED) {
                    return RecvOutcome::Empty;
                }
                self.cut(conn);
                return RecvOutcome::Ended;
            }
            let limit = limit.min(room.len());
            room = &mut room[..limit];
        }
        self.counters.recv_calls += 1;
        match sys::recv(state.fd(), room) {
            Ok(0) => self.end_of_input(conn, CloseReason::PeerClosed),
            Ok(n) => {
                // Less than was asked for: that was all. Unless the end is known to follow, which only a recv can take.
                if n < room.len() && !state.flags.has(Flags::ENDING) {
                    state.flags.clear(Flags::READABLE);
                }
                if let Some(fault) = &mut state.fault {
                    fault.on_received(n);
                }
                self.counters.bytes_received += n as u64;
                RecvOutcome::Data(&mut room[..n])
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                state.flags.clear(Flags::READABLE);
                RecvOutcome::Empty
            }
            Err(e) => self.end_of_input(conn, CloseReason::from_error(&e)),
        }
    }

    /// The input is exhausted for good. If a send failed before, that is the reason.
    #[cold]
    fn end_of_input<'s>(&mut self, id: ConnId, why: CloseReason) -> RecvOutcome<'s> {
        let failed = self.slots.open(id).filter(|conn| conn.flags.has(Flags::SEND_FAILED)).map(|conn| conn.why);
        self.end(id, failed.unwrap_or(why));
        RecvOutcome::Ended
    }

    /// Stops or resumes the reports of input (the kernel's receive buffer then fills and the peer is held back). No system call; nothing to
    /// do once the connection has ended.
    pub fn set_reading(&mut self, conn: ConnId, reading: bool) {
        let Some(state) = self.slots.open(conn) else { return };
        if reading {
            state.flags.clear(Flags::PAUSED);
            self.list(conn);
        } else {
            state.flags.set(Flags::PAUSED);
        }
    }

    /// Makes a connection one of those that [`hold_patient`](Self::hold_patient) is about, or no longer. No system call; nothing to do once
    /// the connection has ended.
    pub fn set_patient(&mut self, conn: ConnId, patient: bool) {
        let Some(state) = self.slots.open(conn) else { return };
        if patient {
            state.flags.set(Flags::PATIENT);
        } else {
            state.flags.clear(Flags::PATIENT);
        }
    }

    /// Stops or resumes the reports of input of all connections that are patient, in constant time. No system call.
    pub fn hold_patient(&mut self, hold: bool) {
        self.held = Flags::HELD;
        if hold {
            self.held.set(Flags::PATIENT);
        }
    }

    /// Bytes queued here because the kernel refused them.
    #[inline]
    pub fn queued(&self, conn: ConnId) -> usize {
        self.slots.get_ref(conn).map_or(0, Conn::queued)
    }

    /// Bytes in the kernel's send queue that the peer has not acknowledged (`SIOCOUTQ`). A connection's backlog is this plus
    /// [`queued`](Self::queued). One system call.
    pub fn kernel_backlog(&self, conn: ConnId) -> usize {
        self.slots.open_ref(conn).and_then(|state| sys::unacknowledged(state.fd()).ok()).unwrap_or(0)
    }

    /// The socket buffers that the kernel granted.
    ///
    /// # Errors
    /// `ENOTCONN` when the connection is gone.
    pub fn buffer_sizes(&self, conn: ConnId) -> io::Result<BufferSizes> {
        BufferSizes::of(self.fd_of(conn)?)
    }

    /// What the kernel has counted of a connection. One system call.
    ///
    /// # Errors
    /// `ENOTCONN` when the connection is gone.
    pub fn traffic(&self, conn: ConnId) -> io::Result<Traffic> {
        Traffic::of(self.fd_of(conn)?)
    }

    /// Address of the other end.
    ///
    /// # Errors
    /// When the connection is gone or not established.
    pub fn peer_addr(&self, conn: ConnId) -> io::Result<SocketAddr> {
        sys::socket_name(self.fd_of(conn)?, true)
    }

    /// Address of this end.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn local_addr(&self, conn: ConnId) -> io::Result<SocketAddr> {
        sys::socket_name(self.fd_of(conn)?, false)
    }

    fn fd_of(&self, conn: ConnId) -> io::Result<BorrowedFd<'_>> {
        let state = self.slots.open_ref(conn).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOTCONN))?;
        Ok(state.fd())
    }

    /// Injects (or, with `None`, takes back) faults of one connection; see [`fault`](crate::fault). One that has ended has none any more.
    pub fn set_fault(&mut self, conn: ConnId, fault: Option<ConnFault>) {
        let Some(state) = self.slots.open(conn) else { return };
        state.flags.clear(Flags::FAULTY);
        state.flags.clear(Flags::STALLED);
        if let Some(fault) = &fault {
            state.flags.set(Flags::FAULTY);
            if fault.stall_reads {
                state.flags.set(Flags::STALLED);
            }
        }
        state.fault = fault.map(Box::new);
        self.list(conn);
    }

    /// Something that wakes [`poll`](Self::poll) from other threads.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Also reports, as [`Event::Ready`] with this token, whenever the descriptor is readable (level-triggered). The caller keeps the
    /// descriptor open, and takes it back with [`unwatch`](Self::unwatch) before closing it.
    ///
    /// # Errors
    /// When the kernel cannot poll such a descriptor or has it already.
    pub fn watch(&mut self, fd: BorrowedFd<'_>, number: u32) -> io::Result<()> {
        self.epoll.add(fd, IN, u64::from(number) << 32 | u64::from(TOKEN_WATCH))
    }

    /// Changes a [`watch`](Self::watch): with `output`, its descriptor is also reported while it is writable.
    ///
    /// # Errors
    /// When the descriptor is not watched.
    pub fn watch_output(&mut self, fd: BorrowedFd<'_>, number: u32, output: bool) -> io::Result<()> {
        let events = if output { IN | OUT } else { IN };
        self.epoll.modify(fd, events, u64::from(number) << 32 | u64::from(TOKEN_WATCH))
    }

    /// Ends a [`watch`](Self::watch).
    ///
    /// # Errors
    /// When the descriptor is not watched.
    pub fn unwatch(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.epoll.remove(fd)
    }

    /// When [`poll`](Self::poll) has something to report though the kernel has no event, monotonic ns; 0 = now. For a set that is
    /// watched by another one.
    pub fn timeout(&self) -> Option<u64> {
        if !self.ended.is_empty() || self.has_unread() {
            return Some(0);
        }
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Connections there are, those included whose end has not been reported.
    pub fn connections(&self) -> usize {
        self.slots.count() - self.told.len()
    }

    /// What was done so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl AsFd for Tcp {
    /// Readable when a [`poll`](Tcp::poll) would report an event of the kernel's: a set can be watched by another one.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.fd().as_fd()
    }
}

impl std::fmt::Debug for Tcp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tcp")
            .field("connections", &self.connections())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

fn token(id: ConnId) -> u64 {
    u64::from(id.generation) << 32 | u64::from(id.slot)
}
