//! A context with persistent sources and receivers.

mod events;
mod owners;
mod parts;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use lbm_io::options::{Options, ReceiverOption, Scope};
use lbm_io::{Context, ContextError, SendError, SendFlags};
use lbm_store::options::StoreListError;
use lbm_store::receiver::{ReceiverConfig, ReceiverEvent, Topic, TopicEvent};
use lbm_store::source::{Question, Source, SourceConfig, SourceEvent};
use lbm_store::wire::origin;
use net::clock;
use net::tcp::Event;

pub use self::events::{AddError, ClientEvents, PersistentReceiver, PersistentSource, SendBlocked, SendRefused};
use self::owners::Owners;
use self::parts::{Parts, ReceiverEntry, SourceEntry, ToApplication, ToReceivers};
use crate::lines::Lines;

/// Bytes that may wait for one store; a store that does not read so much is let go of, and dialled again.
const QUEUE_MAX: usize = 64 << 20;
/// Connections to stores.
const STORES_MAX: usize = 4_096;
/// Sends between two looks at what stores say.
const SENDS_PER_LOOK: u32 = 256;

/// A [`Context`], and connections to stores beside it. Driven by its owner's turn, [`Client::poll`].
pub struct Client {
    context: Context,
    options: Options,
    lines: Lines,
    parts: Parts,
    owners: Owners,
    events: Vec<Event>,
    happened: Vec<SourceEvent>,
    sends_left: u32,
}

impl Client {
    /// Opens a context.
    ///
    /// # Errors
    /// See [`Context::new`].
    pub fn new(options: &Options) -> Result<Self, ContextError> {
        let context = Context::new(options)?;
        let system = |error: io::Error| ContextError::Unsupported(format!("connections to stores: {error}"));
        let mut lines = Lines::new(QUEUE_MAX, STORES_MAX).map_err(system)?;
        lines.tcp.watch(context.as_fd(), 0).map_err(system)?;
        Ok(Self {
            context,
            options: options.clone(),
            lines,
            parts: Parts::default(),
            owners: Owners::default(),
            events: Vec::new(),
            happened: Vec::new(),
            sends_left: 0,
        })
    }

    /// The context below: for sources and receivers without stores, counters and warnings. Its turn is [`Client::poll`]'s.
    pub fn context(&mut self) -> &mut Context {
        &mut self.context
    }

    /// Adds a source whose messages go to the stores that its options name (`ume_store`). It can send once [`SourceEvent::Ready`] has come.
    ///
    /// # Errors
    /// See [`Context::source`]; or no store is named, or one that cannot be.
    pub fn source(&mut self, topic: &str, options: &Options) -> Result<PersistentSource, AddError> {
        let config = SourceConfig::of(&options.within(&self.options)).map_err(AddError::Stores)?;
        self.source_with(topic, options, config)
    }

    /// As [`Client::source`], with a configuration of one's own in the place of `ume_` options.
    ///
    /// # Errors
    /// As [`Client::source`].
    pub fn source_with(
        &mut self,
        topic: &str,
        options: &Options,
        config: SourceConfig,
    ) -> Result<PersistentSource, AddError> {
        if config.stores.is_empty() || config.stores.len() > lbm_store::options::STORES_MAX {
            return Err(AddError::Stores(StoreListError::Count(config.stores.len())));
        }
        let id = self.context.persistent_source(topic, options)?;
        let entry = SourceEntry::new(self.context.sources(), id, topic, config);
        let gone = || ContextError::Unsupported("the source's session or request port is gone".to_owned());
        Ok(self.parts.add_source(entry.ok_or_else(gone)?))
    }

    /// Adds a receiver that gets from the source's stores what it has missed. Sources without stores are received as well.
    ///
    /// # Errors
    /// See [`Context::receiver`].
    pub fn receiver(&mut self, topic: &str, options: &Options) -> Result<PersistentReceiver, AddError> {
        self.receiver_with(topic, options, ReceiverConfig::of(&options.within(&self.options)))
    }

    /// As [`Client::receiver`], with a configuration of one's own in the place of `ume_` options.
    ///
    /// # Errors
    /// As [`Client::receiver`].
    pub fn receiver_with(
        &mut self,
        topic: &str,
        options: &Options,
        config: ReceiverConfig,
    ) -> Result<PersistentReceiver, AddError> {
        let mut options = options.clone();
        let uses_stores = options.get(ReceiverOption::UME_USE_STORE);
        // Order, fragments, gaps and what was sent before are the persistent receiver's business.
        for name in ["ordered_delivery", "use_late_join", "use_otr"] {
            let set = options.set(Scope::Receiver, name, "0");
            set.map_err(|error| ContextError::Unsupported(error.to_string()))?;
        }
        let id = self.context.receiver(topic, &options)?;
        Ok(self.parts.add_receiver(ReceiverEntry { id, topic: Topic::new(topic.as_bytes(), config), uses_stores }))
    }

