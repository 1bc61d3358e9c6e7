//! Items: one for each stream that clients share towards a Source Distributor.
//!
//! * `state`: the states of an item and the transitions between them;
//! * `telling`: to whom a state is told, and as what;
//! * `watchers`: who watches an item;
//! * `views`: items seen through a subset of their fields;
//! * `pending_images`: what is held for images that come by another way than updates;
//! * `relayed_payload`: what the first watcher asked the provider for beside a view.

pub(crate) mod pending_images;
pub(crate) mod relayed_payload;
pub(crate) mod state;
pub(crate) mod telling;
pub(crate) mod view_spec;
pub(crate) mod views;
pub(crate) mod watchers;

use super::ids::{Handle, HubGroup, ItemId, ServiceId, SourceId, Token};
use crate::cache::images::Cache;
use crate::hash_seed::HashSeed;
use crate::item::{HashedKey, ItemHash, ItemKey};
use crate::roster::Roster;
use hub_items::item_index::ItemIndex;
use hub_items::priorities::Priorities;
use hub_items::unwatched::Unwatched;
use pending_images::PendingImages;
use relayed_payload::RelayedPayload;
use rustc_hash::FxHashMap;
use rwf::msg::Priority;
use rwf::{DataState, State, StreamState};
use state::{Filing, Item, Kind, Standing, Trouble};
use telling::Pending;
use views::{ViewedItem, Views};
use watchers::Watchers;

/// Item numbers stay below this: the ones above mark mirrors, and streams of other kinds.
pub(crate) const MAX_ITEMS: u32 = ItemId::MIRROR - 16;

/// All items that someone watches, that a Source Distributor has yet to answer for, or that stay open for who comes back.
#[derive(Debug, Default)]
pub(crate) struct Items {
    /// By item number: the half that the fan-out needs.
    watchers: Vec<Watchers>,
    /// By item number: the rest.
    cold: Vec<Item>,
    /// Numbers of watchers that their clients have paused, of items that have such.
    resting: FxHashMap<ItemId, u32>,
    priorities: Priorities<ItemId>,
    /// Open items that nobody watches, and that stay open for a while.
    unwatched: Unwatched<ItemId>,
    free: Vec<ItemId>,
    index: ItemIndex<ItemId>,
    /// Of the index: clients choose its keys.
    seed: HashSeed,
    /// All views that are in use.
    views: Views,
    /// Knowledge of items that are seen through views, or were; each by itself, so that the table is moved quickly when it grows.
    viewed: FxHashMap<ItemId, Box<ViewedItem>>,
    /// The rest of the first watcher's request, beside a view. Few items have that.
    relayed: FxHashMap<ItemId, RelayedPayload>,
    /// Positions in the stream of an item's source at which, and before which, an image is of no use: it would go back in time for
    /// those that wait.
    barred: Barred,
    pending: PendingImages,
    /// The images of items that are marked so at their watchers.
    cache: Cache,
    rosters: Rosters,
    /// Room for a key in canonical bytes, used again and again.
    key: Vec<u8>,
}

/// Positions up to which images are of no use, by item number. Over a network each image that comes by the stream sets one, so that nearly all items have one
/// there; in one process there is none, and no table.
#[derive(Debug, Default)]
struct Barred {
    /// One more than the position; 0 for none.
    ends: Vec<u64>,
}

impl Barred {
    #[inline]
    fn get(&self, id: ItemId) -> Option<u64> {
        self.ends.get(id.index()).and_then(|end| end.checked_sub(1))
    }

    /// No image up to this position is of use, nor up to the one that was known.
    #[inline]
    fn raise(&mut self, id: ItemId, position: u64) {
        if self.ends.len() <= id.index() {
            self.ends.resize(id.index() + 1, 0);
        }
        let end = &mut self.ends[id.index()];
        *end = position.saturating_add(1).max(*end);
    }

    #[inline]
    fn clear(&mut self, id: ItemId) {
        if let Some(end) = self.ends.get_mut(id.index()) {
            *end = 0;
        }
    }
}

/// The items by what concerns many of them at once. Updates have nothing to do with these lists.
#[derive(Debug)]
struct Rosters {
    /// By service and standing.
    homes: Roster,
    /// By source and group: Source Distributors choose the numbers of groups.
    groups: Roster<HashSeed>,
    /// By service.
    apart: Roster,
    /// How many there are of each service that are suspect.
    suspects: FxHashMap<ServiceId, u32>,
}

