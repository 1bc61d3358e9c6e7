//! A client's open streams: stream id to what is open on it, eight bytes a stream.
//!
//! Clients number their streams from 1 up, so ids are found directly in pages; the few that lie far away go to a hash map.

use rustc_hash::FxHashMap;
use rwf::DataState;

const PAGE: usize = 128;
/// Pages that the direct table may have, whatever the ids: a million streams.
const MAX_PAGES: usize = 8192;
/// Pages that may be empty beyond the last one in use.
const STRETCH: usize = 16;

const LOGIN: u32 = u32::MAX - 1;
const DIRECTORY: u32 = u32::MAX - 2;
const DICTIONARY: u32 = u32::MAX - 3;
const FREE: u32 = u32::MAX;
/// Item numbers stay below this.
pub(crate) const MAX_ITEMS: u32 = u32::MAX - 16;

/// What is open on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Open {
    /// The login.
    Login,
    /// A directory.
    Directory,
    /// A dictionary.
    Dictionary,
    /// An item, by number.
    Item(u32),
}

/// Properties of a watcher that are asked for off the update path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WatchFlags(pub(crate) u32);

impl WatchFlags {
    /// The image alone is wanted.
    pub(crate) const SNAPSHOT: u32 = 1 << 25;
    /// No data until it is resumed, but an image that it asked for.
    pub(crate) const PAUSED: u32 = 1 << 26;
    /// It asked for an image, and none has begun to arrive since: the next one is its answer, a solicited one. One that
    /// waits without having asked (resumed without a refresh, say) gets its image unsolicited.
    pub(crate) const ASKED: u32 = 1 << 27;
    /// It has had the first part of the set that is on its way, and gets the others.
    pub(crate) const IN_SET: u32 = 1 << 28;
    /// The set that it is in is its answer: all parts are solicited, whatever it asks for meanwhile.
    pub(crate) const SOLICITED: u32 = 1 << 29;
    /// It has had an image, or began without one: states for open streams are for it too.
    pub(crate) const ANSWERED: u32 = 1 << 30;
    /// It was told that the item is suspect, and no good state since.
    pub(crate) const TOLD: u32 = 1 << 31;

    pub(crate) const fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    /// True for a watcher that takes no part in updates and is to have an image.
    pub(crate) const fn waits(self) -> bool {
        self.has(Self::ASKED) || !self.has(Self::PAUSED)
    }
}

/// Flags to set and to clear on a watcher that learns this state of its data.
pub(crate) const fn told_flags(data: DataState) -> (u32, u32) {
    match data {
        DataState::SUSPECT => (WatchFlags::TOLD, 0),
        DataState::OK => (0, WatchFlags::TOLD),
        _ => (0, 0),
    }
}

const PLACE: u32 = (1 << 25) - 1;
/// Most watchers that one item can have.
pub(crate) const MAX_WATCHERS: usize = PLACE as usize;

#[derive(Debug, Clone, Copy)]
struct Entry {
    target: u32,
    /// Place among the item's watchers in the low 25 bits, flags above.
    place: u32,
}

const EMPTY: Entry = Entry { target: FREE, place: 0 };

#[derive(Debug)]
struct Page {
    used: u16,
    entries: [Entry; PAGE],
}

/// The streams of one client.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    pages: Vec<Option<Box<Page>>>,
    sparse: FxHashMap<i32, Entry>,
}

fn split(stream: i32) -> (usize, usize) {
    let id = stream as u32 as usize;
    (id / PAGE, id % PAGE)
}

impl Streams {
    #[inline]
    fn entry(&self, stream: i32) -> Option<&Entry> {
        let (page, at) = split(stream);
        if let Some(Some(page)) = self.pages.get(page)
            && page.entries[at].target != FREE
        {
            return Some(&page.entries[at]);
        }
        if self.sparse.is_empty() { None } else { self.sparse.get(&stream) }
    }

    #[inline]
    fn entry_mut(&mut self, stream: i32) -> Option<&mut Entry> {
        let (page, at) = split(stream);
        if let Some(Some(page)) = self.pages.get_mut(page)
            && page.entries[at].target != FREE
        {
            return Some(&mut page.entries[at]);
        }
        self.sparse.get_mut(&stream)
    }

    /// What is open on a stream.
    pub(crate) fn get(&self, stream: i32) -> Option<Open> {
        self.entry(stream).map(|entry| match entry.target {
            LOGIN => Open::Login,
            DIRECTORY => Open::Directory,
            DICTIONARY => Open::Dictionary,
            item => Open::Item(item),
        })
    }

    /// Place and flags of an item's watcher.
    pub(crate) fn watch(&self, stream: i32) -> Option<(u32, WatchFlags)> {
        self.entry(stream).map(|entry| (entry.place & PLACE, WatchFlags(entry.place & !PLACE)))
    }

