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
use rwf::image::{Image, Payload, Schema};
use rwf::msg::{RefreshFlags, RefreshMsg, UpdateFlags, UpdateMsg};
use rwf::{DataState, State, StateCode, StreamState};
use std::collections::BTreeMap;

/// State of the image of an item that was lost, until somebody says more of the loss.
const LOST: State<'static> = State {
    stream: StreamState::OPEN,
    data: DataState::SUSPECT,
    code: StateCode::NONE,
    text: b"The item was lost; it is asked for again by itself.",
};

/// What a cached image is worth. See the table of the module.
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
    /// When it was last wanted: the cache's count of such moments.
    used: u64,
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
    /// What the item holds.
    pub payload: &'a Payload,
}

/// Something could not be applied to a cached image, which is not given out before the next refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotApplied;

/// The images of cached items, by item number.
#[derive(Debug, Default)]
pub struct Cache {
    items: Vec<Option<Box<Cached>>>,
    /// Item numbers by when they were last wanted, the longest ago first.
    by_use: BTreeMap<u64, u32>,
    uses: u64,
    /// Most items that are cached at a time; 0 for any number.
    max: usize,
}

impl Cache {
    /// A cache of so many items; 0 for any number.
    pub fn new(max: usize) -> Self {
        Self { max, ..Self::default() }
    }

    /// Items that are cached.
    pub fn len(&self) -> usize {
        self.by_use.len()
    }

    /// Whether no item is cached.
    pub fn is_empty(&self) -> bool {
        self.by_use.is_empty()
    }

    /// The image of an item that is cached.
    pub fn get(&self, item: u32) -> Option<&Cached> {
        self.items.get(item as usize)?.as_deref()
    }

    fn get_mut(&mut self, item: u32) -> Option<&mut Cached> {
        self.items.get_mut(item as usize)?.as_deref_mut()
    }

    /// An item is cached from now on. If the cache was full, the item that was wanted longest ago is not cached any more: tells which.
    pub fn add(&mut self, item: u32) -> Option<u32> {
        debug_assert!(self.get(item).is_none(), "an item is cached once");
        let full = self.max > 0 && self.len() >= self.max;
        let victim = if full { self.by_use.first_key_value().map(|(_, &item)| item) } else { None };
        if let Some(victim) = victim {
            self.remove(victim);
        }
        let at = item as usize;
        if self.items.len() <= at {
            self.items.resize_with(at + 1, || None);
        }
        self.uses += 1;
        self.by_use.insert(self.uses, item);
        let (image, standing, used) = (Image::new(), Standing::Blank, self.uses);
        self.items[at] = Some(Box::new(Cached { image, standing, is_next_locked: false, used }));
        victim
    }

    /// An item is not cached any more.
    pub fn remove(&mut self, item: u32) {
        if let Some(cached) = self.items.get_mut(item as usize).and_then(Option::take) {
            let known = self.by_use.remove(&cached.used);
            debug_assert_eq!(known, Some(item), "who was wanted when");
        }
    }

    /// True if an item is cached.
    pub fn has(&self, item: u32) -> bool {
        self.get(item).is_some()
    }

    /// The items that are cached.
    pub fn items(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_use.values().copied()
    }

    /// Someone wants the image of a cached item.
    pub fn touch(&mut self, item: u32) {
        self.uses += 1;
        let now = self.uses;
        if let Some(cached) = self.get_mut(item) {
            let before = std::mem::replace(&mut cached.used, now);
            self.by_use.remove(&before);
            self.by_use.insert(now, item);
        }
    }

    /// Takes an image out while it is given out; [`Self::put_back`] ends that.
    pub fn take(&mut self, item: u32) -> Option<Box<Cached>> {
        self.items.get_mut(item as usize)?.take()
    }

    /// Puts an image back that was taken out. If its item is not cached any more, the image is dropped.
    pub fn put_back(&mut self, item: u32, cached: Box<Cached>, is_cached: bool) {
        if is_cached {
            debug_assert!(self.get(item).is_none(), "another image in the place of one that was taken out");
            self.items[item as usize] = Some(cached);
        } else {
            self.by_use.remove(&cached.used);
        }
    }

    /// Takes in a part of an image, which is the first one of its set or is not.
    ///
    /// # Errors
    /// [`NotApplied`] if it does not fit the image that is held.
    pub fn refresh(
        &mut self,
        item: u32,
        first: bool,
        part: &RefreshMsg<'_>,
        schema: &Schema<'_>,
    ) -> Result<(), NotApplied> {
        let Some(cached) = self.get_mut(item) else { return Ok(()) };
        if first {
            // Whatever was under way will not be completed.
            cached.image.abandon_refresh();
            cached.is_next_locked = false;
        } else if !cached.image.is_refreshing() {
            // The rest of a set that began before the item was cached, or that is not to be cached.
            return Ok(());
        }
        cached.is_next_locked |= may_have_entry_locks(part.container, part.body);
        let applied = cached.image.refresh(part, schema);
        if !cached.image.is_whole() {
            cached.standing = Standing::Blank;
        } else if part.flags.contains(RefreshFlags::REFRESH_COMPLETE) {
            // Locks of entries are not part of a held image.
            cached.standing = if cached.is_next_locked { Standing::Blank } else { Standing::Current };
        }
        applied.map_err(|_| NotApplied)
    }

