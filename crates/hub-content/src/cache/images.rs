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

/// The place of an item number.
#[derive(Debug, Default)]
struct Place {
    /// The image, if the item is cached and the image not taken out.
    image: Option<Box<Cached>>,
    /// Where the item stands among those that are cached, by when they were wanted. Meaningless for one that is not.
    wanted: Neighbours,
}

/// Item numbers beside one in the order in which they were last wanted.
#[derive(Debug, Default, Clone, Copy)]
struct Neighbours {
    before: u32,
    behind: u32,
}

/// No item: there are never as many.
const NOBODY: u32 = u32::MAX;

/// The images of cached items, by item number.
///
/// INVARIANT: from `longest_ago` on, `wanted.behind` leads over all items that are cached to `lately`, and `wanted.before` back.
#[derive(Debug)]
pub struct Cache {
    places: Vec<Place>,
    /// The item that was wanted longest ago, and the one that was wanted last.
    longest_ago: u32,
    lately: u32,
    /// Items that are cached.
    len: usize,
    /// Most items that are cached at a time; 0 for any number.
    max: usize,
}

impl Default for Cache {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Cache {
    /// A cache of so many items; 0 for any number.
    pub const fn new(max: usize) -> Self {
        Self { places: Vec::new(), longest_ago: NOBODY, lately: NOBODY, len: 0, max }
    }

    /// Items that are cached.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no item is cached.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The image of an item that is cached.
    #[inline]
    pub fn get(&self, item: u32) -> Option<&Cached> {
        self.places.get(item as usize)?.image.as_deref()
    }

    #[inline]
    fn get_mut(&mut self, item: u32) -> Option<&mut Cached> {
        self.places.get_mut(item as usize)?.image.as_deref_mut()
    }

    /// An item is cached from now on. If the cache was full, the item that was wanted longest ago is not cached any more: tells which.
    pub fn add(&mut self, item: u32) -> Option<u32> {
        debug_assert!(self.get(item).is_none() && item != NOBODY, "an item is cached once");
        let victim = (self.max > 0 && self.len >= self.max).then_some(self.longest_ago);
        if let Some(victim) = victim {
            self.remove(victim);
        }
        let at = item as usize;
        if self.places.len() <= at {
            self.places.resize_with(at + 1, Place::default);
        }
        self.places[at].image =
            Some(Box::new(Cached { image: Image::new(), standing: Standing::Blank, is_next_locked: false }));
        self.append(item);
        victim
    }

    /// An item is not cached any more.
    pub fn remove(&mut self, item: u32) {
        if self.places.get_mut(item as usize).and_then(|place| place.image.take()).is_some() {
            self.unlink(item);
        }
    }

    /// The item is the one that was wanted last.
    fn append(&mut self, item: u32) {
        let before = std::mem::replace(&mut self.lately, item);
        self.places[item as usize].wanted = Neighbours { before, behind: NOBODY };
        match self.places.get_mut(before as usize) {
            Some(place) => place.wanted.behind = item,
            None => self.longest_ago = item,
        }
        self.len += 1;
    }

    fn unlink(&mut self, item: u32) {
        let Neighbours { before, behind } = self.places[item as usize].wanted;
        match self.places.get_mut(before as usize) {
            Some(place) => place.wanted.behind = behind,
            None => self.longest_ago = behind,
        }
        match self.places.get_mut(behind as usize) {
            Some(place) => place.wanted.before = before,
            None => self.lately = before,
        }
        self.len -= 1;
    }

    /// True if an item is cached.
    #[inline]
    pub fn has(&self, item: u32) -> bool {
        self.get(item).is_some()
    }

    /// The items that are cached, that which was wanted longest ago first.
    pub fn items(&self) -> impl Iterator<Item = u32> + '_ {
        let behind = |item: &u32| self.places.get(*item as usize).map(|place| place.wanted.behind);
        std::iter::successors(Some(self.longest_ago), behind).take(self.len)
    }

    /// Someone wants the image of a cached item.
    pub fn touch(&mut self, item: u32) {
        if self.has(item) && self.lately != item {
            self.unlink(item);
            self.append(item);
        }
    }

    /// Takes an image out while it is given out; [`Self::put_back`] ends that.
    pub fn take(&mut self, item: u32) -> Option<Box<Cached>> {
        self.places.get_mut(item as usize)?.image.take()
    }

