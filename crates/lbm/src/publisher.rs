//! A sending session and its sources as one thing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::topic::{SendError, Source, SourceConfig};
use crate::transport::{Carrier, Framing, Lbtrm, Output, Sender, SenderConfig};
use crate::wire::header::Header;
use crate::wire::lbtrm::{Body, Packet};

/// The topics that are sent on one transport session, whichever it is.
///
/// Topics are numbered from the index given to [`Topics::new`], +1 each; a topic's index is its handle.
#[derive(Debug)]
pub struct Topics {
    /// Of the topic in the first place; of the next one if there is none.
    first_topic: u32,
    /// The index that the next topic gets.
    next_topic: u32,
    /// By index, ascending from the first; not every index has a place.
    places: Vec<Place>,
    /// Places whose topic has gone.
    gone: usize,
    /// (not after its source's timeout, topic), at most one entry a topic.
    timers: BinaryHeap<Reverse<(u64, u32)>>,
}

#[derive(Debug)]
struct Place {
    topic: u32,
    /// `None`: the topic has gone.
    entry: Option<Entry>,
}

#[derive(Debug)]
struct Entry {
    source: Source,
    /// Whether the source has an entry among the timers.
    timed: bool,
}

impl Topics {
    /// No topics. `first_topic` is random in the product.
    pub fn new(first_topic: u32) -> Self {
        Self { first_topic, next_topic: first_topic, places: Vec::new(), gone: 0, timers: BinaryHeap::new() }
    }

    /// Adds a topic and returns its index, to be advertised.
    pub fn add(&mut self, config: SourceConfig) -> u32 {
        let topic = self.next_topic;
        self.next_topic = topic.wrapping_add(1);
        self.places.push(Place { topic, entry: Some(Entry { source: Source::new(topic, config), timed: false }) });
        topic
    }

    /// Sends on the topic no more. Indexes are not used again; memory for those that have gone is, once they are more than half of it.
    pub fn remove(&mut self, topic: u32) {
        let Some(at) = self.find(topic) else { return };
        self.gone += usize::from(self.places[at].entry.take().is_some());
        if self.gone > self.places.len() / 2 {
            self.places.retain(|place| place.entry.is_some());
            self.gone = 0;
            self.first_topic = self.places.first().map_or(self.next_topic, |place| place.topic);
        }
    }

    /// The place of a topic, if it has one.
    #[inline]
    fn find(&self, topic: u32) -> Option<usize> {
        // While none has gone, a topic stands as far behind the first as its index; later it may stand nearer.
        let ahead = topic.wrapping_sub(self.first_topic);
        match self.places.get(ahead as usize) {
            Some(place) if place.topic == topic => Some(ahead as usize),
            _ => self.places.binary_search_by_key(&ahead, |place| place.topic.wrapping_sub(self.first_topic)).ok(),
        }
    }

    #[inline]
    fn entry(&mut self, topic: u32) -> Option<&mut Entry> {
        let at = self.find(topic)?;
        self.places.get_mut(at)?.entry.as_mut()
    }

    /// A topic's source, for late joiners' requests and counters.
    pub fn source(&mut self, topic: u32) -> Option<&mut Source> {
        Some(&mut self.entry(topic)?.source)
    }

    /// The sources there are.
    pub fn iter(&self) -> impl Iterator<Item = &Source> {
        self.places.iter().filter_map(|place| Some(&place.entry.as_ref()?.source))
    }

    /// Adds a message to what is open, if that is all there is to do; see [`Source::append`]. A source that can has its timer.
    #[inline]
    pub fn append(&mut self, now: u64, carrier: &mut impl Carrier, topic: u32, payload: &[u8]) -> Option<u32> {
        self.entry(topic)?.source.append(now, carrier, payload)
    }

    /// Sends through a topic's source and keeps its timer.
    ///
    /// # Errors
    /// No such topic, or what `send` says.
    #[inline]
    pub fn with(
        &mut self,
        topic: u32,
        send: impl FnOnce(&mut Source) -> Result<u32, SendError>,
    ) -> Result<u32, SendError> {
        let entry = self.entry(topic).ok_or(SendError::NoTopic)?;
        let sqn = send(&mut entry.source)?;
        if !entry.timed
            && let Some(at) = entry.source.timeout()
        {
            entry.timed = true;
            self.timers.push(Reverse((at, topic)));
        }
        Ok(sqn)
    }

    /// When [`Topics::on_timer`] is to be called.
    pub fn timeout(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    /// Says topic sequence numbers after a silence.
    pub fn on_timer(&mut self, now: u64, carrier: &mut impl Carrier) {
        while let Some(Reverse((at, topic))) = self.timers.peek().copied()
            && at <= now
        {
            self.timers.pop();
            let Some(entry) = self.entry(topic) else { continue };
            // The entry's source may have sent since, and be due later.
            entry.source.on_timer(now, carrier);
            entry.timed = entry.source.timeout().is_some();
            if let Some(at) = entry.source.timeout() {
                self.timers.push(Reverse((at.max(now + 1), topic)));
            }
        }
    }
}

/// A sending session of LBT-RM, or its like, and its topics.
#[derive(Debug)]
pub struct Publisher<F> {
    sender: Sender<F>,
    topics: Topics,
}

impl<F: Framing> Publisher<F> {
    /// A session without topics. `first_topic` is random in the product.
    pub fn new(framing: F, config: SenderConfig, first_topic: u32) -> Self {
        Self { sender: Sender::new(framing, config), topics: Topics::new(first_topic) }
    }

