//! What is done to a server under load.

use serde::{Deserialize, Serialize};

/// What is done; see `crate::load`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// Consumers that are silent.
    Idle,
    /// All are gone, and come back.
    Storm,
    /// The clients come and go.
    Cycles,
    /// Some take slowly.
    Slow,
    /// Some are hostile, and a provider is lost.
    Hostile,
}
