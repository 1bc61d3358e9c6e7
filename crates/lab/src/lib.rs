//! `quoteway-lab` (`quoteway lab` starts it): measures this system, beside the bare loops of the same shape and other products, in one run.
//!
//! | module | what it is for |
//! |---|---|
//! | [`results`] | the ground: figures of sides by rows, ratios, goals and verdicts, published series, deviations, as data; uses none of the others |
//! | [`scenario`] | what is measured: parameters, rates, cells, from a file; uses results only |
//! | [`applies`], [`conditions`] | what `--set` changes; under which conditions a scenario runs, for a reader |
//! | [`originals`], [`deviations`] | what others have published, and where their tests differ from ours |
//! | [`environment`] | the machine, its network cards, the commit, what else was going on |
//! | [`product`], [`hosts`], [`nodes`], [`chain`], [`mod@run`] | the binary that is measured, where its processes run, those of a test, one run of them |
//! | [`session`], [`progress`], [`resume`] | pairs of runs by turns, the file of results, how far it is, what an earlier call has done |
//! | [`flow`], [`images`], [`late`], [`seen`], [`memory`], [`conflation`], [`codec`], [`stages`], [`lbm`], [`load`], [`transports`] | the procedures |
//! | [`peers`], [`nats`] | other products on the same work |
//! | [`observed`] | the files of two ends as the row of a report |
//! | [`parts`] | measurements that need a process of their own |
//! | [`present`] | on top: how results are shown, as Markdown, as a page with charts, as CSV; no procedure uses it |
//!
//! Who saw which message when, statistics and processes are the crate `measure`; the bare loops are the crate `floor`.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use clap::Subcommand;
use serde_json::{Value, json};

pub mod applies;
pub mod chain;
pub mod codec;
pub mod conditions;
pub mod conflation;
pub mod deviations;
pub mod environment;
pub mod error;
pub mod flow;
pub mod hosts;
pub mod images;
pub mod late;
pub mod lbm;
pub mod load;
pub mod memory;
pub mod nats;
pub mod nodes;
pub mod observed;
pub mod originals;
pub mod parts;
pub mod peers;
pub mod present;
pub mod product;
pub mod progress;
// The updates that the codec's own benchmark works on: one definition, so that both measure the same bytes.
#[path = "../../rwf/benches/codec/reference.rs"]
mod reference;
pub mod results;
pub mod resume;
pub mod run;
pub mod scenario;
pub mod seen;
pub mod session;
pub mod stages;
pub mod ticks;
pub mod transports;
pub mod websocket;

use originals::Tables;

use environment::{Distance, Disturbance, Environment};
use error::FileError;
use hosts::Hosts;
use measure::process::Fault;
use results::{Outcome, Verdict};
use resume::Earlier;
use run::Where;
use scenario::{Kind, Scenario};
use session::{Places, Session};

/// What the lab does besides running scenarios.
#[derive(Debug, Clone, Subcommand)]
pub enum What {
    /// Show the scenarios
    List {
        /// As the file to copy and change
        #[arg(long)]
        toml: bool,
        /// Scenarios of this file instead of the built-in ones
        #[arg(long, value_name = "FILE")]
        scenarios: Option<PathBuf>,
    },
    /// Latencies, rates and losses from the files of --observe, as the reports show them
    Observed(observed::Observed),
    /// A part of a measurement, in a process of its own
    #[command(subcommand, hide = true)]
    Part(parts::Part),
}

