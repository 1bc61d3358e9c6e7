//! When those are read who have not logged in, and those who have and do little more than have this side answer them: behind everybody else in
//! a turn, for [`TURN`] of it and half of the time. What they send meanwhile waits in the kernel, whose room holds them back.
//!
//! Of them, whoever has been read least in the present second is read first, so that somebody who comes in is not kept waiting by those who
//! talk without an end.

use net::tcp::ConnId;

use super::RsslIo;
use crate::handler::Handler;

/// Time of a turn that they have, nanoseconds. Those who have logged in wait for that at most, and for the one read in which it ends.
const TURN: i64 = 500_000;
/// Whoever is read last is read for one part of so many of the time: a thread that is never idle is the last to get a processor where others
/// want it, and whoever comes in by thousands after a restart is to be let in soon all the same.
const PARTS: i64 = 2;
/// Time that may be saved up for them, nanoseconds.
const CREDIT: i64 = 1_000_000;
/// Once it is used up they wait until there is so much again, nanoseconds.
const RESUME: i64 = 250_000;

/// The time of those who are read last.
pub(super) struct Pace {
    /// The rest of it, nanoseconds; below zero if more was needed.
    left: i64,
    /// When it was looked at last.
    since: u64,
    /// The connections wait until there is more.
    waits: bool,
    /// Connections of a turn that have something, by the bytes that were read of them in this second.
    line: Vec<(u32, ConnId)>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { left: CREDIT, since: 0, waits: false, line: Vec::new() }
    }
}

impl Pace {
    /// Nothing was needed lately.
    fn is_full(&self) -> bool {
        self.left >= CREDIT
    }

    /// Adds what the time since has brought. Gives when those who wait are to be read again.
    fn refill(&mut self, now: u64) -> Option<u64> {
        self.left = (self.left + now.saturating_sub(self.since) as i64 / PARTS).min(CREDIT);
        self.since = now;
        self.waits = self.left <= 0 || self.waits && self.left < RESUME;
        self.waits.then(|| now + ((RESUME - self.left) * PARTS) as u64)
    }

    /// Takes off what was needed since then.
    fn spend(&mut self, since: u64, now: u64) {
        if self.is_full() {
            // The time is counted from here on.
            self.since = since;
        }
        self.left -= now.saturating_sub(since) as i64;
    }
}

impl RsslIo {
    /// Has those who are read last wait, or not, until the next turn. Gives when they are to be read again, if they wait.
    pub(super) fn pace(&mut self) -> Option<u64> {
        if self.pace.is_full() && !self.pace.waits {
            return None;
        }
        let again = self.pace.refill(net::clock::now());
        self.tcp.hold_patient(self.pace.waits);
        again
    }

    /// Whether a connection that has something is read behind the others.
    #[inline]
    pub(super) fn is_read_last(&mut self, now: u64, conn: ConnId, handler: &impl Handler) -> bool {
        self.session(conn).is_some_and(|session| session.is_last) && self.put_in_line(now, conn, handler)
    }

    /// Puts a connection in the line, unless it has logged in since.
    #[cold]
    fn put_in_line(&mut self, now: u64, conn: ConnId, handler: &impl Handler) -> bool {
        let Some(session) = self.session(conn) else { return false };
        session.account.is_known |= session.established && handler.is_known(conn);
        session.is_last = !session.account.is_known || session.account.is_loud(now);
        let (is_last, heard) = (session.is_last, session.bytes_read.of_second(now));
        if is_last {
            self.pace.line.push((heard, conn));
        } else {
            self.tcp.set_patient(conn, false);
        }
        is_last
    }

    /// Reads those in the line, as far as their time goes; the others have their turn next.
    pub(super) fn read_last(&mut self, now: u64, handler: &mut impl Handler) {
        if self.pace.line.is_empty() {
            return;
        }
        let mut line = std::mem::take(&mut self.pace.line);
        line.sort_unstable();
        let began = net::clock::now();
        let until = began + self.pace.left.clamp(0, TURN) as u64;
        let mut at = began;
        for (_, conn) in line.drain(..) {
            self.read(now, conn, handler);
            at = net::clock::now();
            if at >= until {
                break;
            }
        }
        self.pace.spend(began, at);
        self.pace.line = line;
    }

    /// Does something that a stranger has brought about, in the time of those who are read last.
    pub(super) fn in_their_time<T>(&mut self, what: impl FnOnce(&mut Self) -> T) -> T {
        let began = net::clock::now();
        let done = what(self);
        self.pace.spend(began, net::clock::now());
        done
    }

    /// A connection was read from. One who has logged in and goes on to have this side answer, and no more, is read last from now on.
    #[inline]
    pub(super) fn note_noise(&mut self, now: u64, conn: ConnId) {
        let Some(session) = self.session(conn) else { return };
        if !session.is_last && session.listener.is_some() && session.account.is_loud(now) {
            session.is_last = true;
            self.tcp.set_patient(conn, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_have_half_of_the_time_and_wait_for_a_worthwhile_part_of_it() {
        let (mut pace, mut now, mut spent) = (Pace::default(), 1_000, 0);
        for _ in 0..10_000 {
            if let Some(again) = pace.refill(now) {
                assert!(again > now, "not at once, and not never");
                now = again;
                assert_eq!(pace.refill(now), None, "it was worth waiting");
            }
            let work = pace.left.min(TURN) as u64 + 30_000;
            pace.spend(now, now + work);
            (now, spent) = (now + work, spent + work);
        }
        let parts = now as f64 / spent as f64;
        assert!((1.9..2.1).contains(&parts), "{parts}");
    }
}
