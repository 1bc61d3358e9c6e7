//! Notices for operators.

use super::load::states::LoadOf;
use hub_items::load_marks::LoadState;
use std::fmt;

/// Something that an operator should hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Two dictionaries define a field differently; the first one counts.
    DictionaryConflict {
        /// The definitions, and their places.
        text: String,
    },
    /// A dictionary that a provider offers cannot be read.
    DictionaryUnreadable {
        /// The service that it came with.
        service: String,
        /// The error.
        text: String,
    },
    /// A Source Distributor is lost; its items are suspect.
    SourceLost {
        /// The Source Distributor's name, or its number if it has none.
        source: String,
        /// Items that it served.
        items: u64,
        /// Why it counts as lost.
        why: &'static str,
    },
    /// A service has come.
    ServiceUp {
        /// The service's name.
        service: String,
    },
    /// A service that is here goes down at the last source that had it, or is up again.
    ServiceState {
        /// The service's name.
        service: String,
        /// The service is up.
        up: bool,
    },
    /// A service is down at one source: its items were given back there, and are asked for at another.
    ItemsMoved {
        /// The service's name.
        service: String,
        /// Where it is down: name, or number.
        source: String,
        /// Items that were open there.
        items: u64,
    },
    /// The items of a service go from one source to another that comes before it.
    ItemsSwitched {
        /// The service's name.
        service: String,
        /// Where they were: name, or number.
        from: String,
        /// Where they are asked for.
        to: String,
        /// How many.
        items: u64,
        /// An operator has said so.
        by_hand: bool,
    },
    /// Items of a service have gone on at the source that stood by, after their own was lost or gave them up.
    ItemsTakenOver {
        /// The service's name.
        service: String,
        /// The one that had them: name, or number.
        from: String,
        /// How many.
        items: u64,
        /// Items among them that went on with their next update; the others get a new image.
        in_sequence: u64,
    },
    /// Another source is the first of those that have a service.
    FirstSource {
        /// The service's name.
        service: String,
        /// The source: name, or number.
        source: String,
        /// The one that was the first before.
        before: String,
    },
    /// All items of a service that were lost have their images again.
    ItemsWhole {
        /// The service's name.
        service: String,
        /// Items that were lost.
        items: u64,
        /// Nanoseconds from the first loss to the last image.
        took: u64,
    },
    /// A service is gone.
    ServiceGone {
        /// The service's name.
        service: String,
    },
    /// Something has come near its limit, has reached it, or is away from it again.
    Load {
        /// What.
        of: LoadOf,
        /// How near it is now.
        state: LoadState,
        /// Items that are open, or wait to be opened.
        load: u64,
        /// The limit; of a queue the mark that counts.
        limit: u32,
    },
    /// Watchers of an item are told a state that is not good.
    ItemState {
        /// The item's service.
        service: String,
        /// The item's name.
        name: String,
        /// The state, its code and its text.
        state: String,
        /// Nobody has had the item: its open is refused for good.
        is_refused: bool,
    },
    /// A P2PS of the hub is there for clients, or is not any more.
    Server {
        /// Where consumers reach it.
        place: String,
        /// The P2PS is there.
        is_there: bool,
    },
    /// A service cannot be offered: all ids are in use.
    NoServiceIds {
        /// The service's name.
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
            Self::SourceLost { source, items: 0, why } => {
                write!(f, "Source Distributor {source} {why}: no item is Suspect because of that")
            }
            Self::SourceLost { source, items, why } => {
                write!(f, "Source Distributor {source} {why}: {items} items are Suspect until another serves them")
            }
            Self::ServiceUp { service } => write!(f, "service {service} is here"),
            Self::ServiceState { service, up: true } => write!(f, "service {service} is up again"),
            Self::ServiceState { service, up: false } => {
                write!(f, "service {service} is down: no source has it; its items wait for it")
            }
            Self::ItemsMoved { service, source, items } => write!(
                f,
                "service {service} is down at Source Distributor {source}: its {items} items there are asked for at another"
            ),
            Self::ItemsSwitched { service, from, to, items, by_hand } => {
                let why = if *by_hand { "an operator has switched to it" } else { "it comes first" };
                write!(f, "{items} items of service {service} go from Source Distributor {from} to {to}: {why}")
            }
            Self::ItemsTakenOver { service, from, items, in_sequence } => write!(
                f,
                "{items} items of service {service} go on at the hot standby of Source Distributor {from}: {in_sequence} with their next update, the others with a new image"
            ),
            Self::FirstSource { service, source, before } => {
                write!(f, "Source Distributor {source} serves service {service}, instead of {before}")
            }
            Self::ItemsWhole { service, items, took } => {
                let ms = *took as f64 / 1e6;
                write!(
                    f,
                    "service {service} is whole again after {ms:.1} ms: the {items} items that were lost are served or given up"
                )
            }
            Self::ServiceGone { service } => write!(f, "service {service} is gone"),
            Self::Load { of, state, load, limit } => {
                let again = if *state == LoadState::Normal { " again" } else { "" };
                let does = match (of, state) {
                    (LoadOf::OpenQueue, _) => "wait to be opened",
                    (_, LoadState::Overloaded) => "are open, and no more are taken",
                    _ => "are open",
                };
                write!(f, "{of} is {state}{again}: {load} items {does} (limit {limit})")
            }
            Self::ItemState { service, name, state, is_refused } => {
                let what = if *is_refused { "is refused" } else { "is" };
                write!(f, "item {} of service {service} {what}: {state}", name.escape_debug())
            }
            Self::Server { place, is_there: true } => write!(f, "P2PS {place} is there for clients"),
            Self::Server { place, is_there: false } => write!(f, "P2PS {place} is not there for clients any more"),
            Self::NoServiceIds { service, refused } => write!(
                f,
                "service {service} is not offered: all 65000 service ids are in use ({refused} services refused so far); the id of one that is gone, and that no client has to do with, is free after a minute"
            ),
        }
    }
}
