//! A steady rate from a line to a consumer, small here: the same run with the rates of the figures is `cargo run -p feed-io --example feed_rate`.

use std::path::Path;

#[path = "../../../../feed-io/examples/feed_rate/exchange.rs"]
mod exchange;
#[path = "../../../../feed-io/examples/feed_rate/run.rs"]
#[allow(dead_code, reason = "figures are for people")]
mod run;
#[path = "../../../../feed-io/examples/feed_rate/watcher.rs"]
#[allow(dead_code, reason = "figures are for people")]
mod watcher;

use super::day;

/// Bytes by which the process may grow from the middle of the run on: trades are kept for the day, 32 bytes each, and so is what tables grow by.
const GROWTH: u64 = 8 << 20;

#[test]
fn at_a_steady_rate_nothing_is_lost_and_nothing_grows() {
    let plan = run::Plan { rate: 5_000, seconds: 4, stocks: 50, watched: 50, lines: 2, patience_s: 120 };
    let outcome = run::run(Path::new(env!("CARGO_BIN_EXE_quoteway")), &plan).expect("a run");
    assert_eq!(outcome.faults(GROWTH), Vec::<String>::new(), "{outcome:?}");
    // The share of 20,000 messages that the consumer has: nearly all of them change a level.
    assert!(outcome.updates > 17_000, "{outcome:?}");
}