    /// Takes in an update, as the provider has written it.
    ///
    /// # Errors
    /// [`NotApplied`] if it does not fit the image that is held.
    #[inline]
    pub fn update(&mut self, item: u32, rwf: &[u8], schema: &Schema<'_>) -> Result<(), NotApplied> {
        let Some(cached) = self.get_mut(item) else { return Ok(()) };
        let Ok(update) = UpdateMsg::decode(rwf) else {
            cached.standing = Standing::Blank;
            return Err(NotApplied);
        };
        if cached.standing == Standing::Stale {
            cached.image.update_next(&update, schema);
            return Ok(());
        }
        let applied = cached.image.update(&update, schema);
        if applied.is_err() {
            cached.standing = Standing::Blank;
        }
        applied.map_err(|_| NotApplied)
    }

    /// Takes in an update with a lock: what it brings is not for everyone who may see the item, so the image is not given out before the
    /// next refresh.
    ///
    /// # Errors
    /// [`NotApplied`] if it does not fit the image that is held.
    pub fn locked_update(&mut self, item: u32, rwf: &[u8], schema: &Schema<'_>) -> Result<(), NotApplied> {
        let applied = self.update(item, rwf, schema);
        if let Some(cached) = self.get_mut(item)
            && UpdateMsg::decode(rwf).is_ok_and(|update| !update.flags.contains(UpdateFlags::DO_NOT_CACHE))
        {
            cached.standing = Standing::Blank;
            cached.is_next_locked |= cached.image.is_refreshing();
        }
        applied
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
        let cached = self.items.iter().flatten().count();
        assert_eq!(cached, self.by_use.len(), "cached items, and when they were wanted");
        for (&used, &item) in &self.by_use {
            assert_eq!(self.get(item).map(|cached| cached.used), Some(used), "when item {item} was wanted");
        }
        assert!(self.max == 0 || cached <= self.max, "{cached} items in a cache of {}", self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::{Cache, Schema};
    use rwf::container::FieldListEncoder;
    use rwf::msg::{Domain, RefreshFlags, RefreshMsg};
    use rwf::wire::Writer;
    use rwf::{DataState, DataType, State};

    /// A part of the image that follows a loss may say that the item is good. If that is lost, too, what is left is of before the first loss.
    #[test]
    fn what_is_lost_again_is_suspect_again() {
        let mut buffer = [0; 64];
        let mut writer = Writer::new(&mut buffer);
        let mut fields = FieldListEncoder::begin(&mut writer).unwrap();
        fields.uint(22, 1).unwrap();
        fields.finish().unwrap();
        let body = writer.written();
        let part = |flags, part_num| RefreshMsg {
            flags,
            state: State::OPEN_OK,
            part_num,
            container: DataType::FIELD_LIST,
            body,
            ..RefreshMsg::new(Domain::MARKET_PRICE, 5)
        };
        let mut cache = Cache::new(0);
        cache.add(1);
        cache.refresh(1, true, &part(RefreshFlags::REFRESH_COMPLETE, None), &Schema::NONE).unwrap();
        assert!(cache.get(1).unwrap().current().is_some());
        cache.lose(1);
        cache.refresh(1, true, &part(RefreshFlags::NONE, Some(0)), &Schema::NONE).unwrap();
        cache.lose(1);
        let stale = cache.get(1).unwrap().stale().expect("an image of before");
        assert_eq!(stale.image.state().data, DataState::SUSPECT);
    }

    #[test]
    fn the_item_that_was_wanted_longest_ago_makes_room() {
        let mut cache = Cache::new(2);
        assert_eq!(cache.add(7), None);
        assert_eq!(cache.add(3), None);
        cache.touch(7);
        assert_eq!(cache.add(5), Some(3));
        assert_eq!(cache.add(3), Some(7));
        cache.remove(5);
        assert_eq!(cache.add(9), None);
        assert_eq!(cache.len(), 2);
        cache.check();
        assert!(cache.get(7).is_none() && cache.get(3).is_some());
    }

    #[test]
    fn an_image_that_is_given_out_comes_back_or_goes() {
        let mut cache = Cache::new(0);
        cache.add(1);
        let taken = cache.take(1).unwrap();
        cache.put_back(1, taken, true);
        cache.check();
        let taken = cache.take(1).unwrap();
        cache.put_back(1, taken, false);
        assert_eq!(cache.len(), 0);
        cache.check();
    }
}
