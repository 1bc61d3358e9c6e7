//! Heavy load and ordinary outages: what many consumers, or a hostile one, cost those who watch.
//!
//! | act | what is done | figures |
//! |---|---|---|
//! | `idle` | consumers connect, log in and are silent | bytes of the server for each |
//! | `storm` | all of them are gone at once and come back | how soon they are back, the longest silence of one who streams |
//! | `cycles` | consumers come and go | how much the server has grown from the first quarter to the end |
//! | `slow` | one that takes nothing and one that takes 10 KB/s stand beside the others | 99th percentile of the others, beside that without them |
//! | `hostile` | 65,535 names in batches that come together; 1,000 views of one item that are gone at once; 5,000 services that are lost at once | how much later an update of somebody else comes |
//!
//! A process may have only so many open files: `idle` and `storm` spread their consumers over several P2PSs behind one Source Distributor, and over as
//! many processes of consumers.
//!
//! The load generators are ours and run in this process and in `test-client`: where processors are few they wait for each other, and
//! a silence that is measured is at least that of the server.

pub(super) mod swarm;
pub mod swarms;
mod watcher;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use measure::process::{Fault, pause};
use net::tcp::SocketOptions;
use rwf::msg::{Domain, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg};
use rwf::rdm::directory::{self, Action, Info, Part, Service, ServiceState};
use rwf::rdm::request::{Payload, View};
use rwf::{DataState, DataType, Qos, State, StateCode, StreamState};

use super::chain::{Chain, PATIENCE, Spacing};
use super::images::wait_for_images;
use super::memory::{settled, settled_size};
use super::nodes::Nodes;
use super::results::{Metrics, Outcome, Side};
use super::scenario::{Act, Point, Scenario, ScenarioError};
use super::session::{Run, Session};
use swarm::{Crowd, SERVICE, Swarm, request};
use swarms::Swarms;
use watcher::Watcher;

/// The item that is watched.
const WATCHED: &str = "RDT0";
/// Consumers that come and go together.
const TOGETHER: usize = 500;
/// Names that are asked for at once, and how many of them one batch can name: an element of a request has at most 64 KB.
const NAMES: u32 = 65_535;
const BATCH: usize = 7_000;
/// Views of one item, and fields of each.
const VIEWS: i32 = 1_000;
const FIELDS: i16 = 65;
/// Services of the provider that is lost, and items of each that somebody watches.
const SERVICES: u16 = 5_000;
const ITEMS_EACH: u32 = 4;
/// Bytes a second that a slow consumer takes.
const SLOWLY: u64 = 10_000;
/// Seconds for which is listened after an act.
const AFTERMATH: f64 = 2.0;

/// Seconds that the scenario is expected to take.
pub fn estimate(scenario: &Scenario, pairs: u32) -> f64 {
    let mounts = f64::from(scenario.mounts);
    let once = match scenario.load {
        Some(Act::Idle) => 10.0 + mounts / 5_000.0,
        Some(Act::Storm | Act::Cycles) => 10.0 + mounts / 2_500.0,
        Some(Act::Slow) => 2.0 * (scenario.warmup + scenario.seconds + 5.0),
        Some(Act::Hostile) | None => 40.0,
    };
    once * f64::from(pairs)
}

/// Runs the scenario.
///
/// # Errors
/// The lab was stopped.
pub fn run(session: &mut Session, scenario: &Scenario, outcome: &mut Outcome) -> Result<(), Fault> {
    let act = scenario.load.ok_or_else(|| Fault::Failed("a load needs an act".to_owned()))?;
    let seconds = estimate(scenario, 1);
    let one = |run: fn(&Scenario) -> Result<Metrics, Fault>| -> Vec<(Side, f64, Run<'_>)> {
        vec![(Side::Ours, seconds, Box::new(move || run(scenario)))]
    };
    match act {
        Act::Idle => session.row(outcome, "consumers", one(idle)),
        Act::Storm => session.row(outcome, "storm", one(storm)),
        Act::Cycles => session.row(outcome, "cycles", one(cycles)),
        Act::Slow => session.row(outcome, "others", one(slow)),
        Act::Hostile => {
            session.row(outcome, "batch", one(batch))?;
            session.row(outcome, "views", one(views))?;
            session.row(outcome, "services", one(services))
        }
    }
}

/// Updates a second of the item that is watched.
fn rate(scenario: &Scenario) -> Result<f64, Fault> {
    let points = scenario.points().map_err(|e: ScenarioError| Fault::Failed(e.to_string()))?;
    match points[..] {
        [Point::Rate(rate)] => Ok(rate),
        _ => Err(Fault::Failed("a load needs one rate".to_owned())),
    }
}

