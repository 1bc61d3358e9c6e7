//! When something has to happen that no message brings about.

use super::SessionId;
use super::ids::{Epoch, Handle, Slot};
use std::collections::BTreeMap;
use std::ops::Bound;

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
    /// Posts may have waited for others for long enough: session, serial of the session.
    Posts(SessionId, u32),
    /// Login or directory of a session are not complete: session, serial of the session.
    Session(SessionId, u32),
    /// The directory of a session is worth asking for again: session, serial of the session.
    Directory(SessionId, u32),
    /// The dictionaries of a session have been waited for long enough: session, serial of the session.
    Dictionaries(SessionId, u32),
    /// A provider may have had a service for long enough that items go back to it: service.
    FailBack(u16),
    /// A service may have been without a provider for long enough to be deleted: service.
    Restart(u16),
    /// A service may have items that lack a mirror: service.
    Mirrors(u16),
    /// The operator is to hear of items that have gone over because of what their providers say.
    Swapped,
    /// A service that came through this site may come another way now: session, serial of the session, the provider's id.
    Link(SessionId, u32, u16),
    /// A provider may have had a service up for long enough to be asked: session, serial of the session, service.
    Recognised(SessionId, u32, u16),
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
            Self::Posts(id, serial)
            | Self::Session(id, serial)
            | Self::Directory(id, serial)
            | Self::Dictionaries(id, serial)
            | Self::Link(id, serial, _)
            | Self::Recognised(id, serial, _)
            | Self::Data(id, serial, _)
            | Self::Member(id, serial, _) => Some((id, serial)),
            _ => None,
        }
    }
}

/// Steps that are found without a look at the tree: timers of one kind have one length, and so most are set for the step of the one
/// before of their kind.
const RECENT: usize = 4;

/// Entries that are looked at for each request's timer that is set, a list counted as one more: with two, about as many would lie there in vain as are of use;
/// with four that holds as well where each step has a timer of another kind.
const LOOKS_PER_REQUEST: usize = 4;
/// Looks that are saved up at most: what one turn may spend on it.
const MAX_LOOKS: usize = 4_096;

/// Deadlines in order. Cost of an entry is its own size.
///
/// Of requests nearly all are answered long before their time. Their timers are of no use from then on, and a million of them would lie there for as long
/// as a request may take. So some are looked at for each that is set ([`Self::sweep_requests`]), and those in vain are forgotten.
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
    /// Entries that may be looked at, whether they are of use.
    looks: usize,
    /// The step whose list was looked at last.
    swept: u64,
}

impl Timers {
    /// Sets a timer for `at` or shortly after (never before).
    #[inline]
    pub(crate) fn set(&mut self, at: u64, timer: Timer) {
        if matches!(timer, Timer::Request(..)) {
            self.looks = (self.looks + LOOKS_PER_REQUEST).min(MAX_LOOKS);
        }
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

    /// Forgets timers of requests for which nobody `waits`, by handle and epoch of the item: so many looks as are due. To be called once a turn.
    #[inline]
    pub(crate) fn sweep_requests(&mut self, waits: impl Fn(Handle, Epoch) -> bool) {
        while self.looks > 0 {
            self.sweep_step(&waits);
        }
    }

    /// Looks at the next step's list; behind the last one the first follows.
    #[inline(never)]
    fn sweep_step(&mut self, waits: &impl Fn(Handle, Epoch) -> bool) {
        let behind = self.due.range((Bound::Excluded(self.swept), Bound::Unbounded)).next();
        let Some((&at, &list)) = behind.or_else(|| self.due.first_key_value()) else {
            self.looks = 0;
            return;
        };
        self.swept = at;
        let timers = &mut self.lists[list as usize];
        self.looks = self.looks.saturating_sub(timers.len() + 1);
        timers.retain(|timer| !matches!(*timer, Timer::Request(handle, epoch) if !waits(handle, epoch)));
        if timers.capacity() > 64 && timers.len() < timers.capacity() / 4 {
            timers.shrink_to(timers.len() * 2);
        }
        if self.lists[list as usize].is_empty() {
            self.due.remove(&at);
            self.forget_step(at, list);
        }
    }

    /// A step is over, and its list free.
    fn forget_step(&mut self, at: u64, list: u32) {
        for recent in self.recent.iter_mut().filter(|(recent, _)| *recent == at) {
            *recent = (0, 0);
        }
        self.free.push(list);
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
        self.forget_step(at, list);
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

    #[test]
    fn timers_of_requests_that_are_answered_take_no_room() {
        let mut timers = Timers::default();
        // Each request is answered before 100 more are sent, but for every thousandth.
        let waits = |last: u32| move |Handle(number), _: Epoch| number + 100 > last || number.is_multiple_of(1_000);
        for number in 0..100_000 {
            timers.set((1_000_000 + u64::from(number / 50)) * STEP, Timer::Request(Handle(number), Epoch(number)));
            timers.set(u64::from(number + 1) * STEP, Timer::Post(number));
            timers.pop(u64::from(number) * STEP);
            timers.sweep_requests(waits(number));
            assert!(timers.iter().count() <= 1_000, "{} timers", timers.iter().count());
        }
        let left: Vec<u32> = timers
            .iter()
            .filter_map(|timer| if let Timer::Request(handle, _) = timer { Some(handle.0) } else { None })
            .collect();
        assert!((0..100).all(|thousand| left.contains(&(thousand * 1_000))), "one that waits is forgotten");
    }

    proptest! {
        /// A timer that is set comes out once, in the order of the steps, and not before its time; within a step as it was set.
        #[test]
        fn every_timer_comes_once_and_in_time(operations in prop::collection::vec((0..400_u64, 0..4_u8), 1..200)) {
            let mut timers = Timers::default();
            let mut model: BTreeMap<u64, Vec<Timer>> = BTreeMap::new();
            let mut now = 0;
            let waits = |handle: Handle, _| !handle.0.is_multiple_of(3);
            for (serial, (time, what)) in (0..).zip(operations) {
                let (time, is_set) = (time * (STEP / 7), what < 2);
                if is_set {
                    let at = now + time;
                    let timer = if what == 0 { Timer::Post(serial) } else { Timer::Request(Handle(serial), Epoch(1)) };
                    timers.set(at, timer);
                    model.entry(at.div_ceil(STEP).max(1) * STEP).or_default().push(timer);
                } else if what == 2 {
                    // All of them, at once.
                    (timers.looks, timers.swept) = (MAX_LOOKS, 0);
                    timers.sweep_requests(waits);
                    let in_vain = |timer: &Timer| matches!(*timer, Timer::Request(handle, epoch) if !waits(handle, epoch));
                    for list in model.values_mut() {
                        list.retain(|timer| !in_vain(timer));
                    }
                    model.retain(|_, list| !list.is_empty());
                } else {
                    now += time / 8;
                    while let Some(due) = timers.pop(now) {
                        let (at, expected) = model.pop_first().expect("something is set");
                        prop_assert!(at <= now);
                        prop_assert_eq!(due, expected);
                    }
                }
                prop_assert_eq!(timers.next(), model.first_key_value().map(|(at, _)| *at));
                prop_assert!(timers.next().is_none_or(|at| what < 3 || at > now));
                prop_assert_eq!(timers.iter().collect::<Vec<_>>(), model.values().flatten().copied().collect::<Vec<_>>());
                prop_assert!(timers.lists.len() == timers.due.len() + timers.free.len());
            }
        }
    }
}
