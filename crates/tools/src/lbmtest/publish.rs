//! `quoteway lbmpub`.

use anyhow::anyhow;
use std::time::Duration;

use clap::Parser;
use lbm_io::failover::{Mark, Number};
use lbm_io::options::{Options, SourceOption};
use lbm_io::{Context, Delivery, Events, SendError, SendFlags, SourceId, Sources};
use serde_json::{Value, json};

use super::payload::{MIN, Payload};
use super::persistent::{self, Publishing, StoreArgs};
use super::queue::{self, QueueArgs};
use super::round_trip::RoundTrips;
use super::schedule::{BURST, Schedule};
use super::topic_args::{self, Idle, TopicArgs};
use crate::output::Output;
use crate::table::{self, Column, micros};
use feed::pace::{Pacer, Rate, Shape};
use measure::latency::Latency;
use measure::observer::{End, Observer, id_of};

/// Publishes test messages by LBM at a fixed rate.
///
/// Start `quoteway lbmsub` first, then this: after the test both print what happened, and lbmsub the latencies.
#[derive(Clone, Debug, Parser)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, where backticks would show")]
#[command(name = "lbmpub", after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub common: TopicArgs,

    /// Messages a second, over all topics in turn: 50000, 50k, 1.5M, or max
    #[arg(long, value_name = "RATE", default_value = "1000")]
    pub rate: Rate,

    /// Bytes of a message, at least 16
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    pub payload: usize,

    /// How long to send
    #[arg(long, value_name = "S", default_value_t = 30.0)]
    pub seconds: f64,

    /// Send so many messages instead
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,

    /// How messages travel
    #[arg(long, value_name = "TRANSPORT", default_value = "lbtrm", value_parser = ["lbtrm", "lbtru", "tcp", "lbtipc"])]
    pub transport: String,

    /// Advertise the topics so long before the first message, so that subscribers can find them
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub lead_in: f64,

    /// Stay until so long after the last retransmission
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    pub linger: f64,

    /// A second is short if it had so many percent fewer messages than it should; three in a row fail the test
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub tolerance: f64,

    /// Hot failover: messages have numbers by this host's clock, so that several publishers of one rate send the same ones and stand in for each
    /// other; receive with `lbmsub -H`
    #[arg(short = 'H', long, conflicts_with_all = ["ping", "count"])]
    pub hot_failover: bool,

    /// Measure round trips: `lbmsub --pong` sends every message back. With --rate max, one message at a time
    #[arg(long)]
    pub ping: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub stores: StoreArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub queue: QueueArgs,

    /// Round trips of the first so many seconds are left out
    #[arg(long, value_name = "S", default_value_t = 0.5)]
    pub warm_up: f64,
}

const EXAMPLES: &str = "\
Examples (each in a second terminal, or on another host, after quoteway lbmsub):
  quoteway lbmpub                                            1,000 messages of 64 bytes a second, by multicast
  quoteway lbmpub --rate 125k --payload 1024 --idle spin     the reports' latency test
  quoteway lbmpub --profile throughput --rate 860k           the reports' throughput test
  quoteway lbmpub --transport lbtipc --rate max --seconds 5  shared memory, as fast as it goes
  quoteway lbmsub --pong    and    quoteway lbmpub --ping --rate max --idle yield
  quoteway lbmsub -H        and    quoteway lbmpub -H --rate 10k, several of them: kill one
  quoteway lbmpub --store 127.0.0.1:14567 --session-id 1     to a store (quoteway lbmstore); the next run goes on behind it
  quoteway lbmpub --application-sets 0:10    to several quoteway lbmsub --receiver-type 10, each message to one of them
  quoteway lbmpub --options lbm.cfg -o 'context resolver_multicast_interface 10.1.0.0/16'

The rate is a schedule: message n is due n/RATE seconds after the first, whatever happened before. Latency counts from there, \
so that a stall is seen in every message that it delayed. lbmpub fails if three seconds in a row were short of the rate.";