fn start(scenario: &Scenario) -> Result<(Chain, SocketAddr), Fault> {
    let servers = if scenario.is_split() { scenario.p2ps.max(1) } else { 1 };
    let wanted = u64::from(scenario.mounts.div_ceil(servers)) + 1_000;
    let files = net::rlimit::raise_open_files(wanted)
        .map_err(|e| Fault::Failed(format!("open files for {} consumers: {e}", scenario.mounts)))?;
    if files.soft < wanted {
        let (count, may) = (scenario.mounts, files.soft);
        return Err(Fault::Failed(format!(
            "{count} consumers need {wanted} open files a process, and {may} are allowed: raise `ulimit -Hn`, or `--set mounts={}`",
            may.saturating_sub(1_000) * u64::from(servers)
        )));
    }
    let chain = Chain::start(scenario, Nodes::loopback(), Spacing::Even, None)?;
    let server = chain.endpoint()?;
    Ok((chain, server))
}

/// A chain whose item is watched.
fn watched(scenario: &Scenario) -> Result<(Chain, SocketAddr, Watcher), Fault> {
    let (mut chain, server) = start(scenario)?;
    let mut watcher = Watcher::start(server, SERVICE, WATCHED);
    chain.publish(Some(rate(scenario)?))?;
    watcher.wait()?;
    Ok((chain, server, watcher))
}

/// What a consumer costs that has logged in and watches nothing.
fn idle(scenario: &Scenario) -> Result<Metrics, Fault> {
    let (chain, _) = start(scenario)?;
    let sizes =
        || chain.resident()[1].map(|bytes| bytes as f64).ok_or_else(|| Fault::Failed("no size of the servers".into()));
    let empty = sizes()?;
    let mut swarms = Swarms::start(chain.endpoints(), scenario.mounts)?;
    let seconds = swarms.bring()?;
    let full = settled_size(sizes)?;
    let mut metrics = Metrics::default();
    metrics.push("consumers", f64::from(scenario.mounts));
    metrics.push("logins_s", seconds);
    metrics.push("consumer_bytes", (full - empty) / f64::from(scenario.mounts));
    Ok(metrics)
}

/// All are gone at once, and come back, while one streams.
fn storm(scenario: &Scenario) -> Result<Metrics, Fault> {
    let (chain, _, mut watcher) = watched(scenario)?;
    let mut swarms = Swarms::start(chain.endpoints(), scenario.mounts)?;
    swarms.bring()?;
    pause(1.0)?;
    watcher.silence_ms();
    pause(1.0)?;
    let calm = watcher.silence_ms();
    let before = chain.cpu()[1];
    swarms.drop_all()?;
    let back = swarms.bring()?;
    let used = chain.cpu()[1].zip(before).map(|(now, before)| now.saturating_sub(before));
    let silence = watcher.silence_ms();
    watcher.end()?;
    let mut metrics = Metrics::default();
    metrics.push("consumers", f64::from(scenario.mounts));
    metrics.push("back_s", back);
    if let Some(used) = used {
        metrics.push("server_cpu_us", used as f64 / 1e3 / f64::from(scenario.mounts));
    }
    metrics.push("silence_before_ms", calm);
    metrics.push("silence_ms", silence);
    Ok(metrics)
}

/// Consumers come and go; `mounts` is how often.
fn cycles(scenario: &Scenario) -> Result<Metrics, Fault> {
    let (chain, server) = start(&Scenario { mounts: TOGETHER as u32, ..scenario.clone() })?;
    let mut swarm = Swarm::new(server, SocketOptions::default())?;
    let rounds = (scenario.mounts as usize).div_ceil(TOGETHER);
    let mut early = 0.0;
    for round in 0..rounds {
        swarm.bring(TOGETHER)?;
        swarm.drop_all()?;
        if round == rounds / 4 {
            early = settled(chain.server()?)?;
        }
    }
    let late = settled(chain.server()?)?;
    let mut metrics = Metrics::default();
    metrics.push("cycles", (rounds * TOGETHER) as f64);
    metrics.push("server_bytes", late);
    metrics.push("growth", late / early - 1.0);
    Ok(metrics)
}

/// The 99th percentile of those who take what they get, without and with two that do not.
fn slow(scenario: &Scenario) -> Result<Metrics, Fault> {
    let (alone, _) = percentile(scenario, false)?;
    let (beside, cut_off) = percentile(scenario, true)?;
    let mut metrics = Metrics::default();
    metrics.push("p99_alone_us", alone);
    metrics.push("p99_beside_us", beside);
    metrics.push("p99_ratio", beside / alone);
    metrics.push("cut_off", cut_off as f64);
    Ok(metrics)
}

