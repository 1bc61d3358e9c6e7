//! A context with persistent sources and receivers.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::anyhow;
use lbm::transport::EndReason;
use lbm::wire::lbmc::Message;
use lbm_io::options::{Options, Scope};
use lbm_io::{Context, Delivery, Events, Loss, ReceiverId, SendError, SendFlags, SourceId, Sources, Stream};
use lbm_store::receiver::{ReceiverConfig, ReceiverEvent, Sink, Topic, TopicEvent};
use lbm_store::source::{Identity, NotAdmitted, Source, SourceConfig, SourceEvent};
use lbm_store::wire::{Ume, control, origin};
use net::clock;
use net::tcp::Event;

use crate::lines::{LineEvent, Lines};

/// Bytes that may wait for one store.
const QUEUE_MAX: usize = 256 << 20;
/// Connections to stores.
const STORES_MAX: usize = 4_096;
/// Sends between two looks at what stores say.
const SENDS_PER_LOOK: u32 = 64;

/// A persistent source of a [`Client`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PersistentSource(usize);

/// A persistent receiver of a [`Client`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PersistentReceiver(usize);

/// A message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendRefused {
    /// Too many messages are not stable, or too few stores have answered: [`SourceEvent::Writable`] tells when.
    NotAdmitted(NotAdmitted),
    /// What the transport says.
    Transport(SendError),
}

impl std::fmt::Display for SendRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotAdmitted(NotAdmitted::NotRegistered) => {
                f.write_str("too few stores have answered: are they running, and at these addresses?")
            }
            Self::NotAdmitted(NotAdmitted::FlightFull) => f.write_str("as many messages as may be are not stable yet"),
            Self::NotAdmitted(NotAdmitted::Superseded) => {
                f.write_str("another program has taken up the source's registration: stop one of them")
            }
            Self::Transport(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SendRefused {}

/// Takes what happens in a [`Client`]'s turn.
pub trait ClientEvents {
    /// A message, in order.
    fn message(&mut self, receiver: PersistentReceiver, source: u32, message: &lbm_store::receiver::Delivered<'_>);

    /// Numbers that no store has.
    fn lost(&mut self, _receiver: PersistentReceiver, _source: u32, _first: u32, _count: u32) {}

    /// Recovery begins; returns the first number that is wanted.
    fn recovery(
        &mut self,
        _receiver: PersistentReceiver,
        _source: u32,
        recovery: lbm_store::receiver::Recovery,
    ) -> u32 {
        recovery.low
    }

    /// Something of a source.
    fn source(&mut self, _source: PersistentSource, _event: &SourceEvent) {}

    /// Something of a receiver.
    fn receiver(&mut self, _receiver: PersistentReceiver, _event: &TopicEvent) {}
}

struct SourceEntry {
    id: SourceId,
    machine: Source,
    message_max: usize,
    topic_index: u32,
}

struct ReceiverEntry {
    topic: Topic,
}

/// What belongs to whom.
#[derive(Clone, Copy, Debug)]
enum Owner {
    /// A source, and the store's place.
    Source(usize, usize),
    /// A receiver, and the connection of its topic.
    Receiver(usize, u64),
}

/// See the module.
pub struct Client {
    context: Context,
    options: Options,
    lines: Lines,
    parts: Parts,
    next_line: u64,
    events: Vec<Event>,
    sends_left: u32,
}

/// All but the sockets, so that callbacks of the context can reach it.
#[derive(Default)]
struct Parts {
    sources: Vec<SourceEntry>,
    receivers: Vec<ReceiverEntry>,
    by_receiver: HashMap<ReceiverId, usize>,
    owners: HashMap<u64, Owner>,
    source_lines: HashMap<(usize, usize), u64>,
    receiver_lines: HashMap<(usize, u64), u64>,
}

/// A receiver's view of the application.
struct ToApplication<'a, E> {
    receiver: PersistentReceiver,
    events: &'a mut E,
}

impl<E: ClientEvents> Sink for ToApplication<'_, E> {
    fn recovery(&mut self, source: u32, recovery: lbm_store::receiver::Recovery) -> u32 {
        self.events.recovery(self.receiver, source, recovery)
    }
    #[inline]
    fn message(&mut self, source: u32, message: lbm_store::receiver::Delivered<'_>) {
        self.events.message(self.receiver, source, &message);
    }
    fn lost(&mut self, source: u32, first: u32, count: u32) {
        self.events.lost(self.receiver, source, first, count);
    }
}