/// Which scenarios are run, how, and what is written.
#[derive(Debug, Clone, clap::Args)]
pub struct RunArgs {
    /// Scenarios to run; without any, all that `quoteway-lab list` does not call "on request"
    #[arg(value_name = "SCENARIO", value_parser = scenario::Names, hide_possible_values = true)]
    names: Vec<String>,
    /// Runs of each side, by turns; claims need 7
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,
    /// Short runs, one of each side: shows that everything works, not how fast
    #[arg(long)]
    quick: bool,
    /// Append every run to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the report to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the report with its charts to this file: HTML, complete in itself; a published report's scenarios in its order
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write every run's figures to this file: CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Folder of published figures (latency.csv, throughput.csv, lbm.csv) in place of the built-in ones
    #[arg(long, value_name = "DIR")]
    published: Option<PathBuf>,
    /// Scenarios of this file instead of the built-in ones
    #[arg(long, value_name = "FILE")]
    scenarios: Option<PathBuf>,
    /// Go on where an earlier call with the same --out was cut off: what it has measured is not measured again
    #[arg(long, requires = "out")]
    resume: bool,
    /// Runs as long as the originals', where they say how long that was
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Everything on loopback: no network namespaces, no root needed
    #[arg(long)]
    loopback: bool,
    /// Run what is between source and client on this machine, where ssh leads without a password: [user@]name[=address]. Twice: Source
    /// Distributors on the first, P2PSs on the second
    #[arg(long = "host", value_name = "HOST", conflicts_with = "loopback")]
    hosts: Vec<hosts::Destination>,
    /// Other products that may run beside ours, separated by commas; or none
    #[arg(long, value_name = "NAMES", default_value = "eta,nats,aeron", value_parser = peers_of)]
    peers: Peers,
    /// Folder of other products' binaries, which `make bench-peers` fills
    #[arg(long, value_name = "DIR", default_value = "target/peers")]
    peers_dir: PathBuf,
    /// Change a parameter of all chosen scenarios, for example seconds=10 or items=1000
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Folder of the Java programs (bench and codec-bench), for the peer
    #[arg(long, value_name = "DIR", default_value = "interop")]
    interop: PathBuf,
}

/// The other products that may run.
#[derive(Debug, Clone, PartialEq)]
struct Peers(Vec<results::Side>);

/// A name that no other product has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no peer; there are {known}, and none", known = results::PEERS.map(results::Side::name).join(", "))]
struct NoPeer(String);

/// Names separated by commas, or `none`.
fn peers_of(text: &str) -> Result<Peers, NoPeer> {
    if text == "none" {
        return Ok(Peers(Vec::new()));
    }
    let one = |name: &str| {
        let side = name.trim().parse().ok().filter(|side| results::PEERS.contains(side));
        side.ok_or_else(|| NoPeer(name.to_owned()))
    };
    text.split(',').map(one).collect::<Result<_, _>>().map(Peers)
}

/// Does what is not running scenarios.
///
/// # Errors
/// What went wrong, for the user.
pub fn look(what: &What) -> anyhow::Result<()> {
    match what {
        What::Observed(observed) => {
            println!("{}", observed.show()?);
            Ok(())
        }
        What::List { toml: true, scenarios } => {
            print!("{}", text_of(scenarios.as_ref())?);
            Ok(())
        }
        What::List { scenarios, .. } => {
            let all = scenario::read(&text_of(scenarios.as_ref())?)?;
            let width = all.iter().map(|s| s.name.len()).max().unwrap_or(0);
            let mut group = "";
            for s in &all {
                if s.group != group {
                    group = &s.group;
                    println!("{}", heading(group));
                }
                println!("{:width$}  {}{}", s.name, s.text(&s.title), if s.on_request { " (on request)" } else { "" });
                println!("{:width$}    {}", "", conditions::parameters(s));
            }
            println!(
                "\nreports: all that reproduce a report. all: everything. Change a parameter: --set, or list --toml and --scenarios."
            );
            Ok(())
        }
        What::Part(part) => parts::run(part),
    }
}

/// What stands above the scenarios of a group in the list; those of none are only set apart.
fn heading(group: &str) -> String {
    if group.is_empty() { String::new() } else { format!("\n{group}: all of these by one name") }
}

fn text_of(path: Option<&PathBuf>) -> Result<String, FileError> {
    path.map_or_else(
        || Ok(scenario::BUILT_IN.to_owned()),
        |path| std::fs::read_to_string(path).map_err(FileError::of("scenarios", path)),
    )
}