    /// Sends what waits and leaves the stores, where its messages stay: a source of the same session goes on behind them.
    pub fn remove_source(&mut self, source: PersistentSource) {
        if let Some(entry) = self.parts.remove_source(source.0) {
            self.owners.leave_source(source.0, &mut self.lines);
            self.context.remove_source(entry.id);
        }
    }

    /// Receives no more. Stores hear what was consumed, and remember where the receiver is.
    pub fn remove_receiver(&mut self, receiver: PersistentReceiver) {
        if let Some(mut entry) = self.parts.remove_receiver(receiver.0) {
            entry.topic.flush();
            let Self { owners, lines, .. } = self;
            entry.topic.output(|conn, bytes| owners.send_receiver((receiver.0, conn), &bytes, lines));
            owners.leave_receiver(receiver.0, lines);
            self.context.remove_receiver(entry.id);
        }
    }

    /// The state machine of a source: counters, messages in flight.
    pub fn source_state(&self, source: PersistentSource) -> Option<&Source> {
        self.parts.source(source.0).map(|entry| &entry.machine)
    }

    /// The state machine of a receiver.
    pub fn receiver_state(&self, receiver: PersistentReceiver) -> Option<&Topic> {
        self.parts.topic(receiver.0)
    }

    /// The application has consumed all of a source up to a number: with `ume_explicit_ack_only`.
    pub fn acknowledge(&mut self, receiver: PersistentReceiver, source: u32, sqn: u32) {
        if let Some(topic) = self.parts.topic_mut(receiver.0) {
            topic.acknowledge(clock::now(), source, sqn);
        }
    }

    /// Sends a message; returns its number (that of the last fragment). Never waits.
    ///
    /// # Errors
    /// See [`SendRefused`].
    #[inline]
    pub fn send(&mut self, source: PersistentSource, payload: &[u8], flags: SendFlags) -> Result<u32, SendRefused> {
        let gone = SendRefused::Transport(SendError::NoSource);
        let entry = self.parts.source_mut(source.0).ok_or(gone)?;
        entry.send(self.context.sources(), payload, flags)
    }

    /// Sends what waits for a fuller datagram in the source's session.
    ///
    /// # Errors
    /// There is no such source any more.
    pub fn flush(&mut self, source: PersistentSource) -> Result<(), SendError> {
        let entry = self.parts.source(source.0).ok_or(SendError::NoSource)?;
        self.context.flush(entry.id)
    }

    /// Whether a receiver with these options is one that stores are to know: it has a session or a registration id, and asks stores.
    pub fn is_persistent(&self, options: &Options) -> bool {
        let effective = options.within(&self.options);
        let config = ReceiverConfig::of(&effective);
        (config.session != 0 || config.reg_id != 0) && effective.get(ReceiverOption::UME_USE_STORE)
    }

    /// As [`Client::send`]; waits for stores and transport: `ume_flight_size_behavior block`. Events go on meanwhile.
    ///
    /// # Errors
    /// What will not change by waiting; [`SendBlocked::Broken`] if the client is of no use any more.
    pub fn send_blocking(
        &mut self,
        source: PersistentSource,
        payload: &[u8],
        flags: SendFlags,
        events: &mut impl ClientEvents,
    ) -> Result<u32, SendBlocked> {
        // Stores are heard now and then though nothing waits for them.
        self.sends_left = self.sends_left.checked_sub(1).unwrap_or(SENDS_PER_LOOK);
        if self.sends_left == 0 {
            self.poll(Some(Duration::ZERO), events).map_err(SendBlocked::Broken)?;
        }
        loop {
            match self.send(source, payload, flags) {
                Ok(sqn) => return Ok(sqn),
                Err(refused) if !refused.is_passing() => return Err(SendBlocked::Refused(refused)),
                Err(_) => self.poll(Some(Duration::from_millis(10)), events).map_err(SendBlocked::Broken)?,
            };
        }
    }

    /// Tells stores at once what was consumed, and sends what waits: before the program ends.
    ///
    /// # Errors
    /// See [`Client::poll`].
    pub fn finish(&mut self, events: &mut impl ClientEvents) -> io::Result<()> {
        self.parts.topics().for_each(|(_, topic)| topic.flush());
        self.poll(Some(Duration::ZERO), events).map(drop)
    }

    /// When [`Client::poll`] has something to do though no descriptor is readable, monotonic ns; 0 = now. As [`Context::timeout`].
    pub fn timeout(&mut self) -> Option<u64> {
        let machines = self.parts.timeout();
        [self.context.timeout(), self.lines.tcp.timeout(), machines].into_iter().flatten().min()
    }