fn percentile(scenario: &Scenario, with_slow: bool) -> Result<(f64, usize), Fault> {
    let (mut chain, server) = start(scenario)?;
    let flags = format!("-I 0.25 --warmup {} --seconds {} -l 1", scenario.warmup + 0.5, scenario.seconds);
    let mut client = chain.client(scenario, &format!("RDT{{0..{}}}", scenario.items - 1), &flags)?;
    wait_for_images(&mut client, u64::from(scenario.items) * u64::from(scenario.mounts))?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let slow = with_slow.then(|| scope.spawn(|| take_slowly(scenario, server, &is_over)));
        chain.publish(Some(rate(scenario)? / scenario.fan()))?;
        let result = client.json(PATIENCE);
        is_over.store(true, Ordering::Relaxed);
        let cut_off = slow.map_or(Ok(0), |thread| thread.join().map_err(|_| "the slow consumers have failed")?)?;
        let p99 = result?["p99_us"].as_f64().ok_or("the client gives no 99th percentile")?;
        Ok((p99, cut_off))
    })
}

/// One takes nothing, the other 10 KB a second, both have asked for everything. How many of them were cut off.
fn take_slowly(scenario: &Scenario, server: SocketAddr, is_over: &AtomicBool) -> Result<usize, Fault> {
    let small = SocketOptions { receive_buffer: Some(4_096), ..SocketOptions::default() };
    let mut swarm = Swarm::new(server, small)?;
    swarm.bring(2)?;
    let service = swarm.service(SERVICE)?;
    for item in 0..scenario.items {
        let name = format!("RDT{item}");
        swarm.say_all(|w| request(service, name.as_bytes(), 5 + item as i32).encode(w))?;
    }
    let (stalled, slow) = (swarm.crowd().present[0], swarm.crowd().present[1]);
    swarm.set_reading(stalled, false);
    let began = net::clock::now();
    while !is_over.load(Ordering::Relaxed) {
        let may = (net::clock::now() - began) / 1_000_000 * SLOWLY / 1_000;
        swarm.set_reading(slow, swarm.crowd().bytes < may);
        swarm.turn(Duration::from_millis(2))?;
    }
    Ok(swarm.crowd().closed)
}

/// What an act costs the one who watches: how much longer it hears nothing than from one update to the next, after the same without
/// the act.
fn lateness(
    scenario: &Scenario,
    watcher: &mut Watcher,
    act: impl FnOnce() -> Result<(), Fault>,
) -> Result<Metrics, Fault> {
    let period = 1_000.0 / rate(scenario)?;
    pause(0.5)?;
    watcher.silence_ms();
    pause(AFTERMATH)?;
    let calm = watcher.silence_ms();
    act()?;
    pause(AFTERMATH)?;
    let during = watcher.silence_ms();
    watcher.end()?;
    let mut metrics = Metrics::default();
    metrics.push("late_before_ms", (calm - period).max(0.0));
    metrics.push("late_ms", (during - period).max(0.0));
    Ok(metrics)
}

/// One asks for more names at once than anybody watches.
fn batch(scenario: &Scenario) -> Result<Metrics, Fault> {
    let (chain, server, mut watcher) = watched(scenario)?;
    let mut provider = publisher(&chain, 1, 0)?;
    let mut swarm = Swarm::new(server, SocketOptions::default())?;
    swarm.bring(1)?;
    let service = swarm.service(&service_name(0))?;
    let names: Vec<String> = (0..NAMES).map(|n| format!("{n:08x}")).collect();
    lateness(scenario, &mut watcher, || {
        for (part, names) in (0..).zip(names.chunks(BATCH)) {
            let payload = Payload { items: Some(names.iter().map(String::as_bytes).collect()), ..Payload::default() };
            let mut body = vec![0; 70_000];
            let mut w = rwf::wire::Writer::new(&mut body);
            payload.encode(&mut w).map_err(|e| Fault::Failed(format!("a batch: {e}")))?;
            let asks = RequestMsg {
                flags: RequestFlags(RequestFlags::STREAMING.0 | RequestFlags::HAS_BATCH.0),
                key: MsgKey { service_id: Some(service), ..MsgKey::EMPTY },
                container: DataType::ELEMENT_LIST,
                body: w.into_written(),
                ..RequestMsg::new(Domain::MARKET_PRICE, 5 + part * 10_000)
            };
            swarm.say(|w| asks.encode(w))?;
        }
        swarm.until("answers to the batches", |crowd| crowd.statuses >= u64::from(NAMES))?;
        provider.turn(Duration::ZERO)
    })
}

