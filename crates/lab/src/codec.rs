//! The codec on the reference updates: nanoseconds beside ETA Java's, instructions by valgrind.

use std::process::Command;

use super::parts;
use super::peers;
use super::product;
use super::results::{Metrics, Outcome, Row, Side};
use super::session::Session;
use measure::process::{Fault, Process};

/// Seconds that a run of ours and one of the peer are expected to take.
const RUN_SECONDS: (f64, f64) = (5.0, 14.0);
/// Seconds for counting the instructions.
const COUNT_SECONDS: f64 = 30.0;
/// Repetitions under valgrind.
const COUNT: u64 = 200;

/// Seconds that the scenario is expected to take.
pub fn estimate(pairs: u32, is_quick: bool) -> f64 {
    f64::from(pairs) * (RUN_SECONDS.0 + RUN_SECONDS.1) + if is_quick { 0.0 } else { COUNT_SECONDS }
}

/// Runs the scenario.
///
/// # Errors
/// The lab was stopped.
pub fn run(session: &mut Session, outcome: &mut Outcome) -> Result<(), Fault> {
    let updates = product::start_part("updates", &[], &part("updates", &[]))?.wait_for("74=", 10.0)?.text;
    let interop = session.places.interop.clone();
    // All figures come from one process; they are spread over rows afterwards.
    let mut all = Outcome { name: outcome.name.clone(), ..Outcome::default() };
    let ours = || product::start_part("codec", &[], &part("codec", &[]))?.json(60.0).map(|v| all_figures(&v));
    let peer = || peers::eta_codec(&interop, &updates).map(|v| all_figures(&v));
    let sides: Vec<(Side, f64, super::session::Run<'_>)> =
        vec![(Side::Ours, RUN_SECONDS.0, Box::new(ours)), (Side::Eta, RUN_SECONDS.1, Box::new(peer))];
    let done = session.row(&mut all, "codec", sides);
    outcome.notes.append(&mut all.notes);
    outcome.rows = split(all.rows.first().unwrap_or(&Row::new("codec")));
    done?;
    if session.is_quick { Ok(()) } else { count_instructions(session, outcome) }
}

fn part(name: &str, more: &[&str]) -> Vec<String> {
    [name].iter().chain(more).map(|word| (*word).to_owned()).collect()
}

fn all_figures(value: &serde_json::Value) -> Metrics {
    let figure = |name: &str| value[name].as_f64().map(|ns| (name.to_owned(), ns));
    parts::codec_works().filter_map(figure).collect()
}

/// One row for each kind of work.
fn split(all: &Row) -> Vec<Row> {
    let row = |name: &str| {
        let mut row = Row::new(name);
        for side in [Side::Ours, Side::Eta] {
            for figures in all.side(side) {
                let ns = figures.get(name).map(|ns| ("ns".to_owned(), ns));
                row.add(side, ns.into_iter().collect());
            }
        }
        row
    };
    parts::codec_works().map(row).collect()
}

/// Instructions a message, counted in the work alone: what precedes it is left out.
fn count_instructions(session: &mut Session, outcome: &mut Outcome) -> Result<(), Fault> {
    let names: Vec<&str> = parts::codec_works().collect();
    for (n, name) in names.iter().enumerate() {
        session.say(&format!("codec: instructions of {name}"));
        let counted = instructions(name);
        session.advance(COUNT_SECONDS / names.len() as f64);
        match counted {
            Ok(count) => {
                let messages = COUNT as f64 * parts::MESSAGES as f64;
                let mut metrics = Metrics::default();
                metrics.push("instructions", count as f64 / messages);
                outcome.rows[n].add(Side::Ours, metrics);
            }
            Err(Fault::Stopped) => return Err(Fault::Stopped),
            Err(Fault::Failed(why)) => {
                session.note(outcome, format!("instructions were not counted: {why}"));
                return Ok(());
            }
        }
    }
    Ok(())
}

fn instructions(name: &str) -> Result<u64, Fault> {
    let exe = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(format!("--toggle-collect={}", parts::COUNTED)).arg(exe);
    command.arg("part").args(part("codec", &["--work", name, "--count", &COUNT.to_string()]));
    let mut process = Process::start("valgrind", &mut command)?;
    let mut collected = None;
    while let Some(line) = process.next_line(120.0)? {
        collected = collected.or_else(|| read_collected(&line.text));
    }
    collected.ok_or_else(|| process.failed("has counted nothing"))
}

/// `==12== Collected : 123456`.
fn read_collected(line: &str) -> Option<u64> {
    line.split("Collected :").nth(1)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_become_rows() {
        let value = serde_json::json!({"codec": "x", "decode_74": 50.0, "encode_130": 30.0});
        let mut all = Row::new("codec");
        all.add(Side::Ours, all_figures(&value));
        let rows = split(&all);
        let labels: Vec<&str> = rows.iter().map(|r| r.label.as_str()).collect();
        assert_eq!(labels[..4], ["decode_74", "decode_130", "encode_74", "encode_130"]);
        assert_eq!(labels[4..], ["write_json_74", "write_json_130", "read_json_74", "read_json_130"]);
        assert_eq!(rows[0].side(Side::Ours)[0].get("ns"), Some(50.0));
        assert_eq!(rows[1].side(Side::Ours)[0].get("ns"), None);
    }

    #[test]
    fn the_count_of_valgrind_is_found() {
        assert_eq!(read_collected("==12== Collected : 123456"), Some(123_456));
        assert_eq!(read_collected("==12== Events    : Ir"), None);
    }
}
