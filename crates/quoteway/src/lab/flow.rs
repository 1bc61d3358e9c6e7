//! Updates through source, server and client at a rate; the bare loops and ETA Java on the same work.
//!
//! A run: the processes start, the client opens its watchlist while nothing is sent, then the source is given its rate.
//! The first `warmup` seconds at the rate do not count. Figures come from the client's table, an interval a line.

use super::peers;
use super::process::{Fault, Process};
use super::rows::{Metrics, Outcome, Side};
use super::scenario::{Point, Scenario};
use super::session::{Run, Session};
use super::stats;

/// Seconds of a line of the client's table.
const INTERVAL: f64 = 0.25;
/// How long a process may say nothing.
const PATIENCE: f64 = 60.0;
/// A rate is held if this share of it arrives ...
const HELD: f64 = 0.985;
/// ... and the latency rises by no more than this many microseconds a second: a thousandth of the rate is left behind.
const RISE_MAX: f64 = 1_000.0;
/// Steps of the search for the highest rate that is held.
const STEPS: usize = 6;
/// How long the bare source sleeps where ours blocks.
const FLOOR_TICK_NS: u64 = 50_000;
/// After the search: how often the rate is lowered until most runs hold it, and to what share.
const LOWERED: (usize, f64) = (4, 0.85);
/// The relay's messages cannot be shorter.
const FLOOR_SIZE_MIN: usize = 32;

/// Seconds that a scenario is expected to take.
pub fn estimate(scenario: &Scenario, pairs: u32) -> f64 {
    let points = scenario.points().unwrap_or_default();
    let row = |point: Point| {
        let peer = if scenario.with_peer(point) { peers::PAIR_SECONDS } else { 0.0 };
        (ours_seconds(scenario) + floor_seconds(scenario) + peer) * f64::from(pairs)
    };
    let search = points.iter().filter(|p| **p == Point::Search).count() as f64;
    points.iter().map(|p| row(*p)).sum::<f64>() + search * STEPS as f64 * ours_seconds(scenario)
}

fn ours_seconds(scenario: &Scenario) -> f64 {
    let streams = f64::from(scenario.items) * scenario.fan();
    scenario.seconds + scenario.warmup + 1.5 + streams / 150_000.0
}

fn floor_seconds(scenario: &Scenario) -> f64 {
    scenario.seconds / 0.75 + 0.5
}

/// Runs the scenario.
///
/// # Errors
/// The lab was stopped.
pub fn run(session: &mut Session, scenario: &Scenario, outcome: &mut Outcome) -> Result<(), Fault> {
    let mut ceiling = None;
    for point in scenario.points()? {
        let label = point.to_string();
        match point {
            Point::Rate(rate) => at(session, scenario, outcome, point, Some(rate))?,
            Point::Max => {
                at(session, scenario, outcome, point, None)?;
                let row = outcome.rows.iter().find(|r| r.label == label);
                ceiling = row.and_then(|r| r.spread(Side::Ours, "rate")).map(|s| s.median);
            }
            Point::Search => {
                let Some(mut rate) = search(session, scenario, outcome, ceiling)? else { continue };
                for step in 0.. {
                    at(session, scenario, outcome, point, Some(rate))?;
                    if is_mostly_held(outcome, &label) || step == LOWERED.0 {
                        break;
                    }
                    let text = format!("{label}: {:.2} M/s was found and not held again; lowered", rate / 1e6);
                    session.note(outcome, text);
                    outcome.rows.retain(|r| r.label != label);
                    rate *= LOWERED.1;
                }
            }
        }
        if let Some(text) = unheld(outcome, &label) {
            session.note(outcome, text);
        }
    }
    Ok(())
}

