//! Receiving transport sessions: their sockets around the one [`Subscriber`].

mod questions;
mod shared;

use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;
use std::time::Duration;

use lbm::options::{ContextOption as C, Options, ReceiverOption as R};
use lbm::resolver::Found;
use lbm::subscriber::{Question, SubscribeConfig, Subscriber};
use lbm::transport::tcp::{Deframer, hello};
use lbm::transport::{DatagramSink, EndReason, Order};
use lbm::wire::filtering::{FilterInit, FilterRequest};
use lbm::wire::header::Header;
use lbm::wire::lbmr::Transport;
use net::tcp::{Close, ConnId, SocketOptions};
use net::udp::{Slabs, UdpOptions, UdpSocket};

use self::questions::{Asked, filter_init};
use self::shared::Shared;
use crate::events::Events;
use crate::failover::Joining;
use crate::handles::ReceiverId;
use crate::io::{self, Io, Role, Watch};
use crate::places::Places;
use crate::streams::{self, Deliver, Streams, Target};
use crate::waiting_transports::WaitingTransports;
use crate::{ContextError, Sources, Warning, interface, ipc_host, random};

/// Calls that receive from one socket, a turn: 4 MB at most, so that timers are late by no more than a few milliseconds.
const RECEIVE_TURN: usize = 8;
/// Bytes of shared memory that are released together at most: more than two records.
const READ_AT_ONCE: usize = 131_072;
/// Receiving sessions of a context: forged advertisements must not take all descriptors and memory.
const SESSIONS_MAX: usize = 4_096;
/// Of them, those with a socket of their own whose source has said nothing yet.
const UNHEARD_MAX: usize = 256;
/// Between two looks for sessions that can make way, if the first has found none, ns.
const WAY_PAUSE_NS: u64 = 100_000_000;
/// Groups of a context, each a socket.
const GROUPS_MAX: usize = 256;
/// Warnings that wait for the owner.
const WARNINGS_MAX: usize = 100;

/// A receiver of the application.
pub(crate) struct ReceiverEntry {
    pub(crate) wildcard: bool,
    /// The resolver's handle.
    pub(crate) query: u32,
    pub(crate) config: SubscribeConfig,
    pub(crate) options: Options,
    /// How the copies of several sources become one stream, if the receiver is one of hot failover.
    pub(crate) failover: Option<lbm_failover::Config>,
}

struct Group {
    address: Ipv4Addr,
    port: u16,
    socket: UdpSocket,
    watch: u32,
    /// Sessions that come by it.
    users: usize,
}

/// Sockets or memory that a receiving session has opened.
enum Line {
    Group(usize),
    Lbtru { socket: Box<UdpSocket>, watch: u32 },
    Tcp(ConnId),
    Lbtipc(Box<Shared>),
}

/// See the module.
pub(crate) struct Inbound {
    pub(crate) subscriber: Subscriber,
    pub(crate) streams: Streams,
    pub(crate) receivers: Places<ReceiverEntry>,
    groups: Vec<Option<Group>>,
    /// By session number.
    lines: Vec<Option<Line>>,
    /// Sessions in shared memory: they are looked at in every turn.
    shared: Vec<usize>,
    questions: questions::Lines,
    asked: Vec<questions::Question>,
    /// Sessions whose source wants to know which topics we want.
    filters: HashMap<usize, FilterInit>,
    /// From which NAKs go.
    naks: UdpSocket,
    interface: Ipv4Addr,
    group_options: UdpOptions,
    slabs: Slabs,
    /// Datagrams that are no packets of their transport.
    pub(crate) malformed: u64,
    /// Calls that were to receive and failed.
    pub(crate) receive_failures: u64,
    /// Sessions that could not be joined, and of which the operator knows.
    warned: HashSet<Transport>,
    /// How often a source in shared memory has overtaken us.
    pub(crate) overruns: u64,
    /// Sessions that have made way for others, for the resolver to forget.
    displaced: Vec<Transport>,
    /// Before this time no session makes way.
    way_due: u64,
    waiting_transports: WaitingTransports,
    /// Sessions of other hosts' shared memory, or of transports that are not known here.
    pub(crate) unreachable: u64,
}

