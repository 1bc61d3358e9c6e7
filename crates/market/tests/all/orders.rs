//! Books order by order: every change of a drawn sequence leaves what the naive book has, and the events tell it.

use market::{
    Ahead, BookId, ByOrder, Cause, CmeMdp, DbnMbo, Events, Hint, LevelChange, NasdaqItch, Order, OrderBooks, Place,
    Refused, Side, Terms,
};
use proptest::prelude::*;

use crate::naive::{Follower, Naive};

#[derive(Clone, Debug)]
enum Act {
    Add(u32, Order),
    Fill(u64, u64),
    Cancel(u64, u64),
    Delete(u64),
    Change(Order),
    Replace(u64, u64, Terms),
    Clear(u32, Option<Side>),
    ClearAll,
}

const BOOKS: u32 = 3;

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::Bid), Just(Side::Ask)]
}

fn price() -> impl Strategy<Value = i64> {
    prop_oneof![
        20 => -6..6i64,
        20 => (-6..6i64).prop_map(|cents| cents * 100),
        6 => (-400..400i64).prop_map(|cents| cents * 100),
        2 => -400..400i64,
        1 => prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(i64::MAX / 100 * 100), Just(i64::MIN / 100 * 100)],
    ]
}

fn order() -> impl Strategy<Value = Order> {
    (0..40u64, side(), price(), 0..6u64, 0..30u64, 0..3u32).prop_map(
        |(reference, side, price, size, priority, owner)| Order { reference, side, price, size, priority, owner },
    )
}

fn act() -> impl Strategy<Value = Act> {
    let terms = (price(), 0..6u64, 0..30u64).prop_map(|(price, size, priority)| Terms { price, size, priority });
    prop_oneof![
        40 => (0..BOOKS + 1, order()).prop_map(|(book, order)| Act::Add(book, order)),
        8 => (0..40u64, 0..6u64).prop_map(|(reference, by)| Act::Fill(reference, by)),
        8 => (0..40u64, 0..6u64).prop_map(|(reference, by)| Act::Cancel(reference, by)),
        8 => (0..40u64).prop_map(Act::Delete),
        10 => order().prop_map(Act::Change),
        10 => (0..40u64, 0..40u64, terms).prop_map(|(old, new, terms)| Act::Replace(old, new, terms)),
        1 => (0..BOOKS, proptest::option::of(side())).prop_map(|(book, side)| Act::Clear(book, side)),
        1 => Just(Act::ClearAll),
    ]
}

fn apply_naive<R: ByOrder>(books: &mut [Naive], act: &Act) -> Result<(), Refused> {
    let holder = |books: &[Naive], reference| books.iter().position(|book| book.at(reference).is_some());
    let known = |books: &[Naive], reference| {
        let book = holder(books, reference).ok_or(Refused::UnknownOrder(reference))?;
        let order = books[book].orders[books[book].at(reference).expect("held")];
        Ok((book, order))
    };
    match act {
        Act::Add(book, _) if *book >= BOOKS => return Err(Refused::UnknownBook(BookId(*book))),
        Act::Add(_, order) | Act::Change(order) if order.size == 0 && matches!(act, Act::Add(..)) => {
            return Err(Refused::NoSize(order.reference));
        }
        Act::Add(book, order) => {
            if holder(books, order.reference).is_some() {
                return Err(Refused::DuplicateOrder(order.reference));
            }
            books[*book as usize].add::<R>(*order);
        }
        Act::Fill(reference, by) | Act::Cancel(reference, by) => {
            let (book, order) = known(books, *reference)?;
            let is_fill = matches!(act, Act::Fill(..));
            if is_fill {
                books[book].fill::<R>(*reference, *by);
            } else {
                books[book].take(*reference, *by);
            }
            if *by > order.size && !(is_fill && R::FILL == market::FillRule::Reported) {
                return Err(Refused::Exceeds { reference: *reference, by: *by, had: order.size });
            }
        }
        Act::Delete(reference) => {
            let (book, order) = known(books, *reference)?;
            books[book].take(*reference, order.size);
        }
        Act::Change(new) => {
            let (book, _) = known(books, new.reference)?;
            if new.size == 0 {
                return Err(Refused::NoSize(new.reference));
            }
            books[book].change::<R>(*new, None);
        }
        Act::Replace(old, new, terms) => {
            let (book, order) = known(books, *old)?;
            if terms.size == 0 {
                return Err(Refused::NoSize(*new));
            }
            if old != new && holder(books, *new).is_some() {
                return Err(Refused::DuplicateOrder(*new));
            }
            books[book].take(*old, order.size);
            let Terms { price, size, priority } = *terms;
            books[book].add::<R>(Order { reference: *new, price, size, priority, ..order });
        }
        Act::Clear(book, side) => {
            let cleared = R::cleared(*side);
            books[*book as usize].orders.retain(|order| cleared.is_some_and(|side| side != order.side));
        }
        Act::ClearAll => books.iter_mut().for_each(|book| book.orders.clear()),
    }
    Ok(())
}

