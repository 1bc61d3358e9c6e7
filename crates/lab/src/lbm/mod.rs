//! LBM beside the same system calls without a protocol, and beside Aeron's C media driver on the same work.
//!
//! Each source and each receiver is a process, for all three; Aeron has its driver as one more on each host. They run on this host by
//! loopback, or each on a host of its own (`lan`). As fast as it goes, a receiver tells the source by a page of shared memory how
//! far it is, so that nothing is lost for want of room in a socket: what is found is the highest rate at which the receiver keeps up.
//! (Aeron has a flow control of its own.) At a rate nobody holds the source back, as in the report.

mod distances;
mod lan;
mod one_way;
pub mod process;
mod round_trips;
mod search;
mod stream;
mod trial;
pub mod work;

use std::path::Path;

use serde_json::json;

use super::results::{Metrics, Outcome, Side};
use super::scenario::grid::{self, Cell, Measure};
use super::scenario::{Point, Scenario};
use super::session::{Run, Session};
use lan::Lan;
use measure::process::Fault;
use trial::Trial;

/// Receive buffer of LBT-RM, in bytes: the report's (`transport_lbtrm_receiver_socket_buffer`).
pub(crate) const RECEIVE_BUFFER: u32 = 8_388_608;
/// Seconds of a run that are not measured: start, topic resolution, end.
const AROUND: f64 = 0.5;
/// Seconds of a probe of a search, at most.
const PROBE_MAX: f64 = 2.0;
pub(crate) const SIDES: [Side; 3] = [Side::Ours, Side::Floor, Side::Aeron];

/// Seconds that a scenario is expected to take.
pub fn estimate(scenario: &Scenario, pairs: u32, is_quick: bool, with_aeron: bool) -> f64 {
    let cells = scenario.lbm.as_ref().and_then(|grid| grid.cells().ok()).unwrap_or_default();
    let searches = cells.iter().filter(|c| c.rate == Point::Search).count() as f64;
    let sides = if with_aeron { 3.0 } else { 2.0 };
    sides * (cells.len() as f64 * f64::from(pairs) * seconds(scenario) + searches * search_seconds(scenario, is_quick))
}

fn seconds(scenario: &Scenario) -> f64 {
    scenario.seconds + scenario.warmup + AROUND
}

fn search_seconds(scenario: &Scenario, is_quick: bool) -> f64 {
    f64::from(steps(is_quick)) * (scenario.seconds.min(PROBE_MAX) + scenario.warmup + AROUND)
}

fn steps(is_quick: bool) -> u32 {
    if is_quick { search::QUICK_STEPS } else { search::STEPS }
}

/// Runs the scenario.
///
/// # Errors
/// The lab was stopped, or the grid makes no sense.
pub fn run(session: &mut Session, scenario: &Scenario, outcome: &mut Outcome) -> Result<(), Fault> {
    let grid = scenario.lbm.as_ref().ok_or("the scenario has no [lbm] grid")?;
    let aeron = Some(session.places.peers.join("aeron-peer"));
    let aeron = aeron.filter(|program| session.peers.contains(&Side::Aeron) && program.is_file());
    if aeron.is_none() {
        session.note(outcome, "Aeron is left out, or not built: make bench-peers".to_owned());
    }
    let here = Lan::loopback();
    let mut apart = None;
    let cells = grid.cells()?;
    let has_loopback = cells.iter().any(|cell| !cell.veth);
    for mut cell in cells {
        if cell.veth && session.places.loopback {
            if has_loopback {
                session.note(outcome, "veth is left out: --loopback".to_owned());
                continue;
            }
            // Scenarios that are between hosts only run on loopback then; the table of deviations says so.
            cell.veth = false;
        }
        if cell.veth && apart.is_none() {
            apart = Some(Lan::make(1 + cell.paths * cell.receivers, grid.mtu)?);
        }
        let lan = apart.as_ref().filter(|_| cell.veth).unwrap_or(&here);
        let trial = Trial { scenario, cell, lan, aeron: aeron.as_deref() };
        row(session, outcome, &trial)?;
    }
    Ok(())
}

/// Aeron one way by UDP on loopback, each message at once (a rate) or as fast as it goes, for scenarios of another kind: a publisher,
/// a subscriber and a driver that yield.
///
/// # Errors
/// A process fails, or the lab was stopped.
pub fn aeron(program: &Path, scenario: &Scenario, rate: Option<f64>) -> Result<Metrics, Fault> {
    let cell = Cell {
        measure: if rate.is_some() { Measure::OneWay } else { Measure::Stream },
        medium: grid::Medium::Lbtru,
        payload: scenario.message_size(),
        datagram: 1_408,
        offload: false,
        rate: rate.map_or(Point::Max, Point::Rate),
        veth: false,
        profile: grid::Profile::Latency,
        paths: 1,
        receivers: 1,
        idle: grid::Idle::Yield,
    };
    Trial { scenario, cell, lan: &Lan::loopback(), aeron: Some(program) }.lossless(Side::Aeron)
}