/// Hands to receivers what the context receives.
struct ToReceivers<'a, E> {
    now: u64,
    parts: &'a mut Parts,
    events: &'a mut E,
}

impl<E: ClientEvents> ToReceivers<'_, E> {
    #[inline]
    fn with(&mut self, id: ReceiverId, act: impl FnOnce(u64, &mut Topic, &mut ToApplication<'_, E>)) {
        if let Some(at) = self.parts.by_receiver.get(&id).copied() {
            let mut sink = ToApplication { receiver: PersistentReceiver(at), events: self.events };
            act(self.now, &mut self.parts.receivers[at].topic, &mut sink);
        }
    }
}

impl<E: ClientEvents> Events for ToReceivers<'_, E> {
    #[inline]
    fn message(&mut self, _: &mut Sources, delivery: &Delivery<'_>) {
        let message = lbm::topic::Message {
            sqn: delivery.sqn,
            payload: delivery.payload,
            properties: delivery.properties,
            kind: delivery.kind,
            headers: delivery.headers.clone(),
        };
        let number = delivery.stream.number;
        self.with(delivery.stream.receiver, |now, topic, sink| topic.message(now, number, &message, sink));
    }

    fn found(&mut self, _: &mut Sources, stream: &Stream<'_>, persistent: bool) {
        let number = stream.number;
        self.with(stream.receiver, |now, topic, sink| {
            topic.stream_begun(now, number, persistent);
            if !persistent {
                topic.without_stores(now, number, sink);
            }
        });
    }

    fn control(&mut self, _: &mut Sources, stream: &Stream<'_>, message: &Message<'_>) {
        let (number, index) = (stream.number, stream.index);
        // What cannot be read says nothing of the source; it is asked again.
        self.with(stream.receiver, |now, topic, sink| {
            let _ = topic.control(now, number, index, message, sink);
        });
    }

    fn question(&mut self, _: &mut Sources, message: &Message<'_>, answers: &mut Vec<u8>) {
        for header in message.headers().flatten() {
            if let Ok(Some(Ume::InfoRequest { topic, .. })) = Ume::of(&header) {
                self.parts.sources.iter().filter(|s| s.topic_index == topic).for_each(|s| s.machine.info(answers));
            }
        }
    }

    fn end(&mut self, _: &mut Sources, stream: &Stream<'_>, _: EndReason) {
        let number = stream.number;
        self.with(stream.receiver, |_, topic, _| topic.stream_ended(number));
    }

    fn lost(&mut self, _: &mut Sources, stream: &Stream<'_>, loss: Loss) {
        let number = stream.number;
        self.with(stream.receiver, |now, topic, sink| topic.lost(now, number, loss.first, loss.count, sink));
    }
}

impl Client {
    /// Opens a context.
    ///
    /// # Errors
    /// See [`Context::new`].
    pub fn new(options: &Options) -> anyhow::Result<Self> {
        let mut options = options.clone();
        // Order, fragments and gaps are the persistent receiver's business.
        options.set(Scope::Receiver, "ordered_delivery", "0").map_err(|e| anyhow!("{e}"))?;
        let context = Context::new(&options)?;
        let mut lines = Lines::new(QUEUE_MAX, STORES_MAX)?;
        lines.tcp.watch(context.as_fd(), 0)?;
        Ok(Self { context, options, lines, parts: Parts::default(), next_line: 0, events: Vec::new(), sends_left: 0 })
    }

    /// The context below, for its counters and warnings.
    pub fn context(&mut self) -> &mut Context {
        &mut self.context
    }