impl Rosters {
    fn new(seed: HashSeed) -> Self {
        Self {
            homes: Roster::default(),
            groups: Roster::with_hasher(seed),
            apart: Roster::default(),
            suspects: FxHashMap::default(),
        }
    }

    #[inline]
    fn refile(&mut self, id: ItemId, from: Filing, to: Filing) {
        self.homes.refile(id.0, from.home, to.home);
        self.groups.refile(id.0, from.group, to.group);
        self.apart.refile(id.0, from.apart, to.apart);
        if from.suspect != to.suspect {
            self.count_suspect(from.suspect, to.suspect);
        }
    }
}

impl Rosters {
    fn count_suspect(&mut self, from: Option<ServiceId>, to: Option<ServiceId>) {
        // An item that was not suspect was in no count.
        if let Some(service) = to {
            *self.suspects.entry(service).or_default() += 1;
        }
        let Some(service) = from else { return };
        let left = self.suspects.get_mut(&service).map(|count| {
            *count -= 1;
            *count
        });
        debug_assert!(left.is_some(), "one of {service:?} is suspect no more, and none was");
        if left == Some(0) {
            self.suspects.remove(&service);
        }
    }
}

impl Default for Rosters {
    fn default() -> Self {
        Self::new(HashSeed::default())
    }
}

impl Items {
    /// No items yet; the index is keyed with `seed`, and the images of some are cached.
    pub(crate) fn new(seed: HashSeed, cache: Cache) -> Self {
        Self { seed, cache, rosters: Rosters::new(seed), ..Self::default() }
    }

    /// The item that a request is for, and whether it is a new one; `None` without room for one. A snapshot joins an item that streams; else
    /// it has an item of its own, shared with others that come before its image. No item has more than `most` watchers.
    pub(crate) fn find_or_insert(
        &mut self,
        service: ServiceId,
        kind: Kind,
        item_key: &ItemKey<'_>,
        most: usize,
    ) -> Option<(ItemId, bool)> {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        item_key.write(&mut key);
        let hash = self.hash(service, &key);
        let mut found = None;
        if !kind.is_private() {
            let find = |snapshot| self.find_hashed(hash, service, &key, snapshot);
            let streaming = find(false);
            let snapshot = || if kind.snapshot { find(true) } else { None };
            let has_room = |&id: &ItemId| self.watchers(id).len() < most;
            found = streaming.or_else(snapshot).filter(has_room).map(|id| (id, false));
        }
        let item = found.or_else(|| self.insert_hashed(hash, service, &key, kind).map(|id| (id, true)));
        self.key = key;
        item
    }

    pub(crate) fn get(&self, id: ItemId) -> &Item {
        &self.cold[id.index()]
    }

    /// An item, for a transition that leaves it on the lists that it is on.
    pub(crate) fn get_mut(&mut self, id: ItemId) -> &mut Item {
        &mut self.cold[id.index()]
    }

    #[inline]
    pub(crate) fn watchers(&self, id: ItemId) -> &Watchers {
        &self.watchers[id.index()]
    }

    /// Asks for the memory in which the watchers of an item are, or where they are.
    pub(crate) fn ask(&self, id: ItemId) {
        lines::fetch(&[self.watchers.as_ptr().wrapping_add(id.index()).cast()]);
    }

    pub(crate) fn watchers_mut(&mut self, id: ItemId) -> &mut Watchers {
        &mut self.watchers[id.index()]
    }

    /// One watcher of an item more (true) or less is paused by its client: to be told with each that comes, goes or changes, so that nobody
    /// has to look at all of them to know whether all are.
    pub(crate) fn note_rest(&mut self, id: ItemId, rests: bool) {
        let resting = self.resting.entry(id).or_default();
        debug_assert!(rests || *resting > 0, "one goes on that did not rest");
        *resting = if rests { *resting + 1 } else { resting.saturating_sub(1) };
        if *resting == 0 {
            self.resting.remove(&id);
        }
    }

    /// Number of an item's watchers that their clients have paused.
    pub(crate) fn resting(&self, id: ItemId) -> u32 {
        self.resting.get(&id).copied().unwrap_or(0)
    }

    /// True if an item has no watcher that its client has not paused.
    pub(crate) fn all_rest(&self, id: ItemId) -> bool {
        self.resting(id) as usize == self.watchers(id).len()
    }

