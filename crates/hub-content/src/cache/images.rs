//! The images that a cache holds.
//!
//! # What a cached image is worth
//!
//! | [`Standing`] | The image is | Updates | Next |
//! |---|---|---|---|
//! | `Blank` | not to be given: none was whole since the item is cached, or it holds what not everyone may see | applied | `Current` (a whole refresh) |
//! | `Current` | what the provider would send | applied | `Stale` (the item is lost), `Blank` (an update has a lock, or cannot be applied) |
//! | `Stale` | of before a loss | not applied: they go on from something else | `Current` (a whole refresh) |

use crate::stream::may_have_entry_locks;
use rwf::dictionary::Dictionary;
use rwf::image::{Ahead, Image, Latest, Payload, Plans, Schema};
use rwf::msg::{RefreshFlags, RefreshMsg, UpdateFlags, UpdateMsg};
use rwf::page::PageSize;
use rwf::{DataState, State, StateCode, StreamState};
use std::sync::Arc;

/// State of the image of an item that was lost, until somebody says more of the loss.
const LOST: State<'static> = State {
    stream: StreamState::OPEN,
    data: DataState::SUSPECT,
    code: StateCode::NONE,
    text: b"The item was lost; it is asked for again by itself.",
};

/// The worth of a cached image. See the table of the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing that could be given out.
    Blank,
    /// The item as it is.
    Current,
    /// The item as it was when it was lost.
    Stale,
}

/// The image of a cached item.
#[derive(Debug)]
pub struct Cached {
    image: Image,
    standing: Standing,
    /// Parts of the refresh under way have locks of their own.
    is_next_locked: bool,
}

impl Cached {
    /// The image, if it is what the provider would send.
    pub fn current(&self) -> Option<Whole<'_>> {
        self.whole(Standing::Current)
    }

    /// The image, if it is of before a loss.
    pub fn stale(&self) -> Option<Whole<'_>> {
        self.whole(Standing::Stale)
    }

    /// The image, whatever it is worth.
    pub const fn image(&self) -> &Image {
        &self.image
    }

    fn whole(&self, standing: Standing) -> Option<Whole<'_>> {
        let payload = self.image.payload().filter(|payload| self.standing == standing && payload.is_sound())?;
        Some(Whole { image: &self.image, payload })
    }
}

/// An image that can be given out.
#[derive(Debug, Clone, Copy)]
pub struct Whole<'a> {
    /// Head and state.
    pub image: &'a Image,
    /// The item's contents.
    pub payload: &'a Payload,
}

/// Where an image is held, and who was wanted before and after its item. Two lines of memory as processors read it, and no third.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Place {
    /// The image, if it is not taken out and the place not free.
    image: Option<Cached>,
    /// The image's item.
    item: u32,
    wanted: Neighbours,
}

impl Place {
    /// Has both of its lines come near.
    #[inline]
    fn look(&self) -> u32 {
        self.item ^ u32::from(self.image.is_some())
    }
}

/// Places beside one in the order in which their items were last wanted.
#[derive(Debug, Default, Clone, Copy)]
struct Neighbours {
    before: u32,
    behind: u32,
}

/// No item, no place: there are never as many.
const NOBODY: u32 = u32::MAX;

/// What comes of an item before its image is wanted: its last update, and whose it is. Two lines of memory; the first one is all that most updates touch of an item.
#[derive(Debug)]
#[repr(C, align(128))]
struct Beside {
    /// The item of the place, [`NOBODY`] if the place is free.
    item: u32,
    latest: Latest,
}

const _: () = assert!(size_of::<Beside>() == 128, "two lines of memory");

impl Default for Beside {
    fn default() -> Self {
        Self { latest: Latest::default(), item: NOBODY }
    }
}

/// All places, used and free, in one table: its memory moves by pages when it grows, and lies in huge ones (`net::huge_pages`).
#[derive(Debug, Default)]
struct Places {
    all: Vec<Place>,
    /// By place.
    beside: Vec<Beside>,
    free: Vec<u32>,
}

impl Places {
    #[inline]
    fn get(&self, place: u32) -> &Place {
        &self.all[place as usize]
    }

    #[inline]
    fn get_mut(&mut self, place: u32) -> &mut Place {
        &mut self.all[place as usize]
    }

    /// A place that nobody has: the item's own, which has its number, if it is the next one that there is none of yet, or the first of those that are free.
    fn take(&mut self, item: u32) -> u32 {
        let next = self.all.len() as u32;
        if item != next
            && let Some(place) = self.free.pop()
        {
            return place;
        }
        self.all.push(Place::default());
        self.beside.push(Beside::default());
        next
    }