/// The runs of all sides at a rate.
fn at(
    session: &mut Session,
    scenario: &Scenario,
    outcome: &mut Outcome,
    point: Point,
    rate: Option<f64>,
) -> Result<(), Fault> {
    let mut sides: Vec<(Side, f64, Run<'_>)> = vec![
        (Side::Ours, ours_seconds(scenario), Box::new(|| ours(scenario, rate))),
        (Side::Floor, floor_seconds(scenario), Box::new(|| floor(scenario, rate))),
    ];
    let interop = session.interop.clone();
    if scenario.with_peer(point) {
        let peer: Run<'_> = Box::new(move || peers::eta_pair(&interop, scenario, rate));
        sides.push((Side::Peer, peers::PAIR_SECONDS, peer));
    }
    session.row(outcome, &point.to_string(), sides)
}

/// Whether more than half of the runs of a row held its rate.
fn is_mostly_held(outcome: &Outcome, label: &str) -> bool {
    let row = outcome.rows.iter().find(|r| r.label == label);
    row.and_then(|r| r.spread(Side::Ours, "held")).is_some_and(|s| s.median > 0.5)
}

/// A note for a rate that was asked for and not held.
fn unheld(outcome: &Outcome, label: &str) -> Option<String> {
    let row = outcome.rows.iter().find(|r| r.label == label)?;
    let failed = row.side(Side::Ours).iter().filter(|m| m.get("held") == Some(0.0)).count();
    (failed > 0).then(|| {
        let runs = row.side(Side::Ours).len();
        format!("{label}: the rate was not held in {failed} of {runs} runs (it did not arrive, or the latency rose)")
    })
}

/// The highest rate that is held: halves the range between what was held and what was not. Every probe is a run of its
/// own; one that fails is tried once more, since a neighbour's burst looks the same.
fn search(
    session: &mut Session,
    scenario: &Scenario,
    outcome: &mut Outcome,
    ceiling: Option<f64>,
) -> Result<Option<f64>, Fault> {
    let top = match ceiling {
        Some(rate) => rate,
        None => ours(scenario, None)?.get("rate").unwrap_or(0.0),
    };
    let (mut low, mut high) = (0.0, top);
    let mut probe = top * 0.8;
    for step in 1..=STEPS {
        session.say(&format!("{} search: {:.3} M/s, step {step} of {STEPS}", outcome.name, probe / 1e6));
        let mut held = is_held(session, scenario, outcome, probe)?;
        if !held {
            held = is_held(session, scenario, outcome, probe)?;
        }
        session.advance(ours_seconds(scenario));
        if held {
            low = probe;
        } else {
            high = probe;
        }
        if high - low < top * 0.04 {
            break;
        }
        probe = f64::midpoint(low, high);
    }
    if low == 0.0 {
        session.note(outcome, format!("search: no rate was held, the lowest tried was {:.3} M/s", high / 1e6));
        return Ok(None);
    }
    Ok(Some(low))
}

fn is_held(session: &mut Session, scenario: &Scenario, outcome: &mut Outcome, rate: f64) -> Result<bool, Fault> {
    match ours(scenario, Some(rate)) {
        Ok(metrics) => {
            session.record(&serde_json::json!({
                "record": "probe", "scenario": outcome.name, "asked": rate, "figures": metrics.json(),
            }));
            Ok(metrics.get("held") == Some(1.0))
        }
        Err(Fault::Stopped) => Err(Fault::Stopped),
        Err(Fault::Failed(why)) => {
            session.note(outcome, format!("search at {:.3} M/s: {why}", rate / 1e6));
            Ok(false)
        }
    }
}

/// The processes of a flow, started.
pub struct Chain {
    /// The source, which publishes nothing until it is given a rate.
    pub source: Process,
    /// The server, if there is one.
    pub server: Option<Process>,
    /// Where clients connect.
    pub port: u16,
}

