//! A client's open streams: stream id to what is open on it, eight bytes a stream, and the state of those that watch an item.
//!
//! Clients number their streams from 1 up, so ids are found directly in pages; the few that lie far away go to a tree. No hash is
//! taken of numbers that clients choose.
//!
//! # The states of a watcher
//!
//! A watcher is *open* (it takes part in updates) or *held*; which, its place among the item's watchers says.
//!
//! | [`Image`] | Asked | In a set | Next |
//! |---|---|---|---|
//! | `Settled` | no | no | `Asked`; `Arriving` (an image for everyone, or one that it waits for without having asked) |
//! | `Asked` | yes | no | `Answering`; `Settled` (whole in one part) |
//! | `Arriving` | no | yes | `Settled` (whole, or left); `ArrivingAsked` |
//! | `Answering` | no | its answer | `Settled` (whole); `Asked` (left: the answer is owed as before); `AnsweringAsked` |
//! | `ArrivingAsked` | yes | yes | `Asked` (whole, or left); `Answering` (another set begins) |
//! | `AnsweringAsked` | yes | its answer | `Asked` (whole, or left); `Answering` (another set begins) |
//!
//! Beside it: a watcher may be *conflated* when its client is slow, and may have been granted just that; it is *answered* from its first image on (in a set: always); *paused* ones are held, and those for whom this server *stands by*; who was *told* that the
//! item is suspect has to be told when it is good again.

use crate::ids::{ItemId, StreamId};
use rwf::DataState;
use std::collections::BTreeMap;
use std::ops::Bound;

const PAGE: usize = 128;
/// Pages that the direct table may have, whatever the ids: a million streams.
const MAX_PAGES: usize = 8192;
/// Pages that may be empty beyond the last one in use.
const STRETCH: usize = 16;

const LOGIN: u32 = u32::MAX - 1;
const DIRECTORY: u32 = u32::MAX - 2;
const DICTIONARY: u32 = u32::MAX - 3;
const FREE: u32 = u32::MAX;
const _: () = assert!(DICTIONARY > crate::items::MAX_ITEMS, "no item has the number of a kind of stream");

/// The open on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Open {
    /// The login.
    Login,
    /// A directory.
    Directory,
    /// A dictionary.
    Dictionary,
    /// An item, by number.
    Item(ItemId),
}

/// How far the image of a watcher is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Image {
    /// The watcher is owed none that it asked for, and is in no set.
    #[default]
    Settled = 0,
    /// The watcher asked for an image, and none has begun to arrive since: the next one is its answer, a solicited one. One that
    /// waits without having asked (resumed without a refresh, say) gets its image unsolicited, and is `Settled`.
    Asked = 1,
    /// The watcher has had the first part of a set that nobody asked for, and gets the others.
    Arriving = 2,
    /// The watcher has had the first part of the set that answers it.
    Answering = 3,
    /// The watcher asked for an image while a set arrived that nobody asked for.
    ArrivingAsked = 4,
    /// The watcher asked for another image while the answer arrived.
    AnsweringAsked = 5,
}

impl Image {
    const ALL: [Self; 6] =
        [Self::Settled, Self::Asked, Self::Arriving, Self::Answering, Self::ArrivingAsked, Self::AnsweringAsked];

    /// An image was asked for that has not begun to arrive.
    const fn is_asked(self) -> bool {
        matches!(self, Self::Asked | Self::ArrivingAsked | Self::AnsweringAsked)
    }

    /// A set has begun and is not whole.
    const fn is_arriving(self) -> bool {
        !matches!(self, Self::Settled | Self::Asked)
    }

    /// The set that arrives is the answer.
    const fn is_answering(self) -> bool {
        matches!(self, Self::Answering | Self::AnsweringAsked)
    }

    const fn asked(self) -> Self {
        match self {
            Self::Settled | Self::Asked => Self::Asked,
            Self::Arriving | Self::ArrivingAsked => Self::ArrivingAsked,
            Self::Answering | Self::AnsweringAsked => Self::AnsweringAsked,
        }
    }

    const fn broken_off(self) -> Self {
        match self {
            Self::Settled | Self::Arriving => Self::Settled,
            _ => Self::Asked,
        }
    }

    const fn whole(self) -> Self {
        match self {
            Self::Settled | Self::Arriving | Self::Answering => Self::Settled,
            _ => Self::Asked,
        }
    }
}

/// What is true of a watcher beside its image: bits of one word, which each of an item's messages looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Facts(u8);

