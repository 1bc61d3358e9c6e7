//! Images whose updates are planned, beside others that take the same updates one by one.

use super::super::{Image, Latest, Plans, Schema};
use super::{encode, field_list, refresh, whole};
use crate::DataType;
use crate::dictionary::Dictionary;
use crate::msg::{Domain, UpdateFlags, UpdateMsg};
use proptest::prelude::*;
use std::sync::{Arc, LazyLock};

static DICTIONARY: LazyLock<Arc<Dictionary>> = LazyLock::new(|| Arc::new(Dictionary::builtin()));

/// What ripples to each other (`TRDPRC_1` to `TRDPRC_5`, `BID` to `BID_2`), texts, and others.
const FIDS: [i16; 12] = [6, 7, 8, 9, 10, 22, 23, 24, 3, 1000, 30, 114];

/// The make of an update: which fields, and the lengths of their values.
type Make = Vec<(usize, usize)>;

fn make(count: std::ops::Range<usize>) -> impl Strategy<Value = Make> {
    let length = prop_oneof![20 => Just(3_usize), 2 => 0..5_usize, 1 => 9..40_usize, 1 => Just(255_usize)];
    prop::collection::vec((0..FIDS.len(), length), count)
}

/// A list of this make. Values differ with the seed; some have what parts of texts begin with.
fn list(make: &[(usize, usize)], seed: u8) -> Vec<u8> {
    let value = |at: usize, len: usize| match (seed, len) {
        (251.., 4..) => {
            let mut value = b"\x1b[1`".to_vec();
            value.resize(len, b'x');
            value
        }
        (240.., _) => vec![0x1B; len],
        _ => (0..len).map(|n| b'!' + (usize::from(seed) + at + n) as u8 % 64).collect(),
    };
    field_list(&make.iter().map(|&(at, len)| (FIDS[at], value(at, len))).collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn planned_updates_do_what_the_others_do(
        makes in prop::collection::vec(make(0..12), 1..3),
        changes in prop::collection::vec(make(0..7), 1..4),
        updates in prop::collection::vec((0..6_usize, 0..4_usize, any::<u8>(), any::<bool>()), 0..60),
        with_dictionary in any::<bool>(),
    ) {
        let dictionary = with_dictionary.then(|| Arc::clone(&DICTIONARY));
        let schema = Schema { dictionary: dictionary.as_deref(), ripple: with_dictionary, ..Schema::NONE };
        let mut plans = Plans::new(dictionary.clone());
        let mut images: Vec<_> = (0..6).map(|_| (Image::new(), Image::new())).collect();
        let begin = |image: &mut Image, number: usize| {
            let _ = refresh(image, DataType::FIELD_LIST, &list(&makes[number % makes.len()], number as u8));
        };
        for (number, (plain, planned)) in images.iter_mut().enumerate() {
            begin(plain, number);
            begin(planned, number);
        }
        for (number, change, seed, ripples) in updates {
            let body = list(&changes[change % changes.len()], seed);
            let seq_num = (seed % 5 > 0).then_some(u32::from(seed) << 16 | seed as u32);
            let mut msg = UpdateMsg { seq_num, ..UpdateMsg::new(Domain::MARKET_PRICE, i32::from(seed)) };
            msg.flags.set(UpdateFlags::DO_NOT_RIPPLE, !ripples);
            msg.flags.set(UpdateFlags::DO_NOT_CACHE, seed % 16 == 0);
            msg.flags.set(UpdateFlags::DISCARDABLE, seed % 32 < 3);
            let msg = UpdateMsg { container: DataType::FIELD_LIST, body: &body, ..msg };
            let (plain, planned) = &mut images[number];
            let bytes = encode(|w| msg.encode(w));
            prop_assert_eq!(plain.update(&msg, &schema), planned.update_planned(&bytes, &mut plans));
            prop_assert_eq!(whole(plain), whole(planned));
            prop_assert_eq!(plain.seq_num(), planned.seq_num());
        }
    }
}

proptest! {
    /// Whoever looks ahead at updates, and applies them behind whatever came meanwhile, gets what comes of each update by itself.
    #[test]
    fn updates_that_were_looked_at_ahead_do_what_the_others_do(
        makes in prop::collection::vec(make(0..12), 1..3),
        changes in prop::collection::vec(make(0..7), 1..4),
        steps in prop::collection::vec((0..4_usize, 0..5_usize, any::<u8>()), 0..80),
        with_dictionary in any::<bool>(),
    ) {
        let dictionary = with_dictionary.then(|| Arc::clone(&DICTIONARY));
        let schema = Schema { dictionary: dictionary.as_deref(), ripple: with_dictionary, ..Schema::NONE };
        let mut plans = Plans::new(dictionary.clone());
        let mut images: Vec<_> = (0..4).map(|_| (Image::new(), Image::new())).collect();
        let mut waiting = Vec::new();
        for (number, change, seed) in steps.into_iter().chain((0..4).map(|number| (number, 4, 0))) {
            let (plain, ahead) = &mut images[number];
            if change < 4 {
                let body = list(&changes[change % changes.len()], seed);
                let seq_num = (seed % 5 > 0).then_some(u32::from(seed));
                let msg = UpdateMsg { seq_num, container: DataType::FIELD_LIST, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) };
                let bytes = encode(|w| msg.encode(w));
                let found = ahead.ahead(&bytes, &plans);
                std::hint::black_box(ahead.touch(found, &plans));
                let expected = plain.update(&msg, &schema);
                waiting.push((number, bytes, found, expected));
                continue;
            }
            for (number, bytes, found, expected) in waiting.drain(..) {
                prop_assert_eq!(images[number].1.update_ahead(&bytes, &mut plans, found), expected);
            }
            for (plain, ahead) in &images {
                let seen = |image: &Image| image.is_whole().then(|| whole(image));
                prop_assert_eq!(seen(plain), seen(ahead));
                prop_assert_eq!(plain.seq_num(), ahead.seq_num());
            }
            let body = list(&makes[number % makes.len()], seed);
            let (plain, ahead) = &mut images[number];
            for image in [plain, &mut *ahead] {
                let _ = refresh(image, DataType::FIELD_LIST, &body);
            }
            ahead.note_layout(&mut plans);
            // Plans that begin anew are others: what was found of those before is nothing to them.
            if seed % 8 == 7 {
                plans = Plans::new(dictionary.clone());
            }
        }
    }
}