/// The scenarios that a call chooses, as it changes them, and what to say of those that a change does not fit.
fn chosen(args: &RunArgs) -> anyhow::Result<(Vec<Scenario>, Vec<applies::LeftOut>)> {
    let mut chosen = scenario::select(scenario::read(&text_of(args.scenarios.as_ref())?)?, &args.names)?;
    for scenario in &mut chosen {
        if args.quick {
            scenario.shorten();
        } else if args.full {
            scenario.lengthen();
        }
    }
    // Last, so that what is asked for by name wins over --quick and --full.
    let said = applies::set(&mut chosen, &args.set)?;
    let Peers(peers) = &args.peers;
    for scenario in &mut chosen {
        scenario.keep_peers(peers);
    }
    Ok((chosen, said))
}

/// Runs scenarios and reports.
///
/// # Errors
/// What went wrong, for the user.
pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    net::signal::install()?;
    let (chosen, said) = chosen(args)?;
    for (name, text) in &said {
        eprintln!("{name}: {text}");
    }
    let Peers(peers) = &args.peers;
    let tables = args.published.as_deref().map_or_else(|| Ok(Tables::built_in()), Tables::of)?;
    let pairs = if args.quick { 1 } else { args.pairs };
    let seconds: Vec<f64> = chosen.iter().map(|s| estimate(s, pairs, args.quick, peers)).collect();
    let expected: f64 = seconds.iter().sum();
    eprintln!("{} scenario(s), about {} in all", chosen.len(), duration(expected));
    let environment = Environment::read();
    let hosts = reached(args, &chosen)?;
    let (interop, loopback) = (args.interop.clone(), args.loopback);
    let places = Places { interop, peers: args.peers_dir.clone(), loopback, hosts: hosts.clone() };
    let earlier = match &args.out {
        Some(path) if args.resume => Earlier::read(path, &environment)?,
        _ => Earlier::default(),
    };
    if args.resume {
        eprintln!("{}", earlier.about());
    }
    let with = (places, peers.clone());
    let mut session = Session::begin((pairs, args.quick), with, args.out.as_deref(), &environment.json(), expected)?;
    session.earlier = earlier;
    let (mut outcomes, mut over) = (Vec::new(), 0.0);
    for (scenario, seconds) in chosen.iter().zip(seconds) {
        let (distance, before) = (Distance::default().look(), Disturbance::now());
        let mut outcome = outcome_of(scenario, &tables, session.places.place());
        outcome.notes.extend(said.iter().filter(|(name, _)| *name == scenario.name).map(|(_, text)| text.clone()));
        let done = run_scenario(&mut session, scenario, &mut outcome);
        over += seconds;
        session.progress.reach(over);
        outcome.disturbance = format!("{}{}", before.since(), distance.look());
        outcome.verdicts = scenario.goals()?.into_iter().map(|g| Verdict::of(g, &outcome.rows)).collect();
        record(&mut session, &outcome);
        let stopped = done == Err(Fault::Stopped);
        if let Err(Fault::Failed(why)) = done {
            session.note(&mut outcome, why);
        }
        outcomes.push(outcome);
        if stopped {
            let goes_on = args.out.as_ref().map_or("", |_| "; the same call with --resume goes on");
            session.progress.note(&format!("stopped; the report holds what is done{goes_on}"));
            break;
        }
    }
    // The session's bar must not be drawn into the report.
    drop(session);
    write_reports(args, &tables, &environment, &outcomes)?;
    let is_empty = outcomes
        .iter()
        .all(|o| o.rows.iter().all(|r| r.side(results::Side::Ours).iter().all(|m| m.figures.is_empty())));
    if is_empty {
        bail!("nothing could be measured");
    }
    Ok(())
}

