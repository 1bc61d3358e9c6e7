//! Images that come and go, and updates that wait for them.

use super::{Beside, Cache, Cached, MAX_WAITING, Place, Standing};
use proptest::prelude::*;
use rwf::container::FieldListEncoder;
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, RefreshFlags, RefreshMsg, UpdateFlags, UpdateMsg};
use rwf::page::PageSize;
use rwf::wire::Writer;
use rwf::{DataState, DataType, EncodeError, MapAction, MapEncoder, MapHead, Primitive, Real, RealHint, State};
use std::sync::{Arc, LazyLock};

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
    let mut cache = Cache::new(0, None);
    cache.add(1);
    cache.refresh(1, true, &part(RefreshFlags::REFRESH_COMPLETE, None), PageSize::DEFAULT);
    assert!(cache.get(1).unwrap().current().is_some());
    cache.lose(1);
    cache.refresh(1, true, &part(RefreshFlags::NONE, Some(0)), PageSize::DEFAULT);
    cache.lose(1);
    let stale = cache.get(1).unwrap().stale().expect("an image of before");
    assert_eq!(stale.image.state().data, DataState::SUSPECT);
}

/// Updates are applied in the memory that is there, as they come in a running feed: values of other lengths, fields that ripple, levels of a
/// book that go and come.
#[test]
fn updates_are_applied_without_a_single_allocation() {
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
    let mut cache = Cache::new(0, Some(Arc::new(Dictionary::builtin())));
    let levels: Vec<_> = (0..20).map(|level| (MapAction::ADD, level, 1_000)).collect();
    for (item, container, body) in [(1, DataType::FIELD_LIST, image), (2, DataType::MAP, book(&levels))] {
        cache.add(item);
        let flags = RefreshFlags::REFRESH_COMPLETE;
        let refresh = RefreshMsg { flags, container, body: &body, ..RefreshMsg::new(Domain::MARKET_PRICE, 5) };
        cache.refresh(item, true, &refresh, PageSize::DEFAULT);
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
            cache.update(*item, update);
        }
        cache.settle();
        assert_eq!(cache.take_failures(), 0);
    };
    // Then all layouts are known that come.
    (0..3).for_each(|_| turn());
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
    let mut cache = Cache::new(5, None);
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
    // Two lines of memory, and four bytes in the index of a table that has twice the room that it needs; images are allocated with an
    // eighth of spare room.
    assert!(size_of::<Place>() <= 128, "{}", size_of::<Place>());
    // And two for the last update, of which most touch the first one alone.
    assert_eq!((size_of::<Beside>(), std::mem::offset_of!(Beside, item)), (128, 0));
}

#[test]
fn the_item_that_was_wanted_longest_ago_makes_room() {
    let mut cache = Cache::new(2, None);
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
    let mut cache = Cache::new(0, None);
    cache.add(1);
    let taken = cache.take(1).unwrap();
    cache.put_back(1, taken, true);
    cache.check();
    let taken = cache.take(1).unwrap();
    cache.put_back(1, taken, false);
    assert_eq!(cache.len(), 0);
    cache.check();
}

/// What a test does with an item.
#[derive(Debug, Clone)]
enum Step {
    Update { seed: u8, locked: bool, flags: UpdateFlags },
    Alike(u8),
    Malformed,
    Refresh { seed: u8, complete: bool },
    State(DataState),
    PermData(u8),
    Lose,
    Blank,
    Uncache,
    TakeOut,
    Read,
    Settle,
    NewDictionary,
}

fn step() -> impl Strategy<Value = Step> {
    let flags = prop_oneof![
        6 => Just(UpdateFlags::NONE),
        1 => Just(UpdateFlags::DO_NOT_RIPPLE),
        1 => Just(UpdateFlags::DO_NOT_CACHE),
    ];
    let update = (any::<u8>(), prop::bool::weighted(0.05), flags);
    prop_oneof![
        40 => any::<u8>().prop_map(Step::Alike),
        60 => update.prop_map(|(seed, locked, flags)| Step::Update { seed, locked, flags }),
        1 => Just(Step::Malformed),
        4 => (any::<u8>(), prop::bool::weighted(0.7)).prop_map(|(seed, complete)| Step::Refresh { seed, complete }),
        1 => prop_oneof![Just(DataState::OK), Just(DataState::SUSPECT)].prop_map(Step::State),
        1 => any::<u8>().prop_map(Step::PermData),
        1 => Just(Step::Lose),
        1 => Just(Step::Blank),
        1 => Just(Step::Uncache),
        1 => Just(Step::TakeOut),
        4 => Just(Step::Read),
        1 => Just(Step::Settle),
        1 => Just(Step::NewDictionary),
    ]
}

