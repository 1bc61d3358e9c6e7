//! Invariants that hold between turns, of all rooms together.

use super::SourceDistributor;
use super::ids::{Handle, Origin};
use super::providers::Stream;
use super::timers::Timer;
use std::collections::{HashMap, HashSet};

impl SourceDistributor {
    /// Asserts that every item is in a legal state, and that the tables agree about it. It looks at everything: for tests and
    /// simulations, at the end of a turn.
    ///
    /// # Panics
    /// Something does not hold: a fault of the Source Distributor.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.items.check_all();
        self.links.check();
        self.upstream.check(&self.items);
        self.published.check(&self.items);
        self.content.check(|handle| self.items.get(handle).is_some_and(|item| !item.is_ended()));
        self.check_cache();
        self.hub
            .check(|handle| self.items.get(handle).is_some_and(|item| self.providers.conflation_of(item).is_some()));
        self.posts.check(&self.links, |session| self.providers.get(session).is_some());
        self.check_streams();
        self.check_services();
        self.check_timers();
        for (handle, item) in self.items.iter() {
            let stranger = item.interest().iter().find(|&slot| !self.links.is_taken(slot));
            assert_eq!(stranger, None, "{handle:?} is open at a P2PS that nobody is: {item:?}");
            let unlisted = item.interest().iter().find(|&slot| !self.links.lists(slot, handle));
            assert_eq!(unlisted, None, "{handle:?} would stay open when a P2PS goes: {item:?}");
        }
    }

    /// An item has a stream exactly if the stream has the item, and updates are relayed of those only that somebody watches.
    fn check_streams(&self) {
        let mirrors = self.check_mirrors();
        let (mut on_streams, mut mirrored) = (0, 0);
        for (id, session) in self.providers.with_leaving() {
            for (stream, entry) in session.streams.iter() {
                if entry.mirror().is_some() {
                    mirrored += 1;
                    continue;
                }
                let handle = entry.handle().expect("a stream in use is an item's");
                let item = self.items.get(handle).expect("an item is gone that is on a stream");
                let place = item.place().map(|place| (place.session, place.stream));
                assert_eq!(place, Some((id, stream)), "{handle:?} is on a stream that is not its own: {item:?}");
                assert_eq!(item.is_cached(), session.origin == Origin::NonInteractive, "{handle:?} {item:?}");
                let live = entry == Stream::new(handle, true);
                let live = live || entry.is_live_careful();
                assert!(!live || (item.is_open() && item.is_watched()), "{handle:?} is live: {item:?}");
                let is_looked_at = self.is_looked_at(handle);
                let is_cached = self.content.is_cached(handle);
                let is_noticed = is_looked_at || is_cached;
                assert!(!entry.is_live_careful() || is_noticed, "{handle:?} is not looked at: {item:?}");
                assert!(!is_noticed || entry.live().is_none(), "nothing looks at updates of {handle:?}: {item:?}");
                let is_only_cached = is_cached && !is_looked_at;
                assert!(entry.live_cached().is_none() || is_only_cached, "{handle:?} is more than cached: {item:?}");
                on_streams += 1;
            }
        }
        let placed = self.items.iter().filter(|(_, item)| item.place().is_some()).count();
        assert_eq!(mirrored, mirrors, "streams of mirrors, and mirrors");
        assert_eq!(on_streams, placed, "items on streams, and items that say that they are");
    }

    /// Counts and queues of services and offers are those of their items.
    fn check_services(&self) {
        let mut lost: HashMap<u16, u32> = HashMap::new();
        // Asked for, open, snapshots among both.
        let mut offers: HashMap<(u32, u16), [u32; 3]> = HashMap::new();
        for (_, item) in self.items.iter() {
            *lost.entry(item.service()).or_default() += u32::from(item.is_lost());
            if let Some(place) = item.place().filter(|_| !item.is_cached()) {
                let counts = offers.entry((place.session.0, item.service())).or_default();
                counts[0] += u32::from(item.is_asked());
                counts[1] += u32::from(item.is_open());
                counts[2] += u32::from(item.is_snapshot());
            }
        }
        for (handle, place, unanswered) in self.hot_standby.iter() {
            let counts = offers.entry((place.session.0, self.items[handle].service())).or_default();
            counts[usize::from(!unanswered)] += 1;
        }
        let mut queued: HashSet<Handle> = HashSet::new();
        for id in self.providers.service_ids() {
            let service = &self.providers[id];
            assert_eq!(service.lost_items(), lost.get(&id).copied().unwrap_or_default(), "lost items of service {id}");
            queued.extend(service.queued());
            for &provider in service.providers() {
                assert!(self.providers[provider].offer(id).is_some(), "{provider:?} does not offer service {id}");
            }
        }
        queued.extend(self.upstream.in_doubt());
        for (handle, item) in self.items.iter().filter(|(_, item)| item.is_queued()) {
            assert!(queued.contains(&handle), "{handle:?} is in no queue: {item:?}");
        }
        for (id, session) in self.providers.with_leaving() {
            for offer in session.offers.with_withdrawn() {
                let counts = offers.remove(&(id.0, offer.service)).unwrap_or_default();
                assert_eq!([offer.outstanding, offer.open, offer.snapshots], counts, "{id:?} {offer:?}");
            }
        }
        assert!(offers.is_empty(), "items are open at sessions that do not offer their service: {offers:?}");
    }

    /// Every item that waits for a timer has one.
    fn check_timers(&self) {
        let timers: Vec<Timer> = self.timers.iter().collect();
        let mut requests: HashMap<Handle, Vec<u32>> = HashMap::new();
        let mut retries: HashMap<Handle, Vec<u32>> = HashMap::new();
        let mut aging: HashSet<Handle> = HashSet::new();
        for timer in timers {
            match timer {
                Timer::Request(handle, epoch) => requests.entry(handle).or_default().push(epoch.0),
                Timer::Retry(handle, epoch) => retries.entry(handle).or_default().push(epoch.0),
                Timer::Unwatched(handle) => {
                    aging.insert(handle);
                }
                _ => {}
            }
        }
        for (handle, item) in self.items.iter() {
            let has = |of: &HashMap<Handle, Vec<u32>>| of.get(&handle).is_some_and(|e| e.contains(&item.epoch().0));
            let waits = item.is_waiting() && !item.is_queued() && !item.is_cached() && !item.is_cached_snapshot();
            assert!(!waits || has(&retries), "nobody asks for {handle:?} again: {item:?}");
            assert!(!item.is_asked() || has(&requests), "{handle:?} may wait for ever: {item:?}");
            assert!(item.has_interest() || item.is_cached() || aging.contains(&handle), "{handle:?} is kept for ever");
        }
    }
}
