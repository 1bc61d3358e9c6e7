//! One run of ours: processes, rate, the client's table, and what the observer saw.

use std::io;
use std::sync::Arc;

use super::chain::{Chain, Observation, PATIENCE, Spacing, shares};
use super::hosts::Hosts;
use super::nodes::{Network, Nodes};
use super::results::{Metrics, Observed};
use super::scenario::{Clients, Scenario};
use measure::observer::analysis::{Analysis, Distribution, Percentile, analyse};
use measure::observer::{Plan, Received, Sent, read_received, read_sent};
use measure::process::{Fault, Process};
use measure::stats;

/// Seconds of a line of the client's table.
const INTERVAL: f64 = 0.25;
/// Seconds behind the first updates that have figures of their own where a warm-up is longer: most updates are the first ones of their items then.
const FIRST: f64 = 2.0;
/// Seconds for a process that is ended before.
const FOR_EVER: f64 = 3600.0;
/// A rate is held if this share of it arrives ...
const HELD: f64 = 0.985;
/// ... and the latency rises by no more than this many microseconds a second: a thousandth of the rate is left behind.
const RISE_MAX: f64 = 1_000.0;
/// Records that an observer keeps at most; above that it chooses.
const RECORDS_MAX: f64 = 4e6;
/// Deliveries a second for which there must be room when the rate is not known before.
const UNPACED_MAX: f64 = 20e6;

/// The task of a run.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Deliveries a second; `None` is as many as go.
    pub rate: Option<f64>,
    /// How the source paces itself.
    pub pace: Spacing,
    /// Where the nodes are, if the scenario wants some.
    pub nodes: Where<'a>,
}

