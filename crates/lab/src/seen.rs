//! The cost of looking at a server: clients stream, and by turns nobody looks, or its metrics, the data of its page and `ctl` are read
//! once a second.

use std::process::{Command, Stdio};

use super::chain::{Chain, Spacing};
use super::images::wait_for_images;
use super::nodes::Nodes;
use super::product;
use super::results::{Metrics, Outcome, Side};
use super::run::Interval;
use super::scenario::{Point, Scenario};
use super::session::{Run, Session};
use measure::process::{Fault, pause};
use measure::stats;
use tools::administration::Client;

/// Seconds of a line of the clients' table: a percentile of so much.
const INTERVAL: f64 = 0.25;
/// Windows, by turns without and with readers.
const WINDOWS: u32 = 6;
const PATIENCE: f64 = 60.0;
/// What the page asks for, once a second.
const PAGE: [&str; 8] = [
    "process",
    "services",
    "providers",
    "clients?limit=200&contains=",
    "items?limit=100&contains=",
    "blocked",
    "hub",
    "events?after=0",
];
/// What `ctl` is asked.
const CTL: [&[&str]; 2] = [&["clients"], &["item", "DIRECT_FEED", "RDT7"]];

/// Seconds that the scenario is expected to take.
pub fn estimate(scenario: &Scenario, pairs: u32) -> f64 {
    (scenario.seconds + scenario.warmup + 10.0) * f64::from(pairs)
}

/// Runs the scenario.
///
/// # Errors
/// The lab was stopped.
pub fn run(session: &mut Session, scenario: &Scenario, outcome: &mut Outcome) -> Result<(), Fault> {
    let Some(Point::Rate(rate)) = scenario.points()?.first().copied() else {
        return Err(Fault::Failed(format!("{} needs one rate, at which the clients stream", scenario.name)));
    };
    let ours: Run<'_> = Box::new(|| once(scenario, rate));
    session.row(outcome, "loaded", vec![(Side::Ours, estimate(scenario, 1), ours)])
}

fn once(scenario: &Scenario, rate: f64) -> Result<Metrics, Fault> {
    let mut chain = Chain::start(scenario, Nodes::loopback(), Spacing::Even, None)?;
    let web = chain.web().ok_or("the server has no page: server_toml has to name http.port = 0")?.to_owned();
    let flags = format!("-I {INTERVAL} --seconds 3600 -l 1");
    let mut clients = chain.client(scenario, &format!("RDT{{0..{}}}", scenario.items - 1), &flags)?;
    wait_for_images(&mut clients, (f64::from(scenario.items) * scenario.fan()).round() as u64)?;
    chain.publish(Some(rate / scenario.fan()))?;
    pause(scenario.warmup)?;

    let mut reader = Reader::new(&web)?;
    let (mut quiet, mut read) = (Vec::new(), Vec::new());
    for window in 0..WINDOWS {
        let (begin, seconds) = (net::clock::now(), scenario.seconds / f64::from(WINDOWS));
        if window % 2 == 0 {
            pause(seconds)?;
            quiet.push((begin, net::clock::now()));
            continue;
        }
        for second in 1..=(seconds.round() as u32).max(1) {
            reader.look()?;
            let passed = net::clock::now().saturating_sub(begin) as f64 / 1e9;
            pause((f64::from(second) - passed).max(0.0))?;
        }
        read.push((begin, net::clock::now()));
    }
    let end = net::clock::now();
    let mut intervals = Vec::new();
    while let Some(line) = clients.next_line(PATIENCE)? {
        intervals.extend(Interval::read(line.at, &line.text).filter(|_| line.is_output));
        if line.at > end {
            break;
        }
    }
    // An interval belongs to the window in which all of it lies.
    let length = (INTERVAL * 1e9) as u64;
    let p99 = |windows: &[(u64, u64)]| -> Vec<f64> {
        let inside = |at: u64| windows.iter().any(|(from, to)| at >= from + length && at <= *to);
        intervals.iter().filter(|i| inside(i.at)).filter_map(|i| i.p99_us).collect()
    };
    compare(&p99(&quiet), &p99(&read), &reader).ok_or_else(|| clients.failed("has too few intervals"))
}

