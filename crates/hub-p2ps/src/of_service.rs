//! What is said of single services, over what is said of all.

use super::{Config, P2ps};
use crate::ids::ServiceId;

/// Values of one service; where one is `None`, that of the [`Config`] counts, which has the same name and says what it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceConfig {
    /// [`Config::post_timeout`] of this service.
    pub post_timeout: Option<u64>,
    /// [`Config::recovery_delay_max`] of this service.
    pub recovery_delay_max: Option<u64>,
    /// [`Config::discourage_on_outage`] of this service.
    pub discourage_on_outage: Option<bool>,
}

impl Config {
    /// How long a post to a service may be unanswered.
    pub(crate) fn post_timeout_of(&self, service: &str) -> u64 {
        self.services.get(service).and_then(|own| own.post_timeout).unwrap_or(self.post_timeout)
    }

    /// The longest that a post to any service may be unanswered.
    pub(crate) fn longest_post_timeout(&self) -> u64 {
        self.services.values().filter_map(|own| own.post_timeout).fold(self.post_timeout, u64::max)
    }

    /// The longest pause before an item of a service is asked for again.
    pub(crate) fn recovery_delay_max_of(&self, service: &str) -> u64 {
        self.services.get(service).and_then(|own| own.recovery_delay_max).unwrap_or(self.recovery_delay_max)
    }

    /// Whether the directory says of a service that is down that it takes no requests.
    pub(crate) fn discourages_on_outage(&self, service: &str) -> bool {
        self.services.get(service).and_then(|own| own.discourage_on_outage).unwrap_or(self.discourage_on_outage)
    }
}

impl P2ps {
    /// The longest pause before something of a service is asked for again.
    pub(crate) fn longest_recovery_delay(&self, service: ServiceId) -> u64 {
        let name = self.sources.services().get(service).map_or("", |known| known.name.as_str());
        self.config.recovery_delay_max_of(name)
    }
}
