//! LBT-TCP: the same bytes to every receiver that has connected and named the session, or, with source-side filtering, those of the topics
//! that it has asked for.

use std::net::Ipv4Addr;
use std::time::Duration;

use lbm::options::{ContextOption, Options, SlowReceivers, SourceOption, SourceSideFiltering};
use lbm::transport::Carrier as _;
use lbm::transport::tcp::{Batch, session_of_hello};
use lbm::wire::filtering::{FilterInit, FilterRequest};
use lbm::wire::lbmc::Messages;
use lbm::wire::lbmr::Transport;
use net::tcp::{Close, ConnId, ListenerId, SocketOptions};

use super::filter::Filter;
use super::gather::{BLOCK, Gather};
use crate::error::ContextError;
use crate::handles::FilteredReceiver;
use crate::io::{Io, Role};
use crate::random;

/// A source's policy for a receiver that reads more slowly than it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slow {
    /// All wait for the slowest.
    Wait,
    /// The receiver misses what it cannot take, and learns that from the numbers.
    Skip,
}

pub(super) struct TcpOut {
    pub(super) batch: Batch,
    pub(super) listener: ListenerId,
    pub(super) session_id: u32,
    /// Receivers that have named the session.
    ready: Vec<ConnId>,
    filters: SourceSideFiltering,
    filter: Option<Filter>,
    /// What the filter says to receivers first.
    greetings: Vec<(ConnId, Vec<u8>)>,
    slow: Slow,
    queue_max: usize,
    /// Somebody's queue is longer than that.
    full: bool,
    pub(super) bytes: u64,
    pub(super) skipped: u64,
    gather: Gather,
}

impl TcpOut {
    pub(super) fn open(
        io: &mut Io,
        options: &Options,
        interface: Ipv4Addr,
        pool: (u16, u16),
    ) -> Result<(Self, Transport), ContextError> {
        let nonzero = |bytes| Some(bytes).filter(|bytes| *bytes != 0);
        let socket = SocketOptions {
            send_buffer: nonzero(options.get(SourceOption::TRANSPORT_TCP_SENDER_SOCKET_BUFFER))
                .or(Some(net::tcp::DEFAULT_SEND_BUFFER)),
            no_delay: options.get(SourceOption::TRANSPORT_TCP_NODELAY),
            reuse_address: true,
            backlog: options.get(SourceOption::TRANSPORT_TCP_LISTEN_BACKLOG).max(64) as u32,
            ..SocketOptions::default()
        };
        let (listener, address) =
            io.listen("an LBT-TCP source", ContextOption::TRANSPORT_TCP_PORT_LOW, pool, interface, &socket)?;
        let session_id = random::id();
        let transport = Transport::Tcp { address: interface, session_id: Some(session_id), port: address.port() };
        let queue_max = options.get(SourceOption::TRANSPORT_SESSION_MAXIMUM_BUFFER);
        let minimum_length = options.get(SourceOption::IMPLICIT_BATCHING_MINIMUM_LENGTH);
        let interval_ns = options.get(SourceOption::IMPLICIT_BATCHING_INTERVAL);
        let batch = Batch::new(queue_max.max(65_536), minimum_length, interval_ns);
        let slow = match options.get(SourceOption::TRANSPORT_TCP_MULTIPLE_RECEIVER_BEHAVIOR) {
            SlowReceivers::Normal => Slow::Wait,
            SlowReceivers::BoundedLatency | SlowReceivers::SourcePaced => Slow::Skip,
        };
        let out = Self {
            batch,
            listener,
            session_id,
            ready: Vec::new(),
            filters: options.get(SourceOption::TRANSPORT_SOURCE_SIDE_FILTERING_BEHAVIOR),
            filter: None,
            greetings: Vec::new(),
            slow,
            queue_max,
            full: false,
            bytes: 0,
            skipped: 0,
            gather: Gather::new(minimum_length, interval_ns),
        };
        Ok((out, transport))
    }

    /// What a receiver says before it gets anything: which session it wants. Returns false if it is to be cut off.
    pub(super) fn greet(&mut self, conn: ConnId, messages: &[u8]) -> bool {
        for message in Messages::new(messages) {
            let Ok(message) = message else { return false };
            match session_of_hello(&message) {
                Some(id) if id != self.session_id => return false,
                Some(_) if !self.ready.contains(&conn) => {
                    self.ready.push(conn);
                    if let Some(filter) = &mut self.filter {
                        self.greetings.push((conn, filter.join(conn)));
                    }
                }
                // Whatever else receivers say is not for us.
                _ => {}
            }
        }
        true
    }