/// Where the nodes of a run are.
#[derive(Clone, Copy, Debug)]
pub enum Where<'a> {
    /// All on loopback.
    Loopback,
    /// In network namespaces of this machine.
    Namespaces,
    /// The system on these machines.
    Hosts(&'a Arc<Hosts>),
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
        let columns = tools::table::CLIENT;
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
pub fn ours(scenario: &Scenario, ask: Ask<'_>) -> Result<Metrics, Fault> {
    let nodes = match ask.nodes {
        Where::Hosts(hosts) if scenario.nodes > 1 => Nodes::on(Arc::clone(hosts)),
        Where::Namespaces => Nodes::make(scenario.nodes, Network { mtu: scenario.mtu, tso: &scenario.tso })?,
        Where::Hosts(_) | Where::Loopback => Nodes::loopback(),
    };
    nodes.lose(scenario.loss)?;
    let folder = tempfile::tempdir().map_err(|e| format!("no folder for the records: {e}"))?;
    let observation = scenario.observe.then(|| plan(scenario, ask.rate, folder.path()));
    let observation = observation.as_ref();
    let mut chain = Chain::start(scenario, nodes, ask.pace, observation)?;
    let shares = shares(scenario);
    // The source begins when the clients' tables show all images: up to an interval after the last one.
    let warmup = scenario.warmup + 2.0 * INTERVAL + waiting(scenario, shares.len());
    let flags = format!("-I {INTERVAL} --warmup {warmup} --seconds {} -l 1", scenario.seconds);
    // Processes beside the run end with it.
    let _beside = beside(&chain, scenario)?;
    let mut clients = match scenario.clients {
        Clients::Rssl => chain.clients(scenario, &flags, observation)?,
        Clients::Json => {
            let size = (scenario.mounts, scenario.items);
            vec![chain.json_clients(scenario, size, (warmup, scenario.seconds), observation)?]
        }
    };
    let mut intervals = Vec::new();
    for (client, share) in clients.iter_mut().zip(&shares) {
        let last = wait_for_images(client, share.streams, f64::from(scenario.items))?;
        intervals.push(last);
    }
    let (mut costs, mut intervals) = (vec![[None; 3]; 1], vec![intervals[0]]);
    chain.publish(ask.rate.map(|rate| rate / scenario.fan()))?;
    let (mut reports, mut clients_bytes) = (Vec::new(), None);
    let (first, rest) = clients.split_first_mut().ok_or("no clients")?;
    while let Some(line) = first.next_line(PATIENCE)? {
        if !line.is_output {
            continue;
        }
        if line.text.starts_with('{') {
            reports.extend(serde_json::from_str::<serde_json::Value>(&line.text).ok());
        } else if let Some(interval) = Interval::read(line.at, &line.text) {
            let [source, server] = chain.cpu();
            costs.push([source, server, cpu_of(first, rest)]);
            // The clients end by themselves, so that what counts is the last that is seen.
            clients_bytes = resident_of(first, rest).or(clients_bytes);
            intervals.push(interval);
        }
    }
    if reports.is_empty() {
        return Err(first.failed("ended without a result"));
    }
    let (resident, repairs) = (chain.resident(), chain.repairs());
    for client in rest {
        reports.push(client.json(PATIENCE)?);
    }
    let analysis = match observation {
        None => None,
        Some(observation) => {
            chain.end_sources()?;
            let analysis = analysis_of(observation, scenario.sources(), shares.len());
            Some(analysis.map_err(|why| Fault::Failed(format!("observer: {why}")))?)
        }
    };
    let report = together(&reports);
    let failed = |why: Void| clients[0].failed(&why.to_string());
    let mut metrics = figures(scenario, ask.rate, &report, &intervals, analysis.as_ref()).map_err(failed)?;
    // The table is the first client's, the costs are all processes'.
    let of_all = report["rate_per_s"].as_f64().unwrap_or(0.0) / reports[0]["rate_per_s"].as_f64().unwrap_or(0.0);
    for interval in &mut intervals {
        interval.rate *= of_all;
    }
    add_costs(&mut metrics, scenario, &intervals, &costs);
    if scenario.warmup >= FIRST && ask.rate.is_none() {
        add_first(&mut metrics, &intervals, &costs);
    }
    let [source, server] = resident;
    for (place, bytes) in [("source", source), ("server", server), ("client", clients_bytes)] {
        if let Some(bytes) = bytes {
            metrics.push(&format!("{place}_resident_bytes"), bytes as f64);
        }
    }
    for (name, count) in ["hub_naks", "hub_retransmissions"].into_iter().zip(repairs.into_iter().flatten()) {
        metrics.push(name, count as f64);
    }
    Ok(metrics)
}

/// Starts the clients that are not measured, where there are some, and waits for their images.
fn beside(chain: &Chain, scenario: &Scenario) -> Result<Option<Process>, Fault> {
    if scenario.beside == 0 {
        return Ok(None);
    }
    let others = Scenario { mounts: scenario.beside, common: 1.0, ..scenario.clone() };
    let mut process = match scenario.beside_clients {
        Clients::Rssl => {
            let items = format!("RDT{{0..{}}}", scenario.items - 1);
            chain.client(&others, &items, &format!("-I {INTERVAL} --seconds {FOR_EVER} -l 1"))?
        }
        Clients::Json => chain.json_clients(&others, (others.mounts, others.items), (0.0, FOR_EVER), None)?,
    };
    let streams = u64::from(others.items) * u64::from(others.mounts);
    wait_for_images(&mut process, streams, f64::from(others.items))?;
    Ok(Some(process))
}

/// Seconds that the first of several clients may have to wait for the images of the last.
fn waiting(scenario: &Scenario, clients: usize) -> f64 {
    if clients > 1 { 1.0 + f64::from(scenario.items) / 200_000.0 } else { 0.0 }
}

/// Waits until a client's table shows its images; gives that line.
fn wait_for_images(client: &mut Process, streams: u64, items: f64) -> Result<Interval, Fault> {
    let give_up_at = net::clock::now() + ((PATIENCE + items / 20_000.0) * 1e9) as u64;
    while let Some(line) = client.next_line(PATIENCE)? {
        let Some(interval) = Interval::read(line.at, &line.text).filter(|_| line.is_output) else { continue };
        if interval.images >= streams {
            return Ok(interval);
        }
        if line.at > give_up_at {
            return Err(client.failed(&format!("has {} of {streams} images and waits for the others", interval.images)));
        }
    }
    Err(client.failed("ended before all images were there"))
}

/// Processor time of all clients.
fn cpu_of(first: &Process, rest: &[Process]) -> Option<u64> {
    [first].into_iter().chain(rest).map(Process::cpu).sum()
}

/// Resident bytes of all clients, what they record for the observer included; `None` once one has ended.
fn resident_of(first: &Process, rest: &[Process]) -> Option<u64> {
    [first].into_iter().chain(rest).map(|client| client.resident().ok()).sum()
}

/// The figures of several clients as one: sums, the worst of times, everything complete.
fn together(reports: &[serde_json::Value]) -> serde_json::Value {
    if let [one] = reports {
        return one.clone();
    }
    let values = |name: &str| reports.iter().filter_map(|r| r[name].as_f64()).collect::<Vec<_>>();
    let sum = |name: &str| values(name).iter().sum::<f64>();
    let most = |name: &str| values(name).into_iter().fold(0.0, f64::max);
    // Percentiles of parts are no percentiles of the whole: those of the part with the greatest stand for it.
    serde_json::json!({
        "complete": reports.iter().all(|r| r["complete"] == true),
        "lost": sum("lost"), "reordered": sum("reordered"), "rate_per_s": sum("rate_per_s"), "samples": sum("samples"),
        "p50_us": most("p50_us"), "p90_us": most("p90_us"), "p99_us": most("p99_us"), "max_us": most("max_us"),
        "images_s": most("images_s"), "streams": sum("streams"), "images": sum("images"), "refused": sum("refused"),
    })
}

/// Which messages are recorded, so that the memory suffices.
pub fn plan<'a>(scenario: &Scenario, rate: Option<f64>, folder: &'a std::path::Path) -> Observation<'a> {
    // The source begins up to two intervals before the warm-up and ends some time after the client.
    let clients = shares(scenario).len();
    let seconds = scenario.seconds + scenario.warmup + 2.0 * INTERVAL + 1.5 + waiting(scenario, clients);
    let deliveries = rate.unwrap_or(UNPACED_MAX) * seconds * 1.1 + 10_000.0;
    let every = (deliveries / RECORDS_MAX).ceil().max(1.0) as u32;
    let room = |messages: f64| (messages / f64::from(every)) as usize + 1_000;
    // The source may send in more than its share where clients have not asked for everything yet.
    let source = Plan { capacity: room(deliveries / scenario.fan()), every, connections: 1 };
    Observation { folder, source, client: Plan { capacity: room(deliveries), every, connections: scenario.mounts } }
}

