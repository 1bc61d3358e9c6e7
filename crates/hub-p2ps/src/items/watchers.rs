//! The watchers of one item: eight bytes each, contiguous, those that get updates in front.

use crate::ids::{ClientId, StreamId};

/// One client's interest in an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watcher {
    pub(crate) client: ClientId,
    /// Stream by which the client knows the item.
    pub(crate) stream: StreamId,
}

const NOBODY: Watcher = Watcher { client: ClientId(u32::MAX), stream: StreamId(0) };

/// Up to two watchers lie in the item itself: most items of a large watchlist have one.
#[derive(Debug)]
enum Store {
    Inline([Watcher; 2]),
    Heap(Vec<Watcher>),
}

/// The watchers of an item, in three stretches. The first [`Self::open_count`] are *open*: they get every update. The others are *held*:
/// those in front *wait* for an image, or for the rest of one; the last ones are *idle*: paused, and there is nothing that they are to
/// get. Neither an update nor an image looks at those that are idle, however many a client has.
///
/// A watcher's place changes when others come and go; every change of a place is told to the `moved` callback, so that
/// the client's stream table always knows it.
#[derive(Debug)]
pub(crate) struct Watchers {
    store: Store,
    open: u32,
    /// Number of those that are idle.
    idle: [u8; 3],
    /// Number of those that lie inline, and what is marked.
    marks: u8,
}

/// Bits of [`Watchers::marks`]: the number of those that lie inline in the low two.
const INLINE: u8 = 3;
/// The item has views on it: see [`Watchers::mark_views`].
const VIEWS: u8 = 1 << 2;
/// Some open watcher may have asked for an image: see [`Watchers::mark_asked`].
const ASKED_BY_OPEN: u8 = 1 << 3;
/// The item's image is cached: see [`Watchers::mark_cached`].
const CACHED: u8 = 1 << 4;
/// Updates are looked at before they go on: see [`Watchers::mark_paired`].
const PAIRED: u8 = 1 << 5;
/// Updates are headlines: see [`Watchers::mark_headlines`].
const HEADLINES: u8 = 1 << 6;

impl Default for Watchers {
    fn default() -> Self {
        Self { store: Store::Inline([NOBODY; 2]), open: 0, idle: [0; 3], marks: 0 }
    }
}

impl Watchers {
    /// All of them, the open ones first.
    #[inline]
    pub(crate) fn all(&self) -> &[Watcher] {
        match &self.store {
            Store::Inline(watchers) => &watchers[..self.inline().min(2)],
            Store::Heap(watchers) => watchers,
        }
    }

    #[inline]
    const fn inline(&self) -> usize {
        (self.marks & INLINE) as usize
    }

    const fn mark(&mut self, mark: u8, is_so: bool) {
        self.marks = if is_so { self.marks | mark } else { self.marks & !mark };
    }

    #[inline]
    const fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    #[inline]
    fn all_mut(&mut self) -> &mut [Watcher] {
        let inline = self.inline();
        match &mut self.store {
            Store::Inline(watchers) => &mut watchers[..inline.min(2)],
            Store::Heap(watchers) => watchers,
        }
    }

    /// Watchers that get updates.
    #[inline]
    pub(crate) fn open(&self) -> &[Watcher] {
        &self.all()[..self.open as usize]
    }

    /// Asks for the memory of the first watchers, which lie elsewhere where there are many.
    pub(crate) fn ask(&self) {
        lines::fetch(&[self.all().as_ptr().cast()]);
    }

    /// Watchers that wait for an image.
    #[inline]
    pub(crate) fn waiting(&self) -> &[Watcher] {
        &self.all()[self.open as usize..self.len() - self.idle() as usize]
    }

    /// Watchers that get updates, and those that wait for an image.
    #[inline]
    pub(crate) fn open_and_waiting(&self) -> &[Watcher] {
        &self.all()[..self.len() - self.idle() as usize]
    }

    /// Watchers that wait or are paused.
    #[inline]
    pub(crate) fn held(&self) -> &[Watcher] {
        &self.all()[self.open as usize..]
    }