    /// Adds a source whose messages go to stores. It can send once [`SourceEvent::Ready`] has come.
    ///
    /// # Errors
    /// See [`Context::source`]; or no store is named.
    pub fn source(&mut self, topic: &str, config: SourceConfig) -> anyhow::Result<PersistentSource> {
        if config.stores.is_empty() || config.stores.len() > 64 {
            return Err(anyhow!("a persistent source has 1 to 64 stores, not {}", config.stores.len()));
        }
        let id = self.context.persistent_source(topic, &self.options)?;
        let sources = self.context.sources();
        let gone = || anyhow!("the source is gone");
        let (transport, topic_index, message_max) = sources.placement(id).ok_or_else(gone)?;
        let session = *sources.transport(id).ok_or_else(gone)?;
        let identity = Identity {
            topic: topic.as_bytes().into(),
            transport,
            topic_index,
            origin: origin(&session, topic_index),
            requests: sources.request_address().ok_or_else(gone)?,
        };
        let machine = Source::new(clock::now(), config, identity);
        self.parts.sources.push(SourceEntry { id, machine, message_max, topic_index });
        Ok(PersistentSource(self.parts.sources.len() - 1))
    }

    /// Adds a receiver that gets from stores what it has missed.
    ///
    /// # Errors
    /// See [`Context::receiver`].
    pub fn receiver(&mut self, topic: &str, config: ReceiverConfig) -> anyhow::Result<PersistentReceiver> {
        let id = self.context.receiver(topic, &self.options)?;
        let at = self.parts.receivers.len();
        self.parts.receivers.push(ReceiverEntry { topic: Topic::new(topic.as_bytes(), config) });
        self.parts.by_receiver.insert(id, at);
        Ok(PersistentReceiver(at))
    }

    /// The state machine of a source: counters, messages in flight.
    pub fn source_state(&self, source: PersistentSource) -> Option<&Source> {
        self.parts.sources.get(source.0).map(|entry| &entry.machine)
    }

    /// The state machine of a receiver.
    pub fn receiver_state(&self, receiver: PersistentReceiver) -> Option<&Topic> {
        self.parts.receivers.get(receiver.0).map(|entry| &entry.topic)
    }

    /// The application has consumed all of a source up to a number: with `ume_explicit_ack_only`.
    pub fn acknowledge(&mut self, receiver: PersistentReceiver, source: u32, sqn: u32) {
        if let Some(entry) = self.parts.receivers.get_mut(receiver.0) {
            entry.topic.acknowledge(clock::now(), source, sqn);
        }
    }

    /// Sends a message; returns its number (that of the last fragment). Never waits.
    ///
    /// # Errors
    /// See [`SendRefused`].
    #[inline]
    pub fn send(&mut self, source: PersistentSource, payload: &[u8], flags: SendFlags) -> Result<u32, SendRefused> {
        let gone = SendRefused::Transport(SendError::NoSource);
        let entry = self.parts.sources.get_mut(source.0).ok_or(gone)?;
        let fragments = entry.fragments(payload.len());
        entry.machine.admit(fragments, payload.len()).map_err(SendRefused::NotAdmitted)?;
        let sent = self.context.send(entry.id, payload, flags | SendFlags::NONBLOCK);
        let sqn = sent.map_err(SendRefused::Transport)?;
        entry.machine.sent(self.context.sources().now(), sqn, payload, entry.message_max);
        Ok(sqn)
    }

