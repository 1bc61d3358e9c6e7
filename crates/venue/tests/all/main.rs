//! Venues: messages against their specifications, days against a naive reader, lines that lose against lines that do not.

#[path = "../support/day.rs"]
#[allow(dead_code, reason = "tests and measurements use different parts")]
mod day;
#[path = "../../../../fuzz/kept.rs"]
mod kept;
#[path = "../support/mdp.rs"]
mod mdp;
#[path = "../hostile/targets.rs"]
mod targets;

mod cme;
mod dbn;
mod hostile;
mod iex;
mod itch;
mod kraken;
mod lines;
mod naive;
mod snapshots;
mod soup;
mod watch;
mod web;
