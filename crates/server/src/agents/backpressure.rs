//! Backpressure towards the providers: they are not read while the egress shards, or most of the clients, are behind.
//!
//! A slow client never slows another: it is cut off at its own bound. When most of them are behind at once, though, it is not
//! they who are slow; the machine, or its network, takes in more than it can send. Then the providers are not read until the
//! backlog is smaller, and their sockets hold them back. Clients that take nothing, or next to nothing, do not count for long, or they
//! would hold up those that do. Bytes tell them apart, not how many of them get well: on a busy machine all of them get well together, and
//! only in the end.

/// Bytes of the ring to the shards at which providers are held, and below which they are read again.
const LAG: (u64, u64) = (1 << 20, 512 << 10);
/// How long what clients take is watched before it is judged, nanoseconds.
const PERIOD: u64 = 200_000_000;
/// What each client that is behind has to take in that time, on average, so that they hold providers in the next too: bytes. It is 160 KB a
/// second: clients can slow providers to no less than that for each of them.
const TAKEN: u64 = 32 << 10;

/// Bytes that wait to go out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes that the slowest shard has still to read.
    pub lag: u64,
    /// Clients that are behind.
    pub behind: usize,
    /// Clients.
    pub mounts: usize,
    /// Bytes that clients have taken while they were behind, ever.
    pub taken: u64,
}

/// Most clients are behind: a period in which it is watched what they take.
#[derive(Debug, Clone, Copy)]
struct Watched {
    /// When it began.
    since: u64,
    /// [`Load::taken`] then.
    taken: u64,
    /// The clients hold the providers meanwhile: they have just fallen behind, or took enough in the period before.
    hold: bool,
}

/// The decision, with its hysteresis.
#[derive(Debug, Default)]
pub struct Backpressure {
    holds: bool,
    /// `None` while enough clients are well.
    clients: Option<Watched>,
}

impl Backpressure {
    /// A shard that is so many bytes behind, or fewer, lets providers be read again.
    pub const ENDS_BELOW: u64 = LAG.1;

    /// True while the providers are to be held.
    pub fn must_wait(&mut self, now: u64, load: Load) -> bool {
        let clients = self.clients_hold(now, load);
        let lag = load.lag > if self.holds { LAG.1 } else { LAG.0 };
        self.holds = clients || lag;
        self.holds
    }

    /// When to ask again though nothing has changed, nanoseconds.
    pub fn timeout(&self) -> Option<u64> {
        self.clients.filter(|watched| watched.hold).map(|watched| watched.since + PERIOD)
    }

    /// Whether the clients hold the providers.
    fn clients_hold(&mut self, now: u64, load: Load) -> bool {
        let Load { behind, mounts, taken, .. } = load;
        if behind * 4 <= mounts || (self.clients.is_none() && behind * 2 <= mounts) {
            self.clients = None;
            return false;
        }
        let watched = self.clients.get_or_insert(Watched { since: now, taken, hold: true });
        let period = now.saturating_sub(watched.since);
        if period >= PERIOD {
            // As a rate: a thread that was not let in for a while judges late.
            let enough = u128::from(TAKEN) * behind as u128 * u128::from(period);
            let hold = u128::from(taken - watched.taken) * u128::from(PERIOD) >= enough;
            *watched = Watched { since: now, taken, hold };
        }
        watched.hold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(behind: usize, mounts: usize) -> Load {
        Load { behind, mounts, ..Load::default() }
    }

    #[test]
    fn a_slow_shard_holds_providers_until_half_is_read() {
        let mut providers = Backpressure::default();
        for (lag, closed) in [
            (0, false),
            (LAG.0, false),
            (LAG.0 + 1, true),
            (LAG.0, true),
            (LAG.1 + 1, true),
            (LAG.1, false),
            (LAG.0, false),
        ] {
            assert_eq!(providers.must_wait(0, Load { lag, ..clients(0, 2) }), closed, "{lag}");
        }
    }

    #[test]
    fn a_minority_of_slow_clients_holds_nobody() {
        let mut providers = Backpressure::default();
        assert!(!providers.must_wait(0, clients(50, 100)));
        assert!(!providers.must_wait(0, clients(0, 0)) && !providers.must_wait(0, clients(1, 2)));
    }

    #[test]
    fn most_clients_hold_providers_until_most_are_well() {
        let mut providers = Backpressure::default();
        assert!(providers.must_wait(1, clients(51, 100)));
        assert!(providers.must_wait(2, clients(26, 100)), "they are getting better, not well");
        assert!(!providers.must_wait(3, clients(25, 100)));
        assert!(!providers.must_wait(4, clients(50, 100)), "from below it takes more than half");
    }

    #[test]
    fn clients_that_take_nothing_hold_for_a_while_only() {
        let mut providers = Backpressure::default();
        let stalled = clients(3, 4);
        assert!(providers.must_wait(5, stalled));
        assert_eq!(providers.timeout(), Some(5 + PERIOD));
        assert!(providers.must_wait(4 + PERIOD, stalled) && !providers.must_wait(5 + PERIOD, stalled));
        assert_eq!(providers.timeout(), None, "whoever is read needs no timer");
        assert!(!providers.must_wait(9 * PERIOD, clients(4, 4)), "nor again, while they are as they were");
        assert!(!providers.must_wait(10 * PERIOD, clients(1, 4)) && providers.must_wait(10 * PERIOD, stalled));
    }

    /// All of them are fed from one processor that others use too: none gets well before all do.
    #[test]
    fn clients_that_take_some_hold_until_they_are_well() {
        let mut providers = Backpressure::default();
        let behind = |taken| Load { taken, ..clients(20, 20) };
        for period in 0..50 {
            assert!(providers.must_wait(period * PERIOD, behind(period * 20 * TAKEN)), "{period}");
        }
        // Bytes that they took do not count twice.
        assert!(!providers.must_wait(50 * PERIOD, behind(49 * 20 * TAKEN + 20 * TAKEN - 1)));
        // The clients were kept from running, not unwilling: once they take what is there, they count again.
        assert!(providers.must_wait(51 * PERIOD, behind(51 * 20 * TAKEN)));
        assert!(!providers.must_wait(51 * PERIOD, Load { taken: 51 * 20 * TAKEN, ..clients(5, 20) }));
    }

    /// Judged late, clients need to have taken more: what counts is a rate.
    #[test]
    fn what_clients_take_counts_by_time() {
        for (taken, holds) in [(40 * TAKEN, true), (40 * TAKEN - 1, false)] {
            let mut providers = Backpressure::default();
            assert!(providers.must_wait(0, clients(4, 4)));
            assert_eq!(providers.must_wait(10 * PERIOD, Load { taken, ..clients(4, 4) }), holds, "{taken}");
        }
    }
}