    /// A watcher asks for another priority than before; the usual one is that of watchers that come and of those that go.
    pub(crate) fn replace_priority(&mut self, id: ItemId, before: Priority, after: Priority) {
        self.priorities.replace(self.root(id), before, after);
    }

    /// The priority that all watchers of an item and of its views ask for together: see [`Priorities::wanted`].
    pub(crate) fn wanted_priority(&self, root: ItemId) -> Priority {
        let watchers = |&id: &ItemId| self.watchers(id).len() as u64;
        self.priorities.wanted(root, || [root].iter().chain(self.views_of(root)).map(watchers).sum())
    }

    /// Panics if these are not the priorities that are counted.
    pub(crate) fn check_priorities(&self, expected: &Priorities<ItemId>) {
        assert_eq!(&self.priorities, expected, "priorities that are asked for");
    }

    /// Updates held for images that come by another way.
    pub(crate) const fn pending(&self) -> &PendingImages {
        &self.pending
    }

    /// The same, to be changed.
    pub(crate) fn pending_mut(&mut self) -> &mut PendingImages {
        &mut self.pending
    }

    /// Items in use.
    pub(crate) fn len(&self) -> usize {
        self.cold.len() - self.free.len()
    }

    /// Numbers of all items, those included that are free.
    pub(crate) fn all_ids(&self) -> impl Iterator<Item = ItemId> + use<> {
        (0..self.numbers()).map(ItemId)
    }

    /// Numbers that were given out, whether or not in use.
    pub(crate) fn numbers(&self) -> u32 {
        self.cold.len() as u32
    }

