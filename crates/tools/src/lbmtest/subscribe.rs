//! `quoteway lbmsub`.

use anyhow::anyhow;
use std::time::Duration;

use clap::Parser;
use lbm_io::Context;
use lbm_io::options::{Options, Scope};
use serde_json::{Value, json};

use super::persistent::{self, Subscribing};
use super::queue;
use super::tally::{Tally, distribution_json, distribution_table};
use super::topic_args::{self, Idle, TopicArgs};
use crate::output::Output;
use crate::table::{self, Column, micros};
use measure::observer::{End, Observer};

/// Receives the messages of lbmpub and measures them.
///
/// Ends when the publisher has, and fails if anything was lost. Without an argument it finds the publisher by multicast on this
/// network; the transport is what the publisher chose.
#[derive(Clone, Debug, Parser)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, where backticks would show")]
#[command(name = "lbmsub", after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub common: TopicArgs,

    /// Receive all topics that match this pattern (Perl-compatible) instead of --topic
    #[arg(long, value_name = "PATTERN")]
    pub pattern: Option<String>,

    /// Hot failover: each number once, from several `lbmpub -H`; ends when none is left
    #[arg(short = 'H', long, conflicts_with_all = ["pattern", "pong", "sources"])]
    pub hot_failover: bool,

    /// Publishers to wait for: ends when so many have ended
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub sources: u32,

    /// End after so long, whatever happens; 0 waits for the publisher
    #[arg(long, value_name = "S", default_value_t = 0.0)]
    pub seconds: f64,

    /// Wait so long for what is missing once the publisher has ended
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub patience: f64,

    /// Send every message back, on the topic NAME.pong: for lbmpub --ping
    #[arg(long)]
    pub pong: bool,

    /// How messages are sent back
    #[arg(long, value_name = "TRANSPORT", default_value = "lbtrm", value_parser = ["lbtrm", "lbtru", "tcp", "lbtipc"])]
    pub transport: String,

    /// Receive from stores what was missed, for a publisher with --store: the number by which stores know this program when it is started
    /// again; 0 is nobody in particular, who gets all that they hold
    #[arg(long, value_name = "N", conflicts_with_all = ["hot_failover", "pong", "pattern"])]
    pub session_id: Option<u64>,

    /// Consume messages of a publisher with --application-sets that it assigns to this subscriber: the receiver type, by which the publisher
    /// knows the application set
    #[arg(long, value_name = "TYPE", conflicts_with_all = ["hot_failover", "pong", "pattern", "session_id"])]
    pub receiver_type: Option<u32>,

    /// Count messages from before the first one that came as lost
    #[arg(long)]
    pub strict: bool,

    /// Take the latency of one of so many messages
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub latency_every: u32,

    /// Latencies for which memory is taken before the test
    #[arg(long, value_name = "N", default_value_t = 4_000_000)]
    pub capacity: usize,
}

const EXAMPLES: &str = "\
Examples:
  quoteway lbmsub                              then, in another terminal: quoteway lbmpub
  quoteway lbmsub --idle spin --cpus 1         does not sleep: the reports' latency test
  quoteway lbmsub --profile throughput         with quoteway lbmpub --profile throughput --rate 500k
  quoteway lbmsub --pattern '^quoteway\\.'      every topic that begins so
  quoteway lbmsub -H                           for several quoteway lbmpub -H: kill one
  quoteway lbmsub --pong                       for quoteway lbmpub --ping
  quoteway lbmsub --receiver-type 10           for quoteway lbmpub --application-sets 0:10; start several
  quoteway lbmsub --session-id 2               for quoteway lbmpub --store: stopped and started again, it goes on where it was
  quoteway lbmsub -o 'receiver transport_lbtrm_nak_backoff_interval 20'

Latencies are from the intended time in the message to the callback, on one clock: between hosts they mean nothing, and are \
left out where they would be negative. Exit status 0: everything came.";

