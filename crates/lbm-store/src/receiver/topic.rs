//! The persistent receivers of a topic: one for each source, whichever streams it sends on over time.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use lbm::topic::Message;
use lbm::wire::WireError;
use lbm::wire::lbmc;

use super::{Receiver, ReceiverConfig, ReceiverEvent, ReceiverStats, Sink, SourceInfo, encode};

/// Bytes of messages of one stream that wait for the source's word on its stores.
const WAITING_MAX: usize = 8 << 20;

/// What has happened at a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicEvent {
    /// Something of the receiver of a source.
    Source(u32, ReceiverEvent),
    /// The source that sends on the stream is to be asked for its stores.
    AskInfo {
        /// The stream.
        stream: u32,
    },
    /// Nobody has said which stores the source of this stream has: its messages are delivered as those of any source.
    WithoutStores {
        /// The stream.
        stream: u32,
    },
}

/// A stream, and the receiver that it is of.
#[derive(Debug, Default)]
struct Stream {
    /// Place of the receiver, once it is known.
    receiver: Option<usize>,
    /// Another stream of the same source has followed.
    replaced: bool,
    /// Messages that came before the source's word.
    waiting: Vec<Vec<u8>>,
    waiting_bytes: usize,
    info_due: u64,
    info_asked: u32,
    persistent: bool,
}

/// See the module. A connection to a store is named by receiver and store: see [`Topic::conn`].
#[derive(Debug)]
pub struct Topic {
    name: Box<[u8]>,
    config: ReceiverConfig,
    receivers: Vec<Receiver>,
    streams: BTreeMap<u32, Stream>,
    events: Vec<TopicEvent>,
}

impl Topic {
    /// A topic of which no source is known yet.
    pub fn new(name: &[u8], config: ReceiverConfig) -> Self {
        Self { name: name.into(), config, receivers: Vec::new(), streams: BTreeMap::new(), events: Vec::new() }
    }

    /// The number of a connection: source and store.
    pub const fn conn(source: u32, store: usize) -> u64 {
        (source as u64) << 8 | store as u64
    }

    fn of_conn(&mut self, conn: u64) -> Option<(&mut Receiver, usize)> {
        Some((self.receivers.get_mut((conn >> 8) as usize)?, (conn & 0xFF) as usize))
    }

    /// A stream of the topic has begun. `persistent`: its source has said that it has stores, and is asked for them until it answers.
    pub fn stream_begun(&mut self, now: u64, stream: u32, persistent: bool) {
        self.streams.insert(stream, Stream { info_due: now, persistent, ..Stream::default() });
    }

    /// The stream is over. Its source may come back.
    pub fn stream_ended(&mut self, stream: u32) {
        self.streams.remove(&stream);
    }

