//! When something has to happen that no message brings about.

use super::SessionId;
use super::ids::{Epoch, Handle, Slot};
use std::collections::BTreeMap;

/// Deadlines are kept in steps of this, so that many items share one entry of the tree.
const STEP: u64 = 20_000_000;

/// The kinds of timers. Their numbers tell whether it still matters when its time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// An item's open has not been answered: handle, epoch of the item.
    Request(Handle, Epoch),
    /// An item that failed may be asked for again: handle, epoch of the item.
    Retry(Handle, Epoch),
    /// An item may have been Suspect at its provider for long enough: handle.
    Stale(Handle),
    /// An item that nobody has published may have waited for long enough: handle, epoch of the item.
    Publication(Handle, Epoch),
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
    /// A provider may have had a service for long enough that items go back to it: service.
    FailBack(u16),
    /// A service may have items that lack a mirror: service.
    Mirrors(u16),
    /// The operator is to hear of items that have gone over because of what their providers say.
    Swapped,
    /// A service that came through this site may come another way now: session, serial of the session, the provider's id.
    Link(SessionId, u32, u16),
    /// A provider may have sent no data of a service for too long: session, serial of the session, service.
    Data(SessionId, u32, u16),
    /// A better member of a service group may have been at a provider for long enough: session, serial of the session, service.
    Member(SessionId, u32, u16),
    /// The lease of a P2PS that is gone ends: slot, serial of the P2PS.
    Lease(Slot, u32),
    /// The next look at what nobody publishes or offers any more.
    Retention,
    /// The oldest record may have expired.
    Records,
    /// P2PSs hear of each other.
    Servers,
    /// The next heartbeat.
    Heartbeat,
}

impl Timer {
    /// The session that a timer is about, and its serial.
    pub(crate) fn session(self) -> Option<(SessionId, u32)> {
        match self {
            Self::Session(id, serial)
            | Self::Directory(id, serial)
            | Self::Dictionaries(id, serial)
            | Self::Link(id, serial, _)
            | Self::Data(id, serial, _)
            | Self::Member(id, serial, _) => Some((id, serial)),
            _ => None,
        }
    }
}

/// Steps that are found without a look at the tree: timers of one kind have one length, and so most are set for the step of the one
/// before of their kind.
const RECENT: usize = 4;

/// Deadlines in order. Cost of an entry is its own size; nothing is scanned.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// By step: where its list is.
    due: BTreeMap<u64, u32>,
    lists: Vec<Vec<Timer>>,
    /// Lists of no step.
    free: Vec<u32>,
    /// Steps that were set lately, and where their lists are. A step of 0 is none: no timer is set for the beginning of time.
    recent: [(u64, u32); RECENT],
    /// The next one of `recent` to be replaced.
    oldest: u8,
}

impl Timers {
    /// Sets a timer for `at` or shortly after (never before).
    #[inline]
    pub(crate) fn set(&mut self, at: u64, timer: Timer) {
        let at = at.div_ceil(STEP).max(1).saturating_mul(STEP);
        let known = self.recent.iter().find(|(recent, _)| *recent == at);
        let list = if let Some(&(_, list)) = known { list } else { self.list_of(at) };
        self.lists[list as usize].push(timer);
    }

    /// The list of a step, which is recent from now on.
    #[cold]
    fn list_of(&mut self, at: u64) -> u32 {
        let Self { due, lists, free, .. } = self;
        let list = *due.entry(at).or_insert_with(|| {
            free.pop().unwrap_or_else(|| {
                lists.push(Vec::new());
                (lists.len() - 1) as u32
            })
        });
        self.recent[usize::from(self.oldest)] = (at, list);
        self.oldest = (self.oldest + 1) % RECENT as u8;
        list
    }

    pub(crate) fn next(&self) -> Option<u64> {
        self.due.first_key_value().map(|(at, _)| *at)
    }

    /// All that are set, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Timer> + '_ {
        self.due.values().flat_map(|&list| &self.lists[list as usize]).copied()
    }

    /// Takes out what is due by `now`, one step at a time.
    pub(crate) fn pop(&mut self, now: u64) -> Option<Vec<Timer>> {
        let first = self.due.first_entry().filter(|first| *first.key() <= now)?;
        let (at, list) = first.remove_entry();
        for recent in self.recent.iter_mut().filter(|(recent, _)| *recent == at) {
            *recent = (0, 0);
        }
        self.free.push(list);
        Some(std::mem::take(&mut self.lists[list as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    proptest! {
        /// A timer that is set comes out once, in the order of the steps, and not before its time; within a step as it was set.
        #[test]
        fn every_timer_comes_once_and_in_time(operations in prop::collection::vec((0..400_u64, any::<bool>()), 1..200)) {
            let mut timers = Timers::default();
            let mut model: BTreeMap<u64, Vec<Timer>> = BTreeMap::new();
            let mut now = 0;
            for (serial, (time, is_set)) in (0..).zip(operations) {
                let time = time * (STEP / 7);
                if is_set {
                    let at = now + time;
                    timers.set(at, Timer::Post(serial));
                    model.entry(at.div_ceil(STEP).max(1) * STEP).or_default().push(Timer::Post(serial));
                } else {
                    now += time / 8;
                    while let Some(due) = timers.pop(now) {
                        let (at, expected) = model.pop_first().expect("something is set");
                        prop_assert!(at <= now);
                        prop_assert_eq!(due, expected);
                    }
                }
                prop_assert_eq!(timers.next(), model.first_key_value().map(|(at, _)| *at));
                prop_assert!(timers.next().is_none_or(|at| is_set || at > now));
                prop_assert_eq!(timers.iter().collect::<Vec<_>>(), model.values().flatten().copied().collect::<Vec<_>>());
                prop_assert!(timers.lists.len() == timers.due.len() + timers.free.len());
            }
        }
    }
}
