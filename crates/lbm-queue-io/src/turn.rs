//! Turns of a context together with its queues.

use std::io;
use std::time::Duration;

use lbm::transport::EndReason;
use lbm::wire::lbmc::Message;
use lbm::wire::lbmr::{Advert, Packet};
use lbm_io::failover::{FailoverNews, FailoverTopic};
use lbm_io::{
    Context, Delivery, Events, FilteredReceiver, Loss, Offer, RequestId, SendFlags, SourceId, Sources, Stream,
};
use lbm_queue::receiver::Verdict;
use lbm_queue::{Index, MessageId};
use net::clock;

use crate::events::{Assigned, Consumption, QueueEvents, SendRefused};
use crate::queues::{Queues, pump};

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
                    self.queues.consumed_at(sources.now(), delivery.stream.receiver, id);
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
        if !self.queues.on_question(sources.now(), sources.asking(), message, answers) {
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
    /// A message of the context: whose it is.
    #[inline]
    pub fn on_message<'a>(&mut self, now: u64, delivery: &Delivery<'a>) -> Verdict<'a> {
        if self.streams == 0 {
            return Verdict::Plain;
        }
        let Some(machine) = self.receivers.get_mut(&delivery.stream.receiver) else { return Verdict::Plain };
        machine.message(now, delivery.stream.number, &delivery.headers)
    }

    /// A source was found.
    pub fn on_found(&mut self, now: u64, stream: &Stream<'_>, offer: &Offer) {
        if let (Some(machine), Some(source)) = (self.receivers.get_mut(&stream.receiver), offer.queue) {
            let of = (stream.index, stream.transport.originating_id(stream.index));
            machine.found(now, stream.number, source, of);
            self.streams += 1;
        }
    }

    /// A stream has ended.
    pub fn on_end(&mut self, stream: &Stream<'_>) {
        if let Some(machine) = self.receivers.get_mut(&stream.receiver) {
            self.streams -= usize::from(machine.ended(stream.number));
        }
    }

    /// A control message of a stream. Whether its receiver is one of queues.
    pub fn on_control(&mut self, now: u64, stream: &Stream<'_>, message: &Message<'_>) -> bool {
        let Some(machine) = self.receivers.get_mut(&stream.receiver) else { return false };
        self.stats.malformed += u64::from(machine.control(now, stream.number, message).is_err());
        true
    }

    /// A control message to the request port, of whom [`Sources::asking`] tells; what is put into `answers` goes back. Whether it was for a
    /// source of a queue.
    pub fn on_question(
        &mut self,
        now: u64,
        asking: Option<FilteredReceiver>,
        message: &Message<'_>,
        answers: &mut Vec<u8>,
    ) -> bool {
        let (mut is_ours, line) = (false, asking.map(FilteredReceiver::number));
        for machine in self.sources.values_mut() {
            let Ok(of_this) = machine.question(now, line, message, answers) else {
                self.stats.malformed += 1;
                return true;
            };
            is_ours |= of_this;
        }
        is_ours
    }

    /// Does the work that is due, sends what has come of a turn of the context, and tells events. To be called behind each of them.
    pub fn turn(&mut self, context: &mut Context, events: &mut impl QueueEvents) {
        let now = clock::now();
        let Self { sources, receivers, stats, happened, .. } = self;
        for (id, machine) in sources {
            machine.on_timer(now);
            for message in machine.announcements() {
                let sent = context.sources().send_control(*id, &message);
                stats.announcements_dropped += u64::from(sent.is_err());
            }
            if machine.has_to_send() {
                // A message that is too long for the transport is given up, and counted there.
                let _ = pump(machine, *id, context.sources(), SendFlags::NONE);
                // All of them together: a call for each would be one for each message while receivers are behind.
                let _ = context.sources().flush(*id);
            }
            machine.swap_events(happened);
            for event in happened.drain(..) {
                events.source(context.sources(), *id, &event);
            }
        }
        for (id, machine) in receivers {
            machine.on_timer(now);
            machine.output(|stream, bytes| stats.reports_unsent += u64::from(!context.ask(stream, bytes)));
            for event in machine.events() {
                events.receiver(context.sources(), *id, &event);
            }
        }
    }

    /// The events that a context's turn is to be given, so that queues get what is theirs.
    pub fn events<'a, E: QueueEvents>(&'a mut self, events: &'a mut E) -> ToQueues<'a, E> {
        ToQueues { queues: self, events }
    }

    /// As [`Queues::send`], but waits while there is no room. Events go on meanwhile.
    ///
    /// # Errors
    /// The message's fault, which does not change by waiting, or one that makes the context unusable.
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
