//! Items that are asked for before anybody has published them.
//!
//! A non-interactive provider publishes its items one after the other, behind its directory. Who asks in between, as all do after this
//! process was started again, must not be told that there is no such item. So an item of a service that a provider has offered only
//! lately is made without an image, and waits: for [`crate::Config::publication_patience`], and on while other items go on to be published, up
//! to [`PATIENCES_MAX`] times that; or, if a P2PS wants it back for watchers who have had an image, for as long as somebody watches.

use crate::SourceDistributor;
use crate::ids::{Epoch, Handle};
use crate::item::ItemHash;
use crate::items::{Kind, NOT_PUBLISHED};
use crate::stream::flags;
use crate::timers::Timer;
use rustc_hash::FxHashSet;
use rwf::{DataState, State, StateCode, StreamState};

/// How many times the patience items are waited for whose provider is still busy publishing others: a minute by default. A million items at the
/// pace of a provider written with EMA take half of that.
pub const PATIENCES_MAX: u64 = 12;

/// Items without an image that somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    /// P2PSs have opened them, and were told that there is no image yet: the first one is the answer.
    unanswered: FxHashSet<Handle>,
    /// Items that are waited for without an end.
    wanted_back: FxHashSet<Handle>,
}

impl Awaited {
    /// A P2PS has watchers who had an image of the item.
    pub(crate) fn want_back(&mut self, handle: Handle) {
        self.wanted_back.insert(handle);
    }

    /// An open of an item is not answered, since there is no image of it.
    pub(crate) fn leave_unanswered(&mut self, handle: Handle) {
        self.unanswered.insert(handle);
    }

    /// Whether a part of the first image is the answer to opens; after the last part they are answered.
    pub(super) fn take_part(&mut self, handle: Handle, complete: bool) -> bool {
        if complete { self.unanswered.remove(&handle) } else { self.unanswered.contains(&handle) }
    }

    pub(crate) fn forget(&mut self, handle: Handle) {
        self.unanswered.remove(&handle);
        self.wanted_back.remove(&handle);
    }

    /// Asserts that no item is waited for that is not there.
    pub(super) fn check(&self, is_cached: impl Fn(Handle) -> bool) {
        let mut all = self.wanted_back.iter().chain(&self.unanswered);
        assert!(all.all(|&handle| is_cached(handle)), "an item is waited for that is gone");
    }
}

/// How long an item may wait to be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until then, monotonic nanoseconds.
    Until(u64),
    /// As long as it is watched.
    Endless,
}

impl SourceDistributor {
    /// How long an open of an item that nobody has published is to wait; `None` if it is to be refused.
    pub(crate) fn publication_patience(&mut self, service: u16, bits: u8) -> Option<Patience> {
        if bits & flags::WANTED_BACK != 0 {
            return Some(Patience::Endless);
        }
        self.awaits_publication(service).map(Patience::Until)
    }

    /// Until when items of a service are awaited that nobody has published, if they still are.
    fn awaits_publication(&mut self, service: u16) -> Option<u64> {
        let patience = self.config.publication_patience;
        let known = &mut self.providers[service];
        let offered_at = known.times.offered_at?;
        let at_most = offered_at.saturating_add(patience.saturating_mul(PATIENCES_MAX));
        let last = known.publishing.look(self.now).map_or(offered_at, |seen_at| seen_at.max(offered_at));
        let until = last.saturating_add(patience).min(at_most);
        (self.now < until).then_some(until)
    }

    /// Makes the item of `self.key`, which nobody has published. `None` if there is no room for it.
    pub(crate) fn await_publication(&mut self, hash: ItemHash, service: u16, patience: Patience) -> Option<Handle> {
        if !self.find_room(None) {
            return None;
        }
        let image = self.published.images.add();
        let handle = self.items.insert_hashed(hash, service, &self.key, Kind::Cached { image });
        self.begin_record(handle, 0, false);
        self.counters.awaited_publications += 1;
        match patience {
            Patience::Endless => self.published.awaited.want_back(handle),
            Patience::Until(until) => {
                self.timers.set(until, Timer::Publication(handle, self.items[handle].epoch()));
            }
        }
        Some(handle)
    }

    /// An item has waited for long enough to be published: it is told of as one that nobody publishes, unless it is wanted back.
    pub(crate) fn publication_timer(&mut self, handle: Handle, epoch: Epoch) {
        // The timer was set for something else, or the item is gone or over.
        let Some(item) = self.items.get(handle).filter(|item| item.epoch() == epoch) else { return };
        let Some(image) = item.image().filter(|_| !item.is_ended()) else { return };
        let is_there = item.place().is_some() || item.in_set() || self.published.images.get(image).is_whole();
        // Of an image that its publisher has not ended those who watch have had the beginning: the next one is to reach them.
        if is_there || item.is_answered() || self.published.awaited.wanted_back.contains(&handle) {
            return;
        }
        let service = item.service();
        if let Some(until) = self.awaits_publication(service) {
            // The item's provider is busy publishing others.
            self.timers.set(until, Timer::Publication(handle, epoch));
            return;
        }
        self.counters.refused_not_found += 1;
        let state = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND, NOT_PUBLISHED);
        self.publish_end(handle, &state, None);
        self.end_item(handle);
    }
}