impl Facts {
    const JUST_IN_TIME: Self = Self(1);
    const CONFLATABLE: Self = Self(1 << 1);
    const SNAPSHOT: Self = Self(1 << 2);
    const PAUSED: Self = Self(1 << 3);
    const ANSWERED: Self = Self(1 << 4);
    const TOLD_SUSPECT: Self = Self(1 << 5);
    const STANDBY: Self = Self(1 << 6);
    const ALL: u8 = (1 << 7) - 1;

    const fn has(self, fact: Self) -> bool {
        self.0 & fact.0 != 0
    }

    const fn with(self, fact: Self, is_true: bool) -> Self {
        Self(if is_true { self.0 | fact.0 } else { self.0 & !fact.0 })
    }
}

/// The state of a watcher. See the table of the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WatchState {
    image: Image,
    facts: Facts,
}

impl WatchState {
    /// A watcher that has just asked. The first image is always owed, also to one that is to pause.
    pub(crate) const fn opened(snapshot: bool, paused: bool) -> Self {
        let facts = Facts(0).with(Facts::SNAPSHOT, snapshot).with(Facts::PAUSED, paused && !snapshot);
        Self { image: Image::Asked, facts }
    }

    /// The watcher's updates may be conflated when its client is slow; with `just_in_time` that is the quality it was granted.
    #[must_use]
    pub(crate) const fn conflatable(self, conflatable: bool, just_in_time: bool) -> Self {
        let facts = self.facts.with(Facts::CONFLATABLE, conflatable || just_in_time);
        Self { facts: facts.with(Facts::JUST_IN_TIME, just_in_time), ..self }
    }

    /// The watcher's updates may be conflated when its client is slow.
    pub(crate) const fn is_conflatable(self) -> bool {
        self.facts.has(Facts::CONFLATABLE)
    }

    /// The watcher's quality is Just-in-time.
    pub(crate) const fn is_just_in_time(self) -> bool {
        self.facts.has(Facts::JUST_IN_TIME)
    }

    /// The image alone is wanted.
    pub(crate) const fn is_snapshot(self) -> bool {
        self.facts.has(Facts::SNAPSHOT)
    }

    /// No data but an image that it asked for: it has paused, or this server stands by for its client.
    pub(crate) const fn is_paused(self) -> bool {
        self.rests() || self.stands_by()
    }

    /// The stream's client has paused it.
    pub(crate) const fn rests(self) -> bool {
        self.facts.has(Facts::PAUSED)
    }

    /// Another server serves its client, and this one stands by.
    pub(crate) const fn stands_by(self) -> bool {
        self.facts.has(Facts::STANDBY)
    }

    /// The watcher has had an image, or began without one: states for open streams are for it too.
    pub(crate) const fn is_answered(self) -> bool {
        self.facts.has(Facts::ANSWERED)
    }

    /// The watcher was told that the item is suspect, and no good state since.
    pub(crate) const fn is_told_suspect(self) -> bool {
        self.facts.has(Facts::TOLD_SUSPECT)
    }

    /// The watcher asked for an image, and none that answers has begun to arrive.
    pub(crate) const fn is_asked(self) -> bool {
        self.image.is_asked()
    }

    /// The watcher has had the first part of the set that is on its way, and gets the others.
    pub(crate) const fn is_in_set(self) -> bool {
        self.image.is_arriving()
    }

    /// The set that it is in is its answer: all parts are solicited, whatever it asks for meanwhile.
    pub(crate) const fn is_set_solicited(self) -> bool {
        self.image.is_answering()
    }

    /// True for a held watcher that is to have an image.
    pub(crate) const fn waits(self) -> bool {
        self.image.is_asked() || !self.is_paused()
    }

    /// True for a held watcher that is to get nothing: neither an image, nor the rest of one.
    pub(crate) const fn is_idle(self) -> bool {
        !self.waits() && !self.is_in_set()
    }

    /// The watcher asks for an image.
    #[must_use]
    pub(crate) const fn ask(self) -> Self {
        Self { image: self.image.asked(), ..self }
    }

    /// The watcher begins without an image: it has one from elsewhere.
    #[must_use]
    pub(crate) fn begin_without_image(self) -> Self {
        debug_assert!(!self.is_answered() && self.image == Image::Asked, "it has begun: {self:?}");
        Self { image: Image::Settled, facts: self.facts.with(Facts::ANSWERED, true) }
    }