    /// True if an item lies in its own place. Where all items are cached nearly all do, and nobody has to look for where they are.
    #[inline]
    fn is_at_home(&self, item: u32) -> bool {
        self.beside.get(item as usize).is_some_and(|place| place.item == item)
    }

    /// The update that is kept beside an image goes into it, if there is one.
    #[inline]
    fn take_in(&mut self, place: u32, plans: &mut Plans) {
        let Beside { latest, .. } = &mut self.beside[place as usize];
        if !latest.is_due() {
            return;
        }
        let Some(cached) = &mut self.all[place as usize].image else {
            hub_items::fault!("an update is kept beside an image that is not there: place {place}");
            return;
        };
        if let Err(error) = cached.image.take_in(latest, plans) {
            cached.standing = Standing::Blank;
            hub_items::fault!("an update was kept that cannot be applied: {error}");
        }
    }

    /// Updates may be kept beside an image from now on, where they would be applied to it.
    #[inline]
    fn open(&mut self, place: u32, plans: &Plans) {
        let Beside { latest, .. } = &mut self.beside[place as usize];
        match &self.all[place as usize].image {
            Some(cached) if cached.standing != Standing::Stale => cached.image.open(latest, plans),
            _ => latest.close(),
        }
    }
}

/// Updates that wait to be applied, with their bytes.
///
/// To apply an update means to read an item's memory, which is in no cache of the processor where there are many items. So they are
/// applied some at a time, after a look at the memory of all of them: the processor then waits once, and not once for each.
#[derive(Debug, Default)]
struct Waiting {
    /// The messages, one behind the other.
    bytes: Vec<u8>,
    updates: Vec<WaitingUpdate>,
}

#[derive(Debug, Clone, Copy)]
struct WaitingUpdate {
    place: u32,
    /// Where its message ends; the one before ends where this one starts.
    end: u32,
    /// What is planned for it, once somebody has looked.
    ahead: Ahead,
}

/// Updates that wait at most, and bytes after which no more wait: what they touch is to stay in the nearest cache of the processor.
const MAX_WAITING: usize = 32;
const MAX_WAITING_BYTES: usize = 16 << 10;

/// The images of cached items, by item number.
///
/// An update has two ways. Most are kept beside their image, in place of the one that was kept there ([`Latest`]): they touch one line of memory or two. The others wait, and
/// are applied with others; from when one waits until it is applied none of its item is kept beside.
///
/// INVARIANT: what is kept beside an image and what waits goes into it, in this order, before anything else is read or changed of it: each method that does so begins
/// with [`Cache::settle`] or `bring_up`.
///
/// INVARIANT: from `longest_ago` on, `wanted.behind` leads over all items that are cached to `lately`, and `wanted.before` back.
#[derive(Debug)]
pub struct Cache {
    /// By item number, its place.
    index: Vec<u32>,
    places: Places,
    waiting: Waiting,
    /// What images are read with, and how updates are applied.
    plans: Plans,
    /// The place of the item that was wanted longest ago, and of the one that was wanted last.
    longest_ago: u32,
    lately: u32,
    /// Items that are cached.
    len: usize,
    /// Most items that are cached at a time; 0 for any number.
    max: usize,
    /// Messages that could not be applied.
    failures: u64,
}

impl Default for Cache {
    fn default() -> Self {
        Self::new(0, None)
    }
}

impl Cache {
    /// A cache of so many items; 0 for any number. Their fields are what the dictionary says, and ripple as it says.
    pub fn new(max: usize, dictionary: Option<Arc<Dictionary>>) -> Self {
        Self {
            index: Vec::new(),
            places: Places::default(),
            waiting: Waiting::default(),
            plans: Plans::new(dictionary),
            longest_ago: NOBODY,
            lately: NOBODY,
            len: 0,
            max,
            failures: 0,
        }
    }

    /// What comes from now on is read with another dictionary.
    pub fn set_dictionary(&mut self, dictionary: Arc<Dictionary>) {
        self.settle();
        self.take_in_all();
        self.plans = Plans::new(Some(dictionary));
    }

    /// Items that are cached.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no item is cached.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Messages since the last call that could not be applied: their images are not given out before the next refresh. Those among the
    /// updates that wait are not among them yet.
    pub const fn take_failures(&mut self) -> u64 {
        std::mem::replace(&mut self.failures, 0)
    }

    #[inline]
    fn place_of(&self, item: u32) -> Option<u32> {
        if self.places.is_at_home(item) {
            return Some(item);
        }
        self.index.get(item as usize).copied().filter(|place| *place != NOBODY)
    }

