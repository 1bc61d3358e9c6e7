//! When something has to happen that no message brings about.

use super::SessionId;
use super::ids::{Epoch, Handle, Slot};
use std::collections::BTreeMap;

/// Deadlines are kept in steps of this, so that many items share one entry of the tree.
const STEP: u64 = 20_000_000;

/// What is due. The numbers tell whether it still matters when its time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// An item's open has not been answered: handle, epoch of the item.
    Request(Handle, Epoch),
    /// An item that failed may be asked for again: handle, epoch of the item.
    Retry(Handle, Epoch),
    /// An item may have been unwatched for long enough: handle.
    Unwatched(Handle),
    /// A post has not been acknowledged: its id towards the provider.
    Post(u32),
    /// Login or directory of a session are not complete: session, serial of the session.
    Session(SessionId, u32),
    /// The directory of a session is worth asking for again: session, serial of the session.
    Directory(SessionId, u32),
    /// The dictionaries of a session have been waited for long enough: session, serial of the session.
    Dictionaries(SessionId, u32),
    /// The lease of a P2PS that is gone ends: slot, serial of the P2PS.
    Lease(Slot, u32),
    /// The next heartbeat.
    Heartbeat,
}

/// Deadlines in order. Cost of an entry is its own size; nothing is scanned.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BTreeMap<u64, Vec<Timer>>,
}

impl Timers {
    /// Sets a timer for `at` or shortly after (never before).
    pub(crate) fn set(&mut self, at: u64, timer: Timer) {
        let at = at.div_ceil(STEP).saturating_mul(STEP);
        self.due.entry(at).or_default().push(timer);
    }

    pub(crate) fn next(&self) -> Option<u64> {
        self.due.first_key_value().map(|(at, _)| *at)
    }

    /// All that are set, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Timer> + '_ {
        self.due.values().flatten().copied()
    }

    /// Takes out what is due by `now`, one step at a time.
    pub(crate) fn pop(&mut self, now: u64) -> Option<Vec<Timer>> {
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
