//! Backpressure towards the providers: they are not read while the egress shards, or most of the clients, are behind.
//!
//! A slow client never slows another: it is cut off at its own bound. When most of them are behind at once, though, it is not
//! they who are slow; the machine, or its network, takes in more than it can send. Then the providers are not read until the
//! backlog is smaller, and their sockets hold them back. Clients that take nothing at all do not count for long, or they would
//! hold up those that do.

/// Bytes of the ring to the shards at which providers are held, and below which they are read again.
const LAG: (u64, u64) = (1 << 20, 512 << 10);
/// How long clients can hold providers without getting any better, nanoseconds. Beyond it their own bounds are left to judge.
const PATIENCE: u64 = 200_000_000;

/// What is waiting to go out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes that the slowest shard has still to read.
    pub lag: u64,
    /// Clients that are behind.
    pub behind: usize,
    /// Clients.
    pub mounts: usize,
}

/// The decision, with its hysteresis.
#[derive(Debug)]
pub struct Backpressure {
    holds: bool,
    /// When clients began to hold providers, or were last seen to get better.
    since: u64,
    /// Fewest that were behind since then; `usize::MAX` while clients hold nobody.
    fewest: usize,
    /// The clients' time is over: they no longer count, until most are well.
    ignores_clients: bool,
}

impl Default for Backpressure {
    fn default() -> Self {
        Self { holds: false, since: 0, fewest: usize::MAX, ignores_clients: false }
    }
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
        (self.fewest != usize::MAX && !self.ignores_clients).then_some(self.since + PATIENCE)
    }

    /// Whether the clients hold the providers.
    fn clients_hold(&mut self, now: u64, load: Load) -> bool {
        if load.behind * 4 <= load.mounts {
            self.ignores_clients = false;
            self.fewest = usize::MAX;
            return false;
        }
        let closes = load.behind * 2 > load.mounts;
        if self.ignores_clients || (self.fewest == usize::MAX && !closes) {
            return false;
        }
        if load.behind < self.fewest {
            (self.fewest, self.since) = (load.behind, now);
        }
        self.ignores_clients = now.saturating_sub(self.since) >= PATIENCE;
        !self.ignores_clients
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
            assert_eq!(providers.must_wait(0, Load { lag, behind: 0, mounts: 2 }), closed, "{lag}");
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
        assert_eq!(providers.timeout(), Some(5 + PATIENCE));
        assert!(providers.must_wait(4 + PATIENCE, stalled) && !providers.must_wait(5 + PATIENCE, stalled));
        assert!(!providers.must_wait(9 * PATIENCE, clients(4, 4)), "nor again, while they are as they were");
        assert!(!providers.must_wait(10 * PATIENCE, clients(1, 4)) && providers.must_wait(10 * PATIENCE, stalled));
        // One that gets well buys the others time.
        assert!(
            providers.must_wait(11 * PATIENCE - 1, clients(2, 4))
                && providers.must_wait(12 * PATIENCE - 2, clients(2, 4))
        );
    }
}