impl Inbound {
    pub(crate) fn new(options: &Options, interface: Ipv4Addr) -> Result<Self, ContextError> {
        let buffer = options.get(C::TRANSPORT_LBTRM_RECEIVER_SOCKET_BUFFER);
        let any = SocketAddrV4::new(interface, 0);
        let naks = UdpSocket::bind(any, &UdpOptions::default()).map_err(ContextError::io("the socket for NAKs"))?;
        let group_options = UdpOptions {
            receive_buffer: Some(buffer).filter(|bytes| *bytes != 0),
            reuse_address: true,
            gro: options.get(C::UDP_OFFLOAD),
            busy_poll: Some(options.get(C::UDP_BUSY_POLL)).filter(|time| *time != 0).map(Duration::from_micros),
            ..UdpOptions::default()
        };
        // A slab takes a train, or a single datagram: then more of them make a call worth its price.
        let slabs = if group_options.gro { 8 } else { 64 };
        Ok(Self {
            subscriber: Subscriber::new(random::bits()),
            streams: Streams::default(),
            receivers: Places::default(),
            groups: Vec::new(),
            lines: Vec::new(),
            shared: Vec::new(),
            questions: HashMap::new(),
            asked: Vec::new(),
            filters: HashMap::new(),
            naks,
            interface,
            group_options,
            slabs: Slabs::new(slabs),
            malformed: 0,
            receive_failures: 0,
            warned: HashSet::new(),
            overruns: 0,
            displaced: Vec::new(),
            way_due: 0,
            waiting_transports: WaitingTransports::default(),
            unreachable: 0,
        })
    }

    /// A source was found that a receiver looks for. False: there was no room for it, or no way to it; the next advertisement is told
    /// again. What can never be joined from here is known from now on.
    pub(crate) fn found(
        &mut self,
        now: u64,
        found: &Found<'_>,
        sources: &mut Sources,
        warnings: &mut Vec<Warning>,
        events: &mut impl Events,
    ) -> bool {
        if !events.accepts(&found.advert) {
            return false;
        }
        let Some(name) = self.receivers.name_at(found.token) else { return true };
        let (receiver, transport) = (ReceiverId(name), found.advert.transport);
        if let Some(number) = self.streams.find(&transport, found.advert.topic) {
            let is_new = |e: &mut streams::Entry| !e.receivers.iter().any(|target| target.receiver == receiver);
            if self.streams.get_mut(number).is_some_and(is_new) {
                let target = self.target(receiver, found, number);
                if let Some(entry) = self.streams.get_mut(number) {
                    entry.receivers.push(target);
                }
                self.tell_found(number, receiver, sources, events);
                self.streams.tell_begun(number, target, sources, events);
            }
            return true;
        }
        if !can_receive(&transport) || !self.has_room(now, &transport, &mut sources.io) {
            self.unreachable += 1;
            return !can_receive(&transport);
        }
        let Some(entry) = self.receivers.get_mut(receiver.0) else { return true };
        let catch_up = &mut entry.config.delivery.catch_up;
        if let Some(address) = sources.requests.address() {
            catch_up.reply = (*address.ip(), address.port());
        }
        let config = entry.config.clone();
        let options = entry.options.clone();
        let number = self.streams.insert(streams::Entry {
            transport,
            index: found.advert.topic,
            topic: String::from_utf8_lossy(found.advert.name).into(),
            receivers: Vec::new(),
            session: usize::MAX,
            begun: false,
            messages: 0,
            lost: 0,
        });
        let target = self.target(receiver, found, number);
        self.streams.get_mut(number).into_iter().for_each(|entry| entry.receivers.push(target));
        let mut deliver = Deliver { streams: &mut self.streams, sources, events };
        let Some(subscribed) = self.subscriber.subscribe(now, &found.advert, number, &config, &mut deliver) else {
            self.streams.remove(number);
            return true;
        };
        self.streams.set_session(number, subscribed.session);
        let opened = if subscribed.opened {
            self.open_or_make_way(now, subscribed.session, &transport, &options, &mut sources.io, warnings)
        } else {
            self.ask_filter(subscribed.session, found.advert.topic, true, &mut sources.io);
            Ok(())
        };
        let Err(error) = opened else {
            self.tell_found(number, receiver, sources, events);
            return true;
        };
        // The session is tried again with each advertisement; the operator is told once.
        if warnings.len() < WARNINGS_MAX && self.warned.len() < SESSIONS_MAX && self.warned.insert(transport) {
            warnings.push(Warning::Session { session: transport.to_string(), reason: error.to_string() });
        }
        self.subscriber.unsubscribe(&transport, found.advert.topic);
        self.streams.remove(number);
        false
    }