    /// Number of all watchers.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match &self.store {
            Store::Inline(_) => self.inline(),
            Store::Heap(watchers) => watchers.len(),
        }
    }

    /// True if nobody watches.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of open watchers.
    #[inline]
    pub(crate) const fn open_count(&self) -> u32 {
        self.open
    }

    /// True for a place among the open ones.
    #[inline]
    pub(crate) const fn is_open(&self, place: u32) -> bool {
        place < self.open
    }

    /// True if an update concerns more than the open watchers: the item is cached, some see it through a view, or some are held.
    #[inline]
    pub(crate) fn needs_care(&self) -> bool {
        self.has(CACHED | VIEWS) || self.open as usize != self.len()
    }

    /// True if an update concerns other watchers than the open ones.
    #[inline]
    pub(crate) fn has_others(&self) -> bool {
        self.has(VIEWS) || self.open as usize != self.len()
    }

    /// Notes whether the item's image is cached, so that every update is applied to it.
    pub(crate) const fn mark_cached(&mut self, cached: bool) {
        self.mark(CACHED, cached);
    }

    /// True if the item's image is cached.
    #[inline]
    pub(crate) const fn is_cached(&self) -> bool {
        self.has(CACHED)
    }

    /// Notes whether updates are looked at before they go on: the item may have a mirror, whose updates have the same numbers.
    pub(crate) const fn mark_paired(&mut self, paired: bool) {
        self.mark(PAIRED, paired);
    }

    /// Notes that updates are headlines, each of which gets the lock that its field says before anybody gets it.
    pub(crate) const fn mark_headlines(&mut self) {
        self.mark(HEADLINES, true);
    }

    /// True if updates are headlines.
    #[inline]
    pub(crate) const fn has_headlines(&self) -> bool {
        self.has(HEADLINES)
    }

    /// True if updates are looked at, for either reason, before they go on.
    #[inline]
    pub(crate) const fn is_looked_at(&self) -> bool {
        self.has(PAIRED | HEADLINES)
    }

    /// True if updates are compared with those of a mirror before they go on.
    #[inline]
    pub(crate) const fn is_paired(&self) -> bool {
        self.has(PAIRED)
    }

    /// Notes whether there are watchers that see the item through a view; they are watchers of items of their own.
    pub(crate) const fn mark_views(&mut self, views: bool) {
        self.mark(VIEWS, views);
    }

    /// True if there are views of the item.
    #[inline]
    pub(crate) const fn has_views(&self) -> bool {
        self.has(VIEWS)
    }

    /// Notes whether some open watcher may have asked for an image. The open ones need no look else: an image that others asked
    /// for is nothing to them.
    pub(crate) const fn mark_asked(&mut self, asked: bool) {
        self.mark(ASKED_BY_OPEN, asked);
    }

    /// True if some open watcher may have asked for an image.
    pub(crate) const fn is_asked_by_open(&self) -> bool {
        self.has(ASKED_BY_OPEN)
    }

    /// Number of watchers that are idle.
    #[inline]
    pub(crate) const fn idle(&self) -> u32 {
        let [a, b, c] = self.idle;
        u32::from_le_bytes([a, b, c, 0])
    }

    const fn count_idle(&mut self, idle: u32) {
        let [a, b, c, _] = idle.to_le_bytes();
        self.idle = [a, b, c];
    }

    /// True for a place among those that are idle.
    #[inline]
    pub(crate) fn is_idle(&self, place: u32) -> bool {
        place as usize + self.idle() as usize >= self.len()
    }

    /// A held watcher waits for an image from now on, or is idle.
    pub(crate) fn set_idle(&mut self, place: u32, idle: bool, mut moved: impl FnMut(Watcher, u32)) {
        debug_assert!((place as usize) < self.len() && !self.is_open(place), "a place that nobody held has");
        if self.is_idle(place) == idle || self.is_open(place) || place as usize >= self.len() {
            return;
        }
        let border = self.len() as u32 - self.idle();
        if idle {
            self.swap(place, border - 1, &mut moved);
            self.count_idle(self.idle() + 1);
        } else {
            self.swap(place, border, &mut moved);
            self.count_idle(self.idle() - 1);
        }
    }

    /// Adds a held watcher that waits for an image.
    pub(crate) fn add_held(&mut self, watcher: Watcher, mut moved: impl FnMut(Watcher, u32)) {
        let place = self.len() as u32;
        let border = place - self.idle();
        self.push(watcher);
        if place == border {
            moved(watcher, place);
        } else {
            self.swap(place, border, &mut moved);
        }
    }

    /// Lets a held watcher take part in updates.
    pub(crate) fn make_open(&mut self, place: u32, mut moved: impl FnMut(Watcher, u32)) {
        debug_assert!((place as usize) < self.len(), "a place that nobody has");
        if self.is_open(place) || place as usize >= self.len() {
            return;
        }
        debug_assert!(!self.is_idle(place), "one that is paused gets no updates");
        self.swap(place, self.open, &mut moved);
        self.open += 1;
    }

    /// Takes an open watcher out of the updates.
    pub(crate) fn make_held(&mut self, place: u32, mut moved: impl FnMut(Watcher, u32)) {
        if !self.is_open(place) {
            return;
        }
        self.open -= 1;
        self.swap(place, self.open, &mut moved);
    }

    /// Takes all watchers out of the updates.
    pub(crate) const fn hold_all(&mut self) {
        self.open = 0;
    }

    /// Removes a watcher.
    pub(crate) fn remove(&mut self, place: u32, mut moved: impl FnMut(Watcher, u32)) {
        debug_assert!((place as usize) < self.len(), "a place that nobody has");
        if place as usize >= self.len() {
            return;
        }
        let mut hole = place;
        if self.is_open(hole) {
            self.open -= 1;
            self.swap(hole, self.open, &mut moved);
            hole = self.open;
        }
        let last = self.len() as u32 - 1;
        if self.is_idle(hole) {
            self.count_idle(self.idle() - 1);
        } else {
            let last_that_waits = last - self.idle();
            self.swap(hole, last_that_waits, &mut moved);
            hole = last_that_waits;
        }
        self.swap(hole, last, &mut moved);
        self.pop();
    }

    fn swap(&mut self, a: u32, b: u32, moved: &mut impl FnMut(Watcher, u32)) {
        if a == b {
            return;
        }
        let all = self.all_mut();
        all.swap(a as usize, b as usize);
        moved(all[a as usize], a);
        moved(all[b as usize], b);
    }

    fn push(&mut self, watcher: Watcher) {
        match &mut self.store {
            Store::Inline(watchers) => {
                if let Some(room) = watchers.get_mut((self.marks & INLINE) as usize) {
                    *room = watcher;
                    self.marks += 1;
                } else {
                    let mut heap = Vec::with_capacity(4);
                    heap.extend_from_slice(watchers);
                    heap.push(watcher);
                    self.store = Store::Heap(heap);
                }
            }
            Store::Heap(watchers) => {
                // Grows by a quarter: the slack of doubling would cost more than the copies.
                if watchers.len() == watchers.capacity() {
                    watchers.reserve_exact((watchers.len() / 4).max(2));
                }
                watchers.push(watcher);
            }
        }
    }

    fn pop(&mut self) {
        match &mut self.store {
            Store::Inline(_) => self.marks -= 1,
            Store::Heap(watchers) => {
                watchers.pop();
                if let [a, b] = watchers[..] {
                    self.store = Store::Inline([a, b]);
                    self.marks = self.marks & !INLINE | 2;
                } else if watchers.capacity() > 16 && watchers.len() < watchers.capacity() / 2 {
                    watchers.shrink_to(watchers.len() + watchers.len() / 4);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientId, StreamId, Watcher, Watchers};
    use std::collections::HashMap;

    /// Places as the stream tables would know them.
    #[derive(Default)]
    struct Model {
        places: HashMap<i32, u32>,
        open: HashMap<i32, bool>,
        idle: HashMap<i32, bool>,
    }

    impl Model {
        fn check(&self, watchers: &Watchers) {
            assert_eq!(self.places.len(), watchers.len());
            assert_eq!(self.open.values().filter(|&&open| open).count(), watchers.open().len());
            assert_eq!(self.idle.values().filter(|&&idle| idle).count(), watchers.idle() as usize);
            assert_eq!(watchers.waiting().len(), watchers.held().len() - watchers.idle() as usize);
            for (&stream, &place) in &self.places {
                assert_eq!(watchers.all()[place as usize].stream, StreamId(stream));
                assert_eq!(watchers.is_open(place), self.open[&stream]);
                assert_eq!(watchers.is_idle(place), self.idle[&stream]);
            }
        }
    }

    #[test]
    fn places_follow_every_move() {
        let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
        let mut watchers = Watchers::default();
        let mut model = Model::default();
        for step in 0..20_000 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let grow = if step % 2_000 < 1_000 { 6 } else { 2 };
            let pick = model.places.keys().nth(seed as usize % model.places.len().max(1)).copied();
            let Model { places, open, idle } = &mut model;
            let mut moved = |w: Watcher, place| {
                places.insert(w.stream.0, place);
            };
            match (seed >> 32) % 11 {
                n if n < grow => {
                    watchers.add_held(Watcher { client: ClientId(7), stream: StreamId(step) }, &mut moved);
                    open.insert(step, false);
                    idle.insert(step, false);
                }
                n => {
                    let Some(stream) = pick else { continue };
                    let place = places[&stream];
                    let mut moved = |w: Watcher, place| {
                        places.insert(w.stream.0, place);
                    };
                    match n {
                        6 | 7 if !idle[&stream] => {
                            watchers.make_open(place, &mut moved);
                            open.insert(stream, true);
                        }
                        6 | 7 | 10 if !open[&stream] => {
                            let now = !idle[&stream];
                            watchers.set_idle(place, now, &mut moved);
                            idle.insert(stream, now);
                        }
                        8 => {
                            watchers.make_held(place, &mut moved);
                            open.insert(stream, false);
                        }
                        _ => {
                            watchers.remove(place, &mut moved);
                            places.remove(&stream);
                            open.remove(&stream);
                            idle.remove(&stream);
                        }
                    }
                }
            }
            model.check(&watchers);
        }
    }

    #[test]
    fn one_item_is_small() {
        assert!(size_of::<Watchers>() <= 32, "{}", size_of::<Watchers>());
    }
}
