//! State machines of a client, apart from its sockets, so that callbacks of the context can reach them.

use std::collections::HashMap;

use lbm::transport::EndReason;
use lbm::wire::lbmc::{DATA_HEADER, FRAGMENT_HEADER, Message};
use lbm_io::failover::{FailoverNews, FailoverTopic};
use lbm_io::{Delivery, Events, Loss, Offer, ReceiverId, RequestId, SendFlags, SourceId, Sources, Stream};
use lbm_store::receiver::{Delivered, Recovery, Sink, Topic};
use lbm_store::source::{Identity, Question, Source, SourceConfig};
use lbm_store::wire::origin;
use net::clock;

use super::events::{ClientEvents, PersistentReceiver, PersistentSource, SendRefused};

/// A persistent source.
pub(super) struct SourceEntry {
    pub(super) id: SourceId,
    pub(super) machine: Source,
    message_max: usize,
}

impl SourceEntry {
    /// The state machine of a source that the context has. `None`: the context has it no more.
    pub(super) fn new(sources: &mut Sources, id: SourceId, topic: &str, config: SourceConfig) -> Option<Self> {
        let (transport, topic_index, message_max) = sources.placement(id)?;
        let session = *sources.transport(id)?;
        let identity = Identity {
            topic: topic.as_bytes().into(),
            transport,
            topic_index,
            origin: origin(&session, topic_index),
            requests: sources.request_address()?,
        };
        Some(Self { id, machine: Source::new(clock::now(), config, identity), message_max })
    }

    /// Sends a message if stores and transport admit it.
    #[inline]
    pub(super) fn send(&mut self, sources: &mut Sources, payload: &[u8], flags: SendFlags) -> Result<u32, SendRefused> {
        let fragments = self.fragments(payload.len());
        self.machine.admit(fragments, payload.len()).map_err(SendRefused::NotAdmitted)?;
        let sqn = sources.send(self.id, payload, flags | SendFlags::NONBLOCK).map_err(SendRefused::Transport)?;
        self.machine.sent(sources.now(), sqn, payload, self.message_max);
        Ok(sqn)
    }

    /// Into how many pieces the topic's source cuts a message of so many bytes.
    #[inline]
    fn fragments(&self, length: usize) -> usize {
        if length + DATA_HEADER <= self.message_max {
            return 1;
        }
        length.div_ceil(self.message_max.saturating_sub(FRAGMENT_HEADER).max(1))
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Parts {
    sources: Vec<Option<SourceEntry>>,
    receivers: Vec<Option<ReceiverEntry>>,
    by_receiver: HashMap<ReceiverId, usize>,
}

/// A persistent receiver.
pub(super) struct ReceiverEntry {
    pub(super) id: ReceiverId,
    pub(super) topic: Topic,
    /// Whether sources' stores are asked: `ume_use_store`.
    pub(super) uses_stores: bool,
}

impl Parts {
    pub(super) fn add_source(&mut self, entry: SourceEntry) -> PersistentSource {
        self.sources.push(Some(entry));
        PersistentSource(self.sources.len() - 1)
    }

    pub(super) fn add_receiver(&mut self, entry: ReceiverEntry) -> PersistentReceiver {
        let at = self.receivers.len();
        self.by_receiver.insert(entry.id, at);
        self.receivers.push(Some(entry));
        PersistentReceiver(at)
    }

    pub(super) fn remove_source(&mut self, at: usize) -> Option<SourceEntry> {
        self.sources.get_mut(at)?.take()
    }

    pub(super) fn remove_receiver(&mut self, at: usize) -> Option<ReceiverEntry> {
        let entry = self.receivers.get_mut(at)?.take()?;
        self.by_receiver.remove(&entry.id);
        Some(entry)
    }

    /// Whether there is nothing persistent.
    pub(super) fn is_empty(&self) -> bool {
        self.by_receiver.is_empty() && self.sources.iter().all(Option::is_none)
    }

    pub(super) fn source(&self, at: usize) -> Option<&SourceEntry> {
        self.sources.get(at)?.as_ref()
    }

    pub(super) fn source_mut(&mut self, at: usize) -> Option<&mut SourceEntry> {
        self.sources.get_mut(at)?.as_mut()
    }

    pub(super) fn topic(&self, at: usize) -> Option<&Topic> {
        Some(&self.receivers.get(at)?.as_ref()?.topic)
    }

    pub(super) fn topic_mut(&mut self, at: usize) -> Option<&mut Topic> {
        Some(&mut self.receivers.get_mut(at)?.as_mut()?.topic)
    }

    /// Places that sources have, or had.
    pub(super) fn source_places(&self) -> usize {
        self.sources.len()
    }

    /// Places that receivers have, or had.
    pub(super) fn receiver_places(&self) -> usize {
        self.receivers.len()
    }

    /// Each source, by its place.
    pub(super) fn sources(&mut self) -> impl Iterator<Item = (usize, &mut SourceEntry)> {
        self.sources.iter_mut().enumerate().filter_map(|(at, entry)| Some((at, entry.as_mut()?)))
    }

    /// Each receiver, by its place.
    pub(super) fn topics(&mut self) -> impl Iterator<Item = (usize, &mut Topic)> {
        self.receivers.iter_mut().enumerate().filter_map(|(at, entry)| Some((at, &mut entry.as_mut()?.topic)))
    }

    /// When a state machine has something to do.
    pub(super) fn timeout(&self) -> Option<u64> {
        let sources = self.sources.iter().flatten().filter_map(|source| source.machine.timeout());
        sources.chain(self.receivers.iter().flatten().filter_map(|receiver| receiver.topic.timeout())).min()
    }
}

/// A receiver's view of the application.
pub(super) struct ToApplication<'a, E> {
    pub(super) receiver: PersistentReceiver,
    pub(super) sources: &'a mut Sources,
    pub(super) events: &'a mut E,
}

impl<E: ClientEvents> Sink for ToApplication<'_, E> {
    fn recovery(&mut self, source: u32, recovery: Recovery) -> u32 {
        self.events.recovery(self.receiver, source, recovery)
    }