    /// Numbers of the items in use.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ItemId> + '_ {
        self.all_ids().filter(|&id| self.get(id).is_live())
    }

    /// The hash of an item's service and key.
    pub(crate) fn hash(&self, service: ServiceId, key: &[u8]) -> ItemHash {
        ItemHash::new(self.seed, service.0, key)
    }

    /// The shared item with this key; snapshots have items of their own.
    pub(crate) fn find_hashed(&self, hash: ItemHash, service: ServiceId, key: &[u8], snapshot: bool) -> Option<ItemId> {
        let same = |&id: &ItemId| {
            let item = self.get(id);
            item.is_snapshot() == snapshot && item.service() == service && item.hashed_key().is(hash, key)
        };
        self.index.find(hash, same)
    }

    /// A new item without watchers, which waits; `None` if there is no number left.
    pub(crate) fn insert_hashed(
        &mut self,
        hash: ItemHash,
        service: ServiceId,
        key: &[u8],
        kind: Kind,
    ) -> Option<ItemId> {
        let item = Item::waiting(service, HashedKey::new(hash, key), kind);
        let indexed = item.is_indexed();
        let id = self.place(item)?;
        if indexed {
            let Self { index, cold, .. } = self;
            let hash_of = |id: ItemId| cold[id.index()].hashed_key().hash().expect("an item in the index has a key");
            index.insert(hash, id, hash_of);
        }
        Some(id)
    }

    fn place(&mut self, item: Item) -> Option<ItemId> {
        if let Some(id) = self.free.pop() {
            debug_assert!(!self.get(id).is_live() && self.watchers(id).is_empty(), "a free number is in use");
            self.rosters.refile(id, Filing::default(), item.filing());
            self.cold[id.index()] = item;
            return Some(id);
        }
        let id = self.cold.len() as u32;
        if id >= MAX_ITEMS {
            return None;
        }
        self.rosters.refile(ItemId(id), Filing::default(), item.filing());
        self.cold.push(item);
        self.watchers.push(Watchers::default());
        Some(ItemId(id))
    }

    /// Takes an item out of the index: whoever asks next gets another one.
    pub(crate) fn unlist(&mut self, id: ItemId) {
        // A view has no key, and is in no index.
        let Some(hash) = self.get(id).hashed_key().hash() else { return };
        self.index.remove(hash, id);
    }

    /// Frees an item that has neither watchers nor views.
    pub(crate) fn remove(&mut self, id: ItemId) {
        debug_assert!(self.watchers(id).is_empty() && self.resting(id) == 0, "someone watches it");
        debug_assert!(!self.priorities.has(id), "nobody asks for a priority of it");
        debug_assert!(self.views_of(id).is_empty(), "someone watches a view of it");
        self.unlist(id);
        self.pending.forget(id);
        self.barred.clear(id);
        self.unwatched.remove(id);
        self.relayed.remove(&id);
        self.viewed.remove(&id);
        self.cache.remove(id.0);
        self.watchers[id.index()] = Watchers::default();
        self.change(id, Item::free);
        self.free.push(id);
    }

    /// The key of an item, which its views share.
    pub(crate) fn key(&self, id: ItemId) -> ItemKey<'_> {
        self.get(self.root(id)).key()
    }

    /// The item whose stream to a Source Distributor serves this one: itself, or the one it is a view of.
    pub(crate) fn root(&self, id: ItemId) -> ItemId {
        self.get(id).parent().unwrap_or(id)
    }

    /// Views of an item that someone watches.
    pub(crate) fn views_of(&self, id: ItemId) -> &[ItemId] {
        if !self.watchers(id).has_views() {
            return &[];
        }
        self.viewed.get(&id).map_or(&[], |viewed| viewed.views())
    }

    /// True if someone watches an item, directly or through a view.
    pub(crate) fn is_watched(&self, id: ItemId) -> bool {
        let watchers = self.watchers(id);
        !watchers.is_empty() || watchers.has_views()
    }

    /// Items that stay open though nobody watches them.
    pub(crate) const fn unwatched(&self) -> &Unwatched<ItemId> {
        &self.unwatched
    }

    /// The same, to be changed.
    pub(crate) const fn unwatched_mut(&mut self) -> &mut Unwatched<ItemId> {
        &mut self.unwatched
    }

    /// What its first watcher asked the provider for beside a view.
    pub(crate) fn relayed(&self, id: ItemId) -> Option<&RelayedPayload> {
        self.relayed.get(&id)
    }

    /// Notes what the first watcher of an item asks the provider for.
    pub(crate) fn set_relayed(&mut self, id: ItemId, relayed: Option<RelayedPayload>) {
        debug_assert!(self.get(id).is_waiting(), "what an open item was asked for with does not change");
        self.relayed.extend(relayed.map(|relayed| (id, relayed)));
    }

    /// The Source Distributor that serves an item, or serves what it is a view of.
    pub(crate) fn open_at(&self, id: ItemId) -> Option<(SourceId, Handle)> {
        self.get(id).open_at()
    }

    /// Ends an item's bond with its source. Its watchers wait for an image: what follows under another handle does not go on from what
    /// they have.
    pub(crate) fn detach(&mut self, id: ItemId) {
        self.hold_all(id);
        self.pending.forget(id);
        self.barred.clear(id);
        if let Some(viewed) = self.viewed.get_mut(&id) {
            viewed.forget_reissue();
        }
        self.cache.lose(id.0);
        self.change(id, Item::detach);
    }

    /// Messages of an open item were lost: its watchers wait for another image.
    pub(crate) fn lose_messages(&mut self, id: ItemId) {
        self.hold_all(id);
        self.cache.lose(id.0);
        self.image_lost(id);
    }

    /// An open item goes on at another source, which has it open under this handle and was asked for everything: with the next update
    /// or with an image that is to be asked for.
    pub(crate) fn take_over(&mut self, id: ItemId, (source, handle): (SourceId, Handle), in_sequence: bool) {
        if !in_sequence {
            self.hold_all(id);
            self.cache.lose(id.0);
        }
        self.pending.forget(id);
        self.barred.clear(id);
        self.clear_widening(id);
        self.change(id, |item| item.take_over(source, handle, in_sequence));
    }

    /// The images that are held.
    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(crate) fn cache_mut(&mut self) -> &mut Cache {
        &mut self.cache
    }

    /// True if an item's image is cached.
    pub(crate) fn is_cached(&self, id: ItemId) -> bool {
        self.watchers(id).is_cached()
    }

    /// The image of an item is cached from now on; true if another item is not cached any more, because there was no room.
    pub(crate) fn cache_item(&mut self, id: ItemId) -> bool {
        debug_assert!(!self.get(id).is_view() && !self.get(id).is_private() && !self.get(id).is_snapshot());
        let victim = self.cache.add(id.0);
        if let Some(victim) = victim {
            self.watchers_mut(ItemId(victim)).mark_cached(false);
        }
        self.watchers_mut(id).mark_cached(true);
        victim.is_some()
    }

    /// Takes the watchers of an item, and of its views, out of the updates until they have an image.
    pub(crate) fn hold_all(&mut self, id: ItemId) {
        let Self { watchers, viewed, .. } = self;
        let has_views = watchers[id.index()].has_views();
        watchers[id.index()].hold_all();
        let views = viewed.get(&id).filter(|_| has_views).map_or(&[][..], |viewed| viewed.views());
        for view in views {
            watchers[view.index()].hold_all();
        }
    }

    /// No image that belongs at this position or before it is of use to those that wait.
    pub(crate) fn bar_images(&mut self, id: ItemId, position: u64) {
        debug_assert!(self.get(id).is_open(), "images of an item that is not open");
        self.barred.raise(id, position);
    }

    /// An image that is of use has begun.
    pub(crate) fn unbar_images(&mut self, id: ItemId) {
        self.barred.clear(id);
    }

    /// True if an image at this position would go back in time.
    pub(crate) fn is_barred(&self, id: ItemId, position: u64) -> bool {
        self.barred.get(id).is_some_and(|barred| barred >= position)
    }

    /// True if some open watcher of an item, or of a view of it, may have asked for an image.
    pub(crate) fn is_asked_by_open(&self, id: ItemId) -> bool {
        let asked = |&id: &ItemId| self.watchers(id).is_asked_by_open();
        asked(&id) || self.views_of(id).iter().any(asked)
    }

    /// No open watcher of an item, or of a view of it, has asked for an image.
    pub(crate) fn nobody_open_has_asked(&mut self, id: ItemId) {
        for id in [id].into_iter().chain(self.views_of(id).to_vec()) {
            self.watchers_mut(id).mark_asked(false);
        }
    }

    /// True if an item, or one of its views, waits for more than was asked for at first.
    pub(crate) fn is_widening(&self, id: ItemId) -> bool {
        let widening = |&id: &ItemId| self.get(id).awaits_wider();
        widening(&id) || self.views_of(id).iter().any(widening)
    }

    /// The group of an item, as the numbers of its source say.
    pub(crate) fn set_group(&mut self, id: ItemId, group: HubGroup) -> bool {
        self.change(id, |item| item.set_group(group))
    }

    /// Panics if what is known of an item does not fit together.
    pub(crate) fn check_item(&self, id: ItemId) {
        let (item, watchers) = (self.get(id), self.watchers(id));
        item.check();
        let Filing { home, group, apart, suspect: _ } = item.filing();
        if let Some(key) = home {
            self.rosters.homes.check(id.0, key);
        }
        if let Some(key) = group {
            self.rosters.groups.check(id.0, key);
        }
        if let Some(key) = apart {
            self.rosters.apart.check(id.0, key);
        }
        let views = self.views_of(id);
        assert_eq!(watchers.has_views(), !views.is_empty(), "views of {id:?}");
        assert!(item.is_open() || self.barred.get(id).is_none(), "images of {id:?} are barred: {item:?}");
        assert!(item.is_open() || !self.pending.holds_for(id), "held for the image of {id:?}: {item:?}");
        if !item.is_live() {
            assert!(watchers.is_empty() && views.is_empty(), "a free item is watched: {id:?}");
            assert!(!self.viewed.contains_key(&id) && !self.relayed.contains_key(&id), "left of {id:?}");
        }
        assert_eq!(watchers.is_cached(), self.cache.has(id.0), "{id:?} is cached: {item:?}");
        assert!(!watchers.is_cached() || !item.is_view() && item.is_live(), "cached: {item:?}");
        if let Some(parent) = item.parent() {
            assert!(!self.get(parent).is_view() && self.get(parent).is_live(), "{id:?} is a view of {parent:?}");
            assert!(self.views_of(parent).contains(&id), "{parent:?} does not know its view {id:?}");
            assert!(!watchers.is_empty() && views.is_empty(), "a view that nobody watches: {id:?}");
            assert!(self.get(parent).is_open() || watchers.open_count() == 0, "updates of a view: {id:?}");
        } else if !item.is_open() {
            assert_eq!(watchers.open_count(), 0, "updates for watchers of {id:?}: {item:?}");
        }
        let stays = self.unwatched.contains(id);
        if item.is_waiting() || item.is_open() {
            assert!(self.is_watched(id) != stays, "nobody watches {id:?}, or it stays with watchers: {item:?}");
        }
        assert!(!stays || item.is_open() && !self.may_rest(id), "stays though nobody watches it: {item:?}");
        for &view in views {
            assert_eq!(self.get(view).parent(), Some(id), "parent of {view:?}");
        }
    }

    /// Panics if the tables do not fit together. As long as all items.
    pub(crate) fn check_tables(&self) {
        self.pending.check();
        self.unwatched.check();
        self.cache.check();
        assert_eq!(self.len(), self.ids().count(), "items in use");
        let filings = || self.ids().map(|id| self.get(id).filing());
        let listed = (self.rosters.homes.len(), self.rosters.groups.len(), self.rosters.apart.len());
        let counted = |of: fn(&Filing) -> bool| filings().filter(of).count();
        let expected = (counted(|f| f.home.is_some()), counted(|f| f.group.is_some()), counted(|f| f.apart.is_some()));
        assert_eq!(listed, expected, "items on the lists of services, of groups, and of those that are apart");
        let mut suspects: FxHashMap<ServiceId, u32> = FxHashMap::default();
        filings().filter_map(|filing| filing.suspect).for_each(|of| *suspects.entry(of).or_default() += 1);
        assert_eq!(suspects, self.rosters.suspects, "items that are suspect");
        let mut counted = 0;
        for (&id, viewed) in &self.viewed {
            viewed.check(|view| self.get(view).view_id().map(|view| self.views.spec(view)));
            counted += viewed.counted();
            assert!(self.get(id).is_live(), "{id:?} was seen through views, and is free");
        }
        assert_eq!(counted, self.views.counted(), "fields that are counted");
    }

    pub(crate) fn begin_set(&mut self, id: ItemId, answers: bool, whole: bool) {
        self.image_begins(id, answers, whole);
        if self.get(id).is_snapshot() {
            // A client that comes later gets a snapshot of its own.
            self.unlist(id);
        }
    }

    /// An item is as its watchers are told now.
    pub(crate) fn note_state(&mut self, id: ItemId, state: State<'_>, pending: Pending) {
        if pending != Pending::Alone {
            self.told(id, state.data);
            self.cache_mut().set_state(id.0, &state);
        }
        let item = self.get_mut(id);
        if item.is_open() {
            // The data state of an item that is served is no reason to wait for its image.
            item.set_trouble(match (state.stream, item.trouble()) {
                (StreamState::CLOSED_RECOVER, _) => Trouble::Lost,
                (_, Trouble::None) if pending == Pending::Alone => Trouble::Unanswered,
                (_, known) => known,
            });
        }
    }

    pub(crate) fn live_item(&self, number: u32) -> Option<ItemId> {
        let id = ItemId(number);
        (number < self.numbers() && self.get(id).is_live()).then_some(id)
    }

    /// A view is as the item that it is of.
    pub(crate) fn is_suspect(&self, id: ItemId) -> bool {
        self.get(self.root(id)).is_suspect()
    }

    /// True if all who watch an item, or a view of it, are paused: it is to rest at its provider too (RDM usage guide, pause and
    /// resume). A cached image needs every update, a snapshot has none.
    pub(crate) fn wants_pause(&self, root: ItemId) -> bool {
        let item = self.get(root);
        if item.is_snapshot() || self.is_cached(root) || !self.is_watched(root) {
            return false;
        }
        [root].iter().chain(self.views_of(root)).all(|&id| self.all_rest(id))
    }

    /// Whether the watchers of an item ask for another priority together than its last request did.
    pub(crate) fn wants_other_priority(&self, root: ItemId) -> bool {
        self.wanted_priority(root) != self.get(root).priority()
    }
}

