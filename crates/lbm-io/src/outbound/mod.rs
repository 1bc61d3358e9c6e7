//! Sending transport sessions: the state machine of each with its sockets.

mod filter;
mod forward;
mod gather;
mod lbtipc;
mod lbtrm;
mod lbtru;
mod tcp;
mod wishes;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;

use lbm::options::{ContextOption, Opt, Options, Port, SourceOption};
use lbm::publisher::Topics;
use lbm::topic::{SendError, Source};
use lbm::transport::{Carrier, SenderStats};
use lbm::wire::filtering::{FilterInit, FilterRequest};
use lbm::wire::header::Header;
use lbm::wire::lbmr::Transport;
use net::tcp::{ConnId, ListenerId};
use net::udp::Slabs;

use crate::error::ContextError;
use crate::fault::Fault;
use crate::handles::{FilteredReceiver, SourceId};
use crate::io::{Io, Watch};
use crate::{Warning, interface, random};

/// Calls that receive NAKs, a turn.
const NAK_TURN: usize = 16;
/// Datagrams of one train: what all kernels with GSO take.
const TRAIN_DATAGRAMS: u32 = 64;

/// How soon a full socket is tried again, ns: a 1 Gbit/s link sends 25 KB meanwhile.
const RETRY_NS: u64 = 200_000;

/// The longest train for receivers whose buffers are like ours.
fn train_max(granted: usize, datagram_max: usize) -> usize {
    (granted / 8).min(net::udp::PAYLOAD_MAX).max(datagram_max)
}

/// A number that tells receivers apart.
fn peer(from: SocketAddrV4) -> u64 {
    u64::from(u32::from(*from.ip())) << 16 | u64::from(from.port())
}

/// Sources with equal keys share a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Lbtrm(Ipv4Addr, u16),
    /// A port of its own, or a place in the context's round.
    Lbtru(u16, u32),
    Tcp(u16, u32),
    Lbtipc(u16, u32),
}

/// When a message leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Now, with all that waits.
    Now,
    /// With the next pump of the context, with all that waits.
    Soon,
    /// When its datagram is full or has waited long enough.
    Full,
}

/// Which of a session's sockets something has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadySocket {
    /// The socket of the session.
    Session,
    /// The one of an LBT-RU client, by its place.
    Client(u32),
    /// Not known: all are asked.
    Any,
}

enum Link {
    Lbtrm(Box<lbtrm::LbtrmOut>),
    Lbtru(Box<lbtru::LbtruOut>),
    Tcp(Box<tcp::TcpOut>),
    Lbtipc(Box<lbtipc::IpcOut>),
}

/// A session and the topics that are sent on it.
pub(crate) struct Outbound {
    pub(crate) key: Key,
    /// As it is advertised.
    pub(crate) transport: Transport,
    link: Link,
    pub(crate) topics: Topics,
    /// How many sources use it.
    pub(crate) users: usize,
    /// Sources whose message was refused and that want to be told.
    pub(crate) refused: Vec<SourceId>,
    /// How many of them are still to be told of the present chance.
    pub(crate) told: usize,
    /// Something may wait for the socket until the end of the turn.
    pub(crate) dirty: bool,
    /// What is open leaves with the next pump of the context, too.
    pub(crate) flush_due: bool,
    /// Every message is a datagram and leaves at once.
    each: bool,
    watch: Option<u32>,
    /// The socket was full: when to try again.
    stuck_until: Option<u64>,
}

