//! How near something is to its limit, what that is, and where the states begin and end.

use std::fmt;

/// How near something is to its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum LoadState {
    /// Below the upper mark, or below the lower one after it was over that.
    #[default]
    Normal,
    /// At the upper mark or over it, and not below the lower one since.
    Burdened,
    /// At its limit, and not below the upper mark since.
    Overloaded,
}

impl LoadState {
    /// As it is shown to people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Burdened => "burdened",
            Self::Overloaded => "overloaded",
        }
    }
}

impl fmt::Display for LoadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where the states of a limit begin and end, in percent of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percents {
    /// From here on it is burdened.
    pub upper: u32,
    /// Below this it is normal again.
    pub lower: u32,
}

impl Default for Percents {
    fn default() -> Self {
        Self { upper: 90, lower: 80 }
    }
}

/// Where the states of a queue begin, and how far below that each of them ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueMarks {
    /// The queue is burdened from this length on (`openQueueBurdenedThreshold`); 0 for never.
    pub burdened: u32,
    /// The queue is overloaded from this length on (`openQueueHeavilyBurdenedThreshold`); 0 for never.
    pub overloaded: u32,
    /// A state ends at so many less (`openQueueHysteresis`).
    pub hysteresis: u32,
}

/// The thing that is near its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadOf {
    /// One connection that is logged in.
    Mount {
        /// User name.
        user: String,
        /// Address that it connects from.
        address: std::net::IpAddr,
    },
    /// All connections of a user.
    User(String),
    /// Items that all connections have open of a service.
    Service(String),
    /// All connections.
    All,
    /// Opens that wait for a Source Distributor.
    OpenQueue,
}

impl fmt::Display for LoadOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount { user, address } => write!(f, "a connection of {user} from {address}"),
            Self::User(user) => write!(f, "user {user}"),
            Self::Service(service) => write!(f, "service {service}"),
            Self::All => write!(f, "this server"),
            Self::OpenQueue => write!(f, "the queue of opens"),
        }
    }
}
