//! The observer against a naive oracle, and its file.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::analysis::{Distribution, Percentile, analyse};
use super::*;

#[test]
fn what_is_recorded_comes_back_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sent");
    let mut observer = Observer::new(End::Sender, &Plan { capacity: 3, every: 1, connections: 1 });
    assert!(observer.is_empty() && observer.cost_ns() > 0.0);
    let before = net::clock::now();
    for n in 0..5 {
        observer.sent(id_of(7, n), u64::from(n));
    }
    observer.save(&path).unwrap();
    let (head, sent) = read_sent(&path).unwrap();
    assert_eq!((head.records, head.missed, head.every, head.clock.as_str()), (3, 2, 1, CLOCK));
    let ids: Vec<(u64, u64)> = sent.iter().map(|s| (s.id, s.intended)).collect();
    assert_eq!(ids, [(7 << 32, 0), (7 << 32 | 1, 1), (7 << 32 | 2, 2)]);
    assert!(sent.iter().all(|s| s.at >= before && s.at <= net::clock::now()));

    assert!(read_received(&path).unwrap_err().to_string().contains("other end"));
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 8]).unwrap();
    assert!(read_sent(&path).unwrap_err().to_string().contains("cut off"));
    std::fs::write(&path, "{}").unwrap();
    assert!(read_sent(&path).unwrap_err().to_string().contains("no file of an observer"));
}

#[test]
fn both_ends_choose_the_same_messages_and_all_items_alike() {
    let plan = Plan { capacity: 10_000, every: 7, connections: 1 };
    let (mut sender, mut receiver) = (Observer::new(End::Sender, &plan), Observer::new(End::Receiver, &plan));
    for number in 0..70 {
        for item in 0..10 {
            sender.sent(id_of(item, number), 0);
            receiver.received(id_of(item, number));
        }
    }
    assert_eq!((sender.len(), receiver.len()), (100, 100));
    let sent: HashSet<u64> = sender.words.chunks(3).map(|w| w[0]).collect();
    assert_eq!(sent, receiver.words.chunks(2).map(|w| w[0]).collect());
    for item in 0..10 {
        assert_eq!(sent.iter().filter(|id| (*id >> 32) == item).count(), 10);
    }
}

#[test]
fn the_slowest_are_listed_and_each_second_is_counted() {
    const MS: u64 = 1_000_000;
    // A thousand a second for 3.5 s, 20 us each; twelve of them late, each later than the one before.
    let late = |n: u64| n % 250 == 249 && n < 3_000;
    let sent: Vec<Sent> = (0..3_500).map(|n| Sent { id: id_of(1, n as u32), at: n * MS, intended: n * MS }).collect();
    let took = |n: u64| if late(n) { 100_000 + n } else { 20_000 };
    let received: Vec<Received> =
        (0..3_500).map(|n| Received { id: id_of(1, n as u32), at: n * MS + took(n) }).collect();
    let analysis = analyse(&sent, &[received], 1);
    assert_eq!(analysis.each_second, [1_000.0, 1_000.0, 1_000.0]);
    let counted: Vec<u64> = (0..3_500).filter(|n| late(*n) && *n as f64 / 1e3 >= analysis.discarded_s).collect();
    let wanted: Vec<(u64, u64)> = counted.iter().rev().take(10).map(|n| (*n, took(*n))).collect();
    let listed: Vec<(u64, u64)> =
        analysis.outliers.iter().map(|o| ((o.at_s * 1e3).round() as u64, (o.us * 1e3).round() as u64)).collect();
    assert_eq!(listed, wanted);
}

#[test]
fn items_have_keys_of_their_own() {
    assert_eq!((item_key("RDT0"), item_key("RDT99999"), item_key("12")), (0, 99_999, 12));
    let named: HashSet<u32> = ["IBM.N", "TRI.N", "", "X99999999999", "GOOG.O"].map(item_key).into();
    assert!(named.len() == 5 && named.iter().all(|key| *key >= 1 << 31));
}

