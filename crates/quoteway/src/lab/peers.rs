//! Other products on the same work, started as they are: ETA Java from the interop folder, nats-server and Aeron from the folder
//! that `make bench-peers` fills.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::nats;
use super::process::{Fault, Process};
use super::rows::{Metrics, Side};
use super::scenario::Scenario;
use super::session::Places;

/// Seconds that a run of a peer is expected to take.
pub fn seconds(peer: Side, scenario: &Scenario) -> f64 {
    match peer {
        // The virtual machine's start, its images, its warm-up.
        Side::Eta => scenario.seconds + 3.0 + f64::from(WARMUP) + f64::from(scenario.items) / 50_000.0,
        _ => scenario.seconds + scenario.warmup + 2.0,
    }
}

/// One run of a peer; `rate` is deliveries a second, `None` as many as go.
///
/// # Errors
/// It is not there, or fails.
pub fn run(peer: Side, places: &Places, scenario: &Scenario, rate: Option<f64>) -> Result<Metrics, Fault> {
    match peer {
        Side::Eta => eta_pair(&places.interop, scenario, rate),
        Side::Nats => nats::run(&places.peers, scenario, rate),
        Side::Aeron => aeron(&places.peers, scenario, rate),
        other => Err(Fault::Failed(format!("{other} is no peer"))),
    }
}

/// Seconds after the last image in which the compiler of the virtual machine gets its turn.
const WARMUP: u32 = 5;

/// A Java command on the peer's classes, or what is missing.
fn java(interop: &Path, classes: &str) -> Result<Command, Fault> {
    let missing = || {
        let interop = interop.display();
        format!("ETA Java is not built: mvn -q -f {interop}/bench compile && mvn -q -f {interop}/codec-bench compile")
    };
    let jars = std::fs::read_to_string(interop.join("bench/target/classpath")).map_err(|_| missing())?;
    let classes = interop.join(classes);
    if !classes.is_dir() {
        return Err(missing().into());
    }
    let mut command = Command::new("java");
    command.arg("-cp").arg(format!("{}:{}", classes.display(), jars.trim()));
    Ok(command)
}

/// A provider and a consumer of ETA Java, connected directly, at a rate; `None` is as many as go.
///
/// # Errors
/// It is not there, or fails.
pub fn eta_pair(interop: &Path, scenario: &Scenario, rate: Option<f64>) -> Result<Metrics, Fault> {
    let mut command = java(interop, "bench/target/classes")?;
    // As its own script runs it.
    command.args(["-Xms1g", "-Xmx1g", "-XX:+UseParallelGC", "quoteway.bench.EtaPair"]);
    let rate = rate.map_or(0, |r| (r / scenario.fan()).round() as u64);
    let seconds = scenario.seconds.ceil() as u64;
    for (flag, value) in [
        ("--rate", rate),
        ("--seconds", seconds.max(1)),
        ("--warmup", u64::from(WARMUP)),
        ("--items", u64::from(scenario.items)),
        ("--mounts", u64::from(scenario.mounts)),
    ] {
        command.arg(flag).arg(value.to_string());
    }
    let report = Process::start("ETA Java pair", &mut command)?.json(60.0)?;
    let mut metrics = Metrics::default();
    let mut take = |name: &str, key: &str, unit: f64| {
        if let Some(value) = report[key].as_f64() {
            metrics.push(name, value * unit);
        }
    };
    take("rate", "rate_per_s", 1.0);
    for name in ["p50_us", "p90_us", "p99_us", "max_us"] {
        take(name, name, 1.0);
    }
    take("images_s", "images_ms", 1e-3);
    Ok(metrics)
}

/// Aeron one to one over loopback UDP: publisher, subscriber and media driver, a process each, all of which yield.
fn aeron(peers: &Path, scenario: &Scenario, rate: Option<f64>) -> Result<Metrics, Fault> {
    let program = peers.join("aeron-peer");
    if !program.is_file() {
        return Err(format!("Aeron's program is not built ({}): make bench-peers", program.display()).into());
    }
    super::lbm::aeron(&program, scenario, rate.map(|rate| rate / scenario.fan()))
}

/// The field dictionary, outside of the project as everywhere.
fn dictionary() -> PathBuf {
    let folder =
        std::env::var_os("QUOTEWAY_DICTIONARY").map_or_else(|| PathBuf::from("../shared/dictionary"), PathBuf::from);
    folder.join("RDMFieldDictionary")
}

/// Nanoseconds a message of ETA Java's codec on the reference updates: one figure each of `decode_74` and so on.
///
/// # Errors
/// It is not there, or fails.
pub fn eta_codec(interop: &Path, updates: &str) -> Result<serde_json::Value, Fault> {
    let mut command = java(interop, "codec-bench/target/classes")?;
    let dictionary = dictionary();
    if !dictionary.is_file() {
        return Err(format!("no dictionary {}: set QUOTEWAY_DICTIONARY", dictionary.display()).into());
    }
    command.arg("quoteway.codec.CodecBench").arg(dictionary).args(updates.split_whitespace());
    Process::start("ETA Java codec", &mut command)?.json(120.0)
}