    /// Asks for the line beside the image of an item that is at home, before an update of it comes. Images themselves are looked at together, once
    /// updates wait for them.
    #[inline]
    pub fn ask_ahead(&self, item: u32) {
        lines::fetch(&[self.places.beside.as_ptr().wrapping_add(item as usize).cast()]);
    }

    /// The place of an item, whose image knows of every update from now on.
    fn bring_up(&mut self, item: u32) -> Option<u32> {
        self.settle();
        let place = self.place_of(item)?;
        self.places.take_in(place, &mut self.plans);
        Some(place)
    }

    /// As [`Self::bring_up`], of an image that will be changed: updates wait until somebody has looked at it again.
    fn bring_up_closed(&mut self, item: u32) -> Option<u32> {
        let place = self.bring_up(item)?;
        self.places.beside[place as usize].latest.close();
        Some(place)
    }

    /// The image of an item that is cached.
    #[inline]
    pub fn get(&mut self, item: u32) -> Option<&Cached> {
        let place = self.bring_up(item)?;
        self.places.get(place).image.as_ref()
    }

    /// Whether the image of an item is one of before a loss that can be given out.
    ///
    /// # Panics
    /// Updates wait: a fault of the caller, who does not know of what they do.
    pub fn is_stale(&self, item: u32) -> bool {
        assert!(self.waiting.updates.is_empty(), "an image is read before the updates that wait for it");
        let cached = self.place_of(item).and_then(|place| self.places.get(place).image.as_ref());
        cached.is_some_and(|cached| cached.stale().is_some())
    }

    /// The image of an item, to be changed.
    fn get_mut(&mut self, item: u32) -> Option<&mut Cached> {
        let place = self.bring_up_closed(item)?;
        self.places.get_mut(place).image.as_mut()
    }

    /// An item is cached from now on. If the cache was full, the item that was wanted longest ago is not cached any more: tells which.
    pub fn add(&mut self, item: u32) -> Option<u32> {
        debug_assert!(!self.has(item) && item != NOBODY, "an item is cached once");
        self.settle();
        let oldest = (self.max > 0 && self.len >= self.max).then(|| self.places.get(self.longest_ago).item);
        if let Some(victim) = oldest {
            self.remove(victim);
        }
        let at = item as usize;
        if self.index.len() <= at {
            self.index.resize(at + 1, NOBODY);
        }
        let place = self.places.take(item);
        self.index[at] = place;
        let image = Some(Cached { image: Image::new(), standing: Standing::Blank, is_next_locked: false });
        *self.places.get_mut(place) = Place { image, item, wanted: Neighbours::default() };
        self.places.beside[place as usize] = Beside { latest: Latest::default(), item };
        self.append(place);
        oldest
    }

    /// An item is not cached any more.
    pub fn remove(&mut self, item: u32) {
        if let Some(place) = self.bring_up_closed(item)
            && self.places.get_mut(place).image.take().is_some()
        {
            self.give_back(item, place);
        }
    }

    /// The place of an item without an image is free.
    fn give_back(&mut self, item: u32, place: u32) {
        self.unlink(place);
        self.index[item as usize] = NOBODY;
        self.places.beside[place as usize].item = NOBODY;
        self.places.free.push(place);
    }

    /// The item is the one that was wanted last.
    fn append(&mut self, place: u32) {
        let before = std::mem::replace(&mut self.lately, place);
        self.places.get_mut(place).wanted = Neighbours { before, behind: NOBODY };
        if before == NOBODY {
            self.longest_ago = place;
        } else {
            self.places.get_mut(before).wanted.behind = place;
        }
        self.len += 1;
    }

    fn unlink(&mut self, place: u32) {
        let Neighbours { before, behind } = self.places.get(place).wanted;
        if before == NOBODY {
            self.longest_ago = behind;
        } else {
            self.places.get_mut(before).wanted.behind = behind;
        }
        if behind == NOBODY {
            self.lately = before;
        } else {
            self.places.get_mut(behind).wanted.before = before;
        }
        self.len -= 1;
    }

    /// True if an item is cached.
    #[inline]
    pub fn has(&self, item: u32) -> bool {
        self.place_of(item).is_some_and(|place| self.places.get(place).image.is_some())
    }