/// One has many views of the item that is watched, and is gone.
fn views(scenario: &Scenario) -> Result<Metrics, Fault> {
    let (_chain, server, mut watcher) = watched(scenario)?;
    let mut swarm = Swarm::new(server, SocketOptions::default())?;
    swarm.bring(1)?;
    let service = swarm.service(SERVICE)?;
    lateness(scenario, &mut watcher, || {
        for n in 0..VIEWS {
            let fields = (0..FIELDS).map(|field| (n as i16) * 7 + field + 1).collect();
            let payload = Payload { view: Some(View::Fields(fields)), ..Payload::default() };
            let mut body = [0; 4_096];
            let mut w = rwf::wire::Writer::new(&mut body);
            payload.encode(&mut w).map_err(|e| Fault::Failed(format!("a view: {e}")))?;
            let asks = RequestMsg {
                flags: RequestFlags(RequestFlags::STREAMING.0 | RequestFlags::HAS_VIEW.0),
                container: DataType::ELEMENT_LIST,
                body: w.into_written(),
                ..request(service, WATCHED.as_bytes(), 5 + n)
            };
            swarm.say(|w| asks.encode(w))?;
        }
        swarm.until("images of the views", |crowd| crowd.images >= VIEWS as u64)?;
        swarm.drop_all()
    })
}

/// A provider with many services is lost, all of whose items somebody watches.
fn services(scenario: &Scenario) -> Result<Metrics, Fault> {
    let (chain, server, mut watcher) = watched(scenario)?;
    let mut provider = publisher(&chain, SERVICES, ITEMS_EACH)?;
    let mut swarm = Swarm::new(server, SocketOptions::default())?;
    swarm.bring(1)?;
    let last = service_name(SERVICES - 1);
    swarm.service(&last)?;
    swarm.until("all services", |crowd| crowd.services.len() > usize::from(SERVICES))?;
    let ids = swarm.crowd().services.clone();
    let mut stream = 5;
    for (name, id) in ids.iter().filter(|(name, _)| name.as_str() != SERVICE) {
        for item in 0..ITEMS_EACH {
            let name = item_name(name, item);
            swarm.say(|w| request(*id, name.as_bytes(), stream).encode(w))?;
            stream += 1;
        }
    }
    let items = u64::from(SERVICES) * u64::from(ITEMS_EACH);
    swarm.until("images", |crowd| crowd.images >= items)?;
    let mut told = 0.0;
    let mut metrics = lateness(scenario, &mut watcher, || {
        provider.drop_all()?;
        let lost = |crowd: &Crowd| crowd.down.len() >= usize::from(SERVICES);
        told = swarm.until("the loss of all services", lost)?;
        Ok(())
    })?;
    metrics.push("told_s", told);
    Ok(metrics)
}

fn service_name(n: u16) -> String {
    format!("LAB{n}")
}

fn item_name(service: &str, n: u32) -> String {
    format!("{service}.{n}")
}

/// A non-interactive provider with so many services, and items in each.
fn publisher(chain: &Chain, services: u16, items: u32) -> Result<Swarm, Fault> {
    let mut provider = Swarm::of_providers(chain.publishers()?)?;
    provider.bring(1)?;
    let entry = |n: u16| {
        let info = Info {
            name: service_name(n),
            capabilities: vec![Domain::MARKET_PRICE],
            qos: vec![Qos::REALTIME_TICK],
            ..Info::default()
        };
        let state = ServiceState { up: true, accepting_requests: Some(true), status: None };
        Service { info: Some(Part::Set(info)), state: Some(Part::Set(state)), ..Service::new(n + 1, Action::Add) }
    };
    // In parts, as a message has a bound.
    let all: Vec<Service> = (0..services).map(entry).collect();
    for (part, some) in all.chunks(200).enumerate() {
        if part == 0 {
            let ask = directory::Request { stream_id: 2, streaming: true, service_id: None, filter: 63 };
            let mut refresh = directory::Refresh::answer(&ask, some.to_vec());
            refresh.solicited = false;
            provider.say(|w| refresh.encode(w))?;
        } else {
            let update =
                directory::Update { stream_id: 2, filter: Some(63), services: some.to_vec(), ..Default::default() };
            provider.say(|w| update.encode(w))?;
        }
        provider.turn(Duration::ZERO)?;
    }
    let mut stream = -5;
    for service in 0..services {
        for item in 0..items {
            let name = item_name(&service_name(service), item);
            let refresh = RefreshMsg {
                flags: RefreshFlags(RefreshFlags::REFRESH_COMPLETE.0 | RefreshFlags::CLEAR_CACHE.0),
                state: State::new(StreamState::OPEN, DataState::OK, StateCode::NONE, ""),
                key: Some(MsgKey { name_type: Some(1), ..MsgKey::item(service + 1, name.as_bytes()) }),
                ..RefreshMsg::new(Domain::MARKET_PRICE, stream)
            };
            provider.say(|w| refresh.encode(w))?;
            stream -= 1;
        }
    }
    provider.finish()?;
    Ok(provider)
}