/// Transitions that put an item on other lists, as [`state`] describes them.
impl Items {
    /// A transition of an item; keeps the lists in step with it.
    fn change<T>(&mut self, id: ItemId, transition: impl FnOnce(&mut Item) -> T) -> T {
        let item = &mut self.cold[id.index()];
        let before = item.filing();
        let result = transition(item);
        let after = item.filing();
        self.rosters.refile(id, before, after);
        result
    }

    /// See [`Item::queue`].
    pub(crate) fn queue(&mut self, id: ItemId) -> bool {
        self.change(id, Item::queue)
    }

    /// See [`Item::park`].
    pub(crate) fn park(&mut self, id: ItemId) {
        self.change(id, Item::park);
    }

    /// See [`Item::retry_later`].
    pub(crate) fn retry_later(&mut self, id: ItemId) -> Option<u8> {
        self.change(id, Item::retry_later)
    }

    /// See [`Item::end_pause`].
    pub(crate) fn end_pause(&mut self, id: ItemId) -> bool {
        self.change(id, Item::end_pause)
    }

    /// See [`Item::asked`].
    pub(crate) fn asked(&mut self, id: ItemId, source: SourceId, token: Token) {
        self.change(id, |item| item.asked(source, token));
    }

    /// See [`Item::opened`].
    pub(crate) fn opened(&mut self, id: ItemId, handle: Handle) {
        self.change(id, |item| item.opened(handle));
    }

