//! `lbmpub --store` and `lbmsub --session-id`: messages that outlive receivers and stores.

use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use lbm_io::options::{Options, Scope, SourceOption};
use lbm_io::{Delivery, Events, SendFlags, Sources};
use lbm_store::receiver::{Delivered, ReceiverEvent, TopicEvent};
use lbm_store::source::SourceEvent;
use lbm_store_io::{Client, ClientEvents, PersistentReceiver, PersistentSource};
use measure::latency::Latency;
use serde_json::{Value, json};

use super::payload::{MIN, Payload};
use super::schedule::{self, Blocking, Schedule};
use super::topic_args::{self, TopicArgs};
use crate::output::Output;

/// Flags of a publisher with stores.
#[derive(Clone, Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, where backticks would show")]
pub struct StoreArgs {
    /// A store of the source (quoteway lbmstore); several times for a quorum. Messages are then sent only as fast as more than half of the
    /// stores have them. Options ume_* say more, as -o 'source ume_flight_size 5000'
    #[arg(long = "store", value_name = "ADDRESS:PORT")]
    pub stores: Vec<SocketAddrV4>,

    /// Number by which stores know this program when it is started again, with --store
    #[arg(long, value_name = "N", requires = "stores")]
    pub session_id: Option<u64>,
}

impl StoreArgs {
    /// Adds what the flags say to options. Whether there is a store.
    pub(super) fn apply(&self, options: &mut Options) -> anyhow::Result<bool> {
        for store in &self.stores {
            options.set(Scope::Source, "ume_store", &store.to_string())?;
        }
        if let Some(session) = self.session_id {
            options.set(Scope::Source, "ume_session_id", &session.to_string())?;
        }
        Ok(options.stores().next().is_some())
    }
}

/// How long stores are waited for, ns.
const PATIENCE_NS: u64 = 30_000_000_000;

/// Counts of what a publisher has been told.
#[derive(Default)]
struct Published {
    ready: bool,
    stable: u64,
    not_stable: u64,
    /// Number and time of messages that are not stable, by number.
    sent: VecDeque<(u32, u64)>,
    latency: Latency,
    text: Vec<String>,
}

impl Events for Published {
    fn message(&mut self, _: &mut Sources, _: &Delivery<'_>) {}
}

impl ClientEvents for Published {
    fn delivered(&mut self, _: &mut Sources, _: PersistentReceiver, _: u32, _: &Delivered<'_>) {}

    fn source(&mut self, _: &mut Sources, _: PersistentSource, event: &SourceEvent) {
        match *event {
            SourceEvent::Ready { first } => {
                self.ready = true;
                self.text.push(format!("begins with number {first}"));
            }
            SourceEvent::Registered { store, reg_id } => {
                self.text.push(format!("registered at store {store} as {reg_id}"));
            }
            SourceEvent::Refused { store, refusal } => self.text.push(format!("store {store}: {}", refusal.text())),
            SourceEvent::Unresponsive { store } => self.text.push(format!("store {store} does not answer")),
            SourceEvent::Stable { first, last } => self.stable(first, last),
            SourceEvent::NotStable { .. } => self.not_stable += 1,
            SourceEvent::Superseded => self.text.push("another program has taken up the registration".to_owned()),
            SourceEvent::FlightSize { is_over } => {
                self.text.push(if is_over { "over the flight size" } else { "within the flight size" }.to_owned());
            }
            SourceEvent::Dial { .. }
            | SourceEvent::HangUp { .. }
            | SourceEvent::Confirmed { .. }
            | SourceEvent::Writable => {}
        }
    }
}

impl Published {
    /// Messages up to `last` are most often stable in the order in which they were sent.
    fn stable(&mut self, first: u32, last: u32) {
        let now = net::clock::now();
        let is_within = |sqn: u32| sqn.wrapping_sub(first) <= last.wrapping_sub(first);
        while let Some((_, at)) = self.sent.front().copied().filter(|(sqn, _)| is_within(*sqn)) {
            self.latency.record(now.saturating_sub(at));
            self.stable += 1;
            self.sent.pop_front();
        }
        self.sent.retain(|(sqn, at)| {
            if is_within(*sqn) {
                self.latency.record(now.saturating_sub(*at));
                self.stable += 1;
            }
            !is_within(*sqn)
        });
    }

