//! LBM beside the same system calls without a protocol, and beside Aeron's C media driver on the same work.
//!
//! A run of ours and of the bare loop is a process with two threads, one for each side; Aeron's has its driver as a third. Nobody blocks:
//! who has nothing to do yields. One way, the receiver tells the sender by memory how far it is, so that nothing is lost for want of
//! room in a socket: what is found is the highest rate at which the receiver keeps up. (Aeron has a flow control of its own.)

mod cell;
mod round_trips;
mod stream;
pub mod work;

use std::process::Command;

use super::process::{Fault, Process};
use super::rows::{Metrics, Outcome, Side};
use super::scenario::Scenario;
use super::session::{Run, Session};

pub use cell::{Cell, Grid};

/// Seconds of a run that are not measured: start, topic resolution, end.
const AROUND: f64 = 0.7;
const PATIENCE: f64 = 60.0;
/// Figures that a run may have.
const FIGURES: [&str; 9] =
    ["rate", "sender_cpu_ns", "receiver_cpu_ns", "p50_us", "p90_us", "p99_us", "p999_us", "max_us", "lost"];

/// Seconds that a scenario is expected to take.
pub fn estimate(scenario: &Scenario, pairs: u32) -> f64 {
    let cells = scenario.lbm.as_ref().and_then(|grid| grid.cells().ok()).unwrap_or_default();
    cells.len() as f64 * 3.0 * f64::from(pairs) * seconds(scenario)
}

fn seconds(scenario: &Scenario) -> f64 {
    scenario.seconds + scenario.warmup + AROUND
}

/// Runs the scenario.
///
/// # Errors
/// The lab was stopped, or the grid makes no sense.
pub fn run(session: &mut Session, scenario: &Scenario, outcome: &mut Outcome) -> Result<(), Fault> {
    let grid = scenario.lbm.as_ref().ok_or("the scenario has no [lbm] grid")?;
    let peer = if session.peers.contains(&Side::Aeron) { Some(session.places.peers.join("aeron-peer")) } else { None };
    let peer = peer.filter(|program| program.is_file());
    if peer.is_none() {
        session.note(outcome, "Aeron is left out, or not built: make bench-peers".to_owned());
    }
    for cell in grid.cells()? {
        let expected = seconds(scenario);
        let mut sides: Vec<(Side, f64, Run<'_>)> = vec![
            (Side::Ours, expected, Box::new(|| part(scenario, &cell, "ours"))),
            (Side::Floor, expected, Box::new(|| part(scenario, &cell, "floor"))),
        ];
        if let Some(program) = &peer {
            let arguments = cell.aeron_arguments();
            let run = move || {
                measured(&mut Process::start("Aeron", Command::new(program).args(&arguments).args(times(scenario)))?)
            };
            sides.push((Side::Aeron, expected, Box::new(run)));
        }
        session.row(outcome, &cell.label(), sides)?;
    }
    Ok(())
}

fn times(scenario: &Scenario) -> [String; 4] {
    ["--seconds".to_owned(), scenario.seconds.to_string(), "--warmup".to_owned(), scenario.warmup.to_string()]
}

fn part(scenario: &Scenario, cell: &Cell, side: &str) -> Result<Metrics, Fault> {
    let mut args: Vec<String> = ["lab", "part", "lbm", "--side", side].map(str::to_owned).to_vec();
    args.extend(cell.arguments());
    args.extend(times(scenario));
    measured(&mut Process::quoteway(side, &[], &args)?)
}

fn measured(process: &mut Process) -> Result<Metrics, Fault> {
    let report = process.json(PATIENCE)?;
    let mut metrics = Metrics::default();
    for name in FIGURES {
        let value = report[name].as_f64().or_else(|| if name == "rate" { report["rate_per_s"].as_f64() } else { None });
        if let Some(value) = value {
            metrics.push(name, value);
        }
    }
    if metrics.get("lost").is_some_and(|lost| lost > 0.0) {
        return Err(process.failed(&format!("lost {} messages", report["lost"])));
    }
    Ok(metrics)
}