    /// The watcher wants no data until it is resumed. It misses updates between the parts of a set from now on.
    #[must_use]
    pub(crate) const fn pause(self) -> Self {
        let Self { image, facts } = self.leave_set();
        Self { image, facts: facts.with(Facts::PAUSED, true) }
    }

    /// The watcher wants data again, and has missed some if it was paused.
    #[must_use]
    pub(crate) const fn resume(self) -> Self {
        let Self { image, facts } = if self.rests() { self.leave_set() } else { self };
        Self { image, facts: facts.with(Facts::PAUSED, false) }
    }

    /// The server stands by for the watcher's client from now on, or serves it again: then it has missed some.
    #[must_use]
    pub(crate) const fn stand_by(self, stands_by: bool) -> Self {
        let Self { image, facts } = if self.stands_by() == stands_by { self } else { self.leave_set() };
        Self { image, facts: facts.with(Facts::STANDBY, stands_by) }
    }

    /// The watcher is in a set no more before its end. An answer that is broken off is owed as before.
    #[must_use]
    pub(crate) const fn leave_set(self) -> Self {
        Self { image: self.image.broken_off(), ..self }
    }

    /// The watcher learns this state of its data.
    #[must_use]
    pub(crate) fn told(self, data: DataState) -> Self {
        let facts = match data {
            DataState::SUSPECT => self.facts.with(Facts::TOLD_SUSPECT, true),
            DataState::OK => self.facts.with(Facts::TOLD_SUSPECT, false),
            _ => self.facts,
        };
        Self { facts, ..self }
    }

    /// The watcher gets the first part of an image; `whole` if no part follows.
    #[must_use]
    pub(crate) fn image_begins(self, solicited: bool, whole: bool) -> Self {
        debug_assert!(solicited || !self.image.is_asked(), "an image for one who asked is its answer: {self:?}");
        let image = match (whole, solicited) {
            (true, _) => Image::Settled,
            (false, true) => Image::Answering,
            (false, false) => Image::Arriving,
        };
        Self { image, facts: self.facts.with(Facts::ANSWERED, true) }
    }

    /// The watcher gets the last part of the set that it is in.
    #[must_use]
    pub(crate) fn image_whole(self) -> Self {
        debug_assert!(self.is_answered(), "a last part before the first: {self:?}");
        Self { image: self.image.whole(), ..self }
    }

    /// Panics if a combination of facts is not legal. `open`: it takes part in updates.
    pub(crate) fn check(self, open: bool) {
        assert!(self.is_answered() || !self.image.is_arriving(), "in a set without its first part: {self:?}");
        assert!(!open || self.is_answered(), "updates before an image: {self:?}");
        assert!(!open || !self.is_paused(), "updates of one that is paused: {self:?}");
    }

    const fn pack(self) -> u32 {
        (self.image as u32) << IMAGE_SHIFT | (self.facts.0 as u32) << FACTS_SHIFT
    }

    const fn unpack(word: u32) -> Self {
        let image = match (word >> IMAGE_SHIFT) & 7 {
            at @ 0..=5 => Image::ALL[at as usize],
            _ => Image::Settled,
        };
        Self { image, facts: Facts((word >> FACTS_SHIFT) as u8 & Facts::ALL) }
    }
}

/// A table's entry has 32 bits for a watcher: its place among the item's watchers in the low 22, its state above.
const PLACE: u32 = (1 << IMAGE_SHIFT) - 1;
const IMAGE_SHIFT: u32 = 22;
const FACTS_SHIFT: u32 = 25;
/// Most watchers that one item can have.
pub(crate) const MAX_WATCHERS: usize = PLACE as usize;
const _: () = assert!(MAX_WATCHERS < 1 << 24, "all of them may rest, which has three bytes");

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Number of the item, or of the kind of stream.
    target: u32,
    /// Place and state, see [`PLACE`].
    watch: u32,
}

const EMPTY: Entry = Entry { target: FREE, watch: 0 };

#[derive(Debug)]
struct Page {
    used: u16,
    entries: [Entry; PAGE],
}

/// The streams of one client.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    pages: Vec<Option<Box<Page>>>,
    sparse: BTreeMap<StreamId, Entry>,
}

/// How far a look at a client's item streams has come, which goes on in another turn: what opens meanwhile may be left out, what ends is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cursor {
    /// The next id of the direct table.
    direct: usize,
    /// The last one of the far ones.
    far: Option<StreamId>,
}

