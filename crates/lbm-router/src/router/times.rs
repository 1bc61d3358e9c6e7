//! Times at which a router has something to do.

use super::tables::{Router, ids};
use crate::action::Forward;

/// How often what has a time is looked at, ns.
const SCAN_NS: u64 = 200_000_000;

impl Router {
    /// When [`Router::on_timer`] is to be called.
    pub fn timeout(&self) -> u64 {
        let held = self.holding.iter().filter_map(|id| self.streams[*id as usize].as_ref()?.merge.timeout());
        held.min().map_or(self.scan_due, |held| held.min(self.scan_due))
    }

    /// Gives up what was waited for long enough: numbers, interest, other routers, peers, lost ways.
    pub fn on_timer(&mut self, now: u64, forward: &mut impl Forward) {
        for id in self.holding.clone() {
            self.with_merge(id, forward, |merge, onward| merge.on_timer(now, onward));
        }
        if now < self.scan_due {
            return;
        }
        self.scan_due = now + SCAN_NS;
        for portal in ids(&self.portals) {
            self.scan_endpoint(now, portal, forward);
            self.scan_link(now, portal);
        }
        let over = |id: &u32| {
            self.streams[*id as usize].as_ref().is_some_and(|stream| stream.gone_at.is_some_and(|at| at <= now))
        };
        let over: Vec<u32> = self.lingering.iter().copied().filter(over).collect();
        for id in over {
            self.remove_stream(id);
        }
    }
}
