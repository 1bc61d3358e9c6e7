//! Turns of a context together with its queues.

use std::io;
use std::time::Duration;

use lbm::transport::EndReason;
use lbm::wire::lbmc::Message;
use lbm::wire::lbmr::{Advert, Packet};
use lbm_io::failover::{FailoverNews, FailoverTopic};
use lbm_io::{Context, Delivery, Events, Loss, Offer, RequestId, SendFlags, SourceId, Sources, Stream};
use lbm_queue::receiver::Verdict;
use lbm_queue::{Index, MessageId};
use net::clock;

use crate::events::{Assigned, Consumption, QueueEvents, SendRefused};
use crate::queues::Queues;

/// The events of a context whose sources and receivers may have queues: see [`Queues::events`].
pub struct ToQueues<'a, E> {
    queues: &'a mut Queues,
    events: &'a mut E,
}

impl<E: QueueEvents> Events for ToQueues<'_, E> {
    #[inline]
    fn message(&mut self, sources: &mut Sources, delivery: &Delivery<'_>) {
        match self.queues.on_message(sources.now(), delivery) {
            Verdict::Plain => self.events.message(sources, delivery),
            Verdict::Other => {}
            Verdict::Own { id, again, index } => {
                let done = self.events.assigned(sources, delivery, &Assigned { id, again, index });
                if done == Consumption::Done {
                    self.queues.consumed(delivery.stream.receiver, id);
                }
            }
        }
    }

    fn found(&mut self, sources: &mut Sources, stream: &Stream<'_>, offer: &Offer) {
        self.queues.on_found(sources.now(), stream, offer);
        self.events.found(sources, stream, offer);
    }

    fn control(&mut self, sources: &mut Sources, stream: &Stream<'_>, message: &Message<'_>) {
        if !self.queues.on_control(sources.now(), stream, message) {
            self.events.control(sources, stream, message);
        }
    }

    fn question(&mut self, sources: &mut Sources, message: &Message<'_>, answers: &mut Vec<u8>) {
        if !self.queues.on_question(sources.now(), message, answers) {
            self.events.question(sources, message, answers);
        }
    }

    fn resolution(&mut self, packet: &Packet<'_>) {
        self.events.resolution(packet);
    }

    fn accepts(&mut self, advert: &Advert<'_>) -> bool {
        self.events.accepts(advert)
    }

    fn begin(&mut self, sources: &mut Sources, stream: &Stream<'_>) {
        self.events.begin(sources, stream);
    }

    fn end(&mut self, sources: &mut Sources, stream: &Stream<'_>, reason: EndReason) {
        self.queues.on_end(stream);
        self.events.end(sources, stream, reason);
    }

    fn lost(&mut self, sources: &mut Sources, stream: &Stream<'_>, loss: Loss) {
        self.events.lost(sources, stream, loss);
    }

    fn failover(&mut self, sources: &mut Sources, topic: &FailoverTopic<'_>, news: &FailoverNews<'_>) {
        self.events.failover(sources, topic, news);
    }

    fn writable(&mut self, sources: &mut Sources, source: SourceId) {
        // The turn sends what a source of a queue has.
        if !self.queues.has_source(source) {
            self.events.writable(sources, source);
        }
    }

    fn response(&mut self, sources: &mut Sources, request: RequestId, payload: &[u8]) {
        self.events.response(sources, request, payload);
    }
}

impl Queues {
    /// The events that a context's turn is to be given, so that queues get what is theirs.
    pub fn events<'a, E: QueueEvents>(&'a mut self, events: &'a mut E) -> ToQueues<'a, E> {
        ToQueues { queues: self, events }
    }

    /// As [`Queues::send`], but waits while there is no room. Events go on meanwhile.
    ///
    /// # Errors
    /// What will not change by waiting, or what makes the context unusable.
    pub fn send_blocking(
        &mut self,
        context: &mut Context,
        source: SourceId,
        payload: &[u8],
        index: Option<&Index>,
        flags: SendFlags,
        events: &mut impl QueueEvents,
    ) -> io::Result<Result<MessageId, SendRefused>> {
        loop {
            match self.send(context.sources(), source, payload, index.cloned(), flags) {
                Err(refused) if refused.is_passing() => {
                    self.poll(context, Some(Duration::from_millis(10)), events)?;
                }
                done => return Ok(done),
            }
        }
    }

    /// A turn of the context and of its queues: waits at most `timeout`. Returns how many messages the context has received.
    ///
    /// # Errors
    /// Only what makes the context unusable.
    pub fn poll(
        &mut self,
        context: &mut Context,
        timeout: Option<Duration>,
        events: &mut impl QueueEvents,
    ) -> io::Result<usize> {
        let left = self.timeout().map(|due| Duration::from_nanos(due.saturating_sub(clock::now())));
        let received = context.poll(left.into_iter().chain(timeout).min(), &mut self.events(events))?;
        self.turn(context, events);
        Ok(received)
    }
}