    /// Notes a watcher's new place.
    #[inline]
    pub(crate) fn set_place(&mut self, stream: i32, place: u32) {
        if let Some(entry) = self.entry_mut(stream) {
            entry.place = entry.place & !PLACE | place & PLACE;
        }
    }

    /// Sets and clears flags of a watcher.
    pub(crate) fn set_flags(&mut self, stream: i32, set: u32, clear: u32) {
        if let Some(entry) = self.entry_mut(stream) {
            entry.place = (entry.place & !(clear & !PLACE)) | (set & !PLACE);
        }
    }

    /// A watcher is in a set no more before its end. An answer that is broken off is owed as before.
    pub(crate) fn leave_set(&mut self, stream: i32) {
        let Some((_, watch)) = self.watch(stream) else { return };
        if watch.has(WatchFlags::IN_SET) {
            let owed = if watch.has(WatchFlags::SOLICITED) { WatchFlags::ASKED } else { 0 };
            self.set_flags(stream, owed, WatchFlags::IN_SET | WatchFlags::SOLICITED);
        }
    }

    /// Points a stream at another item; flags stay.
    pub(crate) fn retarget(&mut self, stream: i32, item: u32) {
        if let Some(entry) = self.entry_mut(stream) {
            entry.target = item;
        }
    }

    /// Opens a stream that is free. `flags` are [`WatchFlags`].
    pub(crate) fn insert(&mut self, stream: i32, open: Open, flags: u32) {
        let target = match open {
            Open::Login => LOGIN,
            Open::Directory => DIRECTORY,
            Open::Dictionary => DICTIONARY,
            Open::Item(item) => item,
        };
        let entry = Entry { target, place: flags & !PLACE };
        let (page, at) = split(stream);
        if page < self.pages.len() + STRETCH && page < MAX_PAGES {
            if self.pages.len() <= page {
                self.pages.resize_with(page + 1, || None);
            }
            let page = self.pages[page].get_or_insert_with(|| Box::new(Page { used: 0, entries: [EMPTY; PAGE] }));
            page.used += 1;
            page.entries[at] = entry;
        } else {
            self.sparse.insert(stream, entry);
        }
    }

    /// Frees a stream.
    pub(crate) fn remove(&mut self, stream: i32) {
        let (page_number, at) = split(stream);
        if let Some(slot) = self.pages.get_mut(page_number)
            && let Some(page) = slot
            && page.entries[at].target != FREE
        {
            page.entries[at] = EMPTY;
            page.used -= 1;
            if page.used == 0 {
                *slot = None;
            }
        } else {
            self.sparse.remove(&stream);
        }
    }

    /// All open streams. The order is that of the ids, far ones last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i32, Open)> + '_ {
        let direct = self.pages.iter().enumerate().flat_map(|(number, page)| {
            page.iter().flat_map(move |page| {
                (0..PAGE).filter(|&at| page.entries[at].target != FREE).map(move |at| (number * PAGE + at) as i32)
            })
        });
        direct.chain(self.sparse.keys().copied()).filter_map(|stream| self.get(stream).map(|open| (stream, open)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Open, Streams, WatchFlags};
    use std::collections::BTreeMap;

    #[test]
    fn a_table_is_a_map() {
        let mut table = Streams::default();
        let mut model: BTreeMap<i32, (u32, u32)> = BTreeMap::new();
        let mut seed = 42_u64;
        for step in 0..50_000_u32 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let wide = if seed & 0x700 == 0 { i32::MAX as u32 } else { 3_000 };
            let stream = ((seed >> 33) as u32 % wide) as i32 + 1;
            if let Some(&(item, place)) = model.get(&stream) {
                assert_eq!(table.get(stream), Some(Open::Item(item)));
                assert_eq!(table.watch(stream), Some((place, WatchFlags(WatchFlags::PAUSED))));
                if seed & 1 == 0 {
                    table.remove(stream);
                    model.remove(&stream);
                } else {
                    table.set_place(stream, step);
                    model.insert(stream, (item, step));
                }
            } else {
                assert_eq!(table.get(stream), None);
                table.insert(stream, Open::Item(step), WatchFlags::PAUSED);
                model.insert(stream, (step, 0));
            }
        }
        let mut listed: Vec<i32> = table.iter().map(|(stream, _)| stream).collect();
        listed.sort_unstable();
        assert_eq!(listed, model.keys().copied().collect::<Vec<_>>());
    }

    #[test]
    fn flags_and_place_do_not_touch() {
        let mut table = Streams::default();
        table.insert(5, Open::Item(1), WatchFlags::SNAPSHOT);
        table.set_place(5, 77);
        table.set_flags(5, WatchFlags::ASKED, WatchFlags::SNAPSHOT);
        assert_eq!(table.watch(5), Some((77, WatchFlags(WatchFlags::ASKED))));
    }
}