/// What is printed each second.
const COLUMNS: &[Column] = &[
    ("seconds", 8),
    ("msg/s", 11),
    ("target/s", 11),
    ("blocked", 9),
    ("late 50%", 9),
    ("late 99%", 10),
    ("late max", 10),
    ("NAKs", 8),
    ("repairs", 9),
];

const SECOND: u64 = 1_000_000_000;
/// Closer than this a message is waited for without sleeping: a wake-up takes about as long.
const NEAR_NS: u64 = 60_000;

/// Sends, and reports.
///
/// # Errors
/// A text for the user: bad options, no sockets, or the rate was not kept.
pub fn run(args: &Args) -> anyhow::Result<()> {
    net::signal::install()?;
    let mut out = Output::default();
    let (result, outcome) = test(args, &mut out)?;
    out.line(&result.to_string());
    outcome.and_then(|()| out.finish())
}

/// Runs a test; gives its result and whether it was kept to.
///
/// # Errors
/// It could not be run at all.
pub fn test(args: &Args, out: &mut Output) -> anyhow::Result<(Value, anyhow::Result<()>)> {
    if args.rate == Rate::Stopped {
        return Err(anyhow!("--rate 0 sends nothing: write a rate, or max"));
    }
    if args.hot_failover && args.rate == Rate::Max {
        return Err(anyhow!("-H numbers messages by the clock, at a rate: --rate max has none"));
    }
    if args.payload < MIN {
        return Err(anyhow!("--payload {}: a test message has at least {MIN} bytes", args.payload));
    }
    let mut options = args.common.options(&format!("source transport {}", args.transport))?;
    if args.stores.apply(&mut options)? {
        return test_persistence(args, &options, out);
    }
    if args.queue.apply(&mut options)? {
        return test_queue(args, &options, out);
    }
    let mut context = Context::new(&options)?;
    let mut publisher = Publisher::new(args, &mut context, &options)?;
    topic_args::warn(&mut context);
    args.common.place_thread()?;
    publisher.advertise(&mut context, seconds(args.lead_in))?;
    let short = publisher.send_all(&mut context, out)?;
    publisher.end(&mut context)?;
    publisher.linger(&mut context, seconds(args.linger))?;
    publisher.observer.as_ref().map_or(Ok(()), Observer::finish)?;
    let result = publisher.result(&mut context, short.is_none());
    if !args.common.json {
        publisher.tell(out);
    }
    let lost_trips = publisher.trips.as_ref().map_or(0, RoundTrips::unanswered);
    let outcome = match short {
        Some(text) => Err(anyhow!(text)),
        None if lost_trips > 0 => Err(anyhow!("{lost_trips} messages did not come back")),
        None => Ok(()),
    };
    Ok((result, outcome))
}

fn plan(args: &Args) -> Publishing<'_> {
    Publishing {
        common: &args.common,
        payload: args.payload,
        schedule: Schedule { rate: args.rate, count: args.count, seconds_ns: seconds(args.seconds) },
        linger_ns: seconds(args.linger),
    }
}

/// A test of a source with a queue.
fn test_queue(args: &Args, options: &Options, out: &mut Output) -> anyhow::Result<(Value, anyhow::Result<()>)> {
    if args.ping || args.hot_failover || args.common.topics != 1 || args.common.observe.is_some() {
        return Err(anyhow!("a source with application sets is of one topic, without --ping, -H and --observe"));
    }
    let result = queue::publish(plan(args), args.queue.indices, options, out)?;
    let left = result["in_flight"].as_u64().unwrap_or(0) + result["given_up"].as_u64().unwrap_or(0);
    let text =
        || anyhow!("{left} messages are not consumed: is there an lbmsub --receiver-type for each application set?");
    Ok((result, if left == 0 { Ok(()) } else { Err(text()) }))
}