fn apply<R: ByOrder, E: Events, const QUEUED: bool>(
    books: &mut OrderBooks<R, QUEUED>,
    act: &Act,
    ahead: &mut Ahead,
    events: &mut E,
) -> Result<(), Refused> {
    let hint = if names_order(act) { ahead.next_hint() } else { Hint::NONE };
    match act {
        Act::Add(book, order) => books.add(BookId(*book), order, events),
        Act::Fill(reference, by) => books.reduce_near(*reference, *by, Cause::Fill, hint, events).map(drop),
        Act::Cancel(reference, by) => books.reduce_near(*reference, *by, Cause::Cancel, hint, events).map(drop),
        Act::Delete(reference) => books.delete_near(*reference, hint, events).map(drop),
        Act::Change(order) => books.change(order, events).map(drop),
        Act::Replace(old, new, terms) => books.replace_near(*old, *new, *terms, hint, events).map(drop),
        Act::Clear(book, side) => {
            books.clear(BookId(*book), *side, events);
            Ok(())
        }
        Act::ClearAll => {
            books.clear_all(events);
            Ok(())
        }
    }
}

fn hold_to_the_naive_book<R: ByOrder>(acts: &[Act]) {
    let (mut books, mut levels_only) = (OrderBooks::<R>::default(), OrderBooks::<R, false>::with_capacity(3));
    books.open(BookId(BOOKS - 1));
    levels_only.open(BookId(BOOKS - 1));
    let (mut follower, mut other, mut naive) =
        (Follower::default(), Follower::default(), vec![Naive::default(); BOOKS as usize]);
    let (mut ahead, mut ahead_of_levels) = (Ahead::default(), Ahead::default());
    for (at, act) in acts.iter().enumerate() {
        follower.last = None;
        // Places that are seen ahead are changed by what comes in between.
        if at % TOGETHER == 0 {
            for ahead in [&mut ahead, &mut ahead_of_levels] {
                ahead.clear();
                acts[at..].iter().take(TOGETHER).for_each(|act| add_to_ahead(ahead, act));
            }
            while books.look_ahead(&mut ahead) {}
            while levels_only.look_ahead(&mut ahead_of_levels) {}
        }
        let expected = apply_naive::<R>(&mut naive, act);
        assert_eq!(apply(&mut books, act, &mut ahead, &mut follower), expected, "{act:?}");
        // Without queues, changes of priority alone are not seen: the levels are the same all the same.
        let told = apply(&mut levels_only, act, &mut ahead_of_levels, &mut Ranks(&mut other));
        assert_eq!(told, expected, "{act:?}");
        books.check_invariants();
        levels_only.check_invariants();
        for (id, naive) in (0..).map(BookId).zip(&naive) {
            for side in Side::BOTH {
                let levels = naive.levels(side);
                assert_eq!(books.orders(id, side).collect::<Vec<_>>(), naive.side(side), "{act:?}");
                assert_eq!(books.levels(id, side).collect::<Vec<_>>(), levels);
                assert_eq!(levels_only.levels(id, side).collect::<Vec<_>>(), levels);
                assert_eq!((follower.levels_of(id, side), other.levels_of(id, side)), (levels.clone(), levels.clone()));
                assert_eq!(books.best(id, side), levels.first().copied());
                hold_places(&books, id, naive, side);
                if let Some((_, _, level, rank, _)) =
                    follower.last.filter(|last| (last.0, last.1) == (id, side) && last.4 != LevelChange::Gone)
                {
                    assert_eq!(levels[rank as usize], level, "a rank is the place among the levels");
                }
            }
        }
    }
}

/// Changes that are looked ahead at together.
const TOGETHER: usize = 5;

fn names_order(act: &Act) -> bool {
    !matches!(act, Act::Add(..) | Act::Clear(..) | Act::ClearAll)
}

/// What a change will touch, as far as it names it.
fn add_to_ahead(ahead: &mut Ahead, act: &Act) {
    let nowhere = (false, BookId(0), Side::Bid, 0);
    match act {
        Act::Add(book, order) => ahead.push((false, 0), (true, BookId(*book), order.side, order.price)),
        Act::Replace(reference, _, terms) => {
            ahead.push((true, *reference), (true, BookId(0), Side::Bid, terms.price));
        }
        Act::Fill(reference, _)
        | Act::Cancel(reference, _)
        | Act::Delete(reference)
        | Act::Change(Order { reference, .. }) => ahead.push((true, *reference), nowhere),
        Act::Clear(..) | Act::ClearAll => ahead.push((false, 0), nowhere),
    }
}