    /// A turn: waits at most `timeout`, and handles what has come. Returns how many messages the context has received.
    ///
    /// # Errors
    /// Only what makes the client unusable.
    pub fn poll(&mut self, timeout: Option<Duration>, events: &mut impl ClientEvents) -> io::Result<usize> {
        if self.parts.is_empty() && self.lines.count() == 0 {
            // As a context alone: its turn is cheaper than one in another set.
            return self.context.poll(timeout, &mut ToReceivers { now: 0, parts: &mut self.parts, events });
        }
        self.sends_left = SENDS_PER_LOOK;
        let now = clock::now();
        let left = self.timeout().map(|due| Duration::from_nanos(due.saturating_sub(now)));
        let wait = left.into_iter().chain(timeout).min();
        let mut ready = std::mem::take(&mut self.events);
        let polled = self.lines.tcp.poll(wait, &mut ready);
        let now = clock::now();
        let mut heard = ToReceivers { now, parts: &mut self.parts, events };
        let received = self.context.poll(Some(Duration::ZERO), &mut heard);
        for event in ready.drain(..) {
            let Self { context, lines, parts, owners, .. } = self;
            let sources = context.sources();
            lines.on_event(event, |number, event| owners.on_line(now, number, &event, parts, (sources, events)));
        }
        self.events = ready;
        polled?;
        self.on_timer(now, events);
        self.settle(now, events);
        received
    }

    fn on_timer(&mut self, now: u64, events: &mut impl ClientEvents) {
        for (_, entry) in self.parts.sources() {
            let (id, sources) = (entry.id, self.context.sources());
            // An announcement that the session does not take now is repeated.
            entry.machine.on_timer(now, |message| {
                let _ = sources.send_control(id, message);
            });
        }
        for (at, topic) in self.parts.topics() {
            let (receiver, sources) = (PersistentReceiver(at), self.context.sources());
            topic.on_timer(now, &mut ToApplication { receiver, sources, events });
        }
    }

    /// Sends what state machines have left, and does what they ask for.
    fn settle(&mut self, now: u64, events: &mut impl ClientEvents) {
        let Self { context, lines, parts, owners, happened, .. } = self;
        for at in 0..parts.source_places() {
            let Some(SourceEntry { id, machine, .. }) = parts.source_mut(at) else { continue };
            let id = *id;
            machine.swap_events(happened);
            for event in happened.drain(..) {
                match event {
                    SourceEvent::Dial { store, to } => owners.dial_source(now, (at, store), to, lines, parts),
                    SourceEvent::HangUp { store } => owners.hang_up_source((at, store), lines),
                    SourceEvent::Ready { first } => {
                        // The source was made with the machine, and goes with it.
                        let _ = context.sources().begin_at(id, first);
                    }
                    _ => {}
                }
                events.source(context.sources(), PersistentSource(at), &event);
            }
            let Some(SourceEntry { machine, .. }) = parts.source_mut(at) else { continue };
            for (store, bytes) in machine.output().drain() {
                owners.send_source((at, store as usize), &bytes, lines);
            }
        }
        for at in 0..parts.receiver_places() {
            let Some(happened) = parts.topic_mut(at).map(Topic::events) else { continue };
            for event in happened {
                match event {
                    TopicEvent::Source(source, ReceiverEvent::Dial { store, to }) => {
                        owners.dial_receiver(now, (at, Topic::conn(source, store)), to, lines, parts);
                    }
                    TopicEvent::Source(source, ReceiverEvent::HangUp { store }) => {
                        owners.hang_up_receiver((at, Topic::conn(source, store)), lines);
                    }
                    TopicEvent::AskInfo { stream } => ask_info(context, stream),
                    _ => {}
                }
                events.receiver(context.sources(), PersistentReceiver(at), &event);
            }
            let Some(topic) = parts.topic_mut(at) else { continue };
            topic.output(|conn, bytes| owners.send_receiver((at, conn), &bytes, lines));
        }
    }
}

/// Asks the source of a stream for its stores. What does not get there is asked again.
fn ask_info(context: &mut Context, stream: u32) {
    let Some((transport, topic)) = context.stream_origin(stream) else { return };
    let mut message = Vec::new();
    Question::new(topic, origin(&transport, topic)).encode(&mut message);
    context.ask(stream, &message);
}

impl AsFd for Client {
    /// Readable when a [`Client::poll`] would find input: to be watched by another set, beside [`Client::timeout`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.lines.tcp.as_fd()
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("context", &self.context).finish_non_exhaustive()
    }
}