    /// See [`Item::image_lost`].
    pub(crate) fn image_lost(&mut self, id: ItemId) {
        self.change(id, Item::image_lost);
    }

    /// See [`Item::image_begins`].
    pub(crate) fn image_begins(&mut self, id: ItemId, answers: bool, whole: bool) {
        self.change(id, |item| item.image_begins(answers, whole));
    }

    /// See [`Item::recover`].
    pub(crate) fn recover(&mut self, id: ItemId) {
        self.change(id, Item::recover);
    }

    /// See [`Item::set_regrouped`].
    pub(crate) fn set_regrouped(&mut self, id: ItemId, regrouped: bool) {
        self.change(id, |item| item.set_regrouped(regrouped));
    }

    /// The items of a service that stand there, in no order; no views.
    pub(crate) fn standing(
        &self,
        service: ServiceId,
        standing: Standing,
    ) -> impl DoubleEndedIterator<Item = ItemId> + '_ {
        self.rosters.homes.of(standing.list(service)).iter().copied().map(ItemId)
    }

    /// Number of items of a service that stand there.
    pub(crate) fn count_standing(&self, service: ServiceId, standing: Standing) -> usize {
        self.rosters.homes.of(standing.list(service)).len()
    }

    /// Number of items of a service whose watchers were told that they are suspect, and nothing good since.
    pub(crate) fn count_suspect(&self, service: ServiceId) -> u32 {
        self.rosters.suspects.get(&service).copied().unwrap_or(0)
    }

    /// See [`Item::told`].
    pub(crate) fn told(&mut self, id: ItemId, data: DataState) {
        self.change(id, |item| item.told(data));
    }

    /// The open items of a group, in no order.
    pub(crate) fn in_group(&self, source: SourceId, group: HubGroup) -> impl Iterator<Item = ItemId> + '_ {
        self.rosters.groups.of(group.list(source)).iter().copied().map(ItemId)
    }

    /// The items of a service that are not back since a loss, or have changed their group.
    pub(crate) fn apart(&self, service: ServiceId) -> impl DoubleEndedIterator<Item = ItemId> + '_ {
        self.rosters.apart.of(service.list()).iter().copied().map(ItemId)
    }
}

