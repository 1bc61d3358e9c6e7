//! The servers that a client may connect to, and which one is next.

use crate::schedule::Schedule;

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Server {
    /// A server on a host's port.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }
}

/// Which servers there are, and how they are tried.
#[derive(Debug, Clone)]
pub struct ConnectionList {
    /// The servers, in the order in which they are tried.
    pub servers: Vec<Server>,
    /// Index of the server that is tried first after every loss, and gone back to; without one the list goes round.
    pub preferred: Option<usize>,
    /// How long a connection to another server lasts before the preferred one is tried again, nanoseconds; `None`: until it is
    /// lost.
    pub fall_back_ns: Option<u64>,
    /// When a connection to another server is left for the preferred one, by the clock of the place (EMA's `DetectionTimeSchedule`); in place of
    /// `fall_back_ns`, and only as far as the owner says what that clock shows ([`WallClock`]).
    pub fall_back_at: Option<Schedule>,
    /// Pause after the first round of the list without success, nanoseconds; it doubles with each round.
    pub retry_min_ns: u64,
    /// Longest pause, nanoseconds.
    pub retry_max_ns: u64,
}

impl ConnectionList {
    /// A list of these servers, with pauses of 1 to 5 seconds (the defaults of EMA).
    pub const fn new(servers: Vec<Server>) -> Self {
        Self {
            servers,
            preferred: None,
            fall_back_ns: None,
            fall_back_at: None,
            retry_min_ns: 1_000_000_000,
            retry_max_ns: 5_000_000_000,
        }
    }
}

/// The time that the clock on the wall shows, for schedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallClock {
    /// A monotonic time, nanoseconds.
    pub now: u64,
    /// The time of the place then, nanoseconds since its 1 January 1970, 00:00.
    pub local_ns: u64,
}

impl WallClock {
    /// The monotonic time at which a schedule is due next after `now`.
    fn next(&self, schedule: &Schedule, now: u64) -> Option<u64> {
        let passed = i128::from(now) - i128::from(self.now);
        let local_ns = i128::from(self.local_ns) + passed;
        let local_s = i64::try_from(local_ns.div_euclid(1_000_000_000)).ok()?;
        let due_ns = i128::from(schedule.next_after(local_s)?) * 1_000_000_000;
        u64::try_from(i128::from(now) + due_ns - local_ns).ok()
    }
}

/// Servers that are taken from what a server says, at most.
const TOLD_MAX: usize = 64;

/// Walks the list.
#[derive(Debug)]
pub(crate) struct Walk {
    list: ConnectionList,
    next: usize,
    /// The servers that the program has named.
    own: Vec<Server>,
    /// Attempts since the last success.
    failures: u32,
    clock: Option<WallClock>,
}

impl Walk {
    pub(crate) fn new(list: ConnectionList) -> Self {
        let preferred = list.preferred.filter(|&index| index < list.servers.len());
        let list = ConnectionList { preferred, ..list };
        Self { next: preferred.unwrap_or(0), own: list.servers.clone(), list, failures: 0, clock: None }
    }

    pub(crate) fn server(&self, index: usize) -> Option<&Server> {
        self.list.servers.get(index)
    }

    /// The number of the preferred server.
    pub(crate) const fn preferred(&self) -> Option<usize> {
        self.list.preferred
    }

