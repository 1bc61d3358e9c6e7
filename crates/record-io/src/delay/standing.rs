//! How a delayed service stands, for whoever watches the process.

use serde::Serialize;

/// How a delayed service on demand stands. Counts are of since its journal was opened last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, schemars::JsonSchema)]
pub struct Standing {
    /// The journal can be read and written: the service is published.
    #[serde(rename = "up")]
    pub is_up: bool,
    /// Items that are written down, and those of which something is still to be said.
    pub items: u64,
    /// Items that somebody watches.
    pub watched: u64,
    /// Requests that were refused since there were too many items (`delay_items_max`).
    pub refused: u64,
    /// Messages that were written down.
    pub written: u64,
    /// Messages that were published when they were due, each stream counted.
    pub published: u64,
    /// Messages that the journal let go of before they were published, since its limit of bytes was reached.
    pub removed: u64,
    /// Bytes of the journal's files.
    pub held_bytes: u64,
    /// How long ago the oldest message came that is to be published, nanoseconds; 0 if there is none. Where it is more than the longest delay, the service is behind.
    pub oldest_ns: u64,
}
