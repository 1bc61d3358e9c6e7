//! `lbmpub --application-sets` and `lbmsub --receiver-type`: messages that one receiver of several consumes.

use std::collections::HashMap;
use std::time::Duration;

use clap::Args;
use lbm_io::options::{Options, Scope, SourceOption};
use lbm_io::{Context, Delivery, Events, ReceiverId, SendFlags, SourceId, Sources};
use lbm_queue_io::{Assigned, Consumption, Index, QueueEvents, Queues, ReceiverEvent, SourceEvent};
use measure::latency::Latency;
use serde_json::{Value, json};

use super::payload::{MIN, Payload};
use super::persistent::{Publishing, Subscribing};
use super::schedule::{self, Blocking};
use super::topic_args;
use crate::output::Output;

/// Flags of a publisher with a queue.
#[derive(Clone, Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, where backticks would show")]
pub struct QueueArgs {
    /// Assign each message to one subscriber of each application set, which the receiver types are in: 0:10 or 0:10,11;1:20. Options
    /// umq_ulb_* say more, as -o 'source umq_ulb_receiver_portion 11:3'
    #[arg(long, value_name = "SET:TYPE,...", conflicts_with = "stores")]
    pub application_sets: Option<String>,

    /// Give messages so many indices in turn: those of one index go to one subscriber of a set, in order; 0: none
    #[arg(long, value_name = "N", default_value_t = 0, requires = "application_sets")]
    pub indices: u64,
}

impl QueueArgs {
    /// Adds what the flags say to options. Whether there is a queue.
    pub(super) fn apply(&self, options: &mut Options) -> anyhow::Result<bool> {
        if let Some(sets) = &self.application_sets {
            options.set(Scope::Source, SourceOption::UMQ_ULB_APPLICATION_SET.name(), sets)?;
        }
        Ok(!options.get(SourceOption::UMQ_ULB_APPLICATION_SET).is_empty())
    }
}

/// How long receivers are waited for, ns.
const PATIENCE_NS: u64 = 30_000_000_000;
/// How long a subscriber waits for messages that others may have had, once the publisher has nothing more, ns.
const QUIET_NS: u64 = 500_000_000;

/// Events of a publisher.
#[derive(Default)]
struct Published {
    /// When each message that is not complete was sent, by its stamp.
    sent: HashMap<u64, u64>,
    latency: Latency,
    complete: u64,
    reassigned: u64,
    given_up: u64,
    text: Vec<String>,
}

impl Events for Published {
    fn message(&mut self, _: &mut Sources, _: &Delivery<'_>) {}
}

impl QueueEvents for Published {
    fn assigned(&mut self, _: &mut Sources, _: &Delivery<'_>, _: &Assigned<'_>) -> Consumption {
        Consumption::Done
    }

    fn source(&mut self, _: &mut Sources, _: SourceId, event: &SourceEvent) {
        match *event {
            SourceEvent::Complete { message } => {
                self.complete += 1;
                if let Some(at) = self.sent.remove(&message.stamp) {
                    self.latency.record(net::clock::now().saturating_sub(at));
                }
            }
            SourceEvent::Assigned { again, .. } => self.reassigned += u64::from(again),
            SourceEvent::GivenUp { .. } => self.given_up += 1,
            SourceEvent::Ready { set, receiver } => {
                self.text.push(format!("receiver {receiver} of set {set} is ready"));
            }
            SourceEvent::Left { set, receiver } => self.text.push(format!("receiver {receiver} of set {set} has left")),
            SourceEvent::TimedOut { set, receiver } => {
                self.text.push(format!("receiver {receiver} of set {set} is silent: others have its messages"));
            }
            SourceEvent::FlightSize { is_over } => {
                self.text.push(if is_over { "over the flight size" } else { "within the flight size" }.to_owned());
            }
            SourceEvent::Registered { .. } | SourceEvent::Consumed { .. } | SourceEvent::Writable => {}
        }
    }
}

/// A publisher with a queue.
struct Publisher<'a> {
    plan: Publishing<'a>,
    indices: u64,
    context: Context,
    queues: Queues,
    source: SourceId,
    events: Published,
    payload: Vec<u8>,
    flags: SendFlags,
    sent: u64,
}

impl Blocking for Publisher<'_> {
    fn turn(&mut self, wait: Duration) -> anyhow::Result<()> {
        let Self { context, queues, events, .. } = self;
        queues.poll(context, Some(wait), events)?;
        events.text.drain(..).for_each(|text| tracing::info!("{text}"));
        Ok(())
    }

    fn send(&mut self, message: Payload) -> anyhow::Result<()> {
        if let Some(head) = self.payload.first_chunk_mut::<MIN>() {
            message.write(head);
        }
        let index = (self.indices > 0).then(|| Index::Number(self.sent % self.indices));
        let Self { context, queues, source, payload, events, flags, .. } = self;
        let id = queues.send_blocking(context, *source, payload, index.as_ref(), *flags, events)??;
        events.sent.insert(id.stamp, net::clock::now());
        self.sent += 1;
        Ok(())
    }
}

impl Publisher<'_> {
    /// Waits until all is consumed, or nothing happens any more.
    fn settle(&mut self) -> anyhow::Result<()> {
        let until = net::clock::now() + PATIENCE_NS;
        while self.queues.in_flight(self.source) > 0 && net::clock::now() < until && net::signal::stop_requested() < 2 {
            self.turn(Duration::from_millis(10))?;
        }
        // All subscribers are to know.
        let mut end = [0; MIN];
        Payload::End { topic: 0, count: self.sent }.write(&mut end);
        self.context.send(self.source, &end, SendFlags::FLUSH)?;
        let quiet = net::clock::now() + self.plan.linger_ns;
        while net::clock::now() < quiet && net::signal::stop_requested() == 0 {
            self.turn(Duration::from_millis(50))?;
        }
        Ok(())
    }
}

