//! One run of one side: its processes, where they run, and what they have to say.
//!
//! Ours and the bare loop: a process for each source and each receiver. Aeron: the same, and a media driver in a process of its own
//! on each host (one on loopback). Everybody is started here, receivers first.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use tempfile::TempDir;

use super::distances;
use super::lan::Lan;
use crate::error::FileError;
use crate::product;
use crate::results::{Metrics, Observed, Side};
use crate::scenario::Scenario;
use crate::scenario::grid::{Cell, Measure, Medium, Profile};
use measure::process::{Fault, Process};
use measure::stats;

const PATIENCE: f64 = 60.0;
/// A rate is held if this share of it arrives ...
const HELD: f64 = 0.985;
/// ... and the latency rises by no more than this many microseconds a second: a thousandth of the rate is left behind.
const RISE_MAX: f64 = 1_000.0;
/// Figures that a run may have.
const FIGURES: [&str; 28] = [
    "rate",
    "samples",
    "min_us",
    "p50_us",
    "mean_us",
    "stddev_us",
    "p90_us",
    "p99_us",
    "p999_us",
    "p9999_us",
    "max_us",
    "call_min_us",
    "call_p50_us",
    "call_mean_us",
    "call_stddev_us",
    "call_p90_us",
    "call_p99_us",
    "call_p999_us",
    "call_p9999_us",
    "call_max_us",
    "sender_cpu_ns",
    "sender_user_ns",
    "sender_system_ns",
    "receiver_cpu_ns",
    "receiver_user_ns",
    "receiver_system_ns",
    "naks",
    "retransmissions",
];
/// Figures that are shown of each path where there are several.
const OF_PATHS: [&str; 8] = [
    "rate",
    "call_p50_us",
    "call_mean_us",
    "call_stddev_us",
    "call_min_us",
    "call_p99_us",
    "call_p999_us",
    "call_max_us",
];

/// The task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial<'a> {
    /// For its lengths and bounds.
    pub(super) scenario: &'a Scenario,
    /// The work.
    pub(super) cell: Cell,
    /// Where.
    pub(super) lan: &'a Lan,
    /// Aeron's program.
    pub(super) aeron: Option<&'a Path>,
}

/// Ports of runs that follow each other differ: one may still be ending.
fn port() -> u16 {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    (20_000 + (std::process::id().wrapping_mul(37).wrapping_add(run) * 16) % 10_000) as u16
}

/// A folder in memory: nothing of a run is written to a disk.
pub(super) fn folder() -> Result<TempDir, FileError> {
    let shared = Path::new("/dev/shm");
    let made = if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() };
    made.map_err(FileError::of("no folder for a run in", shared))
}

