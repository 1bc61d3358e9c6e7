//! Views of a limited depth and of several books.

use std::collections::BTreeMap;

use market::{BookId, DepthView, Level, LevelChange, PriceBook, Side, consolidated};
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_subscriber_of_a_view_has_the_best_levels(
        acts in proptest::collection::vec((0..12i64, 0..3u64), 1..120), is_bid: bool
    ) {
        let side = if is_bid { Side::Bid } else { Side::Ask };
        let (mut book, mut view) = (PriceBook::new(BookId(0)), DepthView::new(side, 3));
        let mut held: BTreeMap<i64, Level> = BTreeMap::new();
        for (price, size) in acts {
            let _unknown = book.set(side, Level { price, size, orders: 0 }, &mut ());
            view.update(book.levels(side), |change, level| {
                let known = match change {
                    LevelChange::Gone => held.remove(&level.price),
                    _ => held.insert(level.price, level),
                };
                assert_eq!(known.is_none(), change == LevelChange::New);
                assert!(held.len() <= 3);
            });
            let best: Vec<Level> = book.levels(side).take(3).collect();
            let mut told: Vec<Level> = held.values().copied().collect();
            if is_bid { told.reverse(); }
            prop_assert_eq!(&told, &best);
            prop_assert_eq!(view.levels(), &best[..]);
        }
    }
}

#[test]
fn several_books_are_one() {
    let level = |price, size| Level { price, size, orders: 1 };
    let (one, other) = (vec![level(10, 1), level(8, 2)], vec![level(9, 3), level(8, 4)]);
    let all: Vec<Level> = consolidated(Side::Bid, vec![one.into_iter(), other.into_iter()]).collect();
    assert_eq!(all, [level(10, 1), level(9, 3), Level { price: 8, size: 6, orders: 2 }]);
}
