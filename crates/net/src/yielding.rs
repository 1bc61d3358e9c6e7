//! Giving others a turn from a thread that never waits.

use std::time::Duration;

use crate::clock;

/// Yields the processor from a loop that always finds something to do.
///
/// Linux ends the turn of a thread that never waits only at a tick of its timer, 4 ms with `HZ=250`, whatever slice was asked for:
/// for so long does the next process of a chain wait on a machine with fewer processors than busy threads. A `sched_yield` costs half a
/// microsecond; made once in [`Yielding::DEFAULT`] of work, it shortens that wait to about as long and costs half a per cent.
#[derive(Debug)]
pub struct Yielding {
    /// Nanoseconds of work between two yields; `None`: never.
    every: Option<u64>,
    /// When the thread last came back from waiting or yielding; later, if it is not to yield for a while.
    since: u64,
    /// When the last poll returned.
    polled: u64,
    /// Dear yields one after the other.
    unanswered: u32,
}

/// A wait that took so long did give the processor away, nanoseconds. A poll that returns at once takes a tenth of it.
const WAITED: u64 = 5_000;
/// Work between two polls that took so long, nanoseconds, was interrupted by others: they had their turn.
const INTERRUPTED: u64 = 2_000_000;
/// A yield that takes so long, nanoseconds, was used by somebody who does not yield in turn. To yield on would leave him the
/// processor: the next one comes when four times as long has been worked, and twice that for each further one of that kind.
const DEAR: u64 = 1_000_000;
const UNANSWERED_MAX: u32 = 8;

impl Yielding {
    /// Work between two yields unless it is set. Less hands on blocks before they are full: with 50 µs a chain of four processes on two
    /// processors takes a tenth more processor time an update. With 200 µs it gains no more.
    pub const DEFAULT: Duration = Duration::from_micros(100);

    /// A loop that yields when it has worked for so long; `None`: never.
    pub fn new(every: Option<Duration>) -> Self {
        let every = every.map(|every| u64::try_from(every.as_nanos()).unwrap_or(u64::MAX));
        let now = clock::now();
        Self { every, since: now, polled: now, unanswered: 0 }
    }

    /// Runs a poll, after a yield if one is due. `may_wait`: the poll may put the thread to sleep.
    #[inline]
    pub fn wait<T>(&mut self, may_wait: bool, poll: impl FnOnce() -> T) -> T {
        let Some(every) = self.every else { return poll() };
        let mut before = clock::now();
        self.has_worked(before);
        if self.is_due(before, every) {
            let asked = before;
            std::thread::yield_now();
            before = clock::now();
            self.has_yielded(asked, before);
        }
        let result = poll();
        if may_wait {
            before = self.has_polled(before, clock::now());
        }
        self.polled = before;
        result
    }

    fn has_worked(&mut self, now: u64) {
        if now.saturating_sub(self.polled) >= INTERRUPTED {
            self.since = self.since.max(now);
        }
    }

    fn is_due(&self, now: u64, every: u64) -> bool {
        now.saturating_sub(self.since) >= every
    }

    fn has_yielded(&mut self, asked: u64, now: u64) {
        let cost = now.saturating_sub(asked);
        self.since = now;
        if cost < DEAR {
            self.unanswered = 0;
        } else {
            self.unanswered = (self.unanswered + 1).min(UNANSWERED_MAX);
            self.since = now.saturating_add(cost.saturating_mul(2 << self.unanswered));
        }
    }

    /// Gives the time to count the next work from.
    fn has_polled(&mut self, before: u64, after: u64) -> u64 {
        if after.saturating_sub(before) >= WAITED {
            self.since = self.since.max(after);
        }
        after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yielding_after_50_us() -> Yielding {
        Yielding { every: Some(50_000), since: 0, polled: 0, unanswered: 0 }
    }

    #[test]
    fn work_is_counted_from_the_last_wait() {
        let mut yielding = yielding_after_50_us();
        assert!(!yielding.is_due(49_999, 50_000) && yielding.is_due(50_000, 50_000));
        yielding.has_polled(40_000, 40_900);
        assert!(yielding.is_due(50_000, 50_000), "that poll found something at once");
        yielding.has_polled(41_000, 60_000);
        assert!(!yielding.is_due(109_999, 50_000) && yielding.is_due(110_000, 50_000));
    }

    #[test]
    fn a_neighbour_that_does_not_yield_is_not_left_the_processor() {
        let mut yielding = yielding_after_50_us();
        yielding.has_yielded(100_000, 200_000);
        assert!(yielding.is_due(250_000, 50_000));
        yielding.has_yielded(1_000_000, 5_000_000);
        assert!(
            !yielding.is_due(21_000_000, 50_000) && yielding.is_due(21_050_000, 50_000),
            "it cost 4 ms: not for 16 ms"
        );
    }

    #[test]
    fn who_was_interrupted_need_not_yield() {
        let mut yielding = yielding_after_50_us();
        yielding.has_worked(1_999_999);
        assert!(yielding.is_due(1_999_999, 50_000));
        yielding.has_worked(4_000_000);
        assert!(!yielding.is_due(4_000_000, 50_000));
    }

    #[test]
    fn a_yield_begins_the_count_anew() {
        let mut yielding = Yielding::new(Some(Duration::ZERO));
        yielding.since = 0;
        assert_eq!(yielding.wait(false, || 7), 7);
        assert!(yielding.since > 0);
        let mut never = Yielding::new(None);
        never.since = 0;
        assert_eq!((never.wait(true, || 7), never.since), (7, 0));
    }
}
