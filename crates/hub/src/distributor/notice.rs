//! What an operator should hear of.

use std::fmt;

/// Something that an operator should hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A service that was announced goes down at its last provider, or is up again at one.
    ServiceState {
        /// Its name.
        service: String,
        /// It is up.
        up: bool,
    },
    /// A service is down at one provider: its items were closed there, and are asked for at others.
    ItemsMoved {
        /// Its name.
        service: String,
        /// Address of the provider at which it is down.
        provider: String,
        /// Items that were open there, or asked for.
        items: usize,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServiceState { service, up: true } => write!(f, "service {service} is up again"),
            Self::ServiceState { service, up: false } => {
                write!(f, "service {service} is down: no provider has it; its items wait for one")
            }
            Self::ItemsMoved { service, provider, items } => {
                write!(
                    f,
                    "service {service} is down at provider {provider}: its {items} items there are asked for at another"
                )
            }
        }
    }
}
