//! Kills at seeded moments: `QUOTEWAY_SEED=n` repeats one run, `QUOTEWAY_KILLS=n` makes so many runs.

use lbm_trials::seeds::{Random, each_kill};

use crate::processes::{Record, Role, StoreProcess, lines, with_stores};
use crate::roles;

/// Lives of the source in one run, each with so many messages at most.
const LIVES: u64 = 4;
const MESSAGES: u64 = 600;

/// A run: in each life of the source, somebody is killed after a number of lines that the seed has chosen.
fn run(seed: u64, count: usize) {
    let mut random = Random::new(seed);
    let transport = ["lbtrm", "tcp", "lbtru"][random.below(3) as usize];
    let lines = lines(transport);
    let mut stores: Vec<StoreProcess> = (0..count).map(|_| StoreProcess::start(&lines, true)).collect();
    let options = with_stores(&lines, &stores);
    let mut record = Record::default();
    let mut receiver = begin_receiver(&options, &mut record);
    for life in 1..=LIVES {
        let more = [(roles::LIFE, life.to_string()), (roles::COUNT, MESSAGES.to_string())];
        let mut source = Role::start("source", &options, &more);
        for _ in 0..3 {
            (0..random.below(150)).for_each(|_| drop(source.wait_for("stable", &mut record)));
            match random.below(3) {
                0 => {
                    receiver.kill(&mut record);
                    receiver = begin_receiver(&options, &mut record);
                }
                1 => {
                    let store = random.below(count as u64) as usize;
                    stores[store].kill();
                    stores[store].begin();
                }
                // Lines that the receiver has said meanwhile are read, so that it never waits for us.
                _ => record.read(&mut receiver),
            }
        }
        if life < LIVES {
            source.kill(&mut record);
        } else {
            source.wait_for("done", &mut record);
            record.wait_for_stable(&mut receiver);
        }
    }
    record.check(&format!("seed {seed}"));
    assert!(record.stable.len() as u64 >= MESSAGES, "seed {seed}: {}", record.stable.len());
}

fn begin_receiver(options: &str, record: &mut Record) -> Role {
    record.begin_receiver();
    let mut receiver = Role::start("receiver", options, &[]);
    receiver.wait_for("ready", record);
    receiver
}

#[test]
fn kills_of_store_source_and_receiver_lose_nothing_that_is_stable() {
    each_kill(3, |seed| run(seed, 1));
}

#[test]
fn kills_with_a_quorum_of_three_lose_nothing_that_is_stable() {
    each_kill(2, |seed| run(seed + 1_000, 3));
}