    /// How a receiver has a stream.
    fn target(&mut self, receiver: ReceiverId, found: &Found<'_>, number: u32) -> Target {
        let entry = self.receivers.get(receiver.0);
        let failover = entry.and_then(|entry| {
            let joining = Joining {
                receiver,
                topic: &String::from_utf8_lossy(found.advert.name),
                is_of_wildcard: entry.wildcard,
                number,
                transport: found.advert.transport,
                index: found.advert.topic,
            };
            Some(self.streams.machines.join(&joining, entry.failover.as_ref()?))
        });
        Target { receiver, failover }
    }

    /// Whether a transport session can be joined: there are not too many, or one of them makes way.
    fn has_room(&mut self, now: u64, transport: &Transport, io: &mut Io) -> bool {
        if self.subscriber.session(transport).is_some() {
            return true;
        }
        if self.subscriber.count() >= SESSIONS_MAX && !self.make_way(now, transport, io, |_| true) {
            return false;
        }
        !has_socket(transport) || self.unheard_sockets() < UNHEARD_MAX || self.make_way(now, transport, io, has_socket)
    }

    /// Opens what is needed to hear a session. The ports, descriptors or groups may be held by sessions that nobody sends on.
    fn open_or_make_way(
        &mut self,
        now: u64,
        session: usize,
        transport: &Transport,
        options: &Options,
        io: &mut Io,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), ContextError> {
        let opened = self.open(session, transport, options, io, warnings);
        let same = |other: &Transport| {
            core::mem::discriminant(other) == core::mem::discriminant(transport) && other != transport
        };
        if opened.is_err() && self.make_way(now, transport, io, same) {
            return self.open(session, transport, options, io, warnings);
        }
        opened
    }

    /// Frees what a session holds whose source was only advertised and never heard, of those that `which` tells, for one that is
    /// advertised not for the first time. False: there is none that has waited long enough.
    fn make_way(&mut self, now: u64, whom: &Transport, io: &mut Io, which: impl Fn(&Transport) -> bool) -> bool {
        if !self.waiting_transports.asks_again(whom) || now < self.way_due {
            return false;
        }
        match self.subscriber.make_way(now, which) {
            Ok(ended) => {
                self.streams.remove_session(ended.session);
                self.close(ended.session, io);
                self.displaced.push(ended.transport);
                true
            }
            Err(due) => {
                self.way_due = due.min(now + WAY_PAUSE_NS);
                false
            }
        }
    }

    fn unheard_sockets(&self) -> usize {
        let own = |line: &Line| matches!(line, Line::Lbtru { .. } | Line::Tcp(_));
        let unheard = |(session, line): (usize, &Option<Line>)| {
            line.as_ref().is_some_and(own) && !self.subscriber.is_heard(session)
        };
        self.lines.iter().enumerate().filter(|at| unheard(*at)).count()
    }