fn split(stream: StreamId) -> (usize, usize) {
    let id = stream.0 as u32 as usize;
    (id / PAGE, id % PAGE)
}

impl Streams {
    #[inline]
    fn entry(&self, stream: StreamId) -> Option<&Entry> {
        let (page, at) = split(stream);
        if let Some(Some(page)) = self.pages.get(page)
            && page.entries[at].target != FREE
        {
            return Some(&page.entries[at]);
        }
        if self.sparse.is_empty() { None } else { self.sparse.get(&stream) }
    }

    #[inline]
    fn entry_mut(&mut self, stream: StreamId) -> Option<&mut Entry> {
        let (page, at) = split(stream);
        if let Some(Some(page)) = self.pages.get_mut(page)
            && page.entries[at].target != FREE
        {
            return Some(&mut page.entries[at]);
        }
        self.sparse.get_mut(&stream)
    }

    /// The open on a stream.
    pub(crate) fn get(&self, stream: StreamId) -> Option<Open> {
        self.entry(stream).map(|entry| match entry.target {
            LOGIN => Open::Login,
            DIRECTORY => Open::Directory,
            DICTIONARY => Open::Dictionary,
            item => Open::Item(ItemId(item)),
        })
    }

    /// The item that is open on a stream.
    pub(crate) fn item(&self, stream: StreamId) -> Option<ItemId> {
        match self.get(stream)? {
            Open::Item(item) => Some(item),
            Open::Login | Open::Directory | Open::Dictionary => None,
        }
    }

    /// Place and state of an item's watcher.
    pub(crate) fn watch(&self, stream: StreamId) -> Option<(u32, WatchState)> {
        self.entry(stream).map(|entry| (entry.watch & PLACE, WatchState::unpack(entry.watch)))
    }

    /// Notes a watcher's new place.
    #[inline]
    pub(crate) fn set_place(&mut self, stream: StreamId, place: u32) {
        if let Some(entry) = self.entry_mut(stream) {
            debug_assert!(place <= PLACE && entry.target < DICTIONARY, "a place of no watcher");
            entry.watch = entry.watch & !PLACE | place & PLACE;
        }
    }

    /// A transition of a watcher's state.
    pub(crate) fn change(&mut self, stream: StreamId, change: impl FnOnce(WatchState) -> WatchState) {
        let entry = self.entry_mut(stream);
        debug_assert!(entry.is_some(), "a transition of a stream that is not open: {stream:?}");
        if let Some(entry) = entry {
            debug_assert!(entry.target < DICTIONARY, "a transition of a stream without item: {stream:?}");
            entry.watch = entry.watch & PLACE | change(WatchState::unpack(entry.watch)).pack();
        }
    }

    /// Points a stream at another item; its state stays.
    pub(crate) fn retarget(&mut self, stream: StreamId, item: ItemId) {
        let entry = self.entry_mut(stream);
        debug_assert!(entry.is_some(), "a stream that is not open: {stream:?}");
        if let Some(entry) = entry {
            debug_assert!(entry.target < DICTIONARY, "a stream without item: {stream:?}");
            entry.target = item.0;
        }
    }

