//! Numbers that messages have for what scripts name.

use std::collections::BTreeMap;

/// Stream of the directory, of consumers and of providers.
pub const DIRECTORY_STREAM: i32 = 2;

/// Services by name and by the id that they have on one connection.
pub type ServiceIds = BTreeMap<String, u16>;

/// A second in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;
