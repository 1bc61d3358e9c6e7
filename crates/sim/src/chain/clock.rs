//! The time of a world: nanoseconds of its own.

/// A second.
pub(crate) const SECOND: u64 = 1_000_000_000;
