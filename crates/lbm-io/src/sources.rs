//! The sending half of a context.

use std::time::Duration;

use lbm::options::{ContextOption, Options};
use lbm::topic::SourceStats;
use lbm::wire::header::{Header, Request as RequestHeader};
use lbm::wire::lbmc::Message;
use lbm::wire::lbmr::Transport;
use lbm_failover::{Encoded, Mark, Number};
use net::clock;
use net::udp::Slabs;

use crate::error::{ContextError, SendError};
use crate::fault::Fault;
use crate::handles::{FilteredReceiver, Request, RequestId, SendFlags, SourceId};
use crate::io::Io;
use crate::outbound::{Key, Leave, Outbound, ReadySocket};
use crate::places::Places;
use crate::requests::Requests;
use crate::{Warning, interface};

/// Between two looks at the clock while nothing is flushed, since one costs as much as two messages: so many that only join an open
/// datagram, each of the others counting as [`LONG_WAY`].
const SENDS_PER_TICK: u32 = 256;
const LONG_WAY: u32 = 8;
/// How long an answer may wait for others at most, ns.
const GATHER_NS: u64 = 20_000;

struct Entry {
    session: u32,
    /// The topic's index in the session.
    topic: u32,
    name: Box<str>,
    /// The resolver's handle.
    advert: u32,
    /// The source is among the session's refused.
    refused: bool,
}

/// The sending half of a [`Context`](crate::Context): what a callback can do.
///
/// A message is written straight into the transmission window of its session. It leaves with [`SendFlags::FLUSH`], at once if
/// `implicit_batching_minimum_length` is 1, when a train of datagrams is full, and otherwise with the context's next turn.
pub struct Sources {
    pub(crate) io: Io,
    pub(crate) sessions: Vec<Option<Outbound>>,
    table: Places<Entry>,
    now: u64,
    sends_left: u32,
    /// Sessions that have `dirty` set.
    dirty: Vec<u32>,
    /// Messages that came together are being delivered.
    delivering: bool,
    /// Until when answers to them wait for each other; 0 = none waits.
    gather_until: u64,
    /// Whether a refused source wants to be told.
    pub(crate) waiting: bool,
    slabs: Slabs,
    pub(crate) fault: Fault,
    pub(crate) requests: Requests,
    pub(crate) asking: Option<FilteredReceiver>,
    /// Sessions whose datagrams do not fit a frame, told once each way.
    fragments: Vec<Warning>,
    /// Places given to sources that share the sessions of a pool.
    round: u32,
}

impl Sources {
    pub(crate) fn new(io: Io, requests: Requests) -> Self {
        Self {
            io,
            sessions: Vec::new(),
            table: Places::default(),
            now: clock::now(),
            sends_left: 0,
            dirty: Vec::new(),
            delivering: false,
            gather_until: 0,
            waiting: false,
            slabs: Slabs::new(4),
            fault: Fault::default(),
            requests,
            asking: None,
            fragments: Vec::new(),
            round: 0,
        }
    }

    /// The time of the present turn.
    #[inline]
    pub fn now(&self) -> u64 {
        self.now
    }

    #[inline]
    pub(crate) fn tick(&mut self) -> u64 {
        self.now = clock::now();
        self.sends_left = SENDS_PER_TICK;
        self.now
    }