    /// The socket of an LBT-RU session.
    fn connect_lbtru(
        &self,
        session: usize,
        to: SocketAddrV4,
        options: &Options,
        io: &mut Io,
        warnings: &mut Vec<Warning>,
    ) -> Result<Line, ContextError> {
        let pool = (options.get(R::TRANSPORT_LBTRU_PORT_LOW), options.get(R::TRANSPORT_LBTRU_PORT_HIGH));
        let local = interface::unicast(options, R::TRANSPORT_LBTRU_INTERFACE)?;
        let buffer = options.get(C::TRANSPORT_LBTRU_RECEIVER_SOCKET_BUFFER);
        let udp = UdpOptions {
            receive_buffer: Some(buffer).filter(|bytes| *bytes != 0),
            gro: self.group_options.gro,
            busy_poll: self.group_options.busy_poll,
            ..UdpOptions::default()
        };
        let mut socket = io::bind("an LBT-RU receiver", R::TRANSPORT_LBTRU_PORT_LOW, pool, local, &udp)?;
        socket.connect(to).map_err(ContextError::io("LBT-RU"))?;
        Warning::buffers(warnings, C::TRANSPORT_LBTRU_RECEIVER_SOCKET_BUFFER, &socket, &udp);
        let watch = io.watch(socket.as_fd(), Watch::Inbound(session))?;
        Ok(Line::Lbtru { socket: Box::new(socket), watch })
    }

    /// Opens what is needed to hear a session.
    fn open(
        &mut self,
        session: usize,
        transport: &Transport,
        options: &Options,
        io: &mut Io,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), ContextError> {
        let line = match *transport {
            Transport::Lbtrm { group, destination_port, .. } => {
                Line::Group(self.join(group, destination_port, io, warnings)?)
            }
            Transport::Lbtru { address, port, .. } => {
                self.connect_lbtru(session, SocketAddrV4::new(address, port), options, io, warnings)?
            }
            Transport::Tcp { address, port, .. } => {
                connect_tcp(session, SocketAddrV4::new(address, port), options, io)?
            }
            Transport::Lbtipc { session_id, transport, .. } => {
                let shared = Shared::open(session, session_id, transport, options, io)?;
                self.shared.push(session);
                Line::Lbtipc(Box::new(shared))
            }
            _ => return Err(ContextError::Unsupported("no such transport here".to_owned())),
        };
        if self.lines.len() <= session {
            self.lines.resize_with(session + 1, || None);
        }
        self.lines[session] = Some(line);
        Ok(())
    }

    fn join(
        &mut self,
        address: Ipv4Addr,
        port: u16,
        io: &mut Io,
        warnings: &mut Vec<Warning>,
    ) -> Result<usize, ContextError> {
        let same = |g: &Option<Group>| g.as_ref().is_some_and(|g| (g.address, g.port) == (address, port));
        if let Some(index) = self.groups.iter().position(same) {
            if let Some(group) = &mut self.groups[index] {
                group.users += 1;
            }
            return Ok(index);
        }
        if self.groups.iter().flatten().count() >= GROUPS_MAX {
            return Err(ContextError::Unsupported(format!("the context is in {GROUPS_MAX} groups already")));
        }
        let at = SocketAddrV4::new(address, port);
        let socket = UdpSocket::bind(at, &self.group_options).map_err(ContextError::io("an LBT-RM receiver"))?;
        socket.join(address, self.interface).map_err(ContextError::io("an LBT-RM receiver"))?;
        Warning::buffers(warnings, C::TRANSPORT_LBTRM_RECEIVER_SOCKET_BUFFER, &socket, &self.group_options);
        let free = self.groups.iter().position(Option::is_none).unwrap_or(self.groups.len());
        let watch = io.watch(socket.as_fd(), Watch::Group(free))?;
        if free == self.groups.len() {
            self.groups.push(None);
        }
        self.groups[free] = Some(Group { address, port, socket, watch, users: 1 });
        Ok(free)
    }

    /// Tells a source that filters whether we want a topic.
    fn ask_filter(&mut self, session: usize, topic: u32, include: bool, io: &mut Io) {
        let Some(FilterInit { transport, client, port, address, .. }) = self.filters.get(&session).copied() else {
            return;
        };
        let request = FilterRequest { include, transport, topic, client };
        self.asked.push((session, SocketAddrV4::new(address, port), topic, Asked::Filter(request)));
        self.ask(io);
    }