/// A test of a source with stores.
fn test_persistence(args: &Args, options: &Options, out: &mut Output) -> anyhow::Result<(Value, anyhow::Result<()>)> {
    if args.ping || args.hot_failover || args.common.topics != 1 || args.common.observe.is_some() {
        return Err(anyhow!("a source with stores is of one topic, without --ping, -H and --observe"));
    }
    let result = persistent::publish(plan(args), options, out)?;
    let left = result["in_flight"].as_u64().unwrap_or(0) + result["not_stable"].as_u64().unwrap_or(0);
    let outcome = if left == 0 { Ok(()) } else { Err(anyhow!("{left} messages are not stable")) };
    Ok((result, outcome))
}

fn seconds(s: f64) -> u64 {
    (s.max(0.0) * SECOND as f64) as u64
}

/// A publisher in a test.
struct Publisher<'a> {
    args: &'a Args,
    sources: Vec<SourceId>,
    /// Messages of each topic.
    counts: Vec<u32>,
    payload: Vec<u8>,
    flags: SendFlags,
    observer: Option<Observer>,
    trips: Option<RoundTrips>,
    numbering: Option<Numbering>,
    /// How late messages were handed over.
    late: Latency,
    late_now: Latency,
    sent: u64,
    blocked: u64,
    began: u64,
    ended: u64,
}

/// Listens for replies only.
struct Nothing;

impl Events for Nothing {
    fn message(&mut self, _: &mut Sources, _: &Delivery<'_>) {}
}

impl<'a> Publisher<'a> {
    fn new(args: &'a Args, context: &mut Context, options: &Options) -> anyhow::Result<Self> {
        let mut sources = Vec::new();
        for name in args.common.names() {
            sources.push(context.source(&name, options).map_err(|e| anyhow!("{name}: {e}"))?);
            if args.ping {
                let pong = format!("{name}.pong");
                context.receiver(&pong, options).map_err(|e| anyhow!("{pong}: {e}"))?;
            }
        }
        let at_once = options.get(SourceOption::IMPLICIT_BATCHING_MINIMUM_LENGTH) <= 1 || args.ping;
        Ok(Self {
            counts: vec![0; sources.len()],
            sources,
            payload: vec![0; args.payload],
            flags: if at_once { SendFlags::NONBLOCK | SendFlags::FLUSH } else { SendFlags::NONBLOCK },
            observer: args.common.observer(End::Sender)?,
            trips: args.ping.then(|| RoundTrips::new(args.common.observe_capacity.min(1 << 22), seconds(args.warm_up))),
            numbering: None,
            late: Latency::new(),
            late_now: Latency::new(),
            sent: 0,
            blocked: 0,
            began: 0,
            ended: 0,
            args,
        })
    }

    fn turn(&mut self, context: &mut Context, wait: Duration) -> anyhow::Result<()> {
        let done = match &mut self.trips {
            Some(trips) => context.poll(Some(wait), trips),
            None => context.poll(Some(wait), &mut Nothing),
        };
        done.map(|_| ()).map_err(|e| anyhow!("the context broke: {e}"))
    }

    fn advertise(&mut self, context: &mut Context, long: u64) -> anyhow::Result<()> {
        let until = net::clock::now() + long;
        loop {
            let left = until.saturating_sub(net::clock::now());
            if left == 0 || net::signal::stop_requested() > 0 {
                return Ok(());
            }
            self.turn(context, Duration::from_nanos(left.min(SECOND / 10)))?;
        }
    }

    /// Sends by the schedule. Gives a text if the rate was not kept.
    fn send_all(&mut self, context: &mut Context, out: &mut Output) -> anyhow::Result<Option<String>> {
        self.began = net::clock::now();
        if let (true, Rate::PerSecond(rate)) = (self.args.hot_failover, self.args.rate) {
            let numbering = Numbering::from(self.began, rate, self.sources.len() as u64);
            self.began = numbering.due(0);
            self.numbering = Some(numbering);
        }
        let mut pacer = Pacer::new(Shape::Smooth, self.args.rate, self.began);
        let mut watch = RateWatch::new(self.args, self.began);
        if !self.args.common.json {
            out.line(&table::heading(COLUMNS));
        }
        let (count, until) = self.end_of_schedule();
        let mut short = None;
        loop {
            let now = net::clock::now();
            if now >= until || self.sent >= count || net::signal::stop_requested() > 0 || out.is_gone() {
                break;
            }
            let due = self.due(&pacer, now).min(count - self.sent);
            let blocked = self.send_some(context, &mut pacer, due.min(BURST), now)?;
            if watch.is_over(now) {
                let sent_before = watch.sent;
                short = watch.second(now, self.sent);
                if !self.args.common.json {
                    self.tell_second(context, out, now, sent_before);
                }
                if short.is_some() {
                    break;
                }
            }
            let wait = if due > BURST && !blocked { Duration::ZERO } else { self.wait(&pacer, blocked) };
            self.turn(context, wait)?;
        }
        self.ended = net::clock::now();
        Ok(short)
    }

