//! The cost of each stage of an update's way through `serve`, beside the bare thing: nanoseconds timed in a process of its own,
//! instructions counted by valgrind's callgrind (performance counters are closed to virtual machines).
//!
//! | stage | what it is here | its floor |
//! |---|---|---|
//! | wait | `Tcp::poll`: one `epoll_pwait2` a turn | the same call on an empty set |
//! | receive | `Tcp::recv` | a plain read of the same bytes |
//! | frame | `rssl::Connection::receive` | one copy of the same bytes |
//! | header | class and header by `rwf::peek` | a copy of the bytes it looks at |
//! | lookup | Source Distributor without header and publish, *by difference* | a load from a table as long |
//! | publish | `BlockWriter::update` | a copy of the same bytes, message by message |
//! | apply | P2PS with an update that nobody watches | a copy of the hub headers |
//! | fan-out | P2PS with the watchers, less `apply`, *by difference*; for each delivery | the entries of the lists written |
//! | pack | `Packer`, all messages of a client; for each delivery | a copy of the same bytes, message by message |
//! | send | `Tcp::send`, once a client; for each delivery | a plain write of the same bytes |
//!
//! From the stages follows a *model* of a server with egress shards on a larger machine ([`Model`]); its rows are called MODEL.
//!
//! Their sum is compared with whole turns of the real server on the same load, taken by turns with the stages in the same process; what
//! is in no stage stands in the table.

pub mod total;
pub mod work;
pub mod world;

use std::process::Command;

use serde_json::Value;

use super::results::{Metrics, Outcome, Row, Side};
use super::scenario::Scenario;
use super::session::{Run, Session};
use crate::product;
use measure::process::{Fault, Process};

/// The stages in the order in which an update goes through them.
pub const STAGES: [&str; 10] =
    ["wait", "receive", "frame", "header", "lookup", "publish", "apply", "fan-out", "pack", "send"];
/// The row of all stages together, of whole turns of the server, and of what lies between.
pub const SUMS: [&str; 3] = ["sum of the stages", "whole turn", "in no stage"];
/// Stages that are paid for each delivery, not for each update.
const OF_A_DELIVERY: [&str; 3] = ["fan-out", "pack", "send"];

/// Turns in a run, and updates in all of them at least.
const ROUNDS: u32 = 300;
const QUICK_ROUNDS: u32 = 40;
/// Turns and items under valgrind: instructions do not depend on how many.
const COUNTED_ROUNDS: u32 = 20;
const COUNTED_ITEMS: u32 = 2_000;
const PATIENCE: f64 = 120.0;

/// What the probes of a run say: nanoseconds or instructions of a round, and how much a round is.
#[derive(Clone, Debug, Default, PartialEq)]
struct Probes {
    figures: Vec<(String, f64)>,
    updates: f64,
    deliveries: f64,
}

impl Probes {
    fn read(value: &Value) -> Option<Self> {
        let figures = value["probes"].as_object()?.iter();
        Some(Self {
            figures: figures.filter_map(|(name, figure)| Some((name.clone(), figure.as_f64()?))).collect(),
            updates: value["updates"].as_f64()?,
            deliveries: value["deliveries"].as_f64()?,
        })
    }