    /// Sends the questions that a timer has left.
    fn ask(&mut self, io: &mut Io) {
        questions::send(&mut self.questions, std::mem::take(&mut self.asked), io);
    }

    /// Sends a control message to the request port of a stream's source. False: the source has no such port, or cannot be reached.
    pub(crate) fn ask_source(&mut self, stream: u32, message: &[u8], io: &mut Io) -> bool {
        let Some(streams::Entry { session, index, .. }) = self.streams.get_mut(stream) else { return false };
        let offer = self.subscriber.offer(*session, *index);
        let Some(to) = offer.and_then(|offer| offer.requests) else { return false };
        questions::send_control(&mut self.questions, *session, to, message, io)
    }

    /// Tells a receiver that a stream can be heard from now on, and what its source can do.
    fn tell_found(&mut self, number: u32, receiver: ReceiverId, sources: &mut Sources, events: &mut impl Events) {
        // A session that could not be joined has no stream.
        let Some(entry) = self.streams.get_mut(number) else { return };
        let offer = &self.subscriber.offer(entry.session, entry.index).unwrap_or_default();
        events.found(sources, &entry.stream(number, receiver), offer);
    }

    /// Closes what a session had opened.
    fn close(&mut self, session: usize, io: &mut Io) {
        self.filters.remove(&session);
        match self.lines.get_mut(session).and_then(Option::take) {
            Some(Line::Group(index)) => {
                if let Some(group) = &mut self.groups[index] {
                    group.users -= 1;
                    if group.users == 0 {
                        io.unwatch(group.socket.as_fd(), group.watch);
                        self.groups[index] = None;
                    }
                }
            }
            Some(Line::Lbtru { socket, watch }) => io.unwatch(socket.as_fd(), watch),
            Some(Line::Tcp(conn)) => {
                io.set_role(conn, Role::None);
                io.tcp.close(conn, Close::Now);
            }
            Some(Line::Lbtipc(shared)) => {
                io.unwatch(shared.reader.as_fd(), shared.watch);
                self.shared.retain(|other| *other != session);
            }
            None => {}
        }
        self.questions.retain(|(of, _), line| {
            if *of == session {
                io.set_role(line.conn, Role::None);
                io.tcp.close(line.conn, Close::Now);
            }
            *of != session
        });
    }

    /// The receiver wants its streams no more. It gets no event.
    pub(crate) fn remove_receiver(&mut self, receiver: ReceiverId, io: &mut Io) -> Option<ReceiverEntry> {
        let entry = self.receivers.remove(receiver.0)?;
        let is_mine = |e: &streams::Entry| e.receivers.iter().any(|target| target.receiver == receiver);
        self.streams.machines.remove_receiver(receiver);
        let mine: Vec<u32> = self.streams.iter().filter(|(_, e)| is_mine(e)).map(|(number, _)| number).collect();
        for number in mine {
            let Some(stream) = self.streams.get_mut(number) else { continue };
            stream.receivers.retain(|target| target.receiver != receiver);
            if !stream.receivers.is_empty() {
                continue;
            }
            let Some(stream) = self.streams.remove(number) else { continue };
            match self.subscriber.unsubscribe(&stream.transport, stream.index) {
                Some(session) => self.close(session, io),
                None => self.ask_filter(stream.session, stream.index, false, io),
            }
        }
        Some(entry)
    }

