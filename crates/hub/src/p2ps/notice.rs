//! What an operator should hear of.

use super::SourceId;
use std::fmt;

/// Something that an operator should hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Two dictionaries define a field differently; the first one counts.
    DictionaryConflict {
        /// What is defined how, and where.
        text: String,
    },
    /// A dictionary that a provider offers cannot be read.
    DictionaryUnreadable {
        /// The service that it came with.
        service: String,
        /// What is wrong.
        text: String,
    },
    /// A Source Distributor is lost; its items are suspect.
    SourceLost {
        /// Which.
        source: SourceId,
        /// Items that it served.
        items: u64,
        /// Why it counts as lost.
        why: &'static str,
    },
    /// A service has come.
    ServiceUp {
        /// Its name.
        service: String,
    },
    /// A service that is here goes down at the last source that had it, or is up again.
    ServiceState {
        /// Its name.
        service: String,
        /// It is up.
        up: bool,
    },
    /// A service is down at one source: its items were given back there, and are asked for at another.
    ItemsMoved {
        /// Its name.
        service: String,
        /// Where it is down.
        source: SourceId,
        /// Items that were open there.
        items: u64,
    },
    /// A service is gone.
    ServiceGone {
        /// Its name.
        service: String,
    },
    /// A service cannot be offered: all ids are in use.
    NoServiceIds {
        /// Its name.
        service: String,
        /// Services that were refused so since the start.
        refused: u64,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DictionaryConflict { text } => write!(f, "dictionaries disagree: {text}"),
            Self::DictionaryUnreadable { service, text } => {
                write!(f, "the dictionary that service {service} offers cannot be read: {text}")
            }
            Self::SourceLost { source, items, why } => {
                write!(f, "source distributor {} {why}: {items} items are suspect until another serves them", source.0)
            }
            Self::ServiceUp { service } => write!(f, "service {service} is here"),
            Self::ServiceState { service, up: true } => write!(f, "service {service} is up again"),
            Self::ServiceState { service, up: false } => {
                write!(f, "service {service} is down: no source has it; its items wait for it")
            }
            Self::ItemsMoved { service, source, items } => write!(
                f,
                "service {service} is down at source distributor {}: its {items} items there are asked for at another",
                source.0
            ),
            Self::ServiceGone { service } => write!(f, "service {service} is gone"),
            Self::NoServiceIds { service, refused } => write!(
                f,
                "service {service} is not offered: all 65000 service ids are in use ({refused} services refused so far); the id of one that is gone, and that no client has to do with, is free after a minute"
            ),
        }
    }
}