    fn tell(&mut self) {
        self.text.drain(..).for_each(|text| tracing::info!("{text}"));
    }
}

/// A publisher with stores, as the command asks for it.
pub(super) struct Publishing<'a> {
    pub(super) common: &'a TopicArgs,
    /// Bytes of a message.
    pub(super) payload: usize,
    pub(super) schedule: Schedule,
    /// To stay for so long once all is stable.
    pub(super) linger_ns: u64,
}

/// A subscriber of a publisher with stores, as the command asks for it.
pub(super) struct Subscribing<'a> {
    pub(super) common: &'a TopicArgs,
    /// Ends of publishers that are waited for.
    pub(super) sources: u32,
    /// To end after so long; 0: only then.
    pub(super) seconds_ns: u64,
}

/// A publisher with stores.
struct Publisher<'a> {
    plan: Publishing<'a>,
    client: Client,
    source: PersistentSource,
    events: Published,
    payload: Vec<u8>,
    flags: SendFlags,
}

impl Blocking for Publisher<'_> {
    fn turn(&mut self, wait: Duration) -> anyhow::Result<()> {
        self.client.poll(Some(wait), &mut self.events)?;
        self.events.tell();
        Ok(())
    }

    fn send(&mut self, message: Payload) -> anyhow::Result<()> {
        self.send_with(message, self.flags)
    }
}

impl Publisher<'_> {
    /// Waits until enough stores have answered.
    fn register(&mut self) -> anyhow::Result<()> {
        let until = net::clock::now() + PATIENCE_NS;
        while !self.events.ready && net::signal::stop_requested() == 0 {
            if net::clock::now() > until {
                return Err(anyhow!("too few stores have answered: are they running, and at these addresses?"));
            }
            self.turn(Duration::from_millis(20))?;
        }
        Ok(())
    }

    /// Sends a test message, and waits for stores if as many as may be are not stable.
    fn send_with(&mut self, message: Payload, flags: SendFlags) -> anyhow::Result<()> {
        if let Some(head) = self.payload.first_chunk_mut::<MIN>() {
            message.write(head);
        }
        let sqn = self.client.send_blocking(self.source, &self.payload, flags, &mut self.events)?;
        self.events.sent.push_back((sqn, net::clock::now()));
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.client.source_state(self.source).map_or(0, lbm_store::source::Source::in_flight)
    }

    /// Waits until all is stable, or nothing happens any more.
    fn settle(&mut self) -> anyhow::Result<()> {
        let until = net::clock::now() + PATIENCE_NS;
        while self.in_flight() > 0 && net::clock::now() < until && net::signal::stop_requested() < 2 {
            self.turn(Duration::from_millis(10))?;
        }
        let quiet = net::clock::now() + self.plan.linger_ns;
        while net::clock::now() < quiet && net::signal::stop_requested() == 0 {
            self.turn(Duration::from_millis(50))?;
        }
        Ok(())
    }
}

/// Publishes to stores; gives the result.
pub(super) fn publish(plan: Publishing<'_>, options: &Options, out: &mut Output) -> anyhow::Result<Value> {
    let mut client = Client::new(options)?;
    let source = client.source(&plan.common.topic, options)?;
    topic_args::warn(client.context());
    plan.common.place_thread()?;
    let at_once = options.get(SourceOption::IMPLICIT_BATCHING_MINIMUM_LENGTH) <= 1;
    let common = plan.common;
    let mut publisher = Publisher {
        payload: vec![0; plan.payload],
        plan,
        client,
        source,
        events: Published::default(),
        flags: if at_once { SendFlags::FLUSH } else { SendFlags::NONE },
    };
    publisher.register()?;
    let schedule = publisher.plan.schedule;
    let (sent, took) = schedule::send_all(&mut publisher, schedule)?;
    publisher.send_with(Payload::End { topic: 0, count: sent }, SendFlags::FLUSH)?;
    publisher.settle()?;
    let in_flight = publisher.in_flight();
    let Publisher { events, .. } = publisher;
    let rate = sent as f64 * 1e9 / took.max(1) as f64;
    let latency = events.latency.summary();
    if !common.json {
        out.line(&format!(
            "{sent} messages, {rate:.0} a second; {} stable (the end among them), {in_flight} not; stable after {:.0} us (median), {:.0} us (99%)",
            events.stable, latency.p50_us, latency.p99_us
        ));
    }
    Ok(json!({
        "tool": "lbmpub", "sent": sent, "rate": rate, "stable": events.stable, "not_stable": events.not_stable,
        "in_flight": in_flight, "stores": options.stores().count(),
        "stable_us": {"median": latency.p50_us, "p99": latency.p99_us, "max": latency.max_us},
    }))
}