proptest! {
    /// Updates that are kept beside an image, whether they change lengths or not, do what the others do once they are taken in.
    #[test]
    fn updates_that_were_kept_do_what_the_others_do(
        makes in prop::collection::vec(make(0..12), 1..3),
        changes in prop::collection::vec(make(0..5), 1..4),
        steps in prop::collection::vec((0..4_usize, 0..8_usize, any::<u8>()), 0..120),
        with_dictionary in any::<bool>(),
    ) {
        let dictionary = with_dictionary.then(|| Arc::clone(&DICTIONARY));
        let schema = Schema { dictionary: dictionary.as_deref(), ripple: with_dictionary, ..Schema::NONE };
        let mut plans = Plans::new(dictionary.clone());
        let mut images: Vec<_> = (0..4).map(|_| (Image::new(), Image::new(), Latest::default())).collect();
        for (number, (plain, kept, latest)) in images.iter_mut().enumerate() {
            for image in [plain, &mut *kept] {
                let _ = refresh(image, DataType::FIELD_LIST, &list(&makes[number % makes.len()], number as u8));
            }
            kept.note_layout(&mut plans);
            kept.open(latest, &plans);
        }
        for (number, change, seed) in steps.into_iter().chain((0..4).map(|number| (number, 7, 0))) {
            let (plain, kept, latest) = &mut images[number];
            if change == 7 {
                prop_assert_eq!(kept.take_in(latest, &mut plans), Ok(()));
                prop_assert_eq!(whole(plain), whole(kept));
                prop_assert_eq!(plain.seq_num(), kept.seq_num());
                continue;
            }
            // Some makes come more often, so that updates of one make follow each other.
            let body = list(&changes[change.saturating_sub(3) % changes.len()], seed);
            let seq_num = (seed % 5 > 0).then_some(u32::from(seed));
            let mut msg = UpdateMsg { seq_num, container: DataType::FIELD_LIST, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) };
            msg.flags.set(UpdateFlags::DO_NOT_RIPPLE, seed % 16 == 1);
            let bytes = encode(|w| msg.encode(w));
            let expected = plain.update(&msg, &schema);
            if !plans.keep(latest, &bytes) {
                prop_assert_eq!(kept.take_in(latest, &mut plans), Ok(()));
                prop_assert_eq!(kept.update_planned(&bytes, &mut plans), expected);
                kept.open(latest, &plans);
            }
        }
        let due = images.iter().filter(|(_, _, latest)| latest.is_due()).count();
        prop_assert_eq!(due, plans.kept());
    }
}

