//! One run of ours: processes, rate, the client's table, and what the observer saw.

use super::chain::{Chain, Observation, PATIENCE, Pace};
use super::nodes::Nodes;
use super::observer::analysis::{Analysis, Distribution, analyse};
use super::observer::{Plan, read_received, read_sent};
use super::process::Fault;
use super::rows::{Metrics, Observed};
use super::scenario::Scenario;
use super::stats;

/// Seconds of a line of the client's table.
const INTERVAL: f64 = 0.25;
/// A rate is held if this share of it arrives ...
const HELD: f64 = 0.985;
/// ... and the latency rises by no more than this many microseconds a second: a thousandth of the rate is left behind.
const RISE_MAX: f64 = 1_000.0;
/// Records that an observer keeps at most; above that it chooses.
const RECORDS_MAX: f64 = 4e6;
/// Deliveries a second for which there must be room when the rate is not known before.
const UNPACED_MAX: f64 = 20e6;

/// What a run is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Deliveries a second; `None` is as many as go.
    pub rate: Option<f64>,
    /// How the source paces itself.
    pub pace: Pace,
    /// Nodes are made if the scenario wants them.
    pub with_nodes: bool,
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

/// One run of ours.
///
/// # Errors
/// A process fails, something is lost, or the lab was stopped.
pub fn ours(scenario: &Scenario, ask: Ask) -> Result<Metrics, Fault> {
    let nodes = if ask.with_nodes { Nodes::make(scenario.nodes)? } else { Nodes::loopback() };
    let folder = tempfile::tempdir().map_err(|e| format!("no folder for the records: {e}"))?;
    let observation = scenario.observe.then(|| plan(scenario, ask.rate, folder.path()));
    let observation = observation.as_ref();
    let mut chain = Chain::start(scenario, nodes, ask.pace, observation)?;
    // The source begins when the client's table shows all images: up to an interval after the last one.
    let warmup = scenario.warmup + 2.0 * INTERVAL;
    let items = format!("RDT{{0..{}}}", scenario.items - 1);
    let flags = format!("-I {INTERVAL} --warmup {warmup} --seconds {} -l 1", scenario.seconds);
    let mut client = chain.client(scenario, &items, &flags, observation)?;
    let streams = (f64::from(scenario.items) * scenario.fan()).round() as u64;
    let (mut intervals, mut costs, mut report) = (Vec::new(), Vec::new(), None);
    let give_up_at = net::clock::now() + ((PATIENCE + f64::from(scenario.items) / 20_000.0) * 1e9) as u64;
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
                let source_rate = ask.rate.map_or("max".to_owned(), |r| (r / scenario.fan()).to_string());
                chain.source.tell(&format!("ur {source_rate}"))?;
            }
            if !is_started && line.at > give_up_at {
                let text = format!("has {} of {streams} images and waits for the others", interval.images);
                return Err(client.failed(&text));
            }
            let [source, server] = chain.cpu();
            costs.push([source, server, client.cpu()]);
            intervals.push(interval);
        }
    }
    let report = report.ok_or_else(|| client.failed("ended without a result"))?;
    let analysis = match observation {
        None => None,
        Some(observation) => {
            chain.end_source()?;
            Some(analysis_of(observation).map_err(|why| Fault::Failed(format!("observer: {why}")))?)
        }
    };
    let mut metrics =
        figures(scenario, ask.rate, &report, &intervals, analysis.as_ref()).map_err(|why| client.failed(&why))?;
    add_costs(&mut metrics, scenario, &intervals, &costs);
    Ok(metrics)
}

/// Which messages are recorded, so that the memory suffices.
pub fn plan<'a>(scenario: &Scenario, rate: Option<f64>, folder: &'a std::path::Path) -> Observation<'a> {
    // The source begins up to two intervals before the warm-up and ends some time after the client.
    let seconds = scenario.seconds + scenario.warmup + 2.0 * INTERVAL + 1.5;
    let deliveries = rate.unwrap_or(UNPACED_MAX) * seconds * 1.1 + 10_000.0;
    let every = (deliveries / RECORDS_MAX).ceil().max(1.0) as u32;
    let room = |messages: f64| (messages / f64::from(every)) as usize + 1_000;
    // The source may send in more than its share where clients have not asked for everything yet.
    let source = Plan { capacity: room(deliveries / scenario.fan()), every, connections: 1 };
    Observation { folder, source, client: Plan { capacity: room(deliveries), every, connections: scenario.mounts } }
}

/// Reads and analyses the records of a run that has ended.
///
/// # Errors
/// A text: a file cannot be read.
pub fn analysis_of(observation: &Observation<'_>) -> Result<(Analysis, Heads), String> {
    let failed = |e: std::io::Error| e.to_string();
    let (sent_head, sent) = read_sent(&observation.folder.join("sent")).map_err(failed)?;
    let (received_head, received) = read_received(&observation.folder.join("received")).map_err(failed)?;
    let heads = Heads {
        every: sent_head.every,
        missed: sent_head.missed + received_head.missed,
        cost_ns: sent_head.cost_ns.max(received_head.cost_ns),
    };
    let mut analysis = analyse(&sent, &[received], sent_head.every);
    if received_head.connections > 1 {
        // Each connection has an order, their common log has none; the clients count by connection.
        analysis.out_of_order = 0;
    }
    Ok((analysis, heads))
}

