//! How long messages are in the process until a client of each class has them: by what the client speaks, from a sample of real messages.
//!
//! Of a turn that is timed, one client of each class that the turn brings something for is followed: from the moment at which the turn's
//! messages were found until what they brought for it was handed to the kernel, be that turns later, as for JSON clients that are sent to
//! in turns, or by the timer of `timed_writes`. What waits behind a full socket has been handed over here: the client's queue tells of it.

use super::consumers::Protocol;
use super::each_latency::{EachLatency, Latency};
use super::turn_latency::TurnLatency;

/// Histograms by class, and who is followed: connections by their `Id`.
#[derive(Debug)]
pub struct ClassLatency<Id> {
    /// When the turn began, if it is timed.
    began: Option<u64>,
    followed: [Option<(Id, u64)>; Protocol::ALL.len()],
    histograms: [TurnLatency; Protocol::ALL.len()],
    /// Of each client by itself, where that is wanted.
    each: Option<EachLatency<Id>>,
}

impl<Id> Default for ClassLatency<Id> {
    fn default() -> Self {
        Self {
            began: None,
            followed: [const { None }; Protocol::ALL.len()],
            histograms: Default::default(),
            each: None,
        }
    }
}

impl<Id: Copy + Eq + std::hash::Hash> ClassLatency<Id> {
    /// Measures each client by itself, too, with so many samples of each (`latencyCalcMountBased`, `numLatencySamples`).
    pub fn measure_each(&mut self, samples: u32) {
        self.each = Some(EachLatency::new(samples));
    }

    /// The latency of one client; `None` if it was not measured.
    pub fn of(&self, conn: Id) -> Option<Latency> {
        self.each.as_ref()?.of(conn)
    }

    /// A client is gone.
    pub fn forget(&mut self, conn: Id) {
        if let Some(each) = &mut self.each {
            each.forget(conn);
        }
    }

    /// The turn that began then is timed.
    pub fn time_turn(&mut self, began: u64) {
        self.began = Some(began);
    }

    /// The turn is over.
    #[inline]
    pub fn end_turn(&mut self) {
        self.began = None;
    }

    /// The turn brings something for this client. The last one of its class that is told of is followed, unless one of an earlier turn still is:
    /// those that are sent to late are not left out.
    #[inline]
    pub fn bring(&mut self, conn: Id, protocol: Protocol) {
        if let Some(began) = self.began {
            let followed = &mut self.followed[protocol as usize];
            if followed.is_none_or(|(_, since)| since == began) {
                *followed = Some((conn, began));
            }
            if let Some(each) = &mut self.each {
                each.bring(conn, began);
            }
        }
    }

    /// Something was handed to the kernel: whoever waits for nothing any more (`Some(false)`) has got it; who is gone (`None`) never will.
    #[inline]
    pub fn settle(&mut self, clock: impl Fn() -> u64, waits: impl Fn(Id) -> Option<bool>) {
        for (followed, histogram) in self.followed.iter_mut().zip(&mut self.histograms) {
            let Some((conn, began)) = *followed else { continue };
            match waits(conn) {
                Some(true) => {}
                Some(false) => {
                    histogram.record(clock().saturating_sub(began));
                    *followed = None;
                }
                None => *followed = None,
            }
        }
        if let Some(each) = &mut self.each {
            each.settle(clock, waits);
        }
    }

    /// Each class and its histogram.
    pub fn all(&self) -> impl Iterator<Item = (Protocol, TurnLatency)> {
        Protocol::ALL.into_iter().zip(self.histograms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(latency: &ClassLatency<u32>) -> Vec<u64> {
        latency.all().map(|(_, histogram)| histogram.counts.iter().sum()).collect()
    }

    #[test]
    fn one_client_of_each_class_is_followed_until_it_has_what_a_timed_turn_brought() {
        let (a, b, c) = (1, 2, 3);
        let mut latency = ClassLatency::<u32>::default();
        latency.bring(a, Protocol::Rssl);
        latency.settle(|| 1, |_| Some(false));
        assert_eq!(counts(&latency), [0; 4], "the turn is not timed");

        latency.time_turn(1_000);
        latency.bring(a, Protocol::Rssl);
        latency.bring(b, Protocol::Rssl);
        latency.bring(c, Protocol::Json);
        latency.settle(|| 8_000, |conn| Some(conn == c));
        latency.end_turn();
        assert_eq!(counts(&latency), [1, 0, 0, 0], "the last of the RSSL clients, once");

        // The JSON client is sent to in a later turn, and what a turn between them brings another one does not take its place.
        latency.time_turn(50_000);
        latency.bring(a, Protocol::Json);
        latency.end_turn();
        latency.settle(|| 2_000_900, |conn| Some(conn != c));
        assert_eq!(counts(&latency), [1, 0, 0, 1]);
        let (_, json) = latency.all().last().expect("a class for each protocol");
        assert_eq!(json.sum_ns, 1_999_900);

        latency.time_turn(3_000_000);
        latency.bring(b, Protocol::RsslInWebSocket);
        latency.settle(|| 3_000_001, |_| None);
        assert_eq!(counts(&latency), [1, 0, 0, 1], "who is gone is forgotten");
        latency.settle(|| 3_000_001, |_| Some(false));
        assert_eq!(counts(&latency), [1, 0, 0, 1]);
    }
}
