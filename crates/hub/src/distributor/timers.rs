//! When something has to happen that no message brings about.

use std::collections::BTreeMap;

/// Deadlines are kept in steps of this, so that many items share one entry of the tree.
const STEP: u64 = 20_000_000;

/// What is due. The numbers tell whether it still matters when its time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// An item's open has not been answered: handle, epoch of the item.
    Request(u32, u32),
    /// An item that failed may be asked for again: handle, epoch of the item.
    Retry(u32, u32),
    /// An item may have been unwatched for long enough: handle.
    Unwatched(u32),
    /// A post has not been acknowledged: its id towards the provider.
    Post(u32),
    /// Login or directory of a session are not complete: session, serial of the session.
    Session(u32, u32),
    /// The directory of a session is worth asking for again: session, serial of the session.
    Directory(u32, u32),
    /// The dictionaries of a session have been waited for long enough: session, serial of the session.
    Dictionaries(u32, u32),
    /// The lease of a P2PS that is gone ends: slot, serial of the P2PS.
    Lease(u8, u32),
    /// The next heartbeat.
    Heartbeat,
}

/// Deadlines in order. Cost of an entry is its own size; nothing is scanned.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeMap<u64, Vec<Timer>>,
}

impl Timers {
    /// Sets a timer for `at` or shortly after (never before).
    pub(super) fn set(&mut self, at: u64, timer: Timer) {
        let at = at.div_ceil(STEP).saturating_mul(STEP);
        self.due.entry(at).or_default().push(timer);
    }

    pub(super) fn next(&self) -> Option<u64> {
        self.due.first_key_value().map(|(at, _)| *at)
    }

    /// Takes out what is due by `now`, one step at a time.
    pub(super) fn pop(&mut self, now: u64) -> Option<Vec<Timer>> {
        let entry = self.due.first_entry().filter(|entry| *entry.key() <= now)?;
        Some(entry.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_in_order_and_never_early() {
        let mut timers = Timers::default();
        timers.set(STEP * 3, Timer::Post(3));
        timers.set(STEP + 1, Timer::Post(1));
        timers.set(STEP + 2, Timer::Post(2));
        assert_eq!(timers.next(), Some(2 * STEP));
        assert_eq!(timers.pop(2 * STEP - 1), None);
        assert_eq!(timers.pop(2 * STEP), Some(vec![Timer::Post(1), Timer::Post(2)]));
        assert_eq!(timers.pop(2 * STEP), None);
        assert_eq!(timers.pop(u64::MAX), Some(vec![Timer::Post(3)]));
        assert_eq!(timers.next(), None);
    }
}