    /// Puts an image back that was taken out. If its item is not cached any more, the image is dropped.
    pub fn put_back(&mut self, item: u32, cached: Box<Cached>, is_cached: bool) {
        if is_cached {
            debug_assert!(self.get(item).is_none(), "another image in the place of one that was taken out");
            self.places[item as usize].image = Some(cached);
        } else {
            self.unlink(item);
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
        let cached = self.places.iter().filter(|place| place.image.is_some()).count();
        assert_eq!(cached, self.len, "cached items");
        let mut before = NOBODY;
        for item in self.items() {
            assert!(self.has(item), "item {item} was wanted, and is not cached");
            assert_eq!(self.places[item as usize].wanted.before, before, "who was wanted before item {item}");
            before = item;
        }
        assert_eq!(self.lately, before, "who was wanted last");
        assert!(self.max == 0 || cached <= self.max, "{cached} items in a cache of {}", self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::{Cache, Schema};
    use rwf::container::FieldListEncoder;
    use rwf::dictionary::Dictionary;
    use rwf::msg::{Domain, RefreshFlags, RefreshMsg, UpdateMsg};
    use rwf::wire::Writer;
    use rwf::{DataState, DataType, EncodeError, MapAction, MapEncoder, MapHead, Primitive, Real, RealHint, State};

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

    /// Updates are applied in the memory that is there, as they come in a running feed: values of other lengths, fields that ripple, levels of a
    /// book that go and come.
    #[test]
    fn updates_are_applied_without_a_single_allocation() {
        let dictionary = Dictionary::builtin();
        let schema = Schema { dictionary: Some(&dictionary), ripple: true, ..Schema::NONE };
        // Bid and ask, what they ripple to, and their sizes.
        let quote = |price: i64, size: i64| {
            encoded(|w| {
                let mut fields = FieldListEncoder::begin(w)?;
                for fid in [22, 25] {
                    fields.real(fid, Real::new(price, RealHint::EXPONENT_2))?;
                }
                for fid in [30, 31] {
                    fields.real(fid, Real::new(size, RealHint::EXPONENT0))?;
                }
                fields.finish()
            })
        };
        let image = encoded(|w| {
            let mut fields = FieldListEncoder::begin(w)?;
            for fid in [22, 23, 24, 25, 26, 27, 30, 31] {
                fields.real(fid, Real::new(1_000_000, RealHint::EXPONENT_2))?;
            }
            fields.finish()
        });
        let book = |levels: &[(MapAction, u64, i64)]| {
            encoded(|w| {
                let mut map = MapEncoder::begin(w, MapHead::new(DataType::UINT, DataType::FIELD_LIST))?;
                for (action, level, size) in levels {
                    map.entry(*action, &Primitive::UInt(*level), |w| {
                        let mut fields = FieldListEncoder::begin(w)?;
                        fields.real(4356, Real::new(*size, RealHint::EXPONENT0))?;
                        fields.finish()
                    })?;
                }
                map.finish()
            })
        };
        let mut cache = Cache::new(0);
        let levels: Vec<_> = (0..20).map(|level| (MapAction::ADD, level, 1_000)).collect();
        for (item, container, body) in [(1, DataType::FIELD_LIST, image), (2, DataType::MAP, book(&levels))] {
            cache.add(item);
            let flags = RefreshFlags::REFRESH_COMPLETE;
            let refresh = RefreshMsg { flags, container, body: &body, ..RefreshMsg::new(Domain::MARKET_PRICE, 5) };
            cache.refresh(item, true, &refresh, &schema).unwrap();
        }
        let message = |container, body: Vec<u8>| {
            encoded(|w| UpdateMsg { container, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) }.encode(w))
        };
        let changed: Vec<_> = (0..20).map(|level| (MapAction::UPDATE, level, 7 + level as i64)).collect();
        let (gone, back) = ((MapAction::DELETE, 19, 0), (MapAction::ADD, 19, 1_000));
        let updates = [
            (1, message(DataType::FIELD_LIST, quote(40_150, 18))),
            (1, message(DataType::FIELD_LIST, quote(7, 100_000))),
            (1, message(DataType::FIELD_LIST, quote(999_999, 1))),
            (2, message(DataType::MAP, book(&changed))),
            (2, message(DataType::MAP, book(&[gone]))),
            (2, message(DataType::MAP, book(&[back, (MapAction::UPDATE, 3, 1_000)]))),
        ];
        let mut turn = || {
            for (item, update) in &updates {
                cache.update(*item, update, &schema).unwrap();
            }
        };
        turn();
        let counted = allocation_counter::measure(|| (0..50).for_each(|_| turn()));
        assert_eq!(counted.count_total, 0, "{counted:?}");
    }

    fn encoded(write: impl FnMut(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
        let mut out = Vec::new();
        crate::encode::append(&mut out, 4_096, write).unwrap();
        out
    }

    #[test]
    fn images_are_where_they_belong_whoever_is_wanted() {
        let mut cache = Cache::new(5);
        let mut wanted: Vec<u32> = Vec::new();
        let mut seed = 7_u32;
        for _ in 0..3_000 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (item, what) = (seed >> 20 & 7, seed >> 28);
            let known = wanted.iter().position(|&other| other == item).map(|at| wanted.remove(at)).is_some();
            match (known, what) {
                (true, 0..4) => cache.remove(item),
                (true, 4..6) => {
                    let taken = cache.take(item).unwrap();
                    cache.put_back(item, taken, false);
                }
                (true, _) => {
                    cache.touch(item);
                    wanted.push(item);
                }
                (false, _) => {
                    let victim = (wanted.len() == 5).then(|| wanted.remove(0));
                    assert_eq!(cache.add(item), victim);
                    wanted.push(item);
                }
            }
            cache.check();
            assert!(cache.items().eq(wanted.iter().copied()), "{wanted:?}");
        }
    }

    #[test]
    fn a_cached_item_costs_little_beside_its_image() {
        // 128 bytes beside the image's: the allocator's heads and rounding are to fit, too (112 bytes for 89 to 104).
        assert!(size_of::<super::Cached>() <= 104, "{}", size_of::<super::Cached>());
        assert!(size_of::<super::Place>() <= 16, "{}", size_of::<super::Place>());
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