impl Trial<'_> {
    /// Runs a side and gives its figures; `lost` and `held` are among them.
    ///
    /// # Errors
    /// A process fails, or the lab was stopped.
    pub(super) fn run(&self, side: Side) -> Result<Metrics, Fault> {
        let (folder, port) = (folder()?, port());
        let _drivers = if side == Side::Aeron { self.drivers(folder.path())? } else { Vec::new() };
        let Cell { paths, receivers, .. } = self.cell;
        let mut listening = Vec::new();
        for path in 0..paths {
            let these = (0..receivers).map(|n| {
                let place = Place { folder: folder.path(), port, path, host: 1 + path * receivers + n };
                self.start(side, "receiver", &place, &[place.board(n)])
            });
            listening.push(these.collect::<Result<Vec<_>, _>>()?);
        }
        let sources = (0..paths).map(|path| {
            let place = Place { folder: folder.path(), port, path, host: 0 };
            let boards: Vec<PathBuf> = (0..receivers).map(|n| place.board(n)).collect();
            self.start(side, "source", &place, &boards)
        });
        let mut sources = sources.collect::<Result<Vec<_>, _>>()?;
        let patience = PATIENCE + self.scenario.seconds + self.scenario.warmup;
        let sent: Vec<Value> = sources.iter_mut().map(|p| p.json(patience)).collect::<Result<_, _>>()?;
        let mut reports = Vec::new();
        for (sent, these) in sent.into_iter().zip(&mut listening) {
            let mut all = vec![sent];
            for process in these {
                // Aeron's receivers of streams and round trips have nothing to say.
                let is_silent = side == Side::Aeron && self.cell.measure != Measure::OneWay;
                all.push(if is_silent { Value::Null } else { process.json(patience)? });
            }
            reports.push(all);
        }
        let mut metrics = self.metrics(&reports);
        if side == Side::Aeron {
            // The figures of the two clients; most of its work is the driver's.
            metrics.figures.retain(|(name, _)| !name.ends_with("_ns"));
        }
        Ok(metrics)
    }

    /// As [`run`](Self::run), for a row: what was lost makes the run void.
    ///
    /// # Errors
    /// Likewise, and a loss.
    pub(super) fn lossless(&self, side: Side) -> Result<Metrics, Fault> {
        let look = || if self.cell.medium == Medium::Lbtipc { floor::distance::line_round_trip() } else { None };
        let before = look();
        let mut metrics = self.run(side)?;
        // The further of both: a run during which the processors were moved is none of near ones.
        if let Some((before, after)) = before.zip(look()) {
            metrics.push(distances::LINE, before.max(after));
        }
        let lost = metrics.get("lost").unwrap_or(0.0);
        metrics.figures.retain(|(name, _)| name != "lost");
        if lost > 0.0 { Err(Fault::Failed(format!("lost {lost} messages"))) } else { Ok(metrics) }
    }

    /// Aeron's media drivers, one on each host.
    fn drivers(&self, folder: &Path) -> Result<Vec<Process>, Fault> {
        let hosts = if self.lan.is_apart() { 1 + self.cell.paths * self.cell.receivers } else { 1 };
        let start = |host: usize| {
            let place = Place { folder, port: 0, path: 0, host };
            let mut words = vec!["driver".to_owned()];
            words.extend(self.aeron_words(&place, &[]));
            let mut process = self.aeron(host, &words)?;
            process.wait_for("ready", PATIENCE)?;
            Ok(process)
        };
        (0..hosts).map(start).collect()
    }

    fn aeron(&self, host: usize, words: &[String]) -> Result<Process, Fault> {
        let program = self.aeron.ok_or("Aeron is not built")?.to_string_lossy().into_owned();
        let mut all = self.lan.enter(host).into_iter().chain([program]).chain(words.iter().cloned());
        Process::start("Aeron", Command::new(all.next().unwrap_or_default()).args(all))
    }

    fn start(&self, side: Side, role: &str, place: &Place<'_>, boards: &[PathBuf]) -> Result<Process, Fault> {
        if side == Side::Aeron {
            let measure = match self.cell.measure {
                Measure::Stream => "throughput",
                Measure::OneWay => "one-way",
                Measure::RoundTrips => "latency",
            };
            let mut words = vec![measure.to_owned(), "--role".to_owned(), role.to_owned()];
            words.extend(self.aeron_words(place, boards));
            return self.aeron(place.host, &words);
        }
        let mut words = vec!["lbm".to_owned()];
        words.extend(self.our_words(side, role, place, boards));
        product::start_part(&format!("{side}'s {role}"), &self.lan.enter(place.host), &words)
    }

    fn our_words(&self, side: Side, role: &str, place: &Place<'_>, boards: &[PathBuf]) -> Vec<String> {
        let Cell { measure, medium, payload, datagram, offload, profile, idle, .. } = self.cell;
        let measure = match measure {
            Measure::Stream => "stream",
            Measure::OneWay => "one-way",
            Measure::RoundTrips => "round-trips",
        };
        let profile = if profile == Profile::Latency { "latency" } else { "throughput" };
        let text = format!(
            "--side {side} --role {role} --measure {measure} --medium {} --payload {payload} --datagram {datagram} \
             --rate {} --profile {profile} --idle {} --here {} --path {} --port {} --seconds {} --warmup {} --board {}{}",
            medium.name(),
            self.cell.per_second(),
            idle.name(),
            self.lan.address(place.host),
            place.path,
            place.port,
            self.scenario.seconds,
            self.scenario.warmup,
            list(boards),
            if offload { " --offload" } else { "" },
        );
        let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let options = self.scenario.lbm.as_ref().map_or("", |grid| grid.options.as_str());
        if side == Side::Ours && !options.is_empty() {
            words.extend(["--options".to_owned(), options.to_owned()]);
        }
        words
    }

    fn aeron_words(&self, place: &Place<'_>, boards: &[PathBuf]) -> Vec<String> {
        let Cell { medium, payload, idle, receivers, .. } = self.cell;
        let medium = match medium {
            Medium::Lbtrm => "multicast",
            Medium::Lbtru => "udp",
            Medium::Lbtipc => "ipc",
        };
        let host = if self.lan.is_apart() { place.host } else { 0 };
        let (receiver, idle) = (self.lan.address(1 + place.path * receivers), idle.name());
        let mut text = format!(
            "--medium {medium} --payload {payload} --mtu {} --rate {} --idle {idle} --pace {idle} --seconds {} --warmup {} \
             --address {} --to {receiver} --back {} --group {} --port {} --dir {}",
            self.cell.aeron_mtu(),
            self.cell.per_second(),
            self.scenario.seconds,
            self.scenario.warmup,
            self.lan.address(place.host),
            self.lan.address(0),
            // Odd, as Aeron wants it.
            Ipv4Addr::new(239, 192, 63, 11 + 10 * place.path as u8),
            place.port + 4 * place.path as u16,
            place.folder.join(format!("driver-{host}")).display(),
        );
        if !boards.is_empty() {
            text.push_str(" --board ");
            text.push_str(&list(boards));
        }
        text.split(' ').map(str::to_owned).collect()
    }

    /// Figures of all paths, as the source of each and its receivers report them.
    fn metrics(&self, reports: &[Vec<Value>]) -> Metrics {
        let mut metrics = Metrics::default();
        let figure = |of: &[Value], name: &str| of.iter().find_map(|report| report[name].as_f64());
        let several = reports.len() > 1;
        for name in FIGURES {
            let values = || reports.iter().filter_map(|of| figure(of, name));
            // Latencies are those of the first path, as in the report.
            let value = if several && name == "rate" { values().reduce(|a, b| a + b) } else { values().next() };
            if let Some(value) = value {
                metrics.push(name, value);
            }
        }
        for (n, of) in reports.iter().enumerate().filter(|_| several) {
            for name in OF_PATHS {
                if let Some(value) = figure(of, name) {
                    metrics.push(&format!("path{}_{name}", n + 1), value);
                }
            }
        }
        if let Some(rate) = metrics.get("rate") {
            metrics.push("gbps", rate * self.cell.payload as f64 * 8.0 / 1e9);
        }
        let histogram = reports.first().and_then(|of| of.iter().find_map(|report| report["histogram"].as_array()));
        let fine: Vec<u64> = histogram.into_iter().flatten().filter_map(Value::as_u64).collect();
        metrics.observed = (!fine.is_empty()).then(|| Observed { fine, ..Observed::default() });
        let lost = reports.iter().flatten().filter_map(|report| report["lost"].as_f64()).sum();
        metrics.push("lost", lost);
        if self.cell.measure == Measure::OneWay {
            let held = lost < 1.0 && reports.iter().all(|of| self.is_held(of));
            metrics.push("held", f64::from(u8::from(held)));
        }
        metrics
    }

    fn is_held(&self, reports: &[Value]) -> bool {
        let Some(report) = reports.iter().find(|r| r["windows_us"].is_array()) else { return false };
        let windows = report["windows_us"].as_array().map(Vec::as_slice).unwrap_or_default();
        let length = self.scenario.seconds / windows.len().max(1) as f64;
        let points: Vec<(f64, f64)> =
            windows.iter().enumerate().filter_map(|(n, us)| Some((n as f64 * length, us.as_f64()?))).collect();
        let figure = |name: &str| report[name].as_f64().unwrap_or(f64::MAX);
        let cap = self.scenario.max_latency_us;
        report["rate"].as_f64().unwrap_or(0.0) >= HELD * self.cell.per_second()
            && stats::slope(&points) <= RISE_MAX
            && (cap <= 0.0 || figure("call_max_us") <= cap)
    }
}