    /// The server in use, of this number, has said which ones there are: they are tried first, in its order, and those that the program has named
    /// behind them. What was said before counts no more. Gives the number that the server in use has now.
    pub(crate) fn learn(&mut self, current: usize, told: impl Iterator<Item = Server>) -> usize {
        let known = std::mem::take(&mut self.list.servers);
        let (in_use, preferred) =
            (known.get(current).cloned(), self.list.preferred.and_then(|n| known.get(n).cloned()));
        let mut servers: Vec<Server> = Vec::new();
        for server in told.take(TOLD_MAX).chain(in_use.clone()).chain(self.own.iter().cloned()) {
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
        let place = |server: Option<Server>| servers.iter().position(|known| Some(known) == server.as_ref());
        let current = place(in_use).unwrap_or(0);
        self.list.preferred = place(preferred);
        self.next = usize::from(current == 0 && servers.len() > 1);
        self.list.servers = servers;
        current
    }

    /// The server to try now.
    pub(crate) fn take(&mut self) -> Option<usize> {
        let count = self.list.servers.len();
        let index = self.next;
        if index >= count {
            return None;
        }
        self.next = (index + 1) % count;
        Some(index)
    }

    /// A connection works. Gives when it is to be left for the preferred server.
    pub(crate) fn succeeded(&mut self, index: usize, now: u64) -> Option<u64> {
        self.failures = 0;
        self.leave_at(index, now)
    }

    /// When the server in use, of this number, is to be left for the preferred one.
    pub(crate) fn leave_at(&self, index: usize, now: u64) -> Option<u64> {
        self.list.preferred.filter(|preferred| *preferred != index)?;
        match &self.list.fall_back_at {
            Some(schedule) => self.clock?.next(schedule, now),
            None => self.list.fall_back_ns.map(|pause| now.saturating_add(pause)),
        }
    }

    pub(crate) const fn set_clock(&mut self, clock: WallClock) {
        self.clock = Some(clock);
    }

    /// Whether a schedule is kept, for which the clock on the wall is needed.
    pub(crate) const fn has_schedule(&self) -> bool {
        self.list.fall_back_at.is_some() && self.list.preferred.is_some()
    }

    /// A connection that worked is gone: when to try the next one. The preferred server comes first.
    pub(crate) fn lost(&mut self, now: u64) -> u64 {
        self.next = self.list.preferred.unwrap_or(self.next);
        now
    }

    /// An attempt failed: when to try the next one.
    pub(crate) fn failed(&mut self, now: u64) -> u64 {
        self.failures = self.failures.saturating_add(1);
        let count = self.list.servers.len().max(1) as u32;
        if !self.failures.is_multiple_of(count) {
            return now;
        }
        let round = (self.failures / count - 1).min(32);
        let pause = self.list.retry_min_ns.saturating_mul(1 << round).min(self.list.retry_max_ns);
        now.saturating_add(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(preferred: Option<usize>) -> Walk {
        let servers = ["a", "b", "c"].map(|host| Server::new(host, 14_002)).to_vec();
        Walk::new(ConnectionList {
            preferred,
            fall_back_ns: Some(100),
            retry_min_ns: 10,
            retry_max_ns: 25,
            ..ConnectionList::new(servers)
        })
    }

    #[test]
    fn the_list_is_tried_in_order_with_growing_pauses() {
        let mut walk = walk(None);
        let tries: Vec<_> = (0..10).map(|_| (walk.take().unwrap(), walk.failed(0))).collect();
        assert_eq!(tries, [(0, 0), (1, 0), (2, 10), (0, 0), (1, 0), (2, 20), (0, 0), (1, 0), (2, 25), (0, 0)]);
        assert_eq!(walk.take(), Some(1));
        assert_eq!((walk.succeeded(1, 5), walk.lost(7), walk.take()), (None, 7, Some(2)));
    }

    #[test]
    fn the_preferred_server_comes_first_and_is_gone_back_to() {
        let mut walk = walk(Some(1));
        assert_eq!(walk.take(), Some(1));
        walk.failed(0);
        assert_eq!(walk.take(), Some(2));
        assert_eq!(walk.succeeded(2, 5), Some(105));
        walk.lost(50);
        assert_eq!(walk.take(), Some(1));
        assert_eq!(walk.succeeded(1, 60), None);
    }

    #[test]
    fn a_schedule_goes_before_the_time_elsewhere() {
        let mut walk = walk(Some(1));
        walk.list.fall_back_at = Some(Schedule::parse("*/10 * * * *").unwrap());
        assert_eq!(walk.succeeded(0, 5), None, "nobody has said what the clock shows");
        // 00:09:59.5 when the monotonic clock says 7 s.
        let second = 1_000_000_000;
        let clock = WallClock { now: 7 * second, local_ns: 599 * second + second / 2 };
        walk.set_clock(clock);
        assert_eq!(walk.leave_at(0, clock.now), Some(7 * second + second / 2));
        assert_eq!(walk.succeeded(0, 8 * second), Some(607 * second + second / 2));
        assert_eq!(walk.succeeded(1, 8 * second), None, "at the preferred one");
        // The clock was put forward by a minute.
        let put = WallClock { local_ns: clock.local_ns + 60 * second, ..clock };
        walk.set_clock(put);
        assert_eq!(walk.leave_at(0, put.now), Some(547 * second + second / 2));
    }

    #[test]
    fn servers_that_one_tells_of_come_before_those_of_the_program() {
        let told = |hosts: &[&str]| hosts.iter().map(|host| Server::new(*host, 14_002)).collect::<Vec<_>>().into_iter();
        let hosts = |walk: &mut Walk| (0..4).map(|_| walk.take().unwrap()).collect::<Vec<_>>();
        let mut walk = walk(Some(2));
        assert_eq!(walk.take(), Some(2));
        // The servers of the list, then a and b; c is in use.
        assert_eq!(walk.learn(2, told(&["x", "c"])), 1);
        assert_eq!(walk.list.servers.iter().map(|server| server.host.as_str()).collect::<String>(), "xcab");
        assert_eq!(hosts(&mut walk), [0, 1, 2, 3]);
        walk.lost(0);
        assert_eq!(walk.take(), Some(1), "the preferred one is still that");
        // A server that is the first itself does not come after it.
        assert_eq!(walk.learn(1, told(&["c", "x"])), 0);
        assert_eq!(hosts(&mut walk), [1, 2, 3, 0]);
        let many: Vec<_> = (0..1_000).map(|n| format!("h{n}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        walk.learn(0, told(&many));
        assert_eq!(walk.list.servers.len(), TOLD_MAX + 3, "x is told of no more");
    }

    #[test]
    fn a_list_without_servers_gives_none() {
        let mut walk = Walk::new(ConnectionList::new(Vec::new()));
        assert_eq!(walk.take(), None);
        assert!(walk.failed(3) > 3);
    }
}