    /// A control message came: by the stream, or as the source's answer.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn control(
        &mut self,
        now: u64,
        stream: u32,
        index: u32,
        message: &lbmc::Message<'_>,
        sink: &mut impl Sink,
    ) -> Result<(), WireError> {
        // Other topics of the session have words of their own.
        let Some(info) = SourceInfo::of(message)?.filter(|info| info.topic_index == index) else { return Ok(()) };
        let Some(entry) = self.streams.get_mut(&stream).filter(|entry| !entry.replaced) else { return Ok(()) };
        if let Some(receiver) = entry.receiver {
            self.receivers[receiver].info(now, &info, sink);
            return Ok(());
        }
        let known = self.receivers.iter().position(|receiver| receiver.is_of(&info));
        if known.is_some_and(|at| self.receivers[at].epochs.is_past(info.epochs.latest())) {
            // The word of an incarnation that another one has followed.
            entry.replaced = true;
            return Ok(());
        }
        let at = known.unwrap_or(self.receivers.len());
        if known.is_none() {
            self.receivers.push(Receiver::new(now, at as u32, self.config.clone(), self.name.clone()));
        }
        entry.receiver = Some(at);
        let waiting = std::mem::take(&mut entry.waiting);
        for (other, entry) in &mut self.streams {
            entry.replaced |= *other != stream && entry.receiver == Some(at);
        }
        self.receivers[at].info(now, &info, sink);
        self.feed(now, at, waiting, sink);
        Ok(())
    }

    fn feed(&mut self, now: u64, at: usize, waiting: Vec<Vec<u8>>, sink: &mut impl Sink) {
        for encoded in waiting {
            if let Ok((message, _)) = lbmc::Message::decode(&encoded)
                && let Ok(content) = message.content()
            {
                let (sqn, kind, headers) = (message.sqn, message.kind, message.headers());
                let whole = Message { sqn, payload: content.payload, properties: content.properties, kind, headers };
                self.receivers[at].message(now, &whole, sink);
            }
        }
    }

    /// A message came by a stream, as the transport brings it.
    #[inline]
    pub fn message(&mut self, now: u64, stream: u32, message: &Message<'_>, sink: &mut impl Sink) {
        let Some(entry) = self.streams.get_mut(&stream).filter(|entry| !entry.replaced) else { return };
        if let Some(receiver) = entry.receiver {
            return self.receivers[receiver].message(now, message, sink);
        }
        // What has no room is fetched later, if there are stores.
        if entry.waiting_bytes < WAITING_MAX {
            let mut head = Vec::new();
            let encoded = encode(0, message, &mut head).concat();
            entry.waiting_bytes += encoded.len() + 64;
            entry.waiting.push(encoded);
        }
    }

    /// The transport will not bring these numbers.
    pub fn lost(&mut self, now: u64, stream: u32, first: u32, count: u32, sink: &mut impl Sink) {
        if let Some(Stream { receiver: Some(receiver), replaced: false, .. }) = self.streams.get(&stream) {
            self.receivers[*receiver].transport_lost(now, first, count, sink);
        }
    }

    /// The store is connected.
    pub fn connected(&mut self, now: u64, conn: u64) {
        if let Some((receiver, store)) = self.of_conn(conn) {
            receiver.connected(now, store);
        }
    }

    /// The connection is over, or could not be made.
    pub fn closed(&mut self, now: u64, conn: u64) {
        if let Some((receiver, store)) = self.of_conn(conn) {
            receiver.closed(now, store);
        }
    }

    /// Messages of a store.
    ///
    /// # Errors
    /// They cannot be read: the connection is to be closed.
    pub fn receive(&mut self, now: u64, conn: u64, messages: &[u8], sink: &mut impl Sink) -> Result<(), WireError> {
        match self.of_conn(conn) {
            Some((receiver, store)) if receiver.is_connected_to(store) => receiver.receive(now, store, messages, sink),
            _ => Ok(()),
        }
    }

    /// The application has consumed all up to a number: with `ume_explicit_ack_only`.
    pub fn acknowledge(&mut self, now: u64, source: u32, sqn: u32) {
        if let Some(receiver) = self.receivers.get_mut(source as usize) {
            receiver.acknowledge(now, sqn);
        }
    }

    /// Tells stores at once what was consumed: before the end of the program.
    pub fn flush(&mut self) {
        self.receivers.iter_mut().for_each(Receiver::acknowledge_all);
    }

    /// Messages for connections.
    pub fn output(&mut self, mut send: impl FnMut(u64, Vec<u8>)) {
        for (source, receiver) in self.receivers.iter_mut().enumerate() {
            for (store, bytes) in receiver.out.drain() {
                send(Self::conn(source as u32, store as usize), bytes);
            }
        }
    }

    /// What has happened.
    pub fn events(&mut self) -> Vec<TopicEvent> {
        for (source, receiver) in self.receivers.iter_mut().enumerate() {
            self.events.extend(receiver.events.drain(..).map(|event| TopicEvent::Source(source as u32, event)));
        }
        std::mem::take(&mut self.events)
    }

    /// Each source: its number, counters, whether its messages are delivered.
    pub fn sources(&self) -> impl Iterator<Item = (u32, ReceiverStats, bool)> {
        self.receivers.iter().map(|receiver| (receiver.number, receiver.stats, receiver.running))
    }

    /// Stores of a source, and whether the receiver is registered there.
    pub fn stores(&self, source: u32) -> impl Iterator<Item = (SocketAddrV4, bool)> {
        let stores = self.receivers.get(source as usize).map(|receiver| receiver.stores.iter());
        stores.into_iter().flatten().map(|store| (store.at, store.registered))
    }

    /// When [`Topic::on_timer`] is to be called.
    pub fn timeout(&self) -> Option<u64> {
        let asks = self.streams.values().filter(|s| s.receiver.is_none()).map(|s| s.info_due);
        self.receivers.iter().filter_map(Receiver::timeout).chain(asks).min()
    }

    /// Asks sources for their stores, and all that receivers do.
    pub fn on_timer(&mut self, now: u64, sink: &mut impl Sink) {
        let mut without = Vec::new();
        for (number, stream) in self.streams.iter_mut().filter(|(_, s)| s.receiver.is_none() && s.info_due <= now) {
            if stream.info_asked >= self.config.info_maximum && !stream.persistent {
                without.push(*number);
                continue;
            }
            stream.info_asked = stream.info_asked.saturating_add(1);
            stream.info_due = now.saturating_add(self.config.info_interval_ns.max(1));
            self.events.push(TopicEvent::AskInfo { stream: *number });
        }
        for number in without {
            self.without_stores(now, number, sink);
        }
        self.receivers.iter_mut().for_each(|receiver| receiver.on_timer(now, sink));
    }

    /// The stream's source has no stores, as its advertisement says or since nobody answers.
    pub fn without_stores(&mut self, now: u64, stream: u32, sink: &mut impl Sink) {
        let at = self.receivers.len();
        let Some(entry) = self.streams.get_mut(&stream).filter(|entry| entry.receiver.is_none()) else { return };
        entry.receiver = Some(at);
        let waiting = std::mem::take(&mut entry.waiting);
        self.receivers.push(Receiver::new(now, at as u32, self.config.clone(), self.name.clone()));
        self.events.push(TopicEvent::WithoutStores { stream });
        self.feed(now, at, waiting, sink);
    }
}
