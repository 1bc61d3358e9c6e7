//! What conflation spares a server: the processor time of clients that are conflated, beside that of as many that get everything, at the
//! same rate of the source.
//!
//! | row | the clients that are conflated |
//! |---|---|
//! | `by-time` | take what they get; their service is conflated as a whole (`update_aggregation`), at the interval of the scenario's `warmup` |
//! | `by-time-plain` | the same for clients that do not ripple (`ripple = false`): of a field that ripples they get the last value alone |
//! | `just-in-time` | take a tenth of what there is, all together, and are conflated for that (`just_in_time`) |

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use measure::process::{Fault, pause};
use net::tcp::SocketOptions;
use rwf::DataType;
use rwf::msg::{MsgKey, RequestFlags, RequestMsg};
use rwf::rdm::request::Payload;
use tools::administration::Client;

use super::chain::{Chain, Spacing};
use super::images::wait_for_images;
use super::load::swarm::{SERVICE, Swarm};
use super::nodes::Nodes;
use super::results::{Metrics, Outcome, Side};
use super::scenario::{Point, Scenario};
use super::session::{Run, Session};

/// How clients are conflated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Everything,
    ByTime,
    ByTimePlain,
    JustInTime,
}

const WAYS: [(&str, Way); 3] =
    [("by-time", Way::ByTime), ("by-time-plain", Way::ByTimePlain), ("just-in-time", Way::JustInTime)];

/// Share of the bytes of everything that slow clients take.
const SLOWLY: f64 = 0.1;
/// Names in a request: an element has at most 64 KB.
const BATCH: u32 = 5_000;
/// What may wait for a slow client before it is conflated, and at most: 100 of them are not to fill the machine.
const SMALL_QUEUES: &str = "[p2ps]\nguaranteed_output_buffers = 100\nmax_output_buffers = 4000\npool_size = 400000\n";

/// Seconds that the scenario is expected to take.
pub fn estimate(scenario: &Scenario, pairs: u32) -> f64 {
    let streams = f64::from(scenario.items) * f64::from(scenario.mounts);
    2.0 * WAYS.len() as f64 * (scenario.seconds + scenario.warmup + 2.0 + streams / 200_000.0) * f64::from(pairs)
}

/// Runs the scenario.
///
/// # Errors
/// The lab was stopped.
pub fn run(session: &mut Session, scenario: &Scenario, outcome: &mut Outcome) -> Result<(), Fault> {
    let Some(Point::Rate(rate)) = scenario.points()?.first().copied() else {
        return Err(Fault::Failed(format!("{} needs one rate, that of everything", scenario.name)));
    };
    let seconds = estimate(scenario, 1) / WAYS.len() as f64;
    for (row, way) in WAYS {
        let ours: Run<'_> = Box::new(move || {
            let everything = measure(scenario, rate, Way::Everything)?;
            let conflated = measure(scenario, rate, way)?;
            Ok(compare(&everything, &conflated))
        });
        session.row(outcome, row, vec![(Side::Ours, seconds, ours)])?;
    }
    Ok(())
}

/// What a server did in the measured time, for each second of it.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    /// Processors that it kept busy.
    processors: f64,
    /// Updates that came in.
    taken: f64,
    /// Update messages that went out.
    sent: f64,
}

fn compare(everything: &Work, conflated: &Work) -> Metrics {
    let mut metrics = Metrics::default();
    metrics.push("everything_processors", everything.processors);
    metrics.push("conflated_processors", conflated.processors);
    // Both at the same rate of the source: a source that was held up would flatter.
    let (whole, part) = (everything.processors / everything.taken, conflated.processors / conflated.taken);
    metrics.push("cpu_ratio", part / whole);
    metrics.push("everything_in_per_s", everything.taken);
    metrics.push("conflated_in_per_s", conflated.taken);
    metrics.push("everything_out_per_s", everything.sent);
    metrics.push("conflated_out_per_s", conflated.sent);
    metrics
}

/// Configuration of the server.
fn configuration(scenario: &Scenario, way: Way) -> String {
    let by_time = |ripple: bool| {
        let interval = (scenario.warmup * 1e3).round();
        format!(
            "[conflation]\nupdate_aggregation = [\"{SERVICE}\"]\naggregation_interval_ms = [\"{interval}\"]\nripple = {ripple}\n"
        )
    };
    let own = match way {
        Way::Everything => String::new(),
        Way::ByTime => by_time(true),
        Way::ByTimePlain => by_time(false),
        Way::JustInTime => {
            format!("{SMALL_QUEUES}[conflation]\njust_in_time = \"all\"\nstart_percent = 5\nend_percent = 1\n")
        }
    };
    format!("{}\n[http]\nport = 0\n{own}", scenario.server_toml)
}

fn measure(scenario: &Scenario, rate: f64, way: Way) -> Result<Work, Fault> {
    let scenario = &Scenario { server_toml: configuration(scenario, way), common: 1.0, ..scenario.clone() };
    let mut chain = Chain::start(scenario, Nodes::loopback(), Spacing::Even, None)?;
    if way == Way::JustInTime {
        return beside_slow(scenario, rate, &mut chain);
    }
    let items = format!("RDT{{0..{}}}", scenario.items - 1);
    let mut clients = chain.client(scenario, &items, "-I 0.5 --seconds 3600 -l 1")?;
    wait_for_images(&mut clients, u64::from(scenario.items) * u64::from(scenario.mounts))?;
    watch(scenario, rate, &mut chain, way)
}