    fn get(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|(n, _)| n == name).map(|(_, v)| *v)
    }

    /// What a stage took of the round: a probe of its own, or a difference of several.
    fn stage(&self, stage: &str) -> Option<f64> {
        let probe = |name: &str| self.get(&format!("stage_{name}"));
        match stage {
            "lookup" => Some(probe("distribute")? - probe("header")? - probe("publish")?),
            "apply" => probe("unwatched"),
            "fan-out" => Some(probe("watched")? - probe("unwatched")?),
            other => probe(other),
        }
    }

    fn floor(&self, stage: &str) -> Option<f64> {
        self.get(&format!("floor_{}", stage.replace('-', "_")))
    }

    /// Stage, what it takes for each of its units, and of a delivery; ours, then the floor's. The last rows are the sums.
    fn rows(&self) -> Vec<(&'static str, Sides)> {
        let (updates, deliveries) = (self.updates.max(1.0), self.deliveries.max(1.0));
        let per = |stage: &str, whole: Option<f64>| {
            let units = if OF_A_DELIVERY.contains(&stage) { deliveries } else { updates };
            whole.map(|w| (w / units, w / deliveries))
        };
        let mut rows: Vec<(&str, Sides)> =
            STAGES.iter().map(|s| (*s, [per(s, self.stage(s)), per(s, self.floor(s))])).collect();
        let sum = |side: usize| -> Option<f64> { rows.iter().map(|(_, sides)| Some(sides[side]?.1)).sum() };
        let of_update = |delivery: f64| (delivery * deliveries / updates, delivery);
        let (ours, floor) = (sum(0), sum(1));
        let turn = self.get("stage_turn").map(|t| t / deliveries);
        rows.push((SUMS[0], [ours.map(of_update), floor.map(of_update)]));
        rows.push((SUMS[1], [turn.map(of_update), None]));
        rows.push((SUMS[2], [turn.zip(ours).map(|(turn, ours)| of_update(turn - ours)), None]));
        rows
    }
}

/// What a server with egress shards would do on a machine with a processor for each thread. **A model, not a measurement**: the ingest
/// thread takes in and publishes every update once, each shard applies every update and delivers its part; memory bandwidth, the ring
/// between the threads and the network are taken to cost nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Deliveries a second when the busiest thread is fully busy.
    pub rate: f64,
    /// Processor nanoseconds of all threads for a delivery.
    pub cpu_ns: f64,
}

impl Model {
    /// With so many shards. `ingest` and `apply` are nanoseconds an update, `delivery` nanoseconds a delivery, `fan` deliveries of an
    /// update.
    pub fn of(shards: f64, ingest: f64, apply: f64, delivery: f64, fan: f64) -> Self {
        let busiest = ingest.max(apply + delivery * fan / shards);
        Self { rate: 1e9 / busiest * fan, cpu_ns: (ingest + shards * apply) / fan + delivery }
    }
}

/// Shards of the model: one, two, and one for each of 24 processors but that of the ingest thread.
const MODEL_SHARDS: [u32; 3] = [1, 2, 23];

/// Ours and the floor: for each of the stage's units, and of a delivery.
type Sides = [Option<(f64, f64)>; 2];

/// Seconds that the scenario is expected to take.
pub fn estimate(scenario: &Scenario, pairs: u32, is_quick: bool) -> f64 {
    let count = if is_quick || !scenario.instructions { 0.0 } else { COUNT_SECONDS };
    let rounds = if is_quick { QUICK_ROUNDS } else { ROUNDS };
    let all = scenario.batches().unwrap_or_default();
    all.iter().map(|batch| f64::from(pairs) * seconds(scenario, *batch, rounds) + count).sum()
}

/// Seconds of a run: two worlds are opened, and each turn goes through the stages, their floors and the server.
fn seconds(scenario: &Scenario, batch: u32, rounds: u32) -> f64 {
    let fan = scenario.fan();
    0.5 + f64::from(scenario.items) * fan / 500_000.0 + f64::from(rounds) * f64::from(batch) * fan * 250e-9
}

/// Seconds that counting instructions takes.
const COUNT_SECONDS: f64 = 12.0;

/// Runs the scenario: for each size of a turn all stages, so many times as there are pairs; then their instructions.
///
/// # Errors
/// The lab was stopped.
pub fn run(session: &mut Session, scenario: &Scenario, outcome: &mut Outcome) -> Result<(), Fault> {
    for batch in scenario.batches()? {
        let rounds = if session.is_quick { QUICK_ROUNDS } else { ROUNDS };
        let mut all = Outcome { name: outcome.name.clone(), ..Outcome::default() };
        let flags = part(scenario, scenario.items, batch, rounds);
        let mut runs: Vec<Probes> = Vec::new();
        let once: Run<'_> = Box::new(|| {
            let value = product::start_part("stages", &[], &flags)?.json(PATIENCE)?;
            let probes = Probes::read(&value).ok_or("the stages gave no figures")?;
            // The figures of a whole turn that the rows are computed from.
            let metrics = probes.figures.iter().cloned().collect();
            runs.push(probes);
            Ok(metrics)
        });
        let done = session.row(
            &mut all,
            &format!("turns of {batch}"),
            vec![(Side::Ours, seconds(scenario, batch, rounds), once)],
        );
        outcome.notes.append(&mut all.notes);
        for probes in &runs {
            add(outcome, batch, probes, "ns");
            if scenario.mounts > 1 {
                add_models(outcome, batch, probes);
            }
        }
        record(session, outcome, batch);
        done?;
        if scenario.instructions && !session.is_quick && !runs.is_empty() {
            session.say(&format!("{}: instructions of turns of {batch}", outcome.name));
            let counted = instructions(scenario, batch);
            session.advance(COUNT_SECONDS);
            match counted {
                Ok(probes) => add(outcome, batch, &probes, "instructions"),
                Err(Fault::Stopped) => return Err(Fault::Stopped),
                Err(Fault::Failed(why)) => session.note(outcome, format!("instructions were not counted: {why}")),
            }
        }
    }
    Ok(())
}

