//! Books by price and by rank.

use std::collections::BTreeMap;

use market::{BookId, BookState, CmeLevels, Event, IexDeep, Level, LevelChange, OrderBooks, Rank, Side, UnknownLevel};
use proptest::prelude::*;

use crate::naive::Follower;

const BOOK: BookId = BookId(3);

proptest! {
    #[test]
    fn a_book_by_price_is_as_a_map(
        acts in proptest::collection::vec((any::<bool>(), -20..20i64, 0..4u64, proptest::option::weighted(0.05, 1..6usize)), 1..200)
    ) {
        let (mut book, mut follower) = (OrderBooks::<IexDeep>::default(), Follower::default());
        let mut model: [BTreeMap<i64, u64>; 2] = Default::default();
        for (is_bid, price, size, cut) in acts {
            let side = if is_bid { Side::Bid } else { Side::Ask };
            let of_side = &mut model[side as usize];
            let is_known = of_side.contains_key(&price);
            let result = book.set(BOOK, side, Level { price, size, orders: 0 }, &mut follower);
            let expected = match (is_known, size) {
                (false, 0) => Err(UnknownLevel { price }),
                (true, 0) => Ok(LevelChange::Gone),
                (true, _) => Ok(LevelChange::Changed),
                (false, _) => Ok(LevelChange::New),
            };
            prop_assert_eq!(result, expected);
            if size == 0 { of_side.remove(&price); } else { of_side.insert(price, size); }
            if let Some(depth) = cut {
                book.cut(BOOK, depth, &mut follower);
                while model[0].len() > depth { model[0].pop_first(); }
                while model[1].len() > depth { model[1].pop_last(); }
            }
            for side in Side::BOTH {
                let levels: Vec<Level> = book.levels(BOOK, side).collect();
                let mut expected: Vec<Level> =
                    model[side as usize].iter().map(|(price, size)| Level { price: *price, size: *size, orders: 0 }).collect();
                if side == Side::Bid { expected.reverse(); }
                prop_assert_eq!(&levels, &expected);
                prop_assert_eq!(&follower.levels_of(BOOK, side), &expected);
            }
        }
    }

    #[test]
    fn a_book_by_rank_keeps_its_depth_and_the_venues_order(
        acts in proptest::collection::vec((0..4u8, 0..7usize, 0..9i64, 1..4usize), 1..120)
    ) {
        let (mut book, mut model) = (OrderBooks::<CmeLevels>::default(), Vec::new());
        for (act, rank, price, count) in acts {
            let level = Level { price, size: 1, orders: 1 };
            let before = model.len();
            let at = Rank { side: Side::Ask, rank, depth: 5 };
            let result = match act {
                0 | 1 => book.insert_at(BOOK, at, level, &mut ()),
                2 => book.change_at(BOOK, at, level, &mut ()),
                _ => book.delete_at(BOOK, at, count, &mut ()),
            };
            let is_lawful = if act < 2 { rank < 5 && rank <= before } else { rank < before };
            prop_assert_eq!(result.is_ok(), is_lawful);
            if is_lawful {
                match act {
                    0 | 1 => { model.insert(rank, level); model.truncate(5); }
                    2 => model[rank] = level,
                    _ => { model.drain(rank..(rank + count).min(before)); }
                }
            }
            prop_assert_eq!(book.levels(BOOK, Side::Ask).collect::<Vec<_>>(), &model[..]);
            prop_assert_eq!(book.depth(BOOK, Side::Bid), 0);
        }
    }
}

#[test]
fn what_falls_off_a_book_by_rank_is_told() {
    let mut book = OrderBooks::<CmeLevels>::default();
    let at = |rank| Rank { side: Side::Ask, rank, depth: 2 };
    let mut events = Vec::new();
    let level = |price| Level { price, size: 7, orders: 2 };
    for price in [101, 102] {
        book.insert_at(BOOK, at((price - 101) as usize), level(price), &mut events).expect("room");
    }
    events.clear();
    book.insert_at(BOOK, at(0), level(100), &mut events).expect("room");
    let told = |level, rank, change| (BOOK, Event::Level { side: Side::Ask, level, rank, change });
    let gone = Level { price: 102, size: 0, orders: 0 };
    assert_eq!(events, [told(level(100), 0, LevelChange::New), told(gone, 2, LevelChange::Gone)]);
}

#[test]
fn a_crossed_book_is_told_and_left() {
    let mut book = OrderBooks::<IexDeep>::default();
    let mut set = |side, price| {
        let level = Level { price, size: 1, orders: 0 };
        book.set(BOOK, side, level, &mut ()).map(|_| book.state(BOOK))
    };
    assert_eq!(set(Side::Bid, -5), Ok(BookState::Normal));
    assert_eq!(set(Side::Ask, -5), Ok(BookState::Locked));
    assert_eq!(set(Side::Ask, -6), Ok(BookState::Crossed));
}

/// A venue whose books are never crossed.
struct NeverCrossed;

impl market::Rules for NeverCrossed {
    const CROSSED: market::CrossedRule = market::CrossedRule::MeansLoss;
}
impl market::ByPrice for NeverCrossed {}

#[test]
fn whether_a_crossed_book_is_lawful_is_the_venues_rule() {
    fn lawful<R: market::ByPrice>(bid: i64, ask: i64) -> bool {
        let mut books = OrderBooks::<R>::default();
        for (side, price) in [(Side::Bid, bid), (Side::Ask, ask)] {
            books.set(BOOK, side, Level { price, size: 1, orders: 0 }, &mut ()).expect("a level");
        }
        books.is_lawful(BOOK)
    }
    assert!(lawful::<IexDeep>(3, 2) && lawful::<NeverCrossed>(2, 2) && lawful::<NeverCrossed>(1, 2));
    assert!(!lawful::<NeverCrossed>(3, 2));
}

#[test]
fn books_of_one_channel_share_their_memory_and_nothing_else() {
    let mut books = OrderBooks::<IexDeep>::default();
    let level = |price| Level { price, size: 1, orders: 0 };
    for turn in 0..3u32 {
        for book in 0..50u32 {
            for price in 0..20 {
                books.set(BookId(book), Side::Bid, level(i64::from(book) + price), &mut ()).expect("a level");
            }
        }
        let memory = books.memory();
        for book in (turn % 2..50).step_by(2) {
            books.clear(BookId(book), None, &mut ());
            assert_eq!(books.depth(BookId(book), Side::Bid), 0);
        }
        for book in (1 - turn % 2..50).step_by(2) {
            let best = books.best(BookId(book), Side::Bid).map(|level| level.price);
            assert_eq!((books.depth(BookId(book), Side::Bid), best), (20, Some(i64::from(book) + 19)));
        }
        assert_eq!(books.memory(), memory);
    }
}