    /// The items that are cached, that which was wanted longest ago first.
    pub fn items(&self) -> impl Iterator<Item = u32> + '_ {
        let behind = |place: &u32| Some(self.places.get(*place).wanted.behind).filter(|place| *place != NOBODY);
        let first = Some(self.longest_ago).filter(|place| *place != NOBODY);
        std::iter::successors(first, behind).take(self.len).map(|place| self.places.get(place).item)
    }

    /// Someone wants the image of a cached item.
    pub fn touch(&mut self, item: u32) {
        if let Some(place) = self.place_of(item)
            && self.lately != place
            && self.has(item)
        {
            self.unlink(place);
            self.append(place);
        }
    }

    /// Takes an image out while it is given out; [`Self::put_back`] ends that.
    pub fn take(&mut self, item: u32) -> Option<Cached> {
        let place = self.bring_up_closed(item)?;
        self.places.get_mut(place).image.take()
    }

    /// Puts an image back that was taken out. If its item is not cached any more, the image is dropped.
    pub fn put_back(&mut self, item: u32, cached: Cached, is_cached: bool) {
        self.settle();
        let Some(place) = self.place_of(item) else { return };
        if is_cached {
            debug_assert!(!self.has(item), "another image in the place of one that was taken out");
            self.places.get_mut(place).image = Some(cached);
            self.places.open(place, &self.plans);
        } else {
            self.give_back(item, place);
        }
    }

    /// Takes in a part of an image, which is the first one of its set or is not. Pages that begin with it are of this size.
    pub fn refresh(&mut self, item: u32, first: bool, part: &RefreshMsg<'_>, page_size: PageSize) {
        let Some(place) = self.bring_up_closed(item) else { return };
        let Some(cached) = &mut self.places.get_mut(place).image else { return };
        if first {
            // Whatever was under way will not be completed.
            cached.image.abandon_refresh();
            cached.is_next_locked = false;
        } else if !cached.image.is_refreshing() {
            // The rest of a set that began before the item was cached, or that is not to be cached.
            return;
        }
        cached.is_next_locked |= may_have_entry_locks(part.container, part.body);
        let schema = Schema { page_size, ..self.plans.schema() };
        let applied = cached.image.refresh(part, &schema);
        if !cached.image.is_whole() {
            cached.standing = Standing::Blank;
        } else if part.flags.contains(RefreshFlags::REFRESH_COMPLETE) {
            // Locks of entries are not part of a held image.
            cached.standing = if cached.is_next_locked { Standing::Blank } else { Standing::Current };
            cached.image.note_layout(&mut self.plans);
        }
        self.failures += u64::from(applied.is_err());
        self.places.open(place, &self.plans);
        self.make_room_for_layouts();
    }

    /// Takes in an update, as the provider has written it: it is applied before anything else is done with the item. One of an item that is
    /// not cached is not looked at.
    #[inline]
    pub fn update(&mut self, item: u32, rwf: &[u8]) {
        let Some(place) = self.place_of(item) else { return };
        let Beside { latest, .. } = &mut self.places.beside[place as usize];
        if self.plans.keep(latest, rwf) {
            return;
        }
        latest.close();
        self.wait(place, rwf);
    }

    /// An update waits until it is applied with others.
    fn wait(&mut self, place: u32, rwf: &[u8]) {
        self.waiting.bytes.extend_from_slice(rwf);
        let end = self.waiting.bytes.len() as u32;
        self.waiting.updates.push(WaitingUpdate { place, end, ahead: Ahead::default() });
        if self.waiting.updates.len() >= MAX_WAITING || self.waiting.bytes.len() >= MAX_WAITING_BYTES {
            self.apply_waiting();
        }
    }

    /// Applies the updates that wait. Whoever reads an image has that done; at the end of a turn it is due, so that none waits for long.
    #[inline]
    pub fn settle(&mut self) {
        if !self.waiting.updates.is_empty() {
            self.apply_waiting();
        }
    }

    #[inline(never)]
    fn apply_waiting(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        self.look_at_images(&mut waiting);
        let mut start = 0;
        for update in &waiting.updates {
            let end = update.end as usize;
            self.apply(*update, &waiting.bytes[start..end]);
            start = end;
        }
        waiting.bytes.clear();
        waiting.updates.clear();
        self.waiting = waiting;
        self.make_room_for_layouts();
    }

    /// Where layouts are to be forgotten, nothing may be kept beside images that is put into them by what is planned for those layouts.
    #[inline]
    fn make_room_for_layouts(&mut self) {
        if self.plans.is_to_begin_anew() {
            self.take_in_all();
            self.plans.begin_anew();
        }
    }

    /// All that is kept beside images goes into them.
    #[inline(never)]
    fn take_in_all(&mut self) {
        for place in 0..self.places.all.len() as u32 {
            self.places.take_in(place, &mut self.plans);
        }
    }

    /// Three looks at the images of the updates that wait, each at all of them: where the image is; what is planned for the update, as the image's layout
    /// has it; the bytes that the plan names. No look of one kind depends on another one of it, so that the processor has many of them under way at a time.
    #[inline]
    fn look_at_images(&self, waiting: &mut Waiting) {
        let Waiting { bytes, updates } = waiting;
        let mut seen = updates.iter().fold(0, |seen, update| seen ^ self.places.get(update.place).look());
        let mut start = 0;
        for update in &mut *updates {
            let end = update.end as usize;
            if let Some(cached) = &self.places.get(update.place).image {
                update.ahead = cached.image.ahead(&bytes[start..end], &self.plans);
            }
            start = end;
        }
        for update in &*updates {
            if let Some(cached) = &self.places.get(update.place).image {
                seen ^= u32::from(cached.image.touch(update.ahead, &self.plans));
            }
        }
        std::hint::black_box(seen);
    }

    #[inline]
    fn apply(&mut self, WaitingUpdate { place, ahead, .. }: WaitingUpdate, rwf: &[u8]) {
        let Self { places, plans, failures, .. } = self;
        places.take_in(place, plans);
        let Some(cached) = &mut places.get_mut(place).image else { return };
        let applied = if cached.standing == Standing::Stale {
            UpdateMsg::decode(rwf).map(|update| cached.image.update_next(&update, &plans.schema())).is_ok()
        } else {
            cached.image.update_ahead(rwf, plans, ahead).is_ok()
        };
        if !applied {
            cached.standing = Standing::Blank;
            *failures += 1;
        }
        places.open(place, plans);
    }

    /// Takes in an update with a lock: what it brings is not for everyone who may see the item, so the image is not given out before the
    /// next refresh.
    pub fn locked_update(&mut self, item: u32, rwf: &[u8]) {
        self.update(item, rwf);
        if let Some(cached) = self.get_mut(item)
            && UpdateMsg::decode(rwf).is_ok_and(|update| !update.flags.contains(UpdateFlags::DO_NOT_CACHE))
        {
            cached.standing = Standing::Blank;
            cached.is_next_locked |= cached.image.is_refreshing();
        }
    }

    /// The watchers of an item are told a state.
    pub fn set_state(&mut self, item: u32, state: &State<'_>) {
        if let Some(cached) = self.get_mut(item) {
            cached.image.set_state(state);
        }
    }

    /// A status brings the permission data of an item.
    pub fn set_perm_data(&mut self, item: u32, perm_data: &[u8]) {
        if let Some(cached) = self.get_mut(item) {
            cached.image.set_perm_data(perm_data);
        }
    }

    /// An item is lost, or messages of it are: its image is of before that.
    pub fn lose(&mut self, item: u32) {
        if let Some(cached) = self.get_mut(item) {
            cached.image.abandon_refresh();
            if cached.standing != Standing::Blank {
                cached.standing = Standing::Stale;
                // Parts of an image that was to follow an earlier loss may have said that the item is good.
                cached.image.set_state(&LOST);
            }
        }
    }

    /// What is held of an item is of no use.
    pub fn blank(&mut self, item: u32) {
        if let Some(cached) = self.get_mut(item) {
            cached.image.abandon_refresh();
            cached.standing = Standing::Blank;
        }
    }

    /// Panics if the tables do not fit together.
    pub fn check(&self) {
        let placed = self.index.iter().filter(|place| **place != NOBODY).count();
        assert_eq!(placed, self.len, "items that have a place");
        assert_eq!(placed + self.places.free.len(), self.places.all.len(), "places, used and free");
        let due = self.places.beside.iter().filter(|beside| beside.latest.is_due()).count();
        assert_eq!(due, self.plans.kept(), "updates that are kept beside images");
        let mut before = NOBODY;
        for item in self.items() {
            assert!(self.has(item), "item {item} was wanted, and is not cached");
            let place = self.place_of(item).expect("an item that is cached has a place");
            assert_eq!(self.places.get(place).wanted.before, before, "who was wanted before item {item}");
            assert_eq!(self.index[item as usize], place, "item {item} lies where the index does not say");
            assert_eq!(self.places.beside[place as usize].item, item, "whose update is kept beside item {item}");
            before = place;
        }
        assert_eq!(self.lately, before, "who was wanted last");
        assert!(self.max == 0 || self.len <= self.max, "{} items in a cache of {}", self.len, self.max);
        for update in &self.waiting.updates {
            assert!(self.places.get(update.place).image.is_some(), "an update waits for an image that is not held");
        }
    }
}

#[cfg(test)]
mod tests;