/// What is printed each second.
const COLUMNS: &[Column] = &[
    ("seconds", 8),
    ("msg/s", 11),
    ("Mbit/s", 9),
    ("median us", 10),
    ("99% us", 10),
    ("max us", 10),
    ("lost", 7),
    ("NAKs", 8),
    ("repaired", 9),
    ("dropped", 8),
];

const SECOND: u64 = 1_000_000_000;

/// Receives, and reports.
///
/// # Errors
/// A text for the user: bad options, no sockets, or something was lost.
pub fn run(args: &Args) -> anyhow::Result<()> {
    net::signal::install()?;
    let mut out = Output::default();
    let (result, outcome) = test(args, &mut out)?;
    out.line(&result.to_string());
    outcome.and_then(|()| out.finish())
}

/// Runs a test; gives its result and whether everything came.
///
/// # Errors
/// It could not be run at all.
pub fn test(args: &Args, out: &mut Output) -> anyhow::Result<(Value, anyhow::Result<()>)> {
    let mut options = args.common.options(&format!("source transport {}", args.transport))?;
    if let Some(session) = args.session_id {
        options.set(Scope::Receiver, "ume_session_id", &session.to_string())?;
        return test_persistence(args, &options, out);
    }
    if let Some(receiver_type) = args.receiver_type {
        return test_queue(args, receiver_type, &options, out);
    }
    let mut context = Context::new(&options)?;
    let mut tally = Tally::new(args.capacity, args.latency_every, args.common.observer(End::Receiver)?);
    tally.is_failover = args.hot_failover;
    let mut expected = args.sources as usize;
    if let Some(pattern) = &args.pattern {
        if args.pong {
            return Err(anyhow!("--pong needs --topic: a pattern would match its own answers"));
        }
        context.wildcard(pattern, &options).map_err(|e| anyhow!("{pattern}: {e}"))?;
    } else {
        for name in args.common.names() {
            let receiver = if args.hot_failover { Context::failover_receiver } else { Context::receiver };
            receiver(&mut context, &name, &options).map_err(|e| anyhow!("{name}: {e}"))?;
            if args.pong {
                let pong = format!("{name}.pong");
                tally.pongs.push(context.source(&pong, &options).map_err(|e| anyhow!("{pong}: {e}"))?);
            }
        }
        expected *= args.common.topics as usize;
    }
    args.common.place_thread()?;
    let mut subscriber = Subscriber { args, context, tally, expected, began: net::clock::now() };
    topic_args::warn(&mut subscriber.context);
    if !args.common.json {
        out.line("ready");
    }
    subscriber.receive(out)?;
    subscriber.tally.observer.as_ref().map_or(Ok(()), Observer::finish)?;
    if !args.common.json {
        subscriber.tell(out);
    }
    let result = subscriber.result();
    Ok((result, subscriber.outcome()))
}

/// A test of a receiver to which messages are assigned.
fn test_queue(
    args: &Args,
    receiver_type: u32,
    options: &Options,
    out: &mut Output,
) -> anyhow::Result<(Value, anyhow::Result<()>)> {
    if args.common.topics != 1 || args.common.observe.is_some() {
        return Err(anyhow!("--receiver-type is for one topic, without --observe"));
    }
    let plan = Subscribing { common: &args.common, sources: args.sources, seconds_ns: nanos(args.seconds) };
    let result = queue::subscribe(&plan, receiver_type, options, out)?;
    let registered = result["registered"].as_u64().unwrap_or(0);
    let refused =
        || Err(anyhow!("no publisher has taken this receiver: has it --application-sets with type {receiver_type}?"));
    Ok((result, if registered > 0 { Ok(()) } else { refused() }))
}

/// A test of a receiver that gets from stores what it has missed.
fn test_persistence(args: &Args, options: &Options, out: &mut Output) -> anyhow::Result<(Value, anyhow::Result<()>)> {
    if args.common.topics != 1 || args.common.observe.is_some() {
        return Err(anyhow!("--session-id is for one topic, without --observe"));
    }
    let plan = Subscribing { common: &args.common, sources: args.sources, seconds_ns: nanos(args.seconds) };
    let result = persistent::subscribe(&plan, options, out)?;
    let lost = result["lost"].as_u64().unwrap_or(0);
    let outcome = if lost == 0 { Ok(()) } else { Err(anyhow!("{lost} messages are lost: no store has them")) };
    Ok((result, outcome))
}

