//! A run: `quoteway feed` of an exchange's line as a process of its own, consumers of it, and what came of both.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use measure::latency::Latency;
use measure::process::{Fault, Process};
use serde_json::Value;

use super::exchange::{Exchange, Script, free_address};
use super::watcher::{self, Seen, Standing};

const SECOND: u64 = 1_000_000_000;

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Messages a second.
    pub(crate) rate: u64,
    pub(crate) seconds: u64,
    pub(crate) stocks: u16,
    /// Stocks whose books by price are watched, those with the most traffic first.
    pub(crate) watched: u16,
    /// Lines that bring each packet.
    pub(crate) lines: usize,
    /// Seconds that anything is waited for at most.
    pub(crate) patience_s: u64,
}

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) sent: u64,
    /// From the first measured message to the last.
    pub(crate) took_s: f64,
    /// What the feed says of itself at the end (`/api/v1/feeds`).
    pub(crate) feed: Value,
    pub(crate) seen: Seen,
    pub(crate) updates: u64,
    /// From the last message sent until the consumer had it.
    pub(crate) behind_s: f64,
    /// Bytes of the process's memory each half second of the run, and at its end.
    pub(crate) resident: Vec<u64>,
    /// Seconds of processor that the process used, of `took_s`.
    pub(crate) cpu_s: f64,
}

impl Outcome {
    /// What is lost or grows, for people; nothing if all is well. `growth` is what the memory of the process may grow by from the middle of the run on.
    pub(crate) fn faults(&self, growth: u64) -> Vec<String> {
        let number = |key: &str| self.feed[key].as_u64().unwrap_or(u64::MAX);
        let mut faults = Vec::new();
        let mut is = |holds: bool, what: String| {
            if !holds {
                faults.push(what);
            }
        };
        is(number("messages") == self.sent, format!("{} messages applied of {}", number("messages"), self.sent));
        for key in ["gaps", "lost", "dropped"] {
            is(number(key) == 0, format!("{key}: {}", number(key)));
        }
        is(self.feed["suspect"] == false, "the feed is Suspect".to_owned());
        is(self.feed["bad"].as_object().is_some_and(serde_json::Map::is_empty), format!("bad: {}", self.feed["bad"]));
        let seen = &self.seen;
        is(seen.trouble.is_none(), format!("the consumer: {:?}", seen.trouble));
        let lost = (seen.missing, seen.unnumbered, seen.suspect);
        is(lost == (0, 0, 0), format!("updates missing, without a number, states Suspect: {lost:?}"));
        is(seen.measured > 0, "no update was measured".to_owned());
        let middle = self.resident.get(self.resident.len() / 2).copied().unwrap_or(0);
        let end = self.resident.last().copied().unwrap_or(u64::MAX);
        is(end <= middle.saturating_add(growth), format!("memory grew from {middle} to {end} bytes"));
        faults
    }
}

