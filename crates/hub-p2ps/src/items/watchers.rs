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

/// The watchers of an item. The first [`Self::open_count`] are *open*: they get every update. The others are *held*:
/// they wait for an image, or are paused.
///
/// A watcher's place changes when others come and go; every change of a place is told to the `moved` callback, so that
/// the client's stream table always knows it.
#[derive(Debug)]
pub(crate) struct Watchers {
    store: Store,
    open: u32,
    /// Number of those that their clients have paused: see [`Self::note_rest`].
    resting: [u8; 3],
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

impl Default for Watchers {
    fn default() -> Self {
        Self { store: Store::Inline([NOBODY; 2]), open: 0, resting: [0; 3], marks: 0 }
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

    /// Those that get updates.
    #[inline]
    pub(crate) fn open(&self) -> &[Watcher] {
        &self.all()[..self.open as usize]
    }

    /// Those that wait or are paused.
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

    /// True if updates are looked at before they go on.
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

    /// One watcher more (true) or less is paused by its client: to be told with each that comes, goes or changes, so that nobody has to look
    /// at all of them to know whether all are.
    pub(crate) fn note_rest(&mut self, rests: bool) {
        let resting = if rests { self.resting() + 1 } else { self.resting().saturating_sub(1) };
        debug_assert!(rests || self.resting() > 0, "one goes on that did not rest");
        let [a, b, c, _] = resting.to_le_bytes();
        self.resting = [a, b, c];
    }

    /// Number of watchers that their clients have paused.
    pub(crate) const fn resting(&self) -> u32 {
        let [a, b, c] = self.resting;
        u32::from_le_bytes([a, b, c, 0])
    }

    /// True if there is none that its client has not paused.
    pub(crate) fn all_rest(&self) -> bool {
        self.resting() as usize == self.len()
    }

    /// Adds a held watcher.
    pub(crate) fn add_held(&mut self, watcher: Watcher, mut moved: impl FnMut(Watcher, u32)) {
        let place = self.len() as u32;
        self.push(watcher);
        moved(watcher, place);
    }

    /// Lets a held watcher take part in updates.
    pub(crate) fn make_open(&mut self, place: u32, mut moved: impl FnMut(Watcher, u32)) {
        debug_assert!((place as usize) < self.len(), "a place that nobody has");
        if self.is_open(place) || place as usize >= self.len() {
            return;
        }
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
    }

    impl Model {
        fn check(&self, watchers: &Watchers) {
            assert_eq!(self.places.len(), watchers.len());
            assert_eq!(self.open.values().filter(|&&open| open).count(), watchers.open().len());
            for (&stream, &place) in &self.places {
                assert_eq!(watchers.all()[place as usize].stream, StreamId(stream));
                assert_eq!(watchers.is_open(place), self.open[&stream]);
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
            let Model { places, open } = &mut model;
            let mut moved = |w: Watcher, place| {
                places.insert(w.stream.0, place);
            };
            match (seed >> 32) % 10 {
                n if n < grow => {
                    watchers.add_held(Watcher { client: ClientId(7), stream: StreamId(step) }, &mut moved);
                    open.insert(step, false);
                }
                n => {
                    let Some(stream) = pick else { continue };
                    let place = places[&stream];
                    let mut moved = |w: Watcher, place| {
                        places.insert(w.stream.0, place);
                    };
                    match n {
                        6 | 7 => {
                            watchers.make_open(place, &mut moved);
                            open.insert(stream, true);
                        }
                        8 => {
                            watchers.make_held(place, &mut moved);
                            open.insert(stream, false);
                        }
                        _ => {
                            watchers.remove(place, &mut moved);
                            places.remove(&stream);
                            open.remove(&stream);
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
