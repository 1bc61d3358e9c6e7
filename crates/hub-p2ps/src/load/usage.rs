//! Items that clients have open of a service, with their limit.

use crate::Config;
use hub_items::load_marks::{LoadState, Marks};

/// Items that clients have open of a service, with their limit.
#[derive(Debug)]
pub(crate) struct ServiceUsage {
    /// Watchers of its items.
    pub(super) watchers: u64,
    /// How near that is to the limit.
    pub(super) load: LoadState,
    /// The limit; 0 for any number.
    pub(super) limit: u32,
    pub(super) marks: Marks,
    /// Opens that may be unanswered; 0 for any number.
    open_window: u32,
}

impl ServiceUsage {
    /// Nothing is open of a service.
    pub(crate) fn of(service: &str, config: &Config) -> Self {
        let mut usage = Self::default();
        usage.set_limits(service, config);
        usage
    }

    pub(super) fn set_limits(&mut self, service: &str, config: &Config) {
        self.limit = config.item_limit_of(service);
        self.marks = Marks::of_limit(self.limit, config.load_percents).unwrap_or(Marks::NONE);
        self.open_window = config.open_window_of(service);
    }

    /// Opens that may be unanswered; 0 for any number.
    pub(crate) fn open_window(&self) -> u32 {
        self.open_window
    }

    pub(super) fn has_room(&self) -> bool {
        self.limit == 0 || self.load != LoadState::Overloaded && self.watchers < u64::from(self.limit)
    }
}

impl Default for ServiceUsage {
    fn default() -> Self {
        Self { watchers: 0, load: LoadState::Normal, limit: 0, marks: Marks::NONE, open_window: 0 }
    }
}
