//! One call of the lab: what was asked for, what has been measured, how far it is.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::environment::{Disturbance, utc};
use super::process::Fault;
use super::rows::{Metrics, Outcome, Row, Side};

/// A side's way to do one run of a row.
pub type Run<'a> = Box<dyn FnMut() -> Result<Metrics, Fault> + 'a>;

/// The call.
pub struct Session {
    /// Pairs of runs of each row.
    pub pairs: u32,
    /// Runs are cut short, to see that everything works.
    pub is_quick: bool,
    /// Where other products are found, and whether nodes are made.
    pub places: Places,
    /// The peers that may run.
    pub peers: Vec<Side>,
    records: Option<File>,
    id: String,
    progress: Progress,
}

/// Where things are.
#[derive(Clone, Debug)]
pub struct Places {
    /// Folder of the Java programs.
    pub interop: PathBuf,
    /// Folder of other products' binaries.
    pub peers: PathBuf,
    /// Everything runs on loopback, also where a scenario asks for nodes.
    pub loopback: bool,
}

/// What has been done, and how long the rest will take.
struct Progress {
    expected_s: f64,
    done_s: f64,
    started: u64,
    is_terminal: bool,
}

impl Session {
    /// Begins a call. `expected_s` is what all runs are expected to take.
    ///
    /// # Errors
    /// The file of results cannot be written.
    pub fn begin(
        (pairs, is_quick): (u32, bool),
        (places, peers): (Places, Vec<Side>),
        out: Option<&Path>,
        environment: &Value,
        expected_s: f64,
    ) -> Result<Self, String> {
        let open = |path: &Path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.map_err(|e| format!("results {}: {e}", path.display()))
        };
        let started = net::clock::now();
        let mut session = Self {
            pairs: pairs.max(1),
            is_quick,
            places,
            peers,
            records: out.map(open).transpose()?,
            id: utc(net::clock::wall()),
            progress: Progress { expected_s, done_s: 0.0, started, is_terminal: std::io::stderr().is_terminal() },
        };
        session.record(&json!({ "record": "environment", "environment": environment }));
        Ok(session)
    }

    /// Appends a line to the results.
    pub fn record(&mut self, value: &Value) {
        let Some(file) = &mut self.records else { return };
        let mut line = json!({ "call": self.id, "at": utc(net::clock::wall()) });
        if let (Some(line), Some(value)) = (line.as_object_mut(), value.as_object()) {
            line.extend(value.clone());
        }
        if let Err(e) = writeln!(file, "{line}") {
            eprintln!("results: {e}");
        }
    }

    /// Does the runs of a row: all sides by turns, as often as there are pairs. A run that fails is noted; a side that
    /// fails twice is left out from then on.
    ///
    /// # Errors
    /// The lab was stopped; what is done is in the outcome.
    pub fn row(&mut self, outcome: &mut Outcome, label: &str, sides: Vec<(Side, f64, Run<'_>)>) -> Result<(), Fault> {
        let mut sides: Vec<_> = sides.into_iter().map(|(side, seconds, run)| (side, seconds, Some(run), 0)).collect();
        let at = outcome.rows.iter().position(|r| r.label == label).unwrap_or_else(|| {
            outcome.rows.push(Row::new(label));
            outcome.rows.len() - 1
        });
        for pair in 1..=self.pairs {
            for (side, seconds, run, failures) in &mut sides {
                let Some(go) = run else { continue };
                self.say(&format!("{} {label}: {side}, run {pair} of {}", outcome.name, self.pairs));
                let before = Disturbance::now();
                let result = go();
                self.advance(*seconds);
                match result {
                    Ok(metrics) => {
                        self.record(&json!({
                            "record": "run", "scenario": outcome.name, "row": label, "side": side.name(), "pair": pair,
                            "figures": metrics.json(), "disturbance": before.since().to_string(),
                        }));
                        self.record_percentiles((&outcome.name, label, *side, pair), &metrics);
                        outcome.rows[at].add(*side, metrics);
                    }
                    Err(Fault::Stopped) => return Err(Fault::Stopped),
                    Err(Fault::Failed(why)) => {
                        self.note(outcome, format!("{label}, {side}: {why}"));
                        // It keeps its place, so that pairs stay pairs.
                        outcome.rows[at].add(*side, Metrics::default());
                        *failures += 1;
                        if *failures > 1 {
                            *run = None;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Appends the percentile distribution of an observed run: share, microseconds, samples up to there.
    fn record_percentiles(&mut self, (scenario, row, side, pair): (&str, &str, Side, u32), metrics: &Metrics) {
        let Some(observed) = metrics.observed.as_ref().filter(|o| !o.percentiles.is_empty()) else { return };
        let points: Vec<Value> = observed.percentiles.iter().map(|p| json!([p.share, p.us, p.count])).collect();
        self.record(&json!({
            "record": "hdr", "scenario": scenario, "row": row, "side": side.name(), "pair": pair, "points": points,
        }));
    }

    /// Notes what happened on the way.
    pub fn note(&mut self, outcome: &mut Outcome, text: String) {
        self.say(&text);
        self.record(&json!({ "record": "note", "scenario": outcome.name, "text": text }));
        if !outcome.notes.contains(&text) {
            outcome.notes.push(text);
        }
    }

    /// Says what is being done, and how long everything will take.
    pub fn say(&self, what: &str) {
        let Progress { expected_s, done_s, started, is_terminal } = self.progress;
        let elapsed = (net::clock::now() - started) as f64 / 1e9;
        // As slow as it was so far, once enough is done to tell.
        let pace = if done_s > 5.0 { (elapsed / done_s).clamp(0.5, 5.0) } else { 1.0 };
        let left = ((expected_s - done_s).max(0.0) * pace) as u64;
        let share = (done_s / expected_s.max(1e-9)).clamp(0.0, 1.0);
        let bar = if is_terminal {
            let full = (share * 20.0) as usize;
            format!("[{}{}] ", "#".repeat(full), ".".repeat(20 - full))
        } else {
            String::new()
        };
        eprintln!("{bar}{:3.0} % {}:{:02} left  {what}", share * 100.0, left / 60, left % 60);
    }

    /// So much of what was expected is done.
    pub fn advance(&mut self, seconds: f64) {
        self.progress.done_s += seconds;
    }
}
