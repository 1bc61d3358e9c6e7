//! `LoadFactor` of the services of a P2PS (RDM 4.3.1.4): how full this server is, for those who have the same services from several and
//! may choose, such as a Source Distributor behind two P2PSs of another site.
//!
//! It is the same for all services, in steps of a sixteenth: whoever has the directory hears of it seldom. What there are many services of is
//! told in turns.

use crate::P2ps;
use crate::ids::ServiceId;
use std::collections::VecDeque;

/// The load factor of a server that is full.
const FULL: u64 = 65_535;
/// Steps from empty to full.
const STEPS: u64 = 16;
/// Services that a turn tells of another load factor: each is a message to every client that has the directory.
const SERVICES_PER_TURN: usize = 16;

/// The load factor of this server, as clients are told.
#[derive(Debug, Default)]
pub(crate) struct LoadFactor {
    /// The factor that was told; `None` where none is.
    told: Option<u64>,
    /// When it is worked out next.
    due: u64,
    /// Services whose clients have yet to hear of it.
    waiting: VecDeque<ServiceId>,
}

impl LoadFactor {
    /// The factor that is told of every service.
    pub(crate) fn told(&self) -> Option<u64> {
        self.told
    }

    /// When [`P2ps::tell_load_factor`] is due.
    pub(crate) fn timeout(&self, interval: u64) -> Option<u64> {
        if !self.waiting.is_empty() {
            return Some(0);
        }
        (interval > 0 || self.told.is_some()).then_some(self.due)
    }
}

/// How full something is, in steps, from 0 to [`FULL`]; 0 where there is no limit.
fn factor(used: u64, most: u32) -> u64 {
    let step = (used.saturating_mul(STEPS)).checked_div(u64::from(most)).unwrap_or(0).min(STEPS);
    FULL * step / STEPS
}

impl P2ps {
    /// Works out how full this server is, if that is due, and tells clients of some services when it has changed.
    pub(crate) fn tell_load_factor(&mut self) {
        let interval = self.config.load_factor_interval;
        let is_on = interval > 0 || self.load.factor.told.is_some();
        // Before another one is worked out all have heard of the last.
        if is_on && self.load.factor.waiting.is_empty() && self.now >= self.load.factor.due {
            self.load.factor.due = self.now + interval;
            let mounts = factor(self.counters.mounts, self.config.mounts_when_full);
            let items = factor(self.counters.watchers, self.config.total_item_limit);
            let full = mounts.max(items).saturating_mul(u64::from(self.config.load_scale)).min(FULL);
            let now = (interval > 0).then_some(full);
            if now != self.load.factor.told {
                self.load.factor.told = now;
                self.load.factor.waiting = self.sources.services().ids().collect();
            }
        }
        for _ in 0..SERVICES_PER_TURN.min(self.load.factor.waiting.len()) {
            // As many as are taken out wait.
            let Some(service) = self.load.factor.waiting.pop_front() else { return };
            self.service_changed(service, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_full_in_sixteen_steps() {
        assert_eq!(
            [0, 6, 7, 50, 99, 100, 200].map(|used| factor(used, 100)),
            [0, 0, 4_095, 32_767, 61_439, FULL, FULL]
        );
        assert_eq!([factor(5, 0), factor(u64::MAX, 1), factor(1, u32::MAX)], [0, FULL, 0]);
    }
}
