//! Receivers of hot failover: all streams of a topic go through one state machine.

use std::collections::HashMap;

use lbm::options::{Options, ReceiverOption as R};
use lbm::topic::{Message, Ordering};
use lbm::wire::lbmr::Transport;
use lbm_failover::Read;
pub use lbm_failover::mark::{Mark, Number};
use lbm_failover::receiver::{Config, Delivered, Difference, Failover, FailoverSink, Order};
pub use lbm_failover::receiver::{Lost, Stats, Way};

use crate::events::{Delivery, Events, Stream};
pub use crate::events::{FailoverNews, FailoverTopic};
use crate::handles::{ReceiverId, Request};
use crate::sources::Sources;

/// How a receiver's options are for the state machine.
pub(crate) fn config(options: &Options) -> Config {
    let intervals = [R::TRANSPORT_LBTRM_NAK_GENERATION_INTERVAL, R::TRANSPORT_LBTRU_NAK_GENERATION_INTERVAL]
        .map(|o| options.get(o));
    Config {
        order: if options.get(R::ORDERED_DELIVERY) == Ordering::Ordered { Order::InOrder } else { Order::Arrival },
        duplicate_delivery: options.get(R::HF_DUPLICATE_DELIVERY),
        optional_messages: options.get(R::HF_OPTIONAL_MESSAGES),
        gap_ns: intervals[0].min(intervals[1]),
        waiting_bytes_max: options.get(R::HF_WAITING_MAXIMUM),
        compare: options.get(R::HF_COMPARE),
        by_content: options.get(R::HF_BY_CONTENT),
    }
}

/// A stream's place at a state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    machine: u32,
    /// The stream's name there.
    source: u32,
}

/// A stream, as long as a message of it may wait.
struct Origin {
    source: u32,
    number: u32,
    transport: Transport,
    index: u32,
    is_live: bool,
}

struct Machine {
    receiver: ReceiverId,
    topic: Box<str>,
    /// Forgotten when its last source is gone.
    is_of_wildcard: bool,
    failover: Failover,
    origins: Vec<Origin>,
    next: u32,
    /// It is among those that have a timer.
    is_timed: bool,
}

/// The state machines of a context.
#[derive(Default)]
pub(crate) struct Machines {
    slots: Vec<Option<Machine>>,
    free: Vec<u32>,
    by_topic: HashMap<ReceiverId, HashMap<Box<str>, u32>>,
    /// Those in which messages wait or numbers are missing.
    timed: Vec<u32>,
}

/// A stream that joins a state machine.
pub(crate) struct Joining<'a> {
    pub(crate) receiver: ReceiverId,
    pub(crate) topic: &'a str,
    pub(crate) is_of_wildcard: bool,
    pub(crate) number: u32,
    pub(crate) transport: Transport,
    pub(crate) index: u32,
}

impl Machines {
    pub(crate) fn join(&mut self, joining: &Joining<'_>, config: &Config) -> Place {
        let topics = self.by_topic.entry(joining.receiver).or_default();
        let machine = if let Some(machine) = topics.get(joining.topic) {
            *machine
        } else {
            let free = self.free.pop().unwrap_or_else(|| {
                self.slots.push(None);
                self.slots.len() as u32 - 1
            });
            self.slots[free as usize] = Some(Machine {
                receiver: joining.receiver,
                topic: joining.topic.into(),
                is_of_wildcard: joining.is_of_wildcard,
                failover: Failover::new(config.clone()),
                origins: Vec::new(),
                next: 0,
                is_timed: false,
            });
            topics.insert(joining.topic.into(), free);
            free
        };
        let mut source = 0;
        if let Some(Some(of)) = self.slots.get_mut(machine as usize) {
            source = of.next;
            of.next = of.next.wrapping_add(1);
            let Joining { number, transport, index, .. } = *joining;
            of.origins.retain(|origin| origin.is_live || of.failover.holds(origin.source));
            of.origins.push(Origin { source, number, transport, index, is_live: true });
        }
        Place { machine, source }
    }

    fn get_mut(&mut self, place: Place) -> Option<&mut Machine> {
        self.slots.get_mut(place.machine as usize)?.as_mut()
    }

    pub(crate) fn begin(&mut self, now: u64, place: Place) {
        if let Some(machine) = self.get_mut(place) {
            machine.failover.begin(now, place.source);
        }
    }

    #[inline]
    pub(crate) fn message(
        &mut self,
        now: u64,
        place: Place,
        message: &Message<'_>,
        sources: &mut Sources,
        events: &mut impl Events,
    ) {
        let Some(Some(machine)) = self.slots.get_mut(place.machine as usize) else { return };
        let read = Read::of(&message.headers);
        machine.with(sources, events, |failover, sink| failover.message(now, place.source, &read, message, sink));
        machine.note_timer(place.machine, &mut self.timed);
    }

    /// The stream has ended. Messages that waited for it may be delivered now.
    pub(crate) fn end(&mut self, now: u64, place: Place, sources: &mut Sources, events: &mut impl Events) {
        let Some(Some(machine)) = self.slots.get_mut(place.machine as usize) else { return };
        machine.with(sources, events, |failover, sink| failover.end(now, place.source, sink));
        machine.note_timer(place.machine, &mut self.timed);
    }