impl Outbound {
    /// Opens the session. `number` is its place among those of the context.
    pub(crate) fn open(
        io: &mut Io,
        number: usize,
        key: Key,
        options: &Options,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, ContextError> {
        let pool = |own: u16, low: Opt<Port>, high: Opt<Port>| {
            if own == 0 { (options.get(low), options.get(high)) } else { (own, own) }
        };
        let (link, transport, watch) = match key {
            Key::Lbtrm(group, port) => {
                let interface = interface::multicast(options, group)?;
                let (out, transport) = lbtrm::LbtrmOut::open(options, interface, (group, port), warnings)?;
                let watch = io.watch(out.as_fd(), Watch::Outbound(number))?;
                (Link::Lbtrm(Box::new(out)), transport, Some(watch))
            }
            Key::Lbtru(port, _) => {
                let interface = interface::unicast(options, SourceOption::TRANSPORT_LBTRU_INTERFACE)?;
                let ports =
                    pool(port, ContextOption::TRANSPORT_LBTRU_PORT_LOW, ContextOption::TRANSPORT_LBTRU_PORT_HIGH);
                let (out, transport) = lbtru::LbtruOut::open(options, number, interface, ports, warnings)?;
                let watch = io.watch(out.as_fd(), Watch::Outbound(number))?;
                (Link::Lbtru(Box::new(out)), transport, Some(watch))
            }
            Key::Tcp(port, _) => {
                let interface = interface::unicast(options, SourceOption::TRANSPORT_TCP_INTERFACE)?;
                let ports = pool(port, ContextOption::TRANSPORT_TCP_PORT_LOW, ContextOption::TRANSPORT_TCP_PORT_HIGH);
                let (out, transport) = tcp::TcpOut::open(io, options, interface, ports)?;
                (Link::Tcp(Box::new(out)), transport, None)
            }
            Key::Lbtipc(_, place) => {
                let (out, transport) = lbtipc::IpcOut::open(options, place, net::clock::now())?;
                let watch = io.watch(out.as_fd(), Watch::Outbound(number))?;
                (Link::Lbtipc(Box::new(out)), transport, Some(watch))
            }
        };
        Ok(Self {
            key,
            transport,
            link,
            topics: Topics::new(random::id()),
            users: 0,
            refused: Vec::new(),
            told: 0,
            dirty: false,
            flush_due: false,
            each: options.get(SourceOption::IMPLICIT_BATCHING_MINIMUM_LENGTH) <= 1,
            watch,
            stuck_until: None,
        })
    }

    /// Takes back what the context's set holds of it.
    pub(crate) fn close(mut self, io: &mut Io) {
        match (&mut self.link, self.watch) {
            (Link::Lbtrm(out), Some(watch)) => io.unwatch(out.as_fd(), watch),
            (Link::Lbtru(out), Some(watch)) => {
                io.unwatch(out.as_fd(), watch);
                out.close(io);
            }
            (Link::Tcp(out), _) => out.close(io),
            (Link::Lbtipc(out), Some(watch)) => io.unwatch(out.as_fd(), watch),
            _ => {}
        }
    }

    /// Adds a message to what is open, if that is all there is to do. `None`: nothing was done, and [`Outbound::send`] has to do it.
    #[inline]
    pub(crate) fn append(&mut self, now: u64, topic: u32, payload: &[u8]) -> Option<u32> {
        let topics = &mut self.topics;
        match &mut self.link {
            Link::Lbtrm(out) => topics.append(now, &mut out.sender, topic, payload),
            Link::Lbtru(out) => topics.append(now, out.server.sender(), topic, payload),
            Link::Lbtipc(out) => topics.append(now, &mut out.carrier(), topic, payload),
            Link::Tcp(_) => None,
        }
    }

    /// Whether answers gain by leaving together: each time something leaves it costs a system call.
    #[inline]
    pub(crate) fn gathers(&self) -> bool {
        !matches!(self.link, Link::Lbtipc(_))
    }

    /// Sends a message, and hands datagrams to the socket if it is flushed or a train is full. What else is ready leaves with the
    /// context's next pump.
    #[inline]
    pub(crate) fn send(
        &mut self,
        now: u64,
        io: &mut Io,
        topic: u32,
        headers: &[Header<'_>],
        payload: &[u8],
        leave: Leave,
    ) -> Result<u32, SendError> {
        let (topics, flush) = (&mut self.topics, leave == Leave::Now);
        let (sqn, full) = match &mut self.link {
            Link::Lbtrm(out) => {
                let sqn = put(topics, now, out.carrier(), topic, headers, payload, flush)?;
                (sqn, out.sender.has_train(out.train_max, TRAIN_DATAGRAMS))
            }
            Link::Lbtru(out) => {
                let sqn = put(topics, now, out.server.sender(), topic, headers, payload, flush)?;
                (sqn, out.server.sender().has_train(out.train_max, TRAIN_DATAGRAMS))
            }
            Link::Tcp(out) => {
                if out.is_full() {
                    return Err(SendError::WouldBlock);
                }
                let sqn = put(topics, now, &mut out.batch, topic, headers, payload, flush)?;
                (sqn, out.batch.output().len() >= net::udp::PAYLOAD_MAX)
            }
            Link::Lbtipc(out) => {
                if !out.can_ever_take(payload.len()) {
                    return Err(SendError::TooLong);
                }
                let sent = put(topics, now, &mut out.carrier(), topic, headers, payload, flush);
                out.sent(now, payload.len(), sent);
                return sent;
            }
        };
        self.took(now, io, leave, full);
        Ok(sqn)
    }

    /// The session has taken a message: hands on what is to leave now. `full`: a train is.
    #[inline]
    fn took(&mut self, now: u64, io: &mut Io, leave: Leave, full: bool) {
        self.dirty = true;
        if leave == Leave::Now {
            self.hurry();
        }
        if leave == Leave::Now || full || self.each && leave != Leave::Soon {
            self.pump(now, io);
        }
        if leave == Leave::Soon {
            (self.dirty, self.flush_due) = (true, true);
        }
    }

    /// Sends a control message, behind all that waits.
    pub(crate) fn send_control(&mut self, now: u64, io: &mut Io, message: &[u8]) -> Result<(), SendError> {
        match &mut self.link {
            Link::Lbtrm(out) => put_control(now, out.carrier(), message)?,
            Link::Lbtru(out) => put_control(now, out.server.sender(), message)?,
            Link::Tcp(out) if out.is_full() => return Err(SendError::WouldBlock),
            Link::Tcp(out) => put_control(now, &mut out.batch, message)?,
            Link::Lbtipc(out) => put_control(now, &mut out.carrier(), message)?,
        }
        self.hurry();
        self.pump(now, io);
        Ok(())
    }

    /// What waits for single receivers leaves with the next pump.
    #[inline]
    fn hurry(&mut self) {
        if let Link::Tcp(out) = &mut self.link {
            out.hurry();
        }
    }

    /// The longest message that one datagram of the session takes, with its headers.
    pub(crate) fn message_max(&mut self) -> usize {
        match &mut self.link {
            Link::Lbtrm(out) => out.carrier().message_max(),
            Link::Lbtru(out) => out.server.sender().message_max(),
            Link::Tcp(out) => out.batch.message_max(),
            Link::Lbtipc(out) => out.carrier().message_max(),
        }
    }

    /// Sends what waits for a fuller datagram.
    pub(crate) fn flush(&mut self, now: u64, io: &mut Io) {
        self.flush_due = false;
        match &mut self.link {
            Link::Lbtrm(out) => out.sender.flush(now),
            Link::Lbtru(out) => out.server.sender().flush(now),
            Link::Tcp(out) => out.flush(now),
            Link::Lbtipc(out) => out.flush(now),
        }
        self.pump(now, io);
    }

    /// Hands to the operating system what is ready.
    pub(crate) fn pump(&mut self, now: u64, io: &mut Io) {
        self.dirty = false;
        let all = match &mut self.link {
            Link::Lbtrm(out) => out.pump(now),
            Link::Lbtru(out) => out.pump(now, io),
            Link::Tcp(out) => {
                out.pump(now, io);
                true
            }
            Link::Lbtipc(_) => true,
        };
        self.stuck_until = if all { None } else { Some(now + RETRY_NS) };
    }

    /// What has come to the session's own sockets; answers leave at once.
    pub(crate) fn receive(&mut self, now: u64, ready: ReadySocket, io: &mut Io, slabs: &mut Slabs, fault: &mut Fault) {
        match (&mut self.link, ready) {
            (Link::Lbtrm(out), _) => out.receive(now, slabs, fault),
            (Link::Lbtru(out), ReadySocket::Session) => out.receive(now, None, slabs, fault),
            (Link::Lbtru(out), ReadySocket::Client(place)) => out.receive(now, Some(place), slabs, fault),
            (Link::Lbtru(out), ReadySocket::Any) => out.receive_all(now, slabs, fault),
            (Link::Tcp(out), _) => out.settle(io),
            // Readers have made room: whoever was refused is told.
            (Link::Lbtipc(_), _) => {}
        }
        self.pump(now, io);
    }

    /// Whether a refused source can send now.
    pub(crate) fn is_writable(&mut self, now: u64, io: &Io) -> bool {
        match &mut self.link {
            Link::Lbtrm(out) => out.sender.writable(now) || !out.sender.is_blocked(),
            Link::Lbtru(out) => {
                let sender = out.server.sender();
                sender.writable(now) || !sender.is_blocked()
            }
            Link::Tcp(out) => {
                out.settle(io);
                !out.is_full()
            }
            Link::Lbtipc(out) => out.is_writable(),
        }
    }

    /// When [`Outbound::on_timer`] is to be called.
    pub(crate) fn timeout(&self) -> Option<u64> {
        let link = match &self.link {
            Link::Lbtrm(out) => out.sender.timeout(),
            Link::Lbtru(out) => out.server.timeout(),
            Link::Tcp(out) => out.timeout(),
            Link::Lbtipc(out) => out.timeout(),
        };
        link.into_iter().chain(self.topics.timeout()).chain(self.stuck_until).min()
    }

    /// Batches that have waited, session messages, topic sequence numbers.
    pub(crate) fn on_timer(&mut self, now: u64, io: &mut Io) {
        match &mut self.link {
            Link::Lbtrm(out) => {
                out.sender.on_timer(now);
                self.topics.on_timer(now, &mut out.sender);
            }
            Link::Lbtru(out) => {
                out.server.on_timer(now);
                self.topics.on_timer(now, out.server.sender());
            }
            Link::Tcp(out) => {
                self.topics.on_timer(now, &mut out.batch);
                out.on_timer(now);
            }
            Link::Lbtipc(out) => {
                self.topics.on_timer(now, &mut out.carrier());
                out.on_timer(now);
            }
        }
        self.pump(now, io);
    }

    /// The source of a topic, for questions of late joiners.
    pub(crate) fn source(&mut self, topic: u32) -> Option<&mut Source> {
        self.topics.source(topic)
    }

    /// Whether connections of this listener are for this session.
    pub(crate) fn listens(&self, listener: ListenerId) -> bool {
        matches!(&self.link, Link::Tcp(out) if out.listener == listener)
    }

    /// A receiver's first words on an LBT-TCP connection.
    pub(crate) fn greet(&mut self, conn: ConnId, messages: &[u8]) -> bool {
        match &mut self.link {
            Link::Tcp(out) => out.greet(conn, messages),
            _ => false,
        }
    }

    /// What receivers are told of filtering, if the session filters and does not know it yet.
    pub(crate) fn filter_by(&mut self, init: FilterInit) {
        match &mut self.link {
            Link::Tcp(out) => out.filter_by(init),
            Link::Lbtru(out) => out.filter_by(init),
            // The others send once for all receivers.
            Link::Lbtrm(_) | Link::Lbtipc(_) => {}
        }
    }

    /// A receiver wants a topic of the session, or no more.
    pub(crate) fn filter_request(&mut self, request: &FilterRequest) {
        // A wish for a topic that has ended meanwhile is none.
        if self.topics.source(request.topic).is_none() {
            return;
        }
        match &mut self.link {
            Link::Tcp(out) => out.filter_request(request),
            Link::Lbtru(out) => out.filter_request(request),
            // The receivers have not said that they filter.
            Link::Lbtrm(_) | Link::Lbtipc(_) => {}
        }
    }

    /// The message that is sent next on the topic is for these receivers alone, if the session filters so.
    pub(crate) fn direct(&mut self, topic: u32, receivers: &[FilteredReceiver]) {
        if let (Link::Tcp(out), Some(source)) = (&mut self.link, self.topics.source(topic)) {
            out.direct(topic, source.next_sqn(), receivers);
        }
    }

    /// The message was sent, its last fragment under this number, or was refused.
    pub(crate) fn directed(&mut self, topic: u32, last: Option<u32>) {
        if let Link::Tcp(out) = &mut self.link {
            out.directed(topic, last);
        }
    }

    /// A receiver's LBT-TCP connection is over.
    pub(crate) fn gone(&mut self, conn: ConnId) {
        if let Link::Tcp(out) = &mut self.link {
            out.gone(conn);
        }
    }

    /// (what was sent, receivers that are known)
    pub(crate) fn stats(&mut self) -> (SenderStats, Option<usize>) {
        match &mut self.link {
            Link::Lbtrm(out) => (*out.sender.stats(), None),
            Link::Lbtru(out) => {
                let clients = out.server.clients().count();
                let stats = *out.server.sender().stats();
                (SenderStats { bytes: out.bytes().unwrap_or(stats.bytes), ..stats }, Some(clients))
            }
            Link::Tcp(out) => {
                let stats = SenderStats { bytes: out.bytes, would_block: out.skipped, ..SenderStats::default() };
                (stats, Some(out.receivers()))
            }
            Link::Lbtipc(out) => {
                let (stats, readers) = out.stats();
                (stats, Some(readers))
            }
        }
    }
}

fn put_control(now: u64, carrier: &mut impl Carrier, message: &[u8]) -> Result<(), SendError> {
    carrier.admit(now, message.len())?;
    carrier.claim(now, message.len()).copy_from_slice(message);
    carrier.commit(now, true);
    Ok(())
}

#[inline]
fn put(
    topics: &mut Topics,
    now: u64,
    carrier: &mut impl Carrier,
    topic: u32,
    headers: &[Header<'_>],
    payload: &[u8],
    flush: bool,
) -> Result<u32, SendError> {
    topics.with(topic, |source| {
        if headers.is_empty() {
            source.send(now, carrier, payload, flush)
        } else {
            source.send_headed(now, carrier, headers, payload, flush)
        }
    })
}
