//! Updates through source, server and client at a rate; the bare loops and other products on the same work.
//!
//! A run: the processes start, the client opens its watchlist while nothing is sent, then the source is given its rate.
//! The first `warmup` seconds at the rate do not count; where the observer is there, its rule says
//! how many do not. Figures come from the client's table, an interval a line, or from the observer.

use super::chain::{PATIENCE, Spacing, words};
use super::peers;
use super::product;
use super::results::{Metrics, Outcome, Side};
use super::run::{Ask, ours};
use super::scenario::{Point, Scenario};
use super::session::{Places, Run, Session};
use measure::process::Fault;

/// Steps of the search for the highest rate that is held.
const STEPS: usize = 6;
/// How long the bare source sleeps where ours blocks.
const FLOOR_TICK_NS: u64 = 50_000;
/// After the search: how often the rate is lowered until most runs hold it, and to what share.
const LOWERED: (usize, f64) = (4, 0.85);
/// The row of the rate that was sought.
const SEARCH: &str = "search";
/// The relay's messages cannot be shorter.
const FLOOR_SIZE_MIN: usize = 32;

/// Seconds that a scenario is expected to take.
pub fn estimate(scenario: &Scenario, pairs: u32) -> f64 {
    let points = scenario.points().unwrap_or_default();
    let row = |point: Point| {
        let peers = scenario.peers_at(point).unwrap_or_default();
        let peers: f64 = peers.iter().map(|p| peers::seconds(*p, scenario)).sum();
        let sampled = scenario.sampled_at(point).is_ok_and(|run| run.is_some());
        let kinds = 1 + u8::from(scenario.bursts > 0) + u8::from(!scenario.variant.is_empty()) + u8::from(sampled);
        let ours = f64::from(kinds) * ours_seconds(scenario);
        (ours + floor_seconds(scenario) + peers) * f64::from(pairs)
    };
    let search = points.iter().filter(|p| **p == Point::Search).count() as f64;
    points.iter().map(|p| row(*p)).sum::<f64>() + search * STEPS as f64 * ours_seconds(scenario)
}

pub(super) fn ours_seconds(scenario: &Scenario) -> f64 {
    let streams = f64::from(scenario.items) * scenario.fan();
    let records = if scenario.observe { 0.5 } else { 0.0 };
    scenario.seconds + scenario.warmup + 1.4 + records + streams / 500_000.0
}

pub(super) fn floor_seconds(scenario: &Scenario) -> f64 {
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
                let Some(mut rate) = found(session, scenario, outcome, ceiling)? else { continue };
                for step in 0.. {
                    at(session, scenario, outcome, point, Some(rate))?;
                    if is_mostly_held(outcome, &label) || step == LOWERED.0 {
                        break;
                    }
                    let text = format!(
                        "{label}: {:.2} M/s was found and not held again ({}); lowered",
                        rate / 1e6,
                        scenario.criterion()
                    );
                    session.note(outcome, text);
                    outcome.rows.retain(|r| r.label != label);
                    rate *= LOWERED.1;
                }
            }
        }
        if let Some(text) = unheld(scenario, outcome, &label) {
            session.note(outcome, text);
        }
    }
    Ok(())
}

/// The rate that an earlier call has found, or what a search finds.
fn found(
    session: &mut Session,
    scenario: &Scenario,
    outcome: &mut Outcome,
    ceiling: Option<f64>,
) -> Result<Option<f64>, Fault> {
    if let Some(rate) = session.found(outcome, SEARCH, Side::Ours) {
        session.advance(STEPS as f64 * ours_seconds(scenario));
        return Ok(Some(rate));
    }
    let found = search(session, scenario, outcome, ceiling)?;
    if let Some(rate) = found {
        session.record_found(outcome, SEARCH, Side::Ours, rate);
    }
    Ok(found)
}