/// The command line of a run.
fn part(scenario: &Scenario, items: u32, batch: u32, rounds: u32) -> Vec<String> {
    let Scenario { size, mounts, common, .. } = scenario;
    let flags = format!(
        "stages --items {items} --size {size} --mounts {mounts} --common {common} --batch {batch} --rounds {rounds}"
    );
    super::chain::words(&flags)
}

/// The label of a stage's row.
fn label(batch: u32, stage: &str) -> String {
    format!("{batch} a turn: {stage}")
}

impl Probes {
    /// The model with so many shards.
    fn model(&self, shards: u32) -> Option<Model> {
        let (updates, deliveries) = (self.updates.max(1.0), self.deliveries.max(1.0));
        let of = |stages: &[&str]| stages.iter().map(|s| self.stage(s)).sum::<Option<f64>>();
        let ingest = of(&["wait", "receive", "frame", "header", "lookup", "publish"])? / updates;
        let apply = of(&["apply"])? / updates;
        let delivery = of(&["fan-out", "pack", "send"])? / deliveries;
        Some(Model::of(f64::from(shards), ingest, apply, delivery, deliveries / updates))
    }
}

/// Adds the rows of the model, with MODEL in the name of every figure.
fn add_models(outcome: &mut Outcome, batch: u32, probes: &Probes) {
    for shards in MODEL_SHARDS {
        let Some(model) = probes.model(shards) else { continue };
        let on = if shards > 2 { format!(" on {} cores", shards + 1) } else { String::new() };
        let label = label(batch, &format!("MODEL, {shards} shards{on}"));
        let at = outcome.rows.iter().position(|r| r.label == label).unwrap_or_else(|| {
            outcome.rows.push(Row::new(&label));
            outcome.rows.len() - 1
        });
        let figures = [("MODEL_rate", model.rate), ("MODEL_delivery_cpu_ns", model.cpu_ns)];
        outcome.rows[at].add(Side::Ours, figures.into_iter().map(|(n, v)| (n.to_owned(), v)).collect());
    }
}

/// Adds a run's figures to the rows of its batch.
fn add(outcome: &mut Outcome, batch: u32, probes: &Probes, unit: &str) {
    for (stage, sides) in probes.rows() {
        let label = label(batch, stage);
        let at = outcome.rows.iter().position(|r| r.label == label).unwrap_or_else(|| {
            outcome.rows.push(Row::new(&label));
            outcome.rows.len() - 1
        });
        for (side, figures) in [Side::Ours, Side::Floor].into_iter().zip(sides) {
            let Some((of_unit, of_delivery)) = figures else { continue };
            let mut metrics = Metrics::default();
            metrics.push(unit, of_unit);
            if (probes.deliveries - probes.updates).abs() > 0.5 {
                metrics.push(&format!("delivery_{unit}"), of_delivery);
            }
            outcome.rows[at].add(side, metrics);
        }
    }
    let label = label(batch, SUMS[0]);
    if let Some(row) = outcome.rows.iter_mut().find(|r| r.label == label)
        && unit == "ns"
    {
        let mut metrics = Metrics::default();
        metrics.push("deliveries_per_update", probes.deliveries / probes.updates.max(1.0));
        row.add(Side::Ours, metrics);
    }
}

