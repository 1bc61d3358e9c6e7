//! The part of a server in a warm-standby pair, and the messages that say it.

use rwf::msg::{Domain, GenericMsg};
use rwf::rdm::directory::ConsumerStatus;
use rwf::rdm::login::ConnectionStatus;

/// The part of a server in a warm-standby pair, as the client says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandbyPart {
    /// It sends images and updates.
    Active,
    /// It sends images and states, and no updates.
    Standby,
}

impl StandbyPart {
    /// Of `WarmStandbyMode`.
    pub(crate) const fn of(mode: u64) -> Option<Self> {
        match mode {
            0 => Some(Self::Active),
            1 => Some(Self::Standby),
            _ => None,
        }
    }

    /// Its name in steps.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Standby => "standby",
        }
    }
}

/// What a generic message says of a server: the service, or all of them, and the part.
pub(crate) fn parts(generic: &GenericMsg<'_>) -> Vec<(Option<u16>, StandbyPart)> {
    // A message of another model, or one that cannot be read: the judge says so where it is one of these.
    match generic.domain {
        Domain::LOGIN => {
            let status = ConnectionStatus::decode(generic).ok().flatten();
            let mode = status.and_then(|status| status.warm_standby).and_then(|standby| StandbyPart::of(standby.mode));
            mode.map(|part| (None, part)).into_iter().collect()
        }
        Domain::SOURCE => {
            let status = ConsumerStatus::decode(generic).ok().flatten();
            let services = status.into_iter().flat_map(|status| status.services);
            services
                .filter_map(|service| Some((Some(service.service_id), StandbyPart::of(service.warm_standby?)?)))
                .collect()
        }
        _ => Vec::new(),
    }
}