/// Quotes and trades of which some have a time stamp, in any order: what ripples of each make, what both bring and what comes with the second alone is as if each had been
/// applied when it came.
#[test]
fn two_makes_that_take_turns_do_what_they_did_one_by_one() {
    let dictionary = Arc::clone(&DICTIONARY);
    let schema = Schema { dictionary: Some(&dictionary), ripple: true, ..Schema::NONE };
    let makes: [(Make, Make); 4] = [
        (vec![(0, 3), (10, 4)], vec![(0, 3), (9, 2)]),
        (vec![(0, 3), (10, 4)], vec![(10, 4), (9, 2)]),
        (vec![(10, 4)], vec![(0, 3), (9, 2)]),
        (vec![(10, 4), (11, 1)], vec![(8, 2), (10, 4)]),
    ];
    for (image, (first, second)) in [vec![(0, 3), (1, 3), (2, 3), (10, 4)], (0..6).map(|at| (at, 0)).collect()]
        .into_iter()
        .flat_map(|image: Make| makes.iter().map(move |makes| (image.clone(), makes)))
    {
        let mut plans = Plans::new(Some(Arc::clone(&dictionary)));
        let mut together = 0;
        for item in 0..200_u8 {
            let (mut plain, mut kept, mut latest) = (Image::new(), Image::new(), Latest::default());
            for image_of in [&mut plain, &mut kept] {
                refresh(image_of, DataType::FIELD_LIST, &list(&image, 0)).unwrap();
            }
            kept.note_layout(&mut plans);
            kept.open(&mut latest, &plans);
            // Each item has its own order of the two, and of up to eight updates.
            let mut kinds = Vec::new();
            for turn in 0..=item % 8 {
                let make = if item >> turn & 1 == 0 { first } else { second };
                let body = list(make, item.wrapping_mul(16).wrapping_add(turn));
                let (container, seq_num) = (DataType::FIELD_LIST, Some(turn.into()));
                let msg = UpdateMsg { seq_num, container, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) };
                let bytes = encode(|w| msg.encode(w));
                plain.update(&msg, &schema).unwrap();
                if plans.keep(&mut latest, &bytes) {
                    kinds.push(item >> turn & 1);
                } else {
                    kinds.clear();
                    kept.take_in(&mut latest, &mut plans).unwrap();
                    kept.update_planned(&bytes, &mut plans).unwrap();
                    kept.open(&mut latest, &plans);
                }
            }
            together += usize::from(kinds.contains(&0) && kinds.contains(&1));
            kept.take_in(&mut latest, &mut plans).unwrap();
            assert_eq!(whole(&plain), whole(&kept), "item {item} of {first:?} and {second:?}");
            assert_eq!(plain.seq_num(), kept.seq_num());
        }
        assert!(together > 50, "{together} items of {first:?} and {second:?} had both together");
    }
}