    /// As [`Client::send`]; waits for stores and transport: `ume_flight_size_behavior block`. Events go on meanwhile.
    ///
    /// # Errors
    /// What will not change by waiting.
    pub fn send_blocking(
        &mut self,
        source: PersistentSource,
        payload: &[u8],
        flags: SendFlags,
        events: &mut impl ClientEvents,
    ) -> anyhow::Result<u32> {
        // Stores are heard now and then though nothing waits for them.
        self.sends_left = self.sends_left.checked_sub(1).unwrap_or(SENDS_PER_LOOK);
        if self.sends_left == 0 {
            self.poll(Some(Duration::ZERO), events)?;
        }
        loop {
            match self.send(source, payload, flags) {
                Ok(sqn) => return Ok(sqn),
                Err(SendRefused::NotAdmitted(NotAdmitted::Superseded)) => {
                    return Err(anyhow!("{}", SendRefused::NotAdmitted(NotAdmitted::Superseded)));
                }
                Err(SendRefused::Transport(error)) if error != SendError::WouldBlock => return Err(anyhow!("{error}")),
                Err(_) => {
                    self.poll(Some(Duration::from_millis(10)), events)?;
                }
            }
        }
    }

    /// Tells stores at once what was consumed, and sends what waits: before the program ends.
    ///
    /// # Errors
    /// See [`Client::poll`].
    pub fn finish(&mut self, events: &mut impl ClientEvents) -> io::Result<()> {
        self.parts.receivers.iter_mut().for_each(|entry| entry.topic.flush());
        self.poll(Some(Duration::ZERO), events)
    }

    /// One turn: waits at most `timeout`, and handles what has come.
    ///
    /// # Errors
    /// Only what makes the client unusable.
    pub fn poll(&mut self, timeout: Option<Duration>, events: &mut impl ClientEvents) -> io::Result<()> {
        let now = clock::now();
        let machines = self.parts.sources.iter().filter_map(|s| s.machine.timeout());
        let topics = self.parts.receivers.iter().filter_map(|r| r.topic.timeout());
        let own = [self.context.timeout(), self.lines.tcp.timeout()];
        let due = machines.chain(topics).chain(own.into_iter().flatten()).min();
        let wait = due.map(|due| Duration::from_nanos(due.saturating_sub(now))).into_iter().chain(timeout).min();
        let mut ready = std::mem::take(&mut self.events);
        self.lines.tcp.poll(wait, &mut ready)?;
        let now = clock::now();
        let mut heard = ToReceivers { now, parts: &mut self.parts, events };
        self.context.poll(Some(Duration::ZERO), &mut heard)?;
        for event in ready.drain(..) {
            let parts = &mut self.parts;
            self.lines.on_event(event, |number, event| parts.on_line(now, number, &event, events));
        }
        self.events = ready;
        self.on_timer(now, events);
        self.settle(now, events);
        Ok(())
    }

    fn on_timer(&mut self, now: u64, events: &mut impl ClientEvents) {
        for entry in &mut self.parts.sources {
            let (id, sources) = (entry.id, self.context.sources());
            // An announcement that the session does not take now is repeated.
            entry.machine.on_timer(now, |message| {
                let _ = sources.send_control(id, message);
            });
        }
        for (at, entry) in self.parts.receivers.iter_mut().enumerate() {
            entry.topic.on_timer(now, &mut ToApplication { receiver: PersistentReceiver(at), events });
        }
    }

    /// Sends what state machines have left, and does what they ask for.
    fn settle(&mut self, now: u64, events: &mut impl ClientEvents) {
        for at in 0..self.parts.sources.len() {
            let happened: Vec<SourceEvent> = self.parts.sources[at].machine.events().collect();
            for event in happened {
                match event {
                    SourceEvent::Dial { store, to } => self.dial(now, Owner::Source(at, store), to),
                    SourceEvent::HangUp { store } => self.hang_up(Owner::Source(at, store)),
                    SourceEvent::Ready { first } => {
                        let id = self.parts.sources[at].id;
                        // The source was made with the machine, and goes with it.
                        let _ = self.context.sources().begin_at(id, first);
                    }
                    _ => {}
                }
                events.source(PersistentSource(at), &event);
            }
            for (store, bytes) in self.parts.sources[at].machine.output().drain() {
                if let Some(line) = self.parts.source_lines.get(&(at, store as usize)) {
                    self.lines.send(*line, &bytes);
                }
            }
        }
        for at in 0..self.parts.receivers.len() {
            for event in self.parts.receivers[at].topic.events() {
                match event {
                    TopicEvent::Source(source, ReceiverEvent::Dial { store, to }) => {
                        self.dial(now, Owner::Receiver(at, Topic::conn(source, store)), to);
                    }
                    TopicEvent::Source(source, ReceiverEvent::HangUp { store }) => {
                        self.hang_up(Owner::Receiver(at, Topic::conn(source, store)));
                    }
                    TopicEvent::AskInfo { stream } => self.ask_info(stream),
                    _ => {}
                }
                events.receiver(PersistentReceiver(at), &event);
            }
            let (lines, receiver_lines) = (&mut self.lines, &self.parts.receiver_lines);
            self.parts.receivers[at].topic.output(|conn, bytes| {
                if let Some(line) = receiver_lines.get(&(at, conn)) {
                    lines.send(*line, &bytes);
                }
            });
        }
    }