/// Reads and analyses the records of a run that has ended: of so many sources, and of so many clients.
///
/// # Errors
/// A file cannot be read.
pub fn analysis_of(observation: &Observation<'_>, sources: u32, endpoints: usize) -> io::Result<(Analysis, Heads)> {
    let mut heads = Heads { every: 1, missed: 0, cost_ns: 0.0 };
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for source in 0..sources {
        let (head, records) = read_sent(&observation.sent(source))?;
        heads =
            Heads { every: head.every, missed: heads.missed + head.missed, cost_ns: heads.cost_ns.max(head.cost_ns) };
        sent.push(records);
    }
    let mut connections = 0;
    for endpoint in 0..endpoints {
        let (head, records) = read_received(&observation.received(endpoint))?;
        (heads.missed, heads.cost_ns) = (heads.missed + head.missed, heads.cost_ns.max(head.cost_ns));
        connections = connections.max(head.connections);
        received.push(records);
    }
    let mut analysis = analyse_paths(sent, &received, heads.every);
    if connections > 1 {
        // Each connection has an order, their common log has none; the clients count by connection.
        analysis.out_of_order = 0;
    }
    Ok((analysis, heads))
}

/// Analyses the records of one or several paths together. What was lost is counted path by path: one that is behind another at the
/// end has lost nothing.
fn analyse_paths(mut sent: Vec<Vec<Sent>>, received: &[Vec<Received>], every: u32) -> Analysis {
    if sent.len() == 1 {
        return analyse(&sent.remove(0), received, every);
    }
    let endpoints = received.len() / sent.len().max(1);
    let by_path: Vec<Analysis> = sent
        .iter()
        .zip(received.chunks(endpoints.max(1)))
        .map(|(sent, received)| analyse(sent, received, every))
        .collect();
    let mut all: Vec<Sent> = sent.into_iter().flatten().collect();
    all.sort_by_key(|message| message.at);
    let sum = |what: fn(&Analysis) -> u64| by_path.iter().map(what).sum();
    Analysis {
        lost: sum(|a| a.lost),
        unknown: sum(|a| a.unknown),
        out_of_order: sum(|a| a.out_of_order),
        in_flight: sum(|a| a.in_flight),
        ..analyse(&all, received, every)
    }
}

