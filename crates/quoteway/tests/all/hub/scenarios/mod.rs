//! The conformance scenarios (`crates/sim/conformance`) over sockets: `quoteway` as its users run it, with the providers and consumers of
//! the scripts at the other ends of its connections.
//!
//! In memory a step is over when the machines have come to rest. Here a fence shows that, one for each Source Distributor: an update that goes
//! from a provider of its own through the servers to a consumer of its own, and a generic message back. What was said to the servers before has had its effect then,
//! as far as they do what comes first first; a step that waits for something waits longer, if need be. Where the script lets time pass, it
//! passes; a scenario that fails there because the machine was slower than the script is run again.

mod fence;
mod servers;
mod setup;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use servers::Sockets;
use setup::Setup;
use sim::conformance::{Scenario, Variant, run_at, scenarios};

/// Scenarios at a time: most of the time of each is spent waiting.
const AT_A_TIME: usize = 6;

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/conformance");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("a file").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    files
}

/// All scenarios, each with the name of its file. `QUOTEWAY_SCENARIO=text` leaves those whose title has the text.
fn all() -> Vec<(String, Scenario)> {
    let wanted = std::env::var("QUOTEWAY_SCENARIO").unwrap_or_default();
    let of_file = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a file");
        let file = path.file_name().expect("a name").to_string_lossy().into_owned();
        let all = scenarios(&text).unwrap_or_else(|error| panic!("{file}, line {}: {}", error.line, error.why));
        all.into_iter().map(move |scenario| (file.clone(), scenario))
    };
    files().into_iter().flat_map(of_file).filter(|(_, scenario)| scenario.title.contains(&wanted)).collect()
}

/// The results of the scenarios.
#[derive(Default)]
struct Outcome {
    ran: usize,
    /// Scenarios that cannot be run here, with the reason.
    left_out: Vec<String>,
    failures: Vec<String>,
}

fn goes_as_it_says(variant: Variant) {
    let mut all = all();
    // The longest scenarios begin.
    all.sort_by_key(|(_, scenario)| std::cmp::Reverse(setup::passes(scenario)));
    let next = Mutex::new(all.iter());
    let outcome = Mutex::new(Outcome::default());
    std::thread::scope(|threads| {
        for _ in 0..AT_A_TIME {
            threads.spawn(|| {
                loop {
                    let Some((file, scenario)) = next.lock().expect("no panic").next() else { return };
                    let came = one(scenario, variant);
                    let mut outcome = outcome.lock().expect("no panic");
                    match came {
                        Ok(()) => outcome.ran += 1,
                        Err(Fault::NotHere(why)) => outcome.left_out.push(format!("{}: {why}", scenario.title)),
                        Err(Fault::Failed(why)) => outcome.failures.push(format!("{file}, {why}")),
                    }
                }
            });
        }
    });
    let Outcome { ran, left_out, failures } = outcome.into_inner().expect("no panic");
    println!("{ran} of {} scenarios over sockets, {} left out:\n{}", all.len(), left_out.len(), left_out.join("\n"));
    assert!(failures.is_empty(), "{} of {} scenarios:\n{}", failures.len(), all.len(), failures.join("\n"));
    assert!(ran >= LEAST || all.len() < LEAST, "{ran} of {} scenarios ran", all.len());
}

/// So many of them can be run here.
const LEAST: usize = 120;

enum Fault {
    NotHere(String),
    Failed(String),
}

fn one(scenario: &Scenario, variant: Variant) -> Result<(), Fault> {
    if !variant.is_one_of_processes(&scenario.only) {
        return Err(Fault::NotHere(format!("not for the variant {}", variant.name())));
    }
    let setup = Setup::of(scenario, variant).map_err(Fault::NotHere)?;
    let mut tries = 0;
    loop {
        tries += 1;
        let begun = Sockets::start(&setup);
        let servers = begun.map_err(|why| Fault::Failed(format!("{}: the servers: {why}", scenario.title)))?;
        let clock = servers.clock();
        match run_at(scenario, variant, servers) {
            Ok(()) => return Ok(()),
            // Where time passes, a machine that was too slow for the script has shown nothing.
            Err(_) if setup.has_time && clock.late() > TOO_LATE && tries < TRIES => {}
            Err(failure) => return Err(Fault::Failed(failure.to_string())),
        }
    }
}

/// Nanoseconds: the scripts leave a second between what must not have happened yet and what must have.
const TOO_LATE: u64 = 400_000_000;
/// How often a scenario in which time passes is run until the machine is fast enough.
const TRIES: u32 = 5;

#[test]
fn go_as_they_say_in_one_process_with_a_cache() {
    goes_as_it_says(Variant::DistributorCache);
}

#[test]
fn go_as_they_say_in_two_processes() {
    goes_as_it_says(Variant::Network);
}
