//! The topics that receivers of one context want from one transport session.

use std::collections::HashMap;

use super::TopicSink;
use super::delivery::{Delivery, DeliveryConfig};
use crate::transport::{DatagramSink, EndReason, LossReason, Order};
use crate::wire::filtering::FilterInit;
use crate::wire::header::Header;
use crate::wire::lbmc::{Kind, Message, Messages};

/// Indexes are dense from the source context's first topic on; beyond so many of them a hash table is used.
const DENSE_MAX: u32 = 1 << 17;
const NONE: u32 = u32::MAX;

/// What came by a session. Counted per datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionStats {
    /// Datagrams in transport order.
    pub datagrams: u64,
    /// Topic sequence numbers reported lost.
    pub lost: u64,
    /// Datagrams of which a part could not be read.
    pub malformed: u64,
}

/// Which topics of a transport session somebody here wants, and how far each has come.
#[derive(Debug, Default)]
pub struct Session {
    base: u32,
    dense: Vec<u32>,
    sparse: HashMap<u32, u32>,
    deliveries: Vec<Option<Delivery>>,
    free: Vec<u32>,
    /// Slots of deliveries that fetch messages by TCP: the only ones with timers.
    fetching: Vec<u32>,
    running: bool,
    datagrams: u64,
    malformed: u64,
}