    /// Adds a topic and returns its index, to be advertised.
    pub fn add(&mut self, config: SourceConfig) -> u32 {
        self.topics.add(config)
    }

    /// Sends on the topic no more. Indexes are not used again.
    pub fn remove(&mut self, topic: u32) {
        self.topics.remove(topic);
    }

    /// The transport session.
    pub fn sender(&mut self) -> &mut Sender<F> {
        &mut self.sender
    }

    /// The topics.
    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    /// A topic's source, for late joiners' requests and counters.
    pub fn source(&mut self, topic: u32) -> Option<&mut Source> {
        self.topics.source(topic)
    }

    /// Sends a message; returns the number of its last fragment.
    ///
    /// # Errors
    /// See [`SendError`].
    #[inline]
    pub fn send(&mut self, now: u64, topic: u32, payload: &[u8], flush: bool) -> Result<u32, SendError> {
        let Self { sender, topics } = self;
        if !flush && let Some(sqn) = topics.append(now, sender, topic, payload) {
            return Ok(sqn);
        }
        topics.with(topic, |source| source.send(now, sender, payload, flush))
    }

    /// Sends a message with extension headers.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send_headed(
        &mut self,
        now: u64,
        topic: u32,
        headers: &[Header<'_>],
        payload: &[u8],
        flush: bool,
    ) -> Result<u32, SendError> {
        let sender = &mut self.sender;
        self.topics.with(topic, |source| source.send_headed(now, sender, headers, payload, flush))
    }

    /// Sends what waits for a fuller datagram.
    pub fn flush(&mut self, now: u64) {
        self.sender.flush(now);
    }

    /// What has to go to the socket; see [`Sender::output`].
    pub fn output(&mut self, now: u64) -> Output<'_> {
        self.sender.output(now)
    }

    /// When [`Publisher::on_timer`] is to be called.
    pub fn timeout(&self) -> Option<u64> {
        self.sender.timeout().into_iter().chain(self.topics.timeout()).min()
    }

    /// Batches that have waited, session messages, topic sequence numbers. Ask [`Publisher::output`] afterwards.
    pub fn on_timer(&mut self, now: u64) {
        self.sender.on_timer(now);
        self.topics.on_timer(now, &mut self.sender);
    }
}

impl Publisher<Lbtrm> {
    /// A packet came to the session's NAK port; see [`Sender::receive`].
    pub fn receive(&mut self, now: u64, peer: u64, packet: &[u8]) -> bool {
        self.sender.receive(now, peer, packet)
    }
}

impl Sender<Lbtrm> {
    /// A packet came to the session's NAK port from `peer`, any number that tells receivers apart. Returns whether it was a NAK for
    /// this session; anything else is ignored.
    pub fn receive(&mut self, now: u64, peer: u64, packet: &[u8]) -> bool {
        let Ok(Packet { unicast_port, session_id, body: Body::Nak { sqns, format: 0 } }) = Packet::decode(packet)
        else {
            return false;
        };
        let framing = self.framing();
        if (unicast_port, session_id) != (framing.unicast_port, framing.session_id) {
            return false;
        }
        self.nak(now, peer, sqns.iter());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_that_come_and_go_take_no_memory_and_no_index_twice() {
        let mut topics = Topics::new(u32::MAX - 5);
        let stays = topics.add(SourceConfig::default());
        let mut last = stays;
        for _ in 0..100 {
            let topic = topics.add(SourceConfig::default());
            assert_eq!(topic, last.wrapping_add(1), "an index that was another's is not given again");
            topics.remove(topic);
            last = topic;
            assert!(topics.source(topic).is_none() && topics.source(stays).is_some());
            assert!(topics.places.len() < 4, "{} places while the oldest stays", topics.places.len());
        }
        topics.remove(stays);
        for _ in 0..1_000 {
            let topic = topics.add(SourceConfig::default());
            assert_eq!((topic, topics.iter().count()), (last.wrapping_add(1), 1));
            topics.remove(topic);
            last = topic;
        }
        assert!(topics.places.len() < 3, "{} places", topics.places.len());
    }

    #[test]
    fn every_topic_that_stays_is_found_whichever_have_gone() {
        let mut topics = Topics::new(u32::MAX - 20);
        let (mut there, mut random) = (Vec::new(), 7u32);
        for _ in 0..2_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if there.len() < 3 || there.len() < 60 && random >> 31 == 0 {
                there.push(topics.add(SourceConfig::default()));
            } else {
                // Topics in the middle go most often.
                let topic = there.remove(1 + (random >> 8) as usize % (there.len() - 1));
                topics.remove(topic);
                topics.remove(topic);
                assert!(topics.source(topic).is_none());
            }
            assert!(there.iter().all(|topic| topics.source(*topic).is_some()));
            assert_eq!(topics.iter().count(), there.len());
            assert!(topics.places.len() <= 2 * there.len() + 1, "{} places", topics.places.len());
        }
    }
}