struct Subscriber<'a> {
    args: &'a Args,
    context: Context,
    tally: Tally,
    /// Streams that are to end.
    expected: usize,
    began: u64,
}

impl Subscriber<'_> {
    fn receive(&mut self, out: &mut Output) -> anyhow::Result<()> {
        let limit = if self.args.seconds > 0.0 { self.began + nanos(self.args.seconds) } else { u64::MAX };
        let (mut next, mut messages, mut bytes) = (self.began + SECOND, 0, 0);
        let (mut ended_at, mut changes) = (None, 0);
        let mut has_heading = self.args.common.json;
        loop {
            let wait = match self.args.common.idle {
                Idle::Block => Duration::from_millis(50),
                Idle::Yield | Idle::Spin => Duration::ZERO,
            };
            let delivered =
                self.context.poll(Some(wait), &mut self.tally).map_err(|e| anyhow!("the context broke: {e}"))?;
            if delivered == 0 && self.args.common.idle == Idle::Yield {
                std::thread::yield_now();
            }
            let now = net::clock::now();
            if now >= next {
                topic_args::warn(&mut self.context);
                if self.tally.messages > 0 && !std::mem::replace(&mut has_heading, true) {
                    out.line(&table::heading(COLUMNS));
                }
                let seconds = (now - next + SECOND) as f64 / SECOND as f64;
                let (m, b) = (self.tally.messages - messages, self.tally.bytes - bytes);
                if !self.args.common.json && (m > 0 || ended_at.is_none() && self.tally.messages > 0) {
                    self.tell_second(out, now, (m as f64 / seconds, b as f64 / seconds));
                }
                (messages, bytes, next) = (self.tally.messages, self.tally.bytes, now + SECOND);
                self.tally.interval.clear();
            }
            if std::mem::replace(&mut changes, self.tally.changes) != self.tally.changes {
                // A source that was gone may be back.
                ended_at = if self.has_ended() { ended_at.or(Some(now)) } else { None };
            }
            let is_done = ended_at.is_some_and(|at| self.is_settled() || now > at + nanos(self.args.patience));
            if is_done || now >= limit || net::signal::stop_requested() > 0 || out.is_gone() {
                return Ok(());
            }
        }
    }

    fn tell_second(&mut self, out: &mut Output, now: u64, (messages, bytes): (f64, f64)) {
        let latency = self.tally.interval.summary();
        let us = |value: f64| if latency.samples == 0 { "-".to_owned() } else { micros(value) };
        let received = Received::of(&mut self.context);
        out.line(&table::row(
            COLUMNS,
            [
                format!("{:.1}", (now - self.began) as f64 / 1e9),
                format!("{messages:.0}"),
                format!("{:.1}", bytes * 8.0 / 1e6),
                us(latency.p50_us),
                us(latency.p99_us),
                us(latency.max_us),
                self.tally.reported().to_string(),
                received.naks.to_string(),
                received.repaired.to_string(),
                received.dropped.to_string(),
            ],
        ));
    }

    /// Whether all publishers are done. How many topics match a pattern nobody knows: all that were heard, then.
    fn has_ended(&self) -> bool {
        if self.args.hot_failover {
            return self.tally.failover.has_ended();
        }
        let ended = self.tally.ended();
        ended >= self.expected && (self.args.pattern.is_none() || ended == self.tally.all().count())
    }

    fn is_settled(&self) -> bool {
        if self.args.hot_failover { self.tally.failover.is_settled() } else { self.tally.is_settled() }
    }

    fn lost(&self) -> u64 {
        self.tally.lost(self.args.strict)
    }

    fn outcome(&self) -> anyhow::Result<()> {
        let lost = self.lost();
        if self.tally.messages == 0 {
            return Err(anyhow!("nothing came: is the publisher on this network, and multicast not blocked?"));
        }
        if self.tally.failover.differing > 0 {
            return Err(anyhow!("{} copies differ from what was delivered", self.tally.failover.differing));
        }
        if !self.has_ended() && self.args.seconds <= 0.0 {
            return Err(anyhow!("stopped before the publisher had ended; {lost} messages lost until then"));
        }
        if lost > 0 {
            return Err(anyhow!("{lost} messages lost"));
        }
        if self.tally.unsent > 0 {
            return Err(anyhow!("{} messages could not be sent back", self.tally.unsent));
        }
        Ok(())
    }

    fn result(&mut self) -> Value {
        let received = Received::of(&mut self.context);
        let t = &self.tally;
        let seconds = t.seconds();
        let streams: Vec<Value> = t
            .all()
            .take(100)
            .map(|s| {
                json!({
                    "topic": s.topic, "session": s.session, "messages": s.messages, "first": s.first, "sent": s.count,
                    "reported_lost": s.reported, "out_of_order": s.out_of_order,
                })
            })
            .collect();
        let mut result = json!({
            "tool": "lbmsub", "messages": t.messages, "bytes": t.bytes, "seconds": seconds,
            "rate": if seconds > 0.0 { t.messages as f64 / seconds } else { 0.0 },
            "lost": self.lost(), "reported_lost": t.reported(), "not_test_messages": t.foreign,
            "interruptions": t.all().map(|s| s.interruptions).sum::<u64>(),
            "before_first": t.all().map(|s| u64::from(s.first)).sum::<u64>(),
            "out_of_order": t.all().map(|s| s.out_of_order).sum::<u64>(),
            "latency_us": distribution_json(&t.distribution()), "not_observed": t.unobserved,
            "other_clock": t.from_the_future, "naks": received.naks, "repaired": received.repaired,
            "dropped_by_kernel": received.dropped, "streams": streams,
        });
        if self.args.hot_failover {
            let failover = self.context.stats().failover;
            let sum = |of: fn(&lbm_io::failover::Stats) -> u64| failover.iter().map(|f| of(&f.stats)).sum::<u64>();
            result["hot_failover"] = json!({
                "sources": self.tally.failover.begun, "duplicates": sum(|s| s.duplicates),
                "compared": sum(|s| s.compared), "differing": sum(|s| s.differing), "left_out": sum(|s| s.left_out),
            });
        }
        result
    }

    fn tell(&mut self, out: &mut Output) {
        let t = &self.tally;
        let seconds = t.seconds();
        let rate = if seconds > 0.0 { t.messages as f64 / seconds } else { 0.0 };
        let streams = t.all().count();
        out.line(&format!(
            "\n{} messages of {streams} {} in {seconds:.3} s: {rate:.0} a second, {:.1} Mbit/s of payload; {} lost",
            t.messages,
            if streams == 1 { "source" } else { "sources" },
            if seconds > 0.0 { t.bytes as f64 * 8.0 / 1e6 / seconds } else { 0.0 },
            self.lost()
        ));
        let before = t.all().map(|s| u64::from(s.first)).sum::<u64>();
        if before > 0 {
            out.line(&format!("joined late: {before} messages were sent before the first one that came"));
        }
        if t.from_the_future > 0 {
            out.line(&format!(
                "{} messages are from the future: the publisher has another clock, so latencies mean nothing",
                t.from_the_future
            ));
        } else {
            out.line(&distribution_table("latency", &t.distribution()));
        }
        if t.unobserved > 0 {
            out.line(&format!("{} messages came when the memory for latencies was full (--capacity)", t.unobserved));
        }
    }
}

fn nanos(seconds: f64) -> u64 {
    (seconds.max(0.0) * SECOND as f64) as u64
}

/// Counters of all receiving sessions together.
struct Received {
    naks: u64,
    repaired: u64,
    dropped: u64,
}

impl Received {
    fn of(context: &mut Context) -> Self {
        let stats = context.stats();
        let sum = |of: fn(&lbm_io::ReceivingStats) -> u64| stats.receiving.iter().map(of).sum();
        Self { naks: sum(|r| r.received.naks), repaired: sum(|r| r.received.repaired), dropped: stats.dropped }
    }
}