impl Session {
    /// A session of which nobody wants anything yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Delivers topic index `topic` to `receiver`. Returns false if the topic is delivered already.
    pub fn add(&mut self, topic: u32, receiver: u32, config: DeliveryConfig, sink: &mut impl TopicSink) -> bool {
        if self.slot(topic) != NONE {
            return false;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.deliveries.push(None);
            self.deliveries.len() as u32 - 1
        });
        let mut delivery = Delivery::new(receiver, topic, config);
        if self.running {
            delivery.begin(sink);
        }
        self.deliveries[slot as usize] = Some(delivery);
        self.set(topic, slot);
        true
    }

    /// Delivers the topic no more. Its receiver gets no event.
    pub fn remove(&mut self, topic: u32) -> bool {
        let slot = self.slot(topic);
        if slot == NONE {
            return false;
        }
        self.deliveries[slot as usize] = None;
        // The slot's next topic may fetch as well, and would be listed beside what is left of this one.
        self.fetching.retain(|listed| *listed != slot);
        self.free.push(slot);
        self.set(topic, NONE);
        true
    }

    /// The source of the topic leaves out messages that are for other receivers: their numbers are not lost.
    pub fn set_partial(&mut self, topic: u32) {
        if let Some(delivery) = self.delivery(topic) {
            delivery.set_partial();
        }
    }

    /// Whether the transport session has begun.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// Whether no topic is wanted.
    pub fn is_empty(&self) -> bool {
        self.free.len() == self.deliveries.len()
    }

    /// Whether some topic fetches messages by TCP.
    #[inline]
    pub fn is_fetching(&self) -> bool {
        !self.fetching.is_empty()
    }

    /// Counters.
    pub fn stats(&self) -> SessionStats {
        let live = || self.deliveries.iter().flatten();
        SessionStats {
            datagrams: self.datagrams,
            lost: live().map(|d| d.lost).sum(),
            malformed: self.malformed + live().map(|d| d.malformed).sum::<u64>(),
        }
    }

    /// Each topic: (receiver, topic index, numbers reported lost).
    pub fn topics(&self) -> impl Iterator<Item = (u32, u32, u64)> {
        self.deliveries.iter().flatten().map(|d| (d.receiver, d.topic, d.lost))
    }

    #[inline]
    fn slot(&self, topic: u32) -> u32 {
        match self.dense.get(topic.wrapping_sub(self.base) as usize) {
            Some(slot) => *slot,
            None if self.sparse.is_empty() => NONE,
            None => self.sparse.get(&topic).copied().unwrap_or(NONE),
        }
    }

    #[inline]
    fn delivery(&mut self, topic: u32) -> Option<&mut Delivery> {
        let slot = self.slot(topic) as usize;
        self.deliveries.get_mut(slot)?.as_mut()
    }

    /// Something came for the topic.
    #[inline]
    fn with(&mut self, topic: u32, act: impl FnOnce(&mut Delivery)) {
        let slot = self.slot(topic);
        if let Some(Some(delivery)) = self.deliveries.get_mut(slot as usize) {
            act(delivery);
            if delivery.is_fetching() && !core::mem::replace(&mut delivery.listed, true) {
                self.fetching.push(slot);
            }
        }
    }

    fn set(&mut self, topic: u32, slot: u32) {
        if self.dense.is_empty() {
            self.base = topic;
        }
        let index = topic.wrapping_sub(self.base);
        if index < DENSE_MAX {
            if self.dense.len() <= index as usize {
                self.dense.resize(index as usize + 1, NONE);
                // Topics that were beyond the dense part until now.
                let base = self.base;
                let dense = &mut self.dense;
                self.sparse.retain(|topic, slot| {
                    let place = dense.get_mut(topic.wrapping_sub(base) as usize);
                    place.map(|place| *place = *slot).is_none()
                });
            }
            self.dense[index as usize] = slot;
        } else if slot == NONE {
            self.sparse.remove(&topic);
        } else {
            self.sparse.insert(topic, slot);
        }
    }

    /// The sink for the transport's receiver.
    pub fn dispatch<'a, S: TopicSink>(&'a mut self, now: u64, sink: &'a mut S) -> Dispatch<'a, S> {
        Dispatch { session: self, now, sink }
    }

    /// Takes messages that came by TCP for late join or off-transport recovery. What nobody asks for there (a live message for a topic that
    /// fetches nothing, or anything while the session does not run) counts as malformed.
    pub fn fetched(&mut self, now: u64, messages: &[u8], sink: &mut impl TopicSink) {
        for message in Messages::new(messages) {
            let Ok(message) = message else {
                self.malformed += 1;
                return;
            };
            match message.kind {
                _ if !self.running => self.malformed += 1,
                Kind::Control => self.control(now, &message, sink),
                Kind::Message if !self.delivery(message.topic).is_some_and(|delivery| delivery.is_fetching()) => {
                    self.malformed += 1;
                }
                _ => self.with(message.topic, |delivery| delivery.message(now, &message, Order::InOrder, sink)),
            }
        }
    }

    /// An answer that names a request of topic `topic`: what the source retains.
    pub fn late_join_info(
        &mut self,
        now: u64,
        topic: u32,
        info: &crate::wire::header::LateJoinInfo,
        sink: &mut impl TopicSink,
    ) {
        if let Some(delivery) = self.delivery(topic) {
            delivery.late_join_info(now, info, sink);
        }
    }

    fn control(&mut self, now: u64, message: &Message<'_>, sink: &mut impl TopicSink) {
        for header in message.headers() {
            match header {
                Ok(Header::TopicSqns(sqns)) => {
                    for (topic, last) in sqns.iter() {
                        self.with(topic, |delivery| delivery.last_sent(now, last, sink));
                    }
                }
                Ok(Header::TopicIndex { index, .. }) => {
                    if let Some(receiver) = self.delivery(index).map(|delivery| delivery.receiver) {
                        sink.control(receiver, message);
                    }
                }
                Ok(header) => {
                    if let Some(init) = FilterInit::of(&header) {
                        sink.filters(&init);
                    }
                }
                Err(_) => self.malformed += 1,
            }
        }
    }

    /// Asserts what holds between calls. It looks at everything: for tests and simulations.
    ///
    /// # Panics
    /// Something does not hold: a fault of this module.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        let mut slots = vec![0u8; self.deliveries.len()];
        for (topic, slot) in self.dense.iter().enumerate().filter(|(_, slot)| **slot != NONE) {
            let topic = self.base.wrapping_add(topic as u32);
            assert_eq!(self.deliveries[*slot as usize].as_ref().map(|d| d.topic), Some(topic), "slot {slot}");
            slots[*slot as usize] += 1;
        }
        for (topic, slot) in &self.sparse {
            assert_eq!(self.deliveries[*slot as usize].as_ref().map(|d| d.topic), Some(*topic), "slot {slot}");
            slots[*slot as usize] += 1;
        }
        for slot in &self.free {
            assert!(self.deliveries[*slot as usize].is_none(), "slot {slot} is free, and somebody has it");
            slots[*slot as usize] += 1;
        }
        assert!(slots.iter().all(|count| *count == 1), "each slot is a topic's, or free: {slots:?}");
        for slot in &self.fetching {
            assert_eq!(self.fetching.iter().filter(|other| *other == slot).count(), 1, "slot {slot} is listed twice");
        }
        for (slot, delivery) in self.deliveries.iter().enumerate() {
            let Some(delivery) = delivery else { continue };
            delivery.check_invariants(self.running);
            let listed = self.fetching.contains(&(slot as u32));
            assert_eq!(delivery.listed, listed, "topic {}: whether the session knows that it fetches", delivery.topic);
            assert!(listed || !delivery.is_fetching(), "topic {}: fetches without a timer", delivery.topic);
        }
    }

    /// When [`Session::on_timer`] is to be called. Only late join and recovery have timers here.
    pub fn timeout(&self) -> Option<u64> {
        let fetching = self.fetching.iter().filter_map(|slot| self.deliveries.get(*slot as usize)?.as_ref());
        fetching.filter_map(Delivery::timeout).min()
    }

    /// Asks for messages: `ask` gets the topic index and the header of a control message for the source's request port.
    pub fn on_timer(&mut self, now: u64, sink: &mut impl TopicSink, mut ask: impl FnMut(u32, Header<'_>)) {
        let deliveries = &mut self.deliveries;
        self.fetching.retain(|slot| {
            let Some(Some(delivery)) = deliveries.get_mut(*slot as usize) else { return false };
            let topic = delivery.topic;
            delivery.on_timer(now, sink, |header| ask(topic, header));
            delivery.listed = delivery.is_fetching();
            delivery.listed
        });
    }
}

