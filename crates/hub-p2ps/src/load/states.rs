//! Limits, and how near to them the load may be.

use std::fmt;

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