/// The machines of the system, reached, if there are to be some.
fn reached(args: &RunArgs, chosen: &[Scenario]) -> anyhow::Result<Option<Arc<Hosts>>> {
    if args.hosts.is_empty() {
        return Ok(None);
    }
    if args.hosts.len() > 2 {
        bail!("--host: one machine, or one for Source Distributors and one for P2PSs; {} are named", args.hosts.len());
    }
    let is_apart = |scenario: &&Scenario| scenario.kind == Kind::Flow && scenario.nodes > 1;
    if let Some(other) = chosen.iter().find(|scenario| !is_apart(scenario)) {
        let text = "has no system that could be on another machine; scenarios with nodes have (quoteway-lab list)";
        bail!("--host: {} {text}", other.name);
    }
    eprintln!("reaching {} host(s) by ssh", args.hosts.len());
    Ok(Some(Arc::new(Hosts::reach(&args.hosts)?)))
}

/// What stands on a scenario's page before anything is measured.
fn outcome_of(scenario: &Scenario, tables: &Tables, place: Where<'_>) -> Outcome {
    let (originals, mut notes) = originals::read(tables, scenario);
    if let Where::Hosts(hosts) = place {
        let about = hosts.about();
        notes.push(format!(
            "Source and client on this machine, what is between them on {about}. The floor and other products: on this machine."
        ));
    }
    let mut outcome = Outcome {
        name: scenario.name.clone(),
        group: scenario.group.clone(),
        title: scenario.text(&scenario.title),
        about: scenario.text(&scenario.about),
        conditions: conditions::of(scenario, Some(place)),
        deviations: deviations::of(scenario, place),
        fan: scenario.fan(),
        originals,
        notes,
        ..Outcome::default()
    };
    match originals::lbm::read(tables, scenario) {
        Ok(table) => outcome.published = table,
        Err(why) => outcome.notes.push(why.to_string()),
    }
    outcome
}

/// Writes the report in all forms that were asked for.
fn write_reports(args: &RunArgs, tables: &Tables, environment: &Environment, all: &[Outcome]) -> anyhow::Result<()> {
    let save = |path: &Path, text: String| net::output::write(path, text).map_err(FileError::of("report", path));
    let pairs = if args.quick { 1 } else { args.pairs };
    if let Some(path) = &args.html {
        let call = present::html::report::Call { outcomes: all, path };
        let reports = present::html::report::pages(environment, pairs, call, tables);
        match &reports[..] {
            // A single report is the page; several have one each beside the page of everything.
            [one] if all.iter().all(|outcome| outcome.group == one.group) => save(path, one.html.clone())?,
            several => {
                save(path, present::html::page(environment, pairs, all))?;
                for one in several {
                    save(&call.file(&one.group), one.html.clone())?;
                }
            }
        }
    }
    if let Some(path) = &args.csv {
        save(path, present::html::csv(all))?;
    }
    let text = present::report::markdown(environment, pairs, all);
    match &args.report {
        None => print!("{text}"),
        Some(path) => save(path, text)?,
    }
    Ok(())
}

/// Seconds as people say them: `2:05 minutes`, `13:20 hours`.
fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    if seconds < 3_600 {
        return format!("{}:{:02} minutes", seconds / 60, seconds % 60);
    }
    let minutes = seconds.div_ceil(60);
    format!("{}:{:02} hours", minutes / 60, minutes % 60)
}

fn estimate(scenario: &Scenario, pairs: u32, is_quick: bool, peers: &[results::Side]) -> f64 {
    match scenario.kind {
        Kind::Codec => codec::estimate(pairs, is_quick),
        Kind::Flow => flow::estimate(scenario, pairs),
        Kind::Images => images::estimate(scenario, pairs),
        Kind::Late => late::estimate(scenario, pairs),
        Kind::Seen => seen::estimate(scenario, pairs),
        Kind::Memory => memory::estimate(scenario, pairs),
        Kind::Stages => stages::estimate(scenario, pairs, is_quick),
        Kind::Lbm => lbm::estimate(scenario, pairs, is_quick, peers.contains(&results::Side::Aeron)),
        Kind::Load => load::estimate(scenario, pairs),
        Kind::Conflation => conflation::estimate(scenario, pairs),
        Kind::Transports => transports::estimate(scenario, pairs),
    }
}

