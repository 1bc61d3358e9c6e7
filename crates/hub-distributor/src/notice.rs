//! Notices for operators.

use std::fmt;

/// Something that an operator should hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A service that was announced goes down at its last provider, or is up again at one.
    ServiceState {
        /// The service's name.
        service: String,
        /// The service is up.
        up: bool,
    },
    /// A provider offers a service whose name is taken by one of the other kind: it stands by until that one is gone.
    ServiceTaken {
        /// The service's name.
        service: String,
        /// Address of the provider that stands by.
        provider: String,
        /// The provider that has the name is an interactive one.
        interactive: bool,
    },
    /// A provider offers a service that finds no id: as many are known as there can be.
    NoServiceIds {
        /// The service's name.
        service: String,
        /// Address of the provider.
        provider: String,
    },
    /// A provider offers a service whose name is a service group's: it is not taken.
    ServiceIsGroup {
        /// The name.
        service: String,
        /// Address of the provider.
        provider: String,
    },
    /// A service group is served from another of its members from now on.
    GroupServedFrom {
        /// The group's name.
        group: String,
        /// The member's name.
        served_from: String,
        /// Address of the provider.
        provider: String,
    },
    /// A service that no provider has offered for as long as it is kept is deleted.
    ServiceGivenUp {
        /// The service's name.
        service: String,
    },
    /// A provider of the other kind takes a service over: those that offered it are gone.
    ServiceTakenOver {
        /// The service's name.
        service: String,
        /// Address of the provider that has it now.
        provider: String,
    },
    /// A service of a provider has come through this site, or through too many: it is not taken.
    ServiceComesBack {
        /// The service's name.
        service: String,
        /// Address of the provider.
        provider: String,
        /// The sites, the provider's own first.
        through: String,
    },
    /// A service is down at one provider: its items were closed there, and are asked for at others.
    ItemsMoved {
        /// The service's name.
        service: String,
        /// Address of the provider at which it is down.
        provider: String,
        /// Items that were open there, or asked for.
        items: usize,
        /// The service is up there, and its data are interrupted.
        silent: bool,
    },
    /// A provider is connected, has items of a service open and has sent no data of it for too long.
    DataInterrupted {
        /// The service's name.
        service: String,
        /// Address of the provider.
        provider: String,
        /// How long it has been silent, nanoseconds.
        silent: u64,
    },
    /// A provider that was silent sends data of a service again.
    DataResumed {
        /// The service's name.
        service: String,
        /// Address of the provider.
        provider: String,
    },
    /// A provider is preferred to others that have a service: its items were closed there, and are asked for at that one.
    ItemsSwitched {
        /// The service's name.
        service: String,
        /// Address of the provider that has left them.
        from: String,
        /// Address of the provider that is preferred.
        to: String,
        /// Items that were open there, or asked for.
        items: usize,
        /// An operator has said so; else that provider has the service again.
        by_hand: bool,
    },
    /// A provider has left items, and the hot standby of each has taken it over.
    ItemsTakenOver {
        /// The service's name.
        service: String,
        /// Address of the provider that has left them.
        provider: String,
        /// Items that were taken over.
        items: usize,
        /// Items among them that went on with the next update, without a new image.
        in_sequence: usize,
    },
    /// A provider says Suspect of items that their hot standby has good: that one has taken them over. Or they have gone back.
    SuspectItems {
        /// The service's name.
        service: String,
        /// Address of the provider that had them.
        from: String,
        /// Address of the provider that has them now.
        to: String,
        /// Items that have gone over.
        items: usize,
        /// Items among them that went on with the next update, without a new image.
        in_sequence: usize,
        /// The state of the first of them at the provider that had them; empty if it said so earlier.
        state: String,
        /// The items have gone back to the first provider, which has had them good again for long enough.
        returns: bool,
    },
    /// A provider is at its limit, and an item of a higher priority class has taken the place of another there.
    ItemPreempted {
        /// The service's name.
        service: String,
        /// Address of the provider.
        provider: String,
        /// The item that has left its place.
        item: String,
        /// The item that has it now.
        by: String,
    },
    /// A provider has gone each time that it was asked for an item: that is asked for no more for a while.
    ItemGivenUp {
        /// The service's name.
        service: String,
        /// Address of the provider.
        provider: String,
        /// The item.
        item: String,
        /// The item's domain.
        domain: u8,
    },
    /// A non-interactive provider has left items that another one publishes too: that one has them back.
    ItemsTakenBack {
        /// The service's name.
        service: String,
        /// Address of the provider that has them now.
        provider: String,
        /// Items that it has back.
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
            Self::ServiceTaken { service, provider, interactive } => {
                let (kind, other) = if *interactive {
                    ("interactive", "a non-interactive")
                } else {
                    ("non-interactive", "an interactive")
                };
                write!(
                    f,
                    "service {service} of the {kind} provider {provider} is not taken: {other} one has that name; it takes over when that one is gone"
                )
            }
            Self::ServiceIsGroup { service, provider } => {
                write!(f, "service {service} of provider {provider} is not taken: a service group has that name")
            }
            Self::GroupServedFrom { group, served_from, provider } => {
                write!(f, "service group {group} is served from service {served_from} of provider {provider}")
            }
            Self::ServiceGivenUp { service } => write!(
                f,
                "service {service} is deleted and its items are closed: no provider has offered it for as long as it is kept (service_restart_time_s)"
            ),
            Self::NoServiceIds { service, provider } => write!(
                f,
                "service {service} of provider {provider} is not taken: all 65534 ids are in use; one is free again when a service that nobody offers is forgotten (age_unpublished_s)"
            ),
            Self::ServiceTakenOver { service, provider } => {
                write!(f, "service {service} is taken over by provider {provider}: those that had it are gone")
            }
            Self::ServiceComesBack { service, provider, through } => write!(
                f,
                "service {service} of provider {provider} is not taken: it goes in a circle ({through}); it is taken when it comes another way"
            ),
            Self::ItemsTakenOver { service, provider, items, in_sequence } => write!(
                f,
                "{items} items of service {service} go on at the hot standby of provider {provider}: {in_sequence} with their next update, the others with a new image"
            ),
            Self::SuspectItems { service, from, to, items, in_sequence, returns: true, .. } => write!(
                f,
                "{items} items of service {service} go back from provider {from} to {to}, which has had them good again for long enough: {in_sequence} with their next update, the others with a new image"
            ),
            Self::SuspectItems { service, from, to, items, in_sequence, state, returns: false } => {
                let said = if state.is_empty() { "" } else { ": " };
                write!(
                    f,
                    "{items} items of service {service} go on at provider {to}, the hot standby, since provider {from} says Suspect of them{said}{state}: {in_sequence} with their next update, the others with a new image"
                )
            }
            Self::ItemPreempted { service, provider, item, by } => write!(
                f,
                "item {item:?} of service {service} is closed at provider {provider}, which is at its limit: {by:?} has a higher priority"
            ),
            Self::ItemGivenUp { service, provider, item, domain } => write!(
                f,
                "item {item:?} of service {service} (domain {domain}) is given up: the connection to provider {provider} was lost each time that it was asked for it"
            ),
            Self::ItemsTakenBack { service, provider, items } => {
                write!(
                    f,
                    "{items} items of service {service} are taken from provider {provider} again: the one that had them has left them"
                )
            }
            Self::ItemsSwitched { service, from, to, items, by_hand } => {
                let why = if *by_hand { "an operator has switched to it" } else { "it has the service again" };
                write!(f, "{items} items of service {service} go from provider {from} to {to}: {why}")
            }
            Self::DataInterrupted { service, provider, silent } => write!(
                f,
                "service {service} is silent at provider {provider}: no data for {:.1} s though items are open; another takes over, or they are suspect until data come",
                *silent as f64 / 1e9
            ),
            Self::DataResumed { service, provider } => {
                write!(f, "provider {provider} sends data of service {service} again")
            }
            Self::ItemsMoved { service, provider, items, silent: true } => {
                write!(
                    f,
                    "service {service} is silent at provider {provider}: {items} items there are asked for at another"
                )
            }
            Self::ItemsMoved { service, provider, items, silent: false } => {
                write!(
                    f,
                    "service {service} is down at provider {provider}: its {items} items there are asked for at another"
                )
            }
        }
    }
}