#[cfg(test)]
mod tests {
    use super::state::{Kind, Sharing};
    use super::{ItemId, Items, ServiceId};

    impl Items {
        fn find(&self, service: ServiceId, key: &[u8], snapshot: bool) -> Option<ItemId> {
            self.find_hashed(self.hash(service, key), service, key, snapshot)
        }

        /// See [`Self::insert_hashed`].
        pub(crate) fn insert(&mut self, service: ServiceId, key: &[u8], kind: Kind) -> Option<ItemId> {
            self.insert_hashed(self.hash(service, key), service, key, kind)
        }
    }

    #[test]
    fn numbers_are_reused_and_keys_found() {
        let mut items = Items::default();
        let (one, two) = (ServiceId(1), ServiceId(2));
        let a = items.insert(one, b"a", Kind::SHARED).unwrap();
        let b = items.insert(one, b"b", Kind::SHARED).unwrap();
        let snapshot = items.insert(one, b"a", Kind { snapshot: true, ..Kind::SHARED }).unwrap();
        let private = items.insert(one, b"c", Kind { sharing: Sharing::Private, snapshot: false }).unwrap();
        assert_eq!(items.find(one, b"a", false), Some(a));
        assert_eq!(items.find(one, b"a", true), Some(snapshot));
        assert_eq!(items.find(two, b"a", false), None);
        assert_eq!(items.find(one, b"c", false), None);
        items.unlist(snapshot);
        assert_eq!(items.find(one, b"a", true), None);
        items.remove(a);
        assert_eq!(items.find(one, b"a", false), None);
        assert_eq!(items.insert(one, b"d", Kind::SHARED), Some(a));
        assert_eq!(items.find(one, b"b", false), Some(b));
        assert_eq!(items.ids().collect::<Vec<_>>(), [a, b, snapshot, private]);
        assert_eq!(items.len(), 4);
    }
}