/// What the files of both ends say of themselves.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    /// One of so many messages was recorded.
    pub every: u32,
    /// Messages for which there was no room.
    pub missed: u64,
    /// What a call cost.
    pub cost_ns: f64,
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
    analysis: Option<&(Analysis, Heads)>,
) -> Result<Metrics, String> {
    let value = |name: &str| report[name].as_f64().unwrap_or(f64::NAN);
    if report["complete"] != true || value("lost") > 0.0 || value("reordered") > 0.0 {
        let what = ["streams", "images", "refused", "lost", "reordered"].map(|n| format!("{n} {}", report[n]));
        return Err(format!("has no whole watchlist: complete {}, {}", report["complete"], what.join(", ")));
    }
    let mut metrics = Metrics::default();
    metrics.push("rate", value("rate_per_s"));
    let mut points: Vec<(f64, f64)> =
        measured(intervals, scenario.seconds).iter().filter_map(|i| Some((i.seconds, i.p50_us?))).collect();
    match analysis {
        Some((analysis, heads)) => {
            add_observed(&mut metrics, analysis, heads)?;
            points = analysis.windows.iter().map(|w| (w.at_s, w.median_us)).collect();
            points.retain(|(at, _)| *at >= analysis.discarded_s);
        }
        None => {
            for name in ["p50_us", "p90_us", "p99_us", "max_us"] {
                if value("samples") > 0.0 {
                    metrics.push(name, value(name));
                }
            }
        }
    }
    let rise = stats::slope(&points);
    metrics.push("rise_us_per_s", rise);
    if let Some(rate) = rate {
        let arrives = value("rate_per_s") >= HELD * rate && rise <= RISE_MAX;
        let in_time = scenario.max_latency_us <= 0.0 || metrics.get("max_us") <= Some(scenario.max_latency_us);
        metrics.push("held", f64::from(u8::from(arrives && in_time)));
    }
    metrics.push("images_s", value("images_s"));
    Ok(metrics)
}

/// The observer's figures; those of `call_` count from the call of the API as the reports do, the others from the
/// intended time.
///
/// # Errors
/// Something was lost, strange or out of order.
pub fn add_observed(metrics: &mut Metrics, analysis: &Analysis, heads: &Heads) -> Result<(), String> {
    if analysis.lost > 0 || analysis.unknown > 0 || analysis.out_of_order > 0 {
        let Analysis { lost, unknown, out_of_order, .. } = analysis;
        return Err(format!("observed {lost} lost, {unknown} that nobody sent, {out_of_order} out of order"));
    }
    let all = |d: &Distribution| {
        [
            ("mean_us", d.mean_us),
            ("stddev_us", d.stddev_us),
            ("min_us", d.min_us),
            ("p50_us", d.median_us),
            ("p90_us", d.p90_us),
            ("p99_us", d.p99_us),
            ("p999_us", d.p999_us),
            ("p9999_us", d.p9999_us),
            ("max_us", d.max_us),
        ]
    };
    for (name, value) in all(&analysis.latency) {
        metrics.push(name, value);
    }
    for (name, value) in all(&analysis.from_call).into_iter().filter(|(name, _)| !name.contains("p9")) {
        metrics.push(&format!("call_{name}"), value);
    }
    metrics.push("late_p50_us", analysis.lateness.median_us);
    metrics.push("late_p99_us", analysis.lateness.p99_us);
    metrics.push("samples", analysis.latency.samples as f64);
    if heads.every > 1 {
        metrics.push("recorded_1_of", f64::from(heads.every));
    }
    if heads.missed > 0 {
        metrics.push("records_missed", heads.missed as f64);
    }
    metrics.push("observer_ns", heads.cost_ns);
    metrics.push("discarded_s", analysis.discarded_s);
    metrics.observed = Some(Observed {
        buckets: analysis.latency.buckets.clone(),
        windows: analysis.windows.clone(),
        discarded_s: analysis.discarded_s,
        is_steady: analysis.is_steady,
    });
    Ok(())
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
        let metrics = figures(&scenario, Some(1_000.0), &good, &[], None).unwrap();
        assert_eq!((metrics.get("p50_us"), metrics.get("held")), (Some(7.0), Some(1.0)));
        assert_eq!(figures(&scenario, Some(1_100.0), &good, &[], None).unwrap().get("held"), Some(0.0));
        let bad = serde_json::json!({"complete": true, "lost": 3, "reordered": 0});
        assert!(figures(&scenario, None, &bad, &[], None).unwrap_err().contains("lost 3"));
    }
}