    /// LBT-RM datagrams of a group are there.
    pub(crate) fn receive_group(&mut self, now: u64, index: usize, sources: &mut Sources, events: &mut impl Events) {
        let Some(Some(Group { address, port, socket, .. })) = self.groups.get_mut(index) else { return };
        let at = (*address, *port);
        for _ in 0..RECEIVE_TURN {
            let Ok(received) = socket.recv(&mut self.slabs) else {
                self.receive_failures += 1;
                return;
            };
            if received.is_empty() {
                return;
            }
            sources.begin_delivering();
            for arrival in &received {
                let from = *arrival.source.ip();
                for datagram in arrival.datagrams() {
                    if sources.fault.loses() {
                        continue;
                    }
                    let mut deliver = Deliver { streams: &mut self.streams, sources, events };
                    if self.subscriber.receive(now, from, at, datagram, &mut deliver).is_err() {
                        self.malformed += 1;
                    }
                }
            }
            sources.end_delivering();
            if !received.is_full() {
                return;
            }
        }
    }

    /// Something is there for a session that has a socket of its own.
    pub(crate) fn receive_session(
        &mut self,
        now: u64,
        session: usize,
        sources: &mut Sources,
        events: &mut impl Events,
    ) {
        for _ in 0..RECEIVE_TURN {
            // A session that has ended meanwhile has no socket any more.
            let Some(Some(Line::Lbtru { socket, .. })) = self.lines.get_mut(session) else { return };
            let Ok(received) = socket.recv(&mut self.slabs) else {
                self.receive_failures += 1;
                return;
            };
            if received.is_empty() {
                return;
            }
            sources.begin_delivering();
            self.streams.filter = None;
            for arrival in &received {
                for datagram in arrival.datagrams() {
                    if sources.fault.loses() {
                        continue;
                    }
                    let mut deliver = Deliver { streams: &mut self.streams, sources, events };
                    if self.subscriber.receive_lbtru(now, session, datagram, &mut deliver).is_err() {
                        self.malformed += 1;
                    }
                }
            }
            sources.end_delivering();
            let is_full = received.is_full();
            // Of LBT-RU the receiver's number is the one that it has given itself.
            if let (Some(init), Some(client)) = (self.streams.filter.take(), self.subscriber.client_id(session)) {
                self.filtered(session, FilterInit { client, ..init }, &mut sources.io);
            }
            if !is_full {
                return;
            }
        }
    }

    /// Whatever is in shared memory. Costs one load a session if there is nothing. Returns whether a session has ended.
    #[inline]
    pub(crate) fn receive_shared(&mut self, now: u64, sources: &mut Sources, events: &mut impl Events) -> bool {
        let (mut at, mut ended) = (0, false);
        while let Some(session) = self.shared.get(at).copied() {
            at += 1;
            if let Some(reason) = self.read_shared(now, session, sources, events) {
                let mut deliver = Deliver { streams: &mut self.streams, sources, events };
                self.subscriber.end(session, reason, &mut deliver);
                ended = true;
            }
        }
        ended
    }

    /// Whether there is a session in shared memory.
    #[inline]
    pub(crate) fn has_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Whether nothing new is in shared memory: one load a session.
    #[inline]
    pub(crate) fn is_shared_idle(&self) -> bool {
        self.shared.iter().all(|session| match self.lines.get(*session) {
            Some(Some(Line::Lbtipc(shared))) => shared.reader.is_idle(),
            _ => true,
        })
    }

    /// Why the session is over, if it is.
    fn read_shared(
        &mut self,
        now: u64,
        session: usize,
        sources: &mut Sources,
        events: &mut impl Events,
    ) -> Option<EndReason> {
        let Some(Some(Line::Lbtipc(shared))) = self.lines.get_mut(session) else { return None };
        let mut deliver = Deliver { streams: &mut self.streams, sources, events };
        for _ in 0..RECEIVE_TURN {
            let Ok(bytes) = shared.reader.peek() else {
                // Overtaken: the next record's number tells what is lost.
                self.overruns += 1;
                continue;
            };
            if bytes.is_empty() {
                return if shared.check_due > now { None } else { shared.check(now) };
            }
            // Not all at once: the writer may wait for room.
            let bytes = &bytes[..bytes.len().min(READ_AT_ONCE)];
            deliver.sources.begin_delivering();
            let mut dispatch = self.subscriber.dispatch(now, session, &mut deliver)?;
            match shared.log.read(bytes, &mut dispatch) {
                Ok(read) if read > 0 => shared.reader.release(read),
                _ => {
                    self.malformed += 1;
                    return Some(EndReason::Reset);
                }
            }
            self.subscriber.settle(session);
            deliver.sources.end_delivering();
        }
        None
    }

