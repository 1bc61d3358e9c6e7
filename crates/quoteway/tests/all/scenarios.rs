//! The scenarios of `quoteway scenario` against programs of our own as providers: the simulated source, listening and dialling in.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs scenarios against a command; the names of those that were passed, that failed, and that were not judged; and all that was said.
fn played(which: &[&str], tested: &[&str]) -> ([Vec<String>; 3], String) {
    let quoteway = env!("CARGO_BIN_EXE_quoteway");
    let run = Command::new(quoteway)
        .args(["scenario", "run", "--quiet"])
        .args(which)
        .args(["--", quoteway])
        .args(tested)
        .output()
        .expect("the binary runs");
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let of = |word: &str| -> Vec<String> {
        let names = text.lines().filter_map(|line| line.strip_prefix(word)?.split_whitespace().next());
        names.map(str::to_owned).collect()
    };
    (["passed ", "FAILED ", "not judged "].map(of), text)
}

/// Runs all scenarios of a kind against a command: all are passed but those that are named. The limits of some rules are seconds, in which a busy
/// machine may do nothing: those that fail beside others are played again, alone.
fn judged(kind: &str, tested: &[&str], not_judged: &[&str]) {
    let ([passed, failed, unjudged], text) = played(&["--all", "--judges", kind, "--jobs", "4"], tested);
    assert_eq!(unjudged, not_judged, "{text}");
    assert!(passed.len() >= 8, "{text}");
    for name in failed {
        let ([passed, ..], again) = played(&[&name, "--jobs", "1"], tested);
        assert_eq!(passed, [name], "{text}\n\nAgain, alone:\n{again}");
    }
}

#[test]
fn the_simulated_source_passes_as_interactive_provider() {
    judged("provider", &["sink-driven-src", "-N", "{port}", "--bind", "{host}", "-K", "-U", "50"], &["provider-view"]);
}

#[test]
fn the_simulated_source_passes_as_non_interactive_provider() {
    judged("publisher", &["sink-driven-src", "--nip", "{address}", "--items", "RDT{0..3}", "-U", "50"], &[]);
}

/// Whoever stops a run, as a job of a CI is stopped, finds no client left behind.
#[test]
fn a_run_that_is_stopped_leaves_no_client_behind() {
    let mut run = Command::new(env!("CARGO_BIN_EXE_quoteway"))
        .args(["scenario", "run", "server-restarts", "--", "sh", "-c", "echo $$ >&2; exec sleep 600"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut said = BufReader::new(run.stderr.take().expect("a pipe"));
    let mut line = String::new();
    said.read_line(&mut line).expect("the client says its number");
    let client: u32 = line.trim().parse().expect("a number");
    let stop = Command::new("kill").args(["-TERM", &run.id().to_string()]).status();
    assert!(stop.expect("kill").success());
    let mut why = String::new();
    said.read_to_string(&mut why).expect("it ends, and its client with it");
    assert!(!run.wait().expect("it has ended").success() && why.contains("stopped by a signal"), "{why}");
    assert!(!Path::new(&format!("/proc/{client}")).exists(), "the client is still there");
}