/// Where a process of a run is.
struct Place<'a> {
    folder: &'a Path,
    port: u16,
    path: usize,
    host: usize,
}

impl Place<'_> {
    /// The board of the nth receiver of this path.
    fn board(&self, n: usize) -> PathBuf {
        self.folder.join(format!("board-{}-{n}", self.path))
    }
}

fn list(boards: &[PathBuf]) -> String {
    boards.iter().map(|b| b.display().to_string()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scenario;

    fn scenario(grid: &str) -> Scenario {
        let text = format!("[own]\ntitle = 'Own'\nkind = 'lbm'\nseconds = 0.1\nwarmup = 0.05\nlbm = {{ {grid} }}");
        scenario::read(&text).expect("a scenario").remove(0)
    }

    #[test]
    fn a_rate_is_held_if_it_comes_and_no_queue_grows() {
        let scenario =
            scenario("measure = 'one-way', transports = 'lbtrm', payloads = '64', rates = '1000', paths = 2");
        let cell = scenario.lbm.as_ref().expect("a grid").cells().expect("cells")[0];
        let lan = Lan::loopback();
        let trial = Trial { scenario: &scenario, cell, lan: &lan, aeron: None };
        let report = |rate: f64, lost: f64, last: f64| {
            vec![
                json!({}),
                json!({ "rate": rate, "lost": lost, "call_p50_us": 5.0, "windows_us": [10.0, 11.0, last, 2.0 * last], "histogram": [0, 3, 1] }),
            ]
        };
        let held = |reports: &[Vec<Value>]| trial.metrics(reports).get("held");
        let good = report(1_000.0, 0.0, 10.0);
        assert_eq!(held(&[good.clone(), good.clone()]), Some(1.0));
        for bad in [report(900.0, 0.0, 10.0), report(1_000.0, 1.0, 10.0), report(1_000.0, 0.0, 9_000.0)] {
            assert_eq!(held(&[good.clone(), bad]), Some(0.0));
        }
        let metrics = trial.metrics(&[good.clone(), good]);
        assert_eq!((metrics.get("rate"), metrics.get("path2_rate")), (Some(2_000.0), Some(1_000.0)));
        assert_eq!(metrics.observed.map(|o| o.fine), Some(vec![0, 3, 1]), "that of path 1");
    }

    #[test]
    fn each_process_is_told_its_place() {
        let scenario = scenario("measure = 'stream', transports = 'lbtrm', payloads = '64', paths = 3");
        let cell = scenario.lbm.as_ref().expect("a grid").cells().expect("cells")[0];
        let lan = Lan::loopback();
        let trial = Trial { scenario: &scenario, cell, lan: &lan, aeron: None };
        let place = Place { folder: Path::new("f"), port: 20_000, path: 2, host: 3 };
        let ours = trial.our_words(Side::Floor, "source", &place, &[place.board(0)]).join(" ");
        assert!(ours.contains("--side floor --role source") && ours.contains("--path 2"), "{ours}");
        let aeron = trial.aeron_words(&place, &[place.board(0)]).join(" ");
        assert!(aeron.contains("--group 239.192.63.31 --port 20008 --dir f/driver-0 --board f/board-2-0"), "{aeron}");
    }
}