impl Chain {
    /// Starts source and server.
    ///
    /// # Errors
    /// One of them does not start.
    pub fn start(scenario: &Scenario) -> Result<Self, Fault> {
        let mut args = words("sink-driven-src --bind 127.0.0.1 -N 0 -K -tcpnodel --smooth -U 0 -I 3600");
        args.extend(words(&format!(
            "--size {} --idle {} --send-buffer {}",
            scenario.size, scenario.idle, scenario.socket_buffer
        )));
        match scenario.stamp_every {
            1 => args.push("--stamp-all".to_owned()),
            every => args.extend(words(&format!("--stamp-every {every}"))),
        }
        let mut source = Process::quoteway("source", &args)?;
        let line = source.wait_for("is published on", PATIENCE)?.text;
        let address = line.split(" on ").nth(1).and_then(|t| t.split(';').next());
        let address = address.ok_or_else(|| source.failed("names no address"))?.to_owned();
        if !scenario.server {
            let port = port_of(&address).ok_or_else(|| source.failed("names no port"))?;
            return Ok(Self { source, server: None, port });
        }
        let args = words("serve --interface 127.0.0.1 --rssl-port 0 --nip-port 0 --route");
        let mut server = Process::quoteway("server", &[args, vec![address]].concat())?;
        let line = server.wait_for("ready ", PATIENCE)?.text;
        let address = line.split("rssl=").nth(1).and_then(|t| t.split(' ').next()).unwrap_or_default();
        let port = port_of(address).ok_or_else(|| server.failed("names no port"))?;
        Ok(Self { source, server: Some(server), port })
    }

    /// Starts a client; `extra` are more of its flags.
    ///
    /// # Errors
    /// It does not start.
    pub fn client(&self, scenario: &Scenario, items: &str, extra: &str) -> Result<Process, Fault> {
        let mut args = words(&format!(
            "test-client -h 127.0.0.1 -p {} --mounts {} --common {} --receive-buffer {} -il",
            self.port, scenario.mounts, scenario.common, scenario.socket_buffer
        ));
        args.push(items.to_owned());
        args.extend(words(extra));
        Process::quoteway("client", &args)
    }

    /// Processor time of source and server so far, in nanoseconds.
    fn cpu(&self) -> [Option<u64>; 2] {
        [self.source.cpu(), self.server.as_ref().and_then(Process::cpu)]
    }
}

fn port_of(address: &str) -> Option<u16> {
    address.rsplit(':').next()?.trim().parse().ok()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// A line of the client's table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// When it was read, monotonic nanoseconds.
    pub at: u64,
    /// Seconds since the client's start.
    pub seconds: f64,
    /// Updates a second.
    pub rate: f64,
    /// Median latency; `None` without stamps.
    pub p50_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// Images so far.
    pub images: u64,
}

impl Interval {
    /// Reads a line; `None` if it is something else.
    pub fn read(at: u64, line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let columns = crate::tools::table::CLIENT;
        let cell = |name: &str| cells.get(columns.iter().position(|(title, _)| *title == name)?)?.parse::<f64>().ok();
        if cells.len() != columns.len() {
            return None;
        }
        Some(Self {
            at,
            seconds: cell("seconds")?,
            rate: cell("updates/s")?,
            p50_us: cell("50%"),
            p99_us: cell("99%"),
            images: cell("images")? as u64,
        })
    }
}

/// One run of ours at a rate of deliveries; `None` is as many as go.
fn ours(scenario: &Scenario, rate: Option<f64>) -> Result<Metrics, Fault> {
    let mut chain = Chain::start(scenario)?;
    // The source begins when the client's table shows all images: up to an interval after the last one.
    let warmup = scenario.warmup + 2.0 * INTERVAL;
    let items = format!("RDT{{0..{}}}", scenario.items - 1);
    let flags = format!("-I {INTERVAL} --warmup {warmup} --seconds {} -l 1", scenario.seconds);
    let mut client = chain.client(scenario, &items, &flags)?;
    let streams = (f64::from(scenario.items) * scenario.fan()).round() as u64;
    let (mut intervals, mut costs, mut report) = (Vec::new(), Vec::new(), None);
    let mut is_started = false;
    while let Some(line) = client.next_line(PATIENCE)? {
        if !line.is_output {
            continue;
        }
        if line.text.starts_with('{') {
            report = serde_json::from_str::<serde_json::Value>(&line.text).ok();
        } else if let Some(interval) = Interval::read(line.at, &line.text) {
            if !is_started && interval.images >= streams {
                is_started = true;
                let source_rate = rate.map_or("max".to_owned(), |r| (r / scenario.fan()).to_string());
                chain.source.tell(&format!("ur {source_rate}"))?;
            }
            let [source, server] = chain.cpu();
            costs.push([source, server, client.cpu()]);
            intervals.push(interval);
        }
    }
    let report = report.ok_or_else(|| client.failed("ended without a result"))?;
    let mut metrics = figures(scenario, rate, &report, &intervals).map_err(|why| client.failed(&why))?;
    add_costs(&mut metrics, scenario, &intervals, &costs);
    Ok(metrics)
}