/// Fields that ripple, texts and others; which of them, and how long they are, depends on the seed.
fn some_fields(seed: u8, most: bool) -> Vec<u8> {
    encoded(|w| {
        let mut fields = FieldListEncoder::begin(w)?;
        for (at, fid) in [25, 6, 7, 8, 22, 23, 3, 30].into_iter().enumerate() {
            let value = [b'a' + seed % 16; 6];
            let len = if seed >> 3 & 7 == at as u8 { 6 } else { 3 };
            if most || seed >> (at / 2) & 1 == 0 {
                fields.raw(fid, &value[..len])?;
            }
        }
        fields.finish()
    })
}

fn some_update(seed: u8, flags: UpdateFlags) -> Vec<u8> {
    let body = some_fields(seed, false);
    let (container, seq_num) = (DataType::FIELD_LIST, (!seed.is_multiple_of(4)).then_some(u32::from(seed)));
    let update = UpdateMsg { container, flags, seq_num, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) };
    encoded(|w| update.encode(w))
}

/// A part of an image; one that is not complete has others behind it.
fn refresh_with(cache: &mut Cache, item: u32, seed: u8, complete: bool) {
    let body = some_fields(seed, true);
    let flags = if complete { RefreshFlags::REFRESH_COMPLETE } else { RefreshFlags::NONE };
    let (state, container, part_num) = (State::OPEN_OK, DataType::FIELD_LIST, (!complete).then_some(0));
    let part =
        RefreshMsg { flags, state, container, part_num, body: &body, ..RefreshMsg::new(Domain::MARKET_PRICE, 5) };
    cache.refresh(item, true, &part, PageSize::DEFAULT);
}

fn take(cache: &mut Cache, item: u32, step: &Step) {
    match step {
        Step::Update { seed, locked: false, flags } => cache.update(item, &some_update(*seed, *flags)),
        Step::Update { seed, flags, .. } => cache.locked_update(item, &some_update(*seed, *flags)),
        Step::Alike(value) => cache.update(item, &alike(*value)),
        Step::Malformed => cache.update(item, &[0, 9, 4, 6, 0, 0, 0, 5]),
        Step::Refresh { seed, complete } => refresh_with(cache, item, *seed, *complete),
        Step::State(data) => cache.set_state(item, &State { data: *data, ..State::OPEN_OK }),
        Step::PermData(seed) => cache.set_perm_data(item, &[*seed]),
        Step::Lose => cache.lose(item),
        Step::Blank => cache.blank(item),
        Step::Uncache => cache.remove(item),
        Step::TakeOut => {
            if let Some(taken) = cache.take(item) {
                cache.put_back(item, taken, true);
            }
        }
        Step::NewDictionary => cache.set_dictionary(Arc::clone(&DICTIONARY)),
        Step::Settle => cache.settle(),
        Step::Read => {}
    }
    if !cache.has(item) {
        cache.add(item);
    }
}

/// All that there is to see of an item.
fn seen(cached: &Cached) -> (Vec<u8>, Standing, Option<u32>, bool) {
    let image = cached.image();
    let header = RefreshMsg::new(Domain::MARKET_PRICE, 5);
    let write = |w: &mut Writer<'_>| image.write(header.clone(), 0, usize::MAX, w).map(drop);
    let bytes = if image.is_whole() { encoded(write) } else { Vec::new() };
    (bytes, cached.standing, image.seq_num(), image.is_suspect())
}

static DICTIONARY: LazyLock<Arc<Dictionary>> = LazyLock::new(|| Arc::new(Dictionary::builtin()));