    /// The stream is no more.
    pub(crate) fn leave(&mut self, place: Place) {
        let Some(machine) = self.get_mut(place) else { return };
        for origin in machine.origins.iter_mut().filter(|origin| origin.source == place.source) {
            origin.is_live = false;
        }
        let failover = &machine.failover;
        machine.origins.retain(|origin| origin.is_live || failover.holds(origin.source));
        self.forget_if_done(place.machine);
    }

    /// A receiver is no more.
    pub(crate) fn remove_receiver(&mut self, receiver: ReceiverId) {
        for machine in self.by_topic.remove(&receiver).unwrap_or_default().into_values() {
            self.slots[machine as usize] = None;
            self.timed.retain(|timed| *timed != machine);
            self.free.push(machine);
        }
    }

    /// A wildcard receiver's topic is forgotten when its sources are gone and nothing waits.
    fn forget_if_done(&mut self, at: u32) {
        let Some(Some(machine)) = self.slots.get(at as usize) else { return };
        if !machine.is_of_wildcard || !machine.origins.is_empty() || machine.is_timed {
            return;
        }
        if let Some(topics) = self.by_topic.get_mut(&machine.receiver) {
            topics.remove(&machine.topic);
        }
        self.slots[at as usize] = None;
        self.free.push(at);
    }

    pub(crate) fn timeout(&self) -> Option<u64> {
        let timed = self.timed.iter().filter_map(|at| self.slots.get(*at as usize)?.as_ref());
        timed.filter_map(|machine| machine.failover.timeout()).min()
    }

    pub(crate) fn on_timer(&mut self, now: u64, sources: &mut Sources, events: &mut impl Events) {
        for at in std::mem::take(&mut self.timed) {
            let Some(Some(machine)) = self.slots.get_mut(at as usize) else { continue };
            machine.is_timed = false;
            if machine.failover.timeout().is_some_and(|due| due <= now) {
                machine.with(sources, events, |failover, sink| failover.on_timer(now, sink));
                let failover = &machine.failover;
                machine.origins.retain(|origin| origin.is_live || failover.holds(origin.source));
            }
            machine.note_timer(at, &mut self.timed);
            self.forget_if_done(at);
        }
    }

    /// Each topic: its receiver, name, sources and counters.
    pub(crate) fn stats(&self) -> impl Iterator<Item = FailoverStats> {
        self.slots.iter().flatten().map(|machine| FailoverStats {
            receiver: machine.receiver,
            topic: machine.topic.to_string(),
            sources: machine.failover.source_count(),
            stats: machine.failover.stats(),
        })
    }
}

/// A topic of a receiver of hot failover.
#[derive(Clone, Debug)]
pub struct FailoverStats {
    /// The receiver.
    pub receiver: ReceiverId,
    /// The topic's name.
    pub topic: String,
    /// How many sources are there.
    pub sources: usize,
    /// What was done with their messages.
    pub stats: Stats,
}

impl Machine {
    /// Works with the state machine; what it delivers goes to the application.
    #[inline]
    fn with<E: Events>(
        &mut self,
        sources: &mut Sources,
        events: &mut E,
        work: impl FnOnce(&mut Failover, &mut Deliver<'_, E>),
    ) {
        let Self { receiver, topic, failover, origins, .. } = self;
        work(failover, &mut Deliver { receiver: *receiver, topic, origins, sources, events });
    }

    #[inline]
    fn note_timer(&mut self, at: u32, timed: &mut Vec<u32>) {
        if !self.is_timed && self.failover.timeout().is_some() {
            self.is_timed = true;
            timed.push(at);
        }
    }
}

struct Deliver<'a, E> {
    receiver: ReceiverId,
    topic: &'a str,
    origins: &'a [Origin],
    sources: &'a mut Sources,
    events: &'a mut E,
}

impl<'a, E> Deliver<'a, E> {
    #[inline]
    fn stream(&self, source: u32) -> Option<Stream<'a>> {
        let origin = self.origins.iter().find(|origin| origin.source == source)?;
        let Origin { number, transport, index, .. } = origin;
        Some(Stream { receiver: self.receiver, number: *number, topic: self.topic, transport, index: *index })
    }

    fn topic(&self) -> FailoverTopic<'a> {
        FailoverTopic { receiver: self.receiver, topic: self.topic }
    }
}

impl<E: Events> FailoverSink for Deliver<'_, E> {
    #[inline]
    fn message(&mut self, delivered: Delivered<'_>) {
        // A stream stays known while a message of it waits.
        let Some(stream) = self.stream(delivered.source) else { return };
        let Message { sqn, payload, properties, kind, headers } = delivered.message;
        let request = delivered.request.map(Request::of);
        let failover = Some(delivered.way);
        self.events
            .message(self.sources, &Delivery { stream, sqn, payload, properties, kind, headers, request, failover });
    }

    fn lost(&mut self, lost: Lost) {
        self.events.failover(self.sources, &self.topic(), &FailoverNews::Lost(lost));
    }

    fn differs(&mut self, difference: Difference) {
        let Some(other) = self.stream(difference.other) else { return };
        let delivered = self.stream(difference.delivered);
        let news = FailoverNews::Differs { number: difference.number, delivered, other };
        self.events.failover(self.sources, &self.topic(), &news);
    }

    fn reset(&mut self, _source: u32, next: Number) {
        self.events.failover(self.sources, &self.topic(), &FailoverNews::Reset(next));
    }
}