fn row(session: &mut Session, outcome: &mut Outcome, trial: &Trial<'_>) -> Result<(), Fault> {
    let (label, expected) = (trial.cell.label(), seconds(trial.scenario));
    let here = SIDES.into_iter().filter(|side| *side != Side::Aeron || trial.aeron.is_some());
    let mut sides: Vec<(Side, f64, Run<'_>)> = Vec::new();
    for side in here {
        if trial.cell.rate == Point::Search {
            let Some(rate) = find(session, outcome, trial, side)? else { continue };
            let mut rate = rate;
            sides.push((side, expected, Box::new(move || confirm(trial, side, &mut rate))));
        } else {
            sides.push((side, expected, Box::new(move || trial.lossless(side))));
        }
    }
    session.row(outcome, &label, sides)?;
    for (side, text) in unheld(trial.scenario, outcome, &label) {
        session.note(outcome, format!("{label}, {side}: {text}"));
    }
    let distances = outcome.rows.iter().find(|row| row.label == label).and_then(distances::by_distance);
    if let Some(text) = distances {
        session.note(outcome, format!("{label}: {text}"));
    }
    Ok(())
}

/// Which sides have not held the rate of a row in how many runs.
fn unheld(scenario: &Scenario, outcome: &Outcome, label: &str) -> Vec<(Side, String)> {
    let Some(row) = outcome.rows.iter().find(|r| r.label == label) else { return Vec::new() };
    let failed = |side: Side| row.side(side).iter().filter(|m| m.get("held") == Some(0.0)).count();
    let of = |side: Side| {
        let (failed, runs) = (failed(side), row.side(side).len());
        (failed > 0).then(|| {
            let criterion = scenario.criterion();
            (
                side,
                format!(
                    "the rate was not held in {failed} of {runs} runs (held means: all of it arrives, {criterion})"
                ),
            )
        })
    };
    SIDES.into_iter().filter_map(of).collect()
}

/// The highest rate of a source that is held: what goes without a rate is where the search begins.
fn find(session: &mut Session, outcome: &mut Outcome, trial: &Trial<'_>, side: Side) -> Result<Option<f64>, Fault> {
    let scenario = Scenario { seconds: trial.scenario.seconds.min(PROBE_MAX), ..trial.scenario.clone() };
    let Trial { cell, .. } = *trial;
    if let Some(rate) = session.found(outcome, &cell.label(), side) {
        session.advance(search_seconds(trial.scenario, session.is_quick));
        return Ok(Some(rate));
    }
    let unpaced = Trial { scenario: &scenario, cell: Cell { measure: Measure::Stream, ..cell }, ..*trial };
    let label = cell.label();
    let top = match unpaced.run(side) {
        Err(Fault::Failed(why)) => {
            session.note(outcome, format!("{label}, {side}: no search, unpaced it {why}"));
            return Ok(None);
        }
        other => other?.get("rate").unwrap_or(0.0) / cell.paths as f64,
    };
    let mut lowest = None;
    let found = search::highest(top, steps(session.is_quick), |rate| {
        session.say(&format!("{} {label}: {side}, search at {:.3} M/s", outcome.name, rate / 1e6));
        let probe = Trial { scenario: &scenario, cell: Cell { rate: Point::Rate(rate), ..cell }, ..*trial };
        let result = match probe.run(side) {
            Err(Fault::Failed(why)) => {
                session.note(outcome, format!("{label}, {side}, search at {:.3} M/s: {why}", rate / 1e6));
                return Ok(false);
            }
            other => other?,
        };
        session.record(&json!({
            "record": "probe", "scenario": outcome.name, "row": label, "side": side.name(), "asked": rate,
            "figures": result.json(),
        }));
        lowest = Some((rate, result.get("rate").unwrap_or(0.0), result.get("call_max_us").unwrap_or(0.0)));
        Ok(result.get("held") == Some(1.0))
    })?;
    session.advance(search_seconds(trial.scenario, session.is_quick));
    if let Some(rate) = found {
        session.record_found(outcome, &label, side, rate);
    }
    if found.is_none() {
        let last = lowest.map_or(String::new(), |(rate, came, longest)| {
            format!("; of the last tried, {rate:.0} a second, {came:.0} came, the longest latency was {longest:.0} us")
        });
        let criterion = scenario.criterion();
        session
            .note(outcome, format!("{label}, {side}: no rate up to {:.3} M/s was held ({criterion}){last}", top / 1e6));
    }
    Ok(found)
}

/// Runs at a rate that was found, and below it if it is not held any more; what is reported was held.
fn confirm(trial: &Trial<'_>, side: Side, rate: &mut f64) -> Result<Metrics, Fault> {
    for _ in 0..5 {
        let cell = Cell { rate: Point::Rate(*rate), ..trial.cell };
        let mut metrics = Trial { cell, ..*trial }.run(side)?;
        if metrics.get("held") == Some(1.0) {
            metrics.figures.retain(|(name, _)| name != "lost");
            return Ok(metrics);
        }
        *rate *= 0.92;
    }
    Err(Fault::Failed(format!("the rate that was found is not held any more ({})", trial.scenario.criterion())))
}
