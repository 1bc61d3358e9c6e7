//! LBT-RM by seed. `QUOTEWAY_SIM_SEEDS` is how many per scenario (default 12), `QUOTEWAY_SIM_SEED` one to replay.

use sim::lbm::{Outcome, Scenario, run};
use sim::net::Link;

const MS: u64 = 1_000_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs a scenario with many seeds; a failure names the command that replays it.
fn seeds(test: &str, scenario: &Scenario) -> Outcome {
    let (first, count) =
        number("QUOTEWAY_SIM_SEED").map_or_else(|| (0, number("QUOTEWAY_SIM_SEEDS").unwrap_or(12)), |seed| (seed, 1));
    let mut total = Outcome::default();
    for seed in first..first + count {
        let outcome = std::panic::catch_unwind(|| run(seed, scenario)).unwrap_or_else(|panic| {
            let what = panic.downcast_ref::<String>().map_or("", String::as_str);
            panic!("seed {seed}: {what}\nreplay: QUOTEWAY_SIM_SEED={seed} cargo test -p sim --test all {test}");
        });
        total.delivered += outcome.delivered;
        total.lost += outcome.lost;
        total.packets_lost += outcome.packets_lost;
        total.retransmissions += outcome.retransmissions;
        total.naks += outcome.naks;
        total.lost_to_all += outcome.lost_to_all;
    }
    total
}

fn link(loss_percent: u32) -> Link {
    Link { delay_ns: 50_000, jitter_ns: 100_000, loss: loss_percent * 10_000, ..Link::default() }
}

#[test]
fn a_good_network_repairs_nothing() {
    let scenario = Scenario { link: Link { delay_ns: 50_000, ..Link::default() }, ..Scenario::default() };
    let outcome = seeds("a_good_network_repairs_nothing", &scenario);
    assert_eq!((outcome.lost, outcome.retransmissions, outcome.packets_lost), (0, 0, 0));
    assert!(outcome.delivered > 0);
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    let scenario = Scenario { link: link(10), restarts: 2_000, lossless: false, ..Scenario::default() };
    assert_eq!(run(7, &scenario), run(7, &scenario));
    assert_ne!(run(7, &scenario), run(8, &scenario));
}

#[test]
fn loss_is_repaired() {
    for loss in [1, 5, 20, 30] {
        let scenario = Scenario { link: link(loss), ..Scenario::default() };
        let outcome = seeds("loss_is_repaired", &scenario);
        assert!(outcome.retransmissions > 0 && outcome.delivered > 0, "{outcome:?}");
        assert_eq!(outcome.lost, 0);
    }
}

#[test]
fn duplication_and_reordering_change_nothing() {
    let link = Link { delay_ns: 50_000, jitter_ns: 20 * MS, duplication: 200_000, loss: 50_000, ..Link::default() };
    let scenario = Scenario { link, receivers: 3, ..Scenario::default() };
    assert_eq!(seeds("duplication_and_reordering_change_nothing", &scenario).lost, 0);
}

#[test]
fn bursts_and_wrap() {
    let link = Link { burst: 10_000, burst_ns: 40 * MS, ..link(2) };
    let scenario = Scenario { link, wrap: true, senders: 2, ..Scenario::default() };
    assert_eq!(seeds("bursts_and_wrap", &scenario).lost, 0);
}

#[test]
fn restarts_begin_anew() {
    // Messages that a sender which is gone had not repaired yet are lost, and reported.
    let scenario = Scenario { link: link(5), restarts: 5_000, senders: 2, lossless: false, ..Scenario::default() };
    let outcome = seeds("restarts_begin_anew", &scenario);
    assert!(outcome.delivered > 0 && outcome.delivered > outcome.lost * 100, "{outcome:?}");
}

/// The deadline is too short for so much loss: what is not delivered is reported, once.
#[test]
fn what_cannot_be_repaired_is_reported_once() {
    let mut scenario = Scenario { link: link(30), lossless: false, wrap: true, ..Scenario::default() };
    scenario.receiver.nak_generation_interval_ns = 15 * MS;
    let outcome = seeds("what_cannot_be_repaired_is_reported_once", &scenario);
    assert!(outcome.lost > 0 && outcome.delivered > 0, "{outcome:?}");
}

/// A window that holds less than a partition's messages.
#[test]
fn partitions_beyond_the_window() {
    let mut scenario = Scenario {
        link: link(2),
        lossless: false,
        partitions: (5_000, 900 * MS),
        messages: 2_000,
        interval_ns: 400_000,
        receivers: 3,
        ..Scenario::default()
    };
    scenario.sender.window_size = 65_536;
    let outcome = seeds("partitions_beyond_the_window", &scenario);
    assert!(outcome.lost > 0 && outcome.delivered > 0, "{outcome:?}");
}