    /// How many messages there are to be, and when to stop at the latest: a sender that is late has a hundredth more time for the
    /// last ones of its schedule.
    fn end_of_schedule(&self) -> (u64, u64) {
        match (self.args.count, self.args.rate) {
            (Some(count), _) => (count, u64::MAX),
            (None, Rate::PerSecond(rate)) => {
                let count = (rate * self.args.seconds.max(0.0)).round() as u64;
                (count, self.began + seconds(self.args.seconds * 1.01))
            }
            (None, _) => (u64::MAX, self.began + seconds(self.args.seconds)),
        }
    }

    /// Messages that are to go now. Round trips without a rate: one at a time.
    fn due(&mut self, pacer: &Pacer, now: u64) -> u64 {
        match (&mut self.trips, pacer.rate()) {
            (Some(trips), Rate::Max) => u64::from(trips.is_idle(now)),
            _ => pacer.due(now),
        }
    }

    fn wait(&self, pacer: &Pacer, blocked: bool) -> Duration {
        let now = net::clock::now();
        let next = match (&self.trips, pacer.rate()) {
            (Some(_), Rate::Max) => now + SECOND / 100,
            _ if blocked => now + 50_000,
            _ => pacer.next(now).unwrap_or(now + SECOND / 10),
        };
        let left = next.saturating_sub(now);
        match self.args.common.idle {
            Idle::Block if blocked => Duration::from_nanos(left),
            Idle::Block if left > NEAR_NS => Duration::from_nanos((left - NEAR_NS).min(SECOND / 10)),
            Idle::Yield => {
                std::thread::yield_now();
                Duration::ZERO
            }
            Idle::Block | Idle::Spin => Duration::ZERO,
        }
    }

    /// Sends up to `due` messages; whether the session took no more.
    fn send_some(&mut self, context: &mut Context, pacer: &mut Pacer, due: u64, now: u64) -> anyhow::Result<bool> {
        for _ in 0..due {
            let topic = (self.sent % self.sources.len() as u64) as usize;
            let intended = match &self.numbering {
                Some(numbering) => numbering.due(self.sent),
                None => pacer.next(now).unwrap_or(now),
            };
            let mark = self.numbering.as_ref().map(|numbering| numbering.number(self.sent));
            let number = mark.map_or(self.counts[topic], Numbering::in_payload);
            if let Some(head) = self.payload.first_chunk_mut() {
                Payload::Message { number, topic: topic as u32, intended }.write(head);
            }
            if let Some(observer) = &mut self.observer {
                observer.sent(id_of(topic as u32, number), intended);
            }
            let (source, flags) = (self.sources[topic], self.flags);
            let done = match mark {
                Some(number) => context.sources().send_failover(source, Mark::new(number), &self.payload, flags),
                None => context.send(source, &self.payload, flags),
            };
            match done {
                Ok(_) => {}
                Err(SendError::WouldBlock) => {
                    self.blocked += 1;
                    if let Some(observer) = &mut self.observer {
                        observer.refused(id_of(topic as u32, number));
                    }
                    return Ok(true);
                }
                Err(error) => return Err(anyhow!("a message was not sent: {error}")),
            }
            if let Some(trips) = &mut self.trips {
                trips.sent(now, intended);
            }
            // Without a schedule nothing is late.
            if self.args.rate != Rate::Max {
                self.late_now.record(now.saturating_sub(intended));
            }
            pacer.skip(1);
            self.counts[topic] = self.counts[topic].wrapping_add(1);
            self.sent += 1;
        }
        Ok(false)
    }

