//! Scenarios against clients of our own: a right one, and those that do one thing wrong (`examples/client.rs`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use scenario::file::{Judges, ScenarioFile, read};
use scenario::library::{SHIPPED, Shipped, shipped};
use scenario::verdict::{Outcome, Verdict, text};
use scenario_io::client::Start;
use scenario_io::stage::{Settings, run};

mod formats;
mod stand;

fn client() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    test.parent().and_then(|deps| deps.parent()).expect("a folder").join("examples/client")
}

fn load(name: &str) -> ScenarioFile {
    let text = shipped(name).unwrap_or_else(|| panic!("{name} ships")).text;
    read(name, text, &BTreeMap::new(), &|_| Err("nothing is included".to_owned())).unwrap_or_else(|e| panic!("{e}"))
}

fn played(scenario: &str, arguments: &[&str]) -> Verdict {
    let mut start = vec![client().to_string_lossy().into_owned()];
    start.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    run(&load(scenario), &Start(start), &Settings::default()).expect("a run")
}

fn said(verdict: &Verdict) -> String {
    text(std::slice::from_ref(verdict), &|bytes| rwf_text::message(bytes, None).to_string())
}

/// Which rule a wrong client is caught by, in which scenario.
const WRONG: [(&str, &str, &str); 16] = [
    ("no-reopen", "server-away", "reopens"),
    ("reopen-storm", "item-reopen-storm", "reopen-pacing"),
    ("uses-suspect", "item-suspect-reported", "suspect-data"),
    ("ignores-clear-cache", "image-clear-cache", "clear-cache"),
    ("drops-last-part", "image-parts", "image-parts"),
    ("never-pings", "pings", "pings"),
    ("ignores-closed-login", "login-closed", "closed-login"),
    ("closed-recover-as-closed", "item-closed-recover", "reopens"),
    ("never-renews", "token-expires", "token-renewal"),
    ("posts-after-nak", "post-refused", "post-nak"),
    ("no-takeover", "standby-takes-over", "standby-takes-over"),
    ("two-active", "standby-dies", "standby-parts"),
    ("mixes-servers", "standby-values", "clear-cache"),
    ("distrusts-clock", "time-fields", "time-fields"),
    ("impatient", "server-jitters", "steps"),
    ("never-pings", "connection-vanishes", "dead-server"),
];

#[test]
fn each_wrong_client_is_caught_by_the_name_of_its_rule() {
    let run = |(wrong, scenario, rule): (&str, &str, &str)| {
        let verdict = played(scenario, &["--wrong", wrong, "--post", "IBM.N"]);
        let found: Vec<&str> = verdict.findings.iter().map(|finding| finding.rule).collect();
        let caught = verdict.outcome == Outcome::Failed && found.contains(&rule);
        (!caught).then(|| format!("{wrong} in {scenario}, {rule}: {}", said(&verdict)))
    };
    let missed = in_parallel(&WRONG, |case| run(*case));
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn a_right_client_passes_all() {
    let consumers: Vec<&Shipped> =
        SHIPPED.iter().filter(|shipped| load(shipped.name).judges == Judges::Consumer).collect();
    let failed = in_parallel(&consumers, |shipped| {
        let verdict = played(shipped.name, &["--post", "IBM.N", "TRI.N"]);
        (verdict.outcome != Outcome::Passed).then(|| said(&verdict))
    });
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Does the cases, four at a time; what they return.
fn in_parallel<T: Sync>(cases: &[T], run: impl Fn(&T) -> Option<String> + Sync) -> Vec<String> {
    let (next, said) = (std::sync::atomic::AtomicUsize::new(0), std::sync::Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    if let Some(text) = run(case) {
                        said.lock().expect("no case panics with it").push(text);
                    }
                }
            });
        }
    });
    said.into_inner().expect("no case panicked")
}
