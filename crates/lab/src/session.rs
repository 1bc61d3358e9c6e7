//! One call of the lab: what was asked for, what has been measured.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::environment::{Disturbance, utc};
use super::error::FileError;
use super::hosts::Hosts;
use super::progress::Progress;
use super::results::{Metrics, Outcome, Row, Side};
use super::resume::Earlier;
use super::run::Where;
use measure::process::Fault;

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
    /// How far it is.
    pub progress: Progress,
    /// What an earlier call has measured, if this one goes on with it.
    pub earlier: Earlier,
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
    /// The machines of the system, if these are others than this one.
    pub hosts: Option<Arc<Hosts>>,
}

impl Places {
    /// Where a scenario's nodes are.
    pub fn place(&self) -> Where<'_> {
        match &self.hosts {
            Some(hosts) => Where::Hosts(hosts),
            None if self.loopback => Where::Loopback,
            None => Where::Namespaces,
        }
    }
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
    ) -> Result<Self, FileError> {
        let open = |path: &Path| {
            let file = net::output::append(path);
            file.map_err(FileError::of("results", path))
        };
        let mut session = Self {
            pairs: pairs.max(1),
            is_quick,
            places,
            peers,
            records: out.map(open).transpose()?,
            id: utc(net::clock::wall()),
            progress: Progress::begin(expected_s),
            earlier: Earlier::default(),
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
                let Some(go) = run else {
                    self.advance(*seconds);
                    continue;
                };
                let name = (outcome.name.as_str(), outcome.conditions.as_str());
                if let Some(metrics) = self.earlier.run(name, label, side.name(), pair) {
                    self.advance(*seconds);
                    outcome.rows[at].add(*side, metrics);
                    continue;
                }
                self.say(&format!("{} {label}: {side}, run {pair} of {}", outcome.name, self.pairs));
                let before = Disturbance::now();
                let result = go();
                self.advance(*seconds);
                match result {
                    Ok(metrics) => {
                        self.record(&json!({
                            "record": "run", "scenario": outcome.name, "row": label, "side": side.name(), "pair": pair,
                            "conditions": outcome.conditions, "figures": metrics.json(),
                            "disturbance": before.since().to_string(),
                        }));
                        self.record_percentiles((outcome, label, *side, pair), &metrics);
                        outcome.rows[at].add(*side, metrics);
                    }
                    Err(Fault::Stopped) => return Err(Fault::Stopped),
                    Err(Fault::Failed(why)) => {
                        self.note(outcome, format!("{label}, {side}: {why}"));
                        // The run keeps its place, so that pairs stay pairs.
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

    /// Appends the distribution of an observed run: by percentiles (share, microseconds, samples up to there), LBM's by microsecond.
    fn record_percentiles(&mut self, (outcome, row, side, pair): (&Outcome, &str, Side, u32), metrics: &Metrics) {
        let Some(observed) = metrics.observed.as_ref() else { return };
        let scenario = &outcome.name;
        self.record(&json!({
            "record": "observed", "scenario": scenario, "conditions": outcome.conditions, "row": row, "side": side.name(),
            "pair": pair, "observed": observed,
        }));
        if !observed.fine.is_empty() {
            self.record(&json!({
                "record": "histogram", "scenario": scenario, "row": row, "side": side.name(), "pair": pair,
                "by_us": observed.fine,
            }));
        }
        if observed.percentiles.is_empty() {
            return;
        }
        let points: Vec<Value> = observed.percentiles.iter().map(|p| json!([p.share, p.us, p.count])).collect();
        self.record(&json!({
            "record": "hdr", "scenario": scenario, "row": row, "side": side.name(), "pair": pair, "points": points,
        }));
    }

    /// The rate that a search of an earlier call has found.
    pub fn found(&self, outcome: &Outcome, row: &str, side: Side) -> Option<f64> {
        self.earlier.found((&outcome.name, &outcome.conditions), row, side.name())
    }

    /// Appends the rate that a search has found, so that a later call need not seek it again.
    pub fn record_found(&mut self, outcome: &Outcome, row: &str, side: Side, rate: f64) {
        let Outcome { name, conditions, .. } = outcome;
        self.record(&json!({
            "record": "found", "scenario": name, "conditions": conditions, "row": row, "side": side.name(), "rate": rate,
        }));
    }

    /// Notes what happened on the way.
    pub fn note(&mut self, outcome: &mut Outcome, text: String) {
        self.progress.note(&text);
        self.record(&json!({ "record": "note", "scenario": outcome.name, "text": text }));
        if !outcome.notes.contains(&text) {
            outcome.notes.push(text);
        }
    }

    /// Says what is being done, and how long everything will take.
    pub fn say(&self, what: &str) {
        self.progress.say(what);
    }

    /// So much of what was expected is done.
    pub fn advance(&self, seconds: f64) {
        self.progress.advance(seconds);
    }
}
