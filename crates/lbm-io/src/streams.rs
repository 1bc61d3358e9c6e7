//! Received streams, by topic and source, and how it gets to the application.

use std::collections::HashMap;

use lbm::topic::{Message, Run, TopicSink};
use lbm::transport::EndReason;
use lbm::wire::filtering::FilterInit;
use lbm::wire::header::Header;
use lbm::wire::lbmc::{Headers, NEXT_DATA, NEXT_NONE};
use lbm::wire::lbmr::Transport;

use crate::Sources;
use crate::events::{Delivery, Events, Loss, Stream};
use crate::failover::{Machines, Place};
use crate::handles::{ReceiverId, Request};

/// Who wants a stream.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) receiver: ReceiverId,
    /// Where the stream goes if the receiver is one of hot failover.
    pub(crate) failover: Option<Place>,
}

pub(crate) struct Entry {
    pub(crate) transport: Transport,
    pub(crate) index: u32,
    pub(crate) topic: Box<str>,
    /// More than one only if a topic is also wanted by pattern.
    pub(crate) receivers: Vec<Target>,
    pub(crate) session: usize,
    pub(crate) begun: bool,
    pub(crate) messages: u64,
    pub(crate) lost: u64,
}

impl Entry {
    pub(crate) fn stream(&self, number: u32, receiver: ReceiverId) -> Stream<'_> {
        Stream { receiver, number, topic: &self.topic, transport: &self.transport, index: self.index }
    }
}

/// The streams of a context.
#[derive(Default)]
pub(crate) struct Streams {
    slots: Vec<Option<Entry>>,
    free: Vec<u32>,
    by_topic: HashMap<(Transport, u32), u32>,
    by_session: Vec<Vec<u32>>,
    /// Messages handed to the application.
    pub(crate) delivered: u64,
    pub(crate) machines: Machines,
    /// The word of a source that filters, from what was handed in last.
    pub(crate) filter: Option<FilterInit>,
}

impl Streams {
    pub(crate) fn find(&self, transport: &Transport, index: u32) -> Option<u32> {
        self.by_topic.get(&(*transport, index)).copied()
    }

    pub(crate) fn insert(&mut self, entry: Entry) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.by_topic.insert((entry.transport, entry.index), number);
        self.slots[number as usize] = Some(entry);
        number
    }

    /// The session is known once the subscriber has taken the topic.
    pub(crate) fn set_session(&mut self, number: u32, session: usize) {
        if self.by_session.len() <= session {
            self.by_session.resize_with(session + 1, Vec::new);
        }
        self.by_session[session].push(number);
        if let Some(entry) = self.get_mut(number) {
            entry.session = session;
        }
    }

    /// The topics that are wanted of a session.
    pub(crate) fn indexes(&self, session: usize) -> Vec<u32> {
        let numbers = self.by_session.get(session).into_iter().flatten();
        numbers.filter_map(|number| Some(self.slots.get(*number as usize)?.as_ref()?.index)).collect()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Entry> {
        self.slots.get_mut(number as usize)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Entry)> {
        self.slots.iter().enumerate().filter_map(|(i, entry)| Some((i as u32, entry.as_ref()?)))
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<Entry> {
        let entry = self.slots.get_mut(number as usize)?.take()?;
        self.by_topic.remove(&(entry.transport, entry.index));
        if let Some(list) = self.by_session.get_mut(entry.session) {
            list.retain(|other| *other != number);
        }
        self.free.push(number);
        self.leave(&entry);
        Some(entry)
    }

    fn leave(&mut self, entry: &Entry) {
        entry.receivers.iter().filter_map(|target| target.failover).for_each(|place| self.machines.leave(place));
    }

    /// All streams of a session that has ended.
    pub(crate) fn remove_session(&mut self, session: usize) {
        // A session of which no stream was ever found.
        let Some(list) = self.by_session.get_mut(session) else { return };
        for number in std::mem::take(list) {
            if let Some(entry) = self.slots.get_mut(number as usize).and_then(Option::take) {
                self.by_topic.remove(&(entry.transport, entry.index));
                self.free.push(number);
                self.leave(&entry);
            }
        }
    }

    /// Tells a receiver that came later that the stream has begun.
    pub(crate) fn tell_begun(
        &mut self,
        number: u32,
        Target { receiver, failover }: Target,
        sources: &mut Sources,
        events: &mut impl Events,
    ) {
        if let Some(Some(entry)) = self.slots.get(number as usize)
            && entry.begun
        {
            if let Some(place) = failover {
                self.machines.begin(sources.now(), place);
            }
            events.begin(sources, &entry.stream(number, receiver));
        }
    }
}

/// Hands what the state machines deliver to the application.
pub(crate) struct Deliver<'a, E> {
    pub(crate) streams: &'a mut Streams,
    pub(crate) sources: &'a mut Sources,
    pub(crate) events: &'a mut E,
}

