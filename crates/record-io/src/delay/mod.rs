//! A service recorded, and published so much later: by a process of its own (`quoteway delay`), or item by item as somebody asks ([`serve`], `[delay.NAME]`).
//!
//! The journal is a recording (crate `record`). A `Recorder` writes down what comes. A `Player` says it again when it is due; it
//! begins with the images as they were then. Where nothing was written down (the process was not there, a segment is gone or broken) there is a hole: at its place in time
//! every item is Suspect, and good again with the first good image behind it. A new life of the process synchronises before it plays anything: by that what was before it is
//! known to be over. Time is an argument of both: wall clock in nanoseconds, since a journal outlives processes.

use std::sync::Arc;

mod alive;
mod delayed;
mod former;
mod on_demand;
mod player;
mod recorder;
mod rules;
mod standing;
#[cfg(test)]
mod tests;

pub use delayed::{Delayed, DelayedConfig, Output, quality};
pub use on_demand::{OnDemandConfig, serve};
pub use rules::{Rule, RuleError, Rules, Selects, all_rules};
pub use standing::Standing;

/// An item of the service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Number of its domain.
    pub domain: u8,
    /// Its name.
    pub name: Arc<str>,
}

const SECOND: u64 = 1_000_000_000;
/// How often time is looked at when nothing happens, nanoseconds.
const TURN: u64 = SECOND / 20;
/// Payload in a part of an image, bytes.
const IMAGE_PART: usize = 30_000;
/// Room for a message, bytes.
const ROOM: usize = 128_000;
