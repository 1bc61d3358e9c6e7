//! Other products on the same work, started as they are: ETA Java from the interop folder, nats-server and Aeron from the folder
//! that `make bench-peers` fills.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::nats;
use super::results::{Metrics, Side};
use super::run as one_run;
use super::scenario::Scenario;
use super::session::Places;
use measure::observer::analysis::analyse;
use measure::observer::{Received, Sent, read_received, read_sent};
use measure::process::{Fault, Process};

/// Seconds that a run of a peer is expected to take.
pub fn seconds(peer: Side, scenario: &Scenario) -> f64 {
    match peer {
        // The virtual machine's start, its images, its warm-up.
        Side::Eta => scenario.seconds + 3.0 + f64::from(warmup(scenario)) + f64::from(scenario.items) / 50_000.0,
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
const QUICK_WARMUP: u32 = 2;

/// The warm-up of a run: shorter where the run itself only shows that everything works.
fn warmup(scenario: &Scenario) -> u32 {
    if scenario.seconds < 1.0 { QUICK_WARMUP } else { WARMUP }
}

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

/// A provider and a consumer of ETA Java, connected directly, at a rate; `None` is as many as go. Both record what they see for our
/// observer; what was to be sent before its virtual machines were warm does not count.
///
/// # Errors
/// It is not there, or fails.
pub fn eta_pair(interop: &Path, scenario: &Scenario, rate: Option<f64>) -> Result<Metrics, Fault> {
    let mut command = java(interop, "bench/target/classes")?;
    // As its own script runs it.
    command.args(["-Xms1g", "-Xmx1g", "-XX:+UseParallelGC", "quoteway.bench.EtaPair"]);
    let folder = tempfile::tempdir().map_err(|e| format!("no folder for the records: {e}"))?;
    let seconds = scenario.seconds.ceil().max(1.0);
    let warm = Scenario { seconds, warmup: f64::from(warmup(scenario)), ..scenario.clone() };
    let plan = one_run::plan(&warm, rate, folder.path());
    let source_rate = rate.map_or(0, |r| (r / scenario.fan()).round() as u64);
    for (flag, value) in [
        ("--rate", source_rate),
        ("--seconds", seconds as u64),
        ("--warmup", u64::from(warmup(scenario))),
        ("--items", u64::from(scenario.items)),
        ("--mounts", u64::from(scenario.mounts)),
        ("--shuffle", u64::from(scenario.shuffle || scenario.order == "random")),
        ("--observe-every", u64::from(plan.client.every)),
        ("--observe-capacity", plan.client.capacity.max(plan.source.capacity) as u64),
    ] {
        command.arg(flag).arg(value.to_string());
    }
    command.arg("--observe").arg(folder.path());
    let mut pair = Process::start("ETA Java pair", &mut command)?;
    let report = pair.json(60.0)?;
    let observed = warm_records(folder.path(), report["measured_from_ns"].as_u64().unwrap_or(0));
    let (sent, received, heads, connections) = observed.map_err(|why| pair.failed(&why.to_string()))?;
    let mut analysis = analyse(&sent, &[received], heads.every);
    if connections > 1 {
        analysis.out_of_order = 0;
    }
    let mut metrics = Metrics::default();
    metrics.push("rate", report["rate_per_s"].as_f64().unwrap_or(f64::NAN));
    one_run::add_observed(&mut metrics, &analysis, &heads).map_err(|why| pair.failed(&why.to_string()))?;
    metrics.push("images_s", report["images_ms"].as_f64().unwrap_or(f64::NAN) * 1e-3);
    Ok(metrics)
}

/// The schedule from a time on, at both ends.
fn warm_records(folder: &Path, from: u64) -> Result<(Vec<Sent>, Vec<Received>, one_run::Heads, u32), std::io::Error> {
    let (sent_head, mut sent) = read_sent(&folder.join("sent"))?;
    let (received_head, mut received) = read_received(&folder.join("received"))?;
    let heads = one_run::Heads {
        every: sent_head.every,
        missed: sent_head.missed + received_head.missed,
        cost_ns: sent_head.cost_ns.max(received_head.cost_ns),
    };
    keep_from(from, &mut sent, &mut received);
    Ok((sent, received, heads, received_head.connections))
}

/// Takes out what was to be sent before a time, and what came of it.
fn keep_from(from: u64, sent: &mut Vec<Sent>, received: &mut Vec<Received>) {
    let early: HashSet<u64> = sent.iter().filter(|m| m.intended < from).map(|m| m.id).collect();
    sent.retain(|message| message.intended >= from);
    received.retain(|message| !early.contains(&message.id));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_before_the_machines_were_warm_counts_nowhere() {
        let mut sent: Vec<Sent> = (0..10).map(|n| Sent { id: n, at: n * 10 + 5, intended: n * 10 }).collect();
        // Late ones come after the time as well.
        let mut received: Vec<Received> = (0..9).map(|id| Received { id, at: 200 + id }).collect();
        keep_from(40, &mut sent, &mut received);
        let ids: Vec<u64> = sent.iter().map(|m| m.id).collect();
        assert_eq!((ids, received.len()), (vec![4, 5, 6, 7, 8, 9], 5));
        let analysis = analyse(&sent, &[received], 1);
        assert_eq!((analysis.lost, analysis.unknown, analysis.in_flight), (0, 0, 1));
    }
}
