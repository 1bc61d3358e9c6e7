//! Invariants at the end of every turn, whatever came in.
//!
//! * Every watcher of an item is known to its client's stream table, with its place; nobody else is.
//! * An open item's handle stands for it at its source, and for nothing else; so does the token of one that was asked for.
//! * Only watchers that have had an image, and are not paused, take part in updates, and only while their item is open.
//! * Nobody takes part in updates of an item that may rest at its provider, and its image is not cached.
//! * A watcher that waits waits for something: a service, room, a time, or an image that was asked for.
//! * An open item has watchers, or stays open for a while without: it is whole then, and no more of them stay than their limit soon.
//! * What is held for a client goes out before what comes behind it; no more waits for a client than its limit.
//! * What is counted is there.

use super::P2ps;
use super::ids::{ItemId, SourceId};
use super::items::state::{State, Wait};
use super::items::watchers::Watcher;
use hub_items::priorities::Priorities;
use rustc_hash::FxHashSet;
use rwf::msg::Priority;

/// Items looked at in each turn of a debug build, so that worlds of a million items are not looked at as a whole each time.
const SHARE: u32 = 64;
/// Watchers of one item looked at in each turn of a debug build.
const WATCHERS: usize = 256;

impl P2ps {
    /// Panics if anything is not as it has to be at the end of a turn. Takes as long as there are items and watchers: for tests and
    /// simulations.
    ///
    /// # Panics
    /// An invariant is broken: a fault of this program.
    pub fn check_invariants(&self) {
        let mut watchers = 0;
        for id in self.items.all_ids() {
            self.check_item(id, usize::MAX);
            watchers += self.items.watchers(id).len() as u64;
        }
        assert_eq!(watchers, self.counters.watchers, "watchers counted");
        self.items.check_tables();
        let items: u64 = self.clients.iter().map(|(_, client)| u64::from(client.items)).sum();
        assert_eq!(items, watchers, "items counted by clients");
        let clients = self.clients.iter().filter(|(_, client)| !client.is_gone).count();
        assert_eq!(clients as u64, self.counters.clients, "clients counted");
        self.check_priorities();
        self.clients.check_leaving();
        self.clients.check();
        let has_interval = |view| self.items.get(view).is_view() && self.items.interval_of(view) > 0;
        self.output.check(|id| self.items.get(id).is_live(), has_interval);
        self.gate.check(watchers, |id| self.items.get(id).is_live());
        self.check_sources();
        self.check_mirrors();
        self.sources.check_order();
        self.check_load();
        self.sources.check();
        let queued: FxHashSet<ItemId> =
            self.sources.services().iter().flat_map(|service| service.queue().iter()).collect();
        for id in self.items.ids() {
            let item = self.items.get(id);
            assert!(!item.is_queued() || queued.contains(&id), "{id:?} is in no queue: {item:?}");
        }
    }

    fn check_priorities(&self) {
        let mut priorities = Priorities::default();
        for (id, client) in self.clients.iter() {
            for (&stream, &priority) in &client.priorities {
                let item = client.streams.item(stream);
                let root = self.items.root(item.unwrap_or_else(|| panic!("{id:?} has a priority of {stream:?}")));
                priorities.replace(root, Priority::default(), priority);
            }
        }
        self.items.check_priorities(&priorities);
    }

    fn check_sources(&self) {
        for (number, source) in self.sources.iter() {
            if self.sources.is_losing(number) {
                continue;
            }
            let of_source = |&&id: &&ItemId| self.items.get(id).source() == Some(number);
            let ids: Vec<ItemId> = self.items.ids().collect();
            let open = ids.iter().filter(of_source).filter(|&&id| self.items.get(id).is_open()).count();
            let opening = ids.iter().filter(of_source).count() - open;
            let (mirrored, asked) = self.mirrors_at(number);
            let expected = (open + mirrored, opening + asked + source.forsaken());
            assert_eq!(expected, (source.bound(), source.opening()), "open and opening at {number:?}");
        }
    }

    /// A share of the checks, by turns.
    pub(super) fn check_share(&mut self) {
        let count = self.items.all_ids().count() as u32;
        for at in 0..SHARE.min(count) {
            self.check_item(ItemId((self.check_from.wrapping_add(at)) % count), WATCHERS);
        }
        self.check_from = self.check_from.wrapping_add(SHARE);
    }

    fn check_item(&self, id: ItemId, most: usize) {
        self.items.check_item(id);
        let (item, watchers) = (self.items.get(id), self.items.watchers(id));
        if watchers.len() <= most {
            let rests = |&&watcher: &&Watcher| self.clients.watch(watcher).is_some_and(|(_, watch)| watch.rests());
            assert_eq!(
                watchers.all().iter().filter(rests).count(),
                self.items.resting(id) as usize,
                "paused at {id:?}"
            );
        }
        for (place, &watcher) in (0..).zip(watchers.all()).take(most) {
            let known = self.clients.get(watcher.client).and_then(|client| client.streams.item(watcher.stream));
            assert_eq!(known, Some(id), "{watcher:?} watches {id:?}");
            let watch = self.clients.watch(watcher);
            assert_eq!(watch.map(|(place, _)| place), Some(place), "place of {watcher:?} at {id:?}");
            if let Some((_, watch)) = watch {
                watch.check(watchers.is_open(place));
                assert_eq!(watch.is_idle(), watchers.is_idle(place), "{watcher:?} of {id:?} is idle: {watch:?}");
            }
        }
        if !item.is_view() && self.items.may_rest(id) {
            let is_open = |&id: &ItemId| self.items.watchers(id).open_count() > 0;
            let open = [id].iter().chain(self.items.views_of(id)).any(is_open);
            assert!(!open, "{id:?} may rest, and somebody waits for its updates: {item:?}");
            assert!(!self.items.is_cached(id), "{id:?} may rest, and is cached: {item:?}");
        }
        match item.state() {
            // Items that the source served look as before until a turn tells of it.
            State::Open { source, .. } | State::Opening { source, .. } if self.sources.is_losing(source) => {}
            State::Open { source, handle, .. } => {
                let at = self.sources.up(source).map(|source| source.item(handle));
                assert_eq!(at, Some(id), "{handle:?} at {source:?}: {item:?}");
                self.check_waits_for_image(id, source);
            }
            State::Opening { source, token, .. } => {
                let at = self.sources.up(source).and_then(|source| source.token(token));
                assert_eq!(at, Some(id), "{token:?} at {source:?}: {item:?}");
            }
            State::Waiting(Wait::Parked) => {
                let parked =
                    self.sources.concerns(item.service()) || self.sources.provider_of(&self.items, id).is_none();
                assert!(parked || !self.is_waited_for(id), "{id:?} waits for nothing: {item:?}");
            }
            State::Waiting(_) | State::View { .. } | State::Free => {}
        }
    }

    fn check_waits_for_image(&self, id: ItemId, source: SourceId) {
        let item = self.items.get(id);
        let comes = item.is_image_asked() || item.is_image_arriving() || item.is_refresh_queued();
        let waits = |&id: &ItemId| {
            let held = self.items.watchers(id).waiting();
            held.iter().copied().find(|&watcher: &Watcher| self.clients.waits(watcher))
        };
        let waiting = [id].iter().chain(self.items.views_of(id)).find_map(waits);
        assert!(comes || waiting.is_none(), "{waiting:?} waits for no image of {id:?} at {source:?}: {item:?}");
    }
}