fn run_scenario(session: &mut Session, scenario: &Scenario, outcome: &mut Outcome) -> Result<(), Fault> {
    match scenario.kind {
        Kind::Codec => codec::run(session, outcome),
        Kind::Flow => flow::run(session, scenario, outcome),
        Kind::Images => images::run(session, scenario, outcome),
        Kind::Late => late::run(session, scenario, outcome),
        Kind::Seen => seen::run(session, scenario, outcome),
        Kind::Memory => memory::run(session, scenario, outcome),
        Kind::Stages => stages::run(session, scenario, outcome),
        Kind::Lbm => lbm::run(session, scenario, outcome),
        Kind::Load => load::run(session, scenario, outcome),
        Kind::Conflation => conflation::run(session, scenario, outcome),
        Kind::Transports => transports::run(session, scenario, outcome),
    }
}

/// Appends the medians and verdicts of a scenario to the results.
fn record(session: &mut Session, outcome: &Outcome) {
    for row in &outcome.rows {
        for metric in row.metrics() {
            let median = |side| row.spread(side, metric).map(|s| s.median);
            let by_name = |of: &dyn Fn(results::Side) -> Option<Value>| -> serde_json::Map<String, Value> {
                let sides = [results::Side::Ours].into_iter().chain(results::OTHERS);
                sides.filter_map(|side| Some((side.name().to_owned(), of(side)?))).collect()
            };
            let ratio = |side| row.ratio(side, metric).map(|s| json!([s.median, s.low, s.high]));
            session.record(&json!({
                "record": "median", "scenario": outcome.name, "row": row.label, "figure": metric,
                "medians": by_name(&|side| median(side).map(Into::into)), "over": by_name(&ratio),
            }));
        }
    }
    for verdict in &outcome.verdicts {
        let goal = &verdict.goal;
        session.record(&json!({
            "record": "goal", "scenario": outcome.name, "row": goal.row, "figure": goal.metric,
            "over": goal.over.map(results::Side::name), "at_least": goal.at_least, "bound": goal.bound,
            "value": verdict.value, "met": verdict.is_met(),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_peers_can_be_asked_for() {
        assert_eq!(peers_of("none"), Ok(Peers(Vec::new())));
        assert_eq!(peers_of("nats,aeron"), Ok(Peers(vec![results::Side::Nats, results::Side::Aeron])));
        assert!(peers_of("floor").is_err() && peers_of("").unwrap_err().to_string().contains("none"));
    }

    #[test]
    fn a_group_without_a_name_has_no_heading() {
        assert_eq!(
            (heading(""), heading("ibm-2010").as_str()),
            (String::new(), "\nibm-2010: all of these by one name")
        );
    }

    #[test]
    fn it_is_said_beforehand_how_long_a_call_takes() {
        assert_eq!(
            (duration(125.4), duration(3_599.0), duration(48_000.0)),
            ("2:05 minutes".into(), "59:59 minutes".into(), "13:20 hours".into())
        );
        let of = |names: &[&str], change: fn(&mut Scenario)| -> f64 {
            let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
            let mut chosen = scenario::select(scenario::read(scenario::BUILT_IN).unwrap(), &names).unwrap();
            chosen.iter_mut().for_each(change);
            chosen.iter().map(|s| estimate(s, 1, true, &results::PEERS)).sum()
        };
        // A look at everything is two minutes, as long as the originals took is a day or more.
        let quick = of(&[], Scenario::shorten);
        assert!((60.0..=160.0).contains(&quick), "{quick}");
        assert!(of(&["reports"], Scenario::lengthen) > 36_000.0);
    }
}