/// The heads of both ends' files.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    /// One of so many messages was recorded.
    pub every: u32,
    /// Messages for which there was no room.
    pub missed: u64,
    /// The cost of a call.
    pub cost_ns: f64,
}

/// The measured intervals: those that lie wholly in the last so many seconds.
fn measured(intervals: &[Interval], seconds: f64) -> &[Interval] {
    let end = intervals.last().map_or(0.0, |i| i.seconds);
    let first = intervals.partition_point(|i| i.seconds < end - seconds + 0.9 * INTERVAL);
    &intervals[first..]
}

/// A run whose figures count nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Void {
    /// Clients had not what they asked for.
    #[error("has no whole watchlist: {0}")]
    Incomplete(String),
    /// The records of both ends do not agree.
    #[error("observed {lost} lost, {unknown} that nobody sent, {out_of_order} out of order")]
    Observed {
        /// Sent and not received.
        lost: u64,
        /// Received and not sent.
        unknown: u64,
        /// Received behind a later one.
        out_of_order: u64,
    },
}

fn figures(
    scenario: &Scenario,
    rate: Option<f64>,
    report: &serde_json::Value,
    intervals: &[Interval],
    analysis: Option<&(Analysis, Heads)>,
) -> Result<Metrics, Void> {
    let value = |name: &str| report[name].as_f64().unwrap_or(f64::NAN);
    if report["complete"] != true || value("lost") > 0.0 || value("reordered") > 0.0 {
        let what = ["streams", "images", "refused", "lost", "reordered"].map(|n| format!("{n} {}", report[n]));
        return Err(Void::Incomplete(format!("complete {}, {}", report["complete"], what.join(", "))));
    }
    let mut metrics = Metrics::default();
    metrics.push("rate", value("rate_per_s"));
    metrics.push("gbps", value("rate_per_s") * scenario.message_size() as f64 * 8.0 / 1e9);
    if let Some((least, most)) = by_second(measured(intervals, scenario.seconds)) {
        metrics.push("rate_least_second", least);
        metrics.push("rate_most_second", most);
    }
    let mut points: Vec<(f64, f64)> =
        measured(intervals, scenario.seconds).iter().filter_map(|i| Some((i.seconds, i.p50_us?))).collect();
    match analysis {
        Some((analysis, heads)) => {
            add_observed(&mut metrics, analysis, heads)?;
            points = analysis.windows.iter().map(|w| (w.at_s, w.median_us)).collect();
            points.retain(|(at, _)| *at >= analysis.discarded_s);
        }
        None if scenario.is_sampled() => add_sampled(&mut metrics, report),
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
        metrics.push("held", f64::from(u8::from(arrives && is_in_time(scenario, &metrics))));
    }
    metrics.push("images_s", value("images_s"));
    Ok(metrics)
}