    /// Sends a message; returns its topic sequence number (that of the last fragment).
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] only with [`SendFlags::NONBLOCK`]. Without it the call waits for the socket, the rate limit or the
    /// slowest receiver, and meanwhile answers NAKs.
    #[inline]
    pub fn send(&mut self, source: SourceId, payload: &[u8], flags: SendFlags) -> Result<u32, SendError> {
        // What is only added to an open datagram leaves nothing behind for the turn.
        if flags.batches()
            && self.sends_left != 0
            && let Some(Entry { session, topic, .. }) = self.table.get(source.0)
            && let Some(Some(session)) = self.sessions.get_mut(*session as usize)
            && let Some(sqn) = session.append(self.now, *topic, payload)
        {
            self.sends_left -= 1;
            return Ok(sqn);
        }
        self.send_headed(source, &[], payload, flags)
    }

    /// Sends a message with extension headers.
    ///
    /// # Errors
    /// As [`Sources::send`].
    // The frame of this call would cost the short way of `send` a quarter of its instructions.
    #[inline(never)]
    pub fn send_headed(
        &mut self,
        source: SourceId,
        headers: &[Header<'_>],
        payload: &[u8],
        flags: SendFlags,
    ) -> Result<u32, SendError> {
        if !flags.batches() || self.sends_left == 0 {
            self.tick();
        }
        self.sends_left = self.sends_left.saturating_sub(LONG_WAY);
        let sent = self.hand_over(source, flags, |session, now, io, topic, leave| {
            session.send(now, io, topic, headers, payload, leave)
        });
        match sent {
            Err((at, lbm::topic::SendError::WouldBlock)) => self.blocked(source, at, headers, payload, flags),
            sent => sent.map_err(|(_, error)| error.into()),
        }
    }

    /// Within [`Events::question`](crate::Events::question): who asks, for [`Sources::send_to`]. `None`: a receiver of a session that does not filter.
    pub fn asking(&self) -> Option<FilteredReceiver> {
        self.asking
    }

    /// As [`Sources::send_headed`], to these receivers alone where the session filters by receivers (`transport_source_side_filtering_behavior
    /// ulb`). All receivers of the topic get it where it does not, or if there are no or too many of them, or one that the session does not know.
    ///
    /// # Errors
    /// As [`Sources::send`].
    pub fn send_to(
        &mut self,
        source: SourceId,
        receivers: &[FilteredReceiver],
        headers: &[Header<'_>],
        payload: &[u8],
        flags: SendFlags,
    ) -> Result<u32, SendError> {
        let entry = self.table.get(source.0).ok_or(SendError::NoSource)?;
        let (index, topic) = (entry.session as usize, entry.topic);
        let session = self.sessions.get_mut(index).and_then(Option::as_mut).ok_or(SendError::NoSource)?;
        session.direct(topic, receivers);
        let sent = self.send_headed(source, headers, payload, flags);
        if let Some(Some(session)) = self.sessions.get_mut(index) {
            session.directed(topic, sent.as_ref().ok().copied());
        }
        sent
    }

    /// Hands a message to the source's session by `give`, and sees to it that what waits there leaves when it is to. With an error comes
    /// where the source is: session and topic.
    #[inline]
    fn hand_over(
        &mut self,
        source: SourceId,
        flags: SendFlags,
        give: impl FnOnce(&mut Outbound, u64, &mut Io, u32, Leave) -> Result<u32, lbm::topic::SendError>,
    ) -> Result<u32, ((u32, u32), lbm::topic::SendError)> {
        // A source that is not there is a topic that its session does not have.
        let gone = ((u32::MAX, 0), lbm::topic::SendError::NoTopic);
        let entry = self.table.get(source.0).ok_or(gone)?;
        let (index, topic) = (entry.session, entry.topic);
        let session = self.sessions[index as usize].as_mut().ok_or(gone)?;
        let leave = if flags.batches() {
            Leave::Full
        } else if flags.flush() || !self.delivering || !session.gathers() {
            Leave::Now
        } else {
            Leave::Soon
        };
        let was_dirty = session.dirty;
        let sqn = give(session, self.now, &mut self.io, topic, leave).map_err(|error| ((index, topic), error))?;
        if session.dirty && !was_dirty {
            self.dirty.push(index);
        }
        if leave == Leave::Soon {
            self.gather();
        }
        Ok(sqn)
    }

    /// Sends a message of hot failover under the number that the application gives it. Every source of the topic sends the same content
    /// under the same number, in ascending order; numbers may be left out.
    ///
    /// # Errors
    /// As [`Sources::send`].
    pub fn send_failover(
        &mut self,
        source: SourceId,
        mark: Mark,
        payload: &[u8],
        flags: SendFlags,
    ) -> Result<u32, SendError> {
        let encoded = Encoded::of(mark);
        self.send_headed(source, encoded.headers().as_slice(), payload, flags)
    }

    /// Tells the receivers of hot failover that `next` comes next, lower numbers included: before a source begins to number anew. All
    /// sources of the topic do it, with the same number; the first one counts.
    ///
    /// # Errors
    /// As [`Sources::send`].
    pub fn reset_failover(&mut self, source: SourceId, next: Number, flags: SendFlags) -> Result<u32, SendError> {
        self.send_failover(source, Mark::reset(next), &[], flags)
    }

    /// The session did not take a message: lets it move, and tries again until it does.
    #[cold]
    fn blocked(
        &mut self,
        source: SourceId,
        (index, topic): (u32, u32),
        headers: &[Header<'_>],
        payload: &[u8],
        flags: SendFlags,
    ) -> Result<u32, SendError> {
        let mut first = true;
        loop {
            let now = self.tick();
            let Some(session) = &mut self.sessions[index as usize] else { return Err(SendError::NoSource) };
            session.on_timer(now, &mut self.io);
            session.receive(now, ReadySocket::Any, &mut self.io, &mut self.slabs, &mut self.fault);
            let leave = if flags.batches() { Leave::Full } else { Leave::Now };
            match session.send(now, &mut self.io, topic, headers, payload, leave) {
                Ok(sqn) => {
                    if session.dirty {
                        self.dirty.push(index);
                    }
                    return Ok(sqn);
                }
                Err(lbm::topic::SendError::WouldBlock) => {}
                Err(error) => return Err(error.into()),
            }
            if flags.nonblock() {
                self.refuse(source, index);
                return Err(SendError::WouldBlock);
            }
            if session.is_writable(now, &self.io) && !first {
                continue;
            }
            // The next tick of the rate limit; sockets and slow readers say nothing, so they are asked often.
            let next = session.timeout().map_or(1_000_000, |at| at.saturating_sub(now));
            let wait = if first { 0 } else { next.clamp(20_000, 1_000_000) };
            first = false;
            // A failure of the set itself is reported by the context's next turn.
            let _ = self.io.poll_aside(Duration::from_nanos(wait));
        }
    }

    /// The source is told when its session takes messages again.
    fn refuse(&mut self, source: SourceId, index: u32) {
        if let Some(entry) = self.table.get_mut(source.0)
            && !std::mem::replace(&mut entry.refused, true)
            && let Some(Some(session)) = self.sessions.get_mut(index as usize)
        {
            session.refused.push(source);
        }
        self.waiting = true;
    }

    /// Sends a message or fragment that another source has numbered, under its number and with its extension headers: what a router
    /// does. Numbers ascend; those that are left out are lost, which receivers see. Never waits.
    ///
    /// # Errors
    /// As [`Sources::send`] with [`SendFlags::NONBLOCK`]; too long is what does not fit a datagram of the session.
    #[inline]
    pub fn forward(&mut self, source: SourceId, message: &Message<'_>, flags: SendFlags) -> Result<u32, SendError> {
        self.tick();
        let sent = self
            .hand_over(source, flags, |session, now, io, topic, leave| session.forward(now, io, topic, message, leave));
        match sent {
            Err(((index, _), lbm::topic::SendError::WouldBlock)) => {
                self.refuse(source, index);
                Err(SendError::WouldBlock)
            }
            sent => sent.map_err(|(_, error)| error.into()),
        }
    }

    /// Leaves out all numbers of the source before this one: receivers see that they are lost, by the next message or by the source's
    /// sequence number information.
    ///
    /// # Errors
    /// There is no such source.
    pub fn skip_to(&mut self, source: SourceId, sqn: u32) -> Result<(), SendError> {
        let entry = self.table.get(source.0).ok_or(SendError::NoSource)?;
        let session = self.sessions[entry.session as usize].as_mut().ok_or(SendError::NoSource)?;
        session.source(entry.topic).ok_or(SendError::NoSource)?.skip_to(sqn);
        Ok(())
    }

    /// Opens a request without sending it: the header that a message needs for replies to come to
    /// [`Events::response`](crate::Events::response) of this context.
    ///
    /// # Errors
    /// The context has no request port.
    pub fn open_request(&mut self, patience: Duration) -> Result<(RequestId, RequestHeader), SendError> {
        let address = self.requests.open_port(&mut self.io).map_err(|_| SendError::NoRequestPort)?;
        let now = self.tick();
        let patience = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        let index = self.requests.replies.open(now.saturating_add(patience));
        let header = RequestHeader { flags: 0, transport: 0, index, port: address.port(), address: *address.ip() };
        Ok((RequestId(index), header))
    }

    /// Sends a control message on the source's session: what receivers of its topic are to know.
    ///
    /// # Errors
    /// There is no such source, or the session cannot take it now.
    pub fn send_control(&mut self, source: SourceId, message: &[u8]) -> Result<(), SendError> {
        let now = self.tick();
        let entry = self.table.get(source.0).ok_or(SendError::NoSource)?;
        let session = self.sessions[entry.session as usize].as_mut().ok_or(SendError::NoSource)?;
        Ok(session.send_control(now, &mut self.io, message)?)
    }

    /// Where a source is: the number of its session in the context, its topic index, and the longest message of one datagram.
    pub fn placement(&mut self, source: SourceId) -> Option<(u32, u32, usize)> {
        let entry = self.table.get(source.0)?;
        let session = self.sessions[entry.session as usize].as_mut()?;
        Some((entry.session, entry.topic, session.message_max()))
    }

    /// The next message of the source has this number. For one that has sent none yet, and goes on where another has ended.
    ///
    /// # Errors
    /// There is no such source.
    pub fn begin_at(&mut self, source: SourceId, sqn: u32) -> Result<(), SendError> {
        let entry = self.table.get(source.0).ok_or(SendError::NoSource)?;
        let session = self.sessions[entry.session as usize].as_mut().ok_or(SendError::NoSource)?;
        session.source(entry.topic).ok_or(SendError::NoSource)?.begin_at(sqn);
        Ok(())
    }

    /// The context's request port, if it is open.
    pub fn request_address(&self) -> Option<std::net::SocketAddrV4> {
        self.requests.address()
    }

    /// Sends what waits for a fuller datagram in the source's session.
    ///
    /// # Errors
    /// There is no such source any more.
    pub fn flush(&mut self, source: SourceId) -> Result<(), SendError> {
        let now = self.tick();
        let entry = self.table.get(source.0).ok_or(SendError::NoSource)?;
        let session = self.sessions[entry.session as usize].as_mut().ok_or(SendError::NoSource)?;
        session.flush(now, &mut self.io);
        Ok(())
    }

    /// Sends a message that wants replies. They come to [`Events::response`](crate::Events::response) until `patience` is over or
    /// [`Sources::close_request`] is called.
    ///
    /// # Errors
    /// As [`Sources::send`]; or the context has no request port.
    pub fn request(
        &mut self,
        source: SourceId,
        payload: &[u8],
        flags: SendFlags,
        patience: Duration,
    ) -> Result<RequestId, SendError> {
        let (request, header) = self.open_request(patience)?;
        match self.send_headed(source, &[Header::Request(header)], payload, flags) {
            Ok(_) => Ok(request),
            Err(error) => {
                self.requests.replies.close(request.0);
                Err(error)
            }
        }
    }

    /// Takes no more replies. Returns whether the request was still open.
    pub fn close_request(&mut self, request: RequestId) -> bool {
        self.requests.replies.close(request.0)
    }

    /// Answers a request, by TCP to the requester. Nothing waits: if the requester does not read, the answer is refused.
    ///
    /// # Errors
    /// The answer is longer than 65,000 bytes, or the requester cannot be reached or is behind by
    /// `response_session_maximum_buffer`.
    pub fn respond(&mut self, request: &Request, payload: &[u8]) -> Result<(), SendError> {
        self.requests.respond(&mut self.io, self.now, request, payload)
    }

    /// The transport session on which the source sends.
    pub fn transport(&self, source: SourceId) -> Option<&Transport> {
        let entry = self.table.get(source.0)?;
        Some(&self.sessions[entry.session as usize].as_ref()?.transport)
    }

    /// Counts of what the source has sent.
    pub fn source_stats(&mut self, source: SourceId) -> Option<SourceStats> {
        let entry = self.table.get(source.0)?;
        Some(self.sessions[entry.session as usize].as_mut()?.source(entry.topic)?.stats())
    }

    pub(crate) fn session_for(
        &mut self,
        key: Key,
        options: &Options,
        warnings: &mut Vec<Warning>,
    ) -> Result<usize, ContextError> {
        if let Some(known) = self.sessions.iter().position(|s| s.as_ref().is_some_and(|s| s.key == key)) {
            return Ok(known);
        }
        let free = self.sessions.iter().position(Option::is_none).unwrap_or(self.sessions.len());
        let session = Outbound::open(&mut self.io, free, key, options, warnings)?;
        if let Some(warning) = fragments(&session.transport, options)
            && !self.fragments.contains(&warning)
        {
            self.fragments.push(warning.clone());
            warnings.push(warning);
        }
        if free == self.sessions.len() {
            self.sessions.push(None);
        }
        self.sessions[free] = Some(session);
        Ok(free)
    }

    /// The next place in the round of a pool of `places`.
    pub(crate) fn place(&mut self, places: u32) -> u32 {
        self.round = self.round.wrapping_add(1);
        self.round.wrapping_sub(1) % places.max(1)
    }

    pub(crate) fn insert(&mut self, session: usize, topic: u32, name: &str, advert: u32) -> SourceId {
        let entry = Entry { session: session as u32, topic, name: name.into(), advert, refused: false };
        if let Some(session) = &mut self.sessions[session] {
            session.users += 1;
        }
        SourceId(self.table.insert(entry))
    }

    /// Returns the resolver's handle.
    pub(crate) fn remove(&mut self, source: SourceId) -> Option<u32> {
        let entry = self.table.remove(source.0)?;
        let slot = &mut self.sessions[entry.session as usize];
        let session = slot.as_mut()?;
        let now = clock::now();
        session.flush(now, &mut self.io);
        session.topics.remove(entry.topic);
        session.refused.retain(|other| *other != source);
        session.users -= 1;
        if session.users == 0
            && let Some(session) = slot.take()
        {
            session.close(&mut self.io);
        }
        Some(entry.advert)
    }

    /// Each source: id, name, session, counters.
    pub(crate) fn each(&mut self, mut each: impl FnMut(SourceId, &str, usize, SourceStats)) {
        for (name, entry) in self.table.iter() {
            let session = self.sessions[entry.session as usize].as_mut();
            if let Some(source) = session.and_then(|s| s.source(entry.topic)) {
                each(SourceId(name), &entry.name, entry.session as usize, source.stats());
            }
        }
    }

    /// An answer waits for others; they leave if one has waited long enough.
    fn gather(&mut self) {
        if self.gather_until == 0 {
            self.gather_until = self.now + GATHER_NS;
        } else if self.now >= self.gather_until {
            self.gather_until = 0;
            self.pump();
        }
    }

    /// Messages that came together are delivered from now on: see [`SendFlags::FLUSH_SOON`].
    #[inline]
    pub(crate) fn begin_delivering(&mut self) {
        self.delivering = true;
        self.gather_until = 0;
    }

    /// All of them are: answers leave.
    #[inline]
    pub(crate) fn end_delivering(&mut self) {
        self.delivering = false;
        if self.gather_until != 0 {
            self.pump();
        }
    }

    /// Whether no send has left anything to do.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.dirty.is_empty() && !self.waiting && self.io.backlog.is_empty()
    }

    /// Hands to the operating system what sends have left.
    pub(crate) fn pump(&mut self) {
        while let Some(index) = self.dirty.pop() {
            if let Some(Some(session)) = self.sessions.get_mut(index as usize)
                && session.dirty
            {
                if session.flush_due {
                    session.flush(self.now, &mut self.io);
                } else {
                    session.pump(self.now, &mut self.io);
                }
            }
        }
    }

    /// Something came to one of a session's own sockets.
    pub(crate) fn receive(&mut self, session: usize, ready: ReadySocket) {
        if let Some(Some(session)) = self.sessions.get_mut(session) {
            session.receive(self.now, ready, &mut self.io, &mut self.slabs, &mut self.fault);
        }
    }

    pub(crate) fn timeout(&self) -> Option<u64> {
        let sessions = self.sessions.iter().flatten().filter_map(Outbound::timeout).min();
        sessions.into_iter().chain(self.requests.timeout()).min()
    }

    pub(crate) fn on_timer(&mut self) {
        let now = self.now;
        for session in self.sessions.iter_mut().flatten() {
            if session.timeout().is_some_and(|at| at <= now) {
                session.on_timer(now, &mut self.io);
            }
        }
        self.requests.on_timer(now, &mut self.io);
    }

    /// A source that was refused and can send again.
    pub(crate) fn next_writable(&mut self) -> Option<SourceId> {
        if !self.waiting {
            return None;
        }
        let (now, io) = (self.now, &self.io);
        for session in self.sessions.iter_mut().flatten() {
            if session.refused.is_empty() || session.told == 0 && !session.is_writable(now, io) {
                continue;
            }
            if session.told == 0 {
                session.told = session.refused.len();
            }
            session.told -= 1;
            let source = session.refused.remove(0);
            if let Some(entry) = self.table.get_mut(source.0) {
                entry.refused = false;
            }
            return Some(source);
        }
        self.waiting = self.sessions.iter().flatten().any(|s| !s.refused.is_empty());
        None
    }
}

impl Drop for Sources {
    /// What waits for a fuller datagram leaves. What the socket or a rate limit does not take now is lost.
    fn drop(&mut self) {
        let now = clock::now();
        for session in self.sessions.iter_mut().flatten() {
            session.flush(now, &mut self.io);
        }
    }
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources")
            .field("sources", &self.table.iter().count())
            .field("sessions", &self.sessions.iter().flatten().count())
            .finish_non_exhaustive()
    }
}

/// Whether the datagrams of a new session are longer than its interface's frames.
fn fragments(transport: &Transport, options: &Options) -> Option<Warning> {
    let (option, address, datagram) = match *transport {
        Transport::Lbtrm { source, .. } => {
            (ContextOption::TRANSPORT_LBTRM_DATAGRAM_MAX_SIZE, source, options.lbtrm_sender().datagram_max)
        }
        Transport::Lbtru { address, .. } => {
            (ContextOption::TRANSPORT_LBTRU_DATAGRAM_MAX_SIZE, address, options.lbtru_sender().datagram_max)
        }
        _ => return None,
    };
    Warning::fragments(option, datagram, interface::packet_max(address)?)
}