    pub(super) fn filter_by(&mut self, init: FilterInit) {
        if self.filters != SourceSideFiltering::None && self.filter.is_none() {
            let by_receiver = self.filters == SourceSideFiltering::Queues;
            self.filter = Some(Filter::new(FilterInit { by_receiver, ..init }));
        }
    }

    /// The message that comes next on the topic, with this number, is for these receivers alone, if the session filters so.
    pub(super) fn direct(&mut self, topic: u32, first: u32, receivers: &[FilteredReceiver]) {
        if let (Some(filter), SourceSideFiltering::Queues) = (&mut self.filter, self.filters) {
            filter.direct(topic, first, receivers);
        }
    }

    /// The message has this number in its last fragment; `None`: it was not taken.
    pub(super) fn directed(&mut self, topic: u32, last: Option<u32>) {
        if let (Some(filter), SourceSideFiltering::Queues) = (&mut self.filter, self.filters) {
            filter.directed(topic, last);
        }
    }

    pub(super) fn filter_request(&mut self, request: &FilterRequest) {
        if let Some(filter) = &mut self.filter {
            filter.request(request);
        }
    }

    /// The same for receivers that have each asked for topics.
    fn pump_filtered(&mut self, now: u64, io: &mut Io) {
        let Some(filter) = &mut self.filter else { return };
        filter.part(self.batch.output());
        self.batch.sent();
        let at_least = if self.gather.may_wait(now) { BLOCK } else { 1 };
        let (slow, queue_max, mut left) = (self.slow, self.queue_max, 0);
        let waits = filter.each(at_least, |conn, bytes| {
            if slow == Slow::Skip && io.tcp.queued(conn) >= queue_max {
                self.skipped += 1;
                return;
            }
            io.tcp.send(conn, bytes);
            left += bytes.len();
        });
        self.bytes += left as u64;
        self.gather.left(left, waits);
    }

    /// The same bytes for all.
    fn pump_all(&mut self, io: &mut Io) {
        for conn in &self.ready {
            if self.slow == Slow::Skip && io.tcp.queued(*conn) >= self.queue_max {
                self.skipped += 1;
                continue;
            }
            io.tcp.send(*conn, self.batch.output());
        }
        self.bytes += self.batch.output().len() as u64;
        self.batch.sent();
    }

    /// Hands to the connections what may go.
    pub(super) fn pump(&mut self, now: u64, io: &mut Io) {
        for (conn, greeting) in self.greetings.drain(..) {
            io.tcp.send(conn, &greeting);
        }
        if self.batch.output().is_empty() && !self.gather.waits() {
            return;
        }
        if self.filter.is_some() {
            self.pump_filtered(now, io);
        } else {
            self.pump_all(io);
        }
        self.full = self.slow == Slow::Wait && self.is_behind(io);
    }

    /// Whether more waits for a receiver than may.
    fn is_behind(&self, io: &Io) -> bool {
        self.ready.iter().any(|conn| io.tcp.queued(*conn) >= self.queue_max)
    }

    /// Has all that waits leave with the next pump.
    pub(super) fn hurry(&mut self) {
        self.gather.hurry();
    }

    pub(super) fn flush(&mut self, now: u64) {
        self.batch.flush(now);
        self.hurry();
    }

    /// When [`TcpOut::on_timer`] is to be called.
    pub(super) fn timeout(&self) -> Option<u64> {
        self.batch.timeout().into_iter().chain(self.gather.until()).min()
    }

    /// Lets go what has waited long enough, with the next pump.
    pub(super) fn on_timer(&mut self, now: u64) {
        if self.batch.timeout().is_some_and(|at| at <= now) {
            self.flush(now);
        }
    }

    /// Whether somebody must read before more can be taken.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// After connections have moved.
    pub(super) fn settle(&mut self, io: &Io) {
        self.full = self.full && self.is_behind(io);
    }

    pub(super) fn gone(&mut self, conn: ConnId) {
        self.ready.retain(|other| *other != conn);
        self.greetings.retain(|(other, _)| *other != conn);
        if let Some(filter) = &mut self.filter {
            filter.leave(conn);
        }
    }

    pub(super) fn receivers(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn close(&mut self, io: &mut Io) {
        io.tcp.close_listener(self.listener);
        for conn in self.ready.drain(..) {
            io.set_role(conn, Role::None);
            io.tcp.close(conn, Close::Drain(Duration::from_secs(5)));
        }
    }
}