/// The least and the greatest rate in a whole second of the measured intervals; `None` in a run that is shorter than one.
fn by_second(intervals: &[Interval]) -> Option<(f64, f64)> {
    let in_a_second = (1.0 / INTERVAL).round() as usize;
    let rates = intervals.chunks_exact(in_a_second).map(|of| of.iter().map(|i| i.rate).sum::<f64>() / of.len() as f64);
    rates.fold(None, |bounds, rate| {
        let (least, most) = bounds.unwrap_or((rate, rate));
        Some((rate.min(least), rate.max(most)))
    })
}

/// The figures of the reports' harness: by the stamps of ten updates a second, which say when the source called the API.
fn add_sampled(metrics: &mut Metrics, report: &serde_json::Value) {
    let samples = report["samples"].as_f64().unwrap_or(0.0);
    metrics.push("samples", samples);
    for name in ["mean_us", "stddev_us", "min_us", "p50_us", "max_us"] {
        if let Some(value) = report[name].as_f64().filter(|_| samples > 0.0) {
            metrics.push(&format!("call_{name}"), value);
        }
    }
}

/// Whether the latencies are within the scenario's bounds. A figure that was not taken is not within them.
fn is_in_time(scenario: &Scenario, metrics: &Metrics) -> bool {
    let within = |bound: f64, names: &[&str]| {
        let value = names.iter().find_map(|name| metrics.get(name));
        bound <= 0.0 || value.is_some_and(|us| us <= bound)
    };
    // As the reports do: from the call, where that is known.
    within(scenario.max_latency_us, &["call_max_us", "max_us"]) && within(scenario.mean_latency_us, &["call_mean_us"])
}

/// The observer's figures; those of `call_` count from the call of the API as the reports do, the others from the
/// intended time.
///
/// # Errors
/// Something was lost, strange or out of order.
pub fn add_observed(metrics: &mut Metrics, analysis: &Analysis, heads: &Heads) -> Result<(), Void> {
    if analysis.lost > 0 || analysis.unknown > 0 || analysis.out_of_order > 0 {
        let Analysis { lost, unknown, out_of_order, .. } = *analysis;
        return Err(Void::Observed { lost, unknown, out_of_order });
    }
    metrics.push("samples", analysis.latency.samples as f64);
    if analysis.latency.samples == 0 {
        // Nothing of the steady state was recorded at both ends: there is no latency, least of all one of 0.
        return Ok(());
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
        percentiles: Percentile::all(&Distribution::hdr(&analysis.nanos)),
        windows: analysis.windows.clone(),
        discarded_s: analysis.discarded_s,
        is_steady: analysis.is_steady,
        outliers: analysis.outliers.clone(),
        each_second: analysis.each_second.clone(),
        ..Observed::default()
    });
    Ok(())
}

/// Processor nanoseconds of each process for each delivery, over the measured intervals.
fn add_costs(metrics: &mut Metrics, scenario: &Scenario, intervals: &[Interval], costs: &[[Option<u64>; 3]]) {
    let from = intervals.len() - measured(intervals, scenario.seconds).len();
    let deliveries: f64 =
        intervals.windows(2).skip(from).map(|w| w[1].rate * (w[1].at.saturating_sub(w[0].at)) as f64 / 1e9).sum();
    let spanned = |n: &usize| intervals.get(*n).map_or(0, |interval| interval.at);
    for (n, (name, cores)) in [
        ("source_cpu_ns", "source_processors"),
        ("server_cpu_ns", "server_processors"),
        ("client_cpu_ns", "client_processors"),
    ]
    .into_iter()
    .enumerate()
    {
        let first = costs.get(from).and_then(|c| c[n]);
        let last = costs.iter().rev().find_map(|c| c[n]);
        if let Some((first, last)) = first.zip(last)
            && deliveries > 0.0
            && last > first
        {
            metrics.push(name, (last - first) as f64 / deliveries);
            let time = intervals.last().map_or(0, |interval| interval.at).saturating_sub(spanned(&from));
            if time > 0 {
                metrics.push(cores, (last - first) as f64 / time as f64);
            }
        }
    }
}

