//! Worlds by seed: `QUOTEWAY_SEED=n` runs one, `QUOTEWAY_SEEDS=n` so many.

use lbm_trials::seeds::each_seed;

use crate::world::{Setup, World};

fn run(seed: u64, setup: Setup) -> World {
    let mut world = World::new(seed, setup);
    world.run();
    world.check(seed);
    world
}

#[test]
fn without_disturbance_everything_is_delivered_once() {
    each_seed(20, |seed| {
        let world = run(seed, Setup { chaos_ms: 0, loss: 0, ..Setup::default() });
        for had in &world.had {
            assert_eq!(had.count.len() as u64, world.setup().messages, "seed {seed}");
            assert!(had.count.values().all(|count| *count == 1), "seed {seed}: nothing comes twice");
        }
    });
}

#[test]
fn what_the_transport_loses_comes_from_a_store() {
    each_seed(40, |seed| {
        let world = run(seed, Setup { chaos_ms: 0, loss: 100, stores: 1, ..Setup::default() });
        for had in &world.had {
            assert_eq!(had.count.len() as u64, world.setup().messages, "seed {seed}");
        }
    });
}

#[test]
fn kills_freezes_partitions_and_loss_lose_nothing_that_is_stable() {
    each_seed(150, |seed| drop(run(seed, Setup::default())));
}

/// Worlds that have found faults: by `kills`, each before the mending of its own.
#[test]
fn worlds_that_have_found_faults_find_no_more() {
    // A receiver registered, ended before it had begun, and was known by a place that it never had.
    let unknown = [247];
    // A store's answer to a question from before an incarnation, or from behind one that the receiver had not heard of.
    let crossed = [60, 757, 1_211, 2_836, 3_517, 7_629];
    // A source that counted on by itself had its own messages cut.
    let counting_on = [1_225, 22_248];
    // A source believed a store that had but heard of an incarnation; began with the count that it had told before.
    let hearsay = [1_752, 2_105, 4_294, 6_060, 7_604, 5_238];
    // A store had not yet what another one was about to have, and the receiver gave it up.
    let early = [7_375];
    let twice = [118, 205, 481, 927];
    for seed in [&unknown[..], &crossed, &counting_on, &hearsay, &early, &twice].concat() {
        drop(run(seed, Setup::default()));
    }
}

#[test]
fn one_durable_store_loses_nothing_that_is_stable() {
    each_seed(60, |seed| drop(run(seed, Setup { stores: 1, ..Setup::default() })));
}

#[test]
fn stores_in_memory_that_are_cut_off_lose_nothing_that_is_stable() {
    each_seed(60, |seed| drop(run(seed, Setup { durable: false, ..Setup::default() })));
}

#[test]
fn numbers_that_wrap_lose_nothing_that_is_stable() {
    each_seed(60, |seed| drop(run(seed, Setup { first: u32::MAX - 150, ..Setup::default() })));
}

#[test]
fn five_stores_lose_nothing_that_is_stable() {
    each_seed(30, |seed| drop(run(seed, Setup { stores: 5, ..Setup::default() })));
}

#[test]
fn what_is_stable_outlives_its_source() {
    each_seed(40, |seed| {
        let mut world = run(seed, Setup { proxy: true, ..Setup::default() });
        world.outlive();
        world.check_outlived(seed);
    });
}

/// A store had but heard of an incarnation that had no quorum, and told it to receivers as the source's.
#[test]
fn the_word_of_a_store_that_was_alone_does_not_outlive_the_source() {
    let mut world = run(1_184, Setup { proxy: true, ..Setup::default() });
    world.outlive();
    world.check_outlived(1_184);
}