    /// Before a wait: shared memory will wake us. False if there is something already.
    pub(crate) fn arm(&mut self) -> bool {
        let Self { shared, lines, .. } = self;
        shared.iter().all(|session| match lines.get_mut(*session) {
            Some(Some(Line::Lbtipc(shared))) => {
                let armed = shared.reader.arm();
                if !armed {
                    // There is something, or the writer has left.
                    shared.check_due = 0;
                }
                armed
            }
            _ => true,
        })
    }

    /// An LBT-TCP connection is established: names the session.
    pub(crate) fn connected(
        &mut self,
        now: u64,
        session: usize,
        conn: ConnId,
        sources: &mut Sources,
        events: &mut impl Events,
    ) {
        let Some(transport) = self.subscriber.transport(session) else { return };
        if let Transport::Tcp { session_id: Some(id), .. } = transport {
            sources.io.tcp.send(conn, &hello(id));
        }
        let mut deliver = Deliver { streams: &mut self.streams, sources, events };
        if let Some(mut dispatch) = self.subscriber.dispatch(now, session, &mut deliver) {
            dispatch.begin();
        }
    }

    /// Bytes of an LBT-TCP session. False if they are none.
    pub(crate) fn receive_stream(
        &mut self,
        now: u64,
        session: usize,
        deframer: &mut Deframer,
        bytes: &[u8],
        sources: &mut Sources,
        events: &mut impl Events,
    ) -> bool {
        sources.begin_delivering();
        let mut deliver = Deliver { streams: &mut self.streams, sources, events };
        let Some(mut dispatch) = self.subscriber.dispatch(now, session, &mut deliver) else { return false };
        let mut init = None;
        let read = deframer.receive(bytes, |messages| {
            init = init.or_else(|| filter_init(messages));
            dispatch.datagram(0, Order::InOrder, messages);
        });
        self.subscriber.settle(session);
        deliver.sources.end_delivering();
        if let Some(init) = init {
            self.filtered(session, init, &mut sources.io);
        }
        self.malformed += u64::from(read.is_err());
        read.is_ok()
    }

    /// The source of a session filters: it is told which topics we want.
    fn filtered(&mut self, session: usize, init: FilterInit, io: &mut Io) {
        // The source has said so before, and knows them.
        if self.filters.insert(session, init).is_some() {
            return;
        }
        if init.by_receiver {
            self.subscriber.leave_out(session);
        }
        for topic in self.streams.indexes(session) {
            self.ask_filter(session, topic, true, io);
        }
    }

    /// The connection of an LBT-TCP session is over.
    pub(crate) fn disconnected(
        &mut self,
        session: usize,
        conn: ConnId,
        sources: &mut Sources,
        events: &mut impl Events,
    ) {
        if !matches!(self.lines.get(session), Some(Some(Line::Tcp(own))) if *own == conn) {
            return;
        }
        self.lines[session] = None;
        let mut deliver = Deliver { streams: &mut self.streams, sources, events };
        self.subscriber.end(session, EndReason::Reset, &mut deliver);
    }

    /// A source's answers: see [`questions::receive`]. False if they cannot be read.
    pub(crate) fn receive_answers(
        &mut self,
        now: u64,
        (session, conn): (usize, ConnId),
        deframer: &mut Deframer,
        bytes: &[u8],
        sources: &mut Sources,
        events: &mut impl Events,
    ) -> bool {
        let Self { subscriber, streams, questions, .. } = self;
        let line = questions.iter_mut().find(|((of, _), line)| *of == session && line.conn == conn);
        let Some((_, line)) = line else { return false };
        questions::receive(now, (session, line), deframer, bytes, subscriber, &mut Deliver { streams, sources, events })
    }