/// The lines of results of a batch.
fn record(session: &mut Session, outcome: &Outcome, batch: u32) {
    let prefix = label(batch, "");
    for row in outcome.rows.iter().filter(|r| r.label.starts_with(&prefix)) {
        for side in [Side::Ours, Side::Floor] {
            for (pair, metrics) in row.side(side).iter().enumerate() {
                session.record(&serde_json::json!({
                    "record": "run", "scenario": outcome.name, "row": row.label, "side": side.name(), "pair": pair + 1,
                    "figures": metrics.json(),
                }));
            }
        }
    }
}

/// Counts the instructions of each probe in a run under valgrind. What the kernel does in a system call is not among them.
fn instructions(scenario: &Scenario, batch: u32) -> Result<Probes, Fault> {
    let exe = std::env::current_exe().map_err(|e| e.to_string())?;
    let folder = tempfile::tempdir().map_err(|e| format!("no folder for valgrind: {e}"))?;
    let profile = folder.path().join("profile");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--compress-strings=no", "--compress-pos=no"]);
    command.arg(format!("--callgrind-out-file={}", profile.display())).arg(exe);
    command.arg("part").args(part(scenario, scenario.items.min(COUNTED_ITEMS), batch, COUNTED_ROUNDS));
    let value = Process::start("valgrind", &mut command)?.json(300.0)?;
    let mut probes = Probes::read(&value).ok_or("the stages gave no figures under valgrind")?;
    let rounds = value["rounds"].as_f64().unwrap_or(1.0).max(1.0);
    let mut annotate = Command::new("callgrind_annotate");
    annotate.args(["--inclusive=yes", "--threshold=100", "--show=Ir"]).arg(&profile);
    let output = annotate.output().map_err(|e| format!("callgrind_annotate cannot be started: {e}"))?;
    let counted = read_counts(&String::from_utf8_lossy(&output.stdout));
    if counted.is_empty() {
        return Err(Fault::Failed("valgrind saw none of the stages: is the binary stripped?".to_owned()));
    }
    probes.figures = counted.into_iter().map(|(name, count)| (name, count / rounds)).collect();
    Ok(probes)
}