    fn tell_second(&mut self, context: &mut Context, out: &mut Output, now: u64, sent_before: u64) {
        let late = self.late_now.summary();
        let (naks, repairs) = repairs(context);
        let elapsed = (now - self.began) as f64 / SECOND as f64;
        let target = match self.args.rate {
            Rate::PerSecond(rate) => format!("{rate:.0}"),
            Rate::Max => "max".to_owned(),
            Rate::Stopped => "0".to_owned(),
        };
        out.line(&table::row(
            COLUMNS,
            [
                format!("{elapsed:.1}"),
                (self.sent - sent_before).to_string(),
                target,
                self.blocked.to_string(),
                micros(late.p50_us),
                micros(late.p99_us),
                micros(late.max_us),
                naks.to_string(),
                repairs.to_string(),
            ],
        ));
        self.late.add(&self.late_now);
        self.late_now.clear();
    }

    /// Tells every topic's subscribers how many messages it had.
    fn end(&mut self, context: &mut Context) -> anyhow::Result<()> {
        self.late.add(&self.late_now);
        self.late_now.clear();
        for (topic, source) in self.sources.iter().enumerate() {
            let mut bytes = [0; MIN];
            Payload::End { topic: topic as u32, count: u64::from(self.counts[topic]) }.write(&mut bytes);
            context.send(*source, &bytes, SendFlags::FLUSH).map_err(|e| anyhow!("the end was not sent: {e}"))?;
        }
        Ok(())
    }

    /// Answers NAKs until nobody has asked for so long.
    fn linger(&mut self, context: &mut Context, quiet: u64) -> anyhow::Result<()> {
        let mut last = net::clock::now();
        let mut seen = repairs(context);
        while net::clock::now() < last + quiet && net::signal::stop_requested() < 2 {
            self.turn(context, Duration::from_millis(50))?;
            let now = repairs(context);
            if now != seen {
                (seen, last) = (now, net::clock::now());
            }
        }
        Ok(())
    }

    fn seconds(&self) -> f64 {
        (self.ended - self.began).max(1) as f64 / SECOND as f64
    }

    fn result(&self, context: &mut Context, kept: bool) -> Value {
        let late = self.late.summary();
        let (naks, repairs) = repairs(context);
        let session = self.sources.first().and_then(|s| context.sources().transport(*s)).map(ToString::to_string);
        let mut result = json!({
            "tool": "lbmpub", "session": session, "topics": self.sources.len(), "payload": self.args.payload,
            "sent": self.sent, "seconds": self.seconds(), "rate": self.sent as f64 / self.seconds(),
            "target": match self.args.rate { Rate::PerSecond(rate) => json!(rate), _ => json!("max") },
            "rate_kept": kept, "blocked": self.blocked, "naks": naks, "retransmissions": repairs,
            "late_us": {"median": late.p50_us, "p99": late.p99_us, "max": late.max_us},
        });
        if let Some(trips) = &self.trips {
            result["round_trip_us"] = trips.json();
            result["unanswered"] = trips.unanswered().into();
        }
        result
    }

    fn tell(&self, out: &mut Output) {
        let mega = self.sent as f64 * self.args.payload as f64 * 8.0 / 1e6 / self.seconds();
        out.line(&format!(
            "\n{} messages in {:.3} s: {:.0} a second, {mega:.1} Mbit/s of payload",
            self.sent,
            self.seconds(),
            self.sent as f64 / self.seconds()
        ));
        if let Some(trips) = &self.trips {
            out.line(&trips.table());
        }
    }
}

/// Numbers by the clock: message n of all times is due n / rate seconds after the clock's zero, and topics take turns.
#[derive(Clone, Copy, Debug)]
struct Numbering {
    rate: f64,
    topics: u64,
    /// The first message of this publisher, of topic 0.
    first: u64,
}

impl Numbering {
    fn from(now: u64, rate: f64, topics: u64) -> Self {
        let next = (now as f64 * rate / SECOND as f64).ceil() as u64;
        Self { rate, topics, first: next.div_ceil(topics) * topics }
    }