/// Takes datagrams of a transport session and hands their messages to the receivers.
pub struct Dispatch<'a, S> {
    session: &'a mut Session,
    now: u64,
    sink: &'a mut S,
}

impl<S: TopicSink> DatagramSink for Dispatch<'_, S> {
    fn begin(&mut self) {
        self.session.running = true;
        for delivery in self.session.deliveries.iter_mut().flatten() {
            delivery.begin(self.sink);
        }
    }

    #[inline]
    fn datagram(&mut self, _sqn: u32, order: Order, messages: &[u8]) {
        self.session.datagrams += u64::from(order != Order::Early);
        let mut messages = Messages::new(messages);
        loop {
            if let Some((message, length)) = Message::plain(messages.rest()) {
                let slot = self.session.slot(message.topic) as usize;
                let taken = match self.session.deliveries.get_mut(slot) {
                    Some(Some(delivery)) => delivery.run(order, messages.rest(), self.sink),
                    _ => length,
                };
                if taken != 0 {
                    messages.skip_bytes(taken);
                    continue;
                }
            }
            let message = match messages.next() {
                Some(Ok(message)) => message,
                Some(Err(_)) => {
                    self.session.malformed += 1;
                    return;
                }
                None => return,
            };
            if message.kind == Kind::Message {
                let (now, sink) = (self.now, &mut *self.sink);
                self.session.with(message.topic, |delivery| delivery.message(now, &message, order, sink));
            } else if message.kind == Kind::Control && order != Order::Early {
                self.session.control(self.now, &message, self.sink);
            }
        }
    }

    /// Topics notice by their own numbers what they have lost.
    fn lost(&mut self, _first: u32, _count: u32, _reason: LossReason) {}

    fn end(&mut self, reason: EndReason) {
        self.session.running = false;
        for delivery in self.session.deliveries.iter_mut().flatten() {
            delivery.end(reason, self.sink);
        }
    }
}

impl<S> core::fmt::Debug for Dispatch<'_, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Dispatch").field("session", self.session).finish_non_exhaustive()
    }
}