proptest! {
    /// Whatever is done with items, whose updates wait and are applied some at a time, they are what they are in a cache that applies
    /// everything at once.
    #[test]
    fn nothing_is_done_before_the_updates_that_wait(
        max in 3..6_usize,
        steps in prop::collection::vec((0..5_u32, step()), 1..200),
    ) {
        let dictionary = Some(Arc::clone(&*DICTIONARY));
        let (mut waiting, mut at_once) = (Cache::new(max, dictionary.clone()), Cache::new(max, dictionary));
        let mut failures = (0, 0);
        for (item, step) in &steps {
            take(&mut waiting, *item, step);
            take(&mut at_once, *item, step);
            at_once.settle();
            // Nothing is kept beside an image that is read.
            at_once.get(*item);
            prop_assert_eq!(waiting.has(*item), at_once.has(*item));
            if matches!(step, Step::Read) {
                prop_assert_eq!(waiting.get(*item).map(seen), at_once.get(*item).map(seen));
                waiting.check();
            }
        }
        waiting.settle();
        for item in 0..5 {
            prop_assert_eq!(waiting.get(item).map(seen), at_once.get(item).map(seen));
        }
        failures.0 += waiting.take_failures();
        failures.1 += at_once.take_failures();
        prop_assert_eq!(failures.0, failures.1);
        waiting.check();
    }
}

/// An image that is read without a word to those that wait is not one of before them.
#[test]
#[should_panic(expected = "before the updates that wait")]
fn nobody_looks_past_updates_that_wait() {
    let mut cache = Cache::new(0, None);
    cache.add(1);
    refresh_with(&mut cache, 1, 0, true);
    cache.update(1, &some_update(0, UpdateFlags::NONE));
    cache.is_stale(1);
}

/// An update of the fields of which the image is, with values that are as long.
fn alike(value: u8) -> Vec<u8> {
    let body = encoded(|w| {
        let mut fields = FieldListEncoder::begin(w)?;
        for fid in [6, 22, 30] {
            fields.raw(fid, &[value; 3])?;
        }
        fields.finish()
    });
    let (container, seq_num) = (DataType::FIELD_LIST, Some(u32::from(value)));
    encoded(|w| UpdateMsg { container, seq_num, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) }.encode(w))
}

/// Quote after quote lies beside the image, and goes into it when somebody reads it, or when another update comes that is not like it; also where values ripple.
#[test]
fn the_last_of_updates_that_are_alike_is_kept_beside_the_image() {
    for dictionary in [None, Some(&*DICTIONARY)] {
        for count in 1..6 {
            kept_beside(dictionary, b'b'..b'b' + count);
        }
    }
}

fn kept_beside(dictionary: Option<&Arc<Dictionary>>, values: std::ops::Range<u8>) {
    let last = values.end - 1;
    let schema = rwf::image::Schema {
        dictionary: dictionary.map(|known| &**known),
        ripple: dictionary.is_some(),
        ..rwf::image::Schema::NONE
    };
    let mut cache = Cache::new(0, dictionary.cloned());
    let mut plain = rwf::image::Image::new();
    for item in [1, 2] {
        cache.add(item);
        refresh_with(&mut cache, item, 0, true);
    }
    let refresh = RefreshMsg {
        container: DataType::FIELD_LIST,
        flags: RefreshFlags::REFRESH_COMPLETE,
        ..RefreshMsg::new(Domain::MARKET_PRICE, 5)
    };
    plain.refresh(&RefreshMsg { body: &some_fields(0, true), ..refresh }, &schema).unwrap();
    let apply = |plain: &mut rwf::image::Image, update: &[u8]| {
        plain.update(&UpdateMsg::decode(update).unwrap(), &schema).unwrap();
    };
    let written = |image: &rwf::image::Image| {
        let header = RefreshMsg::new(Domain::MARKET_PRICE, 5);
        encoded(|w| image.write(header.clone(), 0, usize::MAX, w).map(drop))
    };
    // The first one waits, and makes the plan.
    cache.update(1, &alike(b'a'));
    cache.settle();
    apply(&mut plain, &alike(b'a'));
    for value in values {
        cache.update(1, &alike(value));
        apply(&mut plain, &alike(value));
        assert!(cache.waiting.updates.is_empty());
        cache.check();
    }
    assert_eq!(cache.plans.kept(), 1);
    assert_eq!(cache.get(1).map(|cached| written(cached.image())), Some(written(&plain)));
    assert_eq!((cache.plans.kept(), cache.get(1).unwrap().image().seq_num()), (0, Some(u32::from(last))));
    // One that is not alike comes behind the one that is kept, and before those that follow.
    let other = some_update(1, UpdateFlags::NONE);
    for update in [&alike(b'x'), &other, &alike(b'y')] {
        cache.update(1, update);
        apply(&mut plain, update);
    }
    assert_eq!(cache.waiting.updates.len(), 2);
    assert_eq!(cache.get(1).map(|cached| written(cached.image())), Some(written(&plain)));
    // What is kept of an item goes with it, and says nothing of the one that comes after.
    cache.update(2, &alike(b'z'));
    cache.update(2, &alike(b'q'));
    assert_eq!(cache.plans.kept(), 1);
    cache.remove(2);
    assert_eq!(cache.plans.kept(), 0);
    cache.add(2);
    cache.update(2, &alike(b'r'));
    assert!(!cache.get(2).unwrap().image().is_whole());
    cache.check();
}