#[test]
fn a_late_sender_shows_in_the_latency_from_the_intended_time_only() {
    // One message a millisecond, 20 us on the way; from the 2,000th on the sender stalls for 10 ms.
    let stall = |n: u64| if (2_000..2_010).contains(&n) { 2_010_000_000 } else { n * 1_000_000 };
    let sent: Vec<Sent> =
        (0..4_000).map(|n| Sent { id: id_of(1, n as u32), at: stall(n), intended: n * 1_000_000 }).collect();
    let got: Vec<Received> = sent.iter().map(|s| Received { id: s.id, at: s.at + 20_000 }).collect();
    let a = analyse(&sent, &[got], 1);
    assert_eq!((a.lost, a.unknown, a.out_of_order, a.in_flight, a.discarded), (0, 0, 0, 0, 0));
    assert!(a.is_steady && (a.from_call.max_us - 20.0).abs() < 1e-9);
    assert!((a.latency.max_us - 10_020.0).abs() < 1e-9 && (a.latency.median_us - 20.0).abs() < 1e-9);
    assert!((a.lateness.max_us - 10_000.0).abs() < 1e-9 && (a.latency.p9999_us - 10_020.0).abs() < 1e-9);
    assert!((a.sent_per_s - 1_000.0).abs() < 15.0, "{}", a.sent_per_s);
}

#[test]
fn losses_order_and_strangers_are_told_apart() {
    let sent: Vec<Sent> = (0..10).map(|n| Sent { id: id_of(1, n), at: u64::from(n), intended: u64::from(n) }).collect();
    let got = |ids: &[u32]| ids.iter().map(|&n| Received { id: id_of(1, n), at: 100 }).collect::<Vec<_>>();
    // 3 is lost, 8 and 9 are under way, 5 comes after 6, 77 was never sent; both receivers get most of them.
    let a = analyse(&sent, &[got(&[0, 1, 2, 4, 6, 5, 7]), got(&[0, 0, 1, 77])], 1);
    assert_eq!((a.sent, a.received, a.lost, a.in_flight, a.unknown, a.out_of_order), (10, 11, 1, 2, 1, 1));
    let nothing = analyse(&[], &[], 1);
    assert_eq!((nothing.sent, nothing.windows.len()), (0, 0));
    assert_eq!(analyse(&sent, &[Vec::new()], 1).in_flight, 10);
}

#[test]
fn a_receiver_that_is_behind_has_lost_nothing() {
    // Items 1 and 2 by turns, each for one receiver; the second is 20 messages behind when the test ends.
    let sent: Vec<Sent> =
        (0..100).map(|n| Sent { id: id_of(1 + n % 2, 1 + n / 2), at: u64::from(n), intended: u64::from(n) }).collect();
    let got = |item: u32, until: u32| -> Vec<Received> {
        (1..=until).map(|n| Received { id: id_of(item, n), at: 1_000 }).collect()
    };
    let a = analyse(&sent, &[got(1, 50), got(2, 30)], 1);
    assert_eq!((a.lost, a.in_flight, a.unknown), (0, 20, 0));
    let mut holed = got(2, 30);
    holed.remove(9);
    let a = analyse(&sent, &[got(1, 50), holed], 1);
    assert_eq!((a.lost, a.in_flight), (1, 20));
    // An item that nobody has got any of should have come before the slowest was so far.
    let a = analyse(&sent, &[got(1, 50), Vec::new()], 1);
    assert_eq!((a.lost, a.in_flight), (0, 50));
    let other = Sent { id: id_of(3, 1), at: 0, intended: 0 };
    let all: Vec<Sent> = [other].into_iter().chain(sent).collect();
    assert_eq!(analyse(&all, &[got(1, 50), got(2, 30)], 1).lost, 1);
}

#[test]
fn the_slow_start_is_discarded_and_shown() {
    // 40 windows of 100 ms: the first ten at half the rate and four times the latency.
    let mut sent = Vec::new();
    let mut at = 0u64;
    while at < 4_000_000_000 {
        sent.push(Sent { id: id_of(1, sent.len() as u32), at, intended: at });
        at += if at < 1_000_000_000 { 200_000 } else { 100_000 };
    }
    let late = |s: &Sent| if s.at < 1_000_000_000 { 400_000 } else { 100_000 };
    let got: Vec<Received> = sent.iter().map(|s| Received { id: s.id, at: s.at + late(s) }).collect();
    let a = analyse(&sent, &[got], 1);
    assert!(a.is_steady && (a.discarded_s - 1.0).abs() < 0.11, "{}", a.discarded_s);
    assert!((4_900..=5_600).contains(&a.discarded), "{}", a.discarded);
    assert!((a.latency.max_us - 100.0).abs() < 1e-9 && (a.received_per_s - 10_000.0).abs() < 20.0);
    assert_eq!(a.windows.len(), steady::WINDOWS);
    assert!((a.windows[0].median_us - 400.0).abs() < 1e-9);
}

