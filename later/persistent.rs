//! `lbmpub --store` and `lbmsub --session-id`: messages that outlive receivers and stores.

use std::net::SocketAddrV4;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use feed::pace::{Pacer, Rate, Shape};
use lbm_io::SendFlags;
use lbm_io::options::SourceOption;
use lbm_store::receiver::{Delivered, ReceiverConfig, ReceiverEvent, TopicEvent};
use lbm_store::source::{SourceConfig, SourceEvent, StoreAddress};
use lbm_store_io::{Client, ClientEvents, PersistentReceiver, PersistentSource};
use serde_json::{Value, json};

use super::payload::{MIN, Payload};
use crate::output::Output;

/// Flags of a publisher with stores.
#[derive(Clone, Debug, Args)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, where backticks would show")]
pub struct StoreArgs {
    /// A store of the source (quoteway lbmstore), several times for a quorum: HOST:PORT by address. Messages are then sent only as fast
    /// as more than half of the stores have them
    #[arg(long = "store", value_name = "ADDRESS:PORT")]
    pub stores: Vec<SocketAddrV4>,

    /// Number by which stores know this program when it is started again, with --store
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub session_id: u64,

    /// Messages that may be on their way to stores at a time, with --store
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub flight_size: usize,
}

/// How long stores are waited for.
const PATIENCE_NS: u64 = 30_000_000_000;

#[derive(Default)]
struct Published {
    ready: bool,
    stable: u64,
    not_stable: u64,
    text: Vec<String>,
}

impl ClientEvents for Published {
    fn message(&mut self, _: PersistentReceiver, _: u32, _: &Delivered<'_>) {}

    fn source(&mut self, _: PersistentSource, event: &SourceEvent) {
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
            SourceEvent::Stable { first, last } => self.stable += u64::from(last.wrapping_sub(first)) + 1,
            SourceEvent::NotStable { .. } => self.not_stable += 1,
            SourceEvent::Superseded => self.text.push("another program has taken up the registration".to_owned()),
            SourceEvent::Dial { .. }
            | SourceEvent::HangUp { .. }
            | SourceEvent::Confirmed { .. }
            | SourceEvent::Writable => {}
        }
    }
}

impl Published {
    fn tell(&mut self) {
        self.text.drain(..).for_each(|text| tracing::info!("{text}"));
    }
}

