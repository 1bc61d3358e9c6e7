//! Round trips, as the side that began them sees them.

use lbm_io::{Delivery, Events, Sources};
use serde_json::Value;

use super::payload::Payload;
use super::tally;
use measure::observer::analysis::Distribution;

/// A message that has not come back within this is given up, in a test without a rate.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Messages that went out and came back.
pub(super) struct RoundTrips {
    nanos: Vec<u64>,
    capacity: usize,
    /// Trips that began before this are left out.
    warm: u64,
    warm_up: u64,
    sent: u64,
    returned: u64,
    last_sent: u64,
    given_up: u64,
}

impl RoundTrips {
    /// Takes and touches the memory.
    pub(super) fn new(capacity: usize, warm_up: u64) -> Self {
        let mut nanos = vec![u64::MAX; capacity];
        nanos.clear();
        Self { nanos, capacity, warm: 0, warm_up, sent: 0, returned: 0, last_sent: 0, given_up: 0 }
    }

    pub(super) fn sent(&mut self, now: u64, intended: u64) {
        if self.sent == 0 {
            self.warm = intended + self.warm_up;
        }
        self.sent += 1;
        self.last_sent = now;
    }

    /// Whether the last message is back, or was given up.
    pub(super) fn is_idle(&mut self, now: u64) -> bool {
        let open = self.sent > self.returned + self.given_up;
        if open && now > self.last_sent + PATIENCE_NS {
            self.given_up = self.sent - self.returned;
            return true;
        }
        !open
    }

    pub(super) fn unanswered(&self) -> u64 {
        self.sent.saturating_sub(self.returned)
    }

    fn distribution(&self) -> Distribution {
        Distribution::of(self.nanos.clone())
    }

    pub(super) fn json(&self) -> Value {
        tally::distribution_json(&self.distribution())
    }

    pub(super) fn table(&self) -> String {
        tally::distribution_table("round trip", &self.distribution())
    }
}

impl Events for RoundTrips {
    fn message(&mut self, _: &mut Sources, delivery: &Delivery<'_>) {
        let Some(Payload::Message { intended, .. }) = Payload::read(delivery.payload) else { return };
        self.returned += 1;
        if intended >= self.warm && self.nanos.len() < self.capacity {
            self.nanos.push(net::clock::now().saturating_sub(intended));
        }
    }
}