/// Both rate limits bite; nothing is lost, and sends that would have blocked are repeated.
#[test]
fn rate_limits_delay_and_lose_nothing() {
    let mut scenario = Scenario { link: link(5), ..Scenario::default() };
    scenario.sender.data_rate_limit_bps = 4_000_000;
    scenario.sender.retransmit_rate_limit_bps = 400_000;
    let outcome = seeds("rate_limits_delay_and_lose_nothing", &scenario);
    assert_eq!(outcome.lost, 0);
}

#[test]
fn few_slots_and_little_room_to_hold() {
    let mut scenario = Scenario {
        link: Link { burst: 5_000, burst_ns: 100 * MS, ..link(5) },
        lossless: false,
        messages: 1_500,
        ..Scenario::default()
    };
    scenario.receiver.reach = 64;
    scenario.receiver.held_max = 4_000;
    let outcome = seeds("few_slots_and_little_room_to_hold", &scenario);
    assert!(outcome.delivered > 0, "{outcome:?}");
}

/// 50,000 messages a second at 1, 5 and 20 % loss. What makes it possible: the ignore interval is half of the shortest backoff, so
/// that a NAK for a lost repair is not ignored; the suppress interval is short; the deadline gives dozens of tries; the window holds
/// what is sent until the deadline.
#[test]
fn fifty_thousand_a_second_lose_nothing() {
    for loss in [1, 5, 20] {
        let mut scenario =
            Scenario { link: link(loss), messages: 5_000, interval_ns: 20_000, length_max: 64, ..Scenario::default() };
        scenario.sender.window_size = 24 << 20;
        scenario.sender.batching_minimum_length = 1;
        scenario.sender.ignore_interval_ns = 5 * MS;
        scenario.receiver.nak_initial_backoff_interval_ns = 5 * MS;
        scenario.receiver.nak_backoff_interval_ns = 20 * MS;
        scenario.receiver.nak_suppress_interval_ns = 20 * MS;
        let outcome = seeds("fifty_thousand_a_second_lose_nothing", &scenario);
        assert!(outcome.delivered > 0 && outcome.lost == 0, "{outcome:?}");
    }
}

/// Late join and off-transport recovery: the transport gives up early, receivers restart, and still everybody gets everything from
/// the first message on.
#[test]
fn what_is_retained_is_fetched() {
    let mut scenario = Scenario {
        link: Link { burst: 5_000, burst_ns: 60 * MS, ..link(20) },
        receivers: 3,
        restarts: 8_000,
        steady_senders: true,
        fetch: true,
        wrap: true,
        ..Scenario::default()
    };
    scenario.receiver.nak_generation_interval_ns = 15 * MS;
    let outcome = seeds("what_is_retained_is_fetched", &scenario);
    assert!(outcome.delivered > 0 && outcome.lost == 0, "{outcome:?}");
}

/// Late join and recovery with room for few messages of a topic, and from sources that retain few: what is not there is lost, and said to
/// be.
#[test]
fn what_is_fetched_beyond_the_room_for_it_is_reported_once() {
    for fetch_entries in [0, 3, 5, 8, 20] {
        let mut scenario = Scenario {
            link: Link { burst: 5_000, burst_ns: 60 * MS, ..link(20) },
            restarts: 8_000,
            steady_senders: true,
            lossless: false,
            fetch: true,
            fetch_entries,
            retained: 4_000,
            ..Scenario::default()
        };
        scenario.receiver.nak_generation_interval_ns = 15 * MS;
        let outcome = seeds("what_is_fetched_beyond_the_room_for_it_is_reported_once", &scenario);
        assert!(outcome.delivered > 0, "{outcome:?}");
    }
}

/// Desktops on one multicast: each datagram that a switch loses is missed by all of them, and one repetition serves them all. NAKs do not grow
/// as they do: who waits longer has seen the repetition before it would ask.
#[test]
fn naks_of_very_many_receivers_are_few() {
    let naks = |receivers: u32, backoff_ms: u64| {
        let usual = Scenario::default();
        let receiver = lbm::transport::ReceiverConfig {
            nak_initial_backoff_interval_ns: backoff_ms * MS,
            nak_backoff_interval_ns: 4 * backoff_ms * MS,
            nak_suppress_interval_ns: 4 * backoff_ms * MS,
            ..usual.receiver.clone()
        };
        let scenario = Scenario { receivers, receiver, link: link(0), shared_loss: 100_000, messages: 100, ..usual };
        let outcome = run(1, &scenario);
        assert!(outcome.lost_to_all > 3 && outcome.lost == 0, "{outcome:?}");
        outcome.naks as f64 / outcome.lost_to_all as f64
    };
    let (few, many, hasty) = (naks(10, 50), naks(100, 50), naks(100, 5));
    println!(
        "NAKs a lost datagram: 10 receivers {few:.1}, 100 receivers {many:.1}, and {hasty:.1} where they wait for 5 ms"
    );
    assert!(many < 3.0 * few, "{many:.1} for the common losses of 100 receivers, {few:.1} for those of 10");
    assert!(many < hasty / 2.0, "{many:.1} beside {hasty:.1}");
}
