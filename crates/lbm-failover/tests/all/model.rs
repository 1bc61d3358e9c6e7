//! Against a naive model: what some source has brought is delivered once, what none has is lost, what none has sent is neither.

use std::collections::BTreeSet;

use lbm_failover::{Config, Failover, Mark, Number, Order, Way};
use proptest::prelude::*;

use crate::{Ear, News, hear};

/// Numbers that are sent: those of the steps that are left out are not.
fn numbers(start: u64, steps: &[u8]) -> Vec<u64> {
    let mut next = start;
    let mut number = |step: &u8| {
        let number = next;
        next = next.wrapping_add(u64::from(step.saturating_sub(8)) + 1);
        number
    };
    steps.iter().map(&mut number).collect()
}

fn run(order: Order, wide: bool, start: u64, steps: &[u8], turns: &[(u8, u8)], sources: u32) {
    let number = |n: u64| if wide { Number::Bits64(n) } else { Number::Bits32(n as u32) };
    let sent = numbers(start, steps);
    let mut failover = Failover::new(Config { order, gap_ns: 1_000, ..Config::default() });
    let (mut ear, mut at) = (Ear::default(), vec![0usize; sources as usize]);
    // Places in the list of numbers that some source has brought, and pairs of neighbours that one has brought in sequence.
    let (mut brought, mut neighbours) = (BTreeSet::new(), BTreeSet::new());
    let mut last_brought = vec![None; sources as usize];
    (0..sources).for_each(|source| failover.begin(0, source));
    for (which, fate) in turns {
        let source = u32::from(*which) % sources;
        let place = &mut at[source as usize];
        let Some(n) = sent.get(*place).copied() else { continue };
        if fate % 5 != 0 {
            brought.insert(*place);
            if last_brought[source as usize].replace(*place).is_some_and(|last: usize| last + 1 == *place) {
                neighbours.insert(*place);
            }
            let mark = Mark::new(number(n));
            hear(&mut failover, 0, (source, *place as u32), Some(mark), &n.to_be_bytes(), &mut ear);
        }
        *place += 1;
    }
    failover.on_timer(2_000, &mut ear);
    failover.check_invariants();
    assert_eq!(failover.timeout(), None, "nothing waits for ever");

    let place_of = |value: u64| sent.iter().position(|n| number(*n).value() == value);
    let (mut delivered, mut lost) = (Vec::new(), BTreeSet::new());
    for told in &ear.0 {
        match told {
            News::Message { way: Way::First(mark), payload, .. } => {
                let place = place_of(mark.number.value()).expect("a number that was sent");
                assert_eq!(payload[..], sent[place].to_be_bytes());
                assert!(!delivered.contains(&place), "{place} twice");
                delivered.push(place);
            }
            News::Lost(gap) => {
                for i in 0..gap.count {
                    assert!(lost.insert(gap.first.offset(i).value()), "lost twice");
                }
            }
            other => panic!("{other:?}"),
        }
    }
    // Who begins in the middle has nothing from before.
    let first = delivered.first().copied().unwrap_or(usize::MAX);
    let expected: Vec<usize> = brought.iter().copied().filter(|place| *place >= first).collect();
    if order == Order::InOrder {
        assert_eq!(delivered, expected, "all of it, in order");
    } else {
        let mut sorted = delivered.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected, "all of it");
    }
    let last = expected.last().copied().unwrap_or(0);
    for place in first.min(last)..last {
        let is_lost = lost.remove(&number(sent[place]).value());
        assert_eq!(is_lost, !brought.contains(&place), "place {place} is told lost if nobody brought it");
        // What lies between two neighbours that one source has brought was left out on purpose, and nothing is said of it.
        let mut between = number(sent[place]).offset(1);
        while between != number(sent[place + 1]) {
            let is_lost = lost.remove(&between.value());
            assert!(!is_lost || !neighbours.contains(&(place + 1)), "{between} was never sent");
            between = between.offset(1);
        }
    }
    assert!(lost.is_empty(), "lost and never sent: {lost:?}");
    let stats = failover.stats();
    assert_eq!(stats.delivered as usize, delivered.len());
    assert_eq!((stats.differing, stats.malformed, stats.too_far), (0, 0, 0));
}

proptest! {
    #[test]
    fn what_one_source_brings_is_delivered(
        arrival: bool,
        wide: bool,
        start in prop_oneof![Just(0), Just(u64::from(u32::MAX) - 5), Just(u64::MAX - 5), any::<u64>()],
        steps in proptest::collection::vec(0u8..12, 1..60),
        turns in proptest::collection::vec((any::<u8>(), any::<u8>()), 1..240),
        sources in 1u32..4,
    ) {
        let order = if arrival { Order::Arrival } else { Order::InOrder };
        run(order, wide, start, &steps, &turns, sources);
    }
}
