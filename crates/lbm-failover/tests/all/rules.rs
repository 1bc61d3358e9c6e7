//! The rules, one by one.

use lbm_failover::{Config, Difference, Failover, Lost, Mark, Number, Order, Way};

use crate::{Ear, News, hear};

const SECOND: u64 = 1_000_000_000;

struct Case {
    failover: Failover,
    ear: Ear,
    now: u64,
    sqns: [u32; 4],
}

impl Case {
    fn new(config: Config) -> Self {
        Self { failover: Failover::new(config), ear: Ear::default(), now: 0, sqns: [0; 4] }
    }

    fn mark(&mut self, source: u32, mark: Mark, payload: &[u8]) {
        let sqn = self.sqns[source as usize];
        self.sqns[source as usize] += 1;
        hear(&mut self.failover, self.now, (source, sqn), Some(mark), payload, &mut self.ear);
    }

    fn number(&mut self, source: u32, number: u32) {
        self.mark(source, Mark::new(Number::Bits32(number)), &number.to_be_bytes());
    }

    /// The source has sent something that never came.
    fn loses(&mut self, source: u32) {
        self.sqns[source as usize] += 1;
    }
}

fn lost(first: u32, count: u64) -> News {
    News::Lost(Lost { first: Number::Bits32(first), count })
}

