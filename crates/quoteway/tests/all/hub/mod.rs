//! The hub between processes: one suite over every way of joining Source Distributors and P2PSs, and what happens when
//! something between them fails.

mod chaos;
mod conformance;
mod faults;
mod flood;
mod network;
mod paths;
mod place;
mod provider;
mod security;
mod site;
mod soak;
mod watcher;

use std::time::Duration;

/// How long anything may take before its test fails; a loaded machine is slow.
const PATIENCE: Duration = Duration::from_mins(1);

/// So many item names.
fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("ITEM{n}")).collect()
}
