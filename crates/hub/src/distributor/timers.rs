//! When something has to happen that no message brings about.

use super::SessionId;
use super::ids::{Epoch, Handle, Slot};
use std::cmp::Ordering;
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
    /// The next look at what nobody publishes or offers any more.
    Retention,
    /// The next heartbeat.
    Heartbeat,
}

/// Deadlines in order. Cost of an entry is its own size; nothing is scanned.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BTreeMap<u64, Vec<Timer>>,
    /// The latest deadline of all with what is due then, beside the tree: timers of one kind have one length, and so most are set for
    /// the step of the one before.
    latest: (u64, Vec<Timer>),
}

impl Timers {
    /// Sets a timer for `at` or shortly after (never before).
    pub(crate) fn set(&mut self, at: u64, timer: Timer) {
        let at = at.div_ceil(STEP).saturating_mul(STEP);
        let (latest, timers) = &mut self.latest;
        match at.cmp(latest) {
            Ordering::Equal => timers.push(timer),
            Ordering::Less => self.due.entry(at).or_default().push(timer),
            Ordering::Greater => {
                let before = std::mem::replace(&mut self.latest, (at, vec![timer]));
                if !before.1.is_empty() {
                    self.due.insert(before.0, before.1);
                }
            }
        }
        debug_assert!(
            self.due.last_key_value().is_none_or(|(last, _)| *last < self.latest.0),
            "the latest is in the tree"
        );
    }

    pub(crate) fn next(&self) -> Option<u64> {
        let latest = (!self.latest.1.is_empty()).then_some(self.latest.0);
        self.due.first_key_value().map(|(at, _)| *at).or(latest)
    }

    /// All that are set, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Timer> + '_ {
        self.due.values().flatten().chain(&self.latest.1).copied()
    }

    /// Takes out what is due by `now`, one step at a time.
    pub(crate) fn pop(&mut self, now: u64) -> Option<Vec<Timer>> {
        if let Some(first) = self.due.first_entry() {
            return (*first.key() <= now).then(|| first.remove());
        }
        let due = self.latest.0 <= now && !self.latest.1.is_empty();
        due.then(|| std::mem::take(&mut self.latest.1))
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
        assert_eq!(timers.iter().collect::<Vec<_>>(), [Timer::Post(3)]);
        assert_eq!(timers.next(), Some(3 * STEP));
        assert_eq!(timers.pop(u64::MAX), Some(vec![Timer::Post(3)]));
        assert_eq!((timers.next(), timers.pop(u64::MAX)), (None, None));
        // The step that was the latest is set again, and then an earlier one.
        timers.set(STEP * 3, Timer::Post(5));
        timers.set(STEP, Timer::Post(4));
        assert_eq!(timers.pop(STEP), Some(vec![Timer::Post(4)]));
        assert_eq!(timers.pop(3 * STEP), Some(vec![Timer::Post(5)]));
    }
}