    /// When message `sent` of this publisher is due: the same for every publisher that sends it.
    fn due(&self, sent: u64) -> u64 {
        ((self.first + sent) as f64 * SECOND as f64 / self.rate) as u64
    }

    /// Its number within its topic.
    fn number(&self, sent: u64) -> Number {
        Number::Bits64((self.first + sent) / self.topics)
    }

    /// The number as test messages have it: all ones is the end of the test.
    fn in_payload(number: Number) -> u32 {
        (number.value() % u64::from(u32::MAX)) as u32
    }
}

/// Numbers that receivers asked for, and datagrams that were sent again, of all sessions.
fn repairs(context: &mut Context) -> (u64, u64) {
    let stats = context.stats();
    stats.sending.iter().fold((0, 0), |(naks, repairs), s| (naks + s.sent.naks, repairs + s.sent.retransmissions))
}

/// Checks each second whether the rate was kept.
struct RateWatch {
    target: f64,
    tolerance: f64,
    at: u64,
    sent: u64,
    in_a_row: u32,
}

/// Short seconds in a row that fail a test, as in the reports.
const SHORT_SECONDS: u32 = 3;

impl RateWatch {
    fn new(args: &Args, now: u64) -> Self {
        let target = match args.rate {
            Rate::PerSecond(rate) => rate,
            Rate::Max | Rate::Stopped => 0.0,
        };
        Self { target, tolerance: args.tolerance / 100.0, at: now, sent: 0, in_a_row: 0 }
    }

    fn is_over(&self, now: u64) -> bool {
        now >= self.at + SECOND
    }

    /// A second is over. A text if it was the third short one.
    fn second(&mut self, now: u64, sent: u64) -> Option<String> {
        let rate = (sent - self.sent) as f64 * SECOND as f64 / (now - self.at) as f64;
        (self.at, self.sent) = (now, sent);
        let is_short = rate < self.target * (1.0 - self.tolerance) - 1.0;
        self.in_a_row = if is_short { self.in_a_row + 1 } else { 0 };
        (self.in_a_row == SHORT_SECONDS).then(|| {
            format!(
                "the rate was short {SHORT_SECONDS} seconds in a row: {rate:.0} of {:.0} messages a second",
                self.target
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Publishers that were started at different times send the same under one number.
    #[test]
    fn numbers_go_by_the_clock() {
        let (a, b) = (Numbering::from(1_000_000_007, 3_000.0, 7), Numbering::from(1_500_000_000, 3_000.0, 7));
        let behind = b.first - a.first;
        assert!(a.first.is_multiple_of(7) && behind.is_multiple_of(7) && behind > 1_400, "{a:?} {b:?}");
        for sent in 0..100 {
            assert_eq!((a.due(sent + behind), a.number(sent + behind)), (b.due(sent), b.number(sent)));
        }
        assert!(a.due(0) >= 1_000_000_007 && a.due(0) < 1_004_000_000);
        assert_eq!(Numbering::in_payload(Number::Bits64(u64::from(u32::MAX) + 3)), 3);
    }

    #[test]
    fn three_short_seconds_in_a_row_fail_a_test() {
        let args = Args::parse_from(["lbmpub", "--rate", "1000"]);
        let mut watch = RateWatch::new(&args, 0);
        assert!(!watch.is_over(SECOND - 1) && watch.is_over(SECOND));
        let mut sent = 0;
        for (second, count) in [900, 980, 995, 900, 900].into_iter().enumerate() {
            sent += count;
            assert_eq!(watch.second((second as u64 + 1) * SECOND, sent), None);
        }
        assert!(watch.second(6 * SECOND, sent + 900).is_some_and(|t| t.contains("900 of 1000")));
        let max = Args::parse_from(["lbmpub", "--rate", "max"]);
        let mut watch = RateWatch::new(&max, 0);
        assert!((1..=9).all(|s| watch.second(s * SECOND, 0).is_none()));
    }
}