/// The runs of all sides at a rate.
fn at(
    session: &mut Session,
    scenario: &Scenario,
    outcome: &mut Outcome,
    point: Point,
    rate: Option<f64>,
) -> Result<(), Fault> {
    let places = session.places.clone();
    let first = ask(&places, scenario, rate);
    let seconds = ours_seconds(scenario);
    let mut sides: Vec<(Side, f64, Run<'_>)> = vec![(Side::Ours, seconds, Box::new(move || ours(scenario, first)))];
    // Unpaced there are no bursts.
    if scenario.bursts > 0 && rate.is_some() {
        let even = Ask { pace: Spacing::Even, ..first };
        sides.push((Side::Smooth, seconds, Box::new(move || ours(scenario, even))));
    }
    if let Some(sampled) = scenario.sampled_at(point)? {
        sides.push((Side::Sampled, seconds, Box::new(move || ours(&sampled, first))));
    }
    if let Some(variant) = scenario.variant()? {
        sides.push((Side::Variant, seconds, Box::new(move || ours(&variant, first))));
    }
    sides.push((Side::Floor, floor_seconds(scenario), Box::new(move || floor(scenario, rate, "tcp"))));
    for peer in scenario.peers_at(point)?.into_iter().filter(|p| session.peers.contains(p)) {
        let places = session.places.clone();
        let run: Run<'_> = Box::new(move || peers::run(peer, &places, scenario, rate));
        sides.push((peer, peers::seconds(peer, scenario), run));
    }
    session.row(outcome, &point.to_string(), sides)
}

/// What a run of ours is asked for.
pub(super) fn ask<'a>(places: &'a Places, scenario: &Scenario, rate: Option<f64>) -> Ask<'a> {
    let pace = if scenario.bursts > 0 { Spacing::Bursts(scenario.bursts) } else { Spacing::Even };
    Ask { rate, pace, nodes: places.place() }
}

/// Whether more than half of the runs of a row held its rate.
fn is_mostly_held(outcome: &Outcome, label: &str) -> bool {
    let row = outcome.rows.iter().find(|r| r.label == label);
    row.is_some_and(|row| row.has(Side::Ours) && row.is_held(Side::Ours))
}

/// A note for a rate that was asked for and not held.
fn unheld(scenario: &Scenario, outcome: &Outcome, label: &str) -> Option<String> {
    let row = outcome.rows.iter().find(|r| r.label == label)?;
    let failed = row.side(Side::Ours).iter().filter(|m| m.get("held") == Some(0.0)).count();
    (failed > 0).then(|| {
        let runs = row.side(Side::Ours).len();
        let criterion = scenario.criterion();
        format!(
            "{label}: the rate was not held in {failed} of {runs} runs (held means: all of it arrives, {criterion})"
        )
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
        None => unpaced(scenario, ask(&session.places, scenario, None))?,
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

/// How fast it goes when nothing holds it, to search below. Where that run is void, because clients that fall behind are cut
/// off, the bare loop's figure.
fn unpaced(scenario: &Scenario, ask: Ask) -> Result<f64, Fault> {
    let metrics = match ours(scenario, ask) {
        Err(Fault::Failed(_)) => floor(scenario, None, "tcp")?,
        other => other?,
    };
    Ok(metrics.get("rate").unwrap_or(0.0))
}

fn is_held(session: &mut Session, scenario: &Scenario, outcome: &mut Outcome, rate: f64) -> Result<bool, Fault> {
    match ours(scenario, ask(&session.places, scenario, Some(rate))) {
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

/// How long the bare source sleeps between two looks at its schedule, in nanoseconds.
fn tick(scenario: &Scenario) -> u64 {
    // Where our source sleeps until the next update is due, the bare one does; it has no timer of its own.
    if scenario.idle == "block" { FLOOR_TICK_NS } else { 0 }
}

/// One run of the bare loop of the same shape: evenly paced, on loopback, unbound. `middle` is what its link in the middle is, where there are
/// relays ([`floor::Middle`]).
pub(super) fn floor(scenario: &Scenario, rate: Option<f64>, middle: &str) -> Result<Metrics, Fault> {
    let fans = scenario.mounts > 1;
    let part = if fans {
        // The server is the writer; source and reader are the others.
        let wide = (scenario.common * 100.0).round();
        format!("fan --connections {} --wide {wide}", scenario.mounts)
    } else {
        format!("relay --relays {} --middle {middle}", scenario.servers())
    };
    let load = format!(
        "--rate {} --seconds {} --size {} --socket-buffer {} --tick {}",
        rate.map_or(0.0, |r| r / scenario.fan()),
        scenario.seconds / 0.75,
        scenario.message_size().max(FLOOR_SIZE_MIN),
        scenario.socket_buffer,
        tick(scenario),
    );
    let mut process = product::start_part("floor", &[], &words(&format!("{part} {load}")))?;
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