/// Counts of what a subscriber has received.
#[derive(Default)]
struct Received {
    messages: u64,
    repeated: u64,
    lost: u64,
    ended: u32,
    highest: Option<u32>,
    out_of_order: u64,
    text: Vec<String>,
}

impl Events for Received {
    fn message(&mut self, _: &mut Sources, _: &Delivery<'_>) {}
}

impl ClientEvents for Received {
    fn delivered(&mut self, _: &mut Sources, _: PersistentReceiver, _: u32, message: &Delivered<'_>) {
        match Payload::read(message.payload) {
            Some(Payload::Message { number, .. }) => {
                self.messages += 1;
                self.repeated += u64::from(message.repeated);
                // Another run of the publisher begins with 0.
                self.out_of_order += u64::from(self.highest.is_some_and(|highest| number <= highest) && number != 0);
                self.highest = Some(number);
            }
            Some(Payload::End { .. }) => self.ended += 1,
            None => {}
        }
    }

    fn gone(&mut self, _: &mut Sources, _: PersistentReceiver, _: u32, _: u32, count: u32) {
        self.lost += u64::from(count);
    }

    fn receiver(&mut self, _: &mut Sources, _: PersistentReceiver, event: &TopicEvent) {
        match *event {
            TopicEvent::Source(source, ReceiverEvent::Registered { store, reg_id }) => {
                self.text.push(format!("source {source}: registered at store {store} as {reg_id}"));
            }
            TopicEvent::Source(source, ReceiverEvent::Refused { store, refusal }) => {
                self.text.push(format!("source {source}, store {store}: {}", refusal.text()));
            }
            TopicEvent::Source(source, ReceiverEvent::Unresponsive { store }) => {
                self.text.push(format!("source {source}: store {store} does not answer"));
            }
            TopicEvent::WithoutStores { .. } => self.text.push("the source has no stores".to_owned()),
            TopicEvent::Source(..) | TopicEvent::AskInfo { .. } => {}
        }
    }
}

/// Receives from stores what was missed; gives the result.
pub(super) fn subscribe(plan: &Subscribing<'_>, options: &Options, out: &mut Output) -> anyhow::Result<Value> {
    let mut client = Client::new(options)?;
    client.receiver(&plan.common.topic, options)?;
    topic_args::warn(client.context());
    plan.common.place_thread()?;
    let mut events = Received::default();
    if !plan.common.json {
        out.line("ready");
    }
    let limit = plan.seconds_ns;
    let until = if limit > 0 { net::clock::now().saturating_add(limit) } else { u64::MAX };
    while net::signal::stop_requested() == 0 && events.ended < plan.sources && net::clock::now() < until {
        client.poll(Some(Duration::from_millis(50)), &mut events)?;
        events.text.drain(..).for_each(|text| tracing::info!("{text}"));
    }
    // Stores hear what was consumed, and have it before the connection ends.
    client.finish(&mut events)?;
    let Received { messages, repeated, lost, out_of_order, ended, .. } = events;
    if !plan.common.json {
        out.line(&format!("{messages} messages, {repeated} of them sent again, {lost} lost"));
    }
    Ok(json!({
        "tool": "lbmsub", "messages": messages, "repeated": repeated, "lost": lost, "out_of_order": out_of_order,
        "ended": ended,
    }))
}