/// Publishes to stores; gives the result.
pub(super) fn publish(args: &super::publish::Args, out: &mut Output) -> anyhow::Result<Value> {
    let options = args.common.options(&format!("source transport {}", args.transport))?;
    let mut client = Client::new(&options)?;
    let stores = args.stores.stores.iter().map(|at| StoreAddress { group: 0, at: *at, reg_id: 0 }).collect();
    let config = SourceConfig {
        stores,
        session: args.stores.session_id,
        flight_size: args.stores.flight_size,
        ..SourceConfig::default()
    };
    let source = client.source(&args.common.topic, config)?;
    let mut events = Published::default();
    let began = net::clock::now();
    while !events.ready && net::signal::stop_requested() == 0 {
        if net::clock::now() > began + PATIENCE_NS {
            events.tell();
            return Err(anyhow!("too few stores have answered: are they running, and at these addresses?"));
        }
        client.poll(Some(Duration::from_millis(20)), &mut events)?;
        events.tell();
    }
    let at_once = options.get(SourceOption::IMPLICIT_BATCHING_MINIMUM_LENGTH) <= 1;
    let flags = if at_once { SendFlags::FLUSH } else { SendFlags::NONE };
    let count = args.count.unwrap_or(u64::MAX);
    let started = net::clock::now();
    let ends = started.saturating_add(super::publish::seconds(args.seconds));
    let mut pacer = Pacer::new(Shape::Smooth, args.rate, started);
    let mut payload = vec![0; args.payload];
    let mut sent = 0u64;
    while sent < count && net::signal::stop_requested() == 0 {
        let now = net::clock::now();
        if args.count.is_none() && now >= ends {
            break;
        }
        let due = if args.rate == Rate::Max { 64 } else { pacer.take(now) }.min(count - sent);
        for _ in 0..due {
            if let Some((head, _)) = payload.split_first_chunk_mut::<MIN>() {
                Payload::Message { number: sent as u32, topic: 0, intended: now }.write(head);
            }
            client.send_blocking(source, &payload, flags, &mut events)?;
            sent += 1;
        }
        let wait = if args.rate == Rate::Max { Duration::ZERO } else { Duration::from_millis(1) };
        client.poll(Some(wait), &mut events)?;
        events.tell();
    }
    let took = net::clock::now() - started;
    if let Some((head, _)) = payload.split_first_chunk_mut::<MIN>() {
        Payload::End { topic: 0, count: sent }.write(head);
    }
    client.send_blocking(source, &payload, SendFlags::FLUSH, &mut events)?;
    let linger = net::clock::now() + PATIENCE_NS;
    while client.source_state(source).is_some_and(|s| s.in_flight() > 0) && net::clock::now() < linger {
        client.poll(Some(Duration::from_millis(10)), &mut events)?;
    }
    let in_flight = client.source_state(source).map_or(0, lbm_store::source::Source::in_flight);
    let rate = sent as f64 * 1e9 / took.max(1) as f64;
    if !args.common.json {
        out.line(&format!("{sent} messages, {rate:.0} a second; {} stable, {in_flight} not", events.stable));
    }
    Ok(json!({
        "tool": "lbmpub", "messages": sent, "rate": rate, "stable": events.stable, "not_stable": events.not_stable,
        "in_flight": in_flight, "stores": args.stores.stores.len(),
    }))
}

#[derive(Default)]
struct Received {
    messages: u64,
    repeated: u64,
    lost: u64,
    ended: u32,
    ends: bool,
    highest: Option<u32>,
    out_of_order: u64,
    text: Vec<String>,
}

impl ClientEvents for Received {
    fn message(&mut self, _: PersistentReceiver, _: u32, message: &Delivered<'_>) {
        match Payload::read(message.payload) {
            Some(Payload::Message { number, .. }) => {
                self.messages += 1;
                self.repeated += u64::from(message.repeated);
                self.out_of_order += u64::from(self.highest.is_some_and(|highest| number <= highest) && number != 0);
                self.highest = Some(number);
            }
            Some(Payload::End { .. }) => {
                self.ended += 1;
                self.ends = true;
            }
            None => {}
        }
    }

    fn lost(&mut self, _: PersistentReceiver, _: u32, _: u32, count: u32) {
        self.lost += u64::from(count);
    }

    fn receiver(&mut self, _: PersistentReceiver, event: &TopicEvent) {
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
pub(super) fn subscribe(args: &super::subscribe::Args, session: u64, out: &mut Output) -> anyhow::Result<Value> {
    let options = args.common.options(&format!("source transport {}", args.transport))?;
    let mut client = Client::new(&options)?;
    client.receiver(&args.common.topic, ReceiverConfig { session, ..ReceiverConfig::default() })?;
    let mut events = Received::default();
    if !args.common.json {
        out.line("ready");
    }
    let began = net::clock::now();
    let limit = super::publish::seconds(args.seconds);
    while net::signal::stop_requested() == 0 && events.ended < args.sources {
        if limit > 0 && net::clock::now() > began + limit {
            break;
        }
        client.poll(Some(Duration::from_millis(50)), &mut events)?;
        events.text.drain(..).for_each(|text| tracing::info!("{text}"));
    }
    client.finish(&mut events)?;
    let Received { messages, repeated, lost, out_of_order, ends, .. } = events;
    if !args.common.json {
        out.line(&format!("{messages} messages, {repeated} of them sent again, {lost} lost"));
    }
    Ok(json!({
        "tool": "lbmsub", "messages": messages, "repeated": repeated, "lost": lost, "out_of_order": out_of_order,
        "ended": ends,
    }))
}
