//! Views of a limited depth and of several books.

use std::collections::BTreeMap;

use market::{
    BestQuote, BookId, DepthView, IexDeep, Level, LevelChange, OrderBooks, Quote, Side, best_quote, consolidated,
};
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_subscriber_of_a_view_has_the_best_levels(
        acts in proptest::collection::vec((0..12i64, 0..3u64), 1..120), is_bid: bool
    ) {
        let side = if is_bid { Side::Bid } else { Side::Ask };
        let (mut book, mut view) = (OrderBooks::<IexDeep>::default(), DepthView::new(side, 3));
        let mut held: BTreeMap<i64, Level> = BTreeMap::new();
        for (price, size) in acts {
            let _unknown = book.set(BookId(0), side, Level { price, size, orders: 0 }, &mut ());
            view.update(book.levels(BookId(0), side), |change, level| {
                let known = match change {
                    LevelChange::Gone => held.remove(&level.price),
                    _ => held.insert(level.price, level),
                };
                assert_eq!(known.is_none(), change == LevelChange::New);
                assert!(held.len() <= 3);
            });
            let best: Vec<Level> = book.levels(BookId(0), side).take(3).collect();
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

proptest! {
    #[test]
    fn the_best_of_venues_is_the_sum_at_the_best_price_and_of_whom_comes_first(
        quotes in proptest::collection::vec((-3..4i128, 1..5i128), 0..7), is_bid: bool
    ) {
        let side = if is_bid { Side::Bid } else { Side::Ask };
        let prices = quotes.iter().map(|(price, _)| *price);
        let best = if is_bid { prices.max() } else { prices.min() };
        let expected = best.map(|price| {
            let size = quotes.iter().filter(|quote| quote.0 == price).map(|quote| quote.1).sum();
            let first = quotes.iter().position(|quote| quote.0 == price).expect("one of them");
            BestQuote { quote: Quote { price, size }, first }
        });
        let given = quotes.iter().map(|(price, size)| Quote { price: *price, size: *size }).enumerate();
        prop_assert_eq!(best_quote(side, given), expected);
    }
}