/// Followers that are told of an order without its priority.
struct Ranks<'a>(&'a mut Follower);

impl Events for Ranks<'_> {
    const WANTS_RANK: bool = false;
    fn event(&mut self, book: BookId, event: &market::Event) {
        if let market::Event::Level { rank, .. } = event {
            assert!(
                *rank == market::Event::UNRANKED
                    || matches!(event, market::Event::Level { change: LevelChange::Gone, .. })
            );
        }
        if matches!(event, market::Event::Level { .. } | market::Event::Cleared { .. }) {
            self.0.event(book, event);
        }
    }
}

fn hold_places<R: ByOrder>(books: &OrderBooks<R>, id: BookId, naive: &Naive, side: Side) {
    let orders = naive.side(side);
    for (at, order) in orders.iter().enumerate() {
        let ahead: Vec<&Order> = orders[..at].iter().filter(|other| other.price == order.price).collect();
        let place = Place { orders_ahead: ahead.len() as u32, size_ahead: ahead.iter().map(|order| order.size).sum() };
        assert_eq!(books.place(order.reference), Some(place));
        assert_eq!(books.order(order.reference), Some((id, *order)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn books_under_nasdaqs_rules_are_as_naive_ones(acts in proptest::collection::vec(act(), 1..160)) {
        hold_to_the_naive_book::<NasdaqItch>(&acts);
    }

    #[test]
    fn books_under_databentos_rules_are_as_naive_ones(acts in proptest::collection::vec(act(), 1..160)) {
        hold_to_the_naive_book::<DbnMbo>(&acts);
    }

    #[test]
    fn books_under_cmes_rules_are_as_naive_ones(acts in proptest::collection::vec(act(), 1..160)) {
        hold_to_the_naive_book::<CmeMdp>(&acts);
    }
}

fn bid(reference: u64, price: i64, size: u64, priority: u64) -> Order {
    Order { reference, side: Side::Bid, price, size, priority, owner: 0 }
}

fn references<R: ByOrder>(books: &OrderBooks<R>) -> Vec<u64> {
    books.orders(BookId(0), Side::Bid).map(|order| order.reference).collect()
}

#[test]
fn what_a_change_does_to_a_place_is_the_venues_rule() {
    fn after<R: ByOrder>(change: Order) -> Vec<u64> {
        let mut books = OrderBooks::<R>::default();
        books.open(BookId(0));
        for reference in [1, 2, 3] {
            books.add(BookId(0), &bid(reference, 100, 5, reference), &mut ()).expect("added");
        }
        books.change(&change, &mut ()).expect("changed");
        references(&books)
    }
    // Smaller stays, larger goes to the back; at CME the number decides.
    assert_eq!(after::<DbnMbo>(bid(1, 100, 4, 9)), [1, 2, 3]);
    assert_eq!(after::<DbnMbo>(bid(1, 100, 6, 1)), [2, 3, 1]);
    assert_eq!(after::<CmeMdp>(bid(1, 100, 6, 1)), [1, 2, 3]);
    assert_eq!(after::<CmeMdp>(bid(3, 100, 5, 0)), [3, 1, 2]);
    assert_eq!(after::<NasdaqItch>(bid(1, 100, 4, 1)), [2, 3, 1]);
}

#[test]
fn a_fill_that_is_told_takes_nothing() {
    let mut books = OrderBooks::<DbnMbo>::default();
    books.open(BookId(0));
    books.add(BookId(0), &bid(1, 100, 5, 0), &mut ()).expect("added");
    let mut events = Vec::new();
    books.fill(1, 3, &mut events).expect("told");
    assert_eq!(books.order(1).map(|(_, order)| order.size), Some(5));
    assert_eq!(events, [(BookId(0), market::Event::FillTold { order: bid(1, 100, 5, 0), by: 3 })]);
}

#[test]
fn sums_that_cannot_be_counted_change_nothing() {
    let mut books = OrderBooks::<NasdaqItch>::default();
    books.open(BookId(0));
    books.add(BookId(0), &bid(1, 100, u64::MAX, 0), &mut ()).expect("added");
    assert_eq!(books.add(BookId(0), &bid(2, 100, 1, 0), &mut ()), Err(Refused::Uncountable(2)));
    books.add(BookId(0), &bid(3, 101, 1, 0), &mut ()).expect("another level");
    let terms = Terms { price: 100, size: 1, priority: 0 };
    assert_eq!(books.replace(3, 4, terms, &mut ()), Err(Refused::Uncountable(4)));
    books.check_invariants();
    assert_eq!(references(&books), [3, 1]);
}