/// The measured intervals: those that lie wholly in the last so many seconds.
fn measured(intervals: &[Interval], seconds: f64) -> &[Interval] {
    let end = intervals.last().map_or(0.0, |i| i.seconds);
    let first = intervals.partition_point(|i| i.seconds < end - seconds + 0.9 * INTERVAL);
    &intervals[first..]
}

fn figures(
    scenario: &Scenario,
    rate: Option<f64>,
    report: &serde_json::Value,
    intervals: &[Interval],
) -> Result<Metrics, String> {
    let value = |name: &str| report[name].as_f64().unwrap_or(f64::NAN);
    if report["complete"] != true || value("lost") > 0.0 || value("reordered") > 0.0 {
        let what = ["streams", "images", "refused", "lost", "reordered"].map(|n| format!("{n} {}", report[n]));
        return Err(format!("has no whole watchlist: complete {}, {}", report["complete"], what.join(", ")));
    }
    let mut metrics = Metrics::default();
    metrics.push("rate", value("rate_per_s"));
    for name in ["p50_us", "p90_us", "p99_us", "max_us"] {
        if value("samples") > 0.0 {
            metrics.push(name, value(name));
        }
    }
    let points: Vec<(f64, f64)> =
        measured(intervals, scenario.seconds).iter().filter_map(|i| Some((i.seconds, i.p50_us?))).collect();
    let rise = stats::slope(&points);
    metrics.push("rise_us_per_s", rise);
    if let Some(rate) = rate {
        let is_held = value("rate_per_s") >= HELD * rate && rise <= RISE_MAX;
        metrics.push("held", f64::from(u8::from(is_held)));
    }
    metrics.push("images_s", value("images_s"));
    Ok(metrics)
}

/// Processor nanoseconds of each process for each delivery, over the measured intervals.
fn add_costs(metrics: &mut Metrics, scenario: &Scenario, intervals: &[Interval], costs: &[[Option<u64>; 3]]) {
    let from = intervals.len() - measured(intervals, scenario.seconds).len();
    let deliveries: f64 =
        intervals.windows(2).skip(from).map(|w| w[1].rate * (w[1].at.saturating_sub(w[0].at)) as f64 / 1e9).sum();
    for (n, name) in ["source_cpu_ns", "server_cpu_ns", "client_cpu_ns"].into_iter().enumerate() {
        let first = costs.get(from).and_then(|c| c[n]);
        let last = costs.iter().rev().find_map(|c| c[n]);
        if let Some((first, last)) = first.zip(last)
            && deliveries > 0.0
            && last > first
        {
            metrics.push(name, (last - first) as f64 / deliveries);
        }
    }
}