/// An image whose chain of last trades is blank: each of the first updates of an item changes the lengths of values. The first item's are planned, and all of the
/// others' are kept.
#[test]
fn the_first_updates_of_all_items_but_one_are_kept() {
    let dictionary = Arc::clone(&DICTIONARY);
    let schema = Schema { dictionary: Some(&dictionary), ripple: true, ..Schema::NONE };
    let mut plans = Plans::new(Some(Arc::clone(&dictionary)));
    let blank: Make = (0..6).map(|at| (at, 0)).collect();
    for item in 0..4_u8 {
        let (mut plain, mut kept, mut latest) = (Image::new(), Image::new(), Latest::default());
        for image in [&mut plain, &mut kept] {
            refresh(image, DataType::FIELD_LIST, &list(&blank, 0)).unwrap();
        }
        kept.note_layout(&mut plans);
        kept.open(&mut latest, &plans);
        for seed in 0..9 {
            let body = list(&[(0, 3), (5, 2), (10, 4)], item * 16 + seed);
            let msg = UpdateMsg {
                seq_num: Some(seed.into()),
                container: DataType::FIELD_LIST,
                body: &body,
                ..UpdateMsg::new(Domain::MARKET_PRICE, 5)
            };
            let bytes = encode(|w| msg.encode(w));
            plain.update(&msg, &schema).unwrap();
            let is_kept = plans.keep(&mut latest, &bytes);
            assert!(is_kept || item == 0, "update {seed} of item {item}");
            if !is_kept {
                kept.take_in(&mut latest, &mut plans).unwrap();
                kept.update_planned(&bytes, &mut plans).unwrap();
                kept.open(&mut latest, &plans);
            }
        }
        kept.take_in(&mut latest, &mut plans).unwrap();
        assert_eq!(whole(&plain), whole(&kept), "item {item}");
        assert_eq!(kept.seq_num(), Some(8));
    }
}

/// An update that does not end where a word does, or has bytes behind its last field.
#[test]
fn what_is_planned_has_any_length() {
    let mut plans = Plans::new(None);
    for len in 0..80 {
        let (mut plain, mut planned) = (Image::new(), Image::new());
        let make: Make = vec![(0, len), (9, 3), (10, 1)];
        for image in [&mut plain, &mut planned] {
            refresh(image, DataType::FIELD_LIST, &list(&make, 0)).unwrap();
        }
        for (seed, order) in [[0, 1, 2], [2, 0, 1], [1, 2, 0]].iter().enumerate().flat_map(|(n, order)| [(n, order); 2])
        {
            let mut body = list(&order.map(|at| make[at]), seed as u8 + 7);
            body.extend_from_slice(&[0xEE; 3][..seed]);
            let msg =
                UpdateMsg { container: DataType::FIELD_LIST, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 0) };
            plain.update(&msg, &Schema::NONE).unwrap();
            planned.update_planned(&encode(|w| msg.encode(w)), &mut plans).unwrap();
            assert_eq!(whole(&plain), whole(&planned), "{len} bytes, {order:?}");
        }
    }
}

#[test]
fn a_list_that_is_read_with_other_plans_is_not_taken_for_one_of_theirs() {
    let (mut first, mut second) = (Plans::new(None), Plans::new(None));
    let update = |image: &mut Image, plans: &mut Plans, make: &Make, seed| {
        let body = list(make, seed);
        let msg = UpdateMsg { container: DataType::FIELD_LIST, body: &body, ..UpdateMsg::new(Domain::MARKET_PRICE, 0) };
        image.update_planned(&encode(|w| msg.encode(w)), plans).unwrap();
    };
    let (short, long): (Make, Make) = (vec![(10, 9)], vec![(9, 9), (10, 9)]);
    let (mut a, mut b) = (Image::new(), Image::new());
    refresh(&mut a, DataType::FIELD_LIST, &list(&short, 1)).unwrap();
    refresh(&mut b, DataType::FIELD_LIST, &list(&long, 1)).unwrap();
    update(&mut a, &mut first, &short, 2);
    update(&mut b, &mut second, &short, 2);
    // The first layout of either: what is planned for the one would write over the other's first field.
    update(&mut b, &mut first, &short, 3);
    update(&mut a, &mut second, &short, 3);
    assert_eq!(whole(&a), list(&short, 3));
    let expected = encode(|w| {
        let mut fields = crate::FieldListEncoder::begin(w)?;
        for (at, seed) in [(0, 1), (1, 3)] {
            let of = list(&long[at..=at], seed);
            fields.raw(FIDS[long[at].0], &of[6..])?;
        }
        fields.finish()
    });
    assert_eq!(whole(&b), expected);
}
