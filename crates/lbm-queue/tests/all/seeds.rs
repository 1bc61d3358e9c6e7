//! Worlds by seed: `QUOTEWAY_SEED=n` runs one, `QUOTEWAY_SEEDS=n` so many (`QUOTEWAY_SEEDS=10000 cargo test -p lbm-queue --test all kills_freezes`
//! is the number that the goal names).

use std::collections::HashMap;

use lbm_trials::seeds::each_seed;

use crate::world::{Setup, World};

fn run(seed: u64, setup: Setup) -> World {
    let mut world = World::new(seed, setup);
    world.run();
    world.check(seed);
    world
}

#[test]
fn without_disturbance_each_message_is_consumed_once_in_each_set() {
    each_seed(20, |seed| {
        let world = run(seed, Setup { chaos_ms: 0, loss: 0, ..Setup::default() });
        for had in &world.had {
            assert_eq!(had.len() as u64, world.setup().messages, "seed {seed}");
            assert!(had.iter().all(|had| !had.again), "seed {seed}: nothing was assigned anew");
            let by: HashMap<_, _> = had.iter().map(|had| (had.index.clone(), had.by)).collect();
            assert!(had.iter().all(|had| by[&had.index] == had.by), "seed {seed}: an index stays with its receiver");
        }
        world.check_order(seed, true);
    });
}

#[test]
fn kills_freezes_partitions_and_loss_lose_nothing_and_double_nothing_without_its_mark() {
    each_seed(150, |seed| run(seed, Setup::default()).check_order(seed, false));
}

#[test]
fn messages_without_an_index_are_lost_and_doubled_as_little() {
    each_seed(60, |seed| drop(run(seed, Setup { indices: 0, sets: vec![4], ..Setup::default() })));
}

#[test]
fn after_a_kill_an_index_goes_on_in_order_at_another_receiver() {
    each_seed(60, |seed| {
        let setup = Setup { loss: 0, kills_only: true, work_ms: 2, ..Setup::default() };
        run(seed, setup).check_order(seed, true);
    });
}

#[test]
fn slow_receivers_and_a_small_flight_lose_nothing() {
    each_seed(30, |seed| drop(run(seed, Setup { flight_size: 3, work_ms: 300, messages: 60, ..Setup::default() })));
}