/// One run of the bare loop of the same shape.
fn floor(scenario: &Scenario, rate: Option<f64>) -> Result<Metrics, Fault> {
    let fans = scenario.mounts > 1;
    let part = if fans {
        // The server is the writer; source and reader are the others.
        let wide = (scenario.common * 100.0).round();
        format!("fan --connections {} --wide {wide}", scenario.mounts)
    } else {
        format!("relay --relays {}", u8::from(scenario.server))
    };
    let load = format!(
        "--rate {} --seconds {} --size {} --socket-buffer {} --tick {}",
        rate.map_or(0.0, |r| r / scenario.fan()),
        scenario.seconds / 0.75,
        scenario.size.max(FLOOR_SIZE_MIN),
        scenario.socket_buffer,
        // Where our source sleeps until the next update is due, the bare one does; it has no timer of its own.
        if scenario.idle == "block" { FLOOR_TICK_NS } else { 0 },
    );
    let mut process = Process::quoteway("floor", &words(&format!("lab part {part} {load}")))?;
    let report = process.json(PATIENCE)?;
    let mut metrics = Metrics::default();
    metrics.push("rate", report["rate"].as_f64().unwrap_or(f64::NAN));
    for (name, key) in [("p50_us", "median"), ("p90_us", "p90"), ("p99_us", "p99"), ("max_us", "max")] {
        metrics.push(name, report["latency_us"][key].as_f64().unwrap_or(f64::NAN));
    }
    for stage in report["stages"].as_array().into_iter().flatten() {
        let name = match stage["stage"].as_str().unwrap_or_default() {
            "source" => "source_cpu_ns",
            "sink" | "reader" => "client_cpu_ns",
            _ => "server_cpu_ns",
        };
        let ns = stage["user_ns"].as_f64().unwrap_or(0.0) + stage["system_ns"].as_f64().unwrap_or(0.0);
        // The fan's source counts messages in, everything else is a delivery.
        let per_delivery = if fans && name == "source_cpu_ns" { ns / scenario.fan() } else { ns };
        metrics.push(name, per_delivery);
    }
    Ok(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::latency::Summary;
    use crate::tools::table;

    #[test]
    fn the_clients_lines_are_understood() {
        let latency = Summary { samples: 100, p50_us: 220.0, p99_us: 1_700.0, ..Summary::default() };
        let interval = Interval::read(7, &table::client_row(10.0, 1000.2, &latency, 5_000, 0)).unwrap();
        assert_eq!((interval.at, interval.images), (7, 5_000));
        assert_eq!((interval.rate, interval.p50_us, interval.p99_us), (1_000.0, Some(220.0), Some(1_700.0)));
        let idle = Interval::read(7, &table::client_row(1.0, 0.0, &Summary::default(), 3, 0)).unwrap();
        assert_eq!((idle.p50_us, idle.images), (None, 3));
        assert_eq!(Interval::read(7, &table::heading(table::CLIENT)), None);
        assert_eq!(Interval::read(7, "{}"), None);
    }

    #[test]
    fn only_the_end_of_a_run_is_measured() {
        let interval = |n: u32| Interval {
            at: 0,
            seconds: f64::from(n) * INTERVAL,
            rate: 0.0,
            p50_us: None,
            p99_us: None,
            images: 0,
        };
        let all: Vec<Interval> = (1..=20).map(interval).collect();
        let kept = measured(&all, 2.0);
        assert_eq!((kept.len(), kept[0].seconds), (8, 3.25));
        assert!(measured(&[], 2.0).is_empty());
    }

    #[test]
    fn a_run_that_lost_something_has_no_figures() {
        let scenario = super::super::scenario::read(super::super::scenario::BUILT_IN, &[]).unwrap().remove(1);
        let good = serde_json::json!({"complete": true, "lost": 0, "reordered": 0, "rate_per_s": 990.0, "samples": 5, "p50_us": 7.0});
        let metrics = figures(&scenario, Some(1_000.0), &good, &[]).unwrap();
        assert_eq!((metrics.get("p50_us"), metrics.get("held")), (Some(7.0), Some(1.0)));
        assert_eq!(figures(&scenario, Some(1_100.0), &good, &[]).unwrap().get("held"), Some(0.0));
        let bad = serde_json::json!({"complete": true, "lost": 3, "reordered": 0});
        assert!(figures(&scenario, None, &bad, &[]).unwrap_err().contains("lost 3"));
    }
}