    /// A connection to a request port is over. Whoever still misses something asks again.
    pub(crate) fn questions_gone(&mut self, session: usize, conn: ConnId) {
        self.questions.retain(|(of, _), line| *of != session || line.conn != conn);
    }

    pub(crate) fn timeout(&self) -> Option<u64> {
        let shared = self.shared.iter().filter_map(|session| match self.lines.get(*session) {
            Some(Some(Line::Lbtipc(shared))) => Some(shared.check_due),
            _ => None,
        });
        self.subscriber.timeout().into_iter().chain(self.streams.machines.timeout()).chain(shared).min()
    }

    /// NAKs, questions, silent sessions.
    pub(crate) fn on_timer(&mut self, now: u64, sources: &mut Sources, events: &mut impl Events) {
        if self.streams.machines.timeout().is_some_and(|at| at <= now) {
            self.streams.machines.on_timer(now, sources, events);
        }
        if self.subscriber.timeout().is_none_or(|at| at > now) {
            return;
        }
        let Self { subscriber, streams, naks, lines, asked, .. } = self;
        let mut deliver = Deliver { streams, sources, events };
        subscriber.on_timer(
            now,
            &mut deliver,
            |session, transport, packet| {
                // Losses are asked for again if the socket does not take the NAK.
                let _ = match (transport, lines.get_mut(session)) {
                    (Transport::Lbtrm { source, unicast_port, .. }, _) => {
                        naks.send(Some(SocketAddrV4::new(*source, *unicast_port)), packet)
                    }
                    (_, Some(Some(Line::Lbtru { socket, .. }))) => socket.send(None, packet),
                    _ => Ok(false),
                };
            },
            |Question { to, session, topic, header, .. }| {
                let question = match header {
                    Header::LateJoinRequest(request) => Asked::LateJoin(request),
                    Header::RetransmitRequest(request) => Asked::Retransmit(request),
                    _ => return,
                };
                asked.push((session, to, topic, question));
            },
        );
        if !self.asked.is_empty() {
            self.ask(&mut sources.io);
        }
    }

    /// Frees what ended sessions had; `ended` gets their transports.
    pub(crate) fn reap(&mut self, io: &mut Io, mut ended: impl FnMut(&Transport)) {
        self.displaced.drain(..).for_each(|transport| ended(&transport));
        while let Some(over) = self.subscriber.next_ended() {
            self.streams.remove_session(over.session);
            self.close(over.session, io);
            ended(&over.transport);
        }
    }

    /// Datagrams that the kernel dropped since our buffers were full.
    pub(crate) fn drops(&self) -> u64 {
        let lines = self.lines.iter().flatten().map(|line| match line {
            Line::Lbtru { socket, .. } => socket.drops(),
            _ => 0,
        });
        self.groups.iter().flatten().map(|g| g.socket.drops()).chain(lines).sum()
    }
}

/// The connection of an LBT-TCP session.
fn connect_tcp(session: usize, to: SocketAddrV4, options: &Options, io: &mut Io) -> Result<Line, ContextError> {
    let buffer = options.get(C::TRANSPORT_TCP_RECEIVER_SOCKET_BUFFER);
    let socket = SocketOptions { receive_buffer: Some(buffer).filter(|bytes| *bytes != 0), ..SocketOptions::default() };
    let conn = io.tcp.connect(SocketAddr::V4(to), &socket).map_err(ContextError::io("LBT-TCP"))?;
    io.set_role(conn, Role::Session { session, deframer: Deframer::default() });
    Ok(Line::Tcp(conn))
}

/// Whether such a session has a descriptor of its own here.
fn has_socket(transport: &Transport) -> bool {
    matches!(transport, Transport::Lbtru { .. } | Transport::Tcp { .. })
}

/// Whether this build knows how to receive such a session.
fn can_receive(transport: &Transport) -> bool {
    match transport {
        Transport::Lbtrm { .. } | Transport::Lbtru { .. } | Transport::Tcp { .. } => true,
        Transport::Lbtipc { host, .. } => *host == ipc_host::id(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