/// The probes in what `callgrind_annotate` prints: ` 1,234,567 (12.3%)  ???:quoteway::...::probed::stage_frame [...]`.
fn read_counts(text: &str) -> Vec<(String, f64)> {
    let mut counts: Vec<(String, f64)> = Vec::new();
    for line in text.lines() {
        let Some(name) = work::PROBES.iter().find(|name| {
            line.split("probed::").nth(1).is_some_and(|rest| {
                rest.strip_prefix(**name)
                    .is_some_and(|rest| !rest.starts_with(|c: char| c == '_' || c.is_alphanumeric()))
            })
        }) else {
            continue;
        };
        let digits: String =
            line.trim_start().chars().take_while(|c| !c.is_whitespace()).filter(|c| *c != ',').collect();
        if let Ok(count) = digits.parse::<f64>()
            && !counts.iter().any(|(n, _)| n == name)
        {
            counts.push(((*name).to_owned(), count));
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_up() -> Probes {
        let figures = work::PROBES.iter().map(|name| {
            let ns = match *name {
                "stage_distribute" => 1_000.0,
                "stage_header" => 100.0,
                "stage_publish" => 300.0,
                "stage_unwatched" => 200.0,
                "stage_watched" => 1_200.0,
                "stage_turn" => 5_000.0,
                name if name.starts_with("floor") => 10.0,
                _ => 400.0,
            };
            ((*name).to_owned(), ns)
        });
        Probes { figures: figures.collect(), updates: 10.0, deliveries: 100.0 }
    }

    #[test]
    fn stages_are_probes_or_their_differences_and_sum_up_to_the_turn() {
        let rows = made_up().rows();
        let find = |stage: &str| rows.iter().find(|(s, _)| *s == stage).unwrap().1[0].unwrap();
        assert_eq!(find("lookup"), (60.0, 6.0));
        assert_eq!(find("apply"), (20.0, 2.0));
        assert_eq!(find("fan-out"), (10.0, 10.0), "for each delivery");
        assert_eq!(find("send"), (4.0, 4.0));
        // 400 each of wait, receive, frame, pack, send; 1,000 in the Source Distributor, 1,200 in the P2PS.
        assert_eq!(find(SUMS[0]), (420.0, 42.0));
        assert_eq!((find(SUMS[1]), find(SUMS[2])), ((500.0, 50.0), (80.0, 8.0)));
        let floors: f64 = rows.iter().take(STAGES.len()).map(|(_, sides)| sides[1].unwrap().1).sum();
        assert!((floors - 1.0).abs() < 1e-9, "{floors}");
    }

    #[test]
    fn a_table_has_each_stage_beside_its_floor() {
        let mut outcome = Outcome::default();
        add(&mut outcome, 16, &made_up(), "ns");
        add(&mut outcome, 16, &Probes { updates: 10.0, ..made_up() }, "instructions");
        assert_eq!(outcome.rows.len(), STAGES.len() + SUMS.len());
        let row = outcome.rows.iter().find(|r| r.label == "16 a turn: frame").unwrap();
        assert_eq!(row.spread(Side::Ours, "ns").map(|s| s.median), Some(40.0));
        assert_eq!(row.ratio(Side::Floor, "ns").map(|s| s.median), Some(40.0));
        assert_eq!(row.spread(Side::Ours, "delivery_ns").map(|s| s.median), Some(4.0));
        assert!(row.spread(Side::Ours, "instructions").is_some());
    }

    #[test]
    fn the_model_is_bounded_by_its_busiest_thread() {
        // 100 ns to take an update in, 10 to apply it, 20 for each of 50 deliveries.
        let one = Model::of(1.0, 100.0, 10.0, 20.0, 50.0);
        assert!((one.rate - 50e9 / 1_010.0).abs() < 1.0 && (one.cpu_ns - 22.2).abs() < 1e-9);
        let two = Model::of(2.0, 100.0, 10.0, 20.0, 50.0);
        assert!((two.rate - 50e9 / 510.0).abs() < 1.0 && (two.cpu_ns - 22.4).abs() < 1e-9);
        // From some number on the ingest thread is the busiest.
        let many = Model::of(23.0, 100.0, 10.0, 20.0, 50.0);
        assert!((many.rate - 50e9 / 100.0).abs() < 1.0);
        let mut outcome = Outcome::default();
        add_models(&mut outcome, 16, &made_up());
        assert_eq!(outcome.rows.len(), MODEL_SHARDS.len());
        assert!(
            outcome
                .rows
                .iter()
                .all(|r| r.label.contains("MODEL") && r.metrics().iter().all(|m| m.starts_with("MODEL")))
        );
        // Ingest 400 each of wait, receive, frame, and 1,000 of the distributor; apply 200; deliveries 1,000 + 400 + 400.
        let model = made_up().model(2).unwrap();
        assert!((model.cpu_ns - ((220.0 + 2.0 * 20.0) / 10.0 + 18.0)).abs() < 1e-9, "{model:?}");
    }

    #[test]
    fn a_probe_that_is_missing_leaves_its_stages_out() {
        let mut probes = made_up();
        probes.figures.retain(|(name, _)| name != "stage_publish" && name != "stage_turn");
        let rows = probes.rows();
        let find = |stage: &str| rows.iter().find(|(s, _)| *s == stage).unwrap().1[0];
        assert!(find("lookup").is_none() && find("publish").is_none() && find("frame").is_some());
        assert!(find(SUMS[0]).is_none() && find(SUMS[2]).is_none());
    }

    #[test]
    fn the_counts_of_valgrind_are_found() {
        let text = " 12,345 (1.2%)  ???:quoteway::lab::stages::work::probed::stage_frame [/q]\n\
                    7,000 ( 0.1%)  work.rs:quoteway::lab::stages::work::probed::floor_fan_out::h12 [/q]\n\
                    9 (0%)  ???:other\n 5 (0%) x:probed::stage_frame_more\n";
        let counts = read_counts(text);
        assert_eq!(counts, [("stage_frame".to_owned(), 12_345.0), ("floor_fan_out".to_owned(), 7_000.0)]);
        assert!(read_counts("").is_empty());
    }
}
