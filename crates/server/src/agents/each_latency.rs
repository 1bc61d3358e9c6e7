//! How long messages are in the process, of each client or each provider by itself (`latencyCalcMountBased`, `latencyCalcServerBased`): of the turns that are
//! timed, with the last samples of each.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Samples of each where nothing is said of how many.
const USUAL: usize = 100;

/// Samples of one are kept in steps of so many nanoseconds: four bytes are seven minutes.
const STEP_NS: u64 = 100;

/// Latency of one client or provider.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// Turns that were timed, since it came.
    pub samples: u64,
    /// Of the last samples, microseconds.
    pub median_us: f64,
    /// Likewise.
    pub p99_us: f64,
}

#[derive(Debug, Default)]
struct Samples {
    /// The last ones, in [`STEP_NS`], each in the place of the oldest.
    last: Vec<u32>,
    all: u64,
    is_followed: bool,
}

/// Latencies of all, by their `Id`.
#[derive(Debug)]
pub struct EachLatency<Id> {
    most: usize,
    known: FxHashMap<Id, Samples>,
    /// Clients or providers that a timed turn has brought something for or of, and when it began.
    followed: Vec<(Id, u64)>,
}

impl<Id: Copy + Eq + Hash> EachLatency<Id> {
    /// Nobody is known; of each so many samples are kept, a hundred with 0.
    pub fn new(samples: u32) -> Self {
        let most = if samples == 0 { USUAL } else { samples as usize };
        Self { most, known: FxHashMap::default(), followed: Vec::new() }
    }

    /// A timed turn, which began then, has something for this one, or of it. What it is still followed for counts from before.
    pub fn bring(&mut self, id: Id, began: u64) {
        let samples = self.known.entry(id).or_default();
        if !std::mem::replace(&mut samples.is_followed, true) {
            self.followed.push((id, began));
        }
    }

    /// Something was handed on: whoever waits for nothing any more (`Some(false)`) is measured; who is gone (`None`) is forgotten.
    pub fn settle(&mut self, clock: impl Fn() -> u64, waits: impl Fn(Id) -> Option<bool>) {
        let Self { most, known, followed } = self;
        // Nobody is followed in nearly all turns.
        if followed.is_empty() {
            return;
        }
        let now = clock();
        followed.retain(|&(id, began)| match waits(id) {
            Some(true) => true,
            Some(false) => {
                if let Some(samples) = known.get_mut(&id) {
                    samples.record(now.saturating_sub(began), *most);
                }
                false
            }
            None => {
                known.remove(&id);
                false
            }
        });
    }

    /// A client or provider is gone.
    pub fn forget(&mut self, id: Id) {
        self.known.remove(&id);
        self.followed.retain(|(followed, _)| *followed != id);
    }

    /// The latency of one; `None` if it was not measured yet.
    pub fn of(&self, id: Id) -> Option<Latency> {
        let samples = self.known.get(&id).filter(|samples| !samples.last.is_empty())?;
        let mut sorted = samples.last.clone();
        sorted.sort_unstable();
        let at = |percent: usize| {
            f64::from(sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]) * STEP_NS as f64 / 1e3
        };
        Some(Latency { samples: samples.all, median_us: at(50), p99_us: at(99) })
    }
}

impl Samples {
    fn record(&mut self, ns: u64, most: usize) {
        let steps = u32::try_from(ns / STEP_NS).unwrap_or(u32::MAX);
        if self.last.len() < most {
            self.last.push(steps);
        } else {
            let oldest = (self.all % most as u64) as usize;
            self.last[oldest] = steps;
        }
        self.all += 1;
        self.is_followed = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_latency_of_its_last_samples() {
        let mut each = EachLatency::new(4);
        for (began, took) in
            [(0, 900_000), (2_000_000, 1_000), (3_000_000, 2_000), (4_000_000, 3_000), (5_000_000, 4_000)]
        {
            each.bring("a", began);
            each.bring("a", began + 1);
            each.settle(|| began + took, |_| Some(false));
        }
        assert_eq!(each.of("a"), Some(Latency { samples: 5, median_us: 2.0, p99_us: 4.0 }), "the first is left behind");
        assert_eq!(each.of("b"), None);
    }

    #[test]
    fn who_is_sent_to_later_is_measured_then_and_who_is_gone_never() {
        let mut each = EachLatency::new(0);
        each.bring(1, 1_000);
        each.bring(2, 1_000);
        each.settle(|| 2_000, |_| Some(true));
        // Something more for the first one counts from the beginning.
        each.bring(1, 5_000);
        each.settle(|| 11_000, |id| (id == 1).then_some(false));
        assert_eq!((each.of(1).map(|latency| latency.median_us), each.of(2)), (Some(10.0), None));
        each.bring(1, 20_000);
        each.forget(1);
        assert!(each.known.is_empty() && each.followed.is_empty());
    }
}