/// The address to which a reply goes, if the message wants one.
fn request(headers: &Headers<'_>) -> Option<Request> {
    headers.clone().find_map(|header| match header {
        Ok(Header::Request(r)) if r.transport == 0 => Some(Request::of(r)),
        _ => None,
    })
}

/// News of a stream whose last receiver has gone are for nobody.
impl<E: Events> TopicSink for Deliver<'_, E> {
    const TAKES_RUNS: bool = E::TAKES_RUNS;

    #[inline]
    fn run(&mut self, number: u32, run: &Run<'_>) -> bool {
        let Streams { slots, delivered, .. } = &mut *self.streams;
        let Some(Some(entry)) = slots.get_mut(number as usize) else { return true };
        let [Target { receiver, failover: None }] = *entry.receivers else { return false };
        let is_taken = self.events.run(self.sources, &entry.stream(number, receiver), run);
        if is_taken {
            entry.messages += u64::from(run.count);
            *delivered += u64::from(run.count);
        }
        is_taken
    }

    fn begin(&mut self, number: u32) {
        let Streams { slots, machines, .. } = &mut *self.streams;
        let Some(Some(entry)) = slots.get_mut(number as usize) else { return };
        entry.begun = true;
        for Target { receiver, failover } in &entry.receivers {
            if let Some(place) = failover {
                machines.begin(self.sources.now(), *place);
            }
            self.events.begin(self.sources, &entry.stream(number, *receiver));
        }
    }

    #[inline]
    fn message(&mut self, number: u32, message: Message<'_>) {
        let Streams { slots, machines, delivered, .. } = &mut *self.streams;
        let Some(Some(entry)) = slots.get_mut(number as usize) else { return };
        entry.messages += 1;
        *delivered += 1;
        if let [Target { failover: Some(place), .. }] = *entry.receivers {
            machines.message(self.sources.now(), place, &message, self.sources, self.events);
            return;
        }
        let plain = matches!(message.headers.end(), NEXT_DATA | NEXT_NONE);
        let request = if plain { None } else { request(&message.headers) };
        let delivery = |receiver: ReceiverId| Delivery {
            stream: entry.stream(number, receiver),
            sqn: message.sqn,
            payload: message.payload,
            properties: message.properties,
            kind: message.kind,
            headers: message.headers.clone(),
            request,
            failover: None,
        };
        // Spelled out: with most streams a loop is all overhead.
        if let [Target { receiver, .. }] = *entry.receivers {
            self.events.message(self.sources, &delivery(receiver));
            return;
        }
        for Target { receiver, failover } in &entry.receivers {
            match failover {
                Some(place) => machines.message(self.sources.now(), *place, &message, self.sources, self.events),
                None => self.events.message(self.sources, &delivery(*receiver)),
            }
        }
    }

    fn control(&mut self, number: u32, message: &lbm::wire::lbmc::Message<'_>) {
        let Some(entry) = self.streams.get_mut(number) else { return };
        for Target { receiver, .. } in &entry.receivers {
            self.events.control(self.sources, &entry.stream(number, *receiver), message);
        }
    }

    fn filters(&mut self, init: &FilterInit) {
        self.streams.filter = Some(*init);
    }

    fn lost(&mut self, number: u32, sqn: u32) {
        self.burst_lost(number, sqn, 1);
    }

    fn burst_lost(&mut self, number: u32, first: u32, count: u32) {
        let Some(entry) = self.streams.get_mut(number) else { return };
        entry.lost += u64::from(count);
        for Target { receiver, .. } in entry.receivers.iter().filter(|target| target.failover.is_none()) {
            self.events.lost(self.sources, &entry.stream(number, *receiver), Loss { first, count });
        }
    }

    fn end(&mut self, number: u32, reason: EndReason) {
        let Streams { slots, machines, .. } = &mut *self.streams;
        let Some(Some(entry)) = slots.get_mut(number as usize) else { return };
        entry.begun = false;
        for Target { receiver, failover } in &entry.receivers {
            if let Some(place) = failover {
                machines.end(self.sources.now(), *place, self.sources, self.events);
            }
            self.events.end(self.sources, &entry.stream(number, *receiver), reason);
        }
    }
}
