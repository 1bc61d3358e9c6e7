//! Numbers that messages have for what scripts name.

use std::collections::BTreeMap;

/// Stream of the directory, of consumers and of providers.
pub(super) const DIRECTORY_STREAM: i32 = 2;

/// Services by name and by the id that they have on one connection.
pub(super) type ServiceIds = BTreeMap<String, u16>;
