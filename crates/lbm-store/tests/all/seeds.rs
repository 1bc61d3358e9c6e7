//! Worlds by seed: `QUOTEWAY_SEED=n` runs one, `QUOTEWAY_SEEDS=n` so many.

use crate::world::{Setup, World};

fn each_seed(count: u64, run: impl Fn(u64)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("QUOTEWAY_SEED") {
        return run(seed);
    }
    (1..=number("QUOTEWAY_SEEDS").unwrap_or(count)).for_each(run);
}

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
    each_seed(80, |seed| drop(run(seed, Setup::default())));
}

#[test]
fn one_durable_store_loses_nothing_that_is_stable() {
    each_seed(30, |seed| drop(run(seed, Setup { stores: 1, ..Setup::default() })));
}

#[test]
fn stores_in_memory_that_are_cut_off_lose_nothing_that_is_stable() {
    each_seed(30, |seed| drop(run(seed, Setup { durable: false, ..Setup::default() })));
}