/// Runs a plan with this program.
pub(crate) fn run(program: &Path, plan: &Plan) -> Result<Outcome, Fault> {
    let io = |e: std::io::Error| Fault::Failed(e.to_string());
    let script = Script::new(plan.stocks, (plan.rate * plan.seconds) as usize, plan.rate);
    let names: Vec<String> = script.names().take(usize::from(plan.watched)).collect();
    let mut lines = Vec::new();
    while lines.len() < plan.lines {
        let line = free_address().map_err(io)?;
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let site: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let mut command = Command::new(program);
    command.args(["feed", &format!("mold:{}", site.join(",")), "--serve", "--interface", "127.0.0.1"]);
    command.args(["--rssl-port", "0", "--nip-port", "0", "--http-port", "0"]);
    let mut feed = Process::start("quoteway feed", &mut command)?;
    let ready = feed.wait_for("ready ", plan.patience_s as f64)?.text;
    let (port, web) = (address_of(&ready, "rssl=")?, address_of(&ready, "http=http://")?);

    let mut exchange = Exchange::new(script, lines).map_err(io)?;
    let opening = exchange.script().opening();
    exchange.send_until(opening, plan.rate.min(100_000), |_| {}).map_err(io)?;
    let standing = Arc::new(Standing::default());
    let watcher = watcher::start(port, &names, Arc::clone(&standing));
    let outcome = measured(plan, &mut exchange, &feed, web, &standing);
    standing.is_over.store(true, Ordering::Release);
    let seen = watcher.join().map_err(|_| Fault::from("the consumer's thread has failed"))?.map_err(io)?;
    match (outcome, &seen.trouble) {
        (Err(fault), Some(trouble)) => Err(Fault::Failed(format!("{fault}; the consumer: {trouble}"))),
        (outcome, _) => outcome.map(|outcome| Outcome { seen, ..outcome }),
    }
}

/// The part of a run that counts, once the consumer has its images.
fn measured(
    plan: &Plan,
    exchange: &mut Exchange,
    feed: &Process,
    web: SocketAddr,
    standing: &Standing,
) -> Result<Outcome, Fault> {
    let io = |e: std::io::Error| Fault::Failed(e.to_string());
    let watched = u64::from(plan.watched);
    wait(plan, "images", exchange, || Ok(standing.images.load(Ordering::Acquire) == watched))?;
    standing.is_measured.store(true, Ordering::Release);
    let (begin, cpu, mut resident) = (net::clock::now(), feed.cpu(), Vec::new());
    let (mut next, total) = (begin, exchange.script().len());
    exchange
        .send_until(total, plan.rate, |_| {
            if net::clock::now() >= next {
                next += SECOND / 2;
                resident.extend(feed.resident());
            }
        })
        .map_err(io)?;
    let sent_at = net::clock::now();
    wait(plan, "the last order of each book", exchange, || Ok(standing.ended.load(Ordering::Acquire) == watched))?;
    let had_at = net::clock::now();
    resident.extend(feed.resident());
    let used = feed.cpu().zip(cpu).map_or(0, |(after, before)| after - before);
    let mut told = Value::Null;
    let came = wait(plan, "all messages", exchange, || {
        told = figures(web)?;
        Ok(told["messages"].as_u64() >= Some(total as u64))
    });
    came.map_err(|fault| Fault::Failed(format!("{fault}, by the feed's figures: {told}")))?;
    Ok(Outcome {
        sent: total as u64,
        took_s: (sent_at - begin) as f64 / 1e9,
        feed: told,
        seen: Seen::default(),
        updates: standing.updates.load(Ordering::Relaxed),
        behind_s: (had_at - sent_at) as f64 / 1e9,
        resident,
        cpu_s: used as f64 / 1e9,
    })
}

/// Waits until it holds, and lets the exchange say meanwhile how far it is, as it does when it has nothing to send.
fn wait(
    plan: &Plan,
    what: &str,
    exchange: &mut Exchange,
    mut holds: impl FnMut() -> Result<bool, Fault>,
) -> Result<(), Fault> {
    let end = net::clock::now() + plan.patience_s * SECOND;
    while !holds()? {
        if net::clock::now() > end {
            return Err(Fault::Failed(format!("{what} did not come within {} s", plan.patience_s)));
        }
        exchange.beat().map_err(|e| Fault::Failed(e.to_string()))?;
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn address_of(ready: &str, key: &str) -> Result<SocketAddr, Fault> {
    let word = ready.split(key).nth(1).and_then(|rest| rest.split([' ', '/']).next());
    let address = word.and_then(|word| word.parse().ok());
    address.ok_or_else(|| Fault::Failed(format!("no {key} in {ready}")))
}

/// How the feed stands, as the server says.
fn figures(web: SocketAddr) -> Result<Value, Fault> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(web)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET /api/v1/feeds HTTP/1.1\r\nHost: {web}\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = ask().map_err(|e| Fault::Failed(format!("{web}: {e}")))?;
    let body = answer.find('[').zip(answer.rfind(']')).map(|(from, to)| &answer[from..=to]);
    let feeds: Option<Value> = body.and_then(|body| serde_json::from_str(body).ok());
    feeds.map(|feeds| feeds[0].clone()).ok_or_else(|| Fault::Failed(format!("{web} answers {answer}")))
}

/// Medians by second, in microseconds.
pub(crate) fn medians(seconds: &[Latency]) -> Vec<f64> {
    seconds.iter().map(|second| second.summary().p50_us).collect()
}