#[test]
fn the_first_copy_wins_and_a_source_that_dies_leaves_no_gap() {
    let mut case = Case::new(Config::default());
    (0..2).for_each(|source| case.failover.begin(0, source));
    for n in 0..5 {
        case.number(0, n);
        case.number(1, n);
    }
    case.failover.end(0, 0, &mut case.ear);
    for n in 5..9 {
        case.number(1, n);
    }
    assert_eq!(case.ear.firsts(), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let stats = case.failover.stats();
    assert_eq!((stats.duplicates, stats.compared, stats.differing, stats.lost), (5, 5, 0, 0));
    assert_eq!(case.failover.source_count(), 1);
}

#[test]
fn a_gap_waits_for_whoever_may_fill_it_and_no_longer() {
    let mut case = Case::new(Config::default());
    (0..2).for_each(|source| case.failover.begin(0, source));
    case.number(0, 0);
    case.number(1, 0);
    case.loses(0);
    case.number(0, 2);
    case.number(0, 3);
    // The other source is at 0: it may bring 1.
    assert_eq!(case.ear.firsts(), [0]);
    assert!(case.failover.timeout() == Some(10 * SECOND) && case.failover.waiting_bytes() > 0);
    case.number(1, 1);
    assert_eq!(case.ear.firsts(), [1, 2, 3]);
    assert_eq!((case.failover.timeout(), case.failover.waiting_bytes()), (None, 0));
    // Both lose 4: nobody is left to bring it.
    case.loses(0);
    case.number(0, 5);
    case.number(1, 2);
    case.number(1, 3);
    assert_eq!(case.ear.firsts(), []);
    case.loses(1);
    case.number(1, 5);
    assert_eq!(case.ear.0[0], lost(4, 1));
    assert_eq!(case.ear.firsts(), [5]);
    // The other one says nothing: the time is over.
    case.loses(0);
    case.number(0, 7);
    case.now = 10 * SECOND - 1;
    case.failover.on_timer(case.now, &mut case.ear);
    assert_eq!(case.ear.0, []);
    case.failover.on_timer(case.now + 1, &mut case.ear);
    assert_eq!(case.ear.0[0], lost(6, 1));
    assert_eq!(case.ear.firsts(), [7]);
    // And its end has the same effect at once.
    case.loses(0);
    case.number(0, 9);
    assert_eq!(case.ear.firsts(), []);
    case.failover.end(case.now, 1, &mut case.ear);
    assert_eq!(case.ear.0[0], lost(8, 1));
    assert_eq!(case.ear.firsts(), [9]);
}

#[test]
fn numbers_are_left_out_on_purpose_and_nobody_misses_them() {
    for order in [Order::InOrder, Order::Arrival] {
        let mut case = Case::new(Config { order, ..Config::default() });
        (0..2).for_each(|source| case.failover.begin(0, source));
        for n in [0, 1, 100, 101, 1 << 30] {
            case.number(0, n);
            case.number(1, n);
        }
        assert_eq!(case.ear.firsts(), [0, 1, 100, 101, 1 << 30], "{order:?}");
        assert_eq!(case.failover.timeout(), None, "{order:?}");
        let stats = case.failover.stats();
        assert_eq!((stats.left_out, stats.lost, stats.duplicates), (98 + (1 << 30) - 102, 0, 5), "{order:?}");
        // Farther than that is behind, for all that can be known.
        case.number(0, (1 << 30) + (1 << 30) + 2);
        assert_eq!((case.ear.firsts(), case.failover.stats().too_far), (vec![], 1), "{order:?}");
    }
    // What one source leaves out another may have sent.
    let mut case = Case::new(Config::default());
    (0..2).for_each(|source| case.failover.begin(0, source));
    case.number(0, 0);
    case.number(1, 0);
    case.loses(0);
    case.number(0, 2);
    case.number(0, 4);
    case.number(1, 1);
    assert_eq!(case.ear.firsts(), [0, 1, 2, 4]);
    case.number(1, 3);
    assert_eq!(case.ear.firsts(), []);
}

#[test]
fn copies_that_differ_are_told_wherever_they_meet() {
    let mut case = Case::new(Config::default());
    (0..3).for_each(|source| case.failover.begin(0, source));
    let number = Number::Bits64(u64::MAX);
    case.mark(0, Mark::new(number), b"IBM 142.10");
    case.mark(1, Mark::new(number), b"IBM 142.11");
    let differs = |number, delivered, other| News::Differs(Difference { number, delivered, other });
    assert_eq!(case.ear.0.pop(), Some(differs(number, 0, 1)));
    // Numbers go on at 0; a copy of what waits is held against that.
    case.mark(1, Mark::new(Number::Bits64(1)), b"two");
    case.mark(2, Mark::new(Number::Bits64(1)), b"three");
    assert_eq!(case.ear.0.pop(), Some(differs(Number::Bits64(1), 1, 2)));
    assert_eq!(case.failover.stats().differing, 2);
    // Who does not want it does not pay for it.
    let mut case = Case::new(Config { compare: false, ..Config::default() });
    (0..2).for_each(|source| case.failover.begin(0, source));
    case.mark(0, Mark::new(number), b"1");
    case.mark(1, Mark::new(number), b"2");
    assert_eq!((case.ear.0.len(), case.failover.stats().compared), (1, 0));
}

#[test]
fn duplicates_and_optional_messages_come_as_they_are_wanted() {
    for (duplicate_delivery, optional_messages, wanted) in [
        (false, true, vec![(0, false), (1, false)]),
        (true, true, vec![(0, false), (0, true), (1, false), (1, true)]),
        (true, false, vec![(0, false), (0, true)]),
        (false, false, vec![(0, false)]),
    ] {
        let mut case = Case::new(Config { duplicate_delivery, optional_messages, ..Config::default() });
        (0..2).for_each(|source| case.failover.begin(0, source));
        for mark in [Mark::new(Number::Bits32(0)), Mark::optional(Number::Bits32(1))] {
            case.mark(0, mark, b"x");
            case.mark(1, mark, b"x");
        }
        let came = case.ear.0.iter().map(|told| match told {
            News::Message { way: Way::First(mark), .. } => (mark.number.value(), false),
            News::Message { way: Way::Duplicate(mark), .. } => (mark.number.value(), true),
            other => panic!("{other:?}"),
        });
        assert_eq!(came.collect::<Vec<_>>(), wanted);
        // The optional one has its number, wanted or not.
        case.number(0, 2);
        assert_eq!(case.ear.firsts().last(), Some(&2));
    }
}

#[test]
fn messages_without_a_number_pass_through_at_once() {
    let mut case = Case::new(Config::default());
    (0..2).for_each(|source| case.failover.begin(0, source));
    case.number(0, 0);
    case.number(1, 0);
    hear(&mut case.failover, 0, (0, 1), None, b"hello", &mut case.ear);
    hear(&mut case.failover, 0, (1, 1), None, b"hello", &mut case.ear);
    case.sqns = [2; 4];
    let passed = case.ear.0.iter().filter(|t| matches!(t, News::Message { way: Way::PassThrough, .. })).count();
    assert_eq!((passed, case.failover.stats().pass_through), (2, 2));
    // They are a part of their source's sequence: what is left out behind them is left out on purpose.
    case.ear.0.clear();
    case.number(0, 9);
    assert_eq!(case.ear.firsts(), [9]);
    // A number of another width is none.
    case.mark(0, Mark::new(Number::Bits64(10)), b"wide");
    assert!(matches!(case.ear.0[..], [News::Message { way: Way::PassThrough, .. }]));
    assert_eq!(case.failover.stats().malformed, 1);
}

#[test]
fn messages_without_a_number_are_merged_by_content_where_that_is_wanted() {
    let mut case = Case::new(Config { by_content: true, ..Config::default() });
    (0..2).for_each(|source| case.failover.begin(0, source));
    for n in 0..50u32 {
        let leader = u32::from(n % 7 < 3);
        for source in [leader, 1 - leader] {
            if n % 11 != 10 || source == 0 {
                hear(&mut case.failover, 0, (source, n), None, &n.to_be_bytes(), &mut case.ear);
            }
        }
    }
    let came: Vec<(u64, u32)> = case
        .ear
        .0
        .iter()
        .map(|told| match told {
            News::Message { way: Way::ByContent(number), payload, .. } => {
                (*number, u32::from_be_bytes(payload[..].try_into().expect("four bytes")))
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(came, (0..50).map(|n| (u64::from(n), n)).collect::<Vec<_>>());
}

#[test]
fn a_reset_from_all_sources_is_one_reset() {
    let mut case = Case::new(Config::default());
    (0..3).for_each(|source| case.failover.begin(0, source));
    let reset = Mark::reset(Number::Bits32(0));
    for n in 1_000..1_010 {
        (0..3).for_each(|source| case.number(source, n));
    }
    assert_eq!(case.ear.firsts().len(), 10);
    case.mark(0, reset, b"");
    assert_eq!(case.ear.0, [News::Reset(Number::Bits32(0))]);
    case.ear.0.clear();
    case.number(0, 0);
    case.number(0, 1);
    // The others are behind: what they still send of the old numbers is nobody's any more.
    case.number(1, 1_010);
    case.number(2, 1_010);
    assert_eq!((case.ear.firsts(), case.failover.stats().outdated), (vec![0, 1], 2));
    case.mark(1, reset, b"");
    case.number(1, 0);
    case.number(1, 1);
    case.number(1, 2);
    assert_eq!(case.ear.0.len(), 1, "one message, and no second reset: {:?}", case.ear.0);
    assert_eq!(case.ear.firsts(), [2]);
    // The third one has never heard of a reset: in time its word counts again.
    case.now = 11 * SECOND;
    case.number(2, 3);
    assert_eq!(case.ear.firsts(), [3]);
    // The next reset is one even to the same number.
    case.mark(0, reset, b"");
    assert_eq!(case.ear.0, [News::Reset(Number::Bits32(0))]);
    case.mark(1, reset, b"");
    assert_eq!(case.ear.0.len(), 1);
}

#[test]
fn a_reset_delivers_what_waits_first() {
    for order in [Order::InOrder, Order::Arrival] {
        let mut case = Case::new(Config { order, ..Config::default() });
        (0..2).for_each(|source| case.failover.begin(0, source));
        case.number(0, 5);
        case.number(1, 5);
        case.loses(0);
        case.number(0, 7);
        case.mark(0, Mark::reset(Number::Bits32(7)), b"");
        case.number(0, 7);
        let lost_at = case.ear.0.iter().position(|told| *told == lost(6, 1)).expect("6 is lost");
        let reset_at = case.ear.0.iter().position(|told| matches!(told, News::Reset(_))).expect("a reset");
        assert!(lost_at < reset_at);
        assert_eq!(case.ear.firsts(), [5, 7, 7]);
    }
}

#[test]
fn what_waits_is_bounded() {
    let mut case = Case::new(Config { waiting_bytes_max: 10_000, ..Config::default() });
    (0..2).for_each(|source| case.failover.begin(0, source));
    case.number(0, 0);
    case.number(1, 0);
    case.loses(0);
    for n in 2..1_000 {
        case.number(0, n);
        assert!(case.failover.waiting_bytes() <= 10_000);
    }
    assert_eq!(case.ear.0[1], lost(1, 1));
    assert_eq!(case.ear.firsts().len(), 999);
    // The source that was behind is a source like any other.
    case.number(1, 1);
    case.number(1, 1_000);
    assert_eq!(case.ear.firsts(), [1_000]);
}

#[test]
fn as_they_arrive_gaps_are_filled_late_and_told_when_the_time_is_over() {
    let mut case = Case::new(Config { order: Order::Arrival, ..Config::default() });
    (0..2).for_each(|source| case.failover.begin(0, source));
    case.number(0, 0);
    case.number(1, 0);
    case.loses(0);
    case.loses(0);
    case.number(0, 3);
    assert_eq!(case.ear.firsts(), [0, 3]);
    case.now = SECOND;
    case.number(1, 1);
    assert_eq!(case.ear.firsts(), [1]);
    assert_eq!(case.failover.timeout(), Some(10 * SECOND));
    case.failover.on_timer(10 * SECOND, &mut case.ear);
    assert_eq!(case.ear.0, [lost(2, 1)]);
    case.ear.0.clear();
    // Once it is told lost it does not come any more.
    case.number(1, 2);
    assert_eq!(case.ear.firsts(), []);
}
