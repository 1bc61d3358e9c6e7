//! When to hold the providers back: while the egress shards, or most of the clients, are behind.
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
pub struct Valve {
    is_closed: bool,
    /// When clients closed it, or were last seen to get better.
    since: u64,
    /// Fewest that were behind since they closed it; `usize::MAX` while they do not.
    fewest: usize,
    /// The clients' time is over: they no longer count, until most are well.
    ignores_clients: bool,
}

impl Default for Valve {
    fn default() -> Self {
        Self { is_closed: false, since: 0, fewest: usize::MAX, ignores_clients: false }
    }
}

impl Valve {
    /// A shard that is so many bytes behind, or fewer, lets the valve open again.
    pub const OPENS_BELOW: u64 = LAG.1;

    /// True while the providers are to be held.
    pub fn is_closed(&mut self, now: u64, load: Load) -> bool {
        let crowd = self.crowd(now, load);
        let lag = load.lag > if self.is_closed { LAG.1 } else { LAG.0 };
        self.is_closed = crowd || lag;
        self.is_closed
    }

    /// When to ask again though nothing has changed, nanoseconds.
    pub fn timeout(&self) -> Option<u64> {
        (self.fewest != usize::MAX && !self.ignores_clients).then_some(self.since + PATIENCE)
    }

    /// Whether the clients keep it closed.
    fn crowd(&mut self, now: u64, load: Load) -> bool {
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
    fn a_slow_shard_closes_it_until_half_is_read() {
        let mut valve = Valve::default();
        for (lag, closed) in [
            (0, false),
            (LAG.0, false),
            (LAG.0 + 1, true),
            (LAG.0, true),
            (LAG.1 + 1, true),
            (LAG.1, false),
            (LAG.0, false),
        ] {
            assert_eq!(valve.is_closed(0, Load { lag, behind: 0, mounts: 2 }), closed, "{lag}");
        }
    }

    #[test]
    fn a_minority_of_slow_clients_holds_nobody() {
        let mut valve = Valve::default();
        assert!(!valve.is_closed(0, clients(50, 100)));
        assert!(!valve.is_closed(0, clients(0, 0)) && !valve.is_closed(0, clients(1, 2)));
    }

    #[test]
    fn most_clients_close_it_until_most_are_well() {
        let mut valve = Valve::default();
        assert!(valve.is_closed(1, clients(51, 100)));
        assert!(valve.is_closed(2, clients(26, 100)), "they are getting better, not well");
        assert!(!valve.is_closed(3, clients(25, 100)));
        assert!(!valve.is_closed(4, clients(50, 100)), "from below it takes more than half");
    }

    #[test]
    fn clients_that_take_nothing_hold_for_a_while_only() {
        let mut valve = Valve::default();
        let stalled = clients(3, 4);
        assert!(valve.is_closed(5, stalled));
        assert_eq!(valve.timeout(), Some(5 + PATIENCE));
        assert!(valve.is_closed(4 + PATIENCE, stalled) && !valve.is_closed(5 + PATIENCE, stalled));
        assert!(!valve.is_closed(9 * PATIENCE, clients(4, 4)), "nor again, while they are as they were");
        assert!(!valve.is_closed(10 * PATIENCE, clients(1, 4)) && valve.is_closed(10 * PATIENCE, stalled));
        // One that gets well buys the others time.
        assert!(valve.is_closed(11 * PATIENCE - 1, clients(2, 4)) && valve.is_closed(12 * PATIENCE - 2, clients(2, 4)));
    }
}