    #[inline]
    fn message(&mut self, source: u32, message: Delivered<'_>) {
        self.events.delivered(self.sources, self.receiver, source, &message);
    }

    fn lost(&mut self, source: u32, first: u32, count: u32) {
        self.events.gone(self.sources, self.receiver, source, first, count);
    }
}

/// Hands to persistent receivers what the context receives for them, and to the application what is for others.
pub(super) struct ToReceivers<'a, E> {
    pub(super) now: u64,
    pub(super) parts: &'a mut Parts,
    pub(super) events: &'a mut E,
}

impl<E: ClientEvents> ToReceivers<'_, E> {
    /// Whether the receiver is a persistent one; then `act` has been done with it.
    #[inline]
    fn with(
        &mut self,
        sources: &mut Sources,
        id: ReceiverId,
        act: impl FnOnce(u64, &mut Topic, &mut ToApplication<'_, E>),
    ) -> bool {
        let Some(at) = self.parts.by_receiver.get(&id).copied() else { return false };
        let Some(topic) = self.parts.topic_mut(at) else { return false };
        act(self.now, topic, &mut ToApplication { receiver: PersistentReceiver(at), sources, events: self.events });
        true
    }
}

impl<E: ClientEvents> Events for ToReceivers<'_, E> {
    #[inline]
    fn message(&mut self, sources: &mut Sources, delivery: &Delivery<'_>) {
        let message = lbm::topic::Message {
            sqn: delivery.sqn,
            payload: delivery.payload,
            properties: delivery.properties,
            kind: delivery.kind,
            headers: delivery.headers.clone(),
        };
        let number = delivery.stream.number;
        let done =
            self.with(sources, delivery.stream.receiver, |now, topic, sink| topic.message(now, number, &message, sink));
        if !done {
            self.events.message(sources, delivery);
        }
    }

    fn found(&mut self, sources: &mut Sources, stream: &Stream<'_>, offer: &Offer) {
        let number = stream.number;
        let entry = self.parts.by_receiver.get(&stream.receiver).and_then(|at| self.parts.receivers[*at].as_ref());
        let has_stores = offer.persistent && entry.is_none_or(|entry| entry.uses_stores);
        let done = self.with(sources, stream.receiver, |now, topic, sink| {
            topic.stream_begun(now, number, has_stores);
            if !has_stores {
                topic.without_stores(now, number, sink);
            }
        });
        if !done {
            self.events.found(sources, stream, offer);
        }
    }

    fn control(&mut self, sources: &mut Sources, stream: &Stream<'_>, message: &Message<'_>) {
        let (number, index) = (stream.number, stream.index);
        let done = self.with(sources, stream.receiver, |now, topic, sink| {
            // A message that cannot be read says nothing of the source, which is asked again.
            let _ = topic.control(now, number, index, message, sink);
        });
        if !done {
            self.events.control(sources, stream, message);
        }
    }

    fn question(&mut self, sources: &mut Sources, message: &Message<'_>, answers: &mut Vec<u8>) {
        let Some(question) = Question::of(message) else { return self.events.question(sources, message, answers) };
        let asked = self.parts.sources().filter(|(_, source)| source.machine.is_asked(&question));
        asked.for_each(|(_, source)| source.machine.info(answers));
    }

    fn begin(&mut self, sources: &mut Sources, stream: &Stream<'_>) {
        if !self.parts.by_receiver.contains_key(&stream.receiver) {
            self.events.begin(sources, stream);
        }
    }

    fn end(&mut self, sources: &mut Sources, stream: &Stream<'_>, reason: EndReason) {
        let number = stream.number;
        if !self.with(sources, stream.receiver, |_, topic, _| topic.stream_ended(number)) {
            self.events.end(sources, stream, reason);
        }
    }

    fn lost(&mut self, sources: &mut Sources, stream: &Stream<'_>, loss: Loss) {
        let number = stream.number;
        if !self
            .with(sources, stream.receiver, |now, topic, sink| topic.lost(now, number, loss.first, loss.count, sink))
        {
            self.events.lost(sources, stream, loss);
        }
    }

    fn failover(&mut self, sources: &mut Sources, topic: &FailoverTopic<'_>, news: &FailoverNews<'_>) {
        self.events.failover(sources, topic, news);
    }

    fn writable(&mut self, sources: &mut Sources, source: SourceId) {
        self.events.writable(sources, source);
    }

    fn response(&mut self, sources: &mut Sources, request: RequestId, payload: &[u8]) {
        self.events.response(sources, request, payload);
    }
}
