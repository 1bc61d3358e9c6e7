//! How fast items are opened, so that a client with a large watchlist leaves time for those that stream.
//!
//! An item that nobody watched before costs everyone: the P2PS, the Source Distributor, the provider, and its image's way back. A
//! client that opens a hundred thousand of them keeps all processors busy for a fifth of a second, and what streams meanwhile
//! waits. At a bounded rate the opening takes longer and the others notice less. An item that is open already costs a fraction of
//! a microsecond and is not counted.

/// Nanoseconds of new items that are taken in at once before the rate counts: watchlists of some hundred items need not wait.
const BURST: u64 = 2_000_000;

/// The rate, over all clients of a thread.
#[derive(Debug)]
pub struct OpenRate {
    /// Nanoseconds that a new item uses up; 0: there is no limit.
    each: u64,
    /// The time that is used up.
    used_until: u64,
    /// Items there were at the end of the last turn with requests.
    items: u64,
}

impl OpenRate {
    /// So many new items a second; 0: as they come.
    pub fn new(per_second: u32) -> Self {
        Self { each: 1_000_000_000_u64.checked_div(per_second.into()).unwrap_or(0), used_until: 0, items: 0 }
    }

    /// The turn is over; there are so many items now. `true`: who has sent requests in it is to be read again from
    /// [`OpenRate::resumes_at`].
    pub fn end_turn(&mut self, now: u64, items: u64) -> bool {
        let opened = items.saturating_sub(self.items);
        self.items = items;
        self.used_until = self.used_until.max(now).saturating_add(self.each.saturating_mul(opened));
        self.used_until > now.saturating_add(BURST)
    }

    /// When requests may be taken in again.
    pub fn resumes_at(&self) -> u64 {
        self.used_until.saturating_sub(BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_items_and_those_that_are_open_never_wait() {
        let mut rate = OpenRate::new(100_000);
        assert!(!rate.end_turn(5, 200), "2 ms of them");
        assert!(!rate.end_turn(5, 200) && !rate.end_turn(5, 150), "nothing new");
        assert!(rate.end_turn(5, 151));
        assert_eq!(rate.resumes_at(), 5 + 10_000);
    }

    /// A client that always has more to ask, and turns as fast as they are asked for: the rate is kept, and in small steps, so
    /// that the turns between belong to others.
    #[test]
    fn many_items_come_in_at_the_rate_and_in_small_steps() {
        let mut rate = OpenRate::new(250_000);
        let (mut now, mut turns, mut items) = (1, 0, 0);
        while items < 100_000 {
            (turns, items) = (turns + 1, items + 125);
            if rate.end_turn(now, items) {
                assert!(rate.resumes_at() - now <= 125 * 4_000, "never a longer pause than the turn's own items cost");
                now = rate.resumes_at();
            }
        }
        assert_eq!(turns, 800);
        assert_eq!(now, 1 + 400_000_000 - BURST, "0.4 s, less what is free at first");
    }

    #[test]
    fn without_a_rate_nobody_waits() {
        assert!(!OpenRate::new(0).end_turn(7, 1_000_000));
    }
}
