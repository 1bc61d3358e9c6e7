//! Corpora of coverage-guided fuzzing for what the program reads from files: configurations of RMDS and captures.

#[path = "../../../../fuzz/kept.rs"]
mod kept;

#[test]
fn kept_configurations_of_rmds_are_read_or_refused() {
    kept::run(env!("CARGO_MANIFEST_DIR"), "rmds_cnf", config::rmds::hostile);
}

#[test]
fn kept_captures_are_shown_or_refused() {
    kept::run(env!("CARGO_MANIFEST_DIR"), "lbmdump", tools::lbmdump::hostile);
}
