//! The scenarios of `quoteway scenario` against programs of our own as providers: the simulated source, listening and dialling in.

use std::process::Command;

/// Runs all scenarios of a kind against a command; its output, if all were passed but those that are named.
fn judged(kind: &str, tested: &[&str], not_judged: &[&str]) {
    let quoteway = env!("CARGO_BIN_EXE_quoteway");
    let run = Command::new(quoteway)
        .args(["scenario", "run", "--all", "--judges", kind, "--jobs", "4", "--quiet", "--", quoteway])
        .args(tested)
        .output()
        .expect("the binary runs");
    let text = String::from_utf8_lossy(&run.stdout);
    let of = |word: &str| -> Vec<&str> {
        text.lines().filter_map(|line| line.strip_prefix(word)?.split_whitespace().next()).collect()
    };
    assert_eq!(of("FAILED "), Vec::<&str>::new(), "{text}");
    assert_eq!(of("not judged "), not_judged, "{text}");
    assert!(of("passed ").len() >= 8, "{text}");
}

#[test]
fn the_simulated_source_passes_as_interactive_provider() {
    judged("provider", &["sink-driven-src", "-N", "{port}", "--bind", "{host}", "-K", "-U", "50"], &["provider-view"]);
}

#[test]
fn the_simulated_source_passes_as_non_interactive_provider() {
    judged("publisher", &["sink-driven-src", "--nip", "{address}", "--items", "RDT{0..3}", "-U", "50"], &[]);
}