/// Publishes to application sets; gives the result.
pub(super) fn publish(
    plan: Publishing<'_>,
    indices: u64,
    options: &Options,
    out: &mut Output,
) -> anyhow::Result<Value> {
    let mut options = options.clone();
    // The figures told here are those of the result.
    options.set(
        Scope::Source,
        SourceOption::UMQ_ULB_EVENTS.name(),
        "MSG_COMPLETE|MSG_TIMEOUT|MSG_REASSIGNMENT|RCV_READY|RCV_TIMEOUT|RCV_DEREGISTRATION",
    )?;
    let mut context = Context::new(&options)?;
    let mut queues = Queues::new();
    let source = queues.source(&mut context, &plan.common.topic, &options)?;
    topic_args::warn(&mut context);
    plan.common.place_thread()?;
    let at_once = options.get(SourceOption::IMPLICIT_BATCHING_MINIMUM_LENGTH) <= 1;
    let common = plan.common;
    let mut publisher = Publisher {
        payload: vec![0; plan.payload],
        plan,
        indices,
        context,
        queues,
        source,
        events: Published::default(),
        flags: if at_once { SendFlags::FLUSH } else { SendFlags::NONE },
        sent: 0,
    };
    let schedule = publisher.plan.schedule;
    let (sent, took) = schedule::send_all(&mut publisher, schedule)?;
    publisher.settle()?;
    let in_flight = publisher.queues.in_flight(source);
    let (receivers, _) = publisher.queues.source_receivers(source);
    let Publisher { events, .. } = publisher;
    let rate = sent as f64 * 1e9 / took.max(1) as f64;
    let latency = events.latency.summary();
    if !common.json {
        out.line(&format!(
            "{sent} messages, {rate:.0} a second to {receivers} receivers; {} consumed by all sets, {in_flight} not, {} given up, {} assigned anew; consumed after {:.0} us (median), {:.0} us (99%)",
            events.complete, events.given_up, events.reassigned, latency.p50_us, latency.p99_us
        ));
    }
    Ok(json!({
        "tool": "lbmpub", "sent": sent, "rate": rate, "complete": events.complete, "in_flight": in_flight,
        "given_up": events.given_up, "reassigned": events.reassigned, "receivers": receivers,
        "consumed_us": {"median": latency.p50_us, "p99": latency.p99_us, "max": latency.max_us},
    }))
}

/// Counts of what a subscriber has consumed.
#[derive(Default)]
struct Received {
    messages: u64,
    again: u64,
    without_queue: u64,
    registered: u64,
    last_at: u64,
    ended: u32,
    text: Vec<String>,
}

impl Events for Received {
    fn message(&mut self, _: &mut Sources, delivery: &Delivery<'_>) {
        match Payload::read(delivery.payload) {
            Some(Payload::End { .. }) => self.ended += 1,
            Some(Payload::Message { .. }) => self.without_queue += 1,
            None => {}
        }
    }
}

impl QueueEvents for Received {
    fn assigned(&mut self, _: &mut Sources, _: &Delivery<'_>, assigned: &Assigned<'_>) -> Consumption {
        self.messages += 1;
        self.again += u64::from(assigned.again);
        self.last_at = net::clock::now();
        Consumption::Done
    }

    fn receiver(&mut self, _: &mut Sources, _: ReceiverId, event: &ReceiverEvent) {
        match *event {
            ReceiverEvent::Registered { set, .. } => {
                self.registered += 1;
                self.text.push(format!("registered in application set {set}"));
            }
            ReceiverEvent::Refused { refusal, .. } => self.text.push(refusal.text().to_owned()),
            ReceiverEvent::SourceTimedOut { .. } => self.text.push("the publisher is silent".to_owned()),
        }
    }
}

/// Consumes what is assigned to a receiver of a type; gives the result.
pub(super) fn subscribe(
    plan: &Subscribing<'_>,
    receiver_type: u32,
    options: &Options,
    out: &mut Output,
) -> anyhow::Result<Value> {
    let mut options = options.clone();
    options.set(Scope::Receiver, "umq_receiver_type_id", &receiver_type.to_string())?;
    let mut context = Context::new(&options)?;
    let mut queues = Queues::new();
    let receiver = queues.receiver(&mut context, &plan.common.topic, &options)?;
    topic_args::warn(&mut context);
    plan.common.place_thread()?;
    let mut events = Received::default();
    if !plan.common.json {
        out.line("ready");
    }
    let limit = plan.seconds_ns;
    let until = if limit > 0 { net::clock::now().saturating_add(limit) } else { u64::MAX };
    let is_over = |events: &Received| events.ended >= plan.sources && net::clock::now() > events.last_at + QUIET_NS;
    while net::signal::stop_requested() == 0 && !is_over(&events) && net::clock::now() < until {
        queues.poll(&mut context, Some(Duration::from_millis(50)), &mut events)?;
        events.text.drain(..).for_each(|text| tracing::info!("{text}"));
    }
    // The publisher hears that what is not consumed is for others.
    queues.remove_receiver(&mut context, receiver);
    let Received { messages, again, without_queue, registered, .. } = events;
    if !plan.common.json {
        out.line(&format!("{messages} messages, {again} of them assigned to somebody before"));
    }
    Ok(json!({
        "tool": "lbmsub", "messages": messages, "again": again, "without_queue": without_queue,
        "registered": registered,
    }))
}