/// Everything by definition, as slowly as it may be.
fn oracle(mut nanos: Vec<u64>) -> (f64, f64, f64, HashMap<u64, u64>) {
    nanos.sort_unstable();
    let at = |share: f64| {
        // The least value that at least this share of all values do not exceed.
        let enough = |v: &u64| nanos.iter().filter(|n| *n <= v).count() as f64 >= share * nanos.len() as f64;
        *nanos.iter().find(|v| enough(v)).unwrap() as f64 / 1e3
    };
    let mut buckets = HashMap::new();
    for n in &nanos {
        *buckets.entry(n / 10_000).or_insert(0) += 1;
    }
    (at(0.5), at(0.99), at(0.999), buckets)
}

proptest! {
    #[test]
    fn distributions_are_what_their_definition_says(nanos in prop::collection::vec(0u64..3_000_000, 1..300)) {
        let d = Distribution::of(nanos.clone());
        let (median, p99, p999, buckets) = oracle(nanos.clone());
        prop_assert_eq!((d.median_us, d.p99_us, d.p999_us), (median, p99, p999));
        prop_assert_eq!(d.buckets.into_iter().collect::<HashMap<_, _>>(), buckets);
        let mean = nanos.iter().map(|&n| n as f64 / 1e3).sum::<f64>() / nanos.len() as f64;
        let variance = nanos.iter().map(|&n| (n as f64 / 1e3 - mean).powi(2)).sum::<f64>() / nanos.len() as f64;
        prop_assert!((d.mean_us - mean).abs() < 1e-6 && (d.stddev_us - variance.sqrt()).abs() < 1e-6);
        let ends = (*nanos.iter().min().unwrap(), *nanos.iter().max().unwrap());
        prop_assert_eq!(((d.min_us * 1e3).round() as u64, (d.max_us * 1e3).round() as u64), ends);
        let hdr = Distribution::hdr(&nanos);
        prop_assert!((hdr.value_at_quantile(0.5) as f64 / 1e3 - median).abs() <= 0.002 + median * 0.002);
        // The curve rises to the last sample, and each point says what it stands for.
        let points = Percentile::all(&hdr);
        let last = points.last().unwrap();
        prop_assert!((last.share - 1.0).abs() < 1e-9 && last.count == nanos.len() as u64);
        prop_assert!((last.us - d.max_us).abs() <= 0.002 + d.max_us * 0.002);
        prop_assert!(points.windows(2).all(|w| w[0].share <= w[1].share && w[0].us <= w[1].us && w[0].count <= w[1].count));
        for point in points {
            let below = nanos.iter().filter(|n| **n as f64 / 1e3 <= point.us).count() as u64;
            prop_assert!(point.count.abs_diff(below) <= nanos.len() as u64 / 50 + 3, "{point:?} {below}");
        }
    }

    #[test]
    fn losses_are_those_that_a_naive_count_finds(
        fates in prop::collection::vec((any::<bool>(), 0u64..5_000), 1..200),
        copies in 1usize..4,
    ) {
        let sent: Vec<Sent> = fates.iter().enumerate().map(|(n, (_, late))| {
            let intended = n as u64 * 1_000;
            Sent { id: id_of(n as u32 % 5, n as u32 / 5), at: intended + late, intended }
        }).collect();
        let arrived = |(s, (keep, _)): (&Sent, &(bool, u64))| keep.then_some(Received { id: s.id, at: s.at + 777 });
        let got: Vec<Received> = sent.iter().zip(&fates).filter_map(arrived).collect();
        let a = analyse(&sent, &vec![got.clone(); copies], 1);
        let until = fates.iter().rposition(|(keep, _)| *keep).map_or(0, |n| n + 1);
        let lost = fates[..until].iter().filter(|(keep, _)| !keep).count() as u64;
        prop_assert_eq!((a.lost, a.in_flight, a.out_of_order), (lost, (fates.len() - until) as u64, 0));
        prop_assert_eq!(a.received, (got.len() * copies) as u64);
        if !a.is_steady && until > 0 {
            prop_assert_eq!(a.latency.samples, a.received);
            prop_assert!(a.from_call.samples == 0 || (a.from_call.max_us - 0.777).abs() < 1e-9);
        }
    }
}