/// One who looks, and how long each answer took: microseconds.
struct Reader {
    web: String,
    client: Client,
    metrics: Vec<f64>,
    page: Vec<f64>,
    ctl: Vec<f64>,
}

impl Reader {
    fn new(web: &str) -> Result<Self, Fault> {
        let target = web.parse().map_err(|e| format!("{web}: {e}"))?;
        let client = Client::new(target, None).map_err(|e| e.to_string())?;
        Ok(Self { web: web.to_owned(), client, metrics: Vec::new(), page: Vec::new(), ctl: Vec::new() })
    }

    /// Asks for everything once, one after the other: a browser asks for the parts of the page at once.
    fn look(&mut self) -> Result<(), Fault> {
        let get = |path: &str| self.client.get(path).map_err(|e| Fault::Failed(e.to_string()));
        self.metrics.push(timed(|| get("/metrics").map(drop))?);
        self.page.push(timed(|| PAGE.iter().try_for_each(|path| get(&format!("/api/v1/{path}")).map(drop)))?);
        for words in CTL {
            self.ctl.push(timed(|| ctl(&self.web, words))?);
        }
        Ok(())
    }
}

fn timed(work: impl FnOnce() -> Result<(), Fault>) -> Result<f64, Fault> {
    let begin = net::clock::now();
    work()?;
    Ok(net::clock::now().saturating_sub(begin) as f64 / 1e3)
}

/// The program, from its start to its end.
fn ctl(web: &str, words: &[&str]) -> Result<(), Fault> {
    let mut command = Command::new(product::binary()?);
    command.args(["ctl", "--at", web]).args(words).stdin(Stdio::null());
    let output = command.output().map_err(|e| Fault::Failed(format!("ctl: {e}")))?;
    if output.status.success() && !output.stdout.is_empty() {
        return Ok(());
    }
    Err(Fault::Failed(format!("ctl {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr))))
}

/// The medians of the intervals without and with readers, and what the answers took: half of them, and the slowest.
fn compare(quiet: &[f64], read: &[f64], reader: &Reader) -> Option<Metrics> {
    if quiet.is_empty() || read.is_empty() || reader.metrics.is_empty() {
        return None;
    }
    let (without, with) = (stats::median(quiet), stats::median(read));
    let mut metrics = Metrics::default();
    metrics.push("p99_quiet_us", without);
    metrics.push("p99_read_us", with);
    metrics.push("p99_ratio", with / without.max(1e-9));
    for (name, times) in [("metrics", &reader.metrics), ("page", &reader.page), ("ctl", &reader.ctl)] {
        metrics.push(&format!("{name}_us"), stats::median(times));
        metrics.push(&format!("{name}_slowest_us"), times.iter().copied().fold(0.0, f64::max));
    }
    Some(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_with_and_without_readers_are_compared_by_their_medians() {
        let mut reader = Reader::new("127.0.0.1:1").unwrap();
        assert!(compare(&[1.0], &[1.0], &reader).is_none(), "nobody has looked");
        (reader.metrics, reader.page, reader.ctl) = (vec![100.0, 300.0, 200.0], vec![500.0], vec![9.0, 11.0]);
        let metrics = compare(&[10.0, 20.0, 90.0], &[22.0, 21.0, 500.0], &reader).unwrap();
        assert_eq!((metrics.get("p99_ratio"), metrics.get("metrics_us")), (Some(1.1), Some(200.0)));
        assert_eq!((metrics.get("metrics_slowest_us"), metrics.get("ctl_us")), (Some(300.0), Some(10.0)));
        assert!(compare(&[], &[1.0], &reader).is_none());
    }
}