/// Rate and processor nanoseconds of the servers for each delivery in the first seconds, from the first whole interval with updates on. Nothing in a run that
/// is shorter.
fn add_first(metrics: &mut Metrics, intervals: &[Interval], costs: &[[Option<u64>; 3]]) {
    // Updates begin somewhere within an interval.
    let Some(begin) = intervals.iter().position(|interval| interval.rate > 0.0) else { return };
    let end = begin + (FIRST / INTERVAL) as usize;
    let Some(first) = intervals.get(begin..=end) else { return };
    let seconds = |pair: &[Interval]| pair[1].at.saturating_sub(pair[0].at) as f64 / 1e9;
    let deliveries: f64 = first.windows(2).map(|pair| pair[1].rate * seconds(pair)).sum();
    let spanned: f64 = first.windows(2).map(seconds).sum();
    if deliveries > 0.0 && spanned > 0.0 {
        metrics.push("first_rate", deliveries / spanned);
        let at = |n: usize| costs.get(n).and_then(|cost| cost[1]);
        if let (Some(before), Some(after)) = (at(begin), at(end)) {
            metrics.push("first_server_cpu_ns", after.saturating_sub(before) as f64 / deliveries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::latency::Summary;
    use tools::table;

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
    fn rates_are_told_by_whole_seconds() {
        let interval = |rate: f64| Interval { at: 0, seconds: 0.0, rate, p50_us: None, p99_us: None, images: 0 };
        let rates = [10.0, 20.0, 30.0, 40.0, 100.0, 100.0, 100.0, 100.0, 7.0];
        assert_eq!(by_second(&rates.map(interval)), Some((25.0, 100.0)));
        assert_eq!(by_second(&[interval(5.0)]), None);
    }

    #[test]
    fn the_first_seconds_have_figures_of_their_own() {
        let quarter = |n: u64, rate: f64| Interval {
            at: n * 250_000_000,
            seconds: 0.0,
            rate,
            p50_us: None,
            p99_us: None,
            images: 0,
        };
        // Images, a part of an interval with updates, two seconds at 400 a second, then more.
        let rates = [0.0, 0.0, 10.0].into_iter().chain([400.0; 8]).chain([1_000.0; 4]);
        let intervals: Vec<Interval> = (0..).zip(rates).map(|(n, rate)| quarter(n, rate)).collect();
        let costs: Vec<_> = (0..intervals.len() as u64).map(|n| [None, Some(n * 1_000), None]).collect();
        let mut metrics = Metrics::default();
        add_first(&mut metrics, &intervals, &costs);
        assert_eq!((metrics.get("first_rate"), metrics.get("first_server_cpu_ns")), (Some(400.0), Some(10.0)));
        let mut none = Metrics::default();
        add_first(&mut none, &intervals[..6], &costs);
        assert_eq!(none.get("first_rate"), None);
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
    fn where_nothing_was_observed_no_latency_is_zero() {
        let analysis = analyse(&[], &[Vec::new()], 28);
        let mut metrics = Metrics::default();
        add_observed(&mut metrics, &analysis, &Heads { every: 28, missed: 0, cost_ns: 25.0 }).unwrap();
        assert_eq!(metrics.get("samples"), Some(0.0));
        assert!(metrics.get("p50_us").is_none() && metrics.get("call_mean_us").is_none(), "{metrics:?}");
    }

    #[test]
    fn a_rate_is_held_within_its_bounds_only() {
        let text = "[a]\ntitle = 'A'\nkind = 'flow'\nrates = 'search'\nmax_latency_us = 1000\nmean_latency_us = 200";
        let scenario = crate::scenario::read(text).unwrap().remove(0);
        assert!(scenario.criterion().contains("max latency at most 1000 us, mean latency at most 200 us"));
        let metrics = |max: f64, mean: f64| -> Metrics {
            [("call_max_us".to_owned(), max), ("max_us".to_owned(), 5_000.0), ("call_mean_us".to_owned(), mean)]
                .into_iter()
                .collect()
        };
        for (max, mean, held) in [(900.0, 150.0, true), (1_100.0, 150.0, false), (900.0, 250.0, false)] {
            assert_eq!(is_in_time(&scenario, &metrics(max, mean)), held, "{max} {mean}");
        }
        assert!(!is_in_time(&scenario, &Metrics::default()), "what was not measured is not held");
        assert!(is_in_time(&Scenario { max_latency_us: 0.0, mean_latency_us: 0.0, ..scenario }, &Metrics::default()));
    }

    #[test]
    fn paths_are_analysed_together_and_their_losses_apart() {
        let sent = |item: u32, ends: u32| -> Vec<Sent> {
            (1..=ends)
                .map(|n| Sent {
                    id: measure::observer::id_of(item, n),
                    at: u64::from(n) * 1_000,
                    intended: u64::from(n) * 1_000,
                })
                .collect()
        };
        let got = |all: &[Sent], latency: u64| -> Vec<Received> {
            all.iter().map(|s| Received { id: s.id, at: s.at + latency }).collect()
        };
        let (one, two) = (sent(1, 100), sent(2, 100));
        // The second path is behind when the test ends: 20 of its messages are under way, none is lost.
        let received = vec![got(&one, 10_000), got(&two[..80], 30_000)];
        let analysis = analyse_paths(vec![one.clone(), two.clone()], &received, 1);
        assert_eq!((analysis.lost, analysis.in_flight, analysis.sent, analysis.received), (0, 20, 200, 180));
        assert!(analysis.latency.max_us > 29.0 && analysis.latency.min_us < 11.0);
        let mut holed = got(&two, 30_000);
        holed.remove(40);
        assert_eq!(analyse_paths(vec![one.clone(), two], &[got(&one, 10_000), holed], 1).lost, 1);
    }

    #[test]
    fn several_clients_are_one_result() {
        let one = |rate: f64, p99: f64, complete: bool| serde_json::json!({"complete": complete, "lost": 0, "rate_per_s": rate, "p99_us": p99, "samples": 10});
        let both = together(&[one(100.0, 7.0, true), one(50.0, 9.0, true)]);
        assert_eq!((both["rate_per_s"].as_f64(), both["p99_us"].as_f64()), (Some(150.0), Some(9.0)));
        assert_eq!((both["complete"].clone(), both["samples"].as_f64()), (true.into(), Some(20.0)));
        assert_eq!(together(&[one(1.0, 1.0, true), one(1.0, 1.0, false)])["complete"], false);
    }

    #[test]
    fn a_run_that_lost_something_has_no_figures() {
        let scenario = crate::scenario::read(crate::scenario::BUILT_IN).unwrap().remove(1);
        let good = serde_json::json!({"complete": true, "lost": 0, "reordered": 0, "rate_per_s": 990.0, "samples": 5, "p50_us": 7.0});
        let metrics = figures(&scenario, Some(1_000.0), &good, &[], None).unwrap();
        assert_eq!((metrics.get("p50_us"), metrics.get("held")), (Some(7.0), Some(1.0)));
        assert_eq!(figures(&scenario, Some(1_100.0), &good, &[], None).unwrap().get("held"), Some(0.0));
        let bad = serde_json::json!({"complete": true, "lost": 3, "reordered": 0});
        assert!(figures(&scenario, None, &bad, &[], None).unwrap_err().to_string().contains("lost 3"));
    }
}