/// Layouts without end are forgotten, also where updates are kept beside images by what is planned for them.
#[test]
fn layouts_are_forgotten_while_updates_are_kept() {
    let mut cache = Cache::new(0, None);
    for item in [1, 2] {
        cache.add(item);
        refresh_with(&mut cache, item, 0, true);
    }
    let of_fid = |fid: i16| {
        let body = encoded(|w| {
            let mut fields = FieldListEncoder::begin(w)?;
            fields.raw(fid, b"abc")?;
            fields.finish()
        });
        let container = DataType::FIELD_LIST;
        encoded(|w| UpdateMsg { container, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) }.encode(w))
    };
    let mut times = 0;
    for number in 0..60_000_u32 {
        cache.update(1, &alike(b'a' + (number % 20) as u8));
        let before = cache.plans.kept();
        refresh_of(&mut cache, 2, number as u16);
        cache.update(2, &of_fid(number as i16));
        cache.settle();
        times += u32::from(before == 1 && cache.plans.kept() == 0);
        if number % 1_000 == 0 {
            cache.check();
        }
    }
    assert!(times > 0, "nothing was forgotten: the test does not test it");
    let value = |cached: &Cached| seen(cached).0;
    let bytes = cache.get(1).map(value).unwrap();
    assert!(bytes.windows(3).any(|three| three == [b'a' + (59_999 % 20) as u8; 3]), "the last update is in the image");
}

/// An image of one field.
fn refresh_of(cache: &mut Cache, item: u32, fid: u16) {
    let body = encoded(|w| {
        let mut fields = FieldListEncoder::begin(w)?;
        fields.raw(fid as i16, b"xyz")?;
        fields.finish()
    });
    let (flags, container) = (RefreshFlags::REFRESH_COMPLETE, DataType::FIELD_LIST);
    let part =
        RefreshMsg { flags, state: State::OPEN_OK, container, body: &body, ..RefreshMsg::new(Domain::MARKET_PRICE, 5) };
    cache.refresh(item, true, &part, PageSize::DEFAULT);
}

#[test]
fn only_so_many_updates_wait() {
    let mut cache = Cache::new(0, None);
    cache.add(1);
    refresh_with(&mut cache, 1, 0, true);
    // Such are not kept beside the image.
    let long = some_update(0, UpdateFlags::DO_NOT_CACHE);
    for number in 1..=3 * MAX_WAITING {
        cache.update(1, &long);
        assert_eq!(cache.waiting.updates.len(), number % MAX_WAITING);
    }
    cache.update(1, &vec![0; super::MAX_WAITING_BYTES]);
    assert!(cache.waiting.updates.is_empty());
    assert_eq!(cache.take_failures(), 1);
    // A message of an item that is not cached is not looked at.
    cache.update(7, &long);
    assert!(cache.waiting.updates.is_empty());
}