/// The server at the source's rate, after the warm-up.
fn watch(scenario: &Scenario, rate: f64, chain: &mut Chain, way: Way) -> Result<Work, Fault> {
    chain.publish(Some(rate / scenario.fan()))?;
    // At the earliest after an interval something goes out by time.
    pause(2.0 * scenario.warmup)?;
    let web = chain.web().ok_or("the server has no page")?.to_owned();
    let target = web.parse().map_err(|e| format!("{web}: {e}"))?;
    let look = Client::new(target, None).map_err(|e| e.to_string())?;
    let now = || -> Result<(u64, u64, [f64; 3]), Fault> {
        let text = look.get_text("/metrics").map_err(|e| Fault::Failed(e.to_string()))?;
        let text = String::from_utf8_lossy(&text);
        let counts = ["updates_in", "updates_out", "updates_conflated"].map(|name| counted(&text, name));
        Ok((net::clock::now(), chain.cpu()[1].ok_or("no processor time of the server")?, counts))
    };
    let (began, used, before) = now()?;
    pause(scenario.seconds)?;
    let (ended, used_then, after) = now()?;
    let seconds = (ended - began) as f64 / 1e9;
    let [taken, handed_out, spared] = [0, 1, 2].map(|n| (after[n] - before[n]) / seconds);
    // Updates merged for one client alone were counted when they were handed out to it.
    let sent = if way == Way::JustInTime { handed_out - spared } else { handed_out };
    Ok(Work { processors: (used_then - used) as f64 / 1e9 / seconds, taken, sent })
}

/// The sum of a counter of all P2PSs in the text of `/metrics`.
fn counted(text: &str, name: &str) -> f64 {
    let name = format!("quoteway_p2ps_{name}_total");
    let is_of = |line: &&str| line.strip_prefix(&name).is_some_and(|rest| rest.starts_with(['{', ' ']));
    text.lines().filter(is_of).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// The clients take a part of what there is.
fn beside_slow(scenario: &Scenario, rate: f64, chain: &mut Chain) -> Result<Work, Fault> {
    let options = SocketOptions { receive_buffer: Some(65_536), ..SocketOptions::default() };
    let mut swarm = Swarm::new(chain.endpoint()?, options)?;
    swarm.bring(scenario.mounts as usize)?;
    let service = swarm.service(SERVICE)?;
    for first in (0..scenario.items).step_by(BATCH as usize) {
        let names: Vec<String> = (first..scenario.items.min(first + BATCH)).map(|item| format!("RDT{item}")).collect();
        let payload = Payload { items: Some(names.iter().map(String::as_bytes).collect()), ..Payload::default() };
        let mut body = vec![0; 70_000];
        let mut w = rwf::wire::Writer::new(&mut body);
        payload.encode(&mut w).map_err(|e| Fault::Failed(format!("a batch: {e}")))?;
        let asks = RequestMsg {
            flags: RequestFlags::STREAMING.with(RequestFlags::HAS_BATCH),
            key: MsgKey { service_id: Some(service), ..MsgKey::EMPTY },
            container: DataType::ELEMENT_LIST,
            body: w.into_written(),
            ..RequestMsg::new(rwf::msg::Domain::MARKET_PRICE, 5 + 2 * first as i32)
        };
        swarm.say_all(|w| asks.encode(w))?;
    }
    let images = u64::from(scenario.items) * u64::from(scenario.mounts);
    swarm.until("images", |crowd| crowd.images >= images)?;
    let is_over = AtomicBool::new(false);
    let may_take = rate * scenario.message_size() as f64 * SLOWLY;
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| take(&mut swarm, may_take, &is_over));
        let work = watch(scenario, rate, chain, Way::JustInTime);
        is_over.store(true, Ordering::Relaxed);
        let closed = slow.join().map_err(|_| "the slow clients have failed")??;
        if closed > 0 {
            return Err(Fault::Failed(format!("{closed} slow clients were cut off")));
        }
        work
    })
}

/// All of them take so many bytes a second together. How many were cut off.
fn take(swarm: &mut Swarm, per_second: f64, is_over: &AtomicBool) -> Result<usize, Fault> {
    let (began, before) = (net::clock::now(), swarm.crowd().bytes);
    let all = swarm.crowd().present.clone();
    let mut reading = true;
    while !is_over.load(Ordering::Relaxed) {
        let may = (net::clock::now() - began) as f64 / 1e9 * per_second;
        let wanted = ((swarm.crowd().bytes - before) as f64) < may;
        if wanted != reading {
            reading = wanted;
            for &conn in &all {
                swarm.set_reading(conn, reading);
            }
        }
        swarm.turn(Duration::from_millis(1))?;
    }
    Ok(swarm.crowd().closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_all_ports() {
        let text = "# HELP\nquoteway_p2ps_updates_in_total{rssl=\"a\"} 5\nquoteway_p2ps_updates_in_total{rssl=\"b\"} 7\n\
                    quoteway_p2ps_updates_in_total_other 9\n";
        assert!((counted(text, "updates_in") - 12.0).abs() < 1e-9);
    }

    #[test]
    fn processors_are_compared_at_the_same_rate_of_the_source() {
        let everything = Work { processors: 0.8, taken: 1_000.0, sent: 100_000.0 };
        let conflated = Work { processors: 0.2, taken: 500.0, sent: 10_000.0 };
        let metrics = compare(&everything, &conflated);
        assert_eq!(metrics.get("cpu_ratio"), Some(0.5), "half of the updates came: the ratio is not a quarter");
    }
}