    fn ask_info(&mut self, stream: u32) {
        let Some(topic) = self.context.stream_index(stream) else { return };
        let mut message = Vec::new();
        control(&mut message, &[Ume::InfoRequest { transport: 0, topic }, Ume::TopicIndex(topic)]);
        self.context.ask(stream, &message);
    }

    fn dial(&mut self, now: u64, owner: Owner, to: std::net::SocketAddrV4) {
        self.next_line += 1;
        let number = self.next_line;
        if self.lines.connect(number, to).is_err() {
            return self.parts.closed(now, owner);
        }
        self.parts.owners.insert(number, owner);
        match owner {
            Owner::Source(at, store) => self.parts.source_lines.insert((at, store), number),
            Owner::Receiver(at, conn) => self.parts.receiver_lines.insert((at, conn), number),
        };
    }

    fn hang_up(&mut self, owner: Owner) {
        let number = match owner {
            Owner::Source(at, store) => self.parts.source_lines.remove(&(at, store)),
            Owner::Receiver(at, conn) => self.parts.receiver_lines.remove(&(at, conn)),
        };
        if let Some(number) = number {
            self.parts.owners.remove(&number);
            self.lines.close(number);
        }
    }
}

impl SourceEntry {
    fn fragments(&self, length: usize) -> usize {
        if length + lbm::wire::lbmc::DATA_HEADER <= self.message_max {
            return 1;
        }
        length.div_ceil(self.message_max.saturating_sub(lbm::wire::lbmc::FRAGMENT_HEADER).max(1))
    }
}

impl Parts {
    fn on_line(&mut self, now: u64, number: u64, event: &LineEvent<'_>, events: &mut impl ClientEvents) -> bool {
        let Some(owner) = self.owners.get(&number).copied() else { return true };
        match (event, owner) {
            (LineEvent::Connected, Owner::Source(at, store)) => self.sources[at].machine.connected(now, store),
            (LineEvent::Connected, Owner::Receiver(at, conn)) => self.receivers[at].topic.connected(now, conn),
            (LineEvent::Messages(messages), Owner::Source(at, store)) => {
                return self.sources[at].machine.receive(now, store, messages).is_ok();
            }
            (LineEvent::Messages(messages), Owner::Receiver(at, conn)) => {
                let mut sink = ToApplication { receiver: PersistentReceiver(at), events };
                return self.receivers[at].topic.receive(now, conn, messages, &mut sink).is_ok();
            }
            (LineEvent::Closed, owner) => {
                self.owners.remove(&number);
                match owner {
                    Owner::Source(at, store) => drop(self.source_lines.remove(&(at, store))),
                    Owner::Receiver(at, conn) => drop(self.receiver_lines.remove(&(at, conn))),
                }
                self.closed(now, owner);
            }
            (LineEvent::Accepted, _) => {}
        }
        true
    }

    fn closed(&mut self, now: u64, owner: Owner) {
        match owner {
            Owner::Source(at, store) => self.sources[at].machine.closed(now, store),
            Owner::Receiver(at, conn) => self.receivers[at].topic.closed(now, conn),
        }
    }
}