    /// Opens a stream that is free.
    pub(crate) fn insert(&mut self, stream: StreamId, open: Open, state: WatchState) {
        debug_assert!(self.get(stream).is_none(), "a stream is opened twice: {stream:?}");
        let target = match open {
            Open::Login => LOGIN,
            Open::Directory => DIRECTORY,
            Open::Dictionary => DICTIONARY,
            Open::Item(item) => item.0,
        };
        let entry = Entry { target, watch: state.pack() };
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
    pub(crate) fn remove(&mut self, stream: StreamId) {
        debug_assert!(self.get(stream).is_some(), "a stream is freed that is not open: {stream:?}");
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

    /// The next stream with an item, in the order of [`Self::iter`].
    pub(crate) fn next_item(&self, cursor: &mut Cursor) -> Option<(StreamId, ItemId)> {
        let is_item = |entry: &Entry| entry.target < DICTIONARY;
        while let Some(page) = self.pages.get(cursor.direct / PAGE) {
            let Some(page) = page else {
                cursor.direct = (cursor.direct / PAGE + 1) * PAGE;
                continue;
            };
            let (id, entry) = (cursor.direct, &page.entries[cursor.direct % PAGE]);
            cursor.direct += 1;
            if is_item(entry) {
                return Some((StreamId(id as i32), ItemId(entry.target)));
            }
        }
        let behind = cursor.far.map_or(Bound::Unbounded, Bound::Excluded);
        let far = self.sparse.range((behind, Bound::Unbounded)).find(|(_, entry)| is_item(entry));
        far.map(|(&stream, entry)| {
            cursor.far = Some(stream);
            (stream, ItemId(entry.target))
        })
    }

    /// All open streams. The order is that of the ids, far ones last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (StreamId, Open)> + '_ {
        let direct = self.pages.iter().enumerate().flat_map(|(number, page)| {
            page.iter().flat_map(move |page| {
                let used = (0..PAGE).filter(|&at| page.entries[at].target != FREE);
                used.map(move |at| StreamId((number * PAGE + at) as i32))
            })
        });
        direct.chain(self.sparse.keys().copied()).filter_map(|stream| self.get(stream).map(|open| (stream, open)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Cursor, Facts, Image, Open, Streams, WatchState};
    use crate::ids::{ItemId, StreamId};
    use std::collections::BTreeMap;

    #[test]
    fn a_table_is_a_map() {
        let mut table = Streams::default();
        let mut model: BTreeMap<StreamId, (u32, u32)> = BTreeMap::new();
        let mut seed = 42_u64;
        let paused = WatchState::opened(false, true);
        for step in 0..50_000_u32 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let wide = if seed & 0x700 == 0 { i32::MAX as u32 } else { 3_000 };
            let stream = StreamId(((seed >> 33) as u32 % wide) as i32 + 1);
            if let Some(&(item, place)) = model.get(&stream) {
                assert_eq!(table.get(stream), Some(Open::Item(ItemId(item))));
                assert_eq!(table.watch(stream), Some((place, paused)));
                if seed & 1 == 0 {
                    table.remove(stream);
                    model.remove(&stream);
                } else {
                    table.set_place(stream, step);
                    model.insert(stream, (item, step));
                }
            } else {
                assert_eq!(table.get(stream), None);
                table.insert(stream, Open::Item(ItemId(step)), paused);
                model.insert(stream, (step, 0));
            }
        }
        let mut listed: Vec<StreamId> = table.iter().map(|(stream, _)| stream).collect();
        listed.sort_unstable();
        assert_eq!(listed, model.keys().copied().collect::<Vec<_>>());
    }

    #[test]
    fn item_streams_are_found_one_by_one() {
        let mut table = Streams::default();
        let item = |n| Open::Item(ItemId(n));
        for (stream, open) in
            [(1, Open::Login), (2, Open::Directory), (7, item(7)), (300, item(8)), (1 << 30, item(9)), (-3, item(1))]
        {
            table.insert(StreamId(stream), open, WatchState::default());
        }
        let mut cursor = Cursor::default();
        let mut next = |table: &Streams| table.next_item(&mut cursor).map(|(stream, item)| (stream.0, item.0));
        assert_eq!(next(&table), Some((7, 7)));
        table.remove(StreamId(7));
        table.remove(StreamId(300));
        assert_eq!([next(&table), next(&table), next(&table)], [Some((-3, 1)), Some((1 << 30, 9)), None]);
        table.insert(StreamId(i32::MAX), item(4), WatchState::default());
        assert_eq!([next(&table), next(&table)], [Some((i32::MAX, 4)), None]);
    }

    #[test]
    fn every_state_comes_back_from_its_word_beside_a_place() {
        let mut table = Streams::default();
        let stream = StreamId(5);
        table.insert(stream, Open::Item(ItemId(1)), WatchState::default());
        table.set_place(stream, 77);
        for image in Image::ALL {
            for bits in 0..=Facts::ALL {
                let state = WatchState { image, facts: Facts(bits) };
                table.change(stream, |_| state);
                assert_eq!(table.watch(stream), Some((77, state)));
            }
        }
    }

    #[test]
    fn an_answer_that_is_broken_off_is_owed_as_before() {
        let asked = WatchState::opened(false, false);
        let answering = asked.image_begins(true, false);
        assert!(answering.is_in_set() && answering.is_set_solicited() && !answering.is_asked());
        assert!(answering.pause().is_asked() && answering.pause().is_paused());
        assert!(answering.ask().image_whole().is_asked(), "another one was asked for");
        assert_eq!(answering.image_whole().leave_set().image, Image::Settled);
        let arriving = answering.image_whole().image_begins(false, false);
        assert!(arriving.is_in_set() && !arriving.is_set_solicited() && !arriving.leave_set().is_asked());
    }
}
